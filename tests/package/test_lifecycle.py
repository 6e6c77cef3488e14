# SPDX-License-Identifier: Apache-2.0
"""Installing, upgrading, removing and purging cloister in a Debian root of its own: what is left, and who owns it."""

import os
import re
import stat

import pytest

pytestmark = pytest.mark.deep("slow")

STATE = "var/lib/cloister"
SIZE = 65536

# Lines that an administrator or another tool may have written, and broken ones: all count.
NASTY = """\
# the ranges of this host
carol:100000:65536
dave:120000:100000
#erin:300000:65536
frank:0x593e2:0x10000
grace:01617240:65536
heidi: 600000 :65536
ivan:700000:0
judy:700000:-5
mallory:710000:99999999999999999999
4711:165536:1

niaj:
:::
oscar:abc:65536
peggy:650000:65536:and more
"""


def range_of(root, name):
    """Returns (first, count) of cloister's single line in the file."""
    (line,) = [line for line in root.lines(f"etc/{name}") if line.startswith("cloister:")]
    return tuple(map(int, line.split(":")[1:]))


def user_database(root):
    return {name: root.lines(f"etc/{name}") for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")}


def identity(root):
    """Everything that must not change while the package is installed."""
    return [line for lines in user_database(root).values() for line in lines if line.startswith("cloister")]


def ids_of(root):
    (entry,) = [line.split(":") for line in root.lines("etc/passwd") if line.startswith("cloister:")]
    return int(entry[2]), int(entry[3])


def test_install_and_purge(root, debs):
    """Purging leaves the file system as it was before the installation. In between, every file has the right owner."""
    before, users = root.snapshot(), user_database(root)
    said = root.install(debs["cloister"], debs["cloister-client"]).stdout
    assert "error" not in said.lower() and "warning" not in said.lower(), said
    assert "cloister serves nobody yet" in said and "/etc/cloister/cloister.conf" in said and "cloisterctl doctor" in said

    uid, gid = ids_of(root)
    groups = {line.split(":")[0]: line.split(":") for line in root.lines("etc/group")}
    for name in ("cloister", "cloister-egress", "cloister-admin", "cloister-observer"):
        assert groups[name][3] == "", "somebody is in the group"
    assert [line.split(":")[1][0] in "!*" for line in root.lines("etc/shadow") if line.startswith("cloister:")] == [True]
    for name, mode, owner in (("etc/cloister", 0o750, (0, gid)), ("etc/cloister/cloister.conf", 0o640, (0, gid)),
                              (STATE, 0o700, (uid, gid)), ("var/log/cloister", 0o2750, (uid, int(groups["cloister-admin"][2]))),
                              ("run/cloister", 0o755, (0, 0))):
        status = (root.path / name).stat()
        assert (stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)) == (mode, owner), name
    assert range_of(root, "subuid") == range_of(root, "subgid") and range_of(root, "subuid")[1] == SIZE

    # The packages' files: only root and the service can write them, and none has set-id bits.
    for name in set(root.snapshot()) - set(before):
        path = root.path / name
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode):
            assert not status.st_mode & 0o022, name
            assert not status.st_mode & stat.S_ISUID, name
            assert not status.st_mode & stat.S_ISGID or stat.S_ISDIR(status.st_mode), name
            assert "security.capability" not in os.listxattr(path), name
    # The service's user can read the configuration, which has no mistake. Other users cannot.
    checked = ("cloisterd", "--config", "/etc/cloister/cloister.conf", "--check")
    root.run("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *checked)
    refused = root.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *checked, check=False)
    assert refused.returncode != 0 and "Permission denied" in refused.stdout

    root.run("dpkg", "--purge", "cloister", "cloister-client")
    assert user_database(root) == users
    assert root.snapshot() == before
    assert not (root.path / "run/cloister").exists() and root.processes() == {}


