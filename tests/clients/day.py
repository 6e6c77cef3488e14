# SPDX-License-Identifier: Apache-2.0
"""A day of an agent in a small project, in thirty steps: each as a call of cloister's tools and as one of a harness's own."""

import re

LINES = 2000
FETCH = "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://127.0.0.1:PORT/\").read().decode())'"
BROKEN = "def total(prices):\n    return sum(prices) - 1\n\n\ndef label(price):\n    return f\"{price:.2f} euros\"\n"
FIXED = ("    return sum(prices) - 1\n", "    return sum(prices)\n")
TESTS = """import unittest
import app


class Sums(unittest.TestCase):
    def test_total(self):
        self.assertEqual(app.total([40, 2]), 42)

    def test_label(self):
        self.assertEqual(app.label(2), "2.00 euros")


if __name__ == "__main__":
    unittest.main()
"""
SERVER = """import http.server


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first text")


print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""
BUILD = """import sys
for number in range(1, 3001):
    print(f"compiling part {number} of 3000")
sys.exit("ERROR: part 3000 has no main")
"""
PATCH = """*** Begin Patch
*** Update File: app.py
@@
-    return f"{price:.2f} euros"
+    return f"{price:.2f} EUR"
*** Update File: test_app.py
@@
-        self.assertEqual(app.label(2), "2.00 euros")
+        self.assertEqual(app.label(2), "2.00 EUR")
*** End Patch
"""


def files(port):
    """{name: text} of the project, whose server listens at this port."""
    made = {"app.py": BROKEN, "test_app.py": TESTS, "server.py": SERVER.replace("PORT", str(port)), "build.py": BUILD, "README.md": "# Prices\n"}
    made["big.py"] = "".join(f"def step_{number}(x):  # of {LINES}\n" if number % 2 else f"    return x + {number}\n"
                             for number in range(1, LINES + 1))
    made.update({f"data/part{number:03}.txt": f"{number}\n" for number in range(600)})
    return made


def go_on(results):
    """A model that was told where a file goes on reads on there."""
    found = re.search(r"start_line=(\d+)", results[-1])
    return int(found[1]) if found else None


def steps(tools, port):
    """The day as a list of (what, call). @tools makes the calls."""
    test, fetch = "python3 -m unittest -v", f"sleep 1; {FETCH.replace('PORT', str(port))}"
    return [
        ("commit the project", tools.run("git init -q . && git config user.name a && git config user.email a@b && git add . && "
                                         "git commit -q -m start && git log --oneline | wc -l")),
        ("list everything", tools.list(".", recursive=True)),
        ("read 2,000 lines", tools.read("big.py")),
        ("read on", tools.read_on("big.py")),
        ("search, one match", tools.search("step_1001\\b", ".")),
        ("search, 1,000 matches", tools.search("def step_", ".")),
        ("read the source", tools.read("app.py")),
        ("read the tests", tools.read("test_app.py")),
        ("run tests, which fail", tools.run(test)),
        ("edit", tools.edit("app.py", *FIXED)),
        ("run tests", tools.run(test)),
        ("write a file", tools.write("util.py", "EURO = 100\n")),
        ("edit", tools.edit("app.py", "def total", "import util\n\n\ndef total")),
        ("run tests", tools.run(test)),
        ("git diff", tools.run("git diff")),
        ("commit", tools.run("git add -A && git commit -q -m total && git status --short | wc -l")),
        ("start a server", tools.start("python3 server.py")),
        ("ask the server", tools.run(fetch)),
        ("read its output", tools.output()),
        ("read it", tools.read("server.py")),
        ("edit it", tools.edit("server.py", "first text", "second text")),
        ("stop it", tools.stop()),
        ("start it again", tools.start("python3 server.py")),
        ("ask it", tools.run(fetch)),
        ("stop it", tools.stop()),
        ("a build of 3,000 lines, fails", tools.run("python3 build.py")),
        ("list 600 files", tools.list("data")),
        ("patch two files", tools.patch(PATCH)),
        ("run tests", tools.run(test)),
        ("commit", tools.run("git add -A && git commit -q -m euros && git log --oneline && git status --short | wc -l")),
    ]


class Cloister:
    """By cloister's tools."""

    @staticmethod
    def call(tool, **arguments):
        return {"name": f"cloister:{tool}", "arguments": arguments}

    def run(self, command):
        return self.call("run_command", command=command)

    def list(self, path, recursive=False):
        return self.call("list_directory", path=path, recursive=recursive)

    def read(self, path):
        return self.call("read_file", path=path)

    def read_on(self, path):
        return lambda results: self.call("read_file", path=path, start_line=go_on(results) or LINES)

    def search(self, pattern, path):
        return self.call("search_files", pattern=pattern, path=path)

    def edit(self, path, old, new):
        return self.call("edit_file", path=path, edits=[{"old": old, "new": new}])

    def write(self, path, text):
        return self.call("write_file", path=path, content=text)

    def start(self, command):
        return self.call("run_command", command=command, background=True, name="server")

    def output(self):
        return self.call("read_output", name="server")

    def stop(self):
        return self.call("stop_command", name="server")

    def patch(self, patch):
        return self.call("apply_patch", patch=patch)


