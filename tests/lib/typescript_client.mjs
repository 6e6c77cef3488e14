// SPDX-License-Identifier: Apache-2.0
// clients/typescript against a cloisterd of its own, and against servers that do not follow the protocol: one case a run.
// usage: node typescript_client.mjs CASE DIRECTORY CLOISTERD
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as cloister from "cloister-client";

const MIB = 1024 * 1024;
const [name, directory, cloisterd] = process.argv.slice(2);
const socketPath = path.join(directory, "agent.sock");
const cases = {};
const closers = [];

/** A client that is closed after the case. */
function connect(settings = {}) {
	const client = new cloister.Client({ path: socketPath, ...settings });
	closers.push(() => client.close());
	return client;
}

async function startService(...more) {
	const service = spawn(cloisterd, [...more, "--agent-socket", socketPath, "--control-socket", path.join(directory, "control.sock"),
		"--state-dir", path.join(directory, "state")], { stdio: ["ignore", "ignore", "pipe"] });
	let said = "";
	closers.push(() => endService(service, "SIGTERM"));
	for await (const data of service.stderr.setEncoding("utf8")) {
		said += data;
		if (said.includes("listening"))
			break;
	}
	assert(said.includes("listening"), said);
	return service;
}

async function endService(service, signal) {
	if (service.exitCode === null && service.signalCode === null) {
		service.kill(signal);
		await once(service, "exit");
	}
}

function newDirectory(name) {
	fs.mkdirSync(path.join(directory, name));
	return path.join(directory, name);
}

/** Returns a client, and the workspace that it has open. */
async function open(settings) {
	await startService();
	const client = connect(settings), place = newDirectory("work");
	await client.workspace(place);
	return { client, place };
}

async function until(condition) {
	for (let i = 0; !await condition(); i++) {
		assert(i < 5000, String(condition));
		await sleep(20);
	}
}

/** Whether some process has exactly these words as its arguments. */
function runs(words) {
	return fs.readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)).some((pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ").trim() === words;
		} catch {
			return false;
		}
	});
}

async function fails(promise, kind, pattern = /./) {
	try {
		await promise;
	} catch (error) {
		assert(error instanceof kind, `${error.stack}, and not ${kind.name}`);
		assert.match(error.message, pattern);
		return error;
	}
	assert.fail(`no ${kind.name}`);
}

/** One client starts a session and goes; another reads on from its cursor, and writes each byte once. */
cases.sessions = async () => {
	const { client, place } = await open();
	const command = "while read -r line; do echo got $line; done";
	const { session } = await client.sessionStart({ command, name: "reader", stdin: true });
	assert.equal((await client.sessionWrite({ session, at: 0, data: "one\n" })).next, 4);
	const begun = await client.sessionRead({ session, after: 0, wait_ms: 60000, until: [{ contains: "got one" }] });
	assert.equal(begun.met, 0);
	client.close();
	const other = connect();
	await other.workspace(place);
	assert.deepEqual((await other.sessionList()).sessions.map((entry) => entry.session), [session]);
	assert.equal((await other.sessionWrite({ session, at: 0, data: "one\ntwo\n" })).next, 8);
	const rest = await other.sessionRead({ session, after: begun.next, wait_ms: 60000, until: [{ contains: "got two" }] });
	assert.equal([...begun.chunks, ...rest.chunks].map((chunk) => chunk.data).join(""), "got one\ngot two\n");
	assert.equal(rest.lost_bytes, 0);
	await other.sessionSignal({ session, signal: "INT" });
	const { end } = await other.sessionRead({ session, after: rest.next, wait_ms: 60000, until: [{ exit: true }] });
	assert.equal(end.output.signal, "SIGINT");
	const terminal = await other.sessionStart({ command: "stty size; cat", pty: { rows: 10, cols: 40 } });
	await other.sessionRead({ session: terminal.session, after: 0, wait_ms: 60000, until: [{ contains: "10 40" }] });
	await other.sessionResize({ session: terminal.session, rows: 20, cols: 50 });
	assert.equal((await other.sessionEnd({ session: terminal.session })).output.ended_by, "cancel");
	await assert.rejects(other.sessionRead({ session: "guessed" }), cloister.SessionNotFound);
};

