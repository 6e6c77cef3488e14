# SPDX-License-Identifier: Apache-2.0
"""The common part of both clients: connecting and reconnecting, reopening workspaces, calls, deadlines. It is written
as coroutines over a Port, which does the waiting. The asyncio client awaits them. The port of the blocking client
blocks instead of suspending, so each coroutine runs to its end at once."""

from __future__ import annotations

import collections
import base64
import contextlib
import secrets
import time
from typing import (IO, Any, AsyncContextManager, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple,
                    cast)

from ._archive import SCRIPT, Archive
from ._errors import (BadRequest, CertificateError, CloisterError, Closed, ConnectionLost, ExportFailed, ProtocolError, ServiceError,
                      ServiceNotFound)
from ._forward import Forward
from ._remote import Access, Opened
from ._sockets import Place, connect, places
from ._types import (CALL_MS, LONG_METHODS, READ_METHODS, READ_TOOLS, Busy, CallOptions, Moved, NotFound, Observation, ShuttingDown,
                     Workspace, WorkspaceNotFound)
from ._wire import Output, Pending, Retired, Told, Wire, service_error

OnOutput = Callable[[Output], None]
Progress = Callable[[int], None]  # is given how many bytes have been moved so far
PART_BYTES = 512 << 10  # of a file, in one request
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two attempts to connect
REPEATS = 3  # of a call with a key, each after a lost connection
KEY_WAIT_MS = 10_000  # how much longer than the client a call waits for it
FORGOTTEN_LATER = 64  # keys that the next calls name as no longer needed
WATCH_SECONDS = 365 * 86400.0
MOVES_IN_A_ROW = 4  # from host to host, for one request
IDLE_MS = 60_000  # an export on which no byte moves for so long ends
ERROR_BYTES = 4096  # of what its command says
READ_ON_BYTES, READ_ON_MS = 256 << 10, 60_000  # of a session's output, and how long one request waits for it
MOVED_MEANWHILE = "The connection was lost, and the workspace has moved to another host; the call may have run"
TRANSIENT = (ServiceNotFound, ConnectionLost, Busy, ShuttingDown)


