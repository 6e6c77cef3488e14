# SPDX-License-Identifier: Apache-2.0
"""What else happens while a workspace's commands are stopped, so that it can be measured (0136): it is removed or closed, its
tenant gets another disk class or goes, cloisterd is taken over from, stops or is killed, calls are cancelled and time out."""

import contextlib
import os
import pathlib
import signal
import time

import pytest

import procfs
from cloister_client import acting_as
from daemon import SYSTEM

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to stop processes of a workspace")

FILES = 15000  # so many that commands are seen to be stopped while they are counted
TICK = "while :; do echo >ticks; sleep .02; done"
TRAP = "trap 'echo trapped; exit 3' TERM; while :; do echo >ticks; done"


def config(area, tenant="t", more=""):
    mode = "mode = system\n" if SYSTEM else ""
    return (f"[cloister]\n{mode}admin_group = {area.account.gid}\ndisk_classes = one:64M:40k:3 small:8M:40k:3 few:64M:9k:3 large:1G:1M:3\n"
            f"[tenant {tenant}]\nusers = {area.account.name}\nmanaged = yes\ntemplates = 3\n{more}")


class Stopped:
    """A daemon and a workspace, in which a command writes without end."""

    def __init__(self, start_daemon, delegation, area, **more):
        self.delegation, self.area = delegation, area
        self.daemon = start_daemon(config=config(area), system=SYSTEM, launcher=delegation.launcher(), **more)
        self.client = self.daemon.connect()
        if self.client.call("workspace.open", {"workspace": "w"})["isolation"]["limits"]["disk"] != "measured":
            pytest.skip("the kernel has a quota for the user here")
        self.client.use("run_command", command=f"mkdir m; seq {FILES} | sed s#^#m/# | xargs touch")
        with acting_as(os.getuid()):
            (self.path,) = (self.daemon.state / "workspaces").glob("t/w")
        self.halted = []
        self.find()

    def find(self):
        """Finds its processes; those of the overlay, if it has checkpoints."""
        def found():
            pairs = [pair for pair in self.daemon.cells() if os.path.exists(f"/proc/{pair[1]}/root/m")]
            return pairs if len(pairs) == 1 else []

        with acting_as(os.getuid()):
            ((self.worker, self.files),) = procfs.eventually(found)

    def session(self, command=TICK):
        return self.client.call("session.start", {"command": command})["session"]

    def frozen(self):
        with acting_as(os.getuid()):
            for group in self.delegation.groups():
                with contextlib.suppress(OSError):
                    if "cmd-" in group and (self.delegation.path / group / "cgroup.freeze").read_text() == "1\n":
                        return True
        return False

    def halt(self):
        """Halts what measures, and looks whether that was in time."""
        os.kill(self.worker, signal.SIGSTOP)
        if self.frozen():
            self.halted = [self.files, *procfs.descendants(self.files)]
            for pid in self.halted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        os.kill(self.worker, signal.SIGCONT)
        time.sleep(.05)
        if self.halted and self.frozen():
            return True
        self.go_on()
        return False

    def stop(self):
        """Waits until the commands are stopped, which are ten seconds old then. They are for a second, since what measures
        is halted."""
        time.sleep(6)
        with acting_as(os.getuid()):
            assert procfs.eventually(lambda: self.frozen() and self.halt(), 300, 0)
        return self

    def go_on(self):
        with acting_as(os.getuid()):
            for pid in self.halted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.halted = []

    def ticks(self):
        """Whether commands go on."""
        with acting_as(os.getuid()):
            file = pathlib.Path(f"/proc/{self.files}/root/ticks")
            before = file.stat().st_mtime_ns
            return procfs.eventually(lambda: file.stat().st_mtime_ns > before)

    def state(self, session):
        return next((row["state"] for row in self.client.call("session.list")["sessions"] if row["session"] == session), None)

    def nothing_stays(self, everything=()):
        """No process, and no group that is frozen."""
        self.go_on()
        with acting_as(os.getuid()):
            assert procfs.vanish([self.worker, self.files, *everything])
            assert procfs.eventually(lambda: not self.frozen())


@pytest.fixture
def stopped(start_daemon, delegation, area):
    made = []

    def start(**more):
        made.append(Stopped(start_daemon, delegation, area, **more))
        return made[-1]

    yield start
    for one in made:
        one.go_on()


