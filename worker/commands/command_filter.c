// SPDX-License-Identifier: Apache-2.0
/* cloister-worker, once, at the end of its set-up. */
#include "worker/commands/command_filter.h"

#include "commands_filters.h"
#include "common/cleanup.h"
#include "worker/filter.h"
#include "worker/filters/filter_pass.h"

#include <errno.h>
#include <sys/random.h>

/* The filter with @pass where the compiled one has what stands for it. */
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
	/* A filter that anybody could pass, or that nobody could, must not be. */
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
	/* The order is part of what they say: worker/filters/filters.h. */
	r = install_with_pass(pass);
	if (r == 0)
		r = filter_install(commands_refused, ARRAY_SIZE(commands_refused));
	if (r == 0)
		r = filter_install(commands_known, ARRAY_SIZE(commands_known));
	if (r == 0)
		*ret_pass = pass;
	return r;
}
