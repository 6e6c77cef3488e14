#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small agent for Ollama whose tools run in a cloister workspace. usage: agent.py DIRECTORY PROMPT"""

import json
import os
import sys
import urllib.request

import cloister

ROUNDS = 25
OLLAMA = os.environ.get("OLLAMA_HOST", "http://127.0.0.1:11434")
MODEL = os.environ.get("MODEL", "qwen3:4b")


def chat(messages, tools):
    """The model's next message."""
    body = {"model": MODEL, "messages": messages, "tools": tools, "stream": False}
    request = urllib.request.Request(
        OLLAMA + "/api/chat", json.dumps(body).encode(), {"Content-Type": "application/json"})
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
    except (OSError, RuntimeError, cloister.CloisterError) as error:
        sys.exit(f"agent: {error}")


if __name__ == "__main__":
    main()
