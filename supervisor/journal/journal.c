// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Only the thread changes the files, once it is started. A mutex guards the two
 * queues and the shared state and is never held over a system call that may wait for a disk.
 */
#include "supervisor/journal/journal.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wake_cost.h"
#include "common/wire/wire_commands.h"
#include "supervisor/base/log.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/thread.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#define TRY_BYTES 4096 /* more than most records have */

enum job_kind {
	JOB_APPEND,
	JOB_TURN, /* empty the other file */
	JOB_TRY,  /* whether a record could be written again */
};

/* What the thread is to do, and then what has become of it. */
struct job {
	TAILQ_ENTRY(job) link;
	enum job_kind kind;
	journal_done done; /* of a record */
	void *context;
	struct journal_gate *gate;
	bool begins; /* a kept one: it is a call's beginning */
	int error;
	struct journal_place place;
	size_t len;
	char record[];
};

TAILQ_HEAD(jobs, job);
STAILQ_HEAD(gates, journal_gate);

struct journal {
	bool durable;
	struct journal_file file;
	unsigned current; /* as the loop has heard */
	bool turning;
	uint64_t cut_bytes;
	int event_fd;
	struct watch done_watch;
	struct loop_turn_task wake; /* the thread, once what this turn sends is sent */
	struct timer retry;         /* while the last record could not be written */

	struct thread thread;
	struct jobs waiting, done;
	struct gates opened;
	struct jobs told; /* the loop's: done and not called yet */
	bool held;        /* the loop's: journal_hold() */
	struct jobs kept; /* the loop's: appended meanwhile */
	size_t kept_bytes;
	size_t queued;  /* bytes of waiting */
	uint64_t bytes; /* of both files */
	int error;
	/* to the generation that has the files; NULL: they are this one's */
	void (*relay)(void *context, struct text record);
	void *relay_context;
};

/* The loop's only buffer: one record is written at a time. */
static char encoded[LIMIT_JOURNAL_RECORD_BYTES];

/* Says once that the journal fails, and once that it works again. */
static void note_journal_error(struct journal *journal, int error)
{
	int before = journal->error;

	journal->error = -error;
	journal->bytes = journal->file.files[0].size + journal->file.files[1].size;
	if (journal->error == before)
		return;
	if (error < 0)
		log_error("the journal of keys cannot be written, so calls with a key are refused: "
			  "%s",
			strerror(-error));
	else
		log_info("the journal of keys can be written again");
}

/* The thread. */

static int do_job(struct journal *journal, struct job *job)
{
	switch (job->kind) {
	case JOB_TURN:
		return journal_file_turn(&journal->file);
	case JOB_TRY:
		return journal_file_try(&journal->file, (struct text){job->record, job->len});
	default:
		return journal_file_append(
			&journal->file, (struct text){job->record, job->len}, &job->place);
	}
}

static int sync_file(const struct journal *journal)
{
	return journal->durable ? journal_file_sync(&journal->file) : 0;
}

/*
 * Does all jobs and, if they are to be durable, waits for the disk once. A file is then left only
 * when the disk has what is in it.
 */
static int do_jobs(struct journal *journal, struct jobs *jobs)
{
	struct job *job;
	int r = 0, first = 0;

	TAILQ_FOREACH (job, jobs, link) {
		if (job->kind == JOB_TURN)
			first = sync_file(journal);
		job->error = first < 0 ? first : do_job(journal, job);
		r = job->error < 0 ? job->error : r;
		if (job->kind == JOB_TURN)
			job->place.file = (uint8_t)journal->file.current;
	}
	if (first == 0)
		first = sync_file(journal);
	if (first == 0)
		return r;
	TAILQ_FOREACH (job, jobs, link)
		job->error = first;
	return first;
}

static void open_gates(struct gates *gates)
{
	const char byte = COMMAND_GATE_OPEN;
	struct journal_gate *gate;

	STAILQ_FOREACH(gate, gates, link)
	{
		wake_cost_begin();
		/* The socket is empty, so this does not wait. Nobody may be there any more. */
		(void)!write(gate->fd, &byte, 1);
		gate->cost_ns = wake_cost_stop();
	}
}

/*
 * Tells what has become of @jobs. Whoever finds that a job is not done knows that its gate will not
 * be opened, unless it is shut before. Releases the mutex while it opens gates.
 */
