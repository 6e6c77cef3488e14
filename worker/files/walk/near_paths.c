// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process; see near_paths.h. */
#include "worker/files/walk/near_paths.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/near_name.h"
#include "common/path_rules.h"
#include "common/utf8.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#define NEAR_PATHS 2

/* A path, split at its first component that does not exist. */
struct split {
	struct text there;   /* the existing directory; empty: the root */
	struct text missing; /* the first component that does not exist */
	struct text rest;    /* the rest of the path, with its slash */
};

/* The nearest names in that directory, the nearest first. */
struct near_names {
	unsigned distance[NEAR_PATHS];
	char name[NEAR_PATHS][LIMIT_NAME_BYTES + 1];
};

static bool opens(const struct root *root, struct text path, int flags, int *ret_fd)
{
	return root_open(root, path.len > 0 ? path : TEXT_LITERAL("."), flags, ret_fd, NULL) ==
	       TOOL_OK;
}

static bool path_exists(const struct root *root, struct text path)
{
	_cleanup_close_ int fd = -1;

	return opens(root, path, O_PATH, &fd);
}

/* Finds the first component of @path that does not exist. @path has no "." and no "..". */
static bool find_missing(const struct root *root, struct text path, struct split *ret)
{
	struct split split = {.there = {path.data, 0}, .rest = path};

	for (int depth = 0; depth < LIMIT_PATH_DEPTH; depth++) {
		struct text component = path_rules_next(&split.rest), with;

		if (component.len == 0)
			return false;
		with = (struct text){
			path.data, (size_t)(component.data + component.len - path.data)};
		if (!path_exists(root, with)) {
			split.missing = component;
			*ret = split;
			return true;
		}
		split.there = with;
	}
	return false;
}

static bool is_plain_name(struct text name)
{
	if (!utf8_is_valid(name))
		return false;
	for (size_t i = 0; i < name.len; i++)
		if ((unsigned char)name.data[i] < ' ' || name.data[i] == 0x7f ||
			name.data[i] == '\\' || name.data[i] == '"')
			return false;
	return true;
}

/* Inserts @name by its distance and then by its bytes, so that the order on disk does not
 * matter. */
static void add_near_name(struct near_names *names, unsigned distance, const char *name)
{
	size_t at = NEAR_PATHS;

	while (at > 0 && (distance < names->distance[at - 1] ||
				 (distance == names->distance[at - 1] && distance < NEAR_NAME_FAR &&
					 strcmp(name, names->name[at - 1]) < 0)))
		at--;
	if (at == NEAR_PATHS)
		return;
	for (size_t i = NEAR_PATHS - 1; i > at; i--) {
		names->distance[i] = names->distance[i - 1];
		memcpy(names->name[i], names->name[i - 1], sizeof(names->name[i]));
	}
	names->distance[at] = distance;
	snprintf(names->name[at], sizeof(names->name[at]), "%s", name);
}

static bool is_candidate(const char *name, struct text missing)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !tree_walk_is_temporary(name) &&
	       is_plain_name(text_from(name)) && !text_equal(text_from(name), missing);
}

static void look_at_near_names(
	const struct root *root, const struct split *split, struct near_names *names)
{
	struct dirent *entry;
	DIR *directory;
	int fd;

	if (!opens(root, split->there, O_RDONLY | O_DIRECTORY, &fd))
		return;
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return;
	}
	for (int i = 0; i < LIMIT_NEAR_ENTRIES && (entry = readdir(directory)); i++)
		if (is_candidate(entry->d_name, split->missing))
			add_near_name(names,
				near_name_distance(split->missing, text_from(entry->d_name)),
				entry->d_name);
	closedir(directory);
}

/* Appends `did you mean "PATH"?`, or a second path to it. Returns false if @path does not exist. */
static bool suggest_path(const struct root *root, struct text path, bool first, char *buffer)
{
	size_t len = strlen(buffer);

	if (path.len > LIMIT_NEAR_PATH_BYTES || !is_plain_name(path) || !path_exists(root, path))
		return false;
	if (first)
		snprintf(buffer, NEAR_PATHS_SIZE,
			"No such file or directory; did you mean \"%.*s\"?", (int)path.len,
			path.data);
	else /* before the question mark */
		snprintf(buffer + len - 1, NEAR_PATHS_SIZE - len + 1, " or \"%.*s\"?",
			(int)path.len, path.data);
	return true;
}

static bool suggest_near(const struct root *root, const struct split *split, char *buffer)
{
	struct near_names names = {.distance = {NEAR_NAME_FAR, NEAR_NAME_FAR}};
	char path[LIMIT_NEAR_PATH_BYTES + 2];
	bool found = false;

	look_at_near_names(root, split, &names);
	for (size_t i = 0; i < NEAR_PATHS && names.distance[i] < NEAR_NAME_FAR; i++) {
		int len = snprintf(path, sizeof(path), "%.*s%s%s%.*s", (int)split->there.len,
			split->there.data, split->there.len > 0 ? "/" : "", names.name[i],
			(int)split->rest.len, split->rest.data);

		if (len > 0 && (size_t)len < sizeof(path) &&
			suggest_path(root, text_from(path), !found, buffer))
			found = true;
	}
	return found;
}

/* Suggests the path without the root's own name, with which it begins. Returns false otherwise. */
static bool suggest_inside(const struct root *root, const struct split *split, char *buffer)
{
	struct text visible = root->visible, name, own = {NULL, 0}, rest = split->rest;

	while ((name = path_rules_next(&visible)).len > 0)
		own = name;
	if (split->there.len > 0 || rest.len < 2 || !text_equal(split->missing, own))
		return false;
	return suggest_path(root, (struct text){rest.data + 1, rest.len - 1}, true, buffer);
}

const char *near_paths_sentence(
	const struct root *root, struct text path, enum tool_error error, char *buffer)
{
	_cleanup_free_ char *relative = NULL;
	struct split split;

	buffer[0] = '\0';
	if (error != TOOL_NOT_FOUND ||
		path_rules_check(root->visible, path, true, &relative) != TOOL_OK ||
		path_rules_has_dotdot(relative))
		return path_rules_sentence(error, path);
	path_rules_normalise(relative);
	if (find_missing(root, text_from(relative), &split) &&
		(suggest_inside(root, &split, buffer) || suggest_near(root, &split, buffer)))
		return buffer;
	return path_rules_sentence(error, path);
}
