# SPDX-License-Identifier: Apache-2.0
"""Clients that read a session's output are killed in the middle of it, again and again: what they got before, put together,
is byte for byte what the command wrote, or what is missing is counted exactly. tests/chaos/run has the long form."""

import contextlib
import os
import random
import signal
import struct
import time

import procfs
import pytest
from test_sessions import KIB, MIB, WAIT, end, read, start

KILLS = int(os.environ.get("CLOISTER_READER_KILLS", "20"))
PIECE = 100 * KIB  # written between two kills, as a rule: 1,000 kills are in the middle of 100 MiB
LINE = 16
RECORD = struct.Struct("QQQ")  # the cursor asked for, what was lost, the bytes that follow


def written(first, last):
    """What the command writes from one cursor to another."""
    lines = b"".join(b"%015d\n" % n for n in range(first // LINE, last // LINE + 1))
    return lines[first % LINE:first % LINE + last - first]


def read_into(daemon, session, after, path, max_bytes):
    """The client. What it got it notes in a file, as somebody would who wants to go on there."""
    with daemon.connect() as client, open(path, "wb", buffering=0) as notes:
        while True:
            answer = read(client, session, after, wait_ms=1000, max_bytes=max_bytes)
            data = "".join(chunk["data"] for chunk in answer["chunks"]).encode()
            if answer["next"] > after:
                notes.write(RECORD.pack(after, answer["lost_bytes"], len(data)) + data)
            after = answer["next"]


class Reading:
    """All that was read, and the cursor from which the next client goes on."""

    def __init__(self):
        self.after = self.got = self.lost = 0

    def take(self, notes):
        """A record that the client's death cut off was not read."""
        at = 0
        while at + RECORD.size <= len(notes):
            after, lost, length = RECORD.unpack_from(notes, at)
            data = notes[at + RECORD.size:at + RECORD.size + length]
            if len(data) < length:
                break
            assert after == self.after
            self.lost += lost
            self.after += lost + length
            assert data == written(self.after - length, self.after), after
            self.got += length
            at += RECORD.size + length


@pytest.mark.deep("busy")
@pytest.mark.parametrize("kept", [16 * MIB, 64 * KIB])
def test_clients_die_in_the_middle(daemon, client, tmp_path, kept):
    """With a ring that holds what was written in between nothing is lost; with a small one it is counted."""
    seed = int(os.environ.get("CLOISTER_SEED", random.randrange(10 ** 9)))
    chance, began = random.Random(seed), time.monotonic()
    daemon.new_workspace(client)
    session = start(client, "n=0; while read more; do seq -f %015.0f $n $((n + more - 1)); n=$((n + more)); done; echo end",
                    stdin=True, output_bytes=kept)
    reading, total, notes = Reading(), 0, tmp_path / "notes"
    for _ in range(KILLS):
        lines = 2 * PIECE // LINE * chance.randrange(1, 100) // 100
        total += lines * LINE
        notes.write_bytes(b"")
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                read_into(daemon, session, reading.after, notes, chance.choice([1000, 64 * KIB, MIB]))
            os._exit(1)
        if chance.randrange(4):  # the others may be killed before they have connected
            procfs.eventually(lambda: notes.stat().st_size or chance.randrange(20) == 0, interval=0.001)
        client.call("session.write", {"session": session, "data": f"{lines}\n"})
        time.sleep(chance.choice([0.002, 0.02, 0.1]) * chance.random())
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, "it was still reading"
        reading.take(notes.read_bytes())
    # With nobody who reads: more than the small ring keeps.
    lines = 2 * KIB * 64 // LINE
    total += lines * LINE
    client.call("session.write", {"session": session, "data": f"{lines}\n", "eof": True})
    assert read(client, session, reading.after, wait_ms=WAIT, until=[{"exit": True}])["met"] == 0
    while reading.after < total + len("end\n"):
        answer = read(client, session, reading.after, max_bytes=MIB)
        data = "".join(chunk["data"] for chunk in answer["chunks"]).encode()
        expected = (written(reading.after + answer["lost_bytes"], min(answer["next"], total)) +
                    b"end\n"[:max(0, answer["next"] - total)])
        assert data == expected
        reading.lost += answer["lost_bytes"]
        reading.got += len(data)
        reading.after = answer["next"]
    print(f"\nseed {seed}: {KILLS} kills in {total} bytes, {reading.got} read, {reading.lost} counted as lost, "
          f"{time.monotonic() - began:.0f} s")
    assert reading.got + reading.lost == total + len("end\n")
    assert (reading.lost > 0) == (kept < MIB)
    ended = end(client, session)
    assert ended["success"] and ended["output"]["stdout_bytes"] == total + len("end\n")
