# SPDX-License-Identifier: Apache-2.0
"""Commands that hold the kernel's lock of a pipe that they share with cloisterd.

write(2) and read(2) on a pipe copy to and from the memory of the caller with the pipe's mutex held. Whoever touches the
same pipe meanwhile waits, O_NONBLOCK or not. A page fault in that memory takes as long as a command likes: until a file
system answers, or until a sibling that was starved gives up the lock of the address space. pipe(7)
"""

import contextlib
import os

import pytest

import procfs
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
