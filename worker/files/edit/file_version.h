/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The version of a file: a digest of its content, XXH3-128 by libxxhash, as 32 hexadecimal digits.
 * Two contents of one tenant may be made to have one version on purpose, which harms nobody else:
 * it is compared to notice a change, never to grant anything. Clients treat it as opaque.
 */

#include "common/text.h"
#include "common/wire/wire_files.h"

#include <stdint.h>

struct file_version; /* of content that comes in parts */

/** Returns a version of nothing, to be freed with file_version_free(), or NULL: no memory. */
struct file_version *file_version_new(void);
void file_version_free(struct file_version *version);

/** Adds the next bytes of the content. A NULL @version is allowed. */
void file_version_add(struct file_version *version, const void *data, size_t len);

/** Writes the version of all that was added, or "" for a NULL @version. Returns @buffer. */
const char *file_version_text(
	const struct file_version *version, char buffer[FILES_VERSION_BYTES + 1]);

/** Writes the version of @content. Returns @buffer. */
const char *file_version_of(struct text content, char buffer[FILES_VERSION_BYTES + 1]);
