# SPDX-License-Identifier: Apache-2.0
"""cloisterctl top, on a terminal."""

import re
import termios

import pytest

import procfs
from daemon import environment
from screen import Screen


@pytest.fixture
def top(daemon):
    """Returns a function that starts cloisterctl top on a terminal of its own."""
    screens = []

    def start(term="xterm", **keywords):
        account = daemon.account
        ids = {"uid": account.uid, "gid": account.gid} if account.made else {}
        screens.append(Screen(
            [str(daemon.area.bin / "cloisterctl"), "--socket", str(daemon.control_socket), "top"],
            {**environment(daemon.area.home), "TERM": term, "LC_ALL": "C.UTF-8"}, **ids, **keywords))
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()


@pytest.fixture
def calls(daemon):
    """Three commands in workspaces of their own, one of them with escape sequences in its text."""
    client = daemon.connect()
    numbers = {}
    for name, command in (("zeta", "sleep 601"), ("alpha", "sleep 602; : \x1b]0;owned\x07\x1b[2J ümlaut"),
                          ("mid", "sleep 603")):
        client.call("workspace.open", {"workspace": name})
        numbers[name] = client.begin("run_command", {"command": command}, workspace=name)
        with daemon.control() as control:
            assert procfs.eventually(lambda: any(
                call["workspace"] == name and call["state"] == "running"
                for call in control.call("commands")["calls"]))
    yield client, numbers
    client.close()
    # No call is left for the screen of the next test.
    with daemon.control() as control:
        assert procfs.eventually(lambda: not control.call("commands")["calls"], 60)


def order(text):
    return re.findall(r"^(?:[0-9a-f]{16} )?\S+ +(zeta|alpha|mid) ", text, re.MULTILINE)


def all_there(text):
    return len(order(text)) == 3


def test_what_runs_and_in_which_order(top, calls):
    screen = top()
    text = screen.until(all_there)
    assert order(text) == ["zeta", "alpha", "mid"]  # the oldest first
    assert "3 commands running" in text and "sleep 601" in text and "run_command" in text
    assert re.search(r"^tenant \S+ +3 calls, 3 workspaces", text, re.MULTILINE)
    screen.type("w")
    screen.until(lambda text: order(text) == ["alpha", "mid", "zeta"] and "by workspace" in text)
    screen.type("r")
    screen.until(lambda text: order(text) == ["zeta", "mid", "alpha"] and "reversed" in text)
    screen.type("ra")
    screen.until(lambda text: order(text) == ["zeta", "alpha", "mid"] and "by age" in text)


def test_names_do_nothing_to_the_terminal(top, calls):
    screen = top(columns=160)
    screen.until(lambda text: all_there(text) and r"\x1b]0;owned\x07\x1b[2J ümlaut" in text)
    assert b"\x1b]" not in screen.raw and b"\x07" not in screen.raw


def test_filter(top, calls):
    screen = top()
    screen.until(all_there)
    screen.type("/60")
    screen.until(lambda text: "only with: 60_" in text)
    screen.type("2\n")
    screen.until(lambda text: order(text) == ["alpha"] and "1 of 3 calls with: 602" in text)
    screen.type("/\x1b")
    screen.until(all_there)


def test_kill(top, calls):
    client, numbers = calls
    screen = top()
    screen.until(all_there)
    screen.type("\x1bOB")  # arrow down, to alpha
    screen.type("k")
    screen.until(lambda text: re.search(r"end [0-9a-f]{16} of \S+, alpha\? y/n", text))
    screen.type("n")
    text = screen.until(lambda text: "no call was ended" in text)
    assert all_there(text)
    screen.type("ky")
    screen.until(lambda text: order(text) == ["zeta", "mid"])
    assert client.result(numbers["alpha"])["output"]["ended_by"] == "admin"
    assert client.answers == []


# Use of workspaces and tenants


def is_drawn(text, keys):
    """Whether the last line, which is drawn last, is there."""
    last = text.splitlines()[-1]
    return last.startswith(keys) and last.endswith("q quit")


def test_eighty_columns_are_enough(top, calls):
    """Each list has its columns, and a call what it runs."""
    screen = top(columns=80)
    text = screen.until(all_there)
    assert re.search(r"^\S+ +zeta +run_command +running +\S+ +sleep 601$", text, re.MULTILINE), text
    screen.type("\t")
    text = screen.until(lambda text: all_there(text) and "CPU ENDED" in text and is_drawn(text, "c CPU"))
    assert "of 3 workspaces" in text
    row = next(line for line in text.splitlines() if " zeta " in line)
    assert row.split()[2:4] == ["open", "1"] and len(row) <= 79
    screen.type("\t")
    text = screen.until(lambda text: "1 of 1 tenants" in text and "t tenant  Tab" in text.splitlines()[-1])
    row = text.splitlines()[3].split()
    assert row[1:5] == ["3", "3", "0", "3"], text
    screen.type("\t")
    screen.until(lambda text: all_there(text) and "by age" in text)


def test_what_is_not_known_is_no_number(top, calls):
    screen = top(columns=80)
    screen.until(all_there)
    screen.type("\t")
    text = screen.until(lambda text: all_there(text) and is_drawn(text, "c CPU"))
    assert "no cgroups: CPU, MEM, I/O unknown" in text
    row = next(line for line in text.splitlines() if " zeta " in line)
    assert row.split()[4:7] == ["-", "-", "-"]


