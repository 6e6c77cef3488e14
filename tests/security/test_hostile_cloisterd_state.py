# SPDX-License-Identifier: Apache-2.0
"""A cloisterd that was taken over asks for what cloister keeps of others: archives to unpack, homes, templates in memory
and layers. The spawner looks whose each is."""

import errno
import os
import re
import struct

import pytest

import procfs
from hostile_cloisterd import (COPIED, FOLD, LOAD, MANAGED, REFUSED, RELOAD, REMOVED, UNLIMITED, WORKED, begin, place,
                               spawner)
from images import archive, entry

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to make users and map ids")

RELEASE = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())


def test_no_archive_of_cloister_s_own_state_is_unpacked(place, spawner):
    """But of the self-test's workspace for the self-test's own tenant: neither gets what the other has."""
    def put(*names):
        path = place.directory("state/workspaces/" + "/".join(names)) / "a"
        path.write_bytes(archive(entry("f", content=b"x")))
        os.chown(path, place.account.uid, place.account.gid)
        return path

    place.directory("state/workspaces/m")
    place.directory("state/workspaces/.selftest")
    plain, canary = put("m", "w"), put(".selftest", "canary")
    outside = place.directory("host-files") / "a"
    outside.write_bytes(plain.read_bytes())
    assert spawner.unpack(outside, b"m") == "copied"
    assert spawner.unpack(canary, b".selftest") == "copied"
    for path, tenant in ((plain, b"m"), (plain, b".selftest"), (canary, b"m"), (place.state / "a", b".selftest")):
        if not path.exists():
            path.write_bytes(plain.read_bytes())
        assert spawner.unpack(path, tenant) == (REFUSED, "it is part of cloister's own state"), (path, tenant)
    link = canary.with_name("link")
    link.symlink_to(plain)
    assert spawner.unpack(link, b".selftest") == (REFUSED, "it is part of cloister's own state")


def test_no_home_of_another_is_given_or_removed(place, begin):
    """cloisterd names no home; it can only report that a workspace is gone, and that is looked at."""
    os.chown(place.top / "state", place.account.uid, place.account.gid)
    place.config.write_text(place.config.read_text() + "home = kept\n")
    spawner = begin().come_up()
    place.directory("state/workspaces/m")
    made = [place.directory(f"state/workspaces/m/{name}") for name in ("v", "w")]
    for path in made:
        spawner.opens(path, MANAGED, tenant=b"m")
    homes = place.top / "state" / "homes" / "m"
    assert {path.name: path.stat().st_uid for path in homes.iterdir()} == {path.name: path.stat().st_uid for path in made}
    # As the workspace of a tenant above whose root it lies.
    place.roots["a"] = place.top
    place.write()
    spawner.send(RELOAD)
    assert spawner.refuses(homes / "v", tenant=b"a", **UNLIMITED) == "the directory is part of cloister's own state"

    def removed(tenant, name):
        spawner.send(REMOVED, payload=struct.pack("<BBI", 0, 0, len(tenant)) + tenant
                     + struct.pack("<I", len(name)) + name)

    for tenant, name in [(b"m", b"w"), (b"m", b"."), (b"m", b".."), (b"m", b"../m/w"), (b"..", b"workspaces"),
                         (b".", b"m"), (b"", b"m"), (b"m", b""), (b"m/w", b"x"), (b"m", b":"), (b"m", b"n" * 300)]:
        removed(tenant, name)
    spawner.refuses(homes, tenant=b"a", **UNLIMITED)  # and so all of that was read
    assert {path.name for path in homes.iterdir()} == {"v", "w"}
    made[1].rmdir()
    removed(b"m", b"w")
    assert procfs.eventually(lambda: {path.name for path in homes.iterdir()} == {"v"})
    spawner.send(REMOVED, payload=b"x")
    assert spawner.ends()


