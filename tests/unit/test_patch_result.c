/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* What a patch has done, from frames of a files process that may lie: as JSON, as lines for a
 * model, as notes about a patch that stopped on its way, and as versions for the journal. */
#include "supervisor/call/result/patch_result.h"

#include "common/wire/wire_files.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/keys/key_change.h"
#include "supervisor/call/request/notes.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

static struct patch_result *result;

static int set_up(void **state)
{
	(void)state;
	result = patch_result_new();
	assert_non_null(result);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	patch_result_free(result);
	return 0;
}

FIXTURE(set_up, tear_down)

static int give(uint8_t type, const void *payload, size_t len)
{
	return patch_result_add(result,
		&(struct channel_frame){.type = type, .payload = {(const char *)payload, len}});
}

static int give_file(const struct files_patched *file)
{
	uint8_t payload[2 * LIMIT_PATH_BYTES + 1024];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_patched_put(&writer, file);
	assert_true(wire_writer_ok(&writer));
	return give(FILES_PATCHED, payload, writer.len);
}

static int give_step(uint32_t index, uint8_t file_state)
{
	uint8_t payload[16];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_step_put(&writer, &(struct files_step){index, file_state});
	return give(FILES_STEP, payload, writer.len);
}

#define V(digit)                                                                                  \
	digit digit digit digit digit digit digit digit digit digit digit digit digit digit digit \
		digit

static const struct files_patched files[] = {
	{.index = 0,
		.operation = FILES_ADD,
		.path = TEXT_LITERAL("new"),
		.added = 3,
		.version = TEXT_LITERAL(V("a")),
		.found = TEXT_LITERAL("absent")},
	{.index = 1,
		.operation = FILES_UPDATE,
		.path = TEXT_LITERAL("d/b"),
		.added = 1,
		.removed = UINT64_MAX,
		.version = TEXT_LITERAL(V("b")),
		.found = TEXT_LITERAL(V("1"))},
	{.index = 2,
		.operation = FILES_DELETE,
		.path = TEXT_LITERAL("old"),
		.removed = 2,
		.found = TEXT_LITERAL(V("2"))},
	{.index = 3,
		.operation = FILES_MOVE,
		.path = TEXT_LITERAL("to"),
		.from = TEXT_LITERAL("from"),
		.version = TEXT_LITERAL(V("c")),
		.found = TEXT_LITERAL(V("3") "/absent")},
};

static void give_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		assert_int_equal(give_file(&files[i]), 0);
}

static void check(struct evbuffer *buffer, const char *expected)
{
	size_t len = evbuffer_get_length(buffer);

	if (len != strlen(expected) || memcmp(evbuffer_pullup(buffer, -1), expected, len) != 0)
		fail_msg("%.*s", (int)len, (const char *)evbuffer_pullup(buffer, -1));
	evbuffer_free(buffer);
}

static void check_files(const char *expected)
{
	struct evbuffer *out = evbuffer_new();
	struct json_text json = json_text(out);

	patch_result_write(result, &json, NULL);
	assert_int_equal(json_text_flush(&json), 0);
	check(out, expected);
}

static void check_states(const char *expected)
{
	struct evbuffer *out = evbuffer_new();

	assert_int_equal(patch_result_write_states(result, out), 0);
	check(out, expected);
}

/* The notes, one a line. */
static void check_notes(const char *expected)
{
	struct evbuffer *out = evbuffer_new();
	struct notes notes = {0};

	patch_result_note(result, &notes);
	for (size_t i = 0; i < notes.count; i++)
		evbuffer_add_printf(out, "%s\n", notes.texts[i]);
	notes_done(&notes);
	check(out, expected);
}

TEST(test_what_is_told)
{
	struct evbuffer *out = evbuffer_new(), *text = evbuffer_new();
	struct json_text json = json_text(out);

	give_all();
	patch_result_write(result, &json, text);
	assert_int_equal(json_text_flush(&json), 0);
	check(out, "[{\"path\":\"new\",\"op\":\"add\",\"added\":3,\"removed\":0,\"version\":\"" V(
			   "a") "\"},"
				"{\"path\":\"d/b\",\"op\":\"update\",\"added\":1,"
				"\"removed\":18446744073709551615,\"version\":\"" V(
					"b") "\"},"
					     "{\"path\":\"old\",\"op\":\"delete\",\"added\":0,"
					     "\"removed\":2},"
					     "{\"path\":\"to\",\"op\":\"move\",\"old_path\":"
					     "\"from\",\"added\":0,"
					     "\"removed\":0,\"version\":\"" V("c") "\"}]");
	check(text, "add new (+3 -0)\n"
		    "update d/b (+1 -18446744073709551615)\n"
		    "delete old (+0 -2)\n"
		    "move from to to (+0 -0)\n");
	/* Tried once more, it is told anew. */
	assert_int_equal(give_file(&files[0]), 0);
	check_files("[{\"path\":\"new\",\"op\":\"add\",\"added\":3,\"removed\":0,\"version\":\"" V(
		"a") "\"}]");
}

