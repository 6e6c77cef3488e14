// SPDX-License-Identifier: Apache-2.0
// An agent of @openai/agents whose sandbox is a workspace. usage: node openai-agents.mjs; CLOISTER_SOCKET and CLOISTER_KEY
// name the service. The model is scripted, so that this runs without one: leave `model` out for OpenAI's.
import { run } from "@openai/agents";
import { Manifest, SandboxAgent, file } from "@openai/agents/sandbox";
import { ScriptedModel, assistantMessage, functionCall } from "@openai/agents/testing";
import { CloisterSandboxClient } from "cloister-client/openai-agents";

const operation = { type: "update_file", path: "sums.py", diff: "@@\n-print(20 + 20)\n+print(20 + 22)\n" };
const model = new ScriptedModel([
	[functionCall("exec_command", { cmd: "python3 sums.py; echo $GREETING" }, { callId: "call_1" })],
	[{ type: "apply_patch_call", callId: "call_2", status: "completed", operation }],
	[functionCall("exec_command", { cmd: "python3 sums.py; sleep 600", yield_time_ms: 1000 }, { callId: "call_3" })],
	[functionCall("write_stdin", { session_id: 2, chars: "\u0003", yield_time_ms: 10000 }, { callId: "call_4" })],
	[assistantMessage("It prints 42.")],
]);
const agent = new SandboxAgent({
	name: "Programmer", instructions: "Mend the program.", model,
	defaultManifest: new Manifest({ entries: { "sums.py": file({ content: "print(20 + 20)\n" }) }, environment: { GREETING: "hello" } }),
});
const result = await run(agent, "sums.py should print 42.", { sandbox: { client: new CloisterSandboxClient({ leaseMs: 600_000 }) } });

for (const item of result.newItems)
	if (item.type === "tool_call_output_item")
		console.log(String(item.output).replace(/^Wall time.*$/m, "").trim());
console.log(result.finalOutput);
