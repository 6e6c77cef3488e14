# SPDX-License-Identifier: Apache-2.0
"""The output of cloister for people and for scripts: progress and colours only on terminals, JSON on request, and the
message when no service answers."""

import contextlib
import datetime
import json
import os
import pathlib
import re
import subprocess
import time

import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, environment, user_mode_only
from screen import Screen

pytestmark = user_mode_only
PATIENCE = 60


def words_of(daemon, workspace, *words):
    return [str(daemon.area.bin / "cloister"), "--socket", str(daemon.socket), "--workspace", str(workspace), *words]


@pytest.fixture
def screen(daemon, workspace, account):
    """Returns a function that starts `cloister WORDS` on a terminal."""
    started = []

    def start(*words, **more):
        variables = {**environment(daemon.area.home), "TERM": "xterm", **more}
        with acting_as(os.getuid()):
            started.append(Screen(words_of(daemon, workspace, *words), variables, *(
                (account.uid, account.gid) if account.made else ())))
        return started[-1]

    yield start
    for each in started:
        each.close()


def ends(screen):
    """Reads to the end. Returns the exit status."""
    return screen.wait()


def shows(screen, wanted):
    """Reads until the program has written @wanted, even if it has erased that since."""
    assert procfs.eventually(lambda: wanted in screen.raw or not screen.read(0.2), PATIENCE) and wanted in screen.raw, screen.raw


def left(screen):
    return [line for line in screen.text().splitlines() if line]


# Holds back the rest of a command until the test makes the file "go".
GATE = "until [ -e go ]; do sleep 0.05; done"


def test_what_takes_long_is_reported_and_leaves_no_trace(screen, workspace):
    running = screen("exec", "--timeout=60s", f"echo one; {GATE}; echo two")
    shows(running, b" of 1:00 min, 4 bytes")
    (workspace / "go").touch()
    assert ends(running) == 0
    assert left(running) == ["one", "two"]
    assert b"\x1b[2m" in running.raw


@pytest.mark.deep("slow")
def test_an_unfinished_line_is_not_written_over(screen):
    running = screen("exec", "--timeout=60s", "printf 'name? '; sleep 4; printf x")
    assert ends(running) == 0
    # A slow start may have shown a progress line earlier; cloister has erased it.
    assert b"\x1b" not in running.raw.partition(b"name? ")[2] and left(running) == ["name? x"]


@pytest.mark.deep("slow")
@pytest.mark.parametrize("variables,progress,colours", [
    ({}, True, True), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, False, False), ({"TERM": ""}, False, False)],
    ids=["xterm", "NO_COLOR", "dumb", "none"])
def test_terminals_get_what_they_can_show(screen, workspace, variables, progress, colours):
    running = screen("exec", "--timeout=60s", f"sleep 3.5; {GATE}; exit 3", **variables)
    if progress:
        shows(running, b" of 1:00 min")
    (workspace / "go").touch()
    assert ends(running) == 3
    assert (b"1:00" in running.raw) == progress
    assert (b"\x1b[2m" in running.raw) == colours
    assert (b"\x1b" in running.raw) == progress
    failing = screen("exec", **variables)
    assert ends(failing) == 125
    assert (b"\x1b[1;31mcloister:" in failing.raw) == colours and b"cloister:" in failing.raw


@pytest.mark.deep("slow")
def test_where_there_is_no_terminal_nothing_is_added(daemon, workspace):
    _, *words = words_of(daemon, workspace, "exec", "sleep 3.5; echo x; echo y >&2")
    done = daemon.area.run("cloister", *words, env={**environment(daemon.area.home), "TERM": "xterm"})
    assert (done.stdout, done.stderr) == (b"x\n", b"y\n")


def test_ctrl_c_cancels_and_the_command_may_clean_up(screen):
    running = screen("exec", "--timeout=60s", "trap 'echo cleaned; exit' TERM; echo ready; while :; do sleep 0.1; done")
    shows(running, b"ready")
    os.write(running.fd, b"\x03")
    assert ends(running) == 130


