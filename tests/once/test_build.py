# SPDX-License-Identifier: Apache-2.0
"""How the programs are built: with which compilers, on which machines and for which architectures."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
MAKE_FILTER = BUILD / "worker" / "make_filter"
FILTERS = ROOT / "worker" / "filters"
RECIPES = ("debian/rules", "rpm/cloister.spec", "arch/PKGBUILD", "fleets/Containerfile")
PRESETS = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]


def commands(directory, *options):
    """Returns the compiler commands of a build with @options."""
    subprocess.run(["cmake", *options, "-S", ROOT, "-B", directory], check=True, capture_output=True, timeout=120)
    return [entry["command"] for entry in json.loads((directory / "compile_commands.json").read_text())]


def quickstart():
    text = (ROOT / "packaging" / "quickstart").read_text()
    return shlex.split(re.search(r"^\tcmake (--preset .*)$", text, re.M)[1])


@pytest.mark.deep("slow")
def test_packages_have_no_fatal_warnings(tmp_path):
    """A distribution's compiler may be newer than the source. The recipes configure without a preset, and do not name
    the option themselves."""
    for recipe in RECIPES:
        text = (ROOT / "packaging" / recipe).read_text()
        assert "--preset" not in text and not re.search("werror|warning.as.error", text, re.I), recipe
    built = commands(tmp_path, "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    assert len(built) > 200 and not [command for command in built if "-Werror" in command]


@pytest.mark.deep("slow")
def test_quickstart_has_no_fatal_warnings(tmp_path):
    assert not [command for command in commands(tmp_path, *quickstart()) if "-Werror" in command]


@pytest.mark.deep("slow")
@pytest.mark.parametrize("preset", [preset["name"] for preset in PRESETS
                                    if not preset.get("hidden") and "toolchainFile" not in preset])
def test_presets_have_fatal_warnings(tmp_path, preset):
    """Warnings are errors in every preset. The fuzz preset needs clang, which may be missing."""
    options = ["-DCMAKE_C_COMPILER=cc", "-DCMAKE_CXX_COMPILER=c++", "-DCLOISTER_FUZZ=OFF"] if preset == "fuzz" else []
    built = commands(tmp_path, "--preset", preset, *options)
    ours = [command for command in built if "-Werror" not in command]
    assert built and not ours, os.linesep.join(ours[:3])


@pytest.mark.deep("slow")
@pytest.mark.skipif(not shutil.which("ld.gold"), reason="needs a linker that cannot make static position-independent programs")
def test_packages_do_not_link_the_workers_dynamically(tmp_path):
    """Their AppArmor profiles let them do what another user must not get by LD_PRELOAD."""
    assert "-DCLOISTER_REQUIRE_STATIC=ON" in (ROOT / "packaging/debian/rules").read_text()
    done = subprocess.run(["cmake", "-DCLOISTER_REQUIRE_STATIC=ON", "-DCLOISTER_TESTS=OFF", "-S", ROOT, "-B", tmp_path],
                          env=os.environ | {"LDFLAGS": "-fuse-ld=gold"}, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "cannot be linked statically" in " ".join(done.stderr.split())


def filters(processor, name, target, *runner):
    subprocess.run([*runner, MAKE_FILTER, processor, name, target], check=True, timeout=60)
    return target.read_text()


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_filters_without_seccomp(tmp_path, processor):
    """The machine that builds may have a kernel, or an emulator, without seccomp(2)."""
    without = (BUILD / "tests" / "without", "seccomp")
    for name in "commands", "files", "spawner":
        made = filters(processor, name, tmp_path / "filters.h", *without)
        assert made.count("sock_filter") > 0 and made == (BUILD / f"worker/filters/{processor}/{name}_filters.h").read_text()


def test_unknown_processor(tmp_path):
    done = subprocess.run([MAKE_FILTER, "abacus", "files", tmp_path / "x.h"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "set CMAKE_SYSTEM_PROCESSOR to what" in done.stderr and not list(tmp_path.iterdir())


def test_numbers_of_another_processor_do_not_compile(tmp_path):
    """The build compares the filters' numbers with the headers of the target architecture."""
    here = os.uname().machine
    there = {"x86_64": "aarch64", "aarch64": "x86_64"}[here]
    for processor in here, there:
        filters(processor, "checks", tmp_path / "checks.c")
        done = subprocess.run(["cc", "-D_GNU_SOURCE", "-fsyntax-only", "checks.c"], cwd=tmp_path, capture_output=True,
                              text=True, check=False)
        assert (done.returncode == 0) == (processor == here), done.stderr
    assert 'static assertion failed: "openat"' in done.stderr


