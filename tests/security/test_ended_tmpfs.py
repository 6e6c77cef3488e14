# SPDX-License-Identifier: Apache-2.0
"""What a workspace leaves in its private tmpfs takes the kernel as long to remove as it has files. A closer does that, and not the
spawner, which serves all tenants."""

import os
import re
import signal

import procfs
import pytest
from cloister_client import RpcError
from daemon import acting_as
from killer import Holder

CLOSER = "cloister-closer"
GONE = 32  # LIMIT_PRIVATES_GONE
FILL = "cd /tmp && seq 300 | xargs touch"  # more than LIMIT_PRIVATE_SMALL_FILES


@pytest.fixture(params=["user", "system"])
def daemon(start_daemon, area, tenants, request):
    sections = "".join(f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n" for name, user in zip("ab", tenants))
    return start_daemon(config=f"[cloister]\nmode = {request.param}\nspare_cells = 0\nagent_socket_mode = 0666\n{sections}",
                        system=request.param == "system")


def fill(client, workspace, command=FILL):
    client.call("workspace.open", {"workspace": workspace})
    said = client.observe("run_command", {"command": command}, workspace=workspace)
    assert said["success"] and said["output"]["exit_code"] == 0, said


def end(client, workspace="w"):
    fill(client, workspace)
    client.call("workspace.close", {"workspace": workspace})


def end_and_hold(daemon, client, workspace="w"):
    """Returns the closer of what the workspace has left, which is stopped before it closes anything."""
    closer = Holder(daemon.spawner(), CLOSER, "setpriority")
    end(client, workspace)
    return closer.held()


def go_on(held):
    with acting_as(os.getuid()):
        os.kill(held, signal.SIGCONT)


def closers(daemon):
    return [pid for pid in procfs.children(daemon.spawner()) if procfs.name(pid) == CLOSER]


def mounts_of(pid):
    """The ids of the mounts that the descriptors of the process are in."""
    with acting_as(os.getuid()):
        texts = [open(f"/proc/{pid}/fdinfo/{fd}").read() for fd in procfs.fds(pid)]
    return {int(re.search(r"^mnt_id:\s*(\d+)$", text, re.MULTILINE)[1]) for text in texts}


def test_the_spawner_does_not_have_the_last_descriptor(daemon, tenants):
    held = end_and_hold(daemon, daemon.connect(tenants[0]))
    # The closer runs before the spawner has closed its own, and waits for that.
    only = procfs.eventually(lambda: mounts_of(held) - mounts_of(daemon.spawner()))
    assert only and len(only) == 1, only
    with acting_as(os.getuid()):
        assert procfs.status(held)["CapEff"] == "0" * 16 and os.getpriority(os.PRIO_PROCESS, held) == 10
    # Nobody waits for it.
    for user in tenants[:2]:
        fill(daemon.connect(user), "w", "test ! -e /tmp/1")
    go_on(held)
    assert procfs.eventually(lambda: not closers(daemon))


def test_few_files_need_no_closer(daemon, tenants):
    client = daemon.connect(tenants[0])
    closer = Holder(daemon.spawner(), CLOSER, "setpriority")
    fill(client, "few", "echo x > /tmp/few")
    client.call("workspace.close", {"workspace": "few"})
    assert procfs.eventually(lambda: not daemon.cells())
    fill(client, "v", "true")
    assert not closer.has_held()
    end(client, "many")
    go_on(closer.held())


def test_a_tenant_that_leaves_much_waits_alone(daemon, tenants):
    clients = [daemon.connect(user) for user in tenants[:2]]
    held = [end_and_hold(daemon, clients[0], "w0")]
    for i in range(1, GONE):
        end(clients[0], f"w{i}")
    assert procfs.eventually(lambda: "cloister-worker" not in map(procfs.name, procfs.children(daemon.spawner())))
    with pytest.raises(RpcError, match="still being removed: try again") as refused:
        clients[0].call("workspace.open", {"workspace": "new"})
    assert refused.value.name == "BUSY"
    assert closers(daemon) == held
    # Another tenant has closers of its own.
    held.append(end_and_hold(daemon, clients[1]))
    fill(clients[1], "w")
    for pid in held:
        go_on(pid)

    def opens():
        try:
            return clients[0].call("workspace.open", {"workspace": "new"})
        except RpcError as error:
            assert error.name == "BUSY"
        return None

    assert procfs.eventually(opens)
    assert procfs.eventually(lambda: not closers(daemon))
