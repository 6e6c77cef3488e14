#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small agent for Ollama whose tools run in a cloister workspace. usage: agent.py DIRECTORY PROMPT"""

import json
import os
import sys
import urllib.parse
import urllib.request

import cloister

ROUNDS = 25
MODEL = os.environ.get("MODEL", "qwen3:4b")


def ollama(host):
    """The URL for OLLAMA_HOST, which Ollama takes without its scheme and its port too."""
    parts = urllib.parse.urlsplit(host if "://" in host else f"//{host}")
    name = parts.hostname or "127.0.0.1"
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 11434)
    return f"{parts.scheme or 'http'}://{f'[{name}]' if ':' in name else name}:{port}{parts.path.rstrip('/')}"


def chat(messages, tools):
    """The model's next message."""
    body = {"model": MODEL, "messages": messages, "tools": tools, "stream": False}
    request = urllib.request.Request(
        ollama(os.environ.get("OLLAMA_HOST", "")) + "/api/chat", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["message"]


def run(client, prompt):
    tools = client.tools_list("ollama")["tools"]
    messages = [{"role": "user", "content": prompt}]
    for _ in range(ROUNDS):
        message = chat(messages, tools)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            messages.append(client.answer(call))
    raise RuntimeError(f"the model was not done after {ROUNDS} rounds")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: agent.py DIRECTORY PROMPT")
    try:
        with cloister.Client() as client:
            client.workspace(os.path.realpath(sys.argv[1]))
            print(run(client, sys.argv[2]))
    except (OSError, ValueError, RuntimeError, cloister.CloisterError) as error:
        sys.exit(f"agent: {error}")


if __name__ == "__main__":
    main()
