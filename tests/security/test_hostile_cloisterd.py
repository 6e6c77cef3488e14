# SPDX-License-Identifier: Apache-2.0
"""A cloisterd that was taken over asks the spawner for things that it must refuse. The test plays cloisterd; the
spawner is the real one, with real id maps."""

import array
import contextlib
import errno
import fcntl
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess

import pytest

import procfs
from daemon import environment
from images import archive, entry

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and map ids")

# common/wire.h and common/wire_spawner.h
HEADER = struct.Struct("<BBHIQ")
(OPEN, OPEN_FILES, PREPARE, ASSIGN, MAPPED, RELOAD, LOOK_UP, REMOVED, DROPPED, FREEZE, FORK, LET_GO, IMPORT, UNPACK, BESIDE,
 FOLD, MEASURE, LOAD) = range(1, 19)
READY, FAILED, OPENED, OPEN_FAILED, ASSIGNED, FILES_OPENED, UNSHARED, LOOKED_UP, COPIED, WORKED = range(32, 42)
MANAGED, DIRECTORY, ROOTFS = 1, 2, 3
REFUSED = 129  # EKEYREJECTED
RELEASE = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
SOCKETS = 5  # CELL_SOCKETS_LEAST; a cell with a network namespace of its own has one more, by which it is asked for ports
MIB = 1 << 20
LIMITS = {"memory": 512 * MIB, "processes": 100, "cpu_weight": 100, "cpu": 0, "io_weight": 100, "tmp": 16 * MIB,
          "file_size": 16 * MIB, "data": 0, "open_files": 1024, "proxy_port": 0, "kept": 0, "layers": 0}


def asked(kind=DIRECTORY, tenant=b"", as_root=0, root_inside=0, shared_network=0, template=b"", **limits):
    """struct spawner_open. With a template there are the layers of a new fork."""
    numbers = (0, 1) if template else ()
    limits = {**LIMITS, **limits, "layers": len(numbers)}
    return (struct.pack("<BQIIIIQQQIIQB", kind, *limits.values()) + struct.pack(f"<{len(numbers)}II", *numbers, len(template))
            + template + struct.pack("<BBBI", as_root, root_inside, shared_network, len(tenant)) + tenant)


