# SPDX-License-Identifier: Apache-2.0
"""Workers and files processes that lie: cloisterd ends the process, answers each of its calls once, and serves all other
calls as before. tests/lib/liar.py takes the processes' places."""

import contextlib
import os

import jsonschema
import procfs
import pytest
from cloister_client import RpcError
from cells import Cell
from daemon import AM_ROOT, Area, Daemon, is_sanitized
from mcp_client import LEGACY, Mcp

COMMAND, READ, LIST = ("run_command", {"command": "echo real"}), ("read_file", {"path": "x"}), ("list_directory", {"path": "."})
SEARCH = ("search_files", {"pattern": "x"})
WRITE = ("write_file", {"path": "y", "content": "new"})
EDIT = ("edit_file", {"path": "x", "edits": [{"old": "line", "new": "row"}]})
PATCH = ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: x\n-line 1\n+row\n*** Add File: z\n*** End Patch"})
GROWTH_KIB = 65536  # of cloisterd, whatever a workspace's processes do; sanitizers keep what is freed
KEYED = (*WRITE, {"key": "k"})
KEYED_PATCH = (*PATCH, {"key": "k"})
LOST = {"WORKER_LOST"}


@pytest.fixture(scope="module", name="lied_to")
def lied_to_fixture(account):
    """A cloisterd whose processes lie where a workspace says so."""
    place = Area(account)
    place.take_liars()
    running = Daemon(place)
    yield running
    assert running.stop() == 0
    place.remove()


@pytest.fixture(scope="module")
def daemon(lied_to):
    return lied_to


class Liar:
    """A workspace with a process that lies."""

    def __init__(self, daemon, **lies):
        self.daemon, self.lies = daemon, lies
        self.path = daemon.area.new_directory()
        self.put("x", "line 1\n")
        for name, lie in lies.items():
            self.put(f".lie-{name}", lie)
        self.client = daemon.connect()

    def put(self, name, content):
        (self.path / name).write_text(content)
        self.daemon.account.own(self.path / name)

    def open(self):
        self.client.call("workspace.open", {"root": str(self.path)})
        return self

    def notes(self):
        found = "".join(file.read_text() for file in sorted(self.path.glob(".note-*")))
        assert "the lie failed" not in found, found
        return found.splitlines()

    def observe(self, call, options=None):
        return self.client.observe(*call[:2], *call[2:] or (options,))

    def close(self):
        self.client.close()


@contextlib.contextmanager
def undisturbed(daemon):
    """Checks that a call in another workspace succeeds meanwhile, and that cloisterd has not grown afterwards."""
    bystander = Cell(daemon)
    running = bystander.client.begin(
        "run_command", {"command": "mkfifo go; echo begun; read line <go; echo $line", "timeout_ms": 300000})
    bystander.client.use("write_file", path="there", content="")
    descriptors = len(procfs.fds(daemon.pid)) if AM_ROOT else 0
    before = procfs.rss_kib(daemon.pid)
    yield bystander
    assert procfs.rss_kib(daemon.pid) - before < GROWTH_KIB * (4 if is_sanitized() else 1)
    bystander.client.run("[ -p go ] || exit; echo undisturbed >go")
    output = bystander.client.result(running)["output"]
    assert (output["stdout"], output["exit_code"]) == ("begun\nundisturbed\n", 0)
    assert bystander.client.use("read_file", {"line_numbers": False}, path="there")["content"] == ""
    assert not bystander.client.answers, "somebody else's answer"
    assert daemon.process.poll() is None
    if AM_ROOT:  # the command's two pipes are closed too, and new pipes may have been made ahead
        assert procfs.eventually(lambda: len(procfs.fds(daemon.pid)) <= descriptors + 8)
    bystander.close()


def batches(names, n=5):
    """So many lies of a table are told beside one other call."""
    names = list(names)
    return pytest.mark.parametrize("names", [names[i:i + n] for i in range(0, len(names), n)], ids=" | ".join)


def is_only_answer(liar):
    """Checks that no other answer came and that the connection still works."""
    assert liar.client.call("tools.list", {"format": "mcp"})["tools"]
    assert not liar.client.answers


# Lies before the process is ready: the lie, and a part of the refusal.

