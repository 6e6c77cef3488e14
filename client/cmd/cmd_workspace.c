// SPDX-License-Identifier: Apache-2.0
/*
 * cloister workspace: lists the workspaces of the caller's tenants; measures, creates and removes
 * managed ones. Names and roots come from other clients and are escaped for a terminal.
 */
#include "client/amount.h"
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/cmd/properties.h"
#include "client/fields.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "client/transfer/transfer.h"
#include "common/cleanup.h"
#include "common/monotonic.h"

#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define AGE_BYTES       24
#define MEASURE_ALL_MS  3000 /* how long a list may wait for sizes */
#define MEASURE_LOOK_MS 5
#define TIME_FORMAT     "%Y-%m-%dT%H:%M:%SZ" /* RFC 3339, UTC */

struct printed_row {
	const char *name, *kind, *tenant, *in_use, *age, *size;
};

static void print_row(const struct printed_row *row)
{
	show("%-9s  %-6s  %4s  %6s  %-12s  %s\n", row->kind, row->in_use, row->age, row->size,
		row->tenant, row->name);
}

/* Writes how long ago @created was, such as "5m", or "-" if that is not known. */
static const char *age_of(const char *created, char buffer[AGE_BYTES])
{
	static const struct {
		time_t seconds;
		char name;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	struct tm tm = {0};
	time_t age;
	size_t i = 0;

	if (!strptime(created, TIME_FORMAT, &tm))
		return "-";
	age = time(NULL) - timegm(&tm);
	age = age > 0 ? age : 0; /* the service's clock may be another's */
	while (i + 1 < ARRAY_SIZE(units) && age < units[i].seconds)
		i++;
	snprintf(buffer, AGE_BYTES, "%lld%c", (long long)(age / units[i].seconds), units[i].name);
	return buffer;
}

/* Returns -1 if the service has not measured it. */
static long long size_of(struct json_object *row)
{
	return field(row, "bytes") ? field_number(row, "bytes") : -1;
}

static const char *in_use(struct json_object *row)
{
	return field_is(row, "open", "true") ? "yes" : "no";
}

static void print_list(struct json_object *result)
{
	struct json_object *rows = field(result, "workspaces");

	print_row(&(struct printed_row){"WORKSPACE", "KIND", "TENANT", "IN USE", "AGE", "SIZE"});
	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);
		char age[AGE_BYTES], size[AMOUNT_BYTES];

		print_row(&(struct printed_row){field_text(row, "workspace"),
			field_text(row, "kind"), field_text(row, "tenant"), in_use(row),
			age_of(field_text(row, "created"), age), amount(size_of(row), size)});
	}
}

/* Adds the workspaces of @more to those of @all. Returns the cursor of the rest, or NULL. */
static const char *add_rows(struct json_object *all, struct json_object *more)
{
	struct json_object *rows = field(more, "workspaces");

	for (size_t i = 0; i < elements(rows); i++)
		json_object_array_add(field(all, "workspaces"), json_object_get(element(rows, i)));
	return field(more, "next_cursor") ? field_text(more, "next_cursor") : NULL;
}

/* All workspaces, or those with the labels and in the state that @filter has. */
static int ask_list_of(
	struct session *session, const struct invocation *filter, struct json_object **ret_result)
{
	struct json_object *all = json_object_new_object(), *part = NULL;
	const char *cursor = NULL;
	int status;

	json_put(all, "workspaces", json_object_new_array());
	do {
		struct json_object *params = json_object_new_object();

		if (filter && field(filter->properties, "labels"))
			json_put(params, "labels",
				json_object_get(field(filter->properties, "labels")));
		if (filter && filter->state)
			json_put(params, "state", json_object_new_string(filter->state));
		if (cursor)
			json_put(params, "cursor", json_object_new_string(cursor));
		json_object_put(TAKE_PTR(part));
		status = request_result(session->cloister, "workspace.list", params, &part);
		cursor = status == STATUS_OK ? add_rows(all, part) : NULL;
	} while (cursor);
	json_object_put(part);
	if (status == STATUS_OK)
		*ret_result = all;
	else
		json_object_put(all);
	return status;
}

static int ask_list(struct session *session, struct json_object **ret_result)
{
	return ask_list_of(session, NULL, ret_result);
}

static struct json_object *named(const char *name)
{
	struct json_object *params = json_object_new_object();

	json_put(params, "workspace", json_object_new_string(name));
	return params;
}

/*
 * The managed workspace @name of @tenant, or of any tenant if that is NULL, in the result of
 * workspace.list, borrowed; NULL: it is not there.
 */
