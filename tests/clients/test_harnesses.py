# SPDX-License-Identifier: Apache-2.0
"""What `cloister harness` prints, run with the real harnesses and a model that plays a script: it asks for the harness's own tools
to reach a file outside of the workspace, and for cloister's. The user's own settings allow everything."""

import itertools
import json
import re

import pytest
from conftest import Place
from scripted_model import ScriptedModel

SILENT = "sleep 75; echo rested"
MANY = "seq 1 300000"


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def shell(place, name):
    """A command line that reads the secret and makes a file outside of the workspace."""
    return f"cat {place.secret} && echo x > {place.outside}/{name}"


def patch(place, name):
    return f"*** Begin Patch\n*** Add File: {place.outside}/{name}\n+x\n*** End Patch\n"


def plant(place):
    """Settings that a model may have written into the workspace: whoever reads them starts a program."""
    program = f"touch {place.outside}/planted"
    server = {"command": "sh", "args": ["-c", program]}
    hook = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": program}]}]}}
    for name, settings in {
            ".claude/settings.json": {**hook, "enableAllProjectMcpServers": True}, ".mcp.json": {"mcpServers": {"planted": server}},
            "opencode.json": {"mcp": {"planted": {"type": "local", "command": ["sh", "-c", program]}}},
            ".gemini/settings.json": {"mcpServers": {"planted": server}}}.items():
        path = place.workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings))
    (place.workspace / ".codex").mkdir()
    (place.workspace / ".codex" / "config.toml").write_text(
        f'[mcp_servers.planted]\ncommand = "sh"\nargs = ["-c", "{program}"]\n')


class Harness:
    """One harness: its settings as a user has them who allows everything, and how its own tools are asked for."""
    model = None
    calls_of_cloister = staticmethod(lambda tool, arguments: call(f"cloister:{tool}", **arguments))
    left = set()  # what it still offers, and what can reach nothing


class Claude(Harness):
    name = "claude"
    left = {"DeferredToolPlaceholder"}
    words = ("-p", "go", "--dangerously-skip-permissions")

    def settings(self, place, url):
        place.env.update(ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="none", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1")
        place.write(".claude/settings.json", json.dumps({"permissions": {"allow": ["Bash", "Read", "Edit", "Write"]}}))

    def escapes(self, place):
        return [call("Bash", command=shell(place, "shell"), description="x"),
                call("Write", file_path=f"{place.outside}/written", content="x"),
                call("Read", file_path=f"{place.secret}")]

    makes = ["planted", "shell", "written"]


class Codex(Harness):
    name = "codex"
    model = "gpt-5.5"
    words = ("exec", "--skip-git-repo-check", "go")
    left = {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "request_user_input", "tool_search",
            "apply_patch", "get_goal", "create_goal", "update_goal"}
    makes = ["patched", "shell"]

    def settings(self, place, url):
        place.env["KEY"] = "none"
        place.write(".codex/config.toml", f"""
model = "{self.model}"
model_provider = "script"
sandbox_mode = "danger-full-access"
approval_policy = "never"
[model_providers.script]
name = "script"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "KEY"
""")

    def escapes(self, place):
        return [call("exec_command", cmd=shell(place, "shell")), {"name": "apply_patch", "arguments": patch(place, "patched")}]


class CodexScripts(Codex):
    """The models of which Codex asks JavaScript that calls its tools."""
    model = "gpt-6-sol"
    left = {"functions/exec", "functions/wait", "functions/request_user_input", "functions/request_user_input_async", "clock/sleep"}

    @staticmethod
    def script(tool, argument):
        # Without the first line a script that takes longer than half a minute is answered before its end.
        return {"name": "functions/exec", "arguments": '// @exec: {"yield_time_ms": 120000}\n'
                f"text(JSON.stringify(await tools.{tool}({json.dumps(argument)})))"}

    def calls_of_cloister(self, tool, arguments):
        return self.script(f"mcp__cloister__{tool}", arguments)

    def escapes(self, place):
        return [self.script("exec_command", {"cmd": shell(place, "shell")}), self.script("apply_patch", patch(place, "patched"))]


class Opencode(Harness):
    name = "opencode"
    words = ("run", "--auto", "go")
    makes = ["planted", "shell", "written"]

    def settings(self, place, url):
        place.env.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
        place.write(".config/opencode/opencode.json", json.dumps({
            "provider": {"script": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                                    "models": {"script": {}}}},
            "model": "script/script", "small_model": "script/script",
            "permission": {"*": "ask", "bash": "allow", "edit": "allow", "read": "allow", "external_directory": "allow"}}))

    def escapes(self, place):
        return [call("bash", command=shell(place, "shell"), description="x"),
                call("write", filePath=f"{place.outside}/written", content="x"),
                call("read", filePath=f"{place.secret}")]


class Gemini(Harness):
    name = "gemini"
    words = ("-m", "gemini-2.5-flash", "-y", "-p", "go")
    makes = ["planted", "shell", "written"]

    def settings(self, place, url):
        place.env.update(GEMINI_API_KEY="none", GOOGLE_GEMINI_BASE_URL=url, GEMINI_CLI_TRUST_WORKSPACE="true")
        place.write(".gemini/settings.json", json.dumps({
            "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False}, "context": {"includeDirectories": [str(place.outside)]},
            "tools": {"core": ["run_shell_command", "write_file", "read_file"], "allowed": ["run_shell_command"]}}))

    def escapes(self, place):
        return [call("run_shell_command", command=shell(place, "shell"), description="x"),
                call("write_file", file_path=f"{place.outside}/written", content="x"),
                call("read_file", file_path=f"{place.secret}")]


