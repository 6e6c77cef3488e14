# SPDX-License-Identifier: Apache-2.0
"""Folding: of many checkpoints some of the older ones are given up, and what is left is what it was."""

import contextlib
import os
import random
import signal

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import SYSTEM, Daemon, is_sanitized
from killer import Holder, Killer
from layers import checkpoint, client_fixture, in_state, kill_all, listed, opened, roll_back

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")

FOLD = 16  # LIMIT_LAYERS_FOLD
MODE = "[cloister]\nmode = system\n" if SYSTEM else ""

MANY = "mkdir many && cd many && seq 400 | xargs touch"

client = client_fixture()


def seen(client):
    """What the workspace shows, but for how many names files have, of which a fold that goes on makes some."""
    output = client.run(r"find . -printf '%P %y %m %l %T@\n' | sort; find . -type f -print0 | sort -z | xargs -0 -r sha256sum")
    assert output["exit_code"] == 0, output
    return output["stdout"]


def change(client, rng, step):
    """Whiteouts, opaque directories, files in the place of directories and directories in the place of files."""
    name, other = rng.choice("abcd"), rng.choice("abcd")
    client.run(rng.choice([
        f"mkdir -p {name}/{other}; echo {step} > {name}/{other}/{other}",
        f"rm -rf {name}; mkdir {name}; echo {step} > {name}/new",
        f"rm -rf {name}",
        f"rm -rf {name}; echo file {step} > {name}",
        f"rm -rf {name}/*; touch {name}/empty",
        f"echo {step} >> {name}.txt",
        f"ln -sfn {other} {name}.link",
        f"echo {step} > hard1; ln -f hard1 hard2",
        f"mkdir -p {name}; chmod {rng.choice(['700', '755', '500'])} {name}",
        f"mv {name}.txt {other}.moved",
        f"mkdir -p {name}/deep/deeper; setfattr -n user.note -v {step} {name}/deep; rm -rf {name}/deep/x",
    ]) + f"; chmod -R u+rwX . ; echo {step} > step; true")


def layers(daemon, name):
    return [path for path in in_state(daemon, f".layers-{name}/*") if path.name[0].isdigit()]


def pending(daemon, name="*"):
    """What was made of two layers and is not in force yet."""
    return in_state(daemon, f".layers-{name}/folded-*")


def folded(daemon, client, name="w"):
    """Whether what was asked for after the last checkpoint is done, if there are many."""
    return len(listed(client)) < FOLD or procfs.eventually(lambda: pending(daemon, name))


def opened_with_many(daemon, name="w", before=None, **params):
    """A workspace that is folded at its next checkpoint: its lowest two layers have much, or what the command makes."""
    client = daemon.connect()
    client.call("workspace.open", {"workspace": name, **params})
    for number in range(FOLD - 1):
        client.run(f"echo {number} > file" if number != 1 else before or MANY)
        assert checkpoint(client) == number + 1
    return client


def next_merger(daemon):
    """Stops the next layer merger that is made when it has made a link."""
    return Holder(daemon.spawner(), "cloister-merge", "linkat")


def checkpoint_and_hold(daemon, client):
    """Makes a checkpoint and stops the layer merger that it starts. Returns the layer merger's pid."""
    merger = next_merger(daemon)
    checkpoint(client)
    return merger.held()


def metric(daemon, name):
    """One of its tenant's. The configuration of the suites in system mode admits nobody to it."""
    line, = (line for line in daemon.ctl("metrics").stdout.decode().splitlines() if line.startswith(f"cloister_tenant_{name}{{"))
    return float(line.rsplit(" ", 1)[1])


def send(pid, signal_number):
    with acting_as(os.getuid()):
        os.kill(pid, signal_number)