@pytest.mark.deep("busy")
def test_a_second_ctrl_c_does_not_wait(screen, daemon):
    began = time.monotonic()
    running = screen("exec", "--timeout=60s", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    shows(running, b"ready")
    os.write(running.fd, b"\x03")
    time.sleep(0.5)
    os.write(running.fd, b"\x03")
    assert ends(running) == 130
    with daemon.control() as control:
        # The command ignores SIGTERM and still runs, so cloister did not wait for it.
        assert time.monotonic() - began > 5 or control.call("commands")["calls"]


def test_a_terminals_input_is_passed_on_only_when_asked_for(screen):
    running = screen("exec", "cat; echo end")
    assert ends(running) == 0
    running = screen("exec", "--stdin", "read line; echo got $line")
    os.write(running.fd, b"typed\n")
    assert ends(running) == 0
    assert b"got typed" in running.raw


def run(daemon, *words, **keywords):
    return daemon.area.run("cloister", *words, **keywords)


def documents(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_exec_as_json(daemon, workspace):
    place = ("--socket", str(daemon.socket), "--workspace", str(workspace), "--json")
    done = run(daemon, *place, "exec", "printf 'a\\377'; sleep 0.2; echo b >&2; exit 5")
    *pieces, end = documents(done)
    assert done.returncode == 5 and done.stderr == b""
    assert {"stream": "stdout", "data": "Yf8=", "encoding": "base64"} in pieces
    assert {"stream": "stderr", "data": "Ygo=", "encoding": "base64"} in pieces
    assert end["success"] and end["output"]["exit_code"] == 5 and "stdout" not in end["output"]
    done = run(daemon, *place, "exec", "--timeout=300ms", "sleep 60")
    assert done.returncode == 124 and [d["error"]["code"] for d in documents(done)] == ["TIMEOUT"]


def test_workspaces_are_created_listed_and_removed(daemon):
    def workspace(*words):
        return run(daemon, "--socket", str(daemon.socket), "workspace", *words)

    def listed():
        done = workspace("list", "--json")
        assert (done.returncode, done.stderr) == (0, b"")
        return {row["workspace"]: row["kind"] for row in json.loads(done.stdout)["workspaces"]}

    assert "made" not in listed()
    done = workspace("create", "made")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"") and listed()["made"] == "managed"
    heading, *rows = workspace("list").stdout.decode().splitlines()
    assert heading.split() == ["KIND", "IN", "USE", "AGE", "SIZE", "TENANT", "WORKSPACE"]
    assert ["managed", "made"] in [[row.split()[0], row.split()[-1]] for row in rows]
    done = workspace("create", "made")
    assert done.returncode == 1 and b"'made' exists already" in done.stderr
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "made"})
        done = workspace("remove", "made")
        assert done.returncode == 3 and b"(BUSY)" in done.stderr and "made" in listed()
    assert procfs.eventually(lambda: workspace("remove", "made").returncode == 0) and "made" not in listed()
    done = workspace("remove", "made")
    assert done.returncode == 3 and done.stderr
    done = daemon.area.run("cloister", "--private", "workspace", "list")
    assert done.returncode == 3 and b"no managed workspaces" in done.stderr
    for words in (("made",), ("list", "made"), ("remove",)):
        assert workspace(*words).returncode == 2


def test_workspaces_keep_what_the_command_line_says(daemon):
    def act(*words):
        return run(daemon, "--socket", str(daemon.socket), *words)

    def listed(*words):
        return {row["workspace"]: row for row in json.loads(act("workspace", "list", "--json", *words).stdout)["workspaces"]}
    done = act("workspace", "create", "kept", "--label", "a=1", "--label=b=2=3", "--lease=24h", "--at-end=remove", "--env=X=y",
               "--shown-at=/home/user")
    assert done.returncode == 0, done.stderr
    row = listed()["kept"]
    assert row["labels"] == {"a": "1", "b": "2=3"} and row["lease"]["at_end"] == "remove"
    assert act("--workspace", "kept", "exec", "echo $X; pwd").stdout == b"y\n/home/user\n"
    act("workspace", "create", "other", "--label=a=1")
    assert listed("--label=a=1").keys() == {"kept", "other"} and listed("--label=a=1", "--label=b=2=3").keys() == {"kept"}
    assert procfs.eventually(lambda: "kept" in listed("--state=closed", "--label=a=1")) and "kept" not in listed("--state=open")
    shown = act("workspace", "info", "kept").stdout.decode()
    assert re.search(r"^label +a=1$", shown, re.M) and re.search(r"^lease +\S+Z \(remove\)$", shown, re.M)
    assert act("workspace", "update", "kept", "--label=c=4", "--clear=lease", "--env=X=z").returncode == 0
    row = listed()["kept"]
    assert row["labels"] == {"c": "4"} and row["lease"] is None
    assert act("--workspace", "kept", "exec", "echo $X").stdout == b"z\n"
    assert act("workspace", "update", "kept", "--clear=labels", "--lease=1h").returncode == 0
    row = listed()["kept"]
    assert row["labels"] == {} and row["lease"]["at_end"] == "close"
    assert act("--workspace", "kept", "freeze", "ready-made").returncode == 0
    done = act("fork", "ready-made", "2", "--label=f=1", "--lease=1h", "--at-end=remove", "--env=X=forked")
    forks = done.stdout.decode().split()
    assert done.returncode == 0 and listed("--label=f=1").keys() == set(forks) and len(forks) == 2
    assert act("--workspace", forks[0], "exec", "echo $X").stdout == b"forked\n"
    for words in (("create", "x", "--label", "nothing"), ("create", "x", "--lease=never"), ("create", "x", "--at-end=keep"),
                  ("update", "kept", "--at-end=remove"), ("update", "kept", "--clear=files")):
        done = act("workspace", *words)
        assert done.returncode == 2 and done.stderr, words
    for name in ["other", "kept", *forks]:
        assert procfs.eventually(lambda name=name: act("workspace", "remove", name).returncode == 0), name


