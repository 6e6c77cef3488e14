# SPDX-License-Identifier: Apache-2.0
"""Scheduling: limits, queues, weights, and a neighbour that floods cloisterd."""

import json
import os
import pathlib
import re
import select
import signal
import socket
import threading

import pytest

import procfs
from cloister_client import Client
from daemon import is_sanitized

pytestmark = pytest.mark.deep("busy")

needs_users = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")

LONG = "sleep 1000"
ADMIN = 64321  # a gid; no group needs to have it


def config_for(users, host="commands_per_cpu = 0", **settings):
    """A configuration with tenants a, b and c for the users. A setting is one value for all tenants, or a tuple with one
    for each.

    With the default @host, the load of the host decides about no call."""
    text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {ADMIN}\n{host}\n"
    for i, user in enumerate(users):
        text += f"[tenant {'abc'[i]}]\nusers = {user.name}\nmanaged = yes\n"
        for key, value in settings.items():
            text += f"{key} = {value[i] if isinstance(value, tuple) else value}\n"
    return text


@pytest.fixture
def limited(start_daemon, account):
    """Starts a daemon with one tenant with these settings. Returns it and a client in a workspace."""
    def start(host="commands_per_cpu = 0", **settings):
        daemon = start_daemon(config=config_for([account], host, **settings))
        client = daemon.connect()
        client.call("workspace.open", {"workspace": "w"})
        return daemon, client
    return start


def admin(daemon):
    return daemon.control(groups=[ADMIN]) if os.getuid() == 0 else daemon.control()


def tenant(daemon, name="a"):
    with admin(daemon) as control:
        return next(t for t in control.call("tenants")["tenants"] if t["tenant"] == name)


def wait_for(daemon, name="a", **counts):
    def there():
        now = tenant(daemon, name)
        return all(now[key] == count for key, count in counts.items())
    assert procfs.eventually(there), tenant(daemon, name)


def metric(daemon, name):
    with admin(daemon) as control:
        for line in control.call("metrics")["text"].splitlines():
            if line.startswith(f"cloister_{name} "):
                return float(line.split()[-1])
    return None


def refused(daemon, limit):
    return metric(daemon, f'refused_total{{limit="{limit}"}}')


def begin(client, command, workspace=None):
    """Starts a command whose deadline is later than the test."""
    return client.begin("run_command", {"command": command, "timeout_ms": 600000}, None, workspace)


def check_busy(observation):
    assert observation["error"]["code"] == "BUSY", observation
    assert 50 <= observation["error"]["retry_after_ms"] <= 60000, observation


# Queues


def test_a_full_queue_says_when_to_come_again(limited):
    daemon, client = limited(commands=1, queue_length=3)
    # The estimate for a tenant comes from the duration of its own commands.
    client.run("sleep 0.4")
    first = begin(client, LONG)
    wait_for(daemon, commands=1, waiting=0)
    waiting = [begin(client, "true") for _ in range(3)]
    wait_for(daemon, commands=1, waiting=3)
    observation = client.observe("run_command", {"command": "true"})
    check_busy(observation)
    # The answer is half the time of three commands that took 0.4 s or a little more each.
    assert 600 <= observation["error"]["retry_after_ms"] < 30000
    assert "wait" in observation["error"]["message"]
    assert refused(daemon, "queue_length") == 1
    # Calls that take no turn are served meanwhile.
    client.use("write_file", path="f", content="x")
    assert client.use("read_file", path="f", options={"line_numbers": False})["content"] == "x"
    # Searches wait in the same queue.
    check_busy(client.observe("search_files", {"pattern": "x"}))
    assert client.cancel(first)
    assert [client.result(number)["success"] for number in waiting] == [True] * 3
    assert client.run("true")["exit_code"] == 0


def test_what_comes_at_once_is_not_refused_while_there_are_slots(limited):
    daemon, client = limited(commands=8, queue_length=2)
    numbers = [begin(client, LONG) for _ in range(11)]
    check_busy(client.result(numbers[-1]))
    wait_for(daemon, commands=8, waiting=2)
    for number in numbers[:-1]:
        client.cancel(number)
        assert client.result(number)["error"]["code"] == "CANCELLED"
    wait_for(daemon, commands=0, waiting=0, calls=0)


