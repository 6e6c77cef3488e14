# SPDX-License-Identifier: Apache-2.0
"""Temporary changes of kernel settings that hold for the whole machine."""

import contextlib
import fcntl
import os
import pathlib


@contextlib.contextmanager
def setting(name, value):
    """Sets /proc/sys/NAME for a while, or raises OSError. A lock makes other runs of the tests wait: of two that
    overlapped, each would restore the other's value."""
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
