// SPDX-License-Identifier: Apache-2.0
// A provider for computesdk: a sandbox is a managed workspace with a client of its own. A template or snapshot is one of
// cloister's templates. It has computesdk's interface by its form, and does not import it.

import { randomBytes } from "node:crypto";
import { Client, type ClientSettings } from "./client.js";
import { NotFound, WorkspaceNotFound, type ListedWorkspace, type RunCommandOutput } from "./generated.js";
import type { Forward } from "./forward.js";

/** A label of all workspaces that the provider has made. */
const LABEL = "computesdk";
/** As sh(1) has it for a command that was ended at its deadline, and for one that cannot be run. */
const EXIT_TIMEOUT = 124, EXIT_FAILED = 127;

/** Settings of the clients, and for how long a sandbox exists, if create() does not say it; default: until destroy(). */
export interface CloisterConfig extends ClientSettings {
	timeout?: number | undefined;
}

export interface CreateOptions {
	/** In milliseconds: then the sandbox is removed. */
	timeout?: number;
	templateId?: string;
	snapshotId?: string;
	metadata?: Record<string, unknown>;
	envs?: Record<string, string>;
	name?: string;
	/** Where its commands see its files; default /workspace. */
	directory?: string;
	[key: string]: unknown;
}

export interface RunOptions {
	cwd?: string;
	env?: Record<string, string>;
	timeout?: number;
	background?: boolean;
	onStdout?: (data: string) => void;
	onStderr?: (data: string) => void;
}

export interface CommandResult {
	stdout: string;
	stderr: string;
	exitCode: number;
	durationMs: number;
}

export interface SandboxInfo {
	id: string;
	provider: string;
	status: "running" | "stopped" | "error";
	createdAt: Date;
	timeout: number;
	metadata?: Record<string, unknown>;
}

/** Only strings are labels. */
function labels(metadata: Record<string, unknown> = {}): Record<string, string> {
	const given = Object.entries(metadata).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]);
	return { ...Object.fromEntries(given), [LABEL]: "1" };
}

type Open = () => Promise<Client>;

class Files {
	readonly #open: Open;

	constructor(open: Open) {
		this.#open = open;
	}

