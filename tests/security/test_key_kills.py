# SPDX-License-Identifier: Apache-2.0
"""cloisterd is killed at each step of a call with a key, and at random moments, and the client asks again with the key: a
command never runs twice, and a change of a file is made exactly once. tests/chaos/run has the long form."""

import collections
import contextlib
import os
import random
import select
import time

import pytest

import procfs
from keyed import Keyed, kill
from killer import Killer

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to trace the service")
KILLS = int(os.environ.get("CLOISTER_KEY_KILLS", "64"))
KINDS = ("command", "write", "edit", "patch")
STEPS = 120  # system calls, entered and left, of the longest call with a key


class Call:
    """A call with a key. Made twice, it would leave something else than made once."""

    def __init__(self, root, kind, number):
        self.kind, self.key, self.path = kind, f"{kind}-{number}", root / f"{kind}.{number}"
        self.tool = {"command": "run_command", "write": "write_file", "edit": "edit_file", "patch": "apply_patch"}[kind]
        self.other = root / f"other.{number}"
        self.arguments = {"path": self.path.name}
        if kind == "command":
            self.arguments = {"command": f"echo run >>{self.path.name}; echo done"}
        elif kind == "write":
            self.arguments["content"] = f"new {number}\n"
        else:
            self.path.write_text("one\n")
            os.chown(self.path, os.stat(root).st_uid, os.stat(root).st_gid)
            self.arguments["edits"] = [{"old": "one", "new": "one and one"}]
        if kind == "patch":
            self.arguments = {"patch": "\n".join(["*** Begin Patch", f"*** Update File: {self.path.name}", "-one", "+one and one",
                                                  f"*** Add File: {self.other.name}", "+added", "*** End Patch"])}

    def begin(self, client):
        return client.begin(self.tool, self.arguments, {"key": self.key, "durability": "fast"})

    def check(self, answer):
        """The outcome of a command or of half a patch may be unknown, that of a file is not. Returns the kind of the answer."""
        content = self.path.read_text() if self.path.exists() else ""
        if self.kind == "command" and not answer["success"]:
            assert answer["error"]["code"] == "OUTCOME_UNKNOWN" and content in ("", "run\n"), (answer, content)
            return "unknown"
        if self.kind == "patch" and not answer["success"]:
            assert answer["error"]["code"] == "OUTCOME_UNKNOWN" and not self.other.exists(), answer
            assert [file["state"] for file in answer["error"]["data"]["files"]] == ["changed", "unchanged"]
            assert content == "one and one\n"
            return "half"
        assert answer["success"], (self.key, answer, content)
        assert content == {"command": "run\n", "write": f"new {self.key.split('-')[1]}\n"}.get(self.kind, "one and one\n")
        assert self.kind != "patch" or self.other.read_text() == "added\n"
        return "replayed" if answer.get("replayed") else "resolved" if answer.get("resolved") else "ran"


@pytest.mark.deep("busy")
@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_killed_at_each_step(start_daemon, area, mode):
    seed = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
    chance, found, began = random.Random(seed), collections.Counter(), time.monotonic()
    settings = "tools = basic edit patch\nkeys = 100000\n"
    keyed = Keyed(start_daemon, area, mode, settings)
    step = {kind: chance.randrange(1, 8) for kind in KINDS}
    # In the short form each step is further from the last one.
    wide = max(1, STEPS * len(KINDS) * 2 // KILLS)
    for number in range(KILLS // 2):
        kind = KINDS[number % len(KINDS)]
        call = Call(keyed.root, kind, number)
        assert not keyed.client.observe("run_command", {"command": "true"})["error"]  # the cell is there
        processes = procfs.descendants(keyed.daemon.pid)
        at_random = chance.randrange(4) == 0
        killer = None if at_random else Killer(keyed.daemon.pid, step[kind])
        with contextlib.suppress(OSError):  # it was killed before it read the request
            call.begin(keyed.client)
        if at_random:
            time.sleep(chance.random() * 0.02)
        else:
            deadline = time.monotonic() + 0.5  # a call that has fewer steps is killed after its end
            while keyed.daemon.process.poll() is None and time.monotonic() < deadline and not readable(keyed.client):
                time.sleep(0.001)
            keyed.daemon.process.kill()
            step[kind] = step[kind] + 1 + chance.randrange(wide) if killer.end() else 1 + chance.randrange(wide)
        kill(keyed.daemon)
        assert procfs.vanish(processes)  # a service manager waits for it
        keyed = Keyed(start_daemon, area, mode, settings, root=keyed.root, state=keyed.daemon.state)
        for _ in range(2):
            answer = keyed.client.result(call.begin(keyed.client))
            found[kind, call.check(answer)] += 1
    print(f"\nseed {seed}: {KILLS // 2} kills with journal = {mode} in {time.monotonic() - began:.0f} s: {dict(found)}")
    assert found["command", "ran"] + found["command", "unknown"] > 0, found
    assert procfs.is_alive(keyed.daemon.pid)


def readable(client):
    """Whether an answer has come, which ends the steps."""
    return bool(select.select([client.socket], [], [], 0)[0])
