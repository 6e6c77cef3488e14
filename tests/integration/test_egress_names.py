# SPDX-License-Identifier: Apache-2.0
"""The names and addresses that cloister-egress finds, and programs that know no proxy."""

import contextlib
import select
import socket
import struct
import threading

import egress
import procfs
import pytest
import wire
from egress_program import (
    ALERT, CONFIG, answer_http, ask_for_page, at_443, check_echo, host, names, running, shared, start, transparent,
    unread)


def test_addresses_that_are_not_permitted_are_left_out(running, host):
    """The one of three that may be connected to is used."""
    port, there = running.open(), host()
    connection, head = egress.connect(port, f"mixed.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    check_echo(connection)
    connection.close()


def test_rebinding(running, host, names):
    """A name is resolved once for a connection, and what was checked is what is connected to."""
    addresses = iter(["127.0.0.1", "169.254.169.254", "10.0.0.1"])
    names.answers["rebind.test"] = lambda kind: [next(addresses)] if kind == 1 else []
    port, there = running.open(), host()
    connection, head = egress.connect(port, f"rebind.test:{there.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    check_echo(connection)
    connection.close()
    running.link.expect(egress.CLOSED)
    for _ in range(2):
        connection, head = egress.connect(port, f"rebind.test:{there.port}")
        connection.close()
        assert head.startswith(b"HTTP/1.1 403 ")
        assert running.link.denied()["reason"] == "private_address"
    assert there.connections == 1
    assert [kind for name, kind in names.asked if name == "rebind.test"].count(1) == 3


def test_no_query_for_what_is_not_allowed(shared, names):
    """Otherwise names would carry data out."""
    running, port = shared
    egress.connect(port, "secret.example.com:80")[0].close()
    running.link.denied()
    assert not [name for name, _ in names.asked if name.endswith("example.com")]


def test_no_search_domains(shared, names):
    running, port = shared
    egress.connect(port, "missing.open.test:80")[0].close()
    assert running.link.denied()["reason"] == "dns_failed"
    assert not [name for name, _ in names.asked if name.endswith("search.test")]


class HeldNames(egress.Names):
    """A DNS server that answers nothing until release(): no name exists."""

    def __init__(self):
        self.release_now = threading.Event()
        super().__init__({})

    def _serve(self):
        held = []
        self.socket.settimeout(0.05)
        while not self.release_now.is_set():
            with contextlib.suppress(TimeoutError):
                held.append(self.socket.recvfrom(2048))
                self._answer(held[-1][0])
        self.socket.settimeout(None)
        for question, client in held:
            self.socket.sendto(self._answer(question), client)
        super()._serve()


def test_look_ups_that_nobody_waits_for_are_counted(start):
    """c-ares ends no look-up before its time, so commands that end and leave theirs could pile them up."""
    held = HeldNames()
    more = "egress_connections = 8\n[tenant other]\nnetwork = egress\negress_allow = *.open.test:*\n"
    running = start(config=CONFIG.replace("{resolver}", held.address), more=more).ready()
    port, other = running.open(), running.open(cell=2, tenant="other")

    def ask(name, at=port):
        connection = egress.client(at)
        connection.sendall(f"CONNECT {name}.open.test:1 HTTP/1.1\r\n\r\n".encode())
        return connection

    def is_asked(names):
        return {f"{name}.open.test" for name in names} <= {name for name, _ in held.asked}

    for command in range(1, 3):
        names = [f"n{command}-{i}" for i in range(4)]
        running.call(command)
        connections = [ask(name) for name in names]
        assert procfs.eventually(lambda: is_asked(names))
        running.call_end(command)
        running.link.expect(egress.CALL_ENDED)
        for connection in connections:
            connection.close()
    running.call(3)
    refused = ask("n3")
    assert (lambda denied: (denied["reason"], denied["rule"]))(running.link.denied()) == ("limit", "egress_connections")
    assert egress.read_all(refused).startswith(b"HTTP/1.1 503 ")
    waits = ask("n4", other)
    assert procfs.eventually(lambda: is_asked(["n4"])) and not is_asked(["n3"])
    running.link.send(egress.CLOSE, 1)
    held.release_now.set()
    assert egress.read_all(waits).startswith(b"HTTP/1.1 5") and running.link.denied()["reason"] == "dns_failed"
    # Its cell is another, but the tenant's look-ups have ended.
    port = running.open(cell=3)
    ends = ask("n5", port)
    assert running.link.denied()["reason"] == "dns_failed"
    for connection in (refused, waits, ends):
        connection.close()
    held.close()


def test_a_reload_while_a_name_is_asked_for(running, host, names):
    there, asked, go = host(), threading.Event(), threading.Event()

    def answer(kind):
        asked.set()
        go.wait(egress.WAIT_S)
        return ["127.0.0.1"]

    names.answers["late.open.test"] = answer
    with egress.client(running.open()) as connection:
        connection.sendall(f"CONNECT late.open.test:{there.port} HTTP/1.1\r\n\r\n".encode())
        assert asked.wait(egress.WAIT_S)
        running.configure(CONFIG.format(resolver=names.address, more="").replace("**.open.test:* ", ""))
        running.link.send(egress.RELOAD)
        assert egress.read_head(connection).startswith(b"HTTP/1.1 403 ")
        assert running.link.denied()["reason"] == "not_allowed"
        go.set()
    assert there.connections == 0


def test_names_inside(running, transparent, names):
    """Allowed names have one address inside, others none; no DNS server is asked."""
    dns, before = transparent[0], len(names.asked)
    running.call(7)
    for name in ("open.test", "A.Sub.Test", "tls.test", "web.test"):
        assert egress.ask(dns, name) == (0, ["127.1.0.1"])
        assert egress.ask(dns, name, 28) == (0, [])
    for name, reason in (("secret.example.com", "not_allowed"), ("denied.open.test", "denied")):
        assert egress.ask(dns, name) == (3, [])
        denied = running.link.denied()
        assert (denied["call"], denied["host"], denied["reason"], denied["via"]) == (7, name, reason, "dns")
    # The question for IPv6 that comes with it is no second refusal, and what is no host's name is none.
    for name, kind in (("example.com", 28), (b"a b.open.test", 1), (b"127.0.0.1", 1), (b"open.te\0st", 1)):
        assert egress.ask(dns, name, kind) == (3, [])
    running.call_end(7)
    assert running.link.expect(egress.CALL_ENDED)["denied"] == 2
    assert len(names.asked) == before


def framed(question):
    return struct.pack(">H", len(question)) + question


def take_answer(connection):
    """The code of the next answer, and its address."""
    length, = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))
    answer = connection.recv(length, socket.MSG_WAITALL)
    return answer[3] & 15, socket.inet_ntoa(answer[-4:]) if answer[7] else None


