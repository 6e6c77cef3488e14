// SPDX-License-Identifier: Apache-2.0
/*
 * Used by cloisterd and the spawner, at start and on reload. Finds the files of a configuration and
 * refuses those that an unauthorized user could have written. open(2), readdir(3).
 */
#include "common/config/config_files.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/io.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

static void complain_of_config(struct config_reader *reader, const char *file, unsigned line,
	const char *format, va_list arguments)
{
	char message[512];

	vsnprintf(message, sizeof(message), format, arguments);
	reader->mistakes++;
	reader->complaints->complain(reader->complaints->context, file, line, message);
}

void config_wrong(struct config_reader *reader, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain_of_config(reader, reader->file, reader->line, format, arguments);
	va_end(arguments);
}

void config_wrong_at(
	struct config_reader *reader, const struct config_place *place, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain_of_config(reader, place->file, place->line, format, arguments);
	va_end(arguments);
}

void config_warn_at(
	struct config_reader *reader, const struct config_place *place, const char *format, ...)
{
	const struct config_complaints *complaints = reader->complaints;
	va_list arguments;
	char message[512];

	if (!complaints->warn)
		return;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	complaints->warn(complaints->context, place->file, place->line, message);
}

void config_files_done(struct config_files *files)
{
	close_fd(&files->directory_fd);
	free(files->directory);
	free(files->name);
	free(files->drop_ins);
}

static int name_files(struct config_files *files, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t stem = strlen(name);

	if (stem > 5 && strcmp(name + stem - 5, ".conf") == 0)
		stem -= 5;
	files->directory = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	files->name = strdup(name);
	if (asprintf(&files->drop_ins, "%.*s.conf.d", (int)stem, name) < 0)
		files->drop_ins = NULL;
	return files->directory && files->name && files->drop_ins ? 0 : -ENOMEM;
}

int config_files_open(const char *path, struct config_files *ret)
{
	struct config_files files = {.directory_fd = -1};
	int r = name_files(&files, path);

	if (r == 0) {
		files.directory_fd = open(files.directory[0] ? files.directory : "/",
			O_PATH | O_DIRECTORY | O_CLOEXEC);
		r = files.directory_fd < 0 ? -errno : 0;
	}
	if (r < 0) {
		config_files_done(&files);
		return r;
	}
	*ret = files;
	return 0;
}

char *config_files_drop_ins(const struct config_files *files)
{
	char *path;

	return asprintf(&path, "%s/%s", files->directory, files->drop_ins) < 0 ? NULL : path;
}

