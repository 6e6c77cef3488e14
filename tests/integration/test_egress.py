# SPDX-License-Identifier: Apache-2.0
"""Workspaces with network = egress, from the configuration to the observation. In the first part the test is
cloister-egress, so that it sees each message and decides what is answered."""

import contextlib
import functools
import http.server
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import zipfile

import procfs
import pytest
import egress
import scripted_egress
from cloister_client import RpcError, acting_as
from daemon import AM_ROOT, Account
from scripted_egress import ScriptedEgress, call_ended, closed, denied
from wire import text

PORT = 18129  # DEFAULT_EGRESS_PORT

CONFIG = """[cloister]
{mode}
egress_socket = {path}/egress{number}.sock
egress_user = {user}
admin_group = {user}
spare_cells = {spares}
[tenant net]
users = {user}
managed = yes
roots = {path}
network = egress
egress_allow = open.test *.sub.test:8443
{more}
[tenant plain]
users = {user}
managed = yes
roots = {path}
"""


class Place:
    """A cloisterd whose cloister-egress is the test."""
    number = 0

    def __init__(self, start_daemon, area, mode, spares=0, more="", host="", **keywords):
        Place.number += 1
        self.area = area
        self.socket = area.path / f"egress{Place.number}.sock"
        config = CONFIG.format(mode="mode = system" if mode == "system" else host, path=area.path, user=area.account.name,
                               number=Place.number, spares=spares, more=more)
        self.daemon = start_daemon(config=config, system=mode == "system", **keywords)

    def egress(self, **keywords):
        return ScriptedEgress(self.socket, self.area.account, **keywords)


@pytest.fixture(params=["user", "system"])
def mode(request):
    if request.param == "system" and not AM_ROOT:
        pytest.skip("needs root to make users and map ids")
    return request.param


@pytest.fixture
def place(start_daemon, area, mode):
    return Place(start_daemon, area, mode)


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


def network_metrics(daemon):
    """{rest of the name: value} of the metrics of tenants' networks."""
    lines = daemon.ctl("metrics", "--format=prometheus").stdout.decode().splitlines()
    named = (line.removeprefix("cloister_tenant_network_").rpartition(" ") for line in lines if "_network_" in line and line[0] != "#")
    return {name: int(value) for name, _, value in named}


def test_metrics_by_tenant_and_reason(user_place):
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        before = network_metrics(user_place.daemon)
        assert set(before.values()) == {0}
        # Each reason is a series, of tenants with a network.
        assert len([name for name in before if name.startswith("denied_total")]) == 11
        assert not [name for name in before if name.startswith("denied_total") and 'tenant="net"' not in name]
        number, call, _ = begin(client, egress, cell, "false")
        for host in ("a.test", "b.test"):
            egress.say(scripted_egress.DENIED, cell.number, denied(call, host))
        egress.say(scripted_egress.DENIED, cell.number, denied(0, "10.0.0.1", reason=scripted_egress.PRIVATE_ADDRESS))
        egress.say(scripted_egress.CLOSED, cell.number, closed(call, "open.test", came=5, went=6))
        finish(client, egress, number, cell, 1, 2, 5, 6)
        after = network_metrics(user_place.daemon)
        assert {name: value for name, value in after.items() if value} == {
            'denied_total{tenant="net",reason="not_allowed"}': 2, 'denied_total{tenant="net",reason="private_address"}': 1,
            'connections_total{tenant="net"}': 1, 'received_bytes_total{tenant="net"}': 5, 'sent_bytes_total{tenant="net"}': 6}
        assert set(after) == set(before)


def test_events_tell_of_refused_hosts(user_place):
    with user_place.daemon.connect() as client, user_place.daemon.control() as control:
        egress = user_place.egress()
        control.call("events")

        def heard():
            control.call("status")
            events = [message["params"] for message in control.notifications]
            control.notifications.clear()
            return [event for event in events if event["event"] == "network_denied"]

        cell, _ = opened(client, egress, "one")
        number, call, _ = begin(client, egress, cell, "read line", options={"stdin_stream": True})
        shown = control.call("commands")["calls"][0]["call"]
        egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
        egress.say(scripted_egress.DENIED, cell.number, denied(0, "other.test", port=80, via=scripted_egress.VIA_HTTP))
        events = []
        assert procfs.eventually(lambda: events.extend(heard()) or len(events) == 2)
        for event in events:
            assert event.pop("time_ms") > 0
        same = {"event": "network_denied", "tenant": "net", "workspace": "one", "reason": "not_allowed", "untold": 0}
        assert events == [{**same, "call": shown, "host": "no.test", "port": 443, "via": "connect"},
                          {**same, "call": None, "host": "other.test", "port": 80, "via": "http"}]
        # A program that asks again and again makes a few events a second; all are counted.
        many, more, told = 3000, 0, []
        for _ in range(many):
            egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))

        def all_are_counted():
            nonlocal more
            egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
            more += 1
            told.extend(heard())
            return len(told) + sum(event["untold"] for event in told) == many + more

        assert procfs.eventually(all_are_counted)
        assert len(told) < many / 2
        egress.close()
        assert procfs.eventually(lambda: told.extend(heard()) or told[-1]["reason"] == "proxy_lost")
        assert (told[-1]["call"], told[-1]["host"], told[-1]["via"]) == (shown, None, None)
        client.call("tool.input", {"id": number, "data": "", "eof": True})
        client.result(number)


