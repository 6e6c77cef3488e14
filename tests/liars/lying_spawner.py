# SPDX-License-Identifier: Apache-2.0
"""Stands between cloisterd and the real cloister-spawner (tests/lib/stand_in.c starts it) and spoils some of what the spawner
says: its types, numbers, payloads and descriptors. The file "seed" beside it has the random numbers' seed."""

import contextlib
import os
import random
import select
import socket
import sys

program = sys.argv[1]
sys.path.insert(0, os.path.dirname(program))
from wire import HEADER, SPAWNER_READY, frame, of_socket  # noqa: E402

CHANNEL = 3
SPOILT = 0.05  # of messages

with open(os.path.join(os.path.dirname(program), "seed")) as file:
    r = random.Random(file.read())


def number():
    return r.choice((0, 1, 2, 2**31, 2**32 - 1, 2**63, 2**64 - 1, r.randrange(100)))


def another_descriptor():
    with contextlib.suppress(OSError):
        return r.choice((lambda: os.open("/dev/null", os.O_RDWR), lambda: os.open("/", os.O_PATH), lambda: os.eventfd(1),
                         lambda: os.pidfd_open(os.getpid()), lambda: os.dup(ours.fileno())))()
    return os.dup(0)


def spoil(kind, call, payload, fds):
    """Returns the messages that are sent in place of this one."""
    how = r.randrange(9)
    if how == 0:
        return []
    if how == 1:
        return [(kind, call, payload, fds)] * 2
    if how == 2:
        kind = r.choice((r.randrange(256), r.randrange(32, 44)))
    elif how == 3:
        call = r.choice((0, call + 1, max(call - 1, 0), number()))
    elif how == 4:
        payload = r.choice((payload[:r.randrange(len(payload) + 1)], payload + b"x", r.randbytes(r.randrange(9000))))
    elif how == 5:
        fds = fds[:r.randrange(len(fds) + 1)]
    elif how == 6:
        fds = fds + [another_descriptor()]
    elif how == 7:
        fds = [another_descriptor() for _ in fds] or [another_descriptor()]
    else:
        fds = r.sample(fds, len(fds))
    return [(kind, call, payload, fds)]


def tell(sock, kind, call, payload, fds):
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds))] if fds else []
    data = frame(kind, call, payload, len(fds))
    sent = sock.sendmsg([data], ancillary)
    sock.sendall(data[sent:])


def close(fds):
    for fd in set(fds):
        with contextlib.suppress(OSError):
            os.close(fd)


cloisterd = socket.socket(fileno=CHANNEL)
ours, theirs = socket.socketpair()
if os.fork() == 0:
    os.dup2(theirs.fileno(), CHANNEL)
    for fd in (ours.fileno(), theirs.fileno()):
        os.close(fd)
    os.execv(program + ".real", ["cloister-spawner", *sys.argv[2:]])
theirs.close()
cloisterd.setblocking(True)
down, up, ready = of_socket(cloisterd), of_socket(ours), False


def pass_on(frames, to, spoils):
    """Passes on what has come. Returns whether the spawner has said that it is ready."""
    ready = False
    while True:
        got = frames.next()
        if not got:
            sys.exit(0)
        messages = spoil(*got) if spoils and r.random() < SPOILT else [got]
        for message in messages:
            tell(to, *message)
        close([fd for message in messages for fd in message[3]] + got[3])
        ready |= got[0] == SPAWNER_READY
        if len(frames.data) < HEADER.size or len(frames.data) - HEADER.size < frames.header()[3]:
            return ready


with contextlib.suppress(BrokenPipeError, ConnectionError):
    while True:
        for sock in select.select([cloisterd, ours], [], [])[0]:
            if sock is cloisterd:
                pass_on(down, ours, False)
            else:
                ready |= pass_on(up, cloisterd, ready)
