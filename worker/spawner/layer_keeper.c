// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child, the keeper, which executes no program and trusts the
 * spawner. The contents of the layers are hostile; the kernel alone looks at them. mount(2),
 * user_namespaces(7).
 */
#include "worker/spawner/layer_keeper.h"

#include "common/cleanup.h"
#include "common/monotonic.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/setup.h"
#include "worker/spawner/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGENT_ID 1000 /* as in worker/spawner/cell_children.c */

#define LAYER_BYTES   sizeof("l/999999999-999999999/u:")
#define OPTIONS_BYTES (256 + LIMIT_LAYERS * LAYER_BYTES)
/* The keeper's own directories: five, and two for each layer. */
#define ROOM_BYTES  (256 * KIB)
#define ROOM_INODES (8 + 2 * LIMIT_LAYERS)

/* Nothing in a layer leads to another place. */
#define OVERLAY_OPTIONS "userxattr,index=off,metacopy=off,redirect_dir=nofollow"

#define VIEW_ATTRIBUTES \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* What the spawner asks a keeper for, as one byte. */
enum { GIVE_MOUNT = 'm', GIVE_VIEWS = 'v' };

/* What the keeper sends: once when it waits for its maps, then for each mount that it gives. */
struct answer {
	int error; /* 0 or -errno */
	char step[LAYER_KEEPER_STEP_BYTES];
};

/* The keeper's side. */

struct keeper {
	struct forked forked;
	const struct layer_keeper_start *start;
	int socket, base, layers, template;
	/* attached in the keeper's mount namespace: the overlay, and the directory with LAYERS_VIEW
	 */
	int mount, views;
};

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

/* Waits until the spawner has written the maps. */
static int await_maps(void *context)
{
	const struct keeper *keeper = context;
	char byte;

	return recv(keeper->socket, &byte, 1, 0) == 1 ? 0 : -EPIPE;
}

/* The overlay keeps the credentials of the moment in which it is mounted. */
static int become_owner(void *context)
{
	static const cap_value_t kept[] = {CAP_SYS_ADMIN, CAP_DAC_OVERRIDE};
	const struct keeper *keeper = context;

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
		(keeper->start->drops_groups && setgroups(0, NULL) < 0) ||
		setresgid(AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
		setresuid(AGENT_ID, AGENT_ID, AGENT_ID) < 0)
		return -errno;
	return confine_keep_capabilities(kept, ARRAY_SIZE(kept));
}

static int attach(int mount_fd, int room, const char *name)
{
	_cleanup_close_ int point = -1;
	int r = mount_make_directory(room, name, 0700, &point);

	return r < 0 ? r : mount_attach_over(mount_fd, point);
}

/* The layers must be mounts of the mounter's own mount namespace. */
static int make_room(void *context)
{
	const struct keeper *keeper = context;
	_cleanup_close_ int room = -1, point = -1;
	int r = mount_new_tmpfs(0700, ROOM_BYTES, ROOM_INODES,
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &room);

	if (r == 0)
		r = mount_attach(room, AT_FDCWD, "/");
	if (r == 0)
		r = attach(keeper->base, room, "b");
	if (r == 0)
		r = attach(keeper->layers, room, "l");
	if (r == 0 && keeper->template >= 0)
		r = attach(keeper->template, room, "t");
	if (r == 0)
		r = mount_make_directory(room, "o", 0700, &point);
	close_fd(&point);
	if (r == 0)
		r = mount_make_directory(room, "e", 0700, &point);
	return r == 0 && fchdir(room) < 0 ? -errno : r;
}

/* Writes the options of the layers up to the one with the index @top, which is the last lower one.
 */
static int write_lower(const struct keeper *keeper, size_t top, char *ret)
{
	const uint32_t *numbers = keeper->start->stack->numbers;
	int n = snprintf(ret, OPTIONS_BYTES, OVERLAY_OPTIONS ",lowerdir=");

	for (size_t i = top; i > 0; i--)
		n += snprintf(ret + n, OPTIONS_BYTES - (size_t)n, "l/%u-%u/u:", numbers[i],
			numbers[i - 1]);
	return n +
	       snprintf(ret + n, OPTIONS_BYTES - (size_t)n, keeper->template >= 0 ? "b:t" : "b");
}

/*
 * If the kernel cannot make its directory in the work directory, it mounts an overlay that cannot
 * be written, and says nothing. The workspace's id may have no room there.
 */
static int check_writable(const struct keeper *keeper, const uint32_t *top)
{
	char path[LAYER_BYTES + sizeof("/try")];
	struct statvfs status;

	if (fstatvfs(keeper->mount, &status) < 0)
		return -errno;
	if (!(status.f_flag & ST_RDONLY))
		return 0;
	snprintf(path, sizeof(path), "l/%u-%u/w/try", top[0], top[-1]);
	if (mkdir(path, 0700) < 0)
		return -errno;
	(void)rmdir(path);
	return -EROFS;
}