def test_a_call_waits_no_longer_than_its_tenant_allows(limited):
    daemon, client = limited(commands=1, queue_time="300ms")
    first = begin(client, LONG)
    wait_for(daemon, commands=1)
    observation = client.observe("run_command", {"command": "true"})
    check_busy(observation)
    assert "was not begun" in observation["error"]["message"]
    assert observation["usage"]["wall_us"] >= 300000
    assert refused(daemon, "queue_time") == 1
    # An earlier deadline counts from the arrival of the call, waiting included.
    observation = client.observe("run_command", {"command": "touch ran", "timeout_ms": 100})
    assert observation["error"]["code"] == "TIMEOUT" and "not begun" in observation["error"]["message"]
    assert observation["usage"]["wall_us"] >= 100000
    assert client.cancel(first)
    client.result(first)
    assert client.fail("read_file", path="ran")["code"] == "NOT_FOUND"


def test_waiting_calls_can_be_ended(limited):
    daemon, client = limited(commands=1)
    first = begin(client, LONG)
    wait_for(daemon, commands=1)
    cancelled, killed, kept = (begin(client, f"touch ran{i}") for i in range(3))
    wait_for(daemon, waiting=3)
    with daemon.connect() as leaver:
        leaver.call("workspace.open", {"workspace": "w"})
        begin(leaver, "touch ran-of-leaver")
        wait_for(daemon, waiting=4)
    wait_for(daemon, waiting=3)
    assert client.cancel(cancelled)
    assert client.result(cancelled)["error"]["code"] == "CANCELLED"
    with admin(daemon) as control:
        calls = control.call("commands")["calls"]
        assert [call["state"] for call in calls] == ["running", "waiting", "waiting"]
        control.call("kill", {"call": calls[1]["call"]})
    assert "administrator" in client.result(killed)["error"]["message"]
    client.cancel(first)
    client.result(first)
    assert client.result(kept)["success"]
    assert [entry["path"] for entry in client.use("list_directory", path=".")["entries"]] == ["ran2"]
    wait_for(daemon, commands=0, waiting=0, calls=0)


def test_a_workspace_at_its_limit_holds_up_no_other(limited):
    daemon, client = limited(commands=4, commands_per_workspace=1)
    first = begin(client, LONG)
    behind = [begin(client, LONG) for _ in range(3)]
    wait_for(daemon, commands=1, waiting=3)
    client.call("workspace.open", {"workspace": "v"})
    assert client.run("echo here")["stdout"] == "here\n"
    wait_for(daemon, commands=1, waiting=3)
    for number in [first, *behind]:
        client.cancel(number)
        client.result(number)


def test_a_reload_moves_the_limits_of_what_waits(limited, account):
    daemon, client = limited(commands=1)
    numbers = [begin(client, LONG) for _ in range(4)]
    wait_for(daemon, commands=1, waiting=3)
    assert daemon.reload(config_for([account], commands=3))
    wait_for(daemon, commands=3, waiting=1)
    assert daemon.reload(config_for([account], host="commands = 4", commands=64))
    wait_for(daemon, commands=4, waiting=0)
    # The new limit is below the number of running commands: these go on, and none begins.
    assert daemon.reload(config_for([account], host="commands = 2", commands=64))
    last = begin(client, "true")
    wait_for(daemon, commands=4, waiting=1)
    client.cancel(numbers[0])
    wait_for(daemon, commands=3, waiting=1)
    for number in numbers[1:]:
        client.cancel(number)
    assert client.result(last)["success"]


def test_what_waits_of_a_tenant_that_a_reload_removes_is_answered(start_daemon, account):
    daemon = start_daemon(config=config_for([account], commands=1))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    first, second = begin(client, LONG), begin(client, "true")
    wait_for(daemon, commands=1, waiting=1)
    assert daemon.reload(config_for([], "[tenant other]\nusers = 65533"))
    # A tenant of the same name again: calls from before and new calls share one limit.
    assert daemon.reload(config_for([account], commands=1))
    assert tenant(daemon)["commands"] == 1 and tenant(daemon)["waiting"] == 1
    third = begin(client, "true", workspace="w")
    wait_for(daemon, commands=1, waiting=2)
    with admin(daemon) as control:
        control.call("kill", {"call": control.call("commands")["calls"][0]["call"]})
    for number in (second, third):
        assert client.result(number)["success"]
    assert "administrator" in client.result(first)["error"]["message"]
    wait_for(daemon, commands=0, waiting=0)


