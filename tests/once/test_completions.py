# SPDX-License-Identifier: Apache-2.0
"""The completions of bash, zsh and fish offer what the programs accept."""

import json
import os
import pty
import re
import select
import subprocess

import pytest

import manual
import procfs
from cloister_client import acting_as
from daemon import environment, user_mode_only
from manual import ROOT, agree

FOLDER = ROOT / "packaging" / "completions"
FILES = {"bash": "{}.bash", "zsh": "_{}", "fish": "{}.fish"}
PROGRAMS = ("cloister", "cloisterctl", "cloisterd")


class Shell:
    """One shell of the three. complete(LINE) returns what it offers at the end of LINE."""

    def __init__(self, name, area):
        manual.need(name)
        self.name, self.area = name, area
        self.folder = area.path / "completions"
        if not self.folder.exists():
            area.directory("completions")
            for path in [*FOLDER.iterdir(), *(ROOT / "tests" / "lib").glob("complete.*")]:
                (self.folder / path.name).write_bytes(path.read_bytes())
        self.directory = area.new_directory()

    def words(self, line):
        if self.name == "fish":
            # Typed literally: the text before the cursor is read and not run.
            program = line.split()[0]
            return ["fish", "--no-config", "-c",
                    f"source {self.folder}/{program}.fish; complete -C $argv[1]", "--", line]
        options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[self.name]
        return [self.name, *options, str(self.folder / f"complete.{self.name}"), str(self.folder), line]

    def complete(self, line, **variables):
        env = {**environment(self.area.home), "TERM": "dumb", "LANG": "C.UTF-8", **variables}
        env["PATH"] = f"{self.area.bin}:{env['PATH']}"
        with acting_as(os.getuid()):
            done = subprocess.run(self.words(line), cwd=self.directory, env=env, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=120, **self.area.account.as_user())
        assert done.returncode == 0 and not done.stderr, done
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    def names(self, line, **variables):
        """Returns the names, without the part before the last "=" and without a "=" at the end."""
        return {re.sub(r"=$", "", word) for word in self.complete(line, **variables)}

    def long_options(self, line):
        return {match[1] for word in self.complete(line) if (match := re.match(r"--([a-z][a-z-]*)", word))}

    def values(self, line):
        """Returns the values after the "="; fish offers the whole word."""
        return {word.rpartition("=")[2] for word in self.complete(line)}