class Spawner:
    """The real spawner; the test plays its cloisterd."""

    def __init__(self, area, config, managed):
        self.account = account = area.account
        self.path = area.new_directory("spawner")
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(60)
        self.log_path = self.path / "log"
        top = os.open(managed, os.O_PATH)
        kept = (theirs.fileno(), top)

        def place_descriptors():
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [area.bin / "cloister-spawner", "system", config, ""], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log, env=environment("/"), pass_fds=(3, 4),
                preexec_fn=place_descriptors, **account.as_user())
        theirs.close()
        os.close(top)
        self.cell = 0
        self.buffer, self.fds = b"", []

    def log(self):
        return self.log_path.read_text(errors="replace")

    def send(self, kind, cell=0, payload=b"", fds=(), version=1, n_fds=None):
        n_fds = len(fds) if n_fds is None else n_fds
        frame = HEADER.pack(version, kind, n_fds, len(payload), cell) + payload
        if fds:
            socket.send_fds(self.socket, [frame], fds)
        else:
            self.socket.sendall(frame)

    def take(self, n):
        while len(self.buffer) < n:
            data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(32))
            if not data:
                raise EOFError(self.log())
            for _, _, words in ancillary:
                received = array.array("i")
                received.frombytes(words)
                self.fds += received
            self.buffer += data
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def receive(self):
        _, kind, _, length, cell = HEADER.unpack(self.take(HEADER.size))
        return kind, cell, self.take(length)

    def map_ids(self, count=None):
        """Writes the id maps, as root does at a start."""
        account = self.account
        for name, own, first in (("uid_map", account.uid, account.first),
                                 ("gid_map", account.gid, account.first_gid)):
            with open(f"/proc/{self.process.pid}/{name}", "w") as file:
                file.write(f"0 {own} 1\n1 {first} {count or account.count}\n")
        self.send(MAPPED)

    def ask(self, root, kind=DIRECTORY, swap=None, tenant=b"", **limits):
        """Asks for a cell at @root, a path or a descriptor. "opened", or (errno, step)."""
        pairs = [socket.socketpair() for _ in range(2)]
        pipes = [os.pipe() for _ in range(2)]
        opened = root if isinstance(root, int) else os.open(root, os.O_PATH)
        fds = [opened, pairs[0][1].fileno(), pipes[0][1], pairs[1][1].fileno(), pipes[1][1]]
        for place, fd in (swap or {}).items():
            fds[place] = fd
        self.cell += 1
        self.send(OPEN, self.cell, asked(kind, tenant, **limits), fds)
        answer = self.answer(2 + self.sockets_of(limits))
        for pair in pairs:
            pair[1].close()
        for pipe in pipes:
            os.close(pipe[1])
        if not isinstance(root, int):
            os.close(opened)
        self.kept = getattr(self, "kept", []) + [pairs, pipes]
        return answer

    @staticmethod
    def sockets_of(limits):
        """How many sockets come with such a cell."""
        return (SOCKETS if limits.get("proxy_port") else 0) + (0 if limits.get("shared_network") else 1)

    def answer(self, n_pidfds):
        kind, cell, said = self.receive()
        assert cell == self.cell
        if kind in (OPENED, FILES_OPENED):
            assert len(self.fds) == n_pidfds
            return "opened"
        if kind == ASSIGNED:
            assert len(self.fds) == n_pidfds
            return "assigned"
        assert kind == OPEN_FAILED and not self.fds
        length, = struct.unpack_from("<I", said)
        error, = struct.unpack_from("<I", said, 4 + length)
        return error, said[4:4 + length].decode()

    def ask_files(self, root, worker):
        """Asks for another files process at @root for the cell of the pidfd @worker."""
        pair, pipe, opened = socket.socketpair(), os.pipe(), os.open(root, os.O_PATH)
        self.cell += 1
        self.send(OPEN_FILES, self.cell, asked(**UNLIMITED), [opened, worker, pair[1].fileno(), pipe[1]])
        answer = self.answer(1)
        pair[1].close()
        os.close(pipe[1])
        os.close(opened)
        self.kept += [pair, pipe]
        return answer

    def prepare(self, swap=None, tenant=b"", **limits):
        """Asks for a spare cell. Returns "opened" with its pidfds, or (errno, step)."""
        pairs = [socket.socketpair() for _ in range(2)]
        pipes = [os.pipe() for _ in range(2)]
        fds = [pairs[0][1].fileno(), pipes[0][1], pairs[1][1].fileno(), pipes[1][1]]
        for place, fd in (swap or {}).items():
            fds[place] = fd
        self.cell += 1
        self.send(PREPARE, self.cell, asked(tenant=tenant, **{**UNLIMITED, **limits}), fds)
        answer = self.answer(2)
        for pair, pipe in zip(pairs, pipes):
            pair[1].close()
            os.close(pipe[1])
        self.kept = getattr(self, "kept", []) + [pairs, pipes]
        self.pidfds, self.fds = self.fds, []
        return answer

    def assign(self, root, worker, kind=DIRECTORY, tenant=b"", **limits):
        """Asks that the spare cell of the pidfd @worker gets @root. Returns "assigned", or (errno, step)."""
        opened = os.open(root, os.O_PATH)
        self.cell += 1
        self.send(ASSIGN, self.cell, asked(kind, tenant, **{**UNLIMITED, **limits}), [opened, worker])
        answer = self.answer(self.sockets_of(limits))
        if answer == "assigned":
            self.sockets, self.fds = self.fds, []
        os.close(opened)
        return answer

    def unpack(self, path, tenant):
        """Asks for a template of @tenant of the archive at @path. "copied", or (errno, reason)."""
        opened, pipe = os.open(path, os.O_PATH), os.pipe()
        self.cell += 1
        target = f".unfinished-{self.cell}".encode()
        templates = pathlib.Path(os.readlink(f"/proc/{self.process.pid}/fd/4")).parent / "templates"
        for made in (templates, templates / tenant.decode(), templates / tenant.decode() / target.decode()):
            made.mkdir(exist_ok=True)
            os.chown(made, self.account.uid, self.account.gid)
        texts = b"".join(struct.pack("<I", len(text)) + text for text in (tenant, b"t", target))
        self.send(UNPACK, self.cell, texts + struct.pack("<QQ", MIB, 100), [opened, pipe[1]])
        os.close(opened)
        os.close(pipe[1])
        kind, cell, said = self.receive()
        os.close(pipe[0])
        assert (kind, cell) == (COPIED, self.cell)
        length, = struct.unpack_from("<I", said)
        error, = struct.unpack_from("<I", said, 4 + length)
        return (error, said[4:4 + length].decode()) if error else "copied"

    def refuses(self, *arguments, **keywords):
        """Checks that the request is refused, that the refusal is logged and that no process runs. Returns the reason."""
        before = procfs.children(self.process.pid)
        answer = self.ask(*arguments, **keywords)
        assert answer != "opened", arguments
        error, reason = answer
        assert error == REFUSED, reason
        assert f"refused cell {self.cell}: {reason}" in self.log()
        assert set(procfs.children(self.process.pid)) <= set(before)
        return reason

    def opens(self, *arguments, **keywords):
        """Checks that the request is allowed. Returns the worker's pid."""
        known = set(procfs.children(self.process.pid))
        answer = self.ask(*arguments, **keywords)
        assert answer == "opened", answer
        new = set(procfs.children(self.process.pid)) - known
        self.pidfds = self.fds
        self.fds = []
        return next(pid for pid in new if "worker" in procfs.command_line(pid))

    def wait_until_ready(self):
        """Waits until both processes of the last cell have reported that they are ready."""
        for up, _ in self.kept[-1]:
            assert HEADER.unpack(os.read(up, HEADER.size))[1] == READY

    def ends(self):
        """Returns whether the spawner hangs up and exits with an error."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                self.receive()
        return self.process.wait(120) != 0

    def stop(self):
        self.socket.close()
        self.process.wait(120)
        for complaint in ("Sanitizer", "runtime error:"):
            assert complaint not in self.log(), self.log()


class Place:
    """The files of a host: a root-owned configuration, state with managed workspaces, roots of two tenants."""

    def __init__(self, area):
        self.area, self.account = area, area.account
        self.account.give_ids()
        self.top = area.new_directory("host")
        self.state = self.directory("state/workspaces")
        self.roots = {name: self.directory("roots-" + name) for name in "ab"}
        for path in (self.top, *self.roots.values()):
            os.chown(path, 0, 0)
        self.config = self.directory("etc") / "cloister.conf"
        os.chown(self.config.parent, 0, 0)
        self.write()

    def write(self, roots=("a", "b"), memory="1G"):
        text = "[cloister]\nmode = system\n"
        for name in roots:
            text += (f"[tenant {name}]\nusers = 1\nroots = {self.roots[name]}\nworkspace_memory = {memory}\n"
                     "workspace_processes = 200\ncpu_max = 150%\ntmp_size = 32M\nfile_size = 64M\n")
        text += "[tenant m]\nusers = 1\nmanaged = yes\n"
        self.config.write_text(text)

    def directory(self, name):
        path = self.top / name
        path.mkdir(parents=True, mode=0o755)
        os.chown(path, self.account.uid, self.account.gid)
        return path

    def owned(self, path, uid=None, gid=None):
        path.mkdir(mode=0o700)
        if uid is None:
            self.account.give_away(path)
        else:
            os.chown(path, uid, uid if gid is None else gid)
        return path

    def numbered(self, path, n):
        """Makes a directory with the id @n of the range."""
        return self.owned(path, self.account.first + n, self.account.first_gid + n)


@pytest.fixture
def place(area):
    return Place(area)


@pytest.fixture
def begin(place):
    started = []

    def run():
        started.append(Spawner(place.area, str(place.config), place.state))
        return started[-1]

    yield run
    for spawner in started:
        spawner.stop()


@pytest.fixture
def spawner(begin):
    made = begin()
    assert made.receive()[0] == UNSHARED
    made.map_ids()
    assert made.receive()[0] == READY, made.log()
    return made


UNLIMITED = {"cpu": 150}  # where cpu_max is set, all CPUs are beyond it


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
        for fd in (directory, pipe[0] if position % 2 == 0 else spawner.socket.fileno()):
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
    account = place.account
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
    {"open_files": 4097}], ids=str)
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
            for fd in (directory, plain, pipe[0] if position % 2 else unconnected.fileno()):
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
    spawner = begin()
    assert spawner.receive()[0] == UNSHARED
    spawner.map_ids()
    assert spawner.receive()[0] == READY, spawner.log()
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


def test_no_archive_of_cloister_s_own_state_is_unpacked(place, spawner):
    """But of the self-test's workspace for the self-test's own tenant: neither gets what the other has."""
    def put(*names):
        path = place.directory("state/workspaces/" + "/".join(names)) / "a"
        path.write_bytes(archive(entry("f", content=b"x")))
        os.chown(path, place.account.uid, place.account.gid)
        return path

    place.directory("state/workspaces/m")
    place.directory("state/workspaces/.selftest")
    plain, canary = put("m", "w"), put(".selftest", "canary")
    outside = place.directory("host-files") / "a"
    outside.write_bytes(plain.read_bytes())
    assert spawner.unpack(outside, b"m") == "copied"
    assert spawner.unpack(canary, b".selftest") == "copied"
    for path, tenant in ((plain, b"m"), (plain, b".selftest"), (canary, b"m"), (place.state / "a", b".selftest")):
        if not path.exists():
            path.write_bytes(plain.read_bytes())
        assert spawner.unpack(path, tenant) == (REFUSED, "it is part of cloister's own state"), (path, tenant)
    link = canary.with_name("link")
    link.symlink_to(plain)
    assert spawner.unpack(link, b".selftest") == (REFUSED, "it is part of cloister's own state")


def test_no_home_of_another_is_given_or_removed(place, begin):
    """cloisterd names no home; it can only report that a workspace is gone, and that is looked at."""
    os.chown(place.top / "state", place.account.uid, place.account.gid)
    place.config.write_text(place.config.read_text() + "home = kept\n")
    spawner = begin()
    assert spawner.receive()[0] == UNSHARED
    spawner.map_ids()
    assert spawner.receive()[0] == READY, spawner.log()
    place.directory("state/workspaces/m")
    made = [place.directory(f"state/workspaces/m/{name}") for name in ("v", "w")]
    for path in made:
        spawner.opens(path, MANAGED, tenant=b"m")
    homes = place.top / "state" / "homes" / "m"
    assert {path.name: path.stat().st_uid for path in homes.iterdir()} == {path.name: path.stat().st_uid for path in made}
    # As the workspace of a tenant above whose root it lies.
    place.roots["a"] = place.top
    place.write()
    spawner.send(RELOAD)
    assert spawner.refuses(homes / "v", tenant=b"a", **UNLIMITED) == "the directory is part of cloister's own state"

    def removed(tenant, name):
        spawner.send(REMOVED, payload=struct.pack("<BBI", 0, 0, len(tenant)) + tenant
                     + struct.pack("<I", len(name)) + name)

    for tenant, name in [(b"m", b"w"), (b"m", b"."), (b"m", b".."), (b"m", b"../m/w"), (b"..", b"workspaces"),
                         (b".", b"m"), (b"", b"m"), (b"m", b""), (b"m/w", b"x"), (b"m", b":"), (b"m", b"n" * 300)]:
        removed(tenant, name)
    spawner.refuses(homes, tenant=b"a", **UNLIMITED)  # and so all of that was read
    assert {path.name for path in homes.iterdir()} == {"v", "w"}
    made[1].rmdir()
    removed(b"m", b"w")
    assert procfs.eventually(lambda: {path.name for path in homes.iterdir()} == {"v"})
    spawner.send(REMOVED, payload=b"x")
    assert spawner.ends()


@pytest.mark.skipif(RELEASE < (6, 6), reason="a tmpfs with mapped ids and attributes needs Linux 6.6")
def test_only_templates_of_the_tenant_are_in_memory(place, begin):
    """cloisterd names a tenant and a template. What a fork lies above is of the tenant whose workspace it is, and no more
    is loaded than the configuration allows."""
    place.config.write_text("[cloister]\nmode = system\ntemplate_memory = 16M\n" + "".join(
        f"[tenant {name}]\nusers = 1\nmanaged = yes\ntemplate_memory = {size}\n" for name, size in (("m", "8M"), ("n", "8M"), ("o", 0))))
    spawner = begin()
    assert spawner.receive()[0] == UNSHARED
    spawner.map_ids()
    assert spawner.receive()[0] == READY, spawner.log()

    def directory(name):
        return place.top / name if (place.top / name).exists() else place.directory(name)

    def template(tenant, name, size=10):
        for path in ("state/templates", f"state/templates/{tenant}"):
            directory(path)
        path = directory(f"state/templates/{tenant}/{name}")
        (path / "f").write_bytes(b"x" * size)
        os.chown(path / "f", place.account.uid, place.account.gid)
        return path

    def workspace(tenant, name):
        for path in (f"state/workspaces/{tenant}", f"state/workspaces/{tenant}/.layers-{name}",
                     f"state/workspaces/{tenant}/.layers-{name}/1-0"):
            directory(path)
        return directory(f"state/workspaces/{tenant}/{name}")

    def load(tenant, name):
        """0 or the errno of the answer."""
        spawner.cell += 1
        spawner.send(LOAD, spawner.cell, struct.pack("<BBI", 1, 0, len(tenant)) + tenant + struct.pack("<I", len(name)) + name)
        kind = WORKED
        while kind == WORKED:  # what it tells on its own
            kind, cell, said = spawner.receive()
        assert (kind, cell) == (COPIED, spawner.cell)
        return struct.unpack("<I", said[-4:])[0]

    def opened(tenant, name, below):
        answer = spawner.ask(workspace(tenant, name), MANAGED, tenant=tenant.encode(), template=below)
        spawner.pidfds, spawner.fds = spawner.fds, []
        return "opened" if answer == "opened" else answer[0]

    template("m", "t")
    template("n", "u", 7 << 20)
    template("n", "v", 7 << 20)
    os.chown(template("m", "foreign"), place.account.first + 5, place.account.first_gid + 5)
    (place.state.parent / "templates/m/link").symlink_to("../n/u")
    # Nothing is in memory yet, and a message that asked for it first is not believed to have come.
    assert opened("m", "early", b"t") == errno.ENOMEDIUM
    assert load(b"m", b"t") == 0 and load(b"m", b"t") == 0
    assert opened("m", "w", b"t") == "opened"
    (space,) = [pid for pid in procfs.children(spawner.process.pid) if procfs.name(pid) == "cloister-layers"]
    owner = (place.state / "m" / "w").stat().st_uid
    assert open(f"/proc/{space}/uid_map").read().split() == ["1000", str(owner), "1"] and owner != place.account.uid
    # What is in memory is not what has its name now: a cell does not lie above it, whatever cloisterd asks for before.
    templates = place.top / "state/templates/m"
    template("m", "next")
    (templates / "t").rename(templates / "before")
    (templates / "next").rename(templates / "t")
    assert opened("m", "late", b"t") == errno.ENOMEDIUM
    assert load(b"m", b"t") == 0 and opened("m", "later", b"t") == "opened"
    # Another tenant's, by the tenant that the message names and by where the workspace is.
    assert opened("n", "w", b"t") == errno.ENOENT
    assert spawner.ask(workspace("n", "x"), MANAGED, tenant=b"m", template=b"t") != "opened"
    assert [load(b"n", b"t"), load(b"none", b"t"), load(b"o", b"t"), load(b"m", b"foreign"), load(b"m", b"link")] == \
        [errno.ENOENT, errno.EOPNOTSUPP, errno.EOPNOTSUPP, errno.EPERM, errno.ELOOP]
    assert load(b"n", b"u") == 0 and load(b"n", b"v") == errno.ENOSPC
    for tenant, name in ((b"..", b"t"), (b"m/..", b"t"), (b"", b"t"), (b"m", b"../n/u"), (b"m", b""), (b"m", b".x")):
        other = begin()
        assert other.receive()[0] == UNSHARED
        other.map_ids()
        assert other.receive()[0] == READY, other.log()
        other.send(LOAD, 1, struct.pack("<BBI", 1, 0, len(tenant)) + tenant + struct.pack("<I", len(name)) + name)
        assert other.ends(), (tenant, name)


def test_only_layers_of_one_workspace_are_folded(place, begin):
    """cloisterd names a tenant, a workspace and three numbers; whose the layers are is looked at."""
    spawner = begin()
    assert spawner.receive()[0] == UNSHARED
    spawner.map_ids()
    assert spawner.receive()[0] == READY, spawner.log()
    tenant = place.directory("state/workspaces/m")

    def layers(name, low=5, high=5):
        path = place.directory(f"state/workspaces/m/{name}")
        for layer, n in (("1-0", low), ("2-1", high)):
            place.numbered(place.directory(f"state/workspaces/m/{name}/{layer}") / "u", n)
            (path / layer / "u" / layer).write_text(layer)
            os.chown(path / layer / "u" / layer, place.account.first + n, place.account.first_gid + n)
        return path

    good, _, _, linked = (layers(f".layers-{name}", high=high) for name, high in (("w", 5), ("other", 6), ("x", 5), ("l", 5)))
    os.chown(tenant / ".layers-x", place.account.first + 5, place.account.first_gid + 5)
    (linked / "2-1" / "u").rename(linked / "u")
    (linked / "2-1" / "u").symlink_to("../u")
    (tenant / ".layers-link").symlink_to(".layers-w")
    layers("w")

    def fold(name, path):
        spawner.send(FOLD, payload=struct.pack("<BBI", 0, 0, len(name)) + name + struct.pack("<I", len(path)) + path)

    for name, path in [(b"..", b".layers-w/2-1-0"), (b"m/.", b".layers-w/2-1-0"), (b"", b".layers-w/2-1-0"),
                       (b"m", b"w/2-1-0"), (b"m", b".layers-w/../w/2-1-0"), (b"m", b".layers-w/2-1"),
                       (b"m", b".layers-w/1-2-0"), (b"m", b".layers-w/02-1-0"), (b"m", b".layers-w/2-1-0/"),
                       (b"m", b".layers-" + b"n" * 250 + b"/2-1-0"), (b"m", b".layers-none/2-1-0"), (b"m", b".layers-w/3-2-1"),
                       (b"m", b".layers-other/2-1-0"), (b"m", b".layers-x/2-1-0"), (b"m", b".layers-l/2-1-0"),
                       (b"m", b".layers-link/2-1-0")]:
        fold(name, path)
    fold(b"m", b".layers-w/2-1-0")
    assert procfs.eventually(lambda: (good / "folded-2-1-0").exists()), spawner.log()
    made = good / "folded-2-1-0" / "u"
    assert {path.name: path.stat().st_uid - place.account.first for path in (made, *made.iterdir())} == {
        "u": 5, "1-0": 5, "2-1": 5}
    assert made.stat().st_mode & 0o7777 == 0o700 and made.parent.stat().st_uid == place.account.uid
    assert [path for pattern in ("folded-*", ".dropped-*") for path in place.top.rglob(pattern)] == [made.parent]
    assert "were not made one" not in spawner.log()  # nothing was begun
    spawner.send(FOLD, payload=b"x")
    assert spawner.ends()


PORT = 18129


def namespace_of(each):
    """The inode of a socket's network namespace: ioctl(2) SIOCGSKNS."""
    fd = fcntl.ioctl(each, 0x894c)
    try:
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def is_diag(fd):
    with socket.socket(fileno=os.dup(fd)) as each:
        return (each.family, each.proto) == (socket.AF_NETLINK, 4)  # NETLINK_SOCK_DIAG


