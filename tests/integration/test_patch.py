# SPDX-License-Identifier: Apache-2.0
"""apply_patch through the real daemon: what it does, what it refuses, and that all of it is done or nothing."""

import os
import random
import signal
import stat
import threading

import procfs
import pytest
from cloister_client import acting_as
from daemon import user_mode_only

pytestmark = pytest.mark.usefixtures("as_user")

MIB = 1 << 20
FILE = "one\n\tif (two) {\n\t\tthree(\"3\");\n\t}\nfour\nfour\nfive\n"
CLASSES = "".join(f"class {name}:\n    def get(self):\n        x = 0\n        return x\n\n" for name in "ABC")


def patch(*lines):
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def update(path, *lines, to=None):
    return "\n".join((f"*** Update File: {path}", *([f"*** Move to: {to}"] if to else []), *lines))


def add(path, *lines):
    return "\n".join((f"*** Add File: {path}", *("+" + line for line in lines)))


def delete(path):
    return f"*** Delete File: {path}"


def tree(directory):
    """Everything in the directory: path to inode, mode, time and content."""
    found = {}
    for base, directories, files in os.walk(directory):
        for name in directories + files:
            path = os.path.join(base, name)
            status = os.lstat(path)
            content = open(path, "rb").read() if stat.S_ISREG(status.st_mode) else None
            found[os.path.relpath(path, directory)] = (
                status.st_ino, status.st_mode, content if content is None else (status.st_mtime_ns, content))
    return found


def failure(client, workspace, text, **more):
    """The error of a patch that must not change anything."""
    before = tree(workspace)
    error = client.fail("apply_patch", patch=text, **more)
    assert tree(workspace) == before, error
    return error


def contents(workspace):
    return {path: entry[2][1].decode() for path, entry in tree(workspace).items() if entry[2] is not None}


def test_all_operations_at_once(client, workspace):
    (workspace / "f").write_text(FILE)
    (workspace / "f").chmod(0o751)
    (workspace / "old").write_text("a\nb\n")
    (workspace / "old").chmod(0o640)
    (workspace / "gone").write_text("x\ny")
    output = client.use("apply_patch", patch=patch(
        update("f", "@@", " one", "-\tif (two) {", "+\tif (2) {", " \t\tthree(\"3\");"), add("new/dir/file", "1", "", "3"),
        update("old", "@@", " a", "+a2", " b", to="moved/old"), delete("gone"), add("empty")))
    assert contents(workspace) == {"f": FILE.replace("two", "2"), "new/dir/file": "1\n\n3\n", "moved/old": "a\na2\nb\n", "empty": ""}
    assert (workspace / "f").stat().st_mode & 0o7777 == 0o751
    assert (workspace / "moved/old").stat().st_mode & 0o7777 == 0o640
    version = {path: client.use("read_file", path=path)["version"] for path in contents(workspace)}
    assert output["files"] == [
        {"path": "f", "op": "update", "added": 1, "removed": 1, "version": version["f"]},
        {"path": "new/dir/file", "op": "add", "added": 3, "removed": 0, "version": version["new/dir/file"]},
        {"path": "moved/old", "op": "move", "old_path": "old", "added": 1, "removed": 0, "version": version["moved/old"]},
        {"path": "gone", "op": "delete", "added": 0, "removed": 2},
        {"path": "empty", "op": "add", "added": 0, "removed": 0, "version": version["empty"]}]


