/* links: cloister-common */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/tools.h"
#include "tests/lib/unit.h"

TEST(test_names)
{
	static const char *const names[] = {"read_file", "write_file", "list_directory",
		"run_command", "search_files", "edit_file", "apply_patch", "read_output",
		"send_input", "stop_command", "list_commands"};

	assert_int_equal(ARRAY_SIZE(names), TOOL_COUNT);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct tool *tool = tool_by_name(text_from(names[i]));

		assert_ptr_equal(tool, &tools[i]);
		assert_int_equal(tool->id, i);
	}
	assert_null(tool_by_name(TEXT_LITERAL("read_files")));
	assert_null(tool_by_name(TEXT_LITERAL("Read_file")));
	assert_null(tool_by_name(TEXT_LITERAL("read_file\0")));
	assert_null(tool_by_name((struct text){NULL, 0}));
}

/* What every row needs for the decoder and the definitions to work. */
TEST(test_rows_are_whole)
{
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		assert_true(tool_param_count(&tools[i]) > 0 || i == TOOL_LIST_COMMANDS);
		for (size_t p = 0; p < tool_param_count(&tools[i]); p++) {
			const struct tool_param *param = &tools[i].params[p];

			assert_non_null(param->description);
			assert_false(param->required && param->has_default);
			if (param->type != PARAM_BOOLEAN && param->type != PARAM_EDITS)
				assert_true(param->min < param->max);
			if (param->type == PARAM_STRING)
				assert_int_not_equal(param->too_long, TOOL_OK);
			if (param->type == PARAM_STRING && param->has_default)
				assert_non_null(param->text);
			if (param->type == PARAM_INTEGER && param->has_default)
				assert_in_range(param->number, param->min, param->max);
		}
	}
}

/* One sentence for a model says what is wrong and what to do. */
TEST(test_errors_say_what_to_do)
{
	for (int i = TOOL_OK + 1; i < TOOL_ERROR_COUNT; i++) {
		const char *sentence = tool_error_sentence(i);

		assert_null(strstr(sentence, ". "));
		assert_int_not_equal(sentence[strlen(sentence) - 1], '.');
		assert_null(strchr(sentence, '\n'));
		if (i != TOOL_PATH_OUTSIDE_WORKSPACE && !strstr(sentence, "; "))
			fail_msg(
				"%s: \"%s\" does not say what to do", tool_error_name(i), sentence);
	}
}

TEST(test_only_content_and_input_may_hold_nul)
{
	for (size_t i = 0; i < TOOL_COUNT; i++)
		for (size_t p = 0; p < tool_param_count(&tools[i]); p++)
			assert_int_equal(tools[i].params[p].nul_allowed,
				strcmp(tools[i].params[p].name, "content") == 0 ||
					strcmp(tools[i].params[p].name, "input") == 0);
}

TEST(test_defaults)
{
	struct tool_args args;

	memset(&args, 0xff, sizeof(args));
	tool_args_defaults(&tools[TOOL_READ_FILE], &args);
	assert_null(args.path.data);
	assert_int_equal(args.start_line, 0);
	assert_int_equal(args.end_line, 0);
	assert_false(args.create_dirs);

	tool_args_defaults(&tools[TOOL_WRITE_FILE], &args);
	assert_true(args.create_dirs);
	tool_args_defaults(&tools[TOOL_LIST_DIRECTORY], &args);
	assert_false(args.recursive);
	assert_null(args.pattern.data);
	tool_args_defaults(&tools[TOOL_RUN_COMMAND], &args);
	assert_int_equal(args.timeout_ms, 30000);
	tool_args_defaults(&tools[TOOL_SEARCH_FILES], &args);
	assert_true(text_equal(args.path, TEXT_LITERAL(".")));
	assert_int_equal(args.max_results, 50);
}

TEST(test_what_is_offered)
{
	const struct tool *tool = &tools[TOOL_RUN_COMMAND];
	struct tool buffer;

	assert_ptr_equal(tool_offered(tool, TOOLS_SESSIONS, &buffer), tool);
	assert_ptr_equal(tool_offered(tool, TOOLS_EDIT, &buffer), &buffer);
	assert_int_equal(buffer.id, TOOL_RUN_COMMAND);
	assert_int_equal(tool_param_count(&buffer), 2);
	tool = &tools[TOOL_WRITE_FILE];
	assert_ptr_equal(tool_offered(tool, TOOLS_BASIC, &buffer), tool);
}

TEST(test_sets)
{
	static const struct {
		const char *words;
		int result;
		uint64_t set;
	} sets[] = {{"basic", 0, TOOLS_BASIC}, {"edit", 0, TOOLS_EDIT},
		{"sessions, patch basic", 0, TOOLS_SESSIONS | TOOLS_PATCH},
		{"basic,edit,patch,sessions", 0, TOOLS_ALL}, {"", -EINVAL, 7}, {" ,", -EINVAL, 7},
		{"edits", -EINVAL, 7}, {"basic edit x", -EINVAL, 7}};
	char names[TOOL_NAMES_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		uint64_t set = 7;

		assert_int_equal(tool_set_read(text_from(sets[i].words), &set), sets[i].result);
		assert_int_equal(set, sets[i].set);
	}
	assert_string_equal(tool_names(TOOLS_BASIC, names),
		"read_file, write_file, list_directory, run_command or search_files");
	assert_true(strlen(tool_names(TOOLS_ALL, names)) < TOOL_NAMES_SIZE - 1);
	assert_non_null(strstr(names, "stop_command or list_commands"));
}
