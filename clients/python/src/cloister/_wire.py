# SPDX-License-Identifier: Apache-2.0
"""One connection without its socket: it turns requests into bytes, and bytes into answers and output. It never waits,
so the blocking and the asyncio client share it. The service is not trusted: lines, values and unread output are
bounded, and input that does not follow the protocol ends the connection."""

from __future__ import annotations

import base64
import binascii
import collections
import copy
import json
import re
import ssl
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional

from ._errors import BadRequest, CloisterError, ConnectionLost, OutputOverrun, ProtocolError, RequestError, ServiceError
from ._remote import Opened, Tls
from ._types import JSON_ERRORS, LINE_BYTES, UNSENT_BYTES, VALUES, ServiceErrors, Stream

UNREAD_BYTES = 64 << 20  # streamed output that the program has not taken
PIECE_BYTES = 256  # memory that a piece takes besides its data
NUMBER_BYTES = 256  # the text of a number
STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.S)


class Output:
    """A piece of a command's output, or of a file that is read: data as bytes, text as str."""

    __slots__ = ("stream", "data", "_text")

    def __init__(self, stream: Stream, data: bytes, text: Optional[str] = None) -> None:
        self.stream: Stream = stream
        self.data = data
        self._text = text

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace") if self._text is None else self._text

    def __repr__(self) -> str:
        return f"Output({self.stream!r}, {self.data!r})"


class Told(Output):
    """An event of a watch, among the output of its request."""

    def __init__(self, params: Dict[str, Any]) -> None:
        super().__init__("stdout", json.dumps(params).encode("utf-8"))  # what it counts for
        self.params = params


class Pending:
    """A request and, once it is done, its result or error."""

    def __init__(self, wire: Wire, number: int, method: str, params: Dict[str, Any]) -> None:
        self.wire = wire
        self.id = number
        self.method = method
        self.params = params if method.startswith("workspace.") else {}  # a reconnection opens it again
        options = params.get("options") or {} if method == "tool.call" else {}
        self.streams = options.get("stream") is True or method in ("file.read", "file.watch")
        self.base64 = (params if method == "file.read" else options).get("encoding") == "base64"
        self.is_call = method == "tool.call" or method.startswith("file.")
        self.watch = 0  # the number of a watch, whose request was answered
        self.done = False
        self.result: Any = None
        self.error: Optional[CloisterError] = None
        self.dropped = False
        self.pieces: Deque[Output] = collections.deque()
        self.unread = 0
        self.seq = 0
        self.deadline = 0.0
        self.wakers: List[Callable[[], None]] = []

    def finish(self, result: Any, error: Optional[CloisterError]) -> None:
        self.done, self.result, self.error = True, result, self.error or error
        self.wire.unread -= self.unread  # the program has it from now on
        self.unread = 0
        self.wake()

    def wake(self) -> None:
        for waker in tuple(self.wakers):
            waker()


def _number(text: str) -> int:
    if len(text) > NUMBER_BYTES:
        raise ValueError("a number is too long")
    return int(text)


def _constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_decoder = json.JSONDecoder(parse_int=_number, parse_constant=_constant)


