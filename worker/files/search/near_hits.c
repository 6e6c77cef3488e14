// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/near_hits.h"

#include "common/array.h"
#include "common/cleanup.h"

#include <errno.h>

struct near_hit {
	struct files_match match;
	char bytes[]; /* of its path and its text */
};

void near_hits_done(struct near_hits *near)
{
	for (size_t i = 0; i < near->count; i++)
		free(near->hits[i]);
	free(near->hits);
	*near = (struct near_hits){0};
}

int near_hits_keep(struct near_hits *near, const struct files_match *match)
{
	struct near_hit *hit;
	char *at;

	if (array_reserve(&near->hits, &near->size, near->count + 1, sizeof(struct near_hit *)) < 0)
		return -ENOMEM;
	hit = malloc(sizeof(*hit) + match->path.len + match->text.len);
	if (!hit)
		return -ENOMEM;
	hit->match = *match;
	hit->match.path.data = hit->bytes;
	at = mempcpy(hit->bytes, match->path.data, match->path.len);
	hit->match.text.data = at;
	if (match->text.len > 0)
		memcpy(at, match->text.data, match->text.len);
	near->hits[near->count++] = hit;
	return 0;
}

/* Names are compared byte by byte, and a name comes before those that it begins. */
static unsigned char rank(char c)
{
	return c == '/' ? 0 : (unsigned char)c;
}

/* Whether a walk in the order of names comes to the file @a before it comes to the file @b. */
static bool comes_before(struct text a, struct text b)
{
	size_t len = a.len < b.len ? a.len : b.len;

	for (size_t i = 0; i < len; i++)
		if (a.data[i] != b.data[i])
			return rank(a.data[i]) < rank(b.data[i]);
	return a.len < b.len;
}

int near_hits_send(struct near_hits *near, struct reply *reply, const struct text *path)
{
	for (; near->sent < near->count; near->sent++) {
		const struct files_match *match = &near->hits[near->sent]->match;
		int r;

		if (path && !comes_before(match->path, *path))
			break;
		r = reply_match(reply, match);
		if (r < 0)
			return r;
	}
	return 0;
}
