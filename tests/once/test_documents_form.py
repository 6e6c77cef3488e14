# SPDX-License-Identifier: Apache-2.0
"""The form of every document of the tree: its width, its links, and what it quotes of the source."""

import re

import pytest

import documents

ROOT = documents.ROOT
COLUMNS = 100
# Whose tables have cells that no line of this width holds: names of tests, of probes, of options.
WIDE_TABLES = {"SECURITY.md", "doc/fleets.md", "doc/migration.md", "doc/operators-guide.md", "doc/protocol.md"}


def all_documents():
    """But tests/bench/RESULT-*.md, which are what programs printed."""
    found = [ROOT.glob("*.md"), (ROOT / "doc").rglob("*.md"), (ROOT / "supervisor").rglob("README"),
             *((ROOT / folder).rglob("README.md") for folder in ("examples", "packaging", "tests"))]
    return sorted(path for paths in found for path in paths if "node_modules" not in path.parts)


def name(document):
    return str(document.relative_to(ROOT))


EVERY = pytest.mark.parametrize("document", all_documents(), ids=name)


def too_wide(text, wide_tables=False):
    """The numbers of lines that are wider than they may be. The line of a reference may be as long as its address."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line.expandtabs(8)) > COLUMNS
            and not re.fullmatch(r"\[[^]]+\]: \S+", line) and not (wide_tables and line.startswith("|"))]


@pytest.mark.parametrize("document", [ROOT / "README.md", ROOT / "doc" / "benchmarks.md", ROOT / "doc" / "comparison.md"], ids=name)
def test_no_line_is_too_wide(document):
    assert too_wide(document.read_text(), name(document) in WIDE_TABLES) == []


def test_a_wide_line_is_seen():
    wide = "x" * (COLUMNS + 1)
    assert too_wide(f"short\n{wide}\n| {wide} |\n[a]: {wide}\n") == [2, 3]
    assert too_wide(f"short\n{wide}\n| {wide} |\n[a]: {wide}\n", wide_tables=True) == [2]


def anchors(document):
    """GitHub's names of a document's headings."""
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
