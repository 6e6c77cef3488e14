// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: workspace.list. A tenant may have a million workspaces, so they are listed in
 * pieces, each a slice of the loop. Of one tenant's clients one is answered at a time: what is
 * listed already takes memory that is not counted as unread.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "common/shown_at.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/listing_page.h"
#include "supervisor/agent/method_workspace.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/managed/properties_store.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct listing {
	struct client_pending pending; /* first */
	TAILQ_ENTRY(listing) waits;
	struct loop_share_task share;
	struct loop_turn_task end; /* a slice may not free its task */
	bool runs;
	struct tenant *payer; /* held: whose turn it takes */
	struct workspaces *workspaces;
	const char *only;        /* the session's one workspace; NULL: all are listed */
	struct tenant **tenants; /* held */
	size_t n_tenants, at;    /* the one that is listed now */
	bool begun;              /* it is: */
	struct workspaces_walk walk;
	DIR *managed; /* NULL: there is none */
	DIR *properties;
	char **used;   /* names of managed workspaces that are listed as used; sorted after that */
	size_t n_used; /* room for the next power of two */
	bool sorted;
	bool failed;              /* memory is out */
	struct properties wanted; /* its labels are */
	enum { STATE_ANY, STATE_OPEN, STATE_CLOSED } state;
	struct listing_page page;
	char *key;             /* of the row that is written; NULL: none is */
	struct evbuffer *text; /* that row */
	struct json_text json;
};

/* Those that another one of their tenant goes before, the first come first. */
static TAILQ_HEAD(, listing) waiting = TAILQ_HEAD_INITIALIZER(waiting);

/* Writes when the managed workspace @name was made; null if that is not known. */
static void put_created(struct listing *listing, const char *name)
{
	char text[RFC3339_BYTES];
	time_t created;
	bool known = name && managed_created_in(listing->managed, name, &created) == 0;

	json_text_put(&listing->json, "created",
		known ? rfc3339_seconds((int64_t)created * 1000, text) : NULL);
}

/* Writes what was measured last; null if nothing was. */
static void put_size(struct json_text *json, int64_t bytes, int64_t files)
{
	json_text_put_known(json, "bytes", bytes);
	json_text_put_known(json, "files", bytes < 0 ? -1 : files);
}

static const char *tenant_name(const struct listing *listing)
{
	return listing->tenants[listing->at]->name;
}

/* Managed ones come first, then directories, each by their names. */
static bool begin_row(struct listing *listing, enum workspace_kind kind, const char *name)
{
	free(listing->key);
	if (asprintf(&listing->key, "%s/%u/%s", tenant_name(listing), (unsigned)kind, name) < 0)
		listing->key = NULL;
	listing->failed |= !listing->key;
	return listing->key && listing_page_wants(&listing->page, listing->key);
}

static void end_row(struct listing *listing)
{
	const size_t len =
		json_text_flush(&listing->json) < 0 ? 0 : evbuffer_get_length(listing->text);
	const void *text = len > 0 ? evbuffer_pullup(listing->text, -1) : NULL;

	listing->failed |= !text || listing_page_add(&listing->page, listing->key, text, len) < 0;
	evbuffer_drain(listing->text, len);
	listing->json = json_text(listing->text);
}

static bool is_wanted(const struct listing *listing, bool open, const struct properties *properties)
{
	return (listing->state == STATE_ANY || (listing->state == STATE_OPEN) == open) &&
	       (properties ? properties_have_labels(properties, listing->wanted.labels)
			   : !listing->wanted.labels);
}

static void put_used(struct listing *listing, struct workspace *workspace, const char *name)
{
	struct workspace_info info;

	if (!is_wanted(listing, workspace_is_open(workspace),
		    name ? workspace_properties(workspace) : NULL) ||
		!begin_row(listing, workspace_kind(workspace), workspace_name(workspace)))
		return;
	json_text_object_begin(&listing->json);
	method_workspace_put(&listing->json, workspace);
	json_text_put(&listing->json, "tenant", tenant_name(listing));
	json_text_put_bool(&listing->json, "open", workspace_is_open(workspace));
	put_created(listing, name);
	workspace_look_at_disk(workspace);
	workspace_get_info(workspace, &info);
	put_size(&listing->json, info.disk_bytes, info.disk_files);
	if (name)
		properties_put_listed(&listing->json, workspace_properties(workspace));
	json_text_object_end(&listing->json);
	end_row(listing);
}

