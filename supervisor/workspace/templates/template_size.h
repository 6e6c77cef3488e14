/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A template's size on disk, which does not change. Names record it: the directory ".size-NAME"
 * beside the template contains an empty directory that is named after the number of bytes.
 * @directory is that of the tenant's templates.
 */

#include <stdint.h>

/** Returns it, or -1: it is not known. */
int64_t template_size(int directory, const char *name);

/** Records it, where nothing is recorded. Returns 0 or -errno. */
int template_size_note(int directory, const char *name, uint64_t bytes);

/** Removes the record. */
void template_size_forget(int directory, const char *name);
