// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: the loop's side. shared_fd_thread.h has what it shares with the threads. */
#include "supervisor/base/shared_fd.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/shared_fd_thread.h"
#include "supervisor/base/thread.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#define TICK_MS     100
#define CLOSE_MS    20
#define CLOSE_BATCH 16 /* descriptors that are closed together, at the latest after CLOSE_MS */
#define IDLE_NS     CLOCK_NS_PER_S /* after which a tenant's threads end */

/* The loop's. What has begun and has not come back, the eldest first. */
static struct shared_list due = TAILQ_HEAD_INITIALIZER(due);
static LIST_HEAD(, shared_fd_threads) tenants = LIST_HEAD_INITIALIZER(tenants);
static struct watch woken;
static struct timer tick;

/* The loop. */

static void set_tick(int64_t ms)
{
	if (!woken.calls)
		return; /* it has been stopped */
	if (!timer_is_set(&tick) || tick.due > clock_now() + ms * CLOCK_NS_PER_MS)
		timer_set(&tick, ms);
}

/* Returns how many threads there are beyond the first of each tenant. */
static unsigned more_threads(void)
{
	struct shared_fd_threads *threads;
	unsigned n = 0;

	LIST_FOREACH (threads, &tenants, link)
		n += threads->n_threads > 0 ? threads->n_threads - 1 : 0;
	return n;
}

/* Starts a thread if there may be one more. Otherwise the next tick tries again. */
static void start_thread(struct shared_fd_threads *threads)
{
	bool may;

	pthread_mutex_lock(&shared_fd_mutex);
	may = threads->n_threads == 0 || (threads->n_threads < LIMIT_SHARED_FD_THREADS &&
						 more_threads() < LIMIT_SHARED_FD_MORE_THREADS);
	threads->n_threads += may;
	threads->end = false;
	pthread_mutex_unlock(&shared_fd_mutex);
	if (!may)
		return;
	if (thread_detached(shared_fd_thread, threads) == 0)
		return;
	pthread_mutex_lock(&shared_fd_mutex);
	threads->n_threads--;
	pthread_mutex_unlock(&shared_fd_mutex);
}

static void wake_thread(struct shared_fd_threads *threads)
{
	if (threads->n_waiting > 0)
		pthread_cond_signal(&threads->work);
}

/* Each thread has a buffer that it reads to, and the loop one besides that it handles. */
static void make_buffer(struct shared_fd_threads *threads)
{
	struct buffer *buffer;

	pthread_mutex_lock(&shared_fd_mutex);
	while (threads->n_buffers < 2 || threads->n_buffers <= threads->n_threads) {
		buffer = malloc(sizeof(*buffer) + SHARED_FD_MOST);
		if (!buffer)
			break;
		threads->n_buffers++;
		SLIST_INSERT_HEAD(&threads->buffers, buffer, link);
	}
	wake_thread(threads);
	pthread_mutex_unlock(&shared_fd_mutex);
}

static void is_due(struct shared_fd *shared)
{
	shared->threads->used = shared->since = clock_now();
	shared->told = false;
	TAILQ_LINK_TAIL(&due, shared, due);
}

/* Has a thread do what @shared says. */
static void begin_shared_write(struct shared_fd *shared)
{
	struct shared_fd_threads *threads = shared->threads;
	bool none, waits;

	is_due(shared);
	pthread_mutex_lock(&shared_fd_mutex);
	none = threads->n_threads == 0;
	threads->end = false;
	shared->state = STATE_QUEUED;
	TAILQ_LINK_TAIL(&threads->queue, shared, link);
	waits = threads->n_waiting > 0;
	pthread_mutex_unlock(&shared_fd_mutex);
	if (waits)
		pthread_cond_signal(&threads->work);
	if (none)
		start_thread(threads);
	set_tick(TICK_MS);
}

static void is_back(struct shared_fd *shared)
{
	TAILQ_UNLINK(&due, shared, due);
	free(TAKE_PTR(shared->written));
}

