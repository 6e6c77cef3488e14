# SPDX-License-Identifier: Apache-2.0
"""Workspaces with network = egress, from the configuration to the observation, where the test is cloister-egress."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import threading

import procfs
import pytest
import scripted_egress
from cloister_client import RpcError, acting_as
from daemon import AM_ROOT
from egress_place import Place, egress_filter, mode, place
from scripted_egress import call_ended, closed, denied
from wire import text

PORT = 18129  # DEFAULT_EGRESS_PORT


@pytest.fixture
def user_place(start_daemon, area):
    return Place(start_daemon, area, "user")


def opened(client, egress, name, tenant="net", **params):
    """Opens a managed workspace; its cell as cloister-egress got it, and the answer."""
    answer = client.call("workspace.open", {"workspace": name, "tenant": tenant, **params})
    number, _ = egress.hear_until(scripted_egress.OPEN)
    return egress.cells[number], answer


def finish(client, egress, number, cell, *sums):
    """Lets a command come to its end, and returns its observation."""
    _, payload = egress.hear_until(scripted_egress.CALL_END)
    egress.say(scripted_egress.CALL_ENDED, cell.number, payload + call_ended(0, *sums)[8:])
    return client.result(number)


def begin(client, egress, cell, command, **keywords):
    """Begins a command; the numbers of the request and of the call, and the call's address."""
    known = set(cell.calls)
    number = client.begin("run_command", {"command": command}, **keywords)
    while not set(cell.calls) - known:
        egress.hear()
    (call,) = set(cell.calls) - known
    return number, call, cell.calls[call]


def test_a_cell_from_its_opening_to_its_end(place):
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        cell, answer = opened(client, egress, "one")
        assert answer["isolation"]["network"] == {"egress": ["open.test", "*.sub.test:8443"]}
        assert (cell.tenant, cell.workspace, cell.is_narrowed, cell.allow) == ("net", "one", False, "")
        assert cell.listener.getsockname() == ("0.0.0.0", PORT)
        if place.daemon.system:  # cloister-egress knows by the owner whose socket it is
            first = place.area.account.first
            assert first < os.fstat(cell.listener.fileno()).st_uid < first + 1000
        number, call, address = begin(client, egress, cell, "exit 3")
        observation = finish(client, egress, number, cell, 2, 0, 70, 7)
        assert observation["network"] == {"connections": 2, "bytes_in": 70, "bytes_out": 7, "denied": []}
        assert "notes" not in observation
        client.call("workspace.close", {"workspace": "one"})
        assert egress.hear_until(scripted_egress.CLOSE)[0] == cell.number


@pytest.mark.skipif(not AM_ROOT, reason="needs root to kill a workspace's processes")
def test_a_cell_that_dies(place):
    """Its network ends with it, and not when the next cell is made."""
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        number, *_ = begin(client, egress, cell, "sleep 1000")
        ((worker, _),) = place.daemon.cells()
        with acting_as(os.getuid()):
            os.kill(worker, signal.SIGKILL)
        assert egress.hear_until(scripted_egress.CLOSE)[0] == cell.number
        assert client.result(number)["error"]["code"] == "WORKER_LOST"
        number = client.begin("run_command", {"command": "true"})
        again, _ = egress.hear_until(scripted_egress.OPEN)
        assert again != cell.number
        finish(client, egress, number, egress.cells[again])


def test_a_tenant_without_a_network(place):
    """Nothing is made for one, and nothing is said about it."""
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        answer = client.call("workspace.open", {"workspace": "none", "tenant": "plain", "network": {"allow": ["a.test"]}})
        assert answer["isolation"]["network"] == "none"
        observation = client.observe("run_command", {"command": "env; cat /proc/net/tcp"})
        assert "network" not in observation and "proxy" not in observation["output"]["stdout"].lower()
        assert observation["output"]["stdout"].count("\n   0: ") == 0  # no socket listens
        opened(client, egress, "other")
        assert egress.said == [scripted_egress.OPEN]