def check_sockets(fds, path, worker):
    """The descriptors are the sockets of the workspace's own namespace and id, and nothing more."""
    own = os.stat(f"/proc/{worker}/ns/net").st_ino
    *fds, ports = fds
    assert is_diag(ports)
    os.close(ports)
    names = [("0.0.0.0", PORT), ("127.0.0.1", 53), ("127.1.0.1", 80), ("127.1.0.1", 443), ("127.0.0.1", 53)]
    assert len(fds) == len(names)
    for i, (fd, name) in enumerate(zip(fds, names)):
        with socket.socket(fileno=fd) as each:
            assert each.type == (socket.SOCK_DGRAM if i == 1 else socket.SOCK_STREAM)
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == (0 if i == 1 else 1)
            assert each.getsockname() == name
            assert os.fstat(fd).st_uid == os.stat(path).st_uid
            assert namespace_of(each) == own != os.stat("/proc/self/ns/net").st_ino


@pytest.fixture
def network_spawner(place, begin):
    """A spawner for whose tenant a there is a network."""
    place.config.write_text(place.config.read_text().replace("[tenant a]\n", "[tenant a]\nnetwork = egress\n"))
    made = begin()
    assert made.receive()[0] == UNSHARED
    made.map_ids()
    assert made.receive()[0] == READY, made.log()
    return made


