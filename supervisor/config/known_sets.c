// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd at start. The file belongs to the package. */
#include "supervisor/config/known_sets.h"

#include "common/egress/shipped_sets.h"

#include <limits.h>

static struct rule_sets sets;
static bool is_known;

static void ignore_set_mistake(void *context, unsigned line, const char *message)
{
	(void)context;
	(void)line;
	(void)message;
}

void known_sets_read(void)
{
	char path[PATH_MAX];

	rule_sets_done(&sets);
	shipped_sets_path(path, sizeof(path));
	is_known = shipped_sets_read(path, ignore_set_mistake, NULL, &sets) == 0;
}

const struct rule_sets *known_sets(void)
{
	return is_known ? &sets : NULL;
}
