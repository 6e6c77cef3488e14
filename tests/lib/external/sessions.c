// SPDX-License-Identifier: Apache-2.0
/*
 * A program of an outside user of the library: a session is started on one connection and used on
 * another. usage: sessions SOCKET DIRECTORY. test_libcloister.py expects its output.
 */
#include <cloister.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-r));
	exit(1);
}

static struct cloister *open_at(const char *socket, const char *directory)
{
	struct cloister_message *reply;
	struct cloister *cloister;

	check(cloister_open(socket, &cloister), "open");
	check(cloister_workspace(cloister, directory, &reply), "workspace");
	cloister_message_free(reply);
	return cloister;
}

/* Makes a request with @params, which it takes, and returns the reply. */
static struct cloister_message *ask(
	struct cloister *cloister, const char *method, struct cloister_object *params)
{
	struct cloister_message *reply;

	check(cloister_request(cloister, method, cloister_object_text(params), &reply), method);
	cloister_object_free(params);
	return reply;
}

static struct cloister_object *of(const char *session)
{
	struct cloister_object *params = cloister_object_new();

	check(cloister_object_string(params, "session", session, strlen(session)), "params");
	return params;
}

static char *start(struct cloister *cloister)
{
	static const char command[] = "read -r line; echo \"got $line\"; echo more >&2; sleep 600";
	struct cloister_object *params = cloister_object_new();
	struct cloister_message *reply;
	char *session;

	cloister_object_string(params, "command", command, sizeof(command) - 1);
	cloister_object_string(params, "name", "reader", 6);
	cloister_object_bool(params, "stdin", true);
	reply = ask(cloister, "session.start", params);
	session = strdup(cloister_get_string(reply, "/session", NULL));
	printf("started %s\n", cloister_get_string(reply, "/name", NULL));
	cloister_message_free(reply);
	return session;
}

/* The same bytes at the same offset are written once, however often they are sent. */
static void write_twice(struct cloister *cloister, const char *session)
{
	for (int i = 0; i < 2; i++) {
		struct cloister_object *params = of(session);
		struct cloister_message *reply;
		int64_t next = 0;

		cloister_object_int64(params, "at", 0);
		cloister_object_string(params, "data", "line\n", 5);
		reply = ask(cloister, "session.write", params);
		check(cloister_get_int64(reply, "/next", &next), "next");
		printf("input %" PRId64 "\n", next);
		cloister_message_free(reply);
	}
}

/* Reads from the cursor @after until @wanted has come. Returns the next cursor. */
static int64_t read_until(
	struct cloister *cloister, const char *session, int64_t after, const char *wanted)
{
	struct cloister_object *params = of(session);
	struct cloister_message *reply;
	char until[64];
	int64_t lost = -1;
	size_t n = 0;

	snprintf(until, sizeof(until), "[{\"contains\":\"%s\"}]", wanted);
	cloister_object_int64(params, "after", after);
	cloister_object_int64(params, "wait_ms", 60000);
	cloister_object_json(params, "until", until);
	reply = ask(cloister, "session.read", params);
	check(cloister_get_count(reply, "/chunks", &n), "chunks");
	for (size_t i = 0; i < n; i++) {
		char stream[64], data[64];

		snprintf(stream, sizeof(stream), "/chunks/%zu/stream", i);
		snprintf(data, sizeof(data), "/chunks/%zu/data", i);
		printf("%s %s", cloister_get_string(reply, stream, NULL),
			cloister_get_string(reply, data, NULL));
	}
	check(cloister_get_int64(reply, "/lost_bytes", &lost), "lost_bytes");
	check(cloister_get_int64(reply, "/next", &after), "next");
	printf("lost %" PRId64 "\n", lost);
	cloister_message_free(reply);
	return after;
}

static void end(struct cloister *cloister, const char *session)
{
	struct cloister_message *reply = ask(cloister, "session.end", of(session));

	printf("ended by %s\n", cloister_get_string(reply, "/output/ended_by", NULL));
	cloister_message_free(reply);
	reply = ask(cloister, "session.read", of("gone"));
	printf("%s %d\n", cloister_error_name(reply),
		cloister_error(reply) == CLOISTER_ERROR_SESSION_NOT_FOUND);
	cloister_message_free(reply);
}

int main(int argc, char **argv)
{
	struct cloister *cloister = argc == 3 ? open_at(argv[1], argv[2]) : NULL;
	char *session;
	int64_t next;

	if (!cloister)
		return 2;
	session = start(cloister);
	write_twice(cloister, session);
	next = read_until(cloister, session, 0, "got line");
	cloister_close(cloister);
	/* The session goes on, and the cursor holds on every connection. */
	cloister = open_at(argv[1], argv[2]);
	read_until(cloister, session, next, "more");
	end(cloister, session);
	cloister_close(cloister);
	free(session);
	return 0;
}
