# SPDX-License-Identifier: Apache-2.0
"""Settings of the kernel that hold for the whole machine."""

import contextlib
import fcntl
import os
import pathlib


@contextlib.contextmanager
def setting(name, value):
    """/proc/sys/NAME has this value meanwhile, or OSError. Another run of the tests waits for its turn: two that overlap
    would take each other's value for the machine's."""
    path = pathlib.Path("/proc/sys") / name
    lock = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = path.read_text()
        try:
            path.write_text(str(value))
            yield
        finally:
            path.write_text(before)
    finally:
        os.close(lock)
