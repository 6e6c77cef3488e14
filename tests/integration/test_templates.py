# SPDX-License-Identifier: Apache-2.0
"""Templates and forks of managed workspaces: what they have, what is refused, and what a death leaves."""

import contextlib
import json
import os
import random
import re
import signal
import statistics
import time
from functools import partial

import pytest

import procfs
from cloister_client import RpcError, acting_as
from daemon import SYSTEM, Daemon, system_config
from killer import Killer
from layers import in_state, opened, refused

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")

# How forks are made: in user mode from the template on disk; in system mode, where each has an id of its own, by
# copies, or above a template in memory.
BY = "copy" if SYSTEM else "overlay"
MEMORY = "template_memory = 64M"
has_idmapped_tmpfs = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups()) >= (6, 6)
expected = {"way": BY}  # of the daemon that the test has started
WAYS = [BY, pytest.param("memory", marks=pytest.mark.skipif(not has_idmapped_tmpfs, reason="a tmpfs with mapped ids: 6.6"))]
MAKE = ("mkdir -p src/deep .git; printf one > src/a; printf tool > run; chmod 750 run; ln -s src/a link; ln run hard; "
        "mkfifo pipe; printf x > .git/x; chmod 400 .git/x; chmod 500 .git; truncate -s 8G sparse; printf end >> sparse; "
        "printf é > 'a b'; touch -d 2001-01-01 src/a src/deep; touch -h -d 2002-02-02 link; mkdir shut; echo x > shut/x; "
        "chmod 000 shut/x shut; chmod 755 .")


def tree(client):
    """All that can be seen of the workspace's files, as test_checkpoints has it, without the content of a huge file."""
    script = (r"find . -printf '%P %y %m %l %s %T@\n' 2>/dev/null | sed 's/\(.* d .*\) [0-9]* \([0-9.]*\)$/\1 \2/' | sort; "
              r"find . -type f -printf '%P %n\n' 2>/dev/null | sort; "
              r"find . -type f -size -1G -print0 2>/dev/null | sort -z | xargs -0 -r sha256sum 2>/dev/null; tail -c 3 sparse")
    return client.run(script)["stdout"]


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
def own_daemon(start_daemon, area, way):
    """One whose user may use cloisterctl in system mode, too."""
    return start_one(start_daemon, area, way)


def start_one(start, area, way, *lines, **more):
    if way != "overlay":
        lines = [f"admin_group = {area.account.gid}", *lines, *[MEMORY] * (way == "memory")]
        more = {"config": system_config(area, *lines), "system": True, **more}
    expected["way"] = way
    return start(**more)


def way_is_user():
    return expected["way"] == "overlay"


def copied():
    return expected["way"] == "copy"


def freeze(client, template):
    return client.call("workspace.freeze", {"template": template})


def fork(client, template, count=1, **more):
    answer = client.call("workspace.fork", {"from": template, "count": count, **more})
    assert (answer["template"], answer["forked_by"], len(answer["workspaces"])) == (template, expected["way"], count)
    return answer["workspaces"]


def templates(daemon):
    return {row["template"]: row["forks"] for row in json.loads(daemon.ctl("templates", "--json").stdout)["templates"]}


def test_forks_have_the_templates_files(own_daemon):
    client = opened(own_daemon, "w")
    client.run(MAKE)
    before = tree(client)
    assert freeze(client, "ready") == {"workspace": "w", "template": "ready", "replaced": False}
    assert tree(client) == before  # the workspace goes on, and has no checkpoint
    assert client.call("workspace.checkpoints", {})["checkpoints"] == []
    names = fork(client, "ready", 3)
    assert names == ["ready-1", "ready-2", "ready-3"]
    client.run("rm -rf src")
    for name in names:
        with opened(own_daemon, name) as one:
            assert tree(one) == before
            assert one.use("read_file", path="src/a", options={"line_numbers": False})["content"] == "one"
            assert one.run("stat -c %u shut src; chmod 700 shut; cat shut/x 2>&1; du -m sparse | cut -f1")["stdout"].split()[:2] == ["1000"] * 2
    assert fork(client, "ready", prefix="task") == ["task-1"]
    assert fork(client, "ready", 2) == ["ready-4", "ready-5"]
    assert templates(own_daemon) == {"ready": 0 if copied() else 6}


