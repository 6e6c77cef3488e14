// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: sessions, for observers and administrators, who see that there are commands in
 * the background, and nothing of what they write.
 */
#include "supervisor/control/control_methods.h"

#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "supervisor/config/tenant.h"
#include "supervisor/control/control.h"
#include "supervisor/session/session_use.h"

static void put_listed_session(void *context, const struct session *session)
{
	struct control_list *list = context;
	struct json_text *json = &list->json;
	struct session_info info;

	if (!control_list_has_room(list, LIMIT_CONTROL_TEXT_BYTES))
		return;
	session_get_info(session, &info);
	json_text_object_begin(json);
	session_describe(json, &info, LIMIT_CONTROL_TEXT_BYTES);
	json_text_put_uint64(json, "output_bytes", session_output(session)->end);
	json_text_object_end(json);
}

void control_sessions(struct client *client, struct jsonrpc_request *request)
{
	struct control_list list;

	if (request->notification)
		return;
	client_answer_begin(client, &list.json, request->id_text);
	control_list_begin(&list, "sessions");
	session_foreach(put_listed_session, &list);
	control_list_end(&list);
	client_answer_end(client, &list.json);
}
