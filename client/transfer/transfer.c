// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. The output of the scripts comes from a hostile workspace: records are bounded
 * and parsed strictly, and text for the terminal is escaped.
 */
#include "client/transfer/transfer.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/shell_words.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct transfer transfer_init(const struct invocation *invocation, void *context)
{
	struct transfer transfer = {.invocation = invocation, .to_fd = -1, .context = context};

	progress_begin(&transfer.progress, 0, invocation->json);
	return transfer;
}

/* Prints the line of an error message that has come so far. */
static void end_error(struct transfer *transfer)
{
	_cleanup_free_ char *escaped = NULL;

	if (transfer->error_len == 0)
		return;
	transfer->error[transfer->error_len] = '\0';
	escaped = terminal_text(transfer->error);
	complain("%s", escaped ? escaped : "out of memory");
	transfer->error_len = 0;
}

/* Prints the workspace's error messages by line, however the pieces are that they come in. */
static int show_errors(struct transfer *transfer, struct text data)
{
	progress_clear(&transfer->progress);
	for (size_t i = 0; i < data.len; i++) {
		if (data.data[i] == '\n')
			end_error(transfer);
		else if (transfer->error_len < sizeof(transfer->error) - 1)
			transfer->error[transfer->error_len++] = data.data[i];
	}
	return 0;
}

static int take_records(struct transfer *transfer, struct text data)
{
	while (data.len > 0) {
		const char *end = memchr(data.data, '\0', data.len);
		size_t len = end ? (size_t)(end - data.data) : data.len;
		int r;

		if (transfer->record_len + len >= sizeof(transfer->record)) {
			complain("the workspace did not send a list of files");
			return -EBADMSG;
		}
		memcpy(transfer->record + transfer->record_len, data.data, len);
		transfer->record_len += len;
		if (!end)
			return 0;
		transfer->record[transfer->record_len] = '\0';
		r = transfer->records(
			(struct text){transfer->record, transfer->record_len}, transfer->context);
		transfer->record_len = 0;
		if (r < 0)
			return r;
		data.data += len + 1;
		data.len -= len + 1;
	}
	return 0;
}

static int take_output(struct remote *remote, enum cloister_stream stream, const void *data,
	size_t len, void *context)
{
	struct transfer *transfer = context;
	struct text text = {data, len};

	transfer->remote = remote;
	if (stream == CLOISTER_STDERR)
		return show_errors(transfer, text);
	if (transfer->records)
		return take_records(transfer, text);
	if (transfer->bytes)
		return transfer->bytes(text, transfer->context);
	return transfer->to_fd >= 0 ? remote_write(remote, transfer->to_fd, data, len) : 0;
}

static char *with_value(const char *script, const char *name, const char *value)
{
	_cleanup_free_ char *assignment = shell_assignment(name, value);
	char *command;

	if (!assignment || asprintf(&command, "%s\n%s", assignment, script) < 0) {
		complain("out of memory");
		return NULL;
	}
	return command;
}

static ssize_t read_input(void *buffer, size_t size, void *context)
{
	struct transfer *transfer = context;

	return transfer->input(buffer, size, transfer->context);
}

int transfer_run(struct transfer *transfer, struct session *session, const char *script,
	const char *name, const char *value,
	ssize_t (*input)(void *buffer, size_t size, void *context), int input_fd)
{
	const struct invocation *invocation = transfer->invocation;
	_cleanup_free_ char *command = with_value(script, name, value);
	struct remote_call call = {
		.command = command,
		/* If it is the tenant's longest, the idle timeout detects a transfer that hangs. */
		.timeout_ms = invocation->timeout_ms,
		.options = json_object_new_object(),
		.progress = &transfer->progress,
		.output = take_output,
		.input = input ? read_input : NULL,
		.input_fd = input_fd,
		.context = transfer,
	};
	struct remote_end end;

	if (!command)
		return STATUS_OWN_FAILURE;
	transfer->input = input;
	transfer->record_len = 0;
	json_put(call.options, "keep_output", json_object_new_boolean(0));
	json_put(call.options, "idle_timeout_ms",
		json_object_new_int64(
			invocation->idle_ms > 0 ? invocation->idle_ms : LIMIT_TRANSFER_IDLE_MS));
	end = remote_run(session->cloister, &call);
	end_error(transfer);
	json_object_put(call.options);
	if (end.ran)
		return end.status == 0 ? STATUS_OK : STATUS_TOOL_FAILED;
	return end.status == STATUS_OWN_FAILURE ? STATUS_TOOL_FAILED : end.status;
}

/* Takes a number in @base and the space after it. */
static int take_transfer_number(struct text *text, unsigned base, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < text->len && text->data[i] >= '0' && text->data[i] < '0' + (int)base; i++)
		if (__builtin_mul_overflow(value, base, &value) ||
			__builtin_add_overflow(value, (uint64_t)(text->data[i] - '0'), &value))
			return -EINVAL;
	if (i == 0 || i == text->len)
		return -EINVAL;
	text->data += i;
	text->len -= i;
	*ret = value;
	return 0;
}

static bool take_byte(struct text *text, char byte)
{
	if (text->len == 0 || text->data[0] != byte)
		return false;
	text->data++;
	text->len--;
	return true;
}

/*
 * Takes a time such as "1700000000.1234567890": seconds rounded down, also below zero, and a
 * fraction to be added.
 */
static int take_time(struct text *text, struct timespec *ret)
{
	bool negative = take_byte(text, '-');
	uint64_t seconds;

	*ret = (struct timespec){0};
	if (take_transfer_number(text, 10, &seconds) < 0 || seconds > INT64_MAX / 2)
		return -EINVAL;
	if (take_byte(text, '.'))
		for (long unit = 100000000;
			text->len > 0 && text->data[0] >= '0' && text->data[0] <= '9'; unit /= 10) {
			ret->tv_nsec += unit * (text->data[0] - '0');
			text->data++;
			text->len--;
		}
	ret->tv_sec = negative ? -(time_t)seconds : (time_t)seconds;
	return 0;
}

int transfer_read_record(struct text record, bool typed, struct tar_entry *ret_entry)
{
	char type = 'f';
	uint64_t mode;

	if (typed) {
		type = record.len > 0 ? record.data[0] : '\0';
		if (!take_byte(&record, type) || !take_byte(&record, ' '))
			return -EINVAL;
	}
	if (take_transfer_number(&record, 8, &mode) < 0 || !take_byte(&record, ' ') ||
		take_transfer_number(&record, 10, &ret_entry->size) < 0 ||
		!take_byte(&record, ' ') || take_time(&record, &ret_entry->mtime) < 0 ||
		!take_byte(&record, ' ') || record.len >= sizeof(ret_entry->path))
		return -EINVAL;
	ret_entry->type = TAR_FILE;
	if (type != 'f')
		ret_entry->type = type == 'd' ? TAR_DIRECTORY : TAR_SYMLINK;
	ret_entry->mode = (mode_t)mode;
	ret_entry->link[0] = '\0';
	memcpy(ret_entry->path, record.data, record.len);
	ret_entry->path[record.len] = '\0';
	return 0;
}
