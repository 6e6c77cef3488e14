# SPDX-License-Identifier: Apache-2.0
"""Attacks from a workspace whose commands are root in a user namespace of their own (root_inside): by commands, and by a
worker that was taken over."""

import ctypes
import json
import os
import re

import pytest

import procfs
from cloister_client import acting_as
from daemon import Area, Daemon
from inside import config, forked, starter
from namespaces import in_namespaces, libc
from small_system import add_python

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make the images for another account")

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
INSIDE = 9  # FD_WORKER_INSIDE
PYTHON = "python3 -I -"  # the program is standard input


@pytest.fixture(params=["user", "system"])
def begin(start_daemon, area, request):
    start = starter(start_daemon, area, request.param)
    return lambda **keys: start(fill=add_python, **keys)


# Each is tried by itself, in a process of its own. What it prints must be the same with the key and without.
ATTEMPTS = {
    "mount": "call('mount', b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
    "mount as an init": "call('mount', b'tmpfs', b'/tmp', b'tmpfs', 14, None)",
    "bind": "call('mount', b'/etc', b'/tmp', None, 4096, None)",
    "umount": "call('umount2', b'/proc', 2)",
    "open_tree": "call('syscall', 428, -100, b'/', 1)",
    "fsopen": "call('syscall', 430, b'tmpfs', 0)",
    "pivot_root": "call('syscall', 155, b'/', b'/')",
    "chroot": "call('chroot', b'/')",
    **{f"unshare {flag:x}": f"call('unshare', {flag})" for flag in (
        0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80, 0x10020000)},
    "clone of a user namespace": "call('syscall', 56, 0x10000000 | 17, 0, 0, 0, 0)",
    "setns of its own": "call('setns', os.open('/proc/self/ns/user', 0), 0)",
    "setns of its mounts": "call('setns', os.open('/proc/self/ns/mnt', 0), 0)",
    "setns with an argument more": "call('syscall', 308, os.open('/proc/self/ns/user', 0), 0x10000000, 7)",
    "setns of its init's": "call('setns', attempt(os.open, '/proc/1/ns/user', 0), 0)",
    "sethostname": "call('sethostname', b'x', 1)",
    "trace the init": "call('ptrace', 16, 1, 0, 0)",
    "seize the init": "call('ptrace', 0x4206, 1, 0, 0)",
    "read the init's memory": "attempt(open, '/proc/1/mem', 'rb')",
    "the init's root": "attempt(os.listdir, '/proc/1/root')",
    "the init's descriptors": "attempt(os.listdir, '/proc/1/fd')",
    "the init's score": "attempt(write, '/proc/1/oom_score_adj', '0')",
    "the init's name": "attempt(write, '/proc/1/comm', 'x')",
    "other processes": "sorted(int(x) for x in os.listdir('/proc') if x.isdigit())[:1]",
    "its own map": "attempt(write, '/proc/self/uid_map', '0 0 1')",
    "its groups": "attempt(os.setgroups, [0])",
    "allow setgroups": "attempt(write, '/proc/self/setgroups', 'allow')",
    **{f"sysctl {name}": f"attempt(write, '/proc/sys/{name}', None)" for name in (
        "kernel/shmmax", "kernel/shmall", "kernel/msgmnb", "kernel/msgmni", "kernel/sem", "fs/mqueue/queues_max",
        "fs/mqueue/msg_max", "kernel/core_pattern", "kernel/hostname", "kernel/ns_last_pid", "net/ipv4/ip_forward",
        "net/ipv4/ping_group_range", "user/max_user_namespaces", "user/max_inotify_watches", "vm/drop_caches")},
    "a set-user-id file": "attempt(os.chmod, make('/tmp/s'), 0o4755)",
    "a device": "attempt(os.mknod, '/tmp/d', 0o20666, os.makedev(1, 1))",
    "a capability of a file": "attempt(os.setxattr, make('/tmp/c'), 'security.capability', bytes.fromhex('0100000202' + '0' * 32))",
    "a trusted attribute": "attempt(os.setxattr, make('/tmp/c'), 'trusted.x', b'x')",
    "chown to another": "attempt(os.chown, make('/tmp/o'), 7, -1)",
    "chgrp to another": "attempt(os.chown, make('/tmp/o'), -1, 7)",
    "chown to the host's root": "attempt(os.chown, make('/tmp/o'), 65534, 65534)",
    "setuid": "attempt(os.setuid, 7)", "setgid": "attempt(os.setgid, 7)", "setresuid": "attempt(os.setresuid, -1, 65534, -1)",
    "a file of the host's root": "attempt(open, '/proc/sys/kernel/core_pattern', 'w')",
    "a raw socket": "attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)",
    "a packet socket": "attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0)",
    "a privileged port": "attempt(lambda: socket.socket().bind(('127.0.0.1', 80)))",
    "a higher priority": "attempt(os.nice, -5)",
    "more open files": "attempt(resource.setrlimit, resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))",
    "a lower score": "attempt(write, '/proc/self/oom_score_adj', '-1000')",
    "keyctl": "call('syscall', 250, 0, -3, 1)",
    "bpf": "call('syscall', 321, 0, 0, 0)",
    "all capabilities": "capset(0xffffffff)",
    "a capability": "capset(1 << 21)",
    "an ambient one": "call('prctl', 47, 2, 21, 0, 0)",
    "a bounding one": "[call('prctl', 23, n, 0, 0, 0) for n in range(41)]",
    "the securebits": "call('prctl', 28, 0, 0, 0, 0)",
    "keep capabilities": "call('prctl', 8, 1, 0, 0, 0)",
    "new privileges": "call('prctl', 38, 0, 0, 0, 0)",
    "exec": "re.findall('Cap.*', os.popen('cat /proc/self/status').read())",
    "exec of its own program": "re.findall('Cap.*', os.popen(sys.executable + ' -c \"print(open(chr(47)+\\'proc/self/status\\').read())\"').read())",
    "the files process": "[x for x in os.listdir('/proc') if x.isdigit() and 'cloister' in (attempt(open, f'/proc/{x}/comm') or '')]",
}
PRELUDE = """
import ctypes, errno, json, os, re, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]

def attempt(function, *arguments):
    try:
        result = function(*arguments)
        return result if isinstance(result, (int, str, list)) else "done"
    except OSError as error:
        return errno.errorcode[error.errno]

def write(path, text):
    with open(path, "r+" if text is None else "w") as file:
        file.write(file.read() if text is None else text)

def make(path):
    open(path, "w").close()
    return path

def capset(bits):
    return call("capset", (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(bits, bits, bits))

out = {}
for name, text in ATTEMPTS.items():
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writer, json.dumps(eval(text)).encode())
        except BaseException as error:
            os.write(writer, json.dumps(type(error).__name__).encode())
        os._exit(0)
    os.close(writer)
    out[name] = json.loads(os.fdopen(reader).read() or '"died"')
    os.wait()
print(json.dumps(out))
"""

