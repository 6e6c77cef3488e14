# SPDX-License-Identifier: Apache-2.0
"""Attacks on templates and forks: by the files of a workspace, by one that changes while it is copied, by a tenant that wants
another's template, and by a cloisterd that was taken over, which can make and rename directories in its state."""

import contextlib
import os
import threading

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import SYSTEM, system_config
from layers import opened, refused

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory and namespaces")

SECRET = "not for workspaces"
CAP_DAC_READ_SEARCH = 1 << 2


def of(daemon, top, name):
    with acting_as(os.getuid()):
        (path,) = (daemon.state / top).rglob(name)
    return path


def fork(client, template):
    (name,) = client.call("workspace.fork", {"from": template})["workspaces"]
    return name


def test_what_a_copy_does_not_have(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo x > f; mkdir d; ln -s / root; ln -s loop loop; ln -s ../../.. d/up; mkdir .cloister-0123456789abcdef; "
               "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"")
    directory = of(own_daemon, "workspaces", "w")
    with acting_as(os.getuid()):
        for name, value in (("user.note", b"kept"), ("user.overlay.redirect", b"/.."), ("user.overlay.opaque", b"y")):
            for path in ("f", "d"):
                with contextlib.suppress(OSError):  # the file system has no such attributes
                    os.setxattr(directory / path, name, value)
        attributes = os.listxattr(directory / "f")
        (directory / "f").chmod(0o6755)
        (directory / "d").chmod(0o2755)
        os.mknod(directory / "device", 0o666 | 0o020000, os.makedev(1, 1))
        os.chown(directory / "device", directory.stat().st_uid, directory.stat().st_gid)
    client.call("workspace.freeze", {"template": "t"})
    template = of(own_daemon, "templates", "t")
    with acting_as(os.getuid()):
        assert {path.lstat().st_uid for path in template.rglob("*")} == {own_daemon.account.uid}
        assert (template / "f").stat().st_mode & 0o7777 == 0o755
        assert (template / "d").stat().st_mode & 0o7777 == 0o2755
        assert not (template / "device").exists() and not (template / "s").exists()
        assert os.readlink(template / "root") == "/" and os.readlink(template / "d" / "up") == "../../.."
        assert sorted(path.name for path in template.iterdir()) == [".cloister-0123456789abcdef", "d", "f", "loop", "root"]
        if "user.note" in attributes:
            assert os.listxattr(template / "f") == os.listxattr(template / "d") == ["user.note"]
    with opened(own_daemon, fork(client, "t")) as one:
        assert one.run("cat f; ls -A root/; find . -perm /6000 -type f")["stdout"].startswith("x\n")
        assert one.observe("read_file", {"path": "root/etc/passwd"})["error"]["code"] == "SYMLINK_OUTSIDE_WORKSPACE"


def test_trees_that_are_too_deep_or_too_large(own_daemon, start_daemon, area):
    client = opened(own_daemon, "w")
    client.run("for i in $(seq 250); do mkdir d && cd d || exit; done; echo x > f")
    assert "deeper than 199" in refused(client, "workspace.freeze", {"template": "t"}, "NAME_TOO_LONG")
    lines = ["disk_classes = small:64M:100:100", f"admin_group = {area.account.gid}"]
    text = system_config(area, *lines) if SYSTEM else "\n".join(
        ["[cloister]", *lines, "[tenant one]", f"users = {area.account.name}", "managed = yes", ""])
    daemon = start_daemon(config=text, system=SYSTEM)
    bound = opened(daemon, "w")
    directory = of(daemon, "workspaces", "w")

    def put(names, size):
        with acting_as(os.getuid()):
            for name in names:
                (directory / name).write_bytes(os.urandom(size))
                os.chown(directory / name, directory.stat().st_uid, directory.stat().st_gid)

    put((f"f{i}" for i in range(120)), 0)
    assert "more files" in refused(bound, "workspace.freeze", {"template": "t"}, "QUOTA_EXCEEDED")
    with acting_as(os.getuid()):
        for path in directory.iterdir():
            path.unlink()
        (directory / "sparse").touch()
        os.truncate(directory / "sparse", 2**40)
        os.chown(directory / "sparse", directory.stat().st_uid, directory.stat().st_gid)
    bound.call("workspace.freeze", {"template": "t"})
    put((f"f{i}" for i in range(5)), 15 * 2**20)
    assert "more room" in refused(bound, "workspace.freeze", {"template": "u"}, "QUOTA_EXCEEDED")
    assert procfs.eventually(lambda: not own_daemon.unfinished())


def test_a_tree_that_changes_while_it_is_copied(own_daemon, area):
    """Directories and files become links out of the tree and back."""
    client = opened(own_daemon, "w")
    client.run("mkdir d; for i in $(seq 200); do mkdir -p d/$i/x; echo inside > d/$i/x/f; done")
    directory = of(own_daemon, "workspaces", "w")
    outside = area.new_directory("outside")
    with acting_as(os.getuid()):
        (outside / "x").mkdir()
        (outside / "x" / "f").write_text(SECRET)
        (outside / "f").write_text(SECRET)
        os.chmod(outside, 0o755)
    over = threading.Event()

    def swap():
        with acting_as(os.getuid()):
            while not over.is_set():
                for i in range(1, 201, 7):
                    for path, target in ((directory / "d" / str(i), outside), (directory / "d" / str(i) / "x" / "f", outside / "f")):
                        aside = path.with_name(path.name + ".aside")
                        with contextlib.suppress(OSError):
                            path.rename(aside)
                            path.symlink_to(target)
                            path.unlink()
                            aside.rename(path)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for i in range(8):
            with contextlib.suppress(RpcError):
                client.call("workspace.freeze", {"template": f"t{i}"})
    finally:
        over.set()
        thread.join()
    with acting_as(os.getuid()):
        made = [path for path in (own_daemon.state / "templates").rglob("*") if path.is_file() and not path.is_symlink()]
        assert made and not [path for path in made if SECRET in path.read_text()]


def test_the_copier_sees_the_two_trees_alone(own_daemon):
    client = opened(own_daemon, "w")
    client.run("mkdir d; cd d; seq 20000 | xargs touch", {"timeout_ms": 120000})
    seen, spawner = [], own_daemon.spawner()

    def look():
        for pid in map(int, open(f"/proc/{spawner}/task/{spawner}/children").read().split()):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if procfs.name(pid) == "cloister-copy":
                    status = procfs.status(pid)
                    mounts = [line.split()[4] for line in open(f"/proc/{pid}/mountinfo")]
                    if int(status["CapEff"].split()[0], 16) == CAP_DAC_READ_SEARCH:  # its set-up is over
                        seen.append((status, mounts))
        return seen

    for i in range(10):
        asked = client.request("workspace.freeze", {"template": f"t{i}"})
        with acting_as(os.getuid()):
            found = procfs.eventually(look, 5, 0.0005)
        client.result(asked)
        if found:
            break
    assert seen
    status, mounts = seen[-1]
    assert sorted(mounts) == ["/", "/from", "/to"]
    assert status["NoNewPrivs"].split() == ["1"] and status["Seccomp"].split() == ["2"]


def two_tenants(start_daemon, accounts):
    lines = ["[cloister]", "agent_socket_mode = 0666", *["mode = system"] * SYSTEM]
    for name, account in zip(("one", "two"), accounts):
        lines += [f"[tenant {name}]", f"users = {account.name}", "managed = yes"]
    return start_daemon(config="\n".join([*lines, ""]), system=SYSTEM)


def test_a_template_of_another_tenant(start_daemon, tenants):
    daemon = two_tenants(start_daemon, tenants)
    account, other = tenants[:2]
    ours, theirs = opened(daemon, "w", account), opened(daemon, "w", other)
    ours.run(f"echo {SECRET} > f")
    ours.call("workspace.freeze", {"template": "secret"})
    for name in ("secret", "one", "../one/secret", "one/secret"):
        with pytest.raises(RpcError):
            theirs.call("workspace.fork", {"from": name})
    refused(theirs, "workspace.fork", {"from": "secret", "tenant": "one"}, "FORBIDDEN")
    refused(theirs, "workspace.fork", {"from": "secret"}, "NOT_FOUND")
    theirs.run("echo theirs > f")
    theirs.call("workspace.freeze", {"template": "secret"})  # a name of its own
    with opened(daemon, fork(theirs, "secret"), other) as one:
        assert one.run("cat f")["stdout"] == "theirs\n"
    with opened(daemon, fork(ours, "secret"), account) as one:
        assert one.run("cat f")["stdout"] == f"{SECRET}\n"


def test_a_forged_record(own_daemon, start_daemon):
    """A cloisterd that was taken over puts a template below a workspace that has an id of its own, or one with another
    owner below any."""
    client = opened(own_daemon, "w")
    client.run(f"echo {SECRET} > f; chmod 644 f")
    client.call("workspace.freeze", {"template": "t"})
    victim = opened(own_daemon, "v")
    victim.run("echo mine > g")
    victim.call("workspace.checkpoint", {})
    victim.call("workspace.close", {})
    layers, template = of(own_daemon, "workspaces", ".layers-v"), of(own_daemon, "templates", "t")
    own_daemon.stop()

    def said_of(record):
        with acting_as(os.getuid()):
            (layers / record).mkdir()
        daemon = start_daemon(state=own_daemon.state)
        with daemon.connect() as again, pytest.raises(RpcError) as caught:
            again.call("workspace.open", {"workspace": "v"})
        daemon.stop()
        with acting_as(os.getuid()):
            (layers / record).rmdir()
        return str(caught.value)

    if not SYSTEM:
        with acting_as(os.getuid()):
            os.chown(template, 12345, 12345)
    # In system mode only what is in memory is shown.
    assert ("template_memory is 0" if SYSTEM else "does not belong to the workspace's id") in said_of("from=t")
    assert "is damaged" in said_of("from=..")
    assert "is damaged" in said_of("from=")
    assert ("template_memory is 0" if SYSTEM else "workspace's layers") in said_of("from=none")
    with opened(start_daemon(state=own_daemon.state), "v") as again:
        assert again.run("cat g")["stdout"] == "mine\n"


@pytest.mark.skipif(not SYSTEM, reason="in user mode all workspaces have one id")
def test_siblings_cannot_read_each_other(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo shared > f; mkdir -m 700 d")
    client.call("workspace.freeze", {"template": "t"})
    names = client.call("workspace.fork", {"from": "t", "count": 3})["workspaces"]
    with acting_as(os.getuid()):
        paths = [of(own_daemon, "workspaces", name) for name in [*names, "w"]]
        owners = [{path.lstat().st_uid for path in [top, *top.rglob("*")]} for top in paths]
        template = of(own_daemon, "templates", "t").stat().st_uid
    assert all(len(owner) == 1 for owner in owners) and len(set.union(*owners)) == 4
    assert template not in set.union(*owners) and template == own_daemon.account.uid
