# SPDX-License-Identifier: Apache-2.0
"""cloister-egress with secrets, and the host that they are for."""

import os
import pathlib
import socket

import authority
import egress
import pytest


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


POST = b"POST http://openai.cloister.internal/ HTTP/1.1\r\n"