def test_who_finds_no_service_is_told_how_to_start_one(root, debs):
    """The message names the service's unit. Without the service's package, it says where a private instance's program belongs."""
    root.shell("useradd -m alice")
    root.install(debs["cloister-client"])

    def said(*words):
        done = root.run("runuser", "-u", "alice", "--", *words, check=False)
        assert done.returncode == 3, done.stdout
        return done.stdout

    assert "neither in this program's directory nor in /usr/sbin " in said(
        "cloister", "--private", "--workspace", "/home/alice", "call", "list_directory", "path=.")
    root.install(debs["cloister"])
    for words in ("cloister", "--workspace", "w", "call", "list_directory", "path=."), ("cloisterctl", "status"):
        (unit,) = re.findall("`systemctl start ([^` ]+)`", said(*words))
        assert (root.path / f"lib/systemd/system/{unit}.service").exists(), unit


def test_remove_keeps_and_reinstall_finds(root, debs):
    """Removing keeps workspaces, log, configuration, user and ids; installing again uses them."""
    root.install(debs["cloister"])
    who = identity(root)
    first, _ = range_of(root, "subuid")
    workspace = root.path / STATE / "workspaces/one/w"
    workspace.mkdir(parents=True)
    (workspace / "file").write_text("of an agent")
    for path in (workspace, workspace / "file"):
        os.chown(path, first + 40000, first + 40000)
    (root.path / "var/log/cloister/audit.log").write_text("{}\n")
    drop_in = root.path / "etc/cloister/cloister.conf.d/10-own.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[cloister]\n")
    kept = {name: what for name, what in root.snapshot().items()
            if name.startswith((STATE, "var/log/cloister", "etc/cloister"))}
    assert len(kept) == 11

    root.run("dpkg", "--remove", "cloister")
    assert not (root.path / "usr/sbin/cloisterd").exists()
    now = root.snapshot()
    assert {name: now.get(name) for name in kept} == kept and identity(root) == who
    root.install(debs["cloister"])
    now = root.snapshot()
    assert {name: now.get(name) for name in kept} == kept and identity(root) == who


def test_ids_meet_nobodys(root, debs):
    """Whatever the files hold, the new range overlaps no other range in either file, and no id of a user or group."""
    (root.path / "etc/subuid").write_text(NASTY)
    # Where one file has room, the other has a range, and some ids belong to real users.
    (root.path / "etc/subgid").write_text("carol:220000:30000\n")
    root.shell("groupadd -g 365537 far; useradd -M -u 532200 -g 365537 far-away")
    users = {name: lines for name, lines in user_database(root).items() if name.startswith("sub")}
    root.install(debs["cloister"])
    # In the way are dave's and, in the other file, carol's, erin's behind its "#", far, frank's in hexadecimal, grace's in
    # octal, which ends at 532128, and far-away.
    assert range_of(root, "subuid") == range_of(root, "subgid") == (532201, SIZE)
    for name, lines in users.items():
        assert root.lines(f"etc/{name}") == [*lines, f"cloister:532201:{SIZE}"]
    root.run("dpkg", "--purge", "cloister")
    assert {name: root.lines(f"etc/{name}") for name in users} == users


def test_no_place_for_ids(root, debs):
    """Without room for ids, the package is not configured and says what to do. Doing that helps."""
    (root.path / "etc/subuid").write_text("carol:100000:700000000\n")
    said = root.install(debs["cloister"], check=False)
    assert said.returncode != 0 and "no 65536 subordinate ids in a row are free" in said.stdout
    assert "cloister" not in root.read("etc/subuid") + root.read("etc/subgid")
    for name in ("subuid", "subgid"):
        with open(root.path / "etc" / name, "a", encoding="utf-8") as file:
            file.write("cloister:800100000:60000\n")
    root.run("dpkg", "--configure", "cloister")
    assert range_of(root, "subuid") == range_of(root, "subgid") == (800100000, 60000)


