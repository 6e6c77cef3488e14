# SPDX-License-Identifier: Apache-2.0
"""`cloisterctl drain --moved-to`: a host whose work goes on at another one sends clients there, and they follow."""

import subprocess
import sys

import pytest

import procfs
from daemon import ROOT
from hostile_server import HostileServer, answer, line, requests
from test_python_client import connect  # noqa: F401  (a fixture: both clients, one after the other)

sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))

import cloister  # noqa: E402  (it is only now on the path)

pytestmark = pytest.mark.usefixtures("as_user")
CONFIG = """[cloister]
admin_group = {group}
journal = fast
[tenant t]
users = {user}
managed = yes
"""


@pytest.fixture
def hosts(start_daemon, area):
    """Two cloisterds with managed workspaces of one tenant: those of the hosts a and b."""
    config = CONFIG.format(user=area.account.name, group=area.account.gid)
    return [start_daemon(config=config, system=False) for _ in range(2)]


def drain(host, node="b"):
    return says(host, "drain", f"--moved-to={node}")


def says(host, *words):
    done = host.ctl(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def refusal(client, method, params):
    """The data of an error."""
    return client.wait(client.request(method, params))["error"]["data"]


def call(command):
    return {"tool": "run_command", "arguments": {"command": command}}


def copy(source, target, name):
    """Moves a workspace's files as their user does."""
    made = source.area.run("cloister", "--socket", str(source.socket), "--workspace", name, "export")
    assert made.returncode == 0, made.stderr
    with target.area.start(["cloister", "--socket", str(target.socket), "--workspace", name, "import"],
                           stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, said = process.communicate(made.stdout, 120)
    assert process.returncode == 0, said


def test_it_is_told(hosts):
    client = hosts[0].connect()
    client.call("workspace.open", {"workspace": "w"})
    assert drain(hosts[0]) == "work moves to b; 0 calls are in flight\n"
    with hosts[0].control() as control:
        status = control.call("status")
        assert (status["state"], status["moved_to"]) == ("draining", "b")
        assert control.call("drain", {"moved_to": "c"}) == {"draining": True, "moved_to": "c", "calls": 0}
        for wrong in ("", "a b", "a\n", "é", '"', "x" * 254, "a\\b"):
            answer = control.wait(control.request("drain", {"moved_to": wrong}))["error"]
            assert "moved_to must be" in answer["message"], answer
    moved = {"code": "MOVED", "node": "c", "exists": True}
    assert refusal(client, "tool.call", call("true")) == moved
    assert refusal(client, "tool.call", {**call("true"), "options": {"reply": "message"}}) == moved
    assert refusal(client, "session.start", {"command": "true"}) == moved
    assert refusal(client, "workspace.open", {"workspace": "w"}) == moved
    assert refusal(client, "workspace.open", {"workspace": "new"}) == {**moved, "exists": False}
    # What was refused was not made.
    assert [row["workspace"] for row in client.call("workspace.list")["workspaces"]] == ["w"]
    assert says(hosts[0], "status").count("moves to     c") == 1
    # A drain without a name, and a resume, end it.
    assert hosts[0].ctl("drain").returncode == 0
    assert client.fail("run_command", command="true")["code"] == "SHUTTING_DOWN"
    assert hosts[0].ctl("resume").returncode == 0
    assert client.run("echo again")["stdout"] == "again\n"
    drain(hosts[0])
    assert refusal(client, "tool.call", call("true"))["node"] == "b"


def test_mcp_is_told_in_the_observation(hosts):
    client = hosts[0].connect()
    client.call("workspace.open", {"workspace": "w"})
    drain(hosts[0])
    version = "2026-07-28"
    result = client.call("tools/call", {
        "name": "run_command", "arguments": {"command": "true"},
        "_meta": {"io.modelcontextprotocol/protocolVersion": version,
                  "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                  "io.modelcontextprotocol/clientCapabilities": {}}})
    assert result["isError"] and result["structuredContent"]["error"]["node"] == "b"
    assert "MOVED" in result["content"][0]["text"] and '"b"' in result["content"][0]["text"]


def test_a_workspace_goes_on_until_it_has_no_call(hosts):
    client, other = hosts[0].connect(), hosts[0].connect()
    client.call("workspace.open", {"workspace": "w"})
    running = client.begin("run_command", {"command": "until [ -e go ]; do sleep 0.05; done; echo went"})
    assert procfs.eventually(lambda: "running" in says(hosts[0], "commands"))
    assert drain(hosts[0]) == "work moves to b; 1 calls are in flight\n"
    # Calls of the same turn begin, also on a connection that opens the workspace only now.
    other.call("workspace.open", {"workspace": "w"})
    # Who moves it waits for the call.
    mover = hosts[0].connect()
    assert refusal(mover, "workspace.open", {"workspace": "w", "moving": True})["code"] == "BUSY"
    assert other.run("echo beside")["stdout"] == "beside\n"
    other.use("write_file", path="go", content="")
    assert client.result(running)["output"]["stdout"] == "went\n"
    assert refusal(other, "tool.call", call("true"))["code"] == "MOVED"
    # Once it has stood still, the calls of those who move it let nobody else in.
    mover.call("workspace.open", {"workspace": "w", "moving": True})
    held = mover.begin("run_command", {"command": "until [ -e end ]; do sleep 0.05; done"})
    assert procfs.eventually(lambda: "running" in says(hosts[0], "commands"))
    assert refusal(client, "tool.call", call("true"))["code"] == "MOVED"
    mover.use("write_file", path="end", content="")
    assert mover.result(held)["success"]


def test_a_session_keeps_its_workspace(hosts):
    client = hosts[0].connect()
    client.call("workspace.open", {"workspace": "w"})
    session = client.call("session.start", {"command": "sleep 600"})["session"]
    drain(hosts[0])
    assert client.run("echo beside")["stdout"] == "beside\n"
    client.call("session.end", {"session": session})
    assert procfs.eventually(lambda: "error" in client.wait(client.request("tool.call", call("true"))))
    assert refusal(client, "tool.call", call("true"))["code"] == "MOVED"


def test_a_directory_moves_too(hosts):
    directory = hosts[0].new_directory()
    config = hosts[0].config.read_text() + f"roots = {directory}\n"
    hosts[0].reload(config)
    client = hosts[0].connect()
    client.call("workspace.open", {"root": str(directory)})
    drain(hosts[0])
    moved = {"code": "MOVED", "node": "b", "exists": True}
    assert refusal(client, "tool.call", call("true")) == moved
    assert refusal(hosts[0].connect(), "workspace.open", {"root": str(directory)}) == moved


def nodes_of(hosts):
    return {"a": str(hosts[0].socket), "b": str(hosts[1].socket)}


def test_a_client_follows(hosts, connect):  # noqa: F811
    client = connect(hosts[0].socket, nodes=nodes_of(hosts))
    client.workspace("w")
    client.run_command("echo kept >f")
    drain(hosts[0])
    # The files are not at the other host yet: an empty workspace there would be a lie.
    with pytest.raises(cloister.Moved) as caught:
        client.run_command("cat f")
    assert caught.value.node == "b" and isinstance(caught.value.__cause__, cloister.WorkspaceNotFound)
    with hosts[1].connect() as other:
        assert not other.call("workspace.list")["workspaces"]
    copy(*hosts, "w")
    assert client.run_command("cat f")["stdout"] == "kept\n"
    assert client.run_command("echo more >>f; cat f")["stdout"] == "kept\nmore\n"  # it stays there
    # A new workspace is made there.
    client.workspace("new")
    with hosts[1].connect() as other:
        assert sorted(row["workspace"] for row in other.call("workspace.list")["workspaces"]) == ["new", "w"]
    # A client that begins now finds the way too.
    late = connect(hosts[0].socket, nodes=nodes_of(hosts))
    late.workspace("w")
    assert late.run_command("cat f")["stdout"] == "kept\nmore\n"
    # And back, where its old state is: nothing was removed there.
    assert hosts[0].ctl("resume").returncode == 0
    drain(hosts[1], "a")
    assert late.run_command("cat f")["stdout"] == "kept\n"


def test_a_model_s_call_follows(hosts, connect):  # noqa: F811
    client = connect(hosts[0].socket, nodes=nodes_of(hosts))
    client.workspace("w")
    drain(hosts[0])
    copy(*hosts, "w")
    answer = client.answer({"function": {"name": "run_command", "arguments": {"command": "echo there"}}})
    assert "there" in answer["content"]


def test_a_client_that_knows_no_way_is_told(hosts, connect):  # noqa: F811
    for nodes in (None, {"c": str(hosts[1].socket)}):
        client = connect(hosts[0].socket, nodes=nodes)
        client.workspace("w")
        drain(hosts[0])
        with pytest.raises(cloister.Moved) as caught:
            client.run_command("true")
        assert caught.value.node == "b" and caught.value.exists and caught.value.json_error == -32000
        assert hosts[0].ctl("resume").returncode == 0
        assert client.run_command("echo here")["stdout"] == "here\n"


def test_hosts_that_send_clients_round(hosts, connect):  # noqa: F811
    client = connect(hosts[0].socket, nodes=nodes_of(hosts))
    client.workspace("w")
    drain(hosts[0], "b")
    copy(*hosts, "w")
    drain(hosts[1], "a")
    with pytest.raises(cloister.Moved):
        client.run_command("true")


def test_a_workspace_with_a_call_is_not_left(hosts, connect):  # noqa: F811
    client = connect(hosts[0].socket, nodes=nodes_of(hosts))
    client.workspace("w")
    begun = client.start_call("run_command", {"command": "until [ -e go ]; do sleep 0.05; done"}, stream=False)
    assert procfs.eventually(lambda: "running" in says(hosts[0], "commands"))
    drain(hosts[0])
    assert client.run_command("echo here")["stdout"] == "here\n"
    client.write_file("go", "")
    assert begun.wait()["success"]
    copy(*hosts, "w")
    assert client.run_command("ls")["stdout"] == "go\n"
    with hosts[1].connect() as other:
        assert other.call("workspace.list")["workspaces"][0]["open"]


@pytest.mark.parametrize("own", [True, False])
def test_a_call_that_may_have_run_is_not_repeated_elsewhere(hosts, connect, area, own):  # noqa: F811
    """Its connection is lost, and then the workspace has moved: the other host does not know its key."""
    def serve(_, connection, number):
        for request in requests(connection):
            if request["method"] == "workspace.open" and number == 1:
                connection.sendall(answer(request["id"], {
                    "workspace": "w", "kind": "managed", "root": "/workspace", "tenant": "t", "key_horizon_ms": 60000}))
            elif request["method"] == "workspace.open":
                connection.sendall(line({"jsonrpc": "2.0", "id": request["id"], "error": {
                    "code": -32000, "message": "moved", "data": {"code": "MOVED", "node": "b", "exists": True}}}))
            else:
                return
    with hosts[1].connect() as other:
        other.call("workspace.open", {"workspace": "w"})
    server = HostileServer(area.new_directory("lost") / "agent.sock", serve)
    client = connect(server.path, nodes=nodes_of(hosts))
    client.workspace("w")
    options = None if own else {"key": "mine"}
    with pytest.raises(cloister.ConnectionLost, match="may have run"):
        client.call("run_command", {"command": "echo twice >>f"}, options=options)
    assert server.connections == 2
    with hosts[1].connect() as other:
        other.call("workspace.open", {"workspace": "w"})
        assert other.use("list_directory", path=".")["entries"] == []
    server.close()


def test_the_command_says_where(hosts, area):
    drain(hosts[0])
    done = area.run("cloister", "--socket", str(hosts[0].socket), "--workspace", "w", "--create", "exec", "--", "true")
    assert done.returncode == 125
    assert done.stderr.decode() == 'cloister: The work of this host goes on at "b"; open the workspace there (MOVED)\n'
