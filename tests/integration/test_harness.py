# SPDX-License-Identifier: Apache-2.0
"""`cloister harness`: its scripts, run by a user with an empty home, and the settings that they write. What the harnesses make of
them is in tests/clients."""

import json
import os
import re
import subprocess

import pytest
from cloister_client import acting_as
from daemon import ROOT, environment, user_mode_only

pytestmark = user_mode_only
NAMES = ["claude", "codex", "opencode", "gemini", "cline", "zed"]


@pytest.fixture
def home(area):
    return area.new_directory("home")


def cloister(area, *words, home, **keywords):
    return area.run("cloister", *map(str, words), env=environment(home), **keywords)


def servers_words(settings, name):
    """The words that start the server, from the settings of one harness."""
    if name == "codex":
        (line,) = [line for line in settings.splitlines() if line.startswith("args = ")]
        assert 'command = "cloister"\n' in settings
        return json.loads(line.removeprefix("args = "))
    settings = json.loads(settings)
    if name == "opencode":
        program, *words = settings["mcp"]["cloister"]["command"]
    else:
        server = settings["context_servers" if name == "zed" else "mcpServers"]["cloister"]
        program, words = server["command"], server["args"]
    assert program == "cloister"
    return words


def test_the_list(area, home):
    done = cloister(area, "harness", home=home)
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == NAMES
    assert json.loads(cloister(area, "--json", "harness", home=home).stdout) == NAMES


def test_what_each_harness_shows_its_model(area, home):
    """doc/clients.md has a table of what is shown of a result. None shows both forms, so each is sent the text alone."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (text|structuredContent) \|$", (ROOT / "doc" / "clients.md").read_text(), re.M)
    assert [name for name, _ in rows] == NAMES
    for name, _ in rows:
        recipe = cloister(area, "--workspace", "managed", "harness", name, home=home).stdout.decode()
        assert '"mcp", "--text"' in recipe, name
    named = cloister(area, "--workspace", "managed", "harness", "zed", "--tools", "basic edit", home=home).stdout.decode()
    assert '"mcp", "--text", "--tools", "basic edit"' in named


@pytest.mark.parametrize("name", NAMES)
def test_the_script(area, home, name):
    """It writes into its directory alone, can be run again, and what it writes starts the server as this command line would."""
    workspace = area.new_directory('a "b" \\ ü')
    for words, expected in (
            (["--workspace", workspace], ["--workspace", str(workspace)]),
            (["--workspace", workspace, "--readonly-path", "/opt"], ["--workspace", str(workspace), "--readonly-path", "/opt"]),
            (["--workspace", workspace, "--private", "--rootfs"], ["--workspace", str(workspace), "--private", "--rootfs"]),
            (["--workspace", "managed", "--create", "--socket", "/dev/null"],
             ["--workspace", "managed", "--socket", "/dev/null", "--create"])):
        done = cloister(area, *words, "harness", name, home=home)
        assert (done.returncode, done.stderr) == (0, b"")
        assert max(map(len, done.stdout.decode().splitlines())) <= 200
        shown = json.loads(cloister(area, "--json", *words, "harness", name, home=home).stdout)
        assert shown["harness"] == name and shown["recipe"].encode() == done.stdout
        ran = subprocess.run(["sh"], input=done.stdout, cwd=home, env=environment(home), capture_output=True, check=False,
                             **area.account.as_user())
        assert (ran.returncode, ran.stderr) == (0, b""), ran
        directory = home / ".config" / "cloister" / name
        assert str(directory).encode() in ran.stdout
        with acting_as(os.getuid()):
            written = {path for path in home.rglob("*") if path.is_file()}
            (settings,) = written - {directory / "start"}
            assert settings.parent == directory
            assert servers_words(settings.read_text(), name) == [*expected, "mcp", "--text"]
            if name != "zed":
                assert os.access(directory / "start", os.X_OK)
                assert subprocess.run(["sh", "-n", directory / "start"], check=False).returncode == 0


def test_the_current_directory_is_the_workspace(area, home):
    workspace = area.new_directory()
    done = cloister(area, "harness", "claude", home=home, cwd=workspace)
    assert f'"{workspace}"' in done.stdout.decode()
    done = cloister(area, "harness", "claude", home=home, cwd=home)
    assert done.returncode == 3 and b"is your home directory" in done.stderr and done.stdout == b""


@pytest.mark.parametrize("name", ["$HOME", "{env:HOME}", "${HOME}", "a\nEND\nb", b"\xff"])
def test_a_path_that_harnesses_would_change_is_refused(area, home, name):
    parent = area.new_directory()
    workspace = os.path.join(os.fsencode(parent), os.fsencode(name))
    with acting_as(area.account.uid, area.account.gid):
        os.mkdir(workspace)
    done = area.run("cloister", "--workspace", workspace, "harness", "claude", env=environment(home))
    assert done.returncode == 2 and b"rename it" in done.stderr and done.stdout == b""


def test_a_socket_that_is_not_there(area, home):
    done = cloister(area, "--workspace", "w", "--socket", "nothing", "harness", "claude", home=home)
    assert (done.returncode, done.stdout) == (3, b"") and b"nothing: No such file" in done.stderr
