# SPDX-License-Identifier: Apache-2.0
"""The face of cloister-gate for E2B's clients, spoken byte by byte. tests/e2b runs the clients' own tests."""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import re
import select
import signal
import struct
import urllib.parse

import pytest

import procfs
from e2b_client import END, Sandbox, ask
from http_gate import HttpGate, call, daemon_behind

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")
DOMAIN = "box.test"
NO_SUCH = "abcdefghijklmnopqrst"


def config(user, owner):
    return "\n".join(["[cloister]", "agent_socket_mode = 0666", f"gate_user = {user.name}", "[tenant blue]", f"users = {owner.name}",
                      "managed = yes", "gate = yes", "tools = basic sessions", "[tenant green]", "managed = yes", "gate = yes",
                      "tools = basic sessions", ""])


@pytest.fixture(scope="module")
def gate(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as daemon:
        running = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}")
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="module")
def blue(gate):
    return gate.key("blue")["key"]


@pytest.fixture(scope="module")
def green(gate):
    return gate.key("green")["key"]


@pytest.fixture(scope="module")
def sandbox(gate, blue):
    made = Sandbox(gate, blue, metadata={"who": "a b&c=d"}, envVars={"FOO": "bar"})
    yield made
    assert made.kill() == 204


def test_a_sandbox_is_a_workspace(gate, blue, sandbox):
    assert re.fullmatch("[a-z2-7]{20}", sandbox.id)
    info = ask(gate, blue, "GET", f"/sandboxes/{sandbox.id}").json()
    assert info["state"] == "running" and info["metadata"] == {"who": "a b&c=d"} and info["templateID"] == "base"
    assert sandbox.request("GET", "/health").status == 204
    out, end, pid, last = sandbox.run("echo $FOO; pwd; echo e >&2; exit 3")
    assert out == {"stdout": b"bar\n/home/user\n", "stderr": b"e\n", "pty": b""} and last == {}
    assert end["exitCode"] == 3 and end["exited"] and pid > 1 << 22


def test_a_list_has_pages_and_filters(gate, blue):
    made = [Sandbox(gate, blue, metadata={"batch": "1"}) for _ in range(3)]
    query = "metadata=" + urllib.parse.quote("batch=1")
    seen, token = [], None
    while True:
        answer = ask(gate, blue, "GET", f"/v2/sandboxes?limit=2&{query}" + (f"&nextToken={token}" if token else ""))
        seen += [one["sandboxID"] for one in answer.json()]
        token = answer.headers.get("x-next-token")
        if not token:
            break
    assert seen == [one.id for one in reversed(made)]
    assert ask(gate, blue, "GET", f"/v2/sandboxes?state=paused&{query}").json() == []
    assert ask(gate, blue, "GET", "/v2/sandboxes?nextToken=1-x").status == 400
    assert [one.kill() for one in made] == [204] * 3
    assert ask(gate, blue, "GET", f"/v2/sandboxes?{query}").json() == []


def test_tokens_open_one_sandbox_of_one_tenant(gate, blue, green, sandbox):
    other, foreign = Sandbox(gate, blue), Sandbox(gate, green)
    for token in other.token, foreign.token, sandbox.token[:-1], sandbox.token[:-1] + "x", "none", sandbox.token[16:] + sandbox.token[:16]:
        assert sandbox.request("GET", "/files?path=x", token=token).status == 401, token
    assert ask(gate, green, "GET", f"/sandboxes/{sandbox.id}").status == 404
    assert ask(gate, green, "DELETE", f"/sandboxes/{sandbox.id}").status == 404
    assert sandbox.request("GET", "/health").status == 204
    assert [other.kill(), foreign.kill(), other.kill()] == [204, 204, 404]


def test_a_token_ends_with_its_key(gate):
    made = gate.key("blue")
    sandbox = Sandbox(gate, made["key"])
    assert sandbox.run("true")[1]["exitCode"] == 0
    gate.ctl("key", "revoke", made["id"])
    assert procfs.eventually(lambda: sandbox.request("GET", "/files?path=x").status == 401)


