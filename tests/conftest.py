# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the suites that run the real programs: users, directories, daemons and clients."""

import contextlib
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
from daemon import INSTALLED, Account, Area, Daemon, is_sanitized  # noqa: E402
from installed import InstalledDaemon  # noqa: E402


def left_of(account):
    """Waits until the user's processes have ended. Returns the command lines of those that are still alive."""
    def alive():
        return [pid for pid in account.processes() if procfs.is_alive(pid)]
    procfs.eventually(lambda: not alive())
    return [(pid, procfs.command_line(pid)) for pid in alive()]


DEEP_REASONS = ("slow", "repeats", "busy")
PACE_SECONDS = 2.0  # a case of the check takes no longer


def pytest_configure(config):
    config.addinivalue_line("markers", "release_only(reason): what the case adds does not come from cloister's C: "
                            "suites do not run it under sanitizers (doc/decisions/0177)")
    config.addinivalue_line("markers", "deep(reason, only): tests/deep runs it and tests/run does not, because it is \"slow\" (it takes "
                            "more than two seconds), \"repeats\" in another build, mode or level what another case shows, or its "
                            "answer depends on how \"busy\" the machine is; only names the parameters for which that holds")
    config.addinivalue_line("markers", "busy: a case that is deep because it is \"busy\", for -m")


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by -m
def pytest_collection_modifyitems(config, items):
    """A case that is named alone runs in any build."""
    for item in items:
        for mark in list(item.iter_markers("deep")):
            if mark.args not in [(reason,) for reason in DEEP_REASONS] or not set(mark.kwargs) <= {"only"}:
                raise pytest.UsageError(f"{item.nodeid}: a deep case has one of the reasons {', '.join(DEEP_REASONS)}")
            if "only" in mark.kwargs and item.callspec.id not in mark.kwargs["only"]:
                item.own_markers.remove(mark)
            elif mark.args == ("busy",):
                item.add_marker("busy")
    if is_sanitized() and len(items) > 1:
        left_out = [item for item in items if item.get_closest_marker("release_only")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """The deep suite "pace": a case of the check that takes longer than it may fails. Its clock stands still while any process
    waits for a CPU."""
    if not os.environ.get("CLOISTER_PACE") or item.get_closest_marker("deep"):
        yield
        return
    began = procfs.free_seconds()
    yield
    took = procfs.free_seconds() - began
    if took > PACE_SECONDS:
        pytest.fail(f"takes {took:.1f} s: mark it deep(\"slow\"), or make it wait for less")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call):
    """A test that failed after so long has waited for something: its report says what the processes do that it started,
    and what cloisterd has logged."""
    outcome = yield
    if call.when != "call" or not call.excinfo or call.duration < procfs.SOON / 2:
        return
    with contextlib.suppress(OSError), acting_as(os.getuid()):  # some of it belongs to other users, or has ended
        for pid in procfs.descendants(os.getpid()):
            outcome.get_result().sections.append((procfs.command_line(pid), "\n".join(procfs.waits(pid))))
            log = pathlib.Path(procfs.fds(pid).get(2, ""))
            if procfs.name(pid) == "cloisterd" and log.is_file():
                outcome.get_result().sections.append((str(log), log.read_text(errors="replace")))


# tests/run sends SIGTERM. It must run the ends of all fixtures.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def account():
    made = Account()
    yield made
    # A zombie does not count: the host's init has yet to reap it.
    left = [] if not made.made else left_of(made)
    made.remove()
    assert not left, f"processes of the test user were left behind: {left}"


@pytest.fixture(scope="session")
def tenants():
    """Three users, none of whom is the daemon's."""
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
    """clients/typescript as `npm pack` packs it. The value is the package's file."""
    return npm.pack(area.new_directory("pack"))


@pytest.fixture(scope="module")
def daemon(area):
    """A cloisterd for all tests of a file. Tests that harm theirs use own_daemon."""
    running = InstalledDaemon(area) if INSTALLED else Daemon(area)
    yield running
    assert running.stop() == 0


@pytest.fixture
def start_daemon(area):
    """Returns a function that starts further daemons. Those that still run are stopped after the test."""
    started = []

    def start(**keywords):
        started.append(Daemon(area, **keywords))
        return started[-1]

    yield start
    for running in started:
        running.stop()


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
    """The test itself makes and changes files as the user."""
    with acting_as(account.uid, account.gid):
        yield


@pytest.fixture
def client(daemon):
    with daemon.connect() as connected:
        yield connected


@pytest.fixture
def workspace(daemon, client):
    """The path of a new directory, which is the client's default workspace. In system mode the test acts as the
    workspace's own id."""
    path = daemon.new_workspace(client)
    if not daemon.system:
        yield path
        return
    status = path.stat()
    with acting_as(status.st_uid, status.st_gid):
        yield path
