# SPDX-License-Identifier: Apache-2.0
"""What a command sees from inside: its root, /etc, /dev, /proc, its mounts, home and network."""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT, ROOT

needs_root = pytest.mark.skipif(not AM_ROOT, reason="needs root to look into other processes")


def listing(client, path):
    return set(client.run(f"ls -A {path}")["stdout"].split())


def test_the_root_of_a_command(client, workspace):
    system = {name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
              if os.path.lexists("/" + name)}
    assert listing(client, "/") == {
        "dev", "etc", "home", "proc", "run", "sys", "tmp", "usr", "var", workspace.parts[1]} | system
    assert listing(client, "/var") == {"log", "tmp"} | ({"lib"} if os.path.isdir("/var/lib/dpkg") else set())
    assert listing(client, "/home") == {"agent"}
    assert listing(client, "/usr") == set(os.listdir("/usr"))


@pytest.mark.skipif(not os.path.isdir("/var/lib/dpkg"), reason="the host has no dpkg")
def test_the_installed_packages_are_seen_and_cannot_be_changed(client, workspace):
    assert listing(client, "/var/lib") == {"dpkg"}
    assert client.run("dpkg-query -W -f '${Status}' libc6 2>&1 || dpkg-query -W")["stdout"]
    touched = client.run("touch /var/lib/dpkg/x /var/lib/x; ls /var/lib /var/lib/dpkg/x")
    assert "Read-only file system" in touched["stderr"] and touched["exit_code"] == 2


def test_what_var_tmp_is(client, workspace):
    """/var/tmp is part of the workspace's own tmpfs and has the mode of /tmp."""
    assert client.run("stat -c %a /var/tmp && echo x >/var/tmp/x && cat /var/tmp/x")["stdout"] == "1777\nx\n"
    assert client.run("cat /var/tmp/x; stat -f -c %T /var/tmp")["stdout"] == "x\ntmpfs\n"
    assert not os.path.exists("/var/tmp/x")


def test_a_workspace_below_var_tmp(area):
    """The workspace is visible at its path on the host, and a command cannot rename its parent directories."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="cloister-test.") as top:
        workspace = pathlib.Path(top) / "a" / "b"
        workspace.mkdir(parents=True)
        for path in (top, workspace.parent, workspace):
            os.chown(path, area.account.uid, area.account.gid)
        done = area.private(workspace, "exec", "--", "pwd; touch f; mv /var/tmp/cloister-test.* /var/tmp/away")
        assert done.stdout.decode() == f"{workspace}\n" and (workspace / "f").exists()
        assert done.returncode != 0, done.stderr


SETTINGS = """
ImageMagick-6 ImageMagick-7 OpenCL R debian_version emacs fonts fpc.cfg gai.conf glvnd gprofng.rc groff host.conf
inputrc iproute2 libaudit.conf locale.alias login.defs lsb-release magic magic.mime manpath.config mke2fs.conf nanorc
networks papersize perl python3 rpc sensors3.conf sgml shells terminfo texmf timezone vim xattr.conf xml
""".split()


def test_etc_is_small(client, workspace):
    shown = {name for name in ("ld.so.cache", "alternatives", "ssl", "localtime", "java-17-openjdk",
                              "java-21-openjdk", "java-25-openjdk", "services", "protocols", "mime.types",
                              "os-release", "maven", "php", "chromium.d", *SETTINGS)
             if os.path.lexists("/etc/" + name)}
    for name in ("pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates/extracted"):
        shown |= {name.split("/")[0]} if os.path.lexists("/etc/" + name) else set()
    assert listing(client, "/etc") == {
        "passwd", "group", "hosts", "hostname", "apt", "nsswitch.conf", "resolv.conf", "mtab"} | shown
    assert client.run("id")["stdout"].startswith("uid=1000(agent) gid=1000(agent)")
    assert "cloister" in client.run("cat /etc/hostname /etc/hosts")["stdout"]


# Starts a program as a user who sees the host's /etc with what the manual names and the host lacks, and with more.
ETC_WITH_ALL = """
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
cp -a /etc/. /mnt || :  # others make users meanwhile, and lock files come and go
uid=$1 gid=$2 names=$3
shift 3
for name in $names; do
    case $name in
    copied:*) [ -e "/mnt/${name#copied:}" ] || echo >"/mnt/${name#copied:}" ;;
    *) [ -L "/mnt/$name" ] || [ -e "/mnt/$name" ] || mkdir -p "/mnt/$name" ;;
    esac
