// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: the loop queues lines and a thread writes them. Only the thread uses the file
 * and the chain. A mutex guards the queue and the shared state and is never held over a system call
 * that may wait for a disk. A line leaves the queue when it is completely written.
 */
#include "supervisor/audit/audit_writer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit_file.h"
#include "supervisor/audit/audit_time.h"
#include "supervisor/base/log.h"
#include "supervisor/base/thread.h"
#include "supervisor/host/handover.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define AUDIT_RETRY_MS 100 /* after a write that failed */

/* The header of each line in the queue. */
struct record {
	uint32_t len;
	uint32_t lost_before; /* lines lost between this line and the one before */
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
	SOURCE_OPENED, /* an audit.opened line */
	SOURCE_LOST,   /* an audit.lost line with the number of lines missing here */
	SOURCE_QUEUE,
};

struct audit_writer {
	struct thread thread;
	bool reopen;
	bool fails;      /* it waits before it writes again, which lines do not hurry */
	bool hold, held; /* it is to let go of the file; it has */
	int relay;       /* to the generation that has it; -1: there is none */
	int directory_fd;
	char *name;
	struct audit_rotation rotation;

	/* the queue, a ring buffer */
	char *ring;
	size_t head, used, records;
	uint64_t lost_since; /* lines lost since the last queued line */

	/* state for other threads */
	struct audit_chain last;
	uint64_t lost;
	int error;

	/* used by the thread only */
	struct audit_file file;
	bool announce;      /* the file is new, or new to this process */
	const char *reason; /* why the file was opened */
	uint64_t lost_here; /* lines missing before the next one */
	bool lost_is_known; /* lost_here includes the count of the record at the head */
	int reopen_error, rename_error;
	enum source source;
	struct audit_chain next;
	size_t len, written;
	char members[LIMIT_AUDIT_LINE_BYTES];
	char line[LIMIT_AUDIT_LINE_BYTES + AUDIT_FRAME_BYTES + 1];
};

/* The ring buffer. */

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

/* The thread. Choosing the next line gives the same answer until that line is written. */

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

/* Chooses the next line. Call it with the mutex held. */
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
	/* A torn line gets a newline and stays. */
	writer->line[0] = '\n';
	writer->len = before + audit_chain_line(&writer->file.last, members, writer->line + before,
				       &writer->next);
	writer->written = 0;
}

/* The line is in the file. Call it with the mutex held. */
static void line_done(struct audit_writer *writer)
{
	assert(writer->source != SOURCE_NONE);
	writer->file.last = writer->last = writer->next;
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

/*
 * Writes the rest of the current line, without the mutex. Returns 0 when all of it is in the file,
 * or -errno; the rest is then tried again.
 */
static int write_rest(struct audit_writer *writer)
{
	if (writer->file.fd < 0)
		return -EBADF;
	while (writer->written < writer->len) {
		ssize_t n = write(writer->file.fd, writer->line + writer->written,
			writer->len - writer->written);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			writer->written += (size_t)n;
			writer->file.size += (uint64_t)n;
		}
	}
	writer->file.in_line = false;
	return 0;
}

/* Opens the new file, without the mutex. An incomplete line stays as it is in the old file. */
static int open_again(struct audit_writer *writer)
{
	ino_t ino = writer->file.ino;
	dev_t dev = writer->file.dev;
	size_t torn = writer->file.torn + (writer->file.torn > 0 && !writer->file.in_line) +
		      writer->written;
	int r = audit_file_reopen(&writer->file, writer->directory_fd, writer->name);

	if (r < 0 || (ino == writer->file.ino && dev == writer->file.dev))
		return r;
	/* Only its newline is missing, so it counts as written: in the old file. */
	if (writer->len > 0 && writer->written + 1 == writer->len) {
		thread_lock(&writer->thread);
		line_done(writer);
		thread_unlock(&writer->thread);
	} else {
		writer->file.torn = torn;
		writer->len = writer->written = 0;
		writer->source = SOURCE_NONE;
	}
	writer->reason = "rotation";
	writer->announce = true;
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
		log_info("the audit log can be written again");
}

