# SPDX-License-Identifier: Apache-2.0
"""The documents: every command in them runs and prints what the document shows, and every file and link exists.
doc/README.md has the conventions."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess

import manual
import procfs
import pytest

import documents
from daemon import BUILD, ROOT, SYSTEM, environment
from documents import Shell, blocks, commands, output_matches
from model_server import ModelServer

pytestmark = pytest.mark.skipif(SYSTEM, reason="they are written for user mode")
DOCUMENTS = documents.documents()


def name(document):
    return str(document.relative_to(ROOT))


EVERY = pytest.mark.parametrize("document", DOCUMENTS, ids=name)
# The parts of a checkout that the documents use.
CHECKOUT = ("README.md", "doc", "examples", "packaging", "client", "clients", "libcloister/cloister.h", "tests/run")
# Commands of README that another test runs.
SET_UP = ("    packaging/quickstart ", "    tests/run ")
# Blocks without a command that are neither run nor parsed, each with what it is.
OTHER = {"text"}
LANGUAGES = {"console", "json", "ini", "transcript", "python", "c", "sh", "javascript", "typescript", "yaml"} | OTHER


def calling(name, **arguments):
    """A model's call in the form that Ollama sends."""
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def openai_calling(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


# The answers of the scripted model in the documents, in order.
SCRIPTS = {"doc/tutorial.md": [
    calling("run_command", command="python3 check.py"),
    calling("read_file", path="sums.py"),
    calling("write_file", path="sums.py", content="def double(x):\n    return x + x\n"),
    calling("run_command", command="python3 check.py"),
    {"role": "assistant", "content": "sums.py added one too many. I removed it, and check.py passes now."},
    openai_calling("search_files", pattern=r"^def (\w+)", path="."),
    {"role": "assistant", "content": "One: double(x), which gives twice x."},
], "examples/README.md": [
    calling("list_directory", path="."),
    {"role": "assistant", "content": "One file, notes.txt."},
    calling("run_command", command="wc -w <notes.txt"),
    {"role": "assistant", "content": "notes.txt has three words."},
]}


def place_for(area, document):
    """A home directory of the user's with a checkout in it, built."""
    home = area.directory("-".join(document.relative_to(ROOT).parts))
    checkout = home / "cloister"
    for part in CHECKOUT:
        source, target = ROOT / part, checkout / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("node_modules", "__pycache__", "dist"))
        else:
            shutil.copy(source, target)
    programs = checkout / "build" / "release"
    programs.mkdir(parents=True)
    (programs / "bin").symlink_to(area.bin)
    (programs / "examples").mkdir()
    shutil.copy(BUILD / "examples" / "agent", programs / "examples")
    # A program without sanitizers needs the library without them.
    (programs / "libcloister").mkdir()
    release = ROOT / "build" / "release" / "libcloister"
    shutil.copy((release if release.exists() else BUILD / "libcloister") / "libcloister.so.0", programs / "libcloister")
    (programs / "libcloister" / "libcloister.so").symlink_to("libcloister.so.0")
    for directory, _, files in os.walk(home):
        for path in (directory, *(os.path.join(directory, file) for file in files)):
            os.lchown(path, area.account.uid, area.account.gid)
    return home, checkout


def write_file(area, place, block):
    """A block whose fence names a file is that file."""
    path = place / block.words[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)
    os.lchown(path, area.account.uid, area.account.gid)


def check_command(shell, command):
    lines, status = shell.run(command.text)
    assert status not in (126, 127), f"{command.where}: {command.text}: {lines}"
    assert output_matches(command.output, lines), (
        f"{command.where}: {command.text}\n" + "\n".join(lines) + "\n-- and not --\n" + "\n".join(command.output))


def show_logs(*places):
    """Prints the logs, to find out why a test failed."""
    for place in places:
        if (place / "cloisterd.log").exists():
            print((place / "cloisterd.log").read_text(errors="replace"))


