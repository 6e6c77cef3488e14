# SPDX-License-Identifier: Apache-2.0
"""What a file system, or much work, may keep for long does not keep a new cloisterd from taking over: look-ups,
openings of directories, and copies for templates and forks, which the old daemon brings to their end."""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import SYSTEM, system_config
from generations import ask, ended, error_of, generations_fixture, opened, replace_program, status, talk
from killer import Holder
from silent_fs import FuseMount
from test_templates import fork, freeze, templates

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")
needs_fuse = pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs /dev/fuse")


@pytest.fixture(name="pair")
def pair_fixture(start_daemon, area):
    """Returns a function that starts a daemon, in the mode of this run, or one that takes over from @former."""
    def start(former=None, **keywords):
        if SYSTEM:
            config = system_config(area, f"admin_group = {area.account.gid}")
            return start_daemon(config=config, system=True, former=former, **keywords)
        config = (f"[cloister]\nadmin_group = {area.account.gid}\n[tenant t]\nusers = {area.account.uid}\nmanaged = yes\n"
                  f"roots = {area.path}\n")
        return start_daemon(config=config, former=former, **keywords)
    return start


@contextlib.contextmanager
def held(daemon, client, method, params):
    """Makes a request, and holds the copier that it starts, when that has copied a file. The value is the request's id."""
    copier = Holder(daemon.spawner(), "cloister-copy", "futimens")
    asked = client.request(method, params)
    pid = copier.held()
    try:
        yield asked
    finally:
        with acting_as(os.getuid()), contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


MANY = "mkdir d; touch d/{1..100}; "


def stays(old_daemon, new_daemon, idle):
    """Waits until the new daemon knows of the old daemon's copy, and until that has looked often whether it can end: it has
    closed the connection @idle, on which there is nothing to do."""
    assert procfs.eventually(lambda: status(new_daemon)["old_daemon"]["copies"] == 1)
    while idle.receive():
        pass
    assert old_daemon.process.poll() is None


def test_a_template_is_finished_by_the_old_daemon(pair):
    """The workspace stays with it until then, and no template is removed; all is the new daemon's after that."""
    first = pair()
    client = opened(first, name="w")
    client.run(MANY + "echo one >f")
    idle = first.connect()
    with held(first, client, "workspace.freeze", {"template": "t"}) as asked:
        second = pair(former=first)
        stays(first, second, idle)
        with second.connect() as newcomer:
            assert error_of(newcomer, "workspace.open", {"workspace": "w"})["data"]["code"] == "BUSY"
        said = second.ctl("template", "remove", "t")
        assert said.returncode != 0 and b"before the service was replaced" in said.stderr, said
    assert client.result(asked) == {"workspace": "w", "template": "t", "replaced": False}
    assert ended(first) == 0 and procfs.eventually(lambda: "old_daemon" not in status(second))
    assert templates(second) == {"t": 0} and not second.unfinished()
    with opened(second, name="w") as newcomer:
        with opened(second, name=fork(newcomer, "t")[0]) as one:
            assert one.run("cat f")["stdout"] == "one\n"
    if SYSTEM:
        assert second.ctl("template", "remove", "t").returncode == 0


@pytest.mark.deep("slow")
def test_a_killed_old_daemon_leaves_no_half_of_a_template(pair):
    first = pair()
    client = opened(first, name="w")
    client.run(MANY + "echo one >f")
    idle = first.connect()
    with held(first, client, "workspace.freeze", {"template": "t"}):
        second = pair(former=first)
        stays(first, second, idle)
        assert second.unfinished()
        first.process.kill()
        first.process.wait()
        assert procfs.eventually(lambda: "old_daemon" not in status(second))
    assert procfs.eventually(lambda: not second.unfinished())
    with opened(second, name="w") as newcomer:
        freeze(newcomer, "t")
        assert templates(second) == {"t": 0}


