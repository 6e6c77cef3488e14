# SPDX-License-Identifier: Apache-2.0
"""Sessions: commands that outlive the connection that started them, from ordinary and from hostile clients."""

import base64
import json
import os
import random
import signal

import procfs
import pytest
from cloister_client import RpcError, acting_as

KIB, MIB = 1 << 10, 1 << 20
WAIT = 60000  # ms for a condition that is expected to be met
FOREVER = "sleep 600"


def start(client, command, **params):
    return client.call("session.start", {"command": command, **params})["session"]


def read(client, session, after=0, **params):
    return client.call("session.read", {"session": session, "after": after, **params})


def until(client, session, text, **params):
    """Waits until the output contains @text."""
    answer = read(client, session, wait_ms=WAIT, until=[{"contains": text}], **params)
    assert answer["met"] == 0, answer
    return answer


def end(client, session, **params):
    return client.call("session.end", {"session": session, **params})


def data(answer, stream=None):
    return "".join(chunk["data"] for chunk in answer["chunks"] if stream in (None, chunk["stream"]))


def everything(client, session, **params):
    """Reads a session to its end from the beginning. Returns its bytes, how many were lost, and the last answer."""
    after, lost, got = 0, 0, b""
    while True:
        answer = read(client, session, after, wait_ms=WAIT, encoding="base64", **params)
        assert after + answer["lost_bytes"] + sum(
            len(base64.b64decode(chunk["data"])) for chunk in answer["chunks"]) == answer["next"]
        got += b"".join(base64.b64decode(chunk["data"]) for chunk in answer["chunks"])
        lost += answer["lost_bytes"]
        if answer["state"] == "ended" and answer["next"] == after:
            return got, lost, answer
        after = answer["next"]


def refused(client, method, params):
    with pytest.raises(RpcError) as caught:
        client.call(method, params)
    return caught.value


@pytest.fixture
def marker():
    """Returns a word for command lines, by which the test finds its processes."""
    return f"cloister-session-{os.getpid()}-{random.randrange(10 ** 9)}"


@pytest.fixture
def host(start_daemon, tenants):
    """Starts a daemon for two tenants with these settings."""
    def start(*lines):
        text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {tenants[2].name}\n"
        for name, user in zip("ab", tenants):
            text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" + "".join(f"{line}\n" for line in lines)
        return start_daemon(config=text), tenants[0], tenants[1]
    return start


def test_output_is_read_across_cursors(client, workspace):
    session = start(client, "echo one; echo two >&2; read line; echo got $line", name="reader", stdin=True)
    first = until(client, session, "two\n")
    assert (data(first, "stdout"), data(first, "stderr")) == ("one\n", "two\n")
    assert first["state"] == "running" and first["lost_bytes"] == 0 and first["next"] == 8
    # From a cursor within a line, as many bytes as are asked for.
    part = read(client, session, 5, max_bytes=2)
    assert part["chunks"] == [{"at": 5, "stream": "stderr", "data": "wo"}] and part["next"] == 7
    waiting = client.request("session.read", {"session": session, "after": 8, "wait_ms": WAIT})
    client.call("session.write", {"session": session, "data": "three\n"})
    assert client.result(waiting)["chunks"] == [{"at": 8, "stream": "stdout", "data": "got three\n"}]
    last = read(client, session, 18, wait_ms=WAIT, until=[{"exit": True}])
    assert last["met"] == 0 and last["state"] == "ended" and last["chunks"] == []
    output = last["end"]["output"]
    assert last["end"]["success"] and (output["exit_code"], output["ended_by"]) == (0, "exit")
    assert (output["stdout_bytes"], output["stderr_bytes"]) == (14, 4) and "stdout" not in output
    # The end and the output stay.
    assert data(read(client, session)) == "one\ntwo\ngot three\n"
    beyond = client.wait(client.request("session.read", {"session": session, "after": 19}))["error"]
    assert beyond["code"] == -32602 and beyond["data"] == {"code": "INVALID_ARGUMENTS", "next": 18}


def test_characters_are_given_whole(client, workspace):
    session = start(client, r"printf 'a\342'; read go; printf '\202\254b\377'", stdin=True)
    first = until(client, session, "a")
    assert (data(first), first["next"]) == ("a", 1)
    assert read(client, session, 1)["chunks"] == []
    client.call("session.write", {"session": session, "data": "go\n"})
    read(client, session, wait_ms=WAIT, until=[{"exit": True}])
    assert [data(read(client, session, max_bytes=n)) for n in (1, 2, 3, 4, 5)] == ["a", "a", "a", "a\u20ac", "a\u20acb"]
    assert data(read(client, session)) == "a\u20acb\ufffd"
    assert base64.b64decode(data(read(client, session, encoding="base64"))) == b"a\xe2\x82\xacb\xff"