def test_ids_of_an_administrators_choice_stay(root, debs, newer):
    """Ranges by number, or in one file only, stay too. If another user shares them, a message says so."""
    root.shell("useradd --system --no-create-home --user-group --uid 555 cloister")
    (root.path / "etc/subuid").write_text("555:200000:70000\n")
    (root.path / "etc/subgid").write_text("carol:90000:300000\ncloister:500:65536\ncloister:200000:60000\n")
    said = root.install(debs["cloister"]).stdout
    assert root.lines("etc/subuid") == ["555:200000:70000"]
    assert root.lines("etc/subgid") == ["carol:90000:300000", "cloister:500:65536", "cloister:200000:60000"]
    assert "/etc/subgid gives ids of cloister to carol too" in said and "subuid gives" not in said
    root.install(newer("0.1.0+1"))
    assert root.lines("etc/subuid") == ["555:200000:70000"]


def test_upgrade(root, debs, newer):
    """User, ids and data stay. An unchanged configuration is replaced, with its mode and owner."""
    root.install(debs["cloister"])
    who = identity(root)
    (root.path / STATE / "workspaces").mkdir()
    config = root.path / "etc/cloister/cloister.conf"
    status = config.stat()
    root.install(newer("0.1.0+1", "# of the newer version"), check=True)
    assert config.read_text().endswith("# of the newer version\n")
    assert (config.stat().st_mode, config.stat().st_gid) == (status.st_mode, status.st_gid)
    assert identity(root) == who and (root.path / STATE / "workspaces").exists()


def test_conffile_prompts(root, debs, newer):
    """dpkg asks about a changed configuration if the package's version has changed too, and never otherwise."""
    root.install(debs["cloister"])
    config = root.path / "etc/cloister/cloister.conf"
    own = config.read_text() + "# of the administrator\n"
    config.write_text(own)
    assert "Configuration file" not in root.install(newer("0.1.0+1")).stdout
    assert config.read_text() == own
    # Without an answer dpkg changes nothing.
    changed = newer("0.1.0+2", "# of the newer version")
    said = root.install(changed, check=False)
    assert said.returncode != 0 and "Configuration file '/etc/cloister/cloister.conf'" in said.stdout
    root.install(changed, options=["--force-confold"])
    assert config.read_text() == own
    newest = root.path / "etc/cloister/cloister.conf.dpkg-dist"
    assert newest.read_text().endswith("# of the newer version\n") and not newest.stat().st_mode & 0o007
    root.run("dpkg", "--purge", "cloister")
    assert not (root.path / "etc/cloister").exists()


def test_configuring_again_and_back(root, debs, newer):
    """Configuring that was interrupted goes on. Installing the same version or the previous one changes nothing."""
    root.shell("""
        printf '#!/bin/sh\n/usr/bin/systemd-sysusers "$@"\nkill -9 $PPID\n' >/usr/local/bin/systemd-sysusers
        printf '#!/bin/sh\nkill -9 $PPID\n' >/usr/local/bin/usermod
        chmod 755 /usr/local/bin/*""")
    assert root.install(debs["cloister"], check=False).returncode != 0
    assert ids_of(root) and "cloister" not in root.read("etc/subuid")
    root.run("rm", "/usr/local/bin/systemd-sysusers")
    assert root.run("dpkg", "--configure", "cloister", check=False).returncode != 0
    root.shell("printf '#!/bin/sh\n/usr/sbin/usermod \"$@\"\nkill -9 $PPID\n' >/usr/local/bin/usermod")
    # One of the two files has a range now; the other gets the same.
    assert root.run("dpkg", "--configure", "cloister", check=False).returncode != 0
    assert range_of(root, "subuid")[1] == SIZE and "cloister" not in root.read("etc/subgid")
    with open(root.path / "etc/subuid", "a", encoding="utf-8") as file:
        file.write("carol:10000000:65536\n")
    root.run("rm", "/usr/local/bin/usermod")
    root.run("dpkg", "--configure", "cloister")
    assert range_of(root, "subuid") == range_of(root, "subgid")

    def facts():
        return identity(root), {name: what for name, what in root.snapshot().items()
                                if name.startswith((STATE, "var/log/cloister", "etc/cloister"))}
    first, _ = range_of(root, "subuid")
    (root.path / STATE / "workspaces/one/w").mkdir(parents=True)
    os.chown(root.path / STATE / "workspaces/one/w", first + 40000, first + 40000)
    before = facts()
    for step in ((debs["cloister"],), (newer("0.1.0+1"),), (debs["cloister"],), ()):
        if step:
            root.install(*step)
        else:
            root.shell("DPKG_MAINTSCRIPT_PACKAGE=cloister DPKG_MAINTSCRIPT_NAME=postinst "
                       "/var/lib/dpkg/info/cloister.postinst configure 0.1.0")  # as dpkg(1) starts it
        assert facts() == before
    root.install(newer("0.1.0+2", "# of the newer version"))
    root.install(debs["cloister"])
    assert facts() == before, "the configuration is not the older version's again"


