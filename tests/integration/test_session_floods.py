# SPDX-License-Identifier: Apache-2.0
"""Sessions of one tenant that are to take the memory of the others, and what the others keep."""

import pytest
from cloister_client import Client, RpcError
from test_sessions import FOREVER, KIB, MIB, WAIT, end, read, start

UIDS = range(64100, 64106)  # tenants without an account


@pytest.fixture
def many(start_daemon):
    """Starts a daemon for many tenants. The value is a client of each."""
    text = "[cloister]\nagent_socket_mode = 0666\n"
    for uid in UIDS:
        text += f"[tenant t{uid}]\nusers = {uid}\nmanaged = yes\n"
    daemon = start_daemon(config=text)
    clients = [Client(daemon.socket, uid, uid) for uid in UIDS]
    for client in clients:
        client.call("workspace.open", {"workspace": "w"})
    yield clients
    for client in clients:
        client.close()


def states(client):
    return [entry["state"] for entry in client.call("session.list")["sessions"]]


def test_bytes_written_one_by_one_are_bounded(client, workspace):
    """Each waits with memory of its own, which is many times the byte."""
    session = start(client, FOREVER, stdin=True)
    taken = 0
    with pytest.raises(RpcError) as full:
        while taken < MIB:
            taken += client.call("session.write", {"session": session, "data": "x" * 65536})["taken"]
            for _ in range(2000):
                taken += client.call("session.write", {"session": session, "at": taken, "data": "x"})["taken"]
    assert full.value.name == "BUSY" and taken < MIB // 2
    end(client, session, grace_ms=0)


def test_kept_ends_are_small(client, workspace):
    """What a session ended as is kept and counted by nobody: it has the beginning of a long command only."""
    session = start(client, "true #" + "\x01" * 131000, output_bytes=KIB)
    last = read(client, session, wait_ms=WAIT, until=[{"exit": True}])["end"]
    assert last["success"] and last["output"]["command"] == "true #" + "\x01" * (4 * KIB - 6)
    assert end(client, session) == last
    # Everybody else is given the command whole.
    assert client.run("true #" + "x" * 8000)["command"] == "true #" + "x" * 8000


def test_ended_sessions_of_others_make_room_last(many):
    """All of the room is taken. Nobody loses what is kept for a start that has room of its own, or that is refused."""
    large, small = {"output_bytes": 14 * MIB}, {"output_bytes": 3 * MIB}  # and an eighth more: 63 MiB are four of them
    first = [[start(client, FOREVER, **large) for _ in range(4)] for client in many[:4]][0][0]
    one, late, last = many[0], many[4], many[5]
    end(one, first, grace_ms=0)
    read(late, start(late, "true", **small), wait_ms=WAIT, until=[{"exit": True}])
    # A tenant's own are forgotten first, although that of another is older.
    assert states(one)[0] == states(late)[0] == "ended"
    start(late, FOREVER, **small)
    assert states(one)[0] == "ended" and states(late) in (["starting"], ["running"])
    # Here to forget it would not be enough.
    with pytest.raises(RpcError) as full:
        start(last, FOREVER, output_bytes=16 * MIB)
    assert full.value.name == "BUSY" and states(one)[0] == "ended"
    # Who has none is given the room of the oldest of all: else a few tenants would shut out the others with commands
    # that do not run any more.
    start(last, FOREVER, **large)
    assert "ended" not in states(one) and len(states(one)) == 3
