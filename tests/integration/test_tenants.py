# SPDX-License-Identifier: Apache-2.0
"""Tenants of distinct users on a cloisterd of another user: who is admitted, and which workspaces each may open."""

import json
import os
import re
import signal

import pytest

import procfs
from cloister_client import Client, RpcError
from daemon import Account

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")


def refused(client, method, params=None):
    with pytest.raises(RpcError) as caught:
        client.call(method, params)
    return caught.value


def config_of(tenants, *extra, **settings):
    """A configuration with [tenant a] for the first user and [tenant b] for the second, both with these settings."""
    text = "[cloister]\nagent_socket_mode = 0666\n" + "".join(f"{line}\n" for line in extra)
    for name, user in zip("ab", tenants):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
        text += "".join(f"{key} = {value}\n" for key, value in settings.items())
    return text


@pytest.fixture
def host(start_daemon, tenants):
    """A daemon for two tenants, and a client of each."""
    daemon = start_daemon(config=config_of(tenants))
    return daemon, daemon.connect(tenants[0]), daemon.connect(tenants[1])


def make_directories(area, *names):
    """Makes directories, owned by the daemon's user, below a new one."""
    top = area.new_directory("tree")
    for name in names:
        path = top / name
        path.mkdir(parents=True)
        area.account.own(path)
    return top


# Owners of workspaces


def test_one_name_under_two_tenants_is_two_workspaces(host):
    daemon, a, b = host
    for client, name in ((a, "a"), (b, "b")):
        assert client.call("workspace.open", {"workspace": "w"})["tenant"] == name
        client.use("write_file", path="whose", content=name)
    assert a.run("cat whose; ls /")["stdout"].startswith("a")
    assert b.run("cat whose")["stdout"] == "b"
    for name in "ab":
        assert (daemon.state / "workspaces" / name / "w" / "whose").read_text() == name


def test_a_tenant_lists_its_own_and_nothing_else(host):
    _, a, b = host
    a.call("workspace.open", {"workspace": "open-of-a"})
    a.call("workspace.open", {"workspace": "closed-of-a"})
    a.call("workspace.close", {"workspace": "closed-of-a"})
    b.call("workspace.open", {"workspace": "of-b"})
    listed = {entry["workspace"]: entry for entry in a.call("workspace.list")["workspaces"]}
    assert set(listed) == {"open-of-a", "closed-of-a"}
    assert {entry["tenant"] for entry in listed.values()} == {"a"}
    assert [entry["workspace"] for entry in b.call("workspace.list")["workspaces"]] == ["of-b"]


def test_what_is_not_ones_own_is_not_there(host, tenants):
    """No answer lets a tenant tell another tenant's workspace from one that does not exist."""
    daemon, a, b = host
    a.call("workspace.open", {"workspace": "secret"})
    call = a.begin("run_command", {"command": "sleep 600"})
    for name in ("secret", "nobodys"):
        for method in ("workspace.close", "workspace.remove"):
            error = refused(b, method, {"workspace": name})
            assert (error.name, name not in error.message) == ("WORKSPACE_NOT_FOUND", True)
        error = refused(b, "tool.call", {"workspace": name, "tool": "run_command",
                                         "arguments": {"command": "true"}})
        assert error.name == "WORKSPACE_NOT_FOUND"
    messages = {refused(b, "workspace.open", {"workspace": "secret", "tenant": tenant}).message
                for tenant in ("a", "c", "", "../a")}
    assert len(messages) == 1
    assert not b.cancel(call)
    assert refused(b, "workspace.open", {"root": str(daemon.state / "workspaces" / "a" / "secret")}).name == "FORBIDDEN"
    assert a.call("workspace.list")["workspaces"][0]["open"]
    assert a.cancel(call)


def test_the_same_directory_under_two_tenants_is_two_cells(start_daemon, area, tenants):
    shared = area.new_directory()
    daemon = start_daemon(config=config_of(tenants, roots=shared))
    a, b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    for client in (a, b):
        client.call("workspace.open", {"root": str(shared)})
    assert len(daemon.cells()) == 2
    assert a.run("touch /tmp/of-a; ls /tmp/of-a")["exit_code"] == 0
    assert b.run("ls /tmp/of-a")["exit_code"] != 0


# Admission


