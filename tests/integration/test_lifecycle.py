# SPDX-License-Identifier: Apache-2.0
"""The ends of processes: cloister's processes end with the client, call or workspace that they serve, and no others do.

CLOISTER_SOAK=full or short sets how much the last test does; a sanitized build's default is short.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time

import procfs
import pytest
from cloister_client import RpcError, acting_as
from daemon import AM_ROOT, Area, Daemon, is_sanitized

SOAK = os.environ.get("CLOISTER_SOAK", "short" if is_sanitized() else "full")


@pytest.fixture
def marker():
    """Returns a word for command lines, by which the test finds its processes."""
    return f"cloister-marker-{os.getpid()}-{random.randrange(10 ** 9)}"


def begin_all_kinds(client, path, marker):
    """Begins commands that are hard to end. Returns the calls' ids once all of them run."""
    program = f"; : {marker}"
    commands = {
        "plain": f"sleep 600{program}",
        "stopped": f"touch stopping; kill -STOP $${program}",
        "deaf": f"trap '' TERM INT HUP QUIT; touch deaf; while :; do sleep 0.1; done{program}",
        "daemon": f"(setsid sh -c 'touch daemon; sleep 600{program}' & ) ; sleep 600",
        "twice": f"(setsid sh -c \"(setsid sh -c 'touch twice; exec sleep 600{program}' &)\" &); sleep 600",
        "busy": f"touch busy; while :; do :; done{program}",
    }
    numbers = [client.begin("run_command", {"command": command, "timeout_ms": 300000})
               for command in commands.values()]
    names = ("stopping", "deaf", "daemon", "twice", "busy")
    assert procfs.eventually(lambda: all((path / name).exists() for name in names))
    assert procfs.eventually(lambda: any(
        procfs.status(pid).get("State", "?")[0] == "T" for pid in procfs.having(marker)))
    return numbers


def assert_gone(processes, marker, seconds):
    assert procfs.vanish(processes, seconds), [
        (pid, procfs.name(pid), procfs.status(pid).get("State"))
        for pid in processes if procfs.is_alive(pid)]
    assert not procfs.having(marker)


# The end of cloisterd


@pytest.mark.parametrize("stopped", [False, pytest.param(True, marks=pytest.mark.skipif(
    not AM_ROOT, reason="needs root to stop the workspace's processes"))])
def test_a_killed_cloisterd_leaves_nothing(own_daemon, marker, stopped):
    """When cloisterd is killed, all its processes end, even if the worker, the files process and the command inits are
    stopped."""
    client = own_daemon.connect()
    begin_all_kinds(client, own_daemon.new_workspace(client), marker)
    other = own_daemon.connect()
    own_daemon.new_workspace(other)
    processes = procfs.descendants(own_daemon.pid)
    assert len(processes) > 15
    if stopped:
        for worker, files in own_daemon.cells():
            for pid in (files, *procfs.children(worker), worker):
                procfs.stop(pid)
    own_daemon.process.kill()
    own_daemon.process.wait()
    assert_gone(processes, marker, procfs.SOON)
    with pytest.raises(OSError):
        own_daemon.connect()


def draining(start_daemon, account, area, time_text):
    return start_daemon(config=f"[cloister]\ndrain_time = {time_text}\n[tenant t]\nusers = {account.name}\nroots = {area.path}\n")


def test_sigterm_leaves_calls_the_time_to_drain(start_daemon, account, area):
    daemon = draining(start_daemon, account, area, "10min")
    client = daemon.connect()
    path = daemon.new_workspace(client)
    call = client.begin("run_command", {"command": "touch runs; while ! test -e go; do sleep 0.05; done; echo done",
                                        "timeout_ms": 300000})
    assert procfs.eventually((path / "runs").exists)
    daemon.process.terminate()
    assert procfs.eventually(lambda: "shutting down: 1 calls have 600 seconds to end" in daemon.log())
    assert client.fail("run_command", command="true")["code"] == "SHUTTING_DOWN"
    assert daemon.process.poll() is None
    (path / "go").touch()
    assert client.wait(call)["result"]["output"]["stdout"] == "done\n"
    assert daemon.process.wait(120) == 0


