# SPDX-License-Identifier: Apache-2.0
"""network_namespace = shared: the cells of one tenant, and of no other, are in one network namespace."""

import os
import signal

import procfs
import pytest
from cloister_client import RpcError, acting_as
from sharing import config, namespace_of, opened, starter
from test_forward import refusal
from test_ports import LISTEN, listed, python, start, until

NAMESPACE = "readlink /proc/self/ns/net"
CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print('connected')"


@pytest.fixture(params=["user", "system"])
def begin(start_daemon, area, request):
    return starter(start_daemon, area, request.param)


def kept(service):
    """The network namespaces of which the spawner has a descriptor."""
    with acting_as(os.getuid()):
        pid = service.spawner()
        return sorted(link for link in procfs.fds(pid).values() if link.startswith("net:")), procfs.namespace(pid, "net")


@pytest.mark.parametrize("spares", [0, 2])
def test_cells_of_a_tenant_share_one_and_no_other_does(begin, spares):
    service = begin(spares=spares)
    before = kept(service)
    assert before == ([], os.readlink("/proc/self/ns/net"))
    seen = {}
    for i, tenant in enumerate("abcabcabc"):
        client, said = opened(service, tenant, f"w{i}")
        assert said == ("own" if tenant == "c" else "shared")
        seen.setdefault(tenant, []).append(namespace_of(client))
        if spares:
            assert procfs.eventually(lambda: service.spares_ready() == spares)
    assert len(set(seen["a"])) == len(set(seen["b"])) == 1 and len(set(seen["c"])) == 3, seen
    names = {name for names in seen.values() for name in names}
    assert len(names) == 5 and os.readlink("/proc/self/ns/net") not in names
    spaces, home = kept(service)
    assert home not in names and set(spaces) == {home, seen["a"][0], seen["b"][0]} and len(spaces) == 3
    # Worker and files process are where commands are.
    with acting_as(os.getuid()):
        for worker, files in service.cells():
            assert procfs.namespace(worker, "net") == procfs.namespace(files, "net") in names


def test_a_spare_cell_is_used_by_its_tenant(begin):
    """Those that are made for a tenant that shares are in its namespace, and are quick for it alone."""
    service = begin(spares=1)
    for tenant, name in (("a", "w"), ("b", "w")):
        opened(service, tenant, name)[0].run("true")
        assert procfs.eventually(lambda: service.spares_ready() == 1)
        used = spares_used(service)
        client, _ = opened(service, tenant, "other")
        assert client.run("echo ok")["stdout"] == "ok\n"
        assert spares_used(service) == used + 1
        assert procfs.eventually(lambda: service.spares_ready() == 1)


def spares_used(service):
    with service.control() as control:
        text = control.call("metrics")["text"]
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("cloister_spare_cells_used_total ")))


def test_it_is_freed_with_the_tenants_last_cell(begin):
    """There are as many as tenants that have cells in one. The spawner's own is made with the first, and stays."""
    service = begin()
    clients = [opened(service, tenant, name)[0] for tenant in "ab" for name in ("v", "w")]
    namespaces = [namespace_of(client) for client in clients]
    spaces, home = kept(service)
    assert set(spaces) == {home, *namespaces} and len(spaces) == 3
    for i, left in enumerate(([home, *namespaces[1:]], [home, *namespaces[2:]], [home, namespaces[3]], [home])):
        clients[i].close()
        assert procfs.eventually(lambda left=left: kept(service)[0] == sorted(set(left)))
        if len(set(left)) == 3:
            assert namespace_of(clients[1]) == namespaces[1]
    client, _ = opened(service, "a", "v")
    assert namespace_of(client) != home and client.run("echo ok")["stdout"] == "ok\n"
    assert len(kept(service)[0]) == 2


def test_the_loopback_interface_works_and_is_shared(begin):
    """What the key costs: a port of one workspace is one of all that the tenant has, and of no other tenant's."""
    service = begin(own="", shared="ab")
    first, second, other = (opened(service, tenant, name)[0] for tenant, name in (("a", "v"), ("a", "w"), ("b", "w")))
    start(first, python(LISTEN, "127.0.0.1", 5001))
    assert procfs.eventually(lambda: first.run(python(CONNECT, 5001))["exit_code"] == 0)
    assert second.run(python(CONNECT, 5001))["stdout"] == "connected\n"
    assert "ConnectionRefusedError" in other.run(python(CONNECT, 5001))["stderr"]
    assert second.run("cat /proc/net/dev | grep -c :")["stdout"] == "1\n"


