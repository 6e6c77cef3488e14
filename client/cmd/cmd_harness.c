// SPDX-License-Identifier: Apache-2.0
/*
 * cloister harness: prints a shell script that sets an agent's harness up with cloister's tools and
 * without its own. Runs as the calling user, and needs no service.
 */
#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/utf8.h"

#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/*
 * The settings by which each harness uses only cloister's tools. A recipe is a directory below
 * ~/.config/cloister with the harness's settings and a script that starts it there. The harness
 * never starts in the workspace, because settings that it finds there may have been written by a
 * model. Each recipe but Zed's is run by tests/clients with the real harness, whose model asks for
 * each tool that the harness has of its own.
 *
 * Names of options are those of: code.claude.com/docs/en/cli-reference,
 * developers.openai.com/codex/config-reference, opencode.ai/docs/permissions,
 * geminicli.com/docs/reference/configuration, @cline/core's global settings, and zed.dev/docs/ai.
 */
struct harness {
	const char *name;
	const char *title;
	const char *notes;    /* comment lines of the script that `cloister harness` prints */
	const char *file;     /* the settings' name in the directory */
	const char *settings; /* @ARGS@: what follows `cloister` as an array; @COMMAND@: with it */
	const char *start;    /* the last lines of the script that starts it; NULL: none can */
};

#define CLOISTERS_SERVER "\"cloister\": {\"command\": \"cloister\", \"args\": @ARGS@"

/* --tools '' takes the built-in tools away, from subagents too; the other two name what is left. */
static const char claude_settings[] = "{\"mcpServers\": {" CLOISTERS_SERVER "}}}\n";
static const char claude_start[] =
	"exec claude --mcp-config mcp.json --tools '' --allowedTools mcp__cloister \\\n"
	"\t--strict-mcp-config \"$@\"\n";

/* apply_patch cannot be switched off: it is refused where nothing is writable. */
static const char codex_settings[] = "sandbox_mode = \"read-only\"\n"
				     "approval_policy = \"never\"\n"
				     "web_search = \"disabled\"\n"
				     "\n"
				     "[features]\n"
				     "shell_tool = false\n"
				     "unified_exec = false\n"
				     "view_image = false\n"
				     "apps = false\n"
				     "plugins = false\n"
				     "\n"
				     "[agents]\n"
				     "enabled = false\n"
				     "\n"
				     "[mcp_servers.cloister]\n"
				     "command = \"cloister\"\n"
				     "args = @ARGS@\n"
				     "default_tools_approval_mode = \"approve\"\n"
				     "tool_timeout_sec = 3600\n";
static const char codex_start[] =
	"mkdir -p \"${CODEX_HOME:=$HOME/.codex}\" &&\n"
	"\tln -sf \"$PWD/cloister.config.toml\" \"$CODEX_HOME/cloister.config.toml\" || exit\n"
	"exec codex --profile cloister \"$@\"\n";

/* The last rule that matches counts. The names are for a user's own rules, which "*" would precede.
 */
static const char opencode_settings[] =
	"{\n"
	"  \"mcp\": {\"cloister\": {\"type\": \"local\", \"command\": @COMMAND@,\n"
	"                       \"timeout\": 3600000}},\n"
	"  \"permission\": {\n"
	"    \"*\": \"deny\", \"bash\": \"deny\", \"edit\": \"deny\", \"write\": \"deny\",\n"
	"    \"patch\": \"deny\", \"read\": \"deny\", \"list\": \"deny\", \"glob\": \"deny\",\n"
	"    \"grep\": \"deny\", \"lsp\": \"deny\", \"task\": \"deny\", \"skill\": \"deny\",\n"
	"    \"webfetch\": \"deny\", \"websearch\": \"deny\", \"codesearch\": \"deny\",\n"
	"    \"external_directory\": \"deny\", \"cloister_*\": \"allow\"\n"
	"  }\n"
	"}\n";
static const char opencode_start[] = "OPENCODE_CONFIG_CONTENT=$(cat opencode.json) || exit\n"
				     "export OPENCODE_CONFIG_CONTENT\n"
				     "exec opencode \"$@\"\n";

/*
 * tools.core lists all that may be there, and what MCP servers have is matched by it too. A result
 * of more characters than the threshold is cut, 40000 by default; cloister's have fewer than 48000.
 */
static const char gemini_settings[] = "{\n"
				      "  \"mcpServers\": {" CLOISTERS_SERVER ",\n"
				      "    \"trust\": true, \"timeout\": 3600000}},\n"
				      "  \"mcp\": {\"allowed\": [\"cloister\"]},\n"
				      "  \"tools\": {\"core\": [\"mcp_cloister_*\"],\n"
				      "    \"truncateToolOutputThreshold\": 60000}\n"
				      "}\n";
static const char gemini_start[] =
	"mkdir -p .gemini && cp settings.json .gemini/settings.json || exit\n"
	"exec gemini --skip-trust \"$@\"\n";

static const char cline_settings[] =
	"{\"mcpServers\": {" CLOISTERS_SERVER ", \"timeout\": 3600}}}\n";
