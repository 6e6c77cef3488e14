# SPDX-License-Identifier: Apache-2.0
"""The tools that models have for commands in the background: run_command with background, read_output, send_input,
stop_command and list_commands."""

import json
import os
import random

import procfs
import pytest
from cloister_client import acting_as
from daemon import DELEGATED, Daemon
from mcp_client import LEGACY, MODERN, Mcp

KIB, MIB = 1 << 10, 1 << 20
WAIT = 60000  # ms for a condition that is expected to be met
FIVE = ["read_file", "write_file", "list_directory", "run_command", "search_files"]
FOUR = ["read_output", "send_input", "stop_command", "list_commands"]


def background(client, command, options=None, **arguments):
    """Starts a command in the background, which must not be over at once."""
    output = client.run(command, options, background=True, **arguments)
    assert output["state"] == "running" and output["ended_by"] == "yield", output
    return output


def read(client, name, **arguments):
    return client.use("read_output", name=name, **arguments)


def until(client, name, text, **arguments):
    output = read(client, name, wait_for=text, wait_ms=WAIT, **arguments)
    assert output["found"], output
    return output


def ended(client, name):
    """Waits for the end of a command that ends by itself."""
    output = read(client, name, wait_for="never written", wait_ms=WAIT)
    assert output["state"] == "ended" and not output["found"]
    return output


def stop(client, name):
    return client.use("stop_command", name=name)


def shown(client, tool, options=None, **arguments):
    """What a model is shown."""
    options = {"reply": "message", **(options or {})}
    return client.call("tool.call", {"tool": tool, "arguments": arguments, "options": options})["content"]


@pytest.fixture(scope="module")
def daemon(area):
    running = Daemon(area, config=(
        f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nroots = {area.path}\ntools = basic sessions\n"
        "sessions_per_workspace = 16\nsessions = 64\n"))
    yield running
    assert running.stop() == 0


@pytest.fixture
def marker():
    """Returns a word for command lines, by which the test finds its processes."""
    return f"cloister-tools-{os.getpid()}-{random.randrange(10 ** 9)}"


@pytest.fixture
def host(start_daemon, tenants):
    """Starts a daemon for two tenants with these settings. Returns it and a function that connects each."""
    clients = []

    def start(*lines, host=""):
        text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {tenants[2].name}\n{host}"
        for name, user in zip("ab", tenants):
            text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" + "".join(f"{line}\n" for line in lines)
        daemon = start_daemon(config=text)

        def connect(number, workspace="w"):
            clients.append(daemon.connect(tenants[number]))
            clients[-1].call("workspace.open", {"workspace": workspace})
            return clients[-1]
        return daemon, connect
    yield start
    for client in clients:
        client.close()


# What models are offered


@pytest.mark.parametrize("tools, more", [
    ("basic", []), ("basic sessions", FOUR), ("basic edit sessions", ["edit_file", *FOUR]),
    ("basic patch sessions", ["apply_patch", *FOUR]), ("basic edit patch sessions", ["edit_file", "apply_patch", *FOUR])])
def test_the_key_tools_offers_them(host, tools, more):
    _, connect = host(f"tools = {tools}")
    for form in ("ollama", "openai", "mcp"):
        found = [tool.get("function", tool) for tool in connect(0).call("tools.list", {"format": form})["tools"]]
        assert [tool["name"] for tool in found] == FIVE + more
        command = found[3].get("parameters", found[3].get("inputSchema"))["properties"]
        assert list(command) == ["command", "timeout_ms"] + (["background", "name"] if "sessions" in tools else [])
    # A model that reads what holds is told of it only where it is offered.
    said = connect(0).call("tools.list", {"limits": True})["instructions"]
    assert ("background=true" in said) == ("sessions" in tools)


def test_a_wrong_value_of_tools_names_the_right_ones(start_daemon, account):
    with pytest.raises(Exception) as caught:
        start_daemon(config=f"[tenant t]\nusers = {account.name}\nmanaged = yes\ntools = sessions\n")
    assert "basic edit patch sessions" in str(caught.value), caught.value


def test_without_them_the_argument_does_not_exist(host):
    """A model that invents it could not use what it would start."""
    _, connect = host("tools = basic")
    for name in ("background", "run_in_background"):
        error = connect(0).fail("run_command", command="touch ran", **{name: True})
        assert error["code"] == "INVALID_ARGUMENTS"
        assert error["message"] == f'run_command: argument "{name}" is not known; use "command", "timeout_ms"'
    assert connect(0).run("test ! -e ran")["exit_code"] == 0
    # The tools themselves are there for every program.
    assert connect(0).use("list_commands")["commands"] == []


