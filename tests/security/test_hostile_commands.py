# SPDX-License-Identifier: Apache-2.0
"""Commands that try to outlive their call, to hide, to starve others or to get out.

cloister ends each in bounded time and reports the true cause. No process of it is alive when its answer comes, and
cloister serves another workspace meanwhile.
"""

import base64
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import procfs
import pytest
from attacks import KINDS
from cells import Bystander, Cell, with_variable
from daemon import AM_ROOT, INSTALLED, is_sanitized

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PROCESSES = 512 if INSTALLED else 1024  # command_processes, where there are cgroups, or LIMIT_PROCESSES
OPEN_FILES = 4096  # DEFAULT_OPEN_FILES
TMP_BYTES, TMP_INODES = 1 * GIB, 200000  # DEFAULT_TMP_BYTES, LIMIT_TMP_INODES
DATA_BYTES = 8 * GIB
GRACE = 5.0  # LIMIT_TERM_GRACE_MS

# Sanitizers, a busy machine and emulation slow everything down. A hang takes longer than this.
SLOW = 10 if INSTALLED else 3 if is_sanitized() else 1
PATIENCE = 5 * SLOW  # in the same unit, for another workspace's read_file
SOON = 10 * SLOW  # in procfs.free_seconds(), for a command that waits for nothing
PYTHON = "/usr/bin/python3 -"  # the program is standard input

# For every program here: system calls that return their error.
PRELUDE = """
import ctypes, errno, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    'The name of the error of a call, or its result.'
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
"""


# A session's end must leave as little as a call's; a terminal has no other input than keys.
also_as_session = pytest.mark.parametrize("cell", ["command", "session"], indirect=True)
as_each_kind = pytest.mark.parametrize("cell", list(KINDS), indirect=True)


# What a command is asked to end by. A terminal is hung up first.
ASKED = {"command": "SIGTERM", "session": "SIGTERM", "terminal": "SIGHUP"}


@pytest.fixture(scope="module")
def bystander(daemon):
    cell = Bystander(daemon, PATIENCE)
    cell.kind = "command"
    yield cell
    cell.check()
    cell.close()


@pytest.fixture
def cell(daemon, bystander, request):
    """A workspace that one test may ruin. Its commands are calls, unless the test is also run with sessions."""
    made = Cell(daemon)
    made.kind = getattr(request, "param", "command")
    yield made
    made.close()


def begin(cell, command, options=None, **arguments):
    """Sends a hostile command, as the kind of attack that the test is run with."""
    return KINDS[cell.kind](cell, command, options, **arguments)


def attack(cell, bystander, command, options=None, within=SOON, **arguments):
    """Runs a hostile command while another workspace is served. Returns the observation."""
    sent = begin(cell, command, options, **arguments)
    bystander.check()
    observation = sent.observe(within)
    assert not cell.command_processes()
    return observation


def endures(cell, bystander, command, **keywords):
    """Runs a command that ends by itself. Returns its output."""
    observation = attack(cell, bystander, command, **keywords)
    assert observation["success"], observation["error"]
    assert observation["output"]["ended_by"] in ("exit", "signal")
    assert observation["output"]["timed_out"] is False
    return observation["output"]


def program(cell, bystander, text, command=PYTHON, **keywords):
    """Runs a Python program that must exit with 0. Returns its output."""
    output = endures(cell, bystander, command, options={"stdin": PRELUDE + text}, **keywords)
    assert output["exit_code"] == 0, output
    return output


ERRORS = {"timeout": "TIMEOUT", "output_limit": "OUTPUT_LIMIT", "cancel": "CANCELLED"}


def is_ended(observation, by):
    assert not observation["success"], observation["output"]
    assert observation["error"]["code"] == ERRORS[by], observation["error"]
    assert observation["output"]["ended_by"] == by
    assert observation["output"]["timed_out"] is (by == "timeout")
    return observation["output"]


def ended(by, cell, bystander, command, **keywords):
    """Runs a command that cloister ends. Returns its output."""
    return is_ended(attack(cell, bystander, command, **keywords), by)


def cancelled(cell, bystander, command, state="", file=".", within=SOON, **keywords):
    """Cancels a command once it runs (or is in @state) and has made the file. Returns its output."""
    sent = begin(cell, command, **keywords)
    sent.runs(state)
    assert procfs.eventually((cell.path / file).exists)
    bystander.check()
    sent.cancel()
    output = is_ended(sent.observe(within), "cancel")
    assert not cell.command_processes()
    return output


# Too many processes