cases.places = () => {
	const text = fs.readFileSync(new URL("places.h", import.meta.url), "utf8");
	const rows = [...text.matchAll(/^\{"(.*)", "(.*)", "(.*)", "(.*)"\},$/gm)];
	assert(rows.length > 10);
	for (const [, tenant, workspace, nodes, chosen] of rows)
		assert.equal(cloister.place(tenant, workspace, nodes.split(" ")), chosen);
	assert.throws(() => cloister.place("t", "w", []), TypeError);
	assert.throws(() => cloister.place("t", "w", ["a\0"]), TypeError);
};

cases.tools = async () => {
	const { client, place } = await open();
	const { version, ...written } = await client.writeFile({ path: "d/a.txt", content: "one\ntwo\n" });
	assert.deepEqual(written, { path: "d/a.txt", bytes_written: 8, created: true });
	assert.equal(fs.readFileSync(path.join(place, "d/a.txt"), "utf8"), "one\ntwo\n");
	const read = await client.readFile({ path: "d/a.txt", start_line: 2 });
	assert.deepEqual([read.content, read.version], ["     2\ttwo\n", version]);
	assert.equal((await client.readFile({ path: "d/a.txt" }, { options: { line_numbers: false } })).content, "one\ntwo\n");
	const { entries } = await client.listDirectory({ path: ".", recursive: true });
	assert.deepEqual(entries.map((entry) => entry.path), ["d", "d/a.txt"]);
	assert.deepEqual((await client.searchFiles({ pattern: "t.o" })).matches, [{ path: "d/a.txt", line: 2, text: "two" }]);
	const ran = await client.runCommand({ command: "cat; echo error >&2; exit 3" }, { options: { stdin: "in", env: { A: "b" } } });
	assert.deepEqual([ran.exit_code, ran.stdout, ran.stderr, ran.ended_by], [3, "in", "error\n", "exit"]);
};

cases.failures = async () => {
	const { client } = await open();
	const outside = await fails(client.readFile({ path: "../secret" }), cloister.PathOutsideWorkspace, /outside workspace/);
	assert.deepEqual([outside.code, outside.jsonError, outside.name], ["PATH_OUTSIDE_WORKSPACE", 0, "PathOutsideWorkspace"]);
	assert(outside instanceof cloister.ServiceError);
	const late = await fails(client.runCommand({ command: "echo partial; sleep 60", timeout_ms: 1500 }), cloister.Timeout);
	assert.equal(late.observation.output.stdout, "partial\n");
	const observation = await client.call({ tool: "read_file", arguments: { path: "gone" } });
	assert.equal(observation.error.code, "NOT_FOUND");
	assert.throws(() => cloister.outputOf(observation), cloister.NotFound);
	await fails(client.workspace("/no/such/directory"), cloister.NotFound);
	await fails(client.workspace("/proc"), cloister.Forbidden);
	for (const content of ["\ud800", "x".repeat(33 * MIB), NaN, 7n])
		await fails(client.writeFile({ path: "a", content }), cloister.BadRequest);
	await fails(client.call({ tool: "read_file", tool_call: {} }), cloister.BadRequest, /either/);
	await fails(client.readFile({ path: "a" }, { options: { reply: "message" } }), cloister.BadRequest, /startCall/);
	assert.equal((await client.writeFile({ path: "a", content: "\\ud800 \u{1f600}" })).bytes_written, 11);
};

cases.noService = async () => {
	await fails(connect().toolsList(), cloister.ServiceNotFound, /ENOENT.*start cloisterd/);
	process.env.CLOISTER_SOCKET = "";
	process.env.XDG_RUNTIME_DIR = directory;
	await fails(connect({ path: undefined }).connect(), cloister.ServiceNotFound, /CLOISTER_SOCKET/);
	await startService();
	fs.symlinkSync(directory, path.join(directory, "cloister"));
	await connect({ path: undefined }).toolsList(); // found in XDG_RUNTIME_DIR
	fs.chmodSync(directory, 0o777); // any user could put another socket there
	await fails(connect({ path: undefined }).connect(), cloister.ServiceNotFound, /another user/);
	process.env.CLOISTER_SOCKET = socketPath; // the program's user has named this path
	await connect({ path: undefined }).toolsList();
};

