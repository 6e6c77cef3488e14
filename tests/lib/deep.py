# SPDX-License-Identifier: Apache-2.0
"""The deep suites: what takes long, what repeats in another build, mode or level what the check shows, and what depends on how
busy the machine is. tests/deep says how they are run."""

import dataclasses
import datetime
import hashlib
import os
import pathlib
import subprocess
import sys
import time

import running
from running import CPUS, ROOT, build, ctest, pytest, say

RESULTS = ROOT / "build" / "deep" / "results"
BOUND = 20 * 60  # seconds of a suite, beside its builds
# What cloister's programs are made of, and what each suite of whole processes needs.
PRODUCT = ("client", "cmake", "common", "egress", "gate", "json", "libcloister", "probe", "quota", "supervisor", "worker", "CMakeLists.txt",
           "CMakePresets.json")
HARNESS = ("tests/lib", "tests/conftest.py", "tests/CMakeLists.txt")
DEEP = ("-m", "deep")
INTEGRATION = ("tests/integration",)
SECURITY = ("tests/security",)
# The tests of the tools run again at each level of hardening.
LEVEL = tuple(f"tests/integration/test_{name}.py" for name in ("level", "tools", "commands", "file_corners", "paths"))
# On workspaces that are forks of a template in memory.
FORKS = tuple(f"tests/integration/test_{name}.py" for name in
              ("seeds", "edit", "patch", "search_oracle", "locks", "export", "transfer", "repeat", "text", "umask", "input", "mcp",
               "edit_mistakes", "keys"))
HOSTILE_FORKS = tuple(f"tests/security/test_{name}.py" for name in
                      ("renamers", "races", "hostile_archives", "hostile_words", "hostile_private", "hostile_peers",
                       "hostile_commands", "hostile_exhaustion", "hostile_escapes", "hostile_sequences", "messages", "review",
                       "review2", "torn_writes", "chaos", "kernel_surface", "command_filter", "late_mounts", "budgets",
                       "unread_output"))
# test_transparent is not among them: getent opens a netlink socket, for which these filters kill it.
EGRESS = (*(f"tests/integration/test_egress_{name}.py" for name in
            ("program", "names", "cells", "generations", "secret", "secret_rules", "secret_clients")),
          "tests/security/test_egress_attacks.py")
DAY = "tests/clients/test_day.py"
SYSTEM = ("tests/integration/test_tools.py", "tests/integration/test_commands.py", "tests/integration/test_seeds.py",
          "tests/integration/test_folds.py", "tests/security/test_hostile_layers.py")


@dataclasses.dataclass(frozen=True)
class Suite:
    """@depends: the folders and files whose content decides whether a result still holds. @asked_by: a change of these asks for
    the suite. @presets: what is built first, with the targets that are wanted. @steps: makes the steps, one after the other."""
    steps: object
    depends: tuple
    asked_by: tuple
    presets: dict = dataclasses.field(default_factory=dict)
    rounds: bool = True  # part of a whole round


def shell(name, script, **environment):
    return running.Step(name, ["bash", "-c", f"set -o pipefail; {script}"], environment)


def one(*arguments, **environment):
    """Steps that are one run of pytest with the programs of the release preset."""
    preset = environment.pop("preset", "release")
    return lambda: [pytest("", preset, *arguments, **environment)]


def beside(*folders, preset="release", only="deep and not busy"):
    """Steps that run the cases of @folders that @only chooses side by side, for most of them wait, and then those by themselves
    whose answer depends on how busy the machine is."""
    return lambda: [pytest("", preset, *folders, "-m", only, workers=2 * CPUS), pytest("busy", preset, *folders, "-m", "busy")]


def tidy():
    # The analyzer's bound is .clang-tidy's, or CLOISTER_ANALYZER_NODES; without a bound it would be 225000.
    bound = os.environ.get("CLOISTER_ANALYZER_NODES")
    option = "-extra-arg-before=-Xclang -extra-arg-before=-analyzer-config -extra-arg-before=-Xclang " \
             f"-extra-arg-before=max-nodes={bound}" if bound else ""
    files = "\\0".join(running.sources("c"))
    return [shell("", f"printf '%b' '{files}' | xargs -0 -n 4 -P {CPUS} clang-tidy -quiet -p build/release {option} && "
                      "echo 'clang-tidy is content'")]


