// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The command is hostile: its output is bounded, and searched only for the
 * texts that clients wait for.
 */
#include "supervisor/session/session.h"

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/result/ended_by.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/session/session_state.h"
#include "supervisor/session/session_wait.h"
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

static TAILQ_HEAD(, session) all = TAILQ_HEAD_INITIALIZER(all);
static TAILQ_HEAD(, session) promised = TAILQ_HEAD_INITIALIZER(promised);
static LIST_HEAD(, emptying) emptyings = LIST_HEAD_INITIALIZER(emptyings);
static size_t running;      /* of all, those that are promised among them */
static uint64_t kept_bytes; /* that the rings of all may take */

/* Ring and streams' bits, as counted from the start. */
static uint64_t ring_cost(const struct output_ring *ring)
{
	return ring->cap + ring->cap / 8;
}

static void count_bytes(struct session *session, bool more)
{
	uint64_t bytes = more ? ring_cost(&session->ring) : -ring_cost(&session->ring);

	session->tenant->usage->client_bytes += bytes;
	kept_bytes += bytes;
}

static void unmake_session(struct session *session)
{
	output_ring_free(&session->ring);
	workspace_access_done(&session->access);
	tenant_release(session->tenant);
	free(session->name);
	free(session->command);
	free(session->place);
	free(session->end);
	free(session->ending);
	free(session->keyed_uses);
	free(session);
}

static void forget_session(struct session *session)
{
	assert(!session->call);
	session_tell_forgotten(&session->waiting);
	TAILQ_UNLINK(&all, session, link);
	timer_cancel(&session->check);
	count_bytes(session, false);
	unmake_session(session);
}

/* One more runs, or is promised, and one fewer. */
static void take_place(struct session *session)
{
	session->tenant->usage->sessions++;
	running++;
}

static void give_place_back(struct session *session)
{
	assert(session->tenant->usage->sessions > 0 && running > 0);
	session->tenant->usage->sessions--;
	running--;
}

/* Its call is over, or never begins, or is to have no heir. */
static void break_promise(struct session *session)
{
	TAILQ_UNLINK(&promised, session, link);
	give_place_back(session);
	count_bytes(session, false);
	unmake_session(session);
}

