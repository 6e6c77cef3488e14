// SPDX-License-Identifier: Apache-2.0
/*
 * cloister get: copies a directory or a file out of the workspace by tar(1) in a command there. All
 * its output is hostile: first the list of files, of which those that are already here unchanged
 * are left out, then the archive of the rest. tree_extract.h says what is written of it.
 */
#include "client/cmd/command.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "client/transfer/transfer.h"
#include "client/transfer/tree_extract.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Lists the wanted object: "d" or "f", then its files, each as transfer_read_record() reads it.
 * Prints "?" for the files if the workspace lacks the GNU programs for that, and "*" for those of a
 * directory if all are wanted ("n").
 */
static const char list_script[] =
	"command -v tar >/dev/null ||\n"
	"  { echo 'there is no tar in this workspace; get needs one' >&2; exit 127; }\n"
	"if [ -d \"$p\" ]; then cd -- \"$p\" || exit 1; k=d; printf 'd\\0'\n"
	"elif [ -f \"$p\" ]; then k=f; printf 'f\\0'\n"
	"else echo \"$p: no such file or directory in the workspace\" >&2; exit 1; fi\n"
	"case $(tar --version 2>/dev/null; find --version 2>/dev/null) in\n"
	"*GNU*GNU*) ;;\n"
	"*) printf '?\\0'; exit 0 ;;\n"
	"esac\n"
	"if [ \"$n$k\" = 1d ]; then printf '*\\0'\n"
	"elif [ -d \"$p\" ] || [ ! -f \"$p\" ]; then\n"
	"  find . -mindepth 1 \\( -type f -o -type d -o -type l \\) -printf '%y %m %s %T@ "
	"./%P\\0'\n"
	"else find -H \"$p\" -maxdepth 0 -printf '%y %m %s %T@ ./%f\\0'; fi\n";

#define GO_THERE                                                   \
	"if [ -d \"$p\" ]; then cd -- \"$p\" || exit 1; f=.; h=\n" \
	"else\n"                                                   \
	"  f=./${p##*/}; h=-h\n"                                   \
	"  case $p in */*) cd -- \"${p%/*}/\" || exit 1 ;; esac\n" \
	"fi\n"

#define TAR                                                                          \
	"tar -b 128 -cf - $h --format=posix --pax-option=delete=atime,delete=ctime " \
	"--hard-dereference --null "

static const char get_script[] = GO_THERE "exec " TAR "--no-recursion -T -\n";

/* tar passes FIFOs and devices on, too, which the list leaves out. */
static const char get_whole_script[] =
	GO_THERE "find . -mindepth 1 -maxdepth 1 \\( -type f -o -type d -o -type l \\) -print0 |\n"
		 "  " TAR "--warning=no-file-ignored -T -\n";

static const char get_all_script[] =
	"command -v tar >/dev/null ||\n"
	"  { echo 'there is no tar in this workspace; get needs one' >&2; exit 127; }\n" GO_THERE
	"exec tar -cf - $h \"$f\"\n";

struct get {
	const struct invocation *invocation;
	const char *path, *to;
	char kind;               /* 'd', 'f', or 0 until the workspace has said which */
	bool unlisted;           /* the workspace cannot list its files */
	bool is_new;             /* nothing is at the place that a directory would be copied to */
	bool whole;              /* so the workspace has listed none: all are wanted */
	char name[NAME_MAX + 3]; /* for a file: its name, after "./" */
	struct tree_extract *tree;
	struct tar_reader *reader;
	FILE *wanted; /* names, each with a NUL */
	uint64_t listed, listed_bytes, n_wanted, unchanged;
	struct transfer transfer;
};

/* Returns the last component of @path, or NULL if it has no name. */
static const char *last_name(const char *path, char *buffer, size_t size)
{
	size_t len = strlen(path);
	size_t start;

	while (len > 0 && path[len - 1] == '/')
		len--;
	for (start = len; start > 0 && path[start - 1] != '/';)
		start--;
	if (len == start || len - start >= size ||
		(len - start <= 2 && strncmp(path + start, "..", len - start) == 0))
		return NULL;
	memcpy(buffer, path + start, len - start);
	buffer[len - start] = '\0';
	return buffer;
}

static bool holds_something(const char *directory)
{
	DIR *opened = opendir(directory);
	const struct dirent *found;
	bool any = false;

	while (opened && !any && (found = readdir(opened)))
		any = strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0;
	if (opened)
		closedir(opened);
	return any;
}

/*
 * Whether the user may have meant a file, judged by its name @last and the destination. The
 * workspace could turn the file into a directory; it must not choose which other files are written
 * here.
 */
