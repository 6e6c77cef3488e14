/* links: libcloister */
// SPDX-License-Identifier: Apache-2.0
/* The client library with a service that follows the protocol. */
#include "common/errors.h"
#include "libcloister/cloister.h"

#include "tests/lib/scratch.h"
#include "tests/lib/scripted_server.h"
#include "tests/lib/unit.h"

#include <sys/un.h>

/* Records the calls of handlers. */
struct told {
	int replies, outputs, notifications;
	int64_t id;
	int error;
	char text[256];
	size_t len;
	enum cloister_stream stream;
	int inner; /* result of a function called inside the handler */
};

static void on_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct told *told = userdata;

	(void)cloister;
	told->replies++;
	told->id = id;
	told->error = error;
	snprintf(told->text, sizeof(told->text), "%s",
		reply ? cloister_get_json(reply, "", false) : "none");
}

static void on_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	struct told *told = userdata;

	(void)cloister;
	told->outputs++;
	told->id = id;
	told->stream = stream;
	assert_true(told->len + len <= sizeof(told->text));
	memcpy(told->text + told->len, data, len);
	told->len += len;
}

static void on_notification(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	struct told *told = userdata;

	(void)cloister;
	told->notifications++;
	snprintf(told->text, sizeof(told->text), "%s %s", method,
		cloister_get_json(params, "", false));
}