cases.stream = async () => {
	const { client } = await open();
	const call = await client.startCall({ tool: "run_command", arguments: { command: "echo one; read x; echo $x; cat" },
		options: { stdin_stream: true } });
	const pieces = call[Symbol.asyncIterator]();
	const first = (await pieces.next()).value;
	assert.deepEqual([first.stream, first.text], ["stdout", "one\n"]);
	assert.deepEqual(await call.input("three\n"), { taken: 6, closed: false });
	assert.equal((await pieces.next()).value.text, "three\n");
	await call.input("", { eof: true });
	assert.equal((await pieces.next()).done, true);
	assert.equal((await call.wait()).output.exit_code, 0);
	const seen = [];
	const observation = await client.call(
		{ tool: "run_command", arguments: { command: "printf '\\377\\0a'" }, options: { encoding: "base64" } },
		(piece) => seen.push(...piece.data));
	assert.deepEqual(seen, [255, 0, 97]);
	assert.deepEqual([...Buffer.from(observation.output.stdout, "base64")], seen);
};

cases.watch = async () => {
	const { client } = await open();
	const watch = await client.watch({ path: ".", recursive: true, entries: true });
	const events = watch[Symbol.asyncIterator]();
	await client.runCommand({ command: "mkdir d" });
	const { value } = await events.next();
	assert.deepEqual([value.type, value.path, value.directory, value.entry.type], ["created", "d", true, "directory"]);
	await client.runCommand({ command: ": > d/f" });
	assert.equal((await events.next()).value.path, "d/f");
	watch.close();
	assert.equal((await events.next()).done, true);
	const gone = await client.watch({ path: "d" });
	await client.fileRemove({ path: "d", recursive: true });
	await fails((async () => { for await (const event of gone) assert.ok(event); })(), cloister.NotFound);
	await fails(client.watch({ path: "none" }), cloister.NotFound);
};

cases.overrun = async () => {
	const { client } = await open();
	const flood = await client.startCall({ tool: "run_command", arguments: { command: "yes" }, timeout_ms: 110_000,
		options: { keep_output: false } });
	const before = process.memoryUsage().rss;
	for (let ended = false; !ended;) {
		await client.runCommand({ command: "sleep 0.1" }); // the client must go on reading for this answer
		ended = !runs("yes");
		assert(process.memoryUsage().rss < before + 800 * MIB);
	}
	await fails(flood[Symbol.asyncIterator]().next(), cloister.OutputOverrun);
	await fails(flood.wait(), cloister.OutputOverrun);
};

cases.cancel = async () => {
	const { client } = await open();
	const call = await client.startCall({ tool: "run_command", arguments: { command: "echo begun; sleep 600" },
		timeout_ms: 900_000 });
	assert.equal((await call[Symbol.asyncIterator]().next()).value.text, "begun\n");
	assert.equal(await call.cancel(), true);
	assert.equal((await call.wait()).output.ended_by, "cancel");
	assert.equal(await call.cancel(), false);

	const number = `6121.${process.pid}`, aborter = new AbortController();
	const aborted = client.runCommand({ command: `sleep ${number}`, timeout_ms: 900_000 }, { signal: aborter.signal });
	aborted.catch(() => {});
	await until(() => runs(`sleep ${number}`));
	aborter.abort(new RangeError("enough"));
	await fails(aborted, RangeError, /enough/);
	await until(() => !runs(`sleep ${number}`));
	await fails(client.runCommand({ command: "touch no" }, { signal: aborter.signal }), RangeError);
	await fails(client.readFile({ path: "no" }), cloister.NotFound);

	const handler = client.call({ tool: "run_command", arguments: { command: `echo begun; sleep ${number}` },
		timeout_ms: 900_000 }, () => {
		throw new SyntaxError("mine");
	});
	await fails(handler, SyntaxError, /mine/);
	await until(() => !runs(`sleep ${number}`));
};