TEST(test_what_is_no_answer)
{
	static char path[LIMIT_PATH_BYTES + 1];
	struct files_patched file = files[1];

	memset(path, 'x', sizeof(path));
	/* In another order, twice, or of a file that there is none of. */
	assert_int_equal(give_file(&file), -EBADMSG);
	assert_int_equal(give_step(0, FILES_CHANGED), -EBADMSG);
	assert_int_equal(give_file(&files[0]), 0);
	assert_int_equal(give_file(&file), 0);
	assert_int_equal(give_file(&file), -EBADMSG);
	file.index = UINT32_MAX;
	assert_int_equal(give_file(&file), -EBADMSG);
	assert_int_equal(give_step(2, FILES_CHANGED), -EBADMSG);
	assert_int_equal(give_step(0, FILES_CHANGED + 1), -EBADMSG);
	file = files[2];
	file.path = (struct text){path, sizeof(path)};
	assert_int_equal(give_file(&file), -EBADMSG);
	file = files[2];
	file.operation = UINT8_MAX;
	assert_int_equal(give_file(&file), -EBADMSG);
	assert_int_equal(give(FILES_PATCHED, "short", 5), -EBADMSG);
	assert_int_equal(give(FILES_STEP, "x", 1), -EBADMSG);
	assert_int_equal(give(FILES_END, "", 0), -EBADMSG);
	check_states("{\"files\":[{\"path\":\"new\",\"op\":\"add\",\"state\":\"unchanged\"},"
		     "{\"path\":\"d/b\",\"op\":\"update\",\"state\":\"unchanged\"}]}");
}

TEST(test_more_than_there_may_be)
{
	struct files_patched file = files[0];
	size_t before = patch_result_size(result);

	for (file.index = 0; file.index < LIMIT_PATCH_FILES; file.index++)
		assert_int_equal(give_file(&file), 0);
	assert_int_equal(give_file(&file), -EBADMSG);
	assert_int_equal(patch_result_size(result), before + 3 * LIMIT_PATCH_FILES);
}

/* The files process ended on its way, or has put back what it had changed. */
TEST(test_a_patch_that_stopped)
{
	give_all();
	assert_false(patch_result_is_partial(result));
	check_notes("Nothing of the patch was done\n");
	assert_int_equal(give_step(0, FILES_BEGUN), 0);
	assert_true(patch_result_is_partial(result));
	assert_int_equal(give_step(0, FILES_CHANGED), 0);
	assert_int_equal(give_step(1, FILES_BEGUN), 0);
	assert_true(patch_result_is_partial(result));
	check_states("{\"files\":[{\"path\":\"new\",\"op\":\"add\",\"state\":\"changed\"},"
		     "{\"path\":\"d/b\",\"op\":\"update\",\"state\":\"unknown\"},"
		     "{\"path\":\"old\",\"op\":\"delete\",\"state\":\"unchanged\"},"
		     "{\"path\":\"to\",\"op\":\"move\",\"state\":\"unchanged\"}]}");
	check_notes("Of the patch's 4 files 1 have been changed, in its order; read them before "
		    "you go on\n"
		    "It is not known whether \"d/b\" has been changed; read it\n");
	assert_int_equal(give_step(1, FILES_UNCHANGED), 0);
	assert_int_equal(give_step(0, FILES_UNCHANGED), 0);
	check_notes("Nothing of the patch was done\n");
}

/* What the journal keeps of it, and what a later call makes of that. */
TEST(test_the_versions_of_a_change)
{
	struct key_change *change;

	assert_null(patch_result_change(result));
	give_all();
	change = patch_result_change(result);
	assert_non_null(change);
	assert_string_equal(change->before, "absent " V("1") " " V("2") " " V("3") "/absent");
	assert_string_equal(change->after, V("a") " " V("b") " absent absent/" V("c"));
	/* The same patch, made by an earlier call: its versions are told. */
	assert_int_equal(give_file(&files[0]), 0);
	for (size_t i = 1; i < ARRAY_SIZE(files); i++) {
		struct files_patched file = files[i];

		file.version = (struct text){NULL, 0};
		assert_int_equal(give_file(&file), 0);
	}
	patch_result_set_made(result, change);
	check_files("[{\"path\":\"new\",\"op\":\"add\",\"added\":3,\"removed\":0,\"version\":\"" V(
		"a") "\"},"
		     "{\"path\":\"d/b\",\"op\":\"update\",\"added\":1,"
		     "\"removed\":18446744073709551615,\"version\":\"" V(
			     "b") "\"},"
				  "{\"path\":\"old\",\"op\":\"delete\",\"added\":0,\"removed\":2},"
				  "{\"path\":\"to\",\"op\":\"move\",\"old_path\":\"from\","
				  "\"added\":0,"
				  "\"removed\":0,\"version\":\"" V("c") "\"}]");
	/* What is found of it: made, not made, and something else. */
	patch_result_set_found(result, change, V("a") " " V("1") " " V("9") " absent/" V("c"));
	check_states("{\"files\":[{\"path\":\"new\",\"op\":\"add\",\"state\":\"changed\"},"
		     "{\"path\":\"d/b\",\"op\":\"update\",\"state\":\"unchanged\"},"
		     "{\"path\":\"old\",\"op\":\"delete\",\"state\":\"other\"},"
		     "{\"path\":\"to\",\"op\":\"move\",\"state\":\"changed\"}]}");
	check_notes("Of the patch's 4 files 2 are as the patch makes them, and 1 are as before it; "
		    "read them before you go on\n"
		    "\"old\" is neither as before the patch nor as the patch makes it\n");
	patch_result_set_found(result, change, V("a") " " V("1") " absent absent/" V("c"));
	check_notes("Of the patch's 4 files 3 are as the patch makes them, and 1 are as before it; "
		    "read them before you go on\n"
		    "\"d/b\" is as before the patch\n");
	patch_result_set_found(result, change, change->before);
	check_notes("Nothing of the patch was done\n");
	free(change);
}
