# SPDX-License-Identifier: Apache-2.0
"""The help of cloister and cloisterctl: its examples run, and a wrong command line gets a message."""

import json
import os
import shlex

import manual
import pytest
from cloister_client import acting_as
from daemon import environment, user_mode_only

pytestmark = user_mode_only
PROGRAMS = ("cloister", "cloisterctl")


def text(area, *words):
    done = area.run(*words)
    assert (done.returncode, done.stderr) == (0, b""), done
    return done.stdout.decode()


def example(area, program, command):
    (line,) = [line for line in text(area, program, "help", command).splitlines() if line.startswith("Example: ")]
    return line.removeprefix("Example: ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_way_to_ask_gives_the_same_help(area, program):
    whole = text(area, program, "help")
    assert whole.startswith(f"usage: {program} ") and whole == text(area, program, "-h") == text(area, program, "--help")
    for command in manual.program_commands(area, program):
        shown = text(area, program, "help", command)
        for words in ([command, "-h"], [command, "--help"], ["--help", command], ["-h", command]):
            assert text(area, program, *words) == shown, words
        assert shown.startswith(f"usage: {program} [OPTION]... {command}") and len(shown.splitlines()) <= 16
        assert max(map(len, shown.splitlines())) <= 100
        assert f"\nExample: {program} " in shown


def test_what_follows_a_command_for_exec_is_not_for_cloister(daemon, workspace):
    done = daemon.area.run("cloister", "--socket", str(daemon.socket), "--workspace", str(workspace), "exec", "echo", "-h",
                           "--help")
    assert (done.returncode, done.stdout) == (0, b"-h --help\n")


@pytest.fixture
def desk(area):
    """A directory with the files that the examples name."""
    path = area.new_directory("desk")
    with acting_as(area.account.uid, area.account.gid):
        (path / "README.md").write_text("one\ntwo TODO\n")
        for name in ("project", "data"):
            (path / name).mkdir()
        (path / "data" / "table").write_text("1\n")
    return path


def run_example(daemon, desk, program, command):
    line = example(daemon.area, program, command)
    variables = {**environment(daemon.area.home), "CLOISTER_SOCKET": str(daemon.socket),
                 "CLOISTER_CONTROL_SOCKET": str(daemon.control_socket)}
    return daemon.area.run(*shlex.split(line), cwd=desk, env=variables)


@pytest.mark.parametrize("commands, said", [
    (["tools"], b'"minimum"'), (["call"], b"one"), (["exec"], b"README.md:1"), (["mcp"], b""), (["help"], b"usage:"),
    (["put", "get"], b""), (["workspace"], b"WORKSPACE"), (["harness"], b"exec claude ")])
def test_cloisters_examples_work(daemon, desk, commands, said):
    for command in commands:
        done = run_example(daemon, desk, "cloister", command)
        assert (done.returncode, done.stderr) == (0, b"") and said in done.stdout, done
    if "get" in commands:
        with acting_as(os.getuid()):
            assert (desk / "copy" / "table").read_text() == "1\n"


@pytest.mark.deep("slow")
def test_cloisterctls_examples_work(start_daemon, area, desk):
    daemon = start_daemon()
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "build"})
    client.call("workspace.freeze", {"template": "ready"})
    for command in manual.program_commands(area, "cloisterctl"):
        if command in ("reload", "top", "events", "audit", "key"):  # checked below
            continue
        done = run_example(daemon, desk, "cloisterctl", command)
        assert (done.returncode, done.stderr) == (0, b"") and done.stdout, done
    # Without a configuration file there is nothing to reload. Without a terminal there is no screen.
    for command, said in {"reload": b"configuration", "top": b"terminal"}.items():
        assert said in run_example(daemon, desk, "cloisterctl", command).stderr
    assert example(area, "cloisterctl", "key").startswith("cloisterctl key new --tenant ")  # test_http_gate.py makes keys
    assert example(area, "cloisterctl", "events") == "cloisterctl events"  # test_control.py reads the events
    with acting_as(area.account.uid, area.account.gid):
        for name in ("audit.log.1", "audit.log"):
            (desk / name).touch()
    done = run_example(daemon, desk, "cloisterctl", "audit")
    assert done.returncode == 0 and b"the files are empty" in done.stdout


