# SPDX-License-Identifier: Apache-2.0
"""Reports of doctor and of cloisterd itself on hosts that lack something that workspaces need."""

import os

import pytest

from cloister_client import RpcError

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make such a host")


def as_account(account):
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"] if account.made else []


def without(account, name):
    """Returns a launcher into a user namespace in which no namespace of this kind can be made: namespaces(7)."""
    script = f'echo 0 > /proc/sys/user/max_{name}_namespaces; exec "$@"'
    return [*as_account(account), "unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]


def feature(daemon, name):
    with daemon.control() as control:
        (found,) = [row for row in control.call("doctor")["features"] if row["feature"] == name]
    return found


def test_a_host_that_has_them(daemon, client, workspace):
    for name in "namespaces", "fresh_proc", "system_calls":
        assert feature(daemon, name) == {"feature": name, "present": True, "cost": None, "fix": None}
    client.run("true")


def examined(area, *words, **keywords):
    """`cloisterd --doctor`: its exit status, its words by feature, and all that it printed."""
    done = area.run("cloisterd", "--doctor", *words, **keywords)
    text = done.stdout.decode()
    found = dict(reversed(line.split()) for line in text.splitlines() if not line.startswith(" "))
    return done.returncode, found, text


def test_without_a_service(area, start_daemon):
    """It prints what a service started in the same way prints, starts none, and its status says if something is missing."""
    state = area.home / ".local/state/cloister"
    before = state.exists()  # of another test
    status, found, text = examined(area)
    assert state.exists() == before
    daemon = start_daemon()
    with daemon.control() as control:
        rows = control.call("doctor")["features"]
    assert found == {row["feature"]: "ok" if row["present"] else "missing" for row in rows}
    assert status == int("missing" in found.values())
    assert text.encode() == daemon.ctl("doctor").stdout


def test_without_a_service_on_a_host_that_lacks_something(area, account):
    status, found, text = examined(area, without="openat2")
    assert status == 1 and found["system_calls"] == "missing" and "openat2 (Linux 5.6)" in text
    status, found, text = examined(area, launcher=without(account, "net"))
    assert status == 1 and found["namespaces"] == "missing" and "sysctl -w user.max_net_namespaces=15000" in text
    assert examined(area)[1]["namespaces"] == "ok"


@pytest.mark.parametrize("more", [["--check"], ["--connection-fd=3"], ["operand"]])
def test_doctor_goes_with_nothing_else(area, more):
    done = area.run("cloisterd", "--doctor", *more)
    assert done.returncode == 2 and b"cloisterd --doctor" in done.stderr


def test_no_user_namespaces(area, account):
    """Without user namespaces cloisterd does not start, and its message names the setting to change."""
    place = area.new_directory()
    done = area.run("cloisterd", "--agent-socket", str(place / "s"), "--state-dir", str(place / "state"),
                    launcher=without(account, "user"))
    assert done.returncode == 1
    assert b"sysctl -w user.max_user_namespaces=15000" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["net", "pid"])
def test_no_namespaces_for_workspaces(start_daemon, area, account, name):
    daemon = start_daemon(launcher=without(account, name))
    found = feature(daemon, "namespaces")
    assert not found["present"] and f"sysctl -w user.max_{name}_namespaces=15000" in found["fix"]
    assert "no workspace can be opened" in found["cost"]
    assert "could not be tried" in feature(daemon, "fresh_proc")["fix"]  # doctor does not blame /proc
    with pytest.raises(RpcError):
        daemon.new_workspace(daemon.connect())


def test_a_hard_limit_on_cores_of_0(start_daemon, account):
    """doctor warns of a hard core limit of 0, a common hardening: a core_pattern that is a pipe gets commands' cores even
    then. A limit of 1 prevents that. core(5)"""
    daemon = start_daemon(launcher=["prlimit", "--core=0:0", "--", *as_account(account)])
    found = feature(daemon, "core_limit")
    assert not found["present"] and "LimitCORE=1" in found["fix"]
    client = daemon.connect()
    daemon.new_workspace(client)
    assert client.run("ulimit -c; ulimit -H -c")["stdout"] == "0\n0\n"
    again = start_daemon(launcher=["prlimit", "--core=1:1", "--", *as_account(account)])
    assert feature(again, "core_limit")["present"]


@as_root
def test_a_masked_proc(start_daemon, account):
    """Where /proc is masked, as in most containers, doctor says so, and rightly says that no workspace opens."""
    masked = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc/irq && exec "$@"', "sh"]
    daemon = start_daemon(launcher=[*masked, *as_account(account)])
    assert feature(daemon, "namespaces")["present"]
    found = feature(daemon, "fresh_proc")
    assert not found["present"] and "systempaths=unconfined" in found["fix"]
    assert found["cost"] == "no workspace can be opened"
    with pytest.raises(RpcError):
        daemon.new_workspace(daemon.connect())
    said = daemon.ctl("doctor").stdout.decode()
    assert "missing  fresh_proc" in said and "without it: no workspace can be opened" in said


@as_root
def test_it_can_be_required(area, account):
    place = area.new_directory()
    config = place / "c.conf"
    config.write_text(f"[cloister]\nrequire = fresh_proc\n[tenant t]\nusers = {account.uid}\n")
    masked = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc/irq && exec "$@"', "sh"]
    done = area.run("cloisterd", "--config", str(config), "--agent-socket", str(place / "s"), "--state-dir",
                    str(place / "state"), launcher=[*masked, *as_account(account)])
    assert done.returncode == 1
    assert b"the configuration requires fresh_proc" in done.stderr


