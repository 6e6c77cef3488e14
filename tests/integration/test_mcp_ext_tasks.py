# SPDX-License-Identifier: Apache-2.0
"""Tasks of the extension of MCP 2026-07-28, over `cloister mcp`. Every message is checked against a schema (mcp_client.py)."""

import os
import re

import pytest

import procfs
from cloister_client import PATIENCE
from mcp_client import LEGACY, META, MODERN, OLDEST, TASKS
from test_mcp import Place

pytest.importorskip("jsonschema")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


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


@pytest.fixture
def place(area, daemon):
    made = Place(area, daemon)
    yield made
    made.end()


def start(place, takes=True):
    server = place.ready(MODERN)
    if takes:
        server.capabilities = {"extensions": {TASKS: {}}}
    return server


@pytest.fixture
def server(place):
    return start(place)


def create(server, command, **more):
    """Calls a command that takes long. Returns the task that it becomes."""
    task = server.result("tools/call", {"name": "run_command", "arguments": {"command": command}}, **more)
    assert task["resultType"] == "task" and task["status"] == "working"
    assert re.fullmatch("[0-9a-f]{32}", task["taskId"])
    assert TIME.fullmatch(task["createdAt"]) and task["createdAt"] <= task["lastUpdatedAt"]
    assert task["ttlMs"] > 600000 and task["pollIntervalMs"] == 1000
    return task


def kept(place):
    """How many tasks there are, of this test and of those before it."""
    return metrics(place.daemon)["cloister_tenant_tasks"]


def get(server, task):
    return server.result("tasks/get", {"taskId": task["taskId"]})


def over(server, task):
    """Waits for the end, by polling. Returns the task."""
    return procfs.eventually(lambda: (now := get(server, task))["status"] != "working" and now, PATIENCE)


# Each waits until it is told to end, so that it becomes a task however fast the machine is.
WAIT = "until [ -e go ]; do sleep 0.05; done; "


@pytest.mark.deep("slow")
@pytest.mark.parametrize("command", [
    "echo out; echo err >&2", "exit 3", "kill -9 $$", "printf 'a\\0\\377\\342\\200\\250\\n'", "no-such-command",
    "head -c 300000 /dev/zero | tr '\\0' x"])
def test_the_result_is_that_of_the_call(place, server, command):
    """stdout, stderr, the observation and isError are all that tools/call gives without the extension."""
    server.call("run_command", command="true")  # the first answer has a note of the workspace
    task = create(server, WAIT + command)
    assert get(server, task)["status"] == "working"
    # Other requests are answered meanwhile.
    server.call("write_file", path="go", content="")
    now = over(server, task)
    server.capabilities = {}
    called = server.call("run_command", command=WAIT + command)
    server.capabilities = {"extensions": {TASKS: {}}}
    assert plain(now["result"]) == plain(called)
    assert now["result"]["resultType"] == "complete"
    assert now["status"] == "completed", "also if the tool has failed"
    assert now["createdAt"] == task["createdAt"] <= now["lastUpdatedAt"]
    assert get(server, task) == now, "it is kept, and the same each time"


@pytest.mark.deep("slow")
def test_a_failure_of_the_tool_is_a_completed_task(server):
    task = create(server, "echo begun; sleep 600", **{"cloister/options": {"timeout_ms": 4000}})
    now = over(server, task)
    assert now["status"] == "completed" and now["statusMessage"].startswith("TIMEOUT: ")
    assert now["result"]["isError"] and now["result"]["structuredContent"]["error"]["code"] == "TIMEOUT"
    assert now["result"]["structuredContent"]["output"]["stdout"] == "begun\n"


def test_what_is_over_soon_is_answered_at_once(server):
    for tool, arguments in (("run_command", {"command": "echo a"}), ("list_directory", {"path": "."})):
        result = server.result("tools/call", {"name": tool, "arguments": arguments})
        assert result["resultType"] == "complete" and not result["isError"]


@pytest.mark.deep("slow")
def test_only_for_those_who_declare_it_in_the_request(place, server):
    """2026-07-28 relies on no earlier request: a call without the capability is answered when it is over."""
    create(server, WAIT)
    before = kept(place)
    undeclared = ({}, {"extensions": {}}, {"extensions": {TASKS: True}}, {"extensions": [TASKS]},
                  {"extensions": {TASKS.upper(): {}}}, {"tasks": {}})
    numbers = []
    for server.capabilities in undeclared:
        numbers.append(server.begin("run_command", {"command": WAIT + "echo over"}))
    server.capabilities = {"extensions": {TASKS: {}}}
    create(server, WAIT)
    assert kept(place) == before + 1
    server.call("write_file", path="go", content="")
    while not set(numbers) <= {message.get("id") for message in server.messages}:
        server.receive()
    answers = [message["result"] for message in server.messages if message.get("id") in numbers]
    assert [answer["structuredContent"]["output"]["stdout"] for answer in answers] == ["over\n"] * len(numbers)