def cppcheck():
    # memleak and resourceLeak know nothing of _cleanup_. legacyUninitvar, an older check than uninitvar, reports an array that
    # is filled in the same expression. cppcheck gets no system header except queue(3)'s, because it needs those macros.
    return [shell("", "queue=$(echo '#include <sys/queue.h>' | gcc -E - | sed -n 's/^# 1 \"\\(.*queue\\.h\\)\".*/\\1/p'); "
                      "cppcheck --quiet --enable=warning,portability --error-exitcode=1 --inline-suppr --std=c11 --suppress=memleak "
                      f"--suppress=resourceLeak --suppress=legacyUninitvar --include=$queue -j {CPUS} -D_GNU_SOURCE "
                      "-DCLOISTER_FILTER_KILL=0 -DCLOISTER_VERSION='\"\"' -DCLOISTER_LIBEXECDIR='\"\"' -DCLOISTER_EGRESS_SETS='\"\"' "
                      "-DCLOISTER_SBINDIR='\"\"' -I . client common egress gate examples json libcloister probe supervisor worker && "
                      "echo 'cppcheck is content'")]


def fuzz():
    return [shell("", "tests/fuzz/run", CLOISTER_FUZZ_SECONDS=os.environ.get("CLOISTER_FUZZ_SECONDS", "30"), CLOISTER_FUZZ_JOBS=str(CPUS))]


def units():
    """The unit tests with more random inputs (tests/lib/rounds.h), in both builds."""
    steps = [ctest("", "release"), ctest("asan", "asan")]
    for step in steps:
        step.environment["CLOISTER_DEEP"] = "1"
    return steps


# Percent of supervisor/'s lines that the unit tests run. Suites with whole processes test the same code, but not what peers and
# the kernel seldom do: a part that comes without units brings the number below this.
COVERAGE_FLOOR = 84


def coverage():
    return [shell("", "find build/coverage -name '*.gcda' -delete; "
                      f"ctest --preset coverage --parallel {CPUS} --output-on-failure && gcovr --root . --filter supervisor/ "
                      f"--object-directory build/coverage --fail-under-line {COVERAGE_FLOOR} --sort-percentage "
                      "--output build/coverage/lines.txt --print-summary")]


KILL = ("cloisterd", "cloister-spawner", "cloister-worker", "cloister-files", "cloister-unpack", "cloister-egress", "cloister-gate", "cloister",
        "cloisterctl", "without", "kill_at_syscall", "stand_in")
RELEASE, ASAN, BOTH = {"release": ()}, {"asan": ()}, {"release": (), "asan": ()}
WHOLE = PRODUCT + HARNESS
C = PRODUCT + ("examples", "tests")

