# SPDX-License-Identifier: Apache-2.0
"""A tenant asks for large answers and reads none of them: cloisterd's memory stays within its bound, and another
tenant is served meanwhile."""

import contextlib
import os

import pytest

import daemon as daemons
import procfs

ADMIN = 64321
# In addition to the configuration's bound: AddressSanitizer keeps freed memory and adds red zones.
SANITIZER = 3 if daemons.is_sanitized() else 1
ENTRIES = 4000

needs_users = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and act as them")
pytestmark = [needs_users, pytest.mark.deep("busy")]


@pytest.fixture
def served(start_daemon, tenants):
    """A daemon with two clients of tenant a, the attacker, and one of tenant b, each with an open workspace."""
    config = f"[cloister]\nagent_socket_mode = 0666\nadmin_group = {ADMIN}\n"
    for name, user in zip("ab", tenants):
        config += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\nroots = /tmp\n"
    daemon = start_daemon(config=config)
    neighbour = daemon.connect(tenants[1])
    neighbour.call("workspace.open", {"workspace": "b"})
    daemon.attacker = tenants[0]
    daemon.neighbour = neighbour
    return daemon


def bound(daemon):
    with daemon.control(groups=[ADMIN]) as control:
        return control.call("status")["memory_bound"]


def check_memory(daemon):
    """cloisterd's peak memory is within the bound of `status`, and that bound fits a small machine."""
    status = procfs.status(daemon.pid)
    assert int(status["VmHWM"].split()[0]) * 1024 <= bound(daemon) * SANITIZER, (status["VmHWM"], bound(daemon))
    # The budget of answers, and the overhead of malloc(3) and evbuffers.
    assert int(status["RssAnon"].split()[0]) <= (72 + 24) * 1024 * SANITIZER, status["RssAnon"]


def attack(daemon, workspace="a"):
    client = daemon.connect(daemon.attacker)
    client.call("workspace.open", {"workspace": workspace})
    return client


def metrics(daemon):
    with daemon.control(groups=[ADMIN]) as control:
        lines = control.call("metrics")["text"].splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def settle(daemon, clients):
    """Waits until the attack makes no progress any more, while b is served."""
    seen = []

    def same():
        assert daemon.neighbour.run("echo served")["stdout"] == "served\n"
        check_memory(daemon)
        now = metrics(daemon)
        seen.append((now['cloister_tenant_calls_ended_total{tenant="a"}'],
                     now['cloister_calls_in_flight{state="running"}'],
                     int(procfs.status(daemon.pid)["RssAnon"].split()[0]) >> 12))
        return seen[-3:] == [seen[-1]] * 3
    assert procfs.eventually(same, 120, 0.5), seen
    assert metrics(daemon).get("cloister_unread_bytes", 0) <= 72 << 20
    check_memory(daemon)
    for client in clients:
        client.close()
    assert procfs.eventually(lambda: metrics(daemon).get("cloister_unread_bytes", 0) < 1 << 20, 60)


def make_listing(client):
    """Makes a directory with a large listing, of names that JSON escapes."""
    client.run("mkdir -p long && cd long && n=$(printf '\\001%.0s' $(seq 240)) && "
               f"for i in $(seq {ENTRIES}); do echo \"$n$i\"; done | xargs touch --")


def ask(client, n, tool, options=None, **arguments):
    """Sends this many calls, or as many as fit the socket while cloisterd does not read it."""
    client.socket.settimeout(1)
    with contextlib.suppress(TimeoutError):
        for _ in range(n):
            client.begin(tool, arguments, options)


@pytest.mark.parametrize("options", [None, {"reply": "message"}])
@pytest.mark.parametrize("recursive", [False, True])
def test_listings_that_nobody_reads(served, options, recursive):
    clients = [attack(served)]
    make_listing(clients[0])
    clients += [attack(served) for _ in range(3)]
    for client in clients:
        ask(client, 120, "list_directory", options, path="long", recursive=recursive)
    settle(served, clients)


def test_files_that_nobody_reads(served):
    clients = [attack(served)]
    clients[0].run("tr '\\000' '\\001' </dev/zero | head -c 1000000 >big")
    clients += [attack(served) for _ in range(3)]
    for client in clients:
        ask(client, 200, "read_file", path="big")
    settle(served, clients)


@pytest.mark.parametrize("options", [None, {"stream": True}, {"reply": "message"}])
def test_outputs_that_nobody_reads(served, options):
    clients = [attack(served, f"a{i}") for i in range(8)]
    for client in clients:
        ask(client, 100, "run_command", options,
            command="tr '\\000' '\\001' </dev/zero | head -c 2000000", timeout_ms=20000)
    settle(served, clients)


