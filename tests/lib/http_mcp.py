# SPDX-License-Identifier: Apache-2.0
"""A client of MCP by Streamable HTTP, of which the test says each request."""

import json
import re

BOTH = "Accept: application/json, text/event-stream"
LEGACY, OLDEST, MODERN = "2025-11-25", "2025-06-18", "2026-07-28"


def message(method, number=None, **params):
    said = {"jsonrpc": "2.0", "method": method, "params": params}
    return said if number is None else {**said, "id": number}


def tool(number, name, token=None, **arguments):
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return message("tools/call", number, name=name, arguments=arguments, **meta)


def run(number, command, token=None):
    return tool(number, "run_command", token, command=command)


class HttpMcp:
    def __init__(self, gate, key, query="?workspace=mcp", session=None, version=None):
        self.gate, self.key, self.path = gate, key, "/mcp" + query
        self.session, self.version = session, version

    def headers(self, *more):
        return [*([f"Mcp-Session-Id: {self.session}"] if self.session else []),
                *([f"MCP-Protocol-Version: {self.version}"] if self.version else []), *more]

    def ask(self, said, *headers, method="POST", accept=BOTH):
        """Sends a request, and returns its whole answer."""
        body = said if isinstance(said, bytes) else json.dumps(said).encode() if said else b""
        return self.gate.request(method, self.path, self.key, self.headers(accept, *headers), body)

    def result(self, said, *headers):
        answer = self.ask(said, *headers)
        assert answer.status == 200, (answer.head, answer.body)
        assert answer.headers["content-type"] == "application/json", answer.head
        got = answer.json()
        assert got["id"] == said["id"]
        return got["result"]

    def initialize(self, version=LEGACY):
        answer = self.ask(message("initialize", "first", protocolVersion=version, capabilities={},
                                  clientInfo={"name": "tests", "version": "1"}))
        assert answer.status == 200, (answer.head, answer.body)
        result = answer.json()["result"]
        self.session, self.version = answer.headers["mcp-session-id"], result["protocolVersion"]
        assert self.ask(message("notifications/initialized")).status == 202
        return result

    def resume(self, last):
        """Asks for what came after the event @last, and returns the stream."""
        return self.open(None, "GET", [f"Last-Event-ID: {last}"]).begin()

    def open(self, said, method="POST", headers=()):
        """Sends a request whose answer is a stream, and returns the stream."""
        body = json.dumps(said).encode() if said else b""
        connection = self.gate.connect()
        lengths = [f"Content-Length: {len(body)}"] if said else []
        connection.send(self.gate.head(method, self.path, self.key, *self.headers(BOTH, *lengths, *headers)).encode() + body)
        return Stream(connection)

    def modern(self, said, **headers):
        """Sends a request of 2026-07-28 with the headers that it needs."""
        if "id" in said:
            said["params"].setdefault("_meta", {}).update({
                "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}})
        wanted = {"MCP-Protocol-Version": MODERN, "Mcp-Method": said["method"], "Mcp-Name": said["params"].get("name"),
                  **{name.replace("_", "-"): value for name, value in headers.items()}}
        return said, [f"{name}: {value}" for name, value in wanted.items() if value is not None]

    def ask_modern(self, said, **headers):
        said, lines = self.modern(said, **headers)
        return self.ask(said, *lines)


class Stream:
    """An answer that is a stream of events."""

    def __init__(self, connection):
        self.connection = connection
        self.head = None
        self.last = None  # the id of the last event

    def begin(self):
        while b"\r\n\r\n" not in self.connection.read:
            assert self.connection.more(), self.connection.read
        head, self.connection.read = self.connection.read.split(b"\r\n\r\n", 1)
        self.head = head.decode().lower()
        return self

    def events(self):
        """Yields the messages of the stream until it ends; the chunks of HTTP are taken apart."""
        assert "content-type: text/event-stream" in self.head, self.head
        whole = re.search("content-length: (\\d+)", self.head)  # of a stream that has ended already
        text = b""
        while True:
            length = int(whole[1]) if whole else int(self.connection.line(), 16)
            end = 0 if whole else 2
            while len(self.connection.read) < length + end:
                assert self.connection.more()
            text += self.connection.read[:length]
            self.connection.read = self.connection.read[length + end:]
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                data = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
                ids = [line[4:].decode() for line in event.split(b"\n") if line.startswith(b"id: ")]
                self.last = ids[0] if ids else self.last
                if any(data):
                    yield json.loads(b"\n".join(data))
            if whole or length == 0:
                assert text == b""
                return
