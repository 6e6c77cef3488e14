/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports about the network connections of commands. The functions of a struct egress_observer,
 * whose context is the struct service, count connections by tenant, keep the recent refusals, and
 * send them to watchers of events.
 */

struct egress_cell;
struct egress_closed;
struct egress_denied;
struct jsonrpc_request;
struct client;

void control_network_denied(
	void *context, const struct egress_cell *cell, const struct egress_denied *denied);
void control_network_closed(
	void *context, const struct egress_cell *cell, const struct egress_closed *closed);

/** The method denials: the recent refusals of all tenants, or of one. */
void control_denials(struct client *client, struct jsonrpc_request *request);
