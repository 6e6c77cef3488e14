/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The facts about a directory that becomes a workspace. A path resolver (path_resolver.h) finds
 * them out, because each step may wait for a file system that does not answer. Afterwards the
 * spawner uses them without asking a tenant's file system again.
 */

#include "common/directory_parents.h"
#include "common/limits.h"
#include "common/wire/wire_spawner.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define PLACE_TREES 2

struct place {
	int error; /* 0, or the -errno of @step */
	enum looked_up_kind kind;
	char step[LIMIT_NAME_BYTES + 1];
	int root;               /* O_PATH; -1 if it could not be opened */
	int trees[PLACE_TREES]; /* detached clones of the mounts there */
	struct stat stat;
	bool is_local;       /* on a file system without a server, FUSE or network */
	bool may_enter;      /* cloister's own user may enter it, without capabilities */
	char path[PATH_MAX]; /* canonical path */
	/* the directory itself, then those above it; of a file only the latter */
	size_t n_parents;
	struct directory_id parents[LIMIT_ROOT_PARENTS];
};

/** Initialises a place with no facts and no descriptors. */
void place_init(struct place *place);

/** Closes its descriptors. */
void place_done(struct place *place);

/** Whether @place is the directory @id or lies below it. */
bool place_is_in(const struct place *place, struct directory_id id);

/**
 * Whether @place neither lies in the state directory, which has the managed workspaces at @managed
 * (-1: there is none), templates and kept homes, nor contains it.
 */
bool place_is_apart(const struct place *place, int managed);

/**
 * Opens @path from the directory @base without using this process's capabilities: if @below,
 * through nothing that leads out of @base; otherwise as if @base were "/". With @file a regular
 * file will do, whose parents stay unknown. Fills in root, kind and parents, or error.
 */
void place_look_up(struct place *place, int base, const char *path, bool below, bool file);

/**
 * Opens the directory, or with @file the regular file, @checked again in this mount namespace, by
 * its path and without following links, and clones its mounts. Fills in everything, or error.
 * @readonly are paths, one a line, that must exist too.
 */
void place_look_again(struct place *place, int checked, const char *readonly, bool file);

/**
 * Opens the directory @name of @tenant, which is the name of a directory in @managed, or in the
 * directory @beside next to that. Only a descriptor of this mount namespace can be cloned, so it is
 * opened by its path (O_PATH). Returns it or -errno.
 */
int place_open(int managed, const char *beside, const char *tenant, const char *name);
