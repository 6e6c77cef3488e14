# SPDX-License-Identifier: Apache-2.0
"""A root file system with a shell and nothing else, for workspaces of the kind rootfs."""

import glob
import os
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


def add_files(root, *paths):
    """Adds files of this machine, with the libraries that they are linked with."""
    for path in paths:
        listed = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for each in (path, *(word for word in listed.split() if word.startswith("/"))):
            target = root / each[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(each, target)


def add_programs(root, *names):
    add_files(root, *(shutil.which(name, path="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") for name in names))


def add_trees(root, *paths):
    """Adds directories of this machine that there are."""
    for path in paths:
        if os.path.isdir(path):
            shutil.copytree(path, root / path[1:], symlinks=True, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("__pycache__", "test", "tests", "*-packages"))


def add_python(root):
    """Adds Python with its library."""
    add_programs(root, "python3")
    library = os.path.dirname(os.__file__)
    add_trees(root, library)
    add_files(root, *glob.glob(f"{library}/lib-dynload/_ctypes.*"))
