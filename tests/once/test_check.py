# SPDX-License-Identifier: Apache-2.0
"""tests/run and tests/deep: which cases are deep, that the check gives no second chances, and what the runners make of closing
lines."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

import deep
import running

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import faults  # noqa: E402  (the folder is only now on the path)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITES = [path for folder in ("integration", "security", "once") for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
# A case that calls one of these has an answer that may depend on how busy the machine is.
CLOCKS = {("time", name) for name in ("monotonic", "monotonic_ns", "perf_counter", "process_time", "time", "time_ns", "sleep")}
CLOCKS |= {("procfs", "free_seconds"), ("procfs", "cpu_seconds")}


def calls(function):
    """Returns what the function calls, as (module or None, name)."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            yield None, node.func.id
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            yield node.func.value.id, node.func.attr


def is_deep(node):
    """Whether the decorators of a case, or a module's pytestmark, say that it is deep."""
    return "mark.deep(" in ast.unparse(node)


def timed_cases(source):
    """Yields the cases of a file that are not deep, and call a clock or sleep(), also by a function of their file."""
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    marks = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    if any(is_deep(mark) for mark in marks):
        return
    # A name for a mark, such as "slow = pytest.mark.deep(...)".
    named = {ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign) and is_deep(node)}
    for name, case in functions.items():
        decorators = case.decorator_list
        if not name.startswith("test_") or any(is_deep(mark) or ast.unparse(mark) in named for mark in decorators):
            continue
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            for call in calls(functions[current]):
                if call in CLOCKS:
                    yield f"{name} calls {'.'.join(call)}" + (f" in {current}" if current != name else "")
                elif call[0] is None and call[1] in functions and call[1] not in seen:
                    seen.add(call[1])
                    waiting.append(call[1])


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_a_case_of_the_check_reads_no_clock_and_sleeps_for_no_time(path):
    """It waits for an event (procfs.eventually), or is deep("busy")."""
    assert sorted(set(timed_cases(path.read_text()))) == []


@pytest.mark.parametrize("text,found", [
    ("import time\ndef test_a():\n    time.sleep(1)\n", ["test_a calls time.sleep"]),
    ("def f():\n    return time.monotonic()\ndef test_a():\n    f()\n", ["test_a calls time.monotonic in f"]),
    ("@pytest.mark.deep('busy')\ndef test_a():\n    time.sleep(1)\n", []),
    ("pytestmark = pytest.mark.deep('slow')\ndef test_a():\n    time.sleep(1)\n", []),
    ("slow = pytest.mark.deep('slow')\n@slow\ndef test_a():\n    time.sleep(1)\n", []),
    ("def f():\n    time.sleep(1)\ndef test_a():\n    g()\n", [])])
def test_the_rule_itself(text, found):
    assert list(timed_cases(text)) == found


def test_there_are_no_second_chances():
    """A case that fails once is a fault of the product or of the case."""
    for name in ("tests/run", "tests/deep", "tests/lib/check.py", "tests/lib/deep.py", "tests/lib/running.py", ".ci/run", "tests/debian/cross"):
        assert not re.search(r"until-pass|reruns|may_run_again|lastfailed|--lf\b", (ROOT / name).read_text()), name


def test_the_check_and_the_deep_suites_miss_no_case():
    """What the check leaves out by a mark is in the suite of the same folder, whose second step has the busy cases."""
    for folder, chosen in ("integration", ["deep and not busy", "busy"]), ("security", ["deep and not busy", "busy"]), ("once", ["deep"]):
        steps = deep.SUITES[folder].steps()
        assert all(f"tests/{folder}" in step.command for step in steps)
        assert [step.command[step.command.index("-m", 3) + 1] for step in steps] == chosen


@pytest.mark.parametrize("name", deep.SUITES)
def test_what_a_suite_depends_on_exists(name):
    suite = deep.SUITES[name]
    for path in suite.depends + suite.asked_by:
        assert (ROOT / path).exists(), path


