// SPDX-License-Identifier: Apache-2.0
// A backend for deepagents: its file tools and its execute tool act in a workspace. The package has all but three methods of
// it, by shell commands; it is imported when a backend is made.

import { Client, type Sink } from "./client.js";
import { IsADirectory, NotFound, PathOutsideWorkspace, PermissionDenied, SymlinkOutsideWorkspace, type Observation } from "./generated.js";
import type { Output } from "./wire.js";

type FileError = "file_not_found" | "permission_denied" | "is_directory" | "invalid_path";

/** Of the output of a command, of which the rest is left out. */
const OUTPUT_CHARACTERS = 512 * 1024;
const EXIT_TIMEOUT = 124;

export interface ExecuteResponse {
	output: string;
	exitCode: number | null;
	truncated: boolean;
}

/** Those of the package's BaseSandbox. */
type Inherited = Record<"ls" | "read" | "readRaw" | "write" | "edit" | "grep" | "glob" | "delete", (...given: any[]) => Promise<any>>;

/** A backend, with the methods that are cloister's own. */
export interface CloisterBackend extends Inherited {
	/** The workspace's name or directory. */
	readonly id: string;
	execute(command: string): Promise<ExecuteResponse>;
	uploadFiles(files: [string, Uint8Array][]): Promise<{ path: string; error: FileError | null }[]>;
	downloadFiles(paths: string[]): Promise<{ path: string; content: Uint8Array | null; error: FileError | null }[]>;
}

const ERRORS: [new (...args: never[]) => Error, FileError][] = [
	[NotFound, "file_not_found"], [IsADirectory, "is_directory"], [PermissionDenied, "permission_denied"],
	[PathOutsideWorkspace, "invalid_path"], [SymlinkOutsideWorkspace, "invalid_path"]];

/** The code of what the package has a code for; other errors are thrown. */
function codeOf(error: unknown): FileError {
	const found = ERRORS.find(([kind]) => error instanceof kind);
	if (!found)
		throw error;
	return found[1];
}

function settled(observation: Observation, pieces: Output[]): ExecuteResponse {
	const { error } = observation, output = observation.output as { exit_code: number | null; timed_out: boolean } | null;
	const all = pieces.map((piece) => piece.text).join("") + (error ? `\n${error.message}` : "");
	return {
		output: all.slice(0, OUTPUT_CHARACTERS), truncated: all.length > OUTPUT_CHARACTERS,
		exitCode: output?.timed_out ? EXIT_TIMEOUT : output?.exit_code ?? 1 };
}

/**
 * Makes a backend for createDeepAgent({ backend }): of the workspace that @client has opened under the name @workspace. The
 * client stays the caller's. Paths are those that commands see: the workspace is at /workspace, unless it is shown elsewhere.
 */
export async function cloisterBackend(client: Client, workspace: string, settings: { timeoutMs?: number } = {}): Promise<CloisterBackend> {
	const name: string = "deepagents"; // which need not be there to compile this
	const { BaseSandbox } = await import(name) as { BaseSandbox: new () => object };

	class Backend extends BaseSandbox {
		readonly id = workspace;

		async execute(command: string): Promise<ExecuteResponse> {
			const pieces: Output[] = [];
			let length = 0;
			const observation = await client.call({
				tool: "run_command", arguments: { command }, workspace, timeout_ms: settings.timeoutMs, options: { keep_output: false } }, (piece) => {
				if (length <= OUTPUT_CHARACTERS)
					pieces.push(piece);
				length += piece.data.length;
			});
			return settled(observation, pieces);
		}

		async uploadFiles(files: [string, Uint8Array][]) {
			return await Promise.all(files.map(async ([path, content]) => {
				try {
					await client.upload(content, { path }, { workspace });
					return { path, error: null };
				} catch (error) {
					return { path, error: codeOf(error) };
				}
			}));
		}

		async downloadFiles(paths: string[]) {
			return await Promise.all(paths.map(async (path) => {
				const parts: Uint8Array[] = [], sink: Sink = (part) => parts.push(part);
				try {
					await client.download({ path }, sink, { workspace });
					return { path, content: new Uint8Array(Buffer.concat(parts)), error: null };
				} catch (error) {
					return { path, content: null, error: codeOf(error) };
				}
			}));
		}
	}
	return new Backend() as unknown as CloisterBackend;
}
