/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/call/request/args_decode.h"

#include "supervisor/call/request/args_alias.h"
#include "supervisor/call/request/notes.h"
#include "tests/lib/unit.h"

#include <json-c/json.h>

/* The object from which the last decoded arguments borrow. */
static struct json_object *kept;
static struct notes notes; /* of the last arguments */

static int put_kept(void **state)
{
	(void)state;
	json_object_put(kept);
	kept = NULL;
	notes_done(&notes);
	return 0;
}

FIXTURE(NULL, put_kept)

/* @json with ' for " */
static struct json_object *parse(const char *json)
{
	json_object_put(kept);
	kept = json_tokener_parse(json);
	assert_non_null(kept);
	return kept;
}

static struct tool_args decode(enum tool_id id, const char *json)
{
	struct tool_args args = {0};
	char *message = NULL;

	notes_done(&notes);
	if (args_rename(&tools[id], parse(json), &notes, &message) != TOOL_OK ||
		args_decode(&tools[id], kept, &notes, &args, &message) != TOOL_OK)
		fail_msg("%s", message);
	return args;
}

static void assert_fails(struct json_object *arguments, enum tool_id id, enum tool_error error,
	const char *expected_message)
{
	struct tool_args args, untouched;
	char *message = NULL;

	memset(&args, 0x55, sizeof(args));
	memcpy(&untouched, &args, sizeof(args));
	if (args_rename(&tools[id], arguments, &notes, &message) != TOOL_OK)
		assert_int_equal(error, TOOL_INVALID_ARGUMENTS);
	else
		assert_int_equal(
			args_decode(&tools[id], arguments, &notes, &args, &message), error);
	assert_memory_equal(&args, &untouched, sizeof(args));
	assert_non_null(message);
	if (expected_message)
		assert_string_equal(message, expected_message);
	free(message);
}

static void assert_invalid(enum tool_id id, const char *json, const char *expected_message)
{
	assert_fails(parse(json), id, TOOL_INVALID_ARGUMENTS, expected_message);
}

static void assert_text(struct text text, const char *expected)
{
	assert_true(text_equal(text, text_from(expected)));
}

TEST(test_every_argument)
{
	struct tool_args args;

	args = decode(TOOL_READ_FILE, "{'path':'a/b','start_line':2,'end_line':2}");
	assert_text(args.path, "a/b");
	assert_int_equal(args.start_line, 2);
	assert_int_equal(args.end_line, 2);
	args = decode(TOOL_WRITE_FILE, "{'path':'a','content':'','create_dirs':false}");
	assert_int_equal(args.content.len, 0);
	assert_false(args.create_dirs);
	args = decode(TOOL_LIST_DIRECTORY, "{'path':'.','recursive':true,'pattern':'*.c'}");
	assert_true(args.recursive);
	assert_text(args.pattern, "*.c");
	args = decode(TOOL_RUN_COMMAND, "{'command':'ls','timeout_ms':1}");
	assert_text(args.command, "ls");
	assert_int_equal(args.timeout_ms, 1);
	args = decode(TOOL_SEARCH_FILES,
		"{'pattern':'x+','path':'src','file_pattern':'*.h','max_results':50}");
	assert_text(args.pattern, "x+");
	assert_text(args.path, "src");
	assert_text(args.file_pattern, "*.h");
	assert_int_equal(args.max_results, 50);
}

TEST(test_defaults_and_null)
{
	struct tool_args args;

	args = decode(TOOL_RUN_COMMAND, "{'command':'ls','timeout_ms':null}");
	assert_int_equal(args.timeout_ms, 30000);
	args = decode(TOOL_SEARCH_FILES, "{'pattern':'x','path':null,'file_pattern':null}");
	assert_text(args.path, ".");
	assert_null(args.file_pattern.data);
	args = decode(TOOL_READ_FILE, "{'path':'a','end_line':3}");
	assert_int_equal(args.start_line, 0);
}

