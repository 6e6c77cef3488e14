# SPDX-License-Identifier: Apache-2.0
"""Processes die under load: no answer is wrong or comes from another workspace, and no process is left.

Agents of two tenants work in workspaces of the same names while workers, files processes, spawner
and cloisterd are killed and cloisterd is short of descriptors, memory and room for its audit log. CLOISTER_SOAK=full
makes it long; CLOISTER_SEED repeats a run's choices.
"""

import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import time
import traceback

import procfs
import pytest
from cloister_client import Client, RpcError
from daemon import Daemon, is_sanitized

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")

SECONDS = 180 if os.environ.get("CLOISTER_SOAK") == "full" else 15
RECOVERY = 120.0  # on a busy machine; the time that it took is printed
SPARES = 2  # spare_cells
QUEUED = 100  # how many audit lines a death of cloisterd may lose, of calls that were answered just before
# The errors that a call may get here.
EXCUSES = {"WORKER_LOST", "BUSY", "SHUTTING_DOWN", "EXECUTION_ERROR", "PROCESS_LIMIT"}
fork = multiprocessing.get_context("fork")


def content_of(token, version):
    """Each line names the workspace and the write that it is from."""
    return f"{token} {version}\n" * (1 + version * 37 % 3000)


class Agent:
    """A client with one workspace. It asks only what it knows the right answer to."""

    def __init__(self, path, account, name, token, seed):
        self.path, self.account, self.name, self.token = path, account, name, token
        self.random = random.Random(seed)
        self.client = None
        self.version = 0
        self.possible = {None}  # versions that the file may have; None is no file
        self.done, self.excused, self.slowest = 0, 0, 0.0

    def connect(self):
        self.client = Client(self.path, self.account.uid, self.account.gid)
        opened = self.client.call("workspace.open", {"workspace": self.name})
        assert opened["workspace"] == self.name

    def call(self, tool, **arguments):
        """Returns the output, or None if one of the allowed errors came."""
        options = {"line_numbers": False} if tool == "read_file" else None
        observation = self.client.observe(tool, arguments, options)
        if observation["success"]:
            self.done += 1
            return observation["output"]
        code = observation["error"]["code"]
        if code == "NOT_FOUND" and None in self.possible:
            return {"content": None}
        assert code in EXCUSES, observation
        self.excused += 1
        return None

    def saw(self, content):
        """The content must be one complete version that was written. That is the known version from now on."""
        for version in self.possible:
            if content == (None if version is None else content_of(self.token, version)):
                self.possible = {version}
                return
        raise AssertionError(f"{self.token}: not one of {self.possible}: {str(content)[:200]!r}")

    def write(self):
        self.version += 1
        before, self.possible = self.possible, self.possible | {self.version}
        output = self.call("write_file", path="data", content=content_of(self.token, self.version))
        if output is not None:
            self.possible = {self.version}
        assert before

    def read(self):
        output = self.call("read_file", path="data")
        if output is not None:
            self.saw(output["content"])

    def command(self):
        word = f"{self.token}-{self.random.randrange(10 ** 9)}"
        output = self.call("run_command", command=f"echo {word}; cat data 2>/dev/null; sleep 0.0{self.version % 9}")
        if output is not None and output["ended_by"] == "exit":
            first, rest = output["stdout"].split("\n", 1)
            assert first == word
            self.saw(rest or None)

    def search(self):
        output = self.call("search_files", pattern="[a-z]+-token-[0-9]+", path=".")
        if output is not None:
            for match in output["matches"]:
                assert match["text"].startswith(self.token), match

    def list(self):
        output = self.call("list_directory", path=".")
        if output is not None:
            assert {entry["path"] for entry in output["entries"]} <= {"data"}, output

    def step(self):
        began = time.monotonic()
        try:
            if not self.client:
                self.connect()
            self.random.choice([self.write, self.read, self.command, self.search, self.list])()
        except RpcError as error:
            assert error.name in EXCUSES, error
            self.excused += 1
            self.client.close()
            self.client = None
            time.sleep(0.02)
        except AssertionError as error:  # an answer that cloisterd's death cut off
            if "middle of a line" not in str(error):
                raise
            self.client.close()
            self.client = None
        except OSError:  # cloisterd does not listen, or it closed the connection
            if self.client:
                self.client.close()
            self.client = None
            time.sleep(0.02)
        self.slowest = max(self.slowest, time.monotonic() - began)


def work(agent, stop, results):
    """Runs in a process of its own, because credentials belong to a process."""
    try:
        while not stop.is_set():
            agent.step()
        if agent.client:
            agent.client.close()
        results.put((agent.token, None, agent.possible, agent.version, agent.done, agent.excused, agent.slowest))
    except BaseException:
        results.put((agent.token, traceback.format_exc(), None, 0, 0, 0, 0))