cases.restart = async () => {
	const service = await startService();
	const client = connect({ reconnectMs: 120_000 }), first = newDirectory("first"), second = newDirectory("second");
	await client.workspace(first);
	await client.workspace(second);
	const call = await client.startCall({ tool: "run_command", arguments: { command: "echo begun; sleep 600" },
		timeout_ms: 900_000 });
	await call[Symbol.asyncIterator]().next();
	await endService(service, "SIGKILL");
	await fails(call.wait(), cloister.ConnectionLost);
	const later = sleep(500).then(() => startService());
	await Promise.all(["a", "b"].map((path) => client.writeFile({ path, content: "x" }))); // both calls use one connection
	assert.deepEqual(fs.readdirSync(second).sort(), ["a", "b"]);
	assert.deepEqual((await client.listDirectory({ path: "." }, { workspace: first })).entries, []);
	await endService(await later, "SIGKILL"); // no call is in flight, so none is lost
	await startService();
	assert.equal((await client.readFile({ path: "a" })).size, 1);
};

cases.noReconnect = async () => {
	const service = await startService();
	const impatient = connect({ reconnectMs: null }), patient = connect({ reconnectMs: 200 });
	await impatient.connect();
	await patient.connect();
	await endService(service, "SIGKILL");
	await fails(impatient.toolsList(), cloister.ConnectionLost, /without reconnect/);
	await fails(patient.toolsList(), cloister.ServiceNotFound);
	patient.close();
	await fails(patient.toolsList(), cloister.Closed);
};

cases.closedStaysClosed = async () => {
	const service = await startService();
	const client = connect(), first = newDirectory("first"), second = newDirectory("second");
	await client.workspace(first);
	await client.workspace(second);
	await client.workspaceClose();
	await endService(service, "SIGKILL");
	await startService();
	await fails(client.writeFile({ path: "a", content: "" }), cloister.WorkspaceNotFound);
	assert.deepEqual((await client.listDirectory({ path: "." }, { workspace: first })).entries, []);
	await fails(client.listDirectory({ path: "." }, { workspace: second }), cloister.WorkspaceNotFound);
};

// Servers that do not follow the protocol

/** Serves each connection with serve(socket, number). For each line received the socket emits "message". */
async function serve(handler) {
	let number = 0;
	const server = net.createServer((socket) => {
		let text = "";
		socket.on("error", () => {});
		socket.on("data", (data) => {
			const lines = (text + data).split("\n");
			text = lines.pop();
			lines.forEach((line) => socket.emit("message", JSON.parse(line)));
		});
		handler(socket, ++number);
	});
	server.listen(socketPath);
	await once(server, "listening");
	closers.push(() => server.close());
	return server;
}

const line = (message) => JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n";
const OUTPUT = { id: 1, stream: "stdout", data: "x", seq: 0 };
const changed = (params) => line({ method: "tool.output", params: { ...OUTPUT, ...params } });
const NONSENSE = {
	"junk": "HTTP/1.1 400 Bad Request\n",
	"empty": "\n",
	"no object": "[]\n",
	"not utf-8": Buffer.from('{"id":1,"result":{"a":"\xff"}}\n', "latin1"),
	"wrong id": line({ id: 7, result: {} }),
	"id of a string": line({ id: "1", result: {} }),
	"no id": line({ result: {} }),
	"neither": line({ id: 1 }),
	"both": line({ id: 1, result: 1, error: { code: 1, message: "" } }),
	"error of a string": line({ id: 1, error: "no" }),
	"deep": `{"id":1,"result":${"[".repeat(200_000)}\n`,
	"many values": `{"id":1,"result":{"a":[${"0,".repeat(5_000_000)}0]}}\n`,
	"many quotes": `{"id":1,"result":"${'\\"'.repeat(8_000_000)}\n`,
	"result is no object": line({ id: 1, result: 7 }),
	"method is no string": line({ method: 7 }),
	"params are no object": line({ method: "x", params: [] }),
	"output of no call": changed({ id: 9 }),
	"output of no stream": changed({ stream: "stdin" }),
	"output out of order": changed({ seq: 1 }),
	"output is no string": changed({ data: 7 }),
	"output is half a character": changed({ data: "\ud800" }),
};

cases.nonsense = async () => {
	const all = Object.entries(NONSENSE);
	await serve((socket, number) => socket.on("message", () => socket.write(all[number - 1][1])));
	for (const [what] of all) {
		const client = connect({ reconnectMs: null, answerTimeoutMs: 60_000 });
		const said = client.call({ tool: "run_command", arguments: { command: "true" }, timeout_ms: 1 }, () => {});
		const error = await fails(said, cloister.ProtocolError).catch((wrong) => {
			throw new Error(what, { cause: wrong });
		});
		assert(error instanceof cloister.ConnectionLost && error.message.length < 500, what);
	}
};

