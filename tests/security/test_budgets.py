# SPDX-License-Identifier: Apache-2.0
"""Resources that the host or the service has few of: one tenant takes all that it can get, and another is served all
the same.

An attack is a command that takes until it is refused, writes how much it got to the file "held" and keeps it. What a
tenant needs of the same is a small command, which must succeed in another tenant's workspace meanwhile.
"""

import contextlib
import os
import pathlib
import re
import subprocess

import pytest

import procfs
from cloister_client import Client, RpcError
from daemon import SYSTEM, Daemon, is_sanitized
from kernel_setting import setting

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root to make two tenants' users"),
    pytest.mark.skipif(SYSTEM, reason="the tests start daemons of both modes themselves"),
    pytest.mark.deep("busy")]

PYTHON = "/usr/bin/python3 -"  # the program is standard input
PATIENCE = 120  # seconds; no step takes so long on any machine
ADMIN = 64321  # a group id without a name

# common/limits.h
INOTIFY_INSTANCES, INOTIFY_WATCHES, PENDING_SIGNALS, TERMINALS = 16, 8192, 1024, 64
QUEUE_BYTES = 256 << 10

PRELUDE = """
import ctypes, errno, fcntl, os, resource, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    'Its result, or None when it failed.'
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    return None if result == -1 else result

def system_call(number, *arguments):
    return call("syscall", ctypes.c_long(number), *arguments)

def take(one, most=1 << 30):
    'How often it could be done.'
    n = 0
    while n < most and one() is not None:
        n += 1
    return n

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError:
        return None

def keep(held):
    with open("held.new", "w") as file:
        file.write(str(held))
    os.rename("held.new", "held")
    while True:
        signal.pause()

def need(got):
    sys.exit(0 if got is not None else 1)

def watch(fd, path):
    return call("inotify_add_watch", fd, path.encode(), 0x100)

def everything():
    for top in ("/usr", "/proc"):
        for path, directories, files in os.walk(top):
            yield path
            yield from (os.path.join(path, name) for name in files)

def timer():
    return call("timer_create", 1, ctypes.byref(struct_sigevent), ctypes.byref(ctypes.c_void_p()))

struct_sigevent = (ctypes.c_char * 64)()
struct_sigevent[8:12] = struct.pack("i", signal.SIGUSR1)

def queue(name):
    return call("mq_open", name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)

def queue_signal():
    return call("sigqueue", os.getpid(), signal.SIGRTMIN, None)

def shared(size):
    id = call("shmget", 0, size, 0o1600)
    return id

def context(events):
    return system_call(206, events, ctypes.byref(ctypes.c_ulong()))  # io_setup(2) of x86-64
"""

# Each attack: its program, and a program that another tenant's command must be able to run meanwhile.
ATTACKS = {
    "inotify-instances": ("keep(take(lambda: call('inotify_init1', 0)))",
                          "fd = call('inotify_init1', 0); need(fd and watch(fd, '/usr'))"),
    "inotify-watches": ("""
fds = [fd for fd in (call('inotify_init1', 0) for _ in range(64)) if fd is not None]
paths = list(everything())
held = set()
for fd in fds:
    for path in paths:
        wd = watch(fd, path)
        if wd is not None:
            held.add((fd, wd))
        elif ctypes.get_errno() == errno.ENOSPC:
            keep(len(held))
keep(len(held))
""", "fd = call('inotify_init1', 0); need(fd and watch(fd, '/usr'))"),
    "timers": ("keep(take(timer, 1000000))", "need(timer())"),
    "pending-signals": ("""
signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, 65))
keep(take(queue_signal, 1000000))
""", "signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, 65)); need(queue_signal())"),
    "message-queues": ("""
resource.setrlimit(resource.RLIMIT_MSGQUEUE, [resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]] * 2)
names = iter(range(100000))
keep(take(lambda: queue(f'/q{next(names)}')))
""", "need(queue('/mine'))"),
    "terminals": ("""
keep(take(lambda: attempt(os.open, '/dev/ptmx', os.O_RDWR | os.O_NOCTTY)))
""", "need(attempt(os.openpty))"),
    "locked-shared-memory": ("""
keep(take(lambda: call('shmctl', shared(1 << 20), 11, None), 4096))  # SHM_LOCK
""", "need(0)"),
    "asynchronous-io": ("keep(take(lambda: context(1024), 100))", "need(0)"),
    "pipe-pages": ("""
pipes = []
def pipe():
    pipes.append(attempt(os.pipe))
    return pipes[-1] and attempt(fcntl.fcntl, pipes[-1][1], 1031, 1 << 20)  # F_SETPIPE_SZ
large = take(pipe)
keep(large + take(lambda: attempt(os.pipe), 1500))
""", "os.write(1, b'x' * 1000000); need(0)"),
    "descriptors-in-flight": ("""
def pair():
    a, b = socket.socketpair()
    a.setblocking(False)
    kept.append((a, b))
    return take(lambda: attempt(socket.send_fds, a, [b'x'], [0] * 253), 100) or None
kept = []
keep(take(pair, 100))
""", "need(0)"),
    "keys": ("keep(take(lambda: system_call(248, b'user', str(time.time()).encode(), b'x', 1, -3)))", "need(0)"),
}


