/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct channel;
struct helper_process;
struct spawner_start;

/**
 * Starts cloister-spawner, and waits until it is in its namespaces and, in system mode, has been
 * given its ids. For spawner_link.c. Returns 0 or -errno; @ret_message is then NULL or a sentence
 * that says more, to be freed. @ret_process and @ret_channel, which are initialized, are the
 * caller's in each case.
 */
int spawner_begin(const struct spawner_start *start, struct helper_process *ret_process,
	struct channel *ret_channel, char **ret_message);
