// SPDX-License-Identifier: Apache-2.0
// A sandbox client for @openai/agents: a sandbox is a managed workspace, whose files are at the manifest's root. Commands are
// sessions, so that exec_command and write_stdin go on with them. The package is imported when a sandbox is made.

import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { Client, type ClientSettings } from "./client.js";
import { BadRequest } from "./errors.js";
import { NotFound, WorkspaceNotFound, type SessionOutput } from "./generated.js";
import type { Forward } from "./forward.js";

const EXEC_YIELD_MS = 10_000, STDIN_YIELD_MS = 250, LONGEST_WAIT_MS = 300_000;
/** Of output, read at once. */
const READ_BYTES = 1024 * 1024;
/** Of an image that a model looks at. */
const IMAGE_BYTES = 10 * 1024 * 1024;
const TERMINAL = { rows: 24, cols: 120 };
const BYTES_OF_A_TOKEN = 4;

type Json = Record<string, unknown>;

/** A file, directory or mount of a manifest. */
interface Entry {
	type: string;
	content?: string | Uint8Array;
	src?: string;
	children?: Record<string, Entry>;
	repo?: string;
	host?: string;
	ref?: string;
	subpath?: string;
	[key: string]: unknown;
}

/** What of the package's Manifest is used. */
interface ManifestLike {
	root: string;
	entries: Record<string, any>;
	environment: Record<string, any>;
	resolveEnvironment(): Promise<Record<string, string>>;
}

interface Library {
	Manifest: new (init: any) => any;
	applyDiff(input: string, diff: string, mode?: "default" | "create"): string;
}

async function library(): Promise<Library> {
	const names: string[] = ["@openai/agents", "@openai/agents/sandbox"]; // which need not be there to compile this
	const [{ applyDiff }, { Manifest }] = await Promise.all(names.map(async (name) => await import(name))) as [Library, Library];
	return { applyDiff, Manifest };
}

/** Settings of the client, and which workspace to use: otherwise a new one, which is removed at the end. */
export interface CloisterSandboxOptions extends ClientSettings {
	workspace?: string | undefined;
	/** The template with whose files a new one begins. */
	template?: string | undefined;
	labels?: Record<string, string> | undefined;
	/** For how long a new one exists at most. */
	leaseMs?: number | undefined;
	[key: string]: unknown;
}

export interface CloisterSessionState {
	manifest: any;
	environment: Record<string, string>;
	workspace: string;
	/** It was made for the sandbox. */
	owned: boolean;
	workspaceReady: boolean;
	exposedPorts: Record<string, { host: string; port: number; tls: boolean }>;
	[key: string]: unknown;
}

interface ExecArgs {
	cmd: string;
	workdir?: string;
	shell?: string;
	login?: boolean;
	tty?: boolean;
	yieldTimeMs?: number;
	maxOutputTokens?: number;
	runAs?: string;
}

interface ExecResult {
	output: string;
	stdout: string;
	stderr: string;
	wallTimeSeconds: number;
	exitCode?: number;
	sessionId?: number;
	originalTokenCount?: number;
}

interface Operation {
	path: string;
	diff?: string;
	moveTo?: string;
	[key: string]: unknown;
}

