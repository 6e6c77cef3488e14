# SPDX-License-Identifier: Apache-2.0
"""egress_secret: requests to NAME.cloister.internal go to one host over TLS, with a header that no workspace sees."""

import contextlib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading

import authority
import egress
import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, Account

SECRET = "sk-test-6f1b0c4d5e"
CONFIG = """[cloister]
egress_resolver = {resolver}
egress_ca = {directory}/ca.pem

[tenant dev]
network = egress
egress_private = 127.0.0.0/8
egress_connect_rate = 0
egress_allow = open.test:*
egress_deny = denied.test
egress_secret = openai host=api.test:{port} header="Authorization: Bearer" file={directory}/key
egress_secret = anthropic host=api.test:{port} header=X-Api-Key file={directory}/key
egress_secret = elsewhere host=other.test:{port} header="Authorization: Bearer" file={directory}/key
egress_secret = denied host=denied.test:{port} header="Authorization: Bearer" file={directory}/key
egress_secret = private host=ten.test header="Authorization: Bearer" file={directory}/key
egress_secret = nowhere host=api.test:{closed} header="Authorization: Bearer" file={directory}/key
{more}

[tenant else]
network = egress
egress_private = 127.0.0.0/8
egress_allow = open.test:*
"""


class Api:
    """The secret's host. Keeps the requests that it got, and answers with what .answer says."""

    def __init__(self, context):
        self.requests, self.behind = [], []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        self.stream = None
        self.server = authority.Server(context, self.serve)
        self.port = self.server.port

    def serve(self, connection):
        self.requests.append(authority.read_request(connection))
        if self.stream:
            self.stream(connection)
        else:
            connection.sendall(self.answer)

    def head(self):
        (head, _), = self.requests
        return head


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    made = authority.Authority(tmp_path_factory.mktemp("ca"))
    return made, made.context("api.test")


@pytest.fixture(scope="module")
def names():
    server = egress.Names(dict.fromkeys(("api.test", "other.test", "denied.test", "open.test"), ["127.0.0.1"]) |
                          {"ten.test": ["10.1.2.3"]})
    yield server
    server.close()


@pytest.fixture
def api(authorities):
    made = Api(authorities[1])
    yield made
    made.server.close()


@pytest.fixture
def start(area, account, authorities, names, api):
    started = []

    def start(more="", config=CONFIG, key=SECRET + "\n", mode=0o600, **keywords):
        directory = pathlib.Path(area.new_directory("secret"))
        directory.chmod(0o755)
        (directory / "ca.pem").write_bytes(authorities[0].certificate.read_bytes())
        (directory / "key").write_text(key)
        (directory / "key").chmod(mode)
        os.chown(directory / "key", account.uid, -1)
        with socket.create_server(("127.0.0.1", 0)) as free:
            closed = free.getsockname()[1]
        values = {"resolver": names.address, "directory": directory, "port": api.port, "closed": closed}
        running = egress.Egress(directory, config.format(**values, more=more.format(**values)), user=account.uid, **keywords)
        running.directory, running.values = directory, values
        started.append(running)
        return running

    yield start
    for running in started:
        if running.process.poll() is None:
            assert running.stop() == 0, running.logged()
        assert SECRET not in running.logged()


@pytest.fixture
def running(start):
    return start().ready()


def ask(port, request):
    with egress.client(port) as connection:
        connection.sendall(request)
        return egress.read_all(connection)


def get(name="openai", fields=""):
    return f"GET http://{name}.cloister.internal/v1?x=y HTTP/1.1\r\nHost: evil.test\r\n{fields}\r\n".encode()


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


POST = b"POST http://openai.cloister.internal/ HTTP/1.1\r\n"
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


def test_request_in_crumbs(running, api):
    with egress.client(running.open()) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS:
            connection.sendall(bytes([byte]))
        assert egress.read_all(connection) == api.answer
    assert api.requests[0][1] == b"hello, world!!!"


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


