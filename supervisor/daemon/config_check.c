// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, as the user that started it, and then the process ends. */
#include "supervisor/daemon/config_check.h"

#include "supervisor/base/log.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_load.h"
#include "supervisor/config/known_sets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void print_checked_mistake(
	void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	if (line > 0)
		fprintf(stderr, "%s:%u: %s\n", file, line, message);
	else
		fprintf(stderr, "%s: %s\n", file, message);
}

static void warn(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	fprintf(stderr, "%s:%u: warning: %s\n", file, line, message);
}

int config_check(const char *path)
{
	static const struct config_complaints complaints = {print_checked_mistake, NULL, warn};
	struct config_source *source = NULL;
	struct config *config = NULL;
	int r;

	known_sets_read();
	r = config_source_open(path, &source);
	if (r == 0)
		r = config_load(source, &complaints, &config);
	/* Every mistake has been printed. */
	if (r < 0 && r != -EINVAL)
		log_error("%s: %s", path, strerror(-r));
	config_release(config);
	config_source_free(source);
	return r < 0 ? 1 : 0;
}
