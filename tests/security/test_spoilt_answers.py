# SPDX-License-Identifier: Apache-2.0
"""A service, or what stands between, answers the clients with what no cloisterd sends: control characters in every string, and
values of other types. Every command of cloister and of cloisterctl is run on a terminal, which gets no control characters,
and none dies of it."""

import json
import os
import pwd
import select
import subprocess

import procfs
import pytest

from spoiler import MARK, SHOWN, Recorder, Spoiler, added, marked, on_terminal, spoil

CONFIG = """[cloister]
agent_socket_mode = 0666
admin_group = {group}
[tenant t]
users = {users}
managed = yes
"""
PATCH = "*** Begin Patch\n*** Update File: g\n@@\n-x\n+y\n*** End Patch\n"
# What a program writes is passed on as it is, and a patch keeps its lines.
OUTPUT = frozenset({"data", "stdout", "stderr"})
AGENT = {  # in this order; the second of a name is another form of it
    "workspace": ["workspace", "create", "w"], "workspace list": ["workspace", "list"], "exec": ["@w", "exec", "--", "sh", "-c",
                                                                                               "echo one >f; echo x >g"],
    "tools": ["@w", "tools"], "call": ["@w", "call", "read_file", '{"path": "f"}'],
    "call refused": ["@w", "call", "read_file", '{"path": "none"}'],
    "edit": ["@w", "edit", "f", "one", "two"], "edit refused": ["@w", "edit", "f", "nothing", "two"],
    "edit patch": ["@w", "edit", "--patch", "{patch}"],
    "checkpoint": ["@w", "checkpoint", "label"], "checkpoints": ["@w", "checkpoints"],
    "exec preview": ["@w", "--preview", "exec", "--", "sh", "-c", "echo three >f"],
    "exec change": ["@w", "exec", "--", "sh", "-c", "echo three >f; rm g"],
    "exec refused": ["@nowhere", "exec", "--", "true"], "exec json": ["@w", "--json", "exec", "--", "echo", "x"],
    "run": ["@w", "run", "true"], "shell": ["@w", "shell"],
    "diff": ["@w", "diff"], "diff patch": ["@w", "diff", "--patch"], "rollback": ["@w", "rollback", "1"],
    "put": ["@w", "put", "{tree}", "tree"], "get": ["@w", "get", "tree", "{into}"], "export": ["@w", "export"],
    "import": ["@v", "import"], "workspace info": ["workspace", "info", "w"],
    "freeze": ["@w", "freeze", "ready"], "fork": ["fork", "ready", "2"], "workspace remove": ["workspace", "remove", "v"],
    "template list": ["template", "list"], "watch": ["@w", "watch"],
    "session": ["@w", "session", "start", "--name=s", "echo out; sleep 1000"],
    "session list": ["@w", "session", "list"], "session read": ["@w", "session", "read", "s"],
    "session write": ["@w", "session", "write", "s", "text"], "session end": ["@w", "session", "end", "s"],
    "session wait": ["@w", "session", "wait", "s"], "session refused": ["@w", "session", "read", "none"],
    "workspace json": ["--json", "workspace", "list"], "checkpoints json": ["--json", "@w", "checkpoints"],
    "session last": ["@w", "session", "start", "--name=s2", "sleep 1000"],
}
CONTROL = {
    "status": ["status"], "health": ["health"], "health agent-check": ["health", "--agent-check"], "doctor": ["doctor"],
    "tenants": ["tenants"], "workspaces": ["workspaces"], "commands": ["commands"], "sessions": ["sessions"],
    "show": ["show", "w"], "kill": ["kill", "nothing"], "metrics": ["metrics"], "denials": ["denials"],
    "templates": ["templates"], "template": ["template", "remove", "none"], "top": ["top"], "events": ["events"],
    "drain": ["drain", "--moved-to", "there"], "resume": ["resume"], "reload": ["reload"], "selftest": ["selftest", "-v"],
    "status json": ["--json", "status"], "denials follow": ["denials", "--follow"],
}
REFUSED = ("refused", "kill", "template", "health", "selftest", "session w")
# Without a service, or a program's own protocol: `mcp` passes JSON on, and `forward` bytes.
NOT_HERE = {"help", "harness", "audit", "mcp", "forward", "gate", "key"}


