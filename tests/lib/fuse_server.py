# SPDX-License-Identifier: Apache-2.0
"""A FUSE file system whose server chooses the owner of each directory in it. Every name in its root is an empty
directory. It speaks the protocol of linux/fuse.h without a library. Root mounts it with allow_other, as fusermount3(1)
does for users where user_allow_other is set. fuse(4), mount(2)"""

import contextlib
import ctypes
import errno
import os
import signal
import struct
import subprocess

LOOKUP, FORGET, GETATTR, STATFS, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = (
    1, 2, 3, 17, 26, 27, 28, 29, 36, 38, 42)
HEADER = struct.Struct("=IIQQIIIHH")  # fuse_in_header
ATTRIBUTES = struct.Struct("=6Q10I")  # fuse_attr
ROOT = 1
OPEN_FLAGS = struct.pack("=QII", 0, 0, 0)  # fuse_open_out
STATFS_ANSWER = struct.pack("=5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0)


def attributes(node, owner):
    uid, gid = owner if node != ROOT else (0, 0)
    mode = 0o40755 if node == ROOT else 0o40700
    return ATTRIBUTES.pack(node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 2, uid, gid, 0, 4096, 0)


def serve(device, owner):
    """Answers requests until the file system is unmounted."""
    names = {}
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENOENT:  # the request was interrupted
                continue
            return
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        error, body = 0, b""
        if opcode == INIT:
            major, minor = struct.unpack_from("=II", request, HEADER.size)
            body = struct.pack("=IIIIHHIIHHI28x", 7, min(minor, 31), 1 << 16, 0, 16, 12, 1 << 16, 1, 16, 0, 0)
        elif opcode == LOOKUP:
            name = request[HEADER.size:].rstrip(b"\0")
            if node == ROOT:
                child = names.setdefault(name, len(names) + ROOT + 1)
                body = struct.pack("=QQQQII", child, 0, 0, 0, 0, 0) + attributes(child, owner)
            else:
                error = -errno.ENOENT
        elif opcode == GETATTR:
            body = struct.pack("=QII", 0, 0, 0) + attributes(node, owner)
        elif opcode == OPENDIR:
            body = OPEN_FLAGS
        elif opcode == STATFS:
            body = STATFS_ANSWER
        elif opcode not in (READDIR, RELEASEDIR, DESTROY):
            error = -errno.ENOSYS
        with contextlib.suppress(OSError):
            os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


@contextlib.contextmanager
def mounted(place, owner):
    """Mounts the file system at @place for all users. Its directories belong to @owner: (uid, gid). Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"cloister-test", os.fsencode(place), b"fuse", 2 | 4, options) < 0:  # nosuid, nodev
        raise OSError(ctypes.get_errno(), "mount")
    server = os.fork()
    if server == 0:
        try:
            serve(device, owner)
        finally:
            os._exit(0)
    os.close(device)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=False)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def reason_against():
    """Returns why this machine can have no FUSE file system, or None if it can."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    return None
