# SPDX-License-Identifier: Apache-2.0
"""Calls with a key: at most one run, the same answer again, and what is said when the answer is lost."""

import collections
import contextlib
import json
import os
import stat

import pytest

import procfs
from cloister_client import RpcError
from daemon import Daemon
from keyed import COUNT, Keyed, config, kill, runs

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")


@pytest.fixture(scope="module")
def service(area):
    running = Daemon(area, config=config(area, "fast"))
    yield running
    assert running.stop() == 0


@pytest.fixture
def keyed(service, area):
    """A workspace of its own; the service has other tests' keys too."""
    made = Keyed(lambda **_: service, area)
    yield made
    made.client.close()


@pytest.fixture
def own(start_daemon, area):
    """With a service of its own."""
    return Keyed(start_daemon, area)


def without(observation, *names):
    return {name: value for name, value in observation.items() if name not in names}


def test_the_same_call_again_is_the_same_answer(keyed):
    first, second = (keyed.run(COUNT, "k") for _ in range(2))
    assert first["output"]["exit_code"] == 3 and first["output"]["stdout"] == "out\n"
    assert "replayed" not in first and first["key_horizon_ms"] == 24 * 3600 * 1000
    assert second.pop("replayed") is True
    assert first == second
    assert runs(keyed.root) == 1


def test_a_key_is_of_one_workspace(keyed, area):
    keyed.run(COUNT, "k")
    other = area.new_directory()
    keyed.client.call("workspace.open", {"root": str(other)})
    assert "replayed" not in keyed.run(COUNT, "k")
    assert (runs(keyed.root), runs(other)) == (1, 1)


def test_a_removed_workspace_takes_its_keys_along(start_daemon, area):
    """One of the same name has none of its results: the file that they tell of is not there."""
    keyed = Keyed(start_daemon, area)

    def write():
        return keyed.client.observe("write_file", {"path": "f", "content": "x"}, {"key": "k"}, "managed")
    keyed.client.call("workspace.open", {"workspace": "managed"})
    assert "replayed" not in write() and write()["replayed"]
    keyed.written()
    kill(keyed.daemon)
    keyed = Keyed(start_daemon, area, state=keyed.daemon.state)
    keyed.client.call("workspace.open", {"workspace": "managed"})
    assert write()["replayed"]
    keyed.client.call("workspace.remove", {"workspace": "managed"})
    keyed.client.call("workspace.open", {"workspace": "managed"})
    again = write()
    assert "replayed" not in again and again["output"]["created"]


@pytest.mark.parametrize("tool, arguments, options", [
    ("run_command", {"command": "echo run >>runs;  exit 3"}, {}),
    ("run_command", {"command": COUNT}, {"env": {"A": "b"}}),
    ("run_command", {"command": COUNT}, {"stdin": "x"}),
    ("run_command", {"command": COUNT}, {"encoding": "base64"}),
    ("write_file", {"path": "runs", "content": "run\nrun\n"}, {}),
])
def test_another_call_with_the_key_is_a_conflict(keyed, tool, arguments, options):
    keyed.run(COUNT, "k")
    error = keyed.client.observe(tool, arguments, {"key": "k", **options})["error"]
    assert error["code"] == "KEY_CONFLICT" and "new key" in error["message"]
    assert runs(keyed.root) == 1
    assert keyed.run(COUNT, "k", timeout_ms=9999, line_numbers=False)["replayed"]  # these change no effect


def test_unread_results_of_calls_that_joined_are_bounded(start_daemon, area):
    """Each gets a copy of one result. Those that there is no room for are told so, and may ask again."""
    keyed = Keyed(start_daemon, area)
    command = "while ! [ -e go ]; do sleep 0.02; done; head -c 60000 /dev/zero | tr '\\0' x"
    first = keyed.client.begin("run_command", {"command": command}, {"key": "k"})
    others = [keyed.connect() for _ in range(4)]
    numbers = [(client, client.begin("run_command", {"command": command}, {"key": "k"}))
               for client in others for _ in range(250)]
    assert procfs.eventually(lambda: keyed.status()["joined"] == len(numbers))
    (keyed.root / "go").touch()
    assert len(keyed.client.result(first)["output"]["stdout"]) == 60000
    with keyed.daemon.control() as control:
        assert control.call("status")["unread_bytes"] < 40 << 20
    errors = collections.Counter((client.result(number)["error"] or {}).get("code") for client, number in numbers)
    assert set(errors) == {None, "BUSY"} and errors[None] > 100
    assert keyed.run(command, "k")["replayed"]


