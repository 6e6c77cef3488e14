# SPDX-License-Identifier: Apache-2.0
"""Managed workspaces that are a whole root: forks of an imported image, which commands see as /."""

import fnmatch
import io
import json
import os
import signal
import tarfile

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import SYSTEM, Daemon, system_config
from images import COMPRESSIONS, LAYER, Layout, directory, entry, symlink
from small_system import small_system

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make the images for another account")


def start_one(start, area, **more):
    if SYSTEM:
        more = {"config": system_config(area, f"admin_group = {area.account.gid}"), "system": True, **more}
    return start(**more)


@pytest.fixture
def service(start_daemon, area):
    return start_one(start_daemon, area)


@pytest.fixture
def image(area):
    """An image of two layers: a shell, and what a task brings."""
    path = area.new_directory("image")
    with acting_as(os.getuid()):
        small_system(path / "tree")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.add(path / "tree", ".")
        built = Layout(path / "layout")
        built.image(built.blob(COMPRESSIONS["gzip"](out.getvalue()), LAYER + "+gzip"),
                    built.layer(directory("task"), entry("task/input", content=b"the task\n"), entry("etc/motd", content=b"hello\n")))
        path.chmod(0o755)
    return built.path


def make(service, image, name="task"):
    said = service.ctl("template", "import", name, str(image))
    assert said.returncode == 0, said


def fork(client, count=1, **more):
    return client.call("workspace.fork", {"from": "task", "count": count, "kind": "rootfs", **more})["workspaces"]


def opened(service, name):
    client = service.connect()
    answer = client.call("workspace.open", {"workspace": name})
    return client, answer


def in_state(service, pattern):
    """The names of directories beside those of workspaces. What a home cleaner removes meanwhile is passed over."""
    with acting_as(os.getuid()):
        return sorted(name for _, names, _ in os.walk(service.state / "workspaces") for name in names if fnmatch.fnmatch(name, pattern))


def test_a_fork_is_the_root(service, image):
    make(service, image)
    names = fork(service.connect(), 2)
    clients = []
    for name in names:
        client, answer = opened(service, name)
        assert (answer["workspace"], answer["kind"], answer["root"]) == (name, "managed", "/")
        clients.append(client)
    one, two = clients
    assert one.run("pwd; cd /; echo *; read -r line < /etc/motd; echo $line")["stdout"].split("\n") == \
        ["/", "bin dev etc lib lib64 proc run sys task tmp", "hello", ""]
    assert one.run("echo $((6 * 7)) > /task/out; echo x > /etc/new; echo $HOME; echo hidden > /tmp/f")["exit_code"] == 0
    assert one.use("read_file", path="/task/out", options={"line_numbers": False})["content"] == "42\n"
    assert one.use("read_file", path="task/input", options={"line_numbers": False})["content"] == "the task\n"
    one.use("write_file", path="/opt/x", content="made")
    assert one.run("read -r line < /opt/x; echo $line")["stdout"] == "made\n"
    assert [found["path"] for found in one.use("search_files", pattern="the task")["matches"]] == ["task/input"]
    assert not two.observe("read_file", {"path": "/task/out"})["success"]
    assert {entry["path"] for entry in two.use("list_directory", path="/")["entries"]} >= {"bin", "etc", "task"}
    assert two.run("echo /usr/* /workspace/*")["stdout"] == "/usr/* /workspace/*\n"  # nothing of the host's
    listed = {row["workspace"]: (row["kind"], row["root"]) for row in two.call("workspace.list", {})["workspaces"]}
    assert listed == {name: ("managed", "/") for name in names}


def test_it_stays_one_when_the_service_starts_again(area, image):
    service = start_one(lambda **more: Daemon(area, **more), area)
    make(service, image)
    (name,) = fork(service.connect())
    (plain,) = service.connect().call("workspace.fork", {"from": "task", "prefix": "plain"})["workspaces"]
    service.stop()
    again = start_one(lambda **more: Daemon(area, **more), area, state=service.state)
    try:
        listed = {row["workspace"]: row["root"] for row in again.connect().call("workspace.list", {})["workspaces"]}
        assert listed == {name: "/", plain: "/workspace"}
        client, answer = opened(again, name)
        assert answer["root"] == "/" and client.run("read -r line < /task/input; echo $line")["stdout"] == "the task\n"
        client, answer = opened(again, plain)
        assert answer["root"] == "/workspace"
        assert client.run("cat task/input; ls /usr | grep -c bin")["stdout"].split("\n")[0] == "the task"
    finally:
        again.stop()


