# SPDX-License-Identifier: Apache-2.0
"""A cloisterd that was taken over: the test takes its place and speaks to the real spawner, worker and files process. A
malformed message ends the process that receives it, and so its workspace. A well-formed message reaches nothing outside
the workspace."""

import os
import select
import signal
import socket
import subprocess
import time

import procfs
import pytest
from daemon import AM_ROOT, environment
from wire import *  # noqa: F403

SOON = 120  # seconds; only a hang takes longer


class Cell:
    """A workspace's two processes; the test holds their channels."""

    def __init__(self, supervisor, path):
        self.supervisor, self.path = supervisor, path
        root = os.open(path, os.O_PATH)
        self.worker_down, worker_down = socket.socketpair()
        self.files_down, files_down = socket.socketpair()
        self.worker_up, worker_up = socket_pair()
        self.files_up, files_up = socket_pair()
        fds = [root, worker_down.fileno(), worker_up, files_down.fileno(), files_up]
        socket.send_fds(supervisor.channel, [frame(SPAWNER_OPEN, 7, spawner_open(), fds=len(fds))], fds)
        # Two pidfds, and a socket that tells which ports listen in the cell's network namespace.
        kind, call, payload, (*self.pidfds, ports) = supervisor.answers.next()
        os.close(ports)
        assert (kind, call, payload, len(self.pidfds)) == (SPAWNER_OPENED, 7, b"", 2), payload
        for fd in (root, worker_up, files_up):
            os.close(fd)
        worker_down.close()
        files_down.close()
        self.from_worker, self.from_files = of_pipe(self.worker_up), of_pipe(self.files_up)
        assert self.from_worker.next()[0] == READY and self.from_files.next()[0] == READY
        self.pipes = [os.pipe(), os.pipe(), os.pipe()]

    def run_fds(self, n=2):
        return [self.pipes[0][1], self.pipes[1][1], self.pipes[2][0]][:n]

    def to_worker(self, *data, fds=()):
        send_fds(self.worker_down, b"".join(data), fds)

    def to_files(self, *data, fds=()):
        send_fds(self.files_down, b"".join(data), fds)

    def run(self, command, call=1):
        self.to_worker(frame(COMMAND_RUN, call, command_run(len(command)), fds=2), fds=self.run_fds())
        self.to_worker(frame(COMMAND_BODY, call, command.encode()))

    def ask_files(self, *data):
        """Everything that comes up, to the first end."""
        self.to_files(*data)
        found = []
        while not found or found[-1][0] != FILES_END:
            found.append(self.from_files.next())
        return found

    def ends(self, which):
        """Returns whether the worker (0) or the files process (1) has ended."""
        return bool(select.select([self.pidfds[which]], [], [], SOON)[0])

    def close(self):
        for pidfd in self.pidfds:
            try:
                signal_of_kill(pidfd)
            except ProcessLookupError:
                pass
            self.ends(self.pidfds.index(pidfd))
            os.close(pidfd)
        self.worker_down.close()
        self.files_down.close()
        for fd in (self.worker_up, self.files_up, *sum(self.pipes, ())):
            os.close(fd)


def signal_of_kill(pidfd):
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def send_fds(channel, data, fds):
    try:
        if fds:
            sent = socket.send_fds(channel, [data], list(fds))
            data = data[sent:]
        channel.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it had enough before the end


class Supervisor:
    def __init__(self, area, delegation=None):
        """With @delegation commands have cgroups of their own."""
        self.area = area
        launcher, groups = [], "5<&-"
        if delegation:
            group = delegation.path / "supervisor"
            group.mkdir()
            for path in (group, group / "cgroup.procs"):
                os.chown(path, area.account.uid, area.account.gid)
            launcher, groups = delegation.launcher("supervisor"), f"5<{delegation.path}"
        self.channel, theirs = socket.socketpair()
        number = theirs.fileno()
        self.spawner = subprocess.Popen(
            [*launcher, "/bin/bash", "-c", f"exec {area.bin}/cloister-spawner user '' '' 3<&{number} {groups}"], pass_fds=[number],
            cwd=area.path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment(area.home),
            **({} if delegation else area.account.as_user()))
        theirs.close()
        self.channel.settimeout(SOON)
        self.answers = of_socket(self.channel)
        assert self.answers.next()[0] == SPAWNER_READY

    def stop(self):
        self.channel.close()
        self.spawner.wait(SOON)


