# SPDX-License-Identifier: Apache-2.0
"""What `cloister export` passes on is one archive: all readers find the same entries in it, whatever a workspace sends."""

import io
import os
import random
import shutil
import subprocess
import tarfile

import pytest

from daemon import BUILD

BLOCK = 512
KINDS = {"-": "0", "h": "1", "l": "2", "d": "5"}


def header(name, kind, size=0, link="", magic=b"ustar\00000", base256=False):
    block = bytearray(BLOCK)
    block[0:len(name)] = name.encode()
    for at, digits, value in ((100, 7, 0o644), (108, 7, 0), (116, 7, 0), (124, 11, size), (136, 11, 0)):
        block[at:at + digits] = b"%0*o" % (digits, value)
    if base256:
        block[124:136] = b"\x80" + size.to_bytes(11, "big")
    block[156:157] = kind.encode("latin-1")
    block[157:157 + len(link)] = link.encode()
    block[257:257 + len(magic)] = magic
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def extended(**records):
    body = b""
    for key, value in records.items():
        rest = f" {key}={value}\n".encode()
        size = len(rest) + 1
        while len(str(size)) + len(rest) != size:
            size += 1
        body += str(size).encode() + rest
    return header("x", "x", len(body)) + padded(body)


END = bytes(2 * BLOCK)
# Content that is a header itself, of a file that no workspace may name.
INNER = header("/escaped", "0", 5) + padded(b"owned")


def copied(archive):
    done = subprocess.run([BUILD / "tests/copy_archive"], input=archive, capture_output=True, timeout=60)
    return done.stdout if done.returncode == 0 else None


def ours(archive):
    done = subprocess.run([BUILD / "tests/copy_archive", "list"], input=archive, capture_output=True, timeout=60, check=True)
    rows = [line.split(" ", 3) for line in done.stdout.decode().splitlines()]
    return [(kind, int(size), name.rstrip("/"), link) for kind, size, name, link in rows]


def by_python(archive):
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        return [(info.type.decode(), info.size, info.name.rstrip("/"), info.linkname if info.issym() or info.islnk() else "")
                for info in tar.getmembers()]


def by_program(program, archive):
    """GNU tar and bsdtar print the same columns, but for the owner and the time."""
    words = [program, "-tvf", "-"] + (["--numeric-owner", "--full-time"] if program == "tar" else [])
    done = subprocess.run(words, input=archive, capture_output=True, timeout=60, check=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    found = []
    for line in done.stdout.decode().splitlines():
        mark = line[0]
        fields = line.split(None, 5 if program == "tar" else 8)
        size, rest = (fields[2], fields[5]) if program == "tar" else (fields[4], fields[8])
        name, _, link = rest.partition(" -> " if mark == "l" else " link to ")
        found.append((KINDS[mark], int(size), name.rstrip("/"), link))
    return found


def same_for_all(archive):
    """Whether it was passed on; then all readers agree on what it is."""
    passed = copied(archive)
    if passed is None:
        return False
    expected = ours(passed)
    assert by_python(passed) == expected
    for program in ("tar", "bsdtar"):
        if shutil.which(program):
            assert by_program(program, passed) == expected, program
    assert all(not name.startswith("/") for _, _, name, _ in expected)
    return True


@pytest.mark.parametrize("kind,name", [("1", "link"), ("2", "link"), ("3", "device"), ("4", "device"), ("5", "d/"), ("5", "d"),
                                       ("6", "fifo"), ("0", "d/"), ("\0", "d/"), ("7", "d/")])
@pytest.mark.parametrize("said", ["octal", "base256", "extended"])
def test_content_of_what_has_none(kind, name, said):
    """One reader skips it, and another takes it for the next entry."""
    first = header(name, kind, len(INNER), link="f" if kind in "12" else "", base256=said == "base256")
    if said == "extended":
        first = extended(size=len(INNER)) + header(name, kind, link="f" if kind in "12" else "")
    assert copied(first + INNER + END) is None


@pytest.mark.parametrize("kind", "0\0007")
def test_content_of_files(kind):
    passed = copied(header("f", kind, len(INNER)) + INNER + END)
    assert ours(passed) == [("0", len(INNER), "f", "")]
    assert same_for_all(header("f", kind, len(INNER)) + INNER + END)


def test_a_tree_of_each_kind():
    archive = header("./", "5") + header("./f", "0", 5) + padded(b"12345") + header("./l", "2", link="f") + \
        header("./h", "1", link="./f") + extended(path="./" + "n" * 150) + header("x", "0", 3) + padded(b"abc")
    assert same_for_all(archive + END)


def generated(choose):
    names = ["f", "d/", "d", "d/f", "./", ".", "a//b", "n" * 100, "x/", "d//"]
    archive = b""
    for _ in range(choose.randint(1, 4)):
        kind = choose.choice("00000\0007555566112234SLKgx")
        size = choose.choice([0, 0, 0, 5, 512, len(INNER)])
        if choose.random() < 0.3:
            archive += extended(**{key: value for key, value in (
                ("path", choose.choice(names + ["p" * 120, "p" * 120 + "/"])), ("linkpath", "l" * 110),
                ("size", choose.choice([0, 0, 5, len(INNER)])), ("mtime", "1.5")) if choose.random() < 0.5})
        content = INNER if size == len(INNER) else bytes(choose.choice(b"ab") for _ in range(size))
        archive += header(choose.choice(names), kind, size, link=choose.choice(["", "f", "d/f", "l" * 100]),
                          magic=choose.choice([b"ustar\00000", b"ustar\00000", b"ustar  \0", b""]),
                          base256=choose.random() < 0.2)
        if choose.random() < 0.9:
            archive += padded(content)
    return archive + END


def agree(seeds):
    passed = sum(same_for_all(generated(random.Random(seed))) for seed in seeds)
    assert passed > len(seeds) // 20, passed


def test_generated_archives():
    agree(range(60))


@pytest.mark.deep("slow")
def test_many_generated_archives():
    agree(range(1000, 1000 + int(os.environ.get("CLOISTER_ARCHIVES", "1500"))))
