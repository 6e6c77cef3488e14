# SPDX-License-Identifier: Apache-2.0
"""Disk classes where the kernel has no quota: what is said, which ids workspaces get, and that what is measured holds writers
back. tests/vm/test_disk_quota.py has the kernel's quota."""

import json
import os
import signal

import pytest

import procfs
from cloister_client import RpcError
from daemon import DELEGATED, Account, Daemon
from killer import Holder

MIB = 1 << 20


def config(area, host="", tenant="", classes="small:4M:1000:100 large:64M:2k:100"):
    return (f"[cloister]\nadmin_group = {area.account.gid}\ndisk_classes = {classes}\n{host}"
            f"[tenant t]\nusers = {area.account.name}\nmanaged = yes\ntools = basic patch\n{tenant}")


@pytest.fixture
def start(area, start_daemon):
    return lambda *words, **more: start_daemon(config=config(area, *words, **more), system=False)


def opened(daemon, name="w"):
    client = daemon.connect()
    isolation = client.call("workspace.open", {"workspace": name})["isolation"]
    if isolation["limits"]["disk"] == "quota":
        pytest.skip("the kernel has a quota for the user here")
    return client


def size(daemon, name="w"):
    """Returns what is known of the size. Somebody who looks has it measured, if that is due."""
    with daemon.control() as control:
        rows = control.call("workspaces")["workspaces"]
    return next(row for row in rows if row["workspace"] == name)


def grows_beyond(daemon, mib):
    assert procfs.eventually(lambda: (size(daemon)["disk_bytes"] or 0) > mib * MIB, 60), size(daemon)


def is_measured(daemon):
    assert procfs.eventually(lambda: size(daemon)["disk_bytes"] is not None, 60), size(daemon)


def shrinks_below(daemon, mib):
    assert procfs.eventually(lambda: size(daemon)["disk_bytes"] < mib * MIB, 60), size(daemon)


def overfill(client, command):
    """Runs a command that takes more than the workspace may. It is ended if it is still there when that is measured."""
    observation = client.observe("run_command", {"command": command})
    assert observation["success"] or observation["error"]["code"] == "QUOTA_EXCEEDED", observation


def fill(client, mib, name="f"):
    """Files of a MiB each, so that none meets the limit of a file's size."""
    overfill(client, f"for i in $(seq {mib}); do head -c 1M /dev/zero >{name}$i; done")


def test_what_holds_is_said(start):
    daemon = start()
    client = daemon.connect()
    limits = client.call("workspace.open", {"workspace": "w"})["isolation"]["limits"]
    assert (limits["disk"], limits["disk_bytes"]) == ("measured", 4 * MIB)
    row = size(daemon)
    assert (row["disk_limited_by"], row["disk_limit_bytes"]) == ("measured", 4 * MIB)
    with daemon.control() as control:
        line = next(line for line in control.call("status")["enforcement"] if line["what"] == "disk")
    assert (line["enforced"], line["by"]) == (True, "measured") and "quota" in line["why"]
    with daemon.control() as control:
        feature = next(line for line in control.call("doctor")["features"] if line["feature"] == "disk_quota")
    assert not feature["present"]
    without_cgroups = "; without cgroups a command can move its files out of the way of measurements"
    assert line["why"] == feature["fix"] + ("" if DELEGATED else without_cgroups)


def test_without_classes_nothing_is_said_to_hold(daemon, client):
    if client.call("workspace.open", {"root": str(daemon.new_directory())})["isolation"]["limits"]["disk"] == "quota":
        pytest.skip("the kernel has a quota here")
    assert "disk" not in client.use("write_file", path="f", content="x")
    with daemon.control() as control:
        line = next(line for line in control.call("status")["enforcement"] if line["what"] == "disk")
    assert (line["enforced"], line["by"]) == (False, "none") and line["why"]


def test_a_quota_that_is_required_and_does_not_hold(area):
    path = area.new_directory("conf") / "cloister.conf"
    path.write_text(config(area, "require = disk_quota\n"))
    area.account.own(path)
    state = path.parent / "state"
    done = area.run("cloisterd", "--config", str(path), "--agent-socket", str(path.parent / "a"),
                    "--control-socket", str(path.parent / "c"), "--state-dir", str(state))
    said = done.stderr.decode()
    assert done.returncode == 1 and "the configuration requires disk_quota: " in said, said
    assert not state.exists() and ("tune2fs -O quota" in said or "this file system" in said or "XFS" in said), said


def test_a_tenant_of_another_class(start):
    daemon = start("", "disk_class = large\n")
    client = daemon.connect()
    limits = client.call("workspace.open", {"workspace": "w"})["isolation"]["limits"]
    assert limits["disk_bytes"] == 64 * MIB


