# SPDX-License-Identifier: Apache-2.0
"""Previews: calls whose changes count only when they are committed. What is kept and undone, who waits, and what becomes
of a preview when its connection or a process ends."""

import contextlib
import json
import os
import pathlib
import random
import signal

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import Daemon, environment
from killer import Killer
from layers import (checkpoint, client_fixture, in_state, mounters, kill_all, listed, opened, refused, roll_back, tree)
from screen import Screen

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")

PREVIEW = {"transaction": "preview"}

client = client_fixture()


def preview(client, command, **options):
    """A preview by a command. Returns its observation."""
    observation = client.observe("run_command", {"command": command}, {**PREVIEW, **options})
    assert "diff" in observation, observation
    return observation


def changed(observation):
    return {row["path"]: row["change"] for row in observation["diff"]["changes"]}


def decide(client, what, **params):
    return client.call(f"transaction.{what}", params)


def old_tree(client):
    client.run("mkdir -p d .git; echo old > d/file; echo gone > gone; ln -s d/file link; chmod 750 d; touch -d 2001-01-01 gone")
    return tree(client)


CHANGE = "rm -rf gone .git; echo new > d/file; mkdir e; echo made > e/made; chmod 700 d; ln -sfn e link"
CHANGED = {"gone": "deleted", ".git": "deleted", "d/file": "changed", "e": "added", "e/made": "added", "d": "changed",
           "link": "changed"}


@pytest.mark.parametrize("checkpoints", [0, 2])
def test_what_is_discarded_is_as_it_was(client, daemon, checkpoints):
    before = old_tree(client)
    for _ in range(checkpoints):
        checkpoint(client)
    rows = listed(client)
    observation = preview(client, CHANGE)
    assert observation["success"] and changed(observation) == CHANGED
    assert observation["diff"]["count"] == len(CHANGED)
    assert decide(client, "discard") == {"workspace": client.name, "discarded": True}
    assert tree(client) == before and listed(client) == rows
    assert "has no preview" in refused(client, "transaction.discard", {}, "NOT_FOUND")
    # What had no layers before has none again.
    (layers,) = in_state(daemon, f".layers-{client.name}")
    assert procfs.eventually(lambda: bool([path for path in in_state(daemon, f".layers-{client.name}/*")
                                           if not path.name.startswith(".dropped-")]) == (checkpoints > 0))
    # And so once more, and with a write.
    written = client.observe("write_file", {"path": "d/file", "content": "x"}, PREVIEW)
    assert changed(written) == {"d/file": "changed"}
    decide(client, "discard")
    assert tree(client) == before


def test_what_is_committed_stays_and_can_be_gone_back_from(client):
    before = old_tree(client)
    preview(client, CHANGE)
    assert decide(client, "commit", workspace=client.name) == {"workspace": client.name, "checkpoint": 1}
    after = tree(client)
    assert after != before and client.run("cat d/file e/made")["stdout"] == "new\nmade\n"
    assert listed(client) == [(1, "")]
    preview(client, "echo more > more")
    assert decide(client, "commit")["checkpoint"] == 2
    roll_back(client, 2)
    assert tree(client) == after
    roll_back(client, 1)
    assert tree(client) == before


def test_nothing_else_is_done_until_it_is_decided(client, daemon):
    client.run("echo old > file")
    preview(client, "echo new > file")
    other = opened(daemon, client.name)
    for one, words in ((client, "transaction.commit keeps"), (other, "Another client's preview")):
        for tool, arguments in (("read_file", {"path": "file"}), ("write_file", {"path": "x", "content": ""}),
                                ("run_command", {"command": "true"})):
            error = one.fail(tool, **arguments)
            assert error["code"] == "BUSY" and words in error["message"], error
        error = one.fail("run_command", PREVIEW, command="true")
        assert error["code"] == "BUSY" and words in error["message"], error
        for method, params in (("workspace.checkpoint", {}), ("workspace.rollback", {"to": 1}),
                               ("session.start", {"command": "true"}), ("workspace.freeze", {"template": "t"}),
                               ("workspace.remove", {"workspace": client.name})):
            assert words in refused(one, method, params, "BUSY")
    # Its own client may look at what there is to decide on.
    (change,) = client.call("workspace.diff", {"patch": True})["changes"]
    assert "-old\n+new\n" in change["patch"]
    for what in ("commit", "discard"):
        assert "This connection has no preview" in refused(other, f"transaction.{what}", {}, "NOT_FOUND")
    decide(client, "commit")
    assert other.run("cat file")["stdout"] == "new\n"
    other.close()


