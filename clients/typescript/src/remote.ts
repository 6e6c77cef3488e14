// SPDX-License-Identifier: Apache-2.0
// The agent socket of another host: cloister-gate(8) gives it to a client with a key, by HTTP's Upgrade, and through TLS
// except on this host. The server is trusted as far as its certificate says who it is.

import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import type { TLSSocket } from "node:tls";
import { BadRequest, CertificateError, CloisterError, KeyRefused, ProtocolError, ServiceNotFound } from "./errors.js";
import { Busy, CONNECT_MS } from "./generated.js";

const KEY = /^[!-~]+$/;
/** Of an answer that refuses. */
const BODY_BYTES = 4096;

/** With what a client comes to a gate: its key, and whose certificates it believes. */
export interface Access {
	key?: string | undefined;
	caFile?: string | undefined;
}

/** A connection to an agent socket, and what has come of its first messages. */
export interface Opened {
	socket: net.Socket;
	early: Buffer;
}

export function isUrl(path: string): boolean {
	return path.startsWith("https://") || path.startsWith("http://");
}

function addressOf(text: string): URL {
	let url: URL;
	try {
		url = new URL(text);
	} catch {
		throw new BadRequest(`${JSON.stringify(text)} is no URL of a service`);
	}
	if (url.username || url.password || url.pathname !== "/" || url.search || url.hash || /[?#]/.test(text))
		throw new BadRequest("The URL of a service is https://HOST or https://HOST:PORT, and nothing else");
	if (url.protocol === "http:" && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname))
		throw new BadRequest(`http:// would show the key to the network: use https://${url.host}`);
	return url;
}

function keyOf(access: Access): string {
	const key = access.key || process.env["CLOISTER_KEY"];
	if (!key)
		throw new BadRequest("A service at an URL needs a key: give one to the client, or set CLOISTER_KEY");
	if (!KEY.test(key))
		throw new BadRequest("The key has characters that no key has");
	return key;
}

function authorities(file: string | undefined): string | undefined {
	if (file === undefined)
		return undefined;
	try {
		const text = readFileSync(file, "utf8");
		if (text.includes("-----BEGIN"))
			return text;
	} catch (error) {
		throw new BadRequest(`${file} has no certificates: ${(error as Error).message}`);
	}
	throw new BadRequest(`${file} has no certificates`);
}

/** What an answer means that is not 101. */
function refusal(status: number, name: string, body: string, retryAfter: string | undefined): CloisterError {
	let message: unknown;
	try {
		message = (JSON.parse(body) as { message?: unknown }).message;
	} catch { // it has none
	}
	const said = `${typeof message === "string" ? message.slice(0, 200) : "no reason"} (HTTP ${status})`;
	if (status === 401 || status === 403 || status === 429)
		return new KeyRefused(`${name} refuses the key: ${said}`);
	if (status === 503)
		return new Busy(`${name} cannot reach the service now: ${said}`, {
			code: "BUSY", retryAfterMs: retryAfter && /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) * 1000 : undefined });
	return new ServiceNotFound(`${name} gives no agent socket: ${said}; is it cloister-gate?`);
}

/** Reads what refuses, which may be long or never end. */
function reasonOf(response: http.IncomingMessage, name: string, give: (error: CloisterError) => void): void {
	const parts: Buffer[] = [];
	const end = () => {
		const body = Buffer.concat(parts).toString("utf8");
		give(refusal(response.statusCode ?? 0, name, body, response.headers["retry-after"]));
		response.destroy();
	};
	response.on("data", (part: Buffer) => {
		parts.push(part);
		if (parts.reduce((sum, one) => sum + one.length, 0) > BODY_BYTES)
			end();
	});
	response.once("end", end);
	response.once("close", end);
	response.once("error", () => {});
}

/** Connects, and resolves when the connection is one to an agent socket. */
export function connectTo(text: string, access: Access): Promise<Opened> {
	const url = addressOf(text);
	const options: https.RequestOptions = {
		host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port || undefined, path: "/agent", agent: false,
		headers: { Host: url.host, Connection: "Upgrade", Upgrade: "cloister", Authorization: `Bearer ${keyOf(access)}` },
	};
	const ca = url.protocol === "https:" ? authorities(access.caFile) : undefined;
	if (ca !== undefined)
		options.ca = ca;
	return new Promise((resolve, reject) => {
		const request = url.protocol === "https:" ? https.request({ ...options, minVersion: "TLSv1.2" }) : http.request(options);
		const timer = setTimeout(() => request.destroy(new Error("it does not answer")), CONNECT_MS);
		let socket: net.Socket | undefined;
		const fail = (error: Error) => {
			clearTimeout(timer);
			reject(error);
			request.destroy();
		};
		request.once("socket", (made) => {
			socket = made;
		});
		request.once("upgrade", (_, made, early) => {
			clearTimeout(timer);
			made.setNoDelay(true);
			resolve({ socket: made as net.Socket, early });
		});
		request.once("response", (response) => reasonOf(response, url.host, fail));
		request.on("error", (error: NodeJS.ErrnoException) => {
			const why = (socket as TLSSocket | undefined)?.authorizationError;
			if (why)
				fail(new CertificateError(`The certificate of ${url.host} is not believed: ${error.message}; the client takes ` +
					"the certificates of other authorities as caFile"));
			else if (error.code?.startsWith("HPE_"))
				fail(new ProtocolError(`${url.host} does not answer as HTTP: ${error.message}`));
			else if (error.code === "ECONNRESET")
				fail(new ServiceNotFound(`${url.host} closed the connection without an answer`));
			else
				fail(error);
		});
		request.end();
	});
}
