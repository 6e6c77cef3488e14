# SPDX-License-Identifier: Apache-2.0
"""A workspace for the security suites: its client, its directory and its two processes."""

import os

import procfs
from cloister_client import acting_as


class Cell:
    """A new workspace with a connection of its own."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.client = daemon.connect()
        self.path = daemon.new_workspace(self.client)
        self.worker, self.files = daemon.cell_of(self.path)

    def write(self, name, text):
        with acting_as(self.daemon.account.uid, self.daemon.account.gid):
            (self.path / name).write_text(text)

    def command_processes(self):
        """Returns the processes that commands have started in this workspace, with zombies and without command inits."""
        return sorted(procfs.descendants(self.worker, without_children=True))

    def close(self):
        """Closes the workspace and waits until its processes are gone."""
        self.client.close()
        assert procfs.vanish([self.worker, self.files]), "the workspace did not close"
        assert procfs.eventually(lambda: (self.worker, self.files) not in self.daemon.cells())


class Bystander(Cell):
    """A workspace that makes ordinary calls while another one misbehaves."""

    def __init__(self, daemon, patience):
        super().__init__(daemon)
        self.patience = patience
        self.write("kept", "well\n")

    def check(self):
        began = procfs.free_seconds()
        output = self.client.use("read_file", {"line_numbers": False}, path="kept")
        took = procfs.free_seconds() - began
        assert output["content"] == "well\n"
        assert took < self.patience, f"another workspace's read_file took {took:.1f} s"


def with_variable(value):
    """Returns the living processes that have this text in their environment or command line."""
    found = []
    for pid in procfs.pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            environment = b""
        if value.encode() in environment or value in procfs.command_line(pid):
            found.append(pid)
    return [pid for pid in found if pid != os.getpid()]