def wait_for(path):
    assert procfs.eventually(path.exists)


SLOW = "touch begun; while ! [ -e go ]; do sleep 0.02; done; echo run >>runs; echo out"


def test_a_call_goes_on_when_its_client_is_lost(own):
    own.client.begin("run_command", {"command": SLOW}, {"key": "k"})
    wait_for(own.root / "begun")
    own.client.close()
    own.client = own.connect()
    number = own.client.begin("run_command", {"command": SLOW}, {"key": "k"})
    assert procfs.eventually(lambda: own.status()["joined"] == 1)
    (own.root / "go").touch()
    assert own.client.result(number)["output"]["stdout"] == "out\n"
    assert runs(own.root) == 1


def test_a_call_waits_for_its_client_for_a_time(own):
    """With key_wait_ms it is cancelled when nobody has waited for it for so long, and its outcome is known."""
    own.client.begin("run_command", {"command": SLOW}, {"key": "k", "key_wait_ms": 1})
    wait_for(own.root / "begun")
    own.client.close()
    own.client = own.connect()
    with own.daemon.control() as control:
        assert procfs.eventually(lambda: control.call("status")["calls"] == 0)
    again = own.run(SLOW, "k")
    assert again["replayed"] and again["error"]["code"] == "CANCELLED" and runs(own.root) == 0


def test_a_key_that_is_needed_no_more(own):
    own.run(COUNT, "k")
    number = own.client.begin("run_command", {"command": SLOW}, {"key": "running"})
    wait_for(own.root / "begun")
    assert "replayed" not in own.run("true", "k2", forget_key="k")
    own.client.observe("read_file", {"path": "runs"}, {"forget_key": "running"})  # it is in flight, and keeps its key
    assert own.status()["keys"] == 2
    assert "replayed" not in own.run(COUNT, "k") and runs(own.root) == 2
    (own.root / "go").touch()
    assert own.client.result(number)["output"]["stdout"] == "out\n" and own.run(SLOW, "running")["replayed"]
    with pytest.raises(RpcError, match="forget_key"):
        own.run("true", "k3", forget_key="k3")
    with pytest.raises(RpcError, match='option "forget_key" must be 1 to 128'):
        own.run("true", "k3", forget_key="")


def test_another_tenant_s_key_is_not_forgotten(keyed, area):
    """Nor one of another workspace: both are part of what the key is."""
    keyed.run(COUNT, "k")
    other = area.new_directory()
    client = keyed.daemon.connect()
    client.call("workspace.open", {"root": str(other)})
    client.observe("run_command", {"command": "true"}, {"forget_key": "k"})
    assert keyed.run(COUNT, "k")["replayed"]


def test_sigterm_ends_calls_that_go_on_without_a_client(own):
    own.client.begin("run_command", {"command": SLOW}, {"key": "k"})
    wait_for(own.root / "begun")
    own.client.close()
    assert own.daemon.stop() == 0


@pytest.mark.parametrize("key", ["", "a/b", "x" * 129, 7])
def test_what_is_no_key(keyed, key):
    with pytest.raises(RpcError, match='option "key" must be 1 to 128'):
        keyed.run("true", key)


def test_every_character_of_a_key(keyed):
    key = "AZaz09._:-"
    assert "replayed" not in keyed.run(COUNT, key) and keyed.run(COUNT, key)["replayed"]
    assert not keyed.run("true", "x" * 128)["error"]


