# SPDX-License-Identifier: Apache-2.0
"""The descriptors, rights and names of each process, seen from the host; test_command_view.py is what a command sees."""

import collections
import ctypes
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import termios
import time

import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, is_sanitized

CAP_SYS_ADMIN = 1 << 21
PIPES_AHEAD = 8  # supervisor/call/pipe_stock.c
INITS_AHEAD = 2
TIMESLICE_NS = 100000  # common/short_timeslice.h
SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
NONE = {"CapEff": 0, "CapPrm": 0, "CapInh": 0, "CapBnd": 0, "CapAmb": 0}

needs_root = pytest.mark.skipif(not AM_ROOT, reason="needs root to look into other processes")


class Cell:
    """The processes of one workspace in which `sleep` runs as a command."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.client = daemon.connect()
        self.path = daemon.new_workspace(self.client)
        self.number = self.client.begin("run_command", {"command": "sleep 3600 & wait", "timeout_ms": 3600000})
        self.worker, self.files = daemon.cell_of(self.path)
        (self.init,) = procfs.eventually(lambda: procfs.children(self.worker))
        (self.shell,) = procfs.eventually(lambda: procfs.children(self.init))
        (self.sleep,) = procfs.eventually(lambda: procfs.children(self.shell))
        assert procfs.eventually(lambda: procfs.name(self.sleep) == "sleep")
        self.spawner = daemon.spawner()
        self.everything = {
            "cloisterd": daemon.pid, "spawner": self.spawner, "worker": self.worker, "files": self.files,
            "init": self.init, "shell": self.shell, "sleep": self.sleep}


@pytest.fixture(scope="module")
def cell(area):
    from daemon import Daemon
    daemon = Daemon(area)
    yield Cell(daemon)
    daemon.stop()


def kinds(pid):
    """Returns the targets of the process's descriptors, without the inode numbers of pipes and sockets. A static program
    has detached the host's root, so its /dev/null reads "/null"."""
    return {fd: re.sub(r":\[\d+\]$", "", target if target != "/null" else "/dev/null")
            for fd, target in procfs.fds(pid).items()}


def has_kinds(pid, expected):
    """Waits until the process has exactly these descriptors: a starting program and the sweep have others for a moment."""
    assert procfs.eventually(lambda: kinds(pid) == expected), kinds(pid)


def standard():
    """Returns the expected standard descriptors. Under a sanitizer stderr is the pipe of the spawner's log, so that
    reports of the worker and files process reach the log."""
    return {0: "/dev/null", 1: "/dev/null", 2: "pipe" if is_sanitized() else "/dev/null"}


@needs_root
def test_descriptors_of_cloisterd(start_daemon):
    daemon = start_daemon()
    client = daemon.connect()
    client.call("tools.list")
    # cloisterd reserves descriptors for the spawner's answers, and does so again after each answer.
    daemon.settled_fds()
    idle = kinds(daemon.pid)
    assert [idle.pop(fd) for fd in (0, 1, 2)] == ["/dev/null", "/dev/null", str(daemon.log_path)]
    count = collections.Counter(idle.values())
    pipes = count.pop("pipe")
    # Pipes for the loop's signals, for the spawner's log, and those made ahead for output.
    assert pipes == 3 + 2 * PIPES_AHEAD
    # The two listening sockets, that for the next cloisterd, the client, the spawner's channel, and nine duplicates of it: reserved for the
    # descriptors of its answers. The journal's thread wakes the loop by an eventfd,
    # and the threads of pipes by another.
    journal = {str(daemon.state / "journal" / name): 1 for name in ("keys.0", "keys.1")}
    assert count == {"socket": 14, "anon_inode:[eventpoll]": 1, "anon_inode:[eventfd]": 2, str(daemon.state / "workspaces"): 1, str(daemon.state / "lock"): 1,
                     "/proc/loadavg": 1, "/proc/meminfo": 1, f"/proc/{daemon.spawner()}/stat": 1, **journal}

    path = daemon.new_workspace(client)
    daemon.settled_fds()
    open_one = collections.Counter(kinds(daemon.pid).values()) - collections.Counter(
        kinds_of(idle, daemon))
    pidfds = sum(n for kind, n in open_one.items() if "pidfd" in kind)
    others = {kind: n for kind, n in open_one.items() if "pidfd" not in kind}
    assert pidfds == 2
    # Without configured roots, user mode looks directories up from /, which stays open.
    everything = {} if daemon.system else {"/": 1}
    # Four sockets to processes; the fifth tells which ports listen in the cell.
    assert others == {"socket": 5, str(path): 1, **everything}

    number = client.begin("run_command", {"command": "touch begun; sleep 600", "timeout_ms": 600000})
    assert procfs.eventually((path / "begun").exists)
    daemon.settled_fds()
    running = collections.Counter(kinds(daemon.pid).values())
    assert running["pipe"] == pipes + 2  # two pipes are in use: cloisterd keeps their read ends, and has made others
    client.cancel(number)
    client.wait(number)
    client.call("workspace.close")
    assert procfs.eventually(
        lambda: sorted(kinds(daemon.pid).values()) == sorted([*kinds_of(idle, daemon), *everything]))


