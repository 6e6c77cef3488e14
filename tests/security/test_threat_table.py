# SPDX-License-Identifier: Apache-2.0
"""doc/attacks.md names tests that exist and the rows of the self-test."""

import ast
import json
import re

from daemon import ROOT

PAGE = (ROOT / "doc" / "attacks.md").read_text()


CLASSES = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| `")]


def named(cell):
    return re.findall(r"`([^`]*)`", cell)


def names_in(path):
    text = path.read_text()
    if path.suffix == ".c":
        return set(re.findall(r"^(?:TEST\w*|.*\bcmocka_unit_test\w*)\(\s*(test_\w+)", text, re.MULTILINE))
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


def test_the_rows_are_the_suite_s_and_no_probe_is_there_twice(own_daemon):
    report = json.loads(own_daemon.ctl("--json", "selftest").stdout)
    names = [probe["probe"] for probe in report["probes"]]
    assert len(names) == len(set(names)) >= 100
    assert [named(row)[0] for row, *_ in CLASSES] == list(dict.fromkeys(probe["row"] for probe in report["probes"]))
    for probe in report["probes"]:
        assert probe["wanted"] and probe["how"], probe
