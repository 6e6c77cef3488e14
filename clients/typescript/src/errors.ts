// SPDX-License-Identifier: Apache-2.0
// What a client throws. The classes of the service's codes are generated.

/** Everything that a client throws on its own. */
export class CloisterError extends Error {
	constructor(message: string) {
		super(message);
		this.name = new.target.name;
	}
}

/** The request cannot be sent: its values are no JSON in UTF-8, it is too long, or too much waits to be sent. */
export class BadRequest extends CloisterError {}

/** No service that may be trusted listens where the client looked. */
export class ServiceNotFound extends CloisterError {}

/** The connection ended before the answer came. The call may have run: whether it is repeated is for the program. */
export class ConnectionLost extends CloisterError {}

/** What listens there does not follow the protocol. The client has closed the connection. */
export class ProtocolError extends ConnectionLost {}

/** The answer did not come in time, which a service does not let happen. The client has cancelled the call. */
export class NoAnswer extends CloisterError {}

/**
 * A call's streamed output came faster than the program took it, and more waited than the client keeps. The client has
 * cancelled the call. Use a client of its own for a stream that is read slowly.
 */
export class OutputOverrun extends CloisterError {}

/** The client was closed by the program. */
export class Closed extends CloisterError {}

export interface ServiceErrorDetails {
	code?: string | undefined;
	jsonError?: number | undefined;
	retryAfterMs?: number | undefined;
	observation?: unknown;
}

/** The service or a tool refused. There is a class for each code, and this one for codes that came later. */
export class ServiceError extends CloisterError {
	/** Such as NOT_FOUND. */
	readonly code: string;
	/** The number of the JSON-RPC error; 0 where a tool failed. */
	readonly jsonError: number;
	/** With BUSY: after how many milliseconds to try again. */
	readonly retryAfterMs: number | undefined;
	/** The observation where a tool failed: a command that was ended has its output until then. */
	readonly observation: unknown;

	constructor(message: string, details: ServiceErrorDetails = {}) {
		super(message);
		this.code = details.code ?? "";
		this.jsonError = details.jsonError ?? 0;
		this.retryAfterMs = details.retryAfterMs;
		this.observation = details.observation;
	}
}

/** The program's mistake: no request, no such method, or wrong parameters. jsonError has the number. */
export class RequestError extends ServiceError {}
