# SPDX-License-Identifier: Apache-2.0
"""Every kind of path in every file tool."""

import os

import procfs
import pytest
from cloister_client import acting_as
from daemon import AM_ROOT

RAW = {"line_numbers": False}
OUTSIDE, LINK_OUT = "PATH_OUTSIDE_WORKSPACE", "SYMLINK_OUTSIDE_WORKSPACE"
TOOLS = {"read_file": {}, "list_directory": {}, "search_files": {"pattern": "x"}, "write_file": {"content": "new"}}


class Tree:
    """A workspace with files, directories and links, and a directory outside it."""

    def __init__(self, daemon):
        self.client = daemon.connect()
        self.outside = daemon.area.new_directory("outside")
        self.path = daemon.new_workspace(self.client)
        # In system mode the workspace has an id of its own, which must own the files.
        self.owner = self.path.stat()
        with acting_as(self.owner.st_uid, self.owner.st_gid):
            self.fill()
        self.holds = self.names()

    def fill(self):
        ws = self.path
        (self.outside / "f").write_text("secret\n")
        (ws / "d" / "sub").mkdir(parents=True)
        for name in ("f", "d/f", "d/sub/f", "a%2fb", "%2e%2e", "new\nline", " space ", "-dash",
                     "\u00fcml\u00e4ut", "..."):
            (ws / name).write_text(f"in {name}\n")
        for name, target in {
                "link": "d/f", "dirlink": "d", "up": "d/../f", "abs": f"{ws}/d/f", "absroot": str(ws),
                "d/back": "..", "d/sub/top": "../..", "dots": "./d/.//f", "trail": "d/", "filetrail": "f/",
                "out": "../outside-is-not-here", "outfile": f"{self.outside}/f", "outdir": str(self.outside),
                "climb": "d/../../x", "proc": "/proc/self/root/etc/passwd", "dangling": "nothing",
                "self": "self", "loop1": "loop2", "loop2": "loop1", "longlink": "n" * 256}.items():
            (ws / name).symlink_to(target)
        os.symlink("d/f", ws / "chain0")
        for i in range(1, 45):
            os.symlink(f"chain{i - 1}", ws / f"chain{i}")

    def names(self):
        found = []
        for directory, directories, files in os.walk(self.path):
            found += [os.path.join(directory, name) for name in directories + files]
        return sorted(found)

    def answer(self, tool, path, options=None):
        observation = self.client.observe(tool, {"path": path, **TOOLS[tool]}, options)
        return observation["output"] if observation["success"] else observation["error"]["code"]


@pytest.fixture(scope="module")
def tree(daemon):
    return Tree(daemon)


# Each path, and the file whose content read_file returns for it.
READS = {
    "f": "f", "./f": "f", ".//f": "f", "d/f": "d/f", "d//f": "d/f", "d/./f": "d/f", "d/../f": "f", "d/sub/../f": "d/f",
    "d/sub/../../d/sub/./f": "d/sub/f", "d\\sub\\f": "d/sub/f", "d\\..\\f": "f", "WS/f": "f", "WS//d/../f": "f",
    "WS/./d/f": "d/f", "link": "d/f", "dirlink/f": "d/f", "dirlink/../f": "f", "up": "f", "abs": "d/f", "absroot/d/f": "d/f",
    "absroot/absroot/f": "f", "d/back/f": "f", "d/sub/top/d/f": "d/f", "dots": "d/f", "trail/f": "d/f",
    "chain38": "d/f", "a%2fb": "a%2fb", "%2e%2e": "%2e%2e", "new\nline": "new\nline", " space ": " space ", "-dash": "-dash",
    "\u00fcml\u00e4ut": "\u00fcml\u00e4ut", "...": "...",
}


@pytest.mark.parametrize("path", READS, ids=ascii)
def test_reading(tree, path):
    output = tree.answer("read_file", path.replace("WS", str(tree.path)), RAW)
    assert isinstance(output, dict), output
    assert output["content"] == f"in {READS[path]}\n"


