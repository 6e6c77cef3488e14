# SPDX-License-Identifier: Apache-2.0
"""JSON Web Tokens that cloister-gate takes in the place of a key, and the metadata that says where clients get them."""

import base64
import json
import os
import re
import signal
import subprocess
import time

import procfs
import pytest
from cloister_client import acting_as
from http_gate import HttpGate, call, config, daemon_behind
from http_mcp import LEGACY, HttpMcp, message, run

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")

ISSUER, AUDIENCE = "https://as.example.org", "https://gate.example.org/mcp"


def encode(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


class Issuer:
    """An authorization server, with one RSA key."""

    def __init__(self, place, kid):
        self.kid, self.key = kid, place / f"{kid}.pem"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)

    @staticmethod
    def after(seconds):
        """A time as tokens have it."""
        return int(time.time()) + seconds

    def jwk(self):
        printed = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
        return {"kty": "RSA", "kid": self.kid, "use": "sig", "alg": "RS256", "e": "AQAB", "n": encode(bytes.fromhex(printed.strip().split("=")[1]))}

    def token(self, **claims):
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "somebody", "tenant": "blue", "exp": Issuer.after(600), **claims}
        text = f"{encode({'alg': 'RS256', 'kid': self.kid, 'typ': 'at+jwt'})}.{encode(said)}"
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{encode(signature)}"


@pytest.fixture(scope="module")
def module_daemon(area, tenants):
    with daemon_behind(area, config(tenants[1], tenants[0])) as running:
        yield running


@pytest.fixture(scope="module")
def place(area):
    with acting_as(0):
        made = area.new_directory("issuer")
        made.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def issuer(place):
    with acting_as(0):
        return Issuer(place, "first")


def write_keys(place, *issuers):
    with acting_as(0):
        (place / "new").write_text(json.dumps({"keys": [one.jwk() for one in issuers]}))
        (place / "new").chmod(0o644)
        (place / "new").rename(place / "jwks.json")


@pytest.fixture(scope="module")
def gate(area, module_daemon, tenants, place, issuer):
    write_keys(place, issuer)
    running = HttpGate(area, module_daemon, tenants[1], f"jwt_keys = {place}/jwks.json", f"jwt_issuer = {ISSUER}",
                       f"jwt_audience = {AUDIENCE}", "failed_keys = 1000")
    yield running
    assert running.stop() == 0


def hang_up(gate):
    before = gate.log()
    with acting_as(0):
        gate.process.send_signal(signal.SIGHUP)
    assert procfs.eventually(lambda: "jwks.json" in gate.log()[len(before):])
    return gate.log()[len(before):]


def initialize():
    return message("initialize", 1, protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "tests", "version": "1"})


def test_a_token_is_of_its_tenant(gate, issuer):
    client = HttpMcp(gate, issuer.token())
    client.initialize()
    assert not client.result(run(1, "echo by a token > token"))["isError"]
    key = gate.key("blue", "--name", "same")["key"]
    assert "by a token" in json.dumps(HttpMcpOf(gate, key).result(run(1, "cat token")))
    assert HttpMcp(gate, issuer.token(tenant="closed")).ask(initialize()).status == 403
    assert HttpMcp(gate, issuer.token(tenant="nobody")).ask(initialize()).status == 403
    with gate.agent(issuer.token()) as connection:
        assert call(connection, "workspace.list")["workspaces"]
    client.ask(None, method="DELETE")


def HttpMcpOf(gate, key):
    client = HttpMcp(gate, key)
    client.initialize()
    return client


def test_a_session_is_a_subjects(gate, issuer):
    """The next token of the same subject goes on with it; another subject's has no such session."""
    client = HttpMcpOf(gate, issuer.token())
    client.key = issuer.token(exp=issuer.after(700))
    assert not client.result(run(1, "true"))["isError"]
    for other in ({"sub": "another"}, {"tenant": "green"}):
        client.key = issuer.token(**other)
        assert client.ask(message("tools/list", 2)).status == 404
    client.key = issuer.token()
    assert client.ask(None, method="DELETE").status == 204


def unsigned(**head):
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "somebody", "tenant": "blue", "exp": Issuer.after(600)}
    return f"{encode(head)}.{encode(claims)}."


