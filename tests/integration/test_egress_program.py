# SPDX-License-Identifier: Apache-2.0
"""cloister-egress by itself: the ways into it, what it refuses, what it says about it, and what it carries."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
import termios
import threading

import egress
import procfs
import pytest
from daemon import SANITIZED
from egress_program import (
    ALERT, answer_http, ask_for_page, at_443, check_echo, host, names, running, shared, start, transparent, unread)
from forbidden_hosts import FORBIDDEN


def test_connect(running, host):
    port, there = running.open(), host()
    connection, head = egress.connect(port, f"A.Open.Test.:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    check_echo(connection)
    connection.close()
    closed = running.link.expect(egress.CLOSED)
    assert closed == {"call": 0, "host": "a.open.test", "port": there.port, "reason": "", "via": "connect", "in": 14,
                      "out": 14}


def test_bytes_behind_the_head(running, host):
    port, there = running.open(), host()
    with egress.client(port) as connection:
        connection.sendall(f"CONNECT open.test:{there.port} HTTP/1.1\r\n\r\nearly".encode())
        assert egress.read_head(connection).startswith(b"HTTP/1.1 200 ")
        assert connection.recv(5) == b"early"


def test_socks(running, host):
    port, there = running.open(), host()
    connection, code = egress.socks(port, "a.sub.test", there.port)
    assert code == 0
    check_echo(connection)
    connection.close()
    assert running.link.expect(egress.CLOSED)["via"] == "socks"


def test_absolute_form(running, host):
    seen = []
    port, there = running.open(), host(answer_http(seen))
    assert egress.absolute(port, f"open.test:{there.port}").endswith(b"\r\n\r\nok")
    assert seen[0] == f"GET / HTTP/1.1\r\nHost: open.test:{there.port}\r\nConnection: close\r\n\r\n".encode()
    assert running.link.expect(egress.CLOSED)["via"] == "http"


def test_second_request_goes_to_the_first_host(running, host):
    """What follows the first head reaches the host that was judged, and no other, whatever it says."""
    seen = []
    port, there, other = running.open(), host(answer_http(seen)), host()
    smuggled = f"GET http://denied.open.test:{other.port}/ HTTP/1.1\r\nHost: denied.open.test\r\n\r\n".encode()
    with egress.client(port) as connection:
        connection.sendall(f"GET http://open.test:{there.port}/ HTTP/1.1\r\nContent-Length: 0\r\n"
                           f"Transfer-Encoding: chunked\r\n\r\n".encode() + smuggled)
        connection.shutdown(socket.SHUT_WR)
        egress.read_all(connection)
    running.link.expect(egress.CLOSED)
    assert procfs.eventually(lambda: len(seen) == 2)
    assert seen[1] == smuggled
    assert other.connections == 0


@pytest.mark.parametrize(("written", "host", "reason"), FORBIDDEN)
@pytest.mark.parametrize("way", ["connect", "http", "socks"])
def test_forbidden(shared, written, host, reason, way):
    """Each is refused, and the event that says so has come before the refusal."""
    running, port = shared
    if way == "connect":
        connection, answer = egress.connect(port, f"{written}:8080")
        connection.close()
    elif way == "http":
        answer = egress.absolute(port, f"{written}:8080")
    else:
        connection, answer = egress.socks(port, written, 8080)
        connection.close()
    denied = running.link.denied()
    shown = host if reason != "bad_request" or way == "socks" else denied["host"]
    assert (denied["host"], denied["reason"], denied["via"]) == (shown, reason, way)
    if reason != "bad_request":
        assert denied["port"] == 8080
    elif way != "socks":
        assert host in denied["host"] or "%" in host or "?" in host
    check_refusal(answer, denied)


@pytest.mark.parametrize(("written", "host", "reason"), FORBIDDEN)
def test_forbidden_without_a_proxy(shared, written, host, reason):
    """The same at the ports that stand for 80 and 443."""
    running, name = shared[0], written.encode()
    _, dns, http, https, _ = running.inside
    answer = ask_for_page(http, b"GET / HTTP/1.1\r\nHost: " + name + b"\r\n\r\n")
    denied = running.link.denied()
    assert (denied["host"], denied["port"], denied["reason"], denied["via"]) == (host, 80, reason, "transparent")
    check_refusal(answer, denied)
    answer = ask_for_page(https, egress.raw_hello(name))
    denied = running.link.denied()
    assert (denied["port"], denied["via"], answer) == (443, "transparent", ALERT)
    if reason == "bad_request":
        assert (denied["host"], denied["reason"]) == ("", "sni_mismatch")
    else:
        assert (denied["host"], denied["reason"]) == (host, reason)
    labels = name.removesuffix(b".").split(b".")
    if b"" in labels or max(map(len, labels)) > 63:
        return  # a question cannot have that
    # A name that is allowed is refused when it is connected to.
    found = egress.ask(dns, b".".join(labels))
    assert found == ((0, ["127.1.0.1"]) if reason in ("private_address", "dns_failed") else (3, []))
    if found[0] and reason != "bad_request" and not is_address(host):
        denied = running.link.denied()
        assert (denied["host"], denied["port"], denied["reason"], denied["via"]) == (host, 0, reason, "dns")


def is_address(host):
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def check_refusal(answer, denied):
    """The client's own answer says the same."""
    status = {"dns_failed": 502, "upstream_failed": 502, "bad_request": 400, "limit": 503}.get(denied["reason"], 403)
    if denied["via"] == "socks":
        assert answer == {502: 4, 400: 1, 503: 1, 403: 2}[status]
        return
    first = answer.split(b"\r\n")[0].decode()
    assert first.startswith(f"HTTP/1.1 {status} cloister: ") and first.endswith(f": {denied['reason']}")


