/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Merges two layers of a workspace, in the spawner: a child merges them (layer_merge.h) into a
 * directory beside them, as the workspace's id, with idle priority. cloisterd renames the result to
 * use or drop it, so the spawner answers nothing, and a death loses only the work.
 */

#include "worker/spawner/job/job.h"

struct layer_drops;
struct layer_fold;

/* The end of a fold that the spawner has not ended itself: 0 or -errno. The texts are borrowed. */
typedef void (*layer_folded)(
	void *context, const char *tenant, const char *path, int error, uint64_t us);

struct layer_folds {
	int managed;               /* directory of the managed workspaces, or -1 */
	struct layer_drops *drops; /* that clear unfinished merges */
	struct job_queue queue;
	LIST_HEAD(, layer_fold) list; /* all that is in @queue */
	size_t n_ending;              /* layer mergers that were killed */
	layer_folded tell;            /* NULL: nobody is told */
	void *context;
	bool beside; /* another cloisterd uses the state too: nothing is folded */
};

/** Initialises @folds; @managed and @drops are borrowed. */
void layer_folds_init(
	struct layer_folds *folds, struct jobs *jobs, int managed, struct layer_drops *drops);

/**
 * Merges the layers of @path in the directory @tenant of the managed workspaces:
 * ".layers-NAME/5-3-2" stands for "5-3", which lies on "3-2". It will be "folded-5-3-2".
 */
void layer_folds_add(struct layer_folds *folds, const char *tenant, const char *path);

/** Layers were dropped: a merge of them ends before they are cleared. */
void layer_folds_look(struct layer_folds *folds);

/** Whether another cloisterd uses the state too. A running merge is then ended. */
void layer_folds_set_beside(struct layer_folds *folds, bool beside);

/** Gives the ends of folds to @folded. */
void layer_folds_tell(struct layer_folds *folds, layer_folded folded, void *context);
