# SPDX-License-Identifier: Apache-2.0
"""Ways around a disk class where the kernel has no quota and cloisterd measures: each is caught, or bounded as it is documented,
while a neighbour of another tenant works. tests/vm/test_disk_quota.py tries them against the kernel's quota."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import pytest

import procfs
from daemon import SYSTEM, Account, acting_as
from killer import Holder

MIB = 1 << 20
CLASS, HARD = 4 * MIB, 4 * MIB + MIB // 2
CLASSES = "small:4M:400:100 large:64M:20k:100 wide:8M:20k:100"

pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as two tenants"), pytest.mark.deep("busy")]


@pytest.fixture
def neighbour_account():
    made = Account(".n")
    yield made
    made.remove()


def config(area, other, host="", wide=False):
    mode = "mode = system\n" if SYSTEM else ""
    return (f"[cloister]\n{mode}agent_socket_mode = 0666\nadmin_group = {area.account.gid}\ndisk_classes = {CLASSES}\n{host}"
            f"[tenant evader]\nusers = {area.account.name}\nmanaged = yes\ntools = basic patch\n"
            f"{'disk_class = wide' if wide else ''}\n[tenant neighbour]\nusers = {other.name}\nmanaged = yes\ndisk_class = large\n")


class Neighbour(threading.Thread):
    """Writes, reads and runs commands without end; notes the first thing that is not as it is on a quiet host."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.over, self.rounds, self.wrong = client, threading.Event(), 0, None

    def run(self):
        try:
            while not self.over.is_set():
                name, text = f"f{self.rounds % 7}", f"{self.rounds}\n" * 100
                self.client.use("write_file", path=name, content=text)
                assert self.client.use("run_command", command=f"cat {name} && cp {name} copy")["stdout"] == text
                assert self.client.use("read_file", path="copy", options={"line_numbers": False})["content"] == text
                self.rounds += 1
        except Exception as error:  # told by check()
            self.wrong = error

    def check(self):
        """It worked all the time, and has done so after whatever came before."""
        before = self.rounds
        assert procfs.eventually(lambda: self.wrong or self.rounds > before + 1, 120), self.rounds
        assert self.wrong is None, self.wrong

    def stop(self):
        self.over.set()
        self.join(120)


class Host:
    def __init__(self, daemon, neighbour):
        self.daemon = daemon
        self.evader = self.opened(daemon.connect())
        self.neighbour = Neighbour(self.opened(daemon.connect(neighbour)))
        self.neighbour.start()

    def opened(self, client):
        self.isolation = client.call("workspace.open", {"workspace": "w"})["isolation"]
        if self.isolation["limits"]["disk"] != "measured":
            pytest.skip("the kernel has a quota for the user here")
        return client

    def row(self):
        with self.daemon.control() as control:
            return next(row for row in control.call("workspaces")["workspaces"] if row["tenant"] == "evader")

    def measured(self, condition):
        """Waits until what was measured of the evader's workspace is so. To look has it measured, if that is due."""
        assert procfs.eventually(lambda: self.row()["disk_bytes"] is not None and condition(self.row()), 120), self.row()

    def is_over(self, words):
        """Nothing more is written, by tools or commands, and both say why."""
        def refused():
            seen = self.evader.observe("write_file", {"path": "more", "content": "x"})
            return not seen["success"] and words in seen["error"]["message"] and seen["error"]["code"]
        assert procfs.eventually(refused, 120) == "QUOTA_EXCEEDED", self.row()
        seen = self.evader.observe("run_command", {"command": "echo x >another"})
        assert not seen["success"] and seen["error"]["code"] == "QUOTA_EXCEEDED" and seen["output"]["ended_by"] == "disk", seen
        assert any("not write to any" in note for note in seen["notes"]), seen

    def has_too_many_files(self):
        """Nothing more is written or made, by tools or commands, and both say why."""
        def refused():
            seen = self.evader.observe("write_file", {"path": "more", "content": "x"})
            return not seen["success"] and "more files than it may" in seen["error"]["message"] and seen["error"]["code"]
        assert procfs.eventually(refused, 120) == "QUOTA_EXCEEDED", self.row()
        seen = self.evader.observe("run_command", {"command": "echo x >another"})
        assert seen["output"]["exit_code"] != 0 and any("neither make any" in note for note in seen["notes"]), seen

    def is_done(self, command):
        """Growth that is measured while it runs may end it."""
        assert procfs.eventually(lambda: self.evader.observe("run_command", {"command": command})["success"], 120), self.row()

    def is_free_again(self):
        assert procfs.eventually(lambda: self.evader.observe("write_file", {"path": "again", "content": "x"})["success"], 120), self.row()


