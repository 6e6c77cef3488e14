/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Which facts make a host unhealthy, and what the reasons say. */
#include "supervisor/control/health.h"

#include "supervisor/host/headroom.h"
#include "supervisor/selftest/selftest.h"
#include "tests/lib/unit.h"

/* The reasons that were given, each followed by a space, and the last message. */
struct said {
	char reasons[256], message[400];
};

static void take(void *context, enum health_reason reason, const char *message)
{
	struct said *said = context;
	size_t len = strlen(said->reasons);

	snprintf(said->reasons + len, sizeof(said->reasons) - len, "%s ",
		health_reason_name(reason));
	snprintf(said->message, sizeof(said->message), "%s", message);
}

static const struct selftest_summary
	never = {.state = SELFTEST_NEVER},
	running = {.state = SELFTEST_NEVER, .running = true},
	needed = {.state = SELFTEST_NEVER, .required = true},
	needed_runs = {.state = SELFTEST_NEVER, .required = true, .running = true},
	passed = {.state = SELFTEST_PASSED, .required = true}, failed = {.state = SELFTEST_FAILED},
	hindered = {.state = SELFTEST_PASSED, .required = true, .obstacle = "set-up: NO_SPACE"},
	needed_hindered = {.state = SELFTEST_NEVER,
		.required = true,
		.obstacle = "set-up: NO_SPACE"},
	failed_hindered = {.state = SELFTEST_FAILED, .obstacle = "set-up: NO_SPACE"};

#define ROOM                                                                               \
	.has_state = true, .state_known = true, .state_free = GIB, .state_size = 10 * GIB, \
	.state_files_free = 100, .memory_known = true, .memory_free = GIB, .memory_size = 2 * GIB

static const struct headroom_view room = {ROOM},
				  no_state = {.memory_known = true, .memory_free = GIB},
				  not_yet = {.has_state = true,
					  .state_age_ms = LIMIT_HEADROOM_SILENT_MS},
				  silent = {.has_state = true,
					  .state_age_ms = LIMIT_HEADROOM_SILENT_MS + 1},
				  broken = {.has_state = true,
					  .state_known = true,
					  .state_error = EIO},
				  stale = {ROOM, .state_age_ms = LIMIT_HEADROOM_SILENT_MS + 1000};

static struct headroom_view with(uint64_t state_free, uint64_t files, uint64_t memory_free)
{
	struct headroom_view view = room;

	view.state_free = state_free;
	view.state_files_free = files;
	view.state_files = 1000;
	view.memory_free = memory_free;
	return view;
}

static void judged(const struct health_facts *facts, const char *reasons, const char *words)
{
	struct said said = {{0}, {0}};

	health_judge(facts, take, &said);
	assert_string_equal(said.reasons, reasons);
	if (words && !strstr(said.message, words))
		fail_msg("\"%s\" without \"%s\"", said.message, words);
}

#define FREE_SLOTS .slots = {{0, 1}, {3, 4}, {5, 512}}

