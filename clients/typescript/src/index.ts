// SPDX-License-Identifier: Apache-2.0
// A client of cloisterd, which runs the tool calls of LLM agents in confined workspaces.

export {
	Attached, Call, Client, outputOf, Watch, type ClientSettings, type Sink, type Source, type ToolCall,
	type TransferSettings,
} from "./client.js";
export * from "./errors.js";
export { Forward } from "./forward.js";
export * from "./generated.js";
export { place } from "./place.js";
export { Output } from "./wire.js";