done
mount --move /mnt /etc
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"
"""


def paths(text):
    """The words of the macro Pa."""
    return [word for line in re.findall(r"^\.Pa (.*)", text, re.MULTILINE) for word in line.split() if word not in ",;."]


def manuals_list():
    """What cloister-security(7) says that commands see in /etc: of the host, and what cloister makes."""
    page = (ROOT / "man" / "cloister-security.7").read_text().split(".Ss What a command sees of the host\n")[1].split("\n.Ss")[0]
    of_host, made = page.split("cloister makes the rest:")
    names = re.search(r"\.It\nof\n\.Pa /etc :\n(.*?)\n\.It", of_host, re.DOTALL)[1]
    copied = re.search(r"of these files of\n\.Pa /etc :\n(.*?)\n\.It", of_host, re.DOTALL)[1]
    made = re.search(r"the files\n(.*?)\nof\n\.Pa /etc ", made, re.DOTALL)[1]
    return (paths(names) + [path.removeprefix("/etc/") for path in paths(of_host) if path.startswith("/etc/")], paths(copied),
            [name.split("/")[0] for name in paths(made)])


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, for an /etc of its own")
def test_of_etc_all_is_shown_that_the_manual_lists_and_nothing_else(area):
    of_host, copied, made = manuals_list()
    assert len(of_host) > 14 and len(made) > 6
    certificates = ["ssl/certs", "pki/tls/certs", "ca-certificates/extracted"]  # what is shown of the last three
    launcher = ["unshare", "-m", "--propagation", "private", "sh", "-c", ETC_WITH_ALL, "sh", str(area.account.uid),
                str(area.account.gid), " ".join([*of_host, *certificates, *(f"copied:{name}" for name in copied), "decoy", "decoy.conf", "java-8-openjdk"])]
    done = area.private(area.new_directory(), "exec", "--", "ls -A /etc", launcher=launcher)
    assert set(done.stdout.decode().split()) == {*of_host, *copied, *made}, done.stderr


# Starts a program as a user who sees the host's /etc with added certificates and keys that every user may read.
ETC_WITH_KEYS = """
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
cp -a /etc/. /mnt || :  # others make users meanwhile, and lock files come and go
rm -rf /mnt/ssl
for place in ssl pki/tls; do
    mkdir -p /mnt/$place/certs /mnt/$place/private
    echo key | tee /mnt/$place/server.key /mnt/$place/private/host.key >/mnt/$place/certs.key
    echo shown | tee /mnt/$place/certs/ca.pem >/mnt/$place/openssl.cnf
    ln -s certs/ca.pem /mnt/$place/cert.pem
done
mkdir -p /mnt/pki/ca-trust/extracted /mnt/pki/ca-trust/source
echo key | tee /mnt/pki/key >/mnt/pki/ca-trust/source/key
echo shown >/mnt/pki/ca-trust/extracted/ca.pem
chmod -R a+rX /mnt/ssl /mnt/pki
mount --move /mnt /etc
uid=$1 gid=$2
shift 2
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups "$@"
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, for an /etc of its own")
def test_of_certificates_and_keys_certificates_are_shown(area):
    launcher = ["unshare", "-m", "--propagation", "private", "sh", "-c", ETC_WITH_KEYS, "sh", str(area.account.uid),
                str(area.account.gid)]
    done = area.private(area.new_directory(), "exec", "--", "find /etc/ssl /etc/pki ! -type d -exec grep -H . {} +",
                        launcher=launcher)
    found = dict(line.split(":") for line in done.stdout.decode().splitlines())
    assert found == {path: "shown" for place in ("ssl", "pki/tls") for path in (
        f"/etc/{place}/certs/ca.pem", f"/etc/{place}/cert.pem", f"/etc/{place}/openssl.cnf")} | {
            "/etc/pki/ca-trust/extracted/ca.pem": "shown"}, done.stderr


