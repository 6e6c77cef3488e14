# SPDX-License-Identifier: Apache-2.0
"""workspace.diff: what has changed since a checkpoint, against a model of it, and as a patch that git applies."""

import base64
import io
import json
import os
import random
import signal
import subprocess
import tarfile

import pytest

import procfs
from cloister_client import RpcError, acting_as
from layers import checkpoint, client_fixture, opened, refused

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to look into the state directory")

SEEN = r"""
import hashlib, json, os, stat
seen = {}
def add(path):
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    name = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
            stat.S_IFSOCK: "socket"}[kind]
    content = ""
    if name == "file":
        content = hashlib.sha256(open(path, "rb").read()).hexdigest()
    elif name == "symlink":
        content = os.readlink(path)
    seen[os.path.relpath(path)] = [name, 0 if name == "directory" else st.st_size, "%04o" % (st.st_mode & 0o7777), content]
add(".")
for top, directories, files in os.walk("."):
    for name in directories + files:
        add(os.path.join(top, name))
print(json.dumps(seen))
"""

client = client_fixture()


def seen(client):
    output = client.run("python3 - <<'E'\n" + SEEN + "E\n")
    assert output["exit_code"] == 0, output
    return json.loads(output["stdout"])


def diff(client, since=None, **params):
    return client.call("workspace.diff", {"since": since, **params} if since else params)


def short(result):
    """{path: (change, before, after)}, where before and after are a file's size or another type."""
    def state(value):
        return value and (value["size"] if value["type"] == "file" else value["type"])
    rows = {row["path"]: (row["change"], state(row["before"]), state(row["after"])) for row in result["changes"]}
    assert len(rows) == len(result["changes"]) == result["count"]
    return rows


def modelled(before, after):
    """What a diff of two states that were seen must be."""
    def state(entry):
        return entry and {"type": entry[0], "size": entry[1], "mode": entry[2]}
    rows = []
    for path in sorted(set(before) | set(after), key=lambda path: [] if path == "." else os.fsencode(path).split(b"/")):
        old, new = before.get(path), after.get(path)
        if old != new:
            rows.append({"path": path, "change": "added" if not old else "changed" if new else "deleted",
                         "before": state(old), "after": state(new)})
    return rows


def test_what_a_shell_changed(client):
    client.run("umask 022; mkdir -p src/deep old; echo one > src/a; echo same > src/same; printf 12345 > gone; "
               "ln -s a src/link; echo x > old/x; echo y > old/y; echo z > mode; echo w > src/deep/w")
    checkpoint(client)
    assert diff(client) == {"since": 1, "changes": [], "count": 0, "truncated": False, "added": 0, "changed": 0,
                            "deleted": 0, "unread": 0}
    client.run("echo three > src/a; rm gone; rm -rf old; mkdir new; echo new > new/file; ln -sfn b src/link; "
               "chmod 755 mode; mkfifo fifo; echo other > src/deep/w; echo w > src/deep/w; touch src/same; mkdir old; "
               "echo y > old/y")
    assert short(diff(client)) == {
        "fifo": ("added", None, "fifo"), "gone": ("deleted", 5, None), "mode": ("changed", 2, 2),
        "new": ("added", None, "directory"), "new/file": ("added", None, 4), "old/x": ("deleted", 2, None),
        "src/a": ("changed", 4, 6), "src/link": ("changed", "symlink", "symlink")}
    result = diff(client)
    assert [row["path"] for row in result["changes"]] == sorted(row["path"] for row in result["changes"])
    assert (result["added"], result["changed"], result["deleted"]) == (3, 3, 2)
    (mode,) = [row for row in result["changes"] if row["path"] == "mode"]
    assert mode["before"] == {"type": "file", "size": 2, "mode": "0644"} and mode["after"]["mode"] == "0755"