static void tell_emptied(const struct workspace *workspace)
{
	struct emptying *emptying, *next;

	if (session_count(workspace) > 0)
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

static void on_session_output(void *context, enum command_stream stream, struct text data)
{
	struct session *session = context;

	session->wrote = clock_now();
	output_ring_append(&session->ring, stream, data);
	session_tell_output(&session->waiting, stream, data);
}

/* Nothing of it is left. */
static void on_session_done(void *context, const struct observation *observation)
{
	struct session *session = context;
	const struct workspace *workspace = session->workspace;
	const int64_t retention = (int64_t)session->tenant->limits.session_retention_ms;
	char ending[OBSERVATION_ENDING_SIZE];

	if (session->promised) {
		break_promise(session);
		return;
	}
	session->end = write_end(observation);
	session->ending = strdup(observation_ending(observation, ending, sizeof(ending)));
	session->call = NULL;
	session->workspace = NULL;
	give_place_back(session);
	timer_set(&session->check, retention);
	session_tell_ended(&session->waiting);
	tell_emptied(workspace);
}

/* Returns when it ends if nothing happens until then, as clock_now(); INT64_MAX: never. */
/* A waiter uses it until it stops waiting. */
static int64_t used_at(const struct session *session)
{
	return session->used > session->waiting.left ? session->used : session->waiting.left;
}

static int64_t unused_at(const struct session *session)
{
	const struct tenant_limits *limits = &session->tenant->limits;
	int64_t left = workspace_unattended_since(session->workspace), at = INT64_MAX;

	if (left > 0 && session->waiting.count == 0)
		at = (left > used_at(session) ? left : used_at(session)) +
		     (int64_t)limits->session_detached_ms * CLOCK_NS_PER_MS;
	return at;
}

static int64_t idle_at(const struct session *session)
{
	const uint64_t idle_ms = session->tenant->limits.session_idle_ms;
	int64_t active = session->wrote > used_at(session) ? session->wrote : used_at(session);

	return idle_ms > 0 ? active + (int64_t)idle_ms * CLOCK_NS_PER_MS : INT64_MAX;
}

/* Looks again when it may be unused or idle at the earliest. */
static void check_later(struct session *session)
{
	const struct tenant_limits *limits = &session->tenant->limits;
	int64_t now = clock_now(), unused = unused_at(session), idle = idle_at(session);
	int64_t at = now + (int64_t)limits->session_detached_ms * CLOCK_NS_PER_MS;

	if (unused < at)
		at = unused;
	if (idle < at)
		at = idle;
	timer_set_ns(&session->check, at > now ? at - now : 0);
}

static void on_check(void *context)
{
	struct session *session = context;
	int64_t now = clock_now();

	if (!session->call)
		forget_session(session);
	else if (unused_at(session) <= now)
		call_cancel(session->call, ENDED_BY_WORKSPACE_CLOSED);
	else if (idle_at(session) <= now)
		call_cancel(session->call, ENDED_BY_IDLE_TIMEOUT);
	else
		check_later(session);
}

/* Forgets the oldest ended one of @tenant (NULL: of any). Returns false if there is none. */
static bool forget_oldest(const struct tenant *tenant)
{
	struct session *session;

	TAILQ_FOREACH (session, &all, link)
		if (!session->call && (!tenant || session->tenant->usage == tenant->usage)) {
			forget_session(session);
			return true;
		}
	return false;
}

/* Returns how many of the tenant's are known, running or ended. */
static size_t known_sessions(const struct tenant *tenant)
{
	const struct session *session;
	size_t n = 0;

	TAILQ_FOREACH (session, &all, link)
		n += session->tenant->usage == tenant->usage;
	return n;
}

/* Returns how many bytes the ended ones of @tenant (NULL: of any) keep. */
static uint64_t ended_bytes(const struct tenant *tenant)
{
	const struct session *session;
	uint64_t bytes = 0;

	TAILQ_FOREACH (session, &all, link)
		if (!session->call && (!tenant || session->tenant->usage == tenant->usage))
			bytes += ring_cost(&session->ring);
	return bytes;
}

static size_t count_promised(const struct workspace *workspace)
{
	const struct session *session;
	size_t n = 0;

	TAILQ_FOREACH (session, &promised, link)
		n += session->workspace == workspace;
	return n;
}

enum tool_error session_refuses(struct service *service, const struct workspace *workspace,
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
	if (session_count(workspace) + count_promised(workspace) >=
		tenant->limits.sessions_per_workspace)
		return admission_refuse_session(
			&service->admission, ADMISSION_WORKSPACE_SESSIONS, ret_refusal);
	if (share_left(shared, LIMIT_SESSIONS, running, usage->sessions) == 0)
		return admission_refuse_session(
			&service->admission, ADMISSION_SESSIONS, ret_refusal);
	/* Ended ones are kept only where there is room, and not forgotten in vain. */
	output_ring_init(&wanted, output_bytes);
	own = usage->client_bytes - ended_bytes(tenant);
	if (share_left(false, LIMIT_SESSIONS_TENANT_BYTES, own, 0) < ring_cost(&wanted) ||
		share_left(shared, LIMIT_SESSIONS_BYTES, kept_bytes - ended_bytes(NULL), own) <
			ring_cost(&wanted))
		return admission_refuse_session(
			&service->admission, ADMISSION_SESSION_OUTPUT, ret_refusal);
	while (known_sessions(tenant) >= 2 * tenant->limits.sessions && forget_oldest(tenant))
		;
	while (usage->client_bytes + ring_cost(&wanted) > LIMIT_SESSIONS_TENANT_BYTES &&
		forget_oldest(tenant))
		;
	/* Its own first: others keep what they have as long as that is possible. */
	while (kept_bytes + ring_cost(&wanted) > LIMIT_SESSIONS_BYTES &&
		(forget_oldest(tenant) || forget_oldest(NULL)))
		;
	return TOOL_OK;
}

static int make_id(char *id)
{
	uint8_t bytes[(SESSION_ID_BYTES - 1) / 2];

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
static int make_session(const struct workspace *workspace, const struct call_request *request,
	const struct session_wish *wish, struct session **ret)
{
	struct session *session = calloc(1, sizeof(*session));
	struct text command = request->args.command;
	int r;

	if (!session)
		return -ENOMEM;
	LIST_INIT(&session->waiting.list);
	session->began = session->wrote = session->used = clock_now();
	session->lifetime_ms =
		shortest(wish->lifetime_ms, request->tenant->limits.session_lifetime_ms);
	session->has_input = request->options.stdin_stream || request->options.input_later;
	session->terminal = wish->terminal;
	session->keyed = wish->key;
	if (wish->key)
		session->key = *wish->key;
	session->tenant = tenant_hold(request->tenant);
	timer_init(&session->check, on_check, session);
	output_ring_init(&session->ring, wish->output_bytes);
	command = utf8_cut(command, LIMIT_SESSION_SHOWN_BYTES);
	session->command = strndup(command.data, command.len);
	session->place = strdup(workspace_name(workspace));
	if (wish->name.data)
		session->name = strndup(wish->name.data, wish->name.len);
	r = make_id(session->id);
	if (r == 0)
		r = workspace_access_copy(workspace, &session->access);
	if (r == 0 && (!session->command || !session->place || (wish->name.data && !session->name)))
		r = -ENOMEM;
	if (r < 0) {
		unmake_session(session);
		return r;
	}
	*ret = session;
	return 0;
}

int session_start(struct service *service, struct workspace *workspace,
	struct call_request *request, const struct session_wish *wish, struct session **ret)
{
	struct session *session = NULL;
	struct call_owner owner = {.done = on_session_done, .output = on_session_output};
	int r = make_session(workspace, request, wish, &session);

	if (r < 0) {
		call_request_done(request);
		return r;
	}
	session->workspace = workspace;
	request->session = (struct call_session){.id = session->id,
		.name = session->name,
		.lifetime_ms = session->lifetime_ms,
		.terminal = wish->terminal};
	/* All output is passed on as it comes, and none is kept with the call. */
	request->options.stream = true;
	request->options.keep_output = false;
	owner.context = session;
	TAILQ_LINK_TAIL(&all, session, link);
	count_bytes(session, true);
	r = call_start(service, workspace, request, &owner, &session->call);
	if (r < 0) {
		forget_session(session);
		return r;
	}
	take_place(session);
	check_later(session);
	*ret = session;
	return 0;
}

/* A call that may go on. */

int session_promise(struct workspace *workspace, const struct call_request *request,
	struct text name, struct session **ret)
{
	const struct session_wish wish = {
		.name = name, .output_bytes = LIMIT_SESSION_DEFAULT_BYTES};
	struct session *session = NULL;
	int r = make_session(workspace, request, &wish, &session);

	if (r < 0)
		return r;
	session->workspace = workspace;
	session->promised = true;
	TAILQ_LINK_TAIL(&promised, session, link);
	count_bytes(session, true);
	take_place(session);
	*ret = session;
	return 0;
}

/* Its call has been answered, and is its own now. */
static void inherit(void *context)
{
	struct session *session = context;

	TAILQ_UNLINK(&promised, session, link);
	TAILQ_LINK_TAIL(&all, session, link);
	session->promised = false;
	session->used = clock_now();
	/* The answer has shown it. */
	session->shown = session->ring.end;
	check_later(session);
}

void session_keep_promise(struct session *session, struct call *call)
{
	const struct call_heir heir = {
		.owner = {.done = on_session_done, .output = on_session_output, .context = session},
		.session = {.id = session->id,
			.name = session->name,
			.lifetime_ms = session->lifetime_ms},
		.inherit = inherit,
	};

	session->call = call;
	if (call)
		call_set_heir(call, &heir);
	else
		break_promise(session);
}

/* Those that there are. */

bool session_is_allowed(const struct session *session, const struct tenant *tenant)
{
	return strcmp(session->tenant->name, tenant->name) == 0 &&
	       workspace_access_allows(&session->access, tenant);
}

bool session_is_in(const struct session *session, const struct workspace *workspace)
{
	if (session->workspace)
		return session->workspace == workspace;
	return session->access.kind == workspace_kind(workspace) &&
	       strcmp(session->place, workspace_name(workspace)) == 0 &&
	       strcmp(session->tenant->name, workspace_tenant(workspace)->name) == 0;
}

struct session *session_find(struct text id)
{
	struct session *session;

	TAILQ_FOREACH (session, &all, link)
		if (text_equal(id, text_from(session->id)))
			return session;
	return NULL;
}

static bool is_named(
	const struct session *session, const struct workspace *workspace, struct text name)
{
	return session->name && text_equal(name, text_from(session->name)) &&
	       session_is_in(session, workspace);
}

bool session_name_is_taken(const struct workspace *workspace, struct text name, bool ended)
{
	const struct session *session;

	TAILQ_FOREACH (session, &promised, link)
		if (is_named(session, workspace, name))
			return true;
	TAILQ_FOREACH (session, &all, link)
		if ((ended || session->call) && is_named(session, workspace, name))
			return true;
	return false;
}

struct session *session_find_key(const uint8_t id[static 32])
{
	struct session *session;

	TAILQ_FOREACH (session, &all, link)
		if (session->keyed && memcmp(session->key.id, id, AUDIT_HASH_BYTES) == 0)
			return session;
	return NULL;
}

bool session_is_same(
	const struct session *session, const struct call_key *key, bool input, bool terminal)
{
	return session->has_input == input && (session->terminal.rows > 0) == terminal &&
	       memcmp(session->key.digest, key->digest, AUDIT_HASH_BYTES) == 0;
}

void session_foreach(void (*each)(void *context, const struct session *session), void *context)
{
	const struct session *session;

	TAILQ_FOREACH (session, &all, link)
		each(context, session);
}

size_t session_count(const struct workspace *workspace)
{
	const struct session *session;
	size_t n = 0;

	TAILQ_FOREACH (session, &all, link)
		n += session->call && (!workspace || session->workspace == workspace);
	return n;
}

/* Ends. A call that has not begun may end at once; that frees nothing here. */

static void end_those_of(const struct workspace *workspace, enum ended_by cause)
{
	struct session *session;

	TAILQ_FOREACH (session, &all, link)
		if (session->call && (!workspace || session->workspace == workspace))
			call_cancel(session->call, cause);
}

int session_empty(const struct workspace *workspace, void (*empty)(void *context), void *context)
{
	struct emptying *emptying;

	end_those_of(workspace, ENDED_BY_WORKSPACE_CLOSED);
	if (session_count(workspace) == 0)
		return 1;
	emptying = malloc(sizeof(*emptying));
	if (!emptying)
		return -ENOMEM;
	*emptying = (struct emptying){.workspace = workspace, .empty = empty, .context = context};
	LIST_INSERT_HEAD(&emptyings, emptying, link);
	return 0;
}

void session_forget(const struct tenant *tenant, const char *workspace)
{
	struct session *session, *next;

	for (session = TAILQ_FIRST(&all); session; session = next) {
		next = TAILQ_NEXT(session, link);
		if (!session->call && session->access.kind == WORKSPACE_MANAGED &&
			strcmp(session->tenant->name, tenant->name) == 0 &&
			strcmp(session->place, workspace) == 0)
			forget_session(session);
	}
}

void session_reload(const struct config *config)
{
	struct session *session, *next;

	for (session = TAILQ_FIRST(&all); session; session = next) {
		const struct tenant *tenant = config_find_tenant(config, session->tenant->name);

		next = TAILQ_NEXT(session, link);
		if (tenant && session_is_allowed(session, tenant))
			continue;
		if (session->call)
			call_cancel(session->call, ENDED_BY_WORKSPACE_CLOSED);
		else
			forget_session(session);
	}
	for (session = TAILQ_FIRST(&promised); session; session = next) {
		const struct tenant *tenant = config_find_tenant(config, session->tenant->name);

		next = TAILQ_NEXT(session, link);
		if (tenant && session_is_allowed(session, tenant))
			continue;
		/* The call goes on, as all calls do, but not beyond its deadline. */
		call_set_heir(session->call, NULL);
		break_promise(session);
	}
}

void session_shut_down(void)
{
	end_those_of(NULL, ENDED_BY_SHUTDOWN);
}

void session_free_all(void)
{
	struct session *session;

	while ((session = TAILQ_FIRST(&all))) {
		session->call = NULL;
		forget_session(session);
	}
	while ((session = TAILQ_FIRST(&promised)))
		break_promise(session);
}
