# SPDX-License-Identifier: Apache-2.0
"""Harnesses inside the walls: `cloister run -- claude`, codex and opencode as doc/clients.md shows it, on a terminal, with the
key of their model's API outside. The API is one of the test's own, which plays a script: it asks for the harness's own tools to
reach what is outside, and for the key."""

import json
import os
import pathlib
import re
import shlex

import authority
import egress
import pytest
from cloister_client import acting_as
from daemon import ROOT, environment
from screen import Screen
from scripted_model import ScriptedModel

SECRET = "sk-inside-4e1c90ab77"
PATIENCE = 120
CONFIG = """[cloister]
egress_resolver = {resolver}
egress_ca = {directory}/ca.pem

[tenant inside]
users = {user}
roots = {roots}
network = egress
egress_private = 127.0.0.0/8
egress_secret = anthropic host=api.test:{port} header=X-Api-Key file={directory}/key
egress_secret = openai host=api.test:{port} header="Authorization: Bearer" file={directory}/key
environment = PATH={roots}/bin:/usr/bin:/bin
environment = ANTHROPIC_BASE_URL=http://anthropic.cloister.internal
environment = ANTHROPIC_API_KEY=unused
environment = OPENAI_BASE_URL=http://openai.cloister.internal/v1
environment = OPENAI_API_KEY=unused
"""


class Model(ScriptedModel):
    """The script behind TLS, as the API's host. In .keys are the keys that came with the requests."""

    def __init__(self, script, context):
        super().__init__(script)
        self.keys, handler = set(), self.server.RequestHandlerClass
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        outer, parse = self, handler.parse_request

        def parse_request(request):
            parsed = parse(request)
            if parsed:
                outer.keys |= {request.headers[name] for name in ("X-Api-Key", "Authorization") if request.headers[name]}
            return parsed
        handler.parse_request = parse_request
        self.port = self.server.server_port


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


# What is asked for of each harness's shell: to write in the workspace, to read and write outside, and to find the key.
def wish(outside):
    # Each line once: harnesses cut off much output.
    return (f"echo by the harness >made; cat {outside}/secret; echo x >{outside}/escaped; "
            "(env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n') | sort -u; "
            "grep -rs sk-inside ~ . /etc /tmp; id -u")


class Claude:
    # On a terminal it asks for a theme, for the key and for trust when it is started for the first time.
    words = ("sh", "-c", "echo '{}' >~/.claude.json; exec claude --dangerously-skip-permissions".format(json.dumps({
        "hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["unused"], "rejected": []},
        "bypassPermissionsModeAccepted": True, "projects": {"WORKSPACE": {"hasTrustDialogAccepted": True}}})))
    script = staticmethod(lambda outside: [call("Bash", command=wish(outside), description="x")])


class Codex:
    words = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5", "-c",
             "model_provider=inside", "-c", "model_providers.inside.name=inside", "-c",
             "model_providers.inside.base_url=http://openai.cloister.internal/v1", "-c",
             "model_providers.inside.env_key=OPENAI_API_KEY", "-c", "model_providers.inside.wire_api=responses", "go")
    script = staticmethod(lambda outside: [call("exec_command", cmd=wish(outside))])


class Opencode:
    words = ("opencode", "run", "--auto", "go")
    script = staticmethod(lambda outside: [call("bash", command=wish(outside), description="x")])


def documented(name):
    """A block of doc/clients.md that has this word in it."""
    text = (ROOT / "doc" / "clients.md").read_text()
    (block,) = [block for kind, block in re.findall(r"```(\w+)\n(.*?)```", text, re.S) if kind == "json" and name in block]
    return block


def play_claude(screen):
    """A person at the terminal."""
    screen.until(lambda text: "bypass permissions on" in text, PATIENCE)
    screen.type("go")
    screen.until(lambda text: "\u276f go" in text.replace("\xa0", " "), PATIENCE)
    screen.type("\r")
    screen.until(lambda text: "The script is over." in text, PATIENCE)
    screen.type("/exit")
    screen.until(lambda text: "/exit" in text, PATIENCE)
    screen.type("\r")


HARNESSES = {"claude": Claude, "codex": Codex, "opencode": Opencode}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    made = authority.Authority(tmp_path_factory.mktemp("ca"))
    return made.certificate, made.context("api.test")


