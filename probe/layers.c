// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program, in a workspace whose files are an overlay's: tries
 * to forge what an overlay believes of its layers. The file inside/f is of a lower layer.
 */
#include "probe/probe.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Answers what is shown after the attribute user.overlay.@name was tried on what is there. */
static const char *forge(const char *name, const char *value)
{
	static const char *const paths[] = {".", "inside", "inside/f", NULL};

	for (const char *const *path = paths; *path; path++)
		RAW5(SYS_setxattr, *path, name, value, probe_length(value), 0);
	return probe_begins(probe_read("inside/f"), "secret") ? "shown" : "changed";
}

static const char *opaque(void)
{
	return forge("user.overlay.opaque", "y");
}

static const char *opaque_marks(void)
{
	return forge("user.overlay.opaque", "x");
}

static const char *redirect(void)
{
	return forge("user.overlay.redirect", "/../../../etc");
}

static const char *metacopy(void)
{
	return forge("user.overlay.metacopy", "");
}

static const char *mark_whiteout(void)
{
	return forge("user.overlay.whiteout", "");
}

/* A device with the number 0, 0 stands for a deleted file. */
static const char *whiteout(void)
{
	return probe_answer(RAW4(SYS_mknodat, AT_FDCWD, "inside/gone", S_IFCHR, 0));
}

/* A handle of a layer's file would be one of the host's file system. */
static const char *probe_overlay_handle(void)
{
	static struct {
		unsigned bytes;
		int type;
		char data[128];
	} probe_overlay_handle = {.bytes = sizeof(probe_overlay_handle.data)};
	static int mount;

	return probe_answer(RAW5(
		SYS_name_to_handle_at, AT_FDCWD, "inside/f", &probe_overlay_handle, &mount, 0));
}

/* The options of the mount, proc_pid_mountinfo(5), name its layers: not by paths of the host. */
static const char *options(void)
{
	static char text[64 * 1024];
	long fd = RAW4(SYS_openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0), n;
	unsigned long length = 0;
	const char *answer = "none";

	if (fd < 0)
		return probe_answer(fd);
	while ((n = RAW3(SYS_read, fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += (unsigned long)n;
	RAW1(SYS_close, fd);
	text[length] = '\0';
	for (const char *at = text; *at; at++)
		if (probe_begins(at, "dir=/") || probe_begins(at, ":/") ||
			probe_begins(at, "dir+=/"))
			return "host";
		else if (probe_begins(at, "lowerdir"))
			answer = "own";
	return answer;
}

const struct probe probes_of_layers[] = {
	{"layer-opaque", opaque},
	{"layer-opaque-marks", opaque_marks},
	{"layer-redirect", redirect},
	{"layer-metacopy", metacopy},
	{"layer-whiteout-mark", mark_whiteout},
	{"layer-whiteout", whiteout},
	{"layer-handle", probe_overlay_handle},
	{"layer-options", options},
	{NULL, NULL},
};
