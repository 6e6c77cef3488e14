/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sizes of templates on disk, in the spawner. A child, the measurer, adds up one template of a
 * tenant after the other, with idle priority. Templates that could not be measured are not
 * reported.
 */

#include "worker/spawner/job/job.h"

struct template_measure;

/* The texts are borrowed. */
typedef void (*template_measured)(
	void *context, const char *tenant, const char *name, uint64_t bytes, uint64_t us);

struct template_sizes {
	int managed; /* directory of the managed workspaces, or -1 */
	struct job_queue queue;
	LIST_HEAD(, template_measure) list; /* all that is in @queue */
	template_measured tell;
	void *context;
};

/** Initialises @sizes, which report results to @tell; @managed is borrowed. */
void template_sizes_init(struct template_sizes *sizes, struct jobs *jobs, int managed,
	template_measured tell, void *context);

/** Measures the template @name in the directory @tenant of the templates. */
void template_sizes_add(struct template_sizes *sizes, const char *tenant, const char *name);
