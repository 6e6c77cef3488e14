# SPDX-License-Identifier: Apache-2.0
"""What two generations of cloisterd have in common: the host's bounds, its ids and cgroups, the audit log, templates in
memory and kept homes."""

import json
import os
import pathlib
import signal

import pytest

import procfs
from cloister_client import acting_as
from daemon import AM_ROOT, system_config
from delegation import processes, reason_against
from generations import GO, begin, ended, error_of, generations_fixture, go, opened, runs, status


def full_of_the_old_daemons(generations, area):
    """Two commands, all that the host may have, run in the old daemon. Returns the new daemon, the directory in which they
    wait for go(), their client and their calls."""
    first = generations(host="commands = 2", settings="commands = 2")
    root = area.new_directory()
    client = opened(first, root)
    calls = [begin(client, GO + "true") for _ in range(2)]
    runs(first, 2)
    return generations(former=first, host="commands = 2", settings="commands = 2"), root, client, calls


def test_the_hosts_commands_are_counted_together(generations, area):
    second, root, client, calls = full_of_the_old_daemons(generations, area)
    newcomer = opened(second, area.new_directory())
    waiting = begin(newcomer, "echo mine")
    assert procfs.eventually(lambda: status(second)["calls_waiting"] == 1)
    assert status(second)["commands_running"] == 0
    go(root)
    for call in calls:
        assert client.wait(call)["result"]["success"]
    assert newcomer.wait(waiting)["result"]["output"]["stdout"] == "mine\n"


def test_health_counts_the_old_daemons_commands(generations, area):
    """They fill the host for the new daemon, which begins none until they end."""
    second, root, client, calls = full_of_the_old_daemons(generations, area)
    with second.control() as control:
        found = control.call("health")
        assert found["slots"]["commands"] == {"used": 2, "limit": 2, "free": 0}
        assert not found["healthy"] and [reason["reason"] for reason in found["reasons"]] == ["commands"], found
        assert "2 of them under the cloisterd that this one replaces" in found["reasons"][0]["message"]
        go(root)
        for call in calls:
            client.wait(call)
        assert procfs.eventually(lambda: control.call("health")["healthy"])


def test_one_audit_log_has_both(generations, area):
    first = generations(host="audit = required")
    log = first.state / "audit" / "audit.log"
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "echo old_daemon")
    runs(first, 1)
    second = generations(former=first, host="audit = required")
    with opened(second, area.new_directory()) as newcomer:
        newcomer.run("echo new daemon")
    go(root)
    client.wait(call)
    assert ended(first) == 0
    assert procfs.eventually(lambda: "old_daemon" not in status(second))
    assert second.stop() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [line for line in lines if line["event"] == "call.ended"]
    assert len(ends) == 2, lines
    assert area.run("cloisterctl", "audit", "verify", str(log)).returncode == 0


@pytest.mark.skipif(not AM_ROOT, reason="gives a user ids")
def test_ids_of_two_generations(start_daemon, area):
    """In system mode no two workspaces share an id, whichever generation has them open."""
    config = system_config(area, f"admin_group = {area.account.gid}")
    first = start_daemon(system=True, config=config)
    root, other = first.new_directory(), area.new_directory()
    client, managed = opened(first, root), opened(first, name="old_daemon")
    call = begin(client, GO + "true")
    calls = begin(managed, GO + "true")
    runs(first, 2)
    second = start_daemon(system=True, config=config, former=first)
    with opened(second, name="new_daemon") as newcomer:
        assert newcomer.run("true")["exit_code"] == 0
        owners = {path.stat().st_uid for path in first.state.glob("workspaces/*/*")} | {os.stat(root).st_uid}
        assert len(owners) == 3
        with acting_as(os.getuid()):
            os.chown(other, os.stat(root).st_uid, os.stat(root).st_gid)
        refused = error_of(newcomer, "workspace.open", {"root": str(other)})
        assert refused["data"]["code"] == "FORBIDDEN" and "another workspace" in refused["message"], refused
        for each, number in ((client, call), (managed, calls)):
            assert each.observe("write_file", {"path": "go", "content": ""})["success"]
            assert each.wait(number)["result"]["success"]
        assert ended(first) == 0
        assert procfs.eventually(lambda: "old_daemon" not in status(second))
        newcomer.call("workspace.open", {"root": str(other)})


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for system mode")
def test_forks_of_a_template_in_memory(start_daemon, area):
    """The new daemon loads the template for forks that it opens; those of the old daemon go on with what they have."""
    config = system_config(area, "template_memory = 64M", f"admin_group = {area.account.gid}")
    first = start_daemon(config=config, system=True)
    client = opened(first)
    client.run("head -c 3M /dev/urandom > big; echo template > f")
    client.call("workspace.freeze", {"template": "t"})
    answer = client.call("workspace.fork", {"from": "t", "count": 2})
    if answer["forked_by"] == "copy":
        pytest.skip("a tmpfs with mapped ids and attributes needs Linux 6.6")
    old = opened(first, name="t-1")
    expected = old.run("sha256sum big; echo old > f; cat f")["stdout"]
    running = begin(old, GO + "cat f; sha256sum big")
    runs(first, 1)
    second = start_daemon(config=config, system=True, former=first)
    new = opened(second, name="t-2")
    assert new.run("sha256sum big; cat f")["stdout"] == expected.replace("old\n", "template\n")
    assert "template_memory" in status(second) and 3 * 2**20 < status(second)["template_memory"]["bytes"] < 4 * 2**20
    assert status(second)["template_memory"]["limit_bytes"] == 64 * 2**20
    more = second.connect().call("workspace.fork", {"from": "t"})
    assert (more["forked_by"], more["workspaces"]) == ("memory", ["t-3"])
    assert old.observe("write_file", {"path": "go", "content": ""})["success"]
    assert old.result(running)["output"]["stdout"].split() == ["old", *expected.split()[:2]]
    assert ended(first) == 0
    with opened(second, name="t-1") as again:
        assert again.run("sha256sum big; cat f")["stdout"] == expected


