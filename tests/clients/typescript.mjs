// SPDX-License-Identifier: Apache-2.0
// clients/typescript against a service that runs, by its socket or through its gate: one case a run.
// usage: node typescript.mjs CASE SETTINGS, as JSON; more: what the case needs
import assert from "node:assert/strict";
import fs from "node:fs";
import net from "node:net";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import * as cloister from "cloister-client";

const [name, settings, more] = process.argv.slice(2);
const way = JSON.parse(settings);
const cases = {};
const closers = [];

function connect(changes = {}) {
	const client = new cloister.Client({ ...way, ...changes });
	closers.push(() => client.close());
	return client;
}

async function open() {
	const client = connect();
	await client.workspaceOpen({ workspace: `ts-${name}-${way.key ? "https" : "socket"}` });
	return client;
}

async function refused(kind, pattern, changes) {
	const error = await connect({ reconnectMs: null, ...changes }).toolsList().then(() => assert.fail(`no ${kind.name}`), (error) => error);
	assert(error instanceof kind, error.stack);
	assert.match(error.message, pattern);
	return error;
}

cases.calls = async () => {
	const client = await open();
	assert.equal((await client.runCommand({ command: "echo out; exit 3" })).exit_code, 3);
	const call = await client.startCall({ tool: "run_command", arguments: { command: "echo one; read x; echo $x" }, options: { stdin_stream: true } });
	const pieces = call[Symbol.asyncIterator]();
	assert.equal((await pieces.next()).value.text, "one\n");
	await call.input("two\n", { eof: true });
	assert.equal((await pieces.next()).value.text, "two\n");
	assert((await call.wait()).success);
	await client.writeFile({ path: "text", content: "line\n".repeat(120_000) });
	assert((await client.runCommand({ command: "cat text" })).stdout.length > 200_000);
	const many = await Promise.all([...Array(8).keys()].map((turn) => client.runCommand({ command: `echo ${turn}` })));
	assert.deepEqual(many.map((one) => one.stdout), [...Array(8).keys()].map((turn) => `${turn}\n`));
};

cases.files = async () => {
	const client = await open(), data = randomBytes(3 * 1024 * 1024 + 7), moved = [];
	const written = await client.upload(data, { path: "up/f", mode: "0600", expect: "absent" }, { onProgress: (bytes) => moved.push(bytes) });
	assert(written.bytes === data.length && written.created && moved.at(-1) === data.length && moved.length > 3);
	const target = new PassThrough(), got = buffer(target);
	const read = await client.download({ path: "up/f" }, target, { onProgress: (bytes) => moved.push(bytes) });
	target.end();
	assert((await got).equals(data) && read.entry.mode === "0600" && moved.at(-1) === data.length);
	const pieces = [];
	assert.equal((await client.download({ path: "up/f", offset: 7, length: 9 }, (piece) => pieces.push(piece))).bytes, 9);
	assert(Buffer.concat(pieces).equals(data.subarray(7, 16)));
	await client.upload(Readable.from([Buffer.from("ab"), Buffer.from("c")]), { path: "g" });
	assert.equal((await client.readFile({ path: "g" }, { options: { line_numbers: false } })).content, "abc");
	assert.equal((await client.upload(Buffer.alloc(0), { path: "empty" })).bytes, 0);
	await assert.rejects(client.upload(data, { path: "up/f", expect: "absent" }), cloister.StaleFile);
	await assert.rejects(client.upload(data, { path: "up" }), cloister.IsADirectory);
	await assert.rejects(client.download({ path: "none" }, () => {}), cloister.NotFound);
	// A side that fails ends the transfer, and leaves nothing.
	const broken = async function* () {
		yield Buffer.alloc(1 << 20);
		throw new Error("the disk is broken");
	};
	await assert.rejects(client.upload(broken(), { path: "h" }), /the disk is broken/);
	await assert.rejects(client.download({ path: "up/f" }, () => Promise.reject(new Error("the disk is full"))), /the disk is full/);
	await assert.rejects(client.download({ path: "up/f" }, () => {}, { signal: AbortSignal.abort() }), { name: "AbortError" });
	assert.deepEqual((await client.listDirectory({ path: "." })).entries.map((entry) => entry.path), ["empty", "g", "up"]);
};

