# SPDX-License-Identifier: Apache-2.0
"""Clients of several tenants send plausible and broken requests in random order, read or do not, hang up in the midst of
it, and meanwhile the configuration is reloaded and processes are stopped and killed. cloisterd lives, ends up counting
nothing, and serves. CLOISTER_SOAK=full makes it long; CLOISTER_SEED repeats a run's choices."""

import contextlib
import json
import os
import random
import signal
import socket
import time

import procfs
import pytest
from cloister_client import acting_as

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")

SECONDS = 180 if os.environ.get("CLOISTER_SOAK") == "full" else 15
ADMIN = 64322
CONNECTIONS = 30
NAMES = ["w1", "w2", "w3", "w1", "w2", "w3", "", "..", "a/b", "x" * 300, ".hidden", "w1\0", "é"]
COMMANDS = ["true", "echo hi", "sleep 0.2", "sleep 30", "cat", "yes", "head -c 3000000 /dev/zero", "exec >&-; sleep 5",
            "kill -9 $$"]
CALLS = [("write_file", {"path": "f", "content": "z" * 100000}), ("write_file", {"path": "../x", "content": ""}),
         ("read_file", {"path": "f"}), ("list_directory", {"path": "."}), ("search_files", {"pattern": "z+", "path": "."}),
         ("search_files", {"pattern": "(", "path": "."}), ("nothing", {}), ("read_file", {"path": 5}), ("read_file", None)]
OPTIONS = {"stream": [True], "stream_bytes": [True], "encoding": ["base64", "x"], "reply": ["message"], "idle_timeout_ms": [1, 100],
           "stdin_stream": [True], "stdin": ["eA=="], "keep_output": [False], "path_base64": ["Zg=="]}
METHODS = ["workspace.open"] * 6 + ["tool.call"] * 12 + ["tool.input"] * 3 + ["tool.cancel"] * 3 + [
    "workspace.close", "workspace.list", "workspace.remove", "tools.list", "initialize", "tools/list", "tools/call",
    "server/discover", "notifications/cancelled", "ping", "nothing"]
CONTROL_METHODS = ["status", "workspaces", "commands", "tenants", "show", "doctor", "metrics", "events", "kill", "drain",
                   "resume", "resume", "reload", "nothing"]


class Wild:
    """What one seed chooses."""

    def __init__(self, daemon, tenants, tree, seed):
        self.daemon, self.tenants, self.tree = daemon, tenants, tree
        self.random = random.Random(seed)
        self.connections = []  # (socket, whether it is the control socket's, whether what comes is read)
        self.stopped = []  # (when it goes on, pid)

    def config(self, names="abc", **users):
        text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {ADMIN}\n"
        for name, user in zip("abc", self.tenants):
            if name in names:
                text += f"[tenant {name}]\nusers = {users.get(name, user).name}\nmanaged = yes\nroots = {self.tree}/{name}\n"
        return text

    def write_config(self, text):
        with acting_as(os.getuid()):
            self.daemon.config.write_text(text)
        self.daemon.process.send_signal(signal.SIGHUP)

    def path(self):
        name = self.random.choice("abc")
        return f"{self.tree}/{name}" + self.random.choice(
            ["", "/", "/1", "/1", "//1/.", "/../b/1", "x", "/link", "/1\n", "/\ud800", "/" + "y" * 300, "/" + "x/" * 2100])

    def params(self, method):
        pick = self.random.choice
        if method == "workspace.open":
            params = {"workspace": pick(NAMES)} if pick([True, True, False]) else {"root": self.path()}
            return {**params, **pick([{}, {}, {"tenant": pick("abcz")}, {"kind": pick(["rootfs", "managed", "x"])}])}
        if method in ("workspace.close", "workspace.remove", "show", "kill"):
            return {"workspace": pick(NAMES)}
        if method in ("tool.cancel", "tool.input", "notifications/cancelled"):
            params = {"requestId" if method[0] == "n" else "id": self.random.randrange(60)}
            return {**params, "data": "i" * pick([0, 1000, 900000])} if method == "tool.input" else params
        if method in ("tool.call", "tools/call"):
            tool, arguments = pick([("run_command", {"command": pick(COMMANDS)}), pick(CALLS)])
            options = {name: pick(values) for name, values in OPTIONS.items() if pick([True, False, False, False])}
            if method == "tool.call":
                return {"tool": tool, "arguments": arguments, "options": options}
            return {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1, "cloister/options": options}}
        return {"protocolVersion": "2025-06-18"} if method == "initialize" else {}

    def lines(self, control):
        method = self.random.choice(CONTROL_METHODS if control else METHODS)
        message = {"jsonrpc": "2.0", "method": method, "params": self.params(method)}
        if self.random.random() < 0.95:
            message["id"] = self.random.randrange(60)
        data = json.dumps(message).encode() + b"\n"
        at = self.random.randrange(len(data))
        return self.random.choice([data] * 20 + [
            data * 20, data * 60, data[:at], data[:at] + b"\xff" + data[at:], b"\n" * 3000,
            b'{"jsonrpc":"2.0","id":7,"method":"' + b"q" * 5000000])

    def connect(self):
        control = self.random.random() < 0.15
        user = self.random.choice(self.tenants)
        made = socket.socket(socket.AF_UNIX)
        with acting_as(user.uid, user.gid, [ADMIN] if control else []):
            made.connect(str(self.daemon.control_socket if control else self.daemon.socket))
        made.setblocking(False)
        self.connections.append((made, control, self.random.random() < 0.7))
        self.send(made, b'{"jsonrpc":"2.0","id":1,"method":"workspace.open","params":{"workspace":"w1"}}\n')

    @staticmethod
    def send(to, data):
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            to.send(data)

    def hurt(self):
        """Stops one of the processes for a moment, or kills one that may die."""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError, ValueError):
            spawner = self.daemon.spawner()
            pid, sent = self.random.choice([(spawner, signal.SIGSTOP), (self.daemon.pid, signal.SIGSTOP)] + [
                (cell, number) for cell in procfs.children(spawner) for number in (signal.SIGSTOP, signal.SIGKILL)])
            os.kill(pid, sent)
            self.stopped.append((time.monotonic() + self.random.random(), pid))

    def go_on(self, now=float("inf")):
        for entry in [entry for entry in self.stopped if entry[0] <= now]:
            self.stopped.remove(entry)
            with contextlib.suppress(ProcessLookupError):
                os.kill(entry[1], signal.SIGCONT)

    def leave(self, connection):
        connection[0].close()
        self.connections.remove(connection)

    def step(self):
        what = self.random.random()
        if len(self.connections) < 3 or (what < 0.04 and len(self.connections) < CONNECTIONS):
            self.connect()
            return
        connection = self.random.choice(self.connections)
        if what < 0.07:
            self.leave(connection)
        elif what < 0.08:
            with contextlib.suppress(OSError):
                connection[0].shutdown(socket.SHUT_WR)
        elif what < 0.082:
            a, b, _ = self.tenants
            self.write_config(self.random.choice([
                self.config(), self.config("bc"), self.config("b"), self.config(a=b, b=a), self.config("ac", c=b), "["]))
        elif what < 0.083:
            self.hurt()
        elif what < 0.7:
            self.send(connection[0], self.lines(connection[1]))
        elif connection[2]:
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                if connection[0].recv(1 << 20) == b"":
                    self.leave(connection)


