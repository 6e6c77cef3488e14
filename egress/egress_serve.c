// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. The connection to cloisterd: requests come down, events go up. Nothing
 * new begins while many events wait, and requests are not read while answers do.
 */
#include "common/cleanup.h"
#include "common/egress/address.h"
#include "common/text.h"
#include "egress/conn_state.h"
#include "egress/egress_parent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Whether the host's IP filter lets this program reach the networks of egress_private. The
 * packages' unit has such a filter (IPAddressDeny=), to which an administrator's exceptions must be
 * added too.
 *
 * It is looked at at start and on reload. A filter of a cgroup, and netfilter, judge a
 * packet when it is sent, on whichever interface, and sendto(2) says EPERM. So it is sent on lo,
 * where nobody takes it. An IPv6 address has no route there: an empty datagram goes where
 * connections would, and no further than to a neighbour. ipv6(7)
 */

#define DISCARD_PORT 9
#define MAPPED_BITS  96 /* before an IPv4 address in a struct network */

static bool is_refused_ipv6(const uint8_t address[static 16])
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT)};
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	memcpy(&to.sin6_addr, address, sizeof(to.sin6_addr));
	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof(one)) < 0)
		return false;
	return sendto(fd, "", 0, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno == EPERM;
}

/* Whether an empty datagram to @address is refused. */
static bool is_refused(struct in_addr address)
{
	static const char loopback[] = "lo";
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT), .sin_addr = address};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	/* Without the binding it might leave the host. No router passes on what has a TTL of 1. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, loopback, sizeof(loopback)) < 0 ||
		setsockopt(fd, IPPROTO_IP, IP_TTL, &one, sizeof(one)) < 0)
		return false;
	return sendto(fd, "", 0, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno == EPERM;
}

static bool is_ipv4(const struct network *network)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return network->prefix >= MAPPED_BITS &&
	       memcmp(network->bytes, mapped, sizeof(mapped)) == 0;
}

/* The same for a network of IPv6, whose own address is its routers'. RFC 4291, 2.6.1 */
static bool is_filtered_ipv6(const struct network *network)
{
	uint8_t first[16], last[16];

	for (unsigned i = 0; i < 16; i++) {
		unsigned bits = network->prefix > 8 * i ? network->prefix - 8 * i : 0;
		uint8_t rest = bits >= 8 ? 0 : (uint8_t)(0xff >> bits);

		first[i] = network->bytes[i];
		last[i] = network->bytes[i] | rest;
	}
	first[15] |= network->prefix < 127;
	return is_refused_ipv6(first) || is_refused_ipv6(last);
}

/* Looks at the first and the last address of a host. */
static bool is_filtered_ipv4(const struct network *network)
{
	unsigned prefix = network->prefix - MAPPED_BITS;
	uint32_t rest = prefix == 0 ? UINT32_MAX : ~(UINT32_MAX << (32 - prefix) % 32);
	uint32_t first, last, ends = prefix < 31;

	memcpy(&first, network->bytes + 12, sizeof(first));
	first = ntohl(first);
	/* Those before and behind are the network's own and its broadcast address. */
	last = prefix < 32 ? (first | rest) - ends : first;
	return is_refused((struct in_addr){htonl(first + ends)}) ||
	       is_refused((struct in_addr){htonl(last)});
}

static bool has_word(struct text words, struct text word)
{
	while (words.len > 0)
		if (text_equal(text_take(&words, ' '), word))
			return true;
	return false;
}

/*
 * Appends those of the IPv4 networks in @networks to @refused that the filter refuses in part or
 * whole, as ADDRESS/PREFIX with blanks between, as far as they fit into @size bytes. No packet
 * leaves the host. An address that cannot be tried counts as not refused.
 */
static void ip_filter_find(const struct networks *networks, char *refused, size_t size)
{
	for (size_t i = 0; i < networks->count; i++) {
		const struct network *network = &networks->items[i];
		char text[INET6_ADDRSTRLEN + 4], address[INET6_ADDRSTRLEN];
		bool ipv4 = is_ipv4(network);
		size_t len = strlen(refused);

		if (len + sizeof(text) + 1 > size)
			return;
		if (ipv4 ? !is_filtered_ipv4(network) : !is_filtered_ipv6(network))
			continue;
		inet_ntop(ipv4 ? AF_INET : AF_INET6, network->bytes + (ipv4 ? 12 : 0), address,
			sizeof(address));
		snprintf(text, sizeof(text), "%s/%u", address,
			(unsigned)(network->prefix - (ipv4 ? MAPPED_BITS : 0)));
		/* Several tenants may have it. */
		if (!has_word(text_from(refused), text_from(text)))
			snprintf(refused + len, size - len, "%s%s", len > 0 ? " " : "", text);
	}
}

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "cloister-egress: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/* cloisterd is gone, and with it all workspaces. */
static _Noreturn void end_egress(void)
{
	exit(0);
}

