// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate. Names of files are a workspace's, and hostile. */

#include "gate/e2b/dir_watch.h"

#include "common/cleanup.h"
#include "common/text.h"
#include "gate/agent_link.h"
#include "gate/e2b/e2b_error.h"
#include "gate/e2b/entry.h"
#include "gate/e2b/op.h"
#include "gate/e2b/sandbox.h"
#include "gate/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

struct dir_watch {
	struct agent_link *link;
	struct dir_watch_owner owner;
	struct json_object *params; /* of file.watch */
	char *root;                 /* where files are seen */
	char *base;                 /* the watched directory, as cloisterd names it */
	bool calls;                 /* its owner is being called, perhaps */
	bool freed;                 /* and has freed it meanwhile */
};

static const struct {
	const char *native, *shown;
} types[] = {
	{"created", "EVENT_TYPE_CREATE"},
	{"changed", "EVENT_TYPE_WRITE"},
	{"attributes", "EVENT_TYPE_CHMOD"},
	{"removed", "EVENT_TYPE_REMOVE"},
	{"moved_from", "EVENT_TYPE_RENAME"},
	{"moved_to", "EVENT_TYPE_CREATE"},
};

void dir_watch_free(struct dir_watch *watch)
{
	if (watch == NULL)
		return;
	agent_link_close(TAKE_PTR(watch->link));
	watch->freed = true;
	if (watch->calls)
		return;
	json_object_put(watch->params);
	free(watch->root);
	free(watch->base);
	free(watch);
}

void dir_watch_pause(struct dir_watch *watch, bool pause)
{
	agent_link_pause(watch->link, pause);
}

/* Around whatever may call the owner. */
static void call_begin(struct dir_watch *watch)
{
	watch->calls = true;
}

static void call_end(struct dir_watch *watch)
{
	watch->calls = false;
	if (watch->freed)
		dir_watch_free(watch);
}

static void end_dir_watch(struct dir_watch *watch, const char *code, const char *message)
{
	watch->owner.ended(watch->owner.context, code, message ? message : "");
}

static void refuse_dir_watch(
	struct dir_watch *watch, int error, const struct cloister_message *reply)
{
	if (error < 0)
		end_dir_watch(watch, "unavailable", "The connection to cloisterd was lost");
	else if (cloister_error(reply) == CLOISTER_ERROR_WORKSPACE_NOT_FOUND ||
		 cloister_error(reply) == CLOISTER_ERROR_LEASE_ENDED)
		end_dir_watch(watch, NULL, NULL);
	else if (cloister_error(reply) == CLOISTER_ERROR_PATH_OUTSIDE_WORKSPACE)
		end_dir_watch(watch, "not_found", cloister_error_message(reply));
	else
		end_dir_watch(watch, e2b_error_of_reply(reply).code, cloister_error_message(reply));
}

