// SPDX-License-Identifier: Apache-2.0
/* Runs in a job of the files process. Paths and contents are hostile bytes. git-diff(1). */
#include "worker/files/edit/diff_patch.h"

#include "common/utf8.h"

#include <string.h>
#include <sys/stat.h>

#define NO_FILE TEXT_LITERAL("/dev/null")

/* The modes that git knows. */
static unsigned git_mode(mode_t mode)
{
	if (S_ISLNK(mode))
		return 0120000;
	return mode & S_IXUSR ? 0100755 : 0100644;
}

static bool is_plain_git_path(struct text path)
{
	for (size_t i = 0; i < path.len; i++) {
		unsigned char c = (unsigned char)path.data[i];

		if (c < ' ' || c >= 0x7f || c == '"' || c == '\\')
			return false;
	}
	return true;
}

/* Puts a path as git quotes it: core.quotePath of git-config(1). */
static void put_path(struct diff_text *out, const char *prefix, struct text path)
{
	bool plain = is_plain_git_path(path);

	if (!plain)
		diff_text_put(out, TEXT_LITERAL("\""));
	diff_text_put(out, text_from(prefix));
	for (size_t i = 0; !plain && i < path.len; i++) {
		unsigned char c = (unsigned char)path.data[i];

		if (c == '"' || c == '\\')
			diff_text_format(out, "\\%c", c);
		else if (c < ' ' || c >= 0x7f)
			diff_text_format(out, "\\%03o", c);
		else
			diff_text_put(out, (struct text){&path.data[i], 1});
	}
	diff_text_put(out, plain ? path : TEXT_LITERAL("\""));
}

/* A path with a space is ended by a tab, so that no program takes the rest for a time. */
static void put_patch_name(struct diff_text *out, const char *mark, const char *prefix,
	struct text path, const struct diff_side *side)
{
	diff_text_put(out, text_from(mark));
	if (side->mode == 0)
		diff_text_put(out, NO_FILE);
	else
		put_path(out, prefix, path);
	diff_text_put(
		out, side->mode != 0 && memchr(path.data, ' ', path.len) && is_plain_git_path(path)
			     ? TEXT_LITERAL("\t\n")
			     : TEXT_LITERAL("\n"));
}

static void put_modes(
	struct diff_text *out, const struct diff_side *before, const struct diff_side *after)
{
	if (before->mode == 0)
		diff_text_format(out, "new file mode %06o\n", git_mode(after->mode));
	else if (after->mode == 0)
		diff_text_format(out, "deleted file mode %06o\n", git_mode(before->mode));
	else if (git_mode(before->mode) != git_mode(after->mode))
		diff_text_format(out, "old mode %06o\nnew mode %06o\n", git_mode(before->mode),
			git_mode(after->mode));
}

static bool is_text(const struct diff_side *side)
{
	if (side->mode == 0)
		return true;
	return side->read && !text_has_nul(side->content) && utf8_is_valid(side->content);
}

static bool put_part(struct text path, const struct diff_side *before,
	const struct diff_side *after, struct diff_text *out)
{
	if (!is_text(before) || !is_text(after))
		return false;
	/* git knows no other change of the mode. */
	if (text_equal(before->content, after->content) && before->mode != 0 && after->mode != 0 &&
		git_mode(before->mode) == git_mode(after->mode))
		return false;
	diff_text_put(out, TEXT_LITERAL("diff --git "));
	put_path(out, "a/", path);
	diff_text_put(out, TEXT_LITERAL(" "));
	put_path(out, "b/", path);
	diff_text_put(out, TEXT_LITERAL("\n"));
	put_modes(out, before, after);
	if (text_equal(before->content, after->content))
		return true;
	put_patch_name(out, "--- ", "a/", path, before);
	put_patch_name(out, "+++ ", "b/", path, after);
	line_diff(before->content, after->content, out);
	return true;
}

bool diff_patch(struct text path, const struct diff_side *before, const struct diff_side *after,
	struct diff_text *out)
{
	static const struct diff_side none = {.content = {"", 0}};

	/* A file that becomes a link is deleted and added, as git has it. */
	if (before->mode != 0 && after->mode != 0 &&
		(before->mode & S_IFMT) != (after->mode & S_IFMT))
		return put_part(path, before, &none, out) && put_part(path, &none, after, out);
	return put_part(path, before, after, out);
}
