// SPDX-License-Identifier: Apache-2.0
// Which of several hosts a workspace is on, as cloister_place() in libcloister/place.c.

const FNV_OFFSET = 0xcbf29ce484222325n;
const FNV_PRIME = 0x00000100000001b3n;

function add(value: bigint, text: string): bigint {
	if (text.includes("\0"))
		throw new TypeError("a name contains a NUL");
	for (const byte of Buffer.from(`${text}\0`))
		value = BigInt.asUintN(64, (value ^ BigInt(byte)) * FNV_PRIME);
	return value;
}

function mix(value: bigint): bigint {
	value = BigInt.asUintN(64, (value ^ (value >> 30n)) * 0xbf58476d1ce4e5b9n);
	value = BigInt.asUintN(64, (value ^ (value >> 27n)) * 0x94d049bb133111ebn);
	return value ^ (value >> 31n);
}

/**
 * Returns the one of the hosts, named in any order, that the workspace is on. Whoever gives the same names gets the same
 * host; if one is taken out, only its workspaces move. Name those that `cloisterctl health` calls healthy. Throws a
 * TypeError if there is none.
 */
export function place(tenant: string, workspace: string, nodes: readonly string[]): string {
	const start = add(add(FNV_OFFSET, tenant), workspace);
	let best: { node: string; score: bigint } | undefined;

	for (const node of nodes) {
		const score = mix(add(start, node));
		// Of two with one score the lesser name wins.
		if (!best || score > best.score ||
			(score === best.score && Buffer.compare(Buffer.from(node), Buffer.from(best.node)) < 0))
			best = { node, score };
	}
	if (!best)
		throw new TypeError("there is no host to choose");
	return best.node;
}
