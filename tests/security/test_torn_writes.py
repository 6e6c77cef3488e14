# SPDX-License-Identifier: Apache-2.0
"""write_file while its processes are killed: the file has the old or the new content, complete.

At every system call (needs root, for ptrace), and at random moments. CLOISTER_SOAK=full makes thousands of
those, CLOISTER_SEED repeats a run's choices.
"""

import collections
import os
import random
import re
import signal
import time

import procfs
import pytest
from cells import Cell
from cloister_client import acting_as
from daemon import AM_ROOT
from killer import Killer

SOAK = os.environ.get("CLOISTER_SOAK", "")
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
OLD, NEW = "old line\n" * 100, "a new line\n" * 100
TEMPORARY = re.compile(r"\.cloister-[0-9a-f]{16}")
MODES = ["durable", "fast"]
LARGE = 200  # times NEW: several frames
DEATHS = 5  # deaths per workspace, because the pause grows after each


def begin_write(client, name, mode, times=1):
    return client.begin("write_file", {"path": name, "content": NEW * times}, {"durability": mode})


def reopen(client):
    """Makes calls until one finds the workspace open; a call that meets the last death is lost."""
    for _ in range(3):
        observation = client.observe("list_directory", {"path": "."}, {"gitignore": False})
        if observation["success"]:
            return observation["output"]
        assert observation["error"]["code"] == "WORKER_LOST", observation
    raise AssertionError("the workspace does not open again")


class Check:
    """Looks at a directory after each death."""

    def __init__(self, path=None):
        self.path = path
        self.seen = {"old": 0, "new": 0, "absent": 0, "left": 0}

    def look(self, name, was_there, times=1):
        names = os.listdir(self.path)
        left = [entry for entry in names if TEMPORARY.fullmatch(entry)]
        assert set(names) - {name} == set(left), names
        assert len(left) <= 1, left
        self.seen["left"] += len(left)
        if name not in names:
            assert not was_there
            self.seen["absent"] += 1
            return
        content = (self.path / name).read_text()
        allowed = (OLD, NEW * times) if was_there else (NEW * times,)
        assert content in allowed, f"{len(content)} bytes, {content[:20]!r}…"
        self.seen["old" if content == OLD else "new"] += 1

    def nothing_shown(self, client):
        """Temporary files are not listed or found, and are removed soon after the workspace is opened again."""
        reopen(client)
        entries = client.use("list_directory", {"gitignore": False}, path=".", recursive=True)["entries"]
        assert not [entry for entry in entries if ".cloister-" in entry["path"]]
        found = client.use("search_files", {"gitignore": False}, pattern="line")["matches"]
        assert not [match for match in found if ".cloister-" in match["path"]]
        assert procfs.eventually(lambda: not [n for n in os.listdir(self.path) if TEMPORARY.fullmatch(n)])


def files_of(daemon, path):
    """Returns the files process of the workspace when its sweep is over."""
    def found():
        _, files = daemon.cell_of(path)
        return not procfs.children(files) and files
    files = procfs.eventually(found)
    assert files
    return files


@pytest.mark.deep("slow")
@pytest.mark.skipif(not AM_ROOT, reason="only root may trace an undumpable process")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("was_there", [True, False], ids=["replaced", "made"])
def test_the_files_process_dies_at_every_step(daemon, mode, was_there):
    client = daemon.connect()
    check, count, killed = Check(), 0, True
    while killed:
        if count % DEATHS == 0:
            path = check.path = daemon.new_workspace(client)
        count += 1
        reopen(client)
        files = files_of(daemon, path)
        with acting_as(daemon.account.uid, daemon.account.gid):
            (path / "f").write_text(OLD) if was_there else (path / "f").unlink(missing_ok=True)
        killer = Killer(files, count)
        observation = client.result(begin_write(client, "f", mode))
        killed = killer.end()
        assert observation["success"] or observation["error"]["code"] == "WORKER_LOST", observation
        check.look("f", was_there)
        check.nothing_shown(client)
    assert observation["success"]
    print(count, check.seen)
    client.close()
    assert procfs.eventually(lambda: not daemon.cells())
    # The deaths came before, after, and between link and rename.
    assert count > 20
    assert check.seen["old" if was_there else "absent"] > 10 and check.seen["new"] > 1
    assert (check.seen["left"] > 0) is was_there


