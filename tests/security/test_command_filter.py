# SPDX-License-Identifier: Apache-2.0
"""The system call filter of commands: what it refuses, and which programs must run under it."""

import os
import platform
import shutil

import procfs
import pytest
from cells import Cell
from daemon import INSTALLED

PYTHON = "/usr/bin/python3 -"  # the program is standard input

# System calls by number, because the C library may lack functions for them. For their arguments the kernel itself
# would not return EPERM: only the filter does.
PRELUDE = """
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    'The name of the error of a call, or its result.'
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def dies_of(function):
    'The signal that a process ends by which calls it.'
    pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else 'nothing'
"""

X86 = platform.machine() == "x86_64"
# The number on x86-64 and, if it differs, on the architectures that share a table.
NUMBERS = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "unshare": (272, 97), "setns": (308, 268), "sethostname": (170, 161), "setdomainname": (171, 162),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "kcmp": (312, 272),
    "pidfd_getfd": 438, "process_madvise": 440, "mbind": (237, 235), "move_pages": (279, 239),
    "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "acct": (163, 89), "syslog": (103, 116), "quotactl": (179, 60),
    "settimeofday": (164, 170), "clock_settime": (227, 112),
}
ONLY_X86 = {"kexec_file_load": 320, "iopl": 172, "ioperm": 173, "modify_ldt": 154}


def number(name):
    found = NUMBERS.get(name, ONLY_X86.get(name))
    return found if isinstance(found, int) else found[not X86]


def number_of_socket():
    return 41 if X86 else 198


@pytest.fixture(scope="module")
def cell(daemon):
    made = Cell(daemon)
    yield made
    made.close()


def probe(cell, text, command=PYTHON):
    output = cell.client.run(command, {"stdin": PRELUDE + text}, timeout_ms=60000)
    assert output["exit_code"] == 0, output["stderr"]
    return output["stdout"].splitlines()


def test_worker_inits_and_commands_are_under_it(cell):
    number_of = cell.client.begin("run_command", {"command": "sleep 600"})
    (sleep,) = procfs.eventually(lambda: [pid for pid in procfs.descendants(cell.worker) if procfs.name(pid) == "sleep"])
    before = cell.daemon.filters_before()
    for pid in procfs.descendants(cell.worker):
        status = procfs.status(pid)
        if not status and pid not in (cell.worker, sleep):  # an earlier command's
            continue
        assert (status["Seccomp"], int(status["Seccomp_filters"]) - before) == ("2", 2), status["Name"]  # one is the spawner's
    cell.client.cancel(number_of)
    cell.client.wait(number_of)


def test_the_others_are_under_theirs(cell):
    cell.client.use("list_directory", path=".")  # the process that answers has its own
    for pid, filters in ((cell.daemon.spawner(), 1), (cell.files, 2)):
        status = procfs.status(pid)
        assert (status["Seccomp"], int(status["Seccomp_filters"]) - cell.daemon.filters_before()) == ("2", filters), status["Name"]


def test_it_is_reported(cell):
    opened = cell.client.call("workspace.open", {"root": str(cell.path)})
    assert opened["isolation"]["command_filter"] is True


def test_forbidden_calls(cell):
    names = list(NUMBERS) + (list(ONLY_X86) if X86 else [])
    lines = probe(cell, f"for number in {[number(name) for name in names]}: print(call(number, 0, 0, 0, 0, 0, 0))")
    assert dict(zip(names, lines)) == {name: "EPERM" for name in names}


def test_calls_that_nobody_knows_do_not_exist(cell):
    assert probe(cell, "for number in (500, 511, 600, 1 << 20): print(call(number))") == ["ENOSYS"] * 4


def test_memory_that_nobody_may_look_at_does_not_exist(cell):
    """memfd_secret(2) would hide memory from the host's root and from the accounts of memory limits."""
    assert probe(cell, "for flags in (0, os.O_CLOEXEC, 1 << 32): print(call(447, flags))") == ["ENOSYS"] * 3


def test_huge_pages_are_unknown(cell):
    """They are the host's. A program that asks with all flags whether there is memfd_create(2), as Chromium does, expects EINVAL."""
    memfd_create = 319 if X86 else 279
    assert probe(cell, f"""
for flags in (0x4, 0x6, 0xffffffff, ~0):
    print(call({memfd_create}, ctypes.addressof(ctypes.create_string_buffer(b'x')), flags))
""") == ["EINVAL"] * 4


def test_new_namespaces(cell):
    """Refused for clone(2), even with the arguments of the worker's own calls but their secret. clone3(2) is ENOSYS."""
    clone = 56 if X86 else 220
    assert probe(cell, f"""
for bit in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
    for passes in (0, 1, 0x8d1c52e7b3604f9b, 0xb3604f9b8d1c52e7 - (1 << 64)):
        for high in (0, 1 << 40):
            print(call({clone}, bit | high | signal.SIGCHLD, 0, passes, 0, 0))
args = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD)
for passes in (0, 1, 0x8d1c52e7b3604f9b):
    print(call(435, ctypes.addressof(args), ctypes.sizeof(args), passes))
""") == ["EPERM"] * 56 + ["ENOSYS"] * 3


def test_mount_with_a_guessed_pass(cell):
    mount = number("mount")
    assert probe(cell, f"""
text = ctypes.create_string_buffer(b"proc")
path = ctypes.create_string_buffer(b"/proc")
for passes in (0, -1, 0x8d1c52e7b3604f9b):
    a = ctypes.addressof
    print(call({mount}, a(text), a(path), a(text), 14, 0, passes))
""") == ["EPERM"] * 3