FIRST_WORDS = {
    "another type": "send(frame(COMMAND_ENDED, 0, command_ended())); wait()",
    "a request's type": "send(frame(COMMAND_RUN, 0, command_run(0))); wait()",
    "ready with a payload": "send(frame(READY, 0, b'x')); wait()",
    "ready with half of a limit": "send(frame(READY, 0, files_ready()[:4])); wait()",
    "another version": "send(frame(READY, version=2)); wait()",
    "a length beyond every frame": "send(frame(READY, length=PAYLOAD_MAX + 1)); wait()",
    "the largest length": "send(frame(READY, length=2**32 - 1)); wait()",
    "descriptors that a pipe has not": "send(frame(READY, fds=1)); wait()",
    "more of them than any frame has": "send(frame(READY, fds=65535)); wait()",
    "a failure of wrong length": "send(frame(FAILED, 0, failure('x', 1) + b'y')); wait()",
    "a failure whose text ends elsewhere": "send(frame(FAILED, 0, text('x', 200))); wait()",
    "a failure with a long text": "send(frame(FAILED, 0, failure(b'x' * 300, 1))); wait()",
    "a failure with a strange text": "send(frame(FAILED, 0, failure(b'\\xff\\x00\\x1b[2J\"\\n', 2**32 - 1))); wait()",
    "half a frame": "send(frame(READY)[:7])",
    "nothing": "pass",
    "a flood": "chunk = frame(COMMAND_ENDED, 7, command_ended()) * 1000\nwhile True: send(chunk)",
    "noise": "import os\nwhile True: send(os.urandom(65536))",
}


# Both processes' frames are read by the same code (process_link.c), and test_cell.c has the types that each may send.
@pytest.mark.parametrize("process", ["worker", pytest.param("files", marks=pytest.mark.deep("repeats"))])
@batches(FIRST_WORDS)
def test_first_words(daemon, process, names):
    with undisturbed(daemon):
        for name in names:
            liar = Liar(daemon, **{process: FIRST_WORDS[name]})
            with pytest.raises(RpcError) as caught:
                liar.open()
            assert caught.value.name == "EXECUTION_ERROR", name
            is_only_answer(liar)
            assert not liar.notes(), name
            liar.close()


# Lies as answers: the process, the lie, and the allowed answers to the call (error codes, or "success").
# In a lie, `call` is the number of the request.

FILE_REQUEST = "request(FILES_READ, FILES_WRITE, FILES_LIST, FILES_SEARCH, FILES_EDIT, FILES_PATCH)"


def worker(lie):
    return {"worker": f"be_ready(); kind, call, payload, fds = request(COMMAND_RUN)\n{lie}\nwait()"}


def files(lie):
    return {"files": f"be_ready(); kind, call, payload, fds = {FILE_REQUEST}\n{lie}\nwait()"}


