# SPDX-License-Identifier: Apache-2.0
"""The files of the audit log: what ends, restarts and rotation leave of them, and files that cannot be a log."""

import os
import re
import shlex
import signal
import subprocess

import pytest

import procfs
from audit_log import Audited, audited, config, flood, read, read_so_far, rotate, verify
from cloister_client import RpcError
from daemon import BUILD


def restart(audited, start_daemon):
    """Starts another daemon on the same log."""
    return Audited(start_daemon, audited.area, path=audited.log)


@pytest.mark.parametrize("cut", [2, 30, 200])
def test_a_torn_last_line_is_kept_and_told(audited, start_daemon, area, cut):
    audited.client.run("true")
    audited.written()
    audited.daemon.process.kill()
    audited.daemon.process.wait()
    whole = audited.log.read_bytes()
    torn = whole.splitlines(keepends=True)[-1][:-cut]
    audited.log.write_bytes(whole[:-cut])
    status, said = verify(area, audited.log)
    assert status == 4 and "the last line is unfinished" in said[0]
    again = restart(audited, start_daemon)
    again.client.run("true")
    status, said = again.verify()
    assert status == 0, said
    assert f"{len(torn)} bytes of an unfinished line" in said[0]
    assert torn + b"\n" in audited.log.read_bytes()
    # A torn line that no later line reports is a change.
    lines = audited.log.read_bytes().splitlines(keepends=True)
    lines[lines.index(torn + b"\n")] = torn[:-1] + b"\n"
    audited.log.write_bytes(b"".join(lines))
    assert verify(area, audited.log)[0] == 1


@pytest.mark.parametrize("how", ["SIGHUP", "reload"])
def test_rotation(audited, how):
    files = []
    for number in range(3):
        audited.client.run(f"true {number}")
        audited.written()
        files.append(rotate(audited, number))
        if how == "SIGHUP":
            audited.daemon.process.send_signal(signal.SIGHUP)
        else:
            with audited.daemon.control() as control:
                control.call("reload")
        assert procfs.eventually(audited.log.exists)
    audited.client.run("true")
    status, said = audited.verify(*files, audited.log)
    assert status == 0, said
    rotations = [line for path in files[1:] + [audited.log] for line in read(path)
                 if line.get("reason") == "rotation"]
    assert len(rotations) == 3 and all(line["chain"] == "continued" for line in rotations)
    commands = [line for path in files + [audited.log] for line in read(path) if line["event"] == "call.ended"]
    assert len(commands) == 4
    # Without a rename, a reopening changes nothing.
    audited.daemon.process.send_signal(signal.SIGHUP)
    audited.client.run("true")
    assert procfs.eventually(lambda: audited.events("admin.act")[-1]["outcome"] == "done")
    assert len([line for line in audited.written() if line["event"] == "audit.opened"]) == 1


def full_files(audited):
    return sorted(audited.log.parent.glob(f"{audited.log.name}.*"))


def test_full_files(start_daemon, area):
    """cloisterd, confined as it is, keeps its log within bounds. No file is larger than audit_size, there are at most
    audit_files, and their names stay. The chain goes on through all of them, and through a restart that finds no other
    file."""
    # The log is not beside a socket, because cloisterd may remove files from a socket's directory anyway.
    log = area.new_directory("log") / "audit.log"
    audited = Audited(start_daemon, area, path=log, settings="audit_size = 64K\naudit_files = 2\n")
    flood(audited, 800)
    audited.settle()
    assert procfs.eventually(lambda: len(full_files(audited)) == 2)
    first = full_files(audited)
    content = first[1].read_bytes()
    assert first[1].name == f"{audited.log.name}.{read(first[1])[-1]['seq']:012}"
    flood(audited, 100)
    audited.settle()
    files = full_files(audited)
    assert len(files) == 2 and first[0] not in files
    if first[1] in files:
        assert first[1].read_bytes() == content
    assert max(file.stat().st_size for file in [*files, audited.log]) <= 64 << 10
    status, said = audited.verify(*files, audited.log)
    assert status == 0 and said[-1].startswith(f"{sum(len(read(file)) for file in [*files, audited.log])} lines"), said
    assert audited.status()["lost"] == 0
    assert audited.daemon.stop() == 0
    last = read(audited.log)[-1]
    audited.log.rename(f"{audited.log}.{last['seq']:012}")
    again = Audited(start_daemon, area, path=audited.log)
    assert [(line["chain"], line["seq"]) for line in again.events("audit.opened")] == [("continued", last["seq"] + 1)]
    assert again.verify(*full_files(again), again.log)[0] == 0