@pytest.mark.skipif(RELEASE < (6, 6), reason="a tmpfs with mapped ids and attributes needs Linux 6.6")
def test_only_templates_of_the_tenant_are_in_memory(place, begin):
    """cloisterd names a tenant and a template. What a fork lies above is of the tenant whose workspace it is, and no more
    is loaded than the configuration allows."""
    place.config.write_text("[cloister]\nmode = system\ntemplate_memory = 16M\n" + "".join(
        f"[tenant {name}]\nusers = 1\nmanaged = yes\ntemplate_memory = {size}\n" for name, size in (("m", "8M"), ("n", "8M"), ("o", 0))))
    spawner = begin().come_up()

    def directory(name):
        return place.top / name if (place.top / name).exists() else place.directory(name)

    def template(tenant, name, size=10):
        for path in ("state/templates", f"state/templates/{tenant}"):
            directory(path)
        path = directory(f"state/templates/{tenant}/{name}")
        (path / "f").write_bytes(b"x" * size)
        os.chown(path / "f", place.account.uid, place.account.gid)
        return path

    def workspace(tenant, name):
        for path in (f"state/workspaces/{tenant}", f"state/workspaces/{tenant}/.layers-{name}",
                     f"state/workspaces/{tenant}/.layers-{name}/1-0"):
            directory(path)
        return directory(f"state/workspaces/{tenant}/{name}")

    def load(tenant, name):
        """0 or the errno of the answer."""
        spawner.cell += 1
        spawner.send(LOAD, spawner.cell, struct.pack("<BBI", 1, 0, len(tenant)) + tenant + struct.pack("<I", len(name)) + name)
        kind = WORKED
        while kind == WORKED:  # what it tells on its own
            kind, cell, said = spawner.receive()
        assert (kind, cell) == (COPIED, spawner.cell)
        return struct.unpack("<I", said[-4:])[0]

    def opened(tenant, name, below):
        answer = spawner.ask(workspace(tenant, name), MANAGED, tenant=tenant.encode(), template=below)
        spawner.pidfds, spawner.fds = spawner.fds, []
        return "opened" if answer == "opened" else answer[0]

    template("m", "t")
    template("n", "u", 7 << 20)
    template("n", "v", 7 << 20)
    os.chown(template("m", "foreign"), place.account.first + 5, place.account.first_gid + 5)
    (place.state.parent / "templates/m/link").symlink_to("../n/u")
    # Nothing is in memory yet, and a message that asked for it first is not believed to have come.
    assert opened("m", "early", b"t") == errno.ENOMEDIUM
    assert load(b"m", b"t") == 0 and load(b"m", b"t") == 0
    assert opened("m", "w", b"t") == "opened"
    (space,) = [pid for pid in procfs.children(spawner.process.pid) if procfs.name(pid) == "cloister-layers"]
    owner = (place.state / "m" / "w").stat().st_uid
    assert open(f"/proc/{space}/uid_map").read().split() == ["1000", str(owner), "1"] and owner != place.account.uid
    # What is in memory is not what has its name now: a cell does not lie above it, whatever cloisterd asks for before.
    templates = place.top / "state/templates/m"
    template("m", "next")
    (templates / "t").rename(templates / "before")
    (templates / "next").rename(templates / "t")
    assert opened("m", "late", b"t") == errno.ENOMEDIUM
    assert load(b"m", b"t") == 0 and opened("m", "later", b"t") == "opened"
    # Another tenant's, by the tenant that the message names and by where the workspace is.
    assert opened("n", "w", b"t") == errno.ENOENT
    assert spawner.ask(workspace("n", "x"), MANAGED, tenant=b"m", template=b"t") != "opened"
    assert [load(b"n", b"t"), load(b"none", b"t"), load(b"o", b"t"), load(b"m", b"foreign"), load(b"m", b"link")] == \
        [errno.ENOENT, errno.EOPNOTSUPP, errno.EOPNOTSUPP, errno.EPERM, errno.ELOOP]
    assert load(b"n", b"u") == 0 and load(b"n", b"v") == errno.ENOSPC
    for tenant, name in ((b"..", b"t"), (b"m/..", b"t"), (b"", b"t"), (b"m", b"../n/u"), (b"m", b""), (b"m", b".x")):
        other = begin().come_up()
        other.send(LOAD, 1, struct.pack("<BBI", 1, 0, len(tenant)) + tenant + struct.pack("<I", len(name)) + name)
        assert other.ends(), (tenant, name)


def test_only_layers_of_one_workspace_are_folded(place, begin):
    """cloisterd names a tenant, a workspace and three numbers; whose the layers are is looked at."""
    spawner = begin().come_up()
    tenant = place.directory("state/workspaces/m")

    def layers(name, low=5, high=5):
        path = place.directory(f"state/workspaces/m/{name}")
        for layer, n in (("1-0", low), ("2-1", high)):
            place.numbered(place.directory(f"state/workspaces/m/{name}/{layer}") / "u", n)
            (path / layer / "u" / layer).write_text(layer)
            os.chown(path / layer / "u" / layer, place.account.first + n, place.account.first_gid + n)
        return path

    good, _, _, linked = (layers(f".layers-{name}", high=high) for name, high in (("w", 5), ("other", 6), ("x", 5), ("l", 5)))
    os.chown(tenant / ".layers-x", place.account.first + 5, place.account.first_gid + 5)
    (linked / "2-1" / "u").rename(linked / "u")
    (linked / "2-1" / "u").symlink_to("../u")
    (tenant / ".layers-link").symlink_to(".layers-w")
    layers("w")

    def fold(name, path):
        spawner.send(FOLD, payload=struct.pack("<BBI", 0, 0, len(name)) + name + struct.pack("<I", len(path)) + path)

    for name, path in [(b"..", b".layers-w/2-1-0"), (b"m/.", b".layers-w/2-1-0"), (b"", b".layers-w/2-1-0"),
                       (b"m", b"w/2-1-0"), (b"m", b".layers-w/../w/2-1-0"), (b"m", b".layers-w/2-1"),
                       (b"m", b".layers-w/1-2-0"), (b"m", b".layers-w/02-1-0"), (b"m", b".layers-w/2-1-0/"),
                       (b"m", b".layers-" + b"n" * 250 + b"/2-1-0"), (b"m", b".layers-none/2-1-0"), (b"m", b".layers-w/3-2-1"),
                       (b"m", b".layers-other/2-1-0"), (b"m", b".layers-x/2-1-0"), (b"m", b".layers-l/2-1-0"),
                       (b"m", b".layers-link/2-1-0")]:
        fold(name, path)
    fold(b"m", b".layers-w/2-1-0")
    assert procfs.eventually(lambda: (good / "folded-2-1-0").exists()), spawner.log()
    made = good / "folded-2-1-0" / "u"
    assert {path.name: path.stat().st_uid - place.account.first for path in (made, *made.iterdir())} == {
        "u": 5, "1-0": 5, "2-1": 5}
    assert made.stat().st_mode & 0o7777 == 0o700 and made.parent.stat().st_uid == place.account.uid
    assert [path for pattern in ("folded-*", ".dropped-*") for path in place.top.rglob(pattern)] == [made.parent]
    assert "were not made one" not in spawner.log()  # nothing was begun
    spawner.send(FOLD, payload=b"x")
    assert spawner.ends()
