# SPDX-License-Identifier: Apache-2.0
"""The manual pages against the programs and their tables: each option, key, method and code is described, and nothing
else is. tests/lib/manual.py reads the pages, tests/lib/print_tables.c the tables."""

import fnmatch
import json
import re
import subprocess

import pytest

import manual
from manual import ROOT, agree

PROTOCOL, CONTROL, SECURITY, CONFIG = "cloister-protocol.7", "cloister-control.7", "cloister-security.7", "cloister.conf.5"
PROGRAMS = {"cloister": "cloister.1", "cloisterctl": "cloisterctl.1", "cloisterd": "cloisterd.8"}


@pytest.fixture(scope="module")
def tables():
    return manual.tables()


def source(*names):
    """Returns the concatenated text of all files with these names."""
    return "\n".join(path.read_text() for name in names for path in sorted(ROOT.glob(name)))


# The pages themselves


@pytest.mark.parametrize("page", manual.PAGES)
def test_lint(page):
    manual.need("mandoc")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "style", manual.FOLDER / page], capture_output=True,
                          text=True)
    # Pages of other packages may or may not be installed.
    said = [line for line in (done.stdout + done.stderr).splitlines()
            if "referenced manual not found" not in line and "outdated mandoc.db" not in line]
    assert not said, "\n".join(said)


@pytest.mark.parametrize("page", manual.PAGES)
def test_quotations(page):
    """A macro that quotes takes the rest of its line: a list of words needs a line for each."""
    wrong = re.findall(r'^\.(?:.* )?(?:Ql|Qq|Dq|Sq) .* (?:,|No|Ql|Qq|Dq|Sq) \S.*$', manual.text(page), re.M)
    assert not wrong, f"man/{page}: {wrong}"


@pytest.mark.parametrize("page", manual.PAGES)
def test_references_to_our_pages(page):
    names = re.findall(r"\bXr ((?:lib)?cloister\S*) (\d)", manual.text(page))
    assert names
    for name, section in names:
        assert f"{name}.{section}" in manual.PAGES, f"man/{page} refers to {name}({section})"


def test_every_page_is_installed():
    rules = (ROOT / "man" / "CMakeLists.txt").read_text()
    sections = re.search(r"foreach\(section ([\d ]+)\)", rules)[1].split()
    assert {page[-1] for page in manual.PAGES} <= set(sections)


# Command lines


@pytest.mark.parametrize("program", PROGRAMS)
def test_options(area, program):
    page = PROGRAMS[program]
    known = manual.known_options(area, program)
    shown = set(re.findall(r"^  --([a-z][a-z-]*)" if program != "cloisterd" else r"--([a-z][a-z-]*)",
                           manual.program_help(area, program), re.M))
    if program == "cloister":
        for command in manual.program_commands(area, program):
            known |= manual.known_options(area, program, command)
    agree(shown | {"help", "version"}, known, f"{program} --help", "options")
    documented = manual.options(manual.part(page, "SYNOPSIS"))
    agree(documented, known, f"man/{page}, SYNOPSIS,", "options")
    described = manual.options("\n".join(
        line for line in manual.text(page).splitlines() if line.startswith(".It Fl")))
    agree(described, known, f"man/{page}", "options")


def test_each_command_s_options(area):
    """The synopsis of a command has exactly the command's own options."""
    synopsis = manual.part("cloister.1", "SYNOPSIS").split("\n.Nm\n")
    common = manual.known_options(area, "cloister")
    for command in manual.program_commands(area, "cloister"):
        lines = [block for block in synopsis if f".Cm {command}\n" in block + "\n"]
        assert lines, f"man/cloister.1, SYNOPSIS, has no {command}"
        own = manual.known_options(area, "cloister", command) - common
        agree(manual.options(lines[0]) - common, own, f"man/cloister.1, SYNOPSIS of {command},", "options")


def test_commands(area):
    for program in ("cloister", "cloisterctl"):
        agree(heads(f"{program}.1", "COMMANDS"), manual.program_commands(area, program),
              f"man/{program}.1, COMMANDS,", "commands")


