# SPDX-License-Identifier: Apache-2.0
"""A command that exchanges directories, files and links as fast as it can, against each tool.

CLOISTER_RACE_SECONDS says how long; in CI it is a minute for each tool, in the release build. All tools are attacked at the same
time, each in a workspace of its own.
"""

import os
import threading
import time

import pytest
from cloister_client import acting_as
from daemon import is_sanitized

LONG = os.environ.get("CI") == "true" and not is_sanitized()
SECONDS = float(os.environ.get("CLOISTER_RACE_SECONDS", 60 if LONG else 5))
SECRET = "what lies outside"
INSIDE = "what lies inside"
RAW = {"line_numbers": False}

# renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), again and again in one thread for each pair.
EXCHANGER = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
pairs = [(b"swap", b"evil"), (b"target", b"evilfile"), (b"m/a/b/c", b"moved"), (b"deep/deep/swap", b"deep/evil"),
         (b"deep", b"deepevil")]
swaps = [0] * len(pairs)
def swap(i):
    a, b = pairs[i]
    while not os.path.exists("over"):
        for _ in range(100):
            swaps[i] += libc.renameat2(-100, a, -100, b, 2) == 0
threads = [threading.Thread(target=swap, args=(i,)) for i in range(len(pairs))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*swaps)
"""

READ_PATHS = ("swap/f", "evil/f", "swap/../swap/f", "swap/sub/../../swap/f", "ROOT/swap/f", "self/swap/f", "target", "evilfile",
              "self/target", "m/a/b/c/../../../../target", "self/m/a/b/c/../../../../../swap/f", "deep/deep/swap/f", "deepevil/f",
              "deep/evil/f", "deep/../evil/f")
LIST_PATHS = (".", "swap", "evil", "deep", "swap/sub/..", "self/swap", "ROOT/evil", "m/a/b/c/../../../..", "deepevil")
WRITE_PATHS = ("swap/new", "evil/new", "target", "evilfile", "self/swap/made/new", "ROOT/target", "m/a/../../swap/f",
               "deep/deep/swap/x/y/new", "deepevil/f", "swap/sub/../f")

CALLS = {
    "read_file": [({"path": path}, RAW) for path in READ_PATHS],
    "list_directory": [({"path": path, "recursive": True}, {"gitignore": False}) for path in LIST_PATHS],
    "search_files": [({"path": path, "pattern": "what lies"}, {"gitignore": False}) for path in LIST_PATHS + ("target",)],
    "write_file": [({"path": path, "content": INSIDE}, {"durability": "fast"}) for path in WRITE_PATHS],
    "run_command": [({"command": f"cat {path}; ls -R {path}"}, None) for path in ("swap/f", "evil/f", "evilfile", "deep")],
}
# The name was moved, a link leads out, a directory took the place of a file.
ERRORS = {"NOT_FOUND", "SYMLINK_OUTSIDE_WORKSPACE", "PATH_OUTSIDE_WORKSPACE", "NOT_A_DIRECTORY", "IS_A_DIRECTORY", "BUSY"}


class Victim(threading.Thread):
    """The workspace of one tool, with the attacker and the calls that the test makes meanwhile."""

    def __init__(self, daemon, tool):
        super().__init__()
        self.tool = tool
        self.client, self.attacker = daemon.connect(), daemon.connect()
        self.path = daemon.new_workspace(self.client)
        self.outside = daemon.area.new_directory("outside")
        self.attacker.call("workspace.open", {"root": str(self.path)})
        owner = self.path.stat()  # in system mode the workspace's own id
        with acting_as(owner.st_uid, owner.st_gid):
            self.fill()
        self.before = self.look_outside()
        self.answers, self.failure, self.swaps = {}, None, []

    def fill(self):
        for directory in (self.path / "swap/sub", self.path / "m/a/b/c", self.path / "moved", self.path / "deep/deep/swap",
                          self.outside / "sub", self.outside / "swap"):
            directory.mkdir(parents=True)
        for name in ("swap/f", "target", "deep/deep/swap/f"):
            (self.path / name).write_text(INSIDE)
        for name in ("f", "sub/f", "swap/f"):
            (self.outside / name).write_text(SECRET)
            os.utime(self.outside / name, (0, 10 ** 9))  # the next read changes its access time
        for name, target in {"evil": self.outside, "evilfile": self.outside / "f", "self": self.path,
                             "deep/evil": self.outside, "deepevil": "../" + self.outside.name}.items():
            (self.path / name).symlink_to(target)
        (self.path / "exchange.py").write_text(EXCHANGER)

    def look_outside(self):
        """Returns stat(2) of every file outside."""
        found = {}
        for directory, _, files in os.walk(self.outside):
            for path in [directory] + [os.path.join(directory, name) for name in files]:
                stat = os.lstat(path)
                times = (stat.st_mtime_ns, stat.st_ctime_ns) + (() if path == directory else (stat.st_atime_ns,))
                found[path] = (stat.st_ino, stat.st_mode, stat.st_nlink, stat.st_size, times)
        return found

    def run(self):
        try:
            attack = self.attacker.begin("run_command", {
                "command": "/usr/bin/python3 exchange.py", "timeout_ms": int(SECONDS * 1000) + 120000})
            calls, end, i = CALLS[self.tool], time.monotonic() + SECONDS, 0
            while time.monotonic() < end or self.answers.get("success", 0) <= 10 and time.monotonic() < end + 90:
                arguments, options = calls[i % len(calls)]
                self.judge(self.client.observe(
                    self.tool, {key: value.replace("ROOT", str(self.path)) if isinstance(value, str) else value
                                for key, value in arguments.items()}, options))
                i += 1
            self.attacker.use("write_file", path="over", content="")
            output = self.attacker.result(attack)["output"]
            assert output["exit_code"] == 0, output
            self.swaps = [int(word) for word in output["stdout"].split()]
        except BaseException as error:  # set by the main thread
            self.failure = error

    def judge(self, observation):
        assert SECRET not in str(observation), observation
        answer = "success" if observation["success"] else observation["error"]["code"]
        self.answers[answer] = self.answers.get(answer, 0) + 1
        assert observation["success"] or answer in ERRORS, observation
        for entry in (observation["output"] or {}).get("entries", ()):
            assert str(self.outside) not in entry["path"]
        if self.tool == "read_file" and observation["success"]:
            assert observation["output"]["content"] == INSIDE


@pytest.fixture
def victims(daemon):
    made = [Victim(daemon, tool) for tool in CALLS]
    yield made
    for victim in made:
        victim.client.close()
        victim.attacker.close()


@pytest.mark.deep("slow")
def test_nothing_outside_is_reached(victims):
    for victim in victims:
        victim.start()
    for victim in victims:
        victim.join(SECONDS + 240)
        assert not victim.is_alive()
    for victim in victims:
        print(victim.tool, victim.answers, victim.swaps)
        if victim.failure:
            raise victim.failure
    for victim in victims:
        assert victim.look_outside() == victim.before, victim.tool
        assert victim.answers["success"] > 10, victim.tool
        assert len(victim.swaps) == 5 and min(victim.swaps) > 0, victim.swaps
        left = [name for _, directories, files in os.walk(victim.path) for name in directories + files]
        assert not [name for name in left if name.startswith(".cloister-")]
