# SPDX-License-Identifier: Apache-2.0
"""cloister-egress, driven as cloisterd drives it, with a DNS server and hosts of the test's own."""

import array
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading

import procfs
import wire
from cloister_client import acting_as
from daemon import BUILD

OPEN, CLOSE, CALL, CALL_END, RELOAD, RETIRED = 1, 2, 3, 4, 5, 6
READY, OPENED, OPEN_FAILED, DENIED, CLOSED, CALL_ENDED, FILTERED = range(32, 39)
PROXY, DNS, HTTP, HTTPS, DNS_TCP, DIAG = 1, 2, 4, 8, 16, 32
REASONS = ("", "not_allowed", "denied", "port", "private_address", "sni_mismatch", "dns_failed", "limit",
           "upstream_failed", "proxy_lost", "bad_request", "unknown_secret")
VIAS = ("", "connect", "http", "socks", "dns", "transparent", "secret")
FILES = [BUILD / "bin" / name for name in ("cloister-egress", "egress-sets")]
WAIT_S = 30


def take_text(data):
    size, = struct.unpack_from("=I", data)
    return data[4:4 + size].decode(), data[4 + size:]


def decode(kind, payload):
    """An event as a dict, as common/wire/wire_egress.h has it."""
    if kind == DENIED:
        call, = struct.unpack_from("=Q", payload)
        host, rest = take_text(payload[8:])
        port, reason, via = struct.unpack_from("=IBB", rest)
        return {"call": call, "host": host, "port": port, "reason": REASONS[reason], "via": VIAS[via],
                "rule": take_text(rest[6:])[0]}
    if kind == CLOSED:
        call, = struct.unpack_from("=Q", payload)
        host, rest = take_text(payload[8:])
        port, via, reason, bytes_in, bytes_out = struct.unpack("=IBBQQ", rest)
        return {"call": call, "host": host, "port": port, "reason": REASONS[reason], "via": VIAS[via], "in": bytes_in,
                "out": bytes_out}
    if kind == CALL_ENDED:
        return dict(zip(("call", "connections", "denied", "in", "out"), struct.unpack("=QQQQQ", payload)))
    if kind == FILTERED:
        return take_text(payload)[0]
    if kind == OPEN_FAILED:
        return {"error": struct.unpack_from("=I", payload)[0], "reason": take_text(payload[4:])[0]}
    return {}