@pytest.mark.deep("slow")
@EVERY
def test_commands(area, document):
    """Runs the commands of a document in order, in one shell, as the user."""
    home, checkout = place_for(area, document)
    runtime = home / "run"
    runtime.mkdir(mode=0o700)
    area.account.own(runtime)
    env = {**environment(home), "XDG_RUNTIME_DIR": str(runtime), "LANG": "C.UTF-8", "USER": area.account.name}
    with contextlib.ExitStack() as stack:
        stack.callback(show_logs, home, checkout)
        model = stack.enter_context(ModelServer(SCRIPTS.get(name(document), [])))
        env.update(OLLAMA_HOST=model.url, OPENAI_BASE_URL=f"{model.url}/v1", OPENAI_API_KEY="none")
        shell = stack.enter_context(contextlib.closing(Shell(area.account, checkout, env)))
        for block in blocks(document):
            if block.language == "console" and block.words[1:] != ["unrun"]:
                for command in commands(block):
                    check_command(shell, command)
            elif len(block.words) > 1 and block.language not in ("console", "transcript"):
                write_file(area, checkout, block)
        assert shell.run("jobs -pr")[0] == [], f"{document}: what it starts, it ends"
        assert not model.faults and len(model.requests) == len(model.messages)
        replies = [message["content"] for request in model.requests for message in request["messages"]
                   if message["role"] == "tool"]
        assert not [reply for reply in replies if re.match("[A-Z_]+: ", reply)], replies


@EVERY
def test_every_block_is_known(document):
    for block in blocks(document):
        assert block.language in LANGUAGES, f"{block}: a block of an unknown language"
        assert block.lines, f"{block}: an empty block"
        assert block.language == "console" or not re.search(r"^[$#] \w", block.text, re.MULTILINE) \
            or block.language in ("sh", "python", "ini", "yaml"), f"{block}: a command that nobody runs"
    for number, line in documents.outside(document):
        assert not re.match(r" +[$#→←] ", line), f"{name(document)}:{number}: a command outside of a fence"
        assert not line.startswith("    ") or line.startswith(SET_UP), f"{name(document)}:{number}: an indented block"


# How many commands of each document need root, an installed package or another host, and so are checked but not run.
NOT_RUN = {"README.md": 5, "doc/tutorial.md": 1, "doc/fleets.md": 15, "doc/operators-guide.md": 45,
           "doc/clients.md": 3}
OURS = ("cloister", "cloisterctl", "cloisterd")
# Part of Debian's base, and missing on some machines that run the tests.
BASE = {"apt", "systemctl", "journalctl", "rsync", "runuser", "ssh", "usermod"}


def packaged():
    """The text of all files of packaging/."""
    return "\n".join(path.read_text(errors="replace") for path in sorted((ROOT / "packaging").rglob("*")) if path.is_file())


def fields():
    """The journal fields that the sources write."""
    return "".join(path.read_text() for path in sorted((ROOT / "supervisor").rglob("*.c")))


def check_words(area, words, text, where):
    """Checks a command that is not run: its program, options, units, paths, groups and packages exist."""
    program, *rest = words
    assert program in OURS or program in BASE or shutil.which(program) or (ROOT / program).exists(), f"{where}: {program}"
    if program == "runuser" and "--" in rest:
        return check_words(area, rest[rest.index("--") + 1:], text, where)
    rest = rest[:rest.index("--")] if "--" in rest else rest
    if program in OURS:
        usage = manual.program_help(area, program)
        for word in [word for word in rest if word.startswith("--")] + ([rest[0]] if program == "cloisterctl" else []):
            assert re.search(rf"(?m)(^| |\[){re.escape(word.partition('=')[0])}\b", usage), f"{where}: {program} has no {word}"
    elif shutil.which(program):
        usage = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
        for word in rest:
            assert not word.startswith("--") or word.partition("=")[0] in usage, f"{where}: {program} has no {word}"
    for word in rest:
        value = word.rpartition("=")[2]
        field = re.match(r"(CLOISTER_\w+)=", word)
        assert not field or f'"{field[1]}"' in fields(), f"{where}: no entry of the journal has {word}"
        unit = re.fullmatch(r"([\w@-]+\.(?:service|socket|timer))", value)
        template = re.sub(r"@\w+", "@", value)
        assert not unit or list((ROOT / "packaging").rglob(f"{template}*")), f"{where}: no unit {value}"
        if re.match(r"/(etc|var/lib|var/log|run|usr/libexec)/cloister|cloister-\w+$", value):
            value = re.sub(r"\.d(/.*)?$|/workspaces.*", "", value)  # drop-ins, and files that the service makes
            value = value.replace("/gate/alice", "/gate/USER")
            assert value in text, f"{where}: nothing of packaging/ has {value}"
        package = re.fullmatch(r"\./build/deb/([a-z-]+)_\*\.deb", value)
        assert not package or f"\nPackage: {package[1]}\n" in text, f"{where}: no package {value}"


