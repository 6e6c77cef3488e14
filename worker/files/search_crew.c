// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-files: batches are numbered as the walk fills them and lie in a ring. `reported`,
 * `taken` and `added` are the numbers of the batches that come next; all that is shared is under
 * one mutex, which is taken some three times a batch. A walk that is a ring ahead searches a batch
 * itself, so there is no thread that only walks, and memory is bounded.
 */
#include "worker/files/search_crew.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/search_batch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define RING 32

/* So many batches wait before threads are started: a small tree is done without. */
#define THREADS_FROM_BATCHES 3

#define STACK_BYTES (1 * MIB)

struct slot {
	struct batch batch;
	bool searched;
};

struct crew {
	struct scan_pattern *pattern;
	struct reply *reply;
	uint64_t max_results;
	struct search_budget budget;
	struct searcher searcher; /* the caller's */
	struct batch *filling;    /* NULL: none */

	pthread_t threads[LIMIT_SEARCH_THREADS - 1];
	size_t threads_count;
	bool threads_tried;

	pthread_mutex_t mutex;
	pthread_cond_t changed; /* a batch was added or searched, or the end is near */
	size_t waiting;         /* threads that wait for that */
	uint64_t reported, taken, added;
	bool closed; /* no more will be added */
	atomic_bool stop;
	struct crew_end end;
	struct slot ring[RING];
};

struct crew *crew_new(struct scan_pattern *pattern, uint64_t max_results, struct reply *reply)
{
	struct crew *crew = calloc(1, sizeof(*crew));

	if (!crew)
		return NULL;
	crew->pattern = pattern;
	crew->reply = reply;
	crew->max_results = max_results;
	crew->budget.left = LIMIT_SEARCH_BUFFERS_BYTES;
	pthread_mutex_init(&crew->budget.mutex, NULL);
	pthread_cond_init(&crew->budget.released, NULL);
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_cond_init(&crew->changed, NULL);
	for (size_t i = 0; i < RING; i++)
		crew->ring[i].batch.dirfd = crew->ring[i].batch.file = -1;
	/* One more than is reported, to know that there is more. */
	if (searcher_init(&crew->searcher, pattern, &crew->budget, max_results + 1, &crew->stop) <
		0) {
		crew_free(crew);
		return NULL;
	}
	return crew;
}

static struct slot *slot_at(struct crew *crew, uint64_t number)
{
	return &crew->ring[number % RING];
}

/* With the mutex held. */
static void tell_all(struct crew *crew)
{
	if (crew->waiting > 0)
		pthread_cond_broadcast(&crew->changed);
}

static void wait_change(struct crew *crew)
{
	crew->waiting++;
	pthread_cond_wait(&crew->changed, &crew->mutex);
	crew->waiting--;
}

static int report_hit(struct crew *crew, struct batch *batch, const struct batch_hit *hit)
{
	struct files_match match = {
		.line = hit->line,
		.text = {batch->texts + hit->text_at, hit->text_len},
		.cut = hit->cut,
	};

	if (crew->end.count == crew->max_results)
		return CREW_FULL;
	if (batch_path(batch, hit->file, &match.path) < 0)
		return -ENOMEM;
	if (reply_match(crew->reply, &match) < 0)
		return CREW_LISTENER_GONE;
	crew->end.count++;
	return 0;
}

static void count_files(struct crew *crew, const struct batch *batch, size_t files)
{
	for (size_t i = 0; i < files; i++) {
		if (batch->state[i] == FILE_SEARCHED)
			crew->end.files_searched++;
		else
			crew->end.files_skipped++;
	}
}

/* Reports the whole of @batch, or up to what ends the search. */
static int report_batch(struct crew *crew, struct batch *batch)
{
	for (size_t i = 0; i < batch->hits_count; i++) {
		int r = report_hit(crew, batch, &batch->hits[i]);

		if (r != 0) {
			count_files(crew, batch, batch->hits[i].file + 1);
			crew->end.files_skipped += batch->unreadable;
			return r;
		}
	}
	count_files(crew, batch, batch->done);
	return batch->result;
}

/* Reports what has its turn. With the mutex held. */
static void report_searched(struct crew *crew)
{
	while (crew->end.result == 0 && crew->reported < crew->added) {
		struct slot *slot = slot_at(crew, crew->reported);

		if (!slot->searched)
			return;
		crew->end.result = report_batch(crew, &slot->batch);
		crew->reported++;
	}
	if (crew->end.result != 0)
		crew->stop = true;
}

/*
 * Searches the next batch, if one waits. With the mutex held, which it gives up meanwhile. Whether
 * there was one.
 */
static bool search_one(struct crew *crew, struct searcher *searcher)
{
	struct slot *slot;

	if (crew->stop || crew->taken == crew->added)
		return false;
	slot = slot_at(crew, crew->taken++);
	pthread_mutex_unlock(&crew->mutex);
	searcher_run(searcher, &slot->batch);
	pthread_mutex_lock(&crew->mutex);
	slot->searched = true;
	report_searched(crew);
	tell_all(crew);
	return true;
}

