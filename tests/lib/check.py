# SPDX-License-Identifier: Apache-2.0
"""The check: what tests/run runs after it has installed packages. What takes long, repeats in another build or depends on how
busy the machine is, is in tests/deep."""

import os
import sys
import time

import running
from running import CPUS, LOGS, build, ctest, pytest, say

NOT_DEEP = ("-m", "not deep")
# pytest waits for processes for most of its time, so more of it runs than there are CPUs.
WORKERS = CPUS + 1


def formatted():
    return running.Step("format", ["sh", "-c", 'clang-format --dry-run -Werror "$@" && echo "every file is formatted"', "format",
                                   *running.sources("[ch]")])


def package():
    script = "packaging/build-deb && exec /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/package -m 'not deep'"
    return running.Step("package", ["sh", "-c", script], {"DEB_BUILD_OPTIONS": "nocheck", "CLOISTER_BUILD": "release"})


# Each step: what is built for it, and how it is run. The longest one comes first, and the others run beside it.
STEPS = {
    "suites": (("release",), lambda: pytest("suites", "release", "tests/integration", "tests/security", *NOT_DEEP, workers=WORKERS)),
    "unit": (("asan",), lambda: ctest("unit", "asan", "--label-exclude", "^deep$")),
    "once": (("release",), lambda: pytest("once", "release", "tests/once", *NOT_DEEP)),
    "package": (("release",), package),
    "format": ((), formatted),
}
# The asan preset is for the unit tests, the release preset for the other suites.
TARGETS = {"asan": ("unit-tests",), "release": ("suite-programs",)}
AT_ONCE = 2


def main(names):
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        running.fail(f"tests/run: there is no step {unknown[0]}; the steps are {' '.join(STEPS)}; tests/deep runs the rest")
    names = names or list(STEPS)
    began = time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    before = running.traces()
    done = []
    running.interrupts()
    with running.memory_place():
        presets = {preset for name in names for preset in STEPS[name][0]}
        running.run_beside([build(preset, *TARGETS[preset]) for preset in sorted(presets)], 1, done.append)
        if all(step.status == 0 for step in done):
            running.run_beside([STEPS[name][1]() for name in names], AT_ONCE, done.append)
    left = sorted(running.traces() - before) if os.environ.get("CI") == "true" else []
    return summary(done, left, time.monotonic() - began)


def summary(done, left, seconds):
    passed = failed = 0
    say(f"\n== summary: {seconds:.0f} s")
    for step in done:
        counts = step.counts()
        passed += counts[0]
        failed += counts[1]
        say(f"{'passed' if step.status == 0 else 'FAILED'}  {step.name}: {counts[0]} passed, {counts[1]} failed, {step.took:.0f} s"
            + ("" if step.status == 0 else f" (exit status {step.status}, whole output in {step.log.relative_to(running.ROOT)})"))
        for line in step.failures() if step.status != 0 else []:
            say(f"        {line}")
    # Only in CI, where no other run of these tests uses the host.
    if left:
        failed += 1
        say("FAILED  left behind:")
        say("\n".join(f"        {line}" for line in left))
    say(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except running.Interrupted:
        sys.exit(130)
