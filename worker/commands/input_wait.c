// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker. The processes are hostile and change while they are looked at: what cannot be
 * read counts as busy, and nothing worse follows from a lie than the end of the command that lied.
 * proc_pid_fdinfo(5), process_vm_readv(2).
 */
#include "worker/commands/input_wait.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define LINE_BYTES  512
#define POLLED_MAX  64 /* descriptors of one poll(2) */
#define WATCHED_MAX 64 /* lines of one epoll descriptor */

/* What a thread does. */
enum doing {
	BUSY,  /* it runs, it will go on by itself, or it is not known */
	RESTS, /* it waits without a time limit */
	READS, /* it waits for input that never comes */
};

struct process {
	uint64_t ticks;
	pid_t pid, parent;
	char state;
	bool below; /* it descends from the init */
};

struct thread_call {
	pid_t pid;
	long number;
	unsigned long args[6];
};

static bool read_text(const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

/* Whether descriptor @fd of the process is a terminal, and not the master of one. */
static bool is_terminal(pid_t pid, unsigned long fd)
{
	static const char pts[] = "/dev/pts/";
	char path[64], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%lu", (int)pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	if (strncmp(target, pts, sizeof(pts) - 1) == 0)
		return target[sizeof(pts) - 1] >= '0' && target[sizeof(pts) - 1] <= '9';
	return strcmp(target, "/dev/tty") == 0;
}

/* Whether the standard input is a descriptor that can only be written, as vim makes it. */
static bool is_input_unreadable(pid_t pid)
{
	char path[64], text[LINE_BYTES];
	const char *flags;
	unsigned value;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/0", (int)pid);
	if (!read_text(path, text, sizeof(text)))
		return false;
	flags = strstr(text, "flags:");
	return flags && sscanf(flags, "flags: %o", &value) == 1 && (value & O_ACCMODE) == O_WRONLY;
}

static bool never_comes(pid_t pid, unsigned long fd)
{
	return is_terminal(pid, fd) || (fd == 0 && is_input_unreadable(pid));
}

static bool copy_from_thread(
	const struct thread_call *call, unsigned long from, void *to, size_t size)
{
	void *address;
	struct iovec local = {to, size}, remote = {NULL, size};

	memcpy(&address, &from, sizeof(address));
	remote.iov_base = address;
	return process_vm_readv(call->pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static bool polls_input(const struct thread_call *call)
{
	struct pollfd polled[POLLED_MAX];
	size_t n = call->args[1];

	if (n == 0 || n > POLLED_MAX ||
		!copy_from_thread(call, call->args[0], polled, n * sizeof(*polled)))
		return false;
	for (size_t i = 0; i < n; i++)
		if (polled[i].fd >= 0 && (polled[i].events & POLLIN) &&
			never_comes(call->pid, (unsigned long)polled[i].fd))
			return true;
	return false;
}

static bool selects_input(const struct thread_call *call)
{
	size_t n = call->args[0] < POLLED_MAX ? call->args[0] : POLLED_MAX;
	uint64_t set;

	/* A set is words of the machine, of which the kernel reads as many as it needs. */
	if (n == 0 || call->args[1] == 0 ||
		!copy_from_thread(call, call->args[1], &set, sizeof(set)))
		return false;
	for (size_t fd = 0; fd < n; fd++)
		if ((set >> fd & 1) && never_comes(call->pid, fd))
			return true;
	return false;
}

static bool watches_input(const struct thread_call *call)
{
	char path[64], line[LINE_BYTES];
	FILE *file;
	bool found = false;
	unsigned fd, events;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%lu", (int)call->pid, call->args[0]);
	file = fopen(path, "re");
	if (!file)
		return false;
	for (int i = 0; i < WATCHED_MAX && !found && fgets(line, sizeof(line), file); i++)
		found = sscanf(line, "tfd: %u events: %x", &fd, &events) == 2 &&
			(events & EPOLLIN) && never_comes(call->pid, fd);
	fclose(file);
	return found;
}

/* What a read(2) waits for: a terminal, or what another thread of the command will write. */
static enum doing reading(const struct thread_call *call)
{
	char path[64], target[64];
	ssize_t n;

	if (is_terminal(call->pid, call->args[0]))
		return READS;
	snprintf(path, sizeof(path), "/proc/%d/fd/%lu", (int)call->pid, call->args[0]);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return BUSY;
	target[n] = '\0';
	return strncmp(target, "pipe:", 5) == 0 || strncmp(target, "anon_inode:", 11) == 0 ? RESTS
											   : BUSY;
}

/* A wait for input may have a time limit of its own, since the program then waits anew. */
static enum doing waiting(bool for_input, bool has_limit)
{
	if (for_input)
		return READS;
	return has_limit ? BUSY : RESTS;
}

static enum doing what_of(const struct thread_call *call)
{
	const unsigned long *args = call->args;

	switch (call->number) {
	case SYS_read:
	case SYS_readv:
		return reading(call);
	case SYS_wait4:
	case SYS_waitid:
	case SYS_rt_sigsuspend:
		return RESTS;
	case SYS_rt_sigtimedwait:
		return args[2] == 0 ? RESTS : BUSY;
	case SYS_futex:
		return args[3] == 0 ? RESTS : BUSY;
	case SYS_ppoll:
		return waiting(polls_input(call), args[2] != 0);
	case SYS_pselect6:
		return waiting(selects_input(call), args[4] != 0);
	case SYS_epoll_pwait:
		return waiting(watches_input(call), (int)args[3] >= 0);
#ifdef SYS_poll /* the older calls, which not every architecture has */
	case SYS_pause:
		return RESTS;
	case SYS_poll:
		return waiting(polls_input(call), (int)args[2] >= 0);
	case SYS_select:
		return waiting(selects_input(call), args[4] != 0);
	case SYS_epoll_wait:
		return waiting(watches_input(call), (int)args[3] >= 0);
#endif
	default:
		return BUSY;
	}
}

static enum doing look_at_thread(pid_t pid, const char *tid)
{
	struct thread_call call = {.pid = pid};
	char path[64], text[LINE_BYTES];
	unsigned long *a = call.args;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/syscall", (int)pid, tid);
	if (!read_text(path, text, sizeof(text)) ||
		sscanf(text, "%ld %lx %lx %lx %lx %lx %lx", &call.number, &a[0], &a[1], &a[2],
			&a[3], &a[4], &a[5]) != 7)
		return BUSY;
	return what_of(&call);
}

/* Looks at all threads of a process. Adds their number; returns BUSY if one is busy. */
static enum doing look_at_process(pid_t pid, uint64_t *threads)
{
	enum doing all = RESTS;
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return BUSY;
	while (all != BUSY && (entry = readdir(tasks))) {
		enum doing one;

		if (entry->d_name[0] == '.')
			continue;
		one = look_at_thread(pid, entry->d_name);
		++*threads;
		if (one != RESTS)
			all = one;
	}
	closedir(tasks);
	return all;
}

/* The name of a program, which is between the parentheses, may hold any character. */
static bool read_process(const char *pid, struct process *ret)
{
	struct process process = {0};
	unsigned long user, system;
	char path[64], text[LINE_BYTES];
	const char *rest;

	snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
	if (!read_text(path, text, sizeof(text)))
		return false;
	rest = strrchr(text, ')');
	if (!rest || sscanf(text, "%d", &process.pid) != 1 ||
		sscanf(rest, ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &process.state,
			&process.parent, &user, &system) != 4)
		return false;
	process.ticks = user + system;
	*ret = process;
	return true;
}

/* Returns the number of processes, or 0 if there are more than @max or none could be read. */
static size_t list_processes(struct process *processes, size_t max)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;

	while (directory && n <= max && (entry = readdir(directory))) {
		struct process process;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
			!read_process(entry->d_name, &process))
			continue;
		if (n < max)
			processes[n] = process;
		n++;
	}
	if (directory)
		closedir(directory);
	return n > max ? 0 : n;
}

static bool has_parent_below(const struct process *processes, size_t n, pid_t init, pid_t parent)
{
	if (parent == init)
		return true;
	for (size_t i = 0; i < n; i++)
		if (processes[i].pid == parent)
			return processes[i].below;
	return false;
}

/* A parent may come after its child, so this repeats until nothing changes. */
static void mark_descendants(struct process *processes, size_t n, pid_t init)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			if (processes[i].below ||
				!has_parent_below(processes, n, init, processes[i].parent))
				continue;
			processes[i].below = changed = true;
		}
	}
}

struct input_wait input_wait_look(pid_t init)
{
	static struct process processes[LIMIT_INPUT_WAIT_PROCESSES];
	size_t n = list_processes(processes, ARRAY_SIZE(processes));
	struct input_wait wait = {0};
	bool reads = false;

	mark_descendants(processes, n, init);
	for (size_t i = 0; i < n; i++) {
		enum doing doing;

		if (!processes[i].below || processes[i].state == 'Z')
			continue;
		doing = processes[i].state == 'S' ? look_at_process(processes[i].pid, &wait.threads)
						  : BUSY;
		if (doing == BUSY)
			return (struct input_wait){0};
		reads |= doing == READS;
		wait.ticks += processes[i].ticks;
	}
	wait.waits = reads;
	return wait;
}
