# SPDX-License-Identifier: Apache-2.0
"""Programs that want their connections to count for another command of their workspace. The kernel says in which cgroup
a connection was made; the programs are in two, and cloister-egress is stopped while they get ready."""

import contextlib
import os
import pathlib
import signal
import socket
import struct
import subprocess

import egress
import procfs
import pytest

CONFIG = """[cloister]
egress_resolver = 127.0.0.1:1
[tenant dev]
network = egress
egress_connect_rate = 0
egress_allow = open.test:*
"""

# Runs what comes, a line each, and says when it has.
PROGRAM = """import array, os, socket, struct, sys
here = {name: globals()[name] for name in ("array", "os", "socket", "struct")}
for line in sys.stdin:
    try: exec(eval(line), here); print("done", flush=True)
    except Exception as error: print(repr(error), flush=True)
"""

RESET = "setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))"


class Program:
    """A program in a cgroup of its own, as a command is."""

    def __init__(self, delegation, name, channel):
        group = delegation.path / name
        group.mkdir()
        os.chown(group / "cgroup.procs", delegation.account.uid, delegation.account.gid)
        self.cgroup = group.stat().st_ino
        self.process = subprocess.Popen(
            [*delegation.launcher(name), "/usr/bin/python3", "-u", "-c", PROGRAM], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, pass_fds=[channel.fileno()])
        self.do(f"channel = socket.socket(fileno={channel.fileno()})")
        channel.close()

    def do(self, code):
        self.process.stdin.write(repr(code) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", code

    def connect(self, port, host, source=None, address="127.0.0.1"):
        bind = f"one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); one.bind({source!r}); " if source else ""
        self.do(f"one = socket.socket(); {bind}one.connect(({address!r}, {port})); "
                f"one.sendall(b'CONNECT {host}:80 HTTP/1.1\\r\\n\\r\\n')")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Workspace:
    """One with two commands: 7, which others want to look like, and 8."""

    def __init__(self, running, delegation):
        self.running, self.link = running, running.link
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
            dns = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            dns.bind(("127.0.0.1", 0))
            # As on a host whose net.core.rmem_default is large (SO_RCVBUFFORCE).
            dns.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
            tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            diag = stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4))
            running.send_open(1, listener, sockets=egress.PROXY | egress.DNS | egress.DNS_TCP | egress.DIAG,
                              more=[dns, tcp, diag])
            running.link.expect(egress.OPENED)
            self.port, self.dns, self.tcp = (each.getsockname()[1] for each in (listener, dns, tcp))
        ends = socket.socketpair()
        self.victim, self.attacker = (Program(delegation, name, end) for name, end in zip("va", ends))
        self.begin(7, self.victim)
        self.begin(8, self.attacker)

    def begin(self, call, program):
        """As cloisterd does: with its address, and then with its cgroup."""
        self.running.call(call, call)
        self.running.call(call, call, cgroup=program.cgroup)

    def end(self, call):
        self.running.call_end(call)

    @contextlib.contextmanager
    def late(self):
        """cloister-egress gets all that happens in here at once."""
        procfs.stop(self.running.process.pid)
        try:
            yield
        finally:
            self.running.process.send_signal(signal.SIGCONT)

    def refused(self, n):
        """The next @n refusals, in any order: call, host and reason."""
        return sorted((told["call"], told["host"], told["reason"]) for told in (self.link.denied() for _ in range(n)))

    def close(self):
        self.victim.end()
        self.attacker.end()


STRANGER = (0, "", "limit")


@pytest.fixture
def workspace(area, account, delegation):
    directory = area.new_directory("egress")
    os.chmod(directory, 0o755)
    running = egress.Egress(directory, CONFIG, user=account.uid).ready()
    try:
        with contextlib.closing(Workspace(running, delegation)) as made:
            yield made
    finally:
        status = running.stop()
    assert status == 0, running.logged()