def test_errors_that_nobody_reads(served):
    """Requests that are answered at once: tools.list, errors, refusals, pings."""
    clients = [attack(served) for _ in range(20)]
    lines = (b'{"jsonrpc":"2.0","id":1,"method":"tools.list"}\n', b'{"jsonrpc":"2.0","id":1,"method":"nothing"}\n',
             b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\n', b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    for client in clients:
        client.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                client.socket.send(b"".join(lines) * 100)
    settle(served, clients)


def is_stalled(client):
    """cloisterd leaves its next request unread, because its tenant has used up its budget."""
    try:
        client.call("workspace.list", timeout=1)
    except TimeoutError:
        return True
    return False


def test_who_hangs_up_while_it_is_not_read(served):
    """Its calls are cancelled at once, not only when the tenant's other clients free some budget."""
    victim = attack(served)
    victim.begin("run_command", {"command": "echo yes >begun; sleep 1000", "timeout_ms": 600000})
    watcher = attack(served)
    assert procfs.eventually(lambda: watcher.observe("read_file", {"path": "begun"})["success"])
    make_listing(watcher)
    hogs = []
    while not is_stalled(victim):
        hogs.append(attack(served, "b"))
        hogs[-1].socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                hogs[-1].socket.send(b'{"jsonrpc":"2.0","id":1,"method":"tools.list"}\n' * 1000)
    with served.control(groups=[ADMIN]) as control:
        assert len(control.call("commands")["calls"]) == 1
        victim.close()
        assert procfs.eventually(lambda: not control.call("commands")["calls"], 20)
    for client in hogs:
        client.close()


def test_large_commands_that_nobody_reads(served):
    """An observation repeats its command: those of 320 commands are nearly twice the budget."""
    clients = [attack(served, f"a{i}") for i in range(8)]
    for client in clients:
        client.socket.settimeout(3)
        with contextlib.suppress(TimeoutError):
            ask(client, 40, "run_command", command="true " + "\x01" * 100000, timeout_ms=10000)
    assert procfs.eventually(lambda: metrics(served)["cloister_unread_bytes"] > 32 << 20)
    settle(served, clients)


def test_who_reads_is_answered_whole(served):
    """A client that asks for much and reads slowly gets every answer. Answers without room are errors that say so."""
    client = attack(served)
    make_listing(client)
    ask(client, 40, "list_directory", path="long")
    assert procfs.eventually(lambda: metrics(served)["cloister_unread_bytes"] > 4 << 20)
    answers = [client.receive_any()["result"] for _ in range(40)]
    for answer in answers:
        if answer["success"]:
            assert answer["output"]["count"] == ENTRIES and not answer["output"]["truncated"]
        else:
            assert answer["error"]["code"] == "BUSY" and "have not been read" in answer["error"]["message"]
            assert answer["error"]["retry_after_ms"] >= 50
    busy = sum(not answer["success"] for answer in answers)
    assert metrics(served)['cloister_refused_total{limit="unread_answers"}'] == busy
    # No process of the command is left.
    assert client.use("list_directory", path="long")["count"] == ENTRIES


def test_output_that_finds_no_room_is_cut(served):
    """The observation of a command whose output found no room says how much is left out."""
    hog = attack(served)
    make_listing(hog)
    others = [attack(served) for _ in range(6)]
    for client in others:
        ask(client, 30, "list_directory", path="long")
    assert procfs.eventually(lambda: metrics(served)["cloister_unread_bytes"] > 24 << 20, 60)
    output = hog.run("head -c 200000 /dev/zero | tr '\\000' x")
    assert output["exit_code"] == 0 and output["stdout_bytes"] == 200000
    assert not output["truncated"] or "bytes left out" in output["stdout"]
    for client in others:
        client.close()


def test_the_bound_follows_the_configuration(start_daemon, tenants):
    def bound_of(host, **settings):
        lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
        return bound(start_daemon(config=f"[cloister]\nadmin_group = {ADMIN}\n{host}"
                                         f"[tenant a]\nusers = {tenants[0].name}\nmanaged = yes\n{lines}"))
    least = bound_of("")
    assert 192 << 20 < least < 336 << 20
    # Output that is kept, 32 sessions that run, and as many more that have ended.
    assert bound_of("", sessions=0) == least - (64 << 20) - 32 * 136 * 1024 - 64 * 96 * 1024
    assert bound_of("connections = 1024\n") == least + 512 * (2 * (12 + 4) + 8) * 1024
    assert bound_of("commands = 512\n") == least + 256 * 8 * 1024
    assert bound_of("audit = on\n") == least + (8 << 20)
    assert bound_of("", workspaces=24) == least - 1000 * 4096
