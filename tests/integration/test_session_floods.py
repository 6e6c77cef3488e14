# SPDX-License-Identifier: Apache-2.0
"""Sessions of one tenant that are to take the memory and the time of the others, and what the others keep."""

import select

import procfs
import pytest
from cloister_client import Client, RpcError
from test_sessions import FOREVER, KIB, MIB, WAIT, end, read, start

pytestmark = pytest.mark.deep("busy")

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
    one, fourth, late, last = many[0], *many[3:6]
    first = [[start(client, FOREVER, **large) for _ in range(4)] for client in many[:3]][0][0]
    end(one, first, grace_ms=0)
    for size in (large, large, small, small):  # no more than it leaves free
        start(fourth, FOREVER, **size)
    for size in (large, small, small, small):
        read(late, start(late, "true", **size), wait_ms=WAIT, until=[{"exit": True}])
    # A tenant's own are forgotten first, although that of another is older.
    assert states(one)[0] == "ended" and states(late) == ["ended"] * 4
    for _ in range(3):
        start(late, FOREVER, **small)
    assert states(one)[0] == "ended" and states(late)[:3] == ["ended"] * 3 and "ended" not in states(late)[3:]
    # Here to forget it would not be enough.
    with pytest.raises(RpcError) as full:
        start(last, FOREVER, output_bytes=16 * MIB)
    assert full.value.name == "BUSY" and states(one)[0] == "ended"
    # Who has none is given the room of the oldest of all: else a few tenants would shut out the others with commands
    # that do not run any more.
    start(last, FOREVER, **large)
    assert "ended" not in states(one) and len(states(one)) == 3


def full_session(client, command):
    """Starts a session that has written 16 MiB, and then does @command."""
    session = start(client, f"head -c {16 * MIB} /dev/zero | tr '\\0' a; {command}", output_bytes=16 * MIB)
    assert procfs.eventually(lambda: client.call("session.list")["sessions"][-1]["next"] >= 16 * MIB)
    return session


# Three of them look at each a, and none is met.
HARD = [{"contains": "a" * 255 + letter} for letter in "bcd"] + [{"contains": "never"}]


def begin_searches(client, session):
    return [client.request("session.read", {"session": session, "max_bytes": 0, "until": HARD}) for _ in range(16)]


@pytest.mark.deep("slow")
@pytest.mark.parametrize("command", [FOREVER, "true"])
def test_a_search_does_not_hold_up_others(many, command):
    """Requests of another tenant are answered between the parts of a search, long before its end."""
    attacker, victim = many[:2]
    session = full_session(attacker, command)
    if command == "true":
        read(attacker, session, 16 * MIB, wait_ms=WAIT, until=[{"exit": True}])
    searches = begin_searches(attacker, session)
    for _ in range(20):
        victim.call("workspace.list")
    assert not select.select([attacker.socket], [], [], 0)[0], "the searches are over already"
    assert {(answer["met"], answer["next"]) for answer in map(attacker.result, searches)} == {(None, 0)}


def test_a_long_search_finds_what_is_there(client, workspace):
    """From anywhere, at any end of what is searched at once, in what is kept and in what comes."""
    session = full_session(client, f"echo -n {'b' * 10}; echo listening; {FOREVER}")
    for after in 0, 1, 5 * MIB + 65532, 16 * MIB - 3:
        found = read(client, session, after, max_bytes=0, wait_ms=WAIT, until=[*HARD[:3], {"contains": "aab"}])
        assert found["met"] == (0 if after < 16 * MIB - 255 else 3)
        found = read(client, session, after, max_bytes=0, wait_ms=WAIT, until=[{"contains": "blistening\n"}])
        assert found["met"] == 0
    # The search is at its end before the silence counts.
    quiet = read(client, session, max_bytes=0, wait_ms=WAIT, until=[*HARD[1:3], {"contains": "never"}, {"quiet_ms": 1}])
    assert quiet["met"] == 3
    end(client, session, grace_ms=0)


def test_a_search_in_what_is_forgotten_is_answered(many):
    """The room of an ended session is needed while its output is searched."""
    client = many[0]
    session = full_session(client, "true")
    read(client, session, 16 * MIB, wait_ms=WAIT, until=[{"exit": True}])
    searches = begin_searches(client, session)
    for _ in range(3):
        start(client, FOREVER, output_bytes=16 * MIB)
    assert {client.result(number)["state"] for number in searches} == {"ended"}
    assert client.call_error("session.read", {"session": session})


def test_a_search_ends_although_output_goes_on(client, workspace):
    """What comes after the time of a read is over is not searched: a command cannot write faster than that."""
    session = start(client, "exec tr '\\0' a < /dev/zero", output_bytes=16 * MIB)
    while read(client, session, max_bytes=0)["lost_bytes"] == 0:
        pass
    for wait in 0, 1, 100:
        assert read(client, session, max_bytes=0, wait_ms=wait, until=HARD)["met"] is None
    end(client, session, grace_ms=0)
