# SPDX-License-Identifier: Apache-2.0
"""Calls with a key, attacked: by a disk that hangs, a tenant that uses up its keys, many clients with one key, and what may
become of the journal's files."""

import collections
import contextlib
import os
import subprocess
import time

import pytest

import procfs
from cloister_client import acting_as
from keyed import COUNT, Keyed, kill, runs

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount, and for two tenants")


@contextlib.contextmanager
def disk(area):
    """An ext4 file system of the daemon's user, in a file."""
    image, place = area.path / "disk.image", area.new_directory("disk")
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no loop device: {mounted.stderr.decode()}")
    try:
        os.chown(place, area.account.uid, area.account.gid)
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        image.unlink()


@contextlib.contextmanager
def frozen(place):
    """Every write(2) to the file system waits meanwhile, and no signal ends it. fsfreeze(8)"""
    subprocess.run(["fsfreeze", "--freeze", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", place], check=True)


def check_calls_without_a_key(keyed):
    for n in range(3):
        assert keyed.client.observe("run_command", {"command": "echo x"})["output"]["stdout"] == "x\n"
        assert keyed.client.observe("write_file", {"path": "f", "content": str(n)})["success"]
        assert keyed.client.use("read_file", path="f")["content"].endswith(str(n))


def code(observation):
    return (observation["error"] or {}).get("code")


@pytest.mark.deep("slow")
@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_a_disk_that_hangs(start_daemon, area, mode):
    """Calls with a key wait or are told why they are not made, and run nothing. Other calls do not notice."""
    with disk(area) as place:
        keyed = Keyed(start_daemon, area, mode, "queue_time = 1s\ntools = basic edit patch\n", state=place / "state")
        keyed.run(COUNT, "before")
        waits_for_go = "touch begun; while ! [ -e go ]; do sleep 0.02; done; echo went"
        running = keyed.client.begin("run_command", {"command": waits_for_go}, {"key": "running"})
        # Its key counts before its beginning is recorded.
        assert procfs.eventually((keyed.root / "begun").exists)
        calls = {"command": ("run_command", {"command": COUNT}), "read": ("read_file", {"path": "runs"}),
                 "write": ("write_file", {"path": "made", "content": "x"})}
        with frozen(place):
            numbers = {key: keyed.client.begin(*call, {"key": key, "timeout_ms": 2000}) for key, call in calls.items()}
            check_calls_without_a_key(keyed)
            # One whose beginning is recorded ends as ever; its result waits.
            (keyed.root / "go").touch()
            assert keyed.client.result(running)["output"]["stdout"] == "went\n"
            for key, number in numbers.items():
                answer = keyed.client.result(number)
                assert code(answer) == ("TIMEOUT" if key != "command" else "BUSY"), (key, answer)
                if key == "command":
                    assert "The journal of keys cannot be written" in answer["error"]["message"]
                    assert answer["error"]["retry_after_ms"] > 0
            cancelled = keyed.client.begin("run_command", {"command": COUNT}, {"key": "cancelled"})
            assert keyed.client.cancel(cancelled) and code(keyed.client.result(cancelled)) == "CANCELLED"
            assert keyed.run(COUNT, "before")["replayed"]
            check_calls_without_a_key(keyed)
            waits = keyed.client.begin("run_command", {"command": COUNT}, {"key": "waits"})
            check_calls_without_a_key(keyed)
            assert runs(keyed.root) == 1 and not (keyed.root / "made").exists()
        waited = keyed.client.result(waits)
        assert code(waited) in (None, "BUSY"), waited
        assert procfs.eventually(lambda: keyed.run(COUNT, "after")["error"] is None)
        ran = runs(keyed.root)
        assert ran == 3 - (code(waited) == "BUSY")
        # Their keys are free, and so they are after a restart.
        kill(keyed.daemon)
        after = Keyed(start_daemon, area, mode, "tools = basic edit patch\n", root=keyed.root, state=place / "state")
        for key in ("command", "cancelled"):
            assert "replayed" not in after.run(COUNT, key) and after.run(COUNT, key)["replayed"]
        assert "replayed" not in after.client.observe(*calls["write"], {"key": "write"})
        assert after.run(COUNT, "before")["replayed"] and runs(keyed.root) == ran + 2
        assert after.daemon.stop() == 0


def test_a_tenant_that_uses_up_its_keys(start_daemon, area, tenants):
    """Another tenant's keys stay, and it gets new ones."""
    text = "[cloister]\nagent_socket_mode = 0666\njournal = fast\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nkeys = 40\n"
    daemon = start_daemon(config=text)
    clients = [daemon.connect(user) for user in tenants[:2]]
    for client in clients:
        client.call("workspace.open", {"workspace": "w"})

    def run(client, key, command="echo out"):
        return client.observe("run_command", {"command": command}, {"key": key})
    assert run(clients[1], "mine")["success"]
    answers = collections.Counter(code(run(clients[0], f"k{n}")) for n in range(60))
    assert answers == {None: 40, "BUSY": 20}
    assert run(clients[1], "mine")["replayed"]
    assert all("replayed" not in run(clients[1], f"k{n}") for n in range(39))  # those of a are not b's
    assert clients[0].observe("run_command", {"command": "true"})["success"]  # without a key


@pytest.mark.deep("busy")
@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_one_key_from_many_connections_and_across_a_restart(start_daemon, area, mode):
    """One run at most, whenever cloisterd dies, and everybody hears the same."""
    root, state, codes = None, None, set()
    for number in range(6):
        keyed = Keyed(start_daemon, area, mode, root=root, **({"state": state} if state else {}))
        root, state = keyed.root, keyed.daemon.state
        keyed.run("true", f"warm-{number}")
        command = f"echo run >>count.{number}; echo done"
        for client in [keyed.connect() for _ in range(8)]:
            for _ in range(2):
                client.begin("run_command", {"command": command}, {"key": f"race-{number}"})
        time.sleep(0.004 * number)
        kill(keyed.daemon)
        keyed = Keyed(start_daemon, area, mode, root=root, state=state)
        numbers = [(client, client.begin("run_command", {"command": command}, {"key": f"race-{number}"}))
                   for client in [keyed.connect() for _ in range(8)] for _ in range(2)]
        answers = [client.result(one) for client, one in numbers]
        path = root / f"count.{number}"
        count = len(path.read_text().splitlines()) if path.exists() else 0
        assert count <= 1
        assert len({code(answer) for answer in answers}) == 1 and code(answers[0]) in (None, "OUTCOME_UNKNOWN"), answers
        assert code(answers[0]) or (count == 1 and {answer["output"]["stdout"] for answer in answers} == {"done\n"})
        codes.add(code(answers[0]))
        assert keyed.daemon.stop() == 0
    assert codes


def journal_of(keyed):
    """Its files, the current one last."""
    return sorted((keyed.daemon.state / "journal").iterdir(), key=lambda file: file.stat().st_size)


def test_files_that_are_replaced_while_it_runs(start_daemon, area):
    """cloisterd has them open, and looks at no name again."""
    keyed = Keyed(start_daemon, area)
    keyed.run(COUNT, "k")
    keyed.written()
    for path in journal_of(keyed):
        path.rename(path.with_suffix(".old"))
        os.symlink("/dev/null", path)
    assert keyed.run(COUNT, "k")["replayed"] and keyed.run(COUNT, "k2")["output"]
    assert keyed.run(COUNT, "k2")["replayed"] and runs(keyed.root) == 2


def test_a_byte_that_changes_in_the_middle(start_daemon, area):
    """What is before it is kept, nothing behind it is believed, and the log says how much was lost."""
    keyed = Keyed(start_daemon, area)
    keyed.run(COUNT, "first")
    keyed.written()
    journal = journal_of(keyed)[-1]
    middle = journal.stat().st_size
    keyed.run(COUNT, "second"), keyed.run(COUNT, "third")
    keyed.written()
    kill(keyed.daemon)
    content = bytearray(journal.read_bytes())
    content[middle + 20] ^= 1
    journal.write_bytes(content)
    after = Keyed(start_daemon, area, root=keyed.root, state=keyed.daemon.state)
    assert f"{len(content) - middle} bytes were cut off" in after.daemon.log()
    assert after.run(COUNT, "first")["replayed"] and after.status()["keys"] == 1


def test_a_record_that_is_copied_to_another_key(start_daemon, area):
    """A whole record put once more, and another tenant's name in it, change nobody's answers: the checksum is of all of it."""
    keyed = Keyed(start_daemon, area)
    keyed.run(COUNT, "k")
    keyed.written()
    kill(keyed.daemon)
    journal = journal_of(keyed)[-1]
    content = journal.read_bytes()
    first = int.from_bytes(content[:4], "little")  # the record that numbers the file
    with acting_as(area.account.uid, area.account.gid):
        journal.write_bytes(content + content[first:])
    after = Keyed(start_daemon, area, root=keyed.root, state=keyed.daemon.state)
    assert after.status()["keys"] == 1 and after.run(COUNT, "k")["replayed"] and runs(keyed.root) == 1
