# SPDX-License-Identifier: Apache-2.0
"""usage: fuse_root.py DIRECTORY UID

Mounts a file system of one empty directory that belongs to UID, and prints "ready". The protocol is that of linux/fuse.h,
version 7.31."""

import ctypes
import errno
import os
import struct
import sys

GETATTR, STATFS, INIT, OPENDIR, RELEASEDIR = 3, 17, 26, 27, 29
HEADER = "IIQQIIII"  # length, opcode, unique, node, uid, gid, pid, padding


def attributes(uid):
    return struct.pack("QII", 0, 0, 0) + struct.pack("QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, uid, uid,
                                                     0, 4096, 0)


def main():
    directory, uid = sys.argv[1], int(sys.argv[2])
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40777,user_id={uid},group_id={uid},allow_other"
    if libc.mount(b"test", os.fsencode(directory), b"fuse", 0, options.encode()) < 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    print("ready", flush=True)
    answers = {GETATTR: attributes(uid), STATFS: bytes(80), OPENDIR: bytes(16), RELEASEDIR: b"",
               INIT: struct.pack("IIIIHHIIHHIIIIII", 7, 31, 4096, 0, 1, 1, 4096, 1, 1, 0, 0, 0, 0, 0, 0, 0)}
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _, opcode, unique, *_ = struct.unpack_from(HEADER, request)
        answer = answers.get(opcode)
        error = 0 if answer is not None else -errno.ENOSYS
        answer = answer or b""
        os.write(device, struct.pack("IiQ", 16 + len(answer), error, unique) + answer)


main()
