// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a search job of the files process. Batches are numbered in the order of the walk and lie
 * in a ring. `reported`, `taken` and `added` are the numbers of the next batch to report, to search
 * and to add. One mutex, taken about three times a batch, guards the shared state. When the walk is
 * a whole ring ahead it searches a batch itself: no thread only walks, and memory is bounded.
 */
#include "worker/files/search/search_pool.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/reply.h"
#include "worker/files/search/search_batch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

/*
 * The matches in the files near a searched directory, in a search job of the files process. These
 * files are searched before those further down, and their matches are kept so that all are told in
 * the order of names.
 */

/* At most LIMIT_SEARCH_RESULTS; begins as {0}. */
struct near_hits {
	struct near_hit **hits;
	size_t count, size;
	size_t sent; /* of these */
};

struct near_hit {
	struct files_match match;
	char bytes[]; /* of its path and its text */
};

static void near_hits_done(struct near_hits *near)
{
	for (size_t i = 0; i < near->count; i++)
		free(near->hits[i]);
	free(near->hits);
	*near = (struct near_hits){0};
}

/* Keeps a copy of @match, which comes after those before. Returns 0 or -ENOMEM. */
static int near_hits_keep(struct near_hits *near, const struct files_match *match)
{
	struct near_hit *hit;
	char *at;

	if (array_reserve(&near->hits, &near->size, near->count + 1, sizeof(struct near_hit *)) < 0)
		return -ENOMEM;
	hit = malloc(sizeof(*hit) + match->path.len + match->text.len);
	if (!hit)
		return -ENOMEM;
	hit->match = *match;
	hit->match.path.data = hit->bytes;
	at = mempcpy(hit->bytes, match->path.data, match->path.len);
	hit->match.text.data = at;
	if (match->text.len > 0)
		memcpy(at, match->text.data, match->text.len);
	near->hits[near->count++] = hit;
	return 0;
}

/* Names are compared byte by byte, and a name comes before those that it begins. */
static unsigned char rank(char c)
{
	return c == '/' ? 0 : (unsigned char)c;
}

/* Whether a walk in the order of names comes to the file @a before it comes to the file @b. */
static bool comes_before(struct text a, struct text b)
{
	size_t len = a.len < b.len ? a.len : b.len;

	for (size_t i = 0; i < len; i++)
		if (a.data[i] != b.data[i])
			return rank(a.data[i]) < rank(b.data[i]);
	return a.len < b.len;
}

/*
 * Sends to @reply those that come before the file @path, or all if @path is NULL. Returns 0 or the
 * error of @reply.
 */
static int near_hits_send(struct near_hits *near, struct reply *reply, const struct text *path)
{
	for (; near->sent < near->count; near->sent++) {
		const struct files_match *match = &near->hits[near->sent]->match;
		int r;

		if (path && !comes_before(match->path, *path))
			break;
		r = reply_match(reply, match);
		if (r < 0)
			return r;
	}
	return 0;
}

#define RING 32

/* Threads are started when this many batches wait, so a small tree is searched without. */
#define THREADS_FROM_BATCHES 3

#define STACK_BYTES (1 * MIB)

struct slot {
	struct batch batch;
	bool searched;
};

struct search_pool {
	struct scan_pattern *pattern;
	struct reply *reply;
	uint64_t max_results;
	uint64_t offset, skip; /* matches to pass over; and how many of them have not come yet */
	uint32_t context;      /* lines on each side of a match */
	bool last_is_told;     /* some match has been reported, and the last one was */
	struct search_budget budget;
	struct searcher searcher; /* the calling thread's */
	struct batch *filling;    /* NULL: none */

	pthread_t threads[LIMIT_SEARCH_THREADS - 1];
	size_t threads_count;
	bool threads_tried;

	pthread_mutex_t mutex;
	pthread_cond_t changed; /* a batch was added or searched, or the search ends */
	size_t waiting;         /* threads that wait for it */
	uint64_t reported, taken, added;
	bool closed; /* no more batches will be added */
	atomic_bool stop;
	struct search_pool_end end;
	struct near_hits near;
	struct slot ring[RING];
};

