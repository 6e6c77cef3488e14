# SPDX-License-Identifier: Apache-2.0
"""search_files finds the same lines as `git grep -P` and `rg -P` in real sources.

CLOISTER_ORACLE_CASES sets the number of generated patterns, and CLOISTER_ORACLE_SEED their seed, which is printed.

The comparison leaves out what the three document differently. Only search_files counts a carriage return as part of the
line's end. Only search_files matches over several lines, so no pattern can match a newline. In rg \\w, \\d and \\b follow
Unicode, so rg searches only ASCII files. Each program has its own rule for files with a NUL, so there are none."""

import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import pytest

pytestmark = pytest.mark.usefixtures("as_user")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = int(os.environ.get("CLOISTER_ORACLE_CASES", "60"))
SEED = int(os.environ.get("CLOISTER_ORACLE_SEED", str(int(time.time()))))
PLACES = ("client", "common", "supervisor", "worker", "tests")
SYSTEM = ("/usr/include", "/usr/share/perl", "/usr/lib/python3", "/usr/share/doc")
FILES = 1500
RESULTS = 50  # LIMIT_SEARCH_RESULTS


def sources(chance):
    """Real files that all three programs take for text: from this checkout and from the system."""
    own = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.[chp]*"))]
    system = []
    for place in SYSTEM:
        for directory, directories, names in os.walk(place):
            directories.sort()
            system += [pathlib.Path(directory, name) for name in sorted(names)]
    chance.shuffle(system)
    taken = 0
    for path in own + system:
        if taken == FILES:
            return
        try:
            if not path.is_file() or path.is_symlink() or path.stat().st_size > 1 << 20:
                continue
            data = path.read_bytes()
        except (PermissionError, FileNotFoundError):  # another test run has removed its file
            continue
        if data and b"\0" not in data and b"\r" not in data:
            taken += 1
            yield path, data


@pytest.fixture(scope="module")
def tree(daemon):
    """Returns (directory, words from its files). ASCII files are in `ascii`, all others in `mixed`."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    path = daemon.area.new_directory("sources")
    words = set()
    for i, (source, data) in enumerate(sources(chance)):
        kind = "ascii" if data.isascii() else "mixed"
        place = path / kind / source.parent.name.lstrip(".") / f"{source.stem}.{i}{source.suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        if i % 10 == 0:
            words.update(re.findall(rb"[A-Za-z_]{3,12}", data)[:200])
    (path / "mixed").mkdir(exist_ok=True)
    (path / "mixed" / "latin1.c").write_bytes(b"int caf\xe9 = 1;\n\xff\xfe static\nint plain\xc3\n")
    yield path, sorted(word.decode() for word in words)
    shutil.rmtree(path)


def pattern_of(chance, words):
    """Returns a pattern of a kind that models write, which cannot match a newline."""
    def word():
        return chance.choice(words)

    def one():
        return chance.choice([
            word, word, word,
            lambda: word()[:3],
            lambda: rf"\b{word()}\b",
            lambda: rf"{word()[:2]}\w+",
            lambda: rf"\w*{word()[-3:]}\b",
            lambda: rf"[a-z]{{{chance.randint(2, 5)}}}_[a-z]+",
            lambda: r"[0-9]+[^0-9\n]",
            lambda: r"0x[0-9a-fA-F]{2,}",
            lambda: rf"(?:{word()}|{word()}|{word()})",
            lambda: rf"({word()}|{word()[:4]})",
            lambda: rf"{word()}.*{word()[:3]}",
            lambda: r"[^a-z\n]{3}",
            lambda: r"\S+\(",
            lambda: r"[ \t]+",
            lambda: rf"(?<={word()[:2]})\w",
            lambda: rf"{word()[:3]}(?=\w)",
            lambda: r"\b(\w+) \1\b",
            lambda: rf"(?i:{word()})",
            lambda: r".",
            lambda: r"\.",
        ])()

    body = "".join(one() for _ in range(chance.choice([1, 1, 1, 2, 2, 3])))
    body = chance.choice(["", "", "", "^", r"^[ \t]*"]) + body + chance.choice(["", "", "", "$", ";$"])
    return chance.choice(["", "", "", "(?i)"]) + body


def ordered(found):
    """Sorts (path, line) as search_files does: by the names of the path, then by lines."""
    return sorted(found, key=lambda item: ([os.fsencode(part) for part in item[0].split("/")], item[1]))


def told(expected):
    """Returns those of (path, line) that are told: the files near the directory first, if there are too many."""
    near_first = sorted(expected, key=lambda item: item[0].count("/") > 1)
    return ordered(near_first[:RESULTS])


def ask(words, directory):
    """Returns the (path, line) pairs that a program prints as `path NUL line :`."""
    output = subprocess.run(
        words, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"})
    assert output.returncode in (0, 1), output.stderr
    return ordered((os.fsdecode(path).removeprefix("./"), int(line)) for path, line in re.findall(
        rb"^([^\0\n]+)\0(\d+)[\0:]", output.stdout, re.MULTILINE))


def check(found, truncated, expected, name, pattern):
    assert found == told(expected), f"{name} with {pattern!r}, seed {SEED}"
    assert truncated == (len(expected) > RESULTS), f"{name} with {pattern!r}, seed {SEED}"


@pytest.mark.deep("slow")
def test_the_same_lines_as_git_grep_and_rg(daemon, client, tree):
    directory, words = tree
    client.call("workspace.open", {"root": str(directory)})
    chance = random.Random(SEED)
    rg = shutil.which("rg")
    if rg is None and os.environ.get("CI") == "true":
        pytest.fail("rg is not installed")
    compared = 0
    for _ in range(CASES):
        pattern = pattern_of(chance, words)
        for kind in ("ascii", "mixed"):
            answer = client.observe("search_files", {"pattern": pattern, "path": kind}, {"gitignore": False})
            if not answer["success"]:
                assert answer["error"]["code"] == "PATTERN_TOO_COMPLEX", answer["error"]
                continue
            output = answer["output"]
            found = [(match["path"].removeprefix(kind + "/"), match["line"]) for match in output["matches"]]
            expected = ask(["git", "grep", "--no-index", "--no-exclude-standard", "-P", "-n", "-z", "--no-color",
                            "-I", "-e", pattern, "--", "."], directory / kind)
            check(found, output["truncated"], expected, "git grep -P", pattern)
            compared += 1
            if rg and kind == "ascii":
                expected = ask([rg, "--no-config", "-P", "-n", "-0", "--hidden", "--no-ignore", "--no-heading",
                                "--with-filename", "--color=never", "-e", pattern, "."], directory / kind)
                check(found, output["truncated"], expected, "rg -P", pattern)
    assert compared > CASES


def test_two_threads_change_nothing(client, tree):
    """Repeated searches with several threads give the same answer, in the order of names."""
    directory, _ = tree
    client.call("workspace.open", {"root": str(directory)})
    for pattern in ("static", r"\b[a-z]+_[a-z]+\(", r"[0-9]{3}"):
        first = client.use("search_files", {"gitignore": False}, pattern=pattern)
        found = [(match["path"], match["line"]) for match in first["matches"]]
        assert found == ordered(found)
        for _ in range(20):
            assert client.use("search_files", {"gitignore": False}, pattern=pattern) == first
