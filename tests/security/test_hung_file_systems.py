# SPDX-License-Identifier: Apache-2.0
"""File systems that stop answering, below a tenant's root, outside all roots, and as a root: only the calls that name them
wait."""

import contextlib
import json
import os
import re
import signal
import threading
import time

import pytest

import procfs
from cloister_client import RpcError
from silent_fs import FuseMount

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount and to make users"),
              pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse"),
              pytest.mark.deep("busy")]

LOOK_UP = 5.0  # LIMIT_LOOK_UP_MS
RESOLVERS_IDLE = 2  # LIMIT_PATH_RESOLVERS_IDLE
RESOLVERS_PER_TENANT = 8  # LIMIT_PATH_RESOLVERS_PER_TENANT
HANG = 60  # no condition takes longer


def config_of(tenants, **roots):
    text = "[cloister]\nagent_socket_mode = 0666\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
        text += "".join(f"roots = {root}\n" for root in roots.get(name, ()))
    return text


class Place:
    """/in with directories of the daemon's user and, at /in/fuse, a file system; another at /out/fuse."""

    def __init__(self, area):
        self.area = area
        self.top = area.new_directory("tree")
        self.mounts = []
        for name in ("in", "in/w1", "in/w2", "in/w3", "in/fuse", "in/more", "out", "out/fuse"):
            self.make(name)

    def make(self, name):
        (self.top / name).mkdir(parents=True)
        self.area.account.own(self.top / name)

    def mount(self, name):
        made = FuseMount(self.top / name, self.area.account.uid)
        self.mounts.append(made)
        return made

    def end(self):
        for made in self.mounts:
            made.end()


@pytest.fixture
def place(area):
    made = Place(area)
    yield made
    made.end()


def opened(client, path):
    return client.call("workspace.open", {"root": str(path)}, timeout=HANG)["root"]


def refusal(client, path):
    with pytest.raises(RpcError) as caught:
        opened(client, path)
    return caught.value


class Others:
    """What must go on meanwhile: calls in open workspaces and openings of new ones, for both tenants."""

    def __init__(self, daemon, tenants, place):
        self.a, self.b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
        self.opens_a, self.opens_b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
        self.top = place.top
        opened(self.a, self.top / "in" / "w1")
        self.b.call("workspace.open", {"workspace": "of-b"})
        self.opened = 0

    def go_on(self):
        for client in (self.a, self.b):
            assert client.run("echo here")["stdout"] == "here\n"
            client.use("write_file", path="f", content="x")
            client.use("list_directory", path=".")
        self.opened += 1
        self.opens_b.call("workspace.open", {"workspace": f"b-{self.opened}"}, timeout=HANG)
        self.opens_b.call("workspace.close")
        opened(self.opens_a, self.top / "in" / "w2")
        self.opens_a.call("workspace.close")


def nothing_is_left(daemon, threads):
    """Checks that no waiting thread or process is left."""
    def settled():
        return (len(procfs.resolvers(daemon.spawner())) <= RESOLVERS_IDLE and
                len(os.listdir(f"/proc/{daemon.pid}/task")) == threads)
    assert procfs.eventually(settled, HANG), procfs.resolvers(daemon.spawner())


def while_waiting(numbers, client, others):
    """Returns the answers to @numbers. The other workspaces are served meanwhile, at least once."""
    answers, rounds, begun = {}, 0, time.monotonic()
    while len(answers) < len(numbers):
        others.go_on()
        rounds += 1
        assert time.monotonic() - begun < HANG
        with contextlib.suppress(TimeoutError):
            while True:
                answer = client.receive_any(timeout=0.01)
                answers[answer["id"]] = answer
    assert set(answers) == set(numbers)
    return [answers[number] for number in numbers], rounds