def test_a_refusal_is_told_in_the_answer_to_its_call(place):
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        number, call, address = begin(client, egress, cell, "curl -s https://no.test/")
        connection, _ = cell.listener.accept()
        assert connection.getsockname() == (address, PORT)
        assert connection.recv(1000).startswith(b"CONNECT no.test:443 ")
        egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
        egress.say(scripted_egress.CLOSED, cell.number, closed(call, "open.test", came=5, went=6))
        connection.sendall(b"HTTP/1.1 403 no\r\n\r\n")
        connection.close()
        observation = finish(client, egress, number, cell, 1, 1, 5, 6)
        assert observation["network"] == {"connections": 1, "bytes_in": 5, "bytes_out": 6, "denied": [
            {"host": "no.test", "port": 443, "reason": "not_allowed", "count": 1, "via": "connect"}]}
        assert observation["notes"] == [
            "no.test:443 is not allowed in this workspace; allowed are: open.test *.sub.test:8443"]


def test_the_audit_log_has_each_host_once(start_daemon, area):
    place = Place(start_daemon, area, "user", host="audit = on")
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        number, call, _ = begin(client, egress, cell, "false")
        for _ in range(3):
            egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
            egress.say(scripted_egress.CLOSED, cell.number, closed(call, "open.test", came=5, went=6))
        finish(client, egress, number, cell, 3, 3, 15, 18)
    assert place.daemon.stop() == 0
    with acting_as(area.account.uid, area.account.gid):
        lines = [json.loads(line) for line in (place.daemon.state / "audit" / "audit.log").read_text().splitlines()]
    of_call = [line for line in lines if line["event"].startswith(("network.", "call."))]
    assert [line["event"] for line in of_call] == ["call.admitted", "network.denied", "network.closed", "call.ended"]
    assert len({line["call"] for line in of_call}) == 1
    refused, reached = of_call[1:3]
    assert (refused["host"], refused["port"], refused["reason"], refused["count"]) == ("no.test", 443, "not_allowed", 3)
    assert (reached["host"], reached["connections"], reached["bytes_in"], reached["bytes_out"]) == ("open.test", 3, 15, 18)


def test_nothing_is_hidden_behind_the_bound_of_the_audit_log(start_daemon, area):
    """A program that first fills the lines of its call with hosts of no interest: the sums of all others are there."""
    kinds = 32  # LIMIT_NETWORK_DENIALS
    place = Place(start_daemon, area, "user", host="audit = on")
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        for beyond in (0, 3):
            number, call, _ = begin(client, egress, cell, "false")
            for i in range(kinds + beyond):
                egress.say(scripted_egress.DENIED, cell.number, denied(call, f"no{i}.test"))
                egress.say(scripted_egress.CLOSED, cell.number, closed(call, f"h{i}.sub.test", came=5, went=60 + i))
            egress.say(scripted_egress.CLOSED, cell.number, closed(call, "h0.sub.test", came=1, went=1))
            went = sum(60 + i for i in range(kinds + beyond)) + 1
            finish(client, egress, number, cell, kinds + beyond + 1, kinds + beyond, (kinds + beyond) * 5 + 1, went)
    assert place.daemon.stop() == 0
    with acting_as(area.account.uid, area.account.gid):
        lines = [json.loads(line) for line in (place.daemon.state / "audit" / "audit.log").read_text().splitlines()]
    refused = [line for line in lines if line["event"] == "network.denied"]
    reached = [line for line in lines if line["event"] == "network.closed"]
    assert len(refused) == len(reached) == 2 * kinds + 1  # none where there is nothing to hide
    assert (refused[-1]["host"], refused[-1]["reason"], refused[-1]["count"]) == (None, None, 3)
    assert (reached[-1]["host"], reached[-1]["connections"], reached[-1]["bytes_in"], reached[-1]["bytes_out"]) == \
        (None, 3, 15, sum(60 + kinds + i for i in range(3)))


