# SPDX-License-Identifier: Apache-2.0
"""The examples in the manual pages are true: the commands run, the messages are answered as shown, and the members
named are those that come."""

import json
import os
import re
import subprocess

import pytest

import manual
import procfs
from cloister_client import acting_as
from daemon import environment, user_mode_only

PROTOCOL, CONTROL = "cloister-protocol.7", "cloister-control.7"
pytestmark = user_mode_only


def shell(area, line, directory, **variables):
    """Runs a command line of an example as the user, with this build's programs first in PATH."""
    env = {**environment(area.home), **variables}
    env["PATH"] = f"{area.bin}:{env['PATH']}"
    with acting_as(os.getuid()):
        return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", line], cwd=directory, env=env, text=True,
                              capture_output=True, timeout=120, **area.account.as_user())


def ran(done, page, line):
    assert done.returncode == 0, f"man/{page}: {line}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


# Commands


def test_cloister(area):
    """Each example runs without a service, in a private instance."""
    manual.need("jq")
    directory = area.new_directory()
    with acting_as(area.account.uid, area.account.gid):
        (directory / "README.md").write_text("one\ntwo\nthree\nfour\n")
        (directory / "Makefile").write_text("test:\n\techo made\n")
        (directory / "a.c").write_text("// TODO\n")
    lines = manual.commands("cloister.1")
    assert len(lines) >= 6
    said = {line: ran(shell(area, line, directory), "cloister.1", line).stdout for line in lines}
    by_word = lambda word: next(out for line, out in said.items() if word in line)  # noqa: E731
    assert by_word("read_file").count("\\n") == 3
    assert "made" in by_word("make test")
    assert by_word("search_files") == "a.c\n"
    assert by_word("-- sort") == "a\nb\n"
    assert len(json.loads(by_word("tools --format"))) == 5
    assert (directory / "notes.txt").read_text() == "two\nlines\n"


def test_the_mcp_client_s_configuration():
    block = next(block for block in manual.literals("cloister.1", "EXAMPLES") if "mcpServers" in block)
    server = json.loads(block)["mcpServers"]["cloister"]
    assert server["command"] == "cloister" and server["args"][-1] == "mcp"


@pytest.fixture
def service(start_daemon, account):
    """The service that the examples of cloisterctl(1) assume: a tenant alice with a workspace, and an audit log."""
    group = account.gid
    daemon = start_daemon(config=f"[cloister]\nadmin_group = {group}\naudit = on\n"
                                 f"[tenant alice]\nusers = {account.uid}\nmanaged = yes\n")
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "build"})
    return daemon, client


@pytest.mark.deep("slow")
def test_cloisterctl(area, service):
    manual.need("jq")
    daemon, client = service
    call = client.begin("run_command", {"command": "sleep 1000", "timeout_ms": 600000})
    log = daemon.state / "audit" / "audit.log"
    assert procfs.eventually(lambda: log.exists() and b"call.admitted" in log.read_bytes())
    log.rename(log.with_suffix(".log.1"))
    for page in ("cloister-security.7", "cloisterctl.1"):
        lines = manual.commands(page)
        assert len(lines) >= 4
        for line in lines:
            if "audit verify" in line:
                assert procfs.eventually(log.exists)
            ran(shell(area, line, log.parent, CLOISTER_CONTROL_SOCKET=str(daemon.control_socket)), page, line)
            if page == "cloister-security.7":  # the second page needs the log to be reopened
                assert daemon.ctl("reload").returncode == 0
    assert client.result(call)["output"]["ended_by"] == "admin"


