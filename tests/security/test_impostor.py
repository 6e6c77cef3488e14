# SPDX-License-Identifier: Apache-2.0
"""Somebody else's socket where clients look for the service, as XDG_RUNTIME_DIR of another user leads to."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from cloister_client import acting_as
from daemon import Account, environment

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs several users")


@pytest.fixture(name="stranger", scope="module")
def stranger_fixture():
    account = Account("s")
    yield account
    account.remove()


class Impostor:
    """Listens as an account, says yes to everything, and keeps what it was told."""

    def __init__(self, area, uid):
        self.runtime = area.new_directory("runtime")
        self.told = b""
        (self.runtime / "cloister").mkdir()
        self.runtime.chmod(0o777)
        (self.runtime / "cloister").chmod(0o777)
        self.listeners = []
        for name in ("agent.sock", "control.sock"):
            path = self.runtime / "cloister" / name
            # SO_PEERCRED is whoever calls listen(2).
            with acting_as(uid):
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(str(path))
                listener.listen()
            os.chmod(path, 0o777)
            self.listeners.append(listener)
            threading.Thread(target=self.serve, args=[listener], daemon=True).start()

    def serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                for line in connection.makefile("rb"):
                    self.told += line
                    result = {"tools": [{"name": "impostor"}], "workspace": "w", "version": "impostor"}
                    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}
                    connection.sendall(json.dumps(answer).encode() + b"\n")

    def end(self):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


CLIENTS = [("cloister", "tools"), ("cloister", "--workspace", "managed", "call", "read_file", "path=a"),
           ("cloisterctl", "status"), ("cloisterctl", "--json", "reload")]


def run(area, who, words, **variables):
    """As the area's user, or as root."""
    as_user = area.account.as_user() if who == "user" else {}
    return subprocess.run([area.bin / words[0], *words[1:]], env=environment(area.home) | variables, cwd="/",
                          capture_output=True, text=True, timeout=120, check=False, **as_user)


@pytest.mark.parametrize("words", CLIENTS, ids=" ".join)
@pytest.mark.parametrize("who", ["user", "root"])
def test_a_strangers_socket_is_told_nothing(area, stranger, who, words):
    impostor = Impostor(area, stranger.uid)
    done = run(area, who, words, XDG_RUNTIME_DIR=str(impostor.runtime))
    impostor.end()
    assert impostor.told == b""
    assert "impostor" not in done.stdout
    if words != ("cloister", "tools"):  # which starts a private instance then
        assert done.returncode == 3
        assert "A socket of another user was skipped" in done.stdout + done.stderr


@pytest.mark.parametrize("words", CLIENTS, ids=" ".join)
@pytest.mark.parametrize("who,whose", [("user", "user"), ("user", "root"), ("root", "root")])
def test_ones_own_and_roots_are_believed(area, who, whose, words):
    service = Impostor(area, area.account.uid if whose == "user" else 0)
    run(area, who, words, XDG_RUNTIME_DIR=str(service.runtime))
    service.end()
    assert service.told


@pytest.mark.parametrize("words", [("cloister", "tools"), ("cloisterctl", "status")], ids=" ".join)
def test_what_is_named_is_believed(area, stranger, words):
    service = Impostor(area, stranger.uid)
    name = "agent.sock" if words[0] == "cloister" else "control.sock"
    path = str(service.runtime / "cloister" / name)
    run(area, "user", [words[0], "--socket", path, *words[1:]])
    assert service.told
    service.told = b""
    run(area, "user", words, CLOISTER_SOCKET=path, CLOISTER_CONTROL_SOCKET=path)
    service.end()
    assert service.told


PACKAGED = """
import os, socket, subprocess, sys
words, service, directory, caller = sys.argv[1:5], *map(int, sys.argv[5:8])
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
os.mkdir("/run/cloister")
os.chown("/run/cloister", directory, directory)
listeners = []
for name in ("agent.sock", "control.sock"):
    os.seteuid(0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/run/cloister/" + name)
    os.chmod("/run/cloister/" + name, 0o777)
    os.seteuid(service)
    listener.listen()
    listener.settimeout(120)
    listeners.append(listener)
os.seteuid(0)
listener = listeners[words[0].endswith("ctl")]
client = subprocess.Popen(words[:2], user=caller, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
connection, _ = listener.accept()
connection.settimeout(120)
print(len(connection.recv(1)), flush=True)
connection.close()
client.wait()
"""


@pytest.mark.parametrize("program,word", [("cloister", "tools"), ("cloisterctl", "status")])
@pytest.mark.parametrize("given", [True, False], ids=["given", "not given"])
def test_the_packaged_services_user_is_believed(area, stranger, program, word, given):
    """Whom root has given /run/cloister, and nobody else there."""
    owner = stranger.uid if given else 0
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", sys.executable, "-c", PACKAGED, area.bin / program, word, "", "",
         str(stranger.uid), str(owner), str(area.account.uid)],
        env=environment(area.home), capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == ("1" if given else "0"), done.stderr
