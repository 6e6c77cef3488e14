// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker, once, at the end of its set-up. */
#include "worker/commands/command_filter.h"

#include "commands_filters.h"
#include "common/cleanup.h"
#include "worker/filter.h"
#include "worker/filters/filter_cookie.h"

#include <errno.h>
#include <sys/random.h>

/* Installs the compiled filter after replacing its placeholder by @cookie. */
static int install_with_cookie(uint64_t cookie)
{
	struct sock_filter program[ARRAY_SIZE(commands_allowed)];
	unsigned halves[2] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(program); i++) {
		program[i] = commands_allowed[i];
		if (program[i].k == FILTER_COOKIE_HIGH) {
			program[i].k = (uint32_t)(cookie >> 32);
			halves[0]++;
		} else if (program[i].k == FILTER_COOKIE_LOW) {
			program[i].k = (uint32_t)cookie;
			halves[1]++;
		}
	}
	/*
	 * The placeholder must have been found: otherwise every process, or none, could make the
	 * guarded calls.
	 */
	if (halves[0] < FILTER_COOKIE_CALLS || halves[1] < FILTER_COOKIE_CALLS)
		return -EINVAL;
	return filter_install(program, ARRAY_SIZE(program));
}

int command_filter_install(uint64_t *ret_cookie)
{
	uint64_t cookie;
	int r;

	if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
		return -EIO;
	/* worker/filters/filters.h explains the order. */
	r = install_with_cookie(cookie);
	if (r == 0)
		r = filter_install(commands_refused, ARRAY_SIZE(commands_refused));
	if (r == 0)
		r = filter_install(commands_known, ARRAY_SIZE(commands_known));
	if (r == 0)
		*ret_cookie = cookie;
	return r;
}
