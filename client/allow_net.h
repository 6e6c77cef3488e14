/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the rules of --allow-net before a cloisterd is started with them, against the networks of
 * --allow-private-net (both ended by NULL): a host that can only be refused later is refused now.
 * Returns 0, or -EINVAL after printing why.
 */
int allow_net_check(const char *const *rules, const char *const *networks);
