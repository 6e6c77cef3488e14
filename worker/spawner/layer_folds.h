/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Two layers of a workspace are made one, in the spawner: a child merges them (layer_merge.h) into
 * a directory beside them, as the workspace's id, with idle priority. cloisterd puts that in force,
 * or has it dropped, by its name alone; so nothing is answered, and a death costs the work only.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct layer_drops;
struct layer_fold;

/* The end of a fold that the spawner has not ended itself: 0 or -errno. The texts are borrowed. */
typedef void (*layer_folded)(
	void *context, const char *tenant, const char *path, int error, uint64_t us);

struct layer_folds {
	int managed;                   /* directory of the managed workspaces, or -1 */
	struct layer_drops *drops;     /* that clear what was not finished */
	TAILQ_HEAD(, layer_fold) list; /* @merger works on @folded, unless it is 0 */
	struct layer_fold *folded;
	pid_t merger;
	bool ended;        /* it was told to */
	uint64_t round;    /* of the one that was begun last */
	uint64_t began_us; /* when the merger was started, by the monotonic clock */
	layer_folded tell; /* NULL: nobody is told */
	void *context;
	bool beside; /* another cloisterd uses the state too: nothing is folded */
};

/** Initialises @folds; @managed and @drops are borrowed. */
void layer_folds_init(struct layer_folds *folds, int managed, struct layer_drops *drops);

/**
 * The layers of @path, in the directory @tenant of the managed workspaces, are to be made one:
 * ".layers-NAME/5-3-2" are "5-3", which lies on "3-2". It will be "folded-5-3-2".
 */
void layer_folds_add(struct layer_folds *folds, const char *tenant, const char *path);

/** Layers were dropped: if they are being folded, that ends before they are cleared. */
void layer_folds_look(struct layer_folds *folds);

/** Whether another cloisterd uses the state too. Then what goes on is given up. */
void layer_folds_set_beside(struct layer_folds *folds, bool beside);

/** Gives the ends of folds to @folded. */
void layer_folds_tell(struct layer_folds *folds, layer_folded folded, void *context);

/** @pid has been reaped, with @status. */
void layer_folds_reaped(struct layer_folds *folds, pid_t pid, int status);
