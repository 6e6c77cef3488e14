// SPDX-License-Identifier: Apache-2.0
// One connection without its socket: it turns requests into lines, and bytes into answers and output. The service is
// not trusted: lines, values and unread output are bounded, and input that breaks the protocol ends the connection.

import { BadRequest, CloisterError, ConnectionLost, OutputOverrun, ProtocolError, RequestError, ServiceError } from "./errors.js";
import { JSON_ERRORS, LINE_BYTES, ServiceErrors, VALUES, type Stream } from "./generated.js";

/** Streamed output that the program has not taken. */
const UNREAD_BYTES = 64 * 1024 * 1024;
/** Memory that a piece takes besides its data. */
const PIECE_BYTES = 256;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
/** A lone surrogate, which UTF-8 cannot encode. */
const SURROGATE = /\p{Surrogate}/u;

type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A piece of a command's output, or of a file that is read: data as bytes, text as a string. */
export class Output {
	readonly stream: Stream;
	readonly data: Uint8Array;
	readonly #text: string | undefined;

	constructor(stream: Stream, data: Uint8Array, text?: string) {
		this.stream = stream;
		this.data = data;
		this.#text = text;
	}

	get text(): string {
		return this.#text ?? Buffer.from(this.data.buffer, this.data.byteOffset, this.data.byteLength).toString("utf8");
	}
}

/** An event of a watch, among the output of its request. */
export class Told extends Output {
	readonly params: Json;

	constructor(params: Json) {
		super("stdout", Buffer.from(JSON.stringify(params))); // what it counts for
		this.params = params;
	}
}

/** A request and, once it is done, its result or error. */
export class Pending {
	readonly wire: Wire;
	readonly id: number;
	readonly method: string;
	readonly params: Json;
	readonly streams: boolean;
	readonly base64: boolean;
	readonly isCall: boolean;
	/** When the client stops waiting, in the time of performance.now(). */
	deadline = 0;
	/** The number of a watch, whose request was answered. */
	watch = 0;
	done = false;
	dropped = false;
	result: unknown;
	error: Error | undefined;
	unread = 0;
	seq = 0;
	pieces: Output[] = [];
	/** Called at each change. */
	readonly wakers = new Set<() => void>();

	constructor(wire: Wire, id: number, method: string, params: Json) {
		const options = method === "tool.call" && isObject(params["options"]) ? params["options"] : {};
		this.wire = wire;
		this.id = id;
		this.method = method;
		this.params = method.startsWith("workspace.") ? params : {}; // a reconnection opens it again
		this.streams = options["stream"] === true || method === "file.read" || method === "file.watch";
		this.base64 = (method === "file.read" ? params : options)["encoding"] === "base64";
		this.isCall = method === "tool.call" || method.startsWith("file.");
	}

	finish(result: unknown, error: Error | undefined): void {
		this.done = true;
		this.result = result;
		this.error ??= error;
		this.wire.unread -= this.unread; // the program has it from now on
		this.unread = 0;
		this.wake();
	}

	wake(): void {
		for (const waker of [...this.wakers])
			waker();
	}
}

/** The service is replaced: it has not begun the request, and serves on new connections. */
export class Retired extends ConnectionLost {
	constructor() {
		super(RETIRED);
	}
}

const RETIRED = "The service is replaced, and serves on new connections";

function isBusy(result: unknown, refusal: unknown): boolean {
	const error = isObject(result) ? result["error"] : undefined;
	return refusal instanceof ServiceError ? refusal.code === "BUSY" : isObject(error) && error["code"] === "BUSY";
}

/** @data is what the service says with the code. */
export function serviceError(code: unknown, message: string, jsonError: number, data: Json, observation?: unknown): ServiceError {
	const { retry_after_ms: retry, node, exists } = data;
	const name = typeof code === "string" ? code : "";
	const known = Object.hasOwn(ServiceErrors, name) ? ServiceErrors[name] : undefined;
	const made = known ?? (name || jsonError === 0 || jsonError === JSON_ERRORS.SERVER_ERROR ? ServiceError : RequestError);
	return new made(message, {
		code: name, jsonError, retryAfterMs: typeof retry === "number" ? retry : undefined,
		node: typeof node === "string" ? node : undefined, exists: exists === true, observation,
	});
}

