/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The name of a process, for the programs that trace children of others. proc_pid_comm(5) */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

static inline bool has_name(pid_t pid, const char *name)
{
	char path[64], found[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(found, sizeof(found), file))
		found[0] = '\0';
	fclose(file);
	found[strcspn(found, "\n")] = '\0';
	return strcmp(found, name) == 0;
}