TEST(test_each_fact)
{
	const struct headroom_view small = with(GIB - 1, 100, GIB), filled = with(GIB, 9, GIB),
				   uncounted = with(GIB, UINT64_MAX, GIB), empty = with(0, 0, 0);
	const struct {
		struct health_facts facts;
		const char *reasons, *words;
	} rows[] = {
		{{FREE_SLOTS}, "", NULL},
		{{FREE_SLOTS, .shutting_down = true}, "shutting_down ", "ending"},
		{{FREE_SLOTS, .draining = true}, "draining ", "cloisterctl resume"},
		{{FREE_SLOTS, .selftest = &never}, "", NULL},
		{{FREE_SLOTS, .selftest = &running}, "", NULL},
		{{FREE_SLOTS, .selftest = &needed}, "selftest ", "has not passed yet"},
		{{FREE_SLOTS, .selftest = &needed_runs}, "selftest ", "it is running"},
		{{FREE_SLOTS, .selftest = &passed}, "", NULL},
		{{FREE_SLOTS, .selftest = &failed}, "selftest ", "failed"},
		{{FREE_SLOTS, .selftest = &hindered}, "", NULL},
		{{FREE_SLOTS, .selftest = &needed_hindered}, "selftest ",
			"has not passed yet; the last attempt was not done: set-up: NO_SPACE"},
		{{FREE_SLOTS, .selftest = &failed_hindered}, "selftest ",
			"the last attempt was not done: set-up: NO_SPACE"},
		{{FREE_SLOTS, .audit = "no disk"}, "audit ", "no disk"},
		{{FREE_SLOTS, .journal_error = ENOSPC}, "journal ", "No space left"},
		{{FREE_SLOTS, .room = &room, .state_free_min = GIB, .memory_free_min = GIB}, "",
			NULL},
		{{FREE_SLOTS, .room = &small, .state_free_min = GIB}, "disk ", "1023 MiB left"},
		{{FREE_SLOTS, .room = &filled, .state_files_min = 10}, "disk ",
			"can have only 9 more files"},
		/* The file system has too few for the key: a twentieth of them is kept free. */
		{{FREE_SLOTS, .room = &filled, .state_files_min = 10000}, "disk ", NULL},
		{{FREE_SLOTS, .room = &small, .state_files_min = 10000}, "", NULL},
		{{FREE_SLOTS, .room = &filled, .state_files_min = 9}, "", NULL},
		{{FREE_SLOTS, .room = &filled}, "", NULL},
		{{FREE_SLOTS, .room = &uncounted, .state_free_min = GIB}, "", NULL},
		{{FREE_SLOTS, .room = &empty}, "", NULL}, /* both keys are 0 */
		{{FREE_SLOTS, .room = &no_state, .state_free_min = GIB}, "", NULL},
		{{FREE_SLOTS, .room = &not_yet, .state_free_min = GIB}, "", NULL},
		{{FREE_SLOTS, .room = &silent}, "disk ", "not answered for 20 s"},
		{{FREE_SLOTS, .room = &stale}, "disk ", "not answered for 21 s"},
		{{FREE_SLOTS, .room = &broken}, "disk ", "Input/output error"},
		{{FREE_SLOTS, .room = &room, .memory_free_min = GIB + MIB}, "memory ",
			"1024 MiB of memory are left, and memory_free_min is 1025 MiB"},
		{{FREE_SLOTS, .unmade = 2, .unmade_age_ms = 1, .unmade_why = "why"}, "", NULL},
		{{FREE_SLOTS, .unmade = 3, .unmade_age_ms = 1, .unmade_why = "why"}, "openings ",
			"the last 3 openings of workspaces failed. The last one: why"},
		{{FREE_SLOTS, .unmade = 3, .unmade_age_ms = 60000, .unmade_why = "why"}, "", NULL},
		{{FREE_SLOTS, .held = 1, .held_by_several = true, .held_why = "why"}, "", NULL},
		{{FREE_SLOTS, .held = 9, .held_why = "why"}, "", NULL}, /* of one tenant */
		{{FREE_SLOTS, .held = 2, .held_by_several = true, .held_why = "why"}, "held ",
			"killed processes of 2 workspaces (cloisterctl workspaces). One of them: "
			"why"},
		{{.slots = {{1, 1}, {0, 1}, {0, 1}}}, "workspaces ", NULL},
		{{.slots = {{0, 1}, {5, 4}, {0, 1}}}, "commands ", "(commands); further ones wait"},
		{{.slots = {{0, 1}, {5, 4}, {0, 1}}, .old_daemon_commands = 3}, "commands ",
			"3 of them under the cloisterd that this one replaces"},
		{{.slots = {{0, 1}, {3, 4}, {0, 1}}, .old_daemon_commands = 3}, "", NULL},
		{{.slots = {{0, 1}, {0, 1}, {1, 1}}}, "connections ", NULL},
		{{.shutting_down = true,
			 .draining = true,
			 .selftest = &failed,
			 .audit = "x",
			 .journal_error = EIO,
			 .room = &empty,
			 .state_free_min = 1,
			 .memory_free_min = 1},
			"shutting_down draining selftest audit journal disk memory workspaces "
			"commands connections ",
			NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		judged(&rows[i].facts, rows[i].reasons, rows[i].words);
}

TEST(test_slots_have_the_names_of_their_reasons)
{
	assert_string_equal(health_slot_name(HEALTH_SLOT_WORKSPACES), "workspaces");
	assert_string_equal(health_slot_name(HEALTH_SLOT_COMMANDS), "commands");
	assert_string_equal(health_slot_name(HEALTH_SLOT_CONNECTIONS), "connections");
}
