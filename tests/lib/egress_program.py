# SPDX-License-Identifier: Apache-2.0
"""What the suites of cloister-egress as a program share: its configuration, names, hosts and cells."""

import contextlib
import fcntl
import os
import socket
import struct
import tempfile
import termios

import egress
import pytest
from forbidden_hosts import ADDRESSES, RULES

CONFIG = """[cloister]
egress_resolver = {resolver}

[tenant dev]
network = egress
{rules}
{more}

[tenant closed]
network = egress

[tenant none]
""".replace("{rules}", RULES)


@pytest.fixture(scope="module")
def names():
    server = egress.Names(dict(ADDRESSES))
    yield server
    server.close()


@pytest.fixture
def start(area, account, names):
    started = []

    def start(more="", config=CONFIG, **keywords):
        directory = area.new_directory("egress")
        os.chmod(directory, 0o755)
        config = config and config.format(resolver=names.address, more=more)
        started.append(egress.Egress(directory, config, user=account.uid, **keywords))
        return started[-1]

    yield start
    for running in started:
        assert running.stop() == 0, running.logged()


@pytest.fixture
def running(start):
    return start().ready()


@pytest.fixture
def host():
    with contextlib.ExitStack() as stack:
        def make(serve=egress.echo, **keywords):
            made = egress.Host(serve, **keywords)
            stack.callback(made.close)
            return made
        yield make


def check_echo(connection):
    connection.sendall(b"there and back")
    assert connection.recv(100) == b"there and back"


def answer_http(seen):
    def serve(connection):
        seen.append(egress.read_head(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            seen.append(egress.read_all(connection))
    return serve


ALERT = bytes([21, 3, 3, 0, 2, 2, 49])  # access_denied


@pytest.fixture(scope="module")
def shared(area, account, names):
    directory = area.new_directory("egress")
    os.chmod(directory, 0o755)
    running = egress.Egress(directory, CONFIG.format(resolver=names.address, more=""), user=account.uid).ready()
    running.inside = running.open_all(cell=2)
    yield running, running.open()
    assert running.stop() == 0, running.logged()


@pytest.fixture
def at_443():
    """One test at a time can listen there, and the files that do may run side by side."""
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.closing(egress.Host(egress.echo, address="127.0.0.1", port=443)) as made:
            yield made


@pytest.fixture
def transparent(running):
    """A cell with all its sockets: the ports that stand for 53, 80 and 443."""
    return running.open_all()[1:]


def unread(connection):
    return struct.unpack("=i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))[0]


def ask_for_page(port, head):
    with egress.client(port) as connection:
        connection.sendall(head)
        return egress.read_all(connection)


@pytest.fixture
def roots_directory():
    """A directory of root's, as system mode asks for."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield path
