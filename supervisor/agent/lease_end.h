/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ends a managed workspace whose lease has ended (managed/leases.h). Its calls and sessions are
 * ended with LEASE_ENDED, waiting openings are answered LEASE_ENDED, and connections no longer have
 * it open. When nothing runs in it any more, it is closed or removed.
 *
 * After a take-over the old generation ends only what runs in the old generation; the new one does
 * the rest.
 */

struct service;

/** From here on, leases end. */
void lease_end_begin(struct service *service);

/** The service stops: the next cloisterd goes on with leases that have ended. */
void lease_end_free_all(void);
