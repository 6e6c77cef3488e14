/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/files_fixture.h"
#include "tests/lib/unit.h"

#define CALL 0x1122334455667788

static int ignore_sigpipe(void **state)
{
	(void)state;
	return signal(SIGPIPE, SIG_IGN) == SIG_ERR;
}

GROUP_FIXTURE(ignore_sigpipe, NULL)

TEST(test_end_only)
{
	struct answer answer;

	answer_begin(&answer, CALL);
	assert_int_equal(reply_end(answer.reply, &(struct files_end){.count = 3}), 0);
	answer_parse(&answer, CALL);
	assert_int_equal(answer.end.count, 3);
	assert_int_equal(answer.data_frames + answer.other_frames, 0);
	answer_done(&answer);
}

TEST(test_ends_once)
{
	struct answer answer;

	answer_begin(&answer, CALL);
	assert_int_equal(reply_error(answer.reply, TOOL_NOT_FOUND, "no %s, %d", "file", 7), 0);
	assert_true(reply_end(answer.reply, &(struct files_end){0}) < 0);
	assert_true(reply_data(answer.reply, "x", 1) < 0);
	answer_parse(&answer, CALL);
	assert_error(&answer, TOOL_NOT_FOUND);
	assert_text(answer.end.message, "no file, 7");
	answer_done(&answer);
}

/* A megabyte in pieces of every size arrives in order, in full frames. */
TEST(test_data_split)
{
	static char sent[MIB];
	struct answer answer;
	size_t at = 0, piece = 1;

	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 2654435761U >> 13);
	answer_begin(&answer, CALL);
	for (; at < sizeof(sent); piece = piece * 3 + 1) {
		size_t len = piece % (3 * WIRE_FRAME_MAX);

		if (len > sizeof(sent) - at)
			len = sizeof(sent) - at;
		assert_int_equal(reply_data(answer.reply, sent + at, len), 0);
		at += len;
	}
	assert_int_equal(reply_end(answer.reply, &(struct files_end){0}), 0);
	answer_parse(&answer, CALL);
	assert_int_equal(answer.data_len, sizeof(sent));
	assert_memory_equal(answer.data, sent, sizeof(sent));
	assert_int_equal(answer.data_frames, (MIB + WIRE_PAYLOAD_MAX - 1) / WIRE_PAYLOAD_MAX);
	answer_done(&answer);
}

TEST(test_frames_keep_order)
{
	const struct files_entry entry = {TEXT_LITERAL("a"), FILES_TYPE_FILE, 1, 2, {NULL, 0}, 0};
	const struct files_match match = {TEXT_LITERAL("b"), 1, TEXT_LITERAL("line"), false, false};
	struct answer answer;

	answer_begin(&answer, CALL);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(reply_entry(answer.reply, &entry), 0);
		assert_int_equal(reply_data(answer.reply, "12", 2), 0);
		assert_int_equal(reply_data(answer.reply, "3", 1), 0);
		assert_int_equal(reply_match(answer.reply, &match), 0);
	}
	assert_int_equal(reply_end(answer.reply, &(struct files_end){0}), 0);
	answer_parse(&answer, CALL);
	assert_int_equal(answer.other_frames, 10000);
	assert_int_equal(answer.data_len, 15000);
	answer_done(&answer);
}

/* Frames that leave every possible number of bytes at the buffer's end. */
TEST(test_borders)
{
	static char path[WIRE_FRAME_MAX];
	const size_t fixed = WIRE_HEADER_SIZE + 4 + 1 + 8 + 8 + 4 + 8;

	for (size_t room = 0; room < 100; room++) {
		const struct files_entry entry = {
			{path, WIRE_FRAME_MAX - fixed - room}, FILES_TYPE_FILE, 0, 0, {NULL, 0}, 0};
		struct answer answer;

		answer_begin(&answer, CALL);
		assert_int_equal(reply_entry(answer.reply, &entry), 0);
		assert_int_equal(reply_data(answer.reply, "12345", 5), 0);
		assert_int_equal(reply_entry(answer.reply, &entry), 0);
		assert_int_equal(reply_end(answer.reply, &(struct files_end){0}), 0);
		answer_parse(&answer, CALL);
		assert_int_equal(answer.other_frames, 2);
		assert_string_equal(answer.data, "12345");
		answer_done(&answer);
	}
}

