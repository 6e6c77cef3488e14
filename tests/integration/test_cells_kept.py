# SPDX-License-Identifier: Apache-2.0
"""Cells that nobody uses end, by cells_kept and workspace_idle_time, and nothing but their processes is lost."""

import contextlib
import os
import signal

import procfs
import pytest
from daemon import AM_ROOT, system_config

PLACES = ("/tmp", "/run", "/var/tmp", "/dev/shm", "$HOME")
# What a file system may hold, told by a command so that two states of it can be compared.
FILL = """set -e
for at in {places}; do
    mkdir -p $at/deep/er; echo "in $at" > $at/deep/er/file; chmod 640 $at/deep/er/file; ln -s deep/er/file $at/link
    ln $at/deep/er/file $at/hard; mkfifo $at/pipe; truncate -s 1M $at/sparse; touch -d 2001-02-03T04:05:06 $at/old; chmod 700 $at/deep
done""".format(places=" ".join(PLACES))
TELL = """for at in {places}; do
    find $at -mindepth 1 -printf '%p %y %m %n %s %T@ %l\\n' | grep -v '^/dev/shm/[^ ]* d' | sort; cat $at/deep/er/file $at/link; done
""".format(places=" ".join(PLACES))


def config_of(account, *host, tenant="", spares=0):
    return "\n".join(["[cloister]", "mode = user", f"admin_group = {account.name}", f"spare_cells = {spares}", *host, "[tenant t]",
                      f"users = {account.name}", "managed = yes", "roots = /srv", tenant, ""])


def has_no_cell(daemon):
    return procfs.eventually(lambda: not daemon.cells())


def listed(client):
    """The names of the workspaces with a cell, and of those without."""
    rows = client.call("workspace.list")["workspaces"]
    return tuple({row["workspace"] for row in rows if row["open"] == is_open} for is_open in (True, False))


def run_in(client, workspace, command):
    said = client.observe("run_command", {"command": command}, workspace=workspace)
    assert said["success"], said
    return said["output"]


def metric(daemon, name):
    return next(int(line.split()[1]) for line in daemon.ctl("metrics").stdout.decode().splitlines()
                if line.startswith(name + " "))


def spawner_fds(daemon):
    return len(procfs.fds(daemon.spawner()))


@pytest.mark.parametrize("mode, spares", [("user", 0), ("system", 2)])
def test_nothing_but_processes_is_lost(start_daemon, area, mode, spares):
    account = area.account
    if mode == "system":
        if not AM_ROOT:
            pytest.skip("needs root to give ids")
        account.give_ids()
        config = system_config(area, "workspace_idle_time = 300ms", f"spare_cells = {spares}", f"admin_group = {account.name}")
    else:
        config = config_of(account, "workspace_idle_time = 300ms", spares=spares)
    daemon = start_daemon(config=config, **({"system": True} if mode == "system" else {}))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    assert client.run(FILL)["exit_code"] == 0
    before = client.run(TELL)["stdout"]
    assert before.count("\n") > 40
    mounts = []
    for _ in range(3):
        assert has_no_cell(daemon)
        said = client.run(TELL)
        assert said["stdout"] == before, said
        # The places are what they were for a new cell: writable, bounded, and mounts of their own.
        said = client.run("set -e; for at in /tmp /run /var/tmp /dev/shm $HOME; do echo x > $at/x; rm $at/x; mountpoint -q $at; done; "
                          "wc -l < /proc/self/mountinfo")
        assert said["exit_code"] == 0, said
        mounts.append(int(said["stdout"]))
    # Each attaches what the last one left over its own, and no more.
    assert max(mounts) <= mounts[0]
    with daemon.control() as control:
        assert control.call("status")["cells_ended_idle"] >= 3


def test_the_least_recently_used_end(start_daemon, account):
    daemon = start_daemon(config=config_of(account, "cells_kept = 2"))
    client = daemon.connect()
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        client.call("workspace.open", {"workspace": name})
        run_in(client, name, f"echo of {name} > /tmp/mine")
    assert procfs.eventually(lambda: listed(client) == ({"d", "e"}, {"a", "b", "c"})), listed(client)
    # A use of d makes e the next to go.
    run_in(client, "d", "true")
    assert run_in(client, "a", "cat /tmp/mine")["stdout"] == "of a\n"
    assert procfs.eventually(lambda: listed(client)[0] == {"a", "d"}), listed(client)
    # One that is used does not count and does not end: a command, a session, a connection to a port.
    number = client.begin("run_command", {"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; cat /tmp/mine"}, workspace="b")
    session = client.call("session.start", {"workspace": "c", "command": "sleep 600"})["session"]
    for name in names:
        assert run_in(client, name, "cat /tmp/mine")["stdout"] == f"of {name}\n"
    assert procfs.eventually(lambda: listed(client)[0] == {"b", "c", "d", "e"}), listed(client)
    run_in(client, "b", "touch go")
    assert client.result(number)["output"]["stdout"] == "of b\n"
    assert procfs.eventually(lambda: listed(client)[0] == {"b", "c", "e"}), listed(client)
    client.call("session.end", {"session": session, "grace_ms": 0})
    assert procfs.eventually(lambda: listed(client)[0] == {"b", "c"}), listed(client)
    # A reload with fewer ends the rest at once; with more, they stay.
    assert daemon.reload(config_of(account, "cells_kept = 1"))
    assert procfs.eventually(lambda: len(listed(client)[0]) == 1), listed(client)
    assert daemon.reload(config_of(account))
    for name in names:
        assert run_in(client, name, "cat /tmp/mine")["stdout"] == f"of {name}\n"
    assert listed(client)[0] == set(names)
    assert metric(daemon, "cloister_cells_ended_idle_total") >= 5


