# SPDX-License-Identifier: Apache-2.0
"""The units and the files around them, checked without a running systemd. tests/vm has tests with one."""

import ipaddress
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
UNITS = BUILD / "packaging" / "systemd"
SOURCE = ROOT / "packaging" / "systemd"
SOCKETS = ("cloister.socket", "cloister-control.socket")
EGRESS = ("cloister-egress.service", "cloister-egress.socket")
HTTP = "cloister-gate.service"
QUOTA = "cloister-quota.service"
GATE = "cloister-gate@.service"
HEALTH = ("cloister-health.socket", "cloister-health@.service")
TIMED = ("cloister-audit-anchor.service", "cloister-audit-anchor.timer", "cloister-metrics.service", "cloister-metrics.timer")

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze") and os.environ.get("CI") != "true", reason="systemd is not installed")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def settings(path):
    """Returns the settings of a unit: {key: [value, ...]}."""
    found = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def run(*words, **keywords):
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **keywords)


@pytest.fixture(params=["system", "user"])
def unit_files(request, tmp_path):
    """The units of the system or of a user, with the programs of this build."""
    part = "user/" if request.param == "user" else ""
    for socket in SOCKETS:
        shutil.copy(SOURCE / f"{part}{socket}", tmp_path)
    text = (UNITS / f"{part}cloister.service").read_text()
    (tmp_path / "cloister.service").write_text(
        re.sub(r"(?m)^(Exec\w+=)\S*/(cloisterd|cloisterctl)\b", rf"\1{BUILD}/bin/\2", text))
    names = ["cloister.service", *SOCKETS]
    if request.param == "system":
        others = [*TIMED, *EGRESS, *HEALTH, QUOTA, HTTP, *([GATE] if shutil.which("stunnel") or os.environ.get("CI") == "true" else [])]
        names += others
        for name in others:
            shutil.copy((UNITS if name.endswith(".service") else SOURCE) / name, tmp_path)
        for unit in (tmp_path / EGRESS[0], tmp_path / QUOTA, tmp_path / HTTP):
            unit.write_text(re.sub(r"(?m)^(ExecStart=)\S*/(cloister-egress|cloister-quota|cloister-gate)\b", rf"\1{BUILD}/bin/\2", unit.read_text()))
    return request.param, [str(tmp_path / name) for name in names]


@needs_systemd
def test_systemd_finds_nothing_wrong(unit_files):
    manager, files = unit_files
    verified = run("systemd-analyze", f"--{manager}", "--man=no", "verify", *files,
                   env={**os.environ, "XDG_RUNTIME_DIR": os.path.dirname(files[0])})
    assert (verified.returncode, verified.stdout) == (0, "")


@needs_systemd
@pytest.mark.parametrize("name", ["cloister.service", "cloister-egress.service", "cloister-gate.service", "cloister-gate@.service",
                                  "cloister-health@.service", "cloister-quota.service"])
def test_it_is_no_more_exposed_than_is_said(name, tmp_path):
    shutil.copy(UNITS / name, tmp_path)
    said = run("systemd-analyze", "security", "--offline=yes", "--no-pager", str(tmp_path / name))
    figure = float(re.search(rf"exposure level for {name.replace('@', '@i?')}: ([0-9.]+)", said.stdout).group(1))
    text = (SOURCE / "README.md").read_text()
    version = re.search(r"systemd (\d+) gives", text).group(1)
    recorded = re.search(rf"\b{re.escape(name)}\s(?:has )?\*\*([0-9.]+)\*\*", text).group(1)
    if run("systemd-analyze", "--version").stdout.split()[1] == version:
        assert figure == float(recorded)
    else:  # another version of systemd has other checks
        assert figure < float(recorded) + 1


def test_what_would_break_workspaces_is_not_set():
    text = (UNITS / "cloister.service").read_text()
    reasons = text[text.index("# Not set"):text.index("[Install]")]
    for key in ("RestrictNamespaces", "PrivateUsers", "ProtectProc", "ProcSubset", "ProtectKernelTunables",
                "ProtectKernelLogs", "ProtectControlGroups", "ProtectHostname", "RestrictSUIDSGID",
                "MemoryDenyWriteExecute", "LockPersonality", "RestrictRealtime", "StateDirectory", "LogsDirectory"):
        assert key not in settings(UNITS / "cloister.service")
        assert f"{key}=" in reasons


