# SPDX-License-Identifier: Apache-2.0
"""Hostile commands of the security suites: as calls, as sessions, and as sessions on a terminal. Whichever it is, nothing of
it is alive when its end is told."""

import base64
import os
import random

import procfs
from cells import with_variable
from cloister_client import check_observation


class Attack:
    """A command that was sent, with a mark in the environment that its processes inherit."""

    def __init__(self, cell, command, options=None, **arguments):
        self.cell = cell
        self.mark = f"hostile-{os.getpid()}-{random.randrange(10 ** 9)}"
        self.began = procfs.free_seconds()
        self.begin(command, options or {}, arguments)

    def begin(self, command, options, arguments):
        options = {**options, "env": {"MARK": self.mark}}
        self.number = self.cell.client.begin("run_command", {"command": command, **arguments}, options)

    def runs(self, state=""):
        """Waits until its shell has started, or until one of its processes is in @state."""
        def found():
            return [pid for pid in with_variable(self.mark) if procfs.status(pid).get("State", "").startswith(state)]
        assert procfs.eventually(found), self.mark

    def cancel(self):
        """Cancels it; the time until its end counts from here."""
        self.began = procfs.free_seconds()
        self.tell()

    def tell(self):
        assert self.cell.client.cancel(self.number)

    def end(self):
        """Returns the observation when it has come."""
        return self.cell.client.result(self.number)

    def observe(self, within):
        """Returns the observation after checking that no process of the command is left."""
        observation = self.end()
        took = procfs.free_seconds() - self.began
        left = with_variable(self.mark)
        assert not left, [procfs.command_line(pid) for pid in left]
        assert took < within, f"the answer took {took:.1f} s: {observation}"
        check_observation(observation, "run_command")
        return observation


class SessionAttack(Attack):
    """The same as a session. Its observation gets what the session has written, as that of a call has it, and the name that a
    call's end has: what ends a session in time is its lifetime."""
    pty = None

    def begin(self, command, options, arguments):
        client = self.cell.client
        params = {"command": command, "env": {"MARK": self.mark}, "output_bytes": 1 << 22}
        if "timeout_ms" in arguments:
            params["lifetime_ms"] = arguments["timeout_ms"]
        given = options.get("stdin")
        params.update({"pty": self.pty} if self.pty else {"stdin": True} if given else {})
        assert not (self.pty and given), "a terminal is given nothing here"
        self.session = client.call("session.start", params)["session"]
        if given:
            client.call("session.write", {"session": self.session, "data": given, "eof": True})

    def tell(self):
        self.number = self.cell.client.request("session.end", {"session": self.session})

    def end(self):
        client = self.cell.client
        answer = client.call("session.read", {
            "session": self.session, "max_bytes": 0, "wait_ms": 300000, "until": [{"exit": True}]}, timeout=360)
        assert answer["met"] == 0, answer
        observation = answer["end"]
        if observation["output"]:
            observation["output"].update(self.written(), truncated=False)
            if observation["output"]["ended_by"] == "lifetime":
                observation["output"].update(ended_by="timeout", timed_out=True)
        return observation

    def written(self):
        after, streams = 0, {"stdout": b"", "stderr": b""}
        while True:
            answer = self.cell.client.call("session.read", {
                "session": self.session, "after": after, "max_bytes": 1 << 20, "encoding": "base64"})
            for chunk in answer["chunks"]:
                streams[chunk["stream"]] += base64.b64decode(chunk["data"])
            if answer["next"] == after:
                return {name: self.shown(data.decode(errors="replace")) for name, data in streams.items()}
            after = answer["next"]

    def shown(self, text):
        return text


class TerminalAttack(SessionAttack):
    pty = {"rows": 24, "cols": 80}

    def shown(self, text):
        return text.replace("\r\n", "\n")


KINDS = {"command": Attack, "session": SessionAttack, "terminal": TerminalAttack}
