// SPDX-License-Identifier: Apache-2.0
/*
 * Like blocking.c, in libevent's event loop with two connections. usage: event_loop SOCKET
 * DIRECTORY OTHER_DIRECTORY.
 */
#include <cloister.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A connection in the loop. */
struct peer {
	const char *name;
	struct event_base *base;
	struct cloister *cloister;
	struct event *readable, *writable;
	int unanswered;
};

static int peers_in_use;

static void check(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-r));
	exit(1);
}

static void watch(struct peer *peer)
{
	short events = cloister_events(peer->cloister);

	if (events & POLLIN)
		event_add(peer->readable, NULL);
	else
		event_del(peer->readable);
	if (events & POLLOUT)
		event_add(peer->writable, NULL);
	else
		event_del(peer->writable);
}

static void finish(struct peer *peer)
{
	event_free(peer->readable);
	event_free(peer->writable);
	peer->readable = NULL;
	if (--peers_in_use == 0)
		event_base_loopbreak(peer->base);
}

static void on_event(evutil_socket_t fd, short what, void *userdata)
{
	struct peer *peer = userdata;
	int r = cloister_dispatch(peer->cloister);

	(void)fd;
	(void)what;
	if (r < 0) {
		printf("%s ended: %s\n", peer->name, strerror(-r));
		finish(peer);
		return;
	}
	watch(peer);
}

static void start(struct peer *peer, const char *arguments, cloister_reply_handler *on_reply,
	cloister_output_handler *on_output)
{
	struct cloister_tool_call call = {.tool = "run_command"};

	call.arguments = arguments;
	call.on_reply = on_reply;
	call.on_output = on_output;
	call.userdata = peer;
	check(cloister_start_call(peer->cloister, &call, NULL), "start");
	peer->unanswered++;
}

static void on_ended(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct peer *peer = userdata;
	const char *name;

	(void)id;
	check(error, "call");
	name = cloister_error_name(reply);
	printf("%s %s\n", peer->name,
		name ? name : cloister_get_json(reply, "/output/exit_code", false));
	if (--peer->unanswered > 0)
		return;
	/*
	 * All requests are answered. cloister_dispatch() must report that a handler has closed the
	 * connection.
	 */
	cloister_close(cloister);
}

static void print_output(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	struct peer *peer = userdata;

	(void)cloister;
	(void)id;
	printf("%s %s ", peer->name, stream == CLOISTER_STDERR ? "stderr" : "stdout");
	fwrite(data, 1, len, stdout);
}

static void cancel_it(struct cloister *cloister, int64_t id, enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	print_output(cloister, id, stream, data, len, userdata);
	check(cloister_cancel(cloister, id), "cancel");
}

/*
 * The first command of a workspace ends when the second one runs, the third when it is cancelled.
 */
static void on_opened(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	struct peer *peer = userdata;

	(void)cloister;
	(void)id;
	check(error, "workspace");
	if (!cloister_succeeded(reply))
		check(-1, cloister_error_message(reply));
	start(peer, "{\"command\": \"until [ -e go ]; do sleep 0.05; done; echo first; exit 4\"}",
		on_ended, print_output);
	start(peer, "{\"command\": \"touch go; echo second >&2; exit 5\"}", on_ended, print_output);
	start(peer, "{\"command\": \"echo third; sleep 600\", \"timeout_ms\": 500000}", on_ended,
		cancel_it);
}

static void begin(
	struct peer *peer, struct event_base *base, const char *path, const char *directory)
{
	int fd;

	peer->base = base;
	check(cloister_open(path, &peer->cloister), "open");
	fd = cloister_fd(peer->cloister);
	peer->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_event, peer);
	peer->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_event, peer);
	check(cloister_start_workspace(peer->cloister, directory, on_opened, peer, NULL),
		"workspace");
	watch(peer);
	peers_in_use++;
}

int main(int argc, char **argv)
{
	struct event_base *base = event_base_new();
	struct peer a = {.name = "a"}, b = {.name = "b"};

	if (argc != 4)
		return 2;
	begin(&a, base, argv[1], argv[2]);
	begin(&b, base, argv[1], argv[3]);
	event_base_dispatch(base);
	event_base_free(base);
	return 0;
}