@EVERY
def test_commands_that_are_not_run(area, document):
    found = [command for block in blocks(document) if block.words == ["console", "unrun"]
             for command in commands(block, ("# ", "$ "))]
    assert len(found) == NOT_RUN.get(name(document), 0), [command.text for command in found]
    text = packaged()
    for command in found:
        assert not command.output, f"{command.where}: output of a command that is not run"
        check_words(area, shlex.split(command.text.replace("\\\n", " ")), text, command.where)


@pytest.mark.parametrize("line", [
    "cloisterctl drian", "cloisterd --confg=x", "systemctl status cloisterd.service", "ls /etc/cloister/cloisterd.conf",
    "usermod --append --groups cloister-admins alice", "apt install ./build/deb/cloisterd_*.deb", "no-such-program",
    "runuser --user=alice -- cloisterctl --jsn status", "journalctl CLOISTER_TENNANT=a", "tar --extractt"])
def test_a_wrong_name_is_seen(area, line):
    with pytest.raises(AssertionError):
        check_words(area, shlex.split(line), packaged(), "here")


def test_the_two_commands():
    """README has exactly these two set-up commands, and the files exist."""
    text = (ROOT / "README.md").read_text()
    section = text.split("\n## Setting up\n")[1].split("\n## ")[0]
    assert re.findall(r"^    (\S+)", section, re.MULTILINE) == ["packaging/quickstart", "tests/run"]
    assert len(text.splitlines()) <= 165
    for program in ("packaging/quickstart", "tests/run"):
        assert os.access(ROOT / program, os.X_OK)
        subprocess.run(["bash", "-n", ROOT / program], check=True)


def parse(block):
    try:
        return json.loads(block.text)
    except ValueError as error:
        raise AssertionError(f"{block}: {error}") from error


@EVERY
def test_json(document):
    for block in blocks(document):
        if block.language == "json":
            parse(block)


@EVERY
def test_mcp_configurations(area, document):
    """Starts what each configuration names, and it answers."""
    for block in blocks(document):
        servers = parse(block).get("mcpServers", {}) if block.language == "json" else {}
        for server in servers.values():
            if "url" in server:  # integration/test_gate_mcp.py has clients that use one
                assert set(server) == {"type", "url", "headers"} and "/mcp" in server["url"]
                continue
            if server["command"] == "npx":  # placeholders, and names of the registry
                assert "@modelcontextprotocol/server-filesystem" in server["args"]
                continue
            home = area.new_directory("home")
            (home / "project").mkdir()
            area.account.own(home / "project")
            request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
            assert set(server) <= {"type", "command", "args"}
            words = [server["command"], *in_its_place(server["args"], home)]
            with area.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                output, _ = process.communicate(json.dumps(request).encode() + b"\n", timeout=120)
            assert json.loads(output)["result"]["serverInfo"]["name"] == "cloister", f"{block}"


# Users and directories of configurations in documents that the test's machine lacks.
NOT_HERE = re.compile(r"\S+:\d+: ((admin_group|observer_group|users|groups): there is no (user|group) \"[\w-]+\""
                      r"|(roots|readonly_paths): \"[/\w.-]+\": No such file or directory"
                      r"|egress_secret: [/\w.-]+: there is no such file)")


def check_config(area, text):
    """Runs cloisterd --check on it and ignores that its users and directories do not exist here."""
    path = area.new_directory("config") / "cloister.conf"
    path.write_text(text)
    area.account.own(path)
    checked = area.run("cloisterd", "--config", str(path), "--check")
    complaints = [line for line in checked.stderr.decode().splitlines() if not NOT_HERE.fullmatch(line)]
    return complaints or ([] if checked.returncode in (0, 1) else [checked.returncode])


@EVERY
def test_configurations(area, document):
    for block in blocks(document):
        if block.language == "ini" and "[Service]" in block.lines:
            unit = "".join(path.read_text() for path in (ROOT / "packaging" / "systemd").glob("*.service.in"))
            for line in block.lines[1:]:
                assert re.search(rf"^{line.partition('=')[0]}=", unit, re.MULTILINE), f"{block}: no unit has {line}"
        elif block.language == "ini":
            assert not check_config(area, block.text), f"{block}"


