# SPDX-License-Identifier: Apache-2.0
"""Parses the sources of the manual pages. mdoc(7)"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "man"
# Of pages from other parts of the tree, only the lint and the references are checked.
PAGES = sorted(path.name for path in FOLDER.glob("*.[1-8]"))


def need(tool):
    """Skips the test without the tool. In CI, where all tools must be installed, it fails."""
    if shutil.which(tool):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{tool} is not installed")
    pytest.skip(f"{tool} is not installed")


def text(page):
    return (FOLDER / page).read_text()


def part(page, section, subsection=None):
    """Returns the source of a section, or of one of its subsections."""
    found = re.search(rf"^\.Sh {re.escape(section)}\n(.*?)(?=^\.Sh |\Z)", text(page), re.M | re.S)
    assert found, f"man/{page} has no section {section}"
    if not subsection:
        return found[1]
    for name, source in subsections(page, section):
        if name == subsection:
            return source
    raise AssertionError(f"man/{page}, {section}: there is no subsection {subsection}")


def subsections(page, section):
    """Returns [(name, source)]."""
    return re.findall(r"^\.Ss (.*?)\n(.*?)(?=^\.Ss |\Z)", part(page, section), re.M | re.S)


def words(source, macro, items_only=False):
    """Returns the words marked with a macro, anywhere or only in the heads of list items."""
    found = set()
    for line in source.splitlines():
        if not line.startswith(".It ") and items_only or not line.startswith("."):
            continue
        for arguments in re.findall(rf"(?:^\.|\s){macro}((?:\s+[^\s]+)+)", line):
            for word in arguments.split():
                if re.fullmatch(r"[A-Z][a-z]|[|]", word):  # the next macro
                    break
                if re.search(r"\w", word):
                    found.add(word)
    return found


def options(source):
    """Returns the long options: .Fl -name"""
    return set(re.findall(r"\bFl -([a-z][a-z-]*)", source))


def known_options(area, *program):
    """Returns the program's long options. An empty prefix of one is ambiguous, so getopt_long(3) lists them all."""
    done = area.run(*program, "--=x")
    found = set(re.findall(r"'--([a-z-]+)'", done.stderr.decode()))
    assert found, done.stderr
    return found


def program_commands(area, program):
    """Returns the commands that the program's help lists."""
    return re.findall(r"^  (\w+) ", area.run(program, "--help").stdout.decode(), re.M)


def program_help(area, program):
    """Returns the program's help and that of each of its commands."""
    commands = [] if program == "cloisterd" else program_commands(area, program)
    return "".join(area.run(program, *words, "--help").stdout.decode() for words in [(), *((c,) for c in commands)])


def literals(page, section):
    """Returns the examples of a section, without mdoc's escapes."""
    blocks = re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", part(page, section), re.M | re.S)
    return [block.replace("\\e", "\\").replace("\\&", "") for block in blocks]


def commands(page):
    """Returns the command lines of the page's examples: those after "$ ", with their continuation lines."""
    found = []
    for block in literals(page, "EXAMPLES"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            elif found and line.startswith("    ") and re.search(r"[|\\]$", found[-1]):
                found[-1] += "\n" + line
    return found


def messages(page):
    """Returns the protocol's examples in their order: (direction, message)."""
    found = []
    for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", text(page), re.M | re.S):
        for line in block.replace("\\e", "\\").splitlines():
            if line[:2] in ("->", "<-"):
                found.append([line[:2], line[3:]])
            elif line.startswith("    ") and found:
                found[-1][1] += line[4:]
    return [(direction, json.loads(message)) for direction, message in found]


def tables():
    """Returns cloisterd's own tables, printed by tests/lib/print_tables.c."""
    build = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
    done = subprocess.run([build / "tests" / "print_tables"], check=True, capture_output=True,
                          env={"ASAN_OPTIONS": "detect_leaks=0"})
    return json.loads(done.stdout)


def limits(names):
    """Returns {name: number} from common/limits.h."""
    lines = '#include "common/limits.h"\n' + "".join(f"@{i} = {name}\n" for i, name in enumerate(names))
    done = subprocess.run(["cc", "-E", "-P", "-I", ROOT, "-"], input=lines, text=True, check=True,
                          capture_output=True)
    values = re.findall(r"@\s*\d+\s*=\s*([^@]+)", done.stdout)
    return {name: eval(value.replace("ULL", ""))  # the text has only digits, "*" and brackets
            for name, value in zip(names, values, strict=True)}


def agree(documented, real, where, what):
    """Fails unless both sets are equal, and names the page and what it lacks or has too much."""
    missing, extra = set(real) - set(documented), set(documented) - set(real)
    assert not missing, f"{where} does not describe {what}: {', '.join(sorted(missing))}"
    assert not extra, f"{where} describes {what} that do not exist: {', '.join(sorted(extra))}"
