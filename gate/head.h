/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which heads are refused. libmicrohttpd splits a head into its parts and is more lenient
 * than RFC 9112; this file is not. No input or output, so that it can be tested with any head.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct host;

struct gate_field {
	const char *name, *value;
};

struct gate_head {
	const char *method, *target, *version;
	const struct gate_field *fields;
	size_t n_fields;
};

struct gate_refusal {
	unsigned status;
	const char *message;
};

/** Returns false with *ret if the head is refused; its connection ends then. */
bool gate_head_check(const struct gate_head *head, struct gate_refusal *ret);

/** The first field @name, in any case; NULL: there is none. */
const char *gate_head_field(const struct gate_head *head, const char *name);

/** Whether @text may be a field's name, or value; a value has no control character but tabs. */
bool gate_head_is_name(const char *text);
bool gate_head_is_value(const char *text);

/** Reads the value of the field Host. Returns whether it is a host, with or without a port. */
bool gate_host_read(const char *value, struct host *ret);

/** Whether @host is "localhost" or below it, or a loopback address. */
bool gate_host_is_loopback(const char *host);
