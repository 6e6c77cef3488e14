# SPDX-License-Identifier: Apache-2.0
"""clients/python as a program on the host uses it, by the agent socket, and as one on another host does, by https and a key."""

import asyncio
import contextlib
import io
import os
import socket
import sys
import threading

import pytest

from cloister_client import acting_as
from daemon import ROOT
from http_gate import HttpGate
from remote import Service

sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))

import cloister  # noqa: E402  (it is only now on the path)
import cloister.aio  # noqa: E402

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")
MIB = 1 << 20


@pytest.fixture(scope="module")
def service(area, tenants):
    made = Service(area, tenants)
    yield made
    made.stop()


@pytest.fixture(params=["socket", "https"])
def way(service, request):
    with acting_as(service.user.uid, service.user.gid):
        yield service.way(request.param)


@pytest.fixture
def client(way, request):
    with cloister.Client(**way) as made:
        made.workspace_open(workspace=request.node.originalname.replace("_", "-")[:60], tenant="blue")
        yield made


def test_calls_streams_and_files(client):
    assert client.run_command("echo out; echo error >&2; exit 3")["exit_code"] == 3
    call = client.start_call("run_command", {"command": "echo one; read x; echo $x"}, options={"stdin_stream": True})
    pieces = iter(call)
    assert next(pieces).text == "one\n"
    call.input("two\n", eof=True)
    assert [piece.text for piece in pieces] == ["two\n"] and call.wait()["success"]
    data = os.urandom(3 * MIB + 7)
    assert client.upload(io.BytesIO(data), "f")["bytes"] == len(data)
    target = io.BytesIO()
    assert client.download("f", target)["bytes"] == len(data) and target.getvalue() == data
    text = "line\n" * 120_000
    client.write_file("text", text)
    assert len(client.run_command("cat text")["stdout"]) > 200_000


def test_asyncio_too(way):
    async def main():
        async with cloister.aio.Client(**way) as client:
            await client.workspace_open(workspace="asyncio", tenant="blue")
            many = await asyncio.gather(*(client.run_command(f"echo {turn}") for turn in range(8)))
            assert [one["stdout"] for one in many] == [f"{turn}\n" for turn in range(8)]
            data = os.urandom(2 * MIB)
            await client.upload(io.BytesIO(data), "f")
            target = io.BytesIO()
            await client.download("f", target)
            assert target.getvalue() == data
            task = asyncio.ensure_future(client.run_command("touch begun; sleep 600", timeout_ms=900_000))
            while not (await client.list_directory(".", recursive=True))["count"] > 1:
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.run_command("echo on"))["stdout"] == "on\n"
    asyncio.run(main())


