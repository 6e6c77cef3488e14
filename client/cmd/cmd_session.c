// SPDX-License-Identifier: Apache-2.0
/*
 * cloister session: commands that go on in the background of a workspace. Runs in the client. What
 * a session writes is hostile: it is passed on as it is, as by exec, and nothing else of it is
 * printed unescaped.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/remote.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/shell_words.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/monotonic.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_MS     60000 /* one session.read waits for output, or for a condition */
#define READ_BYTES  (256 * KIB)
#define INPUT_BYTES (64 * KIB)
#define AGAIN_US    50000 /* until input is sent again that was not taken */

/* Takes @params. Returns a status, and on success the reply, to be freed. */
static int ask_session(struct session *session, const char *method, struct json_object *params,
	struct cloister_message **ret)
{
	int r = request(session->cloister, method, params, ret);

	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	return cloister_json_error(*ret) ? reply_complain(*ret) : STATUS_OK;
}

static int print_result(const struct cloister_message *reply)
{
	struct json_object *result = reply_result(reply);

	terminal_put_json(json_object_to_json_string_ext(result, PRINTED_JSON));
	json_object_put(result);
	return STATUS_OK;
}

static int start_attached_session(
	struct session *session, const struct invocation *invocation, const char *id)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	_cleanup_free_ char *line = shell_line(invocation->argc - 1, invocation->argv + 1);
	struct json_object *params = json_object_new_object();
	int status;

	if (!line) {
		json_object_put(params);
		complain("out of memory");
		return STATUS_OWN_FAILURE;
	}
	json_object_object_foreach (invocation->options, name, value) {
		json_put(params, name, json_object_get(value));
	}
	json_put(params, "command", json_object_new_string(line));
	json_put(params, "stdin", json_object_new_boolean(invocation->use_stdin));
	/* The list advises models, and a person wrote this command. */
	json_put(params, "blocked_list", json_object_new_boolean(0));
	status = ask_session(session, "session.start", params, &reply);
	if (status != STATUS_OK)
		return status;
	if (invocation->json)
		return print_result(reply);
	id = cloister_get_string(reply, "/session", NULL);
	show("%s\n", id ? id : "?");
	return STATUS_OK;
}

static void print_row(
	const char *id, const char *state, const char *ports, const char *name, const char *command)
{
	show("%-32s  %-8s  %-11s  %-12s  %s\n", id, state, ports, name, command);
}

static void put_ports(struct json_object *row, char *buffer, size_t size)
{
	struct json_object *ports = field(row, "ports");
	size_t len = 0;

	buffer[0] = '\0';
	for (size_t i = 0; i < elements(ports) && len < size; i++)
		len += (size_t)snprintf(buffer + len, size - len, "%s%d", i > 0 ? "," : "",
			json_object_get_int(element(ports, i)));
}

static int list(struct session *session, const struct invocation *invocation, const char *id)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *result, *rows;
	int status = ask_session(session, "session.list", json_object_new_object(), &reply);

	(void)id;
	if (status != STATUS_OK)
		return status;
	if (invocation->json)
		return print_result(reply);
	result = reply_result(reply);
	print_row("SESSION", "STATE", "PORTS", "NAME", "COMMAND");
	rows = field(result, "sessions");
	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);
		char ports[128];

		put_ports(row, ports, sizeof(ports));
		print_row(field_text(row, "session"), field_text(row, "state"), ports,
			field_text(row, "name"), field_text(row, "command"));
	}
	json_object_put(result);
	return STATUS_OK;
}

/*
 * The id of the session that @word names: an id, or the name of exactly one that runs or, if none
 * runs, of the one that was started last. Stores NULL if there is none of this name: then it may be
 * an id that the service knows. Returns a status.
 */
static int find_session_by_word(struct session *session, const char *word, char **ret)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *result, *rows, *found = NULL;
	size_t running = 0;
	int status = ask_session(session, "session.list", json_object_new_object(), &reply);

	if (status != STATUS_OK)
		return status;
	result = reply_result(reply);
	rows = field(result, "sessions");
	for (size_t i = 0; i < elements(rows); i++) {
		struct json_object *row = element(rows, i);
		bool runs = strcmp(field_text(row, "state"), "ended") != 0;

		if (strcmp(field_text(row, "name"), word) != 0 || (running > 0 && !runs))
			continue;
		running += runs;
		found = row;
	}
	*ret = strdup(found ? field_text(found, "session") : word);
	json_object_put(result);
	if (running <= 1)
		return *ret ? STATUS_OK : STATUS_OWN_FAILURE;
	complain_code("AMBIGUOUS", "%zu sessions that run are named '%s'; say which by its id",
		running, word);
	return STATUS_USAGE;
}

static bool write_session_output(int fd, const char *data, size_t len)
{
	int r = io_write(fd, data, len, IO_POSITION);

	if (r < 0)
		complain("cannot write to standard output: %s", strerror(-r));
	return r == 0;
}

