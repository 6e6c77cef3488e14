# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC on the agent socket, as a hostile client speaks it."""

import contextlib
import json
import os
import socket
import time

import procfs
import pytest
from cloister_client import Client, RpcError, acting_as

MIB = 1 << 20
LINE_LIMIT = 32 * MIB  # LIMIT_LINE_BYTES
DEPTH_LIMIT = 32  # LIMIT_JSON_DEPTH


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


@pytest.mark.parametrize("line", [
    b"{", b"nonsense", b"}", b'{"jsonrpc":"2.0","id":1,"method":"tools.list"} x',
    b"{'jsonrpc':'2.0','id':1,'method':'tools.list'}",
    b'{"jsonrpc":"2.0","id":1,"method":"tools.list",}', b'{"jsonrpc":"2.0","id":01,"method":"a"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools.list" /* comment */}', b'{"id":NaN}',
    b'{"id":Infinity}', b'"tab\there"', b'"\\x41"', b'"\\ud800"x', b"tru", b"\0", b"[1,2",
    b'{"jsonrpc":"2.0","id":1,"method":"tools.list","a\\u0000":1}'])
def test_what_is_not_json_is_a_parse_error(client, line):
    """The answer has the id if the line shows one."""
    shown = 1 if line.startswith(b'{"jsonrpc":"2.0","id":1,') else None
    assert error_of(client, line, shown)["code"] == -32700
    assert_usable(client)


@pytest.mark.parametrize("wrong", [
    b"\xff", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\x80"])
def test_invalid_utf8_is_a_parse_error(client, wrong):
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools.list","params":{"format":"' + wrong + b'"}}'
    assert error_of(client, line, 1)["code"] == -32700
    assert_usable(client)


@pytest.mark.parametrize("line", [
    b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"tools.list"}]', b"1", b'"x"', b"null", b"true",
    b"{}", b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","result":1,"id":1}', b'{"jsonrpc":"2.0","id":1.5,"method":"tools.list"}',
    b'{"jsonrpc":"2.0","id":{},"method":"tools.list"}',
    b'{"jsonrpc":"2.0","id":[1],"method":"tools.list"}',
    b'{"jsonrpc":"2.0","id":true,"method":"tools.list"}',
    b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"tools.list"}'])
def test_what_is_no_request_is_invalid(client, line):
    assert error_of(client, line)["code"] == -32600
    assert_usable(client)


@pytest.mark.parametrize("members", [
    {"method": "tools.list"}, {"jsonrpc": "1.0", "method": "tools.list"},
    {"jsonrpc": 2.0, "method": "tools.list"}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "method": 1},
    {"jsonrpc": "2.0", "method": "tools.list", "params": 1},
    {"jsonrpc": "2.0", "method": "tools.list", "more": 1}])
def test_a_bad_envelope_is_invalid(client, members):
    client.send({"id": 7, **members})
    answer = client.receive()
    assert answer["error"]["code"] == -32600
    assert answer["id"] in (7, None)
    assert_usable(client)


