// SPDX-License-Identifier: Apache-2.0
/*
 * The table of harnesses. Each recipe but Zed's is run by tests/clients with the real harness,
 * whose model asks for each tool that the harness has of its own.
 *
 * Names of options are those of: code.claude.com/docs/en/cli-reference,
 * developers.openai.com/codex/config-reference, opencode.ai/docs/permissions,
 * geminicli.com/docs/reference/configuration, @cline/core's global settings, and zed.dev/docs/ai.
 */
#include "client/harness_recipes.h"

#include "common/cleanup.h"

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

const struct harness *harness_at(size_t index)
{
	return index < ARRAY_SIZE(harnesses) ? &harnesses[index] : NULL;
}
