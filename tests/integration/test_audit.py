# SPDX-License-Identifier: Apache-2.0
"""The audit log: its lines, its hash chain, which shows every change, and calls that go on when the disk is slow or
full."""

import contextlib
import hashlib
import json
import os
import pathlib
import platform
import re
import resource
import shlex
import signal
import subprocess
import time

import pytest

import procfs
from cloister_client import RpcError
from daemon import BUILD, ROOT

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount, to trace, or to act as others")
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


def config(area, mode="on", path=None, settings=""):
    where = f"audit_file = {path}\n" if path else ""
    return (f"[cloister]\naudit = {mode}\n{where}admin_group = {area.account.gid}\n{settings}"
            f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nroots = {area.path}\n")


def read(path):
    return [json.loads(line) for line in pathlib.Path(path).read_bytes().splitlines()]


def read_so_far(path):
    """Returns the complete lines of a log that is still being written."""
    data = pathlib.Path(path).read_bytes()
    return [json.loads(line) for line in data[:data.rfind(b"\n") + 1].splitlines()]


def verify(area, *words):
    """Runs the verifier. Returns its exit status and the lines that it prints."""
    done = area.run("cloisterctl", "audit", "verify", *map(str, words))
    assert done.stderr == b"" or done.returncode == 3, done.stderr
    return done.returncode, done.stdout.decode().splitlines()


class Audited:
    """A daemon with an audit log, and a client that has opened a workspace."""

    def __init__(self, start_daemon, area, mode="on", path=None, settings="", **keywords):
        self.area = area
        self.daemon = start_daemon(config=config(area, mode, path, settings), **keywords)
        self.log = pathlib.Path(path or self.daemon.state / "audit" / "audit.log")
        self.client = self.daemon.connect()
        if "selftest = required" in settings:  # calls are refused until the self-test has passed
            assert procfs.eventually(lambda: "probes passed" in self.daemon.log(), 60)
        self.client.call("workspace.open", {"workspace": "w"})

    def observe(self, command):
        return self.client.observe("run_command", {"command": command})

    def status(self):
        with self.daemon.control() as control:
            return control.call("status")["audit"]

    def written(self):
        """Returns the lines when all of them are written."""
        self.settle()
        return read(self.log)

    def settle(self):
        """Waits until no line is queued. The line that counts lost lines comes after these."""
        def settled():
            status = self.status()
            if status["queued_bytes"] > 0 or status["error"]:
                return False
            return status["lost"] == 0 or losses(read_so_far(self.log)) == status["lost"]
        assert procfs.eventually(settled, 60), self.status()

    def events(self, name):
        return [line for line in self.written() if line["event"] == name]

    def verify(self, *files):
        self.settle()
        return verify(self.area, *(files or [self.log]))

    def thread(self):
        (found,) = [int(task.name) for task in pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()
                    if (task / "comm").read_text() == "audit\n"]
        return found


@pytest.fixture
def audited(start_daemon, area):
    return Audited(start_daemon, area)


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


def test_the_digest_does_not_depend_on_the_form(audited):
    same = [
        {"tool": "write_file", "arguments": {"path": "a", "content": "ü/\n", "create_dirs": True}},
        {"tool_call": {"function": {"name": "write_file", "arguments":
                                    '{ "create_dirs":true,"content":"\\u00fc\\/\\n", "path":"\\u0061"}'}}},
    ]
    for params in same:
        assert audited.client.call("tool.call", params)["success"]
    other = {"path": "a", "content": "ü/\n", "create_dirs": False}
    audited.client.call("tool.call", {"tool": "write_file", "arguments": other})
    audited.client.call("tool.call", {"tool": "read_file", "arguments": {},
                                      "options": {"path_base64": "YQ=="}})
    found = [line["arguments"] for line in audited.events("call.admitted")]
    expected = digest({"path": "a", "content": "ü/\n", "create_dirs": True})
    assert found == [expected, expected, digest(other), digest({"path_base64": "YQ=="})]
    # The log does not contain the content of the file.
    assert "ü" not in audited.log.read_text() and "u00fc" not in audited.log.read_text()


def test_what_is_refused(audited):
    client = audited.client
    client.call("tool.call", {"tool": "no_such_tool", "arguments": {}})
    client.call("tool.call", {"tool": "read_file", "arguments": {"path": "../x"}})
    with pytest.raises(RpcError):
        client.call("tool.call", {"tool": "read_file", "arguments": {"path": "a"}, "nonsense": 1})
    with pytest.raises(RpcError):
        client.call("tool.call", {"tool": "read_file", "arguments": {"path": "a"}, "workspace": "other"})
    # cloisterd refuses notifications too, although these have no answer.
    client.notify("tool.call", {"tool": "no_such_tool", "arguments": {}})
    with pytest.raises(RpcError):
        client.call("workspace.open", {"root": "/"})
    refused = audited.events("call.refused")
    assert [line["code"] for line in refused] == [
        "UNKNOWN_TOOL", "PATH_OUTSIDE_WORKSPACE", "INVALID_PARAMS", "WORKSPACE_NOT_FOUND", "UNKNOWN_TOOL"]
    assert refused[0]["tool"] == "no_such_tool" and refused[1]["workspace"] == "w"
    assert all(line["decision"] == "refuse" and line["uid"] == audited.area.account.uid for line in refused)
    (opening,) = audited.events("workspace.open")
    assert (opening["workspace"], opening["code"]) == ("/", "FORBIDDEN")
    assert not audited.events("call.admitted")
    assert audited.verify()[0] == 0


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


def test_workspaces_and_admins(audited):
    client, daemon = audited.client, audited.daemon
    begun = client.begin("run_command", {"command": "sleep 600"})
    with daemon.control() as control:
        (call,) = procfs.eventually(lambda: [c for c in control.call("commands")["calls"] if c["state"] == "running"])
        control.call("kill", {"call": call["call"]})
        assert client.result(begun)["output"]["ended_by"] == "admin"
        for act in "drain", "resume", "reload":
            control.call(act)
    client.call("workspace.remove", {"workspace": "w"})
    acts = [(line["act"], line.get("target"), line["outcome"]) for line in audited.events("admin.act")]
    assert acts == [("kill", call["call"], "done"), ("drain", None, "done"), ("resume", None, "done"),
                    ("reload", None, "done")]
    assert all(line["uid"] == audited.area.account.uid for line in audited.events("admin.act"))
    assert audited.events("call.ended")[0]["cause"] == "admin"
    names = [line["event"] for line in audited.written() if line["event"].startswith("workspace.")]
    assert names == ["workspace.opened", "workspace.closed", "workspace.removed"]
    assert not daemon.reload(config(audited.area) + "nonsense = 1\n")
    by_signal = audited.events("admin.act")[-1]
    assert (by_signal["by"], by_signal["outcome"]) == ("signal", "EXECUTION_ERROR")


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


@as_root
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
    from daemon import Daemon

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


# Ends, restarts, rotation


def restart(audited, start_daemon):
    """Starts another daemon on the same log."""
    return Audited(start_daemon, audited.area, path=audited.log)


def test_the_chain_goes_on_after_a_restart(audited, start_daemon):
    audited.client.run("true")
    assert audited.daemon.stop() == 0
    assert read(audited.log)[-1]["event"] in ("workspace.closed", "call.ended")
    again = restart(audited, start_daemon)
    opened = again.events("audit.opened")
    assert [(line["reason"], line["chain"]) for line in opened] == [("start", "new"), ("start", "continued")]
    assert again.verify()[0] == 0


@pytest.mark.parametrize("cut", [2, 30, 200])
def test_a_torn_last_line_is_kept_and_told(audited, start_daemon, area, cut):
    audited.client.run("true")
    audited.written()
    audited.daemon.process.kill()
    audited.daemon.process.wait()
    whole = audited.log.read_bytes()
    torn = whole.splitlines(keepends=True)[-1][:-cut]
    audited.log.write_bytes(whole[:-cut])
    status, said = verify(area, audited.log)
    assert status == 4 and "the last line is unfinished" in said[0]
    again = restart(audited, start_daemon)
    again.client.run("true")
    status, said = again.verify()
    assert status == 0, said
    assert f"{len(torn)} bytes of an unfinished line" in said[0]
    assert torn + b"\n" in audited.log.read_bytes()
    # A torn line that no later line reports is a change.
    lines = audited.log.read_bytes().splitlines(keepends=True)
    lines[lines.index(torn + b"\n")] = torn[:-1] + b"\n"
    audited.log.write_bytes(b"".join(lines))
    assert verify(area, audited.log)[0] == 1


def test_a_line_without_its_end_of_line_is_whole(audited, start_daemon, area):
    audited.client.run("true")
    audited.written()
    audited.daemon.process.kill()
    audited.daemon.process.wait()
    audited.log.write_bytes(audited.log.read_bytes()[:-1])
    assert verify(area, audited.log)[0] == 0
    again = restart(audited, start_daemon)
    status, said = again.verify()
    assert status == 0 and len(said) == 1 and said[0].startswith(f"{again.status()['lines']} lines")


def rotate(audited, number):
    former = audited.log.with_name(f"rotated.{number}")
    audited.log.rename(former)
    return former


@pytest.mark.parametrize("how", ["SIGHUP", "reload"])
def test_rotation(audited, how):
    files = []
    for number in range(3):
        audited.client.run(f"true {number}")
        audited.written()
        files.append(rotate(audited, number))
        if how == "SIGHUP":
            audited.daemon.process.send_signal(signal.SIGHUP)
        else:
            with audited.daemon.control() as control:
                control.call("reload")
        assert procfs.eventually(audited.log.exists)
    audited.client.run("true")
    status, said = audited.verify(*files, audited.log)
    assert status == 0, said
    rotations = [line for path in files[1:] + [audited.log] for line in read(path)
                 if line.get("reason") == "rotation"]
    assert len(rotations) == 3 and all(line["chain"] == "continued" for line in rotations)
    commands = [line for path in files + [audited.log] for line in read(path) if line["event"] == "call.ended"]
    assert len(commands) == 4
    # Without a rename, a reopening changes nothing.
    audited.daemon.process.send_signal(signal.SIGHUP)
    audited.client.run("true")
    assert procfs.eventually(lambda: audited.events("admin.act")[-1]["outcome"] == "done")
    assert len([line for line in audited.written() if line["event"] == "audit.opened"]) == 1


def test_rotation_while_nothing_runs(audited, start_daemon):
    audited.client.run("true")
    audited.daemon.stop()
    former = audited.log.with_name(audited.log.name + ".1")
    audited.log.rename(former)
    again = restart(audited, start_daemon)
    assert again.verify(former, audited.log)[0] == 0
    again.daemon.stop()
    # If the previous file is gone as well, the new one says so.
    audited.log.rename(former.with_suffix(".2"))
    former.unlink()
    third = restart(audited, start_daemon)
    assert third.events("audit.opened")[0]["chain"] == "new"
    status, said = third.verify(former.with_suffix(".2"), audited.log)
    assert status == 1 and "a new chain begins" in said[0]


def full_files(audited):
    return sorted(audited.log.parent.glob(f"{audited.log.name}.*"))


def test_full_files(start_daemon, area):
    """cloisterd, confined as it is, keeps its log within bounds. No file is larger than audit_size, there are at most
    audit_files, and their names stay. The chain goes on through all of them, and through a restart that finds no other
    file."""
    # The log is not beside a socket, because cloisterd may remove files from a socket's directory anyway.
    log = area.new_directory("log") / "audit.log"
    audited = Audited(start_daemon, area, path=log, settings="audit_size = 64K\naudit_files = 2\n")
    flood(audited, 800)
    audited.settle()
    assert procfs.eventually(lambda: len(full_files(audited)) == 2)
    first = full_files(audited)
    content = first[1].read_bytes()
    assert first[1].name == f"{audited.log.name}.{read(first[1])[-1]['seq']:012}"
    flood(audited, 100)
    audited.settle()
    files = full_files(audited)
    assert len(files) == 2 and first[0] not in files
    if first[1] in files:
        assert first[1].read_bytes() == content
    assert max(file.stat().st_size for file in [*files, audited.log]) <= 64 << 10
    status, said = audited.verify(*files, audited.log)
    assert status == 0 and said[-1].startswith(f"{sum(len(read(file)) for file in [*files, audited.log])} lines"), said
    assert audited.status()["lost"] == 0
    assert audited.daemon.stop() == 0
    last = read(audited.log)[-1]
    audited.log.rename(f"{audited.log}.{last['seq']:012}")
    again = Audited(start_daemon, area, path=audited.log)
    assert [(line["chain"], line["seq"]) for line in again.events("audit.opened")] == [("continued", last["seq"] + 1)]
    assert again.verify(*full_files(again), again.log)[0] == 0


def test_a_file_that_cannot_be_renamed_grows(start_daemon, area):
    audited = Audited(start_daemon, area, settings="audit_size = 64K\n")
    audited.log.parent.chmod(0o500)
    flood(audited, 300)
    audited.settle()
    assert audited.log.stat().st_size > 64 << 10 and not full_files(audited)
    assert audited.daemon.log().count("cannot be renamed, so it grows: Permission denied") == 1
    audited.log.parent.chmod(0o700)
    flood(audited, 100)
    audited.settle()
    assert full_files(audited)[0].stat().st_size > 64 << 10
    assert audited.verify(*full_files(audited), audited.log)[0] == 0


def test_the_hash_that_the_unit_keeps_elsewhere(audited, start_daemon, area):
    """The command in cloister-audit-anchor.service prints the hash of a line of the log, and fails where there is
    none."""
    def anchor(daemon):
        unit = (BUILD / "packaging/systemd/cloister-audit-anchor.service").read_text()
        (words,) = re.findall("(?m)^ExecStart=(.*)$", unit)
        words = shlex.split(re.sub(r"[^\s']*/bin/cloisterctl", str(area.bin / "cloisterctl"), words))
        return subprocess.run(words, env={"CLOISTER_CONTROL_SOCKET": str(daemon.control_socket), "PATH": os.environ["PATH"]},
                              capture_output=True, check=False, **area.account.as_user())

    audited.client.run("true")
    audited.settle()
    done = anchor(audited.daemon)
    assert done.returncode == 0, done
    (hash_,) = re.fullmatch("last hash ([0-9a-f]{64})\n", done.stdout.decode()).groups()
    assert verify(area, "--contains", hash_, audited.log)[0] == 0
    assert verify(area, "--contains", hash_[::-1], audited.log)[0] == 1
    audited.daemon.stop()
    assert anchor(audited.daemon).returncode != 0
    off = start_daemon(config=config(area, mode="off"))
    assert anchor(off).returncode != 0


def test_a_directory_that_is_gone_costs_no_line(audited):
    """While cloisterd cannot open a new file, it goes on writing to the old one."""
    audited.client.run("true")
    audited.written()
    former = rotate(audited, 1)
    audited.log.symlink_to("/nonexistent/x")
    audited.daemon.process.send_signal(signal.SIGHUP)
    assert procfs.eventually(lambda: "continues in the old file" in audited.daemon.log())
    audited.client.run("true")
    assert procfs.eventually(lambda: len([x for x in read_so_far(former) if x["event"] == "call.ended"]) == 2)
    audited.log.unlink()
    assert procfs.eventually(audited.log.exists)
    audited.client.run("true")
    assert audited.verify(former, audited.log)[0] == 0


def refused(area, text):
    directory = area.new_directory("refused")
    (directory / "cloister.conf").write_text(text)
    done = area.run("cloisterd", "--config", str(directory / "cloister.conf"), "--agent-socket",
                    str(directory / "s"), "--state-dir", str(directory / "state"))
    assert done.returncode == 1
    return done.stderr.decode()


def test_what_cannot_be_a_log_refuses_to_start(audited, area):
    assert "another cloisterd writes the audit log" in refused(area, config(area, path=audited.log))
    fifo = area.new_directory("fifo") / "log"
    os.mkfifo(fifo)
    area.account.own(fifo)
    assert f"{fifo}: Invalid argument" in refused(area, config(area, path=fifo))
    assert "/proc/sys/log: No such file" in refused(area, config(area, path="/proc/sys/log"))
    assert '"maybe" is not one of off, on, required' in refused(area, config(area, mode="maybe"))


def test_it_cannot_be_opened_as_a_workspace(audited):
    with pytest.raises(RpcError) as caught:
        audited.client.call("workspace.open", {"root": str(audited.log.parent)})
    assert caught.value.name == "FORBIDDEN"


def test_without_one_there_is_none(start_daemon, area):
    daemon = start_daemon(config=config(area, mode="off"))
    with daemon.control() as control:
        assert control.call("status")["audit"] is None
        assert "cloister_audit" not in control.call("metrics")["text"]
    assert b"audit log    off" in daemon.ctl("status").stdout
    assert not (daemon.state / "audit" / "audit.log").exists()


# Disks


@contextlib.contextmanager
def held(audited):
    """Stops the writing thread in its next write, as a hung disk does."""
    numbers = {"x86_64": 1, "aarch64": 64}
    holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", str(audited.thread()),
                               str(numbers[platform.machine()])], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"ready\n"
        audited.client.run("true")
        assert holder.stdout.readline() == b"held\n"
        yield
    finally:
        holder.stdin.close()
        assert holder.wait(120) == 0