def test_a_stranger_is_forbidden_and_learns_nothing(host, tenants):
    daemon, a, _ = host
    a.call("workspace.open", {"workspace": "w"})
    answers = set()
    for method, params in (("tools.list", {}), ("no.such.method", {}), ("workspace.open", {"workspace": "w"}),
                           ("workspace.open", {"nonsense": 1}), ("workspace.list", {})):
        with daemon.connect(tenants[2]) as stranger:
            number = stranger.request(method, params, number=77)
            answer = stranger.receive()
            assert answer.pop("id") == number
            answers.add(json.dumps(answer, sort_keys=True))
            assert stranger.receive() is None
    assert len(answers) == 1
    assert json.loads(answers.pop())["error"]["data"]["code"] == "FORBIDDEN"


def test_a_group_lets_its_members_in(start_daemon, tenants):
    a, b, c = tenants
    daemon = start_daemon(config="[cloister]\nagent_socket_mode = 0666\n"
                          f"[tenant g]\ngroups = {a.name} {c.gid}\nmanaged = yes\n")
    # A user belongs to the tenant by the primary group or by any supplementary group, not by a uid of the same number.
    for account, groups in ((a, ()), (b, (65000, a.gid, 65001)), (b, (c.gid,))):
        with daemon.connect(account, groups) as client:
            assert client.call("workspace.open", {"workspace": "w"})["tenant"] == "g"
    with daemon.connect(b, (65000,)) as client:
        assert client.call_error("workspace.list") == "FORBIDDEN"
    with Client(daemon.socket, a.uid, b.gid) as client:
        assert client.call_error("workspace.list") == "FORBIDDEN"


def test_a_tenant_without_users_admits_no_user(start_daemon, tenants):
    daemon = start_daemon(config="[cloister]\nagent_socket_mode = 0666\n[tenant x]\nmanaged = yes\nroots = /\n")
    for account in (daemon.account, tenants[0]):
        with daemon.connect(account) as client:
            assert client.call_error("workspace.open", {"workspace": "w"}) == "FORBIDDEN"
    with Client(daemon.socket) as root:
        assert root.call_error("workspace.open", {"workspace": "w"}) == "FORBIDDEN"


def test_who_fits_several_tenants_names_one(start_daemon, tenants):
    name = tenants[0].name
    daemon = start_daemon(config="[cloister]\nagent_socket_mode = 0666\n" + "".join(
        f"[tenant {tenant}]\nusers = {name}\nmanaged = yes\nenvironment = WHO={tenant}\n"
        for tenant in ("z", "m", "k")))
    client = daemon.connect(tenants[0])
    # The default tenant is the first in the file, not in the alphabet.
    assert client.call("workspace.open", {"workspace": "w"})["tenant"] == "z"
    assert client.run("echo $WHO > who; cat who")["stdout"] == "z\n"
    assert client.call("workspace.open", {"workspace": "w", "tenant": "k"})["tenant"] == "k"
    assert client.run("cat who; echo $WHO")["stdout"] == "k\n"
    listed = client.call("workspace.list")["workspaces"]
    assert [(entry["tenant"], entry["workspace"]) for entry in listed] == [("k", "w"), ("z", "w")]
    client.call("workspace.close", {"workspace": "w", "tenant": "z"})
    assert refused(client, "workspace.close", {"workspace": "w", "tenant": "m"}).name == "WORKSPACE_NOT_FOUND"
    assert client.run("echo $WHO")["stdout"] == "k\n"
    client.call("workspace.remove", {"workspace": "w", "tenant": "z"})
    assert not (daemon.state / "workspaces" / "z" / "w").exists()
    assert (daemon.state / "workspaces" / "k" / "w").exists()


# Directories that may be opened


def opened(client, name):
    """Opens and closes a workspace. Returns the code of the refusal, or None."""
    try:
        client.call("workspace.open", {"workspace": name})
    except RpcError as error:
        return error.name
    client.call("workspace.close", {"workspace": name})
    return None


def existing(daemon, tenant):
    """Returns the number of existing workspaces, on which `tenants` and `metrics` must agree."""
    with daemon.control() as control:
        (row,) = [row for row in control.call("tenants")["tenants"] if row["tenant"] == tenant]
        line = f'\ncloister_tenant_workspaces_existing{{tenant="{tenant}"}} {row["workspaces_existing"]}\n'
        assert line in control.call("metrics")["text"]
    return row["workspaces_existing"]


