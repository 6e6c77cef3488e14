# SPDX-License-Identifier: Apache-2.0
"""A day of thirty steps in each harness: with cloister as its MCP server, by stdio and by HTTP, and with the harness's own tools.
What cloister sends reaches the model whole. CLOISTER_DAY names a file for the table of what each step costs the model."""

import contextlib
import functools
import http.client
import http.server
import json
import os
import re
import shutil
import subprocess
import threading

import day
import pytest
import test_harnesses
from conftest import Place
from daemon import AM_ROOT, where_is
from loopback import free_port
from scripted_model import ScriptedModel

HARNESSES = {name: test_harnesses.HARNESSES[name] for name in day.OWN}
WAYS = ("stdio", "HTTP", "own")
pytestmark = pytest.mark.skipif(not AM_ROOT, reason="needs root to make a user")


def texts_of(value):
    """The texts of a result, as the model gets them: of blocks, or of an object's texts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in texts_of(each)]
    if isinstance(value, dict):
        return [text for key, each in value.items() if key != "type" for text in texts_of(each)]
    return []


class Sent:
    """What cloister has sent as results of tools: in .texts, in their order."""

    def __init__(self):
        self.texts = []

    def note(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            return
        result = message.get("result") if isinstance(message, dict) else None
        if isinstance(result, dict) and "content" in result:
            self.texts.append("".join(block["text"] for block in result["content"]))


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on to a gate, and notes what it answers."""
    protocol_version = "HTTP/1.0"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(*self.server.gate, timeout=300)
        connection.request(self.command, self.path, body, {name: value for name, value in self.headers.items()
                                                          if name.lower() not in ("host", "connection", "accept-encoding")})
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "keep-alive", "server", "date"):
                self.send_header(name, value)
        self.end_headers()
        said = b""
        while piece := answer.read1(65536):
            said += piece
            self.wfile.write(piece)
            self.wfile.flush()
        for line in said.splitlines():
            self.server.sent.note(line.removeprefix(b"data: "))

    do_GET = do_DELETE = do_POST

    def log_message(self, *_):
        pass


def serve_between(port, sent):
    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """A client that leaves is no fault."""

    server = Server(("127.0.0.1", 0), Between)
    server.gate, server.sent = ("127.0.0.1", port), sent
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Gate:
    """`cloister gate` of the place's user, with the project in a workspace."""

    def __init__(self, place):
        self.process = subprocess.Popen([place.area.bin / "cloister", "gate"], cwd=place.home, env=place.env, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True, **place.area.account.as_user())

    def wait(self):
        """Until it serves, at .port with .key."""
        said = dict(self.process.stdout.readline().split() for _ in ("url", "key"))
        self.port, self.key = int(said["url"].rpartition(":")[2]), said["key"]

    def put(self, files):
        """Writes the project, by MCP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        heads = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

        def ask(method, number=None, **params):
            said = {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}
            connection.request("POST", "/mcp?workspace=day", json.dumps(said), heads)
            answer = connection.getresponse()
            return answer, answer.read()

        answer, _ = ask("initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "tests", "version": "1"})
        heads["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        ask("notifications/initialized")
        for number, (name, text) in enumerate(files.items(), 2):
            _, said = ask("tools/call", number, name="write_file", arguments={"path": name, "content": text})
            assert not json.loads(said)["result"]["isError"], said
        connection.request("DELETE", "/mcp?workspace=day", headers=heads)
        connection.getresponse().read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def set_up(place, name):
    """The recipe's files. Returns their directory."""
    recipe = place.run("cloister", "--workspace", place.workspace, "harness", name)
    assert place.run("sh", input=recipe.stdout).returncode == 0, recipe
    return place.home / ".config" / "cloister" / name


def by_stdio(place, log):
    """What `cloister mcp` writes is also kept in @log."""
    wrapper = place.home / "bin" / "cloister"
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\n{place.area.bin}/cloister \"$@\" | tee -a {log}\n")
    wrapper.chmod(0o755)
    place.env["PATH"] = f"{wrapper.parent}:{place.env['PATH']}"


def by_http(place, directory, name, url, key):
    """The recipe with the server's URL and key in the place of its program."""
    heads = {"Authorization": f"Bearer {key}"}
    place.env["CLOISTER_KEY"] = key
    path = next(path for path in directory.iterdir() if path.suffix in (".json", ".toml"))
    text = path.read_text()
    if name == "codex":
        text = re.sub(r"command = .*\nargs = .*\n", f'url = "{url}"\nbearer_token_env_var = "CLOISTER_KEY"\n', text)
    else:
        settings = json.loads(text)
        if name == "opencode":
            settings["mcp"]["cloister"] = {"type": "remote", "url": url, "headers": heads, "oauth": False, "timeout": 3600000}
        else:
            kind = {"claude": {"type": "http", "url": url}, "gemini": {"httpUrl": url, "trust": True, "timeout": 3600000}}[name]
            settings["mcpServers"]["cloister"] = {**kind, "headers": heads}
        text = json.dumps(settings)
    path.write_text(text)


