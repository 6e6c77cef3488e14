# SPDX-License-Identifier: Apache-2.0
"""How `cloisterd --take-over` begins: what it finds, what makes it fail, which leaves the old daemon serving, and whom it
tells. And the line of the packages' ExecReload=, which replaces a cloisterd whose program was replaced."""

import contextlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading

import pytest

import procfs
from cloister_client import acting_as
from daemon import AM_ROOT, BUILD, environment
from generations import (ASK, GIVEN, GO, begin, ended, generations_fixture, go, hear, opened, replace_program,
                         runs, say, status, talk)


def test_a_new_daemon_one_that_dies_before_it_serves(generations, area):
    """The old daemon goes on as if nothing had been."""
    first = generations(host="audit = required")
    client = opened(first, area.new_directory())
    with talk(first) as new_daemon:
        say(new_daemon, ASK)
        kind, fds = hear(new_daemon)
        assert kind == GIVEN and len(fds) >= 4
        refused = client.observe("run_command", {"command": "true"})
        assert refused["error"]["code"] == "BUSY"
        for fd in fds:
            os.close(fd)
    assert procfs.eventually(lambda: client.observe("run_command", {"command": "true"})["success"])
    with opened(first, area.new_directory()) as newcomer:
        assert newcomer.observe("run_command", {"command": "true"}, {"key": "k"})["success"]
    second = generations(former=first, host="audit = required")
    assert ended(first) == 0 and second.process.poll() is None
    log = first.state / "audit" / "audit.log"
    assert second.stop() == 0
    assert area.run("cloisterctl", "audit", "verify", str(log)).returncode == 0


@pytest.mark.parametrize("words", [b"", b"x", struct.pack("=2I5Q", 1, ASK, *[0] * 5)])
def test_descriptors_that_nobody_expects(generations, words):
    """They are closed. A few hundred such talks would leave none for clients."""
    first = generations()
    with acting_as(os.getuid()):
        before = len(procfs.fds(first.pid))
    with open("/dev/null", "rb") as null:
        for _ in range(10):
            with talk(first) as link:
                socket.send_fds(link, [words], [null.fileno()] * 16)
                assert hear(link) == (None, [])
    with acting_as(os.getuid()):
        assert procfs.eventually(lambda: len(procfs.fds(first.pid)) <= before)


def test_there_is_nothing_to_take_over(area):
    place = area.new_directory("none")
    done = area.run("cloisterd", "--agent-socket", str(place / "a"), "--state-dir", str(place / "state"), "--take-over")
    assert done.returncode == 1
    assert b"no cloisterd uses this state directory; start without --take-over" in done.stderr


def test_another_name_of_the_socket(generations, area):
    first = generations()
    done = area.run("cloisterd", "--agent-socket", str(first.path / "other"), "--state-dir", str(first.state), "--take-over")
    assert done.returncode == 1 and b"is not a listening Unix socket called" in done.stderr
    assert procfs.eventually(lambda: "does not take over: it has ended" in first.log())
    with opened(first, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"


def test_the_manager_is_told(generations, area):
    """MAINPID= by the old daemon, and the watchdog's interval by way of it."""
    place = area.new_directory("manager")
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(place / "notify"))
    os.chmod(place / "notify", 0o666)
    notified.settimeout(120)
    told = []

    def until(wanted):
        while not told or wanted not in told[-1]:
            told.append(notified.recv(4096).decode())
    env = {**environment(area.home), "NOTIFY_SOCKET": str(place / "notify")}
    first = generations(env={**env, "WATCHDOG_USEC": "2000000"})
    until("WATCHDOG=1")
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "true")
    runs(first, 1)
    second = generations(former=first, env=env)
    until("MAINPID=")
    assert told[-1] == f"MAINPID={second.pid}"
    until("READY=1")
    until("WATCHDOG=1")
    go(root)
    assert client.wait(call)["result"]["success"]
    notified.close()