def test_managed_workspaces_that_exist_are_bounded(start_daemon, tenants, area):
    """Every managed workspace on the disk counts, open or not."""
    config = config_of(tenants, f"admin_group = {area.account.gid}", workspaces_existing=3)
    daemon = start_daemon(config=config)
    a, b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    answers = [opened(a, f"w{i}") for i in range(20)]
    assert answers == [None] * 3 + ["QUOTA_EXCEEDED"] * 17
    top = daemon.state / "workspaces" / "a"
    assert sorted(path.name for path in top.iterdir()) == ["w0", "w1", "w2"]
    # An existing workspace opens, a new one is refused with what to do.
    assert [opened(a, f"w{i}") for i in range(3)] == [None] * 3
    assert opened(b, "w7") is None
    error = refused(a, "workspace.open", {"workspace": "w3"})
    assert "has 3 managed workspaces" in error.message and "workspace.remove" in error.message
    assert (existing(daemon, "a"), existing(daemon, "b")) == (3, 1)
    with daemon.control() as control:
        assert control.call("status")["workspaces_existing"] == 4
    assert "4 managed ones exist" in daemon.ctl("status").stdout.decode()
    # A workspace that is being removed counts until it is gone.
    a.call("workspace.open", {"workspace": "w0"})
    a.run("touch f")
    spawner = daemon.spawner()
    os.kill(spawner, signal.SIGSTOP)
    assert a.call("workspace.remove", {"workspace": "w0"}) == {}
    assert not (top / "w0").exists()
    with daemon.connect(tenants[0]) as other:
        assert opened(other, "w3") == "BUSY"
    os.kill(spawner, signal.SIGCONT)
    assert procfs.eventually(lambda: opened(a, "w3") is None)
    assert opened(a, "w4") == "QUOTA_EXCEEDED"
    # A reload raises the limit and keeps the count; the next start counts again.
    assert daemon.reload(config.replace("existing = 3", "existing = 4", 1))
    assert opened(a, "w4") is None and opened(a, "w5") == "QUOTA_EXCEEDED"
    assert daemon.stop() == 0
    daemon = start_daemon(config=config, state=daemon.state)
    a = daemon.connect(tenants[0])
    assert existing(daemon, "a") == 4
    assert opened(a, "w5") == "QUOTA_EXCEEDED" and opened(a, "w4") is None
    # cloisterd notices when an administrator removes a directory by rmdir(1).
    for name in ("w3", "w4"):
        os.rmdir(daemon.state / "workspaces" / "a" / name)
    assert procfs.eventually(lambda: opened(a, "w5") is None)


def test_openings_that_fail_make_no_more_than_others(start_daemon, tenants, area):
    """An opening that is answered BUSY may have made its directory. Such directories count too."""
    daemon = start_daemon(config=config_of(tenants, workspaces=1, workspaces_existing=4))
    a = daemon.connect(tenants[0])
    a.call("workspace.open", {"workspace": "held"})
    assert {opened(a, f"w{i}") for i in range(20)} == {"BUSY", "QUOTA_EXCEEDED"}
    assert len(list((daemon.state / "workspaces" / "a").iterdir())) == 4


def test_no_managed_workspaces_unless_said(start_daemon, tenants):
    daemon = start_daemon(config=config_of(tenants).replace("managed = yes", "managed = no"))
    client = daemon.connect(tenants[0])
    assert refused(client, "workspace.open", {"workspace": "w"}).name == "FORBIDDEN"
    assert client.call("workspace.list") == {"workspaces": []}
    assert not (daemon.state / "workspaces" / "a").exists()


def opens(client, path, kind="directory"):
    """Returns the root that was opened, or the code of the refusal."""
    try:
        return client.call("workspace.open", {"root": str(path), "kind": kind})["root"]
    except RpcError as error:
        return error.name


def test_only_what_lies_below_a_root_is_opened(start_daemon, area, tenants):
    top = make_directories(area, "in", "in/deep", "in/deep/down", "out", "out/deep", "inside")
    (top / "in" / "leads-out").symlink_to("../out")
    (top / "in" / "leads-up").symlink_to("..")
    (top / "in" / "proc").symlink_to("/proc/self/cwd")
    (top / "in" / "out-and-in").symlink_to("../in/deep")
    (top / "in" / "absolute").symlink_to(top / "in" / "deep")
    (top / "out" / "leads-in").symlink_to("../in/deep")
    daemon = start_daemon(config=config_of(tenants[:1], roots=top / "in"))
    client = daemon.connect(tenants[0])
    for path in ("in", "in/deep", "in/deep/down", "in/.", "in/deep/..", "in/deep/down/../.."):
        assert opens(client, f"{top}/{path}") == str((top / path).resolve())
    # Refused: a path through another directory, and a link that leads out, even if it leads back in.
    for path in ("out/../in/deep", "out/leads-in", "out/leads-in/..", "in/out-and-in", "in/absolute",
                 "", "out", "out/deep", "inside", "in/..", "in/deep/../../out", "in/leads-out",
                 "in/leads-out/deep", "in/leads-up", "in/leads-up/out", "out/leads-in/../..", "in/proc", "/", "/tmp"):
        assert opens(client, f"{top}/{path}") == "FORBIDDEN", path
        assert opens(client, f"{top}/{path}", "rootfs") == "FORBIDDEN", path