def test_cloisterd(area, account):
    directory = area.new_directory()
    config = directory / "cloister.conf"
    config.write_text("[cloister]\ntenants = none\n")
    account.own(config)
    check, instance = [line for line in manual.commands("cloisterd.8") if not line.startswith("systemd-run")]
    assert "/etc/cloister/cloister.conf" in check
    ran(shell(area, check.replace("/etc/cloister/cloister.conf", str(config)), directory), "cloisterd.8", check)
    done = shell(area, f"{instance} & for i in $(seq 600); do [[ -S agent.sock && -S control.sock && -d state ]] && break; "
                       "sleep 0.1; done; [[ -S agent.sock && -S control.sock && -d state ]]; kill %1; wait %1", directory)
    ran(done, "cloisterd.8", instance)


def test_configuration(area, account):
    """The example of cloister.conf(5), with its drop-in."""
    main, drop_in = manual.literals("cloister.conf.5", "EXAMPLES")
    directory = area.new_directory()
    (directory / "cloister.conf.d").mkdir()
    (directory / "cloister.conf").write_text(main)
    (directory / "cloister.conf.d" / "50-less.conf").write_text(drop_in)
    for path in (directory / "cloister.conf.d", directory / "cloister.conf",
                 directory / "cloister.conf.d" / "50-less.conf"):
        account.own(path)
    done = area.run("cloisterd", "--config", str(directory / "cloister.conf"), "--check")
    assert (done.returncode, done.stderr) == (0, b"")


# The protocol's examples

VOLATILE = {"wall_us", "user_us", "system_us", "max_rss_bytes", "duration_ms", "mtime", "created", "tenant", "version"}
MEASURED = {"bytes", "files"}  # null until the service has measured the workspace
OPTIONAL = {"cgroup_missing", "peak_memory_bytes", "io_read_bytes", "io_write_bytes"}


def same(shown, came, where, key=None):
    """Compares what the page shows with what came, except for values that depend on the time or the host."""
    if isinstance(shown, dict):
        assert isinstance(came, dict) and set(shown) - OPTIONAL == set(came) - OPTIONAL, (where, shown, came)
        for name in set(shown) - OPTIONAL:
            # Which isolation holds depends on the host; the members do not.
            same(shown[name], came[name], f"{where}.{name}", None if key == "isolation" and name != "limits" else name)
    elif isinstance(shown, list) and shown and isinstance(shown[0], dict):
        for one in shown:
            assert any(matches(one, other, where) for other in came), (where, one, came)
    elif isinstance(shown, str) and "..." in shown:
        assert came.startswith(shown.split("...")[0]), (where, shown, came)
    elif key in MEASURED:
        assert came is None or type(shown) is type(came), (where, shown, came)
    elif key in VOLATILE or key in ("memory", "processes", "cpu", "io", None):
        assert type(shown) is type(came), (where, shown, came)
    else:
        assert shown == came, (where, shown, came)


def matches(shown, came, where):
    try:
        same(shown, came, where)
    except AssertionError:
        return False
    return True


def test_messages(daemon, client):
    path = daemon.area.new_directory()
    exchanged = manual.messages(PROTOCOL)
    assert len(exchanged) >= 6
    came = {}

    def wait_for(key):
        while key not in came:
            answer = client.receive()
            came[answer.get("id", answer.get("method"))] = answer
        return came[key]

    for direction, message in exchanged:
        message = json.loads(json.dumps(message).replace("/home/me/tree", str(path)))
        if direction == "<-":
            same(message, wait_for(message.get("id", message.get("method"))), f"man/{PROTOCOL}")
            continue
        client.send(message)
        # The page shows the answers to these later, behind other messages.
        if message["method"] not in ("tool.call", "file.write"):
            assert "error" not in wait_for(message["id"]), message


# Members that come against members that the page names


