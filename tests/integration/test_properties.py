# SPDX-License-Identifier: Apache-2.0
"""What a managed workspace keeps beside its files: labels, a lease, where it is shown, variables, its network."""

import json
import os

import pytest

import procfs
from cloister_client import acting_as
from layers import in_state, kill_all, opened, refused

LABELS = {"agent": "a1", "run": "äöü ☃", "empty": ""}
HOUR = {"ms": 3600_000, "at_end": "close"}
FORBIDDEN_PLACES = [
    "/", "relative", "", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/..", "/proc", "/proc/1", "/sys/x", "/dev", "/dev/shm/x",
    "/usr", "/usr/local/x", "/etc/x", "/tmp", "/tmp/x", "/run/x", "/var/tmp/x", "/bin", "/lib64/x", "/boot", "/home/agent",
    "/home/agent/x", "/a b", "/a\nb", "/a\u0000b", "/ä", "/a:b", "/" + 255 * "x", 7, ["/x"]]


@pytest.fixture
def client(daemon):
    with daemon.connect() as connection:
        yield connection


@pytest.fixture
def name(client, request):
    """The name of a managed workspace, which is removed afterwards, if it is there."""
    name = f"p{abs(hash(request.node.name)) % 10**9}"
    yield name

    def is_gone():
        answer = client.wait(client.request("workspace.remove", {"workspace": name}))
        return "result" in answer or answer["error"]["data"]["code"] == "WORKSPACE_NOT_FOUND"
    assert procfs.eventually(is_gone)


def row_of(client, name):
    rows = client.call("workspace.list")["workspaces"]
    return next((row for row in rows if row["workspace"] == name), None)


def is_gone(client, name):
    return procfs.eventually(lambda: row_of(client, name) is None)


def test_a_workspace_keeps_what_it_is_opened_with(client, name):
    made = client.call("workspace.open", {"workspace": name, "labels": LABELS, "lease": HOUR, "shown_at": "/home/user",
                                          "env": {"HOME": "/home/user", "NODE_ENV": "production"}})
    assert made["root"] == "/home/user" and made["labels"] == LABELS
    assert made["lease"]["at_end"] == "close" and made["lease"]["expires_at"].endswith("Z")
    assert client.run("pwd; echo $HOME $NODE_ENV; echo x > f")["stdout"] == "/home/user\n/home/user production\n"
    assert client.run("echo $NODE_ENV", {"env": {"NODE_ENV": "test"}})["stdout"] == "test\n"  # a call's own count last
    assert client.use("read_file", path="/home/user/f")["content"].endswith("x\n")
    assert "outside" in client.fail("read_file", path="/workspace/f")["message"]
    client.call("workspace.close", {"workspace": name})
    row = row_of(client, name)
    assert (row["root"], row["labels"], row["lease"]) == ("/home/user", LABELS, made["lease"])
    again = client.call("workspace.open", {"workspace": name})
    assert (again["root"], again["labels"], again["lease"]) == ("/home/user", LABELS, made["lease"])


def test_what_is_given_again_replaces_what_was_kept(client, name):
    client.call("workspace.open", {"workspace": name, "labels": LABELS, "lease": HOUR, "env": {"A": "1"}})
    again = client.call("workspace.open", {"workspace": name, "labels": {"b": "2"}, "env": {"B": "2"}})
    assert again["labels"] == {"b": "2"} and again["lease"]
    assert client.run("echo $A-$B")["stdout"] == "-2\n"
    assert client.call("workspace.open", {"workspace": name, "lease": {}, "labels": {}})["lease"] is None
    assert row_of(client, name)["labels"] == {}
    assert "another path" in refused(client, "workspace.open", {"workspace": name, "shown_at": "/x"}, "FORBIDDEN")
    assert client.call("workspace.open", {"workspace": name, "shown_at": "/workspace"})["root"] == "/workspace"


def test_an_update(client, name):
    client.call("workspace.open", {"workspace": name})
    updated = client.call("workspace.update", {"labels": LABELS, "lease": {"expires_at": "2035-01-01T00:00:00+01:00"},
                                               "env": {"A": "1"}})
    assert updated == {"workspace": name, "labels": LABELS,
                       "lease": {"expires_at": "2034-12-31T23:00:00.000Z", "at_end": "close"}}
    assert client.run("echo $A")["stdout"] == "1\n"  # the next command has it
    client.call("workspace.close", {"workspace": name})
    assert client.call("workspace.update", {"workspace": name, "lease": None})["lease"] is None
    assert row_of(client, name)["labels"] == LABELS
    refused(client, "workspace.update", {"workspace": name}, -32602)
    refused(client, "workspace.update", {"workspace": name, "shown_at": "/x"}, -32602)
    refused(client, "workspace.update", {"workspace": "is-not-there", "labels": {}}, "WORKSPACE_NOT_FOUND")


