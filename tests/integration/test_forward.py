# SPDX-License-Identifier: Apache-2.0
"""workspace.forward: a client's connection to a port of a workspace, with ordinary servers and hostile clients."""

import contextlib
import json
import os
import random
import select
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time

import procfs
import pytest
from cloister_client import RpcError, acting_as

MIB = 1 << 20
WAIT = 60000
PYTHON = "/usr/bin/python3"
# What a server does with each connection, a thread each.
SERVER = """
import socket, sys, threading, time
def echo(c):
    while data := c.recv(65536):
        c.sendall(data)
def count(c):
    n = 0
    while data := c.recv(65536):
        n += len(data)
    c.sendall(b"%d" % n)
def speak(c):
    c.sendall(b"first")
def flood(c):
    n = 0
    while True:
        n += c.send(b"z" * 65536)
        open("written", "w").write(str(n))
def deaf(c):
    time.sleep(600)
def one(c):
    with c:
        globals()[sys.argv[1]](c)
server = socket.create_server((sys.argv[3] if sys.argv[3:] else "127.0.0.1", int(sys.argv[2])),
                              family=socket.AF_INET6 if sys.argv[3:] else socket.AF_INET, backlog=200)
while True:
    threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()
"""


def serve(client, what, port, *address):
    """Starts a server in the client's workspace and waits until it listens."""
    command = shlex.join([PYTHON, "-c", SERVER, what, str(port), *address])
    wait_for(client, client.call("session.start", {"command": command})["session"], port)


def wait_for(client, session, port):
    answer = client.call("session.read", {"session": session, "wait_ms": WAIT, "until": [{"port": port}]})
    assert answer["met"] == 0, answer


def refusal(client, port, **params):
    with pytest.raises(RpcError) as caught:
        client.call("workspace.forward", {"port": port, **params})
    return caught.value


class Stream:
    """A connection to a port of the workspace that is open as @root."""

    def __init__(self, daemon, root, port):
        self.client = daemon.connect()
        self.client.call("workspace.open", {"root": str(root)})
        self.client.call("workspace.forward", {"port": port})
        self.socket = self.client.socket
        self.buffered = self.client.buffer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def receive_all(self):
        got = [self.buffered]
        while data := self.socket.recv(65536):
            got.append(data)
        return b"".join(got)


@pytest.mark.parametrize("address", [(), ("::1",)])
def test_a_stream_both_ways(daemon, client, workspace, address):
    serve(client, "echo", 4000, *address)
    with Stream(daemon, workspace, 4000) as stream:
        stream.socket.sendall(b"ping")
        assert stream.socket.recv(4) == b"ping"
        stream.socket.shutdown(socket.SHUT_WR)
        assert stream.receive_all() == b""


def test_20_mib_both_ways(daemon, client, workspace):
    serve(client, "echo", 4001)
    piece = random.Random(1).randbytes(MIB)
    with Stream(daemon, workspace, 4001) as stream:
        def send():
            for _ in range(20):
                stream.socket.sendall(piece)
            stream.socket.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        got = stream.receive_all()
        sender.join()
    assert len(got) == 20 * MIB and got == piece * 20


def test_the_end_of_one_direction_is_passed_on(daemon, client, workspace):
    serve(client, "count", 4002)
    with Stream(daemon, workspace, 4002) as stream:
        stream.socket.sendall(b"x" * MIB)
        stream.socket.shutdown(socket.SHUT_WR)
        assert stream.receive_all() == b"%d" % MIB


def test_a_server_that_speaks_first(daemon, client, workspace):
    """Nothing of the stream comes before the answer, and nothing is lost behind it."""
    serve(client, "speak", 4003)
    for _ in range(5):
        with daemon.connect() as raw:
            raw.call("workspace.open", {"root": str(workspace)})
            raw.send_raw(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "workspace.forward",
                                     "params": {"port": 4003}}).encode() + b"\n")
            got = b""
            while data := raw.socket.recv(4096):
                got += data
            answer, stream = got.split(b"\n", 1)
            assert json.loads(answer)["result"]["port"] == 4003 and stream == b"first"