def test_every_constant_of_a_filter_is_checked():
    """The rules use the constants of the building machine, so filter_checks.c must check each of them for the
    target."""
    checked = re.search(r"constants\[\] = (.*?)};", (FILTERS / "filter_checks.c").read_text(), re.S)[1]
    prefixes = ("ADDR|AF|BTRFS|CLONE|FALLOC|IOPRIO|IPPROTO|IPV6|IP|MAP|MCAST|MFD|MS|O|PER|PR|PRIO|RLIMIT|SECCOMP|SHM|SOCK|SOL|SO|S|"
                "TCP")
    constant = re.compile(rf"\b(?:(?:{prefixes})_[A-Z0-9_]+|E[A-Z]{{3,}}|TIOC[A-Z]+|UNAME26)\b")
    for name in "commands.c", "files.c", "spawner.c":
        text = re.sub(r"/\*.*?\*/|^#include.*?$", "", (FILTERS / name).read_text(), flags=re.S | re.M)
        used = set(constant.findall(text)) - set(re.findall(r"^#define (\w+)", text, re.M))
        missing = {word for word in used if not re.search(rf"\b{word}\b", checked)}
        assert (used or name == "spawner.c") and not missing, (name, missing)


def test_architectures():
    """Each recipe names exactly the architectures of the decision in doc/decisions, in its own spelling."""
    recipes = {recipe: (ROOT / "packaging" / recipe).read_text() for recipe in ("debian/control", *RECIPES)}
    assert set(re.findall("^Architecture: (.*)$", recipes["debian/control"], re.M)) == {"amd64 arm64"}
    assert re.findall(r"^arch=\((.*)\)$", recipes["arch/PKGBUILD"], re.M) == ["x86_64 aarch64"]
    assert re.findall(r"^ExclusiveArch: +(.*)$", recipes["rpm/cloister.spec"], re.M) == ["x86_64 aarch64"]


def test_a_cross_build_needs_no_other_compiler():
    """A compiler in Build-Depends would be one for the target, which cannot run. The cross compiler is installed
    already. make_filter runs during the build, with the building machine's libseccomp."""
    needs = re.search("^Build-Depends:(.*?)^\\S", (ROOT / "packaging/debian/control").read_text(), re.S | re.M)[1].split()
    needs = [word.strip(",") for word in needs]
    assert not {"gcc", "g++", "clang"} & set(needs) and "libseccomp-dev:native" in needs


@pytest.mark.deep("slow")
def test_a_compiler_that_inverts_comparisons(tmp_path):
    """If cmake/bit_test.c fails, the build disables the transformation that is wrong; otherwise it does not. A cross
    build cannot run the test and always disables it."""
    wrapper, header = tmp_path / "cc", tmp_path / "header.h"
    wrapper.write_text("#!/bin/sh\nfor word; do case $word in */bit_test.c) option='-include header.h' ;; esac; done\n"
                       f'exec gcc -I{tmp_path} $option "$@"\n')
    wrapper.chmod(0o755)
    for status, text in (0, ""), (1, "#define main(x) main(x) { return 1; } int unused(x)\n"):
        header.write_text(text)
        built = commands(tmp_path / f"built{status}", f"-DCMAKE_C_COMPILER={wrapper}")
        without = [command for command in built if "-fno-if-conversion" in command]
        assert without == (built if status else []), status
