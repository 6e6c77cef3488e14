/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ending in order: on SIGTERM or SIGINT nothing new is begun, calls in flight are ended and
 * answered, and the loop stops within a bound. SIGTERM leaves them the configuration's drain_time
 * before; a second signal does not. */

#include "supervisor/call/service.h"

struct shutdown;

/** Takes over SIGTERM and SIGINT. NULL: out of memory. */
struct shutdown *shutdown_new(struct service *service);
/** Ends all calls now. */
void shutdown_begin(struct shutdown *shutdown);
void shutdown_free(struct shutdown *shutdown);
