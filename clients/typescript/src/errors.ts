// SPDX-License-Identifier: Apache-2.0
// The errors that a client throws. The classes for the service's codes are generated.

/** Any error that a client throws itself. */
export class CloisterError extends Error {
	constructor(message: string) {
		super(message);
		this.name = new.target.name;
	}
}

/** The request cannot be sent: its values are not JSON in UTF-8, it is too long, or too many requests wait. */
export class BadRequest extends CloisterError {}

/** The client found no service, or none that it may trust. */
export class ServiceNotFound extends CloisterError {}

/**
 * The server at the URL has a certificate that is not believed: nobody vouches for it, it is another's, or it is over.
 */
export class CertificateError extends ServiceNotFound {}

/** The server at the URL does not take the key: it is wrong, revoked or over, or its tenant does not use the gate. */
export class KeyRefused extends CloisterError {}

/** The connection ended before the answer came. The call may have run, so the program decides whether to repeat it. */
export class ConnectionLost extends CloisterError {}

/** The server does not follow the protocol. The client has closed the connection. */
export class ProtocolError extends ConnectionLost {}

/** The answer did not come in time. A working service always answers in time. The client has cancelled the call. */
export class NoAnswer extends CloisterError {}

/**
 * A call's streamed output came faster than the program took it, and more waited than the client keeps. The client has
 * cancelled the call. Use a client of its own for a stream that is read slowly.
 */
export class OutputOverrun extends CloisterError {}

/** The archive of a workspace is not whole: its command failed, or what it wrote is no archive. */
export class ExportFailed extends CloisterError {}

/** The client was closed by the program. */
export class Closed extends CloisterError {}

export interface ServiceErrorDetails {
	code?: string | undefined;
	jsonError?: number | undefined;
	retryAfterMs?: number | undefined;
	node?: string | undefined;
	exists?: boolean | undefined;
	observation?: unknown;
}

/** The service or a tool refused. Each code has a class; this one is for codes that are newer than the client. */
export class ServiceError extends CloisterError {
	/** Such as NOT_FOUND. */
	readonly code: string;
	/** The number of the JSON-RPC error; 0 where a tool failed. */
	readonly jsonError: number;
	/** With BUSY: in how many milliseconds to try again. */
	readonly retryAfterMs: number | undefined;
	/** With MOVED: the host to go to. */
	readonly node: string | undefined;
	/** With MOVED: the workspace exists at the host that refused, with its files. */
	readonly exists: boolean;
	/** The observation of a tool that failed. It has the output of a command until it was ended. */
	readonly observation: unknown;

	constructor(message: string, details: ServiceErrorDetails = {}) {
		super(message);
		this.code = details.code ?? "";
		this.jsonError = details.jsonError ?? 0;
		this.retryAfterMs = details.retryAfterMs;
		this.node = details.node;
		this.exists = details.exists ?? false;
		this.observation = details.observation;
	}
}

/** A mistake of the program: an invalid request, an unknown method or wrong parameters. jsonError has the number. */
export class RequestError extends ServiceError {}
