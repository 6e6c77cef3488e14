# SPDX-License-Identifier: Apache-2.0
"""MCP of `cloister mcp` and the agent socket. Each row of mcp/stdio-requirements.tsv is one requirement."""

import itertools
import json
import os
import re
import subprocess

import pytest

import procfs
from cloister_client import PATIENCE
from mcp_client import LEGACY, META, MODERN, OLDEST, TASKS, Mcp, Pipes, meta

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


@row("string-id-echoed-exactly", ALL)
def an_id_is_repeated_as_it_was(place, revision):
    server = place.ready(revision)
    for number in ("a\"\\é\n", "", "7", 7, 0, -3, 2**53 + 1):
        answer = server.wait(server.request("tools/list", number=number))
        assert answer["id"] == number and type(answer["id"]) is type(number)
    for wrong in (None, 1.5, True, {}):
        server.send({"jsonrpc": "2.0", "id": wrong, "method": "tools/list", "params": {"_meta": meta(revision)}})
        answer = server.receive()
        assert answer["error"]["code"] == -32600 and "id" not in answer


@row("notifications-get-no-answer", ALL)
def a_notification_is_not_answered(place, revision):
    server = place.ready(revision)
    whole = {"_meta": meta(revision)}
    for method in ("notifications/initialized", "notifications/roots/list_changed", "no/such", "tools/list", "ping",
                   "initialize", "server/discover"):
        server.notify(method, whole)
    server.notify("tools/call", {**whole, "name": "write_file", "arguments": {"path": "made", "content": ""}})
    server.notify("notifications/cancelled", {"requestId": 12345})
    server.notify("notifications/cancelled")
    number = server.request("tools/list")
    assert server.receive()["id"] == number
    # If the server had accepted the write, its answer would come before this one.
    assert server.call("list_directory", path=".")["structuredContent"]["output"]["count"] == 0


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


@row("unknown-method-32601", ALL)
def an_unknown_method_is_refused(place, revision):
    server = place.ready(revision)
    for method in ("no/such", "resources/list", "prompts/list", "workspace.list", "tool.call", "notifications/initialized"):
        assert server.error(method)["code"] == -32601


@row("unknown-tool-32602", ALL)
def an_unknown_tool_is_refused(place, revision):
    server = place.ready(revision)
    assert server.error("tools/call", {"name": "Read_File", "arguments": {}})["code"] == -32602
    for malformed in ({}, {"name": 7}, {"name": "read_file", "arguments": []}, {"name": "read_file", "arguments": "{}"}):
        assert server.error("tools/call", malformed)["code"] == -32602


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


@row("tool-names-charset", ALL)
def tool_names_are_plain_and_unique(place, revision):
    names = [tool["name"] for tool in place.ready(revision).result("tools/list")["tools"]]
    assert names == TOOLS and len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in names)


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
    result = server.call("read_file", path="large", start_line=59001)
    (block,) = result["content"]
    assert block["type"] == "text"
    content = result["structuredContent"]["output"]["content"]
    assert content == "".join(f"{n:6}\té\"\\\t\u2028😀\n" for n in range(59001, 60001))
    assert block["text"] == "large (lines 59001-60000 of 60000; every fifth has its number)\n" + "".join(
        f"{n if n % 5 == 0 or n == 59001 else ''}\té\"\\\t\u2028😀\n" for n in range(59001, 60001))
    # With base64, which a program asks for, the text is the JSON.
    result = server.call("read_file", {"cloister/options": {"encoding": "base64"}}, path="large")
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert len(result["structuredContent"]["output"]["content"]) > 1000000


@row("array-request", ALL)
def batches_are_refused(place, revision):
    server = place.ready(revision)
    server.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta(revision)}}])
    answer = server.receive()
    assert answer["error"]["code"] == -32600 and "id" not in answer


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


# Requirements of the revisions that begin with initialize.


