# SPDX-License-Identifier: Apache-2.0
"""`cloister mcp` for a model: which tools a private instance offers, and results as text alone."""

import json
import subprocess

import pytest
from daemon import environment, user_mode_only

pytestmark = user_mode_only
FIVE = ["read_file", "write_file", "list_directory", "run_command", "search_files"]
SESSIONS = ["read_output", "send_input", "stop_command", "list_commands"]
ALL = [*FIVE, "edit_file", "apply_patch", *SESSIONS]


@pytest.fixture
def home(area):
    return area.new_directory("home")


def serve(area, home, *words, calls=(), before=()):
    """The answers of `cloister mcp` to initialize, tools/list and @calls, each of them a tool's name and arguments."""
    requests = [("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
                ("tools/list", {})]
    requests += [("tools/call", {"name": name, "arguments": arguments}) for name, arguments in calls]
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
             for number, (method, params) in enumerate(requests)]
    answers = []
    with area.start(["cloister", *map(str, before), "mcp", *words], env=environment(home), stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE) as server:
        for line in lines:
            server.stdin.write(line.encode() + b"\n")
            server.stdin.flush()
            message = json.loads(server.stdout.readline())
            answers.append(message.get("result", message.get("error")))
    return answers


def private(area, home, *words, **keywords):
    return serve(area, home, *words, before=("--private", "--workspace", area.new_directory("w")), **keywords)


def names(answer):
    return [tool["name"] for tool in answer["tools"]]


def test_a_private_instance_offers_all(area, home):
    started, listed, ran = private(area, home, calls=[("run_command", {"command": "sleep 30", "background": True, "name": "s"})])
    assert names(listed) == ALL
    assert "background=true" in started["instructions"]
    assert ran["structuredContent"]["output"]["state"] == "running"


@pytest.mark.parametrize("tools, offered", [
    ("basic", FIVE), ("edit, basic", [*FIVE, "edit_file"]), ("sessions", [*FIVE, *SESSIONS])])
def test_fewer_tools(area, home, tools, offered):
    started, listed, unknown, asked, ran = private(area, home, "--tools", tools, calls=[
        ("no_such_tool", {}), ("read_output", {"name": "s"}), ("run_command", {"command": "sleep 30 & true"})])
    assert names(listed) == offered
    named = {name for name in ALL if name in unknown["message"]}
    assert named == set(offered)
    # What is not offered is named nowhere: neither in instructions nor in a hint.
    for answer in (started, asked, ran):
        assert ("background=true" in json.dumps(answer)) == (tools == "sessions"), answer


def test_other_programs_still_get_the_five(area, home):
    done = area.run("cloister", "--private", "--workspace", area.new_directory("w"), "tools", "--format=mcp", env=environment(home))
    assert [tool["name"] for tool in json.loads(done.stdout)] == FIVE


def test_a_wrong_list_is_refused(area, home):
    done = area.run("cloister", "mcp", "--tools", "basic,edits", env=environment(home))
    assert done.returncode == 2 and b"basic, edit, patch and sessions, not 'basic,edits'" in done.stderr


def test_a_service_offers_no_more_than_its_tenant(area, home, start_daemon):
    daemon = start_daemon(config=f"[tenant t]\nusers = {area.account.uid}\nroots = {area.path}\ntools = basic edit sessions\n")
    before = ("--socket", daemon.socket, "--workspace", area.new_directory("w"))
    assert names(serve(area, home, before=before)[1]) == [*FIVE, "edit_file", *SESSIONS]
    assert names(serve(area, home, "--tools=edit", before=before)[1]) == [*FIVE, "edit_file"]
    done = area.run("cloister", *map(str, before), "mcp", "--tools", "patch", env=environment(home))
    assert done.returncode == 3 and b"FORBIDDEN" in done.stderr and b"key tools" in done.stderr


def test_results_as_text_alone(area, home):
    calls = [("run_command", {"command": "echo hi"}), ("read_file", {"path": "none"}), ("list_directory", {"path": "."})]
    _, listed, *results = private(area, home, calls=calls)
    assert all("outputSchema" in tool for tool in listed["tools"]) and all("structuredContent" in result for result in results)
    _, listed, *texts = private(area, home, "--text", calls=calls)
    assert not any("outputSchema" in tool for tool in listed["tools"])
    for text, result in zip(texts, results):
        assert set(text) == {"content", "isError"} and text["isError"] == result["isError"]
        assert text["content"][0]["text"].partition("\n")[0] == result["content"][0]["text"].partition("\n")[0]


def test_variables_and_the_callers_name(area, home):
    """Commits of a private instance have the caller's name, unless the repository has its own."""
    own(area, home / ".gitconfig", "[user]\nname = Ada L\nemail = ada@example.org\n[alias]\nst = status\n")
    command = "git init -q r && cd r && git commit -q --allow-empty -m x && git log --format='%an <%ae> %cn'; echo \"$A|$B\""
    (*_, ran) = private(area, home, "--env", "A=1", "--env", "B=two words", calls=[("run_command", {"command": command})])
    assert ran["structuredContent"]["output"]["stdout"] == "Ada L <ada@example.org> Ada L\n1|two words\n", ran
    workspace = area.new_directory("w")
    (workspace / ".git").mkdir()
    own(area, workspace / ".git")
    own(area, workspace / ".git" / "config", "[user]\nname = Other\n")
    done = area.private(workspace, "exec", "--", "echo \"$GIT_AUTHOR_NAME|$GIT_AUTHOR_EMAIL\"", env=environment(home))
    assert done.stdout == b"|ada@example.org\n", done
    done = area.run("cloister", "--socket", "/none", "--workspace", workspace, "mcp", "--env", "A=1", env=environment(home))
    assert done.returncode == 3 and b"--env is for a directory in a private instance" in done.stderr


def own(area, path, content=None):
    if content is not None:
        path.write_text(content)
    area.account.own(path)
