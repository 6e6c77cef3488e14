# SPDX-License-Identifier: Apache-2.0
"""What a hostile reading of the source found, one test a finding: each fails on the source as it was."""

import fcntl
import json
import os
import resource
import signal

import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT

MIB = 1 << 20
needs_root = pytest.mark.skipif(not AM_ROOT, reason="needs root to look into a process that is not dumpable")


def test_what_a_launcher_ignored_and_blocked_is_forgotten(start_daemon):
    def hostile_launcher():
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1})

    daemon = start_daemon(preexec_fn=hostile_launcher)
    client = daemon.connect()
    path = daemon.new_workspace(client)
    output = client.run("grep -E 'SigBlk|SigIgn' /proc/self/status")
    assert output["stdout"] == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
    call = client.begin("run_command", {"command": "touch begun; exec sleep 600"})
    assert procfs.eventually((path / "begun").exists)
    assert client.cancel(call)
    assert client.wait(call)["result"]["output"]["signal"] == "SIGTERM", "only SIGKILL ended it"
    daemon.process.terminate()
    assert daemon.process.wait(120) == 0


@needs_root
def test_what_a_launcher_left_open_is_closed(start_daemon):
    ends = os.pipe()
    high = fcntl.fcntl(ends[0], fcntl.F_DUPFD, 50)
    left = os.readlink(f"/proc/self/fd/{high}")
    try:
        daemon = start_daemon(pass_fds=(high,))
    finally:
        for fd in (*ends, high):
            os.close(fd)
    assert left not in procfs.fds(daemon.pid).values()
    assert left not in procfs.fds(daemon.spawner()).values()


@pytest.mark.parametrize("number", ['"a/b"', '"a\\"b"', '"\\u00e4\\u2028"', "-7", '"\\/"'])
def test_every_id_can_be_cancelled(daemon, number):
    client = daemon.connect()
    daemon.new_workspace(client)
    client.send_raw(b'{"jsonrpc":"2.0","id":%s,"method":"tool.call","params":{"tool":"run_command",'
                    b'"arguments":{"command":"sleep 60"}}}\n' % number.encode())
    client.send_raw(b'{"jsonrpc":"2.0","id":"cancel","method":"tool.cancel","params":{"id":%s}}\n' % number.encode())
    answers = [client.receive(), client.receive()]
    by_id = {answer["id"]: answer["result"] for answer in answers}
    assert by_id["cancel"] == {"cancelled": True}
    assert by_id[json.loads(number)]["error"]["code"] == "CANCELLED"


def test_a_workspace_that_is_removed_is_not_opened_meanwhile(daemon):
    client, other = daemon.connect(), daemon.connect()
    for _ in range(20):
        client.call("workspace.open", {"workspace": "contested"})
        client.use("write_file", path="a", content="x")
        client.request("workspace.remove", {"workspace": "contested"}, number="remove")
        other.request("workspace.open", {"workspace": "contested"}, number="open")
        opened = other.wait("open")
        removed = client.wait("remove")
        if "result" in opened and "result" in removed:
            # It was made anew: it must be a whole workspace.
            assert other.use("write_file", path="b", content="y")["created"] is True
        if "result" in opened:
            other.call("workspace.close", {})


def test_a_terminal_s_interrupt_ends_everything_in_order(start_daemon):
    daemon = start_daemon(start_new_session=True)
    client = daemon.connect()
    path = daemon.new_workspace(client)
    call = client.begin("run_command", {"command": "trap 'exit 3' TERM; touch begun; sleep 60 & wait"})
    assert procfs.eventually((path / "begun").exists)
    os.killpg(daemon.pid, signal.SIGINT)
    result = client.wait(call)["result"]
    assert result["error"]["code"] == "SHUTTING_DOWN"
    assert result["output"]["ended_by"] == "shutdown"
    assert result["output"]["exit_code"] == 3
    assert daemon.process.wait(120) == 0


def test_a_lost_spawner_is_a_failure_to_the_service_manager(own_daemon):
    with acting_as(own_daemon.account.uid):
        os.kill(own_daemon.spawner(), signal.SIGKILL)
    assert own_daemon.process.wait(120) == 1


def test_a_stuck_spawner_does_not_keep_the_daemon(own_daemon):
    with acting_as(own_daemon.account.uid):
        os.kill(own_daemon.spawner(), signal.SIGSTOP)
    own_daemon.process.terminate()
    own_daemon.process.wait(120)


def test_many_descriptors_in_flight_do_not_end_the_service(start_daemon):
    """In user mode a command counts in the same sum as cloisterd, unix(7) on ETOOMANYREFS."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))

    daemon = start_daemon(preexec_fn=few)
    client, other = daemon.connect(), daemon.connect()
    path = daemon.new_workspace(client)
    (path / "fly.py").write_text("""
import array, socket, time
pairs, sent = [], 0
try:
    while sent < 6000:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        pairs.append(pair)
        for _ in range(4):
            pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
            sent += 250
except OSError as error:
    print(error)
open("flying", "w").close()
time.sleep(600)
""")
    call = client.begin("run_command", {"command": "/usr/bin/python3 fly.py", "timeout_ms": 300000})
    assert procfs.eventually((path / "flying").exists)
    for _ in range(3):
        daemon.new_workspace(other)
        assert other.run("echo well")["stdout"] == "well\n"
    assert client.cancel(call)
    client.wait(call)
    assert daemon.process.poll() is None


def test_openings_in_flight_are_limited(daemon):
    """While the spawner stands still none of them ends."""
    client, spawner = daemon.connect(), daemon.spawner()
    roots = [daemon.area.new_directory() for _ in range(4)]
    os.kill(spawner, signal.SIGSTOP)
    for i in range(600):
        client.request("workspace.open", {"root": str(roots[i % 4])}, number=i)
    first = client.receive_any()
    os.kill(spawner, signal.SIGCONT)
    answers = [first] + [client.receive_any() for _ in range(599)]
    assert {answer["id"] for answer in answers} == set(range(600))
    assert first["error"]["data"]["code"] == "BUSY"
    opened = [answer["id"] for answer in answers if "result" in answer]
    assert opened and all(answer["error"]["data"]["code"] == "BUSY" for answer in answers if "error" in answer)
    assert client.run("echo well")["stdout"] == "well\n"


def test_large_notifications_make_room_when_they_are_done(daemon):
    client = daemon.connect()
    path = daemon.new_workspace(client)
    for _ in range(6):
        client.notify("tool.call", {"tool": "write_file", "arguments": {"path": "f", "content": "x" * (15 * MIB)}})
    assert client.run("echo well")["stdout"] == "well\n"
    assert procfs.eventually((path / "f").exists)
