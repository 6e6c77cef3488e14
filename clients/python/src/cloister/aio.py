# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. Its tasks share one connection; it is used in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from types import TracebackType
from typing import IO, Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Type, cast

from ._errors import NoAnswer
from ._forward import Forward
from ._methods import AsyncMethods
from ._remote import Access, Opened
from ._session import AttachedSession, OnOutput, Port, Progress, Session, call_params, input_params, message_options, without_none
from ._sockets import Place, connect, has_come, has_ended
from ._types import CallOptions, Durability, Exported, FileEvent, FileRead, FileWritten, InputResult, Observation, ToolMessage, Workspace
from ._wire import Output, Pending, Wire

CHUNK_BYTES = 256 << 10  # given to the transport at once
PAUSE_BYTES = 1 << 20  # unread output at which the client stops reading, unless a task waits for an answer
SETTLE_SECONDS = 5.0


class _Connection(asyncio.Protocol):
    """A socket and its wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.transport: Optional[asyncio.Transport] = None
        self.waiting: Set[Pending] = set()  # requests for whose answers a task waits
        self._full = self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.wire.receive(data)
        if self.wire.ended:
            self.close()
        else:
            self.flush()
            self.look()

    def eof_received(self) -> None:
        self.wire.receive(b"")

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self.wire.end(f"The connection failed: {exc}" if exc else "The service closed the connection")

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.flush()

    def flush(self) -> None:
        while self.transport and self.wire.unsent and not self._full and not self.wire.ended:
            chunk = bytes(self.wire.unsent[:CHUNK_BYTES])
            del self.wire.unsent[:len(chunk)]
            self.transport.write(chunk)

    def look(self) -> None:
        """Reads, unless there is unread output and only its own reader is waiting."""
        pause = self.wire.unread > PAUSE_BYTES and not self.waiting
        if pause == self._paused or not self.transport or self.transport.is_closing():
            return
        self._paused = pause
        (self.transport.pause_reading if pause else self.transport.resume_reading)()

    def close(self) -> None:
        if self.transport:
            self.transport.abort()


def _close_unwanted(opening: asyncio.Future[Tuple[Opened, Place]]) -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result()[0].socket.close()


class _AsyncPort(Port):
    def __init__(self, access: Access) -> None:
        self.access = access
        self._lock: Optional[asyncio.Lock] = None
        self._connection: Optional[_Connection] = None

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        if not self._lock:
            self._lock = asyncio.Lock()
        async with self._lock:
            yield

    async def open(self, wire: Wire, candidates: Sequence[Place]) -> Place:
        loop = asyncio.get_running_loop()
        # In a thread, because asyncio takes EAGAIN, a full backlog, for a connection that is in progress.
        opening = loop.run_in_executor(None, connect, candidates, self.access)
        try:
            made, place = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        wire.begin(made)
        connection = _Connection(wire)
        await loop.create_connection(lambda: connection, sock=made.socket)
        if self._connection:
            self._connection.close()
        self._connection = connection
        return place

    def _connection_of(self, wire: Wire) -> Optional[_Connection]:
        return self._connection if self._connection and self._connection.wire is wire else None

    async def settle(self, wire: Wire) -> None:
        connection = self._connection_of(wire)
        if not connection or not connection.transport or connection.transport.is_closing():
            wire.end("The connection was closed")
            return
        made = connection.transport.get_extra_info("socket")
        if not has_ended(made):
            for _ in range(2 if has_come(made) else 0):  # the loop reads it
                await asyncio.sleep(0)
            return
        deadline = time.monotonic() + SETTLE_SECONDS
        while not wire.ended and time.monotonic() < deadline:
            connection.look()
            await asyncio.sleep(0.001)
        wire.end("The service closed the connection, and its last output was not read")

    def begin(self, wire: Wire, method: str, params: Dict[str, Any]) -> Pending:
        pending = wire.request(method, params)
        self._flush(wire)
        return pending

    def _flush(self, wire: Wire) -> None:
        connection = self._connection_of(wire)
        if connection:
            connection.flush()

    def abandon(self, pending: Pending) -> None:
        pending.wire.abandon(pending)
        self._flush(pending.wire)
        self._look(pending.wire)

    def _look(self, wire: Wire) -> None:
        connection = self._connection_of(wire)
        if connection:
            connection.look()

    def take(self, pending: Pending) -> List[Output]:
        taken = pending.wire.take(pending)
        self._look(pending.wire)
        return taken

    def take_one(self, pending: Pending) -> Output:
        piece = pending.wire.take_one(pending)
        self._look(pending.wire)
        return piece

    async def wait(self, pending: Pending, pieces: bool) -> None:
        connection = self._connection_of(pending.wire)
        loop = asyncio.get_running_loop()
        if connection and not pieces:
            connection.waiting.add(pending)
            connection.look()
        try:
            while not (pending.done or pending.error or (pieces and pending.pieces)):
                left = pending.deadline - time.monotonic()
                if left <= 0:
                    raise NoAnswer(f"The service did not answer {pending.method} in time; the client has cancelled it")
                changed = loop.create_future()

                def wake(future: asyncio.Future[None] = changed) -> None:
                    if not future.done():
                        future.set_result(None)
                timer = loop.call_later(left, wake)
                pending.wakers.append(wake)
                try:
                    await changed
                finally:
                    timer.cancel()
                    pending.wakers.remove(wake)
        finally:
            if connection:
                connection.waiting.discard(pending)
                connection.look()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def close(self, wire: Wire, why: str) -> None:
        wire.end(why)
        connection = self._connection_of(wire)
        if connection:
            connection.close()
            self._connection = None


class Call:
    """A request in flight. Iterating gives the output of a streamed call as it comes."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self._session, self._pending = session, pending
        self.id = pending.id

    async def wait(self, on_output: Optional[OnOutput] = None) -> Any:
        """Returns the result; for a tool call the observation. Unread output goes to on_output, or is dropped."""
        return await self._session.finish(self._pending, on_output)

    async def cancel(self) -> bool:
        """Asks the service to end the call, which is then answered with CANCELLED. Returns whether it was in flight."""
        return await self._session.cancel(self._pending)

    def forget(self) -> None:
        """Cancels the call, and drops its output and its answer."""
        self._session.port.abandon(self._pending)

    async def input(self, data: str = "", *, eof: bool = False, encoding: Optional[str] = None) -> InputResult:
        """Gives the command input, and returns when the command has read it. The call must have the option
        stdin_stream."""
        result: InputResult = await self._session.input(self._pending, input_params(data, eof, encoding))
        return result

    async def __aiter__(self) -> AsyncIterator[Output]:
        while True:
            piece = await self._session.piece(self._pending)
            if piece is None:
                return
            yield piece