def test_purge_goes_no_further_than_the_tree(root, debs):
    """Purging removes the links of workspaces and does not follow them. A mount in the tree stops it until it is unmounted."""
    root.install(debs["cloister"])
    first, _ = range_of(root, "subuid")
    root.shell(f"""
        mkdir -p /srv/precious /srv/volume /{STATE}/workspaces/one/w/mounted
        echo precious >/srv/precious/file
        cp /srv/precious/file /srv/volume
        cd /{STATE}/workspaces/one/w
        ln -s /srv/precious link
        ln -s ../../../../../../srv/precious up
        ln /srv/precious/file hard
        chown -hR {first + 40000}:{first + 40000} .
        mount --bind /srv/volume mounted""")
    said = root.run("dpkg", "--purge", "cloister", check=False)
    assert said.returncode != 0 and f"/{STATE}/workspaces/one/w/mounted is mounted: unmount it and purge again" in said.stdout
    assert (root.path / "srv/volume/file").exists() and (root.path / STATE / "workspaces/one/w/hard").exists()
    assert range_of(root, "subuid")[0] == first, "the ids are free though their files are there"
    root.shell(f"umount /{STATE}/workspaces/one/w/mounted")
    root.run("dpkg", "--purge", "cloister")
    assert not (root.path / STATE).exists()
    assert (root.path / "srv/precious/file").read_text() == (root.path / "srv/volume/file").read_text() == "precious\n"
    assert "cloister" not in root.read("etc/subuid") + root.read("etc/passwd") + root.read("etc/group")


@pytest.mark.parametrize("version", [4, 3, 2])
def test_apparmor_profiles_where_they_are_understood(root, debs, version):
    """Each file is loaded as soon as AppArmor's parser takes it, and removed with the package. That of cloister-egress needs
    an older one than the others."""
    places = {name: root.path / "etc/apparmor.d" / name for name in ("cloister", "cloister-egress")}
    parser = root.path / "usr/local/bin/apparmor_parser"

    def be(version):
        parser.write_text('#!/bin/sh\necho "$@" >>/apparmor-calls\nfor file; do :; done\n'
                          f'[ {version} -ge 4 ] || {{ [ {version} = 3 ] && [ "${{file##*/}}" = cloister-egress ]; }}\n')

    def expected(version):
        return {"cloister": version >= 4, "cloister-egress": version >= 3}

    def installed():
        return {name: place.exists() for name, place in places.items()}

    be(version)
    (root.path / "usr/local/bin/aa-enabled").write_text("#!/bin/sh\n")
    (root.path / "etc/apparmor.d").mkdir()
    for path in (parser, parser.with_name("aa-enabled")):
        path.chmod(0o755)
    root.install(debs["cloister"])
    assert installed() == expected(version)
    calls = root.lines("apparmor-calls")
    assert {name: f"-r -T -W /etc/apparmor.d/{name}" in calls for name in places} == expected(version)
    # AppArmor is upgraded, then downgraded, then upgraded.
    for version in (4, 3, 2, 4):
        be(version)
        root.shell("dpkg-trigger --no-await /etc/apparmor.d/abi; dpkg --triggers-only --pending")
        assert installed() == expected(version)
    root.run("dpkg", "--remove", "cloister")
    assert not any(installed().values())
    assert root.lines("apparmor-calls")[-2:] == [f"-R /etc/apparmor.d/{name}" for name in places]
    root.run("dpkg", "--purge", "cloister")
    assert list((root.path / "etc/apparmor.d").iterdir()) == []