def refused(running, port, request, status, reason):
    answer = ask(port, request)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    denied = running.link.denied()
    assert denied["reason"] == reason, denied
    assert SECRET.encode() not in answer and SECRET not in str(denied)
    return answer.decode(), denied


def test_refusals(running, api):
    port = running.open()
    answer, denied = refused(running, port, get("absent"), 403, "unknown_secret")
    assert denied["host"] == "absent.cloister.internal" and denied["port"] == 80
    assert "http://openai.cloister.internal/" in answer
    refused(running, port, get("a.openai"), 403, "unknown_secret")
    answer, denied = refused(running, port, get("denied"), 403, "denied")
    assert denied["rule"] == "denied.test"
    refused(running, port, get("private"), 403, "private_address")
    refused(running, port, get("nowhere"), 502, "upstream_failed")
    assert egress.connect(port, "absent.cloister.internal:80")[1].startswith(b"HTTP/1.1 403 ")
    assert running.link.denied()["reason"] == "unknown_secret"
    assert egress.socks(port, "absent.cloister.internal", 80)[1] == 2
    assert running.link.denied()["reason"] == "unknown_secret"
    # The secret's host by its own name is the allow-list's business.
    refused(running, port, f"GET http://api.test:{api.port}/ HTTP/1.1\r\n\r\n".encode(), 403, "not_allowed")
    assert api.requests == []


def test_other_tenants_and_narrowed_workspaces(running, api):
    port = running.open(tenant="else")
    refused(running, port, get(), 403, "unknown_secret")
    refused(running, running.open(cell=2, allow="open.test"), get(), 403, "not_allowed")
    refused(running, running.open(cell=3, allow=f"api.test:{api.port}"), get(), 403, "not_allowed")
    assert api.requests == []
    assert ask(running.open(cell=4, allow="openai.cloister.internal"), get()).endswith(b"ok")


