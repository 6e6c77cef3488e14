# SPDX-License-Identifier: Apache-2.0
"""Runs a program in user and network namespaces of its own, where netfilter drops all that is sent, as a unit's
IPAddressDeny= does: sendto(2) fails with EPERM. Exits with 77 if the kernel has no nf_tables. nft(8), netlink(7)"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NETLINK_NETFILTER, BATCH_BEGIN, BATCH_END, NEWTABLE, NEWCHAIN = 12, 0x10, 0x11, 0xa00, 0xa03
REQUEST, ACK, CREATE = 1, 4, 0x400
LOCAL_OUT, DROP, NFTABLES, IPV4, IPV6 = 3, 0, 10, 2, 10


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind, flags, number, family, resource, attributes=b""):
    return struct.pack("=IHHIIBBH", 20 + len(attributes), kind, flags | REQUEST, number, 0, family, 0,
                       socket.htons(resource)) + attributes


def drop_all(family):
    hook = attribute(1, struct.pack(">I", LOCAL_OUT)) + attribute(2, struct.pack(">I", 0))
    chain = attribute(1, b"t\0") + attribute(3, b"c\0") + attribute(4 | 0x8000, hook) + \
        attribute(5, struct.pack(">I", DROP)) + attribute(7, b"filter\0")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
        netlink.send(message(BATCH_BEGIN, 0, 0, 0, NFTABLES) +
                     message(NEWTABLE, CREATE, 1, family, 0, attribute(1, b"t\0")) +
                     message(NEWCHAIN, CREATE | ACK, 2, family, 0, chain) + message(BATCH_END, 0, 3, 0, NFTABLES))
        error, = struct.unpack_from("=i", netlink.recv(4096), 16)
        if error:
            raise OSError(-error, "nf_tables")


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH22x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    # An address, and with it a route to its network.
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket:
        address = socket.inet_pton(socket.AF_INET6, "fd00::1")
        fcntl.ioctl(any_socket, 0x8916, address + struct.pack("Ii", 16, 1))  # SIOCSIFADDR, the prefix, and lo's index


try:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    raise_loopback()
    for each in (IPV4, IPV6):
        drop_all(each)
except OSError as error:
    print(f"drop_packets: {error}", file=sys.stderr)
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
