# SPDX-License-Identifier: Apache-2.0
"""Programs that know no proxy, in workspaces with network = egress: a DNS server at 127.0.0.1, and ports 80 and 443 of
the address that it gives. Each command drops its variables. Hosts are the test's."""

import contextlib
import functools
import http.server
import json
import os
import shlex
import socket
import ssl
import subprocess

import egress
import procfs
import pytest
import web_hosts
from cloister_client import acting_as
from daemon import AM_ROOT, Account

pytestmark = pytest.mark.skipif(not AM_ROOT, reason="needs root to serve ports 80 and 443")

RULES = """egress_allow = **.open.test web.test:8080 ssh.test:22
egress_deny = closed.open.test
egress_private = 127.0.0.0/8
[tenant plain]
users = {user}
managed = yes"""

BARE = 'env -i PATH="$PATH" HOME="$HOME" '  # without the variables that name the proxy

class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def finish(self):
        super().finish()
        if isinstance(self.connection, ssl.SSLSocket):
            # OpenSSL 3, which apt 3.0 uses, takes an end without a word for an answer that was cut off.
            with contextlib.suppress(OSError):
                self.connection.unwrap()


class Hosts(web_hosts.WebHosts):
    """A DNS server, and an address at which ports 80 and 443 are served."""

    def __init__(self, area):
        self.root = area.new_directory()
        with acting_as(area.account.uid, area.account.gid):
            (self.root / "page").write_text("from the host")
        key, self.certificate = self.root / "key.pem", self.root / "ca.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", self.certificate, "-days", "2", "-subj", "/CN=open.test",
                        "-addext", "subjectAltName=DNS:open.test,DNS:*.open.test",
                        "-addext", "keyUsage=critical,digitalSignature,keyCertSign"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        super().__init__(77, ("open.test", "a.open.test", "closed.open.test", "no.test"),
                         functools.partial(Quiet, directory=self.root), context)


@pytest.fixture(scope="module")
def hosts(area):
    made = Hosts(area)
    yield made
    made.close()


@pytest.fixture
def egress_user():
    made = Account("e")
    yield made
    made.remove()


def config_of(area, hosts, host="spare_cells = 0"):
    return egress.service_config(area, hosts.names, RULES.format(user=area.account.name), host=host)


@pytest.fixture
def daemon(start_daemon, area, hosts):
    return start_daemon(config=config_of(area, hosts), system=False)


@pytest.fixture
def service(start_daemon, area, hosts, egress_user):
    made = egress.Service(start_daemon, area, config_of(area, hosts, "spare_cells = 0\n{host}"), egress_user)
    yield made
    made.stop()


@contextlib.contextmanager
def workspace(daemon, tenant="net", name="one"):
    with daemon.connect() as client:
        client.call("workspace.open", {"workspace": name, "tenant": tenant})
        yield client


def run(client, command, **options):
    """The observation of a command without the proxy's variables. The words of @command are a shell's."""
    quoted = "'" + command.replace("'", "'\\''") + "'"
    return client.observe("run_command", {"command": BARE + "sh -c " + quoted, "timeout_ms": 60000}, options=options)


def python(text):
    return '/usr/bin/python3 - <<"END"\n' + text + "\nEND"


def check_pages(client, hosts):
    client.observe("write_file", {"path": "ca.pem", "content": hosts.certificate.read_text()})
    fetch_python = python("import urllib.request as u\n"
                          "for url in 'http://open.test/page', 'https://a.open.test/page':\n"
                          "    print(u.urlopen(url).read().decode())")
    for command in ("curl -sS http://open.test/page; echo; curl -sS --cacert ca.pem https://a.open.test/page",
                    "export SSL_CERT_FILE=$PWD/ca.pem; " + fetch_python):
        observation = run(client, command)
        assert observation["output"]["stdout"].split("\n")[:2] == ["from the host"] * 2, observation["output"]["stderr"]
        assert (observation["network"]["connections"], observation["network"]["denied"]) == (2, [])


