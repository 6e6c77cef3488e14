# SPDX-License-Identifier: Apache-2.0
"""The blocking client. Threads may share it: while several wait, one of them reads the socket for all."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from types import TracebackType
from typing import IO, Any, AsyncIterator, Coroutine, Dict, Iterator, List, Mapping, Optional, Sequence, Type, TypeVar

from ._errors import NoAnswer
from ._forward import Forward
from ._methods import Methods
from ._remote import Access
from ._session import AttachedSession, OnOutput, Port, Progress, Session, call_params, input_params, message_options, without_none
from ._sockets import Place, connect, has_come
from ._types import CallOptions, Durability, Exported, FileEvent, FileRead, FileWritten, InputResult, Observation, ToolMessage, Workspace
from ._wire import Output, Pending, Wire

READ_BYTES = 256 << 10
T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine of Session, which the blocking port never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise RuntimeError("a blocking coroutine was suspended")


class _BlockingPort(Port):
    def __init__(self, access: Access) -> None:
        self.access = access
        self._connecting = threading.Lock()
        self._state = threading.Condition(threading.Lock())  # guards the wire and the socket
        self._socket: Optional[socket.socket] = None
        self._wire: Optional[Wire] = None
        self._reading = False  # a thread waits for the socket
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        with self._connecting:
            yield

    async def open(self, wire: Wire, candidates: Sequence[Place]) -> Place:
        made, place = connect(candidates, self.access)
        wire.begin(made)
        with self._state:
            while self._reading:  # a thread that still waits on the previous connection
                self._wake()
                self._state.wait()
            if self._socket:
                self._socket.close()
            self._socket, self._wire = made.socket, wire
        return place

    async def settle(self, wire: Wire) -> None:
        with self._state:
            while not wire.ended and not self._reading and self._socket and has_come(self._socket):
                self._receive(wire, self._socket)
            self._state.notify_all()

    def begin(self, wire: Wire, method: str, params: Dict[str, Any]) -> Pending:
        with self._state:
            pending = wire.request(method, params)
            self._flush(wire)
            return pending

    def abandon(self, pending: Pending) -> None:
        with self._state:
            pending.wire.abandon(pending)
            self._flush(pending.wire)

    def take(self, pending: Pending) -> List[Output]:
        with self._state:
            return pending.wire.take(pending)

    def take_one(self, pending: Pending) -> Output:
        with self._state:
            return pending.wire.take_one(pending)

    async def wait(self, pending: Pending, pieces: bool) -> None:
        with self._state:
            while not (pending.done or pending.error or (pieces and pending.pieces)):
                left = pending.deadline - time.monotonic()
                if left <= 0:
                    raise NoAnswer(f"The service did not answer {pending.method} in time; the client has cancelled it")
                if self._reading:
                    self._state.wait(left)
                elif self._socket and pending.wire is self._wire:
                    self._turn(pending.wire, self._socket, left)
                else:
                    pending.wire.end("The connection was replaced")

    def _turn(self, wire: Wire, made: socket.socket, seconds: float) -> None:
        """Waits for the socket, for all threads. The lock is not held meanwhile."""
        poll = select.poll()
        poll.register(made, select.POLLIN | (select.POLLOUT if wire.unsent else 0))
        poll.register(self._woken, select.POLLIN)
        self._reading = True
        self._state.release()
        try:
            poll.poll(min(seconds, 3600.0) * 1000)
        finally:
            self._state.acquire()
            self._reading = False
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)
            if not wire.ended:
                self._flush(wire)
                self._receive(wire, made)
            self._state.notify_all()

    def _receive(self, wire: Wire, made: socket.socket) -> None:
        try:
            wire.receive(made.recv(READ_BYTES))
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            wire.end(f"The connection failed: {error}")

    def _flush(self, wire: Wire) -> None:
        made = self._socket
        if wire is not self._wire or not made:
            return
        try:
            while wire.unsent and not wire.ended:
                with memoryview(wire.unsent) as view:
                    sent = made.send(view[:1 << 20], socket.MSG_NOSIGNAL)
                del wire.unsent[:sent]
        except (BlockingIOError, InterruptedError):
            if self._reading:
                self._wake()
        except OSError:
            wire.unsent.clear()  # the service may have sent a reason before it closed: read to the end

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"\0")

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self, wire: Wire, why: str) -> None:
        with self._state:
            wire.end(why)
            if wire is self._wire and self._socket:
                self._wake()
                while self._reading:
                    self._state.wait()
                self._socket.close()
                self._socket = self._wire = None
            self._state.notify_all()

    def release(self) -> None:
        self._woken.close()
        self._waker.close()


class Call:
    """A request in flight. Iterating gives the output of a streamed call as it comes."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self._session, self._pending = session, pending
        self.id = pending.id

    def wait(self, on_output: Optional[OnOutput] = None) -> Any:
        """Returns the result; for a tool call the observation. Unread output goes to on_output, or is dropped."""
        return run(self._session.finish(self._pending, on_output))

    def cancel(self) -> bool:
        """Asks the service to end the call, which is then answered with CANCELLED. Returns whether it was in flight."""
        return run(self._session.cancel(self._pending))

    def forget(self) -> None:
        """Cancels the call, and drops its output and its answer."""
        self._session.port.abandon(self._pending)

    def input(self, data: str = "", *, eof: bool = False, encoding: Optional[str] = None) -> InputResult:
        """Gives the command input, and returns when the command has read it. The call must have the option
        stdin_stream."""
        result: InputResult = run(self._session.input(self._pending, input_params(data, eof, encoding)))
        return result

    def __iter__(self) -> Iterator[Output]:
        while True:
            piece = run(self._session.piece(self._pending))
            if piece is None:
                return
            yield piece


