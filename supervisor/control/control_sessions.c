// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: sessions, for observers and administrators, who see that there are commands in
 * the background, and nothing of what they write.
 */
#include "supervisor/control/control_sessions.h"

#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "supervisor/config/tenant.h"
#include "supervisor/control/control.h"
#include "supervisor/session/session_use.h"

struct listing {
	struct json_text json;
	size_t size; /* approximate, in bytes */
	int64_t omitted;
};

static void put_session(void *context, const struct session *session)
{
	struct listing *listing = context;
	struct json_text *json = &listing->json;
	struct session_info info;

	listing->size += LIMIT_CONTROL_ENTRY_BYTES + LIMIT_CONTROL_TEXT_BYTES;
	if (listing->size > LIMIT_CONTROL_LIST_BYTES) {
		listing->omitted++;
		return;
	}
	session_get_info(session, &info);
	json_text_object_begin(json);
	session_describe(json, &info, LIMIT_CONTROL_TEXT_BYTES);
	json_text_put_uint64(json, "output_bytes", session_output(session)->end);
	json_text_object_end(json);
}

void control_sessions(struct client *client, struct jsonrpc_request *request)
{
	struct listing listing = {0};

	if (request->notification)
		return;
	client_answer_begin(client, &listing.json, request->id_text);
	json_text_put_array(&listing.json, "sessions");
	session_foreach(put_session, &listing);
	json_text_array_end(&listing.json);
	if (listing.omitted > 0)
		json_text_put_number(&listing.json, "sessions_omitted", listing.omitted);
	client_answer_end(client, &listing.json);
}