@pytest.fixture
def host(area, start_daemon, neighbour_account):
    made = []

    def start(wide=False, **more):
        daemon = start_daemon(config=config(area, neighbour_account, wide=wide), system=SYSTEM, **more)
        made.append(Host(daemon, neighbour_account))
        return made[-1]

    yield start
    for one in made:
        one.neighbour.stop()


def ended(seen):
    assert not seen["success"] and seen["output"]["ended_by"] == "disk" and seen["error"]["code"] == "QUOTA_EXCEEDED", seen


def python(script):
    return f"python3 - <<'E'\n{script}\nE\n"


def test_sparse_files(host):
    """Holes take nothing, and count as soon as something is in them: by a write, or by a mapping, which no file size bounds."""
    here = host()
    here.evader.use("run_command", command="for i in $(seq 20); do truncate -s 4M h$i; done")
    here.measured(lambda row: row["disk_files"] == 20 and row["disk_bytes"] < MIB)
    assert here.evader.observe("write_file", {"path": "more", "content": "x"})["success"]
    fill = python("import mmap, time\n"
                  "for n in range(1, 21):\n"
                  "    f = open(f'h{n}', 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
                  "    for at in range(0, 4 << 20, 4096): m[at] = 1\n"
                  "    m.flush(); time.sleep(.7)")
    ended(here.evader.observe("run_command", {"command": fill, "timeout_ms": 300000}))
    here.is_over("may take 4 MiB")
    # A command that begins over the class meets the same end, though the kernel refuses it no mapping.
    ended(here.evader.observe("run_command", {"command": fill.replace("range(1, 21)", "range(20, 0, -1)"), "timeout_ms": 300000}))
    assert here.row()["disk_bytes"] < 20 * 4 * MIB
    here.evader.use("run_command", command="rm h*")
    here.is_free_again()
    here.neighbour.check()


def test_what_only_checkpoints_have(host):
    """What a checkpoint still has takes the workspace's disk, whatever is removed afterwards; so do closed directories in it.
    Rolling back makes room. No command writes past the hard limit, where a measurement may end it."""
    here = host()
    here.evader.use("run_command", command="head -c 3M /dev/zero >f")
    assert here.evader.call("workspace.checkpoint", {})["checkpoint"] == 1
    here.evader.use("run_command", command="rm f")
    here.measured(lambda row: 2.9 * MIB < row["disk_bytes"] < 3.2 * MIB)
    assert here.evader.observe("write_file", {"path": "more", "content": "x"})["success"]
    here.evader.use("run_command", command="mkdir d; head -c 1280K /dev/zero >d/g")
    here.evader.call("workspace.checkpoint", {})
    here.is_done("rm -rf d")
    here.is_over("roll back to an earlier checkpoint")
    here.evader.use("run_command", command="rm more")
    here.is_over("with its checkpoints")
    here.evader.call("workspace.rollback", {"to": 1})
    here.is_free_again()
    here.measured(lambda row: 2.9 * MIB < row["disk_bytes"] < 3.2 * MIB)
    here.evader.use("run_command", command="rm f; mkdir d; head -c 512K /dev/zero >d/g; chmod 0 d")
    here.evader.call("workspace.checkpoint", {})
    here.is_done("rm -rf d || chmod 700 d && rm -rf d")
    here.is_over("roll back to an earlier one")
    here.evader.call("workspace.rollback", {"to": 1})
    here.is_free_again()
    here.neighbour.check()


