# SPDX-License-Identifier: Apache-2.0
"""The RPM spec and the PKGBUILD parse, and their packages have the files that cmake installs and Debian's packages
have."""

import fnmatch
import os
import re
import shutil
import subprocess

import pytest

from daemon import BUILD, ROOT
from npm import unavailable

pytestmark = pytest.mark.deep("slow")

SPEC = ROOT / "packaging" / "rpm" / "cloister.spec"
ARCH = ROOT / "packaging" / "arch"
MACROS = ROOT / "tests" / "lib" / "fedora.macros"
DEBIAN = ROOT / "packaging" / "debian"
VERSION = re.search(r"project\(cloister VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
# The RPM packages, by Debian's names.
RPM_NAMES = {"cloister": "cloister", "cloister-client": "cloister-client", "cloister-gate": "cloister-gate", "libcloister0": "libcloister",
             "libcloister-dev": "libcloister-devel"}
# Stands in for the build in a directory that cmake has configured: it copies the programs of this build.
STAND_IN = f"""#!/bin/sh
mkdir -p "$1/bin" "$1/libcloister" && cp {BUILD}/bin/* "$1/bin" && cp -a {BUILD}/libcloister/lib*.[as]* "$1/libcloister"
"""


def run(*words, **keywords):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
                          **keywords)
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def needs(program, package):
    if not shutil.which(program):
        unavailable(f"{package} is not installed")


def plain(path):
    """Returns a path in a package without the parts that differ between distributions."""
    path = re.sub(r"^/lib/", "/usr/lib/", path)
    path = re.sub(r"^/usr/lib(64|/[^/]+-linux-gnu\w*)/(libcloister|pkgconfig)", r"/usr/lib/\2", path)
    path = path.replace("/zsh/vendor-completions/", "/zsh/site-functions/").replace("/usr/sbin/", "/usr/bin/")
    path = path.replace("/usr/libexec/", "/usr/lib/")
    return re.sub(r"(/man/.*)\.gz$", r"\1", path)


def files_below(directory):
    return sorted(f"/{path.relative_to(directory)}" for path in directory.rglob("*")
                  if path.is_symlink() or not path.is_dir())


def stand_in(directory):
    script = directory / "stand_in"
    script.write_text(STAND_IN)
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Returns the paths that cmake --install makes below /usr."""
    place = tmp_path_factory.mktemp("installed")
    run("cmake", "-S", ROOT, "-B", place / "built", "-DCMAKE_INSTALL_PREFIX=/usr", "-DCLOISTER_TESTS=OFF")
    run(stand_in(place), place / "built")
    run("cmake", "--install", place / "built", env={**os.environ, "DESTDIR": str(place / "root")})
    return files_below(place / "root")


def of_debian(name, installed):
    """Returns the paths of @installed that Debian's package has. Its list has patterns, which may match a directory."""
    listed = DEBIAN / f"{name}.install"
    patterns = [f"/{line}" for line in listed.read_text().split()] if listed.exists() else []
    return {plain(path) for path in installed
            if any(fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(path, f"{pattern}/*") for pattern in patterns)}


def archive(directory):
    """Makes a source archive of the tree, as the recipes expect it."""
    names = run("git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
    made = directory / f"cloister-{VERSION}.tar.gz"
    run("tar", "-C", ROOT, "-czf", made, f"--transform=s,^,cloister-{VERSION}/,",
        *[name for name in names.splitlines() if not name.startswith("tests/") and (ROOT / name).exists()])
    return made


@pytest.fixture(scope="module")
def rpms(tmp_path_factory):
    """Returns {name: {path: mode and owner}} of the packages that rpmbuild made."""
    needs("rpmbuild", "rpm")
    place = tmp_path_factory.mktemp("rpm")
    (place / "SOURCES").mkdir()
    archive(place / "SOURCES")
    macros = place / "macros"
    macros.write_text(MACROS.read_text() + f"%stand_in {stand_in(place)}\n")
    run("rpmbuild", "-bb", "--nodeps", f"--load={macros}", "--define", f"_topdir {place}", SPEC)
    found = {}
    for file in place.glob("RPMS/*/*.rpm"):
        name = run("rpm", "-qp", "--queryformat", "%{NAME}", file)
        lines = run("rpm", "-qp", "--queryformat", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEFLAGS:fflags} %{FILENAMES}\n]", file)
        found[name] = {line.rsplit(" ", 1)[1]: line.rsplit(" ", 1)[0] for line in lines.splitlines()}
    return found