def administrators(daemon):
    """How many connections of its control socket cloisterd still has open, the client's ends closed or not."""
    with open("/proc/net/unix") as sockets:
        return sum(line.split()[-1] == str(daemon.control_socket) for line in sockets) - 1  # without the listening one


def counted(daemon):
    """What the tenants have in use, as the metrics have it."""
    with daemon.control(groups=[ADMIN]) as control:
        lines = control.call("metrics")["text"].splitlines()
    of = ("cloister_tenant_connections{", "cloister_tenant_calls{", "cloister_tenant_workspaces{",
          "cloister_tenant_unread_bytes{", "cloister_tenant_turns", "cloister_unread_bytes ", "cloister_calls_in_flight{")
    return [line for line in lines if line.startswith(of) and line.split()[-1] != "0"]


@pytest.mark.deep("busy")
def test_whatever_clients_send(start_daemon, area, tenants):
    seed = int(os.environ.get("CLOISTER_SEED", time.time_ns() % 1_000_000))
    print(f"CLOISTER_SEED={seed}")
    tree = area.new_directory("tree")
    for name in "abc":
        for path in (tree / name, tree / name / "1"):
            path.mkdir()
            area.account.own(path)
        (tree / name / "link").symlink_to("/etc")
    wild = Wild(None, tenants, tree, seed)
    wild.daemon = daemon = start_daemon(config=wild.config())
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            assert daemon.process.poll() is None, daemon.log()
            wild.step()
            wild.go_on(time.monotonic())
    finally:
        wild.go_on()
    while wild.connections:
        wild.leave(wild.connections[0])
    wild.write_config(wild.config())
    # An administrator who hung up may have left a drain unread, behind a doctor: it counts until cloisterd has come to it.
    assert procfs.eventually(lambda: administrators(daemon) == 0, 60), administrators(daemon)
    with daemon.control(groups=[ADMIN]) as control:
        control.call("resume")
        assert control.call("reload")["tenants"] == 3
    assert procfs.eventually(lambda: not counted(daemon), 60), counted(daemon)
    for name, user in zip("abc", tenants):
        with daemon.connect(user) as client:
            assert client.call("workspace.open", {"workspace": "last"})["tenant"] == name
            assert client.run("echo served")["stdout"] == "served\n"
    daemon.check_log()
