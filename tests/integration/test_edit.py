# SPDX-License-Identifier: Apache-2.0
"""edit_file, and the versions of read_file and write_file, through the real daemon."""

import json
import os
import random
import re
import subprocess
import threading

import procfs
import pytest
from cloister_client import acting_as
from daemon import user_mode_only

pytestmark = pytest.mark.usefixtures("as_user")

KIB, MIB = 1 << 10, 1 << 20
EDITS = int(os.environ.get("CLOISTER_EDITS", "60"))  # of each editor; tests/chaos/run has more
FILE = "one\n\tif (two) {\n\t\tthree(\"3\");\n\t}\nfour\nfour\nfive\n"


def edit(old, new, **more):
    return {"old": old, "new": new, **more}


def failure(client, workspace, content, *edits, **more):
    """The error of an edit that must not change a byte."""
    (workspace / "f").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = (workspace / "f").stat(), (workspace / "f").read_bytes()
    error = client.fail("edit_file", path="f", edits=list(edits), **more)
    after = (workspace / "f").stat(), (workspace / "f").read_bytes()
    assert (before[0].st_ino, before[0].st_mtime_ns, before[1]) == (after[0].st_ino, after[0].st_mtime_ns, after[1])
    assert os.listdir(workspace) == ["f"]
    return error


def test_edits_are_made_and_shown(client, workspace):
    (workspace / "f").write_text(FILE)
    output = client.use("edit_file", path="f", edits=[edit("three(", "drei("), edit("five", "5")])
    expected = FILE.replace("three(", "drei(").replace("five", "5")
    assert (workspace / "f").read_text() == expected
    assert (output["path"], output["replacements"], output["first_line"], output["size"]) == ("f", 2, 3, len(expected))
    assert output["version"] == client.use("read_file", path="f")["version"]
    assert output["diff"].splitlines()[:6] == [
        "@@ -1,5 +1,5 @@", " one", " \tif (two) {", "-\t\tthree(\"3\");", "+\t\tdrei(\"3\");", " \t}"]


def test_edits_are_matched_against_the_file_and_not_against_each_other(client, workspace):
    (workspace / "f").write_text("a b\n")
    client.use("edit_file", path="f", edits=[edit("a", "b"), edit("b", "a")])
    assert (workspace / "f").read_text() == "b a\n"


def test_lines_that_end_with_crlf_stay_so(client, workspace):
    (workspace / "f").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    client.use("edit_file", path="f", edits=[edit("one\ntwo\n", "1\n2\n2b\n"), edit("three", "3\n4")])
    assert (workspace / "f").read_bytes() == b"1\r\n2\r\n2b\r\n3\r\n4\r\n"


def test_bytes_that_are_no_text_stay(client, workspace):
    (workspace / "f").write_bytes(b"\xff\x00a\xfe\n")
    client.use("edit_file", path="f", edits=[edit("a", "ü")])
    assert (workspace / "f").read_bytes() == b"\xff\x00" + "ü".encode() + b"\xfe\n"


