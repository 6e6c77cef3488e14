// SPDX-License-Identifier: Apache-2.0
/*
 * A program whose calls outlive a connection: makes one call that says "begun", and is answered
 * when the file "go" exists. usage: repeat SOCKET DIRECTORY PATIENCE_MS COMMAND...
 */
#include <cloister.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int r, const char *what)
{
	if (r == 0)
		return;
	printf("%s: %s\n", what, strerror(-r));
	exit(0);
}

int main(int argc, char **argv)
{
	struct cloister_message *reply = NULL;
	struct cloister *cloister = NULL;

	if (argc < 5)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	check(cloister_open(argv[1], &cloister), "open");
	check(cloister_set_reconnect(cloister, strtoll(argv[3], NULL, 10)), "reconnect");
	check(cloister_workspace(cloister, argv[2], &reply), "workspace");
	if (!cloister_succeeded(reply))
		printf("workspace: %s\n", cloister_error_message(reply));
	cloister_message_free(reply);
	if (cloister_call(cloister,
		    &(struct cloister_tool_call){.tool = "run_command", .options = "[]"},
		    &reply) != -EINVAL)
		printf("options that are no object were taken\n");
	for (int i = 4; i < argc; i++) {
		struct cloister_object *arguments = cloister_object_new();
		struct cloister_tool_call call = {.tool = "run_command"};
		bool replayed = false;
		int64_t status = -1;

		cloister_object_string(arguments, "command", argv[i], strlen(argv[i]));
		call.arguments = cloister_object_text(arguments);
		check(cloister_call(cloister, &call, &reply), "call");
		cloister_get_bool(reply, "/replayed", &replayed);
		cloister_get_int64(reply, "/output/exit_code", &status);
		if (cloister_succeeded(reply))
			printf("exit %d%s\n", (int)status, replayed ? ", replayed" : "");
		else
			printf("%s\n", cloister_error_name(reply));
		cloister_message_free(reply);
		cloister_object_free(arguments);
	}
	cloister_close(cloister);
	return 0;
}
