/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct egress_policy;

/**
 * Confines cloister-egress for good. It drops all capabilities, sets no_new_privs and becomes not
 * dumpable. Landlock lets it read the configuration's directory (@config; NULL: none), the
 * resolver's files, the sets of rules, and the directories of certificates and of @policy's
 * secrets, and nothing else. The filter lets it make no process, execute nothing and write no file,
 * and allows sockets of the Internet only. Returns 0, or -errno with the step in @ret_step.
 */
int egress_confine(const char *config, const struct egress_policy *policy, const char **ret_step);
