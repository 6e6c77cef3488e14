// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress, on its one loop. ares_init_options(3), ares_getaddrinfo(3). */
#define CARES_NO_DEPRECATED /* 1.34 has another function for sockets, which 1.18 lacks */

#include "egress/resolver.h"

#include "common/cleanup.h"

#include <ares.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netdb.h>
#include <sys/queue.h>

#define TRY_MS 2000
#define TRIES  3

/* A socket of c-ares. */
struct resolver_socket {
	LIST_ENTRY(resolver_socket) entry;
	struct resolver *resolver;
	struct event event;
	ares_socket_t fd;
};

struct resolver {
	struct event_base *base;
	ares_channel channel;
	struct event timer;
	LIST_HEAD(, resolver_socket) sockets;
	LIST_HEAD(, resolver_query) left;
};

/* A query lives until its answer has been passed on, also when nobody waits for it any more. */
struct resolver_query {
	struct resolver *resolver;
	struct host host;
	uint16_t port;
	resolver_answer answer; /* NULL: it was left */
	void *context;
	struct sockaddr_storage addresses[LIMIT_EGRESS_ADDRESSES];
	size_t n;
	struct event told;
	bool is_done; /* c-ares has answered */
	/* Of one that was left: where it is counted. */
	LIST_ENTRY(resolver_query) entry;
	uint64_t *counts[2];
};

/* Has c-ares look at its queries when the next of them is due. */
static void set_timer(struct resolver *resolver)
{
	struct timeval due, *wait = ares_timeout(resolver->channel, NULL, &due);

	if (wait)
		event_add(&resolver->timer, wait);
	else
		event_del(&resolver->timer);
}

static void on_time(evutil_socket_t fd, short what, void *context)
{
	struct resolver *resolver = context;

	(void)fd;
	(void)what;
	ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(resolver);
}

static void on_socket(evutil_socket_t fd, short what, void *context)
{
	struct resolver *resolver = context;

	ares_process_fd(resolver->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
		what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	set_timer(resolver);
}

static struct resolver_socket *find_socket(struct resolver *resolver, ares_socket_t fd)
{
	struct resolver_socket *found;

	LIST_FOREACH (found, &resolver->sockets, entry)
		if (found->fd == fd)
			return found;
	return NULL;
}

/* c-ares wants to know when @fd is readable or writable, or, with neither, closes it. */
static void on_state(void *context, ares_socket_t fd, int readable, int writable)
{
	struct resolver *resolver = context;
	struct resolver_socket *found = find_socket(resolver, fd);
	short what = (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));

	if (found)
		event_del(&found->event);
	if (what == 0) {
		if (found)
			LIST_REMOVE(found, entry);
		free(found);
		return;
	}
	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return; /* the query ends at its deadline */
		found->fd = fd;
		LIST_INSERT_HEAD(&resolver->sockets, found, entry);
	}
	event_assign(
		&found->event, resolver->base, fd, (short)(what | EV_PERSIST), on_socket, resolver);
	event_add(&found->event, NULL);
}

static int start_ares(struct resolver *resolver, const char *servers)
{
	struct ares_options options = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TRY_MS,
		.tries = TRIES,
		.sock_state_cb = on_state,
		.sock_state_cb_data = resolver,
		.lookups = (char *)"b",
		/* No search domains: ares_getaddrinfo(3) of c-ares 1.18 does not know the flag. */
		.domains = NULL,
		.ndomains = 0,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB |
		   ARES_OPT_DOMAINS;
	ares_channel channel;
	int status;

	if (servers[0])
		mask |= ARES_OPT_LOOKUPS;
	status = ares_init_options(&channel, &options, mask);
	if (status != ARES_SUCCESS)
		return status == ARES_ENOMEM ? -ENOMEM : -EIO;
	if (servers[0] && ares_set_servers_ports_csv(channel, servers) != ARES_SUCCESS) {
		ares_destroy(channel);
		return -EINVAL;
	}
	resolver->channel = channel;
	return 0;
}

