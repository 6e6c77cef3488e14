/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Forks: managed workspaces that begin with a template's files. In user mode they all have one id,
 * and a fork is an empty workspace whose layers lie above the template: it takes the same short
 * time however large that is. In system mode each fork has another id, and the template's files
 * must belong to it. Where the configuration has template_memory, the spawner shows each fork a
 * template in memory as its own; otherwise, or if memory is short, it copies the files. In all
 * three ways a fork gets its name when it is complete.
 */

#include "common/layer_stack.h"
#include "supervisor/base/refusal.h"

#include <stdint.h>

struct forking;
struct properties;
struct tenant;
struct workspaces;

/* The end of making forks: TOOL_OK, or a code with a sentence (borrowed; may be NULL). */
typedef void (*forks_made)(void *context, enum tool_error error, const char *why);

struct forks_wanted {
	struct text template, prefix; /* without a prefix, the template's name is it */
	uint32_t count;
	bool as_root;                  /* each is a whole root, which commands see as "/" */
	const struct properties *with; /* that each of them keeps; NULL: none */
};

/**
 * Begins to make the forks @wanted of a template of the tenant's, whose names are the prefix, "-"
 * and a number. Returns TOOL_OK: @made is called later, unless forking_free() is called before; or
 * a code with @ret_refusal filled in. If one cannot be made, none stays.
 */
enum tool_error forks_begin(struct workspaces *all, struct tenant *tenant,
	const struct forks_wanted *wanted, forks_made made, void *context, struct forking **ret,
	struct refusal *ret_refusal);

/** The names of the forks: the @i-th, in @ret (LIMIT_TEMPLATE_NAME_BYTES + 1 bytes). */
void forking_name(const struct forking *forking, uint32_t i, char *ret);

/** The tenant of the forks, and their template. */
struct tenant *forking_tenant(const struct forking *forking);
const char *forking_template(const struct forking *forking);
uint32_t forking_count(const struct forking *forking);

/** How they were made: "overlay", "memory" or "copy". */
const char *forking_by(const struct forking *forking);
/**
 * Why they were copied although this host can make forks without copies; NULL: they were not
 * copied, or must always be.
 */
const char *forking_why_copied(const struct forking *forking);

/** Ends it, and clears forks that have no name yet. NULL is allowed. */
void forking_free(struct forking *forking);

/**
 * Whether the workspace @name belongs to forks that are being made above their template. It may not
 * be opened or removed until all are made, or none stays.
 */
bool forks_make(const struct workspaces *all, const struct tenant *tenant, const char *name);

/** At the end of the service: removes the forks of incomplete requests. */
void forks_stop(struct workspaces *all);

/** Whether the unfinished forks are copies, which may take long, and have their ids. */
bool forks_are_copied(const struct workspaces *all);

/** Whether unfinished forks of the template exist. */
bool forks_copy(const struct workspaces *all, const struct tenant *tenant, const char *template);
