# SPDX-License-Identifier: Apache-2.0
"""workspace.remove: the workspace is gone when it is answered, its files go afterwards, and count until then."""

import os
import signal

import pytest

import procfs
from cloister_client import acting_as
from layers import checkpoint, in_state, kill_all, opened, refused

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")

MAKE = "mkdir -p a/b shut; for i in $(seq 300); do echo $i > a/b/$i; done; ln -s /etc a/etc; echo x > shut/f; chmod 0 shut/f shut a"


def removed(daemon):
    return in_state(daemon, ".removed-*", ".dropped-*")


def config(area):
    return f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nworkspaces_existing = 2\n"


@pytest.fixture
def own_daemon(start_daemon, area):
    return start_daemon(config=config(area), state=area.new_directory("state"))


def stop(daemon, number):
    with acting_as(os.getuid()):
        os.kill(daemon.spawner(), number)


@pytest.mark.parametrize("with_layers", [False, True])
def test_a_removal_does_not_wait_for_files(own_daemon, with_layers):
    with opened(own_daemon, "w") as client, own_daemon.connect() as other:
        client.run(MAKE)
        if with_layers:
            checkpoint(client)
            client.run("chmod 700 a; echo new > a/b/1")
        other.call("workspace.open", {"workspace": "other"})
        stop(own_daemon, signal.SIGSTOP)  # nothing is cleared, and no process made
        client.call("workspace.remove", {"workspace": "w"})
        assert [row["workspace"] for row in client.call("workspace.list")["workspaces"]] == ["other"]
        assert not in_state(own_daemon, "workspaces/t/w", "workspaces/t/.layers-w")
        # It counts until its files are gone.
        assert "being cleared" in refused(client, "workspace.open", {"workspace": "v"}, "BUSY")
        stop(own_daemon, signal.SIGCONT)
        assert procfs.eventually(lambda: not removed(own_daemon))
        assert procfs.eventually(lambda: "result" in client.wait(client.request("workspace.open", {"workspace": "v"})))
        assert client.run("ls -A")["stdout"] == ""
        refused(client, "workspace.open", {"workspace": "u"}, "QUOTA_EXCEEDED")


def test_a_death_during_a_removal(own_daemon, start_daemon, area):
    """What was renamed is cleared by the next cloisterd, and so are layers whose workspace is gone."""
    with opened(own_daemon, "w") as client:
        client.run(MAKE)
        checkpoint(client)
        stop(own_daemon, signal.SIGSTOP)
        client.call("workspace.remove", {"workspace": "w"})
    stop(own_daemon, signal.SIGKILL)
    kill_all(own_daemon)
    workspaces = own_daemon.state / "workspaces" / "t"
    with acting_as(own_daemon.account.uid):
        for name in (".layers-x", ".layers-x/1-0", ".layers-x/1-0/u", ".rootfs-x", ".removing-x", "old", ".removing-old"):
            (workspaces / name).mkdir(0o700)  # older versions marked what they removed
        (workspaces / "old" / "file").write_text("")
    assert removed(own_daemon)
    after = start_daemon(config=config(area), state=own_daemon.state)
    assert procfs.eventually(lambda: os.listdir(workspaces) == [])
    with opened(after, "w") as client:
        assert client.run("ls -A")["stdout"] == ""
        assert client.call("workspace.checkpoints")["checkpoints"] == []


def test_a_removal_ends_what_uses_it(own_daemon):
    with opened(own_daemon, "w") as client, opened(own_daemon, "w") as other:
        refused(client, "workspace.remove", {"workspace": "w"}, "BUSY")
        other.call("workspace.close")
        client.call("workspace.open", {"workspace": "w"})
        session = client.call("session.start", {"command": "while :; do echo x >> f; done"})["session"]
        client.call("workspace.remove", {"workspace": "w"})
        refused(client, "session.read", {"session": session}, "SESSION_NOT_FOUND")
        assert procfs.eventually(lambda: not removed(own_daemon))
