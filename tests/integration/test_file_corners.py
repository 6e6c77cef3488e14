# SPDX-License-Identifier: Apache-2.0
"""The file tools on files whose sizes, shapes and surroundings models seldom think of."""

import os
import stat
import subprocess
import threading

import procfs
import pytest
from cells import Cell
from cloister_client import acting_as
from daemon import is_sanitized, user_mode_only

pytestmark = pytest.mark.usefixtures("as_user")

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
RAW = {"line_numbers": False}
READ_LIMIT, CONTENT_LIMIT = MIB, 16 * MIB


def code(client, tool, options=None, **arguments):
    return client.fail(tool, options, **arguments)["code"]


def read(client, **arguments):
    return client.use("read_file", RAW, path="f", **arguments)


# read_file


def peak_rss(pid):
    """Yields the highest memory seen so far, in KiB, of the files process and its children. Each step looks once."""
    highest = 0
    while True:
        for process in [pid] + procfs.children(pid):
            try:
                highest = max(highest, procfs.rss_kib(process))
            except KeyError:  # it has ended
                pass
        yield highest


def test_a_range_deep_in_a_large_file_costs_no_memory(own_daemon):
    """read_file of the last two lines takes no more memory in a file of 10 GiB."""
    cell, size = Cell(own_daemon), 10 * GIB
    text = "".join(f"line {i:010}\n" for i in range(65536))  # 16 bytes each
    with open(cell.path / "f", "wb") as file:
        for at in (0, size - MIB):
            file.seek(at)
            file.write(text.encode())
    assert (cell.path / "f").stat().st_size == size
    last = 2 * 65536
    watch = peak_rss(cell.files)
    idle = next(watch)
    number = cell.client.begin("read_file", {"path": "f", "start_line": last - 1, "end_line": last},
                               {**RAW, "timeout_ms": 600000})
    done = threading.Event()

    def look():
        while not done.is_set():
            next(watch)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        output = cell.client.result(number, 600)["output"]
    finally:
        done.set()
        looking.join()
    grown = next(watch) - idle
    print(f"grown by {grown} KiB")
    (cell.path / "f").unlink()
    assert output["content"] == "line 0000065534\nline 0000065535\n"
    assert (output["size"], output["lines"]) == (size, 2)
    assert grown < (16 * MIB if is_sanitized() else MIB) // KIB


def test_a_file_that_grows_meanwhile(client, workspace):
    """While another process appends to a file, read_file returns bytes from its beginning, and never fewer than
    before."""
    stop = threading.Event()

    def grow():
        with open(workspace / "f", "a") as file:
            for i in range(20000):
                file.write(f"{i}\n")
                file.flush()
                if stop.is_set() or file.tell() > READ_LIMIT - 100:
                    return

    (workspace / "f").touch()
    writer = threading.Thread(target=grow)
    writer.start()
    try:
        whole, lengths = "".join(f"{i}\n" for i in range(20000)), []
        while writer.is_alive() or not lengths:
            content = read(client)["content"]
            assert whole.startswith(content)
            lengths.append(len(content))
    finally:
        stop.set()
        writer.join()
    assert lengths == sorted(lengths)


# write_file


def test_a_read_only_file_is_refused(client, workspace):
    (workspace / "f").write_text("old")
    (workspace / "f").chmod(0o444)
    assert code(client, "write_file", path="f", content="new") == "PERMISSION_DENIED"
    assert (workspace / "f").read_text() == "old"


def test_a_writable_file_in_a_read_only_directory(client, workspace):
    """The new file would be made there: the mode that is in the way is named, and what to do."""
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("old")
    (workspace / "d").chmod(0o555)
    for path in ("d/f", "d/new", "d/sub/new"):
        refusal = client.fail("write_file", path=path, content="new")
        assert refusal["code"] == "PERMISSION_DENIED"
        assert "its mode is 0555" in refusal["message"] and "chmod u+w" in refusal["message"]
    assert (workspace / "d" / "f").read_text() == "old"
    (workspace / "d").chmod(0o755)


def test_modes_of_what_is_made(client, workspace):
    for mode in ("durable", "fast"):
        client.use("write_file", {"durability": mode}, path=f"{mode}/b/f", content="x")
        for name, expected in ((mode, 0o755), (f"{mode}/b", 0o755), (f"{mode}/b/f", 0o644)):
            assert stat.S_IMODE((workspace / name).stat().st_mode) == expected, name


