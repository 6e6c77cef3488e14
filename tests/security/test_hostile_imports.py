# SPDX-License-Identifier: Apache-2.0
"""Archives and images that are made to write, read or fill what is not theirs: each is refused by a code, nothing of it
stays, and nothing outside of the template has changed."""

import contextlib
import json
import os
import subprocess
import tarfile

import pytest

import procfs
from cloister_client import acting_as
from daemon import SYSTEM, Daemon, is_sanitized
from images import COMPRESSIONS, LAYER, Layout, archive, directory, entry, hardlink, symlink

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make the archives for another account")

SECRET = "the host's"


def config_of(area):
    """The tenant may have 64 MiB and 300 files."""
    lines = ["[cloister]", *["mode = system"] * SYSTEM, f"admin_group = {area.account.gid}", "disk_classes = small:64M:300:100",
             "[tenant one]", f"users = {area.account.name}", "managed = yes", "disk_class = small", ""]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def service(area):
    """A cloisterd for all that is refused, and so leaves nothing."""
    running = Daemon(area, config=config_of(area), system=SYSTEM)
    yield running
    assert running.stop() == 0


@pytest.fixture
def own_service(start_daemon, area):
    return start_daemon(config=config_of(area), system=SYSTEM)


@pytest.fixture
def source(area):
    path = area.new_directory("source")
    path.chmod(0o777)
    with acting_as(os.getuid()):
        (path / "outside").mkdir()
        (path / "outside").chmod(0o777)
        (path / "outside" / "f").write_text(SECRET)
        (path / "outside" / "f").chmod(0o666)
    return path


def put(source, data):
    with acting_as(os.getuid()):
        path = source / "archive"
        path.write_bytes(data)
        path.chmod(0o644)
    return path


def state_of(source):
    with acting_as(os.getuid()):
        top = source / "outside"
        return sorted((str(path), path.read_text() if path.is_file() else "", path.lstat().st_mode, path.lstat().st_nlink)
                      for path in [top, *top.rglob("*")])


def templates(service):
    with acting_as(os.getuid()):
        return list((service.state / "templates" / "one").glob("*"))


def refused(service, source, path, *words):
    before = state_of(source)
    said = service.ctl("template", "import", "bad", str(path))
    assert said.returncode in (1, 2, 3), said
    for word in words:
        assert word.encode() in said.stderr, (word, said)
    assert procfs.eventually(lambda: not templates(service))
    assert state_of(source) == before


def climb(path):
    return "../" * 12 + str(path).lstrip("/")


