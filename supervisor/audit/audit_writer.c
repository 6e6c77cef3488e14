// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterd: the loop puts lines in, a thread writes them. The thread alone touches the file and
 * the chain; the queue and what both look at are under the mutex, which is never held over a system
 * call that a disk could delay. A line leaves the queue when it is written whole.
 */
#include "supervisor/audit/audit_writer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit_file.h"
#include "supervisor/audit/audit_time.h"
#include "supervisor/base/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define STACK_BYTES (256UL * 1024)

/* What comes before each line in the queue. */
struct record {
	uint32_t len;
	uint32_t lost_before; /* lines that found no room after the one before it */
};

/*
 * Which line is at hand, and what becomes of it:
 *
 *           it is written whole   a write fails      the file is another one  the writer stops
 *   NONE    (there is none)       (there is none)    OPENED comes next        the thread ends
 *   OPENED  it is announced       the rest, again    OPENED of the new file   is not written
 *   LOST    the count is 0 again  the rest, again    again, after OPENED      counts as left
 *   QUEUE   it leaves the queue   the rest, again    again, after OPENED      counts as left
 *
 * A line of which only the end of line is missing counts as written when the file is another one.
 */
enum source {
	SOURCE_NONE,
	SOURCE_OPENED, /* that a file was opened */
	SOURCE_LOST,   /* how many lines are missing here */
	SOURCE_QUEUE,
};

struct audit_writer {
	pthread_mutex_t mutex;
	pthread_cond_t work; /* CLOCK_MONOTONIC */
	pthread_t thread;
	bool started, idle, stop, reopen;
	int directory_fd;
	char *name;

	/* the queue, a ring */
	char *ring;
	size_t head, used, records;
	uint64_t lost_since; /* the last line that was queued */

	/* what others look at */
	struct audit_chain last;
	uint64_t lost;
	int error;

	/* the thread's own */
	struct audit_file file;
	bool announce;      /* the file is new, or new to this process */
	const char *reason; /* that it was opened */
	uint64_t lost_here; /* lines that are missing before the next one */
	bool lost_is_known; /* lost_here has what the record at the head says */
	int reopen_error;
	enum source source;
	struct audit_chain next;
	size_t len, written;
	char members[LIMIT_AUDIT_LINE_BYTES];
	char line[LIMIT_AUDIT_LINE_BYTES + AUDIT_FRAME_BYTES + 1];
};

/* The ring. */

static void ring_put(struct audit_writer *writer, const void *data, size_t len)
{
	size_t at = (writer->head + writer->used) % LIMIT_AUDIT_QUEUE_BYTES;
	size_t first = LIMIT_AUDIT_QUEUE_BYTES - at < len ? LIMIT_AUDIT_QUEUE_BYTES - at : len;

	memcpy(writer->ring + at, data, first);
	memcpy(writer->ring, (const char *)data + first, len - first);
	writer->used += len;
}

static void ring_look(const struct audit_writer *writer, size_t skip, void *data, size_t len)
{
	size_t at = (writer->head + skip) % LIMIT_AUDIT_QUEUE_BYTES;
	size_t first = LIMIT_AUDIT_QUEUE_BYTES - at < len ? LIMIT_AUDIT_QUEUE_BYTES - at : len;

	memcpy(data, writer->ring + at, first);
	memcpy((char *)data + first, writer->ring, len - first);
}

static struct record ring_first(const struct audit_writer *writer)
{
	struct record record;

	ring_look(writer, 0, &record, sizeof(record));
	return record;
}

static void ring_drop(struct audit_writer *writer)
{
	size_t len = sizeof(struct record) + ring_first(writer).len;

	assert(writer->records > 0 && len <= writer->used);
	writer->head = (writer->head + len) % LIMIT_AUDIT_QUEUE_BYTES;
	writer->used -= len;
	writer->records--;
}

/* The thread: which line is next, as often as it is asked until that is written. */

static size_t opened_members(struct audit_writer *writer)
{
	char time[AUDIT_TIME_BYTES], torn[48] = "";

	if (writer->file.torn > 0)
		snprintf(torn, sizeof(torn), ",\"torn_bytes\":%zu", writer->file.torn);
	return (size_t)snprintf(writer->members, sizeof(writer->members),
		"\"time\":\"%s\",\"event\":\"audit.opened\",\"reason\":\"%s\",\"chain\":\"%s\"%s,"
		"\"version\":\"" CLOISTER_VERSION "\"",
		audit_time(time), writer->reason, writer->file.new_chain ? "new" : "continued",
		torn);
}

static size_t lost_members(struct audit_writer *writer)
{
	char time[AUDIT_TIME_BYTES];

	return (size_t)snprintf(writer->members, sizeof(writer->members),
		"\"time\":\"%s\",\"event\":\"audit.lost\",\"lines\":%llu", audit_time(time),
		(unsigned long long)writer->lost_here);
}

