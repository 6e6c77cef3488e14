# SPDX-License-Identifier: Apache-2.0
"""`cloister export` and `import`: a managed workspace's tree from one service to another, all of it or nothing."""

import io
import json
import os
import subprocess
import tarfile

import pytest

import procfs

pytestmark = pytest.mark.usefixtures("as_user")
CONFIG = "[cloister]\n[tenant t]\nusers = {user}\nmanaged = yes\n"
MAKE = r"""
mkdir -p d/e 'a b' && echo one >d/f && chmod 640 d/f && chmod 750 d && printf '\0\377' >'a b/bytes'
ln -s d/f link && ln -s /etc/passwd out && ln -s nowhere broken && ln d/f hard && : >empty
printf 'x%.0s' $(seq 200) >name && mv name "$(printf 'n%.0s' $(seq 150))" && touch -d '2001-02-03 04:05:06.789' d/f d
printf '%s' '#!/bin/sh' >run && chmod 755 run && truncate -s 5M big
"""
LIST = r"find . -mindepth 1 -printf '%y %m %s %T@ %n %p %l\n' | grep -v '^d' | sort; find . -type d -printf '%m %p\n' | sort"


class Host:
    def __init__(self, start_daemon, area):
        self.daemon = start_daemon(config=CONFIG.format(user=area.account.name))
        self.area = area

    def start(self, *words, **keywords):
        return self.area.start(["cloister", "--socket", str(self.daemon.socket), *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **keywords)

    def run(self, *words, data=b""):
        with self.start(*words, stdin=subprocess.PIPE) as process:
            out, said = process.communicate(data, 120)
        return subprocess.CompletedProcess(words, process.returncode, out, said.decode())

    def exported(self, name):
        done = self.run("--workspace", name, "export")
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def names(self):
        return sorted(row["workspace"] for row in json.loads(
            self.run("--json", "workspace", "list").stdout)["workspaces"])

    def made(self, name, command=MAKE):
        done = self.run("--workspace", name, "--create", "exec", "--", "sh", "-c", command)
        assert done.returncode == 0, done.stderr
        return self


@pytest.fixture
def host(start_daemon, area):
    return Host(start_daemon, area)


def test_a_workspace_moves_whole(host, start_daemon, area):
    host.made("w")
    other = Host(start_daemon, area)
    archive = host.exported("w")
    done = other.run("--json", "--workspace", "v", "import", data=archive)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"files": 6, "bytes": 5242880 + 4 + 2 + 200 + 9, "complete": True}
    # The one file with two names is one again; owners are the new workspace's own.
    assert other.run("--workspace", "v", "exec", "--", "sh", "-c", LIST).stdout == \
        host.run("--workspace", "w", "exec", "--", "sh", "-c", LIST).stdout
    assert other.run("--workspace", "v", "exec", "--", "sh", "-c",
                     'test d/f -ef hard && find . ! -user "$(id -u)"').stdout == b""
    # It is an archive for every tar, and an empty workspace is one too.
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert "./d/f" in tar.getnames()
    assert b"comment=cloister export 1 of w at 2" in archive[:1024]
    host.made("nothing", "true")
    assert other.run("--workspace", "void", "import", data=host.exported("nothing")).returncode == 0
    assert other.names() == ["v", "void"]


def test_what_exists_is_not_written_to(host):
    host.made("w").made("v", "echo mine >f")
    done = host.run("--workspace", "v", "import", data=host.exported("w"))
    assert done.returncode == 3 and "the workspace 'v' exists already" in done.stderr
    assert host.run("--workspace", "v", "exec", "--", "ls").stdout == b"f\n"


