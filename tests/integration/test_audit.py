# SPDX-License-Identifier: Apache-2.0
"""The audit log: its lines, and its hash chain, which shows every change."""

import hashlib
import json
import os
import re
import time

import pytest

import procfs
from audit_log import Audited, audited, config, read_so_far, verify
from daemon import ROOT, Daemon

GENESIS = "0" * 64


def digest(arguments):
    """Returns the digest of a call's arguments, as supervisor/audit/audit.h describes it."""
    sha256 = hashlib.sha256()
    for name in sorted(arguments, key=str.encode):
        value = arguments[name]
        kind = "s" if isinstance(value, str) else "j"
        data = (value if kind == "s" else json.dumps(value, separators=(",", ":"))).encode()
        sha256.update(name.encode() + b"\0" + f"{kind}{len(data)}".encode() + b"\0" + data)
    return sha256.hexdigest()


def test_a_call_takes_what_the_guide_says(audited):
    """The operator's guide sizes the volume of the log by a figure, and has a table of it."""
    guide = (ROOT / "doc" / "operators-guide.md").read_text()
    (figure,) = map(int, re.findall(r"A call takes about ([0-9]+) bytes\.", guide))
    audited.settle()
    before = audited.log.stat().st_size
    for _ in range(20):
        audited.client.use("list_directory", path=".")
        audited.observe("true")
    audited.settle()
    assert abs((audited.log.stat().st_size - before) / 40 / figure - 1) < 0.1
    for rate, unit, amount in re.findall(r"^\| ([0-9]+) \| ([0-9.]+ [MG]B) \| (.*) \|$", guide, re.M):
        a_day = int(rate) * 86400 * figure
        assert float(unit.split()[0]) * {"MB": 1e6, "GB": 1e9}[unit.split()[1]] == pytest.approx(a_day, rel=0.02)
        days = float(amount.split()[0]) / {"days": 1, "hours": 24}[amount.split()[1]]
        assert days == pytest.approx((4 << 30) / a_day, rel=0.1)


# The lines


def test_a_call_and_its_end(audited):
    arguments = {"command": "echo hällo; exit 3", "timeout_ms": 20000}
    audited.client.call("tool.call", {"tool": "run_command", "arguments": arguments})
    (begun,), (ended,) = audited.events("call.admitted"), audited.events("call.ended")
    account = audited.area.account
    for line in begun, ended:
        assert (line["uid"], line["gid"], line["pid"]) == (account.uid, account.gid, os.getpid())
        assert (line["tenant"], line["workspace"], line["tool"]) == ("t", "w", "run_command")
        assert line["call"] == begun["call"]
    assert (begun["decision"], begun["arguments"], begun["deadline_ms"]) == ("allow", digest(arguments), 20000)
    assert (ended["success"], ended["code"], ended["cause"]) == (True, None, "exit")
    assert ended["wait_status"] == 3 << 8
    assert ended["usage"]["wall_us"] > 0 and ended["usage"]["max_rss_bytes"] > 0
    assert begun["time"] <= ended["time"]


def test_mcp_calls_are_recorded_like_native_ones(audited):
    client = audited.client
    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
               "io.modelcontextprotocol/clientCapabilities": {}}

    def ask(name, arguments, **more):
        params = {"name": name, "arguments": arguments, "_meta": {**version, **more}}
        return client.wait(client.request("tools/call", params))

    assert not ask("write_file", {"path": "a", "content": "b"})["result"]["isError"]
    for refused in (ask("no_such_tool", {}), ask("read_file", 1), ask("read_file", {}, progressToken=[])):
        assert refused["error"]["code"] == -32602
    assert ask("read_file", {"path": "../x"})["result"]["isError"]
    assert ask("read_file", {"path": "a"}, **{"cloister/workspace": "other"})["result"]["isError"]
    assert "error" in ask("read_file", {"path": "a"}, **{"cloister/workspace": 1})
    running = client.begin("run_command", {"command": "sleep 600"})
    client.send({"jsonrpc": "2.0", "id": running, "method": "tool.call",
                 "params": {"tool": "read_file", "arguments": {"path": "a"}}})
    assert client.receive_any()["error"]["code"] == -32600
    client.notify("notifications/cancelled", {"requestId": 0})
    client.notify("tool.cancel", {"id": running})
    assert client.result(running)["error"]["code"] == "CANCELLED"
    assert [(line["code"], line.get("tool")) for line in audited.events("call.refused")] == [
        ("UNKNOWN_TOOL", "no_such_tool"), ("INVALID_PARAMS", "read_file"), ("INVALID_PARAMS", "read_file"),
        ("PATH_OUTSIDE_WORKSPACE", "read_file"), ("WORKSPACE_NOT_FOUND", "read_file"), ("INVALID_PARAMS", None),
        ("INVALID_REQUEST", None)]
    for event in "call.admitted", "call.ended":
        assert [line["tool"] for line in audited.events(event)] == ["write_file", "run_command"]


