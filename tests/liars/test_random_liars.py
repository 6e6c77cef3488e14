# SPDX-License-Identifier: Apache-2.0
"""Workers and files processes that answer anything, and clients that send any call: cloisterd lives, answers each request at
most once, in its form, and serves others as before. A spawner whose messages are spoilt. tests/liars/README.md says how to run
them longer, and again."""

import collections
import contextlib
import json
import os
import pathlib
import random
import select
import shutil
import signal
import time

import pytest
from daemon import Area, Daemon

SECONDS = float(os.environ.get("CLOISTER_LIARS_SECONDS", "60"))
SEED = os.environ.get("CLOISTER_LIARS_SEED") or str(random.randrange(10**9))
WORKSPACES = 6  # at one time
RENEWED = 1.0  # seconds: one of them is left for a new one, since those that have lied too often rest
CLIENTS = 4
PENDING = 24  # requests of a client without an answer

CONFIG = """[cloister]
journal = fast
commands_per_cpu = 0
[tenant t]
users = {uid}
managed = yes
roots = {path}
tools = basic edit patch sessions
command_timeout = 2s
"""

CALLS = (
    ("read_file", {"path": "x"}), ("read_file", {"path": "x", "start_line": 2, "end_line": 9}),
    ("write_file", {"path": "y", "content": "AAAA"}),
    ("list_directory", {"path": "."}), ("list_directory", {"path": ".", "recursive": True}), ("search_files", {"pattern": "x"}),
    ("edit_file", {"path": "x", "edits": [{"old": "line", "new": "row"}]}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: x\n-line 1\n+row\n*** Add File: z\n*** End Patch"}),
    ("run_command", {"command": "true"}), ("run_command", {"command": "true", "background": True, "name": "b"}),
    ("read_output", {"name": "b"}), ("send_input", {"name": "b", "input": "x"}), ("stop_command", {"name": "b"}),
    ("list_commands", {}),
)
OPTIONS = (
    ("encoding", ("base64",)), ("max_output", (1, 3, 4000, 10**6)), ("reply", ("message",)), ("transaction", ("preview",)),
    ("yield_ms", (1, 50)), ("stream", (True,)), ("stream_bytes", (True,)), ("keep_output", (False,)), ("line_numbers", (False,)),
    ("timeout_ms", (1, 200, 5000)), ("idle_timeout_ms", (1, 300)), ("stdin", ("AAAA",)), ("stdin_stream", (True,)),
    ("durability", ("fast",)), ("key_wait_ms", (1, 100)),
)
FILE_METHODS = (
    ("file.stat", {"path": "x"}), ("file.stat", {"path": "x", "attributes": True}), ("file.list", {"path": "."}),
    ("file.list", {"path": ".", "depth": 0}), ("file.make_directory", {"path": "d"}), ("file.move", {"path": "x", "to": "y"}),
    ("file.remove", {"path": "y"}), ("file.remove", {"path": "d", "recursive": True}), ("file.read", {"path": "x"}),
    ("file.read", {"path": "x", "encoding": "base64", "length": 100000}), ("file.read", {"path": "x", "timeout_ms": 200}),
    ("file.write", {"path": "z"}), ("file.write", {"path": "z", "attributes": {"a": "b"}, "timeout_ms": 500}),
    ("file.write", {"path": "z", "durability": "fast"}),
)
METHODS = ("transaction.commit", "transaction.discard", "workspace.checkpoint", "workspace.diff")
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")


OUTCOMES = collections.Counter()


def outcome(message):
    """Returns how a request ended, in a word."""
    result = message.get("result", {})
    error = message.get("error") or result.get("structuredContent", result).get("error") or {}
    if "error" in message:
        return error.get("data", {}).get("code") or str(error["code"])
    return error.get("code") or ("task" if "taskId" in result else "message" if "role" in result else "done")


class Talker:
    """A client that sends anything."""

    def __init__(self, daemon, r):
        self.daemon, self.r = daemon, r
        self.connect()

    def connect(self):
        self.client = self.daemon.connect()
        self.pending, self.asked, self.opened = {}, set(), set()

    def leave(self):
        self.daemon.clients.remove(self.client)
        self.client.close()
        self.connect()

    def options(self):
        r = self.r
        options = {name: r.choice(values) for name, values in OPTIONS if r.random() < 0.2}
        if r.random() < 0.4:
            options["key"] = f"k{r.randrange(30)}"
        if r.random() < 0.8:  # as most clients combine them
            options.pop("stdin_stream" if "key" in options else "key_wait_ms", None)
            options.update(stream=True) if "stream_bytes" in options else None
        return options

    def request(self, places):
        r = self.r
        workspace = r.choice(places)
        tool, arguments = r.choice(CALLS)
        chance = r.random()
        if chance < 0.3:
            method, params = r.choice(FILE_METHODS)
            return method, {**params, "workspace": workspace}
        streams = [number for number, asked in self.pending.items() if asked[0] == "file.write" or "stdin_stream" in asked[1].get("options", {})]
        if streams and chance < 0.45:
            return "tool.input", {"id": r.choice(streams), "data": "x" * r.choice((0, 1, 100, 70000, 300000)), "eof": r.random() < 0.3}
        if chance < 0.7:
            return "tool.call", {"tool": tool, "arguments": arguments, "options": self.options(), "workspace": workspace}
        if chance < 0.9:
            params = {"name": tool, "arguments": arguments, "_meta": {
                "cloister/workspace": workspace, "cloister/options": self.options(),
                "io.modelcontextprotocol/protocolVersion": r.choice(REVISIONS),
                "io.modelcontextprotocol/clientCapabilities": r.choice(
                    ({}, {"extensions": {"io.modelcontextprotocol/tasks": {}}}))}}
            if r.random() < 0.2:
                params["task"] = {"ttl": 1000}
            if r.random() < 0.2:
                params["_meta"]["progressToken"] = "p"
            return "tools/call", params
        if chance < 0.94:
            return r.choice(METHODS), {"workspace": workspace}
        if self.pending and chance < 0.98:
            return "tool.cancel", {"id": r.choice(list(self.pending))}
        return "session.start", {"call": {"tool": tool, "arguments": arguments, "workspace": workspace}, "workspace": workspace}

    def speak(self, places):
        unasked = [place for place in places if place not in self.asked]
        usable = [place for place in places if place in self.opened]
        if unasked or not usable:
            method, params = "workspace.open", {"root": self.r.choice(unasked or places)}
            self.asked.add(params["root"])
        else:
            method, params = self.request(usable)
        self.pending[self.client.request(method, params)] = (method, params)

    def hear(self):
        """Takes all that has come, and checks it."""
        while select.select([self.client.socket], [], [], 0)[0] or b"\n" in self.client.buffer:
            message = self.client.receive()
            assert message is not None, "cloisterd closed the connection"
            if "method" in message:
                continue
            asked = self.pending.pop(message["id"], None)
            assert asked, f"an answer that nobody waits for: {message}"
            if asked[0] == "workspace.open" and "result" in message:
                self.opened.add(asked[1]["root"])
            elif asked[0] == "workspace.open":
                self.asked.discard(asked[1]["root"])  # its processes lied at once: again, later
            self.check(asked[0], asked[1], message)

    @staticmethod
    def check(method, params, message):
        OUTCOMES[outcome(message)] += 1
        assert ("result" in message) != ("error" in message), (params, message)
        if "error" in message or method not in ("tool.call", "tools/call"):
            return
        result = message["result"]
        if method == "tools/call":
            assert "content" in result or "taskId" in result, (params, message)
            return
        options = params["options"]
        if "reply" not in options:
            assert {"success", "tool", "output", "error", "usage"} <= set(result), (params, message)
        else:
            assert isinstance(result["content"], str), (params, message)
            if "encoding" in options:
                assert "success" in json.loads(result["content"]), (params, message)


class Round:
    """A daemon whose workers and files processes lie, its workspaces and its clients."""

    def __init__(self, place, daemon):
        self.place, self.daemon = place, daemon
        self.r, self.places, self.made, self.renewed = random.Random(SEED), [], 0, 0
        self.lie = pathlib.Path(__file__).with_name("random_lies.py").read_text()
        self.talkers = [Talker(daemon, self.r) for _ in range(CLIENTS)]
        self.honest = daemon.connect()
        self.honest.call("workspace.open", {"root": str(place.new_directory())})

    def renew(self):
        """Leaves the oldest workspace for a new one."""
        path = self.place.new_directory()
        lie = f"SEED = '{SEED} {self.made}'\n{self.lie}"
        for name, content in (("x", "line 1\n"), (".lie-files", lie), (".lie-worker", lie)):
            (path / name).write_text(content)
            self.place.account.own(path / name)
        self.places = self.places[-WORKSPACES + 1:] + [str(path)]
        self.made += 1
        self.renewed = time.monotonic()

    def step(self):
        if len(self.places) < WORKSPACES or time.monotonic() > self.renewed + RENEWED:
            self.renew()
        talker = self.r.choice(self.talkers)
        if self.r.random() < 0.01:
            talker.leave()
        if len(talker.pending) < PENDING:
            talker.speak(self.places)
        else:
            select.select([other.client.socket for other in self.talkers], [], [], 0.05)
        for other in self.talkers:
            other.hear()
        if self.r.random() < 0.003:
            self.others_are_served()

    def others_are_served(self):
        assert self.honest.run("echo real")["stdout"] == "real\n"


@pytest.mark.deep("slow")
def test_random_liars(account):
    print(f"CLOISTER_LIARS_SEED={SEED} CLOISTER_LIARS_SECONDS={SECONDS:g}")
    place = Area(account)
    place.take_liars()
    daemon = Daemon(place, config=CONFIG.format(uid=account.uid, path=place.path))
    began = time.monotonic()
    try:
        running = Round(place, daemon)
        while time.monotonic() < began + SECONDS:
            running.step()
        for talker in running.talkers:
            talker.leave()
        running.others_are_served()
    finally:
        print(f"{sum(OUTCOMES.values())} answers in {time.monotonic() - began:.0f} s: {dict(OUTCOMES.most_common())}")
        status = daemon.stop()  # looks for a sanitizer's report, too
        print(f"cloisterd ended with {status}")
        place.remove()
    assert status == 0


def use_until_it_ends(daemon, places, r, deadline):
    """Opens workspaces and calls tools in them until cloisterd ends or stops answering, as it may when its spawner lies."""
    client = daemon.connect()
    for number in range(10**6):
        if time.monotonic() > deadline or daemon.process.poll() is not None:
            return
        place = r.choice(places)
        client.request(*r.choice((
            ("workspace.open", {"root": place}), ("workspace.open", {"workspace": f"m{r.randrange(4)}"}),
            ("workspace.close", {"workspace": place}), ("workspace.remove", {"workspace": f"m{r.randrange(4)}"}),
            ("workspace.checkpoint", {"workspace": f"m{r.randrange(4)}"}),
            ("tool.call", {"tool": "run_command", "arguments": {"command": "true"}, "workspace": r.choice((place, "m1"))}))))
        if number % 8 == 0:
            select.select([client.socket], [], [], 0.2)
        while select.select([client.socket], [], [], 0)[0]:
            if not client.socket.recv(1 << 20):
                return


@pytest.mark.deep("slow")
def test_random_spawner(account):
    """A spawner's lie may end cloisterd, which says so and ends in order: by no signal."""
    print(f"CLOISTER_LIARS_SEED={SEED} CLOISTER_LIARS_SECONDS={SECONDS:g}")
    r, deadline, ends = random.Random(SEED), time.monotonic() + SECONDS / 2, collections.Counter()
    place = Area(account)
    place.put_in_place_of("cloister-spawner", "stand_in")
    shutil.copy(pathlib.Path(__file__).with_name("lying_spawner.py"), place.bin / "cloister-spawner.py")
    shutil.copy(pathlib.Path(__file__).parents[1] / "lib" / "wire.py", place.bin)
    places = [str(place.new_directory()) for _ in range(4)]
    while time.monotonic() < deadline:
        (place.bin / "seed").write_text(str(r.random()))
        daemon = Daemon(place, config=CONFIG.format(uid=account.uid, path=place.path))
        with contextlib.suppress(ConnectionError):
            use_until_it_ends(daemon, places, r, time.monotonic() + 3)
        ends[daemon.stop()] += 1
    print(f"cloisterd ended {sum(ends.values())} times: {dict(ends)}")
    place.remove()
    # stop() sends SIGTERM, also to one that is about to exit and catches it no more.
    assert not [status for status in ends if status < 0 and status != -signal.SIGTERM]