def test_checkpoints_and_removal(service, image):
    make(service, image)
    (name,) = fork(service.connect())
    one, _ = opened(service, name)
    one.run("echo 1 > /task/out")
    number = one.call("workspace.checkpoint", {})["checkpoint"]
    one.run("echo 2 > /task/out; echo x > /proc.txt")
    changes = {row["path"]: row["change"] for row in one.call("workspace.diff", {"since": number})["changes"]}
    assert changes == {"task/out": "changed", "proc.txt": "added"}
    one.call("workspace.rollback", {"to": number})
    assert one.run("read -r line < /task/out; echo $line; echo /proc.txt*; pwd")["stdout"] == "1\n/proc.txt*\n/\n"
    one.call("workspace.freeze", {"template": "done"})
    one.call("workspace.close")
    assert in_state(service, ".rootfs-*") == [f".rootfs-{name}"]
    service.connect().call("workspace.remove", {"workspace": name})
    assert procfs.eventually(lambda: not in_state(service, f"*{name}"))
    # The name is free, for a workspace that is none.
    _, answer = opened(service, name)
    assert answer["root"] == "/workspace"
    (other,) = service.connect().call("workspace.fork", {"from": "done", "kind": "rootfs"})["workspaces"]
    two, _ = opened(service, other)
    assert two.run("read -r line < /task/out; echo $line")["stdout"] == "1\n"


def test_a_removal_of_one_without_checkpoints_that_is_open(service, image):
    """The mounts over its /proc, /dev and /sys must not keep it."""
    make(service, image)
    names = fork(service.connect(), 2)
    one, _ = opened(service, names[0])
    one.run("echo x > /x")
    for name in names:
        one.call("workspace.remove", {"workspace": name})
    assert procfs.eventually(lambda: not in_state(service, "*task-*"))


def test_a_mark_that_a_death_has_left(service):
    """A workspace that is made later is not seen as a root."""
    client, _ = opened(service, "w")
    with acting_as(os.getuid()):
        (path,) = (service.state / "workspaces").rglob("w")
        mark = path.with_name(".rootfs-x")
        mark.mkdir(mode=0o700)
        os.chown(mark, service.account.uid, service.account.gid)
    _, answer = opened(service, "x")
    assert answer["root"] == "/workspace" and not in_state(service, ".rootfs-*")
    with acting_as(os.getuid()):
        mark.with_name(".rootfs-t-1").mkdir()
        os.chown(mark.with_name(".rootfs-t-1"), service.account.uid, service.account.gid)
    client.call("workspace.freeze", {"template": "t"})
    assert client.call("workspace.fork", {"from": "t"})["workspaces"] == ["t-1"]
    assert opened(service, "t-1")[1]["root"] == "/workspace"


def made(service, name):
    with acting_as(os.getuid()):
        return any(name in names for _, names, _ in os.walk(service.state / "workspaces"))


@pytest.mark.skipif(not SYSTEM, reason="forks are copied in system mode only")
def test_two_forks_of_one_prefix_at_once(service, image):
    """Each gets names of its own, and stays what it was asked to be."""
    make(service, image)
    clients = [service.connect() for _ in range(2)]
    spawner = service.spawner()
    with acting_as(os.getuid()):
        os.kill(spawner, signal.SIGSTOP)
    try:
        numbers = []
        for n, client, kind in zip((1, 2), clients, ("rootfs", "managed")):
            numbers.append(client.request("workspace.fork", {"from": "task", "kind": kind}))
            assert procfs.eventually(lambda n=n: len(in_state(service, ".unfinished-*")) == n)
    finally:
        with acting_as(os.getuid()):
            os.kill(spawner, signal.SIGCONT)
    names = [client.result(number)["workspaces"] for client, number in zip(clients, numbers)]
    assert names == [["task-1"], ["task-2"]]
    assert [opened(service, name)[1]["root"] for name, in names] == ["/", "/workspace"]


@pytest.mark.skipif(not SYSTEM, reason="forks are copied in system mode only")
def test_forks_at_once_and_the_number_of_workspaces(start_daemon, area, image):
    """Two requests of which each alone is within the bound."""
    lines = ["[cloister]", "mode = system", f"admin_group = {area.account.gid}", "[tenant one]", f"users = {area.account.name}",
             "managed = yes", "workspaces_existing = 3", ""]
    service = start_daemon(config="\n".join(lines), system=True)
    make(service, image)
    clients = [service.connect() for _ in range(2)]
    spawner = service.spawner()
    with acting_as(os.getuid()):
        os.kill(spawner, signal.SIGSTOP)
    try:
        numbers = [client.request("workspace.fork", {"from": "task", "count": 2}) for client in clients]
        assert procfs.eventually(lambda: len(in_state(service, ".unfinished-*")) == 2)
    finally:
        with acting_as(os.getuid()):
            os.kill(spawner, signal.SIGCONT)
    answers = [client.wait(number) for client, number in zip(clients, numbers)]
    refused = [answer["error"]["data"]["code"] for answer in answers if "error" in answer]
    assert refused == ["QUOTA_EXCEEDED"], answers
    assert len(clients[0].call("workspace.list", {})["workspaces"]) == 2
    assert procfs.eventually(lambda: not in_state(service, ".unfinished-*"))


