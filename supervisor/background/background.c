// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The command is hostile: its output is bytes, which are bounded and never
 * looked at but to find what a client waits for.
 */
#include "supervisor/background/background.h"

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/background/background_state.h"
#include "supervisor/background/background_use.h"
#include "supervisor/background/background_wait.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/ended_by.h"
#include "supervisor/call/observation.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_access.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Somebody waits until no session runs in a workspace. */
struct emptying {
	LIST_ENTRY(emptying) link;
	const struct workspace *workspace;
	void (*empty)(void *context);
	void *context;
};

static TAILQ_HEAD(, background) all = TAILQ_HEAD_INITIALIZER(all);
static TAILQ_HEAD(, background) promised = TAILQ_HEAD_INITIALIZER(promised);
static LIST_HEAD(, emptying) emptyings = LIST_HEAD_INITIALIZER(emptyings);
static size_t running;      /* of all, those that are promised among them */
static uint64_t kept_bytes; /* that the rings of all may take */

/* Ring and streams' bits, as counted from the start. */
static uint64_t cost(const struct output_ring *ring)
{
	return ring->cap + ring->cap / 8;
}

static void count_bytes(struct background *background, bool more)
{
	uint64_t bytes = more ? cost(&background->ring) : -cost(&background->ring);

	background->tenant->usage->session_bytes += bytes;
	kept_bytes += bytes;
}

static void unmake(struct background *background)
{
	output_ring_free(&background->ring);
	workspace_access_done(&background->access);
	tenant_release(background->tenant);
	free(background->name);
	free(background->command);
	free(background->place);
	free(background->end);
	free(background->ending);
	free(background->keyed_uses);
	free(background);
}

static void forget(struct background *background)
{
	assert(!background->call);
	background_tell_forgotten(background);
	TAILQ_UNLINK(&all, background, link);
	timer_cancel(&background->check);
	count_bytes(background, false);
	unmake(background);
}

/* One more runs, or is promised, and one fewer. */
static void take_place(struct background *background)
{
	background->tenant->usage->sessions++;
	running++;
}

static void give_place_back(struct background *background)
{
	assert(background->tenant->usage->sessions > 0 && running > 0);
	background->tenant->usage->sessions--;
	running--;
}

/* Its call is over, or never begins, or is to have no heir. */
static void break_promise(struct background *background)
{
	TAILQ_UNLINK(&promised, background, link);
	give_place_back(background);
	count_bytes(background, false);
	unmake(background);
}

static void tell_emptied(const struct workspace *workspace)
{
	struct emptying *emptying, *next;

	if (background_count(workspace) > 0)
		return;
	for (emptying = LIST_FIRST(&emptyings); emptying; emptying = next) {
		next = LIST_NEXT(emptying, link);
		if (emptying->workspace != workspace)
			continue;
		LIST_REMOVE(emptying, link);
		emptying->empty(emptying->context);
		free(emptying);
	}
}

/* The life of the command. */

/* Returns the observation as JSON, or NULL. */
static char *write_end(const struct observation *observation)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text json = json_text(buffer);
	size_t len;
	char *end = NULL;

	if (!buffer)
		return NULL;
	observation_write(&json, observation);
	if (json_text_flush(&json) == 0) {
		len = evbuffer_get_length(buffer);
		end = malloc(len + 1);
		if (end) {
			evbuffer_remove(buffer, end, len);
			end[len] = '\0';
		}
	}
	evbuffer_free(buffer);
	return end;
}

static void on_output(void *context, enum command_stream stream, struct text data)
{
	struct background *background = context;

	background->wrote = clock_now();
	output_ring_append(&background->ring, stream, data);
	background_tell_output(background, stream, data);
}

/* Nothing of it is left. */
static void on_done(void *context, const struct observation *observation)
{
	struct background *background = context;
	const struct workspace *workspace = background->workspace;
	const int64_t retention = (int64_t)background->tenant->limits.session_retention_ms;
	char ending[ENDING_TEXT_SIZE];

	if (background->promised) {
		break_promise(background);
		return;
	}
	background->end = write_end(observation);
	background->ending = strdup(ending_text(observation, ending, sizeof(ending)));
	background->call = NULL;
	background->workspace = NULL;
	give_place_back(background);
	timer_set(&background->check, retention);
	background_tell_ended(background);
	tell_emptied(workspace);
}

