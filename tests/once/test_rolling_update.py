# SPDX-License-Identifier: Apache-2.0
"""packaging/fleets/kubernetes/statefulset.yaml under a rolling update, as far as that can be run without Kubernetes:
tests/lib/stateful_set.py, which says what of the manifest it does not honour. Agents reach the pods as the manifest means
it, by ssh to the pod that has a name at the moment, and are the client for Python with nothing but what doc/clients.md and
doc/fleets.md tell them: to wait for a host that is away, and to place new work on another one."""

import copy
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

import procfs
from daemon import ROOT
from npm import unavailable
from pod import reason_against
from stateful_set import StatefulSet

sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))

import cloister  # noqa: E402  (it is only now on the path)

MANIFEST = ROOT / "packaging" / "fleets" / "kubernetes" / "statefulset.yaml"
pytestmark = [pytest.mark.skipif(reason_against() is not None, reason=str(reason_against())), pytest.mark.deep("slow")]
ROLLOUTS, AGENTS, PATIENCE = 200, 6, 120
TENANT = "blue"
ADMIN = ["cloisterctl", "--socket", "/run/cloister/control.sock"]


class Tunnel:
    """An agents' host's ssh to one pod, by its name: started again whenever it has ended."""

    def __init__(self, place, pods, ordinal):
        self.path, self.pods, self.ordinal = place / f"{ordinal}.sock", pods, ordinal
        self.place, self.stopped, self.process = place, threading.Event(), None
        self.thread = threading.Thread(target=self.keep)
        self.thread.start()

    def keep(self):
        while not self.stopped.is_set():
            # The headless service's record for the name.
            pod = self.pods.pods.get(self.ordinal)
            if pod and pod.pause and not pod.pause.ended():
                self.connect(pod.pause.pid())
            self.stopped.wait(0.2)

    def connect(self, pid):
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/proc/{pid}/ns/net", "ssh", "-F", "none", "-i", self.place / "key", "-p", "2222", "-N",
                 "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.place}/known",
                 "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes",
                 "-L", f"{self.path}:/run/cloister/agent.sock", f"{TENANT}@127.0.0.1"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.process.wait()

    def stop(self):
        self.stopped.set()
        while self.thread.is_alive():
            if self.process and self.process.poll() is None:
                self.process.terminate()
            self.thread.join(0.1)


