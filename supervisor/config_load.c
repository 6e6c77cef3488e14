// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterd, at start and on reload. Who may write the files decides who may do what, so files and
 * directories that others can write are refused. inih, open(2), readdir(3).
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/accounts.h"
#include "supervisor/config_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

struct config_source {
	int directory_fd;
	char *directory; /* as it was named */
	char *name;      /* of the file in it */
	char *drop_ins;  /* of the directory in it */
	struct accounts *accounts;
};

static void complain(struct config_reader *reader, const char *file, unsigned line,
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
	complain(reader, reader->file, reader->line, format, arguments);
	va_end(arguments);
}

void config_wrong_at(
	struct config_reader *reader, const struct config_place *place, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(reader, place->file, place->line, format, arguments);
	va_end(arguments);
}

/* Where the files are. */

void config_source_free(struct config_source *source)
{
	if (!source)
		return;
	close_fd(&source->directory_fd);
	accounts_free(source->accounts);
	free(source->directory);
	free(source->name);
	free(source->drop_ins);
	free(source);
}

static int name_files(struct config_source *source, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t stem = strlen(name);

	if (stem > 5 && strcmp(name + stem - 5, ".conf") == 0)
		stem -= 5;
	source->directory = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	source->name = strdup(name);
	if (asprintf(&source->drop_ins, "%.*s.conf.d", (int)stem, name) < 0)
		source->drop_ins = NULL;
	return source->directory && source->name && source->drop_ins ? 0 : -ENOMEM;
}

int config_source_open(const char *path, struct config_source **ret)
{
	struct config_source *source = calloc(1, sizeof(*source));
	int r;

	if (!source)
		return -ENOMEM;
	source->directory_fd = -1;
	r = name_files(source, path);
	if (r == 0)
		r = accounts_open("/etc", &source->accounts);
	if (r == 0) {
		source->directory_fd = open(source->directory[0] ? source->directory : "/",
			O_PATH | O_DIRECTORY | O_CLOEXEC);
		r = source->directory_fd < 0 ? -errno : 0;
	}
	if (r < 0) {
		config_source_free(source);
		return r;
	}
	*ret = source;
	return 0;
}

char *config_source_drop_ins(const struct config_source *source)
{
	char *path;

	return asprintf(&path, "%s/%s", source->directory, source->drop_ins) < 0 ? NULL : path;
}

void config_source_lock(struct config_source *source)
{
	accounts_lock(source->accounts);
}

/* Files. */

