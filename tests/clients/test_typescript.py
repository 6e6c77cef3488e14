# SPDX-License-Identifier: Apache-2.0
"""clients/typescript as a program on the host uses it, by the agent socket, and as one on another host does, by https and a key."""

import json
import os
import pathlib
import re

import npm
import pytest
from remote import Service

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")
SCRIPT = pathlib.Path(__file__).with_name("typescript.mjs")
REMOTE = {"again", "certificates", "keys", "urls", "strangers"}
CASES = [(case, way) for case in re.findall(r"^cases\.(\w+) = ", SCRIPT.read_text(), re.M)
         for way in (["https"] if case in REMOTE else ["socket", "https"])]


@pytest.fixture(scope="module")
def service(area, tenants):
    made = Service(area, tenants)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def packages(area, typescript_client):
    return npm.Packages(area.new_directory("npm"), {"cloister-client": f"file:{typescript_client}"}, least=18)


@pytest.mark.parametrize(("case", "way"), CASES)
def test_a_program(service, packages, case, way):
    settings = {{"ca_file": "caFile"}.get(name, name): value for name, value in service.way(way).items()}
    place = service.gate.area.new_directory("ts")
    service.user.own(place)
    more = service.gate.key("closed")["key"] if case == "keys" else str(place / "archive")
    done = packages.run(service.user, "/tmp", SCRIPT, case, json.dumps(settings), more)
    assert done.returncode == 0, done.stdout + done.stderr
    if case == "export":
        done = service.import_archive(f"ts-imported-{way}", (place / "archive").read_bytes())
        assert done.returncode == 0, done.stderr
