/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a call needs: its time, and its slot in its workspace. */

#include "supervisor/workspace/workspace.h"

#include <stdbool.h>
#include <stdint.h>

struct call_request;

/** After how long, from its admission, a call like @request is ended, in milliseconds. */
int64_t call_timeout_ms(const struct call_request *request);

/** Which slot it takes. */
enum workspace_slot call_slot(const struct call_request *request);

/** Whether it has a scheduling class (scheduler.h): it may have to wait for others. */
bool call_is_scheduled(const struct call_request *request);
