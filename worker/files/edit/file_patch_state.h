/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A patch while it is applied: for file_patch.c, and for file_patch_tell.c, which tells of it. */

#include "worker/files/edit/file_patch.h"
#include "worker/files/edit/patch_plan.h"
#include "worker/files/walk/file_source.h"

#include <sys/stat.h>

struct file_patch {
	const struct root *root;
	uint64_t call;
	bool durable;
	bool look;            /* what is there is told first */
	struct attempt *held; /* ready to be made; NULL: not held */
	size_t size, received;
	char body[];
};

/* A file of the patch on its way. */
struct work {
	const struct patch_file *file;
	struct file_source source; /* update, move, delete: the file as it was read */
	struct stat status;        /* of it */
	struct patch_outcome outcome;
	struct text content;                       /* afterwards; borrowed */
	struct file_write *staged;                 /* add, update, move: the new file */
	struct root_place place;                   /* move, delete: where the old file is */
	uint64_t number;                           /* of its temporary name */
	char temporary[sizeof(".cloister-") + 16]; /* its name after it was taken */
	bool taken;
	int marks; /* holds the mark of that name (dir_marks.h); -1 */
};

struct attempt {
	const struct file_patch *request;
	struct reply *reply;
	struct patch patch;
	struct work works[LIMIT_PATCH_FILES];
	size_t before, after; /* bytes of the files that were read, and that are written */
	size_t n_done;        /* files that have been changed */
	enum tool_error error;
	char sentence[640]; /* of the error, with its file */
};

/**
 * Tells cloisterd what the patch, which is ready, is about to do to each file. Returns 0 or -errno.
 */
int patch_tell_plan(struct attempt *attempt);

/** Tells cloisterd what is at the paths of the patch. Returns 0 or -errno. */
int patch_tell_found(struct attempt *attempt);

/** Tells cloisterd how far the patch has got with file @index. */
void patch_tell_step(struct attempt *attempt, size_t index, enum files_state state);
