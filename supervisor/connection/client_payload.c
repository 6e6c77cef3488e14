// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is hostile, and so is the payload, such as a file of a hostile
 * project: no byte of it is ever read as a request.
 */
#include "supervisor/connection/client_payload.h"

#include "supervisor/connection/client_state.h"

size_t client_payload_left(const struct client *client)
{
	return client->payload.left;
}

bool client_may_keep_payload(const struct client *client)
{
	return !client->payload.dropped &&
	       client->payload.left <= client_memory_left(client, client_counted_input(client));
}

void client_expect_payload(struct client *client, const struct client_payload *payload)
{
	client->payload = *payload;
	client->sends_payloads = true;
}

static void drop_payload(struct client *client, size_t len)
{
	struct client_payload *payload = &client->payload;

	if (!payload->dropped)
		client_answer_busy(client, payload->id_text,
			"The requests in flight use all the memory that they may use; try again "
			"when calls have been answered");
	payload->dropped = true;
	payload->left -= len;
	if (payload->left == 0)
		client_payload_done(payload);
}

void client_payload(struct client *client, struct text part)
{
	struct client_payload payload = client->payload;

	if (payload.dropped || part.len < payload.left) {
		drop_payload(client, part.len);
		return;
	}
	client->payload = (struct client_payload){0};
	payload.act(client, &payload, part);
	client_payload_done(&payload);
}
