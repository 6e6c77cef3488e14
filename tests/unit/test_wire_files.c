/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_files.h"
#include "tests/lib/unit.h"

static uint8_t buffer[WIRE_PAYLOAD_MAX];

/* Decodes @message_ into @got_; shorter and longer ones are refused without a change. */
#define ROUND_TRIP(type_, message_, got_)                                                          \
	do {                                                                                       \
		struct wire_writer writer_ = wire_writer(buffer, sizeof(buffer));                  \
		struct files_##type_ untouched_;                                                   \
                                                                                                   \
		files_##type_##_put(&writer_, message_);                                           \
		assert_true(wire_writer_ok(&writer_));                                             \
		memset(&untouched_, 0x5a, sizeof(untouched_));                                     \
		memcpy(got_, &untouched_, sizeof(untouched_));                                     \
		for (size_t len_ = 0; len_ < writer_.len; len_++)                                  \
			assert_int_equal(                                                          \
				files_##type_##_get((struct text){(char *)buffer, len_}, got_),    \
				-EBADMSG);                                                         \
		assert_int_equal(                                                                  \
			files_##type_##_get((struct text){(char *)buffer, writer_.len + 1}, got_), \
			-EBADMSG);                                                                 \
		assert_memory_equal(got_, &untouched_, sizeof(untouched_));                        \
		assert_int_equal(                                                                  \
			files_##type_##_get((struct text){(char *)buffer, writer_.len}, got_), 0); \
	} while (0)

static void assert_text(struct text text, const char *expected)
{
	assert_true(text_equal(text, text_from(expected)));
}

TEST(test_sweep)
{
	const struct files_sweep sent = {.prompt = true};
	struct files_sweep got;

	ROUND_TRIP(sweep, &sent, &got);
	assert_true(got.prompt);
	assert_int_equal(files_sweep_get(TEXT_LITERAL("\2"), &got), -EBADMSG);
}

TEST(test_read)
{
	const struct files_read sent = {
		TEXT_LITERAL("a/b"), 3, UINT64_MAX, true, false, true, false};
	struct files_read got;

	ROUND_TRIP(read, &sent, &got);
	assert_text(got.path, "a/b");
	assert_int_equal(got.start_line, 3);
	assert_true(got.end_line == UINT64_MAX);
	assert_true(got.numbered);
	assert_false(got.raw);
	assert_true(got.images);
	assert_false(got.by_type);
}

TEST(test_edit)
{
	struct files_edit sent = {.path = TEXT_LITERAL("f"),
				  .expect = TEXT_LITERAL("0123"),
				  .size = LIMIT_EDIT_BYTES,
				  .durable = true},
			  got;
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

	ROUND_TRIP(edit, &sent, &got);
	assert_text(got.path, "f");
	assert_text(got.expect, "0123");
	assert_int_equal(got.size, LIMIT_EDIT_BYTES);
	assert_true(got.durable && !got.held && !got.look);
	sent.held = sent.look = true;
	sent.durable = false;
	ROUND_TRIP(edit, &sent, &got);
	assert_true(!got.durable && got.held && got.look);
	for (size_t i = 0; i < 2; i++) {
		sent.size = i == 0 ? 0 : LIMIT_EDIT_BYTES + LIMIT_EDITS * FILES_EDIT_OVERHEAD + 1;
		writer = wire_writer(buffer, sizeof(buffer));
		files_edit_put(&writer, &sent);
		assert_int_equal(
			files_edit_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
	}
}

TEST(test_trouble)
{
	struct files_trouble sent = {.file = TEXT_LITERAL("f"),
				     .edit = 2,
				     .kind = TEXT_LITERAL("several"),
				     .closest = TEXT_LITERAL("a\n"),
				     .n_lines = 2,
				     .lines = {3, 4}},
			     got;
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

	ROUND_TRIP(trouble, &sent, &got);
	assert_text(got.file, "f");
	assert_int_equal(got.edit, 2);
	assert_text(got.kind, "several");
	assert_text(got.closest, "a\n");
	assert_int_equal(got.n_lines, 2);
	assert_int_equal(got.lines[1], 4);
	/* More lines than there are. */
	writer = wire_writer(buffer, sizeof(buffer));
	wire_put_text(&writer, sent.file);
	wire_put_u32(&writer, 1);
	wire_put_text(&writer, sent.kind);
	wire_put_text(&writer, sent.closest);
	wire_put_u32(&writer, FILES_TROUBLE_LINES + 1);
	for (size_t i = 0; i <= FILES_TROUBLE_LINES; i++)
		wire_put_u64(&writer, i);
	assert_int_equal(
		files_trouble_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
}

TEST(test_held)
{
	struct files_held sent = {
		.before = TEXT_LITERAL("absent"), .after = TEXT_LITERAL("v"), .size = 7};
	struct files_held got;
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

	ROUND_TRIP(held, &sent, &got);
	assert_text(got.before, "absent");
	assert_text(got.after, "v");
	assert_int_equal(got.size, 7);
	sent.after = (struct text){"a\0b", 3};
	files_held_put(&writer, &sent);
	assert_int_equal(files_held_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
}

TEST(test_patch)
{
	static const uint64_t wrong[] = {0, FILES_PATCH_MAX + 1};
	struct files_patch sent = {.size = FILES_PATCH_MAX, .durable = true, .look = true}, got;

	ROUND_TRIP(patch, &sent, &got);
	assert_int_equal(got.size, FILES_PATCH_MAX);
	assert_true(got.durable && !got.held && got.look);
	sent = (struct files_patch){.size = 1, .held = true};
	ROUND_TRIP(patch, &sent, &got);
	assert_true(!got.durable && got.held && !got.look);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

		sent.size = wrong[i];
		files_patch_put(&writer, &sent);
		assert_int_equal(
			files_patch_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
	}
}

static const char too_long[FILES_FOUND_BYTES + 1] = {'x'};

TEST(test_patched)
{
	const struct files_patched sent = {.index = LIMIT_PATCH_FILES - 1,
		.operation = FILES_MOVE,
		.path = TEXT_LITERAL("to"),
		.from = TEXT_LITERAL("from"),
		.added = 3,
		.removed = UINT64_MAX,
		.version = TEXT_LITERAL("0123"),
		.found = TEXT_LITERAL("absent/4567")};
	struct files_patched wrong[] = {sent, sent, sent, sent, sent}, got;

	ROUND_TRIP(patched, &sent, &got);
	assert_int_equal(got.index, LIMIT_PATCH_FILES - 1);
	assert_int_equal(got.operation, FILES_MOVE);
	assert_text(got.path, "to");
	assert_text(got.from, "from");
	assert_int_equal(got.added, 3);
	assert_true(got.removed == UINT64_MAX);
	assert_text(got.version, "0123");
	assert_text(got.found, "absent/4567");
	wrong[0].index = LIMIT_PATCH_FILES;
	wrong[1].operation = 0;
	wrong[2].operation = FILES_MOVE + 1;
	wrong[3].found = (struct text){"a\0b", 3};
	wrong[4].found = (struct text){too_long, FILES_FOUND_BYTES + 1};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

		files_patched_put(&writer, &wrong[i]);
		assert_int_equal(files_patched_get((struct text){(char *)buffer, writer.len}, &got),
			-EBADMSG);
	}
}

TEST(test_step)
{
	const struct files_step sent = {.index = 2, .state = FILES_CHANGED},
				wrong[] = {
					{.index = LIMIT_PATCH_FILES}, {.state = FILES_CHANGED + 1}};
	struct files_step got;

	ROUND_TRIP(step, &sent, &got);
	assert_int_equal(got.index, 2);
	assert_int_equal(got.state, FILES_CHANGED);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

		files_step_put(&writer, &wrong[i]);
		assert_int_equal(
			files_step_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
	}
}

TEST(test_write)
{
	struct files_write sent = {.path = TEXT_LITERAL("f"),
				   .size = LIMIT_CONTENT_BYTES,
				   .create_dirs = true,
				   .durable = false},
			   got;
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

	ROUND_TRIP(write, &sent, &got);
	assert_text(got.path, "f");
	assert_int_equal(got.size, LIMIT_CONTENT_BYTES);
	assert_true(got.create_dirs);
	assert_false(got.durable);
	assert_false(got.held || got.look);
	sent.create_dirs = false;
	sent.durable = sent.held = true;
	ROUND_TRIP(write, &sent, &got);
	assert_false(got.create_dirs);
	assert_true(got.durable);
	assert_true(got.held && !got.look);
	sent.look = true;
	ROUND_TRIP(write, &sent, &got);
	assert_true(got.look);

	sent.size++; /* more than any call may hold */
	files_write_put(&writer, &sent);
	assert_int_equal(
		files_write_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
}

TEST(test_list_and_search)
{
	const struct files_list list = {
		TEXT_LITERAL("."), TEXT_LITERAL("*.c"), true, false, true, 77};
	const struct files_search search = {
		TEXT_LITERAL("a|b"), TEXT_LITERAL("src"), TEXT_LITERAL("*.h"), true, 50, 7, 3};
	struct files_list got_list;
	struct files_search got_search;

	ROUND_TRIP(list, &list, &got_list);
	assert_text(got_list.path, ".");
	assert_text(got_list.pattern, "*.c");
	assert_true(got_list.recursive);
	assert_false(got_list.gitignore);
	assert_true(got_list.by_depth);
	assert_int_equal(got_list.max_entries, 77);
	ROUND_TRIP(search, &search, &got_search);
	assert_text(got_search.pattern, "a|b");
	assert_text(got_search.path, "src");
	assert_text(got_search.file_pattern, "*.h");
	assert_true(got_search.gitignore);
	assert_int_equal(got_search.max_results, 50);
	assert_int_equal(got_search.offset, 7);
	assert_int_equal(got_search.context, 3);
}

TEST(test_entry)
{
	struct files_entry sent = {TEXT_LITERAL("x\xff"), FILES_TYPE_SYMLINK, 12,
		1700000000000000000, TEXT_LITERAL("to"), 7};
	struct files_entry got;
	static const uint8_t bad_types[] = {0, FILES_TYPE_UNKNOWN + 1, 255};

	ROUND_TRIP(entry, &sent, &got);
	assert_text(got.path, "x\xff");
	assert_int_equal(got.type, FILES_TYPE_SYMLINK);
	assert_int_equal(got.size, 12);
	assert_true(got.mtime_ns == 1700000000000000000);
	assert_text(got.target, "to");
	assert_int_equal(got.left_out, 7);
	for (size_t i = 0; i < ARRAY_SIZE(bad_types); i++) {
		struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

		sent.type = bad_types[i];
		files_entry_put(&writer, &sent);
		assert_int_equal(
			files_entry_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
	}
}

TEST(test_match)
{
	static char line[LIMIT_SEARCH_LINE_BYTES + 1];
	struct files_match sent = {TEXT_LITERAL("p"), 9, {line, LIMIT_SEARCH_LINE_BYTES}, true,
				   true},
			   got;
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

	ROUND_TRIP(match, &sent, &got);
	assert_text(got.path, "p");
	assert_int_equal(got.line, 9);
	assert_int_equal(got.text.len, LIMIT_SEARCH_LINE_BYTES);
	assert_true(got.cut);
	sent.text.len++;
	files_match_put(&writer, &sent);
	assert_int_equal(
		files_match_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
}

TEST(test_end)
{
	struct files_end sent = {
		.error = TOOL_NOT_FOUND,
		.message = TEXT_LITERAL("message"),
		.path = TEXT_LITERAL("path"),
		.truncated = true,
		.created = true,
		.size = 1,
		.lines = 2,
		.total_lines = 3,
		.count = 4,
		.files_searched = 5,
		.files_skipped = 6,
		.type = TEXT_LITERAL("image/png"),
	};
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));
	struct files_end got;

	ROUND_TRIP(end, &sent, &got);
	assert_int_equal(got.error, TOOL_NOT_FOUND);
	assert_text(got.message, "message");
	assert_text(got.path, "path");
	assert_true(got.truncated && !got.binary && got.created);
	assert_int_equal(got.size, 1);
	assert_int_equal(got.lines, 2);
	assert_int_equal(got.total_lines, 3);
	assert_int_equal(got.count, 4);
	assert_int_equal(got.files_searched, 5);
	assert_int_equal(got.files_skipped, 6);
	assert_text(got.type, "image/png");
	sent.error = TOOL_ERROR_COUNT; /* no such code */
	files_end_put(&writer, &sent);
	assert_int_equal(files_end_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
}

TEST(test_ask)
{
	struct files_ask sent = {.path = TEXT_LITERAL("a"),
				 .to = TEXT_LITERAL("b"),
				 .offset = INT64_MAX,
				 .length = UINT64_MAX,
				 .depth = 3,
				 .max_entries = 4,
				 .mode = 0777,
				 .parents = true,
				 .attributes = true},
			 got;
	struct wire_writer writer;

	ROUND_TRIP(ask, &sent, &got);
	assert_text(got.path, "a");
	assert_text(got.to, "b");
	assert_true(got.offset == INT64_MAX && got.length == UINT64_MAX);
	assert_true(got.depth == 3 && got.max_entries == 4 && got.mode == 0777);
	assert_true(!got.follow && got.parents && !got.replace && !got.recursive && got.attributes);
	for (int i = 0; i < 2; i++) {
		sent.mode = i == 0 ? 01000 : 0;
		sent.offset = i == 0 ? 0 : (uint64_t)INT64_MAX + 1;
		writer = wire_writer(buffer, sizeof(buffer));
		files_ask_put(&writer, &sent);
		assert_int_equal(
			files_ask_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
	}
}

TEST(test_event)
{
	struct files_event sent = {.type = FILES_EVENT_MOVED_TO,
				   .directory = true,
				   .cookie = UINT32_MAX,
				   .path = TEXT_LITERAL("a/\xff")},
			   got;
	static const struct files_event wrong[] = {
		{.type = 0, .path = TEXT_LITERAL("a")},
		{.type = FILES_EVENT_UNWATCHED + 1, .path = TEXT_LITERAL("a")},
		{.type = FILES_EVENT_CREATED, .path = TEXT_LITERAL("")},
		{.type = FILES_EVENT_CREATED, .path = TEXT_LITERAL("a\0b")},
		{.type = FILES_EVENT_CREATED,
			.has_node = true,
			.node = {.entry = {.path = TEXT_LITERAL("a"), .type = FILES_TYPE_FILE},
				.mode = 010000}},
	};

	ROUND_TRIP(event, &sent, &got);
	assert_int_equal(got.type, FILES_EVENT_MOVED_TO);
	assert_true(got.directory);
	assert_int_equal(got.cookie, UINT32_MAX);
	assert_true(text_equal(got.path, sent.path));
	assert_false(got.has_node);
	sent.has_node = true;
	sent.node = (struct files_node){
		.entry = {.path = sent.path, .type = FILES_TYPE_FILE, .size = 7}, .mode = 0644};
	ROUND_TRIP(event, &sent, &got);
	assert_true(got.has_node && got.node.entry.size == 7 && got.node.mode == 0644);
	assert_true(text_equal(got.path, sent.path));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct wire_writer writer = wire_writer(buffer, sizeof(buffer));

		files_event_put(&writer, &wrong[i]);
		assert_int_equal(
			files_event_get((struct text){(char *)buffer, writer.len}, &got), -EBADMSG);
	}
}

TEST(test_amount)
{
	struct files_amount sent = {LIMIT_FILE_STREAM_WINDOW}, got;
	struct wire_writer writer;

	ROUND_TRIP(amount, &sent, &got);
	assert_int_equal(got.bytes, LIMIT_FILE_STREAM_WINDOW);
	for (int i = 0; i < 2; i++) {
		sent.bytes = i == 0 ? 0 : LIMIT_FILE_STREAM_WINDOW + 1;
		writer = wire_writer(buffer, sizeof(buffer));
		files_amount_put(&writer, &sent);
		assert_int_equal(files_amount_get((struct text){(char *)buffer, writer.len}, &got),
			-EBADMSG);
	}
}

/* Puts a node with @attributes, and returns what its decoder says. */
static int node_with(const void *attributes, size_t len, uint32_t mode)
{
	const struct files_node sent = {
		.entry = {.type = FILES_TYPE_FILE}, .mode = mode, .attributes = {attributes, len}};
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));
	struct files_node got;

	files_node_put(&writer, &sent);
	return files_node_get((struct text){(char *)buffer, writer.len}, &got);
}

TEST(test_node)
{
	static uint8_t pairs[64];
	struct wire_writer attributes = wire_writer(pairs, sizeof(pairs));
	struct files_node sent, got;
	struct text left, name, value;

	wire_put_text(&attributes, TEXT_LITERAL("one"));
	wire_put_text(&attributes, TEXT_LITERAL(""));
	wire_put_text(&attributes, TEXT_LITERAL("two"));
	wire_put_text(&attributes, TEXT_LITERAL("value"));
	sent = (struct files_node){.entry = {.path = TEXT_LITERAL("p"),
					   .type = FILES_TYPE_SYMLINK,
					   .size = 1,
					   .mtime_ns = 2,
					   .target = TEXT_LITERAL("t")},
		.mode = 07777,
		.uid = UINT32_MAX,
		.gid = 3,
		.links = 4,
		.owner = TEXT_LITERAL("o"),
		.group = TEXT_LITERAL(""),
		.attributes = {(const char *)pairs, attributes.len},
		.attributes_cut = true};
	ROUND_TRIP(node, &sent, &got);
	assert_text(got.entry.target, "t");
	assert_text(got.owner, "o");
	assert_true(got.uid == UINT32_MAX && got.gid == 3 && got.links == 4 && got.attributes_cut);
	left = got.attributes;
	assert_true(files_attribute_next(&left, &name, &value));
	assert_text(name, "one");
	assert_true(files_attribute_next(&left, &name, &value));
	assert_text(value, "value");
	assert_false(files_attribute_next(&left, &name, &value));
	assert_int_equal(node_with(pairs, attributes.len, 0), 0);
	assert_int_equal(node_with(pairs, attributes.len - 1, 0), -EBADMSG);
	assert_int_equal(node_with(pairs, attributes.len, 010000), -EBADMSG);
	assert_int_equal(node_with("\0\0\0\0\0\0\0\0", 8, 0), -EBADMSG); /* no name */
	assert_int_equal(node_with("\xff\xff\xff\xff", 4, 0), -EBADMSG);
}
