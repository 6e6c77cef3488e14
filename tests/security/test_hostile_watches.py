# SPDX-License-Identifier: Apache-2.0
"""Peers on whose end of a connection or pipe so many wait that each system call at cloister's end, which wakes them, takes
long: the kernel walks the list of all waiters in the context of the caller.

Any process can put any number of watches of epoll(7) on one descriptor, with duplicates of it (dup(2)) and many epoll
instances. 100,000 of them cost 30 ms of CPU time a call, and 1,000,000 cost 300 ms. epoll(7), LIMIT_WAKE_COST_US
"""

import contextlib
import os
import resource
import select

import procfs
import pytest
from cloister_client import acting_as

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as other users")

WATCHES = 80_000  # on one descriptor
DUPLICATES = 400


@pytest.fixture(autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Watches:
    """As many watches of a descriptor, for the user who makes them."""

    def __init__(self, number, count=WATCHES):
        self.numbers = [os.dup(number) for _ in range(DUPLICATES)]
        self.polls = [select.epoll() for _ in range(count // DUPLICATES)]
        for poll in self.polls:
            for each in self.numbers:
                poll.register(each, select.EPOLLIN)

    def close(self):
        for poll in self.polls:
            poll.close()
        for each in self.numbers:
            os.close(each)


@pytest.fixture(name="daemon")
def daemon_fixture(start_daemon, account, tenants):
    config = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {account.name}\n"
    for name, user in zip("ab", tenants):
        config += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
    return start_daemon(config=config)


def metric(daemon, name):
    with daemon.control() as control:
        return int(control.call("metrics")["text"].split(f"\ncloister_{name} ")[1].split()[0])


def try_to_connect(daemon, user):
    """Returns what a new connection is told at once, or None if it is served."""
    with daemon.connect(user) as client:
        with contextlib.suppress(BrokenPipeError):
            client.request("tools.list")
        answer = client.receive_any()
        return answer["error"] if "error" in answer else None


def test_a_client_with_many_watches_is_ended(daemon, tenants):
    """Its connection is ended with the reason, and its user refused for a while. Others go on."""
    hostile = daemon.connect(tenants[0])
    hostile.call("tools.list")
    with acting_as(tenants[0].uid):
        watches = Watches(hostile.socket.fileno())
    answers = []
    with pytest.raises(ConnectionError):
        for _ in range(20):
            hostile.request("tools.list")
            answers.append(hostile.receive_any())
    assert len(answers) <= 3
    assert answers[-1]["error"]["data"]["code"] == "BUSY"
    assert "epoll" in answers[-1]["error"]["message"]
    watches.close()
    refused = try_to_connect(daemon, tenants[0])
    assert refused["data"]["code"] == "BUSY" and refused["data"]["retry_after_ms"] > 0
    assert try_to_connect(daemon, tenants[1]) is None
    assert daemon.log().count("too many waiters") == 1
    assert metric(daemon, 'tenant_dear_peers_total{tenant="a"}') == 1
    assert metric(daemon, 'refused_total{limit="dear_user"}') == 2


def test_a_stranger_with_many_watches_is_refused(daemon, tenants):
    """Any local user may connect. One that no tenant admits is told nothing."""
    hostile = daemon.connect(tenants[2])
    with acting_as(tenants[2].uid):
        watches = Watches(hostile.socket.fileno())
    for byte in b"{}\n":
        hostile.send_raw(bytes([byte]))
        assert procfs.eventually(lambda: hostile.unread() == 0, 60)
    assert procfs.eventually(lambda: "too many waiters" in daemon.log(), 60)
    watches.close()
    with daemon.connect(tenants[2]) as again:
        assert again.receive_line() is None
    assert try_to_connect(daemon, tenants[1]) is None
    assert metric(daemon, 'refused_total{limit="dear_user"}') == 1


# Makes as many watches of its standard output, and floods it. cloisterd's reads wake those who wait to write.
FLOOD = f"""
import os, select
numbers = [os.dup(1) for _ in range({DUPLICATES})]
polls = [select.epoll() for _ in range({WATCHES // DUPLICATES})]
for poll in polls:
    for each in numbers:
        poll.register(each, select.EPOLLIN)
open("ready", "w")
while True:
    os.write(1, bytes(65536))
"""


@pytest.mark.deep("slow")
def test_a_command_with_many_watches_is_ended(daemon, tenants):
    """Threads of its tenant read its output, but the CPU time is cloisterd's."""
    hostile = daemon.connect(tenants[0])
    hostile.call("workspace.open", {"workspace": "w"})
    victim = daemon.connect(tenants[1])
    victim.call("workspace.open", {"workspace": "w"})
    number = hostile.begin("run_command", {"command": f"exec python3 -c '{FLOOD}'", "timeout_ms": 60000}, {"stream": True})
    error = hostile.result(number, timeout=90)["error"]
    assert error["code"] == "WORKER_LOST" and "so many waiters" in error["message"], error
    assert metric(daemon, 'tenant_dear_peers_total{tenant="a"}') == 1
    assert victim.run("echo here")["stdout"] == "here\n"
    assert procfs.eventually(lambda: hostile.observe("run_command", {"command": "echo again"})["success"], 60)


# Makes as many watches of a connection to the DNS server inside, and asks there. Each answer of cloister-egress wakes them.
ASK = f"""
import os, select, socket, sys
server = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")][0]
client = socket.create_connection((server, 53))
question = bytes.fromhex("0001010000010000000000000268690474657374000001 0001".replace(" ", ""))
def ask():
    client.sendall(len(question).to_bytes(2, "big") + question)
    return client.recv(4096)
assert ask()
numbers = [os.dup(client.fileno()) for _ in range({DUPLICATES})]
polls = [select.epoll() for _ in range({WATCHES // DUPLICATES})]
for poll in polls:
    for each in numbers:
        poll.register(each, select.EPOLLIN)
answers = 0
try:
    while ask():
        answers += 1
except ConnectionError:
    pass
print(answers)
"""


@pytest.mark.deep("slow")
def test_a_workspace_with_many_watches_has_no_connections(start_daemon, area, tenants):
    """cloister-egress serves all tenants in one loop."""
    config = "[cloister]\nagent_socket_mode = 0666\n"
    for name, user in zip("ab", tenants):
        config += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nnetwork = egress\negress_allow = open.test\n"
    daemon = start_daemon(config=config, system=False)
    hostile, other = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    for client in hostile, other:
        client.call("workspace.open", {"workspace": "w"})
    observation = hostile.observe("run_command", {"command": f"exec python3 -c '{ASK}'", "timeout_ms": 60000}, timeout=90)
    assert int(observation["output"]["stdout"]) < 200, observation
    (denied,) = [each for each in observation["network"]["denied"] if each["reason"] == "limit"]
    assert denied["count"] == 1
    refused = "curl -s -o /dev/null -w %{http_code} http://no.test/"
    assert other.run(refused)["stdout"] == "403"
    assert hostile.observe("run_command", {"command": refused})["output"]["stdout"] == "000"