class Attached(AttachedSession):
    __doc__ = AttachedSession.__doc__

    def __iter__(self) -> Iterator[Output]:
        while pieces := run(self._client.read_on(self)):
            yield from pieces


class Watch:
    """A directory that is watched. Iterating gives its events as they come; closing it ends that."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self._session, self._pending = session, pending

    def __iter__(self) -> Iterator[FileEvent]:
        while True:
            event = run(self._session.told(self._pending))
            if event is None:
                return
            yield event

    def close(self) -> None:
        self._session.port.abandon(self._pending)


class Client(Methods):
    """A client of cloisterd. It connects when it is first used.

    path: the agent socket; otherwise CLOISTER_SOCKET, the user's own service and the host's are tried. Or the URL of
        cloister-gate(8): https://HOST or https://HOST:PORT, or http:// on this host.
    key: with an URL, the key that the gate knows; otherwise CLOISTER_KEY.
    ca_file: with an URL, the certificates of the authorities that are believed; otherwise those of the system.
    wait: for how many seconds the first connection waits for a service.
    reconnect: for how many seconds a later one waits while the service restarts; None: the client does not reconnect.
    answer_timeout: how many seconds an answer may take beyond the call's deadline before NoAnswer is raised.
    retry_reads: a call that only reads is repeated once when the connection was lost.
    keys: other calls get a key from the client, where the service keeps keys, and are repeated with it: they run at most
        once. False: only calls with the option key are repeated. A call of start() or start_call() never is.
    nodes: the agent sockets or URLs of other hosts, by the names that place() gets. Where a host answers Moved with one of them, the
        client goes there, opens its workspaces and repeats the request, if nothing else of it is in flight. A workspace
        that exists at the old host must have been moved before, or the request raises Moved. A call of start() or
        start_call() raises it too, and any call where there are no nodes.

    A tool that fails is raised by its method as the class of its code, such as NotFound; call() returns the observation.
    """

    def __init__(self, path: Optional[str] = None, *, key: Optional[str] = None, ca_file: Optional[str] = None,
                 wait: float = 0.0, reconnect: Optional[float] = 30.0, answer_timeout: float = 60.0,
                 retry_reads: bool = False, keys: bool = True, nodes: Optional[Mapping[str, str]] = None) -> None:
        self._port = _BlockingPort(Access(key, ca_file))
        self._session = Session(self._port, path, wait, reconnect, answer_timeout, retry_reads, keys, nodes)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def connect(self) -> None:
        """Connects now, and opens again the workspaces that were open."""
        run(self._session.connect())

    def close(self) -> None:
        """Closes the connection; the service ends its calls."""
        self._session.close()
        self._port.release()

    def request(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Calls any method of the agent socket."""
        return run(self._session.request(method, params or {}))

    def start(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Call:
        """Sends a request without waiting for its answer."""
        return Call(self._session, run(self._session.start(method, params or {})))

    def workspace(self, workspace: str) -> Workspace:
        """Opens a directory, by its absolute path, or a managed workspace, by its name."""
        return run(self._session.workspace(workspace))

    def call(self, tool: Optional[str] = None, arguments: Optional[Mapping[str, Any]] = None, *,
             tool_call: Optional[Mapping[str, Any]] = None, options: Optional[CallOptions] = None,
             workspace: Optional[str] = None, timeout_ms: Optional[int] = None,
             on_output: Optional[OnOutput] = None) -> Observation:
        """Calls a tool, or makes a model's tool_call unchanged. Returns the observation, even if the tool failed. With
        on_output, output comes as the command writes it."""
        params = call_params(tool, arguments, tool_call, options, workspace, timeout_ms, on_output is not None)
        observation: Observation = run(self._session.call(params, on_output))
        return observation

    def answer(self, tool_call: Mapping[str, Any], *, options: Optional[CallOptions] = None,
               workspace: Optional[str] = None) -> ToolMessage:
        """Makes a model's tool_call unchanged, and returns the message for the model's conversation."""
        params = call_params(None, None, tool_call, message_options(options), workspace, None, False)
        message: ToolMessage = run(self._session.call(params, None))
        return message

    def start_call(self, tool: Optional[str] = None, arguments: Optional[Mapping[str, Any]] = None, *,
                   tool_call: Optional[Mapping[str, Any]] = None, options: Optional[CallOptions] = None,
                   workspace: Optional[str] = None, timeout_ms: Optional[int] = None, stream: bool = True) -> Call:
        """Sends a tool call without waiting for its answer. With stream, the caller can iterate over its output."""
        return self.start("tool.call", call_params(tool, arguments, tool_call, options, workspace, timeout_ms, stream))

    def download(self, path: str, target: IO[bytes], *, workspace: Optional[str] = None, offset: Optional[int] = None,
                 length: Optional[int] = None, progress: Optional[Progress] = None) -> FileRead:
        """Reads a file of the workspace, of any size, into target, which is open for writing bytes. progress is called with
        the number of bytes so far. If the connection is lost, the exception is raised, and target has a part."""
        params = without_none({"path": path, "workspace": workspace, "offset": offset, "length": length})
        result: FileRead = run(self._session.download(params, target, progress))
        return result

    def upload(self, source: IO[bytes], path: str, *, workspace: Optional[str] = None, mode: Optional[str] = None,
               expect: Optional[str] = None, durability: Optional[Durability] = None,
               progress: Optional[Progress] = None) -> FileWritten:
        """Writes what source, which is open for reading bytes, has left to a file of the workspace. The file appears when
        all of it is written, or not at all."""
        params = without_none({"path": path, "workspace": workspace, "mode": mode, "expect": expect,
                               "durability": durability})
        result: FileWritten = run(self._session.upload(params, source, progress))
        return result

    def export(self, target: IO[bytes], *, workspace: Optional[str] = None, progress: Optional[Progress] = None) -> Exported:
        """Writes the files of a workspace into target, which is open for writing bytes: a tar archive, of which
        `cloister import` makes a workspace. Special files are left out and named."""
        result: Exported = run(self._session.export(target, workspace, progress))
        return result

    def forward(self, port: int, *, workspace: Optional[str] = None, local_port: int = 0) -> Forward:
        """Makes a TCP port of the workspace one of this host, at 127.0.0.1, until close() of what it returns. Each
        connection has a connection of its own to the service. local_port 0: any that is free."""
        made = run(self._session.forward(port, workspace))
        made.start_thread(local_port)
        return made

    def attach(self, session: str, *, after: int = 0) -> Attached:
        """Iterating over what it returns gives a session's output as it comes, to its end, also over lost connections."""
        return Attached(self._session, session, after)

    def watch(self, path: str, *, workspace: Optional[str] = None, recursive: Optional[bool] = None,
              entries: Optional[bool] = None) -> Watch:
        """Watches a directory of the workspace for changes. The exception of the reason is raised by iterating when nothing
        is watched any more."""
        params = without_none({"path": path, "workspace": workspace, "recursive": recursive, "entries": entries})
        return Watch(self._session, run(self._session.watch(params)))

    def _native(self, method: str, params: Dict[str, Any]) -> Any:
        return run(self._session.native(method, params))

    def _tool(self, tool: str, arguments: Dict[str, Any], workspace: Optional[str], options: Optional[CallOptions]) -> Any:
        return run(self._session.tool(tool, arguments, workspace, options))