def test_the_pass_is_each_workers_own_and_nowhere_to_be_read(cell):
    """The waiting init has the cookie in a register. A command finds it in nothing that it can read about the init."""
    output = probe(cell, """
for name in ('syscall', 'auxv', 'environ', 'stack', 'mem', 'maps'):
    print(attempt(lambda: open(f'/proc/1/{name}', 'rb').read(1)))
""")
    assert set(output) <= {"EACCES", "EPERM"}


def test_threads_and_forks_are_there(cell):
    assert probe(cell, """
made = threading.Thread(target=lambda: print('thread', flush=True))
made.start()
made.join()
print(dies_of(lambda: None))
""") == ["thread", "nothing"]


def test_socket_families(cell):
    """The kernel takes 32 bits of the family. Bits above them must neither admit another family nor refuse one. The unit's
    RestrictAddressFamilies= compares 64 bits and refuses such a call."""
    stopped = "EAFNOSUPPORT" if INSTALLED else None
    socket, pair = (41, 53) if X86 else (198, 199)
    assert probe(cell, f"""
allowed = (1, 2, 10, 16)  # the last for NETLINK_ROUTE, 0
for family in range(50):
    for high in (0, 1 << 32):
        fd = call({socket}, family | high, 2, 0)
        good = isinstance(fd, int) or high and fd == {stopped!r} if family in allowed else fd == 'EPERM'
        if not good:
            print(family, high, fd)
        if isinstance(fd, int):
            os.close(fd)
fds = (ctypes.c_int * 2)()
print(call({pair}, 1, 1, 0, ctypes.addressof(fds)), call({pair}, 2, 1, 0, ctypes.addressof(fds)),
      call({pair}, 40, 1, 0, ctypes.addressof(fds)))
""") == ["0 EPERM EPERM"]


def test_protocols(cell):
    """Only TCP and UDP are allowed of IP. Each argument has 32 bits, and the type also has flags."""
    socket, setsockopt = (41, 54) if X86 else (198, 208)
    assert probe(cell, f"""
allowed = {{(1, 0), (1, 6), (2, 0), (2, 17)}}
flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
for family in (2, 10):
    for kind in range(16):
        for protocol in (0, 1, 2, 4, 6, 17, 33, 41, 50, 58, 115, 132, 136, 143, 255, 256, 262):
            for high in (0, 1 << 32):
                fd = call({socket}, family, kind | flags | high, protocol | high)
                if ((kind, protocol) in allowed) != isinstance(fd, int) or isinstance(fd, str) and fd != 'EPERM':
                    print(family, kind, protocol, high, fd)
                if isinstance(fd, int):
                    os.close(fd)
made = socket.socket()
name = ctypes.create_string_buffer(b'tls')
for high in (0, 1 << 32):
    print(call({setsockopt}, made.fileno(), 6 | high, 31 | high, ctypes.addressof(name), 3))
made.setsockopt(6, 1, 1)
""") == ["EPERM"] * 2


def test_line_disciplines(cell):
    ioctl = 16 if X86 else 29
    assert probe(cell, f"""
leader, follower = os.openpty()
number = ctypes.c_int(3)
for high in (0, 1 << 32):
    print(call({ioctl}, follower, 0x5423 | high, ctypes.addressof(number)))
""") == ["EPERM"] * 2


def test_no_file_takes_more_disk_than_its_size(cell):
    """RLIMIT_FSIZE counts a file's size. What reserves disk beyond that does not exist; what gives it back does."""
    ioctl, fallocate = (16, 285) if X86 else (29, 47)
    assert probe(cell, f"""
import struct, tempfile
kept = tempfile.TemporaryFile(dir='.')
kept.write(bytes(1 << 16))
kept.flush()
before = os.fstat(kept.fileno()).st_blocks
for high in (0, 1 << 32):
    print(*(call({fallocate}, kept.fileno(), mode | high, 0, 1 << 28) for mode in (1, 0x11, 0x41)))
    space = ctypes.create_string_buffer(struct.pack('hxxxxxxqq24x', 0, 0, 1 << 28))
    print(*(call({ioctl}, kept.fileno(), number | high, ctypes.addressof(space))
            for number in (0x40305828, 0x4030582a, 0x40305839)))
print(os.fstat(kept.fileno()).st_blocks == before, call({fallocate}, kept.fileno(), 3, 0, 1 << 16),
      os.fstat(kept.fileno()).st_blocks < before, call({fallocate}, kept.fileno(), 0, 0, 1 << 20), os.fstat(kept.fileno()).st_size)
""") == ["ENOTSUP ENOTSUP ENOTSUP"] * 4 + [f"True 0 True 0 {1 << 20}"]


