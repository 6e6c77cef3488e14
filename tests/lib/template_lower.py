# SPDX-License-Identifier: Apache-2.0
"""A template in memory as a fork has it below its own files: a tmpfs that is read-only, whose files one id owns, and which is shown
as another's by a mapped mount. worker/spawner/job/template_memory.h. Needs root and Linux 6.6."""

import ctypes
import os
import signal
import subprocess

libc = ctypes.CDLL(None, use_errno=True)
OWNER = 1000  # whose the files are in the tmpfs
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, CLONE, EMPTY_PATH, FROM_EMPTY_PATH = -100, 1, 0x1000, 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 1, 0x100000


def call(number, *words):
    """Makes the system call, and returns its result."""
    r = libc.syscall(number, *(ctypes.c_long(word) if isinstance(word, int) else word for word in words))
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r


def namespace(uid, gid):
    """A descriptor of a user namespace that maps the owner to these ids."""
    with subprocess.Popen(["unshare", "--user", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        try:
            for kind, one in (("uid", uid), ("gid", gid)):
                with open(f"/proc/{holder.pid}/{kind}_map", "w") as file:
                    file.write(f"{OWNER} {one} 1")
            return os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY)
        finally:
            holder.send_signal(signal.SIGKILL)


def mount(place, shown, uid, gid, names):
    """Mounts the template, with empty directories of these names in it, at @place, and shows it at @shown as that id's."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid,nodev,mode=0755,size=64m", "template", place], check=True)
    os.chown(place, OWNER, OWNER)
    for name in names:
        (place / name).mkdir()
        os.chown(place / name, OWNER, OWNER)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    tree, space = call(OPEN_TREE, AT_FDCWD, os.fsencode(place), CLONE | os.O_CLOEXEC), namespace(uid, gid)
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY | MOUNT_ATTR_IDMAP, 0, 0, space)
    call(MOUNT_SETATTR, tree, b"", EMPTY_PATH, attributes, ctypes.sizeof(attributes))
    call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(shown), FROM_EMPTY_PATH)
    for fd in (tree, space):
        os.close(fd)
