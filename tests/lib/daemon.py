# SPDX-License-Identifier: Apache-2.0
"""Runs the real cloisterd as an unprivileged user, and makes such users."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

import delegation as delegated
import procfs
import pytest
import template_lower
from cloister_client import Client, acting_as

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
PROGRAMS = ("cloisterd", "cloister-spawner", "cloister-worker", "cloister-files", "cloister-unpack", "cloister-egress", "cloister",
            "cloisterctl")
AM_ROOT = os.getuid() == 0
# Each cloisterd gets a cgroup of its own, if the machine allows that.
DELEGATED = os.environ.get("CLOISTER_DELEGATED") == "1" and not delegated.reason_against()
WITHOUT = os.environ.get("CLOISTER_WITHOUT")  # a feature that every program runs without: tests/lib/without.c
SYSTEM = os.environ.get("CLOISTER_MODE") == "system"  # run every daemon that has no configuration of its own in system mode
# Workspaces of the suites are overlays: "1", as those with checkpoints are, or "memory", as forks of a template in memory are.
LAYERS = os.environ.get("CLOISTER_LAYERS")
TEMPLATE_DIRECTORIES = 4000  # of an area's workspaces, which come from the template
INSTALLED = os.environ.get("CLOISTER_SERVICE") == "1"  # tests/vm: use the package's service
user_mode_only = pytest.mark.skipif(SYSTEM, reason="what the test does there is user mode's")
IDS = 1000  # in an account's subordinate range


# Read at import, because a test may later act as a user that cannot reach the checkout.
SANITIZED = b"__asan_init" in (BUILD / "bin" / "cloisterd").read_bytes()


def is_sanitized():
    return SANITIZED


def where_is(program):
    """Returns the program of this build, or the installed one where the suites run against the package's service."""
    if not INSTALLED:
        return BUILD / "bin" / program
    return next(path for place in ("sbin", "bin", "libexec/cloister")
                for path in [pathlib.Path("/usr", place, program)] if path.exists())


class Account:
    """A user for a daemon or a tenant. As root the tests make one; otherwise it is the user that runs them."""

    def __init__(self, suffix=""):
        self.made = AM_ROOT
        if not self.made:
            self.name = pwd.getpwuid(os.getuid()).pw_name
        else:
            self.name = f"cloister-test-{os.getpid()}{suffix}"
            subprocess.run(
                ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/",
                 "--shell", "/usr/sbin/nologin", self.name], check=True)
        entry = pwd.getpwnam(self.name)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid

    ranges = 0

    def give_ids(self, count=IDS):
        """Gives the user a subordinate range of ids. Removing the user removes the range."""
        if getattr(self, "first", None):
            return
        self.first = 1_000_000_000 + (os.getpid() % 100_000 * 8 + Account.ranges) * IDS * 2
        self.first_gid = self.first + IDS
        self.given, self.count = set(), count
        Account.ranges += 1
        subprocess.run(
            ["usermod", "--add-subuids", f"{self.first}-{self.first + count - 1}", "--add-subgids",
             f"{self.first_gid}-{self.first_gid + count - 1}", self.name], check=True)

    def give_away(self, path):
        """Gives the directory to an id of the range that owns no other directory. Returns the id."""
        n = next(n for n in range(1, self.count) if n not in self.given)
        with acting_as(os.getuid()):
            os.lchown(path, self.first + n, self.first_gid + n)
        self.note_given(path)
        return n

    def note_given(self, path):
        """Reserves the id that owns the directory, so that give_away() gives it to no other."""
        self.given.add(os.lstat(path).st_uid - self.first)

    def as_user(self):
        """Returns arguments for subprocess that start a program as this user, without other groups."""
        if not self.made:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def become(self):
        """Returns the words before a program's that start it as this user. Python would have to fork for the arguments
        of as_user(), and copying its page tables takes ten times the time of setpriv(1)."""
        if not self.made:
            return []
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--"]

    def own(self, path):
        if self.made:
            os.lchown(path, self.uid, self.gid)

    def processes(self):
        return procfs.of_user(self.uid)

    def remove(self):
        if not self.made:
            return
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # userdel(8) refuses even while only zombies exist, which the host's init reaps later.
        procfs.eventually(lambda: not self.processes(), 60)
        subprocess.run(["userdel", self.name], check=True, capture_output=True)


