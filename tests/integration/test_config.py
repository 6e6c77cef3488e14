# SPDX-License-Identifier: Apache-2.0
"""The configuration files that cloisterd reads: the messages of --check, mistakes that prevent a start, the example."""

import os
import pathlib
import re
import subprocess

import pytest

import manual
import procfs
from cloister_client import Client
from daemon import BUILD, ROOT

EXAMPLE = ROOT / "packaging" / "cloister.conf"

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make files of another user")


class Config:
    """A configuration file of the user's, with drop-ins."""

    def __init__(self, area, text):
        self.area = area
        self.directory = area.new_directory("config")
        self.path = self.write("cloister.conf", text)

    def write(self, name, text):
        path = self.directory / name
        if not path.parent.exists():
            path.parent.mkdir()
            self.area.account.own(path.parent)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.area.account.own(path)
        return path

    def check(self):
        """Runs --check. Returns the exit status and the messages, without the directory's name."""
        done = self.area.run("cloisterd", "--config", str(self.path), "--check")
        assert done.stdout == b""
        return done.returncode, done.stderr.decode().replace(f"{self.directory}/", "")

    def start(self, *words, **keywords):
        """Starts cloisterd with this configuration, which it must refuse. Returns its messages."""
        done = self.area.run("cloisterd", "--config", str(self.path), "--agent-socket",
                             str(self.directory / "s"), "--state-dir", str(self.directory / "state"), *words,
                             **keywords)
        assert done.returncode == 1
        assert not (self.directory / "s").exists()
        return done.stderr.decode().replace(f"{self.directory}/", "")


MISTAKES = {
    "cloister.conf": """\
[cloister]
connection = 5
agent_socket_mode = 0999
[tenant a]
users = nobody no-such-user
users =
network = host
command_timeout = 30
roots = relative
  /no/such/directory
blocked_commands = (
cpu_max = 1000001%
weight 5
[tenant a]
[tennant b]
""",
    "cloister.conf.d/50-more.conf": "managed = yes\n[tenant a]\nmanaged = maybe\n",
    "cloister.conf.d/60-bytes.conf": b"[tenant a]\nusers = \xff\0\n",
}
SAID = """\
cloister.conf:2: unknown key "connection" in this section
cloister.conf:3: agent_socket_mode: "0999" is not an octal mode such as 0660
cloister.conf:5: users: there is no user "no-such-user"
cloister.conf:6: users: the value is missing
cloister.conf:7: network: "host" is not one of none, egress
cloister.conf:8: command_timeout: "30" is not a time: a number with ms, s, min or h, such as 30s
cloister.conf:9: roots: "relative" is not an absolute path without ".", ".." or "//"
cloister.conf:10: roots: "/no/such/directory": No such file or directory
cloister.conf:11: blocked_commands: blocked command pattern "(": missing closing parenthesis at character 2
cloister.conf:12: cpu_max: "1000001%" is out of range, which is 0% to 1000000%
cloister.conf:13: not a setting: write name = value
cloister.conf:14: the section [tenant a] is given twice in this file, first in line 4
cloister.conf:15: unknown section [tennant b]: the sections are [cloister] and [tenant NAME]
cloister.conf.d/50-more.conf:1: a setting before the first section
cloister.conf.d/50-more.conf:3: managed: "maybe" is not yes or no
cloister.conf.d/60-bytes.conf:2: the line contains control characters, or bytes that are not UTF-8
"""


@pytest.fixture
def mistaken(area):
    config = Config(area, "")
    for name, text in MISTAKES.items():
        config.write(name, text)
    return config


def test_check_names_every_mistake_with_file_and_line(mistaken):
    assert mistaken.check() == (1, SAID)


def test_cloisterd_refuses_to_start_with_the_same_messages(mistaken):
    assert mistaken.start().replace("cloisterd: ", "") == SAID


def test_check_is_silent_about_a_good_configuration(area):
    config = Config(area, "[tenant a]\nusers = nobody\n")
    config.write("cloister.conf.d/1.conf", "[tenant a]\nmanaged = yes\n")
    assert config.check() == (0, "")
    assert not (config.directory / "s").exists()


def test_check_needs_a_configuration(area):
    done = area.run("cloisterd", "--check")
    assert done.returncode == 2 and b"--config FILE --check" in done.stderr


@pytest.mark.parametrize("make, said", [
    (lambda path: path.unlink(), "cloister.conf: No such file or directory\n"),
    (lambda path: path.chmod(0o622),
     "cloister.conf: users other than its owner can write it: chmod go-w\n"),
    (lambda path: (path.unlink(), path.mkdir()), "cloister.conf: not a regular file\n"),
    (lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
     "cloister.conf: Permission denied\n" if os.getuid() == 0 else "cloister.conf: not a regular file\n"),
])
def test_files_that_are_no_configuration(area, make, said):
    config = Config(area, "")
    make(config.path)
    assert config.check() == (1, said)


