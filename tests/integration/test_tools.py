# SPDX-License-Identifier: Apache-2.0
"""The four file tools through the real daemon. run_command is in test_commands.py."""

import base64
import json
import os
import re
import socket
import stat
import subprocess
import threading

import procfs
import pytest
from cloister_client import acting_as
from daemon import user_mode_only

pytestmark = pytest.mark.usefixtures("as_user")

KIB, MIB = 1 << 10, 1 << 20
READ_LIMIT = MIB  # LIMIT_READ_BYTES
RAW = {"line_numbers": False}


def b64(data):
    return base64.b64encode(data).decode()


def code(client, tool, options=None, **arguments):
    return client.fail(tool, options, **arguments)["code"]


def paths(output, key="entries"):
    return [entry["path"] for entry in output[key]]


# read_file


def test_reading_numbers_lines_as_cat_does(client, workspace):
    (workspace / "f").write_text("one\n\n\tthree\nfour")
    output = client.use("read_file", path="f")
    assert output.pop("version")
    assert output == {
        "path": "f", "content": subprocess.check_output(["cat", "-n", workspace / "f"], text=True),
        "lines": 4, "total_lines": 4, "size": 16, "truncated": False, "encoding": "utf-8"}
    assert client.use("read_file", RAW, path="f")["content"] == "one\n\n\tthree\nfour"


def test_a_range_of_a_file_of_any_size(client, workspace):
    line = "x" * 99 + "\n"
    with open(workspace / "big", "w") as file:
        for i in range(100):
            file.write(line * 10000)
    output = client.use("read_file", RAW, path="big", start_line=999999, end_line=1000000)
    assert output["content"] == line * 2
    assert output["size"] == 100 * 1000 * 1000
    assert client.use("read_file", path="big", end_line=1)["content"] == "     1\t" + line


def test_a_file_over_the_cap_is_refused_with_advice(client, workspace):
    (workspace / "f").write_text("x" * READ_LIMIT)
    assert len(client.use("read_file", RAW, path="f")["content"]) == READ_LIMIT
    (workspace / "f").write_text("x" * READ_LIMIT + "\n" + "y\n")
    for options in (None, RAW, {"encoding": "base64"}):
        error = client.fail("read_file", options, path="f")
        assert error["code"] == "FILE_TOO_LARGE"
        assert "start_line" in error["message"]
    assert client.use("read_file", path="f", start_line=2)["content"] == "     2\ty\n"
    (workspace / "f").write_text("\n" * READ_LIMIT)
    assert client.use("read_file", path="f")["lines"] == READ_LIMIT


def test_base64_both_ways(client, workspace):
    data = bytes(range(256)) * 1000
    output = client.use("write_file", {"encoding": "base64"}, path="f", content=b64(data))
    assert output["bytes_written"] == len(data)
    assert (workspace / "f").read_bytes() == data
    output = client.use("read_file", {"encoding": "base64"}, path="f")
    assert base64.b64decode(output["content"], validate=True) == data
    assert output["encoding"] == "base64"
    assert code(client, "write_file", {"encoding": "base64"}, path="f", content="no base64!") == \
        "INVALID_ARGUMENTS"
    assert (workspace / "f").read_bytes() == data