@pytest.mark.parametrize("name", [b"open.test\0.example", b"\0", b"example.com\0.open.test", b"open.test\r\nHost: x",
                                  b"", b"open.test\xff", b"open.test:80", b"/etc/passwd", b"::1", b"127.0.0.1\0"])
def test_socks_names_are_bytes(shared, name):
    running, port = shared
    connection, code = egress.socks(port, name, 80)
    connection.close()
    assert code == 1
    assert running.link.denied()["reason"] == "bad_request"


@pytest.mark.parametrize("greeting", [b"\5\1\2", b"\5\1\1", b"\5\2\1\2", b"\5\0", b"\5\xff" + bytes(range(1, 256))])
def test_socks_with_authentication(shared, greeting):
    """A client that goes on with a user and a password only, or with GSSAPI, is told so: RFC 1928, 3."""
    running, port = shared
    with egress.client(port) as connection:
        connection.sendall(greeting + b"\1\4user\4word")
        assert egress.read_all(connection) == b"\5\xff"
    denied = running.link.denied()
    assert "take the user and the password out of the proxy's address" in denied.pop("rule")
    assert denied == {"call": 0, "host": "", "port": 0, "reason": "bad_request", "via": "socks"}


@pytest.mark.deep("slow")
def test_socks_without_an_end_of_its_greeting(shared):
    running, port = shared
    with egress.client(port) as connection:
        connection.sendall(b"\5\2\2")
        assert egress.read_all(connection) == b"\5\xff"
    assert (denied := running.link.denied())["reason"] == "limit" and denied["via"] == "socks"


@pytest.mark.parametrize(("request_", "code", "why"), [
    (b"\5\2\0\1\1\1\1\1\0\x50", 7, "only CONNECT"), (b"\5\3\0\3\1a\0\x50", 7, "only CONNECT"),
    (b"\5\1\0\2\1a\0\x50", 8, "no address of the type"), (b"\5\1\0\0\1a\0\x50", 8, "no address of the type"),
    (b"\5\1\1\1\1\1\1\1\0\x50", 1, "no request"), (b"\1\4user\4word", 1, "no request"), (b"GET / HTTP/1.1\r\n\r\n", 1, "no request"),
    (b"\4\1\0\x50\1\1\1\1\0", 1, "no request")])
