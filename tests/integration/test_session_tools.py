# SPDX-License-Identifier: Apache-2.0
"""The tools that models have for commands in the background: run_command with background, read_output, send_input,
stop_command and list_commands."""

import base64
import json
import os
import random

import procfs
import pytest
from cloister_client import acting_as
from daemon import Daemon
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
def test_new_output_comes_once_and_in_order(client, workspace):
    """Reads that wait, one after the other, put together what the command wrote, byte for byte."""
    background(client, "read go; for i in $(seq 400); do echo line $i; [ $((i % 40)) = 0 ] && sleep 0.3; done; exit 5", name="c")
    got = client.use("send_input", name="c", input="go")["output"]
    while True:
        output = read(client, "c", wait_ms=WAIT)
        assert output["lost_bytes"] == 0
        got += output["output"]
        if output["state"] == "ended" and not output["output"]:
            break
    assert got == "".join(f"line {i}\n" for i in range(1, 401))
    assert output["end"]["output"]["exit_code"] == 5 and output["next"] == len(got)


@pytest.mark.deep("slow")
def test_stopping_leaves_nothing(client, workspace, marker):
    background(client, f"setsid sh -c 'trap \"\" TERM; sleep 600; : {marker}' & trap '' TERM; sleep 600; : {marker}", name="x")
    assert procfs.having(marker)
    stop(client, "x")
    assert not procfs.having(marker)


def test_it_outlives_its_client(daemon, client, workspace):
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        background(other, "echo here; sleep 600", name="kept")
    assert read(client, "kept", after=0, wait_ms=0)["output"] == "here\n"
    stop(client, "kept")


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


@pytest.mark.deep("slow")
def test_a_key_of_a_tool(client, workspace):
    """A call that is made again with its key types nothing twice, and shows the same output."""
    background(client, "cat; sleep 600", name="s")
    first = client.observe("send_input", {"name": "s", "input": "once"}, {"key": "a"})
    until(client, "s", "once\n", after=0)
    again = client.observe("send_input", {"name": "s", "input": "once"}, {"key": "a"})
    assert again["replayed"] and "replayed" not in first
    assert (again["output"]["taken"], again["output"]["output"]) == (5, "once\n")
    conflict = client.fail("send_input", {"key": "a"}, name="s", input="other")
    assert conflict["code"] == "KEY_CONFLICT"
    assert read(client, "s", after=0, wait_ms=0)["output"] == "once\n"
    client.use("send_input", {"key": "b"}, name="s", input="twice")
    until(client, "s", "twice\n", after=0)
    client.use("send_input", name="s", input="unread", newline=True)
    read(client, "s", after=0, wait_for="unread", wait_ms=WAIT)
    shown_first = client.observe("read_output", {"name": "s", "after": 5, "wait_ms": 0}, {"key": "r"})["output"]
    client.use("send_input", name="s", input="more")
    answer = client.observe("read_output", {"name": "s", "after": 5, "wait_ms": 0}, {"key": "r"})
    assert answer["replayed"] and answer["output"]["output"].startswith(shown_first["output"])
    # What began nothing leaves its key free.
    assert client.fail("read_output", {"key": "f"}, name="s", after=10 ** 6)["code"] == "INVALID_ARGUMENTS"
    assert client.use("read_output", {"key": "f"}, name="s", wait_ms=0)["state"] == "running"
    # Of very many keys the last ones are known.
    for n in range(20):
        client.use("send_input", {"key": f"k{n}"}, name="s", input=f"n{n}", newline=True)
    assert client.observe("send_input", {"name": "s", "input": "n19", "newline": True}, {"key": "k19"})["replayed"]
    assert "replayed" not in client.observe("stop_command", {"name": "s"}, {"key": "z"})
    assert client.observe("stop_command", {"name": "s"}, {"key": "z"})["replayed"]


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