def test_a_hole_stays_a_hole(own_daemon):
    client = opened(own_daemon, "w")
    client.run("truncate -s 10G huge; echo x >> huge")
    freeze(client, "t")
    with opened(own_daemon, fork(client, "t")[0]) as one:
        size, blocks = one.run("stat -c '%s %b' huge")["stdout"].split()
        assert int(size) == 10 * 2**30 + 2 and int(blocks) < 1000


def test_a_template_of_a_workspace_with_checkpoints(own_daemon):
    client = opened(own_daemon, "w")
    client.run("mkdir d; echo one > d/f; echo gone > gone")
    client.call("workspace.checkpoint", {})
    client.run("rm gone; echo two > d/f; rm -r d; mkdir d; echo three > d/g")
    freeze(client, "t")
    assert [row["checkpoint"] for row in client.call("workspace.checkpoints", {})["checkpoints"]] == [1]
    client.call("workspace.rollback", {"to": 1})
    with opened(own_daemon, fork(client, "t")[0]) as one:
        assert one.run("find . -type f -exec cat {} +; find . | sort")["stdout"].split() == ["three", ".", "./d", "./d/g"]


def test_a_fork_has_checkpoints_and_can_become_a_template(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo one > f; mkdir d; echo x > d/x")
    freeze(client, "t")
    one = opened(own_daemon, fork(client, "t")[0])
    one.run("echo two > f; rm -r d")
    if not copied():
        # The template is the first checkpoint of a fork above it.
        assert [(row["checkpoint"], row["label"]) for row in one.call("workspace.checkpoints", {})["checkpoints"]] == [(1, "t")]
    freeze(one, "u")
    two = opened(own_daemon, fork(one, "u")[0])
    assert two.run("cat f; ls")["stdout"].split() == ["two", "f"]
    number = one.call("workspace.checkpoint", {})["checkpoint"]
    one.run("echo three > f")
    one.call("workspace.rollback", {"to": number})
    assert one.run("cat f")["stdout"] == "two\n"
    if not copied():
        one.call("workspace.rollback", {"to": 1})
        assert one.run("cat f d/x")["stdout"] == "one\nx\n"
    assert two.run("cat f")["stdout"] == "two\n"


def test_what_a_fork_has_changed(own_daemon):
    if copied():
        pytest.skip("a fork that is a copy has no checkpoint of its template")
    client = opened(own_daemon, "w")
    client.run("echo one > a; echo two > b; mkdir d; echo three > d/c; echo four > d/same; chmod 751 .")
    freeze(client, "t")
    with opened(own_daemon, fork(client, "t")[0]) as one:
        assert one.call("workspace.diff", {})["changes"] == []
        one.run("echo changed > a; rm b; mv d/c d/e; touch d/same; echo new > n")
        found = {row["path"]: row["change"] for row in one.call("workspace.diff", {"since": 1})["changes"]}
        assert found == {"a": "changed", "b": "deleted", "d/c": "deleted", "d/e": "added", "n": "added"}


def test_a_template_in_use_stays(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo one > f")
    freeze(client, "t")
    names = fork(client, "t", 3)
    for i, name in enumerate(names if not copied() else []):
        said = own_daemon.ctl("template", "remove", "t")
        left = len(names) - i
        assert said.returncode == 3 and f"{left} fork{'s use' if left > 1 else ' uses'} it".encode() in said.stderr, said
        client.call("workspace.remove", {"workspace": name})
    assert own_daemon.ctl("template", "remove", "t").returncode == 0
    assert b"no such template" in own_daemon.ctl("template", "remove", "t").stderr
    assert templates(own_daemon) == {}
    assert procfs.eventually(lambda: not in_state(own_daemon, ".unfinished-*"))
    refused(client, "workspace.fork", {"from": "t"}, "NOT_FOUND")
    if copied():  # each has its own files
        with opened(own_daemon, names[0]) as one:
            assert one.run("cat f")["stdout"] == "one\n"


def sizes(daemon):
    return {row["template"]: row["bytes"] for row in json.loads(daemon.ctl("templates", "--json").stdout)["templates"]}


def test_sizes(area, start_daemon):
    """What each takes on disk is measured once, also with directories that nobody may read, and survives the service."""
    expected["way"] = BY
    text = f"[cloister]\nadmin_group = {area.account.gid}\n{'mode = system' if SYSTEM else ''}\n" \
           f"[tenant t]\nusers = {area.account.name}\nmanaged = yes\n"
    daemon = start_daemon(config=text, system=SYSTEM)
    client = opened(daemon, "w")
    client.run("mkdir d; head -c 3M /dev/zero >d/f; ln d/f g; truncate -s 1G hole; chmod 0 d")
    freeze(client, "large")
    assert procfs.eventually(lambda: sizes(daemon)["large"] is not None)
    assert 3 << 20 <= sizes(daemon)["large"] < 3.3 * (1 << 20)
    client.run("chmod 700 d; rm -rf d g; echo x > small")
    freeze(client, "small")
    assert procfs.eventually(lambda: sizes(daemon)["small"] is not None)
    assert sizes(daemon)["small"] < 1 << 20
    assert metric(daemon) == sum(sizes(daemon).values())
    before = sizes(daemon)
    daemon.stop()
    with acting_as(os.getuid()):  # an older cloisterd has measured none
        record, = (daemon.state / "templates" / "t").glob(".size-small/*")
        record.rmdir()
    daemon = start_daemon(config=text, system=SYSTEM, state=daemon.state)
    assert procfs.eventually(lambda: sizes(daemon) == before), sizes(daemon)
    assert b"SIZE" in daemon.ctl("templates").stdout
    assert daemon.ctl("template", "remove", "large").returncode == 0
    assert sizes(daemon) == {"small": before["small"]} and metric(daemon) == before["small"]
    client = opened(daemon, "w")
    client.run("head -c 9M /dev/zero >f")
    freeze(client, "large")
    assert procfs.eventually(lambda: (sizes(daemon)["large"] or 0) > 9 << 20)
    assert metric(daemon) == sum(sizes(daemon).values())


def metric(daemon):
    line, = (line for line in daemon.ctl("metrics").stdout.decode().splitlines() if line.startswith("cloister_tenant_template_bytes{"))
    return int(line.rsplit(" ", 1)[1])


def test_removed_forks_leave_nothing(own_daemon):
    client = opened(own_daemon, "w")
    client.run("mkdir d; echo x > d/x")
    freeze(client, "t")
    for name in fork(client, "t", 4):
        with opened(own_daemon, name) as one:
            one.run("echo y > d/y; rm d/x")
            one.call("workspace.close")  # a removal does not wait for a hang-up
        client.call("workspace.remove", {"workspace": name})
    assert procfs.eventually(lambda: not in_state(own_daemon, "t-*", ".layers-t-*", ".dropped-*", ".unfinished-*"))
    # A name is not given again while a higher one is there.
    assert fork(client, "t") == ["t-1"]


def test_refusals(own_daemon):
    client = opened(own_daemon, "w")
    freeze(client, "t")
    assert "of this name" in refused(client, "workspace.freeze", {"template": "t"}, "FORBIDDEN")
    with own_daemon.connect() as other:
        own_daemon.new_workspace(other)
        assert "managed workspace" in refused(other, "workspace.freeze", {"template": "u"}, "FORBIDDEN")
    client.call("session.start", {"command": "sleep 1000"})
    assert "session.end" in refused(client, "workspace.freeze", {"template": "u"}, "BUSY")


def replace(client, template):
    return client.call("workspace.freeze", {"template": template, "replace": True})


def content(daemon, name):
    with opened(daemon, name) as one:
        found = one.run("cat f")["stdout"]
        one.call("workspace.close")
    return found


def test_a_template_is_replaced_while_forks_go_on(area, start_daemon, way):
    daemon = start_one(start_daemon, area, way)
    client = opened(daemon, "w")
    client.run("echo one > f")
    freeze(client, "t")
    old, = fork(client, "t")
    running = opened(daemon, old)
    assert running.run("cat f")["stdout"] == "one\n"
    client.run("echo two > f")
    assert '"replace": true' in refused(client, "workspace.freeze", {"template": "t"}, "FORBIDDEN")
    refused(client, "workspace.freeze", {"template": "t", "replace": 1}, -32602)
    assert replace(client, "t") == {"workspace": "w", "template": "t", "replaced": True}
    new, = fork(client, "t")
    assert running.run("cat f")["stdout"] == "one\n" and content(daemon, new) == "two\n"
    running.close()
    rows = [(row["template"], row["forks"], row["replaced"]) for row in client.call("template.list", {})["templates"]]
    assert rows == ([("t", 0, False)] if copied() else [("t", 1, True), ("t", 1, False)])
    state = daemon.state
    client.close()
    assert daemon.stop() == 0
    daemon = start_one(start_daemon, area, way, state=state)
    assert (content(daemon, old), content(daemon, new)) == ("one\n", "two\n")
    client = daemon.connect()
    if not copied():
        with opened(daemon, old) as one:
            assert [(row["checkpoint"], row["label"]) for row in one.call("workspace.checkpoints", {})["checkpoints"]] == [(1, "t")]
            one.call("workspace.close")
        refused(client, "template.remove", {"template": "t"}, "BUSY")
    client.call("workspace.remove", {"workspace": old})
    assert [row["replaced"] for row in client.call("template.list", {})["templates"]] == [False]
    assert content(daemon, new) == "two\n"
    client.call("workspace.remove", {"workspace": new})
    client.call("template.remove", {"template": "t"})
    assert client.call("template.list", {})["templates"] == []
    assert procfs.eventually(lambda: not in_state(daemon, "t", "t~*", ".unfinished-*", ".size-*"))


@pytest.mark.skipif(SYSTEM, reason="forks are mounted above their template in user mode")
def test_a_fork_that_cannot_be_read_keeps_its_template(start_daemon, area):
    """What is not known of a fork's layers must not look as if nobody used the template."""
    daemon = start_one(start_daemon, area, BY)
    client = opened(daemon, "w")
    client.run("echo one > f")
    freeze(client, "t")
    old, = fork(client, "t")
    with acting_as(os.getuid()):
        layers, = (path for path in (daemon.state / "workspaces").rglob(f".layers-{old}"))
        layers.chmod(0)
    client.run("echo two > f")
    replace(client, "t")
    with acting_as(os.getuid()):
        layers.chmod(0o700)
    assert content(daemon, old) == "one\n"
    client.call("workspace.remove", {"workspace": old})
    assert [row["replaced"] for row in client.call("template.list", {})["templates"]] == [False]


def test_replaced_templates_count(start_daemon, area):
    expected["way"] = BY
    lines = ["[cloister]", *["mode = system"] * SYSTEM, f"admin_group = {area.account.gid}", "[tenant one]",
             f"users = {area.account.name}", "managed = yes", "templates = 1", ""]
    daemon = start_daemon(config="\n".join(lines), system=SYSTEM)
    client = opened(daemon, "w")
    for _ in range(3):  # nobody uses the old one
        assert replace(client, "t")["template"] == "t"
    name, = fork(client, "t")
    if not copied():
        assert "1 templates" in refused(client, "workspace.freeze", {"template": "t", "replace": True}, "QUOTA_EXCEEDED")
        client.call("workspace.remove", {"workspace": name})
    replace(client, "t")
    assert 'cloister_tenant_templates{tenant="one"} 1\n' in daemon.control().call("metrics")["text"]


@pytest.mark.deep("busy")
@pytest.mark.skipif(SYSTEM, reason="forks are mounted above their template in user mode")
def test_replaced_templates_stall_nobody(start_daemon, area):
    """A removal looks for other forks of one replaced template, and not once more for each of them."""
    expected["way"] = BY
    lines = ["[cloister]", f"admin_group = {area.account.gid}", "[tenant one]", f"users = {area.account.name}", "managed = yes", ""]
    daemon = start_daemon(config="\n".join(lines))
    client = opened(daemon, "w")
    old = []
    for i in range(15):
        client.call("workspace.freeze", {"template": "t", "replace": i > 0})
        old += client.call("workspace.fork", {"from": "t", "count": 40})["workspaces"][:2]
    client.call("workspace.freeze", {"template": "t", "replace": True})
    new = client.call("workspace.fork", {"from": "t", "count": 30})["workspaces"]

    def removal(name):
        before = time.monotonic()
        client.call("workspace.remove", {"workspace": name})
        return time.monotonic() - before

    took = [(removal(one), removal(other)) for one, other in zip(old, new)]
    assert statistics.median(one for one, _ in took) < 5 * statistics.median(other for _, other in took), took


def test_a_death_leaves_no_replaced_template(start_daemon, area):
    """cloisterd drops one that nobody uses when it starts again."""
    expected["way"] = BY
    daemon = start_one(start_daemon, area, BY)
    client = opened(daemon, "w")
    freeze(client, "t")
    state = daemon.state
    kill_all(daemon)
    with acting_as(os.getuid()):
        tree, = (path for path in (state / "templates").rglob("t") if path.is_dir())
        owner = tree.stat()
        (tree.parent / "t~2").mkdir(mode=0o700)
        os.chown(tree.parent / "t~2", owner.st_uid, owner.st_gid)
    daemon = start_one(start_daemon, area, BY, state=state)
    assert procfs.eventually(lambda: not in_state(daemon, "t", ".unfinished-*"))
    assert templates(daemon) == {"t": 0} and in_state(daemon, "t~2")


def test_calls_in_flight_are_waited_for(own_daemon):
    client = opened(own_daemon, "w")
    running = client.begin("run_command", {"command": "touch begun; sleep 1; echo done > f"})
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "begun"})["success"])
    freeze(client, "t")
    assert client.result(running)["success"]
    with opened(own_daemon, fork(client, "t")[0]) as one:
        assert one.run("cat f")["stdout"] == "done\n"


