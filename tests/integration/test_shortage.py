# SPDX-License-Identifier: Apache-2.0
"""cloisterd, the spawner, workers and files processes run out of descriptors, processes or memory. They answer with an
error, and work again when there is enough."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

import pytest

import procfs
from cloister_client import RpcError
from daemon import AM_ROOT, BUILD, DELEGATED, INSTALLED

asan = pytest.mark.skipif("asan" in str(BUILD), reason="sanitizers reserve more memory than any limit allows")


class Squeezed:
    """Lowers a soft limit of the process for a while. Its own user may do that without privilege. prlimit(2)"""

    def __init__(self, daemon, pid, kind, limit):
        self.daemon, self.pid, self.kind, self.limit = daemon, pid, kind, limit

    def prlimit(self, *words):
        return subprocess.run(["prlimit", "--pid", str(self.pid), *words], check=True, text=True,
                              stdout=subprocess.PIPE, **self.daemon.account.as_user()).stdout

    def __enter__(self):
        self.before = self.prlimit("--raw", "--noheadings", "-o", "SOFT", f"--{self.kind}").strip()
        self.prlimit(f"--{self.kind}={self.limit}:")

    def __exit__(self, *_):
        self.prlimit(f"--{self.kind}={self.before}:")


def check_works(daemon, client):
    assert client.run("echo fine")["stdout"] == "fine\n"
    client.use("write_file", path="f", content="x")
    with daemon.connect() as another:
        processes = daemon.cell_of(daemon.new_workspace(another))
        assert another.run("echo too")["stdout"] == "too\n"
    assert procfs.vanish(processes)  # and cloisterd closes its descriptors for them


def check_busy(error):
    assert error["code"] == "BUSY" and error["retry_after_ms"] >= 50, error


@pytest.mark.parametrize("limit", [16, 64, 255])
def test_too_few_descriptors_to_start(area, limit):
    directory = area.new_directory()
    words = ["cloisterd", "--agent-socket", str(directory / "s"), "--state-dir", str(directory / "state")]
    with area.start(words, stderr=subprocess.PIPE, text=True,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) as process:
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    assert f"the limit of open files is {limit}, and cloisterd needs at least 256: raise it with ulimit -n, or with LimitNOFILE=" in said


def test_just_enough_descriptors_to_start(start_daemon):
    daemon = start_daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    client = daemon.connect()
    daemon.new_workspace(client)
    check_works(daemon, client)


def test_without_descriptors_calls_are_busy_and_connections_wait(own_daemon):
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    check_works(own_daemon, client)
    before = own_daemon.settled_fds()
    open_now = set(procfs.fds(own_daemon.pid))
    lowest_free = min(set(range(len(open_now) + 1)) - open_now)
    with Squeezed(own_daemon, own_daemon.pid, "nofile", lowest_free):
        # Pipes that cloisterd made ahead serve the first commands; then it has none.
        numbers = [client.begin("run_command", {"command": "until [ -e go ]; do sleep 0.05; done"}, {"timeout_ms": 600000})
                   for _ in range(24)]
        # A call for which cloisterd needs no descriptor is served.
        client.use("write_file", path="g", content="x")
        waiting = [own_daemon.connect() for _ in range(3)]
        for one in waiting:
            try:
                one.request("tools.list")
            except OSError:
                pass  # cloisterd has answered BUSY and closed the connection
        with pytest.raises(RpcError) as caught:
            client.call("workspace.open", {"root": str(own_daemon.area.new_directory())})
        assert caught.value.name in ("BUSY", "EXECUTION_ERROR"), caught.value
        client.use("write_file", path="go", content="")
        observations = [client.result(number) for number in numbers]
        failed = [o["error"] for o in observations if not o["success"]]
        assert failed
        for error in failed:
            check_busy(error)
        assert procfs.eventually(lambda: "cloisterd pauses accepting connections" in own_daemon.log())
    for one in waiting:
        answer = one.receive()
        assert "result" in answer or answer["error"]["data"]["code"] == "BUSY", answer
        one.close()
    check_works(own_daemon, client)
    assert procfs.eventually(lambda: own_daemon.settled_fds() <= before), procfs.fds(own_daemon.pid)


class Injected:
    """Makes system calls of the process fail for a while, with strace(1), as on a host that has run out of something."""

    def __init__(self, pid, *injections, threads=True):
        self.words = ["strace", *["-f"] * threads, "-qq", "-o", "/dev/null", *[f"--inject={injection}" for injection in injections], "-p", str(pid)]
        self.pid = pid

    def __enter__(self):
        self.tracer = subprocess.Popen(self.words, stdin=subprocess.DEVNULL)
        assert procfs.eventually(lambda: procfs.status(self.pid)["TracerPid"] != "0")

    def __exit__(self, *_):
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.wait(120)


@pytest.mark.deep("busy")
def test_answers_of_the_spawner_wait_until_their_descriptors_fit(own_daemon):
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    client.run("true")
    own_daemon.settled_fds()
    procfs.stop(own_daemon.spawner())
    asked = [client.request("workspace.open", {"root": str(own_daemon.area.new_directory())}) for _ in range(4)]
    own_daemon.settled_fds()
    crowd = []
    while max(procfs.fds(own_daemon.pid)) >= own_daemon.settled_fds():  # lower descriptor numbers are free
        crowd.append(own_daemon.connect())
        crowd[-1].request("tools.list")
        crowd[-1].receive()
    with Squeezed(own_daemon, own_daemon.pid, "nofile", max(procfs.fds(own_daemon.pid)) + 1):
        os.kill(own_daemon.spawner(), signal.SIGCONT)
        time.sleep(1)
        assert own_daemon.process.poll() is None, own_daemon.log()
    for number in asked:
        answer = client.wait(number)
        assert "result" in answer or answer["error"]["data"]["code"] in ("BUSY", "EXECUTION_ERROR"), answer
    for one in crowd:
        one.close()
    check_works(own_daemon, client)
    assert "spawner is gone" not in own_daemon.log()


@pytest.mark.skipif(not AM_ROOT or not shutil.which("strace"), reason="needs root and strace to make system calls fail")
@pytest.mark.parametrize("error", ["ETOOMANYREFS", "ENOBUFS", "ENOMEM"])
def test_answers_of_the_spawner_wait_for_the_kernel(own_daemon, error):
    """Other processes of the user may have as many descriptors in flight as it may have: unix(7). The spawner's own
    children are left alone."""
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    spawner = own_daemon.spawner()
    with Injected(spawner, f"sendmsg:error={error}:when=2+2", threads=False):
        own_daemon.new_workspace(client)
    check_works(own_daemon, client)
    assert own_daemon.spawner() == spawner


@pytest.mark.deep("slow")
def test_connections_leave_descriptors_for_work(own_daemon):
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    client.run("true")
    before = own_daemon.settled_fds()
    with Squeezed(own_daemon, own_daemon.pid, "nofile", before + 64 + 20):
        crowd = [own_daemon.connect() for _ in range(60)]
        told = []
        for one in crowd:
            try:
                one.call("tools.list", timeout=0.3)
            except RpcError as error:
                told.append(error.name)
            except (OSError, ConnectionError):
                told.append("BUSY" if b"BUSY" in one.buffer else "waits")
        assert told and set(told) <= {"BUSY", "waits"}, told
        # Workspaces open and commands run although clients hold every connection that cloisterd admits.
        own_daemon.new_workspace(client)
        assert client.run("echo works")["stdout"] == "works\n"
        for one in crowd:
            one.close()
    check_works(own_daemon, client)


def test_a_spawner_that_cannot_fork_says_so_and_goes_on(own_daemon):
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    before = own_daemon.settled_fds()
    spawner_fds = own_daemon.settled_fds(own_daemon.spawner())
    with Squeezed(own_daemon, own_daemon.spawner(), "nproc", 0):
        for _ in range(3):
            with own_daemon.connect() as another:
                with pytest.raises(RpcError) as caught:
                    own_daemon.new_workspace(another)
                assert caught.value.name in ("EXECUTION_ERROR", "BUSY"), caught.value
                assert "temporarily unavailable" in caught.value.message
        assert client.run("echo unharmed")["stdout"] == "unharmed\n"
    check_works(own_daemon, client)
    assert procfs.eventually(lambda: own_daemon.settled_fds() <= before)
    assert procfs.eventually(lambda: len(procfs.fds(own_daemon.spawner())) == spawner_fds)


def test_a_worker_that_cannot_fork_says_so_and_goes_on(own_daemon):
    client = own_daemon.connect()
    path = own_daemon.new_workspace(client)
    worker, files = own_daemon.cell_of(path)
    check_works(own_daemon, client)
    with Squeezed(own_daemon, worker, "nproc", 0):
        # Command inits made ahead may serve some of the calls.
        observations = [client.result(number) for number in [
            client.begin("run_command", {"command": "true"}) for _ in range(8)]]
        failed = [o["error"]["code"] for o in observations if not o["success"]]
        assert failed and set(failed) == {"PROCESS_LIMIT"}, observations
        client.use("read_file", path="f")
    check_works(own_daemon, client)
    assert own_daemon.cell_of(path) == (worker, files)


def test_a_files_process_that_cannot_fork_says_so_and_goes_on(own_daemon):
    client = own_daemon.connect()
    path = own_daemon.new_workspace(client)
    client.use("write_file", path="f", content="needle")
    worker, files = own_daemon.cell_of(path)
    with Squeezed(own_daemon, files, "nproc", 0):
        error = client.fail("search_files", pattern="needle")
        assert error["code"] in ("BUSY", "PROCESS_LIMIT", "EXECUTION_ERROR"), error
        assert client.use("read_file", path="f")["lines"] == 1
    assert client.use("search_files", pattern="needle")["count"] == 1
    assert own_daemon.cell_of(path) == (worker, files)


@asan
def test_without_memory_requests_are_refused_and_the_service_goes_on(own_daemon):
    client = own_daemon.connect()
    own_daemon.new_workspace(client)
    check_works(own_daemon, client)
    before = own_daemon.settled_fds()
    size = int(procfs.status(own_daemon.pid)["VmSize"].split()[0]) * 1024
    with Squeezed(own_daemon, own_daemon.pid, "as", size + (2 << 20)):
        for _ in range(4):
            with own_daemon.connect() as large:
                large.socket.settimeout(120)
                try:
                    large.request("tool.call", {"tool": "write_file", "arguments": {
                        "path": "f", "content": "x" * (12 << 20)}})
                    answer = large.receive(30)
                except OSError:  # without memory for an answer cloisterd closes the connection
                    answer = None
                if answer is not None:
                    assert "BUSY" in json.dumps(answer), answer
        # cloisterd lives on, and answers a small request with a result or an error.
        assert own_daemon.process.poll() is None
        client.request("tools.list")
        client.receive_any()
    check_works(own_daemon, client)
    assert procfs.eventually(lambda: own_daemon.settled_fds() <= before)


PROCESSES = 1024  # for all commands of a workspace together, where no cgroup counts them
BEYOND = f"for i in $(seq {PROCESSES + 50}); do sleep 600 & done"
uncounted = pytest.mark.skipif(DELEGATED or INSTALLED, reason="a cgroup counts refused forks there: tests/vm/test_cgroup_limits.py")


def observe(client, command, **arguments):
    return client.observe("run_command", {"command": command, "timeout_ms": 120000, **arguments}, timeout=120)


@uncounted
def test_a_shell_that_cannot_fork_met_the_limit(client, workspace):
    """A shell that fails because it cannot fork(2) ends with PROCESS_LIMIT. The command init learns that from the kernel:
    while the failed shell still counts, the kernel refuses the init one more process too."""
    observation = observe(client, f"exec sh -c 'echo before; {BEYOND}; wait'")
    output, error = observation["output"], observation["error"]
    assert (error["code"], output["ended_by"]) == ("PROCESS_LIMIT", "pids"), observation
    assert str(PROCESSES) in error["message"]
    assert output["stdout"] == "before\n" and output["exit_code"] == 2 and "fork" in output["stderr"]
    assert client.run("echo well")["stdout"] == "well\n"


@pytest.mark.deep("slow")
@uncounted
@pytest.mark.parametrize("command, code", [
    (f"({BEYOND}); true", 0),  # it succeeded in spite of the limit
    ("false", 1),
    (f"exec sh -c 'ulimit -p 50; {BEYOND}; wait'", 2),  # the command's own limit, not the workspace's
    (f"({BEYOND}); kill $(ps -o pid= -C sleep); while ps -C sleep >/dev/null; do :; done; exit 2", 2),  # its other processes are gone
])
def test_other_ends_are_not_blamed_on_the_limit(client, workspace, command, code):
    observation = observe(client, command)
    assert (observation["success"], observation["output"]["ended_by"], observation["output"]["exit_code"]) == (
        True, "exit", code), observation


# The child stops every process that is made after it, until it is killed with its pid namespace. The parent then fails.
STOPPER = """
#include <signal.h>
#include <unistd.h>

int main(void)
{
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		return 1;
	if (fork() == 0) {
		pid_t next = getpid() + 1;

		for (int i = 0;; i++) {
			for (pid_t pid = next; pid < next + 3; pid++)
				kill(pid, SIGSTOP);
			if (i == 100)
				(void)!write(ready[1], "", 1);
		}
	}
	(void)!read(ready[0], &byte, 1);
	return 3;
}
"""


@pytest.mark.deep("slow")
@uncounted
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
def test_no_command_stops_the_look_for_the_limit(start_daemon):
    """A command that stops every new process does not stop its init's check of the limit. cloisterd runs without Landlock
    here, which since Linux 6.12 keeps a command's signals from its init. landlock(7)"""
    daemon = start_daemon(without="landlock")
    client = daemon.connect()
    daemon.new_workspace(client)
    client.use("write_file", path="stopper.c", content=STOPPER)
    assert client.run("gcc -O2 stopper.c -o stopper")["exit_code"] == 0
    for _ in range(200):
        observation = observe(client, "exec ./stopper", timeout_ms=10000)
        assert observation["success"] and observation["output"]["exit_code"] == 3, observation