@pytest.mark.skipif(not AM_ROOT, reason="only root may trace an undumpable process")
@pytest.mark.parametrize("was_there", [True, False], ids=["replaced", "made"])
def test_cloisterd_dies_at_every_step(start_daemon, was_there):
    path, check, count, killed = None, None, 0, True
    while killed:
        count += 1
        daemon = start_daemon()
        client = daemon.connect()
        if not path:
            path = daemon.area.new_directory()
            check = Check(path)
        client.call("workspace.open", {"root": str(path)})
        if count > 1:
            check.nothing_shown(client)
        with acting_as(daemon.account.uid, daemon.account.gid):
            (path / "f").write_text(OLD) if was_there else (path / "f").unlink(missing_ok=True)
        worker, files = daemon.cell_of(path)
        killer = Killer(daemon.pid, count)
        try:
            assert client.result(begin_write(client, "f", "durable"))["success"]
        except (ConnectionError, BrokenPipeError):
            pass
        killed = killer.end()
        if killed:
            daemon.process.wait(120)
        else:
            assert daemon.stop() == 0
        assert procfs.vanish([worker, files])
        check.look("f", was_there)
    print(count, check.seen)
    assert count > 8 and check.seen["old" if was_there else "absent"] > 2 and check.seen["new"]


@pytest.mark.deep("busy")
def test_deaths_at_random_moments(own_daemon):
    print(f"CLOISTER_SEED={SEED}")
    choose = random.Random(SEED)
    check = Check()
    rounds, longest = 3000 if SOAK == "full" else 60, 0.003
    for n in range(rounds):
        if n % DEATHS == 0:
            cell = Cell(own_daemon)
            client, check.path = cell.client, cell.path
        cell.write("f", OLD)
        reopen(client)
        files = files_of(own_daemon, cell.path)
        number = begin_write(client, "f", choose.choice(MODES), LARGE)
        time.sleep(choose.uniform(0, longest))
        try:
            os.kill(files, signal.SIGKILL)
        except ProcessLookupError:
            pass
        observation = client.result(number)
        assert observation["success"] or observation["error"]["code"] == "WORKER_LOST", observation
        check.look("f", True, LARGE)
        # The delay adapts, so that half of the deaths come before the end of a write.
        longest *= 0.9 if observation["success"] or (cell.path / "f").read_text() != OLD else 1.1
        assert not observation["success"] or (cell.path / "f").read_text() == NEW * LARGE
        assert reopen(client)["count"] == 1
        check.nothing_shown(client)
    print(check.seen)
    assert check.seen["old"] and check.seen["new"]


# A patch of 20 files: all or nothing, or the answer says what each file is.

PATCHED = 20
ORDER = ["changed", "unknown", "unchanged"]


def patch_of(directory):
    """Updates, additions, deletions and moves by turns, in a directory made for them: the patch and the trees around it."""
    lines, before, after = ["*** Begin Patch"], {}, {}
    for i in range(PATCHED):
        name = f"{directory}/{i:02}"
        if i % 4 == 1:
            lines += [f"*** Add File: {name}", "+new"]
            after[name] = "new\n"
            continue
        before[name] = OLD
        if i % 4 == 2:
            lines.append(f"*** Delete File: {name}")
            continue
        lines.append(f"*** Update File: {name}")
        if i % 4 == 3:
            lines.append(f"*** Move to: {name}-moved")
        lines += ["@@", "+new", "*** End of File"]
        after[name + "-moved" * (i % 4 == 3)] = OLD + "new\n"
    return "\n".join([*lines, "*** End Patch"]), before, after


def names_of(i, directory):
    return {f"{directory}/{i:02}", f"{directory}/{i:02}-moved"}


