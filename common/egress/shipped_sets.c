// SPDX-License-Identifier: Apache-2.0
/* Used by cloister-egress and cloisterd. The file belongs to the package. */
#include "common/egress/shipped_sets.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

void shipped_sets_path(char *ret, size_t size)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;

	snprintf(ret, size, "%.*segress-sets", slash ? (int)(slash + 1 - path) : 0, path);
	if (!slash || access(ret, R_OK) < 0)
		snprintf(ret, size, "%s", CLOISTER_EGRESS_SETS);
}

int shipped_sets_read(
	const char *path, rules_complain complain, void *context, struct rule_sets *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *buffer = malloc(LIMIT_CONFIG_FILE_BYTES);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = buffer ? read(fd, buffer, LIMIT_CONFIG_FILE_BYTES) : -1;
	if (n < 0)
		return buffer ? -errno : -ENOMEM;
	n = rule_sets_read((struct text){buffer, (size_t)n}, complain, context, ret);
	return n > 0 ? -EINVAL : (int)n;
}
