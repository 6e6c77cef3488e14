// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/pipe_stock.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>

#define PIPES_AHEAD 8 /* pipes made before there is a command */

struct pipe_stock {
	struct event *refill;
	int ready[PIPES_AHEAD][2];
	size_t n_ready;
};

static int make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	return 0;
}

static void make_ahead(struct pipe_stock *stock)
{
	while (stock->n_ready < PIPES_AHEAD && make_pipe(stock->ready[stock->n_ready]) == 0)
		stock->n_ready++;
}

/* Runs after all events that were active when it was activated. */
static void on_refill(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	make_ahead(context);
}

struct pipe_stock *pipe_stock_new(struct event_base *base)
{
	struct pipe_stock *stock = calloc(1, sizeof(*stock));

	if (!stock)
		return NULL;
	stock->refill = event_new(base, -1, 0, on_refill, stock);
	if (!stock->refill) {
		free(stock);
		return NULL;
	}
	make_ahead(stock);
	return stock;
}

int pipe_stock_take(struct pipe_stock *stock, int *ret_read_end, int *ret_write_end)
{
	int ends[2], r;

	event_active(stock->refill, EV_TIMEOUT, 0);
	if (stock->n_ready > 0) {
		stock->n_ready--;
		*ret_read_end = stock->ready[stock->n_ready][0];
		*ret_write_end = stock->ready[stock->n_ready][1];
		return 0;
	}
	r = make_pipe(ends);
	if (r < 0)
		return r;
	*ret_read_end = ends[0];
	*ret_write_end = ends[1];
	return 0;
}

void pipe_stock_free(struct pipe_stock *stock)
{
	if (!stock)
		return;
	while (stock->n_ready > 0) {
		stock->n_ready--;
		close(stock->ready[stock->n_ready][0]);
		close(stock->ready[stock->n_ready][1]);
	}
	event_free(stock->refill);
	free(stock);
}
