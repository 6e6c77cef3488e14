// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include "worker/files/edit/file_version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct file_version {
	XXH3_state_t state;
};

/* The state wants an alignment of 64 bytes. */
struct file_version *file_version_new(void)
{
	struct file_version *version = aligned_alloc(64, sizeof(*version));

	if (version)
		XXH3_128bits_reset(&version->state);
	return version;
}

void file_version_free(struct file_version *version)
{
	free(version);
}

void file_version_add(struct file_version *version, const void *data, size_t len)
{
	if (version && len > 0)
		(void)XXH3_128bits_update(&version->state, data, len);
}

static const char *write_digest(XXH128_hash_t digest, char *buffer)
{
	snprintf(buffer, FILES_VERSION_BYTES + 1, "%016" PRIx64 "%016" PRIx64,
		(uint64_t)digest.high64, (uint64_t)digest.low64);
	return buffer;
}

const char *file_version_text(
	const struct file_version *version, char buffer[FILES_VERSION_BYTES + 1])
{
	if (version)
		return write_digest(XXH3_128bits_digest(&version->state), buffer);
	buffer[0] = '\0';
	return buffer;
}

const char *file_version_of(struct text content, char buffer[FILES_VERSION_BYTES + 1])
{
	return write_digest(XXH3_128bits(content.len > 0 ? content.data : "", content.len), buffer);
}