def test_its_init_is_left_alone(cell):
    """A command may change the limits, scheduling and I/O priority of its own processes, but not of its init."""
    x86_or = lambda x86, other: x86 if X86 else other  # noqa: E731
    assert probe(cell, f"""
room = (ctypes.c_uint64 * 8)(48)
at = ctypes.addressof(room)
prlimit, setpriority, ioprio = {x86_or(302, 261)}, {x86_or(141, 140)}, {x86_or(251, 30)}
setaffinity, setscheduler, setparam, setattr = {x86_or((203, 144, 142, 314), (122, 119, 118, 274))}
for high in (0, 1 << 32):
    init = 1 | high
    print(call(prlimit, init, 7 | high, at, 0), call(prlimit, init, 7, at, at + 16), call(setaffinity, init, 8, at),
          call(setscheduler, init, 5, at), call(setparam, init, at), call(setattr, init, at, 0),
          call(setpriority, high, init, 19), call(setpriority, 2 | high, 0, 19), call(setpriority, 2 | high, 1000, 19),
          call(ioprio, 1 | high, init, 3 << 13), call(ioprio, 3 | high, 1000, 3 << 13))
print(call(prlimit, 1, 7, 0, at), call(prlimit, os.getpid(), 7, 0, at), call(prlimit, os.getpid(), 7, at, 0))
print(call(setpriority, 0, 0, 5), call(setpriority, 1, 0, 6), call(ioprio, 1, 0, 3 << 13))
print(os.getpriority(os.PRIO_PROCESS, 1), os.sched_getscheduler(1) & ~os.SCHED_RESET_ON_FORK)
os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
""") == [" ".join(["EPERM"] * 11)] * 2 + ["0 0 0", "0 0 0", f"{os.getpriority(os.PRIO_PROCESS, 0)} 0"]


def test_no_file_is_set_user_id(cell):
    """No call that sets a mode may set set-id bits: outside, another user would run the file as the workspace's id. Of a
    mode with the set-group-ID bit a file gets the rest."""
    numbers = {"chmod": 90, "fchmod": 91, "fchmodat": 268, "open": 2, "openat": 257, "creat": 85, "mknod": 133, "mknodat": 259,
               "mkdirat": 258} if X86 else {"fchmod": 52, "fchmodat": 53, "openat": 56, "mknodat": 33, "mkdirat": 34}
    cell.client.run("rm -rf ids && mkdir ids")
    lines = probe(cell, f"""
os.chdir('ids')
os.umask(0)
n = {numbers!r} | {{'fchmodat2': 452}}
open('there', 'w').close()
fd = os.open('there', os.O_RDWR)
at = lambda name: ctypes.addressof(names.setdefault(name, ctypes.create_string_buffer(name.encode())))
names, here, made = {{}}, -100, os.O_CREAT | os.O_WRONLY
for bits in (0o4755, 0o2755, 0o6000, 0o4000, 0o2010):
    for high in (0, 1 << 32):
        mode = bits | high
        attempts = [('fchmod', fd, mode), ('fchmodat', here, at('there'), mode), ('fchmodat2', here, at('there'), mode, 0),
                    ('fchmodat2', fd, at(''), mode, 0x1000), ('openat', here, at('new'), made, mode),
                    ('openat', here, at('new'), made | os.O_EXCL | os.O_CLOEXEC | high, mode),
                    ('openat', here, at('.'), os.O_TMPFILE | os.O_RDWR, mode), ('mknodat', here, at('new'), 0o100000 | mode, 0),
                    ('mknodat', here, at('new'), 0o010000 | mode, 0), ('mknodat', here, at('new'), mode, 0)]
        if 'chmod' in n:
            attempts += [('chmod', at('there'), mode), ('open', at('new'), made, mode), ('creat', at('new'), mode),
                         ('open', at('.'), os.O_TMPFILE | os.O_RDWR, mode), ('mknod', at('new'), 0o100000 | mode, 0)]
        for name, *arguments in attempts:
            said = call(n[name], *arguments)
            if said != (0 if name.startswith(('chmod', 'fchmod')) and not bits & 0o4000 else 'EPERM') or \\
                    os.stat('there').st_mode & 0o6000:
                print(name, oct(bits), high, said)
for name, mode in ('there', 0o1777), ('there', 0o755):
    os.chmod(name, mode)
print(call(n['openat'], here, at('there'), os.O_RDWR | os.O_TRUNC, 0o6777) > 2)  # there the mode means nothing
how = (ctypes.c_uint64 * 3)(made, 0o4755, 0)
print(call(437, here, at('new'), ctypes.addressof(how), 24))
print(call(n['mkdirat'], here, at('directory'), 0o6755), oct(os.stat('directory').st_mode))
print(attempt(os.setxattr, 'there', 'security.capability', bytes.fromhex('0100000200040000000000000000000000000000')))
print(sorted(os.listdir()))
""")
    assert lines == ["True", "ENOSYS", "0 0o40755", "EPERM", "['directory', 'there']"]
    assert not [path for path in (cell.path / "ids").rglob("*") if path.lstat().st_mode & 0o6000]