def test_a_workspaces_age_and_size(daemon):
    """list has the time since a workspace was made, and its size, also of one that nobody uses; info also counts files. Directories have no age, and info opens
    no workspace that is not there."""
    def workspace(*words):
        return run(daemon, "--socket", str(daemon.socket), "workspace", *words)

    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": "sized"})
        client.run("mkdir d; head -c 1000000 /dev/zero >d/a; echo b >'b\nb'; touch -d 2001-02-03T04:05:06Z d/a; "
                   "touch -d 2001-02-03T04:05:07Z b*")
        rows = {row["workspace"]: row["created"] for row in client.call("workspace.list")["workspaces"]}
        directory = str(daemon.new_workspace(client))
        assert [row["created"] for row in client.call("workspace.list")["workspaces"] if row["workspace"] == directory] == [None]
    if rows["sized"] is None:
        pytest.skip("this file system does not record when a directory was made")
    made = datetime.datetime.fromisoformat(rows["sized"].replace("Z", "+00:00"))
    assert before <= made <= datetime.datetime.now(datetime.timezone.utc)
    done = workspace("--json", "info", "sized")
    row = json.loads(done.stdout)
    assert done.returncode == 0 and row["created"] == rows["sized"] and row["changed"] == "2001-02-03T04:05:07Z"
    assert row["files"] == 2 and 1000000 <= row["bytes"] < 1200000 and row["kind"] == "managed"
    shown = dict(line.split(None, 1) for line in workspace("info", "sized").stdout.decode().splitlines())
    assert shown["workspace"] == "sized" and shown["files"] == "2" and shown["created"].startswith(rows["sized"])
    assert int(shown["bytes"]) == row["bytes"] and re.fullmatch(r"2001-02-03T04:05:07Z \(\d+d\)", shown["changed"])

    def listed():
        return next(line.split() for line in workspace("list").stdout.decode().splitlines() if line.endswith(" sized"))
    assert re.fullmatch(r"\d+[sm]", listed()[2])
    # The list has what was measured last, which may have been while the command ran.
    assert procfs.eventually(lambda: re.fullmatch(r"9\d\d(\.\d)?K|1\.[01]M", listed()[3]))
    done = workspace("info", "none-such")
    assert done.returncode == 3 and b"(WORKSPACE_NOT_FOUND)" in done.stderr
    assert "none-such" not in names(daemon)


def names(daemon):
    with daemon.connect() as client:
        return {row["workspace"] for row in client.call("workspace.list")["workspaces"]}


def test_a_name_that_is_not_there_needs_create(daemon):
    def act(*words):
        return run(daemon, "--socket", str(daemon.socket), *words)

    for words in (["exec", "--", "true"], ["put", "."], ["tools", "--limits"], ["mcp"]):
        done = act("--workspace", "mistyped", *words)
        assert done.returncode in (3, 125) and b"there is no workspace 'mistyped': --create makes it" in done.stderr
    done = act("--json", "--workspace", "mistyped", "call", "run_command", "command=true")
    assert [d["error"]["code"] for d in documents(done)] == ["WORKSPACE_NOT_FOUND"]
    assert "mistyped" not in names(daemon)
    assert act("--create", "--workspace", "mistyped", "exec", "--", "touch f").returncode == 0
    assert act("--workspace", "mistyped", "exec", "--", "ls").stdout == b"f\n"
    assert act("--workspace", "mistyped", "exec", "--create", "--", "ls").stdout == b"f\n"


