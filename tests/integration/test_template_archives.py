# SPDX-License-Identifier: Apache-2.0
"""Templates that are made of tar archives and OCI image layouts: what forks of them have."""

import io
import json
import os
import subprocess
import tarfile

import pytest

import procfs
from cloister_client import acting_as
from daemon import SYSTEM, system_config
from images import ARCHITECTURE, COMPRESSIONS, INDEX, Layout, archive, directory, entry, hardlink, symlink

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make the archives for another account")

PLATFORM = {"os": "linux", "architecture": ARCHITECTURE}


@pytest.fixture
def service(start_daemon, area):
    """One whose user may use cloisterctl in system mode, too."""
    more = {"config": system_config(area, f"admin_group = {area.account.gid}"), "system": True} if SYSTEM else {}
    return start_daemon(**more)


@pytest.fixture
def source(area):
    path = area.new_directory("source")
    path.chmod(0o755)
    return path


def put(source, data, name="archive"):
    with acting_as(os.getuid()):
        path = source / name
        path.write_bytes(data)
        path.chmod(0o644)
    return path


def layout(source):
    with acting_as(os.getuid()):
        return Layout(source / "layout")


def make(service, path, name="base"):
    said = service.ctl("template", "import", name, str(path))
    assert said.returncode == 0, said
    return said.stdout.decode()


def refused(service, path, *words):
    said = service.ctl("template", "import", "bad", str(path))
    assert said.returncode in (1, 2, 3), said
    for word in words:
        assert word.encode() in said.stderr, (word, said)
    assert procfs.eventually(lambda: not service.unfinished())


def fork(service, template="base"):
    client = service.connect()
    name = client.call("workspace.fork", {"from": template})["workspaces"][0]
    client.call("workspace.open", {"workspace": name})
    return client


def shown(service, template="base"):
    """{path: what it is} of a fork."""
    script = r"find . -mindepth 1 \( -type l -printf '%P -> %l\n' -o -type d -printf '%P/\n' -o -printf '%P = ' -exec cat {} \; -exec echo \; \)"
    with fork(service, template) as one:
        return set(one.run(script)["stdout"].splitlines())


def image(service, source, *layers):
    built = layout(source)
    with acting_as(os.getuid()):
        built.image(*[built.layer(*entries) for entries in layers])
    make(service, built.path)
    return shown(service)


TREE = [directory("./"), directory("./bin", mode=0o751), entry("./bin/tool", content=b"tool", mode=0o4755),
        symlink("./link", "/etc/passwd"), symlink("./up", "../../../x"), hardlink("./same", "./bin/tool"),
        entry("./a b", content=b"x"), entry("./implied/deep/f", content=b"y"), directory("./shut", mode=0o500),
        entry("./shut/f", content=b"z", mode=0o400), entry("./" + "n" * 200, content=b"long"),
        entry("./" + "/".join(["d" * 100] * 6) + "/f", content=b"deep"), entry("./é\udcff", content=b"bytes")]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive(service, source, compression, form):
    entries = [one for one in TREE if form == tarfile.GNU_FORMAT or "\udcff" not in one[0].name]
    said = make(service, put(source, COMPRESSIONS[compression](archive(*entries, form=form))))
    assert said == "The template is made.\nLeft out: 1 set-user-ID or set-group-ID bits, on files that it has without.\n"
    with fork(service) as one:
        def run(command):
            return one.run(command)["stdout"].split("\n")[:-1]

        assert run("cat bin/tool same 'a b' implied/deep/f shut/f n* d*/*/*/*/*/*/f; echo") == ["tooltoolxyzlongdeep"]
        assert run("stat -c '%a %h %U %Y' bin/tool bin shut shut/f implied") == \
            ["755 2 agent 1000000000", "751 2 agent 1000000000", "500 2 agent 1000000000", "400 1 agent 1000000000", run("stat -c '%a %h %U %Y' implied")[0]]
        assert run("readlink link up") == ["/etc/passwd", "../../../x"]
        if form == tarfile.GNU_FORMAT:
            assert run("cat é*; echo; ls | tail -n1 | od -An -tx1 | head -c9") == ["bytes", " c3 a9 ff"] or \
                run("printf 'é\\377' | xargs cat; echo") == ["bytes"]
        run("echo changed > bin/tool")
    assert shown(service) != set()


NAMES = ["cafe\u0301", "caf\u00e9", "\u1112\u1161\u11ab", "\ud55c", "\u2126", "\u03a9", "\U0001f600", "\udcff\udcc3"]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_are_bytes(service, source, form):
    """None becomes another one that looks the same, and so two files stay two; nor does what a link leads to."""
    names = [name for name in NAMES if form == tarfile.GNU_FORMAT or "\udcff" not in name]
    make(service, put(source, archive(*[entry(name) for name in names], *[symlink(f"to-{i}", name) for i, name in enumerate(names)],
                                      *[hardlink(f"also-{i}", name) for i, name in enumerate(names)], form=form)))
    with acting_as(os.getuid()):
        (made,) = (service.state / "templates").rglob("base")
        assert {name for name in os.listdir(made) if not name.isascii()} == set(names)
        assert [os.readlink(made / f"to-{i}") for i in range(len(names))] == names
        assert all(os.path.samefile(made / f"also-{i}", made / name) for i, name in enumerate(names))