def test_denials(user_place):
    """The recent refusals of each tenant: one line for what is the same, the oldest first."""
    daemon = user_place.daemon
    with daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        assert json.loads(daemon.ctl("--json", "denials").stdout) == {"denials": []}
        number, call, _ = begin(client, egress, cell, "read line", options={"stdin_stream": True})
        with daemon.control() as control:
            shown = control.call("commands")["calls"][0]["call"]

        def listed(*words):
            return json.loads(daemon.ctl("--json", "denials", *words).stdout)["denials"]

        for _ in range(3):
            egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
        egress.say(scripted_egress.DENIED, cell.number, denied(0, "2001:db8::1", port=80, via=scripted_egress.VIA_HTTP))
        assert procfs.eventually(lambda: len(listed()) == 2)
        first, second = listed()
        assert first.pop("time_ms") > 1e12 and first.pop("age_ms") >= 0
        assert first == {"tenant": "net", "workspace": "one", "call": shown, "host": "no.test", "port": 443,
                         "reason": "not_allowed", "via": "connect", "count": 3}
        assert (second["call"], second["host"], second["port"], second["count"]) == (None, "2001:db8::1", 80, 1)
        table = daemon.ctl("denials").stdout.decode().splitlines()
        assert table[0].split() == ["HOST:PORT", "REASON", "COUNT", "TENANT", "WORKSPACE", "CALL", "AGO"]
        assert table[1].split()[:6] == ["no.test:443", "not_allowed", "3", "net", "one", shown]
        assert table[2].split()[:6] == ["[2001:db8::1]:80", "not_allowed", "1", "net", "one", "-"]
        # A reload keeps them; a tenant sees its own.
        assert daemon.ctl("reload").returncode == 0
        assert len(listed("--tenant", "net")) == 2 and listed("--tenant=plain") == []
        none = daemon.ctl("denials", "--tenant=nobody")
        assert none.returncode == 1 and b"no tenant of this name" in none.stderr
        client.call("tool.input", {"id": number, "data": "", "eof": True})
        finish(client, egress, number, cell)


def test_denials_as_they_come(user_place):
    daemon = user_place.daemon
    with daemon.connect() as client, contextlib.closing(user_place.egress()) as egress, contextlib.ExitStack() as stack:
        cell, _ = opened(client, egress, "one")
        number, call, _ = begin(client, egress, cell, "read line", options={"stdin_stream": True})
        egress.say(scripted_egress.DENIED, cell.number, denied(call, "before.test"))
        readers = [daemon.area.start(["cloisterctl", "--socket", daemon.control_socket, *words], stdout=subprocess.PIPE)
                   for words in (["denials", "-f"], ["denials", "--follow", "--json", "--tenant=net"], ["denials", "-f", "--tenant=plain"])]
        stack.callback(lambda: [reader.kill() for reader in readers])
        with daemon.control() as control:
            assert procfs.eventually(lambda: control.call("status")["control_connections"] == 4)

            def is_told():  # until each of them has subscribed
                egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
                return len(select.select([readers[0].stdout, readers[1].stdout], [], [], 0.05)[0]) == 2
            assert procfs.eventually(is_told)
        line = readers[0].stdout.readline().decode().split()
        assert line[:4] == ["no.test:443", "not_allowed", "net", "one"] and len(line) == 7
        event = json.loads(readers[1].stdout.readline())
        assert (event["event"], event["host"], event["port"], event["tenant"]) == ("network_denied", "no.test", 443, "net")
        egress.close()  # proxy_lost is of no host
        client.call("tool.input", {"id": number, "data": "", "eof": True})
        client.result(number)
        assert daemon.stop() == 0
        others = [reader.communicate(timeout=60) for reader in readers]
        assert b"proxy_lost" not in others[0][0] + others[1][0]
        assert others[2][0] == b""


def test_parallel_calls_have_their_own_refusals(user_place):
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        running = [begin(client, egress, cell, "read line; false", options={"stdin_stream": True}) for _ in range(8)]
        assert len({address for _, _, address in running}) == 8
        for number, call, _ in running:
            egress.say(scripted_egress.DENIED, cell.number, denied(call, f"{number}.test"))
        for number, *_ in running:
            client.call("tool.input", {"id": number, "data": "", "eof": True})
            network = finish(client, egress, number, cell, 0, 1)["network"]
            assert [refused["host"] for refused in network["denied"]] == [f"{number}.test"]


def test_cloister_egress_that_comes_again_gets_everything_again(place):
    with place.daemon.connect() as client:
        egress = place.egress()
        cell, _ = opened(client, egress, "one")
        number, call, address = begin(client, egress, cell, "read line; curl -s http://open.test/", options={"stdin_stream": True})
        egress.close()
        assert procfs.eventually(lambda: "the connection to cloister-egress has ended" in place.daemon.log())
        with contextlib.closing(place.egress()) as again:
            again.hear_until(scripted_egress.CALL)
            (cell,) = again.cells.values()
            assert cell.calls == {call: address}
            client.call("tool.input", {"id": number, "data": "", "eof": True})
            connection, _ = cell.listener.accept()  # the listener is the one that there was
            assert connection.recv(1000).startswith(b"GET http://open.test/ ")
            connection.close()
            network = finish(client, again, number, cell)["network"]
            assert [refused["reason"] for refused in network["denied"]] == ["proxy_lost"]


