# SPDX-License-Identifier: Apache-2.0
"""clients/description.json against cloisterd's tables, cloister-protocol(7) and cloister.h; and both clients against
the description."""

import inspect
import json
import operator
import re
import shutil
import subprocess
import sys

import pytest

import manual
from daemon import ROOT
from manual import agree

CLIENTS = ROOT / "clients"
PYTHON = CLIENTS / "python"
PROTOCOL = "cloister-protocol.7"
WHERE = "clients/description.json"
DESCRIPTION = json.loads((CLIENTS / "description.json").read_text())

sys.path.insert(0, str(PYTHON / "src"))

import cloister  # noqa: E402  (the path was set above)
import cloister.aio  # noqa: E402


@pytest.fixture(scope="module")
def tables():
    return manual.tables()


def source(*names):
    return "\n".join((ROOT / name).read_text() for name in names)


HEADER = re.sub(r"/\*.*?\*/", "", source("libcloister/cloister.h"), flags=re.S)


# Generated files


def generate(folder, *words):
    return subprocess.run([sys.executable, folder / "generate.py", *words], capture_output=True, text=True, check=False)


def test_what_is_generated_is_up_to_date():
    done = generate(CLIENTS, "--check")
    assert done.returncode == 0, done.stderr


def test_a_stale_file_is_seen(tmp_path):
    copy = shutil.copytree(CLIENTS, tmp_path / "clients", ignore=shutil.ignore_patterns("node_modules", "dist"))
    path = copy / "description.json"
    path.write_text(path.read_text().replace('"worker_lost"]', '"worker_lost", "eclipse"]'))
    done = generate(copy, "--check")
    assert done.returncode == 1 and "run clients/generate.py" in done.stderr
    assert generate(copy).returncode == 0 and generate(copy, "--check").returncode == 0


# The description and the service


def test_errors(tables):
    agree([code for code, _ in DESCRIPTION["errors"]], tables["errors"], WHERE, "codes")


def test_causes(tables):
    agree(DESCRIPTION["words"]["EndedBy"], tables["ended_by"], WHERE, "ended_by")


def test_methods(tables):
    # MCP's methods have names of another form, and other clients.
    native = {name: row for name, row in tables["agent_methods"].items() if re.fullmatch(r"\w+\.\w+", name)}
    del native["connection.bind"]  # cloister-gate sends it; a client gives its key
    agree(DESCRIPTION["methods"], native, WHERE, "methods")
    for name, method in DESCRIPTION["methods"].items():
        known = set(method["params"]) | set(method.get("left_out", {}))
        real = native[name]["params"]
        if native[name]["own_params"]:
            real = re.findall(r"^\.It Cm (\w+)", manual.part(PROTOCOL, "METHODS", name), re.M)
        agree(known, real, f"{WHERE}, {name},", "params")


def schema_type(schema):
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    (name,) = set(types) - {"null"}
    return name, "null" in types


def plain(kind):
    """Converts a type of the description to JSON Schema's, and returns whether it may be null."""
    name = kind.rstrip("?").removesuffix("|null")
    if name.startswith("["):
        name = "array"
    elif name in DESCRIPTION["types"]:
        name = "object"
    elif name in DESCRIPTION["words"] or name == "ErrorCode":
        name = "string"
    return name, "|null" in kind


def check_fields(table, schema, where):
    agree(table, schema["properties"], where, "members")
    for name, row in table.items():
        real = schema["properties"][name]
        assert plain(row[0]) == schema_type(real), f"{where}: {name}"
        assert row[0].endswith("?") == (name not in schema["required"]), f"{where}: {name} is optional or not"
        inner = row[0].strip("[]?")
        if inner in DESCRIPTION["types"] and real["type"] == "array":
            check_fields(DESCRIPTION["types"][inner]["fields"], real["items"], inner)


def test_tools(tables):
    real = {tool["name"]: tool for tool in tables["tools"]}
    agree(DESCRIPTION["tools"], real, WHERE, "tools")
    for name, tool in DESCRIPTION["tools"].items():
        check_fields(tool["arguments"], real[name]["inputSchema"], name)
        # A tool that only reads, and each time the same, may be repeated.
        hints = real[name]["annotations"]
        assert tool.get("reads", False) == (hints["readOnlyHint"] and hints["idempotentHint"]), name