def test_what_is_below_no_root_is_not_looked_up(start_daemon, area, tenants, place):
    """Neither by name nor by a link below a root. So the time of a look-up tells nothing about other tenants, and a silent
    file system outside the roots delays no call."""
    out = place.mount("out/fuse")
    (place.top / "in" / "link").symlink_to(place.top / "out" / "fuse")
    (place.top / "in" / "up").symlink_to("../out/fuse")
    daemon = start_daemon(config=config_of(tenants, a=[place.top / "in"], b=[place.top / "out"]))
    a, b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    opened(b, place.top / "out" / "fuse" / "ws-of-b")
    b.call("workspace.close")
    assert procfs.eventually(lambda: not daemon.cells())
    procfs.eventually(lambda: out.count() == (time.sleep(0.2), out.count())[1])
    for silent in (False, True):
        if silent:
            out.silence()
        before, told = out.count(), set()
        for name in ("out/fuse/ws-of-b", "out/fuse/ws-none", "out/fuse/none", "in/link/ws-of-b", "in/link/none",
                     "in/up/ws-of-b", "in/up/none", "in/../out/fuse/ws-of-b", "in/../out/fuse/none"):
            error = refusal(a, f"{place.top}/{name}")
            told.add((error.code, error.name, error.message))
        assert len(told) == 1 and told.pop()[1] == "FORBIDDEN"
        assert out.count() == before, "a file system was asked about what the tenant has no business with"
    assert a.call("workspace.open", {"workspace": "w"})


def test_a_silent_file_system_costs_who_names_it(start_daemon, area, tenants, place):
    fuse = place.mount("in/fuse")
    daemon = start_daemon(config=config_of(tenants, a=[place.top / "in"]))
    others = Others(daemon, tenants, place)
    victim = daemon.connect(tenants[0])
    assert opened(victim, fuse.point / "ws1") == str(fuse.point / "ws1")
    victim.call("workspace.close")
    others.go_on()
    threads = len(os.listdir(f"/proc/{daemon.pid}/task"))
    fuse.silence()
    numbers = [victim.request("workspace.open", {"root": str(fuse.point / f"ws{n}")}) for n in range(30)]
    answers, rounds = while_waiting(numbers, victim, others)
    assert rounds > 1
    assert {answer["error"]["data"]["code"] for answer in answers} == {"TIMEOUT"}
    assert len(procfs.resolvers(daemon.spawner())) <= RESOLVERS_PER_TENANT + RESOLVERS_IDLE
    others.go_on()
    # When the file system answers again, the workspace opens.
    fuse.answer()
    nothing_is_left(daemon, threads)
    assert opened(victim, fuse.point / "ws1") == str(fuse.point / "ws1")
    assert victim.run("pwd")["stdout"] == f"{fuse.point}/ws1\n"
    victim.close()
    others.go_on()
    assert daemon.stop() == 0