def test_a_copy_of_the_new_daemon_one_outlives_the_old_daemon(pair):
    """What the old daemon has left is cleared at its end, and that is none of it."""
    first = pair()
    client = opened(first, name="busy")
    begun = client.request("tool.call", {"tool": "run_command", "arguments": {"command": "until [ -e go ]; do sleep 0.1; done"}})
    assert procfs.eventually(lambda: status(first)["commands_running"] == 1)
    second = pair(former=first)
    with opened(second, name="w") as newcomer:
        newcomer.run(MANY + "echo one >d/f; echo two >g")
        with held(second, newcomer, "workspace.freeze", {"template": "t"}) as asked:
            client.use("write_file", path="go", content="")
            assert client.result(begun)["success"]
            assert ended(first) == 0
            assert procfs.eventually(lambda: "old_daemon" not in status(second))
            # The spawner has looked for what is left, and nothing is being cleared any more.
            assert procfs.eventually(lambda: not [
                pid for pid in procfs.children(second.spawner()) if procfs.name(pid) == "cloister-sweep"])
            assert len(second.unfinished()) == 1
        newcomer.result(asked)
        with opened(second, name=fork(newcomer, "t")[0]) as one:
            assert one.run("cat d/f g")["stdout"] == "one\ntwo\n"


@pytest.mark.skipif(not SYSTEM, reason="forks are copied in system mode only")
def test_a_fork_is_finished_by_the_old_daemon(pair):
    """It has its id from its beginning. Of several, those that have not begun would get one beside the new daemon."""
    first = pair()
    client = opened(first, name="w")
    client.run(MANY + "echo one >f")
    freeze(client, "t")
    with held(first, client, "workspace.fork", {"from": "t", "prefix": "one"}):
        other = first.connect()
        assert len(first.unfinished()) == 1
        with held(first, other, "workspace.fork", {"from": "t", "prefix": "three", "count": 3}) as three:
            second = pair(former=first)
            assert procfs.eventually(lambda: status(second)["old_daemon"]["copies"] == 2)
            made = [opened(second, name=f"young-{i}") for i in range(3)]
        with pytest.raises(RpcError) as caught:
            other.result(three)
        assert caught.value.name == "BUSY" and "connect again" in str(caught.value)
        # The first fork is made, though its client has left.
        client.close()
        stays(first, second, other)
    assert ended(first) == 0 and procfs.eventually(lambda: "old_daemon" not in status(second))
    assert procfs.eventually(lambda: not second.unfinished())
    with opened(second, name="one-1") as newcomer:
        assert newcomer.run("cat f")["stdout"] == "one\n"
    with acting_as(os.getuid()):
        owners = [path.stat().st_uid for path in first.state.glob("workspaces/*/*") if path.is_dir()]
    assert len(owners) == len(made) + 2 and len(set(owners)) == len(owners), owners


@needs_fuse
def test_file_systems_that_hang(generations, area):
    """A look-up, the opening of a directory and an import, each of a file system that does not answer."""
    mounts, places = [], []
    for _ in range(3):
        places.append(area.new_directory())
        mounts.append(FuseMount(places[-1], area.account.uid))
    try:
        first = generations()
        with opened(first, places[1] / "ws") as client:  # found later without a question
            client.call("workspace.close")
        clients = [first.connect() for _ in range(2)]
        control = first.control()
        for mount in mounts:
            mount.silence()
        asked = [client.request("workspace.open", {"root": str(place / "ws")}) for client, place in zip(clients, places)]
        imports = control.request("template.import", {"template": "t", "tenant": "t", "path": str(places[2] / "ws")})
        assert procfs.eventually(lambda: all(mount.count() > 0 for mount in mounts))
        second = generations(former=first)
        with opened(second, area.new_directory()) as newcomer:
            assert newcomer.run("echo new")["stdout"] == "new\n"
        for mount in mounts:
            mount.answer()
        for client, number in zip(clients, asked):
            assert client.wait(number)["error"]["data"]["code"] in ("BUSY", "TIMEOUT")
        control.wait(imports)
        assert ended(first) == 0
    finally:
        for mount in mounts:
            mount.end()


