# SPDX-License-Identifier: Apache-2.0
"""The form of every document of the tree: line width, links, and quotations from the source."""

import re

import pytest

import documents

ROOT = documents.ROOT
COLUMNS = 100
# Documents with tables whose cells do not fit in the width: names of tests, probes and options.
WIDE_TABLES = {"doc/design/dependencies.md", "CONTRIBUTING.md", "SECURITY.md", "doc/attacks.md", "doc/fleets.md", "doc/migration.md", "doc/operators-guide.md",
               "packaging/systemd/README.md", "tests/fuzz/README.md", "tests/vm/README.md"}


def all_documents():
    """All documents except tests/bench/RESULT-*.md, which programs wrote."""
    found = [ROOT.glob("*.md"), (ROOT / "doc").rglob("*.md"), (ROOT / "supervisor").rglob("README"),
             *((ROOT / folder).rglob("README.md") for folder in ("clients", "examples", "packaging", "tests"))]
    return sorted(path for paths in found for path in paths if "node_modules" not in path.parts)


def name(document):
    return str(document.relative_to(ROOT))


EVERY = pytest.mark.parametrize("document", all_documents(), ids=name)


def too_wide(text, wide_tables=False):
    """Returns the numbers of lines that are too wide. A line with a reference may be as long as its address."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line.expandtabs(8)) > COLUMNS
            and not re.fullmatch(r"\[[^]]+\]: \S+", line) and not (wide_tables and line.startswith("|"))]


@EVERY
def test_no_line_is_too_wide(document):
    assert too_wide(document.read_text(), name(document) in WIDE_TABLES) == []


def test_a_wide_line_is_seen():
    wide = "x" * (COLUMNS + 1)
    assert too_wide(f"short\n{wide}\n| {wide} |\n[a]: {wide}\n") == [2, 3]
    assert too_wide(f"short\n{wide}\n| {wide} |\n[a]: {wide}\n", wide_tables=True) == [2]


def anchors(document):
    """Returns the anchors that GitHub makes of a document's headings."""
    found = set()
    for _, line in documents.outside(document):
        if line.startswith("#"):
            text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def broken_links(document):
    found = []
    for target in re.findall(r"\]\(\s*([^)\s]+)\s*\)|(?:src|href)=\"([^\"]+)\"", documents.with_links(document)):
        file, _, anchor = "".join(target).partition("#")
        if re.match(r"[a-z]+:", file):
            continue
        path = (document.parent / file).resolve() if file else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append("".join(target))
    return found


@EVERY
def test_links(document):
    assert broken_links(document) == []


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading\n[a](page.md#a-heading) [b](gone.md) [c][there] [d](#gone) [there][]\n\n[there]: away.md\n")
    assert broken_links(page) == ["gone.md", "away.md", "#gone", "away.md"]


# Quotations from the source in the documents for developers.

DEVELOPERS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "doc" / "design").glob("*.md")),
              *sorted((ROOT / "doc" / "decisions").glob("*.md"))]