def test_a_sandbox_that_is_gone(gate, blue):
    sandbox = Sandbox(gate, blue)
    assert sandbox.kill() == 204
    for one in sandbox.id, NO_SUCH:
        answer = gate.request("GET", "/health", None, [f"E2b-Sandbox-Id: {one}"])
        assert answer.status == 502 and answer.json() == {"code": 502, "message": "The sandbox was not found", "sandboxId": one}
    assert sandbox.rpc("process.Process/List")[0] == 502
    for wrong in "..", "a" * 19, "A" * 20, "a" * 19 + "%2f":
        assert ask(gate, blue, "GET", f"/sandboxes/{wrong}").status == 404


def test_the_end_of_the_sandbox_breaks_a_stream(gate, blue):
    sandbox = Sandbox(gate, blue)
    stream = sandbox.stream("process.Process/Start", process={"cmd": "/bin/sleep", "args": ["1000"]})
    assert "pid" in next(stream)[1]["event"]["start"]
    assert sandbox.kill() == 204
    with pytest.raises((AssertionError, EOFError, ConnectionResetError)):
        list(stream)


def test_a_pause_keeps_files(gate, blue):
    sandbox = Sandbox(gate, blue)
    assert sandbox.request("POST", "/files?path=kept", "Content-Type: application/octet-stream", body=b"x").status == 200
    assert ask(gate, blue, "POST", f"/sandboxes/{sandbox.id}/pause", {}).status == 204
    assert ask(gate, blue, "POST", f"/sandboxes/{sandbox.id}/pause", {}).status == 409
    assert sandbox.request("GET", "/health").status == 502
    assert ask(gate, blue, "POST", f"/sandboxes/{sandbox.id}/connect", {"timeout": 60}).status == 201
    assert sandbox.request("GET", "/files?path=kept").body == b"x"
    assert ask(gate, blue, "POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 10}).status == 200
    assert sandbox.kill() == 204


def form(files):
    parts = [f'------X\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n"
             for name, data in files.items()]
    return b"".join(parts) + b"------X--\r\n"


def test_files(sandbox):
    files = {"a/b.txt": b"one", "/home/user/c": b"\0" * 300_000, "/tmp/d e/f'": b"two", "empty": b""}
    answer = sandbox.request("POST", "/files", "Content-Type: multipart/form-data; boundary=----X", body=form(files))
    assert answer.status == 200, answer.body
    assert [one["path"] for one in answer.json()] == ["/home/user/a/b.txt", "/home/user/c", "/tmp/d e/f'", "/home/user/empty"]
    for name, data in files.items():
        assert sandbox.request("GET", f"/files?path={urllib.parse.quote(name)}").body == data, name
    assert sandbox.run("stat -c %s /home/user/c; cat a/b.txt \"/tmp/d e/f'\"")[0]["stdout"] == b"300000\nonetwo"
    assert sandbox.request("GET", "/files?path=nothing").status == 404
    assert sandbox.request("GET", "/files?path=a").status == 400
    assert sandbox.request("GET", "/files?path=/etc/shadow").status in (403, 404)
    assert sandbox.request("POST", "/files?path=x&username=root", "Content-Type: application/octet-stream", body=b"x").status == 401


def links(gate):
    return int(re.search(r"^cloister_gate_links_open (\d+)$", gate.request("GET", "/metrics").body.decode(), re.M)[1])


def test_a_client_that_leaves_takes_its_transfer_with_it(gate, sandbox):
    """cloisterd would wait for the rest of an upload, and for room for the rest of a download, for an hour."""
    octets = "Content-Type: application/octet-stream"
    assert sandbox.request("POST", "/files?path=long", octets, body=bytes(12_000_000)).status == 200
    before = links(gate)
    with gate.connect() as reader, gate.connect() as writer:
        reader.send(gate.head("GET", "/files?path=long", None, *sandbox.headers()))
        assert reader.line().startswith(b"HTTP/1.1 200")
        writer.send(gate.head("POST", "/files?path=cut", None, *sandbox.headers(octets, "Content-Length: 1000000")).encode() + bytes(1000))
        assert procfs.eventually(lambda: links(gate) == before + 2)
    assert procfs.eventually(lambda: links(gate) == before)
    assert sandbox.request("GET", "/files?path=cut").status == 404


def test_a_part_that_is_cut_leaves_the_file_as_it_was(sandbox):
    multipart = "Content-Type: multipart/form-data; boundary=----X"
    assert sandbox.request("POST", "/files", multipart, body=form({"old": b"old content"})).status == 200
    whole = form({"old": b"new"})
    for body in whole[:-10], whole[:whole.index(b"new") + 1], whole[:whole.index(b"new")]:
        assert sandbox.request("POST", "/files", multipart, body=body).status == 400
        assert sandbox.request("GET", "/files?path=old").body == b"old content"
    assert sandbox.request("POST", "/files", multipart, body=form({'a\\"b': b"x"}) + b"epilogue").status == 200
    assert sandbox.request("GET", "/files?path=a%22b").body == b"x"


def test_metadata_of_files(sandbox):
    octets = "Content-Type: application/octet-stream"
    answer = sandbox.request("POST", "/files?path=m", octets, "X-Metadata-Author: x y", body=b"1")
    assert answer.json() == [{"name": "m", "path": "/home/user/m", "type": "file", "metadata": {"author": "x y"}}]
    assert sandbox.rpc("filesystem.Filesystem/Stat", path="m")[1]["entry"]["metadata"] == {"author": "x y"}
    assert sandbox.request("POST", "/files?path=m", octets, body=b"2").status == 200
    assert sandbox.rpc("filesystem.Filesystem/Stat", path="m")[1]["entry"]["metadata"] == {}


def test_bodies_that_are_wrong(sandbox):
    octets, multipart = "Content-Type: application/octet-stream", "Content-Type: multipart/form-data; boundary=----X"
    assert sandbox.request("POST", "/files", octets, body=b"x").status == 400
    assert sandbox.request("POST", "/files?path=z", octets, "Content-Encoding: gzip", body=b"not gzip").status == 400
    assert sandbox.request("POST", "/files?path=z", octets, "Content-Encoding: gzip", body=gzip.compress(b"x" * 999)[:-9]).status == 400
    assert sandbox.request("POST", "/files?path=z", octets, "Content-Encoding: gzip", body=gzip.compress(b"x") + b"y").status == 400
    assert sandbox.request("POST", "/files?path=z", octets, "Content-Encoding: br", body=b"x").status == 415
    assert sandbox.request("POST", "/files", multipart, body=b"no form").status == 400
    assert sandbox.request("GET", "/files?path=z").status == 404
    for body in b"", b"{", b"[]", b"\0\xff\xff\xff\xff{}", b"\1\0\0\0\2{}", b"\0\0\0\0\3{}":
        answer = sandbox.request("POST", "/process.Process/Start", "Content-Type: application/connect+json", body=body)
        assert b"invalid_argument" in answer.body or answer.status in (200, 400), body


def test_a_gzip_upload_that_grows_takes_no_memory(gate, sandbox):
    body = gzip.compress(b"\0" * 200_000_000, 1)
    answer = sandbox.request("POST", "/files?path=big", "Content-Type: application/octet-stream", "Content-Encoding: gzip", body=body)
    assert answer.status == 200, answer.body
    assert sandbox.run("stat -c %s big; rm big")[0]["stdout"] == b"200000000\n"
    peak = re.search(r"VmHWM:\s+(\d+) kB", open(f"/proc/{gate.process.pid}/status", encoding="ascii").read())
    assert int(peak[1]) < 64 * 1024


def signed(sandbox, path, operation, expiration=None):
    text = ":".join([path, operation, "", sandbox.token, *([str(expiration)] if expiration else [])])
    value = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    query = {"path": path, "signature": f"v1_{value}", **({"signature_expiration": expiration} if expiration else {})}
    return "/files?" + urllib.parse.urlencode(query)


def test_signed_urls(gate, sandbox):
    def get(path, host=f"49983-{sandbox.id}.{DOMAIN}"):
        with gate.connect() as connection:
            connection.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            return connection.answer()
    assert sandbox.request("POST", "/files?path=s", "Content-Type: application/octet-stream", body=b"signed").status == 200
    assert get(signed(sandbox, "s", "read")).body == b"signed"
    assert get(signed(sandbox, "s", "read", 4_000_000_000)).body == b"signed"
    assert get(signed(sandbox, "s", "read", 1)).json() == {"code": 401, "message": "signature is already expired"}
    assert get(signed(sandbox, "s", "write")).status == 401
    assert get(signed(sandbox, "s", "read").replace("path=s", "path=t")).status == 401
    assert get(signed(sandbox, "s", "read"), f"49983-{NO_SUCH}.{DOMAIN}").status == 502


def test_a_signed_url_ends_with_its_key(gate):
    made = gate.key("blue", "--expires", "4s")
    sandbox = Sandbox(gate, made["key"])
    assert sandbox.request("POST", "/files?path=s", "Content-Type: application/octet-stream", body=b"signed").status == 200
    url = [signed(sandbox, "s", "read"), None, [f"E2b-Sandbox-Id: {sandbox.id}"]]
    assert gate.request("GET", *url).body == b"signed"
    assert procfs.eventually(lambda: gate.request("GET", *url).status in (401, 429))


@pytest.mark.parametrize("end", [lambda gate, key: gate.ctl("key", "revoke", key), lambda gate, key: gate.move_key(key, "blue", "green")],
                         ids=["revoked", "another tenant's"])
def test_transfers_end_with_their_key(gate, end):
    made = gate.key("blue")
    sandbox = Sandbox(gate, made["key"])
    octets = "Content-Type: application/octet-stream"
    assert sandbox.request("POST", "/files?path=long", octets, body=bytes(12_000_000)).status == 200
    before = links(gate)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(gate.connect()) for _ in range(4)]
        for connection, headers, path in zip(connections, (sandbox.headers(), [f"E2b-Sandbox-Id: {sandbox.id}"]) * 2, (
                "/files?path=long", signed(sandbox, "long", "read"), "/files?path=cut", signed(sandbox, "cut", "write"))):
            if "long" in path:
                connection.send(gate.head("GET", path, None, *headers))
                assert connection.line().startswith(b"HTTP/1.1 200")
            else:
                connection.send(gate.head("POST", path, None, *headers, octets, "Content-Length: 1000") + "x" * 500)
        assert procfs.eventually(lambda: links(gate) == before + 4)
        end(gate, made["id"])
        assert procfs.eventually(lambda: links(gate) == before)
        for connection in connections[:2]:
            with contextlib.suppress(ConnectionResetError):
                while connection.more():
                    assert len(connection.read) < 12_000_000
        for connection in connections[2:]:
            assert connection.is_closed()