/* Whether the next line might make the file too large. A line that a crash tore is ended first. */
static bool audit_queue_is_full(const struct audit_writer *writer)
{
	const struct audit_rotation *rotation = &writer->rotation;

	return rotation->files > 0 && writer->len == 0 && !writer->file.in_line &&
	       writer->file.size + sizeof(writer->line) > rotation->size;
}

/*
 * Renames a full file, for follow_rotation(). Called with the mutex held; releases it meanwhile. If
 * that fails, the file grows, and it is tried again before each line.
 */
static void rename_full(struct audit_writer *writer)
{
	int r;

	thread_unlock(&writer->thread);
	r = audit_file_rename_full(
		&writer->file, writer->directory_fd, writer->name, writer->rotation.files);
	thread_lock(&writer->thread);
	writer->reopen |= r == 0;
	if (r < 0 && r != writer->rename_error)
		log_warning(
			"the audit log is full (audit_size) and cannot be renamed, so it grows: "
			"%s; cloisterd must be able to write to its directory",
			strerror(-r));
	writer->rename_error = r;
}

/*
 * Follows a rotation. Called with the mutex held; releases it meanwhile. If the new file cannot be
 * opened, this is tried again; until then the old one is used, whatever its name is.
 */
static void follow_rotation(struct audit_writer *writer)
{
	int r;

	writer->reopen = false;
	thread_unlock(&writer->thread);
	r = open_again(writer);
	thread_lock(&writer->thread);
	writer->reopen |= r < 0;
	if (r < 0 && r != writer->reopen_error)
		log_warning("the audit log cannot be reopened and continues in the old file: %s",
			strerror(-r));
	writer->reopen_error = r;
}

/* The socket does not wait, because the loop uses it too. */
static int give_audit_line(int fd, struct text members)
{
	const struct handover_message message = {.type = HANDOVER_AUDIT, .text = members};
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
	int r;

	while ((r = handover_send(fd, &message)) == -EAGAIN && poll(&poll_fd, 1, -1) > 0)
		;
	return r;
}

/* Gives the next line to the generation that has the file. Called as write_audit_queue(). */
static int64_t relay_line(struct audit_writer *writer)
{
	struct text members = {writer->members, 0};
	int r;

	writer->reopen = writer->announce = false;
	writer->source = choose(writer);
	if (writer->source == SOURCE_NONE)
		return THREAD_IDLE;
	members.len = writer->source == SOURCE_LOST ? lost_members(writer) : ring_first(writer).len;
	thread_unlock(&writer->thread);
	r = give_audit_line(writer->relay, members);
	thread_lock(&writer->thread);
	set_error(writer, -r);
	if (r == 0 && writer->source == SOURCE_QUEUE) {
		ring_drop(writer);
		writer->lost_is_known = false;
	} else if (r == 0) {
		writer->lost_here = 0;
	}
	return r == 0 ? THREAD_AGAIN : AUDIT_RETRY_MS;
}

/* Lets go of the file, unless a line in it is incomplete. */
static void close_held_file(struct audit_writer *writer)
{
	if (writer->held || writer->len > 0)
		return;
	audit_file_close(&writer->file);
	writer->held = true;
}

/* Writes a line. */
static int64_t write_next(struct audit_writer *writer)
{
	int r;

	if (writer->relay >= 0)
		return relay_line(writer);
	if (writer->hold)
		close_held_file(writer);
	if (writer->held)
		return THREAD_IDLE;
	if (!writer->reopen && audit_queue_is_full(writer))
		rename_full(writer);
	if (writer->reopen)
		follow_rotation(writer);
	if (writer->len == 0) {
		writer->source = choose(writer);
		if (writer->source == SOURCE_NONE)
			return writer->reopen ? AUDIT_RETRY_MS : THREAD_IDLE;
		form_line(writer);
	}
	thread_unlock(&writer->thread);
	r = write_rest(writer);
	thread_lock(&writer->thread);
	set_error(writer, -r);
	if (r == 0)
		line_done(writer);
	return r == 0 ? THREAD_AGAIN : AUDIT_RETRY_MS;
}