@pytest.mark.parametrize("name", ["cloister", "cloister-egress"])
def test_apparmor_profiles_of_an_administrator_stay(root, debs, newer, name):
    """Unchanged profiles follow the package. Changed or disabled ones stay until the package is purged."""
    place, disabled = root.path / "etc/apparmor.d" / name, root.path / "etc/apparmor.d/disable" / name
    disabled.parent.mkdir(parents=True)
    for name in ("apparmor_parser", "aa-enabled"):
        path = root.path / "usr/local/bin" / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    root.install(debs["cloister"])
    shipped = place.read_text()
    root.install(newer("0.1.0+1", profile="# of the newer version"))
    assert place.read_text() == f"{shipped}# of the newer version\n"
    place.write_text(f"{shipped}# of the administrator\n")
    disabled.symlink_to(f"/etc/apparmor.d/{name}")
    root.install(newer("0.1.0+2", profile="# of the newest version"))
    root.shell("dpkg-trigger --no-await /etc/apparmor.d/abi; dpkg --triggers-only --pending")
    root.run("dpkg", "--remove", "cloister")
    assert place.read_text() == f"{shipped}# of the administrator\n"
    root.run("dpkg", "--purge", "cloister")
    assert not place.exists() and not disabled.is_symlink()


def test_purge_sees_what_is_mounted_behind_a_link(root, debs):
    """/var is a link to another disk, and the kernel names mounts below it by their real path."""
    root.install(debs["cloister"])
    root.shell(f"""
        mkdir -p /disk /srv/volume
        echo precious >/srv/volume/file
        cp -a /var /disk/var
        mv /var /var-of-old
        ln -s /disk/var /var
        mkdir -p /{STATE}/workspaces/one/w/mounted
        mount --bind /srv/volume /{STATE}/workspaces/one/w/mounted""")
    said = root.run("dpkg", "--purge", "cloister", check=False)
    assert (root.path / "srv/volume/file").read_text() == "precious\n"
    assert said.returncode != 0 and "unmount it and purge again" in said.stdout


def test_purge_of_a_directory_that_is_a_link(root, debs):
    """Purging removes the service's files where the link leads, with their id range, and nothing else. No link is left."""
    root.install(debs["cloister"])
    first, _ = range_of(root, "subuid")
    root.shell(f"""
        mkdir -p /disk/other
        echo precious >/disk/other/file
        mv /{STATE} /disk/state
        ln -s /disk/state /{STATE}
        mkdir -p /{STATE}/workspaces/one/w /srv/volume
        chown {first + 40000}:{first + 40000} /{STATE}/workspaces/one/w
        mount --bind /srv/volume /{STATE}/workspaces/one/w
        rmdir /var/log/cloister
        ln -s /disk/other /var/log/cloister""")
    said = root.run("dpkg", "--purge", "cloister", check=False)
    assert said.returncode != 0 and "/disk/state/workspaces/one/w is mounted: unmount it and purge again" in said.stdout
    assert range_of(root, "subuid")[0] == first
    root.shell(f"umount /{STATE}/workspaces/one/w")
    said = root.run("dpkg", "--purge", "cloister").stdout
    assert "/var/log/cloister is a link, and /disk/other, which is not the service's, stays" in said
    assert [path.name for path in (root.path / "disk").iterdir()] == ["other"]
    assert (root.path / "disk/other/file").read_text() == "precious\n"
    assert not any((root.path / name).is_symlink() for name in (STATE, "var/log/cloister"))
    assert "cloister" not in root.read("etc/subuid") + root.read("etc/passwd")


