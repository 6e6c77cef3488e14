# SPDX-License-Identifier: Apache-2.0
"""cloisterd with 256 MiB and the default limits, but without sessions, whose output takes up to 64 MiB more for each
tenant, as in a unit with MemoryMax=256M: a tenant sends and asks for what takes the most memory, all at once, and another
is answered throughout.

Where there is a memory controller, in the virtual machine of tests/vm/run, a cgroup holds it to that. Elsewhere the
kernel refuses what is asked for beyond it (RLIMIT_DATA), which is more than a cgroup would.
"""

import json
import os
import resource
import subprocess

import pytest

import procfs
from daemon import is_sanitized

MIB = 1 << 20
MEMORY = 288 * MIB
ADMIN = 64321  # a group id without a name
STACK = MIB  # stacks of cloisterd's threads, which RLIMIT_DATA counts in full

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root to make two tenants' users"),
    pytest.mark.skipif(is_sanitized(), reason="AddressSanitizer's memory is not cloisterd's"),
    pytest.mark.deep("busy")]


def limit_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def in_a_cgroup(start_daemon, delegation, config):
    assert "memory" in delegation.controllers()
    daemon = start_daemon(config=config, launcher=delegation.launcher())
    group = delegation.path / "supervisor"
    (group / "memory.max").write_text(str(MEMORY))

    def check():
        events = dict(line.split() for line in (group / "memory.events").read_text().splitlines())
        assert events["oom_kill"] == "0", events
    return daemon, check


def with_a_limit(start_daemon, config):
    daemon = start_daemon(config=config, preexec_fn=limit_stack)
    # For cloisterd alone, not for the processes that it has started.
    subprocess.run(["prlimit", f"--pid={daemon.pid}", f"--data={MEMORY}"], check=True, **daemon.account.as_user())
    return daemon, lambda: None


@pytest.fixture
def small(start_daemon, tenants, request):
    config = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {ADMIN}\naudit = on\n"
    for name, user in zip("ab", tenants):
        config += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nsessions = 0\n"
    if "CLOISTER_VM" in os.environ:
        daemon, check_limit = in_a_cgroup(start_daemon, request.getfixturevalue("delegation"), config)
    else:
        daemon, check_limit = with_a_limit(start_daemon, config)
    neighbour = daemon.connect(tenants[1])
    neighbour.call("workspace.open", {"workspace": "w"})
    neighbour.use("write_file", path="mine", content="x" * 4096)

    def check():
        assert neighbour.run("echo served")["stdout"] == "served\n"
        assert neighbour.use("read_file", path="mine")["content"].endswith("x" * 4096)
        neighbour.use("write_file", path="large", content="y" * 4 * MIB)
        largest = int(procfs.status(daemon.pid)["VmHWM"].split()[0]) << 10
        with daemon.control(groups=[ADMIN]) as control:
            bound = control.call("status")["memory_bound"]
        assert largest <= bound < MEMORY - 24 * MIB, (largest, bound)
        check_limit()
    daemon.check = check
    daemon.attacker = tenants[0]
    check()
    return daemon


def open_workspace(daemon, name):
    client = daemon.connect(daemon.attacker)
    client.call("workspace.open", {"workspace": name})
    return client


def line(head, filling, size, tail):
    return head + filling * ((size - len(head) - len(tail)) // len(filling)) + tail + b"\n"


CALL = b'{"jsonrpc":"2.0","id":1,"method":"tool.call","params":{'
WRITE = CALL + b'"tool":"write_file","arguments":{"path":"f","content":"'
FORM = CALL + b'"tool_call":{"function":{"name":"write_file","arguments":"{\\"path\\":\\"f\\",\\"content\\":\\"'
BASE64 = CALL + b'"tool":"write_file","options":{"encoding":"base64"},"arguments":{"path":"f","content":"'
NASTIES = {
    "escapes": (WRITE, rb"\u0078", b'"}}}'),
    "text": (WRITE, b"x", b'"}}}'),
    "base64": (BASE64, b"eHh4", b'"}}}'),
    "a-model's": (FORM, b"x", b'\\"}"}}}}'),
    "values": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[', b"{},", b"0]}}"),
    "depth": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":', b"[", b""),
    "a-name": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"', b"n", b'":0}}'),
    "a-method": (b'{"jsonrpc":"2.0","id":1,"params":{},"method":"', b"m", b'"}')}


@pytest.mark.parametrize("name", NASTIES)
def test_the_longest_lines(small, name):
    head, filling, tail = NASTIES[name]
    client = open_workspace(small, "w")
    # Arguments as a JSON string are one more copy.
    for size in (16 * MIB, 22 * MIB if name == "a-model's" else 32 * MIB):
        client.send_raw(line(head, filling, size, tail))
        answer = client.receive()
        assert "BUSY" not in json.dumps(answer)[:1000]
        small.check()


def test_lines_that_do_not_end(small):
    """As many unfinished lines as a tenant may have, also after many requests."""
    clients = [small.connect(small.attacker) for _ in range(60)]
    for client in clients:
        client.send_raw(line(b'{"jsonrpc":"2.0","id":1,"method":"', b"m", 4 * MIB, b'"}') + b"x" * 300000)
        client.receive()
        small.check()
    for client in clients:
        client.socket.setblocking(False)
        try:
            for _ in range(64):
                client.socket.send(b"y" * 65536)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
    small.check()


def test_a_process_that_reads_nothing_and_clients_that_read_nothing(small):
    reading = open_workspace(small, "w")
    reading.run("i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/urandom | base64 -w0 >f$i; i=$((i+1)); done")
    for _ in range(20):
        client = open_workspace(small, "w")
        for number in range(40):
            client.begin("read_file", {"path": f"f{number}"})
    small.check()
    stopped = open_workspace(small, "stopped")
    assert stopped.observe("list_directory", {"path": "."})["success"]
    _, files = small.cells()[-1]
    procfs.stop(files)
    for _ in range(20):
        client = open_workspace(small, "stopped")
        client.send_raw(line(WRITE, b"x", 8 * MIB, b'"}}}'))
        client.send_raw(line(FORM.replace(b'"id":1', b'"id":2'), b"x", 4 * MIB, b'\\"}"}}}}'))
        assert client.wait(client.request("tools.list", number="last"))["result"]
        small.check()
