/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tells who asked for it at the control socket when a call begins and when it has ended. */

struct call;
struct observation;
struct session;

void control_events_begun(const struct call *call);
void control_events_ended(const struct call *call, const struct observation *observation);

/** The client is gone. */
void control_events_leave(struct session *session);
