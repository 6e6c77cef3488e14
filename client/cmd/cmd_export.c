// SPDX-License-Identifier: Apache-2.0
/*
 * cloister export and import: a workspace's tree as a tar archive, to move it to another host or to
 * keep it. Its files get the new workspace's id. The archive says that it is an export and, at its
 * end, that it is whole: import makes a workspace of all of it or of nothing.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/remote.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/tar/archive_copy.h"
#include "client/terminal_text.h"
#include "client/transfer/transfer.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_COMMENT "cloister export 1"
#define LAST_COMMENT  "cloister export complete: "

static const char export_script[] =
	"command -v tar >/dev/null ||\n"
	"  { echo 'there is no tar in this workspace; export needs one' >&2; exit 127; }\n"
	"cd -- \"$d\" || exit 1\n"
	"case $(tar --version 2>/dev/null) in\n"
	"*GNU*) exec tar -b 128 --format=posix --pax-option=delete=atime,delete=ctime -cf - . ;;\n"
	"*) exec tar -cf - . ;;\n"
	"esac\n";

struct archive {
	struct archive_copy copy;
	struct transfer transfer;
	bool begun;    /* import: it is an export */
	bool complete; /* import: it says that it is whole */
	bool ended;    /* import: stdin is at its end */
};

static struct archive_copy copy_of(const struct invocation *invocation)
{
	return (struct archive_copy){
		.max_bytes = invocation->max_size ? invocation->max_size : LIMIT_GET_BYTES,
		.max_entries = invocation->max_files ? invocation->max_files : LIMIT_GET_FILES,
	};
}

/* Export */

/* Writes what has been copied to stdout. */
static int write_copied(struct archive *archive)
{
	struct text data = byte_queue_peek(&archive->copy.out);
	int r = remote_write(archive->transfer.remote, STDOUT_FILENO, data.data, data.len);

	byte_queue_consume(&archive->copy.out, data.len);
	return r;
}

static int take_archive(struct text data, void *context)
{
	struct archive *archive = context;
	int r = archive_copy_feed(&archive->copy, data);

	return r < 0 ? r : write_copied(archive);
}

/* Writes the end, when the command in the workspace has ended and no call is left to wait for. */
static int write_end(struct archive *archive)
{
	char comment[64];
	struct text data;
	int r;

	snprintf(comment, sizeof(comment), LAST_COMMENT "%" PRIu64, archive->copy.entries);
	if (archive_copy_comment(&archive->copy, comment) < 0 ||
		archive_copy_root(&archive->copy) < 0 || archive_copy_end(&archive->copy) < 0)
		return -ENOMEM;
	data = byte_queue_peek(&archive->copy.out);
	r = io_write(STDOUT_FILENO, data.data, data.len, IO_POSITION);
	if (r < 0)
		complain("cannot write output: %s", strerror(-r));
	return r;
}

