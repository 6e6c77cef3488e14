# SPDX-License-Identifier: Apache-2.0
"""Attacks on templates in memory: by a fork's commands, by its worker that was taken over, by a sibling, by another tenant,
and by a cloisterd that was taken over. The template and the other forks stay as they were."""

import ctypes
import errno
import os
import re

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import system_config
from layers import in_state, opened, refused
from namespaces import MS_REMOUNT, in_namespaces, libc, mount

RELEASE = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root for system mode and to enter namespaces"),
              pytest.mark.skipif(RELEASE < (6, 6), reason="a tmpfs with mapped ids and attributes needs Linux 6.6")]

SECRET = "not for others"
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK, MOUNT_SETATTR = 428, 429, 430, 431, 432, 433, 442
AT_FDCWD, CLONE, EMPTY_PATH, IDMAP, RECONFIGURE = -100, 1, 0x1000, 0x100000, 7
CAP_SYS_ADMIN = 1 << 21


@pytest.fixture
def daemon(start_daemon, area):
    return start_daemon(config=system_config(area, "template_memory = 64M"), system=True)


def forks(daemon, count):
    client = opened(daemon, "w")
    client.run("echo template > f; mkdir d; echo x > d/x; printf '#!/bin/sh\necho ran\n' > run; chmod 755 run; ln f g")
    client.call("workspace.freeze", {"template": "t"})
    answer = client.call("workspace.fork", {"from": "t", "count": count})
    assert answer["forked_by"] == "memory"
    client.call("workspace.remove", {"workspace": "w"})
    return answer["workspaces"]


def holder_of(daemon):
    with acting_as(os.getuid()):
        (pid,) = [pid for pid in procfs.children(daemon.spawner()) if procfs.name(pid) == "cloister-memory"]
    return pid


def unchanged(daemon, name):
    """That a fork that was not attacked shows the template as it was made."""
    with opened(daemon, name) as client:
        said = client.run("cat f g d/x; ./run; stat -c '%a %u' f run; ls -A")
    assert said["stdout"].split() == ["template", "template", "x", "ran", "644", "1000", "755", "1000", "d", "f", "g", "run"], said


ATTACK = r"""
import ctypes, errno, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(act):
    try:
        act()
    except (OSError, ValueError) as error:
        return getattr(error, "errno", 0)
fd = os.open("f", os.O_RDONLY)
run = os.open("run", os.O_PATH)
def write_again(): os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_TRUNC), b"forged\n")
def write_path(): os.write(os.open(f"/proc/self/fd/{run}", os.O_WRONLY | os.O_TRUNC), b"#!/bin/sh\necho forged\n")
def map_shared(): mmap.mmap(fd, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
def write_fd(): os.write(fd, b"x")
handle = ctypes.create_string_buffer(b"\x80\0\0\0" + b"\0" * 200)
before = os.pread(fd, 100, 0)
print(tried(map_shared), tried(write_fd), libc.name_to_handle_at(-100, b"f", handle, ctypes.byref(ctypes.c_int()), 0))
print(tried(write_again), tried(write_path))
for path in ("d", "d/x", "g", "."):
    for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy", "user.overlay.origin", "user.x"):
        tried(lambda: os.setxattr(path, name, b"y"))
tried(lambda: os.chmod("g", 0o4777)); tried(lambda: os.utime("d/x", (0, 0))); tried(lambda: os.rename("d", "e"))
os.chmod("d", 0); os.unlink("g"); os.link("run", "l")
print(os.pread(fd, 100, 0) in (before, b"forged\n"))
"""


def test_what_commands_do_stays_in_their_fork(daemon):
    first, second = forks(daemon, 2)
    with opened(daemon, first) as client:
        client.use("write_file", path="attack.py", content=ATTACK)
        said = client.run("python3 attack.py")
        assert said["exit_code"] == 0, said
        shared, written, handle, again, path = said["stdout"].split()[:5]
        # What was open for reading stays so; the two names in /proc are the fork's own file, which gets a copy.
        assert (shared, written, handle) == (str(errno.EACCES), str(errno.EBADF), "-1") and again == path == "None"
        assert client.run("cat f; ./run")["stdout"] == "forged\nforged\n"
    unchanged(daemon, second)