def test_sockets_are_for_tenants_with_a_network(place, network_spawner):
    spawner = network_spawner
    of_a, of_b = place.owned(place.roots["a"] / "one"), place.owned(place.roots["b"] / "one")
    for tenant in (b"b", b"", b"none"):
        reason = spawner.refuses(of_b, tenant=tenant, proxy_port=PORT, **UNLIMITED)
        assert "no network" in reason or "no tenant" in reason
    spawner.opens(of_b, tenant=b"b", **UNLIMITED)
    assert len(spawner.pidfds) == 3 and is_diag(spawner.pidfds[2])
    worker = spawner.opens(of_a, tenant=b"a", proxy_port=PORT, **UNLIMITED)
    check_sockets(spawner.pidfds[2:], of_a, worker)


def test_the_sockets_of_a_spare_cell(place, network_spawner):
    """It goes with its kind of tenant only, and comes up with the assignment."""
    spawner = network_spawner
    of_a, of_b = place.owned(place.roots["a"] / "one"), place.owned(place.roots["b"] / "one")
    assert spawner.prepare(tenant=b"b", proxy_port=PORT)[0] == REFUSED
    spawner.fds = []
    for path, tenant, made, wanted in ((of_b, b"b", PORT, 0), (of_a, b"a", 0, PORT), (of_b, b"b", PORT, PORT)):
        assert spawner.prepare(tenant=b"a", proxy_port=made) == "opened"
        error, reason = spawner.assign(path, spawner.pidfds[0], tenant=tenant, proxy_port=wanted)
        assert error == REFUSED and "network" in reason
    assert spawner.prepare(tenant=b"a", proxy_port=PORT) == "opened"
    assert len(spawner.pidfds) == 2
    assert spawner.assign(of_a, spawner.pidfds[0], tenant=b"a", proxy_port=PORT) == "assigned"
    check_sockets(spawner.sockets, of_a, procfs.pid_of(spawner.pidfds[0]))


