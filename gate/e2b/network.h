/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The network of a sandbox: E2B's rules as the rules of workspace.open, which only ever narrow. */

struct json_object;
struct op;

/**
 * Reads "allow_internet_access" of the body of @op, and the rules in @network, which is the body or
 * a member of it. Returns 0 with *ret_network, the parameter network of workspace.open, or NULL if
 * the tenant's rules hold as they are. Otherwise returns -EINVAL, and the op has been answered with
 * the rule that cannot hold.
 */
int network_read(struct op *op, struct json_object *network, struct json_object **ret_network);
