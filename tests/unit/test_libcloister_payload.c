/* links: libcloister */
// SPDX-License-Identifier: Apache-2.0
/* The client library with bytes behind lines: output as it is, and input as it is. */
#include "libcloister/cloister.h"

#include "tests/lib/scripted_server.h"
#include "tests/lib/unit.h"

#define OUTPUT(rest) "{\"method\":\"tool.output\",\"params\":{" rest "}}"
#define ONE_MORE     (LIMIT_INPUT_BYTES + 1)

struct told {
	size_t len, err_len;
	char text[128];
	int replies, error;
	bool closed;
};

static void on_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	struct told *told = userdata;

	(void)cloister;
	(void)id;
	if (stream == CLOISTER_STDERR) {
		told->err_len += len;
		return;
	}
	assert_true(told->len + len <= sizeof(told->text));
	memcpy(told->text + told->len, data, len);
	told->len += len;
}

static void on_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct told *told = userdata;

	(void)cloister;
	(void)id;
	told->replies++;
	told->error = error;
	if (error == 0)
		(void)cloister_get_bool(reply, "/closed", &told->closed);
}

static struct scripted with_call(const char *options, struct told *told)
{
	struct scripted s = scripted_new();

	assert_int_equal(cloister_start_call(s.cloister,
				 &(struct cloister_tool_call){.tool = "t",
					 .options = options,
					 .on_output = on_output,
					 .on_reply = on_reply,
					 .userdata = told},
				 NULL),
		0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	hear(&s);
	return s;
}

TEST(test_output_in_pieces)
{
	static const char bytes[] = OUTPUT(
		"\"id\":1,\"stream\":\"stdout\",\"bytes\":9,\"seq\":0") "\n{\"id\":1}"
									"\n" OUTPUT(
										"\"id\":"
										"1,"
										"\"strea"
										"m\":"
										"\"stder"
										"r\","
										"\"bytes"
										"\":1,"
										"\"seq\""
										":1") "\n\n" OUTPUT("\"id\":1,"
												    "\"stream\":"
												    "\"stdout\","
												    "\"bytes\":"
												    "2,\"seq\":"
												    "2") "\n\0"
													 "\377"
													 "{\"id"
													 "\":1,"
													 "\"resu"
													 "lt\":{"
													 "}}\n";
	struct told told = {0};
	struct scripted s = with_call("{\"stream_bytes\":true}", &told);

	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		assert_int_equal(told.replies, 0);
		say_bytes(&s, bytes + i, 1);
		assert_int_equal(cloister_dispatch(s.cloister), 0);
	}
	assert_int_equal(told.replies, 1);
	assert_int_equal(told.len, 11);
	assert_memory_equal(told.text, "{\"id\":1}\n\0\377", 11);
	assert_int_equal(told.err_len, 1);
	scripted_free(&s);
}

TEST(test_content_of_a_file)
{
	static const char bytes[] =
		OUTPUT("\"id\":1,\"stream\":\"content\",\"bytes\":3,\"seq\":0,"
		       "\"size\":3") "\n\n\0x{\"id\":1,\"result\":{\"bytes\":3}}\n";
	struct told told = {0};
	struct scripted s = scripted_new();

	assert_int_equal(cloister_start_read(
				 s.cloister, "{\"path\":\"f\"}", on_output, on_reply, &told, NULL),
		0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_non_null(strstr(hear(&s), "\"file.read\""));
	say_bytes(&s, bytes, sizeof(bytes) - 1);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.replies, 1);
	assert_int_equal(told.error, 0);
	assert_int_equal(told.len, 3);
	assert_memory_equal(told.text, "\n\0x", 3);
	scripted_free(&s);
}

TEST(test_output_of_a_call_that_was_forgotten)
{
	struct told told = {0};
	struct scripted s = with_call("{\"stream_bytes\":true}", &told);

	assert_int_equal(cloister_forget(s.cloister, 1), 0);
	say(&s, OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":3,\"seq\":0"));
	say_bytes(&s, "{{{", 3);
	say(&s, "{\"id\":1,\"result\":{}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.len + (size_t)told.replies, 0);
	scripted_free(&s);
}