class Own:
    """By a harness's own tools; what it has none for, by its shell."""

    def __init__(self, workspace):
        self.workspace = workspace

    @staticmethod
    def call(tool, **arguments):
        return {"name": tool, "arguments": arguments}

    def list(self, path, recursive=False):
        return self.run(f"find {path} -type f -not -path './.git/*' | sort" if recursive else f"ls -l {path}")

    def read(self, path):
        return self.run(f"cat {path}")

    def read_on(self, path):
        return self.run(f"sed -n '1500,{LINES}p' {path}")

    def search(self, pattern, path):
        return self.run(f"grep -rn '{pattern}' {path}")

    def start(self, command):
        return self.run(f"{command} >server.log 2>&1 & echo $! >.git/pid")

    def output(self):
        return self.run("cat server.log")

    def stop(self):
        return self.run("xargs kill <.git/pid; rm -f server.log")

    def patch(self, patch):
        """Both edits by the shell, where there is no tool for a patch."""
        return self.run("sed -i 's/ euros/ EUR/' app.py test_app.py && git diff --stat")


class Claude(Own):
    def run(self, command):
        return self.call("Bash", command=command, description="x")

    def read(self, path):
        return self.call("Read", file_path=f"{self.workspace}/{path}")

    def read_on(self, path):
        return self.call("Read", file_path=f"{self.workspace}/{path}", offset=1500)

    def edit(self, path, old, new):
        return self.call("Edit", file_path=f"{self.workspace}/{path}", old_string=old, new_string=new)

    def write(self, path, text):
        return self.call("Write", file_path=f"{self.workspace}/{path}", content=text)


class Codex(Own):
    def run(self, command):
        return self.call("exec_command", cmd=command)

    def edit(self, path, old, new):
        patch = "".join(f"-{line}\n" for line in old.splitlines()) + "".join(f"+{line}\n" for line in new.splitlines())
        if not old.endswith("\n"):  # a part of a line
            return self.run(f"python3 -c 'import sys; p = sys.argv[1]; t = open(p).read().replace(*sys.argv[2:]); open(p, \"w\").write(t)' "
                            f"{path} '{old}' '{new}'")
        return self.patch(f"*** Begin Patch\n*** Update File: {path}\n@@\n{patch}*** End Patch\n")

    def write(self, path, text):
        added = "".join(f"+{line}\n" for line in text.splitlines())
        return self.patch(f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n")

    def patch(self, patch):
        return {"name": "apply_patch", "arguments": patch}


class Opencode(Own):
    def run(self, command):
        return self.call("bash", command=command, description="x")

    def read(self, path):
        return self.call("read", filePath=f"{self.workspace}/{path}")

    def read_on(self, path):
        return self.call("read", filePath=f"{self.workspace}/{path}", offset=1500)

    def edit(self, path, old, new):
        return self.call("edit", filePath=f"{self.workspace}/{path}", oldString=old, newString=new)

    def write(self, path, text):
        return self.call("write", filePath=f"{self.workspace}/{path}", content=text)


class Gemini(Own):
    def run(self, command):
        return self.call("run_shell_command", command=command, description="x")

    def read(self, path):
        return self.call("read_file", file_path=f"{self.workspace}/{path}")

    def read_on(self, path):
        return self.call("read_file", file_path=f"{self.workspace}/{path}", start_line=1500)

    def edit(self, path, old, new):
        return self.call("replace", file_path=f"{self.workspace}/{path}", old_string=old, new_string=new, instruction="x")

    def write(self, path, text):
        return self.call("write_file", file_path=f"{self.workspace}/{path}", content=text)


OWN = {"claude": Claude, "codex": Codex, "opencode": Opencode, "gemini": Gemini}
