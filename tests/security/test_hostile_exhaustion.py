# SPDX-License-Identifier: Apache-2.0
"""Commands that take all that they can get of what others need: processes, memory, disk, descriptors, output."""

import time

import procfs
import pytest
from cells import with_variable
from daemon import INSTALLED, is_sanitized
from hostile_commands import (GRACE, OPEN_FILES, PRELUDE, PYTHON, SLOW, SOON, also_as_session, begin, bystander,
                              cancelled, cell, ended, endures, is_ended, program)

pytestmark = pytest.mark.deep("busy")

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PROCESSES = 512 if INSTALLED else 1024  # command_processes, where there are cgroups, or LIMIT_PROCESSES
TMP_BYTES, TMP_INODES = 1 * GIB, 200000  # DEFAULT_TMP_BYTES, LIMIT_TMP_INODES
DATA_BYTES = 8 * GIB


# Too many processes


@pytest.mark.parametrize("command,options", [
    ("bomb() { bomb | bomb & }; bomb & exec sleep 600", None),
    ("bomb() { bomb & bomb; }; bomb & exec sleep 600", None),
    (PYTHON, {"stdin": "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n"}),
    ("echo 'sh ./again & sh ./again &' > again; setsid sh ./again & exec sleep 600", None)],
    ids=["pipes", "halves", "exponential", "scripts"])
@also_as_session
def test_fork_bombs(cell, bystander, command, options):
    sent = begin(cell, command, options, timeout_ms=600000)
    assert procfs.eventually(cell.command_processes)
    time.sleep(0.5)  # the time in which it forks
    bystander.check()
    assert len(cell.command_processes()) <= PROCESSES
    sent.cancel()
    # Processes that the first SIGTERM misses get the whole grace period.
    observation = sent.observe(GRACE + 2 * SOON)
    # cloisterd kills a worker that does not get to end a bomb within LIMIT_KILL_REPORT_MS, and the bomb with it.
    if "did not answer, and cloisterd killed it" not in (observation["error"] or {}).get("message", ""):
        is_ended(observation, "cancel")
    assert not cell.command_processes()
    assert cell.client.run("echo well")["stdout"] == "well\n"


FULL = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
n = 0
try:
    while os.fork():
        n += 1
except OSError as error:
    open('count', 'w').write(f'{n} {errno.errorcode[error.errno]}')
    os.rename('count', 'full')
while True:
    signal.pause()
"""


@also_as_session
def test_a_workspace_full_of_processes(cell, bystander):
    """The processes ignore SIGTERM and the shell does not, which is enough to end the command."""
    sent = begin(cell, PYTHON, {"stdin": PRELUDE + FULL}, timeout_ms=600000)
    assert procfs.eventually((cell.path / "full").exists)
    bystander.check()
    count, error = (cell.path / "full").read_text().split()
    assert error == "EAGAIN"
    assert PROCESSES - 32 < int(count) <= PROCESSES
    assert len(cell.command_processes()) <= PROCESSES
    # A call that needs a process is refused with the reason, unless the one command took all. Other calls are served.
    if INSTALLED:
        assert cell.client.run("echo well")["stdout"] == "well\n"
    else:
        assert cell.client.fail("run_command", command="true")["code"] == "PROCESS_LIMIT"
    assert cell.client.use("read_file", path="full")
    assert bystander.client.run("echo well")["stdout"] == "well\n"
    sent.cancel()
    is_ended(sent.observe(GRACE + 3 * SOON), "cancel")
    assert not cell.command_processes()
    assert cell.client.run("echo well")["stdout"] == "well\n"


# Too much of any other resource


@pytest.mark.skipif(is_sanitized(), reason="sanitized programs need more memory than the limit")
def test_memory_bombs(cell, bystander):
    """The programs allocate memory and never touch it, so the machine keeps its own."""
    output = program(cell, bystander, f"""
import resource
resource.setrlimit(resource.RLIMIT_DATA, ({DATA_BYTES}, -1))
held = []
try:
    while len(held) < 100:
        held.append(bytes(1 << 28))
except MemoryError:
    print(len(held))
""")
    assert 28 <= int(output["stdout"]) <= DATA_BYTES >> 28
    output = endures(cell, bystander, f"exec {PYTHON}", options={
        "stdin": f"import resource\nresource.setrlimit(resource.RLIMIT_DATA, ({DATA_BYTES}, -1))\nbytes({DATA_BYTES})"})
    assert (output["exit_code"], output["ended_by"]) == (1, "exit")
    assert "MemoryError" in output["stderr"]


@also_as_session
def test_memory_under_the_commands_own_limit(cell, bystander):
    """The program touches the memory, and cannot raise its limit again."""
    for command in ("ulimit -d 100000; x=xxxxxxxx; while :; do x=$x$x; done",
                    "ulimit -d 100000; perl -e 'push @x, \"x\" x 1e7 while 1'",
                    "ulimit -d 100000; ulimit -d unlimited", "ulimit -u 100000", "ulimit -n 100000"):
        output = endures(cell, bystander, command)
        assert output["exit_code"] != 0, command


@also_as_session
def test_a_disk_filler(cell, bystander):
    output = endures(cell, bystander, f"head -c {2 * TMP_BYTES} /dev/zero > /tmp/fill", within=6 * SOON)
    assert output["exit_code"] == 1
    assert "No space left" in output["stderr"]
    output = cell.client.run("stat -c %s /tmp/fill; for d in /run /dev/shm $HOME; do "
                             "head -c 100000 /dev/zero > $d/more || echo full; done")
    size, *rest = output["stdout"].split()
    assert 0.9 * TMP_BYTES < int(size) <= TMP_BYTES
    assert rest == ["full"] * 3
    # The workspace's file system is another one, and so is another workspace's /tmp.
    assert cell.client.use("write_file", path="file", content="x")
    assert cell.client.run("cat file")["stdout"] == "x"
    assert bystander.client.run("echo x > /tmp/x && cat /tmp/x")["stdout"] == "x\n"
    assert cell.client.run("rm /tmp/fill; echo x > /tmp/x && cat /tmp/x")["stdout"] == "x\n"


def test_an_inode_filler(cell, bystander):
    output = program(cell, bystander, """
