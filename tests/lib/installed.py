# SPDX-License-Identifier: Apache-2.0
"""The package installed in the virtual machine of tests/vm/run: its service, users and files."""

import copy
import grp
import json
import os
import pathlib
import pwd
import subprocess

import procfs
from cloister_client import Client
from daemon import Daemon

UNIT = "cloister.service"
AGENTS, ADMINS = pathlib.Path("/run/cloister/agent.sock"), pathlib.Path("/run/cloister/control.sock")
CONFIG = pathlib.Path("/etc/cloister")
STATE = pathlib.Path("/var/lib/cloister")
AUDIT = pathlib.Path("/var/log/cloister/audit.log")
TRANSCRIPT = pathlib.Path(__file__).resolve().parents[2] / "transcript"
PATIENCE = 120  # seconds, on an emulated machine


def run(*words, check=True, **keywords):
    """Runs a command to its end. Its .stdout has both stdout and stderr."""
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=600, **keywords)
    said = journal()[-2000:] if check and done.returncode != 0 and words[0] == "systemctl" else ""
    assert not check or done.returncode == 0, (words, done.returncode, done.stdout, said)
    return done


def show(*words, check=True, **keywords):
    """Like run(), and also writes the output to the transcript, which tests/vm/run prints."""
    done = run(*words, check=check, **keywords)
    with TRANSCRIPT.open("a") as file:
        file.write("# " + " ".join(map(str, words)) + "\n" + done.stdout + (
            f"(exit status {done.returncode})\n" if done.returncode else ""))
    return done


def as_user(name, *words, **keywords):
    return run("runuser", "-u", name, "--", *words, **keywords)


def prop(name, unit=UNIT):
    return run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()


def main_pid():
    return int(prop("MainPID"))


def serves():
    """Waits until cloisterd answers. Returns its pid."""
    assert procfs.eventually(lambda: run("cloisterctl", "--json", "status", check=False).returncode in (0, 3)
                             and prop("ActiveState") == "active", PATIENCE), journal()
    return main_pid()


def journal(*words):
    return run("journalctl", "--unit", UNIT, "--no-pager", "-o", "cat", *words).stdout


def ctl(*words):
    """Returns what cloisterctl prints as JSON for ada, the administrator of the tests."""
    return json.loads(as_user("ada", "cloisterctl", "--json", *words).stdout)


def configure(name, text, reload=True):
    """Writes a drop-in of the configuration, or removes it if @text is None, and reloads."""
    before = journal()
    file = CONFIG / "cloister.conf.d" / f"{name}.conf"
    file.parent.mkdir(exist_ok=True)
    if text is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(text)
        os.chown(file, 0, file.parent.stat().st_gid)
        file.chmod(0o640)
        os.chown(file, 0, CONFIG.stat().st_gid)
    if reload:
        run("systemctl", "reload", UNIT)
        # Only a new line in the journal counts.
        assert procfs.eventually(lambda: "reloaded" in journal()[len(before):], PATIENCE)


def subordinate(kind="uid"):
    """Returns (first, count) of the service user's subordinate range. subuid(5)"""
    for line in pathlib.Path(f"/etc/sub{kind}").read_text().splitlines():
        name, first, count = line.split(":")
        if name == "cloister":
            return int(first), int(count)
    return None


class InstalledDaemon(Daemon):
    """The installed service in place of a daemon that the tests start. It serves the tests' user from the area's
    directories. Tests that end the daemon cannot use it."""

    given = set()  # shared by all test files, because the service and its ids are

    def __init__(self, area):
        self.area = area
        self.system = True
        self.account = copy.copy(area.account)  # the user, but with the service's ids
        self.account.first, self.account.count = subordinate()
        self.account.first_gid, _ = subordinate("gid")
        self.given.update(range(self.account.count // 4))
        self.account.given = self.given
        self.socket, self.control_socket = AGENTS, ADMINS
        self.path, self.state, self.log_path = AGENTS.parent, STATE, None
        configure("suite", f"[tenant {self.account.name}]\nusers = {self.account.name}\nmanaged = yes\n"
                           f"roots = {area.path}\n")
        self.pid = serves()
        self.since = journal()
        self.clients = []

    def log(self):
        return journal()[len(self.since):]

    def filters_before(self):
        """Returns the number of the unit's filters. cloisterd itself adds one."""
        return int(procfs.status(self.pid)["Seccomp_filters"]) - 1

    def control(self, account=None, groups=None):
        """Connects to the control socket, as an administrator unless groups are given."""
        return super().control(account, [grp.getgrnam("cloister-admin").gr_gid] if groups is None else groups)

    def ctl(self, *words):
        return as_user("ada", "cloisterctl", *words, check=False)

    def stop(self):
        for client in self.clients:
            client.close()
        assert main_pid() == self.pid, "the service did not live through the tests"
        configure("suite", None)
        self.check_log()
        return 0


def client_of(name, groups=()):
    entry = pwd.getpwnam(name)
    return Client(AGENTS, entry.pw_uid, entry.pw_gid, [grp.getgrnam(group).gr_gid for group in groups])
