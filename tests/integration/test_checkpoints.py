# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of managed workspaces: what they keep, what a rollback gives back, what is refused, and what is left."""

import contextlib
import os
import random
import signal

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import Daemon, is_sanitized
from killer import Holder, Killer
from layers import (checkpoint, client_fixture, in_state, mounters, kill_all, listed, opened, refused, roll_back,
                    tree)

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")


DROPPED = 64  # LIMIT_LAYERS_DROPPED

client = client_fixture()


def test_a_rollback_gives_back_what_a_shell_destroyed(client):
    client.run("mkdir -p .git/objects src; printf one > src/a; printf tool > run; chmod 750 run; ln -s src/a link; "
               "ln run hard; printf object > .git/objects/x; chmod 400 .git/objects/x; touch -d 2001-01-01 src/a")
    before = tree(client)
    assert listed(client) == []
    assert checkpoint(client, "before/all 100%") == 1
    assert tree(client) == before
    client.run("chmod -R u+w .git; rm -rf .git src; printf two > run; mkdir src; printf new > src/b; chmod 700 .")
    assert checkpoint(client) == 2
    second = tree(client)
    assert second != before and listed(client) == [(1, "before/all 100%"), (2, "")]
    client.run("rm -rf *")
    assert roll_back(client, 2) == 2
    assert tree(client) == second
    assert roll_back(client, 1) == 1
    assert tree(client) == before
    assert listed(client) == [(1, "before/all 100%")]
    # The checkpoint is still there, and can be gone back to again.
    client.use("write_file", path="src/a", content="again")
    roll_back(client, 1)
    assert tree(client) == before
    (row,) = client.call("workspace.checkpoints", {})["checkpoints"]
    assert row["created"].startswith("20") and row["created"].endswith("Z")


def change(client, rng):
    name = rng.choice("abcdef")
    other = rng.choice("abcdef")
    client.run(rng.choice([
        f"mkdir -p {name}; echo {rng.random()} > {name}/{other}",
        f"rm -rf {name}",
        f"echo {rng.random()} >> {name}.txt",
        f"ln -sfn {other} {name}.link",
        f"mv {name}.txt {other}.moved",
        f"chmod {rng.choice(['600', '755', '000'])} {name}.txt",
        f"rm -rf {name}; echo file > {name}",
        f"cp -r {name} {other}/ && chmod 500 {other}",
        f"ln {name}.txt {other}.hard",
        f"truncate -s {rng.randrange(10**6)} {name}.txt",
    ]) + "; true")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep("repeats")) for seed in (1, 2))])
def test_random_changes_against_what_was_seen_at_each_checkpoint(client, seed):
    rng, seen = random.Random(seed), {}
    client.run("umask 022")
    for _ in range(12):
        for _ in range(rng.randrange(1, 5)):
            change(client, rng)
        client.run("chmod -R u+rwX . 2>/dev/null; true")
        if rng.random() < 0.6 or not seen:
            now = tree(client)
            seen[checkpoint(client)] = now
            assert tree(client) == now
        else:
            to = rng.choice(list(seen))
            roll_back(client, to)
            assert tree(client) == seen[to]
            seen = {number: then for number, then in seen.items() if number <= to}
        assert [number for number, _ in listed(client)] == list(seen)


def test_a_plain_workspace_has_no_layers_and_no_mounter(own_daemon):
    client = opened(own_daemon, "plain")
    client.run("echo x > file")
    assert mounters(own_daemon) == [] and in_state(own_daemon, ".layers-*") == []
    checkpoint(client)
    assert len(mounters(own_daemon)) == 1
    client.call("workspace.close", {})
    assert procfs.eventually(lambda: mounters(own_daemon) == [])
    client.call("workspace.open", {"workspace": "plain"})
    assert client.use("read_file", path="file", options={"line_numbers": False})["content"] == "x\n"
    assert len(mounters(own_daemon)) == 1


