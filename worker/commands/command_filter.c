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
static int install_with_cookie(const struct sock_filter *compiled, size_t n, unsigned calls,
	uint64_t cookie, int *ret_listener)
{
	struct sock_filter program[ARRAY_SIZE(commands_inside)];
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
	return filter_install_listening(program, n, ret_listener);
}

int command_filter_install(unsigned which, uint64_t *ret_cookie, int *ret_listener)
{
	static const struct {
		const struct sock_filter *compiled;
		size_t n;
		unsigned calls;
	} filters[COMMAND_FILTERS] = {
		{commands_plain, ARRAY_SIZE(commands_plain), FILTER_COOKIE_CALLS},
		[COMMAND_FILTER_INSIDE] = {commands_inside, ARRAY_SIZE(commands_inside),
			FILTER_COOKIE_CALLS + 1},
		[COMMAND_FILTER_NESTING] = {commands_nesting, ARRAY_SIZE(commands_nesting),
			FILTER_COOKIE_CALLS},
		[COMMAND_FILTER_INSIDE | COMMAND_FILTER_NESTING] = {commands_inside_nesting,
			ARRAY_SIZE(commands_inside_nesting), FILTER_COOKIE_CALLS + 1},
	};
	uint64_t cookie;
	int r;

	if (which >= COMMAND_FILTERS)
		return -EINVAL;
	if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
		return -EIO;
	r = install_with_cookie(filters[which].compiled, filters[which].n, filters[which].calls,
		cookie, ret_listener);
	if (r == 0)
		*ret_cookie = cookie;
	return r;
}