def test_processes(sandbox):
    stream = sandbox.stream("process.Process/Start", process={"cmd": "/bin/cat", "cwd": "/tmp"}, stdin=True, tag="t")
    pid = next(stream)[1]["event"]["start"]["pid"]
    listed = sandbox.rpc("process.Process/List")[1]["processes"]
    assert {"pid": pid, "tag": "t", "config": {"cmd": "/bin/cat", "cwd": "/tmp", "args": [], "envs": {}}} in listed
    data = base64.b64encode(b"input").decode()
    assert sandbox.rpc("process.Process/SendInput", process={"pid": pid}, input={"stdin": data}) == (200, {})
    assert next(stream)[1]["event"]["data"] == {"stdout": data}
    assert sandbox.rpc("process.Process/CloseStdin", process={"tag": "t"}) == (200, {})
    assert next(stream)[1]["event"]["end"]["exitCode"] == 0
    assert sandbox.rpc("process.Process/SendSignal", process={"pid": pid}, signal="SIGNAL_SIGKILL")[0] == 404
    assert sandbox.rpc("process.Process/SendSignal", process={"pid": 1}, signal="SIGNAL_SIGKILL")[0] == 404
    out, _, _, _ = sandbox.run("stty size; exit", pty={"size": {"rows": 7, "cols": 33}})
    assert out["pty"] == b"7 33\r\n"


