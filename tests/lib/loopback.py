# SPDX-License-Identifier: Apache-2.0
"""Addresses of the loopback for servers of tests."""

import os
import socket


def own_address():
    """Returns a loopback address that only this process uses, so a port that was free there stays free."""
    pid = os.getpid()
    return f"127.{pid >> 16}.{pid >> 8 & 255}.{pid & 255}"


def free_port():
    with socket.socket() as probe:
        probe.bind((own_address(), 0))
        return probe.getsockname()[1]