def heads(page, section):
    return set(re.findall(r"^\.It Cm (\w+)", manual.part(page, section), re.M))


@pytest.mark.parametrize("page, names", [
    ("cloister.1", ["libcloister/*.c", "client/[!c]*.c", "client/c[!t]*/*.c", "client/t*/*.c", "client/cloister.c"]),
    ("cloisterctl.1", ["client/cloisterctl.c", "client/ctl/*.c"]),
    ("cloisterd.8", ["supervisor/**/*.c"]),
])
def test_environment(page, names):
    code = source(*names)
    read = set(re.findall(r'(?:getenv|default_path)\(\s*"(\w+)"', code))
    if page == "cloisterd.8":
        read.add("TZ")  # tzset(3)
        assert "tzset()" in code
    agree(manual.words(manual.part(page, "ENVIRONMENT"), "Ev", True), read, f"man/{page}, ENVIRONMENT,",
          "variables")


def test_exit_statuses():
    code = source("client/**/*.h")
    statuses = set(re.findall(r"\bSTATUS_(?!SIGNAL)\w+ = (\d+)", code)) | \
        {number + "+" for number in re.findall(r"STATUS_SIGNAL_BASE = (\d+)", code)}
    page = set(re.findall(r"^\.It (\d+\+?)", manual.part("cloister.1", "EXIT STATUS"), re.M))
    agree(page, statuses, "man/cloister.1, EXIT STATUS,", "statuses")
    torn = re.search(r"STATUS_TORN (\d+)", source("client/ctl/ctl_audit.c"))[1]
    page = set(re.findall(r"^\.It (\d+)", manual.part("cloisterctl.1", "EXIT STATUS"), re.M))
    agree(page, (statuses | {torn}) - {"124", "128+"}, "man/cloisterctl.1, EXIT STATUS,", "statuses")


def test_signals():
    caught = re.findall(r"evsignal_new\([^,]+, (SIG\w+)", source("supervisor/**/*.c"))
    agree(manual.words(manual.part("cloisterd.8", "SIGNALS"), "Dv", True), caught,
          "man/cloisterd.8, SIGNALS,", "signals")


def test_top_s_keys():
    code = source("client/ctl/ctl_top.c") + source("client/ctl/ctl_top_rows.c")
    keys = set(re.findall(r"case '(.)':", code)) | set(re.findall(r"\{'(.)', TOP_BY", code))
    page = {word for line in re.findall(r"^\.It Ic (.*)$", manual.part("cloisterctl.1", "TOP"), re.M)
            for word in line.split() if word != ","}
    agree(page, keys, "man/cloisterctl.1, TOP,", "keys")


# The configuration


def config_entries(section):
    """Returns {key: (the text after the =, the description)}."""
    return {name: (value, text) for name, value, text in re.findall(
        r"^\.It Cm (\w+) = (.*?)\n(.*?)(?=^\.It Cm |^\.Ss |\Z)",
        manual.part(CONFIG, {"cloister": "SERVICE KEYS", "tenant": "TENANT KEYS"}[section]), re.M | re.S)}


@pytest.mark.parametrize("section", ["cloister", "tenant"])
def test_configuration_keys(tables, section):
    keys = {key["name"]: key for key in tables["config_keys"] if key["section"] == section}
    entries = config_entries(section)
    agree(entries, keys, f"man/{CONFIG}, of the section {section},", "keys")
    for name, key in keys.items():
        value, description = entries[name]
        where = f"man/{CONFIG}: {name}"
        if key["choices"]:
            assert value == "Cm " + " | ".join(key["choices"]), where
        assert ("Fixed at start." in description) == key["at_start"], where
        if key["default"] is None:
            assert not re.search(r"^Default: \S+[.;]", description, re.M), where
            continue
        expected = f"Default: {key['default']}"
        if "min" in key:
            expected += f"; from {key['min']} to {key['max']}"
        assert f"\n{expected.replace('0ms', '0s')}.\n" in description, f"{where}: it is \"{expected}.\""


