# SPDX-License-Identifier: Apache-2.0
"""What public bug reports of similar programs tell of: a model that would be stuck is told what to do, or its call is taken."""

import json
import unicodedata

import pytest

NFC, NFD = "café.txt", unicodedata.normalize("NFD", "café.txt")


def message(client, tool, **arguments):
    return client.call("tool.call", {"tool": tool, "arguments": arguments, "options": {"reply": "message"}})["content"]


@pytest.fixture(autouse=True)
def told(client, workspace):
    """The first answer to a model also says what holds here, which no case looks at."""
    message(client, "run_command", command="true")


def write(workspace, path, content=""):
    (workspace / path).parent.mkdir(parents=True, exist_ok=True)
    (workspace / path).write_text(content)
    (workspace / path).chmod(0o666)
    for parent in (workspace / path).relative_to(workspace).parents:
        if str(parent) != ".":
            (workspace / parent).chmod(0o777)


# Listings.


def test_a_large_directory_does_not_hide_the_others(client, workspace):
    for n in range(3000):
        write(workspace, f"big/f{n:04}")
    for name in ("src/main.c", "src/lib/a.c", "src/lib/b.c", "README"):
        write(workspace, name)
    shown = message(client, "list_directory", path=".", recursive=True)
    lines = shown.splitlines()
    assert lines[1:] == ["README", "big/ (3,000 entries, not listed)", "src/", "src/lib/", "src/main.c", "src/lib/a.c", "src/lib/b.c"]
    # Programs get all of it, in the order of names.
    entries = [entry["path"] for entry in client.use("list_directory", path=".", recursive=True)["entries"]]
    assert len(entries) == 3007 and entries[:3] == ["README", "big", "big/f0000"] and entries[-1] == "src/main.c"


def test_what_fits_is_listed_whole(client, workspace):
    for n in range(100):
        write(workspace, f"a/f{n:03}")
        write(workspace, f"b/d{n:03}/g")
    lines = message(client, "list_directory", path=".", recursive=True).splitlines()
    assert lines[0] == ". (302 entries)" and "a/f099" in lines and lines[-1] == "b/d099/g" and lines[1:3] == ["a/", "b/"]


@pytest.mark.parametrize("pattern", [None, "*.c"])
def test_many_directories(client, workspace, pattern):
    """Where no directory can be collapsed, those nearest to the root come first."""
    for n in range(600):
        write(workspace, f"d{n:03}/deep/x.c")
    write(workspace, "z/top.c")
    lines = message(client, "list_directory", path=".", recursive=True, **({"pattern": pattern} if pattern else {})).splitlines()
    assert len(lines) == 502 and lines[0] == ". (500 entries shown)" and lines[-1].startswith("[At least 1 more")
    assert (lines[1] == "z/top.c") == bool(pattern), lines[:3]


def test_what_gitignore_hides_is_counted(client, workspace):
    write(workspace, ".gitignore", "scripts/*\ndist/\n*.log\n")
    for name in ("scripts/example", "dist/example", "a.log", "seen"):
        write(workspace, name, "needle\n")
    client.run("git init -q")
    listed = client.use("list_directory", path=".")
    assert listed["gitignored"] == 2 and [entry["path"] for entry in listed["entries"]] == [".gitignore", "scripts", "seen"]
    assert message(client, "list_directory", path=".").endswith(
        "[.gitignore hides 2 files or directories here; run_command with ls -A shows them]")
    found = message(client, "search_files", pattern="needle")
    assert found.startswith("1 match, 2 files searched\n") and "[.gitignore hides 3 files or directories here; " in found
    # A directory that is named is shown whichever way the rule is written.
    for place in ("scripts", "dist"):
        assert [entry["path"] for entry in client.use("list_directory", path=place)["entries"]] == [f"{place}/example"]
        assert client.use("search_files", pattern="needle", path=place)["count"] == 1
    assert "gitignored" not in client.use("list_directory", path="scripts")
    assert ".gitignore" in client.call("tools.list", {"limits": True})["instructions"]


@pytest.mark.parametrize("path, pattern", [
    ("app/[slug]/page.tsx", "app/[slug]/page.tsx"), ("app/[[...rest]]/page.tsx", "**/[[...rest]]/*"), ("x/[id].ts", "[id].ts")])
def test_brackets_in_names(client, workspace, path, pattern):
    write(workspace, path, "needle\n")
    write(workspace, "x/d.ts", "needle\n")
    shown = client.use("list_directory", path=".", recursive=True, pattern=pattern)
    assert path in [entry["path"] for entry in shown["entries"]]
    found = client.use("search_files", pattern="needle", file_pattern=pattern)
    assert path in [match["path"] for match in found["matches"]]


