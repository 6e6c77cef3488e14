# SPDX-License-Identifier: Apache-2.0
"""Managed workspaces with checkpoints, as several suites use them."""

import os
import pathlib

import pytest

import procfs
from cloister_client import RpcError, acting_as


def opened(daemon, name, account=None):
    """A connection that has the managed workspace open."""
    client = daemon.connect(account)
    client.call("workspace.open", {"workspace": name})
    return client


def client_fixture():
    """The fixture `client`: a connection with a managed workspace of its own, client.name, which is removed afterwards."""
    @pytest.fixture
    def client(daemon, request):
        name = f"w{abs(hash(request.node.name)) % 10**9}"
        client = opened(daemon, name)
        client.name = name
        yield client
        assert procfs.eventually(lambda: was_removed(client, name))
        client.close()
    return client


def was_removed(client, name):
    """Removes a workspace. Returns False while cloisterd has yet to see that another connection of the test ended."""
    try:
        client.call("workspace.remove", {"workspace": name})
    except RpcError as error:
        if error.name != "BUSY":
            raise
        return False
    return True


def refused(client, method, params, name):
    """Asks for what is refused with the error @name, or JSON-RPC's code. Returns its sentence."""
    with pytest.raises(RpcError) as caught:
        client.call(method, params)
    assert (caught.value.name or caught.value.code) == name, caught.value
    return str(caught.value)


def checkpoint(client, label=None):
    return client.call("workspace.checkpoint", {"label": label} if label else {})["checkpoint"]


def roll_back(client, to):
    return client.call("workspace.rollback", {"to": to})["checkpoint"]


def listed(client):
    return [(row["checkpoint"], row["label"]) for row in client.call("workspace.checkpoints", {})["checkpoints"]]


def in_state(daemon, *patterns):
    """The paths of workspaces and templates that match. What a home cleaner removes meanwhile is passed over."""
    with acting_as(os.getuid()):
        paths = [pathlib.Path(directory, name) for top in ("workspaces", "templates", "properties")
                 for directory, directories, files in os.walk(daemon.state / top) for name in directories + files]
    return [path for path in paths if any(path.match(pattern) for pattern in patterns)]


def mounters(daemon):
    return [pid for pid in procfs.children(daemon.spawner()) if procfs.name(pid) == "cloister-layers"]


def tree(client):
    """All that can be seen of the workspace's files: names, types, modes, links, times, contents."""
    # An overlay counts no links of directories.
    script = (r"find . -printf '%P %y %m %l %T@\n' | sort; find . -type f -printf '%P %n\n' | sort; "
              r"find . -type f -print0 | sort -z | xargs -0 -r sha256sum")
    output = client.run(script)
    assert output["exit_code"] == 0, output
    return output["stdout"]


def kill_all(daemon):
    """The death of cloisterd, which takes all its processes with it."""
    daemon.process.kill()
    daemon.process.wait()
    for client in daemon.clients:
        client.close()