function tooManyValues(line: Uint8Array): boolean {
	if (line.length <= 2 * VALUES) // a value and what separates it are two bytes at least
		return false;
	let count = 0, inString = false;
	for (let i = 0; i < line.length; i++) {
		const byte = line[i];
		if (inString && byte === 0x5c)
			i++;
		else if (byte === 0x22)
			inString = !inString;
		else if (!inString && (byte === 0x2c || byte === 0x5b || byte === 0x7b))
			count++;
	}
	return count >= VALUES;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function parse(line: Uint8Array): Json {
	let message: unknown;
	if (tooManyValues(line))
		throw new ProtocolError(`The service sent a message with more than ${VALUES} values`);
	try {
		message = JSON.parse(decoder.decode(line));
	} catch (error) {
		throw new ProtocolError(`The service sent a line that is no JSON: ${String((error as Error).message).slice(0, 200)}`);
	}
	if (!isObject(message))
		throw new ProtocolError("The service sent a line that is no JSON object");
	return message;
}

function refusalOf(error: unknown): ServiceError {
	if (!isObject(error) || !Number.isInteger(error["code"]) || typeof error["message"] !== "string")
		throw new ProtocolError("The service sent an error without a code or a message");
	const data = isObject(error["data"]) ? error["data"] : {};
	return serviceError(data["code"], error["message"], error["code"] as number, data);
}

/** Whether the line is the answer to the only request; throws what it refuses with. */
export function answerOf(line: Uint8Array): boolean {
	const message = parse(line);
	if ("method" in message)
		return false;
	if (message["error"] !== undefined && message["error"] !== null)
		throw refusalOf(message["error"]);
	if (!("result" in message))
		throw new ProtocolError("The service sent an answer that is neither a result nor an error");
	return true;
}

/** For JSON.stringify(): refuses values that it would change. */
function onlyJson(name: string, value: unknown): unknown {
	if (typeof value === "number" && !Number.isFinite(value))
		throw new BadRequest(`"${name}" is ${value}, which is no JSON`);
	if (SURROGATE.test(name) || (typeof value === "string" && SURROGATE.test(value)))
		throw new BadRequest("The parameters have half of a character; names that are not UTF-8 go into path_base64, and " +
			"bytes into base64 with the option encoding");
	return value;
}

function asLine(message: Json): Buffer {
	let line: Buffer;
	try {
		line = Buffer.from(JSON.stringify(message, onlyJson) + "\n");
	} catch (error) {
		throw error instanceof BadRequest ? error : new BadRequest(`The parameters are no JSON: ${(error as Error).message}`);
	}
	if (line.length > LINE_BYTES)
		throw new BadRequest(`The request has ${line.length} bytes, and the service reads ${LINE_BYTES}; send less at once`);
	return line;
}

/** The protocol of one connection. */
export class Wire {
	ended: CloisterError | undefined;
	unread = 0;
	#retiring = false;
	readonly #send: (line: Buffer) => void;
	readonly #pending = new Map<number, Pending>();
	readonly #watches = new Map<number, Pending>();
	#lastId = 0;
	#line: Uint8Array[] = [];
	#lineBytes = 0;

	/** @send must throw BadRequest if too much waits to be sent. */
	constructor(send: (line: Buffer) => void) {
		this.#send = send;
	}

	get inFlight(): number {
		return this.#pending.size + this.#watches.size;
	}

	request(method: string, params: Json): Pending {
		if (this.ended)
			throw this.#why(method);
		const pending = new Pending(this, this.#lastId + 1, method, params);
		this.#send(asLine({ jsonrpc: "2.0", id: pending.id, method, params }));
		this.#lastId = pending.id;
		this.#pending.set(pending.id, pending);
		return pending;
	}

	/** Cancels the request if it is a call, and drops the rest of its output and its answer. */
	abandon(pending: Pending): void {
		pending.dropped = true;
		this.take(pending);
		if (pending.done || this.ended || !pending.isCall)
			return;
		const message = this.#watches.delete(pending.watch) ? { method: "file.unwatch", params: { watch: pending.watch } } :
			{ method: "tool.cancel", params: { id: pending.id } };
		try {
			this.#send(asLine({ jsonrpc: "2.0", ...message }));
		} catch { // the queue is full, so the service hardly reads it
			this.end(new ConnectionLost("More requests wait than the client keeps"));
		}
	}

	/** Returns the output that has come and was not taken yet. */
	take(pending: Pending): Output[] {
		const taken = pending.pieces;
		pending.pieces = [];
		this.unread -= pending.unread;
		pending.unread = 0;
		return taken;
	}

	takeOne(pending: Pending): Output | undefined {
		const piece = pending.pieces.shift();
		const cost = Math.min((piece?.data.length ?? 0) + PIECE_BYTES, pending.unread);
		pending.unread -= cost;
		this.unread -= cost;
		return piece;
	}

	/** Takes received bytes. Input that breaks the protocol ends the connection. */
	receive(data: Uint8Array): void {
		try {
			this.#receive(data);
		} catch (error) {
			this.end(error instanceof CloisterError ? error : new ProtocolError(String(error)));
		}
	}

	/** Ends the connection and all its requests. */
	end(error: CloisterError): void {
		if (this.ended)
			return;
		this.ended = error;
		this.#line = [];
		const all = [...this.#pending.values(), ...this.#watches.values()];
		this.#pending.clear();
		this.#watches.clear();
		for (const pending of all)
			pending.finish(undefined, this.#why(pending.method));
	}

	/** Returns a new error for each request. */
	#why(method: string): CloisterError {
		const text = `${this.ended?.message}; ${method} was not answered`;
		if (this.ended instanceof ServiceError)
			return this.ended;
		return this.ended instanceof ProtocolError ? new ProtocolError(text) : new ConnectionLost(text);
	}

	#receive(data: Uint8Array): void {
		let start = 0;
		while (!this.ended) {
			const newline = data.indexOf(0x0a, start);
			const part = data.subarray(start, newline < 0 ? data.length : newline);
			this.#lineBytes += part.length;
			if (this.#lineBytes > LINE_BYTES)
				throw new ProtocolError(`The service sent a line of more than ${LINE_BYTES} bytes`);
			if (part.length > 0)
				this.#line.push(part);
			if (newline < 0)
				return;
			const line = this.#line.length === 1 ? this.#line[0]! : Buffer.concat(this.#line);
			this.#line = [];
			this.#lineBytes = 0;
			this.#message(parse(line));
			start = newline + 1;
		}
	}

	#message(message: Json): void {
		if (!("method" in message)) {
			this.#answer(message);
			return;
		}
		const params = message["params"] ?? {};
		if (typeof message["method"] !== "string" || !isObject(params))
			throw new ProtocolError("The service sent a notification without a name or with other params than an object");
		if (message["method"] === "tool.output")
			this.#output(params);
		else if (message["method"] === "file.event" || message["method"] === "file.watch_ended")
			this.#told(message["method"], params);
		else if (message["method"] === "service.retiring") {
			this.#retiring = true;
			this.#leave();
		}
	}

	/** Ends the connection to a service that is replaced, when all that it still answers is answered. */
	#leave(): void {
		if (this.#retiring && this.inFlight === 0)
			this.end(new ConnectionLost(RETIRED));
	}

	#answer(message: Json): void {
		const id = message["id"] ?? null, error = message["error"] ?? null;
		if ("result" in message === (error !== null) || (id === null && error === null))
			throw new ProtocolError("The service sent an answer that is neither a result nor an error");
		const refusal = error === null ? undefined : refusalOf(error);
		if (id === null && refusal) { // an error without an id is about the whole connection
			this.end(refusal);
			return;
		}
		const pending = typeof id === "number" ? this.#pending.get(id) : undefined;
		if (!pending)
			throw new ProtocolError(`The service answered a request ${JSON.stringify(id).slice(0, 40)}, which is not in flight`);
		this.#pending.delete(pending.id);
		if (pending.dropped)
			this.take(pending);
		const result = message["result"];
		if (pending.method === "file.watch" && isObject(result) && typeof result["watch"] === "number") {
			this.#watches.set(pending.watch = result["watch"], pending);
			if (pending.dropped)
				this.abandon(pending);
			else
				this.#keep(pending, new Told(result));
			return;
		}
		if (this.#retiring && isBusy(message["result"], refusal))
			pending.finish(undefined, new Retired());
		else
			pending.finish(message["result"], refusal);
		this.#leave();
	}

	#told(method: string, params: Json): void {
		const { watch, error } = params;
		if (typeof watch !== "number" || (method === "file.watch_ended" && !isObject(error)))
			throw new ProtocolError("The service sent an event without a watch, or an end of one without a reason");
		const pending = this.#watches.get(watch);
		if (pending && method === "file.event")
			this.#keep(pending, new Told(params));
		else if (pending && isObject(error)) {
			this.#watches.delete(watch);
			pending.finish(undefined, serviceError(error["code"], String(error["message"]), 0, error));
			this.#leave();
		}
	}

	#output(params: Json): void {
		const { id, data, seq } = params;
		const stream = params["stream"] === "content" ? "stdout" : params["stream"];
		if (typeof id !== "number" || (stream !== "stdout" && stream !== "stderr") || typeof data !== "string")
			throw new ProtocolError("The service sent output without an id, a stream or data");
		const pending = this.#pending.get(id);
		if (!pending?.streams)
			throw new ProtocolError(`The service sent output of ${id}, which is no streamed call in flight`);
		if (seq !== pending.seq)
			throw new ProtocolError("The service left out a piece of output");
		pending.seq++;
		const piece = this.#piece(pending, stream, data);
		if (!pending.dropped)
			this.#keep(pending, piece);
	}

	#piece(pending: Pending, stream: Stream, data: string): Output {
		const isRight = pending.base64 ? data.length % 4 === 0 && BASE64.test(data) : !SURROGATE.test(data);
		if (!isRight)
			throw new ProtocolError("The service sent output that is no base64 or no UTF-8");
		return pending.base64 ? new Output(stream, Buffer.from(data, "base64")) : new Output(stream, Buffer.from(data), data);
	}

	#keep(pending: Pending, piece: Output): void {
		const cost = piece.data.length + PIECE_BYTES;
		pending.pieces.push(piece);
		pending.unread += cost;
		this.unread += cost;
		if (this.unread > UNREAD_BYTES)
			this.#overrun([...this.#pending.values(), ...this.#watches.values()].reduce((most, other) => other.unread > most.unread ? other : most));
		pending.wake();
	}

	#overrun(pending: Pending): void {
		this.abandon(pending);
		pending.error = new OutputOverrun(`More than ${UNREAD_BYTES} bytes of output were not read; the call is cancelled`);
		pending.wake();
	}
}