# What each has, and the words of its refusal. OUT is a directory of the host that all may write.
ARCHIVES = {
    "absolute": ([entry("OUT/f", content=b"x")], "PATH_OUTSIDE_WORKSPACE", "begins with '/'"),
    "absolute directory": ([directory("OUT/d")], "PATH_OUTSIDE_WORKSPACE"),
    "climbs": ([entry("CLIMB/f", content=b"x")], "PATH_OUTSIDE_WORKSPACE", "'..'"),
    "climbs late": ([entry("a/b/../../../x", content=b"x")], "PATH_OUTSIDE_WORKSPACE", "a/b/../../../x"),
    "climbs and stays": ([directory("a"), entry("a/../f")], "PATH_OUTSIDE_WORKSPACE"),
    "ends with two dots": ([directory("a/..")], "PATH_OUTSIDE_WORKSPACE"),
    "through a link": ([symlink("a", "OUT"), entry("a/f", content=b"x")], "SYMLINK_OUTSIDE_WORKSPACE", "a/f"),
    "through a link that climbs": ([symlink("a", "CLIMB"), entry("a/f", content=b"x")], "SYMLINK_OUTSIDE_WORKSPACE"),
    "through a link that stays": ([directory("d"), symlink("a", "d"), entry("a/f")], "SYMLINK_OUTSIDE_WORKSPACE"),
    "through two links": ([symlink("a", "b"), symlink("b", "OUT"), entry("a/f")], "SYMLINK_OUTSIDE_WORKSPACE"),
    "a directory through a link": ([symlink("a", "OUT"), directory("a/d")], "SYMLINK_OUTSIDE_WORKSPACE"),
    "a link through a link": ([symlink("a", "OUT"), symlink("a/l", "x")], "SYMLINK_OUTSIDE_WORKSPACE"),
    "the link's directory again": ([symlink("a", "OUT"), directory("a"), entry("a/f")], "FORBIDDEN", "there twice"),
    "a directory becomes a link": ([directory("a"), symlink("a", "OUT"), entry("a/f")], "FORBIDDEN", "there twice"),
    "an implied directory becomes a link": ([entry("a/f"), symlink("a", "OUT"), entry("a/f")], "FORBIDDEN", "there twice"),
    "a directory becomes a file": ([directory("a"), entry("a", content=b"x")], "FORBIDDEN"),
    "the root becomes a link": ([symlink("./", "OUT"), entry("f")], "FORBIDDEN"),
    "a file has files": ([entry("a"), entry("a/f")], "NOT_A_DIRECTORY"),
    "hard link to the host": ([hardlink("a", "OUT/f"), entry("a", content=b"x")], "PATH_OUTSIDE_WORKSPACE"),
    "hard link that climbs": ([hardlink("a", "CLIMB/f")], "PATH_OUTSIDE_WORKSPACE"),
    "hard link through a link": ([symlink("l", "OUT"), hardlink("a", "l/f")], "SYMLINK_OUTSIDE_WORKSPACE"),
    "hard link to a directory": ([directory("d"), hardlink("a", "d")], "NOT_FOUND"),
    "hard link to nothing": ([hardlink("a", "b")], "NOT_FOUND", "does not come before"),
    "hard link to itself": ([hardlink("a", "a")], "NOT_FOUND"),
    "hard link to the root": ([hardlink("a", ".")], "NOT_FOUND"),
    "a name without end": ([entry("n" * 256)], "NAME_TOO_LONG"),
    "a path without end": ([entry("/".join(["n" * 200] * 30))], "NAME_TOO_LONG"),
    "a link's target without end": ([symlink("a", "n" * 5000)], "NAME_TOO_LONG"),
    "too deep": ([directory("/".join(["d"] * 300))], "NAME_TOO_LONG", "198"),
    "terminal codes": ([entry("../\x1b[2J\u202e")], "PATH_OUTSIDE_WORKSPACE", "../?[2J???"),
}


# A layer's entries are made by the same code as an archive's, unpack_tree.c.
@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("form", ["archive", pytest.param("image", marks=pytest.mark.deep("repeats"))])
def test_an_archive_that_leaves_the_template(service, source, name, form):
    entries, *words = ARCHIVES[name]
    out = source / "outside"

    def filled(text):
        return text.replace("CLIMB", climb(out)).replace("OUT", str(out))

    entries = [entry(filled(info.name), info.type, content, linkname=filled(info.linkname), mode=info.mode)
               for info, content in entries]
    if form == "archive":
        path = put(source, archive(*entries))
    else:
        with acting_as(os.getuid()):
            built = Layout(source / "layout")
            path = built.image(built.layer(*entries)).path
    refused(service, source, path, *words)


def test_links_are_kept_and_not_followed(own_service, source):
    """Names that lead out are as a workspace's own: its tools refuse them, and its commands see another root."""
    out = source / "outside"
    path = put(source, archive(symlink("a", str(out / "f")), symlink("up", climb(out)), hardlink("b", "a"), entry("user.x")))
    assert own_service.ctl("template", "import", "base", str(path)).returncode == 0
    client = own_service.connect()
    client.call("workspace.open", {"workspace": client.call("workspace.fork", {"from": "base"})["workspaces"][0]})
    for name in ("a", "b", "up/f"):
        assert client.observe("read_file", {"path": name})["error"]["code"] in ("SYMLINK_OUTSIDE_WORKSPACE", "PATH_OUTSIDE_WORKSPACE")
    assert client.run("cat a b up/f 2>/dev/null")["stdout"] == ""


