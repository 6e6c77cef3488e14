// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The peer is another generation of it, of the same user: its messages are
 * checked for their form, so that a mistake ends the hand-over and nothing else. unix(7).
 */
#include "supervisor/host/handover.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME    "handover"
#define VERSION 1

/* The longest text is a record of the journal. */
#define TEXT_MOST LIMIT_JOURNAL_RECORD_BYTES

struct head {
	uint32_t version, type;
	uint64_t dev, ino, uid, number, watchdog_us;
};

/* The state directory's own path may be longer than a socket's name. */
static void address_in(int directory_fd, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" NAME, directory_fd);
}

int handover_program(uint64_t *ret_dev, uint64_t *ret_ino)
{
	struct stat stat_buf;

	if (stat("/proc/self/exe", &stat_buf) < 0)
		return -errno;
	*ret_dev = stat_buf.st_dev;
	*ret_ino = stat_buf.st_ino;
	return 0;
}

int handover_listen(int directory_fd, int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	mode_t old;
	int r;

	if (fd < 0)
		return -errno;
	address_in(directory_fd, &address);
	/* Who holds the lock knows that nobody listens there. */
	if (unlinkat(directory_fd, NAME, 0) < 0 && errno != ENOENT)
		return -errno;
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return r;
	if (listen(fd, 4) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int check_peer(int fd, pid_t *ret_pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	if (peer.uid != geteuid())
		return -EPERM;
	*ret_pid = peer.pid;
	return 0;
}

int handover_connect(int directory_fd, int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	const int yes = 1;
	pid_t pid;
	int r;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
		return -errno;
	address_in(directory_fd, &address);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = check_peer(fd, &pid);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int handover_accept(int listener, int *ret_fd, pid_t *ret_pid)
{
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int r;

	if (fd < 0)
		return -errno;
	r = check_peer(fd, ret_pid);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Room for descriptors and for who has sent them. */
union control {
	char bytes[CMSG_SPACE(HANDOVER_FDS_MOST * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

int handover_send(int fd, const struct handover_message *message)
{
	struct head head = {VERSION, message->type, message->dev, message->ino, message->uid,
		message->number, message->watchdog_us};
	struct iovec parts[] = {
		{&head, sizeof(head)}, {(void *)message->text.data, message->text.len}};
	union control control = {0};
	struct msghdr header = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
	struct cmsghdr *rights;
	ssize_t n;

	if (message->text.len > TEXT_MOST || message->n_fds > HANDOVER_FDS_MOST)
		return -EMSGSIZE;
	if (message->n_fds > 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(message->n_fds * sizeof(int));
		rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(message->n_fds * sizeof(int));
		memcpy(CMSG_DATA(rights), message->fds, message->n_fds * sizeof(int));
	}
	do
		n = sendmsg(fd, &header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/*
 * Takes a message's descriptors and its sender. Those beyond HANDOVER_FDS_MOST, for which there is
 * room where no sender is told, are closed. Returns whether there were none.
 */
static bool take_control(struct msghdr *header, struct handover_message *message)
{
	struct cmsghdr *part;
	struct ucred sender;
	bool fits = true;

	for (part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t len = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET)
			continue;
		if (part->cmsg_type == SCM_CREDENTIALS && len == sizeof(sender)) {
			memcpy(&sender, CMSG_DATA(part), sizeof(sender));
			message->pid = sender.pid;
		}
		for (size_t at = 0; part->cmsg_type == SCM_RIGHTS && at + sizeof(int) <= len;
			at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
			if (message->n_fds < HANDOVER_FDS_MOST) {
				message->fds[message->n_fds++] = fd;
			} else {
				close(fd);
				fits = false;
			}
		}
	}
	return fits;
}

int handover_receive(int fd, struct handover_message *ret)
{
	static char text[TEXT_MOST];
	struct handover_message message = {0};
	struct head head = {0};
	struct iovec parts[] = {{&head, sizeof(head)}, {text, sizeof(text)}};
	union control control = {0};
	struct msghdr header = {.msg_iov = parts,
		.msg_iovlen = ARRAY_SIZE(parts),
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	bool fits;
	ssize_t n;

	do
		n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	fits = take_control(&header, &message);
	/* The end; or a message without bytes, which no cloisterd sends either. */
	if (n == 0) {
		handover_drop(&message);
		return 0;
	}
	if (!fits || (size_t)n < sizeof(head) || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		head.version != VERSION || head.type == 0 || head.type >= HANDOVER_TYPES) {
		handover_drop(&message);
		return -EBADMSG;
	}
	message.type = (enum handover_type)head.type;
	message.dev = head.dev;
	message.ino = head.ino;
	message.uid = head.uid;
	message.number = head.number;
	message.watchdog_us = head.watchdog_us;
	message.text = (struct text){text, (size_t)n - sizeof(head)};
	*ret = message;
	return 1;
}

int handover_await(int fd, int ms, struct handover_message *ret)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	int r = poll(&poll_fd, 1, ms);

	if (r < 0)
		return -errno;
	return r == 0 ? -ETIMEDOUT : handover_receive(fd, ret);
}

void handover_drop(struct handover_message *message)
{
	for (unsigned i = 0; i < message->n_fds; i++)
		close_fd(&message->fds[i]);
	message->n_fds = 0;
}

static int option_of(int fd, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -1 : value;
}

bool handover_is_listener(int fd, const char *path, char *ret_path, size_t size)
{
	struct sockaddr_un address = {0};
	socklen_t length = sizeof(address) - 1; /* its NUL is not always there */

	if (option_of(fd, SO_DOMAIN) != AF_UNIX || option_of(fd, SO_TYPE) != SOCK_STREAM ||
		option_of(fd, SO_ACCEPTCONN) != 1 ||
		getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
		address.sun_path[0] != '/' || (path && strcmp(path, address.sun_path) != 0))
		return false;
	return (size_t)snprintf(ret_path, size, "%s", address.sun_path) < size;
}
