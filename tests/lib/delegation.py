# SPDX-License-Identifier: Apache-2.0
"""A cgroup that belongs to the test's user, as a service manager delegates one. cgroups(7)"""

import contextlib
import os
import pathlib
import signal

import procfs

FILES = (".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control")
ENTER = 'echo 0 >"$0/cgroup.procs" && exec "$@"'


def mount_point():
    """Returns the mount point of cgroup v2, or None."""
    for line in procfs.mounts():
        left, right = line.split(" - ", 1)
        if right.split()[0] == "cgroup2":
            return pathlib.Path(left.split()[4])
    return None


def reason_against():
    """Returns why this machine can have no delegated group, or None if it can."""
    if os.getuid() != 0:
        return "making a cgroup and giving it away needs root"
    if not mount_point():
        return "cgroup v2 is not mounted"
    if not os.access(mount_point(), os.W_OK):
        return "cgroup v2 is mounted read-only"
    return None


def group_of(pid):
    """Returns the directory of the process's group."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return mount_point() / line[4:]
    return None


def processes(group):
    """Returns the pids in the group, sorted: the kernel does not sort them. cgroups(7)"""
    return sorted(int(line) for line in (group / "cgroup.procs").read_text().split())


class Delegation:
    """A new group, owned by the user, with every controller that the kernel has for it."""

    def __init__(self, account, name):
        self.account = account
        self.path = mount_point() / name
        for controller in (mount_point() / "cgroup.controllers").read_text().split():
            try:
                (mount_point() / "cgroup.subtree_control").write_text(f"+{controller}")
            except OSError:
                pass
        self.path.mkdir()
        for file in FILES:
            os.chown(self.path / file, account.uid, account.gid)

    def controllers(self):
        return (self.path / "cgroup.controllers").read_text().split()

    def launcher(self, below="."):
        """Returns a launcher that starts a program as the user in this group, or in the group @below it."""
        account = self.account
        return ["/bin/sh", "-c", ENTER, str(self.path / below), "setpriv",
                f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "--"]

    def groups(self):
        """Returns the names of all groups below."""
        while True:
            try:
                return sorted(str(path.relative_to(self.path))
                              for path in self.path.glob("**/") if path != self.path)
            except FileNotFoundError:  # the kernel removed a group during the listing
                pass

    def remove(self):
        def gone():
            for path in [*(self.path / name for name in reversed(self.groups())), self.path]:
                # A process or the group may disappear in between, and a killed process may still be in the group.
                with contextlib.suppress(OSError):
                    for pid in processes(path):
                        os.kill(pid, signal.SIGKILL)
                    path.rmdir()
            return not self.path.exists()

        assert procfs.eventually(gone), "the delegated group cannot be removed"
