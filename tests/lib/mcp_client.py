# SPDX-License-Identifier: Apache-2.0
"""A client of MCP over stdio or the agent socket. It checks every message that it gets against the official schema."""

import copy
import json
import os
import pathlib
import queue
import threading
import time

from cloister_client import PATIENCE

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "mcp"
MODERN, LEGACY, OLDEST = "2026-07-28", "2025-11-25", "2025-06-18"
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
RESULTS = {"initialize": "InitializeResult", "ping": "EmptyResult", "server/discover": "DiscoverResult",
           "tools/list": "ListToolsResult", "tools/call": "CallToolResult"}
NOTIFICATIONS = {"notifications/progress": "ProgressNotification"}

EXTENSION = {"tools/call": "CreateTaskResult", "tasks/get": "GetTaskResult", "tasks/cancel": "CancelTaskResult",
             "tasks/update": "UpdateTaskResult"}  # results of the extension for tasks, in 2026-07-28

_validators = {}


def extension_validator(name):
    """Returns a validator for the definition @name of the extension for tasks. CLOISTER_MCP_TASKS_SCHEMA may name the
    official schema; the tests' own says the same (data/mcp/README.md)."""
    import jsonschema

    path = os.environ.get("CLOISTER_MCP_TASKS_SCHEMA") or DATA / "tasks-2026-07-28.json"
    if ("extension", name) not in _validators:
        schema = json.loads(pathlib.Path(path).read_text())
        schema["$ref"] = f"#/$defs/{name}"
        _validators["extension", name] = jsonschema.Draft202012Validator(schema)
    return _validators["extension", name]


def validator(revision, name):
    """Returns a validator for the definition @name. Messages of 2025-06-18 are checked with the schema of 2025-11-25,
    which for a tool server only adds to them."""
    import jsonschema  # only these tests need the package

    revision = LEGACY if revision == OLDEST else revision
    if (revision, name) not in _validators:
        schema = json.loads((DATA / f"{revision}.json").read_text())
        schema["$ref"] = f"#/$defs/{name}"
        _validators[revision, name] = jsonschema.Draft202012Validator(schema)
    return _validators[revision, name]


def closed(schema):
    """Returns @schema changed so that no object may have members that it does not describe."""
    schema = copy.deepcopy(schema)

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part.setdefault("additionalProperties", False)
            for value in part.values():
                close(value)
    close(schema)
    return schema


def meta(revision, **more):
    if revision != MODERN:
        return more
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
            META + "clientInfo": {"name": "tests", "version": "1"}, **more}


class Pipes:
    """A server's stdin and stdout."""

    def __init__(self, process):
        self.process = process
        self.lines = queue.Queue()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send_raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive_line(self, timeout):
        line = self.lines.get(timeout=timeout)
        if line is None:
            return None
        assert line.endswith(b"\n"), line
        return line[:-1]

    def close(self):
        """Closes the server's stdin. Returns its exit status."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


class Mcp:
    """Speaks one revision over Pipes, or over a cloister_client.Client."""

    def __init__(self, pipes, revision=MODERN):
        self.pipes, self.revision = pipes, revision
        self.capabilities = {}  # that requests of 2026-07-28 have
        self.last_id = 0
        self.methods = {}  # of requests in flight, by id
        self.messages = []  # all messages received
        self.progress = []
        self.output_schemas = None

    def send(self, message):
        self.pipes.send_raw(json.dumps(message).encode() + b"\n")

    def request(self, method, params=None, number=None, **more):
        """Sends a request and returns its id. @more goes into _meta."""
        if number is None:
            self.last_id += 1
            number = self.last_id
        params = dict(params or {})
        whole = meta(self.revision, **more)
        if self.revision == MODERN:
            whole = {**whole, META + "clientCapabilities": self.capabilities, **more}
        if whole or method == "initialize":
            params.setdefault("_meta", whole)
        self.methods[number] = method
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def receive(self, timeout=PATIENCE):
        """Returns the next message, which must match the schema; None at the end."""
        line = self.pipes.receive_line(timeout)
        if line is None:
            return None
        message = json.loads(line.decode("utf-8"))
        self.messages.append(message)
        self.check(message)
        return message

    def check(self, message):
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            assert "id" not in message, "a server sends no requests"
            validator(self.revision, "ServerNotification").validate(message)
            validator(self.revision, NOTIFICATIONS[message["method"]]).validate(message)
        elif "error" in message:
            validator(self.revision, "JSONRPCErrorResponse").validate(message)
            code = message["error"]["code"]
            assert code in (-32700, -32600, -32601, -32602, -32603, -32021, -32022), "no other code is defined"
            if code == -32021:
                validator(MODERN, "MissingRequiredClientCapabilityError").validate(message)
            if code == -32022:
                validator(MODERN, "UnsupportedProtocolVersionError").validate(message)
        else:
            validator(self.revision, "JSONRPCResultResponse").validate(message)
            method = self.methods.pop(message["id"])
            if self.revision == MODERN and (method in EXTENSION and method != "tools/call"
                                            or message["result"]["resultType"] == "task"):
                self.check_task(method, message["result"])
                return
            validator(self.revision, RESULTS[method]).validate(message["result"])
            if RESULTS[method] == "CallToolResult" and self.output_schemas:
                self.check_structured(message["result"])

    def check_task(self, method, result):
        extension_validator(EXTENSION[method]).validate(result)
        assert result["_meta"][META + "serverInfo"]["name"] == "cloister"
        if result.get("status") == "completed":
            validator(MODERN, "CallToolResult").validate(result["result"])
            if self.output_schemas:
                self.check_structured(result["result"])

    def check_structured(self, result):
        import jsonschema

        observation = result["structuredContent"]
        jsonschema.Draft202012Validator(self.output_schemas[observation["tool"]]).validate(observation)
        block = result["content"][0]
        assert block["type"] == "text" and block["text"]
        if not observation["success"]:
            error = observation["error"]
            assert block["text"].startswith(f"{error['code']}: {error['message']}")
        assert result["isError"] is not observation["success"]

    def wait(self, number, timeout=PATIENCE):
        """Returns the answer to the request @number. Keeps progress; no other message may come in between."""
        deadline = time.monotonic() + timeout
        while True:
            message = self.receive(deadline - time.monotonic())
            assert message is not None, "the server ended"
            if "method" in message:
                self.progress.append(message["params"])
            elif "id" not in message or message["id"] == number:
                return message

    def result(self, method, params=None, **more):
        answer = self.wait(self.request(method, params, **more))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None, **more):
        answer = self.wait(self.request(method, params, **more))
        assert "error" in answer, answer
        return answer["error"]

    def initialize(self, version=None):
        result = self.result("initialize", {
            "protocolVersion": version or self.revision, "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"}})
        self.notify("notifications/initialized")
        return result

    def ready(self):
        """Begins the session if the revision has one, and lists the tools."""
        if self.revision != MODERN:
            self.initialize()
        tools = self.result("tools/list")["tools"]
        self.output_schemas = {tool["name"]: closed(tool["outputSchema"]) for tool in tools}
        return self

    def begin(self, tool, arguments, **more):
        return self.request("tools/call", {"name": tool, "arguments": arguments}, **more)

    def call(self, tool, more=None, **arguments):
        """Returns the result of a call and checks its form."""
        answer = self.wait(self.begin(tool, arguments, **(more or {})))
        assert "result" in answer, answer
        return answer["result"]