def test_dev_is_small(client, workspace):
    assert listing(client, "/dev") == {
        "null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd", "stdin",
        "stdout", "stderr"}
    assert listing(client, "/dev/pts") == {"ptmx"}
    output = client.run("echo x > /dev/null; head -c 4 /dev/zero | od -An -tx1; cat /bin/sh > /dev/full")
    assert output["stdout"].split() == ["00"] * 4
    assert "No space" in output["stderr"]


def test_the_system_is_read_only(client, workspace):
    for directory in ("/", "/usr", "/usr/bin", "/etc", "/etc/ssl", "/dev", "/home", "/bin", "/lib"):
        if not os.path.isdir(directory):  # a small host has no /etc/ssl
            continue
        output = client.run(f"touch {directory}/made")
        assert output["exit_code"] == 1, directory
        assert "Read-only" in output["stderr"], directory
    assert client.run("mv /etc/passwd /tmp/x; ln -sf x /dev/null; rm -f /usr/bin/ls")["exit_code"] != 0
    for directory in ("/tmp", "/run", "/var/tmp", "/dev/shm", "/home/agent", "$HOME", str(workspace)):
        assert client.run(f"touch {directory}/made && rm {directory}/made")["exit_code"] == 0, directory


def test_every_mount_is_confined(client, workspace):
    at = {}
    for line in client.run("cat /proc/self/mountinfo")["stdout"].splitlines():
        fields = line.split()
        at[fields[4]] = set(fields[5].split(","))
        assert "nosuid" in fields[5].split(","), line
    assert at[str(workspace)] >= {"rw", "nosuid", "nodev"}
    assert "ro" in at["/"] and "ro" in at["/usr"]
    for path, options in at.items():
        assert "nodev" in options or path.startswith("/dev"), path


def test_home(client, workspace):
    output = client.run("cd && pwd && echo kept > note; echo $HOME")
    assert output["stdout"] == "/home/agent\n/home/agent\n"
    assert client.run("cat ~/note")["stdout"] == "kept\n"


def test_private_directories_are_not_the_hosts(daemon, client, workspace):
    client.run("touch /tmp/cloister-made /run/cloister-made /var/tmp/cloister-made /dev/shm/cloister-made")
    for directory in ("/tmp", "/run", "/var/tmp", "/dev/shm"):
        assert not os.path.exists(f"{directory}/cloister-made")
    with daemon.connect() as other:
        daemon.new_workspace(other)
        assert "cloister-made" not in other.run("ls /tmp /run /var/tmp /dev/shm")["stdout"]
    assert listing(client, "/tmp") == {"cloister-made", workspace.parts[2]}
    assert listing(client, workspace.parent) == {workspace.name}


def test_the_network_is_a_loopback_that_is_up(client, workspace):
    interfaces = client.run("cat /proc/net/dev")["stdout"].splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
    program = ("import socket as s; a = s.create_server(('127.0.0.1', 0)); "
               "s.create_connection(a.getsockname()).sendall(b'hi'); print(a.accept()[0].recv(2))")
    output = client.run(f'/usr/bin/python3 -c "{program}"')
    assert output["stdout"] == "b'hi'\n", output["stderr"]
    program = "import socket as s; s.create_connection(('192.0.2.1', 80), 5)"
    assert "unreachable" in client.run(f'/usr/bin/python3 -c "{program}"')["stderr"]


def test_host_name(client, workspace):
    assert client.run("cat /proc/sys/kernel/hostname; uname -n")["stdout"] == "cloister\ncloister\n"


