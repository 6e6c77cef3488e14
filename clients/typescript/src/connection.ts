// SPDX-License-Identifier: Apache-2.0
// Where the service listens, as cloister_open() of libcloister(3), and a socket with its wire.

import { lstat, stat } from "node:fs/promises";
import net from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BadRequest, CloisterError, ConnectionLost, ServiceNotFound } from "./errors.js";
import { CONNECT_MS, UNSENT_BYTES } from "./generated.js";
import { connectTo as connectToUrl, isUrl, type Access, type Opened } from "./remote.js";
import { Wire, type Pending } from "./wire.js";

const SERVICE_DIRECTORY = "/run/cloister";
/** Unread output at which the client stops reading, unless the program waits for an answer. */
const PAUSE_BYTES = 1024 * 1024;
/** The pause before another try if a listener's backlog is full, which libuv reports at once. */
const FULL_PAUSE_MS = 20;

/** A socket's path, or an URL. Unless the program named it, root, our user or the service's user must have made it. */
export interface Place {
	path: string;
	named: boolean;
}

export function places(named: string | undefined): Place[] {
	if (named !== undefined)
		return [{ path: named, named: true }];
	const { CLOISTER_SOCKET: socket, XDG_RUNTIME_DIR: runtime } = process.env;
	const found: Place[] = socket ? [{ path: socket, named: true }] : [];
	if (runtime?.startsWith("/"))
		found.push({ path: `${runtime}/cloister/agent.sock`, named: false });
	found.push({ path: `/run/user/${process.geteuid!()}/cloister/agent.sock`, named: false },
		{ path: `/tmp/cloister-${process.geteuid!()}/agent.sock`, named: false },
		{ path: `${SERVICE_DIRECTORY}/agent.sock`, named: false });
	return found;
}

/** Node has no SO_PEERCRED, so the owners of the socket and its directory count, if no other user may write there. */
async function isBelieved(socket: string): Promise<boolean> {
	const believed = new Set([0, process.geteuid!()]);
	const service = await lstat(SERVICE_DIRECTORY).catch(() => undefined);
	if (service)
		believed.add(service.uid);
	const [made, directory] = [await stat(socket), await stat(path.dirname(socket))];
	return believed.has(made.uid) && believed.has(directory.uid) && (directory.mode & 0o022) === 0;
}

function connectOnce(path: string): Promise<net.Socket> {
	return new Promise((resolve, reject) => {
		const socket = net.connect({ path });
		const timer = setTimeout(() => socket.destroy(new Error("it does not accept the connection")), CONNECT_MS);
		socket.once("error", reject);
		socket.once("close", () => clearTimeout(timer));
		socket.once("connect", () => {
			clearTimeout(timer);
			socket.off("error", reject);
			resolve(socket);
		});
	});
}

export async function connectTo(path: string, access: Access): Promise<Opened> {
	if (isUrl(path))
		return await connectToUrl(path, access);
	const deadline = performance.now() + CONNECT_MS;
	for (;;) {
		try {
			return { socket: await connectOnce(path), early: Buffer.alloc(0) };
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || performance.now() > deadline)
				throw error;
		}
		await sleep(FULL_PAUSE_MS);
	}
}

/** A socket and its wire. */
export class Connection {
	readonly wire: Wire;
	readonly place: Place;
	readonly #socket: net.Socket;
	#waiting = 0;

	constructor({ socket, early }: Opened, place: Place) {
		this.#socket = socket;
		this.place = place;
		this.wire = new Wire((line) => this.#send(line));
		socket.on("data", (data) => this.#receive(data));
		socket.on("end", () => this.close("The service closed the connection"));
		socket.on("error", (error) => this.close(`The connection failed: ${error.message}`));
		socket.on("close", () => this.close("The service closed the connection"));
		if (early.length > 0)
			this.#receive(early);
	}

	/** Connects to the first socket that has a server. */
	static async open(candidates: Place[], access: Access): Promise<Connection> {
		const tried: string[] = [];
		for (const place of candidates) {
			try {
				if (place.named || await isBelieved(place.path))
					return new Connection(await connectTo(place.path, access), place);
				tried.push(`${place.path} (its server runs as another user)`);
			} catch (error) {
				if (error instanceof CloisterError)
					throw error;
				tried.push(`${place.path} (${(error as NodeJS.ErrnoException).code ?? (error as Error).message})`);
			}
		}
		throw new ServiceNotFound(
			`No service listens at ${tried.join(", ")}; start cloisterd, or name its socket in CLOISTER_SOCKET`);
	}

	/** Lets the wire end, if the service has closed the connection. */
	async settle(): Promise<void> {
		// The loop reads the socket between the two turns.
		for (let i = 0; i < 2 && !this.wire.ended && this.wire.inFlight === 0; i++)
			await new Promise(setImmediate);
	}

	close(why: string): void {
		this.wire.end(new ConnectionLost(why));
		this.#socket.destroy();
	}

	/** Waits until the request is done or, with @pieces, output has come. Resolves to false at the request's deadline. */
	async wait(pending: Pending, pieces: boolean, signal?: AbortSignal): Promise<boolean> {
		const ready = () => pending.done || pending.error !== undefined || (pieces && pending.pieces.length > 0);
		this.#waiting += pieces ? 0 : 1;
		this.look();
		try {
			while (!ready()) {
				const left = pending.deadline - performance.now();
				if (left <= 0)
					return false;
				signal?.throwIfAborted();
				await changed(pending, left, signal);
			}
			return true;
		} finally {
			this.#waiting -= pieces ? 0 : 1;
			this.look();
		}
	}

	/** Reads, unless there is unread output and only its own reader is waiting. */
	look(): void {
		const pause = this.wire.unread > PAUSE_BYTES && this.#waiting === 0;
		if (pause !== this.#socket.isPaused())
			this.#socket[pause ? "pause" : "resume"]();
	}

	#send(line: Buffer): void {
		if (this.#socket.writableLength + line.length > UNSENT_BYTES)
			throw new BadRequest(`More than ${UNSENT_BYTES} bytes wait to be sent; wait for answers first`);
		this.#socket.write(line);
	}

	#receive(data: Uint8Array): void {
		this.wire.receive(data);
		if (this.wire.ended)
			this.#socket.destroy();
		else
			this.look();
	}
}

/** Waits until the pending request changes, the time is over or the signal is aborted. */
function changed(pending: Pending, milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
	return new Promise((resolve) => {
		const wake = () => {
			clearTimeout(timer);
			pending.wakers.delete(wake);
			signal?.removeEventListener("abort", wake);
			resolve();
		};
		const timer = setTimeout(wake, Math.min(Math.ceil(milliseconds), 0x7fffffff));
		pending.wakers.add(wake);
		signal?.addEventListener("abort", wake);
	});
}
