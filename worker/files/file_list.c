// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process: list_directory. Every name is looked up in the descriptor of its
 * directory.
 */
#include "worker/files/file_list.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/file_node.h"
#include "worker/files/file_survey.h"
#include "worker/files/walk/glob.h"
#include "worker/files/walk/near_paths.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
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

void file_list_look(const struct walk_entry *visited, struct files_entry *ret,
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
	file_list_look(visited, &entry, target);
	if (reply_entry(listing->reply, &entry) < 0)
		return LISTENER_GONE;
	listing->count++;
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
	char sentence[NEAR_PATHS_SIZE];
	enum tool_error error;
	int r;

	if (listing.max_entries == 0 || listing.max_entries > LIMIT_LIST_ENTRIES)
		listing.max_entries = LIMIT_LIST_ENTRIES;
	error = glob_set_new(request->pattern, &pattern);
	if (error == TOOL_OK)
		error = root_open(
			root, request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd, &path);
	if (error != TOOL_OK) {
		reply_error(reply, error, "%s",
			near_paths_sentence(root, request->path, error, sentence));
		return;
	}
	listing.pattern = pattern;
	walk.path = text_from(path);
	listing.base = text_equal(walk.path, TEXT_LITERAL(".")) ? 0 : walk.path.len;
	if (request->recursive && request->by_depth) {
		r = file_survey(
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