def test_what_there_is_outside_the_roots_is_not_told(start_daemon, area, tenants):
    top = make_directories(area, "in", "out", "out/deep")
    (top / "out" / "file").touch()
    (top / "out" / "link").symlink_to("nowhere")
    (top / "out" / "loop").symlink_to("loop")
    (top / "out" / "locked").mkdir(mode=0o700)
    daemon = start_daemon(config=config_of(tenants, roots=top / "in"))
    a, b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    b.call("workspace.open", {"workspace": "of-b"})
    paths = [top / "out" / name for name in ("", "deep", "file", "none", "none/none", "link", "loop", "locked/x", "x" * 300)]
    paths += [daemon.state / "workspaces" / name for name in ("", "b", "b/of-b", "b/none")]
    paths += [daemon.config, "/proc", "/", top / "in" / "none", top / "in" / ".." / "none"]
    told = set()
    for path in paths:
        error = refused(a, "workspace.open", {"root": str(path)})
        told.add((error.code, error.name, error.message))
    assert len(told) == 1 and told.pop()[1] == "FORBIDDEN"


def test_a_root_is_a_directory_and_not_its_name(start_daemon, area, tenants):
    top = make_directories(area, "root", "root/w", "other", "other/w")
    daemon = start_daemon(config=config_of(tenants[:1], roots=top / "root"))
    client = daemon.connect(tenants[0])
    (top / "root").rename(top / "renamed")
    assert opens(client, top / "renamed" / "w") == str(top / "renamed" / "w")
    # Another directory or a link that replaces the root is not the root.
    (top / "other").rename(top / "root")
    assert opens(client, top / "root") == opens(client, top / "root" / "w") == "FORBIDDEN"
    (top / "root").rename(top / "other")
    (top / "root").symlink_to("other")
    assert opens(client, top / "root" / "w") == "FORBIDDEN"
    # A directory that was moved out of it is no longer below it.
    (top / "renamed" / "w").rename(top / "w")
    assert opens(client, top / "w") == "FORBIDDEN"


def test_a_deleted_root_allows_nothing_that_takes_its_place(start_daemon, area, tenants):
    top = make_directories(area, "root")
    daemon = start_daemon(config=config_of(tenants[:1], roots=top / "root"))
    client = daemon.connect(tenants[0])
    (top / "root").rmdir()
    for number in range(50):  # one of these would reuse its inode number if that were free
        path = top / f"new{number}"
        path.mkdir()
        area.account.own(path)
        assert opens(client, path) == "FORBIDDEN"
    (top / "new0").rename(top / "root")
    assert opens(client, top / "root") == "FORBIDDEN"


# Limits and settings


@pytest.fixture
def limited(start_daemon, tenants):
    """Returns a function that starts a daemon whose tenant has these settings, and returns it and a client in a workspace."""
    def start(**settings):
        daemon = start_daemon(config=config_of(tenants[:1], **settings))
        client = daemon.connect(tenants[0])
        client.call("workspace.open", {"workspace": "w"})
        return daemon, client

    return start


def ended_after(error):
    """Returns the duration of a timed-out call in milliseconds, which is far below the default if the tenant's limit
    holds."""
    assert error["code"] == "TIMEOUT"
    return int(re.search(r"after (\d+) ms", error["message"])[1])


def test_the_deadline_of_a_command_that_names_none(limited):
    _, client = limited(command_timeout="200ms")
    assert ended_after(client.fail("run_command", command="sleep 600")) < 30000
    assert client.run("sleep 0.4; echo on", timeout_ms=60000)["stdout"] == "on\n"
    assert ended_after(client.fail("run_command", command="sleep 600", timeout_ms=None)) < 30000


