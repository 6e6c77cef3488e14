# SPDX-License-Identifier: Apache-2.0
"""A cloisterd that was taken over asks the spawner for cells that it must refuse: at directories, with ids, limits,
descriptors and configurations that are not what they must be."""

import os
import select
import signal
import socket

import pytest

import procfs
from hostile_cloisterd import (DIRECTORY, FAILED, LET_GO, MANAGED, MAPPED, MIB, OPEN, READY, REFUSED, RELOAD, ROOTFS,
                               UNLIMITED, UNSHARED, asked, begin, place, spawner)

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and map ids")

REFUSALS = 100  # LIMIT_REFUSALS_LOGGED_OF_TENANT


def test_what_is_allowed_is_opened(place, spawner):
    """Without a fault the request succeeds, so the refusals below come from what each test changes."""
    path = place.owned(place.roots["a"] / "w")
    worker = spawner.opens(path, **UNLIMITED)
    n = path.stat().st_uid - place.account.first + 1
    with open(f"/proc/{worker}/uid_map") as file:
        assert file.read().split() == ["1000", str(path.stat().st_uid), "1"]
    assert procfs.uids(worker) == [place.account.first + n - 1] * 4
    place.directory("state/workspaces/m")
    managed = place.directory("state/workspaces/m/w")
    spawner.opens(managed, MANAGED)
    assert managed.stat().st_uid >= place.account.first + place.account.count // 2


def end(pidfd):
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    assert select.select([pidfd], [], [], 120)[0]


def test_a_files_process_goes_where_its_worker_is(place, spawner):
    own, other = (place.owned(place.roots["a"] / name) for name in ("own", "other"))
    spawner.opens(own, **UNLIMITED)
    worker, files, _ = spawner.pidfds
    spawner.opens(other, **UNLIMITED)
    # Refused beside a living cell: when the counted one ends, the id could be given to another workspace.
    assert spawner.ask_files(own, worker) == (REFUSED, "the workspace has a files process")
    end(files)
    for path in (other, place.roots["a"], "/etc"):
        error, reason = spawner.ask_files(path, worker)
        assert error == REFUSED and "worker" in reason
    assert spawner.ask_files(own, worker) == "opened"
    files, = spawner.fds
    spawner.fds = []
    assert spawner.ask_files(own, worker) == (REFUSED, "the workspace has a files process")
    end(files)
    # Refused after a reload that takes the directory away.
    place.write(roots=("b",))
    spawner.send(RELOAD)
    error, reason = spawner.ask_files(own, worker)
    assert error == REFUSED and "no tenant" in reason


def private_of(worker):
    """A descriptor for the private tmpfs of the ready worker @worker; while it is open, no other gets its device number."""
    return os.open(f"/proc/{worker}/root/tmp", os.O_PATH)


def test_a_private_tmpfs_is_given_to_its_workspace_alone(place, spawner):
    """By the number of a cell that has ended, once."""
    own, other = (place.owned(place.roots["a"] / name) for name in ("own", "other"))
    held = []

    def open_and_end(path, kept=0, **more):
        """Returns the device of the cell's private tmpfs and its number."""
        worker = spawner.opens(path, kept=kept, **{**UNLIMITED, "tenant": b"a", **more})
        spawner.wait_until_ready()
        held.append(private_of(worker))
        for pidfd in spawner.pidfds[:2]:
            end(pidfd)
        return os.fstat(held[-1]).st_dev, spawner.cell

    device, cell = open_and_end(own)
    # From cell to cell, as long as each names the one before.
    for _ in range(3):
        again, cell = open_and_end(own, cell)
        assert again == device
    # Not to another directory, nor another time when that has asked.
    assert open_and_end(other, cell)[0] != device
    assert open_and_end(own, cell)[0] != device
    for more in ({"tenant": b""}, {"tmp": 8 * MIB}):
        device, cell = open_and_end(own)
        assert open_and_end(own, cell, **more)[0] != device
    # Not that of a cell that lives, of one that was let go, or of one that never was.
    device, cell = open_and_end(own)
    spawner.send(LET_GO, cell)
    assert open_and_end(own, cell)[0] != device
    worker = spawner.opens(own, **UNLIMITED, tenant=b"a")
    spawner.wait_until_ready()
    held.append(private_of(worker))
    assert open_and_end(own, spawner.cell)[0] != os.fstat(held[-2]).st_dev
    for number in (1, 1 << 40, (1 << 64) - 1):
        open_and_end(own, number)
        spawner.send(LET_GO, number)
    for fd in held:
        os.close(fd)
    spawner.send(LET_GO, 1, b"x")
    assert spawner.ends()


