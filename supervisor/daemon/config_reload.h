/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading the configuration while cloisterd serves: on SIGHUP all of the new one takes the old
 * one's place, or none of it. What has begun keeps what it began with; what a client has open it
 * keeps if the new one still allows it, which is decided at its next request.
 */

#include "supervisor/config/config.h"

struct config_reload;
struct config_source;
struct service;
struct spawner_link;

/** The configuration of @source, every mistake logged; NULL when there is one. Before lock-down. */
struct config *config_reload_first(const struct config_source *source);

/** Begins to listen for SIGHUP. @source and @spawner, which is told, are borrowed. NULL: out of
 * memory. */
struct config_reload *config_reload_new(
	struct service *service, struct config_source *source, struct spawner_link *spawner);

/** Reads the configuration again. 0; -EINVAL: it has mistakes, which are logged, or changes what
 * cannot change; or another -errno. Then the old one stays, and the first of the mistakes is in
 * *ret_first (malloc'ed; NULL: out of memory, or the file cannot be read). */
int config_reload_now(struct config_reload *reload, char **ret_first);

/** NULL is fine. */
void config_reload_free(struct config_reload *reload);
