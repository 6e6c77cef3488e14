# SPDX-License-Identifier: Apache-2.0
"""Workspaces with network = egress and the real cloister-egress. Names and hosts are the test's."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess

import egress
import procfs
import pytest
from cloister_client import acting_as
from daemon import Account
from egress_place import egress_filter, mode, network_metrics, place, web

RULES = """egress_allow = open.test:* @npm
egress_deny = closed.open.test
egress_private = 127.0.0.0/8"""


def real_config(area, names, host=""):
    return egress.service_config(area, names, RULES, host=host)


@pytest.fixture(scope="module")
def names():
    server = egress.Names(dict.fromkeys(("open.test", "closed.open.test", "other.test"), ["127.0.0.1"]))
    yield server
    server.close()


@pytest.fixture
def egress_users():
    """A user for a cloister-egress of its own."""
    made = Account("e")
    yield made
    made.remove()


@pytest.fixture
def real(start_daemon, area, names, mode, request):
    """A cloisterd and what it has started, or what has connected to it."""
    if mode == "user":
        yield start_daemon(config=real_config(area, names), system=False)
        return
    system = egress.Service(start_daemon, area, real_config(area, names, "{host}"), request.getfixturevalue("egress_users"))
    yield system.daemon
    system.stop()


def observe(client, command, **keywords):
    return client.observe("run_command", {"command": command}, **keywords)


def test_real_hosts(real, web):
    with real.connect() as client:
        answer = client.call("workspace.open", {"workspace": "one"})
        assert answer["isolation"]["network"] == {"egress": ["open.test:*", "@npm"]}
        for ask in (f"curl -sS http://open.test:{web.port}/", f"curl -sSp http://open.test:{web.port}/",
                    f"curl -sS --proxy \"socks5h://${{ALL_PROXY#*://}}\" http://open.test:{web.port}/"):
            observation = observe(client, ask)
            assert observation["output"]["stdout"] == "from the host", observation
            network = observation["network"]
            assert network["connections"] == 1 and network["denied"] == [] and network["bytes_in"] > 13


@pytest.mark.parametrize("host, reason", [("other.test", "not_allowed"), ("closed.open.test", "denied"),
                                          ("nowhere.open.test", "not_allowed"), ("10.0.0.1", "not_allowed")])
def test_real_refusals(real, web, host, reason):
    before = web.connections
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        for ask, via in ((f"curl -sS http://{host}:{web.port}/ | grep -q 'from the host'", "http"),
                         (f"curl -sSp http://{host}:{web.port}/", "connect"),
                         (f"curl -sS --proxy \"socks5h://${{ALL_PROXY#*://}}\" http://{host}:{web.port}/", "socks")):
            observation = observe(client, ask)
            assert observation["output"]["exit_code"] != 0
            assert observation["network"]["denied"] == [
                {"host": host, "port": web.port, "reason": reason, "count": 1, "via": via}], observation
            assert (f"{host}:{web.port} is denied in this workspace" if reason == "denied" else
                    f"{host}:{web.port} is not allowed in this workspace; allowed are: open.test:* @npm") in observation["notes"]
    assert web.connections == before


@pytest.mark.deep("slow")
def test_the_workspaces_own_servers_need_no_proxy(real):
    """However they are named. pip looks at a proxy of its own for all hosts, and has none. A program that asks the proxy for one is told what to do."""
    server = "(cd $(mktemp -d) && mkdir -p simple/p && echo mine > f && exec python3 /workspace/serve > /dev/null 2>&1) &"
    ready = "until curl -s --noproxy '*' http://127.0.0.1:8123/f > /dev/null; do sleep 0.05; done"
    with real.connect() as client:
        client.call("workspace.open", {"workspace": "one"})
        client.use("write_file", path="serve", content="import http.server as s, socket\n"
                   "s.HTTPServer.address_family = socket.AF_INET6\ns.HTTPServer(('::', 8123), s.SimpleHTTPRequestHandler).serve_forever()\n")
        hosts = ("localhost", "127.0.0.1", "127.0.0.5", "0.0.0.0", "[::1]")
        ask = f"{server} {ready}; for host in {' '.join(hosts)}; do curl -gsS http://$host:8123/f; done; python3 -c \"\n" \
              "import urllib.request as r\nfor host in ('localhost', '127.0.0.1', '0.0.0.0'): print(r.urlopen(f'http://{host}:8123/f').read())\"" \
              "; env | grep PIP"
        observation = observe(client, ask)
        assert observation["success"], observation
        assert observation["output"]["stdout"] == "mine\n" * 5 + "b'mine\\n'\n" * 3, observation
        assert observation["network"]["connections"] == 0 and observation["network"]["denied"] == []
        for host in ("localhost", "127.0.0.1"):
            observation = observe(client, f"curl -sS --noproxy '' http://{host}:8123/f; exit 1")
            assert "Connect to it without the proxy" in observation["output"]["stdout"]
            assert f"{host}:8123 is this workspace itself" in observation["notes"][0]


@pytest.mark.parametrize("mode", ["user"], indirect=True)
def test_real_client_that_wants_a_password(real):
    """A client of SOCKS5 that goes on with a user and a password only is refused as the standard says, and the model is told why."""
    ask = "p=${http_proxy#http://}; exec 3<>/dev/tcp/${p%:*}/${p#*:}; printf '\\5\\1\\2' >&3; cat <&3 | od -An -tx1; exit 3"
    with real.connect() as client, real.control() as control:
        client.call("workspace.open", {"workspace": "one"})
        observation = observe(client, "exec bash -c " + shlex.quote(ask))
        assert (observation["output"]["stdout"].split(), observation["output"]["exit_code"]) == (["05", "ff"], 3)
        refused = {"host": "", "port": 0, "reason": "bad_request", "via": "socks"}
        assert observation["network"]["denied"] == [{**refused, "count": 1}]
        assert observation["notes"] == ["A request to the proxy was not connected: of SOCKS5 only CONNECT is served, to a name in "
                                        "ASCII or an address, and without a user and a password"]
        (denial,) = control.call("denials")["denials"]
        assert {**refused, "host": None}.items() <= denial.items()
    assert network_metrics(real)['denied_total{tenant="net",reason="bad_request"}'] == 1


@pytest.mark.deep("slow")
def test_real_self_test(real):
    """What the canary may not reach is refused, and nothing of it is told as anybody's."""
    with real.control() as control:
        for _ in range(2):
            report = control.call("selftest")
            assert [probe for probe in report["probes"] if probe["result"] == "failed"] == []
            rows = [probe["answer"] for probe in report["probes"] if probe["row"].startswith("egress-")]
            assert rows == ["refused"] * 17
        assert control.call("denials")["denials"] == []
    assert [row["present"] for row in egress_filter(real)] == [True]


