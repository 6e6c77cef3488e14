/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints which connections commands were refused: the recent ones as a table, new ones by line. */

#include <stdbool.h>

struct json_object;

/** The result of the method denials. */
void print_denials(struct json_object *result);

/**
 * Prints an event about a refused host; with @json as JSON. Other events, and events of another
 * tenant than @tenant (NULL: any), are omitted. If events were lost, it says how many.
 */
void print_denial_event(struct json_object *event, const char *tenant, bool json);