def test_what_the_kernel_counts_of_it_is_told(start_daemon, area):
    daemon = start_daemon(config=f"[cloister]\nadmin_group = {area.account.gid}\nspare_cells = 0\n"
                                 f"[tenant t]\nusers = {area.account.name}\nmanaged = yes\n", system=False)
    with daemon.control() as control:
        told = {row["budget"]: row["of_each"] for row in control.call("status")["shared_budgets"]}
    client = opened(daemon, "w")
    checkpoint(client)
    running = client.begin("run_command", {"command": "sleep 600", "timeout_ms": 700000})

    def counted():
        """The cell's processes, and the namespaces that they have and the spawner does not."""
        kinds, seen = ("user", "mnt", "pid"), []
        with acting_as(os.getuid()):
            for pid in (daemon.spawner(), *procfs.descendants(daemon.spawner())):
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    seen.append(tuple(os.readlink(f"/proc/{pid}/ns/{kind}") for kind in kinds))
        ours, *theirs = seen
        theirs = [spaces for spaces in theirs if spaces[0] != ours[0]]
        return len(theirs), *(len({spaces[i] for spaces in theirs} - {ours[i]}) for i in range(len(kinds)))

    # An init that waits for the next command is not always there.
    most = tuple(told[name] for name in ("processes", "user_namespaces", "mount_namespaces", "pid_namespaces"))
    most = (most[0], most[1] - 2, most[2] - 1, most[3])  # no process is in those of a private tmpfs that goes on
    least = (most[0] - 1, most[1], most[2] - 1, most[3] - 1)
    assert procfs.eventually(lambda: counted() in (least, most)), (counted(), most)
    client.cancel(running)


def test_a_checkpoint_waits_for_calls_and_others_wait_for_it(client):
    client.run("echo 1 > file")
    running = client.begin("run_command", {"command": "sleep 1; echo 2 > file"})
    assert procfs.eventually(lambda: client.call("workspace.list", {}))
    asked = client.request("workspace.checkpoint", {})
    later = client.begin("run_command", {"command": "cat file; echo 3 > file"})
    assert client.result(running)["success"]
    assert client.result(asked)["checkpoint"] == 1
    assert client.result(later)["output"]["stdout"] == "2\n"
    roll_back(client, 1)
    assert client.run("cat file")["stdout"] == "2\n"


@pytest.mark.deep("slow")
def test_a_call_that_goes_on_makes_it_busy_and_nothing_has_changed(client):
    running = client.begin("run_command", {"command": "echo x > file; sleep 600", "timeout_ms": 700000})
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "file"})["success"])
    assert "Calls are running" in refused(client, "workspace.checkpoint", {}, "BUSY")
    assert listed(client) == []
    client.cancel(running)
    assert not client.result(running)["success"]
    assert checkpoint(client) == 1


@pytest.mark.deep("slow")
def test_a_rollback_that_was_given_up_changes_nothing_later(start_daemon):
    """Its layer lies on another one than that of the next checkpoint, which has the same number."""
    daemon = start_daemon()
    client = opened(daemon, "w")
    for number in (1, 2, 3):
        client.use("write_file", path="file", content=f"{number}\n")
        checkpoint(client)
    running = client.begin("run_command", {"command": "echo x > begun; sleep 600", "timeout_ms": 700000})
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "begun"})["success"])
    refused(client, "workspace.rollback", {"to": 1}, "BUSY")
    client.cancel(running)
    assert not client.result(running)["success"]
    client.use("write_file", path="file", content="4\n")
    assert checkpoint(client) == 4
    client.use("write_file", path="file", content="5\n")
    before = tree(client)
    kill_all(daemon)
    client = opened(start_daemon(state=daemon.state), "w")
    assert tree(client) == before
    assert [number for number, _ in listed(client)] == [1, 2, 3, 4]
    roll_back(client, 4)
    assert client.run("cat file")["stdout"] == "4\n"


def test_sessions_make_it_busy_and_are_named(client):
    session = client.call("session.start", {"command": "sleep 600"})["session"]
    assert session in refused(client, "workspace.checkpoint", {}, "BUSY")
    client.call("session.end", {"session": session})
    assert procfs.eventually(
        lambda: client.call("session.read", {"session": session, "wait_ms": 100}).get("state") == "ended")
    assert checkpoint(client) == 1
    session = client.call("session.start", {"command": "sleep 600"})["session"]
    assert session in refused(client, "workspace.rollback", {"to": 1}, "BUSY")
    client.call("session.end", {"session": session})


def test_administrators_see_how_many_there_are(own_daemon):
    client = opened(own_daemon, "w")
    for count in range(3):
        with own_daemon.control() as control:
            (row,) = control.call("workspaces")["workspaces"]
        assert row["checkpoints"] == count
        checkpoint(client)
    said = own_daemon.ctl("workspaces").stdout.decode().splitlines()
    assert said[1].split()[said[0].split().index("CHECKPOINTS")] == "3"


def test_tmp_and_home_begin_anew(client):
    client.run("echo x > /tmp/file; echo x > ~/file")
    checkpoint(client)
    assert client.run("ls /tmp ~")["stdout"].split() == ["/home/agent:", "/tmp:"]


