# SPDX-License-Identifier: Apache-2.0
"""A call is answered at its deadline, or at most so long after it as its command, or the files process, is given to end;
also where a workspace's processes are stopped, which a debugger or a cgroup can do to them."""

import os
import signal
import time

import pytest

import procfs

AFTER = 5  # LIMIT_TERM_GRACE_MS and LIMIT_FILES_REPORT_MS, in seconds
MARGIN = 4  # for a busy machine; what was waited for before, twice or four times as long, is beyond it


@pytest.fixture
def cell(own_daemon):
    client = own_daemon.connect()
    path = own_daemon.new_workspace(client)
    return client, own_daemon.cell_of(path)


def took(client, number):
    begun = procfs.free_seconds()
    observation = client.result(number)
    return procfs.free_seconds() - begun, observation


def test_of_a_stopped_files_process(cell):
    client, (_, files) = cell
    client.use("write_file", path="f", content="x")
    os.kill(files, signal.SIGSTOP)
    begun = time.monotonic()
    seconds, observation = took(client, client.begin("read_file", {"path": "f"}, {"timeout_ms": 1000}))
    assert not observation["success"]
    assert time.monotonic() - begun >= 1 and seconds < 1 + AFTER + MARGIN
    assert client.use("read_file", path="f")["content"].endswith("x")


def test_of_a_stopped_worker(cell):
    client, (worker, _) = cell
    number = client.begin("run_command", {"command": "sleep 600", "timeout_ms": 2000})
    assert procfs.eventually(lambda: any(procfs.name(pid) == "sleep" for pid in procfs.descendants(worker)))
    os.kill(worker, signal.SIGSTOP)
    seconds, observation = took(client, number)
    assert not observation["success"]
    assert seconds < 2 + AFTER + MARGIN
    assert client.run("echo again")["stdout"] == "again\n"


def test_a_command_that_uses_its_grace_costs_no_other(cell):
    """A worker that listens is not taken for one that is stopped, though more is told to it all the time."""
    client, (worker, _) = cell
    client.run("echo > mine")
    other = client.begin("run_command", {"command": "sleep 12; echo whole", "timeout_ms": 60000})
    number = client.begin("run_command", {"command": "trap '' TERM; while :; do sleep 1; done", "timeout_ms": 1000})
    answered = []
    while not answered:
        assert client.run("true")["exit_code"] == 0
        answered = [answer for answer in client.answers if answer["id"] == number]
    assert answered[0]["result"]["error"]["code"] == "TIMEOUT"
    assert client.result(other)["output"]["stdout"] == "whole\n"
    assert procfs.is_alive(worker)
