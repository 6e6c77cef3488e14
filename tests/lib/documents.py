# SPDX-License-Identifier: Apache-2.0
"""Reads documents for tests: their fenced blocks and the commands in these, and a shell that runs the commands.
doc/README.md has the conventions."""

import dataclasses
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

from cloister_client import acting_as

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(`{3,})\s*(.*)$")
PATIENCE = 300  # seconds; every command is faster
# Reads commands as NUL-terminated words. A command cannot read the words that follow it.
DRIVER = r"""
while IFS= read -r -d '' -u 9 command; do
	(exit "${last:-0}")
	eval "$command" </dev/null 9<&- 2>&1
	last=$?
	printf '%s %d\n' "$MARK" "$last"
done
"""


def documents():
    """Returns the documents for users."""
    return [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "doc").glob("*.md"))]


@dataclasses.dataclass
class Block:
    """A fenced block. @words are those after the opening fence; the first one is the language."""
    document: pathlib.Path
    line: int
    words: list
    lines: list

    @property
    def language(self):
        return self.words[0] if self.words else ""

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)

    def __str__(self):
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclasses.dataclass
class Command:
    text: str
    output: list
    where: str


def blocks(document, indented=False):
    """Returns the fenced blocks, or with @indented the lines outside of them as (number, line)."""
    found, rest, current, fence = [], [], None, None
    for number, line in enumerate(document.read_text().splitlines(), 1):
        match = FENCE.match(line)
        if current is None and match:
            fence = match
            current = Block(document, number, match[3].split(), [])
        elif current is not None and match and match[2] == fence[2] and not match[3]:
            found.append(current)
            current = None
        elif current is not None:
            indent = fence[1]
            current.lines.append(line[len(indent):] if line.startswith(indent) else line.lstrip())
        else:
            rest.append((number, line))
    assert current is None, f"{current} is never closed"
    return rest if indented else found


def outside(document):
    return blocks(document, indented=True)


def with_links(document):
    """Returns the text outside of blocks. Links by reference, [text][label] or [label][], become inline links."""
    lines = [line for _, line in outside(document)]
    targets = dict(match.groups() for match in map(re.compile(r"\[([^]]+)\]: (\S+)$").fullmatch, lines) if match)

    def written_out(match):
        return f"[{match[1]}]({targets[match[2] or match[1]]})"

    return re.sub(r"\[([^]]+)\]\[([^]]*)\]", written_out, "\n".join(lines))


def commands(block, prompts=("$ ",)):
    """Returns the commands after a prompt, each with its continuation lines after "> " and the output below it."""
    found = []
    for number, line in enumerate(block.lines, block.line + 1):
        where = f"{block.document.relative_to(ROOT)}:{number}"
        if line.startswith(prompts):
            found.append(Command(line[2:], [], where))
        elif found and not found[-1].output and (line.startswith("> ") or line == ">"):
            found[-1].text += "\n" + line[2:]
        else:
            assert found, f"{where}: output without a command"
            found[-1].output.append(line)
    assert found, f"{block}: no command"
    for command in found:  # empty lines between commands are layout
        while command.output and not command.output[-1]:
            command.output.pop()
    return found


def line_matches(expected, line):
    """Compares a line. "..." in @expected stands for any text."""
    if "..." not in expected:
        return expected == line
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), line) is not None


def output_matches(expected, lines):
    """Compares lines. A line "..." in @expected stands for any number of lines."""
    if not expected:
        return not lines
    if expected[0].strip() == "...":
        return any(output_matches(expected[1:], lines[i:]) for i in range(len(lines) + 1))
    return bool(lines) and line_matches(expected[0], lines[0]) and output_matches(expected[1:], lines[1:])


class Shell:
    """bash as the user, one for each document. Directories, variables and jobs last from command to command."""

    def __init__(self, account, place, env):
        self.mark = f"mark-{os.urandom(8).hex()}"
        own, self.fd = os.pipe()
        with acting_as(os.getuid()):
            self.process = subprocess.Popen(
                ["/bin/bash", "-c", f"exec 9<&{own} {own}<&-; {DRIVER}"], cwd=place, env={**env, "MARK": self.mark},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[own],
                start_new_session=True, **account.as_user())
        os.close(own)
        os.set_blocking(self.process.stdout.fileno(), False)

    def run(self, text):
        """Runs a command. Returns the lines of its output and its exit status."""
        os.write(self.fd, text.encode() + b"\0")
        data, deadline = b"", time.monotonic() + PATIENCE
        end = re.compile(re.escape(self.mark.encode()) + rb" (\d+)\n$")
        while not end.search(data):
            left = deadline - time.monotonic()
            assert left > 0, f"{text}: the command does not end: {data!r}"
            if select.select([self.process.stdout], [], [], left)[0]:
                more = self.process.stdout.read()
                assert more, f"{text}: the shell has ended: {data!r}"
                data += more
        found = end.search(data)
        return data[:found.start()].decode(errors="replace").splitlines(), int(found[1])

    def close(self):
        """Ends the shell and its jobs."""
        os.close(self.fd)
        with acting_as(os.getuid()):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process.stdout.close()


# In a transcript this stands for anything.
ANY = "…"


def value_matches(expected, value):
    """Compares JSON values. In a string "…" stands for any text, alone for any value, as a member's name for further
    members."""
    if expected == ANY:
        return True
    if isinstance(expected, str):
        return isinstance(value, str) and re.fullmatch(
            ".*".join(map(re.escape, expected.split(ANY))), value, re.DOTALL) is not None
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            return False
        named = [key for key in expected if key != ANY]
        return (ANY in expected or set(named) == set(value)) and all(
            key in value and value_matches(expected[key], value[key]) for key in named)
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(
            map(value_matches, expected, value))
    return type(expected) is type(value) and expected == value


def messages(block):
    """Returns [(whether the client sends it, message, where)] of a transcript. A message may take several lines."""
    parts = []
    for number, line in enumerate(block.lines, block.line + 1):
        if line[:1] in "→←" and line:
            parts.append([line[0] == "→", line[1:], f"{block.document.relative_to(ROOT)}:{number}"])
        elif line.strip():
            assert parts, f"{block}: a line before the first message"
            parts[-1][1] += " " + line.strip()
    for part in parts:
        try:
            part[1] = json.loads(part[1])
        except ValueError as error:
            raise AssertionError(f"{part[2]}: {error}: {part[1]}") from error
    return parts