def tried(client):
    program = f"ATTEMPTS = {ATTEMPTS!r}\n{PRELUDE}"
    output = client.use("run_command", {"stdin": program}, command=PYTHON, timeout_ms=300000)
    assert output["exit_code"] == 0, output["stderr"]
    return json.loads(output["stdout"])


@pytest.mark.deep("slow")
def test_what_is_refused(begin):
    """Root is refused what other workspaces are refused, and for the same reasons."""
    inside, without = (tried(forked(begin(root_inside=word))[0]) for word in ("yes", "no"))
    assert inside == without
    # None of it was allowed to both.
    assert all(inside[name] == "EPERM" for name in ("mount", "chroot", "unshare 10000000", "setns of its own", "trace the init"))
    assert all(inside[name] in ("EACCES", "EPERM", "ENOENT") for name in inside if name.startswith("sysctl"))
    assert {line.split()[1] for name in ("exec", "exec of its own program") for line in inside[name]} == {"0" * 16}


TRAP = b":trap:M::\\x7fELF::/no/such/interpreter:"


def of_spawner(service, name):
    with acting_as(os.getuid()):
        return [pid for pid in procfs.children(service.spawner()) if procfs.name(pid) == name]


def test_a_worker_that_was_taken_over_traps_no_files_process(begin):
    """In the commands' namespace uid 0 is mapped, so that it may register binary formats there (Linux 6.7). They count for
    its own commands and for nobody else: the files process that is executed next is in the namespace above."""
    service = begin()
    client, _ = forked(service)
    assert client.run("id -u; echo kept > /file")["stdout"] == "0\n"
    (worker,), (files,) = (of_spawner(service, name) for name in ("cloister-worker", "cloister-files"))
    other, _ = forked(service)
    with acting_as(os.getuid()):
        inside = os.open(f"/proc/{worker}/fd/{INSIDE}", os.O_RDONLY)
        end = os.pipe()

    def register():
        os.makedirs("/tmp/formats", exist_ok=True)
        if libc.mount(b"none", b"/tmp/formats", b"binfmt_misc", 0, None) < 0:
            return ctypes.get_errno()
        try:
            with open("/tmp/formats/register", "wb") as file:
                file.write(TRAP)
        except OSError as error:
            return error.errno
        return 0

    def attack(_):
        assert libc.setresgid(1000, 1000, 1000) == 0 and libc.setresuid(1000, 1000, 1000) == 0
        above = register()
        assert libc.setns(inside, CLONE_NEWUSER) == 0 and libc.unshare(CLONE_NEWNS) == 0
        below = register()
        if os.fork() == 0:  # the formats are there as long as the mount is
            os.dup2(end[0], 0)
            os.closerange(1, 1 << 16)
            os.read(0, 1)
            os._exit(0)
        return above, below

    said = in_namespaces(worker, attack)
    try:
        assert len(said) == 2, said
        above, below = said
        assert above != 0, "the workspace's namespace takes formats"
        if tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) >= (6, 7):
            assert below == 0
            assert not client.observe("run_command", {"command": "id -u"})["success"], "nothing is trapped: the test shows nothing"
        with acting_as(os.getuid()):
            os.kill(files, 9)
        assert procfs.vanish([files])
        assert client.use("read_file", path="/file", options={"line_numbers": False})["content"] == "kept\n"
        assert len(of_spawner(service, "cloister-files")) == 2
        assert other.run("id -u")["stdout"] == "0\n"
    finally:
        for fd in (inside, *end):
            os.close(fd)


