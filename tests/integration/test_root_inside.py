# SPDX-License-Identifier: Apache-2.0
"""Commands that are root in a user namespace of their own (root_inside): in forks that are a whole root."""

import json
import os
import pathlib
import shutil

import pytest

import procfs
from cloister_client import acting_as
from inside import forked, starter
from small_system import add_files, add_programs, add_trees
from test_pty import output_of

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make the images for another account")

PACKAGES = ("dpkg", "dpkg-deb", "dpkg-query", "dpkg-split", "apt-get", "ldconfig", "start-stop-daemon", "diff", "tty", "uname")
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb") or not shutil.which("apt-get"), reason="needs dpkg and apt")
needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")


@pytest.fixture(params=["user", "system"])
def begin(start_daemon, area, request):
    return starter(start_daemon, area, request.param)


def says(client, command):
    output = client.run(command)
    assert output["exit_code"] == 0, output
    return output["stdout"].split("\n")[:-1]


def test_commands_are_root_and_have_no_capability(begin):
    client, answer = forked(begin())
    assert answer["root"] == "/" and answer["root_inside"] is True
    assert says(client, "id -u; id -g; stat -c '%u %g' / /etc/passwd; echo $USER $LOGNAME; cat /proc/self/uid_map /proc/self/gid_map") == \
        ["0", "0", "0 0", "0 0", "root root", *["         0       1000          1"] * 2]
    fields = dict(line.split(":\t", 1) for line in says(client, "grep -E '^(Cap|NoNew|Uid|Gid|Seccomp:)' /proc/self/status"))
    assert {fields[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (fields["Uid"], fields["Gid"], fields["NoNewPrivs"], fields["Seccomp"]) == ("\t".join("0000"), "\t".join("0000"), "1", "2")
    message = client.call("tool.call", {"tool": "list_directory", "arguments": {"path": "/etc"}, "options": {"reply": "message"}})
    assert "root of this workspace's files alone" in message["content"]


def test_other_workspaces_are_as_before(begin):
    service = begin("spare_cells = 1")
    for client, answer in (forked(service, "managed"), forked(service)):
        inside = answer["root"] == "/"
        assert answer.get("root_inside") is (True if inside else None)
        assert client.run("id -u" if inside else "/usr/bin/id -u")["stdout"] == ("0\n" if inside else "1000\n")
    client = service.connect()
    assert "root_inside" not in client.call("workspace.open", {"workspace": "w"})
    assert client.run("id -u; echo $USER")["stdout"] == "1000\nagent\n"


@pytest.mark.parametrize("begin", ["user"], indirect=True)
def test_it_is_off_by_default(begin):
    client, answer = forked(begin(root_inside="no"))
    assert "root_inside" not in answer and answer["root"] == "/"
    assert says(client, "id -u; echo $USER") == ["1000", "agent"]


@pytest.mark.parametrize("begin", ["user"], indirect=True)
def test_a_reload_counts_from_the_next_cell(begin):
    service = begin(root_inside="no")
    client, _ = forked(service)
    assert says(client, "id -u") == ["1000"]
    with acting_as(os.getuid()):
        service.config.write_text(service.config.read_text().replace("root_inside = no", "root_inside = yes"))
    assert service.ctl("reload").returncode == 0
    assert says(client, "id -u; touch /a") == ["1000"]
    client.call("workspace.checkpoint", {})
    assert says(client, "id -u; stat -c %u /a") == ["0", "0"]


def test_files_are_the_workspaces_own(begin):
    """The id on the host is the one of every process of the workspace; file tools do what they do without the key."""
    service = begin()
    client, _ = forked(service)
    says(client, "mkdir /d; echo command > /d/c; chown root:root /d/c; chgrp 0 /d; echo x > /tmp/t")
    client.use("write_file", path="/d/t", content="tool\n")
    assert says(client, "stat -c %u:%g /d/* /d /tmp/t; cat /d/c /d/t; echo more >> /d/t; mv /d/t /d/u") == ["0:0"] * 4 + ["command", "tool"]
    assert client.use("read_file", path="/d/u", options={"line_numbers": False})["content"] == "tool\nmore\n"
    worker, files = service.only("cloister-worker"), service.only("cloister-files")
    with acting_as(os.getuid()):
        owner = os.stat(f"/proc/{worker}/task").st_uid, os.stat(f"/proc/{worker}/root/d/c").st_uid
        ids = {procfs.status(pid)["Uid"].split()[0] for pid in (worker, files)}
        maps = [pathlib.Path(f"/proc/{pid}/uid_map").read_text().split() for pid in (worker, files)]
        namespaces = {os.readlink(f"/proc/{pid}/ns/user") for pid in (worker, files)}
    assert ids == {str(owner[1])} and owner[1] not in (0, None)
    assert maps[0] == maps[1] == ["1000", str(owner[1]), "1"] and len(namespaces) == 1
    if begin.mode == "user":
        assert owner[1] == service.account.uid


def observed(client):
    """What file tools and a command answer, without what differs from one workspace to the next."""
    client.run("mkdir -p /w/deep; echo one > /w/a; ln -s a /w/l; ln -s /etc/passwd /w/out; chmod 600 /w/a; chmod 500 /w/deep")
    calls = [("read_file", {"path": "/w/a"}), ("read_file", {"path": "/w/out"}), ("read_file", {"path": "/w/no"}),
             ("write_file", {"path": "/w/new", "content": "x"}), ("write_file", {"path": "/w/deep/x", "content": "x"}),
             ("list_directory", {"path": "/w"}), ("search_files", {"pattern": "on.", "path": "/w"}),
             ("write_file", {"path": "/proc/x", "content": "x"}), ("read_file", {"path": "/proc/self/status"})]
    for tool, arguments in calls:
        seen = client.observe(tool, arguments)
        for name in ("usage", "version"):
            seen.pop(name, None)
        yield json.loads(json.dumps(seen), object_hook=lambda d: {k: v for k, v in d.items() if k not in ("mtime", "version", "wall_us")})


def test_file_tools_answer_the_same(begin, start_daemon):
    assert list(observed(forked(begin())[0])) == list(observed(forked(begin(root_inside="no"))[0]))


def test_a_new_files_process_and_what_outlives_a_cell(begin):
    service = begin()
    client, _ = forked(service)
    says(client, "echo 1 > /task; echo kept > /tmp/k")
    with acting_as(os.getuid()):
        (files,) = [pid for pid in procfs.children(service.spawner()) if procfs.name(pid) == "cloister-files"]
        os.kill(files, 9)
    assert procfs.vanish([files])
    assert client.use("read_file", path="/task", options={"line_numbers": False})["content"] == "1\n"
    number = client.call("workspace.checkpoint", {})["checkpoint"]
    assert says(client, "id -u; echo 2 > /task; stat -c %u /task") == ["0", "0"]
    changes = {row["path"]: row["change"] for row in client.call("workspace.diff", {"since": number})["changes"]}
    assert changes == {"task": "changed"}
    client.call("workspace.rollback", {"to": number})
    assert says(client, "cat /task; id -u") == ["1", "0"]


@pytest.mark.parametrize("begin", ["user"], indirect=True)
def test_a_session_at_a_terminal(begin):
    client, _ = forked(begin())
    text, _ = output_of(client, "id -u; stat -c %u /proc/self/fd/0")
    assert text == "0\r\n0\r\n"


def dpkg_tree(root):
    add_programs(root, *PACKAGES)
    add_trees(root, "/usr/lib/apt", "/usr/share/dpkg")
    add_files(root, *(str(path) for path in pathlib.Path("/usr/lib/apt/methods").iterdir()))
    for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial", "etc/apt",
                 "var/cache/apt/archives/partial", "var/log/apt", "etc/dpkg/dpkg.cfg.d", "etc/apt/apt.conf.d", "var/tmp"):
        (root / path).mkdir(parents=True, exist_ok=True)
    for path in ("var/lib/dpkg/status", "var/lib/dpkg/available", "etc/apt/sources.list"):
        (root / path).touch()
    (root / "etc/apt/apt.conf.d/90root-inside").write_text('APT::Sandbox::User "root";\n')  # as the manual says


PACKAGE = """
set -e
mkdir -p /p/DEBIAN /p/usr/bin /p/etc
cat > /p/DEBIAN/control <<E
Package: of-this-place
Version: 1
Architecture: all
Maintainer: nobody <nobody@example.test>
Description: made here
E
echo /etc/of-this-place > /p/DEBIAN/conffiles
echo setting > /p/etc/of-this-place
echo 'echo it runs' > /p/usr/bin/of-this-place
echo 'chown root:root /usr/bin/of-this-place; echo configured' > /p/DEBIAN/postinst
sed -i '1i #!/bin/sh' /p/usr/bin/of-this-place /p/DEBIAN/postinst
chmod 755 /p/usr/bin/of-this-place /p/DEBIAN/postinst
dpkg-deb --build /p /of-this-place.deb
"""


@pytest.mark.deep("slow")
@needs_dpkg
def test_a_package_is_installed(begin):
    client, _ = forked(begin(fill=dpkg_tree))
    says(client, PACKAGE)
    assert says(client, "dpkg -i /of-this-place.deb")[-1] == "configured"
    assert says(client, "of-this-place; stat -c %u:%g /usr/bin/of-this-place; dpkg --purge of-this-place; ls /etc/of*; true")[:2] == ["it runs", "0:0"]
    installed = client.run("apt-get install -y /of-this-place.deb")
    assert installed["exit_code"] == 0 and "configured" in installed["stdout"], installed
    assert says(client, "of-this-place; dpkg-query -W -f '${Status}\\n' of-this-place") == ["it runs", "install ok installed"]


@pytest.mark.deep("slow")
@needs_dpkg
def test_what_one_id_cannot_have(begin):
    """A file of another user, and a set-user-id one: refused, as in every workspace, and not pretended."""
    client, _ = forked(begin(fill=dpkg_tree))
    says(client, PACKAGE)
    for change, words in (("chmod 4755 /usr/bin/of-this-place", "Operation not permitted"), ("chown 1:1 /usr/bin/of-this-place", "Invalid argument")):
        says(client, f"sed -i 's,^ch.*,set -e; {change},' /p/DEBIAN/postinst; sed -i 's,^set -e.*,set -e; {change},' /p/DEBIAN/postinst; "
             "dpkg-deb --build /p /of-this-place.deb")
        output = client.run("dpkg -i /of-this-place.deb")
        assert output["exit_code"] != 0 and words in output["stderr"], output


def test_tar_keeps_owners(begin):
    client, _ = forked(begin())
    assert says(client, "mkdir /s; echo x > /s/f; chmod 751 /s/f; tar -C / -cpf /t.tar s; rm -r /s; tar -C / -xpf /t.tar; "
                "stat -c '%u:%g %a' /s/f") == ["0:0 751"]
    output = client.run("tar -C / --owner=7 --group=7 -cf /o.tar s && rm -r /s; tar -C / -xpf /o.tar")
    assert output["exit_code"] == 2 and "Invalid argument" in output["stderr"], output
    assert says(client, "tar -C / -xpf /o.tar --no-same-owner; stat -c %u /s/f") == ["0"]


@pytest.mark.deep("slow")
@needs_npm
def test_npm_installs_for_all(begin):
    def fill(root):
        add_programs(root, "node")
        add_trees(root, "/usr/lib/node_modules", "/usr/share/nodejs", "/usr/share/node_modules")
        shutil.copy(shutil.which("npm"), root / "usr/bin/npm", follow_symlinks=False)

    client, _ = forked(begin(fill=fill))
    client.use("write_file", path="/pack/package.json", content=json.dumps(
        {"name": "of-this-place", "version": "1.0.0", "bin": {"of-this-place": "cli.js"},
         "scripts": {"postinstall": "id -u > /installed-by"}}))
    client.use("write_file", path="/pack/cli.js", content="#!/usr/bin/env node\nconsole.log('it runs', process.getuid());\n")
    output = client.run("cd /pack && npm pack --silent && npm install -g --no-audit --no-fund ./of-this-place-1.0.0.tgz && hash -r && of-this-place; "
                        "cat /installed-by")
    assert output["exit_code"] == 0 and output["stdout"].endswith("it runs 0\n0\n"), output
