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
#include <sys/sendfile.h>
#include <sys/stat.h>

#define COPIED_BYTES 65536

static int make_file(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : fd;
}

static int write_etc_file(int dirfd, const char *name, const char *text)
{
	_cleanup_close_ int fd = make_file(dirfd, name);
	size_t len = strlen(text);

	if (fd < 0)
		return fd;
	return write(fd, text, len) == (ssize_t)len ? 0 : -EIO;
}

int etc_copy(int host, int etc, const char *name)
{
	_cleanup_close_ int copy = -1;
	_cleanup_close_ int fd = openat(host, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat stat_buf;

	if (fd < 0 || fstat(fd, &stat_buf) < 0 || !S_ISREG(stat_buf.st_mode) ||
		!(stat_buf.st_mode & S_IROTH) || stat_buf.st_size > COPIED_BYTES)
		return 0;
	copy = make_file(etc, name);
	if (copy < 0)
		return copy;
	/* Not by a buffer, whose pages the worker would keep. */
	return sendfile(copy, fd, NULL, COPIED_BYTES) < 0 ? -errno : 0;
}

struct etc_file {
	const char *name, *text;
};

static const struct etc_file always[] = {
	{"group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"},
	{"hosts", "127.0.0.1 localhost cloister\n::1 localhost cloister\n"},
	{"hostname", "cloister\n"},
	{"apt/sources.list", ""},
};

#define NSSWITCH(hosts)                                                                      \
	{                                                                                    \
		"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: " hosts \
				 "\nservices: files\nprotocols: files\n"                     \
	}

static const struct etc_file without_network[] = {
	{"apt/apt.conf", "Acquire::Retries \"0\"; // no network in this workspace\n"},
	/*
	 * The server is an address for documentation (RFC 5737), to which there is no route: a
	 * look-up fails at once, and the kernel counts it (network_tries.h). Without the last
	 * "files" the C library would say that the failure is temporary.
	 */
	{"resolv.conf", "# no network in this workspace: every look-up fails at once\n"
			"nameserver 192.0.2.1\noptions attempts:1 timeout:1\n"},
	NSSWITCH("files dns files"),
};

static const struct etc_file with_network[] = {
	/*
	 * cloister-egress is there (worker/spawner/cell/cell_sockets.c), and takes no second to be
	 * started again. Where cloisterd has closed its socket, a look-up fails at once.
	 */
	{"resolv.conf", "# names that this workspace may reach have one address, others have none\n"
			"nameserver 127.0.0.1\noptions attempts:5 timeout:1\n"},
	NSSWITCH("files dns"),
};

static int write_files(int etc, const struct etc_file *files, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = write_etc_file(etc, files[i].name, files[i].text);
	return r;
}

/* apt(8) complains about each that is missing. */
static int make_directories(int etc)
{
	static const char *const names[] = {"apt", "apt/apt.conf.d", "apt/auth.conf.d",
		"apt/preferences.d", "apt/sources.list.d", "apt/trusted.gpg.d"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (mkdirat(etc, names[i], 0755) < 0)
			return -errno;
	return 0;
}

int etc_write_synthesised(int etc, const char *home, bool has_network)
{
	char passwd[512];
	int r;

	snprintf(passwd, sizeof(passwd),
		"root:x:0:0:root:/:/usr/sbin/nologin\n"
		"agent:x:1000:1000:agent:%s:/bin/sh\n"
		"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		home);
	r = make_directories(etc);
	if (r == 0)
		r = write_etc_file(etc, "passwd", passwd);
	if (r == 0)
		r = write_files(etc, always, ARRAY_SIZE(always));
	if (r < 0)
		return r;
	return has_network ? write_files(etc, with_network, ARRAY_SIZE(with_network))
			   : write_files(etc, without_network, ARRAY_SIZE(without_network));
}