def test_input_that_comes_later_has_no_key(keyed):
    with pytest.raises(RpcError, match='"key" cannot be used with "stdin_stream"'):
        keyed.run("cat", "k", stdin_stream=True)


def test_what_never_began_leaves_the_key_free(keyed):
    refused = keyed.client.observe("run_command", {"command": "mkfs /dev/sda"}, {"key": "k"})
    assert refused["error"]["code"] == "COMMAND_BLOCKED"
    wrong = keyed.client.observe("run_command", {"comand": 1}, {"key": "k"})
    assert wrong["error"]["code"] == "INVALID_ARGUMENTS"
    assert "replayed" not in keyed.run(COUNT, "k")


def test_files(keyed):
    write = ("write_file", {"path": "f", "content": "new"}, {"key": "w"})
    first = keyed.client.observe(*write)
    (keyed.root / "f").unlink()
    again = keyed.client.observe(*write)
    assert again.pop("replayed") and again == first and not (keyed.root / "f").exists()
    missing = ("read_file", {"path": "none"}, {"key": "r"})
    first, again = (keyed.client.observe(*missing) for _ in range(2))
    assert first["error"]["code"] == "NOT_FOUND" and again.pop("replayed") and again == first
    (keyed.root / "g").write_text("one\ntwo\n")
    for tool, arguments in (("read_file", {"path": "g"}), ("list_directory", {"path": "."}), ("search_files", {"pattern": "o"})):
        first, again = (keyed.client.observe(tool, arguments, {"key": tool}) for _ in range(2))
        assert first["success"] and again.pop("replayed") and again == first


def test_a_large_output_is_replayed_as_head_and_tail(keyed):
    command = "echo run >>runs; echo first; head -c 200000 /dev/zero | tr '\\0' x; echo last"
    first, again = (keyed.run(command, "k") for _ in range(2))
    assert not first["output"]["truncated"] and len(first["output"]["stdout"]) > 200000
    shown = again["output"]["stdout"]
    assert again["replayed"] and again["output"]["truncated"] and runs(keyed.root) == 1
    assert len(json.dumps(again)) <= 66000 and shown.startswith("first\n") and shown.endswith("last\n")
    assert again["output"]["stdout_bytes"] == first["output"]["stdout_bytes"]


def test_a_large_read_is_read_again(keyed):
    """It has no effects, so a second run is as good as a copy."""
    (keyed.root / "f").write_text(("x" * 99 + "\n") * 2000)
    for _ in range(2):
        answer = keyed.client.observe("read_file", {"path": "f"}, {"key": "k"})
        assert "replayed" not in answer and answer["output"]["size"] == 200000


def test_mcp(keyed):
    def call(meta):
        return keyed.client.call("tools/call", {
            "name": "run_command", "arguments": {"command": COUNT}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}, "cloister/key": "k", **meta}})
    first, again = call({}), call({"cloister/options": {"timeout_ms": 20000}})
    assert "replayed" not in first["structuredContent"] and again["structuredContent"].pop("replayed")
    assert again == first and runs(keyed.root) == 1


def test_without_a_journal_a_key_is_refused(start_daemon, area):
    keyed = Keyed(start_daemon, area, "off")
    assert "key_horizon_ms" not in keyed.client.call("workspace.open", {"root": str(keyed.root)})
    error = keyed.run(COUNT, "k")["error"]
    assert error["code"] == "FORBIDDEN" and "journal = off" in error["message"]
    assert keyed.client.observe("run_command", {"command": COUNT})["success"]
    assert not (keyed.daemon.state / "journal").exists() and keyed.status() is None
    assert runs(keyed.root) == 1


def test_the_files_of_the_journal(own):
    own.run(COUNT, "secret-key")
    files = sorted((own.daemon.state / "journal").iterdir())
    assert [path.name for path in files] == ["keys.0", "keys.1"]
    for path in [*files, files[0].parent]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert b"secret-key" not in b"".join(path.read_bytes() for path in files)
    assert not any(path.name.startswith("keys.") for path in own.root.iterdir())


