# SPDX-License-Identifier: Apache-2.0
"""The audit log on a disk that is slow, hangs or is full: with audit = on calls go on and lost lines are counted, with
audit = required none is admitted that could not be recorded."""

import contextlib
import os
import platform
import signal
import subprocess

import pytest

import procfs
from audit_log import Audited, audited, flood, losses
from cloister_client import RpcError
from daemon import BUILD, fill

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount and to trace")


@contextlib.contextmanager
def held(audited):
    """Stops the writing thread in its next write, as a hung disk does."""
    numbers = {"x86_64": 1, "aarch64": 64}
    holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", str(audited.thread()),
                               str(numbers[platform.machine()])], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"ready\n"
        audited.client.run("true")
        assert holder.stdout.readline() == b"held\n"
        yield
    finally:
        holder.stdin.close()
        assert holder.wait(120) == 0


@pytest.mark.deep("slow")
@as_root
def test_a_slow_disk_stops_no_call_and_loses_no_line_silently(audited):
    with held(audited):
        for i in range(50):
            assert audited.client.run(f"echo {i}")["stdout"] == f"{i}\n"
        assert audited.status()["queued_bytes"] > 0 and audited.status()["lost"] == 0
        flood(audited, 40000)
        lost = audited.status()["lost"]
        assert lost > 0
        assert audited.client.run("echo still")
    written = audited.written()
    assert losses(written) == audited.status()["lost"] >= lost
    assert len([line for line in written if line["event"] == "call.refused"]) + losses(written) >= 40000
    assert audited.verify()[0] == 0
    assert any("lines could not be written" in line for line in audited.verify()[1])
    with audited.daemon.control() as control:
        assert f"cloister_audit_lines_lost_total {losses(written)}\n" in control.call("metrics")["text"]


@pytest.mark.deep("slow")
@as_root
def test_required_stops_admission_before_a_line_is_lost(start_daemon, area):
    audited = Audited(start_daemon, area, mode="required")
    running = audited.client.begin("run_command", {"command": "sleep 600"})
    with held(audited):
        def busy():
            flood(audited, 2000)
            return audited.observe("true")["error"]
        error = procfs.eventually(busy)
        assert error["code"] == "BUSY" and "audit log" in error["message"]
        with pytest.raises(RpcError) as caught:
            audited.client.call("workspace.open", {"workspace": "other"})
        assert caught.value.name == "BUSY"
        assert audited.status()["lost"] == 0
        # The running call can end: cloisterd keeps room for its line while it refuses others.
        flood(audited, 40000)
        assert audited.status()["lost"] > 0
        audited.client.call("tool.cancel", {"id": running})
        audited.client.wait(running)
    assert procfs.eventually(lambda: audited.observe("true")["success"])
    begun, ended = ([line["call"] for line in audited.events(f"call.{what}")] for what in ("admitted", "ended"))
    assert sorted(begun) == sorted(ended) and len(begun) >= 3
    assert losses(audited.written()) == audited.status()["lost"]
    assert audited.verify()[0] == 0


def selftest(audited):
    """Runs `cloisterctl selftest`. Returns its exit code and its text."""
    ran = audited.daemon.ctl("selftest")
    return ran.returncode, (ran.stdout + ran.stderr).decode()[-500:]


@as_root
def test_required_holds_for_the_self_test_too(start_daemon, area):
    """With audit = required, a log that is behind also stops the self-test: it does not run, and its last result
    stays."""
    audited = Audited(start_daemon, area, mode="required")
    assert selftest(audited)[0] == 0
    with audited.daemon.control() as control:
        before = control.call("status")["selftest"]
        assert before["result"] == "passed"
        with held(audited):
            assert procfs.eventually(lambda: flood(audited, 2000) or audited.observe("true")["error"])
            lines = audited.status()["lines"]
            code, said = selftest(audited)
            assert code != 0 and "BUSY" in said and "is behind" in said, said
            assert control.call("status")["selftest"] == before
            assert "is behind" in audited.status()["refusing"]
            assert "calls are refused: The audit log is behind" in audited.daemon.ctl("status").stdout.decode()
        assert audited.status()["lines"] >= lines
    assert procfs.eventually(lambda: selftest(audited)[0] == 0)
    assert audited.status()["refusing"] is None
    begun, ended = ([line["call"] for line in audited.events(f"call.{what}")] for what in ("admitted", "ended"))
    assert sorted(begun) == sorted(ended)
    assert ["BUSY"] == [line["outcome"] for line in audited.events("admin.act")
                        if line["act"] == "selftest" and line["outcome"] != "done"][:1]


