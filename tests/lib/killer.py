# SPDX-License-Identifier: Apache-2.0
"""Kills a process at one of its system calls. Needs root, for ptrace."""

import os
import subprocess

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