def kinds_of(idle, daemon):
    return [*idle.values(), "/dev/null", "/dev/null", str(daemon.log_path)]


@needs_root
def test_descriptors_of_the_spawner(cell):
    """Its last descriptors are the sockets of its only path resolver, and of the one worker that has its private tmpfs ready."""
    directory = cell.daemon.area.bin
    def low():
        return {fd: kind for fd, kind in kinds(cell.spawner).items() if fd < 16}, [kind for fd, kind in kinds(cell.spawner).items() if fd >= 16]
    assert procfs.eventually(lambda: low() == ({
        0: "/dev/null", 1: "/dev/null", 2: "pipe", 3: "socket",
        4: str(cell.daemon.state / "workspaces"),
        5: str(cell.daemon.state / "templates"),
        6: str(directory / "cloister-worker"), 7: str(directory / "cloister-files"),
        8: str(directory / "cloister-unpack"), 9: "anon_inode:[signalfd]", 11: "socket"}, ["socket"])), kinds(cell.spawner)


@needs_root
def test_descriptors_of_the_path_resolver(cell):
    """A path resolver, which a hung file system may block for ever, has no descriptor but its socket."""
    (resolver,) = procfs.resolvers(cell.spawner)
    assert procfs.eventually(lambda: sorted(kinds(resolver).values()) == ["socket"] if not is_sanitized() else
                             sorted(kinds(resolver).values()) == ["/dev/null", "/dev/null", "pipe", "socket"]), kinds(resolver)


@needs_root
def test_descriptors_of_the_worker(cell):
    """The worker keeps the running command's stdout and stderr until it ends, and the directories of its Landlock
    rules."""
    held = kinds(cell.worker)
    assert {fd: held.pop(fd) for fd in range(5)} == {**standard(), 3: "socket", 4: "socket"}
    opened = cell.client.call("workspace.open", {"root": str(cell.path)})
    rules = ["/", str(cell.path), "/tmp", "/run", "/var/tmp",
             "/home/agent", "/dev/shm", "/dev", "/", "anon_inode:[landlock-ruleset]"]
    # What counts tries to leave the network.
    counters = ["/proc/1/net/snmp", "/proc/1/net/snmp6"]
    # "/" is the root of the mqueue file system, where the worker finds queues that commands left. mq_overview(7)
    # The inits ask for the quota at the workspace.
    # By "seccomp notify" it decides on some system calls.
    assert sorted(held.values()) == sorted(["anon_inode:[signalfd]", "anon_inode:seccomp notify", "/dev/null", "pipe", "pipe", "/", str(cell.path), *counters] +
                                           (rules if opened["isolation"]["landlock"] else []))


