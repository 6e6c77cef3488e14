/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is let in: connections and calls against the limits on how many there may be. Who may do
 * what is decided elsewhere (peer_auth.h, tenant.h); here everybody may, and it is only too much at
 * the moment. Whatever is refused is told BUSY, by which limit, and when to try again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config_host;
struct tenant;
struct scheduler;

enum admission_reason {
	ADMISSION_CONNECTIONS,
	ADMISSION_USER_CONNECTIONS,
	ADMISSION_TENANT_CONNECTIONS,
	ADMISSION_CONNECTION_CALLS,
	ADMISSION_TENANT_CALLS,
	ADMISSION_QUEUE_LENGTH,
	ADMISSION_QUEUE_TIME,
	ADMISSION_UNREAD_ANSWERS,
	ADMISSION_SHORTAGE, /* of memory or descriptors */
	ADMISSION_REASONS,
};

struct admission_refusal {
	enum admission_reason reason;
	const char *message; /* static */
	int64_t retry_after_ms;
};

/* What is refused, and what that is computed from. */
struct admission {
	struct scheduler *scheduler;
	uint64_t refused[ADMISSION_REASONS]; /* so far */
};

/** The reason's name, as in metrics. */
const char *admission_reason_name(enum admission_reason reason);

/** Whether one more connection is refused, where there are @connections, to a user who has @of_user
 * and whose first tenant is
 * @tenant; counted, with *ret_refusal. */
bool admission_refuses_connection(struct admission *admission, const struct config_host *host,
	size_t connections, const struct tenant *tenant, size_t of_user,
	struct admission_refusal *ret_refusal);

/** Whether one more call of @tenant is refused on a connection with @of_connection; @is_scheduled:
 * it is one that may have to wait. Counted, with *ret_refusal. */
bool admission_refuses_call(struct admission *admission, const struct tenant *tenant,
	size_t of_connection, bool is_scheduled, struct admission_refusal *ret_refusal);

/** A call of @tenant has waited too long: what it is told. Counted. */
void admission_waited_too_long(struct admission *admission, const struct tenant *tenant,
	struct admission_refusal *ret_refusal);

/** A call of @tenant was ended because there is no room for its answer: what it is told. Counted.
 */
void admission_answers_unread(struct admission *admission, const struct tenant *tenant,
	struct admission_refusal *ret_refusal);

/** Something ran out for a moment, of @tenant or (NULL) of nobody in particular: counted. When to
 * try again, in milliseconds. */
int64_t admission_shortage(struct admission *admission, const struct tenant *tenant);

/** A call, or a connection, of @tenant has ended after so long: what others' waits are computed
 * from. */
void admission_call_ended(const struct tenant *tenant, uint64_t took_us);
void admission_connection_ended(const struct tenant *tenant, uint64_t took_us);
