# SPDX-License-Identifier: Apache-2.0
"""The official TypeScript SDKs as clients of `cloister mcp`."""

import json
import os
import pathlib
import subprocess

import pytest

import procfs
from daemon import environment
from npm import Packages

pytestmark = pytest.mark.deep("slow")

LIB = pathlib.Path(__file__).resolve().parents[1] / "lib"
SCRIPT = LIB / "mcp_sdk.mjs"
# The tests are bound to these versions. A newer one is chosen by hand.
PINNED = {"@modelcontextprotocol/sdk": "1.32.2", "@modelcontextprotocol/client": "2.4.0", "@modelcontextprotocol/ext-tasks": "0.2.2"}


@pytest.fixture(scope="module")
def packages(area):
    return Packages(area.new_directory("npm"), PINNED, least=20)


@pytest.mark.parametrize("sdk, mode, version", [
    ("1", "-", None), ("2", "legacy", "2025-11-25"), ("2", "auto", "2026-07-28"), ("2", "pin", "2026-07-28")])
def test_an_official_client(packages, area, daemon, sdk, mode, version):
    workspace = area.new_directory()
    number = f"5601.{os.getpid()}s"
    command = [area.bin / "cloister", "--socket", daemon.socket, "--workspace", workspace, "mcp"]
    with subprocess.Popen(
            packages.command(SCRIPT, sdk, mode, *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=packages.path, env={**environment(area.home), "SLEEP": number, "WAIT": "1"},
            **area.account.as_user()) as process:
        said = []
        for line in process.stdout:
            said.append(json.loads(line))
            if len([entry for entry in said if "result" in entry]) == 7:
                break
        # The client is still connected, so the cancellation ended the command.
        gone = procfs.eventually(lambda: not procfs.having(f"sleep {number}"), 60)
        process.stdin.close()
        said += [json.loads(line) for line in process.stdout]
        assert process.wait(60) == 0
    assert gone

    def all_of(what):
        return [entry[what] for entry in said if what in entry]
    # The SDK may handle a notification after an answer that came in the same read. It then no longer knows the call.
    assert [said for said in all_of("complaint") if "progress notification for an unknown token" not in said] == []
    assert all_of("server")[0]["name"] == "cloister"
    assert all_of("version") == ([version] if version else [])
    (tools,) = all_of("tools")
    assert [tool["name"] for tool in tools] == [
        "read_file", "write_file", "list_directory", "run_command", "search_files"]
    observations = [result["structuredContent"] for result in all_of("result")]
    assert [observation["tool"] for observation in observations] == [
        "write_file", "read_file", "list_directory", "search_files", "run_command", "read_file", "run_command"]
    assert observations[1]["output"]["content"] == "     1\tone\n     2\ttwo\n"
    assert [entry["path"] for entry in observations[2]["output"]["entries"]] == ["d", "d/a.txt"]
    assert observations[3]["output"]["matches"][0]["line"] == 2
    assert observations[4]["output"]["exit_code"] == 3
    assert observations[5]["error"]["code"] == "PATH_OUTSIDE_WORKSPACE"
    assert [bool(result.get("isError")) for result in all_of("result")] == [False] * 5 + [True, False]
    progress = all_of("progress")
    told = [entry["message"] for entry in progress]
    assert told[told.count("running")] == "begun"  # a command that begins late is reported as running first
    assert [entry["progress"] for entry in progress] == sorted({entry["progress"] for entry in progress})
    assert all_of("running") and "enough" in all_of("aborted")[0]


def test_the_official_client_of_tasks(packages, area, daemon):
    """It sees the command that takes long as a task, cancels one, and finds one again after its death."""
    workspace = area.new_directory()
    number = f"5602.{os.getpid()}s"
    command = [area.bin / "cloister", "--socket", daemon.socket, "--workspace", workspace, "mcp"]
    done = subprocess.run(
        packages.command(LIB / "mcp_ext_tasks.mjs", *command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        cwd=packages.path, env={**environment(area.home), "SLEEP": number}, timeout=300, check=True, **area.account.as_user())
    said = {}
    for line in done.stdout.splitlines():
        said.update(json.loads(line))
    assert "cancelled" in said.pop("cancelled")
    assert said == {"quick": ["immediate", "quick\n"], "slow": "task", "doomed": "task", "resumed": "slow\n"}
    assert not procfs.having(f"sleep {number}")