def test_the_capabilities_are_the_two_that_write_maps():
    unit = settings(UNITS / "cloister.service")
    assert unit["AmbientCapabilities"] == unit["CapabilityBoundingSet"] == ["CAP_SETUID CAP_SETGID"]
    assert unit["NoNewPrivileges"] == ["yes"] and unit["User"] == ["cloister"]


def denied_ranges():
    return [ipaddress.ip_network(word) for value in settings(UNITS / "cloister-egress.service")["IPAddressDeny"]
            for word in value.split()]


def test_the_second_wall_has_the_ranges_of_the_first():
    """The unit's IP filter refuses every range that common/egress/address.c does, the addresses of clouds' metadata too.
    It has no exceptions but systemd-resolved's address."""
    source = (ROOT / "common/egress/address.c").read_text()
    ranges = [ipaddress.ip_network(f"{a}.{b}.{c}.{d}/{prefix}") for a, b, c, d, prefix in
              re.findall(r"\{IPV4\((\d+), (\d+), (\d+), (\d+)\), (\d+)\}", source)]
    assert len(ranges) >= 22
    tables = re.findall(r"(?s)struct network (metadata6|special6)\[\] = \{(.*?)\n\};", source)
    assert len(tables) == 2
    for _, table in tables:
        for initializer, prefix in re.findall(r"\{\{([^}]*)\}, (\d+)\}", table):
            octets, at = bytearray(16), 0
            for place, octet in re.findall(r"(?:\[(\d+)\] = )?(\w+)(?:, |$)", initializer):
                at = int(place or at)
                octets[at], at = int(octet, 16), at + 1
            ranges.append(ipaddress.ip_network((bytes(octets), int(prefix))))
    assert {"fe80::a9fe:a9fe/128", "fd00:a9fe:a9fe::/48", "fd00:ec2::/32"} <= set(map(str, ranges))
    assert len([found for found in ranges if found.version == 6]) >= 8
    denied = denied_ranges()
    for one in ranges:
        assert any(one.version == wall.version and one.subnet_of(wall) for wall in denied), one
    # Of IPv6 nothing is left but 2000::/3.
    outside = ipaddress.ip_network("::/0").address_exclude(ipaddress.ip_network("2000::/3"))
    assert all(any(wall.version == 6 and part.subnet_of(wall) for wall in denied) for part in outside)
    assert settings(UNITS / "cloister-egress.service")["IPAddressAllow"] == ["127.0.0.53"]


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "151.101.2.132", "2606:4700::1111", "2a00:1450::1"])
def test_the_second_wall_lets_the_public_internet_pass(address):
    assert not [wall for wall in denied_ranges() if ipaddress.ip_address(address) in wall]


def test_quotas_are_set_before_by_the_only_unit_of_roots():
    unit, service = settings(UNITS / "cloister-quota.service"), settings(UNITS / "cloister.service")
    assert unit["Type"] == ["oneshot"] and unit["Before"] == ["cloister.service"] and "User" not in unit
    assert unit["CapabilityBoundingSet"] == ["CAP_SYS_ADMIN CAP_DAC_READ_SEARCH"]
    assert "cloister-quota.service" in service["Wants"][0].split() and "cloister-quota.service" in service["After"][0].split()


def test_cloister_egress_has_a_user_and_a_socket_of_its_own():
    """Only its user can connect. Nothing starts it that an administrator has not enabled, and stopping cloisterd stops it:
    otherwise its connection would start cloisterd again."""
    socket, unit = settings(SOURCE / "cloister-egress.socket"), settings(UNITS / "cloister-egress.service")
    assert socket["FileDescriptorName"] == ["egress"] and socket["Service"] == ["cloister.service"]
    assert socket["SocketUser"] == unit["User"] == ["cloister-egress"] and socket["SocketMode"] == ["0600"]
    assert unit["ExecStart"][0].split()[-1] == socket["ListenStream"][0]
    assert unit["CapabilityBoundingSet"] == [""] and "AmbientCapabilities" not in unit
    assert unit["PartOf"] == unit["Before"] == unit["WantedBy"] == ["cloister.service"] and unit["Restart"] == ["always"]
    cloisterd = settings(UNITS / "cloister.service")
    assert "cloister-egress.socket" in cloisterd["Sockets"][0].split()
    assert "cloister-egress.service" not in (UNITS / "cloister.service").read_text().replace(
        "# cloister-egress.service has the connections", "")
    assert cloisterd["PrivateNetwork"] == ["yes"] and "PrivateNetwork" not in unit


