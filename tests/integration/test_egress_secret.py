# SPDX-License-Identifier: Apache-2.0
"""egress_secret: requests to NAME.cloister.internal go to one host over TLS, with a header that no workspace sees."""

import contextlib
import os
import socket
import threading

import egress
import pytest
from secret_host import POST, SECRET, api, ask, authorities, get, names, running, start


def test_request(running, api):
    """The host gets the secret, its own name, and nothing that the client says about who it is."""
    fields = "".join(f"{name}: forged\r\n" for name in (
        "Authorization", "authorization", "Proxy-Authorization", "Proxy-Connection", "X-Api-Key", "x_api_key", "Api-Key",
        "Cookie", "Upgrade", "TE", "X-Hop"))
    port = running.open()
    assert ask(port, get(fields="X-Kept: 1\r\nConnection: X-Hop, Upgrade\r\n" + fields)).endswith(b"\r\n\r\nok")
    assert api.head() == (f"GET /v1?x=y HTTP/1.1\r\nHost: api.test:{api.port}\r\nConnection: close\r\nX-Kept: 1\r\n"
                          f"Authorization: Bearer {SECRET}\r\n\r\n").encode()
    closed = running.link.expect(egress.CLOSED)
    # The secret's line counts nowhere: its length is not for the workspace.
    sent = len(api.head()) - len(f"Authorization: Bearer {SECRET}\r\n\r\n")
    assert closed == {"call": 0, "host": "api.test", "port": api.port, "reason": "", "via": "secret",
                      "in": len(api.answer), "out": sent}


def test_header_without_a_prefix(running, api):
    ask(running.open(), get("anthropic", "Authorization: forged\r\n"))
    assert api.head().endswith(f"Connection: close\r\nX-Api-Key: {SECRET}\r\n\r\n".encode())


CHUNKS = b"5\r\nhello\r\nA\r\n, world!!!\r\n0\r\n\r\n"


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_bodies(running, api, framing):
    body = os.urandom(300_000)
    if framing == "length":
        fields, sent = f"Content-Length: {len(body)}\r\n".encode(), body
    else:
        fields, sent = b"Transfer-Encoding: Chunked\r\n", b"%x\r\n%s\r\n" % (len(body), body) + CHUNKS
        body += b"hello, world!!!"
    head = b"POST http://openai.cloister.internal/ HTTP/1.1\r\n" + fields + b"\r\n"
    assert ask(running.open(), head + sent).endswith(b"\r\n\r\nok")
    assert api.requests[0][1] == body
    closed = running.link.expect(egress.CLOSED)
    assert closed["out"] == len(api.head()) - len(f"Authorization: Bearer {SECRET}\r\n\r\n") + len(sent)


@pytest.mark.parametrize("way", ["connect", "socks"])
def test_tunnels(running, api, way):
    """Node's fetch asks for http URLs by CONNECT, too. In the tunnel the name is the same, or nothing is sent."""
    port = running.open()
    for host, is_fine in (("openai.cloister.internal", True), ("elsewhere.cloister.internal", False), ("open.test", False)):
        if way == "connect":
            connection, head = egress.connect(port, "openai.cloister.internal:80")
            assert head.startswith(b"HTTP/1.1 200 ")
        else:
            connection, code = egress.socks(port, "openai.cloister.internal", 80)
            assert code == 0
        with connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            answer = egress.read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200 " if is_fine else b"HTTP/1.1 400 ")
        running.link.expect(egress.CLOSED if is_fine else egress.DENIED)
    assert len(api.requests) == 1


def test_transparent(running, api):
    """A program that knows no proxy: the name has the address of port 80's listener."""
    with socket.create_server(("127.0.0.1", 0)) as proxy, socket.create_server(("127.0.0.1", 0)) as http, \
            socket.socket(type=socket.SOCK_DGRAM) as dns:
        dns.bind(("127.0.0.1", 0))
        running.send_open(1, proxy, sockets=egress.PROXY | egress.DNS | egress.HTTP, more=[dns, http])
        running.link.expect(egress.OPENED)
        assert egress.ask(dns.getsockname()[1], "openai.cloister.internal") == (0, ["127.1.0.1"])
        assert egress.ask(dns.getsockname()[1], "absent.cloister.internal") == (3, [])
        assert running.link.denied()["reason"] == "unknown_secret"
        answer = ask(http.getsockname()[1], b"GET / HTTP/1.1\r\nHost: openai.cloister.internal\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nok") and SECRET.encode() in api.head()


HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n"
# Requests whose end, host or fields two parsers could read in two ways. None reaches the host.
AMBIGUOUS = [
    POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    POST + b"Content-Length: 0\r\nContent-Length: 4\r\n\r\nGET ",
    POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nGET ",
    POST + b"Content-Length: 4\r\nContent_Length: 0\r\n\r\nGET ",
    POST + b"Content-Length: 4, 4\r\n\r\nGET ",
    POST + b"Content-Length: +4\r\n\r\nGET ",
    POST + b"Content-Length: 0x4\r\n\r\nGET ",
    POST + b"Content-Length: -1\r\n\r\n",
    POST + b"Content-Length: \r\n\r\n",
    POST + b"Content-Length: 18446744073709551616\r\n\r\n",
    POST + b"Content-Length : 4\r\n\r\nGET ",
    POST + b"Transfer-Encoding: identity\r\n\r\n",
    POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n",
    POST + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"X: y\r\n\tfolded\r\n\r\n",
    POST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"X: y\rAuthorization: forged\r\n\r\n",
    POST + b"X: y\0\r\n\r\n",
    POST + b"\r\n".join([b"X", b"", b""]),
    POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST.replace(b"1.1", b"2.0") + b"\r\n",
    POST.replace(b"/ HTTP", b"/#x HTTP") + b"\r\n",
    POST.replace(b"/ HTTP", b"/ x HTTP") + b"\r\n",
    POST.replace(b"/ HTTP", b"/\tHTTP/1.1\tx HTTP") + b"\r\n",
    POST.replace(b"POST", b"TRACE") + b"\r\n",
    POST.replace(b"POST", b"track") + b"\r\n",
    POST.replace(b"http://", b"https://") + b"\r\n",
    POST.replace(b"http://", b"http://api.test@") + b"\r\n",
    b"CONNECT openai.cloister.internal:443 HTTP/1.1\r\n\r\n",
    # Chunks that are not as they must be: what came before them was no whole request.
    *(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks for chunks in (
        b"5;a=b\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"\r\n0\r\n\r\n", b"g\r\n\r\n",
        b"0\r\nAuthorization: forged\r\n\r\n", b"0\r\n\n", b"0" * 16 + b"\r\n\r\n", b"10000000000000000\r\n"))]


