// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process. The tenant may rename anything meanwhile, writes the attributes, and
 * in a workspace that is a whole root also /etc/passwd: all are hostile bytes of bounded length.
 */
#include "worker/files/file_node.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NS_PER_S      1000000000ULL
#define ACCOUNT_BYTES 65536UL /* of /etc/passwd or /etc/group that are read */

uint8_t file_node_type(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return FILES_TYPE_FILE;
	case S_IFDIR:
		return FILES_TYPE_DIRECTORY;
	case S_IFLNK:
		return FILES_TYPE_SYMLINK;
	case S_IFIFO:
		return FILES_TYPE_FIFO;
	case S_IFSOCK:
		return FILES_TYPE_SOCKET;
	case S_IFCHR:
		return FILES_TYPE_CHARACTER_DEVICE;
	case S_IFBLK:
		return FILES_TYPE_BLOCK_DEVICE;
	default:
		return FILES_TYPE_UNKNOWN;
	}
}

uint64_t file_node_mtime_ns(const struct stat *st)
{
	if (st->st_mtim.tv_sec < 0)
		return 0;
	return (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

/* Writes the name of @id in @accounts, lines of passwd(5) or group(5), and returns its length. */
static size_t name_in(char *accounts, uint32_t id, char *name)
{
	char *rest = accounts, *line;

	while ((line = strsep(&rest, "\n"))) {
		char *colon = strchr(line, ':');
		char *number = colon ? strchr(colon + 1, ':') : NULL;
		char *end;
		unsigned long value;

		if (!number || colon == line || colon - line > LIMIT_NAME_BYTES)
			continue;
		errno = 0;
		value = strtoul(number + 1, &end, 10);
		if (errno != 0 || end == number + 1 || *end != ':' || value != id)
			continue;
		memcpy(name, line, (size_t)(colon - line));
		return (size_t)(colon - line);
	}
	return 0;
}

/* Reads the name from the workspace's own file. Returns its length. */
static size_t read_account_name(const struct root *root, const char *file, uint32_t id, char *name)
{
	_cleanup_free_ char *accounts = malloc(ACCOUNT_BYTES + 1);
	_cleanup_close_ int fd = -1;
	struct stat st;
	ssize_t n;

	if (!accounts || root_open(root, text_from(file), O_RDONLY, &fd, NULL) != TOOL_OK ||
		fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	n = pread(fd, accounts, ACCOUNT_BYTES, 0);
	if (n <= 0)
		return 0;
	accounts[n] = '\0';
	return name_in(accounts, id, name);
}

/* What commands see in the small /etc that the worker makes, worker/commands/worker_etc.c. */
static const struct {
	uint32_t id;
	const char *user, *group;
} own_names[] = {{0, "root", "root"}, {1000, "agent", "agent"}, {65534, "nobody", "nogroup"}};

static size_t own_name(bool group, uint32_t id, char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++) {
		const char *found = group ? own_names[i].group : own_names[i].user;

		if (own_names[i].id != id)
			continue;
		memcpy(name, found, strlen(found));
		return strlen(found);
	}
	return 0;
}

static struct text node_owner_name(
	const struct root *root, bool group, uint32_t id, struct node_name *last)
{
	if (!last->known || last->id != id) {
		last->known = true;
		last->id = id;
		last->len = text_equal(root->visible, TEXT_LITERAL("/"))
				    ? read_account_name(root, group ? "etc/group" : "etc/passwd",
					      id, last->text)
				    : own_name(group, id, last->text);
	}
	return (struct text){last->text, last->len};
}

struct files_node file_node(
	const struct root *root, const struct stat *st, struct text path, struct node_texts *texts)
{
	return (struct files_node){
		.entry = {.path = path,
			.type = file_node_type(st->st_mode),
			.size = (uint64_t)st->st_size,
			.mtime_ns = file_node_mtime_ns(st)},
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = st->st_nlink,
		.owner = node_owner_name(root, false, st->st_uid, &texts->owner),
		.group = node_owner_name(root, true, st->st_gid, &texts->group),
	};
}

void file_node_link(struct files_node *node, int dir, const char *name, struct node_texts *texts)
{
	ssize_t len = readlinkat(dir, name, texts->target, sizeof(texts->target));

	if (len > 0)
		node->entry.target = (struct text){texts->target, (size_t)len};
}

/* Those of an overlay are its own affair. */
static bool is_shown(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && name[5] != '\0' &&
	       strncmp(name, "user.overlay.", 13) != 0;
}

void file_node_attributes(
	struct files_node *node, int fd, const struct stat *st, struct node_texts *texts)
{
	_cleanup_free_ char *names = NULL, *value = NULL;
	struct wire_writer writer = wire_writer(texts->attributes, sizeof(texts->attributes));
	struct stat now;
	ssize_t len;

	if (fstat(fd, &now) < 0 || now.st_dev != st->st_dev || now.st_ino != st->st_ino ||
		flistxattr(fd, NULL, 0) <= 0)
		return;
	names = malloc(XATTR_LIST_MAX);
	value = malloc(FILES_ATTRIBUTE_BYTES);
	len = names && value ? flistxattr(fd, names, XATTR_LIST_MAX) : -1;
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		const struct wire_writer before = writer;
		ssize_t size;

		if (!is_shown(names + at))
			continue;
		size = fgetxattr(fd, names + at, value, FILES_ATTRIBUTE_BYTES);
		if (size >= 0) {
			wire_put_text(&writer, text_from(names + at + 5));
			wire_put_text(&writer, (struct text){value, (size_t)size});
		}
		if ((size < 0 && errno == ERANGE) || !wire_writer_ok(&writer)) {
			node->attributes_cut = true;
			writer = before;
		}
	}
	node->attributes = (struct text){(const char *)texts->attributes, writer.len};
}
