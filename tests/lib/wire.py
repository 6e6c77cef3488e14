# SPDX-License-Identifier: Apache-2.0
"""The messages between cloister's processes, as in common/wire/wire*.h, and malformed variants of them."""

import array
import os
import socket
import struct

HEADER = struct.Struct("=BBHIQ")
VERSION = 1
PAYLOAD_MAX = 65536 - HEADER.size

SPAWNER_OPEN, SPAWNER_READY, SPAWNER_FAILED, SPAWNER_OPENED, SPAWNER_OPEN_FAILED = 1, 32, 33, 34, 35
COMMAND_RUN, COMMAND_BODY, COMMAND_TERMINATE, COMMAND_KILL, COMMAND_GO, COMMAND_SIGNAL, \
    COMMAND_RESIZE, COMMAND_FORWARD, COMMAND_PAUSE = range(1, 10)
COMMAND_READY, COMMAND_FAILED, COMMAND_ENDED, COMMAND_WAITS, COMMAND_HELD, COMMAND_FORWARD_ENDED, COMMAND_PAUSED = range(32, 39)
FILES_READ, FILES_WRITE, FILES_LIST, FILES_SEARCH, FILES_BODY, FILES_CANCEL, FILES_CLEAR, FILES_SWEEP, FILES_EDIT, \
    FILES_GO, FILES_PATCH, FILES_DIFF, FILES_STAT, FILES_TREE, FILES_MAKE_DIRECTORY, FILES_RENAME, FILES_REMOVE, FILES_FETCH, \
    FILES_MORE, FILES_WATCH = range(1, 21)
FILES_READY, FILES_FAILED, FILES_DATA, FILES_IMAGE, FILES_ENTRY, FILES_MATCH, FILES_TROUBLE, FILES_HELD, \
    FILES_PATCHED, FILES_STEP, FILES_CHANGE, FILES_TOTALS, FILES_NODE, FILES_TAKEN, FILES_EVENT, FILES_END = range(32, 48)
FILES_ADD, FILES_UPDATE, FILES_DELETE, FILES_MOVE = range(1, 5)
FILES_UNCHANGED, FILES_BEGUN, FILES_CHANGED = range(3)
READY, FAILED = 32, 33

KIND_DIRECTORY = 2
NO_MATCH = 29  # enum tool_error
END_EXIT, END_TERMINATED, END_NOT_BEGUN = 0, 1, 2
MIB = 1 << 20


def socket_pair():
    """Returns the descriptors of a socketpair: cloisterd's end and the process's."""
    return [end.detach() for end in socket.socketpair()]


def frame(kind, call=0, payload=b"", fds=0, version=VERSION, length=None):
    return HEADER.pack(version, kind, fds, len(payload) if length is None else length, call) + payload


def text(data, length=None):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("=I", len(data) if length is None else length) + data


def failure(step, error):
    return text(step) + struct.pack("=I", error)


def spawner_open(kind=KIND_DIRECTORY, memory=1 << 30, processes=512, cpu=100, percent=0, io=100,
                 tmp=1 << 30, file_size=1 << 34, data=0, open_files=4096, watches=8192, proxy_port=0, kept=0, as_root=0, root_inside=0,
                 tenant=b""):
    return struct.pack("=BQIIIIQQQIIIQB", kind, memory, processes, cpu, percent, io, tmp, file_size, data,
                       open_files, watches, proxy_port, kept, 0) + text("") + text("") + struct.pack("=BB", as_root, root_inside) + text(tenant)


def command_run(command_len, env_len=0, has_stdin=0, memory=1 << 30, processes=100, input_wait=0, shell=0, no_network=1,
                has_gate=0, rows=0, cols=0, disk=0, tells_cgroup=0, cwd_len=0):
    return struct.pack("=IIIBBQIIBBIIBB", command_len, env_len, cwd_len, has_stdin, has_gate, memory, processes, input_wait, shell, no_network,
                       rows, cols, disk, tells_cgroup)


def command_held(cgroup=1):
    return struct.pack("=Q", cgroup)


def command_pause(ms=0):
    return struct.pack("=I", ms)


def command_paused(everything=1):
    return struct.pack("=B", everything)


def command_ended(end=END_EXIT, status=0, error=0, number=0, flag=0):
    return struct.pack("=BIIQQQBBQQQQQIBB", end, status, error, *[number] * 3, flag, flag, *[number] * 5, number % 2**32, flag, flag)


def files_ready(disk_limit=0):
    return struct.pack("=Q", disk_limit)


def files_read(path, start=0, end=0, numbered=0, raw=0, images=0, by_type=0):
    return text(path) + struct.pack("=QQBBBB", start, end, numbered, raw, images, by_type)


