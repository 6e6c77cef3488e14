# SPDX-License-Identifier: Apache-2.0
"""The control socket and cloisterctl: who is admitted, what each role may do, and what each method answers."""

import json
import os
import re
import select
import subprocess

import pytest

import procfs
from cloister_client import RpcError
from daemon import BUILD, environment


LOOKING = ("status", "health", "workspaces", "commands", "tenants", "doctor", "metrics", "events")
ACTING = ("drain", "resume", "reload")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")


def error_of(client, method, params=None):
    with pytest.raises(RpcError) as caught:
        client.call(method, params)
    return caught.value


@pytest.fixture
def control(daemon):
    with daemon.control() as connected:
        yield connected
        connected.call("resume")


def calls_of(control):
    return control.call("commands")["calls"]


def start_command(client, control, command, **keywords):
    """Begins a command and returns its id and its number at the control socket, once it runs."""
    number = client.begin("run_command", {"command": command, **keywords})

    def running():
        return [call["call"] for call in calls_of(control)
                if call.get("command") == command[:160] and call["state"] == "running"]

    assert procfs.eventually(running)
    return number, running()[0]


# Roles


@pytest.fixture
def roles(start_daemon, tenants):
    """A daemon, and clients of it: an agent, an administrator, an observer, and a user without a role."""
    agent, admin, observer = tenants
    daemon = start_daemon(config=f"""[cloister]
agent_socket_mode = 0666
admin_group = {admin.name}
observer_group = {observer.name}
[tenant t]
users = {agent.name}
managed = yes
""")
    return daemon, agent, admin, observer


@as_root
def test_an_admin_acts_and_an_observer_looks(roles):
    daemon, agent, admin, observer = roles
    client = daemon.connect(agent)
    client.call("workspace.open", {"workspace": "w"})
    acting, looking = daemon.control(admin), daemon.control(observer)
    assert acting.call("status")["role"] == "admin"
    assert looking.call("status")["role"] == "observer"
    call, number = start_command(client, looking, "echo begun; sleep 600")
    for method in LOOKING:
        looking.call(method)
    assert looking.call("show", {"workspace": "w"})["calls"][0]["call"] == number
    for method, params in (("kill", {"call": number}), ("kill", {"workspace": "w"}), ("kill", {"call": "no"}),
                           ("kill", {"nonsense": 1}), *((method, None) for method in ACTING)):
        assert error_of(looking, method, params).name == "FORBIDDEN"
    assert calls_of(looking)[0]["state"] == "running"
    assert acting.call("status")["state"] == "serving"
    assert acting.call("kill", {"call": number}) == {"told": 1, "already_ending": 0}
    assert client.result(call)["output"]["ended_by"] == "admin"
    assert acting.call("reload") == {"tenants": 1}


@as_root
def test_unauthorized_clients_get_forbidden_and_nothing_else(roles):
    """The tenant's user, the daemon's own user and root are in neither group."""
    daemon, agent, _, observer = roles
    answers = set()
    for account, groups in ((agent, ()), (agent, (65000,))):
        for method in (*LOOKING, *ACTING, "kill", "no.such.method", "tools.list"):
            with daemon.control(account, groups) as stranger:
                stranger.request(method, {"call": "x"}, number=7)
                answer = stranger.receive()
                assert answer.pop("id") == 7
                answers.add(json.dumps(answer, sort_keys=True))
                assert stranger.receive() is None
    assert len(answers) == 1
    assert json.loads(answers.pop())["error"]["data"]["code"] == "FORBIDDEN"
    # A supplementary group counts.
    with daemon.control(agent, (65000, observer.gid)) as looking:
        assert looking.call("status")["role"] == "observer"


@as_root
def test_the_services_own_user_may_reload_and_nothing_else(roles):
    """cloisterd's own user has no role and may only reload, which it could also ask for with SIGHUP."""
    daemon, *_ = roles
    with daemon.control(daemon.account) as own:
        for method in (*LOOKING, *ACTING, "kill"):
            if method != "reload":
                assert error_of(own, method).name == "FORBIDDEN"
        assert own.call("reload") == {"tenants": 1}