HUNKS = {  # file, hunks' lines, file afterwards
    "a hunk without @@": (FILE, ["-one", "+1"], FILE.replace("one", "1")),
    "a whole file": ("a\nb\n", ["-a", "-b", "+c"], "c\n"), "to nothing": ("a\n", ["-a"], ""), "from nothing": ("", ["+a"], "a\n"),
    "an empty line without a space": ("a\n\nb\n", ["@@", " a", "", "-b", "+c"], "a\n\nc\n"),
    "several hunks, the later first": (FILE, ["@@", "-five", "+5", "@@", "-one", "+1"], FILE.replace("one", "1").replace("five", "5")),
    "hunks that share context": ("a\nb\nc\nd\ne\n", ["@@", " a", "-b", "+B", " c", "@@", " c", "-d", "+D", " e"], "a\nB\nc\nD\ne\n"),
    "an anchor": (CLASSES, ["@@ class C:", "     def get(self):", "-        x = 0", "+        x = 1"],
                  CLASSES[::-1].replace("0 = x", "1 = x", 1)[::-1]),
    "an anchor without its indent, directly above": (CLASSES, ["@@ class B:", "@@ def get(self):", "-        x = 0", "+        x = 1"],
                                                     None),
    "the line directly below an anchor": (CLASSES, ["@@ class B:", "     def get(self):", "-        x = 0", "+        x = 1"],
                                          CLASSES.replace("class B:\n    def get(self):\n        x = 0",
                                                          "class B:\n    def get(self):\n        x = 1")),
    "only new lines below an anchor": (CLASSES, ["@@ class B:", "+    y = 1"], CLASSES.replace("class B:\n", "class B:\n    y = 1\n")),
    "only new lines at the end": ("a\nb\n", ["@@", "+c", "*** End of File"], "a\nb\nc\n"),
    "lines at the end": ("a\nb\na\n", ["@@", "-a", "+c", "*** End of File"], "a\nb\nc\n"),
    "a last line without a newline": ("a\nb", ["@@", " a", "-b", "+c"], "a\nc"), "which goes": ("a\nb", ["@@", "-b"], "a"),
    "and more after it": ("a", ["@@", "+b", "*** End of File"], "a\nb"),
    "crlf": ("a\r\nb\r\nc\r\n", ["@@", " a", "-b", "+B", "+B2", " c"], "a\r\nB\r\nB2\r\nc\r\n"),
    "crlf without a last newline": ("a\r\nb", ["@@", " a", "-b", "+c"], "a\r\nc"),
    "mixed line ends": ("a\r\nb\nc\n", ["@@", "-b", "+B"], "a\r\nB\nc\n"),
    "a carriage return of its own": ("a\r\nb\r\n", ["@@", "-a\r", "+A\r"], "A\r\nb\r\n"),
    "lines that begin with signs": ("-a\n+b\n c\n", ["@@", "--a", "+-A", " +b", "  c"], "-A\n+b\n c\n"),
    "additions around a removal": ("a\nb\nc\n", ["@@", " a", "+x", "-b", "+y", " c"], "a\nx\ny\nc\n"),
}


@pytest.mark.parametrize("name", [name for name in HUNKS if HUNKS[name][2] is not None])
def test_hunks(client, workspace, name):
    content, hunks, expected = HUNKS[name]
    (workspace / "f").write_bytes(content.encode())
    client.use("apply_patch", patch=patch(update("f", *hunks)))
    assert (workspace / "f").read_bytes() == expected.encode()
    assert os.listdir(workspace) == ["f"]