@pytest.fixture(scope="module")
def supervisor(area):
    made = Supervisor(area)
    yield made
    made.stop()


@pytest.fixture
def cell(supervisor):
    path = supervisor.area.new_directory()
    made = Cell(supervisor, path)
    yield made
    made.close()


def test_it_is_spoken_to_as_cloisterd_would(cell):
    """Without a fault both processes do what they are asked, so the tests below show refusals."""
    cell.run("echo said; touch marker")
    kind, call, payload, _ = cell.from_worker.next()
    assert (kind, call, len(payload)) == (COMMAND_ENDED, 1, len(command_ended()))
    assert os.read(cell.pipes[0][0], 100) == b"said\n" and (cell.path / "marker").exists()
    assert [kind for kind, *_ in cell.ask_files(frame(FILES_READ, 2, files_read("marker")))] == [FILES_END]


TOUCH = b"touch marker"
RUN = frame(COMMAND_RUN, 1, command_run(len(TOUCH)), fds=2)
BODY = frame(COMMAND_BODY, 1, TOUCH)


def run(*arguments, fds=2, **keywords):
    return frame(COMMAND_RUN, 1, command_run(*arguments, **keywords), fds=fds)


# The bytes, and how many pipes are sent with the first of them.
TO_WORKER = {
    "a type of nobody's": (frame(31), 0),
    "no type": (frame(0), 0),
    "an answer's type": (frame(COMMAND_ENDED, 1, command_ended()), 0),
    "another version": (frame(COMMAND_KILL, 1, version=0), 0),
    "a length beyond every frame": (frame(COMMAND_BODY, 1, length=PAYLOAD_MAX + 1), 0),
    "too many descriptors": (frame(COMMAND_RUN, 1, command_run(1), fds=9), 3),
    "descriptors that are not there": (RUN + BODY, 0),
    "one descriptor": (run(len(TOUCH), fds=1) + BODY, 1),
    "one too many": (run(len(TOUCH), fds=3) + BODY, 3),
    "one that is not announced": (RUN, 3),  # with a body it would be a command that is found wrong after it has begun
    "descriptors with another type": (frame(COMMAND_KILL, 1, fds=1), 1),
    "input that is not there": (run(len(TOUCH), has_stdin=1) + BODY, 2),
    "half a yes": (run(len(TOUCH), has_stdin=2, fds=3) + BODY, 3),
    "too long a command": (run(131072) + BODY, 2),
    "too large an environment": (run(len(TOUCH), 1 << 20) + BODY, 2),
    "no memory": (run(len(TOUCH), memory=0) + BODY, 2),
    "no processes": (run(len(TOUCH), processes=0) + BODY, 2),
    "a longer request": (frame(COMMAND_RUN, 1, command_run(len(TOUCH)) + b"x", fds=2) + BODY, 2),
    "a shorter request": (frame(COMMAND_RUN, 1, command_run(len(TOUCH))[:-1], fds=2) + BODY, 2),
    "a longer body": (RUN + frame(COMMAND_BODY, 1, TOUCH + b"x"), 2),
    "an environment without an end": (run(len(TOUCH), 3) + frame(COMMAND_BODY, 1, TOUCH + b"A=1"), 2),
    "a variable without a name": (run(len(TOUCH), 3) + frame(COMMAND_BODY, 1, TOUCH + b"=1\0"), 2),
    "a variable without a value": (run(len(TOUCH), 2) + frame(COMMAND_BODY, 1, TOUCH + b"A\0"), 2),
    "too many variables": (run(len(TOUCH), 4000) + frame(COMMAND_BODY, 1, TOUCH + b"A=1\0" * 1000), 2),
    "a payload with an order to end": (frame(COMMAND_KILL, 1, b"x"), 0),
    "leave to begin for one that is not held": (RUN + frame(COMMAND_GO, 1), 2),
    "leave to begin with a payload": (RUN + frame(COMMAND_GO, 1, b"x"), 2),
    "too long a pause": (frame(COMMAND_PAUSE, 9, command_pause(60001)), 0),
    "a pause without a length": (frame(COMMAND_PAUSE, 9), 0),
    "a longer pause": (frame(COMMAND_PAUSE, 9, command_pause(1) + b"x"), 0),
    "a pause with a descriptor": (frame(COMMAND_PAUSE, 9, command_pause(1), fds=1), 1),
    # To the command that runs.
    "no signal": (frame(COMMAND_SIGNAL, 77), 0),
    "two signals": (frame(COMMAND_SIGNAL, 77, bytes([2, 2])), 0),
    "a signal that stops": (frame(COMMAND_SIGNAL, 77, bytes([19])), 0),
    "a signal beyond the mask": (frame(COMMAND_SIGNAL, 77, bytes([33])), 0),
}


