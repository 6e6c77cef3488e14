// SPDX-License-Identifier: Apache-2.0
/* Constant data and functions of it; no process's own. */
#include "common/config/disk_classes.h"

#include "common/cleanup.h"
#include "common/config/config_number.h"

#include <stdbool.h>
#include <string.h>

#define WRONG_FORM "a class is NAME:SIZE:FILES:IDS, such as small:4G:400k:22000"

/* Parses a number of files or ids, which may end with k (thousand) or M (million). */
static bool read_count(char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	uint64_t unit = 1;

	if (len > 0 && (text[len - 1] == 'k' || text[len - 1] == 'M')) {
		unit = text[len - 1] == 'k' ? 1000 : 1000000;
		text[len - 1] = '\0';
	}
	if (config_number(CONFIG_NUMBER, text, ret) < 0 || *ret > UINT64_MAX / unit)
		return false;
	*ret *= unit;
	return true;
}

static bool is_name(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);

	return len > 0 && len <= LIMIT_CONFIG_NAME_BYTES && strspn(name, allowed) == len;
}

const char *disk_classes_add(struct disk_classes *classes, const char *word)
{
	_cleanup_free_ char *copy = strdup(word);
	char *rest = copy, *parts[4] = {NULL};
	struct disk_class class = {0};
	uint64_t ids = 0;

	if (!copy)
		return "out of memory";
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i] = strsep(&rest, ":");
	if (!parts[3] || rest || !is_name(parts[0]) ||
		config_number(CONFIG_BYTES, parts[1], &class.bytes) < 0 ||
		!read_count(parts[2], &class.files) || !read_count(parts[3], &ids))
		return WRONG_FORM;
	if (class.bytes < LIMIT_DISK_CLASS_MIN_BYTES || class.bytes > LIMIT_FILE_SIZE_MAX_BYTES)
		return "the size of a class is out of range, which is 1M to 16384G";
	if (class.files < LIMIT_DISK_CLASS_MIN_FILES || class.files > UINT32_MAX)
		return "the number of files of a class is out of range, which is 16 to 4294967295";
	if (ids == 0 || ids > LIMIT_IDS)
		return "the number of ids of a class is out of range, which is 1 to 60000";
	memcpy(class.name, parts[0], strlen(parts[0]) + 1);
	class.ids = (uint32_t)ids;
	for (size_t i = 0; i < classes->count; i++)
		if (strcmp(classes->items[i].name, class.name) == 0)
			return "a class of this name is given twice";
	if (classes->count == ARRAY_SIZE(classes->items))
		return "there are too many classes";
	classes->items[classes->count++] = class;
	return NULL;
}

const char *disk_classes_add_line(struct disk_classes *classes, const char *value)
{
	_cleanup_free_ char *copy = strdup(value);
	const char *word, *why = copy ? NULL : "out of memory";
	char *rest = copy;

	while (!why && (word = strsep(&rest, " \t,")))
		if (*word)
			why = disk_classes_add(classes, word);
	return why;
}

const struct disk_class *disk_classes_find(const struct disk_classes *classes, const char *name)
{
	if (classes->count > 0 && (!name || !*name))
		return &classes->items[0];
	for (size_t i = 0; i < classes->count; i++)
		if (strcmp(classes->items[i].name, name) == 0)
			return &classes->items[i];
	return NULL;
}

uint64_t disk_classes_ids(const struct disk_classes *classes)
{
	uint64_t ids = 0;

	for (size_t i = 0; i < classes->count; i++)
		ids += classes->items[i].ids;
	return ids;
}

struct id_span disk_classes_managed(uint32_t count)
{
	return (struct id_span){count / 2 + 1, count - count / 2};
}

struct id_span disk_classes_span(
	const struct disk_classes *classes, const struct disk_class *class, uint32_t count)
{
	struct id_span all = disk_classes_managed(count);
	uint64_t before = 0, left;

	if (!class)
		return all;
	for (const struct disk_class *item = classes->items; item < class; item++)
		before += item->ids;
	left = before < all.count ? all.count - before : 0;
	return (struct id_span){all.first + (uint32_t)(before < all.count ? before : all.count),
		(uint32_t)(class->ids < left ? class->ids : left)};
}
