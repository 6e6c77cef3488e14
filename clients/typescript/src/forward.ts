// SPDX-License-Identifier: Apache-2.0
// A port of a workspace at a port of this host: for each connection to it, a connection of its own to the service, which
// becomes one to the port. What comes from the workspace is not trusted, and only copied.

import { once } from "node:events";
import net from "node:net";
import type { Opened } from "./remote.js";
import { CONNECT_MS, LINE_BYTES } from "./generated.js";
import { ConnectionLost, ProtocolError } from "./errors.js";
import { answerOf } from "./wire.js";

/** A request before the connection is one to the port. */
export interface ForwardRequest {
	method: string;
	params: object;
}

/** Resolves to the next line, and to what has come behind it. */
function lineOf(socket: net.Socket, read: Buffer): Promise<{ line: Buffer; rest: Buffer }> {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(() => end(new ConnectionLost("The service does not answer")), CONNECT_MS);
		const end = (error?: Error) => {
			clearTimeout(timer);
			socket.pause();
			socket.off("data", onData).off("end", onEnd).off("close", onEnd);
			if (error)
				reject(error);
		};
		const onEnd = () => end(new ConnectionLost("The service closed the connection"));
		const onData = (data: Buffer) => {
			read = Buffer.concat([read, data]);
			const newline = read.indexOf(0x0a);
			if (newline < 0 && read.length <= LINE_BYTES)
				return;
			end(newline < 0 ? new ProtocolError("The service sent an answer that is too long") : undefined);
			resolve({ line: read.subarray(0, newline), rest: read.subarray(newline + 1) });
		};
		socket.on("data", onData).on("end", onEnd).on("close", onEnd);
		if (read.includes(0x0a))
			onData(Buffer.alloc(0));
		else
			socket.resume();
	});
}

/** Makes the connection one to the port by the last of the requests. Resolves to what has come of it. */
async function becomePort({ socket, early }: Opened, requests: ForwardRequest[]): Promise<Buffer> {
	let rest = early;
	for (const { method, params } of requests) {
		socket.write(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) + "\n");
		for (let answered = false; !answered;) {
			const next = await lineOf(socket, rest);
			rest = next.rest;
			answered = answerOf(next.line);
		}
	}
	return rest;
}

/** A port of this host that is one of the workspace, until it is closed. */
export class Forward {
	readonly host = "127.0.0.1";
	port = 0;
	/** Why the last connection failed. */
	error: Error | undefined;
	readonly #open: () => Promise<Opened>;
	readonly #requests: ForwardRequest[];
	readonly #sockets = new Set<net.Socket>();
	readonly #server: net.Server;

	constructor(open: () => Promise<Opened>, requests: ForwardRequest[]) {
		this.#open = open;
		this.#requests = requests;
		this.#server = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, (near) => void this.#serve(near));
	}

	async start(localPort: number): Promise<void> {
		this.#server.listen(localPort, this.host);
		await once(this.#server, "listening");
		this.port = (this.#server.address() as net.AddressInfo).port;
	}

	/** Ends it, and the connections through it. */
	close(): void {
		this.#server.close();
		for (const socket of this.#sockets)
			socket.destroy();
	}

	#keep(socket: net.Socket): void {
		this.#sockets.add(socket);
		socket.on("error", (error) => {
			this.error = error;
		});
		socket.once("close", () => this.#sockets.delete(socket));
	}

	async #serve(near: net.Socket): Promise<void> {
		this.#keep(near);
		let far: net.Socket | undefined;
		try {
			const opened = await this.#open();
			far = opened.socket;
			this.#keep(far);
			near.write(await becomePort(opened, this.#requests));
			const other = far;
			other.allowHalfOpen = true;
			near.once("close", () => other.destroyed || (near.readableEnded && near.writableFinished) || other.destroy());
			other.once("close", () => near.destroyed || (other.readableEnded && other.writableFinished) || near.destroy());
			near.pipe(other).pipe(near);
		} catch (error) {
			this.error = error as Error;
			near.destroy();
			far?.destroy();
		}
	}
}
