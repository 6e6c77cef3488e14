# SPDX-License-Identifier: Apache-2.0
"""Every character passes through every string parameter and back, raw and as a JSON escape."""

import json
import shutil

import pytest

from daemon import AM_ROOT

pytestmark = pytest.mark.usefixtures("as_user")

RAW = {"line_numbers": False}
ABOVE = range(0x10000, 0x110000)
CHUNK = 1 << 15  # characters in a request: 128 KiB at most, for which an answer has room
# The first and last characters of planes, and those whose bits differ where UTF-16 makes surrogates.
SOME = [chr(point) for point in range(0x80, 0x110000)
        if point & 0x7ff in (0, 1, 0x400, 0x7fe, 0x7ff) and not 0xd800 <= point < 0xe000]


def sends(client, escaped):
    """Makes the client send characters raw, or everything but ASCII as escapes."""
    client.send = lambda message: client.send_raw(json.dumps(message, ensure_ascii=escaped).encode() + b"\n")
    return client


@pytest.fixture(params=[False, True], ids=["raw", "escaped"])
def writer(client, workspace, request):
    return sends(client, request.param)


def chunks():
    return ("".join(map(chr, ABOVE[i:i + CHUNK])) for i in range(0, len(ABOVE), CHUNK))


def test_content(writer, workspace):
    for text in chunks():
        writer.use("write_file", path="f", content=text)
        assert (workspace / "f").read_text() == text
        assert writer.use("read_file", RAW, path="f")["content"] == text


def test_standard_input(writer):
    for text in chunks():
        assert writer.run("cat", {"stdin": text})["stdout"] == text


def test_a_session_above(writer):
    """Its input, its output, and the text that a read waits for."""
    session = writer.call("session.start", {"command": "cat", "stdin": True, "output_bytes": 1 << 23})["session"]
    seen = 0
    for text in chunks():
        left, got = text, ""
        while left:
            taken = writer.call("session.write", {"session": session, "data": left})["taken"]
            assert taken % 4 == 0  # whole characters
            left = left[taken // 4:]
        while len(got) < len(text):
            answer = writer.call("session.read", {"session": session, "after": seen, "wait_ms": 60000,
                                                  "until": [{"contains": text[-1]}]})
            assert answer["lost_bytes"] == 0 and answer["state"] == "running"
            got += "".join(chunk["data"] for chunk in answer["chunks"])
            seen = answer["next"]
        assert got == text
    writer.call("session.end", {"session": session})


@pytest.mark.deep("slow")
def test_commands_and_environment_above(writer):
    for i in range(0, len(ABOVE), 7000):  # 28,000 bytes: the environment of a call has at most 32 KiB
        text = "".join(map(chr, ABOVE[i:i + 7000]))
        assert writer.run(f"printf %s '{text}' \"$TEXT\"", {"env": {"TEXT": text}})["stdout"] == text + text


def test_edits_and_patches(writer, workspace):
    for text in chunks():
        (workspace / "f").write_text(f"<{text}>\n")
        writer.use("edit_file", path="f", edits=[{"old": f"<{text}>", "new": f"{text}!"}])
        assert (workspace / "f").read_text() == f"{text}!\n"
        patch = f"*** Begin Patch\n*** Update File: f\n@@\n-{text}!\n+{text}?\n*** End Patch\n"
        writer.use("apply_patch", patch=patch)
        assert (workspace / "f").read_text() == f"{text}?\n"


@pytest.mark.deep("slow")
@pytest.mark.skipif(not AM_ROOT, reason="mounting a tmpfs needs root: on a disk this makes 18,000 directories")
def test_names_and_patterns_above(area, start_daemon):
    """960 characters a time: 16 names of 60, which make a path, and as the line that is searched for."""
    with area.disk("16m") as disk:
        client = start_daemon().connect()
        client.call("workspace.open", {"root": str(disk)})
        for i in range(0, len(ABOVE), 960):
            text = "".join(map(chr, ABOVE[i:i + 960]))
            place = "/".join(["d", *(text[at:at + 60] for at in range(0, len(text), 60))])
            for writer in (sends(client, escaped) for escaped in (False, True)):
                writer.use("write_file", {"durability": "fast"}, path=place, content=text)
                assert (disk / place).read_text() == text
                assert writer.use("read_file", RAW, path=place)["content"] == text
                (entry,) = writer.use("list_directory", path="d", recursive=True, pattern=place)["entries"]
                assert entry["path"] == place
                (match,) = writer.use("search_files", path="d", pattern=f"^{text}$", file_pattern=place)["matches"]
                assert match["path"] == place and text.startswith(match["text"])  # long lines are cut
                (disk / place).unlink()
            shutil.rmtree(disk / "d")
        client.close()


def test_commands_and_environment(writer):
    for i in range(0, len(SOME), 1000):
        text = "".join(SOME[i:i + 1000])
        assert writer.run(f"printf %s '{text}' \"$TEXT\"", {"env": {"TEXT": text}})["stdout"] == text + text


def test_names_and_patterns(writer, workspace):
    for i in range(0, len(SOME), 40):
        name = "".join(SOME[i:i + 40])
        writer.use("write_file", path=f"d/{name}", content=name)
        assert writer.use("read_file", RAW, path=f"d/{name}")["content"] == name
        (entry,) = writer.use("list_directory", path="d", pattern=name)["entries"]
        assert entry["path"] == f"d/{name}"
        found = writer.use("search_files", path="d", pattern=name[5:9])
        assert [(match["path"], match["text"]) for match in found["matches"]] == [(f"d/{name}", name)]
        (workspace / "d" / name).unlink()


def test_names_of_sessions(writer):
    for i in range(0, len(SOME), 16):
        name = "".join(SOME[i:i + 16])
        session = writer.call("session.start", {"command": "true", "name": name})["session"]
        listed = {each["session"]: each["name"] for each in writer.call("session.list")["sessions"]}
        assert listed[session] == name
        writer.call("session.end", {"session": session})


@pytest.mark.deep("slow")
@pytest.mark.skipif(not AM_ROOT, reason="needs root, for a mount of overlays")
@pytest.mark.parametrize("escaped", [False, True], ids=["raw", "escaped"])
def test_labels_of_checkpoints(start_daemon, account, escaped):
    """They are part of the names of directories, and are read from there after a restart."""
    config = f"[tenant t]\nusers = {account.uid}\nmanaged = yes\n"
    labels = ["".join(SOME[i:i + 20]) for i in range(0, len(SOME), 20)]
    daemon = start_daemon(config=config)
    for _ in range(2):
        with daemon.connect() as client:
            sends(client, escaped)
            for first in range(0, len(labels), 40):  # a workspace keeps 63
                client.call("workspace.open", {"workspace": f"w{first}"})
                if not client.call("workspace.checkpoints")["checkpoints"]:
                    for label in labels[first:first + 40]:
                        client.call("workspace.checkpoint", {"label": label})
                found = [each["label"] for each in client.call("workspace.checkpoints")["checkpoints"]]
                assert found == labels[first:first + 40]
        assert daemon.stop() == 0
        daemon = start_daemon(config=config, state=daemon.state)