@needs_root
def test_descriptors_of_the_files_process(cell):
    assert procfs.eventually(lambda: len(kinds(cell.files)) == 7), kinds(cell.files)
    held = kinds(cell.files)
    assert {fd: held[fd] for fd in range(5)} == {
        **standard(), 3: "socket", 4: "socket"}
    assert os.path.samefile(f"/proc/{cell.files}/fd/5", cell.path)
    assert 6 not in held, "a workspace without layers"
    assert held[max(held)].endswith("/fd")


@needs_root
def test_descriptors_of_the_command_init(cell):
    assert procfs.eventually(lambda: procfs.fds(cell.init) == procfs.fds(cell.worker)), procfs.fds(cell.init)


@needs_root
def test_descriptors_of_commands(cell):
    for pid in (cell.shell, cell.sleep):
        has_kinds(pid, {0: "/dev/null", 1: "pipe", 2: "pipe"})


def test_descriptors_that_commands_see(client, workspace):
    for options in (None, {"stdin": "x"}, {"stream": True}):
        # ls itself opens the fourth.
        assert client.run("ls /proc/self/fd", options)["stdout"].split() == ["0", "1", "2", "3"]


def test_no_process_holds_what_its_starter_had_open(area, start_daemon):
    reader, writer = os.pipe()
    daemon = start_daemon(pass_fds=[reader, writer])
    client = daemon.connect()
    path = daemon.new_workspace(client)
    number = client.begin("run_command", {"command": ": >begun; exec sleep 600", "timeout_ms": 600000})
    assert procfs.eventually((path / "begun").exists)
    os.close(writer)
    held = {pid: procfs.fds(pid) for pid in procfs.descendants(daemon.pid)} if AM_ROOT else {}
    for pid, fds in held.items():
        assert f"pipe:[{os.fstat(reader).st_ino}]" not in fds.values(), procfs.command_line(pid)
    assert client.run("ls /proc/self/fd")["stdout"].split() == ["0", "1", "2", "3"]
    os.close(reader)
    client.cancel(number)


def capabilities(pid):
    status = procfs.status(pid)
    return {name: int(status[name], 16) for name in NONE}


def test_capabilities(cell):
    daemon = capabilities(cell.daemon.pid)
    del daemon["CapBnd"]  # cloisterd would need a capability to empty the bounding set: capabilities(7)
    assert not any(daemon.values())
    assert capabilities(cell.worker) == {**NONE, "CapEff": CAP_SYS_ADMIN, "CapPrm": CAP_SYS_ADMIN}
    for name in ("files", "init", "shell", "sleep"):
        assert capabilities(cell.everything[name]) == NONE, name
    spawner = capabilities(cell.spawner)
    assert (spawner["CapInh"], spawner["CapAmb"]) == (0, 0)


def test_privileges(cell):
    for name, pid in cell.everything.items():
        status = procfs.status(pid)
        assert status["NoNewPrivs"] == "1", name
        for ids, own in (("Uid", cell.daemon.account.uid), ("Gid", cell.daemon.account.gid)):
            assert status[ids].split() == [str(own)] * 4, name
    assert procfs.status(cell.daemon.pid)["Seccomp"] == "2"


def test_what_is_not_dumpable(cell):
    for name in ("cloisterd", "spawner", "worker", "files", "init"):
        assert os.stat(f"/proc/{cell.everything[name]}/environ").st_uid == 0, name


def wait_for_the_sweep(client, files):
    """After each opening, a job of the files process removes what interrupted writes left. Waits until that job is over."""
    client.use("list_directory", path=".", pattern="none")  # the answer comes after the sweep has begun
    assert procfs.eventually(lambda: not procfs.children(files))


def slice_of(pid):
    """Returns the slice that the process has asked for, in nanoseconds; 0 where the kernel knows none (before 6.12)."""
    attributes = ctypes.create_string_buffer(48)  # struct sched_attr, sched_setattr(2)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(SCHED_GETATTR[os.uname().machine], pid, attributes, len(attributes), 0) == 0, ctypes.get_errno()
    return struct.unpack("=IIQiIQQQ", attributes.raw)[5]


