# SPDX-License-Identifier: Apache-2.0
"""cloisterds of which one takes over from another, their clients, and the talk between two of them."""

import os
import pathlib
import shutil
import socket
import struct

import pytest

import procfs
from cloister_client import acting_as

GO = "until [ -e go ]; do sleep 0.1; done; "
ASK, REFUSED, GIVEN, READY, GO_ON, KEY = 1, 2, 3, 4, 6, 9  # supervisor/host/handover.h


@pytest.fixture(name="generations")
def generations_fixture(start_daemon, area):
    """Returns a function that starts a daemon, or one that takes over from @former."""
    def start(former=None, settings="", host="", **keywords):
        config = (f"[cloister]\njournal = fast\nadmin_group = {area.account.gid}\n{host}\n"
                  f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nroots = {area.path}\n{settings}")
        return start_daemon(config=config, former=former, **keywords)
    return start


def status(daemon):
    with daemon.control() as control:
        return control.call("status")


def opened(daemon, root=None, name=None):
    client = daemon.connect()
    client.call("workspace.open", {"root": str(root)} if root else {"workspace": name or "w"})
    return client


def opens(client, **params):
    """Opens the workspace as soon as the old daemon has let go of it."""
    assert procfs.eventually(lambda: "result" in client.wait(client.request("workspace.open", params)))


def begin(client, command, **options):
    return client.request("tool.call", {"tool": "run_command", "arguments": {"command": command}, "options": options})


def go(root):
    """Lets the command of GO end."""
    (pathlib.Path(root) / "go").touch()


def runs(daemon, n):
    assert procfs.eventually(lambda: status(daemon)["commands_running"] == n)


def ended(daemon):
    """Waits until the process has ended by itself, and returns its status."""
    return daemon.process.wait(120)


def error_of(client, method, params):
    return client.wait(client.request(method, params))["error"]


def replace_program(area):
    """As a package does: another file of that name."""
    program = area.bin / "cloisterd"
    with acting_as(os.getuid()):
        shutil.copy(program, area.bin / "cloisterd.new")
        os.replace(area.bin / "cloisterd.new", program)


def talk(daemon):
    """A connection to where generations talk, as the daemon's user."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with acting_as(daemon.account.uid):
        link.connect(str(daemon.state / "handover"))
    link.settimeout(120)
    return link


def say(link, kind, version=1, rest=b""):
    link.send(struct.pack("=2I5Q", version, kind, 0, 0, 0, 0, 0) + rest)


def hear(link):
    data, fds, _, _ = socket.recv_fds(link, 1 << 18, 8)
    return (struct.unpack_from("=2I", data)[1] if data else None), fds


def ask(link):
    """Begins to take over, and takes nothing."""
    say(link, ASK)
    kind, fds = hear(link)
    assert kind == GIVEN
    for fd in fds:
        os.close(fd)
