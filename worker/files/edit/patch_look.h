/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is there at the paths of a patch, for a call that is to find out what has become of an
 * earlier one. Runs in the files process; the tenant may change the files meanwhile.
 */

#include "common/wire/wire_files.h"
#include "worker/files/edit/patch_plan.h"
#include "worker/files/walk/root_open.h"

/* Bytes that a look may read: all files as they were, and all as the patch makes them. */
#define PATCH_LOOK_BYTES (2 * LIMIT_PATCH_BYTES)

/**
 * Writes what is there at the path, or the two paths, of @file, as struct files_patched has it.
 * Takes what it reads from @budget; a file that is larger than what is left of it cannot be
 * compared.
 */
void patch_look(const struct root *root, const struct patch_file *file, size_t *budget,
	char found[FILES_FOUND_BYTES + 1]);
