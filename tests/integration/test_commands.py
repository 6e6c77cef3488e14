# SPDX-License-Identifier: Apache-2.0
"""run_command through the real daemon: output, ends, options and blocked commands."""

import base64
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from daemon import INSTALLED

pytestmark = pytest.mark.usefixtures("as_user")

KIB, MIB = 1 << 10, 1 << 20
KEPT = 256 * KIB  # output_kept


def ended(client, by, command, options=None, **arguments):
    """Runs a command that cloister must end for the reason @by. Returns the observation."""
    observation = client.observe("run_command", {"command": command, **arguments}, options)
    assert not observation["success"]
    assert observation["output"]["ended_by"] == by
    return observation


def test_a_command(client, workspace):
    output = client.run("echo out; echo err >&2; exit 3")
    assert output == {
        "command": "echo out; echo err >&2; exit 3", "exit_code": 3, "signal": None,
        "stdout": "out\n", "stderr": "err\n", "stdout_bytes": 4, "stderr_bytes": 4,
        "truncated": False, "timed_out": False, "ended_by": "exit",
        "duration_ms": output["duration_ms"]}
    assert client.run("pwd")["stdout"] == f"{workspace}\n"


def test_usage_says_what_it_cost(client, workspace):
    observation = client.observe("run_command", {
        "command": "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"})
    usage = observation["usage"]
    assert usage["user_us"] + usage["system_us"] > 10000
    assert usage["wall_us"] > 10000
    assert usage["max_rss_bytes"] > 100 * KIB


@pytest.mark.parametrize("number,name", [
    (signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (signal.SIGTERM, "SIGTERM"),
    (signal.SIGPIPE, "SIGPIPE")])
def test_a_command_that_a_signal_ends(client, workspace, number, name):
    output = client.run(f"kill -{int(number)} $$")
    assert (output["exit_code"], output["signal"], output["ended_by"]) == (None, name, "signal")


def test_signals_are_as_a_shell_expects(client, workspace):
    stdout = client.run("grep -E 'SigBlk|SigIgn' /proc/self/status")["stdout"]
    assert stdout.split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16]
    assert client.run("yes | head -1; echo $?")["stdout"] == "y\n0\n"


def test_output_is_kept_at_its_head_and_tail(client, workspace):
    output = client.run("echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last; echo e >&2")
    assert output["stdout_bytes"] == 1000012
    assert output["truncated"] is True
    assert output["stdout"].startswith("first\nxxx")
    assert output["stdout"].endswith("xxx\nlast\n")
    assert KEPT <= len(output["stdout"]) < KEPT + 100
    assert output["stderr"] == "e\n" and output["stderr_bytes"] == 2
    output = client.run(f"head -c {KEPT} /dev/zero | tr '\\0' x")
    assert output["truncated"] is False and output["stdout"] == "x" * KEPT


def test_too_much_output_ends_the_command(client, workspace):
    observation = ended(client, "output_limit", "cat /dev/zero", timeout_ms=60000)
    assert observation["error"]["code"] == "OUTPUT_LIMIT"
    assert observation["output"]["stdout_bytes"] > 60 * MIB
    assert observation["output"]["truncated"] is True


def test_standard_input(client, workspace):
    assert client.run("cat; echo $?")["stdout"] == "0\n"
    assert client.run("cat", {"stdin": "zwölf\n"})["stdout"] == "zwölf\n"
    assert client.run("wc -c", {"stdin": ""})["stdout"].strip() == "0"
    data = bytes(range(256)) * 4000
    output = client.run("sha256sum", {"stdin": base64.b64encode(data).decode(), "encoding": "base64"})
    expected = subprocess.run(["sha256sum"], input=data, capture_output=True).stdout
    assert base64.b64decode(output["stdout"]) == expected
    # The command reads none of its input. Neither the command nor cloisterd hangs.
    assert client.run("true", {"stdin": "x" * MIB})["exit_code"] == 0


def test_environment(client, workspace):
    variables = dict(line.split("=", 1) for line in client.run("env")["stdout"].splitlines())
    assert variables["HOME"] == "/home/agent"
    assert variables["USER"] == "agent"
    assert not {"ASAN_OPTIONS", "UBSAN_OPTIONS", "XDG_RUNTIME_DIR", "SUDO_USER"} & set(variables)
    output = client.run('printf "%s|" "$A" "$B" "$USER" "$HOME"',
                        {"env": {"A": "a=b c", "B": "", "USER": "me"}})
    assert output["stdout"] == "a=b c||me|/home/agent|"