def relays(worker):
    return [pid for pid in procfs.children(worker) if procfs.name(pid) == "cloister-relay"]


def test_a_server_that_never_reads(daemon, client, workspace):
    """The client waits, and nothing else does."""
    serve(client, "deaf", 4005)
    with Stream(daemon, workspace, 4005) as stream:
        stream.socket.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += stream.socket.send(b"x" * 65536)
        assert sent < 64 * MIB
        assert client.run("echo fine")["stdout"] == "fine\n"
    assert procfs.eventually(lambda: not any(relays(cell[0]) for cell in daemon.cells()))


@pytest.mark.deep("busy")
def test_a_client_that_never_reads(daemon, client, workspace):
    serve(client, "flood", 4011)
    with Stream(daemon, workspace, 4011) as stream:
        assert procfs.eventually(lambda: written(workspace) > 0)
        assert procfs.eventually(lambda: is_steady(lambda: written(workspace)))
        assert written(workspace) < 64 * MIB
        assert client.run("echo fine")["stdout"] == "fine\n"
        # What waited comes whole, and the rest after it.
        got = 0
        while got < 80 * MIB:
            data = stream.socket.recv(MIB)
            assert data and data.strip(b"z") == b""
            got += len(data)


def written(workspace):
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int((workspace / "written").read_text())
    return 0


def is_steady(look):
    before = look()
    time.sleep(0.3)
    return before == look()


def test_another_workspace(daemon, client, workspace):
    """A port of one workspace is none of another's, of the same tenant."""
    serve(client, "echo", 4012)
    with daemon.connect() as other:
        daemon.new_workspace(other)
        other.run("true")
        assert refusal(other, 4012).name == "NOT_FOUND"
        serve(other, "speak", 4012)
        other.call("workspace.forward", {"port": 4012})
        assert (other.buffer or other.socket.recv(100)) == b"first"  # it may have come with the answer


def test_nothing_listens(daemon, client, workspace):
    client.run("true")
    error = refusal(client, 4999)
    assert error.name == "NOT_FOUND" and "session.read" in str(error)
    # The connection goes on, and a server of the host's is none of the workspace's.
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert refusal(client, server.getsockname()[1]).name == "NOT_FOUND"
    assert client.run("echo fine")["stdout"] == "fine\n"


def test_a_stream_ends_with_its_session(daemon, client, workspace):
    serve(client, "echo", 4006)
    session = client.call("session.list")["sessions"][-1]["session"]
    with Stream(daemon, workspace, 4006) as stream:
        client.call("session.end", {"session": session, "grace_ms": 0})
        assert stream.receive_all() == b""


def tenants_of(tenants, more="", host=""):
    text = "[cloister]\nagent_socket_mode = 0666\n" + host
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n{more}"
    return text


def test_another_tenants_workspace(start_daemon, tenants):
    daemon = start_daemon(config=tenants_of(tenants))
    with daemon.connect(tenants[0]) as a, daemon.connect(tenants[1]) as b:
        a.call("workspace.open", {"workspace": "w"})
        serve(a, "echo", 4000)
        assert refusal(b, 4000, workspace="w").name == "WORKSPACE_NOT_FOUND"
        b.call("workspace.open", {"workspace": "w"})
        b.run("true")
        assert refusal(b, 4000).name == "NOT_FOUND"


def test_ports_that_are_not_allowed(start_daemon, tenants):
    daemon = start_daemon(config=tenants_of(tenants, "forward_ports = 5000-5001\n"))
    with daemon.connect(tenants[0]) as a:
        a.call("workspace.open", {"workspace": "w"})
        serve(a, "echo", 4000)
        for port in (80, 4000, 4999, 5002):
            assert refusal(a, port).name == "FORBIDDEN"
        assert refusal(a, 5001).name == "NOT_FOUND"
    daemon.stop()
    daemon = start_daemon(config=tenants_of(tenants, "forward_ports = none\n"))
    with daemon.connect(tenants[0]) as a:
        a.call("workspace.open", {"workspace": "w"})
        assert refusal(a, 5000).name == "FORBIDDEN"