def test_since_each_checkpoint_and_after_a_rollback(client):
    for text in ("one", "two", "three"):
        client.use("write_file", path=text, content=text)
        client.use("write_file", path="all", content=text)
        checkpoint(client)
    assert short(diff(client)) == {}
    assert short(diff(client, 2)) == {"three": ("added", None, 5), "all": ("changed", 3, 5)}
    assert short(diff(client, 1)) == {"three": ("added", None, 5), "two": ("added", None, 3), "all": ("changed", 3, 5)}
    client.call("workspace.rollback", {"to": 1})
    assert short(diff(client)) == short(diff(client, 1)) == {}
    assert "workspace.checkpoints lists" in refused(client, "workspace.diff", {"since": 2}, "NOT_FOUND")
    client.use("write_file", path="all", content="two")
    assert short(diff(client)) == {"all": ("changed", 3, 3)}


def test_a_directory_that_was_deleted_in_one_layer_and_made_in_another(client):
    client.run("mkdir -p d/e; echo a > d/a; echo b > d/e/b")
    checkpoint(client)
    client.run("rm -rf d")
    checkpoint(client)
    client.run("mkdir -p d/e; echo c > d/c; echo b > d/e/b")
    assert short(diff(client, 1)) == {"d/a": ("deleted", 2, None), "d/c": ("added", None, 2)}
    checkpoint(client)
    client.run("rm -rf d/e; echo file > d/e")
    assert short(diff(client, 1)) == {"d/a": ("deleted", 2, None), "d/c": ("added", None, 2),
                                      "d/e": ("changed", "directory", 5), "d/e/b": ("deleted", 2, None)}


def test_a_fork_against_its_template(daemon):
    client = opened(daemon, "frozen")
    client.run("mkdir d; echo a > d/a; echo b > b")
    client.call("workspace.freeze", {"workspace": "frozen", "template": "t"})
    forked = client.call("workspace.fork", {"from": "t", "count": 1})
    fork = opened(daemon, forked["workspaces"][0])
    fork.run("echo more >> d/a; rm b; echo c > c")
    if forked["forked_by"] == "overlay":
        assert short(diff(fork, 1)) == {"d/a": ("changed", 2, 7), "b": ("deleted", 2, None), "c": ("added", None, 2)}
    checkpoint(fork)
    fork.run("rm -rf d; mkdir d")
    assert short(diff(fork)) == {"d/a": ("deleted", 7, None)}
    for one in (client, fork):
        one.call("workspace.remove", {"workspace": "frozen" if one is client else forked["workspaces"][0]})


OPERATIONS = [
    "mkdir -p {a}; echo {r} > {a}/{b}", "rm -rf {a}", "echo {r} >> {a}.txt", "ln -sfn {b} {a}.link",
    "mv {a}.txt {b}.moved", "chmod {m} {a}.txt", "rm -rf {a}; echo file > {a}", "cp -r {a} {b}/", "cp -r {a} {b}.copy",
    "ln {a}.txt {b}.hard", "truncate -s {n} {a}.txt", "rm -rf {a}; mkdir -p {a}/{b}", "rm -rf {a}/{b}; mkfifo {a}/{b}",
    "mv {a} {b}", "mv {a}/{b} {b}/{a}", "cp {a}.txt {b}.txt", "touch {a}.txt", "mkdir -p {a}/{b}/{a}/{b}; echo {r} > {a}/{b}/{a}/x",
    "rm -f {a}.link; mkdir -p {a}.link; echo {r} > {a}.link/x", "rm -rf {a}.link; ln -s {b} {a}.link", "chmod 7{k}5 {a}",
    "cp {a}.txt tmp && mv tmp {a}.txt", "cp -r {a} tmp && rm -rf {a} && mv tmp {a}",
]


def change(client, rng):
    steps = [rng.choice(OPERATIONS).format(a=rng.choice("abc"), b=rng.choice("abc"), r=rng.random(), n=rng.randrange(10**5),
                                           m=rng.choice(["600", "755"]), k=rng.choice("57")) for _ in range(rng.randrange(1, 6))]
    client.run("umask 022; " + "; ".join(steps) + "; chmod -R u+rwX .; true")