def test_a_replaced_template(audited, area):
    source = area.new_directory("source")
    with audited.daemon.control() as control:
        for _ in range(2):
            audited.client.call("workspace.freeze", {"template": "t", "replace": True})
            control.call("template.import", {"template": "u", "path": str(source), "replace": True})
    assert [line.get("replaced") for line in audited.events("workspace.frozen")] == [None, True]
    assert [line["outcome"] for line in audited.events("admin.act") if line["act"] == "template.import"] == ["done", "replaced"]


def test_the_self_tests_calls_are_cloisterds_own(audited):
    with audited.daemon.control() as control:
        assert control.call("selftest", timeout=300)["result"] == "passed"
    account, pid = audited.area.account, audited.daemon.pid
    begun, ended = audited.events("call.admitted"), audited.events("call.ended")
    assert begun and sorted(line["call"] for line in begun) == sorted(line["call"] for line in ended)
    for line in begun + ended:
        assert (line["tenant"], line["uid"], line["gid"], line["pid"]) == (".selftest", account.uid, account.gid, pid)
    (act,) = audited.events("admin.act")
    assert (act["act"], act["outcome"]) == ("selftest", "done")


@pytest.mark.deep("busy")
def test_strangers_are_told_of_but_cannot_fill_the_disk(start_daemon, area, tenants):
    daemon = start_daemon(config=config(area).replace("audit = on\n", "audit = on\nagent_socket_mode = 0666\n"))
    began = time.monotonic()
    for _ in range(200):
        daemon.connect(tenants[0]).close()
    log = daemon.state / "audit" / "audit.log"

    def strangers():
        return [line for line in read_so_far(log) if line["event"] == "stranger.refused"]

    def accounted():
        with daemon.control() as control:
            queued = control.call("status")["audit"]["queued_bytes"]
        return queued == 0 and len(strangers()) + sum(s.get("strangers_before", 0) for s in strangers())

    assert procfs.eventually(lambda: accounted() and strangers())
    assert strangers()[0]["uid"] == tenants[0].uid and strangers()[0]["socket"] == "agent"
    # LIMIT_AUDIT_UNAUTHORIZED for each second in which one of these came.
    assert len(strangers()) <= 16 * (time.monotonic() - began + 2)
    # One more in a later second brings the line that counts those without a line.
    assert procfs.eventually(lambda: [daemon.connect(tenants[0]).close()] and accounted() >= 200)
    with daemon.control(tenants[1]) as other:
        other.request("status")
        other.receive()
    assert procfs.eventually(lambda: strangers()[-1]["socket"] == "control" or
                             [daemon.control(tenants[1]).close()] and False, 20)


# The chain


@pytest.fixture(scope="module")
def long_log(area, tmp_path_factory):
    """Fills a log with some lines."""
    started = []

    def start(**keywords):
        started.append(Daemon(area, **keywords))
        return started[-1]

    audited = Audited(start, area)
    for i in range(8):
        audited.client.call("tool.call", {"tool": "write_file", "arguments": {"path": f"f{i}", "content": "x"}})
    audited.written()
    started[0].stop()
    return audited.log.read_bytes().splitlines(keepends=True)


