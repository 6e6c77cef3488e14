# SPDX-License-Identifier: Apache-2.0
"""A client of the agent socket: JSON-RPC 2.0, one message a line."""

import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
import time

PATIENCE = 300 if "CLOISTER_VM" in os.environ else 120  # seconds; a slower answer is a failure


class RpcError(Exception):
    """An error answer: .code, .message and, for server errors with a name, .name and, if it is BUSY, .retry_after_ms."""

    def __init__(self, error):
        super().__init__(error)
        self.code = error["code"]
        self.message = error["message"]
        self.name = error.get("data", {}).get("code")
        self.retry_after_ms = error.get("data", {}).get("retry_after_ms")


def become(uid, gid, groups):
    os.seteuid(os.getuid())
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)


@contextlib.contextmanager
def acting_as(uid, gid=None, groups=()):
    """Changes root's effective ids for the duration: SO_PEERCRED and permissions depend on them."""
    old = os.geteuid(), os.getegid(), os.getgroups()
    if os.getuid() != 0 or uid in (None, old[0]):
        yield
        return
    become(uid, uid if gid is None else gid, list(groups))
    try:
        yield
    finally:
        become(*old)


class Client:
    """One connection. Answers may come in any order; the client keeps those that come before they are asked for."""

    def __init__(self, path, uid=None, gid=None, groups=()):
        self.socket = socket.socket(socket.AF_UNIX)
        with acting_as(uid, gid, groups):
            self.socket.connect(str(path))
        self.socket.settimeout(PATIENCE)
        self.buffer = b""
        self.last_id = 0
        self.answers = []  # in the order in which they came
        self.notifications = []

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_raw(self, data):
        self.socket.sendall(data)

    def unread(self):
        """Returns the number of sent bytes that cloisterd has not read yet: SIOCOUTQ, unix(7)."""
        return struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)))[0]

    def send(self, message):
        self.send_raw(json.dumps(message).encode() + b"\n")

    def request(self, method, params=None, number=None):
        """Sends a request and returns its id."""
        if number is None:
            self.last_id += 1
            number = self.last_id
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return number

    def notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def fill(self, deadline):
        """Receives once. Returns whether something came, and not the end of the connection."""
        self.socket.settimeout(max(0.001, deadline - time.monotonic()))
        data = self.socket.recv(1 << 20)
        assert data or not self.buffer, "the connection ended in the middle of a message"
        self.buffer += data
        return bool(data)

    def receive_line(self, timeout=PATIENCE):
        """Returns the next line without its newline; None at the end of the connection."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            if not self.fill(deadline):
                return None
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def receive(self, timeout=PATIENCE):
        line = self.receive_line(timeout)
        if line is None:
            return None
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        length = message.get("params", {}).get("bytes", 0)  # of output behind the line
        deadline = time.monotonic() + timeout
        while len(self.buffer) < length:
            assert self.fill(deadline), "the connection ended in the middle of a message"
        if length:
            message["payload"], self.buffer = self.buffer[:length], self.buffer[length:]
        return message

    def receive_any(self, timeout=PATIENCE):
        """Returns the next answer, to any request. Notifications are kept."""
        if self.answers:
            return self.answers.pop(0)
        while True:
            message = self.receive(timeout)
            if message is None:
                raise ConnectionError("cloisterd closed the connection")
            if "method" not in message:
                return message
            self.notifications.append(message)

    def wait(self, number, timeout=PATIENCE):
        """Returns the complete answer to the request with this id."""
        for i, answer in enumerate(self.answers):
            if answer["id"] == number:
                return self.answers.pop(i)
        others, self.answers = self.answers, []
        while True:
            answer = self.receive_any(timeout)
            if answer["id"] == number:
                self.answers = others
                return answer
            others.append(answer)

    def result(self, number, timeout=PATIENCE):
        answer = self.wait(number, timeout)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def call(self, method, params=None, timeout=PATIENCE):
        return self.result(self.request(method, params), timeout)

    def call_error(self, method, params=None):
        """Returns the name of the error; fails if the answer is none."""
        return self.wait(self.request(method, params))["error"]["data"]["code"]

    def begin(self, tool, arguments, options=None, workspace=None):
        """Sends a tool call and returns its id."""
        params = {"tool": tool, "arguments": arguments}
        if options is not None:
            params["options"] = options
        if workspace is not None:
            params["workspace"] = workspace
        return self.request("tool.call", params)

    def observe(self, tool, arguments, options=None, workspace=None, timeout=PATIENCE):
        """Makes a tool call, checks the form of its observation and returns the observation."""
        observation = self.result(self.begin(tool, arguments, options, workspace), timeout)
        check_observation(observation, tool)
        return observation

    def use(self, tool, options=None, **arguments):
        """Makes a tool call that must succeed and returns its output."""
        observation = self.observe(tool, arguments, options)
        assert observation["success"], observation["error"]
        return observation["output"]

    def fail(self, tool, options=None, **arguments):
        """Makes a tool call that must fail and returns its error: code and message."""
        observation = self.observe(tool, arguments, options)
        assert not observation["success"], observation
        return observation["error"]

    def run(self, command, options=None, **arguments):
        return self.use("run_command", options, command=command, **arguments)

    def cancel(self, number):
        return self.call("tool.cancel", {"id": number})["cancelled"]


def check_observation(observation, tool):
    assert set(observation) >= {"success", "tool", "output", "error", "usage"}
    assert observation["tool"] == tool
    assert isinstance(observation["usage"]["wall_us"], int)
    if observation["success"]:
        assert observation["error"] is None
        assert isinstance(observation["output"], dict)
    else:
        assert set(observation["error"]) - {"retry_after_ms", "data"} == {"code", "message"}
        # Only BUSY answers say when to try again, and all of them do.
        busy = observation["error"]["code"] == "BUSY"
        assert busy == ("retry_after_ms" in observation["error"]), observation
        assert observation["error"]["message"]
