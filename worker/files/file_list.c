// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process: list_directory. Every name is looked up in the descriptor of its
 * directory.
 */
#include "worker/files/file_list.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/file_node.h"
#include "worker/files/walk/glob.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Reasons to end the walk, besides errors. */
enum {
	LISTING_FULL = 1,
	LISTENER_GONE,
};

struct listing {
	struct reply *reply;
	struct glob_set *pattern; /* NULL: every entry matches */
	size_t base;              /* length of the listed directory's path */
	uint64_t max_entries;
	uint64_t count;
};

static uint8_t files_type(unsigned char type)
{
	switch (type) {
	case DT_REG:
		return FILES_TYPE_FILE;
	case DT_DIR:
		return FILES_TYPE_DIRECTORY;
	case DT_LNK:
		return FILES_TYPE_SYMLINK;
	case DT_FIFO:
		return FILES_TYPE_FIFO;
	case DT_SOCK:
		return FILES_TYPE_SOCKET;
	case DT_CHR:
		return FILES_TYPE_CHARACTER_DEVICE;
	case DT_BLK:
		return FILES_TYPE_BLOCK_DEVICE;
	default:
		return FILES_TYPE_UNKNOWN;
	}
}

static void look_at_entry(const struct walk_entry *visited, struct files_entry *ret,
	char target[static LIMIT_PATH_BYTES])
{
	struct files_entry entry = {.path = visited->path, .type = files_type(visited->type)};
	struct stat st;

	/*
	 * An entry that was removed meanwhile, or whose directory has no search permission, is
	 * reported with its name and type only.
	 */
	if (fstatat(visited->dirfd, visited->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		entry.type = files_type((unsigned char)IFTODT(st.st_mode));
		entry.size = (uint64_t)st.st_size;
		entry.mtime_ns = file_node_mtime_ns(&st);
	}
	if (entry.type == FILES_TYPE_SYMLINK) {
		ssize_t len = readlinkat(visited->dirfd, visited->name, target, LIMIT_PATH_BYTES);

		if (len > 0)
			entry.target = (struct text){target, (size_t)len};
	}
	*ret = entry;
}

static int list_entry(const struct walk_entry *visited, void *context)
{
	struct listing *listing = context;
	char target[LIMIT_PATH_BYTES];
	struct files_entry entry;

	if (!glob_set_match(listing->pattern, visited->path, listing->base))
		return 0;
	if (listing->count == listing->max_entries)
		return LISTING_FULL;
	look_at_entry(visited, &entry, target);
	if (reply_entry(listing->reply, &entry) < 0)
		return LISTENER_GONE;
	listing->count++;
	return 0;
}

struct survey_end {
	struct walk_end walked;
	uint64_t count; /* entries sent */
	bool gone;      /* nobody reads them */
};

struct found {
	struct files_entry entry;
	char *path, *target; /* of the entry; path NULL: it was collapsed away */
	size_t parent;       /* its directory; of the first depth SIZE_MAX */
	uint64_t inside;     /* entries of it that match, kept or not */
	bool directory;
	bool matches;
	bool collapsed;
};

struct survey {
	struct glob_set *pattern;
	size_t base, max;
	struct found *found;
	size_t count, size;
	size_t above, level; /* where the entries of the last depth, and of this one, begin */
	size_t parent;       /* of the last entry */
	uint64_t inside;     /* entries of the first depth that match */
	size_t listed;       /* entries that are to be sent */
	bool full;           /* a depth has more than are kept */
};

static void survey_done(struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++) {
		free(survey->found[i].path);
		free(survey->found[i].target);
	}
	free(survey->found);
}

static bool is_listed(const struct found *found)
{
	return found->path && (found->matches || found->collapsed);
}

static bool is_in(struct text path, const struct found *directory)
{
	const size_t len = directory->path ? strlen(directory->path) : SIZE_MAX;

	return len < path.len && path.data[len] == '/' &&
	       memcmp(path.data, directory->path, len) == 0 &&
	       !memchr(path.data + len + 1, '/', path.len - len - 1);
}

/* Finds the directory of @path among the entries of the last depth, which come in this order. */
static bool find_parent(struct survey *survey, struct text path)
{
	if (survey->level == 0) {
		survey->parent = SIZE_MAX;
		return true;
	}
	while (survey->parent < survey->level && !is_in(path, &survey->found[survey->parent]))
		survey->parent++;
	return survey->parent < survey->level && !survey->found[survey->parent].collapsed;
}

/* Keeps @entry. */
static int keep_listed_entry(
	struct survey *survey, const struct walk_entry *entry, const struct found *found)
{
	char target[LIMIT_PATH_BYTES];
	struct found *kept;
	int r = array_reserve(&survey->found, &survey->size, survey->count + 1, sizeof(*found));

	if (r < 0)
		return r;
	kept = &survey->found[survey->count];
	*kept = *found;
	look_at_entry(entry, &kept->entry, target);
	kept->path = strndup(entry->path.data, entry->path.len);
	kept->target = strndup(target, kept->entry.target.len);
	survey->count++;
	survey->listed += found->matches;
	return kept->path && kept->target ? 0 : -ENOMEM;
}

