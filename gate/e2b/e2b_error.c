// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate. */

#include "gate/e2b/e2b_error.h"

#include "common/cleanup.h"

#include <string.h>

/*
 * 502 and "unavailable" say that the sandbox is gone: E2B's clients then speak of its timeout. 507
 * is a full disk for them, and 429 with "resource_exhausted" asks to try again later.
 */
static const struct e2b_error errors[] = {
	[CLOISTER_ERROR_NONE] = {500, "internal"},
	[CLOISTER_ERROR_OTHER] = {500, "internal"},
	[CLOISTER_ERROR_PATH_OUTSIDE_WORKSPACE] = {403, "permission_denied"},
	[CLOISTER_ERROR_SYMLINK_OUTSIDE_WORKSPACE] = {403, "permission_denied"},
	[CLOISTER_ERROR_COMMAND_BLOCKED] = {403, "permission_denied"},
	[CLOISTER_ERROR_FILE_TOO_LARGE] = {413, "resource_exhausted"},
	[CLOISTER_ERROR_UNKNOWN_TOOL] = {500, "unimplemented"},
	[CLOISTER_ERROR_INVALID_ARGUMENTS] = {400, "invalid_argument"},
	[CLOISTER_ERROR_NOT_FOUND] = {404, "not_found"},
	[CLOISTER_ERROR_NOT_A_DIRECTORY] = {400, "invalid_argument"},
	[CLOISTER_ERROR_IS_A_DIRECTORY] = {400, "invalid_argument"},
	[CLOISTER_ERROR_NOT_A_REGULAR_FILE] = {400, "invalid_argument"},
	[CLOISTER_ERROR_PERMISSION_DENIED] = {403, "permission_denied"},
	[CLOISTER_ERROR_TOO_MANY_LINKS] = {400, "invalid_argument"},
	[CLOISTER_ERROR_NAME_TOO_LONG] = {400, "invalid_argument"},
	[CLOISTER_ERROR_NO_SPACE] = {507, "resource_exhausted"},
	[CLOISTER_ERROR_INVALID_PATTERN] = {400, "invalid_argument"},
	[CLOISTER_ERROR_PATTERN_TOO_COMPLEX] = {400, "invalid_argument"},
	[CLOISTER_ERROR_TIMEOUT] = {504, "deadline_exceeded"},
	[CLOISTER_ERROR_CANCELLED] = {500, "aborted"},
	[CLOISTER_ERROR_OUTPUT_LIMIT] = {500, "resource_exhausted"},
	[CLOISTER_ERROR_MEMORY_LIMIT] = {500, "resource_exhausted"},
	[CLOISTER_ERROR_PROCESS_LIMIT] = {500, "resource_exhausted"},
	[CLOISTER_ERROR_BUSY] = {429, "resource_exhausted"},
	[CLOISTER_ERROR_QUOTA_EXCEEDED] = {507, "resource_exhausted"},
	[CLOISTER_ERROR_FORBIDDEN] = {403, "permission_denied"},
	[CLOISTER_ERROR_WORKSPACE_NOT_FOUND] = {502, "unavailable"},
	[CLOISTER_ERROR_WORKER_LOST] = {502, "unavailable"},
	[CLOISTER_ERROR_SHUTTING_DOWN] = {503, "unavailable"},
	[CLOISTER_ERROR_EXECUTION_ERROR] = {500, "internal"},
	[CLOISTER_ERROR_NO_MATCH] = {400, "failed_precondition"},
	[CLOISTER_ERROR_AMBIGUOUS_MATCH] = {400, "failed_precondition"},
	[CLOISTER_ERROR_EDITS_OVERLAP] = {400, "invalid_argument"},
	[CLOISTER_ERROR_STALE_FILE] = {409, "aborted"},
	[CLOISTER_ERROR_KEY_CONFLICT] = {409, "already_exists"},
	[CLOISTER_ERROR_OUTCOME_UNKNOWN] = {500, "unknown"},
	[CLOISTER_ERROR_SESSION_NOT_FOUND] = {404, "not_found"},
	[CLOISTER_ERROR_MOVED] = {502, "unavailable"},
	[CLOISTER_ERROR_LEASE_ENDED] = {502, "unavailable"},
};

struct e2b_error e2b_error_of(enum cloister_error error)
{
	if (error < 0 || (size_t)error >= ARRAY_SIZE(errors) || errors[error].code == NULL)
		return errors[CLOISTER_ERROR_OTHER];
	return errors[error];
}

struct e2b_error e2b_error_of_reply(const struct cloister_message *reply)
{
	return e2b_error_of(cloister_json_error(reply) == CLOISTER_JSON_INVALID_PARAMS
				    ? CLOISTER_ERROR_INVALID_ARGUMENTS
				    : cloister_error(reply));
}

/* connectrpc.com/docs/protocol, "Error codes". */
static const struct {
	const char *code;
	unsigned status;
} statuses[] = {
	{"canceled", 499},
	{"unknown", 500},
	{"invalid_argument", 400},
	{"deadline_exceeded", 504},
	{"not_found", 404},
	{"already_exists", 409},
	{"permission_denied", 403},
	{"resource_exhausted", 429},
	{"failed_precondition", 400},
	{"aborted", 409},
	{"out_of_range", 400},
	{"unimplemented", 501},
	{"internal", 500},
	{"unavailable", 503},
	{"data_loss", 500},
	{"unauthenticated", 401},
};

unsigned e2b_error_connect_status(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (strcmp(statuses[i].code, code) == 0)
			return statuses[i].status;
	}
	return 500;
}