def test_the_self_test_has_no_network_of_its_own(spawner, request):
    assert spawner.prepare(tenant=b".selftest-egress", proxy_port=PORT)[0] == REFUSED
    with_network = request.getfixturevalue("network_spawner")
    assert with_network.prepare(tenant=b".selftest", proxy_port=PORT)[0] == REFUSED
    assert with_network.prepare(tenant=b".selftest-egress", proxy_port=PORT) == "opened"


SHARED = {"shared_network": 1, **UNLIMITED}


@pytest.fixture
def sharing_spawner(place, begin):
    """A spawner whose tenants a and m share a network namespace each, and whose tenant b does not."""
    text = place.config.read_text()
    for name in "am":
        text = text.replace(f"[tenant {name}]\n", f"[tenant {name}]\nnetwork_namespace = shared\n")
    place.config.write_text(text)
    made = begin()
    assert made.receive()[0] == UNSHARED
    made.map_ids()
    assert made.receive()[0] == READY, made.log()
    return made


def network_of(pid):
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def test_a_shared_network_namespace_is_the_tenants(place, sharing_spawner):
    """Whatever cloisterd asks, no cell is in the namespace of a tenant that has not its directory, or not the key."""
    spawner = sharing_spawner
    of_a, also_of_a, of_b = (place.owned(place.roots[name[0]] / name) for name in ("a-one", "a-two", "b-one"))
    place.directory("state/workspaces/m")
    of_m = place.directory("state/workspaces/m/w")
    for path, tenant in ((of_b, b"b"), (of_b, b"a"), (of_a, b"b"), (of_a, b"none"), (of_a, b"m"), (of_b, b"m")):
        reason = spawner.refuses(path, tenant=tenant, **SHARED)
        assert "no shared network namespace" in reason or "no tenant" in reason, (path, tenant, reason)
    workers = [spawner.opens(path, kind, tenant=tenant, **SHARED)
               for path, kind, tenant in ((of_a, DIRECTORY, b"a"), (of_m, MANAGED, b"m"), (also_of_a, DIRECTORY, b"a"))]
    first, managed, second = map(network_of, workers)
    assert first == second != managed and os.stat("/proc/self/ns/net").st_ino not in (first, managed)
    # cloisterd gets no socket of such a namespace.
    assert len(spawner.pidfds) == 2


