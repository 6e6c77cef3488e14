# SPDX-License-Identifier: Apache-2.0
"""A service with an agent socket and a gate with TLS before it, for clients that reach it either way."""

import contextlib
import subprocess

from daemon import environment
from http_gate import HttpGate, config, daemon_behind, tls_settings


class Service:
    def __init__(self, area, tenants):
        self.user = tenants[0]
        self._ends = contextlib.ExitStack()
        closed = f"[tenant closed]\nusers = {self.user.name}\n"
        text = config(tenants[1], self.user).replace(closed, "[tenant closed]\n")  # the user has one tenant
        self.daemon = self._ends.enter_context(daemon_behind(area, text))
        settings = tls_settings(area, tenants[1])
        self.ca_file = settings[1].split(" = ")[1]
        self.gate = HttpGate(area, self.daemon, tenants[1], *settings)
        self.url = f"https://localhost:{self.gate.port}"
        self.key = self.gate.key("blue")["key"]

    def way(self, name):
        """The keywords of a client that comes by the socket or through the gate."""
        return {"path": str(self.daemon.socket)} if name == "socket" else \
            {"path": self.url, "key": self.key, "ca_file": self.ca_file}

    def import_archive(self, name, archive):
        """What `cloister import` does with it."""
        return subprocess.run(
            [*self.user.become(), self.gate.area.bin / "cloister", "--socket", str(self.daemon.socket), "--workspace", name, "import"], input=archive, capture_output=True, check=False, env=environment("/"))

    def stop(self):
        assert self.gate.stop() == 0
        self._ends.close()
