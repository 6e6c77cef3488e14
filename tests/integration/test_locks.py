# SPDX-License-Identifier: Apache-2.0
"""What calls of different workspaces share in cloisterd: no lock that one of them would wait for."""

import os
import shutil

import pytest

from daemon import SANITIZED
from futexes import Futexes, flood

CALLS = 2000


@pytest.mark.skipif(SANITIZED, reason="the sanitizer has locks of its own")
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("strace"), reason="needs strace and root")
@pytest.mark.parametrize("words", [("read_file", lambda n: {"path": "f"}, {}),
                                   ("write_file", lambda n: {"path": f"f{n % 8}", "content": "x"}, {"durability": "fast"})],
                         ids=lambda words: words[0])
def test_many_workspaces_wait_for_no_lock(daemon, words):
    """A thread calls futex(2) only for a lock that another has, or to wake one that sleeps."""
    clients = [daemon.connect() for _ in range(8)]
    for client in clients:
        client.call("workspace.open", {"root": str(daemon.new_directory())})
        client.use("write_file", path="f", content="x" * 4000)
    flood(clients, CALLS // 10, words)
    with Futexes(daemon.pid) as futexes:
        flood(clients, CALLS, words)
    assert futexes.count < CALLS / 20