static void *run_thread(void *context)
{
	struct crew *crew = context;
	struct searcher searcher;

	if (searcher_init(&searcher, crew->pattern, &crew->budget, crew->max_results + 1,
		    &crew->stop) < 0)
		return NULL; /* the others do without */
	pthread_mutex_lock(&crew->mutex);
	while (!crew->stop && (!crew->closed || crew->taken < crew->added))
		if (!search_one(crew, &searcher))
			wait_change(crew);
	pthread_mutex_unlock(&crew->mutex);
	searcher_done(&searcher);
	return NULL;
}

/* As many as there are processors for, or as can be had. */
static void start_threads(struct crew *crew)
{
	size_t wanted = 1;
	pthread_attr_t attributes;
	cpu_set_t cpus;

	crew->threads_tried = true;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		wanted = (size_t)CPU_COUNT(&cpus);
	if (wanted > LIMIT_SEARCH_THREADS)
		wanted = LIMIT_SEARCH_THREADS;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	while (crew->threads_count + 1 < wanted &&
		pthread_create(
			&crew->threads[crew->threads_count], &attributes, run_thread, crew) == 0)
		crew->threads_count++;
	pthread_attr_destroy(&attributes);
}

/* Hands the batch that was filled to the threads. What ended the search meanwhile, or 0. */
static int hand_over(struct crew *crew)
{
	bool start;
	int r;

	if (!crew->filling)
		return 0;
	crew->filling = NULL;
	pthread_mutex_lock(&crew->mutex);
	slot_at(crew, crew->added++)->searched = false;
	tell_all(crew);
	start = !crew->threads_tried && crew->added - crew->taken >= THREADS_FROM_BATCHES;
	r = crew->end.result;
	pthread_mutex_unlock(&crew->mutex);
	if (start)
		start_threads(crew);
	return r;
}

/* An empty batch in *@ret_batch, for which there must be a place. What ended the search, or 0. */
static int next_batch(struct crew *crew, struct batch **ret_batch)
{
	struct batch *batch;
	int r;

	pthread_mutex_lock(&crew->mutex);
	while (crew->end.result == 0 && crew->added - crew->reported == RING)
		if (!search_one(crew, &crew->searcher))
			wait_change(crew);
	r = crew->end.result;
	batch = &slot_at(crew, crew->added)->batch;
	pthread_mutex_unlock(&crew->mutex);
	if (r != 0)
		return r;
	batch_clear(batch);
	*ret_batch = batch;
	return 0;
}

static struct text directory_of(struct text path)
{
	const char *slash = memrchr(path.data, '/', path.len);

	return (struct text){path.data, slash ? (size_t)(slash - path.data) : 0};
}

int crew_add(struct crew *crew, const struct walk_entry *entry)
{
	struct text directory = directory_of(entry->path);
	struct batch *batch = crew->filling;
	int r = 0;

	if (batch && (batch->count == BATCH_FILES ||
			     !text_equal(directory, (struct text){batch->path, batch->path_len})))
		r = hand_over(crew);
	if (r == 0 && !crew->filling) {
		r = next_batch(crew, &batch);
		if (r == 0)
			r = batch_begin(batch, entry->dirfd, directory);
		if (r != 0)
			return r;
		batch->unreadable = entry->unreadable;
		crew->filling = batch;
	}
	return r != 0 ? r : batch_add(batch, entry->name);
}

int crew_add_single(struct crew *crew, int fd, struct text path)
{
	struct batch *batch;
	int r = next_batch(crew, &batch);

	if (r == 0)
		r = batch_single(batch, fd, path);
	if (r == 0)
		crew->filling = batch;
	return r;
}

void crew_finish(struct crew *crew, struct crew_end *ret_end)
{
	(void)hand_over(crew);
	pthread_mutex_lock(&crew->mutex);
	crew->closed = true;
	tell_all(crew);
	while (crew->end.result == 0 && crew->reported < crew->added)
		if (!search_one(crew, &crew->searcher))
			wait_change(crew);
	*ret_end = crew->end;
	pthread_mutex_unlock(&crew->mutex);
}

void crew_free(struct crew *crew)
{
	pthread_mutex_lock(&crew->mutex);
	crew->stop = true;
	crew->closed = true;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->mutex);
	for (size_t i = 0; i < crew->threads_count; i++)
		pthread_join(crew->threads[i], NULL);
	for (size_t i = 0; i < RING; i++)
		batch_free(&crew->ring[i].batch);
	searcher_done(&crew->searcher);
	pthread_mutex_destroy(&crew->mutex);
	pthread_cond_destroy(&crew->changed);
	pthread_mutex_destroy(&crew->budget.mutex);
	pthread_cond_destroy(&crew->budget.released);
	free(crew);
}
