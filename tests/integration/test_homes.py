# SPDX-License-Identifier: Apache-2.0
"""home = kept: a workspace's HOME outlives its cell, and no other workspace gets it."""

import os
import pathlib
import shutil
import signal
import stat
import tempfile

import procfs
import pytest

from daemon import Daemon
from killer import Holder
from small_system import small_system

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to give directories to workspaces' ids")


def config_of(mode, tenants, roots=(), more="", home="kept", spares=0):
    text = f"[cloister]\nmode = {mode}\nagent_socket_mode = 0666\nspare_cells = {spares}\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nhome = {home}\n{more}"
        text += "".join(f"roots = {root}\n" for root in roots if name == "a")
    return text


@pytest.fixture(params=["user", "system"])
def start(request, area):
    started = []

    def begin(tenants, **more):
        if request.param == "system" and not started:
            area.account.give_ids()
        config = config_of(request.param, tenants, **more)
        state = {"state": started[0].state} if started else {}
        started.append(Daemon(area, system=request.param == "system", config=config, **state))
        return started[-1]

    begin.mode = request.param
    yield begin
    for running in started:
        running.stop()


@pytest.fixture
def spares(start):
    """How many cells are made ahead: the cells of one mode are assigned ones, those of the other are new."""
    return 2 if start.mode == "user" else 0


@pytest.fixture
def root(start, area):
    """A directory that may be a workspace. Its owner is the first id of the range or, in user mode, the service's
    user."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="cloister:home%.", dir="/srv"))
    path.chmod(0o755)
    work = path / "work"
    work.mkdir()
    if start.mode == "system":
        area.account.give_ids()
        os.chown(work, area.account.first, area.account.first_gid)
    else:
        area.account.own(work)
    yield work
    shutil.rmtree(path)


def homes(daemon):
    return {f"{path.parent.name}/{path.name}" for path in (daemon.state / "homes").glob("*/*")}


def use(daemon, user, command, **where):
    """Runs @command in a workspace on a connection of its own, and waits until the cell is gone."""
    with daemon.connect(user) as client:
        client.call("workspace.open", where or {"workspace": "w"})
        said = client.run(command)
    assert procfs.eventually(lambda: not daemon.cells())
    return said


def put(daemon, user, command, **where):
    said = use(daemon, user, command, **where)
    assert said["exit_code"] == 0, said


def test_a_cache_is_there_for_the_next_connection(start, tenants, root, spares):
    daemon = start(tenants, spares=spares, roots=[root])
    for where in ({"workspace": "w"}, {"root": str(root)}):
        put(daemon, tenants[0], "mkdir -p ~/.cache/go && echo built >~/.cache/go/it", **where)
        said = use(daemon, tenants[0], "cat ~/.cache/go/it; stat -c %a ~; echo $HOME", **where)
        assert said["stdout"] == "built\n700\n/home/agent\n", said
    assert homes(daemon) == {"a/w", "a/" + str(root).replace("%", "%25").replace(":", "%3A").replace("/", ":")}
    for path in (daemon.state / "homes").glob("*/*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    # No other workspace of the tenant has it, and no workspace of that name of another tenant.
    for user, name in ((tenants[0], "v"), (tenants[1], "w")):
        said = use(daemon, user, f"ls -A ~; ls {daemon.state}/homes", workspace=name)
        assert said["stdout"] == "" and said["exit_code"] != 0, said


def test_a_temporary_home_ends_with_the_cell(start, tenants):
    daemon = start(tenants, home="temporary")
    put(daemon, tenants[0], "echo built >~/it")
    assert use(daemon, tenants[0], "ls -A ~")["stdout"] == ""
    assert not (daemon.state / "homes").exists()


def test_a_removed_workspace_takes_its_home_along(start, tenants):
    daemon = start(tenants)
    for name in ("w", "v"):
        put(daemon, tenants[0], "echo built >~/it; mkdir -p ~/a/b; chmod 0 ~/a/b ~/a ~", workspace=name)
    client = daemon.connect(tenants[0])
    client.call("workspace.remove", {"workspace": "w"})
    client.call("workspace.open", {"workspace": "w"})
    assert client.run("ls -A ~")["stdout"] == ""
    assert procfs.eventually(lambda: homes(daemon) == {"a/w", "a/v"})
    # The same client uses the workspace, whose cell has the home mounted.
    client.run("echo new >~/it")
    client.call("workspace.remove", {"workspace": "w"})
    assert procfs.eventually(lambda: homes(daemon) == {"a/v"})
    # The other workspace, "v", still has its home.
    assert use(daemon, tenants[0], "cat ~/it", workspace="v")["stdout"] == "built\n"


MANY = "mkdir ~/many && cd ~/many && seq 400 | xargs touch"


def remove_and_hold(daemon, client):
    """Removes the workspace "w". Returns the pid of the home cleaner of its home, which is stopped at its work."""
    cleaner = Holder(daemon.spawner(), "cloister-sweep", "unlinkat")
    client.call("workspace.remove", {"workspace": "w"})
    held = cleaner.held()
    assert "/homes/a/.gone-" in str(procfs.fds(held))
    return held


def test_a_home_with_many_files_does_not_hold_up_other_tenants(start, tenants):
    """A home cleaner that clears has a turn of a second of the processor's time, after which the kernel sends it this signal."""
    daemon = start(tenants)
    for user, workspace, command in ((0, "w", MANY), (0, "v", MANY), (1, "w", "echo x >~/f")):
        put(daemon, tenants[user], command, workspace=workspace)
    assert procfs.eventually(lambda: "cloister-sweep" not in map(procfs.name, procfs.children(daemon.spawner())))
    clients = [daemon.connect(user) for user in tenants[:2]]
    held = remove_and_hold(daemon, clients[0])
    clients[0].call("workspace.remove", {"workspace": "v"})
    clients[1].call("workspace.remove", {"workspace": "w"})
    assert "Max cpu time              1 " in pathlib.Path(f"/proc/{held}/limits").read_text()

    def left(tenant):
        return list((daemon.state / "homes" / tenant).glob(".gone-*"))

    assert procfs.eventually(lambda: left("b"))
    os.kill(held, signal.SIGXCPU)
    os.kill(held, signal.SIGCONT)
    assert procfs.eventually(lambda: not left("b"))
    assert procfs.eventually(lambda: not left("a"))
    assert "could not be removed" not in daemon.log()


