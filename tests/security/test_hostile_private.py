# SPDX-License-Identifier: Apache-2.0
"""A worker that was taken over sends the spawner something else than its private tmpfs (tests/lib/liar.py takes its place).
The workspace's next cell, of the real programs, begins as if there had been none."""

import procfs
import pytest
from daemon import AM_ROOT, Area, Daemon

pytestmark = pytest.mark.skipif(not AM_ROOT, reason="needs root to count the spawner's descriptors")

TMP_KIB = 16384
MADE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tmpfs(options):
    assert libc.mount(b'x', b'/mnt', b'tmpfs', 0, options) == 0, os.strerror(ctypes.get_errno())
    fd = libc.syscall(428, -100, b'/mnt', 1 | os.O_CLOEXEC)  # open_tree(2), OPEN_TREE_CLONE
    assert fd >= 0, os.strerror(ctypes.get_errno())
    os.close(os.open('sent', os.O_CREAT | os.O_WRONLY, dir_fd=os.open('/mnt', os.O_RDONLY)))
    return fd
def lingering():
    # Returns both ends of a connection. To close the first one waits for the second, for an hour.
    import fcntl, struct
    listener = socket.socket()
    fcntl.ioctl(listener, 0x8914, struct.pack('16sh22x', b'lo', 1))  # SIOCSIFFLAGS, IFF_UP: netdevice(7)
    listener.bind(('127.0.0.1', 0))
    listener.listen()
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
    one.setblocking(False)
    try:
        while True: one.send(bytes(65536))
    except BlockingIOError:
        one.setblocking(True)
    return one.detach(), other.detach()
"""
MOUNT = "fd = tmpfs(b'size=16m,nr_inodes=100')"
# What is sent. The last is what a worker sends, so the others are refused for what they are.
LIES = {
    "nothing": "",
    "no descriptor": "to.send(b'm')",
    "a file": "give(os.open(sys.argv[0], os.O_RDONLY))",
    "a directory of the host": "give(os.open('/usr', os.O_PATH))",
    "a socket": "give(down.fileno())",
    "a flood": "to.setblocking(False)\ntry:\n    while True: give(os.open('/usr', os.O_PATH))\nexcept OSError: pass",
    "a larger one": "give(tmpfs(b'size=17m,nr_inodes=100'))",
    "one without a bound": "give(tmpfs(b'size=0,nr_inodes=100'))",
    "one with more files": "give(tmpfs(b'size=16m,nr_inodes=200001'))",
    "one that grows when it is sent": "fd = tmpfs(b'size=16m,nr_inodes=100'); give(fd)\n"
                                      "assert libc.mount(b'x', b'/mnt', b'tmpfs', 32, b'size=1g') == 0",
    "one with connections that linger": f"{MOUNT}; a, b, c, d = *lingering(), *lingering(); give(fd, a, b, d, c)",
    "one before connections that linger": f"{MOUNT}; a, b, c, d = *lingering(), *lingering(); give(fd); give(a, b, d, c)",
    "a connection that lingers": "a, b = lingering(); give(a); give(b)",
    "a socket with connections that linger": "to_us, theirs = socket.socketpair()\n"
                                             "a, b, c, d = *lingering(), *lingering()\n"
                                             "socket.send_fds(to_us, [b'm'], [a, b, d, c]); give(theirs.fileno())",
    "a directory that can be read": "tmpfs(b'size=16m,nr_inodes=100'); give(os.open('/mnt', os.O_RDONLY))",
    "a tmpfs, twice": "fd = tmpfs(b'size=16m,nr_inodes=100'); give(fd, fd)",
    "a tmpfs": "give(tmpfs(b'size=16m,nr_inodes=100'))",
}
ACCEPTED = ("a tmpfs",)


@pytest.fixture(scope="module")
def daemon(account):
    place = Area(account)
    place.take_liars()
    running = Daemon(place, config=f"[cloister]\nmode = user\nspare_cells = 0\nworkspace_idle_time = 300ms\n"
                                   f"[tenant t]\nusers = {account.name}\nroots = {place.path}\ntmp_size = {TMP_KIB}K\n")
    with running.connect() as client:  # after which the spawner has its path resolvers
        running.new_workspace(client)
    yield running
    assert running.stop() == 0
    place.remove()


@pytest.mark.parametrize("what", LIES)
def test_what_a_worker_sends(daemon, what):
    path = daemon.area.new_directory()
    lie = path / ".lie-worker"
    lie.write_text(f"{MADE}\nto = socket.socket(fileno=7)\ndef give(*fds): socket.send_fds(to, [b'm'], fds)\n{LIES[what]}\n"
                   "note('sent')\nbe_ready()\nwait()")
    daemon.account.own(lie)
    before = procfs.eventually(lambda: not daemon.cells()) and len(procfs.fds(daemon.spawner()))
    with daemon.connect() as client:
        client.call("workspace.open", {"root": str(path)})
        client.use("list_directory", path=".")
        notes = (path / ".note-worker").read_text()
        assert notes == "sent\n", notes
        lie.unlink()
        assert procfs.eventually(lambda: not daemon.cells())
        said = client.run(f"ls -A /tmp | grep -vx {path.parts[2]}; df -k --output=size /tmp | tail -1; "
                          "grep -c ' /tmp ' /proc/self/mountinfo")["stdout"].split()
        # One that was taken covers the new one, and its directory "tmp" covers its root.
        assert said == [str(TMP_KIB), "3" if what in ACCEPTED else "1"]
    assert procfs.eventually(lambda: not daemon.cells() and len(procfs.fds(daemon.spawner())) <= before)
    # None of the spawner's children waits for what was sent.
    assert procfs.eventually(lambda: not {"cloister-taker", "cloister-closer"} & {
        procfs.name(pid) for pid in procfs.children(daemon.spawner())})
