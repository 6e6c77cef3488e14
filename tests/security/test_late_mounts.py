# SPDX-License-Identifier: Apache-2.0
"""Mounts that the host makes in the directory of an open workspace must not appear in the workspace, because cloister has
not made them nosuid, nodev or (cgroups) read-only."""

import os
import subprocess

import procfs
import pytest

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")


@pytest.fixture
def shared(area):
    """A directory of the user's in which mounts appear wherever it is joined, as with systemd they do everywhere."""
    path = area.new_directory("shared")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={area.account.uid},gid={area.account.gid},mode=0755", "tmpfs", path],
                   check=True)
    subprocess.run(["mount", "--make-shared", path], check=True)
    for name in ("before", "late", "late cgroups"):
        (path / "ws" / name).mkdir(parents=True)
    for directory in (path / "ws", *(path / "ws").iterdir()):
        area.account.own(directory)
    mount("tmpfs", path / "ws/before")
    yield path
    subprocess.run(["umount", "--recursive", "--lazy", path], check=True)


def mount(kind, place):
    subprocess.run(["mount", "-t", kind, kind, place], check=True)
    if kind == "tmpfs":
        (place / "program").write_text("#!/bin/sh\n")
        (place / "program").chmod(0o4755)


def joined(pid):
    """The mounts that @pid sees and that are joined with others."""
    with open(f"/proc/{pid}/mountinfo") as file:
        tags = [line.split(" - ")[0] for line in file]
    return [line for line in tags if "shared:" in line or "master:" in line]


def test_it_does_not_arrive(shared, start_daemon):
    daemon = start_daemon()
    client = daemon.connect()
    path = shared / "ws"
    if daemon.system:
        daemon.account.give_away(path)
    client.call("workspace.open", {"root": str(path)})
    look = "ls before late 'late cgroups'"
    before = client.run(look)["stdout"]
    assert before == "before:\nprogram\n\nlate:\n\nlate cgroups:\n"
    mount("tmpfs", path / "late")
    mount("cgroup2", path / "late cgroups")
    with open(f"/proc/{daemon.spawner()}/mountinfo") as file:
        assert f" {path}/late " in file.read()  # where new workspaces come from
    assert client.run(look)["stdout"] == before
    assert client.use("list_directory", path="late")["entries"] == []
    assert client.run("mkdir 'late cgroups/here' && touch late/here")["exit_code"] == 0
    assert (path / "late").is_mount() and not (path / "late/here").exists()
    for pid in daemon.cell_of(path):
        assert joined(pid) == []

    # The next time that it is opened they are part of it, as confined as all else.
    client.call("workspace.close")
    assert procfs.eventually(lambda: not daemon.cells())
    client.call("workspace.open", {"root": str(path)})
    lines = client.run(f"grep ' {path}/' /proc/self/mounts | cut -d' ' -f2-4")["stdout"].splitlines()
    assert len(lines) == 3 and all("nosuid,nodev" in line for line in lines), lines
    assert "Read-only file system" in client.run("mkdir 'late cgroups/x'")["stderr"]