@pytest.mark.parametrize("how", ["by the bound", "by a second signal", "by an interrupt"])
def test_a_drain_ends(start_daemon, account, area, how):
    daemon = draining(start_daemon, account, area, "300ms" if how == "by the bound" else "10min")
    client = daemon.connect()
    path = daemon.new_workspace(client)
    call = client.begin("run_command", {"command": "touch runs; sleep 600", "timeout_ms": 300000})
    assert procfs.eventually((path / "runs").exists)
    if how != "by an interrupt":
        daemon.process.terminate()
        assert procfs.eventually(lambda: "seconds to end" in daemon.log())
    if how != "by the bound":
        daemon.process.send_signal(signal.SIGINT if how == "by an interrupt" else signal.SIGTERM)
    assert client.wait(call)["result"]["output"]["ended_by"] == "shutdown"
    assert daemon.process.wait(120) == 0


def test_an_idle_daemon_ends(own_daemon):
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    processes = procfs.descendants(own_daemon.pid)
    own_daemon.process.terminate()
    assert own_daemon.process.wait(120) == 0
    assert client.receive() is None
    assert not any(procfs.is_alive(pid) for pid in processes)


def test_a_daemon_starts_where_a_killed_one_was(area, own_daemon):
    client = own_daemon.connect()
    client.call("workspace.open", {"workspace": "kept"})
    client.use("write_file", path="f", content="x")
    own_daemon.process.kill()
    own_daemon.process.wait()
    words = ["cloisterd", "--agent-socket", str(own_daemon.socket), "--state-dir", str(own_daemon.state)]
    with area.start(words, stderr=subprocess.DEVNULL) as again:
        client = procfs.eventually(lambda: try_connecting(own_daemon))
        client.call("workspace.open", {"workspace": "kept"})
        assert client.use("read_file", {"line_numbers": False}, path="f")["content"] == "x"
        with area.start(words, stderr=subprocess.PIPE) as second:
            assert second.wait(120) != 0
        assert client.use("list_directory", path=".")["count"] == 1
        again.terminate()
        assert again.wait(120) == 0


def try_connecting(daemon):
    try:
        return daemon.connect()
    except OSError:
        return None


def test_a_killed_spawner_ends_the_service(own_daemon, marker):
    client = own_daemon.connect()
    calls = begin_all_kinds(client, own_daemon.new_workspace(client), marker)
    processes = procfs.descendants(own_daemon.pid)
    with acting_as(own_daemon.account.uid):
        os.kill(own_daemon.spawner(), signal.SIGKILL)
    for call in calls:
        assert client.wait(call)["result"]["error"]["code"] in ("WORKER_LOST", "SHUTTING_DOWN")
    own_daemon.process.wait(120)
    assert_gone(processes, marker, procfs.SOON)


def stays_gone(path):
    """A process in execve(2) has no command line for a moment, so the look is repeated."""
    for _ in range(5):
        if procfs.having(str(path)):
            return False
        time.sleep(0.02)
    return True


@pytest.mark.deep("busy")
@pytest.mark.parametrize("victim", ["cloisterd", "spawner"])
def test_a_cell_that_is_being_made_dies_with_its_maker(area, account, victim):
    """cloisterd or the spawner is killed at different moments while it makes cells, and none of their processes
    remain."""
    config = f"[cloister]\nspare_cells = 0\n[tenant t]\nusers = {account.name}\nmanaged = yes\n"
    for i in range(15 if is_sanitized() else 40):
        daemon = Daemon(area, config=config)
        client = daemon.connect()
        asked = [client.request("workspace.open", {"workspace": name}) for name in "abcd"]
        assert procfs.eventually(lambda: not client.unread(), interval=0)
        time.sleep(i % 20 * 0.0005)
        daemon.kill(daemon.pid if victim == "cloisterd" else daemon.spawner())
        if victim == "spawner":
            for number in asked:  # cloisterd had opened it, or refuses with a reason
                answer = client.wait(number)
                assert "result" in answer or answer["error"]["data"]["code"] in ("EXECUTION_ERROR", "SHUTTING_DOWN"), answer
        daemon.process.wait(120)
        assert procfs.eventually(lambda: stays_gone(daemon.path), 60), [
            (procfs.name(pid), procfs.status(pid), procfs.command_line(pid)) for pid in procfs.having(str(daemon.path))]
        daemon.stop()


