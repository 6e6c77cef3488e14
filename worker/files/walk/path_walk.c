// SPDX-License-Identifier: Apache-2.0
#include "worker/files/walk/path_walk.h"

#include "common/cleanup.h"
#include "common/path_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *rest_of(const struct path_walk *walk)
{
	return walk->pending + walk->at;
}

static void pop_directory(struct path_walk *walk)
{
	close_fd(&walk->dirs[walk->depth--]);
	walk->resolved[walk->ends[walk->depth]] = '\0';
}

static enum tool_error append_resolved(struct path_walk *walk)
{
	size_t end = walk->ends[walk->depth];
	size_t name_len = strlen(walk->name);

	if (end + 1 + name_len > LIMIT_PATH_BYTES)
		return TOOL_NAME_TOO_LONG;
	if (end > 0)
		walk->resolved[end++] = '/';
	memcpy(walk->resolved + end, walk->name, name_len + 1);
	return TOOL_OK;
}

static enum tool_error push(struct path_walk *walk, int *fd)
{
	enum tool_error error;

	if (walk->depth == LIMIT_PATH_DEPTH)
		return TOOL_NAME_TOO_LONG;
	error = append_resolved(walk);
	if (error != TOOL_OK)
		return error;
	walk->dirs[++walk->depth] = TAKE_FD(*fd);
	walk->ends[walk->depth] = strlen(walk->resolved);
	return TOOL_OK;
}

/* The path ends at something that is not a directory, or that does not exist (@fd is -1). */
static enum tool_error end_at_leaf(struct path_walk *walk, int *fd, mode_t mode)
{
	enum tool_error error = append_resolved(walk);

	if (error != TOOL_OK)
		return error;
	walk->at_leaf = true;
	walk->leaf = TAKE_FD(*fd);
	walk->mode = mode;
	return TOOL_OK;
}

/* Inserts the target of the link @fd before the rest of the path. */
static enum tool_error follow_link(struct path_walk *walk, int fd)
{
	char target[LIMIT_PATH_BYTES + 1];
	const char *path = target;
	size_t len;
	ssize_t n;

	if (++walk->links > LIMIT_SYMLINKS)
		return TOOL_TOO_MANY_LINKS;
	n = readlinkat(fd, "", target, sizeof(target));
	if (n < 0)
		return tool_error_from_errno(errno);
	if (n == 0)
		return TOOL_NOT_FOUND;
	if ((size_t)n == sizeof(target))
		return TOOL_NAME_TOO_LONG;
	target[n] = '\0';
	if (target[0] == '/') {
		path = path_rules_rebase(walk->visible, target);
		if (!path)
			return TOOL_SYMLINK_OUTSIDE_WORKSPACE;
		while (walk->depth > 0)
			pop_directory(walk);
	}
	len = strlen(path);
	if (len > walk->at)
		return TOOL_NAME_TOO_LONG;
	/* The target may overwrite parts of the argument that have been walked. */
	if (walk->argument_at < walk->at)
		walk->argument_at = walk->at;
	walk->at -= len;
	memcpy(walk->pending + walk->at, path, len);
	return TOOL_OK;
}

/*
 * Whether making a directory before @rest can lead to the requested file. A ".." may lead out of
 * the root after all, and a path that ends in a slash or "." is no file: then no directory must be
 * left behind.
 */
static bool leads_to_a_name(const char *rest)
{
	const char *last = strrchr(rest, '/');

	if (path_rules_has_dotdot(rest))
		return false;
	return last && last[1] != '\0' && strcmp(last, "/.") != 0;
}

/*
 * walk->name does not exist: makes it, if wanted, and opens it. Returns the descriptor or -errno.
 */
static int make_directory(const struct path_walk *walk)
{
	if (!walk->options.made || !leads_to_a_name(rest_of(walk)))
		return -ENOENT;
	return made_dirs_make(walk->options.made, walk->dirs[walk->depth], walk->name);
}

static enum tool_error enter_walk_component(struct path_walk *walk, struct text name)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool last, slash;

	if (name.len > LIMIT_NAME_BYTES)
		return TOOL_NAME_TOO_LONG;
	memcpy(walk->name, name.data, name.len);
	walk->name[name.len] = '\0';
	last = rest_of(walk)[strspn(rest_of(walk), "/")] == '\0';
	slash = *rest_of(walk) == '/';

	fd = openat(walk->dirs[walk->depth], walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && last && walk->options.missing_ok)
		return slash ? TOOL_IS_A_DIRECTORY : end_at_leaf(walk, &fd, 0);
	if (fd < 0) {
		fd = errno == ENOENT ? make_directory(walk) : -errno;
		if (fd < 0)
			return tool_error_from_errno(-fd);
	}
	if (fstat(fd, &st) < 0)
		return tool_error_from_errno(errno);
	if (S_ISDIR(st.st_mode))
		return push(walk, &fd);
	if (S_ISLNK(st.st_mode) && !(walk->options.nofollow && last && !slash))
		return follow_link(walk, fd);
	if (last && !slash)
		return end_at_leaf(walk, &fd, st.st_mode);
	/* As open(2) with O_CREAT, which answers EISDIR for any trailing slash. */
	return last && walk->options.missing_ok ? TOOL_IS_A_DIRECTORY : TOOL_NOT_A_DIRECTORY;
}

/* Returns the next component of the path; empty at its end. */
static struct text next_walk_component(struct path_walk *walk, bool *ret_from_argument)
{
	struct text rest = text_from(rest_of(walk));
	struct text component = path_rules_next(&rest);

	*ret_from_argument = component.data >= walk->pending + walk->argument_at;
	walk->at = (size_t)(rest.data - walk->pending);
	return component;
}

static enum tool_error step_path_walk(
	struct path_walk *walk, struct text component, bool from_argument)
{
	if (text_equal(component, TEXT_LITERAL(".")))
		return TOOL_OK;
	if (!text_equal(component, TEXT_LITERAL("..")))
		return enter_walk_component(walk, component);
	if (walk->depth == 0)
		return from_argument ? TOOL_PATH_OUTSIDE_WORKSPACE : TOOL_SYMLINK_OUTSIDE_WORKSPACE;
	pop_directory(walk);
	return TOOL_OK;
}

enum tool_error path_walk(int root, struct text visible, const char *relative,
	struct path_walk_options options, struct path_walk *walk)
{
	size_t len = strlen(relative);
	enum tool_error error = TOOL_OK;

	walk->visible = visible;
	walk->options = options;
	walk->dirs[0] = root;
	walk->ends[0] = 0;
	walk->depth = 0;
	walk->at_leaf = false;
	walk->leaf = -1;
	walk->mode = 0;
	walk->name[0] = '\0';
	walk->resolved[0] = '\0';
	walk->links = 0;
	if (len > LIMIT_PATH_BYTES)
		return TOOL_NAME_TOO_LONG;
	walk->at = walk->argument_at = PATH_WALK_PENDING - len - 1;
	memcpy(walk->pending + walk->at, relative, len + 1);

	while (error == TOOL_OK && !walk->at_leaf) {
		bool from_argument;
		struct text component = next_walk_component(walk, &from_argument);

		if (component.len == 0)
			break;
		error = step_path_walk(walk, component, from_argument);
	}
	return error;
}

void path_walk_done(struct path_walk *walk)
{
	close_fd(&walk->leaf);
	while (walk->depth > 0)
		pop_directory(walk);
}
