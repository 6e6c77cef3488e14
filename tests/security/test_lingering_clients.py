# SPDX-License-Identifier: Apache-2.0
"""Clients send cloisterd lingering sockets, on kernels that cannot refuse descriptors (before Linux 6.16): to close such a
socket may take as long as its sender likes."""

import contextlib
import os
import resource
import signal
import socket
import struct

import procfs
import pytest
from cloister_client import acting_as

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as other users")

LIMIT = 256


def lingering(listener):
    """Returns both ends of a connection. To close the first one waits for the second, for an hour."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)  # more than the other end has room for
    one.connect(listener.getsockname())
    other, _ = listener.accept()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(65536))
    except BlockingIOError:
        return one, other


@pytest.fixture(name="daemon")
def daemon_fixture(start_daemon, account):
    return start_daemon(
        config=f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {account.name}\n"
               f"[tenant t]\nusers = {account.name}\nmanaged = yes\n",
        without="passrights", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT)))


def tell(daemon, number):
    with acting_as(os.getuid()):
        os.kill(daemon.pid, number)


def send_lingering(daemon, user, listener, n, nested=False):
    """Each in a connection of the user's own, which is closed. cloisterd is stopped meanwhile, so that it has the last
    descriptors. Returns the other ends, for as long as the sockets are to linger."""
    others = []
    tell(daemon, signal.SIGSTOP)
    for _ in range(n):
        one, other = lingering(listener)
        others.append(other)
        sent = [one]
        if nested:  # what holds it is closed first, and then it
            near, far = socket.socketpair()
            socket.send_fds(near, [b"x"], [one.fileno()])
            sent = [far]
        with acting_as(user.uid), socket.socket(socket.AF_UNIX) as client:
            with contextlib.suppress(ConnectionError):  # one is refused where cloisterd has no descriptors left
                client.connect(str(daemon.socket))
                socket.send_fds(client, [b"{"], [each.fileno() for each in sent])
            for each in {one, *sent}:
                each.close()
    tell(daemon, signal.SIGCONT)
    return others


def is_served(daemon):
    try:
        with daemon.connect() as client:
            return client.call("ping") == {}
    except ConnectionError:
        return False


@pytest.mark.parametrize("nested", [False, True], ids=["sent", "nested"])
@pytest.mark.parametrize("who", ["stranger", "tenant"])
def test_nobody_keeps_cloisterd_from_closing(daemon, account, tenants, who, nested):
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "w"})
        client.run("true")
        before = daemon.settled_fds()
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            others = send_lingering(daemon, tenants[0] if who == "stranger" else account, listener, LIMIT, nested)
        assert client.run("echo served")["stdout"] == "served\n"
        # As soon as threads have closed some: before, cloisterd has no descriptor for another connection.
        assert procfs.eventually(lambda: is_served(daemon))
        assert procfs.eventually(lambda: len(procfs.fds(daemon.pid)) <= before)
        # Nothing waits for what lingers.
        assert procfs.eventually(lambda: len(os.listdir(f"/proc/{daemon.pid}/task")) < 16)
        for other in others:
            other.close()


def test_a_connection_with_descriptors_ends(daemon):
    """What came before them is answered."""
    client = daemon.connect()
    client.call("ping")
    with open("/dev/null", "rb") as null:
        socket.send_fds(client.socket, [b"x"], [null.fileno()])
    with contextlib.suppress(ConnectionResetError):
        assert client.receive() is None
    with daemon.connect() as other:
        other.call("ping")
