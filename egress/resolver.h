/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Addresses of names, by c-ares. Names are asked for as they are, without search domains. The
 * answers come from servers that are not trusted: an address is only connected to after
 * address_permitted().
 */

#include "common/egress/host.h"

struct ares_socket_functions;
struct event_base;
struct resolver;
struct resolver_query;

/**
 * Receives the addresses, at most LIMIT_EGRESS_ADDRESSES with @port; with @n of 0 there are none.
 * Called once for each query that was not cancelled, never before resolver_ask() has returned.
 */
typedef void (*resolver_answer)(void *context, const struct sockaddr_storage *addresses, size_t n);

/**
 * Makes a resolver that asks @servers (ares_set_servers_ports_csv(3)), or with "" those of
 * /etc/resolv.conf after /etc/hosts. Returns 0 or -errno.
 */
int resolver_new(struct event_base *base, const char *servers, struct resolver **ret);

/** Frees a resolver that has no query. */
void resolver_free(struct resolver *resolver);

/** Asks by these sockets from now on (ares_set_socket_functions(3)). */
void resolver_use_sockets(
	struct resolver *resolver, const struct ares_socket_functions *functions, void *context);

/** Begins again with other servers, or with the present content of the system's files. Returns 0 or
 * -errno.
 */
int resolver_renew(struct resolver *resolver, const char *servers);

/** Asks for @host. Returns a query, or NULL if memory is out. */
struct resolver_query *resolver_ask(struct resolver *resolver, const struct host *host,
	uint16_t port, resolver_answer answer, void *context);

/**
 * Forgets a query that is not answered yet. c-ares ends no single query, so this one goes on there
 * for up to 14 seconds and is counted in *@of_tenant and *@of_cell until then. Does nothing with
 * NULL.
 */
void resolver_leave(struct resolver_query *query, uint64_t *of_tenant, uint64_t *of_cell);

/** Stops counting in *@count, which is about to be freed. */
void resolver_forget(struct resolver *resolver, const uint64_t *count);
