// SPDX-License-Identifier: Apache-2.0
// What export writes: the tar archive that a command in the workspace makes, with the comments of `cloister export` at its
// beginning and its end, by which `cloister import` knows a whole one. The workspace is not trusted: what it calls an entry
// is bounded, and its own comments and special files are left out.

import { ExportFailed } from "./errors.js";

export const EXPORT_SCRIPT = `command -v tar >/dev/null || { echo 'there is no tar in this workspace; export needs one' >&2; exit 127; }
case $(tar --version 2>/dev/null) in
*GNU*) exec tar -b 128 --format=posix --pax-option=delete=atime,delete=ctime -cf - . ;;
*) exec tar -cf - . ;;
esac
`;
const BLOCK = 512;
/** Of the longer names of an entry. */
const EXTENSION_BYTES = 1024 * 1024;
/** Names that are kept. */
const LEFT_OUT = 100;
/** Offsets in a header, pax(1). */
const AT = { name: 0, mode: 100, size: 124, checksum: 148, type: 156, magic: 257 };

function padded(size: number): number {
	return Math.ceil(size / BLOCK) * BLOCK;
}

function checksum(block: Buffer): number {
	let sum = 0;
	for (let i = 0; i < BLOCK; i++)
		sum += i >= AT.checksum && i < AT.checksum + 8 ? 0x20 : block[i]!;
	return sum;
}

function header(name: string, type: string, mode: string, size: number): Buffer {
	const block = Buffer.alloc(BLOCK);
	block.write(name, AT.name);
	block.write(`000${mode}\0` + "0000000\0".repeat(2) + `${size.toString(8).padStart(11, "0")}\0` + "00000000000\0", AT.mode);
	block.write(type, AT.type);
	block.write("ustar\x0000", AT.magic);
	block.write(`${checksum(block).toString(8).padStart(6, "0")}\0 `, AT.checksum);
	return block;
}

function comment(text: string): Buffer {
	const rest = Buffer.byteLength(text) + " comment=\n".length;
	let size = rest + 1;
	while (rest + String(size).length !== size)
		size++;
	const record = Buffer.alloc(padded(size));
	record.write(`${size} comment=${text}\n`);
	return Buffer.concat([header("./pax", "g", "0600", size), record]);
}

/** Octal digits, or a number in base 256. */
function sizeOf(block: Buffer): number {
	const field = block.subarray(AT.size, AT.size + 12);
	if (field[0] === 0x80)
		return Number(field.readBigUInt64BE(4));
	const text = field.toString("latin1").replace(/[\0 ]+$/, "").trim();
	if (!/^[0-7]*$/.test(text))
		throw new RangeError("a size that is no number");
	return text ? parseInt(text, 8) : 0;
}

/** The size that a pax header gives, in place of that of the entry. */
function sizeIn(records: Buffer): number | undefined {
	let size: number | undefined;
	for (let at = 0; at < records.length;) {
		const space = records.indexOf(0x20, at);
		const text = records.toString("latin1", at, space);
		const length = Number(text);
		if (!/^[1-9]\d*$/.test(text) || at + length > records.length)
			throw new RangeError("a record without a length");
		const given = /^size=(\d+)\n$/.exec(records.toString("latin1", space + 1, at + length));
		size = given ? Number(given[1]) : size;
		at += length;
	}
	return size;
}

function nameOf(block: Buffer): string {
	const name = block.subarray(AT.name, AT.mode);
	return name.toString("utf8", 0, name.includes(0) ? name.indexOf(0) : name.length);
}

/** Takes the archive a piece at a time, and returns what is to be written. */
export class Archive {
	entries = 0;
	/** Special files, the first of them. */
	readonly leftOut: string[] = [];
	#out: Buffer[];
	#in: Buffer = Buffer.alloc(0);
	/** The longer names of the entry that follows, and the size that they give. */
	#held: Buffer[] = [];
	#size: number | undefined;
	/** Of an entry's content. */
	#rest = 0;
	#keep = true;
	#ended = false;
	#root = header("./", "5", "0700", 0);

	constructor(workspace: string) {
		this.#out = [comment(`cloister export 1 of ${workspace.slice(0, 256)} at ${new Date().toISOString().replace(/\.\d+/, "")}`)];
	}

	feed(data: Uint8Array): Buffer {
		try {
			this.#feed(data);
		} catch (error) {
			throw error instanceof RangeError ? new ExportFailed("What the workspace sent is no tar archive") : error;
		}
		const made = Buffer.concat(this.#out);
		this.#out = [];
		return made;
	}

	#feed(data: Uint8Array): void {
		this.#in = this.#in.length > 0 ? Buffer.concat([this.#in, data]) : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
		while (!this.#ended) {
			if (this.#rest > 0) {
				const part = this.#in.subarray(0, this.#rest);
				if (part.length === 0)
					return;
				this.#in = this.#in.subarray(part.length);
				this.#rest -= part.length;
				if (this.#keep)
					this.#out.push(part);
			} else if (!this.#header())
				return;
		}
	}

	/** Takes one. Returns whether it was there. */
	#header(): boolean {
		if (this.#in.length < BLOCK)
			return false;
		const block = this.#in.subarray(0, BLOCK);
		if (block.every((byte) => byte === 0)) {
			this.#ended = true;
			return true;
		}
		if (parseInt(block.toString("latin1", AT.checksum, AT.checksum + 8), 8) !== checksum(block))
			throw new RangeError("a wrong checksum");
		const type = String.fromCharCode(block[AT.type]!), size = sizeOf(block);
		if ("xLK".includes(type))
			return this.#extension(type, size);
		const isRoot = type === "5" && ["./", "."].includes(nameOf(block));
		this.#in = this.#in.subarray(BLOCK);
		this.#keep = "0\x00125".includes(type);
		// A link has none, whatever its header says.
		this.#rest = "125".includes(type) ? 0 : padded(this.#size ?? size);
		if (this.#keep) {
			this.#out.push(...this.#held, block);
			this.entries += isRoot ? 0 : 1;
		} else if (type !== "g" && this.leftOut.length < LEFT_OUT)
			this.leftOut.push(nameOf(block));
		if (isRoot)
			this.#root = Buffer.from(block);
		this.#held = [];
		this.#size = undefined;
		return true;
	}

	#extension(type: string, size: number): boolean {
		const end = BLOCK + padded(size);
		if (end + this.#held.reduce((sum, part) => sum + part.length, 0) > EXTENSION_BYTES)
			throw new RangeError("a name that is too long");
		if (this.#in.length < end)
			return false;
		if (type === "x")
			this.#size = sizeIn(this.#in.subarray(BLOCK, BLOCK + size));
		this.#held.push(this.#in.subarray(0, end));
		this.#in = this.#in.subarray(end);
		return true;
	}

	/** Returns the end of a whole archive. */
	end(): Buffer {
		if (!this.#ended)
			throw new ExportFailed("The archive ended early; export it again");
		return Buffer.concat([comment(`cloister export complete: ${this.entries}`), this.#root, Buffer.alloc(2 * BLOCK)]);
	}
}
