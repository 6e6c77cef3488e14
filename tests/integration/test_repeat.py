# SPDX-License-Identifier: Apache-2.0
"""Calls that outlive their connection: the clients give them a key by themselves, and repeat them with it. A proxy between
client and service cuts the connection at the worst moments. tests/lib/typescript_client.mjs has the same for TypeScript."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

import procfs
from cloister_client import Client, acting_as
from daemon import ROOT, environment
from hostile_server import HostileServer
from keyed import COUNT, Keyed, kill, runs
from test_libcloister import Installed

sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))

import cloister  # noqa: E402  (it is only now on the path)
import cloister.aio  # noqa: E402

pytestmark = pytest.mark.usefixtures("as_user")
NEVER, DURING, ANSWER = "never", "during the call", "instead of the answer"


class Proxy(HostileServer):
    """Stands between clients and a service, and cuts the first connections at a moment of their first tool call."""

    def __init__(self, path, service, moment=NEVER, times=1):
        self.service, self.moment, self.times, self.calls = service, moment, times, []
        self.ids = threading.Lock()
        super().__init__(path, Proxy.between)

    @contextlib.contextmanager
    def acting_as_root(self):
        """Effective ids are the whole process's. No connection is made meanwhile: the service would take it for root's."""
        with self.ids, acting_as(os.getuid()):
            yield

    def between(self, connection, _):
        """Passes lines on in both directions."""
        with socket.socket(socket.AF_UNIX) as service:
            with self.ids:
                service.connect(str(self.service))
            ends = connection, service
            thread = threading.Thread(target=self.pass_answers, args=(service, connection), daemon=True)
            thread.start()
            with connection.makefile("rb") as lines, contextlib.suppress(OSError):
                for line in lines:
                    request = json.loads(line)
                    if request["method"] == "tool.call":
                        self.calls.append(request["params"].get("options", {}))
                    service.sendall(line)
                    if self.is_cut(DURING, request.get("method") == "tool.call"):
                        procfs.eventually(self.begun.exists)
                        break
            self.end(*ends)
            thread.join()

    def is_cut(self, moment, fits):
        cut = self.moment == moment and fits and self.times > 0
        self.times -= cut
        return cut

    def pass_answers(self, service, connection):
        with service.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                if self.is_cut(ANSWER, b'"usage"' in line):
                    break
                connection.sendall(line)
        self.end(service, connection)

    @staticmethod
    def end(*ends):
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Place:
    """A service that can be killed and started again, and a proxy for its clients."""

    def __init__(self, start_daemon, area, mode="fast", settings=""):
        self.make = lambda **keywords: Keyed(start_daemon, area, mode, settings, **keywords)
        with acting_as(os.getuid()):
            self.keyed = self.make()
        self.root = self.keyed.root
        self.proxy = Proxy(area.new_directory("proxy") / "sock", self.keyed.daemon.socket)
        self.proxy.begun = self.root / "begun"

    def kill(self):
        with acting_as(os.getuid()):
            kill(self.keyed.daemon)

    def start(self):
        with acting_as(os.getuid()):
            self.keyed = self.make(root=self.root, state=self.keyed.daemon.state)
        self.proxy.service = self.keyed.daemon.socket  # not earlier, when the proxy would connect as root

    def status(self):
        with acting_as(os.getuid()):
            return self.keyed.status()


@pytest.fixture
def place(start_daemon, area):
    made = Place(start_daemon, area)
    yield made
    made.proxy.close()


class Blocking:
    def __init__(self, proxy, **settings):
        self.client = cloister.Client(proxy.path, **settings)

    def run(self, work):
        return work(self.client)

    def close(self):
        self.client.close()


class Asyncio:
    def __init__(self, proxy, **settings):
        self.loop = asyncio.new_event_loop()
        self.client = self.loop.run_until_complete(self.make(proxy, settings))

    @staticmethod
    async def make(proxy, settings):
        return cloister.aio.Client(proxy.path, **settings)

    def run(self, work):
        return self.loop.run_until_complete(work(self.client))

    def close(self):
        self.client.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture(params=[Blocking, Asyncio], ids=["blocking", "asyncio"])
def connect(request, place):
    made = []

    def one(**settings):
        made.append(request.param(place.proxy, **settings))
        made[-1].run(lambda client: client.workspace(str(place.root)))
        return made[-1]
    yield one
    for client in made:
        client.close()


@pytest.fixture(scope="module")
def program(area):
    installed = Installed(area)
    built = installed.build("repeat.c")

    def start(place, *commands, patience=60_000):
        """Starts the program of libcloister, which makes these calls."""
        words = [built, place.proxy.path, place.root, patience, *commands]
        with place.proxy.acting_as_root():
            return subprocess.Popen(
                list(map(str, words)), env={**environment(area.home), "LD_LIBRARY_PATH": str(installed.lib)}, cwd="/",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **area.account.as_user())
    return start


def call(command):
    return lambda client: client.call("run_command", {"command": command})


@pytest.mark.parametrize("moment, times", [(ANSWER, 1), (DURING, 1), (ANSWER, 3)])
def test_a_lost_connection(connect, place, moment, times):
    """The command runs once, and the caller gets its one answer."""
    client = connect()
    place.proxy.moment, place.proxy.times = moment, times
    answer = client.run(call("touch begun; sleep 0.2; " + COUNT))
    assert answer["output"]["exit_code"] == 3 and answer["output"]["stdout"] == "out\n"
    assert answer.get("replayed", False) or moment == DURING
    assert runs(place.root) == 1 and len(place.proxy.calls) == times + 1
    assert len({options["key"] for options in place.proxy.calls}) == 1


def test_it_is_repeated_so_often_and_no_more(connect, place):
    client = connect()
    place.proxy.moment, place.proxy.times = ANSWER, 99
    with pytest.raises(cloister.ConnectionLost):
        client.run(call(COUNT))
    assert runs(place.root) == 1 and len(place.proxy.calls) == 4


def test_a_service_that_dies(connect, place):
    """Its outcome is not known, and it is not run again."""
    client = connect()

    def restart():
        assert procfs.eventually((place.root / "begun").exists)
        place.kill()
        place.start()
    thread = threading.Thread(target=restart)
    thread.start()
    answer = client.run(call("touch begun; sleep 60; echo run >>runs"))
    thread.join()
    assert answer["error"]["code"] == "OUTCOME_UNKNOWN" and runs(place.root) == 0
    assert client.run(call(COUNT))["output"]["exit_code"] == 3


def test_a_file_is_written_once(connect, place):
    client = connect()
    place.proxy.moment = ANSWER
    (place.root / "f").write_text("old")
    written = client.run(lambda one: one.write_file("f", "new"))
    assert not written["created"] and len(place.proxy.calls) == 2


def test_reads_have_no_key(connect, place):
    client = connect(retry_reads=True)
    (place.root / "f").write_text("x")
    place.proxy.moment = ANSWER
    assert client.run(lambda one: one.read_file("f"))["size"] == 1
    assert len(place.proxy.calls) == 2 and not any("key" in options for options in place.proxy.calls)


@pytest.mark.parametrize("settings, mode", [({"keys": False}, "fast"), ({}, "off")])
def test_without_keys_nothing_is_repeated(connect, place, start_daemon, area, settings, mode):
    if mode == "off":
        place.kill()
        place.make = lambda **keywords: Keyed(start_daemon, area, "off", **keywords)
        place.start()
    client = connect(**settings)
    place.proxy.moment = ANSWER
    with pytest.raises(cloister.ConnectionLost):
        client.run(call(COUNT))
    assert runs(place.root) == 1 and len(place.proxy.calls) == 1 and "key" not in place.proxy.calls[0]
    assert client.run(call(COUNT))["output"]["exit_code"] == 3


def test_a_service_that_keeps_no_keys_any_more(connect, place, start_daemon, area):
    """A call that had a key is not made without it."""
    client = connect()

    def restart():
        assert procfs.eventually((place.root / "begun").exists)
        place.kill()
        place.make = lambda **keywords: Keyed(start_daemon, area, "off", **keywords)
        place.start()
    thread = threading.Thread(target=restart)
    thread.start()
    with pytest.raises(cloister.ConnectionLost, match="no keys now; the call may have run"):
        client.run(call("touch begun; sleep 60"))
    thread.join()
    assert len(place.proxy.calls) == 1


def test_what_cannot_be_had_again_has_no_key(connect, place):
    client = connect()
    client.run(lambda one: one.run_command("true", options={"keep_output": False}))
    client.run(lambda one: one.run_command("true", options={"key": "mine"}))
    assert [options.get("key") for options in place.proxy.calls] == [None, "mine"]


def test_keys_are_not_kept_longer_than_needed(connect, place):
    client = connect()
    for _ in range(12):
        client.run(call(COUNT))
    assert place.status()["keys"] == 1
    place.kill()
    place.start()
    assert place.status()["keys"] == 1  # nor are the others remembered again


def test_a_client_that_closes_ends_its_calls(place):
    ends = []

    def one():
        try:
            ends.append(client.call("run_command", {"command": "touch begun; sleep 3600"})["error"]["code"])
        except cloister.ConnectionLost:
            ends.append("lost")
    with cloister.Client(place.proxy.path) as client:
        client.workspace(str(place.root))
        thread = threading.Thread(target=one)
        thread.start()
        assert procfs.eventually((place.root / "begun").exists)
    thread.join()
    assert ends in (["lost"], ["CANCELLED"])  # the client asks for its end, and does not wait for the answer

    def calls():
        with acting_as(os.getuid()), place.keyed.daemon.control() as control:
            return control.call("status")["calls"]
    assert procfs.eventually(lambda: calls() == 0)


def test_the_proxy_connects_as_the_user(place):
    """Also while the test starts a program as root, and the program has connected already."""
    with place.proxy.acting_as_root():
        client = Client(place.proxy.path)
        number = client.request("workspace.open", {"root": str(place.root)})
        assert procfs.eventually(lambda: place.proxy.connections == 1)
    with client:
        assert client.result(number)["workspace"] == str(place.root)


@pytest.mark.parametrize("moment, times", [(ANSWER, 1), (DURING, 1), (ANSWER, 3)])
def test_libcloister(program, place, moment, times):
    place.proxy.moment, place.proxy.times = moment, times
    with program(place, "touch begun; sleep 0.2; " + COUNT, "true") as process:
        said = process.communicate(timeout=120)[0].splitlines()
    # With DURING it depends on the machine whether the command still runs when the call comes again.
    assert said in [["exit 3" + how, "exit 0"] for how in ([", replayed", ""] if moment == DURING else [", replayed"])]
    assert runs(place.root) == 1 and len(place.proxy.calls) == times + 2
    first, last = place.proxy.calls[0], place.proxy.calls[-1]
    assert last["forget_key"] == first["key"] != last["key"] and first["key_wait_ms"] == 70_000


def test_libcloister_and_a_service_that_dies(program, place):
    with program(place, "touch begun; sleep 60", "exit 4") as process:
        assert procfs.eventually((place.root / "begun").exists)
        place.kill()
        place.start()
        assert process.communicate(timeout=120)[0].splitlines() == ["OUTCOME_UNKNOWN", "exit 4"]


def test_libcloister_does_so_only_if_asked(program, place):
    place.proxy.moment = ANSWER
    with program(place, COUNT, patience=0) as process:
        assert process.communicate(timeout=120)[0].splitlines() == ["call: Connection reset by peer"]
    assert runs(place.root) == 1 and place.proxy.calls == [{}]