SUITES = {
    "tidy": Suite(tidy, C + (".clang-tidy",), C, RELEASE),
    "cppcheck": Suite(cppcheck, C, C),
    "units": Suite(units, WHOLE + ("tests/unit",),
                   PRODUCT + ("tests/unit",), BOTH),
    "coverage": Suite(coverage, WHOLE + ("tests/unit",), ("supervisor", "tests/unit"), {"coverage": ("supervisor-tests",)}),
    "threads": Suite(lambda: [ctest("", "tsan")], WHOLE + ("tests/unit",), ("supervisor", "common"), {"tsan": ("thread-tests",)}),
    "fuzz": Suite(fuzz, PRODUCT + ("tests/fuzz",), ("json", "common", "worker", "egress", "gate", "client", "tests/fuzz"), {"fuzz": ("fuzzers",)}),
    "integration": Suite(beside(*INTEGRATION), WHOLE + INTEGRATION, PRODUCT + INTEGRATION, RELEASE),
    "security": Suite(beside(*SECURITY), WHOLE + SECURITY, PRODUCT + SECURITY, RELEASE),
    "once": Suite(one("tests/once", *DEEP), WHOLE + ("tests/once", "doc", "man", "packaging"), ("clients", "packaging", "man", "doc"), RELEASE),
    "integration-asan": Suite(one(*INTEGRATION, "-m", "not deep", preset="asan", workers=CPUS), WHOLE + INTEGRATION,
                              PRODUCT + INTEGRATION, BOTH),
    "security-asan": Suite(beside(*SECURITY, preset="asan", only="not busy"), WHOLE + SECURITY, PRODUCT + SECURITY, BOTH),
    "liars": Suite(one("tests/liars", preset="asan", CLOISTER_LIARS_SECONDS=os.environ.get("CLOISTER_LIARS_SECONDS", "300")),
                   WHOLE + ("tests/liars",), ("supervisor", "common", "json", "tests/liars"), ASAN),
    "system-mode": Suite(one(*SYSTEM, CLOISTER_MODE="system"), WHOLE + SYSTEM, ("worker", "supervisor/host", "supervisor/cell", "supervisor/workspace"), RELEASE),
    "level-full": Suite(one(*LEVEL, CLOISTER_DELEGATED="1"), WHOLE + LEVEL, ("worker", "supervisor/host", "common"), RELEASE),
    "level-landlock": Suite(one(*LEVEL, CLOISTER_WITHOUT="landlock"), WHOLE + LEVEL, ("worker", "supervisor/host", "common"), RELEASE),
    "level-layers": Suite(one(*LEVEL, CLOISTER_LAYERS="1"), WHOLE + LEVEL, ("worker", "supervisor/cell", "supervisor/workspace"), RELEASE),
    "level-kill": Suite(one(*LEVEL, *EGRESS, preset="kill"), WHOLE + LEVEL + EGRESS, ("worker", "egress", "supervisor/host"),
                        {"release": (), "kill": KILL}),
    "forks": Suite(one(*FORKS, CLOISTER_LAYERS="memory"), WHOLE + FORKS, ("worker/files", "worker/spawner", "supervisor/cell", "supervisor/workspace"), RELEASE),
    "forks-hostile": Suite(one(*HOSTILE_FORKS, CLOISTER_LAYERS="memory"), WHOLE + HOSTILE_FORKS,
                           ("worker/files", "worker/spawner", "supervisor/cell", "supervisor/workspace"), RELEASE),
    "clients": Suite(one("tests/clients", f"--ignore={DAY}"), WHOLE + ("tests/clients", "clients"),
                     ("client", "clients", "supervisor/agent", "libcloister", "gate"), RELEASE),
    "day": Suite(one(DAY), WHOLE + ("tests/clients",), ("client", "supervisor/agent", "gate"), RELEASE),
    "real": Suite(one("tests/real"), WHOLE + ("tests/real",), ("worker", "supervisor/call", "egress", "tests/real"), RELEASE),
    "packages": Suite(lambda: [shell("", "packaging/build-deb && exec /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/package",
                                     DEB_BUILD_OPTIONS="nocheck", CLOISTER_BUILD="release")],
                      PRODUCT + ("packaging", "man", "tests/package"), ("packaging", "man", "cmake", "CMakeLists.txt"), RELEASE),
    # Fetches the SDK and its packages.
    "e2b": Suite(one("tests/e2b"), WHOLE + ("gate", "tests/e2b"), ("gate/e2b",), RELEASE, rounds=False),
    "chaos": Suite(lambda: [shell("", "tests/chaos/run 300 1000 1000"), shell("sessions", "tests/chaos/run sessions 500 100")],
                   WHOLE + ("tests/chaos",), ("supervisor/journal", "supervisor/call", "supervisor/session", "supervisor/daemon"), RELEASE),
    "door-chaos": Suite(lambda: [shell("", "tests/chaos/run door 600 200")], WHOLE + ("gate", "tests/chaos"), ("gate",), RELEASE),
    "pace": Suite(one("tests/once", *INTEGRATION, *SECURITY, "-m", "not deep", CLOISTER_PACE="1"), WHOLE + INTEGRATION + SECURITY,
                  INTEGRATION + SECURITY + ("tests/once", "tests/lib"), RELEASE),
    "vm": Suite(lambda: [shell("", "tests/vm/run")], WHOLE + ("packaging", "tests/vm"), ("packaging/systemd", "supervisor/host", "worker/spawner",
                                                                                      "quota", "tests/vm"), rounds=False),
    "debian": Suite(lambda: [shell("", "tests/debian/run")], WHOLE + ("tests",), ("cmake", "CMakeLists.txt", "packaging/build-packages"),
                    rounds=False),
}


def git(*arguments):
    return subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True)


