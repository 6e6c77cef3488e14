# SPDX-License-Identifier: Apache-2.0
"""cloisterd under a service manager: passed sockets, readiness, reloads, the watchdog, the end and the journal.
sd_notify(3), sd_listen_fds(3)"""

import contextlib
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

import procfs
import scripted_egress
from cloister_client import Client
from daemon import BUILD, environment
from scripted_egress import ScriptedEgress

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to trace")

# Moves the descriptors to 3 and up and sets LISTEN_PID, as a service manager does, and starts the program.
LAUNCHER = """
import fcntl, os, sys
keep, program = int(sys.argv[1]), sys.argv[2:]
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in os.environ["TEST_FDS"].split()]
for place, fd in enumerate(fds, 3):
    os.dup2(fd, place)
    os.set_inheritable(place, True)
if keep >= 0:
    os.environ["LISTEN_PID"] = str(keep or os.getpid())
os.execv(program[0], program)
"""


class Manager:
    """Plays the service manager: starts cloisterd and reads what it sends to NOTIFY_SOCKET."""

    def __init__(self, area, name):
        self.area = area
        self.place = area.new_directory("manager")
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.name = name or str(self.place / "notify")
        self.notified.bind("\0" + name[1:] if name else self.name)
        if not name:
            os.chmod(self.name, 0o666)
        self.notified.settimeout(120)
        self.process = None

    def listen(self, name):
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.place / name))
        os.chmod(self.place / name, 0o666)
        listening.listen()
        return listening

    def start(self, *words, sockets=(), pid=0, config=None, before=(), **variables):
        variables = {key: str(value) for key, value in variables.items()}
        account = self.area.account
        to_user = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
        launcher = [*before, *(to_user if account.made else []), sys.executable, "-c", LAUNCHER, str(pid)]
        if config is not None:
            (self.place / "c.conf").write_text(config)
            words = (*words, "--config", str(self.place / "c.conf"))
        with open(self.place / "log", "wb") as log:
            self.process = self.area.start(
                ["cloisterd", "--state-dir", str(self.place / "state"), *words], launcher=launcher,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                pass_fds=[sock.fileno() for sock in sockets],
                env={**environment(self.area.home), "NOTIFY_SOCKET": self.name,
                     "TEST_FDS": " ".join(str(sock.fileno()) for sock in sockets), **variables})

    def log(self):
        return (self.place / "log").read_text()

    def told(self):
        return self.notified.recv(4096).decode()

    def until(self, wanted):
        """Returns all messages up to the first that begins with @wanted."""
        messages = [self.told()]
        while not messages[-1].startswith(wanted):
            messages.append(self.told())
        return messages

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process and self.process.wait(120)


@pytest.fixture
def managers(area):
    made = []

    def make(name=None):
        made.append(Manager(area, name))
        return made[-1]

    yield make
    for manager in made:
        manager.stop()
        manager.notified.close()


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_status_stopping(managers, abstract):
    manager = managers(f"@cloister-test-{os.getpid()}" if abstract else None)
    manager.start("--agent-socket", str(manager.place / "s"))
    assert manager.told() == "READY=1"
    # cloisterd accepts connections once it has sent READY=1.
    client = Client(manager.place / "s", manager.area.account.uid, manager.area.account.gid)
    assert manager.told() == "STATUS=serving: 0 calls, 0 workspaces, 0 connections"
    path = manager.area.new_directory()
    client.call("workspace.open", {"root": str(path)})
    client.begin("run_command", {"command": "sleep 600"})
    assert manager.until("STATUS=serving: 1 calls, 1 workspaces, 1 connections")
    # Neither cloisterd's children nor commands inherit NOTIFY_SOCKET.
    assert "NOTIFY_SOCKET" not in client.run("env")["stdout"]
    for pid in procfs.children(manager.process.pid):
        assert b"NOTIFY" not in open(f"/proc/{pid}/environ", "rb").read()
    manager.process.send_signal(signal.SIGTERM)
    assert manager.until("STOPPING=1")[-1] == "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000\nSTATUS=shutting down"
    assert manager.stop() == 0


