# SPDX-License-Identifier: Apache-2.0
"""A FUSE file system that stops answering when it is told to, and later answers again. In each of its directories every
name that begins with "ws" is a directory, and every name that begins with "page" a file of 16 pages. The kernel caches
nothing of it but pages of files. A process that waits for a page can be killed. fuse(4), linux/fuse.h version 7.31

As a program (silent_fs.py POINT OWNER) it mounts itself and obeys lines: silent, withhold (pages), answer, count, held, end."""

import contextlib
import ctypes
import os
import pathlib
import select
import struct
import subprocess
import sys

LOOKUP, FORGET, GETATTR, STATFS, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 2, 3, 17, 26, 27, 28, 29
OPEN, READ, RELEASE, FLUSH = 14, 15, 18, 25
INTERRUPT, DESTROY, BATCH_FORGET, READDIRPLUS = 36, 38, 42, 44
ENOENT, ENOSYS = 2, 38
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)  # the protocol has no answers to these
ASYNC_READ = 1  # FUSE_ASYNC_READ: who waits for a page does not wait for the answer itself
FILE_SIZE = 16 * 4096


class Server:
    def __init__(self, point, owner):
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.owner = owner
        self.names = {}
        self.files = set()
        self.silent = self.withholds = False
        self.held = []
        self.count = 0
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"fuse-test", str(point).encode(), b"fuse", 0, options.encode()) < 0:
            raise OSError(ctypes.get_errno(), "mount")

    def attributes(self, node):
        size, mode = (FILE_SIZE, 0o100666) if node in self.files else (0, 0o40777)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 2, self.owner, self.owner, 0, 4096, 0)

    def node(self, parent, name):
        return self.names.setdefault((parent, name), len(self.names) + 2)

    def reply_to(self, opcode, node, body):
        """Returns (errno, bytes)."""
        if opcode == INIT:
            return 0, struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, ASYNC_READ, 16, 12, 4096, 1, 0, 0, 0, *[0] * 7)
        if opcode == LOOKUP:
            name = body.rstrip(b"\0")
            if not name.startswith((b"ws", b"page")):
                return ENOENT, b""
            child = self.node(node, name)
            if name.startswith(b"page"):
                self.files.add(child)
            return 0, struct.pack("<QQQQII", child, 0, 0, 0, 0, 0) + self.attributes(child)
        if opcode == GETATTR:
            return 0, struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if opcode == READ:
            _, at, size = struct.unpack_from("<QQI", body)
            return 0, b"x" * max(0, min(size, FILE_SIZE - at))
        if opcode in (OPENDIR, OPEN):
            return 0, struct.pack("<QII", 0, 0, 0)
        if opcode == STATFS:
            return 0, struct.pack("<5Q4I6I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *[0] * 6)
        if opcode in (READDIR, READDIRPLUS, RELEASEDIR, RELEASE, FLUSH, DESTROY):
            return 0, b""
        return ENOSYS, b""

    def reply(self, request):
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        error, body = self.reply_to(opcode, node, request[40:])
        # The process that asked may have been killed.
        with contextlib.suppress(FileNotFoundError):
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def take(self):
        try:
            request = os.read(self.fd, 1 << 17)
        except OSError:  # the request was interrupted before it was read
            return
        opcode, = struct.unpack_from("<I", request, 4)
        if opcode in UNANSWERED:
            return
        self.count += opcode != INIT
        if self.silent or self.withholds and opcode == READ:
            self.held.append(request)
        else:
            self.reply(request)

    def obey(self, word):
        if word == "silent":
            self.silent = True
        elif word == "withhold":
            self.withholds = True
        elif word == "answer":
            self.silent = self.withholds = False
            held, self.held = self.held, []
            for request in held:
                self.reply(request)
        return len(self.held) if word == "held" else self.count

    def serve(self):
        while True:
            ready, _, _ = select.select([self.fd, 0], [], [])
            if self.fd in ready:
                self.take()
            if 0 in ready:
                word = sys.stdin.readline().strip()
                if word in ("", "end"):
                    return
                print(self.obey(word), flush=True)


class FuseMount:
    """Runs such a file system at @point for tests. Its directories belong to the id @owner."""

    def __init__(self, point, owner):
        self.point = pathlib.Path(point)
        self.process = subprocess.Popen([sys.executable, __file__, str(point), str(owner)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "mounted\n"

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def count(self):
        """Returns the number of requests so far."""
        return self.tell("count")

    def silence(self):
        self.tell("silent")

    def held(self):
        """Returns the number of requests that wait for their answers."""
        return self.tell("held")

    def withhold(self):
        """Answers all but requests for pages."""
        self.tell("withhold")

    def answer(self):
        self.tell("answer")

    def end(self):
        """Kills the server, which ends all calls that wait for it."""
        self.process.kill()
        self.process.wait()
        subprocess.run(["umount", "--lazy", self.point], check=False)


if __name__ == "__main__":
    server = Server(sys.argv[1], int(sys.argv[2]))
    print("mounted", flush=True)
    server.serve()
