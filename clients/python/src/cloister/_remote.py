# SPDX-License-Identifier: Apache-2.0
"""The agent socket of another host: cloister-gate(8) gives it to a client with a key, by HTTP's Upgrade, and through TLS
except on this host. The server is trusted as far as its certificate says who it is."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import socket
import ssl
import time
import urllib.parse
from typing import Dict, NamedTuple, Optional, Tuple

from ._errors import BadRequest, CertificateError, CloisterError, KeyRefused, ProtocolError, ServiceNotFound
from ._types import CONNECT_MS, Busy

HEAD_BYTES = 16 << 10  # of the gate's answer
BODY_BYTES = 4 << 10  # of one that refuses
READ_BYTES = 64 << 10
KEY = re.compile(r"[!-~]+")
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
SCHEMES = ("https://", "http://")


class Access:
    """With what a client comes to a gate: its key, and whose certificates it believes."""

    def __init__(self, key: Optional[str], ca_file: Optional[str]) -> None:
        self._key, self._ca_file = key, ca_file
        self._context: Optional[ssl.SSLContext] = None

    def key(self) -> str:
        key = self._key or os.environ.get("CLOISTER_KEY")
        if not key:
            raise BadRequest("A service at an URL needs a key: give one to the client, or set CLOISTER_KEY")
        if not KEY.fullmatch(key):
            raise BadRequest("The key has characters that no key has")
        return key

    def context(self) -> ssl.SSLContext:
        if not self._context:
            try:
                self._context = ssl.create_default_context(cafile=self._ca_file)
            except (OSError, ssl.SSLError) as error:
                raise BadRequest(f"{self._ca_file} has no certificates: {error}") from None
            self._context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


class Address(NamedTuple):
    host: str
    port: int
    tls: bool
    name: str  # for the field Host


def is_url(path: str) -> bool:
    return path.startswith(SCHEMES)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(url: str) -> Address:
    try:
        parts = urllib.parse.urlsplit(url)
        host, port, tls = parts.hostname or "", parts.port, parts.scheme == "https"
    except ValueError as error:
        raise BadRequest(f"{url!r} is no URL of a service: {error}") from None
    if not host or parts.username is not None or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadRequest("The URL of a service is https://HOST or https://HOST:PORT, and nothing else")
    if not tls and not _is_loopback(host):
        raise BadRequest(f"http:// would show the key to the network: use https://{parts.netloc}")
    return Address(host, port or (443 if tls else 80), tls, parts.netloc)


class Tls:
    """TLS without its socket."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)

    def take(self, data: bytes) -> None:
        """Takes received bytes; b"" is their end."""
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    def handshake(self) -> bool:
        """Goes on with it. Returns whether it is over."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def encrypt(self, data: bytes) -> bytes:
        """Returns what is to be sent, also for TLS itself."""
        if data:
            self._object.write(data)
        return self._out.read()

    def read(self) -> bytes:
        """Returns what of the taken bytes can be read, b"" if more are needed. Raises EOFError at the end."""
        parts = []
        try:
            while part := self._object.read(READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass
        if not parts:
            raise EOFError
        return b"".join(parts)


    def close(self) -> bytes:
        """Returns what tells the other side that nothing follows."""
        with contextlib.suppress(ssl.SSLError):  # its end has not come yet
            self._object.unwrap()
        return self._out.read()


class Opened(NamedTuple):
    """A connection to an agent socket."""

    socket: socket.socket
    tls: Optional[Tls] = None
    early: bytes = b""  # what has come of the first messages


class _Connecting:
    """A connection that becomes one to an agent socket. It blocks."""

    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self.tls = Tls(access.context(), address.host) if address.tls else None
        self.deadline = time.monotonic() + CONNECT_MS / 1000
        self.socket = socket.create_connection((address.host, address.port), CONNECT_MS / 1000)

    def _more(self) -> bytes:
        self.socket.settimeout(max(0.001, self.deadline - time.monotonic()))
        data = self.socket.recv(READ_BYTES)
        if not self.tls and not data:
            raise EOFError
        return data

    def secure(self, tls: Tls) -> None:
        try:
            while not tls.handshake():
                self.socket.sendall(tls.encrypt(b""))
                tls.take(self._more())
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(f"The certificate of {self.address.name} is not believed: {error.verify_message}; the "
                                   "client takes the certificates of other authorities as ca_file") from None

    def send(self, data: bytes) -> None:
        self.socket.sendall(self.tls.encrypt(data) if self.tls else data)

    def receive(self) -> bytes:
        """Returns some bytes. Raises EOFError if there are no more."""
        while self.tls:
            data = self.tls.read()
            if data:
                return data
            self.tls.take(self._more())
        return self._more()

    def head(self) -> Tuple[bytes, bytes]:
        """Returns the head of the answer, and what has come behind it."""
        data = b""
        while b"\r\n\r\n" not in data:
            if len(data) > HEAD_BYTES:
                raise ProtocolError(f"{self.address.name} answers with a head that is too long")
            data += self.receive()
        head, _, rest = data.partition(b"\r\n\r\n")
        return head, rest

    def body(self, fields: Dict[str, str], rest: bytes) -> str:
        """Returns the sentence of an answer that refuses, or ""."""
        length = fields.get("content-length", "")
        try:
            while len(rest) < min(int(length), BODY_BYTES):
                rest += self.receive()
            return str(json.loads(rest)["message"])[:200]
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            return ""

    def upgrade(self, key: str) -> bytes:
        """Returns what has come of the first messages."""
        self.send(f"GET /agent HTTP/1.1\r\nHost: {self.address.name}\r\nConnection: Upgrade\r\nUpgrade: cloister\r\n"
                  f"Authorization: Bearer {key}\r\n\r\n".encode("latin-1"))
        head, rest = self.head()
        status = STATUS.match(head + b"\r")
        if not status:
            raise ProtocolError(f"{self.address.name} does not answer as HTTP")
        if status[1] == b"101":
            return rest
        fields = {name.strip().lower(): value.strip() for name, _, value in
                  (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])}
        raise refusal(int(status[1]), self.address.name, self.body(fields, rest), fields.get("retry-after", ""))


def refusal(status: int, name: str, message: str, retry_after: str) -> CloisterError:
    """What an answer means that is not 101."""
    said = f"{message or 'no reason'} (HTTP {status})"
    if status in (401, 403, 429):
        return KeyRefused(f"{name} refuses the key: {said}")
    if status == 503:
        return Busy(f"{name} cannot reach the service now: {said}", code="BUSY",
                    retry_after_ms=int(retry_after) * 1000 if retry_after.isdecimal() and len(retry_after) < 6 else None)
    return ServiceNotFound(f"{name} gives no agent socket: {said}; is it cloister-gate?")


def connect_to(url: str, access: Access) -> Opened:
    """Connects, and returns when the connection is one to an agent socket. It does not block from then on."""
    address, key = address_of(url), access.key()
    connecting = _Connecting(address, access)
    made = connecting.socket
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if connecting.tls:
            connecting.secure(connecting.tls)
        early = connecting.upgrade(key)
        made.setblocking(False)
    except EOFError:
        made.close()
        raise ServiceNotFound(f"{address.name} closed the connection without an answer") from None
    except BaseException:
        made.close()
        raise
    return Opened(made, connecting.tls, early)