@pytest.mark.deep("slow")
@pytest.mark.parametrize("seed", range(2))
def test_checkpoints_without_a_label_become_one_with_the_next(own_daemon, seed):
    client, rng, states = opened(own_daemon, "w"), random.Random(seed), {}
    client.run("mkdir -p a b c; echo first > a/first")
    for step in range(40):
        change(client, rng, step)
        now = seen(client)
        states[checkpoint(client, "kept" if step in (9, 20) else None)] = now
        assert seen(client) == now
        assert folded(own_daemon, client)
    # Each checkpoint that made them more than 16 began one.
    if not SYSTEM:
        assert procfs.eventually(lambda: metric(own_daemon, "folds_total") == 40 - FOLD + 1), metric(own_daemon, "folds_total")
        assert metric(own_daemon, "folds_failed_total") == 0 and 0 < metric(own_daemon, "fold_seconds_total") < 3600
    left = [number for number, _ in listed(client)]
    # The first, those with a label, and the newest; one is folded with each checkpoint.
    assert left[0] == 1 and {10, 21} <= set(left) and set(range(33, 41)) <= set(left)
    assert [number for number in left if 1 < number < 10] and [number for number in left if 21 < number < 33]
    assert len(left) <= FOLD + 1
    assert procfs.eventually(lambda: len(layers(own_daemon, "w")) <= FOLD + 1)
    client.call("workspace.close", {})
    client.call("workspace.open", {"workspace": "w"})
    for number in reversed(left):
        if number in [row for row, _ in listed(client)]:
            roll_back(client, number)
            assert seen(client) == states[number], number
    client.call("workspace.remove", {"workspace": "w"})
    assert procfs.eventually(lambda: not in_state(own_daemon, ".dropped-*", ".layers-w"))


def test_what_was_deleted_of_a_new_directory_is_in_no_list(own_daemon):
    """Nothing is below the directory that its whiteouts could hide, and no layer says that it is opaque. The kernel leaves
    them out because an attribute says that the directory was copied up, which what is folded must keep."""
    client, states = opened(own_daemon, "w"), {}
    client.run("mkdir old; touch old/x")
    checkpoint(client)
    steps = ["mkdir -p new/sub old/new; touch new/a new/b new/sub/c old/new/d old/y", "rm -r new/a new/sub old/new/d old/y",
             "rm old/x; touch old/z", "rm -r old new; mkdir -p old/new new; touch old/new/e new/f", "rm old/new/e new/f"]
    while len(states) < FOLD + len(steps):
        client.run(steps[len(states)] if len(states) < len(steps) else f"echo {len(states)} > file")
        now = seen(client)
        states[checkpoint(client)] = now
        assert folded(own_daemon, client)
        assert seen(client) == now
    left = [number for number, _ in listed(client)]
    assert len(left) <= FOLD + 1
    for number in reversed(left[1:]):
        if number in [row for row, _ in listed(client)]:
            roll_back(client, number)
            assert seen(client) == states[number], number
            assert client.run("tar -cf /dev/null . && rm -r old new && ! ls old new")["exit_code"] == 0


@pytest.mark.deep("slow")
@pytest.mark.parametrize("who", ["cloisterd", "spawner", "merger"])
def test_a_death_at_any_step_leaves_each_checkpoint(area, who):
    """Kills a process at one of its system calls while checkpoints are made and folded, and compares what is left. The
    other three of two modes and two builds begin at calls of their own, and try fewer."""
    rounds = 18 if SYSTEM or is_sanitized() else 45
    daemon, rng, states, deaths, taken = Daemon(area), random.Random(who), {}, 0, 0
    count = 1 + 9 * SYSTEM + 18 * is_sanitized()
    state = daemon.state
    client = opened(daemon, "w")
    client.run("mkdir -p a b c; echo first > a/first")
    for step in range(FOLD + 2):
        change(client, rng, step)
        now = seen(client)
        states[checkpoint(client)] = now
    for step in range(rounds):
        change(client, rng, f"again{step}")
        now = seen(client)
        if who == "merger":
            killer = Killer(daemon.spawner(), count, "cloister-merge")
            states[checkpoint(client)] = now
            assert procfs.eventually(lambda: pending(daemon) or killer.has_ended())
        else:
            killer = Killer(daemon.pid if who == "cloisterd" else daemon.spawner(), count)
            with contextlib.suppress(RpcError, OSError, AssertionError, TypeError):  # the connection ends with cloisterd
                states[checkpoint(client)] = now
        died = killer.end()
        deaths += died
        if (died and who != "merger") or rng.random() < 0.2:
            kill_all(daemon)
            daemon = Daemon(area, state=state)
            client = opened(daemon, "w")
        assert seen(client) == now
        rows = [number for number, _ in listed(client)]
        for number in rows:  # its answer did not come
            states.setdefault(number, now)
        states = {number: then for number, then in states.items() if number in rows}
        assert set(states) == set(rows) and rows[0] == 1
        count = 1 + (count + 36) % (1000 if who == "merger" else 250)
        if step % 9 == 8:
            to = rng.choice(rows[:-3])
            roll_back(client, to)
            assert seen(client) == states[to], to
            taken += 1
            states = {number: then for number, then in states.items() if number <= to}
            for _ in range(FOLD + 2 - len(states)):
                change(client, rng, f"more{step}")
                now = seen(client)
                states[checkpoint(client)] = now
    assert taken == rounds // 9 and deaths > rounds // 5
    left = [number for number, _ in listed(client)]
    assert procfs.eventually(lambda: len(layers(daemon, "w")) == len(listed(client)) and
                             not in_state(daemon, ".dropped-*"))
    for number in reversed(left):
        if number in [row for row, _ in listed(client)]:  # the last fold may have come
            roll_back(client, number)
            assert seen(client) == states[number], number
    client.call("workspace.remove", {"workspace": "w"})
    assert procfs.eventually(lambda: not in_state(daemon, ".dropped-*", ".layers-w"))
    assert daemon.stop() == 0


