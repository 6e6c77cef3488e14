# SPDX-License-Identifier: Apache-2.0
"""The methods of files against a workspace whose commands rename what they act on, a disk that is full, and a files
process that was taken over."""

import os

import pytest

from cloister_client import RpcError, acting_as
from test_hostile_peers import Liar, is_only_answer, lied_to_fixture, undisturbed  # noqa: F401

MIB = 1 << 20
ROUNDS = 150

# Exchanges a directory and a link out of the workspace, again and again, until the file "stop" is there.
RENAMER = r"""python3 - <<'E'
import ctypes, os
libc = ctypes.CDLL(None)
while not os.path.exists("stop"):
    libc.renameat2(-100, b"place", -100, b"other", 2)
E
"""
HARMLESS = {"SYMLINK_OUTSIDE_WORKSPACE", "NOT_FOUND", "NOT_A_DIRECTORY", "BUSY", "IS_A_DIRECTORY", "STALE_FILE",
            "PERMISSION_DENIED", "NOT_A_REGULAR_FILE", "TOO_MANY_LINKS"}


def attempt(client, method, **params):
    """Returns the result, or None if it was refused as what is in the way."""
    answer = client.wait(client.request(method, params))
    if "error" in answer:
        assert answer["error"].get("data", {}).get("code") in HARMLESS, (method, answer)
        return None
    return answer["result"]


def write(client, path, data):
    call = client.request("file.write", {"path": path})
    answer = client.wait(client.request("tool.input", {"id": call, "data": data, "eof": True}))
    assert "result" in answer or answer["error"]["data"]["code"] == "NOT_FOUND"
    return client.wait(call)


@pytest.mark.deep("slow")
def test_a_directory_that_becomes_a_link(daemon, area, client, workspace):
    outside = area.new_directory("outside")
    with acting_as(os.stat(workspace).st_uid):
        (outside / "kept").write_text("kept")
        (workspace / "place").mkdir()
        os.symlink(outside, workspace / "other")
    with daemon.connect() as hostile:
        hostile.call("workspace.open", {"root": str(workspace)})
        renamer = hostile.begin("run_command", {"command": RENAMER, "timeout_ms": 100000})
        for i in range(ROUNDS):
            entry = attempt(client, "file.stat", path="place/kept")
            assert entry is None, entry
            listed = attempt(client, "file.list", path="place", depth=0)
            assert listed is None or "kept" not in str(listed)
            attempt(client, "file.make_directory", path=f"place/d{i}/e")
            answer = write(client, f"place/f{i}", "mine")
            assert "result" in answer or answer["error"]["data"]["code"] in HARMLESS, answer
            attempt(client, "file.move", path=f"place/f{i}", to=f"place/g{i}")
            attempt(client, "file.move", path="place/kept", to="stolen")
            attempt(client, "file.remove", path="place/kept")
            attempt(client, "file.remove", path=f"place/d{i}", recursive=True)
            assert os.listdir(outside) == ["kept"] and not (workspace / "stolen").exists()
        with acting_as(os.stat(workspace).st_uid):
            (workspace / "stop").touch()
        hostile.result(renamer)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk(start_daemon, area):
    with area.disk("4m") as disk, start_daemon().connect() as client:
        client.call("workspace.open", {"root": str(disk)})
        assert "result" in write(client, "f", "old")
        call = client.request("file.write", {"path": "f"})
        parts = [client.request("tool.input", {"id": call, "data": "x" * MIB}) for _ in range(1)]
        while client.result(parts[-1]) == {"taken": MIB, "closed": False}:
            parts.append(client.request("tool.input", {"id": call, "data": "x" * MIB}))
        assert client.wait(call)["error"]["data"]["code"] == "NO_SPACE"
        assert client.use("read_file", {"line_numbers": False}, path="f")["content"] == "old"
        assert "result" in write(client, "g", "y" * MIB)  # what was staged is free again
        assert sorted(os.listdir(disk)) == ["f", "g"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount a small disk")
def test_a_disk_without_inodes(start_daemon, area):
    with area.disk("4m,nr_inodes=8") as disk, start_daemon().connect() as client:
        client.call("workspace.open", {"root": str(disk)})
        made = 0
        while "result" in client.wait(client.request("file.make_directory", {"path": f"d{made}/e"})):
            made += 1
        answer = client.wait(client.request("file.make_directory", {"path": "more/e"}))
        assert answer["error"]["data"]["code"] == "NO_SPACE"
        assert "more" not in os.listdir(disk)  # a directory on the way is removed again
        assert write(client, "x/y/z", "")["error"]["data"]["code"] == "NO_SPACE"
        assert client.call("file.remove", {"path": "d0", "recursive": True})["removed"] == 2
        assert "result" in write(client, "x", "")


# Lies: the method, its parameters and what the files process says.
STAT, READ, SEND = ("file.stat", {"path": "x"}), ("file.read", {"path": "x"}), ("file.write", {"path": "x"})
LISTING = ("file.list", {"path": "."})
LIES = {
    "data before a file": (READ, "send(frame(FILES_DATA, call, b'x'))"),
    "two files": (READ, "send(frame(FILES_NODE, call, files_node('x')), frame(FILES_NODE, call, files_node('y')))"),
    "a listing as a file": (READ, "send(frame(FILES_ENTRY, call, files_entry('x')))"),
    "two entries": (STAT, "send(frame(FILES_NODE, call, files_node('x')), frame(FILES_NODE, call, files_node('y')))"),
    "a mode that is none": (STAT, "send(frame(FILES_NODE, call, files_node('x', mode=0o17777)))"),
    "half an attribute": (STAT, "send(frame(FILES_NODE, call, files_node('x', attributes=b'abc')))"),
    "an attribute without a name": (STAT, "send(frame(FILES_NODE, call, files_node('x', attributes=text('') * 2)))"),
    "content to a listing": (LISTING, "send(frame(FILES_DATA, call, b'x'))"),
    "written before anything was sent": (SEND, "send(frame(FILES_TAKEN, call, files_amount(1)))"),
    "nothing written": (SEND, "send(frame(FILES_TAKEN, call, files_amount(0)))"),
    "an entry to a write": (SEND, "send(frame(FILES_NODE, call, files_node('x')))"),
}


@pytest.mark.parametrize("name", LIES)
def test_lies(lied_to, name):
    (method, params), lie = LIES[name]
    request = "request(FILES_STAT, FILES_TREE, FILES_FETCH, FILES_WRITE)"
    with undisturbed(lied_to):
        liar = Liar(lied_to, files=f"be_ready(); kind, call, payload, fds = {request}\n{lie}\nwait()").open()
        with pytest.raises(RpcError) as caught:
            liar.client.call(method, params)
        assert caught.value.name == "WORKER_LOST", caught.value
        is_only_answer(liar)
        liar.close()


def test_a_success_without_an_entry(lied_to):
    with undisturbed(lied_to):
        liar = Liar(lied_to, files="be_ready(); kind, call, payload, fds = request(FILES_STAT)\n"
                                  "send(frame(FILES_END, call, files_end()))\nwait()").open()
        assert liar.client.call("file.stat", {"path": "x"}) == {"entry": None}
        liar.close()
