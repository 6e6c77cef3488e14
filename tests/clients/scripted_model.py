# SPDX-License-Identifier: Apache-2.0
"""A model endpoint that plays a script. It speaks Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's API
with and without streaming, as far as harnesses use them."""

import http.server
import json
import re
import threading

TEXT = "The script is over."
# What a harness asks beside the conversation, such as a title, has no tools and gets this answer.
ASIDE = json.dumps({"title": "script", "reasoning": "script", "next_speaker": "user"})


def blocks(messages, kind):
    """The blocks of one type in a list of messages, each of whose content is a list or a text."""
    return [block for message in messages if isinstance(message.get("content"), list)
            for block in message["content"] if block.get("type") == kind]


class Anthropic:
    """POST /v1/messages"""
    path = re.compile(r"/v1/messages$")

    def offered(self, request):
        return {tool["name"]: tool for tool in request.get("tools") or []}

    def results(self, request):
        return [json.dumps(block.get("content"), ensure_ascii=False) for block in blocks(request["messages"], "tool_result")]

    def answer(self, request, step, number):
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request["model"], "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if isinstance(step, str):
            block, given = {"type": "text", "text": ""}, {"type": "text_delta", "text": step}
            whole, reason = {"type": "text", "text": step}, "end_turn"
        else:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": step["name"], "input": {}}
            given = {"type": "input_json_delta", "partial_json": json.dumps(step["arguments"])}
            whole, reason = {**block, "input": step["arguments"]}, "tool_use"
        if not request.get("stream"):
            return {**message, "content": [whole], "stop_reason": reason}
        return [("message_start", {"message": message}),
                ("content_block_start", {"index": 0, "content_block": block}),
                ("content_block_delta", {"index": 0, "delta": given}),
                ("content_block_stop", {"index": 0}),
                ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}}),
                ("message_stop", {})]

    def event(self, event):
        kind, data = event
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


class Responses:
    """POST /v1/responses"""
    path = re.compile(r"/v1/responses$")

    def offered(self, request):
        """A namespace is a tool that has tools. Some models get theirs as an item of the conversation."""
        found = {}
        tools = list(request.get("tools") or [])
        for item in request["input"]:
            tools += item["tools"] if item.get("type") == "additional_tools" else []
        for tool in tools:
            name = tool.get("name", tool["type"])
            if tool["type"] == "namespace":
                found.update({f"{name}/{inner['name']}": inner for inner in tool["tools"]})
            else:
                found[name] = tool
        return found

    def results(self, request):
        return [json.dumps(item.get("output"), ensure_ascii=False) for item in request["input"]
                if item.get("type") in ("function_call_output", "custom_tool_call_output")]

    def answer(self, request, step, number):
        if isinstance(step, str):
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": step, "annotations": []}]}
        elif isinstance(step["arguments"], str):
            item = {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"call_{number}",
                    "name": step["name"].rpartition("/")[2],
                    "input": step["arguments"]}
        else:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                    "name": step["name"].rpartition("/")[2], "arguments": json.dumps(step["arguments"])}
        if not isinstance(step, str) and "/" in step["name"]:
            item["namespace"] = step["name"].partition("/")[0]
        whole = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": request["model"], "status": "completed",
                 "output": [item], "usage": {
                     "input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
                     "output_tokens_details": {"reasoning_tokens": 0}}}
        if not request.get("stream"):
            return whole
        return [("response.created", {"response": {**whole, "status": "in_progress", "output": []}}),
                ("response.output_item.added", {"output_index": 0, "item": item}),
                ("response.output_item.done", {"output_index": 0, "item": item}),
                ("response.completed", {"response": whole})]

    event = Anthropic.event


class Chat:
    """POST /v1/chat/completions"""
    path = re.compile(r"/v1/chat/completions$")

    def offered(self, request):
        return {tool["function"]["name"]: tool for tool in request.get("tools") or []}

    def results(self, request):
        return [json.dumps(message["content"], ensure_ascii=False) for message in request["messages"] if message["role"] == "tool"]

    def answer(self, request, step, number):
        message = {"role": "assistant", "content": step}
        if not isinstance(step, str):
            message = {"role": "assistant", "content": None, "tool_calls": [
                {"index": 0, "id": f"call_{number}", "type": "function",
                 "function": {"name": step["name"], "arguments": json.dumps(step["arguments"])}}]}
        whole = {"id": f"chatcmpl-{number}", "created": 0, "model": request["model"],
                 "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        reason = "stop" if isinstance(step, str) else "tool_calls"
        if not request.get("stream"):
            return {**whole, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
        return [{**whole, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                {**whole, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
                None]

    def event(self, event):
        return f"data: {json.dumps(event) if event else '[DONE]'}\n\n"


class Gemini:
    """POST /v1beta/models/MODEL:generateContent and :streamGenerateContent"""
    path = re.compile(r"/v1beta/models/[^/:]+:(?:streamG|g)enerateContent$")

    def offered(self, request):
        return {tool["name"]: tool for group in request.get("tools") or [] for tool in group.get("functionDeclarations", [])}

    def results(self, request):
        return [json.dumps(part["functionResponse"]["response"], ensure_ascii=False) for content in request["contents"]
                for part in content["parts"] if "functionResponse" in part]

    def answer(self, request, step, number):
        part = {"text": step} if isinstance(step, str) else {
            "functionCall": {"id": f"call_{number}", "name": step["name"], "args": step["arguments"]}}
        whole = {"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]}}],
                 "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        return [whole] if request["stream"] else whole

    event = Chat.event


APIS = (Anthropic(), Responses(), Chat(), Gemini())


class ScriptedModel:
    """Plays @script, a list of calls {"name", "arguments"}, or of functions that make one of the results so far: the next is the
    one after as many as the conversation has results of. A name "cloister:TOOL" is that of the tool as the harness offers it. In .offered are the tools that were offered with any
    request, in .results those of the longest conversation, in .unknown what was asked and is none of these APIs."""

    def __init__(self, script):
        self.script = script
        self.offered, self.results, self.unknown, self.count = {}, [], [], 0
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = self.path.partition("?")[0]
                api = next((api for api in APIS if api.path.search(path)), None)
                if not api:
                    return self.refuse()
                request = json.loads(body)
                if isinstance(api, Gemini):
                    request["stream"] = ":stream" in path
                answer = outer.answer(api, request)
                if isinstance(answer, list):
                    return self.send("text/event-stream", "".join(map(api.event, answer)))
                return self.send("application/json", json.dumps(answer))

            def refuse(self):
                outer.unknown.append(f"{self.command} {self.path}")
                self.send("application/json", json.dumps({"error": {"message": "not known here"}}), 404)

            do_GET = do_HEAD = refuse

            def send(self, kind, text, status=200):
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                """A harness that ends in the middle of an answer is no fault."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, api, request):
        offered, results = api.offered(request), api.results(request)
        with self.lock:
            self.count += 1
            number = self.count
            self.offered.update(offered)
            if len(results) > len(self.results):
                self.results = results
        if not offered:
            return api.answer(request, ASIDE, number)
        if len(results) >= len(self.script):
            return api.answer(request, TEXT, number)
        step = self.script[len(results)]
        if callable(step):
            step = step(results)
        return api.answer(request, {**step, "name": self.name(step["name"])}, number)

    def name(self, name):
        """The name under which the harness offers a tool of cloister; any other name as it is."""
        server, _, tool = name.partition(":")
        if server != "cloister":
            return name
        return next((known for known in self.offered if re.fullmatch(rf".*cloister[_/]+{tool}", known)),
                    f"mcp__cloister/{tool}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