def test_a_killed_private_client_takes_its_instance_along(area, marker):
    path = area.new_directory()
    with area.start(["cloister", "--private", "--workspace", str(path), "exec", "--",
                     f"touch begun; sleep 600; : {marker}"]) as client:
        assert procfs.eventually((path / "begun").exists)
        processes = procfs.descendants(client.pid)
        assert len(processes) >= 6
        client.kill()
    assert_gone(processes, marker, procfs.SOON)


# The end of a workspace


def two_workspaces(daemon):
    """Opens two workspaces. Returns (client, path, worker, files) of each."""
    made = []
    for _ in range(2):
        client = daemon.connect()
        path = daemon.new_workspace(client)
        made.append((client, path, *daemon.cell_of(path)))
    return made


def test_a_killed_worker_is_replaced(own_daemon, marker):
    (client, path, worker, _), (other, other_path, _, _) = two_workspaces(own_daemon)
    untouched = other.begin("run_command", {"command": "touch begun; while [ ! -e end ]; do sleep 0.05; done; echo well",
                                            "timeout_ms": 300000})
    lost = [client.begin("run_command", {"command": f"touch begun{i}; sleep 600; : {marker}", "timeout_ms": 300000})
            for i in range(3)]
    assert procfs.eventually(lambda: (other_path / "begun").exists() and all(
        (path / f"begun{i}").exists() for i in range(3)))
    own_daemon.kill(worker)
    for call in lost:
        observation = client.wait(call)["result"]
        assert observation["error"]["code"] == "WORKER_LOST"
        if observation["output"]:
            assert observation["output"]["ended_by"] == "worker_lost"
    assert_gone([worker], marker, procfs.SOON)
    assert client.run("echo again; ls begun0")["stdout"] == "again\nbegun0\n"
    assert client.use("list_directory", path=".")["count"] == 3
    (other_path / "end").touch()
    assert other.wait(untouched)["result"]["output"]["stdout"] == "well\n"
    assert len(own_daemon.cells()) == 2


def test_a_killed_files_process_is_replaced(own_daemon):
    (client, path, worker, files), (other, other_path, _, _) = two_workspaces(own_daemon)
    with acting_as(own_daemon.account.uid):
        for directory in (path, other_path):
            (directory / "0").write_bytes(b"some line of text\n" * 3000000)
            for i in range(1, 200):
                os.link(directory / "0", directory / str(i))
    client.use("list_directory", path=".", pattern="none")  # answered after the sweep, which is a job too, has begun
    assert procfs.eventually(lambda: not procfs.children(files))
    lost = client.begin("search_files", {"pattern": "t[a-z]+ of (?!text)"})
    untouched = other.begin("search_files", {"pattern": "t[a-z]+ of (?!text)"}, {"timeout_ms": 300000})
    command = client.begin("run_command", {"command": "while [ ! -e end ]; do sleep 0.05; done; echo went on",
                                           "timeout_ms": 300000})
    (job,) = procfs.eventually(lambda: procfs.children(files))
    own_daemon.kill(files)
    assert client.wait(lost)["result"]["error"]["code"] == "WORKER_LOST"
    assert procfs.vanish([files, job])
    assert client.use("list_directory", path=".")["count"] == 200
    client.use("write_file", path="end", content="")
    assert client.wait(command)["result"]["output"]["stdout"] == "went on\n"
    workers, files_processes = map(set, zip(*own_daemon.cells()))
    assert worker in workers and files not in files_processes
    if AM_ROOT:
        assert len(workers) == len(files_processes) == 2
        for kind in ("user", "net", "ipc", "uts"):
            assert procfs.namespace(worker, kind) in [
                procfs.namespace(pid, kind) for pid in files_processes]
    assert other.cancel(untouched)
    assert other.wait(untouched)["result"]["error"]["code"] == "CANCELLED"


