# SPDX-License-Identifier: Apache-2.0
"""Root runs `cloister --workspace DIR`, and other users own parts of the path."""

import contextlib
import ctypes
import os
import pathlib
import pty
import select
import subprocess
import tempfile

import pytest
from cloister_client import acting_as
from daemon import BUILD, ROOT, Account, Area, environment
from kernel_setting import setting

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to leave it")

SETRESUID = 117 if os.uname().machine == "x86_64" else 147
EXCHANGE = 2
SECRET = "a-secret-of-root"
SUID_DUMPABLE = pathlib.Path("/proc/sys/fs/suid_dumpable")


def exchange(one, other):
    """renameat2(2) with RENAME_EXCHANGE."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.fixture(name="attacker", scope="module")
def attacker_fixture():
    account = Account("w")
    yield account
    account.remove()


@pytest.fixture(name="victim", scope="module")
def victim_fixture():
    account = Account("v")
    yield account
    account.remove()


@pytest.fixture(name="third", scope="module")
def third_fixture():
    account = Account("t")
    yield account
    account.remove()


class Place:
    """Programs that everybody can execute, a directory of the attacker's, and one of the victim's
    in which everybody may write, so that what ran there and as whom can be seen."""

    def __init__(self, attacker, victim, third):
        self.area = Area(attacker)
        self.attacker, self.victim, self.third = attacker, victim, third
        self.path = self.area.path
        os.chown(self.path, 0, 0)
        self.theirs = self.path / "attackers"
        self.project = self.make(self.theirs, attacker) and self.make(self.theirs / "project", attacker)
        self.victims = self.make(self.path / "victims", victim)
        self.link = self.theirs / "link"
        self.link.symlink_to(self.victims)
        os.lchown(self.link, attacker.uid, attacker.gid)

    @staticmethod
    def make(path, account):
        path.mkdir()
        path.chmod(0o777)
        os.chown(path, account.uid, account.gid)
        return path

    def words(self, path, *command):
        return [str(self.area.bin / "cloister"), "--private", "--workspace", str(path), "exec", "--no-stdin", "--",
                *command]

    def run(self, path, *command, **keywords):
        """Runs the command as root."""
        return subprocess.run(self.words(path, *command), capture_output=True, text=True, timeout=120, check=False,
                              env=environment(self.area.home), **keywords)

    def run_held(self, path, meanwhile):
        """Runs `touch made`, and meanwhile() just before the process becomes the owner. Returns whether it succeeded."""
        held = False
        with subprocess.Popen(["/bin/sh", "-c", 'read line; exec "$0" "$@"', *self.words(path, "touch", "made")],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(self.area.home)) as client:
            holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", str(client.pid), str(SETRESUID)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            with holder:
                assert holder.stdout.readline() == b"ready\n"
                client.stdin.write(b"\n")
                client.stdin.close()
                held = holder.stdout.readline() == b"held\n"
                if held:
                    meanwhile()
                holder.stdin.close()
            client.stderr.read()
        return held

    def made(self):
        """The files that were made: (directory, uid) of each."""
        found = []
        for directory in (self.project, self.victims, self.link):
            if (directory / "made").exists():
                found.append((directory.resolve(), (directory / "made").stat().st_uid))
        return set(found)


@pytest.fixture(name="place")
def place_fixture(attacker, victim, third):
    made = Place(attacker, victim, third)
    yield made
    made.area.remove()


def test_root_becomes_the_owner_and_no_other(place):
    done = place.run(place.project, "touch", "made")
    assert done.returncode == 0, done.stderr
    assert place.made() == {(place.project, place.attacker.uid)}


def test_a_link_of_another_user_does_not_say_whom_root_becomes(place):
    done = place.run(place.link, "touch", "made")
    assert done.returncode != 0
    assert f"uid {place.attacker.uid} and to uid {place.victim.uid}" in done.stderr
    assert not place.made()


def test_neither_does_a_directory_of_another_user(place):
    """The owner of a directory could exchange its entries."""
    inner = place.make(place.theirs / "inner", place.victim)
    done = place.run(inner, "touch", "made")
    assert done.returncode != 0
    assert "each of them could replace" in done.stderr
    assert not (inner / "made").exists()


@pytest.mark.parametrize("words", ["absolute", "relative", "current"])
def test_links_of_roots_and_of_the_owners_are_followed(place, words):
    link = place.path / "root's"
    link.symlink_to("attackers/./project/../owner's")
    (place.theirs / "owner's").symlink_to(place.project)
    os.lchown(place.theirs / "owner's", place.attacker.uid, place.attacker.gid)
    path, cwd = {"absolute": (link, None), "relative": ("./root's", place.path), "current": (".", link)}[words]
    done = place.run(path, "pwd; touch made", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(place.project)
    assert place.made() == {(place.project, place.attacker.uid)}


@pytest.mark.parametrize("mode, refused", [(0o777, True), (0o775, True), (0o1777, False), (0o755, False)])
def test_a_directory_in_which_others_exchange_does_not_say_whom_root_becomes(place, mode, refused):
    """Where all users or a group may rename entries, a third user puts one user's directory in the place of another's."""
    shared = place.path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    os.chown(shared, 0, place.third.gid)
    shared.chmod(mode)
    named = place.make(shared / "named", place.attacker)
    other = place.make(shared / "other", place.victim)
    with acting_as(place.third.uid, place.third.gid):
        try:
            exchange(named, other)
            exchanged = True
        except PermissionError:
            exchanged = False
    assert exchanged == refused
    done = place.run(named, "touch", "made")
    assert (done.returncode != 0) == refused, done.stderr
    assert (f"{shared} belongs to root, but other users can rename" in done.stderr) == refused, done.stderr
    assert (named / "made").exists() == (not refused)


def test_neither_does_a_link_in_one(place):
    shared = place.path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "link").symlink_to(place.project)
    (place.path / "roots-link").symlink_to("shared/link")
    done = place.run(place.path / "roots-link", "touch", "made")
    assert done.returncode != 0
    assert "other users can rename" in done.stderr
    assert not place.made()


def test_endless_links_end(place):
    loop = place.path / "loop"
    loop.symlink_to("loop/loop")
    assert place.run(f"{loop}/", "true").returncode != 0


def test_the_victims_directory_exchanged_for_the_attackers(place):
    """Root checks the victim's directory, and the attacker's would be opened: the attacker's programs would run as the victim."""
    place.run_held(place.link, lambda: exchange(place.link, place.project))
    assert (place.link, place.victim.uid) not in place.made()
    assert not place.made()