def test_a_directory_may_have_the_set_group_id_bit(cell):
    """There it gives no rights. Projects of a group have it, and programs that copy or repair a directory set it again."""
    cell.client.run("rm -rf group && mkdir group")
    assert probe(cell, """
import shutil, stat
os.chdir('group')
os.umask(0)
mode = lambda path, bits=0: oct(stat.S_IMODE(os.stat(path).st_mode))
os.mkdir('a')
print(attempt(os.chmod, 'a', 0o2775), mode('a'), attempt(os.chmod, 'a', 0o6775), mode('a'))
os.mkdir('a/sub')
open('a/f', 'w').close()
os.symlink('a', 'link')
here = os.open('a', os.O_RDONLY)
print(attempt(os.chmod, here, 0o2750), mode('a'), attempt(os.chmod, 'link', 0o3770), mode('a'))
print(attempt(lambda: os.chmod('sub', 0o2711, dir_fd=here)), mode('a/sub'), attempt(os.chmod, os.path.abspath('a/sub'), 0o2755), mode('a/sub'))
print(attempt(os.chmod, f'/proc/self/fd/{here}', 0o2775), attempt(os.chmod, f'/proc/{os.getpid()}/fd/{here}', 0o2775) in ('ELOOP', 'ENOENT'), mode('a'))
print(shutil.copytree('a', 'copy'), mode('copy'), mode('copy/sub'))
print(*(attempt(os.chmod, name, 0o2775) for name in ('', 'none', 'a/f/x', '/etc', 'x' * 256, 'x/' * 3000)))
print(*(call(268 if os.uname().machine == 'x86_64' else 53, -100, at, 0o2755) for at in (0, 1, 1 << 47, (1 << 64) - 1)),
      call(452, here, 0, 0o2755, 0x8000), attempt(os.fchmod, 999, 0o2755))
""") == ["None 0o2775 EPERM 0o2775", "None 0o2750 None 0o3770", "None 0o2711 None 0o2755", "None True 0o2775",
         "copy 0o2775 0o2755", "ENOENT ENOENT ENOTDIR EROFS ENAMETOOLONG ENAMETOOLONG", "EFAULT EFAULT EFAULT EFAULT EINVAL EBADF"]
    for command in ("chmod -R u+rwX a", "cp -a a b", "tar cf - a | (mkdir x && tar xpf - -C x)", "mkdir -m 2775 m", "install -d -m 2755 i"):
        assert cell.client.run(f"cd group && {command}", {})["stderr"] == ""
    assert {name: oct((cell.path / "group" / name).stat().st_mode & 0o7777) for name in ("a", "b", "x/a", "m", "i")} == {
        "a": "0o2775", "b": "0o2775", "x/a": "0o2775", "m": "0o2775", "i": "0o2755"}


def test_the_worker_changes_only_what_the_command_could(cell):
    """It opens the file whose mode it changes: not through its own directory of /proc, nor with what the caller puts in place
    meanwhile."""
    cell.client.run("rm -rf race && mkdir race race/d && touch race/f && chmod 755 race/f race/d")
    assert probe(cell, """
os.chdir('race')
print(sorted({attempt(os.chmod, f'/proc/1/{name}', 0o2777) for name in ('cwd', 'root', 'fd/3', 'fd/4', 'fd/5', 'fd/6', 'fd/7')}))
stop = threading.Event()

def swap():
    while not stop.is_set():
        os.rename('d', 'e'), os.rename('f', 'd'), os.rename('d', 'f'), os.rename('e', 'd')

other = threading.Thread(target=swap, daemon=True)
other.start()
found = set()
for _ in range(300):
    found.add(attempt(os.chmod, 'd', 0o2755))
    found.add(attempt(lambda: bool(os.stat('f').st_mode & 0o2000)))  # at times there is no f
stop.set()
other.join()
print(found <= {None, 'ENOENT', False})
""") == ["['ELOOP']", "True"]


@pytest.mark.deep("busy")
def test_calls_that_wait_for_the_worker_delay_no_end(cell):
    """Sixty processes make them without a pause. The worker answers one of them for each request of cloisterd."""
    ended = cell.client.observe("run_command", {"command": PYTHON, "timeout_ms": 2000}, {"stdin": """
import os, socket
os.makedirs('flood', exist_ok=True)
for _ in range(60):
    if os.fork() == 0:
        while True:
            try:
                os.chmod('flood', 0o2755), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
            except OSError:
                pass
os.wait()
"""})
    assert ended["output"]["ended_by"] == "timeout" and ended["output"]["duration_ms"] < 4000


def test_a_command_sees_its_interfaces(cell):
    """getifaddrs(3), and what programs of many languages do at start. A C library that sees only 127.0.0.1 and ::1 resolves
    nothing for AI_ADDRCONFIG and one family."""
    assert probe(cell, """
print(socket.if_nameindex())
for family in (socket.AF_UNSPEC, socket.AF_INET):
    print('127.0.0.1' in [found[4][0] for found in socket.getaddrinfo('localhost', 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)])
""") == ["[(1, 'lo')]", "True", "True"]
    if shutil.which("node"):
        output = cell.client.run("node -p 'Object.values(os.networkInterfaces()).flat().every((one) => one.internal)'")
        assert (output["stdout"], output["stderr"]) == ("true\n", "")


ROUTE = """
import struct
def ask(kind, flags=0x301, body=bytes(16), groups=0):
    'The error of a request of rtnetlink(7), or how long the answer is.'
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as made:
        made.bind((0, groups))
        made.sendto(struct.pack('=IHHII', 16 + len(body), kind, flags, 1, 0) + body, (0, 0))
        answer = made.recv(65536)
        length, answered, _, _, _, code = struct.unpack_from('=IHHIIi', answer)
        return (errno.errorcode[-code] if code else 0) if answered == 2 else 'told'
"""