def test_streaming(client, workspace):
    """Output is streamed while the command runs: the command goes on only after its output has reached the client."""
    number = client.begin("run_command", {"command": (
        "for i in 1 2 3; do echo out $i; echo err $i >&2; until [ -e heard$i ]; do sleep 0.02; done; done")}, {"stream": True})
    for i in (1, 2, 3):
        told = {"stdout": "", "stderr": ""}
        while told != {"stdout": f"out {i}\n", "stderr": f"err {i}\n"}:
            message = client.receive()
            assert message.get("method") == "tool.output", message
            client.notifications.append(message)
            told[message["params"]["stream"]] += message["params"]["data"]
        (workspace / f"heard{i}").touch()
    answer = client.wait(number)["result"]
    params = [message["params"] for message in client.notifications]
    assert all(set(p) == {"id", "stream", "data", "seq"} and p["id"] == number for p in params)
    numbers = [p["seq"] for p in params]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for stream in ("stdout", "stderr"):
        streamed = "".join(p["data"] for p in params if p["stream"] == stream)
        assert streamed == answer["output"][stream]
    assert answer["output"]["stdout"] == "out 1\nout 2\nout 3\n"


def test_a_stream_ends_as_the_output_does(client, workspace):
    number = client.begin("run_command", {"command": r"printf 'a\303'"}, {"stream": True})
    assert client.wait(number)["result"]["output"]["stdout"] == "a\ufffd"
    assert "".join(m["params"]["data"] for m in client.notifications) == "a\ufffd"


@pytest.mark.deep("busy")
def test_a_long_stream_arrives_whole(client, workspace):
    number = client.begin("run_command", {"command": "seq 2000000"}, {"stream": True})
    time.sleep(1)  # the client reads nothing: cloisterd holds the command back and loses no output
    assert client.wait(number)["result"]["success"]
    received = "".join(m["params"]["data"] for m in client.notifications)
    assert received == "".join(f"{i}\n" for i in range(1, 2000001))


# Deadlines


SOON = 300  # ms
SAID = 6000 if INSTALLED else 3000  # ms until a shell has begun and written, on an emulated or busy machine


@pytest.mark.parametrize("options,argument", [
    ({"timeout_ms": SOON}, 60000), ({"timeout_ms": 60000}, SOON), (None, SOON)])
def test_the_shortest_deadline_counts(client, workspace, options, argument):
    observation = ended(client, "timeout", "sleep 600", options, timeout_ms=argument)
    assert observation["error"]["code"] == "TIMEOUT"
    assert observation["output"]["timed_out"] is True
    assert SOON - 100 < observation["output"]["duration_ms"] < 50000


@pytest.mark.deep("slow")
def test_a_command_may_clean_up_when_it_is_terminated(client, workspace):
    observation = ended(client, "timeout", "trap 'echo cleaned; exit 0' TERM; echo partial; while :; do sleep 0.1; done",
                        timeout_ms=SAID)
    assert observation["output"]["timed_out"] is True
    assert observation["output"]["stdout"] == "partial\ncleaned\n"


@pytest.mark.deep("slow")
def test_what_ignores_sigterm_is_killed_after_the_grace(client, workspace):
    observation = ended(client, "timeout", "trap '' TERM; echo partial; while :; do sleep 0.1; done",
                        timeout_ms=SAID)
    assert SAID + 4800 < observation["output"]["duration_ms"] < 50000
    assert observation["output"]["timed_out"] is True
    assert observation["output"]["stdout"] == "partial\n"


@pytest.mark.deep("slow")
def test_silence(client, workspace):
    observation = ended(client, "idle_timeout", "for i in 1 2 3 4; do echo $i; sleep 0.3; done; sleep 600",
                        {"idle_timeout_ms": 4000})
    assert observation["error"]["code"] == "TIMEOUT"
    assert observation["output"]["timed_out"] is True
    assert observation["output"]["stdout"] == "1\n2\n3\n4\n"


def test_the_end_of_a_large_output_arrives(client, workspace):
    """A full read may be under way when the command ends, and its pipe be full besides."""
    for size in range(100000, 300000, 10000):
        for options in (None, {"stream": True}):
            output = client.run(f"head -c {size} /dev/zero | tr '\\0' x; echo .", options=options)
            assert (output["stdout_bytes"], output["stdout"][-3:]) == (size + 2, "x.\n")


def test_a_background_child_does_not_delay_the_answer(client, workspace):
    output = client.run("sleep 100000 & (setsid sleep 100001 &) ; echo done")
    assert (output["stdout"], output["exit_code"]) == ("done\n", 0)


def test_the_next_command_finds_nothing_of_the_last(client, workspace):
    client.run("(setsid sleep 1234 >/dev/null 2>&1 &); sleep 0.2")
    assert "1234" not in client.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; true")["stdout"].replace(
        "cat /proc", "")


