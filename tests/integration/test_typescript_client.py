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


def test_what_is_packed(typescript_client):
    """The package has the compiled modules and their types, and needs no other package."""
    with tarfile.open(typescript_client) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    modules = {path.stem for path in (ROOT / "clients" / "typescript" / "src").glob("*.ts")}
    assert names == {"package.json", "README.md", *(f"dist/{name}{end}" for name in modules for end in (".js", ".d.ts"))}
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(MANIFEST)


def test_the_document_s_program(packages):
    (program,) = re.findall(r"^```typescript\n(.*?)^```", (ROOT / "doc" / "clients.md").read_text(), re.M | re.S)
    done = type_check(packages, program)
    assert done.returncode == 0, done.stdout


RIGHT = """import { Client, NotFound, type EndedBy } from "cloister-client";
const client = new Client();
const size: number = (await client.readFile({ path: "a" })).size;
const cause: EndedBy = (await client.runCommand({ command: "x" }, { options: { stdin: "" } })).ended_by;
const call = await client.startCall({ tool: "run_command", arguments: { command: "x" } });
for await (const piece of call)
    console.log(piece.stream, piece.text, size, cause, new NotFound("").retryAfterMs);
"""


def type_check(packages, text):
    (packages.path / "program.ts").write_text(text)
    return subprocess.run(
        [packages.node, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--types", "node",
         "--module", "nodenext", "--moduleResolution", "nodenext", "program.ts"], cwd=packages.path,
        env=environment(packages.path), capture_output=True, text=True, timeout=300, check=False)


def test_a_program_s_types(packages):
    """The types of the package make tsc report a program's mistakes."""
    done = type_check(packages, RIGHT)
    assert done.returncode == 0, done.stdout
    for mistake in ("await client.readFile({ path: 7 });", 'await client.readFile({ file: "a" });',
                    'await client.runCommand({ command: "x" }, { options: { stdinn: "" } });',
                    'await client.workspaceOpen({ root: "/", kind: "image" });',
                    '(await client.listDirectory({ path: "." })).entry;'):
        assert type_check(packages, RIGHT + mistake).returncode != 0, mistake