/* Frees what threads have closed. */
static void free_ended_fds(struct shared_fd_threads *threads)
{
	struct shared_list closed = TAILQ_HEAD_INITIALIZER(closed);
	struct shared_fd *shared;

	pthread_mutex_lock(&shared_fd_mutex);
	TAILQ_CONCAT(&closed, &threads->closed, link);
	pthread_mutex_unlock(&shared_fd_mutex);
	while ((shared = TAILQ_FIRST(&closed))) {
		TAILQ_REMOVE(&closed, shared, link);
		is_back(shared);
		threads->n_closing--;
		threads->n_fds--;
		shared_fd_sum_look(shared->sum);
		shared_fd_sum_put(shared->sum);
		free(shared);
	}
}

static void close_later_ones(struct shared_fd_threads *threads)
{
	struct shared_fd *shared;

	while ((shared = TAILQ_FIRST(&threads->later))) {
		TAILQ_UNLINK(&threads->later, shared, link);
		begin_shared_write(shared);
	}
	threads->n_later = 0;
}

/* Returns true if nothing of the tenant is left here. */
static bool rest_threads(struct shared_fd_threads *threads)
{
	struct buffer *buffer;
	bool idle = threads->gone || !woken.calls || clock_now() - threads->used >= IDLE_NS;
	bool left;

	pthread_mutex_lock(&shared_fd_mutex);
	if (idle && TAILQ_EMPTY(&threads->queue)) {
		threads->end = true;
		pthread_cond_broadcast(&threads->work);
	}
	left = threads->n_threads > 0;
	while (!left && idle && (buffer = SLIST_FIRST(&threads->buffers))) {
		SLIST_REMOVE_HEAD(&threads->buffers, link);
		threads->n_buffers--;
		free(buffer);
	}
	pthread_mutex_unlock(&shared_fd_mutex);
	return !left && threads->n_fds == 0;
}

static void free_threads(struct shared_fd_threads *threads)
{
	pthread_cond_destroy(&threads->work);
	free(threads);
}

/* Starts a thread more for tenants of whom something waits because others have not come back. */
static void replace_threads(void)
{
	struct shared_fd *shared;
	bool waits;

	TAILQ_FOREACH (shared, &due, due) {
		if (shared->since > clock_now() - TICK_MS * CLOCK_NS_PER_MS)
			return;
		pthread_mutex_lock(&shared_fd_mutex);
		waits = shared->state == STATE_QUEUED && shared->threads->n_waiting == 0;
		pthread_mutex_unlock(&shared_fd_mutex);
		if (!waits)
			continue;
		start_thread(shared->threads);
		make_buffer(shared->threads);
	}
}

/* Returns the first that is held for too long, and of which nobody was told. */
static struct shared_fd *first_held(void)
{
	struct shared_fd *shared;

	TAILQ_FOREACH (shared, &due, due) {
		if (shared->since > clock_now() - LIMIT_SHARED_FD_HELD_MS * CLOCK_NS_PER_MS)
			return NULL;
		if (!shared->told)
			return shared;
	}
	return NULL;
}

static void tell_held(void)
{
	struct shared_fd *shared;

	while ((shared = first_held())) {
		shared->told = true;
		if (shared->calls)
			shared->calls->held(shared->context);
	}
}

static void on_tick(void *context)
{
	struct shared_fd_threads *threads, *following;

	(void)context;
	for (threads = LIST_FIRST(&tenants); threads; threads = following) {
		following = LIST_NEXT(threads, link);
		free_ended_fds(threads);
		close_later_ones(threads);
		if (!rest_threads(threads))
			continue;
		LIST_UNLINK(threads, link);
		if (threads->gone)
			free_threads(threads);
	}
	replace_threads();
	tell_held();
	if (!TAILQ_EMPTY(&due))
		set_tick(TICK_MS);
	else if (!LIST_EMPTY(&tenants))
		set_tick(IDLE_NS / CLOCK_NS_PER_MS);
}

