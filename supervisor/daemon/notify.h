/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the service manager is told: sd_notify(3), the protocol of which is one datagram of
 * assignments, written here so that cloisterd does not need libsystemd. Without $NOTIFY_SOCKET
 * every function does nothing.
 */

#include "supervisor/call/service.h"

/** Connects to $NOTIFY_SOCKET and reads $WATCHDOG_USEC, and takes them out of the environment.
 * Before lock-down. 0, or -errno when there is one and it cannot be connected. */
int notify_open(void);

/** Says that the service is ready, and from now on from the loop how it is: STATUS when it changes,
 * and, where the manager watches, that the loop turns. */
void notify_start(struct service *service);

void notify_reloading(void);
void notify_ready(void);
/** It may take @within_ms, and a service manager that would wait less waits so long. */
void notify_stopping(uint64_t within_ms);

void notify_close(void);
