# SPDX-License-Identifier: Apache-2.0
"""A cloister-egress whose every word a test chooses: it connects to cloisterd's socket for it. egress/PROTOCOL."""

import socket
import struct
import threading

from cloister_client import acting_as
from wire import frame, of_socket, text

OPEN, CLOSE, CALL, CALL_END, RELOAD, RETIRED = range(1, 7)
READY, OPENED, OPEN_FAILED, DENIED, CLOSED, CALL_ENDED, FILTERED = range(32, 39)
SOCKETS = 5  # the proxy's, DNS, HTTP, HTTPS, DNS over TCP
DIAG = 1 << SOCKETS  # and one more, where commands have cgroups
NOT_ALLOWED, RULE_DENIED, PORT, PRIVATE_ADDRESS = 1, 2, 3, 4
VIA_CONNECT, VIA_HTTP, VIA_SOCKS, VIA_DNS, VIA_TRANSPARENT = range(1, 6)


def denied(call, host, port=443, reason=NOT_ALLOWED, via=VIA_CONNECT, rule=""):
    return struct.pack("=Q", call) + text(host) + struct.pack("=IBB", port, reason, via) + text(rule)


def closed(call, host, port=443, via=VIA_CONNECT, reason=0, came=0, went=0):
    return struct.pack("=Q", call) + text(host) + struct.pack("=IBBQQ", port, via, reason, came, went)


def call_ended(call, connections=0, refused=0, came=0, went=0):
    return struct.pack("=QQQQQ", call, connections, refused, came, went)


def take_text(payload):
    size, = struct.unpack_from("=I", payload)
    return payload[4:4 + size].decode(), payload[4 + size:]


class Cell:
    """What EGRESS_OPEN said of one, and its sockets."""

    def __init__(self, number, payload, fds):
        self.number, self.sockets, self.fds = number, payload[0], fds
        self.tenant, rest = take_text(payload[1:])
        self.workspace, rest = take_text(rest)
        self.is_narrowed = bool(rest[0])
        self.allow, rest = take_text(rest[1:])
        assert rest == b"" and self.sockets & ~DIAG == DIAG - 1 and len(fds) == self.sockets.bit_count()
        self.all = [socket.socket(fileno=fd) for fd in fds]
        self.listener = self.all[0]
        for each in self.all:
            each.settimeout(20)
        self.calls = {}  # the running ones, and the address of each
        self.cgroups = {}  # likewise; 0: it has none, or none yet

    def close(self):
        for each in self.all:
            each.close()


class ScriptedEgress:
    """Follows the protocol, and refuses what the commands ask for, unless a test does more."""

    def __init__(self, path, account, ready=True):
        self.socket = socket.socket(socket.AF_UNIX)
        with acting_as(account.uid, account.gid):
            self.socket.connect(str(path))
        self.socket.settimeout(20)
        self.frames = of_socket(self.socket)
        self.cells, self.said = {}, []
        self.lock = threading.Lock()
        if ready:
            self.say(READY, 0, struct.pack("=I", 6))

    def say(self, kind, cell=0, payload=b""):
        self.socket.sendall(frame(kind, cell, payload))

    def hear(self):
        """Takes the next message in, and returns its type and cell; None at the end."""
        came = self.frames.next()
        if came is None:
            return None
        kind, number, payload, fds = came
        self.said.append(kind)
        if kind == OPEN:
            self.cells[number] = Cell(number, payload, fds)
        elif kind == CLOSE:
            self.cells.pop(number).close()
        elif kind == CALL:
            call, address, cgroup = struct.unpack("=QIQ", payload)
            self.cells[number].calls[call] = f"127.64.{address >> 8}.{address & 255}"
            self.cells[number].cgroups[call] = cgroup
        elif kind == CALL_END:
            call, = struct.unpack("=Q", payload)
            del self.cells[number].calls[call]
        return kind, number, payload

    def hear_until(self, kind):
        """Returns the cell and the payload of the next message of this type."""
        while True:
            said, number, payload = self.hear()
            if said == kind:
                return number, payload

    def close(self):
        for cell in self.cells.values():
            cell.close()
        self.socket.close()
