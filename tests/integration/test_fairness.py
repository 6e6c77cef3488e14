# SPDX-License-Identifier: Apache-2.0
"""Scheduling: limits, queues, weights, and a neighbour that floods cloisterd."""

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


WATCH = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd, n = libc.inotify_init(), 0
while True:
    os.mkdir(f"d{n}")
    if libc.inotify_add_watch(fd, f"d{n}".encode(), 2) < 0:
        break
    n += 1
print(n)
raise OSError(ctypes.get_errno(), "inotify watch limit reached")
"""


def test_the_watches_of_a_workspace_are_the_tenants(limited):
    _, client = limited(watches="200")
    seen = client.observe("run_command", {"command": f"mkdir x && cd x && python3 -c '{WATCH}'"})
    assert seen["output"]["stdout"] == "200\n" and "[Errno 28]" in seen["output"]["stderr"], seen
    assert "the workspace's 200 inotify watches" in str(seen["output"]["notes"]), seen
    assert client.run("cat /proc/sys/user/max_inotify_watches; echo 9 >/proc/sys/user/max_inotify_watches")["stdout"] == "200\n"
    _, client = limited()
    assert client.run("cat /proc/sys/user/max_inotify_watches")["stdout"] == "8192\n"


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