def test_writes_say_what_is_taken(start):
    daemon = start()
    client = opened(daemon)
    is_measured(daemon)
    usage = client.observe("write_file", {"path": "f", "content": "x"})["usage"]
    assert usage["disk"]["limit"] == 4 * MIB and usage["disk"]["bytes"] < MIB
    assert "disk" not in client.observe("read_file", {"path": "f"})["usage"]
    text = daemon.ctl("metrics").stdout.decode()
    assert "\ncloister_tenant_disk_bytes{tenant=\"t\"} " in text


def test_over_the_class_nothing_is_written_and_all_else_goes_on(start):
    daemon = start()
    client = opened(daemon)
    client.use("write_file", path="kept", content="here")
    fill(client, 5)
    grows_beyond(daemon, 4)
    for tool, arguments in (("write_file", {"path": "g", "content": "x"}),
                            ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: g\n+x\n*** End Patch"})):
        error = client.fail(tool, **arguments)
        assert error["code"] == "QUOTA_EXCEEDED" and "may take 4 MiB" in error["message"], error
    assert "here" in client.use("read_file", path="kept")["content"]
    assert client.use("list_directory", path=".")["count"] == 6
    # A command may read and remove, and is told why it cannot write.
    seen = client.observe("run_command", {"command": "cat kept; echo x >g"})
    assert not seen["success"] and seen["error"]["code"] == "QUOTA_EXCEEDED", seen
    assert seen["output"]["ended_by"] == "disk" and seen["output"]["stdout"] == "here", seen
    assert any("not write to any" in note for note in seen["notes"])
    client.use("apply_patch", patch="*** Begin Patch\n*** Delete File: f1\n*** End Patch")
    assert client.use("run_command", command="rm f2")["exit_code"] == 0
    shrinks_below(daemon, 4)
    assert client.use("run_command", command="echo x >g; cat g")["stdout"] == "x\n"
    client.use("write_file", path="h", content="x")


def test_too_many_files(start):
    daemon = start(classes="few:64M:100:10")
    client = opened(daemon)
    client.use("run_command", command="for i in $(seq 150); do : >f$i; done")
    assert procfs.eventually(lambda: (size(daemon)["disk_files"] or 0) > 100, 60)
    error = client.fail("write_file", path="g", content="x")
    assert error["code"] == "QUOTA_EXCEEDED" and "more files than it may" in error["message"], error


def test_one_file_is_never_larger_than_all_may_be(start):
    daemon = start()
    client = opened(daemon)
    overfill(client, "head -c 20M /dev/zero >f")
    assert client.run("stat -c %s f")["stdout"] == f"{4 * MIB + 4 * MIB // 8}\n"


def test_nothing_is_reserved_beyond_the_size_of_a_file(start):
    """One system call would take all the disk that the host has left, before anything could be measured."""
    daemon = start()
    client = opened(daemon)
    seen = client.use("run_command", command=": >f; fallocate -n -l 1G f; fallocate -l 1M g && stat -c %s g; du -sk . | cut -f1")
    size, taken = map(int, seen["stdout"].split())
    assert size == MIB and taken < 2048 and "unsupported" in seen["stderr"], seen


def test_what_takes_no_blocks_does_not_count(start):
    """Sparse files, and several names of one file."""
    daemon = start()
    client = opened(daemon)
    client.use("run_command", command="truncate -s 4M hole; head -c 1M /dev/zero >f; for i in $(seq 50); do ln f l$i; done")
    grows_beyond(daemon, 0.9)
    assert size(daemon)["disk_bytes"] < 1.5 * MIB, size(daemon)


def test_a_hole_that_is_filled_counts(start):
    daemon = start()
    client = opened(daemon)
    client.use("run_command", command="for i in 1 2; do truncate -s 4M h$i; done")
    overfill(client, "for i in 1 2; do head -c 3M /dev/zero 1<>h$i; done")
    grows_beyond(daemon, 4)
    assert client.fail("write_file", path="g", content="x")["code"] == "QUOTA_EXCEEDED"


def test_what_a_fork_takes(start):
    """Not what its template has, which forks share. A copy of it, in system mode, is the fork's own."""
    daemon = start()
    client = opened(daemon)
    client.use("run_command", command="head -c 3M /dev/zero >f")
    client.call("workspace.freeze", {"template": "t"})
    made = client.call("workspace.fork", {"from": "t", "count": 1})
    assert made["forked_by"] == "overlay"
    (name,) = made["workspaces"]
    fork = opened(daemon, name)
    assert procfs.eventually(lambda: size(daemon, name)["disk_bytes"] is not None, 60)
    assert size(daemon, name)["disk_bytes"] < MIB and fork.run("wc -c <f")["stdout"] == f"{3 * MIB}\n"
    fork.use("run_command", command="head -c 2M /dev/zero >g; rm f")
    assert procfs.eventually(lambda: size(daemon, name)["disk_bytes"] >= 2 * MIB, 60)
    assert fork.observe("write_file", {"path": "more", "content": "x"})["success"]


def test_a_deleted_open_file_is_bounded_by_the_size_of_a_file(start):
    """It has no name that could be measured. What holds is that each is as small as one file may be."""
    daemon = start()
    client = opened(daemon)
    seen = client.use("run_command", command="exec 3>f; rm f; head -c 20M /dev/zero >&3; stat -Lc %s /proc/self/fd/3")
    assert int(seen["stdout"]) == 4 * MIB + 4 * MIB // 8


def test_the_service_keeps_the_rest_of_the_disk_for_itself(start):
    daemon = start("state_free_min = 16384G\n")
    client = opened(daemon)
    assert procfs.eventually(lambda: json.loads(daemon.ctl("--json", "health").stdout)["disk"], 60)
    error = client.fail("write_file", path="f", content="x")
    assert error["code"] == "BUSY" and "nothing is written until there is more" in error["message"], error
    assert client.use("list_directory", path=".")["count"] == 0
    client.call("workspace.remove", {"workspace": "w"})


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and give them ids")
class TestIds:
    def config(self, users, classes, more=""):
        text = f"[cloister]\nmode = system\nagent_socket_mode = 0666\nspare_cells = 0\ndisk_classes = {classes}\n{more}"
        for name, user, of in zip("ab", users, ("", "disk_class = large\n")):
            text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n{of}"
        return text

    @pytest.fixture
    def users(self):
        made = [Account(".a"), Account(".b")]
        yield made
        for user in made:
            user.remove()

    def owner(self, daemon, tenant, name):
        return (daemon.state / "workspaces" / tenant / name).stat().st_uid - daemon.account.first

    def test_each_class_has_its_ids(self, area, start_daemon, users):
        area.account.give_ids()
        daemon = start_daemon(config=self.config(users, "small:4M:1000:3 large:64M:2k:100"), system=True)
        half = min(area.account.count, 60000) // 2
        clients = [daemon.connect(user) for user in users]
        for i in range(3):
            for client, tenant in zip(clients, "ab"):
                client.call("workspace.open", {"workspace": f"w{i}"})
                assert (self.owner(daemon, tenant, f"w{i}") - half) in ([0, 1, 2], range(3, 103))["ab".index(tenant)]
        assert {self.owner(daemon, "a", f"w{i}") for i in range(3)} == {half, half + 1, half + 2}
        # The three of its class are taken; the other tenant's are not touched by that.
        with pytest.raises(RpcError) as caught:
            clients[0].call("workspace.open", {"workspace": "more"})
        assert caught.value.name in ("FORBIDDEN", "QUOTA_EXCEEDED"), caught.value
        clients[1].call("workspace.open", {"workspace": "more"})
        clients[0].call("workspace.remove", {"workspace": "w1"})
        assert procfs.eventually(lambda: self.opens(clients[0], "more"), 60)
        assert self.owner(daemon, "a", "more") == half + 1

    def test_an_id_is_not_given_again_before_its_layers_are_cleared(self, area, start_daemon, users):
        """A quota would charge the new workspace, which may be another tenant's, for what they take."""
        area.account.give_ids()
        daemon = start_daemon(config=self.config(users, "small:64M:100k:1 large:64M:2k:100"), system=True)
        client = daemon.connect(users[0])
        client.call("workspace.open", {"workspace": "old"})
        client.call("workspace.checkpoint", {})
        client.run("mkdir many && cd many && seq 400 | xargs touch")
        cleaner = Holder(daemon.spawner(), "cloister-sweep", "unlinkat")
        client.call("workspace.remove", {"workspace": "old"})
        held = cleaner.held()
        assert list((daemon.state / "workspaces" / "a").glob(".dropped-*"))
        with pytest.raises(RpcError) as caught:
            client.call("workspace.open", {"workspace": "new"})
        assert caught.value.name == "FORBIDDEN", caught.value
        os.kill(held, signal.SIGCONT)
        assert procfs.eventually(lambda: self.opens(client, "new"), 60)

    def opens(self, client, name):
        try:
            return client.call("workspace.open", {"workspace": name})
        except RpcError:
            return None

    def test_more_ids_than_there_are(self, area, users):
        area.account.give_ids()
        with pytest.raises(AssertionError, match="disk_classes has more ids than there are for managed workspaces"):
            Daemon(area, config=self.config(users, "small:4M:1000:30000 large:64M:2k:1"), system=True)
