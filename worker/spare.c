// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, the worker and the files process. They trust each other at this point,
 * because no workspace has been attached yet.
 */
#include "worker/spare.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGENT_ID 1000 /* as in worker/spawner/cell/cell_children.c */

#define ASSIGNED_FDS 2 /* the mounts of the workspace, and of its kept home or its layers */

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(ASSIGNED_FDS * sizeof(int))];
};

static int set_paths(struct spare_assignment *assignment, const char *path, const char *readonly,
	size_t *ret_len)
{
	size_t path_size = strlen(path) + 1, readonly_size = strlen(readonly) + 1;

	if (path_size > PATH_MAX || readonly_size > LIMIT_READONLY_BYTES)
		return -ENAMETOOLONG;
	memcpy(assignment->path, path, path_size);
	memcpy(assignment->path + path_size, readonly, readonly_size);
	*ret_len = path_size + readonly_size;
	return 0;
}

int spare_assign(int socket, const struct spawner_open *request, const char *path,
	const char *readonly, bool allows_filters, int tree, int second)
{
	const int fds[ASSIGNED_FDS] = {tree, second};
	size_t fds_size = (second >= 0 ? 2 : 1) * sizeof(int);
	struct spare_assignment assignment = {.kind = (uint8_t)spawner_open_shown(request),
		.is_fork = request->as_root,
		.allows_filters = allows_filters,
		.tmp_bytes = request->limits.tmp_bytes,
		.file_size_bytes = request->limits.file_size_bytes,
		.data_bytes = request->limits.data_bytes,
		.open_files = request->limits.open_files,
		.watches = request->limits.watches};
	struct iovec data = {&assignment, sizeof(assignment)};
	union control control = {0};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(fds_size)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	size_t len;
	int r = set_paths(&assignment, path, readonly, &len);

	if (r < 0)
		return r;
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(fds_size);
	memcpy(CMSG_DATA(header), fds, fds_size);
	/* Send only the used part of the paths. */
	data.iov_len = offsetof(struct spare_assignment, path) + len;
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive_spare(int fd, struct spare_assignment *ret, int ret_fds[ASSIGNED_FDS])
{
	/* Two bytes less, so that both paths stay NUL-terminated. */
	struct iovec data = {ret, sizeof(*ret) - 2};
	union control control = {0};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	struct cmsghdr *header;
	ssize_t n;

	memset(ret, 0, sizeof(*ret));
	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS ||
		(header->cmsg_len != CMSG_LEN(sizeof(int)) &&
			header->cmsg_len != CMSG_LEN(ASSIGNED_FDS * sizeof(int))) ||
		!workspace_kind_name(ret->kind) || ret->path[0] != '/')
		return -EBADMSG;
	memcpy(ret_fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
	return 0;
}

static int become_agent(void)
{
	/* In user mode setgroups(2) is denied and the caller's supplementary groups stay. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
		setresuid(AGENT_ID, AGENT_ID, AGENT_ID) < 0)
		return -errno;
	return 0;
}

static int wait_for_assignment(int fd, int second_fd, struct spare_assignment *ret)
{
	int fds[ASSIGNED_FDS] = {-1, -1};
	int r = receive_spare(fd, ret, fds);

	if (r == 0 && (dup3(fds[0], fd, O_CLOEXEC) < 0 ||
			      (fds[1] >= 0 && dup3(fds[1], second_fd, O_CLOEXEC) < 0)))
		r = -errno;
	for (int i = 0; i < ASSIGNED_FDS; i++)
		close_fd(&fds[i]);
	return r;
}

static const char *const kind_names[] = {
	[SPARE_NONE] = "", [SPARE_WITHOUT_IDS] = "spare", [SPARE_WITH_IDS] = "spare-with-ids"};

const char *spare_shown_name(const struct spawner_open *request)
{
	if (request->root_inside)
		return KIND_ROOT_INSIDE;
	return request->as_root ? KIND_MANAGED_ROOT
				: workspace_kind_name((enum workspace_kind)request->kind);
}

const char *spare_kind_name(enum spare_kind kind)
{
	return kind_names[kind];
}

enum spare_kind spare_kind(char **argv)
{
	for (enum spare_kind kind = SPARE_WITHOUT_IDS; kind <= SPARE_WITH_IDS; kind++) {
		if (strcmp(argv[1], kind_names[kind]) != 0)
			continue;
		prctl(PR_SET_NAME, "cloister-spare");
		return kind;
	}
	return SPARE_NONE;
}

static int read_spare_arguments(int argc, char **argv, struct spare_assignment *ret)
{
	size_t len;
	int r = set_paths(ret, argv[2], argc > 7 ? argv[7] : "", &len);

	if (r < 0)
		return r;
	ret->root_inside = strcmp(argv[1], KIND_ROOT_INSIDE) == 0;
	ret->is_fork = ret->root_inside || strcmp(argv[1], KIND_MANAGED_ROOT) == 0;
	ret->kind = ret->is_fork ? WORKSPACE_ROOTFS
				 : (uint8_t)workspace_kind_by_name(text_from(argv[1]));
	if (argc > 7) {
		ret->tmp_bytes = strtoull(argv[3], NULL, 10);
		ret->file_size_bytes = strtoull(argv[4], NULL, 10);
		ret->data_bytes = strtoull(argv[5], NULL, 10);
		ret->open_files = (uint32_t)strtoul(argv[6], NULL, 10);
		ret->allows_filters = strcmp(argv[9], WORKER_ALLOWS_FILTERS) == 0;
		ret->watches = (uint32_t)strtoul(argv[10], NULL, 10);
	}
	return 0;
}

int setup_for_workspace(
	int argc, char **argv, int fd, int second_fd, const struct spare_assignment **ret)
{
	static struct spare_assignment assignment;
	enum spare_kind kind = spare_kind(argv);
	int r;

	*ret = &assignment;
	r = kind == SPARE_NONE ? read_spare_arguments(argc, argv, &assignment)
			       : wait_for_assignment(fd, second_fd, &assignment);
	if (r == 0 && kind == SPARE_WITHOUT_IDS)
		r = become_agent();
	if (r == 0)
		prctl(PR_SET_NAME, argv[0]);
	return r;
}
