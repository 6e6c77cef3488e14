# SPDX-License-Identifier: Apache-2.0
"""`cloisterd --take-over`: a cloisterd serves in the place of another one, and nothing that runs is lost."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import threading

import pytest

import keyed
import procfs
from cloister_client import acting_as
from daemon import AM_ROOT, BUILD, environment, system_config
from delegation import processes, reason_against
from test_python_client import connect  # noqa: F401  (a fixture: both clients, one after the other)

SLEEP = 15  # seconds: longer than a hand-over takes
GO = "until [ -e go ]; do sleep 0.1; done; "


@pytest.fixture(name="generations")
def generations_fixture(start_daemon, area):
    """Returns a function that starts a daemon, or one that takes over from @former."""
    def start(former=None, settings="", host="", **keywords):
        config = (f"[cloister]\njournal = fast\nadmin_group = {area.account.gid}\n{host}\n"
                  f"[tenant t]\nusers = {area.account.uid}\nmanaged = yes\nroots = {area.path}\n{settings}")
        return start_daemon(config=config, former=former, **keywords)
    return start


def status(daemon):
    with daemon.control() as control:
        return control.call("status")


def opened(daemon, root=None, name=None):
    client = daemon.connect()
    client.call("workspace.open", {"root": str(root)} if root else {"workspace": name or "w"})
    return client


def begin(client, command, **options):
    return client.request("tool.call", {"tool": "run_command", "arguments": {"command": command}, "options": options})


def go(root):
    """Lets the command of GO end."""
    (pathlib.Path(root) / "go").touch()


def runs(daemon, n):
    assert procfs.eventually(lambda: status(daemon)["commands_running"] == n)


def ended(daemon):
    """Waits until the process has ended by itself, and returns its status."""
    return daemon.process.wait(120)


def error_of(client, method, params):
    return client.wait(client.request(method, params))["error"]


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
    elder = status(second)["elder"]
    assert elder["pid"] == first.pid and (elder["workspaces"], elder["commands"]) == (10, 100)
    stop.set()
    knocking.join()
    assert not refused
    for client, call in calls:
        answer = client.wait(call)["result"]
        assert answer["success"] and answer["output"]["exit_code"] == 0, answer
    assert ended(first) == 0
    assert procfs.eventually(lambda: "elder" not in status(second))
    for client in clients:
        assert client.notifications or client.receive()["method"] == "service.retiring"


def test_the_elder_keeps_a_workspace_until_its_calls_have_ended(generations, area):
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
    # The younger one has the other workspace, and waits for this one.
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
    assert procfs.eventually(lambda: "elder" not in status(second))


def test_killing_the_elder_ends_its_commands_alone(generations, area):
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
    assert procfs.eventually(lambda: "elder" not in status(second))
    again = opened(second, root)
    assert again.run("echo again")["stdout"] == "again\n"
    go(new_root)
    assert new.wait(call)["result"]["output"]["stdout"] == "alive\n"


def test_the_end_of_the_younger_ends_the_elder(generations, area):
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


def test_stopping_waits_for_the_elders_answers(generations, area):
    """A service manager kills what is left as soon as its main process has ended."""
    first = generations()
    client = opened(first, area.new_directory())
    call = begin(client, "trap '' TERM; sleep 600")
    runs(first, 1)
    second = generations(former=first)
    second.process.terminate()
    assert second.process.wait(120) == 0
    assert first.process.poll() == 0, "the elder one is still there"
    assert client.wait(call)["result"]["output"]["ended_by"] == "shutdown"


def test_the_younger_one_has_spare_cells(generations, area):
    """So that the first workspace there is opened like any other: it is the first that takes one."""
    first = generations(host="spare_cells = 2")
    second = generations(former=first, host="spare_cells = 2")
    assert status(second)["spare_cells"] == 2
    with opened(second, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"
    assert status(second)["spare_cells_used"] == 1


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


def test_retire_time_is_a_bound(generations, area):
    first = generations(host="retire_time = 1s")
    client = opened(first, area.new_directory())
    call = begin(client, "sleep 600")
    runs(first, 1)
    generations(former=first)
    assert client.wait(call)["result"]["output"]["ended_by"] == "shutdown"
    assert ended(first) == 0
    assert "retire_time is over" in first.log()


def test_an_elder_that_hangs_is_killed(generations, area):
    first = generations()
    root = area.new_directory()
    begin(opened(first, root), "sleep 600")
    runs(first, 1)
    second = generations(former=first, host="retire_time = 0s")
    first.process.send_signal(signal.SIGSTOP)
    assert first.process.wait(120) == -signal.SIGKILL
    assert "does not end: killing it" in second.log()
    assert procfs.eventually(lambda: "elder" not in status(second))
    with opened(second, root) as client:
        assert client.run("echo a")["stdout"] == "a\n"


def test_what_a_call_with_a_key_came_to(generations, area):
    """It ran under the elder one; the younger one knows the result, and does not run it again."""
    first = generations()
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "echo run >>runs; echo out", key="k")
    runs(first, 1)
    second = generations(former=first)
    # A new one is not begun there, since its beginning could not be recorded.
    refused = client.observe("run_command", {"command": "echo run >>others"}, {"key": "other"})
    assert refused["error"]["code"] == "BUSY" and "journal of keys" in refused["error"]["message"]
    go(root)
    assert client.wait(call)["result"]["success"]
    again = second.connect()
    assert procfs.eventually(
        lambda: "result" in again.wait(again.request("workspace.open", {"root": str(root)})))
    replayed = again.observe(
        "run_command", {"command": GO + "echo run >>runs; echo out"}, {"key": "k"})
    assert replayed["replayed"] and replayed["output"]["stdout"] == "out\n"
    assert keyed.runs(root) == 1 and not (pathlib.Path(root) / "others").exists()
    assert again.observe("run_command", {"command": "echo run >>others"}, {"key": "other"})["success"]


def journal(daemon):
    with acting_as(os.getuid()):
        return {path.name: path.read_bytes() for path in (daemon.state / "journal").iterdir()}


def ask(link):
    """Begins to take over, and takes nothing."""
    say(link, ASK)
    kind, fds = hear(link)
    assert kind == GIVEN
    for fd in fds:
        os.close(fd)


def until_go(link):
    """Says that the younger one is ready. Returns what it hears, in order, until it may serve."""
    say(link, READY)
    kinds = []
    while GO_ON not in kinds:
        kinds.append(hear(link)[0])
        assert kinds[-1], kinds
    return kinds


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_call_with_a_key_ends_while_the_younger_starts(generations, area, comes_up):
    """The younger one may have read the journal: it is told, and nothing is written beneath it."""
    first = generations()
    root = area.new_directory()
    client = opened(first, root)
    command = GO + "echo run >>runs; echo out"
    call = begin(client, command, key="k")
    other = begin(client, "until [ -e end ]; do sleep 0.1; done")
    runs(first, 2)
    with talk(first) as link:
        ask(link)
        before = journal(first)
        go(root)
        assert procfs.eventually(lambda: keyed.runs(root) == 1)
        assert client.wait(call)["result"]["success"]
        assert journal(first) == before
        if comes_up:
            kinds = until_go(link)
            assert KEY in kinds and journal(first) == before, kinds
    (pathlib.Path(root) / "end").touch()
    client.wait(other)
    if comes_up:
        assert ended(first) == 0  # with the younger one
        return
    again = opened(first, root)
    assert again.observe("run_command", {"command": command}, {"key": "k"})["replayed"]
    assert first.stop() == 0
    with opened(generations(state=first.state), root) as second:
        assert second.observe("run_command", {"command": command}, {"key": "k"})["replayed"]
    assert keyed.runs(root) == 1


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_call_with_a_key_begins_while_the_younger_starts(generations, area, comes_up):
    """It has waited for another one. A younger one that does not know of it would run it again."""
    first = generations(settings="commands_per_workspace = 1")
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "touch gone")
    runs(first, 1)
    command = "echo run >>runs; echo out"
    waits = begin(client, command, key="k")
    assert procfs.eventually(lambda: status(first)["calls_waiting"] == 1)
    with talk(first) as link:
        ask(link)
        before = journal(first)
        go(root)
        assert client.wait(call)["result"]["success"]
        if comes_up:
            until_go(link)
            answer = client.wait(waits)["result"]
            assert answer["error"]["code"] == "BUSY" and keyed.runs(root) == 0, answer
            assert journal(first) == before
            return
    assert client.wait(waits)["result"]["output"]["stdout"] == "out\n"
    assert client.observe("run_command", {"command": command}, {"key": "k"})["replayed"] and keyed.runs(root) == 1


def test_a_killed_elder_leaves_an_unknown_outcome(generations, area):
    first = generations()
    root = area.new_directory()
    client = opened(first, root)
    command = "echo run >>runs; sleep 600"
    begin(client, command, key="k")
    assert procfs.eventually(lambda: keyed.runs(root) == 1)
    second = generations(former=first)
    first.process.kill()
    first.process.wait()
    again = second.connect()
    assert procfs.eventually(
        lambda: "result" in again.wait(again.request("workspace.open", {"root": str(root)})))
    assert again.observe("run_command", {"command": command}, {"key": "k"})["error"]["code"] == "OUTCOME_UNKNOWN"
    assert keyed.runs(root) == 1


def test_one_audit_log_has_both(generations, area):
    first = generations(host="audit = required")
    log = first.state / "audit" / "audit.log"
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "echo elder")
    runs(first, 1)
    second = generations(former=first, host="audit = required")
    with opened(second, area.new_directory()) as newcomer:
        newcomer.run("echo younger")
    go(root)
    client.wait(call)
    assert ended(first) == 0
    assert procfs.eventually(lambda: "elder" not in status(second))
    assert second.stop() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [line for line in lines if line["event"] == "call.ended"]
    assert len(ends) == 2, lines
    assert area.run("cloisterctl", "audit", "verify", str(log)).returncode == 0


def test_the_hosts_commands_are_counted_together(generations, area):
    first = generations(host="commands = 2", settings="commands = 2")
    root = area.new_directory()
    client = opened(first, root)
    calls = [begin(client, GO + "true") for _ in range(2)]
    runs(first, 2)
    second = generations(former=first, host="commands = 2", settings="commands = 2")
    newcomer = opened(second, area.new_directory())
    waiting = begin(newcomer, "echo mine")
    assert procfs.eventually(lambda: status(second)["calls_waiting"] == 1)
    assert status(second)["commands_running"] == 0
    go(root)
    for call in calls:
        assert client.wait(call)["result"]["success"]
    assert newcomer.wait(waiting)["result"]["output"]["stdout"] == "mine\n"


def test_a_preview_is_decided_on_where_it_was_made(generations):
    first = generations()
    client = opened(first, name="w")
    client.call("tool.call", {"tool": "write_file", "arguments": {"path": "a", "content": "new"},
                              "options": {"transaction": "preview"}})
    second = generations(former=first)
    with second.connect() as newcomer:
        assert error_of(newcomer, "workspace.open", {"workspace": "w"})["data"]["code"] == "BUSY"
        client.call("transaction.commit", {})
        assert procfs.eventually(
            lambda: "result" in newcomer.wait(newcomer.request("workspace.open", {"workspace": "w"})))
        assert newcomer.run("cat a")["stdout"] == "new"
    assert ended(first) == 0


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
    assert procfs.eventually(lambda: "elder" not in status(second))


@pytest.mark.parametrize("what", ["commit", "discard", "leave"])
def test_a_preview_stays_with_the_elder_until_it_is_decided(generations, what):
    """Who opened the workspace before would undo it, and would find the layer of another preview or checkpoint gone later."""
    first = generations()
    client = opened(first, name="w")
    client.run("echo old >file")
    assert client.observe("run_command", {"command": "echo new >file"}, {"transaction": "preview"})["diff"]["count"] == 1
    second = generations(former=first)
    assert status(second)["elder"]["workspaces"] == 1
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


def opens(client, **params):
    """Opens the workspace as soon as the elder one has let go of it."""
    assert procfs.eventually(lambda: "result" in client.wait(client.request("workspace.open", params)))


@pytest.mark.parametrize("how", ["call", "preview"])
def test_a_client_that_leaves_lets_go_of_its_workspace(generations, area, how):
    """Although the elder one stays for something else."""
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
    assert status(second)["elder"]["workspaces"] == 1


def test_a_younger_one_that_dies_before_it_serves(generations, area):
    """The elder one goes on as if nothing had been."""
    first = generations(host="audit = required")
    client = opened(first, area.new_directory())
    with talk(first) as younger:
        say(younger, ASK)
        kind, fds = hear(younger)
        assert kind == GIVEN and len(fds) >= 4
        refused = client.observe("run_command", {"command": "true"})
        assert refused["error"]["code"] == "BUSY"
        for fd in fds:
            os.close(fd)
    assert procfs.eventually(lambda: client.observe("run_command", {"command": "true"})["success"])
    with opened(first, area.new_directory()) as newcomer:
        assert newcomer.observe("run_command", {"command": "true"}, {"key": "k"})["success"]
    second = generations(former=first, host="audit = required")
    assert ended(first) == 0 and second.process.poll() is None
    log = first.state / "audit" / "audit.log"
    assert second.stop() == 0
    assert area.run("cloisterctl", "audit", "verify", str(log)).returncode == 0


ASK, REFUSED, GIVEN, READY, GO_ON, KEY = 1, 2, 3, 4, 6, 9


def talk(daemon):
    """A connection to where generations talk, as the daemon's user."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with acting_as(daemon.account.uid):
        link.connect(str(daemon.state / "handover"))
    link.settimeout(120)
    return link