# Tenants


@pytest.fixture
def neighbours(start_daemon, tenants):
    """Starts a daemon with two tenants with these settings. Returns it and a client in a workspace of each."""
    def start(host="commands_per_cpu = 0", **settings):
        daemon = start_daemon(config=config_for(tenants[:2], host, **settings))
        clients = [daemon.connect(user) for user in tenants[:2]]
        for client in clients:
            client.call("workspace.open", {"workspace": "w"})
        return daemon, *clients
    return start


def soft_limit(daemon):
    with admin(daemon) as control:
        status = control.call("status")
    assert status["commands_limit"] == 256 and status["commands_per_cpu"] == 1
    assert status["commands_soft_limit"] == os.sysconf("SC_NPROCESSORS_ONLN")
    return status["commands_soft_limit"]


def test_by_default_a_few_for_each_cpu(start_daemon, account):
    """With a configuration that does not name the key. A user alone has no such limit."""
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    daemon = start_daemon(config=config_for([account], host=""))
    with admin(daemon) as control:
        status = control.call("status")
    assert (status["commands_limit"], status["commands_per_cpu"], status["commands_soft_limit"]) == (256, 3, 3 * cpus)
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    numbers = [begin(client, "while :; do :; done") for _ in range(12 * cpus)]
    wait_for(daemon, calls=12 * cpus)
    assert procfs.eventually(lambda: tenant(daemon)["commands"] >= 3 * cpus)
    assert tenant(daemon)["waiting"] > 0
    for number in reversed(numbers):
        client.cancel(number)
    wait_for(daemon, commands=0, waiting=0)
    with start_daemon().control() as control:
        assert control.call("status")["commands_soft_limit"] is None


@pytest.mark.deep("slow")
@needs_users
def test_commands_that_sleep_hold_up_none(neighbours):
    daemon, a, b = neighbours("commands_per_cpu = 1")
    limit = soft_limit(daemon)
    numbers = [begin(a, LONG) for _ in range(limit + 3)]
    assert b.run("echo here")["stdout"] == "here\n"
    wait_for(daemon, "a", commands=limit + 3, waiting=0)
    for number in numbers:
        a.cancel(number)


@needs_users
def test_commands_that_compute_are_few_for_each_cpu(neighbours):
    daemon, a, b = neighbours("commands_per_cpu = 1")
    limit = soft_limit(daemon)
    numbers = [begin(a, "while :; do :; done") for _ in range(40)]
    wait_for(daemon, "a", calls=40)
    assert procfs.eventually(lambda: tenant(daemon, "a")["commands"] >= limit)
    # The other tenant's first command waits for none of them.
    assert b.run("echo here")["stdout"] == "here\n"
    now = tenant(daemon, "a")
    assert limit <= now["commands"] < 40 and now["waiting"] == 40 - now["commands"]
    for number in reversed(numbers):
        a.cancel(number)
    wait_for(daemon, "a", commands=0, waiting=0)
    # Without the limit all commands run at once.
    daemon, a, b = neighbours("commands_per_cpu = 0")
    with admin(daemon) as control:
        assert control.call("status")["commands_soft_limit"] is None
    numbers = [begin(a, "while :; do :; done") for _ in range(12)]
    wait_for(daemon, "a", commands=12, waiting=0)


def read(client):
    assert client.use("read_file", path="f", options={"line_numbers": False})["content"] == "mine"