static bool is_writable_by_others(const struct stat *stat_buf)
{
	return (stat_buf->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/*
 * The owner of a file can write it, so the owner must be root, our own user, or the owner of the
 * main file.
 */
static bool has_owner(struct config_reader *reader, const struct stat *stat_buf, uid_t owner)
{
	if (stat_buf->st_uid == reader->root)
		return true;
	reader->not_roots = true;
	return stat_buf->st_uid == geteuid() || stat_buf->st_uid == owner;
}

/* Reads the file at hand into @buffer, or complains about it and returns false. */
static bool load_file(
	struct config_reader *reader, int fd, uid_t *owner, char *buffer, struct text *ret_text)
{
	struct stat stat_buf;
	ssize_t n;

	if (fd < 0 || fstat(fd, &stat_buf) < 0) {
		config_wrong(reader, "%s", strerror(errno));
		return false;
	}
	if (!S_ISREG(stat_buf.st_mode)) {
		config_wrong(reader, "not a regular file");
		return false;
	}
	if (*owner == (uid_t)-1)
		*owner = stat_buf.st_uid;
	if (is_writable_by_others(&stat_buf))
		config_wrong(reader, "users other than its owner can write it: chmod go-w");
	if (!has_owner(reader, &stat_buf, *owner))
		config_wrong(reader,
			"its owner is neither root nor the owner of the main file: chown it");
	n = io_read(fd, buffer, LIMIT_CONFIG_FILE_BYTES + 1, IO_POSITION);
	if (n < 0) {
		config_wrong(reader, "%s", strerror((int)-n));
		return false;
	}
	*ret_text = (struct text){buffer, (size_t)n};
	if (ret_text->len > LIMIT_CONFIG_FILE_BYTES) {
		config_wrong(reader, "larger than %llu bytes", LIMIT_CONFIG_FILE_BYTES);
		return false;
	}
	return true;
}

static int read_config_file(
	struct config_reader *reader, int directory_fd, const char *name, uid_t *owner)
{
	static const struct text bom = TEXT_LITERAL("\xef\xbb\xbf");
	_cleanup_free_ char *buffer = malloc(LIMIT_CONFIG_FILE_BYTES + 1);
	_cleanup_close_ int fd = -1;
	struct text text;

	if (!buffer)
		return -ENOMEM;
	reader->line = 0;
	/* O_NONBLOCK: if the name is a FIFO, open(2) must not wait for a writer. */
	fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (!load_file(reader, fd, owner, buffer, &text))
		return 0;
	if (text.len >= bom.len && memcmp(text.data, bom.data, bom.len) == 0) {
		text.data += bom.len;
		text.len -= bom.len;
	}
	return config_file_read(reader, text);
}

void config_file_names_done(struct config_file_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->paths[i]);
	free(names->paths);
}

static int add_config_file_name(
	struct config_file_names *names, const char *directory, const char *name)
{
	char **grown = reallocarray(names->paths, names->count + 1, sizeof(*grown)), *path;

	if (!grown)
		return -ENOMEM;
	names->paths = grown;
	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	grown[names->count++] = path;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_drop_in(const char *name)
{
	size_t len = strlen(name);

	return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".conf") == 0;
}

/* Lists the drop-in files in the open directory. */
static int list_drop_ins(
	struct config_reader *reader, int fd, const char *path, struct config_file_names *names)
{
	DIR *directory = directory_read(fd, ".");
	const struct dirent *entry;
	int r = 0;

	if (!directory)
		return -errno;
	while (r == 0 && (entry = readdir(directory))) {
		if (!is_drop_in(entry->d_name))
			continue;
		if (names->count > LIMIT_CONFIG_DROP_INS) {
			config_wrong(reader, "more than %d drop-ins", LIMIT_CONFIG_DROP_INS);
			break;
		}
		r = add_config_file_name(names, path, entry->d_name);
	}
	closedir(directory);
	/* The first name is the main file and stays first. */
	qsort(names->paths + 1, names->count - 1, sizeof(*names->paths), compare_names);
	return r;
}

static void check_directory(struct config_reader *reader, int fd, uid_t owner, bool sticky_is_fine)
{
	struct stat stat_buf;

	if (fstat(fd, &stat_buf) < 0) {
		config_wrong(reader, "%s", strerror(errno));
		return;
	}
	if (is_writable_by_others(&stat_buf) && !(sticky_is_fine && stat_buf.st_mode & S_ISVTX))
		config_wrong(reader,
			"users other than the owner of this directory can write it: chmod go-w");
	if (!has_owner(reader, &stat_buf, owner))
		config_wrong(reader, "the owner of this directory is neither root nor the owner of "
				     "the main file: chown it");
}

static int read_drop_ins(const struct config_files *files, struct config_reader *reader,
	struct config_file_names *names, uid_t owner)
{
	_cleanup_free_ char *path = config_files_drop_ins(files);
	_cleanup_close_ int fd =
		openat(files->directory_fd, files->drop_ins, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (!path)
		return -ENOMEM;
	reader->file = path;
	reader->line = 0;
	if (fd < 0) {
		config_wrong(reader, "%s", strerror(errno));
		return 0;
	}
	check_directory(reader, fd, owner, false);
	r = list_drop_ins(reader, fd, path, names);
	for (size_t i = 1; r == 0 && i < names->count; i++) {
		reader->file = names->paths[i];
		r = read_config_file(reader, fd, strrchr(reader->file, '/') + 1, &owner);
	}
	return r;
}

int config_files_read(const struct config_files *files, struct config_reader *reader,
	struct config_file_names *names)
{
	uid_t owner = (uid_t)-1;
	int r = add_config_file_name(names, files->directory, files->name);

	if (r < 0)
		return r;
	reader->file = names->paths[0];
	r = read_config_file(reader, files->directory_fd, files->name, &owner);
	reader->file = files->directory;
	reader->line = 0;
	if (r == 0 && owner != (uid_t)-1)
		check_directory(reader, files->directory_fd, owner, true);
	return r == 0 ? read_drop_ins(files, reader, names, owner) : r;
}
