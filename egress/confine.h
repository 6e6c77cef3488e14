/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Confines cloister-egress for good: no capabilities, no_new_privs, not dumpable; Landlock, which
 * leaves it to read the configuration's directory (@config; NULL: none), the resolver's files and
 * the sets of rules; and a filter, with which it makes no process, executes nothing, writes no file
 * and has sockets of the Internet only. Returns 0, or -errno with the step in @ret_step.
 */
int egress_confine(const char *config, const char **ret_step);
