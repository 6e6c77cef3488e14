# SPDX-License-Identifier: Apache-2.0
"""An agent edits, tests and commits while cloisterd, the workspace's processes and the agent itself are killed at random:
what it leaves is what a run without deaths leaves, and no command ran twice. tests/chaos/run has the long form;
CLOISTER_SEED repeats a run's choices."""

import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

import procfs
from daemon import ROOT, Daemon, environment
from test_chaos import restart

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")
ROUNDS = int(os.environ.get("CLOISTER_CHAOS_ROUNDS", "6"))
PAUSE = 0.35  # the longest between two deaths
GIT = ["git", "-c", "safe.directory=*", "-C"]


class Run:
    """An agent in a workspace, and what can be killed of it."""

    def __init__(self, area, daemon, name):
        self.area, self.daemon = area, daemon
        self.root, self.notes = area.new_directory(name), area.new_directory("notes") / "notes"
        self.deaths = {}
        self.agent = self.start()

    def start(self):
        words = [sys.executable, ROOT / "tests" / "lib" / "scripted_agent.py", self.daemon.socket, self.root, self.notes, ROUNDS]
        return subprocess.Popen(list(map(str, words)), env=environment(self.area.home), cwd="/", stdin=subprocess.DEVNULL,
                                **self.area.account.as_user())

    def wait(self, seconds):
        """Waits for the agent. Returns whether it has done its work."""
        try:
            assert self.agent.wait(seconds) == 0, self.daemon.log()
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill_agent(self):
        self.agent.kill()
        self.agent.wait()
        self.agent = self.start()

    def kill_cloisterd(self):
        processes = procfs.descendants(self.daemon.pid)
        self.daemon.process.kill()
        self.daemon.process.wait()
        assert procfs.vanish(processes, 120)
        restart(self.daemon)

    def kill_of_cell(self, name):
        found = [pid for pid in procfs.children(self.daemon.spawner()) if procfs.name(pid) == name]
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended meanwhile
                pass

    def kill_worker(self):
        self.kill_of_cell("cloister-worker")

    def kill_files(self):
        self.kill_of_cell("cloister-files")

    def kill_something(self, chance):
        kind = chance.choice([self.kill_agent, self.kill_cloisterd, self.kill_worker, self.kill_files])
        kind()
        self.deaths[kind.__name__] = self.deaths.get(kind.__name__, 0) + 1

    # What is left

    def git(self, *words):
        return subprocess.run([*GIT, str(self.root), *words], check=True, capture_output=True, text=True).stdout

    def left(self):
        """Everything but the index, which has inodes and times of the files."""
        files = {str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
                 for path in self.root.rglob("*") if path.is_file() and ".git" not in path.relative_to(self.root).parts}
        return {"files": files, "refs": self.git("show-ref", "--head"), "index": self.git("ls-files", "--stage"),
                "reflogs": [(self.root / ".git" / "logs" / name).read_text() for name in ("HEAD", "refs/heads/main")],
                "status": self.git("status", "--porcelain"),
                "objects": sorted(self.git("rev-list", "--objects", "--all").splitlines())}

    def commands(self):
        return (self.root / ".git" / "ran").read_text().split()


@pytest.mark.deep("busy")
def test_a_run_with_deaths_leaves_what_one_without_leaves(area):
    seed = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
    chance = random.Random(seed)
    # Each step of the long form has a key, and none is forgotten meanwhile.
    daemon = Daemon(area, config=(f"[cloister]\n[tenant t]\nusers = {area.account.uid}\nroots = {area.path}\n"
                                  "tools = basic edit\nkeys = 1000000\n"))
    try:
        calm = Run(area, daemon, "calm")
        assert calm.wait(120 + 2 * ROUNDS)
        wild, began = Run(area, daemon, "wild"), time.monotonic()
        while not wild.wait(chance.random() * PAUSE):
            wild.kill_something(chance)
            assert time.monotonic() - began < 120 + 30 * ROUNDS, (seed, wild.deaths, wild.notes.read_text()[-300:])
        print(f"\nseed {seed}: {ROUNDS} rounds in {time.monotonic() - began:.1f} s with the deaths {wild.deaths}")
        assert wild.left() == calm.left(), seed
        assert calm.left()["status"] == "" and calm.left()["refs"].count("\n") == 2
        assert calm.git("rev-list", "--count", "HEAD") == f"{ROUNDS}\n"
        for run in (calm, wild):
            ran = run.commands()
            assert len(ran) == len(set(ran)), (seed, "a command ran twice with one key")
            subprocess.run([*GIT, str(run.root), "fsck", "--strict", "--no-dangling"], check=True, capture_output=True)
        assert not [path for path in pathlib.Path(wild.root).rglob(".cloister-*")] or daemon.stop() is not None
    finally:
        daemon.stop()