@pytest.mark.deep("slow")
def test_previews_among_many_checkpoints(client, daemon):
    """What a preview lies on is not folded while it may change again."""
    rng, states = random.Random(5), {}
    client.run("mkdir -p a b c")
    for step in range(FOLD + 6):
        change(client, rng, step)
        now = seen(client)
        client.observe("run_command", {"command": f"echo {step} > previewed; rm -rf a"}, {"transaction": "preview"})
        if rng.random() < 0.6:
            client.call("transaction.discard", {})
            assert seen(client) == now
            change(client, rng, f"again{step}")
            now = seen(client)
            states[checkpoint(client)] = now
        else:
            states[client.call("transaction.commit", {})["checkpoint"]] = now
        assert folded(daemon, client, client.name)
    left = [number for number, _ in listed(client)]
    assert len(left) <= FOLD + 1 and set(left) <= set(states)
    for number in reversed(left):
        if number in [row for row, _ in listed(client)]:
            roll_back(client, number)
            assert seen(client) == states[number], number


def test_previews_alone_are_folded(client, daemon):
    for step in range(FOLD + 6):
        client.observe("run_command", {"command": f"echo {step} > file"}, {"transaction": "preview"})
        client.call("transaction.commit", {})
        assert folded(daemon, client, client.name)
    assert len(listed(client)) <= FOLD + 1
    assert client.run("cat file")["stdout"] == f"{FOLD + 5}\n"


@pytest.mark.deep("slow")
def test_a_workspace_that_is_opened_is_folded(own_daemon):
    client = opened(own_daemon, "w")
    for number in range(FOLD + 3):
        checkpoint(client, "kept")
    assert len(listed(client)) == FOLD + 3
    names = in_state(own_daemon, "c[0-9]*=kept")
    with acting_as(os.getuid()):
        for name in names:  # as if they had been made before there was folding
            name.rename(name.parent / name.name.replace("kept", ""))

    def fewer():
        client.call("workspace.close", {})
        client.call("workspace.open", {"workspace": "w"})
        return len(listed(client)) == FOLD - 1

    assert procfs.eventually(fewer)
    assert listed(client)[0] == (1, "") and listed(client)[-1] == (FOLD + 3, "")


@pytest.mark.parametrize("what", ["rollback", "remove"])
def test_a_fold_ends_before_its_layers_are_cleared(own_daemon, what):
    client = opened_with_many(own_daemon)
    held = checkpoint_and_hold(own_daemon, client)
    if what == "remove":
        client.call("workspace.remove", {"workspace": "w"})
    else:
        roll_back(client, 1)
        assert client.run("ls")["stdout"] == "file\n"
    assert procfs.eventually(lambda: not procfs.is_alive(held))
    assert procfs.eventually(lambda: not in_state(own_daemon, ".dropped-*", "folded-*"))
    assert "were not made one" not in own_daemon.log()
    assert SYSTEM or metric(own_daemon, "folds_total") == metric(own_daemon, "folds_failed_total") == 0


