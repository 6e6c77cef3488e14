/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * A .gitignore of any bytes, compared with a plain version of git's own procedure (gitignore(5)): a
 * rule's text up to its first wildcard is compared literally, the rest is a pattern, and the last
 * matching rule counts.
 *
 * Input: the path up to a newline (a path that ends in a slash is a directory), then the file.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reference_glob.h"
#include "tests/lib/scratch.h"
#include "worker/files/walk/gitignore.h"

static struct scratch scratch;

static void remove_scratch(void)
{
	scratch_done(&scratch);
}

static void set_up(void)
{
	scratch = scratch_new();
	atexit(remove_scratch);
}

static void put_rules(struct text text)
{
	int fd = openat(scratch.fd, ".gitignore", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len);
	close(fd);
}

/* Removes trailing spaces, unless the first of them is escaped. */
static struct text trimmed(struct text line)
{
	size_t first_space = line.len;
	bool run = false;

	for (size_t i = 0; i < line.len; i++) {
		if (line.data[i] == ' ') {
			if (!run)
				first_space = i;
			run = true;
		} else {
			if (line.data[i] == '\\') {
				i++;
				if (i == line.len)
					return line;
			}
			run = false;
		}
	}
	if (run)
		line.len = first_space;
	return line;
}

/* Whether git's procedure matches @pattern, which comes from a line. */
static bool matches(struct text pattern, struct text path, struct text name)
{
	bool whole = memchr(pattern.data, '/', pattern.len) != NULL;
	struct text against = whole ? path : name;
	size_t literal = 0;

	if (pattern.data[0] == '/')
		pattern = (struct text){pattern.data + 1, pattern.len - 1};
	while (literal < pattern.len && !strchr("*?[\\", pattern.data[literal]))
		literal++;
	if (!whole && literal == pattern.len)
		return text_equal(pattern, name);
	/* "*suffix", with nothing special in the suffix */
	if (!whole && pattern.data[0] == '*') {
		struct text suffix = {pattern.data + 1, pattern.len - 1};
		size_t plain = 0;

		while (plain < suffix.len && !strchr("*?[\\", suffix.data[plain]))
			plain++;
		if (plain == suffix.len)
			return suffix.len <= name.len && memcmp(name.data + name.len - suffix.len,
								 suffix.data, suffix.len) == 0;
	}
	if (against.len < literal || memcmp(against.data, pattern.data, literal) != 0)
		return false;
	pattern = (struct text){pattern.data + literal, pattern.len - literal};
	against = (struct text){against.data + literal, against.len - literal};
	return glob_check(pattern) == 0 && reference_match(pattern, against);
}

static bool excluded(struct text rules, struct text path, bool is_directory)
{
	const char *slash = memrchr(path.data, '/', path.len);
	struct text name =
		slash ? (struct text){slash + 1, path.len - (size_t)(slash + 1 - path.data)} : path;
	bool result = false;

	if (rules.len >= 3 && memcmp(rules.data, "\xef\xbb\xbf", 3) == 0)
		rules = (struct text){rules.data + 3, rules.len - 3};
	while (rules.len > 0) {
		struct text line = text_take(&rules, '\n');
		bool negated = false, directory_only = false;

		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (line.len == 0 || line.data[0] == '#')
			continue;
		line = trimmed(line);
		if (line.len > 0 && line.data[0] == '!') {
			negated = true;
			line = (struct text){line.data + 1, line.len - 1};
		}
		if (line.len > 0 && line.data[line.len - 1] == '/') {
			directory_only = true;
			line.len--;
		}
		if (line.len > 0 && (is_directory || !directory_only) && matches(line, path, name))
			result = !negated;
	}
	return result || text_equal(name, TEXT_LITERAL(".git"));
}

static bool is_path(struct text path)
{
	return path.len > 0 && path.data[0] != '/' && path.data[path.len - 1] != '/' &&
	       !memmem(path.data, path.len, "//", 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rules = fuzz_text(data, size), path = text_take(&rules, '\n');
	bool is_directory = path.len > 0 && path.data[path.len - 1] == '/', result;
	struct gitignore *ignore;
	struct text rest = rules;
	bool comparable = true;
	char *copy;

	path.len -= is_directory;
	if (!is_path(path) || rules.len > 4096)
		return -1;
	if (!scratch.path[0])
		set_up();
	put_rules(rules);
	copy = fuzz_copy(path);
	path.data = copy;
	ignore = gitignore_new(
		&(struct root){.fd = scratch.fd, .proc_self_fd = -1, .visible = TEXT_LITERAL("/")});
	CHECK(ignore && gitignore_enter(ignore, scratch.fd, TEXT_LITERAL("")) == 0);
	result = gitignore_excludes(ignore, path, is_directory);
	while (rest.len > 0)
		comparable &= reference_can(text_take(&rest, '\n'), path);
	if (comparable)
		CHECK(result == excluded(rules, path, is_directory));
	gitignore_leave(ignore, 0);
	CHECK(gitignore_excludes(ignore, path, is_directory) ==
		excluded(TEXT_LITERAL(""), path, is_directory));
	gitignore_free(ignore);
	free(copy);
	return 0;
}