/* Returns @path relative to the watched directory, or NULL if it is that. */
static const char *name_below(const struct dir_watch *watch, const char *path)
{
	size_t len = strlen(watch->base);

	if (strcmp(watch->base, ".") == 0)
		return strcmp(path, ".") == 0 ? NULL : path;
	return strncmp(path, watch->base, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static void send_event(struct dir_watch *watch, const char *type, const char *name,
	const struct cloister_message *params)
{
	const char *text = cloister_get_json(params, "/entry", false);
	struct json_object *event = json_object_new_object();
	struct json_object *node = text ? json_of(text_from(text)) : NULL;

	json_put_text(event, "name", text_from(name));
	json_put_text(event, "type", text_from(type));
	if (json_object_is_type(node, json_type_object))
		json_object_object_add(event, "entry", entry_show(node, watch->root));
	json_object_put(node);
	watch->owner.event(watch->owner.context, event);
}

static void take_event(struct dir_watch *watch, const struct cloister_message *params)
{
	const char *type = cloister_get_string(params, "/type", NULL);
	const char *path = cloister_get_string(params, "/path", NULL);
	const char *name = path && watch->base ? name_below(watch, path) : NULL;
	bool directory = false;

	if (type && strcmp(type, "overflow") == 0) {
		end_dir_watch(watch, "data_loss",
			"Events were lost, because there were too many: list the directory, and "
			"watch it again");
		return;
	}
	(void)cloister_get_bool(params, "/directory", &directory);
	for (size_t i = 0; name && type && !watch->freed && i < ARRAY_SIZE(types); i++)
		if (strcmp(type, types[i].native) == 0)
			send_event(watch, types[i].shown, name, params);
	/* A file that the gate writes gets its name when it is complete: nothing else tells so. */
	if (name && type && !watch->freed && strcmp(type, "created") == 0 && !directory)
		send_event(watch, "EVENT_TYPE_WRITE", name, params);
}

static void on_notification(__attribute__((unused)) struct agent_link *link, const char *method,
	const struct cloister_message *params, void *context)
{
	struct dir_watch *watch = context;
	const char *code = cloister_get_string(params, "/error/code", NULL);

	call_begin(watch);
	if (strcmp(method, "file.event") == 0)
		take_event(watch, params);
	else if (strcmp(method, "file.watch_ended") != 0)
		;
	else if (code && strcmp(code, "NOT_FOUND") == 0)
		end_dir_watch(
			watch, "not_found", cloister_get_string(params, "/error/message", NULL));
	else if (code && strcmp(code, "LEASE_ENDED") == 0)
		end_dir_watch(watch, NULL, NULL);
	else
		end_dir_watch(
			watch, "unavailable", cloister_get_string(params, "/error/message", NULL));
	call_end(watch);
}

static void on_closed(__attribute__((unused)) struct agent_link *link,
	__attribute__((unused)) int error, void *context)
{
	struct dir_watch *watch = context;

	call_begin(watch);
	end_dir_watch(watch, "unavailable", "The connection to cloisterd was lost");
	call_end(watch);
}

static const struct agent_link_callbacks callbacks = {
	.notification = on_notification, .closed = on_closed};

static void on_watched(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct dir_watch *watch = userdata;
	const char *base;

	call_begin(watch);
	if (error < 0 || !cloister_succeeded(reply)) {
		refuse_dir_watch(watch, error, reply);
	} else {
		base = cloister_get_string(reply, "/entry/path", NULL);
		watch->base = strdup(base ? base : ".");
		if (watch->base)
			watch->owner.begun(watch->owner.context);
		else
			end_dir_watch(watch, "resource_exhausted",
				"The gate has no memory for this request");
	}
	call_end(watch);
}

static void on_opened(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct dir_watch *watch = userdata;

	call_begin(watch);
	if (error < 0 || !cloister_succeeded(reply))
		refuse_dir_watch(watch, error, reply);
	else if (agent_link_request(watch->link, "file.watch",
			 json_object_to_json_string_ext(watch->params, JSON_C_TO_STRING_PLAIN),
			 on_watched, watch, NULL) < 0)
		end_dir_watch(watch, "unavailable", "cloisterd cannot be asked");
	call_end(watch);
}

static struct json_object *params_of(const struct op *op, const char *path)
{
	struct json_object *params = json_object_new_object();

	json_put_text(params, "path", text_from(path));
	json_object_object_add(params, "recursive",
		json_object_new_boolean(json_bool_of(op->body, "recursive", false)));
	json_object_object_add(params, "entries",
		json_object_new_boolean(json_bool_of(op->body, "includeEntry", false)));
	return params;
}

static int open_workspace(struct dir_watch *watch, const struct sandbox *sandbox)
{
	struct json_object *params = sandbox_opening(sandbox);
	int r = agent_link_request(watch->link, "workspace.open",
		json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN), on_opened, watch,
		NULL);

	json_object_put(params);
	return r;
}

int dir_watch_new(const struct op *op, const char *path, const struct dir_watch_owner *owner,
	struct dir_watch **ret)
{
	const struct gate_identity identity = {
		.tenant = sandbox_tenant(op->sandbox), .key = sandbox_id_of(op->sandbox).data};
	struct dir_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (watch == NULL)
		return -ENOMEM;
	watch->owner = *owner;
	watch->params = params_of(op, path);
	watch->root = strdup(sandbox_root(op->sandbox));
	r = watch->root ? agent_link_open(gate_request_gate(op->request), &identity, &callbacks,
				  watch, &watch->link)
			: -ENOMEM;
	if (r == 0)
		r = open_workspace(watch, op->sandbox);
	if (r == 0)
		*ret = watch;
	else
		dir_watch_free(watch);
	return r;
}
