# SPDX-License-Identifier: Apache-2.0
"""Attacks on the layers of a workspace with checkpoints: by its files, by a worker that was taken over, and by a
cloisterd that was, which can rename directories in its state."""

import errno
import os
import re
import shutil
import signal
import subprocess

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import SYSTEM
from killer import Holder
from layers import in_state, opened
from namespaces import MS_REMOUNT, in_namespaces, mount

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory and namespaces")

CAP_DAC_READ_SEARCH = 1 << 2
FOLD = 16  # LIMIT_LAYERS_FOLD
SECRET = "not for workspaces"
FORGE = r"""
import os
for name in ("redirect", "opaque", "metacopy", "origin", "impure", "upper", "whiteout", "protattr"):
    for path in ("d", "f"):
        for value in (b"/..", b"../../secret", b"y", b"x", b"\0" * 30):
            try:
                os.setxattr(path, "user.overlay." + name, value)
                break
            except OSError:
                pass
"""


def of(daemon, name):
    """The directory of the workspace's layers."""
    with acting_as(os.getuid()):
        (path,) = (daemon.state / "workspaces").rglob(f".layers-{name}")
    return path


def test_forged_attributes_and_whiteouts(own_daemon):
    with acting_as(os.getuid()):
        (own_daemon.state / "workspaces" / "secret").write_text(SECRET)
    client = opened(own_daemon, "w")
    client.use("write_file", path="forge.py", content=FORGE)
    client.run("mkdir d; echo inside > d/x; echo inside > f; echo kept > kept; mknod hidden c 0 0; "
               "ln -s ../secret link; mkdir e; echo x > e/.wh.kept; python3 forge.py")
    client.call("workspace.checkpoint", {})
    # In what was made before the first checkpoint, such names count for nothing outside what they are in.
    client.run("python3 forge.py; mknod hidden2 c 0 0; mkdir e/n; cp -a d d2")
    client.call("workspace.checkpoint", {})
    seen = client.run("cat f d/* d/.. link d2/* e/.wh.kept kept; find . | head -100; mount")["stdout"]
    assert SECRET not in seen and "kept\n" in seen
    for path in ("d", "f", "d/x", "link", "d/secret", "d/../secret"):
        assert SECRET not in str(client.observe("read_file", {"path": path}))
    # Through an overlay a workspace makes no device that stands for a deleted file.
    assert client.run("mknod new c 0 0")["exit_code"] != 0
    client.call("workspace.rollback", {"to": 1})
    assert client.run("cat kept")["stdout"] == "kept\n"
    assert client.run("ls hidden2")["exit_code"] != 0