@pytest.mark.parametrize("cut", ["the first byte", "the header", "an entry", "the last comment", "the end"])
def test_a_part_of_an_archive_makes_no_workspace(host, cut):
    archive = host.made("w", "head -c 300000 /dev/urandom >f; echo x >g").exported("w")
    last = archive.rindex(b"cloister export complete") - 600
    size = {"the first byte": 1, "the header": 700, "an entry": 200000, "the last comment": last,
            "the end": len(archive) - 1024}[cut]
    done = host.run("--workspace", "v", "import", data=archive[:size])
    assert done.returncode == 1
    assert "not complete" in done.stderr or "there is no archive" in done.stderr, done.stderr
    assert host.names() == ["w"]


def test_an_archive_that_lost_an_entry(host):
    """What the end says counts: an entry is cut out, and the rest is a whole archive."""
    archive = host.made("w", "head -c 1000 /dev/zero >f").exported("w")
    at = archive.index(b"./f\0")
    done = host.run("--workspace", "v", "import", data=archive[:at] + archive[at + 512 + 1024:])
    assert done.returncode == 1 and "not complete" in done.stderr
    assert host.names() == ["w"]


def test_a_failed_export_says_so_in_the_archive(host):
    host.made("w", "mkdir d; echo x >d/f; chmod 0 d/f; echo y >z")
    if os.getuid() != 0 and host.run("--workspace", "w", "exec", "--", "cat", "d/f").returncode == 0:
        pytest.skip("this user can read files without the right to")
    done = host.run("--workspace", "w", "export")
    assert done.returncode == 1 and "d/f" in done.stderr
    done = host.run("--workspace", "v", "import", data=done.stdout)
    assert done.returncode == 1 and "its export failed or was cut short" in done.stderr
    assert host.names() == ["w"]


def test_special_files_are_named_and_left_out(host):
    done = host.made("w", "mkfifo pipe; echo x >f").run("--workspace", "w", "export")
    assert done.returncode == 1 and "./pipe: a FIFO" in done.stderr
    assert host.run("--workspace", "v", "import", data=done.stdout).returncode == 0
    assert host.run("--workspace", "v", "exec", "--", "ls").stdout == b"f\n"


def plain():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("f")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


@pytest.mark.parametrize("data,why", [
    (plain(), "no archive of `cloister export`; `cloister put -`"), (b"", "there is no archive of `cloister export` on stdin"),
    (b"no archive at all" * 100, "no tar archive, or a damaged one")])
def test_other_input_is_refused(host, data, why):
    done = host.run("--workspace", "v", "import", data=data)
    assert done.returncode == 1 and why in done.stderr
    assert host.names() == []


def test_the_bounds(host):
    archive = host.made("w", "for i in $(seq 20); do head -c 1000 /dev/zero >f$i; done").exported("w")
    for option, said in (("--max-files=19", "more than 19 files"), ("--max-size=19999", "more than 19999 bytes")):
        for words, data in ((["--workspace", "w", "export"], b""), (["--workspace", "v", "import"], archive)):
            done = host.run(*words, option, data=data)
            assert done.returncode == 1 and said in done.stderr, done.stderr
    assert host.names() == ["w"]
    done = host.run("--workspace", "v", "import", "--max-files=20", "--max-size=20000", data=archive)
    assert done.returncode == 0, done.stderr


def test_a_client_that_is_stopped_leaves_no_part(host):
    archive = host.made("w", "head -c 3000000 /dev/urandom >f; echo x >g").exported("w")
    with host.start("--workspace", "v", "import", stdin=subprocess.PIPE) as process:
        process.stdin.write(archive[:2000000])
        process.stdin.flush()
        assert procfs.eventually(lambda: "v" in host.names())
        process.terminate()
        process.communicate(timeout=120)
    assert process.returncode != 0
    assert host.names() == ["w"]


def test_usage(host):
    for words in (["import"], ["--workspace", "./d", "import"]):
        done = host.run(*words, data=host.made("w", "true").exported("w"))
        assert done.returncode == 3 and "--workspace NAME" in done.stderr
    for words in (["export", "more"], ["--json", "export"], ["import", "more"]):
        assert host.run("--workspace", "w", *words).returncode == 2
