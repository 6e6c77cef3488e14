// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client, on input from a hostile workspace, with the caller's full rights. symlink(7),
 * path_resolution(7).
 */
#include "client/transfer/tree_extract.h"

#include "client/cmd/command.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMED_MAX  100  /* skipped entries that are named: a workspace must not fill the terminal */
#define HOLE_BYTES 4096 /* a run of so many zeros is written as a hole */
#define NUMBERS    32   /* random numbers that are asked for at once */

/* A directory on the way to the current entry, inside the one before it. */
struct level {
	char *name;
	int fd;
	mode_t mode; /* mode to set when it is left */
	bool restores, has_time;
	struct timespec mtime;
};

struct tree_extract {
	struct tree_extract_limits limits;
	struct tree_extract_result result;
	/* directories that were announced, or had to be made */
	uint64_t entries, bytes;
	/* the first is the root, whose mode is not changed */
	struct level levels[LIMIT_TREE_DEPTH + 1];
	size_t depth;  /* index of the last one */
	bool skipping; /* the current entry is skipped */
	bool passes_over;
	int fd; /* the current file, or -1 */
	uint64_t
		numbers[NUMBERS]; /* for names of temporary files, the first n_numbers are unused */
	size_t n_numbers;
	char temporary[48];
	char name[NAME_MAX + 1];
	struct tar_entry entry; /* of the current file */
	uint64_t offset;
	uint64_t length; /* of the file, without a hole at its end */
	int error;       /* of writing the file */
};

static void leave_level(struct level *level)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, level->mtime};

	/* A failure to set a mode or time must not cost the files. */
	if (level->restores)
		(void)fchmod(level->fd, level->mode);
	if (level->has_time)
		(void)futimens(level->fd, times);
	close_fd(&level->fd);
	free(TAKE_PTR(level->name));
	level->restores = level->has_time = false;
}

static void leave_to(struct tree_extract *tree, size_t depth)
{
	while (tree->depth > depth)
		leave_level(&tree->levels[tree->depth--]);
}

int tree_extract_new(const char *directory, const struct tree_extract_limits *limits,
	struct tree_extract **ret_tree)
{
	struct tree_extract *tree;
	int fd;

	if (mkdir(directory, 0777) < 0 && errno != EEXIST) {
		complain("%s: %s", directory, strerror(errno));
		return -errno;
	}
	fd = open(
		directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (limits->no_link ? O_NOFOLLOW : 0));
	if (fd < 0) {
		int error = errno;

		complain("%s: %s%s", directory, strerror(error),
			limits->no_link ? "; name the directory to copy to: cloister get PATH DIR"
					: "");
		return -error;
	}
	tree = calloc(1, sizeof(*tree));
	if (!tree) {
		close(fd);
		complain("out of memory");
		return -ENOMEM;
	}
	tree->limits = *limits;
	tree->levels[0].fd = fd;
	tree->fd = -1;
	*ret_tree = tree;
	return 0;
}

void tree_extract_pass_over(struct tree_extract *tree)
{
	tree->passes_over = true;
}

/* Prints the current entry and why it is skipped or changed. */
static void leave_out(struct tree_extract *tree, const char *path, const char *why)
{
	_cleanup_free_ char *shown = terminal_text(path);

	if (tree->result.left_out < NAMED_MAX)
		complain("%s: %s", shown ? shown : "?", why);
	else if (tree->result.left_out == NAMED_MAX)
		complain("further files are left out and only counted");
	tree->result.left_out++;
	tree->skipping = true;
}