@pytest.mark.parametrize("answer, made", [("y\n", True), ("\n", False), ("no\n", False)])
def test_a_name_that_is_not_there_is_asked_about_at_a_terminal(screen, daemon, answer, made):
    name = f"asked-{answer.strip() or 'nothing'}"
    asked = screen("--workspace", name, "exec", "--", "echo done")
    shows(asked, f"There is no workspace '{name}'. Create it? [y/N] ".encode())
    asked.type(answer)
    assert ends(asked) == (0 if made else 125)
    assert (name in names(daemon)) == made and ("done" in asked.text().splitlines()) == made


@pytest.mark.deep("slow")
def test_execs_deadline_is_the_longest_that_the_tenant_has(start_daemon, area):
    """Without --timeout, exec has the longest deadline that the tenant allows. The message at the deadline names the
    option that sets another."""
    def execute(more, *words):
        daemon = start_daemon(config=f"[tenant t]\nusers = {area.account.name}\nroots = {area.path}\n"
                                     f"command_timeout = 200ms\n{more}")
        return run(daemon, "--socket", str(daemon.socket), "--workspace", str(daemon.new_directory()), "exec", *words)

    done = execute("", "sleep 1; echo done")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")
    done = execute("command_timeout_max = 1s\n", "sleep 600")
    assert (done.returncode, done.stderr) == (124, b"cloister: the command was ended at the longest deadline, the tenant's "
                                              b"command_timeout_max; --timeout can only shorten it (TIMEOUT)\n")
    done = execute("", "--timeout=1s", "sleep 600")
    assert done.returncode == 124 and done.stderr.startswith(
        b"cloister: the command was ended at its deadline; a larger --timeout gives it more time")


@pytest.mark.parametrize("words,status,code", [
    (("call", "read_file", "path=none"), 1, "NOT_FOUND"), (("call", "no_such_tool"), 1, "UNKNOWN_TOOL"),
    (("nonsense",), 2, None), (("get",), 2, None), (("put", "/nonexistent"), 1, None), (("exec",), 125, None)])
def test_failures_as_json(daemon, workspace, words, status, code):
    done = run(daemon, "--socket", str(daemon.socket), "--workspace", str(workspace), "--json", *words)
    assert done.returncode == status and done.stderr == b""
    if words[0] == "call":
        assert json.loads(done.stdout)["error"]["code"] == code
        return
    assert documents(done) and all(set(d["error"]) == {"code", "message"} for d in documents(done) if "error" in d)
    assert any("error" in d for d in documents(done))


def test_results_as_json(daemon, workspace):
    place = ("--socket", str(daemon.socket), "--workspace", str(workspace), "--json")
    assert json.loads(run(daemon, *place, "call", "list_directory", "path=.").stdout)["success"]
    assert len(json.loads(run(daemon, *place, "tools").stdout)) == 5


@pytest.mark.parametrize("words", [
    ("status",), ("doctor",), ("tenants",), ("workspaces",), ("commands",), ("top",), ("drain",), ("resume",),
    ("metrics",)])
def test_control_as_json(daemon, words):
    done = daemon.ctl("--json", *words)
    assert done.returncode == 0 and isinstance(json.loads(done.stdout), (dict, list)), done
    if words == ("drain",):
        assert daemon.ctl("resume").returncode == 0


@pytest.mark.parametrize("words,code", [
    (("show", "0123456789abcdef"), None), (("kill", "nobody"), None), (("nonsense",), "USAGE"), (("kill",), "USAGE"),
    (("audit",), "USAGE"), (("reload",), None)])
def test_controls_failures_as_json(daemon, words, code):
    done = daemon.ctl("--json", *words)
    assert done.returncode in (1, 2, 3) and done.stderr == b""
    errors = [d["error"] for d in documents(done)]
    assert errors and all(error["code"].isupper() and error["message"] for error in errors)
    assert code is None or code in [error["code"] for error in errors]


def test_an_audit_log_is_verified_as_json(area, start_daemon):
    log = area.new_directory("audit") / "log"
    daemon = start_daemon(config=f"[cloister]\naudit = on\naudit_file = {log}\n[tenant t]\nusers = {area.account.name}\n"
                                 f"roots = {area.path}\n")
    with daemon.connect() as client:
        daemon.new_workspace(client)
        client.run("true")
    daemon.stop()
    with acting_as(os.getuid()):
        lines = log.read_bytes().splitlines(keepends=True)
    done = area.run("cloisterctl", "--json", "audit", "verify", str(log))
    (end,) = documents(done)
    assert done.returncode == 0 and end["lines"] == len(lines) and end["mistakes"] == 0
    with acting_as(os.getuid()):
        log.write_bytes(b"".join([*lines[:1], *lines[2:]]))
    done = area.run("cloisterctl", "--json", "audit", "verify", str(log))
    *found, end = documents(done)
    assert done.returncode == 1 and end["mistakes"] == 1
    assert found[0]["mistake"] is True and found[0]["line"] == 2 and found[0]["file"] == str(log)


