# SPDX-License-Identifier: Apache-2.0
"""clients/python, blocking and asyncio, against cloisterd and against servers that break the protocol."""

import asyncio
import base64
import contextlib
import io
import os
import re
import signal
import socket
import sys
import threading

import pytest

import procfs
from cloister_client import acting_as
from daemon import ROOT, Daemon
from hostile_server import HostileServer, answer, line, requests

sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))

import cloister  # noqa: E402  (it is only now on the path)
import cloister.aio  # noqa: E402

pytestmark = pytest.mark.usefixtures("as_user")
MIB = 1 << 20


class Waiting:
    """Wraps an object of the asyncio client and runs each of its coroutines to the end, so that one test covers both
    clients."""

    def __init__(self, loop, inner):
        self._loop, self._inner = loop, inner

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def run(*arguments, **keywords):
            made = found(*arguments, **keywords)
            result = self._loop.run_until_complete(made) if asyncio.iscoroutine(made) else made
            return Waiting(self._loop, result) if isinstance(result, cloister.aio.Call) else result
        return run

    def __iter__(self):
        pieces = self._inner.__aiter__()
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self._loop.run_until_complete(pieces.__anext__())


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request):
    """connect(path, ...): a client; it is closed after the test."""
    made, loop = [], asyncio.new_event_loop()

    def one(*arguments, **keywords):
        if request.param == "blocking":
            made.append(cloister.Client(*map(str, arguments), **keywords))
            return made[-1]

        async def make():
            return cloister.aio.Client(*map(str, arguments), **keywords)
        made.append(loop.run_until_complete(make()))
        return Waiting(loop, made[-1])
    yield one
    for client in made:
        client.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def place(daemon):
    return daemon.new_directory()


@pytest.fixture
def client(daemon, connect, place):
    made = connect(daemon.socket)
    made.workspace(str(place))
    return made


class Service:
    """A cloisterd that can be killed and started again at the same path."""

    def __init__(self, area):
        self.area = area
        self.link = area.new_directory("service") / "here"
        self.running = None
        self.start()

    @property
    def socket(self):
        return self.link / "agent.sock"

    def start(self):
        with acting_as(os.getuid()):
            self.running = Daemon(self.area)
            self.link.unlink(missing_ok=True)
            self.link.symlink_to(self.running.path)

    def kill(self):
        with acting_as(os.getuid()):
            self.running.process.send_signal(signal.SIGKILL)
            self.running.process.wait()

    def stop(self):
        with acting_as(os.getuid()):
            self.running.stop()


@pytest.fixture
def service(area):
    made = Service(area)
    yield made
    made.stop()


# Every method


def test_the_tools(client, place):
    written = client.write_file("d/a.txt", "one\ntwo\n")
    assert written.pop("version")
    assert written == {"path": "d/a.txt", "bytes_written": 8, "created": True}
    assert (place / "d/a.txt").read_text() == "one\ntwo\n"
    assert client.read_file("d/a.txt", 2)["content"] == "     2\ttwo\n"
    assert client.read_file("d/a.txt", end_line=1, options={"line_numbers": False})["content"] == "one\n"
    assert [entry["path"] for entry in client.list_directory(".", recursive=True)["entries"]] == ["d", "d/a.txt"]
    (match,) = client.search_files("t.o", file_pattern="*.txt")["matches"]
    assert match == {"path": "d/a.txt", "line": 2, "text": "two"}
    ran = client.run_command("cat; echo error >&2; exit 3", options={"stdin": "in", "env": {"A": "b"}})
    assert (ran["exit_code"], ran["stdout"], ran["stderr"], ran["ended_by"]) == (3, "in", "error\n", "exit")
    assert client.run_command("seq 9", options={"keep_output": False})["stdout_bytes"] == 18