def test_a_waiting_cell_is_assigned_once(place, spawner):
    own, other = (place.owned(place.roots["a"] / name) for name in ("own", "other"))
    assert spawner.prepare() == "opened"
    worker, _ = spawner.pidfds
    assert spawner.assign(own, worker) == "assigned"
    assert spawner.assign(own, worker)[1] == spawner.assign(other, worker)[1] == "find the waiting cell"
    # Refused after a refusal: a spare cell that knows one workspace gets no other.
    for root, reason in (("/etc", "no tenant"), (own, "limits")):
        assert spawner.prepare() == "opened"
        worker, _ = spawner.pidfds
        error, said = spawner.assign(root, worker, memory=1 << 40)
        assert error == REFUSED and reason in said
        assert spawner.assign(own, worker)[1] == "find the waiting cell"


def test_what_a_workspace_has_is_no_waiting_cell(place, spawner):
    own, other = (place.owned(place.roots["a"] / name) for name in ("own", "other"))
    spawner.opens(own, **UNLIMITED)
    worker, files, _ = spawner.pidfds
    for pidfd in (worker, files):
        assert spawner.assign(other, pidfd)[1] == "find the waiting cell"
    # After the attempt, no new files process gets the other directory for that worker.
    end(files)
    error, reason = spawner.ask_files(other, worker)
    assert error == REFUSED and "worker" in reason
    # The other directory still has its id.
    spawner.opens(other, **UNLIMITED)


def test_waiting_cells_get_channels_and_nothing_else(place, spawner):
    pipe = os.pipe()
    directory = os.open(place.state, os.O_PATH)
    for position in range(4):
        for fd in (directory, pipe[0]):
            assert spawner.prepare({position: fd})[1] == "take its channels"
    for fd in (*pipe, directory):
        os.close(fd)
    assert not [pid for pid in procfs.children(spawner.process.pid) if procfs.is_alive(pid)]


def test_foreign_roots_are_refused(place, spawner):
    outside = place.owned(place.top / "outside")
    for path in ("/", "/etc", "/proc/self/fd", "/root", outside, place.roots["a"].parent):
        for kind in (DIRECTORY, ROOTFS):
            spawner.refuses(path, kind, **UNLIMITED)
    # The directory is moved to a place that is not allowed, while it is open.
    inside = place.owned(place.roots["a"] / "inside")
    fd = os.open(inside, os.O_PATH)
    inside.rename(place.top / "elsewhere")
    assert "no tenant" in spawner.refuses(fd, **UNLIMITED)
    os.close(fd)


def test_foreign_ids_are_refused(place, spawner):
    account = place.account
    for name, uid in (("root", 0), ("supervisor", account.uid), ("nobody", 65534),
                      ("before", account.first - 1), ("behind", account.first + account.count)):
        path = place.owned(place.roots["a"] / name, uid, 0)
        assert "does not belong to an id" in spawner.refuses(path, **UNLIMITED)
        assert path.stat().st_uid == uid


def test_state_is_no_directory_and_directories_are_not_managed(place, spawner):
    account = place.account
    tenant = place.directory("state/workspaces/m")
    place.directory("state/workspaces/a")
    of_a = place.directory("state/workspaces/a/w")
    workspace = place.numbered(tenant / "w", 700)
    below = place.numbered(workspace / "below", 700)
    for path in (place.state, tenant, workspace, place.state.parent, below):
        spawner.refuses(path, DIRECTORY, **UNLIMITED)
    directory = place.owned(place.roots["a"] / "d")
    empty = place.owned(place.roots["a"] / "empty", account.uid, account.gid)
    for path in (directory, empty, place.state, tenant, below, "/etc", of_a):
        spawner.refuses(path, MANAGED, **UNLIMITED)
    assert of_a.stat().st_uid == empty.stat().st_uid == account.uid
    # A managed workspace that holds cloisterd's files, or belongs to an id outside the range.
    full = place.directory("state/workspaces/m/full")
    place.directory("state/workspaces/m/full/x")
    assert "user mode" in spawner.refuses(full, MANAGED)
    for uid in (0, account.first - 1):
        spawner.refuses(place.owned(tenant / f"of-{uid}", uid), MANAGED)
    assert full.stat().st_uid == account.uid