def test_observations(tables):
    types = DESCRIPTION["types"]
    for tool in tables["tools"]:
        schema = tool["outputSchema"]
        # Only a command has a network, and MCP, whose schema this is, has no previews.
        members = {name: row for name, row in types["Observation"]["fields"].items()
                   if name != "diff" and (name != "network" or tool["name"] == "run_command")}
        check_fields(members, schema, "Observation")
        output = DESCRIPTION["tools"][tool["name"]]["output"]
        check_fields(types[output]["fields"], schema["properties"]["output"], output)
        check_fields(types["Usage"]["fields"], schema["properties"]["usage"], "Usage")
        error = {name: row for name, row in types["ErrorObject"]["fields"].items() if name not in ("retry_after_ms", "data")}
        check_fields(error, schema["properties"]["error"], "ErrorObject")


def test_a_wrong_field_is_seen(tables):
    schema = tables["tools"][0]["outputSchema"]["properties"]["output"]
    right = DESCRIPTION["types"]["ReadFileOutput"]["fields"]
    check_fields(right, schema, "here")
    for name, kind in (("size", "string"), ("size", "integer?"), ("total_lines", "integer?"), ("sise", "integer")):
        with pytest.raises(AssertionError):
            check_fields({**right, name: [kind]}, schema, "here")


def test_options():
    options = DESCRIPTION["types"]["CallOptions"]["fields"]
    agree(options, re.findall(r"^\.It Cm (\w+)", manual.part(PROTOCOL, "OPTIONS"), re.M), WHERE, "options")
    assert all(row[0].endswith("?") for row in options.values())
    code = source("supervisor/call/request/args_decode.c")
    for name, no, yes in re.findall(r'\{"(\w+)", "([\w-]+)", "([\w-]+)", offsetof', code):
        assert {no, yes} == set(DESCRIPTION["words"][options[name][0].rstrip("?")]), name


def test_words():
    page = manual.text(PROTOCOL)
    for name, words in DESCRIPTION["words"].items():
        for word in words:
            assert re.search(rf"^\.(?:It )?(?:Qq|Cm) (?:\w+ , (?:Qq )?)*{re.escape(word)}\b", page, re.M), f"{WHERE}, {name}: {word}"
    types = re.findall(r'\[FILES_TYPE_\w+\] = "(\w+)"', source("supervisor/call/result/observation_json.c"))
    agree(DESCRIPTION["words"]["EntryType"], types, WHERE, "types of entries")


def test_results():
    """Results without a schema: the manual page must name each member."""
    for name, section in (("Workspace", "workspace.open"), ("ListedWorkspace", "workspace.list"),
                          ("CancelResult", "tool.cancel"), ("InputResult", "tool.input"), ("ToolList", "tools.list")):
        shown = manual.words(manual.part(PROTOCOL, "METHODS", section), "Va")
        assert set(DESCRIPTION["types"][name]["fields"]) <= shown, name
    opened = re.findall(r"^\.It Va (\w+)", manual.part(PROTOCOL, "METHODS", "workspace.open"), re.M)
    agree(DESCRIPTION["types"]["Workspace"]["fields"], opened, WHERE, "members of workspace.open's result")
    output = DESCRIPTION["notifications"]["tool.output"]["params"]
    agree(output, re.findall(r"^\.It Va (\w+)", manual.part(PROTOCOL, "NOTIFICATIONS", "tool.output"), re.M), WHERE,
          "params of tool.output")


def test_limits():
    limits = DESCRIPTION["limits"].values()
    assert {limit["is"]: limit["value"] for limit in limits} == manual.limits([limit["is"] for limit in limits])


# The header


def test_the_header_s_codes(tables):
    found = re.findall(r"\bCLOISTER_ERROR_(\w+)", HEADER)
    agree([code for code, _ in DESCRIPTION["errors"]], set(found) - {"NONE", "OTHER"}, WHERE, "codes of cloister.h")
    numbers = {name: int(number) for name, number in re.findall(r"CLOISTER_JSON_(\w+) = (-\d+)", HEADER)}
    assert DESCRIPTION["json_errors"] == numbers
    streams = re.findall(r"CLOISTER_(STD\w+) = \d", HEADER)
    assert DESCRIPTION["words"]["Stream"] == [name.lower() for name in streams]


