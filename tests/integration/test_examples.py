# SPDX-License-Identifier: Apache-2.0
"""The agents of examples/, each run against a scripted model, and the tool definitions that `cloister tools` prints for a
model's API."""

import json
import os
import shutil
import subprocess

import pytest

from daemon import BUILD, ROOT, environment
from model_server import ModelServer
from npm import Packages, unavailable

EXAMPLES = ROOT / "examples"
PINNED = {**json.loads((EXAMPLES / "node" / "package.json").read_text())["dependencies"], "typescript": "5.9.3",
          "@types/node": "18.19.130"}
AWKWARD = "it's \"$HOME\" `id` \\ é\n\ttwo\n"


def calling(*calls, content=""):
    """A model's message with tool calls as Ollama sends it: the arguments are an object."""
    return {"role": "assistant", "content": content,
            "tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]}


CONVERSATION = [
    calling(("list_directory", {"path": "."})),
    calling(("write_file", {"path": "src/awkward name.txt", "content": AWKWARD}), content="I write it."),
    # Three calls in one message: the first fails, and the last names no tool.
    calling(("read_file", {"path": "../outside"}),
            ("run_command", {"command": "cat 'src/awkward name.txt'; exit 3", "timeout_ms": 20000}),
            ("delete_everything", {})),
    calling(("search_files", {"pattern": "tw.", "path": "src"})),
    {"role": "assistant", "content": "All done: it's \"fine\"."},
]


@pytest.fixture(scope="module")
def packages(area, request):
    made = []

    def get():
        if not made:
            client = request.getfixturevalue("typescript_client")
            made.append(Packages(area.new_directory("npm"), {**PINNED, "cloister-client": f"file:{client}"}, least=18))
        return made[0]
    return get


def node(packages):
    return packages().command(EXAMPLES / "node" / "agent.mjs")


def python(_):
    return ["/usr/bin/python3", str(EXAMPLES / "python" / "agent.py")]


def in_c(_):
    return [str(BUILD / "examples" / "agent")]


def shell(_):
    if not shutil.which("jq") or not shutil.which("curl"):
        unavailable("jq and curl are not installed")
    return ["/bin/bash", str(EXAMPLES / "shell" / "agent.sh")]


def start(words, area, daemon, model, workspace, prompt, **more):
    """Runs an example as the user, from a copy that the user can reach."""
    place = area.new_directory("example")
    words = list(words)
    for i, word in enumerate(words):
        if word.startswith(str(ROOT)):
            words[i] = str(shutil.copy(word, place))
    env = {**environment(area.home), "OLLAMA_HOST": model.url, "CLOISTER_SOCKET": str(daemon.socket), "MODEL": "scripted",
           **more}
    env["PATH"] = f"{area.bin}:{env['PATH']}"
    env["PYTHONPATH"] = str(shutil.copytree(ROOT / "clients" / "python" / "src", place / "python"))
    return subprocess.run([*words, str(workspace), prompt], env=env, cwd=place, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False, **area.account.as_user())


@pytest.mark.deep("slow")
@pytest.mark.parametrize("example", [node, python, in_c, shell])
def test_an_example_agent_works(packages, area, daemon, example):
    words, workspace = example(packages), area.new_directory()
    prompt = "Make it so, it's \"urgent\" – now"
    with ModelServer(CONVERSATION) as model:
        done = start(words, area, daemon, model, workspace, prompt)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "All done: it's \"fine\".\n"
    assert not model.faults and len(model.requests) == len(CONVERSATION)

    expected = daemon.connect().call("tools.list", {"format": "ollama"})["tools"]
    assert all(request["tools"] == expected and request["model"] == "scripted" for request in model.requests)
    messages = model.requests[-1]["messages"]
    assert messages[0] == {"role": "user", "content": prompt}
    assert [message["role"] for message in messages] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "tool", "tool", "assistant", "tool"]
    assert [message["content"] for message in messages if message["role"] == "assistant"] == ["", "I write it.", "", ""]
    replies = [message for message in messages if message["role"] == "tool"]
    assert [reply["tool_name"] for reply in replies] == [
        "list_directory", "write_file", "read_file", "run_command", "delete_everything", "search_files"]
    seen = [reply["content"] for reply in replies]
    assert seen[0].startswith(". (") and seen[1].startswith("src/awkward name.txt (")
    assert seen[2].startswith("PATH_OUTSIDE_WORKSPACE: ") and seen[4].startswith("UNKNOWN_TOOL: ")
    # The shell's agent opens the workspace for each call, and is told each time what holds in it.
    assert seen[3].partition("[here: ")[0] == f"exit 3\n{AWKWARD}"
    assert seen[5].startswith("1 match, ")
    assert (workspace / "src" / "awkward name.txt").read_text() == AWKWARD


@pytest.mark.deep("slow", only=["node", "shell"])  # the packages of node take longer than any case
@pytest.mark.parametrize("example", [node, python, in_c, shell])
def test_an_example_agent_ends_when_the_model_does_not(packages, area, daemon, example):
    words = example(packages)
    with ModelServer([calling(("list_directory", {"path": "."}))] * 100) as model:
        done = start(words, area, daemon, model, area.new_directory(), "go on")
    assert done.returncode == 1 and "rounds" in done.stderr
    assert len(model.requests) == 25