def test_the_methods(client, place):
    assert [tool["function"]["name"] for tool in client.tools_list()["tools"]][:2] == ["read_file", "write_file"]
    assert len(client.tools_list("mcp", limits=True)["tools"]) == 5
    opened = client.workspace_open(workspace="managed-one")
    assert (opened["kind"], opened["root"]) == ("managed", "/workspace") and opened["isolation"]["network"] == "none"
    client.write_file("here", "")
    listed = client.workspace_list()["workspaces"]
    # The results have exactly the described members, of which one says what is not so here.
    assert set(opened) == set(cloister.Workspace.__annotations__) - {"root_inside"}
    described = set(cloister.ListedWorkspace.__annotations__)
    assert all(set(one) == described - (set() if one["kind"] == "managed" else {"labels", "lease"}) for one in listed), listed
    assert {"managed-one", str(place)} <= {one["workspace"] for one in listed if one["open"]}
    assert client.read_file("here", workspace="managed-one")["size"] == 0
    client.workspace_close("managed-one")
    with pytest.raises(cloister.WorkspaceNotFound):
        client.read_file("here")  # the default is not replaced by the other workspace
    assert client.list_directory(".", workspace=str(place))["entries"] == []
    client.workspace_remove("managed-one")
    assert "managed-one" not in {one["workspace"] for one in client.workspace_list()["workspaces"]}


def test_a_call_as_a_model_made_it(client):
    ollama = {"function": {"name": "write_file", "arguments": {"path": "a", "content": "x"}}}
    assert client.call(tool_call=ollama)["output"]["bytes_written"] == 1
    openai = {"id": "call_7", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}}
    message = client.answer(openai)
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_7")
    assert message["content"].startswith("a (") and "x" in message["content"]
    wrong = client.answer({"function": {"name": "no_tool", "arguments": {}}})
    assert wrong["content"].startswith("UNKNOWN_TOOL: ")


def test_a_session_outlives_its_client(daemon, connect, place):
    """One client starts it and goes; another reads on from its cursor, writes each byte once, and ends it."""
    first = connect(daemon.socket)
    first.workspace(str(place))
    started = first.session_start("while read -r line; do echo got $line; done", name="reader", stdin=True, key="k")
    again = first.session_start("while read -r line; do echo got $line; done", name="reader", stdin=True, key="k")
    assert again["session"] == started["session"] and again["replayed"]
    session = started["session"]
    assert first.session_write(session, at=0, data="one\n")["next"] == 4
    begun = first.session_read(session, after=0, wait_ms=60000, until=[{"contains": "got one"}])
    assert begun["met"] == 0
    first.close()
    second = connect(daemon.socket)
    second.workspace(str(place))
    assert session in [entry["session"] for entry in second.session_list()["sessions"]]
    # The first four bytes were taken from the client that is gone.
    assert second.session_write(session, at=0, data="one\ntwo\n")["next"] == 8
    rest = second.session_read(session, after=begun["next"], wait_ms=60000, until=[{"contains": "got two"}])
    both = begun["chunks"] + rest["chunks"]
    assert "".join(chunk["data"] for chunk in both) == "got one\ngot two\n" and rest["lost_bytes"] == 0
    assert second.session_signal(session, "INT")["sent"]
    end = second.session_read(session, after=rest["next"], wait_ms=60000, until=[{"exit": True}])["end"]
    assert end["output"]["signal"] == "SIGINT"
    terminal = second.session_start("stty size; cat", pty={"rows": 10, "cols": 40})["session"]
    second.session_read(terminal, after=0, wait_ms=60000, until=[{"contains": "10 40"}])
    second.session_resize(terminal, 20, 50)
    assert second.session_end(terminal)["output"]["ended_by"] == "cancel"
    with pytest.raises(cloister.SessionNotFound):
        second.session_read("guessed")


def test_any_request(client):
    assert client.request("tools.list", {"format": "openai"})["tools"]
    assert client.start("workspace.list").wait()["workspaces"]
    with pytest.raises(cloister.RequestError) as raised:
        client.request("tool.erase")
    assert raised.value.json_error == -32601
    with pytest.raises(cloister.RequestError) as raised:
        client.request("workspace.list", {"mode": "rw"})
    assert raised.value.json_error == -32602 and "mode" in str(raised.value)


# Errors


def test_a_tool_that_fails_is_raised_by_its_code(client):
    with pytest.raises(cloister.PathOutsideWorkspace) as raised:
        client.read_file("../secret")
    assert raised.value.code == "PATH_OUTSIDE_WORKSPACE" and raised.value.json_error == 0
    assert isinstance(raised.value, cloister.ServiceError) and "outside workspace" in raised.value.message
    with pytest.raises(cloister.Timeout) as raised:
        client.run_command("echo partial; sleep 60", options={"timeout_ms": 1500})
    assert raised.value.observation["output"]["stdout"] == "partial\n"
    assert raised.value.observation["output"]["ended_by"] == "timeout"
    observation = client.call("read_file", {"path": "gone"})  # call() does not raise
    assert observation["success"] is False and observation["error"]["code"] == "NOT_FOUND"
    with pytest.raises(cloister.NotFound):
        cloister.output_of(observation)
    with pytest.raises(cloister.InvalidArguments):
        client.search_files("x", max_results="many")


