/* links: libcloister */
// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of a hostile service to libcloister. Cutting them into other pieces changes nothing; each
 * request is answered once, with a reply or with the end of the connection; any JSON pointer may be
 * used on any message.
 *
 * Input: one byte for the length of the pieces, one for the actions of handlers, then the service's
 * bytes.
 */
#include "libcloister/cloister.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS 8

/* One connection, and all calls of its handlers in order. */
struct session {
	struct cloister *cloister;
	FILE *transcript;
	char *text;
	size_t len;
	uint8_t acts; /* actions of handlers, one bit each */
	unsigned started, answered;
};

static void write_values(FILE *transcript, const struct cloister_message *message)
{
	static const char *const pointers[] = {
		"", "/success", "/error/code", "/output", "/output/stdout", "/0", "/a~1b", "x"};

	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		const char *json = cloister_get_json(message, pointers[i], i % 2);
		const char *string = cloister_get_string(message, pointers[i], NULL);
		void *bytes = NULL;
		int64_t number = 0;
		size_t n = 0;
		bool yes = false;
		int r = cloister_get_bytes(message, pointers[i], &bytes, &n);

		CHECK((r == 0) == (bytes != NULL) && (r < 0 || string));
		free(bytes);
		fprintf(transcript, "%s=%s %s %d %d %d\n", pointers[i], json ? json : "-",
			string ? string : "-", cloister_get_int64(message, pointers[i], &number),
			cloister_get_bool(message, pointers[i], &yes),
			cloister_get_count(message, pointers[i], &n));
	}
}

static void on_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata);

static void start(struct session *session)
{
	struct cloister_tool_call call = {.tool = "t", .on_reply = on_reply, .userdata = session};

	CHECK(cloister_start_call(session->cloister, &call, NULL) == 0);
	session->started++;
}

static void on_reply(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct session *session = userdata;

	session->answered++;
	fprintf(session->transcript, "reply %d %d\n", (int)id, error);
	CHECK((error < 0) == !reply);
	if (!reply)
		return;
	CHECK(cloister_succeeded(reply) == (cloister_error(reply) == CLOISTER_ERROR_NONE));
	CHECK(cloister_succeeded(reply) == !cloister_error_message(reply));
	CHECK(cloister_json_error(reply) == 0 || !cloister_succeeded(reply));
	write_values(session->transcript, reply);
	if (session->acts & 1 && session->started < REQUESTS)
		start(session);
	if (session->acts & 2)
		(void)cloister_cancel(cloister, id + 1);
	CHECK(cloister_cancel(cloister, id) == -ENOENT);
	CHECK(cloister_dispatch(cloister) == -EDEADLK);
}

static void on_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	struct session *session = userdata;

	fprintf(session->transcript, "output %d %d ", (int)id, (int)stream);
	fwrite(data, 1, len, session->transcript);
	if (session->acts & 4)
		(void)cloister_cancel(cloister, id);
}

static void on_notification(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata)
{
	struct session *session = userdata;

	(void)cloister;
	fprintf(session->transcript, "notification %s\n", method);
	write_values(session->transcript, params);
}

/* Requests 1 and 2 stream base64 and text, 3 does not stream, 4 is waited for, 5 is forgotten. */
static void start_all(struct session *session, int fd)
{
	struct cloister_tool_call call = {
		.tool = "t", .on_output = on_output, .on_reply = on_reply, .userdata = session};

	CHECK(cloister_open_fd(fd, &session->cloister) == 0);
	session->transcript = open_memstream(&session->text, &session->len);
	CHECK(session->transcript);
	cloister_on_notification(session->cloister, on_notification, session);
	CHECK(cloister_start_call(session->cloister, &call, NULL) == 0);
	call.options = "{\"encoding\":\"utf-8\"}";
	CHECK(cloister_start_call(session->cloister, &call, NULL) == 0);
	session->started = 2;
	start(session);
	CHECK(cloister_start(session->cloister, "m", NULL, NULL, NULL, NULL) == 0);
	CHECK(cloister_start(session->cloister, "m", NULL, on_reply, session, NULL) == 0);
	CHECK(cloister_forget(session->cloister, 5) == 0);
}

/* Dispatches until the connection has ended, at the latest when the service's bytes end. */
static void hear_all(struct session *session, int fd, struct text bytes, size_t piece)
{
	struct cloister_message *reply;
	int r = 0, error;

	while (r == 0 && bytes.len > 0) {
		size_t len = bytes.len < piece ? bytes.len : piece;
		ssize_t n = send(fd, bytes.data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		bytes.data += n > 0 ? n : 0;
		bytes.len -= n > 0 ? (size_t)n : 0;
		r = cloister_dispatch(session->cloister);
	}
	close(fd);
	while (r == 0)
		r = cloister_dispatch(session->cloister);
	error = r;
	CHECK(error == -ECONNRESET || error == -EBADMSG || error == -EPROTO || error == -EMSGSIZE);
	CHECK(cloister_dispatch(session->cloister) == error);
	CHECK(cloister_events(session->cloister) == 0);
	CHECK(session->answered == session->started);
	r = cloister_wait(session->cloister, 4, -1, &reply);
	CHECK(r == 0 || r == error);
	fprintf(session->transcript, "end %d %d\n", error, r);
	if (r == 0) {
		write_values(session->transcript, reply);
		cloister_message_free(reply);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	const size_t pieces[] = {1 + fuzz_byte(&rest) % 64, SIZE_MAX};
	const uint8_t acts = fuzz_byte(&rest);
	struct session sessions[2];
	char *copy = fuzz_copy(rest);

	for (size_t i = 0; i < 2; i++) {
		int pair[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
		sessions[i] = (struct session){.acts = acts};
		start_all(&sessions[i], pair[0]);
		hear_all(&sessions[i], pair[1], (struct text){copy, rest.len}, pieces[i]);
		cloister_close(sessions[i].cloister);
		CHECK(fclose(sessions[i].transcript) == 0);
	}
	CHECK(text_equal((struct text){sessions[0].text, sessions[0].len},
		(struct text){sessions[1].text, sessions[1].len}));
	for (size_t i = 0; i < 2; i++)
		free(sessions[i].text);
	free(copy);
	return 0;
}
