# SPDX-License-Identifier: Apache-2.0
"""egress_secret: nothing shows a secret, and real clients use one, also from within a workspace."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import egress
import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, Account
from secret_host import SECRET, api, ask, authorities, get, names, running, start


def test_nothing_shows_the_secret(running, api, account):
    """Not the process's memory to its own user, not a core, and none of the files of /proc that others can read."""
    ask(running.open(), get())
    pid = running.process.pid
    for file in ("cmdline", "environ", "maps"):
        with contextlib.suppress(PermissionError):
            assert SECRET.encode() not in pathlib.Path(f"/proc/{pid}/{file}").read_bytes()
    as_user = subprocess.run([sys.executable, "-c", "import ctypes, os, sys\n"
                              "pid = int(sys.argv[1])\n"
                              "try:\n    os.open(f'/proc/{pid}/mem', os.O_RDONLY)\n"
                              "except PermissionError:\n    print('mem')\n"
                              "try:\n    open(f'/proc/{pid}/environ').read()\n"
                              "except PermissionError:\n    print('environ')\n"
                              "libc = ctypes.CDLL(None, use_errno=True)\n"
                              "if libc.ptrace(16, pid, 0, 0) < 0:\n    print('attach')\n", str(pid)],
                             user=account.uid, extra_groups=[], capture_output=True, text=True, timeout=egress.WAIT_S)
    assert as_user.stdout.split() == ["mem", "environ", "attach"], as_user
    if os.getuid() == 0:  # the pages of the secret are left out of a core even if one is made
        flags = [line for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines() if line.startswith("VmFlags")]
        assert sum(" dd" in line for line in flags) >= 1
        left = copies(pid)
        assert left and all(left.values()), left


def copies(pid):
    """Where the secret is in the process's memory: for each address, whether a core would leave it out."""
    found, area, is_left_out = {}, None, {}
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            area = tuple(int(end, 16) for end in words[0].split("-"))
        elif words[0] == "VmFlags:":
            is_left_out[area] = "dd" in words
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for (begin, end), out in is_left_out.items():
            if end - begin > 1 << 32:
                continue  # AddressSanitizer's own, which has no byte of the program
            with contextlib.suppress(OSError, OverflowError):
                memory.seek(begin)
                if SECRET.encode() in memory.read(end - begin):
                    found[hex(begin)] = out
    return found


def curl(port, *arguments):
    return subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(egress.WAIT_S), *arguments],
                          env={"http_proxy": f"http://127.0.0.1:{port}", "PATH": os.environ["PATH"]},
                          capture_output=True, text=True, timeout=2 * egress.WAIT_S)


def test_curl(running, api):
    ended = curl(running.open(), "--user", "forged:forged", "http://openai.cloister.internal/v1/models")
    assert (ended.stdout, ended.stderr) == ("ok", "")
    assert api.head().startswith(b"GET /v1/models HTTP/1.1\r\n") and b"forged" not in api.head()
    ended = curl(running.cells[1].getsockname()[1], "--data", "x" * 100_000, "http://openai.cloister.internal/v1/chat")
    assert ended.stdout == "ok" and api.requests[1][1] == b"x" * 100_000


CLIENT = """
import json, os, sys, urllib.request
# What an SDK does: a base URL and a key, which is any word here; a stream of events.
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps({"stream": True}).encode(),
                                 {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    for line in answer:
        if line.startswith(b"data: "):
            print(line[6:].decode().strip())
"""


def test_python(running, api):
    chunks = [b"data: %s\n\n" % json.dumps({"n": number}).encode() for number in range(5)] + [b"data: [DONE]\n\n"]
    api.answer = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
                  b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n")
    ended = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, timeout=2 * egress.WAIT_S,
                           env={"http_proxy": f"http://127.0.0.1:{running.open()}", "OPENAI_API_KEY": "forged",
                                "OPENAI_BASE_URL": "http://openai.cloister.internal/v1"})
    assert ended.stdout.split("\n")[-2:] == ["[DONE]", ""], ended
    head, body = api.requests[0]
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n") and b"forged" not in head
    assert body == b'{"stream": true}'


