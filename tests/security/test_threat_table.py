# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md's table of escape classes names what is there: each test, and each probe of the self-test."""

import ast
import json
import re

from daemon import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()


def table(heading):
    """The rows below @heading, cells without their spaces."""
    lines = PAGE.split(f"{heading}\n", 1)[1].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows[2:]


CLASSES = table("## What was tried elsewhere")
PROBES = table("### The self-test")


def named(cell):
    return re.findall(r"`([^`]*)`", cell)


def names_in(path):
    text = path.read_text()
    if path.suffix == ".c":
        return {name for name in re.findall(r"^static void (test_\w+)\(", text, re.MULTILINE)
                if len(re.findall(rf"\b{name}\b", text)) > 1}
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_is_named_is_there():
    assert len(CLASSES) >= 20
    for row, what, how, tried in CLASSES:
        assert what and how, row
        tests = named(tried)
        assert tests, row
        for test in tests:
            file, name = test.split("::")
            assert name in names_in(ROOT / "tests" / file), test


def test_the_probes_are_the_suite_s(own_daemon):
    report = json.loads(own_daemon.ctl("--json", "selftest").stdout)
    suite = {}
    for probe in report["probes"]:
        suite.setdefault(probe["row"], []).append(probe["probe"])
    page = {named(row)[0]: named(probes) for row, probes in PROBES}
    assert page == suite
    assert [named(row)[0] for row, *_ in CLASSES] == list(suite) == list(page)


def test_no_probe_is_there_twice(own_daemon):
    report = json.loads(own_daemon.ctl("--json", "selftest").stdout)
    names = [probe["probe"] for probe in report["probes"]]
    assert len(names) == len(set(names)) >= 100
    for probe in report["probes"]:
        assert probe["wanted"] and probe["how"], probe
