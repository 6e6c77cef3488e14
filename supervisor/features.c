// SPDX-License-Identifier: Apache-2.0
/* cloisterd, before lock-down. */
#include "supervisor/features.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "supervisor/cgroup.h"
#include "supervisor/fd_closer.h"
#include "supervisor/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* SO_PASSRIGHTS, socket(7). */
static bool refuses_descriptors(const struct cgroup *cgroup)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)cgroup;
	return fd >= 0 && fd_closer_refuse_instead(fd);
}

static bool has_cgroup(const struct cgroup *cgroup)
{
	const unsigned needed = CGROUP_MEMORY | CGROUP_PIDS;

	return (cgroup->controllers & needed) == needed;
}

static const struct feature {
	const char *name;
	bool (*is_there)(const struct cgroup *cgroup); /* NULL: this version does not use it, so
							  nobody has it */
	const char *remedy;
} features[] = {
	{"cgroups", has_cgroup,
		"no cgroup with the memory and pids controllers is delegated to cloisterd: start "
		"it "
		"as a service with Delegate=yes"},
	{"landlock", NULL, "this version of cloister does not use Landlock yet"},
	{"passrights", refuses_descriptors,
		"the kernel cannot refuse descriptors on a socket (SO_PASSRIGHTS): run Linux 6.16 "
		"or later"},
};

static const struct feature *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		if (strcmp(features[i].name, name) == 0)
			return &features[i];
	return NULL;
}

bool feature_is_known(const char *name)
{
	return find(name) != NULL;
}

const char *feature_names(void)
{
	static char names[128];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(features) && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "",
			features[i].name);
	return names;
}

int features_check(
	const struct string_list *required, const struct cgroup *cgroup, char **ret_message)
{
	for (size_t i = 0; i < required->count; i++) {
		const struct feature *feature = find(required->strings[i]);

		if (feature && feature->is_there && feature->is_there(cgroup))
			continue;
		if (asprintf(ret_message, "the configuration requires %s: %s", required->strings[i],
			    feature ? feature->remedy : "there is no such feature") < 0)
			*ret_message = NULL;
		return -ENOTSUP;
	}
	return 0;
}