def test_what_tar_itself_writes(service, source):
    """GNU tar, with sparse files and names that take headers of their own."""
    with acting_as(os.getuid()):
        tree = source / "tree"
        (tree / "sub").mkdir(parents=True)
        (tree / "sub" / ("x" * 255)).write_text("name")
        with open(tree / "sparse", "wb") as file:
            file.write(b"begin")
            file.seek(6 << 30)
            file.write(b"end")
        os.mkfifo(tree / "fifo")
        os.mknod(tree / "null", 0o20666, os.makedev(1, 3))
        subprocess.run(["tar", "--sparse", "-C", tree, "-czf", source / "a.tgz", "."], check=True)
        (source / "a.tgz").chmod(0o644)
    assert make(service, source / "a.tgz") == "The template is made.\nLeft out: 2 devices, FIFOs or sockets.\n"
    with fork(service) as one:
        size, blocks, end, names = one.run("stat -c '%s %b' sparse; tail -c 3 sparse; echo; ls . sub | wc -l")["stdout"].split()
        assert (int(size), end, names) == ((6 << 30) + 3, "end", "6") and int(blocks) < 100


def test_an_entry_that_comes_again_replaces_the_first(service, source):
    make(service, put(source, archive(
        entry("f", content=b"old"), entry("g", content=b"kept"), hardlink("f2", "f"), entry("f", content=b"new"), symlink("g", "f"),
        directory("d", mode=0o700), entry("d/x", content=b"x"), directory("d", mode=0o711))))
    assert shown(service) == {"f = new", "f2 = old", "g -> f", "d/", "d/x = x"}
    with fork(service) as one:
        assert one.run("stat -c %a d")["stdout"] == "711\n"


