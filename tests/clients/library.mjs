// SPDX-License-Identifier: Apache-2.0
// A program made with one of the libraries that speak MCP. usage: library.mjs LIBRARY DEADLINE_MS COMMAND WORD...
// It starts the server, lists its tools, and makes calls; it prints what it got, one JSON object a line.
const [library, deadline, command, ...args] = process.argv.slice(2);
const timeout = Number(deadline);
const server = { command, args, env: process.env };
const info = { name: "tests", version: "1" };
const say = (what, value) => console.log(JSON.stringify({ [what]: value }));

// Each connects and gives the tools' names, a function that calls one, and one that closes.
const libraries = {
	async sdk1() {
		const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
		const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
		const client = new Client(info, {});
		await client.connect(new StdioClientTransport(server));
		// The library's own deadline of a minute, which each notification of progress begins anew.
		const options = { resetTimeoutOnProgress: true, onprogress() {} };
		return [(await client.listTools()).tools.map(({ name }) => name),
			(name, given) => client.callTool({ name, arguments: given }, undefined, options), () => client.close()];
	},
	async sdk2() {
		const { Client } = await import("@modelcontextprotocol/client");
		const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
		const client = new Client(info, { versionNegotiation: { mode: "auto" } });
		await client.connect(new StdioClientTransport(server));
		const options = { resetTimeoutOnProgress: true, onprogress() {} };
		return [(await client.listTools()).tools.map(({ name }) => name),
			(name, given) => client.callTool({ name, arguments: given }, options), () => client.close()];
	},
	async langchain() {
		const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
		const client = new MultiServerMCPClient({
			mcpServers: { cloister: { transport: "stdio", ...server } }, defaultToolTimeout: timeout });
		const tools = await client.getTools();
		return [tools.map(({ name }) => name), (name, given) => tools.find((tool) => tool.name === name).invoke(given),
			() => client.close()];
	},
	async agents() {
		const { MCPServerStdio } = await import("@openai/agents");
		const client = new MCPServerStdio({ ...server, timeout, clientSessionTimeoutSeconds: timeout / 1000 });
		await client.connect();
		return [(await client.listTools()).map(({ name }) => name), (name, given) => client.callTool(name, given),
			() => client.close()];
	},
	async ai() {
		const { createMCPClient } = await import("@ai-sdk/mcp");
		const { Experimental_StdioMCPTransport } = await import("@ai-sdk/mcp/mcp-stdio");
		const client = await createMCPClient({ transport: new Experimental_StdioMCPTransport(server) });
		const tools = await client.tools();
		return [Object.keys(tools), (name, given) => tools[name].execute(given, { toolCallId: "1", messages: [] }),
			() => client.close()];
	},
	async mastra() {
		const { MCPClient } = await import("@mastra/mcp");
		const client = new MCPClient({ servers: { cloister: server }, timeout });
		const tools = await client.listTools();
		return [Object.keys(tools).map((name) => name.replace(/^cloister_/, "")),
			(name, given) => tools[`cloister_${name}`].execute(given), () => client.disconnect()];
	},
};

const [tools, call, close] = await libraries[library]();
say("tools", tools.sort());
const silent = call("run_command", { command: "sleep 75; echo rested", timeout_ms: 120_000 });
silent.catch(() => {});
say("write", await call("write_file", { path: "made", content: `by ${library}\n` }));
say("run", await call("run_command", { command: "cat made; id -u" }));
say("many", await call("run_command", { command: "seq 1 300000" }));
say("silent", await silent.catch((error) => ({ failed: String(error) })));
await close();