/* Takes the first whose owner is to be told. */
static struct shared_fd *take_done(void)
{
	struct shared_fd *shared;
	uint64_t n;

	pthread_mutex_lock(&shared_fd_mutex);
	shared = TAILQ_FIRST(&shared_fds_done);
	if (shared) {
		TAILQ_UNLINK(&shared_fds_done, shared, link);
		shared->state = STATE_IDLE;
	}
	/* Otherwise the loop comes back at once, and handles other events before. */
	if (TAILQ_EMPTY(&shared_fds_done))
		(void)!read(shared_fds_wake_fd, &n, sizeof(n));
	pthread_mutex_unlock(&shared_fd_mutex);
	return shared;
}

static void on_woken(void *context)
{
	struct shared_fd *shared = take_done();

	(void)context;
	if (!shared)
		return;
	is_back(shared);
	shared_fd_sum_look(shared->sum);
	shared->calls->done(shared->context);
}

int shared_fds_start(struct event_base *base)
{
	static const struct watch_calls calls = {{on_woken, NULL}, LOOP_PRIORITY_BULK};
	int r;

	/* It stays open: a thread may come back late. */
	if (shared_fds_wake_fd < 0)
		shared_fds_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (shared_fds_wake_fd < 0)
		return -errno;
	timer_init(&tick, on_tick, NULL);
	r = watch_init(&woken, base, shared_fds_wake_fd, &calls, NULL);
	if (r == 0)
		watch_want(&woken, WATCH_READABLE);
	return r;
}

void shared_fds_stop(void)
{
	struct shared_fd_threads *threads;

	watch_done(&woken);
	timer_cancel(&tick);
	LIST_FOREACH (threads, &tenants, link) {
		close_later_ones(threads);
		rest_threads(threads);
	}
}

bool shared_fds_are_busy(void)
{
	struct shared_fd *shared;
	bool busy = false;

	pthread_mutex_lock(&shared_fd_mutex);
	TAILQ_FOREACH (shared, &due, due)
		busy |= shared->state != STATE_CLOSED;
	pthread_mutex_unlock(&shared_fd_mutex);
	return busy;
}

struct shared_fd_threads *shared_fd_threads_new(void)
{
	struct shared_fd_threads *threads = calloc(1, sizeof(*threads));

	if (!threads)
		return NULL;
	thread_condition_init(&threads->work);
	TAILQ_INIT(&threads->queue);
	TAILQ_INIT(&threads->closed);
	TAILQ_INIT(&threads->later);
	return threads;
}

void shared_fd_threads_free(struct shared_fd_threads *threads)
{
	if (!threads)
		return;
	threads->gone = true;
	if (threads->link.le_prev)
		set_tick(0);
	else
		free_threads(threads);
}

static struct shared_fd *make_shared_fd(
	struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd)
{
	struct shared_fd *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	*shared = (struct shared_fd){.threads = threads, .sum = shared_fd_sum_hold(sum), .fd = fd};
	if (!threads->link.le_prev)
		LIST_LINK_HEAD(&tenants, threads, link);
	threads->n_fds++;
	return shared;
}

int shared_fd_new(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd,
	const struct shared_fd_calls *calls, void *context, struct shared_fd **ret)
{
	struct shared_fd *shared = NULL;
	int r = 0;

	if (threads->n_closing >= LIMIT_SHARED_FDS_CLOSING)
		free_ended_fds(threads);
	if (threads->n_closing >= LIMIT_SHARED_FDS_CLOSING)
		r = -EMFILE;
	else if (!(shared = make_shared_fd(threads, sum, fd)))
		r = -ENOMEM;
	if (r < 0) { /* nobody shares it yet */
		close(fd);
		return r;
	}
	shared->calls = calls;
	shared->context = context;
	*ret = shared;
	return 0;
}

bool shared_fd_is_busy(const struct shared_fd *shared)
{
	return shared->due.tqe_prev != NULL;
}

ssize_t shared_fd_result(const struct shared_fd *shared)
{
	return shared->result;
}