GOOD_END = "send(frame(COMMAND_ENDED, call, command_ended()))"
GOOD_FILES_END = "send(frame(FILES_END, call, files_end()))"
NOT_MADE = "send(frame(FILES_END, call, files_end(error=NO_MATCH)))"
TROUBLE = "send(frame(FILES_TROUBLE, call, files_trouble(closest='x', lines=[1])))"
HELD = "send(frame(FILES_HELD, call, files_held()))"
ANSWERS = {
    "worker: an end that is too short": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended()[:-1]))"), LOST),
    "worker: an end that is too long": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended() + b'x'))"), LOST),
    "worker: no end at all": (COMMAND, worker("send(frame(COMMAND_ENDED, call))"), LOST),
    "worker: an end of no kind": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(end=3)))"), LOST),
    "worker: a flag that is none": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(flag=2)))"), LOST),
    "worker: a status that is no end": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(status=0x137f)))"), LOST),
    "worker: a status that is nothing": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(status=2**32-1)))"), LOST),
    "worker: a type of the other's": (COMMAND, worker("send(frame(FILES_END, call, files_end()))"), LOST),
    "worker: a type of nobody's": (COMMAND, worker("send(frame(200, call))"), LOST),
    "worker: a type of nobody's for nobody": (COMMAND, worker("send(frame(200, 1))"), LOST),
    "worker: ready again": (COMMAND, worker("be_ready()"), LOST),
    "worker: failed after all": (COMMAND, worker("send(frame(FAILED, 0, failure('x', 1)))"), LOST),
    "worker: half an answer and its death": (
        COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended())[:40]); sys.exit(0)"), LOST),
    "worker: its death": (COMMAND, worker("os.abort()"), LOST),
    "worker: hanging up": (COMMAND, worker("os.close(UP)"), LOST),
    "worker: the largest numbers": (
        COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(status=0xffbf, number=2**64-1, flag=1)))"),
        {"success", "MEMORY_LIMIT", "PROCESS_LIMIT", "EXECUTION_ERROR"}),
    "worker: not begun, with an error that is none": (
        COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(end=END_NOT_BEGUN, error=2**32-1)))"),
        {"EXECUTION_ERROR"}),
    "worker: told, and was not": (COMMAND, worker("send(frame(COMMAND_ENDED, call, command_ended(end=END_TERMINATED)))"), {"success"}),
    "worker: an end twice": (COMMAND, worker(GOOD_END + "; " + GOOD_END), {"success"}),
    "worker: no call's end first": (COMMAND, worker("send(frame(COMMAND_ENDED, 0, command_ended(status=256))); " + GOOD_END), {"success"}),
    "worker: held, without a network": (COMMAND, worker("send(frame(COMMAND_HELD, call, command_held())); " + GOOD_END), LOST),
    "worker: held, for nobody": (COMMAND, worker("send(frame(COMMAND_HELD, call + 1, command_held())); " + GOOD_END), {"success"}),
    "worker: a forward's end, of none": (
        COMMAND, worker("send(frame(COMMAND_FORWARD_ENDED, call, b'')); " + GOOD_END), LOST),
    "worker: stopped, for nobody": (COMMAND, worker("send(frame(COMMAND_PAUSED, call, command_paused())); " + GOOD_END), {"success"}),
    "worker: stopped, half": (COMMAND, worker("send(frame(COMMAND_PAUSED, call, command_paused(2))); " + GOOD_END), LOST),
    "worker: stopped, without a word": (COMMAND, worker("send(frame(COMMAND_PAUSED, call)); " + GOOD_END), LOST),
    "worker: a flood of stops": (
        COMMAND, worker("chunk = frame(COMMAND_PAUSED, call, command_paused()) * 1000\nwhile True: send(chunk)"), LOST),
    "worker: a flood of ends": (
        COMMAND, worker("chunk = frame(COMMAND_ENDED, call - 1, command_ended()) * 1000\nwhile True: send(chunk)"), LOST),
    "files: content that is empty": (READ, files("send(frame(FILES_DATA, call, b'')); " + GOOD_FILES_END), LOST),
    "files: empty content of nobody's": (READ, files("send(frame(FILES_DATA, call - 1, b'')); " + GOOD_FILES_END), LOST),
    "files: an end of a wrong length": (READ, files("send(frame(FILES_END, call, files_end() + b'x'))"), LOST),
    "files: no end at all": (READ, files("send(frame(FILES_END, call))"), LOST),
    "files: an error that is none": (READ, files("send(frame(FILES_END, call, files_end(error=10000)))"), LOST),
    "files: a text that ends elsewhere": (READ, files("send(frame(FILES_END, call, struct.pack('=II', 0, 2**32-1)))"), LOST),
    "files: a request's type": (READ, files("send(frame(FILES_READ, call, files_read('x')))"), LOST),
    "files: a type of nobody's for nobody": (READ, files("send(frame(200, 1))"), LOST),
    "files: entries to a read": (READ, files("send(frame(FILES_ENTRY, call, files_entry('x')))"), LOST),
    "files: matches to a listing": (LIST, files("send(frame(FILES_MATCH, call, files_match('x')))"), LOST),
    "files: content to a listing": (LIST, files("send(frame(FILES_DATA, call, b'x'))"), LOST),
    "files: an image that was not asked for": (READ, files("send(frame(FILES_IMAGE, call, b'x'))"), LOST),
    "files: an image to a listing": (LIST, files("send(frame(FILES_IMAGE, call, b'x'))"), LOST),
    "files: content to a write": (WRITE, files("send(frame(FILES_DATA, call, b'x'))"), LOST),
    "files: an entry of no type": (LIST, files("send(frame(FILES_ENTRY, call, files_entry('x', kind=9)))"), LOST),
    "files: a match with a long text": (SEARCH, files("send(frame(FILES_MATCH, call, files_match('x', 1, 'x' * 2001)))"), LOST),
    "files: content without an end": (
        READ, files("chunk = frame(FILES_DATA, call, b'x' * 60000)\nwhile True: send(chunk)"), LOST),
    "files: too many entries": (
        LIST, files("send(*[frame(FILES_ENTRY, call, files_entry('x' * 100))] * 50000); " + GOOD_FILES_END), {"success"}),
    "files: too many long entries": (
        LIST, files("send(*[frame(FILES_ENTRY, call, files_entry('x' * 60000))] * 2000); " + GOOD_FILES_END), {"success"}),
    "files: too many matches": (
        SEARCH, files("send(*[frame(FILES_MATCH, call, files_match('x', 2**64-1, 'x'))] * 5000); " + GOOD_FILES_END), {"success"}),
    "files: the largest numbers": (
        READ, files("send(frame(FILES_END, call, files_end(flags=(1, 0, 1), number=2**64-1)))"), {"success"}),
    "files: strange texts": (
        READ, files("send(frame(FILES_END, call, files_end(path=b'../\\xff\\x00\"\\n', flags=(0, 1, 0), kind=b'\\x1b[2J\"\\\\')))"),
        {"success"}),
    "files: a strange refusal": (
        READ, files("send(frame(FILES_END, call, files_end(error=5, message=b'\\xff\\x00\"\\n\\x1b[2J')))"), None),
    "files: cancelled, and was not": (READ, files("send(frame(FILES_END, call, files_end(error=18)))"), None),
    "files: content after its end": (
        READ, files(GOOD_FILES_END + "; send(frame(FILES_DATA, call, b'more')); " + GOOD_FILES_END), {"success"}),
    "files: trouble with a read": (READ, files(TROUBLE + "; " + GOOD_FILES_END), LOST),
    "files: trouble twice": (EDIT, files(TROUBLE + "; " + TROUBLE + "; " + NOT_MADE), LOST),
    "files: trouble with more lines than come": (
        EDIT, files("send(frame(FILES_TROUBLE, call, files_trouble(lines=[1], count=2))); " + NOT_MADE), LOST),
    "files: trouble with too many lines": (
        EDIT, files("send(frame(FILES_TROUBLE, call, files_trouble(lines=[1] * 11))); " + NOT_MADE), LOST),
    "files: trouble with the largest count of lines": (
        EDIT, files("send(frame(FILES_TROUBLE, call, files_trouble(count=2**32-1))); " + NOT_MADE), LOST),
    "files: trouble with a long word": (
        EDIT, files("send(frame(FILES_TROUBLE, call, files_trouble(kind='x' * 256))); " + NOT_MADE), LOST),
    "files: trouble with more than a model reads": (
        EDIT, files("send(frame(FILES_TROUBLE, call, files_trouble(closest='x' * 1025))); " + NOT_MADE), LOST),
    "files: trouble with strange texts": (
        EDIT, files("send(frame(FILES_TROUBLE, call, files_trouble(2**32-1, b'\\xff\\x00\"', b'\\xff\\x00\"\\n' * 200, "
                    "[2**64-1] * 10))); " + NOT_MADE), {"NO_MATCH"}),
    "files: trouble with an edit that was made": (EDIT, files(TROUBLE + "; " + GOOD_FILES_END), {"success"}),
    "files: trouble after the diff": (
        EDIT, files("send(frame(FILES_DATA, call, b'x' * 4096)); " + TROUBLE + "; " + NOT_MADE), {"NO_MATCH"}),
    "files: a long diff": (
        EDIT, files("send(*[frame(FILES_DATA, call, b'x' * 4096), frame(FILES_DATA, call, b'x')]); " + GOOD_FILES_END), LOST),
    "files: an entry to an edit": (EDIT, files("send(frame(FILES_ENTRY, call, files_entry('x'))); " + GOOD_FILES_END), LOST),
    "files: a version that is too long": (EDIT, files("send(frame(FILES_END, call, files_end(version='x' * 33)))"), LOST),
    "files: a change that nobody held": (WRITE, files(HELD + "; " + GOOD_FILES_END), LOST),
    "files: a change with a key that was not told": (KEYED, files(GOOD_FILES_END), LOST),
    "files: a change with a key, told twice": (KEYED, files("send(frame(FILES_HELD, call, files_held()) * 2)"), LOST),
    "files: a change with a key, made before it was recorded": (KEYED, files(HELD + "; " + GOOD_FILES_END), {*LOST, "success"}),
    "files: a change with a key, with a long version": (
        KEYED, files("send(frame(FILES_HELD, call, files_held(after='x' * 33)))"), LOST),
    "files: a change with a key, with half a version": (
        KEYED, files("send(frame(FILES_HELD, call, files_held(after='x\\0y')))"), LOST),
    "files: a patch with a key, and nothing of its files": (KEYED_PATCH, files(HELD), LOST),
    "files: a patch with a key, made before it was told": (KEYED_PATCH, files(GOOD_FILES_END), LOST),
    "files: a patch with a key, with strange versions": (
        KEYED_PATCH, files("send(frame(FILES_PATCHED, call, files_patched(found=' / x ', version=' ')), frame(FILES_HELD, call, "
                           "files_held())); request(FILES_GO); " + GOOD_FILES_END), {"success"}),
    "files: a patch with a key, with a long version": (
        KEYED_PATCH, files("send(frame(FILES_PATCHED, call, files_patched(found='x' * 66)))"), LOST),
    "files: a patch with a key, with as much as there can be": (
        KEYED_PATCH, files("send(*[frame(FILES_PATCHED, call, files_patched(i, FILES_MOVE, found='x' * 65, version='y' * 32)) "
                           "for i in range(64)], frame(FILES_HELD, call, files_held())); request(FILES_GO); sys.exit(0)"), LOST),
    "files: a change with a key, and its death": (KEYED, files(HELD + "; sys.exit(0)"), LOST),
    "files: a patched file to an edit": (EDIT, files("send(frame(FILES_PATCHED, call, files_patched())); " + GOOD_FILES_END), LOST),
    "files: a step to a read": (READ, files("send(frame(FILES_STEP, call, files_step())); " + GOOD_FILES_END), LOST),
    "files: a step of no file": (PATCH, files("send(frame(FILES_STEP, call, files_step())); " + GOOD_FILES_END), LOST),
    "files: a step of the next file": (
        PATCH, files("send(frame(FILES_PATCHED, call, files_patched()), frame(FILES_STEP, call, files_step(1)))"), LOST),
    "files: patched files out of order": (
        PATCH, files("send(frame(FILES_PATCHED, call, files_patched()), frame(FILES_PATCHED, call, files_patched(2)))"), LOST),
    "files: a patched file too many": (
        PATCH, files("send(*[frame(FILES_PATCHED, call, files_patched(i)) for i in range(65)]); " + GOOD_FILES_END), LOST),
    "files: a patched file with a long path": (
        PATCH, files("send(frame(FILES_PATCHED, call, files_patched(path='x' * 4097))); " + GOOD_FILES_END), LOST),
    "files: patched files all over again": (
        PATCH, files("send(*[frame(FILES_PATCHED, call, files_patched(path='x' * 4096))] * 2000); " + GOOD_FILES_END), {"success"}),
    "files: patched files with strange texts": (
        PATCH, files("send(frame(FILES_PATCHED, call, files_patched(0, FILES_MOVE, b'\\xff\\x00\"', 2**64-1, b'\\xff' * 32, b'\\n'))); "
                     + GOOD_FILES_END), {"success"}),
    "files: content to a patch": (PATCH, files("send(frame(FILES_DATA, call, b'x')); " + GOOD_FILES_END), LOST),
    "files: steps of a patch, and its death": (
        PATCH, files("send(frame(FILES_PATCHED, call, files_patched(path=b'\\xff' * 4096)), frame(FILES_STEP, call, files_step())); "
                     "sys.exit(0)"), LOST),
    "files: half an answer and its death": (
        READ, files("send(frame(FILES_DATA, call, b'x' * 1000)[:500]); sys.exit(0)"), LOST),
    "files: a flood for nobody": (
        READ, files("chunk = frame(FILES_DATA, call - 1, b'x' * 60000)\nwhile True: send(chunk)"), LOST),
}