def test_a_reload_is_asked_for_where_it_is_answered():
    """ExecReload calls cloisterctl, whose status tells whether the reload worked; a signal has no status. It runs as
    the service's user, without a "+", which would make it root. test_control.py runs the line."""
    _, line, _ = settings(UNITS / "cloister.service")["ExecReload"]
    assert re.fullmatch(r"/\S+/bin/cloisterctl reload", line)


@pytest.mark.parametrize("part", ["", "user/"])
def test_a_reload_takes_over_where_the_program_was_replaced(part):
    """By the line of ExecStart, as the service's user, before the configuration of the one that serves is read again. What
    notifies is the main process and what ExecReload has started, and no command. test_generations_start.py runs the line."""
    unit = settings(UNITS / f"{part}cloister.service")
    (start,), line = unit["ExecStart"], unit["ExecReload"][0]
    assert line == f"{start} --take-over --if-replaced --detach"
    assert unit["Type"] == ["notify"] and unit["NotifyAccess"] == ["exec"] and unit["Delegate"] == ["yes"]
    if not part:
        # The one that takes over is to be the last to be killed for memory, as its predecessor was.
        (after,) = unit["ExecStartPost"]
        assert unit["ExecReload"][2] == after


@pytest.mark.parametrize("part", ["", "user/"])
def test_commands_can_have_their_limit_on_cores(part):
    """The limit is 1. With 0, a host whose core_pattern is a pipe would still be given the dumps."""
    assert settings(UNITS / f"{part}cloister.service")["LimitCORE"] == ["1"]


def test_the_clients_find_the_sockets():
    places = {name: settings(SOURCE / name) for name in SOCKETS}
    for name, kind in zip(SOCKETS, ("agent", "control")):
        assert places[name]["ListenStream"] == [f"/run/cloister/{kind}.sock"]
        assert places[name]["FileDescriptorName"] == [kind]
        own = settings(SOURCE / "user" / name)
        assert own["ListenStream"] == [f"%t/cloister/{kind}.sock"]
        assert own["FileDescriptorName"] == [kind] and own["SocketMode"] == ["0600"]


def test_where_they_are_installed(tmp_path):
    """The files are installed below the prefix, and below DESTDIR when packed."""
    done = run("cmake", "--install", str(BUILD), "--prefix", "/usr", env={**os.environ, "DESTDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/*") if path.is_file()}
    assert {"usr/sbin/cloisterd", "usr/sbin/cloister-quota", "usr/lib/systemd/system/cloister-quota.service", "usr/bin/cloister", "usr/bin/cloisterctl",
            "usr/lib/systemd/system/cloister.service", "usr/lib/systemd/system/cloister.socket",
            "usr/lib/systemd/system/cloister-control.socket", "usr/lib/systemd/user/cloister.service",
            "usr/lib/systemd/system/cloister-audit-anchor.service", "usr/lib/systemd/system/cloister-audit-anchor.timer",
            "usr/lib/systemd/system/cloister-egress.service", "usr/lib/systemd/system/cloister-egress.socket",
            "usr/lib/systemd/system/cloister-metrics.service", "usr/lib/systemd/system/cloister-metrics.timer",
            "usr/share/cloister/monitoring/cloister.rules.yml", "usr/share/cloister/monitoring/grafana-dashboard.json",
            "usr/lib/systemd/user/cloister.socket", "usr/lib/systemd/user/cloister-control.socket",
            "usr/lib/sysctl.d/60-cloister.conf", "usr/lib/sysusers.d/cloister.conf", "usr/lib/tmpfiles.d/cloister.conf"} <= found


