# SPDX-License-Identifier: Apache-2.0
"""cloisterctl health: its exit status, each reason brought about once, and what it says of slots, disk, memory and load."""

import json
import os
import signal
import subprocess

import pytest

import procfs
from cloister_client import RpcError
from daemon import fill

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")
MIB = 1 << 20
REASONS = ["shutting_down", "draining", "selftest", "audit", "journal", "disk", "memory", "openings", "held", "workspaces", "commands",
           "connections"]


def config(area, host="", tenant="", audit=None, disk="1M", memory="1M"):
    text = f"[cloister]\nadmin_group = {area.account.gid}\nstate_free_min = {disk}\nmemory_free_min = {memory}\n{host}"
    if audit:
        text += f"audit = required\naudit_file = {audit}\n"
    return f"{text}[tenant t]\nusers = {area.account.name}\nmanaged = yes\n{tenant}"


def ask(daemon):
    """Returns the exit status and the result."""
    done = daemon.ctl("--json", "health")
    assert done.returncode in (0, 1), done
    return done.returncode, json.loads(done.stdout)


def reasons(daemon):
    status, result = ask(daemon)
    found = [reason["reason"] for reason in result["reasons"]]
    assert status == (1 if found else 0) and result["healthy"] == (not found), (status, result)
    return found


def becomes(daemon, *expected):
    """Disk and memory are looked at every five seconds."""
    assert procfs.eventually(lambda: reasons(daemon) == list(expected), 60), ask(daemon)


def agent_check(daemon):
    return daemon.ctl("health", "--agent-check").stdout.decode()


def metrics(daemon):
    return daemon.ctl("metrics").stdout.decode()


def test_a_healthy_host(start_daemon, area):
    daemon = start_daemon(config=config(area))
    assert procfs.eventually(lambda: ask(daemon)[1]["disk"], 60)
    status, result = ask(daemon)
    assert status == 0 and result["healthy"] and result["reasons"] == []
    disk, there = result["disk"], os.statvfs(daemon.state)
    assert disk["size_bytes"] == there.f_blocks * there.f_frsize
    assert disk["free_min_bytes"] == MIB and 0 < disk["free_bytes"] <= disk["size_bytes"] and disk["age_ms"] >= 0
    assert MIB < result["memory"]["free_bytes"] <= result["memory"]["size_bytes"]
    assert result["load"]["cpus"] == os.sysconf("SC_NPROCESSORS_ONLN") and result["load"]["runnable_percent"] >= 0
    assert {name: (slot["used"], slot["limit"]) for name, slot in result["slots"].items()} == {
        "workspaces": (0, 1024), "commands": (0, 256), "connections": (0, 512)}
    shown = daemon.ctl("health")
    lines = shown.stdout.decode().splitlines()
    assert shown.returncode == 0 and lines[0] == "healthy" and "commands     256 of 256 free" in lines
    assert agent_check(daemon) == "ready up 100%\n"
    text = metrics(daemon)
    for reason in REASONS:
        assert f'\ncloister_unhealthy{{reason="{reason}"}} 0\n' in text
    assert "\ncloister_state_free_bytes " in text and "\ncloister_memory_free_bytes " in text


def test_draining_and_shutting_down(start_daemon, area):
    daemon = start_daemon(config=config(area, "drain_time = 60s\n"))
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "w"})
        assert daemon.ctl("drain").returncode == 0
        becomes(daemon, "draining")
        shown = daemon.ctl("health")
        assert shown.returncode == 1 and shown.stdout.startswith(b"UNHEALTHY\ndraining: "), shown
        assert agent_check(daemon) == "drain\n"
        assert 'cloister_unhealthy{reason="draining"} 1\n' in metrics(daemon)
        assert daemon.ctl("resume").returncode == 0
        becomes(daemon)
        running = client.begin("run_command", {"command": "echo; sleep 600", "timeout_ms": 600000})
        becomes(daemon)
        assert procfs.eventually(lambda: ask(daemon)[1]["slots"]["commands"]["used"] == 1)
        with daemon.control() as control:  # the socket takes no new clients any more
            control.call("health")  # this one is taken
            daemon.process.send_signal(signal.SIGTERM)
            assert procfs.eventually(lambda: [reason["reason"] for reason in control.call("health")["reasons"]] == ["shutting_down"])
        client.cancel(running)


@as_root
def test_an_audit_log_that_fails(start_daemon, area):
    with area.disk("256k") as place:
        daemon = start_daemon(config=config(area, audit=place / "audit.log"))
        filler = fill(place)
        with daemon.connect() as client:
            client.call("workspace.open", {"workspace": "w"})

            def refused():
                client.observe("list_directory", {"path": "."})
                return reasons(daemon) == ["audit"]

            assert procfs.eventually(refused, 60), ask(daemon)
            assert agent_check(daemon) == "down #audit\n"
            filler.unlink()
            becomes(daemon)