def test_denials(user_place):
    """The recent refusals of each tenant: one line for what is the same, the oldest first, and a bound."""
    daemon, kept = user_place.daemon, 64  # LIMIT_DENIALS_KEPT
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
        # What is refused again becomes the newest; then others take the places of the oldest.
        for host in ("no.test", *(f"h{i}.test" for i in range(kept - 1))):
            egress.say(scripted_egress.DENIED, cell.number, denied(call, host))
        assert procfs.eventually(lambda: listed()[-1]["host"] == f"h{kept - 2}.test")
        assert [(row["host"], row["count"]) for row in listed()] == [("no.test", 4)] + [(f"h{i}.test", 1) for i in range(kept - 1)]
        # A reload keeps them; a tenant sees its own.
        assert daemon.ctl("reload").returncode == 0
        assert len(listed("--tenant", "net")) == kept and listed("--tenant=plain") == []
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


def test_kinds_of_refusals_are_bounded(user_place):
    kinds = 32  # LIMIT_NETWORK_DENIALS
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        number, call, _ = begin(client, egress, cell, "sleep 0.5; false")
        for i in range(2 * kinds):
            egress.say(scripted_egress.DENIED, cell.number, denied(call, f"h{i}.test"))
            egress.say(scripted_egress.DENIED, cell.number, denied(call, "h0.test"))
        network = finish(client, egress, number, cell, 0, 4 * kinds)["network"]
        assert "incomplete" not in network
        assert len(network["denied"]) == kinds and network["denied"][0]["count"] == 2 * kinds + 1
        assert network["denied_unlisted"] == kinds


def test_an_answer_does_not_wait_long_for_cloister_egress(user_place):
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        number, call, _ = begin(client, egress, cell, "false")
        egress.say(scripted_egress.DENIED, cell.number, denied(call, "no.test"))
        egress.hear_until(scripted_egress.CALL_END)
        network = client.result(number)["network"]
        assert network["denied"][0]["host"] == "no.test" and network["incomplete"] is True
        # What comes too late about it changes nothing.
        egress.say(scripted_egress.CALL_ENDED, cell.number, call_ended(call))
        number, *_ = begin(client, egress, cell, "true")
        finish(client, egress, number, cell)


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


