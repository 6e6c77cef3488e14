/* links: libcloister */
// SPDX-License-Identifier: Apache-2.0
/* The client library with a service that lies, floods, closes the connection and does not read. */
#include "libcloister/cloister.h"

#include "tests/lib/rounds.h"
#include "tests/lib/scripted_server.h"
#include "tests/lib/unit.h"

#include <sys/resource.h>

struct told {
	int replies, notifications;
	int error;
	char text[128];
};

static void on_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct told *told = userdata;

	told->replies++;
	told->error = error;
	snprintf(told->text, sizeof(told->text), "%s",
		reply ? cloister_get_json(reply, "", false) : "none");
	/* A handler that starts requests at the end must not keep the library going for ever. */
	if (error < 0)
		assert_int_equal(
			cloister_start(cloister, "again", NULL, on_reply, userdata, &id), error);
}

static void on_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	(void)cloister;
	(void)id;
	(void)stream;
	(void)data;
	(void)len;
	(void)userdata;
}

static void count_notification(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	(void)cloister;
	(void)method;
	(void)params;
	((struct told *)userdata)->notifications++;
}

/* Request 1 has a handler, 2 is waited for, 3 is a call with output; 4 is answered. */
static struct scripted with_requests(struct told *told)
{
	struct scripted s = scripted_new();
	struct cloister_message *reply;

	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, told, NULL), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), 0);
	assert_int_equal(
		cloister_start_call(s.cloister,
			&(struct cloister_tool_call){.tool = "t", .on_output = on_output}, NULL),
		0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), 0);
	say(&s, "{\"id\":4,\"result\":1}");
	assert_int_equal(cloister_wait(s.cloister, 4, -1, &reply), 0);
	cloister_message_free(reply);
	return s;
}

/* Checks that the connection has ended with @error for all requests. */
static void assert_ended(struct scripted *s, const struct told *told, int error)
{
	struct cloister_message *reply;

	assert_int_equal(told->replies, 1);
	assert_int_equal(told->error, error);
	assert_int_equal(cloister_wait(s->cloister, 2, -1, &reply), error);
	assert_int_equal(cloister_dispatch(s->cloister), error);
	assert_int_equal(cloister_request(s->cloister, "m", NULL, &reply), error);
	assert_int_equal(cloister_events(s->cloister), 0);
}

#define OUTPUT(rest) "{\"method\":\"tool.output\",\"params\":{" rest "}}"

