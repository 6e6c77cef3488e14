# SPDX-License-Identifier: Apache-2.0
"""Many commands whose deadlines, cancels and clients' departures come at random moments.

CLOISTER_SOAK=full or short sets how many, CLOISTER_SEED repeats a run's choices.
"""

import os
import random
import threading
import time

import procfs
import pytest
from cells import Cell, with_variable
from cloister_client import check_observation
from daemon import AM_ROOT, is_sanitized

SANITIZED = is_sanitized()
SOAK = os.environ.get("CLOISTER_SOAK", "")
INITS_AHEAD = 0 if SANITIZED else 2  # common/limits.h; sanitized workers make none
CALLS = 5000 if SOAK == "full" else 600 if SANITIZED or SOAK == "short" else 1500
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
CONNECTIONS = 8
IN_FLIGHT = 5  # for each connection
DEAF_CALLS = 4  # each takes the whole grace period
GRACE_US = 4980000  # LIMIT_TERM_GRACE_MS, measured by the loop's coarse clock
MIB_IN_KIB = 1024

ENDED_BY = {"TIMEOUT": "timeout", "CANCELLED": "cancel", "OUTPUT_LIMIT": "output_limit"}


class Kind:
    """A command, how it ends by itself, and what it has written then."""

    def __init__(self, weight, command, stdout="", code=0, signal=None, endless=False, stdin=None):
        self.weight, self.command, self.stdout = weight, command, stdout
        self.code, self.signal, self.endless, self.stdin = code, signal, endless, stdin


# Each call replaces TOKEN by another word.
FLOOD = Kind(8, "yes TOKEN", endless=True)
KINDS = [
    Kind(25, "true"),
    Kind(25, "echo TOKEN; echo TOKEN >&2", "TOKEN\n"),
    Kind(12, "echo TOKEN; sleep 0.05; echo TOKEN", "TOKEN\nTOKEN\n"),
    Kind(15, "echo TOKEN; sleep 600; : TOKEN", "TOKEN\n", endless=True),
    FLOOD,
    Kind(8, "(setsid sh -c 'sleep 600; : TOKEN' &) ; echo TOKEN", "TOKEN\n"),
    Kind(8, "sleep 600 & (trap '' TERM; sleep 600; : TOKEN) & echo TOKEN; exit 3", "TOKEN\n", code=3),
    Kind(4, "sleep 600 & kill -STOP 0", endless=True),
    Kind(6, "echo TOKEN; kill -SEGV $$", "TOKEN\n", code=None, signal="SIGSEGV"),
    Kind(8, "cat", "TOKEN", stdin="TOKEN"),
    Kind(3, "trap 'echo TOKEN; exit 0' TERM; while :; do sleep 0.01; done", endless=True),
]
DEAF = Kind(0, "trap '' TERM; while :; do sleep 0.1; done; : TOKEN", endless=True)


class Call:
    def __init__(self, kind, token, timeout_ms):
        self.kind, self.token, self.timeout_ms = kind, token, timeout_ms
        self.sent = time.monotonic()
        self.cancelled = False

    def judge(self, observation):
        """Checks the answer against the command, its deadline and whether it was cancelled."""
        check_observation(observation, "run_command")
        output, error, wall = observation["output"], observation["error"], observation["usage"]["wall_us"]
        assert wall <= (time.monotonic() - self.sent) * 1e6 + 1000
        if output:
            self.judge_output(output, observation["success"])
        if observation["success"]:
            assert not self.kind.endless, "it cannot have ended by itself"
            assert output["ended_by"] == ("signal" if self.kind.signal else "exit")
            assert (output["exit_code"], output["signal"]) == (self.kind.code, self.kind.signal)
            return
        assert error["code"] in ENDED_BY, "no such end was to be expected"
        if error["code"] == "CANCELLED":
            assert self.cancelled, "nobody cancelled it"
        elif error["code"] == "TIMEOUT":
            assert self.timeout_ms, "it had no deadline"
            assert wall >= self.timeout_ms * 1000, "its deadline had not come"
        else:
            assert output["stdout_bytes"] > 64 << 20
        if output:
            assert output["ended_by"] == ENDED_BY[error["code"]]
            assert output["signal"] != "SIGKILL" or wall >= GRACE_US, "it was killed within its grace"

    def judge_output(self, output, whole):
        expected = self.kind.stdout.replace("TOKEN", self.token)
        assert output["timed_out"] is (output["ended_by"] == "timeout")
        assert output["stdout_bytes"] >= len(output["stdout"]) or output["truncated"]
        if whole:
            assert output["stdout"] == expected
        elif not self.kind.endless:
            assert expected.startswith(output["stdout"])
        for word in output["stdout"].split():
            assert self.token.startswith(word) or self.token.endswith(word) or output["truncated"]