@pytest.mark.skipif(not SYSTEM, reason="forks are copied in system mode only")
@pytest.mark.parametrize("kind", ["rootfs", "managed"])
def test_a_name_that_is_taken_while_a_fork_is_copied(service, image, kind):
    """The workspace that has it stays what it is; the fork is refused, and leaves nothing."""
    make(service, image)
    one, two = service.connect(), service.connect()
    spawner = service.spawner()
    with acting_as(os.getuid()):
        os.kill(spawner, signal.SIGSTOP)
    try:
        forked = one.request("workspace.fork", {"from": "task", "kind": kind})
        assert procfs.eventually(lambda: in_state(service, ".unfinished-*"))
        open_ = two.request("workspace.open", {"workspace": "task-1"})
        assert procfs.eventually(lambda: made(service, "task-1"))
    finally:
        with acting_as(os.getuid()):
            os.kill(spawner, signal.SIGCONT)
    assert two.result(open_)["root"] == "/workspace"
    with pytest.raises(RpcError) as caught:
        one.result(forked)
    assert caught.value.name == "BUSY" and "fork again" in str(caught.value)
    two.call("workspace.close")
    assert procfs.eventually(lambda: not in_state(service, ".unfinished-*")) and not in_state(service, ".rootfs-*")
    assert opened(service, "task-1")[1]["root"] == "/workspace"
    assert one.call("workspace.fork", {"from": "task", "kind": kind})["workspaces"] == ["task-2"]


def import_entries(service, *entries, name="task"):
    """Makes a template of an archive of these entries, and a shell at its place."""
    path = service.area.new_directory("source")
    with acting_as(os.getuid()):
        path.chmod(0o755)
        small_system(path / "tree", ("bin", "etc"))
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.add(path / "tree", ".")
            for info, content in entries:
                tar.addfile(info, io.BytesIO(content))
        (path / "a").write_bytes(out.getvalue())
    make(service, path / "a", name)


@pytest.mark.parametrize("has, spares", [((), 0), (("proc",), 2), (("dev", "tmp"), 0), (("run", "proc", "dev", "tmp"), 2)])
def test_what_a_root_lacks_is_made_in_the_fork(start_daemon, area, has, spares):
    """An image without the directories that are mounted over: an overlay or a copy of it gets them, and the template none."""
    if SYSTEM:
        config = system_config(area, f"admin_group = {area.account.gid}\nspare_cells = {spares}")
    else:
        config = f"[cloister]\nspare_cells = {spares}\nadmin_group = {area.account.gid}\n[tenant t]\nusers = {area.account.uid}\nmanaged = yes\n"
    service = start_one(start_daemon, area, config=config)
    import_entries(service, *(directory(name) for name in has))
    if spares:
        opened(service, "first")  # they are made once there is a workspace
        assert procfs.eventually(lambda: service.spares_ready() == spares)
    (name,) = fork(service.connect())
    one, answer = opened(service, name)
    assert answer["root"] == "/"
    names, own, kept, processes = one.run("cd /; echo *; echo $$; echo $$ > /tmp/f; read -r x < /tmp/f; echo $x; echo > /run/f;"
                                          "echo > /dev/null; echo /proc/[1-9]*")["stdout"].splitlines()
    assert (names, kept) == ("bin dev etc lib lib64 proc run tmp", own)
    assert processes == f"/proc/1 /proc/{own}"  # the command's own namespace
    for path in ("/tmp/f", "/run/f", "/dev/null", "/proc/1/status"):  # the kernel's and the private ones are no files of the workspace
        assert not one.observe("read_file", {"path": path})["success"]
    assert not one.observe("write_file", {"path": "/proc/x", "content": "x"})["success"]  # it is covered there, too
    (plain,) = service.connect().call("workspace.fork", {"from": "task", "prefix": "plain"})["workspaces"]
    two, _ = opened(service, plain)
    assert two.run("echo *")["stdout"].split() == sorted({"bin", "etc", "lib", "lib64", *has})
    if not SYSTEM:
        changes = {row["path"]: row["change"] for row in one.call("workspace.diff", {"since": 1})["changes"]}
        assert changes == {path: "added" for path in {"proc", "dev", "tmp", "run"} - set(has)}


