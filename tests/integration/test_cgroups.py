# SPDX-License-Identifier: Apache-2.0
"""Cgroups: the groups that cloisterd makes where one is delegated to it, and what it reports and does without one.
tests/vm shows that limits are enforced, on a kernel with the controllers."""

import json
import os
import signal
import subprocess

import procfs
import pytest
from daemon import AM_ROOT
from delegation import group_of, mount_point, processes, reason_against

needs_root = pytest.mark.skipif(not AM_ROOT, reason="starting cloisterd like this needs root")
MEASURED = {"peak_memory_bytes", "io_read_bytes", "io_write_bytes"}


def opened(daemon, client):
    path = daemon.area.new_directory()
    return path, client.call("workspace.open", {"root": str(path)})["isolation"]


def check_without(daemon, reason):
    """Shows that calls work without cgroups, and that cloisterd says which limits nothing enforces."""
    client = daemon.connect()
    _, isolation = opened(daemon, client)
    assert isolation["cgroup"] is False
    assert reason in isolation["cgroup_missing"]
    assert isolation["limits"] == {
        "memory": "none", "processes": "rlimit", "cpu": "none", "io": "none", "disk": "none"}
    observation = client.observe("run_command", {"command": "cat /proc/self/cgroup"})
    assert observation["success"]
    # Even so, a command sees no path of the host's cgroups.
    for line in observation["output"]["stdout"].splitlines():
        assert line.split(":", 2)[2] == "/"
    assert not MEASURED & set(observation["usage"])
    assert f"no cgroups: {isolation['cgroup_missing']}" in daemon.log()


def test_a_group_that_is_not_delegated(own_daemon):
    before = group_of(own_daemon.pid)
    check_without(own_daemon, "not" if mount_point() else "not mounted")
    assert group_of(own_daemon.pid) == before


def test_a_group_with_other_processes(delegation, start_daemon):
    with subprocess.Popen([*delegation.launcher(), "sleep", "600"]) as other:
        try:
            assert procfs.eventually(lambda: processes(delegation.path) == [other.pid])
            check_without(start_daemon(launcher=delegation.launcher()), "contains other processes")
            assert delegation.groups() == []
        finally:
            other.kill()


@needs_root
@pytest.mark.skipif(reason_against() is not None, reason="needs a cgroup v2 mount to unmount")
def test_a_host_without_cgroup2(account, start_daemon):
    hide = 'umount -l "$0" && exec "$@"'
    become = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "--"]
    check_without(
        start_daemon(launcher=["unshare", "-m", "sh", "-c", hide, str(mount_point()), *become]),
        "not mounted")