def test_interfaces_are_only_read(cell):
    """Every request of NETLINK_ROUTE that changes something is refused by the kernel, for want of a capability; nobody else
    can be written to; and of netlink there is nothing but NETLINK_ROUTE."""
    kinds = [kind for kind in range(16, 124) if kind % 4 != 2]  # NEW, DEL and SET; GET is 2
    lines = probe(cell, ROUTE + f"""
print({{ask(kind, 5) for kind in {kinds}}} <= {{'EPERM', 'EOPNOTSUPP'}}, ask(16, 5), ask(20, 0x605), ask(24, 0x605), ask(18), ask(22))
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as made, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as other:
    other.bind((0, 1))
    print(attempt(made.sendto, b'x' * 32, other.getsockname()), attempt(made.sendto, b'x' * 32, (0, 1)),
          attempt(made.setsockopt, 270, 8, 1), attempt(made.setsockopt, 1, 33, 1 << 20))
for high in (0, 1 << 32):
    print(*sorted({{call({number_of_socket()}, 16 | high, kind | high, protocol | high)
                   for kind in range(12) for protocol in range(32) if protocol or kind not in (2, 3)}}))
    print(*sorted({{call({number_of_socket()} + 12 * {int(X86)} + {int(not X86)}, 16 | high, 3 | high, protocol, 0) for protocol in range(32)}}))
""")
    assert lines == ["True EPERM EPERM EPERM told told", "EPERM EPERM EPERM EPERM"] + ["EPERM", "EPERM"] * 2


def test_a_workspace_has_few_netlink_sockets(cell):
    """Each may join groups, by bind(2). Then every join and end on the host goes through all members, with interrupts off."""
    assert probe(cell, """
made = []
def more():
    made.append(socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0))
def fill():
    while (said := attempt(more)) is None:
        pass
    return said, len(made) in (31, 32)  # cloisterd has one
print(*fill(), flush=True)
if os.fork() == 0:
    print(attempt(more), flush=True)
    os._exit(0)
os.wait()
made.clear()
print(*fill())
made.clear()
threads = [threading.Thread(target=fill) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(made) <= 32 + 8)
""") == ["ENFILE True", "ENFILE", "ENFILE True", "True"]
    assert probe(cell, ROUTE + "print(ask(18))") == ["told"]  # they are free again


def test_directories_pass_on_their_group(cell):
    """A new directory inherits the set-group-ID bit of its parent, as mkdir(2) says; files do not."""
    (cell.path / "ours").mkdir()
    os.chown(cell.path / "ours", os.stat(cell.path).st_uid, os.stat(cell.path).st_gid)
    (cell.path / "ours").chmod(0o2755)
    cell.client.run("mkdir ours/a && echo x > ours/f && install -m 755 /bin/true ours/t && mkdir -p ours/b/c && chmod 700 ours/f")
    cell.client.use("write_file", path="ours/made/g", content="x")
    assert {path.name: oct(path.stat().st_mode & 0o7777) for path in (cell.path / "ours").rglob("*")} == {
        "a": "0o2755", "b": "0o2755", "c": "0o2755", "f": "0o700", "t": "0o755", "made": "0o2755", "g": "0o644"}


def test_a_replaced_file_is_not_set_user_id(cell):
    """A set-user-ID file from before loses the bit when write_file replaces it."""
    cell.client.use("write_file", path="had", content="old")
    (cell.path / "had").chmod(0o6755)
    cell.client.use("write_file", path="had", content="new")
    assert oct((cell.path / "had").stat().st_mode & 0o7777) == "0o755"


def test_terminal_injection(cell):
    """TIOCSTI on the command's own terminal, which the kernel would allow. The kernel takes 32 bits of the request."""
    ioctl = 16 if X86 else 29
    assert probe(cell, f"""
leader, follower = os.openpty()
byte = ctypes.create_string_buffer(b'x')
for high in (0, 1 << 32, 1 << 63):
    for request in (0x5412, 0x541c):
        print(call({ioctl}, follower, request | high, ctypes.addressof(byte)))
print(call({ioctl}, follower, 0x5413 | 1 << 32, ctypes.addressof(ctypes.create_string_buffer(64))))
""") == ["EPERM"] * 6 + ["0"]


def test_personality(cell):
    personality = 135 if X86 else 92
    assert probe(cell, f"""
for value in (0x0040000, 0x0008, 0x0040008, 0x0020000, 0xffffffff, 0 | 1 << 32, 0):
    print(isinstance(call({personality}, value), int))
for value in (0x0400000, 0x0100000, 0x0800000, 0x0400000 | 1 << 32, 0x0200000, 0x0440000, 3):
    print(call({personality}, value))
""") == ["True"] * 7 + ["EPERM"] * 7


def test_the_limit_on_cores_stays(cell):
    """With a pipe as core_pattern the kernel runs a program as the host's root for limit 0, but not for 1; see core(5)."""
    setrlimit, prlimit = (160, 302) if X86 else (164, 261)
    assert probe(cell, f"""
zero = (ctypes.c_uint64 * 2)(0, 0)
old = (ctypes.c_uint64 * 2)(7, 7)
core = resource.RLIMIT_CORE
print(resource.getrlimit(core))
for high in (0, 1 << 32):
    print(call({setrlimit}, core | high, ctypes.addressof(zero)))
    print(call({prlimit}, 0, core | high, ctypes.addressof(zero), 0))
    print(call({prlimit}, 0, core | high, ctypes.addressof(zero), ctypes.addressof(old)))
    print(call({prlimit}, 0, core | high, 0, ctypes.addressof(old)), list(old))
print(resource.getrlimit(core))
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
""") == ["(1, 1)", *["0", "0", "EPERM", "0 [1, 1]"] * 2, "(1, 1)", "(100, 100)"]