TEST(test_lies)
{
	static const struct {
		const char *line;
		int error;
	} lies[] = {
		{"", -EBADMSG},
		{"hello", -EBADMSG},
		{"[]", -EBADMSG},
		{"null", -EBADMSG},
		{"7", -EBADMSG},
		{"{\"id\":1,\"result\":1", -EBADMSG},
		{"{\"id\":1,\"result\":1}}", -EBADMSG},
		{"{\"id\":1,\"result\":\"\xff\"}", -EBADMSG},
		{"{\"id\":1,\"result\":\"\xc0\x80\"}", -EBADMSG},
		{"{\"id\":1,\"result\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]"
		 "]]]]]]]]}",
			-EBADMSG},
		{"{'id':1,\"result\":1}", -EBADMSG},
		{"{\"id\":1,'result':1}", -EBADMSG},
		{"{\"id\":1,\"result\":{'\"':[{},{},{}]}}", -EBADMSG},
		{"{\"id\":1,\"id\":1,\"result\":1}", -EBADMSG},
		{"{\"id\":1,\"result\":{\"success\":false,\"success\":true}}", -EBADMSG},
		{"{\"id\":1,\"result\":\"\\ud800\"}", -EBADMSG},
		{"{\"id\":1,\"result\":\"\\udc00\\ud800\"}", -EBADMSG},
		{"{\"id\":1,\"result\":{\"a\\u0000\":1}}", -EBADMSG},
		{"{\"id\":01,\"result\":1}", -EBADMSG},
		{"{\"id\":1,\"result\":NaN}", -EBADMSG},
		{"{\"id\":1,\"result\":\"\x01\"}", -EBADMSG},
		{"{\"id\":1,\"result\":\"", -EBADMSG},
		{"{\"id\":1,\"result\":\"\\", -EBADMSG},
		{"{}", -EPROTO},
		{"{\"id\":1}", -EPROTO},
		{"{\"id\":1,\"result\":1,\"error\":{\"code\":1,\"message\":\"\"}}", -EPROTO},
		{"{\"id\":1,\"error\":null}", -EPROTO},
		{"{\"id\":1,\"error\":[]}", -EPROTO},
		{"{\"id\":1,\"error\":{\"code\":\"1\",\"message\":\"\"}}", -EPROTO},
		{"{\"id\":1,\"error\":{\"code\":1}}", -EPROTO},
		{"{\"result\":1}", -EPROTO},
		{"{\"id\":null,\"result\":1}", -EPROTO},
		{"{\"id\":null,\"error\":\"no\"}", -EPROTO},
		{"{\"id\":\"1\",\"result\":1}", -EPROTO},
		{"{\"id\":1.0,\"result\":1}", -EPROTO},
		{"{\"id\":[1],\"result\":1}", -EPROTO},
		{"{\"id\":0,\"result\":1}", -EPROTO},
		{"{\"id\":-1,\"result\":1}", -EPROTO},
		{"{\"id\":99,\"result\":1}", -EPROTO},
		{"{\"id\":18446744073709551617,\"result\":1}", -EPROTO},
		{"{\"id\":4,\"result\":\"twice\"}", -EPROTO},
		{"{\"method\":1}", -EPROTO},
		{"{\"method\":null}", -EPROTO},
		{"{\"method\":\"m\",\"params\":[]}", -EPROTO},
		{"{\"method\":\"tool.output\"}", -EPROTO},
		{OUTPUT("\"id\":\"3\",\"stream\":\"stdout\",\"data\":\"\""), -EPROTO},
		{OUTPUT("\"id\":3,\"stream\":\"stdin\",\"data\":\"\""), -EPROTO},
		{OUTPUT("\"id\":3,\"stream\":1,\"data\":\"\""), -EPROTO},
		{OUTPUT("\"id\":3,\"stream\":\"stdout\",\"data\":7"), -EPROTO},
		{OUTPUT("\"id\":3,\"stream\":\"stdout\""), -EPROTO},
		{OUTPUT("\"id\":3,\"stream\":\"stdout\",\"data\":\"no base64\""), -EPROTO},
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct told told = {0};
		struct scripted s = with_requests(&told);

		say(&s, lies[i].line);
		if (cloister_dispatch(s.cloister) != lies[i].error)
			fail_msg("not found out: %s", lies[i].line);
		assert_ended(&s, &told, lies[i].error);
		scripted_free(&s);
	}
}

TEST(test_a_nul_is_no_end)
{
	static const char line[] = "{\"id\":1,\"result\":1}\0 and more\n";
	struct told told = {0};
	struct scripted s = with_requests(&told);

	say_bytes(&s, line, sizeof(line) - 1);
	assert_int_equal(cloister_dispatch(s.cloister), -EBADMSG);
	assert_ended(&s, &told, -EBADMSG);
	scripted_free(&s);
}

TEST(test_the_same_answer_twice_before_it_is_waited_for)
{
	struct told told = {0};
	struct scripted s = with_requests(&told);

	say(&s, "{\"id\":2,\"result\":1}");
	say(&s, "{\"id\":2,\"result\":2}");
	assert_int_equal(cloister_dispatch(s.cloister), -EPROTO);
	scripted_free(&s);
}