@pytest.mark.parametrize("name", TO_WORKER)
def test_what_ends_a_worker(cell, name):
    """The worker does nothing of what was asked, and its commands have ended."""
    mark = f"600.{os.getpid()}{abs(hash(name)) % 10 ** 6:06}"
    cell.run(f"sleep {mark}", call=77)
    assert procfs.eventually(lambda: procfs.having(f"sleep {mark}"))
    data, n_fds = TO_WORKER[name]
    cell.to_worker(data, fds=cell.run_fds(n_fds))
    assert cell.ends(0)
    assert procfs.eventually(lambda: not procfs.having(f"sleep {mark}"))
    assert not (cell.path / "marker").exists()


@pytest.mark.parametrize("what", ["directory", "file", "socket", "device"])
@pytest.mark.parametrize("place", range(3))
def test_commands_are_given_pipes_only(cell, supervisor, what, place):
    """A descriptor of the host's root would be a way out."""
    pair = socket.socketpair()
    opened = {"directory": lambda: os.open("/", os.O_PATH), "file": lambda: os.open(supervisor.area.bin / "cloisterd", os.O_RDONLY),
              "socket": lambda: os.dup(pair[0].fileno()), "device": lambda: os.open("/dev/null", os.O_RDWR)}[what]()
    fds = cell.run_fds(3)
    fds[place] = opened
    cell.to_worker(run(len(TOUCH), has_stdin=1, fds=3) + BODY, fds=fds)
    os.close(opened)
    assert cell.ends(0)
    assert not (cell.path / "marker").exists()


class Paused:
    """A cell with cgroups, and a command that writes without end and is stopped for a minute."""

    def __init__(self, area, delegation):
        self.supervisor = Supervisor(area, delegation)
        self.cell = Cell(self.supervisor, area.new_directory())
        (self.group,) = delegation.path.glob("ws-*")
        self.ticks = self.cell.path / "ticks"
        self.cell.run("while :; do echo >>ticks; done", call=1)
        assert procfs.eventually(self.ticks.exists)
        self.pause(60000)

    def pause(self, ms, call=5):
        self.cell.to_worker(frame(COMMAND_PAUSE, call, command_pause(ms)))
        if ms:
            assert self.cell.from_worker.next()[:3] == (COMMAND_PAUSED, call, command_paused())
            assert self.is_stopped(1)

    def is_stopped(self, number):
        return "frozen 1" in (self.group / f"cmd-{number}/cgroup.events").read_text().splitlines()

    def is_still(self):
        before = self.ticks.stat().st_size
        time.sleep(.2)
        return self.ticks.stat().st_size == before

    def goes_on(self):
        before = self.ticks.stat().st_size
        return procfs.eventually(lambda: self.ticks.stat().st_size > before)

    def close(self):
        self.cell.close()
        self.supervisor.stop()


@pytest.fixture
def paused(area, delegation):
    made = Paused(area, delegation)
    yield made
    made.close()


def test_commands_are_stopped(paused):
    """None of them does anything, until they are told to go on."""
    assert paused.is_still()
    paused.pause(0)
    assert paused.goes_on() and not paused.is_stopped(1)
    paused.pause(60000, call=6)
    paused.pause(0, call=5)  # of one that is over
    assert paused.is_stopped(1) and paused.is_still()
    paused.pause(0, call=6)
    assert paused.goes_on()


def test_a_pause_ends_by_itself(paused):
    paused.pause(0)
    paused.cell.to_worker(frame(COMMAND_PAUSE, 6, command_pause(1)))
    assert paused.cell.from_worker.next()[:2] == (COMMAND_PAUSED, 6)
    assert paused.goes_on()


