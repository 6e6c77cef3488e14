# SPDX-License-Identifier: Apache-2.0
"""A cloisterd that was taken over: the test plays it. The spawner is the real one, with real id maps, and so is the host
with its configuration and state."""

import array
import contextlib
import os
import pathlib
import socket
import struct
import subprocess

import pytest

import procfs
from daemon import environment
from wire import socket_pair

# common/wire/wire.h and common/wire/wire_spawner.h
HEADER = struct.Struct("<BBHIQ")
(OPEN, OPEN_FILES, PREPARE, ASSIGN, MAPPED, RELOAD, LOOK_UP, REMOVED, DROPPED, FREEZE, FORK, LET_GO, IMPORT, UNPACK, BESIDE,
 FOLD, MEASURE, LOAD) = range(1, 19)
READY, FAILED, OPENED, OPEN_FAILED, ASSIGNED, FILES_OPENED, UNSHARED, LOOKED_UP, COPIED, WORKED, WAITS = range(32, 43)
MANAGED, DIRECTORY, ROOTFS = 1, 2, 3
REFUSED = 129  # EKEYREJECTED
SOCKETS = 5  # CELL_SOCKETS_LEAST; every cell has one more, by which it is asked for ports
MIB = 1 << 20
LIMITS = {"memory": 512 * MIB, "processes": 100, "cpu_weight": 100, "cpu": 0, "io_weight": 100, "tmp": 16 * MIB,
          "file_size": 16 * MIB, "data": 0, "open_files": 1024, "watches": 8192, "proxy_port": 0, "kept": 0, "layers": 0}
UNLIMITED = {"cpu": 150}  # where cpu_max is set, all CPUs are beyond it


def asked(kind=DIRECTORY, tenant=b"", as_root=0, root_inside=0, template=b"", shown_at=b"", **limits):
    """struct spawner_open. With a template there are the layers of a new fork."""
    numbers = (0, 1) if template else ()
    limits = {**LIMITS, **limits, "layers": len(numbers)}
    return (struct.pack("<BQIIIIQQQIIIQB", kind, *limits.values()) + struct.pack(f"<{len(numbers)}II", *numbers, len(template))
            + template + struct.pack("<I", len(shown_at)) + shown_at + struct.pack("<BBI", as_root, root_inside, len(tenant)) + tenant)


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

    def come_up(self):
        """Takes its part in a start, until the spawner is ready. Returns the spawner."""
        assert self.receive()[0] == UNSHARED
        self.map_ids()
        assert self.receive()[0] == READY, self.log()
        return self

    def ask(self, root, kind=DIRECTORY, swap=None, tenant=b"", **limits):
        """Asks for a cell at @root, a path or a descriptor. "opened", or (errno, step)."""
        pairs = [socket.socketpair() for _ in range(2)]
        ups = [socket_pair() for _ in range(2)]
        opened = root if isinstance(root, int) else os.open(root, os.O_PATH)
        fds = [opened, pairs[0][1].fileno(), ups[0][1], pairs[1][1].fileno(), ups[1][1]]
        for place, fd in (swap or {}).items():
            fds[place] = fd
        self.cell += 1
        self.send(OPEN, self.cell, asked(kind, tenant, **limits), fds)
        answer = self.answer(2 + self.sockets_of(limits))
        for pair in pairs:
            pair[1].close()
        for up in ups:
            os.close(up[1])
        if not isinstance(root, int):
            os.close(opened)
        self.kept = getattr(self, "kept", []) + [pairs, ups]
        return answer

    @staticmethod
    def sockets_of(limits):
        """How many sockets come with such a cell."""
        return (SOCKETS if limits.get("proxy_port") else 0) + 1

    def answer(self, n_pidfds):
        kind, cell, said = self.receive()
        while kind == WAITS:  # its answer follows
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
        pair, up, opened = socket.socketpair(), socket_pair(), os.open(root, os.O_PATH)
        self.cell += 1
        self.send(OPEN_FILES, self.cell, asked(**UNLIMITED), [opened, worker, pair[1].fileno(), up[1]])
        answer = self.answer(1)
        pair[1].close()
        os.close(up[1])
        os.close(opened)
        self.kept += [pair, up]
        return answer

    def prepare(self, swap=None, tenant=b"", **limits):
        """Asks for a spare cell. Returns "opened" with its pidfds, or (errno, step)."""
        pairs = [socket.socketpair() for _ in range(2)]
        ups = [socket_pair() for _ in range(2)]
        fds = [pairs[0][1].fileno(), ups[0][1], pairs[1][1].fileno(), ups[1][1]]
        for place, fd in (swap or {}).items():
            fds[place] = fd
        self.cell += 1
        self.send(PREPARE, self.cell, asked(tenant=tenant, **{**UNLIMITED, **limits}), fds)
        answer = self.answer(2)
        for pair, up in zip(pairs, ups):
            pair[1].close()
            os.close(up[1])
        self.kept = getattr(self, "kept", []) + [pairs, ups]
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
    return begin().come_up()