@row("initialize-version", LEGACIES)
def the_version_is_the_clients_or_our_latest(place, revision):
    for asked, answered in ((revision, revision), ("2024-11-05", LEGACY), ("2099-01-01", LEGACY), (MODERN, LEGACY)):
        server = place.start(revision)
        result = server.initialize(asked)
        assert result["protocolVersion"] == answered
        assert server.result("tools/list")["tools"]
    for wrong in ({}, {"protocolVersion": 1, "capabilities": {}, "clientInfo": {}}, {"protocolVersion": revision}):
        assert server.error("initialize", wrong)["code"] == -32602


@row("initialize-is-first", LEGACIES)
def nothing_is_served_before_initialize(place, revision):
    server = place.start(revision)
    assert server.error("tools/list")["code"] == -32602
    assert server.error("tools/call", {"name": "run_command", "arguments": {"command": "true"}})["code"] == -32602
    server.ready()


@row("initialize-serverInfo", LEGACIES)
def the_server_says_who_it_is(place, revision):
    result = place.start(revision).initialize()
    assert result["serverInfo"]["name"] == "cloister" and result["serverInfo"]["version"]
    assert "workspace" in result["instructions"] and "What holds here: no network; " in result["instructions"]
    assert "resultType" not in result


@row("declares-tools", LEGACIES)
def the_server_declares_tools(place, revision):
    assert place.start(revision).initialize()["capabilities"] == {"tools": {}}


@row("initialized-accepted", LEGACIES)
def initialized_is_accepted_silently(place, revision):
    server = place.start(revision)
    server.initialize()  # also sends notifications/initialized
    number = server.request("ping")
    assert server.receive()["id"] == number


@row("ping", LEGACIES)
def ping_is_answered_at_any_time(place, revision):
    server = place.start(revision)
    assert server.result("ping") == {}
    server.ready()
    number = server.begin("run_command", {"command": "sleep 1000"})
    assert server.result("ping") == {}, "no answer to a ping while a command runs"
    server.notify("notifications/cancelled", {"requestId": number})