def test_a_link_in_a_layer_below(own_service, source):
    """A layer's entry behind a link of another layer, and whiteouts behind it."""
    out = str(source / "outside")
    for upper in ([entry("a/f", content=b"x")], [directory("a/d")], [hardlink("x", "a/f")]):
        with acting_as(os.getuid()):
            subprocess.run(["rm", "-rf", source / "layout"], check=True)
            built = Layout(source / "layout")
            built.image(built.layer(symlink("a", out)), built.layer(*upper))
        refused(own_service, source, built.path, "SYMLINK_OUTSIDE_WORKSPACE")
    before = state_of(source)
    with acting_as(os.getuid()):
        subprocess.run(["rm", "-rf", source / "layout"], check=True)
        built = Layout(source / "layout")
        built.image(built.layer(symlink("a", out)), built.layer(entry("a/.wh.f"), entry("a/.wh..wh..opq")))
    assert own_service.ctl("template", "import", "base", str(built.path)).returncode == 0
    assert state_of(source) == before


def test_a_link_to_what_it_replaces(service, source):
    """The file is in a directory of a layer below, which gives way to the link."""
    with acting_as(os.getuid()):
        built = Layout(source / "layout")
        built.image(built.layer(entry("a/f", content=b"x")), built.layer(hardlink("a", "a/f")))
    refused(service, source, built.path, "NOT_FOUND", "does not come before")


@pytest.mark.parametrize("name", [".wh.", ".wh...", "d/.wh..", "../.wh.x", "OUT/.wh.f", "a/../.wh.x"])
def test_whiteouts_that_name_no_entry(service, source, name):
    with acting_as(os.getuid()):
        built = Layout(source / "layout")
        name = name.replace("OUT", str(source / "outside"))
        built.image(built.layer(directory("d"), entry("d/f")), built.layer(entry(name)))
    refused(service, source, built.path, "whiteout" if name.rpartition("/")[2] in (".wh.", ".wh...", ".wh..") else "PATH_OUTSIDE_WORKSPACE")


def test_bombs(service, source):
    """More bytes, files, entries or holes than a workspace may have, out of little."""
    cases = [
        (archive(*[entry(f"f{i}") for i in range(301)]), "QUOTA_EXCEEDED", "more files"),
        (archive(*[entry("f")] * 301), "QUOTA_EXCEEDED", "more files"),
        (archive(entry("/".join(["d"] * 150)), *[directory("/".join([str(i)] * 150)) for i in range(2)]), "QUOTA_EXCEEDED", "more files"),
        (COMPRESSIONS["gzip"](archive(entry("f", content=bytes(65 << 20)))), "QUOTA_EXCEEDED", "more room"),
        (COMPRESSIONS["gzip"](archive(*[entry("f", content=bytes(10 << 20))] * 7)), "QUOTA_EXCEEDED", "more room"),
        (archive(entry("f", size=2**41)), "FILE_TOO_LARGE"),
        (archive(entry("f", size=2**62)), "FILE_TOO_LARGE"),
    ]
    for data, *words in cases:
        refused(service, source, put(source, data), *words)


def test_holes_without_number(service, source):
    """A sparse file of many single bytes takes a block for each."""
    with acting_as(os.getuid()):
        big = source / "big"
        with open(big, "wb") as file:
            for i in range(17000):
                os.pwrite(file.fileno(), b"x", i * 8192)
        subprocess.run(["tar", "--sparse", "--hole-detection=seek", "-C", source, "-cf", source / "archive", "big"], check=True)
        (source / "archive").chmod(0o644)
        big.unlink()
    refused(service, source, source / "archive", "QUOTA_EXCEEDED", "more room")


def squeezed(source, head, mib):
    """An archive of @head and so many MiB of zeros, which take next to nothing."""
    with acting_as(os.getuid()):
        with open(source / "archive", "wb") as out:
            squeeze = subprocess.Popen(["zstd", "-cq"], stdin=subprocess.PIPE, stdout=out)
            squeeze.stdin.write(head)
            for _ in range(mib):
                squeeze.stdin.write(bytes(1 << 20))
            squeeze.stdin.close()
            squeeze.wait()
        (source / "archive").chmod(0o644)
    return source / "archive"


def as_layer(source, path):
    with acting_as(os.getuid()):
        built = Layout(source / "layout")
        return built.image(built.blob(path.read_bytes(), LAYER + "+zstd")).path


@pytest.mark.parametrize("form", ["archive", "layer"])
def test_a_stream_without_end(service, source, form):
    """Content is read no further than a workspace has room, also where nobody keeps it: the whiteouts of a layer are looked
    for first."""
    path = squeezed(source, entry("d", size=2**40 - 1)[0].tobuf(tarfile.GNU_FORMAT), 200)
    refused(service, source, as_layer(source, path) if form == "layer" else path, "QUOTA_EXCEEDED")