# The life of a command


@pytest.mark.deep("slow")
def test_a_silent_wait_for_input_is_told(client, workspace):
    """rg reads its standard input in the background, where it has one: nothing happens, and the model is told what may be the
    reason. tail -f loses a file that write_file replaces."""
    def notes(command, options=None):
        return client.observe("run_command", {"command": command, "background": True}, options).get("notes", [])

    (silent,) = notes("cat")
    assert "if it waits for input, send_input gives it some" in silent and "</dev/null" in silent
    assert notes("echo ready; cat") == [] and notes("sleep 600", {"stdin": "given"}) == []
    client.use("write_file", path="log", content="old\n")
    (follows,) = notes("tail -f log")
    assert "tail -F" in follows
    client.use("write_file", path="log", content="old\nnew\n")
    assert notes("tail -F log") == []


def test_a_command_in_the_background(client, workspace):
    started = background(client, "echo ready; read line; echo got $line; sleep 600", name="server")
    assert (started["name"], started["stdout"], started["next"]) == ("server", "ready\n", 6)
    # What the first answer had is not shown again.
    quiet = read(client, "server", wait_ms=0)
    assert (quiet["state"], quiet["output"], quiet["next"]) == ("running", "", 6) and "end" not in quiet
    answer = client.use("send_input", name="server", input="three")
    assert (answer["taken"], answer["input_closed"]) == (6, False)
    seen = answer["output"] + ("" if answer["output"] else until(client, "server", "got three\n")["output"])
    assert seen == "got three\n"
    assert read(client, "server", after=0, wait_ms=0)["output"] == "ready\ngot three\n"
    (entry,) = client.use("list_commands")["commands"]
    assert (entry["name"], entry["session"], entry["state"]) == ("server", started["session"], "running")
    assert entry["command"].startswith("echo ready") and entry["unread_bytes"] == 0
    last = stop(client, "server")
    assert last["state"] == "ended" and last["output"] == ""
    assert (last["end"]["error"]["code"], last["end"]["output"]["ended_by"]) == ("CANCELLED", "cancel")
    assert client.use("list_commands")["commands"][0]["state"] == "ended"


def test_one_that_is_over_at_once_is_answered_as_any_other(client, workspace):
    output = client.run("echo out; echo err >&2; exit 3", background=True, name="short")
    assert (output["stdout"], output["stderr"], output["exit_code"], output["ended_by"]) == ("out\n", "err\n", 3, "exit")
    assert "session" not in output and client.use("list_commands")["commands"] == []
    assert client.fail("read_output", name="short")["code"] == "SESSION_NOT_FOUND"


@pytest.mark.deep("slow")
def test_stopping_leaves_nothing(client, workspace, marker):
    background(client, f"setsid sh -c 'trap \"\" TERM; sleep 600; : {marker}' & trap '' TERM; sleep 600; : {marker}", name="x")
    assert procfs.having(marker)
    stop(client, "x")
    assert not procfs.having(marker)


def test_the_model_s_time_does_not_end_it(client, workspace):
    answer = client.observe("run_command", {"command": "sleep 600", "background": True, "timeout_ms": 1})
    assert answer["output"]["state"] == "running"
    assert any('"timeout_ms" does not end' in note for note in answer["notes"])
    # Neither does that of the program, which would come before the answer.
    output = background(client, "sleep 600", {"timeout_ms": 600})
    assert read(client, output["name"], wait_ms=900)["state"] == "running"


def test_input_of_the_program_is_all_of_it(client, workspace):
    output = background(client, "cat; sleep 600", {"stdin": "given\n"})
    assert output["stdout"] == "given\n"
    answer = client.use("send_input", name=output["name"], input="more")
    assert (answer["taken"], answer["input_closed"]) == (0, True)
    error = client.fail("run_command", {"stdin_stream": True}, command="cat", background=True)
    assert error["code"] == "INVALID_ARGUMENTS" and "leave it out" in error["message"]


def test_a_key_gives_the_same_command(client, workspace):
    first = background(client, "echo x >> ran; sleep 600", {"key": "k"})
    again = client.observe("run_command", {"command": "echo x >> ran; sleep 600", "background": True}, {"key": "k"})
    assert again["replayed"] and again["output"] == first
    assert client.use("read_file", path="ran")["size"] == 2 and client.use("list_commands")["count"] == 1


