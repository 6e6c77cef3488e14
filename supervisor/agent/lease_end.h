/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What happens when the lease of a managed workspace ends (managed/leases.h). Its calls and
 * sessions are ended, with LEASE_ENDED; openings that wait are answered so; connections have it
 * open no more. When nothing runs there any more, it is closed, or removed.
 *
 * A generation that another one has replaced ends only what runs in it; the other one does the
 * rest.
 */

struct service;

/** From here on, leases end. */
void lease_end_begin(struct service *service);

/** The service stops: the next cloisterd goes on with leases that have ended. */
void lease_end_free_all(void);