@batches(ANSWERS)
def test_answers(daemon, names):
    with undisturbed(daemon):
        for name in names:
            call, lies, wanted = ANSWERS[name]
            liar = Liar(daemon, **lies).open()
            observation = liar.observe(call)
            code = "success" if observation["success"] else observation["error"]["code"]
            assert wanted is None and code != "success" or code in wanted, (name, observation)
            if observation["success"] and call in (LIST, SEARCH):
                assert len(observation["output"]["matches" if call is SEARCH else "entries"]) <= 10000, name
                assert observation["output"]["truncated"], name
            is_only_answer(liar)
            assert not liar.notes(), name
            liar.close()


def test_an_image_is_no_larger_than_an_image_may_be(daemon):
    """Also after more content than that. Only a client of MCP is shown images."""
    lie = files("send(*[frame(FILES_DATA, call, b'x' * 60000)] * 20, *[frame(FILES_IMAGE, call, b'x' * 60000)] * 40)\n"
                "send(frame(FILES_END, call, files_end(flags=(1, 1, 0), kind='image/png')))")
    with undisturbed(daemon):
        liar = Liar(daemon, **lie).open()
        result = Mcp(liar.client, LEGACY).ready().call("read_file", path="x")
        assert result["isError"] and result["structuredContent"]["error"]["code"] == "WORKER_LOST", str(result)[:500]
        liar.close()


