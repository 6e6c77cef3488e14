# SPDX-License-Identifier: Apache-2.0
"""The kernel's quotas: cloister-quota gives each class's ids their limits on a file system of its own, and commands, tools and
neighbours meet them. Needs a kernel with quotas and root, so it runs in the virtual machine."""

import ctypes
import os
import pathlib
import struct
import subprocess
import tempfile
import time

import pytest

import procfs
from daemon import Account, Area, Daemon, where_is

pytestmark = pytest.mark.skipif(not os.environ.get("CLOISTER_VM"), reason="needs the virtual machine: tests/vm/run")

MIB = 1 << 20
CLASSES = "small:16M:500:29000 large:48M:5k:1000"
SMALL, LARGE = 16 * MIB, 48 * MIB
LONG = 300000  # milliseconds: the machine is emulated
QUOTACTL_FD = 443
SETQUOTA, GETQUOTA = 0x800008, 0x800007


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def checked(*words):
    done = run(*words)
    assert done.returncode == 0, (words, done)
    return done


class Disk:
    """A file system of its own."""

    def __init__(self, *options, kind="ext4", mount="loop"):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="disk.", dir="/var/tmp"))
        self.top.chmod(0o755)
        image, self.path = self.top / "image", self.top / "mount"
        checked("truncate", "-s", "1200M", image)
        checked(f"mkfs.{kind}", "-q", *options, image)
        self.path.mkdir()
        checked("mount", "-o", mount, image, self.path)

    def done(self):
        procfs.eventually(lambda: run("umount", self.path).returncode == 0, 60)
        checked("rm", "-rf", self.top)


@pytest.fixture(scope="module", params=["ext4", "xfs"])
def disk(request):
    kind = request.param
    if kind == "xfs" and run("sh", "-c", "command -v mkfs.xfs").returncode != 0:
        pytest.skip("the image has no mkfs.xfs")
    made = Disk("-O", "quota") if kind == "ext4" else Disk(kind="xfs", mount="loop,uquota")
    made.kind = kind
    yield made
    made.done()


@pytest.fixture(scope="module")
def plain():
    made = Disk()
    yield made
    made.done()


@pytest.fixture(scope="module")
def place():
    account = Account(".q")
    account.give_ids(60000)
    made = Area(account)
    yield made
    made.remove()
    account.remove()


def config(place, more=""):
    name = place.account.name
    return (f"[cloister]\nmode = system\nspare_cells = 0\nadmin_group = {place.account.gid}\ndisk_classes = {CLASSES}\n{more}"
            f"[tenant a]\nusers = {name}\nmanaged = yes\n"
            f"[tenant b]\nusers = {name}\nmanaged = yes\ndisk_class = large\n")


def state_on(disk, place):
    state = disk.path / "state"
    if not state.exists():
        state.mkdir(mode=0o700)
        place.account.own(state)
    return state


@pytest.fixture(scope="module")
def config_file(tmp_path_factory, place):
    path = pathlib.Path(tempfile.mkdtemp(prefix="quota.", dir="/etc")) / "cloister.conf"
    path.write_text(config(place))
    yield path
    checked("rm", "-rf", path.parent)


def helper(place, config_file, state, *words):
    return run(where_is("cloister-quota"), "--config", config_file, "--state-dir", state, "--user", place.account.name, *words)


@pytest.fixture(scope="module")
def helped(disk, place, config_file):
    state = state_on(disk, place)
    done = helper(place, config_file, state)
    assert done.returncode == 0, done
    return state


@pytest.fixture
def service(helped, place):
    daemon = Daemon(place, system=True, as_root=True, state=helped, config=config(
        place, f"require = disk_quota\nuser = {place.account.name}\n"))
    yield daemon
    daemon.stop()


def opened(daemon, tenant, name):
    client = daemon.connect()
    answer = client.call("workspace.open", {"workspace": name, "tenant": tenant})
    return client, answer["isolation"]["limits"]