/* Sends @text until the library fails or @total bytes are sent. */
static int flood(struct scripted *s, const char *text, size_t total)
{
	static char much[64 * KIB];
	size_t text_len = strlen(text), len = text_len ? sizeof(much) / text_len * text_len : 0;
	size_t sent = 0;
	int r = 0;

	for (size_t i = 0; i < len; i++)
		much[i] = text[i % text_len];
	while (r == 0 && sent < total) {
		size_t part = len - sent % len < total - sent ? len - sent % len : total - sent;
		ssize_t n = send(s->fd, much + sent % len, part, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		else
			r = cloister_dispatch(s->cloister);
	}
	return r == 0 ? cloister_dispatch(s->cloister) : r;
}

TEST(test_a_line_without_end)
{
	struct told told = {0};
	struct scripted s = with_requests(&told);

	assert_int_equal(flood(&s, "x", LIMIT_LINE_BYTES + 4 * MIB), -EMSGSIZE);
	assert_ended(&s, &told, -EMSGSIZE);
	scripted_free(&s);
}

TEST(test_a_line_at_the_limit)
{
	static const char before[] = "{\"method\":\"m\",\"params\":{\"a\":\"", after[] = "\"}}\n";
	const size_t inner = LIMIT_LINE_BYTES - (sizeof(before) - 1) - (sizeof(after) - 2);
	struct scripted s = scripted_new();
	struct told told = {0};

	cloister_on_notification(s.cloister, count_notification, &told);
	say_bytes(&s, before, sizeof(before) - 1);
	assert_int_equal(flood(&s, "y", inner), 0);
	say_bytes(&s, after, sizeof(after) - 1);
	assert_int_equal(flood(&s, "", 0), 0);
	assert_int_equal(told.notifications, 1);
	/* One byte more, together with the newline. */
	say_bytes(&s, before, sizeof(before) - 1);
	assert_int_equal(flood(&s, "y", inner + 1), 0);
	say_bytes(&s, after, sizeof(after) - 1);
	assert_int_equal(flood(&s, "", 0), -EMSGSIZE);
	assert_int_equal(told.notifications, 1);
	scripted_free(&s);
}

TEST(test_too_many_values)
{
	static const char opening[] = "{\"id\":1,\"result\":[null";
	static const char *const mores[] = {",null", ",{}"}; /* too many, and too much memory */

	for (size_t i = 0; i < rounds(1, 2); i++) {
		struct told told = {0};
		struct scripted s = with_requests(&told);

		say_bytes(&s, opening, sizeof(opening) - 1);
		assert_int_equal(flood(&s, mores[i],
					 strlen(mores[i]) * (i == 0 ? LIMIT_CLIENT_VALUES : MIB)),
			0);
		say(&s, "]}");
		assert_int_equal(flood(&s, "", 0), -EMSGSIZE);
		assert_ended(&s, &told, -EMSGSIZE);
		scripted_free(&s);
	}
}

/* Returns the peak memory of this process in KiB. */
static size_t peak(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (size_t)usage.ru_maxrss;
}

/* A quotation mark in a single-quoted name does not confuse the tracking of strings. */
TEST(test_values_behind_a_quoted_name)
{
	static const char opening[] = "{\"id\":1,\"result\":{'\"':[{}",
			  more[] = ",{},{},{},{},{},{}";
	struct told told = {0};
	struct scripted s = with_requests(&told);
	size_t before = peak();

	say_bytes(&s, opening, sizeof(opening) - 1);
	assert_int_equal(flood(&s, more, 6 * MIB), 0);
	say(&s, "]}}");
	assert_int_equal(flood(&s, "", 0), -EBADMSG);
	assert_ended(&s, &told, -EBADMSG);
	/* The line itself, while its buffer grows. */
	assert_in_range(peak() - before, 0, 4 * 8 * KIB);
	scripted_free(&s);
}

TEST(test_structure_in_strings_is_none)
{
	struct told told = {0};
	struct scripted s = scripted_new();

	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &told, NULL), 0);
	say_bytes(&s, "{\"id\":1,\"result\":\"\\\"", 20);
	assert_int_equal(flood(&s, "{[,{[,{[,\\\"{[,\\\\", 16 * (LIMIT_CLIENT_VALUES / 12 + 1)), 0);
	say(&s, "\"}");
	assert_int_equal(flood(&s, "", 0), 0);
	assert_int_equal(told.replies, 1);
	assert_int_equal(told.error, 0);
	scripted_free(&s);
}