class Racer(threading.Thread):
    """One connection after another, each with several calls in flight."""

    connecting = threading.Lock()  # which changes the ids of the whole process

    def __init__(self, daemon, roots, calls, number, mark, deaf):
        super().__init__()
        self.daemon_under_test, self.roots, self.left, self.number = daemon, roots, calls, number
        self.random = random.Random(SEED * 100 + number)
        self.mark, self.deaf = mark, deaf
        self.client, self.calls, self.cancels = None, {}, {}
        self.made = 0
        self.ends = {}
        self.failure = None

    def run(self):
        try:
            self.connect()
            while self.left > 0:
                self.step()
            while self.calls or self.cancels:
                self.receive(60)
            # A second answer would come before this one.
            assert self.client.call("tools.list") and not self.client.answers
            self.client.close()
        except BaseException as error:  # set by the main thread
            self.failure = error

    def connect(self):
        with self.connecting:
            self.client = self.daemon_under_test.connect()
        root = self.random.choice(self.roots)
        self.client.call("workspace.open", {"root": str(root)})
        # Some deadlines and cancels come while the workspace is still being opened, some later.
        self.calls, self.cancels = {}, {}

    def step(self):
        choice = self.random.random()
        if choice < 0.01:
            self.leave()
            self.connect()
        elif choice < 0.12 and self.calls:
            self.cancel()
        elif choice < 0.6 and len(self.calls) < IN_FLIGHT:
            self.begin()
        else:
            self.receive(self.random.uniform(0, 0.02))

    def begin(self):
        kind = self.random.choices(KINDS, [kind.weight for kind in KINDS])[0]
        timeout = self.random.randint(1, 50) if kind.endless or self.random.random() < 0.5 else None
        if kind.endless and kind is not FLOOD and self.random.random() < 0.2:
            timeout = 2000
        if self.deaf and self.random.random() < 0.05:
            self.deaf -= 1
            kind, timeout = DEAF, self.random.randint(100, 300)  # it hears at first
        token = f"{self.mark}-{self.number}-{self.made}"
        options = {"stdin": token} if kind.stdin else {}
        if timeout:
            options["timeout_ms"] = timeout
        options["stream"] = self.random.random() < 0.1
        call = Call(kind, token, timeout)
        number = self.client.begin(
            "run_command", {"command": kind.command.replace("TOKEN", token)}, options)
        self.calls[number] = call
        self.made += 1
        self.left -= 1

    def cancel(self):
        number = self.random.choice(list(self.calls))
        self.calls[number].cancelled = True
        if self.random.random() < 0.3:
            self.client.notify("tool.cancel", {"id": number})
        else:
            self.cancels[self.client.request("tool.cancel", {"id": number})] = number

    def receive(self, seconds):
        try:
            message = self.client.receive(max(0.001, seconds))
        except TimeoutError:
            assert seconds < 60, f"never answered: {[c.kind.command for c in self.calls.values()]}"
            return
        assert message is not None, "cloisterd closed the connection"
        if "method" in message:
            return
        assert "result" in message, message
        if message["id"] in self.cancels:
            number = self.cancels.pop(message["id"])
            assert message["result"]["cancelled"] or number not in self.calls
            return
        assert message["id"] in self.calls, f"answered twice or never asked: {message}"
        call = self.calls.pop(message["id"])
        try:
            call.judge(message["result"])
        except AssertionError as error:
            raise AssertionError(f"{call.kind.command!r} with timeout_ms {call.timeout_ms}, cancelled: "
                                 f"{call.cancelled}: {error}: "
                                 f"{str(message)[:200]} … {str(message)[-500:]}") from error
        end = (message["result"]["error"] or {"code": "-"})["code"]
        self.ends[end] = self.ends.get(end, 0) + 1

    def leave(self):
        """Closes the connection: silently, or in the middle of an answer or of a request."""
        self.ends["left"] = self.ends.get("left", 0) + len(self.calls)
        if self.random.random() < 0.3:
            self.client.send_raw(b'{"jsonrpc":"2.0","id":77,"method":"tool.c')
        elif self.random.random() < 0.3:
            self.client.begin("run_command", {"command": f"sleep 600; : {self.mark}"})
        self.client.close()


