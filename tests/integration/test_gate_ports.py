# SPDX-License-Identifier: Apache-2.0
"""The ports of a sandbox through cloister-gate: from good and hostile servers to good and hostile clients."""

import hashlib
import os
import pathlib
import socket
import threading

import pytest

import procfs
from cloister_client import acting_as
from e2b_client import Sandbox, chunks
from http_gate import HttpGate, daemon_behind, handshake, tls_settings
from port_server import GOOD, HOSTILE
from ssl import TLSVersion
from test_gate_tokens import AUDIENCE, ISSUER, Issuer, write_keys

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")
DOMAIN = "box.test"
PORT = 8000
MIB = 1 << 20
SERVER = pathlib.Path(__file__).parents[1] / "lib" / "port_server.py"


def config(user, owner):
    return "\n".join(["[cloister]", "agent_socket_mode = 0666", f"gate_user = {user.name}", "[tenant blue]", f"users = {owner.name}",
                      "managed = yes", "gate = yes", "tools = basic sessions", "[tenant green]", "managed = yes", "gate = yes",
                      "tools = basic sessions", "[tenant shut]", "managed = yes", "gate = yes", "tools = basic sessions",
                      "forward_ports = none", ""])


@pytest.fixture(scope="module")
def daemon(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as running:
        yield running


@pytest.fixture(scope="module")
def gate(area, daemon, tenants):
    running = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}", "connections_per_address = 4000")
    yield running
    assert running.stop() == 0


class Served(Sandbox):
    """A sandbox with a server."""

    def __init__(self, gate, key, **wanted):
        super().__init__(gate, key, **wanted)
        self.host = f"{PORT}-{self.id}.{DOMAIN}"
        assert self.request("POST", "/files?path=server.py", "Content-Type: application/octet-stream",
                            body=SERVER.read_bytes()).status == 200
        self.serve()

    def serve(self):
        stream = self.stream("process.Process/Start", process={"cmd": "/usr/bin/python3", "args": ["server.py", str(PORT)]})
        assert "pid" in next(stream)[1]["event"]["start"]
        self.process = stream  # ends when nobody has it any more
        assert procfs.eventually(lambda: self.get("/x").status == 200, 60)

    def head(self, method, target, *headers, host=None):
        return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host or self.host}", *headers, "", ""])

    def get(self, target, *headers, method="GET", body=b"", host=None):
        with self.gate.connect() as connection:
            if body:
                headers += (f"Content-Length: {len(body)}",)
            connection.send(self.head(method, target, *headers, host=host).encode() + body)
            return whole(connection)


def whole(connection):
    """Returns the answer with its body, also a chunked one; None: the gate closed."""
    answer = connection.answer()
    if answer and answer.headers.get("transfer-encoding") == "chunked":
        answer.body = b"".join(chunks(connection))
    return answer


@pytest.fixture(scope="module")
def box(gate):
    served = Served(gate, gate.key("blue")["key"])
    yield served
    assert served.kill() == 204