@row("initialize-not-cancellable", LEGACIES)
def initialize_cannot_be_cancelled(place, revision):
    server = place.start(revision)
    number = server.request("initialize", {
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    server.notify("notifications/cancelled", {"requestId": number})
    assert server.wait(number)["result"]["protocolVersion"] == revision


# Requirements of 2026-07-28.


@row("discover", LATEST)
def discover_tells_what_there_is(place, revision):
    result = place.start(revision).result("server/discover")
    assert result["supportedVersions"] == [MODERN, LEGACY, OLDEST]
    assert result["capabilities"] == {"tools": {}, "extensions": {TASKS: {}}}
    assert result["resultType"] == "complete" and result["ttlMs"] > 0 and result["cacheScope"] == "public"


@row("missing-required-meta-32602", LATEST)
def each_request_carries_version_and_capabilities(place, revision):
    server = place.start(revision)
    whole = meta(MODERN)
    del whole[META + "clientInfo"]
    for method in ("server/discover", "tools/list", "tools/call"):
        params = {"name": "list_directory", "arguments": {"path": "."}} if method == "tools/call" else {}
        for without in whole:
            part = {name: value for name, value in whole.items() if name != without}
            assert server.error(method, {**params, "_meta": part})["code"] == -32602
        for wrong in ({}, [], "x", {**whole, META + "protocolVersion": 20260728},
                      {**whole, META + "clientCapabilities": []}):
            assert server.error(method, {**params, "_meta": wrong})["code"] == -32602
        assert server.result(method, {**params, "_meta": whole})["resultType"] == "complete"


@row("unsupported-version-32022", LATEST)
def an_unsupported_version_is_told_the_supported_ones(place, revision):
    server = place.start(revision)
    for asked in ("1900-01-01", "2024-11-05", "", "2026-07-28 "):
        error = server.error("tools/list", {"_meta": {**meta(MODERN), META + "protocolVersion": asked}})
        assert error["code"] == -32022
        assert error["data"] == {"supported": [MODERN, LEGACY, OLDEST], "requested": asked}


@row("listed-versions-are-served", LATEST)
def a_version_that_is_listed_may_be_named_in_a_request(place, revision):
    server = place.start(revision)
    for named in server.result("server/discover")["supportedVersions"]:
        server.revision = named
        result = server.result("tools/list", {"_meta": {**meta(MODERN), META + "protocolVersion": named}})
        assert ("resultType" in result) is (named == MODERN)


@row("no-client-capability-is-needed", LATEST)
def nothing_asks_the_client_for_more(place, revision):
    # -32021 would name a missing capability; every tool works without any.
    server = place.ready(revision)
    assert any(not result["isError"] for result in many_results(place, server))


@row("resultType-ttl-cacheScope", LATEST)
def results_are_complete_and_lists_may_be_cached(place, revision):
    server = place.ready(revision)
    listed = server.result("tools/list")
    assert listed["ttlMs"] > 0 and listed["cacheScope"] == "public"
    results = [listed, server.result("server/discover"), server.call("read_file", path="none"),
               server.call("run_command", command="true")]
    assert [result["resultType"] for result in results] == ["complete"] * 4


@row("serverInfo-in-meta", LATEST)
def results_say_who_made_them(place, revision):
    server = place.ready(revision)
    for result in (server.result("tools/list"), server.result("server/discover"), server.call("run_command", command="true")):
        assert result["_meta"][META + "serverInfo"]["name"] == "cloister"


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


@row("server-must-not-send-requests", ALL)
def the_server_asks_for_nothing(place, revision):
    server = place.ready(revision)
    list(many_results(place, server))
    assert all("method" not in message or "id" not in message for message in server.messages)


@row("error-codes", ALL)
def only_defined_error_codes_are_used(place, revision):
    # The client checks every code; these calls cause them.
    server = place.ready(revision)
    assert server.error("tools/call", {"name": "nope"})["code"] == -32602
    assert server.call("run_command", {"cloister/workspace": "no-such"}, command="true")[
        "structuredContent"]["error"]["code"] == "WORKSPACE_NOT_FOUND"
    assert server.error("tools/call", {"name": "run_command", "arguments": {"command": "true"}},
                        **{"cloister/workspace": 7})["code"] == -32602
    assert server.error("tools/call", {"name": "run_command", "arguments": {"command": "true"}},
                        **{"cloister/options": {"nonsense": 1}})["code"] == -32602
    number = server.begin("run_command", {"command": "sleep 1000"})
    server.request("tools/call", {"name": "run_command", "arguments": {"command": "true"}}, number=number)
    assert server.wait(number)["error"]["code"] == -32600, "the id of a running call was taken again"
    server.notify("notifications/cancelled", {"requestId": number})


@row("stateless", LATEST)
def nothing_is_remembered_between_requests(place, revision):
    server = place.ready(revision)
    server.send({"jsonrpc": "2.0", "id": "bare", "method": "tools/list"})
    assert server.wait("bare")["error"]["code"] == -32602


@row("ping-removed", LATEST)
def what_was_removed_is_unknown(place, revision):
    server = place.start(revision)
    for method in ("ping", "logging/setLevel", "resources/subscribe"):
        assert server.error(method)["code"] == -32601
    error = server.error("initialize", {
        "protocolVersion": MODERN, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    assert error["code"] == -32601
    assert all(version in error["message"] for version in ALL)


@row("both-eras-on-one-connection", LATEST)
def a_connection_may_speak_both(place, revision):
    server = place.start(LEGACY).ready()
    assert "resultType" not in server.result("tools/list")
    server.revision = MODERN
    assert server.result("tools/list")["resultType"] == "complete"
    assert server.call("run_command", command="true")["resultType"] == "complete"
    server.revision = LEGACY
    assert "resultType" not in server.call("run_command", command="true")


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


@row("no-network-ref", ALL)
def schemas_refer_to_nothing(place, revision):
    assert "$ref" not in json.dumps(place.ready(revision).result("tools/list"))


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


def test_workspace_open_takes_no_other_protocol(place):
    with place.daemon.connect() as client:
        answer = client.wait(client.request("workspace.open", {"root": str(place.workspace), "protocol": "http"}))
        assert answer["error"]["code"] == -32602
        assert "workspaces" in client.call("workspace.list"), "the native methods do not answer on this connection"
