# SPDX-License-Identifier: Apache-2.0
"""tool.input, the standard input of a running command, from ordinary and from hostile clients."""

import base64
import hashlib
import json
import os
import time

import procfs
import pytest
from cloister_client import PATIENCE, RpcError
from daemon import INSTALLED, is_sanitized

MIB = 1 << 20
PART = 64 * 1024


# Holds back the rest of a command until the test makes the file "go".
GATE = "until [ -e go ]; do sleep 0.1; done"


def begin(client, command, options=None, **arguments):
    return client.begin("run_command", {"command": command, **arguments}, {"stdin_stream": True, **(options or {})})


def feed(client, call, data, **more):
    """Sends input. Returns the result, which comes once the command has taken the input."""
    return client.call("tool.input", {"id": call, "data": data, **more})


def refused(client, call, data="x", **more):
    with pytest.raises(RpcError) as error:
        feed(client, call, data, **more)
    return error.value


def memory(pid):
    """Returns the anonymous memory of the process, in KiB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def test_input_reaches_a_running_command(client, workspace):
    call = begin(client, "while read line; do echo got $line; done; echo end", {"stream": True})
    assert feed(client, call, "one\ntwo\n") == {"taken": 8, "closed": False}
    assert procfs.eventually(lambda: client.call("workspace.list") and "got two" in "".join(
        message["params"]["data"] for message in client.notifications))
    assert feed(client, call, "thr") == {"taken": 3, "closed": False}
    assert feed(client, call, "ee\n", eof=True) == {"taken": 3, "closed": False}
    assert client.result(call)["output"]["stdout"] == "got one\ngot two\ngot three\nend\n"


def test_bytes_of_any_kind_and_number(client, workspace):
    data = os.urandom(3 * MIB + 1)
    call = begin(client, "sha256sum; exit 3")
    for start in range(0, len(data), PART):
        part = data[start:start + PART]
        assert feed(client, call, base64.b64encode(part).decode(), encoding="base64")["taken"] == len(part)
    client.request("tool.input", {"id": call, "eof": True})
    output = client.result(call)["output"]
    assert output["stdout"].split()[0] == hashlib.sha256(data).hexdigest()
    assert output["exit_code"] == 3


def test_a_command_that_does_not_read_on_is_no_error(client, workspace):
    call = begin(client, "head -c 4; exec <&-; " + GATE + "; exit 5")
    feed(client, call, "abcd")
    answer = procfs.eventually(lambda: (a := feed(client, call, "x" * PART)) and a["closed"] and a)
    assert answer["closed"] is True
    assert feed(client, call, "", eof=True)["closed"] is True
    (workspace / "go").touch()
    observation = client.result(call)
    assert observation["success"] and observation["output"]["exit_code"] == 5


def test_input_of_a_call_that_ends_is_answered_before_the_call(client, workspace):
    call = begin(client, GATE)
    numbers = [client.request("tool.input", {"id": call, "data": "x" * PART}) for _ in range(8)]
    client.call("workspace.list")  # cloisterd has read them all
    (workspace / "go").touch()
    order = [client.receive_any()["id"] for _ in range(9)]
    assert order == [*numbers, call]


def test_another_connections_call_is_out_of_reach(daemon, client, workspace):
    call = begin(client, "cat")
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        assert refused(other, call, "forged").name == "NOT_FOUND"
        assert refused(other, call, "", eof=True).name == "NOT_FOUND"
    feed(client, call, "own", eof=True)
    assert client.result(call)["output"]["stdout"] == "own"


@pytest.mark.deep("busy")
def test_input_is_no_silence(client, workspace):
    """A command that only takes input is not idle: idle_timeout_ms does not end it."""
    call = begin(client, "cat > /dev/null", {"idle_timeout_ms": 6000}, timeout_ms=60000)
    began = time.monotonic()
    while time.monotonic() - began < 8:
        feed(client, call, "x")
        time.sleep(0.1)
    feed(client, call, "", eof=True)
    assert client.result(call)["success"]
    call = begin(client, "cat > /dev/null", {"idle_timeout_ms": 500}, timeout_ms=60000)
    assert client.result(call)["output"]["ended_by"] == "idle_timeout"


def test_input_that_is_never_read_delays_no_other_call(daemon, client, workspace):
    call = begin(client, "sleep 600", timeout_ms=600000)
    number = client.request("tool.input", {"id": call, "data": "x" * MIB})
    for _ in range(3):
        assert client.run("echo served")["stdout"] == "served\n"
    with daemon.connect() as other:
        daemon.new_workspace(other)
        assert other.run("echo served")["stdout"] == "served\n"
    assert client.cancel(call)
    answer = client.result(number)
    assert answer["closed"] is True and answer["taken"] < MIB
    assert client.result(call)["output"]["ended_by"] == "cancel"


def test_a_flood_is_refused_and_not_kept(own_daemon):
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        call = begin(client, "sleep 600", timeout_ms=600000)
        client.run("true")
        before = memory(own_daemon.pid)
        line = b'{"jsonrpc":"2.0","id":"f%d","method":"tool.input","params":{"id":%d,"data":"%s"}}\n'
        data = b"x" * (MIB // 2)
        busy = 0
        for i in range(200):
            client.send_raw(line % (i, call, data))
            if i >= 2:  # two fit into the bound
                error = client.receive_any()["error"]
                assert error["data"]["code"] == "BUSY" and error["data"]["retry_after_ms"] > 0
                busy += 1
        assert busy == 198
        # Messages without data count too.
        for i in range(1000):
            client.request("tool.input", {"id": call, "data": ""}, number=f"e{i}")
        answers = [client.receive_any() for _ in range(1000 - 62)]
        assert all(answer["error"]["data"]["code"] == "BUSY" for answer in answers)
        if not is_sanitized():
            assert memory(own_daemon.pid) - before < 24 * 1024
        assert client.run("echo served")["stdout"] == "served\n"
        assert client.cancel(call)
        assert client.result(call)["error"]["code"] == "CANCELLED"


def test_a_connections_calls_share_a_bound(own_daemon):
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        calls = [begin(client, "sleep 600", timeout_ms=600000) for _ in range(20)]
        for call in calls:
            client.request("tool.input", {"id": call, "data": "x" * (MIB - 100)}, number=f"i{call}")
        client.run("true")  # cloisterd has read them all
        refusals = [answer for answer in client.answers if "error" in answer]
        assert 3 <= len(refusals) <= 5  # 16 of 20 fit into the bound, and the pipes took some more
        assert all(answer["error"]["data"]["code"] == "BUSY" for answer in refusals)


def test_a_client_that_leaves_with_input_under_way(own_daemon):
    for _ in range(20):
        with own_daemon.connect() as client:
            own_daemon.new_workspace(client)
            call = begin(client, "sleep 600", timeout_ms=600000)
            for _ in range(4):
                client.request("tool.input", {"id": call, "data": "x" * PART})
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        assert client.run("echo served")["stdout"] == "served\n"
    assert own_daemon.process.poll() is None


# Bytes behind the line

# What a service that took them for lines would do.
REQUESTS = b'\n{"jsonrpc":"2.0","id":"forged","method":"tool.call","params":{"tool":"run_command","arguments":{"command":"touch forged"}}}\n'


def send(client, call, payload, number=None, **more):
    """Sends input behind its line. Returns the request's id."""
    client.last_id += 1
    message = {"jsonrpc": "2.0", "id": number or client.last_id, "method": "tool.input",
               "params": {"id": call, "bytes": len(payload), **more}}
    client.send_raw(json.dumps(message).encode() + b"\n" + payload)
    return message["id"]