static void tell_journal_jobs(struct journal *journal, struct jobs *jobs)
{
	struct gates gates = STAILQ_HEAD_INITIALIZER(gates);
	const uint64_t one = 1;
	struct job *job;

	TAILQ_FOREACH (job, jobs, link) {
		if (job->error < 0 || !job->gate || job->gate->shut)
			continue;
		job->gate->opens = true;
		STAILQ_INSERT_TAIL(&gates, job->gate, link);
	}
	TAILQ_CONCAT(&journal->done, jobs, link);
	if (!STAILQ_EMPTY(&gates)) {
		thread_unlock(&journal->thread);
		open_gates(&gates);
		thread_lock(&journal->thread);
		STAILQ_CONCAT(&journal->opened, &gates);
	}
	(void)!write(journal->event_fd, &one, sizeof(one));
}

static int64_t write_journal_queue(void *context)
{
	struct jobs jobs = TAILQ_HEAD_INITIALIZER(jobs);
	struct journal *journal = context;
	int r;

	if (TAILQ_EMPTY(&journal->waiting))
		return THREAD_IDLE;
	TAILQ_CONCAT(&jobs, &journal->waiting, link);
	thread_unlock(&journal->thread);
	r = do_jobs(journal, &jobs);
	thread_lock(&journal->thread);
	note_journal_error(journal, r);
	tell_journal_jobs(journal, &jobs);
	return THREAD_AGAIN;
}

/* Functions for the loop. */

/* A gate without a done call stays its owner's. */
static void free_jobs(struct journal *journal, struct jobs *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs))) {
		TAILQ_REMOVE(jobs, job, link);
		if (job->gate && job->gate->opens)
			STAILQ_REMOVE(&journal->opened, job->gate, journal_gate, link);
		free(job);
	}
}

/* Tries again later, if the last attempt has failed. */
static void set_retry(struct journal *journal, bool fails)
{
	if (!fails)
		timer_cancel(&journal->retry);
	else if (!timer_is_set(&journal->retry))
		timer_set(&journal->retry, LIMIT_JOURNAL_RETRY_MS);
}

/*
 * Calls for what is done. A call may lead here again, and then goes on with what is left. A gate's
 * job is done before the gate is opened.
 */
static void call_done(struct journal *journal)
{
	struct gates gates = STAILQ_HEAD_INITIALIZER(gates);
	struct journal_gate *gate;
	struct job *job;
	bool fails;

	thread_lock(&journal->thread);
	fails = journal->error != 0;
	TAILQ_FOREACH (job, &journal->done, link)
		journal->queued -= job->len;
	TAILQ_CONCAT(&journal->told, &journal->done, link);
	STAILQ_CONCAT(&gates, &journal->opened);
	thread_unlock(&journal->thread);
	while ((job = TAILQ_FIRST(&journal->told))) {
		TAILQ_REMOVE(&journal->told, job, link);
		if (job->kind == JOB_APPEND) {
			job->done(job->context, job->error, job->place);
		} else if (job->kind == JOB_TURN) {
			journal->current = job->place.file;
			journal->turning = false;
		}
		free(job);
	}
	while ((gate = STAILQ_FIRST(&gates))) {
		STAILQ_REMOVE_HEAD(&gates, link);
		gate->opened(gate);
	}
	set_retry(journal, fails);
}

static void on_journal_done(void *context)
{
	struct journal *journal = context;
	uint64_t count;

	(void)!read(journal->event_fd, &count, sizeof(count));
	call_done(journal);
}

/*
 * Waking a thread takes as long as ten other system calls. A command's worker and the client hear
 * of their call before that.
 */
static void wake_thread(void *context)
{
	struct journal *journal = context;

	thread_lock(&journal->thread);
	thread_wake(&journal->thread);
	thread_unlock(&journal->thread);
}

bool journal_shut_gate(struct journal *journal, struct journal_gate *gate)
{
	bool shut;

	thread_lock(&journal->thread);
	shut = gate->shut = !gate->opens;
	thread_unlock(&journal->thread);
	call_done(journal);
	return shut;
}

