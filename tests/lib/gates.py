# SPDX-License-Identifier: Apache-2.0
"""Gates for agents on other hosts: stunnel with the configurations of packaging/gate, one process for each tenant."""

import os
import re
import signal
import socket
import ssl
import subprocess

import authority
import procfs
from cloister_client import acting_as
from daemon import ROOT
from loopback import free_port, own_address

GATE = ROOT / "packaging" / "gate"
HOST = "host.example.org"


class Certificates(authority.Authority):
    """Of an administrator who signs the agents' and the hosts' certificates."""

    def make(self, name, days=2, owner=None):
        """Returns the paths of a certificate for the name and of its key, which only @owner can read."""
        self.context(name, days)
        paths = [self.directory / f"{name}.{kind}" for kind in ("pem", "key")]
        for path, kind in zip(paths, ("pem", "key")):
            (self.directory / f"host.{kind}").rename(path)
            path.chmod(0o644 if kind == "pem" else 0o400)
            if owner:
                os.chown(path, owner.uid, owner.gid)
        return paths


class Stunnel:
    """A process with a configuration of packaging/gate, run as a user, in which these words are replaced."""

    def __init__(self, place, name, user, example, **replaced):
        self.log_path = place / f"{name}.log"
        text = (GATE / example).read_text()
        for old, new in replaced.items():
            found = re.subn(rf"(?m)^{old} = .*$", f"{old} = {new}", text)
            assert found[1] == 1, f"{example} has {found[1]} lines of {old}"
            text = found[0]
        (place / f"{name}.conf").write_text(text)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(["stunnel4", place / f"{name}.conf"], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, **user.as_user())
        assert procfs.eventually(lambda: self.says("Configuration successful") or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()

    def log(self):
        return self.log_path.read_text()

    def says(self, words):
        return words in self.log()

    def reload(self):
        before = self.log().count("Configuration successful")
        with acting_as(0):
            self.process.send_signal(signal.SIGHUP)
        assert procfs.eventually(lambda: self.log().count("Configuration successful") > before), self.log()


class Gates:
    """A gate for each of two tenants of a daemon, and hosts of agents that connect to them."""

    def __init__(self, place, daemon, tenants, signer=None):
        self.place, self.daemon = place, daemon
        self.authority = signer or Certificates(place / "authority")
        self.users = dict(zip(("blue", "green"), tenants))
        self.started, self.ports = {}, {}
        for name, user in self.users.items():
            self.agents(name).write_text(self.authority.make(f"agent-of-{name}", owner=user)[0].read_text())
            certificate, key = self.authority.make(HOST, owner=user)
            certificate, key = (path.rename(path.with_name(f"{name}-{path.name}")) for path in (certificate, key))
            self.ports[name] = free_port()
            self.started[name] = Stunnel(
                place, f"gate-{name}", user, "tenant.conf", accept=f"{own_address()}:{self.ports[name]}",
                connect=daemon.socket, cert=certificate, key=key, CAfile=self.agents(name))

    def agents(self, name):
        """The file of the certificates that may connect to the tenant's gate."""
        return self.place / f"{name}-agents.pem"

    def of(self, name):
        """The certificate and key of the agents of a tenant."""
        return [self.authority.directory / f"agent-of-{name}.{kind}" for kind in ("pem", "key")]

    def agent_host(self, name, user, gate, pair, **replaced):
        """Starts stunnel as on an agent's host. Returns it and the path of its socket."""
        path = self.place / user.name / f"{name}.sock"
        with acting_as(0):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            os.chown(path.parent, user.uid, user.gid)
        given = {"accept": path, "connect": f"{own_address()}:{self.ports[gate]}", "cert": pair[0], "key": pair[1],
                 "CAfile": self.authority.certificate, "checkHost": HOST, **replaced}
        self.started[name] = Stunnel(self.place, name, user, "agent.conf", **given)
        return self.started[name], path

    def context(self, pair=None):
        """A client's of our own."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if pair:
            context.load_cert_chain(*pair)
        return context

    def shake_hands(self, gate, context, session=None):
        """Connects. Returns the error that ended it, or the answer to a first request."""
        try:
            with socket.create_connection((own_address(), self.ports[gate]), 60) as raw, \
                    context.wrap_socket(raw, server_hostname=HOST, session=session) as within:
                within.sendall(b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\n')
                return within.recv(1 << 16) or ConnectionError("closed")
        except (ssl.SSLError, OSError) as error:
            return error

    def stop(self):
        for stunnel in self.started.values():
            if stunnel.process.poll() is not None:
                continue
            with acting_as(0):
                stunnel.process.send_signal(signal.SIGTERM)
            stunnel.process.wait(120)