def test_socks_requests_that_are_none(shared, request_, code, why):
    """Each is refused with a reply and told; none is only closed."""
    running, port = shared
    with egress.client(port) as connection:
        connection.sendall(b"\5\1\0" + request_)
        assert egress.read_all(connection) == b"\5\0" + bytes([5, code, 0, 1]) + bytes(6)
    denied = running.link.denied()
    assert (denied["reason"], denied["via"]) == ("bad_request", "socks") and why in denied["rule"]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00:ec2::254"])
def test_socks_addresses(shared, address):
    running, port = shared
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection, code = egress.socks(port, None, 80, socket.inet_pton(family, address))
    connection.close()
    assert code == 2
    assert running.link.denied() == {"call": 0, "host": address, "port": 80, "reason": "not_allowed", "via": "socks",
                                     "rule": ""}


@pytest.mark.parametrize(("target", "rule"), [("web.test:22", "web.test"), ("registry.npmjs.org:80", "registry.npmjs.org:443")])
def test_port(shared, target, rule):
    running, port = shared
    connection, head = egress.connect(port, target)
    body = egress.read_all(connection).decode()
    connection.close()
    denied = running.link.denied()
    assert (denied["reason"], denied["rule"]) == ("port", rule)
    assert head.startswith(b"HTTP/1.1 403 ") and b"X-Cloister-Reason: port\r\n" in head
    assert target in body and "**.open.test:*" in body


@pytest.mark.parametrize("request_", [b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n",
                                      b"GET https://open.test/ HTTP/1.1\r\n\r\n",
                                      b"CONNECT open.test HTTP/1.1\r\n\r\n",
                                      b"CONNECT open.test:0 HTTP/1.1\r\n\r\n",
                                      b"CONNECT open.test:80 HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
                                      b"CONNECT open.test:80 HTTP/1.1\r\nA: b\nX: c\r\n\r\n",
                                      b"GET http://open.test\0/ HTTP/1.1\r\n\r\n",
                                      b"\x16\x03\x01\x00\x05hello", b"\4\1\0\x50\x7f\0\0\1\0", b"SSH-2.0-x\r\n\r\n"])
def test_no_request(shared, request_):
    running, port = shared
    with egress.client(port) as connection:
        connection.sendall(request_)
        assert egress.read_all(connection).startswith(b"HTTP/1.1 400 ")
    assert running.link.denied()["reason"] == "bad_request"