/* Takes @job. Returns 0; -ENOBUFS if too much waits. */
static int queue_job(struct journal *journal, struct job *job)
{
	bool room;

	thread_lock(&journal->thread);
	room = journal->queued + job->len <= LIMIT_JOURNAL_QUEUE_BYTES;
	if (room) {
		journal->queued += job->len;
		TAILQ_INSERT_TAIL(&journal->waiting, job, link);
	}
	thread_unlock(&journal->thread);
	if (!room) {
		free(job);
		return -ENOBUFS;
	}
	loop_turn_defer_last(&journal->wake);
	return 0;
}

static struct job *new_job(enum job_kind kind, struct text record, struct journal_gate *gate,
	journal_done done, void *context)
{
	struct job *job = malloc(sizeof(*job) + record.len);

	if (!job)
		return NULL;
	*job = (struct job){
		.kind = kind, .done = done, .context = context, .gate = gate, .len = record.len};
	if (record.len > 0)
		memcpy(job->record, record.data, record.len);
	return job;
}

/*
 * A host that is drained gets no calls, so nothing else would tell that its disk has room again.
 * Who has the files is known when they are not held any more.
 */
static void on_retry(void *context)
{
	static const char nothing[TRY_BYTES];
	struct journal *journal = context;
	struct job *job = NULL;

	if (journal->relay)
		return;
	if (!journal->held)
		job = new_job(JOB_TRY, (struct text){nothing, sizeof(nothing)}, NULL, NULL, NULL);
	if (!job || queue_job(journal, job) < 0)
		timer_set(&journal->retry, LIMIT_JOURNAL_RETRY_MS);
}

int journal_new(
	int directory_fd, bool durable, journal_take take, void *context, struct journal **ret)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	int r;

	if (!journal)
		return -ENOMEM;
	r = journal_file_open(
		directory_fd, durable, take, context, &journal->file, &journal->cut_bytes);
	if (r < 0) {
		free(journal);
		return r;
	}
	journal->durable = durable;
	journal->event_fd = -1;
	journal->wake = (struct loop_turn_task){.act = wake_thread, .context = journal};
	timer_init(&journal->retry, on_retry, journal);
	journal->current = journal->file.current;
	TAILQ_INIT(&journal->waiting);
	TAILQ_INIT(&journal->done);
	TAILQ_INIT(&journal->told);
	TAILQ_INIT(&journal->kept);
	STAILQ_INIT(&journal->opened);
	journal->thread = THREAD("journal", write_journal_queue, journal);
	note_journal_error(journal, 0);
	if (journal->cut_bytes > 0)
		log_warning("the journal of keys ended within a record: %llu bytes were cut off",
			(unsigned long long)journal->cut_bytes);
	*ret = journal;
	return 0;
}

int journal_start(struct journal *journal, struct event_base *base)
{
	static const struct watch_calls calls = {{on_journal_done, NULL}, LOOP_PRIORITY_NORMAL};
	bool fails = journal && journal->error != 0;
	int r;

	if (!journal)
		return 0;
	journal->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (journal->event_fd < 0)
		return -errno;
	r = watch_init(&journal->done_watch, base, journal->event_fd, &calls, journal);
	if (r < 0)
		return r;
	watch_want(&journal->done_watch, WATCH_READABLE);
	r = thread_start(&journal->thread);
	set_retry(journal, fails);
	return r;
}

bool journal_is_apart(const struct journal *journal)
{
	return journal->durable || journal->thread.started;
}

/* Takes @job until it is known whose the files are. */
static int keep_journal_job(struct journal *journal, struct job *job, bool begins)
{
	if (journal->kept_bytes + job->len > LIMIT_JOURNAL_QUEUE_BYTES) {
		free(job);
		return -ENOBUFS;
	}
	job->begins = begins;
	journal->kept_bytes += job->len;
	TAILQ_INSERT_TAIL(&journal->kept, job, link);
	return 0;
}

void journal_append(struct journal *journal, const struct journal_record *record,
	struct journal_gate *gate, journal_done done, void *context)
{
	struct text bytes = {encoded, journal_record_put(record, encoded, sizeof(encoded))};
	struct journal_place place = {0};
	struct job *job = NULL;
	int r = bytes.len > 0 ? 0 : -EMSGSIZE;

