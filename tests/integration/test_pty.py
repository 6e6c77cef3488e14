# SPDX-License-Identifier: Apache-2.0
"""Sessions with a terminal, at the protocol: from ordinary clients, and with hostile commands on the terminal."""

import base64
import os
import random

import procfs
import pytest
from cloister_client import RpcError, acting_as
from test_sessions import WAIT, data, end, everything, read, refused, start, until

SIZE = {"rows": 24, "cols": 80}
PYTHON = "/usr/bin/python3 -c"


def on_terminal(client, command, **params):
    return start(client, command, pty=SIZE, **params)


def type_in(client, session, text):
    return client.call("session.write", {"session": session, "data": text})


def ended(client, session):
    """Waits for the end by itself. Returns the observation."""
    answer = read(client, session, wait_ms=WAIT, until=[{"exit": True}])
    assert answer["state"] == "ended", answer
    return answer["end"]


def output_of(client, command, **params):
    session = on_terminal(client, command, **params)
    ended(client, session)
    got, lost, last = everything(client, session)
    assert lost == 0
    return got.decode(), last["end"]


@pytest.fixture
def marker():
    return f"cloister-pty-{os.getpid()}-{random.randrange(10 ** 9)}"


def test_the_command_has_a_terminal(client, workspace):
    text, last = output_of(client, "tty; stty size; echo $TERM ${PAGER-none}; " + PYTHON + """ '
import os
print(os.getsid(0) == os.getppid() or os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp())
print(open("/dev/tty").isatty(), os.ttyname(2), os.isatty(0), os.isatty(1))' >&2; exit 3""")
    lines = text.split("\r\n")
    assert lines[0].startswith("/dev/pts/") and lines[1:] == [
        "24 80", "xterm-256color none", "True True", f"True {lines[0]} True True", ""]
    assert last["output"]["exit_code"] == 3 and last["output"]["stderr_bytes"] == 0


def test_pipes_are_the_default(client, workspace):
    session = start(client, "echo $TERM; for fd in 0 1 2; do [ -t $fd ] && echo terminal; done; tty; ls /dev/pts | wc -l; exit 0")
    assert ended(client, session)["success"]
    assert data(read(client, session)) == "dumb\nnot a tty\n1\n", "ptmx alone"


def test_what_is_typed_is_read_and_edited(client, workspace):
    """The line discipline is the kernel's: echo, an erased character of two bytes, the end of input, an interrupt."""
    session = on_terminal(client, "stty -echoctl; cat; echo over; sleep 600")
    type_in(client, session, "on\u00e9\u007fe\n")
    until(client, session, "\r\none\r\n")
    type_in(client, session, "\u0004")
    until(client, session, "over")
    type_in(client, session, "\u0003")
    assert ended(client, session)["output"]["signal"] == "SIGINT"


