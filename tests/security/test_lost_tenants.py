# SPDX-License-Identifier: Apache-2.0
"""A reload removes a tenant while its client is connected. The client's next request is the last use of the tenant, and
cloisterd goes on to serve the other tenants. AddressSanitizer detects a use after free."""

import os

import pytest

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")


def config_of(users):
    return "[cloister]\nagent_socket_mode = 0666\n" + "".join(
        f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" for name, user in users.items())


@pytest.fixture
def host(start_daemon, tenants):
    """A daemon for tenants a, whose client asked for something, and b."""
    daemon = start_daemon(config=config_of({"a": tenants[0], "b": tenants[1]}))
    client = daemon.connect(tenants[0])
    assert client.call("workspace.list")["workspaces"] == []
    return daemon, client


def check_served(daemon, user):
    with daemon.connect(user) as other:
        other.call("workspace.open", {"workspace": "w"})
        assert other.run("echo served")["stdout"] == "served\n"
    daemon.check_log()


# One line is acted on at once, many wait for their turns.
@pytest.mark.parametrize("lines", [1, 100])
@pytest.mark.parametrize("line", [b'{"jsonrpc":"2.0","id":7,"method":"workspace.list"}\n',
                                  b'{"jsonrpc":"2.0","method":"workspace.open","params":{"workspace":"w"}}\n'])
def test_a_client_asks_whose_tenant_is_gone(host, tenants, line, lines):
    daemon, client = host
    assert daemon.reload(config_of({"b": tenants[1]}))
    client.send_raw(line * lines)
    while client.receive_line() is not None:
        pass
    check_served(daemon, tenants[1])


@pytest.mark.parametrize("open_one", [False, True])
def test_a_client_asks_who_is_another_tenants_now(host, tenants, open_one):
    daemon, client = host
    if open_one:
        client.call("workspace.open", {"workspace": "w"})
        client.use("write_file", path="f", content="a")
    assert daemon.reload(config_of({"b": tenants[1], "c": tenants[0]}))
    assert client.call("workspace.list")["workspaces"] == []
    assert client.call("workspace.open", {"workspace": "w"})["tenant"] == "c"
    check_served(daemon, tenants[1])


def test_a_client_hangs_up_whose_tenant_is_gone(host, tenants):
    daemon, client = host
    client.call("workspace.open", {"workspace": "w"})
    client.begin("run_command", {"command": "yes"}, {"stream": True})
    assert daemon.reload(config_of({"b": tenants[1]}))
    client.close()
    check_served(daemon, tenants[1])
