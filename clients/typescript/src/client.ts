// SPDX-License-Identifier: Apache-2.0
// The client: connecting and reconnecting, reopening workspaces, calls, deadlines.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Archive, EXPORT_SCRIPT } from "./archive.js";
import { Connection, connectTo, places, type Place } from "./connection.js";
import { BadRequest, CertificateError, Closed, ConnectionLost, ExportFailed, NoAnswer, ProtocolError, ServiceError, ServiceNotFound } from "./errors.js";
import {
	Busy, CALL_MS, LONG_METHODS, Methods, Moved, NotFound, READ_METHODS, READ_TOOLS, ShuttingDown, WorkspaceNotFound,
	type CallOptions, type Durability, type Encoding, type Exported, type FileEvent, type FileRead, type FileWritten, type InputResult,
	type Observation, type SessionOutput, type ToolCallSettings, type ToolMessage, type Workspace,
} from "./generated.js";
import { Forward } from "./forward.js";
import { isObject, Output, Retired, serviceError, Told, type Pending } from "./wire.js";

type Json = Record<string, unknown>;

/** The pause between two attempts to connect. */
const FIRST_PAUSE_MS = 50, LONGEST_PAUSE_MS = 2000;
/** How often a call with a key is repeated, each time after a lost connection. */
const REPEATS = 3;
/** How much longer than the client a call waits for it. */
const KEY_WAIT_MS = 10_000;
/** Keys that the next calls name as no longer needed. */
const FORGOTTEN_LATER = 64;
/** Of a file, in one request. */
const PART_BYTES = 512 * 1024;
/** Of setTimeout(). */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** An export on which no byte moves for so long ends. */
const EXPORT_IDLE_MS = 60_000;
/** Of a session's output, and how long one request waits for it. */
const READ_ON_BYTES = 256 * 1024, READ_ON_MS = 60_000;
/** From host to host, for one request. */
const MOVES_IN_A_ROW = 4;

/** A call with a key was lost, and the host that knows the key refuses its workspace. */
class Elsewhere extends ConnectionLost {
	constructor() {
		super("The connection was lost, and the workspace has moved to another host; the call may have run");
		this.name = "ConnectionLost";
	}
}

export interface ClientSettings {
	/**
	 * The agent socket; otherwise CLOISTER_SOCKET, the user's own service and the host's are tried. Or the URL of
	 * cloister-gate(8): https://HOST or https://HOST:PORT, or http:// on this host.
	 */
	path?: string | undefined;
	/** With an URL, the key that the gate knows; otherwise CLOISTER_KEY. */
	key?: string | undefined;
	/** With an URL, a file with the certificates of the authorities that are believed; otherwise those that Node believes. */
	caFile?: string | undefined;
	/** How long the first connection waits for a service; default 0. */
	waitMs?: number | undefined;
	/** How long a later connection waits while the service restarts; default 30000. Null: the client does not reconnect. */
	reconnectMs?: number | null | undefined;
	/** How long an answer may take beyond the call's deadline before NoAnswer is thrown; default 60000. */
	answerTimeoutMs?: number | undefined;
	/** A call that only reads is repeated once when the connection was lost. */
	retryReads?: boolean | undefined;
	/**
	 * Other calls get a key from the client, where the service keeps keys, and are repeated with it: they run at most once.
	 * Default true. False: only calls with the option key are repeated. A call of start() or startCall() never is.
	 */
	keys?: boolean | undefined;
	/**
	 * The agent sockets or URLs of other hosts, by the names that place() gets. Where a host answers Moved with one of them, the
	 * client goes there, opens its workspaces and repeats the request, if nothing else of it is in flight. A workspace that
	 * exists at the old host must have been moved before, or the request throws Moved. A call of start() or startCall()
	 * throws it too, and any call where there are no nodes.
	 */
	nodes?: Readonly<Record<string, string>> | undefined;
}

/** A tool call: either tool and arguments, or a model's tool_call unchanged. */
export interface ToolCall extends ToolCallSettings {
	tool?: string | undefined;
	arguments?: object | undefined;
	tool_call?: object | undefined;
	/** The deadline, which the service enforces. */
	timeout_ms?: number | undefined;
}

/** Where bytes go: a stream, which may make the client wait, or a function. */
export type Sink = Writable | ((data: Uint8Array) => unknown);