class Tenant:
    """A user of the agent socket with managed workspaces, each on its own connection."""

    def __init__(self, daemon, user):
        self.daemon, self.user = daemon, user
        self.number = 0

    def open(self, **params):
        self.number += 1
        client = self.daemon.connect(self.user)
        client.call("workspace.open", {"workspace": f"w{self.number}", **params}, PATIENCE)
        return client


def python(client, text):
    return client.observe("run_command", {"command": PYTHON, "timeout_ms": PATIENCE * 1000},
                          {"stdin": PRELUDE + text}, timeout=PATIENCE)


def content(client, path):
    observation = client.observe("read_file", {"path": path}, {"line_numbers": False}, timeout=PATIENCE)
    return observation["output"]["content"] if observation["success"] else None


class Attack:
    """A command in a workspace of its own that takes all it can and holds it."""

    def __init__(self, tenant, name):
        self.name, self.client = name, tenant.open()
        self.number = self.client.begin("run_command", {"command": PYTHON, "timeout_ms": 600000},
                                        {"stdin": PRELUDE + ATTACKS[name][0]})

    def held(self):
        """Returns how much it has when it gets no more."""
        text = procfs.eventually(lambda: content(self.client, "held"), PATIENCE)
        assert text, (self.name, self.client.answers or self.client.receive(5))
        return int(text)

    def end(self):
        self.client.cancel(self.number)
        self.client.wait(self.number, PATIENCE)


def check_served(tenant, client, **second):
    """Checks that a tenant is served: on an old and a new connection, in a new workspace or this one, files and commands."""
    client.use("write_file", path="mine", content="still here")
    assert content(client, "mine") == "still here"
    output = client.run("echo out; echo error >&2; cat", options={"stdin": "in"})
    assert (output["stdout"], output["stderr"]) == ("out\nin", "error\n")
    with contextlib.closing(tenant.open(**second)) as another:
        assert another.run("seq 20000 | tail -n 1")["stdout"] == "20000\n"


def check_needs(client, name):
    observation = python(client, ATTACKS[name][1])
    assert observation["success"] and observation["output"]["exit_code"] == 0, (name, observation)


def config_for(users, mode):
    text = f"[cloister]\nmode = {mode}\nagent_socket_mode = 0666\nadmin_group = {ADMIN}\n"
    for name, user in zip("ab", users):
        text += f"[tenant {name}]\nusers = {user.name}\nmanaged = yes\n"
    return text


@pytest.fixture(scope="module", params=["user", "system"])
def host(area, tenants, request):
    """A daemon of each mode with two tenants: the attacker and the victim."""
    daemon = Daemon(area, config=config_for(tenants, request.param), system=request.param == "system")
    yield daemon, Tenant(daemon, tenants[0]), Tenant(daemon, tenants[1])
    assert daemon.stop() == 0


@pytest.fixture
def neighbour(host):
    client = host[2].open()
    yield client
    client.close()