WRONG = [
    # file, edits, code, kind, lines, words of the sentence
    (FILE, [edit("     1\tone", "x")], "NO_MATCH", "line_numbers", [1], "line number"),
    (FILE, [edit("1\tone\n2\t\tif (two) {", "x")], "NO_MATCH", "line_numbers", [1], "line number"),
    (FILE, [edit("  2→\tif (two) {", "x")], "NO_MATCH", "line_numbers", [2], "line number"),
    (FILE, [edit("        if (two) {", "x")], "NO_MATCH", "white_space", [2],
     'only in leading white space: the file has "\\tif (two) {", old has "        if (two) {"'),
    (FILE, [edit("\tif (two) {\n\t\tthree(\"3\");\n    }", "x")], "NO_MATCH", "white_space", [2], "from line 4 only in leading"),
    (FILE, [edit("one \n", "x")], "NO_MATCH", "white_space", [1], "trailing white space"),
    (FILE, [edit("zwei\n", "five\n")], "NO_MATCH", "already", [7], "new is already at line 7"),
    (FILE, [edit("one\\n\\tif", "x")], "NO_MATCH", "escaped", [1], "backslashes"),
    (FILE, [edit("three(\\\"3\\\")", "x")], "NO_MATCH", "escaped", [3], "backslashes"),
    (FILE, [edit("one\r\n\tif", "x")], "NO_MATCH", "line_endings", [1], "\\r\\n"),
    ("a\r\nb\nc\n", [edit("a\nb", "x")], "NO_MATCH", "line_endings", [1], "some lines of the file end with"),
    (FILE, [edit("\t\tthree(\"4\");\n\t}", "x")], "NO_MATCH", "different", [3],
     'the file has "\\t\\tthree(\\"3\\");", old has "\\t\\tthree(\\"4\\");"'),
    (FILE, [edit("one\nfive", "x")], "NO_MATCH", "different", [1], "line 2 differs"),
    (FILE, [edit("nothing of the sort", "x")], "NO_MATCH", "absent", [], "search_files"),
    ("", [edit("a", "b")], "NO_MATCH", "absent", [], "read the file again"),
    (FILE, [edit("four", "x")], "AMBIGUOUS_MATCH", "several", [5, 6], "2 times: lines 5, 6"),
    ("aaa", [edit("aa", "x")], "AMBIGUOUS_MATCH", "several", [1, 1], "2 times"),
    ("a\n" * 50, [edit("a", "x")], "AMBIGUOUS_MATCH", "several", list(range(1, 11)), "50 times"),
    (FILE, [edit("one\n\tif", "x"), edit("if (two)", "y")], "EDITS_OVERLAP", "overlap", [2], "edits 1 and 2"),
    (FILE, [edit("four", "x", all=True), edit("four\nfive", "y")], "EDITS_OVERLAP", "overlap", [6], "edits 1 and 2"),
    (FILE, [edit("one", "1"), edit("nothing", "x")], "NO_MATCH", "absent", [], "edit 2: "),
]


@pytest.mark.parametrize("content,edits,code,kind,lines,words", WRONG)
def test_a_mistake_changes_nothing_and_is_explained(client, workspace, content, edits, code, kind, lines, words):
    error = failure(client, workspace, content, *edits)
    assert (error["code"], error["data"]["kind"], error["data"]["lines"]) == (code, kind, lines), error
    assert words in error["message"]
    assert len(error["message"]) < 1024


def test_the_closest_lines_can_be_copied(client, workspace):
    error = failure(client, workspace, FILE, edit("  if (two) {\n  three(\"3\");", "x"))
    closest = error["data"]["closest"]
    assert closest == "\tif (two) {\n\t\tthree(\"3\");\n"
    client.use("edit_file", path="f", edits=[edit(closest, "x\n")])


@pytest.mark.parametrize("edits,words", [
    ([], "from 1 to 64"), ([edit("a", "b")] * 65, "from 1 to 64"), ("x", "list of objects"), ([edit("a", "a")], "the same"),
    ([edit("", "a")], "is empty"), ([{"old": "a"}], '"new" of number 1 is missing'), ([edit("a", 1)], "not a string"),
    ([edit("a", "b", all="yes")], "true or false"), ([edit("a", "b", count=1)], "is not known in an edit"),
    (["a"], "list of objects"), ([edit("a" * (4 * MIB), "b")], "bytes in all")])
def test_wrong_arguments(client, workspace, edits, words):
    error = client.fail("edit_file", path="f", edits=edits)
    assert error["code"] == "INVALID_ARGUMENTS" and words in error["message"], error


@pytest.mark.parametrize("path,code", [
    ("none", "NOT_FOUND"), (".", "IS_A_DIRECTORY"), ("../f", "PATH_OUTSIDE_WORKSPACE"), ("out", "SYMLINK_OUTSIDE_WORKSPACE"),
    ("fifo", "NOT_A_REGULAR_FILE"), ("kept", "PERMISSION_DENIED")])
def test_what_cannot_be_edited(client, workspace, path, code):
    (workspace / "out").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "fifo")
    (workspace / "kept").write_text("root")
    (workspace / "kept").chmod(0o444)
    assert client.fail("edit_file", path=path, edits=[edit("root", "x")])["code"] == code


