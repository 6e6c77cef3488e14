# SPDX-License-Identifier: Apache-2.0
"""That the level at which tests/run lets the suite run (tests/lib/daemon.py) is what it is called."""

import ctypes
import platform

import procfs
from daemon import BUILD, DELEGATED, INSTALLED, WITHOUT


def has_landlock():
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2


def test_what_there_is(daemon, client, workspace):
    isolation = client.call("workspace.open", {"root": str(workspace)})["isolation"]
    with daemon.control() as control:
        features = {feature["feature"]: feature["present"] for feature in control.call("doctor")["features"]}
    assert isolation["landlock"] == features["landlock"] == (has_landlock() and not (WITHOUT or "").startswith("landlock"))
    _, files = daemon.cell_of(workspace)
    # Its own, the spawner's, and tests/lib/without*.c's; the first comes after what it says when it is ready.
    assert procfs.eventually(
        lambda: int(procfs.status(files)["Seccomp_filters"]) - daemon.filters_before() == 2 + bool(WITHOUT))
    if INSTALLED:
        assert features["cgroups"]
    elif not DELEGATED:
        assert not features["cgroups"]
    print(f"level: build {BUILD.name}, without {WITHOUT}, cgroups {features['cgroups']}, landlock {features['landlock']}")


def test_what_a_filter_does(client, workspace):
    """To a command that would unshare(2)."""
    number = 272 if platform.machine() == "x86_64" else 97
    program = f"import ctypes; print(ctypes.CDLL(None).syscall({number}, 0))"
    observation = client.observe("run_command", {"command": "exec /usr/bin/python3 -"}, {"stdin": program})
    ended_by = "signal" if BUILD.name == "kill" else "exit"
    assert observation["output"]["ended_by"] == ended_by, observation
    assert observation["output"]["signal"] == ("SIGSYS" if ended_by == "signal" else None), observation