def test_the_address_of_another(workspace):
    for address in ("127.64.0.7", "127.64.0.8", "127.0.0.1"):
        workspace.attacker.connect(workspace.port, "bad.test", address=address)
        assert workspace.refused(1) == [(8, "bad.test", "not_allowed")]


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_both_families(workspace, family):
    """Java's sockets are of IPv6 also where the address is not."""
    address = "::ffff:127.0.0.1" if family == "AF_INET6" else "127.0.0.1"
    workspace.victim.do(f"one = socket.socket(socket.{family}); one.connect(({address!r}, {workspace.port})); "
                        "one.sendall(b'CONNECT no.test:80 HTTP/1.1\\r\\n\\r\\n')")
    assert workspace.refused(1) == [(7, "no.test", "not_allowed")]


def test_the_port_of_another(workspace):
    """The connection is reset, and still waits to be accepted when the other command has its port."""
    source = ("127.0.0.1", egress_port())
    with workspace.late():
        workspace.attacker.connect(workspace.port, "bad.test", source)
        workspace.attacker.do(f"one.{RESET}; one.close()")
        workspace.victim.connect(workspace.port, "own.test", source)
    assert workspace.refused(2) == [STRANGER, (7, "own.test", "not_allowed")]


def states(port):
    """The states of the sockets at a local port; proc_net(5) has a line for each."""
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [line[3] for line in lines if line[1].endswith(f":{port:04X}")]


@pytest.mark.parametrize("close", [f"one.{RESET}; one.close()", "one.setsockopt(socket.SOL_TCP, socket.TCP_LINGER2, 1); one.close()"])
def test_the_port_at_which_another_listens(workspace, close):
    """The second way leaves cloister-egress's end as it is: nothing tells that the client has gone."""
    source = ("127.0.0.1", egress_port())
    with workspace.late():
        workspace.attacker.connect(workspace.port, "bad.test", source)
        workspace.attacker.do(close)
        assert procfs.eventually(lambda: states(source[1]) == [])
        workspace.victim.do(f"one = socket.create_server({source!r})")
    assert workspace.refused(1) == [STRANGER]


@pytest.mark.parametrize(("close", "left"), [("one.close()", ["05"]), (f"one.{RESET}; one.close()", [])])
def test_gone_before_it_is_accepted(workspace, close, left):
    """Also if only one command runs, because another may have left it."""
    workspace.end(7)
    workspace.link.expect(egress.CALL_ENDED)
    source = ("127.0.0.1", egress_port())
    with workspace.late():
        workspace.attacker.connect(workspace.port, "bad.test", source)
        workspace.attacker.do(close)
        # The kernel keeps a closed socket for a moment, and then something smaller, without the cgroup.
        assert procfs.eventually(lambda: states(source[1]) == left)
    assert workspace.refused(1) == [STRANGER]
    workspace.end(8)
    assert workspace.link.expect(egress.CALL_ENDED)["denied"] == 0


def test_half_closed(workspace):
    """A client may send all that it has, and then wait for the answer."""
    with workspace.late():
        workspace.victim.connect(workspace.port, "own.test")
        workspace.victim.do("one.shutdown(socket.SHUT_WR)")
    assert workspace.refused(1) == [(7, "own.test", "not_allowed")]


def test_a_socket_that_another_uses(workspace):
    """It is its maker's, and nobody's when its maker has ended."""
    give = "channel.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [one.fileno()]))])"
    take = "one = socket.socket(fileno=socket.recv_fds(channel, 1, 1)[1][0])"
    ask = f"one.connect(('127.64.0.7', {workspace.port})); one.sendall(b'CONNECT bad.test:80 HTTP/1.1\\r\\n\\r\\n')"
    for _ in range(2):
        workspace.attacker.do("one = socket.socket(); " + give)
        workspace.victim.do(take)
        workspace.victim.do(ask)
        assert workspace.refused(1) == [(8, "bad.test", "not_allowed")]
    workspace.attacker.do("one = socket.socket(); " + give)
    workspace.attacker.end()
    workspace.end(8)
    assert workspace.link.expect(egress.CALL_ENDED)["denied"] == 2
    workspace.victim.do(take)
    workspace.victim.do(ask)
    assert workspace.refused(1) == [STRANGER]


