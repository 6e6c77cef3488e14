# SPDX-License-Identifier: Apache-2.0
"""The directories in which `cloister` refuses to take the current directory for the workspace. Programs start MCP
servers in / and in the home directory, where an agent would reach the whole account."""

import json
import os
import pwd
import subprocess

import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, environment, user_mode_only

pytestmark = user_mode_only

REFUSED, EXEC_FAILED = 3, 125  # cloister(1), EXIT STATUS
NAME_IT = "or name the workspace: --workspace DIR"
PRIVATE = [".ssh/", ".gnupg/", ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
           ".gemini/google_accounts.json", ".config/opencode/", ".local/share/opencode/", ".config/zed/", ".cline/",
           ".config/cloister/"]


class Person:
    """A home directory of the user's, in which `cloister` runs."""

    def __init__(self, area):
        self.area = area
        self.home = area.new_directory("account")

    def make(self, name):
        """Makes a file, or a directory if @name ends with a slash, in the home directory."""
        with acting_as(self.area.account.uid):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.write_text("secret")
        return path

    def run(self, directory, *words, **variables):
        env = {**environment(self.home), **{name: str(value) for name, value in variables.items()}}
        return self.area.run("cloister", "--private", *words, cwd=directory, env=env)

    def refused(self, directory, *words, **variables):
        """Runs `cloister`, which must refuse: it prints one message, which is returned, and does nothing."""
        done = self.run(directory, *(words or ("call", "list_directory", "path=.")), **variables)
        assert done.returncode == (EXEC_FAILED if "exec" in words else REFUSED) and done.stdout == b"", done
        message = done.stderr.decode()
        assert NAME_IT in message and message.count("\n") == 1
        return message

    def lists(self, directory, *words, **variables):
        done = self.run(directory, *words, "call", "list_directory", "path=.", **variables)
        assert done.returncode == 0, done
        return {entry["path"] for entry in json.loads(done.stdout)["output"]["entries"]}


@pytest.fixture
def person(area):
    return Person(area)


@pytest.mark.parametrize("words", [("mcp",), ("call", "run_command", "command=true"), ("exec", "--", "true"),
                                   ("tools", "--limits"), ("get", "."), ("put", "/etc/passwd")], ids=lambda words: words[0])
def test_every_command_refuses_the_home(person, words):
    assert f"{person.home} is your home directory" in person.refused(person.home, *words)


def test_root_home_and_what_is_above_it(person):
    assert "/ is the root directory" in person.refused("/")
    assert f"{person.home.parent} holds your home directory" in person.refused(person.home.parent)
    link = person.area.path / "link-to-home"
    with acting_as(person.area.account.uid):
        link.symlink_to(person.home)
    assert "is your home directory" in person.refused(link)


@pytest.mark.skipif(not AM_ROOT, reason="needs root and its home directory")
def test_the_home_of_passwd(area):
    """The home directory is that of passwd(5), whatever HOME is. Here it is root's."""
    home = pwd.getpwuid(0).pw_dir
    done = subprocess.run([area.bin / "cloister", "--private", "call", "list_directory", "path=."], cwd=home, user=0,
                          env=environment("/nonexistent"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == REFUSED and f"{home} is your home directory" in done.stderr, done


@pytest.mark.parametrize("name", PRIVATE)
def test_private_files(person, name):
    path = person.make(name)
    project = person.make("project/").resolve()
    named = name.rstrip("/")
    # a directory inside the protected one, if that is a directory
    if name.endswith("/"):
        assert f"is part of {named}" in person.refused(path)
    # the directory above it, if that is below the home
    if "/" in named:
        assert f"holds {named}" in person.refused(path.parent)
    # the same name below a copy of the home
    copy = person.area.new_directory("copy")
    with acting_as(person.area.account.uid):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, copy / named)
    assert f"{copy} holds {named}" in person.refused(copy)
    assert person.lists(project) == set()


def test_configuration_that_a_variable_names(person):
    directory = person.make("work/settings/")
    for name in ("GNUPGHOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        assert f"is part of {name}" in person.refused(directory, **{name: directory})
        assert f"holds {name}" in person.refused(directory.parent, **{name: directory})
        assert person.lists(person.make("other/"), **{name: directory}) == set()


def test_a_project_with_its_own_settings_is_none(person):
    for name in (".claude/settings.json", ".codex/config.toml", ".gemini/settings.json", ".config/x"):
        person.make(f"project/{name}")
    assert person.lists(person.home / "project") == {".claude", ".codex", ".gemini", ".config"}


def test_what_is_named_is_taken(person):
    person.make(".ssh/")
    assert ".ssh" in person.lists(person.home, "--workspace", ".")
    assert person.lists("/", "--workspace", person.home / ".ssh") == set()


def test_the_refusal_as_json(person):
    done = person.run(person.home, "--json", "call", "list_directory", "path=.")
    assert done.returncode == REFUSED
    assert json.loads(done.stdout)["error"]["code"] == "UNSAFE_WORKSPACE"


def test_a_directory_that_the_user_cannot_search(person):
    closed = person.make("closed/")
    words = "chmod 0 . && exec $0 --private call list_directory path=."
    done = person.area.run("/bin/sh", "-c", words, person.area.path / "bin/cloister", cwd=closed,
                           env=environment(person.home))
    assert done.returncode == REFUSED and b"may not enter it" in done.stderr, done