@pytest.mark.deep("slow")
@pytest.mark.skipif(not AM_ROOT, reason="needs root to stop a process that is pid 1 of its namespace")
def test_a_files_process_that_does_not_answer_costs_no_command(own_daemon):
    client = own_daemon.connect()
    path = own_daemon.new_workspace(client)
    worker, files = own_daemon.cell_of(path)
    command = client.begin("run_command", {"command": "while [ ! -e end ]; do sleep 0.05; done; echo went on",
                                           "timeout_ms": 300000})
    procfs.stop(files)
    call = client.begin("list_directory", {"path": "."}, {"timeout_ms": 200})
    waiting = client.begin("list_directory", {"path": "."})
    assert client.wait(call)["result"]["error"]["code"] == "WORKER_LOST"
    assert not procfs.is_alive(files)
    assert client.wait(waiting)["result"]["error"]["code"] == "WORKER_LOST"
    assert client.use("list_directory", path=".")["count"] == 0
    (path / "end").touch()
    assert client.wait(command)["result"]["output"]["stdout"] == "went on\n"
    assert own_daemon.cell_of(path)[0] == worker
    status = json.loads(own_daemon.ctl("--json", "status").stdout)
    assert (status["files_processes_lost"], status["cells_lost"]) == (1, 0)


@pytest.mark.deep("slow")
def test_a_command_that_uses_its_grace_costs_no_other(own_daemon):
    """cloisterd does not take a worker that reads its requests for a stopped one, though more requests come all the time."""
    client = own_daemon.connect()
    path = own_daemon.new_workspace(client)
    worker, _ = own_daemon.cell_of(path)
    other = client.begin("run_command", {"command": "while [ ! -e end ]; do sleep 0.05; done; echo whole",
                                         "timeout_ms": 300000})
    number = client.begin("run_command", {"command": "trap '' TERM; while :; do sleep 1; done", "timeout_ms": 1000})
    answered = []
    while not answered:
        assert client.run("true")["exit_code"] == 0
        answered = [answer for answer in client.answers if answer["id"] == number]
    assert answered[0]["result"]["error"]["code"] == "TIMEOUT"
    (path / "end").touch()
    assert client.result(other)["output"]["stdout"] == "whole\n"
    assert procfs.is_alive(worker)


# Pauses of a workspace


def idle_config(account, time_text):
    return (f"[cloister]\nworkspace_idle_time = {time_text}\nspare_cells = 0\n"
            f"[tenant t]\nusers = {account.name}\nmanaged = yes\n")


def test_an_idle_workspace_has_no_processes_and_gets_them_back(start_daemon, account):
    daemon = start_daemon(config=idle_config(account, "300ms"))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    for i in range(3):
        assert client.run(f"echo {i} > /tmp/kept; cat last 2>/dev/null; echo {i} > last; ls /tmp")["stdout"].endswith("kept\n")
        client.use("write_file", path="last", content=f"{i}")
        assert procfs.eventually(lambda: not procfs.children(daemon.spawner()))
        # cloisterd may not have noticed it yet.
        assert procfs.eventually(lambda: [(listed["workspace"], listed["open"]) for listed in client.call("workspace.list")[
            "workspaces"]] == [("w", False)])
        assert client.use("read_file", {"line_numbers": False}, path="last")["content"] == f"{i}"
    assert client.run("ls /tmp")["stdout"] == "kept\n"
    # A workspace with a running command is not idle.
    assert client.run("sleep 1; echo well")["stdout"] == "well\n"


