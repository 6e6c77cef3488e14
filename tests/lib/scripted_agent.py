# SPDX-License-Identifier: Apache-2.0
"""An agent without a model: it edits, tests and commits, one step after the other, and lives through the death of everything
that it talks to, and its own. usage: scripted_agent.py SOCKET DIRECTORY NOTES STEPS

A step is done once. Before each attempt the agent writes down its number, which is the attempt's key, so that an agent that
was killed goes on with the call that it had made. Where the outcome of a call is not known it looks at what the call was to
change, and goes on or tries again with a new key."""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))

import cloister  # noqa: E402  (it is only now on the path)

LOST = {"OUTCOME_UNKNOWN", "WORKER_LOST"}  # the call may have had effects
LATER = {"BUSY", "SHUTTING_DOWN"}  # nothing was begun
GIT = "git -c user.name=agent -c user.email=agent@localhost -c gc.auto=0 -c init.defaultBranch=main"
# What a git that was killed leaves. It writes the reflogs before it renames the ref: the last line may be of a commit that
# no ref ever had.
UNLOCK = ("find .git -name '*.lock' -delete; find .git/objects -name 'tmp_obj_*' -delete; "
          "for log in .git/logs/HEAD .git/logs/refs/heads/main; do "
          "[ ! -s $log ] || tail -n 1 $log | grep -q \"^[0-9a-f]* $(git rev-parse -q --verify HEAD) \" || sed -i '$d' $log; "
          "done; ")


class Agent:
    def __init__(self, socket, directory, notes):
        self.client = cloister.Client(socket, wait=60.0, reconnect=60.0)
        self.directory = directory
        self.attempt, self.last, self.note = 0, None, pathlib.Path(notes)
        lines = self.note.read_text().splitlines() if self.note.exists() else []
        if lines:  # the last line may be torn: then its call was not made
            self.attempt = max(json.loads(line)["attempt"] for line in lines if line.endswith("}"))
            self.last = [json.loads(line) for line in lines if line.endswith("}")][-1]

    def write_down(self, **what):
        with open(self.note, "ab") as file:
            if file.tell() > 0 and self.note.read_bytes()[-1:] != b"\n":
                file.write(b"\n")
            file.write(json.dumps(what).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def open(self):
        while True:
            try:
                return self.client.workspace(self.directory)
            except (cloister.ServiceError, cloister.ConnectionLost, cloister.ServiceNotFound):
                time.sleep(0.02)

    def call(self, key, tool, arguments, date=0):
        """Returns the observation of the call with this key, however often it has to be asked for."""
        moment = f"{1_700_000_000 + date} +0000"
        options = {"key": key, "env": {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}}
        while True:
            try:
                answer = self.client.call(tool, arguments, options=options)
                if not answer["error"] or answer["error"]["code"] not in LATER:
                    return answer
            except (cloister.ServiceError, cloister.ConnectionLost, cloister.ServiceNotFound):
                pass
            time.sleep(0.02)

    def look(self, tool, **arguments):
        """Makes a call that changes nothing, until it has a result. A missing file has no text."""
        while True:
            try:
                answer = self.client.call(tool, arguments, options={"line_numbers": False})
                if answer["success"] or answer["error"]["code"] == "NOT_FOUND":
                    return answer["output"] or {"content": "", "stdout": ""}
            except (cloister.ServiceError, cloister.ConnectionLost, cloister.ServiceNotFound):
                pass
            time.sleep(0.02)

    def step(self, number, tool, arguments, is_done):
        """Does a step once. is_done() looks whether it was."""
        resumed = self.last if self.last and self.last["step"] == number else None
        if resumed and resumed.get("done"):
            return
        while True:
            if not resumed:
                self.attempt += 1
                self.write_down(step=number, attempt=self.attempt)
            key, resumed = f"a{self.attempt}", None
            sent = {name: value.replace("@KEY@", key) for name, value in arguments.items()} if tool == "run_command" \
                else arguments
            answer = self.call(key, tool, sent, number)
            error = answer["error"]
            if not error:
                assert tool != "run_command" or answer["output"]["exit_code"] == 0, answer
                break
            assert error["code"] in LOST, answer
            if is_done():
                break
        self.write_down(step=number, attempt=self.attempt, done=True)

    # What the steps do

    def write(self, number, name, text):
        self.step(number, "write_file", {"path": name, "content": text},
                  lambda: self.look("read_file", path=name).get("content") == text)

    def edit(self, number, name, old, new):
        """Twice, it would not find what it replaces."""
        self.step(number, "edit_file", {"path": name, "edits": [{"old": old, "new": new}]},
                  lambda: new in self.look("read_file", path=name)["content"])

    def append(self, number, name, line):
        """Twice, the file would have the line twice."""
        self.step(number, "run_command", {"command": f"echo @KEY@ >>.git/ran; echo '{line}' >>{name}"},
                  lambda: line in self.look("read_file", path=name)["content"].splitlines())

    def test(self, number):
        """Changes nothing, so it is run until it has a result."""
        self.step(number, "run_command", {"command": "echo @KEY@ >>.git/ran; sh tests.sh"}, lambda: False)

    def commit(self, number, message):
        command = f"{UNLOCK}echo @KEY@ >>.git/ran; {GIT} add -A && {GIT} commit -q -m '{message}'"
        ask = f"{UNLOCK}{GIT} log -1 --format=%s 2>/dev/null; {GIT} status --porcelain"
        self.step(number, "run_command", {"command": command},
                  lambda: self.look("run_command", command=ask)["stdout"] == f"{message}\n")

    def begin(self, number):
        self.step(number, "run_command", {"command": f"rm -rf .git; {GIT} init -q . && touch .git/ran"}, lambda: False)

    def work(self, rounds):
        self.open()
        start = self.last["step"] if self.last else 0
        for number, step in enumerate(self.plan(rounds)):
            if number >= start:
                step(number)
        self.client.close()

    def plan(self, rounds):
        """The steps, in their order."""
        yield self.begin
        yield lambda n: self.write(n, "total.txt", "total = 0\n")
        yield lambda n: self.write(n, "tests.sh", "set -e\nls part-*.txt | wc -l | grep -qx \"$(sed 's/total = //' total.txt)\"\n"
                                   "test \"$(wc -l <notes.txt)\" = \"$(sed 's/total = //' total.txt)\"\n")
        for i in range(rounds):
            yield lambda n, i=i: self.write(n, f"part-{i}.txt", f"part {i}\n" * (1 + i * 97 % 2000))
            yield lambda n, i=i: self.edit(n, "total.txt", f"total = {i}\n", f"total = {i + 1}\n")
            yield lambda n, i=i: self.append(n, "notes.txt", f"round {i}")
            yield self.test
            yield lambda n, i=i: self.commit(n, f"Add part {i}")


if __name__ == "__main__":
    Agent(*sys.argv[1:4]).work(int(sys.argv[4]))
