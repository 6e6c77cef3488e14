// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker: the small /etc of a workspace. passwd(5), group(5), hosts(5),
 * nsswitch.conf(5).
 */
#include "worker/commands/worker_etc.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int write_file(int dirfd, const char *name, const char *text)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	size_t len = strlen(text);

	if (fd < 0)
		return -errno;
	return write(fd, text, len) == (ssize_t)len ? 0 : -EIO;
}

int etc_write_synthesised(int etc, const char *home)
{
	static const struct {
		const char *name, *text;
	} files[] = {
		{"group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"},
		{"hosts", "127.0.0.1 localhost cloister\n::1 localhost cloister\n"},
		{"hostname", "cloister\n"},
		{"apt/apt.conf", "Acquire::Retries \"0\"; // no network in this workspace\n"},
		/*
		 * The server is an address for documentation (RFC 5737), to which there is no
		 * route: a look-up fails at once, and the kernel counts it (network_tries.h).
		 * Without the last "files" the C library would say that the failure is temporary.
		 */
		{"resolv.conf", "# no network in this workspace: every look-up fails at once\n"
				"nameserver 192.0.2.1\noptions attempts:1 timeout:1\n"},
		{"nsswitch.conf",
			"passwd: files\ngroup: files\nshadow: files\nhosts: files dns files\n"
			"services: files\nprotocols: files\n"},
	};
	char passwd[512];
	int r;

	snprintf(passwd, sizeof(passwd),
		"root:x:0:0:root:/:/usr/sbin/nologin\n"
		"agent:x:1000:1000:agent:%s:/bin/sh\n"
		"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		home);
	r = mkdirat(etc, "apt", 0755) < 0 ? -errno : write_file(etc, "passwd", passwd);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = write_file(etc, files[i].name, files[i].text);
	return r;
}
