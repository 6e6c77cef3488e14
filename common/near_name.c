// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd and in the files process; both names are hostile bytes. */
#include "common/near_name.h"

#include "common/limits.h"

#define BEGINNING_MIN 3 /* letters that the common beginning must have */

static char fold_name_char(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c | 0x20);
	return c == '-' || c == ' ' ? '_' : c;
}

static bool folded_equal(struct text a, struct text b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (fold_name_char(a.data[i]) != fold_name_char(b.data[i]))
			return false;
	return true;
}

/* Returns the name without its last dot and what follows; the whole name if nothing would be
 * left. */
static struct text stem(struct text name)
{
	const char *dot = name.len > 0 ? memrchr(name.data, '.', name.len) : NULL;

	return dot && dot > name.data ? (struct text){name.data, (size_t)(dot - name.data)} : name;
}

static bool begins_with(struct text name, struct text beginning)
{
	return beginning.len >= BEGINNING_MIN && name.len > beginning.len &&
	       folded_equal((struct text){name.data, beginning.len}, beginning);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Returns the optimal string alignment distance of two names of at most LIMIT_NEAR_NAME_BYTES. */
static unsigned edits(struct text a, struct text b)
{
	unsigned rows[3][LIMIT_NEAR_NAME_BYTES + 1];

	for (unsigned j = 0; j <= b.len; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= a.len; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];

		row[0] = i;
		for (unsigned j = 1; j <= b.len; j++) {
			char x = fold_name_char(a.data[i - 1]), y = fold_name_char(b.data[j - 1]);

			row[j] = least(before[j - 1] + (x != y), least(before[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == fold_name_char(b.data[j - 2]) &&
				y == fold_name_char(a.data[i - 2]))
				row[j] = least(row[j], earlier[j - 2] + 1);
		}
	}
	return rows[a.len % 3][b.len];
}

unsigned near_name_distance(struct text wanted, struct text there)
{
	size_t longer = wanted.len > there.len ? wanted.len : there.len;
	size_t shorter = wanted.len + there.len - longer;
	unsigned distance;

	if (shorter == 0)
		return NEAR_NAME_FAR;
	if (folded_equal(wanted, there))
		return 0;
	if (folded_equal(stem(wanted), stem(there)))
		return 1;
	if (longer > LIMIT_NEAR_NAME_BYTES || longer - shorter > longer / 3)
		distance = NEAR_NAME_FAR;
	else
		distance = edits(wanted, there);
	if (distance > longer / 3)
		distance = NEAR_NAME_FAR;
	if (distance > 2 && (begins_with(wanted, there) || begins_with(there, wanted)))
		return 2;
	return distance;
}