def test_calls_that_came_before_end_before(client, daemon):
    """Also those that have not begun: none of them becomes part of what may be undone."""
    many = [client.begin("run_command", {"command": f"sleep 0.3; echo {i} >> list"}) for i in range(12)]
    number = client.begin("run_command", {"command": "wc -l < list; echo x > list"}, PREVIEW)
    assert all(client.result(each)["success"] for each in many)
    observation = client.result(number)
    assert observation["output"]["stdout"] == "12\n" and changed(observation) == {"list": "changed"}
    decide(client, "discard")
    assert client.run("wc -l < list")["stdout"] == "12\n"


@pytest.mark.deep("slow")
def test_a_call_that_goes_on_makes_it_busy_and_nothing_is_run(client):
    running = client.begin("run_command", {"command": "echo x > begun; sleep 600", "timeout_ms": 700000})
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "begun"})["success"])
    error = client.fail("run_command", PREVIEW, command="echo x > made")
    assert error["code"] == "BUSY" and "Calls are running" in error["message"]
    assert "has no preview" in refused(client, "transaction.commit", {}, "NOT_FOUND")
    assert client.observe("read_file", {"path": "begun"})["success"]
    client.cancel(running)
    client.result(running)
    assert client.run("ls")["stdout"] == "begun\n" and listed(client) == []
    session = client.call("session.start", {"command": "sleep 600"})["session"]
    assert session in client.fail("run_command", PREVIEW, command="true")["message"]
    client.call("session.end", {"session": session})


def test_a_directory_is_copied_in_and_out_for_a_preview(client, daemon):
    """What the refusal says to do for a directory."""
    def cloister(*words):
        done = daemon.area.run("cloister", "--socket", str(daemon.socket), "--workspace", client.name, *words)
        assert done.returncode == 0, done

    with daemon.connect() as other:
        path = daemon.new_workspace(other)
        other.use("write_file", path="kept", content="old")
        other.use("write_file", path="gone", content="old")
        said = [refused(other, "workspace.checkpoint", {}, "FORBIDDEN"), refused(other, "workspace.diff", {}, "FORBIDDEN"),
                other.fail("run_command", PREVIEW, command="rm gone")["message"]]
    for message in said:
        assert "cloister put" in message and "cloister get" in message, message
    cloister("put", f"{path}/.")
    for decide in ("discard", "commit"):
        shown = client.observe("run_command", {"command": "rm gone; echo new > kept"}, PREVIEW)
        assert sorted(row["path"] for row in shown["diff"]["changes"]) == ["gone", "kept"], shown
        client.call(f"transaction.{decide}", {})
        assert client.run("cat kept")["stdout"] == ("old" if decide == "discard" else "new\n")
    cloister("get", ".", str(path))
    assert (pathlib.Path(path) / "kept").read_text() == "new\n"


@pytest.mark.parametrize("end", ["close", "connection", "in the call", "closed in the call"])
def test_a_preview_ends_with_its_connection(client, daemon, end):
    before = old_tree(client)
    mine = opened(daemon, client.name)
    if "call" in end:
        number = mine.begin("run_command", {"command": CHANGE + "; sleep 600" * (end == "in the call"), "timeout_ms": 700000},
                            PREVIEW)
        assert end != "in the call" or procfs.eventually(
            lambda: client.fail("read_file", path="x")["code"] == "BUSY")
    else:
        preview(mine, CHANGE)
    if "close" in end:
        mine.call("workspace.close", {"workspace": client.name})
    if end == "closed in the call":
        assert changed(mine.result(number)) == CHANGED
    if "close" not in end:
        mine.close()
    # Whoever comes while it is being undone waits for that.
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "d/file"})["success"])
    assert tree(client) == before and listed(client) == []
    if "close" in end:
        assert "no preview" in refused(mine, "transaction.commit", {"workspace": client.name}, "NOT_FOUND")
        mine.close()