def test_a_deadline_ends_the_process(sandbox):
    last = list(sandbox.stream("process.Process/Start", "Connect-Timeout-Ms: 300", process={"cmd": "/bin/sleep", "args": ["1000"]}))[-1]
    assert last[0] == END and last[1]["error"]["code"] == "deadline_exceeded"


def test_filesystem(sandbox):
    for base in "/home/user/fs", "/tmp/fs":
        status, made = sandbox.rpc("filesystem.Filesystem/MakeDir", path=f"{base}/d")
        assert status == 200 and made["entry"]["path"] == f"{base}/d" and made["entry"]["type"] == "FILE_TYPE_DIRECTORY"
        assert sandbox.rpc("filesystem.Filesystem/MakeDir", path=f"{base}/d")[0] == 409
        sandbox.run(f"cd {base}; echo abc > d/f; ln -s f d/l")
        entries = sandbox.rpc("filesystem.Filesystem/ListDir", path=base, depth=2)[1]["entries"]
        assert [entry["path"] for entry in entries] == [f"{base}/d", f"{base}/d/f", f"{base}/d/l"]
        entry = sandbox.rpc("filesystem.Filesystem/Stat", path=f"{base}/d/f")[1]["entry"]
        assert (entry["size"], entry["owner"], entry["name"], entry["permissions"][0]) == (4, "user", "f", "-")
        assert sandbox.rpc("filesystem.Filesystem/Stat", path=f"{base}/d/l")[1]["entry"]["symlinkTarget"] == f"{base}/d/f"
        assert sandbox.rpc("filesystem.Filesystem/Move", source=f"{base}/d/f", destination=f"{base}/g")[1]["entry"]["name"] == "g"
        assert sandbox.rpc("filesystem.Filesystem/Stat", path=f"{base}/d/f")[0] == 404
        assert sandbox.rpc("filesystem.Filesystem/ListDir", path=f"{base}/g")[0] == 400
        assert sandbox.rpc("filesystem.Filesystem/Remove", path=base) == (200, {})
        assert sandbox.rpc("filesystem.Filesystem/Stat", path=base)[0] == 404