def test_what_leads_outside_is_told_when_it_is_opened(screen, workspace):
    """A person at a terminal learns it before a command fails: a linked git worktree, and the Python of an environment."""
    (workspace / ".git").write_text("gitdir: /somewhere/\x1b[2Jrepo/.git/worktrees/w\n")
    (workspace / ".venv/bin").mkdir(parents=True)
    (workspace / ".venv/bin/python").symlink_to("/home/u/.pyenv/bin/python3")
    (workspace / "venv/bin").mkdir(parents=True)
    (workspace / "venv/bin/python").symlink_to("/usr/bin/python3")
    running = screen("exec", "true", columns="400")
    assert ends(running) == 0
    text = re.sub(r"\s+", " ", running.text())
    for words in ("this is a linked git worktree: .git leads to /somewhere/", ".venv/bin/python leads to /home/u/.pyenv", "--readonly-path"):
        assert words in text
    assert "\x1b" not in text and " venv/bin" not in text
    running = screen("--json", "exec", "true")
    assert ends(running) == 0 and "worktree" not in running.text()


@contextlib.contextmanager
def serving(area, *words):
    with area.start(["cloisterd", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        for line in process.stderr:
            if b"listening" in line:
                break
        yield process
        process.terminate()


@pytest.mark.skipif(not AM_ROOT, reason="needs root for a user without a runtime directory, and another user")
def test_without_a_runtime_directory(area):
    """After su(1), in cron jobs and in containers: service and programs know the same directory, which is the user's alone."""
    place, state = pathlib.Path(f"/tmp/cloister-{area.account.uid}"), str(area.new_directory("state"))
    with acting_as(os.getuid()):
        for owner, mode in ((0, 0o700), (area.account.uid, 0o755), (area.account.uid, None)):  # another's, open to others, a link
            if mode is None:
                place.symlink_to(area.path)
            else:
                place.mkdir()
                place.chmod(mode)
            os.lchown(place, owner, owner)
            done = area.run("cloisterd", "--state-dir", state)
            assert done.returncode == 1 and b"use --agent-socket PATH" in done.stderr
            place.unlink() if mode is None else place.rmdir()
        with serving(area, "--state-dir", state):
            assert place.stat().st_mode & 0o7777 == 0o700
            done = area.run("cloister", "--workspace", "w", "--create", "exec", "--", "echo served")
            assert done.stdout == b"served\n", done.stderr
            assert area.run("cloisterctl", "status").returncode == 0
        place.rmdir()


def test_the_control_socket_of_a_named_service(area):
    """It stands beside the agent socket, and cloisterctl finds it by CLOISTER_SOCKET."""
    where = area.new_directory("named")
    for name, control in (("agent.sock", "control.sock"), ("mine", "mine.control")):
        with serving(area, "--state-dir", str(where / "state"), "--agent-socket", str(where / name)):
            named = {**environment(area.home), "CLOISTER_SOCKET": str(where / name)}
            assert (where / control).is_socket() and area.run("cloisterctl", "status", env=named).returncode == 0
            assert area.run("cloisterctl", "status").returncode == 3


def test_what_to_do_without_a_service(area):
    where = area.new_directory("nothing")
    missing = str(where / "agent.sock")
    done = area.run("cloister", "--socket", missing, "tools")
    assert done.returncode == 3
    for word in (missing, "No such file", f"cloisterd --agent-socket {missing}", "private"):
        assert word in done.stderr.decode()
    done = area.run("cloister", "--workspace", "managed", "call", "read_file", "path=a",
                    env={**environment(area.home), "XDG_RUNTIME_DIR": str(where)})
    assert done.returncode == 3
    for word in ("$XDG_RUNTIME_DIR/cloister/agent.sock", "/run/cloister/agent.sock", "CLOISTER_SOCKET", "systemctl", "--workspace ./managed",
                 "private"):
        assert word in done.stderr.decode()
    done = area.run("cloisterctl", "status", env={**environment(area.home), "XDG_RUNTIME_DIR": str(where)})
    assert done.returncode == 3
    for word in (str(where), "/run/cloister/control.sock", "systemctl", "--socket"):
        assert word in done.stderr.decode()
    for words in (("cloister", "--json", "--socket", missing, "tools"),
                  ("cloisterctl", "--json", "--socket", missing, "status")):
        done = area.run(*words)
        (document,) = documents(done)
        assert done.returncode == 3 and document["error"]["code"] == "NO_SERVICE" and done.stderr == b""