class Weather:
    """What happens to the daemon."""

    def __init__(self, daemon, disk, chance):
        self.daemon, self.disk, self.random = daemon, disk, chance
        self.happened = {}

    def kill_one(self, name):
        found = [pid for pid in procfs.children(self.daemon.spawner()) if procfs.name(pid) == name]
        if found:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.random.choice(found), signal.SIGKILL)

    def worker(self):
        self.kill_one("cloister-worker")

    def files(self):
        self.kill_one("cloister-files")

    def spare(self):
        self.kill_one("cloister-spare")

    def spawner(self):
        self.end(self.daemon.spawner())

    def cloisterd(self):
        self.end(self.daemon.pid)

    def end(self, pid):
        """Ends cloisterd or the spawner, with which all processes end, and starts another cloisterd."""
        processes = procfs.descendants(self.daemon.pid)
        os.kill(pid, signal.SIGKILL)
        self.daemon.process.wait(60)
        assert procfs.vanish(processes, RECOVERY), [procfs.command_line(pid) for pid in processes]
        self.daemon.check_log()
        restart(self.daemon)

    def limit(self, what, soft):
        """Sets a resource limit of the process as its user, who needs no privilege for that."""
        subprocess.run(["prlimit", "--pid", str(self.daemon.pid), f"--{what}={soft}:"], check=True,
                       **self.daemon.account.as_user())

    def squeeze(self, what, name, used, room):
        """Lowers a limit for a moment, to what is used() and some room. The process is stopped meanwhile, so that it never has
        more than its limit."""
        with open(f"/proc/{self.daemon.pid}/limits", encoding="ascii") as limits:
            before = [line[26:].split()[0] for line in limits if line.startswith(name)][0]
        os.kill(self.daemon.pid, signal.SIGSTOP)
        assert procfs.eventually(lambda: procfs.status(self.daemon.pid)["State"].startswith("T"))
        self.limit(what, used() + self.random.randrange(room))
        os.kill(self.daemon.pid, signal.SIGCONT)
        if self.random.randrange(2):
            self.kill_one("cloister-files")
        time.sleep(self.random.uniform(0.05, 0.5))
        self.limit(what, before)

    def descriptors(self):
        self.squeeze("nofile", "Max open files", lambda: 1 + max(map(int, os.listdir(f"/proc/{self.daemon.pid}/fd"))), 6)

    def memory(self):
        if not is_sanitized():
            self.squeeze("data", "Max data size",
                         lambda: int(procfs.status(self.daemon.pid)["VmData"].split()[0]) << 10, 1 << 18)

    def audit_disk(self):
        filler = self.disk / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 65536)
        time.sleep(self.random.uniform(0.05, 0.5))
        filler.unlink()

    def blow(self):
        kinds = [self.worker] * 5 + [self.files] * 5 + [self.spare] * 2 + [self.descriptors] * 3 + [self.memory] * 2 + \
            [self.audit_disk] * 2 + [self.spawner, self.cloisterd]
        kind = self.random.choice(kinds)
        kind()
        self.happened[kind.__name__] = self.happened.get(kind.__name__, 0) + 1