def test_a_worker_that_was_taken_over(daemon):
    """In its namespaces, with all capabilities there."""
    first, second = forks(daemon, 2)
    client = opened(daemon, first)
    client.run("true")
    worker = daemon.only("cloister-worker")

    def syscall(*words):
        ctypes.set_errno(0)
        r = libc.syscall(*(ctypes.c_long(word) if isinstance(word, int) else word for word in words))
        return r if r >= 0 else -ctypes.get_errno()

    def map_ids(namespace):
        tree = syscall(OPEN_TREE, AT_FDCWD, b"/workspace", CLONE)
        attributes = (ctypes.c_uint64 * 4)(IDMAP, 0, 0, namespace)
        return tree, syscall(MOUNT_SETATTR, tree, b"", EMPTY_PATH, attributes, 32)

    def attack(own):
        said = {"remount": [mount(b"none", b"/workspace", b"overlay", MS_REMOUNT, option)
                            for option in (b"lowerdir=/usr", b"upperdir=/tmp,workdir=/tmp", b"")]}
        picked = syscall(FSPICK, AT_FDCWD, b"/workspace", 0)
        said["pick"] = syscall(FSCONFIG, picked, RECONFIGURE, None, None, 0) if picked >= 0 else picked
        said["map"] = map_ids(os.open("ns/user", os.O_RDONLY, dir_fd=own))
        mounts = open("/proc/1/mountinfo").read().splitlines()
        said["mounts"] = [line for line in mounts if "/workspace" in line.split()[4]]
        said["found"] = [os.path.exists(path) for path in ("/t", "/b", "/l", "/o")]
        said["own"] = -ctypes.get_errno() if libc.unshare(0x10000000) < 0 else 0
        return said

    said = in_namespaces(worker, attack)
    assert isinstance(said, dict), said
    assert set(said["remount"]) == {errno.EPERM} and said["pick"] == -errno.EPERM
    tree, mapped = said["map"]
    assert tree >= 0 and mapped in (-errno.EPERM, -errno.EINVAL), said  # no overlay can be mapped
    assert said["own"] == -errno.ENOSPC  # no user namespace of its own
    assert said["found"] == [False] * 4 and all(" - overlay " in line for line in said["mounts"]), said
    unchanged(daemon, second)


def test_siblings_have_ids_of_their_own(daemon):
    names = forks(daemon, 3)
    for name in names:
        with opened(daemon, name) as client:
            client.run(f"umask 0; echo {SECRET} > secret; echo {SECRET} > f")
            assert client.run("stat -c '%u %g' f d/x secret")["stdout"].split() == ["1000"] * 6
    with acting_as(os.getuid()):
        owners = [{path.lstat().st_uid for path in in_state(daemon, name)} |
                  {path.lstat().st_uid for path in in_state(daemon, f".layers-{name}/1-0/u/*")} for name in names]
        template = {path.lstat().st_uid for path in in_state(daemon, "templates/*/t/*")}
    assert all(len(owner) == 1 for owner in owners) and len(set.union(*owners)) == 3
    assert template == {daemon.account.uid}


def test_the_holder_has_the_template_alone(daemon):
    forks(daemon, 1)
    holder = holder_of(daemon)
    with acting_as(os.getuid()):
        status = procfs.status(holder)
        mounts = [line.split() for line in open(f"/proc/{holder}/mountinfo")]
        maps = [open(f"/proc/{holder}/{name}_map").read().split() for name in ("uid", "gid")]
        descriptors = os.listdir(f"/proc/{holder}/fd")
        found = sorted(os.listdir(f"/proc/{holder}/root"))
        changes = []
        for act in (lambda: os.open(f"/proc/{holder}/root/f", os.O_WRONLY), lambda: os.unlink(f"/proc/{holder}/root/f"),
                    lambda: os.setxattr(f"/proc/{holder}/root/f", "user.x", b""), lambda: os.chmod(f"/proc/{holder}/root/d", 0)):
            with pytest.raises(OSError) as caught:
                act()
            changes.append(caught.value.errno)
    assert [line[4] for line in mounts] == ["/"] and found == ["d", "f", "g", "run"]
    # Not even the host's root writes there: the file system itself cannot be written.
    assert changes == [errno.EROFS] * 4
    assert {int(status[name].split()[0], 16) for name in ("CapEff", "CapPrm")} == {CAP_SYS_ADMIN}
    assert status["NoNewPrivs"].split() == ["1"] and status["Seccomp"].split() == ["2"]
    assert maps == [["1000", str(daemon.account.uid), "1"], ["1000", str(daemon.account.gid), "1"]]
    assert status["Uid"].split() == [str(daemon.account.uid)] * 4
    # The socket, and the mount that it clones; a sanitizer keeps the first three.
    assert len([fd for fd in descriptors if int(fd) > 2]) <= 2