@pytest.fixture(params=FILES)
def shell(request, area):
    return Shell(request.param, area)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_syntax(name, program):
    manual.need(name)
    path = FOLDER / FILES[name].format(program)
    done = subprocess.run([name, "-n", path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), path


def test_every_file_is_installed():
    rules = (FOLDER / "CMakeLists.txt").read_text()
    assert set(re.search(r"foreach\(program (.*?)\)", rules)[1].split()) == set(PROGRAMS)
    assert {path.name for path in FOLDER.iterdir()} == \
        {form.format(program) for form in FILES.values() for program in PROGRAMS} | {"CMakeLists.txt"}


def test_options(shell, area):
    for program in PROGRAMS:
        agree(shell.long_options(f"{program} --"), manual.known_options(area, program),
              f"packaging/completions/{FILES[shell.name].format(program)}", "options")


def was_run(area):
    """Whether the shell ran a name, which would have made a file."""
    return any("pwned" in files for _, _, files in os.walk(area.path))


@pytest.mark.deep("slow", only=["zsh"])
def test_options_of_commands(shell, area):
    for command in manual.program_commands(area, "cloister"):
        agree(shell.long_options(f"cloister {command} --"), manual.known_options(area, "cloister", command),
              f"packaging/completions/{FILES[shell.name].format('cloister')}, {command},", "options")


def test_commands(shell, area):
    for program in ("cloister", "cloisterctl"):
        commands = manual.program_commands(area, program)
        where = f"packaging/completions/{FILES[shell.name].format(program)}"
        agree(shell.names(f"{program} "), commands, where, "commands")
        agree(shell.names(f"{program} help "), commands, f"{where}, help,", "commands")
    assert shell.complete("cloisterctl stat") == ["status"]
    assert shell.names("cloisterctl audit ") == {"verify"}


def test_tools_and_arguments(shell):
    tools = {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in manual.tables()["tools"]}
    where = f"packaging/completions/{FILES[shell.name].format('cloister')}"
    agree(shell.names("cloister call "), tools, where, "tools")
    for tool, arguments in tools.items():
        agree(shell.names(f"cloister call {tool} "), arguments, f"{where}, {tool},", "arguments")
    assert shell.names("cloister --private call --timeout=3s read_file path=x ") == {"start_line", "end_line"}
    assert shell.values("cloister call list_directory recursive=") == {"true", "false"}


def test_call_options(shell):
    page = manual.words(manual.part("cloister-protocol.7", "OPTIONS"), "Cm", True) - {"stream_bytes"}  # cloister call prints JSON
    offered = {word.rpartition("--option=")[2].partition("=")[0]
               for word in shell.complete("cloister call --option ")}
    agree(offered, page, f"packaging/completions/{FILES[shell.name].format('cloister')}, --option,", "options")
    assert {word.rpartition("=")[2] for word in shell.complete("cloister call --option encoding=")} == \
        {"utf-8", "base64"}
    assert shell.values("cloister tools --format=") == {"ollama", "openai", "mcp"}


def test_harnesses(shell, area):
    assert shell.values("cloister harness ") == set(json.loads(area.run("cloister", "--json", "harness").stdout))


def test_paths_are_the_workspace_s(shell, area):
    with acting_as(area.account.uid, area.account.gid):
        inside = shell.directory / "tree"
        inside.mkdir()
        (inside / "notes.txt").touch()
        (inside / "with blank").touch()
        (shell.directory / "outside.txt").touch()
    for line in ("cloister --workspace=tree call read_file path=", "cloister call --workspace tree read_file path="):
        found = {word.rpartition("path=")[2].replace("\\", "") for word in shell.complete(line)}
        assert found == {"notes.txt", "with blank"}, line
    assert any("tree" in word for word in shell.complete("cloister --workspace t"))
    assert not any("outside" in word for word in shell.complete("cloister --workspace "))


@user_mode_only
def test_what_a_service_has(shell, area, account, start_daemon):
    """Workspaces, calls and tenants come from the service. No shell runs such a name, whatever it contains."""
    daemon = start_daemon(config=f"[cloister]\nadmin_group = {account.gid}\n"
                                 f"[tenant alice]\nusers = {account.uid}\nmanaged = yes\nroots = {area.path}\n")
    evil = area.directory(f"$(touch pwned);`touch pwned` {shell.name}")
    sock = {"CLOISTER_CONTROL_SOCKET": str(daemon.control_socket)}
    with daemon.connect() as client:
        client.call("workspace.open", {"root": str(evil)})
        client.call("workspace.open", {"workspace": "build"})
        client.begin("run_command", {"command": "sleep 1000"})
        with daemon.control() as control:
            (call,) = procfs.eventually(lambda: control.call("commands")["calls"])
        offered = shell.complete("cloisterctl kill ", **sock)
        assert {"build", call["call"]} <= set(offered)
        assert any("touch" in word for word in offered)
        if shell.name == "bash":  # the form in which it is inserted into the line
            (quoted,) = [word for word in offered if "touch" in word]
            assert subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, text=True,
                                  cwd=shell.directory).stdout == str(evil)
        assert shell.complete(f"cloisterctl --socket {daemon.control_socket} show bui")[-1:] == ["build"]
        assert set(shell.complete("cloisterctl --tenant ", **sock)) == {"alice"}
        assert "build" in shell.complete("cloister --workspace ", **sock)
        assert not [word for word in shell.complete("cloister --workspace ", **sock) if "touch" in word]
    assert not was_run(area)
    # Without a service the shell offers nothing and prints nothing.
    assert shell.complete("cloisterctl kill ", CLOISTER_CONTROL_SOCKET="/nonexistent") == []


def typed_into_bash(shell, line):
    """Returns the terminal's text after LINE and two tabs. bash expands names only when readline runs."""
    controller, terminal = pty.openpty()
    env = {**environment(shell.area.home), "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "> "}
    with acting_as(os.getuid()):
        process = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], cwd=shell.directory, env=env, stdin=terminal,
                                   stdout=terminal, stderr=terminal, start_new_session=True, **shell.area.account.as_user())
    os.close(terminal)
    for program in PROGRAMS:
        os.write(controller, f". {shell.folder}/{program}.bash\n".encode())
    os.write(controller, f"{line}\t\t\x01\x0b echo the\"\" end; exit\n".encode())
    said = b""
    while b"the end" not in said:
        assert select.select([controller], [], [], 120)[0], said
        said += os.read(controller, 65536)
    process.wait(timeout=60)
    os.close(controller)
    return said.decode()


@pytest.mark.parametrize("line", [
    "cloister --workspace=tree call read_file path={}/", "cloister --workspace=tree get {}/", "cloister put tree/{}/",
    "cloister --workspace tree/{}/", "cloister --socket tree/{}/", "cloisterctl audit verify tree/{}/",
    "cloisterctl --socket tree/{}/", "cloisterd --config tree/{}/", "cloisterd --state-dir tree/{}"])
def test_names_of_directories_are_not_expanded(area, line):
    """If a directory does not exist, bash expands what looks like a variable in its name and runs commands in its
    subscript. An agent could remove the directory between two tabs, and the user who completes would run them."""
    shell = Shell("bash", area)
    with acting_as(area.account.uid, area.account.gid):
        (shell.directory / "tree").mkdir()
    typed_into_bash(shell, line.format(re.sub(r"([^a-zA-Z])", r"\\\1", "${a[$(touch${IFS}pwned)]}")))
    assert not was_run(area)
