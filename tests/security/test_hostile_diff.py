# SPDX-License-Identifier: Apache-2.0
"""Attacks on workspace.diff: by what a workspace has put into its layers before and after its first checkpoint, by
commands that exchange what is compared, and by a files process that was taken over."""

import json
import os

import pytest

import procfs
from cloister_client import RpcError, acting_as
from layers import opened

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")

SECRET = "not for workspaces"
NAMES = ("opaque", "redirect", "metacopy", "origin", "impure", "upper", "whiteout", "protattr", "nlink", "uuid")
FORGE = r"""
import os
for top, directories, files in os.walk("."):
    for path in [top] + [os.path.join(top, name) for name in files]:
        for name in NAMES:
            for value in (b"y", b"x", b"/../../secret", b"\0" * 29, b""):
                try:
                    os.setxattr(path, "user.overlay." + name, value)
                except OSError:
                    pass
"""


def forge(names):
    return FORGE.replace("NAMES", repr(tuple(names)))


def diff(client, **params):
    result = client.call("workspace.diff", params)
    assert not result["truncated"]
    return {row["path"]: row["change"] for row in result["changes"]}


def layers_of(daemon, name):
    with acting_as(os.getuid()):
        (path,) = (daemon.state / "workspaces").rglob(f".layers-{name}")
    return path


SHOWN = r"""
import json, os
shown = {}
for top, directories, files in os.walk("."):
    for path in [os.path.relpath(os.path.join(top, name)) for name in directories + files]:
        try:
            mode = os.lstat(path).st_mode
            shown[path] = [mode, os.readlink(path) if os.path.islink(path) else open(path).read() if os.path.isfile(path) else ""]
        except OSError:
            pass
print(json.dumps(shown))
"""


def shown(client):
    """What the kernel lets the workspace see of its files."""
    return json.loads(client.run("python3 - <<'E'\n" + SHOWN + "E\n")["stdout"])


def modelled(before, after):
    return {path: "added" if path not in before else "deleted" if path not in after else "changed"
            for path in {*before, *after} if before.get(path) != after.get(path)}


@pytest.mark.parametrize("names", [NAMES, *((name,) for name in NAMES)], ids="-".join)
def test_attributes_and_devices_from_before_the_first_checkpoint(daemon, names):
    """They may hide files from the workspace itself, from the first checkpoint on: then the kernel hides them in both views,
    and the diff is of what is shown."""
    with acting_as(os.getuid()):
        (daemon.state / "workspaces" / "secret").write_text(SECRET)
    client = opened(daemon, f"a{len(names)}-{names[0]}")
    client.use("write_file", path="forge.py", content=forge(names))
    client.run("mkdir -p d/e d/f g/h; echo a > d/a; echo b > d/e/b; echo c > c; echo g > d/f/g; ln -s ../secret link; "
               "mknod hidden c 0 0; mknod d/e/b2 c 0 0; echo x > hidden2; python3 forge.py; echo honest > g/h/i; echo j > g/j")
    client.call("workspace.checkpoint", {})
    before = shown(client)
    assert "g/h/i" in before and diff(client) == {}
    client.run("python3 forge.py; echo more >> d/e/b; rm -f c; rm -rf d/f; mkdir d/f; mknod new c 0 0; mknod d/a2 c 0 0; "
               "ln -sfn /etc/passwd link; echo k > g/h/i; rm g/j")
    expected = modelled(before, shown(client))
    assert expected["g/h/i"] == "changed" and expected["g/j"] == "deleted" and expected["link"] == "changed"
    assert diff(client) == expected
    result = client.call("workspace.diff", {"patch": True})
    assert SECRET not in str(result) and "root:" not in str(result)
    client.close()


@pytest.mark.parametrize("name", NAMES)
def test_forged_attributes_in_the_upper_layers(daemon, name):
    """A workspace cannot write them there through the overlay; here root does. What they hide in the next cell, the kernel
    hides; the diff follows it, and invents nothing."""
    workspace = f"f-{name}"
    client = opened(daemon, workspace)
    client.run("umask 022; mkdir -p d/e f; echo a > d/a; echo b > d/e/b; echo c > f/c; chmod 755 .")
    before = shown(client)
    client.call("workspace.checkpoint", {})
    client.run("umask 022; echo A > d/a; echo B > d/e/new; touch d/e f")
    assert diff(client) == {"d/a": "changed", "d/e/new": "added"}
    upper = layers_of(daemon, workspace) / "1-0" / "u"
    with acting_as(os.getuid()):
        for path in (upper, *upper.rglob("*")):
            os.setxattr(path, f"user.overlay.{name}", b"y")
    # In this cell the kernel has read them already, or has not.
    client.call("workspace.close", {})
    client.call("workspace.open", {"workspace": workspace})
    result = client.call("workspace.diff", {})
    now = {row["path"]: row["change"] for row in result["changes"]}
    expected = modelled(before, shown(client))
    # What the kernel lets nobody look at is counted.
    assert now == expected or (result["unread"] > 0 and set(now.items()) <= set(expected.items()))
    client.close()