@needs_users
def test_small_file_calls_wait_for_no_command(neighbours):
    daemon, a, b = neighbours("commands = 2")
    for client in (a, b):
        client.use("write_file", path="f", content="mine")
    numbers = [begin(a, LONG) for _ in range(20)]
    wait_for(daemon, "a", commands=2, waiting=18)
    waits = begin(b, "true")
    wait_for(daemon, "b", commands=0, waiting=1)
    for client in (a, b):
        read(client)
        client.use("write_file", path="g", content="x")
        client.use("list_directory", path=".")
    # The tenant without a running command is next, before eighteen calls that came earlier.
    a.cancel(numbers[0])
    assert b.result(waits)["success"]
    for number in numbers[1:]:
        a.cancel(number)


@needs_users
def test_jobs_wait_for_jobs_and_not_for_commands(neighbours):
    daemon, a, b = neighbours("commands = 1\nfile_jobs = 1")
    a.run("for i in $(seq 2000); do echo line $i > f$i; done", timeout_ms=60000)
    b.use("write_file", path="f", content="mine")
    numbers = [a.begin("search_files", {"pattern": "e [0-9]*7$"})
               for _ in range(40)]
    assert b.use("search_files", pattern="mine")["count"] == 1
    assert b.run("cat f")["stdout"] == "mine"
    # Some of the earlier calls are not answered yet; all of them will be.
    for number in numbers:
        assert a.result(number)["success"]
    wait_for(daemon, "a", file_jobs=0, waiting=0)


def keep_running(client, begun, stop):
    """Keeps more commands waiting than may run until all have ended. Each notes the host's clock when it begins."""
    asked = 0
    while asked < 40 or len(begun) < asked:
        if asked >= 40:
            answer = client.receive_any()
            assert answer["result"]["success"], answer
            begun.append(int(answer["result"]["output"]["stdout"]))
        if not stop.is_set():
            begin(client, "date +%s%N; sleep 0.1")
            asked += 1


@pytest.mark.deep("slow")
@needs_users
@pytest.mark.parametrize("weights", [(100, 300), (100, 100)])
def test_commands_run_in_proportion_to_weights(neighbours, weights):
    """Counts by the time when commands began, from the moment when both tenants ran, not by when answers arrived here."""
    _, *clients = neighbours("commands = 4", weight=weights)
    begun, stop = ([], []), threading.Event()
    crowd = [threading.Thread(target=keep_running, args=(client, times, stop)) for client, times in zip(clients, begun)]
    for thread in crowd:
        thread.start()
    try:
        assert procfs.eventually(lambda: all(len(times) >= 4 for times in begun) and len(begun[1]) >= 140, 120)
    finally:
        stop.set()
        for thread in crowd:
            thread.join()
    both = max(sorted(times)[3] for times in begun)
    last = [time for time in sorted(begun[1]) if time > both][119]
    of_a, of_b = (sum(both < time <= last for time in times) for times in begun)
    assert of_b / of_a == pytest.approx(weights[1] / weights[0], rel=0.2)


# Disk space and limits of files


def test_what_commands_may_write_is_the_tenants(limited):
    _, client = limited(tmp_size="3M", file_size="2M")
    assert client.run("df -B1 --output=size /tmp | tail -1")["stdout"].strip() == str(3 << 20)
    full = client.run("head -c 4000000 /dev/zero | split -b 1M - /tmp/x 2>&1; du -sm /tmp | cut -f1")
    assert "No space left" in full["stdout"] and full["stdout"].split()[-1] == "3"
    # A file of the workspace may not be one byte larger, and a command cannot raise the limit.
    fits = client.run("head -c 2097152 /dev/zero > fits && stat -c %s fits")
    assert fits["stdout"].strip() == str(2 << 20)
    over = client.run("ulimit -f unlimited; head -c 2097153 /dev/zero > over; echo $?; stat -c %s over")
    assert over["stdout"].split() == [str(128 + signal.SIGXFSZ), str(2 << 20)]
    assert "Operation not permitted" in over["stderr"] or "ulimit" in over["stderr"]


@pytest.mark.skipif(is_sanitized(), reason="sanitized programs, cloister's own too, need terabytes of addresses")
def test_the_data_of_a_process_is_the_tenants(limited):
    _, client = limited(process_data="256M")
    assert client.run("ulimit -Sd")["stdout"].split() == [str(256 << 10)]
    assert "MemoryError" in client.run("python3 -c 'bytes(300 << 20)'")["stderr"]
    # A soft limit.
    assert client.run("ulimit -d unlimited && python3 -c 'bytes(300 << 20)'")["exit_code"] == 0