def test_a_spare_cell_stays_in_its_tenants_network_namespace(place, sharing_spawner):
    spawner = sharing_spawner
    of_a, of_b = place.owned(place.roots["a"] / "one"), place.owned(place.roots["b"] / "one")
    assert spawner.prepare(tenant=b"b", shared_network=1)[0] == REFUSED
    for path, tenant, made_for, made, wanted in (
            (of_b, b"b", b"a", 1, 0), (of_a, b"a", b"a", 1, 0), (of_a, b"a", b"a", 0, 1), (of_a, b"a", b"m", 1, 1)):
        assert spawner.prepare(tenant=made_for, shared_network=made) == "opened"
        error, reason = spawner.assign(path, spawner.pidfds[0], tenant=tenant, shared_network=wanted)
        assert error == REFUSED and "network" in reason, (tenant, made_for, reason)
    assert spawner.prepare(tenant=b"a", shared_network=1) == "opened"
    assert spawner.assign(of_a, spawner.pidfds[0], tenant=b"a", shared_network=1) == "assigned"
    assert spawner.sockets == []


@pytest.mark.parametrize("words", [{"proxy_port": PORT, "tenant": b"a"}, {"tenant": b""}])
def test_a_shared_network_namespace_without_its_tenant_is_no_request(place, sharing_spawner, words):
    pairs = [socket.socketpair() for _ in range(2)]
    pipes = [os.pipe() for _ in range(2)]
    sharing_spawner.send(PREPARE, 1, asked(shared_network=1, **words),
                         [pairs[0][1].fileno(), pipes[0][1], pairs[1][1].fileno(), pipes[1][1]])
    assert sharing_spawner.ends()
    for fd in (fd for pipe in pipes for fd in pipe):
        os.close(fd)
