# SPDX-License-Identifier: Apache-2.0
"""The adapters of clients/typescript for other packages: their examples run by the agent socket, and by https and a key, and
the packages' own types take them."""

import os
import subprocess

import npm
import pytest
from daemon import ROOT, environment
from remote import Service

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as several users")
EXAMPLES = ROOT / "clients" / "typescript" / "examples"
# What they are held to is what these versions do; newer ones are taken by hand.
PINNED = {"@openai/agents": "0.20.0", "zod": "4.6.7", "computesdk": "4.1.4", "deepagents": "1.14.1", "@langchain/core": "1.4.0",
          "typescript": "5.9.3", "@types/node": "18.19.130"}
PRINTED = {
    "computesdk": "hello 42\nsums.py file\ntrue\nfrom http.server import *\n0\n",
    "openai-agents": "Process exited with code 0\nOutput:\n40\nhello\n\nProcess running with session ID 2\nOutput:\n42\n"
                     "Process exited with code 1\nOutput:\nIt prints 42.\n",
    "deepagents": "write_file: Successfully wrote to '/workspace/src/sums.py'\n"
                  "edit_file: Successfully replaced 1 occurrence(s) in '/workspace/src/sums.py'\n"
                  "grep: /workspace/src/sums.py: |   1: print(20 + 22)\nglob: src/sums.py\nls: /workspace/src/sums.py (15 bytes)\n"
                  "read_file: @@ lines 1-1 of 1 @@ |      1\tprint(20 + 22)\n"
                  "execute: 42 | 1000 |  | [Command failed with exit code 3]\nread_file: Error: File '/etc/shadow' not found\n"
                  "model: It prints 42.\n",
}
PROGRAM = """import { compute } from "computesdk";
import { run } from "@openai/agents";
import { SandboxAgent, type SandboxClient } from "@openai/agents/sandbox";
import { createDeepAgent } from "deepagents";
import { Client } from "cloister-client";
import { cloister } from "cloister-client/computesdk";
import { cloisterBackend } from "cloister-client/deepagents";
import { CloisterSandboxClient } from "cloister-client/openai-agents";

compute.setConfig({ provider: cloister({ key: "k" }) });
createDeepAgent({ backend: await cloisterBackend(new Client(), "w") });
const client: SandboxClient = new CloisterSandboxClient({ template: "t" });
await run(new SandboxAgent({ name: "a" }), "hello", { sandbox: { client } });
"""


@pytest.fixture(scope="module")
def service(area, tenants):
    made = Service(area, tenants)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def packages(area, typescript_client):
    return npm.Packages(area.new_directory("npm"), {**PINNED, "cloister-client": f"file:{typescript_client}"}, least=20)


def test_each_adapter_has_an_example():
    assert {path.stem for path in EXAMPLES.glob("*.mjs")} == set(PRINTED)
    assert all((EXAMPLES.parent / "src" / f"{name}.ts").exists() for name in PRINTED)


@pytest.mark.parametrize("way", ["socket", "https"])
@pytest.mark.parametrize("name", PRINTED)
def test_an_example(service, packages, name, way):
    settings = service.way(way)
    env = {"CLOISTER_SOCKET": settings["path"]}
    if way == "https":
        env.update(CLOISTER_KEY=settings["key"], NODE_EXTRA_CA_CERTS=settings["ca_file"])
    done = packages.run(service.user, "/tmp", EXAMPLES / f"{name}.mjs", env=env)
    assert (done.returncode, done.stdout) == (0, PRINTED[name]), done.stderr


def test_the_packages_types(packages):
    (packages.path / "types.ts").write_text(PROGRAM)
    done = subprocess.run(
        [packages.node, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--types", "node",
         "--module", "nodenext", "--moduleResolution", "nodenext", "types.ts"], cwd=packages.path, env=environment(packages.path),
        capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