def race(daemon, roots, calls, mark, deaf=0):
    racers = [Racer(daemon, roots, calls // CONNECTIONS, i, mark, deaf * (i + 1) // CONNECTIONS -
                    deaf * i // CONNECTIONS) for i in range(CONNECTIONS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(600)
        assert not racer.is_alive()
    for racer in racers:
        if racer.failure:
            raise racer.failure
    ends = {}
    for racer in racers:
        for end, count in racer.ends.items():
            ends[end] = ends.get(end, 0) + count
    return ends


@pytest.fixture
def cells(own_daemon):
    """Workspaces that stay open, and one directory that is opened and closed."""
    return [Cell(own_daemon) for _ in range(3)]


def settle(daemon, cells):
    """Waits until cloisterd has forgotten the closed connections and their commands have ended."""
    assert procfs.eventually(lambda: len(daemon.cells()) == len(cells), 60)
    for cell in cells:
        # Longer than the grace period.
        assert procfs.eventually(lambda: not cell.command_processes(), 60), "a command is left"
    for cell in cells:
        assert cell.client.run("echo well")["stdout"] == "well\n"
        assert not cell.command_processes()


def wake(cells):
    """Waits until every cell has waiting inits. These end after ten seconds without a call, which may pass on a busy machine
    before the last cell has its inits: then all cells get a call again."""
    def inits_wait():
        for cell in cells:
            assert cell.client.run("true")["exit_code"] == 0
        return procfs.eventually(
            lambda: all(len(procfs.children(cell.worker)) == INITS_AHEAD for cell in cells), 5)
    assert procfs.eventually(inits_wait, 120)


def settled_holdings(daemon, cells):
    """Returns the holdings when they do not change any more."""
    seen = [None]

    def same():
        before, seen[0] = seen[0], holdings(daemon, cells)
        return before == seen[0]
    assert procfs.eventually(same, interval=0.5)
    return seen[0]


def holdings(daemon, cells):
    """Descriptors and processes, which must be the same afterwards."""
    wake(cells)
    processes = [daemon.pid, daemon.spawner()] + [pid for cell in cells for pid in (cell.worker, cell.files)]
    return {
        "processes": [(pid, len(procfs.children(pid))) for pid in processes],
        "mounts": procfs.mounts_below(daemon.area.path),
        "mounts of cells": [procfs.mounts(cell.worker) for cell in cells] if AM_ROOT else None,
        # Without descriptor numbers: cloisterd frees reserved descriptors and takes others.
        # The spawner keeps one idle path resolver or two, each with a socket.
        "fds": [len(procfs.fds(pid)) - len(procfs.resolvers(pid)) for pid in processes[:2]] if AM_ROOT else None,
        "fds of cells": [sorted(procfs.fds(pid).values()) for pid in processes[2:]] if AM_ROOT else None,
        "files": [sorted(os.listdir(cell.path)) for cell in cells],
    }


def rss(daemon, cells):
    return [procfs.rss_kib(pid) for pid in [daemon.pid, daemon.spawner()] + [cell.worker for cell in cells]]


@pytest.mark.deep("slow")
def test_races(own_daemon, cells):
    print(f"CLOISTER_SEED={SEED}")
    mark = f"race-{os.getpid()}-{SEED}"
    roots = [cell.path for cell in cells] + [own_daemon.area.new_directory()]
    race(own_daemon, roots, CALLS // 4, mark)
    settle(own_daemon, cells)
    before, memory = settled_holdings(own_daemon, cells), rss(own_daemon, cells)

    ends = race(own_daemon, roots, CALLS, mark, DEAF_CALLS)
    print(ends)
    settle(own_daemon, cells)
    assert not with_variable(mark)
    assert procfs.eventually(lambda: holdings(own_daemon, cells) == before), [
        (what, before[what], now) for what, now in holdings(own_daemon, cells).items() if now != before[what]] + [
            sorted(procfs.fds(own_daemon.spawner()).values())]
    grown = [now - then for now, then in zip(rss(own_daemon, cells), memory)]
    print(f"grown by KiB: {grown}")
    assert grown[0] < 16 * MIB_IN_KIB, grown
    # Sanitized workers keep what they freed: they are started without the options against that.
    assert SANITIZED or max(grown[1:]) < 2 * MIB_IN_KIB, grown
    # Every way to end occurred.
    assert min(ends[end] for end in ("-", "TIMEOUT", "CANCELLED", "left")) > CALLS / 100, ends
    for cell in cells:
        cell.client.use("write_file", path="file", content="x")
        assert cell.client.run("cat file")["stdout"] == "x"