@pytest.mark.deep("slow", only=["user-inotify-watches"])
@pytest.mark.parametrize("name", ATTACKS)
def test_one_tenant_takes_all_of(host, neighbour, name):
    _, attacker, served = host
    attack = Attack(attacker, name)
    held = attack.held()
    bounds = {"inotify-instances": INOTIFY_INSTANCES, "inotify-watches": INOTIFY_WATCHES, "timers": PENDING_SIGNALS,
              "pending-signals": PENDING_SIGNALS, "terminals": TERMINALS, "message-queues": 3,
              "locked-shared-memory": 0, "asynchronous-io": 0, "keys": 0}
    assert held <= bounds.get(name, held), held
    check_needs(neighbour, name)
    check_served(served, neighbour)
    attack.end()
    # The attacker's own workspace goes on as well.
    check_needs(attack.client, name)
    attack.client.close()


# Attacks on the service's own resources


class Outside:
    """What a client can take without a command: it repeats each method until it is refused, or very often."""

    def __init__(self, tenant):
        self.tenant, self.clients, self.refused = tenant, [], {}

    def connect(self):
        client = Client(self.tenant.daemon.socket, self.tenant.user.uid, self.tenant.user.gid)
        self.clients.append(client)
        return client

    def take_workspaces(self):
        client = self.connect()
        for number in range(WORKSPACES + 1):
            answer = client.wait(client.request("workspace.open", {"workspace": f"left{number}"}), PATIENCE)
            if "error" in answer:
                return answer["error"]["data"]["code"]
        return None

    def take_ids(self):
        """As take_workspaces, one after the other: each managed workspace has a directory, and in system mode an id of the range."""
        client = self.connect()
        for number in range(EXISTING + 1):
            answer = client.wait(client.request("workspace.open", {"workspace": f"left{number}"}), PATIENCE)
            if "error" in answer:
                return answer["error"]["data"]["code"]
            client.call("workspace.close", {"workspace": f"left{number}"}, PATIENCE)
        return None

    def take_commands(self):
        """Starts more commands than may run and wait. Each one above that is refused."""
        client = self.connect()
        client.call("workspace.open", {"workspace": "unread"}, PATIENCE)
        numbers = [client.begin("run_command", {"command": "sleep 1000", "timeout_ms": 600000})
                   for _ in range(COMMANDS + QUEUE + 50)]
        refused = client.receive_any(PATIENCE)
        return refused["result"]["error"]["code"] if refused["id"] in numbers else None

    def send_what_never_ends(self):
        for _ in range(16):
            client = self.connect()
            client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                client.socket.send(b'{"jsonrpc": "2.0", "id": "')
                for _ in range(64):
                    client.socket.send(b"x" * 65536)

    def ask_and_never_read(self):
        for _ in range(8):
            client = self.connect()
            client.call("workspace.open", {"workspace": "unread"}, PATIENCE)
            client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                for _ in range(100):
                    client.begin("read_file", {"path": "large"})

    def fill_the_log(self):
        client = self.connect()
        for number in range(500):
            client.send_raw(b"no JSON at all\n")
            client.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"workspace.open","params":{"root":"/root"}}\n')

    def take_connections(self):
        """Comes last, because the attacker cannot connect either once it has all connections."""
        for _ in range(CONNECTIONS + 1):
            client = self.connect()
            try:
                client.call("workspace.list", {}, PATIENCE)
            except (RpcError, ConnectionError, KeyError):
                return True
        return False

    def end(self):
        for client in self.clients:
            client.close()


WORKSPACES, EXISTING, COMMANDS, QUEUE, CONNECTIONS = 64, 120, 48, 64, 128
OUTSIDE_CONFIG = f"""workspaces = {WORKSPACES}
workspaces_existing = {EXISTING}
commands = {COMMANDS}
queue_length = {QUEUE}
tmp_size = 16M
"""


def check_memory(daemon):
    """cloisterd's memory is within the bound that it reports, which follows from the configuration."""
    with contextlib.closing(daemon.control(groups=[ADMIN])) as control:
        status = control.call("status")
    if is_sanitized():
        return
    largest = int(procfs.status(daemon.pid)["VmHWM"].split()[0]) << 10
    assert largest <= status["memory_bound"], (largest, status["memory_bound"])