def test_the_codes_are_those_that_are_meant(daemon):
    """Numbers of errors in the lies above are read from where they are."""
    liar = Liar(daemon, **ANSWERS["files: cancelled, and was not"][1]).open()
    assert liar.observe(READ)["error"]["code"] == "CANCELLED"
    liar.close()


@pytest.mark.parametrize("end", ["files_end()", "files_end(path='', number=2**64-1, flags=(1, 0, 1))",
                                 "files_end(path=b'\\xff', version=b'\\xff' * 32)"])
def test_output_schemas_hold_whatever_a_files_process_says(account, end):
    """The tools promise models' programs the members of an output, and their types."""
    place = Area(account)
    place.take_liars()
    running = Daemon(place, config=f"[tenant t]\nusers = {account.name}\nroots = /\ntools = basic edit patch\n")
    liar = Liar(running, **files(f"while True:\n    send(frame(FILES_END, call, {end}))\n"
                                 f"    kind, call, payload, fds = {FILE_REQUEST}"))
    liar.open()
    schemas = {tool["name"]: tool["outputSchema"] for tool in liar.client.call("tools.list", {"format": "mcp"})["tools"]}
    for call in (READ, WRITE, LIST, SEARCH, EDIT, PATCH):
        observation = liar.observe(call)
        assert observation["success"]
        jsonschema.validate(observation, schemas[call[0]])
    liar.close()
    assert running.stop() == 0
    place.remove()