def processes(here):
    with acting_as(os.getuid()):
        return procfs.descendants(here.worker)


@pytest.mark.deep("busy")
def test_removed(stopped):
    here = stopped()
    here.session()
    here.stop()
    everything = processes(here)
    number = here.client.request("workspace.remove", {"workspace": "w"})
    time.sleep(.3)
    here.go_on()
    assert here.client.result(number) == {}
    here.nothing_stays(everything)
    assert not here.path.exists()
    assert here.client.call("session.list")["sessions"] == []


@pytest.mark.deep("slow")
@pytest.mark.parametrize("how", ["closed", "left"])
def test_closed(stopped, how):
    """What a client has begun goes on when it closes the workspace; with its connection calls end, and sessions go on."""
    here = stopped()
    session = here.session()
    call = here.client.begin("run_command", {"command": "sleep 600", "timeout_ms": 700000})
    here.stop()
    if how == "closed":
        assert here.client.call("workspace.close", {"workspace": "w"}) == {}
        assert here.ticks() and here.client.cancel(call)
        assert here.client.result(call)["output"]["ended_by"] == "cancel"
    else:
        here.client.close()
        here.client = here.daemon.connect()
        assert procfs.eventually(lambda: not [pid for pid in processes(here) if procfs.command_line(pid).startswith("sleep 600")], 5)
        assert here.ticks()
    here.go_on()
    here.client.call("workspace.open", {"workspace": "w"})
    assert here.state(session) == "running"
    here.client.call("session.end", {"session": session})
    here.client.call("workspace.remove", {"workspace": "w"})
    here.nothing_stays()