@pytest.mark.skipif(not X86, reason="other architectures have one system call table")
def test_foreign_system_calls_are_fatal(cell):
    """Tries getpid by its x32 number, and by its i386 number through int 0x80."""
    assert probe(cell, """
print(dies_of(lambda: call(0x40000000 | 39)))
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex('b814000000cd80c3'))
code = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(dies_of(code))
""") == ["SIGSYS", "SIGSYS"]


def test_tracing_its_own_tree(cell):
    assert probe(cell, """
pid = os.fork()
if pid == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(5)
assert os.WIFSTOPPED(os.waitpid(pid, 0)[1])
print(libc.ptrace(7, pid, 0, 0), os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
""") == ["0 5"]


FILTERS = """
import struct
seccomp, prctl, setsockopt = %s
allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 1, ctypes.addressof(allow)))
at, nothing = ctypes.addressof(program), 0
""" % ("317, 157, 54" if X86 else "277, 167, 208")


def test_no_system_call_filter_can_be_installed(cell):
    """Each is a program that the kernel compiles into space of which the host has one lot. The kernel takes 32 bits of an
    operation. The answers are those of a kernel without filters: it also says which actions it knows."""
    assert probe(cell, FILTERS + """
libc.prctl(38, 1, 0, 0, 0)
action = ctypes.create_string_buffer(struct.pack('I', 0x7fff0000))
sizes = ctypes.create_string_buffer(6)
for high in (0, 1 << 32, 1 << 63):
    print(call(seccomp, 1 | high, 0, at), *(call(seccomp, 1 | high, flags, at) for flags in (1, 2, 4, 8, 16)),
          call(seccomp, 1 | high, 0, nothing), call(seccomp, 0 | high, 0, nothing), call(prctl, 22 | high, 2, at),
          call(prctl, 22 | high, 2, nothing), call(prctl, 22 | high, 1, nothing))
print(call(seccomp, 2, 0, ctypes.addressof(action)), call(seccomp, 3, 0, ctypes.addressof(sizes)), call(prctl, 21))
print(open('/proc/self/status').read().split('Seccomp_filters:')[1].split()[0] ==
      open('/proc/1/status').read().split('Seccomp_filters:')[1].split()[0])
""") == [" ".join(["EINVAL"] * 11)] * 3 + ["0 0 2", "True"]


def test_no_socket_filter_can_be_installed(cell):
    """The kernel compiles them into the same space, thousands for one process, and they go when it ends."""
    assert probe(cell, FILTERS + """
for made in (socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX), socket.socketpair()[0]):
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1) if made.family != socket.AF_UNIX else None
    print(*(call(setsockopt, made.fileno(), 1 | high, option | high, at, 16) for option in (26, 51) for high in (0, 1 << 32)))
""") == ["ENOPROTOOPT ENOPROTOOPT ENOPROTOOPT ENOPROTOOPT"] * 4


def test_socket_options_that_nothing_counts(cell):
    """Groups, keys and flow labels: a single socket had thousands, in memory that no cgroup was charged, and joining a group went
    through all of them under a lock of the whole host."""
    assert probe(cell, FILTERS + """
tcp, udp, udp6 = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
group4, group6, lo = socket.inet_aton('224.1.1.1'), socket.inet_pton(socket.AF_INET6, 'ff02::1:2'), socket.if_nametoindex('lo')
to4, to6 = struct.pack('HH4s120x', 2, 0, group4), struct.pack('HHI16sI100x', 10, 0, 0, group6, 0)
one4, one6 = struct.pack('HH4s120x', 2, 0, b'\\x7f\\0\\0\\1'), struct.pack('HHI16sI100x', 10, 0, 0, bytes(15) + b'\\1', 0)
label = struct.pack('16sIBBHHHI', bytes(15) + b'\\1', 0, 0, 1, 1, 6, 6, 0)
key = struct.pack('HH4s120xHHI80s', 2, 0, b'\\x0a\\0\\0\\1', 0, 1, 0, b'k')
attempts = [
    (tcp, 6, 14, key), (tcp, 6, 32, key), (tcp, 6, 38, bytes(400)), (udp6, 41, 32, label),
    (udp, 0, 35, struct.pack('4s4si', group4, b'\\x7f\\0\\0\\1', lo)), (udp, 0, 39, group4 + b'\\x7f\\0\\0\\1' + b'\\x7f\\0\\0\\1'),
    (udp, 0, 42, struct.pack('I4x', lo) + to4), (udp, 0, 46, struct.pack('I4x', lo) + to4 + one4),
    (udp6, 41, 20, struct.pack('16sI', group6, lo)), (udp6, 41, 27, struct.pack('16sI', bytes(15) + b'\\1', lo)),
    (udp6, 41, 42, struct.pack('I4x', lo) + to6), (udp6, 41, 46, struct.pack('I4x', lo) + to6 + one6)]
for made, level, option, value in attempts:
    room = ctypes.create_string_buffer(value, len(value))
    print(*(call(setsockopt, made.fileno(), level | high, option | high, ctypes.addressof(room), len(value)) for high in (0, 1 << 32)))
""") == ["ENOPROTOOPT ENOPROTOOPT"] * 4 + ["ENODEV ENODEV"] * 8


