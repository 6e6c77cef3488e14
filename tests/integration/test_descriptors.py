# SPDX-License-Identifier: Apache-2.0
"""A low limit of open files: how many workspaces it lets tenants have, and that one tenant leaves others theirs."""

import contextlib
import itertools
import os
import resource

import procfs
import pytest
from cloister_client import RpcError

LIMIT = 1024
MOST = 672  # three quarters of what LIMIT_DESCRIPTORS_OWN leaves
OF_ONE = 8  # LIMIT_DESCRIPTORS_WORKSPACE

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")


def limited(limit=LIMIT):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def config_of(account, *users, host=""):
    text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {account.name}\n{host}\n"
    return text + "".join(f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" for name, user in zip("ab", users))


def metric(daemon, name):
    return next(line.split()[1] for line in daemon.ctl("metrics").stdout.decode().splitlines() if line.startswith(name + " "))


def open_until_refused(daemon, user, then=lambda client, name: None):
    """Opens workspaces, each connection a hundred, and calls @then in each. Returns the connections, how many workspaces
    are open, and the refusal."""
    clients, n = [], 0
    while n < LIMIT:
        if n % 100 == 0:
            clients.append(daemon.connect(user))
        try:
            clients[-1].call("workspace.open", {"workspace": f"w{n}"})
        except RpcError as error:
            return clients, n, error
        then(clients[-1], f"w{n}")
        n += 1
    raise AssertionError("nothing was refused")


def check_another_is_served(daemon, user):
    """Another tenant opens several, and uses them."""
    for name in "vwx":
        client = daemon.connect(user)
        client.call("workspace.open", {"workspace": name})
        client.use("write_file", path="f", content=name)
        assert client.use("read_file", path="f")["content"].endswith(name)
        assert client.run("cat f")["stdout"] == name


def check_refusal(error):
    assert error.name == "BUSY" and "close a workspace" in error.message and "LimitNOFILE" in error.message, error
    assert error.args[0]["data"]["retry_after_ms"] >= 50, error


@pytest.mark.deep("slow")
@as_root
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_tenant_leaves_others_their_descriptors(start_daemon, account, tenants, busy):
    daemon = start_daemon(config=config_of(account, *tenants[:2]), preexec_fn=limited())
    assert f"of {LIMIT} open files, which is the limit, workspaces may hold {MOST}: {MOST // OF_ONE} of them" in daemon.log()
    running = []

    def run(client, name):
        if busy:
            running.append((client, client.begin("run_command", {"command": "sleep 600"}, {"timeout_ms": 600000}, workspace=name)))
    clients, n, error = open_until_refused(daemon, tenants[0], run)
    check_refusal(error)
    # It may have as many as it leaves free: with processes in all of them, or in few.
    least = MOST / 2 / OF_ONE - 6 if busy else MOST / 3
    assert least <= n <= (MOST / 2 / OF_ONE if busy else MOST / 2), n
    assert int(metric(daemon, 'cloister_tenant_descriptors{tenant="a"}')) <= MOST / 2
    assert int(metric(daemon, "cloister_descriptors_limit")) == MOST
    assert int(metric(daemon, "cloister_descriptors_refused_total")) >= 1
    check_another_is_served(daemon, tenants[1])
    for pid in (daemon.pid, daemon.spawner()):
        assert len(procfs.fds(pid)) < LIMIT - 100
    # What it has stays usable, also where the processes have ended.
    assert clients[0].observe("list_directory", {"path": "."}, workspace="w0")["success"]
    for client, number in running:
        client.cancel(number)
    for client in clients:
        client.close()
    assert procfs.eventually(lambda: metric(daemon, 'cloister_tenant_descriptors{tenant="a"}') == "0")


@pytest.mark.deep("busy")
def test_a_tenant_that_is_alone_may_have_all(start_daemon, account):
    daemon = start_daemon(config=config_of(account, account), preexec_fn=limited(256))
    _, n, error = open_until_refused(daemon, account)
    check_refusal(error)
    assert n > 48, n
    assert int(metric(daemon, 'cloister_tenant_descriptors{tenant="a"}')) <= 96
    # The longest unused has lost its processes, the last one has them.
    assert int(metric(daemon, "cloister_cells_ended_idle_total")) > 0


def test_a_host_without_room_for_more_is_full(start_daemon, account):
    daemon = start_daemon(config=config_of(account, account), preexec_fn=limited(256))
    clients, n, _ = open_until_refused(daemon, account)
    names = itertools.count(n)
    found = {}

    def is_full():
        """Cells that end make room for some more."""
        with contextlib.suppress(RpcError):
            clients[-1].call("workspace.open", {"workspace": f"w{next(names)}"})
        with daemon.control() as control:
            found.update(control.call("health"))
        return found["reasons"]
    assert procfs.eventually(is_full), found
    assert [reason["reason"] for reason in found["reasons"]] == ["workspaces"], found
    assert found["slots"]["workspaces"]["free"] == 0


def test_enough_open_files_limit_nothing(start_daemon, account):
    """Ten workspaces fit, and none ends for another."""
    config = config_of(account, account) + "workspaces = 10\n"
    daemon = start_daemon(config=config, preexec_fn=limited(256))
    assert "open files" not in daemon.log() and metric(daemon, "cloister_descriptors_limit") == "+Inf"
    client = daemon.connect()
    for i in range(10):
        client.call("workspace.open", {"workspace": f"w{i}"})
    assert metric(daemon, "cloister_cells_ended_idle_total") == "0"
