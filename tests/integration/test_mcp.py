# SPDX-License-Identifier: Apache-2.0
"""MCP of `cloister mcp` and the agent socket. unit/test_mcp.c has the rules; here each message is checked against the
official schema."""

import itertools
import json
import os
import subprocess

import pytest

import procfs
from cloister_client import PATIENCE
from mcp_client import LEGACY, MODERN, OLDEST, TASKS, Mcp, Pipes, meta

TOOLS = ["read_file", "write_file", "list_directory", "run_command", "search_files"]

try:
    import jsonschema
except ImportError:
    jsonschema = None
if not jsonschema and os.environ.get("CI") != "true":
    pytest.skip("python3-jsonschema is not installed", allow_module_level=True)

ALL, LEGACIES, LATEST = (MODERN, LEGACY, OLDEST), (LEGACY, OLDEST), (MODERN,)
ROWS = []


def row(check, revisions):
    """Marks a function as the test of requirement @check, for each of @revisions."""
    def add(function):
        ROWS.extend(pytest.param(function, revision, id=f"{check}[{revision}]") for revision in revisions)
        return function
    return add


class Place:
    """A workspace, and MCP servers for it that end with the test."""

    def __init__(self, area, daemon):
        self.area, self.daemon = area, daemon
        self.workspace = daemon.new_directory()
        self.started = []

    def write(self, name, content):
        path = self.workspace / name
        path.write_text(content)
        self.area.account.own(path)
        return path

    def start(self, revision=MODERN, where=None):
        where = where or ("--socket", str(self.daemon.socket))
        process = self.area.start(
            ["cloister", *where, "--workspace", str(self.workspace), "mcp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return Mcp(Pipes(process), revision)

    def ready(self, revision=MODERN):
        return self.start(revision).ready()

    def end(self):
        for process in self.started:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stderr.close()


@pytest.fixture
def place(area, daemon):
    made = Place(area, daemon)
    yield made
    made.end()


# Requirements of every revision.


@row("stdout-pure", ALL)
def messages_are_lines_of_json_and_nothing_else_is_on_stdout(place, revision):
    server = place.ready(revision)
    server.pipes.send_raw(b"no json\n\n[]\n{}\n")
    assert [server.receive()["error"]["code"] for _ in range(3)] == [-32700, -32600, -32600]
    hostile = "printf 'a\\nb\\r\\0\\377\\342\\200\\250 {\\n'; echo error >&2"
    result = server.call("run_command", command=hostile)
    assert result["structuredContent"]["output"]["stdout"] == "a\nb\r\0\ufffd\u2028 {\n"
    assert server.pipes.close() == 0
    while server.receive() is not None:
        pass
    assert place.started[0].stderr.read() == b""


@row("exits-on-stdin-EOF", ALL)
def the_end_of_its_input_ends_it(place, revision):
    server = place.ready(revision)
    assert server.pipes.close() == 0
    server = place.ready(revision)
    marker = f"sleep 5501.{os.getpid()}s"
    server.begin("run_command", {"command": f"exec {marker}"})
    assert procfs.eventually(lambda: procfs.having(marker), PATIENCE)
    assert server.pipes.close() == 0
    assert procfs.eventually(lambda: not procfs.having(marker), PATIENCE)


@row("tool-failures-are-results", ALL)
def what_a_model_can_mend_is_a_result(place, revision):
    server = place.ready(revision)
    for code, tool, arguments in (
            ("PATH_OUTSIDE_WORKSPACE", "read_file", {"path": "../../etc/passwd"}),
            ("NOT_FOUND", "read_file", {"path": "none"}),
            ("INVALID_ARGUMENTS", "read_file", {"file": "a"}),
            ("INVALID_ARGUMENTS", "read_file", {}),
            ("INVALID_PATTERN", "search_files", {"pattern": "("}),
            ("TIMEOUT", "run_command", {"command": "sleep 1000", "timeout_ms": 300})):
        result = server.call(tool, **arguments)
        assert result["isError"] is True
        assert result["structuredContent"]["error"]["code"] == code
    for timeout in (300, 3000, 30000):  # until a deadline leaves the command time to begin
        result = server.call("run_command", command="echo partial; touch begun; sleep 1000", timeout_ms=timeout)
        assert result["structuredContent"]["error"]["code"] == "TIMEOUT"
        if (place.workspace / "begun").exists():
            break
    assert result["structuredContent"]["output"]["stdout"] == "partial\n"
    # A command that ran is a success, whatever its exit code. The result has the code.
    result = server.call("run_command", command="exit 3")
    assert result["isError"] is False and result["structuredContent"]["output"]["exit_code"] == 3


@row("input-schema-object", ALL)
def input_schemas_are_objects(place, revision):
    for tool in place.ready(revision).result("tools/list")["tools"]:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
        assert "$ref" not in json.dumps(tool)


def many_results(place, server):
    """Calls every tool for every form of result. Each result must match the output schema, without additional fields."""
    def call(tool, options=None, **arguments):
        return server.call(tool, {"cloister/options": options} if options else None, **arguments)

    place.write("text", "one\ntwo\n")
    place.write("long", "x" * 5000 + " two\n")
    place.write("back\\slash", "two")
    (place.workspace / "binary").write_bytes(b"\x7fELF\0\0")
    (place.workspace / "link").symlink_to("text")
    yield call("read_file", path="text")
    yield call("read_file", path="text", start_line=2)
    yield call("read_file", {"encoding": "base64"}, path="text")
    yield call("read_file", path="binary")
    yield call("write_file", path="new/made", content="\0é\"")
    yield call("write_file", path="new/made", content="")
    yield call("list_directory", path=".", recursive=True)
    yield call("search_files", pattern="two")
    yield call("search_files", pattern="two", max_results=1)
    yield call("run_command", command="echo out; echo err >&2; exit 1")
    yield call("run_command", command="kill -9 $$")
    yield call("run_command", {"encoding": "base64", "env": {"A": "b"}}, command='printf "\\377$A"')
    for tool in TOOLS:
        yield call(tool, nonsense=True)
    yield call("read_file", path="/etc/passwd")
    yield call("run_command", {"timeout_ms": 300}, command="sleep 1000")


@row("structuredContent-matches-outputSchema", ALL)
def structured_content_conforms(place, revision):
    server = place.ready(revision)
    results = list(many_results(place, server))
    assert [result["isError"] for result in results].count(False) == 12
    assert {result["structuredContent"]["tool"] for result in results} == set(TOOLS)


@row("structured-also-as-text", ALL)
def the_text_block_says_what_the_structured_content_says(place, revision):
    """The text block is text for a model, not JSON: doc/decisions/0171-answer-forms.md."""
    server = place.ready(revision)
    # The content comes in several pieces, whose edges may cut characters.
    place.write("large", "é\"\\\t\u2028😀\n" * 60000)
    assert "[here: no network; " in server.call("list_directory", path=".")["content"][0]["text"]
    result = server.call("read_file", path="large", start_line=59401)
    (block,) = result["content"]
    assert block["type"] == "text"
    content = result["structuredContent"]["output"]["content"]
    assert content == "".join(f"{n:6}\té\"\\\t\u2028😀\n" for n in range(59401, 60001))
    assert block["text"] == "large (lines 59401-60000 of 60000; every fifth has its number)\n" + "".join(
        f"{n if n % 5 == 0 or n == 59401 else ''}\té\"\\\t\u2028😀\n" for n in range(59401, 60001))
    # With base64, which a program asks for, the text is the JSON.
    result = server.call("read_file", {"cloister/options": {"encoding": "base64"}}, path="large")
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert len(result["structuredContent"]["output"]["content"]) > 1000000


@row("cancelled-request-gets-no-answer", ALL)
def a_cancelled_call_is_killed_and_never_mentioned_again(place, revision):
    server = place.ready(revision)
    marker = f"sleep 5502.{os.getpid()}s"
    number = server.begin("run_command", {"command": f"echo begun; {marker} & {marker}"}, progressToken="p")
    assert server.receive()["params"]["progressToken"] == "p"
    assert procfs.eventually(lambda: len(procfs.having(marker)) >= 2, PATIENCE)
    server.notify("notifications/cancelled", {"requestId": str(number)})  # names another request: the id is a string
    server.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
    server.result("tools/list")  # reads the progress sent before the cancellation arrived
    before = len(server.messages)
    assert procfs.eventually(lambda: not procfs.having(marker), PATIENCE)
    # All that follows belongs to other requests; no answer to the cancelled one comes late.
    server.call("run_command", command="sleep 1.2")
    assert not any("method" in message for message in server.messages[before:])
    assert not any(message.get("id") == number for message in server.messages)
    # The client may use the id again.
    assert server.wait(server.begin("run_command", {"command": "true"}))["result"]["isError"] is False
    assert server.wait(server.request("tools/list", number=number))["result"]["tools"]


def progress_until(server, message):
    """Reads progress notifications until one has this message."""
    while not server.progress or server.progress[-1]["message"] != message:
        server.progress.append(server.receive()["params"])


@row("progress-token-and-monotonic", ALL)
def progress_grows_and_ends_with_the_call(place, revision):
    server = place.ready(revision)
    server.call("run_command", command="for i in 1 2 3; do echo line $i; sleep 0.3; done")
    assert not server.progress, "progress without a progressToken"
    for n, token in enumerate(("t\"", 7)):
        server.progress.clear()
        steps = [("line 1\n", "line 1"), ("lin", "lin"), ("e é\n", "line é")]
        number = server.begin("run_command", {"command": "".join(
            f"printf '{written}'; until [ -e go{n}{i} ]; do sleep 0.05; done; " for i, (written, _) in enumerate(steps))},
            progressToken=token)
        for i, (_, told) in enumerate(steps):
            progress_until(server, told)
            place.write(f"go{n}{i}", "")
        server.wait(number)
        assert [entry["progressToken"] for entry in server.progress] == [token] * len(server.progress)
        values = [entry["progress"] for entry in server.progress]
        assert values == sorted(set(values))
        # A command that waited before it began sends "running" first.
        told = [message for message, _ in itertools.groupby(entry["message"] for entry in server.progress)]
        assert told[-3:] == ["line 1", "lin", "line é"] and told[:-3] in ([], ["running"])
    server.progress.clear()
    number = server.begin("run_command", {"command": "until [ -e end ]; do sleep 0.05; done"}, progressToken=1)
    progress_until(server, "running")  # a command without output has progress too
    place.write("end", "")
    server.wait(number)
    count = len(server.messages)
    server.call("run_command", command="sleep 1.2")
    assert not any("method" in message for message in server.messages[count:])
    for wrong in (None, 1.5, {}, "x" * 300):
        assert server.error("tools/call", {"name": "read_file", "arguments": {"path": "."}},
                            progressToken=wrong)["code"] == -32602


@row("parse-error-id", ALL)
def an_unreadable_request_is_answered_with_its_id(place, revision):
    server = place.start(revision)
    server.pipes.send_raw(b'{"jsonrpc":"2.0","id":1,"method":\n')
    answer = server.receive()
    assert answer["error"]["code"] == -32700 and answer["id"] == 1
    server.pipes.send_raw(b'{"jsonrpc":"2.0","method":\n')
    answer = server.receive()
    assert answer["error"]["code"] == -32700 and "id" not in answer
    server.pipes.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"' + b"x" * (33 << 20) + b'"}\n')
    answer = server.receive()
    assert answer["error"]["code"] == -32600 and answer["id"] == 1, "the id comes before the part that is too long"
    server.pipes.send_raw(b'{"jsonrpc":"2.0","method":"ping","params":"' + b"x" * (33 << 20) + b'"}\n')
    answer = server.receive()
    assert answer["error"]["code"] == -32600 and "id" not in answer
    assert server.ready()


# Requirements of 2026-07-28.


@row("discover", LATEST)
def discover_tells_what_there_is(place, revision):
    result = place.start(revision).result("server/discover")
    assert result["supportedVersions"] == [MODERN, LEGACY, OLDEST]
    assert result["capabilities"] == {"tools": {}, "extensions": {TASKS: {}}}
    assert result["resultType"] == "complete" and result["ttlMs"] > 0 and result["cacheScope"] == "public"


@row("tools-order-stable", ALL)
def the_list_is_the_same_for_every_connection(place, revision):
    lists = [place.ready(revision).result("tools/list")["tools"] for _ in range(3)]
    assert lists[0] == lists[1] == lists[2]
    server = place.ready(revision)
    assert server.error("tools/list", {"cursor": "x"})["code"] == -32602
    hints = {tool["name"]: tool["annotations"] for tool in lists[0]}
    assert [name for name in TOOLS if hints[name]["readOnlyHint"]] == ["read_file", "list_directory", "search_files"]
    assert [name for name in TOOLS if hints[name]["destructiveHint"]] == ["write_file", "run_command"]
    assert not any(hint["openWorldHint"] for hint in hints.values())


@row("framing-on-the-agent-socket", ALL)
def the_agent_socket_speaks_it_too(place, revision):
    with place.daemon.connect() as client:
        server = Mcp(client, revision).ready()
        result = server.call("list_directory", path=".")
        assert result["structuredContent"]["error"]["code"] == "WORKSPACE_NOT_FOUND"
        client.call("workspace.open", {"workspace": "for-mcp"})
        assert not server.call("write_file", path="a", content="b")["isError"]
        client.call("workspace.close", {"workspace": "for-mcp"})
        named = {"cloister/workspace": "for-mcp"}
        assert server.call("read_file", named, path="a")["structuredContent"]["output"]["content"] == "     1\tb"
        # The native methods work on the same connection.
        assert client.call("tool.call", {
            "workspace": "for-mcp", "tool": "read_file", "arguments": {"path": "a"}})["success"]
        number = server.begin("run_command", {"command": "sleep 1000"}, **named)
        client.notify("tool.cancel", {"id": number})
        assert server.wait(number)["result"]["structuredContent"]["error"]["code"] == "CANCELLED"
        client.call("workspace.remove", {"workspace": "for-mcp"})


@pytest.mark.deep("slow")
@pytest.mark.parametrize("shows, revision", ROWS)
def test_requirement(place, shows, revision):
    shows(place, revision)


def test_a_private_instance_serves_mcp_and_ends_with_it(place):
    server = place.start(where=("--private",)).ready()
    marker = f"sleep 5503.{os.getpid()}s"
    server.begin("run_command", {"command": f"exec {marker}"})
    assert procfs.eventually(lambda: procfs.having(marker), PATIENCE)
    assert server.pipes.close() == 0
    assert procfs.eventually(lambda: not procfs.having(marker), PATIENCE)


def test_what_was_asked_before_the_end_of_the_input_is_answered(place):
    place.write("a", "text")
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "read_file", "arguments": {"path": "a"}, "_meta": meta(MODERN)}}
    done = place.area.start(
        ["cloister", "--socket", str(place.daemon.socket), "--workspace", str(place.workspace), "mcp"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = done.communicate(json.dumps(request).encode() + b"\n", timeout=PATIENCE)
    assert json.loads(out)["result"]["structuredContent"]["success"]
    assert done.returncode == 0


def test_a_service_that_ends_is_said_on_stderr(area, start_daemon):
    place = Place(area, start_daemon())
    server = place.ready()
    assert place.daemon.stop() == 0
    assert server.receive() is None
    assert place.started[0].wait(PATIENCE) == 3
    assert b"closed the connection" in place.started[0].stderr.read()
    place.end()


def test_many_large_answers_while_requests_still_come(place):
    """The server serves a client that writes all its requests before it reads an answer."""
    server = place.ready()
    place.write("large", "x" * 100 + "\n" * 50 + "y" * 200000)
    options = {"cloister/options": {"encoding": "base64"}}
    numbers = [server.begin("read_file", {"path": "large"}, **options) for _ in range(60)]
    answers = [server.wait(number) for number in numbers]
    assert all(len(answer["result"]["structuredContent"]["output"]["content"]) > 200000 for answer in answers)
