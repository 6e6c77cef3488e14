# SPDX-License-Identifier: Apache-2.0
"""Attacks on the network namespace that a tenant's cells share (network_namespace = shared): by a command, and by a worker
that was taken over."""

import ctypes
import errno
import fcntl
import os
import socket
import struct

import pytest

import procfs
from cloister_client import acting_as
from namespaces import in_namespaces, libc
from sharing import namespace_of, opened, starter

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to enter namespaces")

CLONE_NEWNET, NS_GET_USERNS, SIOCGSKNS = 0x40000000, 0xb701, 0x894c
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFMTU = 0x8914, 0x8916, 0x8922
IFF_UP = 1


@pytest.fixture(params=["user", "system"])
def begin(start_daemon, area, request):
    return starter(start_daemon, area, request.param)


PROGRAM = r"""
import errno, fcntl, os, socket, struct
def attempt(name, function, *arguments):
    try:
        said = function(*arguments)
        print(name, said if isinstance(said, str) else "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
def interface(request, *words):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        fcntl.ioctl(made, request, struct.pack("16sh14x", b"lo", *words))
def namespace_of_a_socket():
    with socket.socket(socket.AF_UNIX) as made:
        fcntl.ioctl(made, 0x894c)
def bind(port):
    with socket.socket() as made:
        made.bind(("127.0.0.1", port))
def option(level, name, value):
    with socket.socket() as made:
        made.setsockopt(level, name, value)
def writable():
    found = []
    for top, _, names in os.walk("/proc/sys/net"):
        for name in names:
            try:
                os.close(os.open(os.path.join(top, name), os.O_WRONLY))
                found.append(name)
            except OSError:
                pass
    return ",".join(found) or "none"
attempt("lower", interface, 0x8914, 0)
attempt("raise", interface, 0x8914, 1)
attempt("address", interface, 0x8916, 2)
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0x300)
attempt("netlink", socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)
attempt("netfilter", socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 12)
attempt("namespace", namespace_of_a_socket)
attempt("port", bind, 80)
attempt("mark", option, socket.SOL_SOCKET, 36, 1)
attempt("transparent", option, socket.SOL_IP, 19, 1)
attempt("repair", option, socket.SOL_TCP, 19, 1)
attempt("sysctl", writable)
"""


def refused(client):
    return dict(line.split() for line in client.run("/usr/bin/python3 -", {"stdin": PROGRAM})["stdout"].splitlines())


def test_a_command_changes_nothing(begin):
    """It is refused what it is refused in a namespace of its own, and for the same reasons."""
    service = begin()
    shared, own = (opened(service, tenant, "w")[0] for tenant in "ac")
    seen = refused(shared)
    assert seen == refused(own)
    assert seen.pop("port") == "EACCES" and seen.pop("sysctl") == "none"
    assert set(seen.values()) == {"EPERM"}, seen
    assert shared.run("/usr/bin/python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 4000))'")["exit_code"] == 0


SERVE = """
import socket, time
a = socket.socket(socket.AF_UNIX)
a.bind("\\0{name}")
a.listen()
b = socket.create_server(("127.0.0.1", {port}))
open("up", "w")
time.sleep(600)
"""
ASK = """
import errno, socket
for family, address in ((socket.AF_UNIX, "\\0{name}"), (socket.AF_INET, ("127.0.0.1", {port}))):
    with socket.socket(family) as made:
        made.settimeout(5)
        try:
            made.connect(address)
            print("connected")
        except OSError as error:
            print(errno.errorcode[error.errno])
"""


def test_what_a_command_reaches(begin):
    """What the tenant's other workspaces offer at ports, by which it pays for the key; nothing of another tenant or the
    host. From Linux 6.12 on Landlock refuses abstract sockets of other commands, whatever namespace they are in."""
    service = begin()
    name, port = f"cloister-{os.getpid()}", 40998
    server, same, other, alone = (opened(service, tenant, workspace)[0] for tenant, workspace in (
        ("a", "v"), ("a", "w"), ("b", "w"), ("c", "w")))
    server.begin("run_command", {"command": "/usr/bin/python3 -"}, {"stdin": SERVE.format(name=name, port=port)})
    assert procfs.eventually(lambda: server.run("ls up")["exit_code"] == 0)
    said = {key: client.run("/usr/bin/python3 -", {"stdin": ASK.format(name=name, port=port)})["stdout"].split()
            for key, client in (("same", same), ("other", other), ("alone", alone))}
    abi = libc.syscall(444, None, 0, 1)
    assert said == {"same": ["EPERM" if abi >= 6 else "connected", "connected"],
                    "other": ["ECONNREFUSED"] * 2, "alone": ["ECONNREFUSED"] * 2}
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as host:
        abstract.bind(f"\0{name}-host")
        abstract.listen()
        ask = ASK.format(name=f"{name}-host", port=host.getsockname()[1])
        assert same.run("/usr/bin/python3 -", {"stdin": ask})["stdout"].split() == ["ECONNREFUSED"] * 2