static bool could_mean_a_file(const struct get *get, const char *last)
{
	char name[NAME_MAX + 1];
	const char *to;

	if (!get->to || !last || get->path[strlen(get->path) - 1] == '/')
		return false;
	/* A directory of that name exists here: an earlier copy. */
	to = last_name(get->to, name, sizeof(name));
	return (!to || strcmp(to, last) != 0) && holds_something(get->to);
}

/* The workspace has said which kind the object is: opens the destination now. */
static int take_kind(struct get *get, struct text record)
{
	const struct invocation *invocation = get->invocation;
	struct tree_extract_limits limits = {
		.bytes = invocation->max_size ? invocation->max_size : LIMIT_GET_BYTES,
		.files = invocation->max_files ? invocation->max_files : LIMIT_GET_FILES,
		.any_links = invocation->any_links,
		/* In the workspace's own directory a command may have made the link. */
		.no_link = !get->to,
	};
	char name[NAME_MAX + 1];
	const char *last = last_name(get->path, name, sizeof(name));
	const char *to = get->to;

	get->kind = record.len == 1 ? record.data[0] : '\0';
	if (get->kind != 'd' && get->kind != 'f') {
		complain("the workspace did not send a list of files");
		return -EBADMSG;
	}
	if (get->kind == 'd' && could_mean_a_file(get, last)) {
		complain("'%s' is a directory in the workspace, and %s already contains other "
			 "files; to copy the directory's content there, write '%s/'",
			get->path, to, get->path);
		return -EISDIR;
	}
	if (get->kind == 'f' && last)
		snprintf(get->name, sizeof(get->name), "./%s", last);
	if (!to)
		to = get->kind == 'd' ? last : ".";
	if (!to || (get->kind == 'f' && !last)) {
		complain("name the directory to copy '%s' to: cloister get PATH DIR", get->path);
		return -EINVAL;
	}
	return tree_extract_new(to, &limits, &get->tree);
}

/*
 * Whether the entry was asked for. Only a single file may be written into a directory that holds
 * other things.
 */
static bool is_asked_for(const struct get *get, const struct tar_entry *entry)
{
	return get->kind == 'd' || (entry->type == TAR_FILE && strcmp(entry->path, get->name) == 0);
}

static int take_listed(struct text record, void *context)
{
	struct get *get = context;
	uint64_t max_files =
		get->invocation->max_files ? get->invocation->max_files : LIMIT_GET_FILES;
	struct tar_entry entry = {0};

	if (get->kind == '\0')
		return take_kind(get, record);
	if (record.len == 1 && record.data[0] == '?') {
		get->unlisted = true;
		return 0;
	}
	if (record.len == 1 && record.data[0] == '*' && get->is_new && get->kind == 'd') {
		get->whole = true;
		tree_extract_pass_over(get->tree);
		return 0;
	}
	if (transfer_read_record(record, true, &entry) < 0) {
		complain("the workspace did not send a list of files");
		return -EBADMSG;
	}
	get->listed_bytes += strlen(entry.path) + 1;
	if (++get->listed > max_files || get->listed_bytes > LIMIT_GET_NAMES_BYTES) {
		complain("there are more than %" PRIu64 " files; raise the limit with --max-files",
			get->listed - 1);
		return -EFBIG;
	}
	if (tree_extract_has(get->tree, &entry)) {
		get->unchanged++;
		return 0;
	}
	get->n_wanted++;
	if (fwrite(entry.path, strlen(entry.path) + 1, 1, get->wanted) != 1) {
		complain("cannot write a temporary file: %s", strerror(errno));
		return -EIO;
	}
	return 0;
}

static ssize_t read_wanted(void *buffer, size_t size, void *context)
{
	struct get *get = context;
	size_t n = fread(buffer, 1, size, get->wanted);

	if (n == 0 && ferror(get->wanted)) {
		complain("cannot read a temporary file: %s", strerror(errno));
		return -EIO;
	}
	return (ssize_t)n;
}

static int begin_entry(void *context, const struct tar_entry *entry)
{
	struct get *get = context;

	if (!is_asked_for(get, entry)) {
		_cleanup_free_ char *shown = terminal_text(entry->path);

		complain("the workspace sent '%s', which get did not ask for", shown ? shown : "?");
		return -EBADMSG;
	}
	return tree_extract_begin(get->tree, entry);
}

static int add_content(void *context, struct text data)
{
	struct get *get = context;

	return tree_extract_content(get->tree, data);
}

static int end_entry(void *context)
{
	struct get *get = context;

	return tree_extract_end(get->tree);
}

static int take_archive(struct text data, void *context)
{
	struct get *get = context;
	int r = tar_reader_feed(get->reader, data);

	if (r == -EBADMSG)
		complain("the workspace did not send the archive that get asked for");
	else if (r == -E2BIG)
		complain("the workspace sent a name that is too long");
	return r;
}

