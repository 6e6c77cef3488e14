# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC on the agent socket, as a hostile client speaks it."""

import contextlib
import os
import socket

import procfs
import pytest
from cloister_client import Client, RpcError, acting_as



def error_of(client, line, number=None):
    """Sends a raw line. Returns the error that answers it, whose id must be @number."""
    client.send_raw(line + b"\n")
    answer = client.receive()
    assert answer["id"] == number
    assert "result" not in answer
    return answer["error"]


def assert_usable(client):
    assert len(client.call("tools.list")["tools"]) == 5


# Holds back the rest of a command until the test makes the file "go".
GATE = "until [ -e go ]; do sleep 0.05; done"


def refused(client, method, params=None):
    with pytest.raises(RpcError) as caught:
        client.call(method, params)
    return caught.value


# Messages


def test_an_integer_and_a_string_are_different_ids(client, workspace):
    client.request("tool.call", {
        "tool": "run_command", "arguments": {"command": f"{GATE}; echo integer"}}, number=1)
    client.request("tool.call", {
        "tool": "run_command", "arguments": {"command": "echo string"}}, number="1")
    assert client.wait("1")["result"]["output"]["stdout"] == "string\n"
    (workspace / "go").touch()
    assert client.wait(1)["result"]["output"]["stdout"] == "integer\n"


# Lines


def test_no_more_than_the_beginning_of_a_line_is_scanned_for_its_id(client):
    """The loop would scan the rest of a long line for as long, and all clients would wait."""
    assert error_of(client, b'{"a":"' + b"x" * 60000 + b'","id":1,', 1)["code"] == -32700
    assert error_of(client, b'{"a":"' + b"x" * 70000 + b'","id":1,')["code"] == -32700


# Calls


def test_more_calls_than_a_connection_may_have_are_busy(client, workspace):
    numbers = [client.begin("run_command", {"command": "sleep 300"}) for _ in range(257)]
    refusal = client.wait(numbers[-1])["result"]
    assert refusal["error"]["code"] == "BUSY"
    for number in numbers[:-1]:
        client.notify("tool.cancel", {"id": number})
    for number in numbers[:-1]:
        assert client.wait(number)["result"]["error"]["code"] == "CANCELLED"


def test_cancelling_a_command(client, workspace):
    number = client.begin("run_command", {"command": "echo partial; touch begun; exec sleep 60"})
    assert procfs.eventually((workspace / "begun").exists)
    assert client.cancel(number)
    observation = client.wait(number)["result"]
    assert not observation["success"]
    assert observation["error"]["code"] == "CANCELLED"
    assert observation["output"]["ended_by"] == "cancel"
    assert observation["output"]["stdout"] == "partial\n"
    assert not observation["output"]["timed_out"]
    assert not client.cancel(number)


# Tool calls as models' APIs send them


def test_a_reply_that_goes_back_to_the_model(client, workspace):
    (workspace / "f").write_bytes(b"a\xffb\n")
    client.call("tool.call", {"tool": "read_file", "arguments": {"path": "f"}, "options": {"reply": "message"}})
    for form, more in (
            ({"tool": "read_file", "arguments": {"path": "f"}}, {}),
            ({"tool_call": {"function": {"name": "read_file", "arguments": {"path": "f"}}}}, {}),
            ({"tool_call": {"id": "call/1\"", "type": "function", "function": {
                "name": "read_file", "arguments": '{"path":"f"}'}}}, {"tool_call_id": "call/1\""})):
        message = client.call("tool.call", {**form, "options": {"reply": "message"}})
        assert message.pop("content") == \
            "f (1 line; bytes that are not UTF-8 are shown as \ufffd)\n1\ta\ufffdb\n"
        assert message == {"role": "tool", "tool_name": "read_file", **more}
    for path, code in (("missing", "NOT_FOUND"), ("../out", "PATH_OUTSIDE_WORKSPACE")):
        message = client.call("tool.call", {"tool": "read_file", "arguments": {"path": path},
                                            "options": {"reply": "message"}})
        assert message["content"].startswith(f"{code}: ")
    for reply in (None, "observation"):
        observation = client.call("tool.call", {"tool": "read_file", "arguments": {"path": "missing"},
                                                "options": {"reply": reply}})
        assert observation["error"]["code"] == "NOT_FOUND"


# Workspaces


def test_a_workspace_is_not_created_when_that_is_not_wanted(client):
    name = {"workspace": "wanted-only-if-there"}
    assert refused(client, "workspace.open", {**name, "create": False}).name == "WORKSPACE_NOT_FOUND"
    for wrong in ({**name, "create": "no"}, {"root": "/nowhere", "create": False}):
        assert "create must be true or false" in refused(client, "workspace.open", wrong).message
    assert name["workspace"] not in [row["workspace"] for row in client.call("workspace.list")["workspaces"]]
    client.call("workspace.open", {**name, "create": True})
    client.call("workspace.close", name)
    assert client.call("workspace.open", {**name, "create": False})["workspace"] == name["workspace"]


def test_a_call_without_a_workspace(client):
    for params in ({}, {"workspace": "none-of-this-name"}):
        error = refused(client, "tool.call", {
            "tool": "list_directory", "arguments": {"path": "."}, **params})
        assert error.name == "WORKSPACE_NOT_FOUND"
    assert refused(client, "workspace.close").name == "WORKSPACE_NOT_FOUND"
    for method in ("workspace.close", "workspace.remove"):
        assert refused(client, method, {"workspace": "none"}).name == "WORKSPACE_NOT_FOUND"


