// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, at its start. Paths are the administrator's, or of the user who started it. */
#include "supervisor/daemon/daemon.h"

#include "supervisor/base/log.h"
#include "supervisor/config/config.h"

#include <stdlib.h>
#include <string.h>

_Noreturn void die(const char *what, int error)
{
	log_error("%s: %s", what, strerror(error < 0 ? -error : error));
	exit(1);
}

_Noreturn void die_with(const char *message)
{
	log_error("%s", message);
	exit(1);
}

bool daemon_is_system(const struct daemon *daemon)
{
	return daemon->service.config->host.mode == CONFIG_MODE_SYSTEM;
}

char *daemon_canonical_path(const char *path)
{
	char *canonical = realpath(path, NULL);

	return canonical ? canonical : strdup(path);
}

void daemon_own_path(struct daemon *daemon, const char *path)
{
	char *canonical = daemon_canonical_path(path);
	size_t i = 0;

	if (!canonical)
		die_with("out of memory");
	while (daemon->own_paths[i])
		i++;
	daemon->own_paths[i] = canonical;
}
