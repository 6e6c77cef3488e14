# SPDX-License-Identifier: Apache-2.0
"""A server that speaks Ollama's /api/chat and OpenAI's chat completions, and answers with recorded messages in their
order."""

import http.server
import json
import threading


class ModelServer:
    """Answers with the assistant's @messages in order. Keeps the requests in .requests, and wrong ones also in
    .faults."""

    def __init__(self, messages):
        self.messages, self.requests, self.faults = list(messages), [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = outer.answer(self.path, body)
                self.send_response(200 if answer else 400)
                data = json.dumps(answer or {"error": "not what was expected"}).encode()
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, path, body):
        try:
            request = json.loads(body)
        except ValueError:
            request = None
        self.requests.append(request)
        number = len(self.requests) - 1
        if path not in ("/api/chat", "/v1/chat/completions") or not request or request.get("stream") \
                or number >= len(self.messages):
            self.faults.append((path, body))
            return None
        if path != "/api/chat":
            return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": request["model"],
                    "choices": [{"index": 0, "message": self.messages[number], "finish_reason": "stop"}]}
        return {"model": request["model"], "created_at": "2026-01-01T00:00:00Z", "done": True,
                "done_reason": "stop", "message": self.messages[number]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