def test_one_that_a_program_started(client, workspace):
    session = client.call("session.start", {"command": "cat", "name": "other", "stdin": True})["session"]
    client.use("send_input", name="other", input="typed")
    assert until(client, "other", "typed", after=0)["session"] == session
    assert client.call("session.read", {"session": session})["next"] == 6
    stop(client, session)


# Waiting


def test_waiting_for_a_text(client, workspace):
    background(client, "echo begin; read x; printf 'lis'; sleep 0.3; echo tening on 3000; sleep 600", name="s")
    waiting = client.begin("read_output", {"name": "s", "wait_for": "listening", "wait_ms": WAIT})
    client.use("send_input", name="s", input="")
    output = client.result(waiting)["output"]
    assert output["found"] and output["state"] == "running"
    missing = read(client, "s", wait_for="no such text", wait_ms=300)
    assert not missing["found"] and missing["state"] == "running"
    stop(client, "s")
    assert not read(client, "s", wait_for="x", wait_ms=WAIT)["found"]


@pytest.mark.deep("slow")
def test_it_settles(client, workspace):
    """A read without a text is answered when the command has written something and is silent again; one that never is
    silent is answered when the time is over."""
    background(client, "read x; echo one; echo two; sleep 600", name="a")
    waiting = client.begin("read_output", {"name": "a", "wait_ms": WAIT})
    client.use("send_input", name="a", input="go")
    # Whichever of the two answers came first has the output.
    output = client.result(waiting)["output"]
    assert output["state"] == "running" and output["next"] == 8
    background(client, "while :; do echo x; sleep 0.02; done", name="b")
    assert read(client, "b", wait_ms=500)["state"] == "running"


def test_a_wait_can_be_cancelled(client, workspace):
    background(client, "sleep 600", name="s")
    waiting = client.begin("read_output", {"name": "s", "wait_ms": WAIT})
    assert client.cancel(waiting)
    assert client.result(waiting)["error"]["code"] == "CANCELLED"
    assert not client.cancel(waiting)
    assert read(client, "s", wait_ms=0)["state"] == "running"
    # An id in use is not used again.
    waiting = client.begin("read_output", {"name": "s", "wait_ms": WAIT})
    client.request("tool.call", {"tool": "list_commands", "arguments": {}}, number=waiting)
    assert client.wait(waiting)["error"]["code"] == -32600
    assert client.cancel(waiting) and client.result(waiting)["error"]["code"] == "CANCELLED"


def test_a_client_that_leaves_while_it_waits(daemon, client, workspace):
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        background(other, "sleep 600", name="s")
        other.begin("read_output", {"name": "s", "wait_ms": WAIT})
        other.call("tools.list")
    assert stop(client, "s")["state"] == "ended"


def test_too_many_wait(client, workspace):
    background(client, "sleep 600", name="s")
    waiting = [client.begin("read_output", {"name": "s", "wait_ms": WAIT}) for _ in range(16)]
    assert client.fail("read_output", name="s", wait_ms=WAIT)["code"] == "BUSY"
    # What acts is done, and answered without the waiting.
    assert client.use("send_input", name="s", input="x")["taken"] == 2
    assert client.use("stop_command", name="s")["state"] in ("ending", "ended")
    assert {client.result(number)["output"]["state"] for number in waiting} == {"ended"}


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


def test_without_any(client, workspace):
    assert shown(client, "list_commands").startswith(
        "no command is in the background; run_command with background=true starts one\n")


def test_much_output_is_cut(client, workspace):
    """The beginning and the end, with what is left out counted, and a way to see it."""
    background(client, "read go; seq 1 100000; read stay", name="s")
    client.call("tool.call", {"tool": "send_input", "arguments": {"name": "s", "input": ""}})
    assert until(client, "s", "100000\n", after=0)["truncated"] is False
    text = shown(client, "read_output", {"max_output": 100}, name="s", after=0, wait_ms=0)
    assert text.splitlines()[1:4] == ["1", "2", "3"] and text.rstrip("\n").endswith("\n100000")
    assert "lines, 588," in text and "bytes left out; read_output with after, from 0 to 588895, shows it" in text
    # A range of it, by a byte.
    part = client.use("read_output", name="s", after=588888, wait_ms=0)
    assert (part["output"], part["next"]) == ("100000\n", 588895)


