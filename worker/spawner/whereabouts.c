// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. The processes are hostile, so nothing is read that their memory or its locks
 * could delay, as /proc/PID/cmdline could, and none of their words, such as their names.
 */
#include "worker/spawner/whereabouts.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct walk {
	pid_t pids[LIMIT_WHEREABOUTS_TASKS]; /* of processes, in the order in which they were found
					      */
	size_t n;
	unsigned tasks; /* that were looked at */
	pid_t found;    /* 0: none yet */
	char state, function[64];
};

static bool read_proc_file(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool read_proc_file(char *text, size_t size, const char *format, ...)
{
	_cleanup_close_ int fd = -1;
	va_list arguments;
	char path[96];
	ssize_t n;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return true;
}

static void add_walk_pid(struct walk *walk, pid_t pid)
{
	if (pid > 0 && walk->n < LIMIT_WHEREABOUTS_TASKS)
		walk->pids[walk->n++] = pid;
}

static void add_process_of(struct walk *walk, int pidfd)
{
	const char *line;
	char text[512];

	if (!read_proc_file(text, sizeof(text), "/proc/self/fdinfo/%d", pidfd))
		return;
	line = strstr(text, "\nPid:\t");
	if (line)
		add_walk_pid(walk, (pid_t)strtol(line + strlen("\nPid:\t"), NULL, 10));
}

static void add_children(struct walk *walk, pid_t pid, pid_t thread)
{
	char text[4096], *at = text, *end;

	if (!read_proc_file(text, sizeof(text), "/proc/%d/task/%d/children", (int)pid, (int)thread))
		return;
	for (long child; (child = strtol(at, &end, 10)) > 0 && end > at; at = end)
		add_walk_pid(walk, (pid_t)child);
}

/* The process chose its name, which stands in parentheses and may have some itself. */
static char process_state_of(const char *stat)
{
	const char *end = strrchr(stat, ')');

	return end && end[1] == ' ' && isupper((unsigned char)end[2]) ? end[2] : '?';
}

static void look_at_proc(struct walk *walk, pid_t pid, pid_t thread)
{
	char text[1024], state;

	if (!read_proc_file(text, sizeof(text), "/proc/%d/task/%d/stat", (int)pid, (int)thread))
		return;
	state = process_state_of(text);
	add_children(walk, pid, thread);
	/* Ended ones wait to be reaped by those that have not ended. */
	if (state == 'Z' || state == 'X' || walk->state == 'D')
		return;
	walk->found = thread;
	walk->state = state;
	if (!read_proc_file(walk->function, sizeof(walk->function), "/proc/%d/task/%d/wchan",
		    (int)pid, (int)thread) ||
		strcmp(walk->function, "0") == 0)
		walk->function[0] = '\0';
}

static void close_directory(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}

static void look_at_threads(struct walk *walk, pid_t pid)
{
	_cleanup_(close_directory) DIR *threads = NULL;
	const struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && walk->tasks < LIMIT_WHEREABOUTS_TASKS && (entry = readdir(threads))) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		if (thread <= 0)
			continue;
		walk->tasks++;
		look_at_proc(walk, pid, thread);
	}
}

void whereabouts_find(const int *pidfds, size_t n, char *ret, size_t size)
{
	struct walk walk = {0};

	for (size_t i = 0; i < n; i++)
		add_process_of(&walk, pidfds[i]);
	for (size_t i = 0; i < walk.n && walk.state != 'D'; i++)
		look_at_threads(&walk, walk.pids[i]);
	if (walk.found == 0)
		snprintf(ret, size, "no process of it is left but ended ones");
	else
		snprintf(ret, size, "process %d in state %c%s%s", (int)walk.found, walk.state,
			walk.function[0] ? " waits in " : "", walk.function);
}