def test_ambiguous_requests(running, api):
    port = running.open()
    for request in AMBIGUOUS:
        answer = ask(port, request + HIDDEN)
        assert answer.startswith(b"HTTP/1.1 400 "), (request, answer)
        assert running.link.denied()["reason"] == "bad_request", request
    assert api.requests == []


# One request and what hides behind it: the host gets the one, and not a byte more.
@pytest.mark.parametrize("request_", [
    get(), POST + b"Content-Length: 2\r\n\r\nab", POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    POST + b"Connection: keep-alive\r\nContent-Length: 000\r\n\r\n", get(fields="Connection: Upgrade\r\nUpgrade: h2c\r\n")])
@pytest.mark.parametrize("when", ["at once", "later"])
def test_second_requests(running, api, request_, when):
    behind = []
    api.stream = lambda connection: (connection.sendall(api.answer), connection.unwrap(), behind.append(True))
    with egress.client(running.open()) as connection:
        connection.sendall(request_ + (HIDDEN if when == "at once" else b""))
        answer = connection.recv(65536)
        if when == "later":
            with contextlib.suppress(ConnectionError):
                connection.sendall(get() + HIDDEN)
        answer += egress.read_all(connection)
    assert answer == api.answer
    running.link.expect(egress.CLOSED)
    assert len(api.requests) == 1 and api.server.connections == 1
    assert b"hidden" not in api.head() + api.requests[0][1]


def test_what_is_behind_the_body_is_not_sent(running, api):
    behind = []

    def serve(connection):
        connection.settimeout(0.3)  # only shows that nothing comes; what comes would come before the answer
        with contextlib.suppress(OSError):
            behind.append(connection.recv(100))
        connection.settimeout(egress.WAIT_S)
        connection.sendall(api.answer)

    api.stream = serve
    assert ask(running.open(), POST + b"Content-Length: 2\r\n\r\nab" + HIDDEN).endswith(b"ok")
    assert behind == []


def test_paths_stay_paths(running, api):
    """Whatever the target is, the host is the secret's, and the header cannot be moved or doubled."""
    port = running.open()
    targets = {"": "/", "?q": "/?q", "/http://evil.test/": "/http://evil.test/", "//evil.test/x": "//evil.test/x",
               "/%0d%0aAuthorization:%20forged": "/%0d%0aAuthorization:%20forged", "/../..": "/../.."}
    for target, path in targets.items():
        api.requests.clear()
        ask(port, f"GET http://OpenAI.Cloister.Internal.{target} HTTP/1.1\r\n\r\n".encode())
        assert api.head() == (f"GET {path} HTTP/1.1\r\nHost: api.test:{api.port}\r\nConnection: close\r\n"
                              f"Authorization: Bearer {SECRET}\r\n\r\n").encode()


def test_what_was_sent_before_a_refusal_is_told(running, api):
    """A program cannot send much to the host and then have it count as a request that never was."""
    port = running.open()
    running.call(7)
    body = b"%x\r\n%s\r\n" % (500_000, bytes(500_000))
    answer = ask(port, POST + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"broken")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert running.link.denied()["reason"] == "bad_request"
    closed = running.link.expect(egress.CLOSED)
    assert closed["reason"] == "bad_request" and closed["out"] > 400_000
    running.call_end(7)
    assert running.link.expect(egress.CALL_ENDED)["out"] == closed["out"]


def test_a_cut_off_request_is_none(running, api):
    with egress.client(running.open()) as connection:
        connection.sendall(POST + b"Content-Length: 100\r\n\r\nabc")
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            egress.read_all(connection)
    running.link.expect(egress.CLOSED)
    assert api.requests == []


def test_events_come_as_they_are_sent(running, api):
    """Each event of a stream is there before the next one is sent, and a slow reader loses nothing."""
    seen, go = [], threading.Semaphore(0)

    def stream(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for number in range(3):
            connection.sendall(b"data: %d\n\n" % number)
            assert go.acquire(timeout=egress.WAIT_S)

    api.stream = stream
    with egress.client(running.open()) as connection:
        connection.sendall(get())
        egress.read_head(connection)
        for _ in range(3):
            seen.append(connection.recv(100))
            go.release()
        assert connection.recv(100) == b""
    assert seen == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]


def test_large_answers(running, api):
    body = os.urandom(5_000_000)
    api.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    assert ask(running.open(), get()) == api.answer
    assert running.link.expect(egress.CLOSED)["in"] == len(api.answer)


def test_an_answer_that_is_cut_off_is_not_taken_for_whole(running, api):
    def stream(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_RDWR)  # without the end that TLS has: anybody on the way could do that

    api.stream = stream
    with egress.client(running.open()) as connection, pytest.raises(ConnectionResetError):
        connection.sendall(get())
        egress.read_all(connection)
