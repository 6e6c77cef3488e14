/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Secrets that never enter a workspace (egress_secret): a program asks for
 * http://NAME.cloister.internal/, and its request goes to one host, over TLS, with a field that
 * only this process knows.
 */

#include "common/egress/rules.h"

/*
 * The last line of a request's head with the empty line after it. It has separate pages, which are
 * excluded from core files and, if the kernel permits, from swap, and are zeroed before they are
 * freed.
 */
struct secret_value;

struct secret {
	char *name;
	struct host host;
	uint16_t port;
	char *field;          /* name of the field that has the secret */
	char *file;           /* the path */
	struct rules asked;   /* one rule: NAME.cloister.internal:80 */
	struct rules reached; /* one rule: the host and its port */
	struct secret_value *value;
};

struct secrets {
	struct secret *items;
	size_t count;
};

/**
 * Adds the secret of a line of egress_secret (common/egress/secret_line.h), and reads its file,
 * which must belong to root or to the user of this process. Returns 0, -ENOMEM, or -EINVAL with the
 * reason in @why, which has @size bytes.
 */
int secrets_add(struct secrets *secrets, struct text line, char *why, size_t size);
void secrets_done(struct secrets *secrets);

struct secret_value *secret_value_hold(struct secret_value *value);
/** NULL is allowed. */
void secret_value_release(struct secret_value *value);
/** Returns "FIELD: PREFIX CONTENT" and two line ends, valid while the value is held. */
struct text secret_value_text(const struct secret_value *value);

/** Whether @host is a name that stands for a secret, whether there is such a secret or not. */
bool secret_is_asked(const struct host *host);

/**
 * Judges a request to the secret @asked. The rules of egress_deny, @deny, apply to this name and to
 * the secret's host. If @narrowed is not NULL, it must name @asked. Stores the secret in @ret,
 * valid until the policy is read again, if the verdict's reason is 0.
 */
struct verdict secret_judge(const struct secrets *secrets, const struct rules *deny,
	const struct rules *narrowed, const struct host *asked, const struct secret **ret);
