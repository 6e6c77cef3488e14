# SPDX-License-Identifier: Apache-2.0
"""Two daemons on one state directory: the second does not start, and nobody else can keep the first from it."""

import fcntl
import os
import signal

import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, Daemon


@pytest.fixture(name="state")
def state_fixture(area):
    return area.new_directory("state") / "kept"


def second(area, state):
    """A cloisterd that should not come up: how it ended and what it said."""
    sockets = area.new_directory("second")
    return area.run("cloisterd", "--agent-socket", str(sockets / "agent.sock"), "--state-dir", str(state))


def test_the_second_is_told_who_is_first(area, state):
    first = Daemon(area, state=state)
    with first.connect() as client:
        name = client.call("workspace.open", {"workspace": "kept", "kind": "managed"})["workspace"]
        assert client.run("printf a >a")["exit_code"] == 0
        try:
            done = second(area, state)
            assert done.returncode == 1
            said = done.stderr.decode()
            assert f"process {first.pid}, uses the state directory {state}" in said and "--state-dir" in said
            assert client.run("cat a")["stdout"] == "a"
        finally:
            client.close()
            first.stop()
    assert name == "kept"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_one_has_it(area, state, number):
    first = Daemon(area, state=state)
    first.process.send_signal(number)
    first.process.wait(60)
    following = Daemon(area, state=state)
    assert (state / "lock").read_text() == f"{following.pid}\n"
    assert following.stop() == 0


@pytest.mark.skipif(not AM_ROOT, reason="needs another user")
def test_no_other_user_can_hold_it(area, state):
    """Not even where the directory is everybody's to read."""
    Daemon(area, state=state).stop()
    state.chmod(0o755)
    held = []
    with acting_as(65534):
        for path in (state, *state.iterdir()):
            try:
                fd = os.open(path, os.O_RDONLY)
            except PermissionError:
                continue
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append((fd, path))
    assert [path for _, path in held] == [state]
    assert Daemon(area, state=state).stop() == 0
    os.close(held[0][0])
