# SPDX-License-Identifier: Apache-2.0
"""A port of a workspace at a port of this host: for each connection to it, a connection of its own to the service, which
becomes one to the port. What comes from the workspace is not trusted, and only copied."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ._errors import CloisterError, ConnectionLost, ProtocolError
from ._remote import Opened
from ._types import CONNECT_MS
from ._wire import Wire, parse

ANSWER_BYTES = 64 << 10
PIECE_BYTES = 64 << 10
Connect = Callable[[], Opened]


class _Asking:
    """Requests before the connection is one to the port. They block."""

    def __init__(self, opened: Opened) -> None:
        self.opened, self.read = opened, opened.early
        opened.socket.settimeout(CONNECT_MS / 1000)

    def ask(self, method: str, params: Dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
        tls = self.opened.tls
        self.opened.socket.sendall(tls.encrypt(line) if tls else line)
        while True:
            message = parse(self.line())
            if "method" not in message:
                break
        if message.get("error") is not None:
            raise Wire.refusal_of(message["error"])
        if "result" not in message:
            raise ProtocolError("The service sent an answer that is neither a result nor an error")

    def line(self) -> bytes:
        while b"\n" not in self.read:
            if len(self.read) > ANSWER_BYTES:
                raise ProtocolError("The service sent an answer that is too long")
            data, tls = self.opened.socket.recv(PIECE_BYTES), self.opened.tls
            try:
                if tls:
                    tls.take(data)
                    data = tls.read()
                elif not data:
                    raise EOFError
            except EOFError:
                raise ConnectionLost("The service closed the connection") from None
            self.read += data
        line, _, self.read = self.read.partition(b"\n")
        return line


def tunnel(connect: Connect, requests: List[Tuple[str, Dict[str, Any]]]) -> Opened:
    """Returns a connection to the port, to which the last of the requests has made it."""
    opened = connect()
    try:
        asking = _Asking(opened)
        for method, params in requests:
            asking.ask(method, params)
        opened.socket.setblocking(False)
    except BaseException:
        opened.socket.close()
        raise
    return opened._replace(early=asking.read)


async def _to_service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: Opened) -> None:
    while data := await reader.read(PIECE_BYTES):
        writer.write(opened.tls.encrypt(data) if opened.tls else data)
        await writer.drain()
    if opened.tls:
        writer.write(opened.tls.close())
    else:
        writer.write_eof()


async def _from_service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: Opened) -> None:
    writer.write(opened.early)
    with contextlib.suppress(EOFError):
        while True:
            data = await reader.read(PIECE_BYTES)
            if opened.tls:
                opened.tls.take(data)
                data = opened.tls.read()
            elif not data:
                break
            writer.write(data)
            await writer.drain()
    writer.write_eof()


async def _ended(tasks: Set[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


class Forward:
    """A port of this host that is one of the workspace, until it is closed. error: why the last connection failed."""

    def __init__(self, connect: Connect, requests: List[Tuple[str, Dict[str, Any]]]) -> None:
        self.host, self.port = "127.0.0.1", 0
        self.error: Optional[Exception] = None
        self._connect, self._requests = connect, requests
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._server: Optional[asyncio.AbstractServer] = None
        self._tasks: Set[asyncio.Task[None]] = set()
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def start(self, local_port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._begin, self.host, local_port)
        self.port = self._server.sockets[0].getsockname()[1]

    def start_thread(self, local_port: int) -> None:
        """For a program without an event loop."""
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.start(local_port))
        self._thread = threading.Thread(target=self._run, args=(loop,), daemon=True)
        self._thread.start()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.run_until_complete(_ended(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    def close(self) -> None:
        """Ends it, and the connections through it."""
        loop, self._loop = self._loop, None
        if not loop:
            return
        if not self._thread:
            self._end()
            return
        loop.call_soon_threadsafe(self._end)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()

    def _end(self) -> None:
        if self._server:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far: Optional[asyncio.StreamWriter] = None
        whole = False
        try:
            opened = await asyncio.get_running_loop().run_in_executor(None, tunnel, self._connect, self._requests)
            far_reader, far = await asyncio.open_connection(sock=opened.socket)
            await asyncio.gather(_to_service(reader, far, opened), _from_service(far_reader, writer, opened))
            whole = True
        except (CloisterError, OSError) as error:
            self.error = error
        finally:
            for made in (writer, far):
                if made:
                    made.close() if whole else made.transport.abort()


__all__ = ["Forward"]