@pytest.mark.parametrize("command,options", [
    ("bomb() { bomb | bomb & }; bomb & exec sleep 600", None),
    ("bomb() { bomb & bomb; }; bomb & exec sleep 600", None),
    (PYTHON, {"stdin": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n"}),
    ("echo 'sh ./again & sh ./again &' > again; setsid sh ./again & exec sleep 600", None)],
    ids=["pipes", "halves", "exponential", "scripts"])
@also_as_session
def test_fork_bombs(cell, bystander, command, options):
    sent = begin(cell, command, options, timeout_ms=600000)
    assert procfs.eventually(cell.command_processes)
    time.sleep(0.5)  # the time in which it forks
    bystander.check()
    assert len(cell.command_processes()) <= PROCESSES
    sent.cancel()
    # Processes that the first SIGTERM misses get the whole grace period.
    observation = sent.observe(GRACE + 2 * SOON)
    # cloisterd kills a worker that does not get to end a bomb within LIMIT_KILL_REPORT_MS, and the bomb with it.
    if "did not answer, and cloisterd killed it" not in (observation["error"] or {}).get("message", ""):
        is_ended(observation, "cancel")
    assert not cell.command_processes()
    assert cell.client.run("echo well")["stdout"] == "well\n"


FULL = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
n = 0
try:
    while os.fork():
        n += 1
except OSError as error:
    open('count', 'w').write(f'{n} {errno.errorcode[error.errno]}')
    os.rename('count', 'full')
while True:
    signal.pause()
"""


@also_as_session
def test_a_workspace_full_of_processes(cell, bystander):
    """The processes ignore SIGTERM and the shell does not, which is enough to end the command."""
    sent = begin(cell, PYTHON, {"stdin": PRELUDE + FULL}, timeout_ms=600000)
    assert procfs.eventually((cell.path / "full").exists)
    bystander.check()
    count, error = (cell.path / "full").read_text().split()
    assert error == "EAGAIN"
    assert PROCESSES - 32 < int(count) <= PROCESSES
    assert len(cell.command_processes()) <= PROCESSES
    # A call that needs a process is refused with the reason, unless the one command took all. Other calls are served.
    if INSTALLED:
        assert cell.client.run("echo well")["stdout"] == "well\n"
    else:
        assert cell.client.fail("run_command", command="true")["code"] == "PROCESS_LIMIT"
    assert cell.client.use("read_file", path="full")
    assert bystander.client.run("echo well")["stdout"] == "well\n"
    sent.cancel()
    is_ended(sent.observe(GRACE + 3 * SOON), "cancel")
    assert not cell.command_processes()
    assert cell.client.run("echo well")["stdout"] == "well\n"


# Too much of any other resource


@pytest.mark.skipif(is_sanitized(), reason="sanitized programs need more memory than the limit")
def test_memory_bombs(cell, bystander):
    """The programs allocate memory and never touch it, so the machine keeps its own."""
    output = program(cell, bystander, f"""
import resource
resource.setrlimit(resource.RLIMIT_DATA, ({DATA_BYTES}, -1))
held = []
try:
    while len(held) < 100:
        held.append(bytes(1 << 28))
except MemoryError:
    print(len(held))
""")
    assert 28 <= int(output["stdout"]) <= DATA_BYTES >> 28
    output = endures(cell, bystander, f"exec {PYTHON}", options={
        "stdin": f"import resource\nresource.setrlimit(resource.RLIMIT_DATA, ({DATA_BYTES}, -1))\nbytes({DATA_BYTES})"})
    assert (output["exit_code"], output["ended_by"]) == (1, "exit")
    assert "MemoryError" in output["stderr"]


@also_as_session
def test_memory_under_the_commands_own_limit(cell, bystander):
    """The program touches the memory, and cannot raise its limit again."""
    for command in ("ulimit -d 100000; x=xxxxxxxx; while :; do x=$x$x; done",
                    "ulimit -d 100000; perl -e 'push @x, \"x\" x 1e7 while 1'",
                    "ulimit -d 100000; ulimit -d unlimited", "ulimit -u 100000", "ulimit -n 100000"):
        output = endures(cell, bystander, command)
        assert output["exit_code"] != 0, command


@also_as_session
def test_a_disk_filler(cell, bystander):
    output = endures(cell, bystander, f"head -c {2 * TMP_BYTES} /dev/zero > /tmp/fill", within=6 * SOON)
    assert output["exit_code"] == 1
    assert "No space left" in output["stderr"]
    output = cell.client.run("stat -c %s /tmp/fill; for d in /run /dev/shm $HOME; do "
                             "head -c 100000 /dev/zero > $d/more || echo full; done")
    size, *rest = output["stdout"].split()
    assert 0.9 * TMP_BYTES < int(size) <= TMP_BYTES
    assert rest == ["full"] * 3
    # The workspace's file system is another one, and so is another workspace's /tmp.
    assert cell.client.use("write_file", path="file", content="x")
    assert cell.client.run("cat file")["stdout"] == "x"
    assert bystander.client.run("echo x > /tmp/x && cat /tmp/x")["stdout"] == "x\n"
    assert cell.client.run("rm /tmp/fill; echo x > /tmp/x && cat /tmp/x")["stdout"] == "x\n"


def test_an_inode_filler(cell, bystander):
    output = program(cell, bystander, """
os.mkdir('/tmp/fill')
os.chdir('/tmp/fill')
n = 0
while True:
    try:
        os.mknod(str(n))
    except OSError as error:
        print(n, errno.errorcode[error.errno])
        break
    n += 1
""", within=6 * SOON, timeout_ms=60000 * SLOW)
    count, error = output["stdout"].split()
    assert (error, 0.9 * TMP_INODES < int(count) <= TMP_INODES) == ("ENOSPC", True)
    assert cell.client.run("echo $(ls -f /tmp/fill | wc -l)")["exit_code"] == 0
    assert bystander.client.run("echo x > /tmp/x && cat /tmp/x")["stdout"] == "x\n"


@also_as_session
def test_a_file_that_is_too_large(cell, bystander):
    output = endures(cell, bystander, "exec truncate -s 17G file")
    assert (output["ended_by"], output["signal"]) == ("signal", "SIGXFSZ")


@also_as_session
def test_descriptor_exhaustion(cell, bystander):
    output = program(cell, bystander, """
import resource
def fill():
    n = 0
    while True:
        try:
            os.pipe() if n % 2 else os.dup(0)
        except OSError as error:
            return errno.errorcode[error.errno], len(os.listdir('/proc/self/fd')) if n < 0 else n
        n += 1
pids = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        print(*fill(), flush=True)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    print('raised')
except (ValueError, OSError):
    pass
""")
    lines = output["stdout"].split("\n")[:-1]
    assert len(lines) == 20
    for line in lines:
        error, count = line.split()
        assert (error, int(count) < OPEN_FILES) == ("EMFILE", True)


# Too much output, and output that is hard to decode


@pytest.mark.parametrize("command,streams", [
    ("yes", ["stdout"]), ("yes >&2", ["stderr"]), ("echo; echo >&2; yes & yes >&2 & wait", ["stdout", "stderr"]),
    ("(setsid yes &); yes", ["stdout"]), ("exec cat /dev/zero", ["stdout"])])
def test_floods(cell, bystander, command, streams):
    output = ended("output_limit", cell, bystander, command, within=6 * SOON, timeout_ms=120000)
    assert output["truncated"] is True
    assert max(output[f"{stream}_bytes"] for stream in streams) > 64 * MIB
    for stream in ("stdout", "stderr"):
        assert len(output[stream]) < 260 * KIB
        assert output[f"{stream}_bytes"] <= 67 * MIB
        assert (output[f"{stream}_bytes"] > 0) is (stream in streams)


def test_eight_floods_at_once(cell, bystander):
    numbers = [cell.client.begin("run_command", {"command": "yes", "timeout_ms": 10000})
               for _ in range(8)]
    for _ in range(10):
        bystander.check()
    for number in numbers:
        observation = cell.client.result(number)
        is_ended(observation, {"TIMEOUT": "timeout"}.get(observation["error"]["code"], "output_limit"))


def test_a_client_that_does_not_read_stalls_its_own_command_only(cell, bystander):
    sent = begin(cell, "yes", {"stream": True}, timeout_ms=3000)
    sent.runs()
    for _ in range(10):
        bystander.check()

    def ended_meanwhile():
        bystander.check()
        return not with_variable(sent.mark)
    assert procfs.eventually(ended_meanwhile, interval=0.2)
    output = is_ended(sent.observe(6 * SOON), "timeout")
    streamed = sum(len(message["params"]["data"]) for message in cell.client.notifications)
    assert streamed == output["stdout_bytes"] < 64 * MIB


BYTES = bytes(range(256)) * 300


def test_binary_output(cell, bystander):
    cell.write("bytes", "")
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)"
    output = endures(cell, bystander, PYTHON, options={"stdin": script, "encoding": "utf-8"})
    assert output["stdout"] == BYTES.decode(errors="replace")
    assert output["stdout_bytes"] == len(BYTES)
    stdin = base64.b64encode(script.encode()).decode()
    output = endures(cell, bystander, PYTHON, options={"stdin": stdin, "encoding": "base64"})
    assert base64.b64decode(output["stdout"]) == BYTES
    output = endures(cell, bystander, "head -c 5000000 /dev/urandom >&2; head -c 300000 /dev/urandom")
    assert (output["stderr_bytes"], output["stdout_bytes"]) == (5000000, 300000)


def streamed(cell):
    """What has been streamed of stdout and of stderr."""
    messages = [message["params"] for message in cell.client.notifications]
    assert [message["seq"] for message in messages] == list(range(len(messages)))
    return ["".join(m["data"] for m in messages if m["stream"] == stream)
            for stream in ("stdout", "stderr")]


def test_characters_that_come_in_pieces(cell, bystander):
    """Byte by byte on both streams at once."""
    out, err = "a€😀ü" * 3, "😀é" * 3
    output = program(cell, bystander, f"""
out, err = {out!r}.encode(), {err!r}.encode()
for i in range(max(len(out), len(err))):
    os.write(1, out[i:i + 1])
    os.write(2, err[i:i + 1])
    time.sleep(0.01)
""")
    assert (output["stdout"], output["stderr"]) == (out, err)
    sent = begin(cell, PYTHON, {"stream": True, "stdin": f"""
import os, time
for i in range(40):
    os.write(1, {out!r}.encode()[i:i + 1])
    os.write(2, {err!r}.encode()[i:i + 1])
    time.sleep(0.01)
"""})
    output = sent.observe(SOON)["output"]
    assert (output["stdout"], output["stderr"]) == (out, err)
    assert streamed(cell) == [out, err]


@pytest.mark.parametrize("character,count", [("€", 80000), ("😀", 60001)])
def test_characters_across_the_chunks_of_a_stream(cell, bystander, character, count):
    script = f"import os\ndata = b'x' + {character!r}.encode() * {count}\n" \
             "while data: data = data[os.write(1, data[:70001]):]\n"
    sent = begin(cell, PYTHON, {"stream": True, "stdin": script})
    assert sent.observe(SOON)["output"]["stdout"] == "x" + character * count
    assert streamed(cell) == ["x" + character * count, ""]
    assert all("\ufffd" not in m["params"]["data"] for m in cell.client.notifications)


@also_as_session
def test_closed_standard_streams(cell, bystander):
    """A command that closes its standard streams has not ended."""
    output = endures(cell, bystander, "exec 0<&- 1>&- 2>&-; sleep 0.3; exit 7")
    assert (output["exit_code"], output["stdout"], output["stderr"]) == (7, "", "")
    assert output["duration_ms"] >= 300
    ended("timeout", cell, bystander, "exec 0<&- 1>&- 2>&-; sleep 600", timeout_ms=3000)
    output = cancelled(cell, bystander, "echo x; exec >&- 2>&-; touch closed; exec sleep 600", file="closed")
    assert output["stdout"] == "x\n"


# Processes that try to stay


STAYING = {
    "zombies": PYTHON,
    "orphans": "for i in $(seq 50); do (sh -c 'sleep 600 & sleep 600' &); done; sleep 0.2",
    "double fork": "(setsid sh -c '(setsid sleep 600 &)' &) ; sleep 0.2",
    "daemon": "(setsid sh -c 'exec 0</dev/null 1>&- 2>&-; cd /; sleep 600' &); sleep 0.2",
    "respawner": "echo 'trap \"\" HUP INT; sleep 0.01; setsid sh ./again & setsid sleep 600' > again; "
                 "setsid sh ./again & sleep 0.5",
    "nohup": "nohup sleep 600 > /dev/null 2>&1 & nohup sh -c 'sleep 600' & sleep 0.2",
    "held pipes": "sleep 600 & (sleep 601; echo late) & sleep 0.1",
    "held pipes of a reader": "sleep 600 | sleep 601 & mkfifo f; sleep 602 > f & sleep 0.1",
    "ignored signals": "(trap '' TERM INT HUP QUIT; while :; do sleep 0.1; done) & sleep 0.2",
    "stopped": "sleep 600 & kill -STOP $!; sleep 0.1",
    "everything else stopped": "sleep 600 & sh -c 'sleep 601; :' & sleep 0.1; kill -STOP -1",
    "killer of all": "sleep 600 & setsid sleep 601 & sleep 0.1; kill -9 -1",
    "busy": "(while :; do :; done) & (while :; do :; done) & sleep 0.2",
    "busy output": "(while :; do echo x; sleep 0.001; done) & sleep 0.1",
}
# All orphans together stay below the command's limit, however fast they come.
ZOMBIES = """
for i in range(320):
    if os.fork() == 0:
        if i % 2 and os.fork() == 0:
            time.sleep(0.1)  # an orphan by then, and soon the init's zombie
        os._exit(0)

def processes():
    'State and parent of each.'
    for pid in filter(str.isdigit, os.listdir('/proc')):
        stat = attempt(lambda: open(f'/proc/{pid}/stat').read())
        if ') ' in stat:
            state, parent = stat.rsplit(') ', 1)[1].split()[:2]
            yield state, int(parent)

def zombies():
    return found.count(('Z', os.getpid()))

deadline = time.time() + 20
found = list(processes())
while len(found) > 323 or zombies() < 320:  # init, shell, this and its zombies
    if time.time() > deadline:
        sys.exit('the init does not reap')
    found = list(processes())
print(zombies(), file=sys.stderr)
"""


@pytest.mark.parametrize("kind", STAYING)
@as_each_kind
def test_what_tries_to_stay(cell, bystander, kind):
    options = {"stdin": PRELUDE + ZOMBIES} if kind == "zombies" and cell.kind != "terminal" else None
    command = STAYING[kind]
    if kind == "zombies" and not options:  # a terminal's program is not its input
        cell.write("program", PRELUDE + ZOMBIES)
        command = PYTHON.replace("-", "program")
    output = endures(cell, bystander, command + "; echo done", options=options)
    assert (output["ended_by"], output["exit_code"]) == ("exit", 0), output
    # A terminal has both streams.
    said = [line for line in output["stdout"].splitlines() if line not in ("x", "320") and not line.startswith("nohup:")]
    assert said == ["done"], output
    if kind == "zombies" and options:
        assert output["stderr"] == "320\n"


@pytest.mark.parametrize("command", [
    "kill -STOP $$", "kill -STOP 0", "sleep 600 & kill -STOP 0", "sh -c 'kill -STOP -1'; sleep 600",
    "while :; do kill -STOP $$; done", "setsid sh -c 'kill -STOP $PPID; sleep 600'; true"])
@as_each_kind
def test_what_stops_itself(cell, bystander, command):
    """A stopped command is continued, so that it receives SIGTERM and needs no grace period."""
    assert cancelled(cell, bystander, command, "T")["signal"] == ASKED[cell.kind]


@as_each_kind
def test_a_stopped_command_is_cancelled_at_once(cell, bystander):
    assert cancelled(cell, bystander, "sleep 600 & touch begun; kill -STOP 0", "T", "begun")["signal"] == ASKED[cell.kind]


@also_as_session
def test_what_ignores_signals(cell, bystander):
    """All run at once, because each takes the whole grace period."""
    deaf = "trap '' TERM INT HUP QUIT"
    commands = [
        f"{deaf}; while :; do sleep 0.1; done",
        f"{deaf}; while :; do kill -STOP 0; done",
        f"(setsid sh -c \"{deaf}; while :; do sleep 0.1; done\" &); while :; do sleep 0.1 || :; done",
        "trap 'sh -c \"sleep 600\"' TERM; while :; do sleep 0.1; done",
        f"{deaf}; exec {PYTHON}",
        f"{deaf}; (while :; do (setsid sleep 0.2 &); sleep 0.1; done) & exec sleep 600"]
    signals = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n" \
              "while True: time.sleep(1)\n"
    sent = [begin(cell, command, {"stdin": signals}, timeout_ms=3000) for command in commands]
    bystander.check()
    for one in sent:
        output = is_ended(one.observe(3 + GRACE + SOON), "timeout")
        assert output["duration_ms"] < 1000 * (3 + GRACE + 6 * SOON)
    assert not cell.command_processes()


@pytest.mark.parametrize("number,name", [
    ("SEGV", "SIGSEGV"), ("ABRT", "SIGABRT"), ("9", "SIGKILL"), ("BUS", "SIGBUS")])
@as_each_kind
def test_crashes(cell, bystander, number, name):
    output = endures(cell, bystander, f"sleep 600 & kill -{number} $$; sleep 600")
    assert (output["ended_by"], output["signal"], output["exit_code"]) == ("signal", name, None)


@also_as_session
def test_a_real_crash(cell, bystander):
    output = endures(cell, bystander, f"echo before; exec {PYTHON}",
                     options={"stdin": "import ctypes; ctypes.string_at(0)"})
    assert (output["ended_by"], output["signal"]) == ("signal", "SIGSEGV")
    assert output["stdout"] == "before\n"
    assert not os.listdir(cell.path), "a core was dumped"


FORBIDDEN_CALL = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
# seccomp(2), Berkeley packet filter: a system call number above 100000 kills, all others are allowed.
code = struct.pack("HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x25, 0, 1, 100000, 0x06, 0, 0, 0x80000000,
                   0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer)))
print("before", flush=True)
assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
libc.syscall(100001)
print("after", flush=True)
"""


@also_as_session
def test_a_forbidden_system_call(cell, bystander):
    observation = attack(cell, bystander, f"exec {PYTHON}", options={"stdin": FORBIDDEN_CALL})
    output, error = observation["output"], observation["error"]
    assert (error, output["ended_by"], output["signal"]) == (None, "signal", "SIGSYS")
    assert output["stdout"] == "before\n"


@as_each_kind
def test_a_filter_is_not_blamed_for_what_was_sent(cell, bystander):
    """SIGSYS from kill(2) cannot be told from a filter's, so the observation names the signal only."""
    observation = attack(cell, bystander, "kill -SYS $$; sleep 600")
    output = observation["output"]
    assert (observation["error"], output["ended_by"], output["signal"]) == (None, "signal", "SIGSYS")


TRACE_ME = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))
def trace_me():
    assert libc.ptrace(0, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
"""


@pytest.mark.parametrize("program, wanted", [
    ("trace_me(); os.kill(os.getpid(), signal.SIGUSR1); os._exit(7)", ("handled\n", "exit", 7, None)),
    ("trace_me(); os.execv('/bin/sh', ['sh', '-c', 'echo on; exit 5'])", ("on\n", "exit", 5, None)),
    ("trace_me(); os.kill(os.getpid(), signal.SIGTERM); os._exit(7)", ("", "signal", None, "SIGTERM")),
    ("trace_me(); [(os.kill(os.getpid(), signal.SIGUSR1), trace_me()) for _ in range(100)]; os._exit(3)",
     ("handled\n" * 100, "exit", 3, None)),
    ("trace_me(); os.kill(os.getpid(), signal.SIGSTOP); os._exit(7)", ("", "timeout", None, "SIGTERM")),
], ids=["a signal", "an exec", "its death", "again and again", "a stop"])
@also_as_session
def test_its_init_traces_nobody(cell, bystander, program, wanted):
    """PTRACE_TRACEME makes the init the tracer, and the shell stops at its next signal. The init does not take that for its end."""
    stays = wanted[1] == "timeout"
    cell.write("trace.py", TRACE_ME + program)
    observation = attack(cell, bystander, "exec /usr/bin/python3 -u trace.py", timeout_ms=1000 if stays else 30000)
    output = observation["output"]
    assert (output["stdout"], output["ended_by"], output["exit_code"], output["signal"]) == wanted, observation
    assert observation["success"] is not stays


@also_as_session
def test_its_init_traces_no_orphan(cell, bystander):
    cell.write("trace.py", TRACE_ME + """
if os.fork() == 0:
    if os.fork() == 0:
        while os.getppid() != 1:
            pass
        trace_me()
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0)
    os._exit(0)