@pytest.mark.deep("slow")
@pytest.mark.parametrize("revision", [LEGACY, OLDEST])
def test_other_revisions_have_none(place, revision):
    server = place.ready(revision)
    result = server.result("tools/call", {"name": "run_command", "arguments": {"command": "sleep 2.5; echo over"}},
                           **{META + "clientCapabilities": {"extensions": {TASKS: {}}}})
    assert result["structuredContent"]["output"]["stdout"] == "over\n"
    assert server.error("tasks/update", {"taskId": "0" * 32})["code"] == -32601


@pytest.mark.deep("slow")
def test_a_cancelled_task(server):
    number = f"6311.{os.getpid()}s"
    task = create(server, f"trap '' TERM; sleep {number} & wait")
    assert procfs.having(f"sleep {number}")
    taken = server.result("tasks/cancel", {"taskId": task["taskId"]})
    assert set(taken) == {"resultType", "_meta"} and taken["resultType"] == "complete"
    now = over(server, task)
    assert now["status"] == "cancelled" and "result" not in now and now["statusMessage"].startswith("CANCELLED: ")
    assert not procfs.having(f"sleep {number}"), "nothing is left when it is cancelled"
    server.result("tasks/cancel", {"taskId": task["taskId"]})
    assert get(server, task)["status"] == "cancelled", "it stays cancelled"


def test_a_request_that_is_cancelled_is_no_task(place, server):
    number = f"6312.{os.getpid()}s"
    before = kept(place)
    server.notify("notifications/cancelled", {"requestId": server.begin("run_command", {"command": f"sleep {number}"})})
    assert procfs.eventually(lambda: not procfs.having(f"sleep {number}"), PATIENCE)
    server.call("run_command", command="sleep 2.5")
    assert kept(place) == before + 1, "that of the last call"


def test_a_client_that_was_killed_finds_it_again(place, server):
    """The command goes on without its client, and another process of the client fetches its result."""
    task = create(server, "echo begun; " + WAIT + "echo over")
    place.started[0].kill()
    place.started[0].wait()
    other = start(place)
    assert get(other, task)["status"] == "working"
    other.call("write_file", path="go", content="")
    assert over(other, task)["result"]["structuredContent"]["output"]["stdout"] == "begun\nover\n"


@pytest.mark.deep("slow")
def test_tasks_of_one_key(place, server):
    """The second call joins the first one's: it runs once, and cancelling the first task leaves the second one alone."""
    first, second = (create(server, "echo x >>count; " + WAIT, **{"cloister/key": "once"}) for _ in range(2))
    assert first["taskId"] != second["taskId"]
    server.result("tasks/cancel", {"taskId": first["taskId"]})
    assert over(server, first)["status"] == "cancelled" and get(server, second)["status"] == "working"
    server.call("write_file", path="go", content="")
    assert over(server, second)["result"]["structuredContent"]["success"]
    assert server.call("run_command", command="wc -l <count")["structuredContent"]["output"]["stdout"] == "1\n"


def test_the_end_of_a_client_before_there_is_a_task(place, server):
    """Nobody has been told of a task, so the call ends with its client as all calls do."""
    number, before = f"6313.{os.getpid()}s", kept(place)
    server.begin("run_command", {"command": f"sleep {number}"})
    assert procfs.eventually(lambda: procfs.having(f"sleep {number}"), PATIENCE)
    place.started[0].kill()
    assert procfs.eventually(lambda: not procfs.having(f"sleep {number}"), PATIENCE)
    assert kept(place) == before


@pytest.mark.parametrize("method, params, code", [
    ("tasks/get", {}, -32602), ("tasks/get", {"taskId": 7}, -32602), ("tasks/get", {"taskId": "0" * 32}, -32602),
    ("tasks/cancel", {"taskId": "0" * 32}, -32602), ("tasks/cancel", {"taskId": "\0"}, -32602),
    ("tasks/update", {"taskId": "0" * 32, "inputResponses": {}}, -32602), ("tasks/update", {}, -32602),
    ("tasks/list", {}, -32601), ("tasks/result", {"taskId": "0" * 32}, -32601)])
def test_mistakes(server, method, params, code):
    assert server.error(method, params)["code"] == code


def test_input_that_nobody_asked_for(server):
    task = create(server, WAIT)
    error = server.error("tasks/update", {"taskId": task["taskId"]})
    assert error["code"] == -32602 and "inputResponses" in error["message"]
    taken = server.result("tasks/update", {"taskId": task["taskId"], "inputResponses": {"a": {"action": "accept"}}})
    assert taken["resultType"] == "complete" and get(server, task)["status"] == "working"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_clients_that_do_not_declare_it_are_told_what_to_do(server, method):
    task = create(server, WAIT)
    server.capabilities = {}
    error = server.error(method, {"taskId": task["taskId"], "inputResponses": {}})
    assert error["code"] == -32021 and error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    assert TASKS in error["message"]
    server.capabilities = {"extensions": {TASKS: {}}}
    assert get(server, task)["status"] == "working"
