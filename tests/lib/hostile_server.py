# SPDX-License-Identifier: Apache-2.0
"""A Unix socket whose server sends what a test chooses, and counts what it could send."""

import contextlib
import json
import socket
import threading


class HostileServer:
    """Serves each connection with serve(server, connection, number), in a thread of its own."""

    def __init__(self, path, serve):
        self.path, self.serve = str(path), serve
        self.connections, self.closed, self.sent = 0, 0, 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self._one, args=(connection, self.connections), daemon=True).start()

    def _one(self, connection, number):
        with contextlib.suppress(OSError), connection:
            self.serve(self, connection, number)
        self.closed += 1

    def say(self, connection, data):
        """Sends @data, and counts the bytes that the other side took."""
        data = memoryview(data)
        while data:
            taken = connection.send(data[:1 << 16])
            self.sent += taken
            data = data[taken:]

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()  # before its descriptor's number is another's: egress.Names.close()
        self.listener.close()


def requests(connection):
    """Yields the requests that arrive, as objects."""
    with connection.makefile("rb") as lines:
        for line in lines:
            yield json.loads(line)


def line(message):
    return json.dumps(message).encode() + b"\n"


def answer(number, result):
    return line({"jsonrpc": "2.0", "id": number, "result": result})
