# SPDX-License-Identifier: Apache-2.0
"""Clients that others wrote, from the npm registry with pinned versions. They mostly wait, so all run at once, and the cases
judge what each has left."""

import concurrent.futures
import contextlib
import os
import platform
import shutil
import signal
import subprocess

import npm
import procfs
import pytest
from daemon import environment

MACHINE = npm.ARCHITECTURES.get(platform.machine(), platform.machine())
# What they are held to is what these versions do; newer ones are taken by hand, in client/cmd/cmd_harness.c too.
# Of a harness that is one program for each architecture, only that program.
HARNESSES = {
    f"@anthropic-ai/claude-code-linux-{MACHINE}": "2.1.330",
    f"@openai/codex-linux-{MACHINE}": f"npm:@openai/codex@0.169.0-linux-{MACHINE}",
    f"opencode-linux-{MACHINE}": "1.18.33",
    "@google/gemini-cli": "0.61.0",
    f"@cline/cli-linux-{MACHINE}": "3.0.65",
}
PROGRAMS = {
    "claude": f"@anthropic-ai/claude-code-linux-{MACHINE}/claude",
    "codex": f"@openai/codex-linux-{MACHINE}/vendor/{platform.machine()}-unknown-linux-musl/bin/codex",
    "opencode": f"opencode-linux-{MACHINE}/bin/opencode",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "cline": f"@cline/cli-linux-{MACHINE}/bin/cline",
}
HANGS = 400  # seconds


class Place:
    """A user's empty home, a workspace and a secret outside of it."""

    def __init__(self, area, programs):
        self.area = area
        self.home, self.workspace, outside = (area.new_directory(name) for name in ("home", "ws", "outside"))
        self.outside = outside
        self.secret = outside / "secret"
        # Some harnesses leave files where temporary ones go.
        self.env = {**environment(self.home), "TERM": "dumb", "TMPDIR": str(area.new_directory("tmp")),
                    "PATH": os.pathsep.join(map(str, [programs, area.bin, "/usr/bin", "/bin"]))}

    def write(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def give(self):
        """All that was written belongs to the user."""
        self.secret.write_text("it-is-secret\n")
        for path in (self.home, self.outside, self.workspace):
            subprocess.run(["chown", "-R", f"{self.area.account.uid}:{self.area.account.gid}", path], check=True)

    def run(self, *words, **keywords):
        return subprocess.run(
            list(map(str, words)), cwd=keywords.pop("cwd", self.home), env=self.env, capture_output=True, text=True,
            timeout=HANGS, check=False, **({} if "input" in keywords else {"stdin": subprocess.DEVNULL}),
            **self.area.account.as_user(), **keywords)

    def escaped(self):
        """The files that were made outside of the workspace."""
        return sorted(path.name for path in self.outside.iterdir() if path != self.secret)


@pytest.fixture(scope="session")
def programs(area):
    """A directory with the harnesses, and a Node that is new enough."""
    packages = npm.Packages(area.new_directory("harnesses"), HARNESSES, least=20)
    path = packages.path / "bin"
    path.mkdir()
    for name, program in PROGRAMS.items():
        (path / name).symlink_to(packages.path / "node_modules" / program)
    (path / "node").symlink_to(shutil.which(packages.node))
    path.chmod(0o755)
    yield path
    # Cline leaves a server of its own running, for the next command.
    for pid in area.account.processes():
        if procfs.command_line(pid).startswith(str(packages.path)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as made:
        yield made
