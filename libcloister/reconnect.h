/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls that survive a lost connection: cloister_set_reconnect(). */

#include "libcloister/cloister.h"

/** Remembers @workspace, whose opening was answered with @reply, to open it again. */
void reconnect_note_workspace(
	struct cloister *cloister, const char *workspace, const struct cloister_message *reply);

/** The connection's workspaces change otherwise: calls are not repeated from now on. */
void reconnect_forget_workspace(struct cloister *cloister);

/** Whether @call is one for reconnect_call(). */
bool reconnect_wants_key(const struct cloister *cloister, const struct cloister_tool_call *call);

/** As cloister_call(), but repeats the call if the connection is lost. */
int reconnect_call(struct cloister *cloister, const struct cloister_tool_call *call,
	struct cloister_message **ret_reply);