def test_what_is_not_kept_is_counted(client, workspace):
    background(client, "read go; seq -f %015.0f 1 300000; read stay", name="s")
    client.use("send_input", name="s", input="")
    until(client, "s", "300000\n", after=0)
    output = read(client, "s", after=0, wait_ms=0)
    assert output["lost_bytes"] + output["output_bytes"] == 16 * 300000 == output["next"]
    assert len(output["output"]) == MIB and output["output"].endswith("300000\n")
    assert shown(client, "read_output", name="s", after=0, wait_ms=0).splitlines()[1] == \
        f"[{16 * 300000 - MIB} bytes before this were not kept]"


def test_bytes_that_are_no_text(client, workspace):
    background(client, r"printf 'a\377\000\033[1mb\n'; read x; printf 'c\n'; read y", name="s")
    answer = client.use("read_output", {"encoding": "base64"}, name="s", after=0, wait_ms=0)
    assert base64.b64decode(answer["output"]) == b"a\xff\x00\x1b[1mb\n" and answer["encoding"] == "base64"
    assert read(client, "s", after=0, wait_ms=0)["output"] == "a\ufffd\x00\x1b[1mb\n"
    assert "\na\ufffd\\0b\n" in shown(client, "read_output", name="s", after=0, wait_ms=0)
    # Bytes go in as they are, without a newline.
    sent = client.use("send_input", {"encoding": "base64"}, name="s", input=base64.b64encode(b"\xfe\n").decode())
    assert sent["taken"] == 2
    until(client, "s", "c\n", after=0)


def test_ports_are_told(client, workspace):
    (workspace / "server.py").write_text("import socket,time\ns=socket.create_server(('127.0.0.1',3456))\nprint('up',flush=True)\ntime.sleep(600)\n")
    background(client, "python3 server.py", name="web")
    until(client, "web", "up", after=0)
    assert read(client, "web", wait_ms=0)["ports"] == [3456]
    assert ", listens at port 3456" in shown(client, "list_commands")


# Input


def test_input_to_one_that_has_ended(client, workspace):
    background(client, "echo last words; read x; exit 4", name="s")
    client.use("send_input", name="s", input="go")
    end = ended(client, "s")["end"]
    answer = client.observe("send_input", {"name": "s", "input": "more"})
    assert answer["success"] and answer["output"]["taken"] == 0 and answer["output"]["state"] == "ended"
    assert answer["output"]["end"] == end and end["output"]["exit_code"] == 4


@pytest.mark.deep("slow")
def test_input_that_is_closed(client, workspace):
    background(client, "cat; echo over; sleep 600", name="s")
    answer = client.use("send_input", name="s", input="last", eof=True)
    assert (answer["taken"], answer["input_closed"]) == (5, True)
    until(client, "s", "last\nover\n", after=0)
    again = client.use("send_input", name="s", input="more")
    assert (again["taken"], again["state"], again["input_closed"]) == (0, "running", True)
    assert "nothing was written, because its input is closed" in shown(client, "send_input", name="s", input="more")
    # By the command itself: a write finds it out.
    background(client, "exec 0<&-; echo closed; sleep 600", name="t")
    until(client, "t", "closed", after=0)
    assert procfs.eventually(lambda: client.use("send_input", name="t", input="x")["taken"] == 0, 60)


@pytest.mark.deep("slow")
@pytest.mark.parametrize("arguments, got", [
    ({"input": "a"}, "a\n"), ({"input": "a\n"}, "a\n"), ({"input": "a", "newline": False}, "a"), ({"input": ""}, "\n"),
    ({"input": "\u0003"}, "\x03"), ({"input": "a\tb"}, "a\tb\n"), ({"input": "", "eof": True}, ""), ({"input": "\u00e9"}, "\u00e9\n"),
    ({"input": "a\nb"}, "a\nb\n"), ({"input": "nul\u0000"}, "nul\x00")])
