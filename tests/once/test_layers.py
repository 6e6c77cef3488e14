# SPDX-License-Identifier: Apache-2.0
"""The order of cloisterd's folders in supervisor/LAYERS: no include and no call goes upwards. Also: which files may
wait with libevent directly."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
BUILD = ROOT / "build" / os.environ.get("CLOISTER_BUILD", "release")
MAX_FILES_OF_ITS_OWN = 3  # .c files directly in supervisor/
MAX_FILES = 24  # .c files in any other folder


def sources(folder):
    return sorted(path for path in folder.rglob("*.[ch]"))


def includes(path):
    return INCLUDE.findall(path.read_text())


def layers(root):
    lines = (root / "supervisor" / "LAYERS").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def faults(root):
    """Returns every include of cloisterd's folders that does not lead to an earlier line of LAYERS."""
    order = layers(root)
    found = []
    folders = sorted(path.name for path in (root / "supervisor").iterdir() if path.is_dir())
    if sorted(order) != folders:
        found.append(f"supervisor/LAYERS has {sorted(order)}, and there are {folders}")
    for name in folders:
        for path in sources(root / "supervisor" / name):
            for target in includes(path):
                parts = target.split("/")
                if parts[0] != "supervisor":
                    if parts[0] not in ("common", "json"):
                        found.append(f"{path.relative_to(root)} includes {target}")
                    continue
                if len(parts) < 3 or parts[1] not in order or order.index(parts[1]) > order.index(name):
                    found.append(f"{path.relative_to(root)} includes {target}")
    return found


def test_folders_include_downwards_only():
    assert faults(ROOT) == []


def test_one_upward_include_is_a_fault(tmp_path):
    """Checks the test itself: one upward include is added to the tree."""
    shutil.copytree(ROOT / "supervisor", tmp_path / "supervisor")
    assert faults(tmp_path) == []
    lowest, highest = layers(tmp_path)[0], layers(tmp_path)[-1]
    above = sources(tmp_path / "supervisor" / highest)[0].name
    victim = sources(tmp_path / "supervisor" / lowest)[0]
    victim.write_text(f'#include "supervisor/{highest}/{above}"\n' + victim.read_text())
    assert faults(tmp_path) == [
        f"supervisor/{lowest}/{victim.name} includes supervisor/{highest}/{above}"]


