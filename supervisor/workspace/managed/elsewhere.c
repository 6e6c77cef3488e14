// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The old daemon says what it uses. */
#include "supervisor/workspace/managed/elsewhere.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#define BUCKETS 1024

struct place {
	LIST_ENTRY(place) entry;
	dev_t dev;
	ino_t ino;
	uid_t uid;
};

struct elsewhere {
	size_t count;
	LIST_HEAD(, place) buckets[BUCKETS];
};

struct elsewhere *elsewhere_new(void)
{
	struct elsewhere *elsewhere = calloc(1, sizeof(*elsewhere));

	for (size_t i = 0; elsewhere && i < BUCKETS; i++)
		LIST_INIT(&elsewhere->buckets[i]);
	return elsewhere;
}

static struct place *find_elsewhere(const struct elsewhere *elsewhere, dev_t dev, ino_t ino)
{
	struct place *place;

	LIST_FOREACH (place, &elsewhere->buckets[ino % BUCKETS], entry)
		if (place->dev == dev && place->ino == ino)
			return place;
	return NULL;
}

static void drop_elsewhere(struct elsewhere *elsewhere, struct place *place)
{
	LIST_REMOVE(place, entry);
	free(place);
	elsewhere->count--;
}

int elsewhere_add(struct elsewhere *elsewhere, dev_t dev, ino_t ino, uid_t uid)
{
	/* Two tenants may use one directory: it is there until both have let go of it. */
	struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return -ENOMEM;
	*place = (struct place){.dev = dev, .ino = ino, .uid = uid};
	LIST_INSERT_HEAD(&elsewhere->buckets[ino % BUCKETS], place, entry);
	elsewhere->count++;
	return 0;
}

void elsewhere_remove(struct elsewhere *elsewhere, dev_t dev, ino_t ino)
{
	struct place *place = find_elsewhere(elsewhere, dev, ino);

	if (place)
		drop_elsewhere(elsewhere, place);
}

void elsewhere_clear(struct elsewhere *elsewhere)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (!LIST_EMPTY(&elsewhere->buckets[i]))
			drop_elsewhere(elsewhere, LIST_FIRST(&elsewhere->buckets[i]));
}

void elsewhere_free(struct elsewhere *elsewhere)
{
	if (!elsewhere)
		return;
	elsewhere_clear(elsewhere);
	free(elsewhere);
}

bool elsewhere_has(const struct elsewhere *elsewhere, dev_t dev, ino_t ino)
{
	return elsewhere && find_elsewhere(elsewhere, dev, ino);
}

bool elsewhere_has_uid(const struct elsewhere *elsewhere, uid_t uid, dev_t dev, ino_t ino)
{
	const struct place *place;

	for (size_t i = 0; elsewhere && i < BUCKETS; i++)
		LIST_FOREACH (place, &elsewhere->buckets[i], entry)
			if (place->uid == uid && (place->dev != dev || place->ino != ino))
				return true;
	return false;
}

size_t elsewhere_count(const struct elsewhere *elsewhere)
{
	return elsewhere ? elsewhere->count : 0;
}
