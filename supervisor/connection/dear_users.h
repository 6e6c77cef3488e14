/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Users whose connections made the system calls of cloisterd's loop expensive (common/wake_cost.h).
 * For a while cloisterd accepts no other connection of theirs, and ends their open ones at the
 * first expensive call. A client needs seconds of CPU time to make a connection expensive, but can
 * prepare many.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer_credentials;
struct service;
struct tenant;

/**
 * A connection of @peer, which counts for @tenant (NULL: none), is ended because its calls were
 * expensive. Refuses the user for LIMIT_DEAR_USER_MS from now on, or, if that was so lately, for
 * twice as long as the last time.
 */
void dear_user_add(const struct peer_credentials *peer, struct tenant *tenant);

/**
 * Closes the connection @fd of such a user, which the loop does not touch. With @answer the client
 * first gets BUSY.
 */
void dear_user_close(struct service *service, const struct peer_credentials *peer,
	const struct tenant *tenant, int fd, bool answer);

/** Returns for how many more milliseconds @uid is refused; 0: it is not. */
int64_t dear_user_left_ms(uid_t uid);