def test_many_names_of_one_file(host):
    """They count once, however many there are, and whole when all but one are where nothing is measured. The command stays below
    the hard limit, where a measurement may end it."""
    here = host()
    here.evader.use("run_command", command="head -c 3M /dev/zero >f; mkdir d; for i in $(seq 99); do ln f d/$i; done")
    here.measured(lambda row: row["disk_files"] == 100 and 2.9 * MIB < row["disk_bytes"] < 3.2 * MIB)
    here.evader.use("run_command", command="for n in 1 2; do head -c 640K /dev/zero >g$n; for i in $(seq 99); do ln g$n d/$n.$i; done; done; chmod 0 d")
    here.is_over("it may not read itself")
    here.evader.use("run_command", command="chmod 700 d")
    here.is_over("may take 4 MiB")
    here.evader.use("run_command", command="rm -rf d g*")
    here.is_free_again()
    here.neighbour.check()


def test_directories_count(host):
    """An empty one takes no block on some file systems, and an inode of all tenants' everywhere."""
    here = host()
    here.evader.use("run_command", command="seq 450 | xargs mkdir")
    here.has_too_many_files()
    here.evader.use("run_command", command="seq 450 | xargs rmdir")
    here.is_free_again()
    here.neighbour.check()


MAKES = {
    "files": "open(name, 'w').close()",
    "directories": "os.mkdir(name)",
    "names": "os.link('f', name)",
    "symbolic links": "os.symlink('f', name)",
}


@pytest.mark.parametrize("make", [pytest.param(make, marks=() if what == "files" else pytest.mark.deep("repeats"))
                                  for what, make in MAKES.items()], ids=MAKES)
def test_a_command_that_makes_files_is_ended(host, make):
    """The class has 400. A command that makes one after the other, and none larger than nothing, is ended as one that writes
    too much is."""
    here = host()
    seen = here.evader.observe("run_command", {"timeout_ms": 300000, "command": python(
        "import os, time\n"
        "open('f', 'w').close()\n"
        "for i in range(100000):\n"
        "    name = f'{i}'\n"
        f"    {make}\n"
        "    time.sleep(.003)")})
    assert not seen["success"] and seen["output"]["ended_by"] == "disk", seen
    assert seen["error"]["code"] == "QUOTA_EXCEEDED"
    here.has_too_many_files()
    here.neighbour.check()


def test_short_commands_that_make_files(host):
    """None runs long enough to be measured. From the first that begins over the class on they make none."""
    here = host()
    if not here.isolation["landlock"]:
        pytest.skip("needs Landlock")
    here.evader.use("run_command", command="mkdir d; touch f; seq 450 | xargs touch")
    here.has_too_many_files()
    for way in ("touch made", "mkdir made", "ln f made", "ln -s f made", "mkfifo made", "mv f made", "mv f d/f", "ln f d/made"):
        seen = here.evader.observe("run_command", {"command": way})
        assert seen["output"]["exit_code"] != 0 and any("neither make any" in note for note in seen["notes"]), (way, seen)
    # The private directories are not the workspace.
    assert here.evader.use("run_command", command="echo; mkdir /tmp/d; ln -s x /tmp/d/l; ls /tmp/d")["stdout"] == "\nl\n"
    here.evader.use("run_command", command="seq 450 | xargs rm -f")
    here.is_free_again()
    here.neighbour.check()


def test_the_last_files_of_the_disk(area, start_daemon, neighbour_account):
    """What one tenant's commands make of the host's last files makes writers wait, with the reason, and readers not."""
    with area.disk("96m,nr_inodes=4000") as place:
        daemon = start_daemon(config=config(area, neighbour_account, "state_free_min = 0\n"), system=SYSTEM, state=place / "state")
        evader, neighbour = daemon.connect(), daemon.connect(neighbour_account)
        for client in (evader, neighbour):
            client.call("workspace.open", {"workspace": "w"})
        neighbour.use("write_file", path="f", content="kept\n")
        # Files that have no name any more are not measured.
        held = evader.begin("run_command", {"timeout_ms": 300000, "command": python(
            "import os, time\n"
            "for i in range(8):\n"
            "    if os.fork() > 0: continue\n"
            "    try:\n"
            "        while True: os.open(f'{i}', os.O_CREAT | os.O_RDWR); os.unlink(f'{i}')\n"
            "    except OSError: break\n"
            "time.sleep(250)")})

        def refused():
            seen = neighbour.observe("write_file", {"path": "g", "content": "x"})
            return not seen["success"] and seen["error"]
        error = procfs.eventually(lambda: (found := refused()) and found["code"] == "BUSY" and found, 120)
        assert error and "more files, and nothing is written" in error["message"], error
        assert neighbour.use("run_command", command="cat f")["stdout"] == "kept\n"
        evader.cancel(held)
        assert not evader.result(held)["success"]
        assert procfs.eventually(lambda: neighbour.observe("write_file", {"path": "g", "content": "x"})["success"], 120)
        for client in (evader, neighbour):
            client.call("workspace.remove", {"workspace": "w"})
        daemon.stop()