def test_the_attackers_directory_exchanged_for_the_victims(place):
    assert place.run_held(place.project, lambda: exchange(place.link, place.project))
    assert not place.made()


def test_another_directory_of_the_same_owner_is_not_opened_either(place):
    other = place.make(place.theirs / "other", place.attacker)
    assert place.run_held(place.project, lambda: exchange(other, place.project))
    assert not place.made()
    assert not (other / "made").exists()


def test_a_change_of_the_owner_is_seen(place):
    assert place.run_held(place.project, lambda: os.chown(place.project, place.victim.uid, place.victim.gid))
    assert not place.made()


def test_fuse_does_not_say_whom_root_becomes(place):
    """A FUSE server chooses the owners of its files."""
    point = place.make(place.path / "fuse", place.attacker)
    with subprocess.Popen(["/usr/bin/python3", ROOT / "tests/lib/fuse_root.py", point, str(place.victim.uid)],
                          stdout=subprocess.PIPE) as server:
        try:
            if server.stdout.readline() != b"ready\n":
                pytest.skip("FUSE cannot be mounted here")
            assert os.stat(point).st_uid == place.victim.uid
            done = place.run(point, "true")
        finally:
            subprocess.run(["umount", "-l", point], check=False)
            server.kill()
    assert "a FUSE file system" in done.stderr
    assert done.returncode == 125


class Thief:
    """Runs tests/lib/thief.c as the attacker while root's process becomes the attacker."""

    def __init__(self, place, secret):
        status = os.fstat(secret)
        self.process = subprocess.Popen(
            [place.area.tool("thief"), SECRET, str(status.st_dev), str(status.st_ino)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, **place.attacker.as_user())
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        """Returns what the thief got that it must not have, and how many descriptors it could take."""
        stdout, _ = self.process.communicate()
        *got, last = stdout.splitlines()
        return got, int(last.split()[0])


def drain(master):
    said = b""
    while select.select([master], [], [], 0)[0]:
        said += os.read(master, 65536)
    return said


@pytest.mark.deep("slow", only=["2"])
@pytest.mark.parametrize("dumpable", ["0", "1", "2"])
def test_the_owner_takes_nothing_of_roots(place, dumpable):
    """Root's terminal, a file that it happened to have open, its environment, the client's memory."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(setting("fs/suid_dumpable", dumpable))
        except OSError:
            if SUID_DUMPABLE.read_text().strip() != dumpable:
                pytest.skip("fs.suid_dumpable cannot be set here")
        secret = stack.enter_context(tempfile.TemporaryFile())
        master, slave = pty.openpty()
        thief = Thief(place, secret.fileno())
        said = b""
        for _ in range(34):
            done = subprocess.run(
                place.words(place.project, "echo", "done"), stdin=slave, stdout=slave, stderr=slave,
                env={**environment(place.area.home), "ROOTS": SECRET}, pass_fds=[secret.fileno()],
                start_new_session=True, timeout=120, check=False)
            assert done.returncode == 0, drain(master)
            said += drain(master)
        got, taken = thief.end()
        os.close(master)
        os.close(slave)
    assert said.count(b"done") == 34
    assert not got
    assert taken > 0, "it has tried nothing"


NOISY = """#!/bin/sh
printf 'one \\033[31m\\302\\233 line\\n\\342\\200\\256two' >&2
echo three
exec yes 'and no end' >&2
"""


def test_what_the_owners_process_says_is_escaped_and_bounded(place):
    """cloisterd runs as the owner, who can make it print anything."""
    (place.area.bin / "cloisterd").write_text(NOISY)
    done = place.run(place.project, "true")
    assert done.returncode != 0
    assert done.stderr.startswith("one \\x1b[31m\\u{9b} line\n\\u{202e}twothree\nand no end\n")
    assert len(done.stderr) < 1 << 20
    assert done.stderr.count("are not shown") == 1