def test_bytes_behind_the_line(client, workspace):
    data = os.urandom(2 * MIB) + 1000 * REQUESTS
    call = begin(client, "sha256sum")
    for start in range(0, len(data), PART):
        part = data[start:start + PART]
        assert client.result(send(client, call, part)) == {"taken": len(part), "closed": False}
    assert client.result(send(client, call, b"")) == {"taken": 0, "closed": False}
    assert client.result(send(client, call, b"", eof=True)) == {"taken": 0, "closed": False}
    assert client.result(call)["output"]["stdout"].split()[0] == hashlib.sha256(data).hexdigest()
    assert not (workspace / "forged").exists()


@pytest.mark.parametrize("params,code", [
    ({"id": 999}, -32000), ({"id": None}, -32602), ({"id": [1]}, -32602), ({"data": ""}, -32602),
    ({"encoding": "base64"}, -32602), ({"eof": 1}, -32602)])
def test_bytes_of_a_line_that_is_refused_are_no_lines(client, workspace, params, code):
    call = begin(client, "cat")
    with pytest.raises(RpcError) as error:
        client.result(send(client, params.pop("id", call), REQUESTS, **params))
    assert error.value.code == code
    assert client.result(send(client, call, b"whole", eof=True))["taken"] == 5
    assert client.result(call)["output"]["stdout"] == "whole"
    assert not client.answers and not (workspace / "forged").exists()