@pytest.mark.parametrize("words, status, said, where", [
    ("cloister exce", 2, "there is no command 'exce'; did you mean 'exec'?", "cloister help"),
    ("cloister toools", 2, "there is no command 'toools'; did you mean 'tools'?", "cloister help"),
    ("cloister something", 2, "there is no command 'something'", "cloister help"),
    ("cloister help exce", 2, "there is no command 'exce'; did you mean 'exec'?", "cloister help"),
    ("cloister help get put", 2, "help takes these operands: [COMMAND]", "cloister help help"),
    ("cloister call", 2, "call takes these operands: TOOL [ARG=VALUE ... | JSON]", "cloister help call"),
    ("cloister exec", 125, "exec takes these operands: [--] COMMAND ...", "cloister help exec"),
    ("cloister put", 2, "put takes these operands: DIR|FILE|- ... [DEST]", "cloister help put"),
    ("cloister get", 2, "get takes these operands: PATH [DIR|-]", "cloister help get"),
    ("cloister workspace", 2, "workspace takes these operands: list | info NAME | create NAME | update NAME | remove NAME", "cloister help workspace"),
    ("cloister workspace list x", 2, "workspace takes these operands: list | info NAME | create NAME | update NAME | remove NAME", "cloister help workspace"),
    ("cloister harness claud", 2, "there is no harness 'claud'; did you mean 'claude'?", "cloister help harness"),
    ("cloister harness something", 2, "there is no harness 'something'", "cloister help harness"),
    ("cloister harness zed zed", 2, "harness takes these operands: [NAME]", "cloister help harness"),
    ("cloister mcp now", 2, "mcp takes no operands", "cloister help mcp"),
    ("cloister", 2, "a command is missing", "cloister help"),
    ("cloister --sokcet=x tools", 2, "there is no option '--sokcet'; did you mean '--socket'?", "cloister help"),
    ("cloister exec --tmeout 3 true", 125, "there is no option '--tmeout'; did you mean '--timeout'?", "cloister help exec"),
    ("cloister exec --something true", 125, "there is no option '--something'", "cloister help exec"),
    ("cloister exec -x true", 125, "there is no option '-x'", "cloister help exec"),
    ("cloister exec --timeout", 125, "the option '--timeout' needs an argument", "cloister help exec"),
    ("cloister exec --stdin=yes true", 125, "the option '--stdin' takes no argument", "cloister help exec"),
    ("cloister get --max=3 x", 2, "the option '--max' could be any of '--max-size', '--max-files'", "cloister help get"),
    ("cloister call --timeout=x read_file", 2, "'x' is not a duration such as 500ms, 30s, 5m or 1h", "cloister help call"),
    ("cloisterctl staus", 2, "there is no command 'staus'; did you mean 'status'?", "cloisterctl help"),
    ("cloisterctl", 2, "a command is missing", "cloisterctl help"),
    ("cloisterctl --jsno status", 2, "there is no option '--jsno'; did you mean '--json'?", "cloisterctl help"),
    ("cloisterctl tpo", 2, "there is no command 'tpo'; did you mean 'top'?", "cloisterctl help"),
    ("cloisterctl kill", 2, "kill takes these operands: WORKSPACE|CALL|SESSION", "cloisterctl help kill"),
    ("cloisterctl status now", 2, "status takes no operands", "cloisterctl help status"),
    ("cloisterctl --tenant=x status", 2, "only show, kill, denials, templates, template and key take --tenant",
     "cloisterctl help status"),
    ("cloisterctl --contains=x status", 2, "only audit verify takes --contains", "cloisterctl help status"),
    ("cloisterctl -v status", 2, "only selftest takes --verbose", "cloisterctl help status"),
    ("cloisterctl -f status", 2, "only denials takes --follow", "cloisterctl help status"),
    ("cloisterctl --agent-check status", 2, "only health takes --agent-check", "cloisterctl help status"),
    ("cloisterctl top --ignore-full", 2, "only health takes --ignore-full", "cloisterctl help top"),
    ("cloisterctl metrics --verbose", 2, "only selftest takes --verbose", "cloisterctl help metrics"),
    ("cloisterctl --format=prometheus top", 2, "only metrics takes --format", "cloisterctl help top"),
    ("cloisterctl audit", 2, "audit takes these operands: verify FILE...", "cloisterctl help audit")])
def test_an_error_of_use_is_two_lines(area, words, status, said, where):
    program, *rest = words.split()
    done = area.run(program, *rest)
    assert (done.returncode, done.stdout) == (status, b"")
    assert done.stderr.decode().splitlines() == [f"{program}: {said}", f"see `{where}`"]
    assert text(area, *where.split()).startswith(f"usage: {program} ")
    done = area.run(program, "--json", *rest)
    assert (done.returncode, done.stderr) == (status, b"")
    assert json.loads(done.stdout) == {"error": {"code": "USAGE", "message": said}}


def test_a_word_of_any_length_and_form_is_answered(area):
    for word in ("x" * 100000, "\x1b[2Jexec", "é", "-", "--" + "y" * 100000, "-\x1b"):
        done = area.run("cloister", word)
        assert done.returncode == 2 and b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 2, done
