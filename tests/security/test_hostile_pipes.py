# SPDX-License-Identifier: Apache-2.0
"""Commands, and processes that were taken over, which hold the kernel's lock of what they share with cloisterd.

write(2) and read(2) on a pipe copy to and from the memory of the caller with the pipe's mutex held. Whoever touches the
same pipe meanwhile waits, O_NONBLOCK or not. A page fault in that memory takes as long as a command likes: until a file
system answers, or until a sibling that was starved gives up the lock of the address space. pipe(7)
"""

import contextlib
import os
import pathlib
import platform
import signal
import subprocess

import pytest

import procfs
from daemon import BUILD, Area, Daemon
from silent_fs import FuseMount

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount and to make users"),
              pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse")]

HANG = 120  # no condition takes longer

# Maps a page that a silent file system has, before and behind pages that are there. The whole is 32 pages long.
PRELUDE = """
import ctypes, mmap, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.write.argtypes = libc.read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
all = libc.mmap(None, 32 * 4096, 3, 0x22, -1, 0)  # PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS
ctypes.memset(all, 121, 32 * 4096)
def withheld(number):
    "Returns the address of page @number, which is withheld from now on."
    return libc.mmap(all + number * 4096, 4096, 3, 0x12, os.open("page", os.O_RDONLY), 0)  # MAP_FIXED
"""
ATTACKS = {
    # cloisterd reads what has filled the pipe, and then what follows.
    "stdout": ("withheld(20); libc.write(1, all, 32 * 4096)", {}),
    "stderr": ("withheld(20); libc.write(2, all, 32 * 4096)", {}),
    # Something is there, but the writer has not woken cloisterd, which looks when the time is over.
    "silence": ("withheld(1); libc.write(1, all, 32 * 4096)", {"idle_timeout_ms": 300}),
    "input": ("withheld(0); libc.read(0, all, 4096)", {"stdin_stream": True}),
}


def python(script):
    return "exec python3 -c '" + script.replace("'", '"') + "'"


class Attack:
    """A workspace of the first tenant in a file system that withholds pages, and clients of the second tenant."""

    def __init__(self, start_daemon, area, tenants):
        top = area.new_directory("tree")
        (top / "fuse").mkdir()
        area.account.own(top / "fuse")
        self.fuse = FuseMount(top / "fuse", area.account.uid)
        config = "[cloister]\nagent_socket_mode = 0666\n"
        for name, user in zip("ab", tenants):
            config += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nroots = {top}\n"
        self.daemon = start_daemon(config=config)
        self.victim = self.daemon.connect(tenants[1])
        self.victim.call("workspace.open", {"workspace": "w"})
        self.attacker = self.daemon.connect(tenants[0])
        self.attacker.call("workspace.open", {"root": str(self.fuse.point / "ws")})
        self.attacker.run("true")
        self.fuse.withhold()

    def begin(self, name):
        """Begins a command, while another tenant has calls, until it waits for its page. Returns the call's number."""
        script, options = ATTACKS[name]
        arguments = {"command": python(PRELUDE + script), "timeout_ms": 600000}
        number = self.attacker.begin("run_command", arguments, options or None)
        if name == "input":
            self.attacker.request("tool.input", {"id": number, "data": "some"})
        while self.fuse.held() == 0:
            self.go_on()
            with contextlib.suppress(TimeoutError):
                if name == "silence" and self.attacker.receive_any(timeout=0.001)["id"] == number:
                    # The interpreter's start took longer than the time of silence.
                    number = self.attacker.begin("run_command", arguments, options)
        if name == "input":
            self.attacker.request("tool.input", {"id": number, "data": "more"})
        return number

    def go_on(self):
        assert self.victim.run("echo here")["stdout"] == "here\n"
        self.victim.use("write_file", path="f", content="x")


@pytest.fixture
def attack(start_daemon, area, tenants):
    made = Attack(start_daemon, area, tenants)
    yield made
    made.fuse.end()


@pytest.mark.parametrize("name", ATTACKS)
def test_a_pipe_that_is_held(attack, name):
    """No other tenant waits, and nothing is lost if the page comes after all."""
    number = attack.begin(name)
    for _ in range(20):
        attack.go_on()
    attack.fuse.answer()
    observation = attack.attacker.result(number, timeout=HANG)
    assert observation["error"] is None or name == "silence", observation
    attack.go_on()
    assert attack.daemon.stop() == 0


@pytest.mark.deep("slow")
def test_a_pipe_that_is_held_for_too_long(attack):
    """Its workspace's processes are ended, which lets the lock go."""
    number = attack.begin("stdout")
    answer = None
    while not answer:
        attack.go_on()
        with contextlib.suppress(TimeoutError):
            answer = attack.attacker.receive_any(timeout=0.05)
    assert answer["id"] == number
    assert answer["result"]["error"]["code"] == "WORKER_LOST"
    assert "lock of a pipe" in answer["result"]["error"]["message"]
    assert procfs.eventually(lambda: attack.attacker.observe("run_command", {"command": "echo again"})["success"], HANG)
    assert attack.daemon.stop() == 0