def test_layers(service, source):
    """What an upper layer hides, replaces and adds."""
    assert image(service, source, [
        directory("etc"), entry("etc/a", content=b"1"), entry("etc/b", content=b"1"), directory("gone"), entry("gone/deep/f"),
        directory("opaque"), entry("opaque/old"), directory("opaque/sub"), entry("opaque/sub/old"), directory("swapped"),
        entry("swapped/f"), symlink("link", "etc"), entry("file", content=b"1"), entry("linked", content=b"1")], [
        entry("etc/a", content=b"2"), entry("etc/.wh.b"), entry(".wh.gone"), entry("opaque/new", content=b"2"), entry("opaque/.wh..wh..opq"),
        symlink("swapped", "etc"), directory("link"), entry("link/in", content=b"2"), directory("file"), entry("file/in", content=b"2"),
        hardlink("other", "linked"), entry(".wh..wh.plnk"), entry(".wh.never-there")], [
        entry("etc/.wh.a"), entry("etc/c", content=b"3"), entry(".wh.swapped")]) == \
        {"etc/", "etc/c = 3", "opaque/", "opaque/new = 2", "link/", "link/in = 2", "file/", "file/in = 2", "linked = 1", "other = 1"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_layer_hides_only_what_is_below_it(service, source, order):
    """Wherever the whiteout stands among its entries."""
    upper = [directory("d"), entry("d/new", content=b"2"), entry("d/.wh..wh..opq"), entry("f", content=b"2"), entry(".wh.f")]
    assert image(service, source, [directory("d"), entry("d/old"), entry("f", content=b"1")], upper[::order]) == \
        {"d/", "d/new = 2", "f = 2"}


def test_a_whiteout_is_a_name_like_others_in_an_archive(service, source):
    make(service, put(source, archive(entry("f", content=b"x"), entry(".wh.f", content=b"y"))))
    assert shown(service) == {"f = x", ".wh.f = y"}


def test_the_image_for_this_processor_is_taken(service, source):
    built = layout(source)
    with acting_as(os.getuid()):
        ours = built.manifest([built.layer(entry("ours"), compression="zstd")], platform=PLATFORM)
        other = built.manifest([built.layer(entry("other"))], platform={"os": "linux", "architecture": "s390x"})
        unknown = built.manifest([], platform={"os": "unknown", "architecture": "unknown"})
        inner = built.blob(json.dumps({"schemaVersion": 2, "manifests": [other, ours, unknown]}).encode(), INDEX)
        built.index(inner)
    make(service, built.path)
    assert shown(service) == {"ours = "}
    with acting_as(os.getuid()):
        built.index(ours, built.manifest([built.layer(entry("again"))], platform=PLATFORM))
    refused(service, built.path, "or several")
    with acting_as(os.getuid()):
        built.index(other)
    refused(service, built.path, "no image for this kind of processor")


def test_an_image_that_has_several_names(service, source):
    """Each is a descriptor of the same manifest in the index; two images are still two."""
    built = layout(source)
    with acting_as(os.getuid()):
        one, other = (built.manifest([built.layer(entry("f", content=content))]) for content in (b"1", b"2"))
        names = [{**one, "annotations": {"org.opencontainers.image.ref.name": name}} for name in ("latest", "1")]
        built.index(*names)
    make(service, built.path)
    assert shown(service) == {"f = 1"}
    with acting_as(os.getuid()):
        built.index(*names, other)
    refused(service, built.path, "or several")


def test_an_image_that_needs_more_than_one_layer_kind(service, source):
    built = layout(source)
    with acting_as(os.getuid()):
        built.image(built.layer(entry("a"), compression="plain"), built.layer(compression="gzip"), built.layer(entry("b"), compression="zstd"))
    make(service, built.path)
    assert shown(service) == {"a = ", "b = "}


def test_left_out_as_json(service, source):
    info = tarfile.TarInfo("f")
    info.pax_headers = {"SCHILY.xattr.user.x": "1", "SCHILY.xattr.user.overlay.opaque": "y"}
    path = put(source, archive((info, b""), entry("c", tarfile.CHRTYPE), entry("p", tarfile.FIFOTYPE), entry("s", mode=0o2755)))
    said = service.ctl("--json", "template", "import", "base", str(path))
    assert json.loads(said.stdout)["left_out"] == {"special_files": 2, "set_id_bits": 1, "attributes": 1}
    with fork(service) as one:
        assert one.run("getfattr -d -m - f 2>/dev/null; ls; stat -c %a s")["stdout"].split() == ["f", "s", "755"]


def test_what_is_no_archive(service, source):
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w"):
        pass
    for data in (b"", b"x", os.urandom(4096), b"PK\3\4" + bytes(100), COMPRESSIONS["gzip"](b"no tar"),
                 COMPRESSIONS["gzip"](COMPRESSIONS["gzip"](archive(entry("f"))))):
        refused(service, put(source, data), "no tar archive")
    make(service, put(source, empty.getvalue()), "empty")
    assert shown(service, "empty") == set()
    data = COMPRESSIONS["gzip"](archive(*[entry(f"f{i}", content=os.urandom(30000)) for i in range(40)]))
    refused(service, put(source, data[:len(data) // 2]), "damaged or incomplete")
    refused(service, put(source, archive(entry("f", content=b"x" * 5000))[:2000]), "damaged or incomplete")
    with acting_as(os.getuid()):
        os.mkfifo(source / "fifo")
    refused(service, source / "fifo", "NOT_A_DIRECTORY")
    refused(service, source / "none", "NOT_FOUND")
    refused(service, "/dev/null", "NOT_A_DIRECTORY")


@pytest.mark.deep("slow")
def test_two_imports_of_one_name(service, source):
    """The one that ends later is told why it has made nothing, though there was no such template when it began."""
    path = put(source, COMPRESSIONS["bzip2"](archive(*[entry(f"f{i}", content=os.urandom(1 << 20)) for i in range(8)])))
    words = ["cloisterctl", "--socket", str(service.control_socket), "template", "import", "base", str(path)]
    both = [service.area.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = {one.communicate(timeout=120) for one in both}
    assert {out for out, _ in said} == {b"The template is made.\n", b""}
    assert any(b"emplate of this name" in err for _, err in said), said
    assert procfs.eventually(lambda: not service.unfinished())


@pytest.mark.deep("slow")
def test_two_imports_and_the_number_of_templates(start_daemon, area, source):
    """Each alone is within the bound."""
    lines = ["[cloister]", *["mode = system"] * SYSTEM, f"admin_group = {area.account.gid}", "[tenant one]", f"users = {area.account.name}",
             "managed = yes", "templates = 1", ""]
    service = start_daemon(config="\n".join(lines), system=SYSTEM)
    path = put(source, COMPRESSIONS["bzip2"](archive(*[entry(f"f{i}", content=os.urandom(1 << 20)) for i in range(8)])))
    both = [service.area.start(["cloisterctl", "--socket", str(service.control_socket), "template", "import", name, str(path)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name in ("a", "b")]
    said = [one.communicate(timeout=120) for one in both]
    assert sorted(out for out, _ in said) == [b"", b"The template is made.\n"]
    assert any(b"QUOTA_EXCEEDED" in err for _, err in said), said
    assert procfs.eventually(lambda: not service.unfinished())


def test_what_cloister_may_not_read(service, source):
    path = put(source, archive(entry("f")))
    with acting_as(os.getuid()):
        path.chmod(0o600)
        os.chown(path, 12345, 12345)
    refused(service, path, "PERMISSION_DENIED", "chmod -R go+rX")
    with acting_as(os.getuid()):
        inside = service.state / "archive"
        inside.write_bytes(archive(entry("f")))
        os.chown(inside, service.account.uid, service.account.gid)
    refused(service, inside, "own state")


def test_a_freeze_of_an_image_and_a_removal(service, source):
    make(service, put(source, archive(directory("d", mode=0o500), entry("d/f", content=b"x"))))
    with fork(service) as one:
        one.run("echo more > g")
        one.call("workspace.freeze", {"template": "next"})
    assert shown(service, "next") == {"d/", "d/f = x", "g = more", ""}
    if SYSTEM:
        assert service.ctl("template", "remove", "base").returncode == 0
        assert procfs.eventually(lambda: not service.unfinished())
