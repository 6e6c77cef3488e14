# SPDX-License-Identifier: Apache-2.0
"""The picture of a session (doc/session.svg) shows what the programs really print: it is recorded once more, and compared."""

import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

from daemon import ROOT, SYSTEM, environment

SVG = "{http://www.w3.org/2000/svg}"
# What differs from run to run: how long something took.
TIMES = re.compile(r'(?<="wall_us": )\d+|(?<=after )\d+(?= ms)')


def text_of(path):
    """The terminal's lines, put together where the terminal broke them, without times."""
    lines = ["".join(span.text for span in line) for line in xml.etree.ElementTree.parse(path).iter(f"{SVG}text")]
    return TIMES.sub("0", "".join(lines))


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
    assert "hello, workspace" in drawn and "PATH_OUTSIDE_WORKSPACE" in drawn and "(TIMEOUT)" in drawn