def test_the_new_daemon_one_has_spare_cells(generations, area):
    """So that the first workspace there is opened like any other: it is the first that takes one."""
    first = generations(host="spare_cells = 2")
    second = generations(former=first, host="spare_cells = 2")
    assert status(second)["spare_cells"] == 2
    with opened(second, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"
    assert status(second)["spare_cells_used"] == 1


def detached(area, first):
    """Runs the line of the packages' ExecReload=; its status, and what it and what it has started have logged."""
    log = first.path / f"detached{area.number}.log"
    area.number += 1
    with acting_as(os.getuid()), open(log, "wb") as file:
        started = area.start(["cloisterd", "--agent-socket", str(first.socket), "--control-socket", str(first.control_socket),
                              "--state-dir", str(first.state), "--config", str(first.config), "--take-over", "--if-replaced", "--detach"],
                             stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        return started.wait(120), log.read_text()


def main_process(first):
    with acting_as(os.getuid()):
        return int((first.state / "lock").read_text())


@contextlib.contextmanager
def ended_by_us(pid):
    """One that is no child of this test."""
    try:
        yield
    finally:
        with acting_as(os.getuid()):
            os.kill(pid, signal.SIGTERM)
            assert procfs.eventually(lambda: not procfs.is_alive(pid))


def test_only_if_the_program_was_replaced(generations, area):
    """The same program does nothing; another one serves when its command returns, as nobody's child."""
    first = generations()
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "echo done")
    runs(first, 1)
    code, said = detached(area, first)
    assert code == 0 and "is this program too: not taking over" in said, said
    assert main_process(first) == first.pid and "old_daemon" not in status(first)
    with opened(first, area.new_directory()) as other:
        assert other.run("echo serves")["stdout"] == "serves\n"
    replace_program(area)
    code, said = detached(area, first)
    assert code == 0, said
    pid = main_process(first)
    with ended_by_us(pid):
        assert pid != first.pid and status(first)["old_daemon"]["pid"] == first.pid
        assert procfs.parent(pid) not in (os.getpid(), first.pid)
        go(root)
        assert client.wait(call)["result"]["output"]["stdout"] == "done\n"
        assert ended(first) == 0
        # The one that has taken over knows its own program, too.
        code, said = detached(area, first)
        assert code == 0 and main_process(first) == pid, said


def test_a_detached_one_that_fails(generations, area):
    """Its command says so, and the one that serves goes on."""
    first = generations()
    replace_program(area)
    with acting_as(os.getuid()):
        config = first.config.read_text()
        first.config.write_text(config + "no_such_key = 1\n")
    code, said = detached(area, first)
    assert code == 1 and "no_such_key" in said
    with opened(first, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"


FTRUNCATE = 77  # by which it signs the lock, just before it is ready


@contextlib.contextmanager
def new_daemon_at(first, area, number):
    """A new daemon that is held when it enters the system call @number; what holds it; and its log."""
    path = first.path / "new_daemon.log"
    first.process.send_signal(signal.SIGSTOP)
    with acting_as(os.getuid()), open(path, "wb") as log:
        new_daemon = area.start(["cloisterd", "--agent-socket", str(first.socket), "--control-socket", str(first.control_socket),
                              "--state-dir", str(first.state), "--config", str(first.config), "--take-over"],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # It waits for the answer of the old daemon.
        assert procfs.eventually(lambda: any("handover" in str(fd) or "socket" in str(fd) for fd in procfs.fds(new_daemon.pid).values())
                                 and b"poll" in (pathlib.Path(f"/proc/{new_daemon.pid}/wchan").read_bytes()))
        holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", str(new_daemon.pid), str(number)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "ready\n"
        first.process.send_signal(signal.SIGCONT)
        assert holder.stdout.readline() == "held\n", path.read_text()
    try:
        yield new_daemon, holder, path
    finally:
        with acting_as(os.getuid()):
            new_daemon.kill()
            holder.stdin.close()
            holder.wait()
            new_daemon.wait()


@pytest.mark.skipif(not AM_ROOT, reason="traces the new daemon")
def test_the_last_step_comes_before_the_old_daemon_retires(generations, area):
    """A new daemon that dies in it, when it signs the lock, leaves the old daemon serving, which signs again."""
    first = generations()
    client = opened(first, area.new_directory())
    with new_daemon_at(first, area, FTRUNCATE) as (new_daemon, _, _), acting_as(os.getuid()):
        _, fd, *_ = pathlib.Path(f"/proc/{new_daemon.pid}/syscall").read_text().split()
        assert procfs.fds(new_daemon.pid)[int(fd, 16)] == str(first.state / "lock")
    assert client.run("echo serves")["stdout"] == "serves\n"
    with opened(first, area.new_directory()) as newcomer:
        assert newcomer.run("echo serves")["stdout"] == "serves\n"
    assert "does not take over: it has ended" in first.log() and main_process(first) == first.pid
    assert generations(former=first).process.poll() is None


def test_a_checkpoint_that_waits_for_a_command(generations, area):
    """It keeps a new daemon waiting, and nobody else."""
    first = generations()
    holds, waits = opened(first, name="w"), opened(first, name="w")
    begin(holds, "sleep 600")
    runs(first, 1)
    checkpoint = waits.request("workspace.checkpoint", {})
    path = first.path / "new_daemon.log"
    with acting_as(os.getuid()), open(path, "wb") as log:
        new_daemon = area.start(["cloisterd", "--agent-socket", str(first.socket), "--control-socket", str(first.control_socket),
                              "--state-dir", str(first.state), "--config", str(first.config), "--take-over"],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        assert procfs.eventually(lambda: "asks to take over" in first.log())
        for i in range(2):
            with first.connect() as newcomer:
                newcomer.call("workspace.open", {"workspace": f"new{i}"})
                assert newcomer.run("echo served")["stdout"] == "served\n"
        assert new_daemon.poll() is None, path.read_text()
        holds.close()
        assert "result" in waits.wait(checkpoint)
        assert procfs.eventually(lambda: "serving in the place" in path.read_text()), path.read_text()
        assert ended(first) == 0 and main_process(first) == new_daemon.pid
    finally:
        with acting_as(os.getuid()):
            new_daemon.terminate()
            new_daemon.wait()


@pytest.mark.deep("slow")
@pytest.mark.skipif(not AM_ROOT, reason="traces the new daemon")
@pytest.mark.parametrize("end", ["goes on", "is killed"])
def test_an_old_daemon_that_is_stopped_when_the_new_daemon_is_ready(generations, area, end):
    """The new daemon waits for it, however long that is, because the old daemon retires when it goes on."""
    first = generations()
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "echo done")
    runs(first, 1)
    with new_daemon_at(first, area, FTRUNCATE) as (new_daemon, holder, log):
        first.process.send_signal(signal.SIGSTOP)
        holder.stdin.close()
        assert procfs.eventually(lambda: "does not give way yet: waiting for it" in log.read_text())
        if end == "is killed":
            first.process.kill()
            assert new_daemon.wait(120) == 1 and "cannot take over" in log.read_text()
            return
        first.process.send_signal(signal.SIGCONT)
        with opened(first, area.new_directory()) as newcomer:
            assert newcomer.run("echo serves")["stdout"] == "serves\n"
        assert main_process(first) == new_daemon.pid and status(first)["old_daemon"]["pid"] == first.pid
        go(root)
        assert client.wait(call)["result"]["output"]["stdout"] == "done\n"
        assert ended(first) == 0 and new_daemon.poll() is None


def slow_to_find(place):
    """A path of which each look-up takes the kernel a while: links to links through many directories."""
    with acting_as(os.getuid()):
        (place / "a").mkdir()
        for i in range(39):
            (place / f"l{i}").symlink_to("a/../" * 800 + (f"l{i + 1}" if i < 38 else "a"))
    return str(place / "l0")


def test_a_flood_of_openings_does_not_hinder_it(generations, area):
    """A client that asks for workspaces all the time is told to come later. Nothing would ever rest, if each were looked for."""
    first = generations()
    path, stop = slow_to_find(area.new_directory()), threading.Event()

    def flood(client):
        waiting = []
        with contextlib.suppress(OSError, EOFError):
            while not stop.is_set():
                waiting.append(client.request("workspace.open", {"root": path}))
                if len(waiting) >= 24:
                    client.wait(waiting.pop(0))
    threads = [threading.Thread(target=flood, args=[first.connect()]) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        second = generations(former=first)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with opened(second, area.new_directory()) as client:
        assert client.run("echo new")["stdout"] == "new\n"
