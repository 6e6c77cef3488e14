# SPDX-License-Identifier: Apache-2.0
"""Attacks on the network of a workspace: by its commands, by a worker that was taken over, by a cloisterd that was taken
over, by a DNS server and by a host. None reaches a host or an address that the tenant's rules do not allow."""

import contextlib
import json
import os
import pathlib
import shlex
import socket
import struct
import tempfile

import egress
import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, Area, Daemon
from forbidden_hosts import ADDRESSES, FORBIDDEN, RULES

ALERT = "15 03 03 00 02 02 31"  # access_denied
PROXY = "p=${http_proxy#http://}; exec 3<>/dev/tcp/${p%:*}/${p#*:}"


def config_of(area, names):
    return egress.service_config(area, names, f"calls = 4096\n{RULES}", tenant="dev")


@pytest.fixture(scope="module")
def names():
    server = egress.Names(dict(ADDRESSES))
    yield server
    server.close()


def answer_page(connection):
    egress.read_head(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")


def octal(data):
    return "".join(f"\\{byte:03o}" for byte in data)


def asks(written, way):
    """A bash command that asks for the host in one way, and prints the begin of the answer."""
    name = written.encode()
    to, request = {
        "connect": (PROXY, b"CONNECT " + name + b":8080 HTTP/1.1\r\n\r\n"),
        "http": (PROXY, b"GET http://" + name + b":8080/ HTTP/1.1\r\nHost: open.test\r\n\r\n"),
        "socks": (PROXY, b"\5\1\0\5\1\0\3" + bytes([len(name)]) + name + struct.pack(">H", 8080)),
        "host": ("exec 3<>/dev/tcp/127.1.0.1/80", b"GET / HTTP/1.1\r\nHost: " + name + b"\r\n\r\n"),
        "tls": ("exec 3<>/dev/tcp/127.1.0.1/443", egress.raw_hello(name)),
    }[way]
    return "exec bash -c " + shlex.quote(f"{to} && printf '{octal(request)}' >&3 && cat <&3 | head -c 40 | od -An -tx1 -w40; false")


def expected(written, host, reason, way):
    """What the observation must say of it."""
    port, via = {"host": (80, "transparent"), "tls": (443, "transparent")}.get(way, (8080, way))
    if reason == "bad_request" and way == "tls":
        host, reason = "", "sni_mismatch"
    elif reason == "bad_request" and way in ("connect", "http"):
        host, port = None, 0  # as it was written, with the rest of the target
    return host, port, reason, via


@pytest.mark.parametrize("told", ["by address", "by cgroup"])
@pytest.mark.parametrize("way", ["connect", "http", "socks", "host", "tls"])
def test_every_spelling_from_a_command(start_daemon, area, names, request, way, told):
    """Each is a call, in which the host is refused, and whose observation has that refusal and no other."""
    keywords = {"launcher": request.getfixturevalue("delegation").launcher()} if told == "by cgroup" else {}
    daemon = start_daemon(config=config_of(area, names), system=False, **keywords)
    # Without cgroups nothing tells which of several calls it is that asks as one who knows no proxy.
    at_once = 1 if told == "by address" and way in ("host", "tls") else len(FORBIDDEN)
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        waiting, asked = list(FORBIDDEN), []
        while waiting or asked:
            while waiting and len(asked) < at_once:
                asked.append((waiting[0], client.begin("run_command", {"command": asks(waiting.pop(0)[0], way), "timeout_ms": 300000})))
            (written, host, reason), number = asked.pop(0)
            observation = client.result(number)
            answer, network = observation["output"]["stdout"].split(), observation["network"]
            wanted, port, reason, via = expected(written, host, reason, way)
            assert (network["connections"], len(network["denied"])) == (0, 1), (written, observation)
            (told,) = network["denied"]
            assert (told["reason"], told["via"], told["count"]) == (reason, via, 1), (written, observation)
            assert wanted is None or told["host"] == wanted, (written, observation)
            assert told["port"] == port, (written, observation)
            assert len(observation["notes"]) == 1
            if way == "tls":
                assert " ".join(answer) == ALERT, (written, observation)
            elif way == "socks":
                assert answer[:3] in (["05", "00", "05"],) and answer[3] in ("01", "02", "04"), (written, observation)
            else:
                assert bytes.fromhex("".join(answer))[:13] in (b"HTTP/1.1 403 ", b"HTTP/1.1 400 ", b"HTTP/1.1 502 "), (written, observation)


# Runs in the place of a worker, before it has given anything up: it has the capabilities over the workspace's network
# namespace with which a worker begins.
LIE = """
import errno, fcntl, json, pathlib, struct
be_ready()
kind, call, payload, fds = request(COMMAND_RUN)
found = {{}}
with socket.socket() as any_socket:  # SIOCSIFFLAGS: netdevice(7)
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))

def tried(act):
    try: return act()
    except OSError as error: return errno.errorcode.get(error.errno, str(error))

kinds = []
for fd in range(3, 64):
    try: each = socket.socket(fileno=os.dup(fd))
    except OSError: continue
    with each: kinds.append(int(each.family))
found["families"] = kinds

def reach(address, port):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as one:
        one.settimeout(20)
        one.connect((address, port))
        return "reached"

found["outside"] = {{place: tried(lambda: reach(place, {port})) for place in
    ("127.0.0.1", "10.0.0.1", "169.254.169.254", "1.1.1.1", "::1", "2001:db8::1", "fd00:ec2::254")}}

def ask(to, request):
    with socket.create_connection(to, timeout=60) as one:
        one.sendall(request)
        answer = b""
        while (more := one.recv(4096)): answer += more
        return answer[:12].decode("latin-1")

proxy = ("127.64.0.1", 18129)
found["asked"] = [tried(lambda: ask(proxy, f"CONNECT {{host}}:{port} HTTP/1.1\\r\\n\\r\\n".encode()))
    for host in ("no.test", "127.0.0.1", "denied.open.test", "meta.test")]
found["allowed"] = tried(lambda: ask(proxy, b"GET http://open.test:{port}/ HTTP/1.1\\r\\n\\r\\n"))

def take(address, port, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((address, port))
        return "taken"

found["taken"] = [tried(lambda: take(*place)) for place in (("127.64.0.9", 18129), ("0.0.0.0", 18129), ("127.1.0.1", 80),
    ("127.1.0.1", 443), ("127.0.0.1", 53), ("127.0.0.1", 53, socket.SOCK_DGRAM))]
found["processes"] = []
for other in {others}:  # cloisterd and cloister-egress, by the host's numbers
    found["processes"].append(tried(lambda: os.pidfd_open(other) and "opened"))
    found["processes"].append(tried(lambda: os.kill(other, 0) or "signalled"))
    found["processes"].append(tried(lambda: os.listdir(f"/proc/{{other}}/fd") and "listed"))
note(json.dumps(found))
send(frame(COMMAND_ENDED, call, command_ended()))
wait()
"""


@pytest.mark.skipif(not AM_ROOT, reason="needs root to see the processes")
@pytest.mark.parametrize("way", ["by address", "by cgroup"])
def test_a_worker_that_was_taken_over(account, names, request, way):
    place = Area(account)
    place.take_liars()
    web = egress.Host(answer_page)
    keywords = {"launcher": request.getfixturevalue("delegation").launcher()} if way == "by cgroup" else {}
    daemon = Daemon(place, config=config_of(place, names), system=False, **keywords)
    try:
        with acting_as(os.getuid()):
            (program,) = [pid for pid in procfs.children(daemon.pid) if procfs.name(pid) == "cloister-egress"]
        root = place.new_directory()
        with acting_as(account.uid, account.gid):
            (root / ".lie-worker").write_text(LIE.format(port=web.port, others=[daemon.pid, program]))
        with daemon.connect() as client:
            client.call("workspace.open", {"root": str(root)})
            observation = client.observe("run_command", {"command": "true"}, timeout=300)
        found = json.loads((root / ".note-worker").read_text())
        network = observation["network"]
        refused = [(one["host"], one["reason"]) for one in network["denied"]]
        # It has two sockets to cloisterd and, for the mount of its private tmpfs, one to the spawner. Nothing else outside
        # is there for it.
        assert found["families"] == [socket.AF_UNIX.value] * 3
        assert found["outside"] == {at: "ECONNREFUSED" if at in ("127.0.0.1", "::1") else "ENETUNREACH" for at in found["outside"]}
        assert found["taken"] == ["EADDRINUSE"] * 2 + ["EACCES"] * 4
        assert found["processes"] == ["ESRCH", "ESRCH", "EACCES"] * 2
        # The proxy of its own workspace is there, and judges it as it judges a command.
        if way == "by address":
            assert found["asked"] == ["HTTP/1.1 403"] * 4 and found["allowed"] == "HTTP/1.1 200"
            assert network["connections"] == 1 and refused == [
                ("no.test", "not_allowed"), ("127.0.0.1", "not_allowed"), ("denied.open.test", "denied"), ("meta.test", "private_address")]
        else:  # it is in no command's cgroup
            assert found["asked"] == ["HTTP/1.1 503"] * 4 and found["allowed"] == "HTTP/1.1 503"
            assert (network["connections"], refused, web.connections) == (0, [], 0)
    finally:
        daemon.stop()
        place.remove()
        web.close()


@pytest.fixture
def directory():
    """One of root's, as system mode asks for."""
    if not AM_ROOT:
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


PROGRAM = """[cloister]
egress_resolver = {resolver}
[tenant dev]
network = egress
{rules}
{more}
[tenant other]
network = egress
egress_allow = other.test:*
egress_private = 127.0.0.0/8
"""


def program_config(names, more=""):
    return PROGRAM.format(resolver=names.address, rules=RULES, more=more)


def head_of(port, target):
    connection, head = egress.connect(port, target)
    connection.close()
    return head[:13]


def test_a_cloisterd_that_was_taken_over(directory, account, tenants, names):
    """The test is cloisterd. What a tenant may reach is root's file's to say, and nothing that it sends makes that more."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(directory / "socket"))
        (directory / "socket").chmod(0o666)
        server.listen()
        running = egress.Egress(directory, program_config(names), user=account.uid, listener=server).ready()
        number = 0

        def opened(tenant="dev", allow=None, owner=tenants[0]):
            nonlocal number
            number += 1
            with acting_as(owner.uid, owner.gid):
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            running.send_open(number, listener, tenant, allow)
            kind, _, message = running.link.next()
            return message["reason"] if kind == egress.OPEN_FAILED else listener.getsockname()[1]

        there = egress.Host(egress.echo)
        stack.callback(there.close)
        # A workspace's wish for more than the tenant has.
        port = opened(allow="example.com:* *.example.com:* tcp:tls.test:* tcp:meta.test:* tcp:169.254.169.254:* denied.open.test:* open.test:* @github")
        for target, reason in (("example.com:80", "not_allowed"), ("github.com:443", "not_allowed"), ("tls.test:80", "port"),
                               ("meta.test:80", "private_address"), ("169.254.169.254:80", "not_allowed"), ("denied.open.test:80", "denied")):
            assert head_of(port, target) == b"HTTP/1.1 403 "
            assert running.link.denied()["reason"] == reason, target
        connection, head = egress.connect(port, f"open.test:{there.port}")
        assert head.startswith(b"HTTP/1.1 200 ")
        # Names of tenants that the file has not, that have no network, or that are cloister's own.
        for tenant in ("missing", "DEV", "dev ", "cloister", ".selftest"):
            assert "network = egress" in opened(tenant=tenant), tenant
        canary = opened(tenant=".selftest-egress", owner=tenants[1])
        for target in ("169.254.169.254:80", "10.0.0.1:80", f"127.0.0.1:{there.port}"):
            assert head_of(canary, target) == b"HTTP/1.1 403 "
            assert running.link.denied()["reason"] == "private_address"
        # One tenant's workspace for another tenant's hosts.
        assert "another tenant" in opened(tenant="other")
        # A file that is not root's alone any more is not read: the rules stay.
        for spoil in (lambda path: path.chmod(0o666), lambda path: os.chown(path, account.uid, account.gid)):
            running.config.write_text(program_config(names, "egress_allow = example.com:*"))
            spoil(running.config)
            running.link.send(egress.RELOAD)
            assert head_of(port, "example.com:80") == b"HTTP/1.1 403 "
            assert running.link.denied()["reason"] == "not_allowed"
            os.chown(running.config, 0, 0)
            running.config.chmod(0o644)
        connection.sendall(b"still there")  # and the connection that they allow
        assert connection.recv(100) == b"still there"
        connection.close()
        assert there.connections == 1
        running.link.expect(egress.CLOSED)
        assert running.stop() == 0


@pytest.fixture
def start(area, account, names):
    started = []

    def start(more="", resolver=None):
        place = area.new_directory("egress")
        place.chmod(0o755)
        config = PROGRAM.format(resolver=(resolver or names).address, rules=RULES, more=more)
        started.append(egress.Egress(place, config, user=account.uid).ready())
        return started[-1]

    yield start
    for running in started:
        assert running.stop() == 0, running.logged()


def record(kind, data, name=b"\xc0\x0c"):
    return name + struct.pack(">HHIH", kind, 1, 1, len(data)) + data


def answer(question, records, count=None, flags=0x8180):
    """An answer to the question: RFC 1035, 4."""
    return question[:2] + struct.pack(">HHHHH", flags, 1, len(records) if count is None else count, 0, 0) + question[12:] + b"".join(records)


TEN, HERE = bytes([10, 1, 2, 3]), bytes([127, 0, 0, 1])
METADATA = bytes([169, 254, 169, 254])
ALIAS = b"\5alias\4evil\0"
A, CNAME, AAAA = 1, 5, 28
FAILED, PRIVATE = "dns_failed", "private_address"
# What the server says to a question for IPv4; what becomes of the connection.
LIES = {
    "nothing": (lambda q: [], FAILED),
    "no bytes": (lambda q: [b""], FAILED),
    "garbage": (lambda q: [b"\xff" * 512, b"\0" * 512, os.urandom(512)], FAILED),
    "its own question": (lambda q: [q], FAILED),
    "half an answer": (lambda q: [answer(q, [record(A, HERE)])[:-7]], FAILED),
    "records that are not there": (lambda q: [answer(q, [], 65535)], FAILED),
    "another number": (lambda q: [bytes([q[0] ^ 1]) + answer(q, [record(A, HERE)])[1:]], FAILED),
    "a short address": (lambda q: [answer(q, [record(A, HERE[:3])])], FAILED),
    # c-ares 1.34 takes the first four bytes.
    "a long address": (lambda q: [answer(q, [record(A, TEN + HERE)])], {FAILED, PRIVATE}),
    "a name without an end": (lambda q: [answer(q, [record(A, HERE, b"\xc0" + bytes([len(q)]))])], FAILED),
    "a name that leads on for ever": (lambda q: [answer(q, [record(A, HERE, b"\1a\xc0" + bytes([len(q)]))])], FAILED),
    "truncated": (lambda q: [answer(q, [], flags=0x8380)], FAILED),
    "refused": (lambda q: [answer(q, [], flags=0x8185)], FAILED),
    "private": (lambda q: [answer(q, [record(A, TEN)])], PRIVATE),
    "many private ones": (lambda q: [answer(q, [record(A, bytes([10, 0, i >> 8, i & 255])) for i in range(28)])], PRIVATE),
    "private ones before the host's": (lambda q: [answer(q, [record(A, TEN)] * 20 + [record(A, HERE)])], PRIVATE),
    "an alias with the address of a cloud": (lambda q: [answer(q, [record(CNAME, ALIAS), record(A, METADATA, ALIAS)])], PRIVATE),
    "a ring of aliases": (lambda q: [answer(q, [record(CNAME, ALIAS), record(CNAME, b"\xc0\x0c", ALIAS)])], FAILED),
    "addresses in IPv6": (lambda q: [answer(q, [record(AAAA, bytes(10) + b"\xff\xff" + METADATA), record(AAAA, bytes(15) + b"\1"),
                                                record(AAAA, b"\0\x64\xff\x9b" + bytes(8) + METADATA)])], {FAILED, PRIVATE}),
    "one for each question, and twice": (lambda q: [answer(q, [record(A, TEN)]), answer(q, [record(A, HERE)])], PRIVATE),
}


class Liar(egress.Names):
    """A DNS server that lies about every name but open.test."""

    def __init__(self, lie):
        self.lie = lie
        super().__init__({})

    def _serve(self):
        while True:
            question, client = self.socket.recvfrom(2048)
            if not client:
                return
            (kind,), is_true = struct.unpack(">H", question[-4:-2]), question[12:].startswith(b"\4open\4test\0")
            true = [answer(question, [record(A, HERE)] if kind == A and is_true else [])]
            for data in true if is_true or kind != A else self.lie(question):
                with contextlib.suppress(OSError):
                    self.socket.sendto(data, client)


@pytest.mark.deep("slow")
def test_a_dns_server_that_lies(start):
    """No lie leads to an address that is not permitted, or keeps another name from being found; each is told as what it is."""
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(contextlib.closing(egress.Host(egress.echo)))
        asking = {}
        for name, (lie, _) in LIES.items():
            running = start(resolver=stack.enter_context(contextlib.closing(Liar(lie))))
            port = running.open()
            asking[name] = running, port, stack.enter_context(egress.client(port))
            asking[name][2].sendall(f"CONNECT lie.open.test:{there.port} HTTP/1.1\r\n\r\n".encode())
        for name, (running, port, connection) in asking.items():
            head, (denied, reason) = egress.read_head(connection)[:13], (running.link.denied(), LIES[name][1])
            assert denied["host"] == "lie.open.test" and denied["reason"] in (reason if isinstance(reason, set) else {reason}), name
            assert head == (b"HTTP/1.1 403 " if denied["reason"] == PRIVATE else b"HTTP/1.1 502 "), name
        assert there.connections == 0
        for name, (_, port, _) in asking.items():
            assert egress.connect(port, f"open.test:{there.port}")[1].startswith(b"HTTP/1.1 200 "), name


def say(*parts, then=None):
    def serve(connection):
        egress.read_head(connection)
        for part in parts:
            connection.sendall(part)
        if then:
            then(connection)
    return serve


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def flood(connection):
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"X: y\r\n" * 1000)


UPSTREAMS = {
    "closes": say(),
    "resets": say(then=reset),
    "a head without an end": say(b"HTTP/1.1 200 OK\r\nX: y\r\n"),
    "a head that never ends": say(b"HTTP/1.1 200 OK\r\n", then=flood),
    "a head with bare line feeds": say(b"HTTP/1.1 200 OK\n\nbytes", then=egress.read_all),
    "silence": say(then=egress.read_all),
    "an end and nothing before it": say(b"\r\n\r\n", then=egress.read_all),
    "another protocol": say(b"SSH-2.0-x\r\n\r\n", then=egress.read_all),
    "HTTP/2": say(b"HTTP/2 200\r\n\r\n", then=egress.read_all),
    "NULs": say(b"HTTP/1.1 \0" * 20 + b"\r\n\r\n", then=egress.read_all),
    "informational": say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 no\r\n\r\n", then=egress.read_all),
    "a redirection": say(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", then=egress.read_all),
    "authentication": say(b"HTTP/1.1 407 no\r\nProxy-Authenticate: Basic\r\n\r\n", then=egress.read_all),
}


@pytest.mark.deep("slow")
def test_an_upstream_that_lies(start):
    """Whatever it says in place of an answer, the connection is refused, typed, and the client gets none of it."""
    with contextlib.ExitStack() as stack:
        asking = {}
        for name, serve in UPSTREAMS.items():
            there = egress.Host(serve)
            stack.callback(there.close)
            running = start(f"egress_upstream = http://127.0.0.1:{there.port}")
            asking[name] = running, stack.enter_context(egress.client(running.open()))
            asking[name][1].sendall(b"CONNECT open.test:77 HTTP/1.1\r\n\r\n")
        for name, (running, connection) in asking.items():
            answered = egress.read_all(connection)
            denied = running.link.denied()
            assert (denied["host"], denied["reason"]) == ("open.test", "upstream_failed"), name
            assert answered.startswith(b"HTTP/1.1 502 cloister: open.test: upstream_failed\r\n") and answered.count(b"HTTP/1.1") == 1, (name, answered)


def test_an_upstream_is_no_way_round_the_rules(start):
    """What goes to it was judged as everything is, and on port 443 it gets nothing before the client has named its host."""
    seen, got = [], []

    def serve(connection):
        seen.append(egress.read_head(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nearly")
        with contextlib.suppress(OSError):
            got.append(connection.recv(1000))

    with contextlib.closing(egress.Host(serve)) as there:
        running = start(f"egress_upstream = http://127.0.0.1:{there.port}")
        port, _, http, _, _ = running.open_all()
        for target, reason in (("example.com:80", "not_allowed"), ("denied.open.test:80", "denied"), ("169.254.169.254:80", "not_allowed"),
                               ("web.test:8080", "port")):
            assert head_of(port, target) == b"HTTP/1.1 403 "
            assert running.link.denied()["reason"] == reason
        assert seen == []
        for first in (b"GET / HTTP/1.1\r\n\r\n", egress.client_hello("other.test"), egress.client_hello(None)):
            with egress.client(port) as connection:
                connection.sendall(b"CONNECT tls.test:443 HTTP/1.1\r\n\r\n")
                assert egress.read_head(connection).startswith(b"HTTP/1.1 200 ")
                connection.sendall(first)
                assert egress.read_all(connection) == bytes.fromhex(ALERT)
            assert running.link.denied()["reason"] == "sni_mismatch"
        assert procfs.eventually(lambda: len(got) == 3)
        assert got == [b""] * 3 and seen == [b"CONNECT tls.test:443 HTTP/1.1\r\nHost: tls.test:443\r\n\r\n"] * 3
        del seen[:], got[:]
        # Each way of asking comes to it as CONNECT, for the host that was judged.
        for send in (lambda: egress.absolute(port, "a.open.test:81"),
                     lambda: ask_at(http, b"GET /x HTTP/1.1\r\nHost: a.open.test\r\n\r\n"),
                     lambda: egress.socks(port, "a.open.test", 82)[0].close()):
            send()
            running.link.expect(egress.CLOSED)
        assert [head.split(b" ")[1] for head in seen] == [b"a.open.test:81", b"a.open.test:80", b"a.open.test:82"]


def ask_at(port, request):
    with egress.client(port) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return egress.read_all(connection)


def test_a_relayed_connect(start):
    """Inside a tunnel there are bytes: a further CONNECT reaches the host that was judged, and no other."""
    seen = []

    def serve(connection):
        seen.append(egress.read_all(connection))

    with contextlib.closing(egress.Host(serve)) as there, contextlib.closing(egress.Host(egress.echo)) as other:
        running = start()
        port = running.open()
        asked = f"CONNECT denied.open.test:{other.port} HTTP/1.1\r\n\r\n".encode()
        for connection in (egress.connect(port, f"open.test:{there.port}")[0], egress.socks(port, "open.test", there.port)[0]):
            with connection:
                connection.sendall(asked + b"\5\1\0" + asked)
                connection.shutdown(socket.SHUT_WR)
                assert egress.read_all(connection) == b""
            assert running.link.expect(egress.CLOSED)["host"] == "open.test"
        # The same behind a request of the absolute form, with its Host and its body.
        with egress.client(port) as connection:
            connection.sendall(f"POST http://open.test:{there.port}/ HTTP/1.1\r\nHost: denied.open.test\r\nContent-Length: 0\r\n\r\n".encode() + asked)
            connection.shutdown(socket.SHUT_WR)
            egress.read_all(connection)
        running.link.expect(egress.CLOSED)
        assert procfs.eventually(lambda: len(seen) == 3)
        assert seen[:2] == [asked + b"\5\1\0" + asked] * 2 and seen[2].endswith(asked) and seen[2].count(b"Host: ") == 1
        assert other.connections == 0
