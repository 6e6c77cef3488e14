# SPDX-License-Identifier: Apache-2.0
"""The manual pages' sources, taken apart: mdoc(7)."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "man"
# A page that another part of the tree brings along is held to lint and to its references alone.
PAGES = sorted(path.name for path in FOLDER.glob("*.[1-8]"))


def need(tool):
    """Skips without the tool, but not where all of them are to be there."""
    if shutil.which(tool):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{tool} is not installed")
    pytest.skip(f"{tool} is not installed")


def text(page):
    return (FOLDER / page).read_text()


def part(page, section, subsection=None):
    """The source of a section, or of one of its subsections."""
    found = re.search(rf"^\.Sh {re.escape(section)}\n(.*?)(?=^\.Sh |\Z)", text(page), re.M | re.S)
    assert found, f"man/{page} has no section {section}"
    if not subsection:
        return found[1]
    for name, source in subsections(page, section):
        if name == subsection:
            return source
    raise AssertionError(f"man/{page}, {section}: nothing is said of {subsection}")


def subsections(page, section):
    """[(name, source)]"""
    return re.findall(r"^\.Ss (.*?)\n(.*?)(?=^\.Ss |\Z)", part(page, section), re.M | re.S)


def words(source, macro, items_only=False):
    """What is marked with a macro: of lists' heads, or anywhere."""
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
    """Long options: .Fl -name"""
    return set(re.findall(r"\bFl -([a-z][a-z-]*)", source))


def known_options(area, *program):
    """Those that a program has: the empty prefix of a long option is ambiguous, and getopt_long(3)
    names all that it may mean."""
    done = area.run(*program, "--=x")
    found = set(re.findall(r"'--([a-z-]+)'", done.stderr.decode()))
    assert found, done.stderr
    return found


def program_commands(area, program):
    """The commands that the program's help lists."""
    return re.findall(r"^  (\w+) ", area.run(program, "--help").stdout.decode(), re.M)


def program_help(area, program):
    """The program's help, and that of each of its commands."""
    commands = [] if program == "cloisterd" else program_commands(area, program)
    return "".join(area.run(program, *words, "--help").stdout.decode() for words in [(), *((c,) for c in commands)])


def literals(page, section):
    """The examples of a section, with mdoc's escapes taken back."""
    blocks = re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", part(page, section), re.M | re.S)
    return [block.replace("\\e", "\\").replace("\\&", "") for block in blocks]


def commands(page):
    """The command lines of the page's examples: what stands behind "$ ", with its further lines."""
    found = []
    for block in literals(page, "EXAMPLES"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            elif found and line.startswith("    ") and re.search(r"[|\\]$", found[-1]):
                found[-1] += "\n" + line
    return found


def messages(page):
    """The protocol's examples in their order: (direction, message)"""
    found = []
    for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", text(page), re.M | re.S):
        for line in block.replace("\\e", "\\").splitlines():
            if line[:2] in ("->", "<-"):
                found.append([line[:2], line[3:]])
            elif line.startswith("    ") and found:
                found[-1][1] += line[4:]
    return [(direction, json.loads(message)) for direction, message in found]


def tables():
    """What cloisterd works by: tests/lib/print_tables.c."""
    build = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
    done = subprocess.run([build / "tests" / "print_tables"], check=True, capture_output=True,
                          env={"ASAN_OPTIONS": "detect_leaks=0"})
    return json.loads(done.stdout)


def limits(names):
    """{name: number}, as common/limits.h has them."""
    lines = '#include "common/limits.h"\n' + "".join(f"@{i} = {name}\n" for i, name in enumerate(names))
    done = subprocess.run(["cc", "-E", "-P", "-I", ROOT, "-"], input=lines, text=True, check=True,
                          capture_output=True)
    values = re.findall(r"@\s*\d+\s*=\s*([^@]+)", done.stdout)
    return {name: eval(value.replace("ULL", ""))  # of digits, "*" and brackets
            for name, value in zip(names, values, strict=True)}


def agree(documented, real, where, what):
    """Both ways; says which page needs what."""
    missing, extra = set(real) - set(documented), set(documented) - set(real)
    assert not missing, f"{where} does not describe {what}: {', '.join(sorted(missing))}"
    assert not extra, f"{where} describes {what} that do not exist: {', '.join(sorted(extra))}"
