// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. Names come from the workspace and are escaped for a terminal. The command has
 * stdout, so all this is on stderr.
 */
#include "client/preview.h"
#include "client/fields.h"

#include "client/arguments.h"
#include "client/cmd/cmd_diff.h"
#include "client/cmd/command.h"
#include "client/reply.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "libcloister/cloister.h"

#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether there is something to keep. */
static bool tell_preview(struct json_object *diff)
{
	struct json_object *error = field(diff, "error");

	if (error) {
		complain("what has changed is not known: %s", field_text(error, "message"));
		return true;
	}
	if (!diff_has_changes(diff)) {
		fputs("cloister: nothing has changed\n", stderr);
		return false;
	}
	diff_print_names(stderr, diff);
	(void)diff_complain_of_rest(diff);
	return true;
}

/* A signal that asks us to end does so now, and the end of the connection undoes the changes. */
static bool ask_to_apply(void)
{
	char answer[16];
	sigset_t set;

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	fputs("Keep these changes? [y/N] ", stderr);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

int preview_decide(struct cloister *cloister, const struct invocation *invocation,
	struct json_object *diff, int status)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	bool keep;
	int r;

	if (!diff)
		return status;
	keep = !invocation->json && tell_preview(diff) && ask_to_apply();
	r = request(cloister, keep ? "transaction.commit" : "transaction.discard",
		json_object_new_object(), &reply);
	if (r < 0)
		connection_complain(r);
	else if (!cloister_succeeded(reply))
		reply_complain(reply);
	else if (!invocation->json)
		fprintf(stderr, "cloister: the changes are %s\n", keep ? "kept" : "undone");
	return r < 0 || !cloister_succeeded(reply) ? STATUS_OWN_FAILURE : status;
}