def test_a_template_of_another_tenant(start_daemon, tenants):
    lines = ["[cloister]", "agent_socket_mode = 0666", "mode = system", "template_memory = 64M"]
    for name, account in zip(("one", "two"), tenants):
        lines += [f"[tenant {name}]", f"users = {account.name}", "managed = yes", "template_memory = 8M"]
    daemon = start_daemon(config="\n".join([*lines, ""]), system=True)
    account, other = tenants[:2]
    ours, theirs = opened(daemon, "w", account), opened(daemon, "w", other)
    ours.run(f"echo {SECRET} > f")
    ours.call("workspace.freeze", {"template": "t"})
    assert ours.call("workspace.fork", {"from": "t"})["forked_by"] == "memory"
    for name in ("t", "one", "../one/t", "one/t"):
        with pytest.raises(RpcError):
            theirs.call("workspace.fork", {"from": name})
    theirs.run("echo theirs > f")
    theirs.call("workspace.freeze", {"template": "t"})  # a name of its own
    assert theirs.call("workspace.fork", {"from": "t"})["forked_by"] == "memory"
    for whose, content in ((other, "theirs\n"), (account, f"{SECRET}\n")):
        with opened(daemon, "t-1", whose) as one:
            assert one.run("cat f")["stdout"] == content
    # What one tenant may have in memory is its own: the other cannot use it up.
    theirs.run("head -c 7M /dev/zero > big")
    theirs.call("workspace.freeze", {"template": "u"})
    theirs.call("workspace.freeze", {"template": "v"})
    assert theirs.call("workspace.fork", {"from": "u"})["forked_by"] == "memory"
    with opened(daemon, "u-1", other):
        assert "in use" in theirs.call("workspace.fork", {"from": "v"})["why_copied"]
        ours.call("workspace.freeze", {"template": "x"})
        assert ours.call("workspace.fork", {"from": "x"})["forked_by"] == "memory"
    refused(theirs, "workspace.fork", {"from": "t", "tenant": "one"}, "FORBIDDEN")


def test_a_tenant_leaves_memory_for_the_forks_of_another(start_daemon, tenants):
    """Forks that are open keep their templates in memory. Each tenant alone may have all of it."""
    lines = ["[cloister]", "agent_socket_mode = 0666", "mode = system", "template_memory = 24M"]
    for name, account in zip(("one", "two"), tenants):
        lines += [f"[tenant {name}]", f"users = {account.name}", "managed = yes"]
    daemon = start_daemon(config="\n".join([*lines, ""]), system=True)
    account, other = tenants[:2]
    greedy, taken, held = opened(daemon, "w", account), 0, []
    for size in (5, 1):
        greedy.run(f"head -c {size}M /dev/urandom > big")
        for n in range(24):
            greedy.call("workspace.freeze", {"template": f"t{size}.{n}"})
            answer = greedy.call("workspace.fork", {"from": f"t{size}.{n}"})
            if answer["forked_by"] != "memory":
                break
            held.append(opened(daemon, answer["workspaces"][0], account))
            taken += size
    theirs = opened(daemon, "w", other)
    theirs.run("head -c 3M /dev/urandom > big")
    theirs.call("workspace.freeze", {"template": "t"})
    assert theirs.call("workspace.fork", {"from": "t"})["forked_by"] == "memory", taken
    with opened(daemon, "t-1", other) as one:
        assert one.run("wc -c < big")["stdout"] == f"{3 << 20}\n"
    assert 5 <= taken < 12, taken


def test_forged_attributes_of_a_template(daemon):
    """What stands for a deleted or redirected name in a lower layer is no such thing in a template."""
    with acting_as(os.getuid()):
        (daemon.state / "workspaces" / "secret").write_text(SECRET)
    client = opened(daemon, "w")
    client.run("mkdir d e; echo x > d/x; echo y > e/y; mknod d/w c 0 0; echo z > z")
    with acting_as(os.getuid()):
        (top,) = in_state(daemon, "workspaces/*/w")
        for path in ("d", "d/x", "z"):
            for name, value in (("redirect", b"/.."), ("opaque", b"x"), ("metacopy", b""), ("whiteout", b"y")):
                os.setxattr(top / path, f"user.overlay.{name}", value)
    client.call("workspace.freeze", {"template": "t"})
    answer = client.call("workspace.fork", {"from": "t"})
    assert answer["forked_by"] == "memory"
    with opened(daemon, answer["workspaces"][0]) as one:
        said = one.run("find . | sort; cat d/x e/y z; grep -r not . ; mv d/x q; cat q")
        assert said["stdout"].split() == [".", "./d", "./d/x", "./e", "./e/y", "./z", "x", "y", "z", "x"], said
