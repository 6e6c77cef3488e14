// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A mutex guards the sums, because threads add to them. */
#include "supervisor/base/shared_fd_sum.h"

#include "common/wake_cost.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Of one workspace. Its owner has a reference, and each descriptor. */
struct shared_fd_sum {
	unsigned references;
	void (*dear)(void *context); /* NULL: its owner is gone */
	void *context;
	/* under the mutex */
	struct wake_cost_sum cost;
	bool is_dear;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct shared_fd_sum *shared_fd_sum_new(void (*dear)(void *context), void *context)
{
	struct shared_fd_sum *sum = calloc(1, sizeof(*sum));

	if (sum)
		*sum = (struct shared_fd_sum){.references = 1, .dear = dear, .context = context};
	return sum;
}

void shared_fd_sum_free(struct shared_fd_sum *sum)
{
	if (!sum)
		return;
	sum->dear = NULL;
	shared_fd_sum_put(sum);
}

struct shared_fd_sum *shared_fd_sum_hold(struct shared_fd_sum *sum)
{
	if (sum)
		sum->references++;
	return sum;
}

void shared_fd_sum_put(struct shared_fd_sum *sum)
{
	if (sum && --sum->references == 0)
		free(sum);
}

void shared_fd_sum_add(struct wake_cost_sum *of_tenant, struct shared_fd_sum *sum, int64_t ns)
{
	if (!sum || ns == 0)
		return;
	pthread_mutex_lock(&mutex);
	sum->is_dear |= wake_cost_add_both(of_tenant, &sum->cost, ns);
	pthread_mutex_unlock(&mutex);
}

void shared_fd_sum_look(struct shared_fd_sum *sum)
{
	bool dear;

	if (!sum)
		return;
	pthread_mutex_lock(&mutex);
	dear = sum->is_dear;
	sum->is_dear = false;
	if (dear)
		sum->cost = (struct wake_cost_sum){0};
	pthread_mutex_unlock(&mutex);
	if (dear && sum->dear)
		sum->dear(sum->context);
}