TEST(test_closed_in_the_middle)
{
	static const char *const parts[] = {"", "{\"id\":1,\"res", "{\"id\":1,\"result\":1}"};

	for (size_t i = 0; i < 3; i++) {
		struct told told = {0};
		struct scripted s = with_requests(&told);

		say_bytes(&s, parts[i], strlen(parts[i]));
		hang_up(&s);
		assert_int_equal(cloister_dispatch(s.cloister), -ECONNRESET);
		assert_ended(&s, &told, -ECONNRESET);
		scripted_free(&s);
	}
}

/* Sending to a closed peer raises no signal, and what the peer sent before is read. */
TEST(test_last_words)
{
	struct scripted s = scripted_new();
	struct told told = {0};

	assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_DFL);
	say(&s, "{\"id\":null,\"error\":{\"code\":-32000,\"message\":\"full\"}}");
	hang_up(&s);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &told, NULL), 0);
	assert_int_equal(cloister_dispatch(s.cloister), -ECONNRESET);
	assert_int_equal(told.replies, 1);
	assert_int_equal(told.error, 0);
	assert_string_equal(told.text, "{\"code\":-32000,\"message\":\"full\"}");
	scripted_free(&s);
}

TEST(test_a_refusal_of_no_request)
{
	static const char refusal[] = "{\"error\":{\"code\":-32600,\"message\":\"no\"}}";
	struct told told = {0}, other = {0};
	struct scripted s = scripted_new();

	/* With no request in flight the next one gets the refusal, however often it came. */
	for (int i = 0; i < 3; i++)
		say(&s, refusal);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &told, NULL), 0);
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.replies, 1);
	/* With two in flight both get it; only their own answers may still come. */
	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &told, NULL), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, on_reply, &other, NULL), 0);
	say(&s, refusal);
	say(&s, "{\"id\":3,\"result\":1}");
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.replies, 2);
	assert_int_equal(other.replies, 1);
	assert_string_equal(other.text, "{\"code\":-32600,\"message\":\"no\"}");
	say(&s, "{\"id\":4,\"result\":1}");
	assert_int_equal(cloister_dispatch(s.cloister), -EPROTO);
	scripted_free(&s);
}

TEST(test_descriptors_are_not_taken)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char line[] = "{\"method\":\"m\"}\n", byte;
	struct iovec iov = {line, sizeof(line) - 1};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	struct scripted s = scripted_new();
	struct told told = {0};
	int ends[2];

	cloister_on_notification(s.cloister, count_notification, &told);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ends[1], sizeof(int));
	assert_int_equal(sendmsg(s.fd, &message, 0), sizeof(line) - 1);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), -1); /* while it is in flight it has a writer */
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_int_equal(told.notifications, 1);
	assert_int_equal(read(ends[0], &byte, 1), 0); /* and afterwards none */
	close(ends[0]);
	scripted_free(&s);
}