ATTRIBUTES = """
import struct
SIZE = %d

def entries(n):
    'An ACL with that many entries about one user.'
    rows = [(1, 7, -1)] + [(2, 7, os.getuid())] * n + [(4, 5, -1), (16, 7, -1), (32, 5, -1)]
    return struct.pack('I', 2) + b''.join(struct.pack('HHi', *row) for row in rows)
""" % 1000  # LIMIT_ATTRIBUTE_BYTES


def test_an_acl_has_few_entries(cell):
    """The kernel keeps those of a tmpfs in memory that no cgroup was charged: 64 KiB for a file, twice that for a directory. Other
    attributes have the same bound."""
    assert probe(cell, ATTRIBUTES + """
os.mkdir('/tmp/d')
open('/tmp/f', 'w').close()
open('/dev/shm/f', 'w').close()
for path, name in (('/tmp/d', 'system.posix_acl_access'), ('/tmp/d', 'system.posix_acl_default'), ('/dev/shm/f', 'system.posix_acl_access'),
                   ('/tmp/f', 'system.posix_acl_access')):
    made = entries(120)
    print(len(made) <= SIZE, attempt(os.setxattr, path, name, made), attempt(os.setxattr, path, name, entries(121)),
          attempt(os.setxattr, path, name, entries(8000)), len(os.getxattr(path, name)) == len(made))
with open('/tmp/f', 'r+') as there:
    print(attempt(os.setxattr, there.fileno(), 'system.posix_acl_access', entries(8000)),
          attempt(lambda: os.setxattr('/tmp/f', 'user.x', bytes(SIZE + 1), follow_symlinks=False)),
          attempt(os.setxattr, there.fileno(), 'user.x', bytes(SIZE + 1)), call(463, -100, 0, 0, 0, 0, 0))
""") == ["True None E2BIG E2BIG True"] * 4 + ["E2BIG E2BIG E2BIG ENOSYS"]


@pytest.mark.parametrize("spares", [0, 2])
def test_a_tenant_may_have_filters(start_daemon, area, spares):
    """For harnesses whose commands confine themselves, with command_filters = allow: in cells that are made ahead as in
    others. A reload counts for the next cell."""
    def config(said):
        return (f"[cloister]\nspare_cells = {spares}\nadmin_group = {area.account.gid}\n[tenant t]\nusers = {area.account.uid}\n"
                f"managed = yes\n{said}")

    service = start_daemon(config=config("command_filters = allow\n"))
    client = service.connect()
    text = PRELUDE + FILTERS + "libc.prctl(38, 1, 0, 0, 0)\nprint(call(seccomp, 1, 0, at), call(prctl, 22, 2, at))\n"
    for name, said, answer in (("a", None, "0 0\n"), ("b", "", "EINVAL EINVAL\n"), ("c", "command_filters = refuse\n", "EINVAL EINVAL\n")):
        if said is not None:
            service.config.write_text(config(said))
            assert service.ctl("reload").returncode == 0
        client.call("workspace.open", {"workspace": name})
        assert client.run(PYTHON, {"stdin": text})["stdout"] == answer
    client.close()


# Programs that must run. For each: the programs that it needs, a script, and its output.

C_PROGRAM = r"""printf '#include <stdio.h>\nint main(void){puts("made");return 0;}\n' > a.c"""
PACKAGE = ("mkdir -p q/DEBIAN q/usr/bin && echo x > q/usr/bin/x && chmod 755 q/usr/bin/x && printf 'Package: q\\nVersion: 1\\n"
           "Architecture: all\\nMaintainer: a <a@b>\\nDescription: q\\n' > q/DEBIAN/control && "
           "dpkg-deb --root-owner-group -b q p.deb > /dev/null")
