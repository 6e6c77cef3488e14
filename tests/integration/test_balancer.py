# SPDX-License-Identifier: Apache-2.0
"""HAProxy with packaging/fleets/haproxy.cfg before the gates of two hosts, which answer as cloister-health@.service."""

import json
import os
import re
import shutil
import socket
import subprocess

import pytest

import procfs
from cloister_client import acting_as
from daemon import ROOT
from gates import Gates
from loopback import free_port, own_address
from npm import unavailable

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")


class Host:
    """A cloisterd with a gate for one tenant and its agent port."""

    def __init__(self, area, start_daemon, number, tenant, authority=None):
        with acting_as(0):
            place = area.new_directory(f"host{number}")
            os.chmod(place, 0o755)
        self.daemon = start_daemon(config=(
            f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {area.account.gid}\n"
            f"[tenant {'ab'[number]}]\nusers = {tenant.name}\nmanaged = yes\n"))
        with acting_as(0):
            self.gates = Gates(place, self.daemon, [tenant], authority)
        # What cloister-health.socket does, by socat.
        asks = f"{area.bin}/cloisterctl --socket {self.daemon.control_socket} health --agent-check"
        self.port = free_port()
        self.agent = subprocess.Popen(
            ["socat", "-U", f"TCP-LISTEN:{self.port},bind={own_address()},reuseaddr,fork", f"EXEC:{asks}"],
            **area.account.as_user())

    def stop(self):
        with acting_as(0):
            self.agent.terminate()
        self.agent.wait(120)
        self.gates.stop()


class Balancer:
    def __init__(self, place, hosts):
        self.hosts, self.port = hosts, free_port()
        text = (ROOT / "packaging/fleets/haproxy.cfg").read_text()
        text = text.replace("bind :7843", f"bind {own_address()}:{self.port}").replace("agent-inter 5s", "agent-inter 200ms")
        text = text.replace(" agent-port 7844", "")
        for name, host in zip("ab", hosts):
            text, count = re.subn(rf"server host-{name} .*", f"server host-{name} {own_address()}:{host.gates.ports['blue']} "
                                                             f"agent-addr {own_address()} agent-port {host.port}", text)
            assert count == 1
        (place / "haproxy.cfg").write_text(f"global\n    stats socket {place}/stats\n" + text)
        with open(place / "log", "wb") as log:
            self.process = subprocess.Popen(["haproxy", "-f", place / "haproxy.cfg"], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        self.place = place
        assert procfs.eventually(lambda: (place / "stats").exists() or self.process.poll() is not None)
        assert self.process.poll() is None, (place / "log").read_text()

    def states(self):
        """What HAProxy thinks of the hosts, and their weights."""
        with socket.socket(socket.AF_UNIX) as stats, acting_as(0):
            stats.connect(str(self.place / "stats"))
            stats.sendall(b"show stat\n")
            lines = stats.makefile().read().splitlines()
        names = lines[0].split(",")
        rows = [dict(zip(names, line.split(","))) for line in lines[1:]]
        return {row["svname"]: (row["status"], int(row["weight"])) for row in rows if row.get("svname", "").startswith("host-")}

    def open(self, name):
        """Opens the workspace over the balancer. Returns the tenant that the host calls us, or the error's code."""
        context = self.hosts[0].gates.context(self.hosts[0].gates.of("blue"))
        context.check_hostname = False  # the name in the handshake is the workspace's
        with socket.create_connection((own_address(), self.port), 60) as raw, \
                context.wrap_socket(raw, server_hostname=f"{name}.alice") as within:
            within.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "workspace.open",
                                       "params": {"workspace": name}}).encode() + b"\n")
            answer = json.loads(within.makefile().readline())
            return answer["result"]["tenant"] if "result" in answer else answer["error"]["data"]["code"]


@pytest.fixture
def balanced(area, start_daemon, tenants):
    if not all(map(shutil.which, ("stunnel4", "haproxy", "socat"))):
        unavailable("stunnel4, haproxy or socat is not installed")
    with acting_as(0):
        os.chmod(area.path, 0o755)
        place = area.new_directory("balancer")
    hosts = [Host(area, start_daemon, 0, tenants[0])]
    hosts.append(Host(area, start_daemon, 1, tenants[0], hosts[0].gates.authority))
    for host in hosts:  # the tenant's agents have one certificate for all hosts
        with acting_as(0):
            host.gates.agents("blue").write_text(hosts[0].gates.of("blue")[0].read_text())
        host.gates.started["blue"].reload()
    with acting_as(0):
        balancer = Balancer(place, hosts)
    yield balancer
    with acting_as(0):
        balancer.process.terminate()
    balancer.process.wait(120)
    for host in hosts:
        host.stop()


def becomes(balancer, name, status):
    assert procfs.eventually(lambda: balancer.states()[name][0].startswith(status)), balancer.states()


@pytest.mark.deep("slow")
def test_a_workspace_stays_on_its_host(balanced):
    for name in "host-a", "host-b":
        becomes(balanced, name, "UP")
    placed = {f"w{number}": balanced.open(f"w{number}") for number in range(8)}
    assert set(placed.values()) == {"a", "b"}  # the hosts call the tenant by different names
    assert {name: balanced.open(name) for name in placed} == placed
    # A drained host gets no new names, and answers for its old ones.
    assert balanced.hosts[0].daemon.ctl("drain").returncode == 0
    becomes(balanced, "host-a", "DRAIN")
    assert {balanced.open(f"new{number}") for number in range(4)} == {"b"}
    assert {balanced.open(name) for name, host in placed.items() if host == "a"} == {"SHUTTING_DOWN"}
    assert balanced.hosts[0].daemon.ctl("resume").returncode == 0
    becomes(balanced, "host-a", "UP")
    assert {name: balanced.open(name) for name in placed} == placed
    # An unhealthy one gets none either, and keeps its old ones.
    blocker = balanced.hosts[0].daemon.state / "workspaces" / ".selftest"
    blocker.write_text("")
    assert balanced.hosts[0].daemon.ctl("selftest").returncode == 1
    becomes(balanced, "host-a", "DOWN")
    assert {name: balanced.open(name) for name in placed} == placed
    assert {balanced.open(f"newer{number}") for number in range(4)} == {"b"}
    # A host that takes no connections loses its names.
    balanced.hosts[0].gates.stop()
    assert procfs.eventually(lambda: {balanced.open(name) for name in placed} == {"b"})


def test_without_a_name_no_host_is_asked(balanced):
    context = balanced.hosts[0].gates.context(balanced.hosts[0].gates.of("blue"))
    context.check_hostname = False
    with socket.create_connection((own_address(), balanced.port), 60) as raw:
        with pytest.raises(OSError):
            context.wrap_socket(raw)