def test_an_id_is_one_workspaces(place, spawner):
    first = place.owned(place.roots["a"] / "first")
    second = place.owned(place.roots["b"] / "second", first.stat().st_uid)
    worker = spawner.opens(first, **UNLIMITED)
    assert "another workspace that is open" in spawner.refuses(second, **UNLIMITED)
    spawner.opens(first, **UNLIMITED)  # the same directory, for a second tenant
    tenant = place.directory("state/workspaces/m")
    known = set(procfs.children(spawner.process.pid))
    managed = spawner.opens(place.numbered(tenant / "w", 800), MANAGED)
    for pid in set(procfs.children(spawner.process.pid)) - known:
        os.kill(pid, signal.SIGKILL)
    assert procfs.vanish([managed])
    stolen = place.numbered(place.roots["a"] / "stolen", 800)
    assert procfs.eventually(lambda: set(procfs.children(spawner.process.pid)) <= known)  # all of it is reaped
    assert "managed" in spawner.refuses(stolen, **UNLIMITED)
    # Also for a workspace that got its id from the spawner, and whose name cloisterd has removed since.
    new = place.directory("state/workspaces/m/new")
    holder = spawner.opens(new, MANAGED)
    spawner.wait_until_ready()  # without its directory no process would run with its id, and the id would be free
    uid = new.stat().st_uid
    new.rmdir()
    again = place.owned(place.roots["a"] / "again", uid)
    assert "another workspace" in spawner.refuses(again, **UNLIMITED)
    assert procfs.is_alive(worker) and procfs.is_alive(holder)


@pytest.mark.parametrize("limits", [
    {"memory": (1 << 30) + 1}, {"processes": 201}, {"cpu": 0}, {"cpu": 151}, {"cpu_weight": 101},
    {"io_weight": 101}, {"tmp": 32 * MIB + 1}, {"file_size": 64 * MIB + 1},
    {"open_files": 4097}, {"watches": 8193}], ids=str)
def test_limits_above_the_tenants_are_refused(place, spawner, limits):
    path = place.owned(place.roots["a"] / "w")
    assert "limits" in spawner.refuses(path, **{**UNLIMITED, **limits})


