# SPDX-License-Identifier: Apache-2.0
"""Forks in system mode above templates in memory: what bounds them, and what becomes of them when the memory is gone."""

import contextlib
import json
import os
import re
import signal
import time

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import system_config
from killer import Holder
from layers import checkpoint, in_state, opened, roll_back

RELEASE = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
pytestmark = [pytest.mark.skipif(os.getuid() != 0, reason="needs root for system mode"),
              pytest.mark.skipif(RELEASE < (6, 6), reason="a tmpfs with mapped ids and attributes needs Linux 6.6")]


def start(start_daemon, area, host="64M", tenant=None, **more):
    text = system_config(area, f"admin_group = {area.account.gid}", *[f"template_memory = {host}"] * (host is not None))
    if tenant is not None:
        text = text.replace("managed = yes", f"managed = yes\ntemplate_memory = {tenant}")
    return start_daemon(config=text, system=True, **more)


def rewrite(daemon, old, new):
    """Changes the configuration, and has it read again."""
    with acting_as(os.getuid()):
        text = daemon.config.read_text()
    assert old in text and daemon.reload(text.replace(old, new))


def template(daemon, name, mebibytes, workspace="w"):
    """Makes one that takes so much, of a workspace of that name."""
    with opened(daemon, workspace) as client:
        client.run(f"rm -f big; head -c {mebibytes}M /dev/urandom > big; echo {name} > name")
        client.call("workspace.freeze", {"template": name})


def fork(client, name, count=1):
    answer = client.call("workspace.fork", {"from": name, "count": count})
    return answer["forked_by"], answer.get("why_copied"), answer["workspaces"]


def metrics(daemon, name):
    lines = daemon.ctl("metrics").stdout.decode().splitlines()
    return [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"cloister_tenant_template_{name}{{")][0]


def holders(daemon):
    with acting_as(os.getuid()):
        return [pid for pid in procfs.children(daemon.spawner()) if procfs.name(pid) == "cloister-memory"]


def digest(client):
    return client.run("sha256sum big name")["stdout"]


def end(client):
    """Ends the workspace's cell, so that its template is not in use."""
    client.call("workspace.close")
    client.close()


def test_without_the_key_forks_are_copies(start_daemon, area):
    daemon = start(start_daemon, area, host=None)
    template(daemon, "t", 1)
    with opened(daemon, "w") as client:
        assert fork(client, "t")[:2] == ("copy", None)
    assert not holders(daemon)


@pytest.mark.deep("slow")
def test_memory_is_used_once(start_daemon, area):
    daemon = start(start_daemon, area)
    template(daemon, "t", 20)
    client = opened(daemon, "w")
    by, why, names = fork(client, "t", 8)
    assert (by, why) == ("memory", None)
    taken = metrics(daemon, "memory_bytes")
    assert 20 * 2**20 <= taken < 21 * 2**20
    assert b"templates    take 20 of 64 MiB of memory" in daemon.ctl("status").stdout
    forks = [opened(daemon, name) for name in names]
    assert {digest(one) for one in forks} == {digest(client)}
    assert metrics(daemon, "memory_bytes") == taken and metrics(daemon, "loads_total") == 1 and len(holders(daemon)) == 1
    # The forks have nothing of it on disk, and ids of their own.
    with acting_as(os.getuid()):
        owners = {path.stat().st_uid for path in in_state(daemon, "t-[0-9]")}
        assert len(owners) == 8
        size = sum(path.stat().st_size for name in names for path in in_state(daemon, f".layers-{name}/1-0/u/*"))
    assert size == 0


def test_a_template_that_is_too_large_is_copied(start_daemon, area):
    daemon = start(start_daemon, area, host="64M", tenant="8M")
    template(daemon, "large", 9)
    template(daemon, "small", 3)
    with opened(daemon, "w") as client:
        by, why, (name,) = fork(client, "large")
        assert by == "copy" and "more than template_memory gives the tenant" in why
        assert fork(client, "small")[0] == "memory"
        with opened(daemon, name) as one:
            assert one.run("cat name")["stdout"] == "large\n"
    assert metrics(daemon, "loads_failed_total") == 1
    assert metrics(daemon, "memory_bytes") < 4 * 2**20