TOOLS = {
    "sh": (["sh"], "seq 3 | (while read x; do :; done; echo $x); f=$(mktemp); echo here > $f; cat $f", "\nhere\n"),
    "bash": (["bash"], "bash -c 'cat <(echo in) & wait; ulimit -c 0; echo out'", "in\nout\n"),
    "gcc": (["gcc"], f"{C_PROGRAM}; gcc -O2 a.c -o a && ./a", "made\n"),
    "threads": (["gcc"], r"""printf '#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p){puts(p);return p;}\n"""
                r"""int main(void){pthread_t t;pthread_create(&t,0,f,"made");return pthread_join(t,0);}\n' > a.c; """
                "gcc a.c -o a -pthread && ./a", "made\n"),
    "sanitizers": (["gcc"], f"{C_PROGRAM}; gcc -fsanitize=address,undefined a.c -o a && ulimit -d unlimited && "
                   "ASAN_OPTIONS=detect_leaks=1 ./a", "made\n"),
    "g++": (["g++"], r"""printf '#include <iostream>\n#include <thread>\nint main(){std::thread([]{std::cout<<"made\\n";}).join();}'"""
            " > a.cc; g++ a.cc -o a -pthread && ./a", "made\n"),
    "make": (["make", "gcc"], f"{C_PROGRAM}; printf 'a: a.c\\n\\tgcc a.c -o a\\n' > Makefile; make -s -j4 && ./a", "made\n"),
    "cmake": (["cmake", "gcc", "make"], f"{C_PROGRAM}; echo 'project(p C)\nadd_executable(a a.c)' > CMakeLists.txt; "
              "(cmake -Wno-dev -B b && cmake --build b) > log 2>&1; b/a", "made\n"),
    "gdb": (["gdb", "gcc"], f"{C_PROGRAM}; gcc -g a.c -o a && gdb -batch -nx -ex 'break main' -ex run -ex 'print 6*7' "
            "-ex continue ./a 2>&1 | grep -E '^(made|.1 = 42)$|warning: Error disabling address' | sort", "$1 = 42\nmade\n"),
    "strace": (["strace"], "strace -f -o log sh -c 'true; /bin/echo traced' && grep -c 'execve(' log", "traced\n2\n"),
    "python3": (["/usr/bin/python3"], "/usr/bin/python3 -c 'import subprocess, concurrent.futures as f, multiprocessing as m, tempfile\n"
                "print(subprocess.run([\"echo\", \"sub\"], capture_output=True, text=True).stdout, end=\"\")\n"
                "print(sum(f.ThreadPoolExecutor(4).map(abs, range(5))), sum(f.ProcessPoolExecutor(2).map(abs, range(5))))\n"
                "print(m.Value(\"i\", 3).value)'", "sub\n10 10\n3\n"),
    "venv": (["/usr/bin/python3"], "/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'print(1)'", "1\n"),
    "node": (["node"], "node -e 'const w=require(\"worker_threads\");require(\"child_process\").execSync(\"true\");"
             "require(\"fs\").readFile(\"/etc/passwd\",()=>new w.Worker(\"console.log(6*7)\",{eval:true}))'", "42\n"),
    "npm": (["npm"], "npm --version > log && npm init -y > /dev/null && ls package.json", "package.json\n"),
    "java": (["java", "javac"], "echo 'public class A{public static void main(String[] a)throws Exception{"
             "Thread t=new Thread(()->System.out.println(\"made\"));t.start();t.join();}}' > A.java; "
             "javac A.java && java -Xshare:auto -cp . A", "made\n"),
    "go": (["go"], "printf 'package main\\nimport \"fmt\"\\nfunc main(){c:=make(chan string);go func(){c<-\"made\"}();"
           "fmt.Println(<-c)}' > a.go; GOFLAGS=-mod=mod go run a.go", "made\n"),
    "rust": (["rustc"], "echo 'fn main(){std::thread::spawn(||println!(\"made\")).join().unwrap()}' > a.rs; rustc a.rs && ./a",
             "made\n"),
    "git": (["git"], "git init -q r && cd r && echo x > x && git add x && git -c user.name=a -c user.email=a@b commit -q -m one && "
            "git clone -q . ../s && git -C ../s log --format=%s && git gc -q && git fsck", "one\n"),
    "perl": (["perl"], "perl -e 'print `echo sub`; system \"echo\", 7'", "sub\n7\n"),
    "ripgrep": (["rg"], "echo needle > x; rg --threads 4 -N --no-filename need .", "needle\n"),
    "apt": (["apt-get", "dpkg"], "apt-get --version | grep -c '^apt '; dpkg --print-architecture | wc -l; "
            "dpkg-deb --version | grep -c Debian", "1\n1\n1\n"),
    "dpkg-deb": (["dpkg-deb"], "mkdir -p p/DEBIAN && printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\n"
                 "Description: p\\n' > p/DEBIAN/control && dpkg-deb -b p > /dev/null && dpkg-deb -f p.deb Version", "1\n"),
    "tar": (["tar", "gzip", "xz"], "echo x > x; tar czf a.tgz x; tar cJf a.txz x; tar xOf a.tgz; tar xOf a.txz", "x\nx\n"),
    "copies": (["cp", "install", "tar", "dpkg-deb"], f"{PACKAGE}; dpkg-deb -x p.deb out && cat out/usr/bin/x; ln out/usr/bin/x l && "
               "cp -a out o2 && install -m 755 l i && install -d -m 750 o3 && cp -p i o3/j && tar cpf - o2 | tar xpf - -C o3 && "
               "chmod -R u=rwX,go=rX o3 && mktemp -p . > /dev/null && stat -c '%a %n' i o3 o3/j o3/o2/usr/bin/x",
               "x\n755 i\n755 o3\n755 o3/j\n755 o3/o2/usr/bin/x\n"),
    "setarch": (["setarch"], "setarch -R echo fixed; setarch linux32 uname -m | tr -d 0-9", "fixed\ni\n" if X86 else None),
    # These confine themselves where they can.
    "man": (["man", "groff"], r"""printf '.TH X 1\n.SH NAME\nx \\- made\n' > x.1; man -l -P cat x.1 | grep made""", "       x - made\n"),
    "file": (["file"], "echo x > x; file x; file -z x", "x: ASCII text\nx: ASCII text\n"),
}


OPTIONAL = {"go", "rust", "npm", "man", "file"}  # large, or not packaged; tests/run does not install them


@pytest.mark.deep("slow", only=["java"])
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_run(daemon, tool):
    needed, script, expected = TOOLS[tool]
    # A command sees the host's /usr and no other directory of the host's PATH.
    for name in needed:
        path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if not path and os.environ.get("CI") == "true" and tool not in OPTIONAL:
            pytest.fail(f"{name} is not installed in /usr: tests/run installs it")
        if not path:
            pytest.skip(f"{name} is not installed in /usr")
        assert os.access(path, os.X_OK)
    if expected is None:
        pytest.skip("its output is known of x86-64 only")
    cell = Cell(daemon)
    output = cell.client.run(script, timeout_ms=120000)
    assert (output["stdout"], output["exit_code"]) == (expected, 0), output
    cell.close()
