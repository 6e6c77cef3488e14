/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tells who asked for it at the control socket when a call begins and when it has ended. */

struct call;
struct json_text;
struct jsonrpc_request;
struct observation;
struct session;

/** The method: from now on the client is told. */
void control_events(struct session *session, struct jsonrpc_request *request);

/* A struct call_observer; its context is not used. */
void control_events_begun(void *context, const struct call *call);
void control_events_ended(
	void *context, const struct call *call, const struct observation *observation);

/** Tells everybody who watches of @event; @put writes its members. */
void control_events_tell(
	const char *event, void (*put)(void *context, struct json_text *json), void *context);

/** The client is gone. */
void control_events_leave(struct session *session);
