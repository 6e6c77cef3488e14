# SPDX-License-Identifier: Apache-2.0
"""Clients of two tenants use cloister-gate while it, cloisterd and the workspaces' processes are killed at random: an answer
is always its request's and its tenant's, and nothing is left. tests/chaos/run has the long form; CLOISTER_SEED repeats a
run's choices."""

import collections
import contextlib
import json
import os
import random
import re
import signal
import threading
import time

import pytest

import procfs
from cloister_client import acting_as
from e2b_client import ask
from http_gate import HttpGate, config, daemon_behind
from http_mcp import HttpMcp, message, run
from test_chaos import restart

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users"), pytest.mark.deep("slow")]
SECONDS = float(os.environ.get("CLOISTER_DOOR_SECONDS", "20"))
CLIENTS = int(os.environ.get("CLOISTER_DOOR_CLIENTS", "20"))
WORKSPACES = 6  # of a tenant, for all its clients
NONCE = re.compile(r"nonce-(\w+)-(\d+)-(\d+)-")

# A connection that breaks off, at any place, and an answer that is cut.
LOST = (OSError, EOFError, ValueError, AssertionError, AttributeError, KeyError, TypeError, StopIteration)


class Wrong(Exception):
    """An answer that is not the request's."""


class Caller(threading.Thread):
    """A client, which makes requests one after the other and believes no answer."""

    def __init__(self, gate, tenant, key, number, seed, until):
        super().__init__(daemon=True)
        self.gate, self.tenant, self.key, self.number, self.until = gate, tenant, key, number, until
        self.random = random.Random(seed)
        self.asked = 0
        self.seen = collections.Counter()
        self.fault = None
        self.mcp = None

    def run(self):
        while time.monotonic() < self.until and not self.fault:
            try:
                self.random.choices([self.call, self.stream, self.stateless, self.sandbox], [6, 4, 3, 1])[0]()
            except Wrong as fault:
                self.fault = fault
            except LOST:
                self.seen["lost"] += 1
                self.mcp = None
                time.sleep(self.random.uniform(0.05, 0.3))

    def nonce(self):
        """What the answer must have. The ids of requests are few, so that those of several sessions are the same."""
        self.asked += 1
        return f"nonce-{self.tenant}-{self.number}-{self.asked}-"

    def client(self):
        return HttpMcp(self.gate, self.key, f"?workspace=w{self.number % WORKSPACES}")

    def session(self):
        if not self.mcp:
            self.mcp = self.client()
            self.mcp.initialize()
        return self.mcp

    def judge(self, answer, text, number, how):
        """@text is all that came as an answer to the request @number, and has the only nonce that it may have."""
        mine = (self.tenant, str(self.number), str(self.asked))
        others = set(NONCE.findall(text)) - {mine}
        if others or answer.get("id") not in (number, None):
            raise Wrong(f"{how}: asked {mine} as {number}, got {others} in {text[:500]}")
        if "result" in answer and not answer["result"].get("isError"):
            if mine not in NONCE.findall(text):
                raise Wrong(f"{how}: the answer to {mine} is without it: {text[:500]}")
            self.seen[how] += 1
        else:
            self.seen[how + " refused"] += 1

    def call(self):
        said = run(self.random.randrange(3), f"echo {self.nonce()}")
        answer = self.session().ask(said)
        if answer.status == 404:
            self.mcp = None
        self.judge(json.loads(answer.body), answer.body.decode(), said["id"], "call")

    def stateless(self):
        said = run(self.random.randrange(3), f"echo {self.nonce()}")
        answer = self.client().ask_modern(said)
        self.judge(json.loads(answer.body), answer.body.decode(), said["id"], "stateless")

    def stream(self):
        """Leaves in the midst, and comes again."""
        said = run(self.random.randrange(3), f"echo {self.nonce()}; sleep 0.2; echo end", token=self.asked)
        client = self.session()
        stream = client.open(said).begin()
        with contextlib.closing(stream.connection):
            events = stream.events()
            heard = [next(events)]
            if self.random.random() < 0.5 and "method" in heard[0]:
                stream.connection.close()
                again = client.resume(stream.last)
                with contextlib.closing(again.connection):
                    heard += again.events()
            else:
                heard += events
        self.judge(heard[-1], json.dumps(heard), said["id"], "stream")

    def sandbox(self):
        """Another client of the tenant may see it, and none of the other tenant."""
        made = ask(self.gate, self.key, "POST", "/sandboxes", {"templateID": "base", "timeout": 60, "metadata": {"of": self.nonce()}})
        if made.status != 201:
            self.seen["sandbox refused"] += 1
            return
        identity = json.loads(made.body)["sandboxID"]
        for method, path in (("GET", f"/sandboxes/{identity}"), ("GET", "/sandboxes")):
            answer = ask(self.gate, self.key, method, path)
            if any(tenant != self.tenant for tenant, _, _ in NONCE.findall(answer.body.decode())):
                raise Wrong(f"sandboxes of another tenant: {answer.body[:500]}")
        ask(self.gate, self.key, "DELETE", f"/sandboxes/{identity}")
        self.seen["sandbox"] += 1


def kill_something(gate, daemon, choose, deaths):
    what = choose.choices(["gate", "cloisterd", "processes"], [3, 2, 4])[0]
    if what == "gate":
        with acting_as(0):
            gate.process.kill()
        gate.process.wait()
        gate.start()
    elif what == "cloisterd":
        daemon.kill(daemon.pid)
        daemon.process.wait()
        restart(daemon)
    else:
        for pid in procfs.children(daemon.spawner()):
            if choose.random() < 0.3:
                with contextlib.suppress(ProcessLookupError, PermissionError), acting_as(0):
                    os.kill(pid, signal.SIGKILL)
    deaths[what] += 1


def test_no_answer_goes_astray(area, tenants):
    seed = os.environ.get("CLOISTER_SEED", str(random.randrange(1 << 32)))
    choose, deaths, seen = random.Random(seed), collections.Counter(), collections.Counter()
    print(f"CLOISTER_SEED={seed}")
    text = config(tenants[1], tenants[0]).replace("connections = 2", "connections = 256").replace("audit = on\n", "")
    with daemon_behind(area, text) as daemon:
        gate = HttpGate(area, daemon, tenants[1])
        keys = {tenant: gate.key(tenant)["key"] for tenant in ("blue", "green")}
        until = time.monotonic() + SECONDS
        callers = [Caller(gate, tenant, keys[tenant], number, f"{seed}/{number}", until)
                   for number, tenant in zip(range(CLIENTS), ["blue", "green"] * CLIENTS)]
        for caller in callers:
            caller.start()
        while time.monotonic() < until and not any(caller.fault for caller in callers):
            time.sleep(choose.uniform(0.5, 3))
            kill_something(gate, daemon, choose, deaths)
        for caller in callers:
            caller.join(120)
            seen.update(caller.seen)
        print(f"{dict(deaths)}, {dict(seen)}")
        assert not any(caller.is_alive() for caller in callers)
        assert not [caller.fault for caller in callers if caller.fault]
        assert deaths["gate"] and all(seen[what] for what in ("call", "stream", "stateless"))
        # Sessions end with the gate; nothing of a client's is left behind it.
        assert gate.stop() == 0
        gate.start()
        assert HttpMcp(gate, keys["blue"], session="0" * 32).ask(message("ping", 1)).status == 404
        assert procfs.eventually(lambda: re.search(r"^cloister_gate_links_open 0$", gate.request("GET", "/metrics").body.decode(), re.M))
        assert gate.stop() == 0
