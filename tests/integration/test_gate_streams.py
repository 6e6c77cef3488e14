# SPDX-License-Identifier: Apache-2.0
"""How cloister-gate passes bodies and answers on: by a face of the tests (tests/lib/gate_faces.c)."""

import os
import pathlib
import re
import resource
import socket
import ssl
import struct
import subprocess

import pytest

import procfs
from cloister_client import acting_as
from http_gate import HttpGate, handshake, tls_settings

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users")
MIB = 1 << 20


@pytest.fixture(scope="module")
def gate(area, tenants):
    with acting_as(0):
        area.path.chmod(0o755)
    running = HttpGate(area, None, tenants[1], "connections_per_address = 40", program="gate_faces")
    yield running
    assert running.stop() == 0


def seen(gate):
    return gate.request("GET", "/test/seen").json()


def peak(gate):
    """The most memory that the gate has had, in bytes. The mark is taken back first."""
    status = pathlib.Path(f"/proc/{gate.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024


def send_chunks(connection, size, count):
    chunk = b"%x\r\n" % size + b"x" * size + b"\r\n"
    for _ in range(count):
        connection.send(chunk)
    connection.send(b"0\r\n\r\n")


@pytest.mark.parametrize("how", ["length", "chunked"])
@pytest.mark.parametrize("path", ["/test/count", "/test/count?slow=1"])
def test_a_body_is_streamed(gate, how, path):
    size = 24 * MIB if "slow" not in path else 128 * 1024
    before = peak(gate)
    with gate.connect() as connection:
        if how == "length":
            connection.send(gate.head("POST", path, None, f"Content-Length: {size}"))
            connection.send(b"x" * size)
        else:
            connection.send(gate.head("POST", path, None, "Transfer-Encoding: chunked"))
            send_chunks(connection, 64 * 1024, size // 65536)
        assert connection.answer().body == b"%d\n" % size
        connection.send(gate.head("GET", "/health"))  # the connection goes on
        assert connection.answer().status == 200
    assert peak(gate) - before < MIB


def test_an_answer_is_streamed(gate):
    before = peak(gate)
    for query in "", "?chunked=1":
        with gate.connect() as connection:
            connection.send(gate.head("GET", f"/test/flood/{24 * MIB}{query}"))
            total, ended = 0, b""
            while total < 24 * MIB:
                data = connection.socket.recv(1 << 20)
                assert data
                total += len(data)
                ended = (ended + data)[-7:]
            while query and not ended.endswith(b"0\r\n\r\n"):
                ended = (ended + connection.socket.recv(1 << 20))[-7:]
    assert peak(gate) - before < MIB


def test_a_client_that_does_not_read_stops_the_writer(gate):
    before = seen(gate)["written"]
    with gate.connect() as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send(gate.head("GET", f"/test/flood/{64 * MIB}"))
        connection.socket.recv(1)
        assert seen(gate)["written"] - before < 4 * MIB  # what the kernel and one queue hold
    assert procfs.eventually(lambda: seen(gate)["ended"] > 0)


def test_a_client_that_leaves_is_noticed_while_nothing_is_sent(gate):
    before = seen(gate)
    with gate.connect() as connection:
        connection.send(gate.head("GET", "/test/wait"))
        while b"hello" not in connection.read:
            connection.more()
    assert procfs.eventually(lambda: seen(gate)["lost"] > before["lost"])


def test_a_client_that_resets_its_connection_is_noticed(gate):
    before = seen(gate)
    connection = gate.connect()
    connection.send(gate.head("GET", "/test/wait"))
    while b"hello" not in connection.read:
        connection.more()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert procfs.eventually(lambda: seen(gate)["lost"] > before["lost"])


def test_a_client_that_says_more_than_its_request_is_noticed_too(gate):
    before = seen(gate)
    with gate.connect() as connection:
        connection.send(gate.head("GET", "/test/wait") + gate.head("GET", "/test/wait"))
        while b"hello" not in connection.read:
            connection.more()
        connection.send(gate.head("GET", "/test/wait"))
    assert procfs.eventually(lambda: seen(gate)["lost"] > before["lost"])


def test_a_revoked_key_ends_its_answer(gate):
    key = gate.key("blue", "--name", "stream")["key"]
    with gate.connect() as connection:
        connection.send(gate.head("GET", "/test/keyed", key))
        while b"hello" not in connection.read:
            connection.more()
        connection.read = b""
        before = seen(gate)["lost"]
        gate.ctl("key", "revoke", "stream")
        assert connection.is_closed()
        assert procfs.eventually(lambda: seen(gate)["lost"] > before)


def test_an_answer_that_breaks_off_is_not_taken_for_whole(gate):
    with gate.connect() as connection:
        connection.send(gate.head("GET", "/test/abort"))
        while connection.more():
            pass
        assert b"\r\n0\r\n" not in connection.read


def test_bodies_that_are_too_long(gate):
    assert gate.request("POST", "/test/echo", body=b"a" * 65536).body == b"a" * 65536
    for path in "/test/echo", "/test/small":
        assert gate.request("POST", path, body=b"a" * 65537).status == 413
        with gate.connect() as connection:
            connection.send(gate.head("POST", path, None, "Transfer-Encoding: chunked"))
            send_chunks(connection, 40000, 3)
            assert connection.answer().status == 413


def test_an_answer_before_the_body(gate):
    with gate.connect() as connection:
        connection.send(gate.head("POST", "/test/refuse", None, "Content-Length: 50000").encode() + b"a" * 50000)
        assert connection.answer().status == 403
        connection.send(gate.head("GET", "/health"))  # the body was read, and not as a request
        assert connection.answer().status == 200
    with gate.connect() as connection:
        connection.send(gate.head("POST", "/test/refuse", None, f"Content-Length: {1 << 40}"))
        assert connection.answer().status == 403 and connection.is_closed()
    with gate.connect() as connection:
        connection.send(gate.head("POST", "/test/refuse", None, "Content-Length: 5", "Expect: 100-continue"))
        assert connection.answer().status == 403 and connection.is_closed()


def test_an_expected_body_is_asked_for(gate):
    with gate.connect() as connection:
        connection.send(gate.head("POST", "/test/echo", None, "Content-Length: 5", "Expect: 100-continue"))
        while b"100 Continue\r\n\r\n" not in connection.read:
            connection.more()
        connection.send(b"hello")
        assert connection.answer().body == b"hello"


def test_a_body_that_stops_ends_its_request(gate):
    before = seen(gate)["lost"]
    for body in b"", b"12345":  # whose end comes with the last bytes
        with gate.connect() as connection:
            connection.send(gate.head("POST", "/test/count", None, "Content-Length: 10").encode() + body)
    assert procfs.eventually(lambda: seen(gate)["lost"] >= before + 2)


def test_pipelined_requests_are_answered_in_order(gate):
    with gate.connect() as connection:
        connection.send("".join(gate.head("GET", f"/test/show/{n}") for n in range(20)))
        assert [connection.answer().body for _ in range(20)] == [b"GET|%d|" % n for n in range(20)]


def test_an_address_has_its_connections(gate):
    with gate.connect() as first:
        first.send(gate.head("GET", "/health"))
        assert first.answer().status == 200
        more = [gate.connect() for _ in range(60)]
        for connection in more:
            try:
                connection.send(gate.head("GET", "/health"))
            except OSError:
                pass
        answered = sum(connection.answer() is not None for connection in more)
        for connection in more:
            connection.close()
    assert 0 < answered <= 39


def test_a_head_has_its_time(area, tenants):
    slow = HttpGate(area, None, tenants[1], "head_time = 1s", program="gate_faces")
    try:
        with slow.connect() as silent, slow.connect() as begun, slow.connect() as kept:
            begun.send("GET / HTT")
            kept.send(slow.head("GET", "/health"))
            assert kept.answer().status == 200
            for connection in silent, begun, kept:
                assert connection.is_closed()
    finally:
        assert slow.stop() == 0


@pytest.fixture(scope="module")
def tls_gate(area, tenants):
    """Speaks TLS at its port."""
    running = HttpGate(area, None, tenants[1], *tls_settings(area, tenants[1]), program="gate_faces")
    yield running
    assert running.stop() == 0


def test_tls_of_12_and_later(tls_gate):
    for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
        with handshake(tls_gate, version, version) as connection:
            connection.send(tls_gate.head("POST", "/test/count", None, f"Content-Length: {3 * MIB}"))
            connection.send(b"x" * 3 * MIB)
            assert connection.answer().body == b"%d\n" % (3 * MIB)
    for version in ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1:
        with pytest.raises((ssl.SSLError, OSError)):
            handshake(tls_gate, version, version)


def test_plain_http_gets_no_answer_where_tls_is_spoken(tls_gate):
    with tls_gate.connect() as connection:
        connection.send(tls_gate.head("GET", "/health"))
        assert connection.answer() is None


def test_tls_is_not_negotiated_again(tls_gate):
    """A client cannot make the gate compute again and again. TLS 1.3 has no renegotiation."""
    with acting_as(0):
        client = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{tls_gate.port}", "-tls1_2"], input=b"R\n", capture_output=True,
            timeout=60, check=False)
    assert b"RENEGOTIATING" in client.stdout + client.stderr
    assert client.returncode != 0 or b"error" in client.stderr
    assert tls_gate.process.poll() is None
    with handshake(tls_gate, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) as connection:
        connection.send(tls_gate.head("GET", "/health"))
        assert connection.answer().status == 200


def test_keys_are_not_read_by_others_on_the_network(area, tenants):
    """Without TLS only this host's clients are served."""
    with pytest.raises(AssertionError, match="other hosts could read keys"):
        HttpGate(area, None, tenants[1], "listen = 0.0.0.0:7999", program="gate_faces")


@pytest.mark.deep("slow")
def test_ten_thousand_idle_connections(area, tenants):
    """Half of them have said nothing, and half have had an answer: each takes a bounded memory, and others are served."""
    count = 10000
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    if old[1] < 2 * count:
        pytest.skip(f"of {old[1]} open files, which is the limit, not {2 * count}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (old[1], old[1]))
    crowded = HttpGate(area, None, tenants[1], f"connections = {count + 10}", f"connections_per_address = {count + 10}",
                       "head_time = 1h", program="gate_faces")
    connections = []
    try:
        before = procfs.rss_kib(crowded.process.pid)
        for n in range(count):
            connections.append(crowded.connect())
            if n % 2:
                connections[-1].send(crowded.head("GET", "/health"))
                assert connections[-1].answer().status == 200
        with crowded.connect() as one:
            one.send(crowded.head("POST", "/test/count", None, f"Content-Length: {MIB}").encode() + b"x" * MIB)
            assert one.answer().body == b"%d\n" % MIB
        each = (procfs.rss_kib(crowded.process.pid) - before) / count
        print(f"{each:.1f} KiB for each idle connection")
        assert each < 20
    finally:
        for connection in connections:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
        assert crowded.stop() == 0