def names(client):
    return {entry["workspace"]: entry for entry in client.call("workspace.list")["workspaces"]}


def test_managed_workspaces(daemon, client):
    opened = client.call("workspace.open", {"workspace": "managed-1"})
    assert opened["workspace"] == "managed-1"
    assert opened["kind"] == "managed"
    assert opened["root"] == "/workspace"
    assert opened["tenant"] == daemon.account.name
    assert isinstance(opened["isolation"], dict)
    assert client.use("write_file", path="f", content="kept")["created"]
    assert client.run("pwd; cat /workspace/f")["stdout"] == "/workspace\nkept"
    assert names(client)["managed-1"]["kind"] == "managed"
    client.call("workspace.close", {"workspace": "managed-1"})
    assert refused(client, "tool.call", {
        "tool": "read_file", "arguments": {"path": "f"}}).name == "WORKSPACE_NOT_FOUND"
    assert "managed-1" in names(client)
    client.call("workspace.open", {"workspace": "managed-1"})
    assert client.use("read_file", {"line_numbers": False}, path="f")["content"] == "kept"
    client.call("workspace.remove", {"workspace": "managed-1"})
    assert "managed-1" not in names(client)
    client.call("workspace.open", {"workspace": "managed-1"})
    assert client.use("list_directory", path=".")["count"] == 0
    client.call("workspace.remove", {"workspace": "managed-1"})


def test_the_workspace_opened_last_is_the_default(daemon, client):
    first = daemon.new_directory()
    second = daemon.new_directory()
    opened = client.call("workspace.open", {"root": str(first)})
    assert opened["kind"] == "directory"
    assert opened["root"] == str(first)
    client.call("workspace.open", {"root": str(second)})
    assert client.run("pwd")["stdout"] == f"{second}\n"
    output = client.observe("run_command", {"command": "pwd"}, workspace=opened["workspace"])["output"]
    assert output["stdout"] == f"{first}\n"
    assert {opened["workspace"]} < set(names(client))
    client.call("workspace.close", {"workspace": opened["workspace"]})
    assert client.run("pwd")["stdout"] == f"{second}\n"


@pytest.mark.parametrize("what", ["absent", "file", "proc", "sys", "dev", "state", "socket"])
def test_what_cannot_be_opened(daemon, client, what):
    file = daemon.area.new_directory() / "file"
    file.touch()
    # A tenant with roots does not learn what exists elsewhere: test_tenants.py.
    absent, not_a_directory = ("FORBIDDEN", "FORBIDDEN") if daemon.system else ("NOT_FOUND", "NOT_A_DIRECTORY")
    root, name = {
        "absent": (file.parent / "absent", absent),
        "file": (file, not_a_directory),
        "proc": ("/proc/self", "FORBIDDEN"),
        "sys": ("/sys", "FORBIDDEN"),
        "dev": ("/dev", "FORBIDDEN"),
        "state": (daemon.state, "FORBIDDEN"),
        "socket": (daemon.path, "FORBIDDEN"),
    }[what]
    assert refused(client, "workspace.open", {"root": str(root)}).name == name
    assert_usable(client)


# Authorization


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_another_user_is_forbidden(daemon):
    with Client(daemon.socket) as root:
        assert refused(root, "tools.list", {}).name == "FORBIDDEN"
        assert root.receive() is None
    try:
        with Client(daemon.socket, daemon.account.uid + 1) as other:
            assert refused(other, "tools.list", {}).name == "FORBIDDEN"
    except PermissionError:
        pass  # the mode of the socket already refuses the other user


def pass_descriptors(client, fds, data):
    """Sends the data with descriptors, or alone if the kernel refuses these. Returns whether the kernel took them."""
    try:
        socket.send_fds(client.socket, [data], fds)
    except PermissionError:
        client.send_raw(data)
        return False
    return True


def test_descriptors_that_a_client_passes_are_closed(start_daemon):
    daemon = start_daemon()
    client = daemon.connect()
    assert_usable(client)
    with acting_as(None):
        count = daemon.settled_fds() if os.getuid() == 0 else None
    line = b'{"jsonrpc":"2.0","id":"fds","method":"tools.list"}\n'
    for _ in range(50):
        reader, writer = os.pipe()
        taken = pass_descriptors(client, [reader] * 20, line)
        os.close(reader)
        if not taken:
            assert client.wait("fds")["result"]["tools"]
        assert procfs.eventually(lambda: is_broken(writer)), "cloisterd kept a passed descriptor"
        os.close(writer)
        if taken:  # before Linux 6.16, the connection ends
            with contextlib.suppress(ConnectionResetError):
                assert client.receive() is None
            client = daemon.connect()
    if count is not None:
        assert procfs.eventually(lambda: len(procfs.fds(daemon.pid)) == count)
    daemon.new_workspace(client)
    assert client.run("ls /proc/self/fd")["stdout"].split() == ["0", "1", "2", "3"]


def is_broken(writer):
    try:
        os.write(writer, b"x")
    except BrokenPipeError:
        return True
    return False
