# SPDX-License-Identifier: Apache-2.0
"""Several tenants together take all that they can of what the host shares, and never give it back. Another one finds
something all the same: common/budget.h."""

import contextlib
import os

import procfs
import pytest
from cloister_client import RpcError

MIB = 1 << 20
GREEDY = 5
RETRY_MAX_MS = 60000  # LIMIT_RETRY_MAX_MS

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them"),
              pytest.mark.deep("busy")]


def config_of(greedy, other, host="", limits=""):
    """One user has several tenants, and another has one."""
    text = f"[cloister]\nagent_socket_mode = 0666\n{host}\n"
    text += "".join(f"[tenant greedy{i}]\nusers = {greedy.name}\nmanaged = yes\n{limits}\n" for i in range(GREEDY))
    return text + f"[tenant other]\nusers = {other.name}\nmanaged = yes\n{limits}\n"


def start_sessions(client, workspace, output_bytes):
    """Starts as many as the tenant may. Returns their number."""
    for n in range(100):
        try:
            client.call("session.start", {"workspace": workspace, "command": "sleep 600", "output_bytes": output_bytes})
        except RpcError as error:
            assert error.name == "BUSY" and "smaller output_bytes" in error.message, error
            assert error.retry_after_ms == RETRY_MAX_MS  # nobody knows when one ends
            return n
    raise AssertionError("nothing was refused")


def test_output_of_sessions(start_daemon, tenants):
    daemon = start_daemon(config=config_of(*tenants[:2], host="commands_per_cpu = 0", limits="sessions_per_workspace = 16"))
    client, other = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    taken = []
    for i in range(GREEDY):
        client.call("workspace.open", {"workspace": f"w{i}", "tenant": f"greedy{i}"})
        taken.append(sum(size * start_sessions(client, f"w{i}", size * MIB) for size in (15, 1)))
    assert taken[0] >= 50 and taken == sorted(taken, reverse=True) and taken[-1] > 0, taken
    other.call("workspace.open", {"workspace": "w"})
    session = other.call("session.start", {"command": "echo here", "output_bytes": 4 * MIB})["session"]
    read = other.call("session.read", {"session": session, "wait_ms": 60000, "until": [{"exit": True}]})
    assert read["chunks"][0]["data"] == "here\n"


def test_places_for_commands(start_daemon, tenants):
    """Each tenant may take all places, and its commands last longer than calls may wait."""
    daemon = start_daemon(config=config_of(*tenants[:2], host="commands = 8\ncommands_per_cpu = 0",
                                           limits="commands = 8\nqueue_time = 2s"))
    client, other = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    client.call("workspace.open", {"workspace": "w", "tenant": "greedy0"})
    calls = [client.request("tool.call", {"tool": "run_command", "arguments": {"command": "sleep 600"}}) for _ in range(8)]
    assert client.result(calls[-1])["error"]["code"] == "BUSY"
    other.call("workspace.open", {"workspace": "w"})
    for _ in range(2):
        assert other.run("echo here")["stdout"] == "here\n"


def connect_until_refused(daemon, user):
    clients = []
    with contextlib.suppress(RpcError, ConnectionError):
        while len(clients) < 100:
            clients.append(daemon.connect(user))
            clients[-1].call("tools.list")
    return clients


def test_connections(start_daemon, tenants):
    sections = "".join(f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nconnections = 8\n"
                       for name, user in zip("abc", tenants))
    daemon = start_daemon(config=f"[cloister]\nagent_socket_mode = 0666\nconnections = 16\n{sections}")
    held = [connect_until_refused(daemon, user) for user in tenants[:2]]
    assert [len(clients) for clients in held] == [8 + 1, 4 + 1]  # the last was refused
    other = daemon.connect(tenants[2])
    other.call("workspace.open", {"workspace": "w"})
    assert other.run("echo here")["stdout"] == "here\n"


def call_until_refused(daemon, user, command, options):
    """Begins calls, of which none ends, on several connections until one is refused. Returns the clients, the number of
    calls that were admitted, and the refusal; None: the tenant has as many calls as its own limit allows."""
    clients, admitted = [], 0
    for _ in range(4):
        clients.append(client := daemon.connect(user))
        client.call("workspace.open", {"workspace": "w", "tenant": "greedy0"})
        begun = [client.begin("run_command", {"command": command}, options) for _ in range(256)]
        client.call("tools.list")  # all of them have been looked at
        if refused := [answer["result"]["error"] for answer in client.answers if answer["id"] in begun]:
            return clients, admitted + len(begun) - len(refused), refused[-1]
        admitted += len(begun)
    return clients, admitted, None


AUDITED = "audit = required\ncommands_per_cpu = 0\njournal = fast"


def test_the_room_that_the_audit_log_keeps(start_daemon, tenants):
    """Calls in flight reserve room in the log's queue for their ends. One tenant's leave some for another's."""
    daemon = start_daemon(config=config_of(*tenants[:2], host=AUDITED, limits="queue_length = 2000\nqueue_time = 1h"))
    clients, admitted, refused = call_until_refused(daemon, tenants[0], "sleep 600", {"timeout_ms": 3600000})
    other = daemon.connect(tenants[1])
    other.call("workspace.open", {"workspace": "w"})
    assert other.run("echo here")["stdout"] == "here\n"
    assert refused["code"] == "BUSY" and "audit log keeps room" in refused["message"], refused
    assert 256 <= admitted < 512, admitted
    del clients


def test_calls_that_joined_take_no_room_of_the_audit_log(start_daemon, tenants):
    """One command with a key, and as many calls as the tenant may have that wait for its result."""
    daemon = start_daemon(config=config_of(*tenants[:2], host=AUDITED))
    clients, admitted, refused = call_until_refused(
        daemon, tenants[0], "sleep 600", {"key": "k", "timeout_ms": 3600000})
    other = daemon.connect(tenants[1])
    other.call("workspace.open", {"workspace": "w"})
    assert other.run("echo here")["stdout"] == "here\n"
    assert (admitted, refused) == (1024, None)
    del clients


def few_tasks():
    """An eighth of the processes that the host can have."""
    return min(int(open(f"/proc/sys/kernel/{name}").read()) for name in ("pid_max", "threads-max")) // 8


def test_tasks_of_commands(start_daemon, tenants):
    """A command can start an eighth of all processes, and so can its workspace. One tenant has eight of them, and others find
    some all the same; what has to wait begins when another has ended."""
    daemon = start_daemon(config=config_of(*tenants[:2], host=f"commands_per_cpu = 0\nadmin_group = {tenants[1].gid}",
                                           limits=f"workspace_processes = {few_tasks()}\ncommand_processes = {few_tasks()}\n"
                                                  "queue_time = 10min"))
    client, other = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    calls = []
    for i in range(8):
        client.call("workspace.open", {"workspace": f"w{i}", "tenant": "greedy0"})
        calls.append(client.begin("run_command", {"command": "echo $$ >ran; sleep 600"}, {"timeout_ms": 900000}, f"w{i}"))

    def running():
        return [i for i in range(8) if client.observe("list_directory", {"path": "."}, None, f"w{i}")["output"]["count"]]
    assert procfs.eventually(running)
    other.call("workspace.open", {"workspace": "w"})
    assert other.run("echo here")["stdout"] == "here\n"
    begun = running()
    assert 1 <= len(begun) <= 4, begun
    # A second command of such a workspace has room already.
    assert client.observe("run_command", {"command": "echo here"}, None, f"w{begun[0]}")["success"]
    client.cancel(calls[begun[0]])
    assert procfs.eventually(lambda: set(running()) > set(begun), 60)