def test_a_new_files_process_shows_the_same_layers(client, daemon):
    checkpoint(client)
    client.run("echo one > file")
    running = client.begin("run_command", {"command": "sleep 1; cat file; echo two > file"})
    assert procfs.eventually(lambda: mounters(daemon))
    ((_, files),) = daemon.cells()
    with acting_as(os.getuid()):
        os.kill(files, signal.SIGKILL)
    assert procfs.eventually(lambda: client.observe("write_file", {"path": "new", "content": "new"})["success"])
    assert client.result(running)["output"]["stdout"] == "one\n"
    assert client.use("read_file", path="file", options={"line_numbers": False})["content"] == "two\n"
    assert client.run("cat new")["stdout"] == "new"


def test_a_removed_workspace_leaves_no_layers(own_daemon):
    client = opened(own_daemon, "gone")
    for _ in range(3):
        client.run("mkdir -p a/b; echo x >> a/b/c; rm -rf d; mkdir d; chmod 000 d")
        checkpoint(client)
    roll_back(client, 2)
    client.call("workspace.remove", {"workspace": "gone"})
    assert in_state(own_daemon, ".layers-*") == []
    assert procfs.eventually(lambda: not in_state(own_daemon, ".dropped-*", "gone"))
    client.call("workspace.open", {"workspace": "gone"})
    assert client.run("ls -A")["stdout"] == "" and listed(client) == []


def test_dropped_layers_are_cleared_in_the_background_or_at_the_next_start(start_daemon):
    daemon = start_daemon()
    client = opened(daemon, "w")
    checkpoint(client)
    client.run("mkdir -p many/{1..9}; touch many/{1..9}/{1..50}")
    roll_back(client, 1)
    assert procfs.eventually(lambda: not in_state(daemon, ".dropped-*"))
    client.run("echo x > file")
    spawner = daemon.spawner()
    with acting_as(os.getuid()):
        # It cannot clear what is dropped now.
        os.kill(spawner, signal.SIGSTOP)
    client.request("workspace.rollback", {"to": 1})
    daemon.process.kill()
    daemon.process.wait()
    with acting_as(os.getuid()):
        (layers,) = in_state(daemon, ".layers-w")
        (layer,) = [path for path in layers.iterdir() if (path / "u").exists()]
        layer.rename(layers / ".dropped-left")
    again = start_daemon(state=daemon.state)
    assert procfs.eventually(lambda: not in_state(again, ".dropped-*"))


MANY = "mkdir many && cd many && seq 400 | xargs touch"


def next_cleaner(daemon):
    """Stops the next home cleaner that is made when it has removed a name."""
    return Holder(daemon.spawner(), "cloister-sweep", "unlinkat")


def roll_back_and_hold(daemon, client):
    """Rolls back to the first checkpoint, and stops the home cleaner that clears what was dropped. Returns its pid."""
    cleaner = next_cleaner(daemon)
    roll_back(client, 1)
    return cleaner.held()


def with_a_held_cleaner(start_daemon):
    """A daemon, a client whose workspace has dropped a layer with many files, and the pid of the home cleaner that is stopped."""
    daemon = start_daemon()
    client = opened(daemon, "w")
    checkpoint(client)
    client.run(MANY)
    return daemon, client, roll_back_and_hold(daemon, client)


def go_on(pid):
    with acting_as(os.getuid()):
        os.kill(pid, signal.SIGCONT)


def test_a_tenant_with_many_dropped_layers_does_not_hold_up_others(area, start_daemon):
    user = area.account.name
    daemon = start_daemon(config="".join(f"[tenant {name}]\nusers = {user}\nmanaged = yes\n" for name in "ab"), system=False)
    clients = {name: daemon.connect() for name in ("a1", "a2", "a3", "b1")}
    for name, client in clients.items():
        client.call("workspace.open", {"workspace": name, "tenant": name[0]})
        checkpoint(client)
        client.run(MANY if name[0] == "a" else "echo x > file")
    held = roll_back_and_hold(daemon, clients["a1"])
    for name in ("a2", "a3", "b1"):
        roll_back(clients[name], 1)

    def dropped(name):
        with acting_as(os.getuid()):
            names = os.listdir(daemon.state / "workspaces" / name[0] / f".layers-{name}")
        return [name for name in names if name.startswith(".dropped-")]

    assert dropped("a3") and dropped("b1")
    while dropped("b1"):
        assert dropped("a3")
        cleaner = next_cleaner(daemon)
        go_on(held)
        held = cleaner.held()
    assert dropped("a3")
    go_on(held)
    assert procfs.eventually(lambda: not in_state(daemon, ".dropped-*"))