def say(link, kind, version=1, rest=b""):
    link.send(struct.pack("=2I5Q", version, kind, 0, 0, 0, 0, 0) + rest)


def hear(link):
    data, fds, _, _ = socket.recv_fds(link, 1 << 18, 8)
    return (struct.unpack_from("=2I", data)[1] if data else None), fds


@pytest.mark.parametrize("words", [b"", b"x", struct.pack("=2I5Q", 2, ASK, *[0] * 5), struct.pack("=2I5Q", 1, 99, *[0] * 5),
                                   struct.pack("=2I5Q", 1, READY, *[0] * 5)])
def test_what_no_cloisterd_says(generations, area, words):
    first = generations()
    client = opened(first, area.new_directory())
    with talk(first) as link:
        if words:
            link.send(words)
            assert hear(link) == (None, [])
    assert client.run("echo a")["stdout"] == "a\n"
    assert generations(former=first).process.poll() is None


def test_two_at_once(generations):
    first = generations()
    with talk(first) as one:
        say(one, ASK)
        assert hear(one)[0] == GIVEN
        with talk(first) as other:
            assert hear(other) == (None, [])


def test_there_is_nothing_to_take_over(area):
    place = area.new_directory("none")
    done = area.run("cloisterd", "--agent-socket", str(place / "a"), "--state-dir", str(place / "state"), "--take-over")
    assert done.returncode == 1
    assert b"no cloisterd uses this state directory; start without --take-over" in done.stderr