TEST(test_lies)
{
	static const struct {
		const char *options, *line;
	} lies[] = {
		{"{}", OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":3")},
		{"{\"stream_bytes\":true}", OUTPUT("\"id\":2,\"stream\":\"stdout\",\"bytes\":3")},
		{"{\"stream_bytes\":true}", OUTPUT("\"id\":1,\"stream\":\"stdin\",\"bytes\":3")},
		{"{\"stream_bytes\":true}", OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":0")},
		{"{\"stream_bytes\":true}", OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":-1")},
		{"{\"stream_bytes\":true}", OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":1.5")},
		{"{\"stream_bytes\":true}",
			OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":\"3\"")},
		{"{\"stream_bytes\":true}",
			OUTPUT("\"id\":1,\"stream\":\"stdout\",\"bytes\":99999999999")},
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct told told = {0};
		struct scripted s = with_call(lies[i].options, &told);

		say(&s, lies[i].line);
		assert_int_equal(cloister_dispatch(s.cloister), -EPROTO);
		assert_int_equal(told.error, -EPROTO);
		scripted_free(&s);
	}
}

TEST(test_the_option_needs_a_handler)
{
	struct scripted s = scripted_new();

	assert_int_equal(cloister_start_call(s.cloister,
				 &(struct cloister_tool_call){
					 .tool = "t", .options = "{\"stream_bytes\":true}"},
				 NULL),
		-EINVAL);
	scripted_free(&s);
}

/* Sends @len bytes of input to call 1. */
static void give(struct scripted *s, size_t len, bool eof, struct told *told)
{
	static const char zeros[LIMIT_INPUT_BYTES];

	assert_int_equal(
		cloister_start_input(s->cloister, 1, zeros, len, eof, on_reply, told, NULL), 0);
	assert_int_equal(cloister_dispatch(s->cloister), 0);
}

#define INPUT(id, rest)                                                                           \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tool.input\",\"params\":{\"id\":1," rest \
	"}}"

static void take_zeros(struct scripted *s, size_t len)
{
	char byte;

	for (size_t i = 0; i < len; i++) {
		assert_int_equal(recv(s->fd, &byte, 1, MSG_DONTWAIT), 1);
		assert_int_equal(byte, 0);
	}
}

/* The library asks first, and meanwhile sends base64. */
TEST(test_input)
{
	struct told told = {0};
	struct scripted s = with_call("{\"stdin_stream\":true}", &told);

	give(&s, 3, false, &told);
	assert_string_equal(
		hear(&s), INPUT("2", "\"data\":\"AAAA\",\"encoding\":\"base64\",\"eof\":false"));
	give(&s, 6000, false, &told);
	assert_string_equal(hear(&s), INPUT("3", "\"bytes\":0"));
	assert_non_null(strstr(hear(&s), "AAAA"));
	say(&s, "{\"id\":3,\"result\":{\"taken\":0,\"closed\":false}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	give(&s, 6000, false, &told);
	assert_string_equal(hear(&s), INPUT("5", "\"bytes\":6000,\"eof\":false"));
	take_zeros(&s, 6000);
	give(&s, 0, true, &told);
	assert_string_equal(
		hear(&s), INPUT("6", "\"data\":\"\",\"encoding\":\"base64\",\"eof\":true"));
	assert_int_equal(told.replies, 0);
	say(&s, "{\"id\":5,\"result\":{\"taken\":6000,\"closed\":true}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.replies, 1);
	assert_true(told.closed);
	assert_int_equal(cloister_start_input(s.cloister, 1, "", ONE_MORE, false, NULL, NULL, NULL),
		-EMSGSIZE);
	scripted_free(&s);
}

/* A service that does not know bytes is never sent any. */
TEST(test_input_to_an_older_service)
{
	struct told told = {0};
	struct scripted s = with_call("{\"stdin_stream\":true}", &told);

	give(&s, 6000, false, &told);
	assert_string_equal(hear(&s), INPUT("2", "\"bytes\":0"));
	assert_non_null(strstr(hear(&s), "AAAA"));
	say(&s, "{\"id\":2,\"error\":{\"code\":-32602,\"message\":\"Unknown parameter\"}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	for (int i = 0; i < 3; i++) {
		give(&s, 6000, false, &told);
		assert_non_null(strstr(hear(&s), "AAAA"));
		assert_string_equal(hear(&s), "");
	}
	scripted_free(&s);
}