def test_ports_are_not_told(begin):
    """The kernel says only that a port listens in the namespace, not in which workspace. So nobody is told of one."""
    service = begin()
    first, second = (opened(service, "a", name)[0] for name in "vw")
    session = start(first, python(LISTEN, "127.0.0.1", 5001))
    assert procfs.eventually(lambda: first.run(python(CONNECT, 5001))["exit_code"] == 0)
    quiet = start(second, "sleep 600")
    for client, one in ((first, session), (second, quiet)):
        assert listed(client, one) is None
        with pytest.raises(RpcError) as caught:
            until(client, one, 5001)
        assert caught.value.name == "EXECUTION_ERROR" and "shares its network namespace" in caught.value.message
        said = refusal(client, 5001)
        assert said.name == "FORBIDDEN" and "network_namespace = own" in said.message
    # A workspace of a tenant that has one for each is told as before.
    alone, _ = opened(service, "c", "w")
    session = start(alone, python(LISTEN, "127.0.0.1", 5001))
    assert procfs.eventually(lambda: listed(alone, session) == [5001])


def test_a_try_to_reach_the_network_is_not_blamed_on_another(begin):
    """The kernel counts such tries for the namespace; in one of its own they are a workspace's."""
    service = begin()
    tries = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('192.0.2.1', 9))"
    shared, alone = opened(service, "a", "w")[0], opened(service, "c", "w")[0]
    told = [client.call("tool.call", {"tool": "run_command", "arguments": {"command": python(tries)},
                                      "options": {"reply": "message"}})["content"] for client in (shared, alone)]
    note = "[no network in this workspace"
    assert "Network is unreachable" in told[0] and note not in told[0] and note in told[1]


def test_a_reload_counts_from_the_next_cell(begin):
    service = begin(own="", shared="a")
    first, second = (opened(service, "a", name)[0] for name in "vw")
    shared = namespace_of(first)
    assert namespace_of(second) == shared
    text = service.config.read_text()
    assert service.reload(text.replace("= shared", "= own"))
    # Its cell is where it was, and what listens there is not known to be its own.
    assert namespace_of(first) == shared
    assert first.call("workspace.open", {"workspace": "v"})["isolation"]["network_namespace"] == "shared"
    assert refusal(first, 5001).name == "FORBIDDEN"
    first.call("workspace.checkpoint", {})
    assert namespace_of(first) not in (shared, os.readlink("/proc/self/ns/net"))
    assert first.call("workspace.open", {"workspace": "v"})["isolation"]["network_namespace"] == "own"
    assert refusal(first, 5001).name == "NOT_FOUND"
    assert namespace_of(second) == shared
    assert service.reload(text)
    first.call("workspace.checkpoint", {})
    assert namespace_of(first) == shared


def test_a_new_files_process_joins_it(begin):
    service = begin()
    clients = [opened(service, "a", name)[0] for name in "vw"]
    shared = namespace_of(clients[0])
    clients[1].run("echo kept > file")
    for worker, files in service.cells():
        with acting_as(os.getuid()):
            os.kill(files, signal.SIGKILL)
        assert procfs.vanish([files])
    for client in clients:
        client.use("write_file", path="new", content="x")
    with acting_as(os.getuid()):
        assert {procfs.namespace(pid, "net") for cell in service.cells() for pid in cell} == {shared}


@pytest.mark.deep("slow")
def test_a_younger_generation_makes_its_own(begin, start_daemon):
    first = begin()
    client, _ = opened(first, "a", "v")
    old = namespace_of(client)
    number = client.request("tool.call", {"tool": "run_command", "arguments": {"command": f"{NAMESPACE}; sleep 5; {NAMESPACE}"}})
    with first.control() as control:
        assert procfs.eventually(lambda: control.call("status")["commands_running"] == 1)
    second = start_daemon(config=first.config.read_text(), system=first.system, former=first)
    younger, said = opened(second, "a", "w")
    new = namespace_of(younger)
    assert said == "shared" and new != old
    # What the elder still runs stays in the elder's, which nobody else has.
    assert client.wait(number)["result"]["output"]["stdout"].split() == [old, old]
    assert namespace_of(younger) == new


def test_what_cannot_be_with_it_is_a_mistake_in_the_configuration(begin, area):
    for line, said in (("network = egress", "network = none only"), ("forward_ports = 3000-4000", "forward_ports = none")):
        path = area.new_directory("config") / "c.conf"
        path.write_text(config(area, "user", a=[line]))
        answer = area.run("cloisterd", "--config", str(path), "--check")
        assert answer.returncode != 0 and said in answer.stderr.decode(), answer
