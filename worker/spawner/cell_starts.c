// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. The helper and the files process run cloister's own code and are trusted.
 * They start in the worker's cgroup, whose owner is hostile and can delay them.
 */
#include "worker/spawner/cell_starts.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "worker/spawner/cell_children.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>

#define FREE (-1)

int cell_starts_init(struct cell_starts *starts)
{
	void *numbers = mmap(NULL, LIMIT_FILES_STARTS * sizeof(pid_t), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (numbers == MAP_FAILED)
		return -errno;
	LIST_INIT(&starts->list);
	starts->numbers = numbers;
	for (size_t i = 0; i < LIMIT_FILES_STARTS; i++)
		starts->numbers[i] = FREE;
	return 0;
}

struct cell_start *cell_start_new(struct cell_starts *starts)
{
	struct cell_start *start;
	size_t i = 0;

	while (i < LIMIT_FILES_STARTS && starts->numbers[i] != FREE)
		i++;
	start = i < LIMIT_FILES_STARTS ? calloc(1, sizeof(*start)) : NULL;
	if (!start)
		return NULL;
	starts->numbers[i] = 0;
	*start = (struct cell_start){.files = &starts->numbers[i],
		.report = -1,
		.deadline = monotonic_ms() + LIMIT_FILES_START_MS};
	return start;
}

void cell_start_drop(struct cell_start *start)
{
	if (!start)
		return;
	*start->files = FREE;
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
