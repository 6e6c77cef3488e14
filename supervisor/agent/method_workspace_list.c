// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: workspace.list. */
#include "supervisor/agent/method_workspace_list.h"

#include "supervisor/agent/method_workspace.h"
#include "supervisor/base/json_text.h"
#include "supervisor/config/config.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/workspace/workspace_look.h"
#include "supervisor/workspace/workspaces.h"

#include <string.h>
#include <time.h>

struct listing {
	struct json_text json;
	struct workspaces *workspaces;
	const struct tenant *tenant;
};

/* Writes when the managed workspace @name was made; null if that is not known. */
static void put_created(struct listing *listing, const char *name)
{
	char text[sizeof("2026-01-01T00:00:00Z") + 16];
	struct tm tm;
	time_t created;

	json_text_key(&listing->json, "created");
	if (name && workspaces_created(listing->workspaces, listing->tenant, name, &created) == 0 &&
		gmtime_r(&created, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		json_text_string(&listing->json, text_from(text));
	else
		json_text_null(&listing->json);
}

/* Writes what was measured last; null if nothing was. */
static void put_size(struct json_text *json, int64_t bytes, int64_t files)
{
	if (bytes < 0) {
		json_text_key(json, "bytes");
		json_text_null(json);
		json_text_key(json, "files");
		json_text_null(json);
		return;
	}
	json_text_put_number(json, "bytes", bytes);
	json_text_put_number(json, "files", files);
}

static void list_used(void *context, struct workspace *workspace)
{
	struct listing *listing = context;
	struct workspace_info info;

	json_text_object_begin(&listing->json);
	method_workspace_put(&listing->json, workspace);
	json_text_put(&listing->json, "tenant", listing->tenant->name);
	json_text_key(&listing->json, "open");
	json_text_bool(&listing->json, workspace_is_open(workspace));
	put_created(listing,
		workspace_kind(workspace) == WORKSPACE_MANAGED ? workspace_name(workspace) : NULL);
	workspace_look_at_disk(workspace);
	workspace_get_info(workspace, &info);
	put_size(&listing->json, info.disk_bytes, info.disk_files);
	json_text_object_end(&listing->json);
}

struct name_search {
	const char *name;
	bool found;
};

static void match_name(void *context, struct workspace *workspace)
{
	struct name_search *search = context;

	search->found |= workspace_kind(workspace) == WORKSPACE_MANAGED &&
			 strcmp(workspace_name(workspace), search->name) == 0;
}

/* Adds managed workspaces that exist and that no client uses now. */
static void list_managed(void *context, const char *name)
{
	struct listing *listing = context;
	struct name_search search = {.name = name};

	workspaces_each(listing->workspaces, listing->tenant, match_name, &search);
	if (search.found)
		return;
	json_text_object_begin(&listing->json);
	json_text_put(&listing->json, "workspace", name);
	json_text_put(&listing->json, "kind", "managed");
	json_text_put(&listing->json, "root",
		workspaces_is_root(listing->workspaces, listing->tenant, name) ? "/"
									       : "/workspace");
	json_text_put(&listing->json, "tenant", listing->tenant->name);
	json_text_key(&listing->json, "open");
	json_text_bool(&listing->json, false);
	put_created(listing, name);
	put_size(&listing->json, -1, -1);
	json_text_object_end(&listing->json);
}

void method_workspace_list(struct session *session, struct jsonrpc_request *request)
{
	struct listing listing = {.workspaces = session->service->workspaces};

	if (!request->id_text)
		return;
	session_answer_begin(session, &listing.json, request->id_text);
	json_text_object_begin(&listing.json);
	json_text_key(&listing.json, "workspaces");
	json_text_array_begin(&listing.json);
	for (size_t i = 0; i < session->n_tenants; i++) {
		listing.tenant = session->tenants[i];
		workspaces_each(listing.workspaces, listing.tenant, list_used, &listing);
		(void)workspaces_each_managed(
			listing.workspaces, listing.tenant, list_managed, &listing);
	}
	json_text_array_end(&listing.json);
	json_text_object_end(&listing.json);
	session_answer_end(session, &listing.json);
}