def environment(home):
    """Returns the environment of cloister's programs: nothing from the caller except sanitizer options."""
    options = [os.environ["ASAN_OPTIONS"]] if "ASAN_OPTIONS" in os.environ else []
    # LeakSanitizer traces its own process, which a confined process cannot do. AddressSanitizer's
    # quarantine of freed memory would look like growth.
    options += ["detect_leaks=0", "quarantine_size_mb=1", "thread_local_quarantine_size_kb=16"]
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "ASAN_OPTIONS": ":".join(options),
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def fill(place):
    """Fills the disk of the directory; returns the file that does, which frees it again when it is removed."""
    filler = place / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


class Area:
    """A directory with a copy of the programs. The user owns it and can reach it."""

    def __init__(self, account):
        self.account = account
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test."))
        self.path.chmod(0o755)
        account.own(self.path)
        self.bin = self.directory("bin")
        for program in PROGRAMS:
            shutil.copy(where_is(program), self.bin)
        if not INSTALLED:
            shutil.copy(BUILD / "bin" / "egress-sets", self.bin)
        self.home = self.directory("home")
        self.number = 0
        self.delegations = []
        self.roots_own = []  # directories of the configurations of its daemons in system mode
        self.overlays, self.workspaces = [], "ws"
        if LAYERS:
            self.lay_over()

    def take_liars(self):
        """Workers and files processes that are started from now on send what a test tells them to: liar.py."""
        for program in ("cloister-worker", "cloister-files"):
            self.put_in_place_of(program, "stand_in")
            shutil.copy(ROOT / "tests" / "lib" / "liar.py", self.bin / f"{program}.py")
        shutil.copy(ROOT / "tests" / "lib" / "wire.py", self.bin)

    def tool(self, name):
        """Copies a program of tests/lib to a place that the user can reach, unlike perhaps the checkout."""
        if not (self.path / name).exists():
            shutil.copy(BUILD / "tests" / name, self.path)
        return self.path / name

    def put_in_place_of(self, program, other):
        (self.bin / program).rename(self.bin / f"{program}.real")
        shutil.copy(BUILD / "tests" / other, self.bin / program)

    def directory(self, name):
        path = self.path / name
        with acting_as(os.getuid()):
            if not path.exists():  # a template's is the user's
                path.mkdir()
                self.account.own(path)
        return path

    @contextlib.contextmanager
    def disk(self, size):
        """Mounts a tmpfs for the user; the size is written as in tmpfs(5). Needs root."""
        place = self.new_directory("disk")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},uid={self.account.uid},mode=0700", "tmpfs", place],
                       check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", "-l", place], check=True)

    def new_directory(self, prefix="ws"):
        self.number += 1
        path = self.directory(f"{prefix}{self.number}" if prefix != "ws" else f"{self.workspaces}{self.number}")
        if SYSTEM:
            # The tests act as the ids of the workspaces, which must enter it.
            with acting_as(os.getuid()):
                path.chmod(0o777)
        return path

    def lay_over(self):
        """Mounts an overlay, with the options of worker/spawner/cell/overlay_mounter.c, for the directories that become
        workspaces. A running spawner may not see mounts that are made later. Needs root."""
        parts = [self.directory(part) for part in ("lower", "upper", "work", "over")]
        if LAYERS == "memory":
            self.lay_memory(parts[0])
        options = "userxattr,index=off,metacopy=off,redirect_dir=nofollow"
        options += ",lowerdir={},upperdir={},workdir={}".format(*parts)
        with acting_as(os.getuid()):
            subprocess.run(["mount", "-t", "overlay", "-o", f"nosuid,nodev,{options}", "layers", parts[-1]], check=True)
        self.overlays.append(parts[-1])
        self.workspaces = "over/ws"

    def lay_memory(self, lower):
        """Mounts a template in memory as the lower layer. The workspaces' own directories are the template's."""
        place = self.directory("template")
        names = [f"ws{i}" for i in range(1, TEMPLATE_DIRECTORIES)]
        with acting_as(os.getuid()):
            template_lower.mount(place, lower, self.account.uid, self.account.gid, names)
        self.overlays += [place, lower]

    def start(self, words, launcher=None, without=None, **keywords):
        """Starts one of cloister's programs as the user, directly or by a launcher, possibly without a kernel feature."""
        keywords.setdefault("cwd", self.path)
        keywords.setdefault("env", environment(self.home))
        program, *rest = words
        words = [self.bin / program, *rest]
        without = without or WITHOUT
        if without:
            words = [self.tool("without"), without, *words]
        if DELEGATED and not launcher and program == "cloisterd":
            with acting_as(os.getuid()):
                made = delegated.Delegation(self.account, f"{self.path.name}-{len(self.delegations)}")
            self.delegations.append(made)
            launcher = self.delegations[-1].launcher()
        if not launcher and "preexec_fn" in keywords:  # which may set what setpriv(1) would need
            keywords.update(self.account.as_user())
        elif not launcher:
            launcher = self.account.become()
        with acting_as(os.getuid()):
            return subprocess.Popen([*(launcher or []), *words], **keywords)

    def run(self, *words, **keywords):
        """Runs one of cloister's programs as the user, and returns it completed."""
        with self.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, **keywords) as process:
            stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def private(self, workspace, *words, **keywords):
        """Runs `cloister --private --workspace WORKSPACE WORDS` as the user."""
        return self.run("cloister", "--private", "--workspace", str(workspace), *words, **keywords)

    def remove(self):
        for delegation in self.delegations:
            delegation.remove()
        for path in reversed(self.overlays):
            subprocess.run(["umount", "-l", path], check=True)
        with acting_as(os.getuid()):
            for path in self.roots_own:
                shutil.rmtree(path, ignore_errors=True)
        # A daemon that was killed may leave a tree that is deeper than shutil.rmtree() can recurse.
        subprocess.run(["rm", "-rf", "--", self.path], check=True)