static int64_t write_audit_queue(void *context)
{
	struct audit_writer *writer = context;
	int64_t ms = write_next(writer);

	writer->fails = ms == AUDIT_RETRY_MS;
	return ms;
}

/* Functions for the loop. */

static void audit_writer_release(struct audit_writer *writer)
{
	audit_file_close(&writer->file);
	close_fd(&writer->directory_fd);
	free(writer->name);
	free(writer->ring);
	free(writer);
}

int audit_writer_new(int directory_fd, const char *name, struct audit_rotation rotation,
	struct audit_writer **ret)
{
	struct audit_writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (!writer)
		return -ENOMEM;
	writer->directory_fd = -1;
	writer->relay = -1;
	writer->rotation = rotation;
	writer->file.fd = -1;
	writer->name = strdup(name);
	/* The kernel allocates its pages when they are first used. */
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
		log_warning("the audit log has no valid last line: a new chain begins in it");
	writer->thread = THREAD("audit", write_audit_queue, writer);
	*ret = writer;
	return 0;
}

int audit_writer_start(struct audit_writer *writer)
{
	return thread_start(&writer->thread);
}

bool audit_writer_put(struct audit_writer *writer, struct text members, size_t keep)
{
	struct record record = {.len = (uint32_t)members.len};
	bool room;

	thread_lock(&writer->thread);
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
	if (!writer->fails)
		thread_wake(&writer->thread);
	thread_unlock(&writer->thread);
	return room;
}

void audit_writer_reopen(struct audit_writer *writer)
{
	thread_lock(&writer->thread);
	writer->reopen = true;
	thread_wake(&writer->thread);
	thread_unlock(&writer->thread);
}

void audit_writer_hold(struct audit_writer *writer)
{
	thread_lock(&writer->thread);
	writer->hold = true;
	thread_wake(&writer->thread);
	thread_unlock(&writer->thread);
}

bool audit_writer_is_held(struct audit_writer *writer)
{
	bool held;

	thread_lock(&writer->thread);
	held = writer->held;
	thread_unlock(&writer->thread);
	return held;
}

/* Another generation may have written to it meanwhile. */
void audit_writer_resume(struct audit_writer *writer)
{
	int r = 0;

	thread_lock(&writer->thread);
	if (writer->held)
		r = audit_file_open(writer->directory_fd, writer->name, &writer->file);
	if (writer->held && r == 0) {
		writer->reason = "resumed";
		writer->announce = true;
	}
	writer->reopen |= r < 0;
	writer->hold = writer->held = false;
	thread_wake(&writer->thread);
	thread_unlock(&writer->thread);
	if (r < 0)
		log_error("the audit log cannot be opened again: %s", strerror(-r));
}

void audit_writer_relay(struct audit_writer *writer, int fd)
{
	thread_lock(&writer->thread);
	writer->relay = fd;
	thread_wake(&writer->thread);
	thread_unlock(&writer->thread);
}

void audit_writer_look(struct audit_writer *writer, struct audit_writer_state *ret)
{
	thread_lock(&writer->thread);
	*ret = (struct audit_writer_state){
		.last = writer->last,
		.lost = writer->lost,
		.queued = writer->used,
		.error = writer->error,
	};
	thread_unlock(&writer->thread);
}

uint64_t audit_writer_free(struct audit_writer *writer)
{
	uint64_t left;
	bool ended;

	if (!writer)
		return 0;
	ended = thread_stop(&writer->thread, LIMIT_AUDIT_END_MS);
	thread_lock(&writer->thread);
	left = writer->records + writer->lost_since + writer->lost_here;
	thread_unlock(&writer->thread);
	if (ended)
		audit_writer_release(writer);
	return left;
}