DEEP = ("import os\n"
        "for i in range(300): os.mkdir('d' * 250); os.chdir('d' * 250)\n")
CLOSED = {
    "a directory": ("mkdir d; head -c 3M /dev/zero >d/f; chmod 0 d", "chmod 700 d; rm -rf d"),
    "one without search": ("mkdir d; head -c 3M /dev/zero >d/f; chmod 600 d", "chmod 700 d; rm -rf d"),
    "one in another": ("mkdir -p a/d; head -c 3M /dev/zero >a/d/f; chmod 300 a/d", "chmod 700 a/d; rm -rf a"),
    "the root": ("chmod 0 .", "chmod 700 /workspace"),
    "too deep": (python(DEEP + "open('f', 'w').write('x' * (3 << 20))"), "rm -rf dd*"),
}


@pytest.mark.parametrize("way", CLOSED)
def test_what_is_kept_from_being_measured(host, way):
    """It could be of any size, and so counts as over the class until it can be measured again."""
    close, open_again = CLOSED[way]
    here = host()
    assert here.evader.use("run_command", command=close, timeout_ms=120000)["exit_code"] == 0
    if way != "the root":
        here.is_over("it may not read itself")
    else:
        assert procfs.eventually(lambda: "not write to any" in str(here.evader.observe("run_command", {"command": "true"}).get("notes")), 120)
    assert here.evader.use("run_command", command=open_again, timeout_ms=120000)["exit_code"] == 0
    here.is_free_again()
    here.neighbour.check()


def test_a_command_that_goes_on_in_what_it_has_closed(host):
    here = host()
    write = "i=0; while [ $i -lt 900 ]; do i=$((i+1)); head -c 64K /dev/zero >f$i; sleep .3; done"
    ended(here.evader.observe("run_command", {"command": f"mkdir d; cd d; chmod 300 .; {write}", "timeout_ms": 400000}))
    with acting_as(os.getuid()):
        (path,) = (here.daemon.state / "workspaces").glob("*/w/d")
        taken = sum(file.stat().st_blocks * 512 for file in path.iterdir())
    assert taken < 900 * 64 * 1024, taken
    here.evader.use("run_command", command="chmod -R u+rwX d; rm -rf d", timeout_ms=120000)
    here.is_free_again()
    here.neighbour.check()


def test_a_measurement_that_is_kept_from_the_processor(host):
    """Commands of the lowest priority are enough for that, since it has none: here it is stopped. Another is made at theirs.
    The command writes only when one is stopped, so that none before it can end the command."""
    here = host()
    (path,) = (here.daemon.state / "workspaces").glob("evader/w")
    # A child that measures takes the lowest priority first.
    measurer = Holder(here.daemon.cell_of(path)[1], "cloister-files", "sched_setscheduler")
    held = here.evader.begin("run_command", {"timeout_ms": 300000, "command":
                             "while [ ! -e go ]; do sleep .1; done; "
                             "i=0; while [ $i -lt 900 ]; do i=$((i+1)); head -c 64K /dev/zero >g$i; sleep .3; done"})
    assert procfs.eventually(lambda: here.row() and measurer.has_held(), 120)
    pid = measurer.held()
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    here.evader.use("write_file", path="go", content="")
    ended(here.evader.result(held))
    with acting_as(os.getuid()):
        assert not procfs.is_alive(pid)
    here.is_over("may take 4 MiB")
    here.neighbour.check()