def wrong_servers(made, directory):
    stranger = authority.Authority(directory / "stranger")
    old = made.context("api.test")
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with contextlib.suppress(ssl.SSLError):
        old.set_ciphers("ALL:@SECLEVEL=0")
    yield "another name", made.context("other.example"), "certificate: hostname mismatch"
    yield "another authority", stranger.context("api.test"), "certificate: "
    yield "expired", made.context("api.test", days=-1), "certificate: certificate has expired"
    yield "TLS 1.1", old, "TLS: "
    yield "no TLS", None, "TLS: "


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_hosts_that_are_not_who_they_should_be(start, authorities, tmp_path):
    got = []
    for name, context, why in wrong_servers(authorities[0], tmp_path):
        if context:
            server = authority.Server(context, lambda connection: got.append(connection.recv(1000)))
        else:
            server = egress.Host(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nok"))
        config = CONFIG.replace("host=api.test:{port}", f"host=api.test:{server.port}")
        running = start(config=config).ready()
        answer, denied = refused(running, running.open(), get(), 502, "upstream_failed")
        assert denied["rule"].startswith(why), (name, denied)
        assert why in answer
        server.close()
        running.stop()
    assert [one for one in got if one] == []


@contextlib.contextmanager
def openssl_server(made, *options):
    """OpenSSL's own server with a certificate for api.test, whose key is one of RSA. Yields its port."""
    made.context("api.test", key=("-newkey", "rsa:2048"))
    server = subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", "host.pem", "-key", "host.key", "-www", *options],
                              cwd=made.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield next(int(line.rsplit(b":", 1)[1]) for line in server.stdout if line.startswith(b"ACCEPT "))
    finally:
        server.kill()
        server.wait(egress.WAIT_S)
        server.stdout.close()


ENDLESS = "TLS: the host sends messages and no data"


@pytest.mark.parametrize(("options", "why"), [
    ((), None), (("-tls1_2",), None), (("-num_tickets", "20"), None), (("-num_tickets", "200"), ENDLESS),
    (("-tls1_2", "-cipher", "DHE"), "TLS: "), (("-groups", "ffdhe2048"), "TLS: "), (("-groups", "ffdhe8192"), "TLS: ")])
def test_hosts_that_want_much_computed(start, authorities, options, why):
    """Everybody waits while cloister-egress computes: what a host can have it compute has a bound."""
    with openssl_server(authorities[0], *options) as port:
        running = start(config=CONFIG.replace("host=api.test:{port}", f"host=api.test:{port}")).ready()
        if why:
            assert refused(running, running.open(), get(), 502, "upstream_failed")[1]["rule"].startswith(why)
        else:
            assert ask(running.open(), get()).startswith(b"HTTP/1.0 200 ")


def test_a_host_that_never_begins(start):
    """HelloRequest may come at any time, and is to be ignored. It takes no certificate to send it."""
    requests = b"\x16\3\3\x40\0" + bytes(0x4000)

    def serve(connection):
        while True:  # until it is reset
            connection.sendall(requests * 16)

    with contextlib.closing(egress.Host(serve)) as host:
        running = start(config=CONFIG.replace("host=api.test:{port}", f"host=api.test:{host.port}")).ready()
        assert refused(running, running.open(), get(), 502, "upstream_failed")[1]["rule"] == ENDLESS


def test_address_as_host(start, authorities):
    api = Api(authorities[0].context("127.0.0.1"))
    running = start(config=CONFIG.replace("host=api.test:{port}", f"host=127.0.0.1:{api.port}")).ready()
    assert ask(running.open(), get()).endswith(b"ok")
    api.server.close()


@pytest.mark.parametrize(("limit", "key"), [("egress_bytes_in = 1000\n", "in"), ("egress_bytes_out = 1000\n", "out")])
def test_bytes(start, api, limit, key):
    running = start(limit).ready()
    port = running.open()
    api.answer = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(5000)
    with egress.client(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(POST + b"Content-Length: 5000\r\n\r\n" + bytes(5000))
        egress.read_all(connection)
    closed = running.link.expect(egress.CLOSED)
    assert (closed[key], closed["reason"]) == (1000, "limit")
    _, denied = refused(running, port, get(), 503, "limit")
    assert denied["rule"] == f"egress_bytes_{key}"


def test_calls(running, api):
    """A request belongs to its call, and ends with it."""
    port, held = running.open(), threading.Event()
    api.stream = lambda connection: (held.set(), authority.rest(connection))
    running.call(7)
    connection = egress.client(port)
    connection.sendall(get())
    assert held.wait(egress.WAIT_S)
    running.call_end(7)
    assert running.link.expect(egress.CLOSED)["call"] == 7
    assert running.link.expect(egress.CALL_ENDED)["connections"] == 1
    with pytest.raises(ConnectionResetError):
        connection.recv(1)
    connection.close()


def test_reload(running, api):
    port = running.open()
    # As an editor or a secrets manager does it: another file takes the name.
    new = running.directory / "new"
    new.write_text("\n  second-secret \r\n")
    new.chmod(0o600)
    os.chown(new, running.directory.joinpath("key").stat().st_uid, -1)
    new.rename(running.directory / "key")
    running.link.send(egress.RELOAD)
    running.open(cell=2)
    ask(port, get())
    assert b"Authorization: Bearer second-secret\r\n\r\n" in api.head()
    running.link.expect(egress.CLOSED)
    # A mistake leaves in force what was read before.
    (running.directory / "key").chmod(0o644)
    running.link.send(egress.RELOAD)
    running.open(cell=3)
    assert "chmod o-rwx" in running.logged()
    api.requests.clear()
    ask(port, get())
    assert b"second-secret" in api.head()
    assert "second-secret" not in running.logged()


def test_a_reload_that_takes_the_network_in_the_middle_of_an_answer(running, api):
    """What the client has of the answer stays a part of it: it is reset, and gets nothing else."""
    half = b"HTTP/1.1 200 OK\r\n\r\nhalf"
    api.stream = lambda connection: (connection.sendall(half), authority.rest(connection))
    with egress.client(running.open()) as connection:
        connection.sendall(get())
        assert connection.recv(100) == half
        running.configure(running.config.read_text().replace("network = egress", "network = none"))
        running.link.send(egress.RELOAD)
        assert running.link.denied()["reason"] == "not_allowed"
        closed = running.link.expect(egress.CLOSED)
        assert (closed["reason"], closed["in"]) == ("not_allowed", len(half))
        with pytest.raises(ConnectionResetError):
            connection.recv(1000)


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("egress_deny = ", "egress_deny = api.test ", "denied"), ("127.0.0.0/8", "127.9.0.0/16", "private_address"),
    ("egress_secret = openai ", "egress_secret = renamed ", "unknown_secret"),
    ("openai host=api.test", "openai host=other.test", "not_allowed")])
