# SPDX-License-Identifier: Apache-2.0
"""The umask of commands and file tools: the user's own, or the configuration's."""

import os

import pytest
from daemon import user_mode_only

MAKE = "umask; touch c; mkdir d"


def modes(path, *names):
    return [oct(os.stat(path / name).st_mode & 0o7777) for name in names]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o027, 0o077])
def test_a_private_instance_has_the_users_own(area, umask):
    path = area.new_directory()
    done = area.private(path, "exec", "--", MAKE, umask=umask)
    assert done.stdout.decode().strip() == f"{umask:04o}", done.stderr
    assert area.private(path, "call", "write_file", "path=e/f", "content=x", umask=umask).returncode == 0
    assert modes(path, "c", "e/f") == [oct(0o666 & ~umask)] * 2
    assert modes(path, "d", "e") == [oct(0o777 & ~umask)] * 2


def test_what_concerns_the_owner_is_ignored(area):
    path = area.new_directory()
    done = area.private(path, "exec", "--", MAKE, umask=0o727)
    assert done.stdout == b"0027\n"
    assert modes(path, "c", "d") == ["0o640", "0o750"]


@pytest.mark.deep("slow")
@user_mode_only
@pytest.mark.parametrize("line,umask", [("", 0o022), ("umask = 0007\n", 0o007)])
def test_a_configuration_says(area, start_daemon, line, umask):
    """The configuration's umask holds, whatever umask cloisterd was started with."""
    account = area.account
    daemon = start_daemon(umask=0o077, config=f"[cloister]\n{line}[tenant a]\nusers = {account.name}\nroots = {area.path}\n")
    with daemon.connect() as client:
        path = daemon.new_workspace(client)
        assert client.run(MAKE)["stdout"] == f"{umask:04o}\n"
        assert modes(path, "c", "d") == [oct(0o666 & ~umask), oct(0o777 & ~umask)]
