// SPDX-License-Identifier: Apache-2.0
#include "worker/setup.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_spawner.h"
#include "worker/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/oom.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OOM_SCORE_COMMANDS 500 /* added to oom_score_adj of workers and commands */
#define OOM_SCORE_FILES    250 /* and of files processes, which are killed later */

int setup_run(const struct setup_step *steps, size_t n_steps, void *context, const char **ret_step)
{
	for (size_t i = 0; i < n_steps; i++) {
		int r = steps[i].act(context);

		if (r < 0) {
			*ret_step = steps[i].name;
			return r;
		}
	}
	return 0;
}

int setup_die_with_parent(void *context)
{
	(void)context;
	return confine_die_with_parent();
}

int setup_no_new_privs(void *context)
{
	(void)context;
	return confine_no_new_privs();
}

int setup_non_dumpable(void *context)
{
	(void)context;
	return confine_non_dumpable();
}

int setup_empty_bounding_set(void *context)
{
	(void)context;
	return confine_empty_bounding_set();
}

/*
 * Raises this process's score by @by above the value that it started with, up to the maximum.
 * proc_pid_oom_score_adj(5)
 */
static int raise_oom_score(int by)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16] = "";
	int score;

	/* In a container /proc may be read-only. */
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	score = (int)strtol(text, NULL, 10) + by;
	snprintf(text, sizeof(text), "%d", score < OOM_SCORE_ADJ_MAX ? score : OOM_SCORE_ADJ_MAX);
	(void)!write(fd, text, strlen(text));
	return 0;
}

int setup_die_first(void *context)
{
	(void)context;
	return raise_oom_score(OOM_SCORE_COMMANDS);
}

int setup_die_early(void *context)
{
	(void)context;
	return raise_oom_score(OOM_SCORE_FILES);
}

int setup_private_mounts(void *context)
{
	(void)context;
	return mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0 ? -errno : 0;
}

int setup_leave_host(void *context)
{
	(void)context;
	return syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
			       chdir("/") < 0
		       ? -errno
		       : 0;
}

void setup_report_failure(
	struct channel *channel, uint8_t type, uint64_t call, const char *step, int error)
{
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct setup_failure failure = {
		.step = text_from(step),
		.error = (uint32_t)(error < 0 ? -error : error),
	};

	setup_failure_put(&writer, &failure);
	if (!wire_writer_ok(&writer))
		return;
	if (channel_send(
		    channel, type, call, (struct text){(char *)payload, writer.len}, NULL, 0) == 0)
		(void)channel_flush(channel);
}