# Names and encodings.


def test_a_name_in_another_form_of_unicode_is_found(client, workspace):
    write(workspace, f"dir-{NFD}/{NFD}", "one\n")
    path = f"dir-{NFC}/{NFC}"
    assert path != f"dir-{NFD}/{NFD}"
    assert client.use("read_file", path=path)["content"].endswith("one\n")
    output = client.use("write_file", path=path, content="two\n")
    assert not output["created"]
    client.use("edit_file", path=path, edits=[{"old": "two", "new": "three"}])
    assert (workspace / f"dir-{NFD}" / NFD).read_text() == "three\n"
    client.use("write_file", path=f"dir-{NFC}/new-é", content="")
    assert sorted(entry.name for entry in (workspace / f"dir-{NFD}").iterdir()) == sorted([NFD, "new-é"])
    for name in ("한글", "パス", "Viết"):  # Hangul is computed, the others are in the table
        write(workspace, unicodedata.normalize("NFD", name), name)
        assert client.use("read_file", path=unicodedata.normalize("NFC", name))["size"] == len(name.encode())
    # Another letter is another name.
    assert client.use("write_file", path=f"dir-{NFC}/cafè.txt", content="")["created"]


@pytest.mark.parametrize("encoding, mark, name", [("utf-16-le", b"\xff\xfe", "UTF-16"), ("utf-16-be", b"\xfe\xff", "UTF-16"),
                                                  ("utf-16-le", b"", "UTF-16LE"), ("utf-16-be", b"", "UTF-16BE")])
def test_utf16(client, workspace, encoding, mark, name):
    (workspace / "f").write_bytes(mark + "Name,needle\r\nzwei\r\n".encode(encoding))
    shown = message(client, "read_file", path="f")
    assert f"charset={name.lower()}, " in shown and f"[Not UTF-8: with run_command, iconv -f {name} -t UTF-8 FILE prints it" in shown
    assert "needle" in client.run(f"iconv -f {name} -t UTF-8 f")["stdout"]
    found = message(client, "search_files", pattern="needle")
    assert "1 of the skipped files is text in UTF-16; run_command with iconv" in found
    error = client.fail("edit_file", path="f", edits=[{"old": "needle", "new": "x"}])
    assert error["code"] == "NO_MATCH" and f"iconv -f {name} -t UTF-8" in error["message"]


# Edits and patches.


def test_characters_that_look_alike_are_named(client, workspace):
    write(workspace, "f", "first\nprint(“it’s – here”)\n")
    error = client.fail("edit_file", path="f", edits=[{"old": "print(\"it's - here\")", "new": "pass"}])
    assert error["code"] == "NO_MATCH"
    assert "at line 2 but for characters that look alike: the file has U+201C where old has U+0022, " \
        "U+2019 where old has U+0027, U+2013 where old has U+002D" in error["message"]
    assert error["data"]["kind"] == "look_alike" and error["data"]["closest"] == "print(“it’s – here”)\n"


@pytest.mark.parametrize("names", [("old_string", "new_string"), ("old", "new"), ("oldString", "newString")])
def test_an_edit_beside_the_path(client, workspace, names):
    write(workspace, "f", "a a\n")
    observation = client.observe("edit_file", {"file_path": "f", names[0]: "a", names[1]: "b", "replace_all": True})
    assert observation["success"] and (workspace / "f").read_text() == "b b\n"
    assert any("element of \"edits\"" in note for note in observation["notes"])
    error = client.fail("edit_file", path="f")
    assert '{"old": "text", "new": "text"}' in error["message"]


def test_a_remark_and_a_directory(client, workspace):
    observation = client.observe("run_command", {"command": "echo hi", "description": "Says hi"})
    assert observation["output"]["stdout"] == "hi\n" and observation["notes"] == ['"description" has no effect']
    error = client.fail("run_command", command="make", cwd="src")
    assert '"cwd" is not known; begin the command with it: {"command": "cd DIRECTORY && make"}' in error["message"]


def test_unknown_tools_are_told_which_there_are(client, workspace):
    error = client.fail("no_such_tool")
    assert error["message"].endswith("use read_file, write_file, list_directory, run_command or search_files")


@pytest.mark.parametrize("to", ["f", "./f"])
def test_a_move_to_the_same_path(client, workspace, to):
    write(workspace, "f", "one\n")
    client.use("apply_patch", patch=f"*** Begin Patch\n*** Update File: f\n*** Move to: {to}\n@@\n-one\n+two\n*** End Patch\n")
    assert (workspace / "f").read_text() == "two\n"


# Commands.