os.wait()
""")
    output = endures(cell, bystander, "/usr/bin/python3 -u trace.py | cat; echo ended")
    assert (output["stdout"], output["exit_code"]) == ("handled\nended\n", 0)


@as_each_kind
def test_a_command_that_is_killed_by_its_child(cell, bystander):
    for command in ("sh -c 'kill -9 $PPID; sleep 600' & wait", "sh -c 'kill -9 -1; sleep 600'; sleep 600"):
        output = endures(cell, bystander, command)
        assert (output["ended_by"], output["signal"]) == ("signal", "SIGKILL")


# The init


@also_as_session
def test_signals_to_the_parent(cell, bystander):
    # A sanitizer handles these signals itself, in the init too.
    handled = (signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV) if is_sanitized() else ()
    numbers = " ".join(str(i) for i in range(1, 65) if i not in handled)
    output = endures(cell, bystander, "kill -9 $PPID; kill -9 1; kill -STOP 1; kill -TERM 1; "
                     f"for i in {numbers}; do kill -$i 1; done; sleep 0.2; echo $PPID")
    assert (output["stdout"], output["exit_code"]) == ("1\n", 0)


@pytest.mark.parametrize("number", ["TERM", "CHLD", "9"])
@as_each_kind
def test_a_flood_of_signals_at_the_parent(cell, bystander, number):
    """A pending SIGTERM from the command swallows the worker's; then the command ends when the grace period is over."""
    loop = f"while :; do kill -{number} 1; done"
    cancelled(cell, bystander, f"touch begun; ({loop}) & ({loop}) & {loop}", file="begun", within=GRACE + SOON)


