/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints the results of the control socket's methods for people on stdout. */

#include <stdbool.h>

struct json_object;

void print_status(struct json_object *result);
void print_workspaces(struct json_object *result);
void print_sessions(struct json_object *result);
void print_calls(struct json_object *result);
void print_tenants(struct json_object *result);
void print_templates(struct json_object *result);
void print_template(struct json_object *result);
void print_shown(struct json_object *result);
void print_doctor(struct json_object *result);
void print_metrics(struct json_object *result);
void print_killed(struct json_object *result);
void print_draining(struct json_object *result);
void print_reloaded(struct json_object *result);
/* The probes that failed, or all of them; and a summary. */
void print_selftest(struct json_object *result);
void print_selftest_all(struct json_object *result);

void print_denials(struct json_object *result);
/**
 * Prints an event about a refused host; with @json as JSON. Other events, and events of another
 * tenant than @tenant (NULL: any), are omitted. If events were lost, it says how many.
 */
void print_denial_event(struct json_object *event, const char *tenant, bool json);

bool selftest_has_passed(struct json_object *result);
