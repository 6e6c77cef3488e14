# SPDX-License-Identifier: Apache-2.0
"""Sessions are started, read, written and ended while their clients, the workers, the files processes and cloisterd are
killed at random moments: a start with a key happens once, each byte of output is the session's own or is counted as lost,
input arrives once, and no process is left when the end is told. tests/chaos/run has the long form; CLOISTER_SEED repeats
a run's choices."""

import base64
import collections
import contextlib
import multiprocessing
import os
import random
import signal
import time
import traceback

import pytest

import procfs
from cloister_client import Client, RpcError
from daemon import Daemon
from test_chaos import EXCUSES, RECOVERY, assert_settled, restart

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")
DEATHS = int(os.environ.get("CLOISTER_SESSION_DEATHS", "60"))
AGENTS = 2  # of each of the two tenants
KEPT = 4096  # output_bytes, less than most sessions write
WAIT = 60000  # ms for a condition that is expected to be met
fork = multiprocessing.get_context("fork")


class CloisterdDied(Exception):
    """What was known to the service is gone with it."""


class Work:
    """A session whose output is known from what it is and from what it is given."""

    def __init__(self, kind, key, chance):
        self.kind, self.key = kind, key
        self.pty = {"rows": 24, "cols": 80} if kind == "terminal" else None
        self.given = b""  # its whole input
        lines = chance.choice([3, 300, 3000])
        begin = f"echo {key} >>runs.{key}; "
        # Deaf, stopped, and gone from their parents: only the end of the pid namespace is theirs.
        leave = (f"trap '' TERM HUP; (setsid sh -c 'while :; do sleep 0.2; done; : {key}' &) ; "
                 f"sh -c 'kill -STOP $$; : {key}' & ") if chance.randrange(3) == 0 else ""
        self.output = b"".join(b"%s %d\n" % (key.encode(), n) for n in range(1, lines + 1))
        if kind == "printer":
            self.command = begin + leave + f"seq -f '{key} %.0f' 1 {lines}; exec true"
        elif kind == "stayer":
            self.command = begin + leave + f"seq -f '{key} %.0f' 1 {lines}; while :; do sleep 1; done; : {key}"
        else:
            self.given = self.output
            if self.pty:  # nothing may be typed before the terminal is raw
                begin += "stty raw -echo; echo ready; "
                self.output = b"ready\n" + self.output
            self.command = begin + leave + f"head -c {len(self.given)}; while :; do sleep 1; done; : {key}"

    def params(self):
        source = {"pty": self.pty} if self.pty else {"stdin": bool(self.given)}
        return {"command": self.command, "key": self.key, "output_bytes": KEPT, **source}


