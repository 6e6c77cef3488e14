# SPDX-License-Identifier: Apache-2.0
"""The self-test of cloisterd: its probes, its report, and what a missing wall leads to."""

import contextlib
import json
import os
import re
import shutil
import signal

import procfs
import pytest
from cloister_client import RpcError, acting_as
from daemon import BUILD, INSTALLED, SYSTEM, Area, Daemon, system_config
from layers import in_state

RELEASE = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
FOREIGN = {"int80", "x32", "iopl", "modify-ldt"}  # on x86 only
# Where a tenant has a network: integration/test_egress.py.
# Where a tenant has root_inside: test_forks_in_each_way.
ROOT = {"root-" + name for name in (
    "id", "capabilities", "bounding-set", "raise-capability", "mapped-ids", "set-groups", "chown", "set-user-id-chmod",
    "file-capability", "shmmax", "msgmnb", "sem", "queues-max", "ip-forward", "core-pattern", "max-user-namespaces-write",
    "mount-formats", "mount-tmpfs", "mount-overlay", "umount", "chroot", "unshare-user", "clone-user", "setns", "sethostname",
    "init-root", "init-mem", "init-ptrace")}
EGRESS = {f"{what}-{way}" for what in ("metadata", "private", "empty", "names")
          for way in ("connect", "http", "socks", "host")} | {"names-dns"}


def run(daemon):
    """Runs the self-test by cloisterctl. Returns its exit status and its report."""
    done = daemon.ctl("--json", "selftest")
    assert done.returncode in (0, 1), done
    return done.returncode, json.loads(done.stdout)


def wrong(report):
    return {probe["probe"]: (probe["wanted"], probe["answer"])
            for probe in report["probes"] if probe["result"] == "failed"}


def test_every_wall_holds(daemon):
    status, report = run(daemon)
    assert wrong(report) == {}
    assert (status, report["result"]) == (0, "passed")
    assert report["passed"] + report["skipped"] == len(report["probes"])
    assert report["passed"] >= 100
    one_id = set() if SYSTEM or INSTALLED else {"layer-foreign"}
    assert {probe["probe"] for probe in report["probes"] if probe["result"] == "skipped"} - FOREIGN == EGRESS | ROOT | one_id


def test_every_wall_holds_where_cgroups_are_delegated(delegation, start_daemon):
    daemon = start_daemon(launcher=delegation.launcher())
    status, report = run(daemon)
    assert (status, wrong(report)) == (0, {})


def forks_made(report):
    return [probe["answer"] for probe in report["probes"] if probe["probe"] == "forks-made"]


@pytest.mark.parametrize("way", ["overlay", "memory", "copy"])
def test_forks_in_each_way(start_daemon, area, way):
    """Its own template is attacked from forks, and from a whole root whose commands are uid 0; nothing of them stays."""
    if way == "overlay":
        text = f"[cloister]\nadmin_group = {area.account.gid}\n[tenant t]\nusers = {area.account.uid}\nmanaged = yes\n"
        daemon = start_daemon(config=text + "root_inside = yes\n")
    else:
        if os.getuid() != 0 or (way == "memory" and RELEASE < (6, 6)):
            pytest.skip("needs root for system mode, and Linux 6.6 for a template in memory")
        text = system_config(area, f"admin_group = {area.account.gid}", f"template_memory = {'16M' if way == 'memory' else 0}")
        daemon = start_daemon(config=text + "root_inside = yes\n", system=True)
    for _ in range(2):
        status, report = run(daemon)
        assert (status, wrong(report)) == (0, {})
        assert forks_made(report) == [way]
        assert not ROOT & {probe["probe"] for probe in report["probes"] if probe["result"] != "passed"}
    assert "still there" not in daemon.log()
    assert procfs.eventually(lambda: daemon.cells() == [])
    with acting_as(os.getuid()):
        # The spawner clears what was dropped in the background.
        assert procfs.eventually(lambda: [path.name for path in (daemon.state / "workspaces/.selftest").iterdir()
                                          if path.name != ".layers-canary"] == ["canary"])
        assert procfs.eventually(lambda: list((daemon.state / "templates/.selftest").iterdir()) == [])


@pytest.mark.deep("slow")
def test_what_is_said_of_it(own_daemon):
    with own_daemon.control() as control:
        before = control.call("status")["selftest"]
        assert (before["result"], before["running"], before["passed"]) == ("never", False, 0)
        control.call("events")
        report = control.call("selftest")
        status = control.call("status")["selftest"]
        metrics = control.call("metrics")["text"]
    for key in ("passed", "failed", "skipped", "duration_ms", "result"):
        assert status[key] == report[key]
    assert status["ended_ms"] > 0 and not status["running"]
    assert f'cloister_selftest_probes{{result="passed"}} {report["passed"]}\n' in metrics
    assert 'cloister_selftest_probes{result="failed"} 0\n' in metrics
    assert float(re.search(r"^cloister_selftest_last_run_timestamp_seconds (\S+)", metrics, re.MULTILINE)[1]) > 0
    (event,) = [note["params"] for note in control.notifications
                if note["params"]["event"] == "selftest"]
    assert (event["result"], event["passed"]) == ("passed", report["passed"])
    shown = own_daemon.ctl("selftest", "-v")
    assert shown.returncode == 0 and named(shown) == [(probe["probe"], probe["result"]) for probe in report["probes"]]
    shown = own_daemon.ctl("selftest")
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped, in \d+ ms\nthe walls: passed\n", shown.stdout.decode())