/* Writes the output in @reply to our stdout and stderr, and says what was lost. */
static bool pass_on_client_session(const struct cloister_message *reply)
{
	int64_t lost = 0;
	size_t n = 0;

	(void)cloister_get_int64(reply, "/lost_bytes", &lost);
	if (lost > 0)
		complain("%lld bytes of the output are not kept any more", (long long)lost);
	if (cloister_get_count(reply, "/chunks", &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ void *data = NULL;
		const char *stream;
		char pointer[64];
		size_t len;

		snprintf(pointer, sizeof(pointer), "/chunks/%zu/stream", i);
		stream = cloister_get_string(reply, pointer, NULL);
		snprintf(pointer, sizeof(pointer), "/chunks/%zu/data", i);
		if (!stream || cloister_get_bytes(reply, pointer, &data, &len) < 0)
			return false;
		if (!write_session_output(
			    strcmp(stream, "stderr") == 0 ? STDERR_FILENO : STDOUT_FILENO, data,
			    len))
			return false;
	}
	return true;
}

static struct json_object *read_params(const char *id, int64_t after, int64_t wait_ms)
{
	struct json_object *params = json_object_new_object();

	json_put(params, "session", json_object_new_string(id));
	json_put(params, "after", json_object_new_int64(after));
	json_put(params, "wait_ms", json_object_new_int64(wait_ms));
	json_put(params, "encoding", json_object_new_string("base64"));
	return params;
}

static bool has_end(const struct cloister_message *reply)
{
	size_t count;

	return cloister_get_count(reply, "/end", &count) == 0;
}

/* The status of a session that has ended, as exec has it. */
static int end_status(const struct cloister_message *reply, const char *pointer)
{
	int status = remote_status(reply, pointer);

	return status < 0 ? STATUS_OWN_FAILURE : status;
}

/* Prints the output from the beginning that is kept: what there is, or with @follow to the end. */
static int print_output(struct session *session, const char *id, int64_t after, bool follow)
{
	for (;;) {
		_cleanup_message_ struct cloister_message *reply = NULL;
		struct json_object *params = read_params(id, after, follow ? READ_MS : 0);
		int64_t next = after;
		int status;

		json_put(params, "max_bytes", json_object_new_int(READ_BYTES));
		status = ask_session(session, "session.read", params, &reply);
		if (status != STATUS_OK)
			return status;
		if (!pass_on_client_session(reply) || cloister_get_int64(reply, "/next", &next) < 0)
			return STATUS_OWN_FAILURE;
		if (next == after && follow && has_end(reply))
			return end_status(reply, "/end");
		if (next == after && !follow)
			return STATUS_OK;
		after = next;
	}
}

static int read_output(struct session *session, const struct invocation *invocation, const char *id)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	int status;

	if (!invocation->json)
		return print_output(session, id, invocation->after, false);
	status =
		ask_session(session, "session.read", read_params(id, invocation->after, 0), &reply);
	return status == STATUS_OK ? print_result(reply) : status;
}

static int attach_client_session(
	struct session *session, const struct invocation *invocation, const char *id)
{
	return print_output(session, id, invocation->after, true);
}

/* Sends @len bytes until all are taken. Returns a status. */
static int send(struct session *session, const char *id, const char *data, size_t len, bool eof)
{
	bool closed = false;

	do {
		_cleanup_message_ struct cloister_message *reply = NULL;
		struct cloister_object *params = cloister_object_new();
		int64_t taken = 0;
		int r = -ENOMEM;

		if (params && cloister_object_string(params, "session", id, strlen(id)) == 0 &&
			cloister_object_bytes(params, "data", data, len) == 0 &&
			cloister_object_string(params, "encoding", "base64", 6) == 0 &&
			cloister_object_bool(params, "eof", eof) == 0)
			r = cloister_request(session->cloister, "session.write",
				cloister_object_text(params), &reply);
		cloister_object_free(params);
		if (r < 0) {
			connection_complain(r);
			return STATUS_NO_SERVICE;
		}
		if (cloister_json_error(reply) && cloister_error(reply) != CLOISTER_ERROR_BUSY)
			return reply_complain(reply);
		(void)cloister_get_bool(reply, "/closed", &closed);
		(void)cloister_get_int64(reply, "/taken", &taken);
		if (taken < 0 || (size_t)taken > len)
			return STATUS_OWN_FAILURE;
		data += taken;
		len -= (size_t)taken;
		if (len > 0 && taken == 0 && !closed)
			usleep(AGAIN_US);
	} while (len > 0 && !closed);
	if (len == 0)
		return STATUS_OK;
	complain_code("INPUT_CLOSED", "the session takes no more input");
	return STATUS_TOOL_FAILED;
}