FOLLOW = """
import ctypes, os, struct, sys, threading, time
c, pieces = ctypes.CDLL(None), int(sys.argv[1])
for name in ("a", "m", "z", "z/big"): os.mkdir(name)
for i in range(15000): os.close(os.open(f"m/{i}", os.O_CREAT | os.O_WRONLY))
notify = c.inotify_init1(0)
place = {c.inotify_add_watch(notify, name.encode(), 16): name for name in ("a", "z")}  # IN_CLOSE_NOWRITE

def follow():
    first, where = None, "z"
    while True:
        for at in range(0, len(data := os.read(notify, 4096)), 16):
            closed = place[struct.unpack_from("i", data, at)[0]]
            first = first or closed
            wanted = first if closed == first else {"a": "z", "z": "a"}[first]
            if wanted != where:
                os.rename(f"{where}/big", f"{wanted}/big")
                where = wanted

threading.Thread(target=follow, daemon=True).start()
big = os.open("z/big", os.O_RDONLY)
for i in range(pieces):
    file = os.open(f"{i}", os.O_CREAT | os.O_WRONLY, dir_fd=big)
    os.write(file, bytes(1 << 20))
    os.close(file)
    time.sleep(.2)
"""


def test_a_command_that_follows_the_measurement(host, delegation):
    """It moves what it has written to where a measurement has been, and back. One is made while it is stopped."""
    here = host(wide=True, launcher=delegation.launcher())
    here.evader.use("write_file", path="follow.py", content=FOLLOW)
    seen = here.evader.observe("run_command", {"command": "python3 follow.py 400", "timeout_ms": 600000})
    print(seen, here.row())
    ended(seen)
    here.is_over("may take 8 MiB")
    here.neighbour.check()


@pytest.mark.parametrize("who", ["files process", "worker", "cloisterd"])
def test_nothing_stays_stopped(host, delegation, who):
    """A process dies just when commands are stopped to be measured, and the worker cannot do anything."""
    here = host(wide=True, launcher=delegation.launcher())
    here.evader.use("run_command", command="mkdir m; seq 15000 | sed s#^#m/# | xargs touch")
    held = here.evader.begin("run_command", {"timeout_ms": 600000, "command": "while :; do echo >ticks; done"})
    with acting_as(os.getuid()):
        worker, files = next(pids for pids in here.daemon.cells() if "/evader/w " in pathlib.Path(f"/proc/{pids[1]}/mountinfo").read_text())
        # The workspace's group and command are the only ones that are ever frozen: the neighbour's last less than ten seconds.
        (path,) = (here.daemon.state / "workspaces").glob("evader/w")
        ticks = path / "ticks"

        def stopped():
            for group in delegation.path.glob("ws-*/cmd-*"):
                with contextlib.suppress(OSError):
                    if (group / "cgroup.freeze").read_text() == "1\n":
                        os.kill(worker, signal.SIGSTOP)
                        return (group / "cgroup.freeze").read_text() == "1\n" or os.kill(worker, signal.SIGCONT)

        assert procfs.eventually(stopped, 300, 0)
        everything = procfs.descendants(worker)
        os.kill({"files process": files, "worker": worker, "cloisterd": here.daemon.pid}[who], signal.SIGKILL)
        if who == "files process":
            assert procfs.eventually(lambda: not procfs.is_alive(files))
            os.kill(worker, signal.SIGCONT)
            before = ticks.stat().st_mtime_ns
            assert procfs.eventually(lambda: ticks.stat().st_mtime_ns > before)
        else:
            assert procfs.vanish([worker, *everything])
    if who == "cloisterd":
        here.daemon.process.wait()
        return
    if who == "worker":
        assert here.evader.result(held)["error"]["code"] == "WORKER_LOST"
    assert here.evader.observe("write_file", {"path": "more", "content": "x"})["success"]
    here.neighbour.check()


def test_deleted_open_files(host):
    """They have no name to measure. Each is as small as a file may be, there are as many as may be open, and all go with their
    command (0136, Cost)."""
    here = host()
    seen = here.evader.use("run_command", timeout_ms=120000, command=python(
        "import os, resource\n"
        "sizes = []\n"
        "for i in range(8):\n"
        "    f = os.open('f', os.O_CREAT | os.O_RDWR); os.unlink('f')\n"
        "    try:\n"
        "        while os.write(f, bytes(1 << 20)): pass\n"
        "    except OSError: pass\n"
        "    sizes.append(os.fstat(f).st_size)\n"
        "print(*sizes, resource.getrlimit(resource.RLIMIT_NOFILE)[1])"))
    *sizes, files = map(int, seen["stdout"].split())
    assert sizes == [HARD] * 8 and files <= 4096
    assert not here.row()["disk_bytes"] or here.row()["disk_bytes"] < MIB
    here.is_free_again()
    here.neighbour.check()