class Link:
    """cloisterd's end of the connection."""

    def __init__(self, connection):
        self.socket, self.buffer = connection, b""
        connection.settimeout(WAIT_S)

    def send(self, kind, cell=0, payload=b"", fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([wire.frame(kind, cell, payload, len(fds))], rights)

    def next(self):
        """The next message: its type, its cell, and what it says."""
        while len(self.buffer) < wire.HEADER.size or len(self.buffer) < self._size():
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("cloister-egress has ended")
            self.buffer += data
        size, (_, kind, _, _, cell) = self._size(), wire.HEADER.unpack_from(self.buffer)
        payload, self.buffer = self.buffer[wire.HEADER.size:size], self.buffer[size:]
        return kind, cell, decode(kind, payload)

    def _size(self):
        return wire.HEADER.size + wire.HEADER.unpack_from(self.buffer)[3]

    def expect(self, kind):
        got, cell, message = self.next()
        assert got == kind, (got, cell, message)
        return message

    def denied(self):
        return self.expect(DENIED)


class Egress:
    """The program with a configuration; in user mode, if @listener is None, otherwise in system mode."""

    def __init__(self, directory, config, user=None, allow="", descriptors=None, listener=None, launcher=()):
        self.config = pathlib.Path(directory) / "egress.conf" if config is not None else None
        if self.config:
            self.configure(config)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        arguments = ["system", self.config, listener.getsockname()] if listener else ["user", self.config or "", allow]
        # The user may not be able to reach the build.
        program, _ = (shutil.copy(file, directory) for file in FILES)
        self.log = pathlib.Path(directory) / "egress.log"
        # fd 3 is the channel: a shell puts it there, because dup2 in this process would hit one of pytest's own.
        limit = f"ulimit -n {descriptors}; " if descriptors else ""
        script = f"{limit}exec \"$@\" 3<&{theirs.fileno()} {theirs.fileno()}<&-"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", script, "bash", *launcher, program, *arguments], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log, pass_fds=[theirs.fileno()], user=user,
                extra_groups=[] if user else None,
                # A search domain, which c-ares would take.
                env=dict(os.environ, LOCALDOMAIN="search.test"))
        theirs.close()
        if listener:
            ours.close()
            ours, _ = listener.accept()
        self.link, self.cells = Link(ours), {}

    def configure(self, config):
        self.config.write_text(config)
        self.config.chmod(0o644)

    def ready(self):
        self.link.expect(READY)
        return self

    def open(self, cell=1, tenant="dev", allow=None, workspace="w"):
        """Opens a cell with a listener of this test; returns where its proxy listens."""
        listener = socket.create_server(("0.0.0.0", 0), backlog=4096)
        self.send_open(cell, listener, tenant, allow, workspace)
        self.link.expect(OPENED)
        self.cells[cell] = listener
        return listener.getsockname()[1]

    def open_all(self, cell=1, **keywords):
        """Opens a cell with all its sockets; returns the ports of the proxy, and those that stand for 53, 80, 443 and 53
        over TCP."""
        with socket.create_server(("0.0.0.0", 0), backlog=4096) as proxy, socket.socket(type=socket.SOCK_DGRAM) as dns, \
                socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(("127.0.0.1", 0)) as https, \
                socket.create_server(("127.0.0.1", 0)) as dns_tcp:
            dns.bind(("127.0.0.1", 0))
            more = [dns, http, https, dns_tcp]
            self.send_open(cell, proxy, sockets=PROXY | DNS | HTTP | HTTPS | DNS_TCP, more=more, **keywords)
            self.link.expect(OPENED)
            return [each.getsockname()[1] for each in (proxy, *more)]

    def send_open(self, cell, listener, tenant="dev", allow=None, workspace="w", sockets=PROXY, more=()):
        payload = struct.pack("=B", sockets) + wire.text(tenant) + wire.text(workspace) + \
            struct.pack("=B", allow is not None) + wire.text(allow or "")
        self.link.send(OPEN, cell, payload, [listener.fileno(), *(one.fileno() for one in more)])

    def call(self, number, address=0, cell=1, cgroup=0):
        self.link.send(CALL, cell, struct.pack("=QIQ", number, address, cgroup))

    def call_end(self, number, cell=1):
        self.link.send(CALL_END, cell, struct.pack("=Q", number))

    def logged(self):
        return self.log.read_text()

    def memory(self):
        """Resident bytes of the program's own, without files."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) * 1024

    def stop(self):
        self.link.socket.close()
        for listener in self.cells.values():
            listener.close()
        return self.process.wait(WAIT_S)


SERVICE = """[cloister]
{host}
egress_resolver = {resolver}
admin_group = {user}
[tenant {tenant}]
users = {user}
managed = yes
roots = {path}
network = egress
{rules}
"""


def service_config(area, names, rules, tenant="net", host=""):
    """A cloisterd's configuration with one tenant of the area's user, who has these rules. @host: lines of the first section."""
    return SERVICE.format(host=host, resolver=names.address, user=area.account.name, path=area.path, tenant=tenant, rules=rules)


class Service:
    """A cloisterd in system mode and the cloister-egress that connects to it, each with a user of its own.
    @config has a place {host} for lines of the first section."""

    def __init__(self, start_daemon, area, config, user):
        self.user = user
        path = area.path / f"real{area.number}.sock"
        config = config.replace("{host}", f"mode = system\negress_socket = {path}\negress_user = {user.name}")
        self.daemon = start_daemon(config=config, system=True)
        self.words = [area.bin / "cloister-egress", "system", self.daemon.config, path]
        self.start()

    def start(self):
        said = self.daemon.log().count("cloister-egress has connected")
        with acting_as(os.getuid()):
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, user=self.user.uid, group=self.user.gid,
                                            extra_groups=[])
        assert procfs.eventually(lambda: self.daemon.log().count("cloister-egress has connected") > said)

    def stop(self):
        self.process.kill()
        self.process.wait(60)


def ask(port, name, kind=1):
    """Asks the DNS socket at @port; returns the answer's code and its addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(WAIT_S)
        asking.sendto(question(name, kind), ("127.0.0.1", port))
        answer = asking.recv(512)
    assert answer[:2] == b"\x12\x34" and answer[2] & 0x80
    count, = struct.unpack_from(">H", answer, 6)
    return answer[3] & 15, [socket.inet_ntoa(answer[-4:])] if count else []


