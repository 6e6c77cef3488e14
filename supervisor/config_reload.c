// SPDX-License-Identifier: Apache-2.0
/* cloisterd, behind its own filter: what is read here is read through directories that were opened
 * before, and NSS is not asked. */
#include "supervisor/config_reload.h"

#include "common/limits.h"
#include "supervisor/config_keys.h"
#include "supervisor/log.h"
#include "supervisor/service.h"
#include "supervisor/workspace.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct config_reload {
	struct service *service;
	struct config_source *source;
	struct event *hang_up;
};

/* A file of nothing but mistakes must not fill the log. */
struct logged {
	unsigned long count;
	unsigned long limit; /* 0: none */
};

static void log_mistake(void *context, const char *file, unsigned line, const char *message)
{
	struct logged *logged = context;

	if (++logged->count > logged->limit && logged->limit > 0)
		return;
	if (line > 0)
		log_error("%s:%u: %s", file, line, message);
	else
		log_error("%s: %s", file, message);
}

static int load(const struct config_source *source, unsigned long limit, struct config **ret)
{
	struct logged logged = {.limit = limit};
	struct config_complaints complaints = {log_mistake, &logged};
	int r = config_load(source, &complaints, ret);

	if (r < 0 && r != -EINVAL)
		log_error("the configuration cannot be read: %s", strerror(-r));
	if (limit > 0 && logged.count > limit)
		log_error("and %lu more mistakes", logged.count - limit);
	for (size_t i = 0; r == 0 && i < (*ret)->notes.count; i++)
		log_warning("%s", (*ret)->notes.strings[i]);
	return r;
}

struct config *config_reload_first(const struct config_source *source)
{
	struct config *config = NULL;

	(void)load(source, 0, &config);
	return config;
}

/* Sockets are bound and the user is who it is: lock-down leaves no way to change them. */
static bool changes_only_what_can(struct config *old, struct config *new)
{
	bool fine = true;

	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];

		if (!key->at_start || config_key_equal(key, &old->host, &new->host))
			continue;
		log_error("%s cannot change while cloisterd runs: restart it", key->name);
		fine = false;
	}
	return fine;
}

int config_reload_now(struct config_reload *reload)
{
	struct service *service = reload->service;
	struct config *old = service->config, *new = NULL;
	int r = load(reload->source, LIMIT_CONFIG_LOGGED, &new);

	if (r == 0 && !changes_only_what_can(old, new))
		r = -EINVAL;
	if (r < 0) {
		config_release(new);
		log_error("the configuration is not reloaded: the old one stays");
		return r;
	}
	for (size_t i = 0; i < new->n_tenants; i++) {
		const struct tenant *former = config_find_tenant(old, new->tenants[i]->name);

		if (former)
			tenant_follow(new->tenants[i], former);
	}
	service->config = new;
	workspaces_reload(service->workspaces, new);
	config_release(old);
	log_info("the configuration is reloaded: %zu tenants", new->n_tenants);
	return 0;
}

static void on_hang_up(evutil_socket_t number, short what, void *context)
{
	(void)number;
	(void)what;
	(void)config_reload_now(context);
}

struct config_reload *config_reload_new(struct service *service, struct config_source *source)
{
	struct config_reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return NULL;
	reload->service = service;
	reload->source = source;
	reload->hang_up = evsignal_new(service->base, SIGHUP, on_hang_up, reload);
	if (!reload->hang_up || event_add(reload->hang_up, NULL) < 0) {
		config_reload_free(reload);
		return NULL;
	}
	return reload;
}

void config_reload_free(struct config_reload *reload)
{
	if (!reload)
		return;
	if (reload->hang_up)
		event_free(reload->hang_up);
	free(reload);
}