def test_a_large_file_is_refused(client, workspace):
    with open(workspace / "f", "wb") as file:
        file.truncate(16 * MIB + 1)
    assert client.fail("edit_file", path="f", edits=[edit("a", "b")])["code"] == "FILE_TOO_LARGE"
    (workspace / "f").write_bytes(b"a" * 100001)
    error = client.fail("edit_file", path="f", edits=[edit("a", "b", all=True)])
    assert (error["code"], error["data"]["kind"]) == ("FILE_TOO_LARGE", "too_large")
    (workspace / "f").write_bytes(b"a" * 5000)
    error = client.fail("edit_file", path="f", edits=[edit("a", "b" * 4000, all=True)])
    assert error["code"] == "FILE_TOO_LARGE" and "smaller edit" in error["message"]


MUCH = {  # file, edits, error; a plain search or comparison would take from ten seconds to minutes
    "occurrences in one line": (b"a123456789" * 100000 + b"-" * (15 * MIB), [edit("a", "b", all=True)], None),
    "a long text that overlaps itself": (b"a" * (16 * MIB), [edit("a" * (4 * MIB - 1), "b")], "AMBIGUOUS_MATCH"),
    "lines that are like many others": (
        b"a\n" * 200 + b"\n" * (4 * MIB), [edit("a\n" + "\n" * (4 * MIB - 8) + "b", "c")], "NO_MATCH"),
    "many edits that replace all": (
        bytes(range(32, 96)) * 99000, [edit(chr(i), "12", all=True) for i in range(32, 96)], "FILE_TOO_LARGE")}


@pytest.mark.deep("busy")
@pytest.mark.parametrize("name", MUCH)
def test_much_work_is_bounded(daemon, client, workspace, name):
    """Bounded in CPU time, which a busy machine does not lengthen as it does a call's."""
    def used():
        ((_, files),) = daemon.cells()
        return files, procfs.cpu_seconds(files)
    content, edits, code = MUCH[name]
    (workspace / "f").write_bytes(content)
    files, before = used()
    observation = client.observe("edit_file", {"path": "f", "edits": edits}, {"timeout_ms": 120000, "durability": "fast"})
    after = used()
    # AddressSanitizer looks at all 16 MiB anew at each memmem(3).
    bound = 30 if os.environ.get("CLOISTER_BUILD") == "asan" else 3
    assert after[0] == files and after[1] - before < bound
    assert (observation["error"] or {"code": None})["code"] == code, observation["error"]
    if code is None:
        assert observation["output"]["replacements"] == 100000
        assert (workspace / "f").read_bytes() == content.replace(b"a", b"b")


def test_attributes_are_kept_as_a_write_keeps_them(client, workspace):
    (workspace / "f").write_text("#!/bin/sh\n")
    (workspace / "f").chmod(0o751)
    (workspace / "link").symlink_to("f")
    client.use("edit_file", path="link", edits=[edit("/bin/sh", "/bin/dash")])
    assert (workspace / "f").read_text() == "#!/bin/dash\n"
    assert (workspace / "f").stat().st_mode & 0o7777 == 0o751
    assert (workspace / "link").is_symlink()
    assert sorted(os.listdir(workspace)) == ["f", "link"]


# Versions


def test_versions_are_of_the_content(client, workspace):
    first = client.use("write_file", path="f", content="one\n")["version"]
    assert re.fullmatch("[0-9a-f]{32}", first)
    (workspace / "g").write_text("one\n")
    assert client.use("read_file", path="g")["version"] == first
    assert client.use("read_file", {"encoding": "base64"}, path="g")["version"] == first
    assert client.use("read_file", path="g", start_line=1, end_line=1)["version"] == first
    second = client.use("edit_file", path="f", edits=[edit("one", "two")], expect=first)["version"]
    assert second != first
    assert client.use("write_file", path="f", content="one\n", expect=second)["version"] == first


def test_a_large_file_has_the_version_of_what_was_written(client, workspace):
    content = "".join(f"{i}\n" for i in range(100000))
    version = client.use("write_file", path="f", content=content)["version"]
    assert client.use("read_file", path="f")["version"] == version


