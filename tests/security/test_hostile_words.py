# SPDX-License-Identifier: Apache-2.0
"""What a service says, its own words or a workspace's, is shown by the clients and does nothing to a terminal."""

import contextlib
import json
import os
import pty
import re
import select
import socket
import subprocess
import tempfile
import threading

import pytest
from daemon import BUILD

# C1 (CSI), an override of direction, DEL, an isolate, a tag, what has no width, and harmless letters.
HOSTILE = "a\x9b31m\u202eb\x7f\u2066\U000e0041\u200bé😀\\"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\U000e0000-\U000e0fff]")

CALL = {"call": HOSTILE, "tenant": HOSTILE, "workspace": HOSTILE, "tool": HOSTILE, "state": HOSTILE, "age_ms": 1,
        "deadline_ms": 1, "command": HOSTILE}
WORKSPACE = {"tenant": HOSTILE, "kind": HOSTILE, "state": HOSTILE, "users": 1, "workspace": HOSTILE}
PROBE = {name: HOSTILE for name in ("row", "probe", "result", "wanted", "answer")}
RESULTS = {
    "workspace.open": {"workspace": HOSTILE},
    "tools.list": {"tools": [{"name": HOSTILE, HOSTILE: 1}]},
    "tool.call": {"success": True, "tool": HOSTILE, "output": {"exit_code": 0, "stdout": HOSTILE, HOSTILE: 1}},
    "status": {"version": HOSTILE, "state": HOSTILE, "role": HOSTILE, "workspaces": {HOSTILE: 1},
               "audit": {"error": HOSTILE, "refusing": HOSTILE, "hash": HOSTILE}, "selftest": {"result": HOSTILE},
               "enforcement": [{"what": HOSTILE, "by": HOSTILE, "why": HOSTILE}]},
    "doctor": {"features": [{"feature": HOSTILE, "present": False, "cost": HOSTILE, "fix": HOSTILE}]},
    "tenants": {"tenants": [{"tenant": HOSTILE, "connections": HOSTILE}]},
    "workspaces": {"workspaces": [WORKSPACE]},
    "commands": {"calls": [CALL]},
    "show": {"workspaces": [WORKSPACE], "calls": [CALL]},
    "selftest": {"result": HOSTILE, "probes": [PROBE]},
    "metrics": {"text": f"# HELP {HOSTILE}\n"},
}


class Service:
    """Answers everything with RESULTS, or with an error."""

    def __init__(self, path, fails):
        self.fails = fails
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.listener.accept()
        # A client may have left.
        with connection, contextlib.suppress(OSError):
            for line in connection.makefile("rb"):
                request = json.loads(line)
                answer = {"result": RESULTS.get(request["method"], {HOSTILE: HOSTILE})}
                if self.fails and request["method"] != "workspace.open":
                    answer = {"error": {"code": -32000, "message": HOSTILE, "data": {"code": HOSTILE}}}
                text = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}, ensure_ascii=False)
                connection.sendall(text.encode() + b"\n")
                if request["method"] in ("events", "ping"):
                    # After a ping it is the client who ends, with its input; otherwise it says that we did, in red.
                    text = json.dumps({"jsonrpc": "2.0", "method": "call.began", "params": {HOSTILE: HOSTILE}},
                                      ensure_ascii=False)
                    connection.sendall(text.encode() + b"\n")
                if request["method"] == "events":
                    return

    def end(self):
        self.listener.close()


@pytest.fixture(name="directory")
def directory_fixture():
    with tempfile.TemporaryDirectory(prefix="cloister-words.") as path:
        yield path


def run(directory, program, words, fails=False, said=b"", terminal=False):
    """Its output and its errors."""
    path = os.path.join(directory, "s")
    service = Service(path, fails)
    command = [BUILD / "bin" / program, "--socket", path, *words]
    if not terminal:
        done = subprocess.run(command, input=said, capture_output=True, timeout=60, check=False)
        service.end()
        return done.stdout.decode(), done.stderr.decode()
    master, slave = pty.openpty()
    shown = b""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=slave, stderr=slave) as client:
        client.stdin.write(said)
        client.stdin.close()
        while client.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65536)
    os.close(master)
    os.close(slave)
    service.end()
    return shown.decode().replace("\r\n", "\n"), ""


CLOISTER = [["call", "read_file", "path=a"], ["tools"], ["exec", "--json", "true"], ["exec", "true"]]
CONTROL = [["status"], ["doctor"], ["tenants"], ["workspaces"], ["commands"], ["show", "x"], ["kill", "x"], ["drain"],
           ["reload"], ["selftest"], ["selftest", "-v"], ["events"]]
COMMANDS = [("cloister", ["--workspace", "w", *words]) for words in CLOISTER] + [
    ("cloister", ["--workspace", "w", "--json", *words]) for words in CLOISTER] + [
    ("cloisterctl", words) for words in CONTROL] + [("cloisterctl", ["--json", *words]) for words in CONTROL] + [
    ("cloisterctl", ["--json", "metrics"]), ("cloisterctl", ["--json", "top"])]


@pytest.mark.parametrize("fails", [False, True], ids=["result", "error"])
@pytest.mark.parametrize("program,words", COMMANDS, ids=lambda word: " ".join(word) if isinstance(word, list) else word)
def test_nothing_reaches_a_terminal(directory, program, words, fails):
    stdout, stderr = run(directory, program, words, fails)
    assert not HARMFUL.search(stdout)
    assert not HARMFUL.search(stderr)
    assert "é😀" in stdout + stderr or (words[0] in ("kill", "drain", "reload") or words[-2:] == ["exec", "true"])


def test_json_means_the_same(directory):
    stdout, _ = run(directory, "cloister", ["--workspace", "w", "call", "read_file", "path=a"])
    assert json.loads(stdout) == RESULTS["tool.call"]
    os.unlink(os.path.join(directory, "s"))
    stdout, _ = run(directory, "cloisterctl", ["--json", "commands"])
    assert json.loads(stdout) == RESULTS["commands"]


def test_metrics_on_a_terminal(directory):
    shown, _ = run(directory, "cloisterctl", ["metrics"], terminal=True)
    assert "é😀" in shown
    assert not HARMFUL.search(shown)


def test_metrics_elsewhere_are_as_they_came(directory):
    assert run(directory, "cloisterctl", ["metrics"])[0] == RESULTS["metrics"]["text"]


PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n'


def test_mcp_on_a_terminal(directory):
    shown, _ = run(directory, "cloister", ["--workspace", "w", "mcp"], said=PING, terminal=True)
    assert "é😀" in shown
    assert not HARMFUL.search(shown)
    assert json.loads(shown.splitlines()[0])["result"] == {HOSTILE: HOSTILE}


def test_mcp_elsewhere_is_byte_for_byte(directory):
    stdout, _ = run(directory, "cloister", ["--workspace", "w", "mcp"], said=PING)
    assert HOSTILE.replace("\\", "\\\\") in stdout