@pytest.mark.deep("busy")
@pytest.mark.parametrize("enters", [True, False])
def test_no_files_process_joins_a_worker_that_has_entered(account, enters):
    """A worker that was taken over enters the commands' namespace itself; the next files process would be in it."""
    place = Area(account)
    place.take_liars()
    service = None
    try:
        service = Daemon(place, config=config(place, "user"), system=False)
        start = starter(lambda **_: service, place, "user")
        start()
        client = service.connect()
        (name,) = client.call("workspace.fork", {"from": "task", "kind": "rootfs"})["workspaces"]
        with acting_as(os.getuid()):
            (path,) = (service.state / "workspaces").rglob(name)
            lie = path / ".lie-worker"
            lie.write_text("import ctypes, os\nlibc = ctypes.CDLL(None)\n"
                           f"entered = libc.setns({INSIDE}, {CLONE_NEWUSER}) if {enters} else 0\nnote((entered, os.getuid()))\nbe_ready()\nwait()\n")
            account.own(lie)
        client.call("workspace.open", {"workspace": name})
        layers = path.parent / f".layers-{name}"  # what the worker writes is in a layer of the fork
        noted = procfs.eventually(lambda: "".join(note.read_text() for note in layers.rglob(".note-worker")))
        assert noted == f"(0, {0 if enters else 1000})\n"
        (files,) = of_spawner(service, "cloister-files")
        with acting_as(os.getuid()):
            os.kill(files, 9)
        assert procfs.vanish([files])
        assert client.observe("read_file", {"path": "/etc/passwd"})["success"] is not enters
        assert len(of_spawner(service, "cloister-files")) == (0 if enters else 1)
    finally:
        if service:
            service.stop()
        place.remove()