def fail_with_keys(daemon, client):
    """Makes calls with keys until health says that the journal cannot be written."""
    client.call("workspace.open", {"workspace": "w"})

    def refused():
        client.observe("run_command", {"command": "true"}, {"key": os.urandom(8).hex()})
        return reasons(daemon) == ["journal", "disk"]

    assert procfs.eventually(refused, 60), ask(daemon)


@pytest.mark.deep("slow")
@as_root
def test_a_full_state_directory(start_daemon, area):
    with area.disk("4m") as place:
        daemon = start_daemon(config=config(area), state=place / "state")
        becomes(daemon)
        filler = fill(place)
        becomes(daemon, "disk")
        with daemon.connect() as client:
            fail_with_keys(daemon, client)
            assert agent_check(daemon) == "down #journal disk\n"
            filler.unlink()
            client.observe("run_command", {"command": "true"}, {"key": "last"})
            becomes(daemon)
        daemon.reload(config(area, disk="1T"))
        becomes(daemon, "disk")
        daemon.reload(config(area, disk="0"))
        becomes(daemon)


def test_too_little_memory(start_daemon, area):
    daemon = start_daemon(config=config(area))
    daemon.reload(config(area, memory="1T"))
    becomes(daemon, "memory")
    assert "memory: " in daemon.ctl("health").stdout.decode()


@pytest.fixture
def daemon_without_filters(start_daemon, area):
    """Its workers cannot install their filter, as on a host that has no room for one more."""
    area.put_in_place_of("cloister-worker", "without_filters")
    try:
        yield start_daemon(config=config(area, host="spare_cells = 0\n"))
    finally:
        (area.bin / "cloister-worker.real").rename(area.bin / "cloister-worker")


def test_openings_that_fail(daemon_without_filters):
    """Workers are ready before they install their filter."""
    daemon = daemon_without_filters
    client = daemon.connect()
    assert reasons(daemon) == []
    for number in range(3):
        try:  # some are answered before the worker gets so far
            client.call("workspace.open", {"workspace": f"w{number}"})
            why = client.observe("run_command", {"command": "true"})["error"]["message"]
        except RpcError as error:
            why = str(error)
        assert "install the commands' system call filter: No buffer space available" in why
    assert reasons(daemon) == ["openings"]
    assert "install the commands' system call filter" in ask(daemon)[1]["reasons"][0]["message"]
    assert 'cloister_unhealthy{reason="openings"} 1' in metrics(daemon)


def test_slots_used_up(start_daemon, area):
    daemon = start_daemon(config=config(area, "commands = 1\nconnections = 3\n", "workspaces = 2\n"))
    with daemon.connect() as client, daemon.connect() as other:
        client.call("workspace.open", {"workspace": "a"})
        assert procfs.eventually(lambda: agent_check(daemon) == "ready up 33%\n"), ask(daemon)
        running = client.begin("run_command", {"command": "sleep 600", "timeout_ms": 600000})
        becomes(daemon, "commands")
        other.call("workspace.open", {"workspace": "b"})
        becomes(daemon, "workspaces", "commands")
        third = daemon.connect()
        third.call("tools.list")
        becomes(daemon, "workspaces", "commands", "connections")
        assert daemon.ctl("health").returncode == 1 and daemon.ctl("health", "--ignore-full").returncode == 0
        daemon.ctl("drain")
        assert daemon.ctl("health", "--ignore-full").returncode == 1
        daemon.ctl("resume")
        assert agent_check(daemon) == "drain\n"
        third.close()
        client.cancel(running)
        client.wait(running)
        other.call("workspace.close")
        other.close()
        becomes(daemon)


def test_who_cannot_be_asked(start_daemon, area):
    """A service that does not answer is neither healthy nor unhealthy: the exit status is another one."""
    gone = area.run("cloisterctl", "--socket", str(area.path / "none"), "health")
    assert gone.returncode == 3 and not gone.stdout and b"no service at" in gone.stderr
    gone = area.run("cloisterctl", "--socket", str(area.path / "none"), "health", "--agent-check")
    assert (gone.returncode, gone.stdout) == (3, b"down #no answer\n")
    daemon = start_daemon(config=config(area))
    assert daemon.ctl("status", "--agent-check").returncode == 2
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([area.bin / "cloisterctl", "--socket", daemon.control_socket, "health"], timeout=1,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    becomes(daemon)
