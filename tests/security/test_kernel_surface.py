# SPDX-License-Identifier: Apache-2.0
"""What a command reaches of the kernel: its files in /proc and /sys, IPC of other namespaces, keys, cgroups."""

import ctypes
import os
import platform

import procfs
import pytest
from cells import Cell
from cloister_client import acting_as
from daemon import AM_ROOT

PYTHON = "/usr/bin/python3 -"
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
ADD_KEY, KEYCTL = (248, 250) if X86 else (217, 219)
USER_KEYRING, SESSION_KEYRING = -4, -3

PRELUDE = """
import ctypes, errno, os, stat
libc = ctypes.CDLL(None, use_errno=True)

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]
"""


@pytest.fixture(scope="module")
def cell(daemon):
    made = Cell(daemon)
    yield made
    made.close()


def probe(cell, text, command=PYTHON):
    output = cell.client.run(command, {"stdin": PRELUDE + text}, timeout_ms=120000)
    assert output["exit_code"] == 0, output
    return output["stdout"].splitlines()


@pytest.mark.skipif(not AM_ROOT, reason="needs root to look into other processes")
def test_the_first_process_of_every_namespace_is_not_dumpable(cell):
    """Root owns its /proc directory, whatever its uid. Checked with a running command, a waiting init and a search."""
    cell.client.run("true")
    number = cell.client.begin("run_command", {"command": "sleep 600"})
    (sleep,) = procfs.eventually(lambda: [pid for pid in procfs.descendants(cell.worker) if procfs.name(pid) == "sleep"])
    firsts = [pid for pid in procfs.descendants(cell.daemon.pid)
              if procfs.status(pid).get("NSpid", "").split()[-1:] == ["1"]]
    (init,) = [pid for pid in procfs.children(cell.worker) if sleep in procfs.descendants(pid)]
    assert {cell.worker, cell.files, init} <= set(firsts)
    for pid in (*firsts, cell.daemon.pid, cell.daemon.spawner()):
        name = procfs.name(pid)
        # A process that waits for its uid map has to be dumpable. No workspace data has been in it or beside it.
        if cell.daemon.system and name == "cloister-spare":
            continue
        try:
            assert os.stat(f"/proc/{pid}/environ").st_uid == 0, name
        except FileNotFoundError:  # an earlier command's
            assert pid not in (cell.worker, cell.files, init), name
    # The command's own directory belongs to the user, so the check can tell the difference.
    assert os.stat(f"/proc/{sleep}/environ").st_uid == cell.path.stat().st_uid
    cell.client.cancel(number)
    cell.client.wait(number)


def test_nothing_of_the_kernels_can_be_written(cell):
    """Tries to open every file of /proc and /sys for writing, except those of the command's own processes."""
    lines = probe(cell, """
count = 0
for top in ('/proc', '/sys'):
    for directory, names, files in os.walk(top):
        if directory == '/proc':
            names[:] = [name for name in names if not name.isdigit() and name not in ('self', 'thread-self')]
        for name in files:
            path = f'{directory}/{name}'
            if os.path.islink(path):
                continue
            count += 1
            fd = attempt(os.open, path, os.O_WRONLY | os.O_NONBLOCK)
            if isinstance(fd, int):
                print(path)
                os.close(fd)
print(count)
""")
    *writable, count = lines
    assert int(count) > 500
    # Any process may register for pressure events. ns_last_pid belongs to the namespace, and setting it takes a capability.
    assert set(writable) <= {"/proc/sys/kernel/ns_last_pid", *(f"/proc/pressure/{name}" for name in ("cpu", "io", "irq", "memory"))}
    assert probe(cell, "print(attempt(lambda: open('/proc/sys/kernel/ns_last_pid', 'wb', buffering=0).write(b'9')))") == ["EPERM"]


@pytest.mark.parametrize("path", [
    "kcore", "kmsg", "timer_list", "sysrq-trigger", "kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo", "mtrr",
    "sched_debug", "acpi", "scsi", "latency_stats", "vmcore", "1/root/etc", "1/cwd", "1/environ", "1/mem", "1/maps", "1/fd", "1/task/1/mem"])
def test_what_cannot_be_read(cell, path):
    (line,) = probe(cell, f"""
path = '/proc/{path}'
print(attempt(lambda: os.listdir(path) if os.path.isdir(path) else open(path, 'rb', buffering=0).read(1)))
""")
    # Every user of the host may read which devices wake the machine; a command must not change it.
    assert line in ("EACCES", "EPERM", "ENOENT", "[]") or (path, line) == ("acpi", "['wakeup']"), line


def test_addresses_of_the_kernel_are_not_told(cell):
    assert probe(cell, """
for path in ('/proc/kallsyms', '/proc/modules', '/proc/iomem', '/proc/ioports'):
    try:
        lines = open(path).read(65536).splitlines()
    except OSError:
        continue
    for line in lines:
        address = line.split()[-1] if path.endswith('modules') else line.split()[0].split('-')[0]
        if int(address, 16) if address.strip('0x') else 0:
            print(path, line)
""") == []


