#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// A small agent for Ollama whose tools run in a cloister workspace. usage: agent.mjs DIRECTORY PROMPT
import net from "node:net";
import path from "node:path";
import readline from "node:readline";
import { Ollama } from "ollama";

const ROUNDS = 25;
const runtime = process.env.XDG_RUNTIME_DIR ?? `/run/user/${process.getuid()}`;
const socketPath = process.env.CLOISTER_SOCKET ?? `${runtime}/cloister/agent.sock`;

/** JSON-RPC 2.0 over the agent socket, one message a line. Calls may run at the same time. */
class Cloister {
	#waiting = new Map();
	#lastId = 0;

	constructor(socketPath) {
		this.socket = net.connect(socketPath);
		this.socket.on("error", (error) => this.#end(error));
		this.socket.on("close", () => this.#end(new Error("cloisterd closed the connection")));
		readline.createInterface({ input: this.socket }).on("line", (line) => this.#line(JSON.parse(line)));
	}

	#line({ id, result, error }) {
		const waiting = this.#waiting.get(id);
		this.#waiting.delete(id);
		if (error)
			waiting?.reject(new Error(error.message));
		else
			waiting?.resolve(result);
	}

	#end(error) {
		for (const { reject } of this.#waiting.values())
			reject(error);
		this.#waiting.clear();
	}

	request(method, params) {
		const id = ++this.#lastId;
		this.socket.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
		return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
	}

	close() {
		this.socket.end();
	}
}

async function run(cloister, ollama, prompt) {
	const { tools } = await cloister.request("tools.list", { format: "ollama" });
	const messages = [{ role: "user", content: prompt }];

	for (let round = 0; round < ROUNDS; round++) {
		const { message } = await ollama.chat({ model: process.env.MODEL ?? "qwen3:4b", messages, tools });
		messages.push(message);
		if (!message.tool_calls?.length)
			return message.content;
		// All at once; the answers go back in the order of the calls.
		messages.push(...await Promise.all(message.tool_calls.map((tool_call) =>
			cloister.request("tool.call", { tool_call, options: { reply: "message" } }))));
	}
	throw new Error(`the model was not done after ${ROUNDS} rounds`);
}

const [directory, prompt] = process.argv.slice(2);
if (!prompt) {
	console.error("usage: agent.mjs DIRECTORY PROMPT");
	process.exit(2);
}
const cloister = new Cloister(socketPath);
try {
	await cloister.request("workspace.open", { root: path.resolve(directory), kind: "directory" });
	console.log(await run(cloister, new Ollama({ host: process.env.OLLAMA_HOST }), prompt));
} catch (error) {
	console.error(`agent: ${error.message}`);
	process.exitCode = 1;
} finally {
	cloister.close();
}