def test_what_shows_in_the_upper_layer_is_the_workspaces_own(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo x > a")
    client.call("workspace.checkpoint", {})
    client.run("rm a; touch b; chmod 4755 b; mkdir c")
    layers = of(own_daemon, "w")
    with acting_as(os.getuid()):
        upper = layers / "1-0" / "u"
        owner = upper.stat().st_uid
        assert {path.lstat().st_uid for path in upper.rglob("*")} == {owner}
        assert layers.stat().st_uid == own_daemon.account.uid
        assert (upper / "b").stat().st_mode & 0o6000 == 0
        if SYSTEM:
            assert owner not in (own_daemon.account.uid, 0)


def test_a_worker_that_was_taken_over(own_daemon):
    """It may be in its namespaces with CAP_SYS_ADMIN, but not in those of the overlay mounter. Its filter would refuse most of this
    already, and is not in force here."""
    client = opened(own_daemon, "w")
    client.run("echo frozen > file")
    client.call("workspace.checkpoint", {})
    client.run("echo new > file")
    worker = own_daemon.only("cloister-worker")
    options = (b"lowerdir=/usr", b"upperdir=/tmp,workdir=/tmp", b"redirect_dir=on", b"metacopy=on", b"")

    def attack(_):
        seen = open("/workspace/file").read()
        errors = [mount(b"none", b"/workspace", b"overlay", MS_REMOUNT, option) for option in options]
        errors.append(mount(b"none", b"/workspace", b"tmpfs", 0, None))  # a mount of its own, which it may make
        mounts = open("/proc/1/mountinfo").read()
        return seen, errors, mounts, [os.path.exists(path) for path in ("/l", "/b", "/o")]

    said = in_namespaces(worker, attack)
    assert len(said) == 4, said
    seen, errors, mounts, found = said
    assert seen == "new\n"
    assert errors == [errno.EPERM] * len(options) + [0]
    # The directories of the layers are not mounted where it can reach them.
    assert " /workspace " in mounts and found == [False] * 3
    assert not [line for line in mounts.splitlines() if ".layers-" in line.split(" - ")[0]]
    # It deceives its own commands, and not the files process.
    assert client.use("read_file", path="file", options={"line_numbers": False})["content"] == "new\n"
    client.call("workspace.rollback", {"to": 1})
    assert client.run("cat file")["stdout"] == "frozen\n"


def refusal_of(daemon, name):
    with daemon.connect() as client, pytest.raises(RpcError) as caught:
        client.call("workspace.open", {"workspace": name})
    return str(caught.value)


@pytest.mark.skipif(not SYSTEM, reason="in user mode all workspaces have one id")
def test_a_layer_of_another_id(own_daemon):
    ours, theirs = opened(own_daemon, "ours"), opened(own_daemon, "theirs")
    for client in (ours, theirs):
        client.run("echo one > file")
        client.call("workspace.checkpoint", {})
        client.run(f"echo {SECRET} > secret")
        client.call("workspace.checkpoint", {})
        client.call("workspace.close", {})
    with acting_as(os.getuid()):
        for layer in ("1-0", "2-1"):
            shutil.rmtree(of(own_daemon, "ours") / layer)
            shutil.copytree(of(own_daemon, "theirs") / layer, of(own_daemon, "ours") / layer, symlinks=True)
            subprocess.run(["cp", "-a", "--remove-destination", f"{of(own_daemon, 'theirs') / layer}/.",
                            f"{of(own_daemon, 'ours') / layer}"], check=True)
    assert "does not belong to the workspace's id" in refusal_of(own_daemon, "ours")


def test_a_layer_that_is_a_link(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo one > file")
    client.call("workspace.checkpoint", {})
    client.call("workspace.close", {})
    with acting_as(os.getuid()):
        upper = of(own_daemon, "w") / "1-0" / "u"
        upper.rename(upper.parent / "v")
        upper.symlink_to("/")
    assert "does not belong" in refusal_of(own_daemon, "w")
    with acting_as(os.getuid()):
        upper.unlink()
        (upper.parent / "v").rename(upper)
        upper.parent.rename(upper.parent.parent / "aside")
        upper.parent.symlink_to(upper.parent.parent / "aside")
    assert refusal_of(own_daemon, "w")


def test_a_damaged_record(own_daemon, start_daemon):
    client = opened(own_daemon, "w")
    client.call("workspace.checkpoint", {})
    own_daemon.stop()
    with acting_as(os.getuid()):
        (of(own_daemon, "w") / "at-9").mkdir()
    again = start_daemon(state=own_daemon.state)
    assert "is damaged" in refusal_of(again, "w")
    with acting_as(os.getuid()):
        (of(again, "w") / "at-9").rmdir()
    opened(again, "w")


def test_the_merger_sees_the_layers_alone(own_daemon):
    client = opened(own_daemon, "w")
    merger = Holder(own_daemon.spawner(), "cloister-merge", "linkat")
    for number in range(FOLD):
        client.run(f"mkdir many{number} && cd many{number} && seq 400 | xargs touch" if number == 1 else f"echo {number} > x")
        client.call("workspace.checkpoint", {})
    with acting_as(os.getuid()):
        pid = merger.held()
        status = procfs.status(pid)
        mounts = [line.split()[4] for line in open(f"/proc/{pid}/mountinfo")]
        root = os.listdir(f"/proc/{pid}/root")
        assert re.search("^Max cpu time +60 ", open(f"/proc/{pid}/limits").read(), re.MULTILINE)
        owner = max(of(own_daemon, "w").glob("[0-9]*-[0-9]*/u")).stat().st_uid
        os.kill(pid, signal.SIGCONT)
    assert sorted(mounts) == ["/", "/l"] and root == ["l"]
    assert int(status["CapEff"].split()[0], 16) == int(status["CapPrm"].split()[0], 16) == CAP_DAC_READ_SEARCH
    assert status["NoNewPrivs"].split() == ["1"] and status["Seccomp"].split() == ["2"]
    assert status["Uid"].split() == [str(owner)] * 4


def test_a_fold_of_what_was_forged(own_daemon):
    """Forged attributes and devices below the first checkpoint; links, modes and names above it. What is folded shows the
    same, and nothing from outside."""
    with acting_as(os.getuid()):
        (own_daemon.state / "workspaces" / "secret").write_text(SECRET)
    client = opened(own_daemon, "w")
    client.use("write_file", path="forge.py", content=FORGE)
    client.run("mkdir d; echo inside > d/x; echo inside > f; mknod hidden c 0 0; python3 forge.py")
    client.call("workspace.checkpoint", {})
    client.run("python3 forge.py; ln -s ../../../secret l; ln -s ../../../../workspaces d/l; mkdir -m 000 closed; "
               "mkdir -p d/sub; ln -s /.. d/sub/up; mkfifo fifo; chmod 000 f; mkdir e; echo x > e/y; chmod 500 e; "
               "printf 'x' > \"$(printf 'a\\nb\\377')\"")
    client.call("workspace.checkpoint", {})
    client.run("rm -rf d; mkdir d; ln -s ../../../secret d/x; ln f d/f; python3 forge.py; true")
    shown = client.run("find . -printf '%p %y %m %l\\n' | sort")["stdout"]
    for _ in range(FOLD + 4):
        client.call("workspace.checkpoint", {})
        assert (len(client.call("workspace.checkpoints", {})["checkpoints"]) < FOLD or
                procfs.eventually(lambda: in_state(own_daemon, "folded-*")))
    assert len(client.call("workspace.checkpoints", {})["checkpoints"]) <= FOLD + 1
    assert client.run("find . -printf '%p %y %m %l\\n' | sort")["stdout"] == shown
    assert SECRET not in client.run("cat l d/x d/* f; find -L . -type f -exec cat {} +")["stdout"]
    with acting_as(os.getuid()):
        layers = of(own_daemon, "w")
        for path in layers.rglob("*"):
            attributes = [] if path.is_symlink() else os.listxattr(path)
            assert "user.overlay.redirect" not in attributes and "user.overlay.metacopy" not in attributes, path
        assert not [path for path in layers.rglob("*") if path.is_file() and not path.is_symlink() and SECRET in path.read_text(errors="replace")]
