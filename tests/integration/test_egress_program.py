# SPDX-License-Identifier: Apache-2.0
"""cloister-egress by itself: what it refuses, what it says about it, and what it carries."""

import contextlib
import fcntl
import ipaddress
import os
import pathlib
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

import egress
import procfs
import pytest
import wire
from cloister_client import acting_as
from daemon import SANITIZED
from forbidden_hosts import ADDRESSES, FORBIDDEN, RULES

CONFIG = """[cloister]
egress_resolver = {resolver}

[tenant dev]
network = egress
{rules}
{more}

[tenant closed]
network = egress

[tenant none]
""".replace("{rules}", RULES)


@pytest.fixture(scope="module")
def names():
    server = egress.Names(dict(ADDRESSES))
    yield server
    server.close()


@pytest.fixture
def start(area, account, names):
    started = []

    def start(more="", config=CONFIG, **keywords):
        directory = area.new_directory("egress")
        os.chmod(directory, 0o755)
        config = config and config.format(resolver=names.address, more=more)
        started.append(egress.Egress(directory, config, user=account.uid, **keywords))
        return started[-1]

    yield start
    for running in started:
        assert running.stop() == 0, running.logged()


@pytest.fixture
def running(start):
    return start().ready()


@pytest.fixture
def host():
    with contextlib.ExitStack() as stack:
        def make(serve=egress.echo, **keywords):
            made = egress.Host(serve, **keywords)
            stack.callback(made.close)
            return made
        yield make


def check_echo(connection):
    connection.sendall(b"there and back")
    assert connection.recv(100) == b"there and back"


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


