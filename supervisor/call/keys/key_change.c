// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Versions come from the files process, which is hostile and can only make the
 * outcome of a call on its own workspace wrong, or from the journal.
 */
#include "supervisor/call/keys/key_change.h"

#include <stdbool.h>
#include <stdlib.h>

static char *put_change_text(char *at, struct text text)
{
	if (text.len > 0)
		memcpy(at, text.data, text.len);
	at[text.len] = '\0';
	return at + text.len + 1;
}

struct key_change *key_change_new(struct text before, struct text after)
{
	struct key_change *change = malloc(sizeof(*change) + before.len + after.len + 2);

	if (!change)
		return NULL;
	change->before = change->text;
	change->after = put_change_text(change->text, before);
	put_change_text(change->text + before.len + 1, after);
	return change;
}

static size_t count_versions(const char *versions)
{
	size_t n = 1;

	for (; *versions; versions++)
		n += *versions == ' ';
	return n;
}

struct text key_change_version(const char *versions, size_t index)
{
	struct text all = text_from(versions);

	for (; index > 0 && all.len > 0; index--)
		(void)text_take(&all, ' ');
	return text_take(&all, ' ');
}

/* One that is not known is like no other. */
static bool is_same_version(struct text a, struct text b)
{
	return a.len > 0 && text_equal(a, b);
}

unsigned key_change_compare(const struct key_change *change, const char *found, size_t index)
{
	struct text version = key_change_version(found, index);

	return (is_same_version(version, key_change_version(change->before, index))
			       ? KEY_CHANGE_BEFORE
			       : 0U) |
	       (is_same_version(version, key_change_version(change->after, index))
			       ? KEY_CHANGE_AFTER
			       : 0U);
}

unsigned key_change_compare_all(const struct key_change *change, const char *found)
{
	const size_t n = count_versions(change->after);
	unsigned all = KEY_CHANGE_BEFORE | KEY_CHANGE_AFTER;

	if (count_versions(found) != n)
		return 0;
	for (size_t i = 0; i < n; i++)
		all &= key_change_compare(change, found, i);
	return all;
}