def test_a_reload_ends_requests_that_it_no_longer_allows(running, api, old, new, reason):
    """A body and an answer without an end are as good as a tunnel."""
    half = b"HTTP/1.1 200 OK\r\n\r\nhalf"
    api.stream = lambda connection: (connection.sendall(half), authority.rest(connection))
    with egress.client(running.open()) as connection:
        connection.sendall(get())
        assert connection.recv(100) == half
        running.link.send(egress.RELOAD)  # of the same rules
        running.open(cell=2)
        config = running.config.read_text()
        assert old in config
        running.configure(config.replace(old, new, 1))
        running.link.send(egress.RELOAD)
        assert running.link.denied()["reason"] == reason
        assert running.link.expect(egress.CLOSED)["reason"] == reason
        with pytest.raises(ConnectionResetError):
            connection.recv(1000)


LINE = 'egress_secret = openai host=api.test header="Authorization: Bearer" file={directory}/key'


@pytest.mark.parametrize(("keywords", "why"), [
    ({"mode": 0o644}, "chmod o-rwx"), ({"mode": 0o602}, "chmod o-rwx"), ({"mode": 0o620}, "chmod g-w"),
    ({"key": ""}, "the file is empty"), ({"key": " \n"}, "the file is empty"),
    ({"key": SECRET + "\nX: y\n"}, "one line of printable ASCII"), ({"key": SECRET + "\x7f"}, "printable ASCII"),
    ({"key": "x" * 8193}, "larger than 8 KiB"),
    ({"more": 'egress_secret = openai host=a.test header=X-Key file={directory}/key'}, "given twice"),
    ({"more": 'egress_secret = b host=a.test header=X-Key file={directory}/missing'}, "No such file"),
    ({"more": 'egress_secret = b host=a.test header=X-Key file={directory}'}, "not a regular file"),
    ({"more": 'egress_secret = b host=a.test header=Host file={directory}/key'}, "header= is not"),
    ({"more": 'egress_secret = b host=a.test header=X-Key'}, "write NAME host=HOST"),
    ({"more": 'egress_secret = B host=a.test header=X-Key file={directory}/key'}, "a secret begins with its name")])
def test_mistakes(start, keywords, why):
    running = start(**keywords)
    assert running.process.wait(egress.WAIT_S) == 1
    mistake, = [line for line in running.logged().splitlines() if "egress_secret: " in line][-1:]
    assert why in mistake and mistake.startswith(f"cloister-egress: {running.config}:")


def test_a_file_of_another_user(start, account):
    if os.getuid() != 0:
        pytest.skip("needs root")
    running = start(mode=0o640)
    # Its group is root's here, which may read; another group may not.
    running.ready()
    os.chown(running.directory / "key", account.uid, 4711)
    running.link.send(egress.RELOAD)
    running.open()
    assert "chgrp it" in running.logged()
    os.chown(running.directory / "key", 4711, 0)
    (running.directory / "key").chmod(0o640)
    running.link.send(egress.RELOAD)
    running.open(cell=2)
    assert "chown it" in running.logged()


