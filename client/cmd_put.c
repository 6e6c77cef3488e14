// SPDX-License-Identifier: Apache-2.0
/*
 * cloister put: copies a directory, a file or a tar archive into the workspace by tar(1) in a
 * command there. Whatever the archive contains, that command can reach only the workspace.
 * Unchanged files are left out: the workspace lists its files, and if the list is wrong it only
 * misses a file.
 */
#include "client/command.h"
#include "client/progress.h"
#include "client/remote.h"
#include "client/session.h"
#include "client/transfer.h"
#include "client/tree_source.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Lists regular files as "MODE SIZE MTIME PATH" with a NUL each. Without GNU find(1) it lists none,
 * and all files are sent.
 */
static const char list_script[] = "cd -- \"$d\" 2>/dev/null || exit 0\n"
				  "find . -type f -printf '%m %s %T@ %P\\0' 2>/dev/null || :\n";

/*
 * If tar is interrupted, the file that it was writing is removed, because it may be incomplete. tar
 * prints each name before it writes the file, in a form that printf(1) can decode.
 *
 * The modes of the user's own tree are kept whatever the umask is. An archive may have modes that
 * commands cannot set (set-user-ID); tar(1) without "p" leaves them out.
 */
#define PUT_SCRIPT(keep_modes)                                                           \
	"trap : TERM\n"                                                                  \
	"command -v tar >/dev/null ||\n"                                                 \
	"  { echo 'there is no tar in this workspace; put needs one' >&2; exit 127; }\n" \
	"mkdir -p -- \"$d\" && cd -- \"$d\" || exit 1\n"                                 \
	"case $(tar --version 2>/dev/null) in\n"                                         \
	"*GNU*) ;;\n"                                                                    \
	"*) tar -x" keep_modes "f -; exit ;;\n"                                          \
	"esac\n"                                                                         \
	"r=$({ trap : TERM; LC_ALL=C tar -x" keep_modes "vf - --no-same-owner "          \
	"--warning=no-timestamp --quoting-style=escape; echo $?; "                       \
	"} |\n"                                                                          \
	"  (trap '' TERM; exec tail -n 2))\n"                                            \
	"n='\n'\n"                                                                       \
	"s=${r##*\"$n\"}\n"                                                              \
	"if [ \"$s\" -gt 128 ] && [ \"$s\" != \"$r\" ]; then\n"                          \
	"  f=$(printf '%s' \"${r%\"$n\"*}\" | sed 's/%/%%/g')\n"                         \
	"  f=$(printf \"${f}_\")\n"                                                      \
	"  [ -f \"./${f%_}\" ] && rm -f -- \"./${f%_}\"\n"                               \
	"fi\n"                                                                           \
	"exit $s\n"

static const char put_tree_script[] = PUT_SCRIPT("p");
static const char put_archive_script[] = PUT_SCRIPT("");

struct put {
	struct tree_source *source; /* NULL: stdin is an archive */
	struct known_files *known;
	struct transfer transfer;
};

static int take_known(struct text record, void *context)
{
	struct put *put = context;
	struct tar_entry entry = {0};

	if (transfer_read_record(record, false, &entry) < 0)
		return 0; /* only a file that will be sent counts */
	return known_files_add(put->known, &entry);
}

static bool is_known(void *context, const struct tar_entry *entry)
{
	struct put *put = context;
	struct tar_entry named = *entry;

	/* in the form in which the workspace lists it */
	if (strncmp(named.path, "./", 2) == 0)
		memmove(named.path, named.path + 2, strlen(named.path) - 1);
	return entry->type == TAR_FILE && known_files_has(put->known, &named);
}

static ssize_t read_tree(void *buffer, size_t size, void *context)
{
	struct put *put = context;

	return (ssize_t)tree_source_read(put->source, buffer, size);
}

static int print_result(const struct put *put, bool json, int status)
{
	struct tree_source_result result = {0};

	result = tree_source_end(put->source);
	if (result.failed > 0 && status == STATUS_OK)
		status = STATUS_TOOL_FAILED;
	if (json)
		printf("{\"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"unchanged\": %" PRIu64
		       ", \"failed\": %" PRIu64 ", \"complete\": %s}\n",
			result.files, result.bytes, result.skipped, result.failed,
			status == STATUS_OK ? "true" : "false");
	return status;
}

static int put_all(struct put *put, struct session *session, const char *from, const char *to)
{
	struct tree_source_owner owner = {is_known, put};
	int status;

	if (strcmp(from, "-") == 0)
		return transfer_run(&put->transfer, session, put_archive_script, "d", to,
			remote_read_stdin, STDIN_FILENO);
	put->known = known_files_new();
	if (!put->known || tree_source_new(from, &owner, &put->source) < 0)
		return STATUS_TOOL_FAILED;
	put->transfer.records = take_known;
	status = transfer_run(&put->transfer, session, list_script, "d", to, NULL, -1);
	put->transfer.records = NULL;
	if (status != STATUS_OK)
		return status;
	return transfer_run(&put->transfer, session, put_tree_script, "d", to, read_tree, -1);
}

static int run_put(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	struct put put = {0};
	int status;

	if (strcmp(invocation->argv[0], "-") == 0 && isatty(STDIN_FILENO)) {
		complain("put - reads a tar archive from stdin; redirect stdin, which is a "
			 "terminal");
		return STATUS_USAGE;
	}
	if (session_open(invocation, true, &session) < 0)
		return STATUS_NO_SERVICE;
	put.transfer = transfer_init(invocation, &put);
	status = put_all(&put, &session, invocation->argv[0],
		invocation->argc == 2 ? invocation->argv[1] : ".");
	known_files_free(put.known);
	return print_result(&put, invocation->json, status);
}

static const struct option_row options[] = {
	{"idle-timeout", "DURATION", 'I', "stop if no data moves for this time; default 60s"},
	{"timeout", "DURATION", 't', "stop after this time in total; default 1h"},
	{0},
};

const struct command command_put = {
	.help = {"put", "DIR|FILE|- [DEST]",
		"Copy a directory's content, a file or a tar archive into the workspace.",
		"cloister --workspace project put ./data input", options},
	.least = 1,
	.most = 2,
	.usage_status = STATUS_USAGE,
	.run = run_put,
};
