# SPDX-License-Identifier: Apache-2.0
"""The programs run at the level that tests/run has chosen for the suite (tests/lib/daemon.py)."""

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
    # The filters of the files process, of the spawner and of tests/lib/without*.c. The files process installs its own after
    # it has reported that it is ready.
    assert procfs.eventually(
        lambda: int(procfs.status(files)["Seccomp_filters"]) - daemon.filters_before() == 2 + bool(WITHOUT))
    if INSTALLED:
        assert features["cgroups"]
    elif not DELEGATED:
        assert not features["cgroups"]
    print(f"level: build {BUILD.name}, without {WITHOUT}, cgroups {features['cgroups']}, landlock {features['landlock']}")


def test_what_a_filter_does(client, workspace):
    """The commands' filter refuses unshare(2). In the build "kill" it kills the command."""
    number = 272 if platform.machine() == "x86_64" else 97
    program = f"import ctypes; print(ctypes.CDLL(None).syscall({number}, 0))"
    observation = client.observe("run_command", {"command": "exec /usr/bin/python3 -"}, {"stdin": program})
    ended_by = "signal" if BUILD.name == "kill" else "exit"
    assert observation["output"]["ended_by"] == ended_by, observation
    assert observation["output"]["signal"] == ("SIGSYS" if ended_by == "signal" else None), observation