def test_proc_shows_the_commands_own_tree(client, workspace):
    other = client.begin("run_command", {"command": "touch begun; exec sleep 4321", "timeout_ms": 600000})
    assert procfs.eventually((workspace / "begun").exists)
    output = client.run("for d in /proc/[0-9]*; do echo ${d#/proc/} $(cat $d/stat | cut -d' ' -f2,4); done")
    shown = dict(line.split(" ", 1) for line in output["stdout"].splitlines() if " (" in line)
    assert shown["1"].endswith(" 0")
    lines = client.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["stdout"]
    assert "cat" in lines and "4321" not in lines
    assert len(shown) < 8
    client.cancel(other)


# The workspace


def snapshot(path):
    return {name: os.lstat(path / name) for name in os.listdir(path)}, os.lstat(path)


def test_opening_creates_nothing_in_the_workspace(daemon, client):
    path = daemon.area.new_directory()
    (path / "etc").mkdir()
    (path / "file").write_text("x")
    before = snapshot(path)
    client.call("workspace.open", {"root": str(path)})
    client.run("true")
    client.use("list_directory", path=".", recursive=True)
    client.use("search_files", pattern="nothing")
    processes = daemon.cell_of(path)
    client.call("workspace.close")
    assert procfs.vanish(processes)

    def essence(result):
        entries, root = result
        return ({name: (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
                 for name, st in entries.items()}, root.st_mtime_ns, root.st_ctime_ns)

    assert essence(snapshot(path)) == essence(before)


def test_a_directory_appears_at_its_own_path(daemon, client):
    path = daemon.area.new_directory() / "deep" / "down"
    with acting_as(daemon.account.uid, daemon.account.gid):
        path.mkdir(parents=True)
    assert client.call("workspace.open", {"root": str(path)})["root"] == str(path)
    assert client.run("pwd; touch made")["stdout"] == f"{path}\n"
    assert (path / "made").stat().st_uid == daemon.account.uid
    # A command cannot rename the workspace's parents under the next command.
    client.run(f"mv /tmp/{path.parts[2]} /tmp/away; mv {path} {path}2; rmdir {path}")
    assert client.run("pwd; ls")["stdout"] == f"{path}\nmade\n"


@pytest.fixture
def home_on_the_host(area):
    if not AM_ROOT:
        pytest.skip("needs root to own a directory at /home/agent")
    lock = os.open("/home", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # another suite may have made the directory
    if os.path.exists("/home/agent"):
        os.close(lock)
        pytest.skip("this host has a /home/agent of its own")
    os.mkdir("/home/agent")
    area.account.own("/home/agent")
    yield "/home/agent"
    shutil.rmtree("/home/agent")
    os.close(lock)


def test_home_moves_out_of_the_workspaces_way(area, home_on_the_host):
    """Where a workspace covers /home, HOME is elsewhere, and no directory is made in the workspace."""
    done = area.private(home_on_the_host, "exec", "--", "echo $HOME; touch ~/made; ls -A /home/agent")
    assert done.stdout != b"/home/agent\n"
    assert b"made" not in done.stdout
    assert not os.listdir(home_on_the_host)


@needs_root
def test_host_root_is_refused_with_advice(area):
    with open("/proc/self/uid_map") as file:
        if file.read().split()[1] != "0":
            pytest.skip("root in this user namespace is an ordinary user on the host")
    done = subprocess.run(
        [area.bin / "cloisterd", "--agent-socket", area.path / "root.sock", "--state-dir",
         area.path / "root-state"], capture_output=True, timeout=120)
    assert done.returncode not in (0, -9)
    assert b"--user" in done.stderr
    assert not (area.path / "root.sock").exists()


@needs_root
def test_host_root_becomes_the_user_that_it_names(area):
    path = area.new_directory("named")
    process = subprocess.Popen(
        [area.bin / "cloisterd", "--user", area.account.name, "--agent-socket", path / "s",
         "--state-dir", path / "state"], stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"})
    try:
        assert procfs.eventually((path / "s").exists)
        assert procfs.uids(process.pid) == [area.account.uid] * 4
    finally:
        process.terminate()
        process.wait(120)
        process.stderr.close()
