# SPDX-License-Identifier: Apache-2.0
"""clients/python as a program on the host uses it, by the agent socket, and as one on another host does, by https and a key."""

import asyncio
import contextlib
import io
import os
import re
import socket
import sys
import tarfile
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
        made.workspace_open(workspace=re.sub(r"\W|_", "-", request.node.name)[-60:].strip("-"))
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
            await client.workspace_open(workspace="asyncio")
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


def test_an_export_is_one_that_cloister_imports(client, service):
    made = client.run_command("mkdir -p d/$(printf '%0150d' 0) && head -c 300000 /dev/urandom >d/f && ln d/f g && ln -s d h && mkfifo pipe && echo x >é")
    assert made["exit_code"] == 0, made
    target, moved = io.BytesIO(), []
    exported = client.export(target, progress=moved.append)
    assert exported == {"entries": 6, "bytes": len(target.getvalue()), "left_out": ["./pipe"]} and moved[-1] > 300_000
    names = tarfile.open(fileobj=io.BytesIO(target.getvalue())).getnames()
    assert f"./d/{'0' * 150}" in names and "./pipe" not in names
    with acting_as(0):
        done = service.import_archive("imported", target.getvalue())
    assert done.returncode == 0, done.stderr
    client.workspace_open(workspace="imported")
    ran = client.run_command("stat -c %h g; readlink h; cat é; ls d")["stdout"]
    assert ran == f"2\nd\nx\n{'0' * 150}\nf\n"
    client.workspace_remove("imported")


def test_an_export_that_fails(client):
    client.run_command("echo x >f")
    with pytest.raises(cloister.ExportFailed, match="no tar archive|ended early"):
        broken = cloister._archive.Archive("w")
        broken.feed(b"x" * 1024)
    with pytest.raises(cloister.ExportFailed, match="early"):
        cloister._archive.Archive("w").end()
    for record in (b"9" * 1_000_000 + b" size=1\n", b"%d size=%s\n" % (1_000_016, b"9" * 1_000_000), b"0 size=1\n", b"-5 a=b\n", b"no space"):
        header = tarfile.TarInfo("pax")
        header.type, header.size = b"x", len(record)
        data = header.tobuf(tarfile.USTAR_FORMAT) + record + bytes(-len(record) % 512)
        with pytest.raises(cloister.ExportFailed, match="no tar archive"):
            cloister._archive.Archive("w").feed(data)
    with pytest.raises(cloister.WorkspaceNotFound):
        client.export(io.BytesIO(), workspace="not-open")


SERVER = """import socket
server = socket.create_server(("127.0.0.1", 4000))
print("listening", flush=True)
while True:
    with server.accept()[0] as connection:
        data = b""
        while part := connection.recv(65536):
            data += part
        connection.sendall(data[::-1])
"""


def through(forward, data):
    with socket.create_connection((forward.host, forward.port), 60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        read = b""
        while part := connection.recv(1 << 16):
            read += part
        return read


def test_forward(client, way, request):
    client.write_file("server.py", SERVER)
    with client.forward(4000) as forward:
        assert through(forward, b"nobody listens") == b"" and isinstance(forward.error, cloister.NotFound)
        session = client.session_start("python3 server.py")["session"]
        client.session_read(session, wait_ms=60_000, until=[{"contains": "listening"}])
        data = os.urandom(3 * MIB)
        assert through(forward, b"abc") == b"cba" and through(forward, data) == data[::-1]

        async def main():
            async with cloister.aio.Client(**way) as other:
                await other.workspace_open(workspace=request.node.name.replace("[", "-").replace("]", "").replace("_", "-"))
                made = await other.forward(4000)
                read = await asyncio.get_running_loop().run_in_executor(None, through, made, b"123")
                made.close()
                return read
        assert asyncio.run(main()) == b"321"
    with pytest.raises(OSError):
        socket.create_connection((forward.host, forward.port), 1)
    client.session_end(session)


def test_attach(client, way):
    session = client.session_start("seq 1 100000; read x; echo got $x; printf '\\377' >&2", stdin=True, output_bytes=1 << 20)["session"]
    attached, read = client.attach(session), b""
    for piece in attached:
        read += piece.data if piece.stream == "stdout" else b""
        if read.endswith(b"\n100000\n"):
            client.session_write(session, data="it\n")
    assert read.endswith(b"\n100000\ngot it\n") and len(read) == 588_895 + 7 and attached.lost_bytes == 0
    assert attached.end["output"]["exit_code"] == 0 and attached.next == len(read) + 1

    async def main():
        async with cloister.aio.Client(**way) as other:
            return [piece.data async for piece in other.attach(session, after=len(read))]
    assert asyncio.run(main()) == [b"\xff"]
    with pytest.raises(cloister.SessionNotFound):
        next(iter(client.attach("guessed")))


def test_attach_goes_on_over_a_lost_connection(service):
    relay = Cut(service.way("https"))
    with cloister.Client(**relay.way) as client:
        client.workspace("attach-again")
        session = client.session_start("echo one; read x; echo two", stdin=True)["session"]
        pieces = iter(client.attach(session))
        assert next(pieces).text == "one\n"
        relay.cut()
        with cloister.Client(**service.way("https")) as other:
            other.session_write(session, data="\n")
        assert [piece.text for piece in pieces] == ["two\n"]
    relay.close()


def test_it_waits_while_the_gate_is_away(area, service, tenants):
    gate = HttpGate(area, service.daemon, tenants[1])
    with cloister.Client(f"http://127.0.0.1:{gate.port}", key=gate.key("blue")["key"], reconnect=120) as client:
        client.workspace("away")
        client.write_file("f", "kept\n")
        assert gate.stop() == 0
        later = threading.Timer(0.5, gate.start)
        later.start()
        assert client.run_command("cat f")["stdout"] == "kept\n"
        later.join()
    assert gate.stop() == 0