def test_a_stream_that_its_size_does_not_explain(start_daemon, area, source):
    """Where a workspace may have much room; the layer's files are not made yet."""
    service = start_daemon(config=tenants_of(area, 1), system=SYSTEM)
    path = squeezed(source, entry("d", size=2**40 - 1)[0].tobuf(tarfile.GNU_FORMAT), 1500)
    refused(service, source, as_layer(source, path), "QUOTA_EXCEEDED", "200 times its size")


def test_a_window_larger_than_the_memory(service, source):
    with acting_as(os.getuid()):
        subprocess.run(["zstd", "-q", "--ultra", "-22", "--long=31", "-o", source / "archive"],
                       input=archive(entry("f", content=b"x")) + bytes(1 << 20), check=True)
        (source / "archive").chmod(0o644)
    said = service.ctl("template", "import", "t", str(source / "archive"))
    assert said.returncode == 2 and b"no tar archive" in said.stderr, said


BAD_DIGESTS = ("", "sha256:", "sha256:../../../../etc/passwd", "sha256:" + "g" * 64, "sha256:" + "A" * 64, "sha512:" + "a" * 128,
               "sha256:" + "a" * 63, "sha256:" + "a" * 63 + "/", "sha256:" + "a" * 62 + "..")


def test_images_that_lie(service, source):
    """About digests, sizes, kinds and numbers."""
    def build(change):
        with acting_as(os.getuid()):
            subprocess.run(["rm", "-rf", source / "layout"], check=True)
            built = Layout(source / "layout")
            change(built)
        return built.path

    def with_layer(**change):
        return lambda built: built.image({**built.layer(entry("f")), **change})

    def swap(built):
        layer = built.layer(entry("f", content=b"good"))
        other = COMPRESSIONS["gzip"](archive(entry("f", content=b"evil")))
        blob = built.path / "blobs" / "sha256" / layer["digest"][7:]
        blob.write_bytes(other + bytes(max(0, layer["size"] - len(other))))
        built.image({**layer, "size": blob.stat().st_size})

    def swapped_manifest(built):
        manifest = built.manifest([built.layer(entry("f"))])
        blob = built.path / "blobs" / "sha256" / manifest["digest"][7:]
        blob.write_text(blob.read_text().replace('"schemaVersion": 2', '"schemaVersion": 3'))
        built.index(manifest)

    def linked(built):
        layer = built.layer(entry("f"))
        blob = built.path / "blobs" / "sha256" / layer["digest"][7:]
        blob.rename(source / "moved")
        blob.symlink_to(source / "moved")
        built.image(layer)

    def text(name, content):
        return lambda built: (built.image(built.layer(entry("f"))), (built.path / name).write_text(content))

    cases = [(with_layer(size=1), "size"), (with_layer(size=2**50), "size"), (with_layer(digest="sha256:" + "a" * 64), "missing"),
             (with_layer(mediaType="application/x-shellscript"), "application/x-shellscript"),
             (with_layer(mediaType=LAYER + "+gzip+encrypted"), "not known"), (swap, "SHA-256"), (swapped_manifest, "SHA-256"), (linked, "missing"),
             (text("oci-layout", "{}"), "oci-layout"), (text("oci-layout", '{"imageLayoutVersion": "9"}'), "oci-layout"),
             (text("index.json", "[" * 10000), "index.json"), (text("index.json", '{"manifests": 1}'), "index.json"),
             (text("index.json", json.dumps({"manifests": [{}]})), "index.json"), (text("index.json", '"' + "x" * (5 << 20) + '"'), "index.json"),
             (lambda built: built.image(*[built.layer(entry("f"))] * 129), "128 layers")]
    cases += [(with_layer(digest=digest), "is not what the OCI") for digest in BAD_DIGESTS]
    for change, word in cases:
        refused(service, source, build(change), word)