class Agent:
    """Makes sessions by clients that are killed, and then by one that lives on and knows what must have come of them."""

    def __init__(self, daemon, account, name, token, seed):
        self.path, self.account, self.name, self.token = daemon.socket, account, name, token
        self.random = random.Random(seed)
        self.counts = collections.Counter()
        self.number = 0

    def connect(self):
        client = Client(self.path, self.account.uid, self.account.gid)
        client.call("workspace.open", {"workspace": self.name})
        return client

    # The client that is killed, in a process of its own.

    def play(self, work, chance):
        """Begins the session, reads and writes and ends it as often as it can."""
        client = self.connect()
        session = client.call("session.start", work.params())["session"]
        after = at = 0
        for _ in range(20):
            if at < len(work.given) and (after > 0 or not work.pty):
                piece = work.given[at:at + chance.randrange(1, 5000)]
                with contextlib.suppress(RpcError):  # BUSY: the command does not read so fast
                    at = client.call("session.write", {"session": session, "at": at, "data": piece.decode()})["next"]
            answer = client.call("session.read", {"session": session, "after": after, "wait_ms": chance.randrange(50)})
            after = answer["next"]
        client.call("session.end", {"session": session, "grace_ms": chance.choice([0, 300])})

    def be_killed(self, work):
        chance = random.Random(self.random.random())
        pid = os.fork()
        if pid == 0:
            try:
                self.play(work, chance)
            except BaseException:  # it does not matter why: it was to be killed
                pass
            finally:
                os._exit(0)
        time.sleep(self.random.choice([0.01, 0.05, 0.3]) * self.random.random())
        os.kill(pid, signal.SIGKILL)
        self.counts["clients killed"] += not os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    # The one that lives on.

    def feed(self, client, session, work):
        """Gives all of the input from its beginning. What had been taken is not taken again."""
        at = 0
        if work.pty:
            client.call("session.read", {"session": session, "wait_ms": WAIT, "max_bytes": 10})
        while at < len(work.given):
            try:
                answer = client.call("session.write", {"session": session, "at": at, "data": work.given[at:at + 7000].decode()})
            except RpcError as error:
                assert error.name == "BUSY", error
                time.sleep(0.01)
                continue
            if answer["closed"]:
                return
            assert answer["taken"] > 0, answer
            at += answer["taken"]

    def read_all(self, client, session, work, over):
        """Reads from the beginning until there is no more: each byte is right or counted. Returns the last answer."""
        after = got = lost = 0
        while True:
            answer = client.call("session.read", {"session": session, "after": after, "encoding": "base64",
                                                  "max_bytes": self.random.choice([100, 5000, 1 << 20]),
                                                  "wait_ms": 0 if over(after) else WAIT})
            at = after + answer["lost_bytes"]
            for chunk in answer["chunks"]:
                data = base64.b64decode(chunk["data"])
                assert chunk["at"] == at and chunk["stream"] == "stdout", (chunk, at)
                assert data == work.output[at:at + len(data)], (work.key, at, data[:100])
                at += len(data)
                got += len(data)
            lost += answer["lost_bytes"]
            assert answer["next"] == at and got + lost == at
            if at == after and (answer["state"] == "ended" or over(at)):
                self.counts["bytes read"] += got
                self.counts["bytes lost and counted"] += lost
                return answer
            after = at

    def check(self, client, work):
        """The session goes on as if nobody had been killed, or ended with its worker."""
        session = client.call("session.start", work.params())["session"]
        self.feed(client, session, work)
        # One that stays has written all at some time; its end is this client's.
        answer = self.read_all(client, session, work,
                               lambda at: work.kind != "printer" and at == len(work.output))
        ended = client.call("session.end", {"session": session, "grace_ms": self.random.choice([0, 200])})
        left = procfs.having(work.key)
        assert not left, (work.key, ended, [procfs.command_line(pid) for pid in left])
        last = self.read_all(client, session, work, lambda at: False)
        assert last["state"] == "ended" and last["end"] == ended, (last, ended)
        if ended["error"] and ended["error"]["code"] == "WORKER_LOST":
            self.counts["ended with the worker"] += 1
        elif ended["error"] and ended["error"]["code"] != "CANCELLED":
            assert ended["error"]["code"] in ("BUSY", "EXECUTION_ERROR", "PROCESS_LIMIT"), ended
            self.counts[ended["error"]["code"]] += 1
        else:
            assert ended["output"]["stdout_bytes"] == last["next"], (ended, last)
            # The client that was killed may have ended it before it had written all.
            if ended["success"] or answer["state"] != "ended":
                assert last["next"] == len(work.output), (work.key, ended, last["next"])
            self.counts[ended["output"]["ended_by"]] += 1
        runs = client.observe("run_command", {"command": f"cat runs.{work.key} 2>/dev/null; rm -f runs.{work.key}"})
        if runs["success"]:
            assert runs["output"]["stdout"] in ("", f"{work.key}\n"), ("it began twice", work.key, runs)

    def settle(self, work, epoch, began):
        """Checks one session. A service that died in between has forgotten it."""
        deadline = time.monotonic() + 2 * RECOVERY
        while True:
            assert time.monotonic() < deadline
            if epoch.value != began:
                raise CloisterdDied
            try:
                with self.connect() as client:
                    if epoch.value == began:  # otherwise this may be the next one
                        self.check(client, work)
                    else:
                        raise CloisterdDied
                return
            except (OSError, RpcError) as error:
                if isinstance(error, RpcError):
                    assert error.name in EXCUSES or epoch.value != began, error
                time.sleep(0.02)
            except AssertionError as error:  # an answer that cloisterd's death cut off
                if "middle of a line" not in str(error):
                    raise

    def step(self, epoch):
        began = epoch.value
        if began % 2:  # cloisterd is being killed
            time.sleep(0.02)
            return
        self.number += 1
        kind = self.random.choice(["printer", "stayer", "echo", "terminal"])
        work = Work(kind, f"{self.token}.{self.number}", self.random)
        if self.random.randrange(4):
            self.be_killed(work)
        try:
            self.settle(work, epoch, began)
            self.counts["sessions"] += 1
            self.counts[kind] += 1
        except CloisterdDied:
            self.counts["forgotten with cloisterd"] += 1