def test_status_metrics_and_audit(start_daemon, area):
    keyed = Keyed(start_daemon, area)
    keyed.run(COUNT, "k"), keyed.run(COUNT, "k"), keyed.run("true", "k")
    keyed.written()
    status = keyed.status()
    assert status["journal"] == "fast" and status["keys"] == 1 and status["journal_bytes"] > 100
    assert (status["replayed"], status["conflicts"], status["unknown"], status["error"]) == (1, 1, 0, None)
    assert status["tenants"] == [{"tenant": "t", "keys": 1, "key_horizon_ms": 86400000}]
    with keyed.daemon.control() as control:
        metrics = control.call("metrics")["text"]
    for line in ("cloister_keys 1", "cloister_keys_replayed_total 1", "cloister_keys_conflicts_total 1",
                 "cloister_keys_outcome_unknown_total 0", "cloister_keys_resolved_total 0", "cloister_journal_writable 1"):
        assert f"\n{line}\n" in metrics
    said = keyed.daemon.ctl("status").stdout
    assert b"1 keys, 1 replayed, 1 conflicts" in said and b"results are kept for 86400 s" in said
    assert f"journal fast, {status['journal_bytes']} bytes".encode() in said


def test_cloister_call(keyed, area):
    words = ("cloister", "--socket", str(keyed.daemon.socket), "--workspace", str(keyed.root), "call", "--key", "7",
             "run_command", f"command={COUNT}")
    first, again = (json.loads(area.run(*words).stdout) for _ in range(2))
    assert again.pop("replayed") and again == first and runs(keyed.root) == 1
    private = area.private(area.new_directory(), *words[5:])
    assert "FORBIDDEN" in private.stdout.decode(), private


# The end of cloisterd.

@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_results_survive_cloisterd(start_daemon, area, mode):
    before = Keyed(start_daemon, area, mode)
    first = before.run(COUNT, "k")
    before.written()
    kill(before.daemon)
    after = Keyed(start_daemon, area, mode, root=before.root, state=before.daemon.state)
    again = after.run(COUNT, "k")
    assert again.pop("replayed") and again == first and runs(before.root) == 1
    assert after.run("false", "k")["error"]["code"] == "KEY_CONFLICT"


@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_a_call_that_cloisterd_did_not_survive(start_daemon, area, mode):
    before = Keyed(start_daemon, area, mode)
    before.client.begin("run_command", {"command": SLOW}, {"key": "k"})
    wait_for(before.root / "begun")
    kill(before.daemon)
    for _ in range(2):  # it stays so through a further restart
        after = Keyed(start_daemon, area, mode, root=before.root, state=before.daemon.state)
        error = after.run(SLOW, "k")["error"]
        assert error["code"] == "OUTCOME_UNKNOWN" and "Look, then use a new key" in error["message"]
        assert after.run("true", "k")["error"]["code"] == "KEY_CONFLICT"
        assert after.status()["unknown"] == 1 and runs(before.root) == 0
        kill(after.daemon)


def contents(root):
    return {path.name: path.read_text() for path in root.iterdir() if path.is_file()}


def lose(start_daemon, area, tool, arguments, before, left, mode="fast"):
    """Makes a call whose beginning is recorded, and whose end is not; then the files have the contents @left."""
    lost = Keyed(start_daemon, area, mode, "tools = basic edit patch\n")

    def put(files):
        for path in lost.root.iterdir():
            path.unlink()
        for name, content in files.items():
            (lost.root / name).write_text(content)
            os.chown(lost.root / name, area.account.uid, area.account.gid)
    put(before)
    assert lost.client.observe(tool, arguments, {"key": "k"})["success"]
    lost.written()
    kill(lost.daemon)
    # What is appended last is the end.
    journal = max((lost.daemon.state / "journal").iterdir(), key=lambda file: file.stat().st_size)
    os.truncate(journal, journal.stat().st_size - 1)
    put(left)
    after = Keyed(start_daemon, area, mode, "tools = basic edit patch\n", root=lost.root, state=lost.daemon.state)
    assert after.status()["keys"] == 1
    return after


