// SPDX-License-Identifier: Apache-2.0
/*
 * cloister edit: edit_file and apply_patch for people and scripts. What is changed is printed as a
 * diff, or a line a file. Diffs and names come from the workspace and are not trusted.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/reply.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct json_object *edit_arguments(const struct invocation *invocation)
{
	struct json_object *arguments = json_object_new_object();
	struct json_object *edits = json_object_new_array(), *edit = json_object_new_object();

	json_put(edit, "old", json_object_new_string(invocation->argv[1]));
	json_put(edit, "new", json_object_new_string(invocation->argv[2]));
	if (invocation->all)
		json_put(edit, "all", json_object_new_boolean(true));
	json_put(arguments, "path", json_object_new_string(invocation->argv[0]));
	json_put(arguments, "edits", edits);
	if (invocation->expect)
		json_put(arguments, "expect", json_object_new_string(invocation->expect));
	if (json_object_array_add(edits, edit) == 0)
		return arguments;
	json_object_put(edit);
	json_object_put(arguments);
	complain("out of memory");
	return NULL;
}

/* Reads a patch of at most LIMIT_PATCH_BYTES. Returns it, to be freed, or NULL after a complaint.
 */
static char *read_patch(const char *name, size_t *ret_len)
{
	const bool from_stdin = strcmp(name, "-") == 0;
	_cleanup_close_ int opened = from_stdin ? -1 : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int fd = from_stdin ? STDIN_FILENO : opened;
	_cleanup_free_ char *patch = malloc(LIMIT_PATCH_BYTES + 1);
	ssize_t n;

	if (!patch) {
		complain("out of memory");
		return NULL;
	}
	n = fd < 0 ? -errno : io_read(fd, patch, LIMIT_PATCH_BYTES + 1, IO_POSITION);
	if (n < 0) {
		complain("cannot read the patch '%s': %s", name, strerror((int)-n));
		return NULL;
	}
	if ((size_t)n > LIMIT_PATCH_BYTES) {
		complain("the patch '%s' has more than %d bytes; split it", name,
			(int)LIMIT_PATCH_BYTES);
		return NULL;
	}
	*ret_len = (size_t)n;
	return TAKE_PTR(patch);
}

static struct json_object *patch_arguments(const char *name)
{
	struct json_object *arguments;
	size_t len = 0;
	_cleanup_free_ char *patch = read_patch(name, &len);

	if (!patch)
		return NULL;
	arguments = json_object_new_object();
	json_put(arguments, "patch", json_object_new_string_len(patch, (int)len));
	return arguments;
}

static void print_text(const struct cloister_message *reply, const char *path)
{
	const char *text = cloister_get_string(reply, path, NULL);

	if (text)
		terminal_print(stdout, text_from(text));
}

/* A file of a patch: "update src/a.c +3 -1", and for one that is moved where it came from. */
static void print_file(struct json_object *file)
{
	show("%s %s", field_text(file, "op"), field_text(file, "path"));
	if (field(file, "old_path"))
		show(" (was %s)", field_text(file, "old_path"));
	if (field(file, "added") && field(file, "removed"))
		show(" +%lld -%lld", field_number(file, "added"), field_number(file, "removed"));
	show("\n");
}

static void print_change(const struct cloister_message *reply)
{
	struct json_object *observation = reply_result(reply), *files;

	print_text(reply, "/output/diff");
	files = field(field(observation, "output"), "files");
	for (size_t i = 0; i < elements(files); i++)
		print_file(element(files, i));
	json_object_put(observation);
}

static int print_result(const struct invocation *invocation, const struct cloister_message *reply)
{
	const char *message = cloister_get_string(reply, "/error/message", NULL);
	const char *code = cloister_get_string(reply, "/error/code", NULL);
	_cleanup_free_ char *shown = NULL;
	const char *observation;

	if (cloister_json_error(reply) != 0)
		return reply_complain(reply);
	if (invocation->json) {
		observation = cloister_get_json(reply, "", true);
		if (observation)
			terminal_put_json(observation);
	} else if (cloister_succeeded(reply)) {
		print_change(reply);
	} else {
		shown = terminal_text(message ? message : "the service sent an invalid answer");
		complain("%s (%s)", shown ? shown : "out of memory", code ? code : "?");
	}
	return cloister_succeeded(reply) ? STATUS_OK : STATUS_TOOL_FAILED;
}

static int run_edit(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_message_ struct cloister_message *reply = NULL;
	struct json_object *arguments, *params;
	int r;

	if ((invocation->patch != NULL) == (invocation->argc > 0) ||
		(!invocation->patch && invocation->argc != 3)) {
		complain_code("USAGE", "edit takes PATH, OLD and NEW, or only --patch");
		help_refer(&cloister_program, &command_edit.help);
		return STATUS_USAGE;
	}
	if (invocation->patch && (invocation->all || invocation->expect)) {
		complain_code("USAGE", "--all and --expect do not go with --patch");
		return STATUS_USAGE;
	}
	arguments =
		invocation->patch ? patch_arguments(invocation->patch) : edit_arguments(invocation);
	if (!arguments)
		return STATUS_OWN_FAILURE;
	params = json_object_new_object();
	json_put(params, "tool",
		json_object_new_string(invocation->patch ? "apply_patch" : "edit_file"));
	json_put(params, "arguments", arguments);
	json_put(params, "options", json_object_get(invocation->options));
	if (session_open(invocation, true, &session) < 0) {
		json_object_put(params);
		return STATUS_NO_SERVICE;
	}
	r = request(session.cloister, "tool.call", params, &reply);
	if (r == 0)
		return print_result(invocation, reply);
	connection_complain(r);
	return STATUS_NO_SERVICE;
}

static const struct option_row options[] = {
	{"all", NULL, 'g', "replace every occurrence of OLD, not the only one"},
	{"expect", "VERSION", 'x', "change the file only if it still has this version"},
	{"patch", "FILE", 'u', "apply a patch of several files, all or nothing; - is stdin"},
	{"key", "KEY", 'y', "make the change once: again with the same key is no new call"},
	{0},
};

const struct command command_edit = {
	.help = {"edit", "[PATH OLD NEW]",
		"Replace a piece of text in a file of the workspace, or apply a patch.",
		"cloister edit config.ini 'port = 80' 'port = 8080'", options},
	.least = 0,
	.most = 3,
	.run = run_edit,
};
