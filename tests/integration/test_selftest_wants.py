# SPDX-License-Identifier: Apache-2.0
"""A self-test that the host has no room for shows nothing: what the last one has shown stands, and the next one comes soon."""

import json
import os
import time

import pytest

import procfs

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")


def config(area, tenants, host):
    text = f"[cloister]\n{host}admin_group = {area.account.gid}\nagent_socket_mode = 0666\nstate_free_min = 64K\nmemory_free_min = 1M\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
    return text


def state(daemon):
    with daemon.control() as control:
        return control.call("status")["selftest"]


def reasons(daemon):
    return {reason["reason"]: reason["message"] for reason in json.loads(daemon.ctl("--json", "health").stdout)["reasons"]}


def opened(daemon, user, name):
    client = daemon.connect(user)
    client.call("workspace.open", {"workspace": name})
    return client


def fill(client):
    client.run("head -c 100M /dev/zero >big; true")


def code(client, command):
    error = client.observe("run_command", {"command": command}).get("error")
    return error and error["code"]


@pytest.fixture
def place(area):
    with area.disk("8m") as disk:
        yield disk / "state"


@pytest.mark.deep("busy")
def test_a_tenant_that_fills_the_disk(start_daemon, area, tenants, place):
    """Nobody is refused for it, and it can make room again. A run that the disk hindered is followed by one that is not."""
    daemon = start_daemon(state=place, config=config(area, tenants, "selftest = required\nselftest_interval = 500ms\n"))
    assert procfs.eventually(lambda: state(daemon)["result"] == "passed", 60)
    filler, other = opened(daemon, tenants[0], "a"), opened(daemon, tenants[1], "b")
    fill(filler)
    assert procfs.eventually(lambda: "obstacle" in state(daemon), 60)
    last = state(daemon)
    assert last["result"] == "passed" and last["failed"] == 0 and last["passed"] > 100
    assert "selftest" not in reasons(daemon)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert (code(other, "true"), code(filler, "true"), state(daemon)["result"]) == (None, None, "passed")
    assert "self-test: not done" in daemon.log() and "FAILED" not in daemon.log()
    assert "the latest one was not done: set-up: " in daemon.ctl("status").stdout.decode()
    assert code(filler, "rm big") is None
    assert procfs.eventually(lambda: "obstacle" not in state(daemon) and state(daemon)["ended_ms"] > last["ended_ms"], 60)
    assert state(daemon)["result"] == "passed" and "FAILED" not in daemon.log()


@pytest.mark.deep("busy")
def test_a_disk_that_fills_and_empties_again_and_again(start_daemon, area, tenants, place):
    """Wherever in a run the disk is full, none fails."""
    daemon = start_daemon(state=place, config=config(area, tenants, "selftest = required\nselftest_interval = 1ms\n"))
    assert procfs.eventually(lambda: state(daemon)["result"] == "passed", 60)
    filler = opened(daemon, tenants[0], "a")
    until, turns = time.monotonic() + 8, 0
    while time.monotonic() < until:
        turns += 1
        command = f"head -c 100M /dev/zero >big; sleep 0.{turns % 4}; rm big; sleep 0.{turns // 4 % 4}"
        assert code(filler, command) is None
    assert "self-test: not done" in daemon.log() and "FAILED" not in daemon.log()


def test_one_that_was_asked_for(start_daemon, area, tenants, place):
    """The administrator hears that it was not done and why, and no host is called unhealthy for it."""
    daemon = start_daemon(state=place, config=config(area, tenants, ""))
    filler = opened(daemon, tenants[0], "a")
    fill(filler)
    shown = daemon.ctl("selftest")
    assert shown.returncode == 1, shown
    assert "not done, which shows nothing about the walls: set-up: " in shown.stdout.decode()
    result = json.loads(daemon.ctl("--json", "selftest").stdout)
    assert (result["result"], result["failed"]) == ("not_done", 0) and result["obstacle"].startswith("set-up: ")
    assert state(daemon)["result"] == "never" and "selftest" not in reasons(daemon)
    assert code(filler, "rm big") is None
    assert daemon.ctl("selftest").returncode == 0
    assert state(daemon)["result"] == "passed" and "obstacle" not in state(daemon)


@pytest.mark.deep("slow")
def test_a_disk_that_is_full_at_the_start(start_daemon, area, tenants, place):
    """Nobody is served before a run has passed. It passes soon after there is room."""
    daemon = start_daemon(state=place, config=config(area, tenants, "selftest = off\n"))
    fill(opened(daemon, tenants[0], "a"))
    assert daemon.stop() == 0
    daemon = start_daemon(state=place, config=config(area, tenants, "selftest = required\n"))
    assert procfs.eventually(lambda: "obstacle" in state(daemon), 60)
    with daemon.connect(tenants[0]) as client:
        assert client.call_error("workspace.open", {"workspace": "a"}) == "BUSY"
        assert "has not passed yet" in reasons(daemon)["selftest"] and "set-up: " in reasons(daemon)["selftest"]
        (place / "workspaces" / "a" / "a" / "big").unlink()
        assert procfs.eventually(lambda: state(daemon)["result"] == "passed", 60)
        client.call("workspace.open", {"workspace": "a"})
    assert "selftest" not in reasons(daemon)