# Other calls: of the same workspace, of another, of another tenant.

SPRAY = """
for other in range(call - 300, call + 300):
    if other != call:
        send(frame(COMMAND_ENDED, other, command_ended(status=66 << 8)))
note('sprayed')
""" + GOOD_END
WAITS = "while [ ! -e sprayed ]; do sleep 0.02; done; echo own"


def test_answers_to_calls_of_another_workspace(daemon):
    with undisturbed(daemon) as bystander:
        others = [bystander.client.begin("run_command", {"command": WAITS}) for _ in range(8)]
        liar = Liar(daemon, **worker(SPRAY)).open()
        assert liar.observe(COMMAND)["success"]
        bystander.client.use("write_file", path="sprayed", content="")
        for number in others:
            assert bystander.client.result(number)["output"]["stdout"] == "own\n"
        is_only_answer(liar)
        liar.close()


def test_answers_to_file_calls_of_another_workspace(daemon):
    lie = files("for other in range(call - 300, call + 300):\n    if other != call: send(frame(FILES_END, other, files_end(path='lie')))\n"
                + GOOD_FILES_END)
    with undisturbed(daemon) as bystander:
        liar = Liar(daemon, **lie).open()
        number = liar.client.begin(*READ)
        for _ in range(50):
            assert bystander.client.use("list_directory", path=".")["path"] == "."
        assert liar.client.result(number)["success"]
        is_only_answer(liar)
        liar.close()


def test_answers_to_calls_of_another_tenant(account, tenants):
    # A spare cell does not know its workspace when it starts, so the liar cannot be placed in it.
    config = "[cloister]\nagent_socket_mode = 0666\nspare_cells = 0\n" + "".join(
        f"[tenant {user.name}]\nusers = {user.name}\nmanaged = yes\n" for user in tenants[:2])
    place = Area(account)
    place.take_liars()
    running = Daemon(place, config=config)
    victim, attacker = (running.connect(user) for user in tenants[:2])
    for client in (victim, attacker):
        client.call("workspace.open", {"workspace": "w"})
    attacker.use("write_file", path=".lie-worker", content=worker(SPRAY)["worker"])
    attacker.call("workspace.close", {"workspace": "w"})
    assert procfs.eventually(lambda: len(running.cells()) == 1)
    numbers = [victim.begin("run_command", {"command": WAITS}) for _ in range(8)]
    attacker.call("workspace.open", {"workspace": "w"})
    assert attacker.observe(*COMMAND)["success"]
    assert attacker.use("read_file", {"line_numbers": False}, path=".note-worker")["content"] == "sprayed\n"
    victim.use("write_file", path="sprayed", content="")
    for number in numbers:
        assert victim.result(number)["output"]["stdout"] == "own\n"
    assert not victim.answers and not attacker.answers
    assert running.stop() == 0
    place.remove()