@pytest.mark.parametrize("make", [
    lambda issuer: issuer.token(exp=issuer.after(0)), lambda issuer: issuer.token(aud="https://other.example.org/mcp"),
    lambda issuer: issuer.token(iss="https://evil.example.org"), lambda issuer: issuer.token(tenant="../closed"),
    lambda issuer: issuer.token(sub=None), lambda issuer: unsigned(alg="none") + "AA", lambda issuer: unsigned(alg="HS256", kid="first") + "AA",
    lambda issuer: issuer.token()[:-1], lambda issuer: issuer.token() + ".", lambda issuer: "e2b_" + "0" * 40, lambda issuer: "a.b.c",
    lambda issuer: "x" * 9000])
def test_tokens_that_are_none(gate, issuer, make):
    answer = HttpMcp(gate, make(issuer)).ask(initialize())
    assert answer.status == 401, answer.head
    assert answer.headers["www-authenticate"] == \
        f'Bearer error="invalid_token", resource_metadata="http://127.0.0.1:{gate.port}/.well-known/oauth-protected-resource/mcp"'


def test_a_client_learns_where_tokens_are(gate):
    answer = HttpMcp(gate, None).ask(initialize())
    url = re.fullmatch(r'Bearer resource_metadata="http://127\.0\.0\.1:\d+(/\S+)"', answer.headers["www-authenticate"])[1]
    for path in (url, "/.well-known/oauth-protected-resource"):
        assert gate.request("GET", path).json() == {
            "resource": AUDIENCE, "authorization_servers": [ISSUER], "bearer_methods_supported": ["header"]}


def test_tokens_are_for_mcp_and_the_protocol_alone(gate, issuer):
    """E2B's clients derive tokens of sandboxes from their key, so that there is nothing that a token could do."""
    answer = gate.request("GET", "/sandboxes", issuer.token())
    assert answer.status == 401 and "resource_metadata" not in answer.headers["www-authenticate"]
    assert gate.request("POST", "/mcp", None, [f"X-API-Key: {issuer.token()}"], json.dumps(initialize()).encode()).status == 401


@pytest.mark.deep("slow")
def test_an_expired_token_ends_what_is_open(gate, issuer):
    soon = issuer.token(exp=issuer.after(3))
    connection = gate.agent(soon)
    client = HttpMcpOf(gate, soon)
    stream = client.open(None, "GET").begin()
    assert connection.is_closed()
    while stream.connection.more():
        pass
    assert client.ask(message("tools/list", 2)).status == 401
    client.key = issuer.token()  # the client goes on with another token
    assert not client.result(run(3, "true"))["isError"]
    client.ask(None, method="DELETE")


def test_keys_that_are_replaced(gate, place, issuer):
    with acting_as(0):
        second = Issuer(place, "second")
    connection = gate.agent(issuer.token())
    assert HttpMcp(gate, second.token()).ask(initialize()).status == 401
    write_keys(place, issuer, second)
    assert "are verified" in hang_up(gate)
    client = HttpMcpOf(gate, second.token())
    write_keys(place, second)
    hang_up(gate)
    assert connection.is_closed()  # its signer is gone
    assert HttpMcp(gate, issuer.token()).ask(initialize()).status == 401
    with acting_as(0):
        (place / "jwks.json").write_text("{}")
    assert "stay" in hang_up(gate)
    assert not client.result(run(1, "true"))["isError"]
    write_keys(place, issuer)
    hang_up(gate)
    client.ask(None, method="DELETE")


def test_no_token_is_in_the_log(gate, issuer):
    token = issuer.token()
    assert HttpMcp(gate, token[:-2] + "AA").ask(initialize()).status == 401
    assert token.split(".")[1] not in gate.log() and token.split(".")[2][:20] not in gate.log()


@pytest.mark.parametrize("content, said", [("{}", "keys"), ('{"keys":[{"kty":"oct","k":"AAAA"}]}', "secret")])
def test_keys_that_are_none_at_the_start(gate, area, place, tenants, content, said):
    with acting_as(0):
        other = area.new_directory("other-gate")
        other.chmod(0o755)
        (other / "jwks").write_text(content)
        tenants[1].own(other)
        (other / "gate.conf").write_text(f"[gate]\nlisten = {other}/sock\njwt_keys = {other}/jwks\njwt_issuer = a\njwt_audience = b\n"
                                         f"keys = {other}/keys\n")
        tenants[1].own(other / "gate.conf")
        done = subprocess.run([*tenants[1].become(), gate.program, "--config", other / "gate.conf"], capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stderr
