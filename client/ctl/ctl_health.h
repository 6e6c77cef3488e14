/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints the result of the method health on stdout. */

#include <stdbool.h>

struct json_object;

/* For people. */
void print_health(struct json_object *result);

/**
 * One line for agent-check of HAProxy (its configuration manual, section 5.2): "ready up N%", where
 * N is the share of the slots that are free, of the kind with the fewest; "drain" if the host goes
 * on with what it has and takes nothing new; otherwise "down" with the reasons. NULL: nobody
 * answered.
 */
void print_agent_check(struct json_object *result);

/** With @ignore_full a host whose only fault is that it is full counts as healthy. */
bool health_is_good(struct json_object *result, bool ignore_full);
