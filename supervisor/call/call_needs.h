/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The resources of a call: its time, and its class in its workspace. */

#include "supervisor/workspace/workspace_calls.h"

#include <stdbool.h>
#include <stdint.h>

struct call_request;

/** Returns the time after its admission at which a call like @request is ended, in milliseconds. */
int64_t call_timeout_ms(const struct call_request *request);

/** Returns its class, which bounds how many run at once in a workspace. */
enum call_class call_class(const struct call_request *request);

/** Whether the scheduler schedules it (scheduler.h), so that it may have to wait for others. */
bool call_is_scheduled(const struct call_request *request);