@also_as_session
def test_triggers_of_pressure(cell, bystander):
    """The kernel takes milliseconds to remove each trigger: a killed process with 4096 of them would stay for a minute."""
    output = program(cell, bystander, """
held = []

def trigger(path):
    held.append(os.open(path, os.O_RDWR))
    return os.write(held[-1], b'some 1 2000000\\n')

for name in ('cpu', 'io', 'memory', 'irq'):
    for _ in range(100):
        if attempt(trigger, f'/proc/pressure/{name}') in errno.errorcode.values():
            break
print(len(held), attempt(os.open, '/proc/pressure/new', os.O_CREAT | os.O_RDWR))
""")
    assert output["stdout"].split()[0] == "0"
    assert output["stdout"].split()[1] in ("EACCES", "ENOSPC", "ENOENT")


REAL_TIME = ["prlimit", "--rtprio=9:9"]


@pytest.mark.skipif(not AM_ROOT or subprocess.run([*REAL_TIME, "true"], capture_output=True).returncode != 0,
                    reason="needs CAP_SYS_RESOURCE")
def test_the_users_right_to_real_time_is_not_passed_on(start_daemon, area):
    """Desktops give users RLIMIT_RTPRIO for sound. With it a command of priority FIFO would keep a CPU to itself."""
    ids = [f"--reuid={area.account.uid}", f"--regid={area.account.gid}", "--clear-groups"]
    client = start_daemon(launcher=[*REAL_TIME, "setpriv", *ids]).connect()
    client.call("workspace.open", {"root": str(area.new_directory())})
    output = client.run("chrt -f 1 echo first; grep -i realtime.priority /proc/self/limits")
    assert output["stdout"].split() == ["Max", "realtime", "priority", "0", "0"]


