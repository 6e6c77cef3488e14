# SPDX-License-Identifier: Apache-2.0
"""A cloisterd whose cloister-egress is the test, which sees each message and decides what is answered."""



import egress
import pytest
from daemon import AM_ROOT
from scripted_egress import ScriptedEgress

CONFIG = """[cloister]
{mode}
egress_socket = {path}/egress{number}.sock
egress_user = {user}
admin_group = {user}
spare_cells = {spares}
[tenant net]
users = {user}
managed = yes
roots = {path}
network = egress
egress_allow = open.test *.sub.test:8443
{more}
[tenant plain]
users = {user}
managed = yes
roots = {path}
"""


class Place:
    """A cloisterd whose cloister-egress is the test."""
    number = 0

    def __init__(self, start_daemon, area, mode, spares=0, more="", host="", **keywords):
        Place.number += 1
        self.area = area
        self.socket = area.path / f"egress{Place.number}.sock"
        config = CONFIG.format(mode="mode = system" if mode == "system" else host, path=area.path, user=area.account.name,
                               number=Place.number, spares=spares, more=more)
        self.daemon = start_daemon(config=config, system=mode == "system", **keywords)

    def egress(self, **keywords):
        return ScriptedEgress(self.socket, self.area.account, **keywords)


@pytest.fixture(params=["user", "system"])
def mode(request):
    if request.param == "system" and not AM_ROOT:
        pytest.skip("needs root to make users and map ids")
    return request.param


@pytest.fixture
def place(start_daemon, area, mode):
    return Place(start_daemon, area, mode)


def network_metrics(daemon):
    """{rest of the name: value} of the metrics of tenants' networks."""
    lines = daemon.ctl("metrics", "--format=prometheus").stdout.decode().splitlines()
    named = (line.removeprefix("cloister_tenant_network_").rpartition(" ") for line in lines if "_network_" in line and line[0] != "#")
    return {name: int(value) for name, _, value in named}


def egress_filter(daemon):
    """What doctor says of the host's IP filter."""
    with daemon.control() as control:
        return [row for row in control.call("doctor")["features"] if row["feature"] == "egress_filter"]


def serve_http(content):
    """A server that answers every request with the content."""
    def serve(connection):
        egress.read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
    return serve


@pytest.fixture(scope="module")
def web():
    made = egress.Host(serve_http(b"from the host"))
    yield made
    made.close()
