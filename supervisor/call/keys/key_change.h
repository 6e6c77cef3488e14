/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal's record of the changes of a call with a key: the versions of its files before and
 * after it, in the order of the call, separated by spaces. A version is a digest of the content,
 * "absent", or empty if it is not known; that of a file that is moved is that of the path before, a
 * slash, and that of the path after.
 */

#include "common/text.h"

struct key_change {
	const char *before, *after; /* in text */
	char text[];
};

/* The state of a file in comparison with a change. A change may leave a file as it was. */
enum { KEY_CHANGE_BEFORE = 1, KEY_CHANGE_AFTER = 2 };

/** Returns a change, to be freed with free(), or NULL: no memory. */
struct key_change *key_change_new(struct text before, struct text after);

/**
 * Compares file @index of @found, which has the form of a change's versions, with @change. Returns
 * which of its versions it has, or 0 if it has neither.
 */
unsigned key_change_compare(const struct key_change *change, const char *found, size_t index);

/** Returns which versions of @change all files of @found have, or 0. */
unsigned key_change_compare_all(const struct key_change *change, const char *found);

/** Returns the version of file @index of @versions; empty if there is none. Borrowed. */
struct text key_change_version(const char *versions, size_t index);
