# SPDX-License-Identifier: Apache-2.0
"""Libraries and command lines that speak MCP, as clients of a service. Each lists the tools, writes, runs, gets an output of 300,000
lines, and waits for a command that is silent for longer than the minute after which most of them give up by default."""

import json
import pathlib

import npm
import pytest
from conftest import Place

SCRIPT = pathlib.Path(__file__).with_name("library.mjs")
# What they are held to is what these versions do; newer ones are taken by hand.
PINNED = {
    "@modelcontextprotocol/sdk": "1.32.2", "@modelcontextprotocol/client": "2.4.0", "@modelcontextprotocol/inspector": "2.12.0",
    "@langchain/mcp-adapters": "1.1.4", "@langchain/core": "1.4.0", "@openai/agents": "0.20.0", "ai": "7.0.173",
    "@ai-sdk/mcp": "2.0.99", "@mastra/mcp": "2.0.0", "@mastra/core": "1.71.0", "mcporter": "0.12.3"}
LIBRARIES = ["sdk1", "sdk2", "langchain", "agents", "ai", "mastra"]
TOOLS = ["list_directory", "read_file", "run_command", "search_files", "write_file"]
DEADLINE_MS = 120_000


def silent(seconds):
    return {"command": f"sleep {seconds}; echo rested", "timeout_ms": DEADLINE_MS}


@pytest.fixture(scope="module")
def packages(area):
    return npm.Packages(area.new_directory("libraries"), PINNED, least=24)


class Commands:
    """A client that is a command line: one process a call. It gives what the library's script prints."""

    def __init__(self, packages, place, server):
        self.node, self.modules = packages.node, packages.path / "node_modules"
        self.place, self.server = place, list(map(str, server))

    seconds = 75

    def play(self, pool):
        calls = {"silent": ("run_command", silent(self.seconds)), "write": ("write_file", {"path": "made", "content": f"by {self.name}\n"}),
                 "run": ("run_command", {"command": "cat made; id -u"}), "many": ("run_command", {"command": "seq 1 300000"})}
        last = pool.submit(self.call, *calls.pop("silent"))
        said = {"tools": sorted(tool["name"] for tool in self.list()["tools"])}
        said.update({key: self.call(*call) for key, call in calls.items()})
        return {**said, "silent": last.result()}

    def run(self, *words):
        done = self.place.run(self.node, *words)
        assert done.returncode == 0, done
        return json.loads(done.stdout)


class Inspector(Commands):
    name = "inspector"
    seconds = 45  # its command line gives up after a minute, whatever comes meanwhile, and has no option for it

    def start(self, *words):
        return self.run(self.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli",
                        *self.server, *words)

    def list(self):
        return self.start("--method", "tools/list")

    def call(self, tool, given):
        return self.start("--method", "tools/call", "--tool-name", tool,
                          *(word for pair in given.items() for word in ("--tool-arg", "=".join(map(str, pair)))))


class Mcporter(Commands):
    name = "mcporter"

    def start(self, action, *words):
        command, *rest = self.server
        return self.run(self.modules / "mcporter/dist/cli.js", action, "--stdio", command,
                        *(word for argument in rest for word in ("--stdio-arg", argument)), *words)

    def list(self):
        return self.start("list", "--json")

    def call(self, tool, given):
        return self.start("call", "--output", "json", "--timeout", DEADLINE_MS, "--tool", tool, "--args", json.dumps(given))


COMMANDS = {kind.name: kind for kind in (Inspector, Mcporter)}


def play_library(packages, place, words):
    done = place.run(*words, cwd=packages.path)
    assert done.returncode == 0, done
    said = {}
    for line in done.stdout.splitlines():
        said.update(json.loads(line))
    return said


@pytest.fixture(scope="module")
def plays(area, daemon, packages, pool):
    """play(name): what the client has got. All begin at once."""
    begun = {}
    script = packages.command(SCRIPT)  # copied once, and not while another reads it
    for name in [*LIBRARIES, *COMMANDS]:
        place = Place(area, packages.path)
        server = [area.bin / "cloister", "--socket", daemon.socket, "--workspace", place.workspace, "mcp"]
        place.give()
        if name in COMMANDS:
            begun[name] = pool.submit(COMMANDS[name](packages, place, server).play, pool)
        else:
            begun[name] = pool.submit(play_library, packages, place, [*script, name, DEADLINE_MS, *server])
    yield lambda name: begun[name].result()
    for play in begun.values():
        play.exception()


@pytest.mark.parametrize("name", [*LIBRARIES, *COMMANDS])
def test_a_client(plays, name):
    said = {key: value if key == "tools" else json.dumps(value) for key, value in plays(name).items()}
    assert said["tools"] == TOOLS
    assert "bytes written" in said["write"] or '"bytes_written"' in said["write"]
    assert f"by {name}" in said["run"] and "1000" in said["run"]
    assert "1\\n2\\n3\\n" in said["many"] and "299999\\n300000" in said["many"] and len(said["many"]) < 300_000
    assert "rested" in said["silent"]
