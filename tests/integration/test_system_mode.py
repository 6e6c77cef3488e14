# SPDX-License-Identifier: Apache-2.0
"""System mode: each workspace has a host id of its own. The tests show which id it gets, who owns its files, and what its
removal removes."""

import ctypes
import fcntl
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import Account, Area, Daemon, system_config

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and give them ids")

HELD = ["--inh-caps", "+setuid,+setgid", "--ambient-caps", "+setuid,+setgid"]


def config_of(area, tenants, *lines, roots=None):
    text = "\n".join(["[cloister]", "mode = system", "agent_socket_mode = 0666", *lines, ""])
    for name, user in zip("abc", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
        text += f"roots = {roots[name]}\n" if roots else ""
    return text


def refused(client, method, params):
    with pytest.raises(RpcError) as caught:
        client.call(method, params)
    return caught.value


def opened(client, params):
    """Returns the answer of workspace.open, or None if it was refused."""
    try:
        return client.call("workspace.open", params)
    except RpcError as error:
        assert error.name == "FORBIDDEN"
        return None


def start(area, way, **keywords):
    """A daemon in system mode, started in one of the three ways."""
    area.account.give_ids()
    if way == "root":
        return Daemon(area, system=True, as_root=True, **keywords)
    if way == "capabilities":  # as systemd starts it, with no_new_privs
        words = ["setpriv", "--reuid", area.account.name, "--regid", area.account.name,
                 "--clear-groups", *HELD, "--no-new-privs", "--"]
        return Daemon(area, system=True, launcher=words, **keywords)
    return Daemon(area, system=True, **keywords)


@pytest.fixture
def start_system(area):
    started = []

    def begin(way="helpers", **keywords):
        started.append(start(area, way, **keywords))
        return started[-1]

    yield begin
    for running in started:
        running.stop()


@pytest.fixture(scope="module")
def host(area, tenants):
    """Three tenants, each with a directory of roots that all users can reach: daemon, clients, roots."""
    area.account.give_ids()
    roots = {name: area.new_directory("roots-" + name) for name in "abc"}
    running = Daemon(area, system=True, config=config_of(area, tenants, roots=roots))
    yield running, [running.connect(user) for user in tenants], roots
    assert running.stop() == 0


def new_root(daemon, directory, name, mode=0o700):
    """Makes a directory owned by an id of the range. Returns its path and the index of the id."""
    path = directory / name
    path.mkdir(mode=mode)
    return path, daemon.account.give_away(path)


# Three ways to the id maps


@pytest.mark.parametrize("way", ["root", "capabilities", "helpers"])
def test_every_way_of_starting_ends_in_the_same_place(start_system, area, way):
    extra = [f"user = {area.account.name}"] if way == "root" else []
    daemon = start_system(way, config=system_config(area, *extra))
    account = daemon.account
    client = daemon.connect()
    answer = client.call("workspace.open", {"workspace": f"of-{way}"})
    assert answer["isolation"]["mode"] == "system"
    status = procfs.status(daemon.pid)
    assert procfs.uids(daemon.pid) == [account.uid] * 4
    assert [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0] * 4
    assert status["NoNewPrivs"] == "1"
    spawner = f"/proc/{daemon.spawner()}/"
    for kind, own, first in (("uid_map", account.uid, account.first),
                             ("gid_map", account.gid, account.first_gid)):
        lines = [[int(word) for word in line.split()] for line in open(spawner + kind)]
        assert lines == [[0, own, 1], [1, first, account.count]]
    ((worker, files),) = daemon.cells()
    owner = (daemon.state / "workspaces" / account.name / f"of-{way}").stat()
    assert account.first <= owner.st_uid < account.first + account.count
    assert owner.st_gid - account.first_gid == owner.st_uid - account.first
    for pid in (worker, files):
        assert procfs.uids(pid) == [owner.st_uid] * 4
        assert procfs.status(pid)["Groups"].strip() == ""
    assert client.run("id -u; id -g; id -G")["stdout"].split() == ["1000"] * 3
    client.call("workspace.remove", {"workspace": f"of-{way}"})


def test_spare_cells_have_no_id_until_they_are_assigned(start_system, area):
    def spares():
        return {pid for pid in procfs.children(daemon.spawner())
                if procfs.name(pid) == "cloister-spare" and procfs.is_alive(pid)}

    def ids(pid):
        return (procfs.PROC / str(pid) / "uid_map").read_text().split()

    daemon = start_system(config=system_config(area, "spare_cells = 1", f"admin_group = {area.account.name}"))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "first"})
    for name in ("second", "third", "second"):
        assert procfs.eventually(lambda: daemon.spares_ready() == 1)
        # A process takes its name after the spawner has answered.
        assert procfs.eventually(lambda: len(spares()) == 2)
        ahead = spares()
        assert [ids(pid) for pid in ahead] == [[], []]
        client.call("workspace.open", {"workspace": name})
        assert client.observe("run_command", {"command": "id -u; touch mine"}, workspace=name)[
            "output"]["stdout"] == "1000\n"
        (owner,) = {path.stat().st_uid for path in daemon.state.rglob(f"{name}/mine")}
        (worker,) = {worker for worker, _ in daemon.cells()} & ahead
        assert ids(worker) == ["1000", str(owner), "1"] and procfs.uids(worker) == [owner] * 4
        client.call("workspace.close", {"workspace": name})
        assert procfs.vanish([worker])


