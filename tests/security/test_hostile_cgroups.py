# SPDX-License-Identifier: Apache-2.0
"""A worker that was taken over changes its own part of the cgroup tree. That delays neither the spawner nor the next start
of cloisterd. The test plays the worker: it acts as the worker's id in its groups. cgroups(7)"""

import contextlib
import os
import signal
import subprocess

import pytest

import procfs
from cloister_client import acting_as
from daemon import Account, Daemon
from delegation import processes

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as the workspaces' ids")

NESTED = 40
STARTS = 32  # LIMIT_FILES_STARTS_OF_TENANT


def nest(top, depth=NESTED):
    """Makes nested groups, one with a name that begins with a dot."""
    path = top
    for i in range(depth):
        path = path / (f".{i}" if i % 2 else f"{i}")
        path.mkdir()
        (path / "beside").mkdir()


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    assert procfs.eventually(lambda: procfs.stat(pid)[:1] == ["T"])
    yield
    os.kill(pid, signal.SIGCONT)


def end(pid):
    """Kills a process and waits until it is dead or a zombie."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    assert procfs.eventually(lambda: not procfs.is_alive(pid))


@pytest.fixture
def start(area, delegation):
    """Daemons in the delegated group, which outlives them."""
    started = []

    def begin(below=".", **keywords):
        started.append(Daemon(area, launcher=delegation.launcher(below), **keywords))
        return started[-1]

    yield begin
    for daemon in started:
        daemon.stop()


def kill_with_groups(daemon):
    """Kills the daemon while its spawner is stopped and cannot clear up, so that the groups stay."""
    everybody = procfs.descendants(daemon.pid)
    os.kill(daemon.spawner(), signal.SIGSTOP)
    daemon.process.kill()
    daemon.process.wait()
    assert procfs.vanish(everybody)


def is_well(daemon, spawner, name):
    """Checks that another workspace opens, and that the spawner is the same."""
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": name})
        assert client.run("echo well")["stdout"] == "well\n"
    assert daemon.spawner() == spawner


def replace_cell(group, owner, files):
    """The worker leaves its group and puts a frozen group in its place. The files process has died before."""
    cell, out = group / "cell", group / "out"
    with acting_as(owner.st_uid, owner.st_gid):
        out.mkdir()
        for pid in set(processes(cell)) - {files}:
            (out / "cgroup.procs").write_text(str(pid))
    end(files)

    def replaced():
        with acting_as(owner.st_uid, owner.st_gid), contextlib.suppress(OSError):
            cell.rmdir()
            return True
    assert procfs.eventually(replaced)
    with acting_as(owner.st_uid, owner.st_gid):
        cell.mkdir()
        (cell / "cgroup.freeze").write_text("1")


def test_a_frozen_cell_of_the_workers_own_is_refused(start, area, delegation):
    area.account.give_ids()
    daemon = start(system=True)
    spawner, client = daemon.spawner(), daemon.connect()
    client.call("workspace.open", {"workspace": "taken"})
    ((_, files),) = daemon.cells()
    group = delegation.path / "ws-1"
    with stopped(spawner):
        replace_cell(group, group.stat(), files)
    number = client.begin("list_directory", {"path": "."})
    is_well(daemon, spawner, "other")
    answer = client.wait(number)
    assert answer["result"]["success"] or answer["result"]["error"]["code"] == "WORKER_LOST", answer
    assert "another cgroup in the place of its own" in daemon.log()
    # The worker and its groups are gone, and the next call gets a new cell.
    assert procfs.eventually(lambda: not group.exists())
    assert client.run("echo again")["stdout"] == "again\n"


@pytest.mark.deep("slow")
def test_a_frozen_cell_costs_its_own_workspace_alone(start, delegation):
    """In user mode the worker's user owns the group, and so its freezer."""
    daemon = start(system=False)
    spawner, client = daemon.spawner(), daemon.connect()
    client.call("workspace.open", {"workspace": "taken"})
    ((worker, files),) = daemon.cells()
    cell = delegation.path / "ws-1/cell"
    before = set(processes(cell))
    (cell / "cgroup.freeze").write_text("1")
    os.kill(files, signal.SIGKILL)
    number = client.begin("list_directory", {"path": "."})
    held = procfs.eventually(lambda: set(processes(cell)) - before)
    assert held, "no start was held up"
    # Other clients are served meanwhile, and each start is given up at its deadline.
    for i in range(3):
        is_well(daemon, spawner, f"other-{i}")
    observation = client.wait(number, timeout=120)["result"]
    assert not observation["success"] and observation["error"]["code"] == "WORKER_LOST", observation
    assert procfs.vanish([worker, *held])
    is_well(daemon, spawner, "after")
    assert client.run("echo again")["stdout"] == "again\n"
    # No process is left: all children of the spawner belong to open or spare cells.
    client.close()
    assert procfs.eventually(lambda: not [pid for pid in procfs.children(spawner) if procfs.name(pid) == "cloister-spawner"])


@pytest.fixture
def other():
    account = Account("o")
    yield account
    account.remove()


def held_starts(groups):
    """Returns how many of the groups have a process that was not in them before."""
    held = 0
    for group, before in groups.items():
        with contextlib.suppress(OSError):  # the group has gone
            held += bool(set(processes(group)) - before)
    return held