@pytest.mark.deep("slow")
def test_random_changes_of_forks(own_daemon):
    """Against what each fork is expected to have: a change of one is seen in no other, and not in the template."""
    rng = random.Random(20)
    client = opened(own_daemon, "w")
    client.run("for i in $(seq 12); do mkdir d$i; echo $i > d$i/f; done")
    freeze(client, "t")
    first = {f"d{i}/f": f"{i}\n" for i in range(1, 13)}
    forks = {name: (opened(own_daemon, name), dict(first)) for name in fork(client, "t", 5)}

    def seen(one):
        output = one.run("find . -type f | sort | while read f; do printf '%s=' \"${f#./}\"; cat \"$f\"; done")["stdout"]
        return dict(line.split("=", 1) for line in output.splitlines())

    for step in range(80):
        name = rng.choice(sorted(forks))
        one, files = forks[name]
        path = rng.choice(sorted(files) or ["d1/f"])
        act = rng.randrange(5)
        if act == 0:
            one.run(f"echo {step} > {path}")
            files[path] = f"{step}\n"
        elif act == 1:
            one.run(f"rm -f {path}")
            files.pop(path, None)
        elif act == 2:
            one.use("write_file", path=f"new{step}", content=f"{step}\n")
            files[f"new{step}"] = f"{step}\n"
        elif act == 3:
            one.run(f"mkdir -p moved; mv {path} moved/{step}")
            if path in files:
                files[f"moved/{step}"] = files.pop(path)
        elif rng.randrange(4) == 0:
            more = fork(client, "t")[0]
            forks[more] = opened(own_daemon, more), dict(first)
    for one, files in forks.values():
        assert seen(one) == {path: content.rstrip("\n") for path, content in files.items()}
    assert seen(client) == {path: content.rstrip("\n") for path, content in first.items()}
    with opened(own_daemon, fork(client, "t")[0]) as one:
        assert seen(one) == {path: content.rstrip("\n") for path, content in first.items()}


