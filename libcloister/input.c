// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the program that uses the library: the input of commands. Its bytes go behind the line of
 * their request as they are, once the service has shown that it takes them so: one that does not
 * would read them as requests.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "libcloister/connection.h"

#include <errno.h>
#include <json-c/json.h>

static void put_object(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(put_object)

#define JSONRPC_INVALID_PARAMS (-32602)
#define ASK_FROM               (4 * KIB) /* base64 of less costs less than asking */

static struct json_object *params_new(int64_t call)
{
	struct json_object *params = json_object_new_object();

	if (params && json_add(params, "id", json_object_new_int64(call)) == 0)
		return params;
	json_object_put(params);
	return NULL;
}

static void on_asked(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata)
{
	bool closed;

	(void)id;
	(void)userdata;
	if (error == 0 && cloister_get_bool(reply, "/closed", &closed) == 0)
		cloister->payloads = PAYLOADS_TAKEN;
	else if (error == 0 && cloister_json_error(reply) == JSONRPC_INVALID_PARAMS)
		cloister->payloads = PAYLOADS_REFUSED;
	else
		cloister->payloads = PAYLOADS_UNKNOWN;
}

/* Asks by a request of no bytes, which an older service refuses. */
static void ask_for_input(struct cloister *cloister, int64_t call)
{
	_cleanup_json_ struct json_object *params = params_new(call);
	const struct request how = {.on_reply = on_asked};

	if (params && json_add(params, "bytes", json_object_new_int64(0)) == 0 &&
		request_start(cloister, "tool.input", params, &how, NULL) == 0)
		cloister->payloads = PAYLOADS_ASKED;
}

int cloister_start_input(struct cloister *cloister, int64_t id, const void *data, size_t len,
	bool eof, cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id)
{
	_cleanup_json_ struct json_object *params = params_new(id);
	const bool behind = cloister->payloads == PAYLOADS_TAKEN && len > 0;
	struct request how = {.on_reply = on_reply, .userdata = userdata};
	int r = params ? 0 : -ENOMEM;

	if (len > LIMIT_INPUT_BYTES)
		return -EMSGSIZE;
	if (cloister->payloads == PAYLOADS_UNKNOWN && len >= ASK_FROM)
		ask_for_input(cloister, id);
	if (behind)
		how.input = (struct text){data, len};
	if (r == 0)
		r = behind ? json_add(params, "bytes", json_object_new_int64((int64_t)len))
			   : json_add_base64(params, "data", data, len);
	if (r == 0 && !behind)
		r = json_add(params, "encoding", json_object_new_string("base64"));
	if (r == 0)
		r = json_add(params, "eof", json_object_new_boolean(eof));
	return r < 0 ? r : request_start(cloister, "tool.input", params, &how, ret_id);
}
