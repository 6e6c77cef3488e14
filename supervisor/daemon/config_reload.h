/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reloads the configuration on SIGHUP. The new one replaces the old one completely or not at all.
 * Calls that have begun keep the tenant with which they began. A client keeps its open workspaces
 * if the new configuration allows them, which its next request checks.
 */

#include "supervisor/config/config.h"

struct config_reload;
struct config_source;
struct service;
struct spawner_link;

/**
 * Reads the configuration of @source and logs every mistake. Returns NULL if there is one. Call it
 * before lock-down.
 */
struct config *config_reload_first(const struct config_source *source);

/**
 * Begins to handle SIGHUP. Borrows @source and @spawner. The spawner reloads too. Returns NULL if
 * memory is out.
 */
struct config_reload *config_reload_new(
	struct service *service, struct config_source *source, struct spawner_link *spawner);

/**
 * Reads the configuration again. Returns 0; -EINVAL if it has mistakes, which are logged, or
 * changes a key that cannot change; or another -errno. After an error the old one stays, and
 * *ret_first is the first mistake (malloc'ed; NULL if memory is out or the file cannot be read).
 */
int config_reload_now(struct config_reload *reload, char **ret_first);

/** NULL is allowed. */
void config_reload_free(struct config_reload *reload);