def test_cloister_egress_that_comes_again_to_many_rules(user_place):
    """What all cells' rules take together is no reason to give up a cloister-egress that has just come."""
    rules = [f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{number:04}.test" for number in range(76)]
    with user_place.daemon.connect() as client:
        with contextlib.closing(user_place.egress()) as egress:
            for number in range(100):
                opened(client, egress, f"w{number}", network={"allow": rules})
        assert procfs.eventually(lambda: "the connection to cloister-egress has ended" in user_place.daemon.log())
        with contextlib.closing(user_place.egress()) as again:
            while len(again.cells) < 100:
                assert again.hear()
            assert {cell.allow for cell in again.cells.values()} == {" ".join(rules)}


def test_commands_without_cloister_egress(user_place):
    """A command that needs no network does not wait for one."""
    with user_place.daemon.connect() as client:
        client.call("workspace.open", {"workspace": "one", "tenant": "net"})
        assert client.run("echo here")["stdout"] == "here\n"


@pytest.mark.skipif(not AM_ROOT, reason="needs root to make users")
def test_only_its_user_may_be_cloister_egress(user_place, tenants):
    egress = ScriptedEgress(user_place.socket, tenants[0], ready=False)
    assert egress.frames.next() is None
    assert procfs.eventually(lambda: f"uid {tenants[0].uid}, which is not cloister-egress's" in user_place.daemon.log())


@pytest.mark.parametrize("words", [
    b"x" * 100, b"\0" * 100, [(99, b"")], [(scripted_egress.READY, b"")], [(scripted_egress.OPENED, b"x")],
    [(scripted_egress.DENIED, b"")], [(scripted_egress.CALL_ENDED, b"12345678")], [(scripted_egress.OPEN, b"")]], ids=str)
def test_what_cloister_egress_does_not_say(user_place, words):
    with user_place.daemon.connect() as client:
        egress = user_place.egress()
        cell, _ = opened(client, egress, "one")
        if isinstance(words, bytes):
            egress.socket.sendall(words)
        else:
            for kind, payload in words:
                egress.say(kind, cell.number, payload)
        with contextlib.suppress(ConnectionResetError):
            while egress.hear():
                pass
        assert procfs.eventually(lambda: "what no cloister-egress sends" in user_place.daemon.log())
        assert client.run("echo here")["stdout"] == "here\n"


def test_descriptors_do_not_come_up(user_place):
    """On a kernel that cannot refuse them, a thread closes them."""
    with user_place.daemon.connect() as client, contextlib.closing(user_place.egress()) as egress:
        cell, _ = opened(client, egress, "one")
        before = user_place.daemon.settled_fds()
        with contextlib.suppress(PermissionError, BrokenPipeError):
            for _ in range(20):
                socket.send_fds(egress.socket, [b""], [egress.socket.fileno()])
                socket.send_fds(egress.socket, [scripted_egress.frame(scripted_egress.OPENED, cell.number)],
                                [egress.socket.fileno()])
        assert client.run("echo here", timeout_ms=5000)["stdout"] == "here\n"
        assert user_place.daemon.settled_fds() <= before


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


@pytest.mark.parametrize("network", [
    None, "egress", {}, {"allow": None}, {"allow": "a.test"}, {"allow": [1]}, {"allow": ["a.test b.test"]},
    {"allow": [""]}, {"allow": ["a..test"]}, {"allow": ["a.test"], "deny": []}, {"allow": ["a\0.test"]},
    {"allow": ["a.test:70000"]}, {"allow": ["a" * 300]}, {"allow": ["a.test"] * 5000}, {"allow": ["@"]},
    {"allow": ["@a\tb.test"]}, {"allow": ["@a\nb.test"]}, {"allow": ["@nmp"]}], ids=lambda n: str(n)[:40])
def test_a_wish_that_is_none(user_place, network):
    with user_place.daemon.connect() as client, pytest.raises(RpcError) as refused:
        client.call("workspace.open", {"workspace": "one", "tenant": "net", "network": network})
    assert refused.value.code == -32602 and "network" in refused.value.message


LOCAL = "localhost,127.0.0.1,::1"
VARIABLES = {  # "@" is the address, "#" the port
    **dict.fromkeys(["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "npm_config_proxy", "npm_config_https_proxy",
                     "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY", "PIP_PROXY", "grpc_proxy", "GRPC_PROXY", "all_proxy", "ALL_PROXY"], "http://@:#"),
    **dict.fromkeys(["no_proxy", "NO_PROXY", "npm_config_noproxy"], LOCAL),
    "NODE_USE_ENV_PROXY": "1", "RSYNC_PROXY": "@:#",
    "CLOUDSDK_PROXY_TYPE": "http", "CLOUDSDK_PROXY_ADDRESS": "@", "CLOUDSDK_PROXY_PORT": "#",
    "JAVA_TOOL_OPTIONS": "-Dhttp.proxyHost=@ -Dhttp.proxyPort=# -Dhttps.proxyHost=@ -Dhttps.proxyPort=# "
                         "-Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1]"}


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


def test_spare_cells_fit_their_tenant(start_daemon, area, mode):
    place = Place(start_daemon, area, mode, spares=1)
    with place.daemon.connect() as client, contextlib.closing(place.egress()) as egress:
        for turn in range(3):
            for tenant, network in (("net", {"egress": ["open.test", "*.sub.test:8443"]}), ("plain", "none")) * 2:
                answer = client.call("workspace.open", {"workspace": f"w{turn}", "tenant": tenant})
                assert answer["isolation"]["network"] == network
                assert procfs.eventually(lambda: place.daemon.spares_ready() == 1)
                client.call("workspace.close", {"workspace": f"w{turn}", "tenant": tenant})
        # The last but one of them was of the tenant without a network; so is the spare now.
        opened(client, egress, "last")
        assert client.call("workspace.list")["workspaces"]


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


def egress_filter(daemon):
    """What doctor says of the host's IP filter."""
    with daemon.control() as control:
        return [row for row in control.call("doctor")["features"] if row["feature"] == "egress_filter"]


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


@pytest.mark.parametrize("line, message", [
    ("egress_allow = a..test", "egress_allow"), ("egress_private = 169.254.169.254", "never opened"),
    ("egress_upstream = proxy.test", "http://HOST:PORT"), ("egress_port = 80", "egress_port"), ("network = host", "none, egress")])
def test_mistakes_have_a_file_and_a_line(area, line, message):
    place = area.new_directory()
    with acting_as(area.account.uid, area.account.gid):
        (place / "c.conf").write_text(f"[tenant t]\nusers = {area.account.name}\n{line}\n")
    checked = area.run("cloisterd", "--config", str(place / "c.conf"), "--check")
    assert checked.returncode == 1
    said = (checked.stdout + checked.stderr).decode()
    assert f"{place}/c.conf:3: " in said and message in said


# From here on cloister-egress is the real one. Names and hosts are the test's.

RULES = """egress_allow = open.test:* @npm
egress_deny = closed.open.test
egress_private = 127.0.0.0/8"""


def real_config(area, names, host=""):
    return egress.service_config(area, names, RULES, host=host)


def serve_http(content):
    """A server that answers every request with the content."""
    def serve(connection):
        egress.read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
    return serve


@pytest.fixture(scope="module")
def names():
    server = egress.Names(dict.fromkeys(("open.test", "closed.open.test", "other.test"), ["127.0.0.1"]))
    yield server
    server.close()


@pytest.fixture(scope="module")
def web():
    made = egress.Host(serve_http(b"from the host"))
    yield made
    made.close()


@pytest.fixture
def egress_users():
    """A user for a cloister-egress of its own."""
    made = Account("e")
    yield made
    made.remove()


@pytest.fixture
def real(start_daemon, area, names, mode, request):
    """A cloisterd and what it has started, or what has connected to it."""
    if mode == "user":
        yield start_daemon(config=real_config(area, names), system=False)
        return
    system = egress.Service(start_daemon, area, real_config(area, names, "{host}"), request.getfixturevalue("egress_users"))
    yield system.daemon
    system.stop()


def observe(client, command, **keywords):
    return client.observe("run_command", {"command": command}, **keywords)


def test_real_hosts(real, web):
    with real.connect() as client:
        answer = client.call("workspace.open", {"workspace": "one"})
        assert answer["isolation"]["network"] == {"egress": ["open.test:*", "@npm"]}
        for ask in (f"curl -sS http://open.test:{web.port}/", f"curl -sSp http://open.test:{web.port}/",
                    f"curl -sS --proxy \"socks5h://${{ALL_PROXY#*://}}\" http://open.test:{web.port}/"):
            observation = observe(client, ask)
            assert observation["output"]["stdout"] == "from the host", observation
            network = observation["network"]
            assert network["connections"] == 1 and network["denied"] == [] and network["bytes_in"] > 13


@pytest.mark.parametrize("host, reason", [("other.test", "not_allowed"), ("closed.open.test", "denied"),
                                          ("nowhere.open.test", "not_allowed"), ("10.0.0.1", "not_allowed")])
def test_real_refusals(real, web, host, reason):
    before = web.connections
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        for ask, via in ((f"curl -sS http://{host}:{web.port}/ | grep -q 'from the host'", "http"),
                         (f"curl -sSp http://{host}:{web.port}/", "connect"),
                         (f"curl -sS --proxy \"socks5h://${{ALL_PROXY#*://}}\" http://{host}:{web.port}/", "socks")):
            observation = observe(client, ask)
            assert observation["output"]["exit_code"] != 0
            assert observation["network"]["denied"] == [
                {"host": host, "port": web.port, "reason": reason, "count": 1, "via": via}], observation
            assert (f"{host}:{web.port} is denied in this workspace" if reason == "denied" else
                    f"{host}:{web.port} is not allowed in this workspace; allowed are: open.test:* @npm") in observation["notes"]
    assert web.connections == before


def test_real_client_that_wants_a_password(real):
    """A client of SOCKS5 that goes on with a user and a password only is refused as the standard says, and the model is told why."""
    ask = "p=${http_proxy#http://}; exec 3<>/dev/tcp/${p%:*}/${p#*:}; printf '\\5\\1\\2' >&3; cat <&3 | od -An -tx1; exit 3"
    with real.connect() as client, real.control() as control:
        client.call("workspace.open", {"workspace": "one"})
        observation = observe(client, "exec bash -c " + shlex.quote(ask))
        assert (observation["output"]["stdout"].split(), observation["output"]["exit_code"]) == (["05", "ff"], 3)
        refused = {"host": "", "port": 0, "reason": "bad_request", "via": "socks"}
        assert observation["network"]["denied"] == [{**refused, "count": 1}]
        assert observation["notes"] == ["A request to the proxy was not connected: of SOCKS5 only CONNECT is served, to a name in "
                                        "ASCII or an address, and without a user and a password"]
        (denial,) = control.call("denials")["denials"]
        assert {**refused, "host": None}.items() <= denial.items()
    assert network_metrics(real)['denied_total{tenant="net",reason="bad_request"}'] == 1


def test_real_self_test(real):
    """What the canary may not reach is refused, and nothing of it is told as anybody's."""
    with real.control() as control:
        for _ in range(2):
            report = control.call("selftest")
            assert [probe for probe in report["probes"] if probe["result"] == "failed"] == []
            rows = [probe["answer"] for probe in report["probes"] if probe["row"].startswith("egress-")]
            assert rows == ["refused"] * 17
        assert control.call("denials")["denials"] == []
    assert [row["present"] for row in egress_filter(real)] == [True]


def test_real_directory_with_a_long_path(real, web):
    """A directory is called by its path. One that is longer than any name ends nobody's network."""
    with real.connect() as other, real.connect() as client:
        other.call("workspace.open", {"workspace": "one"})
        deep = real.area.new_directory() / ("d" * 200) / ("e" * 200)
        with acting_as(os.getuid()):
            deep.mkdir(parents=True)
        (real.account.give_away if real.system else real.account.own)(deep)
        client.call("workspace.open", {"root": str(deep), "tenant": "net"})
        for each in (client, other):
            assert observe(each, f"curl -sS http://open.test:{web.port}/")["output"]["stdout"] == "from the host"


@pytest.mark.parametrize("way", ["by address", "by cgroup"])
def test_a_thousand_refusals_in_parallel(start_daemon, area, names, request, way):
    """Each observation has its own refusal, and no other's."""
    config = real_config(area, names).replace("@npm", "@npm\ncalls = 1024\nqueue_length = 1024\nqueue_time = 600s\negress_connect_rate = 0")
    keywords = {"launcher": request.getfixturevalue("delegation").launcher()} if way == "by cgroup" else {}
    daemon = start_daemon(config=config, system=False, **keywords)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect()) for _ in range(4)]  # each may have 256 calls
        for client in clients:
            client.call("workspace.open", {"workspace": "one"})
        running = {}
        for i in range(1000):
            client = clients[i % 4]
            running[i] = client, client.begin("run_command", {"command": f"exec curl -sS https://h{i}.test/"}, options={"timeout_ms": 600000})
        for i, (client, number) in running.items():
            observation = client.result(number)
            assert observation["success"] and observation["output"]["exit_code"] != 0, observation
            assert observation["network"] == {"connections": 0, "bytes_in": 0, "bytes_out": 0, "denied": [
                {"host": f"h{i}.test", "port": 443, "reason": "not_allowed", "count": 1, "via": "connect"}]}, observation
            assert observation["notes"][0].startswith(f"h{i}.test:443 is not allowed in this workspace; allowed are: ")