def attributes(client, *acts):
    """Each act is a path, a name, and a value, or None to remove it."""
    script = "import os\n" + "".join(
        f"os.setxattr({path!r}, {name!r}, {value!r})\n" if value is not None else f"os.removexattr({path!r}, {name!r})\n"
        for path, name, value in acts)
    client.use("write_file", path="act.py", content=script)
    assert client.run("python3 act.py")["exit_code"] == 0


def test_attributes_alone_are_a_change(client):
    client.run("echo a > a; echo b > b; echo c > c; echo same > same; mkdir d e; touch d/x")
    long = b"x" * 1000
    attributes(client, ("a", "user.note", b"1"), ("c", "user.note", b""), ("d", "user.note", long), ("same", "user.note", long),
               ("same", "user.other", b"2"))
    checkpoint(client)
    acts = (("a", "user.note", b"2"), ("b", "user.new", b""), ("c", "user.note", None), ("d", "user.note", long[1:] + b"y"),
            ("e", "user.new", b"1"), (".", "user.root", b"1"))
    again = (("same", "user.note", long), ("same", "user.other", b"3"), ("same", "user.other", b"2"), ("d/x", "user.gone", b"1"),
             ("d/x", "user.gone", None))
    attributes(client, *acts, *again)
    client.run("rm act.py")
    rows = {row["path"]: row for row in diff(client)["changes"]}
    assert rows.pop("act.py")["change"] == "deleted"
    assert sorted(rows) == [".", "a", "b", "c", "d", "e"]
    assert all(row["change"] == "changed" and row["before"] == row["after"] for row in rows.values())
    result = diff(client, patch=True)
    assert {row["path"] for row in result["changes"] if "patch" in row} <= {"act.py"}
    assert result["unpatched"] == 3  # a patch has no place for them


def test_a_preview_s_diff_has_attributes(client):
    client.run("echo a > a")
    command = "python3 -c 'import os; os.setxattr(\"a\", \"user.note\", b\"1\")'"
    answer = client.call("tool.call", {"tool": "run_command", "arguments": {"command": command},
                                       "options": {"transaction": "preview"}})
    assert [(row["path"], row["change"]) for row in answer["diff"]["changes"]] == [("a", "changed")]
    client.call("transaction.discard", {})


@pytest.mark.deep("slow")
@pytest.mark.parametrize("seed", range(4))
def test_random_changes_against_a_model(client, seed):
    rng, states = random.Random(seed), {}
    for _ in range(20):
        change(client, rng)
        action = rng.random()
        if not states or action < 0.3:
            now = seen(client)
            states[checkpoint(client)] = now
        elif action < 0.4:
            to = rng.choice(list(states))
            client.call("workspace.rollback", {"to": to})
            states = {number: state for number, state in states.items() if number <= to}
        now = seen(client)
        for number, before in states.items():
            result = diff(client, number)
            expected = modelled(before, now)
            assert result["changes"] == expected
            kinds = [row["change"] for row in expected]
            assert [result[kind] for kind in ("added", "changed", "deleted")] == \
                [kinds.count(kind) for kind in ("added", "changed", "deleted")]
            assert result["unread"] == 0 and not result["truncated"]


def copied(client, to):
    """A copy of the workspace's files on this side."""
    data = base64.b64decode(client.run("tar -c . | base64 -w0")["stdout"])
    to.mkdir()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(to)  # noqa: S202 (of the workspace that this test has filled)
    return to


def contents(top):
    """What a patch can tell of a tree."""
    found = {}
    for path in top.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(top))] = ("link", os.readlink(path))
        elif path.is_file():
            found[str(path.relative_to(top))] = (path.stat().st_mode & 0o100, path.read_bytes())
    return found