def test_the_spec_parses():
    needs("rpmspec", "rpm")
    said = run("rpmspec", f"--load={MACROS}", "-q", "--queryformat", "%{NAME} %{VERSION}\n", SPEC)
    assert sorted(said.splitlines()) == sorted(f"{name} {VERSION}" for name in RPM_NAMES.values())
    run("rpmspec", f"--load={MACROS}", "-P", SPEC)


def test_the_rpms_have_the_files_of_debians_packages(rpms, installed):
    """Each file is in the package of the same name, and there are no others."""
    every = []
    for debian, rpm in RPM_NAMES.items():
        ours = {plain(path) for path, kind in rpms[rpm].items()
                if not kind.startswith("d") and not re.match("/usr/share/(doc|licenses)/", path)}
        theirs = of_debian(debian, installed)
        if debian == "cloister":  # packaging/debian/rules leaves these out of it
            theirs -= of_debian("cloister-gate", installed)
        assert theirs <= ours, rpm
        every += ours
    assert sorted(every) == sorted(map(plain, installed))
    assert rpms["cloister"]["/etc/cloister/cloister.conf"].split()[2] == "cn", "it is the administrator's to change"
    assert rpms["cloister"]["/etc/cloister/cloister.conf"].startswith("-rw-r-----")
    assert rpms["cloister"]["/etc/cloister"].startswith("drwxr-x---")
    assert all(kind.split()[1] == "root" and "s" not in kind.split()[0].lower()[1:]
               for package in rpms.values() for kind in package.values()), "nothing is setuid"


def test_the_spec_has_no_word_that_is_not_fedoras(rpms):
    """rpm leaves an undefined macro unchanged, and the shell would take its % for a job."""
    del rpms
    done = run("rpmspec", f"--load={MACROS}", "-P", SPEC)
    assert not re.findall(r"^\s*%(?!prep|build|install|pre|post|preun|postun|files|changelog|description|package|doc|exclude|"
                          r"license|dir|config|attr)\w+", done, flags=re.M)


@pytest.fixture(scope="module")
def arch(tmp_path_factory):
    """The directory that the PKGBUILD's build() and package() filled. A stand-in replaces cmake --build."""
    place = tmp_path_factory.mktemp("arch")
    (place / "src").mkdir()
    run("tar", "-C", place / "src", "-xzf", archive(place))
    script = f"""set -euo pipefail
cmake() {{ if [ "$1" = --build ]; then {stand_in(place)} "$2"; else command cmake "$@"; fi; }}
. {ARCH}/PKGBUILD
srcdir={place}/src pkgdir={place}/pkg
cd "$srcdir" && build && cd "$srcdir" && package"""
    run("bash", "-c", script)
    return place / "pkg"


def test_the_pkgbuild_has_every_file(arch, installed):
    ours = {plain(path) for path in files_below(arch)} - {"/usr/share/licenses/cloister/LICENSE"}
    assert ours == {plain(path) for path in installed}
    assert not (arch / "usr/sbin").exists() and not (arch / "usr/libexec").exists()
    assert (arch / "etc/cloister/cloister.conf").stat().st_mode & 0o777 == 0o640
    unit = next(arch.rglob("systemd/system/cloister.service")).read_text()
    assert "ExecStart=/usr/bin/cloisterd" in unit


def test_makepkg_reads_the_pkgbuild(area, account, tmp_path):
    needs("makepkg", "makepkg")
    place = area.new_directory("arch")
    for name in "PKGBUILD", "cloister.install":
        shutil.copy(ARCH / name, place)
    said = subprocess.run(["makepkg", "--printsrcinfo"], cwd=place, capture_output=True, text=True, check=False,
                          env={**os.environ, "HOME": str(area.home), "CARCH": "x86_64", "PACMAN": "true"}, **account.as_user())
    assert said.returncode == 0, said.stderr
    assert f"pkgver = {VERSION}" in said.stdout and "backup = etc/cloister/cloister.conf" in said.stdout
    assert "install = cloister.install" in said.stdout


def test_what_pacman_runs_is_shell():
    functions = run("bash", "-c", f". {ARCH}/cloister.install && declare -F").split()
    assert {"post_install", "post_upgrade", "pre_remove"} <= set(functions)


def test_every_recipe_installs_paths_that_are_there(arch):
    """Each path that a scriptlet calls is in the package."""
    for script in (ARCH / "cloister.install").read_text(), SPEC.read_text().replace("%{_libexecdir}", "/usr/lib"):
        for path in re.findall(r"^\s*(/usr/\S+)", script, flags=re.M):
            assert (arch / path.lstrip("/")).exists(), path
