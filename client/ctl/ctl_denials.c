// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl. Hosts and names come from the programs of workspaces and are not trusted.
 */
#include "client/ctl/ctl_denials.h"

#include "client/arguments.h"
#include "client/complain.h"
#include "client/ctl/ctl_table.h"
#include "client/fields.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *word(struct json_object *object, const char *name)
{
	return field(object, name) ? field_text(object, name) : "-";
}

/* Writes "HOST:PORT", an IPv6 address in brackets. */
static void show_target(struct json_object *denial, char *target, size_t size)
{
	const char *host = word(denial, "host");

	snprintf(target, size, strchr(host, ':') ? "[%s]:%lld" : "%s:%lld", host,
		field_number(denial, "port"));
}

void print_denials(struct json_object *result)
{
	static const struct ctl_column columns[] = {
		{"target", "HOST:PORT", CTL_TEXT},
		{"reason", "REASON", CTL_TEXT},
		{"count", "COUNT", CTL_NUMBER},
		{"tenant", "TENANT", CTL_TEXT},
		{"workspace", "WORKSPACE", CTL_TEXT},
		{"call", "CALL", CTL_TEXT},
		{"age_ms", "AGO", CTL_DURATION},
		{NULL, NULL, CTL_TEXT},
	};
	struct json_object *denials = field(result, "denials");
	char target[512];

	for (size_t i = 0; i < elements(denials); i++) {
		struct json_object *denial = element(denials, i);

		if (!json_object_is_type(denial, json_type_object))
			continue;
		show_target(denial, target, sizeof(target));
		json_put(denial, "target", json_object_new_string(target));
	}
	ctl_table(denials, columns);
	if (field_number(result, "denials_omitted") > 0)
		complain("%lld more were left out; ask for one tenant with --tenant",
			field_number(result, "denials_omitted"));
}

static void print_line(struct json_object *event)
{
	time_t seconds = (time_t)(field_number(event, "time_ms") / 1000);
	char target[512], when[32];
	struct tm parts;

	show_target(event, target, sizeof(target));
	if (!localtime_r(&seconds, &parts) ||
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts) == 0)
		snprintf(when, sizeof(when), "%lld", (long long)seconds);
	show("%s  %s  %s  %s  %s  %s\n", target, word(event, "reason"), word(event, "tenant"),
		word(event, "workspace"), word(event, "call"), when);
}

void print_denial_event(struct json_object *event, const char *tenant, bool json)
{
	bool is_missed = field_is(event, "event", "missed");

	if (!is_missed && (strcmp(word(event, "event"), "network_denied") != 0 ||
				  strcmp(word(event, "reason"), "proxy_lost") == 0 ||
				  (tenant && strcmp(word(event, "tenant"), tenant) != 0)))
		return;
	if (json) {
		terminal_put_json(json_object_to_json_string_ext(event, JSON_C_TO_STRING_SPACED));
		return;
	}
	if (is_missed) {
		complain("%lld events were lost, because they are read too slowly",
			field_number(event, "count"));
		return;
	}
	if (field_number(event, "untold") > 0)
		complain("%lld refusals of the tenant %s had no line",
			field_number(event, "untold"), word(event, "tenant"));
	print_line(event);
}