ROW = {"call": "0" * 16, "tenant": "t", "workspace": "w", "tool": "run_command", "state": "running", "age_ms": 1, "deadline_ms": 1,
       "command": "true", "host": "h", "port": 1, "reason": "not_allowed", "count": 1}
EVENT = {"jsonrpc": "2.0", "method": "event", "params": {**ROW, "event": "network_denied", "time_ms": 1}}


def add_rows(connections, name):
    """Answers that nothing in this place brings about."""
    member = {"commands": "calls", "top": "calls", "denials": "denials"}.get(name)
    for rounds in connections if member or name == "denials follow" else []:
        for lines in rounds:
            for i, line in enumerate(lines):
                message = json.loads(line)
                if isinstance(message.get("result", {}).get(member), list):
                    message["result"][member].append(ROW)
                    lines[i] = json.dumps(message).encode()
        if name == "denials follow":
            rounds[-1].append(json.dumps(EVENT).encode())


class Place:
    def __init__(self, daemon, area):
        self.daemon, self.area, self.number = daemon, area, 0
        self.directory = area.directory("spoilt")
        tree = self.directory / "tree"
        self.run("mkdir", "-p", str(tree))
        self.run("sh", "-c", f"echo x >{tree}/f; printf '%s' '{PATCH}' >{self.directory}/patch")
        self.names = {"{tree}": tree, "{into}": self.directory / "into", "{patch}": self.directory / "patch"}
        self.env = {"PATH": os.environ["PATH"], "HOME": str(area.home), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        self.recordings = {}

    def run(self, *words):
        subprocess.run([*(self.area.account.become() or []), *words], check=True)

    def words(self, program, words, path):
        out = [program, "--socket", str(path)]
        for word in words:
            out += ["--workspace", word[1:]] if word[0] == "@" else [str(self.names.get(word, word))]
        return out

    def fresh_path(self):
        self.number += 1
        return self.directory / f"s{self.number}"

    def typed(self, name):
        return {"top": b"q", "run": b"", "shell": b"exit\n"}.get(name, b"")

    def record(self, program, name, words):
        path = self.fresh_path()
        real = self.daemon.control_socket if program == "cloisterctl" else self.daemon.socket
        recorder = Recorder(path, real)
        follows = name in ("events", "denials follow", "watch")
        command = self.words(program, words, path)
        if name in ("run", "shell"):
            status, shown = on_terminal(self.area, command, self.env, typed=b"exit\n")
        elif name == "top":
            status, shown = on_terminal(self.area, command, self.env, typed=b"q")
        elif name in ("export", "import"):
            archive = self.directory / "archive"
            how = f"'{self.area.bin}/cloister' " + " ".join(command[1:]) + (" >" if name == "export" else " <") + str(archive)
            done = subprocess.run([*(self.area.account.become() or []), "sh", "-c", how], env=self.env, capture_output=True, timeout=120)
            status, shown = done.returncode, done.stderr
        elif follows:
            with self.area.start(command, env=self.env, stdout=subprocess.PIPE) as process:
                with self.daemon.connect() as client:
                    client.call("workspace.open", {"workspace": "w"})
                    # Until it listens, nothing is told.
                    while name in ("events", "watch") and not select.select([process.stdout], [], [], 0.1)[0]:
                        client.run("date > changed")
                    procfs.eventually(lambda: any(len(rounds) > 1 and rounds[-1] for rounds in recorder.connections))
                process.terminate()
            status, shown = 0, b""
        else:
            status, shown = on_terminal(self.area, command, self.env)
        recorder.close()
        add_rows(recorder.connections, name)
        self.recordings[program, name] = (words, recorder.connections)
        return status, shown

    def replay(self, program, name, change, which=None):
        words, connections = self.recordings[program, name]
        path = self.fresh_path()
        spoiler = Spoiler(path, connections, change, which)
        command = self.words(program, words, path)
        if name == "import":
            command = ["/bin/sh", "-c", f"'{self.area.bin}/cloister' " + " ".join(command[1:]) + f" <{self.directory}/archive"]
        elif name == "export":
            command = ["/bin/sh", "-c", f"'{self.area.bin}/cloister' " + " ".join(command[1:]) + " >/dev/null"]
        status, shown = on_terminal(self.area, command, self.env, typed=self.typed(name))
        spoiler.close()
        return status, shown, spoiler.sent


@pytest.fixture(scope="module")
def place(area):
    from daemon import Daemon
    daemon = Daemon(area, config=CONFIG.format(
        group=os.getgid(), users=f"{area.account.name} {pwd.getpwuid(os.getuid()).pw_name}"))
    try:
        made = Place(daemon, area)
        failed = {}
        for program, commands in (("cloister", AGENT), ("cloisterctl", CONTROL)):
            for name, words in commands.items():
                status, shown = made.record(program, name, words)
                if status and not any(word in name for word in REFUSED):
                    failed[name] = status, shown
        assert not failed, failed
        yield made
    finally:
        status = daemon.stop()
    assert status == 0


def cases():
    return [(program, name) for program, commands in (("cloister", AGENT), ("cloisterctl", CONTROL)) for name in commands]


def commands_of(area, program):
    done = area.run(program, "help")
    part = done.stdout.decode().split("Commands:\n")[1].split("\n\n")[0]
    return {line.split()[0] for line in part.splitlines()}


@pytest.mark.parametrize("program", ["cloister", "cloisterctl"])
def test_every_command_is_here(area, program):
    known = {name.split()[0] for name in (AGENT if program == "cloister" else CONTROL)}
    assert commands_of(area, program) - NOT_HERE == known - NOT_HERE


def passes_output_on(name):
    return name.split()[0] in ("exec", "run", "shell") or name in ("session read", "session wait")


@pytest.mark.parametrize("program,name", cases())
def test_control_characters(place, program, name):
    """The terminal gets none, whichever answers have them; nor can a string of a table begin another line."""
    spared = OUTPUT if passes_output_on(name) else frozenset({"event"} if "follow" in name else ())
    which, sent = None, 1
    while which is None or which < min(sent, 40):
        for change in (marked, added):
            status, shown, sent = place.replay(program, name, lambda value: spoil(value, change, spared), which)
            assert status >= 0, (which, status, shown)
            for bytes_ in SHOWN:
                assert bytes_ not in shown, (which, shown)
            if name not in ("diff patch", "edit", "edit patch", "metrics", "tools"):
                assert b"\nFORGED" not in shown, (which, shown)
        which = 0 if which is None else which + 1


OTHERS = {"null": None, "object": {}, "array": [], "number": 7, "negative": -(1 << 63), "string": "x", "nested": [[{}]], "yes": True}


def other(kind, at):
    """Replaces values at the depth @at, or all that are no containers."""
    def change(value, depth=0):
        if depth == at:
            return OTHERS[kind]
        if isinstance(value, dict):
            return {key: change(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list):
            return [change(inner, depth + 1) for inner in value]
        return value if at is not None else OTHERS[kind]
    return change


@pytest.mark.deep("slow")
@pytest.mark.parametrize("program,name", cases())
def test_values_of_other_types(place, program, name):
    """The command ends, and says something or nothing; it is not killed by a signal."""
    for kind in OTHERS:
        for at in (None, 0, 1, 2, 3):
            status, shown, _ = place.replay(program, name, other(kind, at))
            assert status >= 0, (kind, at, status, shown)


def test_an_audit_log_of_other_types(area, tmp_path):
    """`audit verify` says what it finds in a file that anybody may have written; each hash is right."""
    import audit_log
    values = [None, True, 7, -1, 1.5, "x" + MARK, [], {}, [None], {"event": None}]
    lines = []
    for value in values:
        lines += [{"event": value}, {"event": "audit.opened", "torn_bytes": value, "chain": value},
                  {"event": "audit.lost", "lines": value}]
    log = area.path / "spoilt-audit"
    log.write_text(audit_log.chained(lines))
    log.chmod(0o644)
    for words in ([], ["--json"]):
        done = area.run("cloisterctl", *words, "audit", "verify", str(log))
        assert done.returncode in (0, 1), done
        assert b"\x1b" not in done.stdout + done.stderr
        if words:
            assert [json.loads(line) for line in done.stdout.splitlines()][-1]["lines"] == len(lines)