def test_built_in_blocked_commands():
    code = re.search(r"default_patterns\[\] = \{(.*?)\n\};", source("supervisor/config/command_policy.c"), re.S)[1]
    patterns = [json.loads(pattern) for pattern in re.findall(r'"(?:[^"\\]|\\.)*"', code)]
    assert manual.literals(CONFIG, "TENANT KEYS")[0].splitlines() == patterns, f"man/{CONFIG}: blocked_commands"


def test_features(tables):
    agree(manual.words(config_entries("cloister")["require"][1], "Cm"), tables["features"],
          f"man/{CONFIG}, require,", "features")
    page = manual.words(manual.part(SECURITY, "CHECKING A HOST", "Features of the host"), "Cm", True)
    agree(page, tables["features"], f"man/{SECURITY}", "features")


def test_the_example_s_defaults(tables):
    """A default that packaging/cloister.conf shows after a "#" is the real one."""
    text, section = (ROOT / "packaging" / "cloister.conf").read_text(), None
    shown = {}
    for line in text.splitlines():
        if header := re.match(r"#?\[(\w+)", line):
            section = header[1]
        elif setting := re.match(r"#(\w+) = (.*)", line):
            shown[section, setting[1]] = setting[2]
    for key in tables["config_keys"]:
        where = key["section"], key["name"]
        if key["default"] is not None and where in shown:
            assert shown[where] == key["default"].replace("0ms", "0s"), f"packaging/cloister.conf: {where}"


# The protocol


def methods(page, section):
    return dict(manual.subsections(page, section))


def shared_parameters(names):
    """Returns {method: the parameters that the list before the first method gives it}, for methods of these names."""
    items = re.findall(r"^\.It (.*)\n((?:(?!\.It |\.El).*\n)+)", manual.part(PROTOCOL, "METHODS").split("\n.Ss ")[0], re.M)
    shared = {name: set() for name in names}
    for head, text in items:
        taken, _, left_out = text.partition("Methods:\n")[2].partition("except\n")
        patterns = manual.words(taken, "Li")
        assert patterns, f"man/{PROTOCOL}, METHODS: {head}"
        for pattern in patterns | manual.words(left_out, "Li"):
            assert fnmatch.filter(names, pattern), f"man/{PROTOCOL}, METHODS: there is no method {pattern}"
        for name in names:
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns) and name not in manual.words(left_out, "Li"):
                shared[name] |= manual.words(f".It {head}", "Cm")
    return shared


def test_methods(tables):
    mcp = methods(PROTOCOL, "MCP")
    assert mcp.pop("notifications/progress")  # the only message that the server sends on its own
    agree(set(methods(PROTOCOL, "METHODS")) | set(mcp), tables["agent_methods"], f"man/{PROTOCOL}", "methods")
    control = list(methods(CONTROL, "CONTROL METHODS"))
    agree(control, tables["control_methods"], f"man/{CONTROL}, CONTROL METHODS,", "methods")
    assert "may use the first twelve" in manual.part(CONTROL, "CONTROL METHODS").replace("\n", " ")
    assert [tables["control_methods"][name]["admin"] for name in control] == \
        [False] * 12 + [True] * (len(control) - 12)


@pytest.mark.parametrize("page, section, table", [(PROTOCOL, "METHODS", "agent_methods"),
                                                  (CONTROL, "CONTROL METHODS", "control_methods")])
def test_parameters(tables, page, section, table):
    described = methods(page, section)
    shared = shared_parameters(described) if page == PROTOCOL else {}
    for name, description in described.items():
        method = tables[table][name]
        params = method["params"]
        if name == "tool.call":
            known = re.search(r"check_members.*?known\[\] = \{(.*?)\}", source("supervisor/call/request/call_request.c"), re.S)
            params = re.findall(r'"(\w+)"', known[1])
        before_result = re.split(r"^(?:The result has|Result[:,])", description, flags=re.M)[0]
        agree(manual.words(before_result, "Cm", True) | shared.get(name, set()), params, f"man/{page}, {name},", "parameters")