def test_the_open_files_of_a_process_are_the_tenants(limited):
    _, client = limited(open_files="100")
    assert client.run("ulimit -Sn; ulimit -Hn")["stdout"].split() == ["100", "100"]
    assert client.run("ulimit -n 101")["exit_code"] != 0
    daemon, client = limited(open_files="1048576")
    limits = pathlib.Path(f"/proc/{daemon.pid}/limits").read_text()
    hard = int(re.search(r"Max open files +\d+ +(\d+)", limits)[1])
    assert client.run("ulimit -Hn; ulimit -Sd")["stdout"].split() == [str(min(hard // 4, 1 << 20)), "unlimited"]


@needs_users
def test_a_slow_removal_delays_no_other_tenant(neighbours):
    """The tenant's own files process removes a workspace, without a deadline. Another tenant's search does not wait for
    it."""
    daemon, a, b = neighbours("file_jobs = 1", queue_time="30s")
    a.call("workspace.open", {"workspace": "slow"})
    known = daemon.cells()
    a.call("workspace.open", {"workspace": "last"})
    assert a.observe("write_file", {"path": "a", "content": "b"})["success"]
    ((_, files),) = [cell for cell in daemon.cells() if cell not in known]
    os.kill(files, signal.SIGSTOP)
    try:
        removal = a.request("workspace.remove", {"workspace": "last"})
        found = b.observe("search_files", {"pattern": "x"})
        assert found["success"], found
    finally:
        os.kill(files, signal.SIGCONT)
    assert "error" not in a.wait(removal)


# Connections


@needs_users
def test_connections_of_one_user_are_limited(start_daemon, tenants):
    daemon = start_daemon(config=config_for(
        tenants[:2], "connections_per_user = 3", connections=10))
    mine = [daemon.connect(tenants[0]) for _ in range(3)]
    for client in mine[1:]:
        client.call("tools.list")
    # A connection that speaks only MCP counts too, whatever else failed on it.
    mine[0].wait(mine[0].request("workspace.open", {"workspace": "w", "protocol": "mcp"}))
    assert mine[0].wait(mine[0].request("tools.list"))["error"]["message"] == "There is no such method"
    told = daemon.connect(tenants[0]).receive()["error"]
    assert told["data"]["code"] == "BUSY" and "user" in told["message"]
    assert 50 <= told["data"]["retry_after_ms"] <= 60000
    assert refused(daemon, "user_connections") == 1
    # Connections of another tenant are not affected.
    daemon.connect(tenants[1]).call("tools.list")
    mine[0].close()

    def let_in():
        with daemon.connect(tenants[0]) as again:
            try:
                return again.call("tools.list")
            except (ConnectionError, BrokenPipeError):
                return None
    assert procfs.eventually(let_in)


# A neighbour that floods


FLOOD = [("run_command", {"command": "head -c 100000 /dev/zero | wc -c"}),
         ("search_files", {"pattern": "x.*y"}), ("read_file", {"path": "big"}),
         ("list_directory", {"path": ".", "recursive": True})]


def flood(daemon, user):
    """Sends all kinds of calls at once, on as many of 500 connections as cloisterd admits, and repeats each when it is
    answered."""
    poll, by_fd = select.epoll(), {}
    clients = [Client(daemon.socket, user.uid, user.gid) for _ in range(500)]
    for client in clients:
        try:
            client.call("workspace.open", {"workspace": "w"})
        except (OSError, AssertionError, KeyError, TypeError):
            continue  # the connection is over the limit
        for call in FLOOD:
            client.begin(*call)
        client.socket.setblocking(False)
        by_fd[client.socket.fileno()] = client
        poll.register(client.socket, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            try:
                for _ in range(by_fd[fd].socket.recv(1 << 20).count(b"\n")):
                    by_fd[fd].begin(*FLOOD[by_fd[fd].last_id % len(FLOOD)])
            except BlockingIOError:
                pass


@pytest.mark.deep("slow")
@needs_users
def test_a_neighbour_that_floods_takes_nothing_away(neighbours, tenants):
    daemon, a, b = neighbours("commands = 4\nfile_jobs = 4", queue_length=64)
    a.run("for i in $(seq 13000); do printf '%079d\\n' $i; done > big", timeout_ms=60000)
    b.use("write_file", path="f", content="mine")
    flooding = os.fork()
    if flooding == 0:
        try:
            flood(daemon, tenants[0])
        finally:
            os._exit(1)
    try:
        # Queues and connections stay full.
        assert procfs.eventually(lambda: refused(daemon, "queue_length") > 50, 60)
        assert procfs.eventually(
            lambda: refused(daemon, "tenant_connections") + refused(daemon, "user_connections") > 300, 60)
        for i in range(5):
            read(b)
            assert b.run(f"echo {i}")["stdout"] == f"{i}\n"
            assert b.use("search_files", pattern="mine")["count"] == 1
            b.use("write_file", path="g", content=str(i))
        with daemon.connect(tenants[1]) as second:
            second.call("workspace.open", {"workspace": "v"})
            assert second.run("echo $HOME")["exit_code"] == 0
        assert procfs.eventually(lambda: tenant(daemon, "a")["waiting"] >= 16, 60)
    finally:
        os.kill(flooding, signal.SIGKILL)
        os.waitpid(flooding, 0)
    # Queued calls end with their connections.
    wait_for(daemon, "a", commands=0, file_jobs=0, waiting=0, calls=0)


# Connecting


def test_a_burst_of_connections_finds_room_in_the_kernels_queue(own_daemon):
    most = int(open("/proc/sys/net/core/somaxconn").read())
    sockets = [socket.socket(socket.AF_UNIX) for _ in range(min(600, most - 100))]
    own_daemon.process.send_signal(signal.SIGSTOP)
    try:
        for one in sockets:
            one.setblocking(False)
            one.connect(str(own_daemon.socket))  # EAGAIN: the backlog is full, see listen(2)
    finally:
        own_daemon.process.send_signal(signal.SIGCONT)
        for one in sockets:
            one.close()
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        assert client.run("true")["exit_code"] == 0


# cloisterd's own time


@needs_users
def test_requests_take_turns_by_tenant(start_daemon, tenants):
    """Both tenants have sent their requests before cloisterd reads. A few small requests of one are not all handled after
    many large ones of the other. The audit log has the order."""
    connections, small = 100, 150
    text = config_for(tenants[:2], "audit = on\n", queue_length=1, commands=1, connections=connections + 10)
    daemon = start_daemon(config=text)
    victim = daemon.connect(tenants[1])
    victim.call("workspace.open", {"workspace": "w"})
    flood = [daemon.connect(tenants[0]) for _ in range(connections)]
    for client in flood:
        client.call("workspace.open", {"workspace": "w"})
    begin(flood[0], LONG)
    begin(flood[0], LONG)
    wait_for(daemon, commands=1, waiting=1)
    large = {"tool": "run_command", "arguments": {"command": "a " * 65000}}
    procfs.stop(daemon.pid)
    try:
        for client in flood:
            client.request("tool.call", large, number="large")
        victim.send_raw("".join(json.dumps({
            "jsonrpc": "2.0", "id": f"small {i}", "method": "tool.call",
            "params": {"tool": "read_file", "arguments": {"path": 7}}}) + "\n" for i in range(small)).encode())
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    for i in range(small):
        assert victim.result(f"small {i}")["error"]["code"] == "INVALID_ARGUMENTS"
    for client in flood:
        assert client.wait("large")["result"]["error"]["code"] == "BUSY"

    def refused_tenants():
        lines = (daemon.state / "audit" / "audit.log").read_bytes().splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [record["tenant"] for record in records if record["event"] == "call.refused"]
    # The writer thread may be later than the answers.
    assert procfs.eventually(lambda: len(refused_tenants()) == connections + small)
    order = refused_tenants()
    assert order.count("a") == connections and order.count("b") == small
    last = len(order) - 1 - order[::-1].index("b")
    assert order[:last].count("a") <= connections // 3, order