def test_the_header_s_functions():
    code = re.sub(r"typedef[^;]*;", "", HEADER)
    real = set(re.findall(r"^[a-z].*?\b(cloister_\w+)\(", code, re.M))
    agree({**DESCRIPTION["functions"], **DESCRIPTION["functions_of_c_alone"]}, real, WHERE, "functions of cloister.h")
    assert not set(DESCRIPTION["functions"]) & set(DESCRIPTION["functions_of_c_alone"])
    for name in DESCRIPTION["functions"].values():
        for module in (cloister, cloister.aio) if "." in name else (cloister,):
            assert callable(operator.attrgetter(name)(module)), name


def test_the_header_s_call():
    """The parameters of Client.call are the members of struct cloister_tool_call."""
    struct = re.search(r"struct cloister_tool_call \{(.*?)\n\};", HEADER, re.S)[1]
    members = re.findall(r"\*?(\w+)(?:\[\d\])?;", struct)
    for client in (cloister.Client, cloister.aio.Client):
        agree(set(inspect.signature(client.call).parameters) - {"self"},
              set(members) - {"reserved", "userdata", "on_reply"}, "Client.call", "parameters")


# The clients


def test_each_code_has_a_class():
    for code, _ in DESCRIPTION["errors"]:
        made = getattr(cloister, "".join(word.capitalize() for word in code.split("_")))
        assert issubclass(made, cloister.ServiceError) and made.code == code and made.__doc__


def test_both_clients_are_the_same():
    """Both clients have the same methods and parameters."""
    def surface(kind):
        return {name: str(inspect.signature(value)).split(" -> ")[0] for name, value in inspect.getmembers(kind, callable)
                if not name.startswith("_")}
    assert surface(cloister.Client) == surface(cloister.aio.Client)
    assert surface(cloister.Call) == surface(cloister.aio.Call)
    assert {method.replace(".", "_") for method, row in DESCRIPTION["methods"].items() if "by_hand" not in row} | \
        set(DESCRIPTION["tools"]) <= set(surface(cloister.Client))


def test_versions():
    version = re.search(r"^project\(cloister VERSION ([\d.]+)", source("CMakeLists.txt"), re.M)[1]
    assert f'\nversion = "{version}"\n' in source("clients/python/pyproject.toml")
    assert json.loads(source("clients/typescript/package.json"))["version"] == version
    assert cloister.__version__ == version


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Returns mypy(directory, words), which checks for Python 3.9."""
    manual.need("mypy")
    cache = tmp_path_factory.mktemp("mypy")

    def run(path, *words):
        return subprocess.run(["mypy", "--strict", "--python-version", "3.9", "--cache-dir", cache, *words], cwd=path,
                              capture_output=True, text=True, check=False)
    return run


@pytest.mark.deep("slow")
def test_the_types_of_python(mypy):
    done = mypy(PYTHON / "src", "-p", "cloister")
    assert done.returncode == 0, done.stdout


@pytest.mark.deep("slow")
def test_a_program_s_types(mypy, tmp_path):
    """mypy reports a program's mistakes."""
    shutil.copytree(PYTHON / "src" / "cloister", tmp_path / "cloister")
    program = tmp_path / "program.py"
    right = ('import cloister\nwith cloister.Client() as client:\n    size: int = client.read_file("a")["size"]\n'
             '    cause: cloister.EndedBy = client.run_command("true", options={"stdin": "x"})["ended_by"]\n')
    program.write_text(right)
    done = mypy(tmp_path, "program.py")
    assert done.returncode == 0, done.stdout
    for mistake in ("    client.read_file(7)\n", '    client.run_command("x", options={"stdinn": "x"})\n',
                    '    client.workspace_open(root="/", kind="image")\n', '    client.list_directory(".")["entry"]\n'):
        program.write_text(right + mistake)
        assert mypy(tmp_path, "program.py").returncode == 1, mistake
