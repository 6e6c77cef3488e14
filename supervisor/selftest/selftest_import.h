/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The self-test's imports: a template of an archive that the canary workspace has written, as an
 * administrator would import the archive of a stranger. The template is removed at once.
 */

#include "common/errors.h"

struct selftest_import;
struct tenant;
struct workspace;
struct workspaces;

/*
 * The end: @answer is the name of the code; or "OK" and the number of entries of which something
 * was left out.
 */
typedef void (*selftest_imported)(void *context, enum tool_error error, const char *answer);

/**
 * Imports the file @name of @canary, "." for its directory. Calls @imported once, perhaps before it
 * returns. Stores the argument of selftest_import_forget(), or NULL if the import is over.
 */
void selftest_import(struct workspaces *all, struct tenant *tenant, const struct workspace *canary,
	const char *name, selftest_imported imported, void *context, struct selftest_import **ret);

/** @imported is not called any more. NULL is allowed. */
void selftest_import_forget(struct selftest_import *import);