def test_commands_that_begin_meanwhile(paused):
    """They do nothing yet. One that is killed has never begun; one that is not begins when all go on."""
    cell = paused.cell
    for call, name in ((2, "killed"), (3, "begun")):
        cell.run(f"touch {name}", call=call)
        procs = paused.group / f"cmd-{call}/cgroup.procs"
        assert procfs.eventually(lambda: procs.exists() and procs.read_text())
        assert procfs.eventually(lambda: paused.is_stopped(call))
    cell.to_worker(frame(COMMAND_KILL, 2))
    assert cell.from_worker.next()[:2] == (COMMAND_ENDED, 2)
    assert paused.is_still() and paused.is_stopped(1) and not list(cell.path.glob("*e*"))
    paused.pause(0)
    kind, call, payload, _ = cell.from_worker.next()
    assert (kind, call, payload[:5]) == (COMMAND_ENDED, 3, command_ended()[:5])
    assert paused.goes_on() and [path.name for path in cell.path.glob("*e*")] == ["begun"]


@pytest.mark.parametrize("order", [COMMAND_TERMINATE, COMMAND_KILL])
def test_what_is_stopped_ends_at_once(paused, order):
    """Its processes are stopped when they end."""
    paused.cell.to_worker(frame(order, 1))
    assert paused.cell.from_worker.next()[:2] == (COMMAND_ENDED, 1)
    assert procfs.eventually(lambda: not (paused.group / "cmd-1").exists())


def test_what_handles_the_order_to_end_goes_on_first(paused):
    cell = paused.cell
    paused.pause(0)
    cell.run("trap 'touch trapped; exit' TERM; touch ready; while :; do :; done", call=2)
    assert procfs.eventually((cell.path / "ready").exists)
    paused.pause(60000)
    cell.to_worker(frame(COMMAND_TERMINATE, 2))
    assert paused.is_still() and paused.is_stopped(2) and not (cell.path / "trapped").exists()
    paused.pause(0)
    assert cell.from_worker.next()[:2] == (COMMAND_ENDED, 2) and (cell.path / "trapped").exists()


PASSES_ON = """python3 - <<'E'
import os, pty, tty
master, slave = pty.openpty()
tty.setraw(slave)
here, there = os.pipe()
if os.fork() == 0:
    while True: os.write(there, os.read(slave, 1))
while True:
    os.write(master, b'x')
    os.read(here, 1)
E
"""


@pytest.mark.deep("busy")
def test_what_is_stopped_does_not_wait_for_input(paused):
    """Some of its processes are stopped on their way out of a read of a terminal, all others wait for them."""
    paused.pause(0)
    cell = paused.cell
    cell.to_worker(frame(COMMAND_RUN, 2, command_run(len(PASSES_ON), input_wait=50), fds=2), fds=cell.run_fds())
    cell.to_worker(frame(COMMAND_BODY, 2, PASSES_ON.encode()))
    for call in range(10, 30):
        paused.pause(60000, call)
        time.sleep(.2)
        paused.pause(0, call)
        time.sleep(.02)
    assert not select.select([cell.worker_up], [], [], 0)[0]


@pytest.mark.parametrize("who", ["worker", "supervisor", "spawner"])
def test_nothing_stays_stopped(paused, who):
    """Whoever dies, also while the worker cannot do anything: what it has stopped ends."""
    everything = procfs.descendants(paused.supervisor.spawner.pid, without_path_resolvers=True)
    commands = [pid for pid in everything if procfs.name(pid) in ("bash", "sh")]
    worker = next(pid for pid in everything if procfs.name(pid) == "cloister-worker")
    assert commands
    if who == "worker":
        os.kill(worker, signal.SIGSTOP)
        signal_of_kill(paused.cell.pidfds[0])
    elif who == "spawner":
        os.kill(worker, signal.SIGSTOP)
        paused.supervisor.spawner.kill()
    else:
        paused.cell.worker_down.close()
        os.close(paused.cell.worker_up)
        paused.cell.worker_up = os.dup(paused.cell.files_up)
    assert procfs.vanish([worker, *commands])


def test_a_pause_without_cgroups(cell):
    """It is refused, and nothing is stopped."""
    cell.to_worker(frame(COMMAND_PAUSE, 9, command_pause(60000)))
    assert cell.from_worker.next()[:3] == (COMMAND_PAUSED, 9, command_paused(0))
    cell.run("true")
    assert cell.from_worker.next()[:2] == (COMMAND_ENDED, 1)


def test_one_number_for_two_commands(cell):
    cell.run("sleep 600")
    cell.to_worker(RUN, BODY, fds=cell.run_fds())
    assert cell.ends(0)
    assert not (cell.path / "marker").exists()