FILL = "cat /dev/zero >/tmp/full 2>/dev/null; echo full >held; exec sleep 600"


@pytest.mark.parametrize("mode", ["user", "system"])
def test_everything_at_once(area, tenants, mode):
    """Holds all attacks of this file and all that a client takes at the same time."""
    lines = config_for(tenants, mode).replace("managed = yes\n", "managed = yes\n" + OUTSIDE_CONFIG)
    daemon = Daemon(area, config=lines, system=mode == "system")
    try:
        attacker, served = Tenant(daemon, tenants[0]), Tenant(daemon, tenants[1])
        neighbour = served.open()
        unread = attacker.open(workspace="unread")
        unread.run("seq -w 100000 >large")
        attacks = [Attack(attacker, name) for name in ATTACKS]
        filling = attacker.open()
        filling.begin("run_command", {"command": FILL, "timeout_ms": 600000})
        for attack in attacks:
            attack.held()
        assert procfs.eventually(lambda: content(filling, "held"), PATIENCE) == "full\n"
        outside = Outside(attacker)
        assert outside.take_ids() == "QUOTA_EXCEEDED"
        assert outside.take_workspaces() == "BUSY"
        assert outside.take_commands() == "BUSY"
        for take in (outside.send_what_never_ends, outside.ask_and_never_read, outside.fill_the_log):
            take()
            check_served(served, neighbour)
        assert outside.take_connections()
        for name in ATTACKS:
            check_needs(neighbour, name)
        check_served(served, neighbour)
        check_memory(daemon)
        outside.end()
        for attack in attacks:
            attack.end()
        # The attacker is served again.
        check_served(attacker, attacks[0].client, workspace="unread")
    finally:
        assert daemon.stop() == 0


def test_one_tenant_fills_the_disk(area, tenants):
    """Both tenants have their workspaces on that disk. Calls that need no room go on; the others are told the reason."""
    with area.disk("64m") as place:
        # Until the disk is full: the guard of state_free_min has tests of its own.
        config = config_for(tenants, "user").replace("[cloister]\n", "[cloister]\nstate_free_min = 0\n")
        daemon = Daemon(area, config=config, state=place / "state")
        try:
            attacker, served = Tenant(daemon, tenants[0]), Tenant(daemon, tenants[1])
            neighbour, filling = served.open(), attacker.open()
            neighbour.use("write_file", path="mine", content="still here")
            assert filling.observe("run_command", {"command": "cat /dev/zero >full"})["output"]["exit_code"] != 0
            assert content(neighbour, "mine") == "still here"
            assert neighbour.fail("write_file", path="more", content="x" * 100000)["code"] == "NO_SPACE"
            assert content(neighbour, "mine") == "still here"
            assert neighbour.run("echo well; echo also >/tmp/here; cat /tmp/here")["stdout"] == "well\nalso\n"
            filling.run("rm full")
            check_served(served, neighbour)
        finally:
            assert daemon.stop() == 0


# Objects that outlive their process


LEAVE = """
for _ in range(50):
    assert shared(4096) is not None
    assert call('semget', 0, 3, 0o1600) is not None
    assert call('msgget', 0, 0o1600) is not None
assert shared(4096) is not None
for i in range(2):
    assert queue(f'/left{i}') is not None
if "locked" in sys.argv:  # by nobody who could read it
    libc.shmctl(shared(8192), 1, (ctypes.c_char * 200)())
"""

