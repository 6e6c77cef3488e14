# SPDX-License-Identifier: Apache-2.0
"""A service with tenants whose cells share a network namespace (network_namespace = shared), and one whose do not."""

import pytest

from daemon import AM_ROOT


def config(area, mode, *host, shared="ab", own="c", **lines):
    """Tenants with a namespace for all their cells, and with one for each."""
    text = ["[cloister]", f"mode = {mode}", f"admin_group = {area.account.gid}", *host]
    for name in (*shared, *own):
        text += [f"[tenant {name}]", f"users = {area.account.uid}", "managed = yes",
                 f"network_namespace = {'shared' if name in shared else 'own'}", *lines.get(name, ())]
    return "\n".join([*text, ""])


def starter(start_daemon, area, mode):
    """Returns a function that starts the service, with lines for [cloister]."""
    if mode == "system" and not AM_ROOT:
        pytest.skip("needs root to map ids")

    def start(*host, spares=0, **keywords):
        return start_daemon(config=config(area, mode, f"spare_cells = {spares}", *host, **keywords), system=mode == "system")
    return start


def opened(service, tenant, name):
    """A client with that workspace open, and what its isolation says of the namespace."""
    client = service.connect()
    isolation = client.call("workspace.open", {"workspace": name, "tenant": tenant})["isolation"]
    assert isolation["network"] == "none" and ("network" in isolation["namespaces"]) == (isolation["network_namespace"] == "own")
    return client, isolation["network_namespace"]


def namespace_of(client):
    return client.run("readlink /proc/self/ns/net")["stdout"].strip()