static struct json_object *find_row(
	struct json_object *result, const char *name, const char *tenant)
{
	struct json_object *rows = field(result, "workspaces");

	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);

		if (strcmp(field_text(row, "workspace"), name) == 0 &&
			(!tenant || strcmp(field_text(row, "tenant"), tenant) == 0) &&
			strcmp(field_text(row, "kind"), "managed") == 0)
			return row;
	}
	return NULL;
}

static void print_document(struct json_object *document)
{
	terminal_put_json(json_object_to_json_string_ext(document, PRINTED_JSON));
}

/* As request_result() for a workspace of a list, without a complaint. */
static bool try(struct session *session, const char *method, struct json_object *row)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = named(field_text(row, "workspace"));

	json_put(params, "tenant", json_object_new_string(field_text(row, "tenant")));
	if (strcmp(method, "workspace.open") == 0)
		json_put(params, "create", json_object_new_boolean(0));
	return request(session->cloister, method, params, &reply) == 0 && cloister_succeeded(reply);
}

/* Waits until the service has measured @row, which is open, and takes the numbers into it. */
static void await_size(struct session *session, struct json_object *row, uint64_t deadline)
{
	while (monotonic_left_ms(deadline) > 0) {
		static const char *const numbers[] = {"bytes", "files"};
		struct json_object *result = NULL, *measured;
		bool known;

		if (ask_list(session, &result) != STATUS_OK)
			return;
		measured =
			find_row(result, field_text(row, "workspace"), field_text(row, "tenant"));
		known = measured && size_of(measured) >= 0;
		for (size_t i = 0; known && i < ARRAY_SIZE(numbers); i++)
			json_put(row, numbers[i], json_object_get(field(measured, numbers[i])));
		json_object_put(result);
		if (known || !measured)
			return;
		poll(NULL, 0, MEASURE_LOOK_MS);
	}
}

/* The service measures a workspace when it is opened. Those that take too long stay unknown. */
static void measure_client_workspace(struct session *session, struct json_object *result)
{
	struct json_object *rows = field(result, "workspaces");
	uint64_t deadline = monotonic_ms() + MEASURE_ALL_MS;

	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);

		if (size_of(row) >= 0 || strcmp(field_text(row, "kind"), "managed") != 0 ||
			monotonic_left_ms(deadline) <= 0 || !try(session, "workspace.open", row))
			continue;
		await_size(session, row, deadline);
		(void)try(session, "workspace.close", row);
	}
}

static int list(struct session *session, const struct invocation *invocation)
{
	struct json_object *result = NULL;
	int status = ask_list_of(session, invocation, &result);

	if (status == STATUS_OK)
		measure_client_workspace(session, result);
	if (status == STATUS_OK && invocation->json)
		print_document(result);
	else if (status == STATUS_OK)
		print_list(result);
	json_object_put(result);
	return status;
}

/* Asks for @method with the name and the properties, whose result only programs want. */
static int ask_by_name(
	struct session *session, const struct invocation *invocation, const char *method)
{
	struct json_object *result = NULL, *params = named(invocation->argv[1]);
	int status = STATUS_USAGE;

	if (properties_put(invocation, params) == 0)
		status =
			request_result(session->cloister, method, json_object_get(params), &result);
	json_object_put(params);

	if (status == STATUS_OK && invocation->json)
		print_document(result);
	json_object_put(result);
	return status;
}

/* workspace.open takes a workspace that exists too, so that is found out before. */
static int create(struct session *session, const struct invocation *invocation)
{
	struct json_object *result = NULL;
	int status = ask_list(session, &result);

	if (status == STATUS_OK && find_row(result, invocation->argv[1], NULL)) {
		complain("the workspace '%s' exists already", invocation->argv[1]);
		status = STATUS_TOOL_FAILED;
	}
	json_object_put(result);
	return status == STATUS_OK ? ask_by_name(session, invocation, "workspace.open") : status;
}

static int update(struct session *session, const struct invocation *invocation)
{
	return ask_by_name(session, invocation, "workspace.update");
}

static int remove_managed(struct session *session, const struct invocation *invocation)
{
	return ask_by_name(session, invocation, "workspace.remove");
}

/*
 * cloisterd never looks into a workspace, so a command there lists what there is, under the
 * tenant's own limits. A file with several names is counted by each.
 */
static const char count_script[] =
	"find . -prune -printf '' 2>/dev/null ||\n"
	"  { echo 'there is no GNU find in this workspace; info needs one' >&2; exit 127; }\n"
	"find . -mindepth 1 -printf '%y %b %T@\\0'\n";

struct count {
	uint64_t files, bytes;
	time_t changed; /* the latest time of a file; 0: there is none */
};

