/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which fields of heads pass between a client and a server of a workspace. Neither trusts the
 * other. No input or output. RFC 9110, section 7.6.1.
 */

#include "gate/head.h"

#include <stdbool.h>

/** Returns the key or token that @field would show to a gate, or NULL. */
const char *port_field_credential(const struct gate_field *field);

/**
 * Whether the field @name of the request @head reaches the server: those of the connection do not,
 * and no key or token of a sandbox does, since the server is hostile. @shares_origin: pages of
 * other sandboxes have the same origin as this server, so that cookies are not passed on.
 */
bool port_field_goes_in(
	const struct gate_head *head, const struct gate_field *field, bool shares_origin);

/** Whether the field @name of an answer reaches the client; @connection is its field Connection. */
bool port_field_goes_out(const char *name, const char *connection, bool shares_origin);

/** Whether @list, the value of a field, has the element @token, in any case. */
bool port_list_has(const char *list, const char *token);

/** Whether the client asks for WebSockets and nothing else. */
bool port_wants_websocket(const struct gate_head *head);