def test_questions_over_tcp(running, transparent):
    """Several, whole and in pieces. That of a name that is refused is told once, before it is answered."""
    running.call(7)
    with egress.client(transparent[3]) as connection:
        both = framed(egress.question("open.test")) + framed(egress.question("open.test", 28))
        connection.sendall(both)
        assert [take_answer(connection) for _ in range(2)] == [(0, "127.1.0.1"), (0, None)]
        for byte in both:
            connection.sendall(bytes([byte]))
        assert [take_answer(connection) for _ in range(2)] == [(0, "127.1.0.1"), (0, None)]
        connection.sendall(framed(egress.question("example.com")) + framed(egress.question("example.com", 28)) + both)
        assert [take_answer(connection)[0] for _ in range(4)] == [3, 3, 0, 0]
        denied = running.link.denied()
        assert (denied["call"], denied["host"], denied["port"], denied["via"]) == (7, "example.com", 0, "dns")
    running.call_end(7)
    assert running.link.expect(egress.CALL_ENDED)["denied"] == 1


@pytest.mark.parametrize("bad", [b"\0\0", b"\0\5abcde", b"\2\1" + bytes(513), b"\xff\xff" + bytes(2000)], ids=lambda bad: bad[:2].hex())
def test_no_question_over_tcp(transparent, bad):
    with egress.client(transparent[3]) as connection:
        connection.sendall(bad)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_refused_names_over_tcp_wait_for_cloisterd(running, transparent):
    """While it reads no events, there is no answer; each is told once."""
    known = running.link.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    count = known // 50
    with egress.client(transparent[3]) as connection:
        question = framed(egress.question("example.com"))

        def ask():
            with contextlib.suppress(OSError):
                for _ in range(count):
                    connection.sendall(question)
        asking = threading.Thread(target=ask)
        asking.start()
        answers = 0
        with contextlib.suppress(TimeoutError):
            connection.settimeout(0.5)
            while answers < count:
                take_answer(connection)
                answers += 1
        assert answers < count
        connection.settimeout(egress.WAIT_S)
        told = 0
        while told < count:
            assert running.link.denied()["host"] == "example.com"
            told += 1
            if told > answers:
                assert take_answer(connection)[0] == 3
        asking.join()