def kill_all(daemon):
    daemon.process.kill()
    daemon.process.wait()
    for client in daemon.clients:
        client.close()


@pytest.mark.deep("slow")
@pytest.mark.parametrize("what", ["freeze", "fork"])
@pytest.mark.parametrize("who", ["cloisterd", "spawner"])
def test_a_death_at_any_step_leaves_none_or_whole_ones(area, who, what, way):
    """Kills the process at one of its system calls, later and later ones, until it lives through it."""
    daemon = start_one(partial(Daemon, area), area, way)
    state, count, deaths = daemon.state, 1, 0
    client = opened(daemon, "w")
    client.run("mkdir d; for i in $(seq 20); do echo $i > d/$i; done")
    freeze(client, "t")
    expected = tree(client)
    while True:
        killer = Killer(daemon.pid if who == "cloisterd" else daemon.spawner(), count)
        with contextlib.suppress(RpcError, OSError, AssertionError, TypeError):  # the connection ends with cloisterd
            if what == "freeze":
                freeze(client, f"t{count}")
            else:
                fork(client, "t", 2, prefix=f"f{count}")
        died = killer.end()
        deaths += died
        kill_all(daemon)
        daemon = start_one(partial(Daemon, area), area, way, state=state)
        client = opened(daemon, "w")
        made = [row["workspace"] for row in client.call("workspace.list", {})["workspaces"] if row["workspace"] != "w"]
        made += fork(client, f"t{count}") if f"t{count}" in templates(daemon) else []
        for name in made:
            with opened(daemon, name) as one:
                assert tree(one) == expected
                one.call("workspace.close")
            client.call("workspace.remove", {"workspace": name})
        assert tree(client) == expected
        assert procfs.eventually(lambda: not in_state(daemon, ".unfinished-*"))  # noqa: B023
        if not died:
            break
        count += 3 + count // 4
    # A fork above its template is cloisterd's work alone, and the spawner may have nothing to do.
    assert deaths > 3 or (who, what, way) == ("spawner", "fork", "overlay")
    assert daemon.stop() == 0


