# SPDX-License-Identifier: Apache-2.0
"""The cloister command against a stand-in for cloisterd, which sends answers that a test cannot get from a real one."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
ORDINARY_UID = 65534

# The tests write this beside a copy of cloister, which looks for cloisterd there first. The text of the command says what
# the stand-in does. The observation's "request" holds the request that it got.
STAND_IN = r'''#!/usr/bin/python3
import base64, json, os, socket, sys

def serve(connection):
    def send(**message):
        connection.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def output(stream, data):
        send(method="tool.output", params={
            "id": call, "stream": stream, "data": base64.b64encode(data).decode(), "seq": 0})

    call = None
    for line in connection.makefile("rb"):
        request = json.loads(line)
        number, method, params = request["id"], request["method"], request["params"]
        observation = {"success": True, "tool": params.get("tool"), "error": None,
            "output": {"exit_code": 0, "signal": None},
            "request": {"params": params, "uid": os.getuid(), "home": os.environ.get("HOME"),
                "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
                "groups": os.getgroups(), "args": sys.argv[1:]}}
        if method == "workspace.open":
            if os.path.exists(os.path.join(params["root"], "forbidden")):
                send(id=number, error={"code": -32000, "message": "not yours",
                    "data": {"code": "FORBIDDEN"}})
            else:
                send(id=number, result={"workspace": "w"})
            continue
        if method == "tools.list":
            if params.get("format") == "nonsense":
                send(id=number, error={"code": -32602, "message": "no such format"})
            else:
                send(id=number, result={"tools": [{"name": params.get("format")}]})
            continue
        if method == "tool.input":
            send(id=number, result={"taken": 1, "closed": False})
            continue
        if method == "tool.cancel" and stuck:
            print("told", file=sys.stderr, flush=True)
        if method == "tool.cancel":
            send(id=number, result={"cancelled": params["id"] == call})
            if not stuck:
                send(id=call, result={**observation, "success": False,
                    "error": {"code": "CANCELLED", "message": "cancelled"}})
            continue
        call = number
        command = params["arguments"].get("command", "")
        stuck = command == "stuck"
        if command in ("hang", "stuck"):
            output("stdout", b"started\n")
            continue
        if command == "die":
            os._exit(1)
        if command == "garbage":
            connection.sendall(b"no json\n")
        if command == "bytes":
            output("stdout", bytes(range(256)))
            output("stderr", b"error\n")
            observation["output"]["exit_code"] = 7
        if command == "flood":
            for _ in range(300):
                output("stdout", b"x" * 9999 + b"\n")
        if command == "late":
            observation.update(success=False, error={"code": "TIMEOUT", "message": "too late"})
        if command == "broken":
            observation.update(success=False, error={"code": "BUSY", "message": "busy"})
        if command.startswith("signal "):
            name = command.split()[1]
            observation["output"] = {"exit_code": None, "signal": int(name) if name.isdigit() else name}
        if command == "echo request":
            output("stdout", json.dumps(params).encode())
        send(id=number, result=observation)

if "--connection-fd=3" in sys.argv:
    serve(socket.socket(fileno=3))
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    print("listening", flush=True)
    serve(listener.accept()[0])
'''


@pytest.fixture
def place():
    """A directory that an ordinary user can reach, with bin/cloister, the stand-in, and a workspace ws."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="cloister-client."))
    path.chmod(0o755)
    (path / "bin").mkdir()
    (path / "ws").mkdir()
    shutil.copy(BUILD / "bin" / "cloister", path / "bin")
    (path / "bin" / "cloisterd").write_text(STAND_IN)
    (path / "bin" / "cloisterd").chmod(0o755)
    if os.getuid() == 0:
        os.chown(path / "ws", ORDINARY_UID, ORDINARY_UID)
    yield path
    shutil.rmtree(path)


def words(place, *arguments, where=("--private",)):
    return [place / "bin/cloister", *where, "--workspace", place / "ws", *arguments]


def run(place, *arguments, where=("--private",), **keywords):
    return subprocess.run(
        words(place, *arguments, where=where), capture_output=True, timeout=60, **keywords)