def test_a_commands_processes_are_not_in_the_way_of_its_end(cell):
    """Those that a call's end needs get a CPU soon when they wake among many processes of a command, which inherits no
    short slices from them."""
    usual = slice_of(os.getpid())
    if usual == 0:
        pytest.skip("this kernel has no slices of a task's own")
    assert {slice_of(pid) for pid in (cell.daemon.pid, cell.files, cell.worker, cell.init)} == {TIMESLICE_NS}
    assert slice_of(cell.spawner) == slice_of(cell.shell) == slice_of(cell.sleep) == usual > TIMESLICE_NS


def test_files_processes_are_in_the_spawners_session(cell):
    """Files processes stay in the spawner's session, which may have a larger share of the CPUs, so that small calls are
    answered fast."""
    assert os.getsid(cell.files) == os.getsid(cell.spawner) == cell.spawner != os.getsid(cell.daemon.pid)


@pytest.mark.deep("slow")
@pytest.mark.parametrize("entries", [60000, 3000])
def test_files_processes_whose_calls_are_not_small_leave_it(cell, entries):
    """A files process leaves the session before it lists a huge directory, and after a run of listings of a large one."""
    client = cell.daemon.connect()
    path = cell.daemon.new_workspace(client)
    _, files = cell.daemon.cell_of(path)
    made = client.observe("run_command", {
        "command": f"mkdir many; cd many; seq -f %0150g {entries} | xargs touch; cd ..; touch one", "timeout_ms": 300000},
        timeout=320)
    assert made["output"]["exit_code"] == 0, made
    for _ in range(1000):
        client.use("read_file", path="one")
        client.use("list_directory", path=".")
    assert os.getsid(files) == cell.spawner
    if AM_ROOT:  # what a busy host makes it wait would count as pauses between its calls
        with acting_as(os.getuid()):
            os.sched_setscheduler(files, os.SCHED_FIFO, os.sched_param(1))
    count = 1
    client.use("list_directory", path="many", pattern="none")
    while os.getsid(files) != files:
        client.use("list_directory", path="many", pattern="none")
        count += 1
        assert count < 10000
    assert (count == 1) == (entries == 60000)
    assert client.use("read_file", path="one")["content"] == ""
    client.call("workspace.close", {"workspace": str(path)})


@pytest.mark.deep("slow")
def test_a_files_process_leaves_it_during_a_long_call(cell):
    """Names and a pattern that are compared for long make a small directory's listing one that computes."""
    client = cell.daemon.connect()
    path = cell.daemon.new_workspace(client)
    _, files = cell.daemon.cell_of(path)
    client.run(f"seq -f {'a' * 180}%04gc 600 | xargs touch; echo 1 >one")
    client.use("read_file", path="one")
    assert os.getsid(files) == cell.spawner
    number = client.begin("list_directory", {"path": ".", "pattern": "?*" + "{a,a}" * 7 + "a" * 110 + "b?"}, {"timeout_ms": 300000})
    assert procfs.eventually(lambda: os.getsid(files) == files, 300)
    assert not select.select([client.socket], [], [], 0)[0], "it was answered before"
    assert client.wait(number, 300)["result"]["output"]["count"] == 0
    assert client.use("read_file", path="one")["total_lines"] == 1
    client.call("workspace.close", {"workspace": str(path)})


def terminal_of(pid):
    """Returns the number of the process's controlling terminal, or 0: proc_pid_stat(5), field 7."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[4])


@pytest.mark.parametrize("terminal", [False, True])
def test_a_session_with_a_terminal_is_left(start_daemon, account, terminal):
    """No process of a workspace keeps a controlling terminal. Without a terminal, files processes stay in cloisterd's session."""
    controller, own = pty.openpty()
    os.fchown(own, account.uid, -1)
    try:
        daemon = start_daemon(start_new_session=True,
                              preexec_fn=(lambda: fcntl.ioctl(own, termios.TIOCSCTTY)) if terminal else None)
        cell = Cell(daemon)
        assert bool(terminal_of(daemon.pid)) == terminal
        others = [pid for name, pid in cell.everything.items() if name != "cloisterd"]
        assert [terminal_of(pid) for pid in others] == [0] * len(others)
        assert os.getsid(cell.files) == os.getsid(cell.spawner) == (cell.spawner if terminal else daemon.pid)
        assert os.getpgid(cell.spawner) == cell.spawner
        daemon.stop()
    finally:
        os.close(controller)
        os.close(own)