struct search_pool *search_pool_new(
	struct scan_pattern *pattern, const struct search_wanted *wanted, struct reply *reply)
{
	struct search_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->pattern = pattern;
	pool->reply = reply;
	pool->max_results = wanted->max_results;
	pool->offset = pool->skip = wanted->offset;
	pool->context = wanted->context;
	pool->budget.left = LIMIT_SEARCH_BUFFERS_BYTES;
	pthread_mutex_init(&pool->budget.mutex, NULL);
	pthread_cond_init(&pool->budget.released, NULL);
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->changed, NULL);
	for (size_t i = 0; i < RING; i++)
		pool->ring[i].batch.dirfd = pool->ring[i].batch.file = -1;
	/* Look for one match more than is reported, to know whether the result is complete. */
	if (searcher_init(&pool->searcher, pattern, &pool->budget,
		    pool->max_results + pool->offset + 1, pool->context, &pool->stop) < 0) {
		search_pool_free(pool);
		return NULL;
	}
	return pool;
}

static struct slot *slot_at(struct search_pool *pool, uint64_t number)
{
	return &pool->ring[number % RING];
}

/* Wakes all waiting threads. Call it with the mutex held. */
static void tell_all(struct search_pool *pool)
{
	if (pool->waiting > 0)
		pthread_cond_broadcast(&pool->changed);
}

static void wait_change(struct search_pool *pool)
{
	pool->waiting++;
	pthread_cond_wait(&pool->changed, &pool->mutex);
	pool->waiting--;
}

static int report_hit(struct search_pool *pool, struct batch *batch, const struct batch_hit *hit)
{
	struct files_match match = {
		.line = hit->line,
		.text = {batch->texts + hit->text_at, hit->text_len},
		.cut = hit->cut,
		.context = hit->kind != HIT_MATCH,
	};

	if (hit->kind == HIT_BEFORE && (pool->skip > 0 || pool->end.count == pool->max_results))
		return 0;
	if (hit->kind == HIT_AFTER && !pool->last_is_told)
		return 0;
	if (hit->kind == HIT_MATCH && pool->skip > 0) {
		pool->skip--;
		return 0;
	}
	if (hit->kind == HIT_MATCH && pool->end.count == pool->max_results)
		return SEARCH_POOL_FULL;
	pool->last_is_told = true;
	if (batch_path(batch, hit->file, &match.path) < 0)
		return -ENOMEM;
	if (batch->near) {
		if (near_hits_keep(&pool->near, &match) < 0)
			return -ENOMEM;
	} else if (near_hits_send(&pool->near, pool->reply, &match.path) < 0 ||
		   reply_match(pool->reply, &match) < 0) {
		return SEARCH_POOL_LISTENER_GONE;
	}
	pool->end.count += hit->kind == HIT_MATCH;
	return 0;
}

static void count_files(struct search_pool *pool, const struct batch *batch, size_t files)
{
	for (size_t i = 0; i < files; i++) {
		if (batch->state[i] == FILE_SEARCHED)
			pool->end.files_searched++;
		else
			pool->end.files_skipped++;
		pool->end.files_utf16 += batch->state[i] == FILE_UTF16;
	}
}

/* Reports @batch, or the part of it before the end of the search. */
static int report_batch(struct search_pool *pool, struct batch *batch)
{
	for (size_t i = 0; i < batch->hits_count; i++) {
		int r = report_hit(pool, batch, &batch->hits[i]);

		if (r != 0) {
			count_files(pool, batch, batch->hits[i].file + 1);
			pool->end.files_skipped += batch->unreadable;
			return r;
		}
	}
	count_files(pool, batch, batch->done);
	return batch->result;
}

/* Reports the searched batches whose turn has come. Call it with the mutex held. */
static void report_searched(struct search_pool *pool)
{
	while (pool->end.result == 0 && pool->reported < pool->added) {
		struct slot *slot = slot_at(pool, pool->reported);

		if (!slot->searched)
			return;
		pool->end.result = report_batch(pool, &slot->batch);
		pool->reported++;
	}
	if (pool->end.result != 0)
		pool->stop = true;
}

/*
 * Searches the next batch, if one waits. Call it with the mutex held; it releases the mutex during
 * the search. Returns whether there was a batch.
 */
static bool search_one(struct search_pool *pool, struct searcher *searcher)
{
	struct slot *slot;

	if (pool->stop || pool->taken == pool->added)
		return false;
	slot = slot_at(pool, pool->taken++);
	pthread_mutex_unlock(&pool->mutex);
	searcher_run(searcher, &slot->batch);
	pthread_mutex_lock(&pool->mutex);
	slot->searched = true;
	report_searched(pool);
	tell_all(pool);
	return true;
}

