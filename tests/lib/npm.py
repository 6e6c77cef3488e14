# SPDX-License-Identifier: Apache-2.0
"""Pinned packages of the npm registry for tests, installed once a run in a directory of their own."""

import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess

import pytest

from daemon import ROOT, environment

# Installed for tests that need a newer Node than the host has.
NODE = "24.9.0"
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


def unavailable(reason):
    """Skips the test on a developer's machine, and fails it in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def major(node):
    return int(subprocess.check_output([node, "--version"], text=True).lstrip("v").split(".")[0])


class Packages:
    """Installs @wanted (name: version) in a directory that all users may read, with a Node of at least version @least."""

    def __init__(self, path, wanted, least):
        self.path = path
        if not shutil.which("node") or not shutil.which("npm"):
            unavailable("nodejs and npm are not installed")
        self.node = shutil.which("node")
        if major(self.node) < least:
            machine = ARCHITECTURES.get(platform.machine(), platform.machine())
            wanted = {**wanted, f"node-linux-{machine}": NODE}
            self.node = str(path / "node_modules" / f"node-linux-{machine}" / "bin" / "node")
        (path / "package.json").write_text(json.dumps(
            {"private": True, "type": "module", "dependencies": wanted}))
        kept = os.environ.get("CLOISTER_NPM")  # a directory that keeps what was installed, for the next run
        if kept:
            kept = pathlib.Path(kept) / hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]
        if kept and kept.exists():
            subprocess.run(["cp", "-al", kept, path / "node_modules"], check=True)
            return
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
            cwd=path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            unavailable(f"npm cannot install {wanted}: {done.stderr[-500:]}")
        subprocess.run(["chmod", "-R", "a+rX", path], check=True)
        if kept:
            kept.parent.mkdir(exist_ok=True)
            subprocess.run(["cp", "-al", path / "node_modules", kept], check=True)

    def command(self, script, *words):
        """Returns the words that run a script of the tests. A copy of it lies beside the packages, so that it finds
        them."""
        copied = self.path / os.path.basename(script)
        shutil.copy(script, copied)
        return [self.node, str(copied), *map(str, words)]

    def run(self, account, home, script, *words, **keywords):
        """Runs the script as the user to its end."""
        env = {**environment(home), **keywords.pop("env", {})}
        return subprocess.run(
            self.command(script, *words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=300, check=False, cwd=self.path, env=env, **account.as_user(), **keywords)


def pack(path):
    """Builds and packs clients/typescript in the directory. Returns the package's file."""
    source = ROOT / "clients" / "typescript"
    wanted = json.loads((source / "package.json").read_text())["devDependencies"]
    packages = Packages(path, wanted, least=18)
    copy = shutil.copytree(source, path / "client", ignore=shutil.ignore_patterns("node_modules", "dist"))
    env = {**os.environ, "PATH": f"{os.path.dirname(packages.node)}:{os.environ['PATH']}"}
    done = subprocess.run(["npm", "pack", "--loglevel=error", "--pack-destination", path], cwd=copy, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (packed,) = path.glob("*.tgz")
    packed.chmod(0o644)
    return packed