def test_another_name_of_the_socket(generations, area):
    first = generations()
    done = area.run("cloisterd", "--agent-socket", str(first.path / "other"), "--state-dir", str(first.state), "--take-over")
    assert done.returncode == 1 and b"is not a listening Unix socket called" in done.stderr
    assert procfs.eventually(lambda: "does not take over: it has ended" in first.log())
    with opened(first, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"


def test_a_mistake_in_the_new_configuration(generations, area):
    first = generations()
    (first.path / "bad.conf").write_text("[cloister]\nno_such_key = 1\n")
    done = area.run("cloisterd", "--agent-socket", str(first.socket), "--state-dir", str(first.state),
                    "--config", str(first.path / "bad.conf"), "--take-over")
    assert done.returncode == 1 and b"no_such_key" in done.stderr
    with opened(first, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"


def test_sockets_go_with_the_last(generations, area):
    first = generations()
    second = generations(former=first)
    assert ended(first) == 0 and first.socket.exists()
    with opened(second, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"
    assert second.stop() == 0
    assert not first.socket.exists() and not first.control_socket.exists()


def test_the_manager_is_told(generations, area):
    """MAINPID= by the elder one, and the watchdog's interval by way of it."""
    place = area.new_directory("manager")
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(place / "notify"))
    os.chmod(place / "notify", 0o666)
    notified.settimeout(120)
    told = []

    def until(wanted):
        while not told or wanted not in told[-1]:
            told.append(notified.recv(4096).decode())
    env = {**environment(area.home), "NOTIFY_SOCKET": str(place / "notify")}
    first = generations(env={**env, "WATCHDOG_USEC": "2000000"})
    until("WATCHDOG=1")
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "true")
    runs(first, 1)
    second = generations(former=first, env=env)
    until("MAINPID=")
    assert told[-1] == f"MAINPID={second.pid}"
    until("READY=1")
    until("WATCHDOG=1")
    go(root)
    assert client.wait(call)["result"]["success"]
    notified.close()


@pytest.mark.skipif(not AM_ROOT, reason="gives a user ids")
def test_ids_of_two_generations(start_daemon, area):
    """In system mode no two workspaces share an id, whichever generation has them open."""
    config = system_config(area, f"admin_group = {area.account.gid}")
    first = start_daemon(system=True, config=config)
    root, other = first.new_directory(), area.new_directory()
    client, managed = opened(first, root), opened(first, name="elder")
    call = begin(client, GO + "true")
    calls = begin(managed, GO + "true")
    runs(first, 2)
    second = start_daemon(system=True, config=config, former=first)
    with opened(second, name="younger") as newcomer:
        assert newcomer.run("true")["exit_code"] == 0
        owners = {path.stat().st_uid for path in first.state.glob("workspaces/*/*")} | {os.stat(root).st_uid}
        assert len(owners) == 3
        with acting_as(os.getuid()):
            os.chown(other, os.stat(root).st_uid, os.stat(root).st_gid)
        refused = error_of(newcomer, "workspace.open", {"root": str(other)})
        assert refused["data"]["code"] == "FORBIDDEN" and "another workspace" in refused["message"], refused
        for each, number in ((client, call), (managed, calls)):
            assert each.observe("write_file", {"path": "go", "content": ""})["success"]
            assert each.wait(number)["result"]["success"]
        assert ended(first) == 0
        assert procfs.eventually(lambda: "elder" not in status(second))
        newcomer.call("workspace.open", {"root": str(other)})


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for system mode")
def test_forks_of_a_template_in_memory(start_daemon, area):
    """The younger generation loads the template for forks that it opens; those of the elder go on with what they have."""
    config = system_config(area, "template_memory = 64M", f"admin_group = {area.account.gid}")
    first = start_daemon(config=config, system=True)
    client = opened(first)
    client.run("head -c 3M /dev/urandom > big; echo template > f")
    client.call("workspace.freeze", {"template": "t"})
    answer = client.call("workspace.fork", {"from": "t", "count": 2})
    if answer["forked_by"] == "copy":
        pytest.skip("a tmpfs with mapped ids and attributes needs Linux 6.6")
    old = opened(first, name="t-1")
    expected = old.run("sha256sum big; echo old > f; cat f")["stdout"]
    running = begin(old, GO + "cat f; sha256sum big")
    runs(first, 1)
    second = start_daemon(config=config, system=True, former=first)
    new = opened(second, name="t-2")
    assert new.run("sha256sum big; cat f")["stdout"] == expected.replace("old\n", "template\n")
    assert "template_memory" in status(second) and 3 * 2**20 < status(second)["template_memory"]["bytes"] < 4 * 2**20
    assert status(second)["template_memory"]["limit_bytes"] == 64 * 2**20
    more = second.connect().call("workspace.fork", {"from": "t"})
    assert (more["forked_by"], more["workspaces"]) == ("memory", ["t-3"])
    assert old.observe("write_file", {"path": "go", "content": ""})["success"]
    assert old.result(running)["output"]["stdout"].split() == ["old", *expected.split()[:2]]
    assert ended(first) == 0
    with opened(second, name="t-1") as again:
        assert again.run("sha256sum big; cat f")["stdout"] == expected


def test_a_kept_home_stays_with_its_cell(generations, area):
    """The younger one's spawner empties a home that is too large when it is alone, and not while the elder's cell has it."""
    settings = "home = kept\nhome_size = 1M"
    first = generations(settings=settings)
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, "head -c 2M /dev/zero >~/large; touch made; " + GO + "stat -c %s ~/large")
    assert procfs.eventually((pathlib.Path(root) / "made").exists)
    second = generations(former=first, settings=settings)
    with opened(second, area.new_directory()) as newcomer:
        assert newcomer.run("true")["exit_code"] == 0
    assert list(first.state.glob("homes/t/*/large"))
    go(root)
    assert client.wait(call)["result"]["output"]["stdout"] == "2097152\n"
    assert ended(first) == 0
    assert procfs.eventually(lambda: not list(first.state.glob("homes/t/*/large")))
    assert second.process.poll() is None


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


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_cgroups_of_two_generations(generations, delegation, area):
    first = generations(launcher=delegation.launcher())
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "true")
    runs(first, 1)
    with acting_as(os.getuid()):
        control = delegation.path / ".control"
        control.mkdir()
        for file in (".", "cgroup.procs"):
            os.chown(control / file, area.account.uid, area.account.gid)
    second = generations(former=first, launcher=delegation.launcher(".control"))
    own = f"gen-{second.pid}"
    assert second.pid in processes(delegation.path / own / "supervisor")
    assert processes(control) == []
    with opened(second, area.new_directory()) as newcomer:
        assert newcomer.run("echo a")["stdout"] == "a\n"
        assert any(name.startswith(f"{own}/ws-") for name in delegation.groups())
    go(root)
    assert client.wait(call)["result"]["success"]
    assert ended(first) == 0
    assert not [name for name in delegation.groups() if name.startswith("ws-")]
    assert second.stop() == 0


