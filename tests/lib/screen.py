# SPDX-License-Identifier: Apache-2.0
"""Runs a program on a terminal of its own, and keeps the text of its screen. Emulates the part of xterm that the tests
need."""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(rb"\x1b\[([?>!]?)([0-9;]*)([ -/]*)([@-~])|\x1b[()][0-9A-B]|\x1b[=>78cMDE]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
                      rb"|\x1bP[^\x1b]*\x1b\\")


class Screen:
    def __init__(self, words, env, uid=None, gid=None, lines=24, columns=120):
        self.begin(lines, columns)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                for number in (signal.SIGINT, signal.SIGQUIT):  # ignored in what a shell without job control starts
                    signal.signal(number, signal.SIG_DFL)
                if uid is not None:
                    os.setgroups([])
                    os.setgid(gid)
                    os.setuid(uid)
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                os.execve(words[0], words, env)
            finally:
                os._exit(127)
        self.status = None

    def begin(self, lines, columns):
        """A screen on which nothing has come yet."""
        self.size = self.first_size = lines, columns
        self.clear()
        self.raw = b""  # all bytes received
        self.record = []  # what came and what changed: time, kind and data, as asciicast has them
        self.began = time.monotonic()
        self.pending = b""
        self.decode = codecs.getincrementaldecoder("utf-8")("ignore").decode

    def note(self, kind, data):
        self.record.append([round(time.monotonic() - self.began, 6), kind, data])

    def save(self, path):
        """Writes the recording as asciicast v2: https://docs.asciinema.org/manual/asciicast/v2/"""
        lines, columns = self.first_size
        events = [{"version": 2, "width": columns, "height": lines}, *self.record]
        path.write_text("".join(json.dumps(event) + "\n" for event in events))

    @classmethod
    def replay(cls, path):
        """Returns the screen of a recording, at its end."""
        header, *events = map(json.loads, path.read_text().splitlines())
        made = cls.__new__(cls)
        made.begin(header["height"], header["width"])
        for _, kind, data in events:
            if kind == "o":
                made.feed(data.encode("utf-8", "surrogateescape"))
            else:
                columns, lines = map(int, data.split("x"))
                made.size = lines, columns
                made.clear()
        return made

    def clear(self):
        self.cells = [[" "] * self.size[1] for _ in range(self.size[0])]
        self.y = self.x = 0
        self.region = 0, self.size[0]  # the scrolling region

    def scroll(self, first, n):
        """Moves the lines from @first to the end of the region up by @n, or down if @n is negative."""
        last = self.region[1]
        empty = [[" "] * self.size[1] for _ in range(abs(n))]
        moved = self.cells[first:last]
        self.cells[first:last] = (moved[n:] + empty if n > 0 else empty + moved[:n])[:last - first]

    def resize(self, lines, columns):
        self.size = lines, columns
        self.clear()
        self.note("r", f"{columns}x{lines}")
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def type(self, text):
        os.write(self.fd, text.encode())

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def control(self, parameters, final):
        numbers = [int(n) if n else 0 for n in parameters.decode().split(";")]
        n = max(numbers[0], 1)
        lines, columns = self.size
        if final in b"Hf":
            self.y, self.x = n - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif final in b"d":
            self.y = n - 1
        elif final in b"G":
            self.x = n - 1
        elif final in b"ABCD":
            dy, dx = {b"A": (-n, 0), b"B": (n, 0), b"C": (0, n), b"D": (0, -n)}[final]
            self.y, self.x = self.y + dy, self.x + dx
        elif final == b"K":
            first, last = {0: (self.x, columns), 1: (0, self.x + 1), 2: (0, columns)}[numbers[0]]
            self.cells[self.y][first:last] = " " * (last - first)
        elif final == b"J":
            start = (0, 0) if numbers[0] == 2 else (self.y, self.x)
            for y in range(start[0], lines):
                self.cells[y][start[1] if y == start[0] else 0:] = " " * (
                    columns - (start[1] if y == start[0] else 0))
        elif final == b"X":
            self.cells[self.y][self.x:self.x + n] = " " * len(self.cells[self.y][self.x:self.x + n])
        elif final == b"b":
            self.put(self.last * n)
        elif final == b"P":
            self.cells[self.y][self.x:] = self.cells[self.y][self.x + n:] + [" "] * n
            del self.cells[self.y][columns:]
        elif final == b"@":
            self.cells[self.y][self.x:self.x] = " " * n
            del self.cells[self.y][columns:]
        elif final == b"M":
            self.scroll(self.y, n)
        elif final == b"L":
            self.scroll(self.y, -n)
        elif final == b"S":
            self.scroll(self.region[0], n)
        elif final == b"T":
            self.scroll(self.region[0], -n)
        elif final == b"r":
            self.region = n - 1, min(numbers[1] if len(numbers) > 1 else lines, lines)
            self.y = self.x = 0
        else:
            assert final in b"mlhtcnq", (parameters, final)
        # After the screen has shrunk, output for the larger one may still arrive.
        self.y, self.x = min(self.y, lines - 1), max(self.x, 0)

    def put(self, text):
        for character in text:
            if character == "\r":
                self.x = 0
            elif character == "\n":
                if self.y + 1 == self.region[1]:
                    self.scroll(self.region[0], 1)
                else:
                    self.y = min(self.y + 1, self.size[0] - 1)
            elif character == "\b":
                self.x = max(self.x - 1, 0)
            elif character >= " ":
                if self.x >= self.size[1]:
                    self.x, self.y = 0, min(self.y + 1, self.size[0] - 1)
                if self.y < self.size[0]:
                    self.cells[self.y][self.x] = character
                self.x += 1
                self.last = character

    def feed(self, data):
        self.raw += data
        data = self.pending + data
        self.pending = b""
        while data:
            escape = data.find(b"\x1b")
            if escape:
                part = data if escape < 0 else data[:escape]
                self.put(self.decode(part))  # the decoder keeps an incomplete character
                data = data[len(part):]
                continue
            found = SEQUENCE.match(data)
            if not found:
                self.pending = data
                return
            if found[4] and not found[1]:
                self.control(found[2], found[4])
            elif found[0] == b"\x1bM" and self.y == self.region[0]:
                self.scroll(self.region[0], -1)
            elif found[0] == b"\x1bM":
                self.y -= 1
            data = data[found.end():]

    def read(self, seconds):
        """Reads what arrives within @seconds. Returns False at the end."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.note("o", data.decode("utf-8", "surrogateescape"))
        self.feed(data)
        return bool(data)

    def until(self, condition, seconds=20):
        """Waits until condition(text of the screen) is true. Returns the text."""
        deadline = time.monotonic() + seconds
        while not condition(self.text()):
            assert time.monotonic() < deadline and self.read(0.2), self.text()
        return self.text()

    def wait(self):
        """Reads to the end. Returns the program's exit status."""
        deadline = time.monotonic() + 60
        while self.read(1):
            assert time.monotonic() < deadline, self.text()
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