# From here on cloisterd starts cloister-egress, or has it connect, and a workspace asks.

REAL = """[cloister]
{host}
audit = on
egress_resolver = {resolver}
egress_ca = {directory}/ca.pem
[tenant net]
users = {user}
managed = yes
network = egress
egress_private = 127.0.0.0/8
egress_secret = openai host=api.test:{port} header="Authorization: Bearer" file={directory}/key
environment = OPENAI_BASE_URL=http://openai.cloister.internal/v1
environment = OPENAI_API_KEY=forged
[tenant else]
users = {user}
managed = yes
network = egress
egress_private = 127.0.0.0/8
"""


@pytest.fixture(params=["user", "system"])
def real(start_daemon, area, names, authorities, api, request):
    directory = pathlib.Path(area.new_directory("real"))
    directory.chmod(0o755)
    (directory / "ca.pem").write_bytes(authorities[0].certificate.read_bytes())
    key = directory / "key"
    key.write_text(SECRET + "\n")
    values = {"resolver": names.address, "directory": directory, "port": api.port, "user": area.account.name}
    if request.param == "user":
        key.chmod(0o600)
        area.account.own(key)
        yield start_daemon(config=REAL.format(host="", **values), system=False)
        return
    if not AM_ROOT:
        pytest.skip("needs root to make users and map ids")
    user = Account("s")
    os.chown(key, 0, user.gid)
    key.chmod(0o640)
    config = REAL.replace("{host}", "mode = system\negress_socket = {directory}/egress.sock\negress_user = " + user.name)
    area.account.own(directory)  # cloisterd makes the socket there
    daemon = start_daemon(config=config.format(**values), system=True)
    with acting_as(os.getuid()):
        running = subprocess.Popen([area.bin / "cloister-egress", "system", daemon.config, directory / "egress.sock"],
                                   stdin=subprocess.DEVNULL, user=user.uid, group=user.gid, extra_groups=[])
    assert procfs.eventually(lambda: "cloister-egress has connected" in daemon.log())
    yield daemon
    running.kill()
    running.wait(egress.WAIT_S)
    user.remove()


def test_in_a_workspace(real, api):
    """A program uses the secret by a variable of the environment; nobody on this side of the host has seen it."""
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "one", "tenant": "net"})
        used = client.observe("run_command", {"command": "curl -sS --data '{}' $OPENAI_BASE_URL/chat/completions"})
        assert used["output"]["stdout"] == "ok" and "network" in used, used
        assert used["network"]["connections"] == 1 and used["network"]["denied"] == []
        assert f"Authorization: Bearer {SECRET}\r\n" in api.head().decode()
        absent = client.observe("run_command", {"command": "curl -sSf http://absent.cloister.internal/"})
        assert "network" in absent, absent
        assert [refused["reason"] for refused in absent["network"]["denied"]] == ["unknown_secret"]
        assert "absent.cloister.internal stands for no secret of this workspace; there are: " \
            "http://openai.cloister.internal/" in absent["notes"], absent
        seen = client.observe("run_command", {"command": "env; set; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; true"})
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "two", "tenant": "else"})
        other = client.observe("run_command", {"command": "curl -sSf http://openai.cloister.internal/"})
        assert "network" in other, other
        assert [refused["reason"] for refused in other["network"]["denied"]] == ["unknown_secret"]
        assert "there are: none" in " ".join(other["notes"]), other
    assert len(api.requests) == 1
    real.stop()
    state = [path.read_bytes() for path in pathlib.Path(real.state).rglob("*") if path.is_file()]
    assert b'"host":"api.test"' in b"".join(state)
    for text in (json.dumps([used, absent, seen, other]).encode(), real.log().encode(), *state):
        assert SECRET.encode() not in text
