// SPDX-License-Identifier: Apache-2.0
/* Runs in the client, on the caller's own files. */
#include "client/transfer/tree_source.h"

#include "client/cmd/command.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct level {
	DIR *directory;
	size_t path_len; /* length of its own path in entry.path */
};

struct tree_source {
	struct tree_source_owner owner;
	struct tree_source_result result;
	struct level levels[LIMIT_TREE_DEPTH];
	size_t n_levels;
	int fd;         /* the current file, or -1 */
	uint64_t left;  /* bytes of it still to read */
	size_t padding; /* bytes of padding after it */
	bool short_of;  /* the file has become shorter */
	bool single;    /* the source is one file, in entry, not read yet */
	bool top;       /* the source is a directory, in entry, not written yet */
	bool ended;     /* the end of the archive is written */
	struct tar_entry entry;
};

static void fail_tree_source(struct tree_source *source, int error)
{
	_cleanup_free_ char *shown = terminal_text(source->entry.path);

	if (!source->owner.quiet)
		complain("%s: %s", shown ? shown : "?", strerror(error));
	source->result.failed++;
}

/* Fills in the entry except its path. Returns false if an archive cannot hold such an object. */
static bool describe(struct tree_source *source, int parent, const char *name)
{
	struct tar_entry *entry = &source->entry;
	struct stat status;
	ssize_t len;

	entry->size = 0;
	entry->link[0] = '\0';
	if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		fail_tree_source(source, errno);
		return false;
	}
	entry->mode = status.st_mode & 0777;
	entry->mtime = status.st_mtim;
	if (S_ISREG(status.st_mode)) {
		entry->type = TAR_FILE;
		entry->size = (uint64_t)status.st_size;
	} else if (S_ISDIR(status.st_mode)) {
		entry->type = TAR_DIRECTORY;
	} else if (S_ISLNK(status.st_mode)) {
		entry->type = TAR_SYMLINK;
		len = readlinkat(parent, name, entry->link, sizeof(entry->link) - 1);
		if (len < 0) {
			fail_tree_source(source, errno);
			return false;
		}
		entry->link[len] = '\0';
	} else {
		fail_tree_source(source, EOPNOTSUPP);
		return false;
	}
	return true;
}

/* Opens the file of the entry, and takes its current size, mode and time. */
static bool open_file(struct tree_source *source, int parent, const char *name)
{
	struct stat status;

	source->fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (source->fd < 0 || fstat(source->fd, &status) < 0 || !S_ISREG(status.st_mode)) {
		fail_tree_source(source, source->fd < 0 ? errno : EINVAL);
		close_fd(&source->fd);
		return false;
	}
	source->entry.type = TAR_FILE;
	source->entry.mode = status.st_mode & 0777;
	source->entry.mtime = status.st_mtim;
	source->entry.link[0] = '\0';
	source->entry.size = (uint64_t)status.st_size;
	source->left = source->entry.size;
	source->padding = tar_padding(source->left);
	source->short_of = false;
	return true;
}

static bool enter_tree_source(struct tree_source *source, int fd)
{
	struct level *level = &source->levels[source->n_levels];

	if (fd < 0 || source->n_levels == LIMIT_TREE_DEPTH) {
		fail_tree_source(source, fd < 0 ? errno : ENAMETOOLONG);
		close_fd(&fd);
		return false;
	}
	level->directory = fdopendir(fd);
	if (!level->directory) {
		fail_tree_source(source, errno);
		close(fd);
		return false;
	}
	level->path_len = strlen(source->entry.path);
	source->n_levels++;
	return true;
}

int tree_source_new(const char *path, const char *as, const struct tree_source_owner *owner,
	struct tree_source **ret_source)
{
	struct tree_source *source = calloc(1, sizeof(*source));
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat status = {0};
	int r = fd < 0 || fstat(fd, &status) < 0 ? -errno : 0;