def test_an_index_that_names_itself(service, source):
    """It cannot by its digest; one without end by nesting is cut off."""
    with acting_as(os.getuid()):
        built = Layout(source / "layout")
        descriptor = built.manifest([built.layer(entry("f"))])
        for _ in range(5):
            descriptor = built.blob(json.dumps({"schemaVersion": 2, "manifests": [descriptor]}).encode(), "application/vnd.oci.image.index.v1+json")
        built.index(descriptor)
    refused(service, source, built.path, "no image")


@pytest.mark.deep("slow")
def test_what_reads_an_archive(own_service, source):
    """cloister-unpack while it works: alone in its namespaces, without capabilities, with the two trees only."""
    with acting_as(os.getuid()):
        fifo = source / "slow"
        fifo.write_bytes(COMPRESSIONS["bzip2"](archive(*[entry(f"f{i}", content=os.urandom(1 << 20)) for i in range(40)])))
        fifo.chmod(0o644)
    seen, spawner = [], own_service.spawner()

    def look():
        for pid in map(int, open(f"/proc/{spawner}/task/{spawner}/children").read().split()):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                status = procfs.status(pid)
                if procfs.name(pid) == "cloister-unpack" and status["Seccomp"].split() == ["2"] and int(status["CapBnd"].split()[0], 16) == 0:
                    mounts = sorted(line.split()[4] for line in open(f"/proc/{pid}/mountinfo"))
                    spaces = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in ("user", "mnt", "pid", "ipc", "uts", "net")}
                    files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
                    seen.append((status, mounts, spaces, files))
        return seen

    for i in range(10):
        words = ["cloisterctl", "--socket", str(own_service.control_socket), "template", "import", f"t{i}", str(fifo)]
        with own_service.area.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            with acting_as(os.getuid()):
                procfs.eventually(look, 20, 0.0005)
            process.wait()
        if seen and seen[-1][1] == ["/", "/from", "/to"]:
            break
    status, mounts, spaces, files = seen[-1]
    assert mounts == ["/", "/from", "/to"]
    for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
        assert int(status[name].split()[0], 16) == 0, name
    assert status["NoNewPrivs"].split() == ["1"] and set(status["Uid"].split()) == {str(own_service.account.uid)}
    assert status["NSpid"].split()[-1] == "1"
    with acting_as(os.getuid()):
        for name, space in spaces.items():
            assert space != os.readlink(f"/proc/{spawner}/ns/{name}"), name
    assert not [name for name in files if name.startswith("socket:")] and len([name for name in files if name.startswith("pipe:")]) <= 1 + is_sanitized()


LIAR = r"""
#include <stdint.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
	unsigned char report[64 + 4096];
	memset(report, 'A', sizeof(report));
	%s
	return %d;
}
"""


@pytest.fixture
def liar(area):
    """Puts a program in the place of cloister-unpack: liar(what it does, its exit status)."""
    program = area.bin / "cloister-unpack"
    with acting_as(os.getuid()):
        program.rename(program.with_suffix(".real"))

    def become(what, status):
        with acting_as(os.getuid()):
            subprocess.run(["gcc", "-include", "signal.h", "-w", "-xc", "-", "-o", program], input=LIAR % (what, status), text=True, check=True)
            program.chmod(0o755)

    yield become
    with acting_as(os.getuid()):
        program.with_suffix(".real").rename(program)


def tenants_of(area, count):
    lines = ["[cloister]", *["mode = system"] * SYSTEM, f"admin_group = {area.account.gid}"]
    for name in ("one", "two", "three")[:count]:
        lines += [f"[tenant {name}]", f"users = {area.account.name}", "managed = yes"]
    return "\n".join([*lines, ""])


FILLER = r"""
static char block[65536];
for (int i = 0;; i++) {
	char name[16];
	int fd;
	__builtin_sprintf(name, "f%d", i);
	fd = openat(4, name, 0101 /* O_CREAT | O_WRONLY */, 0600);
	if (fd < 0 || (WRITE))
		for (;;)
			pause();
	close(fd);
}
"""


