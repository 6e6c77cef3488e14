// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, and in its child before the exec. Both run cloister's own code, and nothing
 * of a workspace has run in the network namespace yet. ip(7), udp(7)
 */
#include "worker/spawner/cell/cell_sockets.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * All of 127.0.0.0/8 is local. The proxy listens at each of its addresses, so that each command can
 * be told one of its own; a command cannot take the port at one of them, because bind(2) fails
 * where a socket listens on every address. Ports below 1024 are nobody's inside, for want of
 * CAP_NET_BIND_SERVICE; but localhost:80 is refused at once, and is not asked for a host's name:
 * 127.1.0.1 is the address that the DNS socket gives all names (egress/dns.c).
 */
static const struct place {
	int type;
	in_addr_t address;
	uint16_t port; /* 0: that of the request */
} places[CELL_SOCKETS_LEAST] = {
	[CELL_SOCKET_PROXY] = {SOCK_STREAM, INADDR_ANY, 0},
	[CELL_SOCKET_DNS] = {SOCK_DGRAM, INADDR_LOOPBACK, 53},
	[CELL_SOCKET_HTTP] = {SOCK_STREAM, 0x7f010001, 80},
	[CELL_SOCKET_HTTPS] = {SOCK_STREAM, 0x7f010001, 443},
	[CELL_SOCKET_DNS_TCP] = {SOCK_STREAM, INADDR_LOOPBACK, 53},
};

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(struct cell_sockets))];
};

unsigned cell_sockets_list(const struct cell_sockets *sockets, int ret[CELL_SOCKETS])
{
	unsigned n = 0;

	for (size_t i = 0; i < CELL_SOCKETS; i++)
		if (sockets->fds[i] >= 0)
			ret[n++] = sockets->fds[i];
	return n;
}

static int send_sockets(int to, const struct cell_sockets *sockets)
{
	int fds[CELL_SOCKETS];
	size_t size = cell_sockets_list(sockets, fds) * sizeof(fds[0]);
	union control control = {0};
	char byte = 0;
	struct iovec data = {&byte, sizeof(byte)};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	if (size > 0) {
		control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(size)};
		memcpy(CMSG_DATA(&control.header), fds, size);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(size);
	}
	return sendmsg(to, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* IP_FREEBIND: the loopback interface has no address before the worker raises it. */
static int make_socket(const struct place *place, uint32_t port, int *ret)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_port = htons(place->port ? place->port : (uint16_t)port),
		.sin_addr.s_addr = htonl(place->address)};
	_cleanup_close_ int fd = socket(AF_INET, place->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one)) < 0 ||
		bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
		(place->type == SOCK_STREAM && listen(fd, LIMIT_PROXY_BACKLOG) < 0))
		return -errno;
	*ret = TAKE_FD(fd);
	return 0;
}

/* It is asked about the network namespace in which it was made, whoever asks. sock_diag(7) */
static int make_diag(void)
{
	return socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
}

void cell_sockets_load(void)
{
	const struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} question = {
		.header = {.nlmsg_len = sizeof(question),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST},
		.request = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP},
	};
	_cleanup_close_ int fd = make_diag();

	if (fd >= 0)
		(void)!send(fd, &question, sizeof(question), MSG_DONTWAIT);
}

int cell_sockets_make(uint32_t port, bool diag, int to)
{
	struct cell_sockets sockets = cell_sockets_none();
	int r = 0;

	for (size_t i = 0; r == 0 && port > 0 && i < CELL_SOCKETS_LEAST; i++)
		r = make_socket(&places[i], port, &sockets.fds[i]);
	/* Two, because the answers to what one process asks must not be read by another. */
	if (r == 0)
		sockets.fds[CELL_SOCKET_PORTS] = make_diag();
	if (r == 0 && port > 0 && diag && sockets.fds[CELL_SOCKET_PORTS] >= 0)
		sockets.fds[CELL_SOCKET_DIAG] = make_diag();
	if (r == 0)
		r = send_sockets(to, &sockets);
	cell_sockets_close(&sockets);
	return r;
}

int cell_sockets_take(int from, struct cell_sockets *ret)
{
	union control control = {0};
	char byte;
	struct iovec data = {&byte, sizeof(byte)};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* CMSG_SPACE may have room for one more than @fds. */
		.msg_controllen = CMSG_LEN(sizeof(struct cell_sockets))};
	int fds[CELL_SOCKETS];
	struct cmsghdr *header;
	size_t size = 0;

	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (header && (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS))
		return -EBADMSG;
	if (header) {
		size = header->cmsg_len - CMSG_LEN(0);
		memcpy(fds, CMSG_DATA(header), size);
	}
	if (!(message.msg_flags & MSG_CTRUNC) &&
		cell_sockets_place(fds, (unsigned)(size / sizeof(fds[0])), ret->fds))
		return 0;
	for (size_t i = 0; i < size / sizeof(fds[0]); i++)
		close(fds[i]);
	return -EBADMSG;
}

int cell_sockets_own(const struct cell_sockets *sockets, uid_t uid, gid_t gid)
{
	for (size_t i = 0; i < CELL_SOCKETS; i++)
		if (sockets->fds[i] >= 0 && fchown(sockets->fds[i], uid, gid) < 0)
			return -errno;
	return 0;
}

struct cell_sockets cell_sockets_move(struct cell_sockets *from)
{
	struct cell_sockets moved = *from;

	*from = cell_sockets_none();
	return moved;
}

void cell_sockets_close(struct cell_sockets *sockets)
{
	for (size_t i = 0; i < CELL_SOCKETS; i++)
		close_fd(&sockets->fds[i]);
}