def test_a_large_directory_is_listed_whole(sandbox):
    """Its listing has more values than a request may have."""
    sandbox.run("mkdir -p large && cd large && seq 3000 | xargs touch")
    entries = sandbox.rpc("filesystem.Filesystem/ListDir", path="large")[1]["entries"]
    assert {entry["name"] for entry in entries} == {str(number) for number in range(1, 3001)}
    assert sandbox.rpc("filesystem.Filesystem/Remove", path="large") == (200, {})


def test_a_message_is_not_cut_within_a_character(sandbox):
    for name in "x", "xy":
        path = "/".join([name, *["é" * 100] * 12])
        assert sandbox.rpc("filesystem.Filesystem/MakeDir", path=path)[0] == 200
        answer = sandbox.request("GET", "/files?path=" + urllib.parse.quote(path))
        assert answer.status == 400 and "é" in answer.json()["message"]


def test_a_tenant_cannot_fill_the_gates_memory(gate, sandbox, green):
    """Bodies that are read whole, of which the last byte does not come."""
    body = json.dumps({"process": {"pid": 1}, "input": {"stdin": "A" * 6_000_000}}).encode()
    head = gate.head("POST", "/process.Process/SendInput", None, *sandbox.headers(
        "Content-Type: application/json", f"Content-Length: {len(body)}")).encode()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(gate.connect()) for _ in range(24)]
        for connection in connections:
            connection.send(head + body[:-1])
        assert ask(gate, green, "POST", "/sandboxes", {"templateID": "none", "metadata": {"a": "x"}}).status == 404
        for connection in connections:
            connection.send(body[-1:])
        answers = [connection.answer() for connection in connections]
    assert sorted({answer.status for answer in answers}) == [404, 503]
    refused = [answer for answer in answers if answer.status == 503]
    assert 0 < len(refused) < 10 and all("memory" in answer.json()["message"] for answer in refused)
    assert sandbox.run("true")[1]["exitCode"] == 0


def test_strangers_take_few_connections_of_a_tenant(area, tenants):
    """Each look-up of a sandbox is a connection of the tenant's until cloisterd has answered. There are four at once; one
    that comes before cloisterd has seen the ends of those before it is repeated."""
    text = config(tenants[1], tenants[0]).replace("[tenant green]", "connections = 6\n[tenant green]")
    with daemon_behind(area, text) as daemon:
        running = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}", "failed_keys = 1000")
        letters = Sandbox(running, running.key("blue")["key"]).id[:4]
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(running.connect()) for _ in range(60)]
            for number, connection in enumerate(connections):
                head = running.head("GET", "/health", None, f"E2b-Sandbox-Id: {letters}{'a' * 14}{chr(97 + number // 26)}{chr(97 + number % 26)}")
                connection.send(head)
            answers = [connection.answer() for connection in connections]
            assert {answer.status for answer in answers} == {502}, [answer.body for answer in answers if answer.status != 502]
        assert running.stop() == 0


