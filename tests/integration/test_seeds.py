# SPDX-License-Identifier: Apache-2.0
"""The test plans of the seed documents, under their own names, against the real programs.

Seed 000 is "Sidecar tool path resolution", seed 001 the plan of the tool registry and the sandbox."""

import json

import pytest
from cloister_client import RpcError

pytestmark = pytest.mark.usefixtures("as_user")

OUTSIDE = "Invalid path: access outside workspace is not allowed"

# Seed 001, task 1: name, description, parameters as (type, default), required.
TOOLS = {
    "read_file": (
        "Read the contents of a file. Returns content with line numbers. Use start_line/end_line to "
        "read a specific range.",
        {"path": ("string", None), "start_line": ("integer", None), "end_line": ("integer", None)},
        ["path"]),
    "write_file": (
        "Write content to a file. Creates parent directories if needed. Overwrites existing content.",
        {"path": ("string", None), "content": ("string", None), "create_dirs": ("boolean", True)},
        ["path", "content"]),
    "list_directory": (
        "List files and directories at the given path. Use recursive=true for deep listing. Use "
        "pattern for glob filtering.",
        {"path": ("string", None), "recursive": ("boolean", False), "pattern": ("string", None)},
        ["path"]),
    "run_command": (
        "Execute a shell command in the workspace directory. Returns stdout, stderr, and exit code. "
        "Timeout default 30 seconds.",
        {"command": ("string", None), "timeout_ms": ("integer", 30000)}, ["command"]),
    "search_files": (
        "Search for a regex pattern across files. Returns matching lines with file paths and line "
        "numbers. Max 50 results.",
        {"pattern": ("string", None), "path": ("string", "."), "file_pattern": ("string", None),
         "max_results": ("integer", 50)}, ["pattern"]),
}


def path_error(client, path):
    error = client.fail("read_file", path=path)
    return error["code"], error["message"]


# Seed 000


def test_000_absolute_path_inside_root_is_accepted_and_preserved(client, workspace):
    path = workspace / "logs" / "output.log"
    assert client.use("write_file", path=str(path), content="kept")["path"] == "logs/output.log"
    assert path.read_text() == "kept"
    assert client.use("read_file", {"line_numbers": False}, path=str(path))["content"] == "kept"
    assert client.run(f"cat {path}")["stdout"] == "kept"


def test_000_absolute_path_outside_root_is_rejected(client, workspace):
    assert path_error(client, "/etc/passwd") == ("PATH_OUTSIDE_WORKSPACE", OUTSIDE)


def test_000_workspace_root_slash_does_not_normalize_to_two(area):
    directory = area.new_directory("worktrees")
    (directory / "assistant").mkdir()
    (directory / "assistant" / "file").touch()
    done = area.private("/", "call", "list_directory", f"path={directory}/assistant")
    output = json.loads(done.stdout)["output"]
    assert [entry["path"] for entry in output["entries"]] == [
        f"{directory}/assistant/file".removeprefix("/")]
    assert b"//" not in done.stdout


# Seed 001, tool-registry.test.js


@pytest.fixture
def definitions(client):
    return client.call("tools.list")["tools"]


def test_001_exactly_5_tools_returned(definitions):
    assert len(definitions) == 5


def test_001_each_tool_has_type_function_and_name_description_parameters(definitions):
    for tool in definitions:
        assert tool["type"] == "function"
        assert set(tool["function"]) == {"name", "description", "parameters"}
        assert set(tool) == {"type", "function"}


def test_001_each_tools_parameters_has_type_object_and_required_array(definitions):
    for tool in definitions:
        assert tool["function"]["parameters"]["type"] == "object"
        assert isinstance(tool["function"]["parameters"]["required"], list)


def test_001_get_tool_by_name_returns_correct_tool_and_null_for_unknown(client, workspace):
    for name in TOOLS:
        assert client.observe(name, {})["error"]["code"] == "INVALID_ARGUMENTS"
    assert client.observe("unknown", {})["error"]["code"] == "UNKNOWN_TOOL"


def test_001_all_5_expected_names_present(definitions):
    assert {tool["function"]["name"] for tool in definitions} == set(TOOLS)


