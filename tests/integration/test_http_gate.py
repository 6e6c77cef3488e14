# SPDX-License-Identifier: Apache-2.0
"""cloister-gate: keys, the native face, and what a key's connection may do."""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import threading
import urllib.parse

import pytest

import audit_log
import procfs
from cloister_client import Client, acting_as
from daemon import environment, where_is
from http_gate import Connection, HttpGate, call, config, daemon_behind, handshake, tls_settings

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")


@pytest.fixture(scope="module")
def module_daemon(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as running:
        yield running


@pytest.fixture(scope="module")
def gate(area, module_daemon, tenants):
    running = HttpGate(area, module_daemon, tenants[1])
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def blue(gate):
    return gate.key("blue", "--name", "blue")["key"]


def test_own_paths(gate):
    assert gate.request("GET", "/health").json() == {"status": "ok"}
    assert "cloister_gate_requests_total" in gate.request("GET", "/metrics").body.decode()
    for path in "/", "/healthz", "/health/", "/HEALTH", "/%68ealth", "//health", "/agent/..", "/../health":
        assert gate.request("GET", path).status == 404, path
    assert gate.request("POST", "/health").status == 405


def test_the_native_protocol_runs_through_the_gate(gate, blue):
    with gate.agent(blue) as connection:
        assert call(connection, "workspace.open", {"workspace": "native"})["tenant"] == "blue"
        content = "x" * 3_000_000
        written = call(connection, "tool.call", {"tool": "write_file", "arguments": {"path": "f", "content": content}})
        assert written["success"], written["error"]
        command = {"tool": "run_command", "arguments": {"command": "wc -c < f; head -c 900000 f"}}
        assert call(connection, "tool.call", command)["output"]["stdout_bytes"] == len("3000000\n") + 900_000


def test_a_connection_without_upgrade_is_told(gate, blue):
    answer = gate.request("GET", "/agent", blue)
    assert answer.status == 426 and answer.headers["upgrade"] == "cloister"


def test_requests_that_came_with_the_upgrade_are_not_lost(gate, blue):
    with gate.connect() as connection:
        connection.send(gate.head("GET", "/agent", blue, "Connection: Upgrade", "Upgrade: cloister") +
                        '{"jsonrpc":"2.0","id":"first","method":"workspace.list","params":{}}\n')
        assert connection.answer().status == 101
        assert b'"first"' in connection.line()


def test_keys_that_are_none(gate, blue):
    for key in None, "", "e2b_", "e2b_" + "0" * 40, blue[:-1], blue + "0", blue.upper(), blue[:-1] + "g":
        answer = gate.request("GET", "/agent", key)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert blue not in answer.body.decode()
    assert gate.request("GET", "/agent", headers=[f"X-API-Key: {blue}"]).status == 426
    assert gate.request("GET", "/agent", headers=[f"Authorization: bearer {blue}"]).status == 426


def test_a_key_is_nowhere_but_with_its_owner(gate, blue):
    with gate.agent(blue) as connection:
        call(connection, "workspace.open", {"workspace": "quiet"})
    secret = blue.removeprefix("e2b_")
    assert secret not in gate.keys.read_text() and blue not in gate.log()
    assert secret not in gate.request("GET", "/metrics").body.decode()
    assert secret not in gate.ctl("key", "list") and "blue" in gate.ctl("key", "list")
    for log in gate.daemon.state.rglob("*log*"):
        assert not log.is_file() or secret.encode() not in log.read_bytes(), log


def test_revoking_ends_what_is_open(gate):
    made = gate.key("blue", "--name", "short")
    with gate.agent(made["key"]) as connection:
        call(connection, "workspace.open", {"workspace": "revoked"})
        gate.ctl("key", "revoke", "short")
        assert connection.is_closed()
    assert gate.agent(made["key"]).status == 401


def test_a_key_of_another_tenant_ends_what_is_open(gate):
    """Somebody who edits the file may leave a key's id."""
    made = gate.key("blue", "--name", "moved")
    with gate.agent(made["key"]) as connection:
        assert call(connection, "workspace.open", {"workspace": "moved"})["tenant"] == "blue"
        gate.move_key("moved", "blue", "green")
        assert connection.is_closed()
    with gate.agent(made["key"]) as connection:
        assert call(connection, "workspace.open", {"workspace": "moved"})["tenant"] == "green"
    gate.ctl("key", "revoke", "moved")


def test_an_expired_key_is_none(gate):
    made = gate.key("blue", "--expires", "1s")
    with gate.connect() as connection:
        connection.send(gate.head("GET", "/agent", made["key"], "Connection: Upgrade", "Upgrade: cloister"))
        answer = connection.answer()
        assert answer.status == 401 or connection.is_closed()
    assert gate.agent(made["key"]).status == 401


def test_a_tenant_is_only_its_keys(gate, blue):
    green = gate.key("green")["key"]
    with gate.agent(green) as connection:
        assert call(connection, "workspace.open", {"workspace": "mine"})["tenant"] == "green"
        assert call(connection, "workspace.open", {"workspace": "mine", "tenant": "blue"})["data"]["code"] == "FORBIDDEN"
        assert {row["tenant"] for row in call(connection, "workspace.list")["workspaces"]} == {"green"}
        # Bound once: a second binding ends the connection.
        assert call(connection, "connection.bind", {"tenant": "blue"})["data"]["code"] == "INVALID_ARGUMENTS"
        assert connection.is_closed()


def test_a_tenant_that_does_not_use_the_gate(gate):
    for tenant in "closed", "none-such":
        answer = gate.agent(gate.key(tenant)["key"])
        assert answer.status == 403, tenant


def test_a_tenants_connections_are_bounded(gate):
    green = gate.key("green")["key"]
    with gate.agent(green), gate.agent(green):
        answer = gate.agent(green)
        assert answer.status == 503 and answer.headers["retry-after"] == "1"


def test_a_key_of_one_workspace(gate, blue):
    with gate.agent(blue) as connection:
        call(connection, "workspace.open", {"workspace": "other"})
        session = call(connection, "session.start", {"command": "sleep 60"})["session"]
        narrow = gate.key("blue", "--workspace", "only")["key"]
        with gate.agent(narrow) as bound:
            refused = [
                ("workspace.open", {"workspace": "other"}, "FORBIDDEN"),
                ("workspace.open", {"root": "/tmp"}, "FORBIDDEN"),
                ("workspace.remove", {"workspace": "other"}, "FORBIDDEN"),
                ("workspace.update", {"workspace": "other", "labels": {"a": "b"}}, "FORBIDDEN"),
                ("workspace.checkpoint", {"workspace": "other"}, "WORKSPACE_NOT_FOUND"),
                ("workspace.forward", {"workspace": "other", "port": 8080}, "WORKSPACE_NOT_FOUND"),
                ("workspace.fork", {"from": "t"}, "FORBIDDEN"),
                ("workspace.freeze", {"template": "t"}, "FORBIDDEN"),
                ("session.read", {"session": session}, "SESSION_NOT_FOUND"),
                ("session.end", {"session": session}, "SESSION_NOT_FOUND"),
                ("tool.call", {"workspace": "other", "tool": "read_file", "arguments": {"path": "f"}}, "WORKSPACE_NOT_FOUND"),
            ]
            for method, params, code in refused:
                result = call(bound, method, params)
                found = result.get("data", result.get("error")) or {}
                assert found.get("code") == code, (method, result)
            assert call(bound, "workspace.open", {"workspace": "only"})["workspace"] == "only"
            assert [row["workspace"] for row in call(bound, "workspace.list")["workspaces"]] == ["only"]
            assert call(bound, "session.list")["sessions"] == []
        call(connection, "session.end", {"session": session})


def test_the_gate_acts_for_nobody_before_it_is_bound(module_daemon, tenants):
    with Client(module_daemon.socket, tenants[1].uid, tenants[1].gid) as client:
        for method, params in ("workspace.open", {"workspace": "w"}), ("workspace.open", {"workspace": "w", "tenant": "blue"}):
            assert client.call_error(method, params) == "FORBIDDEN"
        assert client.call_error("workspace.list") == "FORBIDDEN"
    with Client(module_daemon.socket, tenants[1].uid, tenants[1].gid) as client:
        assert client.call_error("connection.bind", {"tenant": "closed"}) == "FORBIDDEN"


def test_another_user_may_narrow_itself_only(module_daemon, tenants):
    with Client(module_daemon.socket, tenants[0].uid, tenants[0].gid) as client:
        assert client.call("connection.bind", {"tenant": "closed"}) == {"tenant": "closed"}
        assert client.call_error("workspace.open", {"workspace": "w", "tenant": "blue"}) == "FORBIDDEN"
        assert client.call("workspace.open", {"workspace": "w"})["tenant"] == "closed"
    with Client(module_daemon.socket, tenants[0].uid, tenants[0].gid) as client:
        assert client.call_error("connection.bind", {"tenant": "green"}) == "FORBIDDEN"


def test_the_audit_log_names_the_key(gate):
    made = gate.key("blue", "--name", "audited")
    with gate.agent(made["key"]) as connection:
        call(connection, "workspace.open", {"workspace": "audited"})
    expected = {("connection.bound", made["id"]), ("workspace.opened", made["id"])}

    def is_told():
        lines = audit_log.read_so_far(gate.daemon.state / "audit" / "audit.log")
        return expected <= {(line["event"], line.get("gate_key")) for line in lines}
    assert procfs.eventually(is_told)


def test_a_tenant_leaves_connections_to_others(area, module_daemon, tenants):
    """One with many addresses could hold them all."""
    gate = HttpGate(area, module_daemon, tenants[1], "connections = 16")
    keys = {tenant: gate.key(tenant)["key"] for tenant in ("blue", "green")}
    with contextlib.ExitStack() as stack:
        def ask(tenant, connection=None):
            connection = connection or stack.enter_context(gate.connect())
            connection.send(gate.head("DELETE", "/mcp", keys[tenant]))
            return connection, connection.answer()

        held = [ask("blue") for _ in range(9)]
        assert [answer.status for _, answer in held] == [400] * 8 + [503]
        assert held[8][1].headers["retry-after"] == "1" and held[8][0].is_closed()
        assert ask("blue", held[0][0])[1].status == 400  # what it holds it may use
        assert ask("green")[1].status == 400
        assert ask("blue")[1].status == 503
        assert "cloister_gate_connections_over_share_total 2\n" in metrics(gate)
    assert gate.stop() == 0


def test_failed_keys_are_counted_by_address(area, module_daemon, tenants):
    gate = HttpGate(area, module_daemon, tenants[1], "failed_keys = 3")
    try:
        key = gate.key("blue")["key"]
        statuses = [gate.request("GET", "/agent", "e2b_" + "0" * 40).status for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert len(re.findall("key refused", gate.log())) == 2  # the first, and the last that is looked at
        with gate.agent(key) as connection:  # others' failures refuse no valid key
            assert call(connection, "workspace.list")
    finally:
        gate.stop()


def test_a_person_starts_a_gate_alone(area, tenants):
    """cloister gate has everything from a directory of its own, which is gone afterwards."""
    with acting_as(0):
        if not (area.bin / "cloister-gate").exists():
            shutil.copy(where_is("cloister-gate"), area.bin)
    runtime = area.new_directory("runtime")
    env = environment(area.new_directory("home")) | {"XDG_RUNTIME_DIR": str(runtime)}
    process = area.start(["cloister", "--json", "gate"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=env)
    made = json.loads(process.stdout.readline())
    address = urllib.parse.urlsplit(made["url"])
    with Connection((address.hostname, address.port)) as connection:
        connection.send(f"GET /agent HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: Upgrade\r\nUpgrade: cloister\r\n"
                        f"X-API-Key: {made['key']}\r\n\r\n")
        assert connection.answer().status == 101
        assert call(connection, "workspace.open", {"workspace": "w"})["kind"] == "managed"
        control = Client(next(runtime.rglob("control.sock")), area.account.uid, area.account.gid)
        assert procfs.eventually(lambda: "\ncloister_spare_cells 2\n" in control.call("metrics")["text"])
        control.close()
        with acting_as(0):
            process.send_signal(signal.SIGINT)
        assert connection.is_closed()
    assert process.wait(60) == 0 and list(runtime.iterdir()) == []
    assert made["key"].encode() not in process.stderr.read()
    process.stdout.close(), process.stderr.close()


def test_the_native_protocol_runs_through_tls(area, module_daemon, tenants):
    gate = HttpGate(area, module_daemon, tenants[1], *tls_settings(area, tenants[1]))
    try:
        key = gate.key("blue", "--name", "tls")["key"]
        with gate.agent(key, connection=handshake(gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)) as connection:
            assert call(connection, "workspace.open", {"workspace": "tls"})["tenant"] == "blue"
            command = {"tool": "run_command", "arguments": {"command": "seq 100000"}}
            assert call(connection, "tool.call", command)["output"]["stdout_bytes"] == 588895
            # cloisterd's end of the connection is the client's.
            assert call(connection, "connection.bind", {"tenant": "blue"})["data"]["code"] == "INVALID_ARGUMENTS"
            assert connection.is_closed()
        with gate.agent(key, connection=handshake(gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)) as connection:
            call(connection, "workspace.open", {"workspace": "tls"})
            gate.ctl("key", "revoke", "tls")
            assert connection.is_closed()
    finally:
        assert gate.stop() == 0


def metrics(gate):
    with Connection(gate.unix) as connection:
        connection.send(gate.head("GET", "/metrics", None, "Connection: close"))
        answer = connection.answer()
        return answer.head + answer.body.decode()


@pytest.fixture(scope="module")
def tls_gate(area, module_daemon, tenants):
    """A gate with TLS, and a key."""
    gate = HttpGate(area, module_daemon, tenants[1], *tls_settings(area, tenants[1]))
    yield gate, gate.key("blue", "--name", "tls")["key"]
    assert gate.stop() == 0


def test_tls_is_not_crumbled(area, module_daemon, tenants):
    """An answer comes in records of TLS that are as large as may be, each of which recv() gives alone, and an unread one ends
    with its key."""
    gate = HttpGate(area, module_daemon, tenants[1], *tls_settings(area, tenants[1]))
    try:
        key = gate.key("blue", "--name", "crumbs")["key"]
        with gate.agent(key, connection=handshake(gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)) as connection:
            call(connection, "workspace.open", {"workspace": "crumbs"})
            content = "x" * 600_000
            assert call(connection, "tool.call", {"tool": "write_file", "arguments": {"path": "f", "content": content}})["success"]
            command = {"tool": "run_command", "arguments": {"command": "cat f"}, "options": {"stream": False}}
            connection.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tool.call", "params": command}) + "\n")
            sizes = []
            while not connection.read.endswith(b"\n"):
                sizes.append(len(connection.more()))
            assert sum(sizes) > 250_000 and len(sizes) < 250, sizes[:20]
            assert json.loads(connection.line())["result"]["success"]
            flood = {"tool": "run_command", "arguments": {"command": "cat /dev/zero"}, "options": {"stream": True, "timeout_ms": 600_000}}
            connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tool.call", "params": flood}) + "\n")
            assert connection.more()
            gate.ctl("key", "revoke", "crumbs")
            assert procfs.eventually(lambda: "cloister_gate_links_open 0" in metrics(gate))
    finally:
        assert gate.stop() == 0


@pytest.mark.parametrize("padding", [0, 7000, 12_000, 40_000])
def test_requests_that_came_with_the_upgrade_through_tls(tls_gate, padding):
    """Some of them are in libmicrohttpd's memory then, some are decrypted, and some are not."""
    gate, key = tls_gate
    connection = handshake(gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    with connection:
        requests = [json.dumps({"jsonrpc": "2.0", "id": number, "method": "workspace.list", "params": {}}) + " " * padding + "\n"
                    for number in range(3)]
        connection.send(gate.head("GET", "/agent", key, "Connection: Upgrade", "Upgrade: cloister") + "".join(requests))
        assert connection.answer().status == 101
        assert [json.loads(connection.line())["id"] for _ in requests] == [0, 1, 2]


def probe(gate, *options):
    return subprocess.run([gate.program, "--config", gate.path / "gate.conf", "--probe", *options], capture_output=True, text=True, timeout=120)


@pytest.mark.deep("slow")
def test_a_gate_refuses_what_the_probe_asks_for(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0]).replace("connections = 2", "")) as running:
        gate = HttpGate(area, running, tenants[1])
        keys = gate.path / "two"
        with acting_as(0):
            keys.write_text(f"{gate.key('blue')['key']}\n{gate.key('green')['key']}\n")
            done = probe(gate, "--probe-keys", keys)
        assert gate.stop() == 0
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * 16 and all(line.startswith("ok ") for line in lines), done.stdout


class Yes(http.server.BaseHTTPRequestHandler):
    """A server that takes everything."""

    def do_GET(self):
        body = json.dumps({"sandboxID": "a" * 20}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


def test_the_probe_finds_a_server_that_takes_everything(gate, area, tenants):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Yes) as server, acting_as(0):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = area.new_directory("probed")
        tenants[1].own(place)
        (place / "gate.conf").write_text(f"[gate]\nlisten = 127.0.0.1:{server.server_port}\n")
        tenants[1].own(place / "gate.conf")
        (place / "two").write_text("one\ntwo\n")
        done = subprocess.run([gate.program, "--config", place / "gate.conf", "--probe", "--probe-keys", place / "two"],
                              capture_output=True, text=True, timeout=120)
        server.shutdown()
    assert done.returncode == 1, done.stderr
    assert [line.split(": ", 1)[1] for line in done.stdout.splitlines() if line.startswith("ok ")] == ["it serves (200)"], done.stdout + done.stderr
    assert done.stdout.count("FAILED") == 15
