# SPDX-License-Identifier: Apache-2.0
"""`cloister put`, `cloister get` and the standard input of `cloister exec`, in a real workspace."""

import base64
import hashlib
import io
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tarfile

import procfs
import pytest
from cloister_client import acting_as
from daemon import is_sanitized, user_mode_only
from npm import unavailable
from small_system import small_system

pytestmark = user_mode_only
MIB = 1 << 20
PATIENCE = 120


class Place:
    """A workspace, and a directory of the user's where put finds files and get leaves them."""

    def __init__(self, daemon, workspace):
        self.daemon, self.workspace, self.area = daemon, workspace, daemon.area
        self.path = self.area.new_directory("client")

    def start(self, *words, **keywords):
        keywords.setdefault("stdin", subprocess.DEVNULL)
        return self.area.start(
            ["cloister", "--socket", str(self.daemon.socket), "--workspace", str(self.workspace), *words],
            cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)

    def run(self, *words, data=None, **keywords):
        if data is not None:
            keywords["stdin"] = subprocess.PIPE
        with self.start(*words, **keywords) as process:
            try:
                stdout, stderr = process.communicate(data, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def json(self, *words):
        """Makes a transfer with --json that must be complete. Returns the result that it prints."""
        done = self.run("--json", *words)
        result = json.loads(done.stdout.splitlines()[-1])
        assert done.returncode == 0 and result["complete"] is True, done.stderr
        return result


@pytest.fixture
def place(daemon, workspace, account):
    with acting_as(account.uid, account.gid):
        yield Place(daemon, workspace)


def describe(root):
    """Returns what a transfer must keep of each file of a tree, by the file's name as bytes."""
    found = {}
    root = os.fsencode(root)
    for directory, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            content = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, root)] = (
                kind, stat.S_IMODE(status.st_mode) if not stat.S_ISLNK(status.st_mode) else None,
                status.st_mtime_ns if not stat.S_ISLNK(status.st_mode) else None, content)
    return found