static void put_managed(struct listing *listing, const char *name)
{
	_cleanup_(properties_done) struct properties properties = {0};
	const char *root = SHOWN_AT_DEFAULT;

	if (listing->state == STATE_OPEN || !begin_row(listing, WORKSPACE_MANAGED, name))
		return;
	/* Of one whose record is damaged, nothing is listed. */
	(void)properties_load_in(listing->properties, name, &properties);
	if (!is_wanted(listing, false, &properties))
		return;
	if (managed_is_root_in(listing->managed, name))
		root = "/";
	else if (properties.shown_at[0])
		root = properties.shown_at;
	json_text_object_begin(&listing->json);
	json_text_put(&listing->json, "workspace", name);
	json_text_put(&listing->json, "kind", "managed");
	json_text_put(&listing->json, "root", root);
	json_text_put(&listing->json, "tenant", tenant_name(listing));
	json_text_put_bool(&listing->json, "open", false);
	put_created(listing, name);
	put_size(&listing->json, -1, -1);
	properties_put_listed(&listing->json, &properties);
	json_text_object_end(&listing->json);
	end_row(listing);
}

/* Its entry in the directory is not listed, also if it is used no more by then. */
static void note_used(struct listing *listing, const char *name)
{
	size_t n = listing->n_used;
	char **used = listing->used;

	/* The room doubles whenever it is full. */
	if ((n & (n - 1)) == 0)
		used = realloc(used, (n > 0 ? 2 * n : 1) * sizeof(*used));
	if (used) {
		listing->used = used;
		used[n] = strdup(name);
	}
	if (used && used[n])
		listing->n_used++;
	else
		listing->failed = true;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_noted(const struct listing *listing, const char *name)
{
	return listing->n_used > 0 &&
	       bsearch(&name, listing->used, listing->n_used, sizeof(*listing->used), compare);
}

/* What a piece may still do. */
struct piece {
	size_t list, pass;
};

static bool is_used_up(const struct piece *piece)
{
	return piece->list == 0 || piece->pass == 0;
}

/* @name: of a managed workspace; NULL: it is another kind. */
static bool may_list(const struct listing *listing, const char *name)
{
	return !listing->only || (name && strcmp(name, listing->only) == 0);
}

static void list_used(struct listing *listing, struct piece *piece)
{
	const struct tenant *tenant = listing->tenants[listing->at];
	struct workspace *workspace;

	while (piece->list > 0 && !listing->failed &&
		(workspace = workspaces_walk_next(&listing->walk, tenant, &piece->pass))) {
		const char *name = workspace_kind(workspace) == WORKSPACE_MANAGED
					   ? workspace_name(workspace)
					   : NULL;

		piece->list--;
		if (!may_list(listing, name))
			continue;
		put_used(listing, workspace, name);
		if (name)
			note_used(listing, name);
	}
}

/* Adds managed workspaces that exist and that no client uses. */
static void list_managed(struct listing *listing, struct piece *piece)
{
	const char *name;

	if (!listing->sorted && listing->n_used > 0)
		qsort(listing->used, listing->n_used, sizeof(*listing->used), compare);
	listing->sorted = true;
	while (piece->list > 0 && (name = managed_list_next(listing->managed, &piece->pass)))
		if (!is_noted(listing, name) && may_list(listing, name)) {
			piece->list--;
			put_managed(listing, name);
		}
}

static void begin_tenant(struct listing *listing)
{
	workspaces_walk_begin(listing->workspaces, &listing->walk);
	/* As one that cannot be read, it is none. */
	if (workspaces_list_managed(
		    listing->workspaces, listing->tenants[listing->at], &listing->managed) < 0)
		listing->managed = NULL;
	(void)workspaces_list_properties(
		listing->workspaces, listing->tenants[listing->at], &listing->properties);
	listing->begun = true;
}

static void end_tenant(struct listing *listing)
{
	workspaces_walk_end(&listing->walk);
	if (listing->managed)
		closedir(listing->managed);
	listing->managed = NULL;
	if (listing->properties)
		closedir(listing->properties);
	listing->properties = NULL;
	while (listing->n_used > 0)
		free(listing->used[--listing->n_used]);
	free(TAKE_PTR(listing->used));
	listing->sorted = listing->begun = false;
}

/* Lists one piece. Returns whether there are more. */
static bool list_piece(struct listing *listing)
{
	struct piece piece = {LIMIT_LISTED_A_TURN, LIMIT_PASSED_A_TURN};

	for (; listing->at < listing->n_tenants && !listing->failed; listing->at++) {
		/* To begin costs as much as a few of them. */
		if (!listing->begun)
			begin_tenant(listing);
		if (!workspaces_walk_is_over(&listing->walk))
			list_used(listing, &piece);
		if (is_used_up(&piece))
			break;
		if (listing->managed)
			list_managed(listing, &piece);
		if (is_used_up(&piece))
			break;
		end_tenant(listing);
		piece.list--;
		piece.pass--;
		if (is_used_up(&piece)) {
			listing->at++;
			break;
		}
	}
	return listing->at < listing->n_tenants && !listing->failed;
}

static void run_soon(struct listing *listing)
{
	listing->runs = listing->payer->usage->lists = true;
	loop_share_wait(&listing->share, client_share(listing->pending.client));
}

/* Gives the turn of a tenant to the next of its clients that reads its answers. */
static void run_next(const struct tenant *payer)
{
	struct listing *listing;

	if (payer->usage->lists)
		return;
	TAILQ_FOREACH (listing, &waiting, waits)
		if (listing->payer->usage == payer->usage && !listing->pending.client->paused) {
			TAILQ_UNLINK(&waiting, listing, waits);
			run_soon(listing);
			return;
		}
}

static void listing_free(struct listing *listing)
{
	end_tenant(listing);
	loop_share_cancel(&listing->share);
	loop_turn_cancel(&listing->end);
	for (size_t i = 0; i < listing->n_tenants; i++)
		tenant_release(listing->tenants[i]);
	free(listing->tenants);
	properties_done(&listing->wanted);
	listing_page_done(&listing->page);
	free(listing->key);
	if (listing->text)
		evbuffer_free(listing->text);
	if (listing->waits.tqe_prev)
		TAILQ_UNLINK(&waiting, listing, waits);
	if (listing->runs) {
		listing->payer->usage->lists = false;
		run_next(listing->payer);
	}
	tenant_release(listing->payer);
	pending_free(&listing->pending);
}

/* The client is gone. */
static void leave_workspace_list(struct client_pending *pending)
{
	listing_free((struct listing *)pending);
}

static void resume(struct client_pending *pending)
{
	run_next(((struct listing *)pending)->payer);
}

/* Of a connection's requests one waits for the turn of its tenant. */
static struct listing *next_of(const struct client *client)
{
	struct client_pending *pending;
	struct listing *oldest = NULL;

	LIST_FOREACH (pending, &client->pending, link)
		if (pending->leave == leave_workspace_list)
			oldest = (struct listing *)pending;
	return oldest;
}

static void answer_workspace_list(
	struct client *client, const char *id_text, struct listing *listing)
{
	struct json_text json;

	if (listing->failed) {
		client_answer_busy(client, id_text, "Out of memory");
		return;
	}
	json_text_object_begin(&listing->json);
	listing->failed = listing_page_write(&listing->page, &listing->json) < 0;
	json_text_object_end(&listing->json);
	if (listing->failed || json_text_flush(&listing->json) < 0) {
		client_answer_busy(client, id_text, "Out of memory");
		return;
	}
	client_value_begin(client, &json, id_text);
	json_text_take(&json, listing->text);
	client_value_end(client, &json);
}

static void on_listing_end(void *context)
{
	struct listing *listing = context, *next;
	struct client *client = listing->pending.client;
	struct tenant *payer = tenant_hold(listing->payer);

	answer_workspace_list(client, listing->pending.id_text, listing);
	listing->payer->usage->lists = listing->runs = false;
	listing_free(listing);
	next = next_of(client);
	if (next) {
		TAILQ_LINK_TAIL(&waiting, next, waits);
		run_next(next->payer);
	}
	run_next(payer);
	tenant_release(payer);
}

static void on_slice(void *context)
{
	struct listing *listing = context;

	if (list_piece(listing))
		run_soon(listing);
	else
		loop_turn_defer(&listing->end);
}

/* Returns NULL if memory is out. */
static struct listing *listing_new(struct client *client, struct tenant *payer)
{
	struct listing *listing = calloc(1, sizeof(*listing));

	if (!listing)
		return NULL;
	*listing = (struct listing){
		.share = {.act = on_slice, .context = listing},
		.end = {.act = on_listing_end, .context = listing},
		.payer = tenant_hold(payer),
		.workspaces = client->service->workspaces,
		.only = client->bound.workspace,
		.tenants = calloc(client->n_tenants, sizeof(struct tenant *)),
		.text = evbuffer_new(),
	};
	if (!listing->tenants || !listing->text) {
		listing_free(listing);
		return NULL;
	}
	for (; listing->n_tenants < client->n_tenants; listing->n_tenants++)
		listing->tenants[listing->n_tenants] =
			tenant_hold(client->tenants[listing->n_tenants]);
	listing->json = json_text(listing->text);
	return listing;
}

/* Reads which workspaces are wanted. */
static enum tool_error read_wish(
	struct json_object *params, struct listing *listing, struct refusal *ret_refusal)
{
	enum tool_error error =
		properties_read(params, PROPERTY_LABELS, 0, &listing->wanted, ret_refusal);
	struct text state, cursor;
	int64_t limit = LIMIT_LISTED;
	int r;

	if (error != TOOL_OK)
		return error;
	if (!client_string_param(params, "state", &state) ||
		!client_string_param(params, "cursor", &cursor) ||
		!number_param(params, "limit", 1, LIMIT_LISTED, &limit))
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"state and cursor must be strings, and limit a number from 1 to %d",
			LIMIT_LISTED);
	if (text_equal(state, TEXT_LITERAL("open")))
		listing->state = STATE_OPEN;
	else if (text_equal(state, TEXT_LITERAL("closed")))
		listing->state = STATE_CLOSED;
	else if (state.data)
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"state must be \"open\" or \"closed\"");
	listing->page.limit = (size_t)limit;
	r = listing_page_begin(&listing->page, cursor);
	if (r == -EINVAL)
		return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"cursor must be the next_cursor of an earlier answer");
	return r < 0 ? refusal_set(ret_refusal, TOOL_BUSY, "Out of memory") : TOOL_OK;
}

void method_workspace_list(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct tenant *payer = client->counted;
	struct listing *listing;
	bool is_next;

	if (!request->id_text)
		return;
	if (!payer || agent_has_room(client, &refusal) != TOOL_OK) {
		if (!payer)
			refusal_set(&refusal, TOOL_FORBIDDEN, NULL);
		answer_refusal(client, request->id_text, &refusal);
		return;
	}
	listing = listing_new(client, payer);
	if (!listing) {
		client_answer_busy(client, request->id_text, "Out of memory");
		return;
	}
	if (read_wish(request->params, listing, &refusal) != TOOL_OK) {
		answer_refusal(client, request->id_text, &refusal);
		listing_free(listing);
		return;
	}
	if (!payer->usage->lists && !list_piece(listing)) {
		answer_workspace_list(client, request->id_text, listing);
		listing_free(listing);
		return;
	}
	is_next = !next_of(client);
	pending_begin(&listing->pending, client, request);
	listing->pending.leave = leave_workspace_list;
	listing->pending.resume = resume;
	if (!payer->usage->lists)
		run_soon(listing);
	else if (is_next)
		TAILQ_LINK_TAIL(&waiting, listing, waits);
}