def test_a_workspace_with_a_session_is_not_idle(start_daemon, account):
    """Two are left alone: the one without a session has ended twice before the other one is looked at."""
    daemon = start_daemon(config=idle_config(account, "300ms"))
    client = daemon.connect()
    for name in ("with", "without"):  # the last one is the default
        client.call("workspace.open", {"workspace": name})
    session = client.call("session.start", {"workspace": "with", "command": "echo $$; exec sleep 600"})["session"]

    def is_open(name):
        return next(entry["open"] for entry in client.call("workspace.list")["workspaces"] if entry["workspace"] == name)
    for _ in range(2):
        assert client.run("true")["exit_code"] == 0
        assert procfs.eventually(lambda: not is_open("without"))
    assert is_open("with")
    assert client.call("session.read", {"session": session})["state"] == "running"
    client.call("session.end", {"session": session, "grace_ms": 0})
    assert procfs.eventually(lambda: not is_open("with"))


# A spawner that hangs


SPAWNER_SILENT = 20  # seconds: LIMIT_SPAWNER_SILENT_MS


@pytest.mark.deep("busy")
def test_a_spawner_that_hangs_is_one_that_died(start_daemon, marker):
    """cloisterd replaces a hung spawner, but not one that was frozen together with cloisterd."""
    hung, frozen = start_daemon(), start_daemon()
    client, other = hung.connect(), frozen.connect()
    begin_all_kinds(client, hung.new_workspace(client), marker)
    frozen.new_workspace(other)
    spawner, processes = frozen.spawner(), procfs.descendants(hung.pid)
    procfs.stop(spawner)
    path = frozen.area.new_directory()
    if frozen.system:
        frozen.account.give_away(path)
    late = other.request("workspace.open", {"root": str(path)})
    assert other.call("tools.list")  # acted on after it
    procfs.stop(frozen.pid)
    procfs.stop(hung.spawner())
    try:
        with pytest.raises(RpcError) as caught:
            hung.connect().call("workspace.open", {"workspace": "hung"}, timeout=SPAWNER_SILENT + 40)
        assert caught.value.name in ("EXECUTION_ERROR", "SHUTTING_DOWN"), caught.value
        assert hung.process.wait(40) == 1
        assert f"cloister-spawner, which has not answered for {SPAWNER_SILENT} seconds" in hung.log()
        assert_gone(processes, marker, 20)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    assert other.call("tools.list")
    time.sleep(2)  # a cloisterd that counted its own frozen time would kill the spawner here
    os.kill(spawner, signal.SIGCONT)
    assert "result" in other.wait(late)
    assert frozen.process.poll() is None


def test_a_cell_that_comes_too_late_is_discarded(own_daemon):
    """The spawner delivers a cell after the client that wanted it has left. The next client gets a new cell."""
    leaving, client = own_daemon.connect(), own_daemon.connect()
    path = own_daemon.new_workspace(leaving)
    before = own_daemon.settled_fds()
    worker, files = own_daemon.cell_of(path)
    own_daemon.kill(worker)
    assert procfs.vanish([worker, files])
    procfs.stop(own_daemon.spawner())
    try:
        assert leaving.observe("run_command", {"command": "touch late", "timeout_ms": 100})["error"]["code"] == "TIMEOUT"
        assert client.call("workspace.list")["workspaces"]
        leaving.close()
        assert procfs.eventually(lambda: not client.call("workspace.list")["workspaces"])
        opening = client.request("workspace.open", {"root": str(path)})
        assert client.call("tools.list")  # acted on after it
    finally:
        os.kill(own_daemon.spawner(), signal.SIGCONT)
    assert "result" in client.wait(opening)
    assert client.run("touch mine; ls")["stdout"] == "mine\n"
    assert procfs.eventually(lambda: len([pid for pid in procfs.children(own_daemon.spawner())
                                          if procfs.name(pid) != "cloister-spare"]) == 2, 20)
    assert path.stat().st_uid == (path / "mine").stat().st_uid
    assert procfs.eventually(lambda: own_daemon.settled_fds() < before)  # the first client's descriptor is closed


@pytest.mark.deep("slow")
def test_a_client_that_leaves_takes_its_commands_along(own_daemon, marker):
    client = own_daemon.connect()
    begin_all_kinds(client, own_daemon.new_workspace(client), marker)
    processes = procfs.descendants(own_daemon.spawner(), without_path_resolvers=True)
    client.close()
    assert_gone(processes, marker, 40)
    assert procfs.eventually(lambda: not own_daemon.cells())