FIND = r"""
left = []
for kind in ("shm", "sem", "msg"):
    with open(f"/proc/sysvipc/{kind}") as file:
        left += file.read().splitlines()[1:]
left += [i for i in range(2) if call('mq_open', f'/left{i}'.encode(), os.O_RDWR) is not None]
print(len(left))
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getppid(), signal.SIGKILL)", "os.abort()"],
                         ids=["exit", "kill-the-shell", "abort"])
def test_nothing_of_ipc_outlives_the_last_command(neighbour, end):
    """Neither the next command finds it, nor does the kernel count it for the user."""
    for _ in range(5):
        python(neighbour, LEAVE + end)
        assert python(neighbour, FIND)["output"]["stdout"] == "0\n"


def test_commands_that_overlap_share_ipc(neighbour):
    """What one command makes the other may use. It goes when the last of them ends."""
    first = neighbour.begin("run_command", {"command": PYTHON, "timeout_ms": 600000},
                            {"stdin": PRELUDE + LEAVE + "keep('all')"})
    assert procfs.eventually(lambda: content(neighbour, "held"), PATIENCE) == "all"
    for _ in range(3):
        assert python(neighbour, FIND)["output"]["stdout"] == "153\n"
    neighbour.cancel(first)
    neighbour.wait(first, PATIENCE)
    assert python(neighbour, FIND)["output"]["stdout"] == "0\n"


# Keys


def keys_of(uid):
    """The number of keys that the kernel counts for this id, or None if it has no keys."""
    try:
        text = pathlib.Path("/proc/key-users").read_text()
    except FileNotFoundError:
        return None
    found = re.search(rf"(?m)^ *{uid}: +\d+ +(\d+)/", text)
    return int(found[1]) if found else 0


def test_workspaces_take_no_keys(host):
    """The kernel gives an id 200 (kernel.keys.maxkeys), and in user mode all workspaces are of one."""
    daemon, attacker, served = host
    if keys_of(0) is None:
        pytest.skip("the kernel has no keys")
    client = served.open()
    before = keys_of(daemon.account.uid)
    many = [attacker.open() for _ in range(30)]
    for one in many:
        assert one.run("echo here")["stdout"] == "here\n"
    assert keys_of(daemon.account.uid) <= before
    owner = daemon.state.joinpath("workspaces", "a", f"w{attacker.number}").stat().st_uid
    assert owner == daemon.account.uid or keys_of(owner) == 0
    for one in [client, *many]:
        one.close()


# Rights to raise a bound


def test_no_command_raises_a_bound(neighbour):
    program = """
raised = []
for name in os.listdir("/proc/sys/user"):
    try:
        open(f"/proc/sys/user/{name}", "w").write("1000000")
        raised.append(name)
    except OSError:
        pass
for limit in (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
    soft, hard = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (hard + 1, hard + 1))
        raised.append(limit)
    except (OSError, ValueError):
        pass
print(raised)
print({name: int(open(f"/proc/sys/user/{name}").read()) for name in sorted(os.listdir("/proc/sys/user"))})
"""
    output = python(neighbour, program)["output"]
    raised, bounds = output["stdout"].splitlines()
    assert raised == "[]", output
    counts = eval(bounds, {})
    assert counts["max_inotify_instances"] == INOTIFY_INSTANCES and counts["max_inotify_watches"] == INOTIFY_WATCHES
    # The kernel's value for a new namespace bounds nothing.
    assert all(value < 1 << 20 for value in counts.values()), counts


# What the kernel counts for cloisterd's own id in user mode


# Also takes every watch that another process gives back.
EPOLL = """
import select
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
watched = [os.eventfd(0) for _ in range(1000)]
polls = [select.epoll() for _ in range(60)]
left = [(poll, fd) for poll in polls for fd in watched]

def take_watches():
    while left:
        try:
            left[-1][0].register(left[-1][1], 1)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            return
        left.pop()

take_watches()
with open("held.new", "w") as file:
    file.write(str(60000 - len(left)))
os.rename("held.new", "held")
while True:
    take_watches()
    time.sleep(0.0005)
