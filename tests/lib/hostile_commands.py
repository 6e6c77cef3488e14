# SPDX-License-Identifier: Apache-2.0
"""Hostile commands in a workspace that they may ruin, while another workspace is served: cloister ends each in bounded
time and reports the true cause, and no process of it is alive when its answer comes."""

import procfs
import pytest
from attacks import KINDS
from cells import Bystander, Cell
from daemon import INSTALLED, is_sanitized

OPEN_FILES = 4096  # DEFAULT_OPEN_FILES
GRACE = 5.0  # LIMIT_TERM_GRACE_MS

# Sanitizers, a busy machine and emulation slow everything down. A hang takes longer than this.
SLOW = 10 if INSTALLED else 3 if is_sanitized() else 1
PATIENCE = 5 * SLOW  # in the same unit, for another workspace's read_file
SOON = 10 * SLOW  # in procfs.free_seconds(), for a command that waits for nothing
PYTHON = "/usr/bin/python3 -"  # the program is standard input

# For every program here: system calls that return their error.
PRELUDE = """
import ctypes, errno, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    'The name of the error of a call, or its result.'
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
"""

# A session's end must leave as little as a call's. It is a call that nobody waits for, and a terminal is a session: the check
# runs each attack in the two that differ most. A terminal has no other input than keys.
SESSION = pytest.param("session", marks=pytest.mark.deep("repeats"))
also_as_session = pytest.mark.parametrize("cell", ["command", SESSION], indirect=True)
as_each_kind = pytest.mark.parametrize("cell", ["command", SESSION, "terminal"], indirect=True)


@pytest.fixture(scope="module")
def bystander(daemon):
    cell = Bystander(daemon, PATIENCE)
    cell.kind = "command"
    yield cell
    cell.check()
    cell.close()


@pytest.fixture
def cell(daemon, bystander, request):
    """A workspace that one test may ruin. Its commands are calls, unless the test is also run with sessions."""
    made = Cell(daemon)
    made.kind = getattr(request, "param", "command")
    yield made
    made.close()


def begin(cell, command, options=None, **arguments):
    """Sends a hostile command, as the kind of attack that the test is run with."""
    return KINDS[cell.kind](cell, command, options, **arguments)


def attack(cell, bystander, command, options=None, within=SOON, **arguments):
    """Runs a hostile command while another workspace is served. Returns the observation."""
    sent = begin(cell, command, options, **arguments)
    bystander.check()
    observation = sent.observe(within)
    assert not cell.command_processes()
    return observation


def endures(cell, bystander, command, **keywords):
    """Runs a command that ends by itself. Returns its output."""
    observation = attack(cell, bystander, command, **keywords)
    assert observation["success"], observation["error"]
    assert observation["output"]["ended_by"] in ("exit", "signal")
    assert observation["output"]["timed_out"] is False
    return observation["output"]


def program(cell, bystander, text, command=PYTHON, **keywords):
    """Runs a Python program that must exit with 0. Returns its output."""
    output = endures(cell, bystander, command, options={"stdin": PRELUDE + text}, **keywords)
    assert output["exit_code"] == 0, output
    return output


ERRORS = {"timeout": "TIMEOUT", "output_limit": "OUTPUT_LIMIT", "cancel": "CANCELLED"}


def is_ended(observation, by):
    assert not observation["success"], observation["output"]
    assert observation["error"]["code"] == ERRORS[by], observation["error"]
    assert observation["output"]["ended_by"] == by
    assert observation["output"]["timed_out"] is (by == "timeout")
    return observation["output"]


def ended(by, cell, bystander, command, **keywords):
    """Runs a command that cloister ends. Returns its output."""
    return is_ended(attack(cell, bystander, command, **keywords), by)


def cancelled(cell, bystander, command, state="", file=".", within=SOON, **keywords):
    """Cancels a command once it runs (or is in @state) and has made the file. Returns its output."""
    sent = begin(cell, command, **keywords)
    sent.runs(state)
    assert procfs.eventually((cell.path / file).exists)
    bystander.check()
    sent.cancel()
    output = is_ended(sent.observe(within), "cancel")
    assert not cell.command_processes()
    return output
