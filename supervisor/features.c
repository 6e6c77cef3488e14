// SPDX-License-Identifier: Apache-2.0
/* cloisterd, before lock-down. */
#include "supervisor/features.h"

#include "common/cleanup.h"
#include "supervisor/fd_closer.h"
#include "supervisor/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* SO_PASSRIGHTS, socket(7). */
static bool refuses_descriptors(void)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && fd_closer_refuse_instead(fd);
}

static const struct feature {
	const char *name;
	bool (*is_there)(void); /* NULL: this version does not use it, so nobody has it */
	const char *remedy;
} features[] = {
	{"cgroups", NULL, "this version of cloister does not use cgroups yet"},
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

int features_check(const struct string_list *required, char **ret_message)
{
	for (size_t i = 0; i < required->count; i++) {
		const struct feature *feature = find(required->strings[i]);

		if (feature && feature->is_there && feature->is_there())
			continue;
		if (asprintf(ret_message, "the configuration requires %s: %s", required->strings[i],
			    feature ? feature->remedy : "there is no such feature") < 0)
			*ret_message = NULL;
		return -ENOTSUP;
	}
	return 0;
}