def test_execs_input_is_the_commands(place):
    data = os.urandom(2 * MIB)
    done = place.run("exec", "--", "sha256sum", data=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert place.run("exec", "cat; cat; echo end", data=b"").stdout == b"end\n"
    assert place.run("exec", "cat").stdout == b""  # stdin is /dev/null
    assert place.run("exec", "--no-stdin", "cat", data=b"unread").stdout == b""
    # Input that the command does not read does no harm, and neither does input without an end.
    assert place.run("exec", "exit 7", data=bytes(2 * MIB)).returncode == 7
    with place.start("exec", "read line; echo got $line", stdin=subprocess.PIPE) as process:
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.read() == b"got one\n"
        assert process.wait(PATIENCE) == 0


def make_tree(root):
    root = os.fsencode(root)
    os.mkdir(root)
    long = b"/".join([b"d" * 120] * 4)
    os.makedirs(root + b"/" + long)
    files = {b"plain": b"hello\n", b"new\nline": b"1", b"not\xff\xfeutf8": b"2", b"-dash": b"3", b" blank ": b"4",
             b"back\\slash": b"5", b"%s%n": b"6", b"*": b"7", b"empty": b"", b"n" * 255: b"8",
             long + b"/" + b"f" * 200: b"9", b"block": b"b" * 512, b"blocks": os.urandom(1000003)}
    for number, (name, content) in enumerate(files.items()):
        with open(root + b"/" + name, "wb") as file:
            file.write(content)
        os.chmod(root + b"/" + name, [0o644, 0o600, 0o755, 0o666, 0o400, 0o777][number % 6])
        os.utime(root + b"/" + name, ns=(0, 1234567890_123456789 + number * 10**12))
    os.utime(root + b"/plain", ns=(0, -1_500_000_000))  # a time before 1970
    os.symlink(b"plain", root + b"/link")
    os.symlink(b"nowhere\xff", root + b"/dangling")
    os.mkdir(root + b"/private")
    with open(root + b"/private/x", "wb") as file:
        file.write(b"x")
    os.chmod(root + b"/private", 0o500)
    os.utime(root + b"/private", ns=(0, 10**18))
    os.mkdir(root + b"/hollow")


def test_a_tree_comes_back_as_it_went(place):
    make_tree(place.path / "src")
    before = describe(place.path / "src")
    sent = place.json("put", "src/.")
    assert sent["unchanged"] == sent["failed"] == 0 and sent["files"] == len(before)
    got = place.json("get", ".", "back")
    assert got["unchanged"] == got["left_out"] == 0
    after = describe(place.path / "back")
    assert set(after) == set(before)
    for name, wanted in before.items():
        # The time of a directory may differ, because files were made in it.
        assert after[name] == wanted or (stat.S_ISDIR(wanted[0]) and after[name][:2] == wanted[:2]), name
    assert after[b"private"] == before[b"private"]
    # A second transfer sends no file again.
    files = sum(stat.S_ISREG(wanted[0]) for wanted in before.values())
    links = sum(stat.S_ISLNK(wanted[0]) for wanted in before.values())
    assert place.json("put", "src/.")["unchanged"] == files + links
    again = place.json("get", ".", "back")
    assert again["unchanged"] == files and again["bytes"] == 0


@pytest.mark.parametrize("there", ["no directory", "an empty one", "one with another file"])
def test_what_a_list_leaves_out_is_left_out_without_one(place, there):
    """get has the workspace list its files only if some may be here already. Both ways copy the same."""
    inside = place.workspace / "d/e"
    inside.mkdir(parents=True)
    (inside / "file").write_text("x")
    os.link(inside / "file", inside / "hard")
    for directory in (place.workspace, inside):
        os.mkfifo(directory / "fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(directory)
            listener.bind("sock")
            os.chdir("/")
    back = place.path / "back"
    if there != "no directory":
        back.mkdir()
    if there == "one with another file":
        (back / "other").write_text("mine")
    done = place.run("--json", "get", ".", "back")
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert (result["files"], result["bytes"], result["left_out"]) == (4, 2, 0)
    (back / "other").unlink(missing_ok=True)
    assert content_of(back) == {"d/e/file": b"x", "d/e/hard": b"x"}


@pytest.mark.parametrize("change", ["size", "time", "permissions", "gone", "kind"])
def test_what_differs_is_sent_again(place, change):
    (place.path / "src").mkdir()
    for name in ("a", "b", "c"):
        (place.path / "src" / name).write_text(name)
    place.json("put", "src/.")
    place.json("get", ".", "back")
    for root, words in ((place.workspace, ("put", "--overwrite", "src/.")), (place.path / "back", ("get", ".", "back"))):
        file = root / "b"
        status = file.stat()
        if change == "size":
            file.write_text("longer")
            os.utime(file, ns=(0, status.st_mtime_ns))
        elif change == "time":
            os.utime(file, ns=(0, status.st_mtime_ns + 1000))
        elif change == "permissions":
            file.chmod(0o700)
        elif change == "gone":
            file.unlink()
        else:
            file.unlink()
            file.symlink_to("a")
        assert place.json(*words)["unchanged"] == 2
        assert describe(root) == describe(place.path / "src")


def test_one_file(place):
    (place.path / "f").write_text("one")
    place.json("put", "f")
    place.json("put", "f", "deep/er")
    assert (place.workspace / "f").read_text() == (place.workspace / "deep/er").read_text() == "one"
    assert place.json("put", "f")["unchanged"] == 1
    place.json("get", "deep/er", "there")
    assert (place.path / "there/er").read_text() == "one"
    (place.path / "f").unlink()
    place.json("get", str(place.workspace / "f"))
    assert (place.path / "f").read_text() == "one"
    # get follows a symbolic link and brings the file that it leads to.
    (place.workspace / "l").symlink_to("f")
    place.json("get", "l")
    assert not (place.path / "l").is_symlink() and (place.path / "l").read_text() == "one"


def test_a_directory_goes_to_its_own_name(place):
    (place.workspace / "dir/sub").mkdir(parents=True)
    (place.workspace / "dir/sub/f").write_text("x")
    place.json("get", "dir/sub/")
    assert (place.path / "sub/f").read_text() == "x"
    done = place.run("get", ".")
    assert done.returncode == 1 and b"name the directory" in done.stderr
    done = place.run("get", "dir/..")
    assert done.returncode == 1 and b"name the directory" in done.stderr


SOURCES = {"d/sub/f": "1", "d/g": "2", "e/f": "3", "one": "4", "-two": "5"}


def sources(place):
    for name, text in SOURCES.items():
        path = place.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (place.path / "d/link").symlink_to("g")
    (place.path / "d/empty").mkdir(mode=0o750)


def names_in(root):
    return sorted(os.path.join(os.path.relpath(directory, root), name) for directory, directories, files in os.walk(root)
                  for name in [*directories, *files])


@pytest.mark.parametrize("words", [
    ["d", "."], ["d", "new"], ["d", "new/"], ["d/", "there"], ["d/.", "there"], ["d", "there"], ["d", "there/"],
    ["d/sub/..", "there"], ["one", "there"], ["one", "there/"], ["one", "new"], ["d", "e", "one", "there"], ["--", "-two", "there"],
    ["--", "one", "-two", "."], ["./d/sub/../sub", "there"], ["d", "link"], ["one", "link/"],
    # and what cp refuses
    ["d", "e", "new"], ["d", "file"], ["one", "e", "file"], ["one", "new/"]], ids=" ".join)
def test_it_goes_where_cp_would_copy_it(place, words):
    """Each put makes the same tree as `cp -r` of the same operands, beside which it is run, and fails where cp fails."""
    sources(place)
    expected = place.path / "expected"
    for root in (place.workspace, expected):
        (root / "there").mkdir(parents=True)
        (root / "there/old").write_text("old")
        (root / "file").write_text("file")
        (root / "link").symlink_to("there")
    # cp knows no workspace: the last operand is a name in it.
    slash = "/" if words[-1].endswith("/") else ""
    copied = subprocess.run(["cp", "-r", *words[:-1], f"{expected / words[-1]}{slash}"], cwd=place.path, capture_output=True,
                            check=False)
    done = place.run("put", *words)
    assert (done.returncode == 0) == (copied.returncode == 0), (done.stderr, copied.stderr)
    assert done.returncode in (0, 1) and (not done.stderr) == (done.returncode == 0)
    if done.returncode == 0:
        assert names_in(place.workspace) == names_in(expected)
    assert content_of(place.workspace) == content_of(expected)


def test_without_a_destination_it_goes_to_the_root(place):
    sources(place)
    place.json("put", "d")
    assert (place.workspace / "d/sub/f").read_text() == "1" and (place.workspace / "d/link").readlink() == pathlib.Path("g")
    assert (place.workspace / "d/empty").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("there, words", [
    ("sub/f", ["d/.", "."]), ("d/sub/f", ["e", "d", "."]), ("new", ["one", "new"]), ("link", ["d/.", "."]), ("sub", ["d/.", "."])])
def test_nothing_is_replaced_without_overwrite(place, there, words):
    """A file in the way is named, nothing is copied and nothing is lost; --overwrite replaces it."""
    sources(place)
    (place.workspace / there).parent.mkdir(parents=True, exist_ok=True)
    (place.workspace / there).write_text("mine")
    before = describe(place.workspace)
    done = place.run("--json", "put", *words)
    complaint, result = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1 and complaint["error"]["code"] == "FILE_EXISTS" and result["files"] == 0
    assert f"{there} is in the way: nothing was copied; --overwrite replaces" in complaint["error"]["message"]
    assert describe(place.workspace) == before
    done = place.run("put", "--overwrite", *words)
    if there == "sub":  # a directory replaces no file, as with cp
        assert done.returncode == 1 and b"is in the way" in done.stderr and describe(place.workspace) == before
    else:
        assert done.returncode == 0 and b"mine" not in content_of(place.workspace).values()


def test_a_file_replaces_no_directory(place):
    sources(place)
    (place.workspace / "one/kept").mkdir(parents=True)
    for more in ([], ["--overwrite"]):
        done = place.run("put", *more, "one", "e", ".")
        assert done.returncode == 1 and b"one is in the way: nothing was copied" in done.stderr
        assert names_in(place.workspace) == ["./one", "one/kept"]


def test_an_archive_replaces_nothing_without_overwrite(place):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("kept", "new"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    (place.workspace / "kept").write_text("mine")
    done = place.run("put", "-", data=out.getvalue())
    assert done.returncode == 1 and b"kept: Cannot open: File exists" in done.stderr
    assert content_of(place.workspace) == {"kept": b"mine", "new": b"abc"}
    assert place.run("put", "--overwrite", "-", data=out.getvalue()).returncode == 0
    assert content_of(place.workspace) == {"kept": b"abc", "new": b"abc"}


def test_an_interrupted_archive_removes_no_file_that_was_there(place):
    """tar has named the file, which it does not replace, when it is interrupted in the middle of the file's content."""
    (place.workspace / "whole").write_text("mine")
    info = tarfile.TarInfo("mine")
    info.size = 8 * MIB
    (place.workspace / "mine").write_text("mine too")
    with place.start("put", "-", stdin=subprocess.PIPE) as process:
        other = tarfile.TarInfo("new")
        process.stdin.write(other.tobuf() + info.tobuf() + b"x" * (4 * MIB))
        process.stdin.flush()
        assert procfs.eventually(lambda: (place.workspace / "new").exists())
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert content_of(place.workspace) == {"whole": b"mine", "mine": b"mine too", "new": b""}


@pytest.mark.parametrize("words", [["a", "b", ""], [""], ["-", "a", "b"], []])
def test_operands_that_put_does_not_take(place, words):
    done = place.run("put", *words, data=b"")
    assert done.returncode in (1, 2) and done.stderr and not os.listdir(place.workspace)


def test_archives_pass_as_they_are(place):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("x/y")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    assert place.run("put", "-", "in", data=out.getvalue()).returncode == 0
    assert (place.workspace / "in/x/y").read_bytes() == b"abc"
    done = place.run("get", "in", "-")
    assert done.returncode == 0
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        assert sorted(tar.getnames()) == [".", "./x", "./x/y"]
    assert place.run("put", "-", data=b"no archive" * 100).returncode == 1


def modes(root):
    return {str(path.relative_to(root)): oct(path.lstat().st_mode & 0o7777) for path in root.rglob("*")}


def test_nothing_that_is_put_is_set_user_id(place):
    """Files with set-user-ID and set-group-ID bits arrive without these, from a directory and from an archive. tar
    unpacks them as a command, and a command may not set the bits."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, mode in (("d", tarfile.DIRTYPE, 0o7755), ("d/user", tarfile.REGTYPE, 0o4755),
                                 ("d/group", tarfile.REGTYPE, 0o2755), ("plain", tarfile.REGTYPE, 0o640)):
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, mode
            tar.addfile(info)
    done = place.run("put", "-", "archive", data=out.getvalue())
    assert done.returncode == 0, done.stderr
    assert modes(place.workspace / "archive") == {"d": "0o755", "d/user": "0o755", "d/group": "0o755", "plain": "0o640"}
    (place.path / "src/d").mkdir(parents=True)
    for name, mode in (("d/user", 0o4755), ("d/group", 0o2775), ("d", 0o3775)):
        if name != "d":
            (place.path / "src" / name).touch()
        (place.path / "src" / name).chmod(mode)
    place.json("put", "src", "tree")
    assert modes(place.workspace / "tree") == {"d": "0o775", "d/user": "0o755", "d/group": "0o775"}


@pytest.mark.parametrize("name", [b"a b", b"it's", b"$HOME", b"-C", b"\xff\xfe", b"end\n", b"\xffend\n\n", "ö".encode()])
def test_places_of_any_name(place, name):
    (place.path / "src").mkdir()
    (place.path / "src/f").write_text("x")
    words = ["put", "--", "src", os.fsdecode(name)]
    assert place.run(*words).returncode == 0
    assert os.listdir(os.fsencode(place.workspace)) == [name]
    done = place.run("get", "--", os.fsdecode(name), "back")
    assert done.returncode == 0 and os.listdir(place.path / "back") == ["f"], done.stderr


def test_what_is_not_there(place):
    done = place.run("get", "nothing")
    assert done.returncode == 1 and b"no such file" in done.stderr
    done = place.run("put", "nothing")
    assert done.returncode == 1 and b"No such file" in done.stderr
    assert place.run("put").returncode == place.run("get").returncode == 2
    assert place.run("get", "a", "b", "c").returncode == 2
    assert place.run("get", "--max-size=lots", "x").returncode == 2


def test_what_cannot_be_read_is_named_and_the_rest_goes(place):
    (place.path / "src").mkdir()
    (place.path / "src/a").write_text("x")
    os.mkfifo(place.path / "src/fifo")
    done = place.run("--json", "put", "src/.")
    complaint, result = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1 and result["failed"] == 1 and not result["complete"]
    assert "fifo" in complaint["error"]["message"]
    assert os.listdir(place.workspace) == ["a"]


def test_holes_stay_holes_here(place):
    with open(place.workspace / "sparse", "wb") as file:
        file.truncate(64 * MIB)
        file.seek(32 * MIB)
        file.write(b"middle")
    place.json("get", "sparse")
    status = (place.path / "sparse").stat()
    assert status.st_size == 64 * MIB and status.st_blocks * 512 < MIB
    with open(place.path / "sparse", "rb") as file:
        file.seek(32 * MIB)
        assert file.read(7) == b"middle\0"


@pytest.mark.skipif(is_sanitized(), reason="AddressSanitizer reserves more than any limit")
def test_memory_does_not_grow_with_the_tree(place):
    """A client with 24 MiB of memory puts and gets a tree that is larger than that."""
    src = place.path / "src"
    src.mkdir()
    with open(src / "big", "wb") as file:
        file.truncate(48 * MIB)
    for number in range(5):
        (src / f"d{number}").mkdir()
        for name in range(100):
            (src / f"d{number}" / f"{name}-{'x' * 200}").write_text("x")

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (24 * MIB, 24 * MIB))
    for words in (["put", "src/."], ["get", ".", "back"]):
        done = place.run(*words, preexec_fn=limit)
        assert done.returncode == 0, done.stderr
    assert set(describe(place.path / "back")) == set(describe(src))


def half_an_archive(process, size=8 * MIB):
    info = tarfile.TarInfo("whole")
    info.size = 5
    data = info.tobuf() + b"whole".ljust(512, b"\0")
    info = tarfile.TarInfo("half \\ \xff\nfile %s")
    info.size = size
    process.stdin.write(data + info.tobuf() + b"h" * (size // 2))
    process.stdin.flush()


@pytest.mark.parametrize("how", ["interrupted", "lost"])
def test_half_a_file_is_none(place, how):
    with place.start("put", "-", stdin=subprocess.PIPE) as process:
        half_an_archive(process)
        assert procfs.eventually(lambda: any(
            name.startswith("half") and (place.workspace / name).stat().st_size > 0
            for name in os.listdir(place.workspace)))
        process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
        process.wait(PATIENCE)
        assert process.returncode == (130 if how == "interrupted" else -signal.SIGKILL)
    assert procfs.eventually(lambda: os.listdir(place.workspace) == ["whole"]), os.listdir(place.workspace)


def test_an_interrupted_put_is_completed_by_the_next(place):
    src = place.path / "src"
    src.mkdir()
    for number in range(60):
        (src / str(number)).write_bytes(os.urandom(MIB // 2))
    with place.start("put", "src/.") as process:
        assert procfs.eventually(lambda: len(os.listdir(place.workspace)) > 3)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    result = place.json("put", "src/.")
    assert process.returncode == 0 or result["unchanged"] > 0
    assert describe(place.workspace) == describe(src)


@pytest.mark.deep("slow")
def test_what_stands_still_is_ended(place):
    with place.start("put", "--idle-timeout=3s", "-", stdin=subprocess.PIPE) as process:
        half_an_archive(process, 32 * 1024)  # small enough for a pipe to take at once
        assert process.wait(PATIENCE) == 124


def test_a_managed_workspace_is_filled(place):
    (place.path / "src").mkdir()
    (place.path / "src/f").write_text("managed")
    words = ["cloister", "--socket", str(place.daemon.socket), "--create", "--workspace", "filled"]
    for more, wanted in ((["put", "src/."], b""), (["exec", "cat f"], b"managed"), (["get", "f", "back"], b"")):
        with place.area.start([*words, *more], cwd=place.path, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE) as process:
            assert process.communicate(timeout=PATIENCE)[0] == wanted
            assert process.returncode == 0
    assert (place.path / "back/f").read_text() == "managed"


def test_a_system_without_tar_is_told_so(place, daemon):
    root = place.path / "system"
    small_system(root)
    with daemon.connect() as client:
        client.call("workspace.open", {"root": str(root), "kind": "rootfs"})
        assert client.run("echo up")["stdout"] == "up\n"
        assert "tar" not in os.listdir(root / "bin")
    place.workspace = root
    for words in (("put", "-"), ("get", "bin", "back"), ("get", "bin", "-")):
        done = place.run("--rootfs", *words, data=b"")
        assert done.returncode == 1 and b"there is no tar in this workspace" in done.stderr
    assert not (place.path / "back").exists()


# A real project's tree

# Debian's package python3-jinja2, which tests/run installs: a template engine, messages, Unicode tables, compiled files.
JINJA2 = pathlib.Path("/usr/lib/python3/dist-packages/jinja2")
DIFFICULT = {
    "templates/größe ☃.html": "{% for x in 'äöü' %}{{ x|e }}\n{% endfor %}\u2028\u2029\u0085".encode(),
    "templates/-n": b"a name like an option\n",
    "templates/two\nlines.txt": b"a name of two lines\n",
    "templates/'quoted' \"twice\" $HOME `id` \\": b"a name that no shell may read\n",
    "templates/e\u0301 and \u00e9": "both forms: e\u0301 \u00e9\n".encode(),
    "empty": b"",
    "one-newline": b"\n",
    "no-newline": b"the last line has no end",
    "crlf.txt": b"one\r\ntwo\rthree\n\r\n",
    "bom.py": "\ufeff# -*- coding: utf-8 -*-\n".encode(),
    "utf-16.txt": "größe\n".encode("utf-16"),
    "latin-1.txt": "größe\n".encode("latin-1"),
    "surrogate.txt": b"\xed\xa0\x80 and \xf4\x90\x80\x80\n",
    "nul.bin": bytes(range(256)) * 40,
    "controls.txt": b"\x1b[31mred\x07 \x7f \xc2\x9b\n",
    "escapes.json": b'{"a": "\\u0000 \\ud83d\\ude00 \\/ \\"", "b": "</script>"}\n',
    "one-line.txt": b"x" * 300_000,
    "trailing \t.txt": b"spaces \t \n\n\n",
}


def project(directory):
    """Fills @directory with the tree. Returns the content of each file by its path."""
    if not JINJA2.is_dir():
        unavailable("python3-jinja2 is not installed")
    shutil.copytree(JINJA2, directory / "jinja2", symlinks=True)
    for name, content in DIFFICULT.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return content_of(directory)


def content_of(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def named(name, **options):
    """Returns options that name a file by its bytes. In a plain `path` a backslash would separate directories, as on
    Windows."""
    return {"path_base64": base64.b64encode(name.encode()).decode(), **options}


def text_of(content):
    """Returns the content as text, or None if it is not UTF-8. read_file also takes a file with a NUL byte for binary."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def test_a_projects_tree_comes_back_byte_for_byte(place, client, workspace):
    """put and then get copy a project's tree byte for byte, and read_file returns every file, as base64 and as text."""
    (place.path / "src").mkdir()
    files = project(place.path / "src")
    assert len(files) > 40 and any(name.endswith("/environment.py") for name in files)
    place.json("put", "src/.")
    assert content_of(pathlib.Path(workspace)) == files
    place.json("get", ".", "back")
    assert content_of(place.path / "back") == files
    texts = 0
    for name, content in files.items():
        read = client.use("read_file", named(name, encoding="base64"), path="-")
        assert base64.b64decode(read["content"], validate=True) == content, name
        read = client.use("read_file", named(name, line_numbers=False), path="-")
        if read.get("encoding") == "utf-8":
            assert read["content"].encode() == content, name
            texts += 1
        else:
            assert b"\0" in content or text_of(content) is None, name
    assert texts > 30


def test_a_projects_tree_is_written_byte_for_byte(place, client, workspace):
    """write_file writes every file of the tree byte for byte: as base64, and as text where it is UTF-8."""
    (place.path / "src").mkdir()
    for name, content in project(place.path / "src").items():
        client.use("write_file", named(f"bytes/{name}", encoding="base64"), path="-",
                   content=base64.b64encode(content).decode())
        assert (pathlib.Path(workspace) / "bytes" / name).read_bytes() == content, name
        text = text_of(content)
        if text is not None:
            client.use("write_file", named(f"text/{name}"), path="-", content=text)
            assert (pathlib.Path(workspace) / "text" / name).read_bytes() == content, name