@pytest.mark.deep("busy")
@pytest.mark.parametrize("halted", ["what measures", "the worker"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_cloisterd(stopped, start_daemon, delegation, area, sent, halted):
    """By either signal, and whether or not the worker could let its commands go on: none of them stays."""
    here = stopped()
    here.session()
    here.session("trap : TERM; while :; do read -t 1 <>/dev/zero; done")
    here.stop()
    with acting_as(os.getuid()):
        everything = procfs.descendants(here.daemon.pid)
        if halted == "the worker":
            os.kill(here.worker, signal.SIGSTOP)
    here.daemon.process.send_signal(sent)
    if halted == "what measures":
        time.sleep(.5)
        here.go_on()
    assert here.daemon.process.wait(60) == (0 if sent == signal.SIGTERM else -signal.SIGKILL)
    with acting_as(os.getuid()):
        assert procfs.vanish(everything)
    if sent == signal.SIGTERM:
        assert not [name for name in here.delegation.groups() if "cmd-" in name]
        return
    # Groups that nobody has removed are empty, and the next cloisterd removes them.
    again = Stopped(start_daemon, delegation, area, state=here.daemon.state)
    assert again.path == here.path and again.client.run("echo on")["stdout"] == "on\n"
    assert not here.frozen()


ENDS = {
    "cancel": lambda here, call: here.client.cancel(call),
    "timeout": lambda here, call: None,  # it comes by itself
    "admin": lambda here, call: here.daemon.ctl("kill", str(next(
        row["call"] for row in here.daemon.control().call("commands")["calls"] if "#admin" in row["command"]))),
}


@pytest.mark.deep("slow")
@pytest.mark.parametrize("trap", [False, True])
def test_ends(stopped, trap):
    """A command that is stopped ends at once, or when it goes on, if it handles SIGTERM."""
    here = stopped()
    command = TRAP if trap else TICK
    calls = {how: here.client.begin("run_command", {"command": f"{command} #{how}", "timeout_ms": 11500 if how == "timeout" else 600000})
             for how in ENDS}
    here.stop()
    for how, end in ENDS.items():
        end(here, calls[how])
    for how, call in calls.items():
        seen = here.client.result(call, 60)["output"]
        assert (seen["ended_by"], seen["stdout"]) == (how, "trapped\n" if trap else ""), seen
    here.go_on()
    assert here.client.run("echo on")["stdout"] == "on\n"


RELOADS = {
    "a smaller class": "disk_class = small\n",
    "fewer files": "disk_class = few\n",
    "a larger class": "disk_class = large\n",
    "other limits": "command_timeout = 1s\nsessions = 0\n",
}


@pytest.mark.deep("slow")
def test_reloaded(stopped):
    """Commands go on, and are measured by the new class."""
    here = stopped()
    here.session()
    here.stop()
    for more in RELOADS.values():
        assert here.daemon.reload(config(here.area, more=more))
    assert here.daemon.reload(config(here.area, more=RELOADS["fewer files"]))
    here.go_on()
    assert here.ticks()
    assert here.client.run("echo on")["stdout"] == "on\n"
    assert procfs.eventually(lambda: not here.client.observe("write_file", {"path": "x", "content": ""})["success"], 60)
    here.stop()
    assert here.daemon.reload(config(here.area, more=RELOADS["a larger class"]))
    here.go_on()
    assert here.ticks()
    assert procfs.eventually(lambda: here.client.observe("write_file", {"path": "x", "content": ""})["success"], 60)


@pytest.mark.deep("slow")
def test_the_tenant_goes(stopped):
    """Its session ends, its call goes on until it is ended."""
    here = stopped()
    here.session()
    call = here.client.begin("run_command", {"command": TICK, "timeout_ms": 700000})
    here.stop()
    everything = processes(here)
    assert here.daemon.reload(config(here.area, tenant="other"))
    with here.daemon.control() as admin:
        assert procfs.eventually(lambda: not [row for row in admin.call("sessions")["sessions"] if row["state"] != "ended"])
        here.go_on()
        assert here.ticks()
        here.stop()
        (row,) = admin.call("commands")["calls"]
        assert here.daemon.ctl("kill", str(row["call"])).returncode == 0
    assert here.client.result(call)["output"]["ended_by"] == "admin"
    here.client.close()
    here.nothing_stays(everything)


@pytest.mark.deep("slow")
def test_taken_over_from(stopped, start_daemon, delegation, area):
    """The old daemon lets its commands go on, and measures until they have ended; then the new daemon does."""
    here = stopped()
    session = here.session("until [ -e go ]; do echo >ticks; done; echo done")
    here.stop()
    with acting_as(os.getuid()):
        control = delegation.path / ".control"
        control.mkdir()
        for file in (".", "cgroup.procs"):
            os.chown(control / file, area.account.uid, area.account.gid)
    new_daemon = start_daemon(config=config(area), system=SYSTEM, former=here.daemon, launcher=delegation.launcher(".control"))
    here.go_on()
    assert here.ticks()
    assert here.state(session) == "running"
    here.client.use("write_file", path="go", content="")
    seen = here.client.call("session.read", {"session": session, "wait_ms": 60000, "until": [{"exit": True}]})
    assert seen["state"] == "ended" and "done" in str(seen), seen
    here.client.close()
    assert here.daemon.process.wait(120) == 0
    here.nothing_stays()
    with new_daemon.connect() as client:
        assert client.call("workspace.open", {"workspace": "w"})["isolation"]["limits"]["disk"] == "measured"
        assert client.run("echo on")["stdout"] == "on\n"
        with new_daemon.control() as admin:
            assert procfs.eventually(lambda: (admin.call("workspaces")["workspaces"][0]["disk_files"] or 0) > FILES, 60)
    assert new_daemon.stop() == 0


CHANGES = {"workspace.checkpoint": {}, "workspace.rollback": {"to": 1}, "workspace.freeze": {"template": "new"}}


@pytest.mark.deep("slow")
def test_changed(stopped):
    """What is not done while commands run says so, what is done waits for nothing, and they go on."""
    here = stopped()
    assert here.client.call("workspace.checkpoint", {})["checkpoint"] == 1
    here.find()
    call = here.client.begin("run_command", {"command": TICK, "timeout_ms": 700000})
    here.stop()
    others = [here.daemon.connect() for _ in CHANGES]
    for other in others:
        other.call("workspace.open", {"workspace": "w"})
    asked = [other.request(method, params) for other, (method, params) in zip(others, CHANGES.items())]
    here.go_on()
    assert here.ticks()
    for other, number in zip(others, asked):
        assert other.wait(number)["error"]["data"]["code"] == "BUSY"
    assert here.client.call("workspace.diff", {"since": 1})["count"] == 1
    here.client.cancel(call)
    assert here.client.result(call)["output"]["ended_by"] == "cancel"
    assert here.client.call("workspace.checkpoint", {})["checkpoint"] == 2