def test_pages(daemon, hosts):
    with workspace(daemon) as client:
        check_pages(client, hosts)


LOOK_UPS = {
    "getent": "getent hosts no.test",
    "curl": "curl -sS http://no.test/",
    "curl over TLS": "curl -sS https://no.test/",
    "python": "/usr/bin/python3 -c 'import urllib.request; urllib.request.urlopen(\"https://no.test/\")'",
    "node": "node -e 'fetch(\"https://no.test/\").catch(() => process.exit(1))'",
    "git": "git ls-remote https://no.test/x.git",
    "dig": "dig +short no.test | grep .",
    "host": "host no.test",
}


def test_names_that_are_refused(daemon, hosts):
    """Each has no address inside, which is told with the answer, and no DNS server is asked for it."""
    with workspace(daemon) as client:
        for name, command in LOOK_UPS.items():
            if run(client, f"command -v {command.split()[0]}")["output"]["exit_code"] != 0:
                continue
            observation = run(client, command)
            assert observation["output"]["exit_code"] != 0
            assert "emporary" not in observation["output"]["stderr"], observation
            (refused,) = observation["network"]["denied"]
            assert refused.pop("count") >= 1 and refused == {"host": "no.test", "port": 0, "reason": "not_allowed", "via": "dns"}
            assert observation["notes"] == [
                "no.test is not allowed in this workspace; allowed are: **.open.test web.test:8080 ssh.test:22"], name
        for host, reason, note in (("closed.open.test", "denied", "closed.open.test is denied in this workspace"),
                                   ("web.test", "port", "web.test is allowed in this workspace, but not at port 80 or 443"),
                                   ("ssh.test", "port", "ssh.test is allowed in this workspace, but not at port 80 or 443")):
            observation = run(client, f"getent ahosts {host}")
            assert observation["network"]["denied"] == [{"host": host, "port": 0, "reason": reason, "count": 1, "via": "dns"}]
            assert observation["notes"][0].startswith(note)
    assert not [name for name, _ in hosts.names.asked if name in ("no.test", "closed.open.test", "web.test", "ssh.test")]


def test_connections_that_are_refused(daemon, hosts):
    """Who connects to the address without a look-up, or names another host then, is judged there."""
    to = "--resolve no.test:80:127.1.0.1 --resolve no.test:443:127.1.0.1 --resolve closed.open.test:443:127.1.0.1"
    cases = [
        (f"curl -sS {to} -f http://no.test/", "no.test", 80, "not_allowed"),
        (f"curl -sS {to} -k https://no.test/", "no.test", 443, "not_allowed"),
        (f"curl -sS {to} -k https://closed.open.test/", "closed.open.test", 443, "denied"),
        ("curl -sS -f -H 'Host: no.test' http://open.test/page", "no.test", 80, "not_allowed"),
        ("curl -sS -f -H 'Host: 169.254.169.254' http://open.test/page", "169.254.169.254", 80, "not_allowed"),
        ("curl -sS -f -H 'Host: 0xa9fea9fe' http://open.test/page", "169.254.169.254", 80, "not_allowed"),
        ("curl -sS -f -H 'Host: open..test' http://open.test/page", "open..test", 80, "bad_request"),
        ("curl -sS -k https://127.1.0.1/", "", 443, "sni_mismatch"),
    ]
    with workspace(daemon) as client:
        for command, host, port, reason in cases:
            observation = run(client, command)
            assert observation["output"]["exit_code"] != 0, observation
            assert observation["network"]["denied"] == [
                {"host": host, "port": port, "reason": reason, "count": 1, "via": "transparent"}], observation
            assert observation["notes"][0].startswith(f"{host}:{port} is " if reason in ("not_allowed", "denied") else
                                                      f"{host}:{port} was not made: " if host else
                                                      "A connection to port 443 was not made: the program named no host")


