// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. Compares paths only, and trusts the user's environment and passwd(5). */
#include "client/default_workspace.h"

#include "client/complain.h"
#include "common/array.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Private paths in a home directory. A project may have settings of the same programs, such as
 * .claude/settings.json and .codex/config.toml. So the list has only what a program keeps in the
 * home directory.
 */
static const char *const private_paths[] = {
	".ssh",
	".gnupg",
	".claude.json",
	".claude/.credentials.json",
	".codex/auth.json",
	".gemini/oauth_creds.json",
	".gemini/google_accounts.json",
	".config/opencode",
	".local/share/opencode",
	".config/zed",
	".config/cloister",
	".cline",
};

/* Variables with which the user moves such a directory elsewhere. */
static const char *const private_variables[] = {"GNUPGHOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"};

/* Whether @path is @directory or below it. Both are real paths. */
static bool is_within(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	if (len > 0 && directory[len - 1] == '/')
		len--;
	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int refuse_default_workspace(const char *directory, const char *what)
{
	complain_code("UNSAFE_WORKSPACE",
		"%s %s: an agent there could read and change more than a project. Start cloister "
		"in the project's directory, or name the workspace: --workspace DIR",
		directory, what);
	return -EACCES;
}

static int check_home(const char *directory, const char *home)
{
	_cleanup_free_ char *real = home && *home ? realpath(home, NULL) : NULL;

	if (!real || strcmp(real, "/") == 0 || !is_within(real, directory))
		return 0;
	return refuse_default_workspace(directory, strcmp(real, directory) == 0
							   ? "is your home directory"
							   : "holds your home directory");
}

/* Refuses @directory because of the private path @path, which may not exist. @shown is its name in
 * the message. */
static int check_private(const char *directory, const char *path, const char *shown)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	char what[PATH_MAX + 32];

	if (!real || !(is_within(real, directory) || is_within(directory, real)))
		return 0;
	snprintf(what, sizeof(what), "%s %s", is_within(directory, real) ? "is part of" : "holds",
		shown);
	return refuse_default_workspace(directory, what);
}

/* Refuses @directory if it holds a private path of @home, or is below one. */
static int check_private_paths(const char *directory, const char *home)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(private_paths) && r == 0; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", home, private_paths[i]) <
			(int)sizeof(path))
			r = check_private(directory, path, private_paths[i]);
	}
	return r;
}

int default_workspace_check(const char *directory)
{
	const struct passwd *entry = getpwuid(geteuid());
	const char *homes[] = {getenv("HOME"), entry ? entry->pw_dir : NULL};
	int r;

	if (strcmp(directory, "/") == 0)
		return refuse_default_workspace(directory, "is the root directory");
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
		r = check_home(directory, homes[i]);
		if (r == 0 && homes[i] && *homes[i])
			r = check_private_paths(directory, homes[i]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(private_variables); i++) {
		const char *path = getenv(private_variables[i]);

		r = path && *path ? check_private(directory, path, private_variables[i]) : 0;
		if (r < 0)
			return r;
	}
	/* also if it is a copy of a home, or another user's home */
	return check_private_paths(directory, directory);
}
