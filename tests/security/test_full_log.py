# SPDX-License-Identifier: Apache-2.0
"""The reader of cloisterd's stderr stops reading. No client waits for it, and lost lines are counted."""

import fcntl
import os
import select
import subprocess

import pytest

import daemon as daemons
import procfs
from cloister_client import Client, acting_as

pytestmark = pytest.mark.skipif(daemons.INSTALLED, reason="the service manager reads the log of an installed service")

ADMIN = 64321
PIPE_BYTES = 65536


class Unread:
    """A cloisterd whose stderr is a pipe that is full."""

    def __init__(self, area):
        self.area = area
        self.path = area.new_directory("daemon")
        self.config = self.path / "cloister.conf"
        self.good = (f"[cloister]\nadmin_group = {ADMIN}\nagent_socket_mode = 0666\n"
                     f"[tenant t]\nusers = {area.account.name}\nmanaged = yes\n")
        self.configure(self.good)
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.process = area.start(
            ["cloisterd", "--agent-socket", str(self.path / "agent.sock"), "--control-socket",
             str(self.path / "control.sock"), "--state-dir", str(self.path / "state"), "--config", str(self.config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
        self.log = b""
        while b"listening" not in self.log:
            assert self.read_some(), self.log
        os.write(writer, b"\n" * PIPE_BYTES)
        os.close(writer)

    def configure(self, text):
        with acting_as(os.getuid()):
            self.config.write_text(text)

    def read_some(self, seconds=60):
        ready, _, _ = select.select([self.reader], [], [], seconds)
        data = os.read(self.reader, 1 << 20) if ready else b""
        self.log += data
        return data

    def connect(self, name, groups=()):
        return Client(self.path / name, self.area.account.uid, self.area.account.gid, groups)

    def lost(self, admin):
        counts = [line.split()[1] for line in admin.call("metrics")["text"].splitlines()
                  if line.startswith("cloister_log_lines_lost_total ")]
        return int(counts[0]) if counts else 0


@pytest.fixture
def unread(area):
    made = Unread(area)
    yield made
    os.close(made.reader)
    made.process.terminate()
    try:
        assert made.process.wait(60) == 0
    finally:
        made.process.kill()
        made.process.wait()


def reload(unread, admin):
    try:
        return admin.call("reload")
    except Exception as error:  # a configuration with mistakes is refused
        return error


def test_nobody_waits_for_a_log_that_is_not_read(unread):
    with unread.connect("control.sock", [ADMIN]) as admin, unread.connect("agent.sock") as client:
        # cloisterd says something, and the spawner, which reads the configuration as well, a good deal more.
        unread.configure(unread.good + "".join(f"wrong{i} = 1\n" for i in range(200)))
        while unread.lost(admin) == 0:
            reload(unread, admin)
        unread.configure(unread.good)
        reload(unread, admin)
        # What waits for the spawner is served, too: this workspace is new.
        client.call("workspace.open", {"workspace": "w"})
        assert client.run("echo served")["stdout"] == "served\n"
        lost = unread.lost(admin)
        assert lost > 0
        # When there is a reader again, what was kept comes, and the count in the place of what is missing.
        assert procfs.eventually(lambda: unread.read_some(1) and b"lines are missing here" in unread.log, 60)
        counts = [int(line.split()[1]) for line in unread.log.splitlines() if b"lines are missing here" in line]
        assert sum(counts) <= lost
        unread.log = b""
        reload(unread, admin)
        assert procfs.eventually(lambda: unread.read_some(1) and b"is reloaded" in unread.log, 60)


def test_it_ends_though_nobody_reads(unread):
    with unread.connect("agent.sock") as client:
        client.call("workspace.open", {"workspace": "w"})
    unread.process.terminate()
    assert unread.process.wait(60) == 0