static void answer_cloisterd(
	struct egress *egress, uint8_t type, uint64_t cell, const struct wire_writer *writer)
{
	egress_send(egress, type, cell, writer);
}

static void open_cell(struct egress *egress, struct channel_frame *frame)
{
	struct egress_open request;
	char why[LIMIT_EGRESS_REASON_BYTES] = "";
	uint8_t bytes[LIMIT_EGRESS_REASON_BYTES + 16];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));
	struct egress_open_failed failed;
	int r;

	if (egress_open_get(frame->payload, &request) < 0 ||
		frame->n_fds != egress_sockets_count(request.sockets) ||
		cell_find(egress, frame->call))
		die("EGRESS_OPEN", EBADMSG);
	r = cell_open(egress, frame->call, &request, frame->fds, why, sizeof(why));
	if (r == 0) {
		answer_cloisterd(egress, EGRESS_OPENED, frame->call, &writer);
		return;
	}
	failed = (struct egress_open_failed){(uint32_t)-r, text_from(why)};
	egress_open_failed_put(&writer, &failed);
	answer_cloisterd(egress, EGRESS_OPEN_FAILED, frame->call, &writer);
}

static void close_cell(struct egress *egress, struct channel_frame *frame)
{
	struct cell *cell = cell_find(egress, frame->call);

	if (frame->payload.len > 0)
		die("EGRESS_CLOSE", EBADMSG);
	if (cell)
		cell_close(cell);
}

static void begin_call(struct egress *egress, struct channel_frame *frame)
{
	struct cell *cell = cell_find(egress, frame->call);
	struct egress_call call;
	int r;

	if (egress_call_get(frame->payload, &call) < 0)
		die("EGRESS_CALL", EBADMSG);
	r = cell ? cell_add_command(cell, &call) : 0;
	if (r < 0)
		die("EGRESS_CALL", r);
}

static void end_call(struct egress *egress, struct channel_frame *frame)
{
	struct cell *cell = cell_find(egress, frame->call);
	struct egress_call_end call;

	if (egress_call_end_get(frame->payload, &call) < 0)
		die("EGRESS_CALL_END", EBADMSG);
	if (cell)
		cell_end_command(cell, call.call);
}

/* Tells cloisterd what of egress_private the host's IP filter refuses, if that is news. */
static void tell_filtered(struct egress *egress)
{
	char refused[LIMIT_EGRESS_REASON_BYTES] = "";
	uint8_t bytes[LIMIT_EGRESS_REASON_BYTES + 16];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));
	const struct networks *networks;
	struct egress_filtered filtered;
	size_t tried = 0;

	for (size_t i = 0; (networks = egress_policy_private(egress->policy, i)); i++) {
		tried += networks->count;
		if (tried > LIMIT_EGRESS_TRIED)
			break;
		ip_filter_find(networks, refused, sizeof(refused));
	}
	if (!*refused && !egress->is_filtered)
		return;
	if (*refused)
		fprintf(stderr,
			"cloister-egress: the host's IP filter refuses %s, which egress_private "
			"opens: name it in IPAddressAllow= too\n",
			refused);
	egress->is_filtered = *refused;
	filtered.networks = text_from(refused);
	egress_filtered_put(&writer, &filtered);
	egress_send(egress, EGRESS_FILTERED, 0, &writer);
}

static void reload(struct egress *egress, struct channel_frame *frame)
{
	if (frame->payload.len > 0)
		die("EGRESS_RELOAD", EBADMSG);
	if (egress_policy_read(egress->policy, egress->is_system) < 0)
		fprintf(stderr, "cloister-egress: the configuration was not reloaded here: the old "
				"one stays in force\n");
	else if (resolver_renew(egress->resolver, egress_policy_resolver(egress->policy)) < 0)
		fprintf(stderr, "cloister-egress: the resolver keeps its old servers\n");
	cells_renew(egress);
	tell_filtered(egress);
}

/* Only a cloisterd to which a service manager's cloister-egress connects says so. */
static void retire(struct egress *egress, struct channel_frame *frame)
{
	int r = frame->payload.len > 0 ? -EBADMSG : egress_parent_tell_retired();

	(void)egress;
	if (r < 0)
		die("EGRESS_RETIRED", r);
}

static void (*const requests[])(struct egress *egress, struct channel_frame *frame) = {
	[EGRESS_OPEN] = open_cell,
	[EGRESS_CLOSE] = close_cell,
	[EGRESS_CALL] = begin_call,
	[EGRESS_CALL_END] = end_call,
	[EGRESS_RELOAD] = reload,
	[EGRESS_RETIRED] = retire,
};