def test_searches_are_sessions_of_their_own(cell):
    client = cell.daemon.connect()
    path = cell.daemon.new_workspace(client)
    with acting_as(cell.daemon.account.uid):
        (path / "0").write_bytes(b"some line of text\n" * 3000000)
        for i in range(1, 100):
            os.link(path / "0", path / str(i))
    _, files = cell.daemon.cell_of(path)
    wait_for_the_sweep(client, files)
    number = client.begin("search_files", {"pattern": "t[a-z]+ of (?!text)"})
    (job,) = procfs.eventually(lambda: procfs.children(files))
    assert procfs.eventually(lambda: os.getsid(job) == job)
    client.cancel(number)
    client.call("workspace.close", {"workspace": str(path)})


def test_commands_are_sessions_of_their_own(cell):
    assert os.getsid(cell.shell) == cell.shell
    assert os.getsid(cell.sleep) == cell.shell


@needs_root
def test_namespaces(cell):
    def of(pid):
        return {kind: procfs.namespace(pid, kind) for kind in ("user", "mnt", "pid", "net", "ipc", "uts")}

    def differing(one, other):
        return {kind for kind in one if one[kind] != other[kind]}

    everything = {"user", "mnt", "pid", "net", "ipc", "uts"}
    host = of("self")
    assert differing(of(cell.daemon.pid), host) == set()
    assert differing(of(cell.spawner), host) == {"user", "mnt"}
    worker = of(cell.worker)
    assert differing(worker, host) == everything
    assert differing(worker, of(cell.spawner)) == everything
    assert differing(of(cell.files), worker) == {"mnt", "pid"}
    assert differing(of(cell.files), host) == everything
    init = of(cell.init)
    assert differing(init, worker) == {"mnt", "pid"}
    assert of(cell.shell) == of(cell.sleep) == init

    client = cell.daemon.connect()
    other, files = cell.daemon.cell_of(cell.daemon.new_workspace(client))
    assert differing(of(other), worker) == everything
    assert differing(of(files), of(cell.files)) == everything
    client.close()


@needs_root
def test_a_search_runs_with_as_little(cell):
    with acting_as(cell.daemon.account.uid, cell.daemon.account.gid):
        (cell.path / "0").write_bytes(b"some line of text\n" * 3000000)
        for i in range(1, 200):
            os.link(cell.path / "0", cell.path / str(i))
    wait_for_the_sweep(cell.client, cell.files)
    number = cell.client.begin("search_files", {"pattern": "t[a-z]+ of (?!text)"})
    (job,) = procfs.eventually(lambda: procfs.children(cell.files))
    assert capabilities(job) == NONE
    assert procfs.status(job)["NoNewPrivs"] == "1"
    assert os.stat(f"/proc/{job}/environ").st_uid == 0
    cell.client.cancel(number)
    cell.client.wait(number)
    assert procfs.vanish([job])


def test_the_account_is_mapped_to_one_id(cell):
    for pid in (cell.worker, cell.files, cell.shell):
        for name, own in (("uid_map", cell.daemon.account.uid), ("gid_map", cell.daemon.account.gid)):
            with open(f"/proc/{pid}/{name}") as file:
                assert file.read().split() == ["1000", str(own), "1"]


