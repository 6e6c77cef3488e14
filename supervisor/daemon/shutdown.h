/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Orderly shutdown. On SIGTERM or SIGINT no new call begins, calls in flight are ended and
 * answered, and the loop stops within a bound. SIGTERM first leaves calls the configuration's
 * drain_time; a second signal ends that.
 */

#include "supervisor/call/service.h"

struct shutdown;

/** Handles SIGTERM and SIGINT. Returns NULL if memory is out. */
struct shutdown *shutdown_new(struct service *service);
/** Ends all calls now. */
void shutdown_begin(struct shutdown *shutdown);
void shutdown_free(struct shutdown *shutdown);
