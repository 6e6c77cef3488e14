/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of a patch, and one file's hunks applied in memory. Pure functions in the files
 * process; both the file and the patch are hostile.
 *
 * Bytes decide. A hunk's old lines are its lines with a space and with -. A place of the file
 * matches a hunk if the old lines stand there, its anchors stand above it in their order, and the
 * file ends there if the hunk says so. Exactly one place must match; of several, exactly one that
 * is directly below the last anchor. Anchors choose among places and write nothing, so white space
 * at their ends does not count. Hunks are matched against the file as it was read; they may share
 * lines that stay, and may not change the same lines.
 *
 * Whether a file's last line has a newline stays as it is, and where all lines of a file end with
 * CRLF, a hunk without any carriage return matches them and is written with CRLF.
 */

#include "worker/files/edit/patch_explain.h"

#include <stdbool.h>
#include <stdint.h>

/* A file of the patch. Texts and parts are borrowed. */
struct patch_file {
	uint8_t operation; /* enum files_operation */
	struct text path;
	struct text to;                 /* move: the new path */
	struct text lines;              /* add: the content */
	const struct patch_part *parts; /* update: of its hunks */
	size_t n_parts;
};

struct patch {
	struct patch_part *parts;
	size_t n_parts;
	struct patch_file files[LIMIT_PATCH_FILES];
	size_t n_files;
};

/* A file's content after its hunks. */
struct patch_outcome {
	char *content; /* malloc'ed; the caller frees it */
	size_t len;
	uint64_t added, removed; /* lines */
};

/**
 * Reads the encoded parts, which are borrowed. Returns 0 and a patch, to be freed with
 * patch_done(); -EBADMSG for what cloisterd never sends; -ENOMEM.
 */
int patch_read(struct patch *patch, struct text body);
void patch_done(struct patch *patch);

/**
 * Applies the hunks of @file to @original. The new content may have @room bytes. Returns false with
 * @ret_failure if one of them cannot be made.
 */
bool patch_apply(const struct patch_file *file, struct text original, size_t room,
	struct patch_outcome *ret, struct patch_failure *ret_failure);
