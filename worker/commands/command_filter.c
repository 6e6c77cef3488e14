// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker, once, at the end of its set-up. */
#include "worker/commands/command_filter.h"

#include "commands_filters.h"
#include "common/cleanup.h"
#include "worker/filter.h"
#include "worker/filters/filter_cookie.h"

#include <errno.h>
#include <sys/random.h>

/* Installs a compiled filter after replacing its placeholder, in @calls rules, by @cookie. */
static int install_with_cookie(
	const struct sock_filter *compiled, size_t n, unsigned calls, uint64_t cookie)
{
	struct sock_filter program[ARRAY_SIZE(commands_allowed_inside)];
	unsigned halves[2] = {0};

	if (n > ARRAY_SIZE(program))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		program[i] = compiled[i];
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
	if (halves[0] < calls || halves[1] < calls)
		return -EINVAL;
	return filter_install(program, n);
}

int command_filter_install(bool root_inside, uint64_t *ret_cookie)
{
	uint64_t cookie;
	int r;

	if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
		return -EIO;
	/* worker/filters/filters.h explains the order. */
	r = root_inside
		    ? install_with_cookie(commands_allowed_inside,
			      ARRAY_SIZE(commands_allowed_inside), FILTER_COOKIE_CALLS + 1, cookie)
		    : install_with_cookie(commands_allowed, ARRAY_SIZE(commands_allowed),
			      FILTER_COOKIE_CALLS, cookie);
	if (r == 0)
		r = filter_install(commands_refused, ARRAY_SIZE(commands_refused));
	if (r == 0)
		r = filter_install(commands_known, ARRAY_SIZE(commands_known));
	if (r == 0)
		*ret_cookie = cookie;
	return r;
}