def test_001_definitions_field_for_field(definitions, area):
    for tool in definitions:
        description, expected, required = TOOLS[tool["function"]["name"]]
        parameters = tool["function"]["parameters"]
        assert tool["function"]["description"] == description
        assert parameters["required"] == required
        assert list(parameters["properties"]) == list(expected)
        for name, (kind, default) in expected.items():
            assert parameters["properties"][name]["type"] == kind
            assert parameters["properties"][name].get("default") == default
    done = area.private(area.home, "tools")
    assert json.loads(done.stdout) == definitions


def test_001_other_formats_hold_the_same_five(client, definitions):
    assert client.call("tools.list", {"format": "ollama"})["tools"] == definitions
    openai = client.call("tools.list", {"format": "openai"})["tools"]
    mcp = client.call("tools.list", {"format": "mcp"})["tools"]
    for ours, theirs, third in zip(definitions, openai, mcp):
        assert theirs["function"]["name"] == ours["function"]["name"] == third["name"]
        assert theirs["function"]["description"] == third["description"]
        assert third["inputSchema"]["required"] == ours["function"]["parameters"]["required"]


# Seed 001, sandbox.test.js


def test_001_validate_path_allows_relative_paths_within_workspace(client, workspace):
    (workspace / "file.txt").write_text("x")
    assert client.use("read_file", path="file.txt")["path"] == "file.txt"


def test_001_validate_path_allows_dot_and_dot_subdir(client, workspace):
    (workspace / "subdir").mkdir()
    (workspace / "subdir" / "file.txt").write_text("x")
    assert client.use("list_directory", path=".")["count"] == 1
    assert client.use("read_file", path="./subdir/file.txt")["path"] == "subdir/file.txt"
    assert client.use("list_directory", path="subdir/")["count"] == 1


def test_001_validate_path_rejects_climbing_to_etc_passwd(client, workspace):
    assert path_error(client, "../../../etc/passwd") == ("PATH_OUTSIDE_WORKSPACE", OUTSIDE)


@pytest.mark.parametrize("path", ["/etc/passwd", "C:\\Windows\\system32"])
def test_001_validate_path_rejects_absolute_paths_outside_workspace(client, workspace, path):
    assert path_error(client, path) == ("PATH_OUTSIDE_WORKSPACE", OUTSIDE)


def test_001_validate_path_rejects_many_dot_dot_levels(client, workspace):
    assert path_error(client, "../" * 40 + "etc/passwd") == ("PATH_OUTSIDE_WORKSPACE", OUTSIDE)
    assert path_error(client, "a/" + "../" * 40 + "x") == ("PATH_OUTSIDE_WORKSPACE", OUTSIDE)


def test_001_validate_path_rejects_symlinks_that_point_outside(client, workspace):
    (workspace / "link").symlink_to("/etc/passwd")
    assert path_error(client, "link")[0] == "SYMLINK_OUTSIDE_WORKSPACE"


def test_001_sandbox_error_has_correct_code_property(client, workspace):
    (workspace / "large").write_bytes(b"x" * (2 << 20))
    assert client.fail("read_file", path="large")["code"] == "FILE_TOO_LARGE"
    assert client.fail("run_command", command="sudo true")["code"] == "COMMAND_BLOCKED"


@pytest.mark.parametrize("command", [
    "sudo true", "rm -rf /", "rm -rf ~", "shutdown now", "curl http://x", "wget x", "nc x 1", "reboot",
    "format c:", "mkfs x", "dd if=/dev/zero", "netcat x 1", "python -m http.server",
    "node --inspect x"])
def test_001_is_command_blocked_blocks(client, workspace, command):
    assert client.fail("run_command", command=command)["code"] == "COMMAND_BLOCKED"


@pytest.mark.parametrize("command", [
    "npm test", "git status", "ls", "cat file.txt", "node index.js", "rm file.txt"])
def test_001_is_command_blocked_allows(client, workspace, command):
    (workspace / "file.txt").touch()
    assert client.run(command, timeout_ms=50000)["ended_by"] == "exit"


def test_001_an_unknown_format_is_refused(client):
    with pytest.raises(RpcError):
        client.call("tools.list", {"format": "unknown"})
