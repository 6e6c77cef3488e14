// SPDX-License-Identifier: Apache-2.0
#include "common/host_root.h"

#include <stdio.h>
#include <unistd.h>

bool host_root_is_us(void)
{
	unsigned long inside, outside, count;
	bool host = true;
	FILE *map;

	if (geteuid() != 0)
		return false;
	map = fopen("/proc/self/uid_map", "re");
	if (!map)
		return true;
	while (fscanf(map, "%lu %lu %lu", &inside, &outside, &count) == 3)
		if (inside == 0)
			host = outside == 0;
	fclose(map);
	return host;
}