def test_processes_of_workspaces_are_seen_while_others_end(root, debs):
    """Purging waits for processes of workspaces, however many other processes start and end on the host."""
    root.install(debs["cloister"])
    first, count = range_of(root, "subuid")
    missed = root.shell(f"""
        sed '/^case/,$d' /var/lib/dpkg/info/cloister.postrm >/tmp/functions
        . /tmp/functions
        setpriv --reuid={first + 40000} --clear-groups sleep 1000 & one=$!
        until has_workspace_processes {first} {count}; do :; done
        touch /tmp/busy
        for crowd in 1 2 3; do
            while [ -e /tmp/busy ]; do
                sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 0.00$i & done'
            done &
        done
        tries=0 missed=0
        while [ $tries -lt 100 ]; do
            has_workspace_processes {first} {count} || missed=$((missed + 1))
            tries=$((tries + 1))
        done
        rm /tmp/busy
        kill $one
        wait
        echo "missed $missed" """).stdout
    assert missed.endswith("missed 0\n")


@pytest.mark.parametrize("group", [(), ("--no-user-group", "--gid", "users")])
def test_purge_leaves_a_user_that_was_there_before(root, debs, group):
    """A user has the name already. Her account and files stay, with a group of her own or without."""
    root.run("useradd", "-m", "-K", "SUB_UID_COUNT=0", "-K", "SUB_GID_COUNT=0", *group, "cloister")
    before = {name: lines for name, lines in user_database(root).items() if not name.startswith("sub")}
    root.install(debs["cloister"])
    # A link to her home does not let purging empty it.
    root.shell(f"rmdir /{STATE}; ln -s /home/cloister /{STATE}; echo precious >/home/cloister/file")
    said = root.run("dpkg", "--purge", "cloister").stdout
    assert {name: lines for name, lines in user_database(root).items() if not name.startswith("sub")} == before
    assert "the user cloister is not the package's, and stays" in said
    assert root.read("home/cloister/file") == "precious\n" and not (root.path / STATE).is_symlink()


def test_purge_leaves_a_group_that_is_a_users_own(root, debs):
    """One of the groups is the primary group of a user: purging says that the group stays, and succeeds."""
    root.install(debs["cloister"])
    root.shell("useradd --no-create-home --gid cloister-admin carol")
    said = root.run("dpkg", "--purge", "cloister").stdout
    assert "the group cloister-admin stays" in said
    assert [line.split(":")[0] for line in root.lines("etc/group") if line.startswith("cloister")] == ["cloister-admin"]
    assert root.run("dpkg-query", "-W", "cloister", check=False).returncode != 0


def test_ranges_given_at_once_do_not_meet(root, debs):
    """Two give-ids run at the same time. usermod is slow and does not look at existing ranges."""
    root.install(debs["cloister"])
    root.shell("""
        printf '#!/bin/sh\nsleep 1\nexec /usr/sbin/usermod "$@"\n' >/usr/local/bin/usermod
        chmod 755 /usr/local/bin/usermod
        for user in one two three; do useradd --system --no-create-home $user; done
        for user in one two three; do PATH=/usr/local/bin:$PATH /usr/libexec/cloister/give-ids $user & done
        wait""")
    for name in ("subuid", "subgid"):
        firsts = sorted(int(line.split(":")[1]) for line in root.lines(f"etc/{name}"))
        assert len(firsts) == 4 and all(right - left >= SIZE for left, right in zip(firsts, firsts[1:])), firsts