/* Whether the error would occur for the next entry too. */
static bool is_fatal(int error)
{
	return error == -ENOSPC || error == -EDQUOT || error == -EROFS || error == -EIO ||
	       error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* Handles @error: skips the entry, or ends the extraction. */
static int fail_extract(struct tree_extract *tree, const char *path, int error)
{
	leave_out(tree, path,
		error == -ELOOP || error == -ENOTDIR
			? "a file or a symbolic link is in the place of its directory; left out"
			: strerror(-error));
	return is_fatal(error) ? error : 0;
}

static int open_extract_directory(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Counts one more file, directory or link. Returns 0, or -EFBIG past the limit. */
static int count_one(struct tree_extract *tree)
{
	if (tree->entries < tree->limits.files) {
		tree->entries++;
		return 0;
	}
	complain("there are more than %" PRIu64 " files; raise the limit with --max-files",
		tree->limits.files);
	return -EFBIG;
}

/*
 * How to treat a missing directory: fail, make it, or make it and count it because no entry has
 * announced it.
 */
enum missing { MISSING_FAILS, MISSING_IS_MADE, MISSING_IS_COUNTED };

/* Makes the directory @name, which did not exist a moment ago. */
static int make_missing(struct tree_extract *tree, const char *name, enum missing missing)
{
	int r = missing == MISSING_IS_COUNTED ? count_one(tree) : 0;

	if (r == 0 && mkdirat(tree->levels[tree->depth].fd, name, 0777) < 0 && errno != EEXIST)
		r = -errno;
	return r;
}

/* Enters the directory @name. Returns 0 or -errno. */
static int enter_extracted(struct tree_extract *tree, const char *name, enum missing missing)
{
	struct level *level = &tree->levels[tree->depth + 1];
	int parent = tree->levels[tree->depth].fd;
	struct stat status;

	if (tree->depth == LIMIT_TREE_DEPTH)
		return -ENAMETOOLONG;
	*level = (struct level){.fd = open_extract_directory(parent, name)};
	if (level->fd == -ENOENT && missing != MISSING_FAILS) {
		int r = make_missing(tree, name, missing);

		level->fd = r < 0 ? r : open_extract_directory(parent, name);
	}
	if (level->fd < 0)
		return level->fd;
	level->name = strdup(name);
	if (!level->name || fstat(level->fd, &status) < 0) {
		close_fd(&level->fd);
		free(TAKE_PTR(level->name));
		return -ENOMEM;
	}
	/* An earlier run has left it without the owner's permissions, as the archive wanted it. */
	if (missing != MISSING_FAILS && (status.st_mode & 0700) != 0700 &&
		fchmod(level->fd, (status.st_mode & 0777) | 0700) == 0) {
		level->mode = status.st_mode & 0777;
		level->restores = true;
	}
	tree->depth++;
	return 0;
}

static bool is_below(const char *name, size_t len)
{
	return len <= NAME_MAX && !(len == 2 && name[0] == '.' && name[1] == '.');
}

/*
 * Goes to the parent directory of @path and stores its last component, "" for the root itself.
 * @missing says how to treat missing directories. Returns 0; -EXDEV if the path leaves the root;
 * -EFBIG after a complaint if there are too many; or another -errno.
 */
static int go_to(struct tree_extract *tree, const char *path, enum missing missing,
	char ret_name[NAME_MAX + 1])
{
	size_t depth = 0;
	char name[NAME_MAX + 1] = "";
	int r;

	if (path[0] == '/' || path[0] == '\0')
		return -EXDEV;
	for (;;) {
		size_t len = strcspn(path, "/");

		if (!is_below(path, len))
			return len > NAME_MAX ? -ENAMETOOLONG : -EXDEV;
		if (len > 0 && !(len == 1 && path[0] == '.')) {
			/* Another component follows, so the previous one is a directory. */
			if (name[0] != '\0') {
				if (depth < tree->depth &&
					strcmp(tree->levels[depth + 1].name, name) != 0)
					leave_to(tree, depth);
				r = depth < tree->depth ? 0 : enter_extracted(tree, name, missing);
				if (r < 0)
					return r;
				depth++;
			}
			memcpy(name, path, len);
			name[len] = '\0';
		}
		path += len;
		if (*path == '\0')
			break;
		path++;
	}
	leave_to(tree, depth);
	memcpy(ret_name, name, sizeof(name));
	return 0;
}

static int parent_fd(const struct tree_extract *tree)
{
	return tree->levels[tree->depth].fd;
}

static int make_directory(struct tree_extract *tree, const struct tar_entry *entry)
{
	struct level *level;
	int r;

	/* The workspace must not set the mode of the caller's own directory. */
	if (tree->name[0] == '\0')
		return 0;
	r = enter_extracted(tree, tree->name, MISSING_IS_MADE);
	if (r < 0)
		return r;
	level = &tree->levels[tree->depth];
	level->mode = entry->mode & 0777;
	level->mtime = entry->mtime;
	level->restores = level->has_time = true;
	/* Keep it writable for us until we leave it. */
	return fchmod(level->fd, level->mode | 0700) < 0 ? -errno : 0;
}

static void name_temporary(struct tree_extract *tree)
{
	uint64_t number = (uint64_t)getpid();

	if (tree->n_numbers == 0 && getrandom(tree->numbers, sizeof(tree->numbers), 0) ==
					    (ssize_t)sizeof(tree->numbers))
		tree->n_numbers = NUMBERS;
	if (tree->n_numbers > 0)
		number = tree->numbers[--tree->n_numbers];
	snprintf(tree->temporary, sizeof(tree->temporary), ".cloister-get-%016" PRIx64, number);
}

static int begin_extract_file(struct tree_extract *tree, const struct tar_entry *entry)
{
	name_temporary(tree);
	tree->fd = openat(parent_fd(tree), tree->temporary,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (tree->fd < 0)
		return -errno;
	tree->entry.size = entry->size;
	tree->entry.mode = entry->mode;
	tree->entry.mtime = entry->mtime;
	memcpy(tree->entry.path, entry->path, strlen(entry->path) + 1);
	tree->offset = tree->length = 0;
	tree->error = 0;
	return 0;
}

/* Renames the temporary file to its name. */
static int take_name(struct tree_extract *tree)
{
	int parent = parent_fd(tree), r = 0;

	if (renameat(parent, tree->temporary, parent, tree->name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(parent, tree->temporary, 0);
	return r;
}

/*
 * Whether a link to @target, at this depth, stays below the root whatever other such links are on
 * the way: its ".." components come first and do not climb above the root, through parents that are
 * directories and not links; after them it only descends.
 */
static bool stays_below(size_t depth, const char *target)
{
	bool down = false;

	if (target[0] == '/' || target[0] == '\0')
		return false;
	while (*target) {
		size_t len = strcspn(target, "/");
		bool is_up = len == 2 && target[0] == '.' && target[1] == '.';

		if (is_up && (down || depth-- == 0))
			return false;
		down |= !is_up && len > 0 && !(len == 1 && target[0] == '.');
		target += len;
		target += strspn(target, "/");
	}
	return true;
}

static int make_link(struct tree_extract *tree, const struct tar_entry *entry)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, entry->mtime};
	int parent = parent_fd(tree);

	if (!tree->limits.any_links && !stays_below(tree->depth, entry->link)) {
		leave_out(tree, entry->path,
			"a symbolic link that leads out of the directory; left out (--any-links "
			"creates it)");
		return 0;
	}
	name_temporary(tree);
	if (symlinkat(entry->link, parent, tree->temporary) < 0)
		return -errno;
	(void)utimensat(parent, tree->temporary, times, AT_SYMLINK_NOFOLLOW);
	return take_name(tree);
}

/* Counts @entry. Returns 0, or -EFBIG past a limit. */
static int count_extracted(struct tree_extract *tree, const struct tar_entry *entry)
{
	int r = count_one(tree);

	if (r < 0)
		return r;
	if (entry->size > tree->limits.bytes - tree->bytes) {
		complain("the files have more than %" PRIu64
			 " bytes; raise the limit with --max-size",
			tree->limits.bytes);
		return -EFBIG;
	}
	tree->bytes += entry->size;
	return 0;
}

static int make_extracted(struct tree_extract *tree, const struct tar_entry *entry)
{
	switch (entry->type) {
	case TAR_DIRECTORY:
		return make_directory(tree, entry);
	case TAR_FILE:
		return begin_extract_file(tree, entry);
	case TAR_SYMLINK:
		return make_link(tree, entry);
	case TAR_HARD_LINK:
		leave_out(tree, entry->path, "a hard link; left out");
		return 0;
	default:
		tree->skipping = true;
		if (tree->passes_over)
			return 0;
		leave_out(
			tree, entry->path, "a device, a FIFO or a file of unknown type; left out");
		return 0;
	}
}

int tree_extract_begin(void *context, const struct tar_entry *entry)
{
	struct tree_extract *tree = context;
	int r;

	tree->skipping = false;
	r = count_extracted(tree, entry);
	if (r < 0)
		return r;
	r = go_to(tree, entry->path, MISSING_IS_COUNTED, tree->name);
	if (r == -EFBIG)
		return r;
	if (r == -EXDEV || (r == 0 && tree->name[0] == '\0' && entry->type != TAR_DIRECTORY)) {
		leave_out(tree, entry->path, "a name that leads out of the directory; left out");
		return 0;
	}
	if (r == 0)
		r = make_extracted(tree, entry);
	return r < 0 ? fail_extract(tree, entry->path, r) : 0;
}

static bool is_zero(const char *data, size_t len)
{
	static const char zero[HOLE_BYTES];

	return memcmp(data, zero, len) == 0;
}

/* Returns the length of @data up to the next block of zeros after the first @n bytes. */
static size_t until_hole(struct text data, size_t n)
{
	while (n < data.len) {
		size_t block = MIN(data.len - n, (size_t)HOLE_BYTES);

		if (is_zero(data.data + n, block))
			break;
		n += block;
	}
	return n;
}

/*
 * Writes @data at the current offset, except blocks of zeros; the file gets its full length at the
 * end.
 */
static int write_blocks(struct tree_extract *tree, struct text data)
{
	while (data.len > 0) {
		size_t to_block = HOLE_BYTES - (size_t)(tree->offset % HOLE_BYTES);
		size_t n = MIN(data.len, to_block);
		ssize_t written = (ssize_t)n;

		if (!is_zero(data.data, n)) {
			written = pwrite(
				tree->fd, data.data, until_hole(data, n), (off_t)tree->offset);
			if (written < 0 && errno == EINTR)
				continue;
			if (written < 0)
				return -errno;
			tree->length = tree->offset + (uint64_t)written;
		}
		tree->offset += (uint64_t)written;
		data.data += written;
		data.len -= (size_t)written;
	}
	return 0;
}

int tree_extract_content(void *context, struct text data)
{
	struct tree_extract *tree = context;

	if (tree->fd < 0 || tree->skipping || tree->error < 0)
		return 0;
	tree->error = write_blocks(tree, data);
	return is_fatal(tree->error) ? fail_extract(tree, tree->entry.path, tree->error) : 0;
}

static int finish_file(struct tree_extract *tree)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, tree->entry.mtime};

	/* A hole at the end was not written. */
	if (tree->error < 0 ||
		(tree->length != tree->entry.size &&
			ftruncate(tree->fd, (off_t)tree->entry.size) < 0) ||
		fchmod(tree->fd, tree->entry.mode & 0777) < 0 || futimens(tree->fd, times) < 0) {
		int r = tree->error < 0 ? tree->error : -errno;

		(void)unlinkat(parent_fd(tree), tree->temporary, 0);
		return r;
	}
	return take_name(tree);
}

int tree_extract_end(void *context)
{
	struct tree_extract *tree = context;
	int r;

	if (tree->fd >= 0) {
		r = finish_file(tree);
		close_fd(&tree->fd);
		if (r < 0)
			return fail_extract(tree, tree->entry.path, r);
		tree->result.bytes += tree->entry.size;
	}
	tree->result.files += !tree->skipping;
	return 0;
}

/* Some file systems store whole seconds only. */
static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && (a.tv_nsec == b.tv_nsec || a.tv_nsec == 0 || b.tv_nsec == 0);
}

bool tree_extract_has(struct tree_extract *tree, const struct tar_entry *entry)
{
	struct stat status;

	return entry->type == TAR_FILE &&
	       go_to(tree, entry->path, MISSING_FAILS, tree->name) == 0 && tree->name[0] != '\0' &&
	       fstatat(parent_fd(tree), tree->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode) && (uint64_t)status.st_size == entry->size &&
	       (status.st_mode & 0777) == (entry->mode & 0777) &&
	       same_time(status.st_mtim, entry->mtime);
}

struct tree_extract_result tree_extract_finish(struct tree_extract *tree)
{
	struct tree_extract_result result = {0};

	if (!tree)
		return result;
	if (tree->fd >= 0) {
		(void)unlinkat(parent_fd(tree), tree->temporary, 0);
		close_fd(&tree->fd);
	}
	leave_to(tree, 0);
	close_fd(&tree->levels[0].fd);
	result = tree->result;
	free(tree);
	return result;
}