TEST(test_too_large_message)
{
	static char path[WIRE_FRAME_MAX];
	const struct files_entry entry = {
		{path, sizeof(path)}, FILES_TYPE_FILE, 0, 0, {NULL, 0}, 0};
	struct answer answer;

	answer_begin(&answer, CALL);
	assert_int_equal(reply_entry(answer.reply, &entry), -EMSGSIZE);
	assert_int_equal(reply_end(answer.reply, &(struct files_end){0}), 0);
	answer_parse(&answer, CALL);
	assert_int_equal(answer.other_frames, 0);
	answer_done(&answer);
}

TEST(test_nobody_listens)
{
	static const char data[2 * WIRE_FRAME_MAX];
	struct reply *reply;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	reply = reply_new(ends[1], 1);
	assert_int_equal(reply_data(reply, data, sizeof(data)), -EPIPE);
	assert_int_equal(reply_data(reply, data, 0), -EPIPE);
	assert_int_equal(reply_end(reply, &(struct files_end){0}), -EPIPE);
	reply_free(reply);
	close(ends[1]);
}

static void *read_slowly(void *context)
{
	int *fd = context;
	char buffer[5000];
	size_t total = 0;
	ssize_t n;

	while ((n = read(*fd, buffer, sizeof(buffer))) > 0)
		total += (size_t)n;
	return (void *)(uintptr_t)total;
}

/* A full, non-blocking pipe: partial writes and EAGAIN. */
TEST(test_full_pipe)
{
	static const char data[10 * WIRE_FRAME_MAX];
	struct reply *reply;
	pthread_t thread;
	void *total;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &ends[0]), 0);
	reply = reply_new(ends[1], 1);
	assert_int_equal(reply_data(reply, data, sizeof(data)), 0);
	assert_int_equal(reply_end(reply, &(struct files_end){0}), 0);
	reply_free(reply);
	close(ends[1]);
	assert_int_equal(pthread_join(thread, &total), 0);
	assert_true((uintptr_t)total > sizeof(data) + 10 * WIRE_HEADER_SIZE);
	close(ends[0]);
}

/* Counts the ends in @fd, whose calls must count up from @first. */
static uint64_t count_ends(int fd, uint64_t first)
{
	static uint8_t buffer[4 * WIRE_FRAME_MAX];
	ssize_t n = read(fd, buffer, sizeof(buffer));
	uint64_t ends = 0;

	for (ssize_t at = 0; at < n;) {
		struct wire_header header;

		memcpy(&header, buffer + at, sizeof(header));
		assert_int_equal(header.type, FILES_END);
		assert_true(header.call == first + ends++);
		at += (ssize_t)(sizeof(header) + header.length);
	}
	return ends;
}

/* Answers of several calls are collected, but not for ever. */
TEST(test_kept_back)
{
	struct reply *reply;
	uint64_t call = 1, arrived = 0;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	reply = reply_new(ends[1], 0);
	for (; call <= 3; call++) {
		reply_next(reply, call);
		assert_int_equal(reply_end(reply, &(struct files_end){0}), 0);
		assert_int_equal(reply_end(reply, &(struct files_end){0}), -ESHUTDOWN);
	}
	assert_int_equal(count_ends(ends[0], 1), 0);
	assert_int_equal(reply_flush(reply), 0);
	assert_int_equal(count_ends(ends[0], 1), 3);
	assert_int_equal(reply_flush(reply), 0);
	assert_int_equal(count_ends(ends[0], 1), 0);
	for (; call < 2000; call++) {
		reply_next(reply, call);
		assert_int_equal(reply_error(reply, TOOL_NOT_FOUND, "%0100d", 1), 0);
		arrived += count_ends(ends[0], 4 + arrived);
		assert_true(call - 3 - arrived < WIRE_FRAME_MAX / 2 / 100);
	}
	assert_true(arrived > 0);
	close(ends[0]);
	assert_int_equal(reply_flush(reply), -EPIPE);
	reply_next(reply, call);
	assert_int_equal(reply_end(reply, &(struct files_end){0}), -EPIPE);
	reply_free(reply);
	close(ends[1]);
}