/* Both sides send more than a socket holds before the service reads. */
TEST(test_neither_full_buffer_stops_the_other)
{
	static const char line[] =
		"{\"method\":\"m\",\"params\":{\"much\":\"................\"}}\n";
	const size_t want = 10000;
	char *text = malloc(4 * MIB + 1);
	struct scripted s = scripted_new();
	struct told told = {0};
	size_t said = 0, heard = 0, queued;

	memset(text, 'y', 4 * MIB);
	text[4 * MIB] = '\0';
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + 4 * MIB - 2, "\"}", 2);
	cloister_on_notification(s.cloister, count_notification, &told);
	assert_int_equal(cloister_start(s.cloister, "m", text, NULL, NULL, NULL), 0);
	queued = cloister_unsent(s.cloister);
	while (said < want * (sizeof(line) - 1)) {
		size_t at = said % (sizeof(line) - 1);
		ssize_t n =
			send(s.fd, line + at, sizeof(line) - 1 - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		said += n > 0 ? (size_t)n : 0;
		if (n < 0)
			assert_int_equal(cloister_dispatch(s.cloister), 0);
	}
	assert_int_equal(cloister_dispatch(s.cloister), 0);
	assert_true(cloister_unsent(s.cloister) > 0);
	while (heard < queued) {
		ssize_t n = recv(s.fd, text, 4 * MIB, MSG_DONTWAIT);

		heard += n > 0 ? (size_t)n : 0;
		assert_int_equal(cloister_dispatch(s.cloister), 0);
	}
	assert_int_equal(told.notifications, want);
	assert_int_equal(cloister_unsent(s.cloister), 0);
	scripted_free(&s);
	free(text);
}

TEST(test_what_waits_to_be_sent_is_bounded)
{
	const size_t size = 24 * MIB;
	struct scripted s;
	char *text;

	if (!rounds_are_deep())
		skip(); /* it takes long to read so much */
	text = malloc(LIMIT_LINE_BYTES + 64);
	s = scripted_new();
	memset(text, 'y', LIMIT_LINE_BYTES + 64);
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + LIMIT_LINE_BYTES, "\"}", 3);
	assert_int_equal(cloister_start(s.cloister, "m", text, NULL, NULL, NULL), -EMSGSIZE);
	assert_int_equal(cloister_unsent(s.cloister), 0);
	memcpy(text + size, "\"}", 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(cloister_start(s.cloister, "m", text, NULL, NULL, NULL), 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), -ENOBUFS);
	scripted_free(&s);
	free(text);
}

/* A service that never stops sending: the event loop gets its turn, and a deadline holds. */
TEST(test_flood)
{
	static const char opening[] = "{\"method\":\"m\",\"params\":{\"n\":\"";
	static char line[KIB], lines[64 * sizeof(line)];
	const int more_than_a_turn = 2 * LIMIT_CLIENT_TURN_BYTES / sizeof(line);
	struct scripted s = scripted_new();
	struct told told = {0};
	struct cloister_message *reply;
	int status;
	pid_t child;

	memset(line, 'y', sizeof(line));
	memcpy(line, opening, sizeof(opening) - 1);
	memcpy(line + sizeof(line) - 4, "\"}}\n", 4);
	for (size_t i = 0; i < sizeof(lines); i += sizeof(line))
		memcpy(lines + i, line, sizeof(line));
	cloister_on_notification(s.cloister, count_notification, &told);
	child = fork();
	if (child == 0) {
		close(cloister_fd(s.cloister)); /* end it together with the connection */
		while (send(s.fd, lines, sizeof(lines), MSG_NOSIGNAL) == (ssize_t)sizeof(lines))
			;
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(cloister_start(s.cloister, "m", NULL, NULL, NULL, NULL), 0);
	/* More than one turn's data, in turns of bounded length. */
	for (int before = 0; told.notifications < more_than_a_turn; before = told.notifications) {
		(void)poll(
			&(struct pollfd){.fd = cloister_fd(s.cloister), .events = POLLIN}, 1, 1000);
		assert_int_equal(cloister_dispatch(s.cloister), 0);
		assert_in_range(told.notifications - before, 0,
			(LIMIT_CLIENT_TURN_BYTES + 64 * KIB) / sizeof(line) + 1);
	}
	assert_int_equal(cloister_wait(s.cloister, 1, 200, &reply), -ETIMEDOUT);
	scripted_free(&s);
	assert_int_equal(waitpid(child, &status, 0), child);
}