class Attached(AttachedSession):
    __doc__ = AttachedSession.__doc__

    async def __aiter__(self) -> AsyncIterator[Output]:
        while pieces := await self._client.read_on(self):
            for piece in pieces:
                yield piece


class Watch:
    """A directory that is watched. Iterating gives its events as they come; closing it ends that."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self._session, self._pending = session, pending

    async def __aiter__(self) -> AsyncIterator[FileEvent]:
        while True:
            event = await self._session.told(self._pending)
            if event is None:
                return
            yield event

    async def close(self) -> None:
        self._session.port.abandon(self._pending)


class Client(AsyncMethods):
    """cloister.Client for asyncio: the same parameters and methods. A task that is cancelled cancels its call."""

    def __init__(self, path: Optional[str] = None, *, key: Optional[str] = None, ca_file: Optional[str] = None,
                 wait: float = 0.0, reconnect: Optional[float] = 30.0, answer_timeout: float = 60.0,
                 retry_reads: bool = False, keys: bool = True, nodes: Optional[Mapping[str, str]] = None) -> None:
        self._session = Session(_AsyncPort(Access(key, ca_file)), path, wait, reconnect, answer_timeout, retry_reads, keys, nodes)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        self.close()

    async def connect(self) -> None:
        """Connects now, and opens again the workspaces that were open."""
        await self._session.connect()

    def close(self) -> None:
        """Closes the connection; the service ends its calls."""
        self._session.close()

    async def request(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Calls any method of the agent socket."""
        return await self._session.request(method, params or {})

    async def start(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Call:
        """Sends a request without waiting for its answer."""
        return Call(self._session, await self._session.start(method, params or {}))

    async def workspace(self, workspace: str) -> Workspace:
        """Opens a directory, by its absolute path, or a managed workspace, by its name."""
        return await self._session.workspace(workspace)

    async def call(self, tool: Optional[str] = None, arguments: Optional[Mapping[str, Any]] = None, *,
                   tool_call: Optional[Mapping[str, Any]] = None, options: Optional[CallOptions] = None,
                   workspace: Optional[str] = None, timeout_ms: Optional[int] = None,
                   on_output: Optional[OnOutput] = None) -> Observation:
        """Calls a tool, or makes a model's tool_call unchanged. Returns the observation, even if the tool failed. With
        on_output, output comes as the command writes it."""
        params = call_params(tool, arguments, tool_call, options, workspace, timeout_ms, on_output is not None)
        observation: Observation = await self._session.call(params, on_output)
        return observation

    async def answer(self, tool_call: Mapping[str, Any], *, options: Optional[CallOptions] = None,
                     workspace: Optional[str] = None) -> ToolMessage:
        """Makes a model's tool_call unchanged, and returns the message for the model's conversation."""
        params = call_params(None, None, tool_call, message_options(options), workspace, None, False)
        message: ToolMessage = await self._session.call(params, None)
        return message

    async def start_call(self, tool: Optional[str] = None, arguments: Optional[Mapping[str, Any]] = None, *,
                         tool_call: Optional[Mapping[str, Any]] = None, options: Optional[CallOptions] = None,
                         workspace: Optional[str] = None, timeout_ms: Optional[int] = None, stream: bool = True) -> Call:
        """Sends a tool call without waiting for its answer. With stream, the caller can iterate over its output."""
        return await self.start("tool.call",
                                call_params(tool, arguments, tool_call, options, workspace, timeout_ms, stream))

    async def download(self, path: str, target: IO[bytes], *, workspace: Optional[str] = None, offset: Optional[int] = None,
                       length: Optional[int] = None, progress: Optional[Progress] = None) -> FileRead:
        """Reads a file of the workspace, of any size, into target, which is open for writing bytes. progress is called with
        the number of bytes so far. If the connection is lost, the exception is raised, and target has a part."""
        params = without_none({"path": path, "workspace": workspace, "offset": offset, "length": length})
        result: FileRead = await self._session.download(params, target, progress)
        return result

    async def upload(self, source: IO[bytes], path: str, *, workspace: Optional[str] = None, mode: Optional[str] = None,
                     expect: Optional[str] = None, durability: Optional[Durability] = None,
                     progress: Optional[Progress] = None) -> FileWritten:
        """Writes what source, which is open for reading bytes, has left to a file of the workspace. The file appears when
        all of it is written, or not at all."""
        params = without_none({"path": path, "workspace": workspace, "mode": mode, "expect": expect,
                               "durability": durability})
        result: FileWritten = await self._session.upload(params, source, progress)
        return result

    async def export(self, target: IO[bytes], *, workspace: Optional[str] = None, progress: Optional[Progress] = None) -> Exported:
        """Writes the files of a workspace into target, which is open for writing bytes: a tar archive, of which
        `cloister import` makes a workspace. Special files are left out and named."""
        result: Exported = await self._session.export(target, workspace, progress)
        return result

    async def forward(self, port: int, *, workspace: Optional[str] = None, local_port: int = 0) -> Forward:
        """Makes a TCP port of the workspace one of this host, at 127.0.0.1, until close() of what it returns. Each
        connection has a connection of its own to the service. local_port 0: any that is free."""
        made = await self._session.forward(port, workspace)
        await made.start(local_port)
        return made

    def attach(self, session: str, *, after: int = 0) -> Attached:
        """Iterating over what it returns gives a session's output as it comes, to its end, also over lost connections."""
        return Attached(self._session, session, after)

    async def watch(self, path: str, *, workspace: Optional[str] = None, recursive: Optional[bool] = None,
                    entries: Optional[bool] = None) -> Watch:
        """Watches a directory of the workspace for changes. The exception of the reason is raised by iterating when nothing
        is watched any more."""
        params = without_none({"path": path, "workspace": workspace, "recursive": recursive, "entries": entries})
        return Watch(self._session, await self._session.watch(params))

    async def _native(self, method: str, params: Dict[str, Any]) -> Any:
        return await self._session.native(method, params)

    async def _tool(self, tool: str, arguments: Dict[str, Any], workspace: Optional[str],
                    options: Optional[CallOptions]) -> Any:
        return await self._session.tool(tool, arguments, workspace, options)


__all__ = ["Attached", "Call", "Client", "Forward"]