@pytest.fixture
def small_disk(area):
    with area.disk("256k") as place:
        yield place


@pytest.mark.deep("slow")
@as_root
def test_a_run_that_the_audit_log_stops_is_made_again(start_daemon, area, small_disk):
    """A self-test that is stopped midway says so and has not passed. It runs again when the disk is back."""
    audited = Audited(start_daemon, area, mode="required", path=small_disk / "audit.log",
                      settings="selftest = required\nselftest_interval = 100ms\n")
    with audited.daemon.control() as control:
        def state():
            return control.call("status")["selftest"]
        assert procfs.eventually(lambda: state()["result"] == "passed", 60)
        filler = fill(small_disk)
        assert procfs.eventually(lambda: audited.status()["error"], 60) == "No space left on device"
        # The reload came during a run or between two runs.
        assert procfs.eventually(lambda: not state()["running"], 60)
        result, ended = state()["result"], state()["ended_ms"]
        assert result == "passed" or "audit log: BUSY" in audited.daemon.log()
        assert not procfs.eventually(lambda: state()["ended_ms"] != ended, 3)
        assert audited.observe("true")["error"]["code"] in ("BUSY", "FORBIDDEN")
        filler.unlink()
        assert procfs.eventually(lambda: state()["result"] == "passed" and state()["ended_ms"] > ended, 60)
    assert procfs.eventually(lambda: audited.observe("true")["success"])


@pytest.mark.deep("slow")
@as_root
def test_the_end_does_not_wait_for_a_disk_for_ever(audited):
    with held(audited):
        audited.daemon.process.send_signal(signal.SIGTERM)
        assert procfs.eventually(lambda: "lines of the audit log could not be written" in audited.daemon.log())
    # cloisterd could not end before strace let its writing thread go.
    assert audited.daemon.process.wait(120) == 0


@as_root
@pytest.mark.parametrize("mode", ["on", "required"])
def test_a_full_disk(start_daemon, area, small_disk, mode):
    audited = Audited(start_daemon, area, mode=mode, path=small_disk / "audit.log")
    running = audited.client.begin("run_command", {"command": "sleep 600"})
    filler = fill(small_disk)

    def is_full():
        flood(audited, 100)
        return audited.status()["error"]

    assert procfs.eventually(is_full) == "No space left on device"
    assert "cannot be written: No space left on device" in audited.daemon.ctl("status").stdout.decode()
    answer = audited.observe("echo x")
    if mode == "on":
        assert answer["output"]["stdout"] == "x\n"
    else:
        assert answer["error"]["code"] == "BUSY"
    audited.client.call("tool.cancel", {"id": running})
    assert audited.client.wait(running)["result"]["output"]["ended_by"] == "cancel"
    with audited.daemon.control() as control:
        assert "cloister_audit_writable 0\n" in control.call("metrics")["text"]
    filler.unlink()
    assert procfs.eventually(lambda: not audited.status()["error"])
    assert audited.client.run("echo y")
    written = audited.written()
    begun, ended = ({line["call"] for line in written if line["event"] == f"call.{what}"}
                    for what in ("admitted", "ended"))
    assert begun == ended and len(begun) == (3 if mode == "on" else 2)
    assert not losses(written)
    assert audited.verify()[0] == 0
    assert "can be written again" in audited.daemon.log()


@as_root
def test_the_thread_is_confined_as_the_loop_is(audited):
    status = procfs.status(audited.thread())
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
