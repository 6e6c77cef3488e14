// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process. Implements gitignore(5) as git does, including what the manual leaves
 * out: the text of a rule up to its first wildcard is compared literally, and the rest is matched
 * as a pattern of its own.
 */
#include "worker/files/walk/gitignore.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/walk/git_dir.h"
#include "worker/files/walk/git_index.h"
#include "worker/files/walk/glob.h"
#include "worker/files/walk/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

struct rule {
	struct text
		/* text up to the first wildcard; with is_suffix: text after the only one, a `*` */
		literal;
	struct text pattern; /* the rest */
	char first, last;    /* first and last byte of every match; 0: any */
	bool is_suffix;
	bool negated;
	bool directory_only;
	/* compare with the last component at any depth, otherwise with the path below its file */
	bool base_name;
	bool off; /* it does not apply in this walk */
};

/*
 * Which of 64 rules may match a name by its first byte, or by its last: bit 0 is the first rule.
 * Most names are like no rule, and are not compared with any.
 */
#define BLOCK_RULES 64

struct rule_block {
	uint64_t base_first[256]; /* of the last component, for rules with base_name */
	uint64_t path_first[256]; /* of the path, for the others */
	uint64_t last[256];
};

/* Fewer rules are compared one by one. */
#define BLOCKS_FROM_RULES 8

struct rules {
	char *bytes; /* content of the file, to which the rules' texts point */
	struct rule *rule;
	size_t count;
	struct rule_block *blocks; /* NULL: none */
	size_t held;               /* bytes of memory */
};

/* A directory that has rules, a `.git` that was followed, or both. Others have no level. */
struct level {
	size_t path_len;
	struct rules gitignore;
	struct rules exclude; /* .git/info/exclude */
	bool repository;
	bool followed; /* its `.git` is a file or a link */
	int git;       /* its git directory until the index has been opened; or -1 */
	struct git_index *index;
};

struct gitignore {
	const struct root *root;
	struct level *levels;
	size_t count, size;
	size_t repositories, followed; /* levels that are, or have, such */
	size_t held;                   /* bytes of memory of the rules of all levels */
};

struct gitignore *gitignore_new(const struct root *root)
{
	struct gitignore *ignore = calloc(1, sizeof(*ignore));

	if (ignore)
		ignore->root = root;
	return ignore;
}

static void rules_done(struct rules *rules)
{
	free(rules->bytes);
	free(rules->rule);
	free(rules->blocks);
	*rules = (struct rules){0};
}

static void level_done(struct level *level)
{
	rules_done(&level->gitignore);
	rules_done(&level->exclude);
	close_fd(&level->git);
	git_index_free(level->index);
}

void gitignore_free(struct gitignore *ignore)
{
	if (!ignore)
		return;
	while (ignore->count > 0)
		level_done(&ignore->levels[--ignore->count]);
	free(ignore->levels);
	free(ignore);
}

/*
 * Reads the regular file called @name, without its byte order mark, into *@ret_bytes with room for
 * one byte more. Returns 0, with *@ret_bytes NULL if there is no such regular file, or -ENOMEM.
 */
static int read_gitignore_file(int dirfd, const char *name, char **ret_bytes, size_t *ret_len)
{
	int r = small_file_read(dirfd, name, 0, LIMIT_GITIGNORE_BYTES, ret_bytes, ret_len);

	if (r == 0 && *ret_len >= 3 && memcmp(*ret_bytes, "\xef\xbb\xbf", 3) == 0)
		memmove(*ret_bytes, *ret_bytes + 3, *ret_len -= 3);
	return r;
}

/* Removes trailing spaces from @line unless a backslash escapes them. Tabs stay. */
static void trim_spaces(struct text *line)
{
	size_t kept = 0;

	for (size_t i = 0; i < line->len; i++) {
		if (line->data[i] == '\\')
			i++;
		else if (line->data[i] == ' ')
			continue;
		kept = i + 1;
	}
	/* If the last byte is a backslash it escapes nothing, and git removes nothing. */
	if (kept < line->len)
		line->len = kept;
}

static bool is_wildcard(char c)
{
	return c == '*' || c == '?' || c == '[' || c == '\\';
}

/* Returns how much of @pattern precedes its first wildcard. */
static size_t literal_length(struct text pattern)
{
	size_t len = 0;

	while (len < pattern.len && !is_wildcard(pattern.data[len]))
		len++;
	return len;
}