class Day:
    """One harness's day, one way: what its model was shown of each step in .shown, and what cloister has sent in .sent."""

    def __init__(self, area, programs, name, way):
        self.name, self.way, self.place = name, way, Place(area, programs)
        self.harness, self.sent = HARNESSES[name], Sent()
        tools = day.OWN[name](self.place.workspace) if way == "own" else day.Cloister()
        self.port = free_port() if way == "own" else 8000  # a workspace's ports are its own
        self.steps = day.steps(tools, self.port)
        self.model = ScriptedModel([call for _, call in self.steps])
        self.harness.settings(self.place, self.model.url)
        for path, text in day.files(self.port).items() if way != "HTTP" else ():
            (self.place.workspace / path).parent.mkdir(exist_ok=True)
            (self.place.workspace / path).write_text(text)
        self.place.give()

    def play(self):
        """In a thread."""
        words, place = [self.name, *self.harness.words], self.place
        log = None
        with self.model, contextlib.ExitStack() as ended:
            if self.way != "own":
                directory = set_up(place, self.name)
                words[0] = directory / "start"
            if self.way == "stdio":
                log = place.home / "sent"
                by_stdio(place, log)
            elif self.way == "HTTP":
                gate = Gate(place)
                ended.callback(gate.stop)
                gate.wait()
                gate.put(day.files(self.port))
                between = serve_between(gate.port, self.sent)
                ended.callback(between.server_close)
                ended.callback(between.shutdown)
                by_http(place, directory, self.name, f"http://127.0.0.1:{between.server_port}/mcp?workspace=day&form=text", gate.key)
            self.done = place.run(*words, cwd=place.workspace)
            if log:
                for line in log.read_text().splitlines():
                    self.sent.note(line)
        self.shown = ["\n".join(texts_of(json.loads(result))) for result in self.model.results]
        return self


@pytest.fixture(scope="module")
def days(area, programs):
    """days(name, way): that Day. Each is played once."""
    shutil.copy(where_is("cloister-gate"), area.bin)
    return functools.cache(lambda name, way: Day(area, programs, name, way).play())


def layers(text):
    """The text, as it is and as JSON in which harnesses put it."""
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    return [text, once, json.dumps(once, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]]


def worked(played):
    """The model's work came to something: the changed server answers, the tests pass, and all is committed."""
    ask, tests, commit = (played.shown[number] for number in (23, 28, 29))
    assert "second text" in ask and "OK" in tests and "euros" in commit, played.shown[23:]


def test_a_day_that_fails_leaves_no_gate(area, tmp_path, monkeypatch):
    shutil.copy(where_is("cloister-gate"), area.bin)
    gates, failing = [], Day(area, tmp_path, "claude", "HTTP")
    monkeypatch.setattr(Gate, "put", lambda gate, _: gates.append(gate) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.play()
    assert [gate.process.returncode for gate in gates] == [0]


@pytest.mark.parametrize("way", ["stdio", "HTTP"])
@pytest.mark.parametrize("name", HARNESSES)
def test_nothing_is_cut(days, name, way):
    played = days(name, way)
    what = [step for step, _ in played.steps]
    assert len(played.shown) == len(what), f"{played.done}\n{played.shown[-1:]}\n{played.model.unknown}"
    sent = played.sent.texts[-len(what):]
    cut = [f"{number} {step}: {len(text)} sent, {len(shown)} shown: {shown[:300]} ... {shown[-300:]}"
           for number, (step, text, shown) in enumerate(zip(what, sent, played.shown), 1) if not any(each in shown for each in layers(text))]
    assert not cut and len(sent) == len(what), "\n".join(cut)
    worked(played)


@pytest.mark.parametrize("name", HARNESSES)
def test_the_same_day_by_its_own_tools(days, name):
    """It comes to its end, to be compared with. What it achieves is the harness's: Codex ends a server with the call."""
    played = days(name, "own")
    assert len(played.shown) == len(played.steps), f"{played.done}\n{played.shown[-1:]}\n{played.model.unknown}"


def test_what_each_step_costs(days):
    """The table of doc/clients.md: tokens, a quarter of the characters."""
    ways = [(name, way) for name in HARNESSES for way in WAYS]
    rows = [[step for step, _ in day.steps(day.Cloister(), 8000)]]
    for key in ways:
        shown = days(*key).shown
        rows.append([len(text) // 4 for text in shown] + [0] * (len(rows[0]) - len(shown)))
    lines = ["| step | " + " | ".join(" ".join(key) for key in ways) + " |", "|---" * (len(ways) + 1) + "|"]
    lines += ["| " + " | ".join(map(str, cells)) + " |" for cells in zip(*rows)]
    lines.append("| all | " + " | ".join(str(sum(row)) for row in rows[1:]) + " |")
    offered = [sum(len(json.dumps(tool)) for tool in days(*key).model.offered.values()) // 4 for key in ways]
    lines.append("| the tools themselves | " + " | ".join(map(str, offered)) + " |")
    print("\n".join(lines))
    if os.environ.get("CLOISTER_DAY"):
        with open(os.environ["CLOISTER_DAY"], "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    for name in HARNESSES:
        totals = {way: sum(len(text) for text in days(name, way).shown) for way in WAYS}
        assert totals["stdio"] <= totals["own"] * 1.2, totals
