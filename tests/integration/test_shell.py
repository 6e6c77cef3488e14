# SPDX-License-Identifier: Apache-2.0
"""cloister shell and cloister run: programs on the caller's terminal, driven by keys, read from the screen."""

import os
import re
import shutil
import signal
import subprocess
import termios

import procfs
import pytest
from cloister_client import acting_as
from daemon import environment, user_mode_only
from screen import Screen

pytestmark = user_mode_only
PATIENCE = 60


class Terminal(Screen):
    """A terminal whose modes are known from before the program: those that every new one has."""

    def __init__(self, *arguments, **keywords):
        new = os.openpty()
        self.before = termios.tcgetattr(new[0])
        for each in new:
            os.close(each)
        super().__init__(*arguments, **keywords)

    def modes(self):
        return termios.tcgetattr(self.fd)

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def shows(self, wanted):
        return self.until(lambda text: wanted in text, PATIENCE)


def words_of(daemon, workspace, *words):
    return [str(daemon.area.bin / "cloister"), "--socket", str(daemon.socket), "--workspace", str(workspace), *words]


@pytest.fixture
def terminal(daemon, workspace, account):
    """Returns a function that starts `cloister WORDS` on a terminal, with the service or another one."""
    started = []

    def start(*words, where=None, **keywords):
        line = where + list(words) if where else words_of(daemon, workspace, *words)
        with acting_as(os.getuid()):
            started.append(Terminal(line, {**environment(daemon.area.home), "TERM": "xterm"}, *(
                (account.uid, account.gid) if account.made else ()), **keywords))
        return started[-1]

    yield start
    for each in started:
        each.close()


def needs(name):
    return pytest.mark.skipif(not shutil.which(name), reason=f"{name} is not installed")


def ends(terminal, status):
    """Waits for the end, after which the terminal is what it was before."""
    assert terminal.wait() == status, terminal.text()
    assert terminal.modes() == terminal.before


def private(daemon, directory):
    return [str(daemon.area.bin / "cloister"), "--private", "--workspace", str(directory)]


@pytest.mark.parametrize("kind", ["service", "private"])
def test_a_shell(daemon, workspace, terminal, kind):
    shell = terminal("shell", where=private(daemon, workspace) if kind == "private" else None)
    shell.until(lambda text: "$" in text, PATIENCE)
    assert shell.is_raw()
    shell.type("echo $((6*7)) $TERM; stty size; tty\n")
    shell.shows("42 xterm")
    shell.shows("24 120")
    shell.shows("/dev/pts/")
    shell.resize(30, 100)
    shell.type("until stty size | grep -x '30 100'; do sleep 0.1; done\n")
    shell.shows("\n30 100")
    # Ctrl-C goes in, and ends what the shell runs and not the shell.
    shell.type("echo be''gun; cat\n")
    shell.shows("\nbegun")
    shell.type("twice\n")
    shell.until(lambda text: "\ntwice\ntwice" in text, PATIENCE)
    shell.type("\x03")
    shell.until(lambda text: text.rstrip().endswith("$"), PATIENCE)
    shell.type("exit 7\n")
    ends(shell, 7)


def test_status_of_the_program(terminal):
    ends(terminal("run", "--", "exit 3"), 3)
    ends(terminal("run", "--", "kill -KILL $$"), 128 + signal.SIGKILL)
    ends(terminal("run", "--", "printf", "%s", "a 'b' $c"), 0)
    missing = terminal("run", "--", "/no/such/program")
    ends(missing, 127)


def test_pipes_where_there_is_no_terminal(daemon, workspace, account):
    def run(*words, given):
        with acting_as(account.uid if account.made else os.getuid()):
            return subprocess.run(words_of(daemon, workspace, *words), input=given, capture_output=True, text=True,
                                  env=environment(daemon.area.home), check=False, timeout=PATIENCE)

    done = run("run", "--", "cat; tty; exit 4", given="typed\n")
    assert (done.returncode, done.stdout) == (4, "typed\nnot a tty\n")
    done = run("shell", given="echo script $TERM\nexit 5\n")
    assert (done.returncode, done.stdout) == (5, "script dumb\n")


# How the client, the program or the service may die, and the status that is left.
DEATHS = {
    "SIGTERM": 128 + signal.SIGTERM,
    "SIGHUP": 128 + signal.SIGHUP,
    "SIGINT": 128 + signal.SIGINT,
    "SIGSEGV": -signal.SIGSEGV,
    "SIGABRT": -signal.SIGABRT,
    "the program": 128 + signal.SIGKILL,
    "the service": 125,
}


@pytest.mark.parametrize("death", DEATHS)
def test_the_terminal_is_as_before(daemon, workspace, terminal, death):
    """After every death but SIGKILL of the client; also the screen of a program that could not clear up."""
    marker = f"cloister-shell-{os.getpid()}-{len(death)}{death[-1]}"
    program = terminal("run", "--", f"printf '\\033[?1049h\\033[?25lready'; while :; do sleep 0.1; done; : {marker}",
                       where=private(daemon, workspace))
    program.shows("ready")
    assert program.is_raw()
    with acting_as(os.getuid()):
        if death == "the program":
            inside = [pid for pid in procfs.having(marker) if procfs.name(procfs.parent(pid)) == "cloister-worker"]
            os.kill(inside[0], signal.SIGKILL)  # not a child that it has just made
        elif death == "the service":
            service = [pid for pid in procfs.children(program.pid) if procfs.name(pid) == "cloisterd"]
            os.kill(service[0], signal.SIGKILL)
        else:
            os.kill(program.pid, getattr(signal, death))
    ends(program, DEATHS[death])
    assert b"\x1b[?25h" in program.raw and b"\x1b[?1047l" in program.raw
    with acting_as(os.getuid()):
        assert procfs.eventually(lambda: not procfs.having(marker)), "nothing of it is left"