@pytest.mark.deep("slow")
def test_a_slow_load_holds_up_no_other_tenant(start_daemon, area):
    """A load reserves what its tenant may have, which leaves as much for those of others."""
    daemon = start(start_daemon, area, host="120M")
    with acting_as(os.getuid()):
        text = daemon.config.read_text()
    assert daemon.reload(text + f"[tenant b]\nusers = {area.account.name}\nmanaged = yes\n")
    clients = {name: daemon.connect() for name in (area.account.name, "b")}
    for name, make in (("b", "head -c 5M /dev/urandom > big"), (area.account.name, "seq 20000 | xargs touch; head -c 14M /dev/urandom > zz")):
        clients[name].call("workspace.open", {"workspace": "w", "tenant": name})
        clients[name].run(make)
        clients[name].call("workspace.freeze", {"template": "t"})
    copier = Holder(daemon.spawner(), "cloister-copy", "futimens")
    asked = clients[area.account.name].request("workspace.fork", {"from": "t", "tenant": area.account.name})
    held = copier.held()
    answer = clients["b"].call("workspace.fork", {"from": "t", "tenant": "b"})
    assert answer["forked_by"] == "memory"
    with acting_as(os.getuid()):
        assert procfs.is_alive(held)
        os.kill(held, signal.SIGCONT)
    assert clients[area.account.name].result(asked)["forked_by"] == "memory"


@pytest.mark.deep("slow")
def test_many_empty_files_count(start_daemon, area):
    daemon = start(start_daemon, area, tenant="2M")
    client = opened(daemon, "w")
    client.run("mkdir d; cd d; seq 1500 | xargs touch")
    client.call("workspace.freeze", {"template": "t"})
    client.run("cd d; seq 1501 4000 | xargs touch")
    client.call("workspace.freeze", {"template": "u"})
    assert fork(client, "t")[0] == "memory"
    assert metrics(daemon, "memory_bytes") > 1500 * 1024
    assert fork(client, "u")[0] == "copy"
    # Neither the files nor their pages alone are too much.
    client.run("cd d; ls | tail -n +1001 | xargs rm; head -c 1300000 /dev/urandom > big")
    client.call("workspace.freeze", {"template": "v"})
    assert fork(client, "v")[0] == "copy"
    client.run("truncate -s 900000 d/big")
    client.call("workspace.freeze", {"template": "x"})
    with opened(daemon, "t-1"):  # it is in use, so that only what is left counts
        assert fork(client, "x")[0] == "copy"
    assert procfs.eventually(lambda: fork(client, "x")[0] == "memory", 40, 1)


@pytest.mark.deep("busy")
def test_what_is_in_use_stays_and_the_rest_makes_room(start_daemon, area):
    daemon = start(start_daemon, area, host="10M")
    for name in ("one", "two"):
        template(daemon, name, 6)
    client = opened(daemon, "w")
    assert fork(client, "one") == ("memory", None, ["one-1"])
    one = opened(daemon, "one-1")
    by, why, (copied,) = fork(client, "two")
    assert by == "copy" and "other templates in use" in why
    before = digest(one)
    time.sleep(6)  # longer than LIMIT_TEMPLATE_ASKED_MS: only its cell keeps it
    assert fork(client, "two")[0] == "copy" and len(holders(daemon)) == 1
    end(one)
    # It was in use a moment ago.
    assert procfs.eventually(lambda: fork(client, "two")[0] == "memory", 40, 1)
    assert metrics(daemon, "memory_bytes") < 7 * 2**20
    # It is loaded again for the fork that is there, when the other has gone.
    assert procfs.eventually(lambda: not tried(daemon, "one-1"), 40, 1)
    with opened(daemon, "one-1") as again:
        assert digest(again) == before
    with opened(daemon, copied) as other:
        assert other.run("cat name")["stdout"] == "two\n"


def tried(daemon, name):
    """Opens the workspace. Returns what was said if it could not be."""
    with daemon.connect() as client:
        try:
            client.call("workspace.open", {"workspace": name})
        except RpcError as error:
            return f"{error.name} {error}"
    return ""


def test_a_fork_without_room_says_what_to_do(start_daemon, area):
    daemon = start(start_daemon, area)
    template(daemon, "t", 6)
    client = opened(daemon, "w")
    (name,) = fork(client, "t")[2]
    with opened(daemon, name) as one:
        before = digest(one)
        one.run("echo mine > own")
        end(one)
    for lines, words in ((("template_memory = 64M", "template_memory = 1M"), "more than template_memory"),
                         (("template_memory = 1M", "template_memory = 0"), "template_memory is 0")):
        rewrite(daemon, *lines)
        assert procfs.eventually(lambda: not holders(daemon), 20)
        said = tried(daemon, name)
        assert said.startswith("BUSY") and words in said and "raise template_memory" in said, said
    assert fork(client, "t")[:2] == ("copy", None)
    rewrite(daemon, "template_memory = 0", "template_memory = 64M")
    with opened(daemon, name) as one:
        assert digest(one) == before and one.run("cat own")["stdout"] == "mine\n"


