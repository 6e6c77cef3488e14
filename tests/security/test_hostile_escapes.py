# SPDX-License-Identifier: Apache-2.0
"""Commands that look for a way out of their workspace: to other workspaces, processes and sockets, to the network and the
host."""

import contextlib
import os
import shutil
import socket

import procfs
import pytest
from cells import with_variable
from hostile_commands import (PRELUDE, PYTHON, SOON, also_as_session, as_each_kind, begin, bystander, cell, endures,
                              is_ended, program)


def test_there_is_no_terminal(cell, bystander):
    output = endures(cell, bystander, "(: < /dev/tty) || (: > /dev/tty) || tty")
    assert output["exit_code"] == 1
    assert output["stdout"] == "not a tty\n"
    assert output["stderr"].count("No such device or address") == 2
    output = endures(cell, bystander, "read line; echo $?; sh -c 'read line < /dev/tty'; echo $?")
    assert output["stdout"] == "1\n2\n"


REFUSED = [
    "unshare -U true", "unshare -Urm true", "unshare -n true", "unshare -p -f true", "unshare -i true", "unshare -u true",
    "unshare -C true", "mknod /tmp/null c 1 3", "mount -t tmpfs none /tmp",
    "mount -o remount,rw /usr", "mount --bind /tmp $PWD", "umount $PWD", "umount -l /proc",
    "echo 0 > /proc/sys/kernel/randomize_va_space", "echo x > /proc/sys/kernel/core_pattern",
    "echo 1 > /proc/sys/net/ipv4/ip_forward", "echo c > /proc/sysrq-trigger",
    "echo 10 > /proc/sys/user/max_user_namespaces", "echo -1000 > /proc/self/oom_score_adj",
    "chroot / true", "nice -n -5 true 2>&1 | grep -v 'cannot set'",
    "mv $PWD ${PWD}2", "mv ${PWD%/*} /tmp/away", "rmdir $PWD", "rm -r ${PWD%/*}",
    "su -c true", "su root -c true < /dev/null", "passwd -d agent", "newgrp root < /dev/null",
    "chown 0 /tmp/x", "ls /proc/1/root/", "ls /root", "cat /etc/shadow", "ip link add d type dummy",
    "nsenter -t 1 -m true", "setpriv --reuid 0 true", "hostname other", "swapon /tmp/x"]


@as_each_kind
def test_what_is_refused(cell, bystander):
    script = "PATH=$PATH:/usr/sbin:/sbin\ntouch /tmp/x\n" + "".join(
        f"({command}) > /dev/null 2>&1 && echo '{i}'\n" for i, command in enumerate(REFUSED)) + "pwd; ls -A"
    output = endures(cell, bystander, script)
    *allowed, path = output["stdout"].splitlines()
    assert not [REFUSED[int(line)] for line in allowed]
    assert path == str(cell.path)
    assert cell.client.run("pwd; id -u")["stdout"] == f"{cell.path}\n1000\n"


@as_each_kind
def test_set_user_id_programs_have_no_effect(cell, bystander):
    cell.client.run("cp /usr/bin/grep here")
    (cell.path / "here").chmod(0o6755)  # no command could
    output = endures(cell, bystander, "./here -hE '^(Uid|CapEff|CapPrm|NoNewPrivs):' /proc/self/status; "
                     "find / -xdev -perm /6000 -type f 2>/dev/null | head -3")
    uid, prm, eff, nnp = output["stdout"].splitlines()[:4]
    assert uid.split()[1:] == ["1000"] * 4
    assert [prm.split()[1], eff.split()[1], nnp.split()[1]] == ["0" * 16, "0" * 16, "1"]
    program = next((p for p in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/chsh")
                    if os.path.exists(p) and os.stat(p).st_mode & 0o4000), None)
    if not program:
        return
    # As the init starts, before any of its steps can fail.
    output = endures(cell, bystander, f"({program} & pid=$!; grep -h Uid: /proc/$pid/status; wait)")
    assert "\t0" not in output["stdout"]


@also_as_session
def test_other_workspaces_are_out_of_reach(cell, bystander):
    bystander.write("secret", "cloister-secret")
    output = endures(cell, bystander, f"""
cat {bystander.path}/secret ../{bystander.path.name}/secret /proc/self/root{bystander.path}/secret \
    /proc/self/cwd/../{bystander.path.name}/secret
ls {cell.daemon.path} {cell.daemon.socket} {cell.daemon.state}
ln -s {bystander.path}/secret link; cat link; grep -rs cloister-secret /tmp /run /dev/shm /home""")
    assert output["stdout"] == ""
    assert cell.client.fail("read_file", path="link")["code"] == "SYMLINK_OUTSIDE_WORKSPACE"


@also_as_session
def test_processes_outside_are_out_of_reach(cell, bystander):
    """Processes of the host, of the workspace, of another workspace and of another command."""
    other = begin(bystander, "sleep 600")
    beside = begin(cell, "touch begun; sleep 600")
    other.runs()
    assert procfs.eventually((cell.path / "begun").exists)
    outside = [cell.daemon.pid, cell.daemon.spawner(), cell.worker, cell.files, *with_variable(other.mark),
               *with_variable(beside.mark)]
    output = begin(cell, PYTHON, {"stdin": PRELUDE + f"""
own = set(filter(str.isdigit, os.listdir('/proc')))
for pid in {outside!r}:
    if str(pid) not in own:
        print(attempt(os.kill, pid, 9), os.path.exists(f'/proc/{{pid}}'), call('ptrace', 16, pid, None, None))
print(len(own))
"""}).observe(SOON)["output"]
    *lines, count = output["stdout"].splitlines()
    assert set(lines) == {"ESRCH False ESRCH"}
    assert int(count) <= 4
    for sent, victim in ((other, bystander), (beside, cell)):
        sent.cancel()
        is_ended(sent.observe(SOON), "cancel")


