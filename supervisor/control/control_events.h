/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends an event at the beginning and end of each call to the clients of the control socket that
 * asked for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct json_text;
struct jsonrpc_request;
struct observation;
struct refused;
struct refusals_told;
struct client;

/** The method: from now on the client gets events. */
void control_events(struct client *client, struct jsonrpc_request *request);

/* Functions of a struct call_observer; its context is not used. */
/** How many watch; the next two need not be called while nobody does. */
extern size_t control_watchers;
void control_events_begun(void *context, const struct call *call);
void control_events_ended(
	void *context, const struct call *call, const struct observation *observation);

void control_events_refused(void *context, const struct refused *refused);

/**
 * Whether one more refusal is sent. Refusals cost a client nothing, and each is written for every
 * watcher. So only LIMIT_REFUSALS_TOLD a second of those that share @told are written. If it is,
 * stores how many before it were not.
 */
bool control_events_due(struct refusals_told *told, uint64_t *ret_untold);

/** Sends @event to all clients that watch; @put writes its members. */
void control_events_tell(
	const char *event, void (*put)(void *context, struct json_text *json), void *context);

/** Ends watching, because the client is gone. */
void control_events_leave(struct client *client);