@pytest.mark.deep("slow", only=["node"])
@pytest.mark.parametrize("example", [node, python, in_c, shell])
def test_an_example_agent_says_when_there_is_no_model(packages, area, daemon, example):
    words = example(packages)
    with ModelServer([]) as model:
        done = start(words, area, daemon, model, area.new_directory(), "go on")
    assert done.returncode not in (0, 2) and done.stderr and not done.stdout


@pytest.mark.deep("repeats")
@pytest.mark.parametrize("example", [node, python, in_c, shell])
@pytest.mark.parametrize("form", ["127.0.0.1:{}", "localhost:{}", ":{}", "0.0.0.0:{}", "http://127.0.0.1:{}/"])
def test_an_example_agent_takes_ollamas_own_forms_of_its_host(packages, area, daemon, example, form):
    with ModelServer([{"role": "assistant", "content": "done"}]) as model:
        host = form.format(model.server.server_port)
        done = start(example(packages), area, daemon, model, area.new_directory(), "go on", OLLAMA_HOST=host)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert len(model.requests) == 1


def test_an_example_agent_finds_localhost_behind_its_address_of_ipv6(packages, area, daemon):
    """As Debian's /etc/hosts has it. libevent tries the first address only."""
    hosts = area.new_directory("hosts") / "hosts"
    hosts.write_text("::1 localhost\n127.0.0.1 localhost\n")
    own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec \"$@\"", "sh"]
    with ModelServer([{"role": "assistant", "content": "done"}]) as model:
        done = start([*own, *in_c(packages)], area, daemon, model, area.new_directory(), "go on",
                     OLLAMA_HOST=f"localhost:{model.server.server_port}")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.deep("slow", only=["node"])
@pytest.mark.parametrize("example", [node, python, in_c, shell])
def test_an_example_agent_asks_a_server_of_https_by_tls_only(packages, area, daemon, example):
    with ModelServer([{"role": "assistant", "content": "done"}]) as model:
        host = model.url.replace("http:", "https:")
        done = start(example(packages), area, daemon, model, area.new_directory(), "go on", OLLAMA_HOST=host)
    assert done.returncode == 1 or example is shell and done.returncode > 2, done
    assert not model.requests and not done.stdout and done.stderr


@pytest.mark.parametrize("host, url", [
    ("", "http://127.0.0.1:11434"), ("192.0.2.1", "http://192.0.2.1:11434"), ("http://a", "http://a:80"),
    ("https://a.example/ollama/", "https://a.example:443/ollama"), ("[::1]", "http://[::1]:11434"),
    ("https://a:8443", "https://a:8443")])
def test_the_ports_that_ollamas_host_stands_for(host, url):
    script = f"import sys; sys.path[:0] = [{str(EXAMPLES / 'python')!r}]; import agent; print(agent.ollama({host!r}))"
    done = subprocess.run(["/usr/bin/python3", "-B", "-c", script], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(ROOT / "clients/python/src")})
    assert done.stdout == f"{url}\n", done.stderr


@pytest.mark.deep("slow", only=["node"])
@pytest.mark.parametrize("example", [node, python, in_c])
def test_an_example_agent_says_what_to_start_without_a_service(packages, area, daemon, example):
    with ModelServer([]) as model:
        done = start(example(packages), area, daemon, model, area.new_directory(), "go on",
                     CLOISTER_SOCKET=str(area.path / "none"), XDG_RUNTIME_DIR=str(area.path))
    assert done.returncode == 1 and "start" in done.stderr and "cloisterd" in done.stderr, done.stderr


def type_check(made, tools):
    """Runs tsc on the definitions as an array of the package's type Tool."""
    # Each definition is a variable. In one literal TypeScript would give the elements each other's members.
    lines = ['import type { Tool } from "ollama";']
    lines += [f"const tool{i} = {json.dumps(tool)};" for i, tool in enumerate(tools)]
    lines += [f"export const tools: Tool[] = [{', '.join(f'tool{i}' for i in range(len(tools)))}];", ""]
    (made.path / "check.ts").write_text("\n".join(lines))
    return subprocess.run(
        [made.node, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
         "--module", "nodenext", "--moduleResolution", "nodenext", "check.ts"],
        cwd=made.path, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.deep("slow")
@pytest.mark.parametrize("limits", [(), ("--limits",)])
def test_the_definitions_are_ollamas_type(packages, area, limits):
    printed = area.private(area.new_directory(), "tools", *limits)
    assert printed.returncode == 0, printed.stderr
    tools = json.loads(printed.stdout)
    done = type_check(packages(), tools)
    assert done.returncode == 0, done.stdout
    if not limits:  # tsc does find a mistake
        tools[0]["function"]["parameters"]["required"].append(7)
        assert type_check(packages(), tools).returncode != 0


@pytest.mark.parametrize("limits", [(), ("--limits",)])
@pytest.mark.parametrize("format", ["ollama", "openai", "mcp"])
def test_the_parameters_are_json_schema(area, format, limits):
    jsonschema = pytest.importorskip("jsonschema") if os.environ.get("CI") != "true" else __import__("jsonschema")
    printed = area.private(area.new_directory(), "tools", f"--format={format}", *limits)
    for tool in json.loads(printed.stdout):
        schema = tool["inputSchema"] if format == "mcp" else tool["function"]["parameters"]
        jsonschema.Draft202012Validator.check_schema(schema)