static bool is_writable_by_others(const struct stat *stat_buf)
{
	return (stat_buf->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* Whose it is may write it: that must be root, we, or whose the main file is. */
static bool has_owner(const struct stat *stat_buf, uid_t owner)
{
	return stat_buf->st_uid == 0 || stat_buf->st_uid == geteuid() || stat_buf->st_uid == owner;
}

static int read_all(int fd, char *buffer, size_t size, size_t *ret_len)
{
	size_t len = 0;
	ssize_t n;

	while (len < size && (n = read(fd, buffer + len, size - len)) != 0) {
		if (n < 0 && errno != EINTR)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
	}
	*ret_len = len;
	return 0;
}

/* The file at hand, open: what is wrong with it, or its content in @buffer. */
static bool load_file(
	struct config_reader *reader, int fd, uid_t *owner, char *buffer, struct text *ret_text)
{
	struct stat stat_buf;
	int r;

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
		config_wrong(reader, "others than its owner can write it: chmod go-w");
	if (!has_owner(&stat_buf, *owner))
		config_wrong(reader, "it belongs to another user than the main file, and not to "
				     "root");
	*ret_text = (struct text){buffer, 0};
	r = read_all(fd, buffer, LIMIT_CONFIG_FILE_BYTES + 1, &ret_text->len);
	if (r < 0) {
		config_wrong(reader, "%s", strerror(-r));
		return false;
	}
	if (ret_text->len > LIMIT_CONFIG_FILE_BYTES) {
		config_wrong(reader, "larger than %llu bytes", LIMIT_CONFIG_FILE_BYTES);
		return false;
	}
	return true;
}

static int read_file(struct config_reader *reader, int directory_fd, const char *name, uid_t *owner)
{
	static const struct text bom = TEXT_LITERAL("\xef\xbb\xbf");
	_cleanup_free_ char *buffer = malloc(LIMIT_CONFIG_FILE_BYTES + 1);
	_cleanup_close_ int fd = -1;
	struct text text;

	if (!buffer)
		return -ENOMEM;
	reader->line = 0;
	/* Something else in its place must not make us wait. */
	fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (!load_file(reader, fd, owner, buffer, &text))
		return 0;
	if (text.len >= bom.len && memcmp(text.data, bom.data, bom.len) == 0) {
		text.data += bom.len;
		text.len -= bom.len;
	}
	return config_file_read(reader, text);
}

/* The names of all files in their order, as messages show them; what comes after the last slash is
 * the name in its directory. */
struct file_names {
	char **paths;
	size_t count;
};

static void free_names(struct file_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->paths[i]);
	free(names->paths);
}

static int add_name(struct file_names *names, const char *directory, const char *name)
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

/* The drop-ins of the open directory. */
static int list_drop_ins(
	struct config_reader *reader, int fd, const char *path, struct file_names *names)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *directory = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;

	if (!directory)
		return -errno;
	while (r == 0 && (entry = readdir(directory))) {
		if (!is_drop_in(entry->d_name))
			continue;
		if (names->count > LIMIT_CONFIG_DROP_INS) {
			config_wrong(reader, "more than %d drop-ins", LIMIT_CONFIG_DROP_INS);
			break;
		}
		r = add_name(names, path, entry->d_name);
	}
	closedir(directory);
	/* The first is the main file. */
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
		config_wrong(
			reader, "others than the owner of this directory can write it: chmod go-w");
	if (!has_owner(&stat_buf, owner))
		config_wrong(reader, "this directory belongs to another user than the main file, "
				     "and not to root");
}

static int read_drop_ins(const struct config_source *source, struct config_reader *reader,
	struct file_names *names, uid_t owner)
{
	_cleanup_free_ char *path = config_source_drop_ins(source);
	_cleanup_close_ int fd =
		openat(source->directory_fd, source->drop_ins, O_PATH | O_DIRECTORY | O_CLOEXEC);
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
		r = read_file(reader, fd, strrchr(reader->file, '/') + 1, &owner);
	}
	return r;
}

static int read_files(
	const struct config_source *source, struct config_reader *reader, struct file_names *names)
{
	uid_t owner = (uid_t)-1;
	int r = add_name(names, source->directory, source->name);

	if (r < 0)
		return r;
	reader->file = names->paths[0];
	r = read_file(reader, source->directory_fd, source->name, &owner);
	reader->file = source->directory;
	reader->line = 0;
	if (r == 0 && owner != (uid_t)-1)
		check_directory(reader, source->directory_fd, owner, true);
	return r == 0 ? read_drop_ins(source, reader, names, owner) : r;
}

static void free_reader(struct config_reader *reader)
{
	for (size_t i = 0; i < reader->n_tenants; i++) {
		tenant_release(reader->tenants[i]->object);
		free(reader->tenants[i]);
	}
	free(reader->tenants);
}

int config_load(const struct config_source *source, const struct config_complaints *complaints,
	struct config **ret)
{
	_cleanup_(free_names) struct file_names names = {0};
	_cleanup_(free_reader) struct config_reader reader = {
		.complaints = complaints,
		.accounts = source->accounts,
	};
	struct config *config = config_new();
	int r;

	if (!config)
		return -ENOMEM;
	reader.host.object = &config->host;
	config->from_file = true;
	r = read_files(source, &reader, &names);
	if (r == 0)
		r = config_parts_finish(&reader, config);
	if (r == 0 && reader.mistakes > 0)
		r = -EINVAL;
	if (r < 0) {
		config_release(config);
		return r;
	}
	*ret = config;
	return 0;
}
