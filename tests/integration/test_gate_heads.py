# SPDX-License-Identifier: Apache-2.0
"""Hostile heads, each with its right answer: what two readers of HTTP could take for different requests is refused, and the
connection ends. Each row is the bytes that a client sends, the statuses of the answers, and whether the connection ends then.
Behind each row comes a request for /test/show/next, which is answered if the connection goes on and the row's request had an
end."""

import os

import pytest

from cloister_client import acting_as
from http_gate import HttpGate

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users")

NEXT = b"GET /test/show/next HTTP/1.1\r\nHost: localhost\r\n\r\n"
GET = b"GET /test/show/x HTTP/1.1\r\n"
POST = b"POST /test/echo HTTP/1.1\r\nHost: localhost\r\n"
HOST = b"Host: localhost\r\n"
SHOWN = b"GET|x|"
OPEN, ENDS = True, False

# name: (bytes, [(status, body or None)], whether NEXT is answered then)
HEADS = {
    "plain": (GET + HOST + b"\r\n", [(200, SHOWN)], OPEN),
    "a body": (POST + b"Content-Length: 3\r\n\r\nabc", [(200, b"abc")], OPEN),
    "a chunked body": (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", [(200, b"abc")], OPEN),
    "empty lines before": (b"\r\n\r\n" + GET + HOST + b"\r\n", [(200, SHOWN)], OPEN),
    # The length of a body
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabc", [(400, None)], ENDS),
    "two equal lengths": (POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", [(400, None)], ENDS),
    "a list of lengths": (POST + b"Content-Length: 3, 3\r\n\r\nabc", [(400, None)], ENDS),
    "a length with a sign": (POST + b"Content-Length: +3\r\n\r\nabc", [(400, None)], ENDS),
    "a negative length": (POST + b"Content-Length: -3\r\n\r\nabc", [(400, None)], ENDS),
    "a hexadecimal length": (POST + b"Content-Length: 0x3\r\n\r\nabc", [(400, None)], ENDS),
    "a length with a space": (POST + b"Content-Length: 3 0\r\n\r\nabc", [(400, None)], ENDS),
    "a length with a point": (POST + b"Content-Length: 3.0\r\n\r\nabc", [(400, None)], ENDS),
    "an empty length": (POST + b"Content-Length: \r\n\r\nabc", [(400, None)], ENDS),
    "a length that is a word": (POST + b"Content-Length: three\r\n\r\nabc", [(400, None)], ENDS),
    "a length of 23 digits": (POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc", [(413, None)], ENDS),
    "a length in full width": (POST + b"Content-Length: \xef\xbc\x93\r\n\r\nabc", [(400, None)], ENDS),
    "a length before a tab": (POST + b"Content-Length\t: 3\r\n\r\nabc", [(400, None)], ENDS),
    "a length before a space": (POST + b"Content-Length : 3\r\n\r\nabc", [(400, None)], ENDS),
    "a length on the next line": (POST + b"Content-Length:\r\n 3\r\n\r\nabc", [(400, None)], ENDS),
    "a length behind a vertical tab": (POST + b"Content-Length: \x0b3\r\n\r\nabc", [(400, None)], ENDS),
    # Codings
    "length and coding": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [(400, None)], ENDS),
    "coding and length": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", [(400, None)], ENDS),
    "an unknown coding": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", [(501, None)], ENDS),
    "a coding before chunked": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", [(501, None)], ENDS),
    "a coding behind chunked": (POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", [(501, None)], ENDS),
    "identity": (POST + b"Transfer-Encoding: identity\r\n\r\n", [(501, None)], ENDS),
    "an empty coding": (POST + b"Transfer-Encoding: \r\n\r\n", [(501, None)], ENDS),
    "two codings": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a coding of HTTP/1.0": (b"POST /test/echo HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [(400, None)],
                             ENDS),
    "a coding behind a vertical tab": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a coding before a space": (POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a coding on the next line": (POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a coding in quotes": (POST + b"Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", [(501, None)], ENDS),
    # Chunks
    "an extension": (POST + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n", [(200, b"abc")], OPEN),
    "a negative chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a chunk with 0x": (POST + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a chunk of 17 digits": (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n", [(413, None)], ENDS),
    "a chunk that is longer than it says": (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n", [(400, None)], ENDS),
    "a chunk without a length": (POST + b"Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n", [(400, None)], ENDS),
    "trailers": (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nHost: evil\r\nContent-Length: 5\r\n\r\n",
                 [(200, b"abc")], OPEN),
    # Names, values and lines
    "a space in a name": (GET + HOST + b"a b: c\r\n\r\n", [(400, None)], ENDS),
    "a space before the first name": (GET + b" Host: evil\r\n" + HOST + b"\r\n", [(400, None)], ENDS),
    "an empty name": (GET + HOST + b": c\r\n\r\n", [(200, SHOWN)], OPEN),  # libmicrohttpd drops the field
    "no colon": (GET + HOST + b"abc\r\n\r\n", [(400, None)], ENDS),
    "a bracket in a name": (GET + HOST + b"a[0]: c\r\n\r\n", [(400, None)], ENDS),
    "a NUL in a name": (GET + HOST + b"a\0: c\r\n\r\n", [(400, None)], ENDS),
    "a bare CR in a value": (GET + HOST + b"a: b\rTransfer-Encoding: chunked\r\n\r\n", [(400, None)], ENDS),
    "a field on a continuation line": (GET + HOST + b"a: b\r\n c: d\r\n\r\n", [(400, None)], ENDS),
    "a control character in a value": (GET + HOST + b"a: b\x01\r\n\r\n", [(400, None)], ENDS),
    # RFC 9112, section 2.2, lets a line end with LF alone.
    "lines that end with LF": (b"GET /test/show/x HTTP/1.1\nHost: localhost\n\n", [(200, SHOWN)], OPEN),
    # The request line
    "an absolute target": (b"GET http://evil/test/show/x HTTP/1.1\r\n" + HOST + b"\r\n", [(400, None)], ENDS),
    "an authority": (b"CONNECT evil:80 HTTP/1.1\r\n" + HOST + b"\r\n", [(501, None)], ENDS),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", [(400, None)], ENDS),
    "a fragment": (b"GET /test/show/x#y HTTP/1.1\r\n" + HOST + b"\r\n", [(400, None)], ENDS),
    "a method in lower case": (b"get /test/show/x HTTP/1.1\r\n" + HOST + b"\r\n", [(501, None)], ENDS),
    "an unknown method": (b"BREW /test/show/x HTTP/1.1\r\n" + HOST + b"\r\n", [(501, None)], ENDS),
    "two spaces": (b"GET  /test/show/x  HTTP/1.1\r\n" + HOST + b"\r\n", [], ENDS),
    "a space in the target": (b"GET /test/show/x y HTTP/1.1\r\n" + HOST + b"\r\n", [], ENDS),
    "HTTP/0.9": (b"GET /test/show/x\r\n", [(400, None)], ENDS),
    "HTTP/1.2": (b"GET /test/show/x HTTP/1.2\r\n" + HOST + b"\r\n", [(505, None)], ENDS),
    "HTTP/2.0": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [(505, None)], ENDS),
    "a version in lower case": (b"GET /test/show/x http/1.1\r\n" + HOST + b"\r\n", [(400, None)], ENDS),
    "TLS": (bytes.fromhex("16030100050100000100") + b"\r\n\r\n", [], ENDS),
    # Hosts
    "no host": (GET + b"\r\n", [(400, None)], ENDS),
    "two hosts": (GET + HOST + b"Host: evil\r\n\r\n", [(400, None)], ENDS),
    "another host": (GET + b"Host: evil.example\r\n\r\n", [(421, None)], ENDS),
    "a host that begins as ours": (GET + b"Host: localhost.evil.example\r\n\r\n", [(421, None)], ENDS),
    "a host with a user": (GET + b"Host: localhost@evil\r\n\r\n", [(400, None)], ENDS),
    "a host with a path": (GET + b"Host: localhost/x\r\n\r\n", [(400, None)], ENDS),
    "an empty host": (GET + b"Host: \r\n\r\n", [(400, None)], ENDS),
    "a host with a bad port": (GET + b"Host: localhost:99999\r\n\r\n", [(400, None)], ENDS),
    "a page of another origin": (GET + HOST + b"Origin: https://evil.example\r\n\r\n", [(403, None)], ENDS),
    "a page without an origin": (GET + HOST + b"Origin: null\r\n\r\n", [(403, None)], ENDS),
    "a page of this origin": (GET + HOST + b"Origin: http://localhost\r\n\r\n", [(200, SHOWN)], OPEN),
    # Paths
    "an encoded slash": (b"GET /test/show/a%2fb HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "an encoded NUL": (b"GET /test/show/a%00 HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "dots": (b"GET /test/show/../../health HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "encoded dots": (b"GET /test/show/%2e%2e/x HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "dots encoded twice": (b"GET /test/show/%252e%252e HTTP/1.1\r\n" + HOST + b"\r\n", [(200, b"GET|%2e%2e|")], OPEN),
    "half an escape": (b"GET /test/show/a%4 HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "a backslash": (b"GET /test/show/a\\..\\b HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "an empty segment": (b"GET /test/show//x HTTP/1.1\r\n" + HOST + b"\r\n", [(404, None)], OPEN),
    "a query with an encoded ampersand": (b"GET /test/show/x?q=a%26b HTTP/1.1\r\n" + HOST + b"\r\n", [(200, b"GET|x|a&b")], OPEN),
    # Bombs
    "50,000 fields": (GET + HOST + b"a: b\r\n" * 50000 + b"\r\n", [(431, None)], ENDS),
    "a long value": (GET + HOST + b"a: " + b"b" * 500000 + b"\r\n\r\n", [(431, None)], ENDS),
    "a long name": (GET + HOST + b"b" * 500000 + b": c\r\n\r\n", [(431, None)], ENDS),
    "a long target": (b"GET /" + b"b" * 500000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", [(414, None)], ENDS),
    # Others
    "an unknown expectation": (POST + b"Expect: magic\r\nContent-Length: 3\r\n\r\nabc", [(417, None)], ENDS),
    "two keys": (GET + HOST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", [(400, None)], ENDS),
    "a body of GET": (GET + HOST + b"Content-Length: 3\r\n\r\nabc", [(200, SHOWN)], OPEN),
    "Upgrade on a path that has none": (GET + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", [(200, SHOWN)], OPEN),
}


@pytest.fixture(scope="module")
def gate(area, tenants):
    with acting_as(0):
        area.path.chmod(0o755)
    running = HttpGate(area, None, tenants[1], program="gate_faces")
    yield running
    assert running.stop() == 0


def answers(connection, data):
    """Sends all, and returns all answers until the gate closes or NEXT is answered."""
    try:
        connection.send(data + NEXT)
    except OSError:
        pass  # the gate has closed meanwhile
    found = []
    while not found or found[-1].body != b"GET|next|":
        answer = connection.answer()
        if answer is None:
            return found, ENDS
        found.append(answer)
    return found[:-1], OPEN


def test_there_are_enough():
    assert len(HEADS) >= 60


@pytest.mark.parametrize("name", HEADS)
def test_head(gate, name):
    data, expected, goes_on = HEADS[name]
    with gate.connect() as connection:
        found, went_on = answers(connection, data)
        assert [answer.status for answer in found] == [status for status, _ in expected]
        for answer, (_, body) in zip(found, expected):
            assert body is None or answer.body == body
        assert went_on == goes_on


@pytest.mark.parametrize("name", ["plain", "a body", "a chunked body", "trailers", "lines that end with LF", "a length in full width"])
def test_the_same_byte_by_byte(gate, name):
    data, expected, goes_on = HEADS[name]
    with gate.connect() as connection:
        for i in range(len(data)):
            try:
                connection.send(data[i:i + 1])
            except OSError:
                break
        found, went_on = answers(connection, b"")
        assert ([answer.status for answer in found], went_on) == ([status for status, _ in expected], goes_on)


def test_behind_a_proxy_a_connection_has_one_request(area, tenants):
    """What a proxy took for a part of one client's request is never read as another's."""
    gate = HttpGate(area, None, tenants[1], "tls = proxy", "tls_proxy = 127.0.0.1", "hosts = gate.example.org", program="gate_faces")
    try:
        with gate.connect() as connection:
            connection.send(GET + b"Host: gate.example.org\r\n\r\n" + GET + b"Host: gate.example.org\r\n\r\n")
            assert connection.answer().status == 200
            assert connection.answer() is None
        with gate.connect() as connection:
            connection.send(b"POST /test/echo HTTP/1.1\r\nHost: gate.example.org\r\nContent-Length: 3\r\n\r\nabc" + NEXT)
            assert connection.answer().body == b"abc"
            assert connection.answer() is None
        with gate.connect() as connection:  # names of loopback are a way around hosts only there
            connection.send(GET + HOST + b"\r\n")
            assert connection.answer().status == 421
    finally:
        assert gate.stop() == 0


def test_only_the_proxy_connects(area, tenants):
    gate = HttpGate(area, None, tenants[1], "tls = proxy", "tls_proxy = 192.0.2.1", "hosts = gate.example.org", program="gate_faces")
    try:
        with gate.connect() as connection:
            try:
                connection.send(GET + b"Host: gate.example.org\r\n\r\n")
            except OSError:
                pass
            assert connection.answer() is None
    finally:
        assert gate.stop() == 0