@also_as_session
def test_the_init_cannot_be_traced_or_read(cell, bystander):
    output = program(cell, bystander, """
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(16)
here = Vector(ctypes.addressof(buffer), 16)
there = Vector(ctypes.c_void_p(ctypes.addressof(buffer)).value, 16)
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
print('attach', call('ptrace', PTRACE_ATTACH, 1, None, None))
print('seize', call('ptrace', PTRACE_SEIZE, 1, None, None))
print('readv', call('process_vm_readv', 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
print('writev', call('process_vm_writev', 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
for name in ('mem', 'environ', 'fd', 'fdinfo', 'maps', 'auxv', 'stack', 'syscall', 'map_files', 'io'):
    path = f'/proc/1/{name}'
    print(name, attempt(lambda: os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1)))
for name in ('root', 'cwd', 'exe', 'ns/user', 'ns/pid', 'ns/mnt'):
    print(name, attempt(os.readlink, f'/proc/1/{name}'))
for name in ('mem', 'oom_score_adj', 'comm', 'clear_refs', 'coredump_filter'):
    print('write', name, attempt(open, f'/proc/1/{name}', 'wb'))
pidfd = os.pidfd_open(1)
for fd in range(8):
    print('getfd', call('syscall', 438, pidfd, fd, 0))
print('setns', call('setns', pidfd, 0x00020000))
print('processes', call('syscall', 424, pidfd, 9, None, 0))
""")
    lines = output["stdout"].splitlines()
    assert len(lines) == 4 + 10 + 6 + 5 + 8 + 2
    for line in lines[:-1]:
        assert re.fullmatch(r"[a-z/_ ]+ (EPERM|EACCES|EBADF|ESRCH|ENOENT)", line), line