def peak(gate):
    status = pathlib.Path(f"/proc/{gate.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def lines_of(answer):
    return answer.body.decode("latin-1").lower().split("\r\n")


def test_a_request_passes_on(box):
    answer = box.get("/a/../b//c%2fd?q=1&r=a+b&&", "X-Own: 1", "Cookie: a=b", "Accept-Encoding: br", "User-Agent: me")
    head = lines_of(answer)
    assert answer.status == 200 and answer.headers["content-type"] == "text/plain"
    assert head[0] == "get /a/../b//c%2fd?q=1&r=a+b&& http/1.1"
    assert {f"host: {box.host}", "x-own: 1", "cookie: a=b", "accept-encoding: br", "user-agent: me", f"x-forwarded-host: {box.host}",
            "x-forwarded-proto: http"} <= set(head)
    assert not any(line.startswith(("accept:", "expect:", "content-length:", "transfer-encoding:")) for line in head)
    for method in "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
        assert lines_of(box.get("/x", method=method, body=b"hello"))[-1] == "hello"
    for body in b"", b"y":
        assert box.get("/x", "Accept: */*", "X-Empty:", method="POST", body=body).status == 200


def test_a_path_names_the_port_too(box):
    answer = box.get(f"/ports/{box.id}/{PORT}/a/b?c=%2f", "Cookie: a=b", host="localhost")
    head = lines_of(answer)
    assert head[0] == "get /a/b?c=%2f http/1.1"
    assert {f"host: localhost:{PORT}", f"x-forwarded-prefix: /ports/{box.id}/{PORT}"} <= set(head)
    assert "cookie: a=b" not in head  # of this origin, which other sandboxes share
    assert lines_of(box.get(f"/ports/{box.id}/{PORT}/", host="localhost"))[0] == "get / http/1.1"
    bare = box.get(f"/ports/{box.id}/{PORT}?x=y", host="localhost")
    assert bare.status == 308 and bare.headers["location"] == f"/ports/{box.id}/{PORT}/?x=y"
    for rest in "../x", "a/../../x", "%2e%2e/x", "a/%2E./x", "a%2fb", "a%5cb", "a\\b", "./x", "a%00b", "a%4":
        assert box.get(f"/ports/{box.id}/{PORT}/{rest}", host="localhost").status == 404, rest
    for port in "0", "65536", "08000", "+8000", "8000x", "http", "%38000":
        answer = box.get(f"/ports/{box.id}/{port}/x", host="localhost")
        assert answer.status == (200 if port == "%38000" else 404), port
    for one in "a" * 19, "A" * 20, "..", "%2e%2e":
        assert box.get(f"/ports/{one}/{PORT}/x", host="localhost").status == 404, one
    assert box.get(f"/ports/{'a' * 20}/{PORT}/x", host="localhost").status == 502


def test_headers_name_the_port_too(box):
    headers = (f"E2b-Sandbox-Id: {box.id}", f"E2b-Sandbox-Port: {PORT}")
    assert lines_of(box.get("/x", *headers, host="localhost"))[0] == "get /x http/1.1"
    # The name counts where both are.
    assert box.get("/x", "E2b-Sandbox-Id: " + "a" * 20, f"E2b-Sandbox-Port: {PORT}").status == 200


def test_hosts_that_are_none(box):
    for host in f"{PORT}-{box.id}.evil.test", f"{PORT}-{box.id}.{DOMAIN}.evil.test", f"{PORT}-{box.id}", box.id, f"x-{box.id}.{DOMAIN}x":
        assert box.get("/x", host=host).status == 421, host
    for host in f"0-{box.id}.{DOMAIN}", f"99999-{box.id}.{DOMAIN}", f"{box.id}.{DOMAIN}", f"x.{box.host}", f"{PORT}-{box.id[:-1]}.{DOMAIN}":
        assert box.get("/x", host=host).status in (404, 421), host
    assert box.get("/x", host=box.host.upper()).status == 200
    assert box.get("/x", host=f"{box.host}:{box.gate.port}").status == 200
    assert box.get(f"http://{box.host}/x").status == 400


def test_no_secret_of_the_gate_reaches_the_server(gate, box):
    key = gate.key("blue")["key"]
    for header in (f"Authorization: Bearer {key}", f"authorization: bearer  {key}", f"X-API-Key: {key}", f"X-Access-Token: {box.token}",
                   "E2b-Traffic-Access-Token: secret", f"Authorization: {key}"):
        seen = box.get("/x", header).body.decode()
        assert key not in seen and box.token not in seen and "secret" not in seen, header
    assert "authorization: bearer own" in lines_of(box.get("/x", "Authorization: Bearer own"))
    assert "x-api-key: own" in lines_of(box.get("/x", "X-API-Key: own"))


def test_no_token_of_the_gate_reaches_the_server(area, daemon, tenants):
    with acting_as(0):
        place = area.new_directory("issuer")
        place.chmod(0o755)
        issuer, other = Issuer(place, "first"), Issuer(place, "other")
    write_keys(place, issuer)
    gate = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}", f"jwt_keys = {place}/jwks.json", f"jwt_issuer = {ISSUER}",
                    f"jwt_audience = {AUDIENCE}")
    box = Served(gate, gate.key("blue")["key"])
    token, own = issuer.token(), other.token()
    for header in (f"Authorization: Bearer {token}", f"authorization: bearer  {token}", f"X-API-Key: {token}", f"Authorization: {token}",
                   f"Authorization: Bearer {token}, x"):
        assert token not in box.get("/x", header).body.decode(), header
    assert f"authorization: bearer {own}".lower() in lines_of(box.get("/x", f"Authorization: Bearer {own}"))
    assert box.kill() == 204
    assert gate.stop() == 0