@pytest.fixture
def read_only_mount(area):
    """A workspace with a read-only file system in it."""
    if os.getuid() != 0:
        pytest.skip("needs root to mount a file system")
    path = area.new_directory()
    with acting_as(0):
        (path / "ro").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "tmpfs", path / "ro"], check=True)
        (path / "ro/f").write_text("old")
        (path / "ro/f").chmod(0o666)
        subprocess.run(["mount", "-o", "remount,ro", path / "ro"], check=True)
    yield path
    with acting_as(0):
        subprocess.run(["umount", "--lazy", path / "ro"], check=True)


@user_mode_only
def test_a_read_only_file_system(read_only_mount, start_daemon):
    client = start_daemon().connect()
    client.call("workspace.open", {"root": str(read_only_mount)})
    for path in ("ro/f", "ro/new", "ro/made/new"):
        error = client.fail("write_file", path=path, content="new")
        assert error["code"] == "PERMISSION_DENIED" and "read-only" in error["message"], error
    assert client.use("read_file", RAW, path="ro/f")["content"] == "old"
    assert os.listdir(read_only_mount / "ro") == ["f"]


# list_directory


def test_what_entries_tell(client, workspace):
    (workspace / "file").write_text("12345")
    (workspace / "link").symlink_to("nowhere/at all")
    (workspace / "directory").mkdir()
    times = {"file": 1700000000123456789, "link": 0, "directory": 951827696999999999}
    for name, nanoseconds in times.items():
        os.utime(workspace / name, ns=(nanoseconds, nanoseconds), follow_symlinks=False)
    entries = {entry["path"]: entry for entry in client.use("list_directory", path=".")["entries"]}
    assert entries["file"] == {"path": "file", "type": "file", "size": 5, "mtime": "2023-11-14T22:13:20.123Z"}
    assert entries["link"]["mtime"] == "1970-01-01T00:00:00.000Z"
    assert (entries["link"]["type"], entries["link"]["target"]) == ("symlink", "nowhere/at all")
    assert entries["directory"]["mtime"] == "2000-02-29T12:34:56.999Z"


def test_a_listing_does_not_delay_other_calls(client, workspace):
    """A recursive listing runs in a job of its own, so calls that come behind it are answered."""
    for i in range(100):
        (workspace / f"{i}").mkdir()
        for j in range(80):
            (workspace / f"{i}/{j}").touch()
    (workspace / "f").write_text("x")
    numbers = [client.begin("list_directory", {"path": ".", "recursive": True}) for _ in range(5)]
    assert read(client)["content"] == "x"
    for number in numbers:
        assert client.result(number)["output"]["count"] == 8101


# Failures and their messages


@user_mode_only
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o600], ids=oct)
def test_a_directory_that_its_user_may_not_enter(own_daemon, mode):
    directory = own_daemon.new_directory()
    os.chmod(directory, mode)
    with own_daemon.connect() as client:
        for _ in range(6):  # with spare cells and with others
            answer = client.wait(client.request("workspace.open", {"root": str(directory)}))["error"]
            assert answer["data"]["code"] == "PERMISSION_DENIED", answer
            assert f"user {os.geteuid()}" in answer["message"] and "chmod" in answer["message"]
        os.chmod(directory, 0o700)
        client.call("workspace.open", {"root": str(directory)})
        assert client.use("write_file", path="f", content="x")["created"]


@pytest.mark.parametrize("mode", [0o000, 0o600], ids=oct)
def test_closed_directories_and_files(client, workspace, mode):
    """Where permissions deny access, the four file tools answer PERMISSION_DENIED and name the user who lacks it, or, for a
    new file, the mode of the directory and what gives the user what it lacks."""
    (workspace / "closed").mkdir()
    (workspace / "closed" / "f").write_text("x")
    (workspace / "f").write_text("x")
    os.chmod(workspace / "f", 0)
    os.chmod(workspace / "closed", mode)
    calls = [("read_file", {"path": "closed/f"}), ("write_file", {"path": "closed/f", "content": "y"}),
             ("write_file", {"path": "closed/a/b", "content": "y"}), ("search_files", {"path": "closed/f", "pattern": "x"}),
             ("read_file", {"path": "f"}), ("write_file", {"path": "f", "content": "y"})]
    if not mode:
        calls += [("list_directory", {"path": "closed"}), ("search_files", {"path": "closed", "pattern": "x"})]
    for tool, arguments in calls:
        error = client.fail(tool, **arguments)
        new_file = tool == "write_file" and arguments["path"] != "f"
        said = f"(its mode is {mode:04o}), and a file is replaced by a new one in its directory: chmod u+wx" if new_file \
            else "the workspace's user may not"
        assert error["code"] == "PERMISSION_DENIED" and said in error["message"], (tool, error)
    assert client.run("chmod u+wx closed")["exit_code"] == 0
    assert client.use("write_file", path="closed/f", content="y")["created"] is False  # what was said is enough
    os.chmod(workspace / "closed", 0o700)
    assert [path.name for path in (workspace / "closed").iterdir()] == ["f"]