def question(name, kind=1):
    name = name if isinstance(name, bytes) else name.encode()
    labels = b"".join(bytes([len(label)]) + label for label in name.split(b"."))
    return struct.pack(">HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


class Names:
    """A DNS server. Its answers are a dict from names to lists of addresses, or to what a call returns."""

    def __init__(self, answers, address=("127.0.0.1", 0)):
        self.answers, self.asked = answers, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            question, client = self.socket.recvfrom(2048)
            if not client:
                return  # close() has shut it down
            if len(question) > 12:
                with contextlib.suppress(OSError):
                    self.socket.sendto(self._answer(question), client)

    def _answer(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind, = struct.unpack_from(">H", question, at + 1)
        name, end = ".".join(labels), at + 5
        self.asked.append((name, kind))
        found = self.answers.get(name)
        if callable(found):
            found = found(kind)
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        records = [data for data in (self._data(address, family) for address in found or []) if data]
        flags = 0x8180 | (0 if found is not None else 3)
        return question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question[12:end] + b"".join(
            struct.pack(">HHHIH", 0xc00c, kind, 1, 0, len(data)) + data for data in records)

    @staticmethod
    def _data(address, family):
        with contextlib.suppress(OSError):
            return socket.inet_pton(family, address) if family else None
        return None

    def close(self):
        # A signal restarts a system call that waits, as acting_as() does in every thread: with the number of the
        # descriptor, which may be another socket's by then. So the thread ends first.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


class Host:
    """A TCP server: each connection is served by serve(connection), in a thread. Counts them."""

    def __init__(self, serve, address="127.0.0.1", port=0):
        self.serve, self.connections = serve, 0
        self.listener = socket.create_server((address, port), backlog=4096)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        with contextlib.suppress(OSError), connection:
            self.serve(connection)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()  # see Names.close()
        self.listener.close()


def echo(connection):
    """Sends back what comes, until its end has come."""
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def read_all(connection):
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def read_head(connection):
    """Reads up to the end of an HTTP head, and no byte more."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = connection.recv(1)
        if not data:
            break
        head += data
    return head


def client(port, address="127.0.0.1"):
    return socket.create_connection((address, port), timeout=WAIT_S)


def connect(port, target, address="127.0.0.1"):
    """Asks by CONNECT; returns the connection and the head of the answer."""
    connection = client(port, address)
    target = target if isinstance(target, bytes) else target.encode()
    connection.sendall(b"CONNECT " + target + b" HTTP/1.1\r\n\r\n")
    return connection, read_head(connection)


def absolute(port, authority):
    """Asks by a URL; returns all of the answer."""
    authority = authority if isinstance(authority, bytes) else authority.encode()
    with client(port) as connection:
        connection.sendall(b"GET http://" + authority + b"/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
        return read_all(connection)


def socks(port, host, number, address=None):
    """Asks by SOCKS; returns the connection and the reply's code. @address: of 4 or 16 bytes, in place of a name."""
    connection = client(port)
    connection.sendall(b"\5\1\0")
    assert connection.recv(2) == b"\5\0"
    if address:
        name = bytes([1 if len(address) == 4 else 4]) + address
    else:
        host = host if isinstance(host, bytes) else host.encode()
        name = bytes([3, len(host)]) + host
    connection.sendall(b"\5\1\0" + name + struct.pack(">H", number))
    reply = connection.recv(10)
    return connection, reply[1] if len(reply) == 10 else None


def raw_hello(name):
    """The least ClientHello with this name, which may be any bytes: RFC 8446, 4.1.2, and RFC 6066, 3."""
    names = b"\0" + struct.pack(">H", len(name)) + name
    extension = struct.pack(">HHH", 0, len(names) + 2, len(names)) + names
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack(">H", len(extension)) + extension
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def client_hello(name):
    """A ClientHello as OpenSSL makes it; without a name if @name is None."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    if name is None:
        context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()
