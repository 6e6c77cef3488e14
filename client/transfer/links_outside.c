// SPDX-License-Identifier: Apache-2.0
/* Runs as the calling user. The files are a workspace's, so what they say is escaped. */
#include "client/transfer/links_outside.h"

#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Whether commands see the absolute @path: of the system, the workspace or what is shown. */
static bool is_seen(const char *path, const char *directory, const char *const *shown)
{
	static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};

	for (size_t i = 0; i < ARRAY_SIZE(system); i++)
		if (is_below(path, system[i]))
			return true;
	for (; *shown; shown++)
		if (is_below(path, *shown))
			return true;
	return is_below(path, directory);
}

static void tell_link_outside(const char *name, const char *path, const char *advice)
{
	_cleanup_free_ char *escaped = terminal_text(path);

	fprintf(stderr,
		"cloister: %s leads to %s, which commands do not see: %s, or show it by "
		"--readonly-path (a service's administrator: readonly_paths)\n",
		name, escaped ? escaped : "?", advice);
}

/* Reads the start of the file or, if @is_link, the target of the link. Returns whether it is there.
 */
static bool look_at_link(int directory, const char *name, bool is_link, char text[PATH_MAX])
{
	_cleanup_close_ int fd = -1;
	ssize_t n;

	if (is_link) {
		n = readlinkat(directory, name, text, PATH_MAX - 1);
	} else {
		fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, PATH_MAX - 1);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

void links_outside_tell(const char *directory, const char *const *shown)
{
	static const char prefix[] = "gitdir: ";
	static const char *const pythons[] = {".venv/bin/python", "venv/bin/python"};
	_cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char real[PATH_MAX], text[PATH_MAX];

	if (fd < 0 || !realpath(directory, real))
		return;
	if (look_at_link(fd, ".git", false, text) &&
		strncmp(text, prefix, sizeof(prefix) - 1) == 0 && text[sizeof(prefix) - 1] == '/' &&
		!is_seen(text + sizeof(prefix) - 1, real, shown))
		tell_link_outside("this is a linked git worktree: .git", text + sizeof(prefix) - 1,
			"open the repository itself");
	for (size_t i = 0; i < ARRAY_SIZE(pythons); i++)
		if (look_at_link(fd, pythons[i], true, text) && *text == '/' &&
			!is_seen(text, real, shown))
			tell_link_outside(
				pythons[i], text, "make the environment in the workspace");
}