def test_contributors_are_told_of_each_suite():
    """CONTRIBUTING has a row for each suite, with the folders whose change asks for it."""
    rows = dict(re.findall(r"^\| `([\w-]+)` \| [^|]* \| ([^|]*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M))
    for name, suite in deep.SUITES.items():
        told = "all of the product" if set(deep.PRODUCT) <= set(suite.asked_by) else None
        rest = [place for place in suite.asked_by if not told or place not in deep.PRODUCT]
        expected = ", ".join(filter(None, [told, *(f"`{place}`" for place in rest)]))
        assert rows.get(name) == expected, name


def test_the_content_of_a_suite_follows_its_files(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("worker", "doc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("one")
    monkeypatch.setattr(deep, "ROOT", tmp_path)
    suite = deep.Suite(list, ("worker",), ("worker",))
    first = deep.content(suite)
    (tmp_path / "doc" / "file").write_text("two")
    assert deep.content(suite) == first
    (tmp_path / "worker" / "file").write_text("two")
    assert deep.content(suite) != first
    (tmp_path / "worker" / "file").write_text("one")
    assert deep.content(suite) == first
    (tmp_path / "worker" / "new").write_text("")
    assert deep.content(suite) != first


def test_a_result_counts_for_the_content_that_it_was_made_with(tmp_path, monkeypatch):
    monkeypatch.setattr(deep, "RESULTS", tmp_path / "results")
    name = next(iter(deep.SUITES))
    hashed = deep.content(deep.SUITES[name])
    for content, result, expected in (("0" * 16, "passed", False), (hashed, "FAILED", False), (hashed, "passed", True),
                                      (hashed, "FAILED", False)):
        deep.note(name, content, result, 1.0, 2, 3)
        assert deep.has_passed(name, deep.last_results()) is expected


@pytest.mark.parametrize("text,counts", [
    ("12 passed, 1 skipped in 3.21s\n", (12, 0)),
    ("3 failed, 12 passed, 4 deselected, 2 errors in 61.20s (0:01:01)\n", (12, 5)),
    ("97% tests passed, 4 tests failed out of 180\n", (176, 4)),
    ("1 passed in 1.00s\n100% tests passed, 0 tests failed out of 2\n", (3, 0)),
    ("a case printed: 5 failed\n", (0, 0)), ("", (0, 0))])
def test_closing_lines(text, counts):
    assert running.counts_of(text) == counts


@pytest.mark.parametrize("script,passed,failed", [
    ("echo '2 passed in 0.1s'", 2, 0), ("echo '2 passed in 0.1s'; exit 1", 2, 1), ("exit 3", 0, 1), ("true", 1, 0),
    ("echo '1 failed, 2 passed in 0.1s'; exit 1", 2, 1)])
def test_a_step_that_fails_is_never_counted_as_passed(tmp_path, monkeypatch, script, passed, failed):
    monkeypatch.setattr(running, "LOGS", tmp_path)
    step = running.Step("one", ["sh", "-c", script])
    running.run_beside([step], 1)
    assert step.counts() == (passed, failed)


def test_a_step_is_ended_at_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LOGS", tmp_path)
    step = running.Step("one", ["sh", "-c", "echo $$; exec sleep 1000"], seconds=0.1)
    running.run_beside([step], 1)
    assert step.status != 0
    assert not pathlib.Path("/proc", step.log.read_text().split()[0]).exists()


def test_the_check_has_one_closing_line(tmp_path):
    """The last line that tests/run prints counts everything."""
    script = f"import check, pathlib, running; running.ROOT = running.LOGS = pathlib.Path({str(tmp_path)!r}); " \
             "step = running.Step('one', ['true'], status=1); step.log.write_text('5 passed, 1 failed in 1.00s'); " \
             "import sys; sys.exit(check.summary([step], ['a trace'], 1.0))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "tests" / "lib", capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "5 passed, 2 failed"


@pytest.mark.parametrize("name", faults.FAULTS)
def test_a_fault_can_still_be_put_in(name):
    """tests/faults/run replaces text that stands in the source exactly once."""
    path, old, new = faults.FAULTS[name]
    assert (ROOT / path).read_text().count(old) == 1 and old != new
