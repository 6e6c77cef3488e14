# SPDX-License-Identifier: Apache-2.0
"""cloister session: commands in the background, from a shell."""

import json
import os
import subprocess

import procfs
import pytest
from cloister_client import acting_as
from daemon import environment

PATIENCE = 120
SERVER = "import socket, time; s = socket.create_server(('127.0.0.1', 4300)); time.sleep(600)"


@pytest.fixture
def session(daemon, workspace, account):
    """Runs `cloister session WORDS` in the workspace."""
    def run(*words, given=b"", status=0, own=(), where=("--socket", daemon.socket)):
        with acting_as(account.uid if account.made else os.getuid()):
            done = subprocess.run(
                [daemon.area.bin / "cloister", *where, "--workspace", workspace, *own, "session", *words], input=given,
                capture_output=True, check=False, timeout=PATIENCE, env=environment(daemon.area.home))
        assert done.returncode == status, (words, done)
        return done
    return run


def start(session, *words):
    found = session("start", *words).stdout.decode().strip()
    assert len(found) == 32 and set(found) <= set("0123456789abcdef")
    return found


def test_from_start_to_end(session):
    found = start(session, "--name", "life", "--env", "WORD=two words", "--stdin", "--", "sh", "-c",
                  'echo "$WORD"; echo other >&2; read line; echo "got $line"; exec sleep 600')
    session("wait", found, "--contains", "other", "--timeout", "60s")
    session("write", "life", "a line")
    session("wait", "life", "--contains", "got a line", "--timeout", "60s")
    done = session("read", "life")
    assert (done.stdout, done.stderr) == (b"two words\ngot a line\n", b"other\n")
    assert session("read", "life", "--after", "16").stdout == b"got a line\n"
    row = next(line for line in session("list").stdout.decode().splitlines() if line.startswith(found))
    assert row.split()[1] == "running" and "life" in row
    session("end", "life")
    rows = json.loads(session("list", own=["--json"]).stdout)["sessions"]
    assert next(each for each in rows if each["session"] == found)["state"] == "ended"
    observation = json.loads(session("end", found, own=["--json"]).stdout)
    assert observation["output"]["signal"] == "SIGTERM"


def test_wait_has_the_status(session):
    session("wait", start(session, "--", "exit 7"), status=7)
    session("wait", start(session, "--", "kill -KILL $$"), status=128 + 9)
    sleeper = start(session, "--", "sleep 600")
    assert b"TIMEOUT" in session("wait", sleeper, "--timeout", "10ms", own=["--json"], status=124).stdout
    ended = start(session, "--", "true")
    assert b"ended before that" in session("wait", ended, "--contains", "never", status=1).stderr
    session("end", sleeper)


def test_a_server_is_waited_for(session):
    found = start(session, "--name", "server", "--", "/usr/bin/python3", "-c", SERVER)
    session("wait", "server", "--port", "4300", "--timeout", "60s")
    assert procfs.eventually(lambda: next(line for line in session("list").stdout.decode().splitlines()
                                          if line.startswith(found)).split()[2] == "4300")
    session("end", "server")
    assert b"ended before that" in session("wait", "server", "--port", "4300", status=1).stderr


def test_attach_follows_to_the_end(session):
    """All bytes of both streams, the input from a pipe, and the command's status."""
    given = os.urandom(1 << 19)
    found = start(session, "--stdin", "--", "cat; echo over >&2; exit 5")
    session("write", found, "--eof", given=given)
    done = session("attach", found, status=5)
    assert (done.stdout, done.stderr) == (given, b"over\n")
    assert b"takes no more input" in session("write", found, "late", status=1).stderr


def test_what_was_cut_off_is_counted(session):
    found = start(session, "--", "head -c 3000000 /dev/zero")
    session("wait", found)
    done = session("read", found)
    assert done.stdout == bytes(1 << 20)
    assert b"%d bytes of the output are not kept" % (3000000 - (1 << 20)) in done.stderr


def test_names(session):
    """One that runs is meant before those that have ended, and two that run are not guessed between."""
    session("wait", start(session, "--name", "twin", "--", "echo first"))
    second = start(session, "--name", "twin", "--", "echo second; sleep 600")
    session("wait", "twin", "--contains", "second", "--timeout", "60s")
    third = start(session, "--name", "twin", "--", "sleep 600")
    assert b"say which by its id" in session("read", "twin", status=2).stderr
    for each in second, third:
        session("end", each)


def test_the_same_start(session):
    words = "--key", "once", "--", "sleep 600"
    found = start(session, *words)
    assert start(session, *words) == found
    session("end", found)


def test_a_name_does_nothing_to_a_terminal(session):
    found = start(session, "--name", "x\x1b]0;title\x07", "--", "echo '\x1b[2J'; sleep 600")
    assert b"\x1b" not in session("list").stdout and b"\x07" not in session("list").stdout
    session("end", found)


@pytest.mark.parametrize("words, message", [
    (["read", "nothing"], "no such session"),
    (["wait", "nothing", "--port", "70000"], "--port takes a number"),
    (["read", "nothing", "--after", "-1"], "--after takes a number"),
    (["read"], "session takes"), (["jump", "x"], "session takes"), (["start"], "session takes")])
def test_mistakes(session, words, message):
    assert message in session(*words, status=3 if message == "no such session" else 2).stderr.decode()


def test_without_a_service(session):
    assert b"private instance" in session("list", where=["--private"], status=3).stderr