os.mkdir('/tmp/fill')
os.chdir('/tmp/fill')
n = 0
while True:
    try:
        os.mknod(str(n))
    except OSError as error:
        print(n, errno.errorcode[error.errno])
        break
    n += 1
""", within=6 * SOON, timeout_ms=60000 * SLOW)
    count, error = output["stdout"].split()
    assert (error, 0.9 * TMP_INODES < int(count) <= TMP_INODES) == ("ENOSPC", True)
    assert cell.client.run("echo $(ls -f /tmp/fill | wc -l)")["exit_code"] == 0
    assert bystander.client.run("echo x > /tmp/x && cat /tmp/x")["stdout"] == "x\n"


@also_as_session
def test_a_file_that_is_too_large(cell, bystander):
    output = endures(cell, bystander, "exec truncate -s 17G file")
    assert (output["ended_by"], output["signal"]) == ("signal", "SIGXFSZ")


@also_as_session
def test_descriptor_exhaustion(cell, bystander):
    output = program(cell, bystander, """
import resource
def fill():
    n = 0
    while True:
        try:
            os.pipe() if n % 2 else os.dup(0)
        except OSError as error:
            return errno.errorcode[error.errno], len(os.listdir('/proc/self/fd')) if n < 0 else n
        n += 1
pids = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        print(*fill(), flush=True)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    print('raised')
except (ValueError, OSError):
    pass
""")
    lines = output["stdout"].split("\n")[:-1]
    assert len(lines) == 20
    for line in lines:
        error, count = line.split()
        assert (error, int(count) < OPEN_FILES) == ("EMFILE", True)


@also_as_session
def test_a_hundred_thousand_arguments(cell, bystander):
    output = endures(cell, bystander, "/bin/echo $(seq 100000) | wc -w; seq 100000 | xargs /bin/echo | wc -w; "
                     "/bin/echo $(seq 1000000) > /dev/null; echo $?")
    assert output["stdout"] == "100000\n100000\n126\n"
    assert "too long" in output["stderr"]


def test_deep_directories(cell, bystander):
    depth = 3000
    output = program(cell, bystander, f"""
for where in '.', '/tmp':
    os.chdir(where)
    for _ in range({depth}):
        os.mkdir('directory')
        os.chdir('directory')
    open('bottom', 'w').write('cloister-bottom')
    os.chdir('/proc/self/cwd') if where == '/tmp' else os.chdir({str(cell.path)!r})
print('made')
""")
    assert output["stdout"] == "made\n"
    for tool, arguments in (("list_directory", {"path": ".", "recursive": True}),
                            ("search_files", {"pattern": "cloister-bottom"})):
        observation = cell.client.observe(tool, arguments)
        bystander.check()
        assert observation["success"] or observation["error"]["code"] in ("NAME_TOO_LONG", "TIMEOUT")
    output = endures(cell, bystander, "find . | wc -l; rm -rf directory; ls -A", within=6 * SOON, timeout_ms=60000 * SLOW)
    assert output["stdout"] == f"{depth + 2}\n"


# Too much output


@pytest.mark.parametrize("command,streams", [
    ("yes", ["stdout"]), ("yes >&2", ["stderr"]), ("echo; echo >&2; yes & yes >&2 & wait", ["stdout", "stderr"]),
    ("(setsid yes &); yes", ["stdout"]), ("exec cat /dev/zero", ["stdout"])])
def test_floods(cell, bystander, command, streams):
    output = ended("output_limit", cell, bystander, command, within=6 * SOON, timeout_ms=120000)
    assert output["truncated"] is True
    assert max(output[f"{stream}_bytes"] for stream in streams) > 64 * MIB
    for stream in ("stdout", "stderr"):
        assert len(output[stream]) < 260 * KIB
        assert output[f"{stream}_bytes"] <= 67 * MIB
        assert (output[f"{stream}_bytes"] > 0) is (stream in streams)


def test_a_client_that_does_not_read_stalls_its_own_command_only(cell, bystander):
    sent = begin(cell, "yes", {"stream": True}, timeout_ms=3000)
    sent.runs()
    for _ in range(10):
        bystander.check()

    def ended_meanwhile():
        bystander.check()
        return not with_variable(sent.mark)
    assert procfs.eventually(ended_meanwhile, interval=0.2)
    output = is_ended(sent.observe(6 * SOON), "timeout")
    streamed = sum(len(message["params"]["data"]) for message in cell.client.notifications)
    assert streamed == output["stdout_bytes"] < 64 * MIB


@also_as_session
def test_closed_standard_streams(cell, bystander):
    """A command that closes its standard streams has not ended."""
    output = endures(cell, bystander, "exec 0<&- 1>&- 2>&-; sleep 0.3; exit 7")
    assert (output["exit_code"], output["stdout"], output["stderr"]) == (7, "", "")
    assert output["duration_ms"] >= 300
    ended("timeout", cell, bystander, "exec 0<&- 1>&- 2>&-; sleep 600", timeout_ms=3000)
    output = cancelled(cell, bystander, "echo x; exec >&- 2>&-; touch closed; exec sleep 600", file="closed")
    assert output["stdout"] == "x\n"