class Port:
    """The socket of a connection, and how to wait for it."""

    access: Access

    def lock(self) -> AsyncContextManager[None]:
        """Held while a connection is being made."""
        raise NotImplementedError

    async def open(self, wire: Wire, candidates: Sequence[Place]) -> Place:
        """Connects the wire to the first of the candidates that answers; ServiceNotFound if there is none."""
        raise NotImplementedError

    async def settle(self, wire: Wire) -> None:
        """Lets the wire end, if the service has closed the connection."""
        raise NotImplementedError

    def begin(self, wire: Wire, method: str, params: Dict[str, Any]) -> Pending:
        raise NotImplementedError

    def abandon(self, pending: Pending) -> None:
        raise NotImplementedError

    def take(self, pending: Pending) -> List[Output]:
        raise NotImplementedError

    def take_one(self, pending: Pending) -> Output:
        raise NotImplementedError

    async def wait(self, pending: Pending, pieces: bool) -> None:
        """Waits until the request is done or, with pieces, until output has come. Raises NoAnswer at its deadline."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def close(self, wire: Wire, why: str) -> None:
        raise NotImplementedError


class _Opened:
    """An opened workspace: its parameters and its names."""

    def __init__(self, params: Dict[str, Any], result: Mapping[str, Any]) -> None:
        self.params = params
        self.names = {name for name in (params.get("root"), params.get("workspace"), result.get("workspace")) if name}
        self.tenant = result.get("tenant")
        self.keys = "key_horizon_ms" in result  # the service keeps keys there

    def is_named(self, params: Mapping[str, Any]) -> bool:
        return params.get("workspace") in self.names and params.get("tenant") in (None, self.tenant)


class _Elsewhere(ConnectionLost):
    """A call with a key was lost, and the host that knows the key refuses its workspace. The call may have run, so it must
    not be made at another host."""


def without_none(params: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


class Session:
    """A client's state, which outlives its connections."""

    def __init__(self, port: Port, path: Optional[str], wait: float, reconnect: Optional[float], answer_timeout: float,
                 retry_reads: bool, keys: bool, nodes: Optional[Mapping[str, str]]) -> None:
        self.port = port
        self._path = path
        self._wait, self._reconnect, self._answer_timeout = wait, reconnect, answer_timeout
        self._retry_reads, self._keys = retry_reads, keys
        self._nodes = dict(nodes or {})
        self._moves = 0  # to other hosts
        self._own: Set[Pending] = set()  # calls in flight with a key that the client made
        self._needless: Deque[Tuple[Optional[str], str]] = collections.deque(maxlen=FORGOTTEN_LATER)
        self._wire: Optional[Wire] = None
        self._found: Optional[Place] = None
        self._workspaces: List[_Opened] = []  # the default, if there is one, last
        self._default = False  # the last of them is the default
        self._closed = False

    # Connecting

    async def connect(self) -> Wire:
        """Returns a connection on which the workspaces are open."""
        async with self.port.lock():
            if self._closed:
                raise Closed("The client is closed; make another one")
            if self._wire and not self._wire.ended:
                await self.port.settle(self._wire)
            if not self._wire or self._wire.ended:
                self._wire = await self._connect()
            return self._wire

    async def _connect(self) -> Wire:
        if self._found and self._reconnect is None:
            raise ConnectionLost("The connection has ended, and the client was made without reconnect")
        patience = self._reconnect if self._found else self._wait
        deadline, pause = time.monotonic() + (patience or 0.0), FIRST_PAUSE
        while True:
            try:
                return await self._attempt()
            except TRANSIENT as error:
                left = deadline - time.monotonic()
                if left <= 0 or isinstance(error, (ProtocolError, CertificateError)):
                    raise
                asked = error.retry_after_ms if isinstance(error, ServiceError) else None
                await self.port.sleep(min(left, max(pause, (asked or 0) / 1000)))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _attempt(self, node: Optional[Place] = None) -> Wire:
        """node: the host that the work has moved to, where workspaces must be before they are opened."""
        wire = Wire()
        known = node or self._found
        found = await self.port.open(wire, [known] if known else places(self._path))
        try:
            for opened in self._workspaces:
                pending = self.port.begin(wire, "workspace.open", _existing(opened.params) if node else opened.params)
                pending.deadline = time.monotonic() + self._answer_timeout
                opened.keys = "key_horizon_ms" in _object(await self._answer(pending, None))
        except BaseException:
            self.port.close(wire, "The workspaces could not be opened again")
            raise
        self._found = found
        return wire

    async def _follow(self, moved: Moved, moves: int) -> None:
        """Connects to the host that the work has moved to, after as many moves, and opens the workspaces there. Raises
        moved where that cannot be done."""
        node = self._nodes.get(moved.node or "")
        async with self.port.lock():
            if self._moves != moves and not self._closed:
                return  # another thread or task has done it
            # The calls of other workspaces go on at the old host, and would end with the connection.
            if node is None or self._closed or (self._wire and not self._wire.ended and not self._wire.is_idle()):
                raise moved
            if self._wire:
                self.port.close(self._wire, "The client follows its workspace to another host")
            try:
                self._wire = await self._attempt(Place(node, True))
            except CloisterError as error:
                raise moved from error
            self._moves += 1

    def close(self) -> None:
        self._closed = True
        for pending in tuple(self._own):  # otherwise the service would wait for the client to come back
            self.port.abandon(pending)
        if self._wire:
            self.port.close(self._wire, "The program closed the client")

    # Requests

    async def start(self, method: str, params: Mapping[str, Any], moves: Optional[int] = None) -> Pending:
        """moves: those after which a call with a key was sent first; another host does not know the key."""
        if not isinstance(params, Mapping):
            raise BadRequest("params must be a mapping of names to values")
        sent = without_none(params)
        wire = await self.connect()
        if moves is not None and self._moves != moves:
            raise _Elsewhere(MOVED_MEANWHILE)
        if method == "tool.call" and "workspace" not in sent and self._workspaces and not self._default:
            # After a reconnection another workspace would be the connection's default.
            raise WorkspaceNotFound("The default workspace was closed; open one with workspace.open, or name one")
        pending = self.port.begin(wire, method, sent)
        pending.deadline = time.monotonic() + self._seconds(method, sent)
        return pending

    def _seconds(self, method: str, params: Mapping[str, Any]) -> float:
        """Returns how long an answer may take: the call's deadline, and what the client allows beyond it."""
        if method not in LONG_METHODS:
            return self._answer_timeout
        given = [CALL_MS]
        for name in ("options", "arguments"):
            table = params.get(name)
            value = table.get("timeout_ms") if isinstance(table, Mapping) else None
            if type(value) is int and value > 0:
                given.append(value)
        return min(given) / 1000 + self._answer_timeout

    async def finish(self, pending: Pending, on_output: Optional[OnOutput] = None) -> Any:
        """Waits for the answer, and gives output to the handler in the meantime."""
        result = await self._answer(pending, on_output)
        self._note(pending, result)
        return result

    async def _answer(self, pending: Pending, on_output: Optional[OnOutput]) -> Any:
        try:
            while True:
                await self.port.wait(pending, pieces=pending.streams)
                done = pending.done or pending.error
                for piece in self.port.take(pending):
                    if on_output:
                        on_output(piece)
                if done:
                    break
        except BaseException:
            self.port.abandon(pending)
            raise
        if pending.error:
            raise pending.error
        return pending.result

    async def piece(self, pending: Pending) -> Optional[Output]:
        """Returns the next piece of output; None after the last."""
        await self.port.wait(pending, pieces=True)
        if pending.pieces:
            return self.port.take_one(pending)
        if pending.error:
            raise pending.error
        return None

    def _note(self, pending: Pending, result: Any) -> None:
        """Remembers a workspace, to open it again."""
        params = pending.params
        if pending.method.startswith("workspace."):
            self._needless.clear()  # their workspace may have another name now
        if pending.method == "workspace.open":
            opened = _Opened(params, _object(result))
            self._workspaces = [other for other in self._workspaces if not other.names & opened.names
                                or other.tenant != opened.tenant] + [opened]
            self._default = True
        elif pending.method in ("workspace.close", "workspace.remove"):
            last = self._workspaces[-1] if self._workspaces and self._default else None
            closed = [other for other in self._workspaces
                      if (other.is_named(params) if "workspace" in params else other is last)]
            self._workspaces = [other for other in self._workspaces if other not in closed]
            self._default = self._default and last not in closed

    async def request(self, method: str, params: Mapping[str, Any], on_output: Optional[OnOutput] = None) -> Any:
        """Makes a request, and follows its workspace to other hosts."""
        for left in range(MOVES_IN_A_ROW if self._nodes else 0, -1, -1):
            moves = self._moves
            try:
                return await self._request(method, params, on_output)
            except Moved as moved:
                if left == 0:
                    raise
                await self._follow(moved, moves)
                if method == "workspace.open" and moved.exists:
                    params = _existing(params)
        raise AssertionError("the last attempt neither returned nor raised")

    async def _request(self, method: str, params: Mapping[str, Any], on_output: Optional[OnOutput]) -> Any:
        if self._keys and _wants_key(method, params):
            return await self._call_with_own_key(params, on_output)
        has_key = _has_key(method, params)
        left = REPEATS if has_key else int(self._retry_reads and _reads(method, params))
        moves, sent, unbegun = self._moves, False, REPEATS
        while True:
            again = has_key and sent
            try:
                pending = await self.start(method, params, moves if again else None)
                sent = True
                return await self.finish(pending, on_output)
            except Moved as moved:
                if again:
                    raise _Elsewhere(MOVED_MEANWHILE) from moved
                raise
            except Retired:
                if unbegun == 0 or self._closed:
                    raise
                unbegun -= 1
                continue
            except ConnectionLost as error:
                if left == 0 or self._closed or isinstance(error, _Elsewhere):
                    raise
            left -= 1

    # Calls with a key that the client made

    def _keeps_keys(self, workspace: Optional[str]) -> bool:
        """Whether the service said so when the call's workspace was opened."""
        if workspace is None:
            return self._default and self._workspaces[-1].keys
        return any(opened.keys for opened in self._workspaces if workspace in opened.names)

    async def _call_with_own_key(self, params: Mapping[str, Any], on_output: Optional[OnOutput]) -> Any:
        """Makes a call that may change something, and repeats it if the connection is lost."""
        key, workspace, moves = secrets.token_hex(16), params.get("workspace"), self._moves
        for sent, left in _countdown(REPEATS):
            try:
                await self.connect()
            except Moved as moved:
                if sent:
                    raise _Elsewhere(MOVED_MEANWHILE) from moved
                raise
            if not self._keeps_keys(workspace):
                if sent:
                    raise ConnectionLost("The connection was lost, and the service keeps no keys now; the call may have run")
                return await self.finish(await self.start("tool.call", params), on_output)
            pending = await self.start("tool.call", self._with_key(params, key, workspace), moves if sent else None)
            self._own.add(pending)
            try:
                result = await self.finish(pending, on_output)
            except Moved as moved:
                if sent:
                    raise _Elsewhere(MOVED_MEANWHILE) from moved
                raise
            except ConnectionLost as error:
                if isinstance(error, _Elsewhere) or left == 0 or self._closed:
                    raise
            else:
                self._needless.append((workspace, key))
                return result
            finally:
                self._own.discard(pending)
        raise AssertionError("the last attempt neither returned nor raised")

    def _with_key(self, params: Mapping[str, Any], key: str, workspace: Optional[str]) -> Dict[str, Any]:
        wait_ms = int((self._reconnect or 0.0) * 1000) + KEY_WAIT_MS
        options = {**(params.get("options") or {}), "key": key, "key_wait_ms": min(wait_ms, CALL_MS)}
        with contextlib.suppress(IndexError):  # another thread may have taken it
            if self._needless[0][0] == workspace:
                options["forget_key"] = self._needless.popleft()[1]
        return {**params, "options": options}

    async def workspace(self, workspace: str) -> Workspace:
        which = "root" if workspace.startswith("/") else "workspace"
        return cast(Workspace, _object(await self.request("workspace.open", {which: workspace})))

    async def call(self, params: Dict[str, Any], on_output: Optional[OnOutput]) -> Any:
        return _object(await self.request("tool.call", params, on_output))

    async def tool(self, tool: str, arguments: Mapping[str, Any], workspace: Optional[str],
                   options: Optional[CallOptions]) -> Any:
        """Returns the output of a tool. Raises the exception of its error if the tool failed."""
        if options and (options.get("reply") == "message" or options.get("stream")):
            raise BadRequest("The options reply and stream are for call and start_call")
        params = call_params(tool, without_none(arguments), None, options, workspace, None, False)
        return output_of(await self.call(params, None))

    # Files

    async def download(self, params: Mapping[str, Any], target: IO[bytes], progress: Optional[Progress]) -> Any:
        """Reads a file of the workspace into target, a part at a time: one that is written slowly is sent slowly."""
        pending = await self.start("file.read", {**params, "encoding": "base64"})
        moved = 0
        try:
            while (piece := await self.piece(pending)) is not None:
                target.write(piece.data)
                moved += len(piece.data)
                pending.deadline = time.monotonic() + self._seconds("file.read", params)
                if progress:
                    progress(moved)
        except BaseException:
            self.port.abandon(pending)
            raise
        return _object(pending.result)

    async def upload(self, params: Mapping[str, Any], source: IO[bytes], progress: Optional[Progress]) -> Any:
        """Writes what source has left to a file of the workspace; without the whole of it there is no file."""
        pending = await self.start("file.write", params)
        moved, closed = 0, False
        try:
            while not closed and not pending.error:
                part = source.read(PART_BYTES)
                pending.deadline = time.monotonic() + self._seconds("file.write", params)
                closed = await self._send_part(pending, part)
                moved += len(part)
                if progress:
                    progress(moved)
        except BaseException:
            self.port.abandon(pending)
            raise
        return _object(await self.finish(pending))

    async def _send_part(self, pending: Pending, part: bytes) -> bool:
        """Returns whether nothing more is to be sent: it was the last part, or the write has failed, and says why."""
        data = base64.b64encode(part).decode("ascii")
        try:
            taken = await self.input(pending, {"data": data, "encoding": "base64", "eof": not part})
        except NotFound:  # it was answered meanwhile
            return True
        return not part or taken.get("closed") is True

    async def export(self, target: IO[bytes], workspace: Optional[str], progress: Optional[Progress]) -> Any:
        """Writes the archive of a workspace into target."""
        archive, said, written = Archive(workspace or self._default_name()), b"", 0
        options: CallOptions = {"encoding": "base64", "keep_output": False, "idle_timeout_ms": IDLE_MS}
        params = call_params("run_command", {"command": SCRIPT}, None, options, workspace, CALL_MS, True)
        pending = await self.start("tool.call", params)
        try:
            while (piece := await self.piece(pending)) is not None:
                if piece.stream == "stderr":
                    said = (said + piece.data)[:ERROR_BYTES]
                    continue
                written += target.write(archive.feed(piece.data))
                pending.deadline = time.monotonic() + self._seconds("tool.call", params)
                if progress:
                    progress(written)
        except BaseException:
            self.port.abandon(pending)
            raise
        if output_of(_object(pending.result))["exit_code"] != 0:  # type: ignore[arg-type]
            raise ExportFailed(said.decode("utf-8", "replace").strip() or "The command that makes the archive failed")
        written += target.write(archive.end())
        return {"entries": archive.entries, "bytes": written, "left_out": archive.left_out}

    # Ports and sessions

    def _default_name(self) -> str:
        if not self._default:
            raise WorkspaceNotFound("No workspace is open; open one with workspace.open, or name one")
        opened = self._workspaces[-1].params
        return str(opened.get("workspace") or opened.get("root"))

    async def forward(self, port: int, workspace: Optional[str]) -> Forward:
        """Returns what is to be started."""
        await self.connect()
        name = workspace or self._default_name()
        known = [opened for opened in self._workspaces if name in opened.names]
        which = known[-1].params if known else {"root" if name.startswith("/") else "workspace": name}

        def make() -> Opened:
            return connect([self._found] if self._found else places(self._path), self.port.access)[0]
        return Forward(make, [("workspace.open", _existing(which)), ("workspace.forward", {"port": port})])

    async def read_on(self, attached: AttachedSession) -> List[Output]:
        """Returns output of a session, waiting for it; none at its end. A lost connection is only connected again."""
        lost = 0
        while not attached.end:
            params = {"session": attached.session, "after": attached.next, "max_bytes": READ_ON_BYTES, "wait_ms": READ_ON_MS,
                      "encoding": "base64"}
            try:
                read = await self.native("session.read", params)
            except ConnectionLost as error:
                lost += 1
                if lost > REPEATS or self._closed or isinstance(error, ProtocolError) or self._reconnect is None:
                    raise
                continue
            if attached.take(read):
                return attached.pieces
        return []

    # Watches

    async def watch(self, params: Mapping[str, Any]) -> Pending:
        """Returns the request of a directory that is watched from now on."""
        pending = await self.start("file.watch", params)
        await self.told(pending)
        pending.deadline = time.monotonic() + WATCH_SECONDS
        return pending

    async def told(self, pending: Pending) -> Optional[Any]:
        """Returns what is told next; None after the end that the client has asked for."""
        if pending.dropped:
            return None
        piece = await self.piece(pending)
        return piece.params if isinstance(piece, Told) else None

    async def native(self, method: str, params: Mapping[str, Any]) -> Any:
        return _object(await self.request(method, params))

    async def cancel(self, pending: Pending) -> bool:
        if pending.done or pending.wire.ended:
            return False
        asked = self.port.begin(pending.wire, "tool.cancel", {"id": pending.id})
        asked.deadline = time.monotonic() + self._answer_timeout
        return _object(await self._answer(asked, None)).get("cancelled") is True

    async def input(self, pending: Pending, params: Dict[str, Any]) -> Any:
        sent = self.port.begin(pending.wire, "tool.input", {"id": pending.id, **params})
        sent.deadline = pending.deadline
        return _object(await self._answer(sent, None))


