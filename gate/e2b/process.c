// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. cloisterd's answers may quote what is hostile. */

#include "gate/e2b/process.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/e2b/shell_line.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define PID_DIGITS  7
#define PID_FLAG    0x10000000U /* above every pid that a kernel gives */
#define OUTPUT_KEPT (4 * MIB)
#define COMMAND_MAX 131071

static const char cd_home[] = "cd 2>/dev/null; ";

uint32_t process_pid(struct text session)
{
	char digits[PID_DIGITS + 1] = "";
	char *end;
	uint32_t number;

	if (session.len != 32)
		return 0;
	memcpy(digits, session.data, PID_DIGITS);
	number = (uint32_t)strtoul(digits, &end, 16);
	return *end == '\0' ? PID_FLAG | number : 0;
}

/* "cd -- DIR && exec PROGRAM ARGUMENTS…" */
static int write_line(struct byte_queue *line, struct json_object *process, bool is_rootfs)
{
	struct text cwd = json_text_of(process, "cwd");
	struct json_object *args = json_member_of(process, "args");
	int r = 0;

	if (cwd.len > 0) {
		r = byte_queue_append(line, "cd -- ", 6);
		if (r == 0)
			r = shell_line_append(line, cwd);
		if (r == 0)
			r = byte_queue_append(line, "&& ", 3);
	} else if (is_rootfs) {
		r = byte_queue_append(line, cd_home, sizeof(cd_home) - 1);
	}
	if (r == 0)
		r = byte_queue_append(line, "exec ", 5);
	if (r == 0)
		r = shell_line_append(line, json_text_of(process, "cmd"));
	for (size_t i = 0; r == 0 && json_object_is_type(args, json_type_array) &&
			   i < json_object_array_length(args);
		i++) {
		struct json_object *arg = json_object_array_get_idx(args, i);
		struct text word = {
			json_object_get_string(arg), (size_t)json_object_get_string_len(arg)};

		if (!json_object_is_type(arg, json_type_string) || text_has_nul(word))
			return -EINVAL;
		r = shell_line_append(line, word);
	}
	return r;
}

static bool put_pty(struct json_object *params, struct json_object *body)
{
	struct json_object *size = json_member_of(json_member_of(body, "pty"), "size");
	struct json_object *pty;

	if (json_member_of(body, "pty") == NULL)
		return false;
	pty = json_object_new_object();
	json_object_object_add(
		pty, "rows", json_object_new_int64(json_number_of(size, "rows", 24)));
	json_object_object_add(
		pty, "cols", json_object_new_int64(json_number_of(size, "cols", 80)));
	json_object_object_add(params, "pty", pty);
	return true;
}

struct json_object *process_start_params(
	struct json_object *body, bool is_rootfs, int64_t lifetime_ms, const char **ret_why)
{
	struct json_object *process = json_member_of(body, "process"), *params;
	struct json_object *envs = json_member_of(process, "envs");
	struct text tag = json_text_of(body, "tag"), command;
	_cleanup_(byte_queue_free) struct byte_queue line = {0};

	*ret_why = "The process has no cmd";
	if (json_text_of(process, "cmd").len == 0)
		return NULL;
	*ret_why = "An argument is no string, or has a NUL";
	if (text_has_nul(json_text_of(process, "cmd")) ||
		text_has_nul(json_text_of(process, "cwd")) ||
		write_line(&line, process, is_rootfs) < 0)
		return NULL;
	command = byte_queue_peek(&line);
	*ret_why = "The command is too long";
	if (command.len > COMMAND_MAX)
		return NULL;
	params = json_object_new_object();
	json_put_text(params, "command", command);
	if (tag.len > 0)
		json_put_text(params, "name", tag);
	if (json_object_is_type(envs, json_type_object) && json_object_object_length(envs) > 0)
		json_object_object_add(params, "env", json_object_get(envs));
	/* Clients that say nothing are old, and can send input. */
	if (!put_pty(params, body))
		json_object_object_add(params, "stdin",
			json_object_new_boolean(json_bool_of(body, "stdin", true)));
	if (lifetime_ms > 0)
		json_object_object_add(params, "lifetime_ms", json_object_new_int64(lifetime_ms));
	/* The list advises models, in words that the clients would show as a fault of the API. */
	json_object_object_add(params, "blocked_list", json_object_new_boolean(false));
	json_object_object_add(params, "output_bytes", json_object_new_int64(OUTPUT_KEPT));
	return params;
}

