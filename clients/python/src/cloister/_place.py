# SPDX-License-Identifier: Apache-2.0
"""Which of several hosts a workspace is on, as cloister_place() in libcloister/place.c."""

from typing import Sequence

_MASK = 2**64 - 1
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x00000100000001B3


def _add(value: int, text: str) -> int:
    data = text.encode()
    if 0 in data:
        raise ValueError("a name contains a NUL")
    for byte in data + b"\0":
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value


def _mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def place(tenant: str, workspace: str, nodes: Sequence[str]) -> str:
    """Returns the one of the hosts, named in any order, that the workspace is on. Whoever gives the same names gets the
    same host; if one is taken out, only its workspaces move. Name those that `cloisterctl health` calls healthy. Raises
    ValueError if there is none."""
    if not nodes:
        raise ValueError("there is no host to choose")
    start = _add(_add(_FNV_OFFSET, tenant), workspace)
    # Of two with one score the lesser name wins; UTF-8 sorts as code points do.
    return min(nodes, key=lambda node: (-_mix(_add(start, node)), node))
