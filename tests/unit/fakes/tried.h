/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A self-test whose canaries answer as they must, but for one probe of the test's choice. */

#include "supervisor/selftest/selftest.h"
#include "tests/unit/fakes/service.h"

struct audit;

struct tried {
	struct fake_service *fake;
	bool has_root_inside; /* a tenant */
	struct audit *audit;  /* of the test; freed at its end */
	unsigned ended;       /* runs since tried_end_run() */
	/* the probe that gets an unexpected answer, and that answer */
	const char *wrong_probe, *wrong_answer;
};

extern struct tried tried;

struct tried_look {
	const char *name, *outcome;
	char answer[64];
};

/* For cmocka. */
int tried_set_up(void **state);
int tried_set_up_network(void **state);
int tried_set_up_root_inside(void **state);
int tried_set_up_required(void **state);
int tried_tear_down(void **state);

/** Lets time pass until the run has ended. */
struct selftest_summary tried_end_run(void);

/** Finds the result of the probe @name. */
struct tried_look tried_result(const char *name);

/** What a canary prints for @command, as fake_answers has it. */
const char *tried_command(const char *command);