def test_a_kept_home_stays_with_its_cell(generations, area):
    """The new daemon's spawner empties a home that is too large when it is alone, and not while the old daemon's cell has it."""
    settings = "home = kept\nhome_size = 1M"
    first = generations(settings=settings)
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, "head -c 2M /dev/zero >~/large; touch made; " + GO + "stat -c %s ~/large")
    assert procfs.eventually((pathlib.Path(root) / "made").exists)
    second = generations(former=first, settings=settings)
    with opened(second, area.new_directory()) as newcomer:
        assert newcomer.run("true")["exit_code"] == 0
    assert list(first.state.glob("homes/t/*/large"))
    go(root)
    assert client.wait(call)["result"]["output"]["stdout"] == "2097152\n"
    assert ended(first) == 0
    assert procfs.eventually(lambda: not list(first.state.glob("homes/t/*/large")))
    assert second.process.poll() is None


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_cgroups_of_two_generations(generations, delegation, area):
    first = generations(launcher=delegation.launcher())
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "true")
    runs(first, 1)
    with acting_as(os.getuid()):
        control = delegation.path / ".control"
        control.mkdir()
        for file in (".", "cgroup.procs"):
            os.chown(control / file, area.account.uid, area.account.gid)
    second = generations(former=first, launcher=delegation.launcher(".control"))
    own = f"gen-{second.pid}"
    assert second.pid in processes(delegation.path / own / "supervisor")
    assert processes(control) == []
    with opened(second, area.new_directory()) as newcomer:
        assert newcomer.run("echo a")["stdout"] == "a\n"
        assert any(name.startswith(f"{own}/ws-") for name in delegation.groups())
    go(root)
    assert client.wait(call)["result"]["success"]
    assert ended(first) == 0
    assert not [name for name in delegation.groups() if name.startswith("ws-")]
    assert second.stop() == 0


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_what_killed_old_daemons_leave_of_cgroups(generations, delegation, area):
    """Whoever takes over next removes it: of the first generation, and of a later one."""
    kept = area.new_directory()

    def control():
        """The service manager's group for what a reload starts."""
        with acting_as(os.getuid()):
            place = delegation.path / ".control"
            place.mkdir(exist_ok=True)
            for file in (".", "cgroup.procs"):
                os.chown(place / file, area.account.uid, area.account.gid)
        return delegation.launcher(".control")

    def busy(daemon, n):
        begin(opened(daemon, kept if n == 0 else area.new_directory()), "sleep 600")
        runs(daemon, 1)

    def next_after(killed, n):
        busy(killed, n)
        heir = generations(former=killed, launcher=control())
        with acting_as(os.getuid()):
            os.kill(killed.spawner(), signal.SIGSTOP)  # it may see the end of its cloisterd before it is killed, and tidy up
        killed.process.kill()
        killed.process.wait()
        assert procfs.eventually(lambda: "old_daemon" not in status(heir))
        return heir
    first = generations(launcher=delegation.launcher())
    second = next_after(first, 0)
    assert [name for name in delegation.groups() if name.startswith("ws-")], delegation.groups()
    third = next_after(second, 1)
    assert not [name for name in delegation.groups() if name.startswith("ws-")], delegation.groups()
    assert [name for name in delegation.groups() if name.startswith(f"gen-{second.pid}/ws-")]
    last = generations(former=third, launcher=control())
    assert ended(third) == 0
    assert not [name for name in delegation.groups() if name.startswith(f"gen-{second.pid}")], last.log()
    with opened(last, kept) as client:
        assert client.run("echo a")["stdout"] == "a\n"
