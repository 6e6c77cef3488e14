/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Forks that are being made: forks.c makes them. */

#include "common/errors.h"

#include <stdbool.h>
#include <stdint.h>

struct forking;
struct tenant;
struct workspaces;

/* The end of making forks: TOOL_OK, or a code with a sentence (borrowed; may be NULL). */
typedef void (*forks_made)(void *context, enum tool_error error, const char *why);

/** The names of the forks: the @i-th, in @ret (LIMIT_TEMPLATE_NAME_BYTES + 1 bytes). */
void forking_name(const struct forking *forking, uint32_t i, char *ret);

/** The tenant of the forks, and their template. */
struct tenant *forking_tenant(const struct forking *forking);
const char *forking_template(const struct forking *forking);
uint32_t forking_count(const struct forking *forking);

/** How they were made: "overlay", "memory" or "copy". */
const char *forking_by(const struct forking *forking);
/** Why they were copied where they need not have been; NULL: they were not, or always are. */
const char *forking_why_copied(const struct forking *forking);

/**
 * Whether the workspace @name belongs to forks that are being made above their template. It may not
 * be opened or removed until all are made, or none stays.
 */
bool forks_make(const struct workspaces *all, const struct tenant *tenant, const char *name);

/** Whether unfinished forks of the template's @tree exist. */
bool forks_copy(const struct workspaces *all, const struct tenant *tenant, const char *tree);
