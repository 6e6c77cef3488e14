// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker, once, at the end of its set-up. */
#include "worker/commands/command_filter.h"

#include "commands_filters.h"
#include "common/cleanup.h"
#include "worker/filter.h"
#include "worker/filters/filter_pass.h"

#include <errno.h>
#include <sys/random.h>

/* Installs the compiled filter after replacing its placeholder by @pass. */
static int install_with_pass(uint64_t pass)
{
	struct sock_filter program[ARRAY_SIZE(commands_allowed)];
	unsigned halves[2] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(program); i++) {
		program[i] = commands_allowed[i];
		if (program[i].k == FILTER_PASS_HIGH) {
			program[i].k = (uint32_t)(pass >> 32);
			halves[0]++;
		} else if (program[i].k == FILTER_PASS_LOW) {
			program[i].k = (uint32_t)pass;
			halves[1]++;
		}
	}
	/*
	 * The placeholder must have been found: otherwise every process, or none, could make the
	 * guarded calls.
	 */
	if (halves[0] < FILTER_PASS_CALLS || halves[1] < FILTER_PASS_CALLS)
		return -EINVAL;
	return filter_install(program, ARRAY_SIZE(program));
}

int command_filter_install(uint64_t *ret_pass)
{
	uint64_t pass;
	int r;

	if (getrandom(&pass, sizeof(pass), 0) != sizeof(pass))
		return -EIO;
	/* worker/filters/filters.h explains the order. */
	r = install_with_pass(pass);
	if (r == 0)
		r = filter_install(commands_refused, ARRAY_SIZE(commands_refused));
	if (r == 0)
		r = filter_install(commands_known, ARRAY_SIZE(commands_known));
	if (r == 0)
		*ret_pass = pass;
	return r;
}
