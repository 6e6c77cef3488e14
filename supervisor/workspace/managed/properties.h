/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Properties that a managed workspace keeps beside its files: labels, a lease, the path at which
 * commands see it, variables of its commands' environment, and the rules that its network is
 * narrowed to. Clients give them as members of a JSON object, and cloisterd keeps them as such an
 * object (properties_store.h), which the same function reads.
 *
 * Runs in cloisterd. The values are hostile.
 */

#include "common/limits.h"
#include "supervisor/base/refusal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;
struct json_text;

enum lease_end {
	LEASE_CLOSE,  /* commands and sessions end, and nobody has the workspace open any more */
	LEASE_REMOVE, /* and it is removed */
};

struct lease {
	int64_t ends_ms; /* since the epoch; 0: there is none */
	enum lease_end at_end;
};

/** "close" or "remove". Static. */
const char *lease_end_name(enum lease_end at_end);

enum property {
	PROPERTY_LABELS = 1,
	PROPERTY_LEASE = 2,
	PROPERTY_SHOWN_AT = 4,
	PROPERTY_ENV = 8,
	PROPERTY_NETWORK = 16,
	PROPERTIES_OPENED = 15,  /* what workspace.open and workspace.fork take */
	PROPERTIES_UPDATED = 11, /* what workspace.update takes, but for the network */
	PROPERTIES_ALL = 31,
};

/* Zeroed: a workspace that keeps none. */
struct properties {
	unsigned given;             /* of enum property: what a request has said something of */
	struct json_object *labels; /* held; of strings; NULL: none */
	struct json_object *env;    /* held; of strings; NULL: none */
	struct lease lease;
	char shown_at[LIMIT_SHOWN_AT_BYTES + 1]; /* "": SHOWN_AT_DEFAULT */
	char *network;                           /* rules, separated by blanks; NULL: none */
};

/**
 * Reads the members of @params that have the names of properties in @which (enum property), and
 * ignores all others. A null takes the property away. A lease counts from @now_ms, as
 * unix_now_ms(). "network" is not among them: its reader is supervisor/agent/isolation.h. Returns
 * TOOL_OK and *ret, to be released with properties_done(); otherwise INVALID_ARGUMENTS with
 * @ret_refusal.
 */
enum tool_error properties_read(struct json_object *params, unsigned which, int64_t now_ms,
	struct properties *ret, struct refusal *ret_refusal);

/** Reads what properties_write() wrote. Returns 0 or -EBADMSG. */
int properties_read_kept(struct json_object *kept, struct properties *ret);

/** Writes the properties as an object. */
void properties_write(struct json_text *json, const struct properties *properties);

/** Writes the members "labels" and "lease", which everybody who may list the workspace sees. */
void properties_put_listed(struct json_text *json, const struct properties *properties);

/** Replaces in @properties what is @given, which stays the caller's. */
void properties_replace(struct properties *properties, const struct properties *given);

/** Returns a copy, to be released with properties_done(); of NULL, none. */
struct properties properties_copy(const struct properties *properties);

/** Whether each of the labels @wanted, an object of strings or NULL, is one of @properties. */
bool properties_have_labels(const struct properties *properties, struct json_object *wanted);

/** Whether there is anything to keep. */
bool properties_are_none(const struct properties *properties);

void properties_done(struct properties *properties);

/**
 * Returns a phrase that says why @value is no object of variables for an environment, in @buffer or
 * static; NULL: it is one, of *ret_count. @max_count and @max_bytes bound it.
 */
const char *env_fault(struct json_object *value, size_t max_count, size_t max_bytes,
	size_t *ret_count, char *buffer, size_t size);