@pytest.mark.deep("slow")
def test_deaths_of_the_copier(own_daemon):
    client = opened(own_daemon, "w")
    client.run("for i in $(seq 300); do head -c 100000 /dev/zero > f$i; done")
    asked = client.request("workspace.freeze", {"template": "t"})

    def kill():
        for pid in procfs.children(own_daemon.spawner()):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if procfs.name(pid) == "cloister-copy":
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    with acting_as(os.getuid()):
        killed = procfs.eventually(lambda: kill() or templates_now(own_daemon), 20, 0.001)
    try:
        client.result(asked)
        assert templates(own_daemon) == {"t": 0}
    except RpcError:
        assert killed and templates(own_daemon) == {}
        freeze(client, "t")
    with opened(own_daemon, fork(client, "t")[0]) as one:
        assert one.run("ls | wc -l; cat f* | wc -c")["stdout"].split() == ["300", "30000000"]
    assert procfs.eventually(lambda: not in_state(own_daemon, ".unfinished-*"))


def templates_now(daemon):
    return [path for path in (daemon.state / "templates").rglob("t")]


def test_the_command(own_daemon):
    client = opened(own_daemon, "w")
    client.run("echo one > f")
    word = ["cloister", "--socket", str(own_daemon.socket)]
    said = own_daemon.area.run(*word, "--workspace", "w", "freeze", "ready")
    assert (said.returncode, said.stdout) == (0, b"ready\n"), said
    said = own_daemon.area.run(*word, "--workspace", "w", "freeze", "ready")
    assert said.returncode == 3 and b"of this name" in said.stderr, said
    assert own_daemon.area.run(*word, "--workspace", "w", "freeze", "--replace", "ready").stdout == b"ready\n"
    said = own_daemon.area.run(*word, "template", "list")
    assert said.returncode == 0 and said.stdout.split(b"\n")[1].split()[0::2] == [b"0", b"no"], said
    assert own_daemon.area.run(*word, "template", "remove", "none").returncode == 3
    assert own_daemon.area.run(*word, "template", "drop").returncode == own_daemon.area.run(*word, "template", "remove").returncode == 2
    assert own_daemon.area.run(*word, "--workspace", "w", "freeze", "spare").returncode == 0
    assert own_daemon.area.run(*word, "template", "remove", "spare").stdout == b"spare\n"
    said = own_daemon.area.run(*word, "fork", "ready", "2")
    assert (said.returncode, said.stdout) == (0, b"ready-1\nready-2\n"), said
    assert b"not '0'" in own_daemon.area.run(*word, "fork", "ready", "0").stderr
    assert json.loads(own_daemon.area.run(*word, "--json", "fork", "ready").stdout)["workspaces"] == ["ready-3"]
    assert b"ready" in own_daemon.ctl("templates").stdout
    assert own_daemon.ctl("template").returncode == own_daemon.ctl("template", "list").returncode == 2


