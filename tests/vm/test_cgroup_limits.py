# SPDX-License-Identifier: Apache-2.0
"""Cgroups hold commands and workspaces to their limits. Runs in the virtual machine of tests/vm/run, whose kernel has the
controllers and whose systemd delegates them."""

import os
import re
import subprocess
import time

import procfs
import pytest
from cells import Bystander
from cloister_client import Client
from delegation import ENTER, group_of, mount_point, processes

pytestmark = pytest.mark.skipif(
    "CLOISTER_VM" not in os.environ, reason="runs in the virtual machine of tests/vm/run")

MIB = 1 << 20
SLOW = 600  # seconds, for an emulated machine
BOMB = "exec python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 24))'"


def number(group, name):
    return int((group / name).read_text())


@pytest.fixture
def held(delegation, start_daemon):
    """A cloisterd with a delegated group that has every controller."""
    assert {"memory", "pids", "cpu", "io"} <= set(delegation.controllers())
    daemon = start_daemon(launcher=delegation.launcher())
    daemon.group = delegation.path
    daemon.groups = delegation.groups
    return daemon


class Workspace:
    """The held daemon's first workspace."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.client = daemon.connect()
        self.path = daemon.area.new_directory()
        self.opened = self.client.call("workspace.open", {"root": str(self.path)})
        ((self.worker, self.files),) = daemon.cells()
        self.group = daemon.group / "ws-1"

    def observe(self, command, options=None, **arguments):
        return self.client.observe("run_command", {"command": command, **arguments}, options)

    def check_well(self):
        """Checks that it is the same cell and that no process of a command is left."""
        assert self.daemon.cells()[0] == (self.worker, self.files)
        assert self.client.run("echo well")["stdout"] == "well\n"
        assert sorted(p.name for p in self.group.glob("*/")) == ["cell"]
        cell = {self.worker, self.files}
        # And inits that wait for a command.
        assert procfs.eventually(
            lambda: set(processes(self.group / "cell")) - set(procfs.children(self.worker)) == cell)


@pytest.fixture
def workspace(held):
    return Workspace(held)


@pytest.fixture
def bystander(held, workspace):
    return Bystander(held, patience=30)


def check_memory(observation):
    assert observation["success"] is False
    assert observation["error"]["code"] == "MEMORY_LIMIT"
    assert "MiB" in observation["error"]["message"]
    output = observation["output"]
    assert (output["ended_by"], output["timed_out"]) == ("memory", False)
    return output


def memory_total():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(file.readline().split()[1]) * 1024


def test_isolation_says_what_enforces(workspace):
    isolation = workspace.opened["isolation"]
    io_weight = (workspace.group / "io.weight").exists()
    assert isolation["cgroup"] is True
    assert isolation["limits"] == {"memory": "cgroup", "processes": "cgroup", "cpu": "cgroup",
                                   "io": "cgroup" if io_weight else "none"}


def test_the_limits_that_are_set(workspace):
    ended = workspace.client.begin("run_command", {"command": "sleep 600", "timeout_ms": 3000})
    command = workspace.group / "cmd-1"
    assert procfs.eventually(lambda: command.exists() and processes(command))
    half, three_quarters = memory_total() // 2, memory_total() * 3 // 4
    assert abs(number(command, "memory.max") - half) < MIB
    assert abs(number(workspace.group, "memory.max") - three_quarters) < MIB
    assert number(workspace.group, "memory.swap.max") == 0
    assert number(command, "memory.oom.group") == 1
    assert number(workspace.group, "memory.oom.group") == 0
    assert number(command, "pids.max") == 512
    assert number(workspace.group, "pids.max") == 1024
    assert number(workspace.group, "cpu.weight") == 100
    assert number(workspace.daemon.group / "supervisor", "cpu.weight") == 1000
    assert number(workspace.group, "cgroup.max.descendants") == 128
    assert workspace.client.result(ended)["output"]["ended_by"] == "timeout"


def test_memory_bomb(workspace, bystander):
    bomb = workspace.client.begin("run_command", {
        "command": f"echo before; (sleep 600 &) ; {BOMB}", "timeout_ms": 600000})
    answered = 0
    while not workspace.client.answers:
        bystander.check()
        answered += 1
        try:
            workspace.client.answers.append(workspace.client.receive(timeout=0.1))
        except TimeoutError:
            pass
    assert answered > 1
    observation = workspace.client.result(bomb)
    output = check_memory(observation)
    assert output["stdout"] == "before\n"
    assert (output["signal"], output["exit_code"]) == ("SIGKILL", None)
    # It reached its limit and not more.
    peak = observation["usage"]["peak_memory_bytes"]
    assert 0.9 * memory_total() / 2 < peak <= memory_total() // 2
    workspace.check_well()


def test_memory_bomb_behind_a_shell_that_goes_on(workspace):
    """The kernel kills the whole command, so that no shell is left to report success."""
    output = check_memory(workspace.observe(f"({BOMB}); echo survived", timeout_ms=600000))
    assert "survived" not in output["stdout"]
    workspace.check_well()


def test_memory_bomb_of_many_processes(workspace):
    share = memory_total() // 2 // 16
    part = f"python3 -c 'import time; x = bytearray({share}); time.sleep(600)'"
    command = "; ".join([f"{part} &"] * 20).replace("&;", "&") + " wait"
    check_memory(workspace.observe(command, timeout_ms=600000))
    workspace.check_well()


def test_memory_bomb_in_the_private_tmpfs(workspace):
    """Files in /tmp are memory too, and stay after their command has ended."""
    command = "for d in /tmp /dev/shm /run; do cat /dev/zero >$d/fill; done; exit 1"
    output = workspace.observe(command, timeout_ms=600000)["output"]
    # The bound of the tmpfs may come first.
    assert output["ended_by"] in ("memory", "exit")
    assert workspace.client.run("rm -f /tmp/fill /dev/shm/fill /run/fill")["exit_code"] == 0
    workspace.check_well()


def test_memory_that_fits_is_given(workspace):
    observation = workspace.observe("python3 -c 'x = bytearray(300 << 20)'", timeout_ms=600000)
    assert observation["success"] and observation["output"]["exit_code"] == 0
    assert 300 * MIB < observation["usage"]["peak_memory_bytes"] < 400 * MIB
    small = workspace.observe("true")["usage"]["peak_memory_bytes"]
    assert 0 < small < 32 * MIB


def test_all_commands_together_have_the_workspaces_limit(workspace):
    """Each of two commands fits, both together do not: one command is killed, the cell lives on."""
    size = memory_total() * 2 // 5
    command = f"python3 -c 'import time; x = bytearray({size}); time.sleep(5)'"
    numbers = [workspace.client.begin("run_command", {"command": command, "timeout_ms": 600000})
               for _ in range(2)]
    observations = [workspace.client.result(n, timeout=600) for n in numbers]
    ended = [observation["output"]["ended_by"] for observation in observations]
    assert "memory" in ended
    workspace.check_well()


def test_killed_by_itself_is_not_killed_for_memory(workspace):
    output = workspace.observe("kill -9 $$")["output"]
    assert (output["ended_by"], output["signal"]) == ("signal", "SIGKILL")


@pytest.mark.parametrize("command", [
    "f() { f | f & f; }; f; wait; exit 1",
    "exec python3 -c '\nimport os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n'",
], ids=["sh", "python"])
def test_fork_bombs(workspace, bystander, command):
    bomb = workspace.client.begin("run_command", {"command": command, "timeout_ms": 8000})
    for _ in range(3):
        bystander.check()
    observation = workspace.client.result(bomb, timeout=300)
    assert (observation["error"]["code"], observation["output"]["ended_by"]) in (
        ("PROCESS_LIMIT", "pids"), ("TIMEOUT", "timeout"))
    assert number(workspace.group, "pids.current") <= 16
    workspace.check_well()


LOOP = "for i in $(seq 700); do sleep 600 & done; wait"


def test_a_shell_that_cannot_fork_any_more(workspace):
    observation = workspace.observe(f"echo before; {LOOP}", timeout_ms=300000)
    assert observation["success"] is False
    assert observation["error"]["code"] == "PROCESS_LIMIT"
    assert "512" in observation["error"]["message"]
    assert observation["output"]["ended_by"] == "pids"
    assert observation["output"]["stdout"] == "before\n"
    assert observation["output"]["exit_code"] != 0
    assert "fork" in observation["output"]["stderr"]
    workspace.check_well()


def test_who_gets_over_the_limit_of_processes_is_not_ended_by_it(workspace):
    observation = workspace.observe(f"({LOOP}); pkill sleep; true", timeout_ms=300000)
    assert observation["success"]
    assert observation["output"]["ended_by"] == "exit"
    assert "fork" in observation["output"]["stderr"]
    workspace.check_well()


def test_a_deadline_goes_before_a_limit_that_was_met(workspace):
    for deadline in (45, 180, 600):
        observation = workspace.observe(f"({LOOP}); touch met; sleep 6000", timeout_ms=deadline * 1000)
        if (workspace.path / "met").exists():
            break
    assert (workspace.path / "met").exists()
    assert observation["error"]["code"] == "TIMEOUT"
    assert observation["output"]["ended_by"] == "timeout"
    workspace.check_well()


def test_input_and_output_are_measured(workspace):
    written = workspace.observe("head -c 24M /dev/zero >f && sync f", timeout_ms=60000)
    assert 24 * MIB <= written["usage"]["io_write_bytes"] < 40 * MIB
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    read = workspace.observe("cat f >/dev/null", timeout_ms=60000)
    assert 24 * MIB <= read["usage"]["io_read_bytes"] < 60 * MIB
    assert workspace.observe("true")["usage"]["io_write_bytes"] < MIB


UNWAITED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 1:
        pass
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
"""


