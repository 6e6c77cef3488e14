/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the present versions of a patch's files, for a call that must find out whether an earlier
 * call made its change. Runs in the files process; the tenant may change the files meanwhile.
 */

#include "common/wire/wire_files.h"
#include "worker/files/edit/patch_plan.h"
#include "worker/files/walk/root_open.h"

/* Bytes that a look may read: all files as they were, and all as the patch makes them. */
#define PATCH_LOOK_BYTES (2 * LIMIT_PATCH_BYTES)

/**
 * Writes the versions at the path, or at both paths, of @file, in the form of struct files_patched.
 * Subtracts the bytes that it reads from @budget. A file that is larger than the rest of @budget
 * has no version.
 */
void patch_look(const struct root *root, const struct patch_file *file, size_t *budget,
	char found[FILES_FOUND_BYTES + 1]);
