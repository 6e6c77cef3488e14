# SPDX-License-Identifier: Apache-2.0
"""How much of a result a model is shown, over MCP and in messages, and what max_output gives a program."""

import base64
import json
import struct
import zlib

import pytest

from cloister_client import RpcError
from mcp_client import LEGACY, Mcp

KIB = 1024
SHOWN = 46 * KIB  # the default of output_shown: an answer as a whole, as it is sent
LINES = 1980  # of a file, or of what a command writes
CUT = "[… "


@pytest.fixture
def mcp(client, workspace):
    pytest.importorskip("jsonschema")
    return Mcp(client, LEGACY).ready()


@pytest.fixture(autouse=True)
def told(client, workspace):
    """The first answer to a model says what holds in the workspace (test_silence.py), and no later one does."""
    client.call("tool.call", {"tool": "list_directory", "arguments": {"path": "."}, "options": {"reply": "message"}})


def message(client, tool, options=None, **arguments):
    """The text of the message that answers the call."""
    answer = client.call("tool.call", {"tool": tool, "arguments": arguments,
                                       "options": {"reply": "message", **(options or {})}})
    assert answer["role"] == "tool" and answer["tool_name"] == tool
    return answer["content"]


def both(client, mcp, tool, **arguments):
    """The text, which is the same over MCP and in a message if all is shown, and the structured output."""
    result = mcp.call(tool, **arguments)
    text = result["content"][0]["text"]
    if tool != "run_command" and "not shown" not in text:  # a command's text may contain its duration
        assert text == message(client, tool, **arguments)
    return text, result["structuredContent"]["output"]


def png(side):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((x * y * 7) % 256 for x in range(side)) for y in range(side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) \
        + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def test_the_head_and_the_tail_of_output(client, mcp):
    command = "seq 1 300000; seq 400000 >&2"
    text, output = both(client, mcp, "run_command", command=command)
    assert output["stdout_bytes"] == 1988895 and output["truncated"]
    for name, last in (("stdout", 300000), ("stderr", 400000)):
        head, rest = output[name].split(CUT)
        note, tail = rest.split("]\n")
        assert LINES / 2 - 4 < len((head + tail).splitlines()) <= LINES / 2
        first, end = head.splitlines(), tail.splitlines()
        assert first == [str(n) for n in range(1, len(first) + 1)]
        assert end == [str(n) for n in range(last - len(end) + 1, last + 1)]
        left_out = output[f"{name}_bytes"] - len(head) - len(tail)
        assert note.startswith(f"{last - len(first) - len(end):,} lines, {left_out:,} bytes left out; ")
        assert "read_file" in note and "grep" in note
    assert text.startswith("exit 0")
    assert text.endswith(f"\n{output['stdout']}[stderr]\n{output['stderr']}")
    # A program gets the whole output.
    assert len(client.use("run_command", command=command)["stdout"]) > 250 * KIB


def sent(result):
    """The bytes of what a client may show: the texts as they are sent, and the structured content."""
    texts = sum(len(json.dumps(block["text"], ensure_ascii=False).encode()) for block in result["content"])
    return texts + len(json.dumps(result.get("structuredContent", ""), ensure_ascii=False, separators=(",", ":")).encode())