LONG = "n" * 256
# The errors of read_file, list_directory, search_files and write_file, in this order. None is success.
FAILS = {
    "": ["INVALID_ARGUMENTS"] * 4, "f\0": ["INVALID_ARGUMENTS"] * 4, "\0": ["INVALID_ARGUMENTS"] * 4,
    "..": [OUTSIDE] * 4, "../x": [OUTSIDE] * 4, "d/../..": [OUTSIDE] * 4, "d/../../x": [OUTSIDE] * 4,
    "d/./.././../x": [OUTSIDE] * 4, "nothing/../../x": [OUTSIDE] * 4, "/": [OUTSIDE] * 4, "//": [OUTSIDE] * 4,
    "/etc/passwd": [OUTSIDE] * 4, "WSx": [OUTSIDE] * 4, "WS/..": [OUTSIDE] * 4, "WS/../x": [OUTSIDE] * 4,
    "\\etc\\passwd": [OUTSIDE] * 4, "..\\x": [OUTSIDE] * 4, "C:\\x": [OUTSIDE] * 4, "c:x": [OUTSIDE] * 4, "Z:/f": [OUTSIDE] * 4,
    "d/back/..": [OUTSIDE] * 4, "dirlink/../../x": [OUTSIDE] * 4,
    "out": [LINK_OUT] * 4, "outfile": [LINK_OUT] * 4, "outdir": [LINK_OUT] * 4, "outdir/f": [LINK_OUT] * 4,
    "outdir/": [LINK_OUT] * 4, "climb": [LINK_OUT] * 4, "proc": [LINK_OUT] * 4, "outdir/../f": [LINK_OUT] * 4,
    "d/sub/top/outfile": [LINK_OUT] * 4,
    "self": ["TOO_MANY_LINKS"] * 4, "self/x": ["TOO_MANY_LINKS"] * 4, "loop1": ["TOO_MANY_LINKS"] * 4,
    "chain44": ["TOO_MANY_LINKS"] * 4,
    LONG: ["NAME_TOO_LONG"] * 4, "d/" + LONG: ["NAME_TOO_LONG"] * 4, "x/" * 2100: ["NAME_TOO_LONG"] * 4,
    "longlink": ["NAME_TOO_LONG"] * 4,
    "f/x": ["NOT_A_DIRECTORY"] * 4, "f/../f": ["NOT_A_DIRECTORY"] * 4, "link/x": ["NOT_A_DIRECTORY"] * 4,
    "f/": ["NOT_A_DIRECTORY"] * 3 + ["IS_A_DIRECTORY"], "f/.": ["NOT_A_DIRECTORY"] * 3 + ["IS_A_DIRECTORY", "NOT_A_DIRECTORY"],
    "filetrail": ["NOT_A_DIRECTORY"] * 3 + ["IS_A_DIRECTORY", "NOT_A_DIRECTORY"],
    ".": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"], "./": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"],
    "d": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"], "d/": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"],
    "d/.": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"], "d/..": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"],
    "dirlink": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"], "trail": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"],
    "absroot": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"], "WS": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"],
    "WS/": ["IS_A_DIRECTORY", None, None, "IS_A_DIRECTORY"],
    "nothing/../f": ["NOT_FOUND"] * 4, "%66": ["NOT_FOUND"] * 3 + ["-"], "d%2ff": ["NOT_FOUND"] * 3 + ["-"],
    "nothing": ["NOT_FOUND"] * 3 + ["-"], "dangling": ["NOT_FOUND"] * 3 + ["-"], "nothing/": ["NOT_FOUND"] * 3 + ["IS_A_DIRECTORY"],
}


@pytest.mark.parametrize("path", FAILS, ids=lambda path: ascii(path)[:40])
def test_refusals(tree, path):
    for i, tool in enumerate(TOOLS):
        expected = FAILS[path][i:] if tool == "write_file" else FAILS[path][i:i + 1]
        if expected == ["-"]:
            continue
        answer = tree.answer(tool, path.replace("WS", str(tree.path)))
        assert (None if isinstance(answer, dict) else answer) in expected, (tool, answer)


def test_what_was_refused_changed_nothing(tree):
    """Must run after the refusals above."""
    assert tree.names() == tree.holds
    assert os.listdir(tree.outside) == ["f"]
    assert (tree.outside / "f").read_text() == "secret\n"


@pytest.mark.parametrize("path,file", [
    ("w1", "w1"), ("./d//w2", "d/w2"), ("WS/d/../w3", "w3"), ("d\\w4", "d/w4"), ("dirlink/w5", "d/w5"), ("absroot/w6", "w6"),
    ("dirlink/../w7", "w7"), ("dangling", "nothing"), ("%2e%2e%2fw8", "%2e%2e%2fw8"), ("w\n9", "w\n9"), ("m/n/o", "m/n/o"),
    ("d/back/m/p", "m/p"), ("w" * 255, "w" * 255)], ids=lambda path: ascii(path)[:40])
def test_writing(tree, path, file):
    output = tree.answer("write_file", path.replace("WS", str(tree.path)))
    assert isinstance(output, dict), output
    with acting_as(tree.owner.st_uid, tree.owner.st_gid):
        assert (tree.path / file).read_text() == "new"
        (tree.path / file).unlink()
    assert os.listdir(tree.outside) == ["f"]


def test_a_deep_tree(tree):
    """Paths of many directories, up to PATH_MAX bytes."""
    deep = "/".join(["deep"] * 60)
    assert tree.client.use("write_file", path=f"{deep}/f", content="down here")["created"]
    assert tree.client.use("read_file", RAW, path=f"{deep}/f")["content"] == "down here"
    assert tree.answer("read_file", f"{deep}/" + "../" * 60 + "f", RAW)["content"] == "in f\n"
    assert tree.answer("read_file", f"{deep}/" + "../" * 61 + "f") == OUTSIDE