def system_config(area, *lines):
    """Returns a configuration of system mode that gives the area's user what user mode gives it without a file."""
    return "\n".join(["[cloister]", "mode = system", *lines, f"[tenant {area.account.name}]",
                      f"users = {area.account.name}", "managed = yes", f"roots = {area.path}", ""])


class Daemon:
    """A running cloisterd with its own sockets and state. @config is the text of its file, or None. In system mode the
    file is in a directory that root owns. With @former, another one that runs, it takes over from that."""

    def __init__(self, area, config=None, system=None, state=None, as_root=False,
                 launcher=None, former=None, **keywords):
        self.area = area
        self.system = SYSTEM and config is None if system is None else system
        self.account = area.account
        self.path = area.new_directory("daemon")
        self.socket = former.socket if former else self.path / "agent.sock"
        self.control_socket = former.control_socket if former else self.path / "control.sock"
        self.state = former.state if former else state or self.path / "state"
        self.log_path = self.path / "log"
        self.config = self.path / "cloister.conf"
        self.roots_own = None
        if self.system:
            self.account.give_ids()
            config = config or system_config(area)
            with acting_as(os.getuid()):
                self.roots_own = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test."))
                self.roots_own.chmod(0o755)
            area.roots_own.append(self.roots_own)  # a test may kill the daemon and not stop it
            self.config = self.roots_own / "cloister.conf"
        words = ["cloisterd", "--agent-socket", str(self.socket), "--state-dir", str(self.state),
                 "--control-socket", str(self.control_socket)]
        if config is not None:
            with acting_as(os.getuid()):
                self.config.write_text(config)
                self.config.chmod(0o644)  # whatever umask the tests run with
            words += ["--config", str(self.config)]
        if former:
            words.append("--take-over")
        with open(self.log_path, "wb") as log:
            self.process = area.start(
                words, launcher=["env"] if as_root else launcher,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, **keywords)
        self.pid = self.process.pid
        self.clients = []
        ready = procfs.eventually(
            lambda: "listening" in self.log() or self.process.poll() is not None, 60)
        if self.process.poll() is not None:
            self.remove_roots_own()
        assert ready and self.process.poll() is None, self.log()

    def remove_roots_own(self):
        if self.roots_own:
            with acting_as(os.getuid()):
                shutil.rmtree(self.roots_own, ignore_errors=True)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def connect(self, account=None, groups=()):
        """Returns a client that acts as the daemon's user, or as @account."""
        account = account or self.account
        client = Client(self.socket, account.uid, account.gid, groups)
        self.clients.append(client)
        return client

    def control(self, account=None, groups=()):
        """Returns a client of the control socket that acts as the daemon's user, or as @account."""
        account = account or self.account
        client = Client(self.control_socket, account.uid, account.gid, groups)
        self.clients.append(client)
        return client

    def spares_ready(self):
        """Returns how many spare cells cloisterd could assign now. Their processes may exist before cloisterd knows of
        them."""
        with self.control() as control:
            return int(control.call("metrics")["text"].split("\ncloister_spare_cells ")[1].split()[0])

    def ctl(self, *words):
        """Runs cloisterctl as the user, and returns it completed."""
        return self.area.run("cloisterctl", "--socket", str(self.control_socket), *words)

    def reload(self, config):
        """Changes the configuration and sends SIGHUP. Returns whether it was accepted."""
        before = self.log()
        with acting_as(os.getuid()):
            self.config.write_text(config)
        self.process.send_signal(signal.SIGHUP)
        said = procfs.eventually(lambda: [
            line for line in self.log()[len(before):].splitlines() if "reloaded" in line], 20)
        assert said, self.log()
        return "is reloaded" in said[0]

    def new_directory(self):
        """Makes a directory that the daemon opens as a workspace."""
        path = self.area.new_directory()
        if self.system:
            self.account.give_away(path)
        return path

    def new_workspace(self, client, **params):
        """Makes a directory, opens it as the client's workspace, and returns its path."""
        path = self.new_directory()
        client.call("workspace.open", {"root": str(path), **params})
        return path

    def filters_before(self):
        """Returns the number of system call filters under which cloisterd was started."""
        return 0

    def spawner(self):
        (pid,) = procfs.children(self.pid)
        return pid

    def kill(self, pid):
        """Kills a process as the daemon's user, who may do so at any time."""
        with acting_as(self.account.uid):
            os.kill(pid, signal.SIGKILL)

    def only(self, name):
        """Waits until the spawner has exactly one child of that name, and returns it. A spare cell's processes have the
        names of others for a moment, and a cell's last for a moment after its end."""
        with acting_as(os.getuid()):
            def found():
                pids = [pid for pid in procfs.children(self.spawner()) if procfs.name(pid) == name]
                return pids if len(pids) == 1 else []
            (pid,) = procfs.eventually(found)
        return pid

    def unfinished(self):
        """The copies of templates and forks that are being made or cleared. os.walk() passes over what goes meanwhile."""
        with acting_as(os.getuid()):
            return [f"{top}/{name}" for place in ("templates", "workspaces") for top, names, _ in os.walk(self.state / place)
                    for name in names if name.startswith(".unfinished-")]

    def look_at_cells(self):
        """Returns the pairs (worker, files) of complete cells in the order of their start, and the processes whose
        other process is just starting or has just ended. A process that is ending itself is in neither list."""
        namespaces = {}
        with acting_as(os.getuid()):
            for pid in procfs.children(self.spawner()):
                try:
                    if procfs.is_going(pid):
                        continue
                    # A spare cell's process is called cloister-spare, except in its first moment, when it still has the
                    # host's root.
                    coming = os.path.samefile(f"/proc/{pid}/root", "/")
                    name = procfs.name(pid)
                    namespace = pid if coming else procfs.namespace(pid, "user")
                except (FileNotFoundError, ProcessLookupError):  # the process has ended
                    continue
                except PermissionError:  # the process is still a copy of the spawner, which only root may inspect
                    namespace, name = pid, ""
                if name not in ("cloister-spare", "cloister-layers"):
                    namespaces.setdefault(namespace, {}).setdefault(name, []).append(pid)
        pairs, others = [], []
        for named in namespaces.values():
            if {name: len(pids) for name, pids in named.items()} == {"cloister-worker": 1, "cloister-files": 1}:
                pairs.append((*named["cloister-worker"], *named["cloister-files"]))
            else:
                others.append(named)
        return pairs, others

    def cells(self):
        """Returns the pairs (worker, files) of all open workspaces in the order of their start. A workspace that was
        just closed may still be among them. For the cell of one workspace use cell_of()."""
        seen = []

        def complete():
            seen[:] = self.look_at_cells()
            return not seen[1]
        assert procfs.eventually(complete), seen
        return seen[0]

    def cell_of(self, path):
        """Returns (worker, files) of the open workspace whose directory on the host is @path."""
        def has_it(files):
            try:
                return os.path.samefile(f"/proc/{files}/root", path)
            except (FileNotFoundError, ProcessLookupError):
                return False

        def found():
            pairs, _ = self.look_at_cells()
            with acting_as(os.getuid()):
                return [pair for pair in pairs if has_it(pair[1])]
        pairs = procfs.eventually(found)
        assert len(pairs) == 1, (path, pairs, self.look_at_cells())
        return pairs[0]

    def settled_fds(self, pid=None):
        """Returns the number of descriptors of cloisterd, or of the process @pid, after it was seen asleep twice,
        neither stopped nor ready to run. Spare cells have been made by then."""
        last, pid = [None], pid or self.pid

        def same():
            state = procfs.status(pid).get("State")
            assert state, self.log()
            before, last[0] = last[0], len(procfs.fds(pid)) if state[0] == "S" else None
            return before is not None and before == last[0]
        assert procfs.eventually(same, 60, 0.3)
        return last[0]

    def check_log(self):
        for complaint in ("Sanitizer", "runtime error:"):
            assert complaint not in self.log(), self.log()

    def stop(self):
        """Sends SIGTERM. Returns the exit status."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            returncode = self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.remove_roots_own()
        self.check_log()
        return returncode