/* Requests that have arrived, as long as their answers are taken. */
static void serve_egress(struct egress *egress)
{
	struct channel_frame frame;
	int r = 0;

	while (!egress_is_behind(egress) && (r = channel_next(&egress->channel, &frame)) > 0) {
		if (frame.type >= ARRAY_SIZE(requests) || !requests[frame.type] ||
			(frame.type != EGRESS_OPEN && frame.n_fds > 0))
			die("request", EBADMSG);
		requests[frame.type](egress, &frame);
		channel_frame_done(&frame);
	}
	if (r < 0)
		die("request", r);
	if (egress_is_behind(egress))
		event_del(&egress->readable);
	else
		event_add(&egress->readable, NULL);
}

static void on_cloisterd_readable(evutil_socket_t fd, short what, void *context)
{
	struct egress *egress = context;
	int r = channel_fill(&egress->channel, WIRE_FRAME_MAX);

	(void)fd;
	(void)what;
	if (r == -EPIPE)
		end_egress();
	if (r < 0 && r != -EAGAIN)
		die("read", r);
	serve_egress(egress);
}

static void watch_for_room(struct egress *egress);

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	struct egress *egress = context;
	int r = channel_flush(&egress->channel);
	struct conn *conn;

	(void)fd;
	(void)what;
	if (r == -EAGAIN || channel_is_short(r)) {
		watch_for_room(egress);
		return;
	}
	if (r < 0)
		end_egress();
	event_del(&egress->writable);
	/* A connection may have a next event at once, which has to be taken as well. */
	while (channel_waiting(&egress->channel) == 0 && (conn = TAILQ_FIRST(&egress->waiting))) {
		egress_wait_no_more(egress, conn);
		conn_told(conn);
	}
	serve_egress(egress);
	cells_resume(egress);
}

static void on_resume(evutil_socket_t fd, short what, void *context)
{
	struct egress *egress = context;

	if (channel_waiting(&egress->channel) > 0)
		on_writable(fd, what, context);
	cells_resume(context);
}

/* If the loop cannot watch the socket, it is tried again. */
static void watch_for_room(struct egress *egress)
{
	static const struct timeval pause = {0, CHANNEL_SHORT_PAUSE_MS * 1000L};

	if (event_add(&egress->writable, NULL) < 0)
		event_add(&egress->resume, &pause);
}

bool egress_send(
	struct egress *egress, uint8_t type, uint64_t cell, const struct wire_writer *writer)
{
	struct text payload = {(const char *)writer->data, writer->len};
	int r = wire_writer_ok(writer)
			? channel_send(&egress->channel, type, cell, payload, NULL, 0)
			: -EMSGSIZE;

	if (r < 0)
		die("event", r);
	r = channel_flush(&egress->channel);
	if (r == 0)
		return true;
	if (r != -EAGAIN && !channel_is_short(r))
		end_egress();
	watch_for_room(egress);
	return false;
}

void egress_wait(struct egress *egress, struct conn *conn)
{
	TAILQ_INSERT_TAIL(&egress->waiting, conn, waiting);
	conn->is_waiting = true;
}

void egress_wait_no_more(struct egress *egress, struct conn *conn)
{
	TAILQ_REMOVE(&egress->waiting, conn, waiting);
	conn->is_waiting = false;
}

bool egress_is_behind(const struct egress *egress)
{
	return channel_waiting(&egress->channel) > LIMIT_EGRESS_QUEUE_BYTES;
}

int egress_begin(struct egress *egress, int channel_fd)
{
	struct egress_ready ready = {.abi = egress->landlock_abi};
	uint8_t bytes[16];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));

	if (evutil_make_socket_nonblocking(channel_fd) < 0)
		return -EIO;
	channel_init(&egress->channel, channel_fd, channel_fd, CHANNEL_TAKES_FDS);
	LIST_INIT(&egress->cells);
	LIST_INIT(&egress->tenants);
	TAILQ_INIT(&egress->waiting);
	TAILQ_INIT(&egress->paused);
	event_assign(&egress->readable, egress->base, channel_fd, EV_READ | EV_PERSIST,
		on_cloisterd_readable, egress);
	/* What cloisterd has said of a call comes before the connections of its command. */
	event_priority_set(&egress->readable, EGRESS_PRIORITY_CHANNEL);
	event_assign(&egress->writable, egress->base, channel_fd, EV_WRITE | EV_PERSIST,
		on_writable, egress);
	evtimer_assign(&egress->resume, egress->base, on_resume, egress);
	event_add(&egress->readable, NULL);
	egress_ready_put(&writer, &ready);
	egress_send(egress, EGRESS_READY, 0, &writer);
	tell_filtered(egress);
	return 0;
}
