# SPDX-License-Identifier: Apache-2.0
"""Which ports listen in a workspace, as sessions tell it: from ordinary servers, and from hostile ones."""

import os
import re
import shlex
import shutil
import socket

import procfs
import pytest
from daemon import DELEGATED

WAIT = 60000  # ms for a condition that is expected to be met
PYTHON = "/usr/bin/python3"
LISTEN = """
import socket, sys, time
servers = [socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
           for host, port in zip(sys.argv[1::2], sys.argv[2::2])]
time.sleep(600)
"""
SERVE = """
import http.server, socket, sys
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
Server((sys.argv[1], 3000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
MANY = """
import resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
servers = []
try:
    while len(servers) < 8000:
        servers.append(socket.create_server(("127.%d.0.1" % (2 + len(servers) // 4000), 20000 + len(servers) % 4000)))
except OSError:
    pass
last = socket.create_server(("127.0.0.1", 4000)) if servers.pop().close() is None else None
time.sleep(600)
"""


def python(program, *arguments):
    return shlex.join([PYTHON, "-c", program, *map(str, arguments)])


def start(client, command, **params):
    return client.call("session.start", {"command": command, **params})["session"]


def until(client, session, *ports, wait_ms=WAIT):
    return client.call("session.read", {
        "session": session, "wait_ms": wait_ms, "max_bytes": 0, "until": [{"port": port} for port in ports]})


def listed(client, session):
    return next(entry["ports"] for entry in client.call("session.list")["sessions"] if entry["session"] == session)


def wait_for(client, session, port):
    answer = until(client, session, port)
    assert answer["met"] == 0, answer


@pytest.mark.parametrize("server", [
    python(SERVE, "127.0.0.1"),
    python(SERVE, "::"),
    pytest.param("node -e 'require(\"http\").createServer((_, to) => to.end(\"x\")).listen(3000)'",
                 marks=pytest.mark.skipif(not shutil.which("node"), reason="needs Node")),
])
def test_a_server_is_waited_for(client, workspace, server):
    session = start(client, "sleep 0.3; exec " + server)
    wait_for(client, session, 3000)
    assert procfs.eventually(lambda: listed(client, session) == [3000])
    client.call("session.end", {"session": session, "grace_ms": 0})
    assert listed(client, session) == []


def test_the_first_port_that_listens_is_named(client, workspace):
    session = start(client, python(LISTEN, "::1", 5001, "127.0.0.1", 5002))
    assert until(client, session, 5003, 5001)["met"] == 1
    assert procfs.eventually(lambda: sorted(listed(client, session)) == [5001, 5002])
    # Nobody who asks for localhost gets there, and nothing listens at the other one.
    assert until(client, session, 5003, 80 + 1024, wait_ms=200)["met"] is None
    # A server of the host's is none of the workspace's.
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert until(client, session, server.getsockname()[1], wait_ms=200)["met"] is None


def test_two_workspaces_have_the_same_port(daemon, client, workspace):
    """A network namespace is a workspace's own, and so are its ports."""
    first = start(client, python(LISTEN, "127.0.0.1", 5001))
    wait_for(client, first, 5001)
    daemon.new_workspace(client)
    second = start(client, "sleep 600")
    assert until(client, second, 5001, wait_ms=200)["met"] is None
    assert listed(client, second) == [] and listed(client, first) == [5001]


def test_a_port_is_its_sessions_where_cgroups_are_delegated(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    with daemon.connect() as client:
        daemon.new_workspace(client)
        first = start(client, python(LISTEN, "127.0.0.1", 5001))
        second = start(client, python(LISTEN, "0.0.0.0", 5002))
        wait_for(client, first, 5001)
        wait_for(client, second, 5002)
        assert until(client, first, 5002, wait_ms=200)["met"] is None
        assert procfs.eventually(lambda: (listed(client, first), listed(client, second)) == ([5001], [5002]))
        third = client.call("tool.call", {  # a call that goes on as a session
            "tool": "run_command", "arguments": {"command": python(LISTEN, "127.0.0.1", 5003)},
            "options": {"yield_ms": 100}})["output"]["session"]
        wait_for(client, third, 5003)
        assert procfs.eventually(lambda: listed(client, third) == [5003])


@pytest.mark.skipif(DELEGATED, reason="every daemon has a cgroup")
def test_a_port_is_its_workspaces_without_cgroups(own_daemon):
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        start(client, python(LISTEN, "127.0.0.1", 5001))
        second = start(client, "sleep 600")
        wait_for(client, second, 5001)
        assert procfs.eventually(lambda: listed(client, second) == [5001])


def test_very_many_sockets_that_listen(client, workspace):
    """A list has a bound; one port is found, however many others listen."""
    session = start(client, python(MANY))
    wait_for(client, session, 4000)
    assert procfs.eventually(lambda: len(listed(client, session)) == 64)
    assert until(client, session, 4001, wait_ms=200)["met"] is None
    wait_for(client, session, 4000)


def sockets_of(pid):
    """The inodes of a process's sockets."""
    return {match[1] for match in (re.match(r"socket:\[(\d+)\]", link) for link in procfs.fds(pid).values()) if match}


def askers_in(pid):
    """The inodes of the sockets of sock_diag(7) in its network namespace that have asked something."""
    with open(f"/proc/{pid}/net/netlink") as file:
        rows = [line.split() for line in file]
    return {row[-1] for row in rows if row[1] == "4" and row[2] != "0"}  # NETLINK_SOCK_DIAG; the kernel's own has 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to see other users' descriptors")
def test_only_cloisterd_asks(own_daemon):
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        wait_for(client, start(client, python(LISTEN, "127.0.0.1", 5001)), 5001)
        worker, files = own_daemon.cells()[0]
        asker, = askers_in(worker)
        assert asker in sockets_of(own_daemon.pid)
        for pid in (worker, files, own_daemon.spawner()):
            assert asker not in sockets_of(pid)