@pytest.mark.parametrize("use", ["edit_file", "write_file"])
def test_a_stale_version_writes_nothing(client, workspace, use):
    arguments = {"edits": [edit("two", "2")]} if use == "edit_file" else {"content": "two\n2\n"}
    version = client.use("write_file", path="f", content="one\ntwo\n")["version"]
    (workspace / "f").write_text("one!\ntwo\n")
    error = client.fail(use, path="f", expect=version, **arguments)
    assert error["code"] == "STALE_FILE" and "othing was written" in error["message"]
    assert (workspace / "f").read_text() == "one!\ntwo\n"
    assert os.listdir(workspace) == ["f"]


def test_absent(client, workspace):
    assert client.use("write_file", path="d/f", content="one", expect="absent")["created"]
    error = client.fail("write_file", path="d/f", content="two", expect="absent")
    assert error["code"] == "STALE_FILE" and "exists" in error["message"]
    assert (workspace / "d/f").read_text() == "one"
    error = client.fail("write_file", path="g", content="two", expect="0" * 32)
    assert error["code"] == "STALE_FILE" and "does not exist" in error["message"]
    assert not (workspace / "g").exists()


# Against a plain reference, and beside others


def reference(content, edits):
    """The rules of edit_file in a few lines of Python; None: refused."""
    if content.count(b"\n") and content.count(b"\r\n") == content.count(b"\n"):
        edits = [(old, new, every) if b"\r" in old + new else
                 (old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n"), every) for old, new, every in edits]
    places = []
    for old, new, every in edits:
        step = len(old) if every else 1
        found, at = [], content.find(old)
        while at >= 0:
            found.append(at)
            at = content.find(old, at + step)
        if not found or (len(found) > 1 and not every):
            return None
        places += [(at, len(old), new) for at in found]
    places.sort()
    if any(a[0] + a[1] > b[0] for a, b in zip(places, places[1:])):
        return None
    for at, size, new in reversed(places):
        content = content[:at] + new + content[at + size:]
    return content


def test_random_edits_do_what_the_reference_does(client, workspace):
    rng, made = random.Random(4), 0
    for _ in range(1500):
        newline = rng.choice(["\n", "\n", "\r\n"])
        content = "".join(rng.choice(["a", "b", "ab", " ", "\t", newline, newline]) for _ in range(rng.randrange(30)))
        edits = []
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(content) + 1)
            old = content[at:at + rng.randrange(1, 6)].replace("\r", "") or "x"
            new = "".join(rng.choice(["a", "c", "\n", ""]) for _ in range(rng.randrange(4)))
            if old != new:
                edits.append((old, new, rng.random() < .3))
        if not edits:
            continue
        (workspace / "f").write_bytes(content.encode())
        observation = client.observe("edit_file", {"path": "f", "edits": [
            edit(old, new, all=every) for old, new, every in edits]}, {"durability": "fast"})
        expected = reference(content.encode(), [(old.encode(), new.encode(), every) for old, new, every in edits])
        assert observation["success"] == (expected is not None), (content, edits, observation)
        assert (workspace / "f").read_bytes() == (content.encode() if expected is None else expected), (content, edits)
        made += observation["success"]
    assert made > 300


@user_mode_only
def test_editors_of_one_file_lose_no_edit(start_daemon, workspace, account):
    """Eight files processes of eight daemons edit one file: none undoes what another one has written."""
    editors, edits = 8, EDITS
    (workspace / "f").write_text("".join(f"<{i}:0>\n" for i in range(editors)))
    daemons = [start_daemon() for _ in range(editors)]

    def work(number):
        with daemons[number].connect() as client:
            client.call("workspace.open", {"root": str(workspace)})
            for i in range(edits):
                while True:
                    observation = client.observe("edit_file", {"path": "f", "edits": [
                        edit(f"<{number}:{i}>", f"<{number}:{i + 1}>")]}, {"durability": "fast"})
                    if observation["success"]:
                        break
                    assert observation["error"]["code"] in ("STALE_FILE", "BUSY"), observation

    threads = [threading.Thread(target=work, args=(number,)) for number in range(editors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with acting_as(account.uid, account.gid):
        assert (workspace / "f").read_text() == "".join(f"<{i}:{edits}>\n" for i in range(editors))
        assert [name for name in os.listdir(workspace) if name.startswith(".cloister")] == []


def test_an_edit_and_a_command_that_renames_lose_nothing(client, workspace):
    """A command replaces the file all the time by one with a higher number; an edit never brings a lower one back."""
    (workspace / "f").write_text("0 mark\n")
    number = client.begin("run_command", {
        "command": "i=1; while [ $i -le 150 ]; do echo $i mark > .new && mv .new f; i=$((i+1)); done", "timeout_ms": 60000})
    with_edit = 0
    while client.observe("read_file", {"path": "f"})["output"]["content"].split()[1] != "150":
        observation = client.observe("edit_file", {"path": "f", "edits": [edit("mark", "edited")]}, {"durability": "fast"})
        with_edit += observation["success"]
    assert client.result(number)["success"]
    assert (workspace / "f").read_text().split()[0] == "150"
    assert os.listdir(workspace) == ["f"]


# What models are offered


def test_the_five_tools_stay_the_default(client, workspace):
    names = [tool["function"]["name"] for tool in client.call("tools.list")["tools"]]
    assert names == ["read_file", "write_file", "list_directory", "run_command", "search_files"]
    assert "expect" not in str(client.call("tools.list"))


# cloister edit


@pytest.fixture
def edits(area, daemon, workspace):
    """Runs `cloister edit` on the file f. Returns its exit status, and what it printed on stdout and on stderr."""
    def run(*words, patch=None):
        words = ["cloister", "--socket", str(daemon.socket), "--workspace", str(workspace), "edit", *words]
        if patch is not None:
            words += ["--patch", "-"]
        with area.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            stdout, stderr = process.communicate(patch, timeout=120)
        return process.returncode, stdout, stderr
    (workspace / "f").write_text("one\ntwo\ntwo\n")
    return run


def test_cloister_edit(edits, client, workspace):
    version = client.use("read_file", path="f")["version"]
    assert edits("f", "one", "1") == (0, "@@ -1,3 +1,3 @@\n-one\n+1\n two\n two\n", "")
    assert (workspace / "f").read_text() == "1\ntwo\ntwo\n"
    assert edits("--all", "f", "two", "2")[0] == 0
    assert (workspace / "f").read_text() == "1\n2\n2\n"
    assert json.loads(edits("--json", "f", "1", "one")[1])["output"]["replacements"] == 1
    for words, word in ((("f", "2", "3"), "AMBIGUOUS_MATCH"), (("f", "4", "5"), "NO_MATCH"), (("g", "4", "5"), "NOT_FOUND"),
                        (("--expect", version, "f", "one", "1"), "STALE_FILE")):
        status, said, error = edits(*words)
        assert (status, said) == (1, "") and word in error
    assert (workspace / "f").read_text() == "one\n2\n2\n"


def test_cloister_edit_by_a_patch(edits, workspace):
    patch = "*** Begin Patch\n*** Update File: f\n*** Move to: g\n-one\n+1\n*** Add File: h\n+new\n*** End Patch\n"
    assert edits(patch=patch) == (0, "move g (was f) +1 -1\nadd h +1 -0\n", "")
    assert (workspace / "g").read_text() == "1\ntwo\ntwo\n" and (workspace / "h").read_text() == "new\n"
    status, said, error = edits(patch=patch)
    assert (status, said) == (1, "") and "NOT_FOUND" in error
    assert edits("--patch", "/nonexistent")[0] == 125


@pytest.mark.parametrize("words", [(), ("f",), ("f", "one"), ("--patch", "p", "f"), ("--all", "--patch", "p"), ("f", "one", "1", "2")])
def test_cloister_edit_with_wrong_words(edits, workspace, words):
    status, said, error = edits(*words)
    assert (status, said) == (2, "") and error.startswith("cloister: ")
    assert (workspace / "f").read_text() == "one\ntwo\ntwo\n"