void shared_fd_read(struct shared_fd *shared, size_t max)
{
	assert(!shared_fd_is_busy(shared) && !shared->buffer);
	if (shared->threads->n_buffers < 2)
		make_buffer(shared->threads);
	shared->op = OP_READ;
	shared->len = max < SHARED_FD_MOST ? max : SHARED_FD_MOST;
	begin_shared_write(shared);
}

char *shared_fd_take(struct shared_fd *shared)
{
	return TAKE_PTR(shared->buffer)->data;
}

void shared_fd_give_back(struct shared_fd_threads *threads, char *data)
{
	struct buffer *buffer = (struct buffer *)(void *)(data - offsetof(struct buffer, data));
	bool waits;

	pthread_mutex_lock(&shared_fd_mutex);
	SLIST_INSERT_HEAD(&threads->buffers, buffer, link);
	waits = threads->n_waiting > 0 && !TAILQ_EMPTY(&threads->queue);
	pthread_mutex_unlock(&shared_fd_mutex);
	if (waits)
		pthread_cond_signal(&threads->work);
}

int shared_fd_write(struct shared_fd *shared, struct text text)
{
	assert(!shared_fd_is_busy(shared));
	shared->len = text.len < SHARED_FD_PIPE ? text.len : SHARED_FD_PIPE;
	shared->written = malloc(shared->len > 0 ? shared->len : 1);
	if (!shared->written)
		return -ENOMEM;
	memcpy(shared->written, text.data, shared->len);
	shared->op = OP_WRITE;
	begin_shared_write(shared);
	return 0;
}

size_t shared_fd_pipe_size(const struct shared_fd *shared)
{
	return shared->pipe_size;
}

short shared_fd_poll(const struct shared_fd *shared, short events)
{
	return shared_fd_poll_for(shared, events, 0);
}

void shared_fd_want(struct shared_fd *shared, struct watch *watch, unsigned wanted)
{
	wake_cost_begin();
	watch_want(watch, wanted);
	shared_fd_charge(shared, wake_cost_stop());
}

void shared_fd_sum_charge(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int64_t ns)
{
	if (ns == 0)
		return;
	shared_fd_sum_add(&threads->cost, sum, ns);
	shared_fd_sum_look(sum);
}

void shared_fd_charge(struct shared_fd *shared, int64_t ns)
{
	shared_fd_sum_charge(shared->threads, shared->sum, ns);
}

int shared_fd_number(const struct shared_fd *shared)
{
	return shared->fd;
}

/* Returns true if a thread has it, which will close it. */
static bool take_back(struct shared_fd *shared)
{
	bool running;

	pthread_mutex_lock(&shared_fd_mutex);
	running = shared->closing = shared->state == STATE_RUNNING;
	if (shared->state == STATE_QUEUED)
		TAILQ_UNLINK(&shared->threads->queue, shared, link);
	else if (shared->state == STATE_DONE)
		TAILQ_UNLINK(&shared_fds_done, shared, link);
	if (!running)
		shared_fd_put_buffer(shared);
	pthread_mutex_unlock(&shared_fd_mutex);
	return running;
}

void shared_fd_close(struct shared_fd *shared, bool now)
{
	struct shared_fd_threads *threads;

	if (!shared)
		return;
	threads = shared->threads;
	shared->calls = NULL;
	threads->n_closing++;
	if (take_back(shared))
		return;
	if (shared_fd_is_busy(shared))
		is_back(shared);
	shared->op = OP_CLOSE;
	if (now) {
		begin_shared_write(shared);
		return;
	}
	TAILQ_LINK_TAIL(&threads->later, shared, link);
	set_tick(++threads->n_later < CLOSE_BATCH ? CLOSE_MS : 0);
}

void shared_fd_close_only(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd)
{
	struct shared_fd *shared = make_shared_fd(threads, sum, fd);

	/* Without memory it stays open, because the loop must not wait. */
	shared_fd_close(shared, false);
}