@as_root
def test_the_units_reload_says_whether_it_was_done(roles):
    """ExecReload= of the unit runs as the service's user, who is in no group of the control socket, and reports a
    failure."""
    daemon, *_ = roles
    unit = (BUILD / "packaging/systemd/cloister.service").read_text()
    _, words, _ = re.findall("(?m)^ExecReload=(.*)$", unit)
    program, *rest = words.split()
    user = daemon.account

    def reload():
        return subprocess.run(
            [BUILD / "bin" / os.path.basename(program), *rest], check=False, capture_output=True, text=True, timeout=120,
            user=user.uid, group=user.gid, extra_groups=[], cwd="/",
            env={"CLOISTER_CONTROL_SOCKET": str(daemon.control_socket)})
    text = daemon.config.read_text()
    line = len(text.splitlines()) + 1
    # --check accepts the second file, because it does not know how cloisterd was started.
    for wrong, reason in ((text + "no_such_key = 1\n", f'cloister.conf:{line}: unknown key "no_such_key"'),
                          (text.replace("[cloister]", "[cloister]\numask = 0027"), "umask is fixed at start: restart")):
        daemon.config.write_text(wrong)
        refused = reload()
        assert refused.returncode == 1 and refused.stdout == "" and reason in refused.stderr, refused
        assert procfs.eventually(lambda: reason in daemon.log() and "was not reloaded" in daemon.log())
    daemon.config.write_text(text + "[tenant u]\nmanaged = yes\n")
    done = reload()
    assert (done.returncode, done.stdout, done.stderr) == (0, "the configuration is reloaded: 2 tenants\n", "")
    daemon.stop()
    gone = reload()
    assert gone.returncode == 3 and "no service" in gone.stderr


@as_root
def test_without_groups_there_is_no_administrator(start_daemon, tenants):
    daemon = start_daemon(config=f"[cloister]\nagent_socket_mode = 0666\n[tenant t]\nusers = {tenants[0].name}\n")
    for account in (daemon.account, tenants[0]):
        with daemon.control(account) as client:
            assert error_of(client, "status").name == "FORBIDDEN"


@as_root
def test_in_user_mode_others_cannot_even_connect(daemon, tenants):
    with pytest.raises(PermissionError):
        daemon.control(tenants[0])


@as_root
def test_observers_leave_room_for_an_admin(roles):
    daemon, _, admin, observer = roles
    observers = [daemon.control(observer) for _ in range(33)]
    assert observers[31].call("status")["role"] == "observer"
    assert observers[32].receive()["error"]["data"]["code"] == "BUSY"
    assert daemon.control(admin).call("status")["role"] == "admin"


# Kill


def test_a_killed_command_says_so_and_leaves_nothing(daemon, client, workspace, control):
    away, last = (f"sleep {os.getpid()}.{number}" for number in (4711, 4712))  # a mark that no other process on this host has
    call, number = start_command(client, control, f"(setsid {away} &) ; echo partial; {last}")
    # Only exact command lines count: the shell's contains both words before it prints them.
    assert procfs.eventually(lambda: {away, last} <= {procfs.command_line(pid) for pid in procfs.pids()})
    assert control.call("kill", {"call": number}) == {"told": 1, "already_ending": 0}
    observation = client.result(call)
    assert not observation["success"]
    assert observation["error"]["code"] == "CANCELLED"
    assert observation["error"]["message"].startswith("An administrator ended the command")
    assert observation["output"]["ended_by"] == "admin"
    assert observation["output"]["stdout"] == "partial\n"
    assert not procfs.having(away) and not procfs.having(last)
    assert error_of(control, "kill", {"call": number}).name == "NOT_FOUND"
    assert client.run("echo on")["stdout"] == "on\n"


# Looking


