# SPDX-License-Identifier: Apache-2.0
"""What a client's messages cost cloisterd: it counts their memory, and the bound holds for every message."""

import contextlib
import json
import os
import pathlib
import signal
import threading

import procfs
import pytest
from daemon import is_sanitized

MIB = 1 << 20
# common/limits.h
PENDING_TENANT = 40 * MIB  # LIMIT_PENDING_TENANT_BYTES
BESIDE_ITS_LENGTH = 4 * MIB  # LIMIT_JSON_MEMORY_BYTES


def growth_of(daemon, at_start):
    """How much more memory than @at_start, in KiB, cloisterd has had at once since this call, in bytes."""
    if is_sanitized():
        pytest.skip("AddressSanitizer's memory is not cloisterd's")
    pathlib.Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")
    return lambda: (int(procfs.status(daemon.pid)["VmHWM"].split()[0]) - at_start) * 1024


@pytest.fixture(scope="module")
def at_start(daemon):
    return procfs.rss_kib(daemon.pid)


@pytest.fixture
def peak(daemon, at_start):
    return growth_of(daemon, at_start)


@pytest.fixture
def own_peak(own_daemon):
    return growth_of(own_daemon, procfs.rss_kib(own_daemon.pid))


def answer_of(client, line):
    client.send_raw(line + b"\n")
    return client.receive()


# One message


