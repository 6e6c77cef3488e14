// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. The workspace says what is there, and can only misplace its own files. */
#include "client/transfer/put_target.h"

#include "client/cmd/command.h"
#include "client/shell_words.h"
#include "client/transfer/transfer.h"
#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What the workspace has at the destination; "-L": a link that leads nowhere is there too. */
static const char kind_script[] = "if [ -d \"$d\" ]; then printf 'directory\\0'\n"
				  "elif [ -e \"$d\" ] || [ -L \"$d\" ]; then printf 'file\\0'\n"
				  "else printf 'none\\0'; fi\n";

enum kind { KIND_NONE, KIND_FILE, KIND_DIRECTORY };

/*
 * The records of put go to its struct; while the kind is looked for, this is the context instead.
 */
static int take_kind(struct text record, void *context)
{
	enum kind *kind = context;

	if (text_equal(record, TEXT_LITERAL("directory")))
		*kind = KIND_DIRECTORY;
	else if (text_equal(record, TEXT_LITERAL("file")))
		*kind = KIND_FILE;
	return 0;
}

static int find_kind(
	struct transfer *transfer, struct session *session, const char *to, enum kind *ret)
{
	void *context = transfer->context;
	int status;

	*ret = KIND_NONE;
	transfer->context = ret;
	transfer->records = take_kind;
	status = transfer_run(transfer, session, kind_script, "d", to, NULL, -1);
	transfer->records = NULL;
	transfer->context = context;
	return status;
}

/* The length of @path without slashes at its end. */
static size_t trimmed_len(const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	return len;
}

/* Returns "./" and the last component of @path, or "." if that is ".", ".." or "/"; malloc'ed. */
static char *put_source_name(const char *path)
{
	size_t end = trimmed_len(path), start = end;
	char *name;

	while (start > 0 && path[start - 1] != '/')
		start--;
	if (start == end || (end - start == 1 && path[start] == '.') ||
		(end - start == 2 && strncmp(path + start, "..", 2) == 0))
		return strdup(".");
	return asprintf(&name, "./%.*s", (int)(end - start), path + start) < 0 ? NULL : name;
}

/* Returns @path without its last component, or "." if it has only one; malloc'ed. */
static char *directory_of(const char *path)
{
	size_t len = trimmed_len(path);

	while (len > 0 && path[len - 1] != '/')
		len--;
	if (len == 0)
		return strdup(".");
	return strndup(path, len > 1 ? len - 1 : len);
}

/* A single source that gets the name @to. Returns a status. */
static int check_single(const char *source, const char *to, enum kind kind)
{
	struct stat status;

	if (stat(source, &status) < 0) {
		complain("%s: %s", source, strerror(errno));
		return STATUS_TOOL_FAILED;
	}
	if (S_ISDIR(status.st_mode) && kind == KIND_FILE) {
		complain_code("FILE_EXISTS",
			"%s is a file of the workspace, which a directory does not replace", to);
		return STATUS_TOOL_FAILED;
	}
	if (!S_ISDIR(status.st_mode) && to[strlen(to) - 1] == '/') {
		complain_code("NOT_FOUND",
			"there is no directory %s in the workspace; without the slash the file "
			"gets this name",
			to);
		return STATUS_TOOL_FAILED;
	}
	return STATUS_OK;
}

int put_target_find(struct transfer *transfer, struct session *session, char *const *sources, int n,
	const char *to, struct put_target *ret)
{
	enum kind kind;
	int status;
	bool single;

	if (*to == '\0') {
		complain("the destination is empty; the workspace's root is .");
		return STATUS_USAGE;
	}
	status = find_kind(transfer, session, to, &kind);
	single = kind != KIND_DIRECTORY;
	if (status == STATUS_OK && single && n > 1) {
		complain_code("NOT_FOUND",
			"%s is no directory of the workspace, so several sources cannot go there",
			to);
		status = STATUS_TOOL_FAILED;
	}
	if (status == STATUS_OK && single)
		status = check_single(sources[0], to, kind);
	if (status != STATUS_OK)
		return status;
	ret->directory = single ? directory_of(to) : strdup(to);
	ret->names = calloc((size_t)n, sizeof(*ret->names));
	for (int i = 0; i < n && ret->names; i++, ret->n++)
		ret->names[i] = put_source_name(single ? to : sources[i]);
	for (int i = 0; i < n; i++)
		if (!ret->directory || !ret->names || !ret->names[i]) {
			complain("out of memory");
			return STATUS_OWN_FAILURE;
		}
	return STATUS_OK;
}

char *put_target_script(const struct put_target *target, const char *script)
{
	char *whole = strdup("set --\n");

	for (int i = 0; i < target->n && whole; i++) {
		_cleanup_free_ char *before = whole;
		_cleanup_free_ char *assignment = shell_assignment("s", target->names[i]);

		if (!assignment ||
			asprintf(&whole, "%s%s\nset -- \"$@\" \"$s\"\n", before, assignment) < 0)
			whole = NULL;
	}
	if (whole) {
		_cleanup_free_ char *before = whole;

		if (asprintf(&whole, "%s%s", before, script) < 0)
			whole = NULL;
	}
	if (!whole)
		complain("out of memory");
	return whole;
}

void put_target_done(struct put_target *target)
{
	for (int i = 0; i < target->n; i++)
		free(target->names[i]);
	free(target->names);
	free(target->directory);
	*target = (struct put_target){0};
}
