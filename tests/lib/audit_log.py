# SPDX-License-Identifier: Apache-2.0
"""A daemon with an audit log, and what is read from the log's files."""

import hashlib
import json
import pathlib

import pytest

import procfs


def config(area, mode="on", path=None, settings=""):
    where = f"audit_file = {path}\n" if path else ""
    return (f"[cloister]\naudit = {mode}\n{where}admin_group = {area.account.gid}\n{settings}"
            f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nroots = {area.path}\n")


def read(path):
    return [json.loads(line) for line in pathlib.Path(path).read_bytes().splitlines()]


def read_so_far(path):
    """Returns the complete lines of a log that is still being written."""
    data = pathlib.Path(path).read_bytes()
    return [json.loads(line) for line in data[:data.rfind(b"\n") + 1].splitlines()]


def losses(lines):
    return sum(line["lines"] for line in lines if line["event"] == "audit.lost")


def verify(area, *words):
    """Runs the verifier. Returns its exit status and the lines that it prints."""
    done = area.run("cloisterctl", "audit", "verify", *map(str, words))
    assert done.stderr == b"" or done.returncode == 3, done.stderr
    return done.returncode, done.stdout.decode().splitlines()


class Audited:
    """A daemon with an audit log, and a client that has opened a workspace."""

    def __init__(self, start_daemon, area, mode="on", path=None, settings="", **keywords):
        self.area = area
        self.daemon = start_daemon(config=config(area, mode, path, settings), **keywords)
        self.log = pathlib.Path(path or self.daemon.state / "audit" / "audit.log")
        self.client = self.daemon.connect()
        if "selftest = required" in settings:  # calls are refused until the self-test has passed
            assert procfs.eventually(lambda: "probes passed" in self.daemon.log(), 60)
        self.client.call("workspace.open", {"workspace": "w"})

    def observe(self, command):
        return self.client.observe("run_command", {"command": command})

    def status(self):
        with self.daemon.control() as control:
            return control.call("status")["audit"]

    def written(self):
        """Returns the lines when all of them are written."""
        self.settle()
        return read(self.log)

    def settle(self):
        """Waits until no line is queued. The line that counts lost lines comes after these."""
        def settled():
            status = self.status()
            if status["queued_bytes"] > 0 or status["error"]:
                return False
            return status["lost"] == 0 or losses(read_so_far(self.log)) == status["lost"]
        assert procfs.eventually(settled, 60), self.status()

    def events(self, name):
        return [line for line in self.written() if line["event"] == name]

    def verify(self, *files):
        self.settle()
        return verify(self.area, *(files or [self.log]))

    def thread(self):
        (found,) = [int(task.name) for task in pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()
                    if (task / "comm").read_text() == "audit\n"]
        return found


@pytest.fixture
def audited(start_daemon, area):
    return Audited(start_daemon, area)


def flood(audited, count):
    """Sends that many calls that are refused and audited, without waiting for each answer."""
    line = json.dumps({"jsonrpc": "2.0", "method": "tool.call", "params":
                       {"tool": "x" * 64, "arguments": {}}}).encode() + b"\n"
    for _ in range(count // 100):
        audited.client.send_raw(line * 100)
    audited.client.call("tools.list")


def rotate(audited, number):
    former = audited.log.with_name(f"rotated.{number}")
    audited.log.rename(former)
    return former


def chained(members):
    """A log whose lines have these members, as a cloisterd would chain them."""
    lines, last = [], "0" * 64
    for number, line in enumerate(members, 1):
        text = f'{{"seq":{number},"prev":"{last}",' + json.dumps(line)[1:-1]
        last = hashlib.sha256(text.encode()).hexdigest()
        lines.append(f'{text},"hash":"{last}"}}\n')
    return "".join(lines)
