// SPDX-License-Identifier: Apache-2.0
/*
 * cloister put: copies directories, files or a tar archive into the workspace by tar(1) in a
 * command there, to the places that cp -r would copy them to. Whatever the archive contains, that
 * command can reach only the workspace. What is in the way is found before anything is written: the
 * workspace lists what it has, and tar replaces nothing that the list does not tell of.
 */
#include "client/cmd/command.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/shell_words.h"
#include "client/terminal_text.h"
#include "client/transfer/progress.h"
#include "client/transfer/transfer.h"
#include "client/transfer/tree_source.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Where put copies its sources to, by the rules of cp -r: into a directory that is there, each
 * under its own name; a single source to a name that is not there, as that name. "DIR/." is the
 * content of DIR. The workspace says what is there, and can only misplace its own files.
 */
struct put_target {
	char *directory; /* of the workspace; it may have to be made */
	char **names;    /* of each source in it: "./NAME", or "." for a directory's content */
	int n;
};

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

/*
 * Finds the target of @n @sources that are copied to @to. Returns a status, after printing why it
 * is not STATUS_OK; call put_target_done() in any case.
 */
static int put_target_find(struct transfer *transfer, struct session *session, char *const *sources,
	int n, const char *to, struct put_target *ret)
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

/* Returns @script with the target's names as its arguments; malloc'ed, or NULL after printing. */
static char *put_target_script(const struct put_target *target, const char *script)
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

static void put_target_done(struct put_target *target)
{
	for (int i = 0; i < target->n; i++)
		free(target->names[i]);
	free(target->names);
	free(target->directory);
	*target = (struct put_target){0};
}

/*
 * Lists what is at "$@" as "TYPE MODE SIZE MTIME PATH" with a NUL each, and then "complete".
 * find(1) of other systems than GNU's lists the paths only, and then all files are sent.
 */
static const char list_script[] = "cd -- \"$d\" 2>/dev/null || { printf 'complete\\0'; exit 0; }\n"
				  "if find . -prune -printf '' 2>/dev/null; then\n"
				  "  find \"$@\" -printf '%y %m %s %T@ %p\\0' 2>/dev/null\n"
				  "elif find . -prune -print0 >/dev/null 2>&1; then\n"
				  "  find \"$@\" ! -type d -print0 2>/dev/null\n"
				  "else exit 0; fi\n"
				  "printf 'complete\\0'\n";

struct put {
	struct session *session;
	bool overwrite;
	struct known_files *known;        /* what the workspace has, as it is */
	struct known_files *present;      /* the paths that it has, with marks for their kind */
	bool listed;                      /* the whole list came */
	char in_the_way[PATH_MAX];        /* the first such path; "": none */
	struct tree_source_result result; /* of all sources */
	struct tree_source *source;
	struct transfer transfer;
};

/* A member of put->present. */
static struct tar_entry mark_of(const char *path, bool directory)
{
	struct tar_entry mark = {.type = directory ? TAR_DIRECTORY : TAR_FILE};

	snprintf(mark.path, sizeof(mark.path), "%s", path);
	return mark;
}

/* Takes an entry, or without its description a path that is no directory. */
static int take_known(struct text record, void *context)
{
	struct put *put = context;
	struct tar_entry entry = {0}, mark;
	int r;

	put->listed = text_equal(record, TEXT_LITERAL("complete"));
	if (put->listed)
		return 0;
	r = transfer_read_record(record, true, &entry);
	if (r < 0 && (record.len < 2 || strncmp(record.data, "./", 2) != 0))
		return 0;
	if (r < 0)
		snprintf(entry.path, sizeof(entry.path), "%s", record.data);
	else if (entry.type != TAR_DIRECTORY)
		known_files_add(put->known, &entry);
	/* The directory that is put into is in nobody's way. */
	if (strcmp(entry.path, ".") == 0)
		return 0;
	mark = mark_of(entry.path, entry.type == TAR_DIRECTORY);
	return known_files_add(put->present, &mark);
}

/* Whether the workspace has @entry as it is. */
static bool is_known(const struct put *put, const struct tar_entry *entry)
{
	struct tar_entry named = *entry;

	if (entry->type == TAR_SYMLINK)
		named.size = strlen(entry->link);
	return entry->type != TAR_DIRECTORY && known_files_has(put->known, &named);
}

static bool skips(void *context, const struct tar_entry *entry)
{
	return is_known(context, entry);
}

/* Looks at every entry before any is sent, and goes into directories only. */
static bool finds_in_the_way(void *context, const struct tar_entry *entry)
{
	struct put *put = context;
	bool directory = entry->type == TAR_DIRECTORY;
	struct tar_entry same = mark_of(entry->path, directory),
			 other = mark_of(entry->path, !directory);

	/* No file is replaced by a directory, nor a directory by a file. */
	if (put->in_the_way[0] == '\0' && !is_known(put, entry) &&
		(known_files_has(put->present, &other) ||
			(!directory && !put->overwrite && known_files_has(put->present, &same))))
		snprintf(put->in_the_way, sizeof(put->in_the_way), "%s", entry->path + 2);
	return !directory;
}

static ssize_t read_tree(void *buffer, size_t size, void *context)
{
	struct put *put = context;

	return (ssize_t)tree_source_read(put->source, buffer, size);
}

