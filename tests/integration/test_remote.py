# SPDX-License-Identifier: Apache-2.0
"""The agent socket reached through ssh -L, through a proxy of Unix sockets, and from other user namespaces."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

import procfs
from cloister_client import Client, RpcError, acting_as
from daemon import ROOT
from loopback import free_port, own_address
from npm import unavailable

MANIFEST = ROOT / "packaging" / "fleets" / "kubernetes" / "daemonset.yaml"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")


def config(*tenants):
    lines = ["[cloister]", "agent_socket_mode = 0666"]
    for name, user in tenants:
        lines += [f"[tenant {name}]", f"users = {user}", "managed = yes"]
    return "\n".join([*lines, ""])


def tenant_of(client):
    return client.call("workspace.open", {"workspace": "w"})["tenant"]


def is_refused(client):
    with pytest.raises(RpcError) as refusal:
        client.call("workspace.list")
    return refusal.value.name == "FORBIDDEN"


def listens_at(path, account=None):
    """Waits until @account, or this process's user, can connect to the socket. Returns whether it could."""
    def can_connect():
        with socket.socket(socket.AF_UNIX) as probe, acting_as(account and account.uid, account and account.gid):
            return probe.connect_ex(str(path)) == 0
    return procfs.eventually(can_connect)


def sshd_config(**ours):
    """Returns the sshd_config of the DaemonSet's manifest, with the test's own keys, port and users."""
    lines = MANIFEST.read_text().splitlines()
    lines = lines[lines.index("  sshd_config: |") + 1:]
    settings = dict(line.split(maxsplit=1) for line in lines[:lines.index("---")])
    assert ours.keys() <= settings.keys() and settings["ForceCommand"] == "/bin/false"
    # StrictModes would refuse keys below /tmp.
    return "".join(f"{key} {value}\n" for key, value in {**settings, **ours, "StrictModes": "no"}.items())


class Sshd:
    """The test's own sshd, on a port of the loopback, with its own keys."""

    def __init__(self, place):
        self.place, self.port = place, free_port()
        self.clients = []
        (place / "keys").mkdir()
        self.key("host_key")
        (place / "config").write_text(f"ListenAddress {own_address()}\n" + sshd_config(
            Port=self.port, HostKey=place / "host_key", AuthorizedKeysFile=place / "keys/%u", AllowUsers="*"))
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.log = open(place / "log", "wb")
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", place / "config"],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def key(self, name):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.place / name], check=True)
        return (self.place / f"{name}.pub").read_text()

    def admit(self, user):
        # "*" allows no password. "!" would lock the account for an sshd without PAM.
        subprocess.run(["usermod", "--password", "*", user], check=True)
        (self.place / "keys" / user).write_text(self.key(f"key-of-{user}"))

    def ssh(self, user, *words):
        return ["ssh", "-F", "none", "-i", self.place / f"key-of-{user}", "-p", str(self.port), "-o", "BatchMode=yes",
                "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.place}/known", f"{user}@{own_address()}",
                *words]

    def forward(self, user, remote):
        """Starts ssh -L as @user of the server. Returns the path of the local socket."""
        local = self.place / f"of-{user}.sock"
        self.clients.append(subprocess.Popen(
            self.ssh(user, "-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{local}:{remote}"),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log))
        assert listens_at(local), (self.place / "log").read_text()
        return local

    def stop(self):
        for process in [*self.clients, self.process]:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
        self.log.close()


@pytest.fixture
def sshd(area):
    if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
        unavailable("openssh-server and openssh-client are not installed")
    place = area.new_directory("ssh")
    os.chmod(area.path, 0o755)
    with acting_as(0):
        started = Sshd(place)
    assert procfs.eventually(lambda: b"Server listening" in (place / "log").read_bytes())
    yield started
    started.stop()


@pytest.mark.deep("slow")
@needs_root
def test_through_ssh_the_tenant_is_the_user_who_logged_in(start_daemon, sshd, tenants):
    """Through ssh -L the tenant is the user who logged in at the server, whichever local user connects. A user there
    without a tenant is refused."""
    blue, green, stranger = tenants
    daemon = start_daemon(config=config(("blue", blue.name), ("green", green.name)))
    for user in tenants:
        sshd.admit(user.name)
    for user, name in (blue, "blue"), (green, "green"):
        with Client(sshd.forward(user.name, daemon.socket)) as client:
            assert tenant_of(client) == name
            client.use("write_file", path="who", content=name)
            assert client.run("cat who")["stdout"] == name
    with Client(sshd.forward(stranger.name, daemon.socket)) as client:
        assert is_refused(client)
    ran = subprocess.run(sshd.ssh(blue.name, "echo ran"), capture_output=True, timeout=60, check=False)
    assert ran.returncode != 0 and b"ran" not in ran.stdout


@needs_root
def test_what_runs_ends_with_the_ssh_connection(start_daemon, sshd, tenants):
    daemon = start_daemon(config=config(("blue", tenants[0].name)))
    sshd.admit(tenants[0].name)
    client = Client(sshd.forward(tenants[0].name, daemon.socket))
    tenant_of(client)
    command = f"sleep 4711.{os.getpid()}s"
    client.begin("run_command", {"command": command})
    assert procfs.eventually(lambda: procfs.having(command))
    sshd.clients[-1].kill()
    assert procfs.eventually(lambda: not procfs.having(command))
    client.close()


@needs_root
def test_through_a_proxy_the_tenant_is_the_proxy(start_daemon, area, tenants):
    """Every client of a proxy, such as a service mesh's, acts as the tenant of the proxy's own user."""
    if not shutil.which("socat"):
        unavailable("socat is not installed")
    proxy, other, _ = tenants
    daemon = start_daemon(config=config(("proxied", proxy.name), ("other", other.name)))
    place = area.new_directory("proxy")
    os.chmod(place, 0o777)
    with subprocess.Popen(
            ["socat", f"UNIX-LISTEN:{place}/s,fork,mode=0666", f"UNIX-CONNECT:{daemon.socket}"],
            user=proxy.uid, group=proxy.gid, extra_groups=[]) as socat:
        assert listens_at(place / "s", other)
        with Client(place / "s", other.uid, other.gid) as client:
            assert tenant_of(client) == "proxied"
            assert client.run("echo here")["stdout"] == "here\n"
        socat.terminate()


def in_namespace(account):
    """Returns a launcher into a user namespace that maps the account's id to 900 and no other id."""
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups",
            "unshare", "--user", "--map-user=900", "--map-group=900"]


@needs_root
@pytest.mark.parametrize("line", ["users = 65534", "groups = 65534"])
def test_an_unmapped_client_is_not_the_user_65534(start_daemon, account, tenants, line):
    """A client without an id in cloisterd's user namespace is refused, even if a tenant names the user or group 65534.
    The kernel reports such clients as 65534, and a real user may have that id too. user_namespaces(7)"""
    text = config(("everybody", "900")) + "\n".join(["[tenant nobody]", line, "managed = yes", ""])
    daemon = start_daemon(config=text, launcher=in_namespace(account))
    with daemon.connect() as client:
        assert tenant_of(client) == "everybody"
    for outside in tenants[0], None:
        with Client(daemon.socket, outside and outside.uid, outside and outside.gid, [tenants[1].gid]) as client:
            assert is_refused(client)