def on_terminal(words, env, account, play=None, where="."):
    """Runs a program at a terminal to its end. Returns its status and the screen."""
    with acting_as(os.getuid()):
        screen = Screen(["/bin/sh", "-c", f"cd {shlex.quote(str(where))} && exec {shlex.join(map(str, words))}"], env,
                        *((account.uid, account.gid) if account.made else ()), lines=50, columns=150)
    try:
        if play:
            play(screen)
        return screen.wait(), screen
    finally:
        print(screen.text())
        screen.close()


def inside(area, account, programs, start_daemon, context, name, script, outside, workspace):
    """Runs a harness as doc/clients.md shows it, at a terminal. Returns its status, the screen and the model."""
    certificate, tls = context
    directory = pathlib.Path(area.new_directory("keys"))
    for path, text, mode in ((directory / "ca.pem", certificate.read_text(), 0o644), (directory / "key", SECRET, 0o600),
                             (outside / "secret", "it-is-secret\n", 0o644)):
        path.write_text(text)
        path.chmod(mode)
        account.own(path)
    (workspace / "opencode.json").write_text(documented("openai-compatible"))
    (workspace / "bin").mkdir()
    os.link((programs / name).resolve(), workspace / "bin" / name)  # on a real host it is in /opt or /usr/local
    names = egress.Names({"api.test": ["127.0.0.1"]})
    with Model(script, tls) as model:
        daemon = start_daemon(system=False, config=CONFIG.format(
            resolver=names.address, directory=directory, user=account.name, roots=workspace,
            port=model.port))
        program = [word.replace("WORKSPACE", str(workspace)) for word in HARNESSES[name].words]
        words = [area.bin / "cloister", "--socket", daemon.socket, "--workspace", workspace, "run", "--", *program]
        status, screen = on_terminal(words, {**environment(area.home), "TERM": "xterm-256color"}, account,
                                     play_claude if name == "claude" else None)
    names.close()
    assert status == 0, (screen.text(), model.unknown, daemon.log())
    return screen, model


@pytest.mark.parametrize("name", HARNESSES)
def test_a_harness_inside(area, account, programs, start_daemon, context, name):
    outside, workspace = (pathlib.Path(area.new_directory(each)) for each in ("outside", "ws"))
    screen, model = inside(area, account, programs, start_daemon, context, name, HARNESSES[name].script(outside), outside,
                           workspace)
    # Its shell worked, in the workspace, and nowhere else.
    (result,) = model.results
    assert (workspace / "made").read_text() == "by the harness\n", result
    assert "No such file" in result and "it-is-secret" not in result and "1000" in result
    assert not (outside / "escaped").exists()
    # The API got the key with each request, and nothing on this side of it has seen it.
    assert model.keys == {SECRET if name == "claude" else f"Bearer {SECRET}"}
    assert "=unused" in result and SECRET not in result and SECRET.encode() not in screen.raw
    assert not [path for path in workspace.rglob("*") if path.is_file() and path.stat().st_size < 1 << 24
                and SECRET.encode() in path.read_bytes()]


def conversation(text):
    """Of Claude's screen: what was asked, done and answered. The rest is about its version, its time and where it runs."""
    lines = [" ".join(line.split()) for line in text.replace("\xa0", " ").splitlines()]
    first, last = lines.index("\u276f go"), next(n for n, line in enumerate(lines) if "The script is over." in line)
    return [line for line in lines[first:last + 1] if line]


def test_its_screen_is_as_without_cloister(area, account, programs, start_daemon, context, tmp_path):
    """A command line of npm's, driven by keys, with and without cloister. Both are recorded."""
    script = [call("Bash", command="seq 3; echo by the harness >made", description="x")]
    outside, workspace, bare, home = (pathlib.Path(area.new_directory(each)) for each in ("outside", "ws", "bare", "home"))
    shown = {"cloister": inside(area, account, programs, start_daemon, context, "claude", script, outside, workspace)[0]}
    with ScriptedModel(script) as model:
        env = {**environment(home), "PATH": f"{programs}:/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8",
               "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "unused"}
        words = [word.replace("WORKSPACE", str(bare)) for word in Claude.words]
        status, shown["bare"] = on_terminal(words, env, account, play_claude, bare)
    assert status == 0, model.unknown
    for kind, screen in shown.items():
        recording = pathlib.Path(os.environ.get("CLOISTER_RECORDINGS", tmp_path)) / f"claude-{kind}.cast"
        screen.save(recording)
        assert Screen.replay(recording).text() == screen.text()
    assert conversation(shown["cloister"].text()) == conversation(shown["bare"].text())
    assert {"\u276f go", "2"} < set(conversation(shown["bare"].text())), "something was compared"
    assert (workspace / "made").read_text() == (bare / "made").read_text() == "by the harness\n"