def restart(daemon):
    """Starts another cloisterd where one died, as a service manager does."""
    with open(daemon.log_path, "wb") as log:
        daemon.process = daemon.area.start(
            ["cloisterd", "--agent-socket", str(daemon.socket), "--state-dir", str(daemon.state),
             "--control-socket", str(daemon.control_socket), "--config", str(daemon.config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
    daemon.pid = daemon.process.pid
    assert procfs.eventually(lambda: "listening" in daemon.log() or daemon.process.poll() is not None)
    assert daemon.process.poll() is None, daemon.log()


def recover(daemon, account):
    """Returns how long it takes until a call is served, in a new workspace and in one whose processes died."""
    began = time.monotonic()
    answers = []
    while True:
        try:
            with Client(daemon.socket, account.uid, account.gid) as client:
                client.call("workspace.open", {"workspace": "w0"})
                answers.append(client.observe("list_directory", {"path": "."}))
                answers.append(client.observe("run_command", {"command": "true"}))
                if answers[-1]["success"] and answers[-2]["success"]:
                    return time.monotonic() - began
        except (OSError, RpcError) as error:
            answers.append(error)
        assert daemon.process.poll() is None, daemon.log()
        assert time.monotonic() - began < RECOVERY, answers[-3:]
        time.sleep(0.01)


def config_of(tenants, disk):
    """A configuration with two tenants. The daemon's own user observes."""
    text = f"[cloister]\nagent_socket_mode = 0666\naudit = on\naudit_file = {disk}/audit.log\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
    return text


def assert_settled(daemon):
    """No workspace is open any more, and status, metrics and processes agree."""
    def only_spares():
        processes = procfs.descendants(daemon.spawner(), without_path_resolvers=True)
        pidfds = [text for text in procfs.fds(daemon.pid).values() if text.startswith("anon_inode:[pidfd]")]
        return {procfs.name(pid) for pid in processes} <= {"cloister-spare"} and \
            len(processes) == len(pidfds) <= 2 * SPARES
    assert procfs.eventually(only_spares)


def check_files(daemon, tenants, results):
    """Each workspace has exactly the files that its agent knows."""
    for token, _, possible, _, _, _, _ in results:
        tenant, name = token.split("-token-")[0], f"w{int(token.rsplit('-', 1)[1]) % 10}"
        account = tenants["ab".index(tenant)]
        with Client(daemon.socket, account.uid, account.gid) as client:
            client.call("workspace.open", {"workspace": name})
            # The sweep removes what deaths left, beside the calls and only while the workspace is open.
            assert procfs.eventually(lambda: swept(daemon.state / "workspaces" / tenant / name))
            output = client.run("ls -A; cat data 2>/dev/null; true")["stdout"]
            if possible == {None} or not output:
                assert None in possible and output == ""
                continue
            names, content = output.split("\n", 1)
            assert names == "data"
            assert content in {content_of(token, version) for version in possible if version is not None}


def swept(directory):
    return not [name for _, _, names in os.walk(directory) for name in names if name.startswith(".cloister-")]


@pytest.fixture
def disk(area):
    with area.disk("256m") as place:
        yield place


@pytest.fixture
def started(area, tenants, disk):
    daemon = Daemon(area, config=config_of(tenants, disk))
    yield daemon
    daemon.stop()


def alive(daemon):
    return [(pid, procfs.command_line(pid)) for pid in daemon.account.processes() if procfs.is_alive(pid)]


def check_audit(daemon, disk, done, deaths):
    """The chain is valid through every death. Each answer has a line or is counted as lost."""
    said = daemon.area.run("cloisterctl", "audit", "verify", str(disk / "audit.log"))
    assert said.returncode == 0, said
    # A line that a death tore stays torn.
    lines = [json.loads(line) for line in (disk / "audit.log").read_bytes().split(b"\n")
             if line.startswith(b"{") and line.endswith(b"}")]
    ended = sum(line["event"] == "call.ended" for line in lines)
    lost = sum(line.get("lines", 0) for line in lines if line["event"] == "audit.lost")
    print(f"{ended} ends of calls in the audit log, {lost} lines lost")
    assert ended + lost >= done - QUEUED * deaths


@pytest.mark.deep("busy")
def test_chaos(started, tenants, disk):
    daemon = started
    seed = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
    print(f"CLOISTER_SEED={seed}")
    weather = Weather(daemon, disk, random.Random(seed))
    stop, queue = fork.Event(), fork.Queue()
    agents = [Agent(daemon.socket, tenants["ab".index(tenant)], f"w{i}", f"{tenant}-token-{10 + i}", f"{seed} {tenant} {i}")
              for tenant in "ab" for i in range(3)]
    processes = [fork.Process(target=work, args=(agent, stop, queue), daemon=True) for agent in agents]
    for process in processes:
        process.start()
    slowest = 0.0
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and all(process.is_alive() for process in processes):
            weather.blow()
            slowest = max(slowest, recover(daemon, tenants[weather.random.randrange(2)]))
            time.sleep(weather.random.uniform(0, 0.3))
    finally:
        stop.set()
        results = [queue.get(timeout=120) for _ in processes]
        for process in processes:
            process.join(60)
    done, excused = sum(result[4] for result in results), sum(result[5] for result in results)
    print(f"{weather.happened}; {done} answers, {excused} excuses; recovered in {slowest:.2f} s at most")
    assert not [result[1] for result in results if result[1]], "\n".join(r[1] for r in results if r[1])
    assert done > 50
    assert_settled(daemon)
    check_files(daemon, tenants, results)
    assert swept(daemon.state)
    assert_settled(daemon)
    assert daemon.process.poll() is None
    assert daemon.stop() == 0
    check_audit(daemon, disk, done, weather.happened.get("cloisterd", 0) + weather.happened.get("spawner", 0))
    procfs.eventually(lambda: not alive(daemon))
    assert not alive(daemon)
