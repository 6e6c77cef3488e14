# SPDX-License-Identifier: Apache-2.0
"""`cloisterd --take-over`: the new daemon has the labels and leases, and changes them for the old daemon, too."""

import pytest

import procfs
from generations import begin, ended, generations_fixture, opened, runs

pytestmark = pytest.mark.deep("slow")
generations = generations_fixture


def end_lease(daemon, name):
    """As if its lease ended now: the old daemon has the workspace yet, and the new daemon cannot open it."""
    (record,) = (daemon.state / "properties").rglob(name)
    record.write_text('{"lease":{"expires_at":"2026-01-01T00:00:00Z","at_end":"remove"}}')


def test_a_lease_outlives_the_generation_that_gave_it(generations):
    first = generations()
    with opened(first, name="used") as client:
        client.call("workspace.open", {"workspace": "kept", "labels": {"a": "b"}, "lease": {"ms": 3600_000}})
        client.call("workspace.open", {"workspace": "used", "lease": {"ms": 3600_000, "at_end": "remove"}})
        command = begin(client, "sleep 1000")
        runs(first, 1)
        second = generations(former=first)
        with second.connect() as other:
            rows = {row["workspace"]: row for row in other.call("workspace.list")["workspaces"]}
            assert rows["kept"]["labels"] == {"a": "b"} and rows["kept"]["lease"]["at_end"] == "close"
            other.call("workspace.update", {"workspace": "kept", "lease": {"ms": 1, "at_end": "remove"}})
            end_lease(second, "used")
            answer = client.wait(command)
            assert answer["result"]["output"]["ended_by"] == "lease", answer
            assert procfs.eventually(lambda: not other.call("workspace.list")["workspaces"])
    assert ended(first) == 0