def test_a_workspace_that_is_made_again_at_once_has_an_empty_home(start, tenants):
    daemon = start(tenants)
    client = daemon.connect(tenants[0])
    client.call("workspace.open", {"workspace": "w"})
    client.run("echo old >~/it")
    directory = daemon.state / "workspaces" / "a" / "w"
    # The spawner reads of the removal when the new workspace is there already.
    procfs.stop(daemon.spawner())
    client.call("workspace.remove", {"workspace": "w"})
    assert not directory.exists()
    opening = client.request("workspace.open", {"workspace": "w"})
    assert procfs.eventually(directory.exists)
    os.kill(daemon.spawner(), signal.SIGCONT)
    client.result(opening)
    assert client.run("ls -A ~")["stdout"] == ""


def test_a_start_removes_what_belongs_to_no_workspace(start, tenants, root):
    daemon = start(tenants, roots=[root.parent])
    put(daemon, tenants[0], "echo built >~/it", workspace="w")
    put(daemon, tenants[0], "echo built >~/it", workspace="v")
    put(daemon, tenants[0], "echo built >~/it", root=str(root))
    daemon.stop()
    shutil.rmtree(daemon.state / "workspaces" / "a" / "w")
    (daemon.state / "homes" / "a" / ".gone-7").mkdir()
    daemon = start(tenants, roots=[root.parent])
    directory = "a/" + str(root).replace("%", "%25").replace(":", "%3A").replace("/", ":")
    assert procfs.eventually(lambda: homes(daemon) == {"a/v", directory})
    assert use(daemon, tenants[0], "cat ~/it", root=str(root))["stdout"] == "built\n"
    daemon.stop()
    root.rename(root.parent / "away")
    daemon = start(tenants, roots=[root.parent])
    assert procfs.eventually(lambda: homes(daemon) == {"a/v"})
    assert use(daemon, tenants[0], "cat ~/it", workspace="v")["stdout"] == "built\n"


