// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client and nothing that a sandbox's command writes. */

#include "gate/e2b/outside.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "gate/e2b/e2b_error.h"
#include "gate/e2b/facts.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/shell_line.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

/* Exit statuses of the lines. */
enum { MISSING = 44, EXISTS = 45, NO_DIRECTORY = 46 };

#define TELL                                                                                     \
	"LC_ALL=C find \"$p\" %s -printf '%%p\\t%%y\\t%%s\\t%%T@\\t%%m\\t%%u\\t%%g\\t%%l\\0' | " \
	"LC_ALL=C sort -z"
#define HERE "-maxdepth 0"

static bool is_below(const char *path, const char *root)
{
	size_t len = strlen(root);

	return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool outside_is(const struct op *op, const char *path)
{
	return sandbox_is_rootfs(op->sandbox) ? is_below(path, "/tmp")
					      : !is_below(path, sandbox_root(op->sandbox));
}

/* "p=PATH q=OTHER; SCRIPT" */
static struct json_object *line_of(const char *path, const char *other, const char *script)
{
	_cleanup_(byte_queue_free) struct byte_queue line = {0};
	struct json_object *string = NULL;
	struct text text;

	if (byte_queue_append(&line, "p=", 2) == 0 &&
		shell_line_append(&line, text_from(path)) == 0 &&
		byte_queue_append(&line, "q=", 2) == 0 &&
		shell_line_append(&line, text_from(other ? other : "")) == 0 &&
		byte_queue_append(&line, "; ", 2) == 0 &&
		byte_queue_append(&line, script, strlen(script)) == 0) {
		text = byte_queue_peek(&line);
		string = json_object_new_string_len(text.data, (int)text.len);
	}
	return string;
}

struct json_object *outside_list(const char *path, int64_t depth)
{
	char script[400], levels[64];

	if (depth == 0)
		snprintf(levels, sizeof(levels), HERE);
	else
		snprintf(levels, sizeof(levels), "-mindepth 1 -maxdepth %lld", (long long)depth);
	snprintf(script, sizeof(script), "[ -e \"$p\" ] || [ -L \"$p\" ] || exit 44; %s" TELL,
		depth > 0 ? "[ -d \"$p\" ] || exit 46; p=$p/; " : "", levels);
	return line_of(path, NULL, script);
}

struct json_object *outside_make(const char *path)
{
	char script[400];

	snprintf(script, sizeof(script), "[ -d \"$p\" ] && exit 45; mkdir -p -- \"$p\" && " TELL,
		HERE);
	return line_of(path, NULL, script);
}

struct json_object *outside_move(const char *path, const char *to)
{
	char script[400];

	snprintf(script, sizeof(script),
		"[ -e \"$p\" ] || [ -L \"$p\" ] || exit 44; "
		"mkdir -p -- \"${q%%/*}\" && mv -fT -- \"$p\" \"$q\" && p=$q && " TELL,
		HERE);
	return line_of(path, to, script);
}

struct json_object *outside_remove(const char *path)
{
	return line_of(path, NULL, "rm -rf -- \"$p\"");
}

struct json_object *outside_write(const char *path)
{
	return line_of(path, NULL, "mkdir -p -- \"${p%/*}/\" && exec cat > \"$p\"");
}

struct json_object *outside_read(const char *path)
{
	return line_of(path, NULL, "exec cat -- \"$p\"");
}

struct json_object *outside_options(void)
{
	struct json_object *options = json_object_new_object();

	json_object_object_add(options, "blocked_list", json_object_new_boolean(false));
	return options;
}

bool outside_worked(struct op *op, const struct cloister_message *reply)
{
	const char *words = cloister_get_string(reply, "/output/stderr", NULL);
	int64_t status = -1;

	(void)cloister_get_int64(reply, "/output/exit_code", &status);
	if (status == MISSING)
		op_fail(op, 404, "not_found", "The path does not exist");
	else if (status == EXISTS)
		op_fail(op, 409, "already_exists", "The directory exists already");
	else if (status == NO_DIRECTORY)
		op_fail(op, 400, "invalid_argument", "The path is not a directory");
	else if (status != 0)
		op_fail(op, 403, "permission_denied", "%s",
			words && words[0] ? words : "The sandbox refused");
	return status == 0;
}

static void ran(struct op *op, const struct cloister_message *reply)
{
	if (outside_worked(op, reply))
		op->on_ran(op, reply);
}

void outside_run(struct op *op, struct json_object *line, op_next *next)
{
	struct json_object *params = json_object_new_object();
	struct json_object *arguments = json_object_new_object();

	json_object_object_add(arguments, "command", line);
	json_put_text(params, "tool", TEXT_LITERAL("run_command"));
	json_object_object_add(params, "arguments", arguments);
	json_object_object_add(params, "options", outside_options());
	op->on_ran = next;
	op->on_refusal = NULL;
	op_ask(op, "tool.call", params, ran);
}

static void put_time(struct json_object *node, struct text seconds)
{
	char time[32];
	double value = seconds.len > 0 ? strtod(seconds.data, NULL) : 0;

	/* A file may have a time that is too large in milliseconds. */
	if (value > 1e15)
		value = 1e15;
	facts_time_write(value > 0 ? (int64_t)(value * 1000) : 0, time);
	json_put_text(node, "mtime", text_from(time));
}

static struct json_object *entry_of(struct text record)
{
	struct json_object *node = json_object_new_object();
	struct text path = text_take(&record, '\t'), type = text_take(&record, '\t');
	struct text size = text_take(&record, '\t'), time = text_take(&record, '\t');
	struct text mode = text_take(&record, '\t'), owner = text_take(&record, '\t');
	struct text group = text_take(&record, '\t');
	char letter = type.len == 1 ? type.data[0] : '?';

	json_put_text(node, "path", path);
	json_put_text(node, "type",
		text_from(letter == 'f'   ? "file"
			  : letter == 'd' ? "directory"
			  : letter == 'l' ? "symlink"
					  : "unknown"));
	json_object_object_add(node, "size",
		json_object_new_int64(size.len > 0 ? strtoll(size.data, NULL, 10) : 0));
	put_time(node, time);
	json_put_text(node, "mode", mode);
	json_put_text(node, "owner", owner);
	json_put_text(node, "group", group);
	json_put_text(node, "target", record);
	return node;
}

struct json_object *outside_entries(const struct cloister_message *reply)
{
	struct json_object *entries = json_object_new_array();
	struct text rest = {0}, record;

	rest.data = cloister_get_string(reply, "/output/stdout", &rest.len);
	while (rest.data && rest.len > 0) {
		record = text_take(&rest, '\0');
		json_object_array_add(entries, entry_of(record));
	}
	return entries;
}

bool outside_is_missing(struct op *op, const struct cloister_message *reply)
{
	if (cloister_error(reply) != CLOISTER_ERROR_PATH_OUTSIDE_WORKSPACE)
		return false;
	op_fail(op, 404, "not_found", "%s", cloister_error_message(reply));
	return true;
}
