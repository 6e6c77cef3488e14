# SPDX-License-Identifier: Apache-2.0
"""Shared by the suites that run the real programs: a user, a place, daemons and clients."""

import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))

import delegation as delegated  # noqa: E402  (lib is only now on the path)
import npm  # noqa: E402
import procfs  # noqa: E402
from cloister_client import acting_as  # noqa: E402
from daemon import INSTALLED, Account, Area, Daemon  # noqa: E402
from installed import InstalledDaemon  # noqa: E402


def left_of(account):
    """The command lines of what is alive of the user, and stays so."""
    def alive():
        return [pid for pid in account.processes() if procfs.is_alive(pid)]
    procfs.eventually(lambda: not alive())
    return [(pid, procfs.command_line(pid)) for pid in alive()]


failed = []


def pytest_runtest_logreport(report):
    """A sanitizer's complaint is never a matter of time, nor is what goes wrong in making ready and clearing up."""
    if report.failed:
        busy = report.when == "call" and not any(word in report.longreprtext for word in ("Sanitizer", "runtime error:"))
        failed.append(report.nodeid if busy else f"{report.when} of {report.nodeid}")


def pytest_sessionfinish():
    """For tests/run: the cases that failed, and apart from them what else did."""
    if "CLOISTER_FAILED_CASES" in os.environ:
        pathlib.Path(os.environ["CLOISTER_FAILED_CASES"]).write_text("".join(f"{case}\n" for case in failed))


# What tests/run sends: an end with all that fixtures do at theirs.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def account():
    made = Account()
    yield made
    # A dead process whose new parent, the host's init, has not reaped it yet is not left behind.
    left = [] if not made.made else left_of(made)
    made.remove()
    assert not left, f"processes of the test user were left behind: {left}"


@pytest.fixture(scope="session")
def tenants():
    """Three users who are neither the daemon's nor each other."""
    if os.getuid() != 0:
        pytest.skip("needs root to make users")
    made = [Account(suffix) for suffix in "abc"]
    yield made
    for user in made:
        user.remove()


@pytest.fixture(scope="session")
def area(account):
    made = Area(account)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def typescript_client(area):
    """clients/typescript as `npm pack` packs it: the file."""
    return npm.pack(area.new_directory("pack"))


@pytest.fixture(scope="module")
def daemon(area):
    """A cloisterd for all tests of a file. Tests that harm theirs use own_daemon."""
    running = InstalledDaemon(area) if INSTALLED else Daemon(area)
    yield running
    assert running.stop() == 0


@pytest.fixture
def start_daemon(area):
    """Starts further daemons; they are stopped, if they still run, when the test is over."""
    started = []

    def start(**keywords):
        started.append(Daemon(area, **keywords))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture(scope="module", params=["openat2", "walk"])
def either_daemon(account, request):
    """A cloisterd whose files processes have openat2(2), the installed service if there is one, and one where they
    have to do without."""
    place = Area(account)
    if request.param == "walk":
        place.take_openat2()
    running = InstalledDaemon(place) if INSTALLED and request.param == "openat2" else Daemon(place)
    yield running
    status = running.stop()
    place.remove()
    assert status == 0


@pytest.fixture
def own_daemon(start_daemon):
    return start_daemon()


@pytest.fixture
def delegation(account):
    """A cgroup of the user's own. Daemons are started in it by launcher=delegation.launcher()."""
    reason = delegated.reason_against()
    if reason:
        pytest.skip(reason)
    made = delegated.Delegation(account, f"{account.name}-delegated")
    yield made
    made.remove()


@pytest.fixture
def as_user(account):
    """Whatever the test itself does to files is done by the user."""
    with acting_as(account.uid, account.gid):
        yield


@pytest.fixture
def client(daemon):
    with daemon.connect() as connected:
        yield connected


@pytest.fixture
def workspace(daemon, client):
    """The path of a new directory, which is the client's default workspace. In system mode the test
    does what it does there as the workspace's own id."""
    path = daemon.new_workspace(client)
    if not daemon.system:
        yield path
        return
    status = path.stat()
    with acting_as(status.st_uid, status.st_gid):
        yield path