def made_up(gate, letters, number):
    tail = "".join(chr(97 + number // 26 ** place % 26) for place in range(16))
    return gate.head("GET", "/health", None, f"E2b-Sandbox-Id: {letters}{tail}")


def test_an_address_looks_up_few_sandboxes_that_are_none(area, tenants):
    """Each look-up costs cloisterd a connection, and a line of the audit log."""
    with daemon_behind(area, config(tenants[1], tenants[0])) as daemon:
        running = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}", "failed_keys = 3")
        box = Sandbox(running, running.key("blue")["key"])
        answers = []
        for number in range(6):
            with running.connect() as connection:
                connection.send(made_up(running, box.id[:4], number))
                answers.append(connection.answer())
        assert [answer.status for answer in answers] == [502] * 3 + [429] * 3
        assert answers[-1].headers["retry-after"] == "60"
        assert box.request("GET", "/health").status == 204  # what was found is not looked up
        assert running.request("POST", "/sandboxes", "wrong").status == 429
        assert box.kill() == 204
        assert running.stop() == 0


def test_look_ups_that_wait_are_bounded(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as daemon, contextlib.ExitStack() as stack:
        running = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}", "failed_keys = 1000")
        box = Sandbox(running, running.key("blue")["key"])
        connections = []
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            for number in range(4 + 256 + 1):
                connections.append(stack.enter_context(running.connect()))
                connections[-1].send(made_up(running, box.id[:4], number))
            ready = select.select([one.socket for one in connections], [], [], 20)[0]
            answer = next((one.answer() for one in connections if one.socket in ready), None)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert answer and answer.status == 503 and answer.headers["retry-after"] == "1"
        assert box.kill() == 204
        assert running.stop() == 0


def test_watches(gate, sandbox):
    sandbox.rpc("filesystem.Filesystem/MakeDir", path="watched/in")
    before = links(gate)
    messages = sandbox.stream("filesystem.Filesystem/WatchDir", path="watched", recursive=True, includeEntry=True)
    assert next(messages) == (0, {"start": {}})
    assert links(gate) == before + 1
    sandbox.run("cd watched; : > in/f; chmod 600 in/f; mkdir new; mv in/f g; rm g; ln -s /etc link")
    seen = []
    while not seen or seen[-1][1] != "link":
        event = next(messages)[1]["filesystem"]
        assert event["type"].startswith("EVENT_TYPE_")
        seen.append((event["type"][11:], event["name"]))
    # A file that a command makes is written, as one that the gate writes.
    assert seen == [("CREATE", "in/f"), ("WRITE", "in/f"), ("CHMOD", "in/f"), ("CREATE", "new"), ("RENAME", "in/f"), ("CREATE", "g"),
                    ("REMOVE", "g"), ("CREATE", "link")]
    assert event["entry"]["path"] == "/home/user/watched/link" and event["entry"]["type"] == "FILE_TYPE_SYMLINK"
    messages.close()
    assert procfs.eventually(lambda: links(gate) == before)
    for path, code in (("none", "not_found"), ("/etc", "unimplemented"), ("/tmp", "unimplemented")):
        body = json.dumps({"path": path}).encode()
        answer = sandbox.request("POST", "/filesystem.Filesystem/WatchDir", "Content-Type: application/connect+json",
                                 body=struct.pack(">BI", 0, len(body)) + body)
        assert answer.body[0] == END and json.loads(answer.body[5:])["error"]["code"] == code
    messages = list(sandbox.stream("filesystem.Filesystem/WatchDir", "Connect-Timeout-Ms: 200", "Keepalive-Ping-Interval: 1", path="."))
    assert messages[-1][1]["error"]["code"] == "deadline_exceeded"


def test_the_end_of_a_watch_is_told(sandbox):
    sandbox.rpc("filesystem.Filesystem/MakeDir", path="goes")
    messages = sandbox.stream("filesystem.Filesystem/WatchDir", path="goes")
    assert next(messages) == (0, {"start": {}})
    sandbox.rpc("filesystem.Filesystem/Remove", path="goes")
    assert next(messages)[1]["error"]["code"] == "not_found"


def test_watchers(gate, sandbox):
    def rpc(method, **params):
        return sandbox.rpc(f"filesystem.Filesystem/{method}", **params)

    def events(number):
        status, answer = rpc("GetWatcherEvents", watcherId=number)
        assert status == 200, answer
        return [(event["type"][11:], event["name"]) for event in answer["events"]]

    before = links(gate)
    rpc("MakeDir", path="polled")
    status, answer = rpc("CreateWatcher", path="polled")
    assert status == 200, answer
    number = answer["watcherId"]
    assert events(number) == []
    sandbox.run("mkdir polled/d")
    seen = []
    assert procfs.eventually(lambda: seen.extend(events(number)) or seen == [("CREATE", "d")])
    assert rpc("GetWatcherEvents", watcherId="0" * 16)[1]["code"] == "not_found"
    # The end comes after the last events.
    sandbox.run("rm -r polled")
    assert procfs.eventually(lambda: rpc("GetWatcherEvents", watcherId=number)[1].get("code") == "not_found")
    assert rpc("RemoveWatcher", watcherId=number) == (200, {})
    assert rpc("RemoveWatcher", watcherId=number)[1]["code"] == "not_found"
    assert rpc("CreateWatcher", path="none")[1]["code"] == "not_found"
    assert procfs.eventually(lambda: links(gate) == before)
    rpc("MakeDir", path="many")
    numbers = [rpc("CreateWatcher", path="many")[1]["watcherId"] for _ in range(8)]
    assert rpc("CreateWatcher", path="many")[1]["code"] == "resource_exhausted"  # the workspace's bound
    for number in numbers:
        assert rpc("RemoveWatcher", watcherId=number)[0] == 200
    assert procfs.eventually(lambda: links(gate) == before)


def metric(gate, name):
    return int(re.search(f"^cloister_gate_{name} (\\d+)$", gate.request("GET", "/metrics").body.decode(), re.M)[1])


def hold_memory(gate, sandbox, stack, size):
    """Sends a body without its last byte."""
    head = gate.head("POST", "/process.Process/SendInput", None, *sandbox.headers(
        "Content-Type: application/json", f"Content-Length: {size + 1}")).encode()
    before = metric(gate, "bytes_in_total")
    stack.enter_context(connection := gate.connect()).send(head + b" " * size)
    assert procfs.eventually(lambda: metric(gate, "bytes_in_total") >= before + size)
    return connection


@pytest.mark.deep("slow")
def test_events_that_nobody_asks_for_are_of_the_tenants_memory(gate, blue):
    box = Sandbox(gate, blue)
    box.rpc("filesystem.Filesystem/MakeDir", path="seen")
    number = box.rpc("filesystem.Filesystem/CreateWatcher", path="seen", includeEntry=True)[1]["watcherId"]

    def events():
        return box.rpc("filesystem.Filesystem/GetWatcherEvents", watcherId=number)[1]

    def are_lost():
        done = call(agent, "tool.call", {"tool": "run_command", "arguments": {
            "command": f"rm -f seen/*; for i in $(seq 100); do : > seen/{'x' * 240}$i; done"}})
        assert done["output"]["exit_code"] == 0, done
        return events().get("code") == "data_loss"

    with gate.agent(blue) as agent, contextlib.ExitStack() as stack:
        call(agent, "workspace.open", {"workspace": f"{box.id}-1", "create": False})
        room = hold_memory(gate, box, stack, 16384)
        for size in [6_000_000] * 24 + [size for power in range(22, 11, -1) for size in [1 << power] * 2]:
            hold_memory(gate, box, stack, size)
        room.close()
        assert procfs.eventually(are_lost)
    assert procfs.eventually(lambda: "events" in events())
    box.rpc("filesystem.Filesystem/MakeDir", path="seen/again")
    seen = []
    assert procfs.eventually(lambda: seen.extend(events()["events"]) or "again" in [event["name"] for event in seen])
    assert box.kill() == 204


def end_watchers(box):
    """Makes watchers whose directories are removed, which cost cloisterd nothing, until the gate refuses one."""
    made = 0
    while True:
        box.rpc("filesystem.Filesystem/MakeDir", path="d")
        numbers = [box.rpc("filesystem.Filesystem/CreateWatcher", path="d")[1].get("watcherId") for _ in range(8)]
        made += sum(number is not None for number in numbers)
        box.rpc("filesystem.Filesystem/Remove", path="d")
        if None in numbers:
            return made
        assert procfs.eventually(lambda: all(box.rpc("filesystem.Filesystem/GetWatcherEvents", watcherId=number)[0] != 200
                                             for number in numbers))


@pytest.mark.deep("slow")
def test_a_tenant_cannot_have_all_watchers(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as daemon:
        running = HttpGate(area, daemon, tenants[1], f"domain = {DOMAIN}")
        key, made = running.key("blue")["key"], 16
        total = 0
        while made == 16 and total <= 512:
            box = Sandbox(running, key)
            made = end_watchers(box)
            total += made
            assert box.kill() == 204
        assert total == 512
        other = Sandbox(running, running.key("green")["key"])
        assert other.rpc("filesystem.Filesystem/CreateWatcher", path=".")[0] == 200
        assert other.kill() == 204
        assert running.stop() == 0


def test_what_does_not_exist_here_is_refused_by_name(gate, blue):
    for wanted, word in (({"volumeMounts": [{"name": "v", "path": "/v"}]}, "Volumes"), ({"network": {"denyOut": ["8.8.8.8"]}}, "8.8.8.8"),
                         ({"network": {"egressProxy": {"address": "x:1"}}}, "egressProxy"), ({"iam": {"tokens": {"t": {}}}}, "Tokens"),
                         ({"timeout": -1}, "timeout")):
        answer = ask(gate, blue, "POST", "/sandboxes", {"templateID": "base", **wanted})
        assert answer.status == 400 and word in answer.json()["message"], answer.body
    assert ask(gate, blue, "POST", "/sandboxes", {"templateID": "no-such"}).status == 404
    assert "import" in ask(gate, blue, "POST", "/v3/templates", {}).json()["message"]


@pytest.mark.parametrize("metadata, words", [({"a": "x" * 1025}, "at most 1024 bytes"), ({"n" * 123: "x"}, "at most 122 bytes"),
                                             ({f"k{n}": "x" * 1024 for n in range(17)}, "at most 16384 bytes")])
def test_metadata_has_bounds(gate, blue, metadata, words):
    answer = ask(gate, blue, "POST", "/sandboxes", {"templateID": "base", "metadata": metadata})
    assert answer.status == 400 and words in answer.json()["message"]


def test_a_snapshot_is_a_template(gate, blue):
    sandbox = Sandbox(gate, blue)
    assert sandbox.request("POST", "/files?path=f", "Content-Type: application/octet-stream", body=b"kept").status == 200
    made = ask(gate, blue, "POST", f"/sandboxes/{sandbox.id}/snapshots", {"name": "first"})
    assert made.status == 201 and made.json()["names"] == ["first"]
    name = made.json()["snapshotID"]
    for query in "", f"?sandboxID={sandbox.id}", "?name=first":
        assert [one["snapshotID"] for one in ask(gate, blue, "GET", f"/snapshots{query}").json()] == [name]
    assert ask(gate, blue, "GET", "/snapshots?name=other").json() == []
    copy = Sandbox(gate, blue, templateID=name)
    forks = ask(gate, blue, "POST", f"/sandboxes/{copy.id}/fork", {"timeout": 60, "count": 2}).json()
    assert len(forks) == 2 and all(one["sandbox"]["sandboxID"] not in (sandbox.id, copy.id) for one in forks)
    assert copy.request("GET", "/files?path=f").body == b"kept"
    assert ask(gate, blue, "POST", f"/sandboxes/{sandbox.id}/snapshots", {"name": "a/b"}).status == 400
    assert [one.kill() for one in (sandbox, copy)] == [204, 204]
    for one in forks:
        assert ask(gate, blue, "DELETE", f"/sandboxes/{one['sandbox']['sandboxID']}").status == 204
    assert procfs.eventually(lambda: ask(gate, blue, "DELETE", f"/templates/{name}").status == 204)
    assert ask(gate, blue, "DELETE", f"/templates/{name}").status == 404