static void *run_thread(void *context)
{
	struct search_pool *pool = context;
	struct searcher searcher;

	if (searcher_init(&searcher, pool->pattern, &pool->budget,
		    pool->max_results + pool->offset + 1, pool->context, &pool->stop) < 0)
		return NULL; /* the search goes on in the other threads */
	pthread_mutex_lock(&pool->mutex);
	while (!pool->stop && (!pool->closed || pool->taken < pool->added))
		if (!search_one(pool, &searcher))
			wait_change(pool);
	pthread_mutex_unlock(&pool->mutex);
	searcher_done(&searcher);
	return NULL;
}

/* Starts one thread for each processor, or as many as possible. */
static void start_threads(struct search_pool *pool)
{
	size_t wanted = 1;
	pthread_attr_t attributes;
	cpu_set_t cpus;

	pool->threads_tried = true;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		wanted = (size_t)CPU_COUNT(&cpus);
	if (wanted > LIMIT_SEARCH_THREADS)
		wanted = LIMIT_SEARCH_THREADS;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	while (pool->threads_count + 1 < wanted &&
		pthread_create(
			&pool->threads[pool->threads_count], &attributes, run_thread, pool) == 0)
		pool->threads_count++;
	pthread_attr_destroy(&attributes);
}

/* Hands the filled batch to the threads. Returns what has ended the search, or 0. */
static int hand_over(struct search_pool *pool)
{
	bool start;
	int r;

	if (!pool->filling)
		return 0;
	pool->filling = NULL;
	pthread_mutex_lock(&pool->mutex);
	slot_at(pool, pool->added++)->searched = false;
	tell_all(pool);
	start = !pool->threads_tried && pool->added - pool->taken >= THREADS_FROM_BATCHES;
	r = pool->end.result;
	pthread_mutex_unlock(&pool->mutex);
	if (start)
		start_threads(pool);
	return r;
}

/*
 * Stores an empty batch in *@ret_batch; the ring must have room. Returns what has ended the search,
 * or 0.
 */
static int next_batch(struct search_pool *pool, struct batch **ret_batch)
{
	struct batch *batch;
	int r;

	pthread_mutex_lock(&pool->mutex);
	while (pool->end.result == 0 && pool->added - pool->reported == RING)
		if (!search_one(pool, &pool->searcher))
			wait_change(pool);
	r = pool->end.result;
	batch = &slot_at(pool, pool->added)->batch;
	pthread_mutex_unlock(&pool->mutex);
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

int search_pool_add(struct search_pool *pool, const struct walk_entry *entry, bool near)
{
	struct text directory = directory_of(entry->path);
	struct batch *batch = pool->filling;
	int r = 0;

	if (batch && (batch->count == BATCH_FILES ||
			     !text_equal(directory, (struct text){batch->path, batch->path_len})))
		r = hand_over(pool);
	if (r == 0 && !pool->filling) {
		r = next_batch(pool, &batch);
		if (r == 0)
			r = batch_begin(batch, entry->dirfd, directory);
		if (r != 0)
			return r;
		batch->unreadable = entry->unreadable;
		batch->near = near;
		pool->filling = batch;
	}
	return r != 0 ? r : batch_add(batch, entry->name);
}

int search_pool_add_single(struct search_pool *pool, int fd, struct text path)
{
	struct batch *batch;
	int r = next_batch(pool, &batch);

	if (r == 0)
		r = batch_single(batch, fd, path);
	if (r == 0)
		pool->filling = batch;
	return r;
}

void search_pool_finish(struct search_pool *pool, struct search_pool_end *ret_end)
{
	(void)hand_over(pool);
	pthread_mutex_lock(&pool->mutex);
	pool->closed = true;
	tell_all(pool);
	while (pool->end.result == 0 && pool->reported < pool->added)
		if (!search_one(pool, &pool->searcher))
			wait_change(pool);
	if ((pool->end.result == 0 || pool->end.result == SEARCH_POOL_FULL) &&
		near_hits_send(&pool->near, pool->reply, NULL) < 0)
		pool->end.result = SEARCH_POOL_LISTENER_GONE;
	*ret_end = pool->end;
	pthread_mutex_unlock(&pool->mutex);
}

void search_pool_free(struct search_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	pool->stop = true;
	pool->closed = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
	for (size_t i = 0; i < pool->threads_count; i++)
		pthread_join(pool->threads[i], NULL);
	for (size_t i = 0; i < RING; i++)
		batch_free(&pool->ring[i].batch);
	searcher_done(&pool->searcher);
	near_hits_done(&pool->near);
	pthread_mutex_destroy(&pool->mutex);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->budget.mutex);
	pthread_cond_destroy(&pool->budget.released);
	free(pool);
}
