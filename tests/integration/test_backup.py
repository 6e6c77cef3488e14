# SPDX-License-Identifier: Apache-2.0
"""A backup by the operator's guide, taken back on a machine that has lost its state."""

import os
import re
import shutil
import subprocess

import pytest

from cloister_client import acting_as
from daemon import ROOT, SYSTEM, Daemon
from layers import checkpoint, listed, opened, roll_back, tree

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root, as the guide's commands do")


def guide_commands(word):
    """The options of tar with --@word in the guide, without what is named for the example."""
    text = (ROOT / "doc" / "operators-guide.md").read_text()
    (found,) = re.findall(rf"^# tar (--{word} .*(?:\\\n> .*)?)", text, re.MULTILINE)
    words = found.replace("\\\n> ", " ").split()
    return [each for each in words if each.startswith("--") and not each.startswith(("--file=", "--directory="))]


@pytest.mark.deep("slow")
@pytest.mark.parametrize("mode", ["user", "system"] if not SYSTEM else ["system"])
def test_a_backup_brings_all_back(area, mode):
    daemon = Daemon(area, system=mode == "system")
    try:
        client = opened(daemon, "w")
        client.run("mkdir -p d/closed again; echo old > d/file; ln d/file d/hard; ln -s d/file link; echo x > d/closed/file; "
                   "echo y > again/file; chmod 0 d/closed; truncate -s 64M sparse; touch -d 2001-01-01 d/file")
        checkpoint(client, "before")
        old = tree(client)
        # A directory that is made again is marked by an extended attribute, or the old one's file would be seen in it.
        client.run("chmod 700 d/closed; rm -r d/closed again; echo new > d/file; mkdir e again; echo more > e/file")
        new, rows = tree(client), listed(client)
        client.call("workspace.freeze", {"template": "ready"})
        client.close()
        assert daemon.stop() == 0
        with acting_as(os.getuid()):
            archive = area.path / "backup.tar"
            subprocess.run(["tar", *guide_commands("create"), "--sparse", f"--file={archive}", "-C", daemon.state, "."], check=True)
            for entry in daemon.state.iterdir():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            subprocess.run(["tar", *guide_commands("extract"), f"--file={archive}", f"--directory={daemon.state}"], check=True)
            archive.unlink()
        daemon = Daemon(area, system=mode == "system", state=daemon.state)
        client = opened(daemon, "w")
        assert tree(client) == new and listed(client) == rows == [(1, "before")]
        (fork,) = client.call("workspace.fork", {"from": "ready"})["workspaces"]
        other = opened(daemon, fork)
        assert other.run("cat d/file e/file")["stdout"] == "new\nmore\n"
        roll_back(client, 1)
        assert tree(client) == old
        assert client.run("chmod 700 d/closed; cat d/closed/file")["stdout"] == "x\n"
    finally:
        daemon.stop()