class AttachedSession:
    """What has been read of a session. next: the cursor after it. lost_bytes: what was not kept for long enough to be read.
    end: the observation of the command, once it has ended and all was read."""

    def __init__(self, client: Session, session: str, after: int) -> None:
        self._client = client
        self.session, self.next, self.lost_bytes = session, after, 0
        self.end: Optional[Observation] = None
        self.pieces: List[Output] = []

    def take(self, read: Mapping[str, Any]) -> bool:
        """Returns whether there was output."""
        try:
            self.pieces = [Output(chunk["stream"], base64.b64decode(chunk["data"], validate=True)) for chunk in read["chunks"]]
            self.next, lost = int(read["next"]), int(read["lost_bytes"])
        except (KeyError, TypeError, ValueError):
            raise ProtocolError("The service sent output of a session without its members") from None
        self.lost_bytes += lost
        if not self.pieces:
            self.end = read.get("end")
        return bool(self.pieces)


def call_params(tool: Optional[str], arguments: Optional[Mapping[str, Any]], tool_call: Optional[Mapping[str, Any]],
                options: Optional[CallOptions], workspace: Optional[str], timeout_ms: Optional[int],
                stream: bool) -> Dict[str, Any]:
    """Returns the parameters of tool.call."""
    if (tool is None) == (tool_call is None) or (tool_call is not None and arguments is not None):
        raise BadRequest("A call has either tool and arguments or tool_call")
    all_options: Dict[str, Any] = dict(options or {})
    if all_options.get("stream_bytes"):
        raise BadRequest("This client takes output as JSON: leave the option stream_bytes out")
    if timeout_ms is not None:
        all_options["timeout_ms"] = timeout_ms
    if stream:
        all_options["stream"] = True
    return without_none({"tool": tool, "arguments": dict(arguments or {}) if tool is not None else None,
                         "tool_call": tool_call, "options": all_options or None, "workspace": workspace})