def work(agent, stop, epoch, killed, results):
    """Runs in a process of its own, because credentials belong to a process."""
    try:
        while not stop.is_set():
            before = agent.counts["clients killed"]
            agent.step(epoch)
            with killed.get_lock():
                killed.value += agent.counts["clients killed"] - before
        results.put((agent.token, None, agent.counts))
    except BaseException:
        results.put((agent.token, traceback.format_exc(), agent.counts))


class Weather:
    def __init__(self, daemon, epoch, chance):
        self.daemon, self.epoch, self.random = daemon, epoch, chance
        self.happened = collections.Counter()

    def kill_of_cell(self, name):
        found = [pid for pid in procfs.children(self.daemon.spawner()) if procfs.name(pid) == name]
        if found:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.random.choice(found), signal.SIGKILL)
                self.happened[name] += 1

    def kill_cloisterd(self):
        """All that it ran is gone with it, which is looked at while nothing new is begun."""
        processes = procfs.descendants(self.daemon.pid)
        with self.epoch.get_lock():
            self.epoch.value += 1
        self.daemon.process.kill()
        self.daemon.process.wait(60)
        assert procfs.vanish(processes, RECOVERY), [procfs.command_line(pid) for pid in processes]
        restart(self.daemon)
        with self.epoch.get_lock():
            self.epoch.value += 1
        self.happened["cloisterd"] += 1

    def blow(self, late):
        """@late: cloisterd lives on, so that its counters at the end have seen deaths."""
        kind = self.random.randrange(8)
        if kind == 0 and not late:
            self.kill_cloisterd()
        elif kind < 5:
            self.kill_of_cell("cloister-worker")
        else:
            self.kill_of_cell("cloister-files")


def metrics_of(daemon):
    with daemon.control() as control:
        text = control.call("metrics")["text"]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[:1] not in "#"}


@pytest.fixture
def started(area, tenants):
    text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {area.account.gid}\nspare_cells = 2\n" + "".join(
        f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nsession_detached = 10min\nsession_retention = 1min\n"
        for name, user in zip("ab", tenants))
    daemon = Daemon(area, config=text)
    yield daemon
    daemon.stop()


@pytest.mark.deep("busy")
def test_sessions_through_deaths(started, tenants):
    daemon = started
    seed = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
    chance, began = random.Random(seed), time.monotonic()
    stop, results, epoch, killed = fork.Event(), fork.Queue(), fork.Value("q", 0), fork.Value("q", 0)
    agents = [Agent(daemon, tenants["ab".index(tenant)], f"w{i}", f"{tenant}{i}-{seed}", f"{seed} {tenant} {i}")
              for tenant in "ab" for i in range(AGENTS)]
    processes = [fork.Process(target=work, args=(agent, stop, epoch, killed, results), daemon=True) for agent in agents]
    weather = Weather(daemon, epoch, chance)
    for process in processes:
        process.start()
    try:
        while sum(weather.happened.values()) + killed.value < DEATHS and all(process.is_alive() for process in processes):
            # Half of all are those of clients.
            if sum(weather.happened.values()) <= killed.value:
                weather.blow(late=sum(weather.happened.values()) + killed.value > DEATHS * 3 // 4)
            assert daemon.process.poll() is None, daemon.log()
            time.sleep(chance.uniform(0, 0.1))
    finally:
        stop.set()
        told = [results.get(timeout=4 * RECOVERY) for _ in processes]
        for process in processes:
            process.join(60)
    counts = sum((result[2] for result in told), collections.Counter())
    print(f"\nseed {seed}: {sum(weather.happened.values()) + killed.value} deaths in {time.monotonic() - began:.0f} s: "
          f"{dict(weather.happened)}, {dict(counts)}")
    for token, failure, _ in told:
        assert not failure, f"{token}, seed {seed}: {failure}"
    assert counts["sessions"] > 0 and counts["clients killed"] > 0 and weather.happened["cloister-worker"] > 0, counts
    assert_settled(daemon)
    assert not procfs.having(f"-{seed}.")
    counted = metrics_of(daemon)
    assert {counted[f'cloister_tenant_sessions{{tenant="{name}"}}'] for name in "ab"} == {0}
