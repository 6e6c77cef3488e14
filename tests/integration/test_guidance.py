# SPDX-License-Identifier: Apache-2.0
"""The guidance that a model gets: the limits of its arguments, and what to do when a tool fails."""

import json
import re

import pytest


@pytest.fixture
def client(daemon):
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "guidance"})
    return client


def schemas(client, **params):
    tools = client.call("tools.list", {"format": "ollama", **params})["tools"]
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}


def test_without_limits_the_definitions_are_the_seeds(client):
    plain = json.dumps(schemas(client))
    assert plain == json.dumps(schemas(client, limits=False))
    assert not re.search("minimum|maximum|minLength|maxLength", plain)


# The other arguments that a call of each tool needs.
NEEDED = {"read_file": {"path": "."}, "write_file": {"path": "d/f", "content": ""}, "list_directory": {"path": "."},
          "run_command": {"command": "true"}, "search_files": {"pattern": "x"}}


def is_refused(client, tool, name, value):
    """Whether cloisterd refuses the value as invalid for this argument."""
    error = client.observe(tool, {**NEEDED[tool], name: value})["error"]
    return bool(error) and f'"{name}" must' in error["message"]


def bounds():
    return [(tool, name) for tool, names in {
        "read_file": ["path", "start_line", "end_line"], "write_file": ["path", "content"],
        "list_directory": ["path", "pattern"], "run_command": ["command", "timeout_ms"],
        "search_files": ["pattern", "path", "file_pattern", "max_results"]}.items() for name in names]


@pytest.mark.deep("slow", only=["search_files-max_results"])
@pytest.mark.parametrize("tool, name", bounds())
def test_the_limits_are_the_validators(client, tool, name):
    schema = schemas(client, limits=True)[tool]["properties"][name]
    text = schema["type"] == "string"
    least, most = (schema.get("minLength"), schema.get("maxLength")) if text else (
        schema.get("minimum"), schema.get("maximum"))
    assert least is not None or most is not None

    def make(bound):
        return "x" * bound if text else bound
    if least is not None:
        assert not is_refused(client, tool, name, make(least))
        assert is_refused(client, tool, name, make(least - 1))
    if most is not None:
        assert not is_refused(client, tool, name, make(most))
    if most is not None and text:
        assert is_refused(client, tool, name, make(most + 1))
    elif most is not None:  # a larger number is lowered to it, and a note says so
        for value, notes in ((most, None), (most + 1, [f'"{name}" was lowered from {most + 1} to its maximum, {most}'])):
            assert client.observe(tool, {**NEEDED[tool], name: value}).get("notes") == notes


def test_limits_are_the_tenants(start_daemon, account):
    daemon = start_daemon(config=f"[tenant t]\nusers = {account.name}\nmanaged = yes\n"
                                 "command_timeout = 7s\ncommand_timeout_max = 90s\n")
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    for params in ({}, {"workspace": "w"}):
        timeout = schemas(client, limits=True, **params)["run_command"]["properties"]["timeout_ms"]
        assert timeout["maximum"] == 90000 and timeout["default"] == 7000
    assert client.call_error("tools.list", {"limits": True, "workspace": "none"}) == "WORKSPACE_NOT_FOUND"
    for wrong in ({"limits": 1}, {"limits": "true"}, {"workspace": 1}):
        assert client.wait(client.request("tools.list", wrong))["error"]["code"] == -32602


FAILURES = [
    ("NOT_FOUND", "read_file", {"path": "none/none"}),
    ("NOT_FOUND", "search_files", {"pattern": "x", "path": "none"}),
    ("IS_A_DIRECTORY", "read_file", {"path": "d"}),
    ("IS_A_DIRECTORY", "write_file", {"path": "d", "content": ""}),
    ("NOT_A_DIRECTORY", "list_directory", {"path": "f"}),
    ("NOT_A_DIRECTORY", "read_file", {"path": "f/x"}),
    ("NOT_A_REGULAR_FILE", "read_file", {"path": "fifo"}),
    ("PERMISSION_DENIED", "read_file", {"path": "secret"}),
    ("TOO_MANY_LINKS", "read_file", {"path": "loop"}),
    ("NAME_TOO_LONG", "write_file", {"path": "x" * 300, "content": ""}),
    ("PATH_OUTSIDE_WORKSPACE", "read_file", {"path": "../../x"}),
    ("PATH_OUTSIDE_WORKSPACE", "read_file", {"path": "/etc/passwd"}),
    ("SYMLINK_OUTSIDE_WORKSPACE", "read_file", {"path": "out"}),
    ("INVALID_PATTERN", "search_files", {"pattern": "a("}),
    ("INVALID_PATTERN", "search_files", {"pattern": "a", "file_pattern": "["}),
    ("INVALID_PATTERN", "list_directory", {"path": ".", "pattern": "["}),
    ("INVALID_ARGUMENTS", "read_file", {"path": "f", "start_line": 99}),
    ("INVALID_ARGUMENTS", "read_file", {"path": 7}),
    ("INVALID_ARGUMENTS", "read_file", {}),
    ("INVALID_ARGUMENTS", "read_file", {"file": "x"}),
    ("INVALID_ARGUMENTS", "write_file", {"path": "f\0", "content": ""}),
    ("COMMAND_BLOCKED", "run_command", {"command": "shutdown now"}),
    ("UNKNOWN_TOOL", "delete_file", {"path": "f"}),
    ("TIMEOUT", "run_command", {"command": "sleep 1000", "timeout_ms": 200}),
]


@pytest.fixture(scope="module")
def prepared(daemon):
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "failures"})
    client.run("mkdir d; echo x > f; mkfifo fifo; echo x > secret; chmod 0 secret; ln -s loop loop; ln -s /etc/passwd out")
    return client


@pytest.mark.parametrize("code, tool, arguments", FAILURES)
def test_a_failure_says_in_one_sentence_what_to_do_and_no_host_path(prepared, daemon, code, tool, arguments):
    answer = prepared.wait(prepared.begin(tool, arguments))
    error = answer["result"]["error"]
    assert error["code"] == code
    # The answer names no path of the host, such as the workspace's real directory.
    assert str(daemon.area.path) not in json.dumps(answer)
    message = error["message"]
    assert "\n" not in message and not re.search(r"[.!?] [A-Z]", message) and not message.endswith(".")
    assert len(message) < 300
    if code != "PATH_OUTSIDE_WORKSPACE":  # this message has the seed's wording
        assert re.search(r"; \w|must|is required|use ", message), message