def insist(act):
    """Repeats what was refused, and therefore has not begun, until the host is back."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except (cloister.ShuttingDown, cloister.Busy) as refused:
            if time.monotonic() > until:
                raise
            time.sleep((refused.retry_after_ms or 200) / 1000)


class Agents:
    """Several agents, each with one rollout after the other: three calls in a workspace of its own on the host that place()
    says. @done has the host and the answers of each rollout that came to its end, @failed what went wrong."""

    def __init__(self, pods, tunnels):
        self.pods, self.tunnels = pods, tunnels
        self.numbers, self.done, self.failed = itertools.count(), {}, {}
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=self.work) for _ in range(AGENTS)]
        for thread in self.threads:
            thread.start()

    def client(self, host):
        return cloister.Client(str(self.tunnels[int(host.rpartition("-")[2])].path), reconnect=PATIENCE)

    def work(self):
        while not (self.enough.is_set() and len(self.done) >= ROLLOUTS) and not self.failed:
            number = next(self.numbers)
            try:
                self.done[number] = self.rollout(f"rollout-{number}", number)
            except BaseException as error:  # pylint: disable=broad-exception-caught
                self.failed[number] = repr(error)

    def begin(self, name):
        """Opens a new workspace on a host that is ready. Returns the host and the client."""
        away = set()
        until = time.monotonic() + PATIENCE
        while True:
            hosts = sorted(self.pods.ready() - away)
            if not hosts:
                assert time.monotonic() < until, "no host is ready"
                away.clear()
                time.sleep(0.2)
                continue
            host = cloister.place(TENANT, name, hosts)
            client = self.client(host)
            try:
                client.workspace(name)
                return host, client
            except (cloister.ShuttingDown, cloister.ServiceNotFound, cloister.ConnectionLost):
                client.close()
                away.add(host)

    def rollout(self, name, number):
        host, client = self.begin(name)
        with client:
            # Neither of the two may run twice: the log would say so.
            said = [insist(lambda word=word: client.run_command(f"sleep 0.{number % 5}; echo {word} >>log; cat log"))["stdout"]
                    for word in ("one", "two")]
            said.append(insist(lambda: self.read(client)))
            insist(lambda: client.request("workspace.close", {"workspace": name}))
        return host, said

    @staticmethod
    def read(client):
        """What only reads has no key: it is the agent that repeats it."""
        for last in False, False, True:
            try:
                return client.read_file("log", options={"line_numbers": False})["content"]
            except cloister.ConnectionLost:
                if last:
                    raise
        raise AssertionError

    def wait(self, more):
        before = len(self.done)
        assert procfs.eventually(lambda: len(self.done) >= before + more or self.failed) and not self.failed, self.failed

    def stop(self):
        self.enough.set()
        for thread in self.threads:
            thread.join()


class Held:
    """A command that runs on while its pod is told to end."""

    def __init__(self, agents, pods, pod):
        self.directory = workspaces(pods, pod) / f"held-{pod.ordinal}"
        self.client = agents.client(pod.name)
        self.client.workspace(self.directory.name)
        self.answer, self.refused = None, None
        self.thread = threading.Thread(target=self.call)
        self.thread.start()
        assert procfs.eventually((self.directory / "begun").exists)

    def call(self):
        self.answer = self.client.run_command("echo begun >>begun; while ! test -e go; do sleep 0.1; done; echo done",
                                              timeout_ms=600000)

    def let_go(self):
        """Ends the command once the host refuses what is new; it does so over the connection that it had."""
        def is_refused():
            observed = self.client.call("list_directory", {"path": "."})
            self.refused = (observed["error"] or {}).get("code")
            return self.refused is not None

        try:
            assert procfs.eventually(is_refused)
        except cloister.ServiceError as error:
            self.refused = error.code
        (self.directory / "go").touch()


def workspaces(pods, pod):
    return pods.claim(pod.ordinal, "state") / "state/workspaces" / TENANT


def names(pods, pod):
    place = workspaces(pods, pod)
    return {path.name for path in place.iterdir()} if place.exists() else set()


def kept(pods, pod):
    """Each workspace of the pod: its owner and the contents of its files."""
    return {path.name: (path.stat().st_uid, {file.name: file.read_text() for file in sorted(path.iterdir())})
            for path in sorted(workspaces(pods, pod).iterdir())}


@pytest.fixture
def manifest():
    yaml = pytest.importorskip("yaml") if os.environ.get("CI") != "true" else __import__("yaml")
    return list(yaml.safe_load_all(MANIFEST.read_text()))


@pytest.fixture
def start_set(area):
    """start_set(objects): the pods of the manifest, all ready. They and what uses them end after the test."""
    if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
        unavailable("openssh-server and openssh-client are not installed")
    os.chmod(area.path, 0o755)
    place = area.new_directory("set")
    os.chown(place, 0, 0)
    newer = place / "newer"
    shutil.copytree(area.bin, newer)
    for name in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    stopped = []

    def start(objects):
        pods = StatefulSet(place, objects, {"0.1.0": area.bin, "0.1.1": newer},
                           {"cloister-host-key": {"ssh_host_ed25519_key": (place / "host").read_text()}},
                           {"cloister-tenant-keys": {TENANT: (place / "key.pub").read_text()}})
        stopped.append(pods)
        pods.start()
        tunnels = [Tunnel(place, pods, ordinal) for ordinal in pods.pods]
        stopped.extend(tunnels)
        assert procfs.eventually(lambda: all(tunnel.path.exists() for tunnel in tunnels)), (place / "log").read_text()
        pods.newer = newer
        return pods, tunnels

    yield start
    for thing in reversed(stopped):
        thing.stop()


def is_of(programs, pod):
    """Whether the pod's cloisterd is the program of that image."""
    return os.path.samefile(f"/proc/{pod.container('cloister').pid()}/exe", programs / "cloisterd")