static bool take_literal(struct text *text, struct text literal)
{
	if (text->len < literal.len || memcmp(text->data, literal.data, literal.len) != 0)
		return false;
	text->data += literal.len;
	text->len -= literal.len;
	return true;
}

/* A line that another client started is its own cmd. */
struct json_object *process_show(struct json_object *row)
{
	struct json_object *info = json_object_new_object(), *config = json_object_new_object();
	struct json_object *args = json_object_new_array();
	struct text line = json_text_of(row, "command"), rest = line;
	struct text name = json_text_of(row, "name");
	_cleanup_(byte_queue_free) struct byte_queue word = {0};
	bool is_first = true;

	if (take_literal(&rest, TEXT_LITERAL("cd -- ")) && shell_line_take(&rest, &word) > 0) {
		if (take_literal(&rest, TEXT_LITERAL("&& ")))
			json_put_text(config, "cwd", byte_queue_peek(&word));
	} else {
		(void)take_literal(&rest, TEXT_LITERAL(cd_home));
	}
	if (take_literal(&rest, TEXT_LITERAL("exec "))) {
		while (rest.len > 0) {
			struct text text;

			byte_queue_free(&word);
			word = (struct byte_queue){0};
			if (shell_line_take(&rest, &word) <= 0)
				break; /* cloisterd lists the beginning of a long one */
			text = byte_queue_peek(&word);
			if (is_first)
				json_put_text(config, "cmd", text);
			else
				json_object_array_add(
					args, json_object_new_string_len(
						      text.data ? text.data : "", (int)text.len));
			is_first = false;
		}
	}
	if (is_first)
		json_put_text(config, "cmd", line);
	json_object_object_add(config, "args", args);
	json_object_object_add(config, "envs", json_object_new_object());
	json_object_object_add(info, "config", config);
	json_object_object_add(
		info, "pid", json_object_new_int64(process_pid(json_text_of(row, "session"))));
	if (name.len > 0)
		json_put_text(info, "tag", name);
	return info;
}

/* "SIGKILL" is "signal: killed" for programs of Go. */
static const char *signal_words(struct text name)
{
	static const struct {
		const char *name, *words;
	} signals[] = {{"SIGHUP", "signal: hangup"}, {"SIGINT", "signal: interrupt"},
		{"SIGQUIT", "signal: quit"}, {"SIGABRT", "signal: aborted"},
		{"SIGKILL", "signal: killed"}, {"SIGSEGV", "signal: segmentation fault"},
		{"SIGPIPE", "signal: broken pipe"}, {"SIGTERM", "signal: terminated"}};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if (text_equal(name, text_from(signals[i].name)))
			return signals[i].words;
	}
	return "signal: killed";
}

struct json_object *process_end_event(struct json_object *end)
{
	struct json_object *output = json_member_of(end, "output"), *event;
	struct text by = json_text_of(output, "ended_by"), signal = json_text_of(output, "signal");
	struct text message = json_text_of(json_member_of(end, "error"), "message");
	int64_t code = json_number_of(output, "exit_code", -1);
	char status[64];

	if (text_equal(by, TEXT_LITERAL("lifetime")) || text_equal(by, TEXT_LITERAL("lease")) ||
		text_equal(by, TEXT_LITERAL("workspace_closed")) ||
		text_equal(by, TEXT_LITERAL("worker_lost")) ||
		text_equal(by, TEXT_LITERAL("shutdown")) || output == NULL)
		return NULL;
	if (code >= 0)
		snprintf(status, sizeof(status), "exit status %d", (int)code);
	else
		snprintf(status, sizeof(status), "%s", signal_words(signal));
	event = json_object_new_object();
	json_object_object_add(event, "exitCode", json_object_new_int64(code));
	json_object_object_add(event, "exited", json_object_new_boolean(code >= 0));
	json_put_text(event, "status", text_from(status));
	if (code != 0)
		json_put_text(event, "error", message.len > 0 ? message : text_from(status));
	return event;
}

enum process_loss process_loss(struct json_object *end)
{
	struct text by = json_text_of(json_member_of(end, "output"), "ended_by");

	return text_equal(by, TEXT_LITERAL("lifetime")) ? PROCESS_DEADLINE : PROCESS_GONE;
}
