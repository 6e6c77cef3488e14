// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/id_range.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

const struct id_range *fake_id_range;
int fake_id_range_mapped;

const struct id_range *id_range(void)
{
	return fake_id_range;
}

int id_range_map(const struct id_range *range, pid_t pid, char **ret_message)
{
	(void)pid;
	if (fake_id_range_mapped < 0)
		*ret_message = strdup("the ids cannot be mapped");
	else
		fake_id_range = range;
	return fake_id_range_mapped;
}

int id_range_find(const char *etc, struct id_range *ret)
{
	(void)etc;
	(void)ret;
	return -ENOENT;
}

bool id_range_can_map(void)
{
	return false;
}

bool id_range_has_helpers(void)
{
	return false;
}
