# SPDX-License-Identifier: Apache-2.0
"""readonly_paths: directories and files of the host that a tenant's commands see besides the system."""

import contextlib
import json
import os
import pathlib
import shutil
import stat
import tempfile

import procfs
import pytest

from cloister_client import RpcError
from daemon import Daemon
from test_config import Config

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a directory in /srv")


@pytest.fixture
def toolchain():
    """A directory outside all workspaces, with a file, a program and a file that only root may read."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="cloister readonly.", dir="/srv"))
    path.chmod(0o755)
    (path / "file").write_text("of the host\n")
    (path / "file").chmod(0o666)
    (path / "program").write_text("#!/bin/sh\necho ran $1\n")
    (path / "program").chmod(0o755)
    (path / "secret").write_text("root's\n")
    (path / "secret").chmod(0o600)
    (path / "open").mkdir()
    (path / "open").chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def config_of(area, mode, tenants, paths, spares=0):
    text = f"[cloister]\nmode = {mode}\nagent_socket_mode = 0666\nspare_cells = {spares}\n"
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
        text += "".join(f"readonly_paths = {path}\n" for path in paths.get(name, ()))
    return text


@pytest.fixture(params=["user", "system"])
def start(request, area):
    started = []

    def begin(tenants, paths, spares=0):
        if request.param == "system":
            area.account.give_ids()
        config = config_of(area, request.param, tenants, paths, spares)
        started.append(Daemon(area, system=request.param == "system", config=config))
        return started[-1]

    begin.mode = request.param
    yield begin
    for running in started:
        running.stop()


@pytest.fixture
def spares(start):
    """How many cells are made ahead: the cells of one mode are assigned ones, those of the other are new."""
    return 2 if start.mode == "user" else 0


def test_commands_read_and_run_what_is_there_and_change_nothing(start, tenants, toolchain, spares):
    daemon = start(tenants, {"a": [toolchain]}, spares)
    first, second = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    for number in range(3):  # with spares, the later cells are assigned ones
        first.call("workspace.open", {"workspace": f"w{number}"})
        said = first.run(f"cat '{toolchain}/file'; '{toolchain}/program' it")
        assert said["stdout"] == "of the host\nran it\n", said
    for command in ("echo x >file", "echo x >open/new", "rm program", "mkdir open/d", "chmod 755 program",
                    "mv program open/p"):
        said = first.run(f"cd '{toolchain}' && LC_ALL=C {command}")
        assert said["exit_code"] != 0
        assert "Read-only file system" in said["stderr"], (command, said)
    assert first.run(f"cat '{toolchain}/secret'")["exit_code"] != 0
    options = first.run(f"findmnt -no OPTIONS -T '{toolchain}' || grep readonly /proc/self/mountinfo")["stdout"]
    assert "ro,nosuid,nodev" in options
    second.call("workspace.open", {"workspace": "w"})
    assert second.run(f"ls '{toolchain}' /srv")["stdout"] == ""
    assert (toolchain / "file").read_text() == "of the host\n"


def test_a_single_file_is_shown_without_its_neighbours(start, tenants, toolchain, spares):
    """A file may lie in a directory that is shown too. The two paths may come in either order."""
    shown = [toolchain / "file", toolchain / "open", toolchain / "open" / "inner"]
    (toolchain / "open" / "inner").write_text("within\n")
    for paths in (shown, shown[::-1]):
        daemon = start(tenants, {"a": paths}, spares)
        client = daemon.connect(tenants[0])
        client.call("workspace.open", {"workspace": "w"})
        said = client.run(f"cd '{toolchain}' && ls && cat file open/inner")
        assert said["stdout"] == "file\nopen\nof the host\nwithin\n", said
        for command in ("echo x >file", "echo x >>open/inner", "rm file", "chmod 600 file", "mv file new"):
            said = client.run(f"cd '{toolchain}' && LC_ALL=C {command}")
            assert said["exit_code"] != 0, (command, said)
        options = client.run(f"findmnt -no OPTIONS '{toolchain}/file' || grep '/file ' /proc/self/mountinfo")["stdout"]
        assert "ro,nosuid,nodev" in options
        daemon.stop()
    assert (toolchain / "file").read_text() == "of the host\n"


@pytest.mark.parametrize("swap, said", [
    ("link", ", which leads through a symbolic link now: "),
    ("fifo", ", which is no directory or regular file any more: "),
    ("device", ", which is no directory or regular file any more: "),
    ("gone", ": No such file or directory")])
def test_a_file_that_was_swapped_is_named_and_costs_nothing_else(start, tenants, toolchain, swap, said):
    file = toolchain / "file"
    daemon = start(tenants, {"a": [file]})
    client, other = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    client.call("workspace.open", {"workspace": "before"})
    assert client.run(f"cat '{file}'")["stdout"] == "of the host\n"
    file.rename(toolchain / "away")
    if swap == "link":
        file.symlink_to(toolchain / "secret")
    elif swap == "fifo":
        os.mkfifo(file)
    elif swap == "device":
        os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    second = daemon.connect(tenants[0])
    with pytest.raises(RpcError) as caught:
        second.call("workspace.open", {"workspace": "w"})
    assert caught.value.name == "EXECUTION_ERROR"
    assert f"show the read-only path {file}{said}" in str(caught.value)
    other.call("workspace.open", {"workspace": "w"})
    assert other.run("echo there")["stdout"] == "there\n"
    assert client.run(f"cat '{file}'")["stdout"] == "of the host\n"  # an open cell keeps its mounts
    (toolchain / "away").replace(file)
    second.call("workspace.open", {"workspace": "w"})
    assert second.run(f"cat '{file}'")["stdout"] == "of the host\n"


def test_file_tools_do_not_see_it(start, tenants, toolchain):
    client = start(tenants, {"a": [toolchain]}).connect(tenants[0])
    client.call("workspace.open", {"workspace": "w"})
    assert client.run(f"cat '{toolchain}/file'")["exit_code"] == 0
    answer = client.observe("read_file", {"path": f"{toolchain}/file"})
    assert not answer["success"] and "of the host" not in str(answer)


def test_a_reload_is_for_new_cells(start, area, tenants, toolchain):
    daemon = start(tenants, {})
    client = daemon.connect(tenants[0])
    client.call("workspace.open", {"workspace": "old"})
    assert client.run(f"cat '{toolchain}/file'")["exit_code"] != 0
    assert daemon.reload(config_of(area, start.mode, tenants, {"a": [toolchain]}))
    assert client.run(f"cat '{toolchain}/file'")["exit_code"] != 0
    other = daemon.connect(tenants[0])
    other.call("workspace.open", {"workspace": "new"})
    assert other.run(f"cat '{toolchain}/file'")["stdout"] == "of the host\n"
    assert not daemon.reload(config_of(area, start.mode, tenants, {"a": [toolchain.parent / "nothing"]}))


def test_one_that_has_gone_is_named(start, tenants, toolchain, spares):
    daemon = start(tenants, {"a": [toolchain]}, spares)
    client = daemon.connect(tenants[0])
    client.call("workspace.open", {"workspace": "before"})
    # Each spare cell is a worker and a files process, like the workspace's own cell.
    assert procfs.eventually(lambda: len(procfs.children(daemon.spawner())) == 2 * (spares + 1))
    toolchain.rename(f"{toolchain}.away")
    try:
        with pytest.raises(RpcError) as caught:
            client.call("workspace.open", {"workspace": "w"})
        assert caught.value.name == "EXECUTION_ERROR"
        assert f"show the read-only path {toolchain}: No such file or directory" in str(caught.value)
    finally:
        pathlib.Path(f"{toolchain}.away").rename(toolchain)


def test_one_that_has_gone_does_not_keep_a_workspace(start, tenants, toolchain, spares):
    """A workspace can be removed while a path is missing, because a removal mounts nothing. It cannot be opened, and
    the error names the missing path."""
    daemon = start(tenants, {"a": [toolchain]}, spares)
    client = daemon.connect(tenants[0])
    for name in ("v", "w"):
        client.call("workspace.open", {"workspace": name})
        client.run("mkdir -p some/where; touch some/where/file")
        client.call("workspace.close")
    assert procfs.eventually(lambda: not daemon.cells())
    toolchain.rename(f"{toolchain}.away")
    client.call("workspace.remove", {"workspace": "w"})
    assert [row["workspace"] for row in client.call("workspace.list")["workspaces"]] == ["v"]
    assert client.call_error("workspace.open", {"workspace": "v"}) == "EXECUTION_ERROR"
    pathlib.Path(f"{toolchain}.away").rename(toolchain)
    client.call("workspace.open", {"workspace": "v"})
    assert client.run(f"ls some/where; cat '{toolchain}/file'")["stdout"] == "file\nof the host\n"
    client.call("workspace.close")


def test_a_removal_that_fails_leaves_no_cell_without_them(start, tenants, toolchain):
    daemon = start(tenants, {"a": [toolchain]})
    client, other = (daemon.connect(tenants[0]) for _ in range(2))
    client.call("workspace.open", {"workspace": "w"})
    client.call("workspace.close")
    assert procfs.eventually(lambda: not daemon.cells())
    (place,) = daemon.state.glob("workspaces/a/w")
    (place / "roots").mkdir()
    (place / "roots" / "file").touch()
    place.parent.chmod(0o500)  # no name in it can change
    lines = [{"jsonrpc": "2.0", "id": f"{method} {i}", "method": f"workspace.{method}", "params": {"workspace": "w"}}
             for i in range(20) for method in ("remove", "open")]
    other.send_raw(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    answers = [other.receive_any() for _ in lines]
    (first,) = [answer for answer in answers if answer["id"] == "remove 0"]
    assert first["error"]["data"]["code"] != "BUSY", first  # nobody has it open yet
    assert not any("result" in answer for answer in answers if "remove" in answer["id"]), answers
    with contextlib.suppress(RpcError):
        while True:
            other.call("workspace.close")
    client.call("workspace.open", {"workspace": "w"})
    assert client.run(f"ls roots; cat '{toolchain}/file'")["stdout"] == "file\nof the host\n"


@pytest.mark.parametrize("value, said", [
    ("relative", 'is not an absolute path without ".", ".." or "//"'),
    ("/no/such/directory", "No such file or directory"),
    ("/etc/passwd", "overlaps with /etc/passwd, which every workspace has of its own"),
    ("/etc/hosts", "overlaps with /etc/hosts, which every workspace has of its own"),
    ("/dev/null", "is neither a directory nor a regular file"),
    ("{toolchain}/fifo", "is neither a directory nor a regular file"),
    ("{toolchain}/link", "leads through a symbolic link: write \"{toolchain}/file\" instead"),
    ("{toolchain}/file", "overlaps with a tenant's root: {toolchain}"),
    ("/", "overlaps with /proc, which every workspace has of its own"),
    ("/home", "overlaps with /home/agent, which every workspace has of its own"),
    ("/etc", "overlaps with /etc/passwd, which every workspace has of its own"),
    ("/dev/shm", "overlaps with /dev, which every workspace has of its own"),
    ("/proc/sys", "overlaps with /proc, which every workspace has of its own"),
    ("/var/lib", "would show cloister's own /var/lib/x"),
    ("/srv", "overlaps with a tenant's root: {toolchain}"),
    ("{toolchain}/open", "overlaps with a tenant's root: {toolchain}")])
def test_bad_values_are_refused(area, toolchain, value, said):
    os.mkfifo(toolchain / "fifo")
    (toolchain / "link").symlink_to("file")
    config = Config(area, f"[cloister]\nstate_dir = /var/lib/x\n[tenant a]\n"
                          f"readonly_paths = {value.format(toolchain=toolchain)}\n"
                          f"[tenant b]\nroots = {toolchain}\n")
    status, message = config.check()
    assert status == 1
    assert message.startswith("cloister.conf:4: readonly_paths: "), message
    assert message.endswith(said.format(toolchain=toolchain) + "\n") and message.count("\n") == 1


def test_own_state_is_not_shown_wherever_it_is(area):
    """--state-dir overrides the file, so only the start can find this mistake."""
    state = pathlib.Path(tempfile.mkdtemp(prefix="cloister-state.", dir="/srv"))
    area.account.own(state)
    config = Config(area, f"[tenant a]\nreadonly_paths = {state}\n")
    try:
        assert config.check() == (0, "")
        done = area.run("cloisterd", "--config", str(config.path), "--agent-socket",
                        str(config.directory / "s"), "--state-dir", str(state / "in"))
        assert done.returncode == 1
        assert b"readonly_paths would show cloister's own files" in done.stderr
    finally:
        shutil.rmtree(state)


@pytest.fixture
def ask(area):
    """Runs a command in a private instance of the user, in a directory of the user's."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="cloister-workspace.", dir="/srv"))
    area.account.own(place)

    def run(paths, command, *more, workspace=place):
        words = [word for path in paths for word in ("--readonly-path", str(path))]
        done = area.run("cloister", "--workspace", str(workspace), *words, *more, "exec", "--", "sh", "-c", command,
                        text=True)
        return done.returncode, done.stdout, done.stderr

    run.place = place
    yield run
    shutil.rmtree(place)


