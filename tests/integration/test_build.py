# SPDX-License-Identifier: Apache-2.0
"""The programs' libraries and hardening, read from the programs themselves."""

import os
import pathlib
import re
import subprocess

import pytest
from daemon import is_sanitized

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("CLOISTER_BUILD", "release")
BIN = ROOT / "build" / BUILD / "bin"
PROGRAMS = ["cloisterd", "cloister-spawner", "cloister-worker", "cloister-files", "cloister-unpack", "cloister",
            "cloisterctl"]
TOUCH_WORKSPACES = ["cloister-spawner", "cloister-worker", "cloister-files"]


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, text=True, capture_output=True).stdout


def is_static(path):
    return "INTERP" not in readelf("-l", path) and "(NEEDED)" not in readelf("-d", path)


@pytest.mark.parametrize("program", TOUCH_WORKSPACES)
def test_no_json_and_no_event_loop_near_a_workspace(program):
    path = BIN / program
    needed = [line for line in readelf("-d", path).splitlines() if "(NEEDED)" in line]
    assert needed or is_static(path)
    assert not [line for line in needed if "json" in line or "event" in line]
    # The libraries are not linked statically either.
    symbols = readelf("-s", path)
    assert "channel_fill" in symbols and "json_object_" not in symbols and "event_base_" not in symbols


@pytest.mark.skipif(BUILD != "release", reason="AddressSanitizer has to be linked dynamically")
def test_what_each_workspace_executes_needs_no_dynamic_linker():
    for program in ("cloister-worker", "cloister-files"):
        assert is_static(BIN / program), program


@pytest.mark.parametrize("program", PROGRAMS)
def test_hardening(program):
    path = BIN / program
    # AddressSanitizer's are not, so that they start sooner: cmake/hardening.cmake.
    assert is_sanitized() or "DYN (Position-Independent Executable file)" in readelf("-h", path)
    segments = readelf("-l", path)
    assert "GNU_RELRO" in segments
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack
    assert "BIND_NOW" in readelf("-d", path) or "NOW" in readelf("-d", path)
    symbols = readelf("-s", path)
    assert "__stack_chk_fail" in symbols
    if BUILD == "release":
        # A static program contains the C library and all its functions, so the test looks at the program's own objects.
        parts = readelf("-s", ROOT / "build" / BUILD / "worker" / f"lib{program}-core.a") if is_static(path) else symbols
        assert re.search(r" UND __\w+_chk", parts), "no fortified function"


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_program_is_setuid(program):
    mode = (BIN / program).stat().st_mode
    assert mode & 0o6000 == 0