static int write_input(struct session *session, const struct invocation *invocation, const char *id)
{
	static char buffer[INPUT_BYTES];
	ssize_t n;

	if (invocation->argc == 3) {
		_cleanup_free_ char *line = NULL;
		int len = asprintf(&line, "%s\n", invocation->argv[2]);

		return len < 0 ? STATUS_OWN_FAILURE
			       : send(session, id, line, (size_t)len, invocation->eof);
	}
	while ((n = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0) {
		int status = send(session, id, buffer, (size_t)n, false);

		if (status != STATUS_OK)
			return status;
	}
	if (n < 0) {
		complain("cannot read standard input: %s", strerror(errno));
		return STATUS_OWN_FAILURE;
	}
	return invocation->eof ? send(session, id, "", 0, true) : STATUS_OK;
}

static struct json_object *condition(const struct invocation *invocation)
{
	struct json_object *until = json_object_new_array(), *one = json_object_new_object();

	if (invocation->port > 0)
		json_put(one, "port", json_object_new_int(invocation->port));
	else if (invocation->contains)
		json_put(one, "contains", json_object_new_string(invocation->contains));
	else
		json_put(one, "exit", json_object_new_boolean(1));
	json_object_array_add(until, one);
	return until;
}

/* What a wait has come to; -1: it goes on. */
static int wait_status(
	const struct invocation *invocation, const struct cloister_message *reply, bool overdue)
{
	bool for_end = invocation->port == 0 && !invocation->contains;
	int64_t met;

	if (for_end && has_end(reply))
		return end_status(reply, "/end");
	if (!for_end && cloister_get_int64(reply, "/met", &met) == 0)
		return STATUS_OK;
	if (has_end(reply)) {
		complain_code("ENDED", "the session has ended before that; `cloister session read` "
				       "has its output");
		return STATUS_TOOL_FAILED;
	}
	if (!overdue)
		return -1;
	complain_code("TIMEOUT", "the time is over; the session goes on");
	return STATUS_DEADLINE;
}

static int wait_for(struct session *session, const struct invocation *invocation, const char *id)
{
	uint64_t deadline = monotonic_ms() + (uint64_t)invocation->timeout_ms;
	int status = -1;

	while (status < 0) {
		_cleanup_message_ struct cloister_message *reply = NULL;
		int64_t left = invocation->timeout_ms > 0 ? monotonic_left_ms(deadline) : READ_MS;
		struct json_object *params = read_params(id, invocation->after,
			left < 0         ? 0
			: left < READ_MS ? left
					 : READ_MS);

		json_put(params, "max_bytes", json_object_new_int(0));
		json_put(params, "until", condition(invocation));
		status = ask_session(session, "session.read", params, &reply);
		if (status != STATUS_OK)
			return status;
		status = wait_status(invocation, reply,
			invocation->timeout_ms > 0 && monotonic_left_ms(deadline) <= 0);
	}
	return status;
}

static int end_session(struct session *session, const struct invocation *invocation, const char *id)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = json_object_new_object();
	int status;

	json_put(params, "session", json_object_new_string(id));
	status = ask_session(session, "session.end", params, &reply);
	return status == STATUS_OK && invocation->json ? print_result(reply) : status;
}

static const struct action {
	const char *name;
	int least, most; /* operands */
	bool needs_workspace, names_session;
	int (*act)(struct session *session, const struct invocation *invocation, const char *id);
} actions[] = {
	{"start", 1, INT_MAX - 1, true, false, start_attached_session},
	{"list", 0, 0, false, false, list},
	{"read", 1, 1, false, true, read_output},
	{"attach", 1, 1, false, true, attach_client_session},
	{"write", 1, 2, false, true, write_input},
	{"wait", 1, 1, false, true, wait_for},
	{"end", 1, 1, false, true, end_session},
};

static int act_on_session(const struct action *action, const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_free_ char *id = NULL;
	int status = STATUS_OK;

	if (session_open_service(invocation, action->needs_workspace,
		    "ends what goes on in it with its client", &session) < 0)
		return STATUS_NO_SERVICE;
	if (action->names_session)
		status = find_session_by_word(&session, invocation->argv[1], &id);
	return status == STATUS_OK ? action->act(&session, invocation, id) : status;
}

static int run_session(const struct invocation *invocation)
{
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcmp(invocation->argv[0], actions[i].name) == 0 &&
			invocation->argc > actions[i].least &&
			invocation->argc - 1 <= actions[i].most)
			return act_on_session(&actions[i], invocation);
	operands_complain(&cloister_program, &command_session.help);
	return STATUS_USAGE;
}

static const struct option_row options[] = {
	{"name", "NAME", 'A', "start: a name, which can be given instead of the id"},
	{"env", "NAME=VALUE", 'e', "start: a variable of its environment; repeatable"},
	{"stdin", NULL, 'i', "start: it reads what write sends"},
	{"key", "KEY", 'y', "start: the same start again gets the same session"},
	{"after", "CURSOR", 'F', "read, attach, wait: from this byte of the output on"},
	{"eof", NULL, 'E', "write: the input ends after it"},
	{"port", "PORT", 'P', "wait: until it listens at this port"},
	{"contains", "TEXT", 'C', "wait: until its output has this"},
	{"timeout", "DURATION", 't', "wait: at most so long"},
	{0},
};

const struct command command_session = {
	.help = {"session", "start COMMAND... | list | read|attach|wait|end|write ID [LINE]",
		"Run commands in the background; ID may be a name.",
		"cloister session start --name web -- npm run dev", options},
	.least = 1,
	.most = INT_MAX,
	.run = run_session,
};