TEST(test_integers)
{
	static const char *const wrong[] = {"'5.0'", "'05'", "'+5'", "' 5'", "'5 '", "'0'", "'-1'",
		"''", "'five'", "'0x5'", "'99999999999999999999'", "5.5", "true", "0", "-1", "[]",
		"1e300", "9223372036854775808.0", "NaN"};

	assert_int_equal(decode(TOOL_READ_FILE, "{'path':'a','start_line':5.0}").start_line, 5);
	assert_int_equal(decode(TOOL_READ_FILE, "{'path':'a','start_line':5e0}").start_line, 5);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char json[128];

		snprintf(json, sizeof(json), "{'path':'a','start_line':%s}", wrong[i]);
		assert_invalid(TOOL_READ_FILE, json,
			"read_file: argument \"start_line\" must be an integer of at least 1");
	}
	assert_invalid(TOOL_RUN_COMMAND, "{'command':'ls','timeout_ms':0}",
		"run_command: argument \"timeout_ms\" must be an integer from 1 to 3600000");
	assert_invalid(TOOL_SEARCH_FILES, "{'pattern':'x','max_results':'-5'}",
		"search_files: argument \"max_results\" must be an integer from 1 to 50");
}

TEST(test_wrong_types)
{
	assert_invalid(
		TOOL_READ_FILE, "{'path':5}", "read_file: argument \"path\" must be a string");
	assert_invalid(TOOL_WRITE_FILE, "{'path':'a','content':{'a':1}}",
		"write_file: argument \"content\" must be a string");
	assert_invalid(TOOL_LIST_DIRECTORY, "{'path':'a','recursive':'True'}",
		"list_directory: argument \"recursive\" must be true or false");
	assert_invalid(TOOL_LIST_DIRECTORY, "{'path':'a','recursive':'yes'}", NULL);
	assert_invalid(TOOL_LIST_DIRECTORY, "{'path':'a','recursive':''}", NULL);
	assert_invalid(TOOL_LIST_DIRECTORY, "{'path':'a','recursive':1}", NULL);
	assert_invalid(TOOL_READ_FILE, "['a']", "read_file: the arguments must be a JSON object");
}

TEST(test_required)
{
	assert_fails(NULL, TOOL_READ_FILE, TOOL_INVALID_ARGUMENTS,
		"read_file: argument \"path\" is required");
	assert_invalid(TOOL_READ_FILE, "{}", "read_file: argument \"path\" is required");
	assert_invalid(TOOL_WRITE_FILE, "{'path':'a','content':null}",
		"write_file: argument \"content\" is required");
	assert_invalid(TOOL_RUN_COMMAND, "{'timeout_ms':5}", NULL);
	assert_invalid(TOOL_SEARCH_FILES, "{'path':'.'}", NULL);
}

TEST(test_unknown)
{
	struct json_object *arguments;
	char *message = NULL;
	struct tool_args args;
	char name[200];

	assert_invalid(TOOL_READ_FILE, "{'path':'a','file':'b'}",
		"read_file: argument \"file\" is not known; use \"path\", \"start_line\", "
		"\"end_line\"");
	assert_invalid(TOOL_READ_FILE, "{'path':'a','Path':null}", NULL);

	/* A long name is cut between characters. */
	memset(name, 'x', 63);
	strcpy(name + 63, "\xc3\xa9 and so on");
	arguments = json_object_new_object();
	json_object_object_add(arguments, name, NULL);
	assert_int_equal(args_decode(&tools[TOOL_READ_FILE], arguments, &notes, &args, &message),
		TOOL_INVALID_ARGUMENTS);
	assert_non_null(strstr(message, "xxx\" is not known"));
	free(message);
	json_object_put(arguments);
}

static void assert_note(const char *expected)
{
	assert_int_equal(notes.count, 1);
	assert_string_equal(notes.texts[0], expected);
}

TEST(test_strings_for_other_types)
{
	assert_int_equal(decode(TOOL_READ_FILE, "{'path':'a','start_line':'2'}").start_line, 2);
	assert_note("\"start_line\" was taken as the number 2; give it without quotes");
	assert_true(decode(TOOL_LIST_DIRECTORY, "{'path':'a','recursive':'true'}").recursive);
	assert_note("\"recursive\" was taken as true; give it without quotes");
	assert_false(decode(TOOL_WRITE_FILE, "{'path':'a','content':'','create_dirs':'false'}")
			     .create_dirs);
	assert_note("\"create_dirs\" was taken as false; give it without quotes");
	decode(TOOL_READ_FILE, "{'path':'2','start_line':2}");
	assert_int_equal(notes.count, 0);
}