static int visit_listed(const struct walk_entry *entry, void *context)
{
	struct survey *survey = context;
	const size_t before = survey->parent;
	struct found found = {.directory = entry->type == DT_DIR,
		.matches = glob_set_match(survey->pattern, entry->path, survey->base)};
	uint64_t *inside = &survey->inside;

	if (!found.directory && !found.matches)
		return 0;
	if (!find_parent(survey, entry->path)) {
		survey->parent = before; /* this one has no place, the next one may */
		return 0;
	}
	found.parent = survey->parent;
	if (found.parent != SIZE_MAX)
		inside = &survey->found[found.parent].inside;
	*inside += found.matches;
	/* If a directory has more than are shown, it is collapsed. */
	survey->full |= survey->count - survey->level >= LIMIT_LIST_ENTRIES;
	return *inside > survey->max || survey->full ? 0 : keep_listed_entry(survey, entry, &found);
}

/* Takes what is in found[@index] out of the list, and lists it with their number. */
static void collapse(struct survey *survey, size_t index)
{
	struct found *directory = &survey->found[index];

	survey->listed += !is_listed(directory);
	directory->collapsed = true;
	for (size_t i = survey->level; i < survey->count; i++) {
		struct found *found = &survey->found[i];

		if (found->parent != index)
			continue;
		survey->listed -= is_listed(found);
		free(TAKE_PTR(found->path));
	}
}

/* Collapses the largest directories of the last depth while too much would be listed. */
static void collapse_largest(struct survey *survey)
{
	while (survey->listed > survey->max) {
		size_t largest = survey->above;

		for (size_t i = survey->above; i < survey->level; i++)
			if (!survey->found[i].collapsed &&
				(survey->found[largest].collapsed ||
					survey->found[i].inside > survey->found[largest].inside))
				largest = i;
		if (largest >= survey->level || survey->found[largest].collapsed ||
			survey->found[largest].inside <= LIMIT_SURVEY_SMALL)
			break;
		collapse(survey, largest);
	}
}

/* Sends what is listed, up to the maximum. Returns 0, or 1 if there was more. */
static int send_listed(struct survey *survey, struct reply *reply, struct survey_end *end)
{
	for (size_t i = 0; i < survey->count; i++) {
		struct found *found = &survey->found[i];

		if (!is_listed(found))
			continue;
		if (end->count == survey->max)
			return 1;
		found->entry.path = text_from(found->path);
		found->entry.target = text_from(found->target);
		found->entry.left_out = found->collapsed ? found->inside : 0;
		if (reply_entry(reply, &found->entry) < 0) {
			end->gone = true;
			return 0;
		}
		end->count++;
	}
	return 0;
}

/*
 * Sends at most @max_entries entries below the directory @fd that match @pattern, whose paths are
 * matched behind their first @base bytes. @walk is a walk of it without a visitor. Returns 0 or
 * -errno.
 */
static int list_by_depth(const struct walk *walk, int fd, struct glob_set *pattern, size_t base,
	size_t max_entries, struct reply *reply, struct survey_end *ret_end)
{
	_cleanup_(survey_done) struct survey survey = {
		.pattern = pattern, .base = base, .max = max_entries};
	struct survey_end end = {0};
	struct walk part = *walk;
	int r;

	part.visit = visit_listed;
	part.context = &survey;
	for (size_t depth = 1; depth <= LIMIT_SURVEY_DEPTH; depth++) {
		struct walk_end walked;

		survey.above = survey.parent = survey.level;
		survey.level = survey.count;
		part.min_depth = part.max_depth = depth;
		if (depth > 1 && lseek(fd, 0, SEEK_SET) < 0)
			return -errno;
		r = tree_walk(&part, fd, &walked);
		end.walked.ignored += walked.ignored;
		end.walked.truncated |= walked.truncated;
		if (r < 0)
			return r;
		collapse_largest(&survey);
		if (survey.count == survey.level)
			break;
		end.walked.truncated |=
			survey.full || survey.inside > survey.max || depth == LIMIT_SURVEY_DEPTH;
		if (survey.listed > survey.max)
			break;
	}
	r = send_listed(&survey, reply, &end);
	end.walked.truncated |= r > 0;
	*ret_end = end;
	return 0;
}

static void free_glob_set(struct glob_set **set)
{
	glob_set_free(*set);
}

void file_list(const struct root *root, const struct files_list *request, struct reply *reply)
{
	_cleanup_(free_glob_set) struct glob_set *pattern = NULL;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;
	struct listing listing = {.reply = reply, .max_entries = request->max_entries};
	struct walk walk = {
		.root = root,
		.recursive = request->recursive,
		.gitignore = request->gitignore,
		.visit = list_entry,
		.context = &listing,
	};
	struct survey_end survey = {0};
	struct walk_end end;
	enum tool_error error;
	int r;

	if (listing.max_entries == 0 || listing.max_entries > LIMIT_LIST_ENTRIES)
		listing.max_entries = LIMIT_LIST_ENTRIES;
	error = glob_set_new(request->pattern, &pattern);
	if (error == TOOL_OK)
		error = root_open(
			root, request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd, &path);
	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	listing.pattern = pattern;
	walk.path = text_from(path);
	listing.base = text_equal(walk.path, TEXT_LITERAL(".")) ? 0 : walk.path.len;
	if (request->recursive && request->by_depth) {
		r = list_by_depth(
			&walk, fd, pattern, listing.base, listing.max_entries, reply, &survey);
		end = survey.walked;
		listing.count = survey.count;
		r = r == 0 && survey.gone ? LISTENER_GONE : r;
	} else {
		r = tree_walk(&walk, fd, &end);
	}
	if (r == LISTENER_GONE)
		return;
	if (r < 0) {
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
		return;
	}
	reply_end(reply, &(struct files_end){
				 .path = walk.path,
				 .truncated = r == LISTING_FULL || end.truncated,
				 .count = listing.count,
				 .ignored = end.ignored,
			 });
}
