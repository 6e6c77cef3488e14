# SPDX-License-Identifier: Apache-2.0
"""Two generations of cloisterd, each with its own cloister-egress: what it has connected stays until its commands end."""

import os
import threading

import pytest

import egress
import procfs
from cloister_client import acting_as
from daemon import AM_ROOT, Account
from generations import ASK, GIVEN, begin, ended, hear, opened, say, status, talk

RULES = "egress_allow = open.test:*\negress_private = 127.0.0.0/8"


class Web:
    """A host that answers /now at once, and any other path when it is told to."""

    def __init__(self):
        self.go = threading.Event()
        self.host = egress.Host(self.serve)
        self.names = egress.Names({"open.test": ["127.0.0.1"]})

    def serve(self, connection):
        head = egress.read_head(connection)
        if b" /now " not in head.replace(f"http://open.test:{self.host.port}".encode(), b""):
            self.go.wait(300)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")

    def curl(self, path):
        return f"curl -sS -m 300 http://open.test:{self.host.port}/{path}"

    def close(self):
        self.go.set()
        self.host.close()
        self.names.close()


@pytest.fixture(name="web")
def web_fixture():
    made = Web()
    yield made
    made.close()


class Place:
    """Generations of one configuration, in whose system mode cloister-egress is a service of its own."""

    def __init__(self, start_daemon, area, web, user):
        self.start_daemon, self.service = start_daemon, None
        config = egress.service_config(area, web.names, RULES, host="{host}")
        if user:
            self.service = egress.Service(start_daemon, area, config, user)
            self.newest = self.service.daemon
            self.config = config.replace("{host}", "\n".join(["mode = system", f"egress_socket = {self.service.words[-1]}",
                                                              f"egress_user = {user.name}"]))
        else:
            self.config = config.replace("{host}", "")
            self.newest = start_daemon(config=self.config, system=False)

    def next(self):
        """Has another generation take over, and returns it when its cloister-egress is there."""
        self.newest = self.start_daemon(config=self.config, system=self.service is not None, former=self.newest)
        if self.service:
            assert procfs.eventually(lambda: "cloister-egress has connected" in self.newest.log())
        return self.newest

    def programs(self):
        """The processes of cloister-egress that serve."""
        parents = [self.service.process.pid] if self.service else [self.newest.pid]
        with acting_as(os.getuid()):
            return [pid for parent in parents for pid in procfs.children(parent) if procfs.name(pid) == "cloister-egress"]


@pytest.fixture(name="place", params=["user", "system"])
def place_fixture(start_daemon, area, web, request):
    if request.param == "system" and not AM_ROOT:
        pytest.skip("needs root to make users and map ids")
    user = Account("e") if request.param == "system" else None
    made = Place(start_daemon, area, web, user)
    yield made
    if user:
        made.service.stop()
        user.remove()


def test_connections_live_until_their_commands_end(place, web):
    first = place.newest
    client = opened(first, name="one")
    call = begin(client, web.curl("later"))
    assert procfs.eventually(lambda: web.host.connections == 1)
    second = place.next()
    assert status(second)["old_daemon"]["commands"] == 1
    # Each has its own: what the old daemon begins beside the call, and what the new daemon begins.
    assert client.run(web.curl("now"))["stdout"] == "hello"
    newer = opened(second, name="two")
    assert newer.run(web.curl("now"))["stdout"] == "hello"
    stays = begin(newer, web.curl("later"))
    assert procfs.eventually(lambda: web.host.connections == 4)
    if place.service:
        assert len(place.programs()) == 2
    web.go.set()
    observation = client.wait(call)["result"]
    assert observation["output"]["stdout"] == "hello" and observation["network"]["denied"] == [], observation
    assert newer.wait(stays)["result"]["output"]["stdout"] == "hello"
    assert ended(first) == 0
    assert procfs.eventually(lambda: len(place.programs()) == 1)
    third = place.next()
    assert ended(second) == 0
    with opened(third, name="one") as newest:
        assert newest.run(web.curl("now"))["stdout"] == "hello"
        refused = newest.observe("run_command", {"command": "curl -sS http://closed.test/ >&2"})
        assert [one["reason"] for one in refused["network"]["denied"]] == ["not_allowed"]


def test_killing_the_old_daemon_ends_its_connections_alone(place, web):
    first = place.newest
    client = opened(first, name="one")
    begin(client, web.curl("later"))
    assert procfs.eventually(lambda: web.host.connections == 1)
    second = place.next()
    newer = opened(second, name="two")
    call = begin(newer, web.curl("later"))
    assert procfs.eventually(lambda: web.host.connections == 2)
    first.process.kill()
    first.process.wait()
    assert procfs.eventually(lambda: len(place.programs()) == 1 and "old_daemon" not in status(second))
    web.go.set()
    assert newer.wait(call)["result"]["output"]["stdout"] == "hello"


@pytest.mark.skipif(not AM_ROOT, reason="needs root to make users and map ids")
@pytest.mark.parametrize("place", ["system"], indirect=True)
def test_the_old_daemon_keeps_the_socket_of_one_that_fails(place, web):
    """The old daemon keeps its cloister-egress, and accepts the next one."""
    first = place.newest
    client = opened(first, name="one")
    call = begin(client, web.curl("later"))
    assert procfs.eventually(lambda: web.host.connections == 1)
    with talk(first) as link:
        say(link, ASK)
        kind, fds = hear(link)
        assert kind == GIVEN and len(fds) >= 5
        for fd in fds:
            os.close(fd)
    assert procfs.eventually(lambda: "does not take over" in first.log())
    web.go.set()
    assert client.wait(call)["result"]["output"]["stdout"] == "hello"
    place.service.stop()
    place.service.start()
    assert client.run(web.curl("now"))["stdout"] == "hello"


@pytest.mark.skipif(not AM_ROOT, reason="needs root to make users and map ids")
@pytest.mark.parametrize("place", ["system"], indirect=True)
def test_each_process_ends_alone(place, web):
    """While two serve, the end of one is not the other's: the newest is started again, a former one is not."""
    first = place.newest
    client = opened(first, name="one")
    call = begin(client, web.curl("later"))
    assert procfs.eventually(lambda: web.host.connections == 1)
    (former,) = place.programs()
    second = place.next()
    (newest,) = [pid for pid in place.programs() if pid != former]
    with acting_as(os.getuid()):
        os.kill(newest, 9)
    assert procfs.eventually(lambda: second.log().count("cloister-egress has connected") == 2)
    newer = opened(second, name="two")
    assert newer.run(web.curl("now"))["stdout"] == "hello"
    with acting_as(os.getuid()):
        os.kill(former, 9)
    observation = client.wait(call)["result"]
    assert "proxy_lost" in [one["reason"] for one in observation["network"]["denied"]]
    assert procfs.eventually(lambda: "what still runs here has no network any more" in first.log())
    assert newer.run(web.curl("now"))["stdout"] == "hello"
    assert ended(first) == 0