# A reason, what must be so for it, the command, and how the sentence about it begins. "@" is a port at which nobody listens.
REASONS = [
    ("not_allowed", "curl -sS https://no.test/", "no.test:443 is not allowed in this workspace; allowed are: open.test:*"),
    ("denied", "curl -sSf http://closed.open.test/", "closed.open.test:80 is denied in this workspace"),
    ("port", "curl -sSf http://one.test:81/", "one.test:81 is not allowed in this workspace: the host is, but not this port; allowed are:"),
    ("private_address", "curl -sSf http://ten.test/", "ten.test:80 is not allowed in this workspace: its address is not one of"),
    ("sni_mismatch", "exec env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy curl -sSk https://127.1.0.1/",
     "A connection to port 443 was not made: the program named no host in TLS"),
    ("dns_failed", "curl -sSf http://nowhere.test/", "nowhere.test:80 was not connected: the name has no address"),
    ("upstream_failed", "curl -sSf http://open.test:@/", "open.test:@ did not accept the connection"),
    ("bad_request", "curl -sSf --noproxy '*' $http_proxy/", "/:0 was not connected: the program did not ask as"),
    ("unknown_secret", "curl -sSf http://none.cloister.internal/", "none.cloister.internal stands for no secret of this workspace; there are: none"),
    ("limit", "curl -sS http://open.test:@web/; curl -sSf http://open.test:@web/", "open.test:@web was not connected: a limit of the network"),
    ("proxy_lost", "touch waits; curl -sS -T - http://open.test:@waiting/ </dev/zero", "The network was interrupted while the command ran"),
]