def test_no_deadline_is_longer_than_the_longest(limited):
    _, client = limited(command_timeout_max="200ms")
    for arguments in ({}, {"timeout_ms": 3600000}):
        assert ended_after(client.fail("run_command", command="sleep 600", **arguments)) < 30000
    assert ended_after(client.fail("run_command", {"timeout_ms": 3600000}, command="sleep 600")) < 30000


def test_the_deadline_of_other_tools(limited):
    _, client = limited(file_timeout="1ms")
    # Much longer than cloisterd can be late on a busy machine: the answer that comes first counts.
    client.run("head -c 30000000 /dev/zero | tr '\\0' a > large; for i in $(seq 400); do ln large $i; done")
    assert ended_after(client.fail("search_files", pattern="(a|aa)+b")) < 30000


def test_how_much_output_is_kept_and_allowed(limited):
    _, client = limited(output_kept="4K", output_total="1M")
    output = client.run("head -c 100000 /dev/zero | tr '\\0' x")
    assert output["truncated"] and output["stdout_bytes"] == 100000
    assert 4096 <= len(output["stdout"]) < 4096 + 100
    error = client.fail("run_command", command="yes")
    assert error["code"] == "OUTPUT_LIMIT" and "1024 KiB" in error["message"]


def test_how_much_output_a_model_is_shown(limited):
    workspace, client = limited(output_shown="2K")
    # The first message after opening also says what holds in the workspace.
    client.call("tool.call", {"tool": "run_command", "arguments": {"command": "true"}, "options": {"reply": "message"}})
    command = {"tool": "run_command", "arguments": {"command": "seq 1 300000"}}
    shown = client.call("tool.call", {**command, "options": {"reply": "message"}})["content"]
    assert 700 < len(shown) < 2048 and "lines, 1,98" in shown
    assert len(client.run("seq 1 300000")["stdout"]) > 250 * 1024


def test_the_environment_goes_between_defaults_and_options(limited):
    _, client = limited(environment="OVER=tenant\n  PAGER=less\n  CONFIGURED=a b ; c")
    output = client.run('echo "$PAGER|$CONFIGURED|$OVER|$LANG"', {"env": {"OVER": "call", "MORE": "1"}})
    assert output["stdout"] == "less|a b ; c|call|C.UTF-8\n"
    # The tenant's variables do not count against the 256 that a call may set.
    env = {f"V{number}": "x" * 100 for number in range(256)}
    assert client.run("env | grep -c ^V", {"env": env})["stdout"] == "256\n"


def test_blocked_commands_are_the_tenants(start_daemon, tenants):
    text = config_of(tenants)
    text = text.replace("[tenant b]", "blocked_commands = ^git\\s+push\n  default\n[tenant b]\nblocked_commands = none")
    daemon = start_daemon(config=text)
    a, b = daemon.connect(tenants[0]), daemon.connect(tenants[1])
    for client in (a, b):
        client.call("workspace.open", {"workspace": "w"})
    error = a.fail("run_command", command="true && git push")
    assert error["code"] == "COMMAND_BLOCKED" and "number 1 of the tenant's own blocked_commands" in error["message"]
    assert a.fail("run_command", command="curl x")["code"] == "COMMAND_BLOCKED"
    assert b.run("git push; curl")["ended_by"] == "exit"


# Reload


def test_what_lock_down_fixes_is_not_reloaded(host):
    daemon, _, _ = host
    text = daemon.config.read_text()
    assert not daemon.reload(text.replace("0666", "0600"))
    assert "agent_socket_mode is fixed at start" in daemon.log()
    assert not daemon.reload(text.replace("[cloister]", "[cloister]\nstate_dir = /elsewhere"))
    assert daemon.reload(text)


def test_running_calls_keep_what_they_began_with(limited, tenants):
    daemon, client = limited(environment="WHO=old", output_total="1M")
    running = client.begin("run_command", {
        "command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo $WHO; head -c 300000 /dev/zero"})
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "begun"})["success"])
    assert daemon.reload(config_of(tenants[:1], environment="WHO=new", output_total="64K",
                                   command_timeout="100ms", blocked_commands="^true$"))
    assert client.fail("run_command", command="true")["code"] == "COMMAND_BLOCKED"
    assert client.fail("run_command", command="sleep 600")["code"] == "TIMEOUT"
    assert client.run("echo $WHO", timeout_ms=60000)["stdout"] == "new\n"
    assert client.fail("run_command", command="head -c 300000 /dev/zero; sleep 600",
                       timeout_ms=60000)["code"] == "OUTPUT_LIMIT"
    client.use("write_file", path="go", content="")
    output = client.result(running)["output"]
    assert output["ended_by"] == "exit" and output["stdout"].startswith("old\n")
    assert output["stdout_bytes"] == 300004


