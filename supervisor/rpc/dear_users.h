/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Users whose connections made the system calls of cloisterd's loop dear (common/wake_cost.h). For
 * a while cloisterd accepts no other connection of theirs, and ends those that they have at the
 * first dear call: making a connection dear takes its client seconds of CPU time, but a client can
 * prepare many.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer_credentials;
struct service;
struct tenant;

/**
 * A connection of @peer, which counts for @tenant (NULL: none), is ended for what it cost. Refuses
 * the user for LIMIT_DEAR_USER_MS from now on, or, if that was so lately, for twice as long as the
 * last time.
 */
void dear_user_add(const struct peer_credentials *peer, struct tenant *tenant);

/**
 * Closes the connection @fd of such a user, which the loop does not touch. With @answer the client
 * is told BUSY before.
 */
void dear_user_close(struct service *service, const struct peer_credentials *peer,
	const struct tenant *tenant, int fd, bool answer);

/** Returns for how many more milliseconds @uid is refused; 0: it is not. */
int64_t dear_user_left_ms(uid_t uid);