def test_a_file_that_cannot_be_renamed_grows(start_daemon, area):
    audited = Audited(start_daemon, area, settings="audit_size = 64K\n")
    audited.log.parent.chmod(0o500)
    flood(audited, 300)
    audited.settle()
    assert audited.log.stat().st_size > 64 << 10 and not full_files(audited)
    assert audited.daemon.log().count("cannot be renamed, so it grows: Permission denied") == 1
    audited.log.parent.chmod(0o700)
    flood(audited, 100)
    audited.settle()
    assert full_files(audited)[0].stat().st_size > 64 << 10
    assert audited.verify(*full_files(audited), audited.log)[0] == 0


def test_the_hash_that_the_unit_keeps_elsewhere(audited, start_daemon, area):
    """The command in cloister-audit-anchor.service prints the hash of a line of the log, and fails where there is
    none."""
    def anchor(daemon):
        unit = (BUILD / "packaging/systemd/cloister-audit-anchor.service").read_text()
        (words,) = re.findall("(?m)^ExecStart=(.*)$", unit)
        words = shlex.split(re.sub(r"[^\s']*/bin/cloisterctl", str(area.bin / "cloisterctl"), words))
        return subprocess.run(words, env={"CLOISTER_CONTROL_SOCKET": str(daemon.control_socket), "PATH": os.environ["PATH"]},
                              capture_output=True, check=False, **area.account.as_user())

    audited.client.run("true")
    audited.settle()
    done = anchor(audited.daemon)
    assert done.returncode == 0, done
    (hash_,) = re.fullmatch("last hash ([0-9a-f]{64})\n", done.stdout.decode()).groups()
    assert verify(area, "--contains", hash_, audited.log)[0] == 0
    assert verify(area, "--contains", hash_[::-1], audited.log)[0] == 1
    audited.daemon.stop()
    assert anchor(audited.daemon).returncode != 0
    off = start_daemon(config=config(area, mode="off"))
    assert anchor(off).returncode != 0


def test_a_directory_that_is_gone_costs_no_line(audited):
    """While cloisterd cannot open a new file, it goes on writing to the old one."""
    audited.client.run("true")
    audited.written()
    former = rotate(audited, 1)
    audited.log.symlink_to("/nonexistent/x")
    audited.daemon.process.send_signal(signal.SIGHUP)
    assert procfs.eventually(lambda: "continues in the old file" in audited.daemon.log())
    audited.client.run("true")
    assert procfs.eventually(lambda: len([x for x in read_so_far(former) if x["event"] == "call.ended"]) == 2)
    audited.log.unlink()
    assert procfs.eventually(audited.log.exists)
    audited.client.run("true")
    assert audited.verify(former, audited.log)[0] == 0


def refused(area, text):
    directory = area.new_directory("refused")
    (directory / "cloister.conf").write_text(text)
    done = area.run("cloisterd", "--config", str(directory / "cloister.conf"), "--agent-socket",
                    str(directory / "s"), "--state-dir", str(directory / "state"))
    assert done.returncode == 1
    return done.stderr.decode()


def test_what_cannot_be_a_log_refuses_to_start(audited, area):
    assert "another cloisterd writes the audit log" in refused(area, config(area, path=audited.log))
    fifo = area.new_directory("fifo") / "log"
    os.mkfifo(fifo)
    area.account.own(fifo)
    assert f"{fifo}: Invalid argument" in refused(area, config(area, path=fifo))
    assert "/proc/sys/log: No such file" in refused(area, config(area, path="/proc/sys/log"))
    assert '"maybe" is not one of off, on, required' in refused(area, config(area, mode="maybe"))


def test_it_cannot_be_opened_as_a_workspace(audited):
    with pytest.raises(RpcError) as caught:
        audited.client.call("workspace.open", {"root": str(audited.log.parent)})
    assert caught.value.name == "FORBIDDEN"


def test_without_one_there_is_none(start_daemon, area):
    daemon = start_daemon(config=config(area, mode="off"))
    with daemon.control() as control:
        assert control.call("status")["audit"] is None
        assert "cloister_audit" not in control.call("metrics")["text"]
    assert b"audit log    off" in daemon.ctl("status").stdout
    assert not (daemon.state / "audit" / "audit.log").exists()