int resolver_new(struct event_base *base, const char *servers, struct resolver **ret)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));
	int r = resolver ? 0 : -ENOMEM;

	if (r == 0 && ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		r = -EIO;
	if (r == 0) {
		resolver->base = base;
		LIST_INIT(&resolver->sockets);
		LIST_INIT(&resolver->left);
		evtimer_assign(&resolver->timer, base, on_time, resolver);
		r = start_ares(resolver, servers);
	}
	if (r < 0) {
		free(resolver);
		return r;
	}
	*ret = resolver;
	return 0;
}

void resolver_free(struct resolver *resolver)
{
	ares_destroy(resolver->channel);
	event_del(&resolver->timer);
	free(resolver);
	ares_library_cleanup();
}

void resolver_use_sockets(
	struct resolver *resolver, const struct ares_socket_functions *functions, void *context)
{
	ares_set_socket_functions(resolver->channel, functions, context);
}

int resolver_renew(struct resolver *resolver, const char *servers)
{
	ares_channel old = resolver->channel;
	int r = start_ares(resolver, servers);

	if (r < 0)
		return r;
	ares_destroy(old);
	set_timer(resolver);
	return 0;
}

static void on_told(evutil_socket_t fd, short what, void *context)
{
	struct resolver_query *query = context;

	(void)fd;
	(void)what;
	if (query->answer)
		query->answer(query->context, query->addresses, query->n);
	free(query);
}

static void send_query(struct resolver_query *query);

static void end_left(struct resolver_query *query)
{
	for (size_t i = 0; i < ARRAY_SIZE(query->counts); i++)
		if (query->counts[i])
			--*query->counts[i];
	LIST_REMOVE(query, entry);
	free(query);
}

static void on_answer(void *context, int status, int timeouts, struct ares_addrinfo *result)
{
	struct resolver_query *query = context;

	(void)timeouts;
	/* resolver_renew() has put another channel in the place of the one that ends. */
	if (status == ARES_EDESTRUCTION && query->answer) {
		send_query(query);
		return;
	}
	for (const struct ares_addrinfo_node *node = status == ARES_SUCCESS ? result->nodes : NULL;
		node && query->n < LIMIT_EGRESS_ADDRESSES; node = node->ai_next)
		if (node->ai_addrlen <= sizeof(query->addresses[0]))
			memcpy(&query->addresses[query->n++], node->ai_addr, node->ai_addrlen);
	if (result)
		ares_freeaddrinfo(result);
	query->is_done = true;
	if (!query->answer) {
		end_left(query);
		return;
	}
	/* c-ares may answer within resolver_ask(), or from ares_process_fd(), which must return. */
	event_active(&query->told, EV_TIMEOUT, 0);
}

static void send_query(struct resolver_query *query)
{
	/* NOSORT: sorting would connect a socket to each of the addresses. */
	const struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT | ARES_AI_NUMERICSERV,
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	char service[8];

	snprintf(service, sizeof(service), "%u", query->port);
	ares_getaddrinfo(
		query->resolver->channel, query->host.text, service, &hints, on_answer, query);
}

struct resolver_query *resolver_ask(struct resolver *resolver, const struct host *host,
	uint16_t port, resolver_answer answer, void *context)
{
	struct resolver_query *query = calloc(1, sizeof(*query));

	if (!query)
		return NULL;
	query->resolver = resolver;
	query->host = *host;
	query->port = port;
	query->answer = answer;
	query->context = context;
	evtimer_assign(&query->told, resolver->base, on_told, query);
	send_query(query);
	set_timer(resolver);
	return query;
}

void resolver_leave(struct resolver_query *query, uint64_t *of_tenant, uint64_t *of_cell)
{
	if (!query)
		return;
	if (query->is_done) {
		event_del(&query->told);
		free(query);
		return;
	}
	query->answer = NULL;
	query->counts[0] = of_tenant;
	query->counts[1] = of_cell;
	++*of_tenant;
	++*of_cell;
	LIST_INSERT_HEAD(&query->resolver->left, query, entry);
}

void resolver_forget(struct resolver *resolver, const uint64_t *count)
{
	struct resolver_query *query;

	LIST_FOREACH (query, &resolver->left, entry)
		for (size_t i = 0; i < ARRAY_SIZE(query->counts); i++)
			if (query->counts[i] == count)
				query->counts[i] = NULL;
}
