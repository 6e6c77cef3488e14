# SPDX-License-Identifier: Apache-2.0
"""The installed service at work, while its package is upgraded and purged. There is no systemd in the root: a stand-in
starts and stops cloisterd as the unit would, with its sockets and its configuration. tests/vm has the real one."""

import json

import pytest

import procfs

pytestmark = pytest.mark.deep("slow")

# Descriptors 3 and 4, with names, as systemd passes sockets.
START = r"""#!/usr/bin/perl
use Fcntl; use Socket; use POSIX ();
POSIX::close($_) for 3 .. 9;
umask 0;
my @held;
for my $name ("agent", "control") {
    my $path = "/run/cloister/$name.sock";
    unlink $path;
    my $socket;
    socket($socket, AF_UNIX, SOCK_STREAM, 0) && bind($socket, pack_sockaddr_un($path)) && listen($socket, 64) or die;
    fcntl($socket, F_SETFD, 0) or die;
    push @held, $socket;
}
umask 027;
@ENV{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} = ($$, 2, "agent:control");
exec "/usr/sbin/cloisterd", "--config", "/etc/cloister/cloister.conf";
"""

SYSTEMCTL = r"""#!/bin/sh
echo "$*" >>/run/systemctl.log
while [ "${1#--}" != "$1" ]; do shift; done
main=$(cat /run/main.pid 2>/dev/null || echo none)
case "$*" in
"stop "*cloister.service* | "restart cloister.service")
	kill -TERM "$main" 2>/dev/null
	while [ -d "/proc/$main" ]; do sleep 0.1; done ;;
esac
case "$*" in
"restart cloister.service" | "start "*cloister.service*)
	[ -d "/proc/$(cat /run/main.pid 2>/dev/null || echo none)" ] || {
		setsid /usr/local/bin/start >>/run/cloisterd.log 2>&1 </dev/null &
		echo $! >/run/main.pid
	} ;;
"reload cloister.service")
	sed -n 's/^ExecReload=//p' /lib/systemd/system/cloister.service /usr/lib/systemd/system/cloister.service 2>/dev/null |
		head -n 1 >/run/reload.line
	sh -c "umask 027; $(cat /run/reload.line)" >>/run/cloisterd.log 2>&1 </dev/null || exit 1
	cat /var/lib/cloister/lock >/run/main.pid ;;
"is-active cloister.service")
	[ -d "/proc/$main" ] || exit 3 ;;
esac
exit 0
"""