/* With the mutex: what the next line is of. */
static enum source choose(struct audit_writer *writer)
{
	struct record record;

	if (writer->announce)
		return SOURCE_OPENED;
	if (writer->records == 0) {
		writer->lost_here += writer->lost_since;
		writer->lost_since = 0;
	} else if (!writer->lost_is_known) {
		writer->lost_here += ring_first(writer).lost_before;
		writer->lost_is_known = true;
	}
	if (writer->lost_here > 0)
		return SOURCE_LOST;
	if (writer->records == 0)
		return SOURCE_NONE;
	record = ring_first(writer);
	ring_look(writer, sizeof(record), writer->members, record.len);
	return SOURCE_QUEUE;
}

static void form_line(struct audit_writer *writer)
{
	struct text members = {writer->members, 0};
	size_t before = writer->file.in_line;

	if (writer->source == SOURCE_OPENED)
		members.len = opened_members(writer);
	else if (writer->source == SOURCE_LOST)
		members.len = lost_members(writer);
	else
		members.len = ring_first(writer).len;
	/* What is torn gets its end of line, and stays. */
	writer->line[0] = '\n';
	writer->len = before + audit_chain_line(&writer->file.last, members, writer->line + before,
				       &writer->next);
	writer->written = 0;
}

/* With the mutex: the line is in the file. */
static void line_done(struct audit_writer *writer)
{
	assert(writer->source != SOURCE_NONE);
	writer->file.last = writer->last = writer->next;
	writer->file.in_line = false;
	writer->len = writer->written = 0;
	if (writer->source == SOURCE_OPENED) {
		writer->announce = writer->file.new_chain = false;
		writer->file.torn = 0;
	} else if (writer->source == SOURCE_QUEUE) {
		ring_drop(writer);
		writer->lost_is_known = false;
	} else {
		writer->lost_here = 0;
	}
	writer->source = SOURCE_NONE;
}

/* Without the mutex. 0 when the line at hand is in the file, or -errno: the rest of it is tried
 * again. */
static int write_rest(struct audit_writer *writer)
{
	if (writer->file.fd < 0)
		return -EBADF;
	while (writer->written < writer->len) {
		ssize_t n = write(writer->file.fd, writer->line + writer->written,
			writer->len - writer->written);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			writer->written += (size_t)n;
	}
	return 0;
}

/* Without the mutex. A line that is not finished stays as it is in the old file. */
static int open_again(struct audit_writer *writer)
{
	ino_t ino = writer->file.ino;
	dev_t dev = writer->file.dev;
	size_t torn = writer->file.torn + (writer->file.torn > 0 && !writer->file.in_line) +
		      writer->written;
	int r = audit_file_reopen(&writer->file, writer->directory_fd, writer->name);

	if (r < 0 || (ino == writer->file.ino && dev == writer->file.dev))
		return r;
	writer->reason = "rotation";
	writer->announce = true;
	/* Nothing but its end of line is missing: it is written. */
	if (writer->len > 0 && writer->written + 1 == writer->len) {
		writer->written = writer->len;
		return 0;
	}
	writer->file.torn = torn;
	writer->len = writer->written = 0;
	writer->source = SOURCE_NONE;
	return 0;
}

static void set_error(struct audit_writer *writer, int error)
{
	int before = writer->error;

	writer->error = error;
	if (error == before)
		return;
	if (error != 0)
		log_error("the audit log cannot be written: %s", strerror(error));
	else
		log_info("the audit log is written again");
}

static void wait_a_while(struct audit_writer *writer)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LIMIT_AUDIT_RETRY_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	pthread_cond_timedwait(&writer->work, &writer->mutex, &until);
}

/* With the mutex, which is given up meanwhile. A new file that cannot be opened is tried again;
 * until then the old one is as good, whatever its name is now. */
static void follow_rotation(struct audit_writer *writer)
{
	int r;

	writer->reopen = false;
	pthread_mutex_unlock(&writer->mutex);
	r = open_again(writer);
	pthread_mutex_lock(&writer->mutex);
	writer->reopen |= r < 0;
	if (r < 0 && r != writer->reopen_error)
		log_warning("the audit log cannot be opened again and goes on in the old file: %s",
			strerror(-r));
	writer->reopen_error = r;
}

/* With the mutex, which is given up meanwhile. True: there may be more to do. */
static bool turn(struct audit_writer *writer)
{
	int r;

	if (writer->reopen)
		follow_rotation(writer);
	if (writer->len == 0) {
		writer->source = choose(writer);
		if (writer->source == SOURCE_NONE)
			return false;
		form_line(writer);
	}
	pthread_mutex_unlock(&writer->mutex);
	r = write_rest(writer);
	pthread_mutex_lock(&writer->mutex);
	set_error(writer, -r);
	if (r == 0)
		line_done(writer);
	else if (!writer->stop)
		wait_a_while(writer);
	return r == 0 || !writer->stop;
}