class PatchCheck:
    """Looks at the files after each death."""

    def __init__(self):
        self.seen = collections.Counter()

    def look_again(self, path, directory, observation, before, after):
        """After the same call with its key: all is done now, or the answer says what each file is."""
        now = {str(file.relative_to(path)): file.read_text() for file in (path / directory).iterdir()
               if not TEMPORARY.fullmatch(file.name)}
        if observation["success"]:
            assert now == after
            self.seen["resolved" if observation.get("resolved") else "made"] += 1
            return
        assert observation["error"]["code"] == "OUTCOME_UNKNOWN" and observation["notes"], observation
        states = [file["state"] for file in observation["error"]["data"]["files"]]
        for i, state in enumerate(states):
            found = {name: now[name] for name in names_of(i, directory) if name in now}
            old = {name: before[name] for name in names_of(i, directory) if name in before}
            new = {name: after[name] for name in names_of(i, directory) if name in after}
            assert found == {"unchanged": old, "changed": new, "other": {**old, **new}}[state], (i, state, found)
        assert len(states) == PATCHED and len(set(states)) > 1
        self.seen["mixed"] += 1

    def look(self, path, directory, observation, before, after):
        now = {str(file.relative_to(path)): file.read_text() for file in (path / directory).iterdir()
               if not TEMPORARY.fullmatch(file.name)}
        states = ["changed" if observation["success"] else "unchanged"] * PATCHED
        if not observation["success"]:
            error = observation["error"]
            assert error["code"] == "WORKER_LOST", observation
            if "data" in error:
                states = [file["state"] for file in error["data"]["files"]]
                assert len(states) == PATCHED
                assert observation["notes"], observation
        for i, state in enumerate(states):
            found = {name: now[name] for name in names_of(i, directory) if name in now}
            old = {name: before[name] for name in names_of(i, directory) if name in before}
            new = {name: after[name] for name in names_of(i, directory) if name in after}
            # A move that is cut short has both names, and no content is lost.
            allowed = {"unchanged": [old], "changed": [new], "unknown": [old, new, {**old, **new}]}[state]
            assert found in allowed, (i, state, sorted(found), observation)
        assert states.count("unknown") <= 1 and states == sorted(states, key=ORDER.index), states
        self.seen["unknown"] += "unknown" in states
        self.seen["none" if states == ["unchanged"] * PATCHED else "whole" if states == ["changed"] * PATCHED else "part"] += 1


@pytest.mark.deep("slow")
@pytest.mark.skipif(not AM_ROOT, reason="only root may trace an undumpable process")
@pytest.mark.parametrize("keyed", [False, True])
def test_the_files_process_dies_at_every_step_of_a_patch(daemon, keyed):
    """
    At some of the steps; CLOISTER_SOAK=full: at each step of the changes. Those before them make nothing that is seen. With
    a key the same call is made again.
    """
    client = daemon.connect()
    check, count, deaths, killed = PatchCheck(), 1, 0, True
    while killed:
        if deaths % DEATHS == 0:
            path = daemon.new_workspace(client)
        deaths += 1
        directory = f"d{deaths}"
        text, before, after = patch_of(directory)
        reopen(client)
        files = files_of(daemon, path)
        with acting_as(daemon.account.uid, daemon.account.gid):
            (path / directory).mkdir()
            for name, content in before.items():
                (path / name).write_text(content)
        killer = Killer(files, count)
        call = ("apply_patch", {"patch": text}, {"durability": "fast", **({"key": directory} if keyed else {})})
        observation = client.result(client.begin(*call))
        killed = killer.end()
        check.look(path, directory, observation, before, after)
        if keyed and not observation["success"]:
            reopen(client)
            check.look_again(path, directory, client.result(client.begin(*call)), before, after)
        if not killed:
            break
        changing = "data" in (observation["error"] or {})
        # Not a divisor of the number of steps of a file, so that deaths come at different steps of each.
        count += 40 if not changing else 1 if SOAK == "full" else 23 if keyed else 17
    print(count, deaths, check.seen)
    assert observation["success"] and reopen(client)
    assert procfs.eventually(lambda: not [name for _, _, names in os.walk(path) for name in names if TEMPORARY.fullmatch(name)])
    client.close()
    assert check.seen["none"] > 5 and check.seen["part"] > 12 and check.seen["unknown"] > 12
    assert not keyed or (check.seen["mixed"] > 10 and check.seen["made"] > 5)