def test_every_reason(start_daemon, area, names, web):
    """Each is in the observation of its own command, in its sentence, in denials, metrics and the audit log."""
    waiting = egress.Host(egress.read_all)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        ports = {"@waiting": waiting.port, "@web": web.port, "@": unused.getsockname()[1]}
    config = real_config(area, names, "audit = on").replace("@npm", "one.test ten.test nowhere.test\negress_bytes_out = 60")
    names.answers["ten.test"] = ["10.1.2.3"]
    daemon = start_daemon(config=config, system=False)
    with daemon.connect() as client, daemon.control() as control:
        client.call("workspace.open", {"workspace": "one"})

        def filled(text):
            for name, port in ports.items():
                text = text.replace(name, str(port))
            return text

        for reason, command, sentence in REASONS:
            if reason == "proxy_lost":
                daemon.reload(config.replace("egress_bytes_out = 60", ""))
            number = client.begin("run_command", {"command": filled(command)}, options={"timeout_ms": 120000})
            if reason == "proxy_lost":
                assert procfs.eventually(lambda: waiting.connections == 1)
                kept = network_metrics(daemon), control.call("denials")["denials"]
                with acting_as(os.getuid()):
                    (program,) = [pid for pid in procfs.children(daemon.pid) if procfs.name(pid) == "cloister-egress"]
                    os.kill(program, signal.SIGKILL)
            observation = client.result(number)
            assert observation["output"]["exit_code"] != 0
            assert [(refused["reason"], refused["count"]) for refused in observation["network"]["denied"]] == [(reason, 1)], observation
            assert len(observation["notes"]) == 1 and observation["notes"][0].startswith(filled(sentence)), observation
        reasons = [reason for reason, *_ in REASONS]
        metrics, denials = kept
        assert [metrics[f'denied_total{{tenant="net",reason="{reason}"}}'] for reason in reasons] == [1] * (len(reasons) - 1) + [0]
        assert network_metrics(daemon)['denied_total{tenant="net",reason="proxy_lost"}'] == 1
        assert [denial["reason"] for denial in denials] == reasons[:-1]
    assert daemon.stop() == 0
    with acting_as(area.account.uid, area.account.gid):
        lines = [json.loads(line) for line in (daemon.state / "audit" / "audit.log").read_text().splitlines()]
    assert [line["reason"] for line in lines if line["event"] == "network.denied"] == reasons
    waiting.close()