cases.export = async () => {
	const client = await open();
	const made = await client.runCommand({
		command: "mkdir -p d/$(printf '%0150d' 0) && head -c 300000 /dev/urandom >d/f && ln d/f g && ln -s d h && mkfifo pipe && echo x >é" });
	assert.equal(made.exit_code, 0);
	const parts = [], exported = await client.export((part) => parts.push(Buffer.from(part)));
	assert.deepEqual(exported, { entries: 6, bytes: Buffer.concat(parts).length, left_out: ["./pipe"] });
	fs.writeFileSync(more, Buffer.concat(parts)); // which the test imports
	await assert.rejects(client.export(() => {}, { workspace: "not-open" }), cloister.WorkspaceNotFound);
};

const SERVER = `import socket
server = socket.create_server(("127.0.0.1", 4000))
print("listening", flush=True)
while True:
    with server.accept()[0] as connection:
        data = b""
        while part := connection.recv(65536):
            data += part
        connection.sendall(data[::-1])
`;

async function through({ host, port }, data) {
	const socket = net.connect({ host, port, allowHalfOpen: true });
	socket.end(data);
	const parts = [];
	socket.on("data", (part) => parts.push(part)).on("error", () => {});
	await new Promise((resolve) => socket.once("close", resolve));
	return Buffer.concat(parts);
}

cases.forward = async () => {
	const client = await open();
	await client.writeFile({ path: "server.py", content: SERVER });
	const forward = await client.forward(4000);
	assert.equal((await through(forward, "nobody listens")).length, 0);
	assert(forward.error instanceof cloister.NotFound, forward.error);
	const { session } = await client.sessionStart({ command: "python3 server.py" });
	await client.sessionRead({ session, wait_ms: 60_000, until: [{ contains: "listening" }] });
	assert.equal((await through(forward, "abc")).toString(), "cba");
	const data = randomBytes(3 * 1024 * 1024);
	assert((await through(forward, data)).equals(Buffer.from(data).reverse()));
	forward.close();
	await client.sessionEnd({ session });
};

cases.attach = async () => {
	const client = await open();
	const command = "seq 1 100000; read x; echo got $x; printf '\\377' >&2";
	const { session } = await client.sessionStart({ command, stdin: true, output_bytes: 1 << 20 });
	const attached = client.attach(session), parts = [];
	for await (const piece of attached) {
		parts.push(piece.data);
		if (piece.text.endsWith("\n100000\n"))
			await client.sessionWrite({ session, data: "it\n" });
	}
	const read = Buffer.concat(parts);
	assert(read.length === 588_895 + 8 && read.at(-1) === 0xff && attached.lostBytes === 0 && attached.next === read.length);
	assert.equal(attached.end.output.exit_code, 0);
	await assert.rejects(client.attach("guessed")[Symbol.asyncIterator]().next(), cloister.SessionNotFound);
};

cases.again = async () => {
	const url = new URL(way.path), sockets = [];
	const relay = net.createServer((near) => {
		const far = net.connect(url.port, "127.0.0.1");
		sockets.push(near, far);
		for (const [one, other] of [[near, far], [far, near]])
			one.on("error", () => {}).on("close", () => other.destroy()).pipe(other);
	}).listen(0, "localhost");
	await once(relay, "listening");
	const cut = () => sockets.splice(0).forEach((socket) => socket.destroy());
	const client = connect({ path: `https://localhost:${relay.address().port}` });
	await client.workspace("ts-again");
	const other = connect();
	await other.workspace("ts-again");
	const running = client.runCommand({ command: "echo run >>log; until [ -e go ]; do sleep 0.05; done" });
	while ((await other.listDirectory({ path: "." })).count === 0);
	cut();
	await other.writeFile({ path: "go", content: "" });
	assert.equal((await running).exit_code, 0);
	assert.equal((await client.readFile({ path: "log" }, { options: { line_numbers: false } })).content, "run\n");
	const { session } = await client.sessionStart({ command: "echo one; read x; echo two", stdin: true });
	const pieces = client.attach(session)[Symbol.asyncIterator]();
	assert.equal((await pieces.next()).value.text, "one\n");
	cut();
	await other.sessionWrite({ session, data: "\n" });
	assert.equal((await pieces.next()).value.text, "two\n");
	assert((await pieces.next()).done);
	cut();
	await new Promise(setImmediate);
	assert.equal((await client.runCommand({ command: "cat log" })).stdout, "run\n");
	client.close();
	relay.close();
	cut();
};

