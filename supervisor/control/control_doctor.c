// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: doctor, for observers and administrators. It reports tests that were made at
 * start, before lock-down made them impossible.
 */
#include "supervisor/control/control_doctor.h"

#include "supervisor/control/control.h"
#include "supervisor/host/features.h"

static void put_feature(void *context, const struct feature_report *report)
{
	struct json_text *json = context;

	json_text_object_begin(json);
	json_text_put(json, "feature", report->name);
	json_text_put_bool(json, "present", report->present);
	json_text_put(json, "cost", report->present ? NULL : report->cost);
	json_text_put(json, "fix", report->present ? NULL : report->remedy);
	json_text_object_end(json);
}

void control_doctor(struct session *session, struct jsonrpc_request *request)
{
	struct json_text json;

	if (request->notification)
		return;
	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "features");
	json_text_array_begin(&json);
	features_each(put_feature, &json);
	json_text_array_end(&json);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}