# Commands that are hard on the workspace


def test_many_commands_at_once(client, workspace):
    numbers = [client.begin("run_command", {"command": f"sleep 0.2; echo {i}"}) for i in range(100)]
    for i, number in enumerate(numbers):
        assert client.wait(number)["result"]["output"]["stdout"] == f"{i}\n"


def test_a_fork_bomb_stays_inside(client, workspace):
    observation = client.observe("run_command", {
        "command": "bomb() { bomb | bomb & }; bomb; sleep 1; echo alive", "timeout_ms": 10000})
    assert observation["output"] is not None
    assert client.run("echo well")["stdout"] == "well\n"


def test_a_long_command_line(client, workspace):
    output = client.run(": " + "x" * 131000 + "; echo end")
    assert output["stdout"] == "end\n"
    assert client.fail("run_command", command=": " + "x" * 131071)["code"] == "INVALID_ARGUMENTS"


MISTAKES = r"""
#include <stdlib.h>
int main(int argc, char **argv)
{
	char *volatile text = malloc(8);

	(void)argv;
	if (argc == 1)
		text[0] = 0; /* the program without a mistake */
	if (argc == 2)
		return text[8];
	if (argc == 3 && text[3])
		return 3;
	if (argc == 4)
		text = NULL;
	if (argc == 5)
		return argc << 31;
	free(text);
	return 0;
}
"""


@pytest.mark.parametrize("compiler, sanitizer, mistake, said", [
    ("gcc", "address", "1", "heap-buffer-overflow"), ("gcc", "address", "1 2 3", "LeakSanitizer: detected memory leaks"),
    ("gcc", "leak", "1 2 3", "LeakSanitizer: detected memory leaks"), ("clang", "memory", "1 2", "use-of-uninitialized-value"),
    ("gcc", "undefined", "1 2 3 4", "runtime error: left shift"), ("gcc", "thread", "", "")])
def test_sanitized_programs_run(client, workspace, compiler, sanitizer, mistake, said):
    """Programs built with a sanitizer run and find mistakes, also leaks, although it reserves terabytes of addresses
    that it never touches."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    (workspace / "a.c").write_text(MISTAKES)
    output = client.run(f"{compiler} -w -fsanitize={sanitizer} a.c -o a && ./a && echo well; ./a {mistake}", timeout_ms=300000)
    assert output["stdout"] == "well\n" and said in output["stderr"], output


@pytest.mark.deep("slow")
@pytest.mark.skipif(not shutil.which("java") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 12 << 30,
                    reason="needs a JVM, and memory for what it commits")
def test_a_jvm_with_a_large_heap_starts(client, workspace):
    """It reserves 9 GiB and touches little of them."""
    output = client.run("java -Xms9g -version", timeout_ms=300000)
    assert output["exit_code"] == 0, output


def test_large_arrays_can_be_reserved(client, workspace):
    """20 GiB of addresses, of which two pages are touched. 0x4000 is MAP_NORESERVE."""
    program = "import mmap; m = mmap.mmap(-1, 20 << 30, flags=0x4000 | mmap.MAP_PRIVATE); m[0] = m[-1] = 7; print(m[-1])"
    assert client.run(f"/usr/bin/python3 -c '{program}'")["stdout"] == "7\n"


# Blocked commands


def test_a_program_may_leave_out_the_blocked_list(client, workspace):
    error = client.fail("run_command", command="shutdown() { echo ran; }; shutdown")
    assert error["code"] == "COMMAND_BLOCKED" and "end single processes with kill" in error["message"]
    assert not re.search(r"[\\^$*]", error["message"])
    assert client.run("shutdown() { echo ran; }; shutdown", {"blocked_list": False})["stdout"] == "ran\n"
    assert client.fail("run_command", {"blocked_list": True}, command="shutdown now")["code"] == "COMMAND_BLOCKED"


def test_the_workspace_may_be_cleared_by_its_visible_path(client, workspace):
    (workspace / "d").mkdir()
    client.run(f"rm -rf {workspace}")
    assert not any(workspace.iterdir())
    assert client.fail("run_command", command=f"rm -rf {workspace} /etc")["code"] == "COMMAND_BLOCKED"


def test_all_that_a_larger_pipe_holds_is_read(client, workspace):
    """cloisterd also reads what a pipe still holds when its command has ended, even if the command enlarged the pipe."""
    program = "import fcntl, os; fcntl.fcntl(1, 1031, 1 << 20); os.write(1, b'x' * 1000000)"  # F_SETPIPE_SZ
    output = client.run(f'/usr/bin/python3 -c "{program}"')
    assert (output["stdout_bytes"], output["truncated"]) == (1000000, True)