	if (r == 0 && !source)
		r = -ENOMEM;
	if (r == 0 && !S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
		r = -EOPNOTSUPP;
	if (r == 0 && strlen(as) >= sizeof(source->entry.path))
		r = -ENAMETOOLONG;
	if (r < 0) {
		complain("%s: %s", path, strerror(-r));
		close_fd(&fd);
		free(source);
		return r;
	}
	source->owner = *owner;
	source->fd = -1;
	memcpy(source->entry.path, as, strlen(as) + 1);
	source->entry.mode = status.st_mode & 0777;
	source->entry.mtime = status.st_mtim;
	if (S_ISDIR(status.st_mode)) {
		source->entry.type = TAR_DIRECTORY;
		source->top = enter_tree_source(source, fd) && strcmp(as, ".") != 0;
	} else {
		source->entry.type = TAR_FILE;
		source->entry.size = (uint64_t)status.st_size;
		source->left = source->entry.size;
		source->padding = tar_padding(source->left);
		source->fd = fd;
		source->single = true;
	}
	*ret_source = source;
	return 0;
}

/* Stores the next name of the current directory as the entry's path. Returns NULL at the end. */
static const struct dirent *next_name(struct tree_source *source)
{
	struct level *level = &source->levels[source->n_levels - 1];
	struct dirent *found;

	for (;;) {
		size_t room = sizeof(source->entry.path) - level->path_len;

		source->entry.path[level->path_len] = '\0';
		errno = 0;
		found = readdir(level->directory);
		if (!found) {
			if (errno != 0)
				fail_tree_source(source, errno);
			closedir(level->directory);
			source->n_levels--;
			return NULL;
		}
		if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
			continue;
		if ((size_t)snprintf(source->entry.path + level->path_len, room, "/%s",
			    found->d_name) < room)
			return found;
		fail_tree_source(source, ENAMETOOLONG);
	}
}

static bool skips(const struct tree_source *source)
{
	return source->owner.skips && source->owner.skips(source->owner.context, &source->entry);
}

/* Finds and opens the next entry. Returns false at the end. */
static bool next_entry(struct tree_source *source)
{
	while (source->n_levels > 0) {
		int parent = dirfd(source->levels[source->n_levels - 1].directory);
		const struct dirent *found = next_name(source);
		const char *name = found ? found->d_name : NULL;

		/* What is sent in any case need not be looked at before it is opened. */
		if (found && found->d_type == DT_REG && !source->owner.skips) {
			if (open_file(source, parent, name))
				return true;
			continue;
		}
		if (!name || !describe(source, parent, name))
			continue;
		if (skips(source)) {
			source->result.skipped++;
			continue;
		}
		if (source->entry.type == TAR_FILE && !open_file(source, parent, name))
			continue;
		if (source->entry.type == TAR_DIRECTORY &&
			!enter_tree_source(
				source, openat(parent, name,
						O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)))
			continue;
		return true;
	}
	return false;
}

/* Reads the next bytes of the current file. */
static size_t read_content(struct tree_source *source, unsigned char *buffer, size_t size)
{
	size_t wanted = size < source->left ? size : (size_t)source->left;
	ssize_t n = source->short_of ? 0 : read(source->fd, buffer, wanted);

	if (n < 0 && errno == EINTR)
		return read_content(source, buffer, size);
	if (n <= 0) {
		if (!source->short_of)
			fail_tree_source(source, n < 0 ? errno : ENODATA);
		source->short_of = true;
		memset(buffer, 0, wanted);
		n = (ssize_t)wanted;
	}
	source->left -= (uint64_t)n;
	source->result.bytes += (uint64_t)n;
	return (size_t)n;
}

static size_t read_padding(struct tree_source *source, unsigned char *buffer)
{
	size_t padding = source->padding;

	memset(buffer, 0, padding);
	source->padding = 0;
	close_fd(&source->fd);
	source->result.files++;
	return padding;
}

size_t tree_source_read(struct tree_source *source, unsigned char *buffer, size_t size)
{
	size_t used = 0;

	while (size - used >= TAR_HEADER_MAX && !source->ended) {
		if (source->fd >= 0 && !source->single) {
			used += source->left > 0 ? read_content(source, buffer + used, size - used)
						 : read_padding(source, buffer + used);
		} else if (source->single && skips(source)) {
			source->result.skipped++;
			source->single = false;
			close_fd(&source->fd);
		} else if (source->top && skips(source)) {
			source->top = false;
		} else if (source->single || source->top || next_entry(source)) {
			source->single = false;
			source->top = false;
			used += tar_header(&source->entry, buffer + used);
			source->result.files += source->fd < 0;
		} else {
			memset(buffer + used, 0, (size_t)2 * TAR_BLOCK);
			used += (size_t)2 * TAR_BLOCK;
			source->ended = true;
		}
	}
	return used;
}

struct tree_source_result tree_source_end(struct tree_source *source)
{
	struct tree_source_result result = {0};

	if (!source)
		return result;
	result = source->result;
	while (source->n_levels > 0)
		closedir(source->levels[--source->n_levels].directory);
	close_fd(&source->fd);
	free(source);
	return result;
}
