// SPDX-License-Identifier: Apache-2.0
// An MCP client made with the official SDK. usage: mcp_sdk.mjs 1|2 MODE SERVER ...
// It prints what it saw, one JSON object a line, for the test to judge.
const [sdk, mode, command, ...args] = process.argv.slice(2);
const first = sdk === "1";
const { Client } = await import(first ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = await import(
	first ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio");

const say = (what, value) => console.log(JSON.stringify({ [what]: value }));
const client = new Client(
	{ name: "tests", version: "1" }, first ? {} : { versionNegotiation: { mode: mode === "pin" ? { pin: "2026-07-28" } : mode } });
client.onerror = (error) => say("complaint", error.message);

await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
say("server", client.getServerVersion());
if (!first)
	say("version", client.getNegotiatedProtocolVersion());
say("tools", (await client.listTools()).tools);

// Both SDKs validate structuredContent against the outputSchema that they were given.
const call = (name, given, options) => {
	const params = { name, arguments: given };
	return first ? client.callTool(params, undefined, options) : client.callTool(params, options);
};
say("result", await call("write_file", { path: "d/a.txt", content: "one\ntwo\n" }));
say("result", await call("read_file", { path: "d/a.txt" }));
say("result", await call("list_directory", { path: ".", recursive: true }));
say("result", await call("search_files", { pattern: "tw." }));
say("result", await call("run_command", { command: "echo begun; until [ -e d/go ]; do sleep 0.1; done; echo done; exit 3" },
	{ onprogress: (progress) => {
		say("progress", progress);
		if (progress.message === "begun")
			call("write_file", { path: "d/go", content: "" });
	} }));
say("result", await call("read_file", { path: "../outside" }));

const abort = new AbortController();
try {
	await call("run_command", { command: `echo begun; sleep ${process.env.SLEEP} & sleep ${process.env.SLEEP}` },
		{ signal: abort.signal, onprogress: () => { say("running", true); abort.abort("enough"); } });
	say("aborted", false);
} catch (error) {
	say("aborted", String(error.message));
}
// The server has seen the cancellation before it answers this.
say("result", await call("run_command", { command: "true" }));
if (process.env.WAIT)
	await new Promise((resolve) => process.stdin.on("end", resolve).resume());
await client.close();