def test_the_hosts_ipc_is_not_there(cell):
    """System V and POSIX objects that the same user made on the host."""
    key, name = 0x63000000 | os.getpid(), f"/cloister-{os.getpid()}"
    with acting_as(cell.daemon.account.uid, cell.daemon.account.gid):
        made = [libc.shmget(key, 4096, 0o1666), libc.semget(key, 1, 0o1666), libc.msgget(key, 0o1666)]
        queue = libc.mq_open(name.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    assert min(*made, queue) >= 0
    with open(f"/dev/shm{name}", "w") as file:
        file.write("cloister-secret")
    os.chmod(f"/dev/shm{name}", 0o666)
    try:
        assert probe(cell, f"""
print(call('shmget', {key}, 4096, 0), call('semget', {key}, 1, 0), call('msgget', {key}, 0))
print(call('mq_open', b'{name}', os.O_RDWR), os.path.exists('/dev/shm{name}'))
print([len(open(f'/proc/sysvipc/{{kind}}').readlines()) for kind in ('shm', 'sem', 'msg')])
print(call('shmctl', {made[0]}, 0, None), call('semctl', {made[1]}, 0, 0), call('msgctl', {made[2]}, 0, None))
""") == ["ENOENT ENOENT ENOENT", "ENOENT False", "[1, 1, 1]", "EINVAL EINVAL EINVAL"]
    finally:
        os.unlink(f"/dev/shm{name}")
        libc.mq_close(queue)
        libc.mq_unlink(name.encode())
        libc.shmctl(made[0], 0, None)
        libc.semctl(made[1], 0, 0)
        libc.msgctl(made[2], 0, None)


def test_ipc_of_the_workspace_works(cell):
    """The calls are allowed; the namespace is another one."""
    assert probe(cell, """
made = call('shmget', 77, 4096, 0o1600)
print(made, call('shmctl', made, 0, None), call('mq_open', b'/own', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0)
""") == ["0 0 True"]


def test_keys_of_others_are_not_there(cell):
    """Keys in the user's keyrings on the host are neither found nor read. In user mode, where commands run as that user,
    /proc/keys lists their names, and not those of root."""
    name = f"cloister-key-{os.getpid()}".encode()
    with acting_as(cell.daemon.account.uid, cell.daemon.account.gid):
        key = libc.syscall(ADD_KEY, b"user", name, b"secret", 6, USER_KEYRING)
    others = libc.syscall(ADD_KEY, b"user", b"cloister-root", b"secret", 6, USER_KEYRING) if AM_ROOT else 0
    if key < 0 or others < 0:
        pytest.skip("the kernel has no keys, or a container's filter forbids them")
    assert probe(cell, f"""
print([line for line in (open('/proc/keys').read() if os.path.exists('/proc/keys') else '').splitlines() if 'cloister-root' in line])
buffer = ctypes.create_string_buffer(64)
print(call('syscall', {KEYCTL}, 11, {key}, buffer, 64), call('syscall', {KEYCTL}, 10, {USER_KEYRING}, b'user', {name!r}, 0),
      call('syscall', {KEYCTL}, 0, {SESSION_KEYRING}, 1))
""") == ["[]", "EPERM EPERM EPERM"]
    with acting_as(cell.daemon.account.uid, cell.daemon.account.gid):
        libc.syscall(KEYCTL, 21, key)


def test_no_cgroup_can_be_written(cell):
    """Tries every file of every cgroup file system that is visible."""
    lines = probe(cell, """
seen = 0
for line in open('/proc/self/mountinfo'):
    left, right = line.split(' - ', 1)
    if not right.startswith('cgroup'):
        continue
    for directory, names, files in os.walk(left.split()[4]):
        for name in files:
            seen += 1
            fd = attempt(os.open, f'{directory}/{name}', os.O_WRONLY)
            if isinstance(fd, int):
                print('written', directory, name)
        print(*[name for name in ['made'] if isinstance(attempt(os.mkdir, f'{directory}/made'), type(None))], end='')
        if seen > 5000:
            break
print(seen)
""")
    assert len(lines) == 1 and lines[0].isdigit(), lines


def test_no_file_gives_another_id(cell):
    """No program with set-id bits or file capabilities gets another id or capability."""
    programs = probe(cell, """
for directory in ('/usr/bin', '/usr/sbin', '/usr/libexec', '/usr/lib/openssh', '/usr/lib/dbus-1.0'):
    for name in (os.listdir(directory) if os.path.isdir(directory) else ()):
        path = f'{directory}/{name}'
        if not os.path.islink(path) and os.path.isfile(path) and (
                os.stat(path).st_mode & 0o6000 or isinstance(attempt(os.getxattr, path, 'security.capability'), bytes)):
            print(path)
""")
    lines = probe(cell, f"""
import subprocess, time
for program in {programs!r}:
    try:
        made = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        continue
    for _ in range(20):
        try:
            status = open(f'/proc/{{made.pid}}/status').read()
        except OSError:
            break
        for line in status.splitlines():
            if line.startswith(('Uid:', 'Gid:')) and set(line.split()[1:]) != {{'1000'}} or line.startswith(
                    ('CapPrm:', 'CapEff:', 'CapAmb:', 'CapBnd:')) and int(line.split()[1], 16):
                print(program, line)
        if made.poll() is not None:
            break
    made.kill()
    made.wait()
""")
    assert lines == []