def test_deleted_open_files_and_the_guard(area, start_daemon, neighbour_account):
    """What they take of the host's last room makes writers wait, with the reason, and readers not; it ends with the command."""
    with area.disk("96m") as place:
        state = place / "state"
        daemon = start_daemon(config=config(area, neighbour_account, "state_free_min = 64M\n"), system=SYSTEM, state=state)
        evader, neighbour = daemon.connect(), daemon.connect(neighbour_account)
        for client in (evader, neighbour):
            client.call("workspace.open", {"workspace": "w"})
        neighbour.use("write_file", path="f", content="kept\n")
        held = evader.begin("run_command", {"timeout_ms": 300000, "command": python(
            "import os, time\n"
            "for i in range(9):\n"
            "    f = os.open('f', os.O_CREAT | os.O_RDWR); os.unlink('f')\n"
            "    try:\n"
            "        while os.write(f, bytes(1 << 20)): pass\n"
            "    except OSError: pass\n"
            "time.sleep(250)")})

        def refused():
            seen = neighbour.observe("write_file", {"path": "g", "content": "x"})
            return not seen["success"] and seen["error"]
        error = procfs.eventually(refused, 120)
        assert error and error["code"] == "BUSY" and "nothing is written until there is more" in error["message"], error
        assert neighbour.use("run_command", command="cat f")["stdout"] == "kept\n"
        assert neighbour.use("search_files", pattern="kept")["count"] == 1
        evader.cancel(held)
        assert not evader.result(held)["success"]
        assert procfs.eventually(lambda: neighbour.observe("write_file", {"path": "g", "content": "x"})["success"], 120)
        for client in (evader, neighbour):
            client.call("workspace.remove", {"workspace": "w"})
        daemon.stop()


@pytest.mark.skipif(not shutil.which("mkfs.btrfs"), reason="needs mkfs.btrfs (package btrfs-progs)")
def test_subvolumes_of_btrfs(host, area):
    """Everybody may make them in his own directories. What is read-only could not be cleared."""
    image, top = area.path / "btrfs.image", area.path / "btrfs"
    top.mkdir()
    with acting_as(os.getuid()):
        subprocess.run(["truncate", "-s", "2G", image], check=True)
        subprocess.run(["mkfs.btrfs", "-q", image], check=True)
        mounted = subprocess.run(["mount", "-o", "loop", image, top], stderr=subprocess.PIPE)
        if mounted.returncode != 0:
            pytest.skip(f"btrfs cannot be mounted here: {mounted.stderr.decode().strip()}")
        (top / "state").mkdir(mode=0o700)
        os.chown(top / "state", area.account.uid, area.account.gid)
        here = host(state=top / "state")
        try:
            seen = here.evader.use("run_command", command=python(
                "import fcntl, os, struct\n"
                "def tried(number, data):\n"
                "    try: fcntl.ioctl(os.open('.', 0), number, bytearray(data)); return 'made'\n"
                "    except OSError as error: return error.errno\n"
                "name = struct.pack('q4088s', os.open('.', 0), b'sub')\n"
                "wide = struct.pack('qQQ32s4040s', os.open('.', 0), 0, 2, b'', b'sub2')\n"
                "print(*(tried(number, data) for number, data in ((0x5000940e, name), (0x50009401, name), (0x50009418, wide), "
                "(0x50009417, wide), (0x4008941a, struct.pack('Q', 2)))))\n"
                "print(os.listdir('.'))"))
            assert seen["stdout"] == "25 25 25 25 25\n[]\n", seen  # ENOTTY
            here.neighbour.check()
        finally:
            here.neighbour.stop()
            here.daemon.stop()
            assert procfs.eventually(lambda: subprocess.run(["umount", top]).returncode == 0, 60)
