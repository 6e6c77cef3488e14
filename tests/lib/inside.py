# SPDX-License-Identifier: Apache-2.0
"""A service whose tenant has root_inside, with a template of a small system."""

import os
import subprocess

from cloister_client import acting_as
from small_system import add_programs, small_system

CORE = ("cat", "chgrp", "chmod", "chown", "cp", "env", "grep", "id", "ln", "ls", "mkdir", "mv", "rm", "sed", "stat", "tar", "touch")


def config(area, mode, *lines, root_inside="yes"):
    return "\n".join(["[cloister]", f"mode = {mode}", f"admin_group = {area.account.gid}", *lines, "[tenant t]",
                      f"users = {area.account.uid}", "managed = yes", f"roots = {area.path}",
                      f"root_inside = {root_inside}", ""])


def starter(start_daemon, area, mode):
    """Returns a function that starts the service, with lines for [cloister], and imports the template "task", a tree that
    the function @fill completes."""
    def start(*lines, fill=None, **keys):
        service = start_daemon(config=config(area, mode, *lines, **keys), system=mode == "system")
        with acting_as(os.getuid()):
            path = area.new_directory("image")
            small_system(path / "tree")
            (path / "tree/etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
            (path / "tree/etc/group").write_text("root:x:0:\n")
            add_programs(path / "tree", *CORE)
            if fill:
                fill(path / "tree")
            subprocess.run(["tar", "-C", path / "tree", "-cf", path / "a.tar", "."], check=True)
            path.chmod(0o755)
        said = service.ctl("template", "import", "task", str(path / "a.tar"))
        assert said.returncode == 0, said
        return service
    start.mode = mode
    return start


def forked(service, kind="rootfs"):
    """A client of a fork of it, and what opening that was answered."""
    client = service.connect()
    (name,) = client.call("workspace.fork", {"from": "task", "kind": kind})["workspaces"]
    return client, client.call("workspace.open", {"workspace": name})
