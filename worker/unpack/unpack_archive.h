/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a tar archive, plain or compressed, into a template, by libarchive. archive_read(3). */

#include "worker/unpack/unpack_tree.h"

#include <nettle/sha2.h>

enum unpack_pass {
	UNPACK_ALL,       /* a separate archive */
	UNPACK_WHITEOUTS, /* of a layer: only its whiteouts */
	UNPACK_ENTRIES,   /* of a layer: all else */
};

/* An archive that is read from its beginning, once. */
struct unpack_source {
	int fd; /* borrowed */
	uint64_t read;
	struct sha256_ctx sha256;
	uint8_t buffer[128 * KIB];
};

/** Begins to read @fd. */
void unpack_source_init(struct unpack_source *source, int fd);

/** Reads the rest, and gives the SHA-256 and the length of the archive. Returns 0 or -errno. */
int unpack_source_end(
	struct unpack_source *source, uint8_t ret_digest[SHA256_DIGEST_SIZE], uint64_t *ret_len);

/** Does @pass. Returns as the functions of unpack_tree.h. */
int unpack_archive(struct unpack_tree *tree, struct unpack_source *source, enum unpack_pass pass);
