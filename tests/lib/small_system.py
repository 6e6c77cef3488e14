# SPDX-License-Identifier: Apache-2.0
"""A root file system with a shell and nothing else, for workspaces of the kind rootfs."""

import shutil
import subprocess


def small_system(root, directories=("bin", "proc", "dev", "tmp", "etc", "run", "sys")):
    """Makes the smallest system in the directory that a shell needs."""
    for directory in directories:
        (root / directory).mkdir(parents=True)
    for program in ("sh",):
        shutil.copy(f"/bin/{program}", root / "bin")
    listed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True).stdout
    for word in listed.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
