/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: what there is to know of a directory that becomes a workspace, found out by a
 * process of its own (looker.h), because any step of it may wait for a file system that does not
 * answer. What the spawner does with a place afterwards asks no file system of a tenant's.
 */

#include "common/directory_parents.h"
#include "common/limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define PLACE_TREES 2

struct place {
	int error; /* 0, or the -errno of @step */
	char step[LIMIT_NAME_BYTES + 1];
	int root;               /* O_PATH; -1: not even that could be opened */
	int trees[PLACE_TREES]; /* detached clones of its mounts */
	struct stat stat;
	bool is_local;       /* on a file system that nobody but the kernel answers for */
	bool may_enter;      /* we may, without capabilities */
	char path[PATH_MAX]; /* canonical */
	size_t n_parents;    /* itself, and what it lies in */
	struct directory_id parents[LIMIT_ROOT_PARENTS];
};

/** Nothing is known and nothing open. */
void place_init(struct place *place);

/** Closes what is open. */
void place_done(struct place *place);

/** Whether @place is the directory @id or lies in it. */
bool place_is_in(const struct place *place, struct directory_id id);

/**
 * Opens @path from the directory @base, without this process's capabilities: by nothing that leads
 * out of @base if @below, else as if @base were "/". Fills root and parents, or error.
 */
void place_look_up(struct place *place, int base, const char *path, bool below);

/**
 * Opens the directory @checked anew in this mount namespace by the path that it has, links refused,
 * and clones its mounts. Fills everything, or error. @readonly are paths, one a line, that must be
 * there too.
 */
void place_look_again(struct place *place, int checked, const char *readonly);
