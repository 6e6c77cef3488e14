# SPDX-License-Identifier: Apache-2.0
"""Two hundred edits as models get them wrong: edit_file names the mistake, changes no byte, and what it says is enough
to make the edit."""

import pytest

import edit_mistakes

pytestmark = pytest.mark.usefixtures("as_user")


def test_there_are_two_hundred():
    assert len(edit_mistakes.MISTAKES) >= 200


def state(path):
    return path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()


def wrong(client, workspace, source, mistake):
    """What is wrong with the answer to a mistake, or None."""
    path, arguments = workspace / source.name, {"path": mistake.path or source.name, "edits": mistake.edits}
    if mistake.stale:
        path.write_bytes(b"before\n")
        arguments["expect"] = client.use("read_file", path=source.name)["version"]
    path.write_bytes(source.content.encode())
    before = state(path)
    error = client.fail("edit_file", **arguments)
    data = error.get("data") or {}
    told = error["code"], mistake.kind and data.get("kind"), mistake.line and (data.get("lines") or [None])[0]
    if state(path) != before:
        return f"the file changed: {error}"
    if told != (mistake.code, mistake.kind, mistake.line):
        return f"{told} for {(mistake.code, mistake.kind, mistake.line)}: {error}"
    if mistake.code == "NO_MATCH" and mistake.kind != "absent" and not error["message"]:
        return "no sentence"
    if mistake.kind in ("white_space", "different", "look_alike"):
        # The closest lines, copied, are a right edit.
        if not data["closest"].startswith(source.lines[0].rstrip("\r")):
            return f"closest: {data['closest']!r}"
        client.use("edit_file", path=source.name, edits=[edit_mistakes.edit(data["closest"])])
    return None


@pytest.mark.parametrize("source", edit_mistakes.SOURCES, ids=lambda source: source.name)
def test_each_mistake_is_named(client, workspace, source):
    of_it = [mistake for of, mistake in edit_mistakes.MISTAKES if of is source]
    answers = {mistake.name: wrong(client, workspace, source, mistake) for mistake in of_it}
    assert not {name: answer for name, answer in answers.items() if answer}