function quoted(text: string): string {
	return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The beginning and the end of what is longer than the model wants. */
function shortened(output: string, tokens: number | undefined): { output: string; originalTokenCount?: number } {
	const most = (tokens ?? Infinity) * BYTES_OF_A_TOKEN, half = Math.floor(most / 2);
	if (output.length <= most)
		return { output };
	const count = Math.ceil(output.length / BYTES_OF_A_TOKEN);
	return { output: `${output.slice(0, half)}...${count - (tokens ?? 0)} tokens truncated...${output.slice(output.length - half)}`, originalTokenCount: count };
}

/** As the package's own sandboxes print it. */
function printed(result: ExecResult): string {
	return [`Wall time: ${result.wallTimeSeconds.toFixed(4)} seconds`,
		result.sessionId !== undefined ? `Process running with session ID ${result.sessionId}` : `Process exited with code ${result.exitCode}`,
		...(result.originalTokenCount !== undefined ? [`Original token count: ${result.originalTokenCount}`] : []),
		"Output:", result.output].join("\n");
}

function mediaType(data: Uint8Array): string {
	const head = Buffer.from(data.subarray(0, 12)).toString("latin1");
	const found = [["\x89PNG", "image/png"], ["\xff\xd8\xff", "image/jpeg"], ["GIF8", "image/gif"]].find(([magic]) => head.startsWith(magic!));
	if (!found && !(head.startsWith("RIFF") && head.endsWith("WEBP")))
		throw new BadRequest("unsupported image format");
	return found?.[1] ?? "image/webp";
}

export class CloisterSandboxSession {
	readonly state: CloisterSessionState;
	readonly #client: Client;
	readonly #library: Library;
	readonly #running = new Map<number, { session: string; next: number; tty: boolean }>();
	readonly #forwards: Forward[] = [];
	#lastId = 0;
	#closed = false;

	constructor(client: Client, loaded: Library, state: CloisterSessionState) {
		this.#client = client;
		this.#library = loaded;
		this.state = state;
	}

	async running(): Promise<boolean> {
		return !this.#closed;
	}

	supportsPty(): boolean {
		return true;
	}

	#check(runAs?: string): void {
		if (runAs)
			throw new BadRequest(`A workspace has one user, and commands cannot run as ${runAs}`);
	}

	async exec(args: ExecArgs): Promise<ExecResult> {
		this.#check(args.runAs);
		const began = performance.now();
		const { session } = await this.#client.sessionStart({
			command: args.shell ? `exec ${quoted(args.shell)} -c ${quoted(args.cmd)}` : args.cmd, cwd: args.workdir, env: this.state.environment,
			...(args.tty ? { pty: TERMINAL } : { stdin: true }) });
		const id = ++this.#lastId;
		this.#running.set(id, { session, next: 0, tty: args.tty ?? false });
		return await this.#output(id, began, args.yieldTimeMs ?? EXEC_YIELD_MS, args.maxOutputTokens);
	}

	async execCommand(args: ExecArgs): Promise<string> {
		return printed(await this.exec(args));
	}

	async writeStdin(args: { sessionId: number; chars?: string; yieldTimeMs?: number; maxOutputTokens?: number }): Promise<string> {
		const began = performance.now(), running = this.#running.get(args.sessionId);
		if (!running)
			return printed({ output: `write_stdin failed: session not found: ${args.sessionId}`, stdout: "", stderr: "", wallTimeSeconds: 0, exitCode: 1 });
		const { session } = running, interrupts = !running.tty && args.chars?.includes("\u0003");
		if (interrupts)
			await this.#client.sessionSignal({ session, signal: "INT" });
		const data = interrupts ? args.chars!.replaceAll("\u0003", "") : args.chars;
		if (data)
			await this.#client.sessionWrite({ session, data });
		return printed(await this.#output(args.sessionId, began, args.yieldTimeMs ?? STDIN_YIELD_MS, args.maxOutputTokens));
	}

	/** Reads what a command has written until it ends or the time is over. */
	async #output(id: number, began: number, yieldMs: number, tokens: number | undefined): Promise<ExecResult> {
		const running = this.#running.get(id)!, deadline = began + yieldMs, said = { all: "", stdout: "", stderr: "" };
		let read: SessionOutput;
		do {
			const wait = Math.min(LONGEST_WAIT_MS, Math.max(0, Math.round(deadline - performance.now())));
			read = await this.#client.sessionRead({
				session: running.session, after: running.next, max_bytes: READ_BYTES, wait_ms: wait, until: [{ exit: true }] });
			running.next = read.next;
			for (const { stream, data } of read.chunks) {
				said.all += data;
				said[stream] += data;
			}
		} while (read.chunks.length > 0 || (!read.end && performance.now() < deadline));
		const output = read.end?.["output"] as { exit_code: number | null } | null | undefined;
		if (read.end)
			this.#running.delete(id);
		return {
			...shortened(said.all, tokens), stdout: said.stdout, stderr: said.stderr, wallTimeSeconds: (performance.now() - began) / 1000,
			...(read.end ? { exitCode: output?.exit_code ?? 1 } : { sessionId: id }) };
	}

	async readFile(args: { path: string; maxBytes?: number; runAs?: string }): Promise<Uint8Array> {
		this.#check(args.runAs);
		const parts: Uint8Array[] = [];
		await this.#client.download({ path: args.path, ...(args.maxBytes === undefined ? {} : { length: args.maxBytes }) }, (part) => parts.push(part));
		return Buffer.concat(parts);
	}

	async viewImage(args: { path: string; runAs?: string }): Promise<{ type: "image"; image: { data: Uint8Array<ArrayBuffer>; mediaType: string } }> {
		const data = new Uint8Array(await this.readFile({ ...args, maxBytes: IMAGE_BYTES + 1 }));
		if (data.length > IMAGE_BYTES)
			throw new BadRequest("the image exceeded the allowed size of 10MB");
		return { type: "image", image: { data, mediaType: mediaType(data) } };
	}

	async listDir(args: { path: string; runAs?: string }): Promise<{ name: string; path: string; type: "file" | "dir" | "other" }[]> {
		this.#check(args.runAs);
		const { entries } = await this.#client.fileList({ path: args.path });
		return entries.map(({ path: name, type }) => ({
			name: path.posix.basename(name), path: name, type: type === "directory" ? "dir" : type === "file" ? "file" : "other" }));
	}

	async #typeOf(name: string): Promise<string | undefined> {
		try {
			return (await this.#client.fileStat({ path: name })).entry.type;
		} catch (error) {
			if (error instanceof NotFound)
				return undefined;
			throw error;
		}
	}

	async pathExists(name: string, runAs?: string): Promise<boolean> {
		this.#check(runAs);
		return await this.#typeOf(name) !== undefined;
	}

	async directoryExists(name: string, runAs?: string): Promise<boolean> {
		this.#check(runAs);
		return await this.#typeOf(name) === "directory";
	}

	/** Applies the diffs of apply_patch. */
	createEditor(runAs?: string) {
		this.#check(runAs);
		const read = async (name: string) => Buffer.from(await this.readFile({ path: name })).toString("utf8");
		const write = async (name: string, text: string) => await this.#client.upload(Buffer.from(text), { path: name });
		return {
			createFile: async ({ path: name, diff }: Operation) => {
				await write(name, this.#library.applyDiff("", diff ?? "", "create"));
			},
			updateFile: async ({ path: name, diff, moveTo }: Operation) => {
				await write(moveTo ?? name, this.#library.applyDiff(await read(name), diff ?? ""));
				if (moveTo && moveTo !== name)
					await this.#client.fileRemove({ path: name });
			},
			deleteFile: async ({ path: name }: Operation) => {
				await this.#client.fileRemove({ path: name });
			},
		};
	}

	async materializeEntry({ path: name, entry, runAs }: { path: string; entry: any; runAs?: string }): Promise<void> {
		this.#check(runAs);
		await this.#materialize(name, entry as Entry);
	}

	async #materialize(name: string, entry: Entry): Promise<void> {
		const { type, content, src } = entry;
		if (type === "file") {
			await this.#client.upload(typeof content === "string" ? Buffer.from(content) : content ?? Buffer.alloc(0), { path: name });
		} else if (type === "dir") {
			await this.#client.fileMakeDirectory({ path: name });
			for (const [child, inner] of Object.entries(entry.children ?? {}))
				await this.#materialize(path.posix.join(name, child), inner);
		} else if (type === "local_file") {
			await this.#client.upload(createReadStream(src!), { path: name });
		} else if (type === "local_dir") {
			await this.#client.fileMakeDirectory({ path: name });
			for (const found of await readdir(src!, { withFileTypes: true }))
				if (found.isDirectory() || found.isFile())
					await this.#materialize(path.posix.join(name, found.name), {
						type: found.isDirectory() ? "local_dir" : "local_file", src: path.join(src!, found.name) });
		} else if (type === "git_repo") {
			await this.#clone(name, entry);
		} else {
			throw new BadRequest(`A workspace has no mounts, and the manifest's entry ${name} is a ${type}`);
		}
	}

	/** By a command, so the tenant's network decides. */
	async #clone(name: string, { host = "github.com", repo = "", ref, subpath }: Entry): Promise<void> {
		const url = /^[a-z]+:\/\//.test(repo) ? repo : `https://${host}/${repo}`;
		const command = `set -e; t=$(mktemp -d); git clone -q --depth 1 ${ref ? `--branch ${quoted(ref)}` : ""} -- ${quoted(url)} "$t/r"; ` +
			`mkdir -p -- ${quoted(name)}; cp -a "$t/r/"${quoted(subpath ?? "")}/. ${quoted(name)}; rm -rf "$t"`;
		const { exit_code: code, stderr } = await this.#client.runCommand({ command, timeout_ms: LONGEST_WAIT_MS });
		if (code !== 0)
			throw new BadRequest(`${url} was not cloned: ${stderr.trim().slice(-500)}`);
	}

	async applyManifest(manifest: any, runAs?: string): Promise<void> {
		const given = manifest as ManifestLike, old = this.state.manifest as ManifestLike;
		for (const [name, entry] of Object.entries(given.entries))
			await this.materializeEntry({ path: name, entry, ...(runAs ? { runAs } : {}) });
		Object.assign(this.state.environment, await given.resolveEnvironment());
		if (given !== old)
			this.state.manifest = new this.#library.Manifest({
				...old, entries: { ...old.entries, ...given.entries }, environment: { ...old.environment, ...given.environment } });
	}

	/** A tar archive. */
	async persistWorkspace(): Promise<Uint8Array> {
		const parts: Uint8Array[] = [];
		await this.#client.export((part) => parts.push(part));
		return Buffer.concat(parts);
	}

	async hydrateWorkspace(data: string | ArrayBuffer | Uint8Array): Promise<void> {
		const name = `.hydrate-${randomBytes(8).toString("hex")}.tar`;
		await this.#client.upload(typeof data === "string" ? Buffer.from(data, "base64") : new Uint8Array(data), { path: name });
		const { exit_code: code, stderr } = await this.#client.runCommand({ command: `tar -xf ${name}; code=$?; rm ${name}; exit $code` });
		if (code !== 0)
			throw new BadRequest(`The archive was not unpacked: ${stderr.trim().slice(-500)}`);
	}

	/** A port of this host, until the session is closed. */
	async resolveExposedPort(port: number): Promise<{ host: string; port: number; tls: boolean }> {
		const known = this.state.exposedPorts[String(port)];
		if (known)
			return known;
		const forward = await this.#client.forward(port);
		this.#forwards.push(forward);
		return this.state.exposedPorts[String(port)] = { host: forward.host, port: forward.port, tls: false };
	}

	/** Ends what runs. */
	async stop(): Promise<void> {
		const running = [...this.#running.values()];
		this.#running.clear();
		await Promise.allSettled(running.map(async ({ session }) => await this.#client.sessionEnd({ session, grace_ms: 0 })));
	}

	/** Removes the workspace, if it was made for this sandbox, and closes the client. */
	async delete(): Promise<void> {
		if (this.#closed)
			return;
		try {
			if (this.state.owned)
				await this.#client.workspaceRemove({ workspace: this.state.workspace });
		} finally {
			this.#close();
		}
	}

	/** Closes the client; the workspace stays. */
	async close(): Promise<void> {
		await this.stop();
		this.#close();
	}

	#close(): void {
		this.#closed = true;
		for (const forward of this.#forwards)
			forward.close();
		this.state.exposedPorts = {};
		this.#client.close();
	}
}

/** For run(agent, input, { sandbox: { client: new CloisterSandboxClient({ ... }) } }). */
export class CloisterSandboxClient {
	readonly backendId = "cloister";
	readonly supportsDefaultOptions = true;
	readonly #options: CloisterSandboxOptions;

	constructor(options: CloisterSandboxOptions = {}) {
		this.#options = options;
	}

	async #open(loaded: Library, options: CloisterSandboxOptions, state: CloisterSessionState): Promise<CloisterSandboxSession> {
		const { workspace, template, labels, leaseMs, ...settings } = options, client = new Client(settings);
		const made = {
			labels, shown_at: state.manifest.root === "/workspace" ? undefined : (state.manifest as ManifestLike).root,
			lease: leaseMs ? { ms: leaseMs, at_end: "remove" } : undefined };
		try {
			if (template && state.owned)
				state.workspace = (await client.workspaceFork({ from: template, prefix: state.workspace, ...made })).workspaces[0]!;
			await client.workspaceOpen({ workspace: state.workspace, ...(template || !state.owned ? {} : made) });
			return new CloisterSandboxSession(client, loaded, state);
		} catch (error) {
			client.close();
			throw error;
		}
	}

	async create(args?: any, manifestOptions?: CloisterSandboxOptions): Promise<CloisterSandboxSession> {
		const loaded = await library();
		const isManifest = args instanceof loaded.Manifest;
		const given = (isManifest ? { manifest: args, options: manifestOptions } : args ?? {}) as { manifest?: unknown; options?: CloisterSandboxOptions; snapshot?: { type?: string } };
		const options = { ...this.#options, ...given.options };
		const manifest = given.manifest instanceof loaded.Manifest ? given.manifest : new loaded.Manifest(given.manifest ?? {});
		const session = await this.#open(loaded, options, {
			manifest, environment: {}, workspace: options.workspace ?? `sandbox-${randomBytes(8).toString("hex")}`,
			owned: options.workspace === undefined, workspaceReady: true, exposedPorts: {} });
		try {
			await session.applyManifest(manifest);
		} catch (error) {
			await session.delete();
			throw error;
		}
		return session;
	}

	/** Opens the workspace again, with its files; what ran there has ended. */
	async resume(state: CloisterSessionState, { clientOptions }: { clientOptions?: CloisterSandboxOptions } = {}): Promise<CloisterSandboxSession> {
		const client = new Client({ ...this.#options, ...clientOptions });
		try {
			await client.workspaceOpen({ workspace: state.workspace, create: false });
			return new CloisterSandboxSession(client, await library(), { ...state, exposedPorts: {} });
		} catch (error) {
			client.close();
			throw error;
		}
	}

	async delete(state: CloisterSessionState): Promise<void> {
		const client = new Client(this.#options);
		try {
			await client.workspaceRemove({ workspace: state.workspace });
		} catch (error) {
			if (!(error instanceof WorkspaceNotFound))
				throw error;
		} finally {
			client.close();
		}
	}

	/** The package keeps the manifest itself. Variables are resolved again. */
	async serializeSessionState(state: CloisterSessionState): Promise<Json> {
		return { workspace: state.workspace, owned: state.owned };
	}

	async deserializeSessionState(state: Json): Promise<CloisterSessionState> {
		const { Manifest } = await library();
		const manifest = new Manifest(state["manifest"] ?? {}) as ManifestLike;
		return {
			manifest, environment: await manifest.resolveEnvironment(), workspace: String(state["workspace"]), owned: state["owned"] === true,
			workspaceReady: true, exposedPorts: {} };
	}

	/** The workspace outlives the session's object, unless it was made for it. */
	canPersistOwnedSessionState(state: CloisterSessionState): boolean {
		return !state.owned;
	}
}