def test_more_text_for_a_command_that_runs(cell):
    cell.run("sleep 600")
    cell.to_worker(BODY)
    assert cell.ends(0)


def test_more_commands_than_there_may_be(cell):
    for call in range(1, 82):
        assert call < 81 or not select.select([cell.pidfds[0]], [], [], 0.2)[0]
        cell.to_worker(frame(COMMAND_RUN, call, command_run(1), fds=2), fds=cell.run_fds())
    assert cell.ends(0)


READ_X, WRITE_X = files_read("x"), files_write("x", 4)
TO_FILES = {
    "no type": frame(0),
    "a type of nobody's": frame(31),
    "an answer's type": frame(FILES_END, 1, files_end()),
    "another version": frame(FILES_READ, 1, READ_X, version=2),
    "a length beyond every frame": frame(FILES_BODY, 1, length=PAYLOAD_MAX + 1),
    "descriptors": frame(FILES_READ, 1, READ_X, fds=1),
    "a longer read": frame(FILES_READ, 1, READ_X + b"x"),
    "a shorter read": frame(FILES_READ, 1, READ_X[:-1]),
    "a path that ends elsewhere": frame(FILES_READ, 1, text("x", 2 ** 32 - 1) + b"\0" * 20),
    "a path that is too long": frame(FILES_READ, 1, files_read("x" * 4097)),
    "half a yes": frame(FILES_READ, 1, files_read("x", raw=2)),
    "half an image": frame(FILES_READ, 1, files_read("x", images=2)),
    "too much to write": frame(FILES_WRITE, 1, files_write("x", 2 ** 63)),
    "more content than announced": frame(FILES_WRITE, 1, WRITE_X) + frame(FILES_BODY, 1, b"12345"),
    "one number for two writes": frame(FILES_WRITE, 1, WRITE_X) * 2,
    "a longer write": frame(FILES_WRITE, 1, WRITE_X + b"x"),
    "half a hold": frame(FILES_WRITE, 1, files_write("x", 4, held=2)),
    "an order for what is not held": frame(FILES_WRITE, 1, WRITE_X) + frame(FILES_GO, 1),
    "a longer edit": frame(FILES_EDIT, 1, files_edit("x", 4) + b"x"),
    "more of an edit than announced": frame(FILES_EDIT, 1, files_edit("x", 4)) + frame(FILES_BODY, 1, b"12345"),
    "a longer patch": frame(FILES_PATCH, 1, files_patch(4) + b"x"),
    "more of a patch than announced": frame(FILES_PATCH, 1, files_patch(4)) + frame(FILES_BODY, 1, b"12345"),
    "too large a patch": frame(FILES_PATCH, 1, files_patch(2 ** 63)),
    "a longer listing": frame(FILES_LIST, 1, files_list(".") + b"x"),
    "a shorter listing": frame(FILES_LIST, 1, files_list(".")[:-1]),
    "half a depth": frame(FILES_LIST, 1, files_list(".", by_depth=2)),
    "a listing's pattern that is too long": frame(FILES_LIST, 1, files_list(".", "x" * 8193)),
    "a longer search": frame(FILES_SEARCH, 1, files_search("x") + b"x"),
    "a shorter search": frame(FILES_SEARCH, 1, files_search("x")[:-1]),
    "a search's pattern that is too long": frame(FILES_SEARCH, 1, files_search("x" * 8193)),
    "a cancel with a payload": frame(FILES_CANCEL, 1, b"x"),
    "a clearing with a payload": frame(FILES_CLEAR, 1, b"x"),
    "a sweep without a payload": frame(FILES_SWEEP, 1),
    "a sweep of no kind": frame(FILES_SWEEP, 1, b"x"),
    "a sweep and more": frame(FILES_SWEEP, 1, b"\0x"),
}


@pytest.mark.parametrize("name", TO_FILES)
def test_what_ends_a_files_process(cell, name):
    cell.to_files(TO_FILES[name])
    assert cell.ends(1)
    assert sorted(os.listdir(cell.path)) == []


@pytest.fixture
def outside(cell):
    """A file beside the workspace, and links to it and to others in it."""
    target = cell.supervisor.area.new_directory("outside") / "secret"
    target.write_text("cloister-secret")
    for name, where in {"link": target, "up": "..", "root": "/", "proc": "/proc/self/root/etc/passwd"}.items():
        (cell.path / name).symlink_to(where)
    return target