def test_a_refused_workspace(daemon, connect):
    client = connect(daemon.socket)
    with pytest.raises(cloister.WorkspaceNotFound):
        client.read_file("a")
    with pytest.raises(cloister.NotFound) as raised:
        client.workspace("/no/such/directory")
    assert raised.value.json_error == -32000
    with pytest.raises(cloister.Forbidden):
        client.workspace("/proc")
    assert client.tools_list()["tools"]  # the connection stays open


def test_what_cannot_be_sent(client):
    for content in ("\ud800", "x" * (33 * MIB), b"bytes", float("nan")):
        with pytest.raises(cloister.BadRequest):
            client.write_file("a", content)
    with pytest.raises(cloister.BadRequest, match="either"):
        client.call("read_file", {"path": "a"}, tool_call={})
    with pytest.raises(cloister.BadRequest, match="start_call"):
        client.read_file("a", options={"reply": "message"})
    assert client.run_command("echo yes")["stdout"] == "yes\n"


def test_no_service(connect, area, monkeypatch):
    monkeypatch.delenv("CLOISTER_SOCKET", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with pytest.raises(cloister.ServiceNotFound, match="start cloisterd"):
        connect(area.path / "no.sock").tools_list()
    if not os.path.exists("/run/cloister/agent.sock"):
        with pytest.raises(cloister.ServiceNotFound, match="CLOISTER_SOCKET"):
            connect().connect()


def test_the_socket_is_found(connect, daemon, area, monkeypatch):
    monkeypatch.setenv("CLOISTER_SOCKET", str(daemon.socket))
    assert connect().tools_list()
    runtime = area.new_directory("runtime")
    (runtime / "cloister").symlink_to(daemon.path)
    monkeypatch.setenv("CLOISTER_SOCKET", "/nowhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert connect().tools_list()


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_another_user_s_server_is_not_believed(connect, tenants, area, monkeypatch):
    runtime = area.new_directory("runtime")
    with acting_as(os.getuid()):
        (runtime / "cloister").mkdir()
        (runtime / "cloister").chmod(0o777)
    with acting_as(tenants[0].uid, tenants[0].gid):
        server = HostileServer(runtime / "cloister" / "agent.sock", lambda *_: None)
        os.chmod(server.path, 0o666)
    monkeypatch.delenv("CLOISTER_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with pytest.raises(cloister.ServiceNotFound, match="another user"):
        connect().connect()
    connect(server.path).connect()  # a path that the program named is trusted
    server.close()


# Streams, cancelling, several calls at once


def test_output_as_it_comes(client):
    call = client.start_call("run_command", {"command": "echo one; echo two >&2; read x; echo $x; cat"},
                             options={"stdin_stream": True})
    pieces = iter(call)
    begun = [next(pieces), next(pieces)]
    assert {(piece.stream, piece.text) for piece in begun} == {("stdout", "one\n"), ("stderr", "two\n")}
    assert call.input("three\n") == {"taken": 6, "closed": False}
    assert next(pieces).data == b"three\n"
    call.input(eof=True)
    assert list(pieces) == []
    assert call.wait()["output"]["exit_code"] == 0
    seen = []
    observation = client.call("run_command", {"command": "printf '\\377\\0a'"}, options={"encoding": "base64"},
                              on_output=seen.append)
    assert b"".join(piece.data for piece in seen) == b"\xff\0a" == base64.b64decode(observation["output"]["stdout"])


@pytest.mark.deep("slow")
def test_output_that_is_never_read_has_a_bound(client):
    """The program never reads the stream but waits for other answers, so the client must go on reading."""
    flood = client.start_call("run_command", {"command": "yes"}, timeout_ms=110_000, options={"keep_output": False})
    pending = getattr(flood, "_inner", flood)._pending
    while not pending.error:
        client.run_command("sleep 0.1")
        assert pending.unread <= 65 * MIB
    for use in (list, lambda call: call.wait()):
        with pytest.raises(cloister.OutputOverrun):
            use(flood)
    assert client.run_command("echo on")["stdout"] == "on\n"


def test_cancel(client):
    call = client.start_call("run_command", {"command": "echo begun; sleep 600"}, timeout_ms=900_000)
    assert next(iter(call)).text == "begun\n"
    assert call.cancel() is True
    observation = call.wait()
    assert observation["error"]["code"] == "CANCELLED" and observation["output"]["ended_by"] == "cancel"
    assert call.cancel() is False
    forgotten = client.start_call("run_command", {"command": f"sleep 6107.{os.getpid()}"}, timeout_ms=900_000)
    forgotten.forget()
    assert procfs.eventually(lambda: not procfs.having(f"sleep 6107.{os.getpid()}"))
    assert client.run_command("echo on")["stdout"] == "on\n"


def test_a_handler_that_fails_ends_its_call(client):
    number = f"6109.{os.getpid()}"

    def handler(piece):
        raise KeyError(piece.text)
    with pytest.raises(KeyError):
        client.call("run_command", {"command": f"echo begun; sleep {number}"}, timeout_ms=900_000, on_output=handler)
    assert procfs.eventually(lambda: not procfs.having(f"sleep {number}"))
    assert client.run_command("echo on")["stdout"] == "on\n"


def test_answers_in_any_order(client):
    slow = client.start_call("run_command", {"command": "while [ ! -e go ]; do sleep 0.05; done; echo slow"},
                             timeout_ms=110_000)
    others = [client.start_call("run_command", {"command": f"echo {number}"}, stream=False) for number in range(20)]
    assert [call.wait()["output"]["stdout"] for call in reversed(others)] == [f"{number}\n" for number in range(19, -1, -1)]
    client.write_file("go", "")
    assert slow.wait()["output"]["stdout"] == "slow\n"


def test_threads_share_a_client(daemon, place):
    results = []
    with cloister.Client(str(daemon.socket)) as client:
        client.workspace(str(place))

        def work(number):
            for turn in range(5):
                text = f"{number} {turn}\n" * 2000
                client.write_file(f"{number}", text)
                results.append(client.run_command(f"cat {number}")["stdout"] == text)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    assert results == [True] * 40


def test_a_task_that_is_cancelled_cancels_its_call(daemon, place):
    number = f"6113.{os.getpid()}"

    async def main():
        async with cloister.aio.Client(str(daemon.socket)) as client:
            await client.workspace(str(place))
            task = asyncio.ensure_future(client.run_command(f"touch begun; sleep {number}", timeout_ms=900_000))
            while not (place / "begun").exists():
                await asyncio.sleep(0.02)
            many = await asyncio.gather(*(client.run_command(f"echo {turn}") for turn in range(10)))
            assert [one["stdout"] for one in many] == [f"{turn}\n" for turn in range(10)]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while procfs.having(f"sleep {number}"):
                await asyncio.sleep(0.02)
            assert (await client.run_command("echo on"))["stdout"] == "on\n"
    asyncio.run(main())


@pytest.mark.deep("slow")
def test_a_slow_reader_makes_the_command_wait(daemon, place):
    """The asyncio client reads in the background, but only as much as it keeps unread."""
    async def main():
        async with cloister.aio.Client(str(daemon.socket)) as client:
            await client.workspace(str(place))
            call = await client.start_call("run_command", {"command": "head -c 64000000 /dev/zero"}, timeout_ms=110_000,
                                           options={"keep_output": False, "encoding": "base64"})
            total = 0
            async for piece in call:
                total += len(piece.data)
                assert call._pending.wire.unread < 4 * MIB
                await asyncio.sleep(0)
            assert total == 64000000 and (await call.wait())["success"]
    asyncio.run(main())


# The service restarts


def test_a_restart_in_the_middle(service, connect, area):
    client, first, second = connect(service.socket), area.new_directory(), area.new_directory()
    client.workspace(str(first))
    client.workspace(str(second))
    call = client.start_call("run_command", {"command": "echo begun; sleep 600"}, timeout_ms=900_000)
    assert next(iter(call)).text == "begun\n"
    service.kill()
    with pytest.raises(cloister.ConnectionLost):
        call.wait()
    with pytest.raises(cloister.ConnectionLost):
        call.wait()  # and again
    service.start()
    client.write_file("after", "x")
    assert (second / "after").exists() and not (first / "after").exists()
    assert client.read_file("after", workspace=str(second))["size"] == 1
    assert client.list_directory(".", workspace=str(first))["entries"] == []


def test_it_waits_while_the_service_is_away(service, connect, area):
    client = connect(service.socket, reconnect=120)
    client.workspace(str(area.new_directory()))
    service.kill()  # no call is in flight, so none is lost
    later = threading.Timer(0.5, service.start)
    later.start()
    assert client.run_command("echo back")["stdout"] == "back\n"
    later.join()


def test_it_does_not_wait_for_ever(service, connect):
    patient, impatient = connect(service.socket, reconnect=0.2), connect(service.socket, reconnect=None)
    patient.connect(), impatient.connect()
    service.kill()
    with pytest.raises(cloister.ServiceNotFound):
        patient.tools_list()
    with pytest.raises(cloister.ConnectionLost, match="without reconnect"):
        impatient.tools_list()


def test_what_was_closed_stays_closed(service, connect, area):
    client, first, second = connect(service.socket), area.new_directory(), area.new_directory()
    client.workspace(str(first))
    client.workspace(str(second))
    client.workspace_close()
    service.kill()
    service.start()
    with pytest.raises(cloister.WorkspaceNotFound):
        client.write_file("a", "")  # and nothing is written to the first
    assert client.list_directory(".", workspace=str(first))["entries"] == []
    with pytest.raises(cloister.WorkspaceNotFound):
        client.list_directory(".", workspace=str(second))


def test_a_closed_client(client):
    client.close()
    with pytest.raises(cloister.Closed):
        client.tools_list()


# Servers that break the protocol


@pytest.fixture
def hostile(area):
    made = []

    def start(serve):
        made.append(HostileServer(area.new_directory("hostile") / "agent.sock", serve))
        return made[-1]
    yield start
    for server in made:
        server.close()


OUTPUT = {"jsonrpc": "2.0", "method": "tool.output", "params": {"id": 1, "stream": "stdout", "data": "x", "seq": 0}}


def changed(**params):
    return line({**OUTPUT, "params": {**OUTPUT["params"], **params}})


NONSENSE = {
    "junk": b"HTTP/1.1 400 Bad Request\n",
    "empty": b"\n",
    "no object": b"[]\n",
    "not utf-8": b'{"id":1,"result":{"a":"\xff"}}\n',
    "nan": b'{"id":1,"result":{"a":NaN}}\n',
    "wrong id": answer(7, {}),
    "id of a string": answer("1", {}),
    "id true": answer(True, {}),
    "no id": line({"jsonrpc": "2.0", "result": {}}),
    "neither": line({"jsonrpc": "2.0", "id": 1}),
    "both": line({"jsonrpc": "2.0", "id": 1, "result": 1, "error": {"code": 1, "message": ""}}),
    "error of a string": line({"jsonrpc": "2.0", "id": 1, "error": "no"}),
    "deep": b'{"id":1,"result":' + b"[" * 200_000 + b"\n",
    "long number": b'{"id":1,"result":{"a":' + b"9" * 3_000_000 + b"}}\n",
    "many values": b'{"id":1,"result":{"a":[' + b"0," * 5_000_000 + b"0]}}\n",
    "many quotes": b'{"id":1,"result":"' + b'\\"' * 8_000_000 + b"\n",
    "result is no object": answer(1, 7),
    "method is no string": line({"jsonrpc": "2.0", "method": 7}),
    "params are no object": line({"jsonrpc": "2.0", "method": "x", "params": []}),
    "output of no call": changed(id=9),
    "output of no stream": changed(stream="stdin"),
    "output out of order": changed(seq=1),
    "output is no string": changed(data=7),
    "output is half a character": changed(data="\ud800"),
}


@pytest.mark.deep("slow", only=["blocking-many quotes", "asyncio-many quotes"])
@pytest.mark.parametrize("said", NONSENSE.values(), ids=NONSENSE)
def test_nonsense(hostile, connect, said):
    def serve(server, connection, _):
        next(requests(connection))
        server.say(connection, said)
        connection.recv(1)
    client = connect(hostile(serve).path, reconnect=None, answer_timeout=60)
    with pytest.raises(cloister.ProtocolError) as raised:
        client.call("run_command", {"command": "true"}, timeout_ms=1, on_output=lambda piece: None)
    assert isinstance(raised.value, cloister.ConnectionLost) and len(str(raised.value)) < 500


def test_a_line_without_an_end(hostile, connect):
    def serve(server, connection, _):
        next(requests(connection))
        server.say(connection, b'{"id":1,"result":"')
        while True:
            server.say(connection, b"x" * MIB)
    server = hostile(serve)
    with pytest.raises(cloister.ProtocolError, match="line of more than"):
        connect(server.path).tools_list()
    # The server's thread may count its last bytes only after the client has read them.
    assert procfs.eventually(lambda: server.sent > 32 * MIB) and server.sent < 40 * MIB


def test_a_torn_message(hostile, connect):
    def serve(server, connection, _):
        next(requests(connection))
        server.say(connection, answer(1, {"tools": []})[:-9])
    with pytest.raises(cloister.ConnectionLost) as raised:
        connect(hostile(serve).path, reconnect=None).tools_list()
    assert not isinstance(raised.value, cloister.ProtocolError)


def test_an_answer_in_bits(hostile, connect):
    def serve(server, connection, _):
        for request in requests(connection):
            for byte in answer(request["id"], {"tools": ["é"]}):
                server.say(connection, bytes([byte]))
    client = connect(hostile(serve).path)
    assert client.tools_list() == client.tools_list() == {"tools": ["é"]}


def test_a_server_that_never_answers(hostile, connect):
    seen = []

    def serve(_, connection, __):
        seen.extend(requests(connection))
    client = connect(hostile(serve).path, answer_timeout=0.2)
    with pytest.raises(cloister.NoAnswer):
        client.tools_list()
    with pytest.raises(cloister.NoAnswer):
        client.run_command("true", timeout_ms=1)
    client.close()
    assert procfs.eventually(lambda: len(seen) == 3)
    assert [message["method"] for message in seen] == ["tools.list", "tool.call", "tool.cancel"]
    assert seen[2]["params"] == {"id": seen[1]["id"]}


def test_a_server_that_never_reads(hostile, connect):
    """The queue of bytes to send is bounded, and the wait for an answer ends."""
    stop = threading.Event()
    client = connect(hostile(lambda *_: stop.wait(300)).path, answer_timeout=0.2)
    with pytest.raises(cloister.BadRequest, match="wait to be sent"):
        for _ in range(8):
            client.start("tools.list", {"format": "x" * (12 * MIB)})
    with pytest.raises(cloister.NoAnswer):
        client.start("tools.list").wait()
    stop.set()


def test_a_service_that_is_full(hostile, connect):
    """BUSY without an id, then the end of the connection. A client that reconnects tries until there is room."""
    def serve(server, connection, number):
        if number in (2, 3, 5):
            server.say(connection, line({"jsonrpc": "2.0", "id": None, "error": {
                "code": -32000, "message": "full", "data": {"code": "BUSY", "retry_after_ms": 50}}}))
            connection.recv(1 << 16)
            return
        for request in requests(connection):
            server.say(connection, answer(request["id"], {"workspace": "w", "tools": []}))
            if request["method"] == "tools.list":
                return
    server = hostile(serve)
    client = connect(server.path)
    client.workspace("w")
    client.tools_list()
    # A request that crosses the end of the connection is lost, and not repeated.
    assert procfs.eventually(lambda: server.closed == 1)
    client.tools_list()
    assert server.connections == 4
    with pytest.raises(cloister.Busy) as raised:
        connect(server.path).tools_list()
    assert raised.value.retry_after_ms == 50


def lost_in_the_middle(counts, repeat_from=2):
    """A server that closes the connection instead of answering the first call."""
    def serve(server, connection, number):
        for request in requests(connection):
            if request["method"] != "workspace.open":
                counts.append(request["method"])
                if number < repeat_from:
                    return
            server.say(connection, answer(request["id"], {"workspace": "w", "tools": [], "success": True, "output": {},
                                                          "error": None}))
    return serve


def test_only_reads_are_repeated_and_only_on_request(hostile, connect):
    counts = []
    client = connect(hostile(lost_in_the_middle(counts)).path)
    with pytest.raises(cloister.ConnectionLost):
        client.tools_list()
    assert counts == ["tools.list"]

    counts = []
    client = connect(hostile(lost_in_the_middle(counts)).path, retry_reads=True)
    assert client.tools_list() == {"workspace": "w", "tools": [], "success": True, "output": {}, "error": None}
    assert client.read_file("a") == {} and counts == ["tools.list"] * 2 + ["tool.call"]

    counts = []
    client = connect(hostile(lost_in_the_middle(counts)).path, retry_reads=True)
    with pytest.raises(cloister.ConnectionLost):
        client.run_command("echo once >>log")
    assert counts == ["tool.call"]

    counts = []
    client = connect(hostile(lost_in_the_middle(counts)).path)
    assert client.run_command("echo once >>log", options={"key": "k"}) == {} and counts == ["tool.call"] * 2

    counts = []
    client = connect(hostile(lost_in_the_middle(counts, repeat_from=99)).path, retry_reads=True)
    with pytest.raises(cloister.ConnectionLost):
        client.read_file("a")
    assert counts == ["tool.call"] * 2  # the client repeats the call once


def test_a_workspace_that_cannot_be_opened_again(hostile, connect):
    def serve(server, connection, number):
        for request in requests(connection):
            if number > 1:
                server.say(connection, line({"jsonrpc": "2.0", "id": request["id"], "error": {
                    "code": -32000, "message": "not yours any more", "data": {"code": "FORBIDDEN"}}}))
            else:
                server.say(connection, answer(request["id"], {"workspace": "w"}))
                connection.shutdown(socket.SHUT_RDWR)
                return
    client = connect(hostile(serve).path)
    client.workspace("w")
    # If the call is sent before the client has seen the end of the connection, the call is lost.
    with pytest.raises((cloister.ConnectionLost, cloister.Forbidden)):
        client.read_file("a")
    for _ in range(2):
        with pytest.raises(cloister.Forbidden, match="not yours any more"):
            client.read_file("a")


def test_places():
    rows = re.findall(r'^\{"(.*)", "(.*)", "(.*)", "(.*)"\},$', (ROOT / "tests" / "lib" / "places.h").read_text(encoding="utf-8"), re.M)
    assert len(rows) > 10
    for tenant, workspace, nodes, chosen in rows:
        assert cloister.place(tenant, workspace, nodes.split()) == chosen
    for wrong in (("t", "w", []), ("t\0", "w", ["a"]), ("t", "w", ["a\0"])):
        with pytest.raises(ValueError):
            cloister.place(*wrong)


def test_upload_and_download(client):
    data, moved = os.urandom(3 * MIB + 5), []
    written = client.upload(io.BytesIO(data), "up/f", mode="0600", expect="absent", progress=moved.append)
    assert written["bytes"] == len(data) and written["created"] and moved[-1] == len(data) and len(moved) > 3
    target, moved = io.BytesIO(), []
    read = client.download("up/f", target, progress=moved.append)
    assert target.getvalue() == data and read["entry"]["mode"] == "0600" and moved[-1] == len(data) and len(moved) > 3
    part = io.BytesIO()
    assert client.download("up/f", part, offset=7, length=9)["bytes"] == 9 and part.getvalue() == data[7:16]
    assert client.upload(io.BytesIO(b""), "empty")["bytes"] == 0
    with pytest.raises(cloister.StaleFile):
        client.upload(io.BytesIO(data), "up/f", expect="absent")
    with pytest.raises(cloister.IsADirectory):
        client.upload(io.BytesIO(data), "up")
    with pytest.raises(cloister.NotFound):
        client.download("none", io.BytesIO())


class Failing:
    """A file of which the second part cannot be read or written."""

    def __init__(self):
        self.parts = 0

    def read(self, size):
        self.parts += 1
        if self.parts == 2:
            raise OSError("the disk is broken")
        return bytes(size)

    def write(self, data):
        self.read(len(data))


def test_a_transfer_that_fails_on_this_side_is_cancelled(client, place):
    with pytest.raises(OSError):
        client.upload(Failing(), "f")
    assert procfs.eventually(lambda: not os.listdir(place))
    client.upload(io.BytesIO(bytes(MIB)), "f")
    with pytest.raises(OSError):
        client.download("f", Failing())
    assert client.file_stat("f")["entry"]["size"] == MIB  # the connection goes on