def test_long_head(shared):
    running, port = shared
    with egress.client(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET http://open.test/ HTTP/1.1\r\n")
        while True:
            connection.sendall(b"A: " + b"b" * 1000 + b"\r\n")
    assert running.link.denied()["reason"] == "limit"


@pytest.mark.deep("slow")
def test_slow_head(shared):
    running, port = shared
    with egress.client(port) as connection:
        connection.sendall(b"CONNECT open.test:1 HTTP/1.1\r\n")
        assert running.link.denied()["reason"] == "limit"
        assert b"503" in connection.recv(100)


def test_host_that_refuses(running):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        number = unused.getsockname()[1]
    connection, head = egress.connect(running.open(), f"open.test:{number}")
    connection.close()
    assert head.startswith(b"HTTP/1.1 502 ")
    assert running.link.denied()["reason"] == "upstream_failed"


def test_tls_for_the_host(running, at_443):
    port = running.open()
    connection, head = egress.connect(port, "tls.test:443")
    assert head.startswith(b"HTTP/1.1 200 ")
    hello = egress.client_hello("tls.test")
    for at in range(0, len(hello), 100):
        connection.sendall(hello[at:at + 100])
    received = b""
    while len(received) < len(hello):
        received += connection.recv(4096)
    assert received == hello
    connection.close()


@pytest.mark.parametrize("first", [egress.client_hello("other.test"), egress.client_hello(None), b"SSH-2.0-x\r\n",
                                   b"GET / HTTP/1.1\r\n\r\n"], ids=["another name", "no name", "ssh", "http"])
def test_tls_for_another_host(running, at_443, first):
    port = running.open()
    for connection in (egress.connect(port, "tls.test:443")[0], egress.socks(port, "tls.test", 443)[0]):
        connection.sendall(first)
        assert egress.read_all(connection) == bytes([21, 3, 3, 0, 2, 2, 49])
        connection.close()
        assert running.link.denied()["reason"] == "sni_mismatch"
    assert egress.absolute(port, "tls.test:443").startswith(b"HTTP/1.1 403 ")
    assert running.link.denied()["reason"] == "sni_mismatch"


def test_any_protocol(running, at_443):
    connection, _ = egress.connect(running.open(), "plain.test:443")
    check_echo(connection)
    connection.close()


def test_sni_off(start, at_443):
    connection, _ = egress.connect(start("egress_sni = off").ready().open(), "tls.test:443")
    check_echo(connection)
    connection.close()


def test_half_close(running, host):
    """Either end may end first, and still gets what the other sends."""
    def late(connection):
        received = egress.read_all(connection)
        connection.sendall(str(len(received)).encode())

    def early(connection):
        connection.sendall(b"all")
        connection.shutdown(socket.SHUT_WR)
        received.append(egress.read_all(connection))

    received = []
    port = running.open()
    connection, _ = egress.connect(port, f"open.test:{host(late).port}")
    connection.sendall(b"x" * 3000000)
    connection.shutdown(socket.SHUT_WR)
    assert egress.read_all(connection) == b"3000000"
    connection.close()
    connection, _ = egress.connect(port, f"open.test:{host(early).port}")
    assert egress.read_all(connection) == b"all"
    connection.sendall(b"still")
    connection.shutdown(socket.SHUT_WR)
    assert procfs.eventually(lambda: received == [b"still"])
    connection.close()


def test_stuck_reader_holds_no_memory(running, host):
    """Bytes wait in the kernel's buffers, and the writer waits for them."""
    def flood(connection):
        while True:
            connection.sendall(bytes(1 << 20))

    port, there = running.open(), host(flood)
    before = running.memory()
    stuck = [egress.connect(port, f"open.test:{there.port}")[0] for _ in range(20)]
    connection, _ = egress.connect(port, f"open.test:{host().port}")
    check_echo(connection)
    assert running.memory() - before < (4 if SANITIZED else 1) << 20
    for each in (*stuck, connection):
        each.close()


def test_stuck_readers_hold_little_of_the_kernels_memory(start):
    """The memory of TCP is the host's. Beyond some of a tenant's connections the kernel keeps half a megabyte for one."""
    wide, count = 64, 80  # LIMIT_EGRESS_WIDE
    sent, queued, small = {}, {}, 32768

    def flood(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, small)
        number = int(connection.recv(8))
        sent[number], queued[number] = 0, connection
        while True:
            sent[number] += connection.send(bytes(65536))

    def held(number):
        """Of what the host has sent, what neither it nor the client has."""
        waits = struct.unpack("=i", fcntl.ioctl(queued[number], termios.TIOCOUTQ, bytes(4)))[0]
        return sent[number] - waits - unread(connections[number])

    running = start("egress_connections = 1000\n").ready()
    port = running.open()
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(contextlib.closing(egress.Host(flood)))
        connections = []
        for number in range(count):
            connections.append(stack.enter_context(egress.connect(port, f"open.test:{there.port}")[0]))
            connections[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, small)
            connections[-1].sendall(b"%8d" % number)
        assert procfs.eventually(lambda: len(queued) == count)
        seen = [None]

        def is_full():
            threading.Event().wait(0.5)
            seen.append([held(number) for number in range(wide, count)])
            return seen[-1] == seen[-2] and min(seen[-1]) >= 65536

        assert procfs.eventually(is_full), seen[-2:]
        assert max(seen[-1]) <= 512 << 10, seen[-1]


def test_socks_in_pieces(running, host):
    port, there = running.open(), host()
    with egress.client(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"\5")
        # The program has read the first byte when another connection, which came later, has its answer.
        egress.connect(port, f"open.test:{there.port}")[0].close()
        running.link.expect(egress.CLOSED)
        connection.sendall(b"\1\0")
        assert connection.recv(10) == b"\5\0"
