// SPDX-License-Identifier: Apache-2.0
/* Runs in the clients. The service's messages may quote hostile text. */
#include "client/reply.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "json/json_read.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

int request(struct cloister *cloister, const char *method, struct json_object *params,
	struct cloister_message **ret_reply)
{
	const char *text = json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN);
	int r = text ? cloister_request(cloister, method, text, ret_reply) : -ENOMEM;

	json_object_put(params);
	return r;
}

struct json_object *reply_result(const struct cloister_message *reply)
{
	const struct json_bounds bounds = {LIMIT_CLIENT_VALUES, LIMIT_CLIENT_MEMORY_BYTES};
	struct json_object *result = NULL;
	struct json_report report;
	const char *text;

	if (cloister_json_error(reply) != 0)
		return NULL;
	text = cloister_get_json(reply, "", false);
	if (text)
		(void)json_read(text_from(text), &bounds, &result, &report);
	return result;
}

int reply_complain(const struct cloister_message *reply)
{
	const char *message = cloister_error_message(reply), *name = cloister_error_name(reply);
	int number = cloister_json_error(reply);
	_cleanup_free_ char *escaped =
		terminal_text(message ? message : "the service sent an invalid answer");
	_cleanup_free_ char *escaped_name = name ? terminal_text(name) : NULL;

	message = escaped ? escaped : "out of memory";
	if (name && complains_json())
		complain_code(name, "%s", message);
	else if (name)
		complain("%s (%s)", message, escaped_name ? escaped_name : "?");
	else
		complain("%s", message);
	if (number == CLOISTER_JSON_PARSE_ERROR || number == CLOISTER_JSON_INVALID_REQUEST ||
		number == CLOISTER_JSON_INVALID_PARAMS)
		return STATUS_USAGE;
	return STATUS_NO_SERVICE;
}

void connection_complain(int error)
{
	if (error == -ECONNRESET)
		complain_code("NO_SERVICE", "cloisterd closed the connection before it answered");
	else if (error == -EBADMSG)
		complain("cloisterd sent a line that is not a JSON message");
	else if (error == -EINVAL)
		complain_code("USAGE", "an argument is not UTF-8 text");
	else if (error == -EPROTO)
		complain("cloisterd sent an invalid message");
	else
		complain("the connection to cloisterd failed: %s", strerror(-error));
}

int request_result(struct cloister *cloister, const char *method, struct json_object *params,
	struct json_object **ret_result)
{
	_cleanup_message_ struct cloister_message *reply = NULL;
	int r = request(cloister, method, params, &reply);

	if (r < 0) {
		connection_complain(r);
		return STATUS_NO_SERVICE;
	}
	if (!cloister_succeeded(reply))
		return reply_complain(reply);
	if (ret_result)
		*ret_result = reply_result(reply);
	return STATUS_OK;
}

int request_print(struct cloister *cloister, const char *method, struct json_object *params,
	bool json, void (*print)(struct json_object *result))
{
	struct json_object *result = NULL;
	int status = request_result(cloister, method, params, &result);

	if (status != STATUS_OK)
		return status;
	if (json)
		terminal_put_json(json_object_to_json_string_ext(result, PRINTED_JSON));
	else
		print(result);
	json_object_put(result);
	return STATUS_OK;
}