@also_as_session
def test_what_may_be_done_to_the_init_hurts_its_command_only(cell, bystander):
    """The init runs with the command's id, so the command can change its limits and its priority."""
    text = """
import resource
for name in dir(resource):
    if name.startswith('RLIMIT_'):
        try:
            resource.prlimit(1, getattr(resource, name), (0, 0))
        except (OSError, ValueError):
            pass
attempt(os.setpriority, os.PRIO_PROCESS, 1, 19)
attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
attempt(os.sched_setaffinity, 1, [0])
open('hurt' + sys.argv[1], 'w')
time.sleep(float(sys.argv[1]))
"""
    observation = attack(cell, bystander, f"{PYTHON} 0.2; sleep 600 & exit 3",
                         options={"stdin": PRELUDE + text})
    assert observation["success"]
    assert observation["output"]["exit_code"] == 3 or observation["output"]["signal"]
    sent = begin(cell, f"{PYTHON} 600", {"stdin": PRELUDE + text})
    assert procfs.eventually((cell.path / "hurt600").exists)
    bystander.check()
    sent.cancel()
    assert sent.observe(GRACE + SOON)["output"]["ended_by"] in ("cancel", "signal")
    assert not cell.command_processes()
    limits, others = [one.client.run("ulimit -n; nice")["stdout"] for one in (cell, bystander)]
    assert limits == others and limits.startswith(f"{OPEN_FILES}\n")