def errors(calls):
    """A program that prints the error of each of these calls on a new socket, and how long all took."""
    return python("import socket as s, time\nbegun = time.monotonic()\n"
                  f"for family, kind, name, address in {calls}:\n"
                  "    with s.socket(family, kind) as one:\n"
                  "        one.settimeout(30)\n"
                  "        try: getattr(one, name)(*address); print(0)\n"
                  "        except TimeoutError: print('waited')\n"
                  "        except OSError as error: print(error.errno)\n")


def test_nothing_else_leads_out(daemon):
    """An address outside is unreachable at once; so is each other port of the address inside."""
    v4, v6, tcp, udp = socket.AF_INET.value, socket.AF_INET6.value, socket.SOCK_STREAM.value, socket.SOCK_DGRAM.value
    calls = [(v4, tcp, "connect", ((at, port),)) for at in ("1.1.1.1", "10.0.0.1", "169.254.169.254") for port in (53, 80, 443)]
    calls += [(v4, udp, "sendto", (b"x", (at, 53))) for at in ("8.8.8.8", "192.0.2.1")]
    calls += [(v6, tcp, "connect", (("2001:db8::1", port),)) for port in (80, 443)]
    unreachable = len(calls)
    calls += [(v4, tcp, "connect", (at,)) for at in (("127.0.0.1", 80), ("127.0.0.1", 443), ("127.1.0.1", 22),
                                                     ("127.1.0.2", 80), ("127.64.0.1", 80))]
    refused = len(calls) - unreachable
    # Ports below 1024 are nobody's, so that no command can be in the place of cloister-egress. Others are free.
    calls += [(v4, kind, "bind", ((at, port),)) for kind, at, port in (
        (udp, "127.0.0.1", 53), (tcp, "127.0.0.1", 53), (udp, "0.0.0.0", 53), (tcp, "0.0.0.0", 80), (tcp, "127.0.0.1", 80), (tcp, "127.1.0.1", 443))]
    forbidden = len(calls) - unreachable - refused
    calls += [(v4, tcp, "bind", ((at, 8080),)) for at in ("127.0.0.1", "0.0.0.0", "127.1.0.1")]
    with workspace(daemon) as client:
        observation = run(client, errors(calls))
        assert observation["output"]["stdout"].split() == \
            ["101"] * unreachable + ["111"] * refused + ["13"] * forbidden + ["0"] * 3
        assert observation["network"] == {"connections": 0, "bytes_in": 0, "bytes_out": 0, "denied": []}


def test_what_answers_look_ups(start_daemon, area, hosts):
    """cloister-egress, for tenants with a network. For others nothing does, also if they get a spare cell."""
    daemon = start_daemon(config=config_of(area, hosts, "spare_cells = 1"), system=False)
    expected = {"net": ("nameserver 127.0.0.1", "hosts: files dns"), "plain": ("nameserver 192.0.2.1", "hosts: files dns files")}
    with daemon.connect() as client:
        for turn, tenant in enumerate(("net", "net", "plain", "plain", "net", "net")):
            client.call("workspace.open", {"workspace": f"w{turn}", "tenant": tenant})
            said = client.run("cat /etc/resolv.conf /etc/nsswitch.conf; cat /proc/net/tcp /proc/net/udp; ls /etc/apt")["stdout"]
            server, source = expected[tenant]
            assert server in said.splitlines() and source in said.splitlines()
            has_sockets = ["0100007F:0035" in said, "0100017F:0050" in said, "0100017F:01BB" in said]
            assert has_sockets == [tenant == "net"] * 3
            assert ("apt.conf" in said.splitlines()) == (tenant == "plain")
            assert procfs.eventually(lambda: daemon.spares_ready() == 1)


def test_a_workspaces_names_are_its_own(daemon):
    """Two workspaces that asked for different hosts of the tenant's."""
    with daemon.connect() as client:
        for name in ("a", "b"):
            client.call("workspace.open", {"workspace": name, "tenant": "net", "network": {"allow": [f"{name}.open.test"]}})
        for name in ("a", "b"):
            found = client.observe("run_command", {"command": "for at in a b open; do getent ahostsv4 $at.open.test; done | sort -u"},
                                   workspace=name)
            assert found["output"]["stdout"].split()[0] == "127.1.0.1" and f"{name}.open.test" in found["output"]["stdout"]
            assert {refused["host"] for refused in found["network"]["denied"]} == {"a.open.test", "b.open.test", "open.open.test"} \
                - {f"{name}.open.test"}