cases.endlessLine = async () => {
	let taken = 0;
	await serve((socket) => socket.once("message", () => {
		const more = () => {
			taken = socket.bytesWritten - socket.writableLength;
			if (!socket.destroyed)
				socket.write("x".repeat(MIB), more);
		};
		socket.write('{"id":1,"result":"', more);
	}));
	await fails(connect().toolsList(), cloister.ProtocolError, /line of more than/);
	assert(taken > 31 * MIB && taken < 40 * MIB, String(taken));
};

cases.tornMessage = async () => {
	await serve((socket) => socket.once("message", ({ id }) => socket.end(line({ id, result: { tools: [] } }).slice(0, -9))));
	const error = await fails(connect({ reconnectMs: null }).toolsList(), cloister.ConnectionLost);
	assert(!(error instanceof cloister.ProtocolError));
};

cases.answerInBits = async () => {
	await serve((socket) => socket.on("message", async ({ id }) => {
		for (const byte of Buffer.from(line({ id, result: { tools: ["é"] } }))) {
			socket.write(Buffer.of(byte));
			await sleep(1);
		}
	}));
	assert.deepEqual(await connect().toolsList(), { tools: ["é"] });
};

cases.noAnswer = async () => {
	const seen = [];
	await serve((socket) => socket.on("message", (message) => seen.push(message)));
	const client = connect({ answerTimeoutMs: 200 });
	await fails(client.toolsList(), cloister.NoAnswer);
	await fails(client.runCommand({ command: "true", timeout_ms: 1 }), cloister.NoAnswer);
	await until(() => seen.length === 3);
	assert.deepEqual(seen.map((message) => message.method), ["tools.list", "tool.call", "tool.cancel"]);
	assert.deepEqual(seen[2].params, { id: seen[1].id });
};

cases.neverReads = async () => {
	await serve((socket) => socket.pause());
	const client = connect({ answerTimeoutMs: 200 });
	await fails((async () => {
		for (let i = 0; i < 8; i++)
			await client.start("tools.list", { format: "x".repeat(12 * MIB) });
	})(), cloister.BadRequest, /wait to be sent/);
	await fails((await client.start("tools.list")).wait(), cloister.NoAnswer);
};

cases.full = async () => {
	let connections = 0;
	await serve((socket, number) => {
		connections = number;
		if ([2, 3, 5].includes(number)) {
			const data = { code: "BUSY", retry_after_ms: 50 };
			socket.once("message", () => socket.end());
			socket.write(line({ id: null, error: { code: -32000, message: "full", data } }));
			return;
		}
		socket.on("message", ({ id, method }) => {
			socket.write(line({ id, result: { workspace: "w", tools: [] } }));
			if (method === "tools.list")
				socket.end();
		});
	});
	const client = connect();
	await client.workspace("w");
	await client.toolsList(); // the server then closes the connection
	await client.toolsList();
	assert.equal(connections, 4);
	assert.equal((await fails(connect().toolsList(), cloister.Busy)).retryAfterMs, 50);
};

/** A server that closes the connection instead of answering the first calls. Returns the methods that it received. */
async function losing(first) {
	const came = [];
	let lost = 0;
	const server = await serve((socket) => socket.on("message", ({ id, method }) => {
		came.push(method);
		if (lost++ < first)
			socket.end();
		else
			socket.write(line({ id, result: { tools: [], success: true, output: {}, error: null } }));
	}));
	return { came, end: () => new Promise((resolve) => server.close(resolve)) };
}

