# SPDX-License-Identifier: Apache-2.0
"""file.watch and file.unwatch, native methods of the agent socket."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
from cloister_client import RpcError, acting_as

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"


@contextlib.contextmanager
def inside(workspace):
    """As the workspace's user."""
    with acting_as(os.stat(workspace).st_uid):
        yield


def refused(client, method, params):
    with pytest.raises(RpcError) as error:
        client.call(method, params)
    return error.value.name or error.value.message


def watch(client, path=".", **params):
    """Returns the number of the watch, once the directory is watched."""
    return client.call("file.watch", {"path": path, **params})["watch"]


def notification(client, method, number):
    """Waits for the next notification of @method about the watch @number."""
    while True:
        message = client.notifications.pop(0) if client.notifications else client.receive()
        if message.get("method") in ("file.event", "file.watch_ended") and message["params"]["watch"] == number:
            assert message["method"] == method, message
            return message["params"]


def event(client, number):
    told = notification(client, "file.event", number)
    return told["type"] + ("/" if told["directory"] else ""), told["path"]


def ended(client, number):
    return notification(client, "file.watch_ended", number)["error"]["code"]


def test_events(client, workspace):
    with inside(workspace):
        (workspace / "d").mkdir()
    answer = client.call("file.watch", {"path": "d"})
    number = answer["watch"]
    assert answer["entry"]["path"] == "d" and answer["entry"]["type"] == "directory"
    client.use("run_command", command="echo x > d/f; mv d/f d/g; chmod 600 d/g; mkdir d/e; rm d/g; : > d/e/f")
    seen = [event(client, number) for _ in range(6)]
    assert seen[:2] == [("created", "d/f"), ("changed", "d/f")]
    assert seen[2:4] == [("moved_from", "d/f"), ("moved_to", "d/g")]
    assert seen[4:] == [("attributes", "d/g"), ("created/", "d/e")]
    assert event(client, number) == ("removed", "d/g")
    assert client.call("file.unwatch", {"watch": number}) == {"unwatched": True}
    client.use("run_command", command="touch d/h")
    assert client.call("file.unwatch", {"watch": number}) == {"unwatched": False}
    assert not any(message["params"].get("watch") for message in client.notifications)


def test_tools_and_methods_are_told_of(client, workspace):
    number = watch(client)
    client.use("write_file", path="f", content="1")
    assert event(client, number) == ("created", "f")
    client.use("write_file", path="f", content="2")
    assert event(client, number) == ("changed", "f")
    client.use("edit_file", path="f", edits=[{"old": "2", "new": "3"}])
    assert event(client, number) == ("changed", "f")
    client.call("file.move", {"path": "f", "to": "g"})
    assert [event(client, number) for _ in range(2)] == [("moved_from", "f"), ("moved_to", "g")]


def test_what_is_refused(client, workspace):
    with inside(workspace):
        (workspace / "f").touch()
        os.symlink("/etc", workspace / "out")
    assert refused(client, "file.watch", {"path": "none"}) == "NOT_FOUND"
    assert refused(client, "file.watch", {"path": "f"}) == "NOT_A_DIRECTORY"
    assert refused(client, "file.watch", {"path": "out"}) == "SYMLINK_OUTSIDE_WORKSPACE"
    assert refused(client, "file.watch", {"path": "/etc"}) == "PATH_OUTSIDE_WORKSPACE"
    assert "recursive" in refused(client, "file.watch", {"path": ".", "recursive": 1})
    assert "watch must be" in refused(client, "file.unwatch", {})
    assert client.call("file.unwatch", {"watch": 1 << 40}) == {"unwatched": False}


def test_a_deadline(client, workspace):
    number = watch(client, timeout_ms=100)
    assert ended(client, number) == "TIMEOUT"


def test_watches_are_bounded_and_end_with_their_client(daemon, client, workspace):
    numbers = [watch(client) for _ in range(8)]
    assert refused(client, "file.watch", {"path": "."}) == "BUSY"
    client.call("file.unwatch", {"watch": numbers[0]})
    with daemon.connect() as other:
        other.call("workspace.open", {"root": str(workspace)})
        while True:  # the one that was ended is on its way out
            try:
                watch(other)
                break
            except RpcError as error:
                assert error.name == "BUSY"
        assert refused(client, "file.watch", {"path": "."}) == "BUSY"
    while True:
        try:
            watch(client)
            break
        except RpcError as error:
            assert error.name == "BUSY"


def test_watches_take_no_calls(start_daemon, area, account):
    daemon = start_daemon(config=f"[tenant blue]\nusers = {account.name}\nroots = /\ncalls = 1\n")
    with daemon.connect() as client:
        daemon.new_workspace(client)
        number = watch(client)
        assert client.run(": > f")["exit_code"] == 0
        assert event(client, number) == ("created", "f")