def test_processes_made_again_stop_nobody(start_daemon, area, tenants, place):
    """The spawner makes the processes of an open workspace again while its file system is silent."""
    fuse = place.mount("in/fuse")
    daemon = start_daemon(config=config_of(tenants, a=[place.top / "in"]))
    others = Others(daemon, tenants, place)
    victim = daemon.connect(tenants[0])
    opened(victim, fuse.point / "ws1")
    worker, files = daemon.cell_of(fuse.point / "ws1")
    threads = len(os.listdir(f"/proc/{daemon.pid}/task"))
    os.kill(worker, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # cloisterd ends the files process with the worker
        os.kill(files, signal.SIGKILL)
    assert procfs.eventually(lambda: not any(procfs.is_alive(pid) for pid in (worker, files)), HANG)
    fuse.silence()
    number = victim.begin("run_command", {"command": "true"})
    answers, rounds = while_waiting([number], victim, others)
    assert rounds > 1 and answers[0]["result"]["error"]["code"] == "TIMEOUT", answers
    others.go_on()
    fuse.answer()
    assert procfs.eventually(lambda: victim.observe("run_command", {"command": "true"}, timeout=HANG)["success"], HANG)
    nothing_is_left(daemon, threads)
    assert daemon.stop() == 0


def test_one_that_is_ended_is_let_go(start_daemon, area, tenants, place):
    """The server dies or an administrator aborts the connection: the waiting path resolver ends."""
    fuse = place.mount("in/fuse")
    daemon = start_daemon(config=config_of(tenants, a=[place.top / "in"]))
    others = Others(daemon, tenants, place)
    others.go_on()
    threads = len(os.listdir(f"/proc/{daemon.pid}/task"))
    victim = daemon.connect(tenants[0])
    fuse.silence()
    numbers = [victim.request("workspace.open", {"root": str(fuse.point / f"ws{n}")}) for n in range(4)]
    answers, _ = while_waiting(numbers, victim, others)
    assert {answer["error"]["data"]["code"] for answer in answers} == {"TIMEOUT"}
    assert procfs.resolvers(daemon.spawner())
    fuse.end()
    nothing_is_left(daemon, threads)
    others.go_on()
    assert daemon.stop() == 0


def test_a_client_that_leaves_leaves_nothing(start_daemon, area, tenants, place):
    fuse = place.mount("in/fuse")
    daemon = start_daemon(config=config_of(tenants, a=[place.top / "in"]))
    others = Others(daemon, tenants, place)
    others.go_on()
    fuse.silence()
    for n in range(3):
        victim = daemon.connect(tenants[0])
        victim.request("workspace.open", {"root": str(fuse.point / f"ws{n}")})
        victim.close()
    others.go_on()
    fuse.answer()
    nothing_is_left(daemon, len(os.listdir(f"/proc/{daemon.pid}/task")))
    for pid in (daemon.pid, daemon.spawner()):
        assert procfs.eventually(lambda: not any("fuse" in target for target in procfs.fds(pid).values()), HANG)
    assert daemon.stop() == 0


def test_the_service_ends_while_one_is_silent(start_daemon, area, tenants, place):
    """A process that the kernel holds keeps neither the service running nor its sockets and locks."""
    fuse = place.mount("in/fuse")
    daemon = start_daemon(config=config_of(tenants, a=[place.top / "in"]))
    victim = daemon.connect(tenants[0])
    before = fuse.count()
    fuse.silence()
    victim.request("workspace.open", {"root": str(fuse.point / "ws1")})
    assert procfs.eventually(lambda: fuse.count() > before)
    assert daemon.stop() == 0


def test_a_root_that_is_silent_is_reloaded(start_daemon, area, tenants, place):
    fuse = place.mount("in/fuse")
    config = config_of(tenants, a=[fuse.point, place.top / "in"])
    daemon = start_daemon(config=config)
    others = Others(daemon, tenants, place)
    victim = daemon.connect(tenants[0])
    opened(victim, fuse.point / "ws1")
    fuse.silence()
    done = threading.Event()

    def reload():
        daemon.reload(config + "weight = 7\n")
        done.set()
    threading.Thread(target=reload, daemon=True).start()
    assert done.wait(HANG), "a reload waits for a file system that does not answer"
    others.go_on()
    # Authorized anew at its next request, by what was known about its directory.
    assert victim.call("workspace.list", timeout=HANG)["workspaces"]
    others.go_on()
    fuse.answer()
    victim.close()
    assert daemon.stop() == 0


def hold(daemon, client, fuse):
    """A command of an open workspace waits for a file system; its processes are killed and do not end."""
    opened(client, fuse.point / "ws1")
    fuse.silence()
    assert not fuse.held()
    client.begin("run_command", {"command": "ls ws2", "timeout_ms": 1000})
    assert procfs.eventually(fuse.held, HANG)


def test_administrators_see_what_is_held(start_daemon, area, tenants, place):
    """The log, workspaces, show and health say which workspaces' processes do not end, why, and where they wait."""
    mounts = [place.mount("in/fuse"), place.mount("out/fuse")]
    config = config_of(tenants, a=[place.top / "in"], b=[place.top / "out"])
    daemon = start_daemon(config=config.replace("[cloister]\n", f"[cloister]\nadmin_group = {area.account.gid}\n"))
    clients = [daemon.connect(tenant) for tenant in tenants[:2]]

    def health():
        return [reason["reason"] for reason in json.loads(daemon.ctl("--json", "health").stdout)["reasons"]]

    for name, client, fuse in zip("ab", clients, mounts):
        path = fuse.point / "ws1"
        said = re.compile(re.escape(f"the workspace {path} of the tenant {name}: its processes were killed and have not ended: ") +
                          r".*; process \d+ in state D waits in \w+\n")
        assert not health()
        hold(daemon, client, fuse)
        assert procfs.eventually(lambda: said.search(daemon.log()), HANG), daemon.log()
        row, = [row for row in json.loads(daemon.ctl("--json", "show", str(path)).stdout)["workspaces"]]
        assert row["state"] == "quarantined" and row["trouble"] in daemon.log() and row["trouble_age_ms"] >= 0
        for command in (["show", str(path)], ["workspaces"]):
            shown = daemon.ctl(*command).stdout.decode()
            assert re.search(re.escape(str(path)) + r": \S+ ago, its processes were killed and have not ended: ", shown), shown
    assert health() == ["held"]
    for name, client, fuse in zip("ab", clients, mounts):
        fuse.answer()
        ended = f"the workspace {fuse.point}/ws1 of the tenant {name}: its processes, which did not end, have ended now: "
        assert procfs.eventually(lambda: ended in daemon.log(), HANG), daemon.log()
    assert not health()
    assert daemon.stop() == 0