@pytest.mark.parametrize("place", FORBIDDEN_PLACES)
def test_a_workspace_is_not_shown_everywhere(client, place):
    assert "shown_at" in refused(client, "workspace.open", {"workspace": "nowhere", "shown_at": place}, -32602)
    assert row_of(client, "nowhere") is None


@pytest.mark.parametrize("place", ["/root", "/home", "/home/agents", "/opt/a/b.c/d-e_f", "/" + 254 * "x", "/workspace/x", "/bin2"])
def test_a_workspace_is_shown_at(client, name, place):
    client.call("workspace.open", {"workspace": name, "shown_at": place})
    assert client.run("pwd; echo 1 > f; cat $PWD/f; cd / && mkdir x 2>&1 | tail -c 22")["stdout"] == (
        f"{place}\n1\nRead-only file system\n")
    # Its parents cannot be renamed, nor written.
    assert client.run(f"touch {os.path.dirname(place) or '/'}/g 2>/dev/null; echo $?")["stdout"] == "1\n"
    assert client.use("read_file", path=place + "/f")["lines"] == 1


@pytest.mark.parametrize("bad", [
    {"labels": []}, {"labels": {"a": 1}}, {"labels": {"": "x"}}, {"labels": {"a" * 129: "x"}}, {"labels": {"a": "x" * 1025}},
    {"labels": {"a\n": "x"}}, {"labels": {"a": "\u0000"}}, {"labels": {str(i): "" for i in range(65)}},
    {"labels": {str(i): "x" * 1000 for i in range(20)}},
    {"lease": {"at_end": "close"}}, {"lease": {"ms": 0}}, {"lease": {"ms": -1}}, {"lease": {"ms": "1"}}, {"lease": {"ms": 1.5}},
    {"lease": {"ms": 2**62}}, {"lease": {"ms": 1, "expires_at": "2035-01-01T00:00:00Z"}}, {"lease": {"ms": 1000, "at_end": "stop"}},
    {"lease": {"ms": 1000, "x": 1}}, {"lease": {"expires_at": "2001-01-01T00:00:00Z"}}, {"lease": {"expires_at": "9999-01-01T00:00:00Z"}},
    {"lease": {"expires_at": "2035-02-30T00:00:00Z"}}, {"lease": {"expires_at": "2035-01-01"}}, {"lease": {"expires_at": 4070908800}},
    {"lease": "1h"}, {"lease": [1]},
    {"env": {"1A": "x"}}, {"env": {"A": "\u0000"}}, {"env": {"A": 1}}, {"env": []}, {"env": {f"A{i}": "" for i in range(65)}},
    {"env": {"A": "x" * 9000}}], ids=str)
def test_what_is_refused(client, bad):
    for method, more in [("workspace.open", {"workspace": "refused"}), ("workspace.fork", {"from": "t"}),
                         ("workspace.update", {"workspace": "refused"})]:
        assert next(iter(bad)) in refused(client, method, {**more, **bad}, -32602)
    assert row_of(client, "refused") is None


def test_only_managed_workspaces_keep_any(client, daemon):
    directory = str(daemon.new_directory())
    refused(client, "workspace.open", {"root": directory, "labels": {}}, -32602)
    client.call("workspace.open", {"root": directory})
    refused(client, "workspace.update", {"labels": {}}, "FORBIDDEN")


def test_a_list_in_pages(client, daemon):
    names = [f"listed{i:02}" for i in range(12)]
    for i, name in enumerate(names):
        client.call("workspace.open", {"workspace": name, "labels": {"parity": str(i % 2), "number": str(i)}})
        if i > 2:
            client.call("workspace.close", {"workspace": name})
    client.call("workspace.open", {"root": str(daemon.new_directory())})

    def pages(limit, **filters):
        cursor = {}
        while cursor is not None:
            answer = client.call("workspace.list", {"limit": limit, **filters, **cursor})
            yield [row["workspace"] for row in answer["workspaces"]]
            cursor = {"cursor": answer["next_cursor"]} if "next_cursor" in answer else None

    every = [row["workspace"] for row in client.call("workspace.list")["workspaces"]]
    assert [name for name in every if name.startswith("listed")] == names and every[-1].startswith("/")
    for limit in (1, 5, len(every), 10000):
        got = list(pages(limit))
        assert sum(got, []) == every and all(len(page) == limit for page in got[:-1])
    assert sum(pages(2, labels={"parity": "1"}), []) == names[1::2]
    assert sum(pages(9, labels={"parity": "1", "number": "3"}), []) == names[3:4]
    assert list(pages(9, labels={"parity": "1", "number": "4"})) == [[]]
    assert procfs.eventually(lambda: set(names[3:]) <= set(sum(pages(7, state="closed"), [])))
    assert set(names[:3]) <= set(sum(pages(7, state="open"), []))
    # What goes away or comes between two pages moves no other row.
    first, cursor = (answer := client.call("workspace.list", {"limit": 5}))["workspaces"], answer["next_cursor"]
    client.call("workspace.remove", {"workspace": first[0]["workspace"]})
    after = client.call("workspace.list", {"limit": 1, "cursor": cursor})["workspaces"][0]["workspace"]
    assert after == every[5]
    for wrong in ({"limit": 0}, {"limit": 10001}, {"limit": "1"}, {"state": "paused"}, {"cursor": "x"}, {"cursor": ""},
                  {"cursor": 1}, {"labels": {"a": 1}}):
        refused(client, "workspace.list", wrong, -32602)
    for name in set(names) - {first[0]["workspace"]}:
        client.call("workspace.remove", {"workspace": name})