def test_a_failed_or_cancelled_call_is_a_preview_too(client):
    client.run("echo old > file")
    observation = preview(client, "echo new > file; exit 7")
    assert observation["output"]["exit_code"] == 7 and changed(observation) == {"file": "changed"}
    decide(client, "discard")
    for timeout_ms in (200, 2000, 20000, 200000):  # until it has come to its first step
        observation = client.observe("run_command", {"command": "echo new > file; sleep 600", "timeout_ms": timeout_ms}, PREVIEW)
        assert not observation["success"] and observation["error"]["code"] == "TIMEOUT"
        if observation.get("diff"):  # otherwise its time was over before there was a preview
            decide(client, "discard")
            if changed(observation):
                break
    assert changed(observation) == {"file": "changed"}
    number = client.begin("run_command", {"command": "echo new > file; echo; sleep 600", "timeout_ms": 700000},
                          {**PREVIEW, "stream": True})
    assert client.receive()["method"] == "tool.output"
    assert "not answered yet" in refused(client, "transaction.discard", {}, "BUSY")
    assert client.cancel(number)
    observation = client.result(number)
    assert observation["error"]["code"] == "CANCELLED" and changed(observation) == {"file": "changed"}
    decide(client, "discard")
    assert client.run("cat file")["stdout"] == "old\n"


@pytest.mark.parametrize("who", ["worker", "files"])
def test_deaths_of_a_cells_processes(own_daemon, who):
    client = opened(own_daemon, "w")
    before = old_tree(client)
    for what in ("discard", "commit"):
        number = client.begin("run_command", {"command": CHANGE + "; touch ready; sleep 600", "timeout_ms": 700000}, PREVIEW)
        assert procfs.eventually(lambda: in_state(own_daemon, "u/ready"))
        ((worker, files),) = own_daemon.cells()
        with acting_as(os.getuid()):
            os.kill(worker if who == "worker" else files, signal.SIGKILL)
        if who == "files":  # the command goes on, and a comparison sent to the dead process would fail
            assert procfs.eventually(lambda files=files: not os.path.exists(f"/proc/{files}"))
            client.cancel(number)
        observation = client.result(number)
        assert observation["error"]["code"] == ("WORKER_LOST" if who == "worker" else "CANCELLED")
        assert changed(observation) == {**CHANGED, "ready": "added"}
        decide(client, what)
        assert (tree(client) == before) == (what == "discard")
    assert client.run("cat e/made")["stdout"] == "made\n"


@pytest.mark.deep("slow")
@pytest.mark.parametrize("checkpoints", [0, 1])
@pytest.mark.parametrize("what", ["discard", "commit"])
def test_a_death_at_any_step_leaves_one_of_the_two_states(area, what, checkpoints):
    """Kills cloisterd at one of its system calls, the next one each time, until it lives through call and decision."""
    daemon = Daemon(area)
    state, count, deaths, kept = daemon.state, 1, 0, 0
    client = opened(daemon, "w")
    old = old_tree(client)
    for _ in range(checkpoints):
        checkpoint(client)
    while True:
        killer, answered = Killer(daemon.pid, count), False
        with contextlib.suppress(RpcError, OSError, AssertionError, TypeError):  # the connection ends with cloisterd
            preview(client, "echo new > d/file; touch -d 2001-01-01 d d/file")
            decide(client, what)
            answered = True
        died = killer.end()
        deaths += died
        kill_all(daemon)
        daemon = Daemon(area, state=state)
        client = opened(daemon, "w")
        now, rows = tree(client), listed(client)
        is_old = now == old
        assert is_old or client.run("cat d/file")["stdout"] == "new\n"
        # What was said to be kept is kept, and nothing is that was not committed.
        assert (is_old or what == "commit") and not (answered and what == "commit" and is_old)
        assert len(rows) == checkpoints + (not is_old)
        if not is_old:
            kept += 1
            roll_back(client, checkpoints + 1)
            assert tree(client) == old
            while len(listed(client)) > checkpoints:  # back to what it was before
                client.call("workspace.remove", {"workspace": "w"})
                client = opened(daemon, "w")
                old = old_tree(client)
                for _ in range(checkpoints):
                    checkpoint(client)
        if not died:
            break
        count += 7 if count > 60 else 3
    assert deaths > 10 and (kept > 0) == (what == "commit")
    assert daemon.stop() == 0