def test_a_tool_as_a_command(start_daemon, area):
    daemon = start_daemon(config=f"[tenant t]\nusers = {area.account.uid}\nroots = {area.path}\ntools = basic patch\n")
    client = daemon.connect()
    client.call("workspace.open", {"root": str(area.new_directory("w"))})
    observation = client.observe("run_command", {"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF"})
    assert observation["output"]["exit_code"] == 127
    assert "apply_patch is a tool, not a program: call it with patch" in observation["notes"]
    # What is not offered is not named.
    assert not any("edit_file" in note for note in client.observe("run_command", {"command": "edit_file x"}).get("notes", []))


def test_no_space_in_tmp(client, workspace):
    observation = client.observe("run_command", {"command": "echo 'tar: /tmp/x: No space left on device' >&2; exit 2"})
    assert any(note.startswith("HOME and /tmp together have ") and "the workspace has the room" in note
               for note in observation["notes"]), observation
    assert "notes" not in client.observe("run_command", {"command": "echo 'No space left on device' >&2"})


SERVER = ("import http.server; s = http.server.ThreadingHTTPServer(('127.0.0.1', 8123), http.server.SimpleHTTPRequestHandler); "
          "print('ready', flush=True); s.serve_forever()")


def test_a_port_in_use_is_whose(client, workspace):
    client.call("session.start", {"command": f'python3 -c "{SERVER}"', "name": "web"})
    assert client.use("read_output", name="web", wait_for="ready", wait_ms=60000)["found"]
    observation = client.observe("run_command", {"command": f'python3 -c "{SERVER}"'})
    assert '"web" in the background listens at port 8123' in observation["notes"], observation


@pytest.mark.parametrize("key, trap", [("\x03", "INT"), ("\x1c", "QUIT")])
def test_a_key_without_a_terminal_is_a_signal(client, workspace, key, trap):
    client.call("session.start", {"command": f"trap 'echo caught; exit 7' {trap}; echo ready; while :; do sleep 0.1; done",
                                  "name": "loop", "stdin": True})
    assert client.use("read_output", name="loop", wait_for="ready", wait_ms=60000)["found"]
    sent = message(client, "send_input", name="loop", input=key)
    assert f"SIG{trap} was sent, since it has no terminal" in sent or "exit 7" in sent, sent
    ended = client.use("read_output", name="loop", after=0, wait_for="never", wait_ms=60000)
    assert ended["state"] == "ended" and ended["output"].endswith("caught\n")


def test_python_is_interrupted(client, workspace):
    client.call("session.start", {"command": "python3 -u -i 2>&1", "name": "py", "stdin": True})
    client.use("send_input", name="py", input="while True: pass\n")
    client.use("send_input", name="py", input="\x03")
    assert client.use("read_output", name="py", after=0, wait_for="KeyboardInterrupt", wait_ms=60000)["found"]
    client.use("send_input", name="py", input="print(6 * 7)")
    assert client.use("read_output", name="py", wait_for="42", wait_ms=60000, after=0)["found"]


# Search.


def found(output):
    return [(match["path"], match["line"], match.get("context", False)) for match in output["matches"]]


def test_lines_around_a_match(client, workspace):
    write(workspace, "f", "".join(f"line {n}\n" for n in range(1, 11)))
    output = client.use("search_files", pattern="line [35]$", context=1)
    assert output["count"] == 2
    assert found(output) == [("f", 2, True), ("f", 3, False), ("f", 4, True), ("f", 5, False), ("f", 6, True)]
    assert message(client, "search_files", pattern="line 1$|line 10", context=2).splitlines()[1:] == [
        "f:1:line 1", "f-2-line 2", "f-3-line 3", "f-8-line 8", "f-9-line 9", "f:10:line 10"]
    assert [match["line"] for match in client.use("search_files", pattern="line", max_results=2, context=1)["matches"]] == [1, 2]
    assert "context" not in json.dumps(client.use("search_files", pattern="line 3"))


def test_the_next_matches_and_more(client, workspace):
    for name in ("a/deep/x", "b", "c/y"):
        write(workspace, name, "".join(f"needle {n}\n" for n in range(40)))
    all_of_them = found(client.use("search_files", pattern="needle", limit=1000))
    assert len(all_of_them) == len(set(all_of_them)) == 120
    pages = [found(client.use("search_files", pattern="needle", offset=offset)) for offset in (0, 50, 100, 150)]
    assert [len(page) for page in pages] == [50, 50, 20, 0]
    assert sorted(sum(pages, [])) == sorted(all_of_them)
    assert len(client.use("search_files", pattern="needle")["matches"]) == 50
    assert client.fail("search_files", pattern="x", offset=-1)["code"] == "INVALID_ARGUMENTS"
    assert "lowered from 11 to its maximum, 10" in client.observe("search_files", {"pattern": "x", "context": 11})["notes"][0]
