# SPDX-License-Identifier: Apache-2.0
"""Programs of others, run outside of a workspace, as the same user, and inside one."""

import os
import shutil
import subprocess
import types

import npm
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, INSTALLED, SYSTEM

PACKAGES = {"vite": "8.4.0", "next": "16.4.6", "react": "19.3.1", "react-dom": "19.3.1", "webpack": "5.113.0", "webpack-cli": "7.3.1",
            "webpack-dev-server": "5.2.7", "jest": "30.5.2", "playwright-core": "1.64.1"}
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
HANGS = 600  # seconds
FETCH = """
import sys, time, urllib.request
url, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
until = time.monotonic() + 120
while True:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode(errors="replace")
    except OSError as error:
        text, status = None, error
    if text is not None and wanted in text:
        print(answer.status, wanted or text.strip())
        break
    if time.monotonic() > until:
        sys.exit(f"{url} has not answered {wanted!r}: {text if text is not None else status}")
    time.sleep(0.1)
"""


@pytest.fixture(autouse=True)
def as_root_of_a_host():
    if INSTALLED or SYSTEM or not AM_ROOT:
        pytest.skip("compares with a user without a service, in a network namespace")


@pytest.fixture(scope="session")
def modules(area):
    """A directory with node_modules, which holds the projects of both sides, and the directory of a Node."""
    packages = npm.Packages(area.new_directory("web"), PACKAGES, least=20)
    return packages.path, os.path.dirname(shutil.which(packages.node))


def need(*programs):
    for program in programs:
        if not shutil.which(program, path=PATH):
            npm.unavailable(f"{program} is not installed")


def lay(directory, files, account):
    with acting_as(account.uid, account.gid):
        directory.mkdir(parents=True)
        for name, text in {**files, "fetch.py": FETCH}.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def variables(home, node=None, **more):
    """What both sides have. A HOME of a user outside is not one of a workspace."""
    return {"PATH": f"{node}:{PATH}" if node else PATH, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "NEXT_TELEMETRY_DISABLED": "1",
            "NO_COLOR": "1", **more}


def run_outside(account, directory, script, env, network=False):
    """In a network namespace of its own, where no port is taken, or with the host's network."""
    own = [] if network else ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    (directory / "run").write_text(script)
    done = subprocess.run([*own, *account.become(), "sh", "-eu", "run"], cwd=directory, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", timeout=HANGS, check=False)
    return types.SimpleNamespace(status=done.returncode, said=done.stdout.replace(str(directory), "HERE"), complaints=done.stderr[-4000:])


def run_inside(client, directory, script, env):
    (directory / "run").write_text(script)
    observation = client.observe("run_command", {"command": f"cd {directory} && exec sh -eu run", "timeout_ms": HANGS * 1000}, {"env": env},
                                 timeout=HANGS + 30)
    output = observation["output"] or {}
    complaints = f"{output.get('stderr', '')[-4000:]} {observation['error']} {observation.get('notes')} {observation.get('network')}"
    return types.SimpleNamespace(status=output.get("exit_code"), said=output.get("stdout", "").replace(str(directory), "HERE"),
                                 complaints=complaints)


@pytest.fixture
def both(area, request):
    """both(scripts, files, modules): runs the scripts on each side, a call each, in a project of its own with these files. The status
    and what they print are the same. Returns what they print. @unless: if it fails outside, the test is skipped with this reason."""
    def compare(scripts, files=None, modules=None, daemon=None, network=False, unless=None, **more):
        place, node = modules or (area.new_directory(), None)
        more["MODULES"] = str(place / "node_modules")
        daemon = daemon or request.getfixturevalue("daemon")
        number = len(list(place.iterdir()))
        outside, inside = place / f"outside{number}" / "app", place / f"inside{number}" / "app"
        for side in (outside, inside):
            lay(side, files or {}, area.account)
        home, said = area.new_directory("home"), ""
        with daemon.connect() as client:
            client.call("workspace.open", {"root": str(place)})
            for script in [scripts] if isinstance(scripts, str) else scripts:
                expected = run_outside(area.account, outside, script, variables(home, node, **more), network)
                if unless and expected.status != 0:
                    pytest.skip(f"{unless}: {expected.complaints[-500:]}")
                assert expected.status == 0, f"outside: {expected}"
                found = run_inside(client, inside, script, variables("/tmp", node, **more))
                assert (found.status, found.said) == (expected.status, expected.said), f"inside: {found}\noutside: {expected}"
                said += found.said
        return said
    return compare