def test_a_resize_is_seen(client, workspace):
    session = on_terminal(client, "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
    until(client, session, "ready")
    assert client.call("session.resize", {"session": session, "rows": 50, "cols": 132}) == {"resized": True}
    until(client, session, "50 132")
    listed = {each["session"]: each["pty"] for each in client.call("session.list")["sessions"]}
    assert listed[session] == {"rows": 50, "cols": 132}
    end(client, session, grace_ms=0)
    assert client.call("session.resize", {"session": session, "rows": 1, "cols": 1}) == {"resized": False}


def test_signals_to_the_foreground(client, workspace):
    """A shell with job control puts what it runs in the foreground into a process group of its own."""
    session = on_terminal(client, """trap 'echo outer' USR1; set -m
        sh -c 'trap "echo inner" USR1; echo one; while :; do read line && exit; done'
        set +m; echo two; while :; do sleep 0.05; done""")
    until(client, session, "one")
    assert client.call("session.signal", {"session": session, "signal": "USR1", "to": "foreground"}) == {"sent": True}
    until(client, session, "inner")
    type_in(client, session, "x\n")
    until(client, session, "two")
    assert "outer" not in data(read(client, session))
    client.call("session.signal", {"session": session, "signal": "USR1", "to": "foreground"})
    until(client, session, "outer")
    end(client, session, grace_ms=0)


def test_output_is_whole_at_the_end(client, workspace):
    """What was written just before the end arrives, also more than a terminal holds."""
    whole = b"".join(b"%d\n" % n for n in range(1, 60001))
    for last in ("", "; printf last"):
        session = on_terminal(client, "stty -opost; seq 1 60000" + last)
        got, lost, answer = everything(client, session, max_bytes=1 << 20)
        assert lost == 0 and got == whole + (b"last" if last else b"")
        assert answer["end"]["output"]["stdout_bytes"] == len(got)


def test_bytes_are_bytes(client, workspace):
    """All 256, in both directions, to a program that has made its terminal raw; questions to a terminal too."""
    session = on_terminal(client, "stty raw -echo; printf '\\033[c\\033]52;c;eA==\\007ready'; exec head -c 256")
    first = until(client, session, "ready")
    assert data(first) == "\x1b[c\x1b]52;c;eA==\x07ready"
    every = bytes(range(256))
    client.call("session.write", {
        "session": session, "data": base64.b64encode(every).decode(), "encoding": "base64"})
    ended(client, session)
    assert everything(client, session)[0].endswith(b"ready" + every)


def test_a_shell_that_ignores_sigterm_is_hung_up(client, workspace, marker):
    """An interactive bash ignores SIGTERM: with a grace of a minute it ends because its terminal is gone."""
    session = on_terminal(client, f"exec bash --norc -i; : {marker}")
    type_in(client, session, f"set +m; sleep 600 & echo rea''dy; : {marker}\n")
    until(client, session, "ready\r\n")
    assert end(client, session, grace_ms=60000)["output"]["signal"] == "SIGHUP"
    assert not procfs.having(marker)


def test_its_end_leaves_nothing(client, workspace, marker):
    """Processes that have left the terminal, hold it, are stopped or deaf are gone when the end is answered."""
    session = on_terminal(client, f"""trap '' HUP TERM
        (setsid sh -c 'exec 3</dev/pts/0; sleep 600; : {marker}' &)
        (trap '' HUP TERM; nohup sh -c 'while :; do sleep 0.1; done; : {marker}' &)
        sh -c 'kill -STOP $$; : {marker}' & echo ready; while :; do sleep 0.1; done; : {marker}""")
    until(client, session, "ready")
    assert procfs.eventually(lambda: len(procfs.having(marker)) >= 4)
    assert end(client, session, grace_ms=0)["output"]["ended_by"] == "cancel"
    assert not procfs.having(marker)
    text, last = output_of(client, "ls /dev/pts | grep -vx ptmx | wc -l")
    assert last["success"] and text == "1\r\n", "only its own terminal is there"


def test_a_terminal_that_is_left_and_found_again(client, workspace):
    """Nobody has it open for a while: that is no end."""
    text, last = output_of(client, "exec <&- >&- 2>&-; sleep 0.3; exec </dev/tty >/dev/tty 2>&1; echo back")
    assert last["output"]["exit_code"] == 0 and text == "back\r\n"


def test_a_command_that_never_reads(client, workspace):
    """What is typed waits, bounded; the end is not held up by it, nor by output that flows all the time."""
    session = on_terminal(client, "stty raw -echo; echo ready; sleep 600")
    until(client, session, "ready")
    many, taken = "x" * (1 << 18), 0
    for _ in range(16):
        try:
            taken += type_in(client, session, many)["taken"]
        except RpcError as error:
            assert error.name == "BUSY"
            break
    assert 1 << 20 <= taken < 4 << 20
    assert end(client, session, grace_ms=0)["output"]["ended_by"] == "cancel"


def test_a_flood_is_stopped_by_a_key(client, workspace):
    session = on_terminal(client, "yes; echo never", output_bytes=1 << 16)
    until(client, session, "y\r\ny")
    type_in(client, session, "\u0003")
    assert ended(client, session)["output"]["signal"] == "SIGINT"
    assert client.run("echo fine")["stdout"] == "fine\n"


# Numbers of ioctl(2), from <asm-generic/ioctls.h>.
HOSTILE = {
    "push input": 0x5412,  # TIOCSTI
    "push input past a filter of 64 bits": 0xdeadbeef00005412,
    "paste on the console": 0x541C,  # TIOCLINUX
    "take the console's output": 0x541D,  # TIOCCONS
    "packet mode, which is the other end's": 0x5420,  # TIOCPKT
    "another line discipline": 0x5423,  # TIOCSETD
    "hang all up": 0x5437,  # TIOCVHANGUP
    "open the end that it has not": 0x5441,  # TIOCGPTPEER
}


def test_what_a_terminal_refuses(client, workspace):
    text, _ = output_of(client, PYTHON + f""" '
import ctypes
call = ctypes.CDLL(None).ioctl
call.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
for request in {list(HOSTILE.values())}:
    print(call(0, request, b"x" + bytes(64)))' """)
    assert dict(zip(HOSTILE, text.split())) == dict.fromkeys(HOSTILE, "-1")


def test_modes_do_not_hold_up_the_end(client, workspace):
    """Output that is stopped, a terminal for one, no echo, no signals from keys."""
    session = on_terminal(client, PYTHON + """ "
import fcntl, os, termios, time, tty
fcntl.ioctl(0, termios.TIOCEXCL)
tty.setraw(0)
os.write(1, b'ready')
termios.tcflow(0, termios.TCOOFF)
os.write(1, b'x' * 1000000)
" """)
    until(client, session, "ready")
    assert end(client, session, grace_ms=0)["output"]["ended_by"] == "cancel"
    assert output_of(client, "echo fine")[0] == "fine\r\n"


def test_another_command_holds_the_terminal(client, workspace):
    """Commands of one workspace can open each other's terminals, as they can write each other's files. After the end they
    hold one that is hung up, and cloisterd's answer has not waited for them."""
    session = on_terminal(client, "tty; echo ready; sleep 600")
    name = data(until(client, session, "ready")).split("\r\n")[0]
    other = start(client, f"exec 3<>{name}; echo opened; cat <&3; echo hung up; while :; do echo more >&3 || exit 7; done")
    until(client, other, "opened")
    assert end(client, session, grace_ms=0)["output"]["ended_by"] == "cancel"
    assert ended(client, other)["output"]["exit_code"] == 7
    assert "hung up" in data(read(client, other))


def test_all_terminals_of_a_workspace_are_taken(client, workspace):
    taker = start(client, PYTHON + """ "
import os, time
held = []
try:
    while True:
        held.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
except OSError as error:
    print(len(held), error.strerror, flush=True)
time.sleep(600)" """)
    assert data(until(client, taker, "\n")) == "64 No space left on device\n"
    error = ended(client, on_terminal(client, "echo never"))["error"]
    assert error["code"] == "BUSY" and "terminals" in error["message"]
    end(client, taker, grace_ms=0)
    assert output_of(client, "echo fine")[0] == "fine\r\n"


@pytest.mark.deep("slow")
def test_nothing_is_left_open(daemon, client, workspace):
    """Neither cloisterd nor the worker keeps a descriptor of a session that is over, however it ended; cloisterd never has
    one of a terminal."""
    def held():
        with acting_as(os.getuid()):
            return {pid: len(procfs.fds(pid)) for pid in procfs.descendants(daemon.pid)
                    if procfs.name(pid) in ("cloisterd", "cloister-worker")} | {
                daemon.pid: len(procfs.fds(daemon.pid))}

    def use(command, grace):
        session = on_terminal(client, command)
        until(client, session, "ready")
        with acting_as(os.getuid()):
            assert not [path for path in procfs.fds(daemon.pid).values() if "pts" in path or "ptmx" in path]
        end(client, session, grace_ms=grace)

    use("echo ready", 0)
    before = held()
    assert len(before) >= 2
    for _ in range(8):
        use("echo ready; sleep 600", 0)
        use("echo ready", 60000)
    assert procfs.eventually(lambda: all(n <= before.get(pid, 0) for pid, n in held().items())), (before, held())


def test_another_tenant_finds_no_terminal(start_daemon, tenants):
    text = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {tenants[2].name}\n" + "".join(
        f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" for name, user in zip("ab", tenants))
    daemon = start_daemon(config=text)
    with daemon.connect(tenants[0]) as mine, daemon.connect(tenants[1]) as other:
        for each in (mine, other):
            each.call("workspace.open", {"workspace": "w"})
        session = on_terminal(mine, "echo ready; sleep 600")
        until(mine, session, "ready")
        error = refused(other, "session.resize", {"session": session, **SIZE})
        assert error.name == "SESSION_NOT_FOUND"
        assert output_of(other, "ls /dev/pts | grep -vx ptmx | wc -l")[0] == "1\r\n"
        end(mine, session, grace_ms=0)
