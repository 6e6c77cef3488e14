// SPDX-License-Identifier: Apache-2.0
/*
 * cloister harness: prints a shell script that sets an agent's harness up with cloister's tools and
 * without its own. Runs as the calling user, and needs no service.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/harness_recipes.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/utf8.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static const char *name_at(size_t index)
{
	return harness_at(index) ? harness_at(index)->name : NULL;
}

static const struct harness *harness_by_name(const char *name)
{
	const struct harness *harness;

	for (size_t i = 0; (harness = harness_at(i)); i++)
		if (strcmp(harness->name, name) == 0)
			break;
	return harness;
}

/* Harnesses replace $NAME, ${NAME} and {env:NAME} in their settings. */
static bool is_plain(const char *word)
{
	for (const char *c = word; *c; c++)
		if ((unsigned char)*c < ' ' || strchr("\x7f${}", *c))
			return false;
	return utf8_is_valid((struct text){word, strlen(word)});
}

/* Adds @option and its @value, or only the one that is not NULL. */
static int add_harness_option(struct json_object *args, const char *option, const char *value)
{
	if (value && !is_plain(value)) {
		complain_code("USAGE",
			"%s: harnesses cannot be given a path with $, {, }, a control character or "
			"a byte that is not UTF-8; rename it",
			value);
		return -EINVAL;
	}
	if (option)
		json_object_array_add(args, json_object_new_string(option));
	if (value)
		json_object_array_add(args, json_object_new_string(value));
	return 0;
}

static int add_socket(struct json_object *args, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);

	if (!real) {
		complain("%s: %s", path, strerror(errno));
		return -errno;
	}
	return add_harness_option(args, "--socket", real);
}

/*
 * The words after `cloister` that start its MCP server as this command line would. No harness shows
 * its model both forms of a result, and structured content would take up half of its room.
 */
static int take_args(const struct invocation *invocation, struct json_object *args)
{
	_cleanup_free_ char *directory = NULL;
	const char *name;
	int r = session_workspace(invocation, &directory, &name);

	if (r == 0)
		r = add_harness_option(args, "--workspace", directory ? directory : name);
	if (r == 0 && invocation->socket_path)
		r = add_socket(args, invocation->socket_path);
	for (size_t i = 0; r == 0 && invocation->readonly_paths[i]; i++)
		r = add_harness_option(args, "--readonly-path", invocation->readonly_paths[i]);
	for (size_t i = 0; r == 0 && invocation->allow_net[i]; i++)
		r = add_harness_option(args, "--allow-net", invocation->allow_net[i]);
	for (size_t i = 0; r == 0 && invocation->allow_private_net[i]; i++)
		r = add_harness_option(
			args, "--allow-private-net", invocation->allow_private_net[i]);
	if (r == 0 && invocation->private_only && !invocation->readonly_paths[0] &&
		!invocation->allow_net[0])
		r = add_harness_option(args, "--private", NULL);
	if (r == 0 && invocation->rootfs)
		r = add_harness_option(args, "--rootfs", NULL);
	if (r == 0 && invocation->create)
		r = add_harness_option(args, "--create", NULL);
	if (r == 0)
		r = add_harness_option(args, "mcp", "--text");
	return r == 0 && invocation->tools ? add_harness_option(args, "--tools", invocation->tools)
					   : r;
}

/* Writes @settings with its placeholders replaced. @args is JSON, and an array of TOML as well. */
static void write_settings(FILE *out, const char *settings, const char *args)
{
	static const char args_mark[] = "@ARGS@", command_mark[] = "@COMMAND@";
	const char *at;

	for (; (at = strchr(settings, '@')); settings = at) {
		fwrite(settings, 1, (size_t)(at - settings), out);
		if (strncmp(at, args_mark, strlen(args_mark)) == 0) {
			fputs(args, out);
			at += strlen(args_mark);
		} else {
			fprintf(out, "[\"cloister\", %s", args + strspn(args, "[ "));
			at += strlen(command_mark);
		}
	}
	fputs(settings, out);
}

static void write_recipe(FILE *out, const struct harness *harness, const char *args)
{
	fprintf(out,
		"# %s: its own tools are off, cloister's are on.\n%s"
		"# Read this, then run it: cloister --workspace DIR harness %s | sh\n"
		"set -e\n"
		"mkdir -p \"$HOME/.config/cloister/%s\"\n"
		"cd \"$HOME/.config/cloister/%s\"\n"
		"cat >%s <<'END'\n",
		harness->title, harness->notes, harness->name, harness->name, harness->name,
		harness->file);
	write_settings(out, harness->settings, args);
	fputs("END\n", out);
	if (!harness->start) {
		fprintf(out, "echo \"Add to %s's settings what is in $PWD/%s\"\n", harness->title,
			harness->file);
		return;
	}
	fprintf(out,
		"cat >start <<'SCRIPT'\n"
		"#!/bin/sh\n"
		"cd \"$HOME/.config/cloister/%s\" || exit\n"
		"%s"
		"SCRIPT\n"
		"chmod +x start\n"
		"echo \"Start %s with $PWD/start\"\n",
		harness->name, harness->start, harness->title);
}

static void print_json(const struct harness *harness, const char *recipe)
{
	struct json_object *object = json_object_new_object();

	json_put(object, "harness", json_object_new_string(harness->name));
	json_put(object, "title", json_object_new_string(harness->title));
	json_put(object, "recipe", json_object_new_string(recipe));
	terminal_put_json(json_object_to_json_string_ext(object, PRINTED_JSON));
	json_object_put(object);
}

static int print_recipe(const struct invocation *invocation, const struct harness *harness)
{
	struct json_object *args = json_object_new_array();
	_cleanup_free_ char *recipe = NULL;
	size_t size;
	FILE *out;
	int r = take_args(invocation, args);

	if (r < 0) {
		json_object_put(args);
		return r == -EINVAL ? STATUS_USAGE : STATUS_NO_SERVICE;
	}
	out = open_memstream(&recipe, &size);
	if (out) {
		write_recipe(out, harness,
			json_object_to_json_string_ext(
				args, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE));
		fclose(out);
	}
	json_object_put(args);
	if (!recipe) {
		complain("%s", strerror(ENOMEM));
		return STATUS_OWN_FAILURE;
	}
	if (invocation->json)
		print_json(harness, recipe);
	else
		fputs(recipe, stdout);
	return STATUS_OK;
}

static void print_list(bool json)
{
	struct json_object *names = json_object_new_array();
	const struct harness *harness;

	for (size_t i = 0; (harness = harness_at(i)); i++) {
		json_object_array_add(names, json_object_new_string(harness->name));
		if (!json)
			printf("%-9s %s\n", harness->name, harness->title);
	}
	if (json)
		terminal_put_json(json_object_to_json_string_ext(names, PRINTED_JSON));
	json_object_put(names);
}

static int run_harness(const struct invocation *invocation)
{
	const struct harness *harness;

	if (invocation->argc == 0) {
		print_list(invocation->json);
		return STATUS_OK;
	}
	harness = harness_by_name(invocation->argv[0]);
	if (harness)
		return print_recipe(invocation, harness);
	no_name_complain("harness", invocation->argv[0], name_at);
	help_refer(&cloister_program, &command_harness.help);
	return STATUS_USAGE;
}

static const struct option_row options[] = {TOOLS_OPTION, {0}};

const struct command command_harness = {
	.help = {"harness", "[NAME]",
		"List agents' harnesses; print how one is set up with no tools but cloister's.",
		"cloister --workspace project harness claude", options},
	.most = 1,
	.run = run_harness,
};