def test_a_lease_ends_what_runs_and_removes(client, name, daemon):
    client.call("workspace.open", {"workspace": name})
    session = client.call("session.start", {"command": "sleep 1000"})["session"]
    command = client.begin("run_command", {"command": "echo begun; sleep 1000"}, {"stream": True})
    assert procfs.eventually(lambda: client.receive()["params"]["data"] == "begun\n")
    client.call("workspace.update", {"lease": {"ms": 50, "at_end": "remove"}})
    ended = client.result(command)
    assert ended["error"]["code"] == "LEASE_ENDED" and ended["output"]["ended_by"] == "lease", ended
    assert ended["output"]["stdout"] == "begun\n"
    assert is_gone(client, name)
    refused(client, "session.read", {"session": session}, "SESSION_NOT_FOUND")
    refused(client, "tool.call", {"tool": "run_command", "arguments": {"command": "true"}}, "WORKSPACE_NOT_FOUND")
    assert client.call("workspace.open", {"workspace": name})["labels"] == {}
    assert client.run("ls -A")["stdout"] == ""


def test_a_lease_closes_and_keeps_the_files(client, name):
    client.call("workspace.open", {"workspace": name, "labels": LABELS})
    client.run("echo kept > f")
    client.call("workspace.update", {"lease": {"ms": 1}})
    assert procfs.eventually(lambda: not row_of(client, name)["open"] and row_of(client, name)["lease"] is None)
    assert row_of(client, name)["labels"] == LABELS
    refused(client, "tool.call", {"tool": "run_command", "arguments": {"command": "true"}}, "WORKSPACE_NOT_FOUND")
    assert procfs.eventually(lambda: "result" in client.wait(client.request("workspace.open", {"workspace": name})))
    assert client.run("cat f")["stdout"] == "kept\n"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")
def test_a_restart_keeps_all_and_ends_what_ended_meanwhile(start_daemon, area):
    state = area.new_directory("state")
    daemon = start_daemon(state=state)
    with opened(daemon, "short") as client:
        client.call("workspace.update", {"lease": {**HOUR, "at_end": "remove"}})
        client.call("workspace.open", {"workspace": "long", "labels": LABELS, "lease": HOUR, "shown_at": "/x", "env": {"A": "1"}})
        before = row_of(client, "long")
    kill_all(daemon)
    properties = state / "properties"
    kept = json.loads((properties / "short").read_text())
    kept["lease"]["expires_at"] = "2026-01-01T00:00:00.000Z"
    (properties / "short").write_text(json.dumps(kept))
    (properties / "gone").write_text(json.dumps(kept))  # as a death leaves it before the workspace is made
    daemon = start_daemon(state=state)
    with daemon.connect() as client:
        assert is_gone(client, "short")
        # Its files may have been measured before.
        assert row_of(client, "long") | {"bytes": 0, "files": 0} == before | {"open": False, "bytes": 0, "files": 0}
        client.call("workspace.open", {"workspace": "long"})
        assert client.run("pwd; echo $A")["stdout"] == "/x\n1\n"
    assert procfs.eventually(lambda: os.listdir(properties) == ["long"])
    assert not in_state(daemon, "workspaces/short", "workspaces/gone")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")
@pytest.mark.parametrize("record", ["", "{", "[]", '{"labels":{"a":1}}', '{"lease":{"ms":0}}', '{"shown_at":"/etc"}', '{"env":{"1":""}}'])
def test_a_record_that_is_damaged(client, name, daemon, account, record):
    properties = daemon.state / "properties"
    with acting_as(account.uid):
        (daemon.state / "workspaces" / name).mkdir(0o700)
        (properties / name).write_text(record)
    refused(client, "workspace.open", {"workspace": name}, "EXECUTION_ERROR")
    assert row_of(client, name)["labels"] == {}
    (properties / name).unlink()