def answer_http(seen):
    def serve(connection):
        seen.append(egress.read_head(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            seen.append(egress.read_all(connection))
    return serve


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


ALERT = bytes([21, 3, 3, 0, 2, 2, 49])  # access_denied

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


@pytest.fixture(scope="module")
def shared(area, account, names):
    directory = area.new_directory("egress")
    os.chmod(directory, 0o755)
    running = egress.Egress(directory, CONFIG.format(resolver=names.address, more=""), user=account.uid).ready()
    running.inside = running.open_all(cell=2)
    yield running, running.open()
    assert running.stop() == 0, running.logged()


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


def test_slow_head(shared):
    running, port = shared
    with egress.client(port) as connection:
        connection.sendall(b"CONNECT open.test:1 HTTP/1.1\r\n")
        assert running.link.denied()["reason"] == "limit"
        assert b"503" in connection.recv(100)


def test_addresses_that_are_not_permitted_are_left_out(running, host):
    """The one of three that may be connected to is used."""
    port, there = running.open(), host()
    connection, head = egress.connect(port, f"mixed.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    check_echo(connection)
    connection.close()


def test_rebinding(running, host, names):
    """A name is resolved once for a connection, and what was checked is what is connected to."""
    addresses = iter(["127.0.0.1", "169.254.169.254", "10.0.0.1"])
    names.answers["rebind.test"] = lambda kind: [next(addresses)] if kind == 1 else []
    port, there = running.open(), host()
    connection, head = egress.connect(port, f"rebind.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    check_echo(connection)
    connection.close()
    running.link.expect(egress.CLOSED)
    for _ in range(2):
        connection, head = egress.connect(port, f"rebind.test:{there.port}")
        connection.close()
        assert head.startswith(b"HTTP/1.1 403 ")
        assert running.link.denied()["reason"] == "private_address"
    assert there.connections == 1
    assert [kind for name, kind in names.asked if name == "rebind.test"].count(1) == 3


def test_no_query_for_what_is_not_allowed(shared, names):
    """Otherwise names would carry data out."""
    running, port = shared
    egress.connect(port, "secret.example.com:80")[0].close()
    running.link.denied()
    assert not [name for name, _ in names.asked if name.endswith("example.com")]


def test_no_search_domains(shared, names):
    running, port = shared
    egress.connect(port, "missing.open.test:80")[0].close()
    assert running.link.denied()["reason"] == "dns_failed"
    assert not [name for name, _ in names.asked if name.endswith("search.test")]


def test_host_that_refuses(running):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        number = unused.getsockname()[1]
    connection, head = egress.connect(running.open(), f"open.test:{number}")
    connection.close()
    assert head.startswith(b"HTTP/1.1 502 ")
    assert running.link.denied()["reason"] == "upstream_failed"


@pytest.fixture
def at_443(host):
    return host(address="127.0.0.1", port=443)


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
                                   b"GET / HTTP/1.1\r\n\r\n"])
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


def test_a_call_is_told_by_its_address(running, host):
    port, there = running.open(), host()
    running.call(7, 0x0102)
    running.call(8, 0x0103)
    for call, address in ((7, "127.64.1.2"), (8, "127.64.1.3"), (0, "127.64.1.4"), (0, "127.0.0.1")):
        egress.connect(port, "example.com:80", address)[0].close()
        assert running.link.denied()["call"] == call
    connection, _ = egress.connect(port, f"open.test:{there.port}", "127.64.1.3")
    check_echo(connection)
    running.call_end(8)
    closed, ended = running.link.expect(egress.CLOSED), running.link.expect(egress.CALL_ENDED)
    assert closed["call"] == 8
    assert ended == {"call": 8, "connections": 1, "denied": 1, "in": 14, "out": 14}
    with pytest.raises(ConnectionResetError):
        connection.recv(1)
    running.call_end(7)
    assert running.link.expect(egress.CALL_ENDED)["denied"] == 1


def own_cgroup():
    """The inode of this process's cgroup, or None where there are none of version 2."""
    lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    path = next((line[4:] for line in lines if line.startswith("0::/")), None)
    mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    top = next((pathlib.Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
    if path == "":
        return 1  # the top of the hierarchy, mounted or not
    return (top / path).stat().st_ino if top and path else None


def test_a_call_is_told_by_its_cgroup(running):
    """What the kernel says of the client's end counts before the address that the client chose."""
    cgroup = own_cgroup()
    if cgroup is None:
        pytest.skip("no cgroup v2")
    with socket.create_server(("0.0.0.0", 0)) as listener, socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as diag:
        running.send_open(1, listener, sockets=egress.PROXY | egress.DIAG, more=[diag])
        running.link.expect(egress.OPENED)
        running.call(7, 0x0102, cgroup=cgroup)
        running.call(8, 0x0103, cgroup=cgroup + 1)
        for address in ("127.64.1.3", "127.0.0.1"):
            egress.connect(listener.getsockname()[1], "example.com:80", address)[0].close()
            assert running.link.denied()["call"] == 7


def test_a_kernel_that_knows_no_cgroups_of_sockets(running):
    """Then addresses count. A netlink socket that answers no such question stands for that kernel."""
    userspace = 2
    with socket.create_server(("0.0.0.0", 0)) as listener, socket.socket(type=socket.SOCK_DGRAM) as dns, \
            socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, userspace) as diag:
        dns.bind(("127.0.0.1", 0))
        running.send_open(1, listener, sockets=egress.PROXY | egress.DNS | egress.DIAG, more=[dns, diag])
        running.link.expect(egress.OPENED)
        assert "the kernel does not say whose connections are" in running.logged()
        running.call(7, 0x0102, cgroup=5)
        running.call(8, 0x0103, cgroup=6)
        for call, address in ((8, "127.64.1.3"), (0, "127.0.0.1")):
            egress.connect(listener.getsockname()[1], "example.com:80", address)[0].close()
            assert running.link.denied()["call"] == call
        assert egress.ask(dns.getsockname()[1], "example.com") == (3, [])
        assert running.link.denied()["call"] == 0


def test_the_only_call(running):
    port = running.open()
    running.call(7)
    egress.connect(port, "example.com:80")[0].close()
    assert running.link.denied()["call"] == 7


def test_a_cell_that_ends(running, host):
    port, there = running.open(), host()
    waiting = egress.client(port)  # accepted before the next one is
    connection, _ = egress.connect(port, f"open.test:{there.port}")
    running.link.send(egress.CLOSE, 1)
    assert running.link.expect(egress.CLOSED)["host"] == "open.test"
    with pytest.raises(ConnectionResetError):
        connection.recv(1)
    with pytest.raises(ConnectionResetError):
        waiting.recv(1)
    # The descriptor is not held any more: the port is free when this process closes its own.
    running.cells.pop(1).close()
    socket.create_server(("0.0.0.0", port)).close()


def test_narrowed(running, host):
    port, there = running.open(allow="a.open.test:* *.example:*"), host()
    egress.connect(port, f"a.open.test:{there.port}")[0].close()
    running.link.expect(egress.CLOSED)
    for target in ("open.test:80", "x.example:80"):
        connection, _ = egress.connect(port, target)
        body = egress.read_all(connection)
        connection.close()
        assert running.link.denied()["reason"] == "not_allowed"
        assert b"Allowed here: a.open.test:* *.example:*\n" in body


@pytest.mark.parametrize(("tenant", "allow", "word"), [
    ("none", None, "network = egress"), ("missing", None, "network = egress"), ("dev", "http://x", "scheme"),
    ("dev", "*", "first label"), ("dev", "@nothing", "@npm")])
def test_cells_that_are_refused(running, tenant, allow, word):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running.send_open(1, listener, tenant, allow)
        assert word in running.link.expect(egress.OPEN_FAILED)["reason"]


def test_sockets_that_are_refused(running):
    with socket.socket() as unbound, socket.socket(type=socket.SOCK_DGRAM) as udp, \
            socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as listener:
        for wrong in (unbound, udp, unix):
            running.send_open(1, wrong)
            assert "TCP" in running.link.expect(egress.OPEN_FAILED)["reason"]
        running.send_open(1, listener, sockets=egress.PROXY | egress.DIAG, more=[udp])
        assert "netlink" in running.link.expect(egress.OPEN_FAILED)["reason"]


def test_empty_means_no(running):
    connection, head = egress.connect(running.open(tenant="closed"), "open.test:80")
    body = egress.read_all(connection)
    connection.close()
    assert head.startswith(b"HTTP/1.1 403 ") and b"Allowed here: nothing" in body
    assert running.link.denied()["reason"] == "not_allowed"


def test_limits(start, host):
    running = start("egress_connections = 2\n").ready()
    port, there = running.open(), host()
    held = [egress.connect(port, f"open.test:{there.port}")[0] for _ in range(2)]
    connection, head = egress.connect(port, f"open.test:{there.port}")
    connection.close()
    denied = running.link.denied()
    assert (denied["reason"], denied["rule"]) == ("limit", "egress_connections")
    assert head.startswith(b"HTTP/1.1 503 ")
    held.pop().close()
    running.link.expect(egress.CLOSED)
    connection, head = egress.connect(port, f"open.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    # Where the tenant has two workspaces open, each may have half.
    second = running.open(cell=2)
    for each in (connection, held.pop()):
        each.close()
        running.link.expect(egress.CLOSED)
    held.append(egress.connect(port, f"open.test:{there.port}")[0])
    assert egress.connect(port, f"open.test:{there.port}")[1].startswith(b"HTTP/1.1 503 ")
    running.link.denied()
    assert egress.connect(second, f"open.test:{there.port}")[1].startswith(b"HTTP/1.1 200 ")


def test_connect_rate(start):
    running = start("egress_connect_rate = 3\n").ready()
    port = running.open()
    connections = [egress.client(port) for _ in range(20)]
    for connection in connections:
        connection.sendall(b"CONNECT missing.open.test:1 HTTP/1.1\r\n\r\n")
    reasons = [running.link.denied() for _ in connections]
    assert {(denied["reason"], denied["rule"]) for denied in reasons} == {
        ("dns_failed", ""), ("limit", "egress_connect_rate")}


class HeldNames(egress.Names):
    """A DNS server that answers nothing until release(): no name exists."""

    def __init__(self):
        self.release_now = threading.Event()
        super().__init__({})

    def _serve(self):
        held = []
        self.socket.settimeout(0.05)
        while not self.release_now.is_set():
            with contextlib.suppress(TimeoutError):
                held.append(self.socket.recvfrom(2048))
                self._answer(held[-1][0])
        self.socket.settimeout(None)
        for question, client in held:
            self.socket.sendto(self._answer(question), client)
        super()._serve()


def test_look_ups_that_nobody_waits_for_are_counted(start):
    """c-ares ends no look-up before its time, so commands that end and leave theirs could pile them up."""
    held = HeldNames()
    more = "egress_connections = 8\n[tenant other]\nnetwork = egress\negress_allow = *.open.test:*\n"
    running = start(config=CONFIG.replace("{resolver}", held.address), more=more).ready()
    port, other = running.open(), running.open(cell=2, tenant="other")

    def ask(name, at=port):
        connection = egress.client(at)
        connection.sendall(f"CONNECT {name}.open.test:1 HTTP/1.1\r\n\r\n".encode())
        return connection

    def is_asked(names):
        return {f"{name}.open.test" for name in names} <= {name for name, _ in held.asked}

    for command in range(1, 3):
        names = [f"n{command}-{i}" for i in range(4)]
        running.call(command)
        connections = [ask(name) for name in names]
        assert procfs.eventually(lambda: is_asked(names))
        running.call_end(command)
        running.link.expect(egress.CALL_ENDED)
        for connection in connections:
            connection.close()
    running.call(3)
    refused = ask("n3")
    assert (lambda denied: (denied["reason"], denied["rule"]))(running.link.denied()) == ("limit", "egress_connections")
    assert egress.read_all(refused).startswith(b"HTTP/1.1 503 ")
    waits = ask("n4", other)
    assert procfs.eventually(lambda: is_asked(["n4"])) and not is_asked(["n3"])
    running.link.send(egress.CLOSE, 1)
    held.release_now.set()
    assert egress.read_all(waits).startswith(b"HTTP/1.1 5") and running.link.denied()["reason"] == "dns_failed"
    # Its cell is another, but the tenant's look-ups have ended.
    port = running.open(cell=3)
    ends = ask("n5", port)
    assert running.link.denied()["reason"] == "dns_failed"
    for connection in (refused, waits, ends):
        connection.close()
    held.close()


def test_tenants_have_their_share(start, names):
    """One tenant that takes all connections it can get leaves some to the other."""
    config = CONFIG.format(resolver=names.address, more="egress_connections = 0") + \
        "\n[tenant other]\nnetwork = egress\n"
    running = start(config=config.replace("{", "{{"), descriptors=512).ready()
    greedy, modest = running.open(), running.open(cell=2, tenant="other")
    held = [egress.client(greedy) for _ in range(400)]
    assert procfs.eventually(lambda: descriptors(running) > 150)
    connection, head = egress.connect(modest, "example.com:80")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert descriptors(running) < 200
    for each in (connection, *held):
        each.close()


def descriptors(running):
    return len(os.listdir(f"/proc/{running.process.pid}/fd"))


@pytest.mark.parametrize("workspaces", [1, 2])
@pytest.mark.parametrize(("key", "way"), [("egress_bytes_out", "out"), ("egress_bytes_in", "in")])
def test_bytes(start, host, key, way, workspaces):
    """A tenant's only workspace may have all of them. Where the tenant has two open, one may have half of what the tenant may,
    and the other gets its own half."""
    def give(connection):
        connection.sendall(bytes(200000))
        egress.read_all(connection)

    running = start(f"{key} = 100000\n").ready()
    ports, there = [running.open(cell=number + 1) for number in range(workspaces)], host(give if way == "in" else egress.read_all)
    for port in ports:
        connection, head = egress.connect(port, f"open.test:{there.port}")
        assert head.startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionError):
            if way == "out":
                connection.sendall(bytes(200000))
            egress.read_all(connection)
        connection.close()
        closed = running.link.expect(egress.CLOSED)
        assert (closed[way], closed["reason"]) == (100000 // workspaces, "limit")
        connection, head = egress.connect(port, f"open.test:{there.port}")
        connection.close()
        assert head.startswith(b"HTTP/1.1 503 ")
        assert running.link.denied()["rule"] == key


def test_reload(running, host, names):
    port, there = running.open(), host()
    config = CONFIG.format(resolver=names.address, more="")
    running.configure(config.replace("**.open.test:* ", ""))
    running.link.send(egress.RELOAD)
    connection, head = egress.connect(port, f"open.test:{there.port}")
    connection.close()
    assert head.startswith(b"HTTP/1.1 403 ")
    running.link.denied()
    running.configure(config.replace("web.test", "http://web.test"))
    running.link.send(egress.RELOAD)
    connection, head = egress.connect(port, f"open.test:{there.port}")
    connection.close()
    assert head.startswith(b"HTTP/1.1 403 ")
    running.link.denied()
    assert ":8: egress_allow: \"http://web.test\":" in running.logged()
    running.configure(config)
    running.link.send(egress.RELOAD)
    assert egress.connect(port, f"open.test:{there.port}")[1].startswith(b"HTTP/1.1 200 ")
    running.configure(config.replace("network = egress", "network = none"))
    running.link.send(egress.RELOAD)
    assert egress.connect(port, f"open.test:{there.port}")[1].startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("**.open.test:* ", "", "not_allowed"), ("**.open.test:*", "**.open.test:1", "port"),
    ("egress_deny = ", "egress_deny = a.open.test ", "denied"), ("127.0.0.0/8", "127.9.0.0/16", "private_address"),
    ("network = egress", "network = none", "not_allowed")])
def test_a_reload_ends_what_it_no_longer_allows(running, host, names, old, new, reason):
    """Tunnels end with the reason that a new one would have, in their call; others stay."""
    port, there = running.open(), host()
    running.call(7)
    config = CONFIG.format(resolver=names.address, more="")
    assert old in config
    tunnel, head = egress.connect(port, f"a.open.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    tunnel.sendall(b"bytes")
    assert tunnel.recv(5) == b"bytes"
    running.link.send(egress.RELOAD)  # of the same rules
    tunnel.sendall(b"again")
    assert tunnel.recv(5) == b"again"
    running.configure(config.replace(old, new, 1))
    running.link.send(egress.RELOAD)
    denied = running.link.denied()
    assert (denied["call"], denied["host"], denied["port"], denied["reason"]) == (7, "a.open.test", there.port, reason)
    closed = running.link.expect(egress.CLOSED)
    assert (closed["call"], closed["host"], closed["reason"], closed["in"], closed["out"]) == \
        (7, "a.open.test", reason, 10, 10)
    with pytest.raises(ConnectionResetError):
        tunnel.recv(1)
    tunnel.close()


FILTERED = """[cloister]
[tenant dev]
network = egress
egress_private = 10.2.0.0/16 192.168.1.7 127.0.0.0/8 fd00::/16
[tenant other]
network = egress
egress_private = 192.168.1.7/32 10.0.0.0/8
"""


def test_a_host_that_filters(start):
    """It tells what of egress_private the host's IP filter refuses, once, until that has changed."""
    # As text: the user may not be able to reach the file.
    launcher = [sys.executable, "-c", (pathlib.Path(__file__).parents[1] / "lib" / "drop_packets.py").read_text()]
    filtered = start(config=FILTERED, launcher=launcher)
    try:
        filtered.ready()
    except EOFError:
        assert filtered.process.wait() == 77 and "CI" not in os.environ, filtered.logged()
        filtered.process.returncode = 0
        pytest.skip(filtered.logged())
    refused = "10.2.0.0/16 192.168.1.7/32 127.0.0.0/8 fd00::/16 10.0.0.0/8"
    assert filtered.link.expect(egress.FILTERED) == refused
    assert f"the host's IP filter refuses {refused}, which egress_private opens" in filtered.logged()
    for private, said in (("192.168.1.7/32", "192.168.1.7/32"), ("fd00::/16", "fd00::/16"),
                          ("fd00::7 fd00:0:0:1::/64", "fd00::7/128 fd00:0:0:1::/64"), ("fd99::/16", "")):
        filtered.configure(f"[tenant dev]\nnetwork = egress\negress_private = {private}\n")
        filtered.link.send(egress.RELOAD)
        assert filtered.link.expect(egress.FILTERED) == said
    filtered.link.send(egress.RELOAD)
    filtered.open(tenant="dev")  # nothing was told between


def test_a_host_that_does_not_filter(start):
    assert start(config=FILTERED).ready().open()


def test_a_reload_while_a_name_is_asked_for(running, host, names):
    there, asked, go = host(), threading.Event(), threading.Event()

    def answer(kind):
        asked.set()
        go.wait(egress.WAIT_S)
        return ["127.0.0.1"]

    names.answers["late.open.test"] = answer
    with egress.client(running.open()) as connection:
        connection.sendall(f"CONNECT late.open.test:{there.port} HTTP/1.1\r\n\r\n".encode())
        assert asked.wait(egress.WAIT_S)
        running.configure(CONFIG.format(resolver=names.address, more="").replace("**.open.test:* ", ""))
        running.link.send(egress.RELOAD)
        assert egress.read_head(connection).startswith(b"HTTP/1.1 403 ")
        assert running.link.denied()["reason"] == "not_allowed"
        go.set()
    assert there.connections == 0


@pytest.mark.parametrize(("line", "message"), [
    ("egress_allow = *", "first label"), ("egress_allow = a.*.test", "first label"),
    ("egress_allow = 10.0.0.1", "matches nothing"), ("egress_allow = [::1]", "matches nothing"),
    ("egress_allow = denied.open.test", "matches nothing"), ("egress_allow = @nothing", "@npm"),
    ("egress_deny = tcp:a.test:1", "only in egress_allow"), ("egress_private = 169.254.169.254", "never opened"),
    ("egress_private = 10.0.0.1/8", "prefix"), ("egress_sni = maybe", "match or off"),
    ("egress_upstream = socks://a:1", "http://HOST:PORT"), ("egress_connections = many", "fits"),
    ("network = all", "none or egress")])
def test_mistakes_have_a_file_and_a_line(start, line, message):
    running = start(line + "\n")
    assert running.process.wait(egress.WAIT_S) == 1
    running.process.returncode = 0
    assert "egress.conf:11: " in running.logged() and message in running.logged(), running.logged()


def test_without_a_configuration(start, host):
    running = start(config=None, allow="1.1.1.1:53 example.com").ready()
    port = running.open(tenant="whoever")
    connection, _ = egress.connect(port, "example.org:80")
    body = egress.read_all(connection)
    connection.close()
    assert b"Allowed here: 1.1.1.1:53 example.com\n" in body


def serve_upstream(seen, status):
    def serve(connection):
        seen.append(egress.read_head(connection))
        connection.sendall(f"HTTP/1.1 {status}\r\nX: y\r\n\r\nfirst".encode())
        egress.echo(connection)
    return serve


def test_upstream(start, host):
    seen = []
    there = host(serve_upstream(seen, "200 OK"))
    running = start(f"egress_upstream = http://127.0.0.1:{there.port}\n").ready()
    connection, head = egress.connect(running.open(), "missing.open.test:77")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert connection.recv(5) == b"first"
    check_echo(connection)
    connection.close()
    assert seen == [b"CONNECT missing.open.test:77 HTTP/1.1\r\nHost: missing.open.test:77\r\n\r\n"]


@pytest.mark.parametrize("status", ["403 No", "500 Broken", "nonsense"])
def test_upstream_that_refuses(start, host, status):
    there = host(serve_upstream([], status))
    running = start(f"egress_upstream = http://127.0.0.1:{there.port}\n").ready()
    connection, head = egress.connect(running.open(), "open.test:77")
    connection.close()
    assert head.startswith(b"HTTP/1.1 502 ")
    assert (running.link.denied()["reason"]) == "upstream_failed"


def is_readable(connection, wait_ms=0):
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(wait_ms))


def test_events_come_before_refusals(running):
    """While cloisterd reads nothing, clients wait, and no memory grows; then each has its refusal and its event."""
    port = running.open()
    running.link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    before, clients, name = running.memory(), [], "x" * 60 + ".example.com"
    for _ in range(2000):
        connection = egress.client(port)
        connection.sendall(f"CONNECT {name}:80 HTTP/1.1\r\n\r\n".encode())
        clients.append(connection)
    # The kernel's buffer is full when a connection is not accepted any more.
    assert procfs.eventually(lambda: not is_readable(clients[-1], 1000))
    answered = sum(is_readable(connection) for connection in clients)
    unread = struct.unpack("=i", fcntl.ioctl(running.link.socket, termios.FIONREAD, bytes(4)))[0]
    event = wire.HEADER.size + 8 + len(wire.text(name)) + 6 + len(wire.text(""))
    assert 0 < answered <= unread // event < len(clients)
    assert running.memory() - before < (64 if SANITIZED else 4) << 20
    for _ in clients:
        assert running.link.denied()["reason"] == "not_allowed"
    for connection in clients:
        assert connection.recv(12) == b"HTTP/1.1 403"
        connection.close()


def test_confined(running):
    """Neither the program nor who takes it over can do more than it needs."""
    status = pathlib.Path(f"/proc/{running.process.pid}/status").read_text()
    assert "Seccomp:\t2\n" in status and "NoNewPrivs:\t1\n" in status
    assert "Threads:\t1\n" in status
    assert os.stat(f"/proc/{running.process.pid}/mem").st_uid == 0


def test_end_of_cloisterd(start, host):
    running = start().ready()
    connection, _ = egress.connect(running.open(), f"open.test:{host().port}")
    running.link.socket.shutdown(socket.SHUT_RDWR)
    assert running.process.wait(egress.WAIT_S) == 0
    assert connection.recv(1) == b""


def test_messages_that_are_none(start):
    for bad in (b"\1" * 16, struct.pack("=BBHIQ", 1, 1, 0, 0, 1), struct.pack("=BBHIQ", 1, 9, 0, 0, 1),
                struct.pack("=BBHIQ", 2, 5, 0, 0, 1), struct.pack("=BBHIQ", 1, 5, 0, 1, 0) + b"x"):
        running = start().ready()
        running.link.socket.sendall(bad)
        assert running.process.wait(egress.WAIT_S) == 1
        running.process.returncode = 0


def hold_connections(listener):
    """Accepts and keeps what comes, in a process of its own, which has descriptors of its own."""
    child = os.fork()
    if child == 0:
        held = []
        while True:
            held.append(listener.accept()[0])
    return child


def test_idle_tunnels_are_small(start):
    """10,000 of them, or as many as the host's limit of descriptors permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10000, hard // 16 * 7 - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        child = hold_connections(listener)
        target = f"open.test:{listener.getsockname()[1]}"
    held = []
    try:
        running = start("egress_connections = 20000\n").ready()
        port = running.open()
        held.append(egress.connect(port, target)[0])
        empty = running.memory()
        while len(held) < count:
            held.append(egress.connect(port, target)[0])
        each = (running.memory() - empty) / count
        print(f"{count} idle tunnels, {each:.0f} bytes each")
        assert each < (1 << 20 if SANITIZED else 4096)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for _ in held:
        running.link.expect(egress.CLOSED)


@pytest.fixture
def transparent(running):
    """A cell with all its sockets: the ports that stand for 53, 80 and 443."""
    return running.open_all()[1:]


def test_names_inside(running, transparent, names):
    """Allowed names have one address inside, others none; no DNS server is asked."""
    dns, before = transparent[0], len(names.asked)
    running.call(7)
    for name in ("open.test", "A.Sub.Test", "tls.test", "web.test"):
        assert egress.ask(dns, name) == (0, ["127.1.0.1"])
        assert egress.ask(dns, name, 28) == (0, [])
    for name, reason in (("secret.example.com", "not_allowed"), ("denied.open.test", "denied")):
        assert egress.ask(dns, name) == (3, [])
        denied = running.link.denied()
        assert (denied["call"], denied["host"], denied["reason"], denied["via"]) == (7, name, reason, "dns")
    # The question for IPv6 that comes with it is no second refusal, and what is no host's name is none.
    for name, kind in (("example.com", 28), (b"a b.open.test", 1), (b"127.0.0.1", 1), (b"open.te\0st", 1)):
        assert egress.ask(dns, name, kind) == (3, [])
    running.call_end(7)
    assert running.link.expect(egress.CALL_ENDED)["denied"] == 2
    assert len(names.asked) == before


def test_questions_that_are_none(transparent):
    good = egress.question("open.test")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("127.0.0.1", transparent[0]))
        for bad in (b"", good[:11], good[:-1], good[:2] + b"\x81" + good[3:], good[:5] + b"\2" + good[6:],
                    good[:12] + b"\xc0\x0c\0\1\0\1", good[:12] + b"\x40" + b"a" * 64 + b"\0\0\1\0\1",
                    good[:-2] + b"\0\3", good + b"x" * 500):
            asking.send(bad)
        asking.send(good)
        asking.settimeout(egress.WAIT_S)
        assert asking.recv(512)[3] & 15 == 0
        asking.setblocking(False)
        with pytest.raises(BlockingIOError):
            asking.recv(512)


def framed(question):
    return struct.pack(">H", len(question)) + question


def take_answer(connection):
    """The code of the next answer, and its address."""
    length, = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))
    answer = connection.recv(length, socket.MSG_WAITALL)
    return answer[3] & 15, socket.inet_ntoa(answer[-4:]) if answer[7] else None


def test_questions_over_tcp(running, transparent):
    """Several, whole and in pieces. That of a name that is refused is told once, before it is answered."""
    running.call(7)
    with egress.client(transparent[3]) as connection:
        both = framed(egress.question("open.test")) + framed(egress.question("open.test", 28))
        connection.sendall(both)
        assert [take_answer(connection) for _ in range(2)] == [(0, "127.1.0.1"), (0, None)]
        for byte in both:
            connection.sendall(bytes([byte]))
        assert [take_answer(connection) for _ in range(2)] == [(0, "127.1.0.1"), (0, None)]
        connection.sendall(framed(egress.question("example.com")) + framed(egress.question("example.com", 28)) + both)
        assert [take_answer(connection)[0] for _ in range(4)] == [3, 3, 0, 0]
        denied = running.link.denied()
        assert (denied["call"], denied["host"], denied["port"], denied["via"]) == (7, "example.com", 0, "dns")
    running.call_end(7)
    assert running.link.expect(egress.CALL_ENDED)["denied"] == 1


@pytest.mark.parametrize("bad", [b"\0\0", b"\0\5abcde", b"\2\1" + bytes(513), b"\xff\xff" + bytes(2000)], ids=lambda bad: bad[:2].hex())
def test_no_question_over_tcp(transparent, bad):
    with egress.client(transparent[3]) as connection:
        connection.sendall(bad)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_refused_names_over_tcp_wait_for_cloisterd(running, transparent):
    """While it reads no events, there is no answer; each is told once."""
    known = running.link.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    count = known // 50
    with egress.client(transparent[3]) as connection:
        question = framed(egress.question("example.com"))

        def ask():
            with contextlib.suppress(OSError):
                for _ in range(count):
                    connection.sendall(question)
        asking = threading.Thread(target=ask)
        asking.start()
        answers = 0
        with contextlib.suppress(TimeoutError):
            connection.settimeout(0.5)
            while answers < count:
                take_answer(connection)
                answers += 1
        assert answers < count
        connection.settimeout(egress.WAIT_S)
        told = 0
        while told < count:
            assert running.link.denied()["host"] == "example.com"
            told += 1
            if told > answers:
                assert take_answer(connection)[0] == 3
        asking.join()


def test_many_refused_names_over_tcp_wait_for_cloisterd(running, transparent):
    """When it reads again, no question is answered whose event waits in cloister-egress."""
    question = framed(egress.question("example.com"))
    event = wire.HEADER.size + struct.calcsize("=Q") + len(wire.text("example.com")) + struct.calcsize("=IBB") + \
        len(wire.text(""))
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(egress.client(transparent[3])) for _ in range(60)]
        for each in asking:
            each.sendall(30 * question)
        events, poll, by_fd = running.link.socket, select.poll(), {each.fileno(): each for each in asking}
        for each in asking:
            poll.register(each, select.POLLIN)

        def answers():
            came = 0
            while ready := poll.poll(300):  # only shows that nothing more comes
                for fd, _ in ready:
                    data = by_fd[fd].recv(65536)
                    assert data
                    came += len(data)
            return came // len(question)

        answered, read = answers(), 0
        assert 0 < answered < 60 * 30
        left = unread(events)
        while read < left:
            read += len(events.recv(left - read))
        answered += answers()
        assert answered * event <= read + unread(events)


def unread(connection):
    return struct.unpack("=i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))[0]


def ask_for_page(port, head):
    with egress.client(port) as connection:
        connection.sendall(head)
        return egress.read_all(connection)


def test_port_80(running, transparent, host):
    seen = []
    host(answer_http(seen), port=80)
    assert ask_for_page(transparent[1], b"GET /x HTTP/1.1\r\nHost: A.Open.Test\r\n\r\n").endswith(b"\r\n\r\nok")
    assert seen[0] == b"GET /x HTTP/1.1\r\nHost: a.open.test\r\nConnection: close\r\n\r\n"
    closed = running.link.expect(egress.CLOSED)
    assert (closed["host"], closed["port"], closed["via"]) == ("a.open.test", 80, "transparent")


@pytest.mark.parametrize(("head", "reason"), [
    (b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "not_allowed"),
    (b"GET / HTTP/1.1\r\nHost: meta.test\r\n\r\n", "private_address"),
    (b"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", "not_allowed"),
    (b"GET / HTTP/1.1\r\n\r\n", "bad_request"),
    (b"GET / HTTP/1.1\r\nHost: open.test\r\nHost: example.com\r\n\r\n", "bad_request"),
    (b"GET / HTTP/1.1\r\nHost: open.test:81\r\n\r\n", "bad_request"),
    (b"GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n", "bad_request"),
    (b"CONNECT open.test:80 HTTP/1.1\r\nHost: open.test\r\n\r\n", "bad_request"),
    (b"\5\1\0", "bad_request")])
def test_port_80_is_refused(running, transparent, head, reason):
    answer = ask_for_page(transparent[1], head)
    denied = running.link.denied()
    assert (denied["reason"], denied["via"]) == (reason, "transparent")
    assert answer.startswith(b"HTTP/1.1 400 " if reason == "bad_request" else b"HTTP/1.1 403 ")


def test_port_443(running, transparent, at_443):
    hello = egress.client_hello("tls.test")
    with egress.client(transparent[2]) as connection:
        connection.sendall(hello[:10])
        connection.sendall(hello[10:])
        connection.shutdown(socket.SHUT_WR)
        assert egress.read_all(connection) == hello
    assert running.link.expect(egress.CLOSED)["via"] == "transparent"


@pytest.mark.parametrize(("name", "reason"), [("example.com", "not_allowed"), ("meta.test", "private_address"),
                                              ("missing.open.test", "dns_failed"), (None, "sni_mismatch")])
def test_port_443_is_refused(running, transparent, name, reason):
    for first in (egress.client_hello(name), b"GET / HTTP/1.1\r\n\r\n") if name is None else (egress.client_hello(name),):
        answer = ask_for_page(transparent[2], first)
        denied = running.link.denied()
        assert (denied["reason"], denied["via"], denied["port"]) == (reason, "transparent", 443)
        assert answer == ALERT


@pytest.fixture
def roots_directory():
    """A directory of root's, as system mode asks for."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield path


def test_system_mode(roots_directory, account, tenants, names):
    """The program comes to cloisterd's socket, and takes only listeners of a workspace's id, for one tenant."""
    config = CONFIG.format(resolver=names.address, more="").replace("[tenant none]\n", "[tenant none]\nnetwork = egress\n")
    path = pathlib.Path(roots_directory) / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o666)
        server.listen()
        running = egress.Egress(roots_directory, config, user=account.uid, listener=server).ready()
    with socket.create_server(("127.0.0.1", 0)) as roots:
        running.send_open(1, roots)
        assert "belong to a workspace" in running.link.expect(egress.OPEN_FAILED)["reason"]
    with acting_as(account.uid, account.gid), socket.create_server(("127.0.0.1", 0)) as own:
        running.send_open(1, own)
        assert "belong to a workspace" in running.link.expect(egress.OPEN_FAILED)["reason"]
    with acting_as(tenants[0].uid, tenants[0].gid), socket.create_server(("127.0.0.1", 0)) as first, \
            socket.create_server(("127.0.0.1", 0)) as second, socket.create_server(("127.0.0.1", 0)) as third:
        running.send_open(1, first)
        running.link.expect(egress.OPENED)
        running.send_open(2, second, tenant="none")
        assert "another tenant" in running.link.expect(egress.OPEN_FAILED)["reason"]
        running.send_open(2, third)
        running.link.expect(egress.OPENED)
    assert running.stop() == 0


def test_system_mode_needs_roots_files(area, account, names):
    """A configuration that another user could write is refused before anything is connected to."""
    directory = area.new_directory("egress")
    program, _ = (shutil.copy(file, directory) for file in egress.FILES)
    config = pathlib.Path(directory) / "egress.conf"
    config.write_text(CONFIG.format(resolver=names.address, more=""))
    ended = subprocess.run([program, "system", config, "/nonexistent"], user=account.uid, extra_groups=[],
                           capture_output=True, text=True, timeout=egress.WAIT_S)
    assert ended.returncode == 1 and "not root's alone" in ended.stderr


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


def test_what_an_ended_call_has_left_is_not_another_calls(running):
    port = running.open()
    running.call(1, address=1)
    running.call_end(1)
    running.link.expect(egress.CALL_ENDED)
    running.call(2, address=2)
    egress.connect(port, "blamed.test:443", "127.64.0.1")[0].close()
    assert running.link.denied()["call"] == 0
    egress.connect(port, "own.test:443", "127.64.0.2")[0].close()
    assert running.link.denied()["call"] == 2


def test_more_calls_than_a_tenant_has_by_default(running):
    port = running.open()
    for number in range(1, 2000):
        running.call(number, address=number)
    egress.connect(port, "no.test:1", "127.64.7.207")[0].close()
    assert running.link.denied()["call"] == 1999


def test_silent_clients_of_a_workspace_keep_out_no_other(start, host):
    running = start("egress_connections = 10\n").ready()
    greedy, modest, there = running.open(), running.open(cell=2), host()
    before = descriptors(running)
    held = [egress.client(greedy) for _ in range(300)]
    assert procfs.eventually(lambda: descriptors(running) >= before + 37)
    # While they are silent, they are there; each is refused when its time is over.
    connection, head = egress.connect(modest, f"open.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    connection.close()
    running.link.expect(egress.CLOSED)  # and not EGRESS_DENIED: none of the silent ones had to end first
    for each in held:
        each.close()


def test_clients_that_had_to_wait_are_served(start, host):
    """A door at which nobody is accepted for want of room is opened again when there is room, and so is one of another
    workspace that waited for the tenant's."""
    running = start("egress_connections = 2\n").ready()
    ports, there = (running.open(), running.open(cell=2)), host()
    before, room = descriptors(running), 33  # half of LIMIT_EGRESS_EXTRA and the two
    silent = [egress.client(port) for port in ports for _ in range(room)]
    assert procfs.eventually(lambda: descriptors(running) >= before + 2 * room)
    waiting = [egress.client(port) for port in ports for _ in range(3)]
    for connection in waiting:
        connection.sendall(f"CONNECT no.test:{there.port} HTTP/1.1\r\n\r\n".encode())
    for connection in silent:
        connection.close()
    for connection in waiting:
        assert egress.read_all(connection).startswith(b"HTTP/1.1 403 ")
        connection.close()


def test_attempts_beyond_a_workspaces_share_count_against_it_alone(start):
    config = CONFIG.replace("egress_connect_rate = 0", "egress_connect_rate = 20")
    running = start(config=config).ready()
    greedy, modest = running.open(), running.open(cell=2)
    connections = [egress.client(greedy) for _ in range(100)]
    for connection in connections:
        connection.sendall(b"CONNECT missing.open.test:1 HTTP/1.1\r\n\r\n")
    for _ in connections:
        running.link.denied()
    egress.connect(modest, "missing.open.test:1")[0].close()
    assert running.link.denied()["reason"] == "dns_failed"


def test_a_tenants_bytes_are_counted_on_in_its_next_cell(start, host):
    running = start("egress_bytes_out = 1000\n").ready()
    port, there = running.open(), host(egress.read_all)
    connection, _ = egress.connect(port, f"open.test:{there.port}")
    with contextlib.suppress(ConnectionError):
        connection.sendall(bytes(2000))
        egress.read_all(connection)
    connection.close()
    assert running.link.expect(egress.CLOSED)["out"] == 1000
    running.link.send(egress.CLOSE, 1)
    port = running.open(cell=2)
    connection, head = egress.connect(port, f"open.test:{there.port}")
    connection.close()
    assert head.startswith(b"HTTP/1.1 503 ") and running.link.denied()["rule"] == "egress_bytes_out"


def padded_hello(name, size):
    """A ClientHello's message with a padding of this size: RFC 7685."""
    message = egress.client_hello(name)[5:]
    at = 38
    at += 1 + message[at]
    at += 2 + struct.unpack_from(">H", message, at)[0]
    at += 1 + message[at]
    extensions = message[at + 2:] + struct.pack(">HH", 21, size) + bytes(size)
    body = message[4:at] + struct.pack(">H", len(extensions)) + extensions
    return b"\1" + len(body).to_bytes(3, "big") + body


@pytest.mark.parametrize(("size", "passes"), [(100, True), (7000, False)])
def test_hello_in_crumbs(running, at_443, size, passes):
    """A record for each byte is legal, but the headers are not without a bound."""
    connection, _ = egress.connect(running.open(), "tls.test:443")
    with contextlib.suppress(OSError), connection:
        connection.sendall(b"".join(b"\x16\3\1\0\1" + bytes([byte]) for byte in padded_hello("tls.test", size)))
        if passes:
            assert connection.recv(1) == b"\x16"
    if not passes:
        assert running.link.denied()["reason"] == "sni_mismatch"


def test_a_name_that_is_asked_for_during_a_reload(running, host, names):
    there, asked, go = host(), threading.Event(), threading.Event()

    def answer(kind):
        asked.set()
        go.wait(egress.WAIT_S)
        return ["127.0.0.1"]

    names.answers["slow.open.test"] = answer
    with egress.client(running.open()) as connection:
        connection.sendall(f"CONNECT slow.open.test:{there.port} HTTP/1.1\r\n\r\n".encode())
        assert asked.wait(egress.WAIT_S)
        running.link.send(egress.RELOAD)
        running.open(cell=2)  # the reload is over
        go.set()
        assert egress.read_head(connection).startswith(b"HTTP/1.1 200 ")


def test_connections_leave_descriptors_for_cells(start):
    """A cell whose sockets could not come would be the end of the connection to cloisterd."""
    running = start("egress_connections = 0\n", descriptors=400).ready()
    port = running.open()
    held = [egress.client(port) for _ in range(300)]
    assert procfs.eventually(lambda: descriptors(running) > 100)
    opened = next(cell for cell in range(2, 400) if not opens(running, cell))
    assert opened > 50
    for each in held:
        each.close()


def opens(running, cell):
    with socket.create_server(("0.0.0.0", 0)) as listener:
        running.send_open(cell, listener)
        while True:
            kind, _, message = running.link.next()
            if kind in (egress.OPENED, egress.OPEN_FAILED):
                return kind == egress.OPENED or "LimitNOFILE" not in message["reason"]


@contextlib.contextmanager
def of_a_service(directory, account, names):
    """The program as a service manager starts it, and where it connects."""
    path = pathlib.Path(directory) / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o666)
        server.listen()
        server.settimeout(egress.WAIT_S)
        config = CONFIG.format(resolver=names.address, more="")
        running = egress.Egress(directory, config, user=account.uid, listener=server)
        try:
            yield running.ready(), server
        finally:
            running.process.kill()
            running.process.wait(egress.WAIT_S)


def another(server):
    link = egress.Link(server.accept()[0])
    link.expect(egress.READY)
    return link


def open_cell(running, cell, owner):
    with acting_as(owner.uid, owner.gid):
        listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        running.send_open(cell, listener)
        running.link.expect(egress.OPENED)
        return listener.getsockname()[1]


def test_one_process_for_each_generation(roots_directory, account, tenants, names):
    """The former one serves until its connection ends. Their number has a bound, which one that was taken over cannot pass."""
    with of_a_service(roots_directory, account, names) as (running, server):
        keeper = running.process.pid
        links = [running.link]
        for _ in range(3):
            links[-1].send(egress.RETIRED)
            links.append(another(server))
        assert len(procfs.children(keeper)) == 4
        egress.connect(open_cell(running, 2, tenants[0]), "blamed.test:443")[0].close()
        assert running.link.denied()["host"] == "blamed.test"
        links[-1].send(egress.RETIRED)
        server.settimeout(0.5)
        with pytest.raises(TimeoutError):
            server.accept()
        server.settimeout(egress.WAIT_S)
        links[1].socket.close()
        links.append(another(server))
        for link in (running.link, *links[2:4]):
            link.socket.close()
        assert procfs.eventually(lambda: len(procfs.children(keeper)) == 1)
        # Alone again, it ends with its connection, as it always has.
        links[-1].socket.close()
        assert running.process.wait(egress.WAIT_S) == 0


def test_the_last_that_has_retired_may_end_first(roots_directory, account, names):
    """At the bound its end makes room, however often."""
    with of_a_service(roots_directory, account, names) as (running, server):
        keeper = running.process.pid
        links = [running.link]
        for _ in range(3):
            links[-1].send(egress.RETIRED)
            links.append(another(server))
        for _ in range(5):
            links[-1].send(egress.RETIRED)
            # The parent has heard it, and waits for room.
            assert procfs.eventually(lambda: not any(target.startswith("pipe:") for target in procfs.fds(keeper).values()))
            links.pop().socket.close()
            links.append(another(server))
            assert len(procfs.children(keeper)) == 4
        for link in links[:-1]:
            link.socket.close()
        assert procfs.eventually(lambda: len(procfs.children(keeper)) == 1)
        links[-1].socket.close()
        assert running.process.wait(egress.WAIT_S) == 0


# What is started for the next generation, after a package has replaced the program: it is hostile.
HOSTILE = """#!{python} -IS
import os, time
os.close(3)
open("/proc/self/comm", "w").write("hostile")
while True:
    time.sleep(1)
"""


def test_its_parent_sleeps_if_one_closes_the_pipe(roots_directory, account, names):
    with of_a_service(roots_directory, account, names) as (running, _):
        keeper = running.process.pid
        program = pathlib.Path(os.readlink(f"/proc/{keeper}/exe"))
        program.unlink()
        program.write_text(HOSTILE.format(python=sys.executable))
        program.chmod(0o755)
        running.link.send(egress.RETIRED)
        assert procfs.eventually(lambda: any(procfs.name(pid) == "hostile" for pid in procfs.children(keeper)))
        before, until = procfs.cpu_seconds(keeper), time.process_time() + 1
        while time.process_time() < until:
            pass
        assert procfs.cpu_seconds(keeper) - before < 0.2


def test_one_that_ends_after_it_has_retired(roots_directory, account, names):
    """Its parent may find both at once. It starts the next one, and does not end as with one that has failed."""
    with of_a_service(roots_directory, account, names) as (running, server):
        (child,) = procfs.children(running.process.pid)
        procfs.stop(running.process.pid)
        running.link.send(egress.RETIRED)
        running.link.socket.close()
        assert procfs.vanish([child])
        os.kill(running.process.pid, signal.SIGCONT)
        another(server).socket.close()
        assert running.process.wait(egress.WAIT_S) == 0


def test_a_generation_is_the_service_managers_to_start(area, account, names):
    """Where cloisterd has started it, nothing starts another."""
    directory = area.new_directory("egress")
    os.chmod(directory, 0o755)
    running = egress.Egress(directory, CONFIG.format(resolver=names.address, more=""), user=account.uid).ready()
    running.link.send(egress.RETIRED)
    assert running.process.wait(egress.WAIT_S) == 1 and "EGRESS_RETIRED" in running.logged()