WRONG = [  # file, hunks' lines, code, hunk, kind, lines, words of the sentence
    (FILE, ["@@", "-six", "+6"], "NO_MATCH", 1, "absent", [], "f, hunk 1: old is not in the file"),
    (FILE, ["@@", "-        if (two) {", "+x"], "NO_MATCH", 1, "white_space", [2], "only in leading white space"),
    (FILE, ["@@", "-one", "+1", "@@", "-     7\tfive", "+5"], "NO_MATCH", 2, "line_numbers", [7], "line number"),
    (FILE, ["@@", "-on", "+1"], "NO_MATCH", 1, "different", [1], "line 1 differs"),
    (FILE, ["@@", "-ne", "+1"], "NO_MATCH", 1, "part", [1], "only the end of line 1"),
    (FILE, ["@@", "-four", "+4"], "AMBIGUOUS_MATCH", 1, "several", [5, 6], "2 times: lines 5, 6"),
    (FILE, ["@@ one", "-four", "+4"], "AMBIGUOUS_MATCH", 1, "several", [5, 6], "below its @@ line"),
    (CLASSES, ["@@ class B:", "-        x = 0", "+        x = 1"], "AMBIGUOUS_MATCH", 1, "several", [8, 13], "below its @@ line"),
    (CLASSES, ["@@ def get(self):", "-        x = 0", "+1"], "AMBIGUOUS_MATCH", 1, "several", [3, 8, 13], "3 times"),
    ("a\n" * 50, ["@@", "-a", "+b"], "AMBIGUOUS_MATCH", 1, "several", list(range(1, 11)), "more than 10 times"),
    (FILE, ["@@ five", "-one", "+1"], "NO_MATCH", 1, "anchor", [1], "above its @@ line"),
    (FILE, ["@@ six", "-one", "+1"], "NO_MATCH", 1, "anchor", [], 'no line of the file is "six"'),
    (FILE, ["@@ five", "@@ one", "-four", "+1"], "NO_MATCH", 1, "anchor", [], "below those of the @@ lines before"),
    (FILE, ["@@", "-one", "+1", "*** End of File"], "NO_MATCH", 1, "end", [1], "not the end of the file"),
    (FILE, ["@@", "+new"], "AMBIGUOUS_MATCH", 1, "no_lines", [], "only lines with +"),
    (FILE, ["@@ four", "+new"], "AMBIGUOUS_MATCH", 1, "no_lines", [], "several times"),
    (FILE, ["@@", "-one", "+1", "@@", "-one", "+2"], "EDITS_OVERLAP", 2, "overlap", [1], "hunks 1 and 2"),
    (FILE, ["@@", " one", "+1", "@@", "+2", " \tif (two) {"], "EDITS_OVERLAP", 2, "overlap", [2], "hunks 1 and 2"),
    (FILE, ["@@", "-one", "+one"], "INVALID_ARGUMENTS", 1, "unchanged", [], "the same"),
    (FILE, ["@@", " one", "-three(3);"], "NO_MATCH", 1, "different", [1], "line 2 differs"),
    (FILE, ["@@", "-sechs", "+five"], "NO_MATCH", 1, "already", [7], "new is already at line 7"),
    ("a\r\nb\nc\n", ["@@", "-a", "-b", "+x"], "NO_MATCH", 1, "line_endings", [1], "some lines of the file end with"),
]


@pytest.mark.parametrize("content,hunks,code,hunk,kind,lines,words", WRONG)
def test_a_mistake_changes_nothing_and_is_explained(client, workspace, content, hunks, code, hunk, kind, lines, words):
    (workspace / "f").write_bytes(content.encode())
    (workspace / "before").write_text("x\n")
    error = failure(client, workspace, patch(update("before", "-x", "+y"), update("f", *hunks), add("d/e/new", "1")))
    data = error["data"]
    assert (error["code"], data["file"], data["hunk"], data["kind"], data["lines"]) == (code, "f", hunk, kind, lines), error
    assert words in error["message"] and error["message"].endswith("Nothing of the patch was done"), error["message"]
    assert len(error["message"]) < 1024


def test_the_closest_lines_can_be_copied(client, workspace):
    (workspace / "f").write_text("a\n\tlast line")
    closest = failure(client, workspace, patch(update("f", "@@", "-  last line", "+x")))["data"]["closest"]
    assert closest == "\tlast line"
    client.use("apply_patch", patch=patch(update("f", "@@", "-" + closest, "+x")))
    assert (workspace / "f").read_text() == "a\nx"