@pytest.mark.parametrize("mode", ["user"], indirect=True)
def test_real_directory_with_a_long_path(real, web):
    """A directory is called by its path. One that is longer than any name ends nobody's network."""
    with real.connect() as other, real.connect() as client:
        other.call("workspace.open", {"workspace": "one"})
        deep = real.area.new_directory() / ("d" * 200) / ("e" * 200)
        with acting_as(os.getuid()):
            deep.mkdir(parents=True)
        (real.account.give_away if real.system else real.account.own)(deep)
        client.call("workspace.open", {"root": str(deep), "tenant": "net"})
        for each in (client, other):
            assert observe(each, f"curl -sS http://open.test:{web.port}/")["output"]["stdout"] == "from the host"


# A reason, what must be so for it, the command, and how the sentence about it begins. "@" is a port at which nobody listens.
REASONS = [
    ("not_allowed", "curl -sS https://no.test/", "no.test:443 is not allowed in this workspace; allowed are: open.test:*"),
    ("denied", "curl -sSf http://closed.open.test/", "closed.open.test:80 is denied in this workspace"),
    ("port", "curl -sSf http://one.test:81/", "one.test:81 is not allowed in this workspace: the host is, but not this port; allowed are:"),
    ("private_address", "curl -sSf http://ten.test/", "ten.test:80 is not allowed in this workspace: its address is not one of"),
    ("sni_mismatch", "exec env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy curl -sSk https://127.1.0.1/",
     "A connection to port 443 was not made: the program named no host in TLS"),
    ("dns_failed", "curl -sSf http://nowhere.test/", "nowhere.test:80 was not connected: the name has no address"),
    ("upstream_failed", "curl -sSf http://open.test:@/", "open.test:@ did not accept the connection"),
    ("bad_request", "curl -sSf --noproxy '*' $http_proxy/", "/:0 was not connected: the program did not ask as"),
    ("unknown_secret", "curl -sSf http://none.cloister.internal/", "none.cloister.internal stands for no secret of this workspace; there are: none"),
    ("limit", "curl -sS http://open.test:@web/; curl -sSf http://open.test:@web/", "open.test:@web was not connected: a limit of the network"),
    ("proxy_lost", "touch waits; curl -sS -T - http://open.test:@waiting/ </dev/zero", "The network was interrupted while the command ran"),
]


