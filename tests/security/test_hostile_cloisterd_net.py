# SPDX-License-Identifier: Apache-2.0
"""A cloisterd that was taken over asks for sockets of tenants' cells. Each is given to its tenant's cells alone."""

import fcntl
import os
import socket

import pytest

import procfs
from hostile_cloisterd import REFUSED, UNLIMITED, begin, place, spawner

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and map ids")

PORT = 18129


def namespace_of(each):
    """The inode of a socket's network namespace: ioctl(2) SIOCGSKNS."""
    fd = fcntl.ioctl(each, 0x894c)
    try:
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def is_diag(fd):
    with socket.socket(fileno=os.dup(fd)) as each:
        return (each.family, each.proto) == (socket.AF_NETLINK, 4)  # NETLINK_SOCK_DIAG


def check_sockets(fds, path, worker):
    """The descriptors are the sockets of the workspace's own namespace and id, and nothing more."""
    own = os.stat(f"/proc/{worker}/ns/net").st_ino
    *fds, ports = fds
    assert is_diag(ports)
    os.close(ports)
    names = [("0.0.0.0", PORT), ("127.0.0.1", 53), ("127.1.0.1", 80), ("127.1.0.1", 443), ("127.0.0.1", 53)]
    assert len(fds) == len(names)
    for i, (fd, name) in enumerate(zip(fds, names)):
        with socket.socket(fileno=fd) as each:
            assert each.type == (socket.SOCK_DGRAM if i == 1 else socket.SOCK_STREAM)
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == (0 if i == 1 else 1)
            assert each.getsockname() == name
            assert os.fstat(fd).st_uid == os.stat(path).st_uid
            assert namespace_of(each) == own != os.stat("/proc/self/ns/net").st_ino


@pytest.fixture
def network_spawner(place, begin):
    """A spawner for whose tenant a there is a network."""
    place.config.write_text(place.config.read_text().replace("[tenant a]\n", "[tenant a]\nnetwork = egress\n"))
    return begin().come_up()


def test_sockets_are_for_tenants_with_a_network(place, network_spawner):
    spawner = network_spawner
    of_a, of_b = place.owned(place.roots["a"] / "one"), place.owned(place.roots["b"] / "one")
    for tenant in (b"b", b"", b"none"):
        reason = spawner.refuses(of_b, tenant=tenant, proxy_port=PORT, **UNLIMITED)
        assert "no network" in reason or "no tenant" in reason
    spawner.opens(of_b, tenant=b"b", **UNLIMITED)
    assert len(spawner.pidfds) == 3 and is_diag(spawner.pidfds[2])
    worker = spawner.opens(of_a, tenant=b"a", proxy_port=PORT, **UNLIMITED)
    check_sockets(spawner.pidfds[2:], of_a, worker)


def test_the_sockets_of_a_spare_cell(place, network_spawner):
    """It goes with its kind of tenant only, and comes up with the assignment."""
    spawner = network_spawner
    of_a, of_b = place.owned(place.roots["a"] / "one"), place.owned(place.roots["b"] / "one")
    assert spawner.prepare(tenant=b"b", proxy_port=PORT)[0] == REFUSED
    spawner.fds = []
    for path, tenant, made, wanted in ((of_b, b"b", PORT, 0), (of_a, b"a", 0, PORT), (of_b, b"b", PORT, PORT)):
        assert spawner.prepare(tenant=b"a", proxy_port=made) == "opened"
        error, reason = spawner.assign(path, spawner.pidfds[0], tenant=tenant, proxy_port=wanted)
        assert error == REFUSED and "network" in reason
    assert spawner.prepare(tenant=b"a", proxy_port=PORT) == "opened"
    assert len(spawner.pidfds) == 2
    assert spawner.assign(of_a, spawner.pidfds[0], tenant=b"a", proxy_port=PORT) == "assigned"
    check_sockets(spawner.sockets, of_a, procfs.pid_of(spawner.pidfds[0]))


def test_the_self_test_has_no_network_of_its_own(spawner, request):
    assert spawner.prepare(tenant=b".selftest-egress", proxy_port=PORT)[0] == REFUSED
    with_network = request.getfixturevalue("network_spawner")
    assert with_network.prepare(tenant=b".selftest", proxy_port=PORT)[0] == REFUSED
    assert with_network.prepare(tenant=b".selftest-egress", proxy_port=PORT) == "opened"