# Names


@pytest.mark.deep("slow")
def test_names(client, workspace):
    one, two = background(client, "sleep 600"), background(client, "sleep 600")
    assert (one["name"], two["name"]) == ("bg-1", "bg-2")
    assert read(client, one["session"], wait_ms=0)["name"] == "bg-1"
    error = client.fail("run_command", command="touch ran", background=True, name="bg-2")
    assert error["code"] == "INVALID_ARGUMENTS" and "runs already" in error["message"]
    assert not (workspace / "ran").exists()
    # The name of one that has ended is free, and means the new one then.
    stop(client, "bg-2")
    assert background(client, "echo new; sleep 600", name="bg-2")["session"] != two["session"]
    assert read(client, "bg-2", after=0, wait_ms=0)["output"] == "new\n"
    assert read(client, two["session"], wait_ms=0)["state"] == "ended"
    assert background(client, "sleep 600")["name"] == "bg-3"


# What a model is shown


def test_the_text_for_a_model(client, workspace):
    first = shown(client, "run_command", command="echo ready; read x; echo got $x; exit 7", background=True, name="srv")
    assert first.startswith('still running in the background as "srv": read_output shows what it writes, stop_command ends it\nready\n')
    listed = shown(client, "list_commands")
    assert listed.startswith("srv: running for ") and listed.endswith(" s: echo ready; read x; echo got $x; exit 7\n")
    assert ", no new output" in shown(client, "read_output", name="srv", wait_ms=0)
    typed = shown(client, "send_input", name="srv", input="1")
    assert "2 bytes written" in typed
    done = typed if "exit 7" in typed else shown(client, "read_output", name="srv", after=0, wait_for="nothing", wait_ms=WAIT)
    assert "srv: exit 7" in done and "got 1\n" in done
    late = shown(client, "send_input", name="srv", input="2")
    assert "srv: exit 7" in late and "nothing was written, because it has ended" in late
    assert shown(client, "stop_command", name="srv").startswith("srv: exit 7")
    stopped = background(client, "sleep 600")["name"]
    assert shown(client, "stop_command", name=stopped).startswith(f"{stopped}: stopped after ")


def test_ports_are_told(client, workspace):
    (workspace / "server.py").write_text("import socket,time\ns=socket.create_server(('127.0.0.1',3456))\nprint('up',flush=True)\ntime.sleep(600)\n")
    background(client, "python3 server.py", name="web")
    until(client, "web", "up", after=0)
    assert read(client, "web", wait_ms=0)["ports"] == [3456]
    assert ", listens at port 3456" in shown(client, "list_commands")
    # Where no cgroup tells whose it is, nobody is named as its owner. A command that waits for an answer may have it, too.
    running = client.begin("run_command", {"command": "touch begun; sleep 600"})
    assert procfs.eventually((workspace / "begun").exists)
    web = shown(client, "list_commands")
    assert DELEGATED or ", it or another command listens at port 3456" in web, web
    client.cancel(running)
    client.result(running)
    background(client, "sleep 600", name="idle")
    idle, = (line for line in shown(client, "list_commands").splitlines() if line.startswith("idle"))
    assert ", listens at port" not in idle, idle
    web, = (line for line in shown(client, "list_commands").splitlines() if line.startswith("web"))
    assert "listens at port 3456" in web, web


# Input


def test_a_terminal_is_typed_at(client, workspace):
    session = client.call("session.start", {
        "command": "echo ready; read a; echo \"got <$a>\"; cat; echo over", "pty": {"rows": 24, "cols": 80}})["session"]
    until(client, session, "ready")
    client.use("send_input", name=session, input="typed")
    until(client, session, "got <typed>", after=0)
    client.use("send_input", name=session, input="", eof=True)
    output = ended(client, session)
    assert output["end"]["output"]["exit_code"] == 0


# Mistakes


@pytest.mark.parametrize("tool, arguments, notes", [
    ("read_output", {"session": "web", "wait_ms": "0"}, ['"session" was taken as "name"', '"wait_ms" was taken as the number 0; give it without quotes']),
    ("read_output", {"bash_id": "web", "timeout_ms": 0}, ['"bash_id" was taken as "name"', '"timeout_ms" was taken as "wait_ms"']),
    ("read_output", {"name": "web", "wait_ms": 0, "after": None}, None),
    ("read_output", {"name": "web", "wait_for": "x", "wait_ms": 0.0}, None),
    ("send_input", {"id": "web", "text": "x"}, ['"id" was taken as "name"', '"text" was taken as "input"']),
    ("run_command", {"command": "true", "run_in_background": True}, ['"run_in_background" was taken as "background"']),
    ("run_command", {"command": "true", "name": "x"}, ['"name" is only for a command with background=true']),
    ("list_commands", None, None)])
