# SPDX-License-Identifier: Apache-2.0
"""file.watch against commands that flood it with events and rename what is watched, and a files process that was taken over."""

import os

import pytest

import procfs
from cloister_client import RpcError, acting_as
from test_hostile_files import RENAMER
from test_hostile_peers import Liar, lied_to_fixture, undisturbed  # noqa: F401

# No two equal events in a row: the kernel would make them one, and so would the watch of a few files.
FLOOD = r"""python3 - <<'E'
import os
names = [str(i) for i in range(50)]
for name in names:
    open(name, "w").close()
for i in range(%d):
    for name in names:
        os.chmod(name, 0o600 + i %% 2)
E
"""


def told(client, number, timeout=60):
    """Waits for the next notification about a watch."""
    while True:
        message = client.notifications.pop(0) if client.notifications else client.receive(timeout)
        if message.get("params", {}).get("watch") == number:
            return message


def flood(daemon, events):
    """The client reads nothing while a command makes events; then it reads what is left of them."""
    with undisturbed(daemon), daemon.connect() as watcher, daemon.connect() as hostile:
        path = daemon.new_workspace(hostile)
        watcher.call("workspace.open", {"root": str(path)})
        number = watcher.call("file.watch", {"path": ".", "recursive": True})["watch"]
        assert hostile.run(FLOOD % (events // 50), timeout_ms=300000)["exit_code"] == 0
        seen = 1
        while (message := told(watcher, number))["params"]["type"] != "overflow":
            seen += 1
        assert seen < events
        # Afterwards it is watched as before.
        hostile.run("mkdir after; touch after/f")
        while told(watcher, number)["params"]["path"] != "after/f":
            pass
        assert watcher.call("file.unwatch", {"watch": number}) == {"unwatched": True}


@pytest.mark.deep("slow")
def test_a_flood_of_events(daemon):
    flood(daemon, 200000)


@pytest.mark.deep("slow")
def test_a_million_events(daemon):
    flood(daemon, 1000000)


@pytest.mark.deep("slow")
def test_a_directory_that_becomes_a_link(daemon, area, client, workspace):
    """What happens outside of the workspace is never told, whatever is renamed while directories are being watched."""
    outside = area.new_directory("outside")
    owner = os.stat(workspace).st_uid
    with acting_as(owner):
        (workspace / "place").mkdir()
        os.symlink(outside, workspace / "other")
    number = client.call("file.watch", {"path": ".", "recursive": True, "entries": True})["watch"]
    with daemon.connect() as hostile:
        hostile.call("workspace.open", {"root": str(workspace)})
        renamer = hostile.begin("run_command", {"command": RENAMER, "timeout_ms": 100000})
        for i in range(300):
            told(client, number)  # it renames on
            with acting_as(owner):
                (outside / f"secret{i}").mkdir()
        with acting_as(owner):
            (workspace / "stop").touch()
        hostile.result(renamer)
    while (params := told(client, number)["params"]).get("path") != "stop":
        assert "secret" not in str(params), params


READY = "send(frame(FILES_NODE, call, files_node('.', kind=2)))\n"
LIES = {
    "an event before the directory": ("send(frame(FILES_EVENT, call, files_event('x')))", False),
    "two directories": (READY + READY, True),
    "a type that is none": (READY + "send(frame(FILES_EVENT, call, files_event('x', kind=9)))", True),
    "no path": (READY + "send(frame(FILES_EVENT, call, files_event('')))", True),
    "a path with a NUL": (READY + r"send(frame(FILES_EVENT, call, files_event('a\0b')))", True),
    "a path that is too long": (READY + "send(frame(FILES_EVENT, call, files_event('x' * 4097)))", True),
    "an entry that is none": (READY + "send(frame(FILES_EVENT, call, files_event('x', node=files_node('x', mode=0o10000))))", True),
    "content": (READY + "send(frame(FILES_DATA, call, b'x'))", True),
    "more than was asked for": (READY + "send(*[frame(FILES_EVENT, call, files_event('x' * 4000))] * 5000)", True),
    "events of another call": (READY + "send(*[frame(FILES_EVENT, call - 1, files_event('x'))] * 10000)", True),
    "an end without a reason": (READY + "send(frame(FILES_END, call, files_end()))", "EXECUTION_ERROR"),
}


def lost(daemon):
    with daemon.control() as control:
        return control.call("status")["files_processes_lost"]


@pytest.mark.parametrize("name", LIES)
def test_lies(lied_to, name):
    lie, begins = LIES[name]
    with undisturbed(lied_to):
        before = lost(lied_to)
        liar = Liar(lied_to, files=f"be_ready(); kind, call, payload, fds = request(FILES_WATCH)\n{lie}\nwait()").open()
        asked = liar.client.request("file.watch", {"path": "."})
        if not begins:
            with pytest.raises(RpcError) as caught:
                liar.client.result(asked)
            assert caught.value.name == "WORKER_LOST", caught.value
        else:
            number = liar.client.result(asked)["watch"]
            # While nobody reads the events, little more is asked for.
            assert begins is not True or procfs.eventually(lambda: lost(lied_to) > before)
            while (message := told(liar.client, number))["method"] == "file.event":
                pass
            assert message["params"]["error"]["code"] == ("WORKER_LOST" if begins is True else begins), message
        liar.close()