@pytest.mark.parametrize("size", [3 * MIB, pytest.param(6 * MIB, marks=pytest.mark.deep("repeats"))])
@pytest.mark.parametrize("values", [b"{}", b"[]", b"0", b'""', b'{"a":0}', b"null"])
@pytest.mark.parametrize("name", [b"'\"'", b'"a"', b"'a'", b'"\\""'])
def test_a_message_takes_a_small_multiple_of_its_size(daemon, peak, name, values, size):
    client = daemon.connect()
    many = b",".join([values] * (size // (len(values) + 1)))
    # The other half, for a reader that takes the quotation mark in the name for the beginning of a string.
    line = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{' + name + b":[" + many + b"],'\"':0}}"
    answer = answer_of(client, line)
    assert answer["error"]["code"] == -32700 and answer["id"] == 1
    # The bytes as they came, the joined message, and the values built from it.
    assert peak() < 2 * size + BESIDE_ITS_LENGTH + size + 2 * MIB
    assert client.call("tools.list")["tools"]


REQUEST = b'"jsonrpc":"2.0","id":1,"method":"tools.list"'


@pytest.mark.parametrize("line", [
    b"{'jsonrpc':'2.0','id':1,'method':'tools.list'}", b"{'jsonrpc':\"2.0\",\"id\":1,\"method\":\"tools.list\"}",
    b'{' + REQUEST + b",'params':{}}", b'{' + REQUEST + b",\"params\":{'\"':1}}",
    b'{' + REQUEST + b',"method":"tools.list"}', b'{' + REQUEST + b',"\\u006dethod":"x"}', b'{' + REQUEST + b',"id":2}',
    b'{' + REQUEST + b',"params":{"a":1,"a":1}}', b'{' + REQUEST + b',"params":{"a":{"b":[{"c":1,"c":2}]}}}',
    b'{' + REQUEST + b',"params":{"a":"\\ud800"}}', b'{' + REQUEST + b',"params":{"a":"\\udc00\\ud800"}}',
    b'{' + REQUEST + b',"params":{"\\ud83d":1}}', b'{' + REQUEST + b',"params":{"a":"\xed\xa0\x80"}}',
    b'{' + REQUEST + b',"params":{"a":"\\ud83dx"}}'])
def test_what_two_readers_could_take_differently_is_refused(daemon, line):
    """Other quotation marks, a key given twice, half a character: a checking proxy could read another message than cloisterd."""
    client = daemon.connect()
    assert answer_of(client, line)["error"]["code"] == -32700
    assert client.call("tools.list")["tools"]


def test_the_arguments_that_a_model_wrote_are_read_likewise(daemon, peak):
    client = daemon.connect()
    daemon.new_workspace(client)
    for arguments in ("{'path':'x'}", '{"path":"x","path":"y"}', '{"path":"\\ud800"}', "{'\"':[" + "{}," * MIB + "{}]}",
                      '{"path":[' + "{}," * MIB + "{}]}"):
        form = {"function": {"name": "read_file", "arguments": arguments}}
        observation = client.call("tool.call", {"tool_call": form})
        assert observation["error"]["code"] == "INVALID_ARGUMENTS" and '"arguments"' in observation["error"]["message"]
    assert peak() < 8 * 3 * MIB


# Many messages


@pytest.mark.deep("slow")
def test_small_lines_are_read_as_fast_as_they_are_acted_on(own_daemon, own_peak):
    """cloisterd does not read a client's short lines faster than it acts on them."""
    client = own_daemon.connect()
    client.send_raw(b"\n" * (64 * MIB))
    assert client.call("tools.list")["tools"]
    client.send_raw(b'{"jsonrpc":"2.0","method":"x"}\n' * (8 * MIB // 32))
    assert client.call("tools.list")["tools"]
    assert own_peak() < 4 * MIB


def write(number, size):
    text = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tool.call", "params": {
        "tool": "write_file", "arguments": {"path": f"f{number}", "content": "x" * size}}})
    return text.encode() + b"\n"


@pytest.mark.deep("slow")
def test_requests_in_flight_are_counted_as_what_they_take(own_daemon, own_peak):
    """The workspace's process reads nothing, and clients write into the workspace without end."""
    clients = [own_daemon.connect() for _ in range(6)]
    path = own_daemon.new_workspace(clients[0])
    for client in clients[1:]:
        client.call("workspace.open", {"root": str(path)})
    assert clients[0].observe("list_directory", {"path": "."})["success"]
    _, files = own_daemon.cell_of(path)
    procfs.stop(files)
    senders = [threading.Thread(target=client.send_raw, args=(b"".join(write(i, 8 * MIB) for i in range(1, 8)),))
               for client in clients]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    refused = 0
    for client in clients:
        # Earlier answers come first. This one has room, because every client keeps some.
        number = client.request("tools.list", number="last")
        assert client.wait(number)["result"]["tools"]
        for answer in client.answers:
            assert answer["id"] in range(1, 8)
            error = answer["error"]
            assert error["data"]["code"] == "BUSY" and error["data"]["retry_after_ms"] >= 50
            refused += 1
    grown = own_peak()
    os.kill(files, signal.SIGCONT)
    assert refused >= (6 * 7 * 8 * MIB - PENDING_TENANT) // (8 * MIB)
    assert grown < PENDING_TENANT * 5 // 4 + 3 * 8 * MIB + 6 * MIB
    for client in clients:
        left = set(range(1, 8)) - {answer["id"] for answer in client.answers}
        for number in left:
            assert client.result(number)["success"]
    assert procfs.eventually(lambda: procfs.rss_kib(own_daemon.pid) < 64 * 1024), "and it is given back"


@pytest.mark.deep("slow")
def test_a_client_that_hangs_up_leaves_nothing_uncounted(own_daemon, own_peak):
    """A request passed on to a process that does not read stays counted after its client has left."""
    client = own_daemon.connect()
    path = own_daemon.new_workspace(client)
    assert client.observe("list_directory", {"path": "."})["success"]
    _, files = own_daemon.cell_of(path)
    procfs.stop(files)
    for _ in range(12):
        with own_daemon.connect() as another:
            another.call("workspace.open", {"root": str(path)})
            another.send_raw(b"".join(write(i, 8 * MIB) for i in range(1, 4)))
            assert another.wait(another.request("tools.list", number="last"))["result"]
    grown = own_peak()
    with contextlib.suppress(ProcessLookupError):  # cloisterd ends it 5 s after the first cancelled call
        os.kill(files, signal.SIGCONT)
    assert grown < PENDING_TENANT * 5 // 4 + 3 * 8 * MIB + 6 * MIB
    assert procfs.eventually(lambda: procfs.rss_kib(own_daemon.pid) < 64 * 1024), "and it is given back"
    assert client.observe("list_directory", {"path": "."})["success"]


@pytest.mark.deep("slow")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")
def test_one_tenant_leaves_room_for_the_large_requests_of_another(start_daemon, tenants):
    text = "[cloister]\nagent_socket_mode = 0666\n" + "".join(
        f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" for name, user in zip("ab", tenants))
    daemon = start_daemon(config=text)
    greedy = [daemon.connect(tenants[0]) for _ in range(4)]
    neighbour = daemon.connect(tenants[1])
    greedy[0].call("workspace.open", {"workspace": "w"})
    assert greedy[0].observe("list_directory", {"path": "."})["success"]
    _, files = daemon.cells()[0]
    neighbour.call("workspace.open", {"workspace": "w"})
    procfs.stop(files)
    lines = []  # the same bound for unfinished lines as for requests
    for client in greedy[1:]:
        client.call("workspace.open", {"workspace": "w"})
        client.send_raw(b"".join(write(i, 10 * MIB) for i in range(1, 5)))
        assert client.wait(client.request("tools.list", number="last"))["result"]
    for _ in range(8):
        lines.append(daemon.connect(tenants[0]))
        lines[-1].send_raw(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (16 * MIB))
    for number in range(5):
        neighbour.send_raw(write(f"n{number}", 12 * MIB))
        assert neighbour.wait(f"n{number}")["result"]["success"]
    os.kill(files, signal.SIGCONT)


# Lines that are too long


@pytest.fixture
def full(own_daemon):
    """A daemon whose requests in flight have reached the bound."""
    clients = [own_daemon.connect() for _ in range(3)]
    path = own_daemon.new_workspace(clients[0])
    for client in clients[1:]:
        client.call("workspace.open", {"root": str(path)})
    assert clients[0].observe("list_directory", {"path": "."})["success"]
    _, files = own_daemon.cell_of(path)
    procfs.stop(files)
    for client in clients:
        client.send_raw(b"".join(write(i, 10 * MIB) for i in range(1, 6)))
    for client in clients:
        client.send_raw(b"".join(write(i, MIB) for i in range(11, 16)))
    for client in clients:
        assert client.wait(client.request("tools.list", number="last"))["result"]
    yield own_daemon
    os.kill(files, signal.SIGCONT)


CONTENT = b'"params":{"tool":"write_file","arguments":{"content":"%s","path":"id","id":7}}'


@pytest.mark.deep("slow")
@pytest.mark.parametrize("members,number", [
    (b'"id":5,' + CONTENT, 5), (CONTENT + b',"id":5', 5), (CONTENT + b',"\\u0069d" : "a\\u0062\\n" ', "ab\n"),
    (b'"x":["id",{"id":6}],' + CONTENT + b',"id":-7', -7), (CONTENT, None), (b'"id":1.5,' + CONTENT, None),
    (b'"id":{"id":3},' + CONTENT, None), (b'"id":"' + b"x" * 300 + b'",' + CONTENT, None),
    (b'"n":"\\\\","id":8,' + CONTENT, 8), (b'"n":"\\"id\\":9,","id":8,' + CONTENT, 8)])
def test_a_line_without_room_is_answered_under_its_id(full, members, number):
    client = full.connect()
    answer = answer_of(client, b'{"jsonrpc":"2.0","method":"tool.call",' + members % (b"x" * (9 * MIB)) + b"}")
    assert answer["id"] == number and type(answer["id"]) is type(number)
    assert answer["error"]["data"]["code"] == "BUSY" and answer["error"]["data"]["retry_after_ms"] >= 50
    assert "memory" in answer["error"]["message"]
    assert client.call("tools.list")["tools"], "what is small has room"


def test_many_values_without_room_are_busy_under_their_id(full):
    """The text is short and the values are large: their memory counts."""
    client = full.connect()
    many = b",".join([b"{}"] * 4000)
    answer = answer_of(client, b'{"jsonrpc":"2.0","method":"x","params":{"a":[' + many + b']},"id":"late"}')
    assert answer["id"] == "late" and answer["error"]["data"]["code"] == "BUSY"


@pytest.mark.parametrize("members,number", [(b'"id":5,"params":', 5), (b'"params":', None)])
def test_an_overlong_line_is_answered_under_its_id(daemon, members, number):
    client = daemon.connect()
    answer = answer_of(client, b'{"jsonrpc":"2.0","method":"x",' + members + b'"' + b"x" * (33 * MIB) + b'"}')
    assert answer["error"]["code"] == -32600 and answer["id"] == number
    assert "33554432 bytes" in answer["error"]["message"]
    assert client.call("tools.list")["tools"]


# Two protocols on one connection


def test_one_mcp_request_changes_no_native_answer(daemon):
    client = daemon.connect()

    def native():
        answers = [answer_of(client, line) for line in (b"{", b"[]", b'{"jsonrpc":"2.0","method":"x","id":[]}')]
        answers.append(client.wait(client.request("tool.call", {"tool": "read_file"}, number="call")))
        answers.append(client.wait(client.request("workspace.open", {"workspace": "x", "tenant": "no"}, number="open")))
        return [(answer["id"], answer["error"]["code"]) for answer in answers]

    before = native()
    assert before == [(None, -32700), (None, -32600), (None, -32600), ("call", -32000), ("open", -32000)]
    assert client.call("ping") == {}
    assert native() == before
    client.call("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})
    client.notify("notifications/initialized", {})
    client.notify("notifications/cancelled", {"requestId": 1})
    assert client.call("tools/list")["tools"]
    assert native() == before