def test_a_rollback_ends_watches(start_daemon, account):
    daemon = start_daemon(config=f"[tenant blue]\nusers = {account.name}\nmanaged = yes\n")
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "scratch"})
        number = watch(client)
        client.call("workspace.checkpoint", {})
        assert ended(client, number) == "CANCELLED"
        number = watch(client)
        client.use("run_command", command=": > f")
        assert event(client, number) == ("created", "f")
        client.call("workspace.rollback", {"to": 1})
        assert ended(client, number) == "CANCELLED"
        assert client.call("file.list", {"path": "."})["entries"] == []


def test_the_python_client(daemon, workspace):
    script = f"""
import cloister
with cloister.Client({str(daemon.socket)!r}) as client:
    client.workspace({str(workspace)!r})
    watch = client.watch(".", recursive=True)
    client.run_command("mkdir d")
    events = iter(watch)
    event = next(events)
    assert (event["type"], event["path"], event["directory"]) == ("created", "d", True), event
    client.run_command(": > d/f")
    event = next(events)
    assert (event["type"], event["path"]) == ("created", "d/f"), event
    watch.close()
    assert list(events) == []
    client.file_make_directory("e")
    watch = client.watch("e")
    client.file_remove("e")
    try:
        next(iter(watch))
        raise SystemExit("it has not ended")
    except cloister.NotFound:
        pass
    try:
        client.watch("none")
        raise SystemExit("it is watched")
    except cloister.NotFound:
        pass
"""
    with inside(workspace):
        done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(CLIENT)}, capture_output=True, text=True,
                              timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_takeover_ends_watches(start_daemon):
    old = start_daemon()
    with old.connect() as client:
        old.new_workspace(client)
        number = watch(client)
        start_daemon(former=old)
        assert ended(client, number) == "SHUTTING_DOWN"


def test_a_preview_does_not_wait_for_watches(start_daemon, account):
    daemon = start_daemon(config=f"[tenant blue]\nusers = {account.name}\nmanaged = yes\n")
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "scratch"})
        number = watch(client)
        client.observe("run_command", {"command": ": > f"}, {"transaction": "preview"})
        assert ended(client, number) == "CANCELLED"
        client.call("transaction.discard", {})


def test_closing_ends_watches(start_daemon, account):
    daemon = start_daemon(config=f"[tenant blue]\nusers = {account.name}\nmanaged = yes\n")
    with daemon.connect() as client, daemon.connect() as other:
        other.call("workspace.open", {"workspace": "scratch"})
        client.call("workspace.open", {"workspace": "scratch"})
        kept, number = watch(other), watch(client)
        client.call("workspace.close", {"workspace": "scratch"})
        assert ended(client, number) == "CANCELLED"
        other.run(": > f")
        assert event(other, kept) == ("created", "f")
        client.call("workspace.open", {"workspace": "scratch", "lease": {"ms": 1000, "at_end": "close"}})
        number = watch(client)
        assert ended(client, number) == "LEASE_ENDED"
        assert ended(other, kept) == "LEASE_ENDED"


@contextlib.contextmanager
def command(daemon, workspace, *words):
    """A `cloister watch` that watches, once this is entered."""
    with subprocess.Popen([daemon.area.bin / "cloister", "--socket", daemon.socket, "--workspace", workspace, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **daemon.area.account.as_user()) as running:
        try:
            yield running
        finally:
            running.kill()


def test_the_command_prints_events(daemon, workspace, client):
    with command(daemon, workspace, "watch", "--recursive") as running:
        assert running.stderr.readline() == "Watching.\n"
        client.use("run_command", command="mkdir 'd\x1b[31m'; echo x > 'd\x1b[31m/f'")
        lines = [running.stdout.readline() for _ in range(2)]
        assert lines == ["created     d\\x1b[31m/\n", "created     d\\x1b[31m/f\n"]


def test_the_command_prints_events_as_json(daemon, workspace, client):
    client.use("run_command", command="mkdir d")
    with command(daemon, workspace, "--json", "watch", "d") as running:
        assert json.loads(running.stdout.readline())["entry"]["path"] == "d"
        client.use("run_command", command="mkdir d/e")
        told = json.loads(running.stdout.readline())
        assert (told["type"], told["path"], told["directory"]) == ("created", "d/e", True)
        client.use("run_command", command="rm -r d")
        assert "NOT_FOUND" in running.stdout.read().splitlines()[-1] and running.wait(60) == 1


def test_the_command_names_what_cannot_be_watched(daemon, workspace):
    with command(daemon, workspace, "watch", "none") as running:
        assert "NOT_FOUND" in running.communicate(timeout=60)[1] and running.returncode == 3
