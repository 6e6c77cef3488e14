# SPDX-License-Identifier: Apache-2.0
"""Programs for people, driven by a script of keys: once on a terminal as it is, and once by `cloister run`. Both are recorded,
and show the same screen. CLOISTER_RECORDINGS names a directory for the recordings, which asciinema(1) plays."""

import os
import pathlib
import re
import shutil

import pytest
from cloister_client import acting_as
from daemon import environment, user_mode_only
from screen import Screen
from test_shell import PATIENCE, Terminal, words_of

pytestmark = user_mode_only
FILE = "".join(f"line {number} of a file\n" for number in range(1, 201))
C_SOURCE = "int main(void)\n{\n\tint sum = 40;\n\n\tsum += 2;\n\treturn sum;\n}\n"


def ends_with(wanted):
    return lambda text: text.rstrip().endswith(wanted)


def has(wanted):
    return lambda text: wanted in text


class Program:
    """A command line, and steps: a condition for the screen, and the keys that are typed then. The screens are compared when the
    last condition holds, before its keys."""

    def __init__(self, line, *steps, needs=(), keeps=None, status=(0,), env=()):
        self.line, self.steps, self.status = line, steps, status
        self.env = {"LC_ALL": "C.UTF-8", **dict(env)}
        self.needs = [line.split()[0], *needs]
        self.keeps = keeps or (lambda text: text)  # what of a screen is the same everywhere


def without_processes(text):
    """Of htop: its columns, and its keys. The rest is about what runs where it runs."""
    return [" ".join(line.split()) for line in text.splitlines() if re.match(r" *PID |F1", line)]


def what_it_answers(text):
    """Of gdb: values, and where the program stops. It names the program's path and its processes, too."""
    return [line for line in text.splitlines() if re.match(r"\$|\d+(sum|return)|Breakpoint 1,", line)]


def beside(text, line):
    """Of tmux with two windows of a half each: a line of the right one."""
    return (text.split("\n")[line] + " " * 80)[41:].rstrip()


def has_left_prompt(text):
    """Whether the left window, too, waits for a command."""
    return any(line[:40].rstrip() == "%" for line in text.split("\n"))


PROGRAMS = {
    # Asked as an xterm it asks back, and goes on without waiting for answers.
    "vim": Program("vim -u NONE -N file", (has("line 1 of"), "Gothe last\x1b"), (has("the last"), ":2\rdd"),
                   (lambda text: "line 2 of" not in text and "line 3 of" in text, ":set nu\r"),
                   (has("\n 23 line"), ":wq\r"), env={"TERM": "vt100"}),
    "less": Program("less file", (has("line 1 of"), "/e 77\r"), (lambda text: text.startswith("line 77"), "G"),
                    (has("(END)"), "q")),
    "htop": Program("htop", (has("F10Quit"), "q"), keeps=without_processes),
    "gdb": Program("gdb -q -nx -ex 'set confirm off' ./sum", (ends_with("(gdb)"), "break 5\r"), (has("Breakpoint 1 at"), "run\r"),
                   (lambda text: "sum += 2" in text and text.rstrip().endswith("(gdb)"), "print sum\r"),
                   (has("$1 = 40"), "next\r"), (has("return sum"), "print sum\r"), (has("$2 = 42"), "kill\r"),
                   (has("killed]"), "quit\r"), needs=["gcc"], keeps=what_it_answers),
    # Two shells side by side, each on a terminal of the workspace's own devpts.
    "tmux": Program("tmux -S socket -f /dev/null new-session 'exec sh' \\; set -g status off",
                    (ends_with("$"), "PS1='% '; clear; echo left-$((40+2))\r"),
                    (has("left-42\n%"), "tmux split-window -h \"PS1='% ' exec sh\"\r"),
                    (lambda text: beside(text, 0).startswith("%"), "echo right-$((6*7))\r"),
                    (lambda text: beside(text, 1) == "right-42" and beside(text, 2) == "%" and has_left_prompt(text),
                     "tmux kill-server\r"),
                    status=(0, 1), env={"SHELL": "/bin/sh"}),
    "python": Program("/usr/bin/python3 -q", (ends_with(">>>"), "print('six times', 6*7)\r"),
                      (has("\nsix times 42\n>>>"), "for n in range(3): n*n\r\r"), (has("\n4\n>>>"), "1/0\r"),
                      (has("ZeroDivisionError: division by zero\n>>>"), "\x04")),
    "node": Program("node", (ends_with(">"), "[1, 2, 3].map(n => n * 14)\r"), (has("\n[ 14, 28, 42 ]\n>"), "const a = {b: 1}\r"),
                    (has("\nundefined\n>"), ".exit\r"), env={"NODE_REPL_HISTORY": ""}),
}


@pytest.fixture
def places(daemon, client, account, area):
    """The workspace, and a directory beside it with the same files."""
    workspace, beside = daemon.new_workspace(client), area.new_directory()
    for path in (workspace, beside):
        (path / "file").write_text(FILE)
        (path / "sum.c").write_text(C_SOURCE)
        if shutil.which("gcc"):
            os.system(f"cd {path} && gcc -g -O0 -o sum sum.c && chmod 755 sum")
        for name in path.iterdir():
            account.own(name)
    return workspace, beside


def drive(program, screen):
    """Types the keys. Returns the screen before the last ones."""
    try:
        for number, (condition, keys) in enumerate(program.steps):
            text = screen.until(condition, PATIENCE)
            if number + 1 == len(program.steps):
                shown = program.keeps(text)
            screen.type(keys)
        assert screen.wait() in program.status, screen.text()
        return shown
    finally:
        screen.close()


@pytest.mark.deep("slow", only=["gdb"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_its_screen_is_as_without_cloister(daemon, places, account, tmp_path, name):
    program = PROGRAMS[name]
    missing = [needed for needed in program.needs if not shutil.which(needed)]
    if missing:
        pytest.skip(f"{missing} are not installed")
    workspace, beside = places
    env = {**environment(daemon.area.home), "TERM": "xterm", **program.env}
    lines = {beside: ["/bin/sh", "-c", f"cd {beside} && exec {program.line}"],
             workspace: words_of(daemon, workspace, "run", *(f"--env={key}={value}" for key, value in program.env.items()), "--",
                                 program.line)}
    shown = {}
    for where, words in lines.items():
        with acting_as(os.getuid()):
            screen = Terminal(words, env, *((account.uid, account.gid) if account.made else ()), lines=24, columns=80)
        shown[where] = drive(program, screen)
        kind = "cloister" if where == workspace else "bare"
        recording = pathlib.Path(os.environ.get("CLOISTER_RECORDINGS", tmp_path)) / f"{name}-{kind}.cast"
        screen.save(recording)
        # The recording has all that came.
        assert Screen.replay(recording).text() == screen.text()
    assert shown[workspace] == shown[beside]
    assert shown[workspace], "something was compared"