def named(shown):
    """The probes that cloisterctl shows, each with its result."""
    return [tuple(row.split()[1:3]) for row in shown.stdout.decode().partition("\n\n")[0].splitlines()[1:]]


def test_it_leaves_nothing_and_is_nobodys(own_daemon):
    for _ in range(2):
        status, report = run(own_daemon)
        assert (status, wrong(report)) == (0, {})
    place = own_daemon.state / "workspaces" / ".selftest" / "canary"
    assert list(place.iterdir()) == []
    assert procfs.eventually(lambda: own_daemon.cells() == [])
    with own_daemon.connect() as client:
        assert client.call("workspace.list")["workspaces"] == []
        for name in (".selftest", "canary/..", ".selftest/canary"):
            with pytest.raises(RpcError):
                client.call("workspace.open", {"workspace": name})
        assert client.call_error("workspace.open", {"root": str(place)}) == "FORBIDDEN"


def test_two_who_ask_get_one_run(own_daemon):
    """The spawner is stopped, so that the first run does not end."""
    spawner = own_daemon.spawner()
    with own_daemon.control() as one, own_daemon.control() as other, own_daemon.control() as gone:
        os.kill(spawner, signal.SIGSTOP)
        numbers = [asking.request("selftest") for asking in (gone, one, other)]
        for asking in (gone, one, other):
            assert asking.call("status")["selftest"]["running"]
        gone.close()
        os.kill(spawner, signal.SIGCONT)
        reports = one.result(numbers[1]), other.result(numbers[2])
    assert reports[0] == reports[1]
    assert own_daemon.log().count("self-test:") == 1


def test_others_are_served_meanwhile(own_daemon):
    with own_daemon.control() as control, own_daemon.connect() as client:
        own_daemon.new_workspace(client)
        number = control.request("selftest")
        for i in range(20):
            assert client.run(f"echo {i}")["stdout"] == f"{i}\n"
        assert wrong(control.result(number)) == {}


def config(account, **settings):
    lines = [f"{key} = {value}\n" for key, value in settings.items()]
    return f"[cloister]\nadmin_group = {account.gid}\n{''.join(lines)}" \
           f"[tenant t]\nusers = {account.uid}\nmanaged = yes\n"


def refusal(client):
    """Returns the code of the refusal that a client gets, or None."""
    try:
        client.call("workspace.open", {"workspace": "w"})
    except RpcError as error:
        return error.name
    return None


@pytest.mark.deep("slow")
def test_at_start_and_again(start_daemon, account):
    daemon = start_daemon(config=config(account, selftest="start", selftest_interval="1ms"))
    assert procfs.eventually(lambda: daemon.log().count("probes passed") >= 3, 60)
    with daemon.connect() as client:
        assert refusal(client) is None


def test_off_is_off(own_daemon):
    with own_daemon.connect() as client:
        assert refusal(client) is None
    assert "self-test" not in own_daemon.log()


def test_required_and_passed(start_daemon, account):
    daemon = start_daemon(config=config(account, selftest="required"))
    with daemon.connect() as client:
        codes = []

        def served():
            codes.append(refusal(client))
            return codes[-1] is None
        assert procfs.eventually(served, 60)
        assert set(codes[:-1]) <= {"BUSY"}
        assert client.run("echo hello")["stdout"] == "hello\n"


@pytest.fixture
def start_holed(account):
    """Starts daemons whose workers install no system call filter: a wall is missing."""
    area = Area(account)
    shutil.copy(BUILD / "tests" / "worker_without_filter", area.bin / "cloister-worker")
    started = []

    def start(**keywords):
        started.append(Daemon(area, **keywords))
        return started[-1]

    yield start
    statuses = [running.stop() for running in started]
    area.remove()
    assert set(statuses) == {0}


def test_a_missing_wall_is_named(start_holed):
    daemon = start_holed()
    status, report = run(daemon)
    assert (status, report["result"]) == (1, "failed")
    failed = wrong(report)
    assert report["failed"] == len(failed)
    # Only probes that the filter alone refuses fail: the other walls hold.
    assert {"tiocsti", "clone3", "socket-netlink"} <= set(failed)
    assert not {"capabilities", "become-root", "read-link", "extra-descriptors",
                "net-world", "mount-tmpfs", "survivor-gone", "keyctl"} & set(failed)  # the spawner's filter refuses the last as well
    shown = daemon.ctl("selftest")
    assert shown.returncode == 1 and sorted(named(shown)) == sorted((probe, "failed") for probe in failed)
    assert shown.stdout.decode().endswith("\nthe walls: failed\n")
    wanted, got = failed["tiocsti"]
    assert f"self-test: tiocsti (terminal-injection): wanted {wanted}, got {got}" in daemon.log()
    assert f"self-test: FAILED: {len(failed)} of {len(report['probes'])} probes" in daemon.log()
    with daemon.connect() as client:  # not required: the report says so, and no client is refused
        assert refusal(client) is None


