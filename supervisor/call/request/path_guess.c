// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A model wrote the path, and it is hostile. */
#include "supervisor/call/request/path_guess.h"

#include "common/limits.h"
#include "common/path_rules.h"
#include "common/utf8.h"
#include "supervisor/call/request/notes.h"

static bool is_one_of(struct text name, const char *words)
{
	struct text rest = text_from(words);

	while (rest.len > 0)
		if (text_equal(text_take(&rest, ' '), name))
			return true;
	return false;
}

static struct text last_name(struct text path)
{
	struct text last = {NULL, 0}, name;

	while ((name = path_rules_next(&path)).len > 0)
		last = name;
	return last;
}

/* Returns what follows the component @name of @path; data is NULL if it has none. */
static struct text after(struct text path, struct text name)
{
	struct text component;

	while ((component = path_rules_next(&path)).len > 0)
		if (text_equal(component, name))
			return path;
	return (struct text){NULL, 0};
}

static bool is_plain(struct text path)
{
	if (path.len > LIMIT_NEAR_PATH_BYTES || !utf8_is_valid(path))
		return false;
	for (size_t i = 0; i < path.len; i++)
		if ((unsigned char)path.data[i] < ' ' || path.data[i] == '"' ||
			path.data[i] == 0x7f)
			return false;
	return true;
}

/* Returns the part of @path that is probably below the root; data is NULL if there is none. */
static struct text below_root(struct text visible_root, struct text path)
{
	static const char placeholders[] =
		"workspace workspaces repo repository project app code sandbox testbed";
	static const char system[] =
		"bin boot dev etc home lib lib32 lib64 media mnt opt proc root run sbin srv sys "
		"tmp usr var Users Windows Library Applications private Program";
	struct text own = last_name(visible_root), rest = path, first, found;

	found = own.len > 0 ? after(path, own) : (struct text){NULL, 0};
	if (found.data)
		return found;
	first = path_rules_next(&rest);
	if (is_one_of(first, placeholders))
		return rest;
	return is_one_of(first, system) ? (struct text){NULL, 0} : path;
}

/* Writes @path with slashes, without a drive letter and without ".." at its beginning. */
static struct text cleaned(struct text path, char *copy)
{
	struct text rest, before;

	if (path.len >= 2 && path.data[1] == ':')
		path = (struct text){path.data + 2, path.len - 2};
	for (size_t i = 0; i < path.len; i++)
		copy[i] = (char)(path.data[i] == '\\' ? '/' : path.data[i]);
	rest = (struct text){copy, path.len};
	do
		before = rest;
	while (text_equal(path_rules_next(&rest), TEXT_LITERAL("..")));
	return before;
}

void path_guess_note(struct text visible_root, struct text path, struct notes *notes)
{
	char copy[LIMIT_NEAR_PATH_BYTES], guess[LIMIT_NEAR_PATH_BYTES + 2] = "";
	struct text below = {NULL, 0};

	if (is_plain(path))
		below = below_root(visible_root, cleaned(path, copy));
	if (below.data) {
		memcpy(guess, below.data, below.len);
		guess[below.len] = '\0';
		path_rules_normalise(guess);
		while (guess[0] == '/')
			memmove(guess, guess + 1, strlen(guess));
	}
	if (below.data && !path_rules_has_dotdot(guess))
		notes_add(notes,
			"The workspace's root is \"%.*s\", and paths are relative to it; "
			"did you mean \"%s\"?",
			(int)visible_root.len, visible_root.data, guess);
	else
		notes_add(notes, "The workspace's root is \"%.*s\"; give a path relative to it",
			(int)visible_root.len, visible_root.data);
}
