/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which sandbox and port a request of the data plane is for, and which path a client means. Pure
 * functions of a stranger's bytes.
 */

#include "gate/e2b/sandbox_id.h"

#include <stdint.h>

struct target {
	struct text id; /* borrowed, valid */
	uint16_t port;
};

/** Reads "PORT-ID.DOMAIN", in lower case. False: it is none, or there is no domain. */
bool target_of_host(struct text host, struct text domain, struct target *ret);

/** Reads the headers' values; without a port it is @otherwise. */
bool target_of_headers(struct text id, struct text port, uint16_t otherwise, struct target *ret);

/** Reads a port, 1 to 65535, of decimal digits without a sign or leading zeros. */
bool target_port(struct text text, uint16_t *ret);

/**
 * Writes the absolute @path without "." and "..", empty names and a slash at its end, as
 * path.Clean of Go: the result is no longer than @path.
 */
void path_clean(const char *path, char *ret_path);
