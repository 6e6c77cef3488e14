# SPDX-License-Identifier: Apache-2.0
"""packaging/give-ids, while a user holds every lock that a user can have."""

import os
import subprocess
import sys

import pytest
from daemon import ROOT

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root, and a mount namespace")

# With an /etc and a /run of its own. Prints what the user could lock, and how give-ids ended.
SCRIPT = """
import fcntl, os, pathlib, stat, subprocess, sys
give_ids, uid = sys.argv[1], 65534
def mount(*words):
    subprocess.run(["mount", *words], check=True)
mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
subprocess.run(["cp", "-a", "/etc/.", "/mnt"], check=True)
mount("--move", "/mnt", "/etc")
mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
for name in ("subuid", "subgid"):
    pathlib.Path("/etc", name).write_text("")
subprocess.run([give_ids, "nobody"], check=True, timeout=120)
for name in ("subuid", "subgid"):
    pathlib.Path("/etc", name).write_text("")
held = []
os.seteuid(uid)
for directory in ("/etc", "/run"):
    for name in ("", *os.listdir(directory)):
        path = os.path.join(directory, name)
        # Nothing else is there to open, and what is not a file or directory could hang.
        if not (os.path.isfile(path) or os.path.isdir(path)):
            continue
        try:
            fd = os.open(path, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        held.append(path)
os.seteuid(0)
print(len(held), "/etc" + "/" in held, [path for path in held if "give-ids" in path])
done = subprocess.run([give_ids, "nobody"], timeout=120)
print(done.returncode, pathlib.Path("/etc/subuid").read_text().count("nobody:"),
      oct(stat.S_IMODE(os.stat("/run/cloister-give-ids.lock").st_mode)))
"""


def test_no_user_holds_it_up():
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", sys.executable, "-c", SCRIPT, ROOT / "packaging/give-ids"],
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    held, ended = done.stdout.splitlines()
    assert int(held.split()[0]) > 10 and held.endswith("True []")
    assert ended == "0 1 0o600"