def test_what_a_command_has_left(workspace):
    """It ends while its connections, and its questions, wait."""
    workspace.end(7)
    workspace.link.expect(egress.CALL_ENDED)
    with workspace.late():
        workspace.attacker.connect(workspace.port, "bad.test")
        question = egress.question("bad.test")
        workspace.attacker.do("asking = socket.socket(type=socket.SOCK_DGRAM); "
                              f"[asking.sendto({question!r}, ('127.0.0.1', {workspace.dns})) for _ in range(20)]")
        workspace.attacker.end()
        workspace.end(8)
        workspace.begin(7, workspace.victim)
    kinds = [workspace.link.next() for _ in range(2)]
    assert sorted(kind for kind, _, _ in kinds) == [egress.DENIED, egress.CALL_ENDED]
    assert [(told["call"], told["reason"]) for kind, _, told in kinds if kind == egress.DENIED] == [(0, "limit")]
    # No question was counted: this is the first refusal of the next command.
    workspace.victim.connect(workspace.port, "own.test")
    assert workspace.refused(1) == [(7, "own.test", "not_allowed")]
    workspace.end(7)
    assert workspace.link.expect(egress.CALL_ENDED)["denied"] == 1


def test_many_questions_that_a_command_has_left(workspace):
    """As many as the kernel keeps: none of them counts for the next one."""
    workspace.end(7)
    workspace.link.expect(egress.CALL_ENDED)
    with workspace.late():
        workspace.attacker.do("asking = socket.socket(type=socket.SOCK_DGRAM); "
                              f"[asking.sendto({egress.question('bad.test')!r}, ('127.0.0.1', {workspace.dns})) for _ in range(3000)]")
        workspace.attacker.end()
        workspace.end(8)
        workspace.begin(7, workspace.victim)
    workspace.link.expect(egress.CALL_ENDED)
    workspace.victim.connect(workspace.port, "own.test")
    assert workspace.refused(1) == [(7, "own.test", "not_allowed")]
    workspace.end(7)
    assert workspace.link.expect(egress.CALL_ENDED)["denied"] == 1


def test_a_question_from_the_port_of_another(workspace):
    """A datagram's source is what its sender says. So refused names are asked for again, by TCP."""
    workspace.victim.do(f"asking = socket.socket(type=socket.SOCK_DGRAM); asking.connect(('127.0.0.1', {workspace.dns})); "
                        "asking.settimeout(30); port = asking.getsockname()[1]; "
                        "channel.sendall(port.to_bytes(2, 'big'))")
    question = egress.question("bad.test")
    workspace.attacker.do(
        "port = int.from_bytes(channel.recv(2), 'big'); forged = socket.socket(type=socket.SOCK_DGRAM); "
        "forged.bind(('127.0.0.2', port)); "
        f"forged.sendmsg([{question!r}], [(socket.IPPROTO_IP, 8, struct.pack('=i4s4s', 0, bytes([127, 0, 0, 1]), bytes(4)))], "
        f"0, ('127.0.0.1', {workspace.dns}))")
    truncated = "assert answer[2] & 2 and answer[3] & 15 == 0 and answer[6:8] == bytes(2), answer"
    workspace.victim.do(f"answer = asking.recv(512); {truncated}")
    workspace.victim.do(f"asking.send({egress.question('own.test')!r}); answer = asking.recv(512); {truncated}")
    by_tcp = struct.pack(">H", len(egress.question("own.test"))) + egress.question("own.test")
    workspace.victim.do(f"one = socket.create_connection(('127.0.0.1', {workspace.tcp})); one.sendall({by_tcp!r}); "
                        "answer = one.recv(514); assert answer[5] & 15 == 3, answer")
    assert workspace.refused(1) == [(7, "own.test", "not_allowed")]
    # What is allowed has its address at once.
    workspace.victim.do(f"asking.send({egress.question('open.test')!r}); answer = asking.recv(512); "
                        "assert not answer[2] & 2 and answer[7] == 1, answer")


def egress_port():
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]
