# SPDX-License-Identifier: Apache-2.0
"""What one client's flood of requests does to another's commands, and what a command can tell its init."""

import os
import signal
import subprocess
import threading
import time

import procfs
import pytest
from daemon import is_sanitized

NOTHING = b'{"jsonrpc":"2.0","method":"x"}\n' * 4096


KNOCKER = """
import os, socket, sys
for _ in range(2):
    os.fork()
while True:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(sys.argv[1])
    except OSError:
        pass
    s.close()
"""


@pytest.fixture(params=["requests", "connections"])
def flooded(own_daemon, request):
    """A daemon that others send requests to, or connect to, without a pause."""
    over = threading.Event()
    clients, knockers = [], []

    def flood(client):
        try:
            while not over.is_set():
                client.socket.sendall(NOTHING)
        except OSError:
            pass

    if request.param == "requests":
        clients = [own_daemon.connect() for _ in range(2)]
    threads = [threading.Thread(target=flood, args=(client,)) for client in clients]

    def start():
        for thread in threads:
            thread.start()
        if request.param == "connections":
            knockers.append(subprocess.Popen(["/usr/bin/python3", "-c", KNOCKER, str(own_daemon.socket)],
                                             start_new_session=True, **own_daemon.account.as_user()))
        time.sleep(0.3)

    yield own_daemon, start
    over.set()
    for knocker in knockers:
        os.killpg(knocker.pid, signal.SIGKILL)
        knocker.wait()
    for client in clients:
        client.close()
    for thread in threads:
        thread.join()


@pytest.mark.deep("slow")
def test_a_flood_of_requests_ends_nobodys_command(flooded, area):
    daemon, start = flooded
    idle = 15 if is_sanitized() else 5  # seconds; it speaks all the time, and for longer
    with daemon.connect() as client:
        client.call("workspace.open", {"root": str(area.new_directory())})
        client.run("true")
        start()
        observation = client.observe("run_command", {
            "command": f"end=$(($(date +%s)+{idle + 2})); while [ $(date +%s) -lt $end ]; do echo; sleep 0.05; done",
            "timeout_ms": 120000}, {"idle_timeout_ms": 1000 * idle})
        assert observation["success"], observation["error"]


@pytest.mark.deep("slow")
def test_a_flood_of_requests_holds_up_nobodys_output(flooded, area):
    daemon, start = flooded
    with daemon.connect() as client:
        client.call("workspace.open", {"root": str(area.new_directory())})
        client.run("true")
        start()
        # More than a pipe holds: it ends only if somebody reads.
        observation = client.observe("run_command", {
            "command": "head -c 1000000 /dev/zero | tr '\\0' a", "timeout_ms": 40000})
        assert observation["success"], observation["error"]


DECEIVER = """
import ctypes, errno, os, signal, struct, time
libc = ctypes.CDLL(None, use_errno=True)
info = struct.pack("iiiiiiQ", signal.SIGTERM, 0, -1, 0, 0, os.getuid(), 0).ljust(128, b"\\0")
signal.signal(signal.SIGTERM, lambda *_: print("obeyed", flush=True))
# Landlock, where it scopes signals, does not even let it try.
assert libc.syscall(129, 1, signal.SIGTERM, info) == 0 or ctypes.get_errno() == errno.EPERM, ctypes.get_errno()
time.sleep(0.5)
print("end", flush=True)
"""

SWALLOWER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        while True:
            os.kill(1, signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
open("begun", "w").close()
while True:
    time.sleep(1)
"""


def test_a_command_does_not_speak_for_the_worker(own_daemon, area):
    with own_daemon.connect() as client:
        client.call("workspace.open", {"root": str(area.new_directory())})
        output = client.run("/usr/bin/python3 -", {"stdin": DECEIVER})
        assert output["stdout"] == "end\n"


@pytest.mark.deep("busy")
def test_a_command_does_not_shut_its_inits_ears(own_daemon, area):
    """It is told to end, and not killed when its grace is over, however many signals like the worker's it sends."""
    with own_daemon.connect() as client:
        path = own_daemon.new_workspace(client)
        for _ in range(5):
            call = client.begin("run_command", {"command": "exec /usr/bin/python3 -"}, {"stdin": SWALLOWER})
            assert procfs.eventually((path / "begun").exists)
            time.sleep(0.2)  # for many signals
            assert client.cancel(call)
            observation = client.result(call)
            assert observation["error"]["code"] == "CANCELLED"
            assert observation["output"]["exit_code"] == 7, "it was not told"
            (path / "begun").unlink()