def test_who_is_no_longer_named_is_out_but_its_call_is_answered(host, tenants):
    daemon, a, b = host
    a.call("workspace.open", {"workspace": "w"})
    running = a.begin("run_command", {"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo done"})
    assert procfs.eventually((daemon.state / "workspaces" / "a" / "w" / "begun").exists)
    text = daemon.config.read_text()
    assert daemon.reload(text.replace(f"users = {tenants[0].name}\n", f"users = {tenants[2].name}\n"))
    number = a.request("workspace.list")
    assert a.wait(number)["error"]["data"]["code"] == "FORBIDDEN"
    a.send_raw(b'{"jsonrpc":"2.0","id":"late","method":"tools.list"}\n')
    # The tenant's new user sees the workspace.
    c = daemon.connect(tenants[2])
    c.call("workspace.open", {"workspace": "w"})
    c.use("write_file", path="go", content="")
    assert a.result(running)["output"]["stdout"] == "done\n"
    with pytest.raises(ConnectionResetError):  # cloisterd did not read the request "late"
        a.receive()
    assert b.call("workspace.list") == {"workspaces": []}


def test_a_root_that_is_no_longer_named_is_closed(start_daemon, area, tenants):
    top = make_directories(area, "one", "two")
    daemon = start_daemon(config=config_of(tenants[:1], roots=f"{top}/one\n {top}/two"))
    client = daemon.connect(tenants[0])
    for name in ("two", "one"):
        client.call("workspace.open", {"root": str(top / name)})
    assert daemon.reload(config_of(tenants[:1], roots=top / "two"))
    with pytest.raises(RpcError) as caught:
        client.run("true")
    assert caught.value.name == "WORKSPACE_NOT_FOUND"
    assert opens(client, top / "one") == "FORBIDDEN"
    assert client.observe("run_command", {"command": "true"}, workspace=str(top / "two"))["success"]


def test_a_tenant_that_is_gone_and_comes_again(host, tenants):
    daemon, a, _ = host
    text = daemon.config.read_text()
    a.call("workspace.open", {"workspace": "w"})
    assert daemon.reload(config_of(tenants).replace("[tenant a]", "[tenant other]"))
    assert refused(a, "tool.call", {"tool": "run_command", "arguments": {"command": "true"}}).name == "WORKSPACE_NOT_FOUND"
    assert a.call("workspace.list") == {"workspaces": []}
    assert daemon.reload(text)
    a.call("workspace.open", {"workspace": "w"})
    assert a.run("echo on")["stdout"] == "on\n"
    for _ in range(3):
        assert daemon.reload(config_of(tenants).replace("[tenant a]", "[tenant other]"))
        assert daemon.reload(text)
    assert a.call("workspace.open", {"workspace": "w"})["tenant"] == "a"


def test_a_user_made_since_the_start_is_found(host, tenants):
    """cloisterd finds a user that was made after its start, although its system call filter then forbids asking an NSS
    service."""
    daemon, _, _ = host
    late = Account("late")
    try:
        assert daemon.reload(daemon.config.read_text() + f"[tenant late]\nusers = {late.name}\ngroups = {late.name}\n")
        with daemon.connect(late) as client:
            assert client.call("workspace.list") == {"workspaces": []}
    finally:
        late.remove()
    # A deleted user is unknown: its id may be given to another user.
    assert not daemon.reload(daemon.config.read_text() + "[cloister]\n")
    assert f'there is no user "{late.name}"' in daemon.log()


def test_reloads_leak_nothing(start_daemon, area, tenants):
    text = config_of(tenants, f"admin_group = {area.account.gid}")
    daemon = start_daemon(config=text)
    a = daemon.connect(tenants[0])
    a.call("workspace.open", {"workspace": "w"})
    assert procfs.eventually(lambda: daemon.spares_ready() == 2)
    assert daemon.reload(text) and not daemon.reload("x")
    a.run("true")
    before = daemon.settled_fds()
    for _ in range(20):
        assert daemon.reload(text) and not daemon.reload("x")
        assert a.run("echo on")["stdout"] == "on\n"
    assert procfs.eventually(lambda: daemon.settled_fds() <= before)


def test_without_a_configuration_a_hang_up_ends_it(own_daemon):
    own_daemon.process.send_signal(1)
    assert own_daemon.process.wait(120) == -1