@pytest.mark.deep("slow", only=["user-deep", "system-deep"])
@pytest.mark.parametrize("command", [
    "head -c 2M /dev/zero >~/large",
    "mkdir ~/a; head -c 2M /dev/zero >~/a/large; chmod 0 ~/a/large ~/a",
    "cd ~; for i in $(seq 250); do mkdir d && cd d; done"], ids=["file", "hidden", "deep"])
def test_a_home_that_is_too_large_is_emptied_at_the_end_of_its_cell(start, tenants, command):
    daemon = start(tenants, more="home_size = 1M\n")
    put(daemon, tenants[0], "echo small >~/it", workspace="v")
    put(daemon, tenants[0], command)
    assert procfs.eventually(lambda: homes(daemon) == {"a/v"})
    assert procfs.eventually(lambda: "tenant a: the home w is larger than home_size" in daemon.log())
    assert use(daemon, tenants[0], "ls -A ~")["stdout"] == ""
    assert use(daemon, tenants[0], "cat ~/it", workspace="v")["stdout"] == "small\n"


def test_the_blocks_of_an_empty_home_count(start, tenants):
    """On ext4 a directory keeps the blocks of names that were removed, up to gigabytes."""
    daemon = start(tenants, more="home_size = 1M\n")
    names = "seq -f %0250.0f 6000 | xargs"
    said = use(daemon, tenants[0], f"cd ~; {names} touch; {names} rm; ls -A; stat -c %b .")
    if int(said["stdout"]) * 512 <= 1 << 20:
        pytest.skip("this file system takes the blocks of a directory back")
    assert procfs.eventually(lambda: homes(daemon) == set())
    assert procfs.eventually(lambda: "tenant a: the home w is larger than home_size" in daemon.log())


def test_hard_links_count_once_and_sparse_files_what_they_take(start, tenants):
    daemon = start(tenants, more="home_size = 1M\n")
    put(daemon, tenants[0], "head -c 600K /dev/zero >~/one; ln ~/one ~/two; ln ~/one ~/three; truncate -s 1G ~/sparse")
    put(daemon, tenants[0], "true", workspace="v")  # the home cleaner measures it after the other one
    assert procfs.eventually(lambda: "cloister-sweep" not in map(procfs.name, procfs.children(daemon.spawner())))
    assert use(daemon, tenants[0], "cd ~; ls")["stdout"] == "one\nsparse\nthree\ntwo\n"


def test_there_are_no_more_homes_than_workspaces_may_exist(start, tenants, root):
    more = "workspaces_existing = 3\n"
    daemon = start(tenants, roots=[root.parent], more=more)
    put(daemon, tenants[0], "echo built >~/it", workspace="first")
    put(daemon, tenants[0], "echo built >~/it", workspace="second")
    with daemon.connect(tenants[0]) as client:
        client.call("workspace.open", {"workspace": "first"})  # in use, and opened last
        put_root = daemon.connect(tenants[0])
        put_root.call("workspace.open", {"workspace": "third"})
        put_root.call("workspace.close", {"workspace": "third"})
        put_root.call("workspace.open", {"root": str(root)})
        assert procfs.eventually(lambda: len(homes(daemon)) == 3)
        assert "a/second" not in homes(daemon) and "a/first" in homes(daemon)
        assert client.run("cat ~/it")["stdout"] == "built\n"