TEST(test_numbers_beyond_the_maximum)
{
	assert_int_equal(
		decode(TOOL_SEARCH_FILES, "{'pattern':'x','max_results':51}").max_results, 50);
	assert_note("\"max_results\" was lowered from 51 to its maximum, 50");
	assert_int_equal(
		decode(TOOL_RUN_COMMAND, "{'command':'x','timeout_ms':1e10}").timeout_ms, 3600000);
	assert_note("\"timeout_ms\" was lowered from 10000000000 to its maximum, 3600000");
	assert_int_equal(
		decode(TOOL_SEARCH_FILES, "{'pattern':'x','max_results':'100'}").max_results, 50);
	assert_int_equal(notes.count, 2);
}

TEST(test_aliases)
{
	static const struct {
		enum tool_id tool;
		const char *json, *note;
	} taken[] = {
		{TOOL_READ_FILE, "{'file_path':'v'}", "\"file_path\" was taken as \"path\""},
		{TOOL_READ_FILE, "{'filePath':'v'}", "\"filePath\" was taken as \"path\""},
		{TOOL_READ_FILE, "{'Path':'v'}", "\"Path\" was taken as \"path\""},
		{TOOL_READ_FILE, "{'path':'v','startLine':1}",
			"\"startLine\" was taken as \"start_line\""},
		{TOOL_WRITE_FILE, "{'path':'v','contents':'v'}",
			"\"contents\" was taken as \"content\""},
		{TOOL_LIST_DIRECTORY, "{'dir':'v'}", "\"dir\" was taken as \"path\""},
		{TOOL_RUN_COMMAND, "{'cmd':'v'}", "\"cmd\" was taken as \"command\""},
		{TOOL_SEARCH_FILES, "{'query':'v'}", "\"query\" was taken as \"pattern\""},
		{TOOL_SEARCH_FILES, "{'pattern':'v','glob':'v'}",
			"\"glob\" was taken as \"file_pattern\""},
		{TOOL_SEARCH_FILES, "{'pattern':'v','headLimit':5}",
			"\"headLimit\" was taken as \"max_results\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		decode(taken[i].tool, taken[i].json);
		assert_note(taken[i].note);
	}
	assert_text(decode(TOOL_RUN_COMMAND, "{'cmd':'ls'}").command, "ls");
	assert_text(decode(TOOL_SEARCH_FILES, "{'regex':'x','dir':'d'}").path, "d");
	assert_int_equal(notes.count, 2);
	assert_invalid(TOOL_READ_FILE, "{'path':'a','file_path':'a'}",
		"read_file: argument \"file_path\" means the same as \"path\"; give only "
		"\"path\"");
	assert_invalid(TOOL_READ_FILE, "{'file_path':'a','filename':'a'}",
		"read_file: argument \"filename\" means the same as \"file_path\"; give only "
		"\"path\"");
	/* An alias that may mean something else is refused. */
	assert_invalid(TOOL_RUN_COMMAND, "{'command':'ls','timeout':5}",
		"run_command: argument \"timeout\" is not known; use \"command\", "
		"\"timeout_ms\", \"background\", \"name\"; did you mean \"timeout_ms\"?");
	assert_invalid(TOOL_READ_FILE, "{'path':'a','end_lin':5}",
		"read_file: argument \"end_lin\" is not known; use \"path\", \"start_line\", "
		"\"end_line\"; did you mean \"end_line\"?");
}

/* No alias is the name of another parameter of its tool. */
TEST(test_aliases_leave_the_parameters)
{
	for (size_t t = 0; t < TOOL_COUNT; t++)
		for (size_t i = 0; i < tool_param_count(&tools[t]); i++)
			assert_ptr_equal(args_alias(&tools[t], tools[t].params[i].name),
				&tools[t].params[i]);
	assert_null(args_alias(&tools[TOOL_READ_FILE], ""));
	assert_null(args_alias(&tools[TOOL_READ_FILE], "___"));
	assert_null(args_alias(&tools[TOOL_READ_FILE], "file path"));
}

TEST(test_line_range)
{
	assert_invalid(TOOL_READ_FILE, "{'path':'a','start_line':3,'end_line':2}",
		"read_file: argument \"end_line\" must not be less than \"start_line\"");
}

static struct json_object *one_string(const char *name, const char *data, size_t len)
{
	json_object_put(kept);
	kept = json_object_new_object();
	json_object_object_add(kept, name, json_object_new_string_len(data, (int)len));
	return kept;
}

TEST(test_nul)
{
	struct tool_args args = {0};
	struct json_object *arguments;
	char *message = NULL;

	assert_fails(one_string("path", "a\0b", 3), TOOL_READ_FILE, TOOL_INVALID_ARGUMENTS,
		"read_file: argument \"path\" must not hold a NUL character");
	assert_fails(one_string("pattern", "a\0b", 3), TOOL_SEARCH_FILES, TOOL_INVALID_ARGUMENTS,
		"search_files: argument \"pattern\" must not hold a NUL character");
	assert_fails(one_string("command", "a\0b", 3), TOOL_RUN_COMMAND, TOOL_INVALID_ARGUMENTS,
		"run_command: argument \"command\" must not hold a NUL character");
	arguments = one_string("content", "a\0b", 3);
	json_object_object_add(arguments, "path", json_object_new_string("a"));
	assert_int_equal(
		args_decode(&tools[TOOL_WRITE_FILE], arguments, &notes, &args, &message), TOOL_OK);
	assert_int_equal(args.content.len, 3);
	assert_memory_equal(args.content.data, "a\0b", 3);
}

TEST(test_lengths)
{
	_cleanup_free_ char *long_text = malloc(LIMIT_CONTENT_TEXT_BYTES + 1);
	struct tool_args args;
	char *message = NULL;

	memset(long_text, 'x', LIMIT_CONTENT_TEXT_BYTES + 1);
	assert_fails(one_string("path", "", 0), TOOL_READ_FILE, TOOL_INVALID_ARGUMENTS,
		"read_file: argument \"path\" must not be empty");
	assert_fails(one_string("command", "", 0), TOOL_RUN_COMMAND, TOOL_INVALID_ARGUMENTS, NULL);
	assert_int_equal(
		args_decode(&tools[TOOL_READ_FILE], one_string("path", long_text, LIMIT_PATH_BYTES),
			&notes, &args, &message),
		TOOL_OK);
	assert_fails(one_string("path", long_text, LIMIT_PATH_BYTES + 1), TOOL_READ_FILE,
		TOOL_NAME_TOO_LONG, "read_file: argument \"path\" must be at most 4096 bytes long");
	assert_fails(one_string("command", long_text, LIMIT_COMMAND_BYTES + 1), TOOL_RUN_COMMAND,
		TOOL_INVALID_ARGUMENTS, NULL);
	assert_fails(one_string("content", long_text, LIMIT_CONTENT_TEXT_BYTES + 1),
		TOOL_WRITE_FILE, TOOL_FILE_TOO_LARGE,
		"write_file: argument \"content\" must be at most 16777216 bytes long");
}

static struct call_options decode_options(const char *json)
{
	struct call_options options;
	char *message = NULL;

	if (options_decode(&tools[TOOL_READ_FILE], parse(json), &options, &message) < 0)
		fail_msg("%s", message);
	return options;
}

static void assert_bad_options(struct json_object *json, const char *expected_message)
{
	struct call_options options, untouched;
	char *message = NULL;

	memset(&options, 0x55, sizeof(options));
	memcpy(&untouched, &options, sizeof(options));
	assert_int_equal(
		options_decode(&tools[TOOL_RUN_COMMAND], json, &options, &message), -EINVAL);
	assert_memory_equal(&options, &untouched, sizeof(options));
	assert_non_null(message);
	if (expected_message)
		assert_string_equal(message, expected_message);
	free(message);
}

TEST(test_options)
{
	struct call_options options;
	char *message = NULL;

	options = decode_options(
		"{'timeout_ms':5,'idle_timeout_ms':6,'stream':true,'stdin':'','line_numbers':false,"
		"'encoding':'base64','gitignore':false,'path_base64':'YQ==','reply':'message',"
		"'durability':'fast','env':{'A':'1','_b2':''},'stdin_stream':true,'keep_output':"
		"false}");
	assert_true(options.stdin_stream);
	assert_false(options.keep_output);
	assert_int_equal(options.timeout_ms, 5);
	assert_int_equal(options.idle_timeout_ms, 6);
	assert_true(options.stream);
	assert_non_null(options.input.data);
	assert_int_equal(options.input.len, 0);
	assert_false(options.line_numbers);
	assert_true(options.base64);
	assert_false(options.gitignore);
	assert_text(options.path_base64, "YQ==");
	assert_true(options.reply_message);
	assert_true(options.fast_write);
	assert_int_equal(options.env_count, 2);
	assert_string_equal(json_object_get_string(json_object_object_get(options.env, "A")), "1");

	options = decode_options("{'key':'a','forget_key':'b','key_wait_ms':7}");
	assert_text(options.key, "a");
	assert_text(options.forget_key, "b");
	assert_int_equal(options.key_wait_ms, 7);

	options =
		decode_options("{'encoding':'utf-8','reply':'observation','durability':'durable'}");
	assert_false(options.base64);
	assert_false(options.fast_write);
	assert_false(options.reply_message);

	options = decode_options("{'timeout_ms':null,'env':null,'encoding':null}");
	assert_int_equal(options_decode(&tools[TOOL_READ_FILE], NULL, &options, &message), 0);
	assert_int_equal(options.timeout_ms, 0);
	assert_null(options.input.data);
	assert_null(options.env);
	assert_true(options.line_numbers);
	assert_true(options.gitignore);
	assert_false(options.stream);
	assert_false(options.stdin_stream);
	assert_true(options.keep_output);
}

TEST(test_bad_options)
{
	static const char *const bad_env[] = {"[]", "'A=1'", "{'':'x'}", "{'1A':'x'}",
		"{'A-B':'x'}", "{'A=':'x'}", "{'A':1}", "{'A':null}", "{'A':'x\\u0000y'}"};

	assert_bad_options(parse("[]"), "run_command: the options must be a JSON object");
	assert_bad_options(parse("{'timeout':5}"), "run_command: option \"timeout\" is not known");
	assert_bad_options(parse("{'timeout_ms':'5'}"),
		"run_command: option \"timeout_ms\" must be an integer from 1 to 3600000");
	assert_bad_options(parse("{'idle_timeout_ms':0}"), NULL);
	/* Options come from a program, so a mistake that is mended for a model is refused here. */
	assert_bad_options(parse("{'timeout_ms':3600001}"), NULL);
	assert_bad_options(parse("{'stream':'true'}"), NULL);
	assert_bad_options(parse("{'stream':1}"), NULL);
	assert_bad_options(parse("{'stdin':[]}"), NULL);
	assert_bad_options(parse("{'stdin_stream':'x'}"), NULL);
	assert_bad_options(parse("{'keep_output':0}"), NULL);
	assert_bad_options(parse("{'path_base64':''}"), NULL);
	assert_bad_options(parse("{'encoding':'latin1'}"),
		"run_command: option \"encoding\" must be \"utf-8\" or \"base64\"");
	assert_bad_options(parse("{'reply':true}"),
		"run_command: option \"reply\" must be \"observation\" or \"message\"");
	for (size_t i = 0; i < ARRAY_SIZE(bad_env); i++) {
		char json[128];

		snprintf(json, sizeof(json), "{'env':%s}", bad_env[i]);
		assert_bad_options(parse(json), NULL);
	}
}

TEST(test_env_bounds)
{
	struct json_object *env = json_object_new_object();
	_cleanup_free_ char *value = calloc(1, LIMIT_ENV_BYTES + 1);
	char name[32];

	json_object_put(kept);
	kept = json_object_new_object();
	json_object_object_add(kept, "env", env);
	for (int i = 0; i <= LIMIT_ENV_COUNT; i++) {
		snprintf(name, sizeof(name), "V%d", i);
		json_object_object_add(env, name, json_object_new_string(""));
	}
	assert_bad_options(kept, "run_command: option \"env\" must have at most 256 variables and "
				 "32768 bytes");
	memset(value, 'x', LIMIT_ENV_BYTES);
	env = json_object_new_object();
	json_object_object_add(kept, "env", env);
	json_object_object_add(env, "A", json_object_new_string(value));
	assert_bad_options(kept, NULL);
}
