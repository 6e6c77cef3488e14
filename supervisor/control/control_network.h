/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions of a struct egress_observer, whose context is the struct service: they count what the
 * commands of a tenant do on the network, and tell of refusals those who watch events.
 */

struct egress_cell;
struct egress_closed;
struct egress_denied;

void control_network_denied(
	void *context, const struct egress_cell *cell, const struct egress_denied *denied);
void control_network_closed(
	void *context, const struct egress_cell *cell, const struct egress_closed *closed);