def call_quota(path, command, uid, data):
    """quotactl_fd(2), for users."""
    fd = os.open(path, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    r = libc.syscall(QUOTACTL_FD, fd, command << 8 & 0xffffffff, uid, data)
    error = ctypes.get_errno()
    os.close(fd)
    return error if r < 0 else 0


def test_a_file_system_without_quotas_says_measured(plain, place, config_file):
    state = state_on(plain, place)
    done = helper(place, config_file, state)
    assert done.returncode == 1 and "tune2fs -O quota" in done.stderr, done
    daemon = Daemon(place, system=True, as_root=True, state=state, config=config(place, f"user = {place.account.name}\n"))
    try:
        _, limits = opened(daemon, "a", "w")
        assert (limits["disk"], limits["disk_bytes"]) == ("measured", SMALL)
        with daemon.control() as control:
            line = next(line for line in control.call("status")["enforcement"] if line["what"] == "disk")
        assert line["by"] == "measured" and "tune2fs -O quota" in line["why"]
    finally:
        daemon.stop()
    with pytest.raises(AssertionError, match="requires disk_quota: .*tune2fs -O quota"):
        Daemon(place, system=True, as_root=True, state=state, config=config(
            place, f"require = disk_quota\nuser = {place.account.name}\n"))


def test_the_helper_is_needed_and_writes_what_differs(disk, place, config_file):
    state = state_on(disk, place)
    with pytest.raises(AssertionError, match="requires disk_quota: .*run cloister-quota"):
        Daemon(place, system=True, as_root=True, state=state, config=config(
            place, f"require = disk_quota\nuser = {place.account.name}\n"))
    assert helper(place, config_file, state, "--check").returncode == 1
    begun = time.monotonic()
    first = helper(place, config_file, state)
    between = time.monotonic()
    second = helper(place, config_file, state)
    ended = time.monotonic()
    print(f"\n{disk.kind}: 30000 ids set in {between - begun:.2f} s, looked at in {ended - between:.2f} s")
    assert first.returncode == 0 and "30000 ids of 2 classes, 30000 changed" in first.stderr, first
    assert second.returncode == 0 and "30000 ids of 2 classes, 0 changed" in second.stderr, second
    assert helper(place, config_file, state, "--check").returncode == 0
    # One that differs is mended.
    uid = place.account.first + 30000 + 7
    none = struct.pack("=8Q2I", 0, 0, 0, 0, 0, 0, 0, 0, 5, 0)
    assert call_quota(state, SETQUOTA, uid, none) == 0
    look = helper(place, config_file, state, "--check")
    assert look.returncode == 1 and "1 to be changed" in look.stderr, look
    with pytest.raises(AssertionError, match="requires disk_quota: ids of disk_classes lack the limits"):
        Daemon(place, system=True, as_root=True, state=state, config=config(
            place, f"require = disk_quota\nuser = {place.account.name}\n"))
    assert "1 changed" in helper(place, config_file, state).stderr


def test_a_configuration_of_anothers_changes_nothing(helped, place, config_file):
    other = place.path / "cloister.conf"
    other.write_text(config(place).replace("16M", "1M"))
    place.account.own(other)
    done = helper(place, other, helped)
    assert done.returncode == 1 and "must belong to root" in done.stderr, done
    assert helper(place, config_file, helped, "--check").returncode == 0


@pytest.mark.parametrize("of", ["bytes", "files"])
def test_a_workspace_without_room_is_rolled_back(service, of):
    """Nothing is left for the new layer of a rollback, which makes room by what it drops; and it can be removed."""
    client, _ = opened(service, "a", f"full-{of}")
    client.use("write_file", path="kept", content="kept")
    client.call("workspace.checkpoint", {})
    fill = "head -c 32M /dev/zero >big" if of == "bytes" else "mkdir many && cd many && seq 2000 | xargs touch"
    client.observe("run_command", {"command": f"{fill}; cd; head -c 32M /dev/zero >>big; i=0; "
                                              "while : >more$i; do i=$((i+1)); done", "timeout_ms": LONG})
    assert not client.observe("write_file", {"path": "new", "content": "x" * 9000})["success"]
    assert client.call("workspace.rollback", {"to": 1}, timeout=LONG / 1000)["checkpoint"] == 1
    assert procfs.eventually(lambda: client.observe("write_file", {"path": "new", "content": "x" * 9000})["success"], 60)
    assert client.use("list_directory", path=".")["count"] == 2
    client.observe("run_command", {"command": fill + "; head -c 32M /dev/zero >>big", "timeout_ms": LONG})
    client.call("workspace.remove", {"workspace": f"full-{of}"}, timeout=LONG / 1000)


def test_a_command_stops_at_its_class_and_its_neighbour_goes_on(service):
    greedy, limits = opened(service, "a", "greedy")
    assert (limits["disk"], limits["disk_bytes"]) == ("quota", SMALL)
    seen = greedy.observe("run_command", {"command": "head -c 32M /dev/zero >big", "timeout_ms": LONG})
    assert not seen["success"] and seen["error"]["code"] == "QUOTA_EXCEEDED", seen
    assert seen["output"]["ended_by"] == "disk" and "quota" in seen["output"]["stderr"].lower(), seen
    size = int(greedy.use("run_command", command="stat -c %s big")["stdout"])
    assert SMALL - MIB < size <= SMALL
    failed = greedy.observe("write_file", {"path": "more", "content": "x" * 100000})
    assert failed["error"]["code"] == "QUOTA_EXCEEDED", failed
    assert failed["usage"]["disk"]["limit"] == SMALL and failed["usage"]["disk"]["bytes"] > SMALL - MIB
    # It was full before: what fails now for another reason is not said to have failed for this.
    assert greedy.use("run_command", command="false")["ended_by"] == "exit"
    neighbour, _ = opened(service, "a", "neighbour")
    neighbour.use("write_file", path="f", content="x" * 1000000)
    assert neighbour.use("run_command", command="head -c 12M /dev/zero >big", timeout_ms=LONG)["exit_code"] == 0
    large, limits = opened(service, "b", "large")
    assert limits["disk_bytes"] == LARGE
    assert large.use("run_command", command="head -c 40M /dev/zero >big", timeout_ms=LONG)["exit_code"] == 0
    # Removal works over quota.
    assert greedy.use("run_command", command="rm big")["exit_code"] == 0
    told = greedy.observe("write_file", {"path": "more", "content": "x" * 100000})
    assert told["success"] and told["usage"]["disk"]["bytes"] < 2 * MIB, told
    for client, name in ((greedy, "greedy"), (neighbour, "neighbour"), (large, "large")):
        client.call("workspace.remove", {"workspace": name})


def test_files_are_counted_too(service):
    client, _ = opened(service, "a", "files")
    seen = client.observe("run_command", {"command": "for i in $(seq 1000); do : >f$i || exit 1; done", "timeout_ms": LONG})
    assert not seen["success"] and seen["error"]["code"] == "QUOTA_EXCEEDED", seen
    assert client.fail("write_file", path="one-more", content="x")["code"] == "QUOTA_EXCEEDED"
    client.call("workspace.remove", {"workspace": "files"})


def test_nothing_of_it_is_evaded(service):
    """Deleted open files count, names of one file count once, holes count when they are filled, by a mapping too."""
    client, _ = opened(service, "a", "evader")
    seen = client.observe("run_command", {
        "command": "exec 3>f; rm f; head -c 32M /dev/zero >&3; stat -Lc %s /proc/self/fd/3", "timeout_ms": LONG})
    assert SMALL - MIB < int(seen["output"]["stdout"]) <= SMALL, seen
    assert client.use("run_command", command="truncate -s 1G hole; head -c 6M /dev/zero >f; for i in $(seq 90); do ln f l$i; done",
                      timeout_ms=LONG)["exit_code"] == 0
    usage = client.observe("write_file", {"path": "g", "content": "x"})["usage"]["disk"]
    assert 6 * MIB <= usage["bytes"] < 8 * MIB, usage
    script = ("import mmap, os; f = os.open('hole', os.O_RDWR); m = mmap.mmap(f, 1 << 26)\n"
              "for i in range(0, 1 << 26, 4096): m[i] = 1")
    seen = client.observe("run_command", {"command": f"python3 -c \"{script}\"", "timeout_ms": LONG})
    assert seen["output"]["exit_code"] != 0 or seen["output"]["signal"], seen
    assert int(client.use("run_command", command="stat -c %b hole")["stdout"]) * 512 < 11 * MIB
    # It may ask for its own, and for nothing else; nor change anything.
    uid = (service.state / "workspaces/a/evader").stat().st_uid
    script = (f"import ctypes, os; c = ctypes.CDLL(None, use_errno=True); f = os.open('.', 0); b = ctypes.create_string_buffer(80)\n"
              f"print([c.syscall({QUOTACTL_FD}, f, n << 8 & 0xffffffff, i, b) for n, i in "
              f"(({GETQUOTA}, 1000), ({GETQUOTA}, 0), ({SETQUOTA}, 1000), (0x800001, 0))])")
    assert client.use("run_command", command=f"python3 -c \"{script}\"")["stdout"].strip() == "[0, -1, -1, -1]", uid
    client.call("workspace.remove", {"workspace": "evader"})


def test_the_size_is_what_the_kernel_counts(service):
    client, _ = opened(service, "a", "counted")
    client.use("run_command", command="head -c 10M /dev/zero >f", timeout_ms=LONG)

    def row():
        with service.control() as control:
            rows = control.call("workspaces")["workspaces"]
        return next(row for row in rows if row["workspace"] == "counted")
    assert row()["disk_limited_by"] == "quota" and row()["disk_limit_bytes"] == SMALL
    assert procfs.eventually(lambda: 10 * MIB <= (row()["disk_bytes"] or 0) < 11 * MIB, 120), row()
    client.call("workspace.remove", {"workspace": "counted"})
