# SPDX-License-Identifier: Apache-2.0
"""The picture of a session, doc/session.svg, shows real output: the test records the session again and compares."""

import shutil
import subprocess
import xml.etree.ElementTree

import pytest

from daemon import ROOT, SYSTEM, environment

SVG = "{http://www.w3.org/2000/svg}"


def text_of(path):
    """Returns the lines of text in the picture."""
    return [line.text for line in xml.etree.ElementTree.parse(path).iter(f"{SVG}text")]


@pytest.mark.skipif(SYSTEM, reason="private instances have no system mode")
def test_the_picture_shows_a_real_session(area):
    place = area.new_directory("session")
    for name in ("record", "again.svg"):
        (place / name).touch()
        area.account.own(place / name)
    recorder = shutil.copy(ROOT / "doc" / "session" / "record", place)
    subprocess.run(["/usr/bin/python3", recorder, "--bin", str(area.bin), "--output", str(place / "again.svg")],
                   cwd=place, env=environment(place), stdin=subprocess.DEVNULL, timeout=300, check=True, **area.account.as_user())
    again, drawn = text_of(place / "again.svg"), text_of(ROOT / "doc" / "session.svg")
    assert again == drawn
    assert {"exit 1: AssertionError: 43", "exit 0: passed"} <= set(drawn)
    assert any(line.startswith("PATH_OUTSIDE_WORKSPACE: ") for line in drawn)