def test_commands_at_once_where_cgroups_are_delegated(delegation, start_daemon, area, hosts):
    """Each has its own connections and refusals, in its answer and in the audit log, though the programs know no proxy."""
    daemon = start_daemon(config=config_of(area, hosts, "spare_cells = 0\naudit = on"), system=False,
                          launcher=delegation.launcher())
    together = "touch {me}; until [ -e {other} ]; do sleep 0.02; done; curl -sS http://{host}.test/page; " \
        "curl -sS http://{no}.test/; curl -sS -f -H 'Host: {me}.test' http://{host}.test/page; " \
        "touch {me}.done; until [ -e {other}.done ]; do sleep 0.02; done; false"
    with workspace(daemon) as client:
        words = ({"me": "one", "other": "two", "host": "open", "no": "no-one"},
                 {"me": "two", "other": "one", "host": "a.open", "no": "no-two"})
        numbers = [client.begin("run_command", {"command": BARE + "sh -c " + shlex.quote(together.format(**each)),
                                                "timeout_ms": 60000}) for each in words]
        for number, each in zip(numbers, words):
            observation = client.wait(number)["result"]
            assert observation["output"]["stdout"] == "from the host", observation
            assert observation["network"]["connections"] == 1
            assert {(refused["host"], refused["via"], refused["count"]) for refused in observation["network"]["denied"]} == {
                (f"{each['no']}.test", "dns", 1), (f"{each['me']}.test", "transparent", 1)}
    assert daemon.stop() == 0
    with acting_as(area.account.uid, area.account.gid):
        lines = [json.loads(line) for line in (daemon.state / "audit" / "audit.log").read_text().splitlines()]
    calls = {}
    for line in lines:
        if line["event"].startswith("network."):
            calls.setdefault(line["call"], set()).add((line["event"], line["host"]))
    assert sorted(calls.values(), key=sorted) == sorted(({
        ("network.denied", f"{each['no']}.test"), ("network.denied", f"{each['me']}.test"),
        ("network.closed", f"{each['host']}.test")} for each in words), key=sorted)


def test_restart(service, hosts):
    """Look-ups and connections wait for the next cloister-egress, at the sockets that there were."""
    with workspace(service.daemon) as client:
        service.stop()
        assert procfs.eventually(lambda: "the connection to cloister-egress has ended" in service.daemon.log())
        found = client.begin("run_command", {"command": BARE + "curl -sS http://open.test/page"})
        direct = client.begin("run_command", {"command": BARE + "curl -sS --resolve open.test:80:127.1.0.1 http://open.test/page"})
        service.start()
        for number in (found, direct):
            observation = client.result(number)
            assert observation["output"]["stdout"] == "from the host", observation


def test_without_cloister_egress(daemon):
    """Where cloisterd has started it and it ends, everything is refused at once."""
    with workspace(daemon) as client:
        with acting_as(os.getuid()):
            (program,) = [pid for pid in procfs.pids() if procfs.name(pid) == "cloister-egress"
                          and procfs.parent(pid) == daemon.pid]
            os.kill(program, 9)
        assert procfs.eventually(lambda: "workspaces have no network until cloisterd is restarted" in daemon.log())
        v4, tcp = socket.AF_INET.value, socket.SOCK_STREAM.value
        calls = [(v4, tcp, "connect", (("127.1.0.1", port),)) for port in (80, 443)]
        assert run(client, errors(calls))["output"]["stdout"].split() == ["111"] * 2
        observation = run(client, "getent hosts open.test; curl -sS http://open.test/")
        assert "Could not resolve host" in observation["output"]["stderr"]
        assert observation["output"]["duration_ms"] < 5000
