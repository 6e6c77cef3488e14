# SPDX-License-Identifier: Apache-2.0
"""More than one process of cloister-egress: each generation of cloisterd has its own, and a service manager starts them."""

import contextlib
import os
import pathlib
import signal
import socket
import sys
import time

import egress
import procfs
import pytest
from cloister_client import acting_as
from egress_program import CONFIG, names, roots_directory


@contextlib.contextmanager
def of_a_service(directory, account, names):
    """The program as a service manager starts it, and where it connects."""
    path = pathlib.Path(directory) / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o666)
        server.listen()
        server.settimeout(egress.WAIT_S)
        config = CONFIG.format(resolver=names.address, more="")
        running = egress.Egress(directory, config, user=account.uid, listener=server)
        try:
            yield running.ready(), server
        finally:
            running.process.kill()
            running.process.wait(egress.WAIT_S)


def another(server):
    link = egress.Link(server.accept()[0])
    link.expect(egress.READY)
    return link


def fill(running, server):
    """As many processes as there may be: all but the last have retired. Returns their connections."""
    links = [running.link]
    for _ in range(3):
        links[-1].send(egress.RETIRED)
        links.append(another(server))
    return links


def open_cell(running, cell, owner):
    with acting_as(owner.uid, owner.gid):
        listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        running.send_open(cell, listener)
        running.link.expect(egress.OPENED)
        return listener.getsockname()[1]


def test_one_process_for_each_generation(roots_directory, account, tenants, names):
    """The former one serves until its connection ends. Their number has a bound, which one that was taken over cannot pass."""
    with of_a_service(roots_directory, account, names) as (running, server):
        egress_parent = running.process.pid
        links = fill(running, server)
        assert len(procfs.children(egress_parent)) == 4
        egress.connect(open_cell(running, 2, tenants[0]), "blamed.test:443")[0].close()
        assert running.link.denied()["host"] == "blamed.test"
        links[-1].send(egress.RETIRED)
        server.settimeout(0.5)
        with pytest.raises(TimeoutError):
            server.accept()
        server.settimeout(egress.WAIT_S)
        links[1].socket.close()
        links.append(another(server))
        for link in (running.link, *links[2:4]):
            link.socket.close()
        assert procfs.eventually(lambda: len(procfs.children(egress_parent)) == 1)
        # Alone again, it ends with its connection, as it always has.
        links[-1].socket.close()
        assert running.process.wait(egress.WAIT_S) == 0


def test_the_last_that_has_retired_may_end_first(roots_directory, account, names):
    """At the bound its end makes room, however often."""
    with of_a_service(roots_directory, account, names) as (running, server):
        egress_parent = running.process.pid
        links = fill(running, server)
        for _ in range(5):
            links[-1].send(egress.RETIRED)
            # The parent has heard it, and waits for room.
            assert procfs.eventually(lambda: not any(target.startswith("pipe:") for target in procfs.fds(egress_parent).values()))
            links.pop().socket.close()
            links.append(another(server))
            assert len(procfs.children(egress_parent)) == 4
        for link in links[:-1]:
            link.socket.close()
        assert procfs.eventually(lambda: len(procfs.children(egress_parent)) == 1)
        links[-1].socket.close()
        assert running.process.wait(egress.WAIT_S) == 0


# What is started for the next generation, after a package has replaced the program: it is hostile.
HOSTILE = """#!{python} -IS
import os, time
os.close(3)
open("/proc/self/comm", "w").write("hostile")
while True:
    time.sleep(1)
"""


@pytest.mark.deep("busy")
def test_its_parent_sleeps_if_one_closes_the_pipe(roots_directory, account, names):
    with of_a_service(roots_directory, account, names) as (running, _):
        egress_parent = running.process.pid
        program = pathlib.Path(os.readlink(f"/proc/{egress_parent}/exe"))
        program.unlink()
        program.write_text(HOSTILE.format(python=sys.executable))
        program.chmod(0o755)
        running.link.send(egress.RETIRED)
        assert procfs.eventually(lambda: any(procfs.name(pid) == "hostile" for pid in procfs.children(egress_parent)))
        before, until = procfs.cpu_seconds(egress_parent), time.process_time() + 1
        while time.process_time() < until:
            pass
        assert procfs.cpu_seconds(egress_parent) - before < 0.2


def test_one_that_ends_after_it_has_retired(roots_directory, account, names):
    """Its parent may find both at once. It starts the next one, and does not end as with one that has failed."""
    with of_a_service(roots_directory, account, names) as (running, server):
        (child,) = procfs.children(running.process.pid)
        procfs.stop(running.process.pid)
        running.link.send(egress.RETIRED)
        running.link.socket.close()
        assert procfs.vanish([child])
        os.kill(running.process.pid, signal.SIGCONT)
        another(server).socket.close()
        assert running.process.wait(egress.WAIT_S) == 0


def test_a_generation_is_the_service_managers_to_start(area, account, names):
    """Where cloisterd has started it, nothing starts another."""
    directory = area.new_directory("egress")
    os.chmod(directory, 0o755)
    running = egress.Egress(directory, CONFIG.format(resolver=names.address, more=""), user=account.uid).ready()
    running.link.send(egress.RETIRED)
    assert running.process.wait(egress.WAIT_S) == 1 and "EGRESS_RETIRED" in running.logged()
