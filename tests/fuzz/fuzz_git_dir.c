/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * A `.git` of any bytes, and a commondir of any bytes in one of the git directories that it may
 * lead to. What is found is in the workspace, which has a repository beside it, and has what git
 * demands of a git directory.
 *
 * Input: one byte of flags, the `.git` up to a line of %%, the commondir.
 */
#include "common/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/scratch.h"
#include "worker/files/walk/git_dir.h"

#define LINK    1 /* `.git` is a link */
#define WHOLE   2 /* commands see the workspace as `/` */
#define IN_ROOT 4 /* it is the workspace's root that has it */

static struct scratch scratch;
static int workspace = -1;

static void remove_scratch(void)
{
	close(workspace);
	scratch_done(&scratch);
}

static void put_git_dir(const char *path)
{
	static const char *const names[] = {"HEAD", "objects/x", "refs/x"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[128];

		snprintf(name, sizeof(name), "%s/%s", path, names[i]);
		scratch_text(&scratch, name, "");
	}
}

static void set_up(void)
{
	scratch = scratch_new();
	put_git_dir("out/g");
	put_git_dir("ws/g");
	put_git_dir("ws/w");
	scratch_parents(&scratch, "ws/d/");
	scratch_link(&scratch, "ws/o", "../out/g");
	scratch_link(&scratch, "ws/a", "/ws/g");
	scratch_link(&scratch, "ws/l", "g");
	scratch_link(&scratch, "ws/loop", "loop");
	workspace = openat(scratch.fd, "ws", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(workspace >= 0);
	atexit(remove_scratch);
}

/* Makes the file @name of the directory @dirfd. Returns false if there is none of these bytes. */
static bool put(int dirfd, const char *name, struct text bytes, bool is_link)
{
	_cleanup_close_ int fd = -1;
	char target[4096];

	(void)unlinkat(dirfd, name, 0);
	if (is_link) {
		if (bytes.len >= sizeof(target))
			return false;
		*(char *)mempcpy(target, bytes.data, bytes.len) = '\0';
		return symlinkat(target, dirfd, name) == 0;
	}
	fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, bytes.data, bytes.len) == (ssize_t)bytes.len);
	return true;
}

static bool has(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void check_inside(int fd)
{
	char name[32], path[512], inside[sizeof(scratch.path) + 8];
	ssize_t len;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	snprintf(inside, sizeof(inside), "%s/ws/", scratch.path);
	len = readlink(name, path, sizeof(path) - 1);
	CHECK(len > 0);
	path[len] = '\0';
	CHECK(strncmp(path, inside, strlen(inside)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text common = fuzz_text(data, size);
	uint8_t flags = fuzz_byte(&common);
	struct text dot_git = fuzz_section(&common, TEXT_LITERAL("\n%%\n"));
	struct git_dir found;
	struct root root = {.proc_self_fd = -1,
		.visible = flags & WHOLE ? TEXT_LITERAL("/") : TEXT_LITERAL("/ws")};
	_cleanup_close_ int dir = -1;

	if (!scratch.path[0])
		set_up();
	root.fd = workspace;
	dir = openat(workspace, flags & IN_ROOT ? "." : "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
	if (!put(dir, ".git", dot_git, flags & LINK))
		return -1;
	(void)unlinkat(workspace, "w/commondir", 0);
	if (common.len > 0)
		put(workspace, "w/commondir", common, false);
	found = git_dir_find(
		&root, dir, flags & IN_ROOT ? TEXT_LITERAL("") : TEXT_LITERAL("d"), true);
	CHECK(found.followed);
	CHECK(found.own < 0 || found.repository);
	CHECK(found.common < 0 || found.own >= 0);
	if (found.own >= 0) {
		const int shared = found.common < 0 ? found.own : found.common;

		check_inside(found.own);
		check_inside(shared);
		CHECK(has(found.own, "HEAD") && has(shared, "objects") && has(shared, "refs"));
	}
	close_fd(&found.own);
	close_fd(&found.common);
	(void)unlinkat(dir, ".git", 0);
	return 0;
}