WHOLE = {
    "long file": ("read_file", {"path": "big/source"}),
    "file of quotes": ("read_file", {"path": "big/quotes"}),
    "file of control characters": ("read_file", {"path": "big/controls"}),
    "file of short lines": ("read_file", {"path": "big/short"}),
    "two streams": ("run_command", {"command": "seq 1 300000; seq 1 400000 >&2"}),
    "one stream": ("run_command", {"command": "cat big/source; echo END; echo error >&2"}),
    "escapes": ("run_command", {"command": "cat big/quotes; cat big/controls >&2"}),
    "long command": ("run_command", {"command": ": '" + '"' * 60000 + "'; seq 300000"}),
    "many short lines": ("run_command", {"command": "seq 1 5000; seq 1 5000 >&2"}),
    "Latin-1": ("run_command", {"command": r"yes \"$(printf 'Hello \351t\351, this is Latin-1 text')\" | head -n 100000"}),
    "entries": ("list_directory", {"path": "big/many"}),
    "matches": ("search_files", {"pattern": "needle|" + "x" * 5000}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_as_a_whole(client, mcp, workspace, name):
    """Harnesses cut an answer after 50,000 characters or 2,000 lines, where the model cannot get the rest."""
    (workspace / "big" / "many").mkdir(parents=True)
    for n in range(900):
        (workspace / "big" / "many" / f"{n:03}{'é' * 100}").touch()
    (workspace / "big" / "source").write_text("".join(f"static int number_{n} = {n}; /* a line of source */\n" for n in range(5000)))
    (workspace / "big" / "quotes").write_text('"\\\t"\n' * 40000)
    (workspace / "big" / "controls").write_text("\x01" * 1000000)
    (workspace / "big" / "short").write_text("\n" * 40000)
    (workspace / "big" / "long").write_text(('"needle"' * 300 + "\n") * 60)
    tool, arguments = WHOLE[name]
    result = mcp.call(tool, **arguments)
    text = result["content"][0]["text"]
    assert not result["isError"] and 15000 < sent(result) < 48000, sent(result)
    assert len(text.splitlines()) < 2000
    assert "not shown" in text or "left out" in text or "more bytes of this line" in text
    if tool == "read_file" and "more bytes of this line" not in text:
        assert f"start_line={result['structuredContent']['output']['lines'] + 1} " in text
    shown = message(client, tool, **arguments)
    assert len(json.dumps(shown, ensure_ascii=False).encode()) < 48000 and len(shown.splitlines()) < 2000


def test_output_of_the_background_as_a_whole(client, mcp):
    client.call("session.start", {"command": 'yes \'"a\\b"\' | head -n 200000', "name": "b"})
    client.use("read_output", name="b", wait_for="never written", wait_ms=60000)
    mcp.output_schemas = {}  # the tenant is not offered the tool
    assert 15000 < sent(mcp.call("read_output", name="b", after=0)) < 48000


def test_a_terminal_is_not_needed(client, mcp):
    """Escape sequences and overwritten lines are in the structured output, and not in the text."""
    text, output = both(client, mcp, "run_command", command=r"printf '\033[31mred\033[0m\n10%%\r100%%\n\033]0;title\007end\n'")
    assert output["stdout"] == "\x1b[31mred\x1b[0m\n10%\r100%\n\x1b]0;title\x07end\n"
    assert text.endswith("\nred\n100%\nend\n")


@pytest.mark.parametrize("command, text", [
    ("true", "exit 0, no output\n"),
    ("echo a", "exit 0\na\n"),
    ("printf a; printf b >&2; exit 3", "exit 3\na\n[stderr]\nb"),
    ("echo b >&2", "exit 0\n[stderr]\nb\n"),
    ("echo a; kill -9 $$", "ended by SIGKILL\na\n"),
])
def test_how_a_command_ended(client, workspace, command, text):
    shown = message(client, "run_command", command=command)
    first, newline, rest = shown.partition("\n")
    assert first.split(" after ")[0] + newline + rest == text


def few_numbers(first, last, line):
    """The text of a long file: the first line and every fifth one have numbers."""
    return "".join(f"{n if n == first or n % 5 == 0 else ''}\t{line(n)}\n" for n in range(first, last + 1))


def test_lines_of_a_file(client, mcp, workspace):
    (workspace / "f").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    text = message(client, "read_file", path="f")
    first, _, lines = text.partition("\n")
    lines, _, note = lines.rpartition("\n")
    assert first == f"f (lines 1-{LINES} of 5000; every fifth has its number)"
    assert lines + "\n" == few_numbers(1, LINES, lambda n: f"line {n}")
    assert note == f"[Lines {LINES + 1} to 5000 are not shown; read_file with start_line={LINES + 1} shows the next ones]"
    # Over MCP the content is sent twice, so there are fewer lines.
    text, output = both(client, mcp, "read_file", path="f")
    last = output["lines"]
    assert (LINES / 2 < last < LINES, output["total_lines"], output["truncated"]) == (True, 5000, True)
    assert text.startswith(f"f (lines 1-{last} of 5000; ") and text.endswith(f"[{output['note']}]")
    assert output["content"].endswith(f"  {last}\tline {last}\n")
    # The arguments that the note names give the rest.
    text = message(client, "read_file", path="f", start_line=4001)
    assert text == "f (lines 4001-5000 of 5000; every fifth has its number)\n" + few_numbers(4001, 5000, lambda n: f"line {n}")
    text, _ = both(client, mcp, "read_file", path="f", start_line=4951)
    assert text == "f (lines 4951-5000 of 5000)\n" + "".join(f"{n}\tline {n}\n" for n in range(4951, 5001))
    text = message(client, "read_file", {"line_numbers": False}, path="f", start_line=4001)
    assert text == "f (lines 4001-5000 of 5000)\n" + "".join(f"line {n}\n" for n in range(4001, 5001))
    text = message(client, "read_file", path="f", start_line=2, end_line=2500)
    assert text.endswith(f"[Lines {LINES + 2} to 2500 are not shown; read_file with start_line={LINES + 2} shows the next ones]")
    # A program gets the whole file.
    output = client.use("read_file", path="f")
    assert output["lines"] == 5000 and not output["truncated"] and "note" not in output


@pytest.mark.parametrize("content, options, text", [
    (b"", None, "f (empty)\n"),
    (b"one", None, "f (1 line)\n1\tone"),
    (b"\tone\r\n  two\n", None, "f (2 lines)\n1\t\tone\r\n2\t  two\n"),
    (b"one\ntwo\n", {"line_numbers": False}, "f (2 lines)\none\ntwo\n"),
    (b"\x1b[1m\n", None, "f (1 line)\n1\t\x1b[1m\n"),
    (b"\xff\n", None, "f (1 line; bytes that are not UTF-8 are shown as \ufffd)\n1\t\ufffd\n"),
])
def test_files_are_shown_as_they_are(client, workspace, content, options, text):
    (workspace / "f").write_bytes(content)
    assert message(client, "read_file", options, path="f") == text


def test_entries_of_a_directory(client, mcp, workspace):
    (workspace / "d").mkdir()
    for n in range(1234):
        (workspace / "d" / f"f{n:04}").write_text("x" * n)
    (workspace / "d" / "f0000").unlink()
    (workspace / "d" / "a\n\x1bb").mkdir()
    (workspace / "d" / "b").symlink_to("../d")
    first, *lines, note = message(client, "list_directory", path="d").splitlines()
    assert first == "d (500 entries shown)" and lines[:3] == ["d/a\\n\\x1bb/", "d/b -> ../d", "d/f0001\t1"]
    assert len(lines) == 500
    assert note == "[735 more entries are not shown; list a directory below, or give a pattern]"
    text, output = both(client, mcp, "list_directory", path="d")
    first, *lines, note = text.splitlines()
    assert 200 < len(lines) == len(output["entries"]) == output["count"] < 500
    assert (output["total"], output["truncated"], output["note"]) == (1235, True, note[1:-1])
    text, output = both(client, mcp, "list_directory", path="d", pattern="f1*")
    assert text.startswith("d (234 entries)\n") and "d/f1023\t1023\nd/f1024\t1.0K\n" in text
    assert "total" not in output and "note" not in output
    # A recursive listing has paths without sizes.
    text, _ = both(client, mcp, "list_directory", path=".", recursive=True, pattern="f00[0-9]1")
    assert text == ". (10 entries)\n" + "".join(f"d/f00{n}1\n" for n in range(10))
    assert client.use("list_directory", path="d")["count"] == 1235


def test_matches_of_a_search(client, mcp, workspace):
    (workspace / "a.c").write_text("int a;\r\nint b;\n")
    (workspace / "b.c").write_text("\tint c;\n")
    text, _ = both(client, mcp, "search_files", pattern="int")
    assert text == "3 matches, 2 files searched\na.c:1:int a;\na.c:2:int b;\nb.c:1:\tint c;\n"
    text, output = both(client, mcp, "search_files", pattern="int", max_results=2)
    assert text.startswith("2 matches shown, ") and text.endswith("; narrow pattern, path or file_pattern]")
    assert output["truncated"] and output["note"].startswith("At least 1 more match")
    (workspace / "long").write_text(("needle" + "x" * 1900 + "\n") * 50)
    text, output = both(client, mcp, "search_files", pattern="needle")
    assert len(text) < SHOWN / 2 and 5 < output["count"] < 20 and output["total"] == 50
    assert text.endswith(f"[{50 - output['count']} more matches are not shown; narrow pattern, path or file_pattern]")
    text, _ = both(client, mcp, "search_files", pattern="nowhere")
    assert text == "0 matches, 3 files searched\n"


def test_images(client, mcp, workspace):
    small, large = png(100), png(1100)
    assert len(small) < 1 << 20 < len(large)
    (workspace / "small.png").write_bytes(small)
    (workspace / "large.png").write_bytes(large)
    result = mcp.call("read_file", path="small.png")
    assert result["content"][0]["text"] == f"small.png (image/png, {len(small):,} bytes)\n"
    (image,) = result["content"][1:]
    assert image["type"] == "image" and image["mimeType"] == "image/png"
    assert base64.b64decode(image["data"], validate=True) == small
    assert result["structuredContent"]["output"] == {
        "path": "small.png", "binary": True, "size": len(small), "type": "image/png"}
    (block,) = mcp.call("read_file", path="large.png")["content"]
    assert "at most 1 MiB" in block["text"]
    # A message has text only. A program without images asks for base64.
    assert message(client, "read_file", path="small.png").startswith(f"small.png (image/png, {len(small):,} bytes)\n[Not text")
    assert client.use("read_file", path="small.png") == result["structuredContent"]["output"]
    result = mcp.call("read_file", {"cloister/options": {"encoding": "base64"}}, path="small.png")
    assert base64.b64decode(result["structuredContent"]["output"]["content"]) == small
    assert len(result["content"]) == 1


def test_a_program_may_ask_for_another_size(client, mcp, workspace):
    (workspace / "f").write_text("0123456\n" * 10000)
    output = client.use("run_command", {"max_output": 1000}, command="cat f")
    assert 900 < len(output["stdout"].split(CUT)[0]) * 2 <= 1000 and output["truncated"]
    output = client.use("read_file", {"max_output": 1000, "line_numbers": False}, path="f")
    assert len(output["content"]) == 1000 and output["lines"] == 125 and "start_line=126 " in output["note"]
    for n in range(600):
        (workspace / f"e{n:03}").touch()
    output = client.use("list_directory", {"max_output": 60}, path=".")
    assert output["count"] == 9 and output["total"] == 601 and len(output["entries"]) == 9
    output = client.use("read_file", {"max_output": 999, "encoding": "base64"}, path="f")
    assert len(base64.b64decode(output["content"])) == 999 and output["truncated"]
    # max_output replaces the limits on lines and entries, and a model's call may have it too.
    more = {"cloister/options": {"max_output": 200 * KIB}}
    assert mcp.call("read_file", more, path="f")["structuredContent"]["output"]["lines"] == 10000
    assert len(mcp.call("list_directory", more, path=".")["structuredContent"]["output"]["entries"]) == 601
    assert len(mcp.call("run_command", more, command="cat f")["content"][0]["text"]) > 70 * KIB
    for wrong in (0, -1, 8 * KIB * KIB + 1, "1K", True):
        with pytest.raises(RpcError) as error:
            client.observe("read_file", {"path": "f"}, {"max_output": wrong})
        assert error.value.code == -32602 and "max_output" in error.value.message


def test_no_more_than_the_tenant_keeps(client, workspace):
    output = client.use("run_command", {"max_output": 8 * KIB * KIB}, command="seq 1 300000")
    assert 200 * KIB < len(output["stdout"]) < 260 * KIB and CUT in output["stdout"]


def test_json_is_as_large_as_the_text(mcp, workspace):
    """The structured output of a call is about as large as its text, so a client may show either."""
    (workspace / "f").write_text(("x" * 40 + "\n") * 3000)
    for tool, arguments in (("run_command", {"command": "seq 1 300000"}), ("read_file", {"path": "f"}),
                            ("run_command", {"command": "head -c 500000 /dev/urandom"})):
        result = mcp.call(tool, **arguments)
        assert len(json.dumps(result["structuredContent"], ensure_ascii=False)) < 2 * len(result["content"][0]["text"]) + KIB