def test_fields_of_the_connection_stay_behind(box):
    head = lines_of(box.get("/x", "Connection: X-Own, keep-alive", "X-Own: 1", "Keep-Alive: 5", "TE: trailers", "Proxy-Authorization: Basic x",
                            "Upgrade: h2c", "HTTP2-Settings: x", "X-Forwarded-For: 1.2.3.4", "X-Kept: 1"))
    assert "x-kept: 1" in head
    assert not any(line.split(":")[0] in ("connection", "x-own", "keep-alive", "te", "proxy-authorization", "upgrade", "http2-settings",
                                          "x-forwarded-for") for line in head)
    answer = box.get("/good/hop-by-hop")
    assert answer.body == b"abc" and answer.headers["x-kept"] == "b"
    assert not {"x-own", "keep-alive", "proxy-authenticate", "upgrade"} & set(answer.headers)


def test_answers(box):
    for name, status, body in (("two-answers", 200, b"abc"), ("early-hints", 200, b"abc"), ("until-the-end", 200, b"abc"),
                               ("trailers", 200, b"abc"), ("204", 204, b""), ("404", 404, b"none"), ("redirect", 302, b""),
                               ("obs-text", 200, b"")):
        with box.gate.connect() as connection:
            connection.send(box.head("GET", f"/good/{name}"))
            answer = whole(connection)
            assert (answer.status, answer.body) == (status, body), name
            connection.send(box.head("GET", "/x"))  # the client's connection goes on
            assert whole(connection).status == 200, name
    assert box.get("/good/redirect").headers["location"] == "http://127.0.0.1:1/x"
    assert box.get("/good/obs-text").headers["x"] == "\xc3\xa4"
    assert "x-content-type-options" not in box.get("/x").headers
    with box.gate.connect() as connection:
        connection.send(box.head("GET", "/good/304") + box.head("GET", "/x"))
        head = connection.answer
        assert connection.line().startswith(b"HTTP/1.1 304")
        while connection.line() != b"\r":
            pass
        assert head().status == 200
        connection.send(box.head("HEAD", "/big/65536") + box.head("GET", "/x"))
        assert connection.line().startswith(b"HTTP/1.1 200")
        lines = set()
        while (line := connection.line()) != b"\r":
            lines.add(line.lower())
        assert b"content-length: 65536\r" in lines
        assert connection.answer().status == 200


def test_cookies_are_a_hosts_own(box):
    with box.gate.connect() as connection:
        connection.send(box.head("GET", "/good/cookies"))
        head = connection.answer().head
        assert "Set-Cookie: a=b" in head and "Set-Cookie: c=d" in head
        connection.send(box.head("GET", f"/ports/{box.id}/{PORT}/good/cookies", host="localhost"))
        head = connection.answer().head
        assert "Set-Cookie" not in head and "Service-Worker" not in head


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_server(box, name):
    """Its client gets a refusal, or an answer that breaks off; never an answer that is whole, or of others."""
    with box.gate.connect() as connection:
        connection.send(box.head("GET", f"/hostile/{name}"))
        answer = connection.answer()
        if answer is None:
            return
        if answer.status == 200 and name in ("half-a-body", "half-a-chunk", "no-last-chunk", "bad-chunk"):
            with pytest.raises((EOFError, ConnectionResetError, ValueError, AssertionError)):
                if "content-length" in answer.headers:
                    assert len(answer.body) == 10
                list(chunks(connection))
        else:
            assert answer.status == 502, (answer.head, answer.body)
            assert f"The server at port {PORT}" in answer.json()["message"]
    assert "Set-Cookie" not in answer.head
    assert box.get("/x").status == 200