# Processes that were taken over. A worker and a files process have the other ends of cloisterd's channels, and a worker also
# that of the gate of a call with a key.
TAKEN_OVER = """
be_ready()
kind, call, payload, fds = request(COMMAND_RUN, FILES_READ)
import os
import pathlib
os.chdir(workspace + "/fuse")
""" + PRELUDE
UP = """
note("asked")
while not os.path.exists("../go"): time.sleep(0.01)
ctypes.memmove(all, frame(%s, 7, length=PAYLOAD_MAX), HEADER.size)
withheld(1)
libc.write(UP, all, 4096)  # which wakes cloisterd
libc.write(UP, all, 2 * 4096)
"""
# A pipe could be opened again, and written to. A socket can only be read.
GATE = """
try:
    gate = os.open(f"/proc/self/fd/{fds[-1]}", os.O_WRONLY)
    withheld(1); libc.write(gate, all, 2 * 4096)
except OSError:
    note("a socket"); withheld(0); libc.read(fds[-1], all, 1)
"""


class TakenOver:
    """A cloisterd with a workspace of which a process lies, and another workspace."""

    def __init__(self, account, **keywords):
        self.place = Area(account)
        self.place.take_liars()
        self.root = self.place.new_directory()
        self.put("x", "line\n")
        (self.root / "fuse").mkdir()
        account.own(self.root / "fuse")
        self.fuse = FuseMount(self.root / "fuse", account.uid)
        self.daemon = Daemon(self.place, **keywords)
        self.victim, self.liar = self.daemon.connect(), self.daemon.connect()
        self.victim.call("workspace.open", {"root": str(self.place.new_directory())})
        self.victim.use("write_file", {"key": "first"}, path="f", content="x")

    def put(self, name, content):
        (self.root / name).write_text(content)
        self.place.account.own(self.root / name)

    def begin(self, process, lie, *call):
        self.put(f".lie-{process}", TAKEN_OVER + lie + "\nwait()")
        self.liar.call("workspace.open", {"root": str(self.root)})
        self.fuse.withhold()
        self.liar.begin(*call)

    def holds(self):
        return procfs.eventually(lambda: self.fuse.held() > 0, HANG)

    def end(self, descriptors=None):
        """The others go on, while the lock is held and afterwards. cloisterd has no more @descriptors than before."""
        for number in range(20):
            assert self.victim.run("echo here", {"key": f"key{number}"})["stdout"] == "here\n"
        self.fuse.answer()
        self.victim.run("true")
        assert descriptors is None or procfs.eventually(lambda: len(procfs.fds(self.daemon.pid)) <= descriptors + 16, HANG)
        assert self.daemon.stop() == 0


@pytest.fixture
def taken_over(account, request):
    made = TakenOver(account, **getattr(request, "param", {}))
    yield made
    made.fuse.end()
    made.daemon.stop()
    made.place.remove()


@pytest.mark.parametrize("process, type, call", [
    ("worker", "COMMAND_ENDED", ("run_command", {"command": "true"})), ("files", "FILES_END", ("read_file", {"path": "x"}))])
def test_a_channel_that_is_held(taken_over, process, type, call):
    """The process waits for a page within a write(2) to cloisterd, which has something to read already."""
    taken_over.begin(process, UP % type, *call)
    assert procfs.eventually((taken_over.root / f".note-{process}").exists, HANG)
    os.kill(taken_over.daemon.pid, signal.SIGSTOP)
    taken_over.put("go", "")
    held = taken_over.holds()
    os.kill(taken_over.daemon.pid, signal.SIGCONT)
    assert held
    taken_over.end()


def test_a_gate_that_is_held(taken_over):
    """The worker has a call's gate before the journal's thread opens it, which is in its write(2) to the journal meanwhile."""
    number = {"x86_64": 18, "aarch64": 68}[platform.machine()]  # pwrite64
    thread, = [task for task in os.listdir(f"/proc/{taken_over.daemon.pid}/task")
               if pathlib.Path(f"/proc/{taken_over.daemon.pid}/task/{task}/comm").read_text() == "journal\n"]
    holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", thread, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"ready\n"
    taken_over.begin("worker", GATE, "run_command", {"command": "true"}, {"key": "k"})
    assert holder.stdout.readline() == b"held\n"
    note = taken_over.root / ".note-worker"
    assert procfs.eventually(lambda: taken_over.fuse.held() > 0 or note.exists(), HANG)
    holder.stdin.close()
    assert holder.wait(HANG) == 0
    assert taken_over.holds()
    taken_over.end()


@pytest.mark.parametrize("taken_over", [{}, {"without": "passrights"}], ids=["refused", "left"], indirect=True)
def test_descriptors_that_are_sent_up(taken_over, request):
    """The kernel refuses them; before Linux 6.16 cloisterd does not receive them, and ends the process."""
    before = len(procfs.fds(taken_over.daemon.pid))
    taken_over.begin("worker", """
up = socket.socket(fileno=os.dup(UP))
try: socket.send_fds(up, [frame(COMMAND_ENDED, call, command_ended())], [os.open(".", os.O_RDONLY)] * 100)
except PermissionError: send(frame(COMMAND_ENDED, call, command_ended()))
""", "run_command", {"command": "true"})
    error = taken_over.liar.receive_any(HANG)["result"]["error"]
    assert (error and error["code"]) == (None if request.node.callspec.id == "refused" else "WORKER_LOST")
    taken_over.end(before)