def test_output_behind_the_line(client, workspace):
    data = os.urandom(MIB) + REQUESTS
    (workspace / "data").write_bytes(data)
    call = client.begin("run_command", {"command": "cat data; printf 'error\\377' >&2"},
                        {"stream": True, "stream_bytes": True, "keep_output": False})
    assert client.result(call)["output"]["stdout_bytes"] == len(data)
    got = {"stdout": b"", "stderr": b""}
    for number, message in enumerate(client.notifications):
        assert message["params"]["seq"] == number and "data" not in message["params"]
        got[message["params"]["stream"]] += message["payload"]
    assert got == {"stdout": data, "stderr": b"error\377"}
    with pytest.raises(RpcError, match='"stream"'):
        client.observe("run_command", {"command": "true"}, {"stream_bytes": True})


@pytest.mark.deep("slow")
def test_gigabytes_pass_in_bounded_memory(own_daemon):
    """More input than cloisterd ever keeps passes through a command and back, and cloisterd's memory stays bounded."""
    total, window = (64 if is_sanitized() or INSTALLED else 512) * MIB, 8
    part = base64.b64encode(bytes(PART)).decode()
    with own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        before = memory(own_daemon.pid)
        call = begin(client, "cat", {"stream": True, "keep_output": False, "encoding": "base64"}, timeout_ms=600000)
        sent, received, unanswered, peak = 0, 0, 0, 0
        while True:
            while unanswered < window and sent <= total:
                sent += PART
                unanswered += 1
                client.request("tool.input", {"id": call, "data": part, "encoding": "base64", "eof": sent > total},
                               number=f"i{sent}")
            message = client.receive(PATIENCE)
            if message.get("method") == "tool.output":
                received += len(message["params"]["data"]) // 4 * 3 - message["params"]["data"].count("=")
            elif message["id"] == call:
                break
            else:
                unanswered -= 1
                peak = max(peak, memory(own_daemon.pid))
        assert sent == received == total + PART
        output = message["result"]["output"]
        # cloisterd kept no output, and no limit of output ended the command.
        assert output["stdout"] == "" and output["stdout_bytes"] == sent and output["exit_code"] == 0
        if not is_sanitized():
            assert peak - before < 32 * 1024


def test_output_that_is_not_kept_is_counted_and_bounded(client, workspace):
    output = client.run("echo hidden", {"keep_output": False})
    assert output["stdout_bytes"] == 7 and output["truncated"] is True
    assert "hidden" not in output["stdout"]
    # Output that is neither kept nor streamed has the usual bound.
    observation = client.observe("run_command", {"command": "cat /dev/zero", "timeout_ms": 60000}, {"keep_output": False})
    assert observation["output"]["ended_by"] == "output_limit"