def test_each_line_has_the_hash_of_the_one_before(long_log):
    before = GENESIS
    for number, line in enumerate(long_log, 1):
        fields = json.loads(line)
        assert (fields["seq"], fields["prev"]) == (number, before)
        body = line[:line.rindex(b',"hash":"')]
        assert fields["hash"] == hashlib.sha256(body).hexdigest()
        before = fields["hash"]
    assert len(long_log) > 16


def damaged(lines, kind):
    lines = list(lines)
    if kind == "changed":
        lines[6] = lines[6].replace(b'"tenant":"t"', b'"tenant":"u"')
    elif kind == "missing":
        del lines[6:9]
    elif kind == "swapped":
        lines[6], lines[7] = lines[7], lines[6]
    elif kind == "twice":
        lines.insert(7, lines[6])
    elif kind == "added":
        lines.insert(6, b"what a nice day\n")
    elif kind == "written anew":
        body = lines[6][:lines[6].rindex(b',"hash":"')].replace(b'"tenant":"t"', b'"tenant":"u"')
        lines[6] = body + b',"hash":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
    elif kind == "blank":
        lines.insert(6, b"\n")
    elif kind == "NUL":
        lines[6] = lines[6][:20] + b"\0" + lines[6][21:]
    return lines


@pytest.mark.parametrize("kind, where, what", [
    ("changed", 7, "changed"), ("missing", 7, "3 lines are missing"), ("swapped", 7, "1 lines are missing"),
    ("twice", 8, "a copy of the line"), ("added", 7, "not a line of an audit log"), ("written anew", 8, "rewritten"),
    ("blank", 7, "not a line of an audit log"), ("NUL", 7, "not a line of an audit log")])
def test_what_was_done_to_a_line_is_named(long_log, area, kind, where, what):
    path = area.new_directory("audit") / "log"
    path.write_bytes(b"".join(damaged(long_log, kind)))
    status, said = verify(area, path)
    assert status == 1
    assert said[0].startswith(f"{path}:{where}: ") and what in said[0], said
    path.write_bytes(b"".join(long_log))
    assert verify(area, path)[0] == 0


def test_files_in_their_order(long_log, area):
    directory = area.new_directory("audit")
    first, second, third = (directory / name for name in ("1", "2", "3"))
    first.write_bytes(b"".join(long_log[:5]))
    second.write_bytes(b"".join(long_log[5:9]))
    third.write_bytes(b"".join(long_log[9:]))
    assert verify(area, first, second, third)[0] == 0
    assert verify(area, second, third)[0] == 0
    status, said = verify(area, first, third)
    assert status == 1 and said[0] == f"{third}:1: 4 lines are missing before this one (6 to 9)"
    status, said = verify(area, first, third, second)
    assert status == 1 and said[1].startswith(f"{second}:1: out of order")
    second.write_bytes(b"".join(long_log[5:8]))
    status, said = verify(area, first, second, third)
    assert status == 1 and said[0].startswith(f"{third}:1: 1 lines are missing")
    # Only a reader who knows the last hash notices that the end was cut off.
    last = json.loads(long_log[-1])["hash"]
    third.write_bytes(b"".join(long_log[9:-1]))
    second.write_bytes(b"".join(long_log[5:9]))
    assert verify(area, first, second, third)[0] == 0
    assert verify(area, "--contains", last, first, second, third)[0] == 1
    third.write_bytes(b"".join(long_log[9:]))
    assert verify(area, "--contains", last, first, second, third)[0] == 0


def test_verify_says_what_it_cannot_do(area):
    assert verify(area, "/no/such/file")[0] == 3
    assert verify(area, area.path)[0] == 3
    assert area.run("cloisterctl", "audit", "verify").returncode == 2
    assert area.run("cloisterctl", "audit", "burn", "x").returncode == 2
    assert area.run("cloisterctl", "--contains", "x", "status").returncode == 2