def _too_many_values(line: bytes) -> bool:
    if len(line) <= 2 * VALUES:  # a value and what separates it are two bytes at least
        return False
    bare = STRING.sub(b"", line)
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{") >= VALUES


def parse(line: bytes) -> Dict[str, Any]:
    if _too_many_values(line):
        raise ProtocolError(f"The service sent a message with more than {VALUES} values")
    try:
        message = _decoder.decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"The service sent a line that is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError("The service sent a line that is no JSON object")
    return message


def service_error(code: Any, message: str, json_error: int, data: Mapping[str, Any],
                  observation: Optional[Dict[str, Any]] = None) -> ServiceError:
    """data: what the service says with the code."""
    retry, node = data.get("retry_after_ms"), data.get("node")
    code = code if isinstance(code, str) else ""
    made = ServiceErrors.get(code, ServiceError if code or json_error in (0, JSON_ERRORS["SERVER_ERROR"]) else RequestError)
    return made(message, code=code, json_error=json_error, retry_after_ms=retry if type(retry) is int else None,
                node=node if isinstance(node, str) else None, exists=data.get("exists") is True, observation=observation)


class Retired(ConnectionLost):
    """The service is replaced: it has not begun the request, and serves on new connections."""


RETIRED = "The service is replaced, and serves on new connections"


def _is_busy(result: Any, refusal: Optional[ServiceError]) -> bool:
    error = result.get("error") if isinstance(result, dict) else None
    return (refusal.code if refusal else error.get("code") if isinstance(error, dict) else None) == "BUSY"


class Wire:
    """The protocol of one connection."""

    def __init__(self) -> None:
        self.unsent = bytearray()  # as it goes into the socket
        self.unread = 0
        self._tls: Optional[Tls] = None
        self.ended: Optional[CloisterError] = None
        self._retiring = False
        self._pending: Dict[int, Pending] = {}
        self._watches: Dict[int, Pending] = {}
        self._last_id = 0
        self._line = bytearray()

    def begin(self, opened: Opened) -> None:
        """Takes what has come of the first messages."""
        self._tls = opened.tls
        if opened.early:
            self._take(opened.early)

    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._pending and not self._watches

    def request(self, method: str, params: Dict[str, Any]) -> Pending:
        """Queues a request."""
        if self.ended:
            raise self._why(method)
        pending = Pending(self, self._last_id + 1, method, params)
        self._queue({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": params})
        self._last_id = pending.id
        self._pending[pending.id] = pending
        return pending

    def abandon(self, pending: Pending) -> None:
        """Cancels the request if it is a call, and drops the rest of its output and its answer."""
        self.drop(pending)
        if pending.done or self.ended or not pending.is_call:
            return
        watched = self._watches.pop(pending.watch, None)
        try:
            if watched:
                self._queue({"jsonrpc": "2.0", "method": "file.unwatch", "params": {"watch": pending.watch}})
            else:
                self._queue({"jsonrpc": "2.0", "method": "tool.cancel", "params": {"id": pending.id}})
        except BadRequest:  # the queue is full, so the service hardly reads it
            self.end("More requests wait than the client keeps")

    def drop(self, pending: Pending) -> None:
        pending.dropped = True
        self.take(pending)

    def take(self, pending: Pending) -> List[Output]:
        """Returns the output that has come and was not taken yet."""
        taken = list(pending.pieces)
        pending.pieces.clear()
        self.unread -= pending.unread
        pending.unread = 0
        return taken

    def take_one(self, pending: Pending) -> Output:
        piece = pending.pieces.popleft()
        cost = min(len(piece.data) + PIECE_BYTES, pending.unread)
        pending.unread -= cost
        self.unread -= cost
        return piece

    def receive(self, data: bytes) -> None:
        """Takes received bytes; b"" is the end of input. Input that breaks the protocol ends the connection."""
        if self.ended:
            return
        try:
            if self._tls:
                self._tls.take(data)
                data = self._tls.read()
                self.unsent += self._tls.encrypt(b"")
            elif not data:
                raise EOFError
        except EOFError:
            self.end("The service closed the connection")
        except ssl.SSLError as error:
            self.end(f"TLS failed: {error.reason or error}")
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            self._receive(data)
        except ProtocolError as error:
            self.end(str(error), ProtocolError)

    def end(self, why: str, kind: type = ConnectionLost) -> None:
        """Ends the connection and all its requests."""
        if self.ended:
            return
        self._ends(kind(why))

    def _ends(self, error: CloisterError) -> None:
        self.ended = error
        self._line.clear()
        self.unsent.clear()
        for pending in (*self._pending.values(), *self._watches.values()):
            pending.finish(None, self._why(pending.method))
        self._pending.clear()
        self._watches.clear()

    def _why(self, method: str) -> CloisterError:
        """Returns a new exception for each request."""
        if isinstance(self.ended, ConnectionLost):
            return type(self.ended)(f"{self.ended}; {method} was not answered")
        return copy.copy(self.ended) if self.ended else ConnectionLost(f"{method} was not answered")

    def _queue(self, message: Dict[str, Any]) -> None:
        try:
            line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8") + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise BadRequest(f"The parameters are no JSON in UTF-8: {error}; names that are not UTF-8 go into path_base64, "
                             "and bytes into base64 with the option encoding") from None
        if len(line) > LINE_BYTES:
            raise BadRequest(f"The request has {len(line)} bytes, and the service reads {LINE_BYTES}; send less at once")
        if len(self.unsent) + len(line) > UNSENT_BYTES:
            raise BadRequest(f"More than {UNSENT_BYTES} bytes wait to be sent; wait for answers first")
        self.unsent += self._tls.encrypt(line) if self._tls else line

    def _receive(self, data: bytes) -> None:
        start = 0
        while not self.ended:
            newline = data.find(b"\n", start)
            end = len(data) if newline < 0 else newline
            if len(self._line) + end - start > LINE_BYTES:
                raise ProtocolError(f"The service sent a line of more than {LINE_BYTES} bytes")
            self._line += memoryview(data)[start:end]
            if newline < 0:
                return
            line = bytes(self._line)
            self._line.clear()
            self._message(parse(line))
            start = newline + 1

    def _message(self, message: Dict[str, Any]) -> None:
        if "method" not in message:
            self._answer(message)
            return
        params = message.get("params", {})
        if not isinstance(message["method"], str) or not isinstance(params, dict):
            raise ProtocolError("The service sent a notification without a name or with other params than an object")
        if message["method"] == "tool.output":
            self._output(params)
        elif message["method"] in ("file.event", "file.watch_ended"):
            self._told(message["method"], params)
        elif message["method"] == "service.retiring":
            self._retiring = True
            self._leave()

    def _leave(self) -> None:
        """Ends the connection to a service that is replaced, when all that it still answers is answered."""
        if self._retiring and not self._pending and not self._watches:
            self.end(RETIRED)

    def _answer(self, message: Dict[str, Any]) -> None:
        number, error = message.get("id"), message.get("error")
        if ("result" in message) == (error is not None) or (number is None and error is None):
            raise ProtocolError("The service sent an answer that is neither a result nor an error")
        refusal = self.refusal_of(error) if error is not None else None
        if number is None and refusal:  # an error without an id is about the whole connection
            self._ends(refusal)
            return
        if type(number) is not int or number not in self._pending:
            raise ProtocolError(f"The service answered a request {number!r:.40}, which is not in flight")
        pending = self._pending.pop(number)
        if pending.dropped:
            self.take(pending)
        result = message.get("result")
        if pending.method == "file.watch" and isinstance(result, dict) and type(result.get("watch")) is int:
            pending.watch = result["watch"]
            self._watches[pending.watch] = pending
            if pending.dropped:
                self.abandon(pending)
            else:
                self._keep(pending, Told(result))
            return
        if self._retiring and _is_busy(message.get("result"), refusal):
            pending.finish(None, Retired(RETIRED))
        else:
            pending.finish(message.get("result"), refusal)
        self._leave()

    @staticmethod
    def refusal_of(error: Any) -> ServiceError:
        if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
            raise ProtocolError("The service sent an error without a code or a message")
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        return service_error(data.get("code"), error["message"], error["code"], data)

    def _told(self, method: str, params: Dict[str, Any]) -> None:
        number, error = params.get("watch"), params.get("error")
        if type(number) is not int or (method == "file.watch_ended" and not isinstance(error, dict)):
            raise ProtocolError("The service sent an event without a watch, or an end of one without a reason")
        pending = self._watches.get(number)
        if pending and method == "file.event":
            self._keep(pending, Told(params))
        elif pending and isinstance(error, dict):
            del self._watches[number]
            pending.finish(pending.result, service_error(error.get("code"), str(error.get("message")), 0, error))
            self._leave()

    def _output(self, params: Dict[str, Any]) -> None:
        number, stream, data = params.get("id"), params.get("stream"), params.get("data")
        if stream == "content":
            stream = "stdout"
        if type(number) is not int or stream not in ("stdout", "stderr") or not isinstance(data, str):
            raise ProtocolError("The service sent output without an id, a stream or data")
        pending = self._pending.get(number)
        if pending is None or not pending.streams:
            raise ProtocolError(f"The service sent output of {number}, which is no streamed call in flight")
        if params.get("seq") != pending.seq:
            raise ProtocolError("The service left out a piece of output")
        pending.seq += 1
        if not pending.dropped:
            self._keep(pending, self._piece(pending, stream, data))

    @staticmethod
    def _piece(pending: Pending, stream: Stream, data: str) -> Output:
        try:
            if pending.base64:
                return Output(stream, base64.b64decode(data.encode("ascii"), validate=True))
            return Output(stream, data.encode("utf-8"), data)
        except (binascii.Error, UnicodeEncodeError):
            raise ProtocolError("The service sent output that is no base64 or no UTF-8") from None

    def _keep(self, pending: Pending, piece: Output) -> None:
        cost = len(piece.data) + PIECE_BYTES
        pending.pieces.append(piece)
        pending.unread += cost
        self.unread += cost
        if self.unread > UNREAD_BYTES:
            self._overrun(max((*self._pending.values(), *self._watches.values()), key=lambda other: other.unread))
        pending.wake()

    def _overrun(self, pending: Pending) -> None:
        self.abandon(pending)
        pending.error = OutputOverrun(f"More than {UNREAD_BYTES} bytes of output were not read; the call is cancelled")
        pending.wake()

