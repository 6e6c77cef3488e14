# SPDX-License-Identifier: Apache-2.0
"""A client of cloister-gate as E2B's are, which shows every byte. tests/e2b runs the clients' own tests."""

import base64
import json
import struct

END = 2


def ask(gate, key, method, path, value=None):
    body = b"" if value is None else json.dumps(value).encode()
    return gate.request(method, path, key, [f"X-API-Key: {key}", "Content-Type: application/json"], body)


class Sandbox:
    def __init__(self, gate, key, **wanted):
        self.gate, self.key = gate, key
        answer = ask(gate, key, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, "secure": True, **wanted})
        assert answer.status == 201, answer.body
        self.made = answer.json()
        self.id, self.token = self.made["sandboxID"], self.made.get("envdAccessToken")

    def headers(self, *more, token=None):
        return [f"E2b-Sandbox-Id: {self.id}", f"X-Access-Token: {token or self.token}", *more]

    def request(self, method, path, *headers, body=b"", token=None):
        return self.gate.request(method, path, None, self.headers(*headers, token=token), body)

    def rpc(self, method, **params):
        answer = self.request("POST", f"/{method}", "Content-Type: application/json", body=json.dumps(params).encode())
        return answer.status, answer.json()

    def stream(self, method, *headers, **params):
        """Yields the messages of a stream; the last is of its end."""
        body = json.dumps(params).encode()
        body = struct.pack(">BI", 0, len(body)) + body
        with self.gate.connect() as connection:
            connection.send(self.gate.head("POST", f"/{method}", None, *self.headers(
                "Content-Type: application/connect+json", f"Content-Length: {len(body)}", *headers)).encode() + body)
            yield from frames(connection)

    def run(self, command, **more):
        out, end, pid = {"stdout": b"", "stderr": b"", "pty": b""}, None, None
        last = None
        for flags, message in self.stream("process.Process/Start", process={"cmd": "/bin/bash", "args": ["-c", command]}, **more):
            last = message
            event = message.get("event", {})
            pid = event.get("start", {}).get("pid", pid)
            end = event.get("end", end)
            for stream, data in event.get("data", {}).items():
                out[stream] += base64.b64decode(data)
        assert flags == END
        return out, end, pid, last

    def kill(self):
        return ask(self.gate, self.key, "DELETE", f"/sandboxes/{self.id}").status


def chunks(connection):
    """Yields the bytes of a chunked body."""
    while True:
        size = int(connection.line(), 16)
        while len(connection.read) < size + 2:
            assert connection.more()
        yield connection.read[:size]
        connection.read = connection.read[size + 2:]
        if size == 0:
            return


def frames(connection):
    while b"\r\n\r\n" not in connection.read:
        assert connection.more()
    head, connection.read = connection.read.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200"), head + connection.read
    data = b""
    for chunk in chunks(connection):
        data += chunk
        while len(data) >= 5:
            flags, length = struct.unpack(">BI", data[:5])
            if len(data) < 5 + length:
                break
            yield flags, json.loads(data[5:5 + length])
            data = data[5 + length:]
    assert data == b""