def test_a_root_that_was_removed(client, workspace):
    """The host removes the directory of an open workspace. write_file then says so and makes nothing elsewhere."""
    workspace.rmdir()
    for path in ("f", "a/b/f"):
        error = client.fail("write_file", path=path, content="x")
        assert error["code"] == "NOT_FOUND" and "removed from the host" in error["message"], error
    assert code(client, "read_file", path="f") == "NOT_FOUND"
    assert client.use("list_directory", path=".")["entries"] == []
    workspace.mkdir()


def test_what_git_tracks_is_shown_though_a_pattern_names_it(client, workspace):
    def git(*words):
        subprocess.run(["git", "-C", workspace, *words], check=True, stdout=subprocess.DEVNULL, env={
            "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"})

    (workspace / "build" / "deep").mkdir(parents=True)
    for name in ("build/tracked.c", "build/other.c", "build/deep/tracked.c", "a.o", "b.o", "main.c"):
        (workspace / name).write_text("needle\n")
    (workspace / ".gitignore").write_text("build/\n*.o\n!other.c\n")
    git("init", "-q", ".")
    git("add", "-f", "build/tracked.c", "build/deep/tracked.c", "a.o")
    shown = [".gitignore", "a.o", "build", "build/deep", "build/deep/tracked.c", "build/tracked.c", "main.c"]
    listed = client.use("list_directory", path=".", recursive=True)
    assert [entry["path"] for entry in listed["entries"]] == shown
    assert [entry["path"] for entry in client.use("list_directory", path=".")["entries"]] == [
        ".gitignore", "a.o", "build", "main.c"]
    found = client.use("search_files", pattern="needle")
    assert [match["path"] for match in found["matches"]] == ["a.o", "build/deep/tracked.c", "build/tracked.c", "main.c"]
    (workspace / ".git" / "index").write_bytes(b"DIRC" + b"\xff" * 4096)
    assert [entry["path"] for entry in client.use("list_directory", path=".")["entries"]] == [".gitignore", "main.c"]


def test_work_trees_have_their_git_directory_elsewhere(client, workspace):
    """Commands make them, with the paths that commands see."""
    git = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always"
    client.run("mkdir main && cd main && printf '*.o\\n' > .gitignore && echo needle > kept.o && git init -q . && "
               f"{git} add -f . && {git} commit -q -m a && echo '*.x' >> .git/info/exclude && "
               f"{git} worktree add -q ../tree && cd .. && git init -q super && cd super && "
               f"{git} submodule --quiet add ../main sub && cd .. && {git} clone -q main linked && "
               "mv linked/.git linked.git && ln -s ../linked.git linked/.git && "
               "for tree in main tree super/sub linked; do touch $tree/a.o $tree/a.x; done")
    assert (workspace / "tree" / ".git").read_text().startswith("gitdir: /")
    for tree, excluded in (("main", True), ("tree", True), ("super/sub", False), ("linked", False)):
        shown = [".gitignore", "kept.o"] if excluded else [".gitignore", "a.x", "kept.o"]
        listed = client.use("list_directory", path=tree)
        assert [entry["path"].removeprefix(f"{tree}/") for entry in listed["entries"]] == shown
        found = client.use("search_files", pattern="needle", path=tree)
        assert [match["path"] for match in found["matches"]] == [f"{tree}/kept.o"]
    (workspace / "tree" / ".git").write_text("gitdir: /nonexistent\n")
    listed = client.use("list_directory", path="tree")
    assert [entry["path"] for entry in listed["entries"]] == ["tree/.gitignore", "tree/a.x"]