/** Where bytes come from: all of them, or a stream of them. */
export type Source = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export interface TransferSettings {
	workspace?: string | undefined;
	/** Is given how many bytes have been moved so far. */
	onProgress?: ((bytes: number) => void) | undefined;
	/** Aborted, it cancels the transfer. */
	signal?: AbortSignal | undefined;
}

/** An opened workspace: its parameters and its names. */
interface Opened {
	params: Json;
	names: Set<unknown>;
	tenant: unknown;
	/** The service keeps keys there. */
	keys: boolean;
}

/** A request in flight. Iterating gives the output of a streamed call as it comes. */
export class Call implements AsyncIterable<Output> {
	readonly id: number;
	readonly #session: Session;
	readonly #pending: Pending;
	readonly #connection: Connection;
	readonly #signal: AbortSignal | undefined;

	constructor(session: Session, started: Started, signal?: AbortSignal) {
		this.#session = session;
		this.#pending = started.pending;
		this.#connection = started.connection;
		this.#signal = signal;
		this.id = started.pending.id;
		const abort = () => this.forget();
		signal?.addEventListener("abort", abort, { once: true });
		// A call that is done removes its listener, because the signal may live long.
		const settled = () => {
			if (this.#pending.done) {
				this.#pending.wakers.delete(settled);
				signal?.removeEventListener("abort", abort);
			}
		};
		this.#pending.wakers.add(settled);
	}

	/** Resolves to the result; for a tool call the observation. Unread output goes to onOutput, or is dropped. */
	async wait(onOutput?: (piece: Output) => void): Promise<unknown> {
		return await this.#session.finish({ pending: this.#pending, connection: this.#connection }, onOutput, this.#signal);
	}