def test_the_newline(client, workspace, arguments, got):
    background(client, "cat > in", name="s")
    client.use("send_input", name="s", **arguments)
    if not arguments.get("eof"):
        client.use("send_input", name="s", input="", eof=True)
    ended(client, "s")
    with acting_as(0):
        assert (workspace / "in").read_bytes() == got.encode()


def test_a_terminal_is_typed_at(client, workspace):
    session = client.call("session.start", {
        "command": "echo ready; read a; echo \"got <$a>\"; cat; echo over", "pty": {"rows": 24, "cols": 80}})["session"]
    until(client, session, "ready")
    client.use("send_input", name=session, input="typed")
    until(client, session, "got <typed>", after=0)
    client.use("send_input", name=session, input="", eof=True)
    output = ended(client, session)
    assert output["end"]["output"]["exit_code"] == 0


@pytest.mark.deep("slow")
def test_input_that_is_not_read(client, workspace):
    """As much as may wait is taken, the rest is told, and not a byte is lost."""
    background(client, "while [ ! -e go ]; do sleep 0.1; done; wc -c", name="s")
    part, sent = "x" * 200 * KIB, 0
    for _ in range(20):
        answer = client.observe("send_input", {"name": "s", "input": part, "newline": False})
        if not answer["success"]:
            break
        sent += answer["output"]["taken"]
    assert answer["error"]["code"] == "BUSY" and "nothing of this was taken" in answer["error"]["message"]
    assert MIB <= sent < MIB + 256 * KIB
    client.use("write_file", path="go", content="")
    assert procfs.eventually(lambda: client.observe("send_input", {"name": "s", "input": "", "eof": True})["success"], 60)
    assert ended(client, "s")["end"]["success"]
    assert int(read(client, "s", after=0, wait_ms=0)["output"]) == sent
    error = client.fail("send_input", name="s", input="x" * (256 * KIB + 1))
    assert error["code"] == "INVALID_ARGUMENTS" and "at most 262144 bytes" in error["message"]


# Mistakes


NO_NAME = 'argument "name" is required'
MISTAKES = [
    ("read_output", {"name": "nope"}, "SESSION_NOT_FOUND", 'No command "nope" is in the background of this workspace', ()),
    ("read_output", {"name": "0" * 32}, "SESSION_NOT_FOUND", 'These run: "web" (sleep 600)', ()),
    ("send_input", {"name": "Web", "input": "x"}, "SESSION_NOT_FOUND", 'These run: "web"', ()),
    ("stop_command", {"name": "sleep 600"}, "SESSION_NOT_FOUND", 'These run: "web"', ()),
    ("read_output", {}, "INVALID_ARGUMENTS", NO_NAME, ('These run: "web" (sleep 600)',)),
    ("send_input", {"input": "x"}, "INVALID_ARGUMENTS", NO_NAME, ('These run: "web" (sleep 600)',)),
    ("stop_command", {}, "INVALID_ARGUMENTS", NO_NAME, ('These run: "web" (sleep 600)',)),
    ("stop_command", {"name": ""}, "INVALID_ARGUMENTS", 'argument "name" must not be empty', ()),
    ("stop_command", {"name": 1}, "INVALID_ARGUMENTS", 'argument "name" must be a string', ()),
    ("stop_command", {"name": "x" * 65}, "INVALID_ARGUMENTS", "at most 64 bytes", ()),
    ("stop_command", {"pid": 4}, "INVALID_ARGUMENTS", 'did you mean "name"?', ('These run: "web" (sleep 600)',)),
    ("send_input", {"name": "web"}, "INVALID_ARGUMENTS", 'argument "input" is required', ()),
    ("send_input", {"name": "web", "input": ["x"]}, "INVALID_ARGUMENTS", 'argument "input" must be a string', ()),
    ("read_output", {"name": "web", "after": 10 ** 6}, "INVALID_ARGUMENTS", "is beyond the output, which has 0 bytes", ()),
    ("read_output", {"name": "web", "wait_for": ""}, "INVALID_ARGUMENTS", "must not be empty", ()),
    ("read_output", {"name": "web", "wait_for": "x" * 257}, "INVALID_ARGUMENTS", "at most 256 bytes", ()),
    ("read_output", {"name": "web", "timeout": 5}, "INVALID_ARGUMENTS", 'did you mean "wait_ms"?', ()),
    ("list_commands", {"name": "web"}, "INVALID_ARGUMENTS", "takes no arguments", ()),
    ("run_command", {"command": "true", "background": "yes"}, "INVALID_ARGUMENTS", '"background" must be true or false', ()),
    ("run_command", {"command": "true", "bg": True}, "INVALID_ARGUMENTS", 'did you mean "background"?', ()),
    ("run_command", {"command": "true", "background": True, "name": "web"}, "INVALID_ARGUMENTS", "runs already", ()),
    ("run_command", {"command": "dd if=/dev/zero of=/dev/sda", "background": True}, "COMMAND_BLOCKED", "was not run", ()),
]


