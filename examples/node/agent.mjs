#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// A small agent for Ollama whose tools run in a cloister workspace. usage: agent.mjs DIRECTORY PROMPT
import path from "node:path";
import { Client } from "cloister-client";
import { Ollama } from "ollama";

const ROUNDS = 25;

async function run(client, ollama, prompt) {
	const { tools } = await client.toolsList({ format: "ollama" });
	const messages = [{ role: "user", content: prompt }];

	for (let round = 0; round < ROUNDS; round++) {
		const { message } = await ollama.chat({ model: process.env.MODEL ?? "qwen3:4b", messages, tools });
		messages.push(message);
		if (!message.tool_calls?.length)
			return message.content;
		// All at once; the answers go back in the order of the calls.
		messages.push(...await Promise.all(message.tool_calls.map((call) => client.answer(call))));
	}
	throw new Error(`the model was not done after ${ROUNDS} rounds`);
}

const [directory, prompt] = process.argv.slice(2);
if (!prompt) {
	console.error("usage: agent.mjs DIRECTORY PROMPT");
	process.exit(2);
}
const client = new Client();
try {
	await client.workspace(path.resolve(directory));
	console.log(await run(client, new Ollama({ host: process.env.OLLAMA_HOST }), prompt));
} catch (error) {
	console.error(`agent: ${error.message}`);
	process.exitCode = 1;
} finally {
	client.close();
}