static int take_count(struct text record, void *context)
{
	struct count *count = context;
	long long blocks, seconds;

	if (sscanf(record.data, "%*c %lld %lld", &blocks, &seconds) != 2 || blocks < 0)
		return 0;
	count->files += record.data[0] != 'd';
	count->bytes += (uint64_t)blocks * 512;
	if (record.data[0] != 'd' && seconds > count->changed)
		count->changed = (time_t)seconds;
	return 0;
}

/* Adds what was counted to the workspace's @row. */
static void add_count(struct json_object *row, const struct count *count)
{
	char changed[32];
	struct tm tm;
	bool known = count->changed > 0 && gmtime_r(&count->changed, &tm) &&
		     strftime(changed, sizeof(changed), TIME_FORMAT, &tm) > 0;

	json_put(row, "bytes", json_object_new_int64((int64_t)count->bytes));
	json_put(row, "files", json_object_new_int64((int64_t)count->files));
	if (known)
		json_put(row, "changed", json_object_new_string(changed));
}

static void print_labels(struct json_object *row)
{
	struct json_object *labels = field(row, "labels"), *lease = field(row, "lease");

	if (labels) {
		json_object_object_foreach (labels, name, value)
			show("%-9s  %s=%s\n", "label", name, json_object_get_string(value));
	}
	if (lease)
		show("%-9s  %s (%s)\n", "lease", field_text(lease, "expires_at"),
			field_text(lease, "at_end"));
}

static void print_info(struct json_object *row)
{
	static const char *const lines[] = {
		"workspace", "tenant", "in use", "created", "changed", "bytes", "files"};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *value =
			strcmp(lines[i], "in use") == 0 ? in_use(row) : field_text(row, lines[i]);
		bool dated = strcmp(lines[i], "created") == 0 || strcmp(lines[i], "changed") == 0;
		char age[AGE_BYTES];

		if (dated)
			show("%-9s  %s (%s)\n", lines[i], *value ? value : "-", age_of(value, age));
		else
			show("%-9s  %s\n", lines[i], value);
	}
	print_labels(row);
}

static int info(struct session *session, const struct invocation *invocation)
{
	struct json_object *result = NULL, *row, *params = named(invocation->argv[1]);
	struct count count = {0};
	struct transfer transfer = transfer_init(invocation, &count);
	int status = ask_list(session, &result);

	row = find_row(result, invocation->argv[1], NULL);
	if (row)
		json_put(params, "tenant", json_object_new_string(field_text(row, "tenant")));
	json_put(params, "create", json_object_new_boolean(0));
	if (status == STATUS_OK)
		status = request_result(
			session->cloister, "workspace.open", json_object_get(params), NULL);
	json_object_put(params);
	transfer.records = take_count;
	if (status == STATUS_OK)
		status = transfer_run(&transfer, session, count_script, "d", ".", NULL, -1);
	if (status == STATUS_OK && row) {
		add_count(row, &count);
		if (invocation->json)
			print_document(row);
		else
			print_info(row);
	}
	json_object_put(result);
	return status;
}

static const struct action {
	const char *name;
	int operands;
	int (*act)(struct session *session, const struct invocation *invocation);
} actions[] = {
	{"list", 0, list},
	{"info", 1, info},
	{"create", 1, create},
	{"update", 1, update},
	{"remove", 1, remove_managed},
};

static int act_on_workspace(const struct action *action, const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};

	if (session_open_service(invocation, false, "has no managed workspaces", &session) < 0)
		return STATUS_NO_SERVICE;
	return action->act(&session, invocation);
}

static int run_workspace(const struct invocation *invocation)
{
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcmp(invocation->argv[0], actions[i].name) == 0 &&
			invocation->argc == actions[i].operands + 1)
			return act_on_workspace(&actions[i], invocation);
	operands_complain(&cloister_program, &command_workspace.help);
	return STATUS_USAGE;
}

static const struct option_row options[] = {
	{"label", "NAME=VALUE", 'B',
		"create, update: a label; list: only those with it; repeatable"},
	{"lease", "DURATION", 'd', "create, update: from now on; then it is closed"},
	{"at-end", "WHAT", 'z', "create, update: at the end of the lease: close or remove"},
	{"env", "NAME=VALUE", 'e', "create, update: a variable of all its commands; repeatable"},
	{"shown-at", "PATH", 'S', "create: where its commands see it; default /workspace"},
	{"clear", "WHAT", 'K', "update: take away its labels, lease or env; repeatable"},
	{"state", "STATE", 'G', "list: only those that are open, or closed"},
	{0},
};

const struct command command_workspace = {
	.help = {"workspace", "list | info NAME | create NAME | update NAME | remove NAME",
		"List workspaces; measure, create, change or delete a managed one with its files.",
		"cloister workspace list", options},
	.least = 1,
	.most = 2,
	.run = run_workspace,
};