TEST(test_a_request_and_its_reply)
{
	struct scripted s = scripted_new();
	struct told told = {0};
	int64_t id;

	assert_int_equal(cloister_events(s.cloister), POLLIN);
	assert_int_equal(
		cloister_start(s.cloister, "m", "{\"a\": [1, \"/\"]}", on_reply, &told, &id), 0);
	assert_int_equal(cloister_events(s.cloister), POLLIN | POLLOUT);
	assert_true(cloister_unsent(s.cloister) > 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(cloister_events(s.cloister), POLLIN);
	assert_int_equal(cloister_unsent(s.cloister), 0);
	assert_string_equal(hear(&s),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\": [1, \"/\"]}}");
	assert_int_equal(told.replies, 0);
	/* Sends it one byte at a time. */
	for (const char *c = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"b\":2}}\n"; *c; c++) {
		assert_int_equal(told.replies, 0);
		say_bytes(&s, c, 1);
		assert_int_equal(cloister_dispatch(s.cloister), 0);
	}
	assert_int_equal(told.replies, 1);
	assert_int_equal(told.id, id);
	assert_int_equal(told.error, 0);
	assert_string_equal(told.text, "{\"b\":2}");
	scripted_free(&s);
}

/* Text of several lines becomes one message, and so does base64 in an object. */
TEST(test_a_request_is_one_line)
{
	struct scripted s = scripted_new();
	struct cloister_object *object = cloister_object_new();

	assert_int_equal(
		cloister_start(s.cloister, "m", "{\"a\":\n[1,\n2]}\n", on_reply, NULL, NULL), 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_string_equal(hear(&s),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":[1,2]}}");
	assert_int_equal(cloister_start(s.cloister, "m", "{}\n{}", on_reply, NULL, NULL), -EINVAL);
	assert_int_equal(cloister_object_bytes(object, "data", "\377\377\377\n", 4), 0);
	assert_string_equal(cloister_object_text(object), "{\"data\":\"////Cg==\"}");
	cloister_object_free(object);
	scripted_free(&s);
}

TEST(test_answers_in_any_order)
{
	struct scripted s = scripted_new();
	struct cloister_message *reply;
	struct told told = {0};
	int64_t ids[3], value;

	assert_int_equal(cloister_start(s.cloister, "a", NULL, NULL, NULL, &ids[0]), 0);
	assert_int_equal(cloister_start(s.cloister, "b", NULL, on_reply, &told, &ids[1]), 0);
	assert_int_equal(cloister_start(s.cloister, "c", NULL, NULL, NULL, &ids[2]), 0);
	assert_int_equal(cloister_wait(s.cloister, ids[0], 0, &reply), -ETIMEDOUT);
	say(&s, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":30}");
	say(&s, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":20}");
	say(&s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":10}");
	assert_int_equal(cloister_wait(s.cloister, ids[1], -1, &reply), -EINVAL);
	assert_int_equal(cloister_wait(s.cloister, 99, -1, &reply), -ENOENT);
	assert_int_equal(cloister_wait(s.cloister, ids[0], -1, &reply), 0);
	assert_int_equal(cloister_get_int64(reply, "", &value), 0);
	assert_int_equal(value, 10);
	cloister_message_free(reply);
	assert_string_equal(told.text, "20");
	assert_int_equal(cloister_wait(s.cloister, ids[2], -1, &reply), 0);
	assert_int_equal(cloister_get_int64(reply, "", &value), 0);
	assert_int_equal(value, 30);
	cloister_message_free(reply);
	assert_int_equal(cloister_wait(s.cloister, ids[2], -1, &reply), -ENOENT);
	scripted_free(&s);
}

TEST(test_calls_say_what_they_are_told)
{
	struct scripted s = scripted_new();
	struct cloister_tool_call call = {
		.tool = "read_file",
		.arguments = "{\"path\":\"x\"}",
		.options = "{\"line_numbers\":false}",
		.workspace = "w",
		.timeout_ms = 1500,
	};
	struct cloister_message *reply;
	int64_t id;

	assert_int_equal(cloister_start_call(s.cloister, &call, &id), 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_string_equal(hear(&s),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tool.call\",\"params\":{\"arguments\":"
		"{\"path\":\"x\"},\"tool\":\"read_file\",\"workspace\":\"w\",\"options\":"
		"{\"line_numbers\":false,\"timeout_ms\":1500}}}");
	call = (struct cloister_tool_call){.tool_call = "{\"function\":{\"name\":\"t\"}}"};
	assert_int_equal(cloister_start_call(s.cloister, &call, &id), 0);
	assert_int_equal(cloister_start_workspace(s.cloister, "/d", NULL, NULL, &id), 0);
	assert_int_equal(cloister_start_workspace(s.cloister, "n", NULL, NULL, NULL), 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_non_null(
		strstr(hear(&s), "\"params\":{\"tool_call\":{\"function\":{\"name\":\"t\"}}"));
	assert_non_null(strstr(hear(&s), "\"params\":{\"root\":\"/d\",\"kind\":\"directory\"}"));
	assert_non_null(strstr(hear(&s), "\"params\":{\"workspace\":\"n\"}"));
	/* Neither member, both, and what a later version may add. */
	assert_int_equal(
		cloister_start_call(s.cloister, &(struct cloister_tool_call){0}, &id), -EINVAL);
	call.tool = "t";
	assert_int_equal(cloister_start_call(s.cloister, &call, &id), -EINVAL);
	call = (struct cloister_tool_call){.tool = "t", .reserved = {&call}};
	assert_int_equal(cloister_start_call(s.cloister, &call, &id), -EINVAL);
	call = (struct cloister_tool_call){.tool = "t", .on_reply = on_reply};
	assert_int_equal(cloister_call(s.cloister, &call, &reply), -EINVAL);
	scripted_free(&s);
}

TEST(test_no_text_is_two_messages)
{
	static const char *const bad[] = {
		"", "[]", "1", "null", "{", "{}x", "{}\n{}", "{\"a\":\"\xff\"}", "{\"a\":1,}"};
	struct scripted s = scripted_new();
	int64_t id;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(cloister_start(s.cloister, "m", bad[i], NULL, NULL, &id), -EINVAL);
	assert_int_equal(cloister_unsent(s.cloister), 0);
	assert_int_equal(
		cloister_start(s.cloister, "m\n", "{\n\"a\\nb\"\n:\n1 }\n", NULL, NULL, &id), 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_string_equal(hear(&s),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\\n\",\"params\":{\"a\\nb\":1}}");
	assert_string_equal(hear(&s), "");
	scripted_free(&s);
}

TEST(test_output_is_the_bytes)
{
	struct scripted s = scripted_new();
	struct cloister_tool_call call = {.tool = "run_command", .on_output = on_output};
	struct told told = {0};
	struct cloister_message *reply;
	void *data;
	size_t len;

	call.userdata = &told;
	assert_int_equal(cloister_start_call(s.cloister, &call, NULL), 0);
	say(&s, "{\"method\":\"tool.output\",\"params\":{\"id\":1,\"stream\":\"stdout\",\"data\":"
		"\"AP8K\"}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_non_null(strstr(hear(&s), "\"options\":{\"stream\":true,\"encoding\":\"base64\"}"));
	assert_int_equal(told.outputs, 1);
	assert_int_equal(told.stream, CLOISTER_STDOUT);
	say(&s, "{\"method\":\"tool.output\",\"params\":{\"id\":1,\"stream\":\"stderr\",\"data\":"
		"\"eA==\"}}");
	say(&s, "{\"id\":1,\"result\":{\"success\":true,\"output\":{\"stdout\":\"AP8K\"}}}");
	/* Late output, and output of an unknown call: both are ignored. */
	say(&s, "{\"method\":\"tool.output\",\"params\":{\"id\":1,\"stream\":\"stdout\",\"data\":"
		"\"eA==\"}}");
	assert_int_equal(cloister_wait(s.cloister, 1, -1, &reply), 0);
	assert_int_equal(told.outputs, 2);
	assert_int_equal(told.stream, CLOISTER_STDERR);
	assert_int_equal(told.len, 4);
	assert_memory_equal(told.text, "\0\xff\nx", 4);
	assert_int_equal(cloister_get_bytes(reply, "/output/stdout", &data, &len), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(data, "\0\xff\n", 3);
	free(data);
	assert_int_equal(cloister_get_bytes(reply, "/output/nothing", &data, &len), -ENOENT);
	assert_int_equal(cloister_get_bytes(reply, "/output", &data, &len), -EINVAL);
	cloister_message_free(reply);

	call.options = "{\"encoding\":\"utf-8\"}";
	told.len = 0;
	assert_int_equal(cloister_start_call(s.cloister, &call, NULL), 0);
	say(&s, "{\"method\":\"tool.output\",\"params\":{\"id\":2,\"stream\":\"stdout\",\"data\":"
		"\"a\\u0000\"}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.len, 2);
	assert_memory_equal(told.text, "a\0", 2);
	scripted_free(&s);
}

TEST(test_cancel_and_forget)
{
	struct scripted s = scripted_new();
	struct told told = {0}, other = {0};
	struct cloister_message *reply;
	int64_t id, waited;

	assert_int_equal(cloister_cancel(s.cloister, 1), -ENOENT);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &told, &id), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, &waited), 0);
	assert_int_equal(cloister_cancel(s.cloister, id), 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	hear(&s);
	hear(&s);
	assert_non_null(strstr(hear(&s), "\"method\":\"tool.cancel\",\"params\":{\"id\":1}"));
	say(&s, "{\"id\":3,\"result\":{\"cancelled\":true}}");
	say(&s, "{\"id\":1,\"result\":{\"success\":false,\"error\":{\"code\":\"CANCELLED\"}}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.replies, 1);
	assert_int_equal(cloister_cancel(s.cloister, id), -ENOENT);
	assert_int_equal(cloister_forget(s.cloister, id), -ENOENT);

	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &other, &id), 0);
	assert_int_equal(cloister_forget(s.cloister, id), 0);
	assert_int_equal(cloister_forget(s.cloister, id), -ENOENT);
	assert_int_equal(cloister_forget(s.cloister, waited), 0);
	assert_int_equal(cloister_wait(s.cloister, waited, -1, &reply), -ENOENT);
	say(&s, "{\"id\":4,\"result\":1}");
	say(&s, "{\"id\":2,\"result\":1}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(other.replies, 0);
	scripted_free(&s);
}

static struct cloister_message *reply_to(struct scripted *s, const char *rest)
{
	struct cloister_message *reply;
	char line[512];
	int64_t id;

	assert_int_equal(cloister_start(s->cloister, "m", NULL, NULL, NULL, &id), 0);
	snprintf(line, sizeof(line), "{\"id\":%d,%s}", (int)id, rest);
	say(s, line);
	assert_int_equal(cloister_wait(s->cloister, id, -1, &reply), 0);
	return reply;
}

TEST(test_errors_have_types)
{
	struct scripted s = scripted_new();
	struct cloister_message *reply;
	enum cloister_error last = CLOISTER_ERROR_OTHER;
	char rest[256];
	bool exists = false;

	reply = reply_to(&s, "\"result\":{\"success\":true,\"error\":null}");
	assert_true(cloister_succeeded(reply));
	assert_int_equal(cloister_error(reply), CLOISTER_ERROR_NONE);
	assert_null(cloister_error_name(reply));
	assert_null(cloister_error_message(reply));
	assert_int_equal(cloister_json_error(reply), 0);
	cloister_message_free(reply);

	/* Every code of the service, as a tool's failure and as a request's error. */
	for (enum tool_error error = TOOL_OK + 1; error < TOOL_ERROR_COUNT; error++) {
		snprintf(rest, sizeof(rest),
			"\"result\":{\"success\":false,\"error\":{\"code\":\"%s\",\"message\":"
			"\"why\"}}",
			tool_error_name(error));
		reply = reply_to(&s, rest);
		assert_false(cloister_succeeded(reply));
		assert_int_equal(cloister_error(reply), ++last);
		assert_string_equal(cloister_error_name(reply), tool_error_name(error));
		assert_string_equal(cloister_error_message(reply), "why");
		assert_int_equal(cloister_json_error(reply), 0);
		cloister_message_free(reply);
		snprintf(rest, sizeof(rest),
			"\"error\":{\"code\":-32000,\"message\":\"why\",\"data\":{\"code\":\"%s\","
			"\"retry_after_ms\":70}}",
			tool_error_name(error));
		reply = reply_to(&s, rest);
		assert_int_equal(cloister_error(reply), last);
		assert_int_equal(cloister_json_error(reply), CLOISTER_JSON_SERVER_ERROR);
		assert_string_equal(cloister_error_message(reply), "why");
		assert_string_equal(cloister_get_json(reply, "/data/retry_after_ms", false), "70");
		cloister_message_free(reply);
	}
	assert_int_equal(last, CLOISTER_ERROR_LEASE_ENDED);

	reply = reply_to(&s,
		"\"error\":{\"code\":-32000,\"message\":\"why\",\"data\":{\"code\":\"MOVED\","
		"\"node\":\"b\",\"exists\":true}}");
	assert_string_equal(cloister_moved_to(reply, &exists), "b");
	assert_true(exists);
	assert_string_equal(cloister_moved_to(reply, NULL), "b");
	cloister_message_free(reply);
	reply = reply_to(&s,
		"\"error\":{\"code\":-32000,\"message\":\"why\",\"data\":{\"code\":\"BUSY\","
		"\"node\":\"b\",\"exists\":true}}");
	exists = false;
	assert_null(cloister_moved_to(reply, &exists));
	assert_false(exists);
	cloister_message_free(reply);

	reply = reply_to(&s, "\"result\":{\"success\":false,\"error\":{\"code\":\"NEW_ONE\"}}");
	assert_int_equal(cloister_error(reply), CLOISTER_ERROR_OTHER);
	assert_string_equal(cloister_error_name(reply), "NEW_ONE");
	assert_non_null(cloister_error_message(reply));
	cloister_message_free(reply);
	reply = reply_to(&s, "\"error\":{\"code\":-32602,\"message\":\"bad\"}");
	assert_int_equal(cloister_json_error(reply), CLOISTER_JSON_INVALID_PARAMS);
	assert_int_equal(cloister_error(reply), CLOISTER_ERROR_OTHER);
	assert_null(cloister_error_name(reply));
	cloister_message_free(reply);
	scripted_free(&s);
}

TEST(test_values_by_pointer)
{
	struct scripted s = scripted_new();
	struct cloister_message *reply = reply_to(&s,
		"\"result\":{\"a\":[{\"s\":\"x\\u0000y\"},7,true,null],\"big\":9223372036854775807,"
		"\"a/b\":\"slash\"}");
	int64_t number;
	size_t n;
	bool yes;

	assert_memory_equal(cloister_get_string(reply, "/a/0/s", &n), "x\0y", 4);
	assert_int_equal(n, 3);
	assert_string_equal(cloister_get_string(reply, "/a~1b", NULL), "slash");
	assert_null(cloister_get_string(reply, "/a/1", NULL));
	assert_null(cloister_get_string(reply, "/nothing/0", NULL));
	assert_null(cloister_get_string(reply, "no pointer", NULL));
	assert_int_equal(cloister_get_int64(reply, "/big", &number), 0);
	assert_int_equal(number, INT64_MAX);
	assert_int_equal(cloister_get_int64(reply, "/a", &number), -EINVAL);
	assert_int_equal(cloister_get_int64(reply, "/a/9", &number), -ENOENT);
	assert_int_equal(cloister_get_bool(reply, "/a/2", &yes), 0);
	assert_true(yes);
	assert_int_equal(cloister_get_bool(reply, "/a/3", &yes), -ENOENT);
	assert_int_equal(cloister_get_bool(reply, "/b", &yes), -ENOENT);
	assert_int_equal(cloister_get_count(reply, "/a", &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(cloister_get_count(reply, "", &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(cloister_get_count(reply, "/big", &n), -EINVAL);
	assert_int_equal(cloister_get_count(reply, "/c", &n), -ENOENT);
	assert_null(cloister_get_json(reply, "/a/3", false));
	assert_null(cloister_get_json(reply, "/c", false));
	cloister_message_free(reply);
	reply = reply_to(&s, "\"result\":null");
	assert_string_equal(cloister_get_json(reply, "", true), "null");
	assert_null(cloister_get_json(reply, "/c", false));
	assert_int_equal(cloister_get_int64(reply, "/c", &number), -ENOENT);
	cloister_message_free(reply);
	scripted_free(&s);
}

TEST(test_objects)
{
	struct cloister_object *object = cloister_object_new();

	assert_int_equal(cloister_object_string(object, "s", "\"\n\0\xc3\xa9", 5), 0);
	assert_int_equal(cloister_object_string(object, "e", NULL, 0), 0);
	assert_int_equal(cloister_object_bytes(object, "b", "\xff", 1), 0);
	assert_int_equal(cloister_object_int64(object, "i", INT64_MIN), 0);
	assert_int_equal(cloister_object_bool(object, "t", true), 0);
	assert_int_equal(cloister_object_json(object, "j", " [1, 2] "), 0);
	assert_int_equal(cloister_object_json(object, "n", "null"), 0);
	assert_int_equal(cloister_object_json(object, "m", "12"), 0);
	assert_string_equal(cloister_object_text(object),
		"{\"s\":\"\\\"\\n\\u0000\xc3\xa9\",\"e\":\"\",\"b\":\"/"
		"w==\",\"i\":-9223372036854775808,"
		"\"t\":true,\"j\":[1,2],\"n\":null,\"m\":12}");
	assert_int_equal(cloister_object_json(object, "j", "[1"), -EINVAL);
	assert_null(cloister_object_text(object));
	cloister_object_free(object);
	object = cloister_object_new();
	assert_int_equal(cloister_object_string(object, "s", "\xff", 1), -EINVAL);
	assert_int_equal(cloister_object_int64(object, "i", 1), 0);
	assert_null(cloister_object_text(object));
	cloister_object_free(object);
	cloister_object_free(NULL);
}

TEST(test_pause)
{
	struct scripted s = scripted_new();
	struct told told = {0};
	struct cloister_message *reply;

	cloister_on_notification(s.cloister, on_notification, &told);
	cloister_pause(s.cloister, true);
	assert_int_equal(cloister_events(s.cloister), 0);
	say(&s, "{\"method\":\"event\",\"params\":{\"n\":1}}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.notifications, 0);
	cloister_pause(s.cloister, false);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.notifications, 1);
	assert_string_equal(told.text, "event {\"n\":1}");
	/* Waiting reads even while paused. */
	cloister_pause(s.cloister, true);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), 0);
	assert_int_equal(cloister_events(s.cloister), POLLOUT);
	say(&s, "{\"id\":1,\"result\":1}");
	assert_int_equal(cloister_wait(s.cloister, 1, -1, &reply), 0);
	cloister_message_free(reply);
	scripted_free(&s);
}

static void pause_after_one(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	on_notification(cloister, method, params, userdata);
	cloister_pause(cloister, true);
}

TEST(test_a_pause_holds_what_has_been_read)
{
	struct scripted s = scripted_new();
	struct told told = {0};

	cloister_on_notification(s.cloister, pause_after_one, &told);
	for (int i = 0; i < 3; i++)
		say(&s, "{\"method\":\"event\"}");
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(cloister_dispatch(s.cloister), 0);
		assert_int_equal(told.notifications, i);
		cloister_pause(s.cloister, false);
	}
	scripted_free(&s);
}

static void close_it(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	on_reply(cloister, id, error, reply, userdata);
	cloister_close(cloister);
}

static void ask_again(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct told *told = userdata;
	struct cloister_message *other;
	int64_t next;

	on_reply(cloister, id, error, reply, userdata);
	assert_int_equal(cloister_dispatch(cloister), -EDEADLK);
	assert_int_equal(cloister_wait(cloister, 1, -1, &other), -EDEADLK);
	assert_int_equal(cloister_request(cloister, "m", NULL, &other), -EDEADLK);
	assert_int_equal(cloister_workspace(cloister, "m", &other), -EDEADLK);
	assert_int_equal(cloister_call(cloister, &(struct cloister_tool_call){.tool = "t"}, &other),
		-EDEADLK);
	told->inner = cloister_start(cloister, "again", NULL, on_reply, told, &next);
}

TEST(test_in_handlers)
{
	struct scripted s = scripted_new();
	struct told told = {0};

	assert_int_equal(cloister_start(s.cloister, "m", NULL, ask_again, &told, NULL), 0);
	say(&s, "{\"id\":1,\"result\":1}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	hear(&s);
	assert_non_null(strstr(hear(&s), "again"));
	assert_int_equal(cloister_start(s.cloister, "m", NULL, close_it, &told, NULL), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &told, NULL), 0);
	say(&s, "{\"id\":3,\"result\":1}");
	say(&s, "{\"id\":4,\"result\":1}");
	assert_int_equal(cloister_dispatch(s.cloister), -ECANCELED);
	assert_int_equal(told.id, 3);
	assert_int_equal(told.replies, 2);
	close(s.fd);
}

static void forget_waited(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	on_reply(cloister, id, error, reply, userdata);
	assert_int_equal(cloister_forget(cloister, 1), 0);
}

TEST(test_what_is_waited_for_is_forgotten_or_closed)
{
	struct scripted s = scripted_new();
	struct cloister_message *reply;
	struct told told = {0};

	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, forget_waited, &told, NULL), 0);
	say(&s, "{\"id\":2,\"result\":1}");
	say(&s, "{\"id\":1,\"result\":1}");
	assert_int_equal(cloister_wait(s.cloister, 1, -1, &reply), -ENOENT);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, close_it, &told, NULL), 0);
	say(&s, "{\"id\":4,\"result\":1}");
	assert_int_equal(cloister_wait(s.cloister, 3, -1, &reply), -ECANCELED);
	close(s.fd);
}

TEST(test_connections_have_nothing_to_do_with_each_other)
{
	struct scripted a = scripted_new(), b = scripted_new();
	struct told told_a = {0}, told_b = {0};

	assert_int_equal(cloister_start(a.cloister, "a", NULL, on_reply, &told_a, NULL), 0);
	assert_int_equal(cloister_start(b.cloister, "b", NULL, on_reply, &told_b, NULL), 0);
	say(&b, "{\"id\":1,\"result\":\"b\"}");
	assert_int_equal(cloister_dispatch(b.cloister), 0);
	assert_int_equal(told_a.replies, 0);
	assert_string_equal(told_b.text, "\"b\"");
	hang_up(&b);
	assert_int_equal(cloister_dispatch(b.cloister), -ECONNRESET);
	say(&a, "{\"id\":1,\"result\":\"a\"}");
	assert_int_equal(cloister_dispatch(a.cloister), 0);
	assert_string_equal(told_a.text, "\"a\"");
	scripted_free(&a);
	scripted_free(&b);
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Whether a client has connected to @fd; its connection is closed then. */
static bool was_reached(int fd)
{
	int got;

	if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) != 1)
		return false;
	got = accept(fd, NULL, NULL);
	close(got);
	return true;
}