def in_cell(pid, act):
    """Returns what @act returns in the worker's network, user and mount namespaces, as its user and with all capabilities
    there."""
    def as_its_user(_):
        assert libc.setresgid(1000, 1000, 1000) == 0 and libc.setresuid(1000, 1000, 1000) == 0
        return act(network)

    with acting_as(os.getuid()):
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        return in_namespaces(pid, as_its_user, ("net", "user", "mnt"))
    finally:
        os.close(network)


def attempt(function, *arguments):
    try:
        function(*arguments)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def interface(request, words):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        fcntl.ioctl(made, request, struct.pack("16s16s", b"lo", words))


def told(protocol, kind, flags, payload):
    """Sends a netlink message that is to be acknowledged."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as made:
        made.settimeout(60)
        made.send(struct.pack("=IHHII", 16 + len(payload), kind, flags | 1 | 4, 1, 0) + payload)
        error, = struct.unpack_from("=i", made.recv(4096), 16)
        if error:
            raise OSError(-error, "netlink")


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def add_address():
    told(0, 20, 0x400, struct.pack("=BBBBI", socket.AF_INET, 24, 0, 0, 1) + attribute(2, bytes([10, 9, 8, 7])) +
         attribute(1, bytes([10, 9, 8, 7])))


def add_link():
    told(0, 16, 0x600, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"d0\0") + attribute(18, attribute(1, b"dummy\0")))


def add_route():
    told(0, 24, 0x400, struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 3, 253, 1, 0) + attribute(4, struct.pack("=I", 1)))


def add_table():
    """nftables: a batch that makes a table; the refusal comes before anything is looked at."""
    def message(kind, family, payload=b"", subsystem=0):
        return struct.pack("=IHHIIBBH", 20 + len(payload), kind, 5, 1, 0, family, 0, socket.htons(subsystem)) + payload
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as made:
        made.settimeout(60)
        made.send(message(16, 0, subsystem=10) + message(10 << 8, 2, attribute(1, b"t\0")) + message(17, 0, subsystem=10))
        error, = struct.unpack_from("=i", made.recv(4096), 16)
        if error:
            raise OSError(-error, "nftables")


def namespace_of_a_socket():
    with socket.socket(socket.AF_UNIX) as made:
        fcntl.ioctl(made, SIOCGSKNS)


def bind(port):
    with socket.socket() as made:
        made.bind(("127.0.0.1", port))


def write_sysctl():
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as file:
        file.write("0")


def mount_sysfs():
    call("mount", b"sysfs", b"/tmp", b"sysfs", 0, None)


ATTACKS = {
    "lower lo": lambda: interface(SIOCSIFFLAGS, struct.pack("=h", 0)),
    "raise lo": lambda: interface(SIOCSIFFLAGS, struct.pack("=h", IFF_UP)),
    "mtu": lambda: interface(SIOCSIFMTU, struct.pack("=i", 1280)),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300),
    "address": add_address,
    "link": add_link,
    "route": add_route,
    "socket": namespace_of_a_socket,
    "port": lambda: bind(80),
    "sysfs": mount_sysfs,
    "table": add_table,
}


def attacked(namespace):
    """@namespace is a descriptor of it, as the worker can open one."""
    said = {name: attempt(attack) for name, attack in ATTACKS.items()}
    said["owner"] = attempt(fcntl.ioctl, namespace, NS_GET_USERNS)
    said["enter"] = attempt(call, "setns", namespace, CLONE_NEWNET)
    return said | {"sysctl": attempt(write_sysctl), "unshare": attempt(call, "unshare", CLONE_NEWNET)}


def worker_of(service, client):
    """The worker whose namespaces the client's commands are in, for a tenant with one cell."""
    namespace = namespace_of(client)
    with acting_as(os.getuid()):
        return next(worker for worker, _ in service.cells() if procfs.namespace(worker, "net") == namespace)


def test_a_worker_that_was_taken_over_changes_nothing(begin):
    """It may get all capabilities over its own user namespace; the network namespace is not that one's. Its filter would
    refuse most of this already, and is not in force here."""
    service = begin()
    first, second, alone = (opened(service, tenant, name)[0] for tenant, name in (("a", "v"), ("a", "w"), ("c", "w")))
    said = in_cell(worker_of(service, first), attacked)
    assert isinstance(said, dict), said
    assert said.pop("port") == "EACCES" and said.pop("sysctl") in ("EACCES", "EPERM", "EROFS")
    # None of its own either: the limit of its user namespace is 0.
    assert said.pop("unshare") == "ENOSPC"
    assert {name: word for name, word in said.items() if word != "EPERM"} == {}
    # The attacks are such: in a namespace that is its own they change something.
    could = in_cell(worker_of(service, alone), attacked)
    assert isinstance(could, dict), could
    assert {name for name, word in could.items() if word == "done"} >= {
        "lower lo", "raise lo", "mtu", "raw", "packet", "address", "enter", "owner", "socket", "port", "sysctl"}, could
    # And it works for all that are in it.
    assert second.run("/usr/bin/python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 4000)); "
                      "socket.create_connection((\"127.0.0.1\", 4000))'")["exit_code"] == 0
