# SPDX-License-Identifier: Apache-2.0
"""What is in the packages, without installing them."""

import os
import pathlib
import re
import shutil

import pytest

from scratch_root import ROOT, run

OURS = ("cloister", "cloister-client", "cloister-gate", "libcloister0", "libcloister-dev")
PROGRAMS = {"cloister": 8, "cloister-client": 1, "cloister-gate": 1, "libcloister0": 1}
FILES = pathlib.Path(__file__).with_name("files.txt")
CONTROL = ROOT / "packaging" / "debian" / "control"
LINTIAN_FIELDS = pathlib.Path("/usr/share/lintian/data/fields/binary-fields")
PROFILES = "usr/share/cloister/apparmor/cloister"


def entries(package):
    """{path: (mode, owner)}"""
    found = {}
    for line in run("dpkg-deb", "--contents", package).stdout.splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        found[name.removeprefix("./").partition(" -> ")[0]] = mode, owner
    del found[""]
    return found


def tool(name):
    if not shutil.which(name):
        assert os.environ.get("CI") != "true", f"{name} is not installed"
        pytest.skip(f"{name} is not installed")
    return name


def files(package):
    """The paths of its files, wherever this Debian has its units and this processor its libraries."""
    return {re.sub(r"^usr/lib/[a-z0-9_]+-linux-[a-z0-9]+/", "usr/lib/", re.sub(r"^lib/systemd/", "usr/lib/systemd/", path))
            for path in entries(package) if not path.endswith("/")}


@pytest.mark.parametrize("name", OURS)
def test_files(debs, name):
    """Exactly the files of the list."""
    expected = {line.split()[1] for line in FILES.read_text().splitlines() if line.split()[:1] == [name]}
    assert {f"/{path}" for path in files(debs[name])} == expected


@pytest.mark.parametrize("name", [*OURS, *(f"{name}-dbgsym" for name in PROGRAMS)])
def test_modes(debs, name):
    """Root owns every file, no other user can write one, and none has set-id bits."""
    for path, (mode, owner) in entries(debs[name]).items():
        assert owner == "root/root", path
        assert "s" not in mode[1:].lower() and "t" not in mode[1:].lower(), (path, mode)
        assert mode[0] == "l" or (mode[5] == "-" and mode[8] == "-"), (path, mode)
        assert mode[0] in "-dl", (path, mode)


def test_only_the_service_reads_its_configuration(debs):
    found = entries(debs["cloister"])
    assert found["etc/cloister/"][0] == "drwxr-x---"
    assert found["etc/cloister/cloister.conf"][0] == "-rw-r-----"
    assert run("dpkg-deb", "--info", debs["cloister"], "conffiles").stdout.split() == [
        "/etc/cloister/cloister.conf"]


def test_the_debug_symbols_are_of_these_programs(debs):
    """Each program's build id is in the package of symbols."""
    for name, count in PROGRAMS.items():
        symbols = {path.rpartition("debug/.build-id/")[2].removesuffix(".debug").replace("/", "")
                   for path in entries(debs[f"{name}-dbgsym"]) if ".build-id/" in path and path.endswith(".debug")}
        ids = run("dpkg-deb", "-f", debs[f"{name}-dbgsym"], "Build-Ids").stdout.split()
        assert symbols == set(ids) and len(ids) == count


def test_lintian(debs):
    done = run(tool("lintian"), "--pedantic", "--display-info", "--allow-root", "--fail-on", "none", debs["changes"])
    found = set(re.findall("^[EWIP]: .*", done.stdout, re.M))
    # Debian 12's dpkg has this field and its lintian does not know it; debhelper writes the control of symbol packages.
    if LINTIAN_FIELDS.exists() and "\nStatic-Built-Using\n" not in LINTIAN_FIELDS.read_text():
        found -= {f"W: {name}: unknown-field Static-Built-Using" for name in ("cloister", "cloister-dbgsym")}
    assert not found, done.stdout


def test_what_is_linked_from_archives_is_named(debs):
    """A security update of such a library needs a rebuild of this package. The C library's licence needs its source kept."""
    def sources(field):
        return set(re.findall(r"(\S+) \(= \S+\)", run("dpkg-deb", "-f", debs["cloister"], field).stdout))
    assert {re.sub(r"^gcc-\d+$", "gcc", name) for name in sources("Static-Built-Using")} == {
        "gcc", "glibc", "libcap2", "libinih", "pcre2", "vectorscan", "xxhash"}
    assert sources("Built-Using") == {"glibc"}


@pytest.fixture(scope="module")
def profiles(debs, tmp_path_factory):
    unpacked = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "--extract", debs["cloister"], unpacked)
    return unpacked / PROFILES


def parse(path):
    return run(tool("apparmor_parser"), "--skip-kernel-load", "--skip-cache", path, check=False)


def test_apparmor_profiles(profiles, tmp_path):
    """The profiles parse. AppArmor before 4.0 refuses two lines, and so the whole profile, which postinst relies on."""
    version = re.search(r"parser version (\d+)", run(tool("apparmor_parser"), "--version").stdout)
    if int(version.group(1)) >= 4:
        done = parse(profiles)
        assert done.returncode == 0, done.stdout
        return
    assert parse(profiles).returncode != 0
    text = profiles.read_text()
    for line in ("abi <abi/4.0>,\n", "  userns,\n"):
        assert text.count(line) == 1
        text = text.replace(line, "")
    older = tmp_path / "older"
    older.write_text(text)
    done = parse(older)
    assert done.returncode == 0, done.stdout


