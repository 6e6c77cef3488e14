// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process: search_files. The walk adds files to the pool, whose threads
 * search them and report in the walk's order.
 */
#include "worker/files/search/file_search.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/search/pattern_scan.h"
#include "worker/files/search/search_pool.h"
#include "worker/files/walk/glob.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

/* Files of the searched directory, and those in its directories, are searched before all others. */
#define NEAR_DEPTH 2

struct search {
	struct reply *reply;
	struct scan_pattern *pattern;
	struct search_pool *pool;
	struct glob_set *file_pattern;
	size_t base;         /* length of the searched directory's path */
	bool far;            /* there is a directory whose files are not near */
	uint64_t unreadable; /* directories that the walk of the near ones could not read */
};

static void search_done(struct search *search)
{
	if (search->pool)
		search_pool_free(search->pool);
	scan_pattern_free(search->pattern);
	glob_set_free(search->file_pattern);
}

static int visit_entry(const struct walk_entry *entry, void *context)
{
	struct search *search = context;
	struct walk_entry counted = *entry;

	if (entry->type == DT_DIR && entry->depth == NEAR_DEPTH)
		search->far = true;
	if (entry->type != DT_REG ||
		!glob_set_match(search->file_pattern, entry->path, search->base))
		return 0;
	counted.unreadable += search->unreadable;
	return search_pool_add(search->pool, &counted, entry->depth <= NEAR_DEPTH);
}

/* Compiles the patterns of @request. Returns false if the call was answered with an error. */
static bool prepare_search(
	struct search *search, const struct files_search *request, struct reply *reply)
{
	const struct search_wanted wanted = {
		.max_results = request->max_results == 0                  ? LIMIT_SEARCH_RESULTS
			       : request->max_results < LIMIT_SEARCH_MOST ? request->max_results
									  : LIMIT_SEARCH_MOST,
		.offset = request->offset < LIMIT_SEARCH_OFFSET ? request->offset
								: LIMIT_SEARCH_OFFSET,
		.context = request->context < LIMIT_SEARCH_CONTEXT ? request->context
								   : LIMIT_SEARCH_CONTEXT,
	};
	struct scan_error error;
	enum tool_error glob_error = glob_set_new(request->file_pattern, &search->file_pattern);
	int r;

	if (glob_error != TOOL_OK) {
		reply_error(reply, glob_error, "file_pattern: %s", tool_error_sentence(glob_error));
		return false;
	}
	r = scan_pattern_new(request->pattern, &search->pattern, &error);
	if (r == -EINVAL) {
		reply_error(reply, TOOL_INVALID_PATTERN,
			"The pattern is not valid at offset %zu: %s; correct it there",
			error.offset, error.message);
		return false;
	}
	if (r == 0)
		search->pool = search_pool_new(search->pattern, &wanted, reply);
	if (!search->pool) {
		reply_error(reply, TOOL_EXECUTION_ERROR, "Out of memory");
		return false;
	}
	return true;
}

/*
 * Walks the near part of the directory @fd, then the rest. Files near it are more likely to be what
 * is looked for, and when there are more matches than are wanted, the others need not be read.
 */
static int search_directory(
	struct search *search, const struct walk *walk, int fd, struct walk_end *ret_walked)
{
	struct walk part = *walk;
	struct walk_end walked;
	int r;

	part.max_depth = NEAR_DEPTH;
	r = tree_walk(&part, fd, &walked);
	*ret_walked = walked;
	if (r != 0 || !search->far)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	search->unreadable = walked.unreadable;
	part.min_depth = NEAR_DEPTH + 1;
	part.max_depth = 0;
	r = tree_walk(&part, fd, ret_walked);
	ret_walked->unreadable += walked.unreadable;
	ret_walked->ignored += walked.ignored;
	ret_walked->truncated |= walked.truncated;
	return r;
}

/* Searches @fd, a directory or file; the caller gave the path @walk->path. */
static void search_place(struct search *search, const struct walk *walk, int fd, mode_t mode)
{
	struct walk_end walked = {0};
	struct search_pool_end end;
	int r;

	if (S_ISREG(mode)) {
		r = search_pool_add_single(search->pool, fd, walk->path);
	} else {
		search->base = text_equal(walk->path, TEXT_LITERAL(".")) ? 0 : walk->path.len;
		r = search_directory(search, walk, fd, &walked);
	}
	search_pool_finish(search->pool, &end);
	/*
	 * A result from the pool takes precedence over an error of the walk, which is ahead of it.
	 */
	if (end.result != 0)
		r = end.result;
	if (r == SEARCH_POOL_LISTENER_GONE)
		return;
	if (r < 0) {
		if (r == -E2BIG)
			reply_error(search->reply, TOOL_PATTERN_TOO_COMPLEX, NULL);
		else
			reply_error(search->reply, tool_error_from_errno(-r), "%s",
				tool_errno_sentence(-r));
		return;
	}
	reply_end(search->reply,
		&(struct files_end){
			.path = walk->path,
			.truncated = r == SEARCH_POOL_FULL || walked.truncated,
			.count = end.count,
			.files_searched = end.files_searched,
			.ignored = walked.ignored,
			.files_utf16 = end.files_utf16,
			.files_skipped = end.files_skipped + (r == 0 ? walked.unreadable : 0),
		});
}

void file_search(const struct root *root, const struct files_search *request, struct reply *reply)
{
	_cleanup_(search_done) struct search search = {.reply = reply};
	struct walk walk = {
		.root = root,
		.recursive = true,
		.gitignore = request->gitignore,
		.visit = visit_entry,
		.context = &search,
	};
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;
	enum tool_error error;
	struct stat st;

	if (!prepare_search(&search, request, reply))
		return;
	error = root_open(root, request->path, FILE_FLAGS, &fd, &path);
	if (error == TOOL_OK && fstat(fd, &st) < 0)
		error = tool_error_from_errno(errno);
	else if (error == TOOL_OK && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		error = TOOL_NOT_A_REGULAR_FILE;
	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	walk.path = text_from(path);
	search_place(&search, &walk, fd, st.st_mode);
}
