// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The processes at the other end of a gate are hostile. */
#include "supervisor/call/keys/key_gate.h"

#include "supervisor/base/shared_fd.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static struct key_gate *gate_of(struct journal_gate *gate)
{
	return (struct key_gate *)(void *)((char *)gate - offsetof(struct key_gate, journal));
}

/* The command goes on: nobody waits for the close. */
static void on_opened(struct journal_gate *journal_gate)
{
	struct key_gate *gate = gate_of(journal_gate);

	shared_fd_charge(gate->shared, journal_gate->cost_ns);
	shared_fd_close(gate->shared, false);
	free(gate);
}

int key_gate_new(
	struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd, struct key_gate **ret)
{
	struct key_gate *gate = calloc(1, sizeof(*gate));
	int r;

	if (!gate) {
		close(fd);
		return -ENOMEM;
	}
	gate->journal = (struct journal_gate){.fd = fd, .opened = on_opened};
	r = shared_fd_new(threads, sum, fd, NULL, NULL, &gate->shared);
	if (r < 0)
		free(gate);
	else
		*ret = gate;
	return r;
}

void key_gate_free(struct key_gate *gate)
{
	if (!gate)
		return;
	shared_fd_close(gate->shared, true);
	free(gate);
}
