# SPDX-License-Identifier: Apache-2.0
"""cloister-gate's /mcp: MCP by Streamable HTTP, before a cloisterd that serves two tenants."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re

import npm
import procfs
import pytest
from cloister_client import acting_as
from daemon import is_sanitized
from http_gate import HttpGate, config, daemon_behind
from http_mcp import LEGACY, MODERN, OLDEST, HttpMcp, message, run, tool

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")

TOOLS = ["list_directory", "read_file", "run_command", "search_files", "write_file"]


@pytest.fixture(scope="module")
def module_daemon(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as running:
        yield running


@pytest.fixture(scope="module")
def gate(area, module_daemon, tenants):
    running = HttpGate(area, module_daemon, tenants[1], "origins = https://tool.example.org")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def blue(gate):
    return gate.key("blue", "--name", "blue")["key"]


@pytest.fixture
def mcp(gate, blue):
    client = HttpMcp(gate, blue)
    client.initialize()
    yield client
    client.ask(None, method="DELETE")


def links(gate):
    return int(re.search(r"^cloister_gate_links_open (\d+)$", gate.request("GET", "/metrics").body.decode(), re.M)[1])


def gate_memory(gate):
    return int(re.search(r"^RssAnon:\s+(\d+) kB", pathlib.Path(f"/proc/{gate.process.pid}/status").read_text(), re.M)[1]) << 10


@pytest.mark.parametrize("version", [LEGACY, OLDEST])
def test_a_session(gate, blue, version):
    client = HttpMcp(gate, blue)
    assert client.initialize(version)["protocolVersion"] == version
    assert re.fullmatch("[0-9a-f]{32}", client.session)
    assert sorted(one["name"] for one in client.result(message("tools/list", 1))["tools"]) == TOOLS
    assert not client.result(tool("text", "write_file", path="a", content="by HTTP\n"))["isError"]
    assert "by HTTP" in json.dumps(client.result(run(2 ** 53 + 1, "cat a")))
    assert client.ask(message("ping", -1)).json() == {"jsonrpc": "2.0", "id": -1, "result": {}}
    assert client.ask(None, method="DELETE").status == 204
    answer = client.ask(message("tools/list", 3))
    assert answer.status == 404 and answer.json()["error"]["code"] == -32600
    assert client.ask(None, method="DELETE").status == 404


def test_results_as_text_alone(gate, blue):
    client = HttpMcp(gate, blue, "?workspace=mcp&form=text")
    client.initialize()
    assert not any("outputSchema" in one for one in client.result(message("tools/list", 1))["tools"])
    result = client.result(run(2, "echo hi"))
    assert "structuredContent" not in result and "exit 0\nhi\n" in result["content"][0]["text"]
    client.ask(None, method="DELETE")
    answer = HttpMcp(gate, blue, "?form=json").ask(message("initialize", 1, protocolVersion=LEGACY, capabilities={},
                                                           clientInfo={"name": "tests", "version": "1"}))
    assert answer.status == 400 and "form" in answer.json()["error"]["message"]


def test_a_message_of_several_lines_is_one(mcp):
    said = json.dumps(run(1, "printf 'one\\ntwo'"), indent=4).replace("\n", "\r\n").encode()
    assert "one\\ntwo" in mcp.ask(said).body.decode()


def test_progress_comes_as_events_before_the_answer(mcp):
    stream = mcp.open(run(7, "echo begun; until [ -e go ]; do sleep 0.05; done; rm go; echo done", token="p")).begin()
    events = stream.events()
    first = next(events)
    assert first["method"] == "notifications/progress"
    assert (first["params"]["progressToken"], first["params"]["message"]) == ("p", "begun")
    # Another request of the session goes on meanwhile, and has its own answer.
    assert not mcp.result(tool(8, "write_file", path="go", content=""))["isError"]
    *between, last = events
    assert all(event["params"]["progressToken"] == "p" for event in between)
    assert last["id"] == 7 and "done" in json.dumps(last["result"])


def test_a_client_that_takes_no_events_gets_none(mcp):
    answer = mcp.ask(run(1, "echo begun; sleep 0.5", token=1), accept="Accept: application/json")
    assert answer.headers["content-type"] == "application/json" and answer.json()["id"] == 1


def test_cancelling_ends_the_command_and_the_stream(mcp):
    command = f"sleep 4713.{os.getpid()}"
    stream = mcp.open(run("c", f"echo begun; {command}", token="c")).begin()
    events = stream.events()
    next(events)
    assert mcp.ask(message("notifications/cancelled", requestId="c")).status == 202
    assert all("method" in event for event in events)
    assert procfs.eventually(lambda: not procfs.having(command))
    assert not mcp.result(run("c", "true"))["isError"]  # the id may be used again


def test_a_client_that_leaves_does_not_cancel(mcp):
    stream = mcp.open(run(1, "echo begun; until [ -e on ]; do sleep 0.05; done; echo went > went", token=1)).begin()
    next(stream.events())
    stream.connection.close()
    assert not mcp.result(tool(2, "write_file", path="on", content=""))["isError"]
    assert not mcp.result(run(3, "until [ -e went ]; do sleep 0.05; done; rm on went"))["isError"]


def count(gate, name):
    return int(re.search(rf"^cloister_gate_{name} (\d+)$", gate.request("GET", "/metrics").body.decode(), re.M)[1])


def half(mcp, number, then="true"):
    """Begins a command that waits, reads its first event, and returns the stream."""
    stream = mcp.open(run(number, f"echo begun; until [ -e on ]; do sleep 0.05; done; rm on; {then}; echo ended", token=number)).begin()
    events = stream.events()
    assert next(events)["params"]["message"] == "begun"
    return stream, events


def go_on(mcp):
    assert not mcp.result(tool("on", "write_file", path="on", content=""))["isError"]


@pytest.mark.parametrize("version", [LEGACY, OLDEST])
def test_a_stream_that_broke_off_goes_on(gate, blue, version):
    """The answer comes before the client does, and after it."""
    client = HttpMcp(gate, blue)
    client.initialize(version)
    before = count(gate, "mcp_streams_resumed_total")
    for is_early in (True, False):
        stream, _ = half(client, 1, "echo >> gone")
        stream.connection.close()
        if is_early:
            go_on(client)
            assert not client.result(run(2, "until [ -e gone ]; do sleep 0.05; done; rm gone"))["isError"]
        again = client.resume(stream.last)
        if not is_early:
            go_on(client)
        *between, last = again.events()
        assert all(one["params"]["progressToken"] == 1 and one["params"]["message"] != "begun" for one in between)
        assert last["id"] == 1 and "ended" in json.dumps(last["result"])
        # It may be asked for once more, from the first event and from the last.
        *_, once_more = client.resume(stream.last).events()
        assert once_more == last and not list(client.resume(again.last).events())
    assert count(gate, "mcp_streams_resumed_total") == before + 6
    client.ask(None, method="DELETE")


def first_id(stream):
    """Reads the event without data, with which a stream of 2025-11-25 begins."""
    while not re.search(rb"id: (\S+)\n", stream.connection.read):
        assert stream.connection.more()
    return re.search(rb"id: (\S+)\n", stream.connection.read)[1].decode()


def test_the_stream_of_get_goes_on(mcp):
    stream = mcp.open(None, "GET").begin()
    last = first_id(stream)
    assert mcp.open(None, "GET").begin().head.startswith("http/1.1 409")
    for _ in range(3):
        again = mcp.resume(last)
        assert "text/event-stream" in again.head
    while stream.connection.more():
        pass
    mcp.ask(None, method="DELETE")
    assert list(again.events()) == []
    assert mcp.resume(last).head.startswith("http/1.1 404")


def test_a_client_that_comes_again_has_the_stream(mcp):
    """The old connection is open still, as after a change of the network."""
    stream, events = half(mcp, 1)
    again = mcp.resume(stream.last)
    with pytest.raises((EOFError, ValueError, ConnectionResetError, AssertionError)):
        list(events)
    go_on(mcp)
    *_, last = again.events()
    assert last["id"] == 1


@pytest.mark.parametrize("edit", [
    lambda last: "", lambda last: "1", lambda last: last + "0", lambda last: last.rsplit("-", 1)[0], lambda last: last + "-1",
    lambda last: last.replace("-", "-0", 1), lambda last: "0" * 16 + last[16:], lambda last: last.upper() + " x",
    lambda last: last.rsplit("-", 1)[0] + "-999999999999999999999999"])
def test_ids_that_are_no_event(mcp, edit):
    stream, events = half(mcp, 1)
    assert mcp.ask(None, f"Last-Event-ID: {edit(stream.last)}", method="GET").status == 400
    go_on(mcp)
    list(events)


def test_an_event_is_of_one_session(gate, blue, mcp):
    """Neither another session of the key nor another key gets what is kept."""
    stream, events = half(mcp, 1)
    go_on(mcp)
    list(events)
    other = HttpMcp(gate, blue)
    other.initialize()
    other_stream, other_events = half(other, 1)
    assert other.ask(None, f"Last-Event-ID: {stream.last}", method="GET").status == 400
    assert other_stream.last[16:] == stream.last[16:].replace(stream.last.rsplit("-", 1)[1], other_stream.last.rsplit("-", 1)[1])
    thief = HttpMcp(gate, gate.key("green", "--name", "thief")["key"], session=mcp.session, version=mcp.version)
    assert thief.ask(None, f"Last-Event-ID: {stream.last}", method="GET").status == 404
    go_on(other)
    list(other_events)
    other.ask(None, method="DELETE")


def test_events_that_are_not_kept_any_more(gate, mcp):
    """A session keeps 1 MiB; a client that comes too late is told, and gets no stream with a gap."""
    stream, events = half(mcp, 1)
    go_on(mcp)
    list(events)
    first = stream.last
    before = count(gate, "mcp_streams_not_resumed_total")
    assert not mcp.result(tool(0, "write_file", path="wide", content="x" * 700_000))["isError"]
    for number in (2, 3, 4):
        said = run(number, "echo now; sleep 0.2; cat wide", token=number)
        said["params"]["_meta"]["cloister/options"] = {"max_output": 1_000_000}
        assert len(json.dumps(list(mcp.open(said).begin().events()))) > 500_000
    assert mcp.ask(None, f"Last-Event-ID: {first}", method="GET").status == 410
    assert count(gate, "mcp_streams_not_resumed_total") == before + 1


def test_deleting_a_session_ends_what_runs(gate, blue):
    client = HttpMcp(gate, blue)
    client.initialize()
    command = f"sleep 4714.{os.getpid()}"
    listening = client.open(None, "GET").begin()
    events = client.open(run(1, f"echo begun; {command}", token=1)).begin().events()
    next(events)
    assert client.open(None, "GET").begin().head.startswith("http/1.1 409")
    before = links(gate)
    assert client.ask(None, method="DELETE").status == 204
    assert list(listening.events()) == []
    with pytest.raises((EOFError, ConnectionResetError)):  # it breaks off
        list(events)
    assert procfs.eventually(lambda: not procfs.having(command))
    assert links(gate) == before - 1


def test_a_session_is_its_keys(gate, mcp):
    for tenant in "blue", "green":
        other = HttpMcp(gate, gate.key(tenant)["key"], session=mcp.session, version=mcp.version)
        for method, said in ("POST", message("tools/list", 1)), ("GET", None), ("DELETE", None):
            assert other.ask(said, method=method).status == 404, (tenant, method)
    for wrong in mcp.session[:-1], mcp.session + "0", mcp.session.upper() + "x", "0" * 32:
        assert HttpMcp(gate, mcp.key, session=wrong).ask(message("tools/list", 1)).status == 404
    assert mcp.ask(message("tools/list", 1)).status == 200


def test_a_revoked_key_ends_its_session(gate):
    made = gate.key("blue", "--name", "mcp-short")
    client = HttpMcp(gate, made["key"])
    client.initialize()
    command = f"sleep 4715.{os.getpid()}"
    stream = client.open(run(1, f"echo begun; {command}", token=1)).begin()
    next(stream.events())
    gate.ctl("key", "revoke", "mcp-short")
    assert procfs.eventually(lambda: not procfs.having(command))
    assert client.ask(message("tools/list", 2)).status == 401


@pytest.mark.parametrize("body, code", [
    (b"", -32700), (b"{", -32700), (b"nothing", -32700), (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600), (b"[]", -32600), (b'"text"', -32600), (b"null", -32600),
    (b'{"id":1,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":1}', -32600), (b'{"jsonrpc":"2.0","id":1}', -32600)])
def test_bodies_that_are_no_message(mcp, body, code):
    answer = mcp.ask(body)
    assert answer.status == 400 and answer.json()["error"]["code"] == code
    assert mcp.ask(message("ping", 1)).status == 200


def test_mistakes_of_cloisterds_are_answers(mcp):
    assert mcp.ask(message("no/method", 1)).json()["error"]["code"] == -32601
    assert mcp.ask(message("workspace.remove", 2, workspace="mcp")).json()["error"]["code"] == -32601
    assert mcp.ask({"jsonrpc": "2.0", "id": 3, "method": "ping", "other": 1}).json()["id"] == 3
    assert mcp.ask({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": []}).json()["id"] == 4
    assert mcp.ask({"jsonrpc": "2.0", "id": 5, "result": {}}).status == 202


def test_heads_that_are_refused(gate, blue, mcp):
    ping = message("ping", 1)
    assert HttpMcp(gate, blue).ask(ping).status == 400
    assert HttpMcp(gate, blue, session=mcp.session).ask(ping).status == 200  # no version: the session's
    for version in OLDEST, "2024-01-01", "x":
        assert HttpMcp(gate, blue, session=mcp.session, version=version).ask(ping).status == 400, version
    assert HttpMcp(gate, blue).ask(None, method="GET").status == 400
    assert mcp.ask(message("initialize", 1)).status == 400
    assert HttpMcp(gate, None).ask(ping).status == 401
    assert mcp.ask(ping, "Origin: https://evil.example.org").status == 403
    assert mcp.ask(ping, "Origin: https://tool.example.org").status == 200
    with gate.connect() as connection:
        connection.send(f"POST /mcp HTTP/1.1\r\nHost: evil.example.org\r\nAuthorization: Bearer {blue}\r\nContent-Length: 0\r\n\r\n")
        assert connection.answer().status == 421
    assert mcp.ask(None, method="PUT").status == 405


def test_a_refused_initialize_leaves_no_session(gate, blue):
    before = links(gate)
    client = HttpMcp(gate, blue)
    answer = client.ask(message("initialize", 1))
    assert answer.json()["error"]["code"] == -32602
    assert links(gate) == before


def test_workspaces(gate, blue):
    bound = gate.key("blue", "--workspace", "only")["key"]
    for key, query, seen in (blue, "?workspace=one", ""), (blue, "?workspace=one", "one"), (blue, "?workspace=two", ""), \
            (blue, "", ""), (blue, "?workspace=default", "default"), (bound, "", ""), (bound, "?workspace=only", "only"), \
            (blue, "?workspace=only", "only"):
        client = HttpMcp(gate, key, query)
        client.initialize()
        name = query.partition("=")[2] or ("only" if key == bound else "default")
        got = client.result(run(1, f"cat name; echo -n {name} > name"))["structuredContent"]["output"]["stdout"]
        assert got == seen, (query, key == bound)
        client.ask(None, method="DELETE")
    assert HttpMcp(gate, bound, "?workspace=one").ask(first()).status == 403
    assert HttpMcp(gate, blue, "?workspace=../one").ask(first()).status == 400
    assert HttpMcp(gate, gate.key("closed")["key"]).ask(first()).status == 403


def test_an_id_that_waits_is_not_taken_twice(mcp):
    stream = mcp.open(run(1, "echo begun; until [ -e id ]; do sleep 0.05; done; rm id", token=1)).begin()
    events = stream.events()
    next(events)
    assert mcp.ask(message("ping", 1)).status == 400
    assert mcp.ask(message("ping", "1")).status == 200
    assert not mcp.result(tool(2, "write_file", path="id", content=""))["isError"]
    assert list(events)[-1]["id"] == 1


def first(version=LEGACY):
    return message("initialize", "first", protocolVersion=version, capabilities={}, clientInfo={"name": "tests", "version": "1"})


def test_a_message_has_a_bound(gate, blue):
    """The gate reads a message in one piece, and all tenants wait meanwhile."""
    body = json.dumps(message("ping", 1)).encode()
    for length, status in (4 << 20, 400), ((4 << 20) + 1, 413):
        answer = gate.request("POST", "/mcp", blue, ["Content-Type: application/json"], body + b" " * (length - len(body)))
        assert answer.status == status


def test_sessions_of_a_tenant_are_its_connections(gate):
    green = gate.key("green")["key"]
    clients = [HttpMcp(gate, green) for _ in range(3)]
    for client in clients[:2]:
        client.initialize()
    answer = clients[2].ask(first())
    assert answer.status == 503 and answer.headers["retry-after"] == "1" and answer.json()["error"]["code"] == -32603
    clients[0].ask(None, method="DELETE")
    assert procfs.eventually(lambda: clients[2].ask(first()).status == 200)
    for client in clients[1:]:
        client.ask(None, method="DELETE")


def test_a_client_that_leaves_before_it_has_a_session_leaves_none(gate, blue):
    before = links(gate)
    for _ in range(5):
        HttpMcp(gate, blue, "?workspace=left").open(first()).connection.close()
    assert procfs.eventually(lambda: links(gate) == before)


def late_answer(stream):
    """Returns a request's answer, which is a stream's only event if a busy machine takes more than 15 seconds for it."""
    connection = stream.connection
    while b"\r\n\r\n" not in connection.read:
        assert connection.more()
    if b"text/event-stream" not in connection.read.split(b"\r\n\r\n")[0]:
        return connection.answer().json()
    (only,) = stream.begin().events()
    return only


def test_answers_that_are_not_read_hold_the_session_back(gate, blue, mcp):
    """The gate holds some of them, and reads the others when the client reads."""
    assert not mcp.result(tool(0, "write_file", path="big", content="x" * 1_000_000))["isError"]
    other = HttpMcp(gate, blue)
    other.initialize()
    asked = [run(number, "echo >> ends; cat big") for number in range(1, 41)]
    for said in asked:
        said["params"]["_meta"] = {"cloister/options": {"max_output": 1_000_000}}
    begun = [mcp.open(said) for said in asked]
    assert not other.result(run(1, "until [ $(wc -l < ends) = 40 ]; do sleep 0.05; done; rm ends"))["isError"]
    other.ask(None, method="DELETE")
    assert is_sanitized() or gate_memory(gate) < 12 << 20
    with concurrent.futures.ThreadPoolExecutor(len(begun)) as pool:
        answers = list(pool.map(late_answer, begun))
    assert [answer["id"] for answer in answers] == list(range(1, 41))
    assert all(len(json.dumps(answer)) > 500_000 for answer in answers)


def test_answers_are_of_the_memory_of_the_tenant(gate, blue, mcp):
    """Bodies that are announced, and do not come, leave the tenant no room for a long answer."""
    assert not mcp.result(tool(0, "write_file", path="wide", content="x" * 900_000))["isError"]
    asked = run(1, "cat wide")
    asked["params"]["_meta"] = {"cloister/options": {"max_output": 1_000_000}}
    with contextlib.ExitStack() as stack:
        for length in [4 << 20] * 31 + [(4 << 20) - 200_000]:
            connection = stack.enter_context(gate.connect())
            connection.send(gate.head("POST", "/mcp", blue, f"Content-Length: {length}"))
        assert procfs.eventually(lambda: b"cloister_gate_requests_open 33" in gate.request("GET", "/metrics").body)
        answer = mcp.ask(asked)
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        assert "memory" in answer.json()["error"]["message"] and answer.json()["id"] == 1
        assert not mcp.result(run(2, "true"))["isError"]
    assert procfs.eventually(lambda: b"cloister_gate_requests_open 1\n" in gate.request("GET", "/metrics").body)
    asked["id"] = 3
    assert len(mcp.ask(asked).body) > 500_000


@pytest.mark.deep("slow")
def test_an_answer_that_is_long_in_coming_becomes_a_stream(mcp):
    stream = mcp.open(tool(1, "run_command", command="until [ -e late ]; do sleep 0.1; done; rm late", timeout_ms=90_000)).begin()
    assert not mcp.result(tool(2, "write_file", path="late", content=""))["isError"]
    (only,) = stream.events()
    assert only["id"] == 1 and not only["result"]["isError"]


@pytest.mark.deep("slow")
def test_sessions_of_a_key_are_bounded(gate):
    key = gate.key("blue", "--name", "many")["key"]
    clients = [HttpMcp(gate, key) for _ in range(65)]
    for client in clients[:64]:
        client.initialize()
    assert clients[64].ask(first()).status == 429
    clients[5].ask(None, method="DELETE")
    assert clients[64].ask(first()).status == 200
    before = links(gate)
    gate.ctl("key", "revoke", "many")
    assert procfs.eventually(lambda: links(gate) == before - 64, 60)  # none has a request: the next beat ends it


def test_the_revision_without_sessions(gate, blue):
    client = HttpMcp(gate, blue)
    before = links(gate)
    answer = client.ask_modern(message("server/discover", 1))
    assert MODERN in answer.json()["result"]["supportedVersions"] and "mcp-session-id" not in answer.headers
    said, headers = client.modern(message("tools/list", 1))
    assert sorted(one["name"] for one in client.result(said, *headers)["tools"]) == TOOLS
    # What holds in the workspace is told once, and not with each request's answer.
    assert "no network" in answer.json()["result"]["instructions"]
    said, headers = client.modern(run(2, "true"))
    assert "no network" not in json.dumps(client.result(said, *headers))
    said, headers = client.modern(run(1, "echo begun; sleep 0.3; echo done", token=1))
    stream = client.open(said, headers=headers).begin()
    *progress, last = stream.events()
    assert progress and last["result"]["resultType"] == "complete"
    assert client.ask_modern(message("no/method", 1)).status == 404
    assert client.ask(None, f"MCP-Protocol-Version: {MODERN}", method="GET").status == 405
    assert procfs.eventually(lambda: links(gate) == before)


@pytest.mark.parametrize("headers", [
    {"Mcp_Method": "tools/list"}, {"Mcp_Method": None}, {"Mcp_Name": "read_file"}, {"Mcp_Name": None}])
def test_heads_that_say_something_else(gate, blue, headers):
    client = HttpMcp(gate, blue)
    answer = client.ask_modern(run(1, "true"), **headers)
    assert answer.status == 400 and answer.json()["error"]["code"] == -32020 and answer.json()["id"] == 1


def test_versions_that_say_something_else(gate, blue):
    client = HttpMcp(gate, blue)
    said, headers = client.modern(run(1, "true"))
    said["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = LEGACY
    assert client.ask(said, *headers).json()["error"]["code"] == -32020
    answer = client.ask_modern(run(1, "true"), MCP_Protocol_Version="2099-01-01")
    assert answer.status == 400 and answer.json()["error"]["data"]["supported"][0] == MODERN


def test_closing_the_stream_cancels_without_a_session(gate, blue):
    client = HttpMcp(gate, blue)
    command = f"sleep 4716.{os.getpid()}"
    said, headers = client.modern(run(1, f"echo begun; {command}", token=1))
    stream = client.open(said, headers=headers).begin()
    next(stream.events())
    stream.connection.close()
    assert procfs.eventually(lambda: not procfs.having(command))


@pytest.fixture(scope="module")
def sdks(area):
    return npm.Packages(area.new_directory("mcp-sdks"), {"@modelcontextprotocol/sdk": "1.32.2", "@modelcontextprotocol/client": "2.4.0"}, least=24)


@pytest.mark.deep("slow")
@pytest.mark.parametrize("sdk, mode, version", [("1", "-", LEGACY), ("2", "auto", MODERN), ("2", "legacy", LEGACY)])
def test_the_official_client(gate, tenants, sdks, area, sdk, mode, version):
    made = gate.key("blue", "--name", f"sdk-{sdk}-{mode}")
    script = pathlib.Path(__file__).resolve().parents[1] / "lib" / "mcp_sdk_http.mjs"
    with acting_as(0):
        home = area.new_directory("sdk-home")
        tenants[0].own(home)
        done = sdks.run(tenants[0], home, script, sdk, mode, f"http://127.0.0.1:{gate.port}/mcp?workspace=sdk-{sdk}-{mode}",
                        env={"KEY": made["key"], "SLEEP": f"4717.{os.getpid()}"})
    assert done.returncode == 0, done
    said = {}
    for line in done.stdout.splitlines():
        for name, value in json.loads(line).items():
            said.setdefault(name, []).append(value)
    assert "complaint" not in said, said["complaint"]
    assert said["version"] == [version]
    assert sorted(said["tools"][0]) == TOOLS
    assert said["text"] == ["one\n", "done\n"]
    assert said["progress"][0]["message"] == "begun"
    assert said["aborted"] == [True] and said["after"] == ["on\n"]
    assert procfs.eventually(lambda: not procfs.having(f"sleep 4717.{os.getpid()}"))