/* Finds out what is at the targets. Returns a status. */
static int list_targets(struct put *put, const struct put_target *target)
{
	_cleanup_free_ char *script = put_target_script(target, list_script);
	int status;

	put->known = known_files_new();
	put->present = known_files_new();
	if (!put->known || !put->present || !script)
		return STATUS_TOOL_FAILED;
	put->transfer.records = take_known;
	status = transfer_run(
		&put->transfer, put->session, script, "d", target->directory, NULL, -1);
	put->transfer.records = NULL;
	if (status == STATUS_OK && !put->listed && !put->overwrite) {
		complain_code("FILE_EXISTS",
			"this workspace has no find(1) to see what is in the way: nothing was "
			"copied; --overwrite copies, and replaces what is there");
		status = STATUS_TOOL_FAILED;
	}
	return status;
}

/*
 * Goes through @source without reading its files, if anything can be in its way. Returns a status.
 */
static int check_source(struct put *put, const char *path, const char *as)
{
	const struct tree_source_owner owner = {finds_in_the_way, put, .quiet = true};
	static unsigned char headers[2 * TAR_HEADER_MAX];
	struct tree_source *source;

	if (tree_source_new(path, as, &owner, &source) < 0)
		return STATUS_TOOL_FAILED;
	while (!known_files_is_empty(put->present) &&
		tree_source_read(source, headers, sizeof(headers)) > 0)
		;
	(void)tree_source_end(source);
	return STATUS_OK;
}

static int complain_in_the_way(const struct put *put, const struct put_target *target)
{
	_cleanup_free_ char *shown = terminal_text(put->in_the_way);
	bool here = strcmp(target->directory, ".") == 0;

	complain_code("FILE_EXISTS", "%s%s%s is in the way: nothing was copied; %s",
		here ? "" : target->directory, here ? "" : "/", shown ? shown : "?",
		put->overwrite ? "a directory does not replace a file, nor a file a directory"
			       : "--overwrite replaces what is there");
	return STATUS_TOOL_FAILED;
}

static int send_source(
	struct put *put, const struct put_target *target, const char *path, const char *as)
{
	const struct tree_source_owner owner = {
		known_files_is_empty(put->known) ? NULL : skips, put, .quiet = false};
	struct tree_source_result result;
	int status;

	if (tree_source_new(path, as, &owner, &put->source) < 0)
		return STATUS_TOOL_FAILED;
	status = transfer_extract(&put->transfer, put->session, "p", put->overwrite,
		target->directory, read_tree, -1);
	result = tree_source_end(put->source);
	put->result.files += result.files;
	put->result.bytes += result.bytes;
	put->result.skipped += result.skipped;
	put->result.failed += result.failed;
	return result.failed > 0 && status == STATUS_OK ? STATUS_TOOL_FAILED : status;
}

static int put_trees(struct put *put, char *const *sources, int n, const char *to)
{
	struct put_target target = {0};
	int status = put_target_find(&put->transfer, put->session, sources, n, to, &target);

	if (status == STATUS_OK)
		status = list_targets(put, &target);
	for (int i = 0; i < n && status == STATUS_OK; i++)
		status = check_source(put, sources[i], target.names[i]);
	if (status == STATUS_OK && put->in_the_way[0] != '\0')
		status = complain_in_the_way(put, &target);
	else
		for (int i = 0; i < n && status == STATUS_OK; i++)
			status = send_source(put, &target, sources[i], target.names[i]);
	put_target_done(&target);
	return status;
}

static int print_result(const struct put *put, bool json, int status)
{
	if (json)
		printf("{\"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"unchanged\": %" PRIu64
		       ", \"failed\": %" PRIu64 ", \"complete\": %s}\n",
			put->result.files, put->result.bytes, put->result.skipped,
			put->result.failed, status == STATUS_OK ? "true" : "false");
	return status;
}

static int run_put(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct put put = {.session = &session, .overwrite = invocation->overwrite};
	bool archive = strcmp(invocation->argv[0], "-") == 0;
	int n = invocation->argc > 1 ? invocation->argc - 1 : 1, status;
	const char *to = invocation->argc > 1 ? invocation->argv[n] : ".";

	if (archive && n > 1) {
		complain("put - copies one archive: give no other source");
		return STATUS_USAGE;
	}
	if (archive && isatty(STDIN_FILENO)) {
		complain("put - reads a tar archive from stdin; redirect stdin, which is a "
			 "terminal");
		return STATUS_USAGE;
	}
	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	put.transfer = transfer_init(invocation, &put);
	status = archive ? transfer_extract(&put.transfer, &session, "", put.overwrite, to,
				   remote_read_stdin, STDIN_FILENO)
			 : put_trees(&put, invocation->argv, n, to);
	known_files_free(put.known);
	known_files_free(put.present);
	return print_result(&put, invocation->json, status);
}

static const struct option_row options[] = {
	{"overwrite", NULL, 'O', "replace files that are there and differ"},
	{"idle-timeout", "DURATION", 'I', "stop if no data moves for this time; default 60s"},
	{"timeout", "DURATION", 't', "stop after this time in total; default 1h"},
	{0},
};

const struct command command_put = {
	.help = {"put", "DIR|FILE|- ... [DEST]",
		"Copy directories, files or a tar archive into the workspace, as cp -r does.",
		"cloister --workspace project put ./data input", options},
	.least = 1,
	.most = INT_MAX,
	.run = run_put,
};