@pytest.mark.deep("slow")
@pytest.mark.parametrize("process", ["worker", "files"])
def test_answers_to_the_other_processes_calls(daemon, process):
    """A worker answers a file call, and a files process answers a command."""
    silent = "be_ready(); wait()"
    lies = {"worker": silent, "files": silent}
    kind, payload = {"worker": ("COMMAND_ENDED", "command_ended()"), "files": ("FILES_END", "files_end()")}[process]
    lies[process] = (worker if process == "worker" else files)(
        f"for other in range(call - 10, call): send(frame({kind}, other, {payload}))")[process]
    first, second = (READ, COMMAND) if process == "worker" else (COMMAND, READ)
    with undisturbed(daemon):
        liar = Liar(daemon, **lies).open()
        numbers = [liar.client.begin(*call, {"timeout_ms": 1000}) for call in (first, second)]
        for number in numbers:
            assert liar.client.result(number)["error"]["code"] == "WORKER_LOST"
        is_only_answer(liar)
        liar.close()


def test_calls_that_are_not_made_yet(daemon):
    """A lie about a future call has no effect: the call gets its true answer."""
    with undisturbed(daemon):
        liar = Liar(daemon, **worker(
            "for other in range(call + 1, call + 100): send(frame(COMMAND_ENDED, other, command_ended(status=66 << 8)))\n" + GOOD_END +
            "\nkind, call, payload, fds = request(COMMAND_RUN)\ntime.sleep(0.2)\n" + GOOD_END)).open()
        assert [liar.observe(COMMAND)["output"]["exit_code"] for _ in range(2)] == [0, 0]
        is_only_answer(liar)
        liar.close()


def test_the_output_of_a_call_that_is_over(daemon):
    """A worker kept a command's pipes and writes into them during the next command."""
    with undisturbed(daemon):
        liar = Liar(daemon, **worker("""
kept = fds
os.write(kept[0], b'first'); """ + GOOD_END + """
kind, call, payload, fds = request(COMMAND_RUN)
import signal
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
for fd in kept:  # cloisterd's threads close them a little later
    try:
        while True:
            os.write(fd, b'stolen')
    except BrokenPipeError:
        note('broken')
""" + GOOD_END)).open()
        outputs = [liar.observe(COMMAND)["output"] for _ in range(2)]
        assert [output["stdout"] + output["stderr"] for output in outputs] == ["first", ""]
        assert liar.notes() == ["broken", "broken"]
        liar.close()


def test_a_cancelled_call_is_answered_once(daemon):
    lie = worker("note('begun'); request(COMMAND_TERMINATE)\n" + "; ".join(
        f"send(frame(COMMAND_ENDED, call, command_ended(end={end})))" for end in ("END_EXIT", "END_TERMINATED", "END_NOT_BEGUN")))
    with undisturbed(daemon):
        liar = Liar(daemon, **lie).open()
        number = liar.client.begin(*COMMAND)
        assert procfs.eventually(liar.notes)
        assert liar.client.cancel(number)
        assert liar.client.result(number)["output"] is not None
        is_only_answer(liar)
        assert not liar.client.cancel(number)
        liar.close()


@pytest.mark.skipif(not AM_ROOT, reason="needs root to look into other processes")
@pytest.mark.parametrize("process", ["worker", "files"])
def test_descriptors_cannot_be_sent_up(daemon, process):
    """Not by the socket of its requests, which cloisterd does not read; test_hostile_pipes.py has that of its results."""
    lie = """
import socket
made = socket.socketpair()
try:
    socket.socket(fileno=os.dup(DOWN)).sendmsg(
        [frame(READY)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack('=i', made[0].fileno()))])
    note('sent')
except OSError as error:
    note(error.errno)
be_ready()
wait()"""
    with undisturbed(daemon):
        before = procfs.fds(daemon.pid)
        liar = Liar(daemon, **{process: lie}).open()
        assert liar.notes() == ["32"]  # EPIPE
        made = set(procfs.fds(daemon.pid).values()) - set(before.values())
        # The connection, four sockets to processes, and the one that tells which ports listen.
        assert sum("socket" in target for target in made) == 6
        liar.close()


# Processes that stay silent or do not read. All run at once, for as long as cloisterd may wait.

SILENT = {
    "no first word": ({"worker": "wait()"}, None),
    "no first word of files": ({"files": "wait()"}, None),
    "no end of a command": ({"worker": "be_ready(); wait()"}, COMMAND),
    "half an end": ({"worker": "be_ready(); r = request(COMMAND_RUN)\nsend(frame(COMMAND_ENDED, r[1], command_ended())[:50]); wait()"}, COMMAND),
    "no end of a file call": ({"files": "be_ready(); wait()"}, READ),
    "half a file's": ({"files": "be_ready(); r = request(FILES_READ)\nsend(frame(FILES_DATA, r[1], b'xxxx')[:18]); wait()"}, READ),
    "reads nothing": ({"files": "be_ready(); time.sleep(600)"}, ("write_file", {"path": "y", "content": "x" * (4 << 20)})),
}


