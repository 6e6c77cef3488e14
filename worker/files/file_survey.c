// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process. The tree is walked once for each depth, until there are
 * enough entries. What a walk finds lies in one array in the order of depth, and for each depth in
 * that of the walk, so a directory's entries stand together. The tenant may change the tree
 * meanwhile: what has lost its directory is not listed.
 */
#include "worker/files/file_survey.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/file_list.h"
#include "worker/files/reply.h"
#include "worker/files/walk/glob.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

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
static int keep(struct survey *survey, const struct walk_entry *entry, const struct found *found)
{
	char target[LIMIT_PATH_BYTES];
	struct found *kept;
	int r = array_reserve(&survey->found, &survey->size, survey->count + 1, sizeof(*found));

	if (r < 0)
		return r;
	kept = &survey->found[survey->count];
	*kept = *found;
	file_list_look(entry, &kept->entry, target);
	kept->path = strndup(entry->path.data, entry->path.len);
	kept->target = strndup(target, kept->entry.target.len);
	survey->count++;
	survey->listed += found->matches;
	return kept->path && kept->target ? 0 : -ENOMEM;
}

static int visit(const struct walk_entry *entry, void *context)
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
	return *inside > survey->max || survey->full ? 0 : keep(survey, entry, &found);
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

int file_survey(const struct walk *walk, int fd, struct glob_set *pattern, size_t base,
	size_t max_entries, struct reply *reply, struct survey_end *ret_end)
{
	_cleanup_(survey_done) struct survey survey = {
		.pattern = pattern, .base = base, .max = max_entries};
	struct survey_end end = {0};
	struct walk part = *walk;
	int r;

	part.visit = visit;
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