def files_write(path, size, create_dirs=0, durable=0, expect="", held=0, look=0, mode=0, streamed=0, attributes=None):
    return (text(path) + text(expect) + struct.pack("=QIBBBBBB", size, mode, create_dirs, durable, held, look, streamed,
                                                    attributes is not None) + text(attributes or b""))


def files_ask(path, to="", offset=0, length=0, depth=0, entries=100, mode=0, flags=(0, 0, 0, 0, 0)):
    """flags: follow, parents, replace, recursive, attributes."""
    return text(path) + text(to) + struct.pack("=QQIIIBBBBB", offset, length, depth, entries, mode, *flags)


def files_amount(amount):
    return struct.pack("=Q", amount)


def files_node(path, kind=1, number=0, target="", mode=0o644, owner="", attributes=b"", cut=0):
    return (files_entry(path, kind, number, target) + struct.pack("=IIIQ", mode, number % 2**32, number % 2**32, number) +
            text(owner) + text(owner) + text(attributes) + struct.pack("=B", cut))


def files_event(path, kind=1, directory=0, cookie=0, node=None):
    return struct.pack("=BBIB", kind, directory, cookie, node is not None) + (text(path) if node is None else node)


def files_edit(path, size, durable=0, expect="", held=0, look=0):
    return text(path) + text(expect) + struct.pack("=QBBB", size, durable, held, look)


def edit(old, new, everywhere=0):
    return struct.pack("=B", everywhere) + text(old) + text(new)


def files_patch(size, durable=0, held=0, look=0):
    return struct.pack("=QBBB", size, durable, held, look)


def patch_part(kind, content=""):
    return kind.encode() + text(content)


def files_list(path, pattern="", recursive=0, gitignore=0, entries=100, by_depth=0):
    return text(path) + text(pattern) + struct.pack("=BBBI", recursive, gitignore, by_depth, entries)


def files_search(pattern, path=".", file_pattern="", gitignore=0, results=50, offset=0, context=0):
    return text(pattern) + text(path) + text(file_pattern) + struct.pack("=BIII", gitignore, results, offset, context)


def files_entry(path, kind=1, number=0, target="", left_out=0):
    return text(path) + struct.pack("=BQQ", kind, number, number) + text(target) + struct.pack("=Q", left_out)


def files_match(path, line=1, found="", cut=0, context=0):
    return text(path) + struct.pack("=Q", line) + text(found) + struct.pack("=BB", cut, context)


def files_held(before="a", after="b", size=1):
    return text(before) + text(after) + struct.pack("=Q", size)


def files_trouble(edit=1, kind="different", closest="", lines=(), count=None, file=""):
    return (text(file) + struct.pack("=I", edit) + text(kind) + text(closest) +
            struct.pack(f"=I{len(lines)}Q", len(lines) if count is None else count, *lines))


def files_patched(index=0, operation=FILES_UPDATE, path="x", number=1, version="", old="", found="absent"):
    return (struct.pack("=IB", index, operation) + text(path) + text(old) + struct.pack("=QQ", number, number) +
            text(version) + text(found))


def files_step(index=0, state=FILES_BEGUN):
    return struct.pack("=IB", index, state)


def files_end(error=0, message="", path="x", flags=(0, 0, 0), number=0, kind="", version=""):
    return (struct.pack("=I", error) + text(message) + text(path) + struct.pack("=BBB", *flags) +
            struct.pack("=7Q", *[number] * 7) + text(kind) + text(version) + struct.pack("=4Q", *[number] * 4))


def end_of(payload):
    """Returns the error's number, message and path in a FILES_END."""
    error, = struct.unpack_from("=I", payload)
    texts, at = [], 4
    for _ in range(2):
        size, = struct.unpack_from("=I", payload, at)
        texts.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    return error, *texts


class Frames:
    """Splits the bytes that read() returns into frames, with the descriptors that came along."""

    def __init__(self, read):
        self.read, self.data, self.fds = read, b"", []

    def next(self):
        """Returns (type, call, payload, descriptors), or None at the end."""
        while len(self.data) < HEADER.size or len(self.data) - HEADER.size < self.header()[3]:
            data, fds = self.read()
            if not data:
                return None
            self.data += data
            self.fds += fds
        _, kind, n_fds, length, call = self.header()
        payload = self.data[HEADER.size:HEADER.size + length]
        fds, self.fds = self.fds[:n_fds], self.fds[n_fds:]
        self.data = self.data[HEADER.size + length:]
        return kind, call, payload, fds

    def header(self):
        return HEADER.unpack_from(self.data)


def of_socket(made):
    def read():
        data, ancillary, _, _ = made.recvmsg(65536, socket.CMSG_SPACE(16 * 4))
        fds = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[:len(content) // 4 * 4])
        return data, list(fds)
    return Frames(read)


def of_pipe(fd):
    return Frames(lambda: (os.read(fd, 65536), []))
