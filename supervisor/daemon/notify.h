/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notifies the service manager by sd_notify(3). The protocol is one datagram of assignments; it is
 * written here so that cloisterd does not need libsystemd. Without $NOTIFY_SOCKET every function
 * does nothing.
 */

#include "supervisor/call/service.h"

/**
 * Connects to $NOTIFY_SOCKET, reads $WATCHDOG_USEC, and removes both from the environment. Call it
 * before lock-down. Returns 0, or -errno if there is a socket and connecting fails.
 */
int notify_open(void);

/**
 * Says that the service is ready. From then on the loop sends STATUS when it changes and, if there
 * is a watchdog, a sign of life.
 */
void notify_start(struct service *service);

void notify_reloading(void);
void notify_ready(void);
/**
 * Says that the service stops and may take @within_ms. This extends the manager's own timeout if
 * that is shorter.
 */
void notify_stopping(uint64_t within_ms);

/**
 * Says that the service's main process is @pid from now on, which gives the signs of life. It is
 * the last message.
 */
void notify_main_process(pid_t pid);

/**
 * The interval of the manager's watchdog, which only the main process is told; 0: there is none.
 */
uint64_t notify_watchdog_us(void);
void notify_set_watchdog(uint64_t us);

void notify_close(void);
