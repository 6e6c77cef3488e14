// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A payload may be of anybody's making, a file of a hostile project for one, and
 * its client is hostile too: nothing of it is ever read as a request.
 */
#include "supervisor/rpc/session_payload.h"

#include "supervisor/rpc/session_state.h"

#include <stdlib.h>

size_t session_payload_left(const struct session *session)
{
	return session->payload.left;
}

bool session_may_keep_payload(const struct session *session)
{
	return !session->payload.dropped &&
	       session->payload.left <=
		       session_memory_left(session, session_counted_input(session));
}

void session_payload_done(struct session_payload *payload)
{
	free(payload->id_text);
	free(payload->call_id);
	*payload = (struct session_payload){0};
}

void session_expect_payload(struct session *session, const struct session_payload *payload)
{
	session->payload = *payload;
	session->sends_payloads = true;
}

static void drop(struct session *session, size_t len)
{
	struct session_payload *payload = &session->payload;

	if (!payload->dropped)
		session_answer_busy(session, payload->id_text,
			"The requests in flight use all the memory that they may use; try again "
			"when calls have been answered");
	payload->dropped = true;
	payload->left -= len;
	if (payload->left == 0)
		session_payload_done(payload);
}

void session_payload(struct session *session, struct text part)
{
	struct session_payload payload = session->payload;

	if (payload.dropped || part.len < payload.left) {
		drop(session, part.len);
		return;
	}
	session->payload = (struct session_payload){0};
	payload.act(session, &payload, part);
	session_payload_done(&payload);
}

void session_lose_line(struct session *session)
{
	if (session->sends_payloads)
		session->connection.end(session->connection.context);
}