# Ways out of the workspace


def test_there_is_no_terminal(cell, bystander):
    output = endures(cell, bystander, "(: < /dev/tty) || (: > /dev/tty) || tty")
    assert output["exit_code"] == 1
    assert output["stdout"] == "not a tty\n"
    assert output["stderr"].count("No such device or address") == 2
    output = endures(cell, bystander, "read line; echo $?; sh -c 'read line < /dev/tty'; echo $?")
    assert output["stdout"] == "1\n2\n"


REFUSED = [
    "unshare -U true", "unshare -Urm true", "unshare -n true", "mount -t tmpfs none /tmp",
    "mount -o remount,rw /usr", "mount --bind /tmp $PWD", "umount $PWD", "umount -l /proc",
    "echo 0 > /proc/sys/kernel/randomize_va_space", "echo x > /proc/sys/kernel/core_pattern",
    "echo 1 > /proc/sys/net/ipv4/ip_forward", "echo c > /proc/sysrq-trigger",
    "echo 10 > /proc/sys/user/max_user_namespaces", "echo -1000 > /proc/self/oom_score_adj",
    "chroot / true", "nice -n -5 true 2>&1 | grep -v 'cannot set'",
    "mv $PWD ${PWD}2", "mv ${PWD%/*} /tmp/away", "rmdir $PWD", "rm -r ${PWD%/*}",
    "su -c true", "su root -c true < /dev/null", "passwd -d agent", "newgrp root < /dev/null",
    "chown 0 /tmp/x", "ls /proc/1/root/", "ls /root", "cat /etc/shadow", "ip link add d type dummy",
    "nsenter -t 1 -m true", "setpriv --reuid 0 true", "hostname other", "swapon /tmp/x"]


@as_each_kind
def test_what_is_refused(cell, bystander):
    script = "PATH=$PATH:/usr/sbin:/sbin\ntouch /tmp/x\n" + "".join(
        f"({command}) > /dev/null 2>&1 && echo '{i}'\n" for i, command in enumerate(REFUSED)) + "pwd; ls -A"
    output = endures(cell, bystander, script)
    *allowed, path = output["stdout"].splitlines()
    assert not [REFUSED[int(line)] for line in allowed]
    assert path == str(cell.path)
    assert cell.client.run("pwd; id -u")["stdout"] == f"{cell.path}\n1000\n"


@as_each_kind
def test_set_user_id_programs_have_no_effect(cell, bystander):
    cell.client.run("cp /usr/bin/grep here")
    (cell.path / "here").chmod(0o6755)  # no command could
    output = endures(cell, bystander, "./here -hE '^(Uid|CapEff|CapPrm|NoNewPrivs):' /proc/self/status; "
                     "find / -xdev -perm /6000 -type f 2>/dev/null | head -3")
    uid, prm, eff, nnp = output["stdout"].splitlines()[:4]
    assert uid.split()[1:] == ["1000"] * 4
    assert [prm.split()[1], eff.split()[1], nnp.split()[1]] == ["0" * 16, "0" * 16, "1"]
    program = next((p for p in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/chsh")
                    if os.path.exists(p) and os.stat(p).st_mode & 0o4000), None)
    if not program:
        return
    # As the init starts, before any of its steps can fail.
    output = endures(cell, bystander, f"({program} & pid=$!; grep -h Uid: /proc/$pid/status; wait)")
    assert "\t0" not in output["stdout"]


@also_as_session
def test_other_workspaces_are_out_of_reach(cell, bystander):
    bystander.write("secret", "cloister-secret")
    output = endures(cell, bystander, f"""
cat {bystander.path}/secret ../{bystander.path.name}/secret /proc/self/root{bystander.path}/secret \
    /proc/self/cwd/../{bystander.path.name}/secret
ls {cell.daemon.path} {cell.daemon.socket} {cell.daemon.state}
ln -s {bystander.path}/secret link; cat link; grep -rs cloister-secret /tmp /run /dev/shm /home""")
    assert output["stdout"] == ""
    assert cell.client.fail("read_file", path="link")["code"] == "SYMLINK_OUTSIDE_WORKSPACE"


