# SPDX-License-Identifier: Apache-2.0
"""Kills a process at one of its system calls, or stops a child at one. Needs root, for ptrace."""

import os
import select
import subprocess

import procfs
from cloister_client import acting_as
from daemon import BUILD


class Killer:
    """Kills a process, or its next child with a name, when it has entered or left a system call for the Nth time."""

    def __init__(self, pid, count, child=None):
        with acting_as(os.getuid()):
            self.process = subprocess.Popen([BUILD / "tests" / "kill_at_syscall", str(pid), str(count)] + [child] * bool(child),
                                            stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def has_ended(self):
        """Whether there is nothing more to wait for."""
        return self.process.poll() is not None

    def end(self):
        """Whether it came to that."""
        self.process.terminate()
        # Not communicate(): it ignores what the buffer already has after the first line.
        said = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(120)
        return said.startswith("killed")


class Holder:
    """Stops the next child of the process @parent that has the name @child, once it has made the system call @call, which
    tests/lib/hold_child.c knows. It is to be made before what makes that child."""

    def __init__(self, parent, child, call):
        with acting_as(os.getuid()):
            self.process = subprocess.Popen([BUILD / "tests" / "hold_child", str(parent), child, call],
                                            stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout.readline() == "ready\n"

    def has_held(self):
        return self.process.poll() is not None

    def held(self):
        """Waits for the child. Returns its pid; it is stopped."""
        assert select.select([self.process.stdout], [], [], procfs.SOON)[0], "there was no such child"
        with self.process.stdout as said:
            pid = procfs.Process(int(said.readline()))
        self.process.wait()
        assert procfs.eventually(lambda: procfs.status(pid)["State"][0] in "Tt"), procfs.status(pid)
        return pid
