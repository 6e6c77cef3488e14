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
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work, done; /* CLOCK_MONOTONIC */
static bool started, writing;
static char ring[LIMIT_LOG_QUEUE_BYTES];
static size_t head, used;
/* total number of lost lines, and those since the last queued line */
static uint64_t lost, lost_here;

/*
 * Writes a line; stderr may be non-blocking, because other processes share it. Returns 0 or -errno.
 */
static int write_line(struct text line)
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

static bool queue(struct text line)
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

	if (lost_here > 0 && !queue((struct text){line, (size_t)len}))
		return false;
	lost_here = 0;
	return true;
}

static size_t take_line(char *line, size_t size)
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

static void *write_lines(void *context)
{
	static char line[LIMIT_LOG_LINE_BYTES];
	size_t len;
	int r;

	(void)context;
	pthread_mutex_lock(&mutex);
	for (;;) {
		if (used == 0)
			(void)queue_lost();
		writing = used > 0;
		if (!writing) {
			pthread_cond_signal(&done);
			pthread_cond_wait(&work, &mutex);
			continue;
		}
		len = take_line(line, sizeof(line));
		pthread_mutex_unlock(&mutex);
		r = write_line((struct text){line, len});
		pthread_mutex_lock(&mutex);
		lost += r < 0;
	}
	return NULL;
}

int log_writer_start(void)
{
	pthread_t thread;
	int r;

	thread_condition_init(&work);
	thread_condition_init(&done);
	r = thread_start(write_lines, NULL, &thread);
	if (r == 0)
		pthread_detach(thread);
	started = r == 0;
	return r;
}

void log_writer_put(struct text line)
{
	if (!started) {
		(void)write_line(line);
		return;
	}
	pthread_mutex_lock(&mutex);
	if (!queue_lost() || !queue(line)) {
		lost++;
		lost_here++;
	}
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&mutex);
}

void log_writer_flush(void)
{
	struct timespec until;

	if (!started)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LIMIT_LOG_END_MS / 1000;
	pthread_mutex_lock(&mutex);
	while ((used > 0 || lost_here > 0 || writing) &&
		pthread_cond_timedwait(&done, &mutex, &until) == 0)
		;
	pthread_mutex_unlock(&mutex);
}

uint64_t log_writer_lost(void)
{
	uint64_t value;

	pthread_mutex_lock(&mutex);
	value = lost;
	pthread_mutex_unlock(&mutex);
	return value;
}