def test_a_workspace_closes_with_its_last_user(own_daemon):
    first, second = own_daemon.connect(), own_daemon.connect()
    path = own_daemon.new_workspace(first)
    second.call("workspace.open", {"root": str(path)})
    worker, files = own_daemon.cell_of(path)
    first.close()
    assert second.run("echo well")["stdout"] == "well\n"
    assert own_daemon.cells() == [(worker, files)]
    second.call("workspace.close")
    assert procfs.vanish([worker, files])
    assert procfs.eventually(lambda: not procfs.children(own_daemon.spawner()))


# The end of a command


@pytest.mark.parametrize("command", [
    "(sleep 600; : MARKER) & sleep 0.1",
    "(setsid sh -c 'exec 1>&- 2>&-; sleep 600; : MARKER' &); sleep 0.2",
    "sh -c 'kill -STOP $$; : MARKER' & sleep 0.2",
    "nohup sh -c 'while :; do sleep 0.1; done; : MARKER' > /dev/null 2>&1 & sleep 0.2",
    "(sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done; : MARKER' &); sleep 0.2",
    "for i in $(seq 50); do sh -c 'sleep 600; : MARKER' & done; sleep 0.2",
    "sh -c 'sleep 600; : MARKER' & kill -9 $$", "sh -c 'sleep 600; : MARKER' & kill -9 -1"])
def test_nothing_of_a_command_is_alive_at_its_answer(client, workspace, marker, command):
    output = client.run(command.replace("MARKER", marker))
    assert not procfs.having(marker)
    assert output["ended_by"] in ("exit", "signal")


@pytest.mark.deep("slow")
def test_nothing_is_alive_at_a_late_answer(client, workspace, marker):
    observation = client.observe("run_command", {
        "command": f"(setsid sh -c \"trap '' TERM; while :; do sleep 0.1; done; : {marker}\" &); "
                   f"trap '' TERM; while :; do sleep 0.1; done; : {marker}", "timeout_ms": 500})
    assert not procfs.having(marker)
    assert observation["output"]["ended_by"] == "timeout"


def test_what_a_dead_write_left_goes_at_the_next_opening(daemon, client):
    path = daemon.area.new_directory()
    with acting_as(daemon.account.uid, daemon.account.gid):
        (path / ".cloister-0000000000000007").write_text("half")
        (path / ".cloisterrc").write_text("kept")
    client.call("workspace.open", {"root": str(path)})
    assert client.use("list_directory", path=".")["count"] == 1
    # The sweep removes such files in the background, at idle priority.
    assert procfs.eventually(lambda: os.listdir(path) == [".cloisterrc"], 60), os.listdir(path)


def test_what_a_living_write_has_stays(daemon, client):
    path = daemon.area.new_directory()
    temporary = path / ".cloister-00000000deadbeef"
    gone = path / ".cloister-00000000deadbee0"
    with acting_as(daemon.account.uid, daemon.account.gid):
        gone.write_text("half")
        with open(temporary, "w"):
            client.call("workspace.open", {"root": str(path)})
            _, files = daemon.cell_of(path)
            assert procfs.eventually(lambda: not gone.exists() and not procfs.children(files), 60)
            assert temporary.exists()


# Long runs


def in_shm(account):
    found = []
    for entry in os.scandir("/dev/shm"):
        with contextlib.suppress(FileNotFoundError):  # another test has removed its file
            if entry.stat().st_uid == account.uid:
                found.append(entry.name)
    return sorted(found)


def leftovers(daemon):
    """Returns what a workspace left behind on the host, once that does not change any more."""
    area = daemon.area.path
    return {
        "mounts": sorted(line.split(" - ")[0].split(" ", 2)[2] for line in procfs.mounts_below(area)),
        "files": sorted(os.path.join(directory, name) for directory, _, names in os.walk(area)
                        for name in names),
        "shm": in_shm(daemon.account),
        "processes": procfs.descendants(daemon.pid),
        "fds": [daemon.settled_fds(pid) for pid in (daemon.pid, daemon.spawner())] if AM_ROOT else None,
    }


