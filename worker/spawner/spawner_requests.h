/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The requests of cloisterd, which the spawner answers, and its orders. */

#include "common/wire/channel.h"
#include "worker/spawner/cell/cell_make.h"
#include "worker/spawner/job/copies.h"
#include "worker/spawner/job/layer_drops.h"
#include "worker/spawner/job/layer_folds.h"
#include "worker/spawner/job/path_resolver.h"
#include "worker/spawner/job/template_memory.h"
#include "worker/spawner/job/template_sizes.h"
#include "worker/spawner/policy.h"
#include "worker/spawner/spawner_setup.h"

/* State that lives as long as the process. */
struct spawner {
	struct channel channel;
	struct jobs jobs;
	struct spawner_setup setup;
	struct cell_cgroups cgroups;
	struct cell_ids ids;
	struct cell_homes homes;
	struct cell_layers layers;
	struct layer_drops drops, template_drops;
	struct layer_folds folds;
	struct template_sizes sizes;
	struct template_memory templates;
	struct copies copies;
	struct cell_privates privates;
	struct cell_spares spares;
	struct cell_starts starts;
	struct path_resolvers resolvers;
	struct policy *policy; /* NULL without a configuration */
	struct cell_maker maker;
};

/** Reports the failure, and ends the spawner and with it all cells. */
_Noreturn void spawner_die(const char *what, int error);

/** Serves what cloisterd has sent. Ends the spawner if cloisterd has ended. */
void spawner_serve_requests(struct spawner *spawner);

/** Takes a report of a files process's start, or ends the start at its deadline. */
void spawner_attend(struct channel *channel, struct cell_start *start);

/**
 * Initialises the reports that cloisterd gets without a request. Call it after layer_folds_init().
 */
void spawner_tell_work(struct spawner *spawner);

/** Finds remains of workspaces and of an earlier spawner; @spared as in layer_drops_find(). */
void spawner_find_left_overs(struct spawner *spawner, const char *spared);

/** Whether another generation of cloisterd uses the state, too. */
void spawner_set_beside(struct spawner *spawner, bool beside);
