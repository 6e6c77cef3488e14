# SPDX-License-Identifier: Apache-2.0
"""The packages that packaging/build-deb has made, and roots to install them in."""

import os
import re

import pytest

import scratch_root
from scratch_root import ROOT, ScratchRoot, run


@pytest.fixture(scope="session")
def debs():
    """{name of a package, or "changes": its file}"""
    directory = ROOT / "build" / "deb"
    found = {path.name.partition("_")[0]: path for path in directory.glob("*.deb")}
    assert "cloister" in found, "packaging/build-deb makes what is tested here"
    (found["changes"],) = directory.glob("*.changes")
    return found


@pytest.fixture(scope="session")
def base(debs):
    if os.getuid() != 0:
        assert os.environ.get("CI") != "true", "a root of its own needs root"
        pytest.skip("a root of its own needs root")
    return scratch_root.base(sorted({*scratch_root.dependencies(debs["cloister"]),
                                     *scratch_root.dependencies(debs["cloister-client"])}))


@pytest.fixture
def root(base, tmp_path):
    made = ScratchRoot(base, tmp_path / "root")
    yield made
    made.stop()


@pytest.fixture
def newer(debs, tmp_path):
    """newer(version, line, profile): cloister in a later version, with one line more in its configuration or its AppArmor
    profiles, or the same ones."""

    def make(version, line=None, profile=None):
        unpacked = tmp_path / f"unpacked-{version}"
        run("dpkg-deb", "--raw-extract", debs["cloister"], unpacked)
        control = unpacked / "DEBIAN/control"
        control.write_text(re.sub("^Version: .*$", f"Version: {version}", control.read_text(), flags=re.M))
        if line:
            with open(unpacked / "etc/cloister/cloister.conf", "a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        if profile:
            for path in (unpacked / "usr/share/cloister/apparmor").iterdir():
                with open(path, "a", encoding="utf-8") as file:
                    file.write(f"{profile}\n")
        made = tmp_path / f"cloister_{version}.deb"
        run("dpkg-deb", "--build", "-Znone", unpacked, made)
        return made

    return make