def test_what_is_lost_is_counted_exactly(client, workspace):
    """More output than is kept, read by a client that comes and goes: each byte is what it is, or is counted."""
    total = 3 * MIB
    session = start(client, f"seq -f %015.0f 1 {total // 16}; exec true", output_bytes=64 * KIB)
    got, lost, last = everything(client, session, max_bytes=10000)
    assert lost + len(got) == total == last["end"]["output"]["stdout_bytes"]
    whole = b"".join(b"%015d\n" % n for n in range(1, total // 16 + 1))
    assert got[-64 * KIB:] == whole[-64 * KIB:]
    # What was kept last is exact from any cursor.
    kept = read(client, session, 0, encoding="base64", max_bytes=MIB)
    assert kept["lost_bytes"] == total - 64 * KIB
    assert base64.b64decode(data(kept)) == whole[-64 * KIB:]


def test_a_closed_input_is_told(client, workspace):
    """The command closes its input: what is written then is found out to go nowhere."""
    session = start(client, f"exec <&-; echo ready; {FOREVER}", stdin=True)
    until(client, session, "ready")
    # It goes nowhere, but is taken while cloisterd has a copy of the pipe's other end.
    taken = client.call("session.write", {"session": session, "data": "x"})["taken"]
    assert procfs.eventually(lambda: client.call("session.write", {"session": session})["closed"])
    assert client.call("session.write", {"session": session, "data": "x"}) == {"taken": 0, "next": taken, "closed": True}
    assert client.call("session.write", {"session": session, "at": 0, "data": "x"}) == {
        "taken": taken, "next": taken, "closed": True}, "as before"
    end(client, session, grace_ms=0)


def test_input_is_bounded(client, workspace):
    """A command that does not read takes no more than a bound, and what was taken is said exactly."""
    session = start(client, "until [ -e go ]; do sleep 0.1; done; wc -c", stdin=True)
    taken = 0
    with pytest.raises(RpcError) as full:
        while taken < 64 * MIB:
            taken += client.call("session.write", {"session": session, "at": taken, "data": "x" * 300000})["taken"]
    assert full.value.name == "BUSY" and MIB <= taken < 2 * MIB
    client.use("write_file", path="go", content="")
    while not client.call("session.write", {"session": session, "data": "", "eof": True})["closed"]:
        pass
    got, _, _ = everything(client, session)
    assert int(got) == taken


def test_a_session_outlives_its_client(daemon, client, workspace, marker):
    with daemon.connect() as other:
        name = daemon.new_workspace(other)
        session = start(other, f"echo here; {FOREVER}; : {marker}")
        until(other, session, "here")
    assert procfs.having(marker)
    opened = client.call("workspace.open", {"root": str(name)})
    assert opened
    listed = {entry["session"]: entry for entry in client.call("session.list")["sessions"]}[session]
    assert (listed["state"], listed["next"], listed["kept_from"]) == ("running", 5, 0)
    assert data(read(client, session)) == "here\n"
    ended = end(client, session)
    assert not ended["success"] and ended["output"]["ended_by"] == "cancel"
    assert not procfs.having(marker)


@pytest.mark.parametrize("grace", [0, 300])
def test_its_end_leaves_nothing(client, workspace, marker, grace):
    """Processes that are stopped, deaf, or have left their parents are gone when the end is answered."""
    session = start(client, f"""trap '' TERM INT HUP QUIT
        (setsid sh -c 'sleep 600; : {marker}' &)
        (trap '' TERM; while :; do sleep 0.1; done; : {marker}) &
        sh -c 'kill -STOP $$; : {marker}' &
        echo ready; while :; do sleep 0.1; done; : {marker}""")
    until(client, session, "ready")
    assert procfs.eventually(lambda: len(procfs.having(marker)) >= 4)
    ended = end(client, session, grace_ms=grace)
    assert ended["output"]["ended_by"] == "cancel"
    assert not procfs.having(marker)
    assert end(client, session) == ended, "the same end again"
    assert client.run("echo fine")["stdout"] == "fine\n"


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_reach_the_command(client, workspace, name):
    session = start(client, f"trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done")
    until(client, session, "ready")
    assert client.call("session.signal", {"session": session, "signal": name}) == {"sent": True}
    answer = read(client, session, wait_ms=WAIT, until=[{"exit": True}])
    # It ended by itself, although a signal told it to.
    assert f"got {name}" in data(answer) and answer["end"]["success"] and answer["end"]["output"]["exit_code"] == 7
    assert client.call("session.signal", {"session": session, "signal": name}) == {"sent": False}


def test_a_killed_session_ended_by_a_signal(client, workspace, marker):
    session = start(client, f"sh -c 'echo ready; {FOREVER}; : {marker}'; : {marker}")
    until(client, session, "ready")
    client.call("session.signal", {"session": session, "signal": "KILL", "to": "all"})
    output = read(client, session, wait_ms=WAIT, until=[{"exit": True}])["end"]["output"]
    assert (output["signal"], output["ended_by"]) == ("SIGKILL", "signal")
    assert not procfs.having(marker)


METHODS = {"session.read": {}, "session.write": {"data": "x"}, "session.signal": {"signal": "KILL"}, "session.end": {},
           "session.resize": {"rows": 1, "cols": 1}}


def test_another_tenant_finds_nothing(host):
    """With the exact id, the other tenant is answered what one is who guesses."""
    daemon, a, b = host()
    with daemon.connect(a) as mine, daemon.connect(b) as other:
        for client in (mine, other):
            client.call("workspace.open", {"workspace": "w"})
        session = start(mine, "echo secret; cat", stdin=True)
        until(mine, session, "secret")
        for method, params in METHODS.items():
            errors = [refused(other, method, {"session": word, **params}) for word in (session, "0" * 32, "")]
            assert {(error.code, error.message, error.name) for error in errors} == {
                (-32000, errors[0].message, "SESSION_NOT_FOUND")}, method
        assert other.call("session.list") == {"sessions": []}
        assert read(mine, session)["state"] == "running"
        end(mine, session)
        assert refused(other, "session.read", {"session": session}).name == "SESSION_NOT_FOUND"


def test_limits(host, tenants):
    daemon, a, b = host("sessions = 3", "sessions_per_workspace = 2", "commands = 1", "calls = 1")
    with daemon.connect(a) as client, daemon.connect(b) as other:
        client.call("workspace.open", {"workspace": "one"})
        sessions = [start(client, FOREVER) for _ in range(2)]
        assert "workspace" in refused(client, "session.start", {"command": FOREVER}).message
        client.call("workspace.open", {"workspace": "two"})
        sessions.append(start(client, FOREVER))
        error = refused(client, "session.start", {"command": FOREVER})
        assert error.name == "BUSY" and "tenant" in error.message
        # Sessions take no turn of commands, no place of calls, and nothing of another tenant.
        assert client.run("echo fine")["stdout"] == "fine\n"
        other.call("workspace.open", {"workspace": "one"})
        start(other, FOREVER)
        metrics = daemon.control(tenants[2]).call("metrics")["text"]
        assert 'cloister_tenant_sessions{tenant="a"} 3' in metrics
        assert 'cloister_refused_total{limit="tenant_sessions"} 1' in metrics
        assert 'cloister_refused_total{limit="workspace_sessions"} 1' in metrics
        for session in sessions:
            assert end(client, session, grace_ms=0)["output"]["ended_by"] == "cancel"
        assert read(client, start(client, "echo again"), wait_ms=WAIT, until=[{"contains": "again"}])["met"] == 0


def test_administrators_see_and_end_them(host, tenants, marker):
    """They see that a session is there, and nothing that it writes. Its id ends it, and nothing else."""
    daemon, a, _ = host()
    with daemon.connect(a) as client, daemon.control(tenants[2]) as admin, daemon.control(tenants[2]) as watcher:
        watcher.call("events")
        client.call("workspace.open", {"workspace": "w"})
        session = start(client, f"echo sec''ret; sleep 600; : {marker}", name="server")
        other = start(client, FOREVER)
        until(client, session, "secret")
        listed = admin.call("sessions")["sessions"]
        assert [(entry["session"], entry["name"], entry["state"]) for entry in listed] == [
            (session, "server", "running"), (other, None, listed[1]["state"])]
        assert listed[0]["output_bytes"] == 7 and (listed[0]["tenant"], listed[0]["workspace"]) == ("a", "w")
        assert admin.call("commands") == {"calls": []} and admin.call("status")["calls"] == 0
        assert refused(admin, "kill", {"session": "0" * 32}).name == "SESSION_NOT_FOUND"
        assert refused(admin, "kill", {"session": session, "workspace": "w"}).code == -32602
        assert admin.call("kill", {"session": session}) == {"told": 1, "already_ending": 0}
        ended = read(client, session, wait_ms=WAIT, until=[{"exit": True}])["end"]
        assert ended["output"]["ended_by"] == "admin" and not procfs.having(marker)
        assert read(client, other)["state"] == "running"
        assert admin.call("kill", {"workspace": "w"})["told"] == 1
        assert read(client, other, wait_ms=WAIT, until=[{"exit": True}])["end"]["output"]["ended_by"] == "admin"
        watcher.call("status")
        events = [note["params"] for note in watcher.notifications]
        assert [(event["event"], event["session"]) for event in events] == [
            ("session_begin", session), ("session_begin", other), ("session_end", session), ("session_end", other)]
        assert "secret" not in json.dumps([listed, events])


def test_the_audit_log_has_them(start_daemon, area):
    daemon = start_daemon(config="[cloister]\naudit = on\n"
                          f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\n")
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "w"})
        session = start(client, "exit 3")
        read(client, session, wait_ms=WAIT, until=[{"exit": True}])
        refused(client, "session.start", {"command": "rm -rf /"})
    assert daemon.stop() == 0
    with acting_as(os.getuid()):
        log = [json.loads(line) for line in (daemon.state / "audit" / "audit.log").read_bytes().splitlines()]
    lines = [line for line in log if line["event"].startswith(("session.", "call."))]
    assert [(line["event"], line.get("session")) for line in lines] == [
        ("session.started", session), ("session.ended", session), ("call.refused", None)]
    assert len(lines[0]["arguments"]) == 64 and lines[0]["uid"] == area.account.uid
    assert lines[1]["cause"] == "exit" and lines[1]["success"] and "cpu" not in lines[1]
    assert (lines[2]["tool"], lines[2]["code"]) == ("session.start", "COMMAND_BLOCKED")


def test_cloisterctl_shows_and_ends_them(own_daemon):
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        session = start(client, FOREVER, name="server")
        shown = own_daemon.ctl("sessions")
        assert shown.returncode == 0 and f"{session} ".encode() in shown.stdout and b" server " in shown.stdout
        assert own_daemon.ctl("kill", session).stdout.startswith(b"1 calls are being ended")
        assert read(client, session, wait_ms=WAIT, until=[{"exit": True}])["end"]["output"]["ended_by"] == "admin"
        gone = own_daemon.ctl("kill", session)
        assert gone.returncode == 1 and b"No session of this id is running" in gone.stderr


def test_kept_output_is_bounded(host):
    """The output of running sessions bounds further ones; that of ended ones makes room."""
    daemon, a, _ = host()
    with daemon.connect(a) as client:
        client.call("workspace.open", {"workspace": "w"})
        large = {"output_bytes": 16 * MIB}
        ids = [start(client, FOREVER, **large) for _ in range(3)]
        error = refused(client, "session.start", {"command": FOREVER, **large})
        assert error.name == "BUSY" and "output_bytes" in error.message
        end(client, ids[0], grace_ms=0)
        assert read(client, ids[0])["state"] == "ended"
        start(client, FOREVER, **large)
        assert refused(client, "session.read", {"session": ids[0]}).name == "SESSION_NOT_FOUND"


@pytest.mark.parametrize("settings,params,cause", [
    (["session_lifetime = 200ms"], {}, "lifetime"),
    ([], {"lifetime_ms": 200}, "lifetime"),
    (["session_idle = 200ms"], {}, "idle_timeout"),
])
def test_its_time_is_bounded(host, marker, settings, params, cause):
    daemon, a, _ = host(*settings)
    with daemon.connect(a) as client:
        client.call("workspace.open", {"workspace": "w"})
        session = start(client, f"sleep 600; : {marker}", **params)
        answer = read(client, session, wait_ms=WAIT, until=[{"exit": True}])
        assert answer["end"]["error"]["code"] == "TIMEOUT" and answer["end"]["output"]["ended_by"] == cause
        assert not procfs.having(marker)


def test_a_removed_workspace_takes_its_sessions_along(host, marker):
    daemon, a, _ = host()
    with daemon.connect(a) as client, daemon.connect(a) as reader:
        client.call("workspace.open", {"workspace": "w"})
        session = start(client, f"trap '' TERM; echo ready; while :; do sleep 0.1; done; : {marker}")
        until(client, session, "ready")
        waiting = reader.request("session.read", {"session": session, "after": 6, "wait_ms": WAIT})
        client.call("session.signal", {"session": session, "signal": "KILL"})
        assert reader.result(waiting)["state"] == "ended"
        session = start(client, f"echo ready; sleep 600; : {marker}")
        until(client, session, "ready")
        waiting = reader.request("session.read", {"session": session, "after": 6, "wait_ms": WAIT})
        client.call("workspace.remove", {"workspace": "w"})
        assert reader.result(waiting)["end"]["output"]["ended_by"] == "workspace_closed"
        assert not procfs.having(marker)
        assert client.call("session.list") == {"sessions": []} and client.call("workspace.list")["workspaces"] == []


@pytest.mark.parametrize("left", ["nobody", "another tenant"])
def test_an_answer_that_waits_for_a_right_that_is_gone(host, left):
    """A user who is no tenant's any more, or another's, is not told what the session writes, nor how it ends."""
    daemon, a, b = host()
    with daemon.connect(a) as client, daemon.connect(b) as keeper:
        client.call("workspace.open", {"workspace": "w"})
        session = start(client, "trap '' TERM; echo ready; until test -e go; do sleep 0.01; done; echo secret")
        until(client, session, "ready")
        waiting = [client.request("session.read", {"session": session, "after": 6, "wait_ms": WAIT}),
                   client.request("session.read", {"session": session, "after": 6, "wait_ms": WAIT, "until": [{"exit": True}]}),
                   client.request("session.end", {"session": session, "grace_ms": 30000})]
        client.call("session.list")  # so the others have come
        daemon.reload("[cloister]\nagent_socket_mode = 0666\n[tenant a]\n"
                      f"users = {b.name}\nmanaged = yes\n" + (f"[tenant c]\nusers = {a.name}\nmanaged = yes\n" if left != "nobody" else ""))
        keeper.call("workspace.open", {"workspace": "w"})
        keeper.observe("write_file", {"path": "go", "content": ""})
        for number in waiting:
            with pytest.raises(RpcError) as refused_now:
                client.result(number)
            assert refused_now.value.name == "SESSION_NOT_FOUND"


def test_shutdown_ends_sessions(start_daemon, marker):
    daemon = start_daemon()
    with daemon.connect() as client:
        daemon.new_workspace(client)
        session = start(client, f"echo ready; sleep 600; : {marker}")
        until(client, session, "ready")
        waiting = client.request("session.read", {"session": session, "after": 6, "wait_ms": WAIT})
        daemon.process.send_signal(signal.SIGTERM)
        assert client.result(waiting)["end"]["output"]["ended_by"] == "shutdown"
    assert daemon.process.wait() == 0
    assert not procfs.having(marker)


def test_a_drain_does_not_wait_for_readers(start_daemon, account, area, marker):
    """Calls have time to end by themselves. A session has not, and so a read that waits for it has not either."""
    daemon = start_daemon(config=f"[cloister]\ndrain_time = 10min\n[tenant t]\nusers = {account.name}\nroots = {area.path}\n")
    with daemon.connect() as client:
        daemon.new_workspace(client)
        session = start(client, f"echo ready; sleep 600; : {marker}")
        until(client, session, "ready")
        waiting = client.request("session.read", {"session": session, "after": 6, "wait_ms": 300000})
        assert data(read(client, session)) == "ready\n", "the read before waits by now"
        daemon.process.send_signal(signal.SIGTERM)
        assert client.result(waiting)["end"]["output"]["ended_by"] == "shutdown"
    assert daemon.process.wait() == 0
    assert not procfs.having(marker)


def test_a_new_files_process_leaves_sessions_alone(own_daemon):
    with own_daemon.connect() as client:
        path = own_daemon.new_workspace(client)
        session = start(client, "cat", stdin=True)
        client.call("session.write", {"session": session, "data": "one"})
        until(client, session, "one")
        os.kill(own_daemon.cell_of(path)[1], signal.SIGKILL)
        assert procfs.eventually(lambda: client.observe("list_directory", {"path": "."})["success"])
        client.call("session.write", {"session": session, "data": "two"})
        until(client, session, "onetwo")


def test_the_worker_dies(own_daemon, marker):
    with own_daemon.connect() as client:
        path = own_daemon.new_workspace(client)
        session = start(client, f"echo ready; sleep 600; : {marker}")
        until(client, session, "ready")
        waiting = client.request("session.read", {"session": session, "after": 6, "wait_ms": WAIT})
        os.kill(own_daemon.cell_of(path)[0], signal.SIGKILL)
        answer = client.result(waiting)
        assert answer["state"] == "ended" and answer["end"]["error"]["code"] == "WORKER_LOST"
        assert procfs.vanish(procfs.having(marker)) and data(read(client, session)) == "ready\n"
