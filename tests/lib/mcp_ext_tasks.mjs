// SPDX-License-Identifier: Apache-2.0
// The official client of MCP's extension for tasks, over `cloister mcp`. usage: mcp_ext_tasks.mjs SERVER ...
// It prints what it saw, one JSON object a line, for the test to judge.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { resultFromTaskOutcome, withTasks } from "@modelcontextprotocol/ext-tasks/client";

const [command, ...args] = process.argv.slice(2);
const say = (what, value) => console.log(JSON.stringify({ [what]: value }));
const META = "io.modelcontextprotocol/";

// A connection without a library: the requests of the extension go out as it frames them.
class Port {
	endpointId = "cloister";
	invalidated = false;

	constructor() {
		this.server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
		// The library goes on asking for a task of a server that was killed.
		this.server.stdin.on("error", () => {});
		this.last = 0;
		this.waiting = new Map();
		createInterface({ input: this.server.stdout }).on("line", (line) => {
			const { id, result, error } = JSON.parse(line);
			this.waiting.get(id)?.(error ? { kind: "error", error } : { kind: "result", result });
			this.waiting.delete(id);
		});
	}

	async open() {
		const { result } = await this.dispatch({ method: "server/discover", params: {} });
		this.taskCapabilities = { generation: "v2", capabilities: result.capabilities.extensions[`${META}tasks`] };
		return this;
	}

	dispatch(request) {
		const id = ++this.last;
		const params = { ...request.params, _meta: { ...request.params?._meta,
			[`${META}protocolVersion`]: "2026-07-28",
			[`${META}clientCapabilities`]: { extensions: { [`${META}tasks`]: {} } } } };
		this.server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: request.method, params })}\n`);
		return new Promise((resolve) => this.waiting.set(id, resolve));
	}

	onServerRequest() { return () => {}; }
	onNotification() { return () => {}; }
	onInvalidated() { return () => {}; }
}

const run = (session, text) => session.callTool("run_command", { command: text });
const settled = async (execution) => {
	const { outcome } = await execution.settle();
	return outcome.kind === "cancelled" ? "cancelled" : resultFromTaskOutcome(outcome).structuredContent.output.stdout;
};

const first = await new Port().open();
const session = withTasks(first);
const quick = await run(session, "echo quick");
say("quick", [quick.kind, await settled(quick)]);
const slow = await run(session, "until [ -e go ]; do sleep 0.1; done; echo slow");
say("slow", slow.kind);
const doomed = await run(session, `sleep ${process.env.SLEEP}`);
say("doomed", doomed.kind);
await doomed.cancel();
try {
	say("cancelled", await settled(doomed));
} catch (error) {
	say("cancelled", String(error.message));
}
// The client dies with its server process, and another one goes on with what it had noted.
const reference = slow.serializeReference();
first.server.kill("SIGKILL");
const second = await new Port().open();
const again = await withTasks(second).resumeTask(reference);
await second.dispatch({ method: "tools/call", params: { name: "write_file", arguments: { path: "go", content: "" } } });
say("resumed", await settled(again));
second.server.stdin.end();
process.exit(0);