@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_bodies_of_any_size(gate, box, coding):
    size = 24 * MIB
    box.get("/count", method="POST", body=b"x")
    before = peak(gate)
    with gate.connect() as connection:
        field = f"Content-Length: {size}" if coding == "length" else "Transfer-Encoding: chunked"
        connection.send(box.head("POST", "/count", field))
        digest, piece = hashlib.sha256(), os.urandom(65536)
        for _ in range(size >> 16):
            digest.update(piece)
            connection.send(piece if coding == "length" else b"10000\r\n" + piece + b"\r\n")
        if coding == "chunked":
            connection.send(b"0\r\n\r\n")
        assert whole(connection).body == b"%d %s" % (size, digest.hexdigest().encode())
        connection.send(box.head("GET", f"/{'big' if coding == 'length' else 'chunked'}/{size}"))
        while b"\r\n\r\n" not in connection.read:
            connection.more()
        received, connection.read = len(connection.read.split(b"\r\n\r\n", 1)[1]), b""
        end = b""
        while received < size or (coding == "chunked" and not end.endswith(b"\r\n0\r\n\r\n")):
            data = connection.socket.recv(1 << 20)
            assert data
            received += len(data)
            end = end[-8:] + data
    assert peak(gate) - before < MIB


def test_a_client_that_does_not_read_stops_the_server(gate, box):
    before = peak(gate)
    with gate.connect() as connection:
        connection.send(box.head("GET", f"/big/{512 * MIB}"))
        connection.socket.recv(1)
        for _ in range(20):  # the gate serves others meanwhile
            assert box.get("/x").status == 200
        assert peak(gate) - before < MIB


def test_a_server_that_does_not_read_stops_the_client(gate, box):
    before = peak(gate)
    with gate.connect() as connection:
        connection.send(box.head("POST", "/stop-reading", f"Content-Length: {64 * MIB}"))
        connection.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.send(b"x" * 64 * MIB)
        assert peak(gate) - before < MIB
        assert box.get("/release").status == 200
    assert box.get("/x").status == 200


def test_a_server_that_never_answers(gate, box):
    """Its client may leave, and then nothing of it stays."""
    def links():
        with gate.connect() as connection:
            connection.send(gate.head("GET", "/metrics"))
            return int(whole(connection).body.split(b"\ncloister_gate_links_open ")[1].split()[0])
    box.get("/x")
    assert procfs.eventually(lambda: links() == 1)  # that of the sandbox's tenant
    with gate.connect() as connection:
        connection.send(box.head("GET", "/never"))
        assert procfs.eventually(lambda: links() == 2)
    assert procfs.eventually(lambda: links() == 1)


def test_each_event_comes_at_once(box):
    with box.gate.connect() as connection:
        connection.send(box.head("GET", "/events"))
        assert connection.answer().headers["content-type"] == "text/event-stream"
        events = chunks(connection)
        for n in range(3):
            assert next(events) == b"data: %d\n\n" % n
            box.get("/release")
        assert list(events) == [b""]


def test_an_answer_before_the_body(gate, box):
    with gate.connect() as connection:
        connection.send(box.head("POST", "/refuse", f"Content-Length: {4 * MIB}").encode() + b"x" * 4 * MIB)
        answer = whole(connection)
        assert (answer.status, answer.body) == (413, b"big")
        connection.send(box.head("GET", "/x"))
        assert whole(connection).status == 200


