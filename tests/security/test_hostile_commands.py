# SPDX-License-Identifier: Apache-2.0
"""Commands that try to outlive their call or to hide how they ended, and what they do to their init.

cloister ends each in bounded time and reports the true cause. No process of it is alive when its answer comes, and
cloister serves another workspace meanwhile.
"""

import os
import re
import signal
import subprocess

import procfs
import pytest
from daemon import AM_ROOT, is_sanitized
from hostile_commands import (GRACE, OPEN_FILES, PRELUDE, PYTHON, SOON, also_as_session, as_each_kind, attack, begin,
                              bystander, cancelled, cell, endures, is_ended, program)

# What a command is asked to end by. A terminal is hung up first.
ASKED = {"command": "SIGTERM", "session": "SIGTERM", "terminal": "SIGHUP"}


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


@pytest.mark.deep("slow")
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


OWN_FILTER = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
# seccomp(2), Berkeley packet filter: all calls are allowed.
code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
print(libc.prctl(22, 2, program, 0, 0), os.strerror(ctypes.get_errno()), flush=True)
"""


@also_as_session
def test_a_filter_of_its_own(cell, bystander):
    observation = attack(cell, bystander, f"exec {PYTHON}", options={"stdin": OWN_FILTER})
    assert observation["output"]["stdout"] == "-1 Invalid argument\n", observation


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