/* Returns when it ends if nothing happens until then, as clock_now(); INT64_MAX: never. */
static int64_t unused_at(const struct background *background)
{
	const struct tenant_limits *limits = &background->tenant->limits;
	int64_t left = workspace_unattended_since(background->workspace), at = INT64_MAX;

	if (left > 0 && background->waiters == 0)
		at = (left > background->used ? left : background->used) +
		     (int64_t)limits->session_detached_ms * CLOCK_NS_PER_MS;
	return at;
}

static int64_t idle_at(const struct background *background)
{
	const uint64_t idle_ms = background->tenant->limits.session_idle_ms;
	int64_t active =
		background->wrote > background->used ? background->wrote : background->used;

	return idle_ms > 0 ? active + (int64_t)idle_ms * CLOCK_NS_PER_MS : INT64_MAX;
}

/* Looks again when it may be unused or idle at the earliest. */
static void check_later(struct background *background)
{
	const struct tenant_limits *limits = &background->tenant->limits;
	int64_t now = clock_now(), unused = unused_at(background), idle = idle_at(background);
	int64_t at = now + (int64_t)limits->session_detached_ms * CLOCK_NS_PER_MS;

	if (unused < at)
		at = unused;
	if (idle < at)
		at = idle;
	timer_set_ns(&background->check, at > now ? at - now : 0);
}

static void on_check(void *context)
{
	struct background *background = context;
	int64_t now = clock_now();

	if (!background->call)
		forget(background);
	else if (unused_at(background) <= now)
		call_cancel(background->call, ENDED_BY_WORKSPACE_CLOSED);
	else if (idle_at(background) <= now)
		call_cancel(background->call, ENDED_BY_IDLE_TIMEOUT);
	else
		check_later(background);
}

/* Forgets the oldest ended one of @tenant (NULL: of any). Returns false if there is none. */
static bool forget_oldest(const struct tenant *tenant)
{
	struct background *background;

	TAILQ_FOREACH (background, &all, link)
		if (!background->call && (!tenant || background->tenant->usage == tenant->usage)) {
			forget(background);
			return true;
		}
	return false;
}

/* Returns how many of the tenant's are known, running or ended. */
static size_t known(const struct tenant *tenant)
{
	const struct background *background;
	size_t n = 0;

	TAILQ_FOREACH (background, &all, link)
		n += background->tenant->usage == tenant->usage;
	return n;
}

/* Returns how many bytes the ended ones of @tenant (NULL: of any) keep. */
static uint64_t ended_bytes(const struct tenant *tenant)
{
	const struct background *background;
	uint64_t bytes = 0;

	TAILQ_FOREACH (background, &all, link)
		if (!background->call && (!tenant || background->tenant->usage == tenant->usage))
			bytes += cost(&background->ring);
	return bytes;
}

static size_t count_promised(const struct workspace *workspace)
{
	const struct background *background;
	size_t n = 0;

	TAILQ_FOREACH (background, &promised, link)
		n += background->workspace == workspace;
	return n;
}

enum tool_error background_refuses(struct service *service, const struct workspace *workspace,
	const struct tenant *tenant, size_t output_bytes, struct refusal *ret_refusal)
{
	const struct tenant_usage *usage = tenant->usage;
	const bool shared = service->config->n_tenants > 1;
	struct output_ring wanted;
	uint64_t own;

	if (tenant->limits.sessions == 0)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"The tenant may not start sessions; an administrator can set its key "
			"sessions");
	if (usage->sessions >= tenant->limits.sessions)
		return admission_refuse_session(
			&service->admission, ADMISSION_TENANT_SESSIONS, ret_refusal);
	if (background_count(workspace) + count_promised(workspace) >=
		tenant->limits.sessions_per_workspace)
		return admission_refuse_session(
			&service->admission, ADMISSION_WORKSPACE_SESSIONS, ret_refusal);
	if (share_left(shared, LIMIT_SESSIONS, running, usage->sessions) == 0)
		return admission_refuse_session(
			&service->admission, ADMISSION_SESSIONS, ret_refusal);
	/* Ended ones are kept only where there is room, and not forgotten in vain. */
	output_ring_init(&wanted, output_bytes);
	own = usage->session_bytes - ended_bytes(tenant);
	if (share_left(false, LIMIT_SESSIONS_TENANT_BYTES, own, 0) < cost(&wanted) ||
		share_left(shared, LIMIT_SESSIONS_BYTES, kept_bytes - ended_bytes(NULL), own) <
			cost(&wanted))
		return admission_refuse_session(
			&service->admission, ADMISSION_SESSION_OUTPUT, ret_refusal);
	while (known(tenant) >= 2 * tenant->limits.sessions && forget_oldest(tenant))
		;
	while (usage->session_bytes + cost(&wanted) > LIMIT_SESSIONS_TENANT_BYTES &&
		forget_oldest(tenant))
		;
	/* Its own first: others keep what they have as long as that is possible. */
	while (kept_bytes + cost(&wanted) > LIMIT_SESSIONS_BYTES &&
		(forget_oldest(tenant) || forget_oldest(NULL)))
		;
	return TOOL_OK;
}

