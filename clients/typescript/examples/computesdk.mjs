// SPDX-License-Identifier: Apache-2.0
// computesdk with cloister as its provider. usage: node computesdk.mjs; CLOISTER_SOCKET and CLOISTER_KEY name the service.
import { compute } from "computesdk";
import { cloister } from "cloister-client/computesdk";

compute.setConfig({ provider: cloister() });

const sandbox = await compute.sandbox.create({ timeout: 600_000, envs: { GREETING: "hello" }, metadata: { user: "me" } });
await sandbox.filesystem.mkdir("src");
await sandbox.filesystem.writeFile("src/sums.py", "import os\nprint(os.environ['GREETING'], 20 + 22)\n");
console.log((await sandbox.runCommand("python3 sums.py", { cwd: "src" })).stdout.trim());
console.log((await sandbox.filesystem.readdir("src")).map(({ name, type }) => `${name} ${type}`).join());

// A snapshot keeps the files; another sandbox begins with them.
const { id } = await compute.snapshot.create(sandbox.sandboxId);
const other = await compute.sandbox.create({ snapshotId: id });
console.log(await other.filesystem.readFile("src/sums.py") === await sandbox.filesystem.readFile("src/sums.py"));

// A server in the sandbox, reached at a port of this host.
await sandbox.filesystem.writeFile("serve.py", `from http.server import *
HTTPServer(("127.0.0.1", 8000), SimpleHTTPRequestHandler).serve_forever()
`);
await sandbox.runCommand("python3 serve.py", { background: true });
await sandbox.runCommand("until : </dev/tcp/127.0.0.1/8000; do sleep 0.05; done 2>/dev/null");
console.log((await (await fetch(`${await sandbox.getUrl({ port: 8000 })}/serve.py`)).text()).split("\n")[0]);

await other.destroy();
await sandbox.destroy();
await compute.snapshot.delete(id);
console.log((await compute.sandbox.list()).length);