def test_a_home_cleaner_that_is_killed_is_followed_by_another(start_daemon):
    daemon, _, held = with_a_held_cleaner(start_daemon)
    assert in_state(daemon, ".dropped-*")
    with acting_as(os.getuid()):
        os.kill(held, signal.SIGKILL)
    assert procfs.eventually(lambda: not in_state(daemon, ".dropped-*"))
    assert "could not be removed" not in daemon.log()


def test_a_home_cleaner_that_waits_for_the_disk_has_no_longer_turn(start_daemon):
    """Commands choose how long the disk takes for each file: the time that passes is bounded, too. The next one does not
    wait for an idle processor."""
    daemon, _, held = with_a_held_cleaner(start_daemon)
    with acting_as(os.getuid()):
        assert os.sched_getscheduler(held) == os.SCHED_IDLE
        assert procfs.eventually(lambda: int(procfs.status(held)["ShdPnd"], 16) & 1 << signal.SIGALRM - 1)
    cleaner = next_cleaner(daemon)
    go_on(held)
    assert procfs.eventually(lambda: not procfs.is_alive(held))
    following = cleaner.held()
    with acting_as(os.getuid()):
        assert os.sched_getscheduler(following) == os.SCHED_OTHER
        os.kill(following, signal.SIGCONT)
    assert procfs.eventually(lambda: not in_state(daemon, ".dropped-*"))
    assert "could not be removed" not in daemon.log()


def test_layers_that_are_not_cleared_yet_are_bounded(start_daemon):
    daemon, client, held = with_a_held_cleaner(start_daemon)
    for _ in range(DROPPED - 1):
        roll_back(client, 1)
    assert len(in_state(daemon, ".dropped-*")) == DROPPED
    client.run("echo kept > file")
    for method, params in (("workspace.rollback", {"to": 1}), ("workspace.checkpoint", {})):
        assert "are still being cleared" in refused(client, method, params, "BUSY")
    assert client.run("cat file")["stdout"] == "kept\n" and len(in_state(daemon, ".dropped-*")) == DROPPED
    go_on(held)
    assert procfs.eventually(lambda: not in_state(daemon, ".dropped-*"))
    assert checkpoint(client) > 1


@pytest.mark.deep("slow")
@pytest.mark.parametrize("who", ["cloisterd", "spawner"])
def test_a_death_at_any_step_leaves_one_of_the_two_states(area, who):
    """Kills the process at one of its system calls, a later one each time, until it lives through the rollback. Under
    sanitizers the steps are larger."""
    daemon = Daemon(area)
    state, states, count, deaths = daemon.state, None, 1, 0
    client = opened(daemon, "w")
    client.run("mkdir d; echo old > d/file; echo old > gone")
    old = tree(client)
    checkpoint(client)
    while True:
        client.run("echo new > d/file; rm -f gone; echo new > made; touch -d 2001-01-01 d d/file made .")
        new = tree(client)
        states = states or (old, new)
        assert (old, new) == states
        killer = Killer(daemon.pid if who == "cloisterd" else daemon.spawner(), count)
        with contextlib.suppress(RpcError, OSError, AssertionError, TypeError):  # the connection ends with cloisterd
            roll_back(client, 1)
        died = killer.end()
        deaths += died
        kill_all(daemon)
        daemon = Daemon(area, state=state)
        client = opened(daemon, "w")
        assert tree(client) in states
        assert [number for number, _ in listed(client)] == [1]
        if not died:
            break
        count += (5 if count > 40 else 2) * (3 if is_sanitized() else 1)
    assert tree(client) == old and deaths > 5
    assert daemon.stop() == 0


@pytest.mark.deep("slow")
def test_deaths_of_a_cells_processes_during_a_change(own_daemon):
    client = opened(own_daemon, "w")
    rng = random.Random(1)
    client.run("echo old > file")
    checkpoint(client)
    for _ in range(25):
        client.observe("write_file", {"path": "file", "content": "new\n"})
        expected = {"old\n", "new\n"}
        asked = client.request("workspace.rollback", {"to": 1})
        with acting_as(os.getuid()):
            for pid in rng.sample(children := procfs.children(own_daemon.spawner()), min(2, len(children))):
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    if procfs.name(pid) in ("cloister-layers", "cloister-files", "cloister-worker", "cloister-spare"):
                        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(RpcError):
            client.result(asked)
            expected = {"old\n"}
        seen = []
        assert procfs.eventually(
            lambda: seen.append(client.observe("run_command", {"command": "cat file"})) or seen[-1]["success"])
        assert seen[-1]["output"]["stdout"] in expected
        assert [number for number, _ in listed(client)] == [1]