static void *run(void *context)
{
	struct audit_writer *writer = context;

	prctl(PR_SET_NAME, "audit");
	pthread_mutex_lock(&writer->mutex);
	for (;;) {
		while (turn(writer))
			;
		if (writer->stop)
			break;
		if (writer->reopen) {
			wait_a_while(writer);
			continue;
		}
		writer->idle = true;
		pthread_cond_wait(&writer->work, &writer->mutex);
		writer->idle = false;
	}
	pthread_mutex_unlock(&writer->mutex);
	return NULL;
}

/* The loop. */

static void audit_writer_release(struct audit_writer *writer)
{
	audit_file_close(&writer->file);
	close_fd(&writer->directory_fd);
	free(writer->name);
	free(writer->ring);
	free(writer);
}

int audit_writer_new(int directory_fd, const char *name, struct audit_writer **ret)
{
	struct audit_writer *writer = calloc(1, sizeof(*writer));
	pthread_condattr_t monotonic;
	int r;

	if (!writer)
		return -ENOMEM;
	writer->directory_fd = -1;
	writer->file.fd = -1;
	writer->name = strdup(name);
	/* Its pages come when they are first used. */
	writer->ring = malloc(LIMIT_AUDIT_QUEUE_BYTES);
	r = writer->name && writer->ring ? audit_file_open(directory_fd, name, &writer->file)
					 : -ENOMEM;
	if (r < 0) {
		audit_writer_release(writer);
		return r;
	}
	writer->directory_fd = directory_fd;
	writer->last = writer->file.last;
	writer->reason = "start";
	writer->announce = true;
	if (writer->file.new_chain && writer->file.torn > 0)
		log_warning("the audit log has no line to go on from: a new chain begins in it");
	pthread_mutex_init(&writer->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer->work, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*ret = writer;
	return 0;
}

int audit_writer_start(struct audit_writer *writer)
{
	pthread_attr_t small;
	sigset_t all, old;
	int r;

	/* Signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	r = pthread_create(&writer->thread, &small, run, writer);
	pthread_attr_destroy(&small);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	writer->started = r == 0;
	return -r;
}

/* With the mutex. A thread that is at work looks for more by itself. */
static void wake(struct audit_writer *writer)
{
	if (writer->idle)
		pthread_cond_signal(&writer->work);
}

bool audit_writer_put(struct audit_writer *writer, struct text members, size_t keep)
{
	struct record record = {.len = (uint32_t)members.len};
	bool room;

	pthread_mutex_lock(&writer->mutex);
	room = members.len <= LIMIT_AUDIT_LINE_BYTES &&
	       writer->used + sizeof(record) + members.len + keep <= LIMIT_AUDIT_QUEUE_BYTES;
	if (room) {
		record.lost_before = (uint32_t)writer->lost_since;
		writer->lost_since = 0;
		ring_put(writer, &record, sizeof(record));
		ring_put(writer, members.data, members.len);
		writer->records++;
	} else {
		writer->lost++;
		writer->lost_since++;
	}
	wake(writer);
	pthread_mutex_unlock(&writer->mutex);
	return room;
}

void audit_writer_reopen(struct audit_writer *writer)
{
	pthread_mutex_lock(&writer->mutex);
	writer->reopen = true;
	pthread_cond_signal(&writer->work);
	pthread_mutex_unlock(&writer->mutex);
}

void audit_writer_look(struct audit_writer *writer, struct audit_writer_state *ret)
{
	pthread_mutex_lock(&writer->mutex);
	*ret = (struct audit_writer_state){
		.last = writer->last,
		.lost = writer->lost,
		.queued = writer->used,
		.error = writer->error,
	};
	pthread_mutex_unlock(&writer->mutex);
}

/* False: it hangs in a write, and has what it is at work on. */
static bool join(struct audit_writer *writer)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LIMIT_AUDIT_END_MS / 1000;
	return pthread_clockjoin_np(writer->thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

uint64_t audit_writer_free(struct audit_writer *writer)
{
	uint64_t left;
	bool ended;

	if (!writer)
		return 0;
	pthread_mutex_lock(&writer->mutex);
	writer->stop = true;
	pthread_cond_signal(&writer->work);
	pthread_mutex_unlock(&writer->mutex);
	ended = !writer->started || join(writer);
	pthread_mutex_lock(&writer->mutex);
	left = writer->records + writer->lost_since + writer->lost_here;
	pthread_mutex_unlock(&writer->mutex);
	if (ended)
		audit_writer_release(writer);
	return left;
}