def test_a_batch_is_refused_whole(client, workspace):
    client.send([
        {"jsonrpc": "2.0", "id": 1, "method": "tool.call", "params": {
            "tool": "write_file", "arguments": {"path": "made", "content": ""}}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools.list"}])
    assert client.receive()["error"]["code"] == -32600
    assert_usable(client)
    assert not list(workspace.iterdir())


@pytest.mark.parametrize("method", ["", "nonsense", "tools.lis", "TOOLS.LIST", "tool.output"])
def test_an_unknown_method(client, method):
    assert refused(client, method).code == -32601
    assert refused(client, method, {"any": "thing"}).code == -32601


def test_wrong_parameters_are_named(client, workspace):
    for method in ("tools.list", "tool.call", "tool.cancel", "workspace.open", "workspace.close",
                   "workspace.list", "workspace.remove"):
        error = refused(client, method, {"surprise": 1})
        assert error.code == -32602
        assert "surprise" in error.message
        assert refused(client, method, [1]).code == -32602
    assert refused(client, "tools.list", {"format": "nonsense"}).code == -32602
    assert refused(client, "tools.list", {"format": 1}).code == -32602
    for params in ({}, {"workspace": 1}, {"root": 1}, {"root": "relative"}, {"workspace": "../x"},
                   {"workspace": "a", "root": str(workspace)}, {"root": str(workspace), "kind": "x"}):
        assert refused(client, "workspace.open", params).code == -32602, params
    for params in ({}, {"tool": 1}, {"tool": "read_file", "tool_call": {}, "arguments": {}}):
        assert refused(client, "tool.call", params).code == -32602, params


@pytest.mark.parametrize("options,named", [
    ({"surprise": 1}, "surprise"), ({"timeout_ms": "1"}, "timeout_ms"), ({"timeout_ms": 0}, "timeout_ms"),
    ({"timeout_ms": -1}, "timeout_ms"), ({"idle_timeout_ms": True}, "idle_timeout_ms"),
    ({"stream": 1}, "stream"), ({"line_numbers": "false"}, "line_numbers"),
    ({"encoding": "latin-1"}, "encoding"), ({"gitignore": 0}, "gitignore"), ({"env": []}, "env"),
    ({"env": {"1A": "x"}}, "env"), ({"env": {"A=B": "x"}}, "env"), ({"env": {"A": 1}}, "env"),
    ({"env": {"A": "x\0y"}}, "env"), ({"env": {"A": "x" * 40000}}, "env"), ({"stdin": 1}, "stdin"),
    ({"reply": "nonsense"}, "reply"), ({"durability": "none"}, "durability"),
    ({"path_base64": "!"}, "path_base64"), ([], "options")])
def test_wrong_options_are_named(client, workspace, options, named):
    error = refused(client, "tool.call", {
        "tool": "list_directory", "arguments": {"path": "."}, "options": options})
    assert error.code == -32602
    assert named in error.message


def test_notifications_get_no_answer(client, workspace):
    for method, params in (("tools.list", {}), ("nonsense", {}), ("tools.list", {"surprise": 1}),
                           ("workspace.open", {"workspace": "../x"}), ("tool.call", {}),
                           ("tool.cancel", {"id": 1}), ("workspace.list", {})):
        client.notify(method, params)
    client.notify("tool.call", {
        "tool": "write_file", "arguments": {"path": "made", "content": "x"}})
    client.notify("tool.call", {"tool": "nonsense", "arguments": {}})
    client.notify("tool.call", {"workspace": 1, "tool": "read_file", "arguments": {"path": "."}})
    number = client.request("tools.list")
    assert client.receive()["id"] == number
    assert procfs.eventually((workspace / "made").exists)
    assert client.run("sleep 0.3; cat made")["stdout"] == "x"
    assert not client.answers and not client.notifications


@pytest.mark.parametrize("text", [
    "0", "1", "-1", "9007199254740993", "9223372036854775807", '""', '"a"', '"ü \\" \\\\ \\n / <"',
    '"' + 256 * "i" + '"'])
def test_ids_come_back_as_they_were(client, text):
    client.send_raw(b'{"jsonrpc":"2.0","method":"tools.list","id":' + text.encode() + b"}\n")
    line = client.receive_line()
    assert json.loads(line)["id"] == json.loads(text)
    assert type(json.loads(line)["id"]) is type(json.loads(text))
    client.send_raw(b'{"jsonrpc":"2.0","method":"nonsense","id":' + text.encode() + b"}\n")
    assert json.loads(client.receive_line())["id"] == json.loads(text)


def test_an_integer_and_a_string_are_different_ids(client, workspace):
    client.request("tool.call", {
        "tool": "run_command", "arguments": {"command": f"{GATE}; echo integer"}}, number=1)
    client.request("tool.call", {
        "tool": "run_command", "arguments": {"command": "echo string"}}, number="1")
    assert client.wait("1")["result"]["output"]["stdout"] == "string\n"
    (workspace / "go").touch()
    assert client.wait(1)["result"]["output"]["stdout"] == "integer\n"


def test_empty_lines_are_ignored(client):
    client.send_raw(b"\n\n\n")
    assert_usable(client)


def test_depth(client):
    def nested(depth):
        return (b'{"jsonrpc":"2.0","id":1,"method":"nonsense","params":' + b'{"a":' * depth + b"1" +
                b"}" * (depth + 1))

    client.send_raw(nested(DEPTH_LIMIT - 4) + b"\n")
    assert client.receive()["error"]["code"] == -32601
    for depth in (DEPTH_LIMIT + 1, 1000, 100000):
        assert error_of(client, nested(depth), 1)["code"] == -32700
        assert error_of(client, b"[" * depth)["code"] == -32700
    assert_usable(client)


def test_a_message_of_very_many_values_is_refused(client):
    assert error_of(client, b"[" + b"{}," * 1000000 + b"{}]")["code"] in (-32700, -32600)
    assert_usable(client)


# Lines


def test_torn_messages(client):
    for byte in b'{"jsonrpc":"2.0","id":1,"method":"tools.list"}\n':
        client.send_raw(bytes([byte]))
        assert procfs.eventually(lambda: client.unread() == 0)
    assert client.receive()["id"] == 1
    two = b'{"jsonrpc":"2.0","id":2,"method":"tools.list"}\n{"jsonrpc":"2.0","id":3,"met'
    client.send_raw(two)
    assert client.receive()["id"] == 2
    client.send_raw(b'hod":"tools.list"}\n')
    assert client.receive()["id"] == 3


def test_many_messages_in_one_write(client):
    client.send_raw(b"".join(
        b'{"jsonrpc":"2.0","id":%d,"method":"nonsense"}\n' % i for i in range(2000)))
    assert [client.receive()["id"] for _ in range(2000)] == list(range(2000))


def send_part_of_line(client, size):
    part = b"x" * MIB
    for _ in range(size // MIB):
        client.send_raw(part)


def test_an_overlong_line_is_refused_and_not_kept(own_daemon):
    client = own_daemon.connect()
    assert_usable(client)
    before = procfs.rss_kib(own_daemon.pid)
    send_part_of_line(client, LINE_LIMIT + MIB)
    answer = client.receive()
    assert answer["id"] is None and answer["error"]
    # cloisterd frees the part of the line that it has read, and keeps nothing of the rest.
    send_part_of_line(client, 200 * MIB)
    assert procfs.eventually(lambda: procfs.rss_kib(own_daemon.pid) - before < 4096), \
        f"{before} KiB before the line, {procfs.rss_kib(own_daemon.pid)} after 233 MiB of it"
    client.send_raw(b"\n")
    assert_usable(client)
    assert not client.answers


def test_a_line_at_the_limit_is_taken(client):
    line = b'{"jsonrpc":"2.0","id":1,"method":"nonsense","params":{"a":"'
    end = b'"}}'
    client.send_raw(line + b"x" * (LINE_LIMIT - len(line) - len(end)) + end + b"\n")
    assert client.receive()["error"]["code"] == -32601


def test_half_close_is_still_answered(daemon, client, workspace):
    first = client.begin("run_command", {"command": f"{GATE}; echo late"})
    second = client.request("tools.list")
    client.socket.shutdown(socket.SHUT_WR)
    assert client.wait(second)["result"]
    (workspace / "go").touch()
    assert client.wait(first)["result"]["output"]["stdout"] == "late\n"
    assert client.receive() is None


def test_an_unfinished_line_at_the_end_is_dropped(client):
    client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"tools.list"}')
    client.socket.shutdown(socket.SHUT_WR)
    line = client.receive_line()
    assert line is None or json.loads(line)["id"] in (1, None)


def test_a_client_that_does_not_read_is_not_read(own_daemon):
    """cloisterd stops reading from a client that does not read. The unread answers are bounded, and other clients are
    served."""
    client = own_daemon.connect()
    before = procfs.rss_kib(own_daemon.pid)
    client.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        for _ in range(100000):
            client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"tools.list"}\n' * 100)
    assert procfs.rss_kib(own_daemon.pid) - before < 32 * 1024
    assert_usable(own_daemon.connect())


# Calls


def test_calls_of_one_connection_run_concurrently(client, workspace):
    (workspace / "file").write_text("content\n")
    slow = client.begin("run_command", {"command": f"{GATE}; echo slow"})
    fast = client.begin("read_file", {"path": "file"})
    assert client.receive_any()["id"] == fast
    (workspace / "go").touch()
    assert client.receive_any()["id"] == slow


def test_an_id_in_flight_is_refused(client, workspace):
    params = {"tool": "run_command", "arguments": {"command": f"{GATE}; echo first"}}
    client.request("tool.call", params, number="same")
    client.request("tool.call", params, number="same")
    refusal = client.receive()
    assert refusal["id"] == "same" and refusal["error"]["code"] == -32600
    (workspace / "go").touch()
    answer = client.receive()
    assert answer["id"] == "same" and answer["result"]["output"]["stdout"] == "first\n"
    client.request("tool.call", params, number="same")
    assert client.receive()["result"]["success"]


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


@pytest.mark.deep("busy")
def test_cancelling_a_search(client, workspace):
    """Hard links to one large file take far longer to search than the cancellation takes."""
    (workspace / "0").write_bytes(b"some line of text\n" * 3000000)
    for i in range(1, 300):
        os.link(workspace / "0", workspace / str(i))
    number = client.begin("search_files", {"pattern": "t[a-z]+ of (?!text)", "path": "."})
    time.sleep(0.2)
    asked = procfs.free_seconds()
    assert client.cancel(number)
    observation = client.wait(number)["result"]
    assert procfs.free_seconds() - asked < 18, "the search ended only near the 20 s at which it is killed"
    assert observation["error"]["code"] == "CANCELLED"
    assert client.use("list_directory", path=".")["count"] == 300


def test_cancelling_what_is_not_in_flight(daemon, client, workspace):
    for number in (0, "x", "", -1, 12345):
        assert client.cancel(number) is False
    number = client.begin("run_command", {"command": f"{GATE}; echo mine"})
    with daemon.connect() as other:
        assert other.cancel(number) is False
    (workspace / "go").touch()
    assert client.wait(number)["result"]["output"]["stdout"] == "mine\n"


@pytest.mark.parametrize("wrong", [{}, {"id": None}, {"id": {}}, {"id": []}, {"id": [1]}, {"id": 1.5}, {"id": 1.0},
                                   {"id": True}, {"id": 2**64}, {"id": "x" * 257}])
def test_cancelling_what_is_no_id(client, workspace, wrong):
    number = client.begin("run_command", {"command": f"{GATE}; echo mine"}, None)
    error = refused(client, "tool.cancel", wrong)
    assert error.code == -32602 and "id must be" in str(error)
    client.notify("tool.cancel", wrong)
    (workspace / "go").touch()
    assert client.wait(number)["result"]["output"]["stdout"] == "mine\n"
    assert not client.answers


# Tool calls as models' APIs send them


def test_ollamas_tool_call(client, workspace):
    (workspace / "f").write_text("x\n")
    form = {"function": {"name": "read_file", "arguments": {"path": "f"}}}
    observation = client.call("tool.call", {"tool_call": form})
    assert observation["output"]["content"] == "     1\tx\n"


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


def test_openais_tool_call(client, workspace):
    (workspace / "f").write_text("x\n")
    form = {"id": "call_1", "type": "function", "function": {
        "name": "read_file", "arguments": json.dumps({"path": "f", "start_line": 1})}}
    observation = client.call("tool.call", {"tool_call": form})
    assert observation["output"]["content"] == "     1\tx\n"
    for wrong in ("", "{", "[]", '{"path":"f"} {}', "{'path':'f'}", '{"path":' + "[" * 1000):
        form["function"]["arguments"] = wrong
        observation = client.call("tool.call", {"tool_call": form})
        assert observation["error"]["code"] == "INVALID_ARGUMENTS", wrong


@pytest.mark.parametrize("form", [
    1, {}, {"function": 1}, {"function": {}}, {"function": {"name": 1, "arguments": {}}},
    {"function": {"name": "read_file", "arguments": 1}}])
def test_a_tool_call_without_form_is_the_models_mistake(client, workspace, form):
    observation = client.call("tool.call", {"tool_call": form})
    assert observation["error"]["code"] == "INVALID_ARGUMENTS"
    assert observation["success"] is False


def test_an_unknown_tool_is_an_observation(client, workspace):
    for params in ({"tool": "delete_everything", "arguments": {}},
                   {"tool_call": {"function": {"name": "delete_everything", "arguments": {}}}}):
        observation = client.call("tool.call", params)
        assert observation["success"] is False
        assert observation["tool"] == "delete_everything"
        assert observation["error"]["code"] == "UNKNOWN_TOOL"


@pytest.mark.parametrize("tool,arguments,named", [
    ("read_file", {}, "path"), ("read_file", {"path": 1}, "path"), ("read_file", {"path": ""}, "path"),
    ("read_file", {"path": "a\0b"}, "path"), ("read_file", {"path": "f", "start_line": 0}, "start_line"),
    ("read_file", {"path": "f", "start_line": "one"}, "start_line"),
    ("read_file", {"path": "f", "start_line": 1.5}, "start_line"),
    ("read_file", {"path": "f", "start_line": 3, "end_line": 2}, "end_line"),
    ("read_file", {"path": "f", "lines": 3}, "lines"), ("write_file", {"path": "f"}, "content"),
    ("write_file", {"path": "f", "content": 1}, "content"),
    ("write_file", {"path": "f", "content": "", "create_dirs": "yes"}, "create_dirs"),
    ("list_directory", {"path": ".", "recursive": 1}, "recursive"),
    ("run_command", {"command": ""}, "command"), ("run_command", {"command": "a\0b"}, "command"),
    ("run_command", {"command": "true", "timeout_ms": 0}, "timeout_ms"),
    ("run_command", {"command": "true", "cwd": "/"}, "cwd"),
    ("search_files", {"pattern": "x", "max_results": 0}, "max_results")])
def test_wrong_arguments_are_named(client, workspace, tool, arguments, named):
    observation = client.observe(tool, arguments)
    assert observation["error"]["code"] == "INVALID_ARGUMENTS"
    assert named in observation["error"]["message"]


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


@pytest.mark.deep("slow")
def test_removing_what_is_hard_to_remove(client):
    client.call("workspace.open", {"workspace": "tough"})
    client.run("mkdir -p a/b/c && touch a/b/c/f .hidden && chmod 0 a/b && ln -s / link && "
               "mkfifo fifo && d=. && for i in $(seq 300); do mkdir -p $d/d && cd $d; done; "
               "printf x > \"$(printf 'n\\377')\"")
    client.call("workspace.remove", {"workspace": "tough"})
    assert "tough" not in names(client)


def test_a_workspace_in_use_is_not_removed(daemon, client):
    client.call("workspace.open", {"workspace": "shared"})
    with daemon.connect() as other:
        other.call("workspace.open", {"workspace": "shared"})
        assert refused(client, "workspace.remove", {"workspace": "shared"}).name == "BUSY"
        assert other.use("list_directory", path=".")["count"] == 0
    assert procfs.eventually(lambda: removed(client, "shared"))


def removed(client, name):
    try:
        client.call("workspace.remove", {"workspace": name})
    except RpcError as error:
        assert error.name == "BUSY"
        return False
    return True


@pytest.mark.deep("slow")
def test_more_workspaces_than_a_connection_may_have(start_daemon):
    client = start_daemon().connect()
    for i in range(256):
        client.call("workspace.open", {"workspace": f"many-{i}"})
    error = client.wait(client.request("workspace.open", {"workspace": "one-more"}))["error"]
    assert error["data"] == {"code": "QUOTA_EXCEEDED"}, "the answer must not be BUSY, because waiting does not help"
    assert "256" in error["message"] and "workspace.close" in error["message"]
    client.call("workspace.close", {"workspace": "many-0"})
    client.call("workspace.open", {"workspace": "one-more"})


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


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\0b", "ü", "a" * 65, "a b"])
def test_names_that_managed_workspaces_cannot_have(client, name):
    assert refused(client, "workspace.open", {"workspace": name}).code == -32602


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