def test_the_profile_of_cloister_egress(profiles):
    """Every AppArmor since 3.0 takes it. It confines, so it permits no execution but its own, no capability and no tracing, and
    writes to nothing but /dev/null and cloisterd's socket; it has no path, so that private instances do not get it."""
    profile = profiles.with_name("cloister-egress")
    done = parse(profile)
    assert done.returncode == 0, done.stdout
    ((head, rules),) = re.findall(r"^(profile .*?)\{\n(.*?)^\}", profile.read_text(), re.M | re.S)
    assert head == "profile cloister-egress "
    given = [line.strip().rstrip(",") for line in rules.splitlines() if line.strip() and line.strip()[0] != "#"]
    files = dict(rule.rsplit(" ", 1) for rule in given if rule[0] in "/@")
    assert set(files.values()) == {"r", "mr", "mrix", "rw"}
    assert [path for path, modes in files.items() if "x" in modes] == ["/usr/libexec/cloister/cloister-egress"]
    assert [path for path, modes in files.items() if "w" in modes] == ["/dev/null", "@{run}/cloister/*.sock"]
    assert not [rule for rule in given if re.match("capability|ptrace|mount|pivot_root|userns|change_profile|network (?!inet|netlink dgram)", rule)]
    dumped = run(tool("apparmor_parser"), "--skip-kernel-load", "--skip-cache", "--preprocess", profile).stdout
    assert "/usr/libexec/cloister/cloister-egress mrix" in dumped and "@CLOISTER" not in dumped


def test_user_namespaces_are_the_spawners_alone(profiles):
    blocks = dict(re.findall(r"^profile \S+ (\S+) [^{]*\{(.*?)^\}", profiles.read_text(), re.M | re.S))
    libexec = "/usr/libexec/cloister/cloister-"
    assert set(blocks) == {f"{libexec}{name}" for name in ("spawner", "worker", "files")}
    assert [path for path, rules in blocks.items() if "userns" in rules] == [f"{libexec}spawner"]


PRELOADED = r"""
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void borrow(void) { puts("borrowed"); fflush(stdout); _exit(0); }
"""


def test_nobody_borrows_a_profile_by_a_library(profiles, tmp_path):
    """From an unconfined process AppArmor attaches a profile and leaves the environment as it is. The programs that
    have profiles take no library from whoever starts them; one that is linked dynamically does. So does cloister-egress,
    whose profile attaches to no path, and cloister-unpack, which has none."""
    source, library = tmp_path / "library.c", tmp_path / "library.so"
    source.write_text(PRELOADED)
    run(tool("gcc"), "-shared", "-fPIC", "-o", library, source)
    environment = {**os.environ, "LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(tmp_path)}
    unpacked = profiles.parents[4]
    assert run(unpacked / "usr/bin/cloisterctl", "--help", env=environment).stdout == "borrowed\n"
    programs = sorted(set((unpacked / "usr/libexec/cloister").glob("cloister-*"))
                      - {unpacked / "usr/libexec/cloister" / name for name in ("cloister-egress", "cloister-unpack")})
    assert len(programs) == 3
    for program in programs:
        done = run(program, env=environment, check=False)
        assert done.returncode != 0 and "borrowed" not in done.stdout, program


def test_a_build_without_systemd(tmp_path):
    """A build has only the packages of Build-Depends, so systemd.pc may be missing. Units go where systemd looks for them
    all the same."""
    assert "systemd" not in re.search("Build-Depends:(.*?)Standards", CONTROL.read_text(), re.S).group(1)
    wrapper = tmp_path / "pkg-config"
    wrapper.write_text('#!/bin/sh\nfor word; do case $word in systemd*) exit 1 ;; esac; done\nexec pkg-config "$@"\n')
    wrapper.chmod(0o755)
    rules = ("make", "-n", "-f", CONTROL.with_name("rules"))
    configure = run(*rules, "override_dh_auto_configure").stdout.replace("\\\n", " ")
    options = [word for word in configure.split() if word.startswith("-D")]
    run("cmake", "-S", ROOT, "-B", tmp_path / "built", "-DCMAKE_INSTALL_PREFIX=/usr", *options,
        env={**os.environ, "PKG_CONFIG": str(wrapper)})
    (directory,) = re.findall("^CLOISTER_SYSTEM_UNIT_DIR:.*=(.*)$", (tmp_path / "built/CMakeCache.txt").read_text(), re.M)
    installed = [line.split()[-1] for line in run(*rules, "override_dh_install").stdout.splitlines() if "cloister" in line]
    units = [to for to in installed if "systemd/system" in to]
    assert units and all(to.startswith(directory.removeprefix("/")) for to in units), installed


def test_cmake_installs_what_the_packages_have(debs, tmp_path):
    """cmake --install puts the same files below DESTDIR and nowhere else, without root."""
    build = ROOT / "build" / "release"
    if not (build / "bin/cloisterd").exists():
        assert os.environ.get("CI") != "true", "build/release is not built"
        pytest.skip("build/release is not built")
    run("cmake", "--install", build, env={**os.environ, "DESTDIR": str(tmp_path)})
    # The packages have their own changelog and copyright, and pages are compressed.
    own = re.compile(r"usr/share/(doc|lintian)/")
    packed = {path.removesuffix(".gz").replace("zsh/vendor-completions", "zsh/site-functions")
              for name in OURS for path in files(debs[name]) if not own.match(path)}
    # Without a prefix everything goes to /usr/local, including its etc.
    installed = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert all(path.startswith("usr/local/") for path in installed)
    found = {path.replace("usr/local/etc/", "etc/").replace("usr/local/", "usr/") for path in installed}
    assert {re.sub(r"^usr/lib/[a-z0-9_]+-linux-[a-z0-9]+/", "usr/lib/", path) for path in found} == packed