class Cline(Harness):
    name = "cline"
    words = ("-P", "openai-compatible", "Go on.")
    makes = ["shell", "written"]
    left = {"ask_question"}

    def settings(self, place, url):
        place.write(".cline/data/settings/providers.json", json.dumps({
            "version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": {
                "settings": {"provider": "openai-compatible", "apiKey": "none", "model": "script", "baseUrl": f"{url}/v1"},
                "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}}}))

    def escapes(self, place):
        return [call("run_commands", commands=[shell(place, "shell")]),
                call("editor", path=f"{place.outside}/written", new_text="x"),
                call("read_files", files=[{"path": str(place.secret)}])]


HARNESSES = {"claude": Claude(), "codex": Codex(), "codex-scripts": CodexScripts(), "opencode": Opencode(), "gemini": Gemini(),
             "cline": Cline()}


class Run:
    """A conversation to its end: the process that ended in .done, and the model."""

    def __init__(self, harness, place, with_recipe):
        self.harness, self.place = harness, place
        script = harness.escapes(place)
        self.escapes = len(script)
        if with_recipe:
            calls = [harness.calls_of_cloister(tool, arguments) for tool, arguments in (
                ("write_file", {"path": "made", "content": "by cloister\n"}),
                ("run_command", {"command": f"cat made {place.secret}; id -u"}),
                ("run_command", {"command": MANY}),
                ("run_command", {"command": SILENT, "timeout_ms": 120_000}))]
            # Turn by turn: several failures in a row end a conversation.
            script = [step for pair in itertools.zip_longest(calls, script) for step in pair if step]
        self.model = ScriptedModel(script)
        harness.settings(place, self.model.url)
        plant(place)
        place.give()
        self.words = [harness.name, *harness.words]
        self.with_recipe = with_recipe

    def play(self):
        """In a thread."""
        with self.model:
            if self.with_recipe:
                recipe = self.place.run("cloister", "--workspace", self.place.workspace, "harness", self.harness.name)
                assert (recipe.returncode, recipe.stderr) == (0, ""), recipe
                set_up = self.place.run("sh", input=recipe.stdout)
                start = self.place.home / ".config" / "cloister" / self.harness.name / "start"
                assert set_up.returncode == 0 and set_up.stdout.rstrip().endswith(f" {start}"), set_up
                self.words[0] = start
            # A user starts a harness in the project; the recipe's script goes elsewhere.
            self.done = self.place.run(*self.words, cwd=self.place.workspace)
        return self


@pytest.fixture(scope="module")
def runs(area, programs, pool):
    """run(name, with_recipe): the Run of a harness. All begin at once."""
    begun = {(name, with_recipe): pool.submit(Run(harness, Place(area, programs), with_recipe).play)
             for with_recipe in (True, False) for name, harness in HARNESSES.items()}
    yield lambda *key: begun[key].result()
    for run in begun.values():
        run.exception()


def told(run):
    return f"{run.done}\noffered: {list(run.model.offered)}\n" + "\n".join(result[:500] for result in run.model.results)


@pytest.mark.parametrize("name", HARNESSES)
def test_without_the_recipe_a_call_gets_out(runs, name):
    """What the other case expects not to happen does happen, by each of the tools that it asks for."""
    run = runs(name, False)
    assert run.place.escaped() == run.harness.makes, told(run)
    readers = [result for result in run.model.results if "it-is-secret" in result]
    assert len(readers) == (1 if isinstance(run.harness, Codex) else 2), told(run)


@pytest.mark.parametrize("name", HARNESSES)
def test_no_call_gets_out(runs, name):
    run = runs(name, True)
    assert run.place.escaped() == [] and not any("it-is-secret" in result for result in run.model.results), told(run)
    own = {tool for tool in run.model.offered if "cloister" not in tool}
    assert own <= run.harness.left, told(run)


@pytest.mark.parametrize("name", HARNESSES)
def test_the_calls_of_cloister_work(runs, name):
    run = runs(name, True)
    assert run.done.returncode == 0 and len(run.model.results) == run.escapes + 4, told(run)
    assert (run.place.workspace / "made").read_text() == "by cloister\n", told(run)
    (seen,) = [result for result in run.model.results if "by cloister" in result]
    # Some of them put the output into JSON once or twice more, so what is between the numbers differs.
    (many,) = [result for result in run.model.results if re.search(r"12\D{1,9}13\D{1,9}14\D{1,9}15", result)]
    assert "1000" in seen and "No such file" in seen, told(run)
    # Each harness is sent the form that its model can use: no observation reaches it as JSON.
    assert not any("stdout_bytes" in result for result in run.model.results), told(run)
    # What cloister leaves of a long output is short enough for each harness: its model sees the end of it.
    assert "299999" in many and len(many) < 150_000, told(run)
    assert "rested" in run.model.results[-1], told(run)
