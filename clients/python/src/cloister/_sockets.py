# SPDX-License-Identifier: Apache-2.0
"""Where the service listens, and whether to trust the server there: as cloister_open() of libcloister(3)."""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ._errors import CloisterError, ServiceNotFound
from ._remote import Access, Opened, connect_to, is_url
from ._types import CONNECT_MS

SERVICE_DIRECTORY = "/run/cloister"


class Place(NamedTuple):
    """A socket's path, or an URL. Unless the program named it, its server must run as root, as our user or as the
    service's user."""

    path: str
    named: bool


def places(path: Optional[str]) -> List[Place]:
    if path is not None:
        return [Place(path, True)]
    found = []
    named, runtime = os.environ.get("CLOISTER_SOCKET"), os.environ.get("XDG_RUNTIME_DIR")
    if named:
        found.append(Place(named, True))
    if runtime and runtime.startswith("/"):
        found.append(Place(f"{runtime}/cloister/agent.sock", False))
    found += [Place(f"/run/user/{os.geteuid()}/cloister/agent.sock", False),
              Place(f"/tmp/cloister-{os.geteuid()}/agent.sock", False),
              Place(f"{SERVICE_DIRECTORY}/agent.sock", False)]
    return list(dict.fromkeys(found))


def _is_believed(made: socket.socket) -> bool:
    _, uid, _ = struct.unpack("3i", made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid in (0, os.geteuid()):
        return True
    try:
        return os.lstat(SERVICE_DIRECTORY).st_uid == int(uid)
    except OSError:
        return False


def _connect(path: str, access: Access) -> Opened:
    if is_url(path):
        return connect_to(path, access)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # SO_SNDTIMEO bounds connect(2) while the service's backlog is full, socket(7).
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", CONNECT_MS // 1000, 0))
        made.connect(path)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return Opened(made)


def connect(candidates: Sequence[Place], access: Access) -> Tuple[Opened, Place]:
    """Connects to the first of them that has a server."""
    tried = []
    for place in candidates:
        try:
            made = _connect(place.path, access)
        except CloisterError:
            raise
        except OSError as error:
            tried.append(f"{place.path} ({error.strerror or error})")
            continue
        if place.named or _is_believed(made.socket):
            return made, place
        made.socket.close()
        tried.append(f"{place.path} (its server runs as another user)")
    raise ServiceNotFound(f"No service listens at {', '.join(tried)}; start cloisterd, or name its socket in CLOISTER_SOCKET")


def has_come(made: socket.socket) -> bool:
    """Whether something can be read, or the service has closed the connection, without reading from it."""
    poll = select.poll()
    poll.register(made, select.POLLIN | select.POLLRDHUP)
    return bool(poll.poll(0))


def has_ended(made: socket.socket) -> bool:
    """Whether the service has closed the connection, without reading from it."""
    poll = select.poll()
    poll.register(made, select.POLLRDHUP)
    return bool(poll.poll(0))