def start_and_fail(area, account, config, directory=None):
    """Returns the messages of a cloisterd that refuses to start."""
    directory = directory or area.path
    file = directory / f"wrong-{area.number}.conf"
    area.number += 1
    file.write_text(config)
    words = [area.bin / "cloisterd", "--config", file, "--agent-socket", area.path / "wrong.sock",
             "--state-dir", area.home / "wrong"]
    ended = subprocess.run(words, **account.as_user(), capture_output=True, text=True, timeout=60)
    file.unlink()
    assert ended.returncode == 1
    return ended.stderr


def test_without_a_range_it_says_what_to_do(tenants):
    place = Area(tenants[0])
    os.chown(place.path, 0, 0)
    said = start_and_fail(place, tenants[0], "[cloister]\nmode = system\ntenants = none\n")
    place.remove()
    assert "usermod --add-subuids" in said


def edit_subuid(change):
    """Takes the lock that useradd(8) takes, because another suite may be running one."""
    path, new = pathlib.Path("/etc/subuid"), pathlib.Path("/etc/subuid.cloister-test")
    with open("/etc/.pwd.lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        lines = path.read_text().splitlines()
        change(lines)
        new.write_text("".join(f"{line}\n" for line in lines))
        new.chmod(0o644)
        new.rename(path)


def test_a_range_that_holds_root_or_the_user_is_none(area):
    strange = Account("strange")
    place = Area(strange)
    os.chown(place.path, 0, 0)
    try:
        for first in (0, strange.uid - 1):
            edit_subuid(lambda lines: lines.append(f"{strange.name}:{first}:10"))
            subprocess.run(["usermod", "--add-subgids", "1999990000-1999990009", strange.name], check=True)
            assert "without root" in start_and_fail(place, strange, "[cloister]\nmode = system\ntenants = none\n")
            # usermod(8) refuses, because it takes the processes of all ids in the range for the user's.
            edit_subuid(lambda lines: lines.remove(f"{strange.name}:{first}:10"))
    finally:
        place.remove()
        strange.remove()


def test_a_configuration_that_others_can_replace_is_refused(area):
    area.account.give_ids()
    assert "must belong to root" in start_and_fail(area, area.account, "[cloister]\nmode = system\ntenants = none\n")


def test_no_new_privs_without_capabilities_is_said(area):
    area.account.give_ids()
    place = area.new_directory("no-new-privs")
    os.chown(place, 0, 0)
    file = place / "c.conf"
    file.write_text("[cloister]\nmode = system\ntenants = none\n")
    ended = subprocess.run(
        ["setpriv", "--no-new-privs", area.bin / "cloisterd", "--config", file, "--agent-socket",
         area.path / "nnp.sock", "--state-dir", area.path / "nnp"],
        **area.account.as_user(), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "AmbientCapabilities" in ended.stderr


def autogroup(pid):
    """(autogroup, its nice value), or None where the kernel has no autogroups; see sched(7)."""
    path = pathlib.Path(f"/proc/{pid}/autogroup")
    found = re.fullmatch(r"/autogroup-(\d+) nice (-?\d+)\n", path.read_text() if path.exists() else "")
    return found and (found[1], int(found[2]))


def nice(pid):
    return os.getpriority(os.PRIO_PROCESS, pid)


def has_feature(daemon, name):
    with daemon.control() as control:
        return {row["feature"]: row["present"] for row in control.call("doctor")["features"]}[name]


def test_cloisterd_has_no_priority_in_anothers_session(start_system, area):
    """With autogroups a nice value counts only within its session, so cloisterd gets no priority in another's session,
    and doctor says so. sched(7)"""
    daemon = start_system("root", config=system_config(area, f"admin_group = {area.account.name}",
                                                       f"user = {area.account.name}"))
    enabled = pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled")
    alone = not enabled.exists() or enabled.read_text() == "0\n"
    assert autogroup(daemon.pid) == autogroup("self")
    assert has_feature(daemon, "cpu_priority") == (alone and nice(daemon.pid) < 0 or has_feature(daemon, "cpu_controller"))


@pytest.mark.parametrize("way", ["root", "allowed", "helpers"])
def test_cloisterd_and_small_calls_run_before_commands(start_system, area, way):
    """A cloisterd that may raise its priority runs before commands, and so do the processes that answer small calls. No
    process that a tenant starts has that capability or is in that session."""
    name = area.account.name
    lines = [f"admin_group = {name}"] + ([f"user = {name}"] if way == "root" else [])
    allowed = {"launcher": ["setpriv", "--reuid", name, "--regid", name, "--clear-groups", "--inh-caps", "+sys_nice",
                            "--ambient-caps", "+sys_nice", "--"]} if way == "allowed" else {}
    daemon = start_system("helpers" if way == "allowed" else way, start_new_session=True,
                          config=system_config(area, *lines), **allowed)
    first, own = way != "helpers", nice(0)  # the nice value that the administrator chose
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    number = client.begin("run_command", {"command": "exec sleep 600"})
    worker, files = daemon.cells()[-1]
    sleep = procfs.eventually(lambda: [pid for pid in procfs.descendants(worker) if procfs.name(pid) == "sleep"])[0]
    assert nice(daemon.pid) == (-10 if first and own == 0 else own)
    assert [nice(pid) for pid in (daemon.spawner(), worker, files, sleep)] == [max(own, 0)] * 4
    groups = [autogroup(pid) for pid in (daemon.pid, daemon.spawner(), files, sleep)]
    if all(groups):
        assert [value for _, value in groups] == [-20 if first and own <= 0 else 0] * 3 + [0]
        assert len({group for group, _ in groups[:3]}) == 1 and groups[3][0] != groups[0][0]
    client.cancel(number)
    assert has_feature(daemon, "cpu_priority") == (nice(daemon.pid) < 0 or has_feature(daemon, "cpu_controller"))
    output = client.run("nice -n -1 nice 2>/dev/null; grep nice /proc/self/limits")["stdout"]
    assert output.split() == [str(max(own, 0)), "Max", "nice", "priority", "0", "0"]


@pytest.mark.deep("slow")
def test_a_files_process_keeps_its_place_while_its_calls_are_small(start_system, area):
    """A files process stays in the preferred session while its calls are small. CPU time of its jobs does not count, its
    own does."""
    daemon = start_system("root", start_new_session=True,
                          config=system_config(area, f"admin_group = {area.account.name}", f"user = {area.account.name}"))
    if not autogroup(daemon.pid):
        pytest.skip("the kernel gives sessions no shares of their own (sched_autogroup_enabled)")
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    _, files = daemon.cells()[-1]
    client.run("mkdir d; for i in $(seq 2000); do echo line $i > d/$i; done", timeout_ms=60000)
    for number in range(60):
        client.use("write_file", path="f", content=f"{number}" * 1000)
        assert client.use("search_files", pattern="line 17.$")["count"] == 10
        client.use("list_directory", path="d", recursive=True)
        client.use("read_file", path="f")
    assert autogroup(files) == autogroup(daemon.pid)

    def lists_and_leaves():
        for number in [client.begin("list_directory", {"path": "d"}) for _ in range(16)]:
            assert client.result(number)["success"]
        return autogroup(files)[1] == 0
    assert procfs.eventually(lists_and_leaves, 60)


def test_a_nice_value_of_the_administrator_is_kept(start_system, area):
    daemon = start_system("root", start_new_session=True,
                          preexec_fn=lambda: os.setpriority(os.PRIO_PROCESS, 0, 10),  # as the unit's Nice= does
                          config=system_config(area, f"admin_group = {area.account.name}", f"user = {area.account.name}"))
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    _, files = daemon.cells()[-1]
    assert [nice(pid) for pid in (daemon.pid, daemon.spawner(), files)] == [10] * 3
    group = autogroup(daemon.pid)
    assert not group or group[1] == 0


# Owners


def test_three_tenants_see_their_own_and_nothing_else(host, tenants):
    daemon, clients, roots = host
    for name, client in zip("abc", clients):
        client.call("workspace.open", {"workspace": "w"})
        client.use("write_file", path="whose", content=name)
        assert client.run("touch made; chmod 666 whose; cat whose")["stdout"] == name
        path, _ = new_root(daemon, roots[name], "tree")
        client.call("workspace.open", {"root": str(path)})
        client.use("write_file", path="whose", content=name)
        listed = client.call("workspace.list")["workspaces"]
        assert {entry["workspace"] for entry in listed} == {"w", str(path)}
        assert {entry["tenant"] for entry in listed} == {name}
    owners = []
    for name in "abc":
        for top in (daemon.state / "workspaces" / name / "w", roots[name] / "tree"):
            ids = {path.stat().st_uid for path in (top, *top.iterdir())}
            assert len(ids) == 1
            owners += ids
            assert (top / "whose").read_text() == name
        assert (daemon.state / "workspaces" / name / "w").stat().st_mode & 0o777 == 0o700
    assert len(set(owners)) == 6
    assert not set(owners) & {0, daemon.account.uid, *(user.uid for user in tenants)}
    for other in "bc":
        error = refused(clients[0], "workspace.open", {"root": str(roots[other] / "tree")})
        assert error.name == "FORBIDDEN" and "chown" not in error.message
        assert refused(clients[0], "workspace.open", {"workspace": "w", "tenant": other}).name == "FORBIDDEN"


class UserCap(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32),
                ("inheritable", ctypes.c_uint32)]


def as_broken_out(worker, attempt):
    """Calls @attempt in a process that has the worker's id and every capability in its user namespace, but is in the
    host's mount and pid namespaces. Returns the result of @attempt as text."""
    libc = ctypes.CDLL(None, use_errno=True)
    read_end, write_end = os.pipe()
    namespace = os.open(f"/proc/{worker}/ns/user", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        try:
            assert libc.setns(namespace, 0) == 0
            os.setgroups([])
            assert libc.prctl(8, 1, 0, 0, 0) == 0  # PR_SET_KEEPCAPS
            os.setresgid(1000, 1000, 1000)
            os.setresuid(1000, 1000, 1000)
            header = (ctypes.c_uint32 * 2)(0x20080522, 0)
            caps = (UserCap * 2)()
            assert libc.capget(header, caps) == 0
            for cap in caps:
                cap.effective = cap.permitted
            assert libc.capset(header, caps) == 0
            said = attempt()
        except BaseException as error:  # pylint: disable=broad-except
            said = f"failed: {error!r}"
        os.write(write_end, said.encode()[:4000])
        os._exit(0)
    os.close(write_end)
    os.close(namespace)
    os.waitpid(pid, 0)
    with os.fdopen(read_end) as pipe:
        return pipe.read()


def outcome(act, *arguments):
    try:
        act(*arguments)
    except PermissionError:
        return "denied"
    return "done"


def test_a_worker_that_breaks_out_reaches_neither_tenants_nor_cloister(host):
    daemon, clients, roots = host
    own, n = new_root(daemon, roots["a"], "attacker")
    victim, _ = new_root(daemon, roots["b"], "victim", 0o700)
    clients[0].call("workspace.open", {"root": str(own)})
    clients[0].use("write_file", path="mine", content="own")
    clients[1].call("workspace.open", {"root": str(victim)})
    clients[1].use("write_file", path="secret", content="secret")
    cells = {procfs.uids(worker)[0]: worker for worker, _ in daemon.cells()}
    attacker = cells[daemon.account.first + n]
    other = cells[victim.stat().st_uid]
    workspaces = daemon.state / "workspaces"

    def attempt():
        with open("/proc/self/status") as file:
            caps = int(re.search(r"CapEff:\s*(\w+)", file.read()).group(1), 16)
        said = [f"caps {caps:x}", "own " + outcome(open, own / "mine")]
        for name, act, *arguments in (
                ("read", open, victim / "secret"), ("list", os.listdir, victim),
                ("chmod", os.chmod, victim, 0o777), ("chown", os.chown, victim, 1000, 1000),
                ("rename", os.rename, victim, roots["b"] / "gone"),
                ("into", open, victim / "new", "w"),
                ("managed", open, workspaces / "b" / "w" / "whose"),
                ("own managed", open, workspaces / "a" / "w" / "whose"),
                ("state", os.listdir, workspaces), ("mkdir", os.mkdir, daemon.state / "x"),
                ("log", open, daemon.log_path, "a"), ("config", open, daemon.config, "a"),
                ("memory", open, f"/proc/{daemon.pid}/mem", "rb"),
                ("kill daemon", os.kill, daemon.pid, signal.SIGTERM),
                ("kill spawner", os.kill, daemon.spawner(), signal.SIGKILL),
                ("kill worker", os.kill, other, signal.SIGKILL),
                ("root of worker", os.listdir, f"/proc/{other}/root/"),
                ("cwd of worker", os.listdir, f"/proc/{other}/cwd/")):
            said.append(f"{name} {outcome(act, *arguments)}")
        return "\n".join(said)

    said = as_broken_out(attacker, attempt).splitlines()
    assert said[0].startswith("caps ") and int(said[0].split()[1], 16) & (1 << 1) and said[1] == "own done"
    assert len(said) == 20
    assert [line for line in said[2:] if not line.endswith(" denied")] == []
    # At the socket its credentials belong to no tenant.
    def knock():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(daemon.socket))
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\n')
            return connection.makefile().readline()
    assert "FORBIDDEN" in as_broken_out(attacker, knock)


# A directory's id


def test_the_chown_that_is_named_is_the_remedy(host):
    daemon, clients, roots = host
    for name in ("plain", "it's a name"):
        path = roots["c"] / name
        path.mkdir()
        (path / "f").write_text("text")
        error = refused(clients[2], "workspace.open", {"root": str(path)})
        assert error.name == "FORBIDDEN"
        command = re.search(r"chown -R \d+:\d+ .*", error.message).group(0)
        subprocess.run(shlex.split(command), check=True)
        daemon.account.note_given(path)
        clients[2].call("workspace.open", {"root": str(path)})
        assert clients[2].run("cat f; touch g; stat -c %u f g .")["stdout"].split() == ["text1000", "1000", "1000"]


@pytest.mark.parametrize("owner", ["root", "supervisor", "tenant", "before", "behind"])
def test_a_directory_of_any_other_user_is_refused(host, tenants, owner):
    daemon, clients, roots = host
    account = daemon.account
    path = roots["a"] / f"of-{owner}"
    path.mkdir(mode=0o777)
    uid = {"root": 0, "supervisor": account.uid, "tenant": tenants[0].uid,
           "before": account.first - 1, "behind": account.first + account.count}[owner]
    os.chown(path, uid, -1)
    assert refused(clients[0], "workspace.open", {"root": str(path)}).name == "FORBIDDEN"


def test_two_directories_of_one_id_are_not_open_together(host):
    daemon, clients, roots = host
    first, n = new_root(daemon, roots["a"], "first")
    second = roots["b"] / "second"
    second.mkdir()
    os.chown(second, first.stat().st_uid, first.stat().st_gid)
    clients[0].call("workspace.open", {"root": str(first)})
    error = refused(clients[1], "workspace.open", {"root": str(second)})
    assert error.name == "FORBIDDEN" and "chown" in error.message
    clients[0].call("workspace.close", {"workspace": str(first)})
    assert procfs.eventually(lambda: opened(clients[1], {"root": str(second)}))
    assert clients[1].run("id -u")["stdout"] == "1000\n"


def test_neither_the_id_nor_the_group_of_a_managed_workspace(host):
    daemon, clients, roots = host
    clients[0].call("workspace.open", {"workspace": "keeps-its-id"})
    clients[0].call("workspace.close", {"workspace": "keeps-its-id"})
    managed = (daemon.state / "workspaces" / "a" / "keeps-its-id").stat()
    path = roots["a"] / "of-managed"
    path.mkdir()
    os.chown(path, managed.st_uid, managed.st_gid)
    error = procfs.eventually(lambda: refused(clients[0], "workspace.open", {"root": str(path)}))
    assert error.name == "FORBIDDEN"
    _, n = new_root(daemon, roots["a"], "grouped")
    os.chown(roots["a"] / "grouped", -1, managed.st_gid)
    error = refused(clients[0], "workspace.open", {"root": str(roots["a"] / "grouped")})
    assert error.name == "FORBIDDEN" and "group" in error.message


def test_an_id_is_used_again_only_when_its_directory_is_gone():
    small = Account("small")
    small.give_ids(4)
    place = Area(small)
    daemon = Daemon(place, system=True)
    try:
        client = daemon.connect()
        top = daemon.state / "workspaces" / small.name
        for name in ("one", "two"):
            client.call("workspace.open", {"workspace": name})
        ids = {name: (top / name).stat().st_uid for name in ("one", "two")}
        assert set(ids.values()) == {small.first + 2, small.first + 3}
        client.call("workspace.close", {"workspace": "one"})
        error = refused(client, "workspace.open", {"workspace": "three"})
        assert error.name == "FORBIDDEN" and "in use" in error.message
        client.call("workspace.remove", {"workspace": "one"})
        # An id is not given again before the last process that had it is gone.
        assert procfs.eventually(lambda: opened(client, {"workspace": "three"}))
        assert (top / "three").stat().st_uid == ids["one"]
        # Workspaces on disk count, whether they are open or not.
        client.close()
        assert daemon.stop() == 0
        daemon = Daemon(place, system=True, state=daemon.state)
        client = daemon.connect()
        assert refused(client, "workspace.open", {"workspace": "four"}).name == "FORBIDDEN"
        client.call("workspace.open", {"workspace": "two"})
        assert (top / "two").stat().st_uid == ids["two"]
    finally:
        daemon.stop()
        place.remove()
        small.remove()


@pytest.mark.deep("slow")
def test_one_tenant_does_not_take_every_id(tenants):
    """Even a tenant without a limit gets only its share of a small range."""
    def made(client, n=30):
        done = 0
        for i in range(n):
            if opened_or_full(client, f"w{i}"):
                client.call("workspace.close", {"workspace": f"w{i}"})
                done += 1
        return done

    def opened_or_full(client, name):
        try:
            return client.call("workspace.open", {"workspace": name})
        except RpcError as error:
            assert error.name == "QUOTA_EXCEEDED", error
            return None

    small = Account("tight")
    small.give_ids(40)  # 20 of them for managed workspaces, one of which is the self-test's
    place = Area(small)
    daemon = Daemon(place, system=True, config=config_of(place, tenants))
    try:
        clients = [daemon.connect(user) for user in tenants]
        first = made(clients[0])
        assert first == 9
        assert "share" in refused(clients[0], "workspace.open", {"workspace": "more"}).message
        # Each of the other tenants can still take its own share.
        assert [made(client) for client in clients[1:]] == [3, 3]
        # A tenant that removes some may make others, up to its share. Removed ones count until their files are cleared.
        for i in range(first):
            clients[0].call("workspace.remove", {"workspace": f"w{i}"})
        assert procfs.eventually(lambda: not list((daemon.state / "workspaces" / "a").glob(".removed-*")))
        assert made(clients[0]) >= 3
    finally:
        daemon.stop()
        place.remove()
        small.remove()


def test_what_user_mode_left_is_not_given_away(start_system, area):
    daemon = start_system()
    old = daemon.state / "workspaces" / daemon.account.name / "old"
    with acting_as(daemon.account.uid, daemon.account.gid):
        old.mkdir(parents=True)
        (old / "f").write_text("kept")
    error = refused(daemon.connect(), "workspace.open", {"workspace": "old"})
    assert error.name == "FORBIDDEN" and "user mode" in error.message
    assert old.stat().st_uid == daemon.account.uid


# Removal


@pytest.mark.deep("slow")
def test_everything_that_a_workspace_made_goes(start_system):
    daemon = start_system()
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    made = client.run("mkdir -p a/b/c && touch a/b/c/f && chmod 0 a/b/c a/b a && ln -s / link && mkfifo p && "
                      "i=0; while [ $i -lt 300 ]; do mkdir d && cd d && i=$((i+1)); done; touch deep; "
                      "mkdir /workspace/sticky && chmod 1000 /workspace/sticky; chmod 0 /workspace")
    assert made["exit_code"] == 0, made
    top = daemon.state / "workspaces" / daemon.account.name
    assert (top / "w").stat().st_mode & 0o777 == 0
    # Removal works although the workspace's owner has taken all permissions away.
    client.close()
    client = daemon.connect()
    client.call("workspace.open", {"workspace": "w"})
    client.call("workspace.remove", {"workspace": "w"})
    assert procfs.eventually(lambda: not list(top.iterdir()))


def test_a_reload_reaches_the_spawner(start_system, area, tenants):
    roots = {name: area.new_directory("reloaded") for name in "ab"}
    daemon = start_system(config=config_of(area, tenants[:1], roots=roots))
    client = daemon.connect(tenants[0])
    path, _ = new_root(daemon, roots["b"], "later")
    assert refused(client, "workspace.open", {"root": str(path)}).name == "FORBIDDEN"
    assert daemon.reload(config_of(area, tenants[:1], roots={"a": roots["b"]}))
    client.call("workspace.open", {"root": str(path)})
    assert client.run("id -u")["stdout"] == "1000\n"


# The host's cgroups and users


def test_the_self_test_passes_and_its_id_is_its_own(area, start_system):
    lines = ["[cloister]", "mode = system", "selftest = required", f"admin_group = {area.account.gid}",
             "[tenant t]", f"users = {area.account.name}", "managed = yes", ""]
    daemon = start_system(config="\n".join(lines))
    with daemon.control() as control:
        # status shows what is enforced.
        (line,) = [line for line in control.call("status")["enforcement"] if "host id" in line["what"]]
        assert line["enforced"] and line["by"] == "subordinate ids" and not line["why"]
        answer = control.call("selftest", timeout=300)
        assert answer["result"] == "passed", [probe for probe in answer["probes"] if probe["result"] == "failed"]
    canary = (daemon.state / "workspaces" / ".selftest" / "canary").stat().st_uid
    # The spawner of the next start clears the group too; it finds it by the workspace's directory.
    daemon.stop()
    daemon = start_system(state=daemon.state, config="\n".join(lines).replace("required", "off"))
    with daemon.connect() as client:
        for name in "abc":
            assert client.call("workspace.open", {"workspace": name})
            assert (daemon.state / "workspaces" / "t" / name).stat().st_uid != canary


def test_groups_are_the_workspaces_and_go_after_a_kill(area, delegation):
    """cloister keeps a workspace's limits. Groups below belong to the workspace's id, and the next spawner removes them."""
    area.account.give_ids()
    daemon = Daemon(area, system=True, launcher=delegation.launcher())
    client = daemon.connect()
    isolation = client.call("workspace.open", {"workspace": "grouped"})["isolation"]
    assert isolation["cgroup"] is True
    client.run("true")
    owner = (daemon.state / "workspaces" / area.account.name / "grouped").stat().st_uid
    group = delegation.path / "ws-1"
    assert group.stat().st_uid == (group / "cgroup.procs").stat().st_uid == owner
    limits = [*group.glob("*.max"), *group.glob("*.weight"), group / "cgroup.max.descendants"]
    assert {path.stat().st_uid for path in limits} == {area.account.uid}
    everybody = procfs.descendants(daemon.pid)
    os.kill(daemon.spawner(), signal.SIGSTOP)  # a stopped spawner cannot remove the group
    daemon.process.kill()
    daemon.process.wait()
    assert procfs.vanish(everybody)
    assert group.exists()
    daemon.stop()
    following = Daemon(area, system=True, launcher=delegation.launcher("supervisor"), state=daemon.state)
    assert delegation.groups() == ["supervisor"]
    assert "cannot be removed" not in following.log()
    following.connect().call("workspace.remove", {"workspace": "grouped"})
    assert following.stop() == 0


def test_doctor_says_what_system_mode_lacks(start_daemon, tenants, area):
    """doctor reports a user without a range of ids, and a host without the helpers. newuidmap(1)"""
    place = Area(tenants[2])
    try:
        daemon = Daemon(place, system=False, launcher=[
            "unshare", "-m", "sh", "-c",
            'mount --bind /dev/null /usr/bin/newuidmap && exec "$0" "$@"', "setpriv",
            f"--reuid={tenants[2].uid}", f"--regid={tenants[2].gid}", "--clear-groups", "--"])
        missing = {feature["feature"]: feature["fix"]
                   for feature in daemon.control().call("doctor")["features"] if not feature["present"]}
        daemon.stop()
    finally:
        place.remove()
    assert "usermod" in missing["subordinate_ids"]
    assert "install uidmap" in missing["uidmap"]
    area.account.give_ids()
    present = {feature["feature"] for feature in start_daemon(system=False).control().call("doctor")["features"]
               if feature["present"]}
    assert {"subordinate_ids", "uidmap"} <= present