def test_every_reason(start_daemon, area, names, web):
    """Each is in the observation of its own command, in its sentence, in denials, metrics and the audit log."""
    waiting = egress.Host(egress.read_all)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        ports = {"@waiting": waiting.port, "@web": web.port, "@": unused.getsockname()[1]}
    config = real_config(area, names, "audit = on").replace("@npm", "one.test ten.test nowhere.test\negress_bytes_out = 60")
    names.answers["ten.test"] = ["10.1.2.3"]
    daemon = start_daemon(config=config, system=False)
    with daemon.connect() as client, daemon.control() as control:
        client.call("workspace.open", {"workspace": "one"})

        def filled(text):
            for name, port in ports.items():
                text = text.replace(name, str(port))
            return text

        for reason, command, sentence in REASONS:
            if reason == "proxy_lost":
                daemon.reload(config.replace("egress_bytes_out = 60", ""))
            number = client.begin("run_command", {"command": filled(command), "timeout_ms": 120000})
            if reason == "proxy_lost":
                assert procfs.eventually(lambda: waiting.connections == 1)
                kept = network_metrics(daemon), control.call("denials")["denials"]
                with acting_as(os.getuid()):
                    (program,) = [pid for pid in procfs.children(daemon.pid) if procfs.name(pid) == "cloister-egress"]
                    os.kill(program, signal.SIGKILL)
            observation = client.result(number)
            assert observation["output"]["exit_code"] != 0
            assert [(refused["reason"], refused["count"]) for refused in observation["network"]["denied"]] == [(reason, 1)], observation
            assert len(observation["notes"]) == 1 and observation["notes"][0].startswith(filled(sentence)), observation
        reasons = [reason for reason, *_ in REASONS]
        metrics, denials = kept
        assert [metrics[f'denied_total{{tenant="net",reason="{reason}"}}'] for reason in reasons] == [1] * (len(reasons) - 1) + [0]
        assert network_metrics(daemon)['denied_total{tenant="net",reason="proxy_lost"}'] == 1
        assert [denial["reason"] for denial in denials] == reasons[:-1]
    assert daemon.stop() == 0
    with acting_as(area.account.uid, area.account.gid):
        lines = [json.loads(line) for line in (daemon.state / "audit" / "audit.log").read_text().splitlines()]
    assert [line["reason"] for line in lines if line["event"] == "network.denied"] == reasons
    waiting.close()


def test_programs_that_are_blocked_where_there_is_no_network(start_daemon, area, names, web):
    """curl, wget and nc are what the rules are about; without a network they are refused before they run."""
    config = real_config(area, names) + f"[tenant plain]\nusers = {area.account.name}\nmanaged = yes\n"
    daemon = start_daemon(config=config, system=False)
    with daemon.connect() as client:
        for program, words in (("curl", "-sS"), ("wget", "-qO-"), ("nc", "-z"), ("netcat", "-z")):
            url = f"open.test {web.port}" if "-z" in words else f"http://open.test:{web.port}/"
            client.call("workspace.open", {"workspace": "w", "tenant": "plain"})
            refused = client.observe("run_command", {"command": f"{program} {words} {url}"})
            assert refused["error"]["code"] == "COMMAND_BLOCKED" and program in refused["error"]["message"], refused
            client.call("workspace.close", {"workspace": "w"})
            client.call("workspace.open", {"workspace": "n", "tenant": "net"})
            if observe(client, f"command -v {program}")["output"]["exit_code"] == 0:
                ran = observe(client, f"{program} {words} {url}")
                assert ran["success"] and (ran["output"]["stdout"] == "from the host" or "-z" in words), ran
            else:
                assert observe(client, f"{program} {words} {url}")["output"]["exit_code"] == 127
            # What else is blocked stays so.
            assert observe(client, "sudo id")["error"]["code"] == "COMMAND_BLOCKED"
            client.call("workspace.close", {"workspace": "n"})