"""


@pytest.fixture
def no_watches(host):
    """A command of the attacker's has all watches of epoll(7) that the kernel gives its id. In system mode that is the
    workspace's, and in user mode cloisterd's."""
    ATTACKS["epoll"] = (EPOLL, "need(0)")
    try:
        with setting("fs/epoll/max_user_watches", 30000):
            attack = Attack(host[1], "epoll")
            assert 20000 < attack.held() < 31000
            yield attack
            # This cancel shows that the attacker's own connection is served.
            attack.end()
    finally:
        del ATTACKS["epoll"]


def test_one_tenant_takes_all_epoll_watches(host, neighbour, no_watches):
    """The other tenant's running calls go on, and its clients connect, open workspaces and start commands."""
    daemon, _, served = host
    for _ in range(3):
        check_served(served, neighbour)
    # More than a pipe or a socket holds, in both directions.
    assert neighbour.run("wc -c", options={"stdin": "x" * 500000})["stdout"] == "500000\n"
    text = "x" * 999 + "\n"
    neighbour.use("write_file", path="large", content=text * 1000)
    assert content(neighbour, "large") == text * 1000
    assert neighbour.run("cat large large | wc -c; cat large")["stdout"].startswith("2000000\n")
    with contextlib.closing(daemon.control(groups=[ADMIN])) as control:
        assert control.call("status")["state"] == "serving"
    assert content(no_watches.client, "held")
    # cloisterd had no watch.
    assert daemon.system or "fs.epoll.max_user_watches" in daemon.log()


def test_commands_end_without_epoll_watches(host, neighbour, no_watches):
    """Commands that began before and after all watches were taken end at their deadline, when they are cancelled, and when
    their client hangs up."""
    daemon, _, served = host
    output = neighbour.observe("run_command", {"command": "sleep 1000", "timeout_ms": 200}, timeout=PATIENCE)["output"]
    assert output["ended_by"] == "timeout", output
    number = neighbour.begin("run_command", {"command": "echo yes >begun; sleep 1000", "timeout_ms": 600000})
    assert procfs.eventually(lambda: content(neighbour, "begun"), PATIENCE)
    neighbour.cancel(number)
    assert neighbour.wait(number, PATIENCE)["result"]["output"]["ended_by"] == "cancel"
    gone = served.open()
    gone.begin("run_command", {"command": "echo yes >begun; sleep 1000", "timeout_ms": 600000})
    assert procfs.eventually(lambda: content(gone, "begun"), PATIENCE)
    gone.close()
    with contextlib.closing(daemon.control(groups=[ADMIN])) as control:
        assert procfs.eventually(lambda: len(control.call("commands")["calls"]) == 1, PATIENCE)  # the attacker's


def test_an_instance_starts_without_epoll_watches(area, no_watches):
    """In user mode the new instance has the id of the commands that hold all watches."""
    directory = area.new_directory()
    (directory / "there").write_text("still here")
    done = area.private(directory, "call", "read_file", "path=there")
    assert done.returncode == 0 and b"still here" in done.stdout, done


# Connects as a user without a tenant, as fast as possible. The argument is what each connection sends.
CONNECT = """
import collections, socket, sys
path, sent = sys.argv[1:]
data = {"nothing": b"", "request": b'{"jsonrpc":"2.0","id":1,"method":"workspace.list"}\\n', "endless": b"[" * 65000}[sent]
kept = collections.deque(maxlen=500)
while True:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    try:
        client.connect(path)
        client.send(data)
        kept.append(client)
    except OSError:
        client.close()
"""


@pytest.mark.parametrize("sent", ["nothing", "request", "endless"])
@pytest.mark.parametrize("kind", ["agent", "control"])
def test_unauthorized_clients_do_not_hold_up_administrators(host, neighbour, tenants, kind, sent):
    daemon = host[0]
    flooded = daemon.socket if kind == "agent" else daemon.control_socket
    floods = [subprocess.Popen([PYTHON.split()[0], "-c", CONNECT, flooded, sent], **tenants[2].as_user())
              for _ in range(4)]
    try:
        for _ in range(5):
            done = subprocess.run([daemon.area.bin / "cloisterctl", "--socket", daemon.control_socket, "status"],
                                  capture_output=True, timeout=PATIENCE, user=daemon.account.uid,
                                  group=daemon.account.gid, extra_groups=[ADMIN])
            assert done.returncode == 0 and b"serving" in done.stdout, done
            assert neighbour.run("echo served")["stdout"] == "served\n"
        assert all(flood.poll() is None for flood in floods)
    finally:
        for flood in floods:
            flood.kill()
            flood.wait()
