# SPDX-License-Identifier: Apache-2.0
"""Calls with a key when one cloisterd takes over from another: each runs once, and the new daemon knows its outcome."""

import os
import pathlib

import pytest

import keyed
import procfs
from cloister_client import acting_as
from generations import (GO, GO_ON, KEY, READY, ask, begin, ended, generations_fixture, go, hear, opened, runs, say,
                         status, talk)


def journal(daemon):
    with acting_as(os.getuid()):
        return {path.name: path.read_bytes() for path in (daemon.state / "journal").iterdir()}


def until_go(link):
    """Says that the new daemon is ready. Returns what it hears, in order, until it may serve."""
    say(link, READY)
    kinds = []
    while GO_ON not in kinds:
        kinds.append(hear(link)[0])
        assert kinds[-1], kinds
    return kinds


def test_what_a_call_with_a_key_came_to(generations, area):
    """It ran under the old daemon; the new daemon knows the result, and does not run it again."""
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


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_call_with_a_key_ends_while_the_new_daemon_starts(generations, area, comes_up):
    """The new daemon may have read the journal: it is told, and nothing is written beneath it."""
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
        assert ended(first) == 0  # with the new daemon
        return
    again = opened(first, root)
    assert again.observe("run_command", {"command": command}, {"key": "k"})["replayed"]
    assert first.stop() == 0
    with opened(generations(state=first.state), root) as second:
        assert second.observe("run_command", {"command": command}, {"key": "k"})["replayed"]
    assert keyed.runs(root) == 1


@pytest.mark.parametrize("comes_up", [True, False])
def test_a_call_with_a_key_begins_while_the_new_daemon_starts(generations, area, comes_up):
    """It has waited for another one. A new daemon that does not know of it would run it again."""
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


def test_a_killed_old_daemon_leaves_an_unknown_outcome(generations, area):
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