static int mount_layers(void *context)
{
	struct keeper *keeper = context;
	const struct layer_stack *stack = keeper->start->stack;
	const uint32_t *top = &stack->numbers[stack->count - 1];
	char options[OPTIONS_BYTES];
	int n = write_lower(keeper, stack->count - 2, options);

	/* The upper directory and the work directory must be in one mount. */
	snprintf(options + n, OPTIONS_BYTES - (size_t)n, ",upperdir=l/%u-%u/u,workdir=l/%u-%u/w",
		top[0], top[-1], top[0], top[-1]);
	if (mount("cloister", "o", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -errno;
	keeper->mount = open("o", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return keeper->mount < 0 ? -errno : check_writable(keeper, top);
}

/* What the layer with the index @i has, without those below it. */
static int show_upper(const struct keeper *keeper, size_t i)
{
	const uint32_t *number = &keeper->start->stack->numbers[i];
	char name[sizeof(LAYERS_UPPER "4294967295")], path[LAYER_BYTES] = "b";
	_cleanup_close_ int tree = -1;
	int r;

	snprintf(name, sizeof(name), LAYERS_UPPER "%u", number[0]);
	if (i > 0)
		snprintf(path, sizeof(path), "l/%u-%u/u", number[0], number[-1]);
	r = mount_clone(AT_FDCWD, path, 0, &tree);
	return r < 0 ? r : attach(tree, keeper->views, name);
}

static int show_view(const struct keeper *keeper, size_t i)
{
	const struct layer_stack *stack = keeper->start->stack;
	char name[sizeof("d/" LAYERS_VIEW "4294967295")], options[OPTIONS_BYTES];

	/*
	 * An overlay that cannot be written needs two layers. Layer 0 must be the lowest, as it is
	 * in the workspace's own overlay, which takes no attribute of it for a whiteout.
	 */
	if (i == 0 && keeper->template <0)
		snprintf(options, sizeof(options), OVERLAY_OPTIONS ",lowerdir=e:b");
	else
		(void)write_lower(keeper, i, options);
	snprintf(name, sizeof(name), "d/" LAYERS_VIEW "%u", stack->numbers[i]);
	return mkdir(name, 0700) < 0 || mount("cloister", name, "overlay",
						MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0
		       ? -errno
		       : 0;
}

/* A diff compares the present with what the kernel makes of the layers, and believes no layer. */
static int show_views(void *context)
{
	struct keeper *keeper = context;
	size_t top = keeper->start->stack->count - 1;
	struct stat base;
	int r;

	/* "e" is the root of the lowest view. */
	r = stat("b", &base) < 0 || chmod("e", base.st_mode & 07777) < 0 || mkdir("d", 0700) < 0
		    ? -errno
		    : 0;
	if (r == 0)
		keeper->views = open("d", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && keeper->views < 0)
		r = -errno;
	for (size_t i = 0; r == 0 && i <= top; i++)
		r = show_upper(keeper, i);
	for (size_t i = 0; r == 0 && i < top; i++)
		r = show_view(keeper, i);
	return r;
}

/* The overlay has mounts of its own of its layers. */
static int leave_layers(void *context)
{
	struct keeper *keeper = context;

	close_fd(&keeper->base);
	close_fd(&keeper->layers);
	if (keeper->template >= 0 && umount2("t", MNT_DETACH) < 0)
		return -errno;
	close_fd(&keeper->template);
	return umount2("b", MNT_DETACH) < 0 || umount2("l", MNT_DETACH) < 0 ? -errno : 0;
}

static int keep_sys_admin_only(void *context)
{
	static const cap_value_t kept[] = {CAP_SYS_ADMIN};

	(void)context;
	return confine_keep_capabilities(kept, ARRAY_SIZE(kept));
}

static const struct setup_step steps[] = {
	{"wait for its ids", await_maps},
	{"become the workspace's id", become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
	{"make mounts private", setup_private_mounts},
	{"attach the workspace's layers", make_room},
	{"mount the workspace's layers", mount_layers},
	{"mount the workspace's checkpoints", show_views},
	{"leave the layers", leave_layers},
	/* A mount of the host's must not live as long as the cell does. */
	{"leave the host's root", setup_leave_host},
	{"keep CAP_SYS_ADMIN only", keep_sys_admin_only},
};

static void give(const struct keeper *keeper, char what)
{
	struct answer answer = {.step = "clone the workspace's mount"};
	int tree = -1;

	answer.error = what == GIVE_VIEWS ? mount_clone(keeper->views, "", VIEW_ATTRIBUTES, &tree)
					  : mount_clone(keeper->mount, "", 0, &tree);
	if (send_answer(keeper->socket, &answer, tree) < 0)
		_exit(1);
	close_fd(&tree);
}

static _Noreturn void be_keeper(struct keeper *keeper)
{
	struct answer answer = {0};
	const char *step = "";
	char byte;

	(void)prctl(PR_SET_NAME, "cloister-layers");
	/* Its maps can be written only while it is dumpable. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	keeper->forked.kept[0] = keeper->socket;
	keeper->forked.kept[1] = keeper->base;
	keeper->forked.kept[2] = keeper->layers;
	keeper->forked.kept[3] = keeper->template;
	keeper->forked.n_kept = 4;
	if (forked_die_with_spawner(keeper) < 0 || forked_close_others(keeper) < 0 ||
		send_answer(keeper->socket, &answer, -1) < 0)
		_exit(1);
	answer.error = setup_run(steps, ARRAY_SIZE(steps), keeper, &step);
	snprintf(answer.step, sizeof(answer.step), "%s", step);
	if (send_answer(keeper->socket, &answer, -1) < 0 || answer.error < 0)
		_exit(1);
	while (recv(keeper->socket, &byte, 1, 0) == 1)
		give(keeper, byte);
	_exit(0);
}

/* The spawner's side. */

/* Receives an answer, and its descriptor if @ret_fd is not NULL. */
static int receive(int socket, struct answer *ret, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec data = {ret, sizeof(*ret)};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	uint64_t deadline = monotonic_ms() + LIMIT_LAYERS_MOUNT_MS;
	_cleanup_close_ int fd = -1;
	struct cmsghdr *header;
	int r;

	do
		r = poll(&poll_fd, 1, monotonic_left_ms(deadline));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != sizeof(*ret))
		return -EIO;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	if (ret->error < 0)
		return ret->error;
	if (ret_fd && fd < 0)
		return -EIO;
	if (ret_fd)
		*ret_fd = TAKE_FD(fd);
	return 0;
}

static int set_up(const struct layer_keeper *keeper, const struct layer_keeper_start *start,
	char ret_step[LAYER_KEEPER_STEP_BYTES])
{
	struct answer answer = {0};
	int r = receive(keeper->socket, &answer, NULL);

	if (r == 0)
		r = start->map(start->context, keeper->pid);
	if (r == 0 && send(keeper->socket, "g", 1, MSG_NOSIGNAL) < 0)
		r = -errno;
	snprintf(ret_step, LAYER_KEEPER_STEP_BYTES, "mount the workspace's layers");
	if (r < 0)
		return r;
	r = receive(keeper->socket, &answer, NULL);
	if (r < 0 && answer.step[0])
		memcpy(ret_step, answer.step, LAYER_KEEPER_STEP_BYTES);
	return r;
}

int layer_keeper_start(const struct layer_keeper_start *start, struct layer_keeper *ret,
	char ret_step[LAYER_KEEPER_STEP_BYTES])
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .exit_signal = SIGCHLD};
	struct keeper child = {.start = start,
		.base = start->base,
		.layers = start->layers,
		.template = start->template,
		.mount = -1,
		.views = -1};
	struct layer_keeper keeper;
	int pair[2], r;
	long pid;

	snprintf(ret_step, LAYER_KEEPER_STEP_BYTES, "start a keeper of the workspace's layers");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	child.socket = pair[1];
	child.forked.spawner = getpid();
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		be_keeper(&child);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	keeper = (struct layer_keeper){(pid_t)pid, pair[0]};
	if (r == 0)
		r = set_up(&keeper, start, ret_step);
	if (r == 0) {
		*ret = keeper;
		return 0;
	}
	if (pid > 0)
		kill(keeper.pid, SIGKILL);
	layer_keeper_end(&keeper);
	return r;
}

static int ask(const struct layer_keeper *keeper, char what, int *ret_tree)
{
	struct answer answer = {0};

	if (keeper->socket < 0 || send(keeper->socket, &what, 1, MSG_NOSIGNAL) < 0)
		return -ESRCH;
	return receive(keeper->socket, &answer, ret_tree);
}

int layer_keeper_clone(const struct layer_keeper *keeper, int *ret_tree)
{
	return ask(keeper, GIVE_MOUNT, ret_tree);
}

int layer_keeper_views(const struct layer_keeper *keeper, int *ret_tree)
{
	return ask(keeper, GIVE_VIEWS, ret_tree);
}

void layer_keeper_end(struct layer_keeper *keeper)
{
	close_fd(&keeper->socket);
	keeper->pid = 0;
}