def test_an_answer_while_the_body_comes(gate, box):
    """The gate passes one on behind the other: up to a bound, and never by holding more."""
    body = os.urandom(MIB // 4)
    assert box.get("/mirror", method="POST", body=body).body == body
    before = peak(gate)
    with gate.connect() as connection:
        connection.send(box.head("POST", "/mirror", f"Content-Length: {8 * MIB}").encode() + b"x" * 8 * MIB)
        answer = whole(connection)
        assert answer.status == 502 and "before it has read the request" in answer.json()["message"]
    assert peak(gate) - before < MIB


UPGRADE = ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")


def test_websockets(box):
    with box.gate.connect() as connection:
        connection.send(box.head("GET", "/socket", *UPGRADE, "Origin: https://anywhere.example").encode() + b"early ")
        answer = connection.answer()
        assert answer.status == 101 and answer.headers["sec-websocket-accept"] == "yes"
        assert answer.headers["upgrade"].lower() == "websocket"
        connection.send(b"hello")
        while b"EARLY HELLO" not in connection.read:
            assert connection.more()
        assert connection.read == b"firstEARLY HELLO"
        payload, received = os.urandom(2 * MIB), b""
        sender = threading.Thread(target=connection.send, args=(payload,))
        sender.start()
        while len(received) < len(payload):
            received += connection.socket.recv(1 << 20)
        sender.join()
        assert received == payload.upper()
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.socket.recv(100) == b"bye"
        assert connection.socket.recv(1) == b""
    answer = box.get("/no-socket", *UPGRADE)
    assert (answer.status, answer.body) == (426, b"no")
    assert box.get("/hostile/nothing", *UPGRADE).status == 502


def test_websockets_by_tls(area, daemon, tenants):
    secure = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}", *tls_settings(area, tenants[1]))

    class ByTls:
        def __init__(self):
            self.connect = lambda: handshake(secure, TLSVersion.TLSv1_2, TLSVersion.TLSv1_3)
            self.head, self.port = secure.head, secure.port

        def request(self, method, path, key=None, headers=(), body=b""):
            with self.connect() as connection:
                connection.send(secure.head(method, path, key, f"Content-Length: {len(body)}", *headers).encode() + body)
                return connection.answer()
    try:
        box = Served(ByTls(), secure.key("blue")["key"])
        assert "x-forwarded-proto: https" in lines_of(box.get("/x"))
        with box.gate.connect() as connection:
            connection.send(box.head("GET", "/socket", *UPGRADE))
            assert connection.answer().status == 101
            connection.send(b"hello")
            while b"HELLO" not in connection.read:
                assert connection.more()
        assert box.kill() == 204
    finally:
        assert secure.stop() == 0


def test_a_page_of_another_origin(box):
    """A server with a name of its own says who may use it; below a name that others share the gate does."""
    for headers in (("Origin: https://anywhere.example",), ("Origin: null",)):
        assert box.get("/x", *headers).status == 200
        assert "access-control-allow-origin" not in box.get("/x", *headers).headers
        assert box.get(f"/ports/{box.id}/{PORT}/x", *headers, host="localhost").status == 403
        assert box.get("/x", f"E2b-Sandbox-Id: {box.id}", f"E2b-Sandbox-Port: {PORT}", *headers, host="localhost").status == 403
    asked = box.get("/x", "Origin: https://anywhere.example", "Access-Control-Request-Method: PUT", method="OPTIONS")
    assert lines_of(asked)[0] == "options /x http/1.1"


def test_a_private_sandbox_needs_its_token(gate, box):
    key = gate.key("blue")
    private = Sandbox(gate, key["key"], network={"allowPublicTraffic": False})
    host = f"{PORT}-{private.id}.{DOMAIN}"
    token = private.made["trafficAccessToken"]

    def status(*headers, target="/x", name=host):
        return box.get(target, *headers, host=name).status
    path = f"/ports/{private.id}/{PORT}/x"
    for wrong in "", token[:-1], private.token, token[:-1] + ("0" if token[-1] != "0" else "1"):
        assert status(f"e2b-traffic-access-token: {wrong}") == 403
        assert status(f"e2b-traffic-access-token: {wrong}", target=path, name="localhost") == 403
    assert status() == status(f"Authorization: Bearer {key['key']}") == 403
    right = f"e2b-traffic-access-token: {token}"
    assert status(right) == status(right, target=path, name="localhost") == 502  # nothing listens
    gate.ctl("key", "revoke", key["id"])
    assert procfs.eventually(lambda: status(right) == 403)


