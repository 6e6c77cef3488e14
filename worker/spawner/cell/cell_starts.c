// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. The helper and the files process run cloister's own code and are trusted.
 * They start in the worker's cgroup, whose owner is hostile and can delay them.
 */
#include "worker/spawner/cell/cell_starts.h"

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/wire/wire_spawner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <unistd.h>

int child_report_receive(int fd, uint64_t deadline, struct child_report *ret)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	ssize_t n;
	int r;

	do
		r = poll(&poll_fd, 1, monotonic_left_ms(deadline));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	/* A report is written atomically, so this does not wait. pipe(7) */
	n = read(fd, ret, sizeof(*ret));
	return n == sizeof(*ret) ? 1 : 0;
}

void cell_starts_init(struct cell_starts *starts)
{
	LIST_INIT(&starts->list);
}

/* Those of @tenant in existing cells. */
static size_t count_cell_starts(const struct cell_starts *starts, const char *tenant)
{
	const struct cell_start *start;
	size_t n = 0;

	LIST_FOREACH (start, &starts->list, entry)
		n += !start->is_new && strcmp(start->tenant, tenant) == 0;
	return n;
}

/* Those of all tenants, but for those that are killed, which count for their tenants only. */
static size_t count_all(const struct cell_starts *starts)
{
	const struct cell_start *start;
	size_t n = 0;

	LIST_FOREACH (start, &starts->list, entry)
		n += !start->is_new && !start->failed;
	return n;
}

int cell_start_new(const struct cell_starts *starts, const char *tenant, struct cell_start **ret,
	const char **ret_reason)
{
	size_t own = tenant ? count_cell_starts(starts, tenant) : 0;
	struct cell_start *start;
	void *files;

	*ret_reason = "too many files processes of the tenant are starting: try again in a moment";
	if (tenant && own >= LIMIT_FILES_STARTS_OF_TENANT)
		return -SPAWNER_NOT_NOW;
	*ret_reason = "too many files processes are starting: try again in a moment";
	if (tenant && share_left(true, LIMIT_FILES_STARTS - (own > 0 ? LIMIT_FILES_STARTS_KEPT : 0),
			      count_all(starts), own) == 0)
		return -SPAWNER_NOT_NOW;
	start = calloc(1, sizeof(*start));
	if (!start)
		return -ENOMEM;
	files = mmap(NULL, sizeof(*start->files), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (files == MAP_FAILED) {
		free(start);
		return -ENOMEM;
	}
	start->files = files;
	start->report = -1;
	start->deadline = monotonic_ms() + LIMIT_FILES_START_MS;
	start->is_new = !tenant;
	snprintf(start->tenant, sizeof(start->tenant), "%s", tenant ? tenant : "");
	*ret = start;
	return 0;
}

void cell_start_drop(struct cell_start *start)
{
	if (!start)
		return;
	munmap((void *)start->files, sizeof(*start->files));
	free(start);
}

void cell_starts_add(struct cell_starts *starts, struct cell_start *start, pid_t helper, int report)
{
	start->helper = helper;
	start->report = report;
	LIST_INSERT_HEAD(&starts->list, start, entry);
}

int cell_start_hear(struct cell_start *start, int go)
{
	struct child_report report = {0};
	int r = child_report_receive(start->report, start->deadline, &report);

	if (r < 0)
		return r;
	/* The helper and the files process have closed the pipe, by exiting or by the exec. */
	if (r == 0)
		return *start->files > 0 && !start->is_files_reaped ? 1 : -EIO;
	if (report.what == REPORT_FAILED)
		return -report.value;
	if (report.what == REPORT_JOINED && go >= 0)
		(void)!write(go, "g", 1);
	return 0;
}

/*
 * Frees a start that is over once its helper has been reaped, since until then the helper could
 * still clone.
 */
static void forget_if_done(struct cell_start *start)
{
	if (start->helper != 0 || start->report >= 0)
		return;
	LIST_REMOVE(start, entry);
	cell_start_drop(start);
}

/* A process that has been reaped must not be killed by its pid, which may be reused. */
static void kill_files(const struct cell_start *start)
{
	if (*start->files > 0 && !start->is_files_reaped)
		kill(*start->files, SIGKILL);
}

int cell_start_end(struct cell_start *start, int result)
{
	int pidfd = -1;

	close_fd(&start->report);
	if (result == 0 && *start->files > 0 && !start->is_files_reaped)
		pidfd = pidfd_open(*start->files, 0);
	if (pidfd < 0) {
		/*
		 * SIGKILL works on frozen processes too. The helper may have cloned before it died,
		 * so the files process is killed again when the helper has been reaped.
		 */
		if (start->helper > 0)
			kill(start->helper, SIGKILL);
		kill_files(start);
		start->failed = true;
		pidfd = result < 0 ? result : -ESRCH;
	}
	forget_if_done(start);
	return pidfd;
}

bool cell_starts_reaped(struct cell_starts *starts, pid_t pid, pid_t *ret_files)
{
	struct cell_start *start;

	LIST_FOREACH (start, &starts->list, entry) {
		if (*start->files == pid)
			start->is_files_reaped = true;
		if (start->helper != pid)
			continue;
		start->helper = 0;
		if (start->failed)
			kill_files(start);
		*ret_files = start->is_files_reaped ? 0 : *start->files;
		forget_if_done(start);
		return true;
	}
	return false;
}