OTHER = [  # the patch's second file, code, words
    (update("none", "-a", "+b"), "NOT_FOUND", "none: "), (delete("none"), "NOT_FOUND", "none: "),
    (update("none", "-a", "+b", to="other"), "NOT_FOUND", "none: "), (update(".", "-a", "+b"), "IS_A_DIRECTORY", ".: "),
    (delete("d"), "IS_A_DIRECTORY", "d: "), (add("d", "x"), "IS_A_DIRECTORY", "d: "), (add("f/x", "x"), "NOT_A_DIRECTORY", "f/x: "),
    (add("f", "x"), "STALE_FILE", "f: the file exists"), (update("f", "-a", "+b", to="g"), "STALE_FILE", "f: the file exists"),
    (update("f", "-a", "+b", to="d"), "IS_A_DIRECTORY", "f: "), (delete("link"), "NOT_A_REGULAR_FILE", "symbolic link"),
    (update("link", to="other"), "NOT_A_REGULAR_FILE", "symbolic link"), (update("out", "-a", "+b"), "SYMLINK_OUTSIDE_WORKSPACE", "out: "),
    (add("outdir/x", "x"), "SYMLINK_OUTSIDE_WORKSPACE", "outdir/x: "), (update("fifo", "-a", "+b"), "NOT_A_REGULAR_FILE", "fifo: "),
    (delete("fifo"), "NOT_A_REGULAR_FILE", "fifo: "), (update("kept", "-a", "+b"), "PERMISSION_DENIED", "kept: "),
    (delete("kept"), "PERMISSION_DENIED", "kept: "), (update("kept", to="free"), "PERMISSION_DENIED", "kept: "),
    (add("closed/x", "x"), "PERMISSION_DENIED", "closed/x: "), (delete("closed/y"), "PERMISSION_DENIED", ""),
    (update("secret", "-a", "+b"), "PERMISSION_DENIED", "secret: "), (add("../x", "x"), "PATH_OUTSIDE_WORKSPACE", "line 5 of the patch"),
    (update("f", "-a", "+b", to="/etc/x"), "PATH_OUTSIDE_WORKSPACE", "line 6 of the patch"),
    (add("n" * 256, "x"), "NAME_TOO_LONG", "")]


@pytest.mark.parametrize("second,code,words", OTHER)
def test_one_file_that_cannot_be_changed_stops_all(client, workspace, second, code, words):
    for name in ("first", "f", "g", "kept", "target", "secret"):
        (workspace / name).write_text("a\n")
    (workspace / "d").mkdir()
    (workspace / "closed").mkdir()
    (workspace / "closed/y").write_text("a\n")
    (workspace / "link").symlink_to("target")
    (workspace / "out").symlink_to("/etc/passwd")
    (workspace / "outdir").symlink_to("/etc")
    os.mkfifo(workspace / "fifo")
    (workspace / "kept").chmod(0o444)
    (workspace / "secret").chmod(0)
    (workspace / "closed").chmod(0o555)
    try:
        with_modes = {name: os.lstat(workspace / name).st_mode for name in os.listdir(workspace)}
        error = client.fail("apply_patch", patch=patch(update("first", "-a", "+b"), second, add("new/third", "x")))
        assert (error["code"], words in error["message"]) == (code, True), error
        assert {name: os.lstat(workspace / name).st_mode for name in os.listdir(workspace)} == with_modes
        assert (workspace / "first").read_text() == (workspace / "f").read_text() == "a\n"
        assert os.listdir(workspace / "closed") == ["y"]
    finally:
        (workspace / "closed").chmod(0o755)
        (workspace / "secret").chmod(0o644)


def test_links_are_as_write_file_takes_them(client, workspace):
    (workspace / "target").write_text("a\n")
    (workspace / "link").symlink_to("target")
    os.link(workspace / "target", workspace / "hard")
    client.use("apply_patch", patch=patch(update("link", "-a", "+b")))
    assert (workspace / "link").is_symlink()
    assert contents(workspace) == {"target": "b\n", "hard": "a\n"}