@pytest.mark.parametrize("lacking,said", [
    ("mount_setattr", ["too old for cloister", "mount_setattr (Linux 5.12)", "run Linux 5.12 or later"]),
    ("pidfd_open", ["pidfd_open (Linux 5.3)", "run Linux 5.12 or later"]),
    ("openat2", ["openat2 (Linux 5.6)"]),
    ("keyctl-refused", ["these system calls are refused: keyctl:", "seccompProfile: {type: Unconfined}"]),
    ("pivot_root-refused", ["these system calls are refused: pivot_root:", "seccomp=unconfined"]),
])
def test_an_old_kernel_and_a_strict_container(start_daemon, lacking, said):
    """cloisterd starts without these system calls. doctor names them, and rightly says that no workspace opens."""
    daemon = start_daemon(without=lacking)
    found = feature(daemon, "system_calls")
    assert not found["present"] and all(words in found["fix"] for words in said), found
    assert len(found["fix"].split("(Linux")) <= 2, "doctor names more than the one missing call"
    assert "no workspace can be opened" in found["cost"]
    with pytest.raises(RpcError):
        daemon.new_workspace(daemon.connect())


def test_doctor_names_what_only_spare_cells_need(start_daemon):
    """doctor names fspick(2) too, which only spare cells need: without it the first workspace opens, and later ones
    fail."""
    found = feature(start_daemon(without="fspick-refused"), "system_calls")
    assert not found["present"] and "these system calls are refused: fspick:" in found["fix"], found


def test_a_kernel_too_old_to_start_on(area):
    place = area.new_directory()
    done = area.run("cloisterd", "--agent-socket", str(place / "s"), "--state-dir", str(place / "state"),
                    without="close_range")
    assert done.returncode == 1
    assert b"close_range (Linux 5.9): run Linux 5.12 or later" in done.stderr, done.stderr


@as_root
def test_what_the_kernel_counts_for_all_workspaces(start_daemon, account):
    """The kernel counts signals and message queues for all workspaces together. Where a limit is too low for the
    workspaces that tenants may open, doctor names the setting and the number."""
    config = f"[cloister]\nadmin_group = {account.name}\n[tenant a]\nusers = {account.name}\nmanaged = yes\nworkspaces = "
    limits = ["prlimit", "--sigpending=20000:20000", "--msgqueue=800000:800000", "--", *as_account(account)]
    daemon = start_daemon(config=config + "20\n", launcher=limits)
    found = feature(daemon, "shared_budgets")
    assert not found["present"]
    assert "LimitSIGPENDING=20480 in cloisterd's unit" in found["fix"] and "for 20 workspaces" in found["fix"]
    assert "LimitMSGQUEUE=5242880" in found["fix"]
    with daemon.control() as control:
        budgets = {row["budget"]: row for row in control.call("status")["shared_budgets"]}
        metrics = control.call("metrics")["text"]
    assert budgets["pending_signals"] == {"budget": "pending_signals", "of_each": 1024, "of_all": 20000, "enough_for": 19}
    assert budgets["message_queue_bytes"]["enough_for"] == 3
    assert budgets["terminals"]["of_each"] == 64
    assert 'cloister_shared_budget_enough_for{budget="pending_signals"} 19\n' in metrics
    # Three workspaces fit into both limits, so doctor names neither.
    found = feature(start_daemon(config=config + "3\n", launcher=limits), "shared_budgets")
    assert found["present"] or not {"LimitSIGPENDING", "LimitMSGQUEUE"} & set(found["fix"].split("="))


@as_root
@pytest.mark.deep("slow")
def test_the_true_maximum_of_tasks(start_daemon, account):
    """doctor and status compare the smallest of the host's limits with what the tenants' commands may start. Here it is
    RLIMIT_NPROC, which holds in the workspaces' user namespaces too."""
    config = (f"[cloister]\nadmin_group = {account.name}\nspare_cells = 0\n[tenant a]\nusers = {account.name}\nmanaged = yes\n"
              "workspaces = 2\nsessions = 0\ncommand_processes = 250\ncommands = ")
    limits = ["prlimit", "--nproc=400:800", "--", *as_account(account)]
    daemon = start_daemon(config=config + "2\n", launcher=limits)
    found = feature(daemon, "command_tasks")
    assert not found["present"], found
    assert "may start 500 processes and threads together, and the host gives 400 (LimitNPROC= of cloisterd's unit)" in found["cost"]
    assert "of which 388 are left" in found["cost"] and "raise LimitNPROC= of cloisterd's unit to 512" in found["fix"], found
    with daemon.control() as control:
        status = control.call("status")
    assert status["tasks"] == {"of_host": 400, "limited_by": "LimitNPROC= of cloisterd's unit", "left": 388, "of_commands": 500}
    assert {"budget": "user_processes", "of_each": 6, "of_all": 400, "enough_for": 66} in status["shared_budgets"]
    # The number is true: two workspaces cannot have 250 processes each.
    forks = ("n = 0\ntry:\n while n < 240:\n  os.fork() or time.sleep(600)\n  n += 1\nexcept BlockingIOError:\n pass\n"
             "print(n, flush=True)\ntime.sleep(600)")
    running = []
    for name in "vw":
        client = daemon.connect()
        client.call("workspace.open", {"workspace": name})
        running.append((client, client.begin("run_command", {"command": f"python3 -c 'import os, time\n{forks}'",
                                                              "timeout_ms": 4000})))
    counts = [int(client.wait(number)["result"]["output"]["stdout"]) for client, number in running]
    assert 240 < sum(counts) < 400 and min(counts) < 240, counts
    assert feature(start_daemon(config=config + "1\n", launcher=limits), "command_tasks")["present"]
