# SPDX-License-Identifier: Apache-2.0
"""What tests/run and tests/deep share: builds, steps that run beside each other, a place in memory, and what was left behind."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "test-logs"
CPUS = os.cpu_count()
CLOSING_LINES = 12
MEMORY_LEAST_GIB = 8  # with less free memory, temporary files stay on the disk
SOURCES = ("client", "cmake", "common", "egress", "examples", "json", "libcloister", "probe", "quota", "supervisor", "worker", "tests")


class Interrupted(Exception):
    """SIGTERM or SIGINT has come."""


@dataclasses.dataclass
class Step:
    """One command of a run. Its output is in a log; its counts come from the closing line of its test runner."""
    name: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    seconds: float = None  # a bound; None: none
    status: int = None
    took: float = 0.0
    process: subprocess.Popen = None

    @property
    def log(self):
        return LOGS / f"{self.name.replace(' ', '-')}.log"

    def begin(self):
        self.took = time.monotonic()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def poll(self):
        """Returns whether the step has ended. One that is over its bound is ended."""
        status = self.process.poll()
        if status is None and self.seconds and time.monotonic() - self.took > self.seconds:
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(f"\nended after its bound of {self.seconds:.0f} s\n")
            status = self.end() or 1
        if status is None:
            return False
        self.took = time.monotonic() - self.took
        self.status = status
        return True

    def end(self):
        """Ends the step's processes: SIGTERM lets pytest run the ends of its fixtures."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def counts(self):
        """Returns how many cases passed and how many failed."""
        passed, failed = counts_of(self.log.read_text(errors="replace"))
        if passed + failed == 0:
            passed = int(self.status == 0)
        if self.status != 0 and failed == 0:
            failed = 1
        return passed, failed

    def failures(self):
        """Returns the lines of the log that name failed cases, or a compiler's messages."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line.strip() for line in lines
                if re.search(r"^(FAILED|ERROR) |^\s+\d+ - \w+ \(|[ :](error|warning): ", line)][:20]


def counts_of(text):
    """Returns how many cases the closing lines of pytest and ctest in @text say passed and failed."""
    passed = failed = 0
    for line in text.splitlines():
        if re.match(r"^=* ?\d+ (passed|failed|skipped|deselected|error)[^=]* in [\d.]+s", line):
            passed += sum(map(int, re.findall(r"(\d+) passed", line)))
            failed += sum(map(int, re.findall(r"(\d+) (?:failed|errors?)", line)))
        match = re.match(r"^\d+% tests passed, (\d+) tests failed out of (\d+)", line)
        if match:
            failed += int(match[1])
            passed += int(match[2]) - int(match[1])
    return passed, failed


def run_beside(steps, at_once, told=None):
    """Runs the steps, in their order, @at_once at a time. Calls @told with each that has ended."""
    waiting, running = list(steps), []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                running[-1].begin()
            for step in [step for step in running if step.poll()]:
                running.remove(step)
                tell(step)
                if told:
                    told(step)
            time.sleep(0.1)
    except BaseException:
        for step in running:
            step.end()
        raise


def tell(step):
    print(f"== {step.name}", flush=True)
    lines = step.log.read_text(errors="replace").splitlines()
    print("\n".join(lines[-CLOSING_LINES:]), flush=True)


def interrupts():
    """Makes SIGTERM and SIGINT raise Interrupted once."""
    def raise_it(number, frame):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise Interrupted
    signal.signal(signal.SIGTERM, raise_it)
    signal.signal(signal.SIGINT, raise_it)


def sources(ending):
    """Returns the C files with @ending, as paths below the root."""
    return sorted(str(path.relative_to(ROOT)) for folder in SOURCES for path in (ROOT / folder).rglob(f"*.{ending}"))


def build(preset, *targets):
    """Returns the commands that build @targets, or all, of @preset: with Ninja and, except for what is built like a package,
    the linker gold. They take a quarter less of the processor than make and ld. A tree that was set up with another
    generator keeps it."""
    environment = {}
    if "CMAKE_GENERATOR" not in os.environ and shutil.which("ninja"):
        environment["CMAKE_GENERATOR"] = "Ninja"
    if preset != "release" and shutil.which("ld.gold"):
        environment["LDFLAGS"] = f"{os.environ.get('LDFLAGS', '')} -fuse-ld=gold"
    wanted = f" --target {' '.join(targets)}" if targets else ""
    script = f"cmake --preset {preset} && cmake --build --preset {preset} --parallel {CPUS}{wanted}"
    return Step(f"build {preset}", ["sh", "-c", script], environment)


def pytest(name, preset, *arguments, workers=0, **environment):
    """Returns a step that runs pytest with the programs of @preset. Leak detection traces its own process, which confined and
    undumpable programs rightly do not allow."""
    shared = ["-n", str(workers), "--dist", "loadfile"] if workers else []
    return Step(name, ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *shared, *arguments],
                {"CLOISTER_BUILD": preset, "ASAN_OPTIONS": "detect_leaks=0", **environment})


def ctest(name, preset, *arguments, jobs=CPUS):
    return Step(name, ["ctest", "--preset", preset, "--parallel", str(jobs), "--output-on-failure", *arguments])


@contextlib.contextmanager
def memory_place():
    """Puts temporary files into a file system in memory, if root runs this and there is room. ext4(5) looks for an inode that
    was not deleted within the last minutes, and these tests delete so many files that the search takes half of their time."""
    free = re.search(r"^MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)
    if os.getuid() != 0 or int(free[1]) < MEMORY_LEAST_GIB << 20:
        yield None
        return
    place = tempfile.mkdtemp(prefix="ct.")
    before = os.environ.get("TMPDIR")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6g,mode=1777", "tmpfs", place]).returncode != 0:
        os.rmdir(place)
        yield None
        return
    os.environ["TMPDIR"] = place
    try:
        yield place
    finally:
        del os.environ["TMPDIR"]
        if before:
            os.environ["TMPDIR"] = before
        subprocess.run(["umount", "-l", place])
        os.rmdir(place)


def _lines(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


def traces():
    """Returns all that tests could leave on this host and in this checkout, each as a line."""
    found = set(re.findall(r"^cloister-test-[^:]*", "\n".join(_lines("getent", "passwd")), re.M))
    for line in _lines("ps", "-eo", "stat=,uid=,user:32=,pid=,comm="):
        state, uid, user, pid, command = line.split(None, 4)
        # Without zombies, which pid 1 of a container may not reap.
        if not state.startswith("Z") and (int(uid) >= 1_000_000_000 or user.startswith("cloister-test") or command.startswith("cloister")):
            found.add(f"{user} {pid} {command}")
    found |= set(re.findall(r" (/\S*cloister\S*)", pathlib.Path("/proc/self/mountinfo").read_text()))
    found |= set(_lines("find", "/sys/fs/cgroup", "-type", "d", "-name", "*cloister*"))
    found |= set(_lines("find", "/tmp", "/dev/shm", "-maxdepth", "1", "-name", "*cloister*"))
    found |= set(_lines("git", "-c", "safe.directory=*", "status", "--porcelain"))
    return found


def say(line):
    print(line, flush=True)


def fail(words):
    print(words, file=sys.stderr)
    raise SystemExit(2)
