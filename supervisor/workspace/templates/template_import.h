/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a template of a directory, an archive or an image layout of the host that an administrator
 * names. A path resolver looks it up; a copier reads the directory, cloister-unpack the others.
 * They have the rights of cloister's own user and no more, and nothing of cloister's own state can
 * be imported.
 */

#include "common/unpack_report.h"
#include "supervisor/base/refusal.h"

struct template_import;
struct tenant;
struct workspaces;

struct template_made {
	bool replaced;                        /* there was one of its name */
	const struct unpack_report *left_out; /* by cloister-unpack; may be NULL */
};

/* The end: TOOL_OK, with @made; or a code with a sentence (borrowed; may be NULL). */
typedef void (*template_imported)(
	void *context, enum tool_error error, const char *why, const struct template_made *made);

/**
 * Begins to make the template @name of @tenant from the files at @path; it may @replace another.
 * Returns TOOL_OK: @imported is called later; or a code with @ret_refusal filled in.
 */
enum tool_error template_import(struct workspaces *all, struct tenant *tenant, struct text name,
	struct text path, bool replace, template_imported imported, void *context,
	struct refusal *ret_refusal);