	/** Asks the service to end the call, which is then answered with CANCELLED. Returns whether it was in flight. */
	async cancel(): Promise<boolean> {
		if (this.#pending.done || this.#connection.wire.ended)
			return false;
		const asked = this.#session.begin(this.#connection, "tool.cancel", { id: this.id });
		return asObject(await this.#session.answer(asked))["cancelled"] === true;
	}

	/** Cancels the call, and drops its output and its answer. */
	forget(): void {
		this.#pending.wire.abandon(this.#pending);
		this.#connection.look();
	}

	/** Gives the command input, and resolves when the command has read it. The call must have the option stdin_stream. */
	async input(data = "", settings: { eof?: boolean; encoding?: Encoding } = {}): Promise<InputResult> {
		const sent = this.#session.begin(this.#connection, "tool.input", { id: this.id, data, ...settings });
		return asObject(await this.#session.answer(sent)) as unknown as InputResult;
	}

	async *[Symbol.asyncIterator](): AsyncGenerator<Output, void, undefined> {
		for (;;) {
			const piece = await this.#session.piece({ pending: this.#pending, connection: this.#connection }, this.#signal);
			if (!piece)
				return;
			yield piece;
		}
	}
}

/** A directory that is watched. Iterating gives its events as they come; closing it ends that. */
export class Watch implements AsyncIterable<FileEvent> {
	readonly #session: Session;
	readonly #started: Started;
	readonly #signal: AbortSignal | undefined;

	constructor(session: Session, started: Started, signal: AbortSignal | undefined) {
		this.#session = session;
		this.#started = started;
		this.#signal = signal;
	}

	close(): void {
		this.#started.pending.wire.abandon(this.#started.pending);
		this.#started.pending.finish(undefined, undefined);
		this.#started.connection.look();
	}

	/** Throws the reason when nothing is watched any more. */
	async *[Symbol.asyncIterator](): AsyncGenerator<FileEvent, void, undefined> {
		for (let told; (told = await this.#session.told(this.#started, this.#signal));)
			yield told as unknown as FileEvent;
	}
}

/** A session's output as it comes, to its end, also over lost connections. */
export class Attached implements AsyncIterable<Output> {
	/** The cursor after what was read. */
	next: number;
	/** What was not kept for long enough to be read. */
	lostBytes = 0;
	/** The observation of the command, once it has ended and all was read. */
	end: Observation | undefined;
	readonly #client: Session;
	readonly #session: string;
	readonly #signal: AbortSignal | undefined;

	constructor(client: Session, session: string, after: number, signal: AbortSignal | undefined) {
		this.#client = client;
		this.#session = session;
		this.next = after;
		this.#signal = signal;
	}

	async *[Symbol.asyncIterator](): AsyncGenerator<Output, void, undefined> {
		while (!this.end) {
			const read = await this.#client.readOn({
				session: this.#session, after: this.next, max_bytes: READ_ON_BYTES, wait_ms: READ_ON_MS, encoding: "base64" }, this.#signal);
			this.next = read.next;
			this.lostBytes += read.lost_bytes;
			for (const { stream, data } of read.chunks)
				yield new Output(stream, Buffer.from(data, "base64"));
			if (read.chunks.length === 0)
				this.end = read.end as Observation | undefined;
		}
	}
}

interface Started {
	pending: Pending;
	connection: Connection;
}

/** A client's state, which outlives its connections. */
class Session {
	readonly #settings: ClientSettings;
	readonly #answerTimeout: number;
	#connection: Connection | undefined;
	#connecting: Promise<Connection> | undefined;
	#found: Place | undefined;
	#workspaces: Opened[] = []; // the default, if there is one, last
	#default = false; // the last of them is the default
	#closed = false;
	readonly #own = new Set<Started>(); // calls in flight with a key that the client made
	#moves = 0; // to other hosts
	#needless: { workspace: unknown; key: string }[] = [];

	constructor(settings: ClientSettings) {
		this.#settings = settings;
		this.#answerTimeout = settings.answerTimeoutMs ?? 60_000;
	}

	// Connecting

	/** Resolves to a connection on which the workspaces are open. */
	async connect(): Promise<Connection> {
		if (!this.#connecting && this.#connection && !this.#connection.wire.ended)
			await this.#connection.settle();
		if (this.#closed)
			throw new Closed("The client is closed; make another one");
		if (!this.#connecting && this.#connection && !this.#connection.wire.ended)
			return this.#connection;
		this.#connecting ??= this.#connect().finally(() => {
			this.#connecting = undefined;
		});
		return await this.#connecting;
	}

	async #connect(): Promise<Connection> {
		const { waitMs = 0, reconnectMs = 30_000 } = this.#settings;
		if (this.#found && reconnectMs === null)
			throw new ConnectionLost("The connection has ended, and the client was made without reconnect");
		const deadline = performance.now() + ((this.#found ? reconnectMs : waitMs) ?? 0);
		for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
			try {
				return await this.#attempt();
			} catch (error) {
				const left = deadline - performance.now();
				if (left <= 0 || this.#closed || !isTransient(error))
					throw error;
				const asked = error instanceof ServiceError ? error.retryAfterMs ?? 0 : 0;
				await sleep(Math.min(left, Math.max(pause, asked)));
			}
		}
	}

	/** @node is the host that the work has moved to, where workspaces must be before they are opened. */
	async #attempt(node?: Place): Promise<Connection> {
		const known = node ?? this.#found;
		const connection = await Connection.open(known ? [known] : places(this.#settings.path), this.#settings);
		try {
			for (const opened of this.#workspaces) {
				const params = node ? existing(opened.params) : opened.params;
				opened.keys = keepsKeys(await this.answer(this.begin(connection, "workspace.open", params)));
			}
			if (this.#closed)
				throw new Closed("The client is closed; make another one");
		} catch (error) {
			connection.close("The workspaces could not be opened again");
			throw error;
		}
		this.#found = connection.place;
		this.#connection = connection;
		return connection;
	}

	/**
	 * Connects to the host that the work has moved to, after as many @moves, and opens the workspaces there. Throws @moved
	 * where that cannot be done.
	 */
	async #follow(moved: Moved, moves: number): Promise<void> {
		while (this.#connecting)
			await this.#connecting.catch(() => undefined);
		if (this.#moves !== moves && !this.#closed)
			return; // another request has done it
		const path = moved.node !== undefined && Object.hasOwn(this.#settings.nodes!, moved.node) ? this.#settings.nodes![moved.node] : undefined;
		const old = this.#connection;
		// The calls of other workspaces go on at the old host, and would end with the connection.
		if (path === undefined || this.#closed || (old && !old.wire.ended && old.wire.inFlight > 0))
			throw moved;
		this.#connecting = this.#attempt({ path, named: true }).finally(() => {
			this.#connecting = undefined;
		});
		try {
			await this.#connecting;
		} catch (error) {
			moved.cause = error;
			throw moved;
		} finally {
			old?.close("The client follows its workspace to another host");
		}
		this.#moves++;
	}

	close(): void {
		this.#closed = true;
		for (const { pending } of this.#own) // otherwise the service would wait for the client to come back
			pending.wire.abandon(pending);
		this.#connection?.close("The program closed the client");
	}

	// Requests

	begin(connection: Connection, method: string, params: Json): Started {
		const pending = connection.wire.request(method, params);
		pending.deadline = performance.now() + this.#patience(method, params);
		return { pending, connection };
	}

	/** Returns how long an answer may take: the call's deadline, and what the client allows beyond it. */
	#patience(method: string, params: Json): number {
		if (!LONG_METHODS.has(method))
			return this.#answerTimeout;
		const given = [params["options"], params["arguments"]].map((table) => isObject(table) ? table["timeout_ms"] : undefined)
			.filter((value): value is number => typeof value === "number" && value > 0);
		return Math.min(CALL_MS, ...given) + this.#answerTimeout;
	}

	/** @moves: those after which a call with a key was sent first; another host does not know the key. */
	async start(method: string, params: object, moves?: number): Promise<Started> {
		if (!isObject(params))
			throw new BadRequest("params must be an object");
		const connection = await this.connect();
		if (moves !== undefined && this.#moves !== moves)
			throw new Elsewhere();
		if (method === "tool.call" && params["workspace"] === undefined && this.#workspaces.length > 0 && !this.#default)
			// After a reconnection another workspace would be the connection's default.
			throw new WorkspaceNotFound("The default workspace was closed; open one with workspace.open, or name one",
				{ code: "WORKSPACE_NOT_FOUND" });
		return this.begin(connection, method, params);
	}

	/** Waits for the answer, and gives output to the handler in the meantime. */
	async answer({ pending, connection }: Started, onOutput?: (piece: Output) => void, signal?: AbortSignal): Promise<unknown> {
		try {
			for (let done = false; !done;) {
				if (!await connection.wait(pending, pending.streams, signal))
					throw new NoAnswer(`The service did not answer ${pending.method} in time; the client has cancelled it`);
				done = pending.done || pending.error !== undefined;
				for (const piece of pending.wire.take(pending))
					onOutput?.(piece);
			}
		} catch (error) {
			pending.wire.abandon(pending);
			throw error;
		} finally {
			connection.look();
		}
		if (pending.error)
			throw pending.error;
		return pending.result;
	}

	async finish(started: Started, onOutput?: (piece: Output) => void, signal?: AbortSignal): Promise<unknown> {
		const result = await this.answer(started, onOutput, signal);
		this.#note(started.pending, result);
		return result;
	}

	/** Resolves to the next piece of output; undefined after the last. */
	async piece({ pending, connection }: Started, signal?: AbortSignal): Promise<Output | undefined> {
		if (!await connection.wait(pending, true, signal))
			throw new NoAnswer(`The service did not answer ${pending.method} in time`);
		const piece = pending.wire.takeOne(pending);
		connection.look();
		if (!piece && pending.error)
			throw pending.error;
		return piece;
	}

	/** Remembers a workspace, to open it again. */
	#note(pending: Pending, result: unknown): void {
		const { method, params } = pending;
		if (method.startsWith("workspace."))
			this.#needless = []; // their workspace may have another name now
		if (method === "workspace.open") {
			const { workspace, tenant } = asObject(result);
			const names = new Set([params["root"], params["workspace"], workspace].filter((name) => name !== undefined));
			this.#workspaces = this.#workspaces.filter((other) =>
				other.tenant !== tenant || ![...names].some((name) => other.names.has(name)));
			this.#workspaces.push({ params, names, tenant, keys: keepsKeys(result) });
			this.#default = true;
		} else if (method === "workspace.close" || method === "workspace.remove") {
			const last = this.#default ? this.#workspaces.at(-1) : undefined;
			const isClosed = (other: Opened) => params["workspace"] === undefined ? other === last :
				other.names.has(params["workspace"]) && (params["tenant"] === undefined || params["tenant"] === other.tenant);
			if (last && isClosed(last))
				this.#default = false;
			this.#workspaces = this.#workspaces.filter((other) => !isClosed(other));
		}
	}

	/** Makes a request, and follows its workspace to other hosts. */
	async request(method: string, params: object, onOutput?: (piece: Output) => void, signal?: AbortSignal): Promise<unknown> {
		for (let left = this.#settings.nodes ? MOVES_IN_A_ROW : 0; ; left--) {
			const moves = this.#moves;
			try {
				return await this.#request(method, params, onOutput, signal);
			} catch (error) {
				if (!(error instanceof Moved) || left === 0)
					throw error;
				await this.#follow(error, moves);
				if (method === "workspace.open" && error.exists)
					params = existing(params as Json);
			}
		}
	}

	async #request(method: string, params: object, onOutput?: (piece: Output) => void, signal?: AbortSignal): Promise<unknown> {
		signal?.throwIfAborted();
		if (this.#settings.keys !== false && wantsKey(method, params))
			return await this.#callWithOwnKey(params as Json, onOutput, signal);
		const keyed = hasKey(method, params), moves = this.#moves;
		let sent = false, unbegun = REPEATS;
		for (let left = keyed ? REPEATS : this.#settings.retryReads && reads(method, params) ? 1 : 0; ; left--) {
			const again = keyed && sent;
			try {
				const started = await this.start(method, params, again ? moves : undefined);
				sent = true;
				return await this.finish(started, onOutput, signal);
			} catch (error) {
				if (again && error instanceof Moved)
					throw new Elsewhere();
				if (error instanceof Retired && unbegun-- > 0 && !this.#closed) {
					left++;
					continue;
				}
				if (!(error instanceof ConnectionLost) || error instanceof Elsewhere || left === 0 || this.#closed)
					throw error;
			}
		}
	}

	// Files, ports and sessions

	/** Gives the pieces of a streamed request to @take, and resolves to its result. */
	async #stream(started: Started, patience: number, signal: AbortSignal | undefined, take: (piece: Output) => Promise<void>): Promise<unknown> {
		try {
			for (let piece; (piece = await this.piece(started, signal));) {
				await take(piece);
				started.pending.deadline = performance.now() + patience;
			}
		} catch (error) {
			started.pending.wire.abandon(started.pending);
			started.connection.look();
			throw error;
		}
		return started.pending.result;
	}

	/** Resolves to the request of a directory that is watched from now on. */
	async watch(params: Json, signal: AbortSignal | undefined): Promise<Started> {
		const started = await this.start("file.watch", params);
		try {
			await this.told(started, signal, this.#patience("file.watch", params));
		} catch (error) {
			started.pending.wire.abandon(started.pending);
			throw error;
		}
		return started;
	}

	/** Resolves to what is told next; undefined after the end that the client has asked for. */
	async told(started: Started, signal: AbortSignal | undefined, patience = LONGEST_TIMER_MS): Promise<Json | undefined> {
		started.pending.deadline = performance.now() + patience;
		const piece = await this.piece(started, signal);
		return piece instanceof Told ? piece.params : undefined;
	}

	/** Reads a file of the workspace into @sink, a part at a time: one that is written slowly is sent slowly. */
	async download(params: Json, sink: Sink, { onProgress, signal }: TransferSettings): Promise<Json> {
		const started = await this.start("file.read", { ...params, encoding: "base64" });
		let moved = 0;
		return asObject(await this.#stream(started, this.#patience("file.read", params), signal, async ({ data }) => {
			await pour(data, sink, signal);
			onProgress?.(moved += data.length);
		}));
	}

	/** Writes what @source has to a file of the workspace; without the whole of it there is no file. */
	async upload(source: Source, params: Json, { onProgress, signal }: TransferSettings): Promise<Json> {
		const started = await this.start("file.write", params), { pending } = started;
		let moved = 0;
		try {
			for await (const part of parts(source)) {
				signal?.throwIfAborted();
				pending.deadline = performance.now() + this.#patience("file.write", params);
				if (await this.#sendPart(started, part, signal))
					break;
				onProgress?.(moved += part.length);
			}
		} catch (error) {
			pending.wire.abandon(pending);
			throw error;
		}
		return asObject(await this.finish(started, undefined, signal));
	}

	/** Resolves to whether nothing more is to be sent: it was the last part, or the write has failed, and says why. */
	async #sendPart({ pending, connection }: Started, part: Uint8Array, signal: AbortSignal | undefined): Promise<boolean> {
		const data = Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString("base64");
		const sent = this.begin(connection, "tool.input", { id: pending.id, data, encoding: "base64", eof: part.length === 0 });
		sent.pending.deadline = pending.deadline;
		try {
			const { closed } = asObject(await this.answer(sent, undefined, signal));
			return part.length === 0 || closed === true;
		} catch (error) {
			if (error instanceof NotFound) // it was answered meanwhile
				return true;
			throw error;
		}
	}

	async export(sink: Sink, { workspace, onProgress, signal }: TransferSettings): Promise<Exported> {
		const archive = new Archive(workspace ?? this.#defaultName()), said: string[] = [];
		const params = callParams({
			tool: "run_command", arguments: { command: EXPORT_SCRIPT }, workspace, timeout_ms: CALL_MS,
			options: { encoding: "base64", keep_output: false, idle_timeout_ms: EXPORT_IDLE_MS, stream: true } });
		let bytes = 0;
		const observation = await this.#stream(await this.start("tool.call", params), this.#patience("tool.call", params), signal, async (piece) => {
			if (piece.stream === "stderr") {
				said.push(said.length < 16 ? piece.text.slice(0, 1024) : "");
				return;
			}
			const part = archive.feed(piece.data);
			await pour(part, sink, signal);
			bytes += part.length;
			onProgress?.(bytes);
		});
		if (asObject(outputOf(asObject(observation) as unknown as Observation))["exit_code"] !== 0)
			throw new ExportFailed(said.join("").trim() || "The command that makes the archive failed");
		const end = archive.end();
		await pour(end, sink, signal);
		return { entries: archive.entries, bytes: bytes + end.length, left_out: archive.leftOut };
	}

	#defaultName(): string {
		if (!this.#default)
			throw new WorkspaceNotFound("No workspace is open; open one with workspace.open, or name one", { code: "WORKSPACE_NOT_FOUND" });
		const { workspace, root } = this.#workspaces.at(-1)!.params;
		return String(workspace ?? root);
	}

	async forward(port: number, workspace: string | undefined): Promise<Forward> {
		await this.connect();
		const name = workspace ?? this.#defaultName();
		const params = this.#workspaces.find((opened) => opened.names.has(name))?.params ?? (name.startsWith("/") ? { root: name } : { workspace: name });
		const open = async () => await connectTo(this.#found!.path, this.#settings);
		return new Forward(open, [{ method: "workspace.open", params: existing(params) }, { method: "workspace.forward", params: { port } }]);
	}

	/** Reads a session's output, and connects again if the connection is lost. */
	async readOn(params: Json, signal: AbortSignal | undefined): Promise<SessionOutput> {
		for (let left = this.#settings.reconnectMs === null ? 0 : REPEATS; ; left--) {
			try {
				return asObject(await this.request("session.read", params, undefined, signal)) as unknown as SessionOutput;
			} catch (error) {
				if (!(error instanceof ConnectionLost) || error instanceof ProtocolError || left === 0 || this.#closed)
					throw error;
			}
		}
	}

	// Calls with a key that the client made

	/** Whether the service said that it keeps keys when the call's workspace was opened. */
	#keepsKeys(workspace: unknown): boolean {
		if (workspace === undefined)
			return this.#default && this.#workspaces.at(-1)!.keys;
		return this.#workspaces.some((opened) => opened.keys && opened.names.has(workspace));
	}

	/** Makes a call that may change something, and repeats it if the connection is lost. */
	async #callWithOwnKey(params: Json, onOutput?: (piece: Output) => void, signal?: AbortSignal): Promise<unknown> {
		const key = randomBytes(16).toString("hex"), workspace = params["workspace"], moves = this.#moves;
		for (let left = REPEATS; ; left--) {
			const again = left < REPEATS;
			await this.connect().catch((error: unknown) => {
				throw again && error instanceof Moved ? new Elsewhere() : error;
			});
			if (!this.#keepsKeys(workspace)) {
				if (again)
					throw new ConnectionLost("The connection was lost, and the service keeps no keys now; the call may have run");
				return await this.finish(await this.start("tool.call", params), onOutput, signal);
			}
			const started = await this.start("tool.call", this.#withKey(params, key), again ? moves : undefined);
			this.#own.add(started);
			try {
				const result = await this.finish(started, onOutput, signal);
				this.#needless = [...this.#needless, { workspace, key }].slice(-FORGOTTEN_LATER);
				return result;
			} catch (error) {
				if (again && error instanceof Moved)
					throw new Elsewhere();
				if (!(error instanceof ConnectionLost) || left === 0 || this.#closed)
					throw error;
			} finally {
				this.#own.delete(started);
			}
		}
	}

	#withKey(params: Json, key: string): Json {
		const wait = Math.min((this.#settings.reconnectMs ?? (this.#settings.reconnectMs === null ? 0 : 30_000)) + KEY_WAIT_MS, CALL_MS);
		const options: Json = { ...(params["options"] as Json | undefined), key, key_wait_ms: Math.round(wait) };
		if (this.#needless[0] && this.#needless[0].workspace === params["workspace"])
			options["forget_key"] = this.#needless.shift()!.key;
		return { ...params, options };
	}
}

function isTransient(error: unknown): boolean {
	return !(error instanceof ProtocolError || error instanceof CertificateError) && [ServiceNotFound, ConnectionLost, Busy, ShuttingDown].some((kind) => error instanceof kind);
}

async function pour(data: Uint8Array, sink: Sink, signal: AbortSignal | undefined): Promise<void> {
	if (typeof sink === "function")
		await sink(data);
	else if (sink.errored || sink.destroyed)
		throw sink.errored ?? new Error("the stream is closed");
	else if (!sink.write(data))
		await once(sink, "drain", signal ? { signal } : {});
}

/** The parts of a file for tool.input, of which the last is empty. */
async function* parts(source: Source): AsyncGenerator<Uint8Array, void, undefined> {
	for await (const piece of source instanceof Uint8Array ? [source] : source)
		for (let at = 0; at < piece.length; at += PART_BYTES)
			yield piece.subarray(at, at + PART_BYTES);
	yield new Uint8Array(0);
}

/** Returns the parameters of tool.call. */
function callParams(call: ToolCall, more: CallOptions = {}): Json {
	if ((call.tool === undefined) === (call.tool_call === undefined) || (call.tool_call && call.arguments))
		throw new BadRequest("A call has either tool and arguments or tool_call");
	const options: CallOptions = { ...call.options, ...more };
	if (options.stream_bytes)
		throw new BadRequest("This client takes output as JSON: leave the option stream_bytes out");
	if (call.timeout_ms !== undefined)
		options.timeout_ms = call.timeout_ms;
	return {
		tool: call.tool, arguments: call.tool === undefined ? undefined : call.arguments ?? {}, tool_call: call.tool_call,
		options, workspace: call.workspace,
	};
}

/** Returns the output of an observation. Throws the class of its error if the tool failed. */
export function outputOf(observation: Observation): unknown {
	const { error, output } = observation;
	if (error)
		throw serviceError(error.code, String(error.message), 0, error as unknown as Json, observation);
	if (!isObject(output))
		throw new ProtocolError("The service sent an observation with neither an output nor an error");
	return output;
}

function asObject(result: unknown): Json {
	if (!isObject(result))
		throw new ProtocolError("The service sent a result that is no object");
	return result;
}

/** The service runs a call with a key at most once, so the client may send it again. */
function hasKey(method: string, params: object): boolean {
	const { options } = params as Json;
	return method === "tool.call" && isObject(options) && Boolean(options["key"]);
}

/** Whether a call may change something, and its whole result can be had again. */
function wantsKey(method: string, params: object): boolean {
	const { options = {} } = params as Json;
	return method === "tool.call" && !reads(method, params) && isObject(options) && options["keep_output"] !== false &&
		!["key", "forget_key", "stdin_stream", "transaction"].some((name) => options[name]);
}

/** Returns the parameters of workspace.open that make no workspace: an empty one would hide that it was not moved. */
function existing(params: Json): Json {
	return params["workspace"] === undefined ? params : { ...params, create: false };
}

function keepsKeys(opened: unknown): boolean {
	return asObject(opened)["key_horizon_ms"] !== undefined;
}

function reads(method: string, params: object): boolean {
	if (method !== "tool.call")
		return READ_METHODS.has(method);
	const { tool, tool_call: call } = params as Json;
	const function_ = isObject(call) && isObject(call["function"]) ? call["function"]["name"] : undefined;
	return READ_TOOLS.has(tool ?? function_);
}

/**
 * A client of cloisterd. It connects when it is first used. A tool that fails is thrown by its method as the class of its
 * code, such as NotFound; call() resolves to the observation.
 */
export class Client extends Methods {
	readonly #session: Session;

	constructor(settings: ClientSettings = {}) {
		super();
		this.#session = new Session(settings);
	}

	/** Connects now, and opens again the workspaces that were open. */
	async connect(): Promise<void> {
		await this.#session.connect();
	}

	/** Closes the connection; the service ends its calls. */
	close(): void {
		this.#session.close();
	}

	/** Calls any method of the agent socket. */
	async request(method: string, params: object = {}, settings: { signal?: AbortSignal } = {}): Promise<unknown> {
		return await this.#session.request(method, params, undefined, settings.signal);
	}

	/** Sends a request without waiting for its answer. */
	async start(method: string, params: object = {}, settings: { signal?: AbortSignal | undefined } = {}): Promise<Call> {
		settings.signal?.throwIfAborted();
		const started = await this.#session.start(method, params);
		const call = new Call(this.#session, started, settings.signal);
		if (settings.signal?.aborted)
			call.forget();
		return call;
	}

	/** Opens a directory, by its absolute path, or a managed workspace, by its name. */
	async workspace(workspace: string): Promise<Workspace> {
		return await this.workspaceOpen(workspace.startsWith("/") ? { root: workspace } : { workspace });
	}

	/**
	 * Calls a tool, or makes a model's tool_call unchanged. Resolves to the observation, even if the tool failed. With
	 * onOutput the output comes as the command writes it.
	 */
	async call(call: ToolCall, onOutput?: (piece: Output) => void): Promise<Observation> {
		const params = callParams(call, onOutput ? { stream: true } : {});
		return asObject(await this.#session.request("tool.call", params, onOutput, call.signal)) as unknown as Observation;
	}

	/** Makes a model's tool_call unchanged, and resolves to the message for the model's conversation. */
	async answer(tool_call: object, settings: ToolCallSettings = {}): Promise<ToolMessage> {
		const params = callParams({ ...settings, tool_call }, { reply: "message" });
		return asObject(await this.#session.request("tool.call", params, undefined, settings.signal)) as unknown as ToolMessage;
	}

	/** Sends a tool call without waiting for its answer. Unless stream is false, the caller can iterate over its output. */
	async startCall(call: ToolCall & { stream?: boolean }): Promise<Call> {
		return await this.start("tool.call", callParams(call, call.stream === false ? {} : { stream: true }), { signal: call.signal });
	}

	/** Reads a file of the workspace, of any size, into @sink. If the connection is lost, it throws, and the sink has a part. */
	async download(params: { path: string; offset?: number; length?: number }, sink: Sink, settings: TransferSettings = {}): Promise<FileRead> {
		return await this.#session.download({ ...params, workspace: settings.workspace }, sink, settings) as unknown as FileRead;
	}

	/** Writes what @source has to a file of the workspace. The file appears when all of it is written, or not at all. */
	async upload(source: Source, params: { path: string; mode?: string; expect?: string; durability?: Durability },
		settings: TransferSettings = {}): Promise<FileWritten> {
		return await this.#session.upload(source, { ...params, workspace: settings.workspace }, settings) as unknown as FileWritten;
	}

	/** Watches a directory of the workspace for changes. Aborted, the signal makes iterating throw. */
	async watch(params: { path: string; recursive?: boolean; entries?: boolean; workspace?: string }, signal?: AbortSignal): Promise<Watch> {
		return new Watch(this.#session, await this.#session.watch(params, signal), signal);
	}

	/**
	 * Writes the files of a workspace into @sink: a tar archive, of which `cloister import` makes a workspace. Special files
	 * are left out and named.
	 */
	async export(sink: Sink, settings: TransferSettings = {}): Promise<Exported> {
		return await this.#session.export(sink, settings);
	}

	/**
	 * Makes a TCP port of the workspace one of this host, at 127.0.0.1, until close() of what it resolves to. Each connection
	 * has a connection of its own to the service. localPort 0: any that is free.
	 */
	async forward(port: number, settings: { workspace?: string | undefined; localPort?: number | undefined } = {}): Promise<Forward> {
		const made = await this.#session.forward(port, settings.workspace);
		await made.start(settings.localPort ?? 0);
		return made;
	}

	/** Iterating over what it returns gives a session's output as it comes, to its end, also over lost connections. */
	attach(session: string, settings: { after?: number | undefined; signal?: AbortSignal | undefined } = {}): Attached {
		return new Attached(this.#session, session, settings.after ?? 0, settings.signal);
	}

	protected async native(method: string, params: object): Promise<unknown> {
		return asObject(await this.#session.request(method, params));
	}

	protected async tool(tool: string, args: object, settings: ToolCallSettings): Promise<unknown> {
		if (settings.options?.reply === "message" || settings.options?.stream)
			throw new BadRequest("The options reply and stream are for call and startCall");
		return outputOf(await this.call({ ...settings, tool, arguments: args }));
	}
}
