# SPDX-License-Identifier: Apache-2.0
"""Acts in the namespaces of another process, as one that was taken over could without its system call filter."""

import ctypes
import json
import os

from cloister_client import acting_as

MS_REMOUNT = 32

libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags, options):
    """Returns 0 or the errno."""
    r = libc.mount(source, target, kind, flags, options)
    return ctypes.get_errno() if r < 0 else 0


def in_namespaces(pid, act):
    """Returns what @act returns in the worker's user and mount namespace, with all capabilities there. A program could not keep
    them over its exec. @act gets a descriptor of its own directory in /proc, which cannot be had there."""
    def inside(pipe):
        with acting_as(os.getuid()):
            own = os.open("/proc/self", os.O_PATH)
            spaces = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("user", "mnt")]
            for space in spaces:
                assert libc.setns(space, 0) == 0, ctypes.get_errno()
            os.write(pipe, json.dumps(act(own)).encode())
            os._exit(0)  # the ids of before are not to be had here

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            inside(writer)
        except BaseException as error:  # the test's own process reports it
            os.write(writer, json.dumps(repr(error)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return json.loads(said)
