/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct egress_policy;

/**
 * Confines cloister-egress for good: no capabilities, no_new_privs, not dumpable; Landlock, which
 * leaves it to read the configuration's directory (@config; NULL: none), the resolver's files, the
 * sets of rules, and the directories of certificates and of the secrets in @policy; and a filter,
 * with which it makes no process, executes nothing, writes no file and has sockets of the Internet
 * only. Returns 0, or -errno with the step in @ret_step.
 */
int egress_confine(const char *config, const struct egress_policy *policy, const char **ret_step);