def test_programs_that_are_blocked_where_there_is_no_network(start_daemon, area, names, web):
    """curl, wget and nc are what the rules are about; without a network they are refused before they run."""
    config = real_config(area, names) + f"[tenant plain]\nusers = {area.account.name}\nmanaged = yes\n"
    daemon = start_daemon(config=config, system=False)
    with daemon.connect() as client:
        for program, words in (("curl", "-sS"), ("wget", "-qO-"), ("nc", "-z"), ("netcat", "-z")):
            url = f"open.test {web.port}" if "-z" in words else f"http://open.test:{web.port}/"
            client.call("workspace.open", {"workspace": "w", "tenant": "plain"})
            refused = client.observe("run_command", {"command": f"{program} {words} {url}"})
            assert refused["error"]["code"] == "COMMAND_BLOCKED" and program in refused["error"]["message"], refused
            client.call("workspace.close", {"workspace": "w"})
            client.call("workspace.open", {"workspace": "n", "tenant": "net"})
            if observe(client, f"command -v {program}")["output"]["exit_code"] == 0:
                ran = observe(client, f"{program} {words} {url}")
                assert ran["success"] and (ran["output"]["stdout"] == "from the host" or "-z" in words), ran
            else:
                assert observe(client, f"{program} {words} {url}")["output"]["exit_code"] == 127
            # What else is blocked stays so.
            assert observe(client, "sudo id")["error"]["code"] == "COMMAND_BLOCKED"
            client.call("workspace.close", {"workspace": "n"})


JAVA = """import java.net.*; import java.net.http.*;
class A { public static void main(String[] a) throws Exception {
HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create("https://no.test/")).build(), HttpResponse.BodyHandlers.ofString()); } }"""
CLIENTS = {  # what must succeed for the client to be there; the command; the host, if it is not no.test
    "curl": ("curl --version", "curl -sS https://no.test/"),
    "wget": ("wget --version", "wget -q --tries=1 https://no.test/"),
    "git": ("git --version", "git ls-remote http://no.test:8080/x.git"),
    "git over https": ("git --version", "git ls-remote https://no.test/x.git"),
    "pip": ("/usr/bin/python3 -m pip --version",
            "/usr/bin/python3 -m pip download -q --no-deps --retries 0 -i https://no.test/simple nothing"),
    "python": ("/usr/bin/python3 --version", "/usr/bin/python3 -c 'import urllib.request; urllib.request.urlopen(\"https://no.test/\")'"),
    "requests": ("/usr/bin/python3 -c 'import requests'", "/usr/bin/python3 -c 'import requests; requests.get(\"https://no.test/\")'"),
    "httpx": ("/usr/bin/python3 -c 'import httpx'", "/usr/bin/python3 -c 'import httpx; httpx.get(\"https://no.test/\")'"),
    # NODE_USE_ENV_PROXY is new in 24.
    "node": ("node -e 'process.exit(parseInt(process.versions.node) < 24)'",
             "node -e 'fetch(\"https://no.test/\").catch(() => process.exit(1))'"),
    "npm": ("npm --version", "npm view nothing --registry https://no.test/ --fetch-retries 0"),
    "java": ("java -version && javac -version", f"echo '{JAVA}' > A.java && java A.java"),
    "apt": ("apt-get --version", "mkdir -p apt/lists/partial apt/cache/archives/partial && echo 'deb [trusted=yes] http://no.test/ x main' > apt/list && "
            "! apt-get -qq -o APT::Update::Error-Mode=any -o Debug::NoLocking=1 -o Dir::State=$PWD/apt -o Dir::Cache=$PWD/apt/cache "
            "-o Dir::Etc::sourcelist=$PWD/apt/list -o Dir::Etc::sourceparts=/dev/null -o Acquire::Retries=0 -o APT::Sandbox::User= update; false"),
    # Its registry is sparse since 1.70; before it is a repository of git at another host.
    "cargo": ("cargo --version | awk '{ split($2, version, \".\"); new = version[1] > 1 || version[2] >= 70 } END { exit !new }'", "mkdir -p c/src && touch c/src/lib.rs && printf '[package]\nname = \"c\"\nversion = \"1.0.0\"\n[dependencies]\nx = \"1\"\n' "
              "> c/Cargo.toml && cd c && CARGO_NET_RETRY=0 CARGO_HOME=$PWD/home cargo fetch", "index.crates.io"),
    "go": ("go version", "mkdir g && cd g && printf 'module a\n' > go.mod && GOPATH=$PWD/p GOCACHE=$PWD/k GOFLAGS=-mod=mod go mod download no.test/x@v1.0.0",
           "proxy.golang.org"),
    "maven": ("mvn --version", "mvn -q -B -Dmaven.repo.local=$PWD/m dependency:get -Dartifact=a:b:1", "repo.maven.apache.org"),
    "bundler": ("ruby --version", "ruby -rnet/http -e 'Net::HTTP.get(URI(\"https://no.test/\"))'"),
    "rsync": ("rsync --version", "rsync rsync://no.test/x ."),
    "gcloud": ("gcloud --version", "CLOUDSDK_CONFIG=$PWD NO_GCE_CHECK=true CLOUDSDK_AUTH_ACCESS_TOKEN=x CLOUDSDK_CORE_DISABLE_PROMPTS=1 "
               "gcloud -q projects list", "cloudresourcemanager.googleapis.com"),
}