def test_the_size_of_a_workspace(daemon, client):
    """It is measured when somebody looks, while calls run or after them. What is on disk counts, not how long files are."""
    workspace = daemon.new_workspace(client)

    def size():
        (row,) = [row for row in control.call("workspaces")["workspaces"] if row["workspace"] == str(workspace)]
        return (row["disk_bytes"] or 0) // 1_000_000, row["disk_files"], row["disk_partial"]

    with daemon.control() as control:
        client.run("head -c 5M /dev/zero >a; ln a b; truncate -s 1G sparse; ln -s / out; mkdir d; echo >d/c")
        assert procfs.eventually(lambda: size() == (5, 5, False)), size()
        client.run("mkdir d/hidden; chmod 0 d/hidden")
        assert procfs.eventually(lambda: size() == (5, 5, True)), size()
        client.run("rm -rf a b sparse d/hidden")
        assert procfs.eventually(lambda: size() == (0, 2, False)), size()
        client.use("write_file", path="e", content="x" * 3_000_000)
        assert procfs.eventually(lambda: size() == (3, 3, False)), size()
    done = daemon.ctl("workspaces").stdout.decode().splitlines()
    assert "SIZE" in done[0].split() and [line for line in done if line.endswith(str(workspace)) and re.search(r"\b[23]\.\dM\b", line)]


def enforcement(daemon):
    with daemon.control() as control:
        return {line["what"]: line for line in control.call("status")["enforcement"]}


def test_status_says_what_is_not_enforced(daemon, client):
    """Without a delegated cgroup, status names the same limits as workspace.open, with the reason."""
    isolation = client.call("workspace.open", {"root": str(daemon.area.new_directory())})["isolation"]
    assert not isolation["cgroup"]
    lines = enforcement(daemon)
    for what in ("memory", "processes", "cpu", "io"):
        assert lines[what]["by"] == isolation["limits"][what] != "cgroup"
        assert lines[what]["why"] == isolation["cgroup_missing"]
        assert lines[what]["enforced"] == (lines[what]["by"] != "none")
    assert not lines["memory"]["enforced"]
    assert lines["landlock"]["enforced"] == isolation["landlock"] == (lines["landlock"]["why"] is None)
    assert lines["system calls of commands"]["by"] == "seccomp"
    assert lines["network"]["by"] == "network namespace"


def first_line(daemon):
    return daemon.ctl("status").stdout.decode().splitlines()[0]


def test_the_first_line_of_status_is_what_is_not_enforced(daemon):
    missing = [what for what, line in enforcement(daemon).items() if not line["enforced"]]
    assert "memory" in missing and first_line(daemon) == f"NOT ENFORCED {', '.join(missing)}"


def test_status_says_what_a_cgroup_enforces(start_daemon, delegation):
    daemon = start_daemon(launcher=delegation.launcher())
    lines = enforcement(daemon)
    kept = {"memory": "memory", "processes": "pids", "cpu": "cpu"}
    for what, controller in kept.items():
        there = controller in delegation.controllers()
        assert (lines[what]["by"] == "cgroup") == there
        assert bool(lines[what]["why"]) != there
        if not there:
            assert controller in lines[what]["why"]
    missing = [what for what, line in lines.items() if not line["enforced"]]
    assert first_line(daemon) == f"NOT ENFORCED {', '.join(missing)}"
    assert ("memory" in missing) == ("memory" not in delegation.controllers())


def test_doctor_agrees_with_status(daemon, control):
    features = {feature["feature"]: feature for feature in control.call("doctor")["features"]}
    assert features["cgroups"]["present"] == enforcement(daemon)["memory"]["enforced"]
    for feature in features.values():
        assert bool(feature["cost"]) == bool(feature["fix"]) == (not feature["present"])


def test_long_commands_are_cut_at_a_character(client, workspace, control):
    command = "true " + "é" * 3000 + "; sleep 600"
    number = client.begin("run_command", {"command": command})
    assert procfs.eventually(lambda: calls_of(control))
    (listed,) = calls_of(control)
    assert listed["cut"] and command.startswith(listed["command"])
    assert len(listed["command"].encode()) == 159
    (shown,) = control.call("show", {"call": listed["call"]})["calls"]
    assert shown["cut"] and len(shown["command"].encode()) == 4095
    assert client.cancel(number)
    client.result(number)


# Drain, reload