def message_options(options: Optional[CallOptions]) -> CallOptions:
    made = options.copy() if options else CallOptions()
    made["reply"] = "message"
    return made


def input_params(data: str, eof: bool, encoding: Optional[str]) -> Dict[str, Any]:
    return without_none({"data": data, "eof": eof, "encoding": encoding})


def output_of(observation: Observation) -> Dict[str, Any]:
    """Returns the output of an observation. Raises the exception of its error if the tool failed."""
    error = observation.get("error")
    if error:
        raise service_error(error.get("code"), str(error.get("message")), 0, cast(Dict[str, Any], error),
                            cast(Dict[str, Any], observation))
    output = observation.get("output")
    if not isinstance(output, dict):
        raise ProtocolError("The service sent an observation with neither an output nor an error")
    return output


def _object(result: Any) -> Dict[str, Any]:
    if not isinstance(result, dict):
        raise ProtocolError("The service sent a result that is no object")
    return result


def _existing(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the parameters of workspace.open that make no workspace: an empty one would hide that it was not moved."""
    return {**params, "create": False} if "workspace" in params else dict(params)


def _has_key(method: str, params: Mapping[str, Any]) -> bool:
    """The service runs a call with a key at most once, so the client may send it again."""
    options = params.get("options")
    return method == "tool.call" and isinstance(options, Mapping) and bool(options.get("key"))


def _reads(method: str, params: Mapping[str, Any]) -> bool:
    if method != "tool.call":
        return method in READ_METHODS
    call = params.get("tool_call")
    function = call.get("function") if isinstance(call, Mapping) else None
    tool = function.get("name") if isinstance(function, Mapping) else params.get("tool")
    return tool in READ_TOOLS


def _wants_key(method: str, params: Mapping[str, Any]) -> bool:
    """Whether a call may change something, and its whole result can be had again."""
    options = params.get("options") or {}
    return (method == "tool.call" and not _reads(method, params) and isinstance(options, Mapping)
            and not any(options.get(name) for name in ("key", "forget_key", "stdin_stream", "transaction"))
            and options.get("keep_output") is not False)


def _countdown(repeats: int) -> Iterator[Tuple[bool, int]]:
    """For each attempt: whether there was one before, and how many may follow."""
    for left in range(repeats, -1, -1):
        yield left < repeats, left