static int make_id(char *id)
{
	uint8_t bytes[(BACKGROUND_ID_BYTES - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int64_t shortest(int64_t wished, uint64_t allowed)
{
	return wished > 0 && wished < (int64_t)allowed ? wished : (int64_t)allowed;
}

/* Makes one that is not known yet. */
static int make(const struct workspace *workspace, const struct call_request *request,
	const struct background_wish *wish, struct background **ret)
{
	struct background *background = calloc(1, sizeof(*background));
	struct text command = request->args.command;
	int r;

	if (!background)
		return -ENOMEM;
	LIST_INIT(&background->waiting);
	background->began = background->wrote = background->used = clock_now();
	background->lifetime_ms =
		shortest(wish->lifetime_ms, request->tenant->limits.session_lifetime_ms);
	background->has_input = request->options.stdin_stream || request->options.input_later;
	background->terminal = wish->terminal;
	background->keyed = wish->key;
	if (wish->key)
		background->key = *wish->key;
	background->tenant = tenant_hold(request->tenant);
	timer_init(&background->check, on_check, background);
	output_ring_init(&background->ring, wish->output_bytes);
	command = utf8_cut(command, LIMIT_SESSION_SHOWN_BYTES);
	background->command = strndup(command.data, command.len);
	background->place = strdup(workspace_name(workspace));
	if (wish->name.data)
		background->name = strndup(wish->name.data, wish->name.len);
	r = make_id(background->id);
	if (r == 0)
		r = workspace_access_copy(workspace, &background->access);
	if (r == 0 && (!background->command || !background->place ||
			      (wish->name.data && !background->name)))
		r = -ENOMEM;
	if (r < 0) {
		unmake(background);
		return r;
	}
	*ret = background;
	return 0;
}

int background_start(struct service *service, struct workspace *workspace,
	struct call_request *request, const struct background_wish *wish, struct background **ret)
{
	struct background *background = NULL;
	struct call_owner owner = {.done = on_done, .output = on_output};
	int r = make(workspace, request, wish, &background);

	if (r < 0) {
		call_request_done(request);
		return r;
	}
	background->workspace = workspace;
	request->session = (struct call_session){.id = background->id,
		.name = background->name,
		.lifetime_ms = background->lifetime_ms,
		.terminal = wish->terminal};
	/* All output is passed on as it comes, and none is kept with the call. */
	request->options.stream = true;
	request->options.keep_output = false;
	owner.context = background;
	TAILQ_LINK_TAIL(&all, background, link);
	count_bytes(background, true);
	r = call_start(service, workspace, request, &owner, &background->call);
	if (r < 0) {
		forget(background);
		return r;
	}
	take_place(background);
	check_later(background);
	*ret = background;
	return 0;
}

/* A call that may go on. */

int background_promise(struct workspace *workspace, const struct call_request *request,
	struct text name, struct background **ret)
{
	const struct background_wish wish = {
		.name = name, .output_bytes = LIMIT_SESSION_DEFAULT_BYTES};
	struct background *background = NULL;
	int r = make(workspace, request, &wish, &background);

	if (r < 0)
		return r;
	background->workspace = workspace;
	background->promised = true;
	TAILQ_LINK_TAIL(&promised, background, link);
	count_bytes(background, true);
	take_place(background);
	*ret = background;
	return 0;
}

/* Its call has been answered, and is its own now. */
static void inherit(void *context)
{
	struct background *background = context;

	TAILQ_UNLINK(&promised, background, link);
	TAILQ_LINK_TAIL(&all, background, link);
	background->promised = false;
	background->used = clock_now();
	/* The answer has shown it. */
	background->shown = background->ring.end;
	check_later(background);
}

void background_keep_promise(struct background *background, struct call *call)
{
	const struct call_heir heir = {
		.owner = {.done = on_done, .output = on_output, .context = background},
		.session = {.id = background->id,
			.name = background->name,
			.lifetime_ms = background->lifetime_ms},
		.inherit = inherit,
	};

	background->call = call;
	if (call)
		call_set_heir(call, &heir);
	else
		break_promise(background);
}

/* Those that there are. */

struct background *background_find(struct text id)
{
	struct background *background;

	TAILQ_FOREACH (background, &all, link)
		if (text_equal(id, text_from(background->id)))
			return background;
	return NULL;
}

static bool is_named(
	const struct background *background, const struct workspace *workspace, struct text name)
{
	return background->name && text_equal(name, text_from(background->name)) &&
	       background_is_in(background, workspace);
}

bool background_name_is_taken(const struct workspace *workspace, struct text name, bool ended)
{
	const struct background *background;

	TAILQ_FOREACH (background, &promised, link)
		if (is_named(background, workspace, name))
			return true;
	TAILQ_FOREACH (background, &all, link)
		if ((ended || background->call) && is_named(background, workspace, name))
			return true;
	return false;
}

struct background *background_find_key(const uint8_t id[static 32])
{
	struct background *background;

	TAILQ_FOREACH (background, &all, link)
		if (background->keyed && memcmp(background->key.id, id, AUDIT_HASH_BYTES) == 0)
			return background;
	return NULL;
}

bool background_is_same(
	const struct background *background, const struct call_key *key, bool input, bool terminal)
{
	return background->has_input == input && (background->terminal.rows > 0) == terminal &&
	       memcmp(background->key.digest, key->digest, AUDIT_HASH_BYTES) == 0;
}

void background_foreach(
	void (*each)(void *context, const struct background *background), void *context)
{
	const struct background *background;

	TAILQ_FOREACH (background, &all, link)
		each(context, background);
}

size_t background_count(const struct workspace *workspace)
{
	const struct background *background;
	size_t n = 0;

	TAILQ_FOREACH (background, &all, link)
		n += background->call && (!workspace || background->workspace == workspace);
	return n;
}

/* What ends them. The end of a call that has not begun may come at once, and frees nothing here. */

static void end_those_of(const struct workspace *workspace, enum ended_by cause)
{
	struct background *background;

	TAILQ_FOREACH (background, &all, link)
		if (background->call && (!workspace || background->workspace == workspace))
			call_cancel(background->call, cause);
}

int background_empty(const struct workspace *workspace, void (*empty)(void *context), void *context)
{
	struct emptying *emptying;

	end_those_of(workspace, ENDED_BY_WORKSPACE_CLOSED);
	if (background_count(workspace) == 0)
		return 1;
	emptying = malloc(sizeof(*emptying));
	if (!emptying)
		return -ENOMEM;
	*emptying = (struct emptying){.workspace = workspace, .empty = empty, .context = context};
	LIST_INSERT_HEAD(&emptyings, emptying, link);
	return 0;
}

void background_forget(const struct tenant *tenant, const char *workspace)
{
	struct background *background, *next;

	for (background = TAILQ_FIRST(&all); background; background = next) {
		next = TAILQ_NEXT(background, link);
		if (!background->call && background->access.kind == WORKSPACE_MANAGED &&
			strcmp(background->tenant->name, tenant->name) == 0 &&
			strcmp(background->place, workspace) == 0)
			forget(background);
	}
}

void background_reload(const struct config *config)
{
	struct background *background, *next;

	for (background = TAILQ_FIRST(&all); background; background = next) {
		const struct tenant *tenant = config_find_tenant(config, background->tenant->name);

		next = TAILQ_NEXT(background, link);
		if (tenant && background_is_allowed(background, tenant))
			continue;
		if (background->call)
			call_cancel(background->call, ENDED_BY_WORKSPACE_CLOSED);
		else
			forget(background);
	}
	for (background = TAILQ_FIRST(&promised); background; background = next) {
		const struct tenant *tenant = config_find_tenant(config, background->tenant->name);

		next = TAILQ_NEXT(background, link);
		if (tenant && background_is_allowed(background, tenant))
			continue;
		/* The call goes on, as all calls do, but not beyond its deadline. */
		call_set_heir(background->call, NULL);
		break_promise(background);
	}
}

void background_shut_down(void)
{
	end_those_of(NULL, ENDED_BY_SHUTDOWN);
}

void background_free_all(void)
{
	struct background *background;

	while ((background = TAILQ_FIRST(&all))) {
		background->call = NULL;
		forget(background);
	}
	while ((background = TAILQ_FIRST(&promised)))
		break_promise(background);
}
