# SPDX-License-Identifier: Apache-2.0
"""Replaces cloister-worker and cloister-files (tests/lib/stand_in.c). It has their descriptors and, as the worker, its
capabilities. In a workspace with a file .lie-worker or .lie-files it runs the Python code in that file; in other
workspaces it executes the real program."""

import os
import socket
import sys
import time  # noqa: F401  (for the code in the file)

program, kind, workspace = sys.argv[1:4] if len(sys.argv) > 3 else (*sys.argv[1:3], "")
sys.path.insert(0, os.path.dirname(program))
name = os.path.basename(program).removeprefix("cloister-")
if kind.startswith("managed") or not os.path.exists(workspace):  # it is where commands see it; here is its detached mount
    workspace = "/proc/self/fd/5"
try:
    with open(f"{workspace}/.lie-{name}") as file:
        lie = file.read()
except OSError:
    os.execv(program + ".real", [f"cloister-{name}", *sys.argv[2:]])

with open("/proc/self/comm", "w") as file:
    file.write(f"cloister-{name}")

from wire import *  # noqa: E402, F403

DOWN, UP = 3, 4
down = socket.socket(fileno=DOWN)
down.setblocking(True)
requests = of_socket(down)


def send(*data):
    data = b"".join(data)
    while data:
        data = data[os.write(UP, data):]


def request(*kinds):
    """Returns the next request of one of the kinds: (type, call, payload, descriptors). Exits when cloisterd closes the
    connection."""
    while True:
        got = requests.next()
        if not got:
            sys.exit(0)
        if got[0] in kinds or not kinds:
            return got


def note(value):
    """Writes a line for the test."""
    with open(f"{workspace}/.note-{name}", "a") as out:
        print(value, file=out)


def be_ready():
    send(frame(READY, 0, files_ready() if name == "files" else b""))


def wait():
    """Waits until cloisterd closes the connection."""
    while True:
        request()


try:
    exec(compile(lie, f".lie-{name}", "exec"))
except (BrokenPipeError, ConnectionError):
    sys.exit(0)
except Exception as error:
    note(f"the lie failed: {error!r}")
    raise