	if (r == 0 && journal->relay && record->type == JOURNAL_BEGIN) {
		r = -ECANCELED;
	} else if (r == 0 && journal->relay) {
		journal->relay(journal->relay_context, bytes);
	} else if (r == 0 && journal->held) {
		job = new_job(JOB_APPEND, bytes, gate, done, context);
		r = job ? keep_journal_job(journal, job, record->type == JOURNAL_BEGIN) : -ENOMEM;
		if (r == 0)
			return;
	} else if (r == 0 && !journal_is_apart(journal)) {
		assert(!gate); /* nobody waits for it: journal_is_apart() */
		r = journal_file_append(&journal->file, bytes, &place);
		note_journal_error(journal, r);
	} else if (r == 0) {
		job = new_job(JOB_APPEND, bytes, gate, done, context);
		r = job ? queue_job(journal, job) : -ENOMEM;
		if (r == 0)
			return;
	}
	done(context, r, place);
}

bool journal_rests(const struct journal *journal)
{
	/* Only the loop adds to it, and it shrinks when the loop has heard. */
	return journal->queued == 0 && !journal->turning;
}

void journal_hold(struct journal *journal)
{
	assert(journal->thread.started);
	journal->held = true;
}

/* Does with a kept record what journal_append() would do now. */
static void append_kept(struct journal *journal, struct job *job)
{
	const journal_done done = job->done;
	void *context = job->context;
	int r = -ECANCELED;

	if (!journal->relay) {
		r = queue_job(journal, job);
		if (r == 0)
			return;
	} else {
		if (!job->begins) {
			journal->relay(
				journal->relay_context, (struct text){job->record, job->len});
			r = 0;
		}
		free(job);
	}
	done(context, r, (struct journal_place){0});
}

void journal_release(struct journal *journal)
{
	struct job *job;

	journal->held = false;
	journal->kept_bytes = 0;
	while ((job = TAILQ_FIRST(&journal->kept))) {
		TAILQ_REMOVE(&journal->kept, job, link);
		append_kept(journal, job);
	}
}

void journal_relay(
	struct journal *journal, void (*relay)(void *context, struct text record), void *context)
{
	journal->relay = relay;
	journal->relay_context = context;
	journal_release(journal);
}

void journal_turn(struct journal *journal)
{
	struct job *job;

	if (journal->relay || journal->held)
		return;
	if (!journal_is_apart(journal)) {
		note_journal_error(journal, journal_file_turn(&journal->file));
		journal->current = journal->file.current;
		return;
	}
	if (journal->turning)
		return;
	job = new_job(JOB_TURN, (struct text){NULL, 0}, NULL, NULL, NULL);
	journal->turning = job && queue_job(journal, job) == 0;
}

int journal_read(const struct journal *journal, struct journal_place place, char *buffer,
	struct journal_record *ret)
{
	return journal_file_read(&journal->file, place, buffer, ret);
}

unsigned journal_current(const struct journal *journal)
{
	return journal->current;
}

void journal_look(struct journal *journal, struct journal_state *ret)
{
	thread_lock(&journal->thread);
	*ret = (struct journal_state){
		.durable = journal->durable,
		.bytes = journal->bytes,
		.queued_bytes = journal->queued,
		.cut_bytes = journal->cut_bytes,
		.error = journal->error,
	};
	thread_unlock(&journal->thread);
}

bool journal_free(struct journal *journal)
{
	struct journal_gate *gate;

	if (!journal)
		return true;
	thread_lock(&journal->thread);
	TAILQ_CONCAT(&journal->waiting, &journal->kept, link);
	thread_unlock(&journal->thread);
	watch_done(&journal->done_watch);
	timer_cancel(&journal->retry);
	loop_turn_cancel(&journal->wake);
	if (!thread_stop(&journal->thread, LIMIT_JOURNAL_END_MS)) {
		log_error("the journal of keys could not be written to its end");
		return false;
	}
	free_jobs(journal, &journal->waiting);
	free_jobs(journal, &journal->done);
	free_jobs(journal, &journal->told);
	while ((gate = STAILQ_FIRST(&journal->opened))) {
		STAILQ_REMOVE_HEAD(&journal->opened, link);
		gate->opened(gate);
	}
	journal_file_close(&journal->file);
	close_fd(&journal->event_fd);
	free(journal);
	return true;
}
