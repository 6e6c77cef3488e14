/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The old cloisterd's side of a take-over by another process of the same user on the same host
 * (new_daemon.h). It sends its sockets and all shared state, and ends when its calls and sessions
 * have ended.
 *
 *               ASK comes          nothing to wait for   READY comes   it is gone   too long
 *   SERVING     ASKED              (is not asked)        ends the talk SERVING      (no bound)
 *   ASKED       refuses it         SETTLING              ends the talk SERVING      SERVING
 *   SETTLING    refuses it         GIVEN                 ends the talk SERVING      ASKED, SERVING
 *   GIVEN       refuses it         (it is)               RETIRED       SERVING      SERVING
 *   RETIRED     (not heard)        (it is)               ends all      ends all     ends all
 *
 * What may last, because it waits for a tenant's commands, is waited for while ASKED, when all are
 * served and only a self-test does not begin. From SETTLING on, calls begin only where others run,
 * no client is accepted, and nothing begins to be opened, removed or copied, so that two
 * generations never do that at once. If not all has settled after a short while, it goes back once
 * to wait and serve. Work that a hung file system may delay goes on: look-ups and openings of
 * directories, which share nothing, and copies for templates and forks, each of which has an
 * unfinished tree and, from its beginning, its id. A workspace that is copied is not released, and
 * the new daemon removes no template meanwhile. The journal of keys and the audit log rest: their
 * files belong to the new daemon from GIVEN on, and to nobody if the connection ends, so that this
 * process opens them again.
 *
 * When RETIRED, a workspace is released as soon as no call is in it and its cell is gone; the
 * new daemon opens none before that. Records go through the new daemon. If the new daemon ends,
 * this process ends too: the new daemon has the state, and the next cloisterd must be alone with
 * it.
 */

#include <stdbool.h>

struct daemon;
struct old_daemon;

/**
 * Makes the socket for the next generation in the state directory @state, or takes that which the
 * generation before has given. Call it with the state's lock, before lock-down. Returns 0 or
 * -errno.
 */
int old_daemon_new(struct daemon *daemon, int state, struct old_daemon **ret);

/** Begins to listen to the next generation. Returns 0 or -errno. */
int old_daemon_start(struct old_daemon *old_daemon);

/** Whether another generation serves. NULL is allowed: none does. */
bool old_daemon_has_retired(const struct old_daemon *old_daemon);

/** Sends the remaining messages, and ends. Call it last. NULL is allowed. */
void old_daemon_free(struct old_daemon *old_daemon);
