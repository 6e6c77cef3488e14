#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small agent for Ollama whose tools run in a cloister workspace. usage: agent.py DIRECTORY PROMPT"""

import json
import os
import socket
import sys
import urllib.request

ROUNDS = 25
RUNTIME = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
SOCKET = os.environ.get("CLOISTER_SOCKET", f"{RUNTIME}/cloister/agent.sock")
OLLAMA = os.environ.get("OLLAMA_HOST", "http://127.0.0.1:11434")
MODEL = os.environ.get("MODEL", "qwen3:4b")


class Cloister:
    """JSON-RPC 2.0 over the agent socket, one message a line; one request at a time."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")
        self.last_id = 0

    def request(self, method, **params):
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        line = self.lines.readline()
        if not line:
            raise ConnectionError("cloisterd closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]


def chat(messages, tools):
    """The model's next message."""
    body = {"model": MODEL, "messages": messages, "tools": tools, "stream": False}
    request = urllib.request.Request(
        OLLAMA + "/api/chat", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["message"]


def run(cloister, prompt):
    tools = cloister.request("tools.list", format="ollama")["tools"]
    messages = [{"role": "user", "content": prompt}]
    for _ in range(ROUNDS):
        message = chat(messages, tools)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            messages.append(cloister.request("tool.call", tool_call=call, options={"reply": "message"}))
    raise RuntimeError(f"the model was not done after {ROUNDS} rounds")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: agent.py DIRECTORY PROMPT")
    try:
        cloister = Cloister(SOCKET)
        cloister.request("workspace.open", root=os.path.realpath(sys.argv[1]), kind="directory")
        print(run(cloister, sys.argv[2]))
    except (OSError, RuntimeError) as error:
        sys.exit(f"agent: {error}")


if __name__ == "__main__":
    main()
