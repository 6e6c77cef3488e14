# SPDX-License-Identifier: Apache-2.0
"""A server of HTTP in a workspace, good or hostile as its path says. Its source is the program of a session: it imports no other file."""

import hashlib
import socket
import sys
import threading

HOSTILE = {
    "no-http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "http-09": b"<html>hello</html>",
    "nothing": b"",
    "half-a-head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half-a-body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
    "half-a-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
    "no-last-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "length-and-coding": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "coding-and-length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "a-list-of-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3, 5\r\n\r\nabcde",
    "negative-length": b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc",
    "gzip-coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "bad-name": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX y: z\r\n\r\n",
    "space-before-colon": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX : z\r\n\r\n",
    "control-in-value": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\x01b\r\n\r\n",
    "return-in-value": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\rSet-Cookie: b=c\r\n\r\n",
    "nul-in-head": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\0b\r\n\r\n",
    "long-head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40000 + b"\r\n",
    "long-line": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300000 + b"\r\n\r\n",
    "many-fields": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    "many-1xx": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 5000,
    "101-unasked": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello",
    "status-999": b"HTTP/1.1 99999 X\r\nContent-Length: 0\r\n\r\n",
    "status-000": b"HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n",
    "version-9": b"HTTP/9.9 200 OK\r\nContent-Length: 3\r\n\r\nabc",
}

GOOD = {
    "two-answers": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    "early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "until-the-end": b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nabc",
    "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Late: y\r\n\r\n",
    "hop-by-hop": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: X-Own, close\r\nX-Own: a\r\nKeep-Alive: timeout=5\r\n"
                  b"Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-Kept: b\r\n\r\nabc",
    "cookies": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nService-Worker-Allowed: /\r\n\r\n",
    "obs-text": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: \xc3\xa4\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 7\r\n\r\n",
    "404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nX-Frame-Options: DENY\r\n\r\nnone",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n",
}


class Reader:
    def __init__(self, connection):
        self.connection, self.data = connection, b""

    def more(self):
        data = self.connection.recv(1 << 16)
        self.data += data
        return data

    def until(self, end):
        while end not in self.data:
            if not self.more():
                raise EOFError
        found, self.data = self.data.split(end, 1)
        return found

    def body(self, head):
        """Yields the body's bytes."""
        fields = {line.split(b":")[0].lower(): line.split(b":", 1)[1].strip() for line in head.split(b"\r\n")[1:]}
        if b"transfer-encoding" in fields:
            while size := int(self.until(b"\r\n"), 16):
                yield from self.exactly(size)
                self.until(b"\r\n")
            self.until(b"\r\n")
        else:
            yield from self.exactly(int(fields.get(b"content-length", 0)))

    def exactly(self, size):
        while size:
            if not self.data and not self.more():
                raise EOFError
            piece, self.data = self.data[:size], self.data[size:]
            size -= len(piece)
            yield piece


released = threading.Semaphore(0)


def answer(connection, body, kind=b"text/plain"):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)) + body)


def serve(connection):
    reader = Reader(connection)
    head = reader.until(b"\r\n\r\n")
    method, target, _ = head.split(b"\r\n")[0].split(b" ")
    words = target.decode().split("?")[0].split("/")
    what, name = words[1], words[2] if len(words) > 2 else ""
    if what in ("hostile", "good"):
        connection.sendall((HOSTILE if what == "hostile" else GOOD)[name])
    elif what == "count":
        digest, n = hashlib.sha256(), 0
        for piece in reader.body(head):
            digest.update(piece)
            n += len(piece)
        answer(connection, b"%d %s" % (n, digest.hexdigest().encode()))
    elif what == "big":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % int(name))
        for _ in range(int(name) >> 16):
            connection.sendall(b"x" * 65536)
    elif what == "chunked":
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(int(name) >> 16):
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
    elif what == "events":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for n in range(3):
            connection.sendall(b"data: %d\n\n" % n)
            released.acquire()
    elif what == "release":
        released.release()
        answer(connection, b"")
    elif what == "never":
        reader.more()
    elif what == "stop-reading":
        released.acquire()
    elif what == "refuse":
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    elif what == "mirror":  # answers while it reads
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in reader.body(head):
            connection.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
    elif what == "socket":
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                           b"Sec-WebSocket-Accept: yes\r\n\r\nfirst")
        while data := reader.data or connection.recv(1 << 16):
            reader.data = b""
            connection.sendall(data.upper())
        connection.sendall(b"bye")
    elif what == "no-socket":
        connection.sendall(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno")
    else:
        answer(connection, head + b"\r\n\r\n" + b"".join(reader.body(head)))


def run(connection):
    try:
        serve(connection)
    except (OSError, EOFError):
        pass
    connection.close()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64) as server:
        while True:
            threading.Thread(target=run, args=server.accept()[:1], daemon=True).start()