def test_help(top, calls):
    screen = top(columns=80)
    screen.until(all_there)
    screen.type("?")
    text = screen.until(lambda text: "any key goes back" in text)
    for key in ("Tab", "a t w o", "c m i", "r ", "/ ", "k ", "q "):
        assert re.search(rf"^{re.escape(key)}", text, re.MULTILINE), key
    assert max(map(len, text.splitlines())) < 80
    screen.type("q")  # goes back, and quits nothing
    screen.until(all_there)


def test_only_calls_are_ended(top, calls):
    screen = top()
    screen.until(all_there)
    screen.type("\t")
    screen.until(lambda text: "of 3 workspaces" in text and all_there(text))
    screen.type("k")
    screen.until(lambda text: "only calls are ended" in text)


def test_filter_and_order_of_workspaces(top, calls):
    screen = top()
    screen.until(all_there)
    screen.type("\tw")
    screen.until(lambda text: order(text) == ["alpha", "mid", "zeta"] and "by workspace" in text)
    for key, name in (("c", "CPU"), ("m", "memory"), ("i", "I/O"), ("t", "tenant")):
        screen.type(key)
        screen.until(lambda text, name=name: f"by {name};" in text and all_there(text))
    screen.type("/mi\n")
    screen.until(lambda text: order(text) == ["mid"] and "1 of 3 workspaces with: mi" in text)


def test_the_busiest_is_first(start_daemon, delegation, area):
    """A command that computes in one workspace of three, where cgroups tell; sorted by CPU, unlike what is not known."""
    daemon = start_daemon(launcher=delegation.launcher())
    client = daemon.connect()
    for name, command in (("alpha", "sleep 600"), ("mid", "while :; do :; done"), ("zeta", "sleep 600")):
        client.call("workspace.open", {"workspace": name})
        client.begin("run_command", {"command": command}, workspace=name)
    account = daemon.account
    ids = {"uid": account.uid, "gid": account.gid} if account.made else {}
    screen = Screen([str(area.bin / "cloisterctl"), "--socket", str(daemon.control_socket), "top"],
                    {**environment(area.home), "TERM": "xterm", "LC_ALL": "C.UTF-8"}, columns=80, **ids)
    screen.until(all_there)
    screen.type("\t")

    def cpu(text):
        row = next(line for line in text.splitlines() if " mid " in line)
        return row.split()[4]

    screen.until(lambda text: all_there(text) and order(text)[0] == "mid" and re.fullmatch(r"\d+\.\d", cpu(text)))
    screen.type("r")
    screen.until(lambda text: all_there(text) and order(text)[-1] == "mid")
    screen.type("r\t")
    screen.until(lambda text: re.search(r"^\S+ +3 +3 +0 +3 +\d+\.\d", text, re.MULTILINE))
    screen.type("q")
    assert screen.wait() == 0
    screen.close()
    client.close()


def test_resize_and_quit(top, calls):
    screen = top()
    screen.until(all_there)
    assert not termios.tcgetattr(screen.fd)[3] & termios.ECHO
    screen.resize(12, 70)
    text = screen.until(lambda text: all_there(text) and "a age" in text.splitlines()[-1])
    assert max(map(len, text.splitlines())) <= 70
    screen.resize(3, 10)
    screen.until(lambda text: text.splitlines()[0] == "cloister:")
    screen.resize(24, 120)
    screen.until(all_there)
    screen.type("q")
    assert screen.wait() == 0
    restored = termios.tcgetattr(screen.fd)
    assert restored[3] & termios.ECHO and restored[3] & termios.ICANON
    # top has left the alternate screen and shows the cursor again.
    assert screen.raw.rindex(b"\x1b[?1049l") > screen.raw.rindex(b"\x1b[?1049h")
    assert b"\x1b[?25h" in screen.raw[screen.raw.rindex(b"\x1b[?25l"):] or b"\x1b[34h\x1b[?25h" in screen.raw


def test_what_the_service_says_stands_on_the_screen(calls, top):
    screen = top()
    screen.until(all_there)
    # The call ends before the user confirms the kill.
    client, numbers = calls
    screen.type("k")
    screen.until(lambda text: "y/n" in text)
    client.cancel(numbers["zeta"])
    client.wait(numbers["zeta"])
    screen.type("y")
    screen.until(lambda text: "There is no such call in flight" in text)


def test_where_there_is_no_screen(daemon, top):
    done = daemon.ctl("top")
    assert done.returncode == 2 and b"top needs a terminal" in done.stderr and not done.stdout
    for term in ("nonsense", ""):
        screen = top(term=term)
        screen.until(lambda text: "cannot use this terminal" in text)
        assert screen.wait() == 2


def test_the_service_ends_meanwhile(own_daemon, area):
    account = own_daemon.account
    ids = {"uid": account.uid, "gid": account.gid} if account.made else {}
    screen = Screen([str(area.bin / "cloisterctl"), "--socket", str(own_daemon.control_socket), "top"],
                    {**environment(area.home), "TERM": "xterm"}, **ids)
    screen.until(lambda text: "0 of 0 calls" in text)
    own_daemon.stop()
    assert screen.wait() == 3
    assert termios.tcgetattr(screen.fd)[3] & termios.ECHO
    screen.close()