def test_a_private_instance_shows_what_its_user_names(ask, toolchain):
    shown = [toolchain / "file", toolchain / "open"]
    status, stdout, stderr = ask(shown, f"cd '{toolchain}' && ls && cat file && touch open/new")
    assert (status, stdout) == (1, "file\nopen\nof the host\n")
    assert "Read-only file system" in stderr
    assert ask([], f"ls '{toolchain}'")[0] == 2
    # The directory above the workspace is read-only; the workspace is writable.
    around = ask.place / "around"
    (around / "inner").mkdir(parents=True)
    for path in (around, around / "inner"):
        path.chmod(0o777)
    status, stdout, stderr = ask([around], f"touch new; touch '{around}/new'; ls", workspace=around / "inner")
    assert stdout == "new\n" and f"'{around}/new': Read-only file system" in stderr


def test_a_private_instance_says_what_it_cannot_show(ask, toolchain):
    inside = ask.place / "inside"
    inside.mkdir()
    (toolchain / "link").symlink_to("file")
    for path, status, said in [
            ("file", 125, '--readonly-path: "file" is not an absolute path'),
            (toolchain / "nothing", 125, f'--readonly-path: "{toolchain}/nothing": No such file or directory'),
            (toolchain / "link", 125, f'leads through a symbolic link: write "{toolchain}/file" instead'),
            ("/etc/passwd", 125, "overlaps with /etc/passwd, which every workspace has of its own"),
            (inside, 125, f"The read-only path {inside} lies in the workspace, where commands may write")]:
        done = ask([path], "true")
        assert done[0] == status and said in done[2], done
    status, _, stderr = ask([toolchain] * 2, "true")
    assert status == 125 and "is given twice" in stderr
    status, _, stderr = ask([toolchain] * 17, "true")
    assert status == 2 and "at most 16 times" in stderr
    # The paths of a service come from its configuration, never from a client. A whole root has none.
    for more in (["--socket", "/nowhere"], ["--rootfs"], ["--workspace", "managed"]):
        status, _, stderr = ask([toolchain], "true", *more)
        assert status == 125 and "readonly_paths in its configuration" in stderr, (more, stderr)


def test_an_instance_with_a_configuration_takes_paths_only_from_there(area, toolchain):
    config = Config(area, "[cloister]\ntenants = none\n")
    done = area.run("cloisterd", "--config", str(config.path), "--readonly-path", str(toolchain))
    assert done.returncode == 2 and b"usage: cloisterd" in done.stderr
