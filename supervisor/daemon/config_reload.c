// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd after lock-down: files are read through directories that were opened before,
 * and NSS is not used.
 */
#include "supervisor/daemon/config_reload.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/log.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/service.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_keys.h"
#include "supervisor/config/config_load.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config_reload {
	struct service *service;
	struct config_source *source;
	struct spawner_link *spawner;
	struct event *hang_up;
};

/* A file full of mistakes must not fill the log. */
struct logged {
	unsigned long count;
	unsigned long limit; /* 0: none */
	char *first;         /* the first mistake, as logged; NULL: none yet, or memory is out */
};

static void log_reload_mistake(void *context, const char *file, unsigned line, const char *message)
{
	struct logged *logged = context;
	char number[16] = "";

	if (++logged->count > logged->limit && logged->limit > 0)
		return;
	if (line > 0)
		snprintf(number, sizeof(number), ":%u", line);
	log_about(LOG_ERR,
		LOG_FIELDS({"CONFIG_FILE", text_from(file)},
			{"CONFIG_LINE", text_from(line > 0 ? number + 1 : NULL)}),
		"%s%s: %s", file, number, message);
	if (logged->count == 1 &&
		(line > 0 ? asprintf(&logged->first, "%s:%u: %s", file, line, message)
			  : asprintf(&logged->first, "%s: %s", file, message)) < 0)
		logged->first = NULL;
}

static void log_no_effect(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	log_warning("%s:%u: %s", file, line, message);
}

/* @ret_first is the first mistake, malloc'ed, or NULL. */
static int load_new_config(const struct config_source *source, unsigned long limit,
	struct config **ret, char **ret_first)
{
	struct logged logged = {.limit = limit};
	struct config_complaints complaints = {log_reload_mistake, &logged, log_no_effect};
	int r = config_load(source, &complaints, ret);

	if (r < 0 && r != -EINVAL)
		log_error("the configuration cannot be read: %s", strerror(-r));
	if (limit > 0 && logged.count > limit)
		log_error("and %lu more mistakes", logged.count - limit);
	*ret_first = logged.first;
	return r;
}

struct config *config_reload_first(const struct config_source *source)
{
	_cleanup_free_ char *first = NULL;
	struct config *config = NULL;

	(void)load_new_config(source, 0, &config, &first);
	return config;
}

/* After lock-down the sockets and the user cannot change. */
static bool changes_only_what_can(struct config *old, struct config *new, char **ret_first)
{
	bool fine = true;

	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];

		if (!key->at_start || config_key_equal(key, &old->host, &new->host))
			continue;
		log_error("%s is fixed at start: restart cloisterd to change it", key->name);
		if (fine &&
			asprintf(ret_first, "%s is fixed at start: restart cloisterd to change it",
				key->name) < 0)
			*ret_first = NULL;
		fine = false;
	}
	return fine;
}

static bool shows_nothing_own(
	const struct workspaces *workspaces, struct config *new, char **ret_first)
{
	const char *path = workspaces_own_shown(workspaces, new);

	if (!path)
		return true;
	log_error("readonly_paths: %s would show cloister's own files", path);
	free(*ret_first);
	if (asprintf(ret_first, "readonly_paths: %s would show cloister's own files", path) < 0)
		*ret_first = NULL;
	return false;
}

/* Only before its lock-down can cloisterd start cloister-egress. */
static bool has_egress_if_needed(
	const struct service *service, const struct config *new, char **ret_first)
{
	static const char message[] =
		"network = egress needs cloister-egress, which cloisterd starts only "
		"when a tenant has it at the start: restart cloisterd";

	if (service->egress || !config_has_network(new))
		return true;
	log_error("%s", message);
	free(*ret_first);
	*ret_first = strdup(message);
	return false;
}

static int reload_now(struct config_reload *reload, char **ret_first)
{
	_cleanup_free_ char *first = NULL;
	struct service *service = reload->service;
	struct config *old = service->config, *new = NULL;
	int r;

	/*
	 * The log is opened again even if the configuration has mistakes: a log rotation also sends
	 * SIGHUP.
	 */
	audit_reopen(service->audit);
	r = load_new_config(reload->source, LIMIT_CONFIG_LOGGED, &new, &first);

	if (r == 0 && (!changes_only_what_can(old, new, &first) ||
			      !shows_nothing_own(service->workspaces, new, &first) ||
			      !has_egress_if_needed(service, new, &first)))
		r = -EINVAL;
	if (r == 0)
		r = usage_begin_all(new, old);
	if (r < 0) {
		config_release(new);
		log_error("the configuration was not reloaded: the old one stays in force");
		*ret_first = TAKE_PTR(first);
		return r;
	}
	service->config = new;
	scheduler_set_config(service->admission.scheduler, new);
	keys_configure(service->keys, new);
	audit_share(service->audit, new->n_tenants);
	workspaces_reload(service->workspaces, new);
	if (!service->retiring)
		leases_look(workspaces_leases(service->workspaces), new, false);
	session_reload(new);
	spawner_link_reload(reload->spawner);
	egress_link_reload(service->egress);
	config_release(old);
	log_info("the configuration is reloaded: %zu tenants", new->n_tenants);
	return 0;
}

int config_reload_now(struct config_reload *reload, char **ret_first)
{
	int r;

	notify_reloading();
	r = reload_now(reload, ret_first);
	notify_ready();
	return r;
}

static void on_hang_up(evutil_socket_t number, short what, void *context)
{
	_cleanup_free_ char *first = NULL;
	struct config_reload *reload = context;
	int r;

	(void)number;
	(void)what;
	r = config_reload_now(reload, &first);
	audit_act(reload->service->audit, NULL, "reload", (struct text){NULL, 0},
		r < 0 ? tool_error_name(TOOL_EXECUTION_ERROR) : "done");
}

struct config_reload *config_reload_new(
	struct service *service, struct config_source *source, struct spawner_link *spawner)
{
	struct config_reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return NULL;
	reload->service = service;
	reload->source = source;
	reload->spawner = spawner;
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
