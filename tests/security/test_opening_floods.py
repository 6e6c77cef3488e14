# SPDX-License-Identifier: Apache-2.0
"""Tenants that ask for hundreds of workspaces at once: what another one asks for does not wait behind them."""

import os
import signal

import pytest

import procfs

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them"),
              pytest.mark.deep("busy")]

HANG = 60  # no condition takes longer
FLOOD = 200  # requests of one tenant
PLACES = 2  # LIMIT_SPAWNER_REQUESTS_OF_TENANT
FEW = 10 * PLACES  # those at the spawner, and what begins while the other's processes start


@pytest.fixture
def host(start_daemon, account, tenants):
    text = f"[cloister]\nagent_socket_mode = 0666\nspare_cells = 0\nobserver_group = {account.name}\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
    return start_daemon(config=text)


def metric(daemon, name):
    with daemon.control() as control:
        return int(control.call("metrics")["text"].split(f"\n{name} ")[1].split()[0])


def waiting(daemon, tenant):
    return metric(daemon, f'cloister_tenant_openings_waiting{{tenant="{tenant}"}}')


def opening(daemon):
    return metric(daemon, 'cloister_workspaces{state="opening"}')


def come(client):
    """Returns how many answers have come."""
    n = 0
    try:
        while True:
            assert "result" in client.receive_any(timeout=0.001)
            n += 1
    except TimeoutError:
        return n


def test_a_flood_of_openings_holds_up_nobody_else(host, tenants):
    a, b = host.connect(tenants[0]), host.connect(tenants[1])
    spawner = host.spawner()
    os.kill(spawner, signal.SIGSTOP)  # so that all of them wait
    try:
        for i in range(FLOOD):
            a.request("workspace.open", {"workspace": f"w{i}"})
        assert procfs.eventually(lambda: waiting(host, "a") == FLOOD - PLACES, HANG)
        opened = b.request("workspace.open", {"workspace": "w"})
        assert procfs.eventually(lambda: opening(host) == FLOOD + 1, HANG)
        # It has been sent, before all but a few of the others.
        assert (waiting(host, "a"), waiting(host, "b"), come(a)) == (FLOOD - PLACES, 0, 0)
    finally:
        os.kill(spawner, signal.SIGCONT)
    assert b.result(opened, HANG)["tenant"] == "b"
    before = come(a)
    assert before <= FEW, before
    assert b.run("echo here")["stdout"] == "here\n"
    for _ in range(FLOOD - before):
        assert a.receive_any(HANG)["result"]["tenant"] == "a"
    assert waiting(host, "a") == 0


def test_clients_that_leave_hold_no_place(host, tenants):
    spawner = host.spawner()
    os.kill(spawner, signal.SIGSTOP)
    try:
        with host.connect(tenants[0]) as a:
            for i in range(FLOOD):
                a.request("workspace.open", {"workspace": f"w{i}"})
            assert procfs.eventually(lambda: waiting(host, "a") == FLOOD - PLACES, HANG)
    finally:
        os.kill(spawner, signal.SIGCONT)
    assert procfs.eventually(lambda: waiting(host, "a") == 0, HANG)
    a = host.connect(tenants[0])
    for i in range(2 * PLACES):
        assert a.call("workspace.open", {"workspace": f"v{i}"}, HANG)["tenant"] == "a"
        assert a.run("echo here")["stdout"] == "here\n"
        a.call("workspace.close")
