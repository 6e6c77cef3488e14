# SPDX-License-Identifier: Apache-2.0
"""cloisterd under strace(1) while it is used for all that it does: after it has locked itself down it starts nothing, and names
nothing inside a workspace."""

import re
import shutil
import signal
import subprocess

import procfs
import pytest
from cloister_client import RpcError
from daemon import AM_ROOT, Daemon, is_sanitized

pytestmark = [
    pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed"),
    pytest.mark.skipif(not AM_ROOT, reason="needs root: cloisterd lets nobody else trace it"),
    pytest.mark.skipif(is_sanitized(), reason="a sanitizer has calls of its own"),
]

# System calls that take a path.
NAMING = {
    "open", "openat", "openat2", "creat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
    "readlinkat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
    "symlinkat", "chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "truncate", "utimensat", "mknod", "mknodat", "chdir",
    "chroot", "statfs", "getxattr", "setxattr", "lgetxattr", "listxattr", "name_to_handle_at", "open_by_handle_at", "open_tree",
    "mount", "umount2", "move_mount", "inotify_add_watch", "fanotify_mark", "bind", "connect", "swapon", "acct", "mq_open"}
STARTING = {"execve", "execveat", "fork", "vfork", "clone", "clone3", "unshare", "setns", "ptrace", "socket", "io_uring_setup", "memfd_create"}
CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")