def test_names_that_are_exchanged_meanwhile(own_daemon):
    """A command exchanges files, directories, links that lead out and pipes; each answer has only what one of them was, and
    none hangs."""
    client = opened(own_daemon, "w")
    client.run("mkdir -p d/e; echo x > d/e/f; echo y > d/g; ln -s / d/out; ln -s /etc d/etc")
    client.call("workspace.checkpoint", {})
    client.use("write_file", path="race.py", content=r"""
import os, shutil, sys, time
end = time.time() + float(sys.argv[1])
os.makedirs("real/e", exist_ok=True)
while time.time() < end:
    for name, target in (("d/e", "/etc"), ("d/g", "/etc/passwd")):
        os.rename(name, "aside") if os.path.lexists(name) else None
        os.symlink(target, name)
        os.unlink(name)
        os.mkfifo(name)
        os.unlink(name)
        try:
            os.rename("aside", name)
        except OSError:
            os.makedirs(name, exist_ok=True)
        if os.path.isdir("d/e"):
            open("d/e/f", "a").write("z")
        if os.path.isdir("aside"):
            shutil.rmtree("aside")
""")
    running = client.begin("run_command", {"command": "python3 race.py 6"})
    for _ in range(150):
        result = client.call("workspace.diff", {"patch": True})
        for row in result["changes"]:
            assert row["path"].split("/")[0] in ("d", "aside", "real", "race.py")
            assert row["path"].count("/") <= 2 and "passwd" not in row["path"]
        assert "root:" not in str(result)
    client.cancel(running)
    client.result(running)


def test_what_a_files_process_may_do_with_the_layers(own_daemon):
    """It has them read-only and detached. No command has them, and no process can reach them by a name."""
    client = opened(own_daemon, "w")
    client.run("echo secret of before > file; chmod 600 file")
    client.call("workspace.checkpoint", {})
    client.run("rm file; sleep 0.1")
    ((_, files),) = own_daemon.cells()
    with acting_as(os.getuid()):
        top = f"/proc/{files}/fd/6"
        assert {name[0] for name in os.listdir(top)} == {"u", "v"}
        for name in os.listdir(top):
            wanted = os.ST_RDONLY | os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
            assert os.statvfs(f"{top}/{name}").f_flag & wanted == wanted
        with pytest.raises(OSError):
            os.open(f"{top}/v0/new", os.O_CREAT | os.O_WRONLY)
        assert not [line for line in open(f"/proc/{files}/mountinfo") if ".layers-" in line.split(" - ")[0]]
    assert client.run("cat /proc/*/fd/6/v0/file 2>/dev/null; ls -l /proc/self/fd")["stdout"].count("secret") == 0


def test_a_plain_workspace_gives_its_files_process_none(own_daemon):
    client = opened(own_daemon, "w")
    client.run("true")
    ((_, files),) = own_daemon.cells()
    with acting_as(os.getuid()):
        assert procfs.eventually(lambda: not os.path.exists(f"/proc/{files}/fd/6"))
    with pytest.raises(RpcError):
        client.call("workspace.diff", {})


def test_many_large_diffs_at_once_are_bound(own_daemon):
    """A tenant's diffs take the turns of its file jobs; another call is answered meanwhile."""
    client = opened(own_daemon, "w")
    client.run("for n in $(seq 8); do truncate -s 1G large$n; done")
    client.call("workspace.checkpoint", {})
    client.run("for n in $(seq 8); do chmod 755 large$n; chmod 644 large$n; done; echo y > small")
    asked = [client.request("workspace.diff", {"patch": True}) for _ in range(100)]
    assert client.use("read_file", path="small", options={"line_numbers": False})["content"] == "y\n"
    ((_, files),) = own_daemon.cells()
    with acting_as(os.getuid()):
        assert len(procfs.children(files)) <= 9  # LIMIT_FILE_JOBS, and one that sweeps
    for request in asked:
        client.call("tool.cancel", {"id": request})
    cancelled = 0
    for request in asked:
        try:
            client.result(request)
        except RpcError as error:
            assert error.name == "CANCELLED"
            cancelled += 1
    assert cancelled > 50
    client.run("rm large*")
    assert diff(client)["small"] == "added"