def test_a_terminal_that_hangs_up(daemon, workspace, terminal):
    """Its window is closed: the session with the service ends too."""
    program = terminal("run", "--", "echo ready; sleep 600")
    program.shows("ready")
    with daemon.connect() as client:
        assert [each["state"] for each in client.call("session.list")["sessions"]
                if each["command"].endswith("ready; sleep 600")][-1] == "running"
        with acting_as(os.getuid()):
            os.kill(program.pid, signal.SIGHUP)
        ends(program, 128 + signal.SIGHUP)
        assert [each["state"] for each in client.call("session.list")["sessions"]
                if each["command"].endswith("ready; sleep 600")][-1] == "ended"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP])
def test_it_is_stopped_and_goes_on(terminal, number):
    """As by Ctrl-Z of another shell, which sets the modes that it wants and gives the terminal back by SIGCONT."""
    program = terminal("run", "--", "echo ready; while read line; do echo \"got $line\"; stty size; done")
    program.shows("ready")
    assert procfs.eventually(program.is_raw)
    with acting_as(os.getuid()):
        os.kill(program.pid, number)
        assert procfs.eventually(lambda: procfs.status(program.pid)["State"][0] == "T")
    if number == signal.SIGTSTP:
        assert program.modes() == program.before
    termios.tcsetattr(program.fd, termios.TCSANOW, program.before)
    program.resize(31, 101)
    with acting_as(os.getuid()):
        os.kill(program.pid, signal.SIGCONT)
    assert procfs.eventually(program.is_raw)
    program.type("a line\r")
    program.shows("\ngot a line")
    program.type("\x04")
    ends(program, 0)


def test_every_size_arrives(terminal):
    """Also where more come than may wait, and the last one as they stop."""
    program = terminal("run", "--", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done")
    program.shows("ready")
    for rows in range(20, 60):
        program.resize(rows, 90)
    program.shows("59 90")
    with acting_as(os.getuid()):
        os.kill(program.pid, signal.SIGTERM)
    ends(program, 128 + signal.SIGTERM)


def test_a_python_prompt(terminal):
    prompt = terminal("run", "--", "/usr/bin/python3", "-q")
    prompt.shows(">>>")
    prompt.type("print('six times', 6*7)\r")
    prompt.until(lambda text: "\nsix times 42\n>>>" in text, PATIENCE)  # before that, Ctrl-D is not for its editor
    prompt.type("\x04")
    ends(prompt, 0)


@needs("less")
def test_a_pager(terminal):
    pager = terminal("run", "--", "seq 1 1000 | less", lines=10)
    pager.until(lambda text: text.startswith("1\n2\n"), PATIENCE)
    pager.type("G")
    pager.shows("1000")
    pager.type("q")
    ends(pager, 0)


@needs("vim")
def test_an_editor(workspace, terminal):
    editor = terminal("run", "--env", "TERM=vt100", "--", "vim -u NONE -N note")  # it asks an xterm many questions
    editor.shows("note")
    editor.type("ione line\x1byyp")
    editor.until(lambda text: text.startswith("one line\none line"), PATIENCE)
    editor.resize(10, 60)
    editor.until(lambda text: text.startswith("one line\none line"), PATIENCE)
    editor.type(":set lines? columns?\r")
    editor.shows("columns=60")
    editor.type("\r:wq\r")
    ends(editor, 0)
    assert (workspace / "note").read_text() == "one line\none line\n"


@needs("gdb")
def test_a_debugger(terminal):
    debugger = terminal("run", "--", "gdb -q -nx /usr/bin/true")
    debugger.shows("(gdb)")
    debugger.type("print 6*7\r")
    debugger.shows("$1 = 42")
    debugger.type("quit\r")
    ends(debugger, 0)


@needs("tmux")
def test_terminals_in_a_terminal(terminal):
    """tmux opens a terminal of the workspace's devpts for each window."""
    many = terminal("run", "--env", "LC_ALL=C.UTF-8", "--", "tmux -f /dev/null new-session 'echo ready; tty; sleep 600'")
    many.shows("ready")
    many.shows("/dev/pts/")
    many.type("\x02")
    many.type(":")
    many.until(lambda text: text.rstrip().endswith("\n:"), PATIENCE)
    many.type("kill-server")
    many.shows(":kill-server")
    many.type("\r")
    assert many.wait() in (0, 1)
    assert many.modes() == many.before


def test_what_a_slow_terminal_loses_is_told(terminal, workspace):
    """The program does not wait for the terminal. What it was too slow for is counted, to the byte, when all is over."""
    size = 4 << 20
    slow = terminal("run", "--", f"head -c {size} /dev/zero | tr '\\0' x; touch written; exit 3")
    assert procfs.eventually((workspace / "written").exists, PATIENCE)
    assert slow.wait() == 3
    lost = re.search(rb"(?:\x1b\[[0-9;]*m)?cloister:(?:\x1b\[0m)? (\d+) bytes of the output were lost", slow.raw)
    assert lost, slow.raw[-200:]
    assert int(lost[1]) > 0
    assert slow.raw[:lost.start()].count(b"x") + int(lost[1]) == size
    assert slow.modes() == slow.before


def test_a_terminal_that_reads_is_told_of_no_loss(terminal):
    fast = terminal("run", "--", "head -c 100000 /dev/zero | tr '\\0' x")
    assert fast.wait() == 0
    assert fast.raw.count(b"x") == 100000 and b"lost" not in fast.raw
