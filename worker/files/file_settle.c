// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process; the tenant may change the files meanwhile. */
#include "worker/files/file_settle.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* One that cannot be read is compared with nothing, so that it is not found changed. */
static int settle_file(const struct root_place *place)
{
	_cleanup_close_ int fd = openat(place->parent, place->name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return fsync(fd) < 0 ? -errno : 0;
}

int file_settle_directory(int parent)
{
	_cleanup_close_ int fd = -1;

	if (fsync(parent) == 0)
		return 0;
	if (errno == EBADF) /* it was opened with O_PATH */
		fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else if (errno != EINVAL)
		return -errno;
	if (fd >= 0 && fsync(fd) < 0 && errno != EINVAL)
		return -errno;
	return 0;
}

int file_settle(const struct root *root, struct text path)
{
	struct root_place place = ROOT_PLACE_NONE;
	int r = 0;

	if (root_place(root, path, false, &place) == TOOL_OK && place.parent >= 0) {
		r = settle_file(&place);
		if (r == 0)
			r = file_settle_directory(place.parent);
	}
	root_place_done(&place);
	return r;
}