TEXTS = [
    "echo {r} >> {a}.txt", "seq {n} > {a}.txt", "seq {k} {n} > {a}.txt", "sed -i '{k}d;2{k}i x{r}' {a}.txt", "rm -f {a}.txt",
    "printf none >> {a}.txt", ": > {a}.txt", "chmod {m} {a}.txt", "rm -rf {a}; ln -s {b} {a}", "rm -rf {a}; echo {r} > {a}",
    "shuf --random-source={a}.txt {b}.txt > tmp; mv tmp {b}.txt", "mkdir -p d; cp {a}.txt \"d/x {b}\"", "rm -rf d",
    "printf '\\303\\244\\n' >> \"q\\\"{a}\"", "rm -rf {a}; mkdir {a}; echo {r} > {a}/x", "sed -i 's/1/{k}/' {a}.txt",
    "printf '{r}\\r\\n--- a\\n+++ b\\n@@ -1 +1 @@\\n' >> {b}.txt",
]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep("repeats"))])
def test_git_applies_the_patch(client, tmp_path, seed):
    rng = random.Random(100 + seed)
    client.run("umask 022; for f in a b c; do seq 1 40 > $f.txt; done")
    checkpoint(client)
    for turn in range(8):
        before = copied(client, tmp_path / f"before{turn}")
        for _ in range(rng.randrange(1, 7)):
            client.run("umask 022; " + rng.choice(TEXTS).format(
                a=rng.choice("abc"), b=rng.choice("abc"), r=rng.random(), n=rng.randrange(10, 90), k=rng.randrange(1, 9),
                m=rng.choice(["644", "755"])) + "; true")
        after = copied(client, tmp_path / f"after{turn}")
        result = diff(client, patch=True)
        assert result["unpatched"] == 0
        patch = "".join(row.get("patch", "") for row in result["changes"])
        if patch:
            subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=before, input=patch.encode(), check=True)
        assert contents(before) == contents(after)
        checkpoint(client)


def test_what_has_no_place_in_a_patch_is_counted(client):
    client.run("printf 'a\\0b' > binary; head -c 1100000 /dev/zero | tr '\\0' x > large; printf '\\377' > latin; echo t > text; "
               "echo m > mode; chmod 644 mode")
    checkpoint(client)
    client.run("printf 'a\\0c' > binary; echo x >> large; printf '\\376' > latin; echo u > text; chmod 600 mode; mkdir d")
    result = diff(client, patch=True)
    assert result["unpatched"] == 4
    assert {row["path"] for row in result["changes"] if "patch" in row} == {"text"}
    assert "unpatched" not in diff(client)
    # All of 4 MiB is the bound of one answer; what does not fit is counted, and listed as before.
    client.run("for i in $(seq 1 9); do yes $i | head -c 600000 > many$i; done")
    result = diff(client, patch=True)
    assert result["unpatched"] == 4 + 9 - len([row for row in result["changes"] if row["path"].startswith("many") and "patch" in row])
    assert sum(len(row.get("patch", "")) for row in result["changes"]) <= 4 * 2**20
    assert 4 + 2 <= result["unpatched"] and not result["truncated"] and result["added"] == 10


def test_what_cannot_be_compared_is_counted(client):
    client.run("mkdir d; echo x > d/x; echo same > file; echo more > other")
    checkpoint(client)
    client.run("echo same > file; chmod 000 file")
    assert short(diff(client)) == {"file": ("changed", 5, 5)}
    client.run("chmod 644 file; touch d/y; chmod 000 d")
    result = diff(client)
    assert result["unread"] > 0 and short(result) == {"d": ("changed", "directory", "directory")}
    client.run("chmod 755 d")
    assert short(diff(client)) == {"d/y": ("added", None, 0)}


