/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides whether this host can take more work, and if not, why, from the facts that
 * control_health.c collects.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct headroom_view;
struct selftest_summary;
struct tenant;

/*
 * A resource of which the host has a limited number. The last three reasons are in the same order.
 */
enum health_slot {
	HEALTH_SLOT_WORKSPACES,
	HEALTH_SLOT_COMMANDS,
	HEALTH_SLOT_CONNECTIONS,
	HEALTH_SLOTS
};

enum health_reason {
	HEALTH_SHUTTING_DOWN,
	HEALTH_DRAINING,
	HEALTH_SELFTEST,
	HEALTH_AUDIT,
	HEALTH_JOURNAL,
	HEALTH_DISK,
	HEALTH_MEMORY,
	HEALTH_OPENINGS,
	HEALTH_HELD,
	HEALTH_WORKSPACES,
	HEALTH_COMMANDS,
	HEALTH_CONNECTIONS,
	HEALTH_REASONS,
};

struct health_facts {
	bool shutting_down, draining;
	const struct selftest_summary *selftest; /* NULL: there is none */
	const char *audit;                       /* audit_forbids() */
	int journal_error;                       /* the errno, or 0 */
	const struct headroom_view *room;        /* NULL: nobody looks */
	uint64_t state_free_min, state_files_min, memory_free_min;
	struct {
		uint64_t used, limit;
	} slots[HEALTH_SLOTS];
	/* openings of workspaces that failed one after the other, and how long ago the last one */
	unsigned unmade;
	int64_t unmade_age_ms;
	const char *unmade_why;
	/*
	 * workspaces with a killed process that has not ended; for one of them the reason and the
	 * place; and whether they belong to several tenants, or to the only one
	 */
	uint64_t held;
	const char *held_why;
	bool held_by_several;
	const struct tenant *held_tenant; /* of one of them */
	uint64_t old_daemon_commands;     /* used slots of the generation before this one */
};

/** Returns the name as the protocol writes it. Static. */
const char *health_reason_name(enum health_reason reason);
const char *health_slot_name(enum health_slot slot);

/**
 * Gives each reason against @facts to @take, in the order of the enum, with a sentence that says
 * what to do; both only for the call. Gives nothing if the host is healthy.
 */
void health_judge(const struct health_facts *facts,
	void (*take)(void *context, enum health_reason reason, const char *message), void *context);