def test_what_is_kept_goes_with_its_workspace(start_daemon, account):
    daemon = start_daemon(config=config_of(account, "cells_kept = 1"))
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "first"})
        client.run("true")
        before = spawner_fds(daemon)
        for i in range(20):
            client.call("workspace.open", {"workspace": f"w{i}"})
            run_in(client, f"w{i}", "echo x > /tmp/mine")
        assert procfs.eventually(lambda: len(listed(client)[0]) == 1)
        assert spawner_fds(daemon) >= before + 20 - 2
    # The last client has left.
    assert procfs.eventually(lambda: not daemon.cells() and spawner_fds(daemon) <= before), spawner_fds(daemon)
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "w1"})
        assert client.run("ls -A /tmp")["stdout"] == ""
        # A removal, and then a workspace of the same name.
        client.run("echo x > /tmp/mine")
        client.call("workspace.open", {"workspace": "other"})
        run_in(client, "other", "true")
        assert procfs.eventually(lambda: listed(client)[0] == {"other"})
        client.call("workspace.remove", {"workspace": "w1"})
        client.call("workspace.open", {"workspace": "w1"})
        assert run_in(client, "w1", "ls -A /tmp")["stdout"] == ""


def test_a_death_a_rollback_and_another_size_begin_anew(start_daemon, account):
    daemon = start_daemon(config=config_of(account, "workspace_idle_time = 300ms"))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    for way in ("death", "checkpoint", "size"):
        client.run("echo x > /tmp/mine")
        if way != "checkpoint":
            assert has_no_cell(daemon)
        if way == "death":
            number = client.begin("run_command", {"command": "sleep 600"})
            ((worker, _),) = procfs.eventually(daemon.cells)
            os.kill(worker, signal.SIGKILL)
            assert client.result(number)["error"]["code"] == "WORKER_LOST" and has_no_cell(daemon)
        elif way == "checkpoint":
            client.call("workspace.checkpoint", {"workspace": "w"})
        else:
            assert daemon.reload(config_of(account, "workspace_idle_time = 300ms", tenant="tmp_size = 8M"))
        assert client.run("ls -A /tmp")["stdout"] == "", way


HOSTILE = {
    "links": "rm -rf /tmp/* /tmp/.[!.]* /run/* $HOME/*; ln -s /etc /tmp/cloister; ln -s / /run/home; ln -s /usr $HOME/x",
    "files": "cd /run; rm -rf home; touch home; mkfifo /tmp/pipe; mkfifo /dev/shm/pipe",
    "modes": "chmod 0 /tmp /run /var/tmp /dev/shm $HOME",
    "places": "rm -rf /tmp /run /var/tmp /dev/shm $HOME; ln -s / /tmp; mv /tmp /run; mv /dev/shm /dev/x",
    "parents": 'up=$(pwd); while [ "$up" != / ]; do up=$(dirname "$up"); mv "$up" "$up.old" && ln -s /etc "$up"; rm -rf "$up"; done',
    "depth": "for i in $(seq 300); do mkdir -p /tmp/deep; cd /tmp/deep; mkdir deep; done",
    "names": "cd /tmp; for i in $(seq 20000); do : > $i; done",
}


@pytest.mark.deep("slow")
@pytest.mark.parametrize("kind", ["managed", "below /tmp"])
def test_what_hostile_commands_leave(start_daemon, account, area, kind):
    """They cannot keep their workspace from opening, or have more than tmp_size."""
    config = config_of(account, "workspace_idle_time = 300ms", tenant="tmp_size = 16M").replace("roots = /srv", f"roots = {area.path}")
    daemon = start_daemon(config=config)
    client = daemon.connect()
    if kind == "managed":
        client.call("workspace.open", {"workspace": "w"})
    else:
        daemon.new_workspace(client)
    for name, attempt in HOSTILE.items():
        client.run(f"{{ {attempt}; }} 2>/dev/null; true", {"blocked_list": False})
        assert has_no_cell(daemon)
        said = client.run("set -e; pwd; for at in /tmp /run $HOME /dev/shm /var/tmp .; do echo x > $at/fresh; test -f $at/fresh; rm $at/fresh; done; ls /etc/passwd")
        assert said["exit_code"] == 0, (name, said)
    for _ in range(3):
        said = client.run("head -c 64M /dev/zero 2>&1 > /tmp/all-$RANDOM; df -k --output=size,used /tmp | tail -1")
        size, used = map(int, said["stdout"].split()[-2:])
        assert size == 16384 and used <= size and "No space left" in said["stdout"], said
        assert has_no_cell(daemon)


@pytest.mark.deep("slow")
def test_more_cells_than_may_end_at_once(start_daemon, account):
    """A client leaves with all its workspaces; then cloisterd ends with as many. LIMIT_CELLS_ENDING is 64."""
    daemon = start_daemon(config=config_of(account))
    for _ in range(2):
        with contextlib.closing(daemon.connect()) as client:
            for number in range(70):
                client.call("workspace.open", {"workspace": f"w{number}"})
            assert len(daemon.cells()) == 70
        assert has_no_cell(daemon)
    client = daemon.connect()
    for number in range(70):
        client.call("workspace.open", {"workspace": f"w{number}"})
    cells = daemon.cells()
    assert daemon.stop() == 0 and not [pid for cell in cells for pid in cell if procfs.is_alive(pid)]