def of_kind(objects, kind):
    (found,) = [thing for thing in objects if thing["kind"] == kind]
    return found


def newer_template(objects):
    text = json.dumps(of_kind(objects, "StatefulSet")["spec"]["template"])
    return json.loads(re.sub(r"(cloister(-ssh)?):0\.1\.0", r"\1:0.1.1", text))


def a_drained_host_gets_nothing_new(pods, agents):
    """An administrator drains one: the readiness probe sees it, and agents begin elsewhere."""
    pod = pods.pods[1]
    assert pod.container("cloister").run([*ADMIN, "drain"]) == 0
    assert procfs.eventually(lambda: not pod.ready)
    before = names(pods, pod)
    agents.wait(ROLLOUTS // 10)
    assert names(pods, pod) == before and pods.ready() == {"cloister-0", "cloister-2"}
    assert not pods.may_evict()
    assert pod.container("cloister").run([*ADMIN, "resume"]) == 0
    assert procfs.eventually(lambda: pod.ready) and pods.may_evict()


class Roll:
    """What is looked at while the pods are replaced."""

    def __init__(self, pods, agents):
        self.pods, self.agents = pods, agents
        self.held, self.left, self.evictions = {}, {}, []
        pods.before_end, pods.after_signal, pods.after_end, pods.before_ready = self.hold, self.let_go, self.note, self.compare

    def hold(self, pod):
        self.held[pod.name] = Held(self.agents, self.pods, pod)

    def let_go(self, pod):
        self.evictions.append(self.pods.may_evict())
        self.held[pod.name].let_go()

    def note(self, pod):
        self.left[pod.name] = kept(self.pods, pod)

    def compare(self, pod):
        """When it is about to be ready again it has the workspaces that it had, and no new one. What had begun there may
        have gone on since the new cloisterd listens."""
        if pod.name in self.left:
            was, now = self.left[pod.name], kept(self.pods, pod)
            assert was.keys() == now.keys()
            for name, (owner, files) in was.items():
                assert now[name][0] == owner and all(now[name][1][file].startswith(text) for file, text in files.items()), name


def test_no_rollout_is_lost(start_set, manifest):
    pods, tunnels = start_set(copy.deepcopy(manifest))
    agents = Agents(pods, tunnels)
    try:
        agents.wait(ROLLOUTS // 10)
        a_drained_host_gets_nothing_new(pods, agents)
        roll = Roll(pods, agents)
        pods.update(newer_template(manifest))
        agents.wait(ROLLOUTS // 10)
    finally:
        agents.stop()
    assert not agents.failed, agents.failed
    # Each was answered, and each of its calls ran once: the logs are in the volumes.
    assert len(agents.done) >= ROLLOUTS and {host for host, _ in agents.done.values()} == set(roll.left)
    for number, (host, said) in agents.done.items():
        assert said == ["one\n", "one\ntwo\n", "one\ntwo\n"], (number, said)
        having = [pod.name for pod in pods.pods.values() if f"rollout-{number}" in names(pods, pod)]
        assert having == [host], (number, having)
    # From the last to the first, each told to end, none killed, no container lost.
    assert [pod.name for pod in pods.ended] == ["cloister-2", "cloister-1", "cloister-0"]
    assert [pod.killed + pod.died for pod in [*pods.ended, *pods.pods.values()]] == [[]] * 6
    assert roll.evictions == [False] * 3 and pods.may_evict()
    for held in roll.held.values():
        held.thread.join()
        held.client.close()
        assert held.answer["stdout"] == "done\n" and held.refused == "SHUTTING_DOWN", vars(held)
        assert (held.directory / "begun").read_text() == "begun\n"
    # The new pods have the new programs, and the workspaces of the old ones.
    for pod in pods.pods.values():
        assert is_of(pods.newer, pod), pod.name
    with agents.client("cloister-0") as client:
        for number in [number for number, (host, _) in agents.done.items() if host == "cloister-0"]:
            client.workspace(f"rollout-{number}")
            assert client.read_file("log", options={"line_numbers": False})["content"] == "one\ntwo\n"
            client.request("workspace.close", {"workspace": f"rollout-{number}"})
