// SPDX-License-Identifier: Apache-2.0
#include "common/path_rules.h"

#include "common/cleanup.h"
#include "common/limits.h"

#define DOT    TEXT_LITERAL(".")
#define DOTDOT TEXT_LITERAL("..")

struct text path_rules_next(struct text *rest)
{
	struct text component;

	while (rest->len > 0 && rest->data[0] == '/') {
		rest->data++;
		rest->len--;
	}
	component = (struct text){rest->data, 0};
	while (component.len < rest->len && component.data[component.len] != '/')
		component.len++;
	rest->data += component.len;
	rest->len -= component.len;
	return component;
}

/* Like path_rules_next(), but skips ".". */
static struct text next_name(struct text *rest)
{
	struct text component;

	do
		component = path_rules_next(rest);
	while (text_equal(component, DOT));
	return component;
}

const char *path_rules_rebase(struct text visible_root, const char *path)
{
	struct text rest = text_from(path);

	for (;;) {
		struct text wanted = next_name(&visible_root);

		if (wanted.len == 0)
			break;
		if (!text_equal(wanted, next_name(&rest)))
			return NULL;
	}
	while (*rest.data == '/')
		rest.data++;
	return rest.data;
}

bool path_rules_climbs(const char *relative)
{
	struct text rest = text_from(relative);
	size_t depth = 0;

	for (;;) {
		struct text component = next_name(&rest);

		if (component.len == 0)
			return false;
		if (!text_equal(component, DOTDOT))
			depth++;
		else if (depth-- == 0)
			return true;
	}
}

bool path_rules_has_dotdot(const char *path)
{
	struct text rest = text_from(path), component;

	do {
		component = path_rules_next(&rest);
		if (text_equal(component, DOTDOT))
			return true;
	} while (component.len > 0);
	return false;
}

void path_rules_normalise(char *path)
{
	struct text rest = text_from(path);
	size_t len = 0;

	for (;;) {
		struct text component = next_name(&rest);

		if (component.len == 0)
			break;
		if (len > 0)
			path[len++] = '/';
		memmove(path + len, component.data, component.len);
		len += component.len;
	}
	if (len == 0)
		path[len++] = '.';
	path[len] = '\0';
}

static bool has_drive_letter(const char *path)
{
	char letter = (char)(path[0] | 0x20);

	return letter >= 'a' && letter <= 'z' && path[1] == ':';
}

static bool has_long_name(const char *path)
{
	struct text rest = text_from(path), component;

	do
		component = path_rules_next(&rest);
	while (component.len > 0 && component.len <= LIMIT_NAME_BYTES);
	return component.len > 0;
}

static void normalise_backslashes(char *path)
{
	for (; *path; path++)
		if (*path == '\\')
			*path = '/';
}

enum tool_error path_rules_check(
	struct text visible_root, struct text path, bool raw, char **ret_relative)
{
	_cleanup_free_ char *copy = NULL;
	const char *relative;
	struct text rest;

	if (path.len == 0 || text_has_nul(path))
		return TOOL_INVALID_ARGUMENTS;
	if (path.len > LIMIT_PATH_BYTES)
		return TOOL_NAME_TOO_LONG;
	copy = malloc(path.len + 2); /* room for "." and its NUL even if @path is only slashes */
	if (!copy)
		return TOOL_EXECUTION_ERROR;
	memcpy(copy, path.data, path.len);
	copy[path.len] = '\0';
	if (!raw) {
		normalise_backslashes(copy);
		if (has_drive_letter(copy))
			return TOOL_PATH_OUTSIDE_WORKSPACE;
	}
	relative = copy[0] == '/' ? path_rules_rebase(visible_root, copy) : copy;
	if (!relative)
		return TOOL_PATH_OUTSIDE_WORKSPACE;
	rest = text_from(relative);
	if (text_equal(next_name(&rest), DOTDOT))
		return TOOL_PATH_OUTSIDE_WORKSPACE;
	if (has_long_name(relative))
		return TOOL_NAME_TOO_LONG;

	if (*relative == '\0')
		relative = ".";
	memmove(copy, relative, strlen(relative) + 1);
	*ret_relative = TAKE_PTR(copy);
	return TOOL_OK;
}

const char *path_rules_sentence(enum tool_error error, struct text path)
{
	if (error == TOOL_INVALID_ARGUMENTS && path.len == 0)
		return "The path is empty; use \".\" for the workspace's root";
	if (error == TOOL_INVALID_ARGUMENTS && text_has_nul(path))
		return "The path holds a NUL byte";
	return tool_error_sentence(error);
}