def test_a_wrong_configuration_is_seen(area):
    assert not check_config(area, "[tenant a]\nusers = nobody-of-this-name\nroots = /nowhere/at/all\n")
    assert check_config(area, "[tenant a]\nusers = nobody-of-this-name\nwieght = 3\n")


def test_a_wrong_output_is_seen():
    """Shows that the comparison notices a wrong output."""
    assert output_matches(["a", "...", "d"], ["a", "b", "c", "d"]) and output_matches(["x ... z"], ["x y z"])
    assert output_matches(["...", "b"], ["b"]) and output_matches([], [])
    for expected, lines in ((["a"], ["b"]), (["a"], []), ([], ["a"]), (["a", "..."], ["b"]), (["x ... z"], ["x y"]),
                            (["...", "d"], ["d", "e"]), (["a.c"], ["abc"])):
        assert not output_matches(expected, lines)
    matches = documents.value_matches
    assert matches({"a": "…", "b": ["x…z"]}, {"a": 3, "b": ["xyz"]}) and matches({"a": 1, "…": "…"}, {"a": 1, "b": 2})
    for expected, value in (({"a": 1}, {"a": 1, "b": 2}), ({"a": 1}, {}), ({"…": "…", "a": 1}, {"b": 1}), ([1], [1, 2]),
                            ("x…z", "xy"), (True, 1), (1, True), ("x…", 3)):
        assert not matches(expected, value)


def in_its_place(value, home):
    """Replaces /home/me of a transcript by the user's home."""
    return json.loads(json.dumps(value).replace("/home/me", str(home)))


def take(client, wanted, early):
    """Returns the next message, or the answer to a request, even if another answer comes first."""
    if "id" not in wanted or "method" in wanted:
        return client.receive()
    while wanted["id"] not in early:
        message = client.receive()
        if "method" in message:
            return message
        early[message["id"]] = message
    return early.pop(wanted["id"])


def replay(daemon, block, home):
    """Replays a transcript. Returns how many messages came; each must be as shown, and no other may come."""
    connect = daemon.control if block.words[1:] == ["control"] else daemon.connect
    number, early = 0, {}
    with connect() as client:
        for sent, message, where in documents.messages(block):
            message = in_its_place(message, home)
            if sent:
                client.send(message)
                continue
            answer = take(client, message, early)
            assert documents.value_matches(message, answer), f"{where}: what came is {json.dumps(answer, ensure_ascii=False)}"
            number += 1
    assert not early, f"{block}: {early}"
    return number


@pytest.mark.deep("slow")
@EVERY
def test_transcripts(area, start_daemon, document):
    """Each block gets its own connection, and each document its own cloisterd."""
    transcripts = [block for block in blocks(document) if block.language == "transcript"]
    if not transcripts:
        assert document.name != "protocol.md"
        return
    daemon, home = start_daemon(), area.new_directory("home")
    project = home / "project"
    project.mkdir()
    area.account.own(project)
    for block in transcripts:
        # Calls that a block leaves behind end after its connection.
        assert procfs.eventually(lambda: json.loads(daemon.ctl("--json", "commands").stdout)["calls"] == [])
        assert replay(daemon, block, home) > 1


def test_a_wrong_transcript_is_seen(area, start_daemon):
    """One change in an expected message makes the replay fail."""
    document = ROOT / "doc" / "protocol.md"
    block = next(block for block in blocks(document) if block.language == "transcript" and "Unknown parameter" in block.text)
    daemon, home = start_daemon(), area.new_directory("home")
    (home / "project").mkdir()
    assert replay(daemon, block, home) == 6
    block.lines = [line.replace('"code":"NOT_FOUND"', '"code":"FORBIDDEN"') for line in block.lines]
    with pytest.raises(AssertionError, match="what came is"):
        replay(daemon, block, home)