WRITE = ("write_file", {"path": "f", "content": "new"})
EDIT = ("edit_file", {"path": "f", "edits": [{"old": "one", "new": "one and one"}]})


@pytest.mark.parametrize("call, before, left, answer, content", [
    (WRITE, "old", "new", "resolved", "new"), (WRITE, None, None, "ran", "new"), (WRITE, "old", "other", "OUTCOME_UNKNOWN", "other"),
    (EDIT, "one", "one and one", "resolved", "one and one"), (EDIT, "one", "one", "ran", "one and one"),
    (EDIT, "one", None, "OUTCOME_UNKNOWN", None)])
def test_what_became_of_a_change(start_daemon, area, call, before, left, answer, content):
    """The files process looks: it was done, it was not and is done now, or the file has a third content."""
    def files(text):
        return {} if text is None else {"f": text}
    keyed = lose(start_daemon, area, *call, files(before), files(left))
    for again in range(2):
        got = keyed.client.observe(*call, {"key": "k"})
        assert (got["error"] or {}).get("code") == (answer if answer.isupper() else None), got
        assert contents(keyed.root) == files(content)
        assert got.get("resolved", False) == (answer == "resolved")
        assert got.get("replayed", False) == (again == 1 and not answer.isupper())
        if got["success"]:
            assert got["output"]["path"] == "f" and len(got["output"]["version"]) == 32
            assert got["output"].get("created", False) == (before is None)
        else:
            assert "Look, then use a new key" in got["error"]["message"]
    status = keyed.status()
    assert (status["resolved"], status["unknown"]) == ((0, 2) if answer.isupper() else (1, 0))
    assert keyed.client.observe("write_file", {"path": "g", "content": ""}, {"key": "k"})["error"]["code"] == "KEY_CONFLICT"


PATCH = ("apply_patch", {"patch": """*** Begin Patch
*** Update File: u
-one
+two
*** Add File: a
+added
*** Delete File: d
*** Update File: m
*** Move to: n
 1
+2
*** End Patch"""})
OLD, NEW = {"u": "one\n", "d": "gone\n", "m": "1\n"}, {"u": "two\n", "a": "added\n", "n": "1\n2\n"}


@pytest.mark.parametrize("left, states", [
    (OLD, None), (NEW, None),
    ({**OLD, **NEW}, "changed changed unchanged other"),  # a move that is cut short has both names
    ({**without(NEW, "n"), "m": "1\n"}, "changed changed changed unchanged"),
    ({}, "other unchanged changed other")])
def test_what_became_of_a_patch(start_daemon, area, left, states):
    """All files are as after it, or all as before it and it is made now; otherwise the answer says what each of them is."""
    keyed = lose(start_daemon, area, *PATCH, OLD, left)
    for again in range(2):
        got = keyed.client.observe(*PATCH, {"key": "k"})
        assert contents(keyed.root) == (left if states else NEW)
        assert got.get("resolved", False) == (left == NEW) and got.get("replayed", False) == (again == 1 and not states)
        if states:
            assert got["error"]["code"] == "OUTCOME_UNKNOWN" and "Look, then use a new key" in got["error"]["message"]
            files = got["error"]["data"]["files"]
            assert [(file["path"], file["op"]) for file in files] == [("u", "update"), ("a", "add"), ("d", "delete"), ("n", "move")]
            assert " ".join(file["state"] for file in files) == states and got["notes"]
        else:
            files = got["output"]["files"]
            versions = [keyed.client.use("read_file", path=name)["version"] for name in "uan"]
            assert [file.get("version") for file in files] == [*versions[:2], None, versions[2]]
            assert [file["op"] for file in files] == ["update", "add", "delete", "move"]
    status = keyed.status()
    assert (status["resolved"], status["unknown"]) == ((0, 2) if states else (1, 0))


