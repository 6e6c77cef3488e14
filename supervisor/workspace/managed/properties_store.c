// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Only cloisterd writes these files, but what they hold came from clients: it is
 * read as strictly as theirs. open(2), rename(2).
 */
#include "supervisor/workspace/managed/properties_store.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/layer_stack.h"
#include "supervisor/base/json_text.h"
#include "supervisor/workspace/templates/templates.h"
#include "json/json_read.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <json-c/json_object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW ".new-" /* no name of a workspace begins with '.' */

/* Opens the directory of the tenant's files. */
static int open_properties_directory(int managed_fd, const struct tenant *tenant, bool make)
{
	const char *name = tenant_directory(tenant);
	_cleanup_close_ int all = -1;
	int fd;

	if (managed_fd < 0)
		return -ENOENT;
	if (make && mkdirat(managed_fd, "../" PROPERTIES, 0700) < 0 && errno != EEXIST)
		return -errno;
	all = openat(managed_fd, "../" PROPERTIES, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (all < 0)
		return -errno;
	if (make && mkdirat(all, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Reads all of the file @name, of at most @size bytes. Returns their number or -errno. */
static ssize_t read_properties_file(int directory, const char *name, char *buffer, size_t size)
{
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t len = fd < 0 ? -errno : io_read(fd, buffer, size, IO_POSITION);

	return len < (ssize_t)size ? len : -EBADMSG;
}

static int load(int directory, const char *name, struct properties *ret)
{
	static char buffer[LIMIT_PROPERTIES_BYTES];
	const ssize_t len = read_properties_file(directory, name, buffer, sizeof(buffer));
	struct json_bounds bounds;
	struct json_report report;
	struct json_object *kept = NULL;
	int r;

	if (len < 0) {
		if (len == -ENOENT)
			*ret = (struct properties){0};
		return len == -ENOENT ? 0 : (int)len;
	}
	bounds = json_request_bounds((size_t)len);
	r = json_read((struct text){buffer, (size_t)len}, &bounds, &kept, &report);
	if (r == 0)
		r = properties_read_kept(kept, ret);
	json_object_put(kept);
	return r == 0 || r == -ENOMEM ? r : -EBADMSG;
}

int properties_load(
	int managed_fd, const struct tenant *tenant, const char *name, struct properties *ret)
{
	_cleanup_close_ int directory = open_properties_directory(managed_fd, tenant, false);

	if (directory >= 0)
		return load(directory, name, ret);
	if (directory == -ENOENT)
		*ret = (struct properties){0};
	return directory == -ENOENT ? 0 : directory;
}

static int write_properties(int fd, struct evbuffer *text)
{
	while (evbuffer_get_length(text) > 0)
		if (evbuffer_write(text, fd) < 0)
			return -errno;
	return 0;
}

static int write_file(int directory, const char *name, const struct properties *properties)
{
	struct evbuffer *text = evbuffer_new();
	struct json_text json = json_text(text);
	_cleanup_close_ int fd = -1;
	int r;

	if (!text)
		return -ENOMEM;
	properties_write(&json, properties);
	r = json_text_flush(&json);
	/* A death may have left one. */
	(void)!unlinkat(directory, name, 0);
	if (r == 0) {
		fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
		r = fd < 0 ? -errno : write_properties(fd, text);
	}
	evbuffer_free(text);
	return r;
}

int properties_save(int managed_fd, const struct tenant *tenant, const char *name,
	const struct properties *properties)
{
	_cleanup_close_ int directory = -1;
	char new[sizeof(NEW) + LIMIT_TEMPLATE_NAME_BYTES];
	int r;

	if (properties_are_none(properties))
		return properties_forget(managed_fd, tenant, name);
	directory = open_properties_directory(managed_fd, tenant, true);
	if (directory < 0)
		return directory;
	snprintf(new, sizeof(new), NEW "%s", name);
	r = write_file(directory, new, properties);
	if (r == 0 && renameat(directory, new, directory, name) < 0)
		r = -errno;
	if (r < 0)
		(void)!unlinkat(directory, new, 0);
	return r;
}

int properties_forget(int managed_fd, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = open_properties_directory(managed_fd, tenant, false);

	if (directory < 0)
		return directory == -ENOENT ? 0 : directory;
	return unlinkat(directory, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int properties_list(int managed_fd, const struct tenant *tenant, DIR **ret)
{
	int fd = open_properties_directory(managed_fd, tenant, false);

	*ret = NULL;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	*ret = fdopendir(fd);
	if (*ret)
		return 0;
	close_fd(&fd);
	return -ENOMEM;
}

const char *properties_list_next(DIR *directory)
{
	const struct dirent *entry;

	while ((entry = readdir(directory)))
		if (is_managed_name(text_from(entry->d_name)))
			return entry->d_name;
	return NULL;
}

int properties_load_in(DIR *directory, const char *name, struct properties *ret)
{
	if (directory)
		return load(dirfd(directory), name, ret);
	*ret = (struct properties){0};
	return 0;
}