def test_the_audit_log_has_them(start_daemon, area):
    daemon = start_daemon(config=f"[cloister]\naudit = on\n[tenant t]\nusers = {area.account.uid}\nmanaged = yes\n"
                          "forward_ports = 4000\n")
    with daemon.connect() as client, daemon.connect() as second:
        for each in (client, second):
            each.call("workspace.open", {"workspace": "w"})
        serve(client, "echo", 4000)
        assert refusal(client, 4001).name == "FORBIDDEN"
        second.call("workspace.forward", {"port": 4000})
        second.socket.sendall(b"secret")
        assert second.socket.recv(6) == b"secret"
    assert daemon.stop() == 0
    with acting_as(os.getuid()):
        log = [json.loads(line) for line in (daemon.state / "audit" / "audit.log").read_bytes().splitlines()]
    told = [line for line in log if "forward" in json.dumps(line)]
    assert [(line["event"], line["workspace"], line["uid"]) for line in told] == [
        ("call.refused", "w", area.account.uid), ("workspace.forwarded", "w", area.account.uid)]
    assert told[0]["code"] == "FORBIDDEN" and told[1]["port"] == 4000
    assert "secret" not in json.dumps(log)


def test_a_flood_is_bounded(start_daemon, tenants):
    """By workspace and by tenant; nobody else is refused, and there is room again when they have ended."""
    daemon = start_daemon(config=tenants_of(tenants, "connections = 300\n", "connections = 1024\n"
                                            f"connections_per_user = 300\nadmin_group = {tenants[0].gid}\n"))
    control = daemon.control(tenants[0])
    with contextlib.ExitStack() as stack:
        def open_one(user, name="w"):
            client = stack.enter_context(daemon.connect(user))
            client.call("workspace.open", {"workspace": name})
            return client

        def forwards():
            text = control.call("metrics")["text"]
            return next(int(line.split()[-1]) for line in text.splitlines()
                        if line.startswith('cloister_tenant_forwards{tenant="a"}'))
        names = "w", "x", "y"
        servers = [open_one(tenants[0], name) for name in names]
        for client in servers:
            serve(client, "echo", 4000)
        second = open_one(tenants[1])
        serve(second, "echo", 4000)
        streams = {name: [open_one(tenants[0], name) for _ in range(128)] for name in names[:2]}
        for name in names[:2]:
            for client in streams[name]:
                client.call("workspace.forward", {"port": 4000})
            assert refusal(open_one(tenants[0], name), 4000).name == "BUSY"
        assert forwards() == 256
        assert refusal(servers[2], 4000).name == "BUSY"
        other = open_one(tenants[1])
        other.call("workspace.forward", {"port": 4000})
        other.socket.sendall(b"fine")
        assert other.socket.recv(4) == b"fine"
        streams["x"][0].close()
        assert procfs.eventually(lambda: forwards() == 255)
        open_one(tenants[0], "y").call("workspace.forward", {"port": 4000})


@pytest.mark.parametrize("death", ["client", "worker", "cloisterd"])
def test_nothing_is_left(own_daemon, death):
    daemon, client = own_daemon, own_daemon.connect()
    workspace = daemon.new_workspace(client)
    serve(client, "deaf", 4008)
    worker = daemon.cell_of(workspace)[0]
    with Stream(daemon, workspace, 4008) as stream:
        assert procfs.eventually(lambda: len(relays(worker)) == 1)
        relay = relays(worker)[0]
        below = procfs.descendants(worker)
        everything = procfs.descendants(daemon.process.pid)
        assert relay in below and worker in everything
        if death == "client":
            # It has said what the server will never take.
            stream.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    stream.socket.send(b"x" * 65536)
            stream.socket.close()
            assert procfs.vanish([relay])
            assert client.run("echo fine")["stdout"] == "fine\n"
        elif death == "worker":
            os.kill(worker, signal.SIGKILL)
            assert stream.receive_all() == b""
            assert procfs.vanish(below)
        else:
            daemon.process.kill()
            assert stream.receive_all() == b""
            assert procfs.vanish(everything)
            daemon.process.wait()


