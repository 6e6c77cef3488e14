// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child, the measurer, which executes no program. Names are looked
 * up in cloister's own state directory only; below a template, which a workspace has filled, by the
 * child alone.
 */
#include "worker/spawner/job/template_sizes.h"

#include "common/cleanup.h"
#include "common/layer_stack.h"
#include "worker/spawner/cell/place.h"
#include "worker/tree_size.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct template_measure {
	struct job job; /* first */
	LIST_ENTRY(template_measure) entry;
	int result; /* the pipe to which the measurer writes; -1: it does not run */
	char tenant[NAME_MAX + 1], name[LIMIT_TEMPLATE_TREE_BYTES + 1];
};

struct child {
	struct forked forked; /* its ids are those of the template */
	int tree, result;
};

/* The child. What waits for a disk, or for idle time, does not count. */

static int bound_time(void *context)
{
	static const struct rlimit bound = {LIMIT_MEASURE_CPU_S, LIMIT_MEASURE_CPU_S};

	(void)context;
	return setrlimit(RLIMIT_CPU, &bound) < 0 ? -errno : 0;
}

static const struct setup_step steps[] = {
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
	{"take idle time only", forked_take_idle_time},
	{"bound its time", bound_time},
	{"become the template's id", forked_become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
};

static int measure_template_size(void *context)
{
	static const struct tree_size most = {UINT64_MAX, UINT64_MAX};
	const struct child *child = context;
	struct tree_size size;
	int r = tree_size(child->tree, &most, &size);

	return r == 0 && write(child->result, &size.bytes, sizeof(size.bytes)) < 0 ? -errno : r;
}

static const struct forked_kind measurer = {
	"cloister-sizes", steps, ARRAY_SIZE(steps), measure_template_size};

/* The spawner's side. */

static pid_t start_template_size(struct job *job)
{
	const struct template_sizes *sizes = job->queue->owner;
	struct template_measure *measured = (struct template_measure *)job;
	_cleanup_close_ int tree =
		place_open(sizes->managed, TEMPLATES, measured->tenant, measured->name);
	struct child child = {.forked = {.n_kept = 2, .reads_all = true}, .tree = tree};
	struct stat stat_buf;
	int pair[2];
	pid_t pid;

	if (tree < 0)
		return tree;
	if (fstat(tree, &stat_buf) < 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	child.result = pair[1];
	child.forked.kept[0] = tree;
	child.forked.kept[1] = pair[1];
	child.forked.uid = stat_buf.st_uid;
	child.forked.gid = stat_buf.st_gid;
	pid = forked_start(&measurer, &child.forked);
	close(pair[1]);
	if (pid > 0)
		measured->result = pair[0];
	else
		close(pair[0]);
	return pid;
}

static void drop_template_size(struct template_measure *measured)
{
	close_fd(&measured->result);
	LIST_REMOVE(measured, entry);
	free(measured);
}

static void template_size_ended(struct job *job, int result)
{
	const struct template_sizes *sizes = job->queue->owner;
	struct template_measure *measured = (struct template_measure *)job;
	uint64_t bytes;

	if (result == 0 && read(measured->result, &bytes, sizeof(bytes)) == sizeof(bytes))
		sizes->tell(sizes->context, measured->tenant, measured->name, bytes, job_us(job));
	drop_template_size(measured);
}

static const struct job_kind measuring = {.at_once = 1,
	.of_tenant = 1,
	.late_ms = LIMIT_MEASURE_TREE_MS,
	.start = start_template_size,
	.ended = template_size_ended};

void template_sizes_init(struct template_sizes *sizes, struct jobs *jobs, int managed,
	template_measured tell, void *context)
{
	*sizes = (struct template_sizes){.managed = managed, .tell = tell, .context = context};
	LIST_INIT(&sizes->list);
	job_queue_init(&sizes->queue, jobs, &measuring, sizes);
}

void template_sizes_add(struct template_sizes *sizes, const char *tenant, const char *name)
{
	struct template_measure *measured;

	if (sizes->managed < 0 || !*tenant || strchr(tenant, '/') || strcmp(tenant, "..") == 0 ||
		!is_template_tree(text_from(name)) ||
		job_queue_count(&sizes->queue, tenant) >= LIMIT_TEMPLATES_MEASURED)
		return;
	LIST_FOREACH (measured, &sizes->list, entry)
		if (strcmp(measured->tenant, tenant) == 0 && strcmp(measured->name, name) == 0)
			return;
	/* Without memory or room it is asked for again. */
	measured = calloc(1, sizeof(*measured));
	if (!measured)
		return;
	measured->result = -1;
	snprintf(measured->tenant, sizeof(measured->tenant), "%s", tenant);
	snprintf(measured->name, sizeof(measured->name), "%s", name);
	LIST_INSERT_HEAD(&sizes->list, measured, entry);
	if (job_add(&sizes->queue, &measured->job, tenant) < 0)
		drop_template_size(measured);
}
