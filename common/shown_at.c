// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd and the spawner. The path is hostile. Looks up no name. */
#include "common/shown_at.h"

#include "common/cleanup.h"
#include "common/limits.h"

static bool is_name(struct text name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	for (size_t i = 0; i < name.len; i++)
		if (name.data[i] == '\0' || !strchr(allowed, name.data[i]))
			return false;
	return name.len > 0 && !text_equal(name, TEXT_LITERAL(".")) &&
	       !text_equal(name, TEXT_LITERAL(".."));
}

static bool shown_at_or_below(struct text path, struct text directory)
{
	return path.len >= directory.len && memcmp(path.data, directory.data, directory.len) == 0 &&
	       (path.len == directory.len || path.data[directory.len] == '/');
}

static bool is_taken(struct text path)
{
	static const char *const taken[] = {"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32",
		"/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var",
		"/home/agent"};

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (shown_at_or_below(path, text_from(taken[i])))
			return true;
	return false;
}

bool shown_at_is_valid(struct text path)
{
	struct text left = path;

	if (path.len < 2 || path.len > LIMIT_SHOWN_AT_BYTES || path.data[0] != '/' ||
		path.data[path.len - 1] == '/')
		return false;
	left.data++;
	left.len--;
	while (left.len > 0)
		if (!is_name(text_take(&left, '/')))
			return false;
	return !is_taken(path);
}
