# SPDX-License-Identifier: Apache-2.0
"""clients/typescript, packed and installed as a program gets it: tests/lib/typescript_client.mjs against cloisterd."""

import json
import re
import shutil
import subprocess
import tarfile

import pytest

from daemon import ROOT, environment
from npm import Packages

SCRIPT = ROOT / "tests" / "lib" / "typescript_client.mjs"
CASES = re.findall(r"^cases\.(\w+) = ", SCRIPT.read_text(), re.M)
MANIFEST = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())


@pytest.fixture(scope="module")
def packages(area, typescript_client):
    made = Packages(area.new_directory("npm"), {
        "cloister-client": f"file:{typescript_client}", **MANIFEST["devDependencies"]}, least=18)
    shutil.copy(ROOT / "tests" / "lib" / "places.h", made.path)  # beside the copy of the script
    return made


@pytest.mark.deep("slow")
@pytest.mark.parametrize("case", CASES)
def test_against_a_service(packages, area, case):
    done = packages.run(area.account, area.home, SCRIPT, case, area.new_directory("case"), area.bin / "cloisterd")
    assert done.returncode == 0, done.stderr


@pytest.mark.deep("slow")
def test_what_is_packed(typescript_client):
    """The package has the compiled modules and their types, and needs no other package."""
    with tarfile.open(typescript_client) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    modules = {path.stem for path in (ROOT / "clients" / "typescript" / "src").glob("*.ts")}
    assert names == {"package.json", "README.md", *(f"dist/{name}{end}" for name in modules for end in (".js", ".d.ts"))}
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(MANIFEST)


RIGHT = """import { Client, NotFound, type EndedBy } from "cloister-client";
const client = new Client();
const size: number = (await client.readFile({ path: "a" })).size;
const cause: EndedBy = (await client.runCommand({ command: "x" }, { options: { stdin: "" } })).ended_by;
const call = await client.startCall({ tool: "run_command", arguments: { command: "x" } });
for await (const piece of call)
    console.log(piece.stream, piece.text, size, cause, new NotFound("").retryAfterMs);
"""
MISTAKES = ["await client.readFile({ path: 7 });", 'await client.readFile({ file: "a" });',
            'await client.runCommand({ command: "x" }, { options: { stdinn: "" } });',
            'await client.workspaceOpen({ root: "/", kind: "image" });', '(await client.listDirectory({ path: "." })).entry;']


@pytest.mark.deep("slow")
def test_a_program_s_types(packages):
    """tsc reports each mistake of a program by the types of the package, and nothing in one without a mistake, nor in that of
    the document."""
    (document,) = re.findall(r"^```typescript\n(.*?)^```", (ROOT / "doc" / "clients.md").read_text(), re.M | re.S)
    programs = {"document": document, "right": RIGHT, **{f"wrong{i}": RIGHT + mistake for i, mistake in enumerate(MISTAKES)}}
    for name, text in programs.items():
        (packages.path / f"{name}.ts").write_text(text)
    done = subprocess.run(
        [packages.node, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--types", "node",
         "--module", "nodenext", "--moduleResolution", "nodenext", *(f"{name}.ts" for name in programs)], cwd=packages.path,
        env=environment(packages.path), capture_output=True, text=True, timeout=300, check=False)
    assert set(re.findall(r"^(\w+)\.ts\(", done.stdout, re.M)) == {f"wrong{i}" for i in range(len(MISTAKES))}, done.stdout
