# SPDX-License-Identifier: Apache-2.0
"""A Debian system in a directory, with its own processes, in which tests install packages. It cannot reach the host's
/etc, users or processes. Needs root."""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess

import procfs

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "package-root"

# Files that dpkg, the tools of the user database and the loader write themselves, whatever is installed.
BOOKKEEPING = re.compile(r"(var/lib/dpkg|var/cache|var/log/(dpkg\.log|alternatives\.log|apt)|run|proc|dev|tmp)(/|$)"
                         r"|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|etc/\.pwd\.lock$|etc/ld\.so\.cache$")

# The init reaps processes and runs until it is killed. perl-base is in every Debian.
INIT = r"""
set -e
mount -t tmpfs -o mode=755 tmpfs "$2"
cd "$2"
mkdir upper work root
mount -t overlay -o "lowerdir=$1,upperdir=$PWD/upper,workdir=$PWD/work" overlay root
cd root
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mount --rbind /dev dev
mkdir -p .host
pivot_root . .host
umount -l .host
rmdir .host
exec perl -e '$SIG{CHLD} = "IGNORE"; $| = 1; print "ready\n"; sleep while 1'
"""


def run(*words, **keywords):
    keywords.setdefault("check", True)
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **{**keywords, "check": False})
    done.stdout = done.stdout.decode(errors="replace")
    assert not keywords["check"] or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
    return done


def dependencies(package):
    """Returns the packages that @package needs, one of each alternative: parts of systemd rather than all of it."""
    chosen = []
    for alternatives in run("dpkg-deb", "-f", package, "Depends").stdout.split(","):
        names = [re.match(r"[^\s(:]+", name.strip()).group() for name in alternatives.split("|")]
        chosen.append(next((name for name in names if "standalone" in name), names[0]))
    return sorted(set(chosen))


def host_sources():
    """Returns the lines of sources.list for the distribution's own repositories, as the host's apt has them."""
    done = run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
               "Created-By: Packages")
    found = {tuple(line.split("|")) for line in done.stdout.splitlines()}
    return sorted(f"deb {uri} {suite} {component}" for origin, uri, suite, component in found
                  if origin in ("Debian", "Ubuntu"))


def base(packages):
    """Returns the directory of a minimal Debian with these packages. It is made once."""
    KEPT.mkdir(parents=True, exist_ok=True)
    sources = host_sources()
    if not sources:
        run("apt-get", "update", "-q")
        sources = host_sources()
    assert sources, "apt knows no sources of the distribution"
    name = hashlib.sha256("\n".join([*packages, *sources]).encode()).hexdigest()[:16]
    directory = KEPT / name
    if directory.exists():
        return directory
    shutil.rmtree(KEPT)
    KEPT.mkdir()
    # The host's settings for reaching the mirror, such as proxies.
    options = KEPT / "apt.conf"
    settings = run("apt-config", "dump").stdout.splitlines()
    options.write_text("".join(f"{line}\n" for line in settings if line.startswith("Acquire::")))
    suite = next(line.split()[-2] for line in sources if "-" not in line.split()[-2])
    unfinished = KEPT / "unfinished"
    run("mmdebstrap", "--variant=essential", "--format=directory", f"--aptopt={options}",
        f"--include={','.join(['mount', *packages])}", suite, unfinished, *sources)
    (unfinished / "etc/dpkg/dpkg.cfg.d/test").write_text("force-unsafe-io\n")
    unfinished.rename(directory)
    return directory


class ScratchRoot:
    """A running system over a base directory, which it does not change. @path shows its root from outside. With @network it
    has the host's."""

    def __init__(self, lower, place, network=False):
        place.mkdir()
        self.init = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", *([] if network else ["--net"]),
             "--propagation", "private", "sh", "-c", INIT, "init", str(lower), str(place)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        assert self.init.stdout.readline() == b"ready\n", "the scratch root did not start"
        (self.pid,) = procfs.children(self.init.pid)
        self.path = pathlib.Path(f"/proc/{self.pid}/root")

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        self.init.wait()
        self.init.stdout.close()

    def words(self, *words):
        return ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--uts", "--ipc", "--net", "env", "-i",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                "DEBIAN_FRONTEND=noninteractive", "HOME=/root", *map(str, words)]

    def run(self, *words, **keywords):
        return run(*self.words(*words), **keywords)

    def shell(self, script, **keywords):
        return self.run("sh", "-euc", script, **keywords)

    def start(self, *words, **keywords):
        return subprocess.Popen(self.words(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **keywords)

    def read(self, name):
        return (self.path / name).read_text()

    def lines(self, name):
        return self.read(name).splitlines()

    def install(self, *packages, options=(), **keywords):
        """Installs package files of the host."""
        for package in packages:
            shutil.copy(package, self.path / "tmp")
        return self.run("dpkg", *options, "--install", *(f"/tmp/{package.name}" for package in packages), **keywords)

    def processes(self):
        """Returns {pid on the host: command line} of the living processes but the init, also those in namespaces
        below."""
        return {pid: procfs.command_line(pid) for pid in procfs.descendants(self.pid) if procfs.is_alive(pid)}

    def snapshot(self):
        """Returns {path: type and contents} of the tree, without the test's own files."""
        found = {}
        for directory, names, files in os.walk(self.path):
            here = pathlib.Path(directory)
            for name in [*names, *files]:
                relative = str((here / name).relative_to(self.path))
                if not BOOKKEEPING.match(relative):
                    found[relative] = describe(here / name)
            names[:] = [name for name in names if not BOOKKEEPING.match(str((here / name).relative_to(self.path)))]
        return found


def describe(path):
    status = path.lstat()
    what = ""
    if stat.S_ISLNK(status.st_mode):
        what = os.readlink(path)
    elif stat.S_ISREG(status.st_mode):
        what = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {what}"