@needs_root
def test_a_drop_in_of_another_user_is_refused(area):
    config = Config(area, "")
    path = config.write("cloister.conf.d/1.conf", "[tenant a]\n")
    os.chown(path, area.account.uid + 1, -1)
    assert config.check() == (1, "cloister.conf.d/1.conf: its owner is neither root nor the owner of "
                                 "the main file: chown it\n")


def test_a_root_is_written_by_its_own_name(area):
    directory = area.new_directory()
    link = pathlib.Path(f"{directory}-link")
    link.symlink_to(directory)
    config = Config(area, f"[tenant a]\nroots = {link}\n")
    assert config.check() == (1, f'cloister.conf:2: roots: "{link}" leads through a symbolic link: '
                                 f'write "{directory}" instead\n')


@pytest.mark.parametrize("feature, without", [
    ("landlock", "landlock"), ("landlock", "landlock-disabled"), ("cgroups", None)])
def test_what_is_required_and_missing_stops_the_start(area, feature, without):
    config = Config(area, f"[cloister]\ntenants = none\nrequire = {feature}\n")
    assert config.check() == (0, "")
    assert f"the configuration requires {feature}: " in config.start(without=without)


def test_the_configuration_says_where_socket_and_state_are(area):
    config = Config(area, "")
    config.write("cloister.conf", f"[cloister]\ntenants = none\nagent_socket = {config.directory}/a/sock\n"
                 f"agent_socket_mode = 0640\nstate_dir = {config.directory}/b\n")
    with area.start(["cloisterd", "--config", str(config.path)], stderr=subprocess.PIPE) as process:
        socket = config.directory / "a" / "sock"
        try:
            assert procfs.eventually(lambda: b"listening" in process.stderr.readline())
            assert socket.stat().st_mode & 0o7777 == 0o640
            assert (config.directory / "b" / "workspaces").is_dir()
        finally:
            process.terminate()
            process.wait(120)


def test_a_private_instance_has_no_configuration(area):
    done = area.run("cloisterd", "--connection-fd=3", "--config", "/dev/null")
    assert done.returncode == 2


def test_no_workspace_holds_the_configuration(area):
    config = Config(area, "")
    own, beside = area.new_directory(), area.new_directory()
    config.write("cloister.conf", f"[tenant a]\nusers = {area.account.name}\nroots = {area.path}\n")
    config.write("cloister.conf.d/1.conf", "")
    with area.start(["cloisterd", "--config", str(config.path), "--agent-socket", str(own / "s"),
                     "--state-dir", str(own / "state")], stderr=subprocess.PIPE) as process:
        try:
            assert procfs.eventually(lambda: b"listening" in process.stderr.readline())
            with Client(own / "s", area.account.uid, area.account.gid) as client:
                for path in (config.directory, config.directory / "cloister.conf.d"):
                    assert client.call_error("workspace.open", {"root": str(path)}) == "FORBIDDEN"
                assert client.call("workspace.open", {"root": str(beside)})["tenant"] == "a"
        finally:
            process.terminate()
            process.wait(120)