@pytest.mark.parametrize("mode", ["fast", "durable"])
def test_a_change_that_fails_leaves_its_key_free(start_daemon, area, mode):
    keyed = Keyed(start_daemon, area, mode, "tools = basic edit patch\n")
    assert keyed.client.observe(*PATCH, {"key": "k"})["error"]["code"] == "NOT_FOUND" and keyed.status()["keys"] == 0
    (keyed.root / "f").write_text("two")
    os.chown(keyed.root / "f", area.account.uid, area.account.gid)
    first = keyed.client.observe(*EDIT, {"key": "k"})
    assert first["error"]["code"] == "NO_MATCH" and first["error"]["data"] and keyed.status()["keys"] == 0
    (keyed.root / "f").write_text("one")
    assert keyed.client.observe(*EDIT, {"key": "k"})["output"]["diff"]
    assert keyed.client.observe(*EDIT, {"key": "k"})["replayed"] and (keyed.root / "f").read_text() == "one and one"
    refused = keyed.client.observe("write_file", {"path": "f/x", "content": ""}, {"key": "w"})
    assert refused["error"]["code"] == "NOT_A_DIRECTORY" and keyed.status()["keys"] == 1
    stale = ("write_file", {"path": "f", "content": "x", "expect": "absent"}, {"key": "s"})
    assert keyed.client.observe(*stale)["error"]["code"] == "STALE_FILE"


def test_a_large_file_is_replaced_with_a_key(keyed, area):
    """It is too large to compare, and replaced as without a key."""
    with open(keyed.root / "f", "wb") as file:
        file.truncate(64 << 20)
    os.chown(keyed.root / "f", area.account.uid, area.account.gid)
    assert keyed.client.observe(*WRITE, {"key": "k"})["success"] and (keyed.root / "f").read_text() == "new"


def test_the_audit_log_names_them(start_daemon, area):
    before = Keyed(start_daemon, area, "fast\naudit = on")
    before.run(COUNT, "k"), before.run(COUNT, "k")
    before.client.begin("run_command", {"command": SLOW}, {"key": "lost"})
    wait_for(before.root / "begun")
    kill(before.daemon)
    after = Keyed(start_daemon, area, "fast\naudit = on", root=before.root, state=before.daemon.state)
    after.run(SLOW, "lost")
    assert after.daemon.stop() == 0
    lines = [json.loads(line) for line in (before.daemon.state / "audit" / "audit.log").read_text().splitlines()]
    found = {line["event"]: line for line in lines}
    for event in ("call.replayed", "call.outcome_unknown"):
        assert found[event]["tool"] == "run_command" and found[event]["workspace"] == str(before.root)
        assert found[event]["uid"] == area.account.uid and found[event]["tenant"] == "t"


@as_root
def test_a_full_state_disk(start_daemon, area):
    with area.disk("1m") as place:
        keyed = Keyed(start_daemon, area, state=place / "state")
        keyed.run(COUNT, "before")
        with open(place / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        answers = [keyed.run(COUNT, f"full-{n}") for n in range(40)]
        busy = [a for a in answers if a["error"] and a["error"]["code"] == "BUSY"]
        assert busy and "The journal of keys cannot be written" in busy[0]["error"]["message"]
        ran = len(answers) - len(busy)
        assert runs(keyed.root) == 1 + ran
        assert keyed.run(COUNT, "before")["replayed"]
        assert not keyed.client.observe("run_command", {"command": "true"})["error"]  # without a key
        assert "error" in keyed.status() and keyed.status()["error"]
        (place / "filler").unlink()
        assert not keyed.run("true", "full-39-again")["error"] and keyed.status()["error"] is None
        keyed.written()
        kill(keyed.daemon)
        after = Keyed(start_daemon, area, root=keyed.root, state=place / "state")
        assert after.run(COUNT, "before")["replayed"]
        # Any of them may have had its result lost, and none runs again.
        for n, first in enumerate(answers):
            again = after.run(COUNT, f"full-{n}")
            if first in busy:
                assert "replayed" not in again and again["output"]
            else:
                assert again.get("replayed") or again["error"]["code"] == "OUTCOME_UNKNOWN"
        kill(after.daemon)
