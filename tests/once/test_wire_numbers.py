# SPDX-License-Identifier: Apache-2.0
"""tests/lib/wire.py has the numbers of the messages between cloister's processes as common/wire/wire*.h has them. With a number of
another message the lies in tests/security are refused for that reason alone, and show nothing."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import wire  # noqa: E402


def enumerators(text):
    """The names and values of the enums of messages and errors in C source @text."""
    found = {}
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    for body in re.findall(r"\benum (?:\w+_message|tool_error) \{(.*?)\}", text, re.DOTALL):
        value = -1
        for name, given in re.findall(r"(\w+)\s*(?:=\s*(\d+))?\s*,?", body):
            value = int(given) if given else value + 1
            found[name] = value
    return found


def test_numbers():
    headers = [*sorted((ROOT / "common" / "wire").glob("wire*.h")), ROOT / "common" / "errors.h"]
    numbers = enumerators("".join(header.read_text() for header in headers))
    known = {name: number for name, number in numbers.items() if hasattr(wire, name)}
    assert {"FILES_END", "FILES_TROUBLE", "COMMAND_ENDED", "SPAWNER_OPENED"} <= set(known)
    assert {name: getattr(wire, name) for name in known} == known
    assert wire.NO_MATCH == numbers["TOOL_NO_MATCH"]
    messages = {name for name in numbers if re.match("FILES_|COMMAND_", name)}
    assert messages - set(dir(wire)) == set(), "messages that no lie can use"