def test_a_spawner_that_is_late(generations, area):
    """The same without a file system: whatever the spawner was asked for, it may take its time."""
    first = generations()
    client, other = first.connect(), first.connect()
    with acting_as(os.getuid()):
        os.kill(first.spawner(), signal.SIGSTOP)
    try:
        asked = [each.request("workspace.open", {"root": str(area.new_directory())}) for each in (client, other)]
        assert procfs.eventually(lambda: status(first)["connections"] >= 2)
        second = generations(former=first)
    finally:
        with acting_as(os.getuid()):
            os.kill(first.spawner(), signal.SIGCONT)
    for each, number in zip((client, other), asked):
        refused = each.wait(number)["error"]
        assert refused["data"]["code"] == "BUSY" and "connect again" in refused["message"]
    assert ended(first) == 0 and second.process.poll() is None


def test_no_self_test_begins_beside_a_new_daemon(generations):
    """Neither by itself nor when an administrator asks while the place is given away."""
    first = generations(host="selftest = off")
    with first.control() as control:
        with talk(first) as link:
            ask(link)
            refused = control.wait(control.request("selftest"))["error"]
            assert refused["data"]["code"] == "BUSY" and "takes over" in refused["message"]
        assert procfs.eventually(lambda: "does not take over" in first.log())
        assert control.call("selftest", timeout=120)["result"] == "passed"


def test_a_reload_that_is_killed_leaves_nothing(generations, area):
    """A service manager kills what it started when a reload takes too long. What that has started may wait for anything."""
    first = generations()
    replace_program(area)
    first.process.send_signal(signal.SIGSTOP)
    try:
        with acting_as(os.getuid()), open(first.path / "killed.log", "wb") as log:
            command = area.start(["cloisterd", "--agent-socket", str(first.socket), "--control-socket", str(first.control_socket),
                                  "--state-dir", str(first.state), "--config", str(first.config), "--take-over", "--if-replaced",
                                  "--detach"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            mark = f"--state-dir {first.state} "

            def new_daemon():
                return [pid for pid in procfs.pids() if mark in procfs.command_line(pid) and procfs.is_alive(pid)
                        and pid not in (first.pid, command.pid)]

            def waits():
                return [pid for pid in new_daemon() if b"poll" in pathlib.Path(f"/proc/{pid}/wchan").read_bytes()]

            assert procfs.eventually(waits), new_daemon()
            command.kill()
            command.wait()
            assert procfs.eventually(lambda: not new_daemon()), new_daemon()
        # By itself it would have waited for the old daemon's answer for 30 seconds, and said so.
        assert (first.path / "killed.log").read_text() == ""
    finally:
        first.process.send_signal(signal.SIGCONT)
    with opened(first, area.new_directory()) as client:
        assert client.run("echo serves")["stdout"] == "serves\n"
    assert status(generations(former=first))


@pytest.mark.deep("slow")  # the old daemon waits for fifteen seconds before it has the last word
def test_checkpoints_that_wait_do_not_refuse_a_take_over(pair):
    """Each waits for a command that goes on, and is asked for again as soon as it is answered; and so is a removal."""
    first = pair()
    asks = {"one": ("workspace.checkpoint", {}), "two": ("workspace.checkpoint", {}), "three": ("workspace.remove", {"workspace": "three"})}
    clients = [opened(first, name=name) for name in asks]
    begun = [client.begin("run_command", {"command": "sleep 600"}, {"timeout_ms": 600000}) for client in clients]
    assert procfs.eventually(lambda: status(first)["commands_running"] == len(begun))
    stop, answers = threading.Event(), []

    def ask_again(client, method, params):
        while not stop.is_set():
            with contextlib.suppress(ConnectionError, EOFError, AssertionError):
                answers.append(error_of(client, method, params)["data"]["code"])
    threads = [threading.Thread(target=ask_again, args=(client, *ask)) for client, ask in zip(clients, asks.values())]
    for thread in threads:
        thread.start()
        time.sleep(3)  # so that they are never answered at the same time
    try:
        second = pair(former=first)
        assert status(second)["old_daemon"]["pid"] == first.pid
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert answers and set(answers) == {"BUSY"}