class Cut:
    """A relay whose connections the test ends: between a client and the service's socket, or the gate."""

    def __init__(self, way, host="localhost"):
        self.url = way["path"].startswith("https://")
        self.target = ("127.0.0.1", int(way["path"].rsplit(":", 1)[1])) if self.url else way["path"]
        self.listener = socket.create_server((host, 0))
        self.open = []
        threading.Thread(target=self.serve, daemon=True).start()
        self.way = {**way, "path": f"https://{host}:{self.listener.getsockname()[1]}"}

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, far = self.listener.accept()[0], socket.create_connection(self.target)
                self.open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    @staticmethod
    def copy(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def cut(self):
        for made in self.open:
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.cut()
        self.listener.close()


def test_it_connects_again_through_the_gate(service):
    """A call in flight is repeated with its key and runs once; the workspace is open again."""
    relay = Cut(service.way("https"))
    with cloister.Client(**relay.way) as client:
        client.workspace("again")
        done = []
        caller = threading.Thread(target=lambda: done.append(client.run_command("echo run >>log; until [ -e go ]; do sleep 0.05; done")))
        caller.start()
        with cloister.Client(**service.way("https")) as other:
            other.workspace("again")
            while "log" not in str(other.list_directory(".")):
                pass
            relay.cut()
            other.write_file("go", "")
        caller.join(60)
        assert done and client.read_file("log", options={"line_numbers": False})["content"] == "run\n"
        relay.cut()
        assert client.run_command("cat log")["stdout"] == "run\n"
    relay.close()


def refused(kind, match, **keywords):
    with pytest.raises(kind, match=match) as raised, cloister.Client(reconnect=None, **keywords) as client:
        client.tools_list()
    with pytest.raises(kind, match=match):
        asyncio.run(refused_too(keywords))
    return raised.value


async def refused_too(keywords):
    async with cloister.aio.Client(**keywords) as client:
        await client.tools_list()


def test_a_certificate_that_is_not_believed(service):
    way = service.way("https")
    error = refused(cloister.CertificateError, "self.signed certificate", path=way["path"], key=way["key"], wait=60)
    assert isinstance(error, cloister.ServiceNotFound) and way["key"] not in str(error)
    relay = Cut(way, "127.0.0.2")  # which the certificate does not name
    refused(cloister.CertificateError, "mismatch", **relay.way)
    relay.close()


def test_a_key_that_is_refused(service, area):
    way = service.way("https")
    for key in ("e2b_" + "0" * 40, service.gate.key("closed")["key"]):
        error = refused(cloister.KeyRefused, "refuses the key", **{**way, "key": key}, wait=60)
        assert isinstance(error, cloister.CloisterError) and key not in str(error)
    revoked = service.gate.key("blue", "--name", "revoked")["key"]
    with cloister.Client(**{**way, "key": revoked}) as client:
        client.workspace("revoked")
        service.gate.ctl("key", "revoke", "revoked")
        with pytest.raises((cloister.ConnectionLost, cloister.KeyRefused)):
            client.run_command("sleep 60")
        with pytest.raises(cloister.KeyRefused):
            client.tools_list()


def test_the_key_s_own_environment(service, monkeypatch):
    way = service.way("https")
    monkeypatch.setenv("CLOISTER_SOCKET", way["path"])
    monkeypatch.delenv("CLOISTER_KEY", raising=False)
    refused(cloister.BadRequest, "CLOISTER_KEY", ca_file=way["ca_file"])
    monkeypatch.setenv("CLOISTER_KEY", way["key"])
    with cloister.Client(ca_file=way["ca_file"]) as client:
        assert client.tools_list()["tools"]


def test_urls_that_are_none(service):
    for url, match in (("http://example.com", "https://example.com"), ("https://", "HOST"), ("https://a/b", "HOST"),
                       ("https://u:p@a", "HOST"), ("https://a?b", "HOST"), ("https://a:x", "no URL"), ("http://10.0.0.1", "show the key")):
        refused(cloister.BadRequest, match, path=url, key="k")
    refused(cloister.BadRequest, "no key has", path="https://localhost", key="a\r\nb: c")
    refused(cloister.BadRequest, "certificates", path=service.url, key="k", ca_file="/dev/null")
    refused(cloister.ServiceNotFound, "without an answer", path=service.url.replace("https", "http"), key="k")


def test_http_on_this_host(area, service, tenants):
    gate = HttpGate(area, service.daemon, tenants[1])
    try:
        with cloister.Client(f"http://127.0.0.1:{gate.port}", key=gate.key("blue")["key"]) as client:
            client.workspace("plain")
            assert client.run_command("echo plain")["stdout"] == "plain\n"
    finally:
        assert gate.stop() == 0


ANSWERS = {
    "no HTTP": (b"220 mail\r\n\r\n", cloister.ProtocolError),
    "long": (b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 9000, cloister.ProtocolError),
    "web server": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", cloister.ServiceNotFound),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: http://x\r\nContent-Length: 0\r\n\r\n", cloister.ServiceNotFound),
    "busy": (b'HTTP/1.1 503 x\r\nRetry-After: 3\r\nContent-Length: 16\r\n\r\n{"message":"no"}', cloister.Busy),
    "wrong length": (b"HTTP/1.1 401 x\r\nContent-Length: 99999999999\r\n\r\nx", cloister.KeyRefused),
    "nothing": (b"", cloister.ServiceNotFound),
}


@pytest.mark.parametrize("said", ANSWERS)
def test_servers_that_are_no_gate(said):
    text, kind = ANSWERS[said]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            for _ in range(2):
                with listener.accept()[0] as connection:
                    connection.recv(1 << 16)
                    with contextlib.suppress(OSError):
                        connection.sendall(text)
        server = threading.Thread(target=serve)
        server.start()
        error = refused(kind, ".", path=f"http://127.0.0.1:{listener.getsockname()[1]}", key="k")
        assert said != "busy" or error.retry_after_ms == 3000
        server.join()