def test_the_guide_s_metrics_exist(area, start_daemon):
    """The operator's guide lists metrics to watch. cloisterctl(1) describes all, see test_manual_examples.py."""
    directory = area.directory("audit")
    directory.chmod(0o700)
    daemon = start_daemon(config=f"[cloister]\ntenants = none\nadmin_group = {area.account.gid}\naudit = on\naudit_file = {directory}/log\n")
    text = daemon.ctl("metrics").stdout.decode()
    table = (ROOT / "doc" / "operators-guide.md").read_text().split("| metric | look closer when |")[1].split("\n\n")[0]
    explained = {name for row in table.splitlines()[1:] for name in re.findall(r"`(cloister_\w+)`", row.split("|")[1])}
    printed = set(re.findall(r"^# TYPE (cloister_\w+) ", text, re.MULTILINE))
    assert explained <= printed and len(explained) > 20, explained - printed


@EVERY
def test_keys_exist(document):
    """Every setting `key = value` and every key in a table exists."""
    keys = set(re.findall(r"^#?(\w+) = ", (ROOT / "packaging" / "cloister.conf").read_text(), re.MULTILINE))
    text = "\n".join(line for _, line in documents.outside(document))
    named = set(re.findall(r"`(\w+) = [^`]*`", text))
    for table in re.findall(r"^\| [^\n]* keys \|[^\n]*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        named |= {key for row in table.splitlines() for key in re.findall(r"`(\w+)`", row.split("|")[2])}
    assert named <= keys, named - keys
    assert document.name != "operators-guide.md" or len(named) > 20


def test_each_tool_of_the_filesystem_server_has_a_row():
    """Those of its version 2026.8.31."""
    theirs = """read_file read_text_file read_media_file read_multiple_files write_file edit_file create_directory list_directory
        list_directory_with_sizes directory_tree move_file search_files get_file_info list_allowed_directories""".split()
    text = (ROOT / "doc" / "migration.md").read_text()
    table = text.split("| its tool | here |\n")[1].split("\n\n")[0]
    assert sorted(name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])) \
        == sorted(theirs)


def numbers(text):
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\d)", text.replace(",", ""))


def is_in(number, measured):
    """Returns whether @number is a measured number or one of them rounded."""
    places = len(number.partition(".")[2])
    return any(f"{float(other):.{places}f}" == number for other in measured)


@pytest.mark.parametrize("document, least", [("README.md", 3), ("doc/benchmarks.md", 15), ("doc/operators-guide.md", 5)])
def test_figures_are_measured(document, least):
    """Each figure in a table's second column is in the RESULT file that the row's last column names."""
    text = documents.with_links(ROOT / document)
    rows = re.findall(r"(?m)^\|[^|\n]*\|([^|\n]*)\| \[[^]]*\]\((?:\.\./)?(tests/bench/RESULT-\w+\.md)\) \|$", text)
    assert len(rows) >= least
    for cell, run in rows:
        found, measured = numbers(cell), numbers((ROOT / run).read_text())
        assert found and all(is_in(number, measured) for number in found), f"{run}: {cell}"


def test_the_guide_says_what_the_package_does():
    text = " ".join((ROOT / "doc" / "operators-guide.md").read_text().split())
    packaging = ROOT / "packaging"
    for said, file, does in (
            (r"the (\d+) seconds of `drain_time`", "CMakeLists.txt", r"drain_time = (\d+)s"),
            (r"ids of workspaces, ([\d,]+) of them", "give-ids", r"range_size=(\d+)"),
            (r"larger than `audit_size` \((\d+)M\)", "cloister.conf", r"(?m)^#audit_size = (\d+)M"),
            (r"newest `audit_files` \((\d+)\)", "cloister.conf", r"(?m)^#audit_files = (\d+)")):
        there = re.search(does, (packaging / file).read_text())
        assert there and re.search(said, text)[1].replace(",", "") == there[1], file


@EVERY
def test_units_exist(document):
    for unit in re.findall(r"(?<![\w./-])(cloister[\w-]*\.(?:service|socket|timer))\b", document.read_text()):
        assert list((ROOT / "packaging" / "systemd").rglob(f"{unit}*")), f"{name(document)}: {unit}"


@EVERY
def test_manual_pages_exist(document):
    """Every manual page of cloister that a document names as name(section) exists."""
    for page, section in re.findall(r"\b((?:lib)?cloister[\w.-]*)\((\d)\)", document.read_text()):
        assert (ROOT / "man" / f"{page}.{section}").exists(), f"{name(document)}: {page}({section})"