@pytest.mark.parametrize("write", ["write(fd, block, sizeof(block)) != sizeof(block)", "0"], ids=["bytes", "files"])
def test_a_process_that_fills_the_disk(liar, start_daemon, area, source, write):
    """It counts nothing once it was taken over: the spawner ends it while others can still write."""
    liar(FILLER.replace("WRITE", write), 0)
    with area.disk("64m,nr_inodes=4096") as place:
        service = start_daemon(config=tenants_of(area, 1), system=SYSTEM, state=place / "state")
        said = service.ctl("template", "import", "bad", str(put(source, archive(entry("f")))))
        assert said.returncode in (1, 2, 3) and b"NO_SPACE" in said.stderr, said
        assert procfs.eventually(lambda: not templates(service))
        assert service.ctl("status").returncode == 0
        service.stop()


@pytest.mark.parametrize("what, status, words", [
    ("(void)!write(5, report, sizeof(report));", 1, ()), ("(void)!write(5, report, 3);", 1, ()), ("", 1, ()), ("", 7, ()),
    ("memset(report, 0, 44); report[0] = 2; report[40] = 8; memcpy(report + 44, \"\\033[2J\\xff\\\"\\n\", 7); (void)!write(5, report, 52);", 1, ("?[2J?",)),
    ("for (int i = 0; i < 100000; i++) (void)!write(5, report, sizeof(report));", 1, ()), ("__builtin_trap();", 0, ()),
], ids=["long", "short", "none", "status", "codes", "flood", "dies"])
def test_a_report_of_a_process_that_was_taken_over(liar, start_daemon, area, source, what, status, words):
    """Whatever it says is at most a sentence for the administrator, and no template."""
    liar(what, status)
    service = start_daemon(config=tenants_of(area, 1), system=SYSTEM)
    said = service.ctl("template", "import", "bad", str(put(source, archive(entry("f")))))
    assert said.returncode in (1, 2, 3) and b"\x1b" not in said.stderr, said
    for word in words:
        assert word.encode() in said.stderr, said
    assert procfs.eventually(lambda: not templates(service))
    assert service.ctl("status").returncode == 0


def unpackers(service):
    with acting_as(os.getuid()):
        return [pid for pid in procfs.children(service.spawner()) if procfs.name(pid) == "cloister-unpack"]


def test_processes_that_do_not_end(liar, start_daemon, area, source):
    """Two run at once; the import of a third tenant waits for its turn, a tenant's second one does not come before it, and
    nobody's copies wait. They end with the service, and one that is killed is told."""
    liar("for (;;) pause();", 0)
    service = start_daemon(config=tenants_of(area, 3), system=SYSTEM)
    path, started = str(put(source, archive(entry("f")))), []

    def begin(tenant, template="t"):
        words = ["cloisterctl", "--socket", str(service.control_socket), "template", "import", "--tenant", tenant, template, path]
        started.append(area.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))

    begin("one")
    assert procfs.eventually(lambda: len(unpackers(service)) == 1)
    begin("one", "second")
    begin("two")
    assert procfs.eventually(lambda: len(unpackers(service)) == 2)
    begin("three")
    client = service.connect()
    client.call("workspace.open", {"workspace": "w", "tenant": "three"})
    client.run("echo x > f")
    client.call("workspace.freeze", {"template": "mine"})  # a copier has its place
    killed, left = unpackers(service)
    with acting_as(os.getuid()):
        os.kill(killed, 9)
    assert procfs.eventually(lambda: [process.poll() for process in started].count(None) == 3)
    assert procfs.eventually(lambda: len(unpackers(service)) == 2)
    (ended,) = [process for process in started if process.poll() is not None]
    assert ended.returncode in (1, 3) and b"did not say why" in ended.stderr.read()
    spawner = service.spawner()
    service.process.kill()
    service.process.wait()
    assert procfs.eventually(lambda: not procfs.is_alive(left) and not procfs.is_alive(spawner))
    for process in started:
        process.wait()
        process.stderr.close()


@pytest.mark.deep("busy")
def test_a_client_that_leaves(liar, start_daemon, area, source):
    """The template is made all the same, or is not, and nothing else stays."""
    liar("usleep(300000);", 1)
    service = start_daemon(config=tenants_of(area, 1), system=SYSTEM)
    words = ["cloisterctl", "--socket", str(service.control_socket), "template", "import", "t", str(put(source, archive(entry("f"))))]
    with area.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert procfs.eventually(lambda: unpackers(service), 20, 0.001)
        process.kill()
    assert procfs.eventually(lambda: not unpackers(service) and not templates(service))
    assert service.ctl("status").returncode == 0
