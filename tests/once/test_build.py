# SPDX-License-Identifier: Apache-2.0
"""How the programs are built: by which compilers, on which machines and for which."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ("debian/rules", "rpm/cloister.spec", "arch/PKGBUILD", "fleets/Containerfile")
PRESETS = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]


def commands(directory, *options):
    """The compilers' commands of a build that is configured so."""
    subprocess.run(["cmake", *options, "-S", ROOT, "-B", directory], check=True, capture_output=True, timeout=120)
    return [entry["command"] for entry in json.loads((directory / "compile_commands.json").read_text())]


def quickstart():
    text = (ROOT / "packaging" / "quickstart").read_text()
    return shlex.split(re.search(r"^\tcmake (--preset .*)$", text, re.M)[1])


def test_packages_have_no_fatal_warnings(tmp_path):
    """Their compilers may be newer than the source. The recipes configure without a preset, and name no such option themselves."""
    for recipe in RECIPES:
        text = (ROOT / "packaging" / recipe).read_text()
        assert "--preset" not in text and not re.search("werror|warning.as.error", text, re.I), recipe
    built = commands(tmp_path, "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    assert len(built) > 200 and not [command for command in built if "-Werror" in command]


def test_quickstart_has_no_fatal_warnings(tmp_path):
    assert not [command for command in commands(tmp_path, *quickstart()) if "-Werror" in command]


@pytest.mark.parametrize("preset", [preset["name"] for preset in PRESETS if not preset.get("hidden")])
def test_presets_have_fatal_warnings(tmp_path, preset):
    """Warnings are errors in each of them; clang's need not be there for the preset of the fuzzers."""
    options = ["-DCMAKE_C_COMPILER=cc", "-DCMAKE_CXX_COMPILER=c++", "-DCLOISTER_FUZZ=OFF"] if preset == "fuzz" else []
    built = commands(tmp_path, "--preset", preset, *options)
    ours = [command for command in built if "-Werror" not in command]
    assert built and not ours, os.linesep.join(ours[:3])