def test_reloading(managers):
    manager = managers()
    text = f"[cloister]\n[tenant t]\nusers = {manager.area.account.uid}\n"
    manager.start("--agent-socket", str(manager.place / "s"), config=text)
    manager.until("STATUS=")
    for wrong in ("", "nonsense = 1\n"):
        (manager.place / "c.conf").write_text(text + wrong)
        manager.process.send_signal(signal.SIGHUP)
        reloading, ready = manager.told(), manager.told()
        first, when = reloading.split("\n")
        assert first == "RELOADING=1" and when.startswith("MONOTONIC_USEC=")
        assert 0 < int(when.split("=")[1]) <= int(float(open("/proc/uptime").read().split()[0]) * 1e6) + 1000000
        assert ready == "READY=1"


@as_root
def test_the_watchdog_hears_of_a_loop_that_turns_and_of_no_other(managers):
    manager = managers()
    manager.start("--agent-socket", str(manager.place / "s"), WATCHDOG_USEC=200000)
    for _ in range(5):
        manager.until("WATCHDOG=1")
    waiting = {"x86_64": 232, "aarch64": 22}[platform.machine()]  # epoll_wait, epoll_pwait
    holder = subprocess.Popen([BUILD / "tests" / "hold_syscall", str(manager.process.pid), str(waiting)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"ready\n" and holder.stdout.readline() == b"held\n"
    manager.notified.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while manager.told():
            pass
    manager.notified.settimeout(1)
    with pytest.raises(TimeoutError):
        manager.told()
    holder.stdin.close()
    assert holder.wait(120) == 0
    manager.notified.settimeout(120)
    manager.until("WATCHDOG=1")


def test_a_notify_socket_that_is_not_there(managers):
    manager = managers()
    manager.start("--agent-socket", str(manager.place / "s"), NOTIFY_SOCKET="/nonexistent/notify")
    assert procfs.eventually(lambda: "listening on" in manager.log())
    assert "$NOTIFY_SOCKET: No such file or directory" in manager.log()


def test_sockets_that_are_passed(managers):
    manager = managers()
    account = manager.area.account
    agent, control = manager.listen("a"), manager.listen("c")
    # A client that connects before cloisterd runs is served once it runs.
    early = Client(manager.place / "a", account.uid, account.gid)
    number = early.request("tools.list")
    manager.start(sockets=(control, agent), LISTEN_FDS=2, LISTEN_FDNAMES="control:agent")
    assert len(early.result(number)["tools"]) == 5
    with Client(manager.place / "c", account.uid, account.gid) as admin:
        assert admin.call("status")["role"] == "admin"
    path = manager.area.new_directory()
    early.call("workspace.open", {"root": str(path)})
    assert "LISTEN" not in early.run("env")["stdout"]
    # A workspace cannot be the directory of the socket.
    assert early.call_error("workspace.open", {"root": str(manager.place)}) == "FORBIDDEN"
    early.close()
    assert manager.stop() == 0
    # cloisterd does not remove sockets that the service manager made.
    assert (manager.place / "a").exists() and (manager.place / "c").exists()
    manager.start(sockets=(agent,), LISTEN_FDS=1)
    with Client(manager.place / "a", account.uid, account.gid) as again:
        again.call("tools.list")


def test_a_socket_for_cloister_egress(managers):
    manager = managers()
    account = manager.area.account
    agent, egress = manager.listen("a"), manager.listen("e")
    manager.start(sockets=(agent, egress), LISTEN_FDS=2, LISTEN_FDNAMES="agent:egress",
                  config=f"[cloister]\negress_user = {account.name}\n[tenant t]\nusers = {account.name}\n"
                  "managed = yes\nnetwork = egress\n")
    with Client(manager.place / "a", account.uid, account.gid) as client, \
            contextlib.closing(ScriptedEgress(manager.place / "e", account)) as connected:
        assert client.call("workspace.open", {"workspace": "one"})["isolation"]["network"] == {"egress": []}
        assert connected.hear()[0] == scripted_egress.OPEN


@as_root
def test_a_service_starts_no_cloister_egress_itself(managers):
    """Its unit has no network, which a child would share."""
    manager = managers()
    account = manager.area.account
    account.give_ids()
    with tempfile.TemporaryDirectory() as roots_own:
        os.chmod(roots_own, 0o755)
        config = pathlib.Path(roots_own, "c.conf")
        config.write_text(f"[cloister]\nmode = system\n[tenant t]\nusers = {account.name}\nmanaged = yes\nnetwork = egress\n")
        manager.start("--config", str(config), sockets=(manager.listen("a"),), LISTEN_FDS=1)
        assert manager.process.wait(120) == 1
    assert "FileDescriptorName=egress" in manager.log()


def test_what_was_passed_to_another_process_is_closed(managers):
    manager = managers()
    agent = manager.listen("a")
    manager.start("--agent-socket", str(manager.place / "own"), sockets=(agent,), pid=1, LISTEN_FDS=1,
                  LISTEN_FDNAMES="agent")
    manager.until("READY=1")
    passed = os.fstat(agent.fileno()).st_ino
    with contextlib.closing(Client(manager.place / "own", manager.area.account.uid, manager.area.account.gid)):
        assert f"socket:[{passed}]" not in [procfs_link(manager.process.pid, fd)
                                           for fd in os.listdir(f"/proc/{manager.process.pid}/fd")]


@pytest.mark.parametrize("ours", [True, False])
def test_lines_for_the_journal_have_their_priority(managers, ours):
    """JOURNAL_STREAM names the device and inode of the journal's socket. cloisterd prefixes priorities only if its stderr
    is that file. systemd.exec(5)"""
    manager = managers()
    log = manager.place / "log"
    log.touch()
    stat = log.stat()
    manager.start("--agent-socket", str(manager.place / "s"),
                  JOURNAL_STREAM=f"{stat.st_dev}:{stat.st_ino + (not ours)}")
    manager.until("READY=1")
    assert manager.log().splitlines()[-1] == (
        "<6>" if ours else "cloisterd: ") + f"listening on {manager.place / 's'}"


def entry_of(datagram):
    """Parses an entry of systemd's native journal protocol. Returns its fields."""
    fields = {}
    while datagram:
        name, _, rest = datagram.partition(b"\n")
        size = int.from_bytes(rest[:8], "little")
        fields[name.decode()] = rest[8:8 + size].decode()
        assert rest[8 + size:9 + size] == b"\n"
        datagram = rest[9 + size:]
    return fields


@pytest.fixture
def journal(area):
    """A socket in the journal's place. Returns it and a launcher whose mounts show it there."""
    place = area.new_directory("journal")
    receiving = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiving.bind(str(place / "socket"))
    os.chmod(place / "socket", 0o666)
    receiving.settimeout(120)
    script = f'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && mount --bind {place} /run/systemd/journal && exec "$@"'
    yield receiving, ["unshare", "-m", "/bin/sh", "-c", script, "sh"]
    receiving.close()


@as_root
def test_the_journal_gets_entries_with_fields(managers, journal, area):
    receiving, launcher = journal
    manager = managers()
    name = area.account.name
    log = manager.place / "log"
    log.touch()
    stat = log.stat()
    tenant = f"[tenant t]\nusers = {name}\nmanaged = yes\n"
    manager.start("--agent-socket", str(manager.place / "s"), "--control-socket", str(manager.place / "c"),
                  config=f"[cloister]\nadmin_group = {name}\n{tenant}", before=launcher,
                  JOURNAL_STREAM=f"{stat.st_dev}:{stat.st_ino}")

    def until(message):
        while True:
            entry = entry_of(receiving.recv(1 << 16))
            if message in entry["MESSAGE"]:
                return entry
    listening = until("listening on")
    assert listening["PRIORITY"] == "6" and listening["SYSLOG_IDENTIFIER"] == "cloisterd"
    account = area.account
    with Client(manager.place / "s", account.uid, account.gid) as client, \
            Client(manager.place / "c", account.uid, account.gid) as control:
        client.call("workspace.open", {"workspace": "w"})
        client.begin("run_command", {"command": "sleep 600"})
        assert procfs.eventually(lambda: control.call("commands")["calls"])
        control.call("kill", {"workspace": "w", "tenant": "t"})
        entry = until("ended 1 calls")
        assert (entry["CLOISTER_UID"], entry["CLOISTER_TENANT"], entry["CLOISTER_WORKSPACE"]) == (str(account.uid), "t", "w")
        assert "CLOISTER_CALL" not in entry
        (manager.place / "c.conf").write_text("[cloister]\nno_such_key = 1\n" + tenant)
        manager.process.send_signal(signal.SIGHUP)
        entry = until("no_such_key")
        assert (entry["PRIORITY"], entry["CONFIG_FILE"], entry["CONFIG_LINE"]) == ("3", str(manager.place / "c.conf"), "2")
    # Lines that the journal took are not on stderr. Lines that it does not take are.
    assert "listening" not in manager.log()
    receiving.close()
    manager.process.send_signal(signal.SIGTERM)
    assert manager.process.wait(120) == 0
    assert "<6>shutting down" in manager.log()


def procfs_link(pid, fd):
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except FileNotFoundError:
        return ""