cases.retryReads = async () => {
	const tries = [
		[{}, 1, (client) => fails(client.toolsList(), cloister.ConnectionLost), ["tools.list"]],
		[{ retryReads: true }, 1, (client) => client.toolsList(), ["tools.list", "tools.list"]],
		[{ retryReads: true }, 1, (client) => client.readFile({ path: "a" }), ["tool.call", "tool.call"]],
		[{ retryReads: true }, 1, (client) => fails(client.runCommand({ command: "x" }), cloister.ConnectionLost), ["tool.call"]],
		[{}, 1, (client) => client.runCommand({ command: "x" }, { options: { key: "k" } }), ["tool.call", "tool.call"]],
		[{}, 9, (client) => fails(client.runCommand({ command: "x" }, { options: { key: "k" } }), cloister.ConnectionLost),
			["tool.call", "tool.call", "tool.call", "tool.call"]],
		[{ retryReads: true }, 9, (client) => fails(client.readFile({ path: "a" }), cloister.ConnectionLost),
			["tool.call", "tool.call"]],
	];
	for (const [settings, first, use, expected] of tries) {
		const { came, end } = await losing(first), client = connect(settings);
		await use(client);
		client.close();
		assert.deepEqual(came, expected);
		await end();
	}
};

/** Stands between a client and the service, and cuts the first @times connections instead of passing the answer of a call. */
async function cutting(place, times) {
	const calls = [];
	const server = net.createServer((client) => {
		const service = net.connect({ path: socketPath });
		let sent = "", came = "";
		client.on("data", (data) => {
			sent += data;
			for (let end = sent.indexOf("\n"); end >= 0; end = sent.indexOf("\n")) {
				const request = JSON.parse(sent.slice(0, end));
				if (request.method === "tool.call")
					calls.push(request.params.options ?? {});
				sent = sent.slice(end + 1);
			}
			service.write(data);
		});
		service.on("data", (data) => {
			came += data;
			if (came.includes('"usage"') && times > 0) {
				times--;
				client.destroy();
				service.destroy();
			} else {
				client.write(data);
			}
		});
		for (const [one, other] of [[client, service], [service, client]]) {
			one.on("error", () => other.destroy());
			one.on("close", () => other.destroy());
		}
	});
	server.listen(place);
	await once(server, "listening");
	closers.push(() => server.close());
	return calls;
}

const RUN = "echo run >>runs; echo out; exit 3";
const runs_in = (place) => fs.existsSync(path.join(place, "runs")) ? fs.readFileSync(path.join(place, "runs"), "utf8").split("\n").length - 1 : 0;

cases.repeated = async () => {
	const { client: direct, place } = await open(), proxy = path.join(directory, "proxy.sock");
	const calls = await cutting(proxy, 3), client = connect({ path: proxy });
	await client.workspace(place);
	const answer = await client.call({ tool: "run_command", arguments: { command: RUN } });
	assert.deepEqual([answer.output.exit_code, answer.replayed, runs_in(place), calls.length], [3, true, 1, 4]);
	assert.equal(new Set(calls.map((options) => options.key)).size, 1);
	await client.call({ tool: "run_command", arguments: { command: "true" } });
	assert.deepEqual([calls[4].forget_key, calls[4].key_wait_ms], [calls[0].key, 40_000]);
	await client.runCommand({ command: "true" }, { options: { keep_output: false } });
	await client.readFile({ path: "runs" });
	assert.deepEqual(calls.slice(5).map((options) => options.key), [undefined, undefined]);
	direct.close();
};

cases.notRepeated = async () => {
	const { place } = await open(), proxy = path.join(directory, "proxy.sock");
	const calls = await cutting(proxy, 1), client = connect({ path: proxy, keys: false });
	await client.workspace(place);
	await fails(client.runCommand({ command: RUN }), cloister.ConnectionLost);
	assert.deepEqual([calls, runs_in(place)], [[{}], 1]);
};

cases.repeatedAfterADeath = async () => {
	const service = await startService(), client = connect(), place = newDirectory("work");
	await client.workspace(place);
	const answered = client.call({ tool: "run_command", arguments: { command: "touch begun; sleep 60; " + RUN } });
	await until(() => fs.existsSync(path.join(place, "begun")));
	await endService(service, "SIGKILL");
	await startService();
	assert.equal((await answered).error.code, "OUTCOME_UNKNOWN");
	assert.equal((await client.runCommand({ command: RUN })).exit_code, 3);
	assert.equal(runs_in(place), 1);
};

cases.replaced = async () => {
	const { client, place } = await open({ reconnectMs: 60_000 });
	for (const keys of [true, false]) {
		const other = connect({ keys });
		await other.workspace(newDirectory(`replaced ${keys}`));
		for (let i = 0; i < 2; i++) {
			await startService("--take-over");
			assert.equal((await other.runCommand({ command: `echo ${i}` })).stdout, `${i}\n`);
		}
	}
	assert.equal((await client.runCommand({ command: RUN })).exit_code, 3);
	assert.equal(runs_in(place), 1);
};