def symbols(library):
    """Returns the names that @library's objects define for others, and the names that they use (nm(1))."""
    found = {True: set(), False: set()}
    for line in subprocess.run(["nm", "--extern-only", "--format=posix", library], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        if len(fields := line.split()) > 1:
            found[fields[1] not in "Uvw"].add(fields[0])
    return found[True], found[False] - found[True]


def libraries():
    """Returns cloisterd's libraries from the bottom up, after those that are below supervisor/."""
    below = [BUILD / path for path in ("common/libcloister-common.a", "common/chain/libcloister-chain.a",
                                       "common/config/libcloister-config.a", "json/libcloister-json.a")]
    return below + [BUILD / "supervisor" / f"libsupervisor-{layer}.a" for layer in layers(ROOT)]


def upward_uses(ordered):
    """Returns [(name, defined, used)] from the bottom up: names that a library uses and only a later one defines."""
    return [f"{name} uses {symbol} of {above}" for number, (name, _, used) in enumerate(ordered)
            for above, defined, _ in ordered[number + 1:] for symbol in sorted(used & defined)]


def test_libraries_use_downwards_only():
    """No library uses a later one, even if a header of a lower layer declares the function or variable."""
    ordered = [(path.stem, *symbols(path)) for path in libraries()]
    assert all(defined for _, defined, _ in ordered)
    assert upward_uses(ordered) == []
    # The test sees downward uses: each layer uses something of a lower one.
    assert all(used & set().union(*(below for _, below, _ in ordered[:number]))
               for number, (name, _, used) in enumerate(ordered) if name.startswith("libsupervisor-"))


def test_one_upward_use_is_a_fault(tmp_path):
    """Checks the test itself: of two libraries with one object each, the lower one calls the higher one."""
    ordered = []
    for name, code in (("low", "int high(void); int low(void) { return high(); }"),
                       ("high", "int low(void); extern int x; int high(void) { return low() + x; }")):
        (tmp_path / f"{name}.c").write_text(code)
        subprocess.run(["cc", "-c", f"{name}.c"], cwd=tmp_path, check=True)
        subprocess.run(["ar", "rc", f"{name}.a", f"{name}.o"], cwd=tmp_path, check=True)
        ordered.append((name, *symbols(tmp_path / f"{name}.a")))
    assert upward_uses(ordered) == ["low uses high of high"]
    assert upward_uses(ordered[::-1]) == ["high uses low of low"]


def test_cloisterd_itself_is_small():
    assert len(list((ROOT / "supervisor").glob("*.c"))) <= MAX_FILES_OF_ITS_OWN


def crowded(root):
    """Returns the folders with more than MAX_FILES .c files."""
    folders = {path.parent for part in ("supervisor", "worker", "client", "egress") for path in (root / part).rglob("*.c")}
    return sorted(str(folder.relative_to(root)) for folder in folders if len(list(folder.glob("*.c"))) > MAX_FILES)


def test_folders_have_few_files():
    assert crowded(ROOT) == []


def test_a_crowded_folder_is_found(tmp_path):
    (tmp_path / "worker" / "x").mkdir(parents=True)
    for number in range(MAX_FILES + 1):
        assert crowded(tmp_path) == []
        (tmp_path / "worker" / "x" / f"{number}.c").touch()
    assert crowded(tmp_path) == ["worker/x"]


PRODUCT = ("common", "json", "libcloister", "client", "gate", "egress", "worker", "quota", "probe", "supervisor")


def unnamed(root):
    """Returns the .c files of the product that their folder's README does not name."""
    found = []
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.c")):
            readme = path.with_name("README")
            if not readme.exists() or path.stem not in re.findall(r"[\w-]+", readme.read_text()):
                found.append(str(path.relative_to(root)))
    return found


def test_each_folder_says_which_file_has_which_subject():
    assert unnamed(ROOT) == []


def test_a_file_without_a_subject_is_found(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "json_read.c").touch()
    assert unnamed(tmp_path) == ["json/json_read.c"]
    (tmp_path / "json" / "README").write_text("  json_read  values\n")
    assert unnamed(tmp_path) == []


# A file that a comment names: "call.h" or "connection/listener.h", not a header of the system.
NAMED = re.compile(r"(?<![\w<\"/.-])((?!src/|sys/|linux/|net\w*/)(?:\w+/)*\w+\.[ch])\b")


def lost_files(root):
    """Returns the files that comments of the product name and that do not exist."""
    tracked = [str(path.relative_to(root)) for folder in (*PRODUCT, "tests") for path in sources(root / folder)]
    ends = {"/".join(path.split("/")[at:]) for path in tracked for at in range(path.count("/") + 1)}
    return sorted({f"{path.relative_to(root)}: {named}" for folder in PRODUCT for path in sources(root / folder)
                   for comment in re.findall(r"/\*.*?\*/", path.read_text(), re.S)
                   for named in NAMED.findall(comment) if named not in ends})


def test_comments_name_files_that_exist():
    assert lost_files(ROOT) == []


def test_a_lost_file_is_found(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "a.h").write_text("/* a.h, json/a.h; linux/in.h */\n/* b.h, call/a.h */\n")
    assert lost_files(tmp_path) == ["json/a.h: b.h", "json/a.h: call/a.h"]


COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
EVENT_ADD = re.compile(r"\b(?:event_add|evsignal_add|evtimer_add)\s*\(")
CHECKED = re.compile(r"\w+\s*\([^;{}]*?\)\s*<\s*0")
OF_A_DESCRIPTOR = re.compile(r"\bevent_(?:new|assign)\s*\((?!\s*[^,]+,\s*-1\s*,)")


def event_faults(path):
    """Returns direct uses of libevent's events: event_add(3) may fail without memory or without watches of epoll(7)."""
    code = COMMENT.sub("", path.read_text())
    for match in EVENT_ADD.finditer(code):
        if not CHECKED.match(code, match.start()):
            yield f"{path.name} does not look whether event_add() failed"
    if OF_A_DESCRIPTOR.search(code):
        yield f"{path.name} waits for a descriptor other than by base/watch.h"


def test_no_event_is_lost():
    """Outside base/, files wait for descriptors and time through watch.h and timer.h, and check event_add(3) for
    signals."""
    assert [fault for path in sources(ROOT / "supervisor") if path.parent.name != "base"
            for fault in event_faults(path)] == []


@pytest.mark.parametrize("code,n", [
    ("if (event_add(a, NULL) < 0 || event_add(b(c), NULL) <\n 0)\n\treturn -1; /* event_add(3) */", 0),
    ("event_add(conn->readable, NULL);", 1),
    ("if (x)\n\tevent_add(a, &time);\nelse if (n < 0)\n\tstop();", 1),
    ("if (evsignal_add(a, NULL))\n\treturn;", 1),
    ("x->end = event_new(base, -1, 0, on_end, x);", 0),
    ("x->readable =\n\tevent_new(x->base, fd, EV_READ, on_readable, x);", 1),
    ("event_assign(&x, base, x->fds[0], EV_READ, on_readable, x);", 1)])
def test_a_lost_event_is_found(tmp_path, code, n):
    path = tmp_path / "x.c"
    path.write_text(code)
    assert len(list(event_faults(path))) == n


@pytest.mark.parametrize("folder", ["common", "worker", "probe", "client", "libcloister"])
def test_nothing_else_includes_the_supervisor(folder):
    """No program but cloisterd includes the supervisor. The spawner has more rights than cloisterd."""
    assert [(str(path.relative_to(ROOT)), target) for path in sources(ROOT / folder)
            for target in includes(path) if target.startswith("supervisor/")] == []


def cycle(graph):
    """Returns a cycle as a list of nodes, each of which leads to the next and the last to the first; or None."""
    done, way = set(), []

    def visit(node):
        if node in way:
            return way[way.index(node):]
        if node in done:
            return None
        way.append(node)
        for following in graph.get(node, ()):
            if found := visit(following):
                return found
        way.pop()
        done.add(node)
        return None

    for node in sorted(graph):
        if found := visit(node):
            return found
    return None


def test_a_cycle_is_found():
    assert cycle({"a": ["b"], "b": ["c"], "c": []}) is None
    assert cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"]


def file_graph(root, folders=("supervisor", "egress", "worker", "client")):
    """Returns {file: the files that it includes}. NAME.c, NAME.h and NAME_state.h are one file."""
    def stem(path):
        return str(path.with_suffix("")).removesuffix("_state")

    graph = {}
    for folder in folders:
        for path in sources(root / folder):
            name = stem(path.relative_to(root))
            graph.setdefault(name, set()).update(
                stem(pathlib.PurePath(target)) for target in includes(path) if target.split("/")[0] in folders)
            graph[name].discard(name)
    return graph


def circles(graph):
    """Returns the strongly connected components of more than one node, sorted (Tarjan, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for following in graph.get(node, ()):
            if following not in index:
                visit(following)
                low[node] = min(low[node], low[following])
            elif following in stack:
                low[node] = min(low[node], index[following])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(component for component in found if len(component) > 1)


def test_no_files_include_each_other():
    assert circles(file_graph(ROOT)) == []


def test_a_circle_of_files_is_found(tmp_path):
    """Checks the test itself: a private header counts for its file."""
    (tmp_path / "worker").mkdir()
    for name, target in (("a.c", "worker/b.h"), ("b.h", "worker/c.h"), ("c.c", "worker/a_state.h"), ("d.c", "worker/a.h")):
        (tmp_path / "worker" / name).write_text(f'#include "{target}"\n')
    assert circles(file_graph(tmp_path, ["worker"])) == [["worker/a", "worker/b", "worker/c"]]


def functions(source, end):
    """Returns the functions that C text declares (end ";") or defines (end "{") for other files."""
    source = re.sub(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", "", source, flags=re.S)
    source = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", source, flags=re.M)
    source = re.sub(r"__attribute__\(\(.*?\)\)\)?(?=[\s;{])", "", source, flags=re.S)
    level, outside = 0, []
    for part in re.split(r"([{}])", source):
        if part == "{":
            level += 1
            outside.append("{" if level == 1 else "")
        elif part == "}":
            level -= 1
            outside.append(";" if level == 0 else "")
        elif level == 0:
            outside.append(part)
    found = set()
    for statement, closed in re.findall(r"([^;{]*)([;{])", "".join(outside)):
        name = re.match(r"\s*(?!static\b|typedef\b|extern\b|_Static_assert\b)[A-Za-z_][\w\s*]*?\b(\w+)\s*\(", statement)
        if name and closed == end:
            found.add(name[1])
    return found


def homeless(root):
    """Returns functions that cloisterd's header X.h, or X_state.h, declares and X.c does not define. The handlers that
    X_methods.h declares for a table may be in any file of its folder."""
    found = []
    for header in sorted((root / "supervisor").rglob("*.h")):
        sources = [header.with_name(header.stem.removesuffix("_state") + ".c")]
        if header.stem.endswith("_methods") and not sources[0].exists():
            sources = sorted(header.parent.rglob("*.c"))
        defined = {name for source in sources if source.exists() for name in functions(source.read_text(), "{")}
        found += [f"{header.relative_to(root)}: {name}"
                  for name in sorted(functions(header.read_text(), ";") - defined)]
    return found


def test_a_header_declares_its_own_files_functions():
    assert homeless(ROOT) == []


def test_a_function_of_another_file_is_a_fault(tmp_path):
    """Checks the test itself: one function is moved to another file."""
    shutil.copytree(ROOT / "supervisor", tmp_path / "supervisor")
    assert homeless(tmp_path) == []
    header = tmp_path / "supervisor" / "call" / "request" / "call_name.h"
    assert functions(header.read_text(), ";")
    header.write_text(header.read_text() + "struct text *call_elsewhere(\n\tint fd, struct text *text);\n")
    assert homeless(tmp_path) == ["supervisor/call/request/call_name.h: call_elsewhere"]


@pytest.mark.parametrize("folder", ["libcloister", "client", "supervisor", "worker", "common"])
def test_no_headers_include_each_other(folder):
    headers = {str(path.relative_to(ROOT)): includes(path) for path in sources(ROOT / folder) if path.suffix == ".h"}
    assert cycle(headers) is None


def test_no_parts_of_libcloister_include_each_other():
    """Each part of libcloister is NAME.c with NAME.h, and no parts include each other."""
    graph = {}
    for path in sources(ROOT / "libcloister"):
        others = {pathlib.PurePath(target).stem for target in includes(path)
                  if (ROOT / target).exists() and (ROOT / target).parent.name == "libcloister"}
        graph.setdefault(path.stem, set()).update(others - {path.stem})
    assert cycle({part: sorted(others) for part, others in graph.items()}) is None


def test_nothing_else_is_linked_with_the_supervisor():
    """Only cloisterd links supervisor-NAME and cloister-supervisor (supervisor/CMakeLists.txt)."""
    folders = ("common", "worker", "probe", "client", "libcloister", "json")
    lists = [path for folder in folders for path in (ROOT / folder).rglob("CMakeLists.txt")]
    assert len(lists) >= 6
    links = re.compile(r"^[^#\n]*\b(?:cloister-supervisor|supervisor-[a-z]+|supervisor/)", re.M)
    assert [str(path.relative_to(ROOT)) for path in lists if links.search(path.read_text())] == []


def test_methods_find_managed_workspaces_where_bindings_are_checked():
    """A client may be bound to one workspace (doc/decisions/0195). workspace.open, which makes one, checks it itself."""
    callers = {path.name for path in (ROOT / "supervisor" / "agent").glob("*.c")
               if re.search(r"\bworkspaces_get_managed\w*\(", path.read_text())}
    assert callers == {"agent_workspace.c", "method_workspace.c"}
    openers = re.findall(r"\bworkspaces_get_managed\w*\(", (ROOT / "supervisor/agent/method_workspace.c").read_text())
    assert len(openers) == 1