def test_the_death_of_cloisterd_undoes_it(start_daemon):
    daemon = start_daemon()
    client = opened(daemon, "w")
    before = old_tree(client)
    preview(client, CHANGE)
    kill_all(daemon)
    daemon = start_daemon(state=daemon.state)
    client = opened(daemon, "w")
    assert tree(client) == before and listed(client) == [] and mounters(daemon) == []
    preview(client, CHANGE)
    decide(client, "commit")
    kill_all(daemon)
    client = opened(start_daemon(state=daemon.state), "w")
    assert client.run("cat e/made")["stdout"] == "made\n" and listed(client) == [(1, "")]


@pytest.mark.deep("slow")
@pytest.mark.parametrize("seed", range(2))
def test_random_previews_against_what_was_seen(client, seed):
    rng, seen = random.Random(seed), {}
    client.run("umask 022; echo first > first")
    for step in range(14):
        now = tree(client)
        name = rng.choice("abc")
        command = rng.choice([f"mkdir -p {name}; echo {step} > {name}/x", f"rm -rf {name}", f"echo {step} >> {name}.txt",
                              f"rm -rf {name}; echo file > {name}", f"ln -f first {name}.hard", "true"])
        if rng.random() < 0.2:
            seen[checkpoint(client)] = now
        observation = preview(client, command + "; true")
        if rng.random() < 0.5:
            decide(client, "discard")
            assert tree(client) == now
        else:
            seen[decide(client, "commit")["checkpoint"]] = now
            assert (tree(client) == now) == (observation["diff"]["count"] == 0) or "touch" not in command
    assert [number for number, _ in listed(client)] == list(seen)
    for number in sorted(seen, reverse=True):
        roll_back(client, number)
        assert tree(client) == seen[number]


def test_much_output_and_many_changes(client):
    observation = preview(client, "seq 100000; mkdir many; cd many; seq 3000 | xargs touch")
    assert observation["output"]["stdout_bytes"] > 500000 and observation["diff"]["added"] == 3001
    decide(client, "discard")
    assert client.use("list_directory", path=".")["count"] == 0


def cloister(client, daemon, *words):
    done = daemon.area.run("cloister", "--socket", str(daemon.socket), "--workspace", client.name, *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("command", ["exec", "run"])
def test_a_command_without_a_terminal_is_only_shown(client, daemon, command):
    client.run("echo old > file")
    status, out, err = cloister(client, daemon, "--preview", command, "--", "echo said; echo new > file; exit 7")
    assert (status, out) == (7, "said\n") and "changed" in err and "file" in err and "are undone" in err
    assert client.run("cat file")["stdout"] == "old\n"
    status, out, err = cloister(client, daemon, command, "--preview", "--", "true")
    assert (status, out) == (0, "") and "nothing has changed" in err
    status, _, err = cloister(client, daemon, "--preview", "diff")
    assert status == 2 and "--preview is for exec and run" in err
    status, out, _ = cloister(client, daemon, "--json", "--preview", "exec", "--", "echo new > file")
    assert status == 0 and [row["path"] for row in json.loads(out)["diff"]["changes"]] == ["file"]
    assert client.run("cat file")["stdout"] == "old\n" and listed(client) == []


@pytest.mark.parametrize("key, kept", [("y\n", True), ("n\n", False), ("\n", False), ("\x03", False)])
def test_a_person_is_asked(client, daemon, account, key, kept):
    client.run("echo old > file")
    with acting_as(os.getuid()):
        screen = Screen([str(daemon.area.bin / "cloister"), "--socket", str(daemon.socket), "--workspace", client.name,
                         "run", "--preview", "--", "echo new > file"], {**environment(daemon.area.home), "TERM": "xterm"},
                        *((account.uid, account.gid) if account.made else ()))
    assert screen.until(lambda text: "Keep these changes?" in text and "file" in text, 60)
    screen.type(key)
    screen.wait()
    screen.close()
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "file"})["success"])
    assert client.run("cat file")["stdout"] == ("new\n" if kept else "old\n")