def detached(area, first):
    """Runs the line of the packages' ExecReload=; its status, and what it and what it has started have logged."""
    log = first.path / f"detached{area.number}.log"
    area.number += 1
    with acting_as(os.getuid()), open(log, "wb") as file:
        started = area.start(["cloisterd", "--agent-socket", str(first.socket), "--control-socket", str(first.control_socket),
                              "--state-dir", str(first.state), "--config", str(first.config), "--take-over", "--if-replaced", "--detach"],
                             stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        return started.wait(120), log.read_text()


def replace_program(area):
    """As a package does: another file of that name."""
    program = area.bin / "cloisterd"
    with acting_as(os.getuid()):
        shutil.copy(program, area.bin / "cloisterd.new")
        os.replace(area.bin / "cloisterd.new", program)


def main_process(first):
    with acting_as(os.getuid()):
        return int((first.state / "lock").read_text())


@contextlib.contextmanager
def ended_by_us(pid):
    """One that is no child of this test."""
    try:
        yield
    finally:
        with acting_as(os.getuid()):
            os.kill(pid, signal.SIGTERM)
            assert procfs.eventually(lambda: not procfs.is_alive(pid))


def test_only_if_the_program_was_replaced(generations, area):
    """The same program does nothing; another one serves when its command returns, as nobody's child."""
    first = generations()
    root = area.new_directory()
    client = opened(first, root)
    call = begin(client, GO + "echo done")
    runs(first, 1)
    code, said = detached(area, first)
    assert code == 0 and "is this program too: not taking over" in said, said
    assert main_process(first) == first.pid and "elder" not in status(first)
    with opened(first, area.new_directory()) as other:
        assert other.run("echo serves")["stdout"] == "serves\n"
    replace_program(area)
    code, said = detached(area, first)
    assert code == 0, said
    pid = main_process(first)
    with ended_by_us(pid):
        assert pid != first.pid and status(first)["elder"]["pid"] == first.pid
        assert procfs.parent(pid) not in (os.getpid(), first.pid)
        go(root)
        assert client.wait(call)["result"]["output"]["stdout"] == "done\n"
        assert ended(first) == 0
        # The one that has taken over knows its own program, too.
        code, said = detached(area, first)
        assert code == 0 and main_process(first) == pid, said


def test_a_detached_one_that_fails(generations, area):
    """Its command says so, and the one that serves goes on."""
    first = generations()
    replace_program(area)
    with acting_as(os.getuid()):
        config = first.config.read_text()
        first.config.write_text(config + "no_such_key = 1\n")
    code, said = detached(area, first)
    assert code == 1 and "no_such_key" in said
    with opened(first, area.new_directory()) as client:
        assert client.run("echo a")["stdout"] == "a\n"


@pytest.mark.parametrize("words", [["--detach"], ["--if-replaced"]])
def test_these_options_are_of_a_take_over(area, words):
    done = area.run("cloisterd", "--state-dir", "/nonexistent", *words)
    assert done.returncode == 2 and b"usage:" in done.stderr


@pytest.mark.parametrize("elder", ["finishes", "is killed"])
def test_a_removal_that_takes_long(generations, elder):
    """It does not keep a younger one from taking over: the elder finishes it, or the younger one does if that dies."""
    first = generations()
    client = opened(first, name="w")
    client.run("mkdir d; touch d/a b")
    ((_, files),) = first.cells()
    with acting_as(os.getuid()):
        os.kill(files, signal.SIGSTOP)
    removal = client.request("workspace.remove", {"workspace": "w"})
    (directory,) = [path for path in first.state.glob("workspaces/*/w") if path.is_dir()]
    assert procfs.eventually(lambda: len(list(directory.parent.iterdir())) == 2), "it is not marked"
    second = generations(former=first)
    assert status(second)["elder"]["workspaces"] == 1
    with second.connect() as newcomer:
        assert error_of(newcomer, "workspace.open", {"workspace": "w"})["data"]["code"] == "BUSY"
        if elder == "finishes":
            with acting_as(os.getuid()):
                os.kill(files, signal.SIGCONT)
            assert client.wait(removal)["result"] == {}
            assert ended(first) == 0 and not directory.exists()
        else:
            first.process.kill()
            first.process.wait()
            assert procfs.eventually(lambda: "the removal of the workspace w is finished" in second.log())
            assert not directory.exists()
        opens(newcomer, workspace="w")
        assert newcomer.run("ls")["stdout"] == ""
    assert "cannot be finished" not in second.log()


@pytest.mark.skipif(not AM_ROOT, reason="traces the younger one")
def test_the_last_step_comes_before_the_elder_retires(generations, area):
    """A younger one that dies in it, when it signs the lock, leaves the elder one serving, which signs again."""
    first = generations()
    client = opened(first, area.new_directory())
    ftruncate, holder = 77, None
    first.process.send_signal(signal.SIGSTOP)
    with acting_as(os.getuid()), open(first.path / "younger.log", "wb") as log:
        younger = area.start(["cloisterd", "--agent-socket", str(first.socket), "--control-socket", str(first.control_socket),
                              "--state-dir", str(first.state), "--config", str(first.config), "--take-over"],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # It waits for the answer of the elder one.
        assert procfs.eventually(lambda: any("handover" in str(fd) or "socket" in str(fd) for fd in procfs.fds(younger.pid).values())
                                 and b"poll" in (pathlib.Path(f"/proc/{younger.pid}/wchan").read_bytes()))
        holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", str(younger.pid), str(ftruncate)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "ready\n"
        first.process.send_signal(signal.SIGCONT)
        assert holder.stdout.readline() == "held\n", (first.path / "younger.log").read_text()
        _, fd, *_ = pathlib.Path(f"/proc/{younger.pid}/syscall").read_text().split()
        assert procfs.fds(younger.pid)[int(fd, 16)] == str(first.state / "lock")
        younger.kill()
        holder.communicate()
        younger.wait()
    assert client.run("echo serves")["stdout"] == "serves\n"
    with opened(first, area.new_directory()) as newcomer:
        assert newcomer.run("echo serves")["stdout"] == "serves\n"
    assert "does not take over: it has ended" in first.log() and main_process(first) == first.pid
    assert generations(former=first).process.poll() is None


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_what_killed_elders_leave_of_cgroups(generations, delegation, area):
    """Whoever takes over next removes it: of the first generation, and of a later one."""
    kept = area.new_directory()

    def control():
        """The service manager's group for what a reload starts."""
        with acting_as(os.getuid()):
            place = delegation.path / ".control"
            place.mkdir(exist_ok=True)
            for file in (".", "cgroup.procs"):
                os.chown(place / file, area.account.uid, area.account.gid)
        return delegation.launcher(".control")

    def busy(daemon, n):
        begin(opened(daemon, kept if n == 0 else area.new_directory()), "sleep 600")
        runs(daemon, 1)

    def next_after(killed, n):
        busy(killed, n)
        heir = generations(former=killed, launcher=control())
        with acting_as(os.getuid()):
            os.kill(killed.spawner(), signal.SIGSTOP)  # it may see the end of its cloisterd before it is killed, and tidy up
        killed.process.kill()
        killed.process.wait()
        assert procfs.eventually(lambda: "elder" not in status(heir))
        return heir
    first = generations(launcher=delegation.launcher())
    second = next_after(first, 0)
    assert [name for name in delegation.groups() if name.startswith("ws-")], delegation.groups()
    third = next_after(second, 1)
    assert not [name for name in delegation.groups() if name.startswith("ws-")], delegation.groups()
    assert [name for name in delegation.groups() if name.startswith(f"gen-{second.pid}/ws-")]
    last = generations(former=third, launcher=control())
    assert ended(third) == 0
    assert not [name for name in delegation.groups() if name.startswith(f"gen-{second.pid}")], last.log()
    with opened(last, kept) as client:
        assert client.run("echo a")["stdout"] == "a\n"


def slow_to_find(place):
    """A path of which each look-up takes the kernel a while: links to links through many directories."""
    with acting_as(os.getuid()):
        (place / "a").mkdir()
        for i in range(39):
            (place / f"l{i}").symlink_to("a/../" * 800 + (f"l{i + 1}" if i < 38 else "a"))
    return str(place / "l0")


def test_a_flood_of_openings_does_not_hinder_it(generations, area):
    """A client that asks for workspaces all the time is told to come later. Nothing would ever rest, if each were looked for."""
    first = generations()
    path, stop = slow_to_find(area.new_directory()), threading.Event()

    def flood(client):
        waiting = []
        with contextlib.suppress(OSError, EOFError):
            while not stop.is_set():
                waiting.append(client.request("workspace.open", {"root": path}))
                if len(waiting) >= 24:
                    client.wait(waiting.pop(0))
    threads = [threading.Thread(target=flood, args=[first.connect()]) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        second = generations(former=first)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with opened(second, area.new_directory()) as client:
        assert client.run("echo new")["stdout"] == "new\n"
