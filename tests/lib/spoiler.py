# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and cloisterd. It records what cloisterd answers a command, and then answers the same command with
that, spoilt: by control characters in strings, or by values of other types."""

import contextlib
import json
import os
import pty
import select
import socket
import subprocess
import threading

# It would set a terminal's title, ring, change colours (C1), and reverse the direction of writing; and begin another line.
MARK = "\x1b]0;spoilt\x07\x9b31m\u202e\r\nFORGED \x7f"
SHOWN = [b"\x1b]0;spoilt", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae", b"\x7f"]
FRAMING = {"jsonrpc", "id", "method"}


def spoil(value, change, spared=frozenset()):
    """Changes every value that is no container, and every container that change() does not return as it is."""
    if isinstance(value, dict):
        return change({key: inner if key in spared else spoil(inner, change, spared) for key, inner in value.items()})
    if isinstance(value, list):
        return change([spoil(inner, change, spared) for inner in value])
    return change(value)


def marked(value):
    return MARK + value + MARK if isinstance(value, str) else value


def added(value):
    """A member of a name and a value that no cloisterd has."""
    return {**value, MARK: MARK} if isinstance(value, dict) else value


class Recorder:
    """Passes connections on to the real socket, whose users include the one that runs the tests. .connections has, for each, the answers after each request."""

    def __init__(self, path, real):
        self.real, self.connections = str(real), []
        self.listener = listen(path)
        self.thread = threading.Thread(target=accept_all, args=(self.listener, self._serve), daemon=True)
        self.thread.start()

    def _serve(self, client, number):
        rounds = [[]]
        self.connections.append(rounds)
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
            server.connect(self.real)
            buffered = b""
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    (server if ready is client else client).sendall(data)
                    if ready is client:
                        rounds.extend([] for _ in range(data.count(b"\n")))
                    else:
                        *lines, buffered = (buffered + data).split(b"\n")
                        rounds[-1] += lines

    def close(self):
        end(self.listener, self.thread)


class Spoiler:
    """Answers as recorded. change(message) makes what is sent; only those whose number is @which are changed, or all."""

    def __init__(self, path, connections, change, which=None):
        self.connections, self.change, self.which, self.sent = connections, change, which, 0
        self.listener = listen(path)
        self.thread = threading.Thread(target=accept_all, args=(self.listener, self._serve), daemon=True)
        self.thread.start()

    def _changed(self, line):
        self.sent += 1
        if self.which not in (None, self.sent - 1):
            return line
        try:
            message = json.loads(line)
        except ValueError:  # a tunnel's bytes
            return line
        kept = {key: value for key, value in message.items() if key in FRAMING}
        return json.dumps({**{key: self.change(value) for key, value in message.items() if key not in FRAMING}, **kept}).encode()

    def _serve(self, client, number):
        if number >= len(self.connections):
            return
        first, *rounds = self.connections[number]
        for line in first:
            client.sendall(self._changed(line) + b"\n")
        left = 0
        client.settimeout(2)  # one that was told something else may not ask again
        while rounds:
            while left == 0:
                try:
                    data = client.recv(1 << 16)
                except TimeoutError:
                    data = b""
                if not data:
                    return
                left = data.count(b"\n")
            left -= 1
            for line in rounds.pop(0):
                client.sendall(self._changed(line) + b"\n")
        client.shutdown(socket.SHUT_WR)
        while client.recv(1 << 16):
            pass

    def close(self):
        end(self.listener, self.thread)


def listen(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    os.chmod(path, 0o666)
    listener.listen(64)
    return listener


def accept_all(listener, serve):
    def one(client, number):
        with contextlib.suppress(OSError), client:
            serve(client, number)

    number = 0
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=one, args=(client, number), daemon=True).start()
            number += 1


def end(listener, thread):
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def on_terminal(area, words, env, typed=b"", patience=8):
    """Runs a program whose stdout and stderr are a terminal, and its stdin too if something is typed, again and again until
    it ends. Returns its status, and what the terminal got."""
    master, slave = pty.openpty()
    shown = b""
    with area.start(words, stdin=slave if typed else subprocess.DEVNULL, stdout=slave, stderr=slave, env=env) as process:
        os.close(slave)
        quiet = 0
        with contextlib.suppress(OSError), open(master, "rb", 0) as terminal:
            while quiet < patience:
                if select.select([terminal], [], [], 0.2 if typed else 1)[0]:
                    data = terminal.read(1 << 16)
                    if not data:
                        break
                    shown, quiet = shown + data, 0
                elif typed:
                    os.write(master, typed)
                    quiet += 0.2
                else:
                    quiet += 1
        if process.poll() is None and quiet >= patience:
            process.kill()
        status = process.wait(patience)
    return status, shown