def test_many_refused_names_over_tcp_wait_for_cloisterd(running, transparent):
    """When it reads again, no question is answered whose event waits in cloister-egress."""
    question = framed(egress.question("example.com"))
    event = wire.HEADER.size + struct.calcsize("=Q") + len(wire.text("example.com")) + struct.calcsize("=IBB") + \
        len(wire.text(""))
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(egress.client(transparent[3])) for _ in range(60)]
        for each in asking:
            each.sendall(30 * question)
        events, poll, by_fd = running.link.socket, select.poll(), {each.fileno(): each for each in asking}
        for each in asking:
            poll.register(each, select.POLLIN)

        def answers():
            came = 0
            while ready := poll.poll(300):  # only shows that nothing more comes
                for fd, _ in ready:
                    data = by_fd[fd].recv(65536)
                    assert data
                    came += len(data)
            return came // len(question)

        answered, read = answers(), 0
        assert 0 < answered < 60 * 30
        left = unread(events)
        while read < left:
            read += len(events.recv(left - read))
        answered += answers()
        assert answered * event <= read + unread(events)


def test_port_80(running, transparent, host):
    seen = []
    host(answer_http(seen), port=80)
    assert ask_for_page(transparent[1], b"GET /x HTTP/1.1\r\nHost: A.Open.Test\r\n\r\n").endswith(b"\r\n\r\nok")
    assert seen[0] == b"GET /x HTTP/1.1\r\nHost: a.open.test\r\nConnection: close\r\n\r\n"
    closed = running.link.expect(egress.CLOSED)
    assert (closed["host"], closed["port"], closed["via"]) == ("a.open.test", 80, "transparent")


@pytest.mark.parametrize(("head", "reason"), [
    (b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "not_allowed"),
    (b"GET / HTTP/1.1\r\nHost: meta.test\r\n\r\n", "private_address"),
    (b"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", "not_allowed"),
    (b"GET / HTTP/1.1\r\n\r\n", "bad_request"),
    (b"GET / HTTP/1.1\r\nHost: open.test\r\nHost: example.com\r\n\r\n", "bad_request"),
    (b"GET / HTTP/1.1\r\nHost: open.test:81\r\n\r\n", "bad_request"),
    (b"GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n", "bad_request"),
    (b"CONNECT open.test:80 HTTP/1.1\r\nHost: open.test\r\n\r\n", "bad_request"),
    (b"\5\1\0", "bad_request")])
def test_port_80_is_refused(running, transparent, head, reason):
    answer = ask_for_page(transparent[1], head)
    denied = running.link.denied()
    assert (denied["reason"], denied["via"]) == (reason, "transparent")
    assert answer.startswith(b"HTTP/1.1 400 " if reason == "bad_request" else b"HTTP/1.1 403 ")


def test_port_443(running, transparent, at_443):
    hello = egress.client_hello("tls.test")
    with egress.client(transparent[2]) as connection:
        connection.sendall(hello[:10])
        connection.sendall(hello[10:])
        connection.shutdown(socket.SHUT_WR)
        assert egress.read_all(connection) == hello
    assert running.link.expect(egress.CLOSED)["via"] == "transparent"


@pytest.mark.parametrize(("name", "reason"), [("example.com", "not_allowed"), ("meta.test", "private_address"),
                                              ("missing.open.test", "dns_failed"), (None, "sni_mismatch")])
def test_port_443_is_refused(running, transparent, name, reason):
    for first in (egress.client_hello(name), b"GET / HTTP/1.1\r\n\r\n") if name is None else (egress.client_hello(name),):
        answer = ask_for_page(transparent[2], first)
        denied = running.link.denied()
        assert (denied["reason"], denied["via"], denied["port"]) == (reason, "transparent", 443)
        assert answer == ALERT


def test_a_name_that_is_asked_for_during_a_reload(running, host, names):
    there, asked, go = host(), threading.Event(), threading.Event()

    def answer(kind):
        asked.set()
        go.wait(egress.WAIT_S)
        return ["127.0.0.1"]

    names.answers["slow.open.test"] = answer
    with egress.client(running.open()) as connection:
        connection.sendall(f"CONNECT slow.open.test:{there.port} HTTP/1.1\r\n\r\n".encode())
        assert asked.wait(egress.WAIT_S)
        running.link.send(egress.RELOAD)
        running.open(cell=2)  # the reload is over
        go.set()
        assert egress.read_head(connection).startswith(b"HTTP/1.1 200 ")