def test_call_options():
    code = source("supervisor/call/request/args_decode.c")
    plain = re.search(r"plain_options\[\] = \{(.*?)\n\};", code, re.S)[1]
    choices = re.search(r"\bchoices\[\] = \{(.*?)\n\};", code, re.S) or \
        re.search(r"\} choices\[\] = \{(.*?)\n\};", code, re.S)
    names = set(re.findall(r'\.name = "(\w+)"', plain)) | set(re.findall(r'\{"(\w+)",', choices[1])) | \
        set(re.findall(r'strcmp\(name, "(\w+)"\) == 0', code))
    assert {"timeout_ms", "encoding", "env"} <= names, "the tables are elsewhere now: read them there"
    agree(manual.words(manual.part(PROTOCOL, "OPTIONS"), "Cm", True), names, f"man/{PROTOCOL}, OPTIONS,",
          "options")


def test_documented_call_options_exist(client, workspace):
    """cloisterd accepts each option. null means the same as no value."""
    for name in manual.words(manual.part(PROTOCOL, "OPTIONS"), "Cm", True):
        client.run("true", {name: None})


def test_tools(tables):
    for tool in tables["tools"]:
        name, source_text = tool["name"], manual.part(PROTOCOL, "TOOLS", tool["name"])
        arguments, _, output = source_text.partition("\nOutput:")
        properties = tool["inputSchema"]["properties"]
        agree(manual.words(arguments, "Cm", True), properties, f"man/{PROTOCOL}, {name},", "arguments")
        fields = tool["outputSchema"]["properties"]["output"]["properties"]
        if "members of\n.Cm read_output ,\nexcept\n.Va found ." in output:
            output = output.replace(".Va found .", "") + manual.part(PROTOCOL, "TOOLS", "read_output").replace(".It Va found", "")
        agree(manual.words(output, "Va", True), fields, f"man/{PROTOCOL}, {name},", "members of the output")
        for field in fields.values():
            inner = field.get("items", {}).get("properties", {})
            assert set(inner) <= manual.words(output, "Va"), f"man/{PROTOCOL}, {name}: {set(inner)}"
    agree({name for name, _ in manual.subsections(PROTOCOL, "TOOLS")}, {tool["name"] for tool in tables["tools"]},
          f"man/{PROTOCOL}", "tools")


def test_observations(tables):
    schema = tables["tools"][0]["outputSchema"]["properties"]
    members = set().union(*(tool["outputSchema"]["properties"] for tool in tables["tools"]))
    expected = members | set(schema["usage"]["properties"]) | {"diff"}  # which MCP does not have
    agree(manual.words(manual.part(PROTOCOL, "OBSERVATIONS"), "Va", True), expected,
          f"man/{PROTOCOL}, OBSERVATIONS,", "members")
    assert set(schema["error"]["properties"]) | {"retry_after_ms"} <= \
        manual.words(manual.part(PROTOCOL, "OBSERVATIONS"), "Va")


def test_error_codes(tables):
    page = manual.words(manual.part(PROTOCOL, "ERROR CODES"), "Er", True)
    agree(page, tables["errors"], f"man/{PROTOCOL}, ERROR CODES,", "codes")
    for name in manual.PAGES:  # other pages may name only codes of this list
        used = manual.words(manual.text(name), "Er") - {"EINVAL", "ENOMEM"}
        if name in (*PROGRAMS.values(), PROTOCOL, CONTROL, SECURITY, CONFIG):
            assert used <= page, f"man/{name}: {used - page}"


def test_jsonrpc_codes():
    code = source("supervisor/connection/jsonrpc.h", "supervisor/agent/mcp/mcp.c")
    real = re.findall(r"JSONRPC_\w+ = (-\d+)", code) + re.findall(r"#define (?:UNSUPPORTED|MISSING)_\w+\s+\((-\d+)\)", code)
    page = re.findall(r"^\.It (-\d+)", manual.part(PROTOCOL, "ERROR CODES", "JSON-RPC errors"), re.M)
    agree(page, real, f"man/{PROTOCOL}, JSON-RPC errors,", "codes")


