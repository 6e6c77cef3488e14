# SPDX-License-Identifier: Apache-2.0
"""A file system's server chooses the owners of its files. In system mode a workspace runs as the owner of its directory:
a tenant who can mount a file system below one of its roots would run as another tenant's id."""

import os
import subprocess

import pytest

import fuse_server
import procfs
from cloister_client import RpcError
from daemon import Daemon

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users, give them ids and mount"),
    pytest.mark.skipif(fuse_server.reason_against() is not None, reason=f"no FUSE: {fuse_server.reason_against()}")]


def config_of(tenants, roots, *lines_of_a):
    text = "[cloister]\nmode = system\nagent_socket_mode = 0666\n"
    for name, user in zip("ba", tenants[1::-1]):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nroots = {roots[name]}\n"
    return text + "".join(f"{line}\n" for line in lines_of_a)


@pytest.fixture
def roots(area):
    """A directory for each of two tenants."""
    area.account.give_ids()
    return {name: area.new_directory("roots-" + name) for name in "ab"}


def workspace_in(area, root, name):
    """Makes a directory owned by an id of the range. Returns its path and (uid, gid)."""
    path = root / name
    path.mkdir(mode=0o700)
    area.account.give_away(path)
    return path.stat().st_uid, path.stat().st_gid


@pytest.fixture
def victim(area, roots):
    """The owner of a workspace of tenant b that is not open."""
    return workspace_in(area, roots["b"], "private")


@pytest.fixture
def start(area):
    """Starts a daemon after all mounts are made, because it need not see later mounts of the host."""
    started = []

    def begin(config):
        started.append(Daemon(area, system=True, config=config))
        return started[-1]

    yield begin
    for daemon in started:
        assert daemon.stop() == 0


def refused(client, root):
    with pytest.raises(RpcError) as caught:
        client.call("workspace.open", {"root": str(root)})
    assert caught.value.name == "FORBIDDEN", caught.value
    return caught.value.message


def runs_as(uid):
    return [pid for pid in procfs.of_user(uid) if procfs.is_alive(pid)]


def test_a_server_below_a_root_chooses_no_id(start, tenants, roots, victim, area):
    """Refused: an id of another tenant, and an id that is free."""
    for owner in (victim, workspace_in(area, roots["a"], "free")):
        place = roots["a"] / f"as-{owner[0]}"
        place.mkdir()
        with fuse_server.mounted(place, owner):
            daemon = start(config_of(tenants, roots))
            client = daemon.connect(tenants[0])
            assert "another file system" in refused(client, place / "w")
            assert not runs_as(owner[0])
            # A file system that is trusted below other roots is not trusted here.
            assert daemon.reload(config_of(tenants, roots, "network_roots = yes"))
            assert "another file system" in refused(client, place / "w")
            client.close()


def test_nor_does_one_that_is_a_root_unless_it_may(start, tenants, roots, area):
    place = roots["a"] / "served"
    place.mkdir()
    free = workspace_in(area, roots["a"], "free")
    with fuse_server.mounted(place, free):
        served = {**roots, "a": place}
        daemon = start(config_of(tenants, served))
        client = daemon.connect(tenants[0])
        assert "network_roots = yes" in refused(client, place / "w")
        assert daemon.reload(config_of(tenants, served, "network_roots = yes"))
        client.call("workspace.open", {"root": str(place / "w")})
        assert client.use("list_directory", path=".")["entries"] == []
        worker, _ = daemon.cell_of(place / "w")
        assert procfs.uids(worker) == [free[0]] * 4
        client.close()


def test_a_local_file_system_below_a_root_is_none_of_it_either(start, tenants, roots, area):
    """A user who may mount a disk image (udisks) has chosen the owners of its files."""
    place = roots["a"] / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    try:
        workspace = place / "w"
        workspace.mkdir(mode=0o700)
        area.account.give_away(workspace)
        daemon = start(config_of(tenants, roots))
        client = daemon.connect(tenants[0])
        assert "a root of its own" in refused(client, workspace)
        assert daemon.reload(config_of(tenants, {**roots, "a": f"{roots['a']}\n\t{place}"}))
        client.call("workspace.open", {"root": str(workspace)})
        assert client.run("id -u")["stdout"] == "1000\n"
        client.close()
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_user_mode_asks_nobody_whose_a_directory_is(start_daemon, area):
    """In user mode the id is always the user's own."""
    place = area.new_directory("mounted")
    with fuse_server.mounted(place, (area.account.uid, area.account.gid)):
        client = start_daemon(system=False).connect()
        client.call("workspace.open", {"root": str(place / "w")})
        assert client.use("list_directory", path=".")["entries"] == []
        client.close()
