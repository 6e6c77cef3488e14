# SPDX-License-Identifier: Apache-2.0
"""The last suite in the virtual machine: what must survive a loss of power, and the removal of the package. It runs twice,
before the machine is reset and after."""

import json
import os
import pathlib
import pwd

import pytest

import procfs
from installed import (ADMINS, AGENTS, AUDIT, CONFIG, PATIENCE, STATE, UNIT, as_user, client_of, journal, main_pid, run, serves,
                       show, subordinate)

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT = ROOT / "state.json"
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")
REBOOTED = LEFT.exists() and json.loads(LEFT.read_text())["boot"] != BOOT.read_text()

pytestmark = pytest.mark.skipif(
    "CLOISTER_VM" not in os.environ, reason="runs in the virtual machine of tests/vm/run")
before = pytest.mark.skipif(REBOOTED, reason="the machine has rebooted")
after = pytest.mark.skipif(not REBOOTED, reason="the machine has not rebooted yet")


@before
def test_something_is_left():
    """Leaves a workspace, a removal that has begun, and a torn write."""
    with client_of("alice", ["team-a"]) as client:
        client.call("workspace.open", {"workspace": "kept"})
        client.use("write_file", path="kept.txt", content="kept")
    with client_of("bob") as client:
        client.call("workspace.open", {"workspace": "doomed"})
        client.run("mkdir d && touch d/f && chmod 500 d")
    run("systemctl", "stop", UNIT, "cloister.socket", "cloister-control.socket")
    owner = (STATE / "workspaces/a/kept").stat()
    torn = STATE / "workspaces/a/kept/.cloister-0123456789abcdef"
    torn.write_text("half")
    os.chown(torn, owner.st_uid, owner.st_gid)
    mark = STATE / "workspaces/b/.removing-doomed"
    mark.mkdir()
    os.chown(mark, pwd.getpwnam("cloister").pw_uid, pwd.getpwnam("cloister").pw_gid)
    LEFT.write_text(json.dumps({
        "owner": owner.st_uid, "boot": BOOT.read_text(), "uid": pwd.getpwnam("cloister").pw_uid,
        "ranges": [subordinate("uid"), subordinate("gid")], "audited": AUDIT.stat().st_size}))


@after
def test_the_service_is_there_again_and_everything_is_where_it_was():
    left = json.loads(LEFT.read_text())
    serves()
    assert AGENTS.is_socket() and ADMINS.is_socket()
    assert pwd.getpwnam("cloister").pw_uid == left["uid"]
    assert [list(subordinate("uid")), list(subordinate("gid"))] == left["ranges"]
    kept = STATE / "workspaces/a/kept"
    assert kept.stat().st_uid == left["owner"]
    with client_of("alice", ["team-a"]) as client:
        client.call("workspace.open", {"workspace": "kept"})
        assert client.run("cat kept.txt")["stdout"] == "kept"
        # The torn write is never visible, and its file is removed.
        assert [entry["path"] for entry in client.use("list_directory", path=".")["entries"]] == ["kept.txt"]
        assert procfs.eventually(lambda: os.listdir(kept) == ["kept.txt"], PATIENCE)


@after
def test_a_removal_that_was_begun_is_finished():
    assert procfs.eventually(lambda: not [name for name in os.listdir(STATE / "workspaces/b") if "doomed" in name], PATIENCE)


@after
def test_the_audit_log_goes_on():
    left = json.loads(LEFT.read_text())
    assert AUDIT.stat().st_size > left["audited"]
    as_user("ada", "cloisterctl", "audit", "verify", AUDIT)


@after
def test_removing_leaves_the_data_and_purging_nothing():
    pid, uid = main_pid(), pwd.getpwnam("cloister").pw_uid
    first, count = subordinate()
    processes = procfs.descendants(pid)
    packages = run("dpkg-query", "-W", "-f", "${Package}\\n", "cloister*", "libcloister*").stdout.split()
    show("apt-get", "remove", "--yes", "-q", *packages)
    assert not any(map(procfs.is_alive, processes))
    assert not pathlib.Path("/usr/sbin/cloisterd").exists() and not AGENTS.exists()
    assert (STATE / "workspaces/a/kept/kept.txt").read_text() == "kept"
    assert (CONFIG / "cloister.conf").exists() and subordinate() == (first, count)
    # apt forgets a package without configuration files and remembers one that has them.
    left = run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", "cloister*", "libcloister*", check=False).stdout
    assert [line for line in left.splitlines() if "config-files" in line] == ["cloister config-files"], left
    assert " installed" not in left
    show("apt-get", "purge", "--yes", "-q", "cloister")
    for file in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid"):
        assert not [line for line in pathlib.Path("/etc", file).read_text().splitlines() if line.startswith("cloister")], file
    owned = [pid for pid in procfs.pids() for own in [procfs.status(pid).get("Uid", "0").split()[0]]
             if int(own) == uid or first <= int(own) < first + count]
    assert owned == []
    # The state of a user's own service is in the user's home, which a package does not touch.
    found = run("find", "/", "-xdev", "(", "-iname", "*cloister*", "-o", "-uid", uid, "-o", "-uid", f"+{first - 1}", "-uid",
                f"-{first + count}", ")", "-not", "-path", "/payload*", "-not", "-path", "/srv/*", "-not", "-path",
                "/home/carol/.local/*", "-not", "-path", "/var/log/apt/*").stdout.split()
    found += [str(path) for path in pathlib.Path("/run").glob("**/*cloister*")]
    assert found == []
    assert "cloister" not in run("systemctl", "list-units", "--all", "--plain").stdout
    assert journal() is not None