PARTS = ("common", "supervisor", "worker", "egress", "gate", "client", "libcloister", "json", "probe")
UNITS = {"": 1, "ms": 1, "ns": 1, "s": 1000, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def sources():
    return [path for part in PARTS for path in (ROOT / part).rglob("*.[ch]")]


def table(text, heading):
    """The rows of the first table below @heading, each a list of cells."""
    lines = text.split(f"\n{heading}\n", 1)[1].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def unquoted(cell):
    return cell.strip("` ")


def test_the_layers():
    lines = (ROOT / "supervisor" / "LAYERS").read_text().splitlines()
    rows = table((ROOT / "ARCHITECTURE.md").read_text(), "## Layers of the supervisor")
    assert [unquoted(row[0]) for row in rows] == [line for line in lines if line and not line.startswith("#")]


def life_in(source):
    """Returns {state: {event: act}} of the table of acts in @source, without events that change nothing or cannot
    come."""
    body = re.search(r"acts\[\w+\]\[\w+\] = \{\n(.*?)\n\};", source, re.DOTALL)[1]
    rows = re.findall(r"\[[A-Z]+_(\w+)\] = \{(.*?)\}", body, re.DOTALL)
    acts = {state: {event: act for event, act in re.findall(r"\[[A-Z]+_(\w+)\] = (\w+)", row)
                    if act != "NULL" and not act.endswith(("stay", "impossible"))} for state, row in rows}
    return {state: row for state, row in acts.items() if row}


def life_said(rows):
    """Returns the same of rows such as "FAILED, UNUSED: `end_both`; READY: `be_open`". A row without a state continues
    the row above."""
    found, state = {}, None
    for cell, cells in rows:
        state = unquoted(cell) or state
        for part in cells.split(";"):
            events, act = part.rsplit(":", 1)
            found.setdefault(state, {}).update({event.strip(): unquoted(act) for event in events.split(",")})
    return found


@pytest.mark.parametrize("heading, file, states", [
    ("## The life of a cell", "supervisor/cell/cell.c", 10), ("## The life of a call", "supervisor/call/call_acts.c", 7)])
def test_the_lives(heading, file, states):
    """The tables of states and events in ARCHITECTURE.md are those of the source."""
    said, there = life_said(table((ROOT / "ARCHITECTURE.md").read_text(), heading)), life_in((ROOT / file).read_text())
    assert said == there and len(said) == states


def test_the_order_of_a_cells_events():
    source = (ROOT / "supervisor" / "cell" / "cell_state.h").read_text()
    events = re.findall(r"\b(?:CELL_)?EVENT_(\w+)", re.search(r"enum cell_event \{(.*?)\}", source, re.DOTALL)[1])
    assert len(events) == 8 and ", ".join(events) in " ".join((ROOT / "ARCHITECTURE.md").read_text().split())


def constants():
    """Returns {name: value} of all #defines that are numbers."""
    known = {}
    for path in sources():
        for name, value in re.findall(r"(?m)^#define (\w+)[ \t\\\n]+([^\n/]*)", path.read_text()):
            value = re.sub(r"(?<=\d)U?L{0,2}\b", "", value)
            if re.fullmatch(r"[\w() *+/<-]+", value):
                try:
                    known[name] = eval(value, {"__builtins__": {}}, known)  # pylint: disable=eval-used
                except (NameError, SyntaxError, TypeError):
                    continue
    return known


@pytest.mark.parametrize("document", DEVELOPERS, ids=name)
def test_quoted_limits(document):
    """Each limit that a document names exists, and the value given with it, as in `LIMIT_X` (5 s), is right."""
    text, known = " ".join(document.read_text().split()), constants()
    assert len(known) > 200
    for limit in re.findall(r"\bLIMIT_\w+", text):
        assert limit in known or any(limit in path.read_text() for path in sources()), limit
    for limit, number, unit in re.findall(r"`(LIMIT_\w+)` \((\d+) ?(\w*)\)", text):
        assert int(number) * UNITS[unit] == known[limit], f"{limit}: {number} {unit} and {known[limit]}"


def test_limits_are_quoted():
    """The regular expression above finds quotations."""
    assert sum(len(re.findall(r"`LIMIT_\w+`\s+\(\d+\s?\w*\)", document.read_text())) for document in DEVELOPERS) > 20


@pytest.mark.parametrize("document", DEVELOPERS, ids=name)
def test_named_files_exist(document):
    """Each C or Python file that a document names exists, with or without its folder."""
    files = {path.relative_to(ROOT).as_posix() for path in [*sources(), *(ROOT / "tests").rglob("*.[chp]*")]}
    for named in re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:c|h|py))\b", document.read_text()):
        assert any(f"/{file}".endswith(f"/{named}") for file in files), named


def names_of_tests(path):
    return set(re.findall(r"^(?:static void |def |TEST\(|TEST_WITH\()(test_\w+)\b", path.read_text(), re.MULTILINE))


def test_decisions():
    """Each decision has its parts and its tests, and a link in the index."""
    folder = ROOT / "doc" / "decisions"
    pages = sorted(folder.glob("0*.md"))
    links = re.findall(r"\[(\d{4})\]\(([\w.-]+)\)", (folder / "README.md").read_text())
    assert sorted(links) == [(page.name[:4], page.name) for page in pages]
    for page in pages:
        text = page.read_text()
        assert re.match(rf"# {page.name[:4]}\. \S[^\n]*\n\n20", text), page.name
        assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == ["Context", "Decision", "Cost", "Tests"], page.name
        named = re.findall(r"^- `([\w/.]+)::(\w+)`$", text.split("## Tests\n")[1], re.MULTILINE)
        assert named, page.name
        for file, test in named:
            assert test in names_of_tests(ROOT / "tests" / file), f"{page.name}: {file}::{test}"
