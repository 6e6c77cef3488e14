# SPDX-License-Identifier: Apache-2.0
"""Tasks of MCP 2025-11-25, over `cloister mcp`. Every message is checked against the official schema (mcp_client.py)."""

import os
import re

import pytest

import procfs
from cloister_client import PATIENCE
from mcp_client import LEGACY, META, MODERN, OLDEST, TASKS
from test_mcp import Place

pytest.importorskip("jsonschema")
RELATED = META + "related-task"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def place(area, daemon):
    made = Place(area, daemon)
    yield made
    made.end()


@pytest.fixture
def server(place):
    return place.ready(LEGACY)


def create(server, command, ttl=None, **more):
    """Begins a task. Returns it as it was created."""
    result = server.result("tools/call", {
        "name": "run_command", "arguments": {"command": command}, "task": {} if ttl is None else {"ttl": ttl}}, **more)
    assert list(result) == ["task"]
    task = result["task"]
    assert re.fullmatch("[0-9a-f]{32}", task["taskId"])
    assert task["status"] == "working", "a task is working when it is created"
    assert TIME.fullmatch(task["createdAt"]) and TIME.fullmatch(task["lastUpdatedAt"])
    return task


def get(server, task):
    return server.result("tasks/get", {"taskId": task["taskId"]})


def payload(server, task):
    result = server.result("tasks/result", {"taskId": task["taskId"]})
    assert result["_meta"] == {RELATED: {"taskId": task["taskId"]}}
    return result


def over(server, task):
    """Waits for the end, by polling. Returns the task."""
    return procfs.eventually(lambda: (now := get(server, task))["status"] != "working" and now, PATIENCE)


def plain(result):
    """What two runs of one command have in common."""
    result = dict(result)
    result.pop("_meta", None)
    observation = dict(result["structuredContent"])
    observation.pop("usage", None)
    if observation["output"]:
        observation["output"] = {key: value for key, value in observation["output"].items() if key != "duration_ms"}
    text = [re.sub(r"( after )?\d+(\.\d+)? ?m?s\b", "", block.get("text", "")) for block in result["content"]]
    return {**result, "structuredContent": observation, "content": text}


def metrics(daemon):
    """The sums of the metrics, without their labels."""
    with daemon.control() as control:
        text = control.call("metrics")["text"]
    sums = {}
    for line in text.splitlines():
        if found := re.match(r"(\w+)(?:\{[^}]*\})? ([0-9.e+]+)$", line):
            sums[found[1]] = sums.get(found[1], 0) + float(found[2])
    return sums


def test_what_the_server_declares(place):
    for revision, declares in ((LEGACY, True), (OLDEST, False)):
        server = place.start(revision)
        capabilities = server.initialize()["capabilities"]
        assert capabilities == {"tools": {}, **(
            {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}} if declares else {})}
        assert {tool["name"]: tool["execution"]["taskSupport"] for tool in server.result("tools/list")["tools"]
                if "execution" in tool} == ({"run_command": "optional"} if declares else {})
    server = place.start(MODERN)
    assert server.result("server/discover")["capabilities"] == {"tools": {}, "extensions": {TASKS: {}}}
    assert not any("execution" in tool for tool in server.result("tools/list")["tools"])


@pytest.mark.parametrize("command", [
    "echo out; echo err >&2", "exit 3", "kill -9 $$", "printf 'a\\0\\377\\342\\200\\250\\n'", "no-such-command",
    "head -c 300000 /dev/zero | tr '\\0' x", "sudo true", "", "cat /no/such/file"])
def test_the_result_is_that_of_the_call(server, command):
    """stdout, stderr, the observation and isError: all that tools/call gives, also of a command that is refused."""
    server.call("run_command", command="true")  # the first answer has a note of the workspace
    called = server.call("run_command", command=command)
    task = create(server, command)
    result = payload(server, task)
    assert plain(result) == plain(called)
    now = get(server, task)
    assert now["status"] == ("failed" if called["isError"] else "completed")
    if called["isError"]:
        assert now["statusMessage"].startswith(called["structuredContent"]["error"]["code"] + ": ")
    assert now["createdAt"] == task["createdAt"] <= now["lastUpdatedAt"]
    assert payload(server, task) == result, "it is kept, and the same each time"


def test_options_of_the_call(server):
    """_meta's options and key are those of tools/call."""
    task = create(server, "echo $NAME; sleep 600", **{
        "cloister/options": {"env": {"NAME": "value"}, "timeout_ms": 300}})
    result = payload(server, task)
    assert result["isError"] and result["structuredContent"]["error"]["code"] == "TIMEOUT"
    assert result["structuredContent"]["output"]["stdout"] == "value\n"
    assert get(server, task)["status"] == "failed"
    first, second = (create(server, "date +%N; echo x >> count", **{"cloister/key": "once"}) for _ in range(2))
    assert payload(server, first)["structuredContent"]["output"] == payload(server, second)["structuredContent"]["output"]
    assert server.call("run_command", command="wc -l < count")["structuredContent"]["output"]["stdout"] == "1\n"