	async readFile(path: string): Promise<string> {
		const parts: Uint8Array[] = [];
		await (await this.#open()).download({ path }, (part) => parts.push(part));
		return Buffer.concat(parts).toString("utf8");
	}

	async writeFile(path: string, content: string): Promise<void> {
		await (await this.#open()).upload(Buffer.from(content), { path });
	}

	async mkdir(path: string): Promise<void> {
		await (await this.#open()).fileMakeDirectory({ path });
	}

	async readdir(path: string): Promise<{ name: string; type: "file" | "directory"; size: number; modified: Date }[]> {
		const { entries } = await (await this.#open()).fileList({ path });
		return entries.map(({ path: name, type, size, mtime }) => ({
			name: name.split("/").at(-1)!, type: type === "directory" ? "directory" : "file", size, modified: new Date(mtime) }));
	}

	async exists(path: string): Promise<boolean> {
		try {
			await (await this.#open()).fileStat({ path });
			return true;
		} catch (error) {
			if (error instanceof NotFound)
				return false;
			throw error;
		}
	}

	async remove(path: string): Promise<void> {
		await (await this.#open()).fileRemove({ path, recursive: true });
	}
}

export class CloisterSandbox {
	readonly provider = "cloister";
	readonly sandboxId: string;
	readonly filesystem: Files;
	readonly #owner: CloisterProvider;
	readonly #make: () => Promise<Client>;
	#client: Promise<Client> | undefined;
	readonly #forwards = new Map<number, Forward>();

	/** @make makes a client that has the workspace open, when it is first used. */
	constructor(owner: CloisterProvider, sandboxId: string, make: () => Promise<Client>) {
		this.#owner = owner;
		this.#make = make;
		this.sandboxId = sandboxId;
		this.filesystem = new Files(() => this.getInstance());
	}

	/** The client; its errors are those of the workspace, which may be gone. */
	async getInstance(): Promise<Client> {
		this.#client ??= this.#make();
		return await this.#client;
	}

	async runCommand(command: string, options: RunOptions = {}): Promise<CommandResult> {
		const { cwd, env, timeout, background, onStdout, onStderr } = options;
		const given = { ...(cwd === undefined ? {} : { cwd }), ...(env === undefined ? {} : { env }) };
		if (background) {
			await (await this.getInstance()).sessionStart({ command, ...given });
			return { stdout: "", stderr: "", exitCode: 0, durationMs: 0 };
		}
		const call = { tool: "run_command", arguments: { command }, options: given, timeout_ms: timeout };
		const observation = await (await this.getInstance()).call(call, onStdout || onStderr ? (piece) =>
			(piece.stream === "stdout" ? onStdout : onStderr)?.(piece.text) : undefined);
		const { error } = observation, output = observation.output as unknown as RunCommandOutput | null;
		if (!output) // it did not run
			return { stdout: "", stderr: error?.message ?? "", exitCode: EXIT_FAILED, durationMs: 0 };
		return {
			stdout: output.stdout, stderr: error ? `${output.stderr}${error.message}\n` : output.stderr,
			exitCode: output.timed_out ? EXIT_TIMEOUT : output.exit_code ?? 1, durationMs: output.duration_ms };
	}

	async getInfo(): Promise<SandboxInfo> {
		const listed = (await listAll(await this.getInstance())).find(({ workspace }) => workspace === this.sandboxId);
		const lease = listed?.lease as { expires_at?: string } | null | undefined;
		return {
			id: this.sandboxId, provider: this.provider, status: listed ? "running" : "stopped",
			createdAt: new Date(listed?.created ?? 0), metadata: listed?.labels ?? {},
			timeout: lease?.expires_at ? Math.max(0, Date.parse(lease.expires_at) - Date.now()) : 0 };
	}

	/** An URL of this host, until destroy(). */
	async getUrl({ port, protocol = "http" }: { port: number; protocol?: string }): Promise<string> {
		let forward = this.#forwards.get(port);
		if (!forward) {
			forward = await (await this.getInstance()).forward(port);
			this.#forwards.set(port, forward);
		}
		return `${protocol}://${forward.host}:${forward.port}`;
	}

	/** Its files are removed. */
	async destroy(): Promise<void> {
		try {
			await (await this.getInstance()).workspaceRemove({ workspace: this.sandboxId });
		} catch (error) {
			if (!(error instanceof WorkspaceNotFound))
				throw error;
		} finally {
			this.close();
		}
	}

	/** Closes the client; the sandbox stays, and getById() finds it. */
	close(): void {
		for (const forward of this.#forwards.values())
			forward.close();
		this.#client?.then((client) => client.close(), () => {});
	}

	getProvider(): CloisterProvider {
		return this.#owner;
	}
}

async function listAll(client: Client): Promise<ListedWorkspace[]> {
	const found: ListedWorkspace[] = [];
	for (let cursor: string | undefined; ;) {
		const listed = await client.workspaceList({ labels: { [LABEL]: "1" }, cursor });
		found.push(...listed.workspaces);
		cursor = listed.next_cursor ?? undefined;
		if (!cursor)
			return found;
	}
}

export class CloisterProvider {
	readonly name = "cloister";
	readonly #config: CloisterConfig;

	constructor(config: CloisterConfig) {
		this.#config = config;
	}

	/** With a client that is closed afterwards. */
	async #with<T>(use: (client: Client) => Promise<T>): Promise<T> {
		const client = new Client(this.#config);
		try {
			return await use(client);
		} finally {
			client.close();
		}
	}

	#of(params: Parameters<Client["workspaceOpen"]>[0] & { workspace: string }): CloisterSandbox {
		return new CloisterSandbox(this, params.workspace, async () => {
			const client = new Client(this.#config);
			try {
				await client.workspaceOpen(params);
			} catch (error) {
				client.close();
				throw error;
			}
			return client;
		});
	}

	async #open(params: Parameters<Client["workspaceOpen"]>[0] & { workspace: string }): Promise<CloisterSandbox> {
		const sandbox = this.#of(params);
		await sandbox.getInstance();
		return sandbox;
	}

	readonly sandbox = {
		create: async (options: CreateOptions = {}): Promise<CloisterSandbox> => {
			const from = options.templateId ?? options.snapshotId, ms = options.timeout ?? this.#config.timeout;
			const kept = {
				labels: labels(options.metadata), env: options.envs, shown_at: options.directory,
				lease: ms ? { ms, at_end: "remove" } : undefined };
			const name = options.name ?? `sandbox-${randomBytes(8).toString("hex")}`;
			if (!from)
				return await this.#open({ workspace: name, ...kept });
			const { workspaces } = await this.#with(async (client) => await client.workspaceFork({ from, prefix: name, ...kept }));
			return await this.#open({ workspace: workspaces[0]!, create: false });
		},
		getById: async (sandboxId: string): Promise<CloisterSandbox | null> => {
			try {
				return await this.#open({ workspace: sandboxId, create: false });
			} catch (error) {
				if (error instanceof WorkspaceNotFound)
					return null;
				throw error;
			}
		},
		/** Those that were made by this provider. Each connects when it is used. */
		list: async (): Promise<CloisterSandbox[]> => {
			const listed = await this.#with(listAll);
			return listed.map(({ workspace }) => this.#of({ workspace, create: false }));
		},
		destroy: async (sandboxId: string): Promise<void> => {
			const sandbox = await this.sandbox.getById(sandboxId);
			await sandbox?.destroy();
		},
	};

	readonly snapshot = {
		/** Keeps its files as a template. Its processes must have ended. */
		create: async (sandboxId: string, options: { name?: string; metadata?: Record<string, unknown> } = {}) => {
			const id = options.name ?? `snapshot-${randomBytes(8).toString("hex")}`;
			await this.#with(async (client) => {
				await client.workspaceOpen({ workspace: sandboxId, create: false });
				await client.workspaceFreeze({ template: id });
			});
			return { id, provider: this.name, createdAt: new Date(), metadata: options.metadata ?? {} };
		},
		list: async () => await this.#with(async (client) =>
			(await client.templateList()).templates.map(({ template }) => ({
				id: template, provider: this.name, createdAt: new Date(0) }))), // which is not known
		delete: async (snapshotId: string): Promise<void> => {
			await this.#with(async (client) => await client.templateRemove({ template: snapshotId }));
		},
	};
}

/** For compute.setConfig({ provider: cloister({ ... }) }). */
export function cloister(config: CloisterConfig = {}): CloisterProvider {
	return new CloisterProvider(config);
}