class Traced:
    def __init__(self, daemon, log):
        self.log = log
        self.tracer = subprocess.Popen(
            ["strace", "-f", "-y", "-s", "4096", "-o", str(log), "-p", str(daemon.pid)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert "attached" in self.tracer.stderr.readline()
        assert procfs.eventually(lambda: procfs.status(daemon.pid)["TracerPid"] != "0")

    def stop(self):
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.communicate(timeout=60)

    def calls(self):
        """Returns (name, rest of the line) of each system call."""
        found = [CALL.match(line) for line in self.log.read_text(errors="replace").splitlines()]
        return [match.groups() for match in found if match]


def use_everything(daemon, path):
    """Calls every tool, with and without success, and every method of both sockets."""
    client = daemon.connect()
    client.call("workspace.open", {"root": str(path)})
    for directory in ("a", "a/b"):
        client.use("write_file", path=f"{directory}/inside-file", content="inside-text\n" * 1000)
    client.use("read_file", path="a/inside-file", start_line=2, end_line=3)
    client.use("list_directory", path=".", recursive=True)
    client.use("search_files", pattern="inside-t.xt")
    client.run("mkdir inside-made; ln -s /etc/passwd inside-link; touch inside-file; cat; echo err >&2; sleep 0.01", {"stdin": "x" * 100000})
    for name in ("../inside-out", "inside-link", "no-such-inside", "/etc/passwd"):
        client.fail("read_file", path=name)
    client.observe("run_command", {"command": "sleep 600"}, {"timeout_ms": 200})
    number = client.begin("run_command", {"command": "yes"}, {"stream": True})
    assert procfs.eventually(lambda: client.receive())
    client.cancel(number)
    client.wait(number)
    client.call("tools.list", {"format": "mcp"})
    client.call("workspace.open", {"workspace": "managed-one"})
    client.use("write_file", path="inside-file", content="x")
    client.call("workspace.checkpoint", {"label": "before"})
    client.use("write_file", path="inside-file", content="y")
    client.call("workspace.checkpoints")
    client.call("workspace.rollback", {"to": 1})
    client.call("workspace.freeze", {"template": "template-one"})
    for name in client.call("workspace.fork", {"from": "template-one", "count": 2})["workspaces"]:
        client.call("workspace.remove", {"workspace": name})
    client.call("workspace.close", {"workspace": "managed-one"})
    assert procfs.eventually(lambda: len(daemon.cells()) == 1)
    client.call("workspace.list")
    client.call("workspace.remove", {"workspace": "managed-one"})
    for root in (f"{path}/inside-link", f"{path}/no-such", "/", str(daemon.state)):
        with pytest.raises(RpcError):
            client.call("workspace.open", {"root": root, "kind": "directory"})
    for method in ("status", "doctor", "workspaces", "commands", "tenants", "templates"):
        with daemon.control() as control:
            control.call(method)
    with daemon.control() as control:
        control.call("template.remove", {"template": "template-one"})
    client.close()



def test_names_and_starts(area, account, tmp_path):
    config = (f"[cloister]\nadmin_group = {account.name}\n[tenant t]\nusers = {account.name}\nmanaged = yes\nroots = {area.path}\n")
    daemon = Daemon(area, config=config)
    path = area.new_directory("traced")
    traced = Traced(daemon, tmp_path / "log")
    use_everything(daemon, path)
    assert daemon.reload(config + "calls = 100\n")
    assert daemon.stop() == 0
    traced.stop()
    calls = traced.calls()
    assert len(calls) > 500 and {"epoll_wait", "sendmsg", "recvmsg"} & {name for name, _ in calls}

    started = [(name, rest) for name, rest in calls if name in STARTING]
    assert not [call for call in started if not (call[0] == "clone" and "CLONE_THREAD" in call[1]) and call[0] != "clone3"], started
    assert all("ENOSYS" in rest for name, rest in started if name == "clone3")

    named = [(name, rest) for name, rest in calls if name in NAMING]
    assert named
    for name, rest in named:
        assert is_known(name, rest, area, daemon), (name, rest)
    text = "\n".join(rest for _, rest in named)
    assert "inside" not in text.replace(f"{path}/inside-link", "")
    # A client names a directory; the spawner sends a descriptor, of which cloisterd asks only kernel data.
    assert [rest for name, rest in named if str(path) in rest]
    assert all("AT_STATX_DONT_SYNC" in rest for name, rest in named if name == "statx" and str(path) in rest)
    assert not [rest for name, rest in named if name in ("openat", "newfstatat") and str(path) in rest]


def is_known(name, rest, area, daemon):
    """The state, the configuration and a tenant's root below their own directories, sockets that are removed, and handles of directories
    that a client names, which others have looked up."""
    config, state = re.escape(str(daemon.path)), re.escape(str(daemon.state))
    # A tenant's workspaces, and the layers of one: not what is in a workspace or in a layer.
    place = rf'\d+<{state}/workspaces/[^/>]*(/\.layers-[^/>]*(/[^/>]*)?)?>'
    # A tenant's templates and what is recorded of their sizes, and not what is in one.
    templates = rf'\d+<{state}/templates(/[^/>]*)?>'
    size = rf'\d+<{state}/templates/[^/>]*/\.size-[^/>]*>'
    # The properties of a tenant's workspaces, which are files of cloisterd.
    properties = rf'\d+<{state}/properties(/[^/>]*)?>'
    known = [
        ("openat|mkdirat", rf'\d+<{state}/workspaces>, "\.\./properties"'),
        ("openat|mkdirat|unlinkat|newfstatat", rf'{properties}, "[^"/]*"'),
        ("renameat2?", rf'{properties}, "[^"/]*", {properties}, "[^"/]*"'),
        ("openat", rf'\d+<{state}/workspaces>, "\.\./templates"'),
        ("openat|mkdirat|unlinkat|newfstatat|statx", rf'{templates}, "[^"/]*"'),
        ("openat|mkdirat|unlinkat|newfstatat", rf'{size}, "[^"/]*"'),
        ("renameat2?", rf'{templates}, "[^"/]*", {templates}, "[^"/]*"'),
        ("openat", rf'AT_FDCWD(<[^>]*>)?, "(/|{re.escape(str(area.path))})", O_RDONLY\|[A-Z_|]*O_PATH[A-Z_|]*\b'),
        ("openat", rf'\d+<{config}>, "cloister\.conf(\.d)?", '),
        ("openat", rf'\d+<{config}/cloister\.conf\.d>, '),
        ("openat", r'\d+</etc>, "(passwd|group)", O_RDONLY'),
        ("openat|mkdirat|unlinkat|newfstatat", rf'\d+<{state}/workspaces>, "[^"/]*"'),
        ("openat|mkdirat|unlinkat|newfstatat|statx", rf'{place}, "[^"/]*"'),
        ("renameat2?", rf'{place}, "[^"/]*", {place}, "[^"/]*"'),
        ("newfstatat", r'\d+<[^>]*>, "", .*AT_EMPTY_PATH'),
        ("statx", r'\d+<[^>]*>, "", .*AT_EMPTY_PATH'),
        ("readlink", r'"/proc/self/fd/\d+"'),
        ("readlinkat", r'AT_FDCWD(<[^>]*>)?, "/proc/self/fd/\d+"'),
        ("unlink", rf'"{config}/[a-z]+\.sock"'),
    ]
    return any(re.fullmatch(names, name) and re.match(pattern, rest) for names, pattern in known)


def test_the_test_sees_what_it_looks_for(area, tmp_path):
    """The checks find a process that opens and starts something."""
    log = tmp_path / "log"
    subprocess.run(["strace", "-f", "-y", "-s", "4096", "-o", str(log), "sh", "-c", "cat /etc/passwd; true | cat"],
                   check=True, stdout=subprocess.DEVNULL)
    traced = Traced.__new__(Traced)
    traced.log = log
    names = {name for name, _ in traced.calls()}
    assert {"execve", "openat"} <= names and names & {"clone", "clone3", "vfork", "fork"}