def test_import_replaces(own_daemon, area):
    source = area.new_directory("source")
    with acting_as(os.getuid()):
        (source / "f").write_text("one\n")
        os.chmod(source, 0o755)
    words = ["template", "import", "base", str(source)]
    assert own_daemon.ctl(*words).stdout == b"The template is made.\n"
    client = own_daemon.connect()
    old, = fork(client, "base")
    with acting_as(os.getuid()):
        (source / "f").write_text("two\n")
    assert b"of this name" in own_daemon.ctl(*words).stderr
    said = own_daemon.ctl(*words, "--replace")
    assert said.stdout == b"The template is replaced.\n", said
    new, = fork(client, "base")
    assert (content(own_daemon, old), content(own_daemon, new)) == ("one\n", "two\n")
    assert own_daemon.ctl("template", "remove", "base", "--replace").returncode == 2


def test_import_of_a_directory(own_daemon, area):
    source = area.new_directory("source")
    with acting_as(os.getuid()):
        (source / "bin").mkdir()
        (source / "bin" / "tool").write_text("tool\n")
        (source / "bin" / "tool").chmod(0o4755)
        (source / "out").symlink_to("/etc/passwd")
        os.link(source / "bin" / "tool", source / "same")
        (source / "dev").mkdir()
        os.mknod(source / "dev" / "null", 0o20666, os.makedev(1, 3))
        os.chmod(source, 0o755)
    said = own_daemon.ctl("template", "import", "base", str(source))
    assert (said.returncode, said.stdout) == (0, b"The template is made.\n"), said
    assert templates(own_daemon) == {"base": 0}
    client = own_daemon.connect()
    with opened(own_daemon, fork(client, "base")[0]) as one:
        assert one.run("cat same; stat -c '%a %h' bin/tool; readlink out; ls -A dev; find . | sort")["stdout"].split() == \
            ["tool", "755", "2", "/etc/passwd", ".", "./bin", "./bin/tool", "./dev", "./out", "./same"]
    with acting_as(os.getuid()):
        (source / "secret").write_text("x")
        (source / "secret").chmod(0o600)
        os.chown(source / "secret", 12345, 12345)
    for path, words in ((str(source), b"chmod -R go+rX"), (str(own_daemon.state), b"own state"), ("/", b"own state"),
                        (f"{own_daemon.state}/templates", b"own state"), (f"{source}/none", b"NOT_FOUND"),
                        (f"{source}/same", b"no tar archive"), (f"{source}/dev/null", b"NOT_A_DIRECTORY")):
        said = own_daemon.ctl("template", "import", "other", path)
        assert said.returncode in (1, 2, 3) and words in said.stderr, (path, said)
    if not way_is_user():  # the spawner could read all files of the range's ids; the copier must not
        path = own_daemon.new_directory()
        with acting_as(os.getuid()):
            (path / "f").write_text("x")
            os.chown(path / "f", path.stat().st_uid, path.stat().st_gid)
            (path / "f").chmod(0o600)
        assert b"chmod -R go+rX" in own_daemon.ctl("template", "import", "other", str(path)).stderr
    assert b"of this name" in own_daemon.ctl("template", "import", "base", str(source)).stderr
    for name in ("", "../x", ".x"):
        assert own_daemon.ctl("template", "import", name, str(source)).returncode in (2, 3)
    assert own_daemon.ctl("template", "import", "x").returncode == 2
    assert templates(own_daemon) == {"base": 0 if copied() else 1}
    assert procfs.eventually(lambda: not in_state(own_daemon, ".unfinished-*"))


@pytest.mark.parametrize("way", ["overlay"], indirect=True)
def test_a_client_lists_and_removes_templates(own_daemon):
    with opened(own_daemon, "one") as client:
        freeze(client, "t")
        listed = client.call("template.list")["templates"]
        assert [(one["template"], one["forks"]) for one in listed] == [("t", 0)]
        (name,) = fork(client, "t")
        assert client.call("template.list")["templates"][0]["forks"] == 1
        refused(client, "template.remove", {"template": "t"}, "BUSY")
        client.call("workspace.remove", {"workspace": name})
        assert client.call("template.remove", {"template": "t"})["removed"] == "t"
        assert client.call("template.list")["templates"] == []
        refused(client, "template.remove", {"template": "t"}, "NOT_FOUND")
        refused(client, "template.remove", {"template": "../t"}, "NOT_FOUND")