def test_after_a_restart(start_daemon, area):
    daemon = start(start_daemon, area)
    template(daemon, "t", 5)
    client = opened(daemon, "w")
    names = fork(client, "t", 3)[2]
    with opened(daemon, names[0]) as one:
        before = digest(one)
        one.run("echo changed > name; echo x > new")
        number = checkpoint(one)
        one.run("rm big")
    for end_it in (lambda: daemon.stop(), lambda: (daemon.process.kill(), daemon.process.wait())):
        end_it()
        daemon = start(start_daemon, area, state=daemon.state)
        for name in names[1:]:
            with opened(daemon, name) as one:
                assert digest(one) == before
        with opened(daemon, names[0]) as one:
            assert one.run("cat name new; ls")["stdout"].split() == ["changed", "x", "name", "new"]
            roll_back(one, 1)
            assert digest(one) == before
            with contextlib.suppress(Exception):
                roll_back(one, number)
            one.run("echo changed > name; echo x > new; rm -f big")
            number = checkpoint(one)


def test_a_holder_that_dies(start_daemon, area):
    """Cells go on with what they have; the next one has the template loaded again."""
    daemon = start(start_daemon, area)
    template(daemon, "t", 5)
    client = opened(daemon, "w")
    first, second = fork(client, "t", 2)[2]
    one = opened(daemon, first)
    before = digest(one)
    holder, = holders(daemon)
    with acting_as(os.getuid()):
        os.kill(holder, signal.SIGKILL)
    assert procfs.eventually(lambda: not holders(daemon))
    assert digest(one) == before
    with opened(daemon, second) as two:
        assert digest(two) == before
    # Both are counted, as long as both are there.
    assert 10 * 2**20 <= metrics(daemon, "memory_bytes") < 11 * 2**20
    end(one)
    assert procfs.eventually(lambda: metrics(daemon, "memory_bytes") < 6 * 2**20)


def test_a_template_that_was_exchanged(start_daemon, area):
    daemon = start(start_daemon, area)
    template(daemon, "t", 1)
    client = opened(daemon, "w")
    (name,) = fork(client, "t")[2]
    assert b"1 fork uses it" in daemon.ctl("template", "remove", "t").stderr
    client.call("workspace.remove", {"workspace": name})
    assert daemon.ctl("template", "remove", "t").returncode == 0
    assert procfs.eventually(lambda: not holders(daemon) and metrics(daemon, "memory_bytes") == 0)
    client.run("echo other > name")
    client.call("workspace.freeze", {"template": "t"})
    with opened(daemon, fork(client, "t")[2][0]) as one:
        assert one.run("cat name")["stdout"] == "other\n"


def exchange(daemon, one, other):
    """Exchanges the names of two templates, of which nobody tells the spawner."""
    with acting_as(os.getuid()):
        (directory,) = in_state(daemon, "templates/*")
        for old, new in ((one, "between"), (other, one), ("between", other)):
            os.rename(directory / old, directory / new)


def name_in(daemon, workspace):
    with opened(daemon, workspace) as one:
        said = one.run("cat name")["stdout"].strip()
        end(one)
    return said


def test_a_name_that_is_another_template_s(start_daemon, area):
    """What is in memory belongs to the directory that it was loaded from, not to its name."""
    daemon = start(start_daemon, area)
    for name in ("t", "u", "v"):
        template(daemon, name, 1)
    client = opened(daemon, "w")
    (old,) = fork(client, "t")[2]
    assert name_in(daemon, old) == "t" and metrics(daemon, "loads_total") == 1
    # A cell that is made asks for the template that has the name now.
    exchange(daemon, "t", "u")
    assert name_in(daemon, old) == "u" and metrics(daemon, "loads_total") == 2
    assert procfs.eventually(lambda: len(holders(daemon)) == 1)
    # So do forks.
    exchange(daemon, "t", "v")
    by, _, (new,) = fork(client, "t")
    assert by == "memory" and metrics(daemon, "loads_total") == 3
    assert name_in(daemon, new) == name_in(daemon, old) == "v"
    assert procfs.eventually(lambda: len(holders(daemon)) == 1)


def test_a_name_that_is_another_template_s_when_its_turn_comes(start_daemon, area):
    """A tenant's templates are loaded one after the other. What waited for the first is not loaded in another's place."""
    daemon = start(start_daemon, area)
    client = opened(daemon, "w")
    client.run("mkdir d; touch d/{1..100}")
    client.call("workspace.freeze", {"template": "first"})
    client.run("rm -r d")
    for name in ("t", "u"):
        template(daemon, name, 1)
    copier = Holder(daemon.spawner(), "cloister-copy", "futimens")
    asked = client.request("workspace.fork", {"from": "first"})
    copier = copier.held()
    with daemon.connect() as second:
        waits = second.request("workspace.fork", {"from": "t"})
        opened(daemon, "other").close()  # the spawner has read that request before
        exchange(daemon, "t", "u")
        with acting_as(os.getuid()):
            os.kill(copier, signal.SIGCONT)
        assert client.result(asked)["forked_by"] == "memory"
        answer = second.result(waits)
    assert answer["forked_by"] == "copy" and answer["why_copied"] == "the template was exchanged for another one", answer
    assert name_in(daemon, answer["workspaces"][0]) == "u"


