# SPDX-License-Identifier: Apache-2.0
"""Spare cells: how many there are, which workspaces they fit, and what happens when one dies."""

import json
import os
import signal

import procfs
import pytest
from daemon import AM_ROOT


def spares_of(daemon):
    return [pid for pid in procfs.children(daemon.spawner())
            if procfs.name(pid) == "cloister-spare" and procfs.is_alive(pid)]


def has_ahead(daemon, count, seconds=60):
    """Waits until cloisterd has that many spare cells."""
    def there():
        status = json.loads(daemon.ctl("--json", "status").stdout)
        return status["spare_cells"] == count and len(spares_of(daemon)) == 2 * count
    assert procfs.eventually(there, seconds), spares_of(daemon)


def cell_of_managed(daemon, name):
    return daemon.cell_of(daemon.state / "workspaces" / "t" / name)


def spare_config(account, count):
    return f"[cloister]\nspare_cells = {count}\nadmin_group = {account.name}\n[tenant t]\nusers = {account.name}\nmanaged = yes\n"


def spares_lost(daemon):
    (line,) = [line for line in daemon.ctl("metrics").stdout.decode().splitlines()
               if line.startswith("cloister_spare_cells_lost_total ")]
    return int(line.split()[1])


@pytest.mark.deep("slow")
def test_spare_cells_are_bounded_and_used_once(start_daemon, account):
    daemon = start_daemon(config=spare_config(account, 2))
    client = daemon.connect()
    assert not spares_of(daemon)
    client.call("workspace.open", {"workspace": "first"})
    client.use("write_file", path="secret", content="of the first")
    client.run("echo secret > /tmp/secret")
    used = set(cell_of_managed(daemon, "first"))
    for i in range(6):
        has_ahead(daemon, 2)
        spares = set(spares_of(daemon))
        for pid in spares if AM_ROOT else ():
            # The user namespace of a spare cell maps one id, and the cell sees no workspace's files.
            assert (procfs.PROC / str(pid) / "uid_map").read_text().split() == ["1000", str(account.uid), "1"]
            assert str(daemon.state) not in (procfs.PROC / str(pid) / "mountinfo").read_text()
            assert not any(str(daemon.state) in text for text in procfs.fds(pid).values())
        client.call("workspace.open", {"workspace": f"w{i}"})
        name = {"workspace": f"w{i}"}
        assert client.observe("run_command", {"command": "id -u; ls -A . /tmp"}, **name)["output"]["stdout"] == \
            "1000\n.:\n\n/tmp:\n"
        assert client.observe("list_directory", {"path": "."}, **name)["output"]["count"] == 0
        new = set(cell_of_managed(daemon, f"w{i}"))
        assert new <= spares and not new & used
        used |= new
        assert len(spares_of(daemon)) <= 4
    status = json.loads(daemon.ctl("--json", "status").stdout)
    assert status["spare_cells_used"] == 6


def test_spare_cells_fit_their_workspaces(start_daemon, account, area):
    """A spare cell's root is made before its workspace is known. It must fit a workspace whose private tmpfs has another
    limit, one that covers the home, and one that is a whole system."""
    plain, covering, root = (area.new_directory(name) for name in ("plain", "covering", "rootfs"))
    for name in ("proc", "dev", "usr", "bin", "lib", "lib64"):
        (root / name).mkdir()
    text = spare_config(account, 1) + f"tmp_size = {{}}\nroots = {plain}\n  {covering}\n  {root}\n  /home\n"
    daemon = start_daemon(config=text.format("2M"))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "first"})

    def run(params, command):
        has_ahead(daemon, 1)
        spares = set(spares_of(daemon))
        used = json.loads(daemon.ctl("--json", "status").stdout)["spare_cells_used"]
        name = client.call("workspace.open", params)["workspace"]
        assert json.loads(daemon.ctl("--json", "status").stdout)["spare_cells_used"] == used + 1
        place = params.get("root") or daemon.state / "workspaces" / "t" / name
        assert set(daemon.cell_of(place)) == spares
        return client.observe("run_command", {"command": command}, workspace=name)["output"]

    # The size of the private tmpfs.
    room = "stat -f -c '%b %S' /tmp /run /dev/shm $HOME | awk '{print $1 * $2 / 1048576}' | uniq"
    assert run({"root": str(plain)}, room)["stdout"] == "2\n"
    assert daemon.reload(text.format("3M"))
    assert run({"root": str(covering)}, room + "; echo $HOME; pwd")["stdout"] == f"3\n/home/agent\n{covering}\n"
    assert run({"root": "/home"}, room + "; echo $HOME; grep agent: /etc/passwd; ls /proc/1/cwd >&-; id -u")[
        "stdout"] == "3\n/run/home\nagent:x:1000:1000:agent:/run/home:/bin/sh\n1000\n"
    # The root has no shell, and that of the spare cell is not there either.
    assert run({"root": str(root), "kind": "rootfs"}, "true") is None
    worker, _ = daemon.cell_of(root)
    points = {line.split()[4] for line in (procfs.PROC / str(worker) / "mountinfo").read_text().splitlines()}
    assert "/proc" in points and not points & {"/usr", "/etc/ssl", "/home/agent"}


@pytest.mark.parametrize("which", [0, 1], ids=["worker", "files"])
def test_a_spare_cell_may_die_while_it_is_assigned(start_daemon, account, which):
    """The process dies after cloisterd has taken the cell, before the spawner learns of the death or of the workspace. No
    call fails for that."""
    daemon = start_daemon(config=spare_config(account, 1))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    for lost, name in enumerate(("late", "later", "latest")):
        assert spares_lost(daemon) == lost
        has_ahead(daemon, 1)
        victims = spares_of(daemon)
        procfs.stop(daemon.spawner())
        try:
            client.send({"jsonrpc": "2.0", "id": name, "method": "workspace.open", "params": {"workspace": name}})
            assert client.call("tools.list")  # acted on after it
            daemon.kill(victims[which])
            assert procfs.eventually(lambda: not procfs.is_alive(victims[which]))
        finally:
            os.kill(daemon.spawner(), signal.SIGCONT)
        answer = client.receive_any()
        assert "result" in answer, answer
        assert client.observe("run_command", {"command": "echo well"}, workspace=name)["success"]
    assert spares_lost(daemon) == 3