def test_the_relay_has_the_stream_and_nothing_else(daemon, client, workspace):
    serve(client, "deaf", 4010)
    worker = daemon.cell_of(workspace)[0]
    with Stream(daemon, workspace, 4010):
        assert procfs.eventually(lambda: len(relays(worker)) == 1)
        relay = relays(worker)[0]
        assert procfs.eventually(lambda: len(procfs.fds(relay)) == 5)
        with acting_as(os.getuid()):
            stream = procfs.fds(relay)[3]
            assert stream.startswith("socket:")
            assert procfs.eventually(lambda: stream not in procfs.fds(daemon.process.pid).values())
        assert procfs.status(relay)["CapEff"].strip("0") == procfs.status(relay)["CapPrm"].strip("0") == ""
        # No command sees it.
        assert "cloister-relay" not in client.run("cat /proc/[0-9]*/comm")["stdout"]
        # It is a way in, and none out: what listens here, where the client is, is not there.
        with socket.create_server(("127.0.0.1", 0)) as here:
            tried = client.run(shlex.join([PYTHON, "-c", f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {here.getsockname()[1]}), 10)
except OSError as error:
    print(error.strerror)"""]))
        assert tried["stdout"] == "Connection refused\n"


@pytest.fixture
def forwarder(daemon):
    """Runs `cloister forward` and gives its port."""
    with contextlib.ExitStack() as stack:
        def start(root, *arguments):
            process = stack.enter_context(subprocess.Popen(
                [daemon.area.bin / "cloister", "--socket", daemon.socket, "--workspace", root, "forward",
                 *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                **daemon.area.account.as_user()))
            stack.callback(process.kill)
            line = process.stdout.readline()
            return process, int(line.split()[0].split(":")[1]) if line else None  # somebody else has the port
        yield start


@pytest.mark.skipif(not (shutil.which("npm") and shutil.which("curl")), reason="needs npm and curl")
def test_a_development_server(daemon, workspace, forwarder):
    """What doc/tutorial.md shows, with npm: all by commands, and each waits for what it needs."""
    server = f"server-{os.getpid()}.js"
    made = {"package.json": json.dumps({"scripts": {"dev": f"node {server}"}}),
            # It does not end when it is asked to, so an end that is told too early finds it alive.
            server: 'process.on("SIGTERM", () => {}); require("http").createServer((_, to) => to.end("from npm")).listen(3000)'}
    for name, content in made.items():
        (workspace / name).write_text(content)
        daemon.area.account.own(workspace / name)

    def session(*words):
        return subprocess.run([daemon.area.bin / "cloister", "--socket", daemon.socket, "--workspace", workspace, "session", *words],
                              stdout=subprocess.PIPE, text=True, check=True, timeout=600, **daemon.area.account.as_user()).stdout
    session("start", "--name", "dev", "npm run dev")
    session("wait", "dev", "--port", "3000")
    process, port = forwarder(workspace, "3000")
    page = subprocess.run(["curl", "-sSf", "--noproxy", "*", f"http://127.0.0.1:{port}/"], stdout=subprocess.PIPE, check=True)
    assert page.stdout == b"from npm"
    assert f"node {server}" in session("read", "dev")
    session("end", "dev")
    assert not procfs.having(server), "npm, its shell and node are gone"


def test_the_command(client, workspace, forwarder):
    serve(client, "count", 4101)
    for _ in range(10):
        with socket.create_server(("127.0.0.1", 0)) as free:
            wanted = free.getsockname()[1]
        process, port = forwarder(workspace, f"{wanted}:4101")
        if port:
            break
    assert port == wanted
    _, free = forwarder(workspace, "0:4101")
    assert free not in (None, 0, wanted)
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(b"y" * (3 * MIB))
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(100) == b"%d" % (3 * MIB)
    client.call("session.end", {"session": client.call("session.list")["sessions"][-1]["session"], "grace_ms": 0})

    def is_refused():
        """Soon: what the kernel said of a port counts for a moment."""
        with socket.create_connection(("127.0.0.1", port)) as stream:
            assert stream.recv(100) == b""
        return select.select([process.stderr], [], [], 0.1)[0]
    assert procfs.eventually(is_refused)
    assert "Nothing listens" in process.stderr.readline()
    process.terminate()
    assert process.wait(60) != 0
