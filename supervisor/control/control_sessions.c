// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: sessions, for observers and administrators, who see that there are commands in
 * the background, and nothing of what they write.
 */
#include "supervisor/control/control_sessions.h"

#include "common/limits.h"
#include "supervisor/background/background_use.h"
#include "supervisor/base/json_text.h"
#include "supervisor/config/tenant.h"
#include "supervisor/control/control.h"

struct listing {
	struct json_text json;
	size_t size; /* approximate, in bytes */
	int64_t omitted;
};

static void put_session(void *context, const struct background *background)
{
	struct listing *listing = context;
	struct json_text *json = &listing->json;
	struct background_info info;

	listing->size += LIMIT_CONTROL_ENTRY_BYTES + LIMIT_CONTROL_TEXT_BYTES;
	if (listing->size > LIMIT_CONTROL_LIST_BYTES) {
		listing->omitted++;
		return;
	}
	background_get_info(background, &info);
	json_text_object_begin(json);
	background_describe(json, &info, LIMIT_CONTROL_TEXT_BYTES);
	json_text_put_number(json, "output_bytes", (int64_t)background_output(background)->end);
	json_text_object_end(json);
}

void control_sessions(struct session *session, struct jsonrpc_request *request)
{
	struct listing listing = {0};

	if (request->notification)
		return;
	session_answer_begin(session, &listing.json, request->id_text);
	json_text_object_begin(&listing.json);
	json_text_key(&listing.json, "sessions");
	json_text_array_begin(&listing.json);
	background_foreach(put_session, &listing);
	json_text_array_end(&listing.json);
	if (listing.omitted > 0)
		json_text_put_number(&listing.json, "sessions_omitted", listing.omitted);
	json_text_object_end(&listing.json);
	session_answer_end(session, &listing.json);
}
