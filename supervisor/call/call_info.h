/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Information for people about a call in flight. */

#include "supervisor/call/call.h"

#include <stdbool.h>
#include <stdint.h>

/* A view of a call for readers outside, at one moment. */
struct call_info {
	uint64_t id;
	uint64_t leader; /* the call that it has joined; 0: none */
	const char *tool;
	enum call_state state;
	struct text subject; /* borrowed: its command, or the path or pattern that it uses */
	const struct workspace *workspace;  /* borrowed */
	const struct tenant *tenant;        /* borrowed: as configured when the call came */
	const struct call_request *request; /* borrowed */
	const char *session;                /* borrowed: the id of its session; NULL: it has none */
	int64_t age_ms;
	int64_t timeout_ms; /* counted from its beginning */
	bool is_command;
	uint64_t cgroup; /* inode of its command's cgroup; 0: none, or unknown */
};

void call_get_info(const struct call *call, struct call_info *ret);

/** The state as the protocol writes it. Static. */
const char *call_state_name(enum call_state state);
