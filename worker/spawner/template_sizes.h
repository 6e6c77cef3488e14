/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What templates take on disk, in the spawner: a child, the measurer, adds up one after the other,
 * with idle priority. What could not be measured is not told.
 */

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct template_measure;

/* The texts are borrowed. */
typedef void (*template_measured)(
	void *context, const char *tenant, const char *name, uint64_t bytes, uint64_t us);

struct template_sizes {
	int managed;                         /* directory of the managed workspaces, or -1 */
	TAILQ_HEAD(, template_measure) list; /* @measurer works on the first, unless it is 0 */
	size_t n;
	pid_t measurer;
	int result;        /* the pipe to which it writes */
	uint64_t began_us; /* by the monotonic clock */
	template_measured tell;
	void *context;
};

/** Initialises @sizes, which give what was measured to @tell; @managed is borrowed. */
void template_sizes_init(
	struct template_sizes *sizes, int managed, template_measured tell, void *context);

/** Measures the template @name in the directory @tenant of the templates. */
void template_sizes_add(struct template_sizes *sizes, const char *tenant, const char *name);

/** @pid has been reaped. */
void template_sizes_reaped(struct template_sizes *sizes, pid_t pid);