def paths_out(cell, target):
    near = f"{target.parent.name}/secret"
    return ["/etc/passwd", "../" + near, "a/../../" + near, "./../" + near, "link", "up/" + near, "root/etc/passwd", "proc",
            "/../../etc/passwd", f"{cell.path}/../{near}", str(target), "/proc/self/environ", "/proc/1/root/etc/passwd",
            "/dev/null", "", "x\0y", "../" * 1000 + "etc/passwd", "//etc/passwd"]


def edit_of(path, *edits):
    body = b"".join(edits)
    return frame(FILES_EDIT, 1, files_edit(path, len(body))) + frame(FILES_BODY, 1, body)


def patch_of(*parts):
    body = b"".join(parts)
    return frame(FILES_PATCH, 1, files_patch(len(body))) + frame(FILES_BODY, 1, body)


def test_no_path_leads_out(cell, outside):
    (cell.path / "inside").write_text("inside\n")
    hunk = [patch_part("H"), patch_part("-", "inside\n"), patch_part("+", "evil\n")]
    for path in paths_out(cell, outside):
        # cloisterd names no such path in a patch: a files process that meets one ends.
        patches = [] if path == "" or "\0" in path else [
            patch_of(patch_part("A", path), patch_part("+", "evil\n")), patch_of(patch_part("D", path)),
            patch_of(patch_part("U", path), *hunk), patch_of(patch_part("U", "inside"), patch_part("M", path), *hunk)]
        for request in (frame(FILES_READ, 1, files_read(path, raw=1)), frame(FILES_LIST, 1, files_list(path, recursive=1)),
                        frame(FILES_SEARCH, 1, files_search("cloister-secret|root", path)),
                        frame(FILES_WRITE, 1, files_write(path, 4, 1)) + frame(FILES_BODY, 1, b"evil"),
                        edit_of(path, edit("cloister-secret", "evil")), *patches):
            *content, end = cell.ask_files(request)
            error = end_of(end[2])[0]
            # What went wrong with an edit or a patch may name the path that was asked for.
            told = [payload for kind, _, payload, _ in content if kind == FILES_TROUBLE]
            assert error != 0 and len(told) == len(content), (path, request[:32], content)
            assert not [payload for payload in told if b"cloister-secret" in payload or b"root:" in payload], (path, told)
    assert (cell.path / "inside").read_text() == "inside\n"
    assert outside.read_text() == "cloister-secret"
    assert os.listdir(outside.parent) == ["secret"]


def test_counts_without_a_bound(cell):
    for i in range(20):
        (cell.path / f"f{i}").write_text("needle\n")
    listed = cell.ask_files(frame(FILES_LIST, 1, files_list(".", entries=2 ** 32 - 1)))
    found = cell.ask_files(frame(FILES_SEARCH, 2, files_search("needle", results=2 ** 32 - 1)))
    assert [len(listed), len(found)] == [21, 21]
    assert end_of(cell.ask_files(frame(FILES_READ, 3, files_read("f1", 2 ** 64 - 1, 2 ** 64 - 1)))[-1][2])[0] in (0, 6)


def test_more_writes_than_there_may_be(cell):
    cell.to_files(*[frame(FILES_WRITE, call, WRITE_X) for call in range(1, 82)])  # LIMIT_FILE_WRITES, LIMIT_FILE_STREAMS and one
    kind, call, payload, _ = cell.from_files.next()
    assert (kind, call) == (FILES_END, 81) and end_of(payload)[0] != 0
    assert not os.path.exists(cell.path / "x")


@pytest.mark.skipif(not AM_ROOT, reason="needs root to look into other processes")
def test_a_files_process_takes_no_descriptors(cell):
    """Not even where a request comes with them."""
    (cell.path / "x").write_text("text")
    with open(f"/proc/self/fdinfo/{cell.pidfds[1]}") as file:
        pid = next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
    cell.ask_files(frame(FILES_READ, 1, files_read("x")))  # it is completely confined when it reads its first request
    before = procfs.fds(pid)
    root = os.open("/", os.O_PATH)
    for call in range(20):
        cell.to_files(frame(FILES_READ, call, files_read("x")), fds=[root] * 8)
        assert [kind for kind, *_ in (cell.from_files.next(), cell.from_files.next())] == [FILES_DATA, FILES_END]
    os.close(root)
    assert procfs.eventually(lambda: procfs.fds(pid) == before), (procfs.fds(pid), before)