def test_a_revoked_key_ends_what_its_token_began(gate):
    key = gate.key("blue")
    private = Sandbox(gate, key["key"], network={"allowPublicTraffic": False})
    token = f"e2b-traffic-access-token: {private.made['trafficAccessToken']}"

    class WithToken(Served):
        def __init__(self):
            self.gate, self.key, self.id, self.token, self.made = gate, key["key"], private.id, private.token, private.made
            self.host = f"{PORT}-{self.id}.{DOMAIN}"
            assert self.request("POST", "/files?path=server.py", "Content-Type: application/octet-stream",
                                body=SERVER.read_bytes()).status == 200
            self.serve()

        def head(self, method, target, *headers, host=None):
            return super().head(method, target, token, *headers, host=host)
    box = WithToken()
    with gate.connect() as events, gate.connect() as switched:
        events.send(box.head("GET", "/events"))
        assert events.answer().status == 200
        switched.send(box.head("GET", "/socket", *UPGRADE))
        assert switched.answer().status == 101
        gate.ctl("key", "revoke", key["id"])
        for connection in events, switched:
            while connection.more():
                pass


def test_ports_that_are_none(gate, box):
    answer = box.get("/x", host=f"9999-{box.id}.{DOMAIN}")
    assert answer.status == 502
    assert answer.json() == {"code": 502, "message": "The sandbox is running but port is not open", "sandboxId": box.id, "port": 9999}
    assert box.get("/x", host=f"22-{box.id}.{DOMAIN}").status == 403  # forward_ports
    shut = Sandbox(gate, gate.key("shut")["key"])
    assert box.get("/x", host=f"{PORT}-{shut.id}.{DOMAIN}").status == 403
    gone = box.get("/x", host=f"{PORT}-{'a' * 20}.{DOMAIN}")
    assert gone.status == 502 and gone.json()["message"] == "The sandbox was not found"


def test_a_masked_host(gate):
    for mask, seen in ("own.example:${PORT}", f"host: own.example:{PORT}"), ("own.example", "host: own.example"), ("a b\r\nX: y", None):
        masked = Served(gate, gate.key("blue")["key"], network={"maskRequestHost": mask})
        assert (seen or f"host: {masked.host}") in lines_of(masked.get("/x"))
        assert masked.kill() == 204


@pytest.mark.parametrize("bytes_", [
    "Content-Length: 3\r\nContent-Length: 5\r\n\r\nabc", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Content-Length: +3\r\n\r\nabc", "Content-Length : 3\r\n\r\nabc",
    "Content-Length:\r\n 3\r\n\r\nabc", "X: a\r\n b: c\r\n\r\n", "X: a\rb: c\r\n\r\n", "X y: z\r\n\r\n", "Host: other\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n", "Expect: magic\r\n\r\n"])
def test_heads_that_two_could_read_differently_reach_no_server(box, bytes_):
    with box.gate.connect() as connection:
        connection.send(box.head("POST", "/x")[:-2] + bytes_ + box.head("GET", "/smuggled"))
        assert connection.answer().status in (400, 417, 501)
        while (more := connection.answer()) is not None:
            assert more.status == 400


def test_targets_with_bytes_that_must_be_escaped(box):
    for target in "/a\tb", "/a\x01b", "/a\xe4b", "/a\x7fb":
        with box.gate.connect() as connection:
            connection.send(box.head("GET", target))
            answer = connection.answer()
            assert answer is None or answer.status == 400, target


def test_a_hostile_head_is_no_trouble_for_a_long_one(box):
    """A request's head and an answer's share a bounded memory; what does not fit is refused in words."""
    answer = box.get("/x", *(f"X-{n}: " + "y" * 200 for n in range(25)))
    assert answer.status == 200
    answer = box.get("/hostile/many-fields", *(f"X-{n}: " + "y" * 200 for n in range(25)))
    assert answer.status == 502 and "too long" in answer.json()["message"]


def test_a_killed_sandbox_ends_its_connections(gate):
    box = Served(gate, gate.key("blue")["key"])
    with gate.connect() as events, gate.connect() as switched:
        events.send(box.head("GET", "/events"))
        assert events.answer().status == 200
        switched.send(box.head("GET", "/socket", *UPGRADE))
        assert switched.answer().status == 101
        assert box.kill() == 204
        assert list(chunks(events))[-1] == b""
        while switched.more():
            pass
    assert box.get("/x").status == 502