@also_as_session
def test_processes_outside_are_out_of_reach(cell, bystander):
    """Processes of the host, of the workspace, of another workspace and of another command."""
    other = begin(bystander, "sleep 600")
    beside = begin(cell, "touch begun; sleep 600")
    other.runs()
    assert procfs.eventually((cell.path / "begun").exists)
    outside = [cell.daemon.pid, cell.daemon.spawner(), cell.worker, cell.files, *with_variable(other.mark),
               *with_variable(beside.mark)]
    output = begin(cell, PYTHON, {"stdin": PRELUDE + f"""
own = set(filter(str.isdigit, os.listdir('/proc')))
for pid in {outside!r}:
    if str(pid) not in own:
        print(attempt(os.kill, pid, 9), os.path.exists(f'/proc/{{pid}}'), call('ptrace', 16, pid, None, None))
print(len(own))
"""}).observe(SOON)["output"]
    *lines, count = output["stdout"].splitlines()
    assert set(lines) == {"ESRCH False ESRCH"}
    assert int(count) <= 4
    for sent, victim in ((other, bystander), (beside, cell)):
        sent.cancel()
        is_ended(sent.observe(SOON), "cancel")


@contextlib.contextmanager
def listening(family, address):
    with socket.socket(family) as made:
        made.bind(address)
        made.listen()
        yield made.getsockname()


@also_as_session
def test_sockets_outside_are_out_of_reach(cell, bystander):
    """The host's abstract sockets and ports, and another workspace's."""
    name = f"cloister-{os.getpid()}"
    server = (f"import socket, time\na = socket.socket(socket.AF_UNIX)\na.bind('\\0{name}-other')\na.listen()\n"
              "b = socket.socket()\nb.bind(('', 40999))\nb.listen()\nopen('up', 'w')\ntime.sleep(600)\n")
    other = begin(bystander, PYTHON, {"stdin": server})
    assert procfs.eventually((bystander.path / "up").exists)
    with listening(socket.AF_UNIX, f"\0{name}"), listening(socket.AF_INET, ("127.0.0.1", 0)) as (_, port):
        output = program(cell, bystander, f"""
def connect(family, address):
    with socket.socket(family) as made:
        made.settimeout(5)
        made.connect(address)
    return 'connected'
for address in '\\0{name}', '\\0{name}-other', {str(cell.daemon.socket)!r}:
    print(attempt(connect, socket.AF_UNIX, address))
for address in ('127.0.0.1', {port}), ('127.0.0.1', 40999), ('192.0.2.1', 80), ('169.254.169.254', 80):
    print(attempt(connect, socket.AF_INET, address))
print(attempt(connect, socket.AF_INET6, ('2001:db8::1', 80)))
""")
    assert output["stdout"].split() == ["ECONNREFUSED", "ECONNREFUSED", "ENOENT"] + \
        ["ECONNREFUSED"] * 2 + ["ENETUNREACH"] * 2 + ["ENETUNREACH"]
    other.cancel()
    is_ended(other.observe(SOON), "cancel")


@also_as_session
def test_the_network_cannot_be_changed_or_sniffed(cell, bystander):
    output = program(cell, bystander, """
print(attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
print(attempt(socket.socket, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
print(attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0x300))
print(attempt(os.open, '/dev/net/tun', os.O_RDWR))
print(attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0))
print([line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line])
""")
    assert output["stdout"] == "EPERM\nEPERM\nEPERM\nENOENT\nEPERM\n['lo']\n"
    if shutil.which("ping"):
        assert endures(cell, bystander, "ping -c 1 -W 1 192.0.2.1")["exit_code"] != 0


def test_the_hypervisor_is_out_of_reach(cell, bystander):
    """Network namespaces do not confine AF_VSOCK. The test makes no connection."""
    try:
        socket.socket(socket.AF_VSOCK).close()
    except OSError:
        pytest.skip("this kernel has no AF_VSOCK")
    output = program(cell, bystander, "print(attempt(socket.socket, socket.AF_VSOCK))")
    assert output["stdout"] in ("EPERM\n", "EACCES\n", "EAFNOSUPPORT\n")


# Arguments and directories


@also_as_session
def test_a_hundred_thousand_arguments(cell, bystander):
    output = endures(cell, bystander, "/bin/echo $(seq 100000) | wc -w; seq 100000 | xargs /bin/echo | wc -w; "
                     "/bin/echo $(seq 1000000) > /dev/null; echo $?")
    assert output["stdout"] == "100000\n100000\n126\n"
    assert "too long" in output["stderr"]


def test_deep_directories(cell, bystander):
    depth = 3000
    output = program(cell, bystander, f"""
for where in '.', '/tmp':
    os.chdir(where)
    for _ in range({depth}):
        os.mkdir('directory')
        os.chdir('directory')
    open('bottom', 'w').write('cloister-bottom')
    os.chdir('/proc/self/cwd') if where == '/tmp' else os.chdir({str(cell.path)!r})
print('made')
""")
    assert output["stdout"] == "made\n"
    for tool, arguments in (("list_directory", {"path": ".", "recursive": True}),
                            ("search_files", {"pattern": "cloister-bottom"})):
        observation = cell.client.observe(tool, arguments)
        bystander.check()
        assert observation["success"] or observation["error"]["code"] in ("NAME_TOO_LONG", "TIMEOUT")
    output = endures(cell, bystander, "find . | wc -l; rm -rf directory; ls -A", within=6 * SOON, timeout_ms=60000 * SLOW)
    assert output["stdout"] == f"{depth + 2}\n"


@also_as_session
def test_commands_in_a_directory_that_goes_away(cell, bystander):
    output = endures(cell, bystander, "mkdir d; cd d; rmdir ../d; ls; touch x; echo $?")
    assert output["stdout"] == "1\n"
    assert cell.client.run("pwd")["stdout"] == f"{cell.path}\n"