@pytest.mark.deep("slow")
def test_deaths_of_the_loader(start_daemon, area):
    """A fork is made in the other way, and none is opened without its template."""
    daemon = start(start_daemon, area, host="256M")
    client = opened(daemon, "w")
    client.run("for i in $(seq 300); do head -c 300000 /dev/zero > f$i; done")
    client.call("workspace.freeze", {"template": "t"})
    asked = client.request("workspace.fork", {"from": "t"})

    def kill():
        for pid in procfs.children(daemon.spawner()):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if procfs.name(pid) == "cloister-copy":
                    os.kill(pid, signal.SIGKILL)
                    return True
        return metrics(daemon, "loads_total") > 0

    with acting_as(os.getuid()):
        assert procfs.eventually(kill, 20, 0.001)
    answer = client.result(asked)
    assert answer["forked_by"] == ("memory" if metrics(daemon, "loads_total") else "copy")
    with opened(daemon, answer["workspaces"][0]) as one:
        assert one.run("ls | wc -l; cat f* | wc -c")["stdout"].split() == ["300", "90000000"]


def edit(client, path, old, new):
    client.use("edit_file", path=path, edits=[{"old": old, "new": new}])


def test_file_tools_change_what_is_the_templates(start_daemon, area):
    daemon = start(start_daemon, area)
    client = opened(daemon, "w")
    client.run("mkdir -p d/e; for f in a b c d/x d/e/y; do seq 50 > $f; done; chmod 640 a; ln c c2; ln -s a link")
    client.call("workspace.freeze", {"template": "t"})
    one, two = (opened(daemon, name) for name in fork(client, "t", 2)[2])
    edit(one, "a", "\n20\n", "\ntwenty\n")
    one.use("write_file", path="b", content="new\n")
    edit(one, "d/e/y", "50\n", "fifty\n")
    edit(one, "c", "50\n", "fifty\n")
    said = one.run("sed -n 20p a; stat -c '%a %u %g' a; cat b; tail -1 d/e/y c; mv d/x d/z; rm c2; ls d; readlink link")["stdout"].split("\n")
    assert said[:3] == ["twenty", "640 1000 1000", "new"], said
    found = {row["path"]: row["change"] for row in one.call("workspace.diff", {"since": 1})["changes"]}
    assert found == {"a": "changed", "b": "changed", "c": "changed", "c2": "deleted", "d/e/y": "changed", "d/x": "deleted", "d/z": "added"}
    assert two.call("workspace.diff", {"since": 1})["changes"] == []
    assert two.run("cat a b c c2 d/x d/e/y link | sha256sum")["stdout"] == client.run("cat a b c c2 d/x d/e/y link | sha256sum")["stdout"]
    found = one.use("search_files", pattern="twenty")
    assert "a" in json.dumps(found)


def test_random_content(start_daemon, area):
    """What is in memory is what is on disk: names of every kind, holes, attributes, links."""
    daemon = start(start_daemon, area)
    client = opened(daemon, "w")
    client.run(r"""python3 - <<'E' || true
import os
os.makedirs("d/" + "n" * 200, exist_ok=True)
open(b"\xff\xfe", "w").write("x")
for i in range(200):
    open(f"d/{i}", "wb").write(os.urandom(i * 100))
    os.utime(f"d/{i}", ns=(i, i * 10**9 + i))
os.symlink("x" * 3000, "long")
os.truncate(os.open("hole", os.O_CREAT | os.O_RDWR), 2**33)
os.setxattr("d/3", "user.a", b"v")
os.chmod("d/4", 0); os.mkfifo("p"); os.link("d/5", "same")
E""")
    script = (r"find . -printf '%P %y %m %l %s %T@ %n\n' | sed 's/^\(.* d [0-7]*\) .*$/\1/' | sort | sha256sum; find d -type f -perm /400 -print0 | sort -z | xargs -0 sha256sum | sha256sum; "
              r"du -B1 hole | cut -f1")
    expected = client.run(script)["stdout"]
    client.call("workspace.freeze", {"template": "t"})
    by, _, (name,) = fork(client, "t")
    assert by == "memory"
    with opened(daemon, name) as one:
        assert one.run(script)["stdout"] == expected
        if client.run("python3 -c 1")["exit_code"] == 0:
            assert one.run("python3 -c 'import os; print(os.getxattr(\"d/3\", \"user.a\"))'")["stdout"] == "b'v'\n"
