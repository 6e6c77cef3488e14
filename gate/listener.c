// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. Strangers connect. One that does not say a head in time is dropped, one
 * address has a bounded number of connections, and so have all.
 */
#include "gate/listener.h"

#include "common/cleanup.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/tenant_share.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/stat.h>

#define BUCKETS          1024
#define PASSED_FDS_START 3

struct door {
	struct gate_listeners *listeners;
	const struct gate_address *address;
	int fd;
	struct event *accept;
};

struct gate_listeners {
	struct gate *gate;
	bool (*take)(struct gate *gate, struct gate_conn *conn, bool tls);
	struct door doors[LIMIT_GATE_LISTENERS];
	struct gate_address passed[LIMIT_GATE_LISTENERS];
	size_t n_doors;
	bool is_paused;
	LIST_HEAD(, gate_conn) buckets[BUCKETS];
};

/* One gate a process. */
static struct gate_listeners *the_listeners;

static int bind_to(const struct gate_address *address)
{
	const struct sockaddr_un *path = (const void *)&address->storage;
	_cleanup_close_ int fd =
		socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0)
		return -errno;
	if (address->is_unix)
		(void)unlink(path->sun_path);
	else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (address->storage.ss_family == AF_INET6 &&
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&address->storage, address->len) < 0 ||
		listen(fd, LIMIT_GATE_BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* How many sockets a service manager has passed, from 3 on: sd_listen_fds(3). */
static size_t count_passed(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	long n = pid && count && strtol(pid, NULL, 10) == (long)getpid() ? strtol(count, NULL, 10)
									 : 0;

	return n > 0 && n <= LIMIT_GATE_LISTENERS ? (size_t)n : 0;
}

/* Takes a socket that was passed. Returns it, or -errno if it is no listening one. */
static int take_passed(int fd, struct gate_address *ret)
{
	socklen_t len = sizeof(ret->storage), size = sizeof(int);
	int listens = 0;

	*ret = (struct gate_address){.len = sizeof(ret->storage)};
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
		return -ENOTSOCK;
	if (getsockname(fd, (struct sockaddr *)&ret->storage, &len) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	ret->is_unix = ret->storage.ss_family == AF_UNIX;
	ret->is_loopback = gate_address_is_loopback(&ret->storage);
	snprintf(ret->text, sizeof(ret->text), "the socket %d that was passed", fd);
	return fd;
}

/* Listens at the sockets that were passed. */
static int open_passed(struct gate_listeners *listeners, size_t n, const char **ret_at)
{
	for (size_t i = 0; i < n; i++) {
		struct gate_address *address = &listeners->passed[i];
		int fd = take_passed(PASSED_FDS_START + (int)i, address);

		*ret_at = "a socket that was passed";
		if (fd >= 0 && listeners->gate->config->tls == GATE_TLS_NO && !address->is_loopback)
			fd = -EPERM; /* other hosts could read keys */
		if (fd < 0)
			return fd;
		listeners->doors[i] = (struct door){listeners, address, fd, NULL};
		listeners->n_doors++;
	}
	return 0;
}

int gate_listeners_open(struct gate *gate, struct gate_listeners **ret, const char **ret_at)
{
	const struct gate_addresses *all = &gate->config->listen;
	struct gate_listeners *listeners = calloc(1, sizeof(*listeners));
	size_t n_passed = count_passed();

	if (!listeners)
		return -ENOMEM;
	listeners->gate = gate;
	the_listeners = *ret = listeners;
	if (n_passed > 0)
		return open_passed(listeners, n_passed, ret_at);
	for (size_t i = 0; i < all->count; i++) {
		struct door *door = &listeners->doors[i];

		*ret_at = all->items[i].text;
		*door = (struct door){listeners, &all->items[i], bind_to(&all->items[i]), NULL};
		if (door->fd < 0)
			return door->fd;
		listeners->n_doors++;
	}
	return 0;
}

static unsigned bucket_of(const struct gate_peer *peer)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(peer->bytes); i++)
		sum = sum * 31 + peer->bytes[i];
	return sum % BUCKETS;
}

static void peer_of(const struct sockaddr_storage *storage, struct gate_peer *ret)
{
	const struct sockaddr_in *ipv4 = (const void *)storage;
	const struct sockaddr_in6 *ipv6 = (const void *)storage;
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	*ret = (struct gate_peer){{0}};
	if (storage->ss_family == AF_INET) {
		memcpy(ret->bytes, mapped, sizeof(mapped));
		memcpy(ret->bytes + sizeof(mapped), &ipv4->sin_addr, 4);
	} else if (storage->ss_family == AF_INET6) {
		memcpy(ret->bytes, &ipv6->sin6_addr,
			IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr) ? 16 : 8);
	}
}

bool gate_peer_parse(const char *text, struct gate_peer *ret)
{
	struct sockaddr_storage storage = {0};
	struct sockaddr_in *ipv4 = (void *)&storage;
	struct sockaddr_in6 *ipv6 = (void *)&storage;

	if (inet_pton(AF_INET, text, &ipv4->sin_addr) == 1)
		storage.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &ipv6->sin6_addr) == 1)
		storage.ss_family = AF_INET6;
	else
		return false;
	peer_of(&storage, ret);
	return true;
}

