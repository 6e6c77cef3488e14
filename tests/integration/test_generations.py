# SPDX-License-Identifier: Apache-2.0
"""`cloisterd --take-over`: a cloisterd serves in the place of another one, and nothing that runs is lost."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import pytest

import procfs
from cloister_client import acting_as
from generations import GO, ask, begin, ended, error_of, generations_fixture, go, opened, opens, runs, status, talk
from test_python_client import connect  # noqa: F401  (a fixture: both clients, one after the other)

SLEEP = 15  # seconds: longer than a hand-over takes


@pytest.mark.deep("slow")
def test_a_hundred_commands_survive(generations, area):
    """And whoever connects a thousand times a second meanwhile is never refused."""
    first = generations(host="commands = 200\ncommands_per_cpu = 0", settings="commands = 200\ncommands_per_workspace = 10")
    clients = [opened(first, area.new_directory()) for _ in range(10)]
    calls = [(client, begin(client, f"sleep {SLEEP}")) for client in clients for _ in range(10)]
    runs(first, 100)
    refused, stop = [], threading.Event()

    def knock():
        while not stop.wait(0.001):
            with socket.socket(socket.AF_UNIX) as knocking:
                try:
                    knocking.connect(str(first.socket))
                except OSError as error:
                    refused.append(error)
    knocking = threading.Thread(target=knock)
    knocking.start()
    second = generations(former=first, host="commands = 200\ncommands_per_cpu = 0")
    with opened(second, area.new_directory()) as newcomer:
        assert newcomer.run("echo new")["stdout"] == "new\n"
    old_daemon = status(second)["old_daemon"]
    assert old_daemon["pid"] == first.pid and (old_daemon["workspaces"], old_daemon["commands"]) == (10, 100)
    stop.set()
    knocking.join()
    assert not refused
    for client, call in calls:
        answer = client.wait(call)["result"]
        assert answer["success"] and answer["output"]["exit_code"] == 0, answer
    assert ended(first) == 0
    assert procfs.eventually(lambda: "old_daemon" not in status(second))
    for client in clients:
        assert client.notifications or client.receive()["method"] == "service.retiring"


def test_the_old_daemon_keeps_a_workspace_until_its_calls_have_ended(generations, area):
    first = generations()
    root, resting = area.new_directory(), area.new_directory()
    client, other = opened(first, root), opened(first, resting)
    call = begin(client, GO + "echo done")
    runs(first, 1)
    second = generations(former=first)
    # What runs there goes on there, and calls beside it.
    assert client.run("echo beside")["stdout"] == "beside\n"
    busy = error_of(other, "workspace.open", {"root": str(resting)})
    assert busy["data"]["code"] == "BUSY" and "connect again" in busy["message"]
    refused = other.observe("run_command", {"command": "true"})
    assert refused["error"]["code"] == "BUSY" and "connect again" in refused["error"]["message"]
    assert other.notifications[0]["method"] == "service.retiring"
    assert other.notifications[0]["params"] == {"within_ms": 1800000}
    # The new daemon has the other workspace, and waits for this one.
    newer = opened(second, resting)
    assert newer.run("echo new")["stdout"] == "new\n"
    waits = second.connect()
    held = error_of(waits, "workspace.open", {"root": str(root)})
    assert held["data"]["code"] == "BUSY" and held["data"]["retry_after_ms"] > 0
    assert "still run in this workspace" in held["message"]
    go(root)
    assert client.wait(call)["result"]["output"]["stdout"] == "done\n"

    def opens():
        answer = waits.wait(waits.request("workspace.open", {"root": str(root)}))
        return "result" in answer
    assert procfs.eventually(opens)
    assert waits.run("echo again")["stdout"] == "again\n"
    assert ended(first) == 0


def test_sessions_go_on_and_can_be_used(generations, area):
    first = generations(settings="sessions = 4\ntools = basic sessions")
    client = opened(first, area.new_directory())
    session = client.call("session.start", {"command": "cat", "stdin": True})["session"]
    second = generations(former=first, settings="sessions = 4\ntools = basic sessions")
    client.call("session.write", {"session": session, "at": 0, "data": "hello\n"})
    read = client.call("session.read", {"session": session, "after": 0, "wait_ms": 10000})
    assert "hello" in json.dumps(read)
    assert first.process.poll() is None
    client.call("session.end", {"session": session})
    client.close()
    assert ended(first) == 0
    assert procfs.eventually(lambda: "old_daemon" not in status(second))


def test_killing_the_old_daemon_ends_its_commands_alone(generations, area):
    first = generations()
    root = area.new_directory()
    old = opened(first, root)
    begin(old, "echo $$ >pid; sleep 600")
    assert procfs.eventually((pathlib.Path(root) / "pid").exists)
    runs(first, 1)
    cells = procfs.descendants(first.pid)
    second = generations(former=first)
    new_root = area.new_directory()
    new = opened(second, new_root)
    call = begin(new, GO + "echo alive")
    runs(second, 1)
    first.process.kill()
    first.process.wait()
    assert procfs.eventually(lambda: not [pid for pid in cells if procfs.is_alive(pid)])
    assert procfs.eventually(lambda: "old_daemon" not in status(second))
    again = opened(second, root)
    assert again.run("echo again")["stdout"] == "again\n"
    go(new_root)
    assert new.wait(call)["result"]["output"]["stdout"] == "alive\n"


def test_the_end_of_the_new_daemon_ends_the_old_daemon(generations, area):
    """It has the state, and the next cloisterd must be alone with it."""
    first = generations()
    client = opened(first, area.new_directory())
    call = begin(client, "sleep 600")
    runs(first, 1)
    second = generations(former=first)
    second.process.kill()
    second.process.wait()
    assert client.wait(call)["result"]["output"]["ended_by"] == "shutdown"
    assert ended(first) == 0
    assert "has ended: ending what still runs" in first.log()


@pytest.mark.deep("slow")
def test_stopping_waits_for_the_old_daemons_answers(generations, area):
    """A service manager kills what is left as soon as its main process has ended."""
    first = generations()
    client = opened(first, area.new_directory())
    call = begin(client, "trap '' TERM; sleep 600")
    runs(first, 1)
    second = generations(former=first)
    second.process.terminate()
    assert second.process.wait(120) == 0
    assert first.process.poll() == 0, "the old daemon is still there"
    assert client.wait(call)["result"]["output"]["ended_by"] == "shutdown"


def test_a_third_generation_ends_the_oldest(generations, area):
    first = generations()
    oldest = opened(first, area.new_directory())
    call = begin(oldest, "sleep 600")
    runs(first, 1)
    second = generations(former=first)
    root = area.new_directory()
    client = opened(second, root)
    stays = begin(client, GO + "echo stayed")
    runs(second, 1)
    third = generations(former=second)
    assert oldest.wait(call)["result"]["output"]["ended_by"] == "shutdown"
    assert ended(first) == 0
    go(root)
    assert client.wait(stays)["result"]["output"]["stdout"] == "stayed\n"
    assert ended(second) == 0
    with opened(third, area.new_directory()) as newest:
        assert newest.run("echo third")["stdout"] == "third\n"
    assert (third.state / "lock").read_text() == f"{third.pid}\n"


def test_a_third_generation_that_fails_ends_nothing(generations, area):
    """Whether it cannot start, dies while it starts, or is no cloisterd."""
    first = generations()
    root = area.new_directory()
    oldest = opened(first, root)
    call = begin(oldest, GO + "echo stayed")
    runs(first, 1)
    second = generations(former=first)
    done = area.run("cloisterd", "--agent-socket", str(first.path / "other"), "--control-socket", str(first.control_socket),
                    "--state-dir", str(first.state), "--take-over")
    assert done.returncode == 1 and b"is not a listening Unix socket called" in done.stderr
    with talk(second) as third:
        ask(third)
    assert procfs.eventually(lambda: second.log().count("does not take over: it has ended") == 2)
    assert first.process.poll() is None and status(second)["old_daemon"]["commands"] == 1
    with opened(second, area.new_directory()) as newcomer:
        assert newcomer.run("echo serves")["stdout"] == "serves\n"
    go(root)
    assert oldest.wait(call)["result"]["output"]["stdout"] == "stayed\n"
    assert ended(first) == 0


def test_the_oldest_ends_while_a_third_generation_starts(generations, area):
    """What it said goes by way of the second one, and what it has left is removed when one of them serves again."""
    first = generations(host="audit = required")
    root = area.new_directory()
    oldest = opened(first, root)
    call = begin(oldest, GO + "echo done", key="k")
    runs(first, 1)
    second = generations(former=first, host="audit = required")
    with talk(second) as third:
        ask(third)
        go(root)
        assert oldest.wait(call)["result"]["output"]["stdout"] == "done\n"
        assert ended(first) == 0
    assert procfs.eventually(lambda: "does not take over: it has ended" in second.log())
    third = generations(former=second, host="audit = required")
    assert ended(second) == 0
    newcomer = third.connect()
    opens(newcomer, root=str(root))
    again = newcomer.observe("run_command", {"command": GO + "echo done"}, {"key": "k"})
    assert again["success"] and again["replayed"], again
    assert third.stop() == 0
    log = first.state / "audit" / "audit.log"
    assert area.run("cloisterctl", "audit", "verify", str(log)).returncode == 0


@pytest.mark.parametrize("what", ["commit", "discard", "leave"])
def test_a_preview_stays_with_the_old_daemon_until_it_is_decided(generations, what):
    """Who opened the workspace before would undo it, and would find the layer of another preview or checkpoint gone later."""
    first = generations()
    client = opened(first, name="w")
    client.run("echo old >file")
    assert client.observe("run_command", {"command": "echo new >file"}, {"transaction": "preview"})["diff"]["count"] == 1
    second = generations(former=first)
    assert status(second)["old_daemon"]["workspaces"] == 1
    newcomer = second.connect()
    assert error_of(newcomer, "workspace.open", {"workspace": "w"})["data"]["code"] == "BUSY"
    assert client.call("workspace.diff")["count"] == 1
    if what != "leave":
        client.call(f"transaction.{what}")
    client.close()
    assert ended(first) == 0
    opens(newcomer, workspace="w")
    assert newcomer.run("cat file")["stdout"] == ("new\n" if what == "commit" else "old\n")
    rows = newcomer.call("workspace.checkpoints")["checkpoints"]
    assert len(rows) == (what == "commit")
    newcomer.call("workspace.checkpoint")
    newcomer.run("echo kept >kept")
    newcomer.close()
    assert second.stop() == 0
    with opened(generations(state=first.state), name="w") as again:
        assert again.run("cat kept")["stdout"] == "kept\n"


def test_managed_workspaces_and_removals(generations):
    first = generations()
    client = opened(first, name="kept")
    client.run("echo a >a")
    call = begin(client, GO + "true")
    runs(first, 1)
    second = generations(former=first)
    newcomer = opened(second, name="other")
    held = error_of(newcomer, "workspace.remove", {"workspace": "kept"})
    assert held["data"]["code"] == "BUSY"
    refused = error_of(client, "workspace.remove", {"workspace": "kept"})
    assert refused["data"]["code"] == "BUSY" and "connect again" in refused["message"]
    refused = error_of(client, "workspace.open", {"workspace": "new"})
    assert refused["data"]["code"] == "BUSY" and not list(first.state.glob("workspaces/*/new"))
    assert client.observe("write_file", {"path": "go", "content": ""})["success"]
    assert client.wait(call)["result"]["success"]
    assert ended(first) == 0
    newcomer.call("workspace.open", {"workspace": "kept"})
    assert procfs.eventually(lambda: "old_daemon" not in status(second))


def test_the_old_daemon_changes_no_layers_or_templates(generations, area):
    """To open a workspace drops layers that are not in force, such as that of a checkpoint on its way."""
    first = generations()
    early, stays = opened(first, name="w"), opened(first, area.new_directory())
    early.call("workspace.freeze", {"template": "t"})
    early.call("workspace.close")
    begin(stays, "sleep 600")  # keeps the old daemon
    runs(first, 1)
    second = generations(former=first)
    client = second.connect()
    opens(client, workspace="w")
    running = begin(client, "sleep 600")
    checkpoint = client.request("workspace.checkpoint", {})  # its layer is there, and it waits for the command
    assert client.call("template.list", {})["templates"]
    for method, params in [("workspace.open", {}), ("workspace.update", {"labels": {}}), ("workspace.remove", {})]:
        refused = error_of(early, method, {"workspace": "w", **params})
        assert refused["data"]["code"] == "BUSY" and "connect again" in refused["message"], refused
    assert "connect again" in error_of(early, "template.remove", {"template": "t"})["message"]
    client.cancel(running)
    assert client.result(checkpoint)["checkpoint"] == 1
    assert client.run("echo there")["stdout"] == "there\n"
    assert client.call("template.list", {})["templates"]


def test_a_removal_that_takes_long(generations):
    """The new daemon clears what the old daemon has removed and not cleared."""
    first = generations()
    client = opened(first, name="w")
    client.run("mkdir d; touch d/a b")
    (directory,) = [path for path in first.state.glob("workspaces/*/w") if path.is_dir()]
    with acting_as(os.getuid()):
        os.kill(first.spawner(), signal.SIGSTOP)
    client.call("workspace.remove", {"workspace": "w"})
    assert not directory.exists() and list(directory.parent.glob(".removed-*"))
    second = generations(former=first)
    first.process.kill()
    first.process.wait()
    assert procfs.eventually(lambda: not list(directory.parent.iterdir()))
    with second.connect() as newcomer:
        opens(newcomer, workspace="w")
        assert newcomer.run("ls")["stdout"] == ""


@pytest.mark.parametrize("how", ["call", "preview"])
def test_a_client_that_leaves_lets_go_of_its_workspace(generations, area, how):
    """Although the old daemon stays for something else."""
    first = generations()
    leaves, stays = opened(first, name="w"), opened(first, area.new_directory())
    if how == "call":
        begin(leaves, "sleep 600")
    begin(stays, "sleep 600")
    runs(first, 1 + (how == "call"))
    if how == "preview":
        assert leaves.observe("run_command", {"command": "echo >x"}, {"transaction": "preview"})["success"]
    second = generations(former=first)
    leaves.close()
    opens(second.connect(), workspace="w")
    assert status(second)["old_daemon"]["workspaces"] == 1


def test_sockets_go_with_the_last(generations, area):
    first = generations()
    second = generations(former=first)
    assert ended(first) == 0 and first.socket.exists()
    with opened(second, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"
    assert second.stop() == 0
    assert not first.socket.exists() and not first.control_socket.exists()


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("keys", [True, False])
def test_a_client_follows(generations, connect, area, keys):  # noqa: F811
    """By itself, whether it has read the message before its next call or meets the refusal."""
    first = generations()
    client = connect(first.socket, keys=keys)
    client.workspace(str(area.new_directory()))
    assert client.run_command("echo 1")["stdout"] == "1\n"
    second = generations(former=first)
    assert client.run_command("echo 2")["stdout"] == "2\n"
    assert ended(first) == 0
    third = generations(former=second)
    with contextlib.suppress(subprocess.TimeoutExpired):
        second.process.wait(2)
    assert client.run_command("echo 3")["stdout"] == "3\n"
    assert ended(second) == 0 and third.process.poll() is None