@needs_root
def test_root_becomes_the_user_that_the_configuration_names(area):
    with open("/proc/self/uid_map") as file:
        if file.read().split()[1] != "0":
            pytest.skip("root in this user namespace is an ordinary user on the host")
    config = Config(area, f"[cloister]\ntenants = none\nuser = {area.account.name}\n")
    process = subprocess.Popen(
        [area.bin / "cloisterd", "--config", config.path, "--agent-socket", config.directory / "s",
         "--state-dir", config.directory / "state"], stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
    try:
        assert procfs.eventually((config.directory / "s").exists)
        assert procfs.uids(process.pid) == [area.account.uid] * 4
    finally:
        process.terminate()
        process.wait(120)


# The example in packaging/


def example_settings():
    """Returns {section: [key]} of the example, including settings in comments, and its text with those settings
    enabled."""
    found, lines, section = {}, [], None
    for line in EXAMPLE.read_text().splitlines():
        text = line[1:] if re.match(r"#(\[|\w+ = |\t)", line) else line
        if header := re.fullmatch(r"\[(\w+).*\]", text):
            section = found.setdefault(header[1], [])
        elif setting := re.match(r"(\w+) = ", text):
            section.append(setting[1])
        lines.append(text)
    return found, "\n".join(lines) + "\n"


def test_the_example_is_good(area):
    config = Config(area, EXAMPLE.read_text())
    assert config.check() == (0, "")


def test_the_example_shows_every_key_once(area):
    source = (ROOT / "supervisor" / "config" / "config_keys.c").read_text()
    keys = {"cloister": re.findall(r'^\t{"(\w+)", HOST\(', source, re.M),
            "tenant": re.findall(r'^\t{"(\w+)", (?:TENANT|LIMIT)\(', source, re.M)}
    found, text = example_settings()
    assert {section: sorted(names) for section, names in found.items()} == \
        {section: sorted(names) for section, names in keys.items()}
    # The settings are valid with users and directories that exist here in place of the example's.
    for name in ("alice", "bob", "agents"):
        text = text.replace(name, str(1000 + len(name)))
    for shown, there in (("/srv/projects", "/usr"), ("/srv/checkouts", "/etc"), ("/opt/toolchain", "/opt"),
                         ("/etc/cloister/openai.key", "/proc/self/mem"),
                         ("egress_user = cloister-egress", "egress_user = nobody"),
                         ("gate_user = cloister-gate", "gate_user = nobody"), ("user = cloister\n", "user = nobody\n")):
        text = text.replace(shown, there)
    config = Config(area, text.replace("network = none", "network = egress"))
    assert config.check() == (0, "")


def installed():
    """Returns the configuration that an installation starts with. packaging/CMakeLists.txt makes it from the example."""
    return (BUILD / "packaging" / "cloister.conf").read_text()


def test_what_is_installed_is_as_the_manual_says():
    prefix = re.search(r"^CMAKE_INSTALL_PREFIX:PATH=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
    (page,) = manual.literals("cloister.conf.5", "PACKAGED CONFIGURATION")
    # This build may have another prefix than the manual's.
    assert [line.replace(f"{prefix}/var/", "/var/").replace("/var/run/", "/run/")
            for line in re.findall(r"^[^#\s\[].*$", installed(), re.M)] == page.splitlines()


@needs_root
def test_what_is_installed_is_good_and_lets_nobody_in(account, start_daemon, tenants):
    """cloisterd starts with the installed configuration, for users and groups of this host, and refuses every client."""
    text = installed().replace("user = cloister", f"user = {account.name}")
    for number, group in enumerate(("cloister-admin", "cloister-observer")):
        assert f"= {group}\n" in text
        text = text.replace(f"= {group}\n", f"= {65000 + number}\n")
    daemon = start_daemon(config=text, system=True)
    done = daemon.area.run("cloisterd", "--config", str(daemon.config), "--check")
    assert (done.returncode, done.stderr) == (0, b"")
    for connect in (daemon.connect, daemon.control):
        for who in (account, tenants[0]):
            with connect(who) as client:
                client.request("tools.list" if connect == daemon.connect else "status")
                assert client.receive()["error"]["data"]["code"] == "FORBIDDEN"
                # The unit's ExecReload= runs as cloisterd's own user, so that user's connection stays open.
                if (connect, who) != (daemon.control, account):
                    assert client.receive() is None


def test_the_example_lets_nobody_in(start_daemon):
    daemon = start_daemon(config=EXAMPLE.read_text())
    with daemon.connect() as client:
        client.request("tools.list")
        assert client.receive()["error"]["data"]["code"] == "FORBIDDEN"
        assert client.receive() is None


EMPTY = {
    "nothing": "",
    "a comment": "# [tenant a]\n",
    "a section": "[cloister]\nspare_cells = 1\n",
    "tenants that are expected": "[cloister]\ntenants = expected\n",
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY.keys())
def test_a_configuration_without_tenants_is_a_mistake(area, text):
    config = Config(area, text)
    status, said = config.check()
    assert status == 1
    assert said.startswith("cloister.conf: ") and "[tenant NAME]" in said and "tenants = none" in said
    assert "tenants = none" in config.start()


def test_a_configuration_may_say_that_it_has_no_tenants(area):
    config = Config(area, "[cloister]\ntenants = none\n")
    assert config.check() == (0, "")
    config = Config(area, "")
    assert config.check()[0] == 1
    config.write("cloister.conf.d/1.conf", "[tenant a]\n")
    assert config.check() == (0, "")


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY.keys())
def test_a_truncated_file_does_not_remove_tenants(area, start_daemon, text):
    """cloisterd refuses to reload a file that was cut off or emptied: the tenants stay."""
    account = area.account
    daemon = start_daemon(config=f"[cloister]\n[tenant a]\nusers = {account.name}\nroots = {area.path}\n")
    with daemon.connect() as client:
        daemon.new_workspace(client)
        assert not daemon.reload(text)
        assert client.run("echo a")["stdout"] == "a\n"
        assert daemon.reload("[cloister]\ntenants = none\n")
        assert client.call_error("workspace.list") == "FORBIDDEN"