def flood(audited, count):
    """Sends that many calls that are refused and audited, without waiting for each answer."""
    line = json.dumps({"jsonrpc": "2.0", "method": "tool.call", "params":
                       {"tool": "x" * 64, "arguments": {}}}).encode() + b"\n"
    for _ in range(count // 100):
        audited.client.send_raw(line * 100)
    audited.client.call("tools.list")


def losses(lines):
    return sum(line["lines"] for line in lines if line["event"] == "audit.lost")


@as_root
def test_a_slow_disk_stops_no_call_and_loses_no_line_silently(audited):
    with held(audited):
        for i in range(50):
            assert audited.client.run(f"echo {i}")["stdout"] == f"{i}\n"
        assert audited.status()["queued_bytes"] > 0 and audited.status()["lost"] == 0
        flood(audited, 40000)
        lost = audited.status()["lost"]
        assert lost > 0
        assert audited.client.run("echo still")
    written = audited.written()
    assert losses(written) == audited.status()["lost"] >= lost
    assert len([line for line in written if line["event"] == "call.refused"]) + losses(written) >= 40000
    assert audited.verify()[0] == 0
    assert any("lines could not be written" in line for line in audited.verify()[1])
    with audited.daemon.control() as control:
        assert f"cloister_audit_lines_lost_total {losses(written)}\n" in control.call("metrics")["text"]


@as_root
def test_required_stops_admission_before_a_line_is_lost(start_daemon, area):
    audited = Audited(start_daemon, area, mode="required")
    running = audited.client.begin("run_command", {"command": "sleep 600"})
    with held(audited):
        def busy():
            flood(audited, 2000)
            return audited.observe("true")["error"]
        error = procfs.eventually(busy)
        assert error["code"] == "BUSY" and "audit log" in error["message"]
        with pytest.raises(RpcError) as caught:
            audited.client.call("workspace.open", {"workspace": "other"})
        assert caught.value.name == "BUSY"
        assert audited.status()["lost"] == 0
        # The running call can end: cloisterd keeps room for its line while it refuses others.
        flood(audited, 40000)
        assert audited.status()["lost"] > 0
        audited.client.call("tool.cancel", {"id": running})
        audited.client.wait(running)
    assert procfs.eventually(lambda: audited.observe("true")["success"])
    begun, ended = ([line["call"] for line in audited.events(f"call.{what}")] for what in ("admitted", "ended"))
    assert sorted(begun) == sorted(ended) and len(begun) >= 3
    assert losses(audited.written()) == audited.status()["lost"]
    assert audited.verify()[0] == 0


def selftest(audited):
    """Runs `cloisterctl selftest`. Returns its exit code and its text."""
    ran = audited.daemon.ctl("selftest")
    return ran.returncode, (ran.stdout + ran.stderr).decode()[-500:]


@as_root
def test_required_holds_for_the_self_test_too(start_daemon, area):
    """With audit = required, a log that is behind also stops the self-test: it does not run, and its last result
    stays."""
    audited = Audited(start_daemon, area, mode="required")
    assert selftest(audited)[0] == 0
    with audited.daemon.control() as control:
        before = control.call("status")["selftest"]
        assert before["result"] == "passed"
        with held(audited):
            assert procfs.eventually(lambda: flood(audited, 2000) or audited.observe("true")["error"])
            lines = audited.status()["lines"]
            code, said = selftest(audited)
            assert code != 0 and "BUSY" in said and "is behind" in said, said
            assert control.call("status")["selftest"] == before
            assert "is behind" in audited.status()["refusing"]
            assert "calls are refused: The audit log is behind" in audited.daemon.ctl("status").stdout.decode()
        assert audited.status()["lines"] >= lines
    assert procfs.eventually(lambda: selftest(audited)[0] == 0)
    assert audited.status()["refusing"] is None
    begun, ended = ([line["call"] for line in audited.events(f"call.{what}")] for what in ("admitted", "ended"))
    assert sorted(begun) == sorted(ended)
    assert ["BUSY"] == [line["outcome"] for line in audited.events("admin.act")
                        if line["act"] == "selftest" and line["outcome"] != "done"][:1]


@as_root
def test_a_run_that_the_audit_log_stops_is_made_again(start_daemon, area, small_disk):
    """A self-test that is stopped midway says so and has not passed. It runs again when the disk is back."""
    audited = Audited(start_daemon, area, mode="required", path=small_disk / "audit.log",
                      settings="selftest = required\nselftest_interval = 100ms\n")
    with audited.daemon.control() as control:
        def state():
            return control.call("status")["selftest"]
        assert procfs.eventually(lambda: state()["result"] == "passed", 60)
        filler = fill(small_disk)
        assert procfs.eventually(lambda: audited.status()["error"], 60) == "No space left on device"
        # The reload came during a run or between two runs.
        assert procfs.eventually(lambda: not state()["running"], 60)
        result, ended = state()["result"], state()["ended_ms"]
        assert result == "passed" or "audit log: BUSY" in audited.daemon.log()
        assert not procfs.eventually(lambda: state()["ended_ms"] != ended, 3)
        assert audited.observe("true")["error"]["code"] in ("BUSY", "FORBIDDEN")
        filler.unlink()
        assert procfs.eventually(lambda: state()["result"] == "passed" and state()["ended_ms"] > ended, 60)
    assert procfs.eventually(lambda: audited.observe("true")["success"])


@as_root
def test_the_end_does_not_wait_for_a_disk_for_ever(audited):
    with held(audited):
        audited.daemon.process.send_signal(signal.SIGTERM)
        assert procfs.eventually(lambda: "lines of the audit log could not be written" in audited.daemon.log())
    # cloisterd could not end before strace let its writing thread go.
    assert audited.daemon.process.wait(120) == 0


@pytest.fixture
def small_disk(area):
    with area.disk("256k") as place:
        yield place


def fill(place):
    filler = place / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


@as_root
@pytest.mark.parametrize("mode", ["on", "required"])
def test_a_full_disk(start_daemon, area, small_disk, mode):
    audited = Audited(start_daemon, area, mode=mode, path=small_disk / "audit.log")
    running = audited.client.begin("run_command", {"command": "sleep 600"})
    filler = fill(small_disk)

    def is_full():
        flood(audited, 100)
        return audited.status()["error"]

    assert procfs.eventually(is_full) == "No space left on device"
    assert "cannot be written: No space left on device" in audited.daemon.ctl("status").stdout.decode()
    answer = audited.observe("echo x")
    if mode == "on":
        assert answer["output"]["stdout"] == "x\n"
    else:
        assert answer["error"]["code"] == "BUSY"
    audited.client.call("tool.cancel", {"id": running})
    assert audited.client.wait(running)["result"]["output"]["ended_by"] == "cancel"
    with audited.daemon.control() as control:
        assert "cloister_audit_writable 0\n" in control.call("metrics")["text"]
    filler.unlink()
    assert procfs.eventually(lambda: not audited.status()["error"])
    assert audited.client.run("echo y")
    written = audited.written()
    begun, ended = ({line["call"] for line in written if line["event"] == f"call.{what}"}
                    for what in ("admitted", "ended"))
    assert begun == ended and len(begun) == (3 if mode == "on" else 2)
    assert not losses(written)
    assert audited.verify()[0] == 0
    assert "can be written again" in audited.daemon.log()


def test_rotating_away_from_a_file_that_takes_no_more(start_daemon, area):
    """A line that fitted in part stays torn in the old file and is complete in the new one."""
    def fill_up(size):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        def stuck():
            """Sends no more than fills the file: the rest must fit into the next one."""
            flood(audited, 100)
            return procfs.eventually(lambda: audited.status()["error"] or audited.status()["queued_bytes"] == 0) and \
                audited.status()["error"]

        audited = Audited(start_daemon, area, preexec_fn=limit)
        assert procfs.eventually(stuck) == "File too large"
        former = rotate(audited, 1)
        data = former.read_bytes()
        assert len(data) == size
        return audited, former, data[data.rindex(b"\n") + 1:]

    audited, former, torn = fill_up(100001)
    if not torn:  # the size fell on the end of a line
        audited, former, torn = fill_up(100101)
    assert torn
    audited.daemon.process.send_signal(signal.SIGHUP)
    assert procfs.eventually(lambda: not audited.status()["error"])
    status, said = audited.verify(former, audited.log)
    assert status == 0 and f"{len(torn)} bytes of an unfinished line" in said[0], said
    assert audited.events("audit.opened")[0]["torn_bytes"] == len(torn)
    assert not losses(audited.written())


@as_root
def test_the_thread_is_confined_as_the_loop_is(audited):
    status = procfs.status(audited.thread())
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0


def test_the_hash_in_status_is_in_the_log(audited, area):
    audited.client.run("true")
    audited.written()
    assert verify(area, "--contains", audited.status()["hash"], audited.log)[0] == 0


# Metrics, in the format of OpenMetrics 1.0


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'(?:\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,(?!\}))?)+\})?'
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def families(text):
    """Parses OpenMetrics text strictly. Returns {name: (type, [(suffix, labels, value)])}."""
    assert text.endswith("# EOF\n") and "# EOF" not in text[:-6]
    found, name, kind = {}, None, None
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            match = re.fullmatch(rf"# TYPE ({NAME}) (\w+)", line)
            name, kind = match[1], match[2]
            # Each family comes once, and no name with a suffix is another family's name.
            assert name not in found and kind in SUFFIXES and not name.endswith(("_total", "_bucket", "_count"))
            found[name] = kind, []
        elif line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {name} [^\n]+", line) and not found[name][1], line
        else:
            match = re.fullmatch(rf"({NAME})({LABELS}) (\+Inf|[0-9.e+-]+)", line)
            assert match and match[1].startswith(name), line
            suffix = match[1][len(name):]
            assert suffix in SUFFIXES[kind], line
            sample = suffix, match[2], float(match[3])
            assert sample[:2] not in [other[:2] for other in found[name][1]], line
            assert sample[2] >= 0 and (suffix != "_count" or sample[2].is_integer())
            found[name][1].append(sample)
    for name, (kind, samples) in found.items():
        if kind == "histogram":
            check_histogram(samples)
    return found


def check_histogram(samples):
    """Checks that buckets are ordered and cumulative, that +Inf is the count, and that each has its sum."""
    series = {}
    for suffix, labels, value in samples:
        bound = re.search(r',?le="([^"]+)"', labels)
        assert (bound is not None) == (suffix == "_bucket")
        key = labels.replace(bound[0], "") if bound else labels
        series.setdefault(key, {}).setdefault(suffix, []).append((float(bound[1]) if bound else None, value))
    for parts in series.values():
        assert parts["_bucket"] == sorted(parts["_bucket"]) and parts["_bucket"][-1][0] == float("inf")
        values = [value for _, value in parts["_bucket"]]
        assert values == sorted(values) and values[-1] == parts["_count"][0][1] and len(parts["_sum"]) == 1


def test_metrics_are_openmetrics_and_tell_of_each_tenant(audited):
    def total(name):
        with audited.daemon.control() as control:
            kind, samples = families(control.call("metrics")["text"])[f"cloister_{name}"]
        ((_, labels, value),) = [sample for sample in samples if 'tenant="t"' in sample[1]]
        assert kind == "counter" and labels == '{tenant="t"}'
        return value

    assert total("tenant_calls_ended") == 0
    audited.client.run("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    audited.client.use("list_directory", path=".")
    audited.client.observe("read_file", {"path": "nothing"})
    assert total("tenant_calls_ended") == 3
    usage = [line["usage"] for line in audited.events("call.ended")]
    cpu = sum(one.get("user_us", 0) + one.get("system_us", 0) for one in usage)
    assert cpu > 0 and total("tenant_command_cpu_seconds") == pytest.approx(cpu / 1e6)
    assert total("tenant_call_seconds") == pytest.approx(sum(one["wall_us"] for one in usage) / 1e6)
    # The counters survive a reload.
    assert audited.daemon.reload(config(audited.area))
    assert total("tenant_calls_ended") == 3