@pytest.mark.parametrize("first,second", [
    (update("f", "-a", "+1"), update("link", "-b", "+2")), (update("f", "-a", "+1"), update("d/../f", "-b", "+2")),
    (update("d/f", "-a", "+1"), delete("to/f")), (update("d/f", "-a", "+1"), update("to/f", to="g")),
    (delete("f"), update("link", "-a", "+1")), (delete("d/f"), delete("to/f")), (add("new/f", "x"), add("new/../new/f", "y")),
    (update("f", "-a", "+1", to="g"), add("d/../g", "y"))])
def test_one_file_by_two_names(client, workspace, first, second):
    """Neither would find what it has read. Nothing was changed meanwhile, so there is nothing to wait for."""
    (workspace / "d").mkdir()
    for path in ("f", "d/f"):
        (workspace / path).write_text("a\nb\n")
    (workspace / "link").symlink_to("f")
    (workspace / "to").symlink_to("d")
    error = failure(client, workspace, patch(first, second))
    assert error["code"] == "INVALID_ARGUMENTS" and "twice" in error["message"], error
    assert "Nothing of the patch was done" in error["message"]


def test_bounds(client, workspace):
    files = [add(f"d/{i}", str(i)) for i in range(65)]
    error = failure(client, workspace, patch(*files))
    assert error["code"] == "INVALID_ARGUMENTS" and "more than 64 files" in error["message"]
    assert len(client.use("apply_patch", patch=patch(*files[:64]))["files"]) == 64
    assert contents(workspace) == {f"d/{i}": f"{i}\n" for i in range(64)}


@pytest.mark.deep("slow")
def test_sixteen_mib(client, workspace):
    (workspace / "a").write_bytes(b"x" * (8 * MIB - 2) + b"\n1")
    (workspace / "b").write_bytes(b"y" * (8 * MIB - 2) + b"\n2")
    client.use("apply_patch", {"durability": "fast"}, patch=patch(update("a", "@@", "-1", "+3"), update("b", "@@", "-2", "+4")))
    assert (workspace / "a").read_bytes()[-2:] == b"\n3" and (workspace / "b").read_bytes()[-2:] == b"\n4"
    for text in (patch(update("a", "@@", "-3", "+55"), update("b", "@@", "-4", "+6")),
                 patch(update("a", "@@", "-3", "+5"), update("b", "@@", "-4", "+6"), add("c", "7"))):
        assert failure(client, workspace, text)["code"] == "FILE_TOO_LARGE"
    (workspace / "c").write_text("1\n")
    assert failure(client, workspace, patch(delete("a"), delete("b"), delete("c")))["code"] == "FILE_TOO_LARGE"
    error = failure(client, workspace, patch(add("d", "x" * (16 * MIB))))
    assert error["code"] == "FILE_TOO_LARGE", error


def test_with_a_key_it_runs_once(client, workspace):
    (workspace / "f").write_text("a\n")
    text = patch(update("f", "@@", " a", "+b"))
    first = client.observe("apply_patch", {"patch": text}, {"key": "k"})
    again = client.observe("apply_patch", {"patch": text}, {"key": "k"})
    assert first["success"] and again["replayed"] and again["output"] == first["output"]
    assert (workspace / "f").read_text() == "a\nb\n"
    other = client.observe("apply_patch", {"patch": text + "\n"}, {"key": "k"})
    assert other["error"]["code"] == "KEY_CONFLICT"


