# SPDX-License-Identifier: Apache-2.0
"""Many calls at once, and the futex(2) calls that a process makes meanwhile. Needs strace and root."""

import json
import os
import pathlib
import select
import signal
import subprocess

import procfs
from daemon import acting_as

DEPTH = 8  # calls of a client at once


def line(number, tool, arguments, more):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tool.call", "params": {
        "tool": tool, "arguments": arguments(number), "options": more}}).encode() + b"\n"


def flood(clients, total, words):
    """Makes @total calls, DEPTH at once of each client."""
    sent = got = 0
    waiting = {client.socket: DEPTH for client in clients}
    while got < total:
        for socket, wanted in waiting.items():
            wanted = min(wanted, total - sent)
            socket.sendall(b"".join(line(1000 + sent + i, *words) for i in range(wanted)))
            sent += wanted
        waiting = {socket: socket.recv(1 << 20).count(b"\n") for socket in select.select([client.socket for client in clients], [], [])[0]}
        got += sum(waiting.values())


class Futexes:
    """Counts the futex(2) calls of a process while it lasts."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        with acting_as(os.getuid()):
            self.trace = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=futex", "-p", str(self.pid)], stderr=subprocess.PIPE, text=True)
            tasks = list(pathlib.Path(f"/proc/{self.pid}/task").iterdir())
            assert procfs.eventually(lambda: all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks))
        return self

    def __exit__(self, *error):
        with acting_as(os.getuid()):
            self.trace.send_signal(signal.SIGINT)
            self.count = sum("futex(" in entry for entry in self.trace.communicate()[1].splitlines())