/* Notes the first and last byte of every match of @rule: comparing them rules out most names. */
static void note_ends(struct rule *rule)
{
	struct text pattern = rule->pattern.len > 0 ? rule->pattern : rule->literal;

	if (!rule->is_suffix && rule->literal.len > 0)
		rule->first = rule->literal.data[0];
	/* Only the slash after two stars may match nothing. */
	if (pattern.len > 0 && !memchr("*?]\\/", pattern.data[pattern.len - 1], 5) &&
		(pattern.len < 2 || pattern.data[pattern.len - 2] != '\\') &&
		!memchr(pattern.data, '[', pattern.len))
		rule->last = pattern.data[pattern.len - 1];
}

/* Parses @line. Returns false if it is a comment or empty. */
static bool parse_rule(struct text line, struct rule *ret_rule)
{
	struct rule rule = {0};
	size_t literal;

	if (line.len == 0 || line.data[0] == '#')
		return false;
	if (line.data[line.len - 1] == '\r')
		line.len--;
	line.len = strnlen(line.data, line.len); /* git's strings end at a NUL */
	trim_spaces(&line);
	if (line.len > 0 && line.data[0] == '!') {
		rule.negated = true;
		line = (struct text){line.data + 1, line.len - 1};
	}
	if (line.len > 0 && line.data[line.len - 1] == '/') {
		rule.directory_only = true;
		line.len--;
	}
	if (line.len == 0)
		return false;
	rule.base_name = !memchr(line.data, '/', line.len);
	if (line.data[0] == '/')
		line = (struct text){line.data + 1, line.len - 1};
	literal = literal_length(line);
	rule.literal = (struct text){line.data, literal};
	rule.pattern = (struct text){line.data + literal, line.len - literal};
	/* Most rules are like "*.o". */
	if (rule.base_name && line.len > 0 && line.data[0] == '*') {
		struct text suffix = {line.data + 1, line.len - 1};

		rule.is_suffix = literal_length(suffix) == suffix.len;
		if (rule.is_suffix) {
			rule.literal = suffix;
			rule.pattern = TEXT_LITERAL("");
		}
	}
	note_ends(&rule);
	*ret_rule = rule;
	return true;
}

/* Sets @bit for the byte @c; 0 stands for every byte. */
static void note_byte(uint64_t bytes[256], char c, uint64_t bit)
{
	if (c)
		bytes[(unsigned char)c] |= bit;
	else
		for (size_t i = 0; i < 256; i++)
			bytes[i] |= bit;
}

/* Makes the blocks of many rules, if they fit into @room. Returns 0 or -ENOMEM. */
static int make_blocks(struct rules *rules, size_t room)
{
	size_t count = (rules->count + BLOCK_RULES - 1) / BLOCK_RULES;
	size_t held = count * sizeof(*rules->blocks);

	if (rules->count < BLOCKS_FROM_RULES || rules->held + held > room)
		return 0;
	rules->blocks = calloc(count, sizeof(*rules->blocks));
	if (!rules->blocks)
		return -ENOMEM;
	rules->held += held;
	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->rule[i];
		struct rule_block *block = &rules->blocks[i / BLOCK_RULES];
		uint64_t bit = (uint64_t)1 << i % BLOCK_RULES;

		note_byte(
			rule->base_name ? block->base_first : block->path_first, rule->first, bit);
		note_byte(block->last, rule->last, bit);
	}
	return 0;
}

/*
 * Reads the rules in @name of @dirfd, unless they take more than @room bytes. Returns 0 or -ENOMEM.
 */
static int read_rules(int dirfd, const char *name, size_t room, struct rules *ret_rules)
{
	_cleanup_(rules_done) struct rules rules = {0};
	size_t len = 0, lines = 1;
	int r = read_gitignore_file(dirfd, name, &rules.bytes, &len);

	if (r < 0 || !rules.bytes)
		return r;
	for (size_t i = 0; i < len; i++)
		lines += rules.bytes[i] == '\n';
	rules.held = len + lines * sizeof(*rules.rule);
	if (rules.held > room)
		return 0;
	rules.rule = calloc(lines, sizeof(*rules.rule));
	if (!rules.rule)
		return -ENOMEM;
	for (size_t at = 0; at < len;) {
		const char *line = rules.bytes + at;
		const char *newline = memchr(line, '\n', len - at);
		size_t line_len = newline ? (size_t)(newline - line) : len - at;

		rules.count += parse_rule((struct text){line, line_len}, &rules.rule[rules.count]);
		at += line_len + 1;
	}
	r = make_blocks(&rules, room);
	if (r < 0)
		return r;
	*ret_rules = rules;
	rules = (struct rules){0};
	return 0;
}