def content(suite):
    """Returns a hash of the content of all files that the suite depends on, committed or not."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *suite.depends, "tests/lib/deep.py").stdout
    sum_of = hashlib.sha256()
    for name in sorted(set(filter(None, listed.split("\0")))):
        path = ROOT / name
        if path.is_symlink():
            sum_of.update(f"{name}\0{os.readlink(path)}\0".encode())
        elif path.is_file():
            sum_of.update(f"{name}\0{path.stat().st_mode & 0o111:o}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return sum_of.hexdigest()[:16]


def results():
    """Returns the lines of the results file: (suite, content, result, date, commit, seconds, passed, failed)."""
    if not RESULTS.exists():
        return []
    return [tuple(line.split("\t")) for line in RESULTS.read_text().splitlines()]


def last_results():
    """Returns the newest result of each suite for each content: {(suite, content): line}."""
    return {line[:2]: line for line in results()}


def has_passed(name, known):
    return known.get((name, content(SUITES[name])), ("", "", ""))[2] == "passed"


def note(name, hashed, result, seconds, passed, failed):
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    commit = git("rev-parse", "--short=12", "HEAD").stdout.strip() + ("+" if git("status", "--porcelain").stdout else "")
    date = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    with open(RESULTS, "a", encoding="utf-8") as file:
        file.write("\t".join((name, hashed, result, date, commit, f"{seconds:.0f}", str(passed), str(failed))) + "\n")


def status():
    known, lines = last_results(), results()
    say(f"{'suite':18} {'for this tree':14} {'date':17} {'commit':14} {'seconds':>8} {'passed':>7} {'failed':>7}")
    for name, suite in SUITES.items():
        line = known.get((name, content(suite)))
        word = line[2] if line else "not run"
        line = line or next((old for old in reversed(lines) if old[0] == name), None)
        if not line:
            say(f"{name:18} {word}")
            continue
        say(f"{name:18} {word:14} {line[3]:17} {line[4]:14} {line[5]:>8} {line[6]:>7} {line[7]:>7}")
    return 0


def listing():
    for name, suite in SUITES.items():
        say(f"{name:18} {' '.join(suite.asked_by)}")
    return 0


def for_change(base):
    """Returns the suites that the change since @base asks for."""
    if not base:
        base = "origin/main" if git("rev-parse", "--verify", "--quiet", "origin/main").returncode == 0 else "HEAD"
        if base == "HEAD" and not git("status", "--porcelain").stdout:
            base = "HEAD~1"
    diff = git("diff", "--name-only", base)
    if diff.returncode != 0:
        running.fail(f"tests/deep: git knows no revision {base}")
    changed = diff.stdout.split("\n") + git("ls-files", "--others", "--exclude-standard").stdout.split("\n")
    changed = list(filter(None, changed))
    wanted = [name for name, suite in SUITES.items()
              if any(path == place or path.startswith(f"{place}/") for path in changed for place in suite.asked_by)]
    say(f"{len(changed)} changed files since {base} ask for: {' '.join(wanted) or 'no deep suite'}")
    return wanted


def run_suite(name):
    """Builds what the suite needs and runs it. Returns whether it passed, and notes that."""
    suite, hashed, began = SUITES[name], content(SUITES[name]), time.monotonic()
    done = []
    builds = [build(preset, *targets) for preset, targets in suite.presets.items()]
    running.run_beside(builds, 1, done.append)
    steps = suite.steps() if all(step.status == 0 for step in done) else []
    for number, step in enumerate(steps):
        step.name = f"deep {name}" + (f" {step.name or number + 1}" if number else "")
        step.seconds = BOUND
    running.run_beside(steps, 1, done.append)
    counts = [step.counts() for step in steps]
    passed, failed = sum(count[0] for count in counts), sum(count[1] for count in counts)
    good = bool(steps) and all(step.status == 0 for step in done)
    for step in done:
        for line in step.failures() if step.status != 0 else []:
            say(f"        {line}")
    note(name, hashed, "passed" if good else "FAILED", time.monotonic() - began, passed, failed)
    say(f"{'passed' if good else 'FAILED'}  {name}: {passed} passed, {failed} failed, {time.monotonic() - began:.0f} s")
    return good


def main(arguments):
    again = "--again" in arguments
    arguments = [argument for argument in arguments if argument != "--again"]
    if arguments[:1] == ["--status"]:
        return status()
    if arguments[:1] == ["--list"]:
        return listing()
    if arguments[:1] == ["--for-change"]:
        names = for_change(arguments[1] if len(arguments) > 1 else None)
    else:
        unknown = [name for name in arguments if name not in SUITES]
        if unknown:
            running.fail(f"tests/deep: there is no suite {unknown[0]}; the suites are {' '.join(SUITES)}")
        again = again or bool(arguments)
        names = arguments or [name for name, suite in SUITES.items() if suite.rounds]
    running.LOGS.mkdir(parents=True, exist_ok=True)
    running.interrupts()
    known, good = last_results(), True
    with running.memory_place():
        for name in names:
            if not again and has_passed(name, known):
                say(f"passed  {name}: before, for the same content")
                continue
            good &= run_suite(name)
    status()
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except running.Interrupted:
        sys.exit(130)
