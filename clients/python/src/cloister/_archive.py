# SPDX-License-Identifier: Apache-2.0
"""What export writes: the tar archive that a command in the workspace makes, with the comments of `cloister export` at its
beginning and its end, by which `cloister import` knows a whole one. The workspace is not trusted: what it calls an entry is
bounded, and its own comments and special files are left out."""

from __future__ import annotations

import tarfile
import time
from typing import List, Optional

from ._errors import ExportFailed

SCRIPT = """command -v tar >/dev/null || { echo 'there is no tar in this workspace; export needs one' >&2; exit 127; }
case $(tar --version 2>/dev/null) in
*GNU*) exec tar -b 128 --format=posix --pax-option=delete=atime,delete=ctime -cf - . ;;
*) exec tar -cf - . ;;
esac
"""
BLOCK = 512
EXTENSION_BYTES = 1 << 20  # of the longer names of an entry
ENTRIES, EXTENSIONS, ROOT = b"0\0" b"125", b"xLK", ("./", ".")
LEFT_OUT = 100  # names that are kept
DIGITS = 20  # of a number: what is longer takes long to read


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _comment(text: str) -> bytes:
    rest = len(text.encode()) + len(" comment=\n")
    size = rest + len(str(rest))
    size += len(str(size)) - len(str(rest))
    record = f"{size} comment={text}\n".encode()
    info = tarfile.TarInfo("./pax")
    info.type, info.mode, info.size = b"g", 0o600, len(record)
    return info.tobuf(tarfile.USTAR_FORMAT) + record.ljust(_padded(size), b"\0")


def _number(digits: bytes) -> int:
    if len(digits) > DIGITS or not digits.isdigit():
        raise ValueError("no number")
    return int(digits)


def _size_of(records: bytes, size: int) -> int:
    """The size that a pax header gives, in place of that of the entry."""
    at = 0
    while at < len(records) and records[at:at + 1] != b"\0":
        length = _number(records[at:records.index(b" ", at)])
        if length <= 0:
            raise ValueError("an empty record")
        name, _, value = records[at:at + length].partition(b" ")[2].partition(b"=")
        if name == b"size":
            size = _number(value.rstrip(b"\n"))
        at += length
    return size


class Archive:
    """Takes the archive a piece at a time, and returns what is to be written."""

    def __init__(self, workspace: str) -> None:
        self.entries = 0
        self.left_out: List[str] = []  # special files, the first of them
        self._left = bytearray(_comment(f"cloister export 1 of {workspace[:256]} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"))
        self._in = bytearray()
        self._held = bytearray()  # the longer names of the entry that follows
        self._size: Optional[int] = None  # that they give
        self._rest = 0  # of an entry's content
        self._keep = True
        self._ended = False
        root = tarfile.TarInfo("./")
        root.type, root.mode = tarfile.DIRTYPE, 0o700
        self._root = root.tobuf(tarfile.USTAR_FORMAT)

    def feed(self, data: bytes) -> bytes:
        try:
            self._feed(data)
        except (tarfile.HeaderError, ValueError, IndexError):
            raise ExportFailed("What the workspace sent is no tar archive") from None
        made, self._left = bytes(self._left), bytearray()
        return made

    def _feed(self, data: bytes) -> None:
        self._in += data
        while not self._ended:
            if self._rest:
                part = self._in[:self._rest]
                if not part:
                    return
                del self._in[:len(part)]
                self._rest -= len(part)
                if self._keep:
                    self._left += part
            elif not self._header():
                return

    def _header(self) -> bool:
        """Takes one. Returns whether it was there."""
        if len(self._in) < BLOCK:
            return False
        block = bytes(self._in[:BLOCK])
        if not any(block):
            self._ended = True
            return True
        info = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
        if info.size < 0:
            raise ValueError("a negative size")
        if info.type in EXTENSIONS:
            return self._extension(info)
        del self._in[:BLOCK]
        size, self._size = info.size if self._size is None else self._size, None
        held, self._held = self._held, bytearray()
        is_root = info.type == tarfile.DIRTYPE and info.name in (".", "./")
        self._keep = info.type in ENTRIES
        # A link has none, whatever its header says.
        self._rest = _padded(size) if info.type not in (b"1", b"2", b"5") else 0
        if self._keep:
            self._left += held + block
            self.entries += not is_root
        elif info.type != b"g" and len(self.left_out) < LEFT_OUT:
            self.left_out.append(info.name)
        if is_root:
            self._root = block
        return True

    def _extension(self, info: tarfile.TarInfo) -> bool:
        end = BLOCK + _padded(info.size)
        if len(self._held) + end > EXTENSION_BYTES:
            raise ValueError("a name that is too long")
        if len(self._in) < end:
            return False
        if info.type == b"x":
            self._size = _size_of(bytes(self._in[BLOCK:BLOCK + info.size]), -1)
            self._size = None if self._size < 0 else self._size
        self._held += self._in[:end]
        del self._in[:end]
        return True

    def end(self) -> bytes:
        """Returns the end of a whole archive."""
        if not self._ended:
            raise ExportFailed("The archive ended early; export it again")
        return _comment(f"cloister export complete: {self.entries}") + self._root + bytes(2 * BLOCK)