/* Says at the beginning what this is, for import and for people who look into it. */
static int add_first_comment(struct archive *archive, const char *workspace)
{
	char comment[512], when[32] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (gmtime_r(&now, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(comment, sizeof(comment), FIRST_COMMENT " of %.256s at %s",
		workspace ? workspace : ".", when);
	return archive_copy_comment(&archive->copy, comment);
}

static int run_export(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {.moves = true};
	struct archive archive = {.copy = copy_of(invocation)};
	int status = STATUS_TOOL_FAILED;

	if (invocation->json) {
		complain_code("USAGE", "export writes the archive to stdout, where --json would "
				       "write too: leave it out");
		return STATUS_USAGE;
	}
	if (isatty(STDOUT_FILENO)) {
		complain("export writes a tar archive to stdout; redirect stdout, which is a "
			 "terminal");
		return STATUS_USAGE;
	}
	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	archive.transfer = transfer_init(invocation, &archive);
	archive.transfer.bytes = take_archive;
	if (archive_copy_begin(&archive.copy) == 0 &&
		add_first_comment(&archive, invocation->workspace) == 0)
		status = transfer_run(
			&archive.transfer, &session, export_script, "d", ".", NULL, -1);
	if (status == STATUS_OK && !archive_copy_is_complete(&archive.copy)) {
		complain("the archive ended early; export it again");
		status = STATUS_TOOL_FAILED;
	}
	if (status == STATUS_OK && write_end(&archive) < 0)
		status = STATUS_TOOL_FAILED;
	/* What was left out is named; the archive is whole without it. */
	if (status == STATUS_OK && archive.copy.left_out > 0)
		status = STATUS_TOOL_FAILED;
	archive_copy_done(&archive.copy);
	return status;
}

/* Import */

static int take_comment(void *context, const char *comment)
{
	struct archive *archive = context;
	const char *number = comment + strlen(LAST_COMMENT);

	if (strncmp(comment, FIRST_COMMENT, strlen(FIRST_COMMENT)) == 0)
		archive->begun = true;
	else if (strncmp(comment, LAST_COMMENT, strlen(LAST_COMMENT)) == 0)
		archive->complete = strtoull(number, NULL, 10) == archive->copy.entries;
	return 0;
}

/* Reads and copies more of stdin. Returns 1; 0 at its end; -EAGAIN; or -errno after printing why.
 */
static int read_more(struct archive *archive)
{
	static char buffer[64 * KIB];
	ssize_t n = remote_read_stdin(buffer, sizeof(buffer), NULL);
	int r;

	if (n <= 0)
		return (int)n;
	r = archive_copy_feed(&archive->copy, (struct text){buffer, (size_t)n});
	if (r == 0 && !archive->begun && archive->copy.entries > 0) {
		complain("this is no archive of `cloister export`; `cloister put -` copies any "
			 "tar archive into a workspace that exists");
		r = -EPERM;
	}
	return r < 0 ? r : 1;
}

/* The end of the archive, which must be whole. */
static int end_import(struct archive *archive)
{
	if (archive->begun && archive->complete && archive_copy_is_complete(&archive->copy))
		return 0;
	complain(archive->begun ? "the archive is not complete: its export failed or was cut short"
				: "there is no archive of `cloister export` on stdin");
	return -EBADMSG;
}

/* The archive without its comments, for the command in the workspace. */
static ssize_t read_archive(void *buffer, size_t size, void *context)
{
	struct archive *archive = context;
	struct byte_queue *out = &archive->copy.out;
	size_t n;
	int r = out->len > 0 || archive->ended ? 1 : read_more(archive);

	if (r == 0) {
		archive->ended = true;
		r = end_import(archive);
		if (r == 0)
			r = archive_copy_end(&archive->copy);
	}
	if (r < 0)
		return r;
	if (out->len == 0)
		return archive->ended ? 0 : -EAGAIN;
	n = out->len < size ? out->len : size;
	memcpy(buffer, byte_queue_peek(out).data, n);
	byte_queue_consume(out, n);
	return (ssize_t)n;
}

/* Reads up to the comment that says what this is: a workspace is made for an export only. */
static int read_beginning(struct archive *archive)
{
	struct pollfd readable = {.fd = STDIN_FILENO, .events = POLLIN};
	int r = 1;

	while (!archive->begun && (r > 0 || r == -EAGAIN)) {
		(void)poll(&readable, 1, -1);
		r = read_more(archive);
	}
	return r == 0 ? end_import(archive) : r;
}

/* A workspace with a part of the files must not be taken for the whole. */
static void remove_made(struct session *session, const char *name)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *params = json_object_new_object();
	int r;

	json_put(params, "workspace", json_object_new_string(name));
	r = request(session->cloister, "workspace.remove", params, &reply);
	if (r < 0)
		connection_complain(r);
	else if (!cloister_succeeded(reply))
		reply_complain(reply);
	else
		return;
	complain("the workspace '%s' has a part of the archive; `cloister workspace remove %s` "
		 "removes it",
		name, name);
}

static int run_import(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct archive archive = {.copy = copy_of(invocation)};
	int status = STATUS_TOOL_FAILED;

	if (isatty(STDIN_FILENO)) {
		complain("import reads an archive of `cloister export` from stdin; redirect "
			 "stdin, which is a terminal");
		return STATUS_USAGE;
	}
	archive.copy.whole = true;
	archive.copy.comment = take_comment;
	archive.copy.context = &archive;
	if (archive_copy_begin(&archive.copy) < 0 || read_beginning(&archive) < 0) {
		archive_copy_done(&archive.copy);
		return STATUS_TOOL_FAILED;
	}
	if (session_make(invocation, &session) < 0) {
		archive_copy_done(&archive.copy);
		return STATUS_NO_SERVICE;
	}
	archive.transfer = transfer_init(invocation, &archive);
	status = transfer_extract(
		&archive.transfer, &session, "p", false, ".", read_archive, STDIN_FILENO);
	if (status != STATUS_OK)
		remove_made(&session, invocation->workspace);
	archive_copy_done(&archive.copy);
	if (invocation->json)
		printf("{\"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"complete\": %s}\n",
			archive.copy.files, archive.copy.bytes,
			status == STATUS_OK ? "true" : "false");
	return status;
}

static const struct option_row options[] = {
	{"max-size", "BYTES", 'm', "stop if the files have more bytes; default 16G"},
	{"max-files", "NUMBER", 'M', "stop if there are more files; default 1000000"},
	{"idle-timeout", "DURATION", 'I', "stop if no data moves for this time; default 60s"},
	{"timeout", "DURATION", 't', "stop after this time in total; default 1h"},
	{0},
};

const struct command command_export = {
	.help = {"export", NULL, "Write a workspace's files to stdout, to move or to keep them.",
		"cloister --workspace project export >project.tar", options},
	.run = run_export,
};

const struct command command_import = {
	.help = {"import", NULL, "Make a managed workspace of what export has written.",
		"cloister --workspace copy import <project.tar", options},
	.run = run_import,
};