@pytest.mark.deep("slow")
def test_frozen_cells_cost_no_other_tenant_anything(start, area, delegation, other):
    """One tenant's workers hold up more starts of files processes than the tenant may have at once."""
    area.path.chmod(0o755)
    daemon = start(system=False, config="\n".join([
        "[cloister]", "mode = user", "agent_socket_mode = 0666", "spare_cells = 0",
        "[tenant bad]", f"users = {area.account.name}", "managed = yes", f"roots = {area.path}", "workspaces = 64",
        "[tenant good]", f"users = {other.name}", "managed = yes", f"roots = {area.path}", ""]))
    spawner, client, good = daemon.spawner(), daemon.connect(), daemon.connect(other)
    good.call("workspace.open", {"workspace": "before"})
    ((_, files_of_good),) = daemon.cells()
    names = [f"b{i}" for i in range(STARTS + 8)]
    for name in names:
        client.call("workspace.open", {"workspace": name})
    cells = {worker: files for worker, files in daemon.cells() if files != files_of_good}
    groups = {group: set(processes(group)) for group in delegation.path.glob("ws-*/cell")}
    groups = {group: before for group, before in groups.items() if before & set(cells)}
    assert len(groups) == len(names)
    for group in groups:
        (group / "cgroup.freeze").write_text("1")
    for files in cells.values():
        os.kill(files, signal.SIGKILL)
    assert procfs.eventually(lambda: held_starts(groups) >= STARTS)
    # Before that, cloisterd could have given them to the files processes that were killed.
    numbers = {name: client.begin("list_directory", {"path": "."}, None, name) for name in names}
    # Meanwhile new cells start, also of the same tenant, and so does a files process of the other one.
    is_well(daemon, spawner, "own")
    with daemon.connect(other) as another:
        another.call("workspace.open", {"workspace": "new"})
        assert another.run("echo well")["stdout"] == "well\n"
    os.kill(files_of_good, signal.SIGKILL)
    assert procfs.vanish([files_of_good])
    good.use("write_file", path="a", content="well\n")
    # The calls that found no room are told so, and nothing else is lost than the cells that are frozen.
    answers = {name: client.wait(number, timeout=120)["result"] for name, number in numbers.items()}
    errors = [answer["error"] for answer in answers.values() if not answer["success"]]
    assert daemon.spawner() == spawner
    busy = [error["message"] for error in errors if error["code"] == "BUSY"]
    assert busy and all("too many files processes of the tenant" in text and "try again" in text for text in busy), errors
    assert {error["code"] for error in errors} <= {"BUSY", "WORKER_LOST"}, errors


def test_nested_groups_do_not_keep_cloisterd_from_starting(start, delegation):
    with acting_as(delegation.account.uid, delegation.account.gid):
        for i in range(16):
            group = delegation.path / f"ws-{100 + i}"
            group.mkdir()
            nest(group)
    daemon = start(system=False)
    assert delegation.groups() == ["supervisor"]
    assert "cannot be removed" not in daemon.log()


def test_what_cannot_be_removed_keeps_nobody_from_starting(start, delegation):
    """cloisterd waits for all groups together as long as for one. Here processes of root, which it cannot kill, are in them."""
    groups = [delegation.path / f"ws-{100 + i}" for i in range(16)]
    with contextlib.ExitStack() as stack:
        for group in groups:
            group.mkdir()
            sleeper = stack.enter_context(subprocess.Popen(["sleep", "600"]))
            stack.callback(sleeper.kill)
            (group / "cgroup.procs").write_text(str(sleeper.pid))
        daemon = start(system=False)
    assert [line.split(": ", 1)[1] for line in daemon.log().splitlines() if "cannot be removed" in line][1:] == [
        "and 15 more cgroups cannot be removed"]


def test_nested_groups_go_with_their_workspace(start, delegation):
    """The kernel lets the worker nest groups in user mode without nsdelegate."""
    daemon = start(system=False)
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "taken"})
    group = delegation.path / "ws-1"
    with acting_as(delegation.account.uid, delegation.account.gid):
        for name in ("cgroup.max.depth", "cgroup.max.descendants"):
            (group / name).write_text("max")
        nest(group / "cell", 200)  # more than one attempt removes
        nest(group)
    client.call("workspace.close", {"workspace": "taken"})
    assert procfs.eventually(lambda: delegation.groups() == ["supervisor"])


def test_a_worker_nests_no_groups(start, area, delegation):
    area.account.give_ids()
    daemon = start(system=True)
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "taken"})
    group = delegation.path / "ws-1"
    assert (group / "cgroup.max.depth").read_text() == "1\n"
    owner = group.stat()
    with acting_as(owner.st_uid, owner.st_gid):
        (group / "mine").mkdir()
        for attempt in (lambda: (group / "mine/deeper").mkdir(), lambda: (group / "cell/deeper").mkdir(),
                        lambda: (group / "cgroup.max.depth").write_text("max"),
                        lambda: (group / "cell/cgroup.freeze").write_text("1")):
            with pytest.raises(OSError):
                attempt()
    assert client.run("echo well")["stdout"] == "well\n"
    # The groups that it made do not disturb the next start.
    kill_with_groups(daemon)
    assert group.exists()
    start("supervisor", system=True, state=daemon.state)
    assert delegation.groups() == ["supervisor"]

