// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-files: reads, writes, lists and searches the files of one workspace, which is its root
 * directory. The spawner starts it with a socketpair for requests, another for results and the
 * workspace's mount. It has no capabilities and no descriptor of anything outside the workspace,
 * and executes nothing. Everything that it reads is hostile.
 */
#include "common/cleanup.h"
#include "common/disk_quota.h"
#include "common/wire/channel.h"
#include "common/wire/fixed_fds.h"
#include "common/wire/wire_files.h"
#include "common/wire/wire_spawner.h"
#include "worker/files/files_confine.h"
#include "worker/files/files_serve.h"
#include "worker/files/files_setup.h"
#include "worker/setup.h"
#include "worker/spare.h"

#include <errno.h>
#include <signal.h>

static int fail_files_setup(struct channel *channel, const char *step, int error)
{
	setup_report_failure(channel, FILES_FAILED, 0, step, error);
	return 1;
}

/* Says that set-up is complete, and whether a quota holds, which the filter does not let it ask. */
static int tell_ready(struct channel *channel, struct root *root)
{
	uint8_t payload[FILES_READY_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct disk_quota quota = {0};
	int r;

	root->has_quota = disk_quota_holds(root->fd, &quota);
	files_ready_put(&writer, &(struct files_ready){.disk_limit = quota.limit_bytes});
	r = channel_send(
		channel, FILES_READY, 0, (struct text){(char *)payload, writer.len}, NULL, 0);
	return r == 0 ? channel_flush(channel) : r;
}

int main(int argc, char **argv)
{
	struct root root = {.fd = -1, .proc_self_fd = -1, .proc_mount = -1, .layers = -1};
	const struct spare_assignment *assignment;
	struct channel channel;
	const char *step = "start";
	sigset_t none;
	bool ahead;
	int r;

	signal(SIGPIPE, SIG_IGN);
	/* a write beyond RLIMIT_FSIZE then fails with EFBIG, which is answered FILE_TOO_LARGE */
	signal(SIGXFSZ, SIG_IGN);
	/* the kernel reaps jobs: file_job.c */
	signal(SIGCHLD, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	channel_init(&channel, FD_FILES_DOWN, FD_FILES_UP, 0);
	if (argc != 3)
		return 2;
	ahead = spare_kind(argv) != SPARE_NONE;
	r = files_setup_ahead(&root, &step);
	if (r < 0)
		return fail_files_setup(&channel, step, r);
	if (ahead)
		files_setup_done(&root);
	r = setup_for_workspace(argc, argv, FD_FILES_TREE, FD_FILES_LAYERS, &assignment);
	if (r < 0)
		return r == -EPIPE ? 0 : 1;
	root.is_fork = assignment->is_fork;
	root.visible = text_from(assignment->path);
	r = files_setup(&root, &step);
	if (r < 0)
		return fail_files_setup(&channel, step, r);
	r = tell_ready(&channel, &root);
	files_setup_done(&root);
	/* Requests that arrive during set-up wait in the channel. */
	if (r == 0)
		r = files_filter_install();
	if (r == 0)
		r = files_serve(&channel, &root);
	return r < 0 ? 1 : 0;
}