static int fetch(struct get *get, struct session *session)
{
	struct tar_reader_owner owner = {begin_entry, add_content, end_entry, NULL, get};
	const bool listed = !get->unlisted && !get->whole;
	const char *script = get_script;
	int status;

	if (get->unlisted)
		script = get_all_script;
	else if (get->whole)
		script = get_whole_script;
	if (get->n_wanted == 0 && listed)
		return STATUS_OK;
	if (tar_reader_new(&owner, &get->reader) < 0) {
		complain("out of memory");
		return STATUS_TOOL_FAILED;
	}
	rewind(get->wanted);
	get->transfer.records = NULL;
	get->transfer.bytes = take_archive;
	status = transfer_run(
		&get->transfer, session, script, "p", get->path, listed ? read_wanted : NULL, -1);
	if (status == STATUS_OK && !tar_reader_at_end(get->reader)) {
		complain("the archive ended early; run the same command again to copy the rest");
		status = STATUS_TOOL_FAILED;
	}
	return status;
}

/* Whether nothing that get could leave as it is can be where it would copy a directory to. */
static bool is_new(const struct get *get)
{
	char name[NAME_MAX + 1];
	const char *to = get->to ? get->to : last_name(get->path, name, sizeof(name));

	return to && !holds_something(to);
}

static int list(struct get *get, struct session *session)
{
	_cleanup_free_ char *script = NULL;

	get->is_new = is_new(get);
	if (asprintf(&script, "n=%s\n%s", get->is_new ? "1" : "", list_script) < 0) {
		complain("out of memory");
		return STATUS_OWN_FAILURE;
	}
	get->transfer.records = take_listed;
	return transfer_run(&get->transfer, session, script, "p", get->path, NULL, -1);
}

static int get_tree(struct get *get, struct session *session)
{
	struct tree_extract_result result;
	int status;

	get->wanted = tmpfile();
	if (!get->wanted) {
		complain("cannot make a temporary file: %s", strerror(errno));
		return STATUS_TOOL_FAILED;
	}
	status = list(get, session);
	if (status == STATUS_OK)
		status = get->kind ? fetch(get, session) : STATUS_TOOL_FAILED;
	tar_reader_free(get->reader);
	fclose(get->wanted);
	result = tree_extract_finish(get->tree);
	if (status == STATUS_OK && result.left_out > 0)
		status = STATUS_TOOL_FAILED;
	if (get->invocation->json)
		printf("{\"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"unchanged\": %" PRIu64
		       ", \"left_out\": %" PRIu64 ", \"complete\": %s}\n",
			result.files, result.bytes, get->unchanged, result.left_out,
			status == STATUS_OK ? "true" : "false");
	return status;
}

static int run_get(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_free_ char *path = NULL;
	struct get get = {.invocation = invocation};

	if (invocation->argv[0][0] == '\0') {
		complain_code("USAGE", "the PATH of get is empty; . is the workspace's root");
		return STATUS_USAGE;
	}
	if (invocation->argc == 2)
		get.to = invocation->argv[1];
	if (get.to && strcmp(get.to, "-") == 0 && isatty(STDOUT_FILENO)) {
		complain("get PATH - writes a tar archive to stdout; redirect stdout, which is a "
			 "terminal");
		return STATUS_USAGE;
	}
	/* A leading '-' must not look like an option. */
	if (asprintf(&path, "%s%s", invocation->argv[0][0] == '-' ? "./" : "",
		    invocation->argv[0]) < 0)
		return STATUS_OWN_FAILURE;
	get.path = path;
	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	get.transfer = transfer_init(invocation, &get);
	if (!get.to || strcmp(get.to, "-") != 0)
		return get_tree(&get, &session);
	get.transfer.to_fd = STDOUT_FILENO;
	return transfer_run(&get.transfer, &session, get_all_script, "p", get.path, NULL, -1);
}

static const struct option_row options[] = {
	{"max-size", "BYTES", 'm', "stop if the files have more bytes; default 16G"},
	{"max-files", "NUMBER", 'M', "stop if there are more files; default 1000000"},
	{"any-links", NULL, 'a', "create symbolic links that lead out of DIR too"},
	{"idle-timeout", "DURATION", 'I', "stop if no data moves for this time; default 60s"},
	{"timeout", "DURATION", 't', "stop after this time in total; default 1h"},
	{0},
};

const struct command command_get = {
	.help = {"get", "PATH [DIR|-]",
		"Copy a file or a directory's content out of the workspace.",
		"cloister --workspace project get input ./copy", options},
	.least = 1,
	.most = 2,
	.run = run_get,
};
