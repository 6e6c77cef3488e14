# SPDX-License-Identifier: Apache-2.0
"""A daemon that keeps keys, and what its commands leave."""

import pathlib

import procfs


def config(area, mode="fast", settings=""):
    return (f"[cloister]\njournal = {mode}\nadmin_group = {area.account.gid}\n"
            f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nroots = {area.path}\n{settings}")


class Keyed:
    """A daemon with a journal, and a client that has opened a workspace."""

    def __init__(self, start_daemon, area, mode="fast", settings="", root=None, **keywords):
        self.daemon = start_daemon(config=config(area, mode, settings), **keywords)
        self.root = root or area.new_directory()
        self.client = self.connect()

    def connect(self):
        client = self.daemon.connect()
        client.call("workspace.open", {"root": str(self.root)})
        return client

    def run(self, command, key, client=None, **options):
        return (client or self.client).observe("run_command", {"command": command}, {"key": key, **options})

    def status(self):
        with self.daemon.control() as control:
            return control.call("status")["keys"]

    def written(self):
        """Waits until all results are recorded: they are on their way when the answers are."""
        assert procfs.eventually(lambda: self.status()["queued_bytes"] == 0)


COUNT = "echo run >>runs; echo out; echo err >&2; exit 3"


def runs(root):
    path = pathlib.Path(root, "runs")
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill(daemon):
    daemon.process.kill()
    daemon.process.wait()
    for client in daemon.clients:
        client.close()
    daemon.clients.clear()
