# SPDX-License-Identifier: Apache-2.0
"""Commands that go on as sessions when their call is answered, and clients that are sent a session's output."""

import base64
import os
import random

import procfs
import pytest

KIB, MIB = 1 << 10, 1 << 20
WAIT = 60000  # ms for a condition that is expected to be met


def run(client, command, **options):
    return client.call("tool.call", {"tool": "run_command", "arguments": {"command": command}, "options": options})


def read(client, session, after=0, **params):
    return client.call("session.read", {"session": session, "after": after, **params})


def everything(client, session, after=0):
    """Reads a session to its end. Returns its bytes, how many were lost, and its end."""
    lost, got = 0, b""
    while True:
        answer = read(client, session, after, wait_ms=WAIT, encoding="base64", max_bytes=MIB)
        got += b"".join(base64.b64decode(chunk["data"]) for chunk in answer["chunks"])
        lost += answer["lost_bytes"]
        if answer["state"] == "ended" and answer["next"] == after:
            return got, lost, answer["end"]
        after = answer["next"]


def sessions(client, workspace):
    return [entry["session"] for entry in client.call("session.list")["sessions"]
            if entry["workspace"] == str(workspace)]


@pytest.fixture
def host(start_daemon, tenants):
    """Starts a daemon with one tenant of these settings, and returns a client that has a workspace open."""
    clients = []

    def start(tenant, host=""):
        daemon = start_daemon(config=f"[cloister]\nagent_socket_mode = 0666\n{host}"
                                     f"[tenant a]\nusers = {tenants[0].name}\nmanaged = yes\n{tenant}")
        clients.append(daemon.connect(tenants[0]))
        clients[-1].call("workspace.open", {"workspace": "w"})
        return clients[-1]

    yield start
    for connected in clients:
        connected.close()


def test_no_byte_is_lost_or_doubled(client, workspace):
    """The command writes while its call is answered."""
    numbers = 20000
    whole = "".join(f"{n:07d}\n" for n in range(1, numbers + 1)).encode()
    command = "for i in $(seq 20); do seq -f %07.0f $(((i-1)*1000+1)) $((i*1000)); sleep 0.02; done; read x; exit 7"
    answer = run(client, command, yield_ms=150, max_output=MIB)
    output = answer["output"]
    assert answer["success"] and (output["state"], output["ended_by"]) == ("running", "yield"), answer
    assert output["exit_code"] is None and output["signal"] is None and not output["timed_out"]
    assert output["next"] == output["stdout_bytes"] == len(output["stdout"])
    got, lost, end = everything(client, output["session"], output["next"])
    assert lost == 0 and output["stdout"].encode() + got == whole
    assert everything(client, output["session"])[:2] == (whole, 0)
    assert (end["output"]["exit_code"], end["output"]["stdout_bytes"]) == (7, len(whole))


def test_the_process_stays_the_same(client, workspace):
    """Nothing is restarted, and the deadline of the call ends nothing."""
    answer = client.call("tool.call", {
        "tool": "run_command", "arguments": {"command": "echo $$; while [ ! -e go ]; do sleep 0.1; done; echo $$", "timeout_ms": 1000},
        "options": {"yield_ms": 300}})["output"]
    beyond = read(client, answer["session"], answer["next"], wait_ms=1500, until=[{"exit": True}])
    assert beyond["met"] is None and beyond["state"] == "running"
    client.use("write_file", path="go", content="")
    got, lost, end = everything(client, answer["session"])
    pids = got.decode().split()
    assert lost == 0 and len(pids) == 2 and pids[0] == pids[1] and end["output"]["exit_code"] == 0


def test_a_key_gives_the_same_session(client, workspace):
    command = "echo x >> ran; sleep 600"
    first = run(client, command, yield_ms=300, key="one")
    again = run(client, command, yield_ms=300, key="one")
    assert again["replayed"] and again["output"] == first["output"]
    assert client.use("read_file", path="ran")["size"] == 2
    assert sessions(client, workspace) == [first["output"]["session"]]
    # Also when it has ended.
    client.call("session.end", {"session": first["output"]["session"], "grace_ms": 0})
    assert run(client, command, yield_ms=300, key="one")["output"] == first["output"]


