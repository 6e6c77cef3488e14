# SPDX-License-Identifier: Apache-2.0
"""`cloister get` from a hostile workspace: the test writes the workspace's list of files and its archive. Only the
target directory may change. `cloister put` does not check archives, which can harm only the workspace. `cloister import`
makes a workspace of what it understands, or none; `cloister export` writes nothing else either."""

import base64
import io
import json
import os
import signal
import socket
import stat
import subprocess
import tarfile
import threading

import procfs
import pytest

MIB = 1 << 20


def finish(process, data=None):
    try:
        return process.communicate(data, timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


class Service:
    """Stands in for a cloisterd whose workspace answers to the list with one text and to the archive
    with another; hangs: it never ends the archive, closes: nor keeps the connection."""

    def __init__(self, path, listing, archive, hangs=False, closes=False):
        self.listing, self.archive, self.hangs, self.closes = listing, archive, hangs, closes
        self.wanted = b""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        os.chmod(path, 0o777)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        connection, _ = self.listener.accept()
        self.out = connection.makefile("wb")
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    if not self.act(**json.loads(line)):
                        connection.shutdown(socket.SHUT_RDWR)
                        return
            except OSError:
                pass

    def send(self, **message):
        self.out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.out.flush()

    def output(self, call, data):
        for start in range(0, len(data), 32768):
            self.send(method="tool.output", params={
                "id": call, "stream": "stdout", "seq": 0,
                "data": base64.b64encode(data[start:start + 32768]).decode()})

    def end(self, call, success=True):
        error = None if success else {"code": "CANCELLED", "message": "cancelled"}
        self.send(id=call, result={
            "success": success, "tool": "run_command", "error": error, "usage": {},
            "output": {"exit_code": 0, "signal": None}})

    def act(self, method, params, **request):
        number = request["id"]
        if method == "workspace.open":
            self.send(id=number, result={"workspace": "w"})
        elif method == "tool.input":
            if "bytes" in params:  # the client asks whether it may send input as it is
                self.send(id=number, error={"code": -32602, "message": "Unknown parameter"})
                return True
            self.wanted += base64.b64decode(params["data"])
            self.send(id=number, result={"taken": 1, "closed": False})
            if params["eof"]:
                return self.give_archive()
        elif method == "tool.cancel":
            self.send(id=number, result={"cancelled": True})
            self.end(params["id"], success=False)
        elif "-printf" in params["arguments"]["command"]:
            self.output(number, self.listing)
            self.end(number)
        else:
            self.call = number
            if not params["options"].get("stdin_stream"):
                return self.give_archive()
        return True

    def give_archive(self):
        self.output(self.call, self.archive)
        if not self.hangs and not self.closes:
            self.end(self.call)
        return not self.closes


class Target:
    """A directory of the user's with the target and, beside it, files that must not change."""

    def __init__(self, area):
        self.area = area
        self.path = area.new_directory("client")
        self.into = self.path / "into"
        self.secret = self.path / "secret"
        self.secret.write_text("untouched")
        self.secret.chmod(0o600)
        os.chown(self.secret, area.account.uid, area.account.gid)
        self.count = 0

    def start(self, listing, archive, *words, path=".", **keywords):
        self.count += 1
        socket_path = self.path / f"s{self.count}"
        self.service = Service(socket_path, listing, archive, **keywords)
        return self.area.start(
            ["cloister", "--socket", str(socket_path), "--workspace", "w", "get", *words, path, "into"],
            cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def get(self, listing, archive, *words, **keywords):
        with self.start(listing, archive, *words, **keywords) as process:
            stdout, stderr = finish(process)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr.decode(errors="replace"))

    def check(self):
        """Checks that nothing outside the target changed, and that it holds no unfinished or dangerous file."""
        names = {name for name in os.listdir(self.path) if not name.startswith("s") or name == "secret"}
        assert names <= {"into", "secret"}, names
        assert self.secret.read_text() == "untouched"
        status = self.secret.stat()
        assert stat.S_IMODE(status.st_mode) == 0o600 and status.st_nlink == 1
        for directory, directories, files in os.walk(self.into):
            for name in [*directories, *files]:
                assert not name.startswith(".cloister-get-"), name
                mode = os.lstat(os.path.join(directory, name)).st_mode
                assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode), name
                assert not mode & 0o7000, name


@pytest.fixture
def target(area):
    return Target(area)


def member(name, data=b"evil", **fields):
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    if info.type != tarfile.REGTYPE:
        info.size = 0
    return info, data


def link(name, to):
    return member(name, type=tarfile.SYMTYPE, linkname=to)