@pytest.mark.deep("slow")
@pytest.mark.parametrize("prefix", ["/usr/local", "/usr", "/opt/cloister"])
def test_an_installation_names_its_places_once(tmp_path, prefix):
    """For each prefix, cloisterd's sockets, state and log are where the units, the clients and tmpfiles.d expect them,
    and where the unit lets cloisterd write."""
    said = run("cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), f"-DCMAKE_INSTALL_PREFIX={prefix}",
               "-DCLOISTER_TESTS=OFF")
    assert said.returncode == 0, said.stdout
    for part in ("packaging", "packaging/systemd"):
        done = run("cmake", "-DCMAKE_INSTALL_LOCAL_ONLY=ON", "-P", str(tmp_path / "build" / part / "cmake_install.cmake"),
                   env={**os.environ, "DESTDIR": str(tmp_path / "root")})
        assert done.returncode == 0, done.stdout
    (place,) = (path.parent for path in (tmp_path / "root").glob("**/system/cloister.service"))
    (config,) = (tmp_path / "root").glob("**/cloister/cloister.conf")
    said = dict(re.findall(r"(?m)^(\w+) = (.*)$", config.read_text()))
    units = config.relative_to(tmp_path / "root")
    assert f"--config /{units}" in settings(place / "cloister.service")["ExecStart"][0]
    for name, key in (("cloister.socket", "agent_socket"), ("cloister-control.socket", "control_socket")):
        assert settings(place / name)["ListenStream"] == [said[key]]
    (tmpfiles,) = (tmp_path / "root").glob("**/tmpfiles.d/cloister.conf")
    made = re.findall(r"(?m)^d (\S+)", tmpfiles.read_text())
    assert {os.path.dirname(said[key]) for key in ("agent_socket", "control_socket", "audit_file")} | {said["state_dir"]} == set(made)


def test_the_kernels_counts_are_enough_for_all_workspaces():
    """The kernel counts some resources for the service's user. The limits must cover each workspace's share, for the
    largest number of workspaces."""
    numbers = re.findall(r"(?m)^#define (LIMIT_\w+) +\(?(\d+)( \* KIB)?", (ROOT / "common/limits.h").read_text())
    limits = {name: int(number) * (1024 if kib else 1) for name, number, kib in numbers}
    unit = settings(UNITS / "cloister.service")
    sysctl = {key.strip().lstrip("-"): int(value[0]) for key, value in settings(SOURCE / "cloister.sysctl").items()}
    reserve = int(pathlib.Path("/proc/sys/kernel/pty/reserve").read_text())
    for given, limit in ((int(unit["LimitSIGPENDING"][0]), "LIMIT_PENDING_SIGNALS"),
                         (int(unit["LimitMSGQUEUE"][0]), "LIMIT_QUEUE_BYTES"),
                         (sysctl["user.max_inotify_instances"], "LIMIT_INOTIFY_INSTANCES"),
                         (sysctl["user.max_inotify_watches"], "LIMIT_INOTIFY_WATCHES"),
                         (sysctl["kernel.pty.max"] - reserve, "LIMIT_TERMINALS")):
        assert given == limits[limit] * limits["LIMIT_WORKSPACES"], limit


@needs_systemd
@as_root
def test_users_and_directories(tmp_path):
    """Runs in a root of its own: the user cannot log in, and only cloisterd can access its files."""
    root = tmp_path / "root"
    for name in ("etc", "var/lib", "var/log", "run"):
        (root / name).mkdir(parents=True)
    made = run("systemd-sysusers", f"--root={root}", str(SOURCE / "cloister.sysusers"))
    assert made.returncode == 0, made.stdout
    (entry,) = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("cloister:")]
    assert entry[5:] == ["/var/lib/cloister", "/usr/sbin/nologin"]
    assert [line.split(":")[5:] for line in (root / "etc/passwd").read_text().splitlines()
            if line.startswith("cloister-egress:")] == [["/", "/usr/sbin/nologin"]]
    groups = {line.split(":")[0]: line.split(":") for line in (root / "etc/group").read_text().splitlines()}
    for name in ("cloister", "cloister-egress", "cloister-admin", "cloister-observer"):
        assert groups[name][3] == "", "somebody is in the group"
    (root / "var/lib/cloister").mkdir()
    (root / "var/lib/cloister/workspaces").mkdir()
    os.chown(root / "var/lib/cloister/workspaces", 200001, 200001)
    made = run("systemd-tmpfiles", "--create", f"--root={root}", str(SOURCE / "cloister.tmpfiles"))
    assert made.returncode == 0, made.stdout
    for name, mode, owner, group in (("run/cloister", 0o755, 0, 0), ("var/lib/cloister", 0o700, int(entry[2]), int(entry[3])),
                                     ("var/log/cloister", 0o2750, int(entry[2]), int(groups["cloister-admin"][2]))):
        status = (root / name).stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (mode, owner, group), name
    # The directories below keep their owners, the ids of workspaces.
    assert (root / "var/lib/cloister/workspaces").stat().st_uid == 200001