def test_why_a_command_ended(tables):
    output = manual.part(PROTOCOL, "TOOLS", "run_command").partition("\nOutput:")[2]
    agree(manual.words(output, "Cm", True), tables["ended_by"], f"man/{PROTOCOL}, ended_by,", "causes")


def test_notifications():
    sent = set(re.findall(r'jsonrpc_notification_begin\(\s*&?\w+,\s*"([\w./]+)"', source("supervisor/**/*.c")))
    page = {name for name, _ in manual.subsections(PROTOCOL, "NOTIFICATIONS")} | \
        {name for name in methods(PROTOCOL, "MCP") if name == "notifications/progress"} | \
        manual.words(manual.part(CONTROL, "CONTROL METHODS", "events"), "Cm") & {"event"}
    agree(page, sent, f"man/{PROTOCOL}", "notifications")


def test_events_of_the_audit_log():
    """The events that the log's own source names, those that callers name, and the methods whose refusals it has."""
    log, callers = source("supervisor/audit/*.c"), source("supervisor/**/*.c")
    real = set(re.findall(r'["\\]"?((?:call|session|network|connection|stranger|admin|audit|workspace)\.\w+)[\\"]', log))
    real |= set(re.findall(r'"(workspace\.(?:\w+ed|frozen|rolled_back))"', callers))
    real |= set(re.findall(r'(?<!call)_(?:refuse|refused|workspace|transaction|owner)\(\s*[^;"]*"((?:workspace|template|transaction|connection)\.\w+)"', callers))
    page = manual.words(manual.part(CONTROL, "AUDIT LOG"), "Cm", True)
    assert len(real) > 30
    agree(page, real, f"man/{CONTROL}, AUDIT LOG,", "events")


def test_limits():
    """A comment before each limit in the list, and before some in the text, names its constant in common/limits.h."""
    units = {"KiB": 1 << 10, "MiB": 1 << 20}
    page = manual.text(PROTOCOL)
    rows = re.findall(r'^\.\\" (LIMIT_\w+)\n(?:\.It )?(\d+)(?: (.iB))?', page, re.M)
    assert len(rows) == page.count("LIMIT_") > 60, f"man/{PROTOCOL}: a limit has no number"
    items = re.findall(r"^(.*)\n\.It ", manual.part(PROTOCOL, "THE WIRE", "Limits"), re.M)
    assert all("LIMIT_" in before for before in items) and len(items) > 10, f"man/{PROTOCOL}, Limits: a limit is not named"
    real = manual.limits([name for name, *_ in rows])
    for name, number, unit in rows:
        assert int(number) * units.get(unit, 1) == real[name], f"man/{PROTOCOL}, Limits: {name} is {real[name]}"


def test_rows_of_the_self_test(tables):
    page = manual.words(manual.part(SECURITY, "SELF-TEST", "Rows"), "Cm", True)
    agree(page, tables["selftest_rows"], f"man/{SECURITY}", "rows of the self-test")


def test_states_of_workspaces(tables):
    agree(manual.words(manual.part(CONTROL, "CONTROL METHODS", "status"), "Cm"), tables["cell_states"],
          f"man/{CONTROL}, status,", "states")


def test_what_is_shown_of_the_host():
    root = source("worker/commands/worker_root.c")
    page = manual.words(manual.part(SECURITY, "GUARANTEES", "What a command sees of the host"), "Pa")
    (names,) = re.findall(r"int root_write_etc.*?names\[\] = \{(.*?)\};", root, re.S)
    etc = set(re.findall(r'"([^"]+)"', names))
    assert len(etc) > 10 and etc <= page, etc - page
    assert set(re.findall(r'\{"[a-z-]+", 0\d+, "(/[^"]+)"\}', root)) <= page
    assert set(re.findall(r'\{"(/etc/[a-z-]+)', root)) <= page
