/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The file of the shipped sets of hosts (egress/sets): @npm, @pypi and others. */

#include "common/egress/rules.h"

/**
 * Writes the file's path: beside the caller's program, as in a build, or where it is installed. It
 * may not exist.
 */
void shipped_sets_path(char *ret, size_t size);

/**
 * Reads the file at @path. Complains about each mistake, with @context. Returns 0, -EINVAL after
 * complaints, or -errno.
 */
int shipped_sets_read(
	const char *path, rules_complain complain, void *context, struct rule_sets *ret);