def test_processor_time_of_those_nobody_waited_for(workspace):
    usage = workspace.observe("exec python3 -", {"stdin": UNWAITED}, timeout_ms=60000)["usage"]
    assert usage["user_us"] + usage["system_us"] > 1000000


def test_a_workspaces_limits_are_not_the_workers_to_raise(workspace):
    """The test acts as a worker that was taken over: with its ids, user and cgroup namespace, and descriptor."""
    fd = os.open(f"/proc/{workspace.worker}/fd/7", os.O_RDONLY)
    before = number(workspace.group, "memory.max")

    def as_worker(script):
        return subprocess.run(
            ["nsenter", f"--target={workspace.worker}", "--user", "--cgroup", "--setuid=1000",
             "--setgid=1000", "sh", "-c", f"cd /proc/self/fd/{fd}/ && {script}"],
            pass_fds=[fd], capture_output=True, text=True, check=False)

    seen = as_worker("ls; pwd -P; ls ..")
    assert "cgroup.procs" in seen.stdout, seen.stderr
    assert "supervisor" not in seen.stdout
    assert as_worker("mkdir cmd-x && echo 100M >cmd-x/memory.max && rmdir cmd-x").returncode == 0
    for attempt in ("max | tee memory.max", "max | tee pids.max", "10000 | tee cpu.weight",
                    "max | tee memory.swap.max", "max | tee cgroup.max.descendants"):
        refused = as_worker("echo " + attempt)
        assert refused.returncode != 0, attempt
        assert "not permitted" in refused.stderr or "denied" in refused.stderr, refused.stderr
    # It cannot leave its group either: groups outside are not visible.
    assert as_worker(f"echo {workspace.worker} >../supervisor/cgroup.procs").returncode != 0
    assert number(workspace.group, "memory.max") == before
    os.close(fd)