@pytest.mark.parametrize("spares", [0, 1])
def test_a_cgroup_is_told_before_its_command_begins(delegation, start_daemon, area, spares):
    """So that no connection comes from a cgroup that cloister-egress does not know."""
    place = Place(start_daemon, area, "user", spares=spares, launcher=delegation.launcher())
    with place.daemon.connect() as client:
        egress = place.egress()
        if spares:
            opened(client, egress, "first")
            assert procfs.eventually(lambda: place.daemon.spares_ready() == 1)
        cell, _ = opened(client, egress, "one")
        assert cell.sockets & scripted_egress.DIAG and cell.all[-1].family == socket.AF_NETLINK
        running = [begin(client, egress, cell, "read line; cat /proc/self/cgroup", options={"stdin_stream": True})
                   for _ in range(2)]
        while 0 in cell.cgroups.values():
            egress.hear()
        inodes = {group.stat().st_ino for group in delegation.path.glob("ws-*/cmd-*")}
        assert set(cell.cgroups.values()) == inodes and len(inodes) == 2
        egress.close()
        assert procfs.eventually(lambda: "the connection to cloister-egress has ended" in place.daemon.log())
        with contextlib.closing(place.egress()) as again:
            while not (another := [each for each in again.cells.values() if len(each.cgroups) == 2]):
                assert again.hear()
            (another,) = another
            assert another.cgroups == cell.cgroups and another.sockets == cell.sockets
            for number, call, _ in running:
                client.call("tool.input", {"id": number, "data": "", "eof": True})
                finish(client, again, number, another)


def test_a_command_that_is_ended_before_it_begins(delegation, start_daemon, area):
    place = Place(start_daemon, area, "user", launcher=delegation.launcher())
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        ((worker, _),) = place.daemon.cells()
        with acting_as(os.getuid()):
            procfs.stop(worker)
        number, *_ = begin(client, egress, cell, "touch marker")
        client.cancel(number)
        client.call("tools.list")  # the cancel has been read
        with acting_as(os.getuid()):
            os.kill(worker, signal.SIGCONT)
        assert client.result(number)["error"]["code"] == "CANCELLED"
        assert client.observe("list_directory", {"path": "."})["output"]["entries"] == []
        assert procfs.eventually(lambda: not list(delegation.path.glob("ws-*/cmd-*")))


def test_commands_without_cloister_egress(user_place):
    """A command that needs no network does not wait for one."""
    with user_place.daemon.connect() as client:
        client.call("workspace.open", {"workspace": "one", "tenant": "net"})
        assert client.run("echo here")["stdout"] == "here\n"


def test_a_workspace_asks_for_less(place):
    with place.daemon.connect() as client, place.daemon.connect() as other, contextlib.closing(place.egress()) as egress:
        cell, answer = opened(client, egress, "one", network={"allow": ["open.test:443", "x.sub.test:8443"]})
        assert (cell.is_narrowed, cell.allow) == (True, "open.test:443 x.sub.test:8443")
        assert answer["isolation"]["network"] == {"egress": ["open.test:443", "x.sub.test:8443"]}
        with pytest.raises(RpcError) as refused:
            other.call("workspace.open", {"workspace": "one", "tenant": "net", "network": {"allow": ["open.test:443"]}})
        assert refused.value.name == "BUSY"
        # Without a wish it is as it is.
        assert other.call("workspace.open", {"workspace": "one", "tenant": "net"})["isolation"] == answer["isolation"]
        nothing, answer = opened(client, egress, "two", network={"allow": []})
        assert (nothing.is_narrowed, nothing.allow) == (True, "")
        assert answer["isolation"]["network"] == {"egress": []}
        directory = place.daemon.new_directory()
        client.call("workspace.open", {"root": str(directory), "tenant": "net", "network": {"allow": ["open.test"]}})
        number, _ = egress.hear_until(scripted_egress.OPEN)
        assert egress.cells[number].allow == "open.test"


LOCAL = "localhost,.localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1,[::1]"