def test_drain_lets_calls_finish_and_takes_no_new_ones(daemon, client, workspace, control):
    call, _ = start_command(client, control, "until [ -e go ]; do sleep 0.05; done; echo finished")
    assert control.call("drain") == {"draining": True, "calls": 1}
    assert control.call("status")["state"] == "draining"
    for tool, arguments in (("run_command", {"command": "true"}), ("list_directory", {"path": "."})):
        error = client.fail(tool, **arguments)
        assert error["code"] == "SHUTTING_DOWN" and "later" in error["message"]
    with daemon.connect() as late:
        assert late.call_error("workspace.open", {"root": str(workspace)}) == "SHUTTING_DOWN"
    (workspace / "go").touch()
    assert client.result(call)["output"]["stdout"] == "finished\n"
    assert control.call("resume") == {"draining": False, "calls": 0}
    assert client.run("echo again")["stdout"] == "again\n"


@as_root
def test_reload_is_all_or_nothing(roles):
    daemon, _, admin, _ = roles
    control = daemon.control(admin)
    text = daemon.config.read_text()
    daemon.config.write_text(text + "[tenant u]\nmanaged = perhaps\n")
    error = error_of(control, "reload")
    line = len(text.splitlines()) + 2
    assert error.name == "EXECUTION_ERROR" and f"cloister.conf:{line}: managed: " in error.message
    daemon.config.write_text(text.replace("[cloister]", "[cloister]\ncontrol_socket = /run/other"))
    assert "control_socket is fixed at start" in error_of(control, "reload").message
    assert control.call("status")["tenants"] == 1
    daemon.config.write_text(text + "[tenant u]\nmanaged = yes\n")
    assert control.call("reload") == {"tenants": 2}
    assert [tenant["tenant"] for tenant in control.call("tenants")["tenants"]] == ["t", "u"]


def test_without_a_file_there_is_nothing_to_reload(control):
    assert error_of(control, "reload").name == "NOT_FOUND"


# Metrics, events