def test_other_calls_go_on_meanwhile(server, place):
    task = create(server, "until [ -e go ]; do sleep 0.05; done; echo gone on")
    waiting = server.request("tasks/result", {"taskId": task["taskId"]})
    assert get(server, task)["status"] == "working"
    assert server.call("run_command", command="echo now")["structuredContent"]["output"]["stdout"] == "now\n"
    server.call("write_file", path="go", content="")
    answer = server.wait(waiting)
    assert answer["result"]["structuredContent"]["output"]["stdout"] == "gone on\n"
    assert [status["status"] for status in server.statuses] == ["completed"]
    assert server.statuses[0]["taskId"] == task["taskId"] and "_meta" not in server.statuses[0]


def test_progress_is_of_the_task(server):
    task = create(server, "echo begun; until [ -e go ]; do sleep 0.05; done", progressToken="mine")
    server.request("tasks/get", {"taskId": task["taskId"]})
    while not server.progress:
        message = server.receive()
        if message.get("method") == "notifications/progress":
            server.progress.append(message["params"])
    told = server.progress[0]
    assert told["progressToken"] == "mine" and told["_meta"] == {RELATED: {"taskId": task["taskId"]}}
    server.call("write_file", path="go", content="")
    assert over(server, task)["status"] == "completed"


@pytest.mark.deep("slow")
def test_a_cancelled_task(server):
    number = f"6301.{os.getpid()}s"
    task = create(server, f"trap '' TERM; sleep {number} & wait")
    assert procfs.eventually(lambda: procfs.having(f"sleep {number}"), PATIENCE)
    waiting = server.request("tasks/result", {"taskId": task["taskId"]})
    cancelled = server.result("tasks/cancel", {"taskId": task["taskId"]})
    assert cancelled["status"] == "cancelled"
    answer = server.wait(waiting)
    assert answer["result"]["isError"] and answer["result"]["structuredContent"]["error"]["code"] == "CANCELLED"
    assert not procfs.having(f"sleep {number}"), "nothing is left when the result is there"
    assert get(server, task)["status"] == "cancelled", "it stays cancelled"
    error = server.error("tasks/cancel", {"taskId": task["taskId"]})
    assert error["code"] == -32602 and "cancelled" in error["message"]


def test_only_run_command_can_be_one(server):
    for tool, arguments in (("read_file", {"path": "x"}), ("list_directory", {"path": "."})):
        error = server.error("tools/call", {"name": tool, "arguments": arguments, "task": {}})
        assert error["code"] == -32601 and "run_command" in error["message"]


@pytest.mark.parametrize("method, params, code", [
    ("tasks/get", {}, -32602), ("tasks/get", {"taskId": 7}, -32602), ("tasks/get", {"taskId": "0" * 32}, -32602),
    ("tasks/result", {"taskId": "0" * 32}, -32602), ("tasks/cancel", {"taskId": "\0"}, -32602),
    ("tasks/list", {"cursor": "next"}, -32602), ("tasks/list", {"cursor": {}}, -32602),
    ("tools/call", {"name": "run_command", "arguments": {"command": "true"}, "task": []}, -32602),
    ("tools/call", {"name": "run_command", "arguments": {"command": "true"}, "task": {"ttl": 1.5}}, -32602),
    ("tools/call", {"name": "run_command", "arguments": {"command": "true"}, "task": {"ttl": -1}}, -32602),
    ("tools/call", {"name": "run_command", "arguments": [], "task": {}}, -32602),
    ("tasks/update", {"taskId": "0" * 32}, -32601)])
def test_mistakes(server, method, params, code):
    assert server.error(method, params)["code"] == code
    assert server.result("tasks/list") == {"tasks": []}


@pytest.mark.parametrize("revision", [MODERN, OLDEST])
def test_other_revisions(place, revision):
    """They have no such methods, or those of the extension for those who take it, and ignore what they do not know."""
    server = place.ready(revision)
    of_extension = ("tasks/get", "tasks/cancel") if revision == MODERN else ()
    for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
        assert server.error(method, {"taskId": "0" * 32})["code"] == (-32021 if method in of_extension else -32601)
    answer = server.wait(server.request("tools/call", {
        "name": "run_command", "arguments": {"command": "echo a"}, "task": {"ttl": 1}}))
    assert answer["result"]["structuredContent"]["output"]["stdout"] == "a\n"


def test_a_task_is_its_connection_s(place, server):
    """Another client of the same user, tenant and workspace finds nothing; the end of the client is that of its commands."""
    other = place.ready(LEGACY)
    number = f"6302.{os.getpid()}s"
    task = create(server, f"sleep {number}")
    assert other.result("tasks/list") == {"tasks": []}
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        error = other.error(method, {"taskId": task["taskId"]})
        assert error["code"] == -32602 and "not found" in error["message"]
    assert get(server, task)["status"] == "working"
    assert procfs.eventually(lambda: procfs.having(f"sleep {number}"), PATIENCE)
    place.started[0].kill()
    assert procfs.eventually(lambda: not procfs.having(f"sleep {number}"), PATIENCE)
    assert procfs.eventually(lambda: metrics(place.daemon)["cloister_tenant_tasks"] == 0, PATIENCE)
    assert metrics(place.daemon)["cloister_tenant_task_bytes"] == 0


def test_the_end_of_input_is_the_end_of_tasks(place, server):
    number = f"6303.{os.getpid()}s"
    create(server, f"sleep {number}")
    assert procfs.eventually(lambda: procfs.having(f"sleep {number}"), PATIENCE)
    assert server.pipes.close() == 0
    assert procfs.eventually(lambda: not procfs.having(f"sleep {number}"), PATIENCE)