def test_real_clients_find_the_proxy(start_daemon, area, names):
    """By their own variables: what they ask for does not come by DNS. The names of those that were tried are printed."""
    config = real_config(area, names)
    daemon = start_daemon(config=config, system=False)
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        asked = {name: client.begin("run_command", {"command": words[0]}) for name, words in CLIENTS.items()}
        there = [name for name, number in asked.items() if client.result(number)["output"]["exit_code"] == 0]
        assert {"curl", "git", "python"} <= set(there)
        asked = {name: client.begin("run_command", {"command": f"mkdir -p '{name}' && cd '{name}' && {CLIENTS[name][1]}"},
                                    options={"timeout_ms": 120000}) for name in there}
        for name, number in asked.items():
            observation = client.result(number)
            denied = observation["network"]["denied"]
            host = CLIENTS[name][2] if len(CLIENTS[name]) > 2 else "no.test"
            assert denied and denied[0]["host"] == host and denied[0]["via"] in ("connect", "http"), (name, observation)
            assert observation["output"]["exit_code"] != 0, (name, observation)
    print("tried:", *there)


@pytest.fixture
def site(area):
    """A web server with a repository of git and an index of Python packages."""
    root = area.new_directory()
    with acting_as(area.account.uid, area.account.gid):
        work = root / "work"
        for words in (("init", "-q", "."), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"),
                      ("update-server-info",)):
            work.mkdir(exist_ok=True)
            subprocess.run(["git", *words], cwd=work, check=True, env={"HOME": str(root), "PATH": os.environ["PATH"]})
        package = root / "simple" / "thing"
        package.mkdir(parents=True)
        with zipfile.ZipFile(package / "thing-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("thing.py", "")
            wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
            wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("thing-1.0.dist-info/RECORD", "")
        (package / "index.html").write_text('<a href="thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>')
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://open.test:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_real_clone_and_download(real, site):
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        cloned = observe(client, f"git clone -q {site}/work/.git copy && git -C copy log --format=%s && rm -r copy")
        assert cloned["output"]["stdout"] == "one\n", cloned
        assert cloned["network"]["connections"] > 0 and cloned["network"]["denied"] == []
        if observe(client, "/usr/bin/python3 -m pip --version")["output"]["exit_code"] == 0:
            got = observe(client, "cd /tmp && /usr/bin/python3 -m pip download -q --no-deps --disable-pip-version-check "
                          f"--trusted-host open.test -i {site}/simple thing && ls *.whl")
            assert got["output"]["stdout"] == "thing-1.0-py3-none-any.whl\n", got


def test_real_reload(start_daemon, area, names):
    """A host that a reload removes is not reached any more, also by those who were connected."""
    waiting = egress.Host(egress.read_all)
    config = real_config(area, names)
    daemon = start_daemon(config=config, system=False)
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        number = client.begin("run_command", {
            "command": f"curl -sS -m 100 -T - http://open.test:{waiting.port}/ < /dev/zero"})
        assert procfs.eventually(lambda: waiting.connections == 1)
        daemon.reload(config.replace("open.test:*", "open.test:1"))
        observation = client.result(number)
    assert observation["output"]["exit_code"] != 0
    assert [(refused["host"], refused["reason"]) for refused in observation["network"]["denied"]] == [("open.test", "port")]
    assert observation["network"]["connections"] == 1 and observation["network"]["bytes_out"] > 0
    waiting.close()


@pytest.mark.skipif(not shutil.which("sshd", path="/usr/sbin:/usr/bin"), reason="needs sshd")
def test_real_clone_over_ssh(start_daemon, area, names):
    """GIT_SSH_COMMAND has a ProxyCommand where a rule is for port 22, and only there."""
    place = area.new_directory()
    git = f"export GIT_SSH_COMMAND=\"$GIT_SSH_COMMAND -i {place}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null\"; git"
    with acting_as(area.account.uid, area.account.gid):
        for key in ("key", "host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
        work = place / "work"
        work.mkdir()
        for words in (["init", "-q", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"]):
            subprocess.run(["git", *words], cwd=work, check=True, env={"HOME": str(place), "PATH": os.environ["PATH"]})
        (place / "empty").touch()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with acting_as(os.getuid()):
        if area.account.made:
            subprocess.run(["usermod", "--shell", "/bin/sh", area.account.name], check=True)
        server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", place / "empty", "-p", str(port), "-o", "ListenAddress=127.0.0.1",
                                   "-h", place / "host", "-o", f"AuthorizedKeysFile={place}/key.pub", "-o", "StrictModes=no",
                                   "-o", "UsePAM=no", "-o", "PidFile=none"], **area.account.as_user())
    try:
        assert procfs.eventually(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        config = real_config(area, names)
        daemon = start_daemon(config=config.replace("open.test:*", "open.test:* tcp:git.test:22"), system=False)
        with daemon.connect() as client:
            client.call("workspace.open", {"root": str(place)})
            url = f"ssh://{area.account.name}@open.test:{port}{work}"
            cloned = observe(client, f"{git} clone -q {url} copy && git -C copy log --format=%s")
            assert cloned["output"]["stdout"] == "one\n", cloned
            assert cloned["network"]["connections"] == 1 and cloned["network"]["denied"] == []
            refused = observe(client, f"{git} clone -q {url.replace('open.test', 'no.test')} other")
            assert refused["network"]["denied"][0]["host"] == "no.test" and refused["output"]["exit_code"] != 0, refused
            assert daemon.reload(config)
            assert observe(client, "echo $GIT_SSH_COMMAND")["output"]["stdout"] == "\n"
    finally:
        server.kill()
        server.wait()


@pytest.mark.skipif(not AM_ROOT, reason="needs root to make users and map ids")
def test_real_restart(start_daemon, area, names, egress_users):
    """Tunnels end with cloister-egress; listeners do not."""
    waiting = egress.Host(egress.read_all)
    system = egress.Service(start_daemon, area, real_config(area, names, "{host}"), egress_users)
    with system.daemon.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        number = client.begin("run_command", {
            "command": f"curl -sS -m 100 -T - http://open.test:{waiting.port}/ < /dev/zero"})
        assert procfs.eventually(lambda: waiting.connections == 1)
        system.stop()
        observation = client.result(number)
        assert observation["output"]["exit_code"] != 0
        assert [refused["reason"] for refused in observation["network"]["denied"]] == ["proxy_lost"]
        number = client.begin("run_command", {"command": "curl -sS http://no.test/ | grep -q nothing"})
        system.start()
        assert client.result(number)["network"]["denied"][0]["host"] == "no.test"
    system.stop()
    waiting.close()


def test_real_end_of_a_workspace(real, web):
    """cloister-egress lets go of its sockets, so that nothing holds the network namespace."""
    def sockets():
        with acting_as(os.getuid()):
            (program,) = [pid for pid in procfs.pids() if procfs.name(pid) == "cloister-egress"
                          and str(real.area.path) in str(procfs.command_line(pid)) and " system " not in procfs.command_line(pid)]
            return len(procfs.fds(program))
    with real.connect() as client:
        # cloister-egress has started once it has summed up a command; until then its own descriptors come and go.
        client.call("workspace.open", {"workspace": "other"})
        assert observe(client, "true", workspace="other")["network"]["connections"] == 0
        before = sockets()
        client.call("workspace.open", {"workspace": "one"})
        observe(client, f"curl -s http://open.test:{web.port}/", workspace="one")
        assert sockets() > before
        client.call("workspace.close", {"workspace": "one"})
        assert procfs.eventually(lambda: sockets() == before)


def test_private_instance(area, web):
    """Without a configuration a host's own user says what is allowed; names go to the system's resolver."""
    directory = area.new_directory()
    allowed = area.private(directory, "--allow-net", f"127.0.0.1:{web.port}", "exec", "--", "sh", "-c",
                           f"curl -sS -x $HTTP_PROXY --noproxy '' http://127.0.0.1:{web.port}/; curl -sS https://no.test/")
    # A private address is not for a workspace, whatever the rule says.
    assert b"from the host" not in allowed.stdout and allowed.returncode != 0
    call = area.private(directory, "--allow-net", "open.test", "call", "run_command", "command=curl -sS https://no.test/")
    network = json.loads(call.stdout)["network"]
    assert network["denied"] == [{"host": "no.test", "port": 443, "reason": "not_allowed", "count": 1, "via": "connect"}]
    wrong = area.private(directory, "--allow-net", "a..test", "exec", "--", "true")
    assert wrong.returncode != 0 and b"--allow-net" in wrong.stderr
    wrong = area.private(directory, "--allow-net", "@nmp", "exec", "--", "true")
    assert wrong.returncode != 0 and b'--allow-net: "@nmp": no set has this name; the sets are: @npm ' in wrong.stderr
    without = area.private(directory, "call", "run_command", "command=env")
    assert "network" not in json.loads(without.stdout) and b"HTTP_PROXY" not in without.stdout
    service = area.run("cloister", "--allow-net", "open.test", "--workspace", "name", "exec", "--", "true")
    assert service.returncode != 0 and b"--allow-net is for a directory in a private instance" in service.stderr


def test_a_reload_that_would_need_cloister_egress(start_daemon, area):
    config = f"[cloister]\n[tenant t]\nusers = {area.account.name}\nmanaged = yes\n"
    plain = start_daemon(config=config, system=False)
    assert not plain.reload(config + "network = egress\n")
    assert "restart cloisterd" in plain.log()
