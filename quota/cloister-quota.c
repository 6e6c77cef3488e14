// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-quota: gives the ids of disk classes their limits on the file system of the state
 * directory, before cloisterd starts. It runs as root, once, and nothing else of cloister does. It
 * reads root's configuration, /etc/subuid and /etc/subgid, and no file that another user could have
 * written; a mistake in any of them changes nothing.
 */
#include "common/cleanup.h"
#include "common/disk_quota.h"
#include "common/subordinate_ids.h"
#include "quota/quota_apply.h"
#include "quota/quota_config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_CONFIG    "/etc/cloister/cloister.conf"
#define DEFAULT_STATE_DIR "/var/lib/cloister"
#define DEFAULT_USER      "cloister"

struct options {
	const char *config, *state_dir, *user;
	bool look; /* change nothing */
};

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("cloister-quota: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static bool parse_command_line(int argc, char **argv, struct options *ret)
{
	static const struct option names[] = {{"config", required_argument, NULL, 'c'},
		{"state-dir", required_argument, NULL, 's'}, {"user", required_argument, NULL, 'u'},
		{"check", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
	int option;

	*ret = (struct options){.config = DEFAULT_CONFIG};
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'c')
			ret->config = optarg;
		else if (option == 's')
			ret->state_dir = optarg;
		else if (option == 'u')
			ret->user = optarg;
		else if (option == 'n')
			ret->look = true;
		else
			return false;
	}
	return optind == argc;
}

/* Finds the ids of the service's user, and checks that the classes fit. */
static int find_range(const struct disk_classes *classes, const char *name, struct id_range *ret)
{
	const struct passwd *entry = getpwnam(name);
	struct subordinate_user user;
	uint32_t managed;
	int r;

	if (!entry) {
		say("there is no user %s: name the one that cloisterd runs as with --user", name);
		return -ENOENT;
	}
	user = (struct subordinate_user){entry->pw_name, entry->pw_uid, entry->pw_gid};
	r = subordinate_ids_find("/etc", &user, ret);
	if (r < 0) {
		say("the user %s has no usable range in /etc/subuid and /etc/subgid: %s", name,
			strerror(-r));
		return r;
	}
	managed = disk_classes_managed(ret->count).count;
	if (disk_classes_ids(classes) <= managed)
		return 0;
	say("disk_classes: the classes have %llu ids, and the range of %s has only %u for "
	    "managed workspaces",
		(unsigned long long)disk_classes_ids(classes), name, managed);
	return -ERANGE;
}

/* The service's user may own what is below the directory, so no link is followed on the way. */
static int open_state(const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd < 0)
		say("%s: %s", path, strerror(errno));
	return fd;
}

static int apply(int fd, const char *path, const struct disk_classes *classes,
	const struct id_range *range, bool look)
{
	struct quota_counts counts;
	int r;

	if (!disk_quota_is_counted(fd)) {
		say("the file system of %s counts no user's quota: for ext4, unmount it and run "
		    "tune2fs -O quota DEVICE; for XFS, mount it with uquota (for the root file "
		    "system: rootflags=uquota on the kernel's command line)",
			path);
		return -ENOTSUP;
	}
	r = look ? 0 : disk_quota_enforce(fd);
	if (r == 0)
		r = quota_apply(fd, classes, range, look, &counts);
	if (r < 0) {
		say("%s: %s", path, strerror(-r));
		return r;
	}
	if (look && !disk_quota_is_enforced(fd))
		say("%s: the kernel counts, and does not enforce limits yet", path);
	say("%s: %u ids of %zu classes, %u %s", path, counts.ids, classes->count, counts.changed,
		look ? "to be changed" : "changed");
	return look && (counts.changed > 0 || !disk_quota_is_enforced(fd)) ? -EAGAIN : 0;
}

/* Returns the first one that is given. */
static const char *first_of(const char *option, const char *configured, const char *otherwise)
{
	if (option)
		return option;
	return configured ? configured : otherwise;
}

static int run_quota(const struct options *options, const struct quota_config *config)
{
	const char *state = first_of(options->state_dir, config->state_dir, DEFAULT_STATE_DIR);
	const char *user = first_of(options->user, config->user, DEFAULT_USER);
	_cleanup_close_ int fd = -1;
	struct id_range range;

	if (config->classes.count == 0) {
		say("%s has no disk_classes: nothing to do", options->config);
		return 0;
	}
	if (find_range(&config->classes, user, &range) < 0)
		return 1;
	fd = open_state(state);
	return fd < 0 || apply(fd, state, &config->classes, &range, options->look) < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct quota_config config;
	struct options options;
	int r;

	if (!parse_command_line(argc, argv, &options)) {
		fputs("usage: cloister-quota [--config FILE] [--state-dir DIR] [--user NAME] "
		      "[--check]\n",
			stderr);
		return 2;
	}
	r = quota_config_read(options.config, 0, &config);
	if (r == -EPERM)
		say("%s, its drop-ins and the directories that they are in must belong to root",
			options.config);
	else if (r < 0 && r != -EINVAL)
		say("%s: %s", options.config, strerror(-r));
	if (r < 0)
		return 1;
	r = run_quota(&options, &config);
	quota_config_done(&config);
	return r;
}