@pytest.mark.skipif(not shutil.which("sshd", path="/usr/sbin:/usr/bin"), reason="needs sshd")
def test_real_clone_over_ssh(start_daemon, area, names):
    """GIT_SSH_COMMAND has a ProxyCommand where a rule is for port 22, and only there."""
    place = area.new_directory()
    git = f"export GIT_SSH_COMMAND=\"$GIT_SSH_COMMAND -i {place}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null\"; git"
    with acting_as(area.account.uid, area.account.gid):
        for key in ("key", "host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
        work = place / "work"
        work.mkdir()
        for words in (["init", "-q", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"]):
            subprocess.run(["git", *words], cwd=work, check=True, env={"HOME": str(place), "PATH": os.environ["PATH"]})
        (place / "empty").touch()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with acting_as(os.getuid()):
        if area.account.made:
            subprocess.run(["usermod", "--shell", "/bin/sh", area.account.name], check=True)
        server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", place / "empty", "-p", str(port), "-o", "ListenAddress=127.0.0.1",
                                   "-h", place / "host", "-o", f"AuthorizedKeysFile={place}/key.pub", "-o", "StrictModes=no",
                                   "-o", "UsePAM=no", "-o", "PidFile=none"], **area.account.as_user())
    try:
        assert procfs.eventually(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        config = real_config(area, names)
        daemon = start_daemon(config=config.replace("open.test:*", "open.test:* tcp:git.test:22"), system=False)
        with daemon.connect() as client:
            client.call("workspace.open", {"root": str(place)})
            url = f"ssh://{area.account.name}@open.test:{port}{work}"
            cloned = observe(client, f"{git} clone -q {url} copy && git -C copy log --format=%s")
            assert cloned["output"]["stdout"] == "one\n", cloned
            assert cloned["network"]["connections"] == 1 and cloned["network"]["denied"] == []
            refused = observe(client, f"{git} clone -q {url.replace('open.test', 'no.test')} other")
            assert refused["network"]["denied"][0]["host"] == "no.test" and refused["output"]["exit_code"] != 0, refused
            assert daemon.reload(config)
            assert observe(client, "echo $GIT_SSH_COMMAND")["output"]["stdout"] == "\n"
    finally:
        server.kill()
        server.wait()


def test_real_end_of_a_workspace(real, web):
    """cloister-egress lets go of its sockets, so that nothing holds the network namespace."""
    def sockets():
        with acting_as(os.getuid()):
            (program,) = [pid for pid in procfs.pids() if procfs.name(pid) == "cloister-egress"
                          and str(real.area.path) in str(procfs.command_line(pid)) and " system " not in procfs.command_line(pid)]
            return len(procfs.fds(program))
    with real.connect() as client:
        # cloister-egress has started once it has summed up a command; until then its own descriptors come and go.
        client.call("workspace.open", {"workspace": "other"})
        assert observe(client, "true", workspace="other")["network"]["connections"] == 0
        before = sockets()
        client.call("workspace.open", {"workspace": "one"})
        observe(client, f"curl -s http://open.test:{web.port}/", workspace="one")
        assert sockets() > before
        client.call("workspace.close", {"workspace": "one"})
        assert procfs.eventually(lambda: sockets() == before)


def test_private_instance(area, web):
    """Without a configuration a host's own user says what is allowed; names go to the system's resolver."""
    directory = area.new_directory()
    allowed = area.private(directory, "--allow-net", f"127.0.0.1:{web.port}", "exec", "--", "sh", "-c",
                           f"curl -sS -x $HTTP_PROXY --noproxy '' http://127.0.0.1:{web.port}/; curl -sS https://no.test/")
    # A private address is not for a workspace, whatever the rule says.
    assert b"from the host" not in allowed.stdout and allowed.returncode != 0
    call = area.private(directory, "--allow-net", "open.test", "call", "run_command", "command=curl -sS https://no.test/")
    network = json.loads(call.stdout)["network"]
    assert network["denied"] == [{"host": "no.test", "port": 443, "reason": "not_allowed", "count": 1, "via": "connect"}]
    wrong = area.private(directory, "--allow-net", "a..test", "exec", "--", "true")
    assert wrong.returncode != 0 and b"--allow-net" in wrong.stderr
    wrong = area.private(directory, "--allow-net", "@nmp", "exec", "--", "true")
    assert wrong.returncode != 0 and b'--allow-net: "@nmp": no set has this name; the sets are: @npm ' in wrong.stderr
    without = area.private(directory, "call", "run_command", "command=env")
    assert "network" not in json.loads(without.stdout) and b"HTTP_PROXY" not in without.stdout
    # What can only be refused later is refused before anything starts, and opened by an option that the sentence names.
    for host, address in (("10.0.0.1", "10.0.0.1/32"), ("127.0.0.1:80", "127.0.0.1/32"), ("localhost", "127.0.0.1/32"), ("[fd00::1]:*", "fd00::1/128")):
        wrong = area.private(directory, "--allow-net", host, "exec", "--", "touch", "ran")
        assert wrong.returncode == 125 and f"add --allow-private-net {address} ".encode() in wrong.stderr
    assert area.private(directory, "--allow-net", "10.0.0.1", "mcp").returncode == 2
    for option, network in (("--allow-net", "169.254.169.254"), ("--allow-private-net", "169.254.169.254"), ("--allow-private-net", "10.0.0.1/8")):
        wrong = area.private(directory, option, network, "exec", "--", "touch", "ran")
        assert wrong.returncode == 125 and f"{option} {network}: ".encode() in wrong.stderr
    assert not (directory / "ran").exists()
    opened = area.private(directory, "--allow-net", f"127.0.0.1:{web.port}", "--allow-private-net", "127.0.0.0/8", "exec", "--", "sh", "-c",
                          f"curl -sS --noproxy '' http://127.0.0.1:{web.port}/")
    assert opened.stdout == b"from the host"
    service = area.run("cloister", "--allow-net", "open.test", "--workspace", "name", "exec", "--", "true")
    assert service.returncode != 0 and b"--allow-net is for a directory in a private instance" in service.stderr