@pytest.mark.parametrize("tool", ["read_file", "write_file", "search_files"])
def test_special_files_are_refused_without_blocking(client, workspace, tool):
    os.mkfifo(workspace / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(workspace / "sock"))
    arguments = {"content": "x"} if tool == "write_file" else {}
    if tool == "search_files":
        arguments["pattern"] = "x"
    names = ["fifo", "sock"]
    if os.getuid() == 0:
        with acting_as(0):
            os.mknod(workspace / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        names.append("device")
    for name in names:
        assert code(client, tool, path=name, **arguments) == "NOT_A_REGULAR_FILE"
    listener.close()
    if tool == "search_files":
        assert client.use("search_files", pattern="x")["count"] == 0


def test_what_is_not_there(client, workspace):
    (workspace / "file").touch()
    (workspace / "directory").mkdir()
    for tool, extra in (("read_file", {}), ("list_directory", {}), ("search_files", {"pattern": "x"})):
        assert code(client, tool, path="absent", **extra) == "NOT_FOUND"
        assert code(client, tool, path="absent/below", **extra) == "NOT_FOUND"
        assert code(client, tool, path="file/below", **extra) == "NOT_A_DIRECTORY"
    assert code(client, "read_file", path="directory") == "IS_A_DIRECTORY"
    assert code(client, "read_file", path=".") == "IS_A_DIRECTORY"
    assert code(client, "write_file", path="directory", content="") == "IS_A_DIRECTORY"
    assert code(client, "write_file", path="file/below", content="") == "NOT_A_DIRECTORY"
    assert code(client, "list_directory", path="file") == "NOT_A_DIRECTORY"


def test_what_may_not_be_read_or_written(client, workspace):
    secret = workspace / "secret"
    secret.write_text("old")
    secret.chmod(0)
    closed = workspace / "closed"
    closed.mkdir(0o500)
    assert code(client, "read_file", path="secret") == "PERMISSION_DENIED"
    assert code(client, "write_file", path="secret", content="new") == "PERMISSION_DENIED"
    assert code(client, "write_file", path="closed/new", content="") == "PERMISSION_DENIED"
    secret.chmod(0o600)
    assert secret.read_text() == "old"
    assert not list(closed.iterdir())


# Paths


def test_paths_that_lead_outside(client, workspace):
    parent = workspace.parent
    for path in ("..", "../x", "../" * 50 + "etc/passwd", "a/../../x", "/etc/passwd", "/", str(parent),
                 f"{workspace}/../x", f"{workspace}x", "..\\..\\etc\\passwd", "C:\\Windows\\system32",
                 "c:/x", "\\etc\\passwd"):
        for tool, extra in (("read_file", {}), ("list_directory", {}), ("search_files", {"pattern": "x"}),
                            ("write_file", {"content": "x"})):
            error = client.fail(tool, path=path, **extra)
            assert error["code"] == "PATH_OUTSIDE_WORKSPACE", (tool, path)
            assert error["message"] == "Invalid path: access outside workspace is not allowed"


def test_paths_that_stay_inside(client, workspace):
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("x")
    for path in ("d/f", "./d/f", "d//f", "d/./f", "d/../d/f", str(workspace / "d/f"), "d\\f",
                 ".\\d\\f", f"{workspace}//d/./f", str(workspace).replace("/", "\\") + "\\d\\f"):
        output = client.use("read_file", RAW, path=path)
        assert (output["path"], output["content"]) == ("d/f", "x"), path
    for path in (".", "./", str(workspace), f"{workspace}/"):
        assert paths(client.use("list_directory", path=path)) == ["d"], path


def test_links_that_stay_inside_are_followed(client, workspace):
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("x")
    links = {"file": "d/f", "up": "d/../d/f", "absolute": str(workspace / "d/f"), "dir": "d",
             "absdir": str(workspace / "d"), "d/back": "..", "chain": "absdir/back/file"}
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    for path in ("file", "up", "absolute", "dir/f", "absdir/f", "d/back/d/f", "chain"):
        assert client.use("read_file", RAW, path=path)["content"] == "x", path
    client.use("write_file", path="absdir/new", content="y")
    client.use("write_file", path="file", content="z")
    assert (workspace / "d/new").read_text() == "y"
    assert (workspace / "d/f").read_text() == "z"
    assert (workspace / "file").is_symlink()


def test_links_that_lead_outside_are_refused(daemon, client, workspace):
    outside = daemon.area.new_directory("outside")
    (outside / "f").write_text("secret")
    (workspace / "d").mkdir()
    links = {"passwd": "/etc/passwd", "out": f"../{outside.name}/f", "dir": str(outside),
             "d/climb": f"../../{outside.name}", "chain": "dir/f", "new": str(outside / "new"),
             "proc": "/proc/self/root/etc/passwd"}
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    for path in ("passwd", "out", "dir/f", "d/climb/f", "chain", "proc"):
        for tool, extra in (("read_file", {}), ("write_file", {"content": "x"}),
                            ("search_files", {"pattern": "secret"})):
            assert code(client, tool, path=path, **extra) == "SYMLINK_OUTSIDE_WORKSPACE", (tool, path)
    assert code(client, "list_directory", path="dir") == "SYMLINK_OUTSIDE_WORKSPACE"
    assert code(client, "write_file", path="new", content="x") == "SYMLINK_OUTSIDE_WORKSPACE"
    assert code(client, "write_file", path="dir/made/f", content="x") == "SYMLINK_OUTSIDE_WORKSPACE"
    assert sorted(os.listdir(outside)) == ["f"]
    assert (outside / "f").read_text() == "secret"
    # Searches and listings do not follow links that they meet.
    assert client.use("search_files", pattern="secret")["count"] == 0
    assert "dir/f" not in paths(client.use("list_directory", path=".", recursive=True))


def test_link_loops(client, workspace):
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert code(client, "read_file", path="a") == "TOO_MANY_LINKS"
    assert code(client, "read_file", path="a/f") == "TOO_MANY_LINKS"
    assert paths(client.use("list_directory", path=".", recursive=True)) == ["a", "b"]


# write_file


def test_writing(client, workspace):
    output = client.use("write_file", path="f", content="first\n")
    assert output.pop("version")
    assert output == {"path": "f", "bytes_written": 6, "created": True}
    output = client.use("write_file", path="f", content="zwölf")
    assert output.pop("version")
    assert output == {"path": "f", "bytes_written": 6, "created": False}
    assert (workspace / "f").read_text() == "zwölf"
    assert client.use("write_file", path="f", content="")["bytes_written"] == 0
    assert (workspace / "f").stat().st_size == 0
    client.use("write_file", path="f", content="a\0b")
    assert (workspace / "f").read_bytes() == b"a\0b"
    assert os.listdir(workspace) == ["f"]


def test_large_content(client, workspace):
    content = "0123456789abcde\n" * (MIB // 16 * 10)
    assert client.use("write_file", path="f", content=content)["bytes_written"] == 10 * MIB
    assert (workspace / "f").read_text() == content
    error = client.fail("write_file", path="f", content="x" * (16 * MIB + 1))
    assert error["code"] == "FILE_TOO_LARGE"
    assert (workspace / "f").stat().st_size == 10 * MIB


def test_a_reader_sees_the_old_or_the_new_content(client, workspace):
    contents = {letter * 300000 for letter in "ab"}
    client.use("write_file", path="f", content="a" * 300000)
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            seen.add((workspace / "f").read_text())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for i in range(200):
            client.use("write_file", path="f", content="ab"[i % 2] * 300000)
    finally:
        stop.set()
        reader.join()
    assert seen == contents
    assert os.listdir(workspace) == ["f"]


# list_directory


def test_listing(client, workspace):
    (workspace / "b").mkdir()
    (workspace / "b" / "deep").write_text("12345")
    (workspace / "a").write_text("123")
    (workspace / "link").symlink_to("b")
    os.mkfifo(workspace / "fifo")
    os.utime(workspace / "a", (1000000000, 1000000000))
    output = client.use("list_directory", path=".")
    assert output["path"] == "."
    assert output["count"] == 4 and output["truncated"] is False
    assert [(entry["path"], entry["type"]) for entry in output["entries"]] == [
        ("a", "file"), ("b", "directory"), ("fifo", "fifo"), ("link", "symlink")]
    assert output["entries"][0]["size"] == 3
    assert output["entries"][0]["mtime"].startswith("2001-09-09T01:46:40")
    output = client.use("list_directory", path=".", recursive=True)
    assert paths(output) == ["a", "b", "b/deep", "fifo", "link"]
    assert paths(client.use("list_directory", path="b")) == ["b/deep"]
    assert paths(client.use("list_directory", path="link")) in (["b/deep"], ["link/deep"])


def test_patterns(client, workspace):
    for name in ("a.c", "b.h", "d/c.c", "d/e/f.c", "d/e/g.py"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).touch()
    for pattern, expected in (("*.c", ["a.c", "d/c.c", "d/e/f.c"]), ("*.{h,py}", ["b.h", "d/e/g.py"]),
                              ("d/*.c", ["d/c.c"]), ("d/**/*.c", ["d/c.c", "d/e/f.c"]),
                              ("?.c", ["a.c", "d/c.c", "d/e/f.c"]), ("[ab].*", ["a.c", "b.h"]), ("none", [])):
        output = client.use("list_directory", path=".", recursive=True, pattern=pattern)
        assert paths(output) == expected, pattern
    assert paths(client.use("list_directory", path=".", pattern="*.c")) == ["a.c"]
    assert code(client, "list_directory", path=".", pattern="[a") == "INVALID_PATTERN"


def test_gitignore(client, workspace):
    for name in ("kept.c", "left.o", "build/out", "d/left.o", "d/special.o", "d/log"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("needle\n")
    (workspace / ".gitignore").write_text("*.o\n/build/\n")
    (workspace / "d/.gitignore").write_text("!special.o\nlog\n")
    kept = [".gitignore", "d", "d/.gitignore", "d/special.o", "kept.c"]
    assert paths(client.use("list_directory", path=".", recursive=True)) == kept
    found = paths(client.use("search_files", pattern="needle"), "matches")
    assert found == ["d/special.o", "kept.c"]
    everything = paths(client.use("list_directory", {"gitignore": False}, path=".", recursive=True))
    assert {"left.o", "build/out", "d/left.o", "d/log"} < set(everything)
    found = paths(client.use("search_files", {"gitignore": False}, pattern="needle"), "matches")
    assert len(found) == 6
    assert client.use("read_file", RAW, path="build/out")["content"] == "needle\n"


def test_names_that_are_not_utf8(daemon, client, workspace):
    name = b"bad\xff\xfename"
    with open(os.fsencode(workspace) + b"/" + name, "w") as file:
        file.write("needle\n")
    (workspace / "back\\slash").write_text("needle\n")
    entries = client.use("list_directory", path=".")["entries"]
    found = {base64.b64decode(entry["path_base64"]) for entry in entries}
    assert found == {name, b"back\\slash"}
    matches = client.use("search_files", pattern="needle")["matches"]
    assert {base64.b64decode(match["path_base64"]) for match in matches} == found
    for raw in found:
        options = {"path_base64": b64(raw), **RAW}
        assert client.use("read_file", options)["content"] == "needle\n"
        assert client.use("write_file", options, content="new\n")["created"] is False
        assert client.use("read_file", options)["content"] == "new\n"
    assert len(os.listdir(workspace)) == 2
    for outside in (b"../x", b"/etc/passwd"):
        assert code(client, "read_file", {"path_base64": b64(outside)}) == "PATH_OUTSIDE_WORKSPACE"


# search_files


def test_searching(client, workspace):
    (workspace / "d").mkdir()
    (workspace / "a.txt").write_text("nothing\nint main(void)\n")
    (workspace / "d/b.c").write_text("x\n\nint main(int argc)\nint other\n")
    (workspace / "binary").write_bytes(b"int main(\0")
    output = client.use("search_files", pattern=r"^int main\((\w+)")
    assert output["matches"] == [
        {"path": "a.txt", "line": 2, "text": "int main(void)"},
        {"path": "d/b.c", "line": 3, "text": "int main(int argc)"}]
    assert (output["pattern"], output["count"], output["truncated"]) == (r"^int main\((\w+)", 2, False)
    assert output["files_searched"] == 2
    assert paths(client.use("search_files", pattern="main", path="d"), "matches") == ["d/b.c"]
    assert paths(client.use("search_files", pattern="main", path="a.txt"), "matches") == ["a.txt"]
    assert paths(client.use("search_files", pattern="main", file_pattern="*.c"), "matches") == ["d/b.c"]
    assert client.use("search_files", pattern="(?i)INT OTHER")["count"] == 1
    assert client.use("search_files", pattern="no such text")["count"] == 0


def test_a_search_past_its_deadline(client, workspace):
    (workspace / "0").write_bytes(b"some line of text\n" * 3000000)
    for i in range(1, 300):
        os.link(workspace / "0", workspace / str(i))
    error = client.fail("search_files", {"timeout_ms": 200}, pattern="t[a-z]+ of (?!text)")
    assert error["code"] == "TIMEOUT"
    assert client.use("list_directory", path=".")["count"] == 300


def threads_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


@user_mode_only
def test_cancelling_a_search_ends_all_its_threads(own_daemon):
    """Only the job has threads, and they end with it."""
    client = own_daemon.connect()
    workspace = own_daemon.new_workspace(client)
    (workspace / "0").write_bytes(b"some line of text\n" * 3000000)
    for i in range(1, 300):
        os.link(workspace / "0", workspace / str(i))
    number = client.begin("search_files", {"pattern": "t[a-z]+ of (?!text)"})
    ((_, files),) = own_daemon.cells()
    wanted = min(len(os.sched_getaffinity(0)), 4)  # LIMIT_SEARCH_THREADS
    assert procfs.eventually(
        lambda: any(threads_of(job) == wanted for job in procfs.children(files)), 20)
    assert threads_of(files) == 1
    assert client.cancel(number)
    assert client.result(number)["error"]["code"] == "CANCELLED"
    assert procfs.eventually(lambda: not procfs.children(files))


# Whole roots


def call(area, workspace, *words):
    done = area.private(workspace, "call", *words)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_the_host_root_as_a_workspace(area):
    status, observation = call(area, "/", "read_file", "path=/etc/hostname", "--option=line_numbers=false")
    assert status == 0, observation
    with open("/etc/hostname") as file:
        assert observation["output"]["content"] == file.read()
    assert observation["output"]["path"] == "etc/hostname"
    status, observation = call(area, "/", "list_directory", "path=/etc")
    assert status == 0
    assert not [path for path in paths(observation["output"]) if path.startswith("/") or "//" in path]
    status, observation = call(area, "/", "run_command", "command=pwd; ls -d /etc/hostname")
    assert observation["output"]["stdout"] == "/\n/etc/hostname\n"
    assert "//" not in json.dumps(observation)
    status, observation = call(area, "/", "read_file", "path=/../etc/shadow")
    assert status == 1
    assert observation["error"]["code"] in ("PERMISSION_DENIED", "PATH_OUTSIDE_WORKSPACE")


def test_at_the_host_root_nothing_is_writable_that_was_not(area):
    status, observation = call(area, "/", "write_file", "path=/etc/cloister-test", "content=x")
    assert (status, observation["error"]["code"]) == (1, "PERMISSION_DENIED")
    path = area.new_directory() / "made"
    status, observation = call(area, "/", "write_file", f"path={path}", "content=x")
    # Commands see a private /tmp; the files process sees the host's.
    assert (status, path.exists()) in ((0, True), (1, False))


@user_mode_only
def test_a_rootfs_without_proc_and_dev_is_named(daemon, client):
    path = daemon.area.new_directory("rootfs")
    client.send({"jsonrpc": "2.0", "id": 1, "method": "workspace.open",
                 "params": {"root": str(path), "kind": "rootfs"}})
    answer = client.receive()
    assert re.search("proc|dev", answer["error"]["message"])
    assert not list(path.iterdir())
    assert procfs.is_alive(daemon.pid)