def test_descriptors_of_the_wrong_type(place, spawner):
    path = place.owned(place.roots["a"] / "w")
    file = place.roots["a"] / "file"
    file.touch()
    os.chown(file, path.stat().st_uid, path.stat().st_gid)
    pipe = os.pipe()
    directory, plain = os.open(place.state, os.O_PATH), os.open(file, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as unconnected:
        for root in (plain, pipe[0], unconnected.fileno()):
            error, _ = spawner.ask(root, **UNLIMITED)
            assert error != REFUSED
        for position in (1, 2, 3, 4):
            for fd in (directory, plain, pipe[0]):
                assert spawner.ask(path, swap={position: fd}, **UNLIMITED)[1] == "take its channels"
    for fd in (*pipe, directory, plain):
        os.close(fd)
    assert not [pid for pid in procfs.children(spawner.process.pid) if procfs.is_alive(pid)]
    spawner.opens(path, **UNLIMITED)


@pytest.mark.parametrize("frame", [
    {"kind": OPEN, "payload": b"x"}, {"kind": OPEN, "payload": asked()},
    {"kind": OPEN, "payload": asked(as_root=1)}, {"kind": OPEN, "payload": asked(MANAGED, as_root=2)},
    {"kind": OPEN, "payload": asked(9)}, {"kind": OPEN, "payload": asked(MANAGED, root_inside=1)},
    {"kind": OPEN, "payload": asked(MANAGED, as_root=1, root_inside=2)},
    {"kind": OPEN, "payload": asked(MANAGED, shown_at=b"/etc/x")}, {"kind": OPEN, "payload": asked(MANAGED, shown_at=b"/x/../y")},
    {"kind": OPEN, "payload": asked(shown_at=b"/x")}, {"kind": OPEN, "payload": asked(MANAGED, as_root=1, shown_at=b"/x")},
    {"kind": OPEN, "payload": asked(MANAGED, shown_at=b"/x\0")},
    {"kind": 77}, {"kind": MAPPED}, {"kind": READY}, {"kind": RELOAD, "payload": b"/etc/passwd"},
    {"kind": OPEN, "version": 2}, {"kind": OPEN, "n_fds": 5}, {"kind": RELOAD, "n_fds": 1}], ids=str)
def test_garbage_ends_it_and_all_it_started(place, spawner, frame):
    worker = spawner.opens(place.owned(place.roots["a"] / "w"), **UNLIMITED)
    spawner.send(**frame)
    # The spawner waits for the descriptors of a frame; if they never come, it ends with the channel.
    if frame.get("n_fds"):
        spawner.socket.shutdown(socket.SHUT_WR)
    assert spawner.ends() or frame.get("n_fds")
    assert procfs.vanish([worker])


def test_root_inside_is_the_tenants(place, spawner):
    """Commands are root in their own user namespace only where the configuration says so, and never in a spare cell."""
    place.directory("state/workspaces/m")
    path, other = (place.directory(f"state/workspaces/m/{name}") for name in ("w", "x"))
    wanted = {"kind": MANAGED, "tenant": b"m", "as_root": 1, "root_inside": 1}
    assert "no root_inside" in spawner.refuses(path, **wanted, **UNLIMITED)
    place.config.write_text(place.config.read_text() + "root_inside = yes\n")
    spawner.send(RELOAD)
    worker = spawner.opens(path, **wanted, **UNLIMITED)
    assert os.readlink(f"/proc/{worker}/fd/9") != os.readlink(f"/proc/{worker}/ns/user")
    assert spawner.prepare() == "opened"
    error, reason = spawner.assign(other, spawner.pidfds[0], **wanted)
    assert error == REFUSED and "spare cell" in reason


@pytest.mark.parametrize("maps", ["none", "count", "order"])
def test_maps_that_are_not_what_they_must_be(place, begin, maps):
    spawner, account = begin(), place.account
    assert spawner.receive()[0] == UNSHARED
    if maps == "count":
        spawner.map_ids(65535)
    elif maps == "order":
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{spawner.process.pid}/{name}", "w") as file:
                file.write(f"0 {account.first} 2\n2 0 1\n")
        spawner.send(MAPPED)
    else:
        spawner.send(MAPPED)
    assert spawner.receive()[0] == FAILED
    assert spawner.ends()


def test_it_goes_by_the_files_and_not_by_what_it_is_told(place, spawner):
    path = place.owned(place.roots["b"] / "w")
    place.write(roots=("a",))
    spawner.opens(path, **UNLIMITED)
    spawner.send(RELOAD)
    other = place.owned(place.roots["b"] / "x")
    assert "no tenant" in spawner.refuses(other, **UNLIMITED)
    # A file that root does not own, or that has a mistake, is refused.
    place.write(memory="2G")
    for spoil in (lambda: os.chown(place.config, place.account.uid, 0),
                  lambda: place.config.write_text("[tenant b]\nroots = /no/such/directory\n")):
        spoil()
        spawner.send(RELOAD)
        spawner.refuses(other, **UNLIMITED)
        assert "the old one stays" in spawner.log()
        os.chown(place.config, 0, 0)
    place.write(memory="2G")
    spawner.send(RELOAD)
    spawner.opens(other, memory=2 << 30, **UNLIMITED)


def test_drop_ins_are_read_as_cloisterd_reads_them(place, begin):
    """A key in a later file replaces the value of earlier files. Within a file, a repeated list key appends."""
    drop_ins = place.config.parent / "cloister.conf.d"
    drop_ins.mkdir()
    third = place.directory("roots-c")
    os.chown(third, 0, 0)
    (drop_ins / "10.conf").write_text(
        f"# roots = /\n[tenant a]\r\nroots = {place.roots['b']}\r\n   {third}\nworkspace_memory=2G\n"
        "[tenant b]\nworkspace_memory = 2G\n")
    (drop_ins / "ignored.txt").write_text("[tenant a]\nroots = /\n")
    paths = {top: place.owned(top / "w") for top in (*place.roots.values(), third)}
    spawner = begin().come_up()
    spawner.refuses(paths[place.roots["a"]], **UNLIMITED)
    for top in (place.roots["b"], third):
        spawner.opens(paths[top], memory=2 << 30, **UNLIMITED)


def test_a_tenant_gets_no_directory_of_another(place, spawner):
    """The named tenant decides which paths are shown read-only, so the directory must belong to that tenant."""
    root = place.owned(place.roots["a"] / "named")
    spawner.opens(root, tenant=b"a", **UNLIMITED)
    for tenant in b"b", b"nobody":
        assert spawner.ask(root, tenant=tenant, **UNLIMITED) == (
            REFUSED, "no tenant of the configuration has this directory")


def test_refusals_for_one_tenant_leave_those_of_others_in_the_log(place, spawner):
    """A tenant's worker that was taken over can have requests of its tenant refused again and again."""
    for _ in range(REFUSALS + 20):
        error, _ = spawner.ask(place.roots["b"], tenant=b"a", **UNLIMITED)
        assert error == REFUSED
    assert spawner.log().count("refused cell") == REFUSALS
    assert spawner.log().count("nothing more about tenant a is logged") == 1
    spawner.refuses(place.roots["a"], tenant=b"b", **UNLIMITED)