def members(value):
    """Returns the names of all members of @value."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(members, value.values()))


def named(subsection):
    return manual.words(manual.part(CONTROL, "CONTROL METHODS", subsection), "Va")


def test_results_of_the_control_methods(service):
    """The page names every member that comes and no others, except for members that come only sometimes."""
    daemon, client = service
    at_times = {"subject", "error", "cost", "fix", "why", "ended_ms", "result",
                "workspaces_omitted", "calls_omitted", "moved_to", "old_daemon", "pid", "commands", "copies",
                "template_memory", "bytes", "limit_bytes", "obstacle"}
    call = client.begin("run_command", {"command": "sleep 1000", "timeout_ms": 600000})
    with daemon.control() as control:
        assert procfs.eventually(lambda: control.call("commands")["calls"])
        for method in ("status", "workspaces", "commands", "tenants", "doctor", "metrics", "drain", "resume",
                       "reload", "selftest"):
            result = control.call(method)
            if method == "status":
                states = set(result["workspaces"])
                result["workspaces"] = {}
                assert states <= manual.words(manual.part(CONTROL, "CONTROL METHODS", "status"), "Cm")
            documented = named("drain" if method == "resume" else method)
            came = members(result)
            assert came <= documented, f"man/{CONTROL}, {method}, does not name {came - documented}"
            assert documented - at_times <= came, f"man/{CONTROL}, {method}, names {documented - came}"
        shown = control.call("show", {"workspace": "build"})
        assert set(shown) == named("show")
        assert members(shown) <= named("show") | named("commands") | named("workspaces")
        assert members(control.call("kill", {"workspace": "build"})) == named("kill")
    client.result(call)


def test_events(service):
    daemon, client = service
    with daemon.control() as control:
        control.call("events")
        client.run("true")
        client.fail("read_file", path="none")
        events = [control.receive()["params"] for _ in range(4)]
    assert {event["event"] for event in events} == {"call_begin", "call_end"}
    page = manual.part(CONTROL, "CONTROL METHODS", "events")
    assert {"call_begin", "call_end"} <= manual.words(page, "Cm")
    assert members(events) <= manual.words(page, "Va"), members(events) - manual.words(page, "Va")


def test_isolation(client, daemon):
    path = daemon.area.new_directory()
    isolation = client.call("workspace.open", {"root": str(path)})["isolation"]
    page = manual.part("cloister-security.7", "CHECKING A HOST", "isolation")
    heads = manual.words(page, "Va", True)
    manual.agree(heads - {"cgroup_missing"}, set(isolation) - {"cgroup_missing"},
                 "man/cloister-security.7, isolation,", "members")
    assert set(isolation["limits"]) <= manual.words(page, "Va")


def test_audit_log(area, service):
    daemon, client = service
    client.call("workspace.open", {"workspace": "other"})
    client.run("true")
    client.fail("read_file", path="../out")
    client.call("workspace.close", {"workspace": "other"})
    client.call("workspace.remove", {"workspace": "other"})
    client.call_error("workspace.open", {"root": "/"})
    daemon.ctl("drain")
    log = daemon.state / "audit" / "audit.log"
    assert procfs.eventually(lambda: b"admin.act" in log.read_bytes())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    page = manual.part(CONTROL, "AUDIT LOG")
    names = manual.words(page, "Cm", True)
    assert len({line["event"] for line in lines} & names) >= 9
    assert {line["event"] for line in lines} <= names
    came = members(lines) - members([line.get("usage") for line in lines])
    assert came <= manual.words(page, "Va"), came - manual.words(page, "Va")
    code = "".join(path.read_text() for path in manual.ROOT.glob("supervisor/**/*.c"))
    for name in names:
        assert re.search(rf'["\\"]{re.escape(name)}\b', code), f"man/{CONTROL}, AUDIT LOG: {name}"


def test_metrics(service):
    daemon, _ = service
    done = daemon.ctl("metrics")
    types = re.findall(r"^# TYPE (\w+) (\w+)$", done.stdout.decode(), re.M)
    real = {name + ("_total" if kind == "counter" else "") for name, kind in types}
    page = set(re.findall(r"^\.It Va (\w+)", manual.part("cloisterctl.1", "METRICS"), re.M))
    manual.agree(page, real, "man/cloisterctl.1, METRICS,", "names")
