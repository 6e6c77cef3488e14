// SPDX-License-Identifier: Apache-2.0
/*
 * For tests/bench/path: is loaded into a cloisterd whose functions gcc has made to announce
 * themselves (-finstrument-functions), and writes the address of each function that is entered into
 * the file that COUNT_ENTRIES names, in the order of entry, from any thread. Marks between them say
 * when a thread's epoll_wait(2) has returned, when it has read bytes with COUNT_ENTRIES_MARK in
 * them, and when it has written such bytes to the same descriptor.
 */
#include "tests/lib/count_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct count_entries *entries;
static atomic_int client = -1; /* the descriptor of the last request with the mark */

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static void put(uint64_t value)
{
	static _Thread_local uint64_t thread;
	uint64_t at;

	if (!entries)
		return;
	if (thread == 0)
		thread = (uint64_t)syscall(SYS_gettid) << COUNT_ENTRIES_THREAD_SHIFT;
	at = atomic_fetch_add(&entries->n, 1);
	entries->of[at % COUNT_ENTRIES_MOST] = thread | value;
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	put((uint64_t)(uintptr_t)function - (entries ? entries->base : 0));
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
}

/* The program itself comes first. */
static int set_base(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(uint64_t *)context = info->dlpi_addr;
	return 1;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("COUNT_ENTRIES");
	void *place;
	int fd;

	/* The program that executes cloisterd is not counted, nor those that cloisterd does. */
	if (!path || strcmp(program_invocation_short_name, "cloisterd") != 0)
		return;
	unsetenv("LD_PRELOAD");
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	place = mmap(NULL, sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (place == MAP_FAILED)
		return;
	dl_iterate_phdr(set_base, &((struct count_entries *)place)->base);
	entries = place;
}

static bool has_mark(const struct iovec *parts, size_t n, ssize_t len)
{
	for (size_t i = 0, left = len > 0 ? (size_t)len : 0; i < n && left > 0; i++) {
		size_t here = parts[i].iov_len < left ? parts[i].iov_len : left;

		if (memmem(parts[i].iov_base, here, COUNT_ENTRIES_MARK, strlen(COUNT_ENTRIES_MARK)))
			return true;
		left -= here;
	}
	return false;
}

static ssize_t have_read(int fd, const struct iovec *parts, size_t n, ssize_t len)
{
	if (has_mark(parts, n, len)) {
		atomic_store(&client, fd);
		put(COUNT_ENTRIES_REQUEST);
	}
	return len;
}

static ssize_t have_written(int fd, const struct iovec *parts, size_t n, ssize_t len)
{
	if (fd == atomic_load(&client) && has_mark(parts, n, len))
		put(COUNT_ENTRIES_ANSWER);
	return len;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	int r = (int)syscall(SYS_epoll_pwait, epoll, events, most, timeout, NULL, 8);

	put(COUNT_ENTRIES_AWAKE);
	return r;
}

ssize_t read(int fd, void *data, size_t len)
{
	return have_read(fd, &(struct iovec){data, len}, 1, syscall(SYS_read, fd, data, len));
}

ssize_t readv(int fd, const struct iovec *parts, int n)
{
	return have_read(fd, parts, (size_t)n, syscall(SYS_readv, fd, parts, n));
}

ssize_t recv(int fd, void *data, size_t len, int flags)
{
	return have_read(fd, &(struct iovec){data, len}, 1,
		syscall(SYS_recvfrom, fd, data, len, flags, NULL, NULL));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return have_read(fd, message->msg_iov, message->msg_iovlen,
		syscall(SYS_recvmsg, fd, message, flags));
}

ssize_t write(int fd, const void *data, size_t len)
{
	return have_written(
		fd, &(struct iovec){(void *)data, len}, 1, syscall(SYS_write, fd, data, len));
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
	return have_written(fd, parts, (size_t)n, syscall(SYS_writev, fd, parts, n));
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
	return have_written(fd, &(struct iovec){(void *)data, len}, 1,
		syscall(SYS_sendto, fd, data, len, flags, NULL, 0));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return have_written(fd, message->msg_iov, message->msg_iovlen,
		syscall(SYS_sendmsg, fd, message, flags));
}