def test_mistakes(client, workspace):
    background(client, "sleep 600", name="web")
    for tool, arguments, code, words, notes in MISTAKES:
        answer = client.observe(tool, arguments)
        assert not answer["success"] and answer["error"]["code"] == code, (tool, arguments, answer)
        assert words in answer["error"]["message"], (tool, arguments, answer)
        assert tuple(note for note in answer.get("notes", ()) if not note.startswith("here:")) == notes, (tool, arguments, answer)
    assert client.use("list_commands")["count"] == 1


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


def test_two_tenants_do_not_see_each_other_s(host):
    daemon, connect = host("tools = basic sessions")
    mine, others = connect(0), connect(1)
    session = background(mine, "sleep 600", name="web")["session"]
    assert others.use("list_commands")["commands"] == []
    known = others.fail("read_output", name=session)
    for tool, more in (("read_output", {}), ("send_input", {"input": "x"}), ("stop_command", {})):
        for name in ("web", session):
            error = others.fail(tool, name=name, **more)
            # As to one who guesses: nothing of the other tenant is in it.
            assert error["code"] == "SESSION_NOT_FOUND" and "None runs" in error["message"], error
            assert error["message"].replace(name, session) == known["message"]
    # The same tenant's other workspace is another place.
    elsewhere = connect(0, "v")
    assert elsewhere.use("list_commands")["commands"] == []
    assert elsewhere.fail("stop_command", name=session)["code"] == "SESSION_NOT_FOUND"
    assert background(elsewhere, "sleep 600", name="web")["name"] == "web"
    assert read(mine, "web", wait_ms=0)["session"] == session and mine.use("list_commands")["count"] == 1
    mine.call("workspace.open", {"workspace": "v"})
    assert read(mine, "web", wait_ms=0)["session"] != session


@pytest.mark.deep("slow")
def test_limits(host):
    _, connect = host("sessions = 3", "sessions_per_workspace = 2", "tools = basic sessions")
    client = connect(0)
    for _ in range(2):
        background(client, "sleep 600")
    error = client.fail("run_command", command="touch ran", background=True)
    assert error["code"] == "BUSY" and error["retry_after_ms"] > 0 and "stop_command" in error["message"]
    background(connect(0, "v"), "sleep 600")
    other = connect(0, "u")
    error = other.fail("run_command", command="touch ran", background=True)
    assert error["code"] == "BUSY" and "sessions" in error["message"], error
    # A command without background has its place.
    assert client.run("test ! -e ran")["exit_code"] == 0
    stop(client, "bg-1")
    background(client, "sleep 600")


def test_no_sessions(host):
    _, connect = host("sessions = 0", "tools = basic sessions")
    error = connect(0).fail("run_command", command="touch ran", background=True)
    assert error["code"] == "FORBIDDEN" and "sessions" in error["message"]


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
