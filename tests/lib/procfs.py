# SPDX-License-Identifier: Apache-2.0
"""Reads /proc, as proc(5) describes it."""

import os
import pathlib
import signal
import time

PROC = pathlib.Path("/proc")
SOON = 120.0  # seconds; only a hung process takes longer, on any machine
PF_EXITING = 4  # from the kernel's include/linux/sched.h


class Process(int):
    """A pid with the start time of its process, so that is_alive() is right even if the kernel reuses the pid."""

    def __new__(cls, pid):
        made = super().__new__(cls, pid)
        made.started = started(pid)
        return made


def pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def status(pid):
    """Returns /proc/PID/status as a dictionary of strings; empty if there is no such process."""
    try:
        text = (PROC / str(pid) / "status").read_text()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def stat(pid):
    """Returns the fields of /proc/PID/stat from the third one, the state, on; empty if there is no such process."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def started(pid):
    """Returns the start time in clock ticks since the boot; -1 if the process is gone."""
    fields = stat(pid)
    return int(fields[19]) if fields else -1


def is_alive(pid):
    fields = stat(pid)
    return bool(fields) and fields[0] not in "ZX" and getattr(pid, "started", int(fields[19])) == int(fields[19])


def is_going(pid):
    """Whether the process has ended or is about to end, for example because SIGKILL is pending."""
    fields, pending = stat(pid), status(pid)
    if not fields or not pending or fields[0] in "ZX" or int(fields[6]) & PF_EXITING:
        return True
    return any(int(pending[name], 16) >> (signal.SIGKILL - 1) & 1 for name in ("SigPnd", "ShdPnd"))


def rss_kib(pid):
    return int(status(pid)["VmRSS"].split()[0])


def parent(pid):
    return int(status(pid).get("PPid", "0"))


def uids(pid):
    return [int(uid) for uid in status(pid)["Uid"].split()]


def command_line(pid):
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(
            errors="replace").strip()
    except OSError:
        return ""


def name(pid):
    return status(pid).get("Name", "")


def is_path_resolver(pid):
    """Whether the process is a path resolver of the spawner, which belongs to no workspace."""
    try:
        return name(pid) == "cloister-resolver"[:15]  # as the kernel cuts it, prctl(2)
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    """Returns the children, the oldest first. Those of the spawner are without its path resolvers."""
    return sorted((Process(other) for other in pids() if parent(other) == pid and not is_path_resolver(other)),
                  key=lambda child: (child.started, child))


def resolvers(pid):
    """Returns the path resolvers of the spawner @pid."""
    return [other for other in pids() if parent(other) == pid and is_path_resolver(other)]


def descendants(pid, without_children=False, without_path_resolvers=False):
    below = {}
    for other in pids():
        below.setdefault(parent(other), []).append(other)
    found, waiting = [], below.get(pid, []) if without_children else [pid]
    while waiting:
        for child in below.get(waiting.pop(), []):
            if without_path_resolvers and is_path_resolver(child):
                continue
            found.append(Process(child))
            waiting.append(child)
    return found


def having(marker):
    """Returns the living processes whose command line contains the marker."""
    return [pid for pid in pids() if marker in command_line(pid) and is_alive(pid)]


def of_user(uid):
    """Returns all processes, zombies too, that have @uid as one of their four uids. credentials(7)"""
    found = []
    for pid in pids():
        line = status(pid).get("Uid")
        if line and uid in map(int, line.split()):
            found.append(pid)
    return found


def _read(path):
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # it has ended, or this is a file of another user
        return ""


def waits(pid):
    """Returns what each thread of the process does: its state, its CPU time in clock ticks, its system call, and where in
    the kernel it is. proc_pid_stat(5), proc_pid_syscall(5), proc_pid_stack(5)"""
    said = []
    for task in sorted((PROC / str(pid) / "task").glob("*")):
        name, _, fields = _read(task / "stat").partition("(")[2].rpartition(") ")
        if fields:
            state, *rest = fields.split()
            said.append(f"{pid} {task.name} {name}: {state}, {rest[10]} + {rest[11]} ticks, syscall {_read(task / 'syscall')}")
            said.extend("    " + line for line in _read(task / "stack").splitlines())
    return said


def fds(pid):
    """Returns {descriptor: target of its link in /proc/PID/fd}, empty if the process has ended. proc_pid_fd(5)"""
    directory = f"/proc/{pid}/fd"
    found = {}
    try:
        listed = os.listdir(directory)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return found
    for fd in listed:
        try:
            found[int(fd)] = os.readlink(f"{directory}/{fd}")
        except FileNotFoundError:  # the process has closed it since the listing
            pass
    return found


def pid_of(pidfd):
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))


def namespace(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def mounts(pid="self"):
    return (PROC / str(pid) / "mountinfo").read_text().splitlines()


def mounts_below(path):
    """Returns this process's mounts below @path. Other users of the host may mount things elsewhere."""
    return [line for line in mounts() if f" {path}/" in line]


def cpu_seconds(pid):
    """The CPU time of the process and of the children it has waited for."""
    times = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def eventually(condition, seconds=SOON, interval=0.02):
    """Waits until condition() is true. Returns its value, which is false when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        over = time.monotonic() > deadline  # read before the last look, in case this process itself was stopped
        value = condition()
        if value or over:
            return value
        time.sleep(interval)


def vanish(processes, seconds=SOON):
    """Waits until none of the processes is alive. Returns whether that came true in time."""
    return eventually(lambda: not any(is_alive(pid) for pid in processes), seconds)


def stop(pid):
    """Stops the process and waits until it has stopped. If another process has stopped it and would continue it, that
    comes first."""
    assert eventually(lambda: status(pid)["State"][0] not in "Tt"), status(pid)
    os.kill(pid, signal.SIGSTOP)
    assert eventually(lambda: status(pid)["State"][0] in "Tt"), status(pid)


def free_seconds():
    """A clock that stands still while any process on this host waits for a CPU, so that a bound measures cloister and not
    the host. Without proc_pressure(5) it is the monotonic clock."""
    try:
        some = (PROC / "pressure" / "cpu").read_text().splitlines()[0]
    except OSError:
        return time.monotonic()
    return time.monotonic() - int(some.rpartition("=")[2]) / 1e6
