# SPDX-License-Identifier: Apache-2.0
"""The methods of files, native methods of the agent socket: stat, list, make_directory, move, remove, and streams."""

import base64
import contextlib
import json
import os
import stat

import procfs
import pytest
from cloister_client import RpcError, acting_as

MIB = 1 << 20
PART = 256 * 1024


def refused(client, method, params):
    """Returns the name of the error, or the message of one of the parameters."""
    with pytest.raises(RpcError) as error:
        client.call(method, params)
    return error.value.name or error.value.message


def stat_of(client, path, **params):
    return client.call("file.stat", {"path": path, **params})["entry"]


def read(client, path, **params):
    """Returns the bytes and the result of file.read."""
    call = client.request("file.read", {"path": path, **params})
    data, seq = b"", 0
    while True:
        message = client.receive()
        if message.get("id") == call:
            if "error" in message:
                raise RpcError(message["error"])
            return data, message["result"]
        params_of = message["params"]
        assert message["method"] == "tool.output" and params_of["stream"] == "content", message
        assert params_of["id"] == call and params_of["seq"] == seq
        seq += 1
        data += message["payload"]


def begin_write(client, path, **params):
    return client.request("file.write", {"path": path, **params})


def send_part(client, call, data, eof=False):
    number = client.last_id = client.last_id + 1
    params = {"id": call, "bytes": len(data), "eof": eof}
    client.send_raw(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tool.input", "params": params}).encode() + b"\n" + data)
    return number


def write(client, path, data, **params):
    """Returns the result of file.write."""
    call = begin_write(client, path, **params)
    for start in range(0, max(len(data), 1), PART):
        part = data[start:start + PART]
        last = start + PART >= len(data)
        client.result(send_part(client, call, part, last))
    return client.result(call)


@contextlib.contextmanager
def inside(workspace):
    """As the workspace's user."""
    with acting_as(os.stat(workspace).st_uid):
        yield


def test_stat(client, workspace):
    with inside(workspace):
        (workspace / "a").write_text("hello")
        os.chmod(workspace / "a", 0o640)
        os.utime(workspace / "a", ns=(1, 1_600_000_000_123_456_789))
        os.symlink("a", workspace / "link")
        os.symlink("nowhere", workspace / "dangling")
    entry = stat_of(client, "a")
    assert entry["path"] == "a" and entry["type"] == "file" and entry["size"] == 5 and entry["mode"] == "0640"
    assert entry["mtime"] == "2020-09-13T12:26:40.123Z" and entry["mtime_ns"] == 1_600_000_000_123_456_789
    assert (entry["uid"], entry["owner"], entry["links"]) == (1000, "agent", 1)
    assert client.run("stat -c '%u %g' a")["stdout"] == f"{entry['uid']} {entry['gid']}\n"
    assert stat_of(client, "link")["type"] == "file"
    link = stat_of(client, "link", follow=False)
    assert link["type"] == "symlink" and link["target"] == "a"
    assert refused(client, "file.stat", {"path": "dangling"}) == "NOT_FOUND"
    assert stat_of(client, "dangling", follow=False)["target"] == "nowhere"
    assert stat_of(client, ".")["type"] == "directory"


def test_attributes(client, workspace):
    with inside(workspace):
        (workspace / "a").touch()
        try:
            os.setxattr(workspace / "a", "user.note", b"text")
        except OSError as error:
            pytest.skip(f"no extended attributes here: {error}")
        os.setxattr(workspace / "a", "user.raw", b"\xff\0")
    entry = stat_of(client, "a")
    assert entry["attributes"] == {"note": "text"}
    assert base64.b64decode(entry["attributes_base64"]["raw"]) == b"\xff\0"
    assert "attributes" not in stat_of(client, "a", attributes=False)
    entries = client.call("file.list", {"path": ".", "attributes": True})["entries"]
    assert entries[0]["attributes"] == {"note": "text"}


def test_a_write_sets_attributes(client, workspace):
    try:
        write(client, "a", b"one", attributes={"e2b.author": "x", "other": "é"})
    except RpcError as error:
        if error.name in ("EXECUTION_ERROR", "PERMISSION_DENIED"):
            pytest.skip("no extended attributes here")
        raise
    assert stat_of(client, "a")["attributes"] == {"e2b.author": "x", "other": "é"}
    write(client, "a", b"two")  # keeps them, as write_file does
    assert stat_of(client, "a")["attributes"] == {"e2b.author": "x", "other": "é"}
    write(client, "a", b"three", attributes={"new": "1"})
    assert stat_of(client, "a")["attributes"] == {"new": "1"}
    write(client, "a", b"four", attributes={})
    assert "attributes" not in stat_of(client, "a") and client.run("cat a")["stdout"] == "four"
    for wrong in [], {"": "x"}, {"a": 1}, {"a": "x" * 20_000}, "x":
        assert refused(client, "file.write", {"path": "a", "attributes": wrong}) != ""
    for name in "overlay.x", "n" * 300:
        call = begin_write(client, "a", attributes={name: "x"})
        send_part(client, call, b"five", True)
        with pytest.raises(RpcError):
            client.result(call)
    assert client.run("cat a")["stdout"] == "four"


def test_what_leads_out_of_the_workspace(client, workspace):
    with inside(workspace):
        os.symlink("/etc", workspace / "out")
        os.symlink("..", workspace / "up")
        (workspace / "a").write_text("x")
    for method, more in (("stat", {}), ("list", {}), ("read", {}), ("remove", {}), ("make_directory", {}), ("write", {}),
                         ("move", {"to": "b"})):
        assert refused(client, f"file.{method}", {"path": "../x", **more}) == "PATH_OUTSIDE_WORKSPACE"
        assert refused(client, f"file.{method}", {"path": "out/x", **more}) == "SYMLINK_OUTSIDE_WORKSPACE"
        assert refused(client, f"file.{method}", {"path": "up/x", **more}) == "SYMLINK_OUTSIDE_WORKSPACE"
    for to in ("../x", "out/x", "up/x", "/etc/x"):
        assert refused(client, "file.move", {"path": "a", "to": to}) in ("PATH_OUTSIDE_WORKSPACE", "SYMLINK_OUTSIDE_WORKSPACE")
    assert (workspace / "a").exists()
    # The link itself is an entry like others.
    assert client.call("file.remove", {"path": "out"})["removed"] == 1
    assert client.call("file.move", {"path": "up", "to": "upward"})["entry"]["target"] == ".."


def test_list(client, workspace):
    with inside(workspace):
        os.makedirs(workspace / "d" / "e" / "f")
        (workspace / "d" / "x").write_text("xy")
        (workspace / "d" / "e" / "y").touch()

    def paths(**params):
        result = client.call("file.list", {"path": "d", **params})
        assert result["count"] == len(result["entries"])
        return [entry["path"] for entry in result["entries"]], result["truncated"]
    assert paths() == (["d/e", "d/x"], False)
    assert paths(depth=2) == (["d/e", "d/e/f", "d/e/y", "d/x"], False)
    assert paths(depth=0) == paths(depth=3)
    assert paths(depth=0, limit=2) == (["d/e", "d/e/f"], True)
    assert refused(client, "file.list", {"path": "d/x"}) == "NOT_A_DIRECTORY"
    name = b"\xff\xfe"
    with inside(workspace):
        os.mkdir(os.fsencode(workspace) + b"/" + name)
    entry = next(entry for entry in client.call("file.list", {"path": "."})["entries"] if "path_base64" in entry)
    assert base64.b64decode(entry["path_base64"]) == name
    assert client.call("file.list", {"path_base64": entry["path_base64"]})["entries"] == []


def test_make_directory(client, workspace):
    made = client.call("file.make_directory", {"path": "a/b/c", "mode": "0700"})
    assert made["created"] and made["entry"]["path"] == "a/b/c" and made["entry"]["mode"] == "0700"
    assert stat.S_IMODE(os.stat(workspace / "a" / "b" / "c").st_mode) == 0o700
    again = client.call("file.make_directory", {"path": "a/b/c"})
    assert not again["created"] and again["entry"]["mode"] == "0700"
    assert refused(client, "file.make_directory", {"path": "x/y", "parents": False}) == "NOT_FOUND"
    assert not client.call("file.make_directory", {"path": "."})["created"]
    write(client, "f", b"")
    assert refused(client, "file.make_directory", {"path": "f"}) == "NOT_A_DIRECTORY"
    assert refused(client, "file.make_directory", {"path": "f/x"}) == "NOT_A_DIRECTORY"
    assert "octal" in refused(client, "file.make_directory", {"path": "g", "mode": "4755"})


def test_move(client, workspace):
    write(client, "a", b"a")
    write(client, "b", b"b")
    assert refused(client, "file.move", {"path": "a", "to": "b"}) == "STALE_FILE"
    assert client.call("file.move", {"path": "a", "to": "b", "replace": True})["entry"]["path"] == "b"
    assert (workspace / "b").read_text() == "a"
    assert refused(client, "file.move", {"path": "a", "to": "c"}) == "NOT_FOUND"
    assert refused(client, "file.move", {"path": "b", "to": "d/e/b", "parents": False}) == "NOT_FOUND"
    assert client.call("file.move", {"path": "b", "to": "d/e/b"})["entry"]["size"] == 1
    assert "into itself" in refused(client, "file.move", {"path": "d", "to": "d/e/d"})
    assert refused(client, "file.move", {"path": "nothing", "to": "made/x"}) == "NOT_FOUND"
    assert not (workspace / "made").exists()
    assert "must name an entry" in refused(client, "file.move", {"path": ".", "to": "x"})


def test_a_move_to_another_link_of_the_file_leaves_one(client, workspace):
    """rename(2) leaves both, and returns 0."""
    write(client, "old", b"x")
    os.link(workspace / "old", workspace / "new")
    os.link(workspace / "old", workspace / "third")
    assert client.call("file.move", {"path": "old", "to": "old", "replace": True})["entry"]["size"] == 1
    assert client.call("file.move", {"path": "old", "to": "new", "replace": True})["entry"]["path"] == "new"
    assert refused(client, "file.move", {"path": "old", "to": "x"}) == "NOT_FOUND"
    assert (workspace / "new").read_text() == (workspace / "third").read_text() == "x"


def test_remove(client, workspace):
    with inside(workspace):
        os.makedirs(workspace / "d" / "e")
        for i in range(100):
            (workspace / "d" / "e" / str(i)).touch()
        os.symlink("/etc", workspace / "d" / "out")
        os.chmod(workspace / "d" / "e", 0)
    assert refused(client, "file.remove", {"path": "d"}) == "IS_A_DIRECTORY"
    result = client.call("file.remove", {"path": "d", "recursive": True})
    assert result == {"path": "d", "removed": 103}
    assert os.path.exists("/etc/passwd") and not (workspace / "d").exists()
    assert refused(client, "file.remove", {"path": "d"}) == "NOT_FOUND"
    assert "must name an entry" in refused(client, "file.remove", {"path": ".", "recursive": True})
    client.call("file.make_directory", {"path": "empty"})
    assert client.call("file.remove", {"path": "empty"})["removed"] == 1


def test_write_and_read_streams(client, workspace):
    data = os.urandom(3 * MIB + 17)
    result = write(client, "deep/er/f", data, mode="0755")
    assert result["path"] == "deep/er/f" and result["bytes"] == len(data) and result["created"]
    assert (workspace / "deep/er/f").read_bytes() == data
    assert stat.S_IMODE(os.stat(workspace / "deep/er/f").st_mode) == 0o755
    got, result = read(client, "deep/er/f")
    assert got == data and result["bytes"] == len(data) and result["entry"]["mode"] == "0755"
    got, result = read(client, "deep/er/f", offset=MIB - 1, length=MIB + 5)
    assert got == data[MIB - 1:2 * MIB + 4]
    assert read(client, "deep/er/f", offset=len(data))[0] == b""
    assert read(client, "deep/er/f", length=0)[0] == b""
    assert write(client, "empty", b"")["bytes"] == 0
    assert read(client, "empty")[0] == b""
    call = client.request("file.read", {"path": "deep/er/f", "length": 5, "encoding": "base64"})
    assert base64.b64decode(client.receive()["params"]["data"]) == data[:5]
    assert client.result(call)["bytes"] == 5
    for path, code in ((".", "IS_A_DIRECTORY"), ("none", "NOT_FOUND")):
        with pytest.raises(RpcError) as error:
            read(client, path)
        assert error.value.name == code


def test_a_write_that_expects_a_version(client, workspace):
    version = write(client, "f", b"one", expect="absent")["version"]
    assert refused_write(client, "f", b"two", expect="absent") == "STALE_FILE"
    assert refused_write(client, "f", b"two", expect="0" * len(version)) == "STALE_FILE"
    assert not write(client, "f", b"two", expect=version)["created"]
    assert (workspace / "f").read_bytes() == b"two"


def refused_write(client, path, data, **params):
    with pytest.raises(RpcError) as error:
        write(client, path, data, **params)
    return error.value.name


def names_of(workspace):
    return sorted(name for _, directories, files in os.walk(workspace) for name in directories + files)


def test_a_client_that_leaves_a_write_leaves_nothing(daemon, client, workspace):
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        call = begin_write(other, "made/up/f")
        other.result(send_part(other, call, bytes(MIB)))
        assert names_of(workspace) == ["made", "up"]
    assert procfs.eventually(lambda: names_of(workspace) == [])
    call = begin_write(client, "g")
    client.result(send_part(client, call, bytes(MIB)))
    assert client.cancel(call)
    assert client.wait(call)["error"]["data"]["code"] == "CANCELLED"
    assert names_of(workspace) == []


def test_a_reader_that_stops_holds_little_memory(daemon, client, workspace):
    """A file that is larger than anything that may wait: neither cloisterd nor the files process reads on."""
    with inside(workspace), open(workspace / "large", "wb") as file:
        file.truncate(1 << 30)
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        call = other.request("file.read", {"path": "large"})
        first = other.receive()
        assert first["params"]["size"] == 1 << 30
        # While it does not read, others are served.
        assert client.run("echo hi")["stdout"] == "hi\n"
        assert stat_of(client, "large")["size"] == 1 << 30
        assert other.unread() == 0
        total = len(first["payload"])
        while total < 8 * MIB:
            message = other.receive()
            total += len(message["payload"])
        other.request("tool.cancel", {"id": call})
        while True:
            message = other.receive()
            if message.get("id") == call:
                assert message["error"]["data"]["code"] == "CANCELLED"
                break


def test_streams_of_a_workspace_are_bounded(client, workspace):
    with inside(workspace), open(workspace / "f", "wb") as file:
        file.truncate(MIB)
    calls = [begin_write(client, f"w{i}") for i in range(16)]
    for call in calls:
        client.result(send_part(client, call, b"x"))
    waits = client.request("file.read", {"path": "f"})
    client.call("file.stat", {"path": "f"})  # other calls go on
    client.result(send_part(client, calls[0], b"y", True))
    assert client.result(calls[0])["bytes"] == 2
    assert client.result(waits)["bytes"] == MIB
    for call in calls[1:]:
        client.request("tool.input", {"id": call, "eof": True})
    for call in calls[1:]:
        assert client.result(call)["bytes"] == 1


def test_mistakes(client, workspace):
    assert "is not known" not in refused(client, "file.stat", {"path": "x", "offset": 1})
    assert "must be" in refused(client, "file.list", {"path": ".", "depth": -1})
    assert "durability" in refused(client, "file.write", {"path": "x", "durability": "none"})
    assert "is required" in refused(client, "file.move", {"path": "x"})
    assert refused(client, "file.stat", {"path": "x", "workspace": "nobody-has-this"}) == "WORKSPACE_NOT_FOUND"
    call = client.request("file.read", {"path": "."})
    with pytest.raises(RpcError):
        client.result(call)


def test_the_directory_of_a_command(client, workspace):
    client.call("file.make_directory", {"path": "sub/deeper"})
    write(client, "sub/file", b"")
    assert client.run("pwd; ls", {"cwd": "sub"})["stdout"] == f"{workspace}/sub\ndeeper\nfile\n"
    assert client.run("pwd", {"cwd": str(workspace / "sub" / "deeper")})["stdout"] == f"{workspace}/sub/deeper\n"
    assert client.run("pwd", {"cwd": "/tmp"})["stdout"] == "/tmp\n"
    for cwd, code in (("none", "NOT_FOUND"), ("sub/file", "NOT_A_DIRECTORY")):
        error = client.fail("run_command", {"cwd": cwd}, command="touch ran")
        assert error["code"] == code and "cwd" in error["message"]
    assert not (workspace / "ran").exists()
    session = client.call("session.start", {"command": "pwd", "cwd": "sub"})["session"]
    read = client.call("session.read", {"session": session, "wait_ms": 10000, "until": [{"exit": True}]})
    assert "".join(chunk["data"] for chunk in read["chunks"]) == f"{workspace}/sub\n"
    for wrong in ("", 1, "a\0b", "x" * 5000):
        with pytest.raises(RpcError):
            client.run("pwd", {"cwd": wrong})