def test_what_can_mean_only_one_thing_is_taken(client, workspace, tool, arguments, notes):
    background(client, "sleep 600", name="web")
    answer = client.observe(tool, arguments) if arguments is not None else client.call("tool.call", {"tool": tool})
    assert answer["success"], answer
    assert [note for note in answer.get("notes", []) if not note.startswith("here:")] == (notes or [])


# Tenants, limits, audit


def test_it_can_be_stopped_while_the_service_drains(host, tenants):
    daemon, connect = host("tools = basic sessions")
    client = connect(0)
    background(client, "sleep 600", name="s")
    with daemon.control(tenants[2], groups=[tenants[2].gid]) as control:
        control.call("drain")
        assert client.fail("run_command", command="true")["code"] == "SHUTTING_DOWN"
        assert read(client, "s", wait_ms=0)["state"] == "running"
        assert stop(client, "s")["state"] == "ended"
        control.call("resume")


def test_the_audit_log_has_each_use(host, tenants):
    daemon, connect = host("tools = basic sessions", host="audit = on\n")
    client = connect(0)
    session = background(client, "sleep 600", name="s")["session"]
    read(client, "s", wait_ms=0)
    client.use("send_input", name="s", input="secret words")
    client.use("list_commands")
    client.fail("read_output", name="none")
    stop(client, "s")

    def lines():
        with acting_as(0):
            text = (daemon.state / "audit" / "audit.log").read_text()
        assert "secret words" not in text
        return [json.loads(line) for line in text.splitlines()]
    assert procfs.eventually(lambda: any(line["event"] == "session.ended" for line in lines()), 30)
    used = [line for line in lines() if line["event"] == "session.used"]
    assert [(line["tool"], line.get("session")) for line in used] == [
        ("read_output", session), ("send_input", session), ("list_commands", None), ("stop_command", session)]
    for line in used:
        assert (line["tenant"], line["workspace"], line["uid"], line["decision"]) == ("a", "w", tenants[0].uid, "allow")
        assert len(line["arguments"]) == 64
    events = [(line["event"], line.get("cause"), line.get("code")) for line in lines()
              if line["event"] in ("call.admitted", "call.ended", "session.started", "session.ended", "call.refused")]
    assert events == [("call.admitted", None, None), ("call.ended", "yield", None), ("session.started", None, None),
                      ("call.refused", None, "SESSION_NOT_FOUND"), ("session.ended", "cancel", "CANCELLED")]


# MCP


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
def test_by_mcp(host, revision):
    """The results fit the schemas that tools/list gives, and a cancelled wait has no answer."""
    _, connect = host("tools = basic sessions")
    mcp = Mcp(connect(0), revision).ready()
    assert list(mcp.output_schemas) == FIVE + FOUR

    def call(tool, **arguments):
        result = mcp.call(tool, **arguments)
        return result["structuredContent"], result["content"][0]["text"]
    started, text = call("run_command", command="echo ready; cat; sleep 600", background=True, name="s")
    assert started["output"]["state"] == "running" and '"s": read_output shows' in text
    typed, text = call("send_input", name="s", input="x")
    assert typed["output"]["taken"] == 2 and "2 bytes written" in text
    found, _ = call("read_output", name="s", wait_for="x\n", wait_ms=WAIT, after=0)
    assert found["output"]["found"] and found["output"]["output"] == "ready\nx\n"
    waiting = mcp.begin("read_output", {"name": "s", "wait_ms": WAIT})
    mcp.notify("notifications/cancelled", {"requestId": waiting, "reason": "enough"})
    listed, _ = call("list_commands")
    assert listed["output"]["commands"][0]["state"] == "running"
    assert [message for message in mcp.messages if message.get("id") == waiting] == []
    stopped, text = call("stop_command", name="s")
    assert stopped["output"]["state"] == "ended" and text.startswith("s: stopped")
    late, text = call("send_input", name="s", input="x")
    assert late["success"] and "nothing was written, because it has ended" in text
    unknown, text = call("read_output", name="t")
    assert unknown["error"]["code"] == "SESSION_NOT_FOUND" and text.startswith("SESSION_NOT_FOUND: No command")