def test_what_was_planted_leads_the_next_cell_nowhere(start, tenants, area):
    """Links and modes that a command left in its home mislead neither the next cell nor the removal. In user mode the
    workspace's own id removes it, so the files of other ids are safe."""
    victim = area.new_directory("victim")
    (victim / "file").write_text("kept\n")
    daemon = start(tenants)
    planted = (f"cd ~; ln -s {victim} out; ln -s / slash; ln -s /proc/self/root proc; mkfifo fifo; "
               "cp /bin/sh shell; chmod 6755 shell . 2>/dev/null; chmod 1777 .; ln -s loop loop; "
               "mkdir -p .config; ln -s /etc .config/etc; rm -rf .cache; ln -s /tmp .cache")
    use(daemon, tenants[0], planted)
    said = use(daemon, tenants[0], "stat -c %a ~; find ~ -perm /6000; findmnt -no OPTIONS -T ~; ls out slash/srv 2>&1")
    assert said["stdout"].startswith("700\n") and "nosuid,nodev" in said["stdout"], said
    assert "/shell" not in said["stdout"] and "kept" not in said["stdout"]
    daemon.connect(tenants[0]).call("workspace.remove", {"workspace": "w"})
    assert procfs.eventually(lambda: homes(daemon) == set())
    assert (victim / "file").read_text() == "kept\n"
    assert pathlib.Path("/etc/passwd").exists()


def test_a_home_in_the_place_of_another_file_or_id_is_replaced(start, tenants):
    """A file in the home's place, or a directory of another id, is never given to the workspace's commands."""
    daemon = start(tenants)
    put(daemon, tenants[0], "echo mine >~/it", workspace="v")
    place = daemon.state / "homes" / "a" / "w"
    if start.mode == "system":
        (daemon.state / "homes" / "a" / "v").rename(place)
        assert use(daemon, tenants[0], "ls -A ~")["stdout"] == ""
        shutil.rmtree(place)
    else:
        place.symlink_to("v")
        assert use(daemon, tenants[0], "ls -A ~")["stdout"] == ""
        assert use(daemon, tenants[0], "cat ~/it", workspace="v")["stdout"] == "mine\n"


def test_a_killed_service_leaves_the_homes(start, tenants):
    daemon = start(tenants)
    client = daemon.connect(tenants[0])
    client.call("workspace.open", {"workspace": "w"})
    assert client.run("echo built >~/it")["exit_code"] == 0
    os.kill(daemon.spawner(), signal.SIGKILL)
    daemon.process.wait(60)
    daemon = start(tenants)
    assert use(daemon, tenants[0], "cat ~/it")["stdout"] == "built\n"


@pytest.fixture
def agents_home():
    """A workspace below /home/agent, which is HOME of commands. The test makes that directory on the host."""
    made = [path for path in (pathlib.Path("/home/agent"),) if not path.exists()]
    for path in made:
        path.mkdir(mode=0o755)
    place = pathlib.Path(tempfile.mkdtemp(dir="/home/agent"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)
    for path in made:
        path.rmdir()


def test_a_workspace_never_lies_in_its_kept_home(start, tenants, area, agents_home, spares):
    """In its own home, a command could replace the mount point."""
    if start.mode == "system":
        area.account.give_ids()
        os.chown(agents_home, area.account.first, area.account.first_gid)
    else:
        area.account.own(agents_home)
    daemon = start(tenants, roots=[agents_home], spares=spares)
    for _ in range(2):
        said = use(daemon, tenants[0], "pwd; echo $HOME; touch ~/it; mv ~ /run/other; ls ~", root=str(agents_home))
        assert said["stdout"] == f"{agents_home}\n/run/home\nit\n", said


def test_a_whole_root_has_its_home_in_run(start, tenants, root):
    small_system(root)
    for path in [root, *root.rglob("*")]:
        os.chown(path, root.stat().st_uid, root.stat().st_gid, follow_symlinks=False)
    daemon = start(tenants, roots=[root.parent])
    where = {"root": str(root), "kind": "rootfs"}
    put(daemon, tenants[0], "echo built >~/it; echo gone >/run/it", **where)
    said = use(daemon, tenants[0], "echo $HOME; read it <~/it; echo $it; test ! -e /run/it", **where)
    assert said["stdout"] == "/run/home\nbuilt\n" and said["exit_code"] == 0, said
