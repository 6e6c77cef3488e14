// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Functions of their arguments alone. */
#include "supervisor/control/health.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/host/headroom.h"
#include "supervisor/selftest/selftest.h"

#include <stdio.h>
#include <string.h>

#define MESSAGE_BYTES 384

/* Writes the sentence of a reason to @message. Returns false if the reason does not hold. */
typedef bool (*judge)(const struct health_facts *facts, char *message);

#define SAY(...) ((void)snprintf(message, MESSAGE_BYTES, __VA_ARGS__), true)

static bool is_shutting_down(const struct health_facts *facts, char *message)
{
	return facts->shutting_down && SAY("cloisterd is ending; it takes no new calls");
}

static bool is_draining(const struct health_facts *facts, char *message)
{
	return facts->draining &&
	       SAY("an administrator has drained it; cloisterctl resume ends that");
}

static bool has_failed(const struct health_facts *facts, char *message)
{
	const struct selftest_summary *last = facts->selftest;
	const char *undone = last && last->obstacle ? "; the last attempt was not done: " : "";
	const char *why = last && last->obstacle ? last->obstacle : "";

	if (last && last->state == SELFTEST_FAILED)
		return SAY("the last self-test failed: take the host out of service; cloisterctl "
			   "selftest runs it again and says which wall does not hold%s%s",
			undone, why);
	return last && last->required && last->state != SELFTEST_PASSED &&
	       SAY("the self-test that the configuration requires has not passed yet%s%s%s",
		       last->running ? "; it is running" : "", undone, why);
}

static bool lacks_audit(const struct health_facts *facts, char *message)
{
	return facts->audit && SAY("%s", facts->audit);
}

static bool lacks_journal(const struct health_facts *facts, char *message)
{
	return facts->journal_error != 0 &&
	       SAY("the journal of keys cannot be written (%s): calls with a key are refused; look "
		   "at the disk of the state directory",
		       strerror(facts->journal_error));
}

static bool lacks_disk(const struct health_facts *facts, char *message)
{
	const struct headroom_view *room = facts->room;

	if (!room || !room->has_state)
		return false;
	if (room->state_age_ms > LIMIT_HEADROOM_SILENT_MS)
		return SAY("the file system of the state directory has not answered for %lld s",
			(long long)room->state_age_ms / 1000);
	if (!room->state_known)
		return false;
	if (room->state_error != 0)
		return SAY(
			"the file system of the state directory: %s", strerror(room->state_error));
	if (facts->state_free_min > 0 && room->state_free < facts->state_free_min)
		return SAY("the file system of the state directory has %llu MiB left, and "
			   "state_free_min is %llu MiB: remove workspaces, or give it more room",
			(unsigned long long)(room->state_free / MIB),
			(unsigned long long)(facts->state_free_min / MIB));
	return headroom_lacks_files(room, facts->state_files_min) &&
	       SAY("the file system of the state directory can have only %llu more files, and "
		   "state_files_min is %llu: remove workspaces, or give it more",
		       (unsigned long long)room->state_files_free,
		       (unsigned long long)facts->state_files_min);
}

static bool lacks_memory(const struct health_facts *facts, char *message)
{
	const struct headroom_view *room = facts->room;

	return room && room->memory_known && room->memory_free < facts->memory_free_min &&
	       SAY("%llu MiB of memory are left, and memory_free_min is %llu MiB",
		       (unsigned long long)(room->memory_free / MIB),
		       (unsigned long long)(facts->memory_free_min / MIB));
}

/*
 * One that fails alone may be due to its workspace. After a while it is not held against the host,
 * which may get no further openings as long as it is called unhealthy.
 */
static bool lacks_openings(const struct health_facts *facts, char *message)
{
	return facts->unmade >= LIMIT_HEALTH_OPENINGS &&
	       facts->unmade_age_ms < LIMIT_HEALTH_OPENINGS_MS &&
	       SAY("the last %u openings of workspaces failed. The last one: %s", facts->unmade,
		       facts->unmade_why);
}

/*
 * The kernel or a disk is stuck. One workspace may be stuck because of its own directory's file
 * system, and so may all of one tenant, who would take the host from the others.
 */
static bool holds_processes(const struct health_facts *facts, char *message)
{
	return facts->held >= LIMIT_HEALTH_HELD && facts->held_by_several &&
	       SAY("the kernel does not let go of killed processes of %llu workspaces "
		   "(cloisterctl workspaces). One of them: %s",
		       (unsigned long long)facts->held, facts->held_why);
}

static bool resource_is_full(const struct health_facts *facts, enum health_slot slot)
{
	return facts->slots[slot].used >= facts->slots[slot].limit;
}

static bool lacks_workspaces(const struct health_facts *facts, char *message)
{
	return resource_is_full(facts, HEALTH_SLOT_WORKSPACES) &&
	       SAY("as many workspaces are in use as the tenants, or the limit of open "
		   "files, allow");
}

static bool lacks_commands(const struct health_facts *facts, char *message)
{
	if (!resource_is_full(facts, HEALTH_SLOT_COMMANDS))
		return false;
	if (facts->old_daemon_commands > 0)
		return SAY("as many commands run as may (commands), %llu of them under the "
			   "cloisterd that this one replaces; further ones wait",
			(unsigned long long)facts->old_daemon_commands);
	return SAY("as many commands run as may (commands); further ones wait");
}

static bool lacks_connections(const struct health_facts *facts, char *message)
{
	return resource_is_full(facts, HEALTH_SLOT_CONNECTIONS) &&
	       SAY("there are as many connections as may be (connections)");
}

static const struct {
	const char *name;
	judge holds;
} reasons[HEALTH_REASONS] = {
	[HEALTH_SHUTTING_DOWN] = {"shutting_down", is_shutting_down},
	[HEALTH_DRAINING] = {"draining", is_draining},
	[HEALTH_SELFTEST] = {"selftest", has_failed},
	[HEALTH_AUDIT] = {"audit", lacks_audit},
	[HEALTH_JOURNAL] = {"journal", lacks_journal},
	[HEALTH_DISK] = {"disk", lacks_disk},
	[HEALTH_MEMORY] = {"memory", lacks_memory},
	[HEALTH_OPENINGS] = {"openings", lacks_openings},
	[HEALTH_HELD] = {"held", holds_processes},
	[HEALTH_WORKSPACES] = {"workspaces", lacks_workspaces},
	[HEALTH_COMMANDS] = {"commands", lacks_commands},
	[HEALTH_CONNECTIONS] = {"connections", lacks_connections},
};

const char *health_reason_name(enum health_reason reason)
{
	return reasons[reason].name;
}

const char *health_slot_name(enum health_slot slot)
{
	return reasons[HEALTH_WORKSPACES + slot].name;
}

void health_judge(const struct health_facts *facts,
	void (*take)(void *context, enum health_reason reason, const char *message), void *context)
{
	char message[MESSAGE_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].holds(facts, message))
			take(context, (enum health_reason)i, message);
}
