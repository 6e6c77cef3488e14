/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The disk classes of a configuration, for cloisterd, the spawner and cloister-quota, which must
 * agree on them. Each class has a part of the ids for managed workspaces, in the order of the
 * configuration, so that the owner of a directory is the only record of its class. A tenant without
 * disk_class has the first one.
 */

#include "common/limits.h"

#include <stddef.h>
#include <stdint.h>

struct disk_class {
	char name[LIMIT_CONFIG_NAME_BYTES + 1];
	uint64_t bytes, files; /* that a workspace may have */
	uint32_t ids;          /* how many workspaces there may be */
};

struct disk_classes {
	struct disk_class items[LIMIT_DISK_CLASSES];
	size_t count;
};

/* Some of the ids that are mapped from 1 in the spawner's user namespace. */
struct id_span {
	uint32_t first, count;
};

/**
 * Appends the class that @word describes, NAME:BYTES:FILES:IDS. Returns NULL, or why that cannot
 * be (static storage).
 */
const char *disk_classes_add(struct disk_classes *classes, const char *word);

/** Likewise for each word of the line @value, which blanks or commas separate. */
const char *disk_classes_add_line(struct disk_classes *classes, const char *value);

/** Returns the class @name; NULL or "": the first one. NULL: there is none. */
const struct disk_class *disk_classes_find(const struct disk_classes *classes, const char *name);

/** Returns how many ids all classes take. */
uint64_t disk_classes_ids(const struct disk_classes *classes);

/** Returns the ids for managed workspaces, the upper half of a range of @count ids. */
struct id_span disk_classes_managed(uint32_t count);

/**
 * Returns the ids of @class, which is one of @classes, in a range of @count ids. Fewer than
 * it has, or none, if the range is too small. With NULL all ids for managed workspaces.
 */
struct id_span disk_classes_span(
	const struct disk_classes *classes, const struct disk_class *class, uint32_t count);