def test_two_with_keys_at_once(daemon, client, workspace):
    """Each is made on the very files that were recorded for it, or not at all: the later one is STALE_FILE."""
    (workspace / "f").write_text("".join(f"{n}\n" for n in range(9)))
    files = daemon.cell_of(workspace)[1]
    with acting_as(os.getuid()):
        procfs.stop(files)
    try:
        numbers = [client.begin("apply_patch", {"patch": patch(update("f", f"-{n}", f"+new {n}"))}, {"key": f"at-once-{n}"})
                   for n in (1, 7)]
        client.call("tools.list", {"format": "mcp"})  # cloisterd has sent both
    finally:
        with acting_as(os.getuid()):
            os.kill(files, signal.SIGCONT)
    first, second = (client.result(number) for number in numbers)
    assert first["success"] and second["error"]["code"] == "STALE_FILE"
    assert "Nothing of the patch was done" in second["error"]["message"]
    later = {"patch": patch(update("f", "-7", "+new 7"))}
    assert client.observe("apply_patch", later, {"key": "at-once-7"})["replayed"]  # its key keeps that answer
    assert (workspace / "f").read_text() == "0\nnew 1\n2\n3\n4\n5\n6\n7\n8\n"
    assert client.observe("apply_patch", later, {"key": "another"})["success"]
    assert (workspace / "f").read_text() == "0\nnew 1\n2\n3\n4\n5\n6\nnew 7\n8\n"


# Beside others


@pytest.mark.deep("slow")
def test_a_command_that_renames_loses_nothing(client, workspace):
    """A command replaces the second file all the time; a patch of three is never there in part."""
    for name in "abc":
        (workspace / name).write_text("0 mark\n")
    number = client.begin("run_command", {
        "command": "i=1; while [ $i -le 600 ]; do echo $i mark > .new && mv .new b; i=$((i+1)); done", "timeout_ms": 60000})
    made = 0
    while client.observe("read_file", {"path": "b"}, {"line_numbers": False})["output"]["content"].split()[0] != "600":
        at = client.use("read_file", {"line_numbers": False}, path="b")["content"].rstrip("\n")
        observation = client.observe("apply_patch", {"patch": patch(
            update("a", "@@", "-0 mark", "+1 mark"), update("b", "@@", f"-{at}", f"+{at} patched"), delete("c"))}, {"durability": "fast"})
        if observation["success"]:
            made += 1
            client.use("apply_patch", {"durability": "fast"}, patch=patch(update("a", "@@", "-1 mark", "+0 mark"), add("c", "0 mark")))
        else:
            assert observation["error"]["code"] in ("STALE_FILE", "NO_MATCH"), observation["error"]
        assert ((workspace / "a").read_text(), (workspace / "c").read_text()) == ("0 mark\n", "0 mark\n")
    assert client.result(number)["success"]
    assert (workspace / "b").read_text().split()[0] == "600"
    assert sorted(os.listdir(workspace)) == ["a", "b", "c"]


@user_mode_only
def test_patches_of_several_daemons_lose_no_line(start_daemon, workspace, account):
    """Four files processes patch the same three files. Each patch is done whole or not at all, unless another process has
    built on a part of it meanwhile: then the answer says which files have been changed."""
    writers, rounds, names = 4, 15, "abc"
    for name in names:
        (workspace / name).write_text("".join(f"<{i}:0>\n" for i in range(writers)))
    daemons = [start_daemon() for _ in range(writers)]
    wrong = []

    def work(number):
        with daemons[number].connect() as client:
            client.call("workspace.open", {"root": str(workspace)})
            for i in range(rounds):
                left = random.Random(number).sample(names, 3)
                while left:
                    observation = client.observe("apply_patch", {"patch": patch(*(
                        update(name, "@@", f"-<{number}:{i}>", f"+<{number}:{i + 1}>") for name in left))}, {"durability": "fast"})
                    if observation["success"]:
                        break
                    error = observation["error"]
                    if error["code"] not in ("STALE_FILE", "BUSY"):
                        wrong.append(observation)
                        return
                    changed = [file["path"] for file in error.get("data", {}).get("files", []) if file["state"] != "unchanged"]
                    left = [name for name in left if name not in changed]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with acting_as(account.uid, account.gid):
        for name in names:
            assert (workspace / name).read_text() == "".join(f"<{i}:{rounds}>\n" for i in range(writers)), name
        assert sorted(os.listdir(workspace)) == list(names)