def test_a_second_try_does_not_wait_for_the_clearing_of_the_first(own_daemon):
    """And what is cleared of the first is none of the second's."""
    other = opened(own_daemon, "other")
    checkpoint(other)
    other.run(MANY)
    client = opened_with_many(own_daemon)
    cleaner = Holder(own_daemon.spawner(), "cloister-sweep", "unlinkat")
    roll_back(other, 1)
    cleaner = cleaner.held()
    held = checkpoint_and_hold(own_daemon, client)
    send(held, signal.SIGKILL)
    assert procfs.eventually(lambda: not procfs.is_alive(held))
    assert procfs.eventually(lambda: "were not made one: the layer merger was ended" in own_daemon.log())
    assert procfs.eventually(lambda: len(in_state(own_daemon, ".layers-w/.dropped-*")) == 1)
    now = seen(client)
    checkpoint(client)
    assert procfs.eventually(lambda: pending(own_daemon))
    assert procfs.is_alive(cleaner)
    send(cleaner, signal.SIGCONT)
    assert procfs.eventually(lambda: not in_state(own_daemon, ".dropped-*"))
    checkpoint(client)
    assert 2 not in [number for number, _ in listed(client)]
    assert seen(client) == now
    assert client.run("ls many | wc -l")["stdout"] == "400\n"


@pytest.mark.deep("slow")
def test_a_tenant_with_much_to_fold_does_not_hold_up_others(area, start_daemon):
    user = area.account.name
    config = "".join(f"[tenant {name}]\nusers = {user}\nmanaged = yes\n" for name in "ab")
    daemon = start_daemon(config=MODE + config, system=SYSTEM)
    clients = {name: opened_with_many(daemon, name, "touch x" if name in ("a3", "b1") else MANY, tenant=name[0])
               for name in ("a1", "a2", "a3", "b1")}
    held = checkpoint_and_hold(daemon, clients["a1"])
    for name in ("a2", "a3", "b1"):
        checkpoint(clients[name])
    assert not pending(daemon)
    folding = ".layers-a1"
    while folding != ".layers-a2":
        merger = next_merger(daemon)
        send(held, signal.SIGCONT)
        held = merger.held()
        folding, = (path.parent.name for path in in_state(daemon, ".dropped-fold-*"))
    assert {path.parent.name for path in pending(daemon)} == {".layers-a1", ".layers-b1"}
    send(held, signal.SIGCONT)
    assert procfs.eventually(lambda: len(pending(daemon)) == 4)


def test_what_cannot_be_folded_is_told_and_kept(own_daemon):
    """A directory deeper than LIMIT_CLEAR_DEPTH. Its workspace goes on."""
    client = opened_with_many(own_daemon, before=f"mkdir -p {'d/' * 210}")
    for number in range(FOLD, FOLD + 3):
        checkpoint(client)
        assert procfs.eventually(
            lambda: own_daemon.log().count("/.layers-w were not made one: File name too long") == number - FOLD + 1)
        assert SYSTEM or procfs.eventually(lambda: metric(own_daemon, "folds_failed_total") == number - FOLD + 1)
    assert [number for number, _ in listed(client)] == list(range(1, FOLD + 3))
    assert client.run(f"test -d {'d/' * 210}")["exit_code"] == 0
    assert procfs.eventually(lambda: not in_state(own_daemon, ".dropped-*", "folded-*"))


def test_nothing_is_folded_while_another_generation_lives(start_daemon, area):
    config = f"{MODE}[tenant t]\nusers = {area.account.uid}\nmanaged = yes\n"
    old_daemon = start_daemon(config=config, system=SYSTEM)
    busy = opened(old_daemon, "busy")
    running = busy.begin("run_command", {"command": "until [ -e go ]; do sleep 0.1; done"})
    client = opened_with_many(old_daemon)
    now = seen(client)
    held = checkpoint_and_hold(old_daemon, client)
    new_daemon = start_daemon(config=config, former=old_daemon, system=SYSTEM)
    assert procfs.eventually(lambda: not procfs.is_alive(held))
    client = procfs.eventually(lambda: attempt(new_daemon))
    checkpoint(client)
    assert seen(client) == now and not pending(new_daemon)
    opened_in_old_daemon = busy.observe("write_file", {"path": "go", "content": ""})
    assert opened_in_old_daemon["success"] and busy.result(running)["success"]
    assert old_daemon.process.wait(120) == 0
    assert procfs.eventually(lambda: not in_state(new_daemon, ".dropped-*"))
    checkpoint(client)
    assert procfs.eventually(lambda: pending(new_daemon))


def attempt(daemon):
    """A connection with the workspace open, or None while the old daemon has it."""
    with contextlib.suppress(RpcError):
        return opened(daemon, "w")
    return None