def open_and_close(client, paths, count):
    for i in range(count):
        if i % 3:
            client.call("workspace.open", {"root": str(paths[i % len(paths)])})
        else:
            client.call("workspace.open", {"workspace": f"soak-{i % 7}"})
        if i % 5 == 0:
            assert client.run("echo $$")["exit_code"] == 0
        client.call("workspace.close")


def make_calls(client, count):
    """Keeps ten calls in flight, of every kind."""
    kinds = [
        ("read_file", {"path": "kept"}, None),
        ("write_file", {"path": "written", "content": "x" * 5000}, None),
        ("list_directory", {"path": ".", "recursive": True}, None),
        ("search_files", {"pattern": "kept"}, None),
        ("run_command", {"command": "echo out; echo err >&2"}, {"stdin": "x", "env": {"A": "b"}}),
        ("read_file", {"path": "absent"}, None), ("run_command", {"command": "sudo true"}, None)]
    in_flight = []
    for i in range(count + 10):
        if i < count:
            tool, arguments, options = kinds[i % len(kinds)]
            in_flight.append((client.begin(tool, arguments, options), i % len(kinds)))
        if i >= 10:
            number, kind = in_flight.pop(0)
            assert client.wait(number)["result"]["success"] is (kind < 5)
        client.answers.sort(key=lambda answer: answer["id"])


def test_two_private_instances_share_a_directory(area):
    """Several agents in one checkout are ordinary: no instance waits for another one."""
    place = area.new_directory()
    words = ["cloister", "--private", "--workspace", str(place), "exec", "--"]
    waits = "echo one >new1; mv new1 one; until [ -e two ]; do sleep 0.05; done; cat two"
    with area.start([*words, "sh", "-c", waits], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as first:
        try:
            assert procfs.eventually((place / "one").exists, 60)
            second = area.run(*words, "sh", "-c", "cat one; echo two >new2; mv new2 two")
            assert (second.returncode, second.stdout) == (0, b"one\n"), second
            assert first.communicate(timeout=60)[0] == b"two\n" and first.returncode == 0
        finally:
            first.kill()


@pytest.fixture
def lone_daemon(account):
    """A cloisterd in an area of its own: what appears there is its."""
    area = Area(account)
    running = Daemon(area)
    yield running
    running.stop()
    area.remove()


@pytest.mark.deep("slow")
def test_nothing_is_left_and_memory_is_flat_after_much_work(lone_daemon):
    opens, calls = (1000, 10000) if SOAK == "full" else (100, 1000)
    client = lone_daemon.connect()
    paths = [lone_daemon.area.new_directory() for _ in range(10)]
    for path in paths:
        with acting_as(lone_daemon.account.uid, lone_daemon.account.gid):
            (path / "kept").write_text("kept\n")
            (path / "written").touch()

    def work(opens, calls):
        open_and_close(client, paths, opens)
        client.call("workspace.open", {"root": str(paths[0])})
        make_calls(client, calls)
        client.call("workspace.close")
        assert procfs.eventually(lambda: not procfs.children(lone_daemon.spawner()))

    work(opens // 5, calls // 5)
    before = leftovers(lone_daemon)
    rss = [procfs.rss_kib(lone_daemon.pid), procfs.rss_kib(lone_daemon.spawner())]
    work(opens, calls)
    assert leftovers(lone_daemon) == before
    grown = [procfs.rss_kib(lone_daemon.pid) - rss[0], procfs.rss_kib(lone_daemon.spawner()) - rss[1]]
    # AddressSanitizer keeps what is freed in a quarantine, to notice a later use.
    assert max(grown) < (16384 if is_sanitized() else 4096), f"KiB that cloisterd and the spawner grew by: {grown}"
    assert client.call("tools.list")
    client.socket.shutdown(socket.SHUT_RDWR)