def test_deep_paths_and_strange_names(client):
    client.run("umask 022; python3 - <<'E'\nimport os\nfor _ in range(300):\n os.mkdir('d' * 100); os.chdir('d' * 100)\n"
               "open('bottom', 'w').write('x')\nE\ntouch .cloister-0123456789abcdef")
    checkpoint(client)
    client.run("python3 - <<'E'\nimport os\nfor _ in range(300):\n os.chdir('d' * 100)\nopen('bottom', 'a').write('y')\nE\n"
               "touch .cloister-0123456789abcdff; touch -- \"$(printf 'a\\377b')\" 'new\nline' '-n'")
    rows = diff(client)["changes"]
    assert [row["path"][-30:] for row in rows if len(row["path"]) > 1000] == ["d" * 23 + "/bottom"]
    names = {row["path"] for row in rows if len(row["path"]) < 1000}  # and no temporary file of cloister's own
    assert names == {"a\ufffdb", "new\nline", "-n"}
    assert [base64.b64decode(row["path_base64"]) for row in rows if "path_base64" in row] == [b"a\xffb"]


LARGE = "for n in $(seq 8); do truncate -s 1G large$n; done"
OPENED_LARGE = "for n in $(seq 8); do chmod 755 large$n; chmod 644 large$n; done"


def test_it_can_be_cancelled_and_sessions_may_run(client):
    assert client.run(LARGE)["exit_code"] == 0
    checkpoint(client)
    session = client.call("session.start", {"command": "sleep 600"})["session"]
    client.run(OPENED_LARGE)
    asked = client.request("workspace.diff", {})
    assert client.call("tool.cancel", {"id": asked})["cancelled"]
    with pytest.raises(RpcError) as caught:
        client.result(asked)
    assert caught.value.name == "CANCELLED"
    client.run("rm large*")
    assert {row["change"] for row in diff(client)["changes"]} == {"deleted"}
    client.call("session.end", {"session": session})


def test_a_lost_files_process_is_told_and_the_next_answers(own_daemon):
    client = opened(own_daemon, "w")
    checkpoint(client)
    client.run("echo y > y")
    ((_, files),) = own_daemon.cells()
    with acting_as(os.getuid()):
        os.kill(files, signal.SIGSTOP)
    asked = client.request("workspace.diff", {})
    client.call("workspace.list", {})  # cloisterd has passed it on
    with acting_as(os.getuid()):
        os.kill(files, signal.SIGKILL)
    with pytest.raises(RpcError) as caught:
        client.result(asked)
    assert caught.value.name == "WORKER_LOST"
    assert procfs.eventually(lambda: client.observe("read_file", {"path": "y"})["success"])
    assert short(diff(client)) == {"y": ("added", None, 2)}


def test_metrics_have_it(own_daemon):
    client = opened(own_daemon, "w")
    checkpoint(client)
    diff(client)
    with own_daemon.control() as control:
        assert 'cloister_calls_total{tool="workspace.diff",code="OK"} 1\n' in control.call("metrics")["text"]


def cloister(client, daemon, *words):
    done = daemon.area.run("cloister", "--socket", str(daemon.socket), "--workspace", client.name, *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_command(client, daemon):
    client.run("umask 022; seq 3 > a; echo x > gone")
    checkpoint(client)
    client.run("echo 4 >> a; rm gone; mkdir d; printf '\\033[2J' > \"$(printf 'e\\033[2J')\"")
    status, out, err = cloister(client, daemon, "diff")
    assert (status, err) == (0, "")
    assert [line.split(None, 3) for line in out.splitlines()] == [
        ["CHANGE", "BEFORE", "AFTER", "PATH"], ["changed", "6", "8", "a"], ["added", "-", "directory", "d"],
        ["added", "-", "4", "e\\x1b[2J"], ["deleted", "2", "-", "gone"]]
    status, out, err = cloister(client, daemon, "diff", "--since", "1", "--patch")
    assert status == 0 and "+4\n" in out and "deleted file mode 100644" in out, (out, err)
    assert json.loads(cloister(client, daemon, "--json", "diff")[1])["added"] == 2
    status, _, err = cloister(client, daemon, "diff", "--since", "9")
    assert status == 3 and "workspace.checkpoints" in err
    assert cloister(client, daemon, "diff", "--since", "x")[0] == 2
    client.run("printf '\\0' > binary")
    status, _, err = cloister(client, daemon, "diff", "--patch")
    assert status == 1 and "1 changes are not in the patch" in err