def test_joined_calls_get_the_session(daemon, client, workspace):
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        both = [(each, each.begin("run_command", {"command": "sleep 600"}, {"yield_ms": 1000, "key": "two"}))
                for each in (client, other)]
        answers = [each.result(number)["output"]["session"] for each, number in both]
    assert answers[0] == answers[1] and sessions(client, workspace) == answers[:1]


def test_its_turn_is_given_back(host):
    client = host("commands = 1\n", "commands = 1\n")
    assert run(client, "sleep 600", yield_ms=200)["output"]["state"] == "running"
    # The only turn is free: neither of these would begin otherwise.
    assert run(client, "echo next")["output"]["stdout"] == "next\n"
    assert run(client, "sleep 600", yield_ms=200)["output"]["state"] == "running"
    assert len(sessions(client, "w")) == 2


def test_its_end_leaves_nothing(client, workspace):
    marker = f"cloister-yield-{os.getpid()}-{random.randrange(10 ** 9)}"
    answer = run(client, f"setsid sh -c 'sleep 600; : {marker}' & sleep 600; : {marker}", yield_ms=500)["output"]
    assert procfs.having(marker)
    client.call("session.end", {"session": answer["session"], "grace_ms": 0})
    assert not procfs.having(marker)


def attached(client, session, after=0):
    """Reads what is sent until the end. Returns the bytes, how many were lost, and the last message."""
    got, lost, at = b"", 0, after
    while True:
        message = client.notifications.pop(0) if client.notifications else client.receive()
        params = message["params"]
        assert params["session"] == session
        if message["method"] == "session.ended":
            assert params["next"] == at
            return got, lost, params
        lost += params.get("lost_bytes", 0)
        assert params["at"] == at + params.get("lost_bytes", 0)
        data = base64.b64decode(params["data"])
        got += data
        at = params["at"] + len(data)


def test_output_is_sent(client, workspace):
    total = 3 * MIB
    session = client.call("session.start", {"command": f"read go; seq -f %015.0f 1 {total // 16}", "stdin": True,
                                            "output_bytes": 4 * MIB})["session"]
    client.call("session.attach", {"session": session, "encoding": "base64"})
    client.call("session.write", {"session": session, "data": "go\n"})
    got, lost, last = attached(client, session)
    whole = b"".join(b"%015d\n" % n for n in range(1, total // 16 + 1))
    assert (lost, last["lost_bytes"], last["end"]["output"]["exit_code"]) == (0, 0, 0) and got == whole


def test_a_reader_that_does_not_read(own_daemon):
    """It holds up neither the command nor others, costs little memory, and finds each byte or its count."""
    total = 64 * MIB
    with own_daemon.connect() as client, own_daemon.connect() as deaf:
        workspace = own_daemon.new_workspace(client)
        session = client.call("session.start", {
            "command": f"read go; head -c {total} /dev/zero | tr '\\0' x; exit 5", "stdin": True})["session"]
        deaf.call("workspace.open", {"root": str(workspace)})
        deaf.call("session.attach", {"session": session, "encoding": "base64"})
        before = procfs.rss_kib(own_daemon.pid)
        client.call("session.write", {"session": session, "data": "go\n"})
        end = {"state": "running"}
        while end["state"] != "ended":
            end = read(client, session, wait_ms=WAIT, max_bytes=0, until=[{"exit": True}])
        assert end["end"]["output"]["exit_code"] == 5 and end["end"]["output"]["stdout_bytes"] == total
        assert procfs.rss_kib(own_daemon.pid) - before < 24 * KIB
        got, lost, last = attached(deaf, session)
        assert lost > 0 and last["lost_bytes"] == 0 and len(got) + lost == last["next"] == total
        assert set(got) == {ord("x")}


def test_a_signal_at_once(client, workspace):
    """It is sent while the command is being started, and arrives."""
    for _ in range(5):
        session = client.call("session.start", {"command": "sleep 600"})["session"]
        while not client.call("session.signal", {"session": session, "signal": "KILL"})["sent"]:
            pass
        end = read(client, session, wait_ms=WAIT, until=[{"exit": True}])["end"]["output"]
        assert end["signal"] == "SIGKILL"