@needs_root
def test_real_time_scheduling_reaches_no_process_of_a_workspace(start_daemon, area):
    """Real-time scheduling, from a unit's CPUSchedulingPolicy= or chrt(1), stays with cloisterd. A command that inherited
    it would take the CPU from all others. sched(7)"""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pytest.skip("no right to real-time scheduling here")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    account = area.account
    daemon = start_daemon(launcher=["chrt", "-f", "1", "setpriv", "--reuid", str(account.uid), "--regid",
                                    str(account.gid), "--clear-groups", "--"])
    client = daemon.connect()
    daemon.new_workspace(client)
    assert client.run("chrt -p $$; nice")["stdout"].split("\n")[0].endswith("SCHED_OTHER")
    policies = {os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK for pid in (daemon.spawner(), *daemon.cells()[-1])}
    assert policies == {os.SCHED_OTHER}


def oom_score(pid):
    with open(f"/proc/{pid}/oom_score_adj") as file:
        return int(file.read())


def test_what_is_killed_first_when_memory_runs_out(own_daemon):
    """Commands and their worker are killed first, cloisterd and the spawner last."""
    client = own_daemon.connect()
    worker, files = own_daemon.cell_of(own_daemon.new_workspace(client))
    before = oom_score(own_daemon.spawner())
    assert oom_score(own_daemon.pid) == before
    assert oom_score(worker) == min(before + 500, 1000)
    assert oom_score(files) == min(before + 250, 1000)
    output = client.run(f"""cat /proc/self/oom_score_adj
for score in {before - 1} -1000; do echo $score >/proc/self/oom_score_adj; done 2>/dev/null
for score in 1000 {before}; do echo $score >/proc/1/oom_score_adj; done 2>/dev/null
cat /proc/self/oom_score_adj
echo {before} >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj""")
    # A command may undo what the worker set, and nothing more, as SECURITY.md says.
    assert output["stdout"].split() == [str(min(before + 500, 1000))] * 2 + [str(before)]
    assert oom_score(worker) == min(before + 500, 1000)


@needs_root
@pytest.mark.release_only("a sanitizer takes memory for itself")
def test_a_worker_without_commands_has_little_of_its_own(own_daemon):
    """Its tables have room for all commands that may run at once, and take memory for those that did."""
    client = own_daemon.connect()
    worker, _ = own_daemon.cell_of(own_daemon.new_workspace(client))

    def own():
        return sum(int(line.split()[1]) for line in open(f"/proc/{worker}/smaps") if line.startswith("Anonymous:"))

    assert 0 < own() < 112, pathlib.Path(f"/proc/{worker}/smaps").read_text()
    for number in [client.begin("run_command", {"command": "sleep 1"}) for _ in range(8)]:
        assert client.result(number)["success"]
    assert own() < 180


def ready(worker, used):
    """The command inits made ahead, once all of them are there and the used ones are gone."""
    children = procfs.children(worker)
    return len(children) == INITS_AHEAD and not set(children) & set(used) and children


@pytest.mark.deep("busy")
@pytest.mark.skipif(is_sanitized(), reason="a sanitizer's init has memory of its own")
def test_inits_are_made_ahead_and_never_used_again(daemon, client, workspace):
    worker, _ = daemon.cell_of(workspace)
    assert procfs.children(worker) == []
    used = []
    for _ in range(20):
        waiting = procfs.eventually(lambda: ready(worker, used)) if used else []
        number = client.begin("run_command", {"command": "touch begun; exec sleep 600"})
        assert procfs.eventually((workspace / "begun").exists)
        (init,) = [pid for pid in procfs.children(worker) if procfs.children(pid)]
        assert init not in used
        assert not waiting or init in waiting
        assert all(not procfs.children(pid) for pid in waiting if pid != init)
        used.append(init)
        client.cancel(number)
        client.wait(number)
        (workspace / "begun").unlink()
    # After a while without calls the workspace keeps no inits, which cost memory.
    assert procfs.eventually(lambda: procfs.children(worker) == [])
    time.sleep(0.5)
    assert procfs.children(worker) == []
    assert client.run("echo again")["stdout"] == "again\n"
