// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Looks only at names in the state directory. mkdir(2), rmdir(2). */
#include "supervisor/workspace/templates/template_size.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".size-"

static void name_record(const char *name, char ret[sizeof(PREFIX) + LIMIT_TEMPLATE_TREE_BYTES])
{
	snprintf(ret, sizeof(PREFIX) + LIMIT_TEMPLATE_TREE_BYTES, PREFIX "%s", name);
}

/* Opens the record of the template @name, or NULL. */
static DIR *open_record(int directory, const char *name)
{
	char record[sizeof(PREFIX) + LIMIT_TEMPLATE_TREE_BYTES];

	name_record(name, record);
	return directory_read(directory, record);
}

/* Reads a number as it is written. Returns -1 if it is none. */
static int64_t read_template_size_number(const char *text)
{
	size_t len = strspn(text, "0123456789");

	return len == 0 || len > 18 || text[len] ? -1 : strtoll(text, NULL, 10);
}

int64_t template_size(int directory, const char *name)
{
	DIR *record = open_record(directory, name);
	const struct dirent *entry;
	int64_t bytes = -1;

	while (record && bytes < 0 && (entry = readdir(record)))
		bytes = read_template_size_number(entry->d_name);
	if (record)
		closedir(record);
	return bytes;
}

int template_size_note(int directory, const char *name, uint64_t bytes)
{
	char record[sizeof(PREFIX) + LIMIT_TEMPLATE_TREE_BYTES], number[32];
	_cleanup_close_ int fd = -1;

	name_record(name, record);
	if (mkdirat(directory, record, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(directory, record, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	snprintf(number, sizeof(number), "%" PRIu64, bytes);
	return fd < 0 || mkdirat(fd, number, 0700) < 0 ? -errno : 0;
}

void template_size_forget(int directory, const char *name)
{
	char record[sizeof(PREFIX) + LIMIT_TEMPLATE_TREE_BYTES];
	DIR *stream = open_record(directory, name);
	const struct dirent *entry;

	if (!stream)
		return;
	while ((entry = readdir(stream)))
		if (read_template_size_number(entry->d_name) >= 0)
			(void)!unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
	closedir(stream);
	name_record(name, record);
	(void)!unlinkat(directory, record, AT_REMOVEDIR);
}