TEST(test_opening)
{
	struct scratch scratch = scratch_new();
	char path[108], usual[108], name[300];
	struct cloister *cloister;
	int pair[2], at_path, at_usual;

	scratch_parents(&scratch, "cloister/");
	snprintf(path, sizeof(path), "%s/sock", scratch.path);
	snprintf(usual, sizeof(usual), "%s/cloister/agent.sock", scratch.path);
	assert_int_equal(cloister_open(path, &cloister), -ENOENT);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(cloister_open(name, &cloister), -ENAMETOOLONG);
	at_path = listen_at(path);
	at_usual = listen_at(usual);
	assert_int_equal(cloister_open(path, &cloister), 0);
	assert_true(fcntl(cloister_fd(cloister), F_GETFD) & FD_CLOEXEC);
	cloister_close(cloister);
	assert_true(was_reached(at_path));

	setenv("XDG_RUNTIME_DIR", scratch.path, 1);
	setenv("CLOISTER_SOCKET", path, 1);
	assert_int_equal(cloister_open(NULL, &cloister), 0);
	cloister_close(cloister);
	assert_true(was_reached(at_path));
	setenv("CLOISTER_SOCKET", "/nonexistent", 1);
	assert_int_equal(cloister_open(NULL, &cloister), 0);
	cloister_close(cloister);
	assert_true(was_reached(at_usual));
	unsetenv("CLOISTER_SOCKET");
	unsetenv("XDG_RUNTIME_DIR");

	assert_int_equal(pipe(pair), 0);
	assert_int_equal(cloister_open_fd(pair[0], &cloister), -ENOTSOCK);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(cloister_open_fd(pair[0], &cloister), -EBADF);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_int_equal(cloister_open_fd(pair[0], &cloister), -EPROTOTYPE);
	close(pair[0]);
	close(pair[1]);
	close(at_path);
	close(at_usual);
	scratch_done(&scratch);
	cloister_close(NULL);
}
