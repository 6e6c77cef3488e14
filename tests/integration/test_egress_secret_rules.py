# SPDX-License-Identifier: Apache-2.0
"""egress_secret: what is refused, hosts that are not what they should be, limits, reloads and mistakes in a configuration."""

import contextlib
import os
import ssl
import subprocess
import threading

import authority
import egress
import pytest
from secret_host import CONFIG, POST, SECRET, Api, api, ask, authorities, get, names, running, start


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
    (("-tls1_2",), None), (("-num_tickets", "20"), None), (("-num_tickets", "200"), ENDLESS), (("-tls1_2", "-cipher", "DHE"), "TLS: "),
    (("-groups", "ffdhe8192"), "TLS: ")])
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