def test_groups_come_and_go(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    assert delegation.groups() == ["supervisor"]
    assert processes(delegation.path / "supervisor") == sorted([daemon.pid, daemon.spawner()])
    client = daemon.connect()
    path, isolation = opened(daemon, client)
    assert isolation["cgroup"] is True and "cgroup_missing" not in isolation
    cell = ["supervisor", "ws-1", "ws-1/cell"]
    assert delegation.groups() == cell
    # A job of the files process is in the group for a moment: it removes what interrupted writes left.
    assert procfs.eventually(
        lambda: processes(delegation.path / "ws-1/cell") == sorted(daemon.cells()[0]), 20)
    for _ in range(200):
        client.run("true")
    assert delegation.groups() == cell
    other = daemon.connect()
    opened(daemon, other)
    assert delegation.groups() == [*cell, "ws-2", "ws-2/cell"]
    client.call("workspace.close", {"workspace": str(path)})
    assert procfs.eventually(lambda: delegation.groups() == ["supervisor", "ws-2", "ws-2/cell"])
    assert daemon.stop() == 0
    assert procfs.eventually(lambda: delegation.groups() == ["supervisor"])


def begin_sleeping(client, path, command="sleep 600"):
    number = client.begin("run_command", {"command": f"touch begun; {command}", "timeout_ms": 600000})
    assert procfs.eventually((path / "begun").exists)
    return number


def test_only_the_command_is_in_its_group(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    client = daemon.connect()
    path, _ = opened(daemon, client)
    ((worker, files),) = daemon.cells()
    number = begin_sleeping(client, path, "sleep 600 & setsid sleep 600 & wait")
    (init,) = procfs.children(worker)
    assert procfs.eventually(lambda: len(procfs.descendants(init)) == 3)
    assert processes(delegation.path / "ws-1/cmd-1") == sorted(procfs.descendants(init))
    # The command init shares the worker's memory and stays in this group. A job of the files process may be in it for a
    # moment.
    cell = delegation.path / "ws-1/cell"
    assert procfs.eventually(lambda: processes(cell) == sorted([worker, files, init])), processes(cell)
    assert client.cancel(number)
    assert client.result(number)["output"]["ended_by"] == "cancel"
    assert delegation.groups() == ["supervisor", "ws-1", "ws-1/cell"]


def test_a_command_sees_its_own_group_and_no_path(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    client = daemon.connect()
    opened(daemon, client)
    for number in (1, 2):
        lines = client.run("cat /proc/self/cgroup")["stdout"].splitlines()
        assert f"0::/cmd-{number}" in lines
        assert all(line.split(":", 2)[2] == "/" for line in lines if not line.startswith("0:"))


@pytest.mark.deep("slow")
def test_killing_reaches_what_is_in_the_group(delegation, start_daemon):
    """Cancelling a call kills every process in the command's cgroup, also one outside the command's pid namespace."""
    daemon = start_daemon(launcher=delegation.launcher())
    client = daemon.connect()
    path, _ = opened(daemon, client)
    number = begin_sleeping(client, path, "trap '' TERM; while :; do sleep 600; done")
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (delegation.path / "ws-1/cmd-1/cgroup.procs").write_text(str(stranger.pid))
        assert client.cancel(number)
        assert client.result(number)["output"]["ended_by"] == "cancel"
        assert stranger.wait(120) == -signal.SIGKILL
    assert delegation.groups() == ["supervisor", "ws-1", "ws-1/cell"]


def test_a_killed_cloisterd_leaves_nothing_to_its_successor(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    client = daemon.connect()
    path, _ = opened(daemon, client)
    begin_sleeping(client, path)
    everything = procfs.descendants(daemon.pid)
    daemon.process.kill()
    daemon.process.wait()
    assert procfs.vanish(everything)
    assert delegation.groups() == ["supervisor", "ws-1", "ws-1/cell", "ws-1/cmd-1"]
    successor = start_daemon(launcher=delegation.launcher("supervisor"))
    assert delegation.groups() == ["supervisor"]
    client = successor.connect()
    _, isolation = opened(successor, client)
    assert isolation["cgroup"] is True
    assert client.run("cat /proc/self/cgroup")["stdout"].splitlines()[-1] == "0::/cmd-1"


def test_a_left_over_with_something_alive_in_it_is_killed(delegation, start_daemon):
    group = delegation.path / "ws-77"
    for path in (group, group / "cell", group / "cmd-3"):
        path.mkdir()
    (delegation.path / "ws-other").mkdir()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (group / "cmd-3/cgroup.procs").write_text(str(stranger.pid))
        for path in (group, group / "cell", group / "cmd-3"):
            for name in (".", "cgroup.procs", "cgroup.kill"):
                os.chown(path / name, delegation.account.uid, delegation.account.gid)
        start_daemon(launcher=delegation.launcher())
        assert stranger.wait(120) == -signal.SIGKILL
    assert delegation.groups() == ["supervisor", "ws-other"]


def test_a_group_in_the_way_fails_one_opening_and_says_so(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    (delegation.path / "ws-1/below/deep").mkdir(parents=True)
    client = daemon.connect()
    path = daemon.area.new_directory()
    answer = client.wait(client.request("workspace.open", {"root": str(path)}))
    assert "make the workspace's cgroup" in answer["error"]["message"]
    client.call("workspace.open", {"root": str(path)})
    assert client.run("echo well")["stdout"] == "well\n"


ATTEMPTS = ("echo max >{0}/cgroup.max.descendants", "mkdir {0}/more", "echo $$ >{0}/cgroup.procs",
            "echo 1 >{0}/ws-1/cgroup.kill", "rmdir {0}/ws-1", "chmod 770 {0}")


def check_cannot_write(run, group):
    """Shows that a command cannot write the group's files, although the user that it runs as owns them."""
    for attempt in ATTEMPTS:
        output = run(f"test -O {group}/cgroup.procs && {attempt.format(group)}")
        assert output["exit_code"] != 0
        assert "Read-only file system" in output["stderr"], output["stderr"]
    output = run("grep -E '^[^ ]+ [^ ]+ cgroup2? ' /proc/self/mounts | grep -v '[ ,]ro[ ,]'; true")
    assert output["stdout"] == ""


def test_commands_do_not_see_cgroups(client, workspace):
    assert client.run("grep cgroup /proc/self/mounts; ls /sys /sys/devices /sys/devices/system")["stdout"].split() == [
        "/sys:", "block", "dev", "devices", "/sys/devices:", "system", "/sys/devices/system:", "cpu"]


def test_a_command_in_the_whole_root_cannot_write_cgroups(delegation, area):
    (delegation.path / "ws-1").mkdir()
    os.chown(delegation.path / "ws-1", area.account.uid, -1)
    os.chown(delegation.path / "ws-1/cgroup.kill", area.account.uid, -1)

    def run(command):
        done = area.private("/", "call", "run_command", f"command={command}")
        observation = json.loads(done.stdout)
        assert observation["success"], observation["error"]
        return observation["output"]

    check_cannot_write(run, delegation.path)


def mounted_at(place, delegation):
    """Returns a launcher that starts cloisterd in a mount namespace in which the delegated group is also mounted at
    @place. Other suites, which use the host's root as a workspace, do not see that mount."""
    return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(delegation.path), str(place),
            *delegation.launcher()]


def test_a_command_cannot_write_cgroups_mounted_in_its_workspace(delegation, area, start_daemon):
    path = area.new_directory()
    (path / "my groups").mkdir()
    client = start_daemon(launcher=mounted_at(path / "my groups", delegation)).connect()
    client.call("workspace.open", {"root": str(path)})
    (delegation.path / "seen").mkdir()
    assert "seen" in client.run("ls 'my groups'")["stdout"]
    check_cannot_write(client.run, "'my groups'")


CLOSE = "chmod 0 mine"
# The worker finds mount points by their paths in /proc/self/mountinfo. This command moves one to a path that is too long.
BURY = """exec /usr/bin/python3 -c '
import os
top = os.getcwd()
for _ in range(17):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
os.rename(top + "/mine", "mine")'"""


def unbury(path):
    place = os.open(path, os.O_PATH)
    for _ in range(17):
        place = os.open("d" * 250, os.O_PATH, dir_fd=place)
    os.rename("mine", path / "mine", src_dir_fd=place)


@pytest.mark.parametrize("hide, unhide, said", [
    (CLOSE, lambda path: os.chmod(path / "mine", 0o755), "Permission denied"),
    (BURY, unbury, "File name too long")], ids=["closed", "buried"])
def test_a_command_cannot_keep_cgroups_from_the_next_worker(delegation, area, start_daemon, hide, unhide, said):
    """A command makes its own directory above a mounted cgroup unreachable, so that the next worker cannot make the
    cgroup read-only. That cell then refuses to open or to run commands."""
    path = area.new_directory()
    (path / "mine/groups").mkdir(parents=True)
    os.chown(path / "mine", area.account.uid, area.account.gid)
    hidden = False
    try:
        daemon = start_daemon(launcher=mounted_at(path / "mine/groups", delegation))
        client = daemon.connect()
        client.call("workspace.open", {"root": str(path)})
        assert client.run(hide)["exit_code"] == 0
        hidden = True
        client.call("workspace.close")
        assert procfs.eventually(lambda: not daemon.cells())
        answer = client.wait(client.request("workspace.open", {"root": str(path)}))
        if "result" in answer:  # the workspace opened, and its commands are refused
            answer = client.observe("run_command", {"command": "chmod 755 mine; mkdir mine/groups/more"})
        assert f"make cgroups read-only: {said}" in answer["error"]["message"], answer
        unhide(path)
        hidden = False
        client.call("workspace.open", {"root": str(path)})
        assert "Read-only file system" in client.run("mkdir mine/groups/more")["stderr"]
        assert not (delegation.path / "more").exists()
    finally:
        if hidden:
            unhide(path)
        # The test leaves paths too long for the searches that other tests make in the area.
        subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


def test_unreachable_cgroups_do_not_prevent_a_workspace(delegation, area, start_daemon):
    path = area.new_directory()
    (path / "others/groups").mkdir(parents=True)
    os.chmod(path / "others", 0o700)
    client = start_daemon(launcher=mounted_at(path / "others/groups", delegation)).connect()
    client.call("workspace.open", {"root": str(path)})
    assert "Permission denied" in client.run("chmod 755 others; ls others/groups; true")["stderr"]


def held(worker):
    """Returns the number of the worker's descriptors, without the Landlock rulesets of command inits made ahead."""
    return sum("landlock" not in target for target in procfs.fds(worker).values())


def test_descriptors_where_cgroups_are_delegated(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    client = daemon.connect()
    path, _ = opened(daemon, client)
    ((worker, files),) = daemon.cells()
    assert procfs.fds(daemon.spawner())[5] == str(delegation.path)
    # The worker's descriptor is the root of a mount of its own, the workspace's group, so ".." leads to no other group.
    assert procfs.fds(worker)[8] == "/"  # FD_WORKER_CGROUP
    up = f"/proc/{worker}/fd/8"
    assert os.stat(up + "/..").st_ino == os.stat(up).st_ino
    assert os.stat(up).st_ino == (delegation.path / "ws-1").stat().st_ino
    assert not any("cgroup" in target or target == str(delegation.path)
                   for target in procfs.fds(files).values())
    # To read what workspaces use.
    assert [target for target in procfs.fds(daemon.pid).values() if str(mount_point()) in target] == [str(delegation.path)]
    number = begin_sleeping(client, path)
    (init,) = procfs.children(worker)
    assert procfs.fds(init) == procfs.fds(worker)
    assert all(set(procfs.fds(pid)) == {0, 1, 2} for pid in procfs.children(init))
    before = held(worker)
    assert client.cancel(number)
    client.result(number)
    # When the command has ended, the worker closes its cgroup and its two output pipes.
    assert procfs.eventually(lambda: held(worker) == before - 3), (before, held(worker))


# What workspaces use now


def usage_of(control, method, name, value):
    (row,) = [row for row in control.call(method)[method] if row[name] == value]
    return row


def test_what_a_workspace_uses_now_is_known(start_daemon, delegation):
    """CPU where there are cgroups at all; memory and devices where they have the controllers, and null where not."""
    daemon = start_daemon(launcher=delegation.launcher())
    client, control = daemon.connect(), daemon.control()
    paths = [str(daemon.new_workspace(client)) for _ in range(2)]
    for path in paths:
        client.wait(client.begin("run_command", {"command": "true"}, workspace=path))
    busy = client.begin("run_command", {"command": "while :; do :; done"}, workspace=paths[0])

    def rows():
        return [usage_of(control, "workspaces", "workspace", path) for path in paths]

    # One command takes up to a CPU, the other workspace nothing.
    assert procfs.eventually(lambda: (rows()[0]["cpu_milli"] or 0) > 100 and rows()[1]["cpu_milli"] is not None)
    used, idle = rows()
    assert idle["cpu_milli"] < used["cpu_milli"]
    assert used["idle_ms"] == 0 <= idle["idle_ms"]
    (tenant,) = control.call("tenants")["tenants"]
    assert tenant["cpu_milli"] > 100
    for row in (used, idle, tenant):
        assert (row["memory_bytes"] is not None) == ("memory" in delegation.controllers())
        assert (row["io_bytes_per_second"] is not None) <= ("io" in delegation.controllers())
    client.cancel(busy)
    ended = client.result(busy)["usage"]
    # What has ended counts at its end.
    assert usage_of(control, "workspaces", "workspace", paths[0])["ended_cpu_us"] >= ended["user_us"] + ended["system_us"] > 0


def test_without_cgroups_it_is_not_known(own_daemon):
    client, control = own_daemon.connect(), own_daemon.control()
    own_daemon.new_workspace(client)
    client.run("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    for method in ("workspaces", "tenants"):
        (row,) = control.call(method)[method]
        assert [row[name] for name in ("cpu_milli", "memory_bytes", "io_bytes_per_second")] == [None] * 3
        assert row["ended_cpu_us"] > 0


def test_a_cell_that_was_made_ahead_keeps_its_group(start_daemon, delegation, account):
    """It is looked at by the number that it was made with, not by that of the workspace's request."""
    daemon = start_daemon(launcher=delegation.launcher(), config=f"""[cloister]
spare_cells = 1
admin_group = {account.gid}
[tenant t]
users = {account.uid}
managed = yes
""")
    client, control = daemon.connect(), daemon.control()
    client.call("workspace.open", {"workspace": "first"})
    assert procfs.eventually(lambda: daemon.spares_ready() == 1)
    client.call("workspace.open", {"workspace": "second"})
    busy = client.begin("run_command", {"command": "while :; do :; done"}, workspace="second")
    assert procfs.eventually(lambda: (usage_of(control, "workspaces", "workspace", "second")["cpu_milli"] or 0) > 100)
    assert "\ncloister_spare_cells_used_total 1\n" in control.call("metrics")["text"]
    client.cancel(busy)
    client.result(busy)
