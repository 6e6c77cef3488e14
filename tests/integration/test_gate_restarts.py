# SPDX-License-Identifier: Apache-2.0
"""What clients of cloister-gate notice when it restarts, when another cloisterd takes over, and when its certificate is renewed."""

import base64
import contextlib
import os
import pathlib
import signal
import ssl

import pytest

import procfs
from cloister_client import acting_as
from daemon import Daemon
from e2b_client import END, Sandbox, ask
from http_gate import HttpGate, call, daemon_behind, handshake, make_certificate, tls_settings

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")
GO = "until [ -e go ]; do sleep 0.1; done; "


def config(user, owner):
    return "\n".join(["[cloister]", "agent_socket_mode = 0666", f"gate_user = {user.name}", "[tenant blue]", f"users = {owner.name}",
                      "managed = yes", "gate = yes", "tools = basic sessions", ""])


@pytest.fixture
def daemon(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as running:
        yield running


@pytest.fixture
def gate(area, daemon, tenants):
    running = HttpGate(area, daemon, tenants[1])
    yield running
    assert running.stop() == 0


@contextlib.contextmanager
def taken_over(area, daemon, tenants):
    """Another cloisterd in the place of @daemon."""
    second = Daemon(area, config=config(tenants[1], tenants[0]), system=False, former=daemon)
    daemon.stop, stop = second.stop, daemon.stop
    yield second
    del stop


def start(box, command, **more):
    """Starts a process. Returns its pid and its stream."""
    stream = box.stream("process.Process/Start", process={"cmd": "/bin/bash", "args": ["-c", command]}, **more)
    return next(stream)[1]["event"]["start"]["pid"], stream


def rest_of(stream):
    """Returns what the stream's process writes from now on, and how it ends."""
    out, end = b"", None
    for flags, message in stream:
        event = message.get("event", {})
        out += base64.b64decode(event.get("data", {}).get("stdout", ""))
        end = event.get("end", end)
    return out, end


def test_commands_go_on_while_the_gate_restarts(gate):
    box = Sandbox(gate, gate.key("blue")["key"])
    pid, stream = start(box, GO + "echo done; exit 3")
    gate.stop()
    with pytest.raises((AssertionError, EOFError, OSError)):  # it breaks off, and has no end that a client would believe
        rest_of(stream)
    gate.start()
    status, processes = box.rpc("process.Process/List")
    assert status == 200 and [process["pid"] for process in processes["processes"]] == [pid]
    again = box.stream("process.Process/Connect", process={"pid": pid})
    assert next(again)[1]["event"]["start"]["pid"] == pid
    assert box.request("POST", "/files?path=go", "Content-Type: application/octet-stream", body=b"x").status == 200
    assert rest_of(again) == (b"done\n", {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"})
    assert box.kill() == 204


def test_clients_notice_nothing_when_a_cloisterd_takes_over(area, daemon, gate, tenants):
    key = gate.key("blue")["key"]
    busy, idle = Sandbox(gate, key), Sandbox(gate, key)
    native = gate.agent(key)
    assert call(native, "workspace.open", {"workspace": "own"})["workspace"] == "own"
    pid, stream = start(busy, GO + "echo done")
    assert idle.run("echo here > file")[1]["exitCode"] == 0
    with taken_over(area, daemon, tenants):
        # What runs goes on where it is, and its sandbox can be used meanwhile.
        assert [process["pid"] for process in busy.rpc("process.Process/List")[1]["processes"]] == [pid]
        assert busy.run("echo beside")[0]["stdout"] == b"beside\n"
        # What rests is there at once.
        assert idle.run("cat file")[0]["stdout"] == b"here\n"
        new = Sandbox(gate, key)
        assert new.run("echo new")[0]["stdout"] == b"new\n"
        assert busy.run("echo x > go")[1]["exitCode"] == 0
        assert rest_of(stream)[0] == b"done\n"
        assert busy.run("cat go")[0]["stdout"] == b"x\n"
        assert daemon.process.wait(60) == 0
        assert busy.run("cat go")[0]["stdout"] == b"x\n"
        assert busy.request("GET", "/files?path=go").body == b"x\n"
        # A native client is told, as on the agent socket.
        while b"service.retiring" not in native.read:
            assert native.more()
        assert [one.kill() for one in (busy, idle, new)] == [204] * 3


def certificate_of(gate):
    with handshake(gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) as connection:
        return connection.socket.getpeercert(binary_form=True)


def test_a_renewed_certificate(area, tenants):
    settings = tls_settings(area, tenants[1])
    place = area.path / settings[1].split(" = ")[1].rsplit("/", 1)[0]
    gate = HttpGate(area, None, tenants[1], *settings, program="gate_faces")
    try:
        first = certificate_of(gate)
        with handshake(gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) as kept:
            kept.send(gate.head("GET", "/health"))
            assert kept.answer().status == 200
            for _ in range(3):
                make_certificate(place, tenants[1])
                with acting_as(0):
                    gate.process.send_signal(signal.SIGHUP)
                assert procfs.eventually(lambda: certificate_of(gate) != first)
                first = certificate_of(gate)
                kept.send(gate.head("POST", "/test/count", None, "Content-Length: 3") + "abc")
                assert kept.answer().body == b"3\n"
        with acting_as(0):
            (place / "certificate.pem").write_text("none")
            gate.process.send_signal(signal.SIGHUP)
        assert procfs.eventually(lambda: "stays" in gate.log())
        assert certificate_of(gate) == first
        with acting_as(0):
            (place / "certificate.pem").unlink()
            gate.process.send_signal(signal.SIGHUP)
        assert procfs.eventually(lambda: gate.log().count("stays") == 2)
        assert certificate_of(gate) == first
    finally:
        assert gate.stop() == 0


def test_output_that_nobody_reads(gate):
    """A client that stops reading holds up no command and no memory of the gate's; it is told if output was lost."""
    box = Sandbox(gate, gate.key("blue")["key"])

    def peak():
        status = pathlib.Path(f"/proc/{gate.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    assert box.run("true")[1]["exitCode"] == 0
    before = peak()
    for size, command in (16 << 20, "head -c 16777216 /dev/zero | tr '\\0' x; touch over"), (3 << 20, "head -c 3145728 /dev/zero | tr '\\0' y; touch over"):
        _, stream = start(box, command)
        assert procfs.eventually(lambda: box.request("GET", "/files?path=over").status == 200, 60)
        assert box.rpc("filesystem.Filesystem/Remove", path="over")[0] == 200
        received, last = 0, {}
        for flags, last in stream:
            received += len(base64.b64decode(last.get("event", {}).get("data", {}).get("stdout", "")))
        assert flags == END
        if received < size:
            assert last["error"]["code"] == "data_loss", last
        else:
            assert received == size and last == {}
        assert peak() - before < 1 << 20
    assert box.kill() == 204


def test_other_answers_go_on_while_one_is_not_read(gate):
    key = gate.key("blue")["key"]
    box = Sandbox(gate, key)
    _, stream = start(box, "yes")
    for _ in range(5):
        assert box.run("echo x")[0]["stdout"] == b"x\n"
    assert ask(gate, key, "GET", f"/sandboxes/{box.id}").status == 200
    stream.close()
    assert box.kill() == 204
