/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Admission control: limits on the number of connections and calls. It decides no permissions
 * (peer_auth.h, tenant.h); a refusal means that there are too many at the moment. Every refusal is
 * answered BUSY, with the limit and the time to try again.
 */

#include "supervisor/base/refusal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
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
	ADMISSION_SESSIONS,
	ADMISSION_TENANT_SESSIONS,
	ADMISSION_WORKSPACE_SESSIONS,
	ADMISSION_SESSION_OUTPUT,
	ADMISSION_DEAR_USER, /* connection/dear_users.h */
	ADMISSION_SHORTAGE,  /* of memory or descriptors */
	ADMISSION_REASONS,
};

/* Counters of refusals, and the values that retry times are computed from. */
struct admission {
	struct scheduler *scheduler;
	uint64_t refused[ADMISSION_REASONS]; /* refusals so far */
};

/** Returns the reason's name, as in metrics. */
const char *admission_reason_name(enum admission_reason reason);

/**
 * Decides about a new connection when there are @connections, @of_user of them from the same user.
 * @tenant is that user's first tenant. Returns TOOL_OK, or TOOL_BUSY with a refusal, which is
 * counted and filled in.
 */
enum tool_error admission_refuses_connection(struct admission *admission,
	const struct config *config, size_t connections, const struct tenant *tenant,
	size_t of_user, struct refusal *ret_refusal);

/**
 * Whether a new call of @tenant is refused on a connection with @of_connection calls. With
 * @is_scheduled the call may have to wait in a queue. Returns TOOL_OK, or TOOL_BUSY with a refusal,
 * which is counted and filled in.
 */
enum tool_error admission_refuses_call(struct admission *admission, const struct tenant *tenant,
	size_t of_connection, bool is_scheduled, struct refusal *ret_refusal);

/**
 * Makes and counts the refusal of a session because of @reason, ADMISSION_SESSIONS or a later one.
 * No time is known at which one will end. Returns TOOL_BUSY.
 */
enum tool_error admission_refuse_session(
	struct admission *admission, enum admission_reason reason, struct refusal *ret_refusal);

/** Makes and counts the refusal of a connection whose user is refused for @left_ms. */
void admission_refuse_dear_user(
	struct admission *admission, int64_t left_ms, struct refusal *ret_refusal);

/** Makes and counts the refusal of a call of @tenant that has waited too long. */
void admission_waited_too_long(
	struct admission *admission, const struct tenant *tenant, struct refusal *ret_refusal);

/**
 * Makes and counts the refusal of a call of @tenant that was ended because there is no room for its
 * answer.
 */
void admission_answers_unread(
	struct admission *admission, const struct tenant *tenant, struct refusal *ret_refusal);

/**
 * Counts a temporary shortage of memory or descriptors, of @tenant or (NULL) of the whole service.
 * Returns when to try again, in milliseconds.
 */
int64_t admission_shortage(struct admission *admission, const struct tenant *tenant);

/** Records how long a call, or a connection, of @tenant took, to compute later retry times. */
void admission_call_ended(const struct tenant *tenant, uint64_t took_us);
void admission_connection_ended(const struct tenant *tenant, uint64_t took_us);