/**
 * Another host, whose work moves to b. It answers the first @opens openings, and the others and all calls with MOVED; with
 * @loses it ends the connection at a call. Returns the methods that came.
 */
async function movedHost(place, { opens = 1, loses = false, exists = true } = {}) {
	const came = [];
	const server = net.createServer((client) => {
		let sent = "";
		client.on("error", () => client.destroy());
		client.on("data", (data) => {
			sent += data;
			for (let end = sent.indexOf("\n"); end >= 0; end = sent.indexOf("\n")) {
				const { id, method } = JSON.parse(sent.slice(0, end));
				sent = sent.slice(end + 1);
				came.push(method);
				if (method === "tool.call" && loses)
					client.destroy();
				else if (method === "workspace.open" && opens-- > 0)
					client.write(line({ id, result: { workspace: "w", kind: "managed", root: "/workspace", tenant: "t", key_horizon_ms: 60000 } }));
				else
					client.write(line({ id, error: { code: -32000, message: "moved", data: { code: "MOVED", node: "b", exists } } }));
			}
		});
	});
	server.listen(place);
	await once(server, "listening");
	closers.push(() => server.close());
	return came;
}

cases.follows = async () => {
	await startService();
	const there = connect(), nodes = { b: socketPath };
	const old = (name, settings) => movedHost(path.join(directory, name), settings);
	const from = (name, settings = { nodes }) => connect({ path: path.join(directory, name), ...settings });
	await old("one.sock");
	const client = from("one.sock");
	await client.workspace("w");
	// It is not there yet: an empty workspace would be a lie.
	const told = await fails(client.runCommand({ command: "true" }), cloister.Moved);
	assert.deepEqual([told.node, told.exists, told.cause instanceof cloister.WorkspaceNotFound], ["b", true, true]);
	await there.workspace("w");
	// The next attempt meets the old host's refusal to open it, and follows.
	assert.equal((await client.runCommand({ command: "echo there >f; cat f" })).stdout, "there\n");
	assert.equal((await there.runCommand({ command: "cat f" })).stdout, "there\n");
	assert.equal((await client.readFile({ path: "f" })).size, 6);
	// One that opens its workspace only now; a new one is made, one that exists at the old host is not.
	await old("two.sock", { opens: 0 });
	await from("two.sock").workspace("w");
	await fails(from("two.sock").workspace("v"), cloister.WorkspaceNotFound);
	await old("three.sock", { opens: 0, exists: false });
	await from("three.sock").workspace("v");
	// Who knows no way is told.
	await old("four.sock", { opens: 9 });
	for (const settings of [{}, { nodes: { c: socketPath } }]) {
		const lost = from("four.sock", settings);
		await lost.workspace("w");
		assert.equal((await fails(lost.runCommand({ command: "true" }), cloister.Moved)).node, "b");
	}
};

cases.followsNotTwice = async () => {
	await startService();
	const there = connect();
	await there.workspace("w");
	for (const options of [{}, { key: "mine" }]) {
		const place = path.join(directory, `lost${Object.keys(options).length}.sock`);
		const came = await movedHost(place, { loses: true }), client = connect({ path: place, nodes: { b: socketPath } });
		await client.workspace("w");
		await fails(client.call({ tool: "run_command", arguments: { command: RUN }, options }), cloister.ConnectionLost, /may have run/);
		assert.deepEqual(came, ["workspace.open", "tool.call", "workspace.open"]);
	}
	assert.deepEqual((await there.listDirectory({ path: "." })).entries, []);
};

cases.closed = async () => {
	const { client, place } = await open(), other = connect();
	await other.workspace(place);
	const lost = fails(client.runCommand({ command: "touch begun; exec sleep 86399" }), cloister.ConnectionLost);
	await until(() => fs.existsSync(path.join(place, "begun")));
	client.close();
	await lost;
	await until(() => !runs("sleep 86399"));
};

try {
	await cases[name]();
} finally {
	for (const close of closers.reverse())
		await close();
}