cases.certificates = async () => {
	assert(await refused(cloister.CertificateError, /self.signed/, { caFile: undefined, waitMs: 60_000 }) instanceof cloister.ServiceNotFound);
	const relay = net.createServer((near) => near.on("error", () => {}).pipe(net.connect(new URL(way.path).port, "127.0.0.1")).pipe(near));
	await once(relay.listen(0, "127.0.0.2"), "listening"); // which the certificate does not name
	await refused(cloister.CertificateError, /altnames/, { path: `https://127.0.0.2:${relay.address().port}` });
	relay.close();
};

cases.keys = async () => {
	const error = await refused(cloister.KeyRefused, /refuses the key/, { key: `e2b_${"0".repeat(40)}`, waitMs: 60_000 });
	assert(!error.message.includes("0000"));
	await refused(cloister.KeyRefused, /does not use the gate/, { key: more });
	await refused(cloister.BadRequest, /CLOISTER_KEY/, { key: undefined });
	process.env.CLOISTER_KEY = way.key;
	process.env.CLOISTER_SOCKET = way.path;
	assert((await connect({ key: undefined, path: undefined }).toolsList()).tools.length > 0);
};

cases.urls = async () => {
	for (const [path, pattern] of [["http://example.com", /https:\/\/example.com/], ["https://", /no URL/], ["https://a/b", /HOST/],
		["https://u:p@a", /HOST/], ["https://a?b", /HOST/], ["https://a:x", /no URL/], ["http://10.0.0.1", /show the key/]])
		await refused(cloister.BadRequest, pattern, { path, key: "k" });
	await refused(cloister.BadRequest, /no key has/, { key: "a\r\nb: c" });
	await refused(cloister.BadRequest, /certificates/, { caFile: "/dev/null" });
	await refused(cloister.ServiceNotFound, /without an answer/, { path: way.path.replace("https", "http") });
	await refused(cloister.ServiceNotFound, /ECONNREFUSED/, { path: "https://127.0.0.1:1" });
};

cases.strangers = async () => {
	const answers = [
		["220 mail\r\n\r\n", cloister.ProtocolError], [`HTTP/1.1 101 x\r\n${"a: b\r\n".repeat(9000)}`, cloister.ProtocolError],
		["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", cloister.ServiceNotFound], ["", cloister.ServiceNotFound],
		['HTTP/1.1 503 x\r\nRetry-After: 3\r\nContent-Length: 16\r\n\r\n{"message":"no"}', cloister.Busy],
		["HTTP/1.1 401 x\r\nContent-Length: 99999999999\r\n\r\nx", cloister.KeyRefused],
		[`HTTP/1.1 401 x\r\nContent-Length: 99999999\r\n\r\n${"x".repeat(1 << 20)}`, cloister.KeyRefused]];
	for (const [text, kind] of answers) {
		const server = net.createServer((socket) => socket.on("error", () => {}).once("data", () => socket.end(text)));
		await once(server.listen(0, "127.0.0.1"), "listening");
		const error = await refused(kind, /./, { path: `http://127.0.0.1:${server.address().port}` });
		if (kind === cloister.Busy)
			assert.equal(error.retryAfterMs, 3000);
		server.close();
	}
};

try {
	await cases[name]();
} finally {
	for (const close of closers)
		close();
}