VARIABLES = {  # "@" is the address, "#" the port
    **dict.fromkeys(["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "npm_config_proxy", "npm_config_https_proxy",
                     "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY", "grpc_proxy", "GRPC_PROXY", "all_proxy", "ALL_PROXY"], "http://@:#"),
    **dict.fromkeys(["no_proxy", "NO_PROXY", "npm_config_noproxy"], LOCAL),
    "NODE_USE_ENV_PROXY": "1", "RSYNC_PROXY": "@:#",
    "CLOUDSDK_PROXY_TYPE": "http", "CLOUDSDK_PROXY_ADDRESS": "@", "CLOUDSDK_PROXY_PORT": "#",
    "JAVA_TOOL_OPTIONS": "-Dhttp.proxyHost=@ -Dhttp.proxyPort=# -Dhttps.proxyHost=@ -Dhttps.proxyPort=# "
                         "-Dhttp.nonProxyHosts=localhost|*.localhost|127.*|0.0.0.0|[::1]"}


def test_variables(start_daemon, area):
    """Each has its value, there are no others, and the tenant's and the call's own win."""
    place = Place(start_daemon, area, "user", more="environment = HTTPS_PROXY=mine\nenvironment = CI=1")
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        def variables(tenant, **keywords):
            if tenant == "plain":
                client.call("workspace.open", {"workspace": "one", "tenant": tenant})
                return dict(line.split("=", 1) for line in client.run("env")["stdout"].splitlines()), None
            cell, _ = opened(client, egress, "one", tenant)
            number, _, address = begin(client, egress, cell, "env", **keywords)
            return dict(line.split("=", 1) for line in finish(client, egress, number, cell)["output"]["stdout"].splitlines()), address

        without, _ = variables("plain")
        said, address = variables("net", options={"env": {"NO_PROXY": "theirs"}})
    expected = {name: value.replace("@", address).replace("#", str(PORT)) for name, value in VARIABLES.items()}
    expected |= {"HTTPS_PROXY": "mine", "NO_PROXY": "theirs", "CI": "1"}
    assert {name: said.get(name) for name in expected} == expected
    assert set(said) - set(without) <= set(expected), set(said) - set(without) - set(expected)


def sockets_of(pid):
    """The types of address of the sockets that a process has open."""
    found = []
    with acting_as(os.getuid()):
        for fd in procfs.fds(pid):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                    copy = socket.socket(fileno=os.pidfd_getfd(os.pidfd_open(pid), int(fd)) if hasattr(os, "pidfd_getfd")
                                         else thief(pid, int(fd)))
                    with copy:
                        found.append(copy.family)
    return found