static bool is_proxy(const struct gate_config *config, const struct gate_peer *peer)
{
	struct gate_peer proxy;

	for (size_t i = 0; i < config->tls_proxy.count; i++) {
		peer_of(&config->tls_proxy.items[i].storage, &proxy);
		if (memcmp(&proxy, peer, sizeof(proxy)) == 0)
			return true;
	}
	return false;
}

/* Whether another connection of this peer may be. */
static bool may_connect(const struct gate_listeners *listeners, const struct door *door,
	const struct gate_peer *peer)
{
	const struct gate_config *config = listeners->gate->config;
	const struct gate_conn *conn;
	uint64_t n = 0;

	if (door->address->is_unix)
		return true;
	if (config->tls == GATE_TLS_PROXY)
		return is_proxy(config, peer);
	LIST_FOREACH (conn, &listeners->buckets[bucket_of(peer)], entry)
		n += memcmp(&conn->peer, peer, sizeof(*peer)) == 0;
	return n < config->connections_per_address;
}

static void on_deadline(evutil_socket_t fd, short what, void *context)
{
	struct gate_conn *conn = context;

	(void)fd;
	(void)what;
	/* libmicrohttpd finds the end, and closes. */
	shutdown(conn->fd, SHUT_RDWR);
}

void gate_conn_await(struct gate_conn *conn)
{
	uint64_t ms = conn->gate->config->head_ms;
	struct timeval wait = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};

	evtimer_add(&conn->deadline, &wait);
}

void gate_conn_has_head(struct gate_conn *conn)
{
	evtimer_del(&conn->deadline);
}

static void pause_all(struct gate_listeners *listeners, bool pause)
{
	listeners->is_paused = pause;
	for (size_t i = 0; i < listeners->n_doors; i++) {
		if (pause)
			event_del(listeners->doors[i].accept);
		else
			event_add(listeners->doors[i].accept, NULL);
	}
}

void gate_conn_free(struct gate_conn *conn)
{
	struct gate_listeners *listeners = the_listeners;

	LIST_REMOVE(conn, entry);
	evtimer_del(&conn->deadline);
	conn_share_leave(&conn->share);
	conn->gate->connections--;
	free(conn);
	if (listeners->is_paused)
		pause_all(listeners, false);
}

/* What the kernel keeps of an answer that is not read, and of a body that is not, is the host's. */
static void bound_socket(int fd, bool is_unix)
{
	int one = 1, size = LIMIT_GATE_SOCKET_BYTES;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (is_unix)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static void take_gate_client(struct door *door, int fd, const struct gate_peer *peer)
{
	struct gate_listeners *listeners = door->listeners;
	struct gate *gate = listeners->gate;
	bool tls = gate->config->tls == GATE_TLS_CERTIFICATE && !door->address->is_unix;
	struct gate_conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		close(fd);
		return;
	}
	bound_socket(fd, door->address->is_unix);
	conn->gate = gate;
	conn->fd = fd;
	conn->peer = *peer;
	conn->is_tls = tls;
	conn->is_local = door->address->is_loopback && gate->config->tls != GATE_TLS_PROXY;
	evtimer_assign(&conn->deadline, gate->base, on_deadline, conn);
	LIST_INSERT_HEAD(&listeners->buckets[bucket_of(peer)], conn, entry);
	gate->connections++;
	gate->counts[GATE_CONNECTIONS]++;
	gate_conn_await(conn);
	if (!listeners->take(gate, conn, tls))
		gate_conn_free(conn);
}

static void on_accept(evutil_socket_t listening, short what, void *context)
{
	struct door *door = context;
	struct gate_listeners *listeners = door->listeners;
	struct gate *gate = listeners->gate;
	struct sockaddr_storage storage = {0};
	socklen_t len = sizeof(storage);
	struct gate_peer peer;
	int fd;

	(void)what;
	if (gate->connections >= gate->config->connections) {
		pause_all(listeners, true);
		return;
	}
	fd = accept4(listening, (struct sockaddr *)&storage, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		/* Until a connection ends: there would be no descriptor before. */
		if ((errno == EMFILE || errno == ENFILE) && gate->connections > 0)
			pause_all(listeners, true);
		return;
	}
	peer_of(&storage, &peer);
	if (may_connect(listeners, door, &peer)) {
		take_gate_client(door, fd, &peer);
		return;
	}
	gate->counts[GATE_CONNECTIONS_REFUSED]++;
	close(fd);
}

int gate_listeners_begin(struct gate_listeners *listeners,
	bool (*take_conn)(struct gate *gate, struct gate_conn *conn, bool tls))
{
	listeners->take = take_conn;
	for (size_t i = 0; i < listeners->n_doors; i++) {
		struct door *door = &listeners->doors[i];

		door->accept = event_new(
			listeners->gate->base, door->fd, EV_READ | EV_PERSIST, on_accept, door);
		if (!door->accept || event_add(door->accept, NULL) < 0)
			return -ENOMEM;
		gate_say("listening at %s", door->address->text);
	}
	return 0;
}
