// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner and in its children of this kind. */
#include "worker/spawner/cell/mount_giver.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "worker/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the child sends: once when it waits for its maps, then for each thing that it is asked. */
struct answer {
	int error; /* 0 or -errno */
	char step[GIVER_STEP_BYTES];
};

/* The child's side. */

static int send_answer(int socket, const struct answer *answer, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec data = {(void *)answer, sizeof(*answer)};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	if (fd >= 0) {
		control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int))};
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int giver_await_maps(void *context)
{
	const struct giver_child *child = context;
	char byte;

	return recv(child->socket, &byte, 1, 0) == 1 ? 0 : -EPIPE;
}

int giver_become_owner(bool drops_groups, const int *kept, size_t n)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || (drops_groups && setgroups(0, NULL) < 0) ||
		setresgid(GIVER_ID, GIVER_ID, GIVER_ID) < 0 ||
		setresuid(GIVER_ID, GIVER_ID, GIVER_ID) < 0)
		return -errno;
	return confine_keep_capabilities(kept, n);
}

static void give_mount(struct giver_child *child, char what)
{
	struct answer answer = {.step = "give a mount"};
	int tree = -1;

	answer.error = child->give(child, what, &tree);
	if (send_answer(child->socket, &answer, tree) < 0)
		_exit(1);
	close_fd(&tree);
}

static _Noreturn void be_giver(struct giver_child *child)
{
	struct answer answer = {0};
	const char *step = "";
	char byte;

	(void)prctl(PR_SET_NAME, child->name);
	/* Its maps can be written only while it is dumpable. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	child->forked.kept[child->forked.n_kept++] = child->socket;
	if (forked_die_with_spawner(child) < 0 || forked_close_others(child) < 0 ||
		send_answer(child->socket, &answer, -1) < 0)
		_exit(1);
	answer.error = setup_run(child->steps, child->n_steps, child, &step);
	snprintf(answer.step, sizeof(answer.step), "%s", step);
	if (send_answer(child->socket, &answer, -1) < 0 || answer.error < 0)
		_exit(1);
	while (recv(child->socket, &byte, 1, 0) == 1)
		give_mount(child, byte);
	_exit(0);
}

/* The spawner's side. */

/* Receives an answer, and its descriptor if @ret_fd is not NULL. */
static int receive_mount_answer(int socket, struct answer *ret, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec data = {ret, sizeof(*ret)};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		/* CMSG_SPACE has room for two. */
		.msg_controllen = CMSG_LEN(sizeof(int))};
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	uint64_t deadline = monotonic_ms() + LIMIT_LAYERS_MOUNT_MS;
	_cleanup_close_ int fd = -1;
	struct cmsghdr *header;
	ssize_t n;
	int r;

	do
		r = poll(&poll_fd, 1, monotonic_left_ms(deadline));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	header = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	if (n != sizeof(*ret))
		return -EIO;
	if (ret->error < 0)
		return ret->error;
	if (ret_fd && fd < 0)
		return -EIO;
	if (ret_fd)
		*ret_fd = TAKE_FD(fd);
	return 0;
}

static int set_up_giver(const struct giver *giver, int (*map)(void *context, pid_t pid),
	void *context, char ret_step[GIVER_STEP_BYTES])
{
	struct answer answer = {0};
	int r = receive_mount_answer(giver->socket, &answer, NULL);

	if (r == 0)
		r = map(context, giver->pid);
	if (r == 0 && send(giver->socket, "g", 1, MSG_NOSIGNAL) < 0)
		r = -errno;
	if (r < 0)
		return r;
	r = receive_mount_answer(giver->socket, &answer, NULL);
	if (r < 0 && answer.step[0])
		memcpy(ret_step, answer.step, GIVER_STEP_BYTES);
	return r;
}

int giver_start(struct giver_child *child, int (*map)(void *context, pid_t pid), void *context,
	struct giver *ret, char ret_step[GIVER_STEP_BYTES])
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
	struct giver giver;
	int pair[2], r;
	long pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	child->socket = pair[1];
	child->forked.spawner = getpid();
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		be_giver(child);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	giver = (struct giver){(pid_t)pid, pair[0]};
	if (r == 0)
		r = set_up_giver(&giver, map, context, ret_step);
	if (r == 0) {
		*ret = giver;
		return 0;
	}
	if (pid > 0)
		kill(giver.pid, SIGKILL);
	giver_end(&giver);
	return r;
}

int giver_ask(const struct giver *giver, char what, int *ret_tree)
{
	struct answer answer = {0};

	if (giver->socket < 0 || send(giver->socket, &what, 1, MSG_NOSIGNAL) < 0)
		return -ESRCH;
	return receive_mount_answer(giver->socket, &answer, ret_tree);
}

void giver_end(struct giver *giver)
{
	close_fd(&giver->socket);
	giver->pid = 0;
}
