# SPDX-License-Identifier: Apache-2.0
"""The cells, calls, limits and configurations of cloister-egress."""

import contextlib
import fcntl
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
import termios

import egress
import procfs
import pytest
import wire
from cloister_client import acting_as
from daemon import SANITIZED
from egress_program import CONFIG, check_echo, host, names, roots_directory, running, start


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


def stop_within(answer):
    def serve(connection):
        egress.read_head(connection)
        connection.sendall(answer.encode())
        egress.read_all(connection)
    return serve


@pytest.mark.deep("slow")
def test_upstream_that_stops_within_its_answer(start, host, names):
    """After ten seconds its next address is asked, whose answer counts by itself."""
    names.answers["proxy.test"] = ["127.0.0.2", "127.0.0.1"]
    asking = []
    for first, then in ("503 Busy", "200 OK"), ("200 OK", "403 No"):
        there = host(serve_upstream([], then))
        stopped = host(stop_within(f"HTTP/1.1 {first}\r\n"), address="127.0.0.2", port=there.port)
        running = start(f"egress_upstream = http://proxy.test:{there.port}\n").ready()
        asking.append((egress.client(running.open()), stopped, then))
        asking[-1][0].sendall(b"CONNECT open.test:77 HTTP/1.1\r\n\r\n")
    for connection, stopped, then in asking:
        assert egress.read_head(connection)[9:12] == (b"200" if then == "200 OK" else b"502"), then
        assert stopped.connections == 1
        connection.close()


def is_readable(connection, wait_ms=0):
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(wait_ms))


@pytest.mark.deep("slow")
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


@pytest.mark.deep("slow")
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