@contextlib.contextmanager
def listening(family, address):
    with socket.socket(family) as made:
        made.bind(address)
        made.listen()
        yield made.getsockname()


@also_as_session
def test_sockets_outside_are_out_of_reach(cell, bystander):
    """The host's abstract sockets and ports, and another workspace's."""
    name = f"cloister-{os.getpid()}"
    server = (f"import socket, time\na = socket.socket(socket.AF_UNIX)\na.bind('\\0{name}-other')\na.listen()\n"
              "b = socket.socket()\nb.bind(('', 40999))\nb.listen()\nopen('up', 'w')\ntime.sleep(600)\n")
    other = begin(bystander, PYTHON, {"stdin": server})
    assert procfs.eventually((bystander.path / "up").exists)
    with listening(socket.AF_UNIX, f"\0{name}"), listening(socket.AF_INET, ("127.0.0.1", 0)) as (_, port):
        output = program(cell, bystander, f"""
def connect(family, address):
    with socket.socket(family) as made:
        made.settimeout(5)
        made.connect(address)
    return 'connected'
for address in '\\0{name}', '\\0{name}-other', {str(cell.daemon.socket)!r}:
    print(attempt(connect, socket.AF_UNIX, address))
for address in ('127.0.0.1', {port}), ('127.0.0.1', 40999), ('192.0.2.1', 80), ('169.254.169.254', 80):
    print(attempt(connect, socket.AF_INET, address))
print(attempt(connect, socket.AF_INET6, ('2001:db8::1', 80)))
""")
    assert output["stdout"].split() == ["ECONNREFUSED", "ECONNREFUSED", "ENOENT"] + \
        ["ECONNREFUSED"] * 2 + ["ENETUNREACH"] * 2 + ["ENETUNREACH"]
    other.cancel()
    is_ended(other.observe(SOON), "cancel")


@also_as_session
def test_the_network_cannot_be_changed_or_sniffed(cell, bystander):
    output = program(cell, bystander, """
print(attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
print(attempt(socket.socket, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
print(attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0x300))
print(attempt(os.open, '/dev/net/tun', os.O_RDWR))
print(attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 4))
print([line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line])
""")
    assert output["stdout"] == "EPERM\nEPERM\nEPERM\nENOENT\nEPERM\n['lo']\n"
    if shutil.which("ping"):
        assert endures(cell, bystander, "ping -c 1 -W 1 192.0.2.1")["exit_code"] != 0


def test_the_hypervisor_is_out_of_reach(cell, bystander):
    """Network namespaces do not confine AF_VSOCK. The test makes no connection."""
    try:
        socket.socket(socket.AF_VSOCK).close()
    except OSError:
        pytest.skip("this kernel has no AF_VSOCK")
    output = program(cell, bystander, "print(attempt(socket.socket, socket.AF_VSOCK))")
    assert output["stdout"] in ("EPERM\n", "EACCES\n", "EAFNOSUPPORT\n")


@also_as_session
def test_commands_in_a_directory_that_goes_away(cell, bystander):
    output = endures(cell, bystander, "mkdir d; cd d; rmdir ../d; ls; touch x; echo $?")
    assert output["stdout"] == "1\n"
    assert cell.client.run("pwd")["stdout"] == f"{cell.path}\n"


WATCH = """
import select, struct
where = {}
notify = call("inotify_init1", 0)

def watch(path):
    where[call("inotify_add_watch", notify, path.encode(), 0xfff)] = path  # IN_ALL_EVENTS

for path in ("/", "/usr/bin", "/etc", "/tmp", "/run", "/var/tmp", "/home", "/dev", "/dev/shm", "/proc"):
    watch(path)
path = os.getcwd()
while path != "/":
    watch(path)
    path = os.path.dirname(path)
open("ready", "w").close()
seen, end = set(), time.monotonic() + 60
while "/usr/bin/factor" not in seen and time.monotonic() < end:
    if select.select([notify], [], [], 0.1)[0]:
        data = os.read(notify, 65536)
        while data:
            descriptor, _, _, size = struct.unpack_from("iIII", data)
            seen.add(where[descriptor] + "/" + data[16:16 + size].rstrip(b"\\0").decode())
            data = data[16 + size:]
print(*seen, sep="\\n")
"""


def test_what_of_others_a_watch_shows(cell, bystander):
    """SECURITY.md says what a command learns of others by the files of the system. It learns no more by a watch."""
    spy = begin(cell, PYTHON, {"stdin": PRELUDE + WATCH})
    assert procfs.eventually((cell.path / "ready").exists)
    output = endures(bystander, bystander,
                     "cd /tmp; echo secret-1 > secret-2; cat secret-2; mkdir /run/secret-3; factor 91 secret-4")
    assert "91: 7 13" in output["stdout"]
    seen = spy.observe(60)["output"]["stdout"].splitlines()
    assert "/usr/bin/factor" in seen
    assert not [path for path in seen if "secret" in path]
    own = {path for path in seen if not path.startswith(("/usr/bin/", "/etc/"))}
    assert all(str(cell.path).startswith(path.rstrip("/")) or path.startswith(str(cell.path)) for path in own), own
