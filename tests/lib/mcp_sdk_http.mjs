// SPDX-License-Identifier: Apache-2.0
// An MCP client made with the official SDK, by Streamable HTTP. usage: mcp_sdk_http.mjs 1|2 MODE URL, with the key in KEY
// It prints what it saw, one JSON object a line, for the test to judge.
const [sdk, mode, url] = process.argv.slice(2);
const first = sdk === "1";
const { Client } = await import(first ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await import(
	first ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client");

const say = (what, value) => console.log(JSON.stringify({ [what]: value }));
const client = new Client({ name: "tests", version: "1" }, first ? {} : { versionNegotiation: { mode } });
client.onerror = (error) => say("complaint", error.message);
const transport = new StreamableHTTPClientTransport(new URL(url), {
	requestInit: { headers: { Authorization: `Bearer ${process.env.KEY}` } } });
await client.connect(transport);
say("version", first ? transport.protocolVersion : client.getNegotiatedProtocolVersion());
say("tools", (await client.listTools()).tools.map((tool) => tool.name));

const call = (name, given, options) => {
	const params = { name, arguments: given };
	return first ? client.callTool(params, undefined, options) : client.callTool(params, options);
};
const run = async (command, options) => (await call("run_command", { command }, options)).structuredContent.output.stdout;
await call("write_file", { path: "a", content: "one\n" });
say("text", await run("cat a"));
say("text", (await run("echo begun; until [ -e go ]; do sleep 0.1; done; echo done", {
	onprogress: (progress) => {
		say("progress", progress);
		if (progress.message === "begun")
			call("write_file", { path: "go", content: "" });
	} })).replace("begun\n", ""));

const abort = new AbortController();
try {
	await run(`echo begun; sleep ${process.env.SLEEP}`, { signal: abort.signal, onprogress: () => abort.abort("enough") });
	say("aborted", false);
} catch {
	say("aborted", true);
}
say("after", await run("echo on"));
client.onerror = undefined; // its stream is closed, by itself
if (transport.sessionId)
	await transport.terminateSession();
await client.close();