def read_all(service, path):
    with acting_as(os.getuid()):
        return sorted((str(one.relative_to(path)), one.lstat().st_mode, one.lstat().st_uid, one.lstat().st_mtime_ns) for one in path.rglob("*"))


@pytest.mark.parametrize("name", ["proc", "dev", "tmp", "run"])
@pytest.mark.parametrize("entries", [
    lambda name, out: [symlink(name, "/etc")],
    lambda name, out: [symlink(name, "etc")],
    lambda name, out: [symlink(name, "../../../../../.." + out)],
    lambda name, out: [symlink(name, out)],
    lambda name, out: [symlink(name, "nowhere")],
    lambda name, out: [symlink(name, name)],
    lambda name, out: [entry(name, content=b"x")],
], ids=["etc", "etc-relative", "out-relative", "out", "dangling", "itself", "file"])
def test_no_link_is_followed_there(service, name, entries):
    """The refusal is typed and says what to do; that helps. Nothing is mounted, made or changed where a link leads."""
    out = service.area.new_directory("outside")
    with acting_as(os.getuid()):
        (out / "kept").write_text("kept")
        out.chmod(0o777)
    import_entries(service, *entries(name, str(out)))
    before = read_all(service, out)
    client = service.connect()
    (made,) = fork(client)
    with pytest.raises(RpcError) as caught:
        client.call("workspace.open", {"workspace": made})
    what = "a file" if not entries(name, "")[0][0].issym() else "a symbolic link"
    assert caught.value.name == "NOT_A_DIRECTORY" and f"its /{name} is {what}, and a root needs a directory there" in str(caught.value)
    assert 'as "managed"' in str(caught.value) and "freeze" in str(caught.value) and "(os error" not in str(caught.value)
    assert read_all(service, out) == before
    # A fork that cannot be opened can be removed.
    client.call("workspace.remove", {"workspace": made})
    assert procfs.eventually(lambda: not in_state(service, f"*{made}"))
    assert read_all(service, out) == before


def test_the_advice_for_a_link_there(service):
    import_entries(service, symlink("tmp", "/etc"))
    client = service.connect()
    (plain,) = client.call("workspace.fork", {"from": "task", "prefix": "plain", "kind": "managed"})["workspaces"]
    one, _ = opened(service, plain)
    assert one.run("rm tmp && mkdir tmp")["exit_code"] == 0
    one.call("workspace.freeze", {"template": "better"})
    (good,) = client.call("workspace.fork", {"from": "better", "kind": "rootfs"})["workspaces"]
    two, answer = opened(service, good)
    assert answer["root"] == "/" and two.run("echo /proc/sel[f]; : > /tmp/x")["stdout"] == "/proc/self\n"


def test_a_rollback_to_what_lacks_them(service):
    """A new top layer gets them anew."""
    import_entries(service)
    (name,) = fork(service.connect())
    one, _ = opened(service, name)
    one.run("echo 1 > /x")
    number = one.call("workspace.checkpoint", {})["checkpoint"]
    one.run("echo 2 > /x")
    for to in (number, 1) if not SYSTEM else (number,):
        one.call("workspace.rollback", {"to": to})
        assert one.run("echo /proc/sel[f] /tmp; echo > /dev/null; : > /tmp/x")["stdout"] == "/proc/self /tmp\n"


def test_a_directory_of_the_host_gets_nothing(service):
    """What a client opens as a whole root stays as it is."""
    path = service.area.new_directory("rootfs")
    client = service.connect()
    with pytest.raises(RpcError) as caught:
        client.call("workspace.open", {"root": str(path), "kind": "rootfs"})
    assert "/dev" in str(caught.value) or caught.value.name == "FORBIDDEN" and SYSTEM
    assert not list(path.iterdir())


def test_kinds_that_there_are_not(service):
    import_entries(service)
    client = service.connect()
    for kind in ("directory", "", "x", 1, "rootfs\0", "managed-root"):
        with pytest.raises(RpcError) as caught:
            client.call("workspace.fork", {"from": "task", "kind": kind})
        assert caught.value.code == -32602
    assert client.call("workspace.fork", {"from": "task", "kind": "managed"})["workspaces"]


def test_the_command(service, image):
    make(service, image)
    made = service.area.run("cloister", "--socket", str(service.socket), "--rootfs", "fork", "task", "2")
    assert (made.returncode, made.stdout) == (0, b"task-1\ntask-2\n"), made
    said = service.area.run("cloister", "--socket", str(service.socket), "--workspace", "task-2", "exec", "--", "pwd")
    assert (said.returncode, said.stdout) == (0, b"/\n"), said
    rows = json.loads(service.ctl("workspaces", "--json").stdout)["workspaces"]
    assert {row["kind"] for row in rows} <= {"managed"}