def metrics_of(control):
    text = control.call("metrics")["text"]
    assert text.endswith("\n# EOF\n") and "\n\n" not in text
    samples, families = {}, {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            families[family] = kind
        elif not line.startswith("# HELP "):
            name, value = line.rsplit(" ", 1)
            samples[name] = float(value)
            base = name.split("{")[0]
            assert any(base == family or base.startswith(family + "_") for family in families), line
    return samples


def test_metrics_count_lost_cells(own_daemon):
    client, control = own_daemon.connect(), own_daemon.control()
    own_daemon.new_workspace(client)
    client.run("true")
    os.kill(own_daemon.cells()[0][0], 9)
    assert procfs.eventually(lambda: metrics_of(control)["cloister_cells_lost_total"] == 1)
    client.run("true")
    client.call("workspace.close", {"workspace": control.call("workspaces")["workspaces"][0]["workspace"]})
    assert procfs.eventually(lambda: not control.call("workspaces")["workspaces"])
    assert control.call("status")["cells_lost"] == 1


def refusals(control):
    """Returns the refusals of which cloisterd has told @control since the last call of this function."""
    control.call("status")
    events = [message["params"] for message in control.notifications]
    control.notifications.clear()
    return [event for event in events if event["event"] == "refused"]


def test_events_tell_of_refusals(start_daemon, area):
    daemon = start_daemon(config=f"""[cloister]
admin_group = {area.account.gid}
[tenant t]
users = {area.account.uid}
managed = yes
connections = 1
blocked_commands = shutdown
""")
    control, client = daemon.control(), daemon.connect()
    control.call("events")
    client.call("workspace.open", {"workspace": "w"})
    client.fail("run_command", command="shutdown now")
    client.fail("read_file", path="/etc/passwd")
    client.call_error("workspace.open", {"root": "/etc"})
    with daemon.connect() as second:
        assert second.receive()["error"]["data"]["code"] == "BUSY"
    events = refusals(control)
    found = [tuple(event[name] for name in ("what", "tenant", "workspace", "tool", "code")) for event in events]
    assert found == [("call", "t", "w", "run_command", "COMMAND_BLOCKED"),
                     ("call", "t", "w", "read_file", "PATH_OUTSIDE_WORKSPACE"),
                     ("workspace.open", "t", "/etc", None, "FORBIDDEN"),
                     ("connection", "t", None, None, "BUSY")]
    for event in events:
        assert event["uid"] == area.account.uid and event["message"] and event["untold"] == 0


@as_root
def test_a_flood_of_refusals_is_a_few_events(start_daemon, tenants):
    """cloisterd bounds the refusals that it tells of each tenant, and of clients without a tenant. A flood of one leaves
    the others their share."""
    one, other, admin = tenants
    daemon = start_daemon(config=f"""[cloister]
agent_socket_mode = 0666
admin_group = {admin.name}
[tenant one]
users = {one.name}
managed = yes
[tenant other]
users = {other.name}
managed = yes
""")
    control, flooding, quiet = daemon.control(admin), daemon.connect(one), daemon.connect(other)
    control.call("events")
    for client in (flooding, quiet):
        client.call("workspace.open", {"workspace": "w"})

    def refuse(client, times):
        for _ in range(times):
            client.fail("read_file", path="/etc/passwd")

    many, told = 2000, []
    refuse(flooding, many)
    refuse(quiet, 1)
    with daemon.connect(admin) as stranger:
        assert stranger.call_error("workspace.list") == "FORBIDDEN"
    told += refusals(control)
    assert [event["code"] for event in told if event["tenant"] == "other"] == ["PATH_OUTSIDE_WORKSPACE"]
    assert [(event["what"], event["uid"], event["code"]) for event in told if not event["tenant"]] == [
        ("connection", admin.uid, "FORBIDDEN")]
    more = 0

    def all_are_counted():
        nonlocal more, told
        refuse(flooding, 1)
        more += 1
        told += refusals(control)
        of_one = [event for event in told if event["tenant"] == "one"]
        return len(of_one) + sum(event["untold"] for event in of_one) == many + more

    assert procfs.eventually(all_are_counted)
    # LIMIT_REFUSALS_TOLD for each second that the flood took, which is far fewer than the refusals.
    assert len([event for event in told if event["tenant"] == "one"]) < many / 2


def test_a_refusal_s_names_are_cut(daemon, client, workspace, control):
    control.call("events")
    client.wait(client.begin("no such tool " + "é" * 4000, {}))
    (event,) = refusals(control)
    assert event["code"] == "UNKNOWN_TOOL" and len(event["tool"].encode()) <= 160 >= len(event["message"].encode())


# cloisterctl


def test_a_refusal_is_escaped_too(start_daemon, account):
    config = f"[cloister]\nadmin_group = {account.gid}\n[tenant t]\nmanaged = "
    daemon = start_daemon(config=config + "yes\n")
    daemon.config.write_text(config + "\u202ewon\n")
    completed = daemon.ctl("reload")
    assert completed.returncode == 1
    assert r"\u{202e}won" in completed.stderr.decode() and "\u202e" not in completed.stderr.decode()


def test_sockets_have_their_usual_places(area):
    """Without options both sockets are in XDG_RUNTIME_DIR, and cloisterctl finds the control socket."""
    runtime = area.new_directory("runtime")
    env = environment(area.home) | {"XDG_RUNTIME_DIR": str(runtime)}
    with area.start(["cloisterd"], env=env, stderr=subprocess.DEVNULL) as process:
        try:
            assert procfs.eventually(lambda: (runtime / "cloister" / "control.sock").exists())
            assert procfs.eventually(
                lambda: area.run("cloisterctl", "status", env=env).stdout.startswith(b"NOT ENFORCED "), 20)
            assert (runtime / "cloister" / "control.sock").stat().st_mode & 0o777 == 0o600
            env["CLOISTER_CONTROL_SOCKET"] = "/nowhere"
            assert area.run("cloisterctl", "status", env=env).returncode == 3
        finally:
            process.terminate()
    assert process.returncode == 0
    assert not (runtime / "cloister" / "control.sock").exists()


def test_cloisterctl_follows_events(daemon, client, workspace, control):
    words = ["cloisterctl", "--socket", str(daemon.control_socket), "events"]
    with daemon.area.start(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        assert procfs.eventually(lambda: control.call("status")["control_connections"] == 2)
        events = []
        # cloisterctl may not have connected yet when the first calls end, or it may ask while one runs.
        while [event["event"] for event in events[-2:]] != ["call_begin", "call_end"]:
            client.run("echo one")
            while select.select([process.stdout], [], [], 0.1)[0]:
                events.append(json.loads(process.stdout.readline()))
        process.terminate()
    assert events[-2]["command"] == "echo one"


def test_cloisterctl_prints_tables_and_json(daemon, client, workspace, control):
    call, number = start_command(client, control, "sleep 600")
    table = daemon.ctl("commands").stdout.decode()
    heading, row = table.splitlines()
    assert heading.split()[0] == "CALL" and row.split()[0] == number and row.endswith("sleep 600")
    assert row.index("running") == heading.index("STATE")
    (listed,) = json.loads(daemon.ctl("--json", "commands").stdout)["calls"]
    assert listed["call"] == number
    for words in (["status"], ["workspaces"], ["tenants"], ["doctor"], ["metrics"], ["show", number], ["show", str(workspace)],
                  ["drain"], ["resume"]):
        completed = daemon.ctl(*words)
        assert (completed.returncode, completed.stderr) == (0, b"") and completed.stdout, words
        json.loads(daemon.ctl(*words, "--json").stdout)
    assert str(workspace) in daemon.ctl("workspaces").stdout.decode()
    killed = daemon.ctl("kill", number)
    assert (killed.returncode, killed.stdout) == (0, b"1 calls are being ended, 0 were ending already\n")
    assert client.result(call)["output"]["ended_by"] == "admin"


def test_cloisterctl_exit_statuses(daemon, area):
    assert daemon.ctl("status").returncode == 0
    for words in (("kill", "nobodys"), ("show", "0123456789abcdef"), ("reload",)):
        assert daemon.ctl(*words).returncode == 1
    for words in ((), ("nonsense",), ("status", "x"), ("kill",), ("kill", "a", "b"), ("--tenant", "x", "status"),
                  ("--nonsense", "status")):
        completed = daemon.ctl(*words)
        assert completed.returncode == 2 and completed.stderr
    assert area.run("cloisterctl", "--socket", "/nowhere", "status").returncode == 3
    # The agent socket does not have this method.
    assert area.run("cloisterctl", "--socket", str(daemon.socket), "status").returncode == 3


@as_root
def test_cloisterctl_says_that_it_was_refused(roles):
    daemon, *_ = roles
    completed = daemon.ctl("status")
    assert completed.returncode == 3 and b"FORBIDDEN" in completed.stderr


def test_hostile_names_are_escaped_for_the_terminal(own_daemon):
    """The names of a directory and a command hold escape sequences: clear the screen, set the title, reverse the line."""
    daemon = own_daemon
    client, control = daemon.connect(), daemon.control()
    hostile = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp\t\\"
    path = daemon.area.directory(f"evil{hostile}\n")
    client.call("workspace.open", {"root": str(path)})
    call, number = start_command(client, control, f": '{hostile}'; sleep 600")
    for words in (["workspaces"], ["commands"], ["show", number], ["show", str(path)], ["kill", str(path) + "x"]):
        completed = daemon.ctl(*words)
        text = (completed.stdout + completed.stderr).decode()
        assert not [c for c in text if ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 or c == "\u202e"], text
        if words[0] != "kill":
            assert r"\x1b[2J\x1b]0;owned\x07\x0d\u{9b}31m\u{202e}gnp\t\\" in text
    lines = daemon.ctl("workspaces").stdout.decode().splitlines()
    assert len(lines) == 2 and lines[1].endswith(r"\\\n")
    assert client.cancel(call)
    client.result(call)


def test_a_list_that_is_too_long_is_cut_and_says_so(daemon, control):
    """A list has a bound, however many calls there are and however long their commands."""
    client = daemon.connect()
    workspace = daemon.new_workspace(client)
    many = 250
    for i in range(many):
        client.request("tool.call", {"tool": "run_command", "arguments": {"command": f"sleep 60 # {i} {'x' * 4000}"}},
                       number=1000 + i)
    assert procfs.eventually(lambda: control.call("status")["calls"] >= many)
    shown = control.call("show", {"workspace": str(workspace)})
    assert 50 < len(shown["calls"]) < many
    assert len(shown["calls"]) + shown["calls_omitted"] == many
    everything = control.call("commands")
    assert len(everything["calls"]) >= many and "calls_omitted" not in everything
    control.call("kill", {"workspace": str(workspace)})
    for _ in range(many):
        client.receive_any()
