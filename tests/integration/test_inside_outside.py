# SPDX-License-Identifier: Apache-2.0
"""Programs of the commonest packages end inside as they end outside: with the same status and the same complaints. Those that
are not installed are left out. So it is found what the root of a workspace lacks."""

import json
import re
import subprocess

import pytest
from daemon import AM_ROOT, INSTALLED, SYSTEM

pytestmark = pytest.mark.skipif(INSTALLED or SYSTEM or not AM_ROOT, reason="compares with a user without a service")

# Programs that say their version, and commands that want something of the root.
VERSIONS = """
R ar as autoconf automake awk base64 bash bc bison c++ cargo cat clang clang-format clang-tidy cmake column cpio
cppcheck curl cut dc diff ed emacs env find fish flex fzf g++ gawk gcc gcov gdb gettext gfortran ghc git gnuplot gpg
gprof grep groff gs gzip head htop install join jq julia ld less logger ls lynx m4 make mkfifo mono mvn mysql nano
ncat ninja nl nm node npm npx objdump od pandoc patch pip pip3 pkg-config pr python3 readelf rg rpm rsync ruby rustc
screen script sed sha256sum shellcheck shuf sort sqlite3 strings strip stty tac tail tar tee tex touch tr tree tsort
valgrind vim watch wc wget xargs xmllint xsltproc xxd xz yarn yes zstd
"""
COMMANDS = "".join(f"{program} --version\n" for program in VERSIONS.split()) + r"""
7z --help
Rscript -e 1
apt list --installed bash
apt-cache policy bash
bzip2 --help
convert -version
dash -c true
date
df -h .
dig -v
dpkg -l bash
dpkg-query -W bash
du -sh .
erl -noshell -eval 'halt().'
expect -v
fc-list ':family=DejaVu Sans' family
fc-match monospace
fc-match sans
ffmpeg -version
file /bin/ls
file /etc/hosts
findmnt /
free
gdb -batch -ex run true
getconf LONG_BIT
getent networks
getent passwd root
getent protocols tcp
getent rpc portmapper
getent services ssh
git config --list
go version
groups
hexdump -C /dev/null
host -V
hostname
iconv -l
id -u
ifconfig lo
infocmp xterm
ionice
ip addr
ip link show lo
ip route
ipcs
java -version
javac -version
kill -l
last
ldconfig -p
ldd /bin/ls
locale
locale -a
lsb_release -a
lsblk
lscpu
lsipc
lsirq
lslogins
lsmem
lsof -v
lua -v
lua5.4 -v
man -w ls
man ls
manpath
mawk -W version
mke2fs -V
mount
namei -l /etc/passwd
nasm -v
nc -h
netstat -an
nice -n 5 true
node -p 'Object.keys(os.networkInterfaces())[0]'
node -p 'os.cpus().length'
nproc
nslookup -version
openssl ciphers
openssl version
pdftotext -v
perl -MNet::hostent -e 'gethostbyname("localhost")||die'
perl -MSys::Hostname -e hostname
perl -e 'use POSIX;print POSIX::strftime("%Z",localtime)'
perl -v
php -r 'echo 1;'
php -v
printenv HOME
prlimit
ps aux
pstree
pstree -V
pwd
python3 -c 'import getpass;getpass.getuser()'
python3 -c 'import locale;locale.setlocale(locale.LC_ALL,"")'
python3 -c 'import mimetypes;print(mimetypes.guess_type("a.html"))'
python3 -c 'import multiprocessing;multiprocessing.Lock()'
python3 -c 'import os;os.memfd_create("x");os.pidfd_open(os.getpid())'
python3 -c 'import os;print(os.cpu_count())'
python3 -c 'import platform;print(platform.freedesktop_os_release()["ID"])'
python3 -c 'import socket;print(socket.if_nameindex()[0][1])'
python3 -c 'import socket;socket.gethostbyname(socket.gethostname())'
python3 -c 'import ssl;ssl.create_default_context()'
python3 -c 'import tempfile;print(tempfile.gettempdir())'
realpath .
ruby -e 'require "etc";Etc.nprocessors'
script -qc true /dev/null
seq 3
setpriv --dump
socat -V
ss -tln
ssh -V
ssh-keygen -l -f /dev/null
stat .
strace -V
strace -o trace true
tclsh /dev/null
timeout 1 true
tmux -V
tmux new -d true
top -bn1
tty
uname -a
unzip -v
uptime
users
vim -es -c q
vmstat
w
which ls
who
whoami
xmlcatalog /etc/xml/catalog x
zip -v
zsh -c true
"""

# Here they answer otherwise, and a note says so: ss(8) asks by a netlink socket that commands do not have, and goes on without;
# lsmem(1) lists the memory blocks of the host in /sys.
DIFFERENT = {"lsmem", "ss -tln"}

RUN = """
import json, shlex, shutil, subprocess, sys
ended = {}
for command in sys.stdin.read().splitlines():
    words = shlex.split(command)
    if words and shutil.which(words[0]):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        ended[command] = [done.returncode, done.stderr]
print(json.dumps(ended))
"""


@pytest.mark.deep("slow")
def test_programs_end_as_outside(area, daemon, client, workspace):
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(area.home), "LANG": "C.UTF-8", "TERM": "dumb"}
    (workspace / "run").write_text(RUN)
    outside = json.loads(subprocess.run([*area.account.become(), "/usr/bin/python3", "run"], cwd=workspace, env=variables, check=True,
                                        input=COMMANDS, stdout=subprocess.PIPE, text=True).stdout)
    done = client.run("/usr/bin/python3 run", {"stdin": COMMANDS, "env": variables | {"HOME": "/tmp"}}, timeout_ms=600000)
    inside = json.loads(done["stdout"])
    assert len(outside) > 50

    def shown(ended):
        return {command: (status, re.sub("[0-9]+", "N", complaints)) for command, (status, complaints) in ended.items()}

    outside, inside = shown(outside), shown(inside)
    assert {command for command in outside if inside.get(command) != outside[command]} <= DIFFERENT, \
        [(command, outside[command], inside.get(command)) for command in outside if inside.get(command) != outside[command]]


def test_what_programs_want_of_etc(client, workspace):
    """Settings that the host's packages bring, without a file that may hold a secret, and the processors."""
    names = client.run("ls /etc")["stdout"].split()
    hosts = subprocess.run(["ls", "/etc"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert "mtab" in names and {"fonts", "manpath.config", "magic", "shells"} & set(hosts) <= set(names)
    assert not set(names) & {"shadow", "gshadow", "gitconfig", "npmrc", "pip.conf", "wgetrc", "machine-id", "ssh", "fstab", "sudoers"}
    assert client.run("cat /sys/devices/system/cpu/online; ls /sys /sys/devices/system")["stdout"].split() == [
        open("/sys/devices/system/cpu/online").read().strip(), "/sys:", "block", "dev", "devices", "/sys/devices/system:", "cpu"]
    assert client.run("echo 0 > /sys/devices/system/cpu/cpu0/online")["exit_code"] != 0
    assert client.run("touch /etc/x /etc/fonts/x")["exit_code"] != 0
