// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child, the measurer, which executes no program. Names are looked
 * up in cloister's own state directory only; below a template, which a workspace has filled, by the
 * child alone.
 */
#include "worker/spawner/template_sizes.h"

#include "common/cleanup.h"
#include "common/layer_stack.h"
#include "worker/setup.h"
#include "worker/spawner/copies.h"
#include "worker/spawner/forked.h"
#include "worker/tree_size.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct template_measure {
	TAILQ_ENTRY(template_measure) entry;
	char tenant[NAME_MAX + 1], name[LIMIT_TEMPLATE_NAME_BYTES + 1];
};

struct child {
	struct forked forked; /* its ids are those of the template */
	int tree, result;
};

void template_sizes_init(
	struct template_sizes *sizes, int managed, template_measured tell, void *context)
{
	*sizes = (struct template_sizes){
		.managed = managed, .result = -1, .tell = tell, .context = context};
	TAILQ_INIT(&sizes->list);
}

/* The child. What waits for a disk, or for idle time, does not count. */

static int bound_time(void *context)
{
	static const struct rlimit bound = {LIMIT_MEASURE_CPU_S, LIMIT_MEASURE_CPU_S};
	static const struct sched_param none;

	(void)context;
	(void)sched_setscheduler(0, SCHED_IDLE, &none);
	return setrlimit(RLIMIT_CPU, &bound) < 0 ? -errno : 0;
}

static const struct setup_step steps[] = {
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
	{"bound its time", bound_time},
	{"become the template's id", forked_become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
};

static _Noreturn void be_measurer(struct child *child)
{
	static const struct tree_size most = {UINT64_MAX, UINT64_MAX};
	struct tree_size size;
	const char *step;
	int r;

	(void)prctl(PR_SET_NAME, "cloister-sizes");
	r = setup_run(steps, ARRAY_SIZE(steps), child, &step);
	if (r == 0)
		r = tree_size(child->tree, &most, &size);
	if (r == 0 && write(child->result, &size.bytes, sizeof(size.bytes)) < 0)
		r = -errno;
	forked_exit(r);
}

/* The spawner's side. */

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int start(struct template_sizes *sizes, const struct template_measure *first)
{
	_cleanup_close_ int tree = template_open(sizes->managed, first->tenant, first->name);
	struct child child = {.forked = {.spawner = getpid(), .n_kept = 2, .reads_all = true}};
	struct stat stat_buf;
	int pair[2], r;
	pid_t pid;

	if (tree < 0)
		return tree;
	if (fstat(tree, &stat_buf) < 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	child.tree = child.forked.kept[0] = tree;
	child.result = child.forked.kept[1] = pair[1];
	child.forked.uid = stat_buf.st_uid;
	child.forked.gid = stat_buf.st_gid;
	pid = fork();
	if (pid == 0)
		be_measurer(&child);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	sizes->measurer = pid;
	sizes->result = pair[0];
	sizes->began_us = now_us();
	return 0;
}

static void drop_first(struct template_sizes *sizes)
{
	struct template_measure *first = TAILQ_FIRST(&sizes->list);

	TAILQ_REMOVE(&sizes->list, first, entry);
	sizes->n--;
	free(first);
}

static void go_on(struct template_sizes *sizes)
{
	while (sizes->measurer == 0 && !TAILQ_EMPTY(&sizes->list))
		if (start(sizes, TAILQ_FIRST(&sizes->list)) < 0)
			drop_first(sizes);
}

void template_sizes_add(struct template_sizes *sizes, const char *tenant, const char *name)
{
	struct template_measure *measure;

	if (sizes->managed < 0 || !*tenant || strchr(tenant, '/') || strcmp(tenant, "..") == 0 ||
		!is_managed_name(text_from(name)) || sizes->n >= LIMIT_TEMPLATES_MEASURED)
		return;
	TAILQ_FOREACH (measure, &sizes->list, entry)
		if (strcmp(measure->tenant, tenant) == 0 && strcmp(measure->name, name) == 0)
			return;
	/* Without memory or room it is asked for again. */
	measure = calloc(1, sizeof(*measure));
	if (!measure)
		return;
	snprintf(measure->tenant, sizeof(measure->tenant), "%s", tenant);
	snprintf(measure->name, sizeof(measure->name), "%s", name);
	TAILQ_INSERT_TAIL(&sizes->list, measure, entry);
	sizes->n++;
	go_on(sizes);
}

void template_sizes_reaped(struct template_sizes *sizes, pid_t pid)
{
	const struct template_measure *first = TAILQ_FIRST(&sizes->list);
	uint64_t bytes;

	if (sizes->measurer == 0 || pid != sizes->measurer)
		return;
	if (read(sizes->result, &bytes, sizeof(bytes)) == sizeof(bytes))
		sizes->tell(sizes->context, first->tenant, first->name, bytes,
			now_us() - sizes->began_us);
	close_fd(&sizes->result);
	sizes->measurer = 0;
	drop_first(sizes);
	go_on(sizes);
}