class Service:
    """cloisterd as systemd runs it: a system unit, or a unit of the user's own manager."""

    def __init__(self, area, name, own_manager):
        account = area.account
        directory = area.new_directory("service")
        self.name, self.area = name, area
        self.socket = directory / "agent.sock"
        self.prefix, self.scope, user = [], [], ["-p", f"User={account.name}"]
        if own_manager:
            self.prefix = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}",
                           "--clear-groups", "env", f"XDG_RUNTIME_DIR=/run/user/{account.uid}"]
            self.scope, user = ["--user"], []
        self.manage(
            "systemd-run", f"--unit={name}", "--quiet", "-p", "Delegate=yes", *user,
            "-p", "Restart=always", "-p", "RestartSec=0", f"--setenv=HOME={area.home}",
            area.bin / "cloisterd", "--agent-socket", self.socket,
            "--state-dir", directory / "state")
        self.wait()

    def manage(self, program, *arguments):
        return subprocess.run([*self.prefix, program, *self.scope, *arguments], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def pid(self):
        return int(self.manage("systemctl", "show", "-P", "MainPID", self.name))

    def group(self):
        return mount_point() / self.manage(
            "systemctl", "show", "-P", "ControlGroup", self.name).strip().lstrip("/")

    def wait(self):
        def answers():
            try:
                self.connect().close()
                return True
            except OSError:
                return False

        assert procfs.eventually(answers, 60)

    def connect(self):
        return Client(self.socket, self.area.account.uid, self.area.account.gid)


def check_service(service):
    """The service has its groups at every start, also after it was killed while a command ran."""
    unit = service.group()
    for turn in range(3):
        pid = service.pid()
        assert group_of(pid) == unit / "supervisor"
        client = service.connect()
        opened = client.call("workspace.open", {"root": str(service.area.new_directory())})
        assert opened["isolation"]["cgroup"] is True
        assert opened["isolation"]["limits"]["memory"] == "cgroup"
        assert opened["isolation"]["limits"]["processes"] == "cgroup"
        assert client.run("cat /proc/self/cgroup")["stdout"] == "0::/cmd-1\n"
        client.begin("run_command", {"command": "setsid sleep 600 & sleep 600"})
        assert procfs.eventually(lambda: (unit / "ws-1/cmd-2").exists())
        below = procfs.descendants(pid)
        os.kill(pid, 9)
        assert procfs.vanish([pid, *below], 20)
        assert procfs.eventually(lambda before=pid: service.pid() not in (0, before), 60), turn
        service.wait()
        assert [path.name for path in unit.glob("*/")] == ["supervisor"]
    assert processes(unit) == []
    service.manage("systemctl", "stop", service.name)
    assert procfs.eventually(lambda: not unit.exists(), 20)


def test_under_systemd(area):
    check_service(Service(area, "cloister-vm-test", own_manager=False))


def test_under_the_users_own_systemd(area):
    manager = f"user@{area.account.uid}.service"
    subprocess.run(["systemctl", "start", manager], check=True)
    check_service(Service(area, "cloister-vm-own", own_manager=True))
    subprocess.run(["systemctl", "stop", manager], check=True)
    assert procfs.eventually(
        lambda: not any(map(procfs.is_alive, area.account.processes())), 20)


def test_the_figures_are_of_the_one_command(workspace):
    """The figures are those of this command, not of earlier ones or of the workspace."""
    workspace.observe("python3 -c 'x = bytearray(300 << 20)'", timeout_ms=600000)
    began = time.monotonic()
    usage = workspace.observe("true")["usage"]
    assert usage["peak_memory_bytes"] < 32 * MIB
    assert usage["wall_us"] <= (time.monotonic() - began) * 1e6


class Container:
    """A group as a kubelet makes one for a container: it belongs to root, has a limit, and is killed as a whole or not."""

    def __init__(self, account, whole):
        self.path = mount_point() / f"cloister-container-{os.getpid()}"
        self.path.mkdir()
        (self.path / "memory.max").write_text(str(256 * MIB))
        (self.path / "memory.oom.group").write_text(str(int(whole)))
        self.launcher = ["/bin/sh", "-c", ENTER, str(self.path), "setpriv", f"--reuid={account.uid}", f"--regid={account.gid}",
                         "--clear-groups", "--"]

    def remove(self):
        assert procfs.eventually(lambda: not processes(self.path))
        self.path.rmdir()


def state_of_oom(doctor):
    (line,) = [line for line in doctor.splitlines() if re.match(r"\w+ +single_process_oom\b", line)]
    return line.split()[0]


@pytest.fixture(params=[True, False], ids=["whole", "one"])
def container(account, request):
    assert "memory" in (mount_point() / "cgroup.subtree_control").read_text()
    made = Container(account, request.param)
    made.whole = request.param
    yield made
    made.remove()


def test_a_kubelet_s_limit(container, start_daemon, area):
    """In a container's group that is not cloister's to divide, a command that takes the last memory is killed with cloisterd
    and all other calls, or by itself, as the kubelet has set memory.oom.group; doctor says which."""
    daemon = start_daemon(launcher=container.launcher)
    said = subprocess.run([*container.launcher, str(area.bin / "cloisterd"), "--doctor"], capture_output=True, text=True,
                          check=False).stdout
    assert state_of_oom(said) == ("missing" if container.whole else "ok"), said
    assert ("singleProcessOOMKill: true" in said) == container.whole
    bystander = daemon.connect()
    bystander.call("workspace.open", {"root": str(area.new_directory())})
    client = daemon.connect()
    client.call("workspace.open", {"root": str(area.new_directory())})
    waiting = bystander.begin("run_command", {"command": "while ! test -e go; do sleep 0.2; done; echo lives", "timeout_ms": 600000})
    ended = client.begin("run_command", {"command": BOMB, "timeout_ms": 600000})
    if container.whole:
        assert procfs.eventually(lambda: not processes(container.path), SLOW)
        assert daemon.process.wait(SLOW) != 0
        return
    output = client.result(ended, SLOW)["output"]
    assert output["signal"] == "SIGKILL" or output["exit_code"] == 137, output
    bystander.use("write_file", path="go", content="")
    assert bystander.result(waiting, SLOW)["output"]["stdout"] == "lives\n"
    daemon.stop()


def test_a_divided_group_below_a_kubelet_s(delegation, start_daemon, account):
    """Where a container's group is cloister's to divide, a command is killed at its own limit and nothing else is, though
    the container would be killed as a whole."""
    (delegation.path / "memory.max").write_text(str(512 * MIB))
    (delegation.path / "memory.oom.group").write_text("1")
    config = (f"[cloister]\nadmin_group = {account.gid}\n[tenant t]\nusers = {account.uid}\nmanaged = yes\n"
              "command_memory = 64M\nworkspace_memory = 128M\n")
    daemon = start_daemon(config=config, launcher=delegation.launcher())
    said = daemon.ctl("doctor").stdout.decode()
    assert state_of_oom(said) == "ok", said
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    check_memory(client.observe("run_command", {"command": BOMB, "timeout_ms": 600000}))
    assert client.run("echo well")["stdout"] == "well\n"
