// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. libcurl parses what servers of workspaces send, which is hostile. It
 * opens no socket, resolves no name and keeps no connection: curl_multi_socket_action(3).
 */
#include "gate/ports/http_loop.h"

#include "common/cleanup.h"
#include "gate/gate.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

#define BUFFER_BYTES 16384L

struct http_loop {
	struct event_base *base;
	CURLM *multi;
	struct event *timer;
	struct http_transfer *listed; /* that are to be told */
};

static struct http_transfer *transfer_of(CURL *easy)
{
	char *transfer = NULL;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
	return (struct http_transfer *)transfer;
}

/* Tells what the callbacks of libcurl could not act on. A transfer may be closed meanwhile. */
static void settle(struct http_loop *loop)
{
	struct http_transfer *transfer;
	CURLMsg *message;
	int n;

	while ((transfer = loop->listed) != NULL) {
		loop->listed = transfer->next;
		transfer->is_listed = false;
		transfer->progressed(transfer);
	}
	while ((message = curl_multi_info_read(loop->multi, &n)) != NULL) {
		CURLcode result = message->data.result;

		transfer = transfer_of(message->easy_handle);
		transfer->done(transfer, result);
	}
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	struct http_loop *loop = context;
	int n;

	curl_multi_socket_action(loop->multi, fd,
		((what & EV_READ) ? CURL_CSELECT_IN : 0) |
			((what & EV_WRITE) ? CURL_CSELECT_OUT : 0),
		&n);
	settle(loop);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct http_loop *loop = context;
	int n;

	(void)fd;
	(void)what;
	curl_multi_socket_action(loop->multi, CURL_SOCKET_TIMEOUT, 0, &n);
	settle(loop);
}

/* libcurl wants to know when @fd is ready, or (CURL_POLL_REMOVE) no more. */
static int watch_http_socket(
	CURL *easy, curl_socket_t fd, int what, void *context, void *event_context)
{
	struct http_loop *loop = context;
	struct event *event = event_context;

	(void)easy;
	if (event)
		event_free(event);
	event = NULL;
	if (what != CURL_POLL_REMOVE && what != CURL_POLL_NONE) {
		event = event_new(loop->base, fd,
			(short)(((what & CURL_POLL_IN) ? EV_READ : 0) |
				((what & CURL_POLL_OUT) ? EV_WRITE : 0) | EV_PERSIST),
			on_ready, loop);
		if (!event || event_add(event, NULL) < 0)
			return -1;
	}
	curl_multi_assign(loop->multi, fd, event);
	return 0;
}

static int set_timer(CURLM *multi, long ms, void *context)
{
	struct http_loop *loop = context;
	struct timeval wait = {ms / 1000, ms % 1000 * 1000};

	(void)multi;
	if (ms < 0)
		evtimer_del(loop->timer);
	else
		evtimer_add(loop->timer, &wait);
	return 0;
}

int http_loop_new(struct gate *gate)
{
	struct http_loop *loop = calloc(1, sizeof(*loop));

	/* Without TLS, which the gate does not speak to workspaces. */
	if (!loop || curl_global_init(CURL_GLOBAL_NOTHING) != CURLE_OK)
		return -ENOMEM;
	loop->base = gate->base;
	loop->multi = curl_multi_init();
	loop->timer = evtimer_new(gate->base, on_timer, loop);
	if (!loop->multi || !loop->timer)
		return -ENOMEM;
	curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, watch_http_socket);
	curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, loop);
	curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, loop);
	gate->http = loop;
	return 0;
}

static curl_socket_t give_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)purpose;
	(void)address;
	return *(const int *)context;
}

static int is_connected(void *context, curl_socket_t fd, curlsocktype purpose)
{
	(void)context;
	(void)fd;
	(void)purpose;
	return CURL_SOCKOPT_ALREADY_CONNECTED;
}

static int keep_socket(void *context, curl_socket_t fd)
{
	(void)context;
	(void)fd;
	return 0;
}

int http_transfer_open(struct http_transfer *transfer, const int *fd)
{
	CURL *easy = transfer->easy = curl_easy_init();

	if (!easy)
		return -ENOMEM;
	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(easy, CURLOPT_URL, "http://127.0.0.1/");
	curl_easy_setopt(easy, CURLOPT_IPRESOLVE, CURL_IPRESOLVE_V4);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
	/* One connection for each transfer: what a server sends late is never another's answer. */
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, give_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, fd);
	curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, is_connected);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, keep_socket);
	return 0;
}

int http_transfer_begin(struct gate *gate, struct http_transfer *transfer)
{
	return curl_multi_add_handle(gate->http->multi, transfer->easy) == CURLM_OK ? 0 : -ENOMEM;
}

void http_transfer_tell(struct gate *gate, struct http_transfer *transfer)
{
	struct http_loop *loop = gate->http;

	if (transfer->is_listed)
		return;
	transfer->is_listed = true;
	transfer->next = loop->listed;
	loop->listed = transfer;
}

void http_transfer_close(struct gate *gate, struct http_transfer *transfer)
{
	struct http_transfer **place = &gate->http->listed;

	if (!transfer->easy)
		return;
	while (transfer->is_listed && *place != transfer)
		place = &(*place)->next;
	if (transfer->is_listed)
		*place = transfer->next;
	transfer->is_listed = false;
	curl_multi_remove_handle(gate->http->multi, transfer->easy);
	curl_easy_cleanup(TAKE_PTR(transfer->easy));
}