@pytest.mark.parametrize(("text", "why"), [("", "no certificates"), ("nonsense", "no certificates")])
def test_certificates_that_are_none(start, text, why):
    running = start(config=CONFIG.replace("{directory}/ca.pem", "{directory}/none.pem"))
    assert running.process.wait(egress.WAIT_S) == 1
    assert why in running.logged()


def test_nothing_shows_the_secret(running, api, account):
    """Not the process's memory to its own user, not a core, and none of the files of /proc that others can read."""
    ask(running.open(), get())
    pid = running.process.pid
    for file in ("cmdline", "environ", "maps"):
        with contextlib.suppress(PermissionError):
            assert SECRET.encode() not in pathlib.Path(f"/proc/{pid}/{file}").read_bytes()
    as_user = subprocess.run([sys.executable, "-c", "import ctypes, os, sys\n"
                              "pid = int(sys.argv[1])\n"
                              "try:\n    os.open(f'/proc/{pid}/mem', os.O_RDONLY)\n"
                              "except PermissionError:\n    print('mem')\n"
                              "try:\n    open(f'/proc/{pid}/environ').read()\n"
                              "except PermissionError:\n    print('environ')\n"
                              "libc = ctypes.CDLL(None, use_errno=True)\n"
                              "if libc.ptrace(16, pid, 0, 0) < 0:\n    print('attach')\n", str(pid)],
                             user=account.uid, extra_groups=[], capture_output=True, text=True, timeout=egress.WAIT_S)
    assert as_user.stdout.split() == ["mem", "environ", "attach"], as_user
    if os.getuid() == 0:  # the pages of the secret are left out of a core even if one is made
        flags = [line for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines() if line.startswith("VmFlags")]
        assert sum(" dd" in line for line in flags) >= 1
        left = copies(pid)
        assert left and all(left.values()), left


def copies(pid):
    """Where the secret is in the process's memory: for each address, whether a core would leave it out."""
    found, area, is_left_out = {}, None, {}
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            area = tuple(int(end, 16) for end in words[0].split("-"))
        elif words[0] == "VmFlags:":
            is_left_out[area] = "dd" in words
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for (begin, end), out in is_left_out.items():
            if end - begin > 1 << 32:
                continue  # AddressSanitizer's own, which has no byte of the program
            with contextlib.suppress(OSError, OverflowError):
                memory.seek(begin)
                if SECRET.encode() in memory.read(end - begin):
                    found[hex(begin)] = out
    return found


def curl(port, *arguments):
    return subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(egress.WAIT_S), *arguments],
                          env={"http_proxy": f"http://127.0.0.1:{port}", "PATH": os.environ["PATH"]},
                          capture_output=True, text=True, timeout=2 * egress.WAIT_S)


def test_curl(running, api):
    ended = curl(running.open(), "--user", "forged:forged", "http://openai.cloister.internal/v1/models")
    assert (ended.stdout, ended.stderr) == ("ok", "")
    assert api.head().startswith(b"GET /v1/models HTTP/1.1\r\n") and b"forged" not in api.head()
    ended = curl(running.cells[1].getsockname()[1], "--data", "x" * 100_000, "http://openai.cloister.internal/v1/chat")
    assert ended.stdout == "ok" and api.requests[1][1] == b"x" * 100_000


CLIENT = """
import json, os, sys, urllib.request
# What an SDK does: a base URL and a key, which is any word here; a stream of events.
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps({"stream": True}).encode(),
                                 {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    for line in answer:
        if line.startswith(b"data: "):
            print(line[6:].decode().strip())
"""


def test_python(running, api):
    chunks = [b"data: %s\n\n" % json.dumps({"n": number}).encode() for number in range(5)] + [b"data: [DONE]\n\n"]
    api.answer = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
                  b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n")
    ended = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, timeout=2 * egress.WAIT_S,
                           env={"http_proxy": f"http://127.0.0.1:{running.open()}", "OPENAI_API_KEY": "forged",
                                "OPENAI_BASE_URL": "http://openai.cloister.internal/v1"})
    assert ended.stdout.split("\n")[-2:] == ["[DONE]", ""], ended
    head, body = api.requests[0]
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n") and b"forged" not in head
    assert body == b'{"stream": true}'