def call(place, *arguments):
    """Runs `cloister call ARGUMENTS`. Returns the request that the stand-in got."""
    done = run(place, "call", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["request"]


def test_arguments_have_the_types_of_the_tool_table(place):
    sent = call(place, "read_file", "path=3", "start_line=3", "end_line=x")["params"]
    assert sent["tool"] == "read_file"
    assert sent["arguments"] == {"path": "3", "start_line": 3, "end_line": "x"}
    sent = call(place, "write_file", "path=a", "content=b=c", "create_dirs=false")["params"]
    assert sent["arguments"] == {"path": "a", "content": "b=c", "create_dirs": False}
    sent = call(place, "no_such_tool", "path=1", "x=true")["params"]
    assert sent["arguments"] == {"path": "1", "x": "true"}
    sent = call(place, "read_file", '{"path": "a=b", "more": [1]}')["params"]
    assert sent["arguments"] == {"path": "a=b", "more": [1]}


@pytest.mark.parametrize("word,ms", [
    ("500ms", 500), ("30s", 30000), ("5m", 300000), ("1h", 3600000), ("7", 7000)])
def test_durations(place, word, ms):
    sent = call(place, "--timeout", word, "list_directory", "path=.")["params"]
    assert sent["options"]["timeout_ms"] == ms


@pytest.mark.parametrize("word", ["", "0", "-1", " 1", "1d", "s", "1.5s", "99999999999999999h"])
def test_what_is_no_duration_is_a_usage_error(place, word):
    assert run(place, "call", "--timeout", word, "list_directory", "path=.").returncode == 2


def test_options(place):
    sent = call(place, "--option", "line_numbers=false", "--option", "env=A=B=C",
                "--option=encoding=base64", "read_file", "path=a")["params"]
    assert sent["options"] == {"line_numbers": False, "env": {"A": "B=C"}, "encoding": "base64"}


@pytest.mark.parametrize("wrong", [
    (), ("nonsense",), ("call",), ("call", "read_file", "path"), ("call", "read_file", "=x"),
    ("call", "read_file", '{"path"'), ("call", "--nonsense"), ("tools", "extra"),
    ("tools", "--format=nonsense")])
def test_usage_errors(place, wrong):
    done = run(place, *wrong)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


def test_call_status_is_1_when_the_tool_failed(place):
    done = run(place, "call", "run_command", "command=broken")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "BUSY"


def test_tools_need_no_workspace(place):
    done = run(place, "tools", "--format=mcp")
    assert done.returncode == 0
    assert json.loads(done.stdout) == [{"name": "mcp"}]


def test_a_refused_workspace_is_status_3(place):
    (place / "ws" / "forbidden").touch()
    done = run(place, "call", "read_file", "path=a")
    assert done.returncode == 3
    assert b"not yours (FORBIDDEN)" in done.stderr
    assert run(place, "exec", "true").returncode == 125


def test_no_service_is_status_3(place):
    done = run(place, "tools", where=("--socket", place / "none"))
    assert done.returncode == 3
    done = run(place, "--workspace", "managed-name", "call", "read_file", "path=a")
    assert done.returncode == 3
    assert b"managed-name" in done.stderr


@pytest.mark.parametrize("through", ["option", "environment", "runtime directory"])
def test_a_service_that_listens_is_used(place, through):
    environment, where, path = dict(os.environ), (), place / "cloister" / "agent.sock"
    path.parent.mkdir()
    if through == "option":
        where = ("--socket", path)
    elif through == "environment":
        environment["CLOISTER_SOCKET"] = str(path)
    else:
        environment["XDG_RUNTIME_DIR"] = str(place)
    with subprocess.Popen([place / "bin/cloisterd", path], stdout=subprocess.PIPE) as service:
        service.stdout.readline()
        done = run(place, "call", "read_file", "path=a", where=where, env=environment)
    assert json.loads(done.stdout)["request"]["args"] == [str(path)]


def test_the_private_instance_has_its_connection_and_nothing_else(place):
    extra = os.open(place / "ws", os.O_RDONLY)
    done = run(place, "call", "read_file", "path=a", pass_fds=[extra])
    os.close(extra)
    sent = json.loads(done.stdout)["request"]
    status = os.stat(place / "ws")
    only = [f"--only-root={status.st_dev}:{status.st_ino}:{status.st_uid}"] if os.getuid() == 0 else []
    assert sent["args"] == ["--connection-fd=3", *only]
    assert sent["fds"] == [0, 1, 2, 3, 4]  # 4 is the descriptor that lists the directory


def test_closed_standard_descriptors_do_no_harm(place):
    done = subprocess.run(
        ["sh", "-c", 'exec 0<&- 1>&- 2>&-; exec "$0" "$@"', *words(place, "exec", "bytes")],
        timeout=60, check=False)
    assert done.returncode == 7


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, whose privilege cloister drops")
def test_root_becomes_the_directorys_owner(place):
    done = run(place, "call", "read_file", "path=a", extra_groups=[0, 4])
    sent = json.loads(done.stdout)["request"]
    assert sent["uid"] == ORDINARY_UID
    assert not {0, 4} & set(sent["groups"])
    assert sent["home"] != os.environ.get("HOME")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to own a directory as root")
def test_a_directory_of_root_is_refused(place):
    os.chown(place / "ws", 0, 0)
    done = run(place, "call", "read_file", "path=a")
    assert done.returncode == 3
    assert b"chown" in done.stderr


def test_exec_passes_bytes_and_status_on(place):
    done = run(place, "exec", "--", "bytes")
    assert done.stdout == bytes(range(256))
    assert done.stderr == b"error\n"
    assert done.returncode == 7


@pytest.mark.parametrize("command,status", [
    ("signal 9", 137), ("signal SIGSEGV", 139), ("late", 124), ("broken", 125), ("die", 125),
    ("garbage", 125)])
def test_exec_status(place, command, status):
    assert run(place, "exec", command).returncode == status


def test_exec_usage_errors_are_not_the_commands_status(place):
    assert run(place, "exec").returncode == 125
    assert run(place, "exec", "--nonsense", "true").returncode == 125


def test_exec_quotes_several_words_and_leaves_one_alone(place):
    sent = json.loads(run(place, "exec", "--env", "A=B", "--timeout=2m", "echo request").stdout)
    assert sent["arguments"] == {"command": "echo request", "timeout_ms": 120000}
    assert sent["options"]["env"] == {"A": "B"}
    hard = ["printf", "%s|", "it's", "$HOME `id`", "", "-n", "\\", "a\nb"]
    (place / "bin/cloisterd").write_text(STAND_IN.replace(
        'command == "echo request"', 'command.startswith("\'printf")'))
    sent = json.loads(run(place, "exec", "--", *hard).stdout)
    command = sent["arguments"]["command"]
    assert subprocess.check_output(["sh", "-c", command]) == subprocess.check_output(hard)


def test_exec_applies_the_blocked_list_when_asked(place):
    assert json.loads(run(place, "exec", "echo request").stdout)["options"]["blocked_list"] is False
    assert "blocked_list" not in json.loads(run(place, "exec", "--blocked-list", "echo request").stdout)["options"]


def test_exec_stdin(place):
    sent = json.loads(run(place, "exec", "echo request", input=b"a").stdout)
    assert sent["options"]["stdin_stream"] is True
    for words in ((), ("--no-stdin",)):
        sent = json.loads(run(place, "exec", *words, "echo request", stdin=subprocess.DEVNULL).stdout)
        assert "stdin_stream" not in sent["options"]
    sent = json.loads(run(place, "exec", "--no-stdin", "echo request", input=b"unread").stdout)
    assert "stdin_stream" not in sent["options"]


@pytest.mark.parametrize("number,status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_exec_cancels_on_a_signal(place, number, status):
    with subprocess.Popen(words(place, "exec", "hang"), stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"started\n"
        client.send_signal(number)
        assert client.wait(120) == status


def test_a_second_signal_does_not_wait_for_the_answer(place):
    with subprocess.Popen(words(place, "exec", "stuck"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"started\n"
        client.send_signal(signal.SIGINT)
        assert client.stderr.readline() == b"told\n"
        assert client.poll() is None
        client.send_signal(signal.SIGTERM)
        assert client.wait(12) == 130, "cloister waited for the answer, for which it gives 15 s"


@pytest.mark.deep("busy")
def test_signals_are_heard_while_the_reader_stalls(place):
    with subprocess.Popen(words(place, "exec", "flood"), stdout=subprocess.PIPE) as client:
        client.stdout.read(1)
        time.sleep(0.5)
        client.send_signal(signal.SIGINT)
        assert client.wait(120) == 130


def test_a_reader_that_left_ends_the_call(place):
    with subprocess.Popen(words(place, "exec", "flood"), stdout=subprocess.PIPE) as client:
        client.stdout.read(1)
        client.stdout.close()
        assert client.wait(120) == 128 + signal.SIGPIPE
