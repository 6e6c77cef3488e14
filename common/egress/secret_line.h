/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A line of egress_secret:
 *   NAME host=HOST[:PORT] header="FIELD: PREFIX" file=PATH
 * The words behind NAME come in any order, a value with blanks stands in quotes, and PREFIX may be
 * missing. Requests to http://NAME.cloister.internal/ are sent over TLS to HOST, with the field
 * "FIELD: PREFIX CONTENT", where CONTENT is the content of the file. cloister-egress follows it;
 * cloisterd checks its form and never opens the file.
 */

#include "common/egress/host.h"

#include <sys/stat.h>

#define SECRET_DOMAIN ".cloister.internal"

struct secret_line {
	struct text name; /* a label of a host's name: a to z, 0 to 9 and -, not - at an end */
	struct host host;
	uint16_t port;      /* 443 if the line has none */
	struct text field;  /* name of a field of an HTTP request */
	struct text prefix; /* without blanks at its ends; may be empty */
	struct text file;   /* an absolute path */
};

/**
 * Parses the value of egress_secret. Texts in @ret are borrowed from @line. Returns 0, or -EINVAL
 * with the reason in @why, which has @size bytes and never quotes what may be a secret.
 */
int secret_line_parse(struct text line, struct secret_line *ret, char *why, size_t size);

/** Returns the reason why a file with these attributes must not hold a secret, or NULL. */
const char *secret_file_wrong(const struct stat *attributes);

/**
 * Whether a server may take two field names for the same: they are compared without case, and "_"
 * counts as "-".
 */
bool secret_same_field(struct text a, struct text b);