def hold_spawner(daemon, find):
    """Waits until find() finds something, and leaves the spawner stopped. It is stopped most of the time meanwhile, so that it
    seldom has gone on with what was found."""
    spawner = daemon.spawner()

    def held():
        os.kill(spawner, signal.SIGSTOP)
        found = procfs.eventually(find, 0.02, 0.0005)
        if not found:
            os.kill(spawner, signal.SIGCONT)
        return found
    found = procfs.eventually(held, 60, 0.001)
    assert found
    return found


@pytest.mark.deep("slow")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a layer away")
def test_a_layer_of_another_id_is_seen(area, start_daemon):
    """In system mode, cloisterd's own layer is refused. If it were the canary's, the probe would say that it is shown; the
    spawner is stopped while it is given away."""
    daemon = start_daemon(system=True, config=system_config(area, f"admin_group = {area.account.gid}"))
    place = daemon.state / "workspaces" / ".selftest"
    canary = place / "canary"

    def answer(report):
        (probe,) = [probe for probe in report["probes"] if probe["row"] == "layer-of-another"]
        return probe["answer"], probe["result"]

    def given_away():
        with daemon.control(groups=(area.account.gid,)) as control:
            asked = control.request("selftest")
            with acting_as(os.getuid()):
                (made,) = hold_spawner(daemon, lambda: list(place.glob(".layers-canary/[0-9]*/u/foreign")))
                with contextlib.suppress(FileNotFoundError):  # it was dropped again
                    for path in (made, made.parent, made.parents[1] / "w"):
                        os.chown(path, canary.stat().st_uid, canary.stat().st_gid)
                os.kill(daemon.spawner(), signal.SIGCONT)
            return answer(control.result(asked)) == ("OK", "failed")

    status, report = run(daemon)
    assert (status, answer(report)) == (0, ("FORBIDDEN", "passed"))
    # The spawner may have been faster.
    assert procfs.eventually(given_away, 120)
    status, report = run(daemon)
    assert (status, answer(report)) == (0, ("FORBIDDEN", "passed"))
    assert procfs.eventually(lambda: not in_state(daemon, ".layers-canary/*"))


@pytest.mark.skipif(SYSTEM or INSTALLED, reason="the template is on disk below the forks in user mode alone")
def test_a_template_that_is_changed_is_seen(own_daemon):
    """What forks show is compared with what was frozen. The spawner is stopped while the template is changed."""
    template = own_daemon.state / "templates" / ".selftest" / "canary" / "inside" / "f"

    def changed():
        with own_daemon.control() as control:
            asked = control.request("selftest")
            hold_spawner(own_daemon, template.exists)
            with contextlib.suppress(FileNotFoundError):  # it was removed again
                template.write_text("forged\n")
            os.kill(own_daemon.spawner(), signal.SIGCONT)
            failed = wrong(control.result(asked))
        assert set(failed) <= {"template-shown", "sibling-shown"} and set(failed.values()) <= {("shown", "changed")}
        return failed
    # The spawner may have been faster.
    assert procfs.eventually(changed, 120)
    status, report = run(own_daemon)
    assert (status, wrong(report)) == (0, {})


def test_required_and_failed(start_holed, account):
    daemon = start_holed(config=config(account, selftest="required"))
    assert procfs.eventually(lambda: "self-test: FAILED" in daemon.log(), 60)
    with daemon.connect() as client, daemon.control(groups=(account.gid,)) as control:
        assert refusal(client) == "FORBIDDEN"
        assert control.call("status")["selftest"]["required"]
        assert control.call("selftest")["result"] == "failed"
        assert refusal(client) == "FORBIDDEN"


def test_a_canary_that_cannot_be_had_is_a_failure(own_daemon):
    (own_daemon.state / "workspaces" / ".selftest").write_text("")
    status, report = run(own_daemon)
    assert (status, report["passed"]) == (1, 0)
    assert all(probe["answer"].startswith("no canary: ") for probe in report["probes"])


def test_observers_may_not_run_it(start_daemon, tenants, account):
    text = f"[cloister]\ntenants = none\nadmin_group = {account.gid}\nobserver_group = {tenants[0].gid}\n"
    daemon = start_daemon(config=text)
    with daemon.control(tenants[0], groups=(tenants[0].gid,)) as observer:
        assert observer.call_error("selftest") == "FORBIDDEN"
        assert observer.call("status")["selftest"]["result"] == "never"