@pytest.mark.deep("slow")
def test_silence(daemon):
    with undisturbed(daemon):
        liars = {name: Liar(daemon, **lies) for name, (lies, _) in SILENT.items()}
        waiting = {}
        for name, (_, call) in SILENT.items():
            liar = liars[name]
            if not call:
                waiting[name] = [liar.client.request("workspace.open", {"root": str(liar.path)})]
                continue
            liar.open()
            waiting[name] = [liar.client.begin(*call, {"timeout_ms": 300}) for _ in range(4 if name == "reads nothing" else 1)]
        for name, numbers in waiting.items():
            for number in numbers:
                answer = liars[name].client.wait(number, 120)
                if SILENT[name][1]:
                    assert answer["result"]["error"]["code"] == "WORKER_LOST", name
                else:
                    assert answer["error"]["data"]["code"] == "EXECUTION_ERROR", name
            is_only_answer(liars[name])
            liars[name].close()


def test_they_end_with_cloisterd(account):
    """Processes end with cloisterd even if they never read."""
    place = Area(account)
    place.take_liars()
    running = Daemon(place)
    for process in ("worker", "files"):
        Liar(running, **{process: "be_ready()\nimport signal\nsignal.pthread_sigmask(signal.SIG_SETMASK, range(1, 32))\n"
                         "while True: time.sleep(600)"}).open()
    # Except the sweep of a workspace that was just opened, and path resolvers.
    assert procfs.eventually(lambda: len(procfs.descendants(running.pid, without_path_resolvers=True)) == 5)
    everything = procfs.descendants(running.pid)
    assert running.stop() == 0
    assert procfs.vanish(everything)
    place.remove()


def test_what_a_peer_says_reaches_no_terminal(daemon):
    """The log is read on terminals."""
    liar = Liar(daemon, worker=FIRST_WORDS["a failure with a strange text"])
    with pytest.raises(RpcError):
        liar.open()
    assert "\x1b" not in daemon.log()
    liar.close()
    assert os.path.exists(daemon.log_path)


# A worker that is to stop its commands, so that the workspace is measured meanwhile, and what it does.

STOPS = {
    "it never answers": "pass",
    "it cannot": "send(frame(COMMAND_PAUSED, call, command_paused(0)))",
    "it says so, and goes on": "send(frame(COMMAND_PAUSED, call, command_paused()))",
    "it says so twice": "send(frame(COMMAND_PAUSED, call, command_paused()) * 2)",
    "it says so too late": "call = request(COMMAND_PAUSE)[1]; send(frame(COMMAND_PAUSED, call, command_paused()))",
    "it says so of the next": "send(frame(COMMAND_PAUSED, call + 1, command_paused()))",
}


@pytest.mark.deep("slow")
def test_workers_that_do_not_stop_their_commands(account, delegation):
    """Their workspaces are measured nevertheless, and what is written there by other calls waits for a second at most."""
    place = Area(account)
    place.take_liars()
    daemon = Daemon(place, config=f"[cloister]\nadmin_group = {account.gid}\nspare_cells = 0\ndisk_classes = one:64M:1000:10\n"
                    f"[tenant t]\nusers = {account.name}\nroots = {place.path}\n", launcher=delegation.launcher())

    def is_measured(liar):
        with daemon.control() as control:
            row = next(row for row in control.call("workspaces")["workspaces"] if row["workspace"] == str(liar.path))
        assert row["disk_limited_by"] == "measured"
        return row["disk_files"] == len(list(liar.path.iterdir()))

    try:
        liars = [Liar(daemon, worker="be_ready(); request(COMMAND_RUN)\nwhile True:\n"
                      "    kind, call, payload, _ = request(COMMAND_PAUSE, COMMAND_TERMINATE)\n"
                      "    if kind == COMMAND_TERMINATE: sys.exit(0)\n"
                      f"    if payload != command_pause(): note(payload == command_pause(1000)); {lie}\n").open() for lie in STOPS.values()]
        for liar in liars:
            liar.client.request("session.start", {"command": "real"})
        for liar in liars:
            assert procfs.eventually(liar.notes)[0] == "True"
            assert liar.observe(("write_file", {"path": "more", "content": "x"}))["success"]
        assert procfs.eventually(lambda: all(map(is_measured, liars)))
        for liar in liars:
            liar.close()
    finally:
        assert daemon.stop() == 0
        place.remove()