/* Its teams are switched off tool by tool: the name "teams" is not heeded by the command. */
static const char cline_start[] =
	"cat >settings.json <<'END' || exit\n"
	"{\"disabledTools\": [\"run_commands\", \"read_files\", \"search_codebase\", \"editor\",\n"
	"  \"apply_patch\", \"fetch_web_content\", \"web_search\", \"skills\", \"tasks\",\n"
	"  \"spawn_agent\", \"teams\", \"team_spawn_teammate\", \"team_shutdown_teammate\",\n"
	"  \"team_status\", \"team_task\", \"team_run_task\", \"team_cancel_run\",\n"
	"  \"team_list_runs\", \"team_await_runs\", \"team_send_message\", \"team_broadcast\",\n"
	"  \"team_read_mailbox\", \"team_mission_log\", \"team_cleanup\", "
	"\"team_create_outcome\",\n"
	"  \"team_attach_outcome_fragment\", \"team_review_outcome_fragment\",\n"
	"  \"team_finalize_outcome\", \"team_list_outcomes\"]}\n"
	"END\n"
	"export CLINE_MCP_SETTINGS_PATH=\"$PWD/mcp.json\"\n"
	"export CLINE_GLOBAL_SETTINGS_PATH=\"$PWD/settings.json\"\n"
	"exec cline \"$@\"\n";

static const char zed_settings[] =
	"{\n"
	"  \"context_servers\": {" CLOISTERS_SERVER ", \"env\": {}}},\n"
	"  \"agent\": {\n"
	"    \"default_profile\": \"cloister\",\n"
	"    \"profiles\": {\n"
	"      \"cloister\": {\n"
	"        \"name\": \"cloister\",\n"
	"        \"tools\": {\n"
	"          \"terminal\": false, \"edit_file\": false, \"save_file\": false,\n"
	"          \"restore_file_from_disk\": false, \"create_directory\": false,\n"
	"          \"copy_path\": false, \"move_path\": false, \"delete_path\": false,\n"
	"          \"read_file\": false, \"list_directory\": false, \"find_path\": false,\n"
	"          \"grep\": false, \"diagnostics\": false, \"open\": false, \"fetch\": false,\n"
	"          \"web_search\": false, \"subagent\": false\n"
	"        },\n"
	"        \"enable_all_context_servers\": false,\n"
	"        \"context_servers\": {\n"
	"          \"cloister\": {\"tools\": {\n"
	"            \"read_file\": true, \"write_file\": true, \"list_directory\": true,\n"
	"            \"run_command\": true, \"search_files\": true,\n"
	"            \"edit_file\": true, \"apply_patch\": true, \"read_output\": true,\n"
	"            \"send_input\": true, \"stop_command\": true, \"list_commands\": true\n"
	"          }}\n"
	"        }\n"
	"      }\n"
	"    },\n"
	"    \"tool_permissions\": {\n"
	"      \"tools\": {\n"
	"        \"terminal\": {\"default\": \"deny\"}, \"edit_file\": {\"default\": \"deny\"},\n"
	"        \"save_file\": {\"default\": \"deny\"}, \"create_directory\": {\"default\": "
	"\"deny\"},\n"
	"        \"copy_path\": {\"default\": \"deny\"}, \"move_path\": {\"default\": \"deny\"},\n"
	"        \"delete_path\": {\"default\": \"deny\"}, \"fetch\": {\"default\": \"deny\"},\n"
	"        \"restore_file_from_disk\": {\"default\": \"deny\"}\n"
	"      }\n"
	"    }\n"
	"  }\n"
	"}\n";

static const struct harness harnesses[] = {
	{"claude", "Claude Code",
		"# Tested with 2.1.330. Hooks and plugins of your own settings stay on.\n",
		"mcp.json", claude_settings, claude_start},
	{"codex", "Codex",
		"# Tested with 0.169.0. Its apply_patch stays in sight and is refused, so leave "
		"the\n"
		"# sandbox alone: --sandbox and --dangerously-bypass-approvals-and-sandbox would\n"
		"# let it write. MCP servers of your own config.toml stay on.\n",
		"cloister.config.toml", codex_settings, codex_start},
	{"opencode", "opencode", "# Tested with 1.18.33. Plugins of your own settings stay on.\n",
		"opencode.json", opencode_settings, opencode_start},
	{"gemini", "Gemini CLI",
		"# Tested with 0.61.0. Hooks and extensions of your own settings stay on.\n",
		"settings.json", gemini_settings, gemini_start},
	{"cline", "Cline",
		"# Tested with Cline CLI 3.0.65. The extension of an editor takes other settings:\n"
		"# its own tools cannot be switched off there.\n",
		"mcp.json", cline_settings, cline_start},
	{"zed", "Zed",
		"# Not tested, since Zed has no command line: from its documentation of 0.224.\n"
		"# Open an empty directory in Zed, not the workspace, whose .zed/settings.json a\n"
		"# model could write.\n",
		"settings.json", zed_settings, NULL},
};

/* The harness of this index, or NULL after the last one. */
static const struct harness *harness_at(size_t index)
{
	return index < ARRAY_SIZE(harnesses) ? &harnesses[index] : NULL;
}

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