def thief(pid, fd):
    """pidfd_getfd(2)"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    try:
        got = libc.syscall(438, pidfd, fd, 0)
    finally:
        os.close(pidfd)
    if got < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return got


@pytest.mark.skipif(not AM_ROOT, reason="needs root to look into processes")
@pytest.mark.parametrize("spares", [0, 1])
def test_only_cloisterd_and_cloister_egress_have_the_socket(start_daemon, area, mode, spares):
    place = Place(start_daemon, area, mode, spares=spares)
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        opened(client, egress, "first")
        if spares:
            assert procfs.eventually(lambda: place.daemon.spares_ready() == 1)
        cell, _ = opened(client, egress, "one")
        if spares:  # One that is being made has a netlink socket, to bring up its loopback device.
            assert procfs.eventually(lambda: place.daemon.spares_ready() == 1)
        number, *_ = begin(client, egress, cell, "read line", options={"stdin_stream": True})
        pids = [pid for pid in procfs.children(place.daemon.spawner())]
        pids += [pid for parent in list(pids) for pid in procfs.children(parent)]
        seen = {pid: sockets_of(pid) for pid in pids}
        assert len(seen) >= 4
        ours = {socket.AF_INET, socket.AF_NETLINK}
        assert not any(ours & set(families) for families in seen.values()), seen
        assert socket.AF_INET in sockets_of(place.daemon.pid)
        assert socket.AF_NETLINK in sockets_of(place.daemon.pid)  # it tells which ports listen
        if not spares:
            assert not ours & set(sockets_of(place.daemon.spawner()))
        client.call("tool.input", {"id": number, "data": "", "eof": True})
        finish(client, egress, number, cell)


def test_addresses_of_others_lead_nowhere_else(user_place):
    """A command reaches only the proxy of its own workspace, and no address outside at all."""
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        other, _ = opened(client, egress, "two")
        other.listener.settimeout(0.5)
        number, *_ = begin(client, egress, cell, "for to in 127.64.0.1 127.64.9.9 127.65.0.1 127.0.0.1; do "
                           f"curl -s -m 5 --noproxy '*' http://$to:{PORT}/; done; "
                           "for to in 1.1.1.1 10.0.0.1 169.254.169.254 '[2001:db8::1]'; do "
                           "curl -sS -m 20 --noproxy '*' http://$to/; done; ip -o addr 2>/dev/null || true", workspace="one")
        for _ in range(4):
            connection, _ = cell.listener.accept()
            connection.sendall(b"HTTP/1.1 403 no\r\n\r\n")
            connection.close()
        observation = finish(client, egress, number, cell)
        assert observation["output"]["stderr"].count("Couldn't connect") + \
            observation["output"]["stderr"].count("Failed to connect") >= 4, observation
        assert observation["output"]["duration_ms"] < 15000
        with pytest.raises(TimeoutError):
            other.listener.accept()


def test_a_command_cannot_take_the_port(user_place):
    take = (f"import socket\nfor address in '0.0.0.0', '127.64.0.1', '127.64.0.2', '127.0.0.1':\n"
            "  for reuse in socket.SO_REUSEADDR, socket.SO_REUSEPORT:\n"
            "    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, reuse, 1)\n"
            f"    try: s.bind((address, {PORT})); s.listen(); print('took', address)\n"
            "    except OSError as error: print(error.errno)\n")
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        number, *_ = begin(client, egress, cell, f"python3 -c \"{take}\"")
        said = finish(client, egress, number, cell)["output"]["stdout"].split()
    assert said == ["98"] * 8  # EADDRINUSE


def test_the_network_namespace_ends_with_the_workspace(user_place):
    """cloister-egress is told; when it has closed its sockets, nothing holds the namespace."""
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        before = len(procfs.fds(user_place.daemon.pid))
        client.call("workspace.close", {"workspace": "one"})
        egress.hear_until(scripted_egress.CLOSE)
        assert procfs.eventually(lambda: len(procfs.fds(user_place.daemon.pid)) < before)
        assert egress.cells == {}


def test_doctor_names_what_the_filter_refuses(start_daemon, area):
    place = Place(start_daemon, area, "user", more="egress_private = 10.2.0.0/16 192.168.1.7\n")
    daemon = place.daemon
    assert egress_filter(daemon) == []  # nobody has tried
    with contextlib.closing(place.egress()) as egress:
        fine = [{"feature": "egress_filter", "present": True, "cost": None, "fix": None}]
        assert procfs.eventually(lambda: egress_filter(daemon) == fine)
        networks = "10.2.0.0/16 192.168.1.7/32"
        # An administrator may believe what doctor says, so a cloister-egress that lies names no other network.
        egress.say(scripted_egress.FILTERED, 0, text(f"10.0.0.0/8 0.0.0.0/0 {networks} ::/0 1.2 "))
        assert procfs.eventually(lambda: not egress_filter(daemon)[0]["present"])
        (row,) = egress_filter(daemon)
        assert f"to {networks} fail (upstream_failed)" in row["cost"] and f"IPAddressAllow={networks}," in row["fix"]
        assert "missing  egress_filter\n" in daemon.ctl("doctor").stdout.decode()
        egress.say(scripted_egress.FILTERED, 0, text(""))
        assert procfs.eventually(lambda: egress_filter(daemon) == fine)
        egress.say(scripted_egress.FILTERED, 0, text("10.0.0.0/8\x1b[2J"))
        assert procfs.eventually(lambda: egress_filter(daemon) == [])
    assert procfs.eventually(lambda: "it has sent what no cloister-egress sends" in daemon.log())


def serve_probes(cell, end, refusals=None):
    """Serves a cell's sockets as a proxy that refuses nobody, or everybody with the last of the words @refusals, in a thread
    that ends when something comes at @end."""
    proxy, dns, web = (place.dup() for place in cell.all[:3])

    def serve():
        with proxy, dns, web:
            while end not in (ready := select.select([proxy, dns, web, end], [], [])[0]):
                if dns in ready:
                    question, client = dns.recvfrom(512)
                    dns.sendto(question[:2] + (b"\x81\x83" if refusals else b"\x81\x80") + question[4:], client)
                    continue
                with ready[0].accept()[0] as connection:
                    first = connection.recv(4096)
                    connection.sendall(b"\5\0\5" + (b"\2" if refusals else b"\0") + b"\0\1" + bytes(6) if first[:1] == b"\5" else
                                       b"HTTP/1.1 403 %s\r\n\r\n" % refusals[-1] if refusals else
                                       b"HTTP/1.1 200 Connection established\r\n\r\n")
    threading.Thread(target=serve, daemon=True).start()


def test_the_self_test_sees_what_is_let_pass(user_place):
    end, ending = socket.socketpair()
    with end, ending, contextlib.closing(user_place.egress()) as egress, user_place.daemon.control() as control:
        number = control.request("selftest")
        cells = set()
        while len(cells) < 2 or egress.cells:
            said, at, payload = egress.hear()
            if said == scripted_egress.OPEN:
                cells.add((egress.cells[at].tenant, egress.cells[at].workspace, egress.cells[at].is_narrowed))
                serve_probes(egress.cells[at], end)
            elif said == scripted_egress.CALL_END:
                egress.say(scripted_egress.CALL_ENDED, at, payload + call_ended(0)[8:])
        report = control.result(number)
        ending.send(b"x")
    assert cells == {(".selftest-egress", "canary", False), (".selftest-egress", "empty", True)}
    rows = {probe["probe"]: probe["answer"] for probe in report["probes"] if probe["row"].startswith("egress-")}
    assert {probe["probe"] for probe in report["probes"] if probe["result"] == "failed"} == set(rows)
    for probe, answer in rows.items():
        by = probe.split("-")[1]
        assert answer.split()[1:] == {"socks": ["0"], "dns": ["a", "name"]}.get(by, ["established"]), (probe, answer)


@pytest.mark.parametrize("times", [1, 2])
def test_cloister_egress_that_ends_during_its_probes(user_place, times):
    """The batch is made again, once. Then its probes are skipped, and the report says why."""
    end, ending = socket.socketpair()
    with end, ending, contextlib.ExitStack() as stack, user_place.daemon.control() as control:
        egress = stack.enter_context(contextlib.closing(user_place.egress()))
        number = control.request("selftest")
        served, begun, lost, refusals = set(), set(), 0, [b"first"]
        while len(served) < 2 or egress.cells:
            said, at, payload = egress.hear()
            if said == scripted_egress.OPEN and at not in served:
                served.add(at)
                serve_probes(egress.cells[at], end, refusals)
            elif said == scripted_egress.CALL and lost < times:
                # Two commands set the place up. A cloister-egress that comes again is told again of one that runs.
                is_new, begun = payload[:8] not in begun, begun | {payload[:8]}
                if is_new and len(begun) > 2:
                    lost += 1
                    egress.close()
                    assert procfs.eventually(lambda: user_place.daemon.log().count("the connection to cloister-egress has ended") == lost)
                    refusals.append(b"second")
                    egress = stack.enter_context(contextlib.closing(user_place.egress()))
            elif said == scripted_egress.CALL_END:
                egress.say(scripted_egress.CALL_ENDED, at, payload + call_ended(0)[8:])
        report = control.result(number)
        ending.send(b"x")
    batch = [probe for probe in report["probes"] if probe["row"] in ("egress-metadata", "egress-private")]
    told = {(probe["result"], probe["answer"].split()[-1]) for probe in batch}
    assert len(batch) == 8
    # The first of its targets has this word, which no policy says, where the probe looks at words.
    assert told == ({("failed", "second"), ("passed", "refused")} if times == 1 else {("skipped", "ended")}), batch
    assert not [probe for probe in report["probes"] if probe["answer"].endswith("first")], report
    if times == 2:
        assert procfs.eventually(lambda: "cloister-egress has ended again during its probes" in user_place.daemon.log())


def test_a_reload_that_would_need_cloister_egress(start_daemon, area):
    config = f"[cloister]\n[tenant t]\nusers = {area.account.name}\nmanaged = yes\n"
    plain = start_daemon(config=config, system=False)
    assert not plain.reload(config + "network = egress\n")
    assert "restart cloisterd" in plain.log()