/*
 * Stores whether @dirfd at @path is a repository, and if so reads its info/exclude. Each name is
 * looked up in an open directory.
 */
static int read_repository(const struct gitignore *ignore, int dirfd, struct text path, size_t room,
	struct level *level)
{
	struct git_dir found =
		git_dir_find(ignore->root, dirfd, path, ignore->followed < LIMIT_GIT_REPOSITORIES);
	_cleanup_close_ int common = found.common, info = -1;

	level->repository = found.repository;
	level->followed = found.followed;
	level->git = found.own;
	if (level->git < 0)
		return 0;
	info = openat(common < 0 ? level->git : common, "info",
		O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return info < 0 ? 0 : read_rules(info, "exclude", room, &level->exclude);
}

int gitignore_enter(struct gitignore *ignore, int dirfd, struct text path)
{
	_cleanup_(level_done) struct level level = {.path_len = path.len, .git = -1};
	size_t room = LIMIT_GITIGNORE_HELD_BYTES - ignore->held;
	int r;

	r = read_rules(dirfd, ".gitignore", room, &level.gitignore);
	if (r == 0)
		r = read_repository(ignore, dirfd, path, room - level.gitignore.held, &level);
	if (r < 0)
		return r;
	if (level.gitignore.count == 0 && !level.repository && !level.followed)
		return 0;
	if (ignore->count == ignore->size) {
		size_t size = ignore->size ? 2 * ignore->size : 16;
		struct level *levels = reallocarray(ignore->levels, size, sizeof(*levels));

		if (!levels)
			return -ENOMEM;
		ignore->levels = levels;
		ignore->size = size;
	}
	if (level.repository && ++ignore->repositories > LIMIT_GIT_REPOSITORIES)
		close_fd(&level.git);
	ignore->followed += level.followed;
	ignore->held += level.gitignore.held + level.exclude.held;
	ignore->levels[ignore->count++] = level;
	level = (struct level){.git = -1};
	return 0;
}

void gitignore_leave(struct gitignore *ignore, size_t path_len)
{
	struct level *level;

	if (ignore->count == 0 || ignore->levels[ignore->count - 1].path_len != path_len)
		return;
	level = &ignore->levels[--ignore->count];
	ignore->repositories -= level->repository;
	ignore->followed -= level->followed;
	ignore->held -= level->gitignore.held + level->exclude.held;
	level_done(level);
}

int gitignore_enter_above(struct gitignore *ignore, struct text path)
{
	int root_fd = ignore->root->fd;
	_cleanup_close_ int dir = -1;
	size_t at = 0;
	int r;

	if (path.len == 0)
		return 0;
	r = gitignore_enter(ignore, root_fd, TEXT_LITERAL(""));
	while (r == 0 && at < path.len) {
		const char *slash = memchr(path.data + at, '/', path.len - at);
		char name[LIMIT_NAME_BYTES + 1];
		size_t len;
		int next;

		if (!slash)
			return 0;
		len = (size_t)(slash - (path.data + at));
		if (len > LIMIT_NAME_BYTES)
			return 0;
		*(char *)mempcpy(name, path.data + at, len) = '\0';
		next = openat(dir < 0 ? root_fd : dir, name,
			O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close_fd(&dir);
		dir = next;
		if (dir < 0)
			/* it is a link, or was renamed: the rules below here are not read */
			return 0;
		at += len;
		r = gitignore_enter(ignore, dir, (struct text){path.data, at});
		at++;
	}
	return r;
}

static bool rule_matches(const struct rule *rule, struct text name, bool is_directory)
{
	if (rule->off || (rule->directory_only && !is_directory))
		return false;
	if ((rule->first && rule->first != name.data[0]) ||
		(rule->last && rule->last != name.data[name.len - 1]) ||
		name.len < rule->literal.len)
		return false;
	if (rule->is_suffix)
		name = (struct text){name.data + name.len - rule->literal.len, rule->literal.len};
	if (memcmp(name.data, rule->literal.data, rule->literal.len) != 0)
		return false;
	if (rule->is_suffix)
		return true;
	if (rule->pattern.len == 0)
		return name.len == rule->literal.len;
	return glob_match(rule->pattern,
		(struct text){name.data + rule->literal.len, name.len - rule->literal.len});
}

/* Those rules of @block that may match the name, as bits. */
static uint64_t possible_rules(
	const struct rule_block *block, struct text below, struct text base_name)
{
	return (block->base_first[(unsigned char)base_name.data[0]] |
		       block->path_first[(unsigned char)below.data[0]]) &
	       block->last[(unsigned char)base_name.data[base_name.len - 1]];
}

/* Returns the number of the rule before rule @end that may match next, or SIZE_MAX for none. */
static size_t rule_before(
	const struct rules *rules, size_t end, struct text below, struct text base_name)
{
	if (!rules->blocks)
		return end - 1; /* of 0 it is SIZE_MAX */
	while (end > 0) {
		size_t block = (end - 1) / BLOCK_RULES, first = block * BLOCK_RULES;
		uint64_t possible = possible_rules(&rules->blocks[block], below, base_name);

		if (end - first < BLOCK_RULES)
			possible &= ((uint64_t)1 << (end - first)) - 1;
		if (possible)
			return first + 63 - (size_t)__builtin_clzll(possible);
		end = first;
	}
	return SIZE_MAX;
}

/* Returns the verdict of the last matching rule: 1 ignored, 0 not ignored, -1 if none matches. */
static int rules_verdict(
	const struct rules *rules, struct text below, struct text base_name, bool is_directory)
{
	size_t i = rules->count;

	while ((i = rule_before(rules, i, below, base_name)) != SIZE_MAX) {
		const struct rule *rule = &rules->rule[i];

		if (rule_matches(rule, rule->base_name ? base_name : below, is_directory))
			return !rule->negated;
	}
	return -1;
}

/* Returns the part of @path below @level's directory. */
static struct text below_level(const struct level *level, struct text path)
{
	size_t at = level->path_len ? level->path_len + 1 : 0;

	return (struct text){path.data + at, path.len - at};
}

bool gitignore_excludes(const struct gitignore *ignore, struct text path, bool is_directory)
{
	const char *slash = memrchr(path.data, '/', path.len);
	size_t name_at = slash ? (size_t)(slash + 1 - path.data) : 0;
	struct text base_name = {path.data + name_at, path.len - name_at};

	if (text_equal(base_name, TEXT_LITERAL(".git")))
		return true;
	for (size_t i = ignore->count; i-- > 0;) {
		const struct level *level = &ignore->levels[i];
		struct text below = below_level(level, path);
		int verdict = rules_verdict(&level->gitignore, below, base_name, is_directory);

		if (verdict >= 0)
			return verdict;
		if (level->repository) {
			verdict = rules_verdict(&level->exclude, below, base_name, is_directory);
			return verdict > 0;
		}
	}
	return false;
}

/* Whether @rule is @directory with a slash and one or two stars behind it. */
static bool names_content(const struct rule *rule, struct text directory)
{
	return !rule->base_name && !rule->is_suffix && rule->literal.len == directory.len + 1 &&
	       memcmp(rule->literal.data, directory.data, directory.len) == 0 &&
	       rule->literal.data[directory.len] == '/' &&
	       (text_equal(rule->pattern, TEXT_LITERAL("*")) ||
		       text_equal(rule->pattern, TEXT_LITERAL("**")));
}

void gitignore_show(struct gitignore *ignore, struct text path)
{
	if (path.len == 0)
		return;
	for (size_t i = 0; i < ignore->count; i++) {
		struct rules *const files[] = {
			&ignore->levels[i].gitignore, &ignore->levels[i].exclude};
		const struct text below = below_level(&ignore->levels[i], path);

		for (size_t j = 0; j < 2; j++)
			for (size_t k = 0; k < files[j]->count; k++)
				files[j]->rule[k].off = names_content(&files[j]->rule[k], below);
	}
}

static bool is_git_path(struct text path)
{
	return text_equal(path, TEXT_LITERAL(".git")) ||
	       (path.len > 4 && memcmp(path.data + path.len - 5, "/.git", 5) == 0);
}

int gitignore_tracks(struct gitignore *ignore, struct text path)
{
	/* A hostile index may name files in a `.git`, which git never tracks. */
	if (is_git_path(path))
		return 0;
	for (size_t i = ignore->count; i-- > 0;) {
		struct level *level = &ignore->levels[i];
		_cleanup_close_ int git = -1;

		if (!level->repository)
			continue;
		git = TAKE_FD(level->git);
		if (git >= 0 && git_index_open(git, &level->index) < 0)
			return -ENOMEM;
		return level->index ? git_index_tracks(level->index, below_level(level, path)) : 0;
	}
	return 0;
}

bool gitignore_in_repository(const struct gitignore *ignore, size_t path_len)
{
	const struct level *last = ignore->count > 0 ? &ignore->levels[ignore->count - 1] : NULL;

	return last && last->path_len == path_len && last->repository;
}