def directory(name, mode=0o755):
    return member(name, type=tarfile.DIRTYPE, mode=mode)


def archive(*members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def listing(*names):
    """The workspace's list: files with these names, none of which exists here."""
    return b"d\0" + b"".join(b"f 644 4 1.0 %s\0" % os.fsencode(name) for name in names)


HOSTILE = {
    "absolute": [member("/tmp/cloister-escaped")],
    "parent": [member("../escaped")],
    "parent inside": [member("a/../../escaped")],
    "parent at the end": [directory("a/.."), directory("..")],
    "link then through it": [link("d", ".."), member("d/escaped")],
    "absolute link then through it": [link("d", "/tmp"), member("d/cloister-escaped")],
    "link over a directory": [directory("d"), link("d", ".."), member("d/escaped")],
    "chain of links": [directory("a"), link("a/up", ".."), link("b", "a/up/.."), member("b/escaped")],
    "links that multiply": [link("d", "."), link("e", "d/d/d/../../.."), member("e/escaped")],
    "link to a file, then that file": [link("f", "../secret"), member("f")],
    "hard link outside": [member("h", type=tarfile.LNKTYPE, linkname="../secret"), member("h")],
    "hard link to a link": [link("l", "../secret"), member("h", type=tarfile.LNKTYPE, linkname="l"), member("h")],
    "device": [member("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=1)],
    "block device": [member("dev", type=tarfile.BLKTYPE, devmajor=8, devminor=0)],
    "fifo": [member("fifo", type=tarfile.FIFOTYPE)],
    "set-user-id": [member("suid", mode=0o6755), directory("sgid", mode=0o2777)],
    "root's own mode": [directory("./", mode=0o777)],
    "temporary's name": [link(".cloister-get-0000000000000000", "../secret"), member("x")],
    "directory over a file": [member("f"), directory("f"), member("f/g")],
    "file over a directory": [directory("d"), member("d/x"), member("d")],
    "empty name": [member("")],
    "deep": [member("/".join(["d"] * 300) + "/f")],
    "long name": [member("n" * 300)],
    "link without target": [link("l", "")],
}


# The forms differ where a name or a target does not fit into the header.
@pytest.mark.parametrize("name,form", [(name, tarfile.PAX_FORMAT) for name in HOSTILE]
                         + [(name, tarfile.GNU_FORMAT) for name in ("parent", "deep", "long name")])
def test_nothing_is_written_outside(target, name, form):
    done = target.get(listing("x"), archive(*HOSTILE[name], member("good", b"good"), form=form))
    target.check()
    assert not os.path.exists("/tmp/cloister-escaped") and not (target.path / "escaped").exists()
    assert done.returncode in (0, 1), done.stderr
    # `get` names what it left out, and the next entries arrive.
    if name not in ("set-user-id", "root's own mode"):
        assert done.returncode == 1 and done.stderr
    assert (target.into / "good").read_bytes() == b"good"


def test_links_of_the_users_own_are_not_followed(target):
    """Links of every kind that are in the target already."""
    target.into.mkdir()
    os.chown(target.into, target.area.account.uid, target.area.account.gid)
    (target.into / "dir").symlink_to("..")
    (target.into / "file").symlink_to("../secret")
    done = target.get(listing("x"), archive(member("dir/secret"), member("file", b"file")))
    target.check()
    assert done.returncode == 1 and "dir/secret" in done.stderr
    # The link itself was replaced.
    assert not (target.into / "file").is_symlink() and (target.into / "file").read_bytes() == b"file"


def test_a_link_that_a_command_planted_is_no_default_target(area):
    """The user works in the workspace's own directory."""
    project, outside = area.new_directory("project"), area.new_directory("outside")

    def cloister(*words):
        return area.private(project, *words, cwd=project)
    plant = f"mkdir -p made/out && echo evil >made/out/keys && ln -s {outside} out"
    assert cloister("exec", "--", "sh", "-c", plant).returncode == 0
    done = cloister("get", "made/out")
    assert done.returncode == 1 and b"cloister get PATH DIR" in done.stderr
    assert os.listdir(outside) == []
    # The user's own directory of that name, and a link that the user names, are targets.
    (project / "out").rename(project / "link")
    for words, place in ((["made/out"], project / "out"), (["made/out", "link"], outside)):
        assert cloister("get", *words).returncode == 0
        assert (place / "keys").read_text() == "evil\n"


def test_links_that_lead_out_are_made_only_when_asked_for(target):
    links = [link("out", "../secret"), link("abs", "/etc/passwd"), link("in", "sub/x"), directory("sub"),
             link("sub/up", "../in")]
    done = target.get(listing("x"), archive(*links))
    assert done.returncode == 1
    assert sorted(os.listdir(target.into)) == ["in", "sub"] and os.readlink(target.into / "sub/up") == "../in"
    assert "--any-links" in done.stderr
    done = target.get(listing("x"), archive(*links, member("out/x")), "--any-links")
    assert done.returncode == 1  # made, and not followed
    assert os.readlink(target.into / "out") == "../secret" and os.readlink(target.into / "abs") == "/etc/passwd"
    target.check()


def test_one_file_brings_no_other(target):
    """Into the current directory, which may be a home."""
    for evil in (member(".bashrc"), member("f/.bashrc"), link("f", ".bashrc")):
        done = target.get(b"f\0f 644 4 1.0 ./f\0", archive(evil, member("./f")), path="f")
        assert done.returncode == 1 and "did not ask for" in done.stderr
        assert os.listdir(target.into) == []
    done = target.get(b"f\0f 644 4 1.0 ./f\0", archive(member("./f")), path="f")
    assert done.returncode == 0 and os.listdir(target.into) == ["f"]
    target.check()


def test_a_file_that_has_become_a_directory_brings_no_other(target):
    """The workspace says whether the requested path is a file. The target here is a home directory."""
    evil = b"d\0f 644 4 1.0 ./.bashrc\0", archive(member("./.bashrc"))
    target.into.mkdir()
    os.chown(target.into, target.area.account.uid, target.area.account.gid)
    (target.into / "mine").write_text("mine")
    done = target.get(*evil, path="report.txt")
    assert done.returncode == 1 and "'report.txt/'" in done.stderr
    assert os.listdir(target.into) == ["mine"]
    # It arrives if asked for as a directory: into an empty one, and into an earlier copy of the same name.
    assert target.get(*evil, path="report.txt/").returncode == 0
    assert sorted(os.listdir(target.into)) == [".bashrc", "mine"]
    (target.into / ".bashrc").unlink()
    assert target.get(*evil, path="some/into").returncode == 0
    for name in (".bashrc", "mine"):
        (target.into / name).unlink()
    assert target.get(*evil, path="report.txt").returncode == 0
    target.check()


@pytest.mark.parametrize("words,members,word", [
    (["--max-size=1M"], [member("a", b"x" * MIB), member("b", b"x")], "--max-size"),
    (["--max-files=10"], [member(f"f{i}") for i in range(11)], "--max-files")])
def test_bombs(target, words, members, word):
    done = target.get(listing("x"), archive(*members), *words)
    assert done.returncode == 1 and word in done.stderr
    assert len(os.listdir(target.into)) <= 10
    target.check()


@pytest.mark.parametrize("members", [
    [member(f"{i}/" + "d/" * 50 + "f") for i in range(9)],
    [member("d/" * 50 + "f")],
    [member(f"{i}/b/../../../../x") for i in range(9)],
    [member(f"{i}/b/c/x", type=tarfile.LNKTYPE, linkname="f") for i in range(9)]],
    ids=["beside", "below", "left-out", "hard-links"])
def test_directories_that_no_entry_announces_count(target, members):
    done = target.get(listing("x"), archive(*members), "--max-files=10")
    assert done.returncode == 1 and "--max-files" in done.stderr
    assert sum(len(names) + len(files) for _, names, files in os.walk(target.into)) <= 10
    target.check()


def test_a_directory_counts_once(target):
    members = [member("a", type=tarfile.DIRTYPE), member("a/b", type=tarfile.DIRTYPE), member("a/b/c")]
    assert target.get(listing("x"), archive(*members), "--max-files=3").returncode == 0
    assert (target.into / "a/b/c").exists()


def test_a_file_that_claims_to_be_huge(target):
    """`get` checks the claimed size before it writes."""
    info, _ = member("huge")
    info.size = 1 << 50
    header = info.tobuf(tarfile.GNU_FORMAT)
    done = target.get(listing("x"), header)
    assert done.returncode == 1 and "--max-size" in done.stderr
    assert os.listdir(target.into) == []


@pytest.mark.parametrize("words,data,word", [
    (["--max-files=100"], listing(*[f"f{i}" for i in range(101)]), "--max-files"),
    ([], b"d\0" + b"x" * 10000, "list"), ([], b"d\0f 9 9 9 9\0", "list"), ([], b"d\0\0", "list"),
    ([], b"x\0", "list"), ([], b"", ""), ([], b"d\0f 644 99999999999999999999999 1 x\0", "list")], ids=range(7))
def test_lists_that_are_none(target, words, data, word):
    done = target.get(data, archive(member("x")), *words)
    assert done.returncode == 1 and word in done.stderr
    assert not target.into.exists() or os.listdir(target.into) == []
    target.check()


@pytest.mark.parametrize("data,is_new", [(b"d\0*\0", True), (b"d\0*\0", False), (b"*\0", True)])
def test_a_directory_is_taken_without_a_list_only_to_a_new_place(target, data, is_new):
    """Other files that are there could not be left as they are."""
    target.into.mkdir()
    os.chown(target.into, target.area.account.uid, target.area.account.gid)
    if not is_new:
        (target.into / "mine").write_text("mine")
    done = target.get(data, archive(member("x"), member("fifo", type=tarfile.FIFOTYPE), member("../x")))
    taken = data == b"d\0*\0" and is_new
    assert done.returncode == 1 and ("leads out" if taken else "list") in done.stderr and "fifo" not in done.stderr
    assert sorted(os.listdir(target.into)) == (["x"] if taken else [] if is_new else ["mine"])
    target.check()


def test_names_in_a_list_are_looked_up_below_the_target(target):
    """`get` does not tell the workspace that a file outside exists with some size."""
    target.into.mkdir()
    os.chown(target.into, target.area.account.uid, target.area.account.gid)
    status = target.secret.stat()
    names = [str(target.secret), "../secret", "l/secret"]
    (target.into / "l").symlink_to("..")
    entries = b"".join(b"f 600 9 %d.%09d %s\0" % (
        status.st_mtime_ns // 10**9, status.st_mtime_ns % 10**9, name.encode()) for name in names)
    target.get(b"d\0" + entries, archive())
    assert target.service.wanted == b"".join(name.encode() + b"\0" for name in names)


@pytest.mark.parametrize("data", [
    b"x" * 2000, b"\xff" * 512, archive(member("a"))[:514], b"\0" * 100,
    archive(member("a"))[:512].replace(b"00000000004", b"99999999999"),
    archive(member("n" * 200))[:512] + b"\xff" * 1024], ids=range(6))
def test_archives_that_are_none(target, data):
    done = target.get(listing("x"), data)
    assert done.returncode == 1 and done.stderr
    target.check()
    assert os.listdir(target.into) == []


def test_pax_records_that_are_none(target):
    def extended(text):
        info = tarfile.TarInfo("x")
        info.type, info.size = b"x", len(text)
        return info.tobuf(tarfile.USTAR_FORMAT) + text.ljust(-len(text) % 512 + len(text), b"\0") + archive(member("a"))
    for text in (b"999 path=a\n", b"10 pathxab\n", b"-1 path=a\n", b"13 path=a\0bcd\n",
                 b"18446744073709551616 path=a\n", b"30 size=999999999999999999999\n", b"25 GNU.sparse.major=1\n\n\n\n",
                 b"5002 path=" + b"p" * 4991 + b"\n", b"0 \n" * 10, b"12 mtime=x.y\n"):
        done = target.get(listing("x"), extended(text))
        assert done.returncode == 1 and done.stderr, text
        target.check()
        assert os.listdir(target.into) == [], text


@pytest.mark.parametrize("hangs,closes", [(True, False), (False, True)], ids=["interrupted", "lost"])
def test_half_a_file_is_none(target, hangs, closes):
    half = archive(member("whole", b"w"), member("half", b"h" * MIB))[:MIB // 2]
    process = target.start(listing("x"), half, hangs=hangs, closes=closes)
    with process:
        if hangs:
            def half_is_begun():
                names = os.listdir(target.into) if target.into.exists() else []
                return "whole" in names and any(name.startswith(".cloister-get-") for name in names)
            assert procfs.eventually(half_is_begun)
            process.send_signal(signal.SIGINT)
        finish(process)
    assert process.returncode == (130 if hangs else 1)
    target.check()
    assert os.listdir(target.into) == ["whole"]


def test_terminals_are_not_written_to(target):
    evil = "\x1b]0;owned\x07\x1b[2J"
    done = target.get(listing("x"), archive(link(evil, "/x"), member("../" + evil)))
    assert done.returncode == 1 and "\x1b" not in done.stderr


def test_nor_by_a_service_that_lies(target, monkeypatch):
    def refuse(service, params, **request):
        evil = "\x1b]0;owned\x07\x1b[2J"
        service.send(id=request["id"], error={"code": -32000, "message": evil, "data": {"code": evil}})
        return True

    monkeypatch.setattr(Service, "act", refuse)
    done = target.get(listing("x"), b"")
    assert done.returncode and "owned" in done.stderr and "\x1b" not in done.stderr


def test_an_archive_that_is_put_reaches_the_workspace_alone(area, daemon, client, workspace):
    outside = area.new_directory("outside")
    canary = outside / "canary"
    canary.write_text("untouched")
    canary.chmod(0o666)
    evil = [member(str(outside / "escaped")), member("../escaped"), link("d", str(outside)), member("d/escaped"),
            link("f", str(canary)), member("f"), member("h", type=tarfile.LNKTYPE, linkname=str(canary)), member("h"),
            link("up", "../" * 20 + str(outside).lstrip("/")), member("up/escaped"), member("suid", mode=0o6755),
            member("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=1), member("good", b"good")]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        data = archive(*evil, form=form)
        with area.start(["cloister", "--socket", str(daemon.socket), "--workspace", str(workspace), "put", "-"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            finish(process, data)
        assert os.listdir(outside) == ["canary"] and canary.read_text() == "untouched"
        assert canary.stat().st_nlink == 1
        assert not (workspace.parent / "escaped").exists()
        assert (workspace / "good").read_bytes() == b"good"
        assert client.run("echo served")["stdout"] == "served\n"


# Export and import


def whole(*members, entries=None):
    """An archive that says that it is a whole export."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "cloister export 1"}) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
        count = sum(info.name != "./" for info, _ in members) if entries is None else entries
        said = f"cloister export complete: {count}"
        out.write(tarfile.TarInfo.create_pax_global_header({"comment": said}))
        tar.addfile(directory("./", 0o700)[0])
    return out.getvalue()


LEADS_OUT = ["absolute", "parent", "parent inside", "parent at the end", "hard link outside", "device", "block device",
             "fifo", "empty name", "long name"]


@pytest.fixture
def managed(start_daemon, area):
    return start_daemon(config=f"[cloister]\n[tenant t]\nusers = {area.account.name}\nmanaged = yes\n")


def bring(managed, data, *words):
    with managed.area.start(["cloister", "--socket", str(managed.socket), "--workspace", "w", *words],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        stdout, stderr = finish(process, data)
    return subprocess.CompletedProcess(words, process.returncode, stdout, stderr.decode(errors="replace"))


@pytest.mark.parametrize("name", HOSTILE)
def test_an_import_is_understood_or_refused(managed, name):
    done = bring(managed, whole(member("good", b"good"), *HOSTILE[name]), "import")
    with managed.connect() as client:
        there = client.call("workspace.list")["workspaces"]
        assert bool(there) == (done.returncode == 0), done.stderr
        assert name not in LEADS_OUT or not there, done.stderr
        if there:
            client.call("workspace.open", {"workspace": "w"})
            # Links that lead out are links, as anywhere in a workspace: they lead to what its commands may see.
            found = client.run("find . -perm /7000; find . ! -type f ! -type d ! -type l; ls /tmp; cat good")
            assert found["stdout"] == "good", found
    assert not os.path.exists("/tmp/cloister-escaped")


@pytest.mark.parametrize("entries", [0, 2, 10**30])
def test_an_import_counts_what_came(managed, entries):
    done = bring(managed, whole(member("good"), entries=entries), "import")
    assert done.returncode == 1 and "not complete" in done.stderr
    with managed.connect() as client:
        assert client.call("workspace.list")["workspaces"] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_workspace_exports_nothing_that_leads_out(area, name):
    """The workspace's tar is not believed: what comes out is written anew."""
    path = area.new_directory("export")
    sent = archive(member("good", b"good"), *HOSTILE[name])

    class Exporting(Service):
        def act(self, method, params, **request):
            if method == "workspace.open":
                self.send(id=request["id"], result={"workspace": "w"})
            elif method == "tool.cancel":
                self.send(id=request["id"], result={"cancelled": True})
                self.end(params["id"], success=False)
            else:
                self.output(request["id"], sent)
                self.end(request["id"])
            return True

    Exporting(path / "s", b"", b"")
    with area.start(["cloister", "--socket", str(path / "s"), "--workspace", "w", "export"], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        stdout, stderr = finish(process)
    if b"cloister export complete" not in stdout:
        assert process.returncode == 1 and stderr.startswith(b"cloister: "), stderr
        return
    with tarfile.open(fileobj=io.BytesIO(stdout)) as tar:
        for entry in tar:
            assert entry.isreg() or entry.isdir() or entry.issym() or entry.islnk(), entry
            assert not entry.name.startswith("/") and ".." not in entry.name.split("/")
            assert not entry.islnk() or (".." not in entry.linkname.split("/") and entry.linkname[0] != "/")
            assert not entry.mode & 0o7000 and (entry.uid, entry.gid, entry.uname) == (0, 0, "")
