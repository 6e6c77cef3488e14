// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: the loop adds lines to a queue and a thread writes them. A mutex guards the
 * queue and is never held over a system call that could block.
 */
#include "supervisor/base/log_writer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t write_next(void *context);

static struct thread thread = THREAD("log", write_next, NULL);
static pthread_cond_t done;
static bool writing;
static char ring[LIMIT_LOG_QUEUE_BYTES];
static size_t head, used;
/* total number of lost lines, and those since the last queued line */
static uint64_t lost, lost_here;

/*
 * Writes a line; stderr may be non-blocking, because other processes share it. Returns 0 or -errno.
 */
static int write_log_line(struct text line)
{
	struct pollfd poll_fd = {.fd = STDERR_FILENO, .events = POLLOUT};

	while (line.len > 0) {
		ssize_t n = write(STDERR_FILENO, line.data, line.len);

		if (n >= 0) {
			line.data += n;
			line.len -= (size_t)n;
		} else if (errno == EAGAIN) {
			(void)poll(&poll_fd, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* The functions below are called with the mutex held. */

static bool queue_log_line(struct text line)
{
	size_t at = (head + used) % sizeof(ring);
	size_t first = sizeof(ring) - at < line.len ? sizeof(ring) - at : line.len;

	if (line.len > sizeof(ring) - used)
		return false;
	memcpy(ring + at, line.data, first);
	memcpy(ring, line.data + first, line.len - first);
	used += line.len;
	return true;
}

/* Queues a line that says how many lines are missing here. */
static bool queue_lost(void)
{
	char line[128];
	int len = snprintf(line, sizeof(line),
		"cloisterd: %" PRIu64 " lines are missing here: the log was not read in time\n",
		lost_here);

	if (lost_here > 0 && !queue_log_line((struct text){line, (size_t)len}))
		return false;
	lost_here = 0;
	return true;
}

static size_t take_written_line(char *line, size_t size)
{
	size_t len = 0;

	while (used > 0 && len < size) {
		line[len] = ring[head];
		head = (head + 1) % sizeof(ring);
		used--;
		if (line[len++] == '\n')
			break;
	}
	return len;
}

/* A turn of the thread. */
static int64_t write_next(void *context)
{
	static char line[LIMIT_LOG_LINE_BYTES];
	size_t len;
	int r;

	(void)context;
	if (used == 0)
		(void)queue_lost();
	writing = used > 0;
	if (!writing) {
		pthread_cond_signal(&done);
		return THREAD_IDLE;
	}
	len = take_written_line(line, sizeof(line));
	thread_unlock(&thread);
	r = write_log_line((struct text){line, len});
	thread_lock(&thread);
	lost += r < 0;
	return THREAD_AGAIN;
}

int log_writer_start(void)
{
	thread_condition_init(&done);
	return thread_start(&thread);
}

void log_writer_put(struct text line)
{
	if (!thread.started) {
		(void)write_log_line(line);
		return;
	}
	thread_lock(&thread);
	if (!queue_lost() || !queue_log_line(line)) {
		lost++;
		lost_here++;
	}
	thread_wake(&thread);
	thread_unlock(&thread);
}

void log_writer_flush(void)
{
	if (!thread.started)
		return;
	thread_lock(&thread);
	while ((used > 0 || lost_here > 0 || writing) &&
		thread_condition_wait(&done, &thread.mutex, LIMIT_LOG_END_MS))
		;
	thread_unlock(&thread);
}

uint64_t log_writer_lost(void)
{
	uint64_t value;

	thread_lock(&thread);
	value = lost;
	thread_unlock(&thread);
	return value;
}
