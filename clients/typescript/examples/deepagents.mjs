// SPDX-License-Identifier: Apache-2.0
// A deep agent whose files and commands are in a workspace. usage: node deepagents.mjs; CLOISTER_SOCKET and CLOISTER_KEY name
// the service. The model is scripted, so that this runs without one: give `model` a name such as "claude-sonnet-4-5".
import { AIMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { createDeepAgent } from "deepagents";
import { Client } from "cloister-client";
import { cloisterBackend } from "cloister-client/deepagents";

class Scripted extends BaseChatModel {
	steps = [
		["write_file", { file_path: "/workspace/src/sums.py", content: "print(20 + 20)\n" }],
		["edit_file", { file_path: "/workspace/src/sums.py", old_string: "20 + 20", new_string: "20 + 22" }],
		["grep", { pattern: "20 + 22", path: "/workspace" }],
		["glob", { pattern: "**/*.py", path: "/workspace" }],
		["ls", { path: "/workspace/src" }],
		["read_file", { file_path: "/workspace/src/sums.py" }],
		["execute", { command: "cd /workspace/src && python3 sums.py; id -u >&2; exit 3" }],
		["read_file", { file_path: "/etc/shadow" }],
	];
	_llmType() {
		return "scripted";
	}
	bindTools() {
		return this;
	}
	async _generate() {
		const [name, args] = this.steps.shift() ?? [];
		const message = new AIMessage(name ? { content: "", tool_calls: [{ name, args, id: `call-${this.steps.length}` }] } : "It prints 42.");
		return { generations: [{ message, text: message.text }] };
	}
}

const client = new Client();
await client.workspace("deepagents");
const agent = createDeepAgent({ model: new Scripted({}), backend: await cloisterBackend(client, "deepagents") });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: "Write a program that prints 42." }] });
for (const message of messages.slice(1))
	if (message.text)
		console.log(`${message.name ?? "agent"}: ${message.text.trim().replaceAll("\n", " | ")}`);
await client.workspaceRemove({ workspace: "deepagents" });
client.close();
