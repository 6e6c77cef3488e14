# SPDX-License-Identifier: Apache-2.0
"""A cloister-gate as its own user, before a cloisterd with two tenants that use it and one that does not."""

import contextlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import warnings

import procfs
from cloister_client import acting_as
from daemon import Daemon, environment, where_is

LINE = re.compile(r"HTTP/1\.1 (\d{3}) ")


def config(user, owner):
    return "\n".join(["[cloister]", "audit = on", "agent_socket_mode = 0666", f"gate_user = {user.name}", "[tenant blue]", f"users = {owner.name}",
                      "managed = yes", "gate = yes", "[tenant green]", "managed = yes", "gate = yes", "connections = 2",
                      "[tenant closed]", f"users = {owner.name}", "managed = yes", ""])


@contextlib.contextmanager
def daemon_behind(area, text):
    """A cloisterd with the configuration @text, whose socket the gate's user can reach."""
    with acting_as(0):
        area.path.chmod(0o755)
    running = Daemon(area, config=text, system=False)
    with acting_as(0):
        running.path.chmod(0o755)
    yield running
    assert running.stop() == 0


class Answer:
    def __init__(self, head, body):
        self.head = head.decode("latin-1")
        self.status = int(LINE.match(self.head)[1])
        self.body = body
        self.headers = {name.lower(): value for name, value in
                        (line.split(": ", 1) for line in self.head.split("\r\n")[1:] if line)}

    def json(self):
        return json.loads(self.body)


class Connection:
    """A client's connection, of which the test says every byte."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX) if isinstance(address, str) else socket.socket()
        self.socket.settimeout(60)
        self.socket.connect(address)
        self.read = b""

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def more(self):
        data = self.socket.recv(1 << 16)
        self.read += data
        return data

    def line(self):
        while b"\n" not in self.read:
            if not self.more():
                raise EOFError(self.read)
        line, self.read = self.read.split(b"\n", 1)
        return line

    def answer(self):
        """Returns the next answer, or None if the gate closes the connection without one."""
        while b"\r\n\r\n" not in self.read:
            try:
                if not self.more():
                    return None
            except ConnectionResetError:
                return None
        head, self.read = self.read.split(b"\r\n\r\n", 1)
        answer = Answer(head, b"")
        if answer.status == 100:
            return self.answer()
        length = int(answer.headers.get("content-length", 0))
        while len(self.read) < length and self.more():
            pass
        answer.body, self.read = self.read[:length], self.read[length:]
        return answer

    def is_closed(self):
        """Waits for the gate to close; what comes before that is a fault."""
        try:
            return not self.read and self.socket.recv(1) == b""
        except (ConnectionResetError, ssl.SSLError):
            return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class HttpGate:
    def __init__(self, area, daemon, user, *lines, program=None):
        """@program: another one than cloister-gate, of tests/lib. @daemon: its agent socket; None: nobody listens there."""
        self.area, self.user, self.daemon = area, user, daemon
        with acting_as(0):
            self.path = area.new_directory("http-gate")
            self.path.chmod(0o755)
            user.own(self.path)
            self.program = area.tool(program) if program else area.bin / "cloister-gate"
            if not self.program.exists():
                shutil.copy(where_is("cloister-gate"), self.program)
        with acting_as(user.uid, user.gid):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            self.keys = self.path / "keys"
            self.unix = str(self.path / "sock")
            (self.path / "gate.conf").write_text("\n".join([
                "[gate]", f"listen = 127.0.0.1:{self.port} {self.unix}", f"agent_socket = {daemon.socket if daemon else '/none'}",
                f"keys = {self.keys}", *lines, ""]))
        self.start()

    def start(self):
        with open(self.path / "log", "ab") as log, acting_as(0):
            before = self.log()
            self.process = subprocess.Popen(
                [*self.user.become(), self.program, "--config", str(self.path / "gate.conf")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment("/"))
        assert procfs.eventually(lambda: "listening" in self.log()[len(before):] or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.log()

    def log(self):
        return (self.path / "log").read_text()

    def ctl(self, *words):
        with acting_as(0):
            return subprocess.run([*self.user.become(), self.area.bin / "cloisterctl", *words, "--keys", str(self.keys)],
                                  capture_output=True, text=True, check=True, env=environment("/")).stdout

    def key(self, tenant, *options):
        return json.loads(self.ctl("--json", "key", "new", "--tenant", tenant, *options))

    def move_key(self, name, before, after):
        """Gives the key with this name or id to another tenant, as somebody does who edits the file."""
        lines = [line.replace(before, after) if name in line else line for line in self.keys.read_text().splitlines()]
        self.keys.write_text("\n".join([*lines, ""]))

    def connect(self):
        return Connection(("127.0.0.1", self.port))

    def request(self, method, path, key=None, headers=(), body=b""):
        with self.connect() as connection:
            connection.send(self.head(method, path, key, *headers) if not body else
                            self.head(method, path, key, f"Content-Length: {len(body)}", *headers).encode() + body)
            return connection.answer()

    def head(self, method, path, key=None, *headers):
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *headers]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        return "\r\n".join([*lines, "", ""])

    def agent(self, key, *headers, connection=None):
        """Returns a connection that has become one to the agent socket, or the answer that refuses it."""
        connection = connection or self.connect()
        connection.send(self.head("GET", "/agent", key, "Connection: Upgrade", "Upgrade: cloister", *headers))
        answer = connection.answer()
        return connection if answer.status == 101 else answer

    def stop(self):
        with acting_as(0), contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        return self.process.wait(60)


def call(connection, method, params=None, number=[0]):
    """Makes a request of the agent socket's protocol, and returns its result or error."""
    number[0] += 1
    connection.send(json.dumps({"jsonrpc": "2.0", "id": number[0], "method": method, "params": params or {}}) + "\n")
    while True:
        message = json.loads(connection.line())
        if message.get("id") == number[0]:
            return message.get("result", message.get("error"))


def make_certificate(place, user):
    with acting_as(0):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", place / "key.pem",
                        "-out", place / "certificate.pem"],
                       check=True, capture_output=True)
        user.own(place / "key.pem")


def tls_settings(area, user):
    """Makes a certificate of the gate's user. Returns the settings with which it speaks TLS."""
    with acting_as(0):
        place = area.new_directory("tls")
        place.chmod(0o755)
    make_certificate(place, user)
    return "tls = certificate", f"tls_certificate = {place}/certificate.pem", f"tls_key = {place}/key.pem"


def handshake(gate, low, high):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old versions
        context.minimum_version, context.maximum_version = low, high
    connection = gate.connect()
    connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
    return connection
