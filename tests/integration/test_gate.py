# SPDX-License-Identifier: Apache-2.0
"""Agents on other hosts: stunnel with the configurations of packaging/gate, one process for each tenant, as its user."""

import contextlib
import os
import shutil
import socket

import pytest

import procfs
from cloister_client import Client, acting_as
from gates import HOST, Certificates, Gates
from loopback import own_address
from npm import unavailable

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")


@pytest.fixture
def gates(area, start_daemon, tenants):
    if not shutil.which("stunnel4"):
        unavailable("stunnel4 is not installed")
    with acting_as(0):
        os.chmod(area.path, 0o755)
        place = area.new_directory("gate")
        os.chmod(place, 0o755)
    blue, green, _ = tenants
    daemon = start_daemon(config="\n".join([
        "[cloister]", "agent_socket_mode = 0666", "[tenant blue]", f"users = {blue.name}", "managed = yes",
        "[tenant green]", f"users = {green.name}", "managed = yes", ""]))
    with acting_as(0):
        started = Gates(place, daemon, [blue, green])
    yield started
    started.stop()


def opened(client):
    return client.call("workspace.open", {"workspace": "w"})["tenant"]


def test_an_agent_of_another_host_is_its_tenant(gates):
    for name, user in gates.users.items():
        with acting_as(0):
            _, path = gates.agent_host(f"host-of-{name}", user, name, gates.of(name))
        with Client(path, user.uid, user.gid) as client:
            assert opened(client) == name
            content = name * 200_000  # many TLS records, both ways
            client.use("write_file", path="f", content=content)
            assert client.use("read_file", {"line_numbers": False}, path="f")["content"] == content
            calls = [client.begin("run_command", {"command": f"echo {number}"}) for number in range(20)]
            assert [client.result(call)["output"]["stdout"] for call in calls] == [f"{number}\n" for number in range(20)]
        # The socket of an agent's host is its user's alone.
        other = gates.users["green" if name == "blue" else "blue"]
        with pytest.raises(PermissionError):
            Client(path, other.uid, other.gid)


def test_only_named_certificates_reach_cloisterd(gates, tenants):
    assert b'"result"' in gates.shake_hands("blue", gates.context(gates.of("blue")))
    strange = Certificates(gates.place / "strange").make("agent-of-blue")
    signed, expired = gates.authority.make("not-named"), gates.authority.make("expired", days=-1)
    gates.agents("blue").write_text(gates.agents("blue").read_text() + expired[0].read_text())
    gates.started["blue"].reload()
    served = gates.started["blue"].log().count("connected remote server")
    for pair in gates.of("green"), strange, signed, expired, None:
        assert isinstance(gates.shake_hands("blue", gates.context(pair)), Exception), pair
    with socket.create_connection((own_address(), gates.ports["blue"]), 60) as plain:
        plain.sendall(b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\n')
        with contextlib.suppress(ConnectionResetError):
            assert b"jsonrpc" not in plain.recv(1 << 16)
    assert gates.started["blue"].log().count("connected remote server") == served
    assert b'"result"' in gates.shake_hands("blue", gates.context(gates.of("blue")))


def test_a_revoked_certificate_is_refused_from_then_on(gates):
    blue = gates.users["blue"]
    context = gates.context(gates.of("blue"))
    with socket.create_connection((own_address(), gates.ports["blue"]), 60) as raw, \
            context.wrap_socket(raw, server_hostname=HOST) as within:
        within.sendall(b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\n')
        assert b'"result"' in within.recv(1 << 16)
        # Nothing that a later connection could resume without showing the certificate.
        assert not within.session or not within.session.has_ticket
        gates.agents("blue").write_text(gates.authority.make("another", owner=blue)[0].read_text())
        gates.started["blue"].reload()
        assert isinstance(gates.shake_hands("blue", context, within.session), Exception)
        within.sendall(b'{"jsonrpc":"2.0","id":2,"method":"workspace.list"}\n')
        assert b'"result"' in within.recv(1 << 16)  # as packaging/gate/tenant.conf says


def test_an_agent_host_speaks_to_its_host_alone(gates):
    """A host with another name, or another authority's certificate, gets not a byte of a request."""
    blue, pair = gates.users["blue"], gates.of("blue")
    with acting_as(0):
        other = Certificates(gates.place / "other").certificate
    for name, replaced in ("of-another-name", {"checkHost": "other.example.org"}), ("of-another-authority", {"CAfile": other}):
        with acting_as(0):
            stunnel, path = gates.agent_host(name, blue, "blue", pair, **replaced)
        with Client(path, blue.uid, blue.gid) as client:
            with pytest.raises((ConnectionError, OSError)):
                opened(client)
        assert procfs.eventually(lambda: stunnel.says("Rejected by CERT")), stunnel.log()


@pytest.mark.deep("slow")
def test_strangers_who_say_nothing(gates):
    """They have their places for ten seconds, and whoever is connected goes on."""
    where = own_address(), gates.ports["blue"]
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(socket.create_connection(where, 60))
        agent = stack.enter_context(gates.context(gates.of("blue")).wrap_socket(raw, server_hostname=HOST))
        silent = [stack.enter_context(socket.create_connection(where, 60)) for _ in range(100)]
        for number, stranger in enumerate(silent):
            stranger.sendall(b"\x16\3\1\2\0"[:number % 6])  # nothing, or the begin of a ClientHello
        for number in range(2):
            agent.sendall(b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\n')
            assert b'"result"' in agent.recv(1 << 16)
            for stranger in silent if number == 0 else ():
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(1 << 16) == b""
    assert b'"result"' in gates.shake_hands("blue", gates.context(gates.of("blue")))


def test_what_runs_ends_with_the_agent_host(gates):
    blue = gates.users["blue"]
    with acting_as(0):
        stunnel, path = gates.agent_host("dying", blue, "blue", gates.of("blue"))
    client = Client(path, blue.uid, blue.gid)
    opened(client)
    command = f"sleep 4712.{os.getpid()}s"
    client.begin("run_command", {"command": command})
    assert procfs.eventually(lambda: procfs.having(command))
    with acting_as(0):
        stunnel.process.kill()
    assert procfs.eventually(lambda: not procfs.having(command))
    client.close()
