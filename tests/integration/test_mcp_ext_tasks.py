# SPDX-License-Identifier: Apache-2.0
"""Tasks of the extension of MCP 2026-07-28, over `cloister mcp`. Every message is checked against a schema (mcp_client.py)."""

import re

import pytest

import procfs
from cloister_client import PATIENCE
from mcp_client import MODERN, TASKS
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