class Service:
    """The service in a root, and its user alice."""

    def __init__(self, root, debs):
        self.root = root
        for name, text in (("start", START), ("systemctl", SYSTEMCTL)):
            path = root.path / "usr/local/bin" / name
            path.write_text(text)
            path.chmod(0o755)
        (root.path / "run/systemd/system").mkdir(parents=True)
        root.shell("useradd -m alice; useradd -m bob")
        root.install(debs["cloister"], debs["cloister-client"])
        self.drop_in("[tenant one]\nusers = alice\nmanaged = yes\n")
        root.shell("systemctl restart cloister.service")
        self.wait()

    def drop_in(self, text):
        path = self.root.path / "etc/cloister/cloister.conf.d/10-test.conf"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def log(self):
        return self.root.read("run/cloisterd.log")

    def wait(self):
        assert procfs.eventually(lambda: self.status() is not None, seconds=60, interval=0.2), self.log()

    def main(self):
        return int(self.root.read("run/main.pid"))

    def lives(self, pid):
        return self.root.run("test", "-d", f"/proc/{pid}", check=False).returncode == 0

    def status(self):
        """Returns the status that an administrator sees, or None while the service does not answer."""
        done = self.root.run("setpriv", "--groups", "cloister-admin", "cloisterctl", "--json", "status", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def words(self, user, *words):
        return ("runuser", "-u", user, "--", "cloister", "--create", "--workspace", "w", *words)

    def call(self, user, *words, **keywords):
        return self.root.run(*self.words(user, *words), **keywords)


@pytest.fixture
def service(root, debs):
    return Service(root, debs)


def test_from_installing_to_a_call(service):
    """A member of the tenant is served under an id of the range. Other users get FORBIDDEN."""
    (first,) = [int(line.split(":")[1]) for line in service.root.lines("etc/subuid") if line.startswith("cloister:")]
    assert service.call("alice", "exec", "--", "sh", "-c", "echo text >file; id -un").stdout == "agent\n"
    (file,) = (service.root.path / "var/lib/cloister/workspaces").glob("*/w/file")
    assert first <= file.stat().st_uid < first + 65536
    refused = service.call("bob", "call", "list_directory", "path=.", check=False)
    assert refused.returncode == 3 and "FORBIDDEN" in refused.stdout
    assert service.root.run("cloisterctl", "status", check=False).returncode != 0, "root alone is no administrator"


def test_an_upgrade_loses_no_command(service, newer):
    """What runs goes on under the old cloisterd, while the new one serves, in another process, and ends it when it is done."""
    before = service.main()
    call = service.root.start(*service.words("alice", "exec", "--timeout=10m", "--", "sh", "-c",
                                             "touch begun; until [ -e end ]; do sleep 0.1; done; echo through"))
    workspace = service.root.path / "var/lib/cloister/workspaces/one/w"
    assert procfs.eventually((workspace / "begun").exists, seconds=60)
    service.root.install(newer("0.1.0+1"))
    assert service.main() != before and service.lives(before)
    assert service.status()["old_daemon"]["pid"] == before
    assert service.root.run("runuser", "-u", "alice", "--", "cloister", "--create", "--workspace", "other", "exec", "--",
                            "echo", "served").stdout == "served\n"
    assert call.poll() is None, "the call was ended"
    (workspace / "end").touch()
    assert call.communicate()[0] == "through\n" and call.returncode == 0
    assert procfs.eventually(lambda: not service.lives(before), seconds=60)
    assert procfs.eventually(lambda: "old_daemon" not in service.status(), seconds=60)
    assert service.call("alice", "exec", "--", "ls").stdout.split() == ["begun", "end"]
    # The upgrade leaves the sockets alone, and restarts nothing.
    acts = [line for line in service.root.lines("run/systemctl.log") if "restart" in line or "reload" in line]
    assert acts[-1].endswith("reload cloister.service") and len([line for line in acts if "restart" in line]) == 1, acts


def test_an_upgrade_of_one_that_cannot_be_taken_over(service, newer):
    """It is restarted, and its calls have drain_time. One whose new configuration has a mistake stays as it is."""
    (service.root.path / "var/lib/cloister/handover").unlink()
    before = service.main()
    conf = service.root.path / "etc/cloister/cloister.conf.d/20-mistake.conf"
    conf.write_text("[cloister]\nno_such_key = 1\n")
    said = service.root.install(newer("0.1.0+1")).stdout
    assert "no_such_key" in said and "the old cloisterd serves on; correct the configuration" in said
    assert service.main() == before and service.call("alice", "exec", "--", "echo", "served").stdout == "served\n"
    conf.unlink()
    service.root.install(newer("0.1.0+2"))
    service.wait()
    assert service.main() != before and not service.lives(before)
    assert service.call("alice", "exec", "--", "echo", "served").stdout == "served\n"


@pytest.mark.parametrize("systemd", [True, False])
def test_purge_ends_everything(service, systemd):
    """No process of the service or of a command is left, whether systemd or postrm ends the service."""
    command = service.root.start(*service.words("alice", "exec", "--timeout=10m", "--", "sh", "-c",
                                                "trap '' TERM; touch begun; while :; do sleep 1000; done"))
    begun = service.root.path / "var/lib/cloister/workspaces/one/w/begun"
    assert procfs.eventually(begun.exists, seconds=60)
    service.drop_in("[cloister]\ndrain_time = 0s\n[tenant one]\nusers = alice\nmanaged = yes\n")
    service.root.run("setpriv", "--groups", "cloister-admin", "cloisterctl", "reload")
    if not systemd:
        (service.root.path / "run/systemd/system").rmdir()
    service.root.run("dpkg", "--purge", "cloister")
    assert command.wait(timeout=60) != 0
    command.stdout.close()
    assert procfs.eventually(lambda: service.root.processes() == {}, seconds=30), service.root.processes()
    for name in ("var/lib/cloister", "var/log/cloister", "etc/cloister", "run/cloister"):
        assert not (service.root.path / name).exists(), name
    assert not [line for name in ("passwd", "group", "subuid", "subgid") for line in service.root.lines(f"etc/{name}")
                if line.startswith("cloister")]


def test_the_spawner_may_be_the_services_alone(service, newer):
    """Where only named programs may make user namespaces, an administrator reserves the spawner for the service: other users
    cannot run it, a private instance says why it cannot start, and upgrades keep the restriction."""
    root, spawner = service.root, "/usr/libexec/cloister/cloister-spawner"
    own = ("runuser", "-u", "alice", "--", "env", "--chdir=/home/alice", "HOME=/home/alice", "cloister", "--private",
           "--workspace", "/home/alice", "call", "list_directory", "path=.")
    root.run(*own)
    root.run("dpkg-statoverride", "--update", "--add", "root", "cloister", "0750", spawner)
    for package in (None, newer("0.1.0+1")):
        if package:
            root.install(package)
        root.shell("systemctl restart cloister.service")
        service.wait()
        assert service.call("alice", "exec", "--", "echo", "served").stdout == "served\n"
        refused = root.run("runuser", "-u", "alice", "--", spawner, "user", check=False)
        assert refused.returncode != 0 and "Permission denied" in refused.stdout
        refused = root.run(*own, check=False)
        assert refused.returncode == 3 and "cannot start cloister-spawner: Permission denied" in refused.stdout