# From here on cloisterd starts cloister-egress, or has it connect, and a workspace asks.

REAL = """[cloister]
{host}
audit = on
egress_resolver = {resolver}
egress_ca = {directory}/ca.pem
[tenant net]
users = {user}
managed = yes
network = egress
egress_private = 127.0.0.0/8
egress_secret = openai host=api.test:{port} header="Authorization: Bearer" file={directory}/key
environment = OPENAI_BASE_URL=http://openai.cloister.internal/v1
environment = OPENAI_API_KEY=forged
[tenant else]
users = {user}
managed = yes
network = egress
egress_private = 127.0.0.0/8
"""


@pytest.fixture(params=["user", "system"])
def real(start_daemon, area, names, authorities, api, request):
    directory = pathlib.Path(area.new_directory("real"))
    directory.chmod(0o755)
    (directory / "ca.pem").write_bytes(authorities[0].certificate.read_bytes())
    key = directory / "key"
    key.write_text(SECRET + "\n")
    values = {"resolver": names.address, "directory": directory, "port": api.port, "user": area.account.name}
    if request.param == "user":
        key.chmod(0o600)
        area.account.own(key)
        yield start_daemon(config=REAL.format(host="", **values), system=False)
        return
    if not AM_ROOT:
        pytest.skip("needs root to make users and map ids")
    user = Account("s")
    os.chown(key, 0, user.gid)
    key.chmod(0o640)
    config = REAL.replace("{host}", "mode = system\negress_socket = {directory}/egress.sock\negress_user = " + user.name)
    area.account.own(directory)  # cloisterd makes the socket there
    daemon = start_daemon(config=config.format(**values), system=True)
    with acting_as(os.getuid()):
        running = subprocess.Popen([area.bin / "cloister-egress", "system", daemon.config, directory / "egress.sock"],
                                   stdin=subprocess.DEVNULL, user=user.uid, group=user.gid, extra_groups=[])
    assert procfs.eventually(lambda: "cloister-egress has connected" in daemon.log())
    yield daemon
    running.kill()
    running.wait(egress.WAIT_S)
    user.remove()


def test_in_a_workspace(real, api):
    """A program uses the secret by a variable of the environment; nobody on this side of the host has seen it."""
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "one", "tenant": "net"})
        used = client.observe("run_command", {"command": "curl -sS --data '{}' $OPENAI_BASE_URL/chat/completions"})
        assert used["output"]["stdout"] == "ok" and "network" in used, used
        assert used["network"]["connections"] == 1 and used["network"]["denied"] == []
        assert f"Authorization: Bearer {SECRET}\r\n" in api.head().decode()
        absent = client.observe("run_command", {"command": "curl -sSf http://absent.cloister.internal/"})
        assert "network" in absent, absent
        assert [refused["reason"] for refused in absent["network"]["denied"]] == ["unknown_secret"]
        assert "absent.cloister.internal stands for no secret of this workspace; there are: " \
            "http://openai.cloister.internal/" in absent["notes"], absent
        seen = client.observe("run_command", {"command": "env; set; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; true"})
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "two", "tenant": "else"})
        other = client.observe("run_command", {"command": "curl -sSf http://openai.cloister.internal/"})
        assert "network" in other, other
        assert [refused["reason"] for refused in other["network"]["denied"]] == ["unknown_secret"]
        assert "there are: none" in " ".join(other["notes"]), other
    assert len(api.requests) == 1
    real.stop()
    state = [path.read_bytes() for path in pathlib.Path(real.state).rglob("*") if path.is_file()]
    assert b'"host":"api.test"' in b"".join(state)
    for text in (json.dumps([used, absent, seen, other]).encode(), real.log().encode(), *state):
        assert SECRET.encode() not in text
